/*
** tiny.c - products of a few numbers, rounded as PyTorch rounds them.
**
** A lesson's product of 4 by 4 is compared digit for digit. PyTorch's CPU path for fewer than 400
** multiplications rounds each product and each sum, in order, without fusing the two; so does
** this file, which is compiled for the baseline CPU and forbids the fusing elsewhere.
*/

#include "cpu/cpu.h"

#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize ("-ffp-contract=off")
#endif

#define MOST 400                   /* multiplications, as in PyTorch's bmm */

static int64_t row_stride (const view *v) { return v->at.stride[v->at.rank - 2]; }
static int64_t column_stride (const view *v) { return v->at.stride[v->at.rank - 1]; }

static float dot_float (int64_t n, const float *a, int64_t as, const float *b, int64_t bs) {
  float sum = 0;
  for (int64_t k = 0; k < n; k++) sum += a[k * as] * b[k * bs];
  return sum;
}

static double dot_double (int64_t n, const double *a, int64_t as, const double *b, int64_t bs) {
  double sum = 0;
  for (int64_t k = 0; k < n; k++) sum += a[k * as] * b[k * bs];
  return sum;
}

static void multiply (const work *w, int64_t rows, int64_t columns, int64_t depth) {
  const view *a = &w->in[MATMUL_A], *b = &w->in[MATMUL_B], *y = &w->out[0];
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < columns; j++) {
      int64_t ai = i * row_stride(a), bj = j * column_stride(b);
      int64_t to = i * row_stride(y) + j * column_stride(y);
      if (y->type == HEED_FLOAT32)
        ((float *)y->data)[to] = dot_float(depth, (float *)a->data + ai, column_stride(a),
                                           (float *)b->data + bj, row_stride(b));
      else
        ((double *)y->data)[to] = dot_double(depth, (double *)a->data + ai, column_stride(a),
                                             (double *)b->data + bj, row_stride(b));
    }
  }
}

/* A single plain product, of one type, without addends? */
static bool suits (const work *w) {
  const heed_type type = w->out[0].type;
  const view *a = &w->in[MATMUL_A], *b = &w->in[MATMUL_B];
  return (type == HEED_FLOAT32 || type == HEED_FLOAT64) && w->nin == 2 &&
         !w->matmul.accumulate && w->matmul.alpha == 1 && w->out[0].at.rank == 2 &&
         a->type == type && b->type == type && a->data != NULL && b->data != NULL;
}

bool cpu_matmul_tiny (const work *w) {
  if (!suits(w)) return false;
  int64_t rows = w->out[0].at.size[0], columns = w->out[0].at.size[1];
  int64_t depth = w->in[MATMUL_A].at.size[1];
  if (rows >= MOST || columns >= MOST || depth >= MOST || rows * columns * depth >= MOST)
    return false;
  multiply(w, rows, columns, depth);
  return true;
}
