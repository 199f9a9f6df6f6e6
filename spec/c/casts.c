/*
** casts.c - mixed precision: a parameter is converted once, and again where its conversion would
** not be what it is now. How many works a product takes tells.
*/

#include <stdio.h>
#include <string.h>

#include "failing.h"
#include "heed.h"

static int failed;

static void check (bool good, const char *what) {
  if (good) return;
  printf("casts: %s: wrong\n", what);
  failed = 1;
}

static heed_tensor *square (heed_context *cx, float diagonal) {
  const float data[4] = {diagonal, 0, 0, diagonal};
  return heed_from(cx, HEED_FLOAT32, 2, (int64_t[]){2, 2}, data);
}

/* The works of a product, whose first element is to be 'wanted'. */
static int64_t works (heed_context *cx, heed_tensor *x, heed_tensor *w, double wanted) {
  double of[4] = {0};
  const int64_t before = heed_works(cx, "cpu");
  heed_tensor *y = heed_call(cx, HEED_matmul, (heed_value[]){heed_t(x), heed_t(w)}, 2);
  const int64_t n = heed_works(cx, "cpu") - before;
  check(heed_type_of(y) == (heed_autocast(cx)), "the type of a product");
  check(heed_read(y, HEED_FLOAT64, of) && of[0] == wanted, "its value");
  check(heed_requires_grad(y) == (heed_recording(cx) && heed_requires_grad(w)), "its graph");
  heed_drop(y);
  return n;
}

static void gradients_reach_parameters (heed_context *cx, heed_tensor *x, heed_tensor *w) {
  heed_tensor *y = heed_call(cx, HEED_matmul, (heed_value[]){heed_t(x), heed_t(w)}, 2);
  heed_tensor *z = heed_call(cx, HEED_sum, (heed_value[]){heed_t(y)}, 1);
  check(heed_backward(z, NULL, false), "a pass");
  heed_tensor *g = heed_gradient(w);
  check(heed_type_of(g) == HEED_FLOAT32 && heed_numel(g) == 4, "a gradient in the leaf's type");
  heed_drop(g); heed_drop(z); heed_drop(y);
  heed_set_gradient(w, NULL);
}

/* Conversions that are recorded are none for work between, nor those of that work for a replay. */
static void captures_have_their_own (heed_context *cx, heed_tensor *x, heed_tensor *w,
                                     int64_t anew) {
  const heed_value args[] = {heed_t(x), heed_t(w)};
  heed_tensor *y[2];
  double of[4];
  check(heed_capture_begin(cx, "cpu"), "a capture");
  y[0] = heed_call(cx, HEED_matmul, args, 2);
  heed_capture_pause(cx, true);
  check(works(cx, x, w, 10) == anew, "work in a pause");
  heed_capture_pause(cx, false);
  y[1] = heed_call(cx, HEED_matmul, args, 2);
  heed_capture *c = heed_capture_end(cx);
  check(works(cx, x, w, 10) == anew, "work behind a capture");
  heed_set_recording(cx, false);
  heed_apply_in_place(cx, HEED_mul, (heed_value[]){heed_t(w), heed_i(2)}, 2);
  check(heed_capture_replay(cx, c), "a replay");
  for (int i = 0; i < 2; i++) {
    check(heed_read(y[i], HEED_FLOAT64, of) && of[0] == 20, "which converts what is there");
    heed_drop(y[i]);
  }
  heed_apply_in_place(cx, HEED_div, (heed_value[]){heed_t(w), heed_i(2)}, 2);
  heed_set_recording(cx, true);
  heed_capture_drop(cx, c);
}

int main (void) {
  failing memory = {.countdown = -1};
  heed_context *cx = heed_open(&(heed_host){.resize = failing_resize, .self = &memory});
  heed_tensor *x = square(cx, 2), *w = square(cx, 3), *v = square(cx, 7), *other = square(cx, 5);
  heed_require_grad(w, true);
  heed_require_grad(v, true);
  heed_set_autocast(cx, HEED_BFLOAT16);
  const int64_t anew = works(cx, x, w, 6), kept = works(cx, x, w, 6);
  check(kept < anew, "a conversion is kept");
  check(works(cx, x, v, 14) == anew && works(cx, x, v, 14) == kept, "another parameter's");
  check(works(cx, x, w, 6) == kept, "both are kept");
  heed_set_recording(cx, false);
  check(works(cx, x, w, 6) == kept, "one with a graph serves where none is made");
  heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(w), heed_i(1)}, 2);
  check(works(cx, x, w, 8) == anew, "a parameter that has changed");
  check(works(cx, x, w, 8) == kept, "is converted once more");
  heed_set_recording(cx, true);
  check(works(cx, x, w, 8) == anew, "one without a graph does not serve where it is made");
  check(works(cx, x, w, 8) == kept && works(cx, x, v, 14) == kept, "its graph is kept");
  check(heed_take_over(w, other), "other memory");
  check(works(cx, x, w, 10) == anew && works(cx, x, w, 10) == kept, "is converted");
  gradients_reach_parameters(cx, x, w);
  check(works(cx, x, w, 10) == anew, "a pass ends what is kept");
  heed_set_autocast(cx, HEED_FLOAT16);
  check(works(cx, x, w, 10) == anew && works(cx, x, w, 10) == kept, "another type");
  heed_set_autocast(cx, HEED_FLOAT16);
  check(works(cx, x, w, 10) == kept, "the same type");
  heed_capture_pause(NULL, true);
  heed_capture_pause(cx, true);
  heed_capture_pause(cx, false);
  check(works(cx, x, w, 10) == kept, "a pause of no capture");
  check(!heed_capture_begin(cx, "none") && heed_capture_end(cx) == NULL && heed_error(cx) != NULL,
        "neither a capture nor its end");
  heed_clear(cx);
  check(works(cx, x, w, 10) == kept, "no capture");
  check(heed_capture_begin(cx, "cpu"), "a capture");
  heed_capture_drop(cx, heed_capture_end(cx));
  check(works(cx, x, w, 10) == anew, "a capture ends what is kept");
  captures_have_their_own(cx, x, w, anew);
  heed_set_autocast(cx, HEED_FLOAT32);
  check(works(cx, x, w, 10) < kept, "nothing is converted");
  heed_set_autocast(cx, HEED_BFLOAT16);
  check(works(cx, x, w, 10) == anew, "what is kept at the end");
  heed_drop(x); heed_drop(w); heed_drop(v); heed_drop(other);
  heed_close(cx);
  check(memory.alive == 0 && memory.bytes == 0, "is given back");
  if (!failed) puts("casts: once for each that serves");
  return failed;
}
