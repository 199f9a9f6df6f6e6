/*
** pool.c - pieces of work on threads: each element once, whether the workers are awake, asleep, or
** elsewhere; in nested jobs and in forked children. All threads take part in a long job, and have
** equal shares of a short one.
*/

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heed.h"
#include "memory/interrupt.h"
#include "memory/pool.h"

enum { MOST = 5000, MANY = 100000 };         /* elements */
enum { ASLEEP = 2000 };                      /* microseconds until all workers sleep */
enum { LONG = 2000, PATIENCE = 10000 };      /* microseconds of a range worth waking for; waits */

typedef struct job {
  pool *threads;
  int64_t n, grain;
  int *times;                      /* plain memory: pool_run returns after all that was written */
  int64_t ranges, longest;
  bool bad;
} job;

static int wrong;

static void check (bool good, const char *what, int64_t n, int64_t grain) {
  if (good) return;
  wrong++;
  printf("pool: %s, %lld by %lld: wrong\n", what, (long long)n, (long long)grain);
}


static void count (void *arg, int64_t from, int64_t to) {
  job *j = arg;
  int64_t longest = __atomic_load_n(&j->longest, __ATOMIC_RELAXED);
  if (from < 0 || from >= to || to > j->n) __atomic_store_n(&j->bad, true, __ATOMIC_RELAXED);
  __atomic_add_fetch(&j->ranges, 1, __ATOMIC_RELAXED);
  while (to - from > longest &&
         !__atomic_compare_exchange_n(&j->longest, &longest, to - from, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED))
    continue;
  for (int64_t i = from; i < to; i++) j->times[i]++;
}


static void nest (void *arg, int64_t from, int64_t to) {
  int times[100] = {0};
  job inner = {.n = 100, .grain = 3, .times = times};
  pool_run(((job *)arg)->threads, inner.n, inner.grain, count, &inner);
  for (int64_t i = 0; i < inner.n; i++)
    if (inner.times[i] != 1) __atomic_store_n(&((job *)arg)->bad, true, __ATOMIC_RELAXED);
  count(arg, from, to);
}


static void runs (pool *p, const char *what, int64_t n, int64_t grain, bool nested) {
  static int times[MOST];
  job j = {.threads = p, .n = n, .grain = grain, .times = times};
  memset(times, 0, sizeof times);
  pool_run(p, n, grain, nested ? nest : count, &j);
  int64_t once = 0;
  for (int64_t i = 0; i < MOST; i++) once += times[i] == (i < n);
  check(once == MOST && !j.bad, what, n, grain);
}


static void all_sizes (pool *p, const char *what) {
  static const int64_t grains[] = {1, 2, 3, 7, 64, 1000};
  for (size_t i = 0; i < sizeof grains / sizeof *grains; i++)
    for (int64_t n = 0; n <= MOST; n = n < 40 ? n + 1 : n * 5 / 4)
      runs(p, what, n, grains[i], false);
  runs(p, what, MOST, 10, true);
}


/*
** Short jobs are shared out equally, a range for each thread; items that cost differently are in
** more ranges. Of long jobs ranges have sixteen grains at most.
*/
static void shares (pool *p, int64_t n, int64_t grain) {
  static int times[MANY];
  const int64_t threads = pool_threads(p), grains = (n - 1) / grain + 1;
  const int64_t unit = grain < 4096 ? 1 : 64, share = (n - 1) / threads + 1;
  job even = {.n = n, .grain = grain, .times = times}, uneven = even;
  pool_run(p, n, grain, count, &even);
  pool_run_uneven(p, n, grain, count, &uneven);
  check(!even.bad && !uneven.bad, "ranges", n, grain);
  if (grains < threads || threads == 1) return;
  check(even.longest <= share + unit - 1, "equal shares", n, grain);
  check(even.longest % unit == 0, "ranges of whole lines", n, grain);
  check(even.longest <= 16 * grain + unit, "short ranges", n, grain);
  if (grains < 8 * threads) check(even.ranges <= threads + 1, "few ranges", n, grain);
  for (int64_t each = 1; each <= 16; each *= 2)
    if (grains >= each * threads)
      check(uneven.longest <= (n - 1) / (each * threads) + unit, "many ranges", n, grain);
}


