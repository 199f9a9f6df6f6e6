/*
** interrupt.c - calls of hours are stopped: by a thread, by a signal, by a host that is asked; what
** is written in place is whole.
*/

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "heed.h"
#include "heed_search.h"

enum { LONG = 1 << 20 };
#define LIMIT 20.0                 /* seconds: machines may be slow */

static int failed;
static heed_context *context;      /* of the signal's handler */

static void check (bool good, const char *what) {
  if (good) return;
  printf("interrupt: %s: wrong\n", what);
  failed = 1;
}

static double now (void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A dot product of 2^44 elements. */
static heed_tensor *endless (heed_context *cx) {
  const int64_t size[] = {(int64_t)1 << 44};
  heed_tensor *one = heed_from(cx, HEED_FLOAT32, 1, (int64_t[]){1}, (float[]){1});
  heed_tensor *x = heed_call(cx, HEED_expand, (heed_value[]){heed_t(one), heed_l(1, size)}, 2);
  heed_tensor *y = heed_call(cx, HEED_matmul, (heed_value[]){heed_t(x), heed_t(x)}, 2);
  heed_drop(one);
  heed_drop(x);
  return y;
}

static bool goes_on (heed_context *cx) {
  double value = 0;
  heed_clear(cx);
  heed_tensor *y = heed_call(cx, HEED_exp, (heed_value[]){heed_f(0)}, 1);
  bool good = y != NULL && heed_read(y, HEED_FLOAT64, &value) && value == 1;
  heed_drop(y);
  return good;
}

/* Is the call stopped in time, with the error that it should have? */
static void stops (heed_context *cx, const char *what) {
  double began = now();
  heed_tensor *y = endless(cx);
  const char *error = heed_error(cx);
  check(y == NULL && error != NULL && strcmp(error, "matmul: interrupted") == 0, what);
  check(now() - began < LIMIT, what);
  check(goes_on(cx), "the next call");
  heed_drop(y);
}

static void *interrupt_soon (void *cx) {
  usleep(50000);
  heed_interrupt(cx);
  return NULL;
}

static void by_thread (heed_context *cx) {
  for (int threads = 1; threads <= 4; threads += 3) {
    pthread_t other;
    heed_set_threads(cx, threads);
    pthread_create(&other, NULL, interrupt_soon, cx);
    stops(cx, "stopped by a thread");
    pthread_join(other, NULL);
  }
}

static void handler (int number) {
  (void)number;
  heed_interrupt(context);
}

static void by_signal (heed_context *cx) {
  struct itimerval soon = {.it_value = {.tv_usec = 50000}};
  context = cx;
  signal(SIGALRM, handler);
  setitimer(ITIMER_REAL, &soon, NULL);
  stops(cx, "stopped by a signal");
  signal(SIGALRM, SIG_DFL);
}

static bool is_late (void *self) { return now() > *(double *)self; }

static void by_question (void) {
  double at = now() + 0.05;
  heed_context *cx = heed_open(&(heed_host){.interrupted = is_late, .self = &at});
  heed_tensor *y = endless(cx);
  check(y == NULL && strcmp(heed_error(cx), "matmul: interrupted") == 0, "stopped by a host");
  at = now() + 1e9;
  check(goes_on(cx), "the call after that");
  heed_close(cx);
}

static bool count_questions (void *self) {
  ++*(int64_t *)self;
  return false;
}

/* However often work polls, two questions are some milliseconds apart. */
static void asks_now_and_then (void) {
  int64_t questions = 0;
  heed_context *cx = heed_open(&(heed_host){.interrupted = count_questions, .self = &questions});
  const double began = now();
  for (int i = 0; i < 100000; i++) check(!heed_interrupted(cx), "a host that goes on");
  check(questions > 0 && (double)questions < 10 + 1000 * (now() - began), "questions to the host");
  heed_close(cx);
}

/* Nor is it asked while a tensor is written in place, which does not stop. */
static void asks_around_writes (void) {
  static float zeros[LONG];
  int64_t questions = 0;
  heed_context *cx = heed_open(&(heed_host){.interrupted = count_questions, .self = &questions});
  heed_tensor *x = heed_from(cx, HEED_FLOAT32, 1, (int64_t[]){LONG}, zeros);
  const heed_value args[] = {heed_t(x), heed_i(1)};
  usleep(5000);
  heed_drop(heed_call(cx, HEED_add, args, 2));
  check(questions > 0, "a question during a call");
  for (int i = 0; i < 3; i++) {
    usleep(5000);
    const int64_t before = questions;
    check(heed_apply_in_place(cx, HEED_add, args, 2), "a call in place");
    check(questions == before, "no question during a call in place");
  }
  heed_drop(x);
  heed_close(cx);
}

static bool always (void *self) { return self == NULL; }

enum { MANY = 1 << 22, PARAMETERS = 4096 };

static heed_tensor *many_zeros (heed_context *cx) {
  const int64_t n = MANY;
  return heed_call(cx, HEED_zeros, (heed_value[]){heed_l(1, &n)}, 1);
}

static heed_tensor *many_of_a_diagonal (heed_context *cx) {
  return heed_call(cx, HEED_eye, (heed_value[]){heed_i(2048)}, 1);
}

static heed_tensor *many_whole (heed_context *cx) {
  return heed_call(cx, HEED_arange, (heed_value[]){heed_i(1), heed_i(MANY), heed_i(1)}, 3);
}

static heed_tensor *many_floats (heed_context *cx) {
  return heed_call(cx, HEED_arange, (heed_value[]){heed_f(0.5), heed_i(MANY), heed_i(1),
                                                   heed_i(HEED_FLOAT64)}, 4);
}

static heed_tensor *many_between (heed_context *cx) {
  return heed_call(cx, HEED_linspace, (heed_value[]){heed_i(0), heed_i(1), heed_i(MANY),
                                                     heed_i(HEED_FLOAT64)}, 4);
}

static heed_tensor *many_copied (heed_context *cx) {
  static float data[MANY];
  return heed_from(cx, HEED_FLOAT32, 1, (int64_t[]){MANY}, data);
}

/* Labels and classes, of which there are MANY in turn. */
static heed_tensor *hot (heed_context *cx, int64_t labels, int64_t classes) {
  heed_tensor *one = heed_from(cx, HEED_INT64, 1, (int64_t[]){1}, (int64_t[]){1});
  heed_tensor *x = heed_call(cx, HEED_expand, (heed_value[]){heed_t(one), heed_l(1, &labels)}, 2);
  heed_tensor *y = heed_call(cx, HEED_one_hot, (heed_value[]){heed_t(x), heed_i(classes)}, 2);
  heed_drop(one);
  heed_drop(x);
  return y;
}

static heed_tensor *many_classes (heed_context *cx) { return hot(cx, 1, MANY); }

static heed_tensor *many_labels (heed_context *cx) { return hot(cx, MANY, 1); }

static heed_tensor *many_clipped (heed_context *cx) {
  static heed_tensor *parameter[PARAMETERS];
  const float one = 1;
  for (int i = 0; i < PARAMETERS; i++) {
    heed_tensor *g = heed_from(cx, HEED_FLOAT32, 0, NULL, &one);
    parameter[i] = heed_from(cx, HEED_FLOAT32, 0, NULL, &one);
    heed_require_grad(parameter[i], true);
    heed_set_gradient(parameter[i], g);
    heed_drop(g);
  }
  heed_tensor *norm = heed_clip_gradients(cx, 1, 2, PARAMETERS, parameter);
  for (int i = 0; i < PARAMETERS; i++) heed_drop(parameter[i]);
  return norm;
}

/* Long calls ask the host: one that always says yes stops them. */
static void long_calls_ask (void) {
  static const struct { const char *what; heed_tensor *(*call) (heed_context *cx); } calls[] = {
    {"zeros", many_zeros}, {"eye", many_of_a_diagonal}, {"arange of integers", many_whole},
    {"arange of floats", many_floats}, {"linspace", many_between}, {"from", many_copied},
    {"one_hot of classes", many_classes}, {"one_hot of labels", many_labels},
    {"clip_grad_norm", many_clipped}
  };
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    heed_context *cx = heed_open(&(heed_host){.interrupted = always});
    heed_tensor *y = calls[i].call(cx);
    const char *error = heed_error(cx);
    check(y == NULL && error != NULL && strstr(error, ": interrupted") != NULL, calls[i].what);
    heed_drop(y);
    heed_close(cx);
  }
}

