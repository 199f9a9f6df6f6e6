/*
** cuda_clip.c - norms of many gradients on a GPU, and their scaling: types, odd sizes, values that
** squares of float do not hold, captured works.
*/

#include "cuda_cases.h"

enum { ROWS = 40 };

typedef struct plan {
  int n;
  clip_row rows[ROWS], gpu_rows[ROWS];
  double norm, *gpu_norm;
  double max;
  clip_op op;
} plan;

static const heed_type types[] = {HEED_FLOAT32, HEED_FLOAT16, HEED_BFLOAT16};

static size_t bytes_of (const clip_row *r) { return (size_t)r->n * scalar_sizes[r->type]; }

static void check (both *b, const char *why) {
  if (why == NULL) return;
  printf("not done: %s\n", why);
  b->failed++;
}


static void prepare (both *b, plan *p, int i) {
  static const int64_t sizes[] = {1, 0, 7, 4096, 4097, 300, 20000};
  const double size = i % 7 == 3 ? 1e25 : i % 7 == 5 ? 1e-30 : 1;
  p->n = i % 4 == 0 ? 1 : ROWS;
  p->max = i % 3 == 0 ? 1e30 : 2;
  p->op = i % 5 == 0 ? CLIP_NORM : CLIP_SCALE;
  p->gpu_norm = b->gpu->alloc(b->gpu, sizeof p->norm);
  for (int k = 0; k < p->n; k++) {
    clip_row *r = &p->rows[k];
    const heed_type type = types[size == 1 ? pick(3) : 0];
    *r = (clip_row){.type = type, .n = sizes[(i + k) % 7]};
    view v = filled(type, 1, SIZES(r->n + 1), -1, 1);
    for (int64_t j = 0; j < r->n && size != 1; j++) put(&v, j, size * get(&v, j));
    r->data = v.data;
    p->gpu_rows[k] = *r;
    p->gpu_rows[k].data = b->gpu->alloc(b->gpu, bytes_of(r) + 1);
    if (r->n > 0) check(b, b->gpu->upload(b->gpu, p->gpu_rows[k].data, r->data, bytes_of(r)));
  }
}


static view norm_view (double *norm) {
  view v = {.type = HEED_FLOAT64, .data = norm};
  layout_dense(&v.at, 0, NULL);
  return v;
}


/* Twice: the second time, with 'captured', as a replay. */
static void run (both *b, plan *p, bool captured) {
  const accelerator *a = b->gpu->accelerator;
  device_capture *c = NULL;
  const char *why = NULL;
  work on_cpu, on_gpu;
  work_clip(&on_cpu, p->op, p->max, p->n, p->rows, norm_view(&p->norm));
  work_clip(&on_gpu, p->op, p->max, p->n, p->gpu_rows, norm_view(p->gpu_norm));
  check(b, b->cpu->run(b->cpu, &on_cpu));
  check(b, b->gpu->run(b->gpu, &on_gpu));
  if (!captured) return;
  p->max /= 2;
  on_cpu.clip.max = on_gpu.clip.max = p->max;
  check(b, a->capture_begin(b->gpu));
  check(b, b->gpu->run(b->gpu, &on_gpu));
  c = a->capture_end(b->gpu, &why);
  check(b, why);
  if (c == NULL) return;
  check(b, b->cpu->run(b->cpu, &on_cpu));
  check(b, a->capture_replay(b->gpu, c));
  a->capture_drop(b->gpu, c);
}


static bool same_row (both *b, const plan *p, int row) {
  const clip_row *r = &p->rows[row];
  char name[80], *got = malloc(bytes_of(r) + 1);
  view v = {.type = r->type};
  layout_dense(&v.at, 1, &r->n);
  reached full_row = {.start = r->data, .bytes = bytes_of(r)};
  snprintf(name, sizeof name, "clipping, row %d of %s", row, scalar_names[r->type]);
  check(b, b->gpu->download(b->gpu, got, p->gpu_rows[row].data, bytes_of(r)));
  const double tolerance = r->type == HEED_FLOAT32 ? 2e-6 : r->type == HEED_FLOAT16 ? 2e-3 : 2e-2;
  bool good = same_memory(name, 0, &v, &full_row, got, tolerance);
  free(got);
  return good;
}


static bool same_norm (both *b, const plan *p) {
  double norm;
  check(b, b->gpu->download(b->gpu, &norm, p->gpu_norm, sizeof norm));
  if (norm == p->norm || fabs(norm / p->norm - 1) < 1e-6) return true;
  printf("clipping: the norm is %.17g, was %.17g expected\n", norm, p->norm);
  return false;
}


static void clip (both *b, int i) {
  plan p;
  prepare(b, &p, i);
  run(b, &p, i % 3 == 1);
  bool good = same_norm(b, &p);
  for (int row = 0; row < p.n; row++) {
    if (p.rows[row].n > 0) good = same_row(b, &p, row) && good;
    b->gpu->free(b->gpu, p.gpu_rows[row].data, bytes_of(&p.rows[row]) + 1);
  }
  b->gpu->free(b->gpu, p.gpu_norm, sizeof p.norm);
  b->tried++;
  b->failed += !good;
  free_cases();
}


int main (void) {
  both b;
  if (!both_open(&b)) return 0;
  for (int i = 0; i < 40; i++) clip(&b, i);
  return both_close(&b);
}
