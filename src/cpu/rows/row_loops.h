/*
** row_loops.h - a row of elements of type T: its sums, its extremes. A part of reduce_loops.h,
** which says what V and LENGTH are; included for each T.
*/

#ifndef T
#include "cpu/rows/reduce.h"
#else

static inline bool FN(better) (T x, T best, bool low) {
  return (low ? x < best : x > best) || (ISNAN(x) && !ISNAN(best));
}


/* By halves, as the CPU's own instructions do it. */
static inline A FN(lanes_sum) (V v) {
#if defined(T_IS_FLOAT) && defined(HAS_AVX512)
  return sizeof(T) == 4 ? (A)_mm512_reduce_add_ps((__m512)v) : _mm512_reduce_add_pd((__m512d)v);
#elif defined(T_IS_FLOAT) && defined(HAS_AVX2)
  if (sizeof(T) == 4) {
    __m128 a = _mm256_castps256_ps128((__m256)v) + _mm256_extractf128_ps((__m256)v, 1);
    a += _mm_movehl_ps(a, a);
    return a[0] + a[1];
  }
  __m128d a = _mm256_castpd256_pd128((__m256d)v) + _mm256_extractf128_pd((__m256d)v, 1);
  return a[0] + a[1];
#else
  T part[LENGTH];
  memcpy(part, &v, sizeof v);
  for (int64_t half = LENGTH / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; i++) part[i] += part[i + half];
  return part[0];
#endif
}


static A FN(sum) (int64_t n, const T *x) {
  A total = 0;
  int64_t i = 0;
  while (i + 4 * LENGTH <= n) {
    int64_t end = i + 64 * LENGTH <= n ? i + 64 * LENGTH : n - (n - i) % (4 * LENGTH);
    V s[4] = {{0}, {0}, {0}, {0}};
    for (; i < end; i += 4 * LENGTH)
      for (int k = 0; k < 4; k++) s[k] += *(const V *)(x + i + k * LENGTH);
    total += FN(lanes_sum)((s[0] + s[1]) + (s[2] + s[3]));
  }
  if (i + LENGTH <= n) {
    V rest = {0};
    for (; i + LENGTH <= n; i += LENGTH) rest += *(const V *)(x + i);
    total += FN(lanes_sum)(rest);
  }
  for (; i < n; i++) total += x[i];
  return total;
}


static inline bool FN(any_lane) (FN(row_flags) which) {
#if defined(HAS_AVX512)
  return _mm512_test_epi64_mask((__m512i)which, (__m512i)which) != 0;
#elif defined(HAS_AVX2)
  return !_mm256_testz_si256((__m256i)which, (__m256i)which);
#else
  BITS any = 0;
  for (int64_t k = 0; k < LENGTH; k++) any |= which[k];
  return any != 0;
#endif
}


/* Is any element 'value' (or, with 'equal' false, another)? */
static bool FN(has) (int64_t n, const T *x, T value, bool equal) {
  for (int64_t from = 0; from < n; from += 256) {
    int64_t to = from + 256 < n ? from + 256 : n;
    BITS found = 0;
    for (int64_t i = from; i < to; i++) found |= (x[i] == value) == equal;
    if (found) return true;
  }
  return false;
}


/* A sum in the computing type alone: for squares that T cannot hold. */
static A FN(far_squares) (int64_t n, const T *x, T mean, A *off) {
  A squares[8] = {0}, sums[8] = {0}, total = 0;
  for (int64_t i = 0; i < n; i += 8)
    for (int64_t k = 0; k < 8 && k < n - i; k++) {
      const A d = (A)x[i + k] - mean;
      squares[k] += d * d;
      sums[k] += d;
    }
  for (int k = 0; k < 8; k++) {
    total += squares[k];
    *off += sums[k];
  }
  return total;
}


/* Short sums of T can hold these squares. */
static bool FN(holds) (A squares) {
  return sizeof(T) == sizeof(A) || ((double)squares > 0x1p-90 && (double)squares < 0x1p120);
}


