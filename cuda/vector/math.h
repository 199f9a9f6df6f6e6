/*
** math.h - the words of ops.def (EXP, LOG, TANH …) for kernels, as functions of float, double
** and int64_t. Results that the CPU rounds once, from exact ones, are the same here.
**
** The library's functions hold for every input: those of CUDA reduce sines, cosines and tangents
** of large arguments exactly (no -use_fast_math).
*/

#ifndef cuda_math_h
#define cuda_math_h

#include "cuda/kernel.h"

#define EXP(x) word_exp(x)
#define EXP2(x) word_exp2(x)
#define EXPM1(x) word_expm1(x)
#define LOG(x) word_log(x)
#define LOG2(x) word_log2(x)
#define LOG1P(x) word_log1p(x)
#define SQRT(x) word_sqrt(x)
#define SIN(x) word_sin(x)
#define COS(x) word_cos(x)
#define TAN(x) word_tan(x)
#define ASIN(x) word_asin(x)
#define ACOS(x) word_acos(x)
#define ATAN(x) word_atan(x)
#define ATAN2(x, y) word_atan2(x, y)
#define HYPOT(x, y) word_hypot(x, y)
#define SINH(x) word_sinh(x)
#define COSH(x) word_cosh(x)
#define TANH(x) word_tanh(x)
#define SIGMOID(x) word_sigmoid(x)
#define SOFTPLUS(x) word_softplus(x)
#define ERF(x) word_erf(x)
#define GELU(x) word_gelu(x)
#define GELU_DERIVATIVE(x) word_gelu_derivative(x)
#define GELU_TANH(x) word_gelu_tanh(x)
#define GELU_TANH_DERIVATIVE(x) word_gelu_tanh_derivative(x)
#define SILU(x) ((x) * SIGMOID(x))
#define SILU_DERIVATIVE(x) word_silu_derivative(x)
#define MISH(x) word_mish(x)
#define MISH_DERIVATIVE(x) word_mish_derivative(x)
#define POW(x, y) word_pow(x, y)
#define FLOOR(x) word_floor(x)
#define CEIL(x) word_ceil(x)
#define ROUND(x) word_round(x)
#define TRUNC(x) word_trunc(x)
#define FLOOR_DIVIDE(x, y) word_floor_divide(x, y)
#define REMAINDER(x, y) word_remainder(x, y)
#define FMOD(x, y) word_fmod(x, y)
#define ABS(x) word_abs(x)
#define SIGN(x) ((T)(((x) > 0) - ((x) < 0)))
#define MAXIMUM(x, y) ((x) > (y) || ISNAN(x) ? (x) : (y))
#define MINIMUM(x, y) ((x) < (y) || ISNAN(x) ? (x) : (y))
#define CLIP(x, low, high) word_clip(x, low, high)
#define LERP(x, y, w) word_lerp(x, y, w)
#define ISNAN(x) ((x) != (x))
#define ISINF(x) word_isinf(x)
#define ISFINITE(x) word_isfinite(x)
#define SCALED(x) (p * (x))
#define PI ((T)3.14159265358979323846)
#define LN2 ((T)0.69314718055994530942)
#define TWO_OVER_SQRT_PI ((T)1.12837916709551257390)


/*
** {==================================================================
** The library's functions
** ===================================================================
*/

#define WORD_1(name, of_float, of_double) \
  INLINE float word_##name (float x) { return of_float(x); } \
  INLINE double word_##name (double x) { return of_double(x); }
#define WORD_2(name, of_float, of_double) \
  INLINE float word_##name (float x, float y) { return of_float(x, y); } \
  INLINE double word_##name (double x, double y) { return of_double(x, y); }

WORD_1(exp, expf, exp)
WORD_1(exp2, exp2f, exp2)
WORD_1(expm1, expm1f, expm1)
WORD_1(log, logf, log)
WORD_1(log2, log2f, log2)
WORD_1(log1p, log1pf, log1p)
WORD_1(sqrt, sqrtf, sqrt)
WORD_1(sin, sinf, sin)
WORD_1(cos, cosf, cos)
WORD_1(tan, tanf, tan)
WORD_1(asin, asinf, asin)
WORD_1(acos, acosf, acos)
WORD_1(atan, atanf, atan)
WORD_1(sinh, sinhf, sinh)
WORD_1(cosh, coshf, cosh)
WORD_1(tanh, tanhf, tanh)
WORD_1(erf, erff, erf)
WORD_1(normal, normcdff, normcdf)      /* the normal distribution function */
WORD_1(floor, floorf, floor)
WORD_1(ceil, ceilf, ceil)
WORD_1(round, rintf, rint)
WORD_1(trunc, truncf, trunc)
WORD_1(abs, fabsf, fabs)
WORD_2(atan2, atan2f, atan2)
WORD_2(hypot, hypotf, hypot)
WORD_2(pow, powf, pow)
WORD_2(fmod, fmodf, fmod)
#undef WORD_1
#undef WORD_2

/* }================================================================== */


/*
** {==================================================================
** Integers: they wrap; divisors of 0 were replaced before
** ===================================================================
*/

