/*
** pool.c - the threads of a context.
**
** One word, 'door', tells all: the number of the job, whether it is open, and how many workers
** are inside. A worker enters by adding itself while the job is open, so the caller, who
** shuts the door when no range is left, waits only for those who came: a sleeper that wakes too
** late finds it shut. A worker looks for the next job for a while, then sleeps.
*/

#include "core/pool.h"
#include "core/machine.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_THREADS 256
#define STACK ((size_t)1 << 20)
#define SPIN_NANOSECONDS 40000
#define WORTH_WAKING 100000        /* nanoseconds of work: to call takes 20 us, to come 100 */
#define RANGES_EACH 4              /* ranges per thread, so that slow ones can be helped out */

#define INSIDE ((uint64_t)0xffff)  /* of door: workers at the job */
#define OPEN ((uint64_t)0x10000)   /* of door: the job can be entered */
#define JOB ((uint64_t)0x20000)    /* of door: one in the count of jobs, above */

struct pool {
  int threads;                     /* the caller included */
  int workers;                     /* started */
  bool asked;                      /* that they be started */
  bool busy;                       /* a job runs: one inside it runs on its caller */
  pid_t owner;                     /* a forked child has no workers */
  _Alignas(64) _Atomic uint64_t door;
  atomic_bool stop;
  pool_piece piece;                /* the job; written while the door is shut and nobody inside */
  void *arg;
  int64_t n, step;
  int64_t ended;                   /* when the last one did */
  _Alignas(64) _Atomic int64_t next;                     /* start of the first free range */
  _Alignas(64) atomic_int sleepers;
  pthread_mutex_t mutex;
  pthread_cond_t woken;
  pthread_t worker[MOST_THREADS - 1];
};


int pool_cores (void) {
  int n = machine_cores();
  return n < MOST_THREADS ? n : MOST_THREADS;
}


static void pause_briefly (void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile ("yield");
#endif
}


static int64_t now (void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}


/*
** {==================================================================
** Workers
** ===================================================================
*/

/* One range, if there is one left. */
static bool work_on (pool *p) {
  int64_t from = atomic_fetch_add_explicit(&p->next, p->step, memory_order_relaxed);
  if (from >= p->n) return false;
  p->piece(p->arg, from, p->n - from < p->step ? p->n : from + p->step);
  return true;
}


static void work_off (pool *p) {
  while (work_on(p)) continue;
}


/* Is there a job later than 'last', or the end? */
static bool called (pool *p, uint64_t last) {
  uint64_t door = atomic_load(&p->door);
  return ((door & OPEN) && door / JOB != last) || atomic_load(&p->stop);
}


static bool spin (pool *p, uint64_t last) {
  int64_t end = now() + SPIN_NANOSECONDS;
  do {
    for (int i = 0; i < 32; i++) {
      if (called(p, last)) return true;
      pause_briefly();
    }
  } while (now() < end);
  return false;
}


/*
** 'sleepers' is raised before the last look at the door; the caller opens the door before it
** looks at 'sleepers'. One of the two sees the other, and the mutex is held until the wait.
** Who wakes too late for a job does not sleep again at once: the next one is near.
*/
static void sleep_until_called (pool *p, uint64_t last) {
  pthread_mutex_lock(&p->mutex);
  atomic_fetch_add(&p->sleepers, 1);
  if (!called(p, last)) pthread_cond_wait(&p->woken, &p->mutex);
  atomic_fetch_sub(&p->sleepers, 1);
  pthread_mutex_unlock(&p->mutex);
}


static bool enter (pool *p, uint64_t *last) {
  uint64_t door = atomic_load(&p->door);
  while ((door & OPEN) && door / JOB != *last) {
    if (!atomic_compare_exchange_weak(&p->door, &door, door + 1)) continue;
    *last = door / JOB;
    return true;
  }
  return false;
}


static void *worker (void *arg) {
  pool *p = arg;
  uint64_t last = 0;
  fesetenv(FE_DFL_ENV);            /* threads inherit the host's rounding */
  for (;;) {
    if (!spin(p, last)) sleep_until_called(p, last);
    if (atomic_load(&p->stop)) return NULL;
    if (!enter(p, &last)) continue;
    work_off(p);
    atomic_fetch_sub_explicit(&p->door, 1, memory_order_release);
  }
}

/* }================================================================== */


