/*
** accelerator_graphs.c - graphs and captures of devices beyond the CPU: on which of them gradients
** are, what replays do and what is refused meanwhile.
*/

#include "accelerator.h"


/*
** {==================================================================
** Captures
** ===================================================================
*/

static void captures (heed_context *cx) {
  heed_tensor *x = vector_on(cx, "cuda:0"), *near = vector_on(cx, "cpu");
  heed_tensor *factor = scalar_on(cx, "cpu", 2);
  float got[N];
  const heed_step step = {.step = 7};
  gpus[0].fails = "it broke";
  refused(cx, !heed_capture_begin(cx, "cuda:0"), "capture: it broke");
  gpus[0].fails = NULL;
  check(heed_capture_begin(cx, "cuda:0"), "a capture");
  heed_tensor *y = call(cx, HEED_mul, x, factor);
  refuses(cx, HEED_mul, near, heed_f(2), "mul: works on cpu while the work of cuda:0 is captured");
  refuses_one(cx, HEED_neg, heed_t(near), "neg: works on cpu while the work of cuda:0 is captured");
  uint64_t state[2];
  const char *drawn = "rng_state: a generator's state is read or set while work is captured: do "
                      "that before the call";
  refused(cx, !heed_device_rng_get(cx, "cuda:0", state), drawn);
  refused(cx, !heed_device_rng_set(cx, "cuda:0", state), drawn);
  heed_capture_pause(cx, true);
  refuses(cx, HEED_mul, x, heed_f(2),
          "mul: a finaliser works on cuda:0 while its work is captured");
  heed_capture_pause(cx, false);
  refused(cx, !heed_capture_begin(cx, "cuda:1"), "capture: the work of cuda:0 is captured already");
  heed_capture *c = heed_capture_end(cx);
  check(c != NULL && heed_capture_steps(c) == 0, "what is recorded");
  check(heed_capture_replay(cx, c) && is(y, 2, 0) && heed_capture_steps(c) == INT64_MAX,
        "is done by a replay");
  check(heed_write(x, HEED_FLOAT32, (float[]){2, 4, 6, 8}) && heed_capture_replay(cx, c) &&
        is(y, 4, 0), "which reads what is there");
  check(heed_capture_state_of(c) == HEED_CAPTURE_READY && heed_write(factor, HEED_FLOAT32, numbers)
        && heed_capture_state_of(c) == HEED_CAPTURE_STALE, "what was sent has changed since");
  check(heed_capture_set_step(cx, c, 3, &step) && gpus[0].step == 307, "a step's numbers");
  gpus[0].fails = "it broke";
  refused(cx, !heed_capture_set_step(cx, c, 3, &step), "capture: it broke");
  refused(cx, !heed_capture_replay(cx, c), "capture: it broke");
  gpus[0].fails = NULL;
  check(heed_capture_begin(cx, "cuda:0"), "another capture");
  heed_capture_drop(cx, c);
  check(gpus[0].captures == 1, "what is dropped meanwhile");
  heed_tensor *z = times(cx, x, 2);
  gpus[0].fails = "it broke";
  refused(cx, heed_capture_end(cx) == NULL, "capture: it broke");
  gpus[0].fails = NULL;
  check(gpus[0].captures == 0, "goes at its end");
  refused(cx, !heed_read(z, HEED_FLOAT32, got), "a tensor has no value: the work that makes it was "
          "captured, and then dropped");
  heed_drop(x); heed_drop(near); heed_drop(factor); heed_drop(y); heed_drop(z);
}


/* Gradients that a replay makes are there after it; none is after one that failed. */
static void captures_gradients (heed_context *cx) {
  heed_tensor *w = vector_on(cx, "cuda:0");
  check(heed_require_grad(w, true) && heed_capture_begin(cx, "cuda:0"), "a capture");
  heed_tensor *y = times(cx, w, 3), *sum = heed_call(cx, HEED_sum, (heed_value[]){heed_t(y)}, 1);
  check(heed_backward(sum, NULL, false), "of a pass");
  heed_capture *c = heed_capture_end(cx);
  check(heed_capture_replay(cx, c), "a replay");
  heed_tensor *g = heed_gradient(w);
  float got[N];
  check(lies_on(g, "cuda:0") && heed_read(g, HEED_FLOAT32, got) && got[0] == 3 && got[3] == 3,
        "its gradient");
  heed_drop(g);
  gpus[0].fails = "it broke";
  refused(cx, !heed_capture_replay(cx, c) && heed_gradient(w) == NULL, "capture: it broke");
  gpus[0].fails = NULL;
  heed_capture_drop(cx, c);
  heed_drop(w); heed_drop(y); heed_drop(sum);
}