/* Sum of (x - mean)^2, if FN(holds) it; *off is that of x - mean. */
static A FN(near_squares) (int64_t n, const T *x, T mean, A *off) {
  A total = 0;
  int64_t i = 0;
  while (i + LENGTH <= n) {
    int64_t end = i + 32 * LENGTH <= n ? i + 32 * LENGTH : n - (n - i) % LENGTH;
    V squares = {0}, sums = {0}, more_squares = {0}, more_sums = {0};
    for (; i + 2 * LENGTH <= end; i += 2 * LENGTH) {
      V d = *(const V *)(x + i) - mean, e = *(const V *)(x + i + LENGTH) - mean;
      squares += d * d;
      sums += d;
      more_squares += e * e;
      more_sums += e;
    }
    for (; i < end; i += LENGTH) {
      V d = *(const V *)(x + i) - mean;
      squares += d * d;
      sums += d;
    }
    total += FN(lanes_sum)(squares + more_squares);
    *off += FN(lanes_sum)(sums + more_sums);
  }
  for (; i < n; i++) {
    T d = x[i] - mean;
    total += (A)d * d;
    *off += d;
  }
  return total;
}


/* Sum of (x - mean)^2; *off is that of x - mean, which is 0 but for the rounding of mean. */
static A FN(squares) (int64_t n, const T *x, T mean, A *off) {
  const A before = *off, total = FN(near_squares)(n, x, mean, off);
  if (FN(holds)(total)) return total;
  if (total == 0 && !FN(has)(n, x, mean, false)) return 0;
  *off = before;
  return FN(far_squares)(n, x, mean, off);
}


/*
** The largest, or, with 'low', the smallest; NaN if there is one, unless it need not be found.
** There are four vectors, so that one need not wait for the other. n > 0.
*/
INLINED V FN(better_lanes) (V v, V best, const bool low) {
  FN(row_flags) take = low ? v < best : v > best;
  return (V)((take & (FN(row_flags))v) | (~take & (FN(row_flags))best));
}

/* NaN counts like any other element here. */
INLINED T FN(best_lane) (V v, const bool low) {
#if defined(T_IS_FLOAT) && defined(HAS_AVX512)
  if (sizeof(T) == 4)
    return low ? _mm512_reduce_min_ps((__m512)v) : _mm512_reduce_max_ps((__m512)v);
  return low ? _mm512_reduce_min_pd((__m512d)v) : _mm512_reduce_max_pd((__m512d)v);
#else
  T best = v[0];
  for (int64_t k = 1; k < LENGTH; k++) best = (low ? v[k] < best : v[k] > best) ? v[k] : best;
  return best;
#endif
}

INLINED T FN(best_of) (int64_t n, const T *x, const bool low, const bool find_nan) {
  T best = x[0];
  int64_t i = 0;
  if (n >= 4 * LENGTH) {
    V m[4];
    FN(row_flags) lost = {0};
    for (int k = 0; k < 4; k++) m[k] = *(const V *)(x + k * LENGTH);
    for (; i + 4 * LENGTH <= n; i += 4 * LENGTH)
      for (int k = 0; k < 4; k++) {
        V v = *(const V *)(x + i + k * LENGTH);
        m[k] = FN(better_lanes)(v, m[k], low);
        if (find_nan) lost |= NOT_NUMBERS(v);
      }
    if (find_nan && FN(any_lane)(lost)) return NOT_A_NUMBER;
    best = FN(best_lane)(FN(better_lanes)(FN(better_lanes)(m[0], m[1], low),
                                          FN(better_lanes)(m[2], m[3], low), low), low);
  }
  for (; i < n; i++) best = FN(better)(x[i], best, low) ? x[i] : best;
  return best;
}

static T FN(extreme) (int64_t n, const T *x, bool low) {
  return low ? FN(best_of)(n, x, true, true) : FN(best_of)(n, x, false, true);
}


