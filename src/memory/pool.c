/*
** pool.c - the threads of a context.
**
** One word, 'state', holds the number of the job, whether it is open, and how many workers have
** joined it. A worker joins by adding itself while the job is open, so the caller, which closes
** the job when no range is left, waits only for those that joined: a sleeper that wakes too late
** finds it closed. A worker looks for the next job for a while, then sleeps.
*/

#include "memory/pool.h"
#include "memory/interrupt.h"
#include "memory/machine.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STACK ((size_t)1 << 20)
#define SPIN_NANOSECONDS 200000    /* serial work between jobs of a model takes 10 to 100 us */
#define GREEDY_NANOSECONDS 20000   /* of them; then others that want the core have it */
#define WORTH_WAKING 100000        /* nanoseconds of work: to wake takes 10 us, and 20 beside */
#define RANGES_EACH 4              /* ranges per thread, so that others take over from slow ones, */
#define UNEVEN_EACH 16             /* and of items that cost much or differently much */
#define FEW_GRAINS 4               /* of a range, or there are fewer: each begins with slow reads */
#define MOST_GRAINS 16             /* of a range, so that an interruption is soon noticed */
#define SMALL_ITEMS 4096           /* of a grain: they are bytes or elements, */
#define LINE_ITEMS 64              /* and a range of them begins where a line of memory may */

#define JOINED ((uint64_t)0xffff)  /* of state: workers at the job */
#define OPEN ((uint64_t)0x10000)   /* of state: the job can be joined */
#define JOB ((uint64_t)0x20000)    /* of state: one in the count of jobs, above */