/* A short read is done at once; what is longer can be stopped. */
static void long_reads_stop (heed_context *cx) {
  enum { SHORT = 65536 };
  static float zeros[SHORT + 1], read[SHORT + 1];
  for (int more = 0; more <= 1; more++) {
    heed_tensor *x = heed_from(cx, HEED_FLOAT32, 1, (int64_t[]){SHORT + more}, zeros);
    heed_interrupt(cx);
    check(heed_read(x, HEED_FLOAT32, read) != more, more ? "a long read" : "a short read");
    heed_interrupted(cx);
    heed_clear(cx);
    check(heed_read(x, HEED_FLOAT32, read), "the next read");
    heed_drop(x);
  }
}

static void in_a_child (heed_context *cx) {
  int status = 1;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    by_signal(cx);
    _exit(failed);
  }
  waitpid(child, &status, 0);
  check(status == 0, "stopped in a forked child");
}

/* Operations that write into tensors are refused before they begin. */
static void before_a_write (heed_context *cx) {
  float one = 1, read = 0;
  heed_tensor *x = heed_from(cx, HEED_FLOAT32, 0, NULL, &one);
  heed_tensor *g = heed_from(cx, HEED_FLOAT32, 0, NULL, &one);
  heed_step step = {.lr = 1, .step = 1};
  heed_interrupt(cx);
  check(!heed_apply_in_place(cx, HEED_exp, (heed_value[]){heed_t(x)}, 1), "a call in place");
  heed_clear(cx);
  heed_interrupt(cx);
  check(!heed_optimize(cx, HEED_SGD, &step, 1, &x, &g, NULL), "a step");
  heed_clear(cx);
  heed_interrupt(cx);
  check(!heed_write(x, HEED_FLOAT32, &read), "a write");
  check(strcmp(heed_error(cx), "write: interrupted") == 0, "its message");
  heed_clear(cx);
  check(heed_read(x, HEED_FLOAT32, &read) && read == 1, "what they would have written");
  heed_drop(x);
  heed_drop(g);
}