static void all_shares (pool *p) {
  static const int64_t grains[] = {1, 3, 7, 10, 64, 4096, 5000};
  for (size_t i = 0; i < sizeof grains / sizeof *grains; i++)
    for (int64_t n = 2 * grains[i]; n <= MANY; n = n * 9 / 8 + 1) shares(p, n, grains[i]);
}


/* A job whose ranges, but the first, end when so many threads have come. */
typedef struct meeting {
  int number, wanted;
  int came;                        /* threads, each once */
  bool late;                       /* a range has waited long enough */
} meeting;


static bool all_here (meeting *m) {
  return __atomic_load_n(&m->came, __ATOMIC_ACQUIRE) >= m->wanted;
}


static void meet (void *arg, int64_t from, int64_t to) {
  static _Thread_local int last;   /* the meeting that this thread came to */
  meeting *m = arg;
  (void)to;
  if (last != m->number) __atomic_add_fetch(&m->came, 1, __ATOMIC_ACQ_REL);
  last = m->number;
  if (from == 0) { usleep(LONG); return; }
  for (int i = 0; !all_here(m) && !__atomic_load_n(&m->late, __ATOMIC_RELAXED); i++) {
    if (i == PATIENCE) __atomic_store_n(&m->late, true, __ATOMIC_RELAXED);
    else usleep(1000);
  }
}


/* The caller takes the first range, which is a long one, before sleepers are woken. */
static void take_part (pool *p, int64_t ranges, int threads, const char *what) {
  static int number;
  if (wrong > 0) return;           /* others would wait as long */
  meeting m = {.number = ++number, .wanted = threads};
  usleep(ASLEEP);
  pool_run(p, ranges, 1, meet, &m);
  check(all_here(&m), what, m.came, threads);
}


/* Of a job of fewer ranges only some are woken. */
static void all_take_part (pool *p, int threads, const char *what) {
  take_part(p, 64 * threads, threads, what);
  if (threads > 4) take_part(p, 4, 3, "a thread for each range behind the first");
}


/* A child that waits for threads which are not there is ended by the alarm. */
static void in_a_child (pool *p) {
  static interruption none;
  int status = 1;
  pool *unused = pool_open(3, &none);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    meeting m = {.number = INT_MAX, .wanted = 2, .late = true};
    alarm(20);
    wrong = 0;
    all_sizes(p, "a child");
    pool_run(unused, 64, 1, meet, &m);
    check(m.came == 1, "threads that a child has", m.came, 1);
    check(pool_resize(p, 2) && pool_threads(p) == 2, "another number in a child", 2, 1);
    all_sizes(p, "a child with another number");
    pool_close(p);
    pool_close(unused);
    _exit(wrong > 0);
  }
  pool_close(unused);
  waitpid(child, &status, 0);
  check(status == 0, "a child's jobs", 0, 0);
}


/* A grain below 1 is one of 1; there may be nothing to do. */
static void odd_grains (pool *p) {
  static int times[MOST];
  for (int64_t grain = -3; grain <= 0; grain++) {
    job j = {.threads = p, .n = MOST, .grain = 1, .times = times};
    memset(times, 0, sizeof times);
    pool_run(p, MOST, grain, count, &j);
    int64_t once = 0;
    for (int64_t i = 0; i < MOST; i++) once += times[i] == 1;
    check(once == MOST, "an odd grain", MOST, grain);
    memset(times, 0, sizeof times);
    for (int64_t n = -5; n <= 0; n++) pool_run(p, n, grain, count, &j);
    for (int64_t i = 0; i < MOST; i++) check(times[i] == 0, "nothing to do", i, grain);
  }
}


/* A piece of a job asks for other numbers of threads than the job has. */
static void resize (void *arg, int64_t from, int64_t to) {
  job *j = arg;
  for (int i = 1; i <= 9; i++)
    if (pool_resize(j->threads, i)) __atomic_store_n(&j->bad, true, __ATOMIC_RELAXED);
  count(arg, from, to);
}