INLINE int64_t word_abs (int64_t x) { return x < 0 ? (int64_t)(0 - (uint64_t)x) : x; }
INLINE int64_t word_floor (int64_t x) { return x; }
INLINE int64_t word_ceil (int64_t x) { return x; }
INLINE int64_t word_round (int64_t x) { return x; }
INLINE int64_t word_trunc (int64_t x) { return x; }
INLINE bool word_isinf (int64_t) { return false; }
INLINE bool word_isfinite (int64_t) { return true; }

INLINE int64_t word_fmod (int64_t x, int64_t y) { return y == -1 ? 0 : x % y; }

INLINE int64_t word_floor_divide (int64_t x, int64_t y) {
  if (y == -1) return (int64_t)(0 - (uint64_t)x);        /* the smallest one wraps */
  return x / y - (x % y != 0 && (y < 0) != (x < 0));
}

INLINE int64_t word_pow (int64_t x, int64_t y) {
  uint64_t power = 1, square = (uint64_t)x;
  if (y < 0) return x == 1 ? 1 : x == -1 ? 1 - 2 * (y & 1) : 0;
  for (; y > 0; y >>= 1, square *= square)
    if (y & 1) power *= square;
  return (int64_t)power;
}

/* }================================================================== */


/*
** {==================================================================
** Functions composed of them
** ===================================================================
*/

template <class T> INLINE bool word_isinf (T x) { return word_abs(x) == (T)INFINITY; }
template <class T> INLINE bool word_isfinite (T x) { return word_abs(x) < (T)INFINITY; }

template <class T> INLINE T word_between (T x, T low, T high) {      /* a NaN stays */
  x = x < low ? low : x;
  return x > high ? high : x;
}

/* By e^-|x|, which can't overflow. */
template <class T> INLINE T word_sigmoid (T x) {
  T z = word_exp(-word_abs(x));
  return (x < 0 ? z : 1) / (1 + z);
}

template <class T> INLINE T word_softplus (T x) {
  return (x < 0 ? 0 : x) + word_log1p(word_exp(-word_abs(x)));
}

template <class T> INLINE T word_gelu (T x) {
  return x == -(T)INFINITY ? 0 : x * word_normal(x);
}

/* e^(-x^2 / 2): the square's rounding error counts, as it is a power. */
template <class T> INLINE T word_bell (T x) {
  x = word_between<T>(x, -40, 40);
  T square = x * x, error = fma(x, x, -square);
  return word_exp((T)-0.5 * square) * (1 - (T)0.5 * error);
}

template <class T> INLINE T word_gelu_derivative (T x) {
  T bell = word_bell(x) * (T)0.39894228040143267794;
  return word_normal(x) + (bell == 0 ? 0 : x * bell);
}

/* tanh's form of it, x (1 + tanh u) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3). */
#define TANH_LINEAR ((T)1.59576912160573071176)
#define TANH_CUBIC ((T)(1.59576912160573071176 * 0.044715))

template <class T> INLINE T word_gelu_tanh (T x) {
  x = x == -(T)INFINITY ? -100 : x;                /* minus infinity times 0 is NaN */
  return x * word_sigmoid(x * (TANH_LINEAR + TANH_CUBIC * x * x));
}

template <class T> INLINE T word_gelu_tanh_derivative (T x) {
  x = word_between<T>(x, -25, 25);
  T s = word_sigmoid(x * (TANH_LINEAR + TANH_CUBIC * x * x));
  return s + x * s * (1 - s) * (TANH_LINEAR + 3 * TANH_CUBIC * x * x);
}

template <class T> INLINE T word_silu_derivative (T x) {
  T s = word_sigmoid(x);
  return s * (1 + x * (1 - s));
}

/* tanh(softplus x) = k / (k + 2) with k = e^x (e^x + 2), which is 1 from 'most' on. */
INLINE float word_mish_most (float) { return 20; }
INLINE double word_mish_most (double) { return 40; }

template <class T> INLINE T word_mish (T x) {
  T e = word_exp(word_between<T>(x, -(T)INFINITY, word_mish_most(x))), k = e * (e + 2);
  return x * (k / (k + 2));
}

template <class T> INLINE T word_mish_derivative (T x) {
  T e = word_exp(word_between<T>(x, -(T)INFINITY, word_mish_most(x))), k = e * (e + 2);
  T y = k / (k + 2);
  return y + x * word_sigmoid(x) * (1 - y * y);
}

template <class T> INLINE T word_remainder (T x, T y) {
  T left = word_fmod(x, y);
  return left != 0 && (y < 0) != (left < 0) ? left + y : left;
}

template <class T> INLINE T word_floor_divide (T x, T y) {
  T left = word_fmod(x, y), times = (x - left) / y;
  times -= left != 0 && (y < 0) != (left < 0);
  T integer_times = word_floor(times);
  integer_times += times - integer_times > (T)0.5;
  return y == 0 ? x / y : times != 0 ? integer_times : x / y * 0;
}

template <class T> INLINE T word_lerp (T x, T y, T w) {
  return word_abs(w) < (T)0.5 ? x + w * (y - x) : y - (y - x) * (1 - w);
}

template <class T> INLINE T word_clip (T x, T low, T high) {
  T y = x > low || x != x ? x : low;
  return y < high || y != y ? y : high;
}

/* }================================================================== */

#endif
