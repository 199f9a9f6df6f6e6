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

/* A matrix: its first element and its strides. */
typedef struct matrix {
  char *data;
  int64_t row, column;
} matrix;

static matrix matrix_of (const view *v) {
  return (matrix){v->data, v->at.stride[0], v->at.stride[1]};
}

/* Columns j .. j + N - 1 of row i of y, each summed in the order of the depth. */
#define COLUMNS(name, T, N) \
  static void name (int64_t depth, const matrix *y, const matrix *a, const matrix *b, int64_t i, \
                    int64_t j) { \
    const T *x = (T *)a->data + i * a->row, *z = (T *)b->data + j * b->column; \
    T *to = (T *)y->data + i * y->row + j * y->column, sum[N] = {0}; \
    for (int64_t k = 0; k < depth; k++, x += a->column, z += b->row) \
      for (int n = 0; n < N; n++) sum[n] += *x * z[n * b->column]; \
    for (int n = 0; n < N; n++) to[n * y->column] = sum[n]; \
  }

#define SIDE 4                     /* columns side by side: their sums do not wait for each other */

COLUMNS(side_float, float, SIDE)
COLUMNS(one_float, float, 1)
COLUMNS(side_double, double, SIDE)
COLUMNS(one_double, double, 1)


static void multiply (const work *w, int64_t rows, int64_t columns, int64_t depth) {
  const matrix a = matrix_of(&w->in[MATMUL_A]), b = matrix_of(&w->in[MATMUL_B]);
  const matrix y = matrix_of(w->out);
  const bool single = w->out[0].type == HEED_FLOAT32;
  for (int64_t i = 0; i < rows; i++) {
    int64_t j = 0;
    for (; j + SIDE <= columns; j += SIDE)
      (single ? side_float : side_double)(depth, &y, &a, &b, i, j);
    for (; j < columns; j++) (single ? one_float : one_double)(depth, &y, &a, &b, i, j);
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