/* A search has no result then, and the next one has. */
static void before_a_search (heed_context *cx) {
  const float row = 2;
  int64_t at = -1;
  float score = 0;
  const heed_rows rows = {HEED_ROWS_FLOAT32, 1, 1, sizeof row, &row, NULL};
  heed_interrupt(cx);
  check(!heed_nearest(cx, &rows, &rows, NULL, 1, &at, &score) &&
        strcmp(heed_error(cx), "interrupted") == 0 && at == -1, "a search");
  heed_clear(cx);
  check(heed_nearest(cx, &rows, &rows, NULL, 1, &at, &score) && at == 0 && score == 4,
        "the next search");
}

static atomic_bool ended, resting;
static atomic_uint between = 300;  /* interruptions: microseconds */

static void *interrupt_often (void *cx) {
  while (!atomic_load(&ended)) {
    usleep(atomic_load(&between));
    if (!atomic_load(&resting)) heed_interrupt(cx);
  }
  return NULL;
}

static bool all_are (heed_tensor *x, float value) {
  static float read[LONG];
  atomic_store(&resting, true);    /* else a slow machine never reads it all */
  while (!heed_read(x, HEED_FLOAT32, read)) heed_clear(heed_context_of(x));
  atomic_store(&resting, false);
  for (int i = 0; i < LONG; i++)
    if (read[i] != value) return false;
  return true;
}

/* Added completely or not at all. */
static void within_a_write (heed_context *cx, heed_tensor *x, const char *what) {
  pthread_t other;
  float sum = 0;
  atomic_store(&ended, false);
  pthread_create(&other, NULL, interrupt_often, cx);
  for (int i = 0; i < 200; i++) {
    sum += heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(x), heed_i(1)}, 2);
    heed_clear(cx);
  }
  check(all_are(x, sum), what);
  atomic_store(&ended, true);
  pthread_join(other, NULL);
  heed_interrupted(cx);
  heed_clear(cx);
  heed_drop(x);
}

/* Also in memory that is the host's, and in the last part of another tensor. */
static void within_writes (heed_context *cx) {
  static float zeros[2 * LONG], lent[LONG];
  const int64_t size[] = {LONG, 2 * LONG};
  within_a_write(cx, heed_from(cx, HEED_FLOAT32, 1, size, zeros),
                 "sums in place, interrupted often");
  within_a_write(cx, heed_lend(cx, HEED_FLOAT32, 1, size, lent, NULL, NULL), "in lent memory");
  heed_tensor *whole = heed_from(cx, HEED_FLOAT32, 1, size + 1, zeros);
  within_a_write(cx, heed_call(cx, HEED_narrow, (heed_value[]){heed_t(whole), heed_i(0),
                               heed_i(LONG + 1), heed_i(LONG)}, 4), "in the last part");
  heed_drop(whole);
}

