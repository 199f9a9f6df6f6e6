/*
** capture.c - captures of the CPU's work: also random numbers, interrupted replays, two contexts.
*/

#include <pthread.h>
#include <unistd.h>

#define DEVICE "cpu"
#include "captures.h"


static heed_tensor *draw (heed_context *cx) {
  return heed_call(cx, HEED_randn, (heed_value[]){heed_l(1, (int64_t[]){N})}, 1);
}


/* Replays draw the numbers that the work itself would. */
static void draws (heed_context *cx) {
  float wanted[4][N], got[N];
  heed_seed(cx, 5);
  for (int i = 0; i < 4; i++) {
    heed_tensor *y = draw(cx);
    check(heed_read(y, HEED_FLOAT32, wanted[i]), "numbers");
    heed_drop(y);
  }
  heed_seed(cx, 5);
  check(heed_capture_begin(cx, DEVICE), "a capture begins");
  heed_tensor *y = draw(cx);
  check(!heed_read(y, HEED_FLOAT32, got) && heed_data(y) == NULL, "nothing is there to be read");
  heed_clear(cx);
  heed_capture *c = heed_capture_end(cx);
  for (int i = 0; i < 4; i++) {
    check(heed_capture_replay(cx, c) && heed_read(y, HEED_FLOAT32, got), "a replay");
    check(memcmp(got, wanted[i], sizeof got) == 0, "the same numbers");
  }
  heed_drop(y);
  heed_capture_drop(cx, c);
}


static void *interrupt_soon (void *cx) {
  usleep(50000);
  heed_interrupt(cx);
  return NULL;
}


/* A dot product of 2^44 elements behind a sum in place, which is done once in each replay. */
static heed_capture *endless (heed_context *cx, heed_tensor *x) {
  const int64_t size[] = {(int64_t)1 << 44};
  if (!heed_capture_begin(cx, DEVICE)) return NULL;
  heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(x), heed_f(1)}, 2);
  heed_tensor *first = heed_call(cx, HEED_select, (heed_value[]){heed_t(x), heed_i(0), heed_i(1)},
                                 3);
  heed_tensor *wide = heed_call(cx, HEED_expand, (heed_value[]){heed_t(first), heed_l(1, size)}, 2);
  heed_tensor *y = heed_call(cx, HEED_matmul, (heed_value[]){heed_t(wide), heed_t(wide)}, 2);
  heed_drop(first);
  heed_drop(wide);
  heed_drop(y);
  return heed_capture_end(cx);
}


static void interrupts (heed_context *cx) {
  heed_tensor *x = vector(cx, 1);
  heed_capture *c = endless(cx, x);
  check(c != NULL, "a capture of hours");
  for (int threads = 1; threads <= 3; threads += 2) {
    pthread_t other;
    heed_set_threads(cx, threads);
    pthread_create(&other, NULL, interrupt_soon, cx);
    int64_t version = heed_version(x);
    check(!heed_capture_replay(cx, c) && strcmp(heed_error(cx), "capture: interrupted") == 0,
          "a replay is stopped");
    pthread_join(other, NULL);
    heed_clear(cx);
    check(heed_version(x) > version, "what it changed counts as changed");
  }
  check(is(x, 3, 4, 5), "what came before was done");
  heed_interrupt(cx);
  check(!heed_capture_replay(cx, c), "nor does it begin");
  heed_clear(cx);
  check(is(x, 3, 4, 5), "it did not begin");
  heed_capture_drop(cx, c);
  heed_drop(x);
}


/* Each records its own work. */
static void two_contexts (heed_context *cx) {
  heed_context *other = heed_open(NULL);
  heed_tensor *x = vector(cx, 1), *w = vector(cx, 7), *y = vector(other, 1);
  check(heed_require_grad(w, true), "w is a leaf");
  check(heed_capture_begin(cx, DEVICE), "a capture begins");
  heed_apply_in_place(other, HEED_add, (heed_value[]){heed_t(y), heed_f(1)}, 2);
  check(is(y, 2, 3, 4), "the other context works");
  check(work(cx, w, x), "work");
  heed_capture *c = heed_capture_end(cx);
  heed_set_gradient(w, NULL);
  check(heed_capture_replay(cx, c) && has_gradient(w, 1, 2, 3), "a replay");
  heed_drop(y);
  heed_close(other);
  heed_drop(x);
  heed_drop(w);
  heed_capture_drop(cx, c);
}


/* The storage of a number that captured work needed is written at once, and outlives it. */
static void numbers_outlive_captures (heed_context *cx) {
  heed_tensor *n = heed_number(cx, 5);
  const heed_value wide[] = {heed_t(n), heed_l(1, (int64_t[]){N})};
  check(heed_capture_begin(cx, DEVICE), "a capture begins");
  heed_tensor *view = heed_call(cx, HEED_expand, wide, 2);
  heed_tensor *lost = heed_call(cx, HEED_neg, (heed_value[]){heed_t(view)}, 1);
  heed_capture_drop(cx, heed_capture_end(cx));
  float got[N];
  check(!heed_read(lost, HEED_FLOAT32, got) && heed_error(cx) != NULL &&
        strcmp(heed_error(cx), "a tensor has no value: the work that makes it was captured, and "
               "then dropped") == 0, "a result of the capture has no value");
  heed_clear(cx);
  check(is(view, 5, 5, 5), "a view of the number has its value");
  check(heed_read(n, HEED_FLOAT32, got) && got[0] == 5, "and the number");
  heed_drop(lost);
  heed_drop(view);
  heed_drop(n);
}


/* A replay that does not begin makes no gradient, though the one before it did. */
static void stops_before_it_begins (heed_context *cx) {
  heed_tensor *x = vector(cx, 1), *w = vector(cx, 7);
  check(heed_require_grad(w, true), "w is a leaf");
  heed_capture *c = capture(cx, w, x);
  heed_set_gradient(w, NULL);
  check(heed_capture_replay(cx, c) && has_gradient(w, 1, 2, 3), "a replay");
  heed_set_gradient(w, NULL);
  heed_interrupt(cx);
  check(!heed_capture_replay(cx, c) && heed_gradient(w) == NULL, "one that does not begin");
  check(strcmp(heed_error(cx), "capture: interrupted") == 0, "what it says");
  heed_clear(cx);
  check(heed_capture_replay(cx, c) && has_gradient(w, 1, 2, 3), "the next one");
  heed_capture_drop(cx, c);
  heed_drop(x);
  heed_drop(w);
}


int main (void) {
  heed_context *cx = heed_open(NULL);
  draws(cx);
  interrupts(cx);
  two_contexts(cx);
  numbers_outlive_captures(cx);
  stops_before_it_begins(cx);
  heed_close(cx);
  if (without_failures()) with_failures();
  printf("%d wrong\n", wrong);
  return wrong > 0;
}
