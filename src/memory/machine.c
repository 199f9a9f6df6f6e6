/*
** machine.c - what the machine and its cgroup leave to this process; its clock.
**
** A cgroup's limit holds for all below it, so each directory from our own up to the root is
** read. Inside a container the path names directories of the host that are not there: then the
** root of the mount, which is the container's own, is what can be read.
*/

#define _GNU_SOURCE                /* sched_getaffinity */

#include "memory/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/prctl.h>
#endif

#define FILE_CAPACITY 4096         /* files are shorter, or matter at their start */
#define PATH_CAPACITY 1024


/*
** {==================================================================
** Files of /proc and /sys
** ===================================================================
*/

static bool read_file (const char *path, char text[FILE_CAPACITY]) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  size_t length = 0;
  ssize_t got;
  do {
    got = read(file, text + length, FILE_CAPACITY - 1 - length);
    if (got > 0) length += (size_t)got;
  } while (got > 0 || (got < 0 && errno == EINTR));
  close(file);
  text[length] = '\0';
  return got == 0;
}


/* The number at the start of a line that begins with 'word'. */
static bool number_after (const char *text, const char *word, uint64_t *number) {
  size_t length = strlen(word);
  while (strncmp(text, word, length) != 0) {
    text = strchr(text, '\n');
    if (text++ == NULL) return false;
  }
  return sscanf(text + length, "%" SCNu64, number) == 1;
}


static bool number_in (const char *directory, const char *file, const char *word,
                       uint64_t *number) {
  char path[PATH_CAPACITY + 64], text[FILE_CAPACITY];
  snprintf(path, sizeof path, "%s/%s", directory, file);
  return read_file(path, text) && number_after(text, word, number);
}

/* }================================================================== */


/*
** {==================================================================
** cgroups, of both versions
** ===================================================================
*/

typedef struct cgroup {
  const char *controller;          /* in /proc/self/cgroup: "" is version 2 */
  const char *mount;
} cgroup;

/* Is 'word' among the words of "cpu,cpuacct"? */
static bool among (const char *words, const char *word) {
  size_t length = strlen(word);
  for (;;) {
    size_t n = strcspn(words, ",");
    if (n == length && strncmp(words, word, length) == 0) return true;
    if (words[n] == '\0') return false;
    words += n + 1;
  }
}


/* Our path in a hierarchy: in the line "7:cpu,cpuacct:/path", or "0::/path". */
static bool find_path (const cgroup *group, char path[PATH_CAPACITY]) {
  char text[FILE_CAPACITY], *rest;
  if (!read_file("/proc/self/cgroup", text)) return false;
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    char *words = strchr(line, ':'), *end = words != NULL ? strchr(words + 1, ':') : NULL;
    if (end == NULL) continue;
    *end = '\0';
    if (!among(words + 1, group->controller)) continue;
    snprintf(path, PATH_CAPACITY, "%s%s", group->mount, end + 1);
    return true;
  }
  return false;
}


/* The least value of 'value_of' for our directory and those above it. */
static uint64_t least_of (const cgroup *group, uint64_t (*value_of) (const char *directory)) {
  char path[PATH_CAPACITY];
  uint64_t least = UINT64_MAX;
  if (!find_path(group, path)) return least;
  while (strlen(path) >= strlen(group->mount)) {
    uint64_t value = value_of(path);
    if (value < least) least = value;
    *strrchr(path, '/') = '\0';     /* the mount begins with one */
  }
  return least;
}


/* Cached pages of files that were not used lately are freed before a process is killed. */
static uint64_t left (uint64_t limit, uint64_t used, uint64_t files) {
  used -= files < used ? files : used;
  return limit > used ? limit - used : 0;
}


static uint64_t memory_1 (const char *directory) {
  uint64_t limit, used = 0, files = 0;
  if (!number_in(directory, "memory.limit_in_bytes", "", &limit)) return UINT64_MAX;
  number_in(directory, "memory.usage_in_bytes", "", &used);
  number_in(directory, "memory.stat", "total_inactive_file ", &files);
  return left(limit, used, files);
}


