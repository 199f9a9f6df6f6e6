/*
** mapped.c - a file that several processes map is in memory once; one that becomes shorter stops
** calls on any thread and no process; the host's own handler of SIGBUS is called and comes back.
*/

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failing.h"
#include "heed.h"
#include "heed_search.h"

enum { N = 2 << 20, BYTES = N * 4, WORKERS = 4, LIMIT = 60 };      /* seconds */

static int wrong = 0;

static void check (bool good, const char *what) {
  if (!good) printf("mapped: %s: wrong\n", what);
  wrong |= !good;
}


/* A file of ones that has no name any more, open for reading and writing. */
static int make_file (void) {
  char path[] = "/tmp/heed-mapped-XXXXXX";
  int file = mkstemp(path);
  unlink(path);
  float *ones = malloc(BYTES);
  for (int i = 0; i < N; i++) ones[i] = 1;
  check(write(file, ones, BYTES) == BYTES, "a file");
  free(ones);
  return file;
}


static heed_tensor *map_whole (heed_context *cx, int file) {
  heed_mapping *m = heed_map(cx, file, "ones");
  heed_tensor *t = heed_map_tensor(m, HEED_FLOAT32, 1, (int64_t[]){N}, 0);
  heed_unmap(m);                         /* the tensor owns it */
  return t;
}


/* Its sum; -1: a failure. */
static double sum_of (heed_context *cx, heed_tensor *t) {
  double sum = -1;
  heed_tensor *y = heed_call(cx, HEED_sum, (heed_value[]){heed_t(t)}, 1);
  if (!heed_read(y, HEED_FLOAT64, &sum)) sum = -1;
  heed_drop(y);
  return sum;
}


static bool has_failed (heed_context *cx, const char *part) {
  const char *message = heed_error(cx);
  bool has = message != NULL && strstr(message, part) != NULL;
  if (!has) printf("mapped: the message is %s\n", message != NULL ? message : "none");
  heed_clear(cx);
  return has;
}


/*
** {==================================================================
** Processes
** ===================================================================
*/

/* Kilobytes of the mapping of an address that count for this process; -1: not known. */
static long share_of (const void *address) {
  char line[256];
  unsigned long first, last;
  bool inside = false;
  long share = -1;
  FILE *f = fopen("/proc/self/smaps", "r");
  while (f != NULL && share < 0 && fgets(line, sizeof line, f) != NULL) {
    if (sscanf(line, "%lx-%lx ", &first, &last) == 2)
      inside = first <= (uintptr_t)address && (uintptr_t)address < last;
    else if (inside) sscanf(line, "Pss: %ld kB", &share);
  }
  if (f != NULL) fclose(f);
  return share;
}


/* Pipes: a worker writes a byte when it has done a step; the parent closes one to let all go on. */
typedef struct steps { int done[2], measure[2], leave[2]; } steps;


/* Says that a step is done, and waits until all have done it. */
static bool step (const steps *s, const int *next) {
  char byte = 0;
  return write(s->done[1], &byte, 1) == 1 && read(next[0], &byte, 1) == 0;
}


/* Reads all of the file, and looks at its share of it while all others have read it too. */
static int work (heed_context *cx, int file, const steps *s) {
  alarm(LIMIT);
  close(s->measure[1]);
  close(s->leave[1]);
  heed_tensor *t = map_whole(cx, file);
  bool good = sum_of(cx, t) == N;
  good = step(s, s->measure) && good;
  long share = share_of(heed_data(t));
  good = good && 0 < share && share * 1024 <= BYTES / WORKERS + BYTES / 8;
  good = step(s, s->leave) && good;
  heed_drop(t);
  return good ? 0 : 1;
}


static void let_all (const steps *s, const int *next) {
  char byte;
  for (int i = 0; i < WORKERS; i++) check(read(s->done[0], &byte, 1) == 1, "a worker's word");
  close(next[1]);
}


static void workers_share_pages (void) {
  steps s;
  int file = make_file();
  heed_context *cx = heed_open(&(heed_host){.threads = 1});
  check(pipe(s.done) == 0 && pipe(s.measure) == 0 && pipe(s.leave) == 0, "pipes");
  for (int i = 0; i < WORKERS; i++)
    if (fork() == 0) _exit(work(cx, file, &s));
  close(s.done[1]);
  let_all(&s, s.measure);
  let_all(&s, s.leave);
  for (int i = 0; i < WORKERS; i++) {
    int status = 1;
    check(wait(&status) > 0 && status == 0, "a worker's share");
  }
  close(s.done[0]);
  close(s.measure[0]);
  close(s.leave[0]);
  close(file);
  heed_close(cx);
}

