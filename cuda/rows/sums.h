/*
** sums.h - sums of floats that keep what floats round off: of values, exponentials, squares.
**
** Doubles would do as well, but many GPUs have one unit for them where they have 64 for floats; so
** a loop over floats has none of their arithmetic, and results become doubles behind the loop.
*/

#ifndef cuda_sums_h
#define cuda_sums_h

#include "cuda/rows/rows.h"


/*
** {==================================================================
** Sums in two parts
** ===================================================================
*/

/* 'rest' is what was rounded off 'sum'; NaN where that is infinite. */
typedef struct two_sum { float sum, rest; } two_sum;

/* The type that sums of T are kept in. */
template <class T> struct kept { typedef double sum; };
template <> struct kept<float> { typedef two_sum sum; };
#define KEPT_SUM(T) typename kept<T>::sum

/* a + b, and *rest, which is exact (D. Knuth, "The Art of Computer Programming", 4.2.2). */
INLINE float add_exactly (float a, float b, float *rest) {
  const float sum = a + b, of_b = sum - a;
  *rest = (a - (sum - of_b)) + (b - of_b);
  return sum;
}

INLINE void add (double &s, double x) { s += x; }
INLINE void add (two_sum &s, float x) {
  float rest;
  s.sum = add_exactly(s.sum, x, &rest);
  s.rest += rest;
}
INLINE void add (two_sum &s, two_sum x) {    /* the same whichever is added to the other */
  float rest;
  s.sum = add_exactly(s.sum, x.sum, &rest);
  s.rest = (s.rest + x.rest) + rest;
}

INLINE void multiply (double &s, double by) { s *= by; }
INLINE void multiply (two_sum &s, float by) {
  const float product = s.sum * by;
  s.rest = s.rest * by + fmaf(s.sum, by, -product);
  s.sum = product;
}

INLINE double value_of (double s) { return s; }
INLINE double value_of (two_sum s) { return isfinite(s.sum) ? (double)s.sum + s.rest : s.sum; }

INLINE two_sum from_lane (two_sum s, int by) {
  return two_sum{from_lane(s.sum, by), from_lane(s.rest, by)};
}

/* }================================================================== */


/*
** {==================================================================
** Sums of exponentials
** ===================================================================
*/

INLINE float exponential (float x) { return expf(x); }
INLINE double exponential (double x) { return exp(x); }

/* Infinite maxima count as 0: inf - inf would be NaN. */
template <class T> INLINE T finite_top (T top) { return isinf(top) ? (T)0 : top; }

/*
** The sum of e^(x - top). 'top', -inf at first and never NaN, is one of the x and below the largest
** by RISE at most: it goes up in steps beyond that, so that the rounding of the factors of all
** steps stays that of a few. Where x = top is far above all others, its 1 is exact.
*/
template <class T> struct exponentials { T top; KEPT_SUM(T) sum; };

#define RISE 1

template <class T> INLINE exponentials<T> no_exponentials (void) {
  return exponentials<T>{(T)-INFINITY, {}};
}

template <class T, int N> INLINE void take_exponentials (exponentials<T> &p, const pack<T, N> &x) {
  T top = p.top;
  EACH(k, N) top = x.of[k] > top ? x.of[k] : top;
  if (top > p.top + RISE) {
    if (!isinf(p.top)) multiply(p.sum, exponential(p.top - top));
    p.top = top;
  }
  pack<T, N> e;
  EACH(k, N) e.of[k] = exponential(x.of[k] - finite_top(p.top));
  add(p.sum, pack_sum(e));
}

template <class T> INLINE exponentials<T> from_lane (exponentials<T> p, int by) {
  return exponentials<T>{from_lane(p.top, by), from_lane(p.sum, by)};
}

struct join_exponentials {
  template <class T>
  __device__ exponentials<T> operator() (exponentials<T> a, exponentials<T> b) const {
    exponentials<T> high = a.top > b.top ? a : b, low = a.top > b.top ? b : a;
    if (low.top != high.top) multiply(low.sum, exponential(low.top - high.top));
    add(high.sum, low.sum);
    return high;
  }
};