/* The storage that a number got in captured work is lost with that, and it gets another. */
static void numbers_have_values (heed_context *cx) {
  heed_tensor *n = heed_number(cx, 5), *y[2];
  const heed_value expand[] = {heed_t(n), heed_l(1, size_n)};
  float got[N];
  heed_set_device(cx, "cuda:0");
  check(heed_capture_begin(cx, "cuda:0"), "a capture");
  y[0] = heed_call(cx, HEED_expand, expand, 2);
  heed_capture_drop(cx, heed_capture_end(cx));
  refused(cx, !heed_read(y[0], HEED_FLOAT32, got), "a tensor has no value: the work that makes it "
          "was captured, and then dropped");
  y[1] = heed_call(cx, HEED_expand, expand, 2);
  check(lies_on(y[1], "cuda:0") && heed_read(y[1], HEED_FLOAT32, got) && got[0] == 5 &&
        got[3] == 5, "the number's value");
  heed_set_device(cx, "cpu");
  heed_drop(n); heed_drop(y[0]); heed_drop(y[1]);
}

/* }================================================================== */


/*
** {==================================================================
** Gradients of the host's
** ===================================================================
*/

static bool give (void *self, int n, heed_tensor *const *gradients, int ninputs,
                  heed_tensor **results) {
  (void)n; (void)gradients;
  for (int i = 0; i < ninputs; i++) results[i] = heed_keep(self);
  return true;
}


/* Gradients are on the devices of their tensors: a host's operation may give one from elsewhere,
   which is moved; a hook may not. */
static void hosts_give_gradients (heed_context *cx) {
  heed_tensor *x = vector_on(cx, "cuda:0"), *near = vector_on(cx, "cpu");
  heed_tensor *out[] = {vector_on(cx, "cuda:0"), vector_on(cx, "cuda:0")};
  const heed_custom custom = {give, NULL, near};
  check(heed_require_grad(x, true) && heed_record_custom(cx, &custom, 1, &x, 1, &out[0]) &&
        heed_record_custom(cx, &custom, 1, &x, 1, &out[1]), "operations of the host's");
  heed_tensor *sum = call(cx, HEED_add, out[0], out[1]), *seed = vector_on(cx, "cuda:0");
  check(heed_backward(sum, seed, true), "a pass");
  heed_tensor *g = heed_gradient(x);
  check(lies_on(g, "cuda:0") && is(g, 2, 0), "gradients that are moved");
  heed_drop(g);
  heed_hook *hook = heed_add_hook(sum, &custom);
  refused(cx, !heed_backward(sum, seed, true),
          "register_hook: the hook gave a gradient on cpu for one on cuda:0");
  heed_remove_hook(hook);
  for (int i = 0; i < 2; i++) heed_drop(out[i]);
  heed_drop(x); heed_drop(near); heed_drop(sum); heed_drop(seed);
}


/* Values that are laid over a tensor there have their part of the gradient. */
static void views_are_changed (heed_context *cx) {
  const float wanted[N] = {1, 3, 3, 1};
  float got[N] = {0};
  heed_tensor *x = vector_on(cx, "cuda:0"), *seed = times(cx, x, 0), *y;
  check(heed_require_grad(x, true), "a leaf");
  y = times(cx, x, 1);
  const heed_value part[] = {heed_t(y), heed_i(0), heed_i(2), heed_i(2)};
  heed_tensor *middle = heed_call(cx, HEED_narrow, part, 4);
  check(heed_apply_in_place(cx, HEED_mul, (heed_value[]){heed_t(middle), heed_i(3)}, 2) &&
        heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(seed), heed_i(1)}, 2) &&
        heed_backward(y, seed, false), "a pass");
  heed_tensor *g = heed_gradient(x);
  check(lies_on(g, "cuda:0") && heed_read(g, HEED_FLOAT32, got) &&
        memcmp(got, wanted, sizeof got) == 0, "a gradient by parts");
  heed_drop(x); heed_drop(seed); heed_drop(y); heed_drop(middle); heed_drop(g);
}


/* A gradient that was moved elsewhere meanwhile is not added to. */
static void gradients_stay_where_they_were (heed_context *cx) {
  heed_tensor *x = vector_on(cx, "cpu"), *far = vector_on(cx, "cuda:0");
  heed_tensor *own = vector_on(cx, "cpu");
  check(heed_require_grad(x, true) && heed_set_gradient(x, own), "a leaf with a gradient");
  heed_tensor *y = times(cx, x, 2), *seed = vector_on(cx, "cpu");
  check(heed_backward(y, seed, true) && is(own, 3, 0), "a sum");
  check(heed_take_over(own, far), "other memory");
  refused(cx, !heed_backward(y, seed, true), "backward: a leaf's gradient is float32 of shape (4) "
          "on cuda:0 now; what is added to it is float32 of shape (4) on cpu");
  const heed_changes changes = {.ntargets = 1, .op = HEED_copy, .targets = &far, .operands = &x};
  refused(cx, !heed_commit(cx, &changes), "tensors on cuda:0 and on cpu");
  heed_drop(x); heed_drop(far); heed_drop(own); heed_drop(y); heed_drop(seed);
}

/* }================================================================== */


int main (void) {
  with(captures);
  with(captures_gradients);
  with(numbers_have_values);
  with(hosts_give_gradients);
  with(views_are_changed);
  with(gradients_stay_where_they_were);
  if (!failed) puts("accelerator_graphs: gradients and captures are where tensors are");
  return failed;
}