/* }================================================================== */


/*
** {==================================================================
** Files that become shorter
** ===================================================================
*/

static void lost_pages_stop_calls (void) {
  int file = make_file(), other = make_file();
  heed_context *cx = heed_open(&(heed_host){.threads = 4});
  heed_tensor *t = map_whole(cx, file), *second = map_whole(cx, other);
  check(ftruncate(file, 4096) == 0, "a shorter file");
  check(sum_of(cx, t) == -1 && has_failed(cx, "ones became shorter"), "a lost file");
  check(sum_of(cx, second) == -1 && has_failed(cx, "ones became shorter"), "calls after it");
  check(ftruncate(other, 4096) == 0, "another one");
  volatile float *data = heed_data(second);
  check(data[1024] == 0, "zeros where the file was");      /* from here to the end */
  heed_drop(t);
  check(sum_of(cx, second) == -1 && has_failed(cx, "ones became shorter"), "the other lost file");
  heed_drop(second);
  heed_tensor *one = heed_number(cx, 1);
  check(sum_of(cx, one) == 1, "calls after both");
  heed_drop(one);
  heed_close(cx);
  close(file);
  close(other);
}


/* The caller's part of the file is still there: another thread meets the first lost page. */
static void threads_survive (void) {
  for (int i = 0; i < 8; i++) {
    int file = make_file();
    heed_context *cx = heed_open(&(heed_host){.threads = 4});
    heed_tensor *t = map_whole(cx, file);
    check(ftruncate(file, BYTES / 2) == 0, "half a file");
    heed_tensor *y = heed_call(cx, HEED_tan, (heed_value[]){heed_t(t)}, 1);    /* takes long */
    check(y == NULL && has_failed(cx, "became shorter"), "half a file");
    heed_drop(t);
    heed_close(cx);
    close(file);
  }
}


/* A single element, the first or the last, is read without work that could be stopped. */
static void lost_elements_fail (void) {
  for (int last = 0; last < 2; last++) {
    int file = make_file();
    heed_context *cx = heed_open(NULL);
    heed_mapping *m = heed_map(cx, file, "ones");
    heed_tensor *x = heed_map_tensor(m, HEED_FLOAT32, 0, NULL, last ? BYTES - 4 : 0);
    double value = 0;
    check(ftruncate(file, last * 4096) == 0, "a shorter file");
    check(!heed_read(x, HEED_FLOAT64, &value) && has_failed(cx, "became shorter"), "an element");
    heed_drop(x);
    heed_unmap(m);
    heed_close(cx);
    close(file);
  }
}


/* Nor are there rows of such a file to be searched. */
static void lost_rows_fail (void) {
  int file = make_file();
  heed_context *cx = heed_open(NULL);
  heed_tensor *t = map_whole(cx, file);
  const float query[4] = {1, 1, 1, 1};
  int64_t at = -1;
  float score = 0;
  const heed_rows of = {HEED_ROWS_FLOAT32, 1, 4, sizeof query, query, NULL};
  const heed_rows rows = {HEED_ROWS_FLOAT32, N / 4, 4, sizeof query, heed_data(t), NULL};
  check(ftruncate(file, BYTES / 2) == 0, "a shorter file");
  check(!heed_nearest(cx, &rows, &of, NULL, 1, &at, &score) && has_failed(cx, "became shorter"),
        "rows of half a file");
  heed_drop(t);
  heed_close(cx);
  close(file);
}


static void writes_stay_here (void) {
  int file = make_file();
  float first = 0;
  heed_context *cx = heed_open(NULL);
  heed_tensor *t = map_whole(cx, file);
  ((float *)heed_data(t))[0] = 5;
  check(sum_of(cx, t) == N + 4, "what was written");
  check(pread(file, &first, 4, 0) == 4 && first == 1, "the file of what was written");
  heed_drop(t);
  heed_close(cx);
  close(file);
}

/* }================================================================== */


/*
** {==================================================================
** The host's handler
** ===================================================================
*/

static sigjmp_buf back;

static void jump (int number) { (void)number; siglongjmp(back, 1); }

static void nothing (int number) { errno = number; }

static void *touched;              /* as the last handler was told */

static void jump_told (int number, siginfo_t *info, void *machine) {
  touched = number == SIGBUS && machine != NULL ? info->si_addr : NULL;
  siglongjmp(back, 1);
}


