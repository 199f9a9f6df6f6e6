/*
** exponent.h - powers of 2, logarithm and hyperbolic tangent of vectors (read once for float
** and once for double). Attention works with powers of 2: exp(x) is 2^(x * LOG2E).
*/

#ifndef T
#include "cpu/vector/simd.h"
#else

#if BYTES == 4
#define MANTISSA 23
#define BIAS 127
#define LEAST 100
#define LOG_TERMS 6
#else
#define MANTISSA 52
#define BIAS 1023
#define LEAST 970
#define LOG_TERMS 12
#endif

/* The larger of each pair; b if one of them is NaN. */
INLINED FN(vector) FN(larger) (FN(vector) a, FN(vector) b) {
#if defined(HAS_AVX2) && BYTES == 4
  return _mm256_max_ps(a, b);
#elif defined(HAS_AVX2)
  return _mm256_max_pd(a, b);
#elif defined(HAS_AVX512) && BYTES == 4
  return _mm512_max_ps(a, b);
#elif defined(HAS_AVX512)
  return _mm512_max_pd(a, b);
#else
  return FN(select)(a > b, a, b);
#endif
}


/* The smaller of each pair; b if one of them is NaN. */
INLINED FN(vector) FN(lesser) (FN(vector) a, FN(vector) b) {
#if defined(HAS_AVX2) && BYTES == 4
  return _mm256_min_ps(a, b);
#elif defined(HAS_AVX2)
  return _mm256_min_pd(a, b);
#elif defined(HAS_AVX512) && BYTES == 4
  return _mm512_min_ps(a, b);
#elif defined(HAS_AVX512)
  return _mm512_min_pd(a, b);
#else
  return FN(select)(a < b, a, b);
#endif
}


/*
** 2^r for -1/2 <= r <= 1/2, without the constant term: for float the minimax polynomial (relative
** error 1e-7), for double Taylor's, log(2)^k / k! (4e-18).
*/
static const T FN(exp2_terms)[] = {
#if BYTES == 4
  0x1.62e42ap-1f, 0x1.ebf9bcp-3f, 0x1.c6b752p-5f, 0x1.3cea88p-7f, 0x1.5bba14p-10f
#else
  0x1.62e42fefa39efp-1, 0x1.ebfbdff82c58fp-3, 0x1.c6b08d704a0cp-5, 0x1.3b2ab6fba4e77p-7,
  0x1.5d87fe78a6731p-10, 0x1.430912f86c787p-13, 0x1.ffcbfc588b0c7p-17, 0x1.62c0223a5c824p-20,
  0x1.b5253d395e7c4p-24, 0x1.e4cf5158b8ecap-28, 0x1.e8cac7351bb25p-32, 0x1.c3bd650fc2986p-36,
  0x1.816193166d0f9p-40
#endif
};


#define EXP2_TERMS ((int)(sizeof FN(exp2_terms) / sizeof(T)))
#define EXP2_SCALE ((T)((int64_t)1 << (BIAS - LEAST)))

/* The constants of 2^x: literals, or held in registers: loops would load literals each time. */
typedef struct FN(exp2_constants) {
  FN(vector) term[EXP2_TERMS], large, least;
} FN(exp2_constants);

INLINED FN(exp2_constants) FN(exp2_literals) (void) {
  FN(exp2_constants) p = {.large = FN(splat)((T)(3 * ((int64_t)1 << (MANTISSA - 1)) + LEAST)),
                  .least = FN(splat)((T)-LEAST)};
  UNROLL for (int i = 0; i < EXP2_TERMS; i++)
    p.term[i] = FN(splat)(FN(exp2_terms)[i] * EXP2_SCALE);
  return p;
}

INLINED FN(exp2_constants) FN(exp2_open) (void) {
  FN(exp2_constants) p = FN(exp2_literals)();
  UNROLL for (int i = 0; i < EXP2_TERMS; i++) IN_REGISTER(p.term[i]);
  IN_REGISTER(p.large);
  IN_REGISTER(p.least);
  return p;
}


/*
** 2^x for x up to BIAS, exactly 0 below 2^-LEAST, so that what it is multiplied by does not become
** denormal, which is slow. NaN stays NaN. Adding a large number rounds x to an integer, whose bits
** are then where a shift makes an exponent of them: that of 2^(x - BIAS + LEAST), which is a 0 for
** -LEAST; the polynomial has the rest, as EXP2_SCALE.
*/
INLINED FN(vector) FN(exp2_with) (const FN(exp2_constants) *p, FN(vector) x) {
  x = FN(larger)(p->least, x);
  FN(vector) shifted = x + p->large, r = x - (shifted - p->large), y = p->term[EXP2_TERMS - 1];
  UNROLL for (int i = EXP2_TERMS - 2; i >= 0; i--) y = y * r + p->term[i];
  y = y * r + EXP2_SCALE;
  return y * (FN(vector))((FN(flags))shifted << MANTISSA);
}

INLINED FN(vector) FN(vector_exp2) (FN(vector) x) {
  FN(exp2_constants) p = FN(exp2_open)();
  return FN(exp2_with)(&p, x);
}


/*
** The natural logarithm of what is positive and not denormal: x = 2^e m with m around 1, and
** log m = 2 artanh((m - 1) / (m + 1)), a series. 0 gives -inf, NaN gives NaN.
*/
INLINED FN(vector) FN(vector_log) (FN(vector) x) {
  const FN(vector) half = FN(splat)((T)0.70710678118654752440);
  FN(flags) e = ((FN(flags))x - (FN(flags))half) >> MANTISSA;
  FN(vector) m = (FN(vector))((FN(flags))x - (e << MANTISSA));
  FN(vector) t = (m - (T)1) / (m + (T)1), u = t * t;
  FN(vector) sum = FN(splat)((T)1 / (2 * LOG_TERMS - 1));
  UNROLL for (int i = LOG_TERMS - 1; i > 0; i--) sum = sum * u + (T)1 / (T)(2 * i - 1);
  FN(vector) y = 2 * t * sum + __builtin_convertvector(e, FN(vector)) * (T)0.69314718055994530942;
  y = FN(select)(x == (T)0, FN(splat)(-(T)INFINITY), y);
  return FN(select)(x == x, y, x);
}


/*
** tanh x. Near 0 by Lambert's continued fraction x / (1 + x^2 / (3 + x^2 / (5 + …))), cut after
** x^2 / 15 and multiplied out; elsewhere by (1 - e) / (1 + e), e = exp(-2 |x|).
*/
INLINED FN(vector) FN(vector_tanh) (FN(vector) x) {
  const T log2e = (T)1.44269504088896340736;
  FN(vector) size = (FN(vector))((FN(flags))x & ~(FN(flags))FN(splat)(-(T)0)), u = x * x;
  FN(vector) above = (((u * 36 + 6930) * u + 270270) * u + 2027025) * x;
  FN(vector) below = (((u + 630) * u + 51975) * u + 945945) * u + 2027025;
  FN(vector) e = FN(vector_exp2)(size * (-2 * log2e)), far = (1 - e) / (1 + e);
  far = (FN(vector))((FN(flags))far | ((FN(flags))x & (FN(flags))FN(splat)(-(T)0)));
  return FN(select)(size < (T)0.5, above / below, far);
}


#undef MANTISSA
#undef BIAS
#undef LEAST
#undef LOG_TERMS
#undef EXP2_TERMS
#undef EXP2_SCALE

#endif