struct pool {
  int threads;                     /* the caller included */
  int workers;                     /* started */
  bool started;                    /* as far as they could be */
  bool busy;                       /* a job runs: a nested one runs on its caller */
  interruption *polled;
  pid_t owner;                     /* a forked child has no workers */
  _Alignas(64) _Atomic uint64_t state;
  atomic_bool stop;
  pool_piece piece;                /* the job; written while it is closed and nobody has joined */
  void *arg;
  int64_t n, grain, step;          /* items: all, worth a thread, of a range */
  int64_t ended;                   /* when the last one did */
  _Alignas(64) _Atomic int64_t next;                     /* the first free item */
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


/*
** {==================================================================
** Workers
** ===================================================================
*/

bool pool_stopped (const pool *p) { return interrupt_stops(p->polled); }


/* So many items, if there are some left and the job is not interrupted. */
static bool work_on (pool *p, int64_t items) {
  if (pool_stopped(p)) return false;
  int64_t from = atomic_fetch_add_explicit(&p->next, items, memory_order_relaxed);
  if (from >= p->n) return false;
  p->piece(p->arg, from, p->n - from < items ? p->n : from + items);
  return true;
}


static void work_off (pool *p) {
  while (work_on(p, p->step)) continue;
}


/* Is there a job later than 'last', or the end? */
static bool has_job (pool *p, uint64_t last) {
  uint64_t state = atomic_load(&p->state);
  return ((state & OPEN) && state / JOB != last) || atomic_load(&p->stop);
}


static bool spin (pool *p, uint64_t last) {
  const int64_t began = machine_clock();
  int64_t passed = 0;
  while (passed < SPIN_NANOSECONDS) {
    for (int i = 0; i < 32; i++) {
      if (has_job(p, last)) return true;
      pause_briefly();
    }
    if (passed > GREEDY_NANOSECONDS) sched_yield();
    passed = machine_clock() - began;
  }
  return false;
}


/*
** 'sleepers' is raised before 'state' is read for the last time; the caller opens the job before
** it reads 'sleepers'. One of the two sees the other, and the mutex is held until the wait.
** A worker that wakes too late for a job does not sleep again at once: the next one is near.
*/
static void sleep_until_job (pool *p, uint64_t last) {
  pthread_mutex_lock(&p->mutex);
  atomic_fetch_add(&p->sleepers, 1);
  if (!has_job(p, last)) pthread_cond_wait(&p->woken, &p->mutex);
  atomic_fetch_sub(&p->sleepers, 1);
  pthread_mutex_unlock(&p->mutex);
}


static bool join (pool *p, uint64_t *last) {
  uint64_t state = atomic_load(&p->state);
  while ((state & OPEN) && state / JOB != *last) {
    if (!atomic_compare_exchange_weak(&p->state, &state, state + 1)) continue;
    *last = state / JOB;
    return true;
  }
  return false;
}


static void *worker (void *arg) {
  pool *p = arg;
  uint64_t last = 0;
  for (;;) {
    if (!spin(p, last)) sleep_until_job(p, last);
    if (atomic_load(&p->stop)) return NULL;
    if (!join(p, &last)) continue;
    work_off(p);
    atomic_fetch_sub_explicit(&p->state, 1, memory_order_release);
  }
}

/* }================================================================== */


/*
** {==================================================================
** Starting and stopping
** ===================================================================
*/

/* Signals are left to the host's threads. */
static void start (pool *p) {
  sigset_t all, before;
  pthread_attr_t attributes;
  p->started = true;
  if (pthread_attr_init(&attributes) != 0) return;
  pthread_attr_setstacksize(&attributes, STACK);
  sigfillset(&all);
  sigdelset(&all, SIGBUS);           /* blocked, a page that cannot be read would end the host */
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
  p->started = false;
}


static bool forked (const pool *p) { return p->owner != getpid(); }


pool *pool_open (int threads, interruption *polled) {
  pool *p = aligned_alloc(_Alignof(pool), sizeof *p);
  if (p == NULL) return NULL;
  memset(p, 0, sizeof *p);
  p->threads = threads;
  p->polled = polled;
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
** between, or when the first grain shows that the job is a long one.
*/
static void wake_if_worth_it (pool *p) {
  int64_t began = machine_clock();
  if (began - p->ended > SPIN_NANOSECONDS) {
    work_on(p, p->grain);
    if ((machine_clock() - began) * ((p->n - 1) / p->grain) < WORTH_WAKING) return;
  }
  wake(p, (p->n - 1) / p->step);
}


/*
** Closes the job and waits for those that joined; a worker without a core gets the caller's. They
** learn from the caller alone that the host interrupts.
*/
static void finish (pool *p) {
  uint64_t joined = atomic_fetch_and(&p->state, ~OPEN) & JOINED;
  int64_t end = 0;
  for (int i = 1; joined != 0; i++) {
    pause_briefly();
    if (i % 32 == 0) {
      if (end == 0) end = machine_clock() + GREEDY_NANOSECONDS;
      else if (machine_clock() > end) sched_yield();
      pool_stopped(p);
    }
    joined = atomic_load_explicit(&p->state, memory_order_acquire) & JOINED;
  }
}


static void run_together (pool *p) {
  p->busy = true;
  atomic_store_explicit(&p->next, 0, memory_order_relaxed);
  atomic_fetch_add(&p->state, JOB + OPEN);
  if (atomic_load(&p->sleepers) > 0) wake_if_worth_it(p);
  work_off(p);
  finish(p);
  p->ended = machine_clock();
  p->busy = false;
}


static void run_alone (const pool *p, int64_t n, int64_t step, pool_piece piece, void *arg) {
  for (int64_t from = 0; from < n && !pool_stopped(p); from += step)
    piece(arg, from, n - from < step ? n : from + step);
}


static bool has_workers (pool *p) {
  if (p->threads == 1 || p->busy || forked(p)) return false;
  if (!p->started) start(p);
  return p->workers > 0;
}


/* Equally many for each thread, if there is enough work. */
static int64_t ranges_of (const pool *p, int64_t grains, bool uneven) {
  const int64_t threads = p->threads, soon = (grains - 1) / (MOST_GRAINS * threads) + 1;
  const int64_t most = uneven ? UNEVEN_EACH : RANGES_EACH;
  int64_t each = grains / (uneven ? threads : FEW_GRAINS * threads);
  if (grains <= threads) return grains;
  if (each > most) each = most;
  return (each > soon ? each : soon) * threads;
}


static void run (pool *p, int64_t n, int64_t grain, bool uneven, pool_piece piece, void *arg) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  if (n <= grain || n - grain < grain / 2) { piece(arg, 0, n); return; }   /* little for another */
  if (!has_workers(p)) { run_alone(p, n, MOST_GRAINS * grain, piece, arg); return; }
  const int64_t unit = grain < SMALL_ITEMS ? 1 : LINE_ITEMS;
  const int64_t ranges = ranges_of(p, (n - 1) / grain + 1, uneven);
  p->piece = piece;
  p->arg = arg;
  p->n = n;
  p->grain = grain;
  p->step = ((n - 1) / (ranges * unit) + 1) * unit;
  run_together(p);
}


void pool_run (pool *p, int64_t n, int64_t grain, pool_piece piece, void *arg) {
  run(p, n, grain, false, piece, arg);
}


void pool_run_uneven (pool *p, int64_t n, int64_t grain, pool_piece piece, void *arg) {
  run(p, n, grain, true, piece, arg);
}

/* }================================================================== */
