/*
** machine.c - what the machine and its cgroups leave, as files say it that lie below a folder of
** this program's instead of /proc and /sys; which level a CPU takes that has some features.
*/

#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];
static int cores, reads;           /* that this process may use; 0: that is not known */
static size_t most;                /* bytes that were asked for at once */

static const char *below (const char *path, char whole[512]) {
  snprintf(whole, 512, "%s%s", root, path);
  return whole;
}

static int open_below (const char *path, int flags) {
  char whole[512];
  return open(below(path, whole), flags);
}

/* A few bytes at a time, and a signal before the first. */
static ssize_t read_some (int file, void *to, size_t n) {
  if (n > most) most = n;
  if (reads++ == 0) { errno = EINTR; return -1; }
  return read(file, to, n < 7 ? n : 7);
}

static int affinity (int process, size_t size, cpu_set_t *set) {
  (void)process;
  memset(set, 0, size);
  for (int i = 0; i < cores; i++) CPU_SET(i, set);
  return cores > 0 ? 0 : -1;
}

#if defined(__x86_64__)
#include <cpuid.h>

static int lacks_counter;

static int leaf_of (unsigned leaf, unsigned *a, unsigned *b, unsigned *c, unsigned *d) {
  const int there = __get_cpuid(leaf, a, b, c, d);
  if (lacks_counter) *d &= ~(1u << 8);
  return there;
}

#define __get_cpuid leaf_of
#endif

#define open open_below
#define read read_some
#define sched_getaffinity affinity
#define machine_memory memory_here
#define machine_resident resident_here
#define machine_cores cores_here
#define machine_clock clock_here
#define machine_tick tick_here
#define machine_counts counts_here
#include "../../src/memory/machine.c"
#undef open
#undef read

#if defined(__x86_64__)
static const char *features;       /* of the CPU, each behind a space */

static bool has (const char *feature) {
  const size_t n = strlen(feature);
  for (const char *at = features; (at = strstr(at, feature)) != NULL; at += n)
    if (at[-1] == ' ' && (at[n] == ' ' || at[n] == '\0')) return true;
  return false;
}

#define __builtin_cpu_init() (void)0
#define __builtin_cpu_supports has
#define __builtin_cpu_is has
#define cpu_level_find level_here
#define cpu_level_best best_here
#define cpu_level_name name_here
#define cpu_reads_alone alone_here
#include "../../src/cpu/levels.c"
#endif

static int failed;

static void check (bool good, const char *what) {
  if (good) return;
  printf("machine: %s: wrong\n", what);
  failed = 1;
}

static void make_folders (char *path) {
  for (char *c = path + strlen(root) + 1; *c != '\0'; c++) {
    if (*c != '/') continue;
    *c = '\0';
    mkdir(path, 0700);
    *c = '/';
  }
}

/* NULL: there is no such file. */
static void file (const char *path, const char *text) {
  char whole[512];
  below(path, whole);
  make_folders(whole);
  unlink(whole);
  if (text == NULL) return;
  FILE *f = fopen(whole, "w");
  check(f != NULL && fputs(text, f) >= 0, "a file");
  if (f != NULL) fclose(f);
}

static size_t memory (void) {
  reads = 0;
  return machine_memory();
}


/*
** {==================================================================
** Memory
** ===================================================================
*/

static void memory_of_machine (void) {
  check(memory() == SIZE_MAX, "no file says how much there is");
  file("/proc/meminfo", "MemTotal: 99999 kB\nMemAvailable:    1600 kB\nMemFree: 5 kB\n");
  check(memory() == 1500 * 1024, "a sixteenth is kept back");
  file("/proc/meminfo", "MemTotal: 99999 kB\nXMemAvailable: 1600 kB\n");
  check(memory() == SIZE_MAX, "a word at the begin of a line alone");
  file("/proc/meminfo", "MemAvailable: none\n");
  check(memory() == SIZE_MAX, "a word without a number");
  char text[4200];
  memset(text, 'x', sizeof text);
  memcpy(text, "MemAvailable: 1600 kB\n", 22);
  text[sizeof text - 1] = '\0';
  file("/proc/meminfo", text);
  check(memory() == 1500 * 1024, "a file that is too long matters at its start");
  check(most == FILE_CAPACITY - 1, "a byte is left for the end of a text");
  file("/proc/meminfo", "MemAvailable: 1600 kB\n");
}

