/*
** weights.h - weights from the normaliser of their row; and what is blocked, which must add nothing
** (read once for each type).
*/

#ifndef T
#include "cpu/attention/attention.h"
#else

/*
** A normaliser as an exponent of 2: +inf for a query that attends to nothing, so that its weights
** are 2^-inf = 0.
*/
INLINED FN(vector) FN(exponent_of) (FN(vector) lse) {
  const FN(vector) y = lse * (T)LOG2E;
  return FN(select)(y == -(T)INFINITY, FN(splat)((T)INFINITY), y);
}


/* A blocked pair has the score -inf and the weight 0, even where its row's normaliser is NaN. */
INLINED FN(vector) FN(weight_of) (FN(vector) score, FN(vector) weight) {
  return FN(select)(score == -(T)INFINITY, (FN(vector)){0}, weight);
}


/* Scores become weights, 'step' elements apart; 'exponent' is that of their normaliser. */
INLINED void FN(weigh_scores) (int64_t n, T *s, int64_t step, FN(vector) exponent) {
  const FN(exp2_constants) constants = FN(exp2_open)();
  for (T *end = s + n * step; s < end; s += step) {
    const FN(vector) score = FN(load)(s);
    FN(store)(s, FN(weight_of)(score, FN(exp2_with)(&constants, score - exponent)));
  }
}


INLINED bool FN(all_lanes) (FN(flags) lane) {
  BITS all = -1;
  UNROLL for (int i = 0; i < LANES; i++) all &= lane[i];
  return all != 0;
}


static bool FN(is_finite) (const T *at, int64_t rows, int64_t columns, int64_t row) {
  FN(vector) zero = {0};
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c += LANES)
      zero += FN(load_some)(at + r * row + c, (int)smaller(columns - c, LANES)) * 0;
  return FN(total)(zero) == 0;
}


/*
** The fast products multiply blocked values by a weight of 0, and 0 times NaN is NaN. So results
** that are not finite may be wrong where there is a mask; they are computed again with care, that
** is by products that skip weights of 0. Returns whether that is needed.
*/
static bool FN(needs_care) (const attend *a, const T *at, int64_t rows, int64_t columns,
                            int64_t row) {
  return a->w->attention.mask.n > 0 && !FN(is_finite)(at, rows, columns, row);
}


/* c (+)= alpha a b with care, where one of the two holds weights. */
static void FN(multiply_careful) (const FN(product) *p, bool weights_in_a, int64_t rows,
                                  int64_t columns, const T *a, const T *b, T *c) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      T sum = 0;
      for (int64_t k = 0; k < p->depth; k++) {
        T x = a[i * p->a_row + k * p->a_column], y = b[k * p->b_row + j];
        if ((weights_in_a ? x : y) != 0) sum = FN(fused)(x, y, sum);
      }
      c[i * p->c_row + j] = sum * p->alpha + (p->add ? c[i * p->c_row + j] : 0);
    }
}


/* The product by weights, with or without care. */
static void FN(multiply_weights) (const FN(product) *p, bool careful, bool weights_in_a,
                                  int64_t rows, int64_t columns, const T *a, const T *b, T *c) {
  if (careful) FN(multiply_careful)(p, weights_in_a, rows, columns, a, b, c);
  else FN(multiply)(p, rows, columns, a, b, c);
}

#endif