/*
** {==================================================================
** Starting and stopping
** ===================================================================
*/

/* Signals are the host's: its threads take them. */
static void start (pool *p) {
  sigset_t all, before;
  pthread_attr_t attributes;
  p->asked = true;
  if (pthread_attr_init(&attributes) != 0) return;
  pthread_attr_setstacksize(&attributes, STACK);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (p->workers < p->threads - 1 &&
         pthread_create(&p->worker[p->workers], &attributes, worker, p) == 0)
    p->workers++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
}


static void stop (pool *p) {
  atomic_store(&p->stop, true);
  pthread_mutex_lock(&p->mutex);
  pthread_cond_broadcast(&p->woken);
  pthread_mutex_unlock(&p->mutex);
  while (p->workers > 0) pthread_join(p->worker[--p->workers], NULL);
  atomic_store(&p->stop, false);
  p->asked = false;
}


static bool forked (const pool *p) { return p->owner != getpid(); }


pool *pool_open (int threads) {
  pool *p = aligned_alloc(_Alignof(pool), sizeof *p);
  if (p == NULL) return NULL;
  memset(p, 0, sizeof *p);
  p->threads = threads;
  p->owner = getpid();
  pthread_mutex_init(&p->mutex, NULL);
  pthread_cond_init(&p->woken, NULL);
  return p;
}


/* In a forked child the mutex may be held by a thread that is not there. */
void pool_close (pool *p) {
  if (!forked(p)) {
    stop(p);
    pthread_cond_destroy(&p->woken);
    pthread_mutex_destroy(&p->mutex);
  }
  free(p);
}


int pool_threads (const pool *p) { return p->threads; }


bool pool_resize (pool *p, int threads) {
  if (threads < 1 || threads > MOST_THREADS || p->busy) return false;
  if (threads != p->threads && !forked(p)) stop(p);
  p->threads = threads;
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Running
** ===================================================================
*/

static void wake (pool *p, int64_t wanted) {
  pthread_mutex_lock(&p->mutex);
  if (wanted >= atomic_load(&p->sleepers)) pthread_cond_broadcast(&p->woken);
  else while (wanted-- > 0) pthread_cond_signal(&p->woken);
  pthread_mutex_unlock(&p->mutex);
}


/*
** Sleepers are woken when jobs come so close to each other that they will not sleep again in
** between, or when the first range shows that the job is a long one.
*/
static void wake_if_worth_it (pool *p, int64_t others) {
  int64_t began = now();
  if (began - p->ended > SPIN_NANOSECONDS) {
    work_on(p);
    if ((now() - began) * others < WORTH_WAKING) return;
  }
  wake(p, others);
}


/* Shuts the door and waits for those inside; a worker without a core gets the caller's. */
static void finish (pool *p) {
  uint64_t inside = atomic_fetch_and(&p->door, ~OPEN) & INSIDE;
  int64_t end = 0;
  for (int i = 1; inside != 0; i++) {
    pause_briefly();
    if (i % 32 == 0) {
      if (end == 0) end = now() + SPIN_NANOSECONDS;
      else if (now() > end) sched_yield();
    }
    inside = atomic_load_explicit(&p->door, memory_order_acquire) & INSIDE;
  }
}


static void run_together (pool *p, int64_t ranges) {
  p->busy = true;
  atomic_store_explicit(&p->next, 0, memory_order_relaxed);
  atomic_fetch_add(&p->door, JOB + OPEN);
  if (atomic_load(&p->sleepers) > 0) wake_if_worth_it(p, ranges - 1);
  work_off(p);
  finish(p);
  p->ended = now();
  p->busy = false;
}


static bool has_workers (pool *p) {
  if (p->threads == 1 || p->busy || forked(p)) return false;
  if (!p->asked) start(p);
  return p->workers > 0;
}


void pool_run (pool *p, int64_t n, int64_t grain, pool_piece piece, void *arg) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  int64_t grains = (n - 1) / grain + 1;
  if (grains == 1 || !has_workers(p)) { piece(arg, 0, n); return; }
  int64_t each = grains / ((int64_t)p->threads * RANGES_EACH);
  p->piece = piece;
  p->arg = arg;
  p->n = n;
  p->step = (each > 0 ? each : 1) * grain;
  run_together(p, (n - 1) / p->step + 1);
}

/* }================================================================== */