/* Version 2: one line, and files whose limit may be a word. */
static void memory_of_cgroup (void) {
  file("/proc/self/cgroup", "0::/a/b\n");
  check(memory() == 1500 * 1024, "a cgroup without files");
  file("/sys/fs/cgroup/a/b/memory.max", "max\n");
  check(memory() == 1500 * 1024, "a cgroup without a limit");
  file("/sys/fs/cgroup/a/b/memory.max", "160000\n");
  check(memory() == 150000, "a limit");
  file("/sys/fs/cgroup/a/b/memory.current", "64000\n");
  check(memory() == 90000, "what is in use");
  file("/sys/fs/cgroup/a/b/memory.stat", "active_file 3\ninactive_file 32000\nslab 7\n");
  check(memory() == 120000, "pages of files that are not in use");
  file("/sys/fs/cgroup/a/b/memory.stat", "active_file 3\ninactive_file 99000\n");
  check(memory() == 150000, "more of them than are in use");
  file("/sys/fs/cgroup/a/b/memory.stat", NULL);
  file("/sys/fs/cgroup/a/b/memory.current", "160000\n");
  check(memory() == 0, "nothing is left");
  file("/sys/fs/cgroup/a/b/memory.current", "990000\n");
  check(memory() == 0, "more is in use than the limit");
  file("/sys/fs/cgroup/a/b/memory.current", NULL);
  file("/sys/fs/cgroup/a/memory.max", "32000\n");
  check(memory() == 30000, "a limit of the folder above");
  file("/sys/fs/cgroup/memory.max", "16000\n");
  check(memory() == 15000, "a limit at the top");
  file("/sys/fs/memory.max", "1600\n");
  check(memory() == 15000, "what lies above is no cgroup");
  file("/sys/fs/cgroup/memory.max", NULL);
  file("/sys/fs/cgroup/a/memory.max", NULL);
  file("/sys/fs/cgroup/a/b/memory.max", NULL);
}

/* Version 1: a line for some controllers. */
static void memory_of_controller (void) {
  file("/proc/self/cgroup", "no line\n9:cpu,cpuacct:/c\n8:memory2,mem:/no\n7:net,memory:/d\n");
  file("/sys/fs/cgroup/memory/d/memory.limit_in_bytes", "160000\n");
  check(memory() == 150000, "a limit");
  file("/sys/fs/cgroup/memory/d/memory.usage_in_bytes", "64000\n");
  file("/sys/fs/cgroup/memory/d/memory.stat", "total_inactive_file 32000\n");
  check(memory() == 120000, "what is in use");
  file("/sys/fs/cgroup/memory/no/memory.limit_in_bytes", "1600\n");
  file("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1600\n");
  check(memory() == 120000, "no other controller's");
  file("/proc/self/cgroup", "7:net,cpu:/d\n");
  check(memory() == 1500 * 1024, "no controller of memory");
  file("/proc/self/cgroup", "7:memory:/d\n");
  check(memory() == 120000, "one controller");
  file("/sys/fs/cgroup/memory/d/memory.limit_in_bytes", "9223372036854771712\n");
  check(memory() == 1500 * 1024, "a limit that is none");
}

/* }================================================================== */


static size_t resident (void) {
  reads = 0;
  return machine_resident();
}

static void resident_memory (void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  check(resident() == 0, "no file says it");
  file("/proc/self/statm", "500 7 3 1 0 2 0\n");
  check(resident() == 7 * page, "the second number");
  file("/proc/self/statm", "500\n");
  check(resident() == 0, "there is no second number");
}


static int cores_now (void) {
  reads = 0;
  return machine_cores();
}