static uint64_t memory_2 (const char *directory) {
  uint64_t limit, used = 0, files = 0;
  if (!number_in(directory, "memory.max", "", &limit)) return UINT64_MAX;   /* or "max" */
  number_in(directory, "memory.current", "", &used);
  number_in(directory, "memory.stat", "inactive_file ", &files);
  return left(limit, used, files);
}


static uint64_t cores_of (uint64_t quota, uint64_t period) {
  return period > 0 && quota <= INT64_MAX ? (quota + period - 1) / period : UINT64_MAX;
}


static uint64_t cores_1 (const char *directory) {
  uint64_t quota, period;          /* a quota of -1, none, is read as the largest */
  return number_in(directory, "cpu.cfs_quota_us", "", &quota) &&
         number_in(directory, "cpu.cfs_period_us", "", &period) ? cores_of(quota, period)
                                                                : UINT64_MAX;
}


static uint64_t cores_2 (const char *directory) {
  char path[PATH_CAPACITY + 64], text[FILE_CAPACITY];
  uint64_t quota, period;          /* "200000 100000", or "max 100000" */
  snprintf(path, sizeof path, "%s/cpu.max", directory);
  return read_file(path, text) && sscanf(text, "%" SCNu64 " %" SCNu64, &quota, &period) == 2
         ? cores_of(quota, period) : UINT64_MAX;
}

/* }================================================================== */


static uint64_t least (uint64_t a, uint64_t b) { return a < b ? a : b; }


size_t machine_memory (void) {
  const cgroup one = {"memory", "/sys/fs/cgroup/memory"}, two = {"", "/sys/fs/cgroup"};
  uint64_t n = UINT64_MAX, kilobytes;
  if (number_in("/proc", "meminfo", "MemAvailable:", &kilobytes)) n = kilobytes * 1024;
  n = least(n, least(least_of(&one, memory_1), least_of(&two, memory_2)));
  return n < UINT64_MAX ? (size_t)(n - n / 16) : SIZE_MAX;
}


size_t machine_resident (void) {
  char text[FILE_CAPACITY];
  uint64_t pages;
  if (!read_file("/proc/self/statm", text) || sscanf(text, "%*u %" SCNu64, &pages) != 1) return 0;
  return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}


static uint64_t allowed_cores (void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return (uint64_t)CPU_COUNT(&set);
  long n = sysconf(_SC_NPROCESSORS_ONLN);                /* more CPUs than a set holds */
  return n > 0 ? (uint64_t)n : 1;
}


int machine_cores (void) {
  const cgroup one = {"cpu", "/sys/fs/cgroup/cpu"}, two = {"", "/sys/fs/cgroup"};
  uint64_t quota = least(least_of(&one, cores_1), least_of(&two, cores_2));
  uint64_t n = least(allowed_cores(), least(quota, INT32_MAX));
  return n > 0 ? (int)n : 1;
}


static int64_t nanoseconds (clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}


int64_t machine_clock (void) { return nanoseconds(CLOCK_MONOTONIC); }


int64_t machine_tick (void) {
#if defined(CLOCK_MONOTONIC_COARSE)
  return nanoseconds(CLOCK_MONOTONIC_COARSE);
#else
  return machine_clock();
#endif
}


/* The bit of the processor's that says that its counter runs at one speed: leaf 0x80000007. */
bool machine_counts (void) {
#if defined(__x86_64__)
  unsigned a, b, c, d = 0;
  int may = PR_TSC_ENABLE;
  if (!__get_cpuid(0x80000007u, &a, &b, &c, &d) || (d >> 8 & 1) == 0) return false;
  return prctl(PR_GET_TSC, &may) != 0 || may == PR_TSC_ENABLE;
#else
  return false;
#endif
}
