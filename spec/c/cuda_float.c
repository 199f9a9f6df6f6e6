/*
** cuda_float.c - products of float32 on a GPU beside sums in float64: each way, each layout, with
** how far results are off. An emulated GPU is of the architecture that a way is for.
*/

#include "cuda_cases.h"

#include <sys/wait.h>
#include <unistd.h>

typedef struct way {
  const char *name;
  int precision;                   /* of heed.matmul_precision: 0 highest, 1 high */
  const char *shared;              /* KiB of an emulated GPU: 99 is an 8.6, 227 a 9.0 */
  double most;                     /* error, of a sum of sizes of terms */
} way;

static const way ways[] = {
  {"multiplications and additions", 0, "99", 3e-7},
  {"three products of TF32", 0, "227", 1e-6},
  {"one product of TF32", 1, "99", 1e-3}
};

/* How a matrix lies: its rows unbroken, its columns, neither; where 16 bytes are not aligned. */
enum { ROWS, COLUMNS, NEITHER, CROOKED, LIES };

static view matrix (int batches, int64_t m, int64_t n, int lie) {
  const int64_t wide[] = {batches, lie == COLUMNS ? n : m, lie == COLUMNS ? m : n};
  const int64_t round[] = {wide[0], wide[1], (wide[2] + 3) / 4 * 4 * (lie == NEITHER ? 2 : 1)};
  const int64_t odd[] = {wide[0], wide[1], wide[2] / 2 * 2 + 1};
  view v = filled(HEED_FLOAT32, 3, lie == CROOKED ? odd : round, -1, 1);
  v.at = layout_narrow(&v.at, 2, 0, wide[2], lie == NEITHER ? 2 : 1);
  if (lie == COLUMNS) v.at = layout_transpose(&v.at, 1, 2);
  return v;
}


/* The largest error of the products, where a sum is of terms of size 'terms' together. */
static double error_of (const work *w, const float *got) {
  const view *x = &w->in[0], *y = &w->in[1], *z = &w->out[0];
  const int64_t batches = z->at.size[0], m = z->at.size[1], n = z->at.size[2], k = x->at.size[2];
  double worst = 0;
  for (int64_t e = 0; e < batches * m * n; e++) {
    const int64_t row = e / n, column = e / (m * n) * k * n + e % n;
    double sum = 0, terms = 1e-30;
    for (int64_t d = 0; d < k; d++) {
      const double term = get(x, row * k + d) * get(y, column + d * n);
      sum += term;
      terms += fabs(term);
    }
    const double error = fabs(got[e] - sum) / terms;
    if (!(error <= worst)) worst = error;
  }
  return worst;
}


static double product (both *b, const int64_t size[4], int x_lie, int y_lie) {
  const int64_t m = size[1], n = size[2], k = size[3];
  const int batches = (int)size[0];
  char *got[WORK_OUTS];
  size_t bytes[WORK_OUTS];
  work w;
  work_matmul(&w, 1, false, fresh(HEED_FLOAT32, 3, SIZES(batches, m, n)),
              matrix(batches, m, k, x_lie), matrix(batches, k, n, y_lie), view_none());
  if (is_left_out(b, &w)) return 0;
  same_again(b, describe("product", &w), &w);
  run_and_fetch(b, &w, got, bytes);
  const double error = error_of(&w, (const float *)got[0]);
  free(got[0]);
  free_cases();
  return error;
}


/* A GPU takes the way that its architecture has, of the first two; that of an emulated one is
   known. NULL: another one was taken. */
static const way *taken (both *b, const way *how) {
  const bool emulated = emulates(b->cx);
  if (went(b, how->name)) return how;
  if (emulated || how->precision > 0) return NULL;
  return went(b, ways[0].name) ? &ways[0] : went(b, ways[1].name) ? &ways[1] : NULL;
}


static void try_way (both *b, const way *how) {
  static const int64_t sizes[][4] = {            /* batches, m, n, k */
    {1, 128, 64, 32}, {2, 129, 65, 17}, {3, 1, 130, 300}, {1, 200, 3, 65}, {2, 61, 70, 9},
    {1, 70, 33, 700}
  };
  double worst = 0;
  b->gpu->accelerator->precision(b->gpu, how->precision);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int lies = 0; lies < LIES * LIES; lies++) {
      const double error = product(b, sizes[s], lies / LIES, lies % LIES);
      if (!(error <= worst)) worst = error;
    }
  const way *took = taken(b, how);
  if (took == NULL) printf("%s: another way was taken\n", how->name);
  else printf("%s: errors up to %.2g of the terms\n", took->name, worst);
  b->tried++;
  b->failed += took == NULL || worst > took->most;
}


/* Numbers too large for TF32, or not finite, come out as of the CPU. */
static void ends (both *b) {
  static const float values[] = {INFINITY, -INFINITY, NAN, 3.4e38f, 1e-40f};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    view x = matrix(1, 140, 40, ROWS), y = matrix(1, 40, 70, COLUMNS);
    work w;
    put(&x, 30 * 40 + 7, values[i]);
    put(&y, 7 * 70 + 3, values[i] == values[i] ? 0.5 : 1);
    work_matmul(&w, 1, false, fresh(HEED_FLOAT32, 3, SIZES(1, 140, 70)), x, y, view_none());
    same(b, describe("product with ends", &w), &w, 1e-5);
    free_cases();
  }
}


static int run_way (const way *how) {
  both b;
  setenv("HEED_EMULATED_SHARED", how->shared, 1);
  setenv("HEED_CUBLASLT", "/none", 1);           /* heed's own kernels are meant */
  if (!both_open(&b)) return 0;
  try_way(&b, how);
  if (how->precision == 0) ends(&b);
  return both_close(&b);
}


int main (void) {
  int failed = 0;
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    fflush(stdout);
    const pid_t child = fork();
    int status = 0;
    if (child == 0) exit(run_way(&ways[i]));
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) failed++;
  }
  return failed > 0;
}