enum { SIDE = 1024 };              /* SIDE * SIDE are LONG */
enum { WANTED = 3, STEPS = 16 };   /* how often each way is done, and how often at most tried */

/* Tensors by which operations in place write one value to all of x (SIDE, SIDE). */
typedef struct writing {
  heed_tensor *x, *positions, *row, *column, *mask, *all;
} writing;

/* 'i' to all of x, in a way by number; false: it was stopped. More ways than there are: true. */
static bool write_all (heed_context *cx, const writing *w, int way, int i) {
  heed_value x = heed_t(w->x), value = heed_i(i);
  switch (way) {
    case 0: return heed_apply_in_place(cx, HEED_fill, (heed_value[]){x, value}, 2);
    case 1: return heed_apply_in_place(cx, HEED_copy, (heed_value[]){x, value}, 2);
    case 2: return heed_apply_in_place(cx, HEED_clamp, (heed_value[]){x, value}, 2);
    case 3: return heed_apply_in_place(cx, HEED_masked_fill,
                                       (heed_value[]){x, heed_t(w->mask), value}, 3);
    case 4: return heed_apply_in_place(cx, HEED_scatter,
                                       (heed_value[]){x, heed_i(1), heed_t(w->positions),
                                                      value}, 4);
    case 5: return heed_apply_in_place(cx, HEED_scatter_add,
                                       (heed_value[]){x, heed_i(1), heed_t(w->positions),
                                                      heed_t(w->all)}, 4);
    case 6: return heed_apply_in_place(cx, HEED_addmm,
                                       (heed_value[]){x, heed_t(w->column), heed_t(w->row)}, 3);
    case 7: return heed_apply_in_place(cx, HEED_normal, (heed_value[]){x, value, heed_i(0)}, 3);
    case 8: return heed_apply_in_place(cx, HEED_add, (heed_value[]){x, heed_t(w->all)}, 2);
    default: return true;
  }
}

/* Each of these ways writes all or nothing, however often it is interrupted. */
static void within_each_write (heed_context *cx) {
  static const char *const names[] = {"fill", "copy", "clamp", "masked_fill", "scatter",
                                      "scatter_add", "addmm", "normal", "add"};
  static float zeros[LONG], ones[LONG];
  static int64_t places[LONG];
  static bool yes[LONG];
  const int64_t size[] = {SIDE, SIDE, 1};
  pthread_t other;
  for (int i = 0; i < LONG; i++) {
    ones[i] = 1;
    places[i] = i % SIDE + 1;
    yes[i] = true;
  }
  const writing w = {heed_from(cx, HEED_FLOAT32, 2, size, zeros),
                     heed_from(cx, HEED_INT64, 2, size, places),
                     heed_from(cx, HEED_FLOAT32, 2, (int64_t[]){1, SIDE}, ones),
                     heed_from(cx, HEED_FLOAT32, 2, size + 1, ones),
                     heed_from(cx, HEED_BOOL, 2, size, yes),
                     heed_from(cx, HEED_FLOAT32, 2, size, ones)};
  atomic_store(&ended, false);
  pthread_create(&other, NULL, interrupt_often, cx);
  for (int way = 0, value = 0; way < (int)(sizeof names / sizeof *names); way++) {
    int done = 0;
    for (int i = 0; i < 4 * STEPS && done < WANTED; i++) {
      atomic_store(&between, 300u << i / 4);               /* until it is long enough */
      if (write_all(cx, &w, way, value + 1)) value++, done++;
      heed_clear(cx);
      if (!all_are(w.x, (float)value)) done = LONG;
    }
    check(done == WANTED, names[way]);
  }
  atomic_store(&between, 300);
  atomic_store(&ended, true);
  pthread_join(other, NULL);
  heed_interrupted(cx);
  heed_clear(cx);
  heed_drop(w.x); heed_drop(w.positions); heed_drop(w.row); heed_drop(w.column);
  heed_drop(w.mask); heed_drop(w.all);
}

/* Zeros, so that nothing depends on what was there before. */
static void *zeroed (void *self, void *block, size_t old_size, size_t new_size) {
  (void)self; (void)old_size;
  if (new_size > 0) return calloc(1, new_size);
  free(block);
  return NULL;
}

