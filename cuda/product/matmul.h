/*
** matmul.h - products as their kernels see them: sizes, strides and batches.
*/

#ifndef cuda_matmul_h
#define cuda_matmul_h

#include "cuda/cuda.h"

#pragma GCC visibility push(hidden)

#define BATCHED 4                  /* operands: a, b, c and the addend */

typedef struct side { int64_t row, column; } side;       /* strides; 0 along an axis of size 1 */

/* c (rows, columns) = alpha a (rows, depth) b (depth, columns) [+ addend] [+ c]; see 'batch' */
typedef struct products {
  int64_t rows, columns, depth, batches;
  int64_t across, down;            /* tiles of one c */
  double alpha;
  bool accumulate, added;          /* + c; + addend */
  side a, b, c, addend;
  path batch[BATCHED];             /* the first elements of matrices */
} products;

/* Elements of a float32 product. */
typedef struct product_data { const float *a, *b, *addend; float *c; } product_data;

/* Products of float32, of any strides and sizes, best of large ones: float.cu. */
const char *multiply_floats (cuda *self, products &p, const product_data &d);

/* Are tensor cores more than three times as fast in TF32 as multiplications and additions of
   floats? On 8.6, 8.9 and 12.0 they are as fast, or twice. */
static inline bool has_fast_tf32 (const cuda *self) {
  const runtime_device *gpu = &self->gpu;
  return (gpu->major == 8 && gpu->minor == 0) || gpu->major == 9 || gpu->major == 10;
}

#pragma GCC visibility pop

#endif
