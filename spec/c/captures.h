/*
** captures.h - captures in C: what they hold, their state, and each allocation failing. DEVICE is
** the name of the one that works.
*/

#ifndef captures_h
#define captures_h

#include <stdio.h>
#include <string.h>

#include "failing.h"
#include "heed.h"

#define N 3

static int wrong;

static void check (bool good, const char *what) {
  if (good) return;
  wrong++;
  printf("wrong: %s\n", what);
}


static heed_tensor *vector (heed_context *cx, float first) {
  const float numbers[N] = {first, first + 1, first + 2};
  return heed_from(cx, HEED_FLOAT32, 1, (int64_t[]){N}, numbers);
}


static bool is (heed_tensor *t, float a, float b, float c) {
  float got[N] = {0};
  return heed_read(t, HEED_FLOAT32, got) && got[0] == a && got[1] == b && got[2] == c;
}


/* The gradient of sum(w x) goes to w. */
static bool work (heed_context *cx, heed_tensor *w, heed_tensor *x) {
  heed_tensor *y = heed_call(cx, HEED_mul, (heed_value[]){heed_t(w), heed_t(x)}, 2);
  heed_tensor *sum = heed_call(cx, HEED_sum, (heed_value[]){heed_t(y)}, 1);
  bool good = sum != NULL && heed_backward(sum, NULL, false);
  heed_drop(y);
  heed_drop(sum);
  return good;
}


static heed_capture *capture (heed_context *cx, heed_tensor *w, heed_tensor *x) {
  if (!heed_capture_begin(cx, DEVICE)) return NULL;
  bool good = work(cx, w, x);
  heed_capture *c = heed_capture_end(cx);
  if (good) return c;
  heed_capture_drop(cx, c);
  return NULL;
}


static bool has_gradient (heed_tensor *w, float a, float b, float c) {
  heed_tensor *g = heed_gradient(w);
  bool good = is(g, a, b, c);
  heed_drop(g);
  return good;
}


static void states (heed_context *cx, heed_tensor *w, heed_tensor *x) {
  heed_capture *c = capture(cx, w, x);
  check(c != NULL && heed_capture_state_of(c) == HEED_CAPTURE_GRADIENTS_DIFFER,
        "the gradient is there now");
  heed_set_gradient(w, NULL);
  check(heed_capture_state_of(c) == HEED_CAPTURE_READY, "without it all is as it was");
  check(heed_capture_replay(cx, c) && has_gradient(w, 1, 2, 3), "a replay leaves the gradient");
  heed_tensor *other = vector(cx, 5);
  heed_apply_in_place(cx, HEED_copy, (heed_value[]){heed_t(x), heed_t(other)}, 2);
  heed_set_gradient(w, NULL);
  check(heed_capture_replay(cx, c) && has_gradient(w, 5, 6, 7), "and reads what is there");
  check(heed_take_over(x, other), "other memory");
  check(heed_capture_state_of(c) == HEED_CAPTURE_STALE, "is noticed");
  heed_drop(other);
  heed_capture_drop(cx, c);
  check(has_gradient(w, 5, 6, 7), "the gradient outlives the capture");
}


/* False: there is no such device. */
static bool without_failures (void) {
  heed_context *cx = heed_open(NULL);
  bool there = heed_set_device(cx, DEVICE);
  if (!there) printf("skipped: %s\n0 passed, 0 failed, 1 skipped\n", heed_error(cx));
  else {
    heed_tensor *w = vector(cx, 7), *x = vector(cx, 1);
    check(heed_require_grad(w, true), "w is a leaf");
    states(cx, w, x);
    check(heed_capture_begin(cx, DEVICE) && work(cx, w, x), "a capture that is never ended");
    heed_drop(w);
    heed_drop(x);
  }
  heed_close(cx);
  return there;
}


/* Allocation n fails; on the CPU all that follow, too. True: there was none. */
static bool with_failure (int n) {
  failing a = {.countdown = -1, .onwards = strcmp(DEVICE, "cpu") == 0};
  heed_host host = {.resize = failing_resize, .self = &a, .threads = 1};
  heed_context *cx = heed_open(&host);
  check(heed_set_device(cx, DEVICE), "the device");
  heed_tensor *w = vector(cx, 7), *x = vector(cx, 1);
  check(heed_require_grad(w, true) && work(cx, w, x), "work");
  heed_set_gradient(w, NULL);
  heed_memory_trim(cx);
  a.countdown = n;
  heed_capture *c = capture(cx, w, x);
  const bool done = !a.failed;
  a.countdown = -1;
  check(!a.onwards || done == (c != NULL), "a capture without all of its memory is none");
  if (c == NULL) check(strstr(heed_error(cx), "memory") != NULL, "the message names memory");
  else check(heed_capture_replay(cx, c) && has_gradient(w, 1, 2, 3), "a capture works");
  heed_capture_drop(cx, c);
  heed_set_gradient(w, NULL);
  check(work(cx, w, x) && has_gradient(w, 1, 2, 3), "work goes on");
  heed_drop(w);
  heed_drop(x);
  heed_close(cx);
  check(a.alive == 0, "nothing is left");
  return done;
}


static void with_failures (void) {
  int n = 0;
  while (n < 1000 && !with_failure(n)) n++;
  check(n < 1000, "the allocations come to an end");
  printf("%d allocations failed, ", n);
}

#endif