/* Replays of work in place, too, do it completely or not at all. */
static void within_a_replay (void) {
  static float read[LONG];
  heed_context *cx = heed_open(&(heed_host){.resize = zeroed});
  pthread_t other;
  heed_tensor *x = heed_from(cx, HEED_FLOAT32, 1, (int64_t[]){LONG}, read);
  heed_memory_trim(cx);
  bool good = heed_capture_begin(cx, "cpu") &&
              heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(x), heed_i(1)}, 2);
  heed_capture *c = heed_capture_end(cx);
  check(good && c != NULL, "a capture");
  atomic_store(&ended, false);
  pthread_create(&other, NULL, interrupt_often, cx);
  for (int i = 0; i < 200; i++) {
    heed_capture_replay(cx, c);
    heed_clear(cx);
  }
  atomic_store(&ended, true);
  pthread_join(other, NULL);
  heed_interrupted(cx);
  heed_clear(cx);
  heed_read(x, HEED_FLOAT32, read);
  for (int i = 0; i < LONG; i++) good = good && read[i] == read[0];
  check(good && read[0] > 0, "replays of sums in place, interrupted often");
  heed_capture_drop(cx, c);
  heed_drop(x);
  heed_close(cx);
}

/* Whatever was held is held no longer: the next interruption is heard. */
static void hears (heed_context *cx, bool done, const char *what) {
  check(done, what);
  heed_interrupt(cx);
  check(heed_interrupted(cx), what);
  heed_clear(cx);
}

static void after_a_write (heed_context *cx) {
  float one = 1, many[4] = {1, 2, 3, 4};
  const heed_step step = {.lr = 1, .step = 1};
  heed_tensor *x = heed_from(cx, HEED_FLOAT32, 0, NULL, &one);
  heed_tensor *g = heed_from(cx, HEED_FLOAT32, 0, NULL, &one);
  heed_tensor *row = heed_from(cx, HEED_FLOAT32, 1, (int64_t[]){4}, many);
  hears(cx, heed_write(x, HEED_FLOAT32, &one), "behind a write");
  hears(cx, heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(x), heed_i(1)}, 2),
        "behind a call in place");
  hears(cx, !heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(x), heed_t(row)}, 2),
        "behind one that fails");
  hears(cx, heed_optimize(cx, HEED_SGD, &step, 1, &x, &g, NULL), "behind a step");
  hears(cx, heed_commit(cx, &(heed_changes){.op = HEED_copy, .ntargets = 1, .targets = &x,
                                            .operands = &g}), "behind a commit");
  heed_require_grad(x, true);
  heed_tensor *y = heed_call(cx, HEED_square, (heed_value[]){heed_t(x)}, 1);
  hears(cx, heed_backward(y, NULL, false), "behind a pass");
  hears(cx, !heed_backward(y, NULL, false), "behind one that fails");
  heed_tensor *norm = heed_clip_gradients(cx, 1, 2, 1, &x);
  hears(cx, norm != NULL, "behind a clipping");
  check(heed_capture_begin(cx, "cpu"), "a capture");
  hears(cx, heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(g), heed_i(1)}, 2),
        "within a capture");
  heed_capture *c = heed_capture_end(cx);
  hears(cx, heed_capture_replay(cx, c), "behind a replay");
  heed_capture_drop(cx, c);
  heed_drop(x); heed_drop(g); heed_drop(row); heed_drop(y); heed_drop(norm);
}

/* A backward pass adds all gradients or none. */
static void within_a_pass (heed_context *cx) {
  double g[2] = {-1, -1};
  heed_tensor *a = heed_from(cx, HEED_FLOAT64, 0, NULL, g);
  heed_tensor *b = heed_from(cx, HEED_FLOAT64, 0, NULL, g);
  heed_require_grad(a, true);
  heed_require_grad(b, true);
  heed_tensor *y = heed_call(cx, HEED_mul, (heed_value[]){heed_t(a), heed_t(b)}, 2);
  heed_interrupt(cx);
  check(!heed_backward(y, NULL, true), "a backward pass");
  heed_clear(cx);
  check(heed_gradient(a) == NULL && heed_gradient(b) == NULL, "gradients after it");
  heed_tensor *z = heed_call(cx, HEED_mul, (heed_value[]){heed_t(y), heed_i(2)}, 2);
  check(heed_backward(z, NULL, true), "one through what it began with");
  heed_tensor *of_a = heed_gradient(a);
  check(heed_read(of_a, HEED_FLOAT64, g) && *g == -2, "its gradient");
  heed_drop(of_a);
  heed_drop(z);
  check(heed_backward(y, NULL, false), "another one");
  heed_drop(a);
  heed_drop(b);
  heed_drop(y);
}