/* }================================================================== */


/*
** {==================================================================
** Sums of squares of x - mean, and of x - mean
** ===================================================================
*/

/*
** Floats do not hold all squares: those of floats are summed up in units, a power of two that the
** largest |x| or |mean| is not far from.
*/
template <class T> struct squares_sum { double square, off; };
template <> struct squares_sum<float> { float unit; two_sum square, off; };

#define UNIT_BITS(power) ((uint32_t)(127 + (power)) << 23)
#define LEAST_UNIT UNIT_BITS(-100) /* the reciprocal of which is a float, too */
#define MOST_UNIT UNIT_BITS(100)

INLINE float unit_of (float x) {
  const uint32_t bits = __float_as_uint(x) & 0x7f800000;
  return __uint_as_float(bits < LEAST_UNIT ? LEAST_UNIT : bits < MOST_UNIT ? bits : MOST_UNIT);
}

INLINE float reciprocal_of (float unit) {
  return __uint_as_float(2 * UNIT_BITS(0) - __float_as_uint(unit));
}

INLINE void change_unit (squares_sum<float> &s, float unit) {
  const float by = s.unit * reciprocal_of(unit);
  multiply(s.square, by * by);
  multiply(s.off, by);
  s.unit = unit;
}


INLINE squares_sum<double> no_squares (double) { return squares_sum<double>{0, 0}; }
INLINE squares_sum<float> no_squares (float mean) {
  return squares_sum<float>{unit_of(mean), {0, 0}, {0, 0}};
}


template <int N>
INLINE void take_squares (squares_sum<double> &s, const pack<double, N> &x, double mean) {
  pack<double, N> off, square;
  EACH(k, N) off.of[k] = x.of[k] - mean;
  EACH(k, N) square.of[k] = off.of[k] * off.of[k];
  s.square += pack_sum(square);
  s.off += pack_sum(off);
}

template <int N>
INLINE void take_squares (squares_sum<float> &s, const pack<float, N> &x, float mean) {
  pack<float, N> off, square;
  float most = 0;                  /* a NaN is none */
  EACH(k, N) most = fmaxf(most, fabsf(x.of[k]));
  if (most >= 2 * s.unit) change_unit(s, unit_of(most));
  const float by = reciprocal_of(s.unit), middle = mean * by;
  EACH(k, N) off.of[k] = fmaf(x.of[k], by, -middle);
  EACH(k, N) square.of[k] = off.of[k] * off.of[k];
  add(s.square, pack_sum(square));
  add(s.off, pack_sum(off));
}


INLINE squares_sum<double> from_lane (squares_sum<double> s, int by) {
  return squares_sum<double>{from_lane(s.square, by), from_lane(s.off, by)};
}
INLINE squares_sum<float> from_lane (squares_sum<float> s, int by) {
  return squares_sum<float>{from_lane(s.unit, by), from_lane(s.square, by), from_lane(s.off, by)};
}

struct join_squares {
  __device__ squares_sum<double> operator() (squares_sum<double> a, squares_sum<double> b) const {
    return squares_sum<double>{a.square + b.square, a.off + b.off};
  }
  __device__ squares_sum<float> operator() (squares_sum<float> a, squares_sum<float> b) const {
    if (a.unit < b.unit) change_unit(a, b.unit);
    else change_unit(b, a.unit);
    add(a.square, b.square);
    add(a.off, b.off);
    return a;
  }
};


/* The squares, a, and the others, b, as doubles. */
INLINE pair sums_of (squares_sum<double> s) { return pair{s.square, s.off}; }
INLINE pair sums_of (squares_sum<float> s) {
  const double unit = s.unit;
  return pair{value_of(s.square) * unit * unit, value_of(s.off) * unit};
}

/* }================================================================== */

#endif
