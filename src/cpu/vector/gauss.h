/*
** gauss.h - the normal distribution in float: its tail, erf, gelu and its derivative. A part of
** math.h, whose exponential it uses.
*/

#include "cpu/vector/math.h"

#ifndef cpu_gauss_h
#define cpu_gauss_h

/* -t^2 / 2 - w, where w is nearly all of it. */
#if defined(LEVEL_AVX2) || defined(LEVEL_AVX512) || defined(LEVEL_NEON)
static inline float square_left (float t, float w) { return __builtin_fmaf(-0.5f * t, t, -w); }
#else
static inline float square_left (float t, float w) {             /* by T. J. Dekker's split */
  float high = as_float(as_bits(t) & 0xfffff000), low = t - high, square = t * t;
  float error = ((high * high - square) + 2 * high * low) + low * low;
  return (-0.5f * square - w) - 0.5f * error;
}
#endif

/*
** The upper tail of the normal distribution, P(t) = erfc(t / sqrt 2) / 2 for t >= 0, is
** e^(-t^2/2) M(t), M the ratio of two polynomials, relative error 8e-9 up to 14.5, where P is less
** than a float (fit by Lawson's weights to the equation without a fraction, the denominator of
** the step before as another weight; coefficients rounded in turn, and then, all at once, searched
** among their neighbours). The square is not rounded, as it is an exponent. The exponential is
** 2^64 times too large, and so is the denominator: only the result may be denormal. *bell is
** e^(-t^2/2).
*/
static inline float tail_float (float t, float *bell) {
  float rounded = t * t * -0x1.715476p-1f + (ROUNDER + 64), n = rounded - (ROUNDER + 64);
  float r = square_left(t, n * 0x1.62e400p-1f) - n * 0x1.7f7d1cp-20f;
  float power = as_float(as_bits(exp_core(r)) + (as_bits(rounded) << 23));
  float above = 0x1.64362ap+5f + (0x1.3bfb8cp+3f + t) * t;
  float below = 0x1.c853fep+70f + (0x1.8c0ccap+68f + 0x1.40d846p+65f * t) * t;
  above = 0x1.e5c88ap+6f + (0x1.a9f98p+6f + above * t) * t;
  below = 0x1.e5c88ap+71f + (0x1.96c972p+72f + (0x1.242cdp+72f + below * t) * t) * t;
  *bell = power * 0x1p-64f;
  return power * (above / below);
}

/*
** |x|, at most 14.5, where there is no tail, as of a NaN. The comparison is of bits: after a
** comparison of floats the compiler computed both branches, and chose at the end.
*/
static inline float tail_offset (float x) {
  uint32_t size = as_bits(x) & 0x7fffffff, most = 0x41680000;
  return as_float(size < most ? size : most);
}

/* x P(x^2) up to 1, relative error 2e-9, then from the tail. */
static inline float erf_float (float x) {
  float size = __builtin_fabsf(x), z = x * x, bell;
  z = z > 1 ? 1 : z;
  float z2 = z * z, a = line(z, 0x1.20dd74p+0f, -0x1.81262ep-2f);
  float b = line(z, 0x1.cdfd0ep-4f, -0x1.b4dac6p-6f), c = line(z, 0x1.3c66b8p-8f, -0x1.fcca72p-12f);
  float p = a + (b + (c - 0x1.abd81ep-16f * z2) * z2) * z2;
  float far = 1 - 2 * tail_float(tail_offset(x * 0x1.6a09e6p0f), &bell);
  return size >= 1 ? __builtin_copysignf(far, x) : x * p;
}

/* x times the share of the normal distribution below x. */
static inline float gelu_float (float x) {
  float bell, t = tail_offset(x), tail = tail_float(t, &bell);
  return (x < 0 ? -0.0f : x) - t * tail;            /* a NaN stays */
}

static inline float gelu_derivative_float (float x) {
  float bell, t = tail_offset(x), tail = tail_float(t, &bell);
  float share = x > 0 ? 1 - tail : tail;
  return share + clamp_float(x, -14.5f, 14.5f) * bell * 0x1.988454p-2f;
}

#endif
