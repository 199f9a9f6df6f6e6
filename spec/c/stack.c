/*
** stack.c - a training step of a host in C, in a thread with a stack of 64 KiB.
*/

#include "small_stack.h"

#include "heed.h"

enum { TOKENS = 96, WIDTH = 64, CLASSES = 300 };

static heed_tensor *drawn (heed_context *cx, heed_type type, int rank, const int64_t *size) {
  heed_value args[] = {heed_l(rank, size), heed_i(type)};
  return heed_call(cx, HEED_randn, args, 2);
}

/* Calls op with what it owns. */
static heed_tensor *call (heed_context *cx, heed_op op, int n, heed_tensor *const *ts) {
  heed_value args[4] = {heed_none()};
  for (int i = 0; i < n; i++) args[i] = heed_t(ts[i]);
  heed_tensor *y = heed_call(cx, op, args, n);
  for (int i = 0; i < n; i++) heed_drop(ts[i]);
  return y;
}

/* Cross entropy of attention over x, its norm and a product with w. */
static heed_tensor *loss (heed_context *cx, heed_tensor *x, heed_tensor *w) {
  int64_t labels[TOKENS];
  for (int i = 0; i < TOKENS; i++) labels[i] = 1 + i;
  heed_tensor *xs[] = {heed_keep(x), heed_keep(x), heed_keep(x)};
  heed_tensor *y = call(cx, HEED_attention, 3, xs);
  const int64_t width = WIDTH, flat[] = {TOKENS, WIDTH};
  heed_tensor *z = heed_call(cx, HEED_layer_norm,
                             (heed_value[]){heed_t(y), heed_l(1, &width)}, 2);
  heed_drop(y);
  y = heed_call(cx, HEED_reshape, (heed_value[]){heed_t(z), heed_l(2, flat)}, 2);
  heed_drop(z);
  z = call(cx, HEED_matmul, 2, (heed_tensor *[]){y, heed_keep(w)});
  z = call(cx, HEED_gelu, 1, &z);
  return call(cx, HEED_cross_entropy, 2,
              (heed_tensor *[]){z, heed_from(cx, HEED_INT64, 1, (int64_t[]){TOKENS}, labels)});
}

static bool step (heed_context *cx, heed_type type) {
  heed_tensor *x = drawn(cx, type, 4, (int64_t[]){1, 1, TOKENS, WIDTH});
  heed_tensor *w = drawn(cx, type, 2, (int64_t[]){WIDTH, CLASSES});
  heed_require_grad(x, true);
  heed_require_grad(w, true);
  heed_tensor *y = loss(cx, x, w);
  bool good = heed_backward(y, NULL, false);
  heed_tensor *g = heed_gradient(w), *state[3];
  for (int i = 0; i < 3; i++)
    state[i] = heed_call(cx, HEED_mul, (heed_value[]){heed_t(g), heed_i(0)}, 2);
  heed_tensor *const *const states[] = {&state[0], &state[1], &state[2]};
  heed_step options = {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .step = 1};
  good = good && heed_optimize(cx, HEED_ADAM, &options, 1, &w, &g, states);
  for (int i = 0; i < 3; i++) heed_drop(state[i]);
  heed_drop(g);
  heed_drop(y);
  heed_drop(x);
  heed_drop(w);
  return good;
}

static void *run (void *failed) {
  static const heed_type types[] = {HEED_FLOAT32, HEED_FLOAT64, HEED_BFLOAT16};
  heed_context *cx = heed_open(&(heed_host){.threads = 1});
  for (int i = 0; i < 3; i++)
    if (!step(cx, types[i])) {
      printf("stack: %s\n", heed_error(cx));
      *(int *)failed = 1;
      heed_clear(cx);
    }
  heed_close(cx);
  return NULL;
}

int main (void) {
  int failed = 0;
  if (SANITIZED) {
    puts("stack: skipped, since a sanitizer's frames are larger");
    puts("0 passed, 0 failed, 1 skipped");
    return 0;
  }
  return on_small_stack("stack", run, &failed) || failed;
}
