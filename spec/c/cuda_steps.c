/*
** cuda_steps.c - training steps of a small model: two runs give the same bits, captured steps those
** of steps that are not, and after thousands of them memory is what it was.
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"
#include "memory/machine.h"

enum { BATCH = 2, LENGTH = 33, HEADS = 2, DIM = 16, WORDS = 21, PARTS = 5, RUN = 50 };

#define CALL(cx, op, ...) heed_call(cx, HEED_##op, (heed_value[]){__VA_ARGS__}, \
                                    (int)(sizeof (heed_value[]){__VA_ARGS__} / sizeof (heed_value)))

static int wrong;

/* An embedding; projections for query, key and value; the head. */
typedef struct model {
  heed_context *cx;
  heed_tensor *weights[PARTS], *moments[2][PARTS];
  heed_tensor *words, *next;       /* (BATCH, HEADS, LENGTH), int64 */
  int64_t steps;
} model;


static void check (bool good, const char *what) {
  if (good) return;
  wrong++;
  printf("wrong: %s\n", what);
}


static heed_tensor *words_from (heed_context *cx, int first) {
  int64_t word[BATCH * HEADS * LENGTH];
  for (int i = 0; i < BATCH * HEADS * LENGTH; i++) word[i] = 1 + (i * i + first) % WORDS;
  return heed_from(cx, HEED_INT64, 3, (int64_t[]){BATCH, HEADS, LENGTH}, word);
}

/* Of numbers between -1 and 1 that are the same in every process. */
static heed_tensor *weight_of (heed_context *cx, int64_t rows, int64_t columns, uint32_t state) {
  float x[WORDS * DIM];
  for (int64_t i = 0; i < rows * columns; i++) {
    state = state * 1664525 + 1013904223;
    x[i] = (float)(int32_t)state * 0x1p-31f;
  }
  return heed_from(cx, HEED_FLOAT32, 2, (int64_t[]){rows, columns}, x);
}

static bool build (model *m) {
  *m = (model){.cx = heed_open(NULL)};
  if (!heed_set_device(m->cx, "cuda")) return false;
  for (int i = 0; i < PARTS; i++) {
    const bool table = i == 0 || i == PARTS - 1;
    const int64_t size[] = {table ? WORDS : DIM, DIM};
    m->weights[i] = weight_of(m->cx, size[0], size[1], (uint32_t)i);
    heed_require_grad(m->weights[i], true);
    for (int k = 0; k < 2; k++) m->moments[k][i] = CALL(m->cx, zeros, heed_l(2, size));
  }
  m->words = words_from(m->cx, 0);
  m->next = words_from(m->cx, 1);
  return heed_error(m->cx) == NULL;
}

static void unbuild (model *m) {
  for (int i = 0; i < PARTS; i++) {
    heed_drop(m->weights[i]);
    heed_drop(m->moments[0][i]);
    heed_drop(m->moments[1][i]);
  }
  heed_drop(m->words);
  heed_drop(m->next);
  heed_close(m->cx);
}


static heed_tensor *loss_of (model *m) {
  heed_context *cx = m->cx;
  heed_tensor *p[3], *x = CALL(cx, embedding, heed_t(m->words), heed_t(m->weights[0]));
  heed_tensor *normal = CALL(cx, layer_norm, heed_t(x), heed_l(1, (int64_t[]){DIM}));
  for (int i = 0; i < 3; i++) p[i] = CALL(cx, matmul, heed_t(normal), heed_t(m->weights[1 + i]));
  heed_tensor *y = CALL(cx, attention, heed_t(p[0]), heed_t(p[1]), heed_t(p[2]), heed_none(),
                        heed_none(), heed_none(), heed_b(true));
  heed_tensor *sum = CALL(cx, add, heed_t(x), heed_t(y));
  heed_tensor *logits = CALL(cx, linear, heed_t(sum), heed_t(m->weights[PARTS - 1]));
  heed_tensor *flat = CALL(cx, reshape, heed_t(logits), heed_l(2, (int64_t[]){-1, WORDS}));
  heed_tensor *next = CALL(cx, reshape, heed_t(m->next), heed_l(1, (int64_t[]){-1}));
  heed_tensor *loss = CALL(cx, cross_entropy, heed_t(flat), heed_t(next));
  heed_tensor *made[] = {p[0], p[1], p[2], x, normal, y, sum, logits, flat, next};
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) heed_drop(made[i]);
  return loss;
}

