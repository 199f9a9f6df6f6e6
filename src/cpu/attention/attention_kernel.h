/*
** attention_kernel.h - products of a tile of keys and a panel of queries, two vectors wide, whose
** sums are worked on before they leave the registers (read once for each type).
*/

#ifndef T
#include "cpu/attention/attention.h"
#else

typedef struct OF(ending) {        /* what becomes of a sum; by lanes, which hold queries */
  const T *less;                   /* (PANEL): what it is diminished by */
  const T *weights;                /* (rows, PANEL), as far apart as the result's rows */
  OF(vector) total[2];
} OF(ending);

typedef void (*OF(ended)) (const OF(product) *p, const T *a, const T *b, T *c, OF(ending) *e,
                           const T *weights);


/* c = 2^(a b - less), 2^MOST_EXPONENT at most, and its totals are added to. */
INLINED void OF(weigh_rows) (const int rows, const OF(product) *p, const T *a, const T *b, T *c,
                             OF(ending) *e) {
  const OF(exp2_constants) constants = OF(exp2_literals)();
  const OF(vector) most = OF(splat)(MOST_EXPONENT);
  OF(vector) sum[TILE_ROWS][4], total[2] = {e->total[0], e->total[1]};
  OF(tile_sums)(rows, 2, false, p, a, b, LANES, sum);
  const OF(vector) less[2] = {OF(load)(e->less), OF(load)(e->less + LANES)};
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int j = 0; j < 2; j++) {
      const OF(vector) x = OF(lesser)(most, sum[i][j] - less[j]);
      const OF(vector) weight = OF(exp2_with)(&constants, x);
      OF(store)(c + i * p->c_row + j * LANES, weight);
      total[j] += weight;
    }
  UNROLL for (int j = 0; j < 2; j++) e->total[j] = total[j];
}


/* c = weights (a b - less) */
INLINED void OF(slope_rows) (const int rows, const OF(product) *p, const T *a, const T *b, T *c,
                             const OF(ending) *e, const T *weights) {
  OF(vector) sum[TILE_ROWS][4];
  OF(tile_sums)(rows, 2, false, p, a, b, LANES, sum);
  const OF(vector) less[2] = {OF(load)(e->less), OF(load)(e->less + LANES)};
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int j = 0; j < 2; j++) {
      const OF(vector) weight = OF(load)(weights + i * p->c_row + j * LANES);
      OF(store)(c + i * p->c_row + j * LANES, weight * (sum[i][j] - less[j]));
    }
}


#define ENDED(rows) \
  static void OF(weigh_##rows) (const OF(product) *p, const T *a, const T *b, T *c, \
                                OF(ending) *e, const T *weights) { \
    (void)weights; \
    OF(weigh_rows)(rows, p, a, b, c, e); \
  } \
  static void OF(slope_##rows) (const OF(product) *p, const T *a, const T *b, T *c, \
                                OF(ending) *e, const T *weights) { \
    OF(slope_rows)(rows, p, a, b, c, e, weights); \
  }
#define WEIGH(rows) OF(weigh_##rows),
#define SLOPE(rows) OF(slope_##rows),

EACH_ROW(ENDED)
static const OF(ended) OF(weigh)[] = {NULL, EACH_ROW(WEIGH)};
static const OF(ended) OF(slope)[] = {NULL, EACH_ROW(SLOPE)};

#undef ENDED
#undef WEIGH
#undef SLOPE


/* The product of so many rows, cut into tiles of nearly one height that end in one way. */
static void OF(multiply_ended) (const OF(ended) *kernel, const OF(product) *p, int64_t rows,
                                const T *a, const T *b, T *c, OF(ending) *e) {
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