/* Index of the first 'value', which is there; or of the first NaN if 'value' is one. */
static int64_t FN(find) (int64_t n, const T *x, T value) {
  int64_t i = 0;
  for (; i + LENGTH <= n; i += LENGTH) {
    FN(row_flags) same = *(const V *)(x + i) == value;
    if (ISNAN(value)) same = NOT_NUMBERS(*(const V *)(x + i));
    if (FN(any_lane)(same)) break;
  }
  while (i < n - 1 && x[i] != value && !ISNAN(x[i])) i++;
  return i;
}


static A FN(row_product) (int64_t n, const T *x) {
  A p[4] = {1, 1, 1, 1};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < 4; k++) p[k] *= x[i + k];
  for (; i < n; i++) p[0] *= x[i];
  return (p[0] * p[1]) * (p[2] * p[3]);
}


#ifdef T_IS_FLOAT

/* Sum of x y, in the same way. */
static A FN(dot) (int64_t n, const T *x, const T *y) {
  A total = 0;
  int64_t i = 0;
  while (i + LENGTH <= n) {
    int64_t end = i + 32 * LENGTH <= n ? i + 32 * LENGTH : n - (n - i) % LENGTH;
    V s = {0}, t = {0};
    for (; i + 2 * LENGTH <= end; i += 2 * LENGTH) {
      s += *(const V *)(x + i) * *(const V *)(y + i);
      t += *(const V *)(x + i + LENGTH) * *(const V *)(y + i + LENGTH);
    }
    for (; i < end; i += LENGTH) s += *(const V *)(x + i) * *(const V *)(y + i);
    total += FN(lanes_sum)(s + t);
  }
  for (; i < n; i++) total += (A)x[i] * y[i];
  return total;
}


/*
** y = factor e^(x - top) of what a row has beyond its last vector: of a vector all the same, since
** a compiler computes the rest of a loop one by one. (Those of double come one by one anyway.)
*/
INLINED void FN(exponentials_rest) (int n, T *y, const T *x, T top, T factor) {
  T part[LANES];
  if (sizeof(T) == sizeof(double)) {
    for (int i = 0; i < n; i++) y[i] = factor * EXP_BELOW(x[i] - top);
    return;
  }
  FN(store)(part, FN(load_part)(x, n));
  VECTOR_LOOP for (int i = 0; i < LANES; i++) part[i] = factor * EXP_BELOW(part[i] - top);
  FN(store_part)(y, FN(load)(part), n);
}


/* y = factor e^(x - top) for top as large as any x, and as the logarithm of a sum of such. */
INLINED void FN(exponentials_of) (int64_t n, T *y, const T *x, T top, T factor) {
  const int64_t whole = n - n % LANES;
  VECTOR_LOOP for (int64_t i = 0; i < whole; i++) y[i] = factor * EXP_BELOW(x[i] - top);
  if (whole < n) FN(exponentials_rest)((int)(n - whole), y + whole, x + whole, top, factor);
}


/*
** y = e^(x - top), and the sum of that, block by block; top is the largest x. Inlined, it would
** load its constants for each vector.
*/
static A __attribute__((noinline)) FN(exponentials) (int64_t n, T *y, const T *x, T top) {
  A total = 0;
  for (int64_t from = 0; from < n; from += 512) {
    const int64_t m = n - from < 512 ? n - from : 512;
    FN(exponentials_of)(m, y + from, x + from, top, 1);
    total += FN(sum)(m, y + from);
  }
  return total;
}


static A FN(sum_exp) (int64_t n, const T *x, T top) {
  T e[512];
  A total = 0;
  for (int64_t from = 0; from < n; from += 512)
    total += FN(exponentials)(n - from < 512 ? n - from : 512, e, x + from, top);
  return total;
}


/* The number to subtract before a logarithm of exponentials: 0 where the largest is infinite. */
static A FN(sum_exp_of) (int64_t n, const T *x, T top) {
  if (!ISINF(top)) return FN(sum_exp)(n, x, top);
  A total = 0;
  for (int64_t i = 0; i < n; i++) total += EXP(x[i]);
  return total;
}

#else                              /* loops for floats only */

static A FN(sum_exp_of) (int64_t n, const T *x, T top) { return x[n - 1] - top; }

#endif

#endif
