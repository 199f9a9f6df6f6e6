/*
** cuda_optimize.c - optimisers' steps on a GPU: kinds, types, odd sizes, captured ones.
*/

#include "cuda_cases.h"
#include "base/optimizer.h"

enum { ROWS = 9, PARTS = 2 + HEED_STATES, STEPS = 4 };     /* parts: parameter, gradient, states */

typedef struct plan {
  heed_optimizer kind;
  heed_step step;
  int n;
  optimize_row rows[ROWS], gpu_rows[ROWS];
  void *memory[ROWS][PARTS];         /* of the GPU */
  int states;
} plan;


static double tolerance (heed_type type) {
  return type == HEED_FLOAT64 ? 1e-13 : type == HEED_FLOAT32 ? 2e-6
       : type == HEED_FLOAT16 ? 2e-3 : 2e-2;
}

static size_t bytes_of (const optimize_row *r) { return (size_t)r->n * scalar_sizes[r->type]; }

static void set_part (optimize_row *r, int part, void *data) {
  if (part == 0) r->parameter = data;
  else if (part == 1) r->gradient = data;
  else r->state[part - 2] = data;
}

static const void *part_of (const optimize_row *r, int part) {
  return part == 0 ? r->parameter : part == 1 ? r->gradient : r->state[part - 2];
}

static void check (both *b, const char *why) {
  if (why == NULL) return;
  printf("not done: %s\n", why);
  b->failed++;
}


/* Options that go through all there are as 'i' does. */
static heed_step options (int i) {
  heed_step o = {.lr = 0.01 * (1 + i % 4), .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .step = 1};
  o.momentum = i / 3 % 2 ? 0.9 : 0;
  o.dampening = i / 6 % 2 ? 0.1 : 0;
  o.nesterov = o.momentum > 0 && o.dampening == 0;
  o.weight_decay = i % 5 ? 0.1 : 0;
  o.amsgrad = i / 2 % 2;
  o.maximize = i % 7 == 0;
  return o;
}

/* Numbers for both sides. A state that the first step does not read starts as NaN. */
static void fill_part (both *b, plan *p, int row, int part, int shift) {
  optimize_row *r = &p->rows[row];
  const size_t size = scalar_sizes[r->type], bytes = bytes_of(r);
  view v = filled(r->type, 1, SIZES(r->n + 1), -1, 1);
  if (part >= 2) memset(v.data, optimizer_reads(p->kind, &p->step) == 0 ? 0xff : 0, bytes + size);
  char *data = (char *)v.data + shift * size, *memory = b->gpu->alloc(b->gpu, bytes + size);
  if (bytes > 0) check(b, b->gpu->upload(b->gpu, memory + shift * size, data, bytes));
  set_part(r, part, data);
  set_part(&p->gpu_rows[row], part, memory + shift * size);
  p->memory[row][part] = memory;
}

/* Rows of all sizes, none among them, and of all types or one; some begin at an odd address. */
static void prepare (both *b, plan *p, int i) {
  static const int64_t sizes[ROWS] = {1, 0, 7, 4096, 4097, 300, 10000, 16, 33};
  const int n = i % 4 == 0 ? 1 : ROWS;
  *p = (plan){.kind = (heed_optimizer)((i + i / 4) % HEED_NOPTIMIZERS), .step = options(i), .n = n};
  p->states = optimizer_states(p->kind, &p->step);
  for (int k = 0; k < n; k++) {
    heed_type type = i % 2 == 1 ? HEED_FLOAT32 : float_type();
    p->rows[k] = p->gpu_rows[k] = (optimize_row){.type = type, .n = sizes[(i + k) % ROWS]};
    int shift = chance(0.3);
    for (int part = 0; part < 2 + p->states; part++) fill_part(b, p, k, part, shift);
  }
}

/* Steps by calls; with 'captured', all but the first by replays, which count on themselves. */
static void steps (both *b, plan *p, bool captured) {
  const accelerator *a = b->gpu->accelerator;
  device_capture *c = NULL;
  const char *why = NULL;
  for (p->step.step = 1; p->step.step <= STEPS; p->step.step++) {
    work on_cpu, on_gpu;
    work_optimize(&on_cpu, p->kind, p->n, p->rows, &p->step);
    work_optimize(&on_gpu, p->kind, p->n, p->gpu_rows, &p->step);
    check(b, b->cpu->run(b->cpu, &on_cpu));
    if (captured && p->step.step == 2) {
      check(b, a->capture_begin(b->gpu));
      check(b, b->gpu->run(b->gpu, &on_gpu));
      c = a->capture_end(b->gpu, &why);
      check(b, why);
    }
    check(b, c != NULL ? a->capture_replay(b->gpu, c) : b->gpu->run(b->gpu, &on_gpu));
  }
  if (c != NULL) a->capture_drop(b->gpu, c);
}

static bool same_part (both *b, const plan *p, int row, int part) {
  const optimize_row *r = &p->rows[row];
  const size_t bytes = bytes_of(r);
  char name[80], *got = malloc(bytes + 1);
  view v = {.type = r->type};
  layout_dense(&v.at, 1, &r->n);
  reached full_row = {.start = (char *)part_of(r, part), .bytes = bytes};
  snprintf(name, sizeof name, "optimiser %d, row %d of %s, part %d", p->kind, row,
           scalar_names[r->type], part);
  check(b, b->gpu->download(b->gpu, got, part_of(&p->gpu_rows[row], part), bytes));
  bool good = same_memory(name, part, &v, &full_row, got, tolerance(r->type));
  free(got);
  return good;
}

static void optimize (both *b, int i) {
  plan p;
  bool good = true;
  prepare(b, &p, i);
  steps(b, &p, i % 5 == 2);
  for (int row = 0; row < p.n; row++)
    for (int part = 0; part < 2 + p.states; part++) {
      const size_t bytes = bytes_of(&p.rows[row]), size = scalar_sizes[p.rows[row].type];
      if (bytes > 0) good = same_part(b, &p, row, part) && good;
      b->gpu->free(b->gpu, p.memory[row][part], bytes + size);
    }
  b->tried++;
  b->failed += !good;
  free_cases();
}


int main (void) {
  both b;
  if (!both_open(&b)) return 0;
  for (int i = 0; i < 80; i++) optimize(&b, i);
  return both_close(&b);
}