static bool is_handler (void (*f) (int)) {
  struct sigaction now;
  return sigaction(SIGBUS, NULL, &now) == 0 && now.sa_handler == f;
}


/* Touches a page that a file of the host's does not have. */
static bool faults (int file) {
  volatile char *own = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, file, 0);
  bool faulted = sigsetjmp(back, 1) != 0;
  if (!faulted) (void)own[BYTES - 1];
  if (touched != NULL) check((uintptr_t)touched - (uintptr_t)own == BYTES - 1, "its address");
  munmap((void *)own, BYTES);
  return faulted;
}


static void handlers_come_back (void) {
  int file = make_file(), short_file = make_file();
  heed_context *cx = heed_open(NULL);
  check(ftruncate(short_file, 4096) == 0, "a shorter file");
  signal(SIGBUS, jump);
  heed_tensor *t = map_whole(cx, file), *second = map_whole(cx, file);
  check(!is_handler(jump), "a handler of heed's");
  check(faults(short_file), "a fault of the host's own");
  heed_drop(second);
  check(!is_handler(jump) && sum_of(cx, t) == N, "one file of two");
  check(faults(short_file), "a fault where a file of heed's was");
  heed_drop(t);
  check(is_handler(jump), "the handler of before");
  sigaction(SIGBUS, &(struct sigaction){.sa_sigaction = jump_told, .sa_flags = SA_SIGINFO}, NULL);
  t = map_whole(cx, file);
  check(faults(short_file) && touched != NULL, "a handler that is told of the fault");
  touched = NULL;
  heed_drop(t);
  signal(SIGBUS, nothing);
  t = map_whole(cx, file);
  errno = 0;
  check(raise(SIGBUS) == 0 && errno == 0, "a signal that is no fault");
  struct sigaction heeds;
  check(sigaction(SIGBUS, NULL, &heeds) == 0 && (heeds.sa_flags & SA_ONSTACK) != 0,
        "a handler on a stack of its own");
  signal(SIGBUS, jump);                  /* the host's, above heed's */
  heed_drop(t);
  check(is_handler(jump), "a handler that came later");
  signal(SIGBUS, SIG_DFL);               /* and heed's with it */
  t = map_whole(cx, file);
  check(ftruncate(file, 4096) == 0, "a shorter file");
  check(sum_of(cx, t) == -1 && has_failed(cx, "ones became shorter"), "a handler made anew");
  heed_drop(t);
  check(is_handler(SIG_DFL), "no handler");
  heed_close(cx);
  close(file);
  close(short_file);
}


typedef enum { FAULT, RAISED, SENT } source;         /* of a signal: SENT as by another process */

/* The signal that ends a process in which 'before' stood below heed's handler, or 0. */
static int ended_by (void (*before) (int), source from) {
  int status = -1;
  if (fork() == 0) {
    int file = make_file(), short_file = make_file();
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(SIGBUS, before);
    bool good = map_whole(heed_open(&(heed_host){.threads = 1}), file) != NULL &&
                !is_handler(before) && ftruncate(short_file, 4096) == 0;
    if (good && from == FAULT) faults(short_file);
    else if (good && from == RAISED) raise(SIGBUS);
    else if (good) kill(getpid(), SIGBUS);
    _exit(!good || from == FAULT);
  }
  check(wait(&status) > 0 && (WIFSIGNALED(status) || status == 0), "a process with a signal");
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}


static void signals_do_what_they_did (void) {
  check(ended_by(SIG_DFL, FAULT) == SIGBUS, "a fault that ends the process");
  check(ended_by(SIG_DFL, RAISED) == SIGBUS, "a signal that ends it");
  check(ended_by(SIG_DFL, SENT) == SIGBUS, "another's signal that ends it");
  check(ended_by(SIG_IGN, FAULT) == SIGBUS, "a fault, which cannot be ignored");
  check(ended_by(SIG_IGN, RAISED) == 0, "a signal that is ignored");
}

/* }================================================================== */