static void bad_numbers (pool *p) {
  static const int numbers[] = {0, -1, INT_MIN, 100000, INT_MAX};
  const int threads = pool_threads(p);
  int times[100] = {0};
  job j = {.threads = p, .n = 100, .grain = 1, .times = times};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    check(!pool_resize(p, numbers[i]) && pool_threads(p) == threads, "bad numbers of threads",
          numbers[i], 1);
  if (threads == 1) return;                    /* a caller alone leaves the pool as it is */
  pool_run(p, 100, 1, resize, &j);
  check(!j.bad && pool_threads(p) == threads, "numbers of threads within a job", threads, 1);
}


/* Threads of this process; 0 where that is not known. ThreadSanitizer has some of its own. */
static int threads_here (void) {
  int n = 0;
#ifndef __SANITIZE_THREAD__
  DIR *tasks = opendir("/proc/self/task");
  if (tasks == NULL) return 0;
  for (const struct dirent *e; (e = readdir(tasks)) != NULL;) n += *e->d_name != '.';
  closedir(tasks);
#endif
  return n;
}


/* A thread that was joined may be listed for a moment more. */
static void has_threads (int n, const char *what) {
  for (int i = 0; i < PATIENCE && threads_here() > n; i++) usleep(100);
  check(threads_here() == n || threads_here() == 0, what, n, threads_here());
}


static bool same_signals (const sigset_t *before) {
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, NULL, &now);
  for (int i = 1; i < 32; i++)
    if (sigismember(&now, i) != sigismember(before, i)) return false;
  return true;
}


/* Workers begin with the first job that is worth one, and end with the pool. */
static void threads_come_and_go (int threads) {
  static interruption none;
  const int before = threads_here();
  sigset_t signals;
  pthread_sigmask(SIG_SETMASK, NULL, &signals);
  pool *p = pool_open(threads, &none);
  runs(p, "a piece", 1, 1, false);
  has_threads(before, "no thread before a job");
  runs(p, "a job", MOST, 1, false);
  has_threads(before + threads - 1, "threads of a job");
  check(same_signals(&signals), "the caller's signals", threads, 1);
  check(pool_resize(p, threads), "as many as before", threads, 1);
  has_threads(before + threads - 1, "the same threads");
  check(pool_resize(p, threads + 1), "one more", threads, 1);
  has_threads(before, "no thread after a change");
  runs(p, "a job", MOST, 1, false);
  has_threads(before + threads, "threads of the next job");
  pool_close(p);
  has_threads(before, "no thread behind the pool");
}


/* As many as a host says, within the limit, or one for each core. */
static void contexts_have_threads (void) {
  static const int wanted[][2] = {{1, 1}, {3, 3}, {255, 255}, {256, 256}, {257, 256},
                                  {INT_MAX, 256}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    heed_context *cx = heed_open(&(heed_host){.threads = wanted[i][0]});
    check(heed_threads(cx) == wanted[i][1], "threads of a context", wanted[i][0], 1);
    check(heed_set_threads(cx, 1) && heed_set_threads(cx, wanted[i][1]) &&
          heed_threads(cx) == wanted[i][1], "as many set again", wanted[i][1], 1);
    heed_close(cx);
  }
  for (int threads = -1; threads <= 0; threads++) {
    heed_context *cx = heed_open(&(heed_host){.threads = threads});
    check(heed_threads(cx) == pool_cores(), "a thread for each core", threads, 1);
    heed_close(cx);
  }
}


int main (void) {
  static interruption none;
  contexts_have_threads();
  for (int threads = 1; threads <= 4; threads++) threads_come_and_go(threads);
  for (int threads = 1; threads <= 9; threads += 2) {
    pool *p = pool_open(threads, &none);
    all_sizes(p, "jobs in a row");
    for (int i = 0; i < 20; i++) {
      usleep(i % 2 == 0 ? ASLEEP : ASLEEP / 20);
      runs(p, "after a pause", MOST, 1 + i, false);
    }
    all_shares(p);
    all_take_part(p, threads, "threads that take part");
    in_a_child(p);
    bad_numbers(p);
    odd_grains(p);
    check(pool_resize(p, 2), "another number of threads", 2, 1);
    all_take_part(p, 2, "threads of two that take part");
    all_sizes(p, "jobs of two");
    pool_close(p);
  }
  printf("pool: %d wrong\n", wrong);
  return wrong > 0;
}
