/*
** train.c - a small attention model, trained from C alone: no Lua anywhere. Then the same
** training step with every allocation failing in turn, alone and with all that follow.
*/

#include <stdio.h>
#include <string.h>

#include "heed.h"
#include "failing.h"

enum { BATCH = 4, LENGTH = 6, DIM = 8, STEPS = 60 };

/* Three projections and the input: what is learned is to give back the first token. */
typedef struct model {
  heed_context *cx;
  heed_tensor *weights[3];         /* (DIM, DIM) for query, key, value */
  heed_tensor *moments[2][3];
  heed_tensor *x, *target;         /* (BATCH, LENGTH, DIM) */
} model;

static heed_tensor *random_tensor (heed_context *cx, int rank, const int64_t *size) {
  return heed_call(cx, HEED_randn, (heed_value[]){heed_l(rank, size)}, 1);
}

static heed_tensor *zeros (heed_context *cx, int rank, const int64_t *size) {
  return heed_call(cx, HEED_zeros, (heed_value[]){heed_l(rank, size)}, 1);
}

static bool build (model *m) {
  const int64_t square[] = {DIM, DIM}, shape[] = {BATCH, LENGTH, DIM};
  bool good = true;
  heed_seed(m->cx, 1);
  for (int i = 0; i < 3; i++) {
    m->weights[i] = random_tensor(m->cx, 2, square);
    m->moments[0][i] = zeros(m->cx, 2, square);
    m->moments[1][i] = zeros(m->cx, 2, square);
    good = good && heed_require_grad(m->weights[i], true) && m->moments[0][i] && m->moments[1][i];
  }
  m->x = random_tensor(m->cx, 3, shape);
  heed_tensor *first = heed_call(m->cx, HEED_slice, (heed_value[]){heed_t(m->x), heed_i(1),
                                                                   heed_i(1), heed_i(1)}, 4);
  heed_tensor *wide = heed_call(m->cx, HEED_expand_as, (heed_value[]){heed_t(first),
                                                                      heed_t(m->x)}, 2);
  m->target = heed_call(m->cx, HEED_clone, (heed_value[]){heed_t(wide)}, 1);
  heed_drop(first);
  heed_drop(wide);
  return good && m->x != NULL && m->target != NULL;
}

static void unbuild (model *m) {
  for (int i = 0; i < 3; i++) {
    heed_drop(m->weights[i]);
    heed_drop(m->moments[0][i]);
    heed_drop(m->moments[1][i]);
  }
  heed_drop(m->x);
  heed_drop(m->target);
}

static heed_tensor *loss_of (model *m) {
  heed_tensor *p[3], *out[HEED_RESULTS] = {NULL, NULL, NULL};
  for (int i = 0; i < 3; i++)
    p[i] = heed_call(m->cx, HEED_matmul, (heed_value[]){heed_t(m->x), heed_t(m->weights[i])}, 2);
  heed_apply(m->cx, HEED_attention, (heed_value[]){heed_t(p[0]), heed_t(p[1]), heed_t(p[2])}, 3,
             out);
  heed_tensor *loss = heed_call(m->cx, HEED_mse_loss, (heed_value[]){heed_t(out[0]),
                                                                     heed_t(m->target)}, 2);
  for (int i = 0; i < 3; i++) { heed_drop(p[i]); heed_drop(out[i]); }
  return loss;
}

/* One step; the loss before it, or a negative number for a failure. */
static double train_step (model *m, int64_t number) {
  heed_step step = {.lr = 0.05, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .step = number};
  heed_tensor *gradients[3];
  heed_tensor *const *states[3] = {m->moments[0], m->moments[1], NULL};
  heed_set_autocast(m->cx, HEED_BFLOAT16);
  heed_tensor *loss = loss_of(m);
  double value = -1;
  heed_set_autocast(m->cx, HEED_FLOAT32);
  bool good = heed_backward(loss, NULL, false) && heed_read(loss, HEED_FLOAT64, &value);
  heed_drop(loss);
  heed_tensor *norm = good ? heed_clip_gradients(m->cx, 1e3, 2, 3, m->weights) : NULL;
  good = norm != NULL;
  heed_drop(norm);
  for (int i = 0; i < 3; i++) gradients[i] = good ? heed_gradient(m->weights[i]) : NULL;
  good = good && heed_optimize(m->cx, HEED_ADAM, &step, 3, m->weights, gradients, states);
  for (int i = 0; i < 3; i++) {
    heed_drop(gradients[i]);
    heed_set_gradient(m->weights[i], NULL);
  }
  return good ? value : -1;
}

static int trains (void) {
  model m = {.cx = heed_open(NULL)};
  if (m.cx == NULL || !build(&m)) {
    printf("train: cannot begin: %s\n", m.cx != NULL ? heed_error(m.cx) : "no context");
    return 1;
  }
  double first = train_step(&m, 1), last = first;
  for (int i = 2; i <= STEPS && last >= 0; i++) last = train_step(&m, i);
  if (last < 0) printf("train: %s\n", heed_error(m.cx));
  printf("train: loss %.4f at first, %.4f after %d steps\n", first, last, STEPS);
  unbuild(&m);
  heed_close(m.cx);
  return last >= 0 && last < first / 4 ? 0 : 1;
}

/*
** One step with the n-th allocation failing. 1: there are not so many; 0: it failed as it should,
** or a second try passed; -1: wrong.
*/
static int step_with_failure (long n, bool twice, bool onwards) {
  failing a = {.countdown = -1};
  heed_host host = {.resize = failing_resize, .self = &a, .threads = 1};
  model m = {.cx = heed_open(&host)};
  if (m.cx == NULL || !build(&m)) return -1;
  float before[DIM * DIM], after[DIM * DIM];
  heed_read(m.weights[0], HEED_FLOAT32, before);
  a.countdown = n;
  a.twice = twice;
  a.onwards = onwards;
  double loss = train_step(&m, 1);
  a.countdown = -1;
  int result = loss >= 0 && !a.failed;
  const char *message = heed_error(m.cx);
  if (loss >= 0 && message != NULL) result = -1;
  if (loss < 0 && (message == NULL || strstr(message, "memory") == NULL)) result = -1;
  if (loss < 0) {
    heed_clear(m.cx);
    heed_read(m.weights[0], HEED_FLOAT32, after);
    heed_tensor *g = heed_gradient(m.weights[0]);
    if (memcmp(before, after, sizeof before) != 0 || g != NULL) result = -1;
    heed_drop(g);
    if (train_step(&m, 1) < 0) result = -1;        /* a retry works */
  }
  unbuild(&m);
  heed_close(m.cx);
  if (a.alive != 0) result = -1;
  return result;
}

static int survives (bool twice, bool onwards) {
  const char *how = onwards ? "each with all that follow" : twice ? "each twice" : "one at a time";
  for (long n = 0; n < 5000; n++) {
    int result = step_with_failure(n, twice, onwards);
    if (result == 1) {
      printf("train: survived %ld failing allocations, %s\n", n, how);
      return n > 0 ? 0 : 1;
    }
    if (result < 0) {
      printf("train: allocation %ld failing, %s: wrong\n", n, how);
      return 1;
    }
  }
  return 1;
}

int main (void) {
  return trains() | survives(false, false) | survives(true, false) | survives(false, true);
}