static void wrong_calls_fail (void) {
  int file = make_file(), folder = open("/tmp", O_RDONLY);
  heed_context *cx = heed_open(NULL);
  const int64_t n[] = {N}, many[] = {INT64_MAX};
  check(heed_map(cx, -1, NULL) == NULL && has_failed(cx, "not empty expected"), "no file");
  check(heed_map(cx, folder, NULL) == NULL && has_failed(cx, "not empty expected"), "a folder");
  check(heed_map(NULL, file, NULL) == NULL, "no context");
  const int no_pages = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY);
  if (no_pages >= 0) {                   /* a file that the system maps for nobody */
    check(heed_map(cx, no_pages, NULL) == NULL && has_failed(cx, "of a file cannot be mapped") &&
          is_handler(SIG_DFL), "a file without pages");
    close(no_pages);
  }
  heed_mapping *m = heed_map(cx, file, NULL);
  char message[100];
  snprintf(message, sizeof message, "map: %d.0 MiB from byte 4 on expected in a file of %d.0 MiB",
           BYTES >> 20, BYTES >> 20);
  check(heed_map_tensor(m, HEED_FLOAT32, 1, n, 4) == NULL && has_failed(cx, message),
        "bytes behind the end");
  heed_tensor *none = heed_map_tensor(m, HEED_UINT8, 1, (int64_t[]){0}, BYTES);
  heed_tensor *last = heed_map_tensor(m, HEED_UINT8, 1, (int64_t[]){1}, BYTES - 1);
  check(none != NULL && last != NULL, "up to the end");
  check(heed_map_tensor(m, HEED_UINT8, 1, (int64_t[]){0}, BYTES + 1) == NULL &&
        has_failed(cx, "map: 0 bytes from byte"), "beyond the end");
  heed_drop(none);
  heed_drop(last);
  check(heed_map_tensor(m, HEED_FLOAT32, 1, many, 0) == NULL && has_failed(cx, "too many elements"),
        "too many elements");
  check(heed_map_tensor(m, HEED_FLOAT64, 0, NULL, 4) == NULL && has_failed(cx, "a multiple of 8"),
        "a wrong multiple");
  check(heed_map_tensor(m, HEED_BOOL, 0, NULL, 0) == NULL && has_failed(cx, "other than bool"),
        "booleans");
  check(heed_map_tensor(NULL, HEED_FLOAT32, 0, NULL, 0) == NULL, "no mapping");
  check(ftruncate(file, 4096) == 0, "a shorter file");
  heed_tensor *t = heed_map_tensor(m, HEED_FLOAT32, 1, n, 0);
  check(sum_of(cx, t) == -1 && has_failed(cx, "sum: a file became shorter while it was mapped, or "
        "its disk fails"), "a file without a name");
  heed_drop(t);
  check(ftruncate(file, 0) == 0 && heed_map(cx, file, NULL) == NULL &&
        has_failed(cx, "map: a file that is not empty expected"), "an empty file");
  heed_unmap(m);
  heed_unmap(NULL);
  heed_close(cx);
  close(folder);
  close(file);
}


static void places_run_out (void) {
  enum { MANY = 300 };
  heed_mapping *list[MANY];
  int file = make_file(), n = 0;
  heed_context *cx = heed_open(NULL);
  while (n < MANY && (list[n] = heed_map(cx, file, NULL)) != NULL) n++;
  check(n == 256 && has_failed(cx, "cannot be mapped"), "the 257th file");
  while (n > 0) heed_unmap(list[--n]);
  heed_mapping *m = heed_map(cx, file, NULL);
  check(m != NULL, "a file after them");
  heed_unmap(m);
  heed_close(cx);
  close(file);
}


static void allocations_fail (void) {
  int file = make_file();
  failing a = {.countdown = -1};
  heed_context *cx = heed_open(&(heed_host){.resize = failing_resize, .self = &a, .threads = 1});
  a.failed = true;
  for (long n = 0; n < 100 && a.failed; n++) {
    heed_memory_trim(cx);
    a = (failing){.countdown = n, .onwards = true, .alive = a.alive};
    heed_drop(map_whole(cx, file));
    a.countdown = -1;
    if (a.failed) check(has_failed(cx, "memory"), "no memory");
    check(is_handler(SIG_DFL), "nothing is mapped");
  }
  heed_close(cx);
  check(a.alive == 0 && !a.failed, "all is given back");
  close(file);
}


int main (void) {
  alarm(LIMIT);
  workers_share_pages();                 /* first: without threads */
  signals_do_what_they_did();
  lost_pages_stop_calls();
  threads_survive();
  lost_elements_fail();
  lost_rows_fail();
  writes_stay_here();
  handlers_come_back();                  /* leaves none: a sanitizer's has gone */
  allocations_fail();
  wrong_calls_fail();
  places_run_out();
  puts(wrong ? "mapped: wrong" : "mapped: one copy for all, and no file ends the host");
  return wrong;
}