static void cores_that_are_allowed (void) {
  file("/proc/self/cgroup", NULL);
  cores = 5;
  check(cores_now() == 5, "cores of this process");
  cores = 0;
  check(cores_now() == (int)sysconf(_SC_NPROCESSORS_ONLN), "cores of the machine");
  cores = 8;
  file("/proc/self/cgroup", "3:cpu,cpuacct:/c\n");
  file("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "250000\n");
  check(cores_now() == 8, "a quota without a period");
  file("/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
  check(cores_now() == 3, "a quota of two and a half");
  file("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "200000\n");
  check(cores_now() == 2, "one of two");
  file("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "-1\n");
  check(cores_now() == 8, "none");
  file("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "0\n");
  check(cores_now() == 1, "one core at least");
  file("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "200000\n");
  file("/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "0\n");
  check(cores_now() == 8, "a period of 0");
  file("/proc/self/cgroup", "0::/e\n");
  file("/sys/fs/cgroup/e/cpu.max", "150000 100000\n");
  check(cores_now() == 2, "version 2");
  file("/sys/fs/cgroup/e/cpu.max", "max 100000\n");
  check(cores_now() == 8, "version 2 without a quota");
  file("/sys/fs/cgroup/e/cpu.max", "150000\n");
  check(cores_now() == 8, "version 2 without a period");
}


static void __attribute__((noinline)) fill_stack (char value) {
  volatile char some[1 << 14];
  for (size_t i = 0; i < sizeof some; i++) some[i] = value;
}

/* Without a line that names it there is no path: none is made of what the stack held. */
static void cores_of_no_cgroup (void) {
  file("/proc/self/cgroup", "7:net:/d\n");
  file("/cpu.max", "100000 100000\n");
  file("/cpu.cfs_quota_us", "100000\n");
  file("/cpu.cfs_period_us", "100000\n");
  fill_stack('/');
  check(cores_now() == 8, "no line says which cgroup it is");
  file("/proc/self/cgroup", NULL);
  fill_stack('/');
  check(cores_now() == 8, "no file says it");
}


static void clocks_go_on (void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  const int64_t before = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec, now = machine_clock();
  clock_gettime(CLOCK_MONOTONIC, &t);
  check(before <= now && now <= (int64_t)t.tv_sec * 1000000000 + t.tv_nsec, "the clock");
  check(machine_tick() > now - 1000000000 && machine_tick() <= machine_clock(), "the last tick");
}


#if defined(__x86_64__)

/* A level takes all its features: without one of them it is another. */
static void levels_of_features (void) {
  static const struct { const char *features, *best; } some[] = {
    {" avx512f avx512bw avx512dq avx512vl", "base"}, {" avx2", "base"}, {" fma", "base"},
    {" avx2 fma", "avx2"}, {" fma avx2 avx512bw avx512dq avx512vl", "avx2"},
    {" fma avx2 avx512f avx512dq avx512vl", "avx2"},
    {" fma avx2 avx512f avx512bw avx512vl", "avx2"},
    {" fma avx2 avx512f avx512bw avx512dq", "avx2"},
    {" fma avx2 avx512f avx512bw avx512dq avx512vl", "avx512"}
  };
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
    features = some[i].features;
    const char *best = cpu_level_best()->name;
    check(strcmp(best, some[i].best) == 0, "the best level");
    check((cpu_level_find("avx2") != NULL) == (strcmp(best, "base") != 0), "avx2");
    check((cpu_level_find("avx512") != NULL) == (strcmp(best, "avx512") == 0), "avx512");
    check(cpu_level_find("base") != NULL && cpu_level_find("neon") == NULL, "other levels");
  }
  features = " intel";
  check(!cpu_reads_alone(), "another's CPU");
  features = " amd";
  check(cpu_reads_alone(), "AMD's CPU");
}

/* The counter counts where the system says so, and where this process may read it. */
static void counter_counts (void) {
  char word[64] = "";
  bool said = false;
  FILE *f = fopen("/proc/cpuinfo", "r");
  while (!said && f != NULL && fscanf(f, "%63s", word) == 1)
    said = strcmp(word, "nonstop_tsc") == 0;
  if (f != NULL) fclose(f);
  check(machine_counts() || !said, "a counter of one speed");
  lacks_counter = 1;
  check(!machine_counts(), "a counter of several");
  lacks_counter = 0;
  if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV) != 0) return;
  const bool counts = machine_counts();
  prctl(PR_SET_TSC, PR_TSC_ENABLE);
  check(!counts, "a counter that nobody may read");
}

#endif


int main (void) {
  char command[128];
  snprintf(root, sizeof root, "/tmp/heed-machine-XXXXXX");
  if (mkdtemp(root) == NULL) return 1;
  memory_of_machine();
  memory_of_cgroup();
  memory_of_controller();
  resident_memory();
  cores_that_are_allowed();
  cores_of_no_cgroup();
  clocks_go_on();
#if defined(__x86_64__)
  levels_of_features();
  counter_counts();
#endif
  snprintf(command, sizeof command, "rm -r %s", root);
  check(system(command) == 0, "files that are gone");
  if (!failed) puts("machine: as its files say");
  return failed;
}