/* Nothing is read back, so that it can be captured. */
static bool step (model *m) {
  const heed_step adam = {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8,
                          .step = ++m->steps};
  heed_tensor *gradients[PARTS], *const *states[] = {m->moments[0], m->moments[1], NULL};
  heed_tensor *loss = loss_of(m);
  bool good = heed_backward(loss, NULL, false);
  heed_drop(loss);
  for (int i = 0; i < PARTS; i++) gradients[i] = heed_gradient(m->weights[i]);
  good = good && heed_optimize(m->cx, HEED_ADAM, &adam, PARTS, m->weights, gradients, states);
  for (int i = 0; i < PARTS; i++) {
    heed_drop(gradients[i]);
    heed_set_gradient(m->weights[i], NULL);
  }
  return good;
}

static bool steps (model *m, int n) {
  bool good = true;
  for (int i = 0; i < n && good; i++) good = step(m);
  check(good, "a step");
  if (!good) printf("%s\n", heed_error(m->cx));
  return good;
}

static bool captured_steps (model *m, int n) {
  steps(m, 1);
  heed_capture_begin(m->cx, "cuda");
  step(m);
  heed_capture *c = heed_capture_end(m->cx);
  check(c != NULL, "a capture");
  for (int i = 1; i < n && c != NULL; i++)
    check(heed_capture_replay(m->cx, c), "a replay");
  heed_capture_drop(m->cx, c);
  return c != NULL;
}


typedef struct weights { float value[PARTS][WORDS * DIM]; double loss; } weights;

static weights *weights_of (model *m) {
  weights *w = calloc(1, sizeof *w);
  for (int i = 0; i < PARTS; i++)
    check(heed_read(m->weights[i], HEED_FLOAT32, w->value[i]), "a weight");
  heed_tensor *loss = loss_of(m);
  check(heed_read(loss, HEED_FLOAT64, &w->loss), "a loss");
  heed_drop(loss);
  return w;
}

static weights *after (bool (*go) (model *m, int n), int n) {
  model m;
  check(build(&m), "a model");
  go(&m, n);
  weights *w = weights_of(&m);
  unbuild(&m);
  return w;
}


static void same_bits (int n) {
  weights *none = after(steps, 0), *one = after(steps, n), *two = after(steps, n);
  weights *captured = after(captured_steps, n);
  check(one->loss < none->loss - 0.01, "the model learns");
  check(memcmp(one, two, sizeof *one) == 0, "two runs give the same bits");
  check(memcmp(one, captured, sizeof *one) == 0, "captured steps give the same bits");
  printf("loss %.6f at first, %.6f after %d steps\n", none->loss, one->loss, n);
  free(none);
  free(one);
  free(two);
  free(captured);
}


/* AddressSanitizer holds freed memory back, whose pages would count: here little of it. */
__attribute__((visibility("default"))) const char *__asan_default_options (void);
const char *__asan_default_options (void) { return "quarantine_size_mb=1"; }


/* The host's pages are counted between a tenth of the steps, when all caches are full, and all. */
static void flat (int n) {
  model m;
  check(build(&m) && steps(&m, n / 10), "the first steps");
  heed_device_memory before, now;
  heed_synchronize(m.cx, "cuda");
  heed_device_memory_now(m.cx, "cuda", &before);
  const size_t live = heed_memory_now(m.cx).live, resident = machine_resident();
  const int64_t nodes = heed_graph_nodes(m.cx);
  steps(&m, n - n / 10);
  heed_synchronize(m.cx, "cuda");
  heed_device_memory_now(m.cx, "cuda", &now);
  const size_t grown = machine_resident() > resident ? machine_resident() - resident : 0;
  check(now.live == before.live && now.cached == before.cached && now.peak == before.peak,
        "the device's memory stays as it is");
  check(heed_memory_now(m.cx).live == live && heed_graph_nodes(m.cx) == nodes, "the host's too");
  check(grown < (size_t)8 << 20, "and the process's pages");
  printf("%d steps: %zu bytes live, %zu cached; the host's pages grew by %zu KiB\n", n, now.live,
         now.cached, grown >> 10);
  unbuild(&m);
}


int main (void) {
  model m;
  const bool there = build(&m);
  if (!there) printf("skipped: %s\n0 passed, 0 failed, 1 skipped\n", heed_error(m.cx));
  const bool emulated = there && strcmp(m.cx->devices.plugin->built, "emulated") == 0;
  unbuild(&m);
  if (!there) return 0;
  same_bits(emulated ? 3 : RUN);
  flat(emulated ? 50 : 10000);
  printf("%d wrong\n", wrong);
  return wrong > 0;
}