/* Changes that must not stop are made, and the next call is the one that stops. */
static void between_changes (heed_context *cx) {
  static float zeros[LONG];
  heed_tensor *x = heed_from(cx, HEED_FLOAT32, 1, (int64_t[]){LONG}, zeros);
  heed_tensor *one = heed_number(cx, 1), *z = heed_from(cx, HEED_FLOAT32, 0, NULL, zeros);
  heed_value ones[] = {heed_t(x), heed_i(1)};
  heed_tensor *y = heed_call(cx, HEED_add, ones, 2), *targets[] = {x, z}, *operands[] = {y, one};
  heed_changes c = {.op = HEED_copy, .ntargets = 2, .targets = targets, .operands = operands};
  float read = -1;
  heed_interrupt(cx);
  check(!heed_commit(cx, &c) && strcmp(heed_error(cx), "commit: interrupted") == 0, "changes");
  heed_clear(cx);
  check(all_are(x, 0), "what they would have changed");
  c.uninterrupted = true;
  for (int i = 0; i < 2; i++) {
    heed_interrupt(cx);
    check(heed_commit(cx, &c) && all_are(x, 1), "changes that go on");
    check(heed_read(z, HEED_FLOAT32, &read) && read == 1, "both of them");
    heed_interrupt(cx);
    check(!heed_apply_in_place(cx, HEED_add, ones, 2), "a call that stops behind them");
    heed_clear(cx);
    check(goes_on(cx), "and the next one");
  }
  heed_drop(x); heed_drop(y); heed_drop(z); heed_drop(one);
}

static bool double_then_stop (void *self, int n, heed_tensor *const *gradients, int ninputs,
                              heed_tensor **results) {
  heed_context *cx = heed_context_of(*gradients);
  (void)n; (void)ninputs;
  *results = heed_call(cx, HEED_mul, (heed_value[]){heed_t(*gradients), heed_i(2)}, 2);
  if (*(bool *)self) heed_interrupt(cx);
  return true;
}

/* A pass that stops while two gradients of one tensor are summed leaves nothing behind. */
static void within_a_sum (heed_context *cx) {
  bool stop = true;
  double value = 0;
  const heed_custom custom = {double_then_stop, NULL, &stop};
  heed_tensor *x = heed_from(cx, HEED_FLOAT64, 0, NULL, &value);
  heed_require_grad(x, true);
  heed_tensor *z = heed_from(cx, HEED_FLOAT64, 0, NULL, &value);
  check(heed_record_custom(cx, &custom, 1, &x, 1, &z), "an operation that interrupts");
  heed_tensor *y = heed_call(cx, HEED_add, (heed_value[]){heed_t(x), heed_t(z)}, 2);
  check(!heed_backward(y, NULL, true) && heed_error(cx) != NULL &&
        strcmp(heed_error(cx), "backward: interrupted") == 0, "a sum of gradients");
  heed_clear(cx);
  check(heed_gradient(x) == NULL, "the gradient after it");
  stop = false;
  check(heed_backward(y, NULL, true), "the pass once more");
  heed_tensor *g = heed_gradient(x);
  check(heed_read(g, HEED_FLOAT64, &value) && value == 3, "its gradient");
  heed_drop(g); heed_drop(y); heed_drop(z); heed_drop(x);
}

int main (void) {
  heed_context *cx = heed_open(NULL);
  by_thread(cx);
  by_signal(cx);
  by_question();
  asks_now_and_then();
  asks_around_writes();
  long_calls_ask();
  long_reads_stop(cx);
  in_a_child(cx);
  before_a_write(cx);
  before_a_search(cx);
  within_writes(cx);
  within_each_write(cx);
  after_a_write(cx);
  within_a_replay();
  within_a_pass(cx);
  between_changes(cx);
  within_a_sum(cx);
  heed_close(cx);
  heed_interrupt(NULL);
  printf("interrupt: %s\n", failed ? "wrong" : "calls of hours stop, what is written is whole");
  return failed;
}
