/*
** cuda_matmul.c - products of matrices on a GPU: types, layouts, batches, addends, odd sizes.
*/

#include "cuda_cases.h"


static double tolerance (heed_type type) {
  return type == HEED_FLOAT64 ? 1e-13 : type == HEED_FLOAT32 ? 6e-6
       : type == HEED_FLOAT16 ? 1.2e-3 : type == HEED_BFLOAT16 ? 1e-2 : 0;
}

/* How a matrix and its batch lie; REPEATING is one matrix for all, so no output. */
enum { PLAIN, ACROSS, SPACED, WITHIN, UPWARDS, INSIDE, REPEATING, WAYS };

/* (batch.., m, n), where INSIDE has the last batch axis between m and n. */
static view matrix (heed_type type, int nb, int64_t m, int64_t n, int way) {
  int64_t size[4] = {2, 3};
  if (nb == 1) size[0] = 3;
  int swapped = way == ACROSS ? nb + 1 : way == INSIDE && nb > 0 ? nb : 0;
  size[nb] = m + (way == WITHIN ? 3 : 0);
  size[nb + 1] = n * (way == SPACED ? 2 : 1);
  if (swapped > 0) {
    int64_t kept = size[swapped];
    size[swapped] = size[swapped - 1];
    size[swapped - 1] = kept;
  }
  double high = type == HEED_BOOL ? 2 : scalar_is_float(type) ? 1 : 100;
  bool from_0 = type == HEED_UINT8 || type == HEED_BOOL;
  view v = filled(type, nb + 2, size, from_0 ? 0 : -high, high);
  if (swapped > 0) v.at = layout_transpose(&v.at, swapped - 1, swapped);
  if (way == SPACED) v.at = layout_narrow(&v.at, nb + 1, 0, n, 2);
  if (way == WITHIN) v.at = layout_narrow(&v.at, nb, 2, m, 1);
  if (way == UPWARDS && m > 0) v.at = layout_flip(&v.at, nb);
  for (int i = 0; way == REPEATING && i < nb; i++) v.at.stride[i] = 0;
  return without_offset(v);
}


/* None, a row, a matrix of its own, a column, a row over all batches. */
static view addend (heed_type type, int which, const view *product) {
  if (which == 0) return view_none();
  int nb = product->at.rank - 2;
  int64_t m = product->at.size[nb], n = product->at.size[nb + 1];
  if (which == 2) return matrix(type, nb, m, n, ACROSS);
  view v = matrix(type, 0, which == 3 ? m : 1, which == 3 ? 1 : n, PLAIN);
  if (which == 1) v.at = layout_remove(&v.at, 0);
  if (which == 4) layout_expand(&v.at, &product->at, &v.at);
  return v;
}

static void product (both *b, heed_type type, const int64_t size[3]) {
  int64_t m = size[0], n = size[1], k = size[2];
  int nb = (int)between(-1, 2), which = (int)pick(5);
  if (nb < 0) nb = 0;
  double alpha = !scalar_is_float(type) ? 3 : chance(0.5) ? 1 : -0.37;
  bool accumulate = chance(0.3);
  view x = matrix(type, nb, m, k, (int)pick(WAYS)), y = matrix(type, nb, k, n, (int)pick(WAYS));
  view z = matrix(type, nb, m, n, (int)pick(REPEATING));
  work w;
  work_matmul(&w, alpha, accumulate, z, x, y, addend(type, which, &z));
  same(b, describe("product", &w), &w, tolerance(type));
}

static void products (both *b) {
  static const heed_type types[] = {
    HEED_FLOAT32, HEED_FLOAT64, HEED_FLOAT16, HEED_BFLOAT16, HEED_INT64, HEED_UINT8
  };
  static const int64_t sizes[][3] = {                /* m, n, k */
    {1, 1, 1}, {2, 3, 1}, {3, 5, 7}, {64, 64, 64}, {65, 33, 129}, {1, 200, 70}, {130, 1, 40},
    {70, 71, 300}, {17, 90, 0}, {0, 4, 4}
  };
  for (int t = 0; t < 6; t++)
    for (int s = 0; s < 10; s++) {
      for (int i = 0; i < 12; i++) product(b, types[t], sizes[s]);
      free_cases();
    }
}


/* Inputs of two types, an addend of a third. */
static void mixed (both *b) {
  for (int i = 0; i < 16; i++) {
    heed_type first = float_types[i / 4], second = float_types[i % 4];
    view x = matrix(first, 0, 20, 30, PLAIN), y = matrix(second, 0, 30, 40, ACROSS);
    view added = matrix(HEED_FLOAT32, 0, 20, 40, PLAIN), z = matrix(first, 0, 20, 40, PLAIN);
    work w;
    work_matmul(&w, 1, false, z, x, y, added);
    same(b, describe("mixed product", &w), &w, tolerance(first));
  }
}


/* An element that is not finite reaches its row and its column, nothing else. */
static void not_finite (both *b) {
  for (int i = 0; i < 4; i++) {
    heed_type type = float_types[i];
    view x = matrix(type, 0, 70, 70, PLAIN), y = matrix(type, 0, 70, 70, ACROSS);
    work w;
    put(&x, 75, NAN);
    put(&y, 800, INFINITY);
    work_matmul(&w, 1, false, matrix(type, 0, 70, 70, PLAIN), x, y, view_none());
    same(b, describe("product with NaN", &w), &w, tolerance(type));
    same_again(b, "product with NaN", &w);
  }
}


int main (void) {
  both b;
  if (!both_open(&b)) return 0;
  products(&b);
  mixed(&b);
  not_finite(&b);
  return both_close(&b);
}
