/*
** kernel.h - products of a tile of keys and a panel of queries, two vectors wide, whose
** sums are worked on before they leave the registers (read once for each type).
*/

#ifndef T
#include "cpu/attention/attention.h"
#else

typedef struct FN(ending) {        /* what is done to sums; lanes hold queries */
  const T *less;                   /* (PANEL): is subtracted from the sum */
  const T *weights;                /* (rows, PANEL), as far apart as the result's rows */
  FN(vector) total[2];
} FN(ending);

typedef void (*FN(ended)) (const FN(product) *p, const T *a, const T *b, T *c, FN(ending) *e,
                           const T *weights);


/* c = 2^(a b - less), 2^MOST_EXPONENT at most, and its totals are added to. */
INLINED void FN(weigh_rows) (const int rows, const FN(product) *p, const T *a, const T *b, T *c,
                             FN(ending) *e) {
  const FN(exp2_constants) constants = FN(exp2_literals)();
  const FN(vector) most = FN(splat)(MOST_EXPONENT);
  FN(vector) sum[TILE_ROWS][4], total[2] = {e->total[0], e->total[1]};
  FN(tile_sums)(rows, 2, false, p, a, b, LANES, sum);
  const FN(vector) less[2] = {FN(load)(e->less), FN(load)(e->less + LANES)};
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int j = 0; j < 2; j++) {
      const FN(vector) x = FN(lesser)(most, sum[i][j] - less[j]);
      const FN(vector) weight = FN(exp2_with)(&constants, x);
      FN(store)(c + i * p->c_row + j * LANES, weight);
      total[j] += weight;
    }
  UNROLL for (int j = 0; j < 2; j++) e->total[j] = total[j];
}


/* c = weights (a b - less) */
INLINED void FN(slope_rows) (const int rows, const FN(product) *p, const T *a, const T *b, T *c,
                             const FN(ending) *e, const T *weights) {
  FN(vector) sum[TILE_ROWS][4];
  FN(tile_sums)(rows, 2, false, p, a, b, LANES, sum);
  const FN(vector) less[2] = {FN(load)(e->less), FN(load)(e->less + LANES)};
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int j = 0; j < 2; j++) {
      const FN(vector) weight = FN(load)(weights + i * p->c_row + j * LANES);
      FN(store)(c + i * p->c_row + j * LANES, weight * (sum[i][j] - less[j]));
    }
}


#define ENDED(rows) \
  static void FN(weigh_##rows) (const FN(product) *p, const T *a, const T *b, T *c, \
                                FN(ending) *e, const T *weights) { \
    (void)weights; \
    FN(weigh_rows)(rows, p, a, b, c, e); \
  } \
  static void FN(slope_##rows) (const FN(product) *p, const T *a, const T *b, T *c, \
                                FN(ending) *e, const T *weights) { \
    FN(slope_rows)(rows, p, a, b, c, e, weights); \
  }
#define WEIGH(rows) FN(weigh_##rows),
#define SLOPE(rows) FN(slope_##rows),

EACH_ROW(ENDED)
static const FN(ended) FN(weigh)[] = {NULL, EACH_ROW(WEIGH)};
static const FN(ended) FN(slope)[] = {NULL, EACH_ROW(SLOPE)};

#undef ENDED
#undef WEIGH
#undef SLOPE


/* The product of so many rows, cut into tiles of nearly one height that end in one way. */
static void FN(multiply_ended) (const FN(ended) *kernel, const FN(product) *p, int64_t rows,
                                const T *a, const T *b, T *c, FN(ending) *e) {
  const T *weights = e->weights;
  for (int64_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS; tiles > 0; tiles--) {
    const int64_t n = (int64_t)((uint32_t)(rows + tiles - 1) / (uint32_t)tiles);
    kernel[n](p, a, b, c, e, weights);
    a += n * p->a_row;
    c += n * p->c_row;
    if (weights != NULL) weights += n * p->c_row;
    rows -= n;
  }
}

#endif
