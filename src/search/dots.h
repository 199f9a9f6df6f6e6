/*
** dots.h - products of two rows. A sum is made in the same order whatever level, place or thread
** a row has, so that equal rows have equal scores.
*/

#ifndef dots_h
#define dots_h

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3,fp-contract=off")
#endif
#if defined(__clang__)
#pragma clang fp contract(off)
#endif

/* Loops are compiled for the CPU at hand, too, where that is known. */
#if defined(__x86_64__)
#include <immintrin.h>
#define WIDE __attribute__((target("avx2,popcnt")))
#endif

typedef double (*dot) (const void *a, const void *b, int64_t dim);

/* Floats that are added up side by side, wherever they stand. */
typedef float lanes __attribute__((vector_size(32), aligned(4), may_alias));
#define LANES 8
#define AT(x, i) (*(const lanes *)((x) + (i)))


static inline __attribute__((always_inline)) double
dot_float_body (const void *a, const void *b, int64_t dim) {
  const float *x = a, *y = b;
  lanes s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, p = {0}, q = {0};
  int64_t i = 0;
  for (; i + 4 * LANES <= dim; i += 4 * LANES) {
    s0 += AT(x, i) * AT(y, i);
    s1 += AT(x, i + LANES) * AT(y, i + LANES);
    s2 += AT(x, i + 2 * LANES) * AT(y, i + 2 * LANES);
    s3 += AT(x, i + 3 * LANES) * AT(y, i + 3 * LANES);
  }
  for (; i + LANES <= dim; i += LANES) s0 += AT(x, i) * AT(y, i);
  for (int j = 0; i + j < dim; j++) {
    p[j] = x[i + j];
    q[j] = y[i + j];
  }
  s0 = (s0 + s1) + (s2 + s3) + p * q;
  return (double)(((s0[0] + s0[1]) + (s0[2] + s0[3])) + ((s0[4] + s0[5]) + (s0[6] + s0[7])));
}


static inline __attribute__((always_inline)) double
dot_int8_body (const void *a, const void *b, int64_t dim) {
  const int8_t *x = a, *y = b;
  int32_t sum = 0;
  for (int64_t i = 0; i < dim; i++) sum += (int16_t)x[i] * (int16_t)y[i];
  return sum;
}


/* dim - 2 * how many bits differ; what a row's last byte has beyond dim is 0 in both. */
static inline __attribute__((always_inline)) double
dot_bits_body (const void *a, const void *b, int64_t dim) {
  const unsigned char *x = a, *y = b;
  const int64_t bytes = (dim + 7) / 8;
  int64_t differ = 0, i = 0;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t p, q;
    memcpy(&p, x + i, 8);
    memcpy(&q, y + i, 8);
    differ += __builtin_popcountll(p ^ q);
  }
  for (; i < bytes; i++) differ += __builtin_popcount(x[i] ^ (unsigned)y[i]);
  return (double)(dim - 2 * differ);
}


/* A query's floats with a row of int8, and of bits as -1 and 1. */
static inline __attribute__((always_inline)) double
exact_int8_body (const void *a, const void *b, int64_t dim) {
  const float *x = a;
  const int8_t *y = b;
  double sum = 0;
  for (int64_t i = 0; i < dim; i++) sum += (double)x[i] * y[i];
  return sum;
}


static inline __attribute__((always_inline)) double
exact_bits_body (const void *a, const void *b, int64_t dim) {
  const float *x = a;
  const unsigned char *y = b;
  double sum = 0;
  for (int64_t i = 0; i < dim; i++) {
    const double value = (double)x[i];
    sum += y[i >> 3] >> (i & 7) & 1 ? value : -value;
  }
  return sum;
}


static double dot_float_plain (const void *a, const void *b, int64_t dim) {
  return dot_float_body(a, b, dim);
}

static double dot_int8_plain (const void *a, const void *b, int64_t dim) {
  return dot_int8_body(a, b, dim);
}

static double dot_bits_plain (const void *a, const void *b, int64_t dim) {
  return dot_bits_body(a, b, dim);
}


#if defined(WIDE)

WIDE static double dot_float_wide (const void *a, const void *b, int64_t dim) {
  return dot_float_body(a, b, dim);
}

WIDE static double dot_bits_wide (const void *a, const void *b, int64_t dim) {
  return dot_bits_body(a, b, dim);
}

WIDE static inline __m256i whole (const int8_t *x) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)x));
}

/* 16 products at once, and the sums of their neighbours. */
WIDE static double dot_int8_wide (const void *a, const void *b, int64_t dim) {
  const int8_t *x = a, *y = b;
  __m256i s0 = _mm256_setzero_si256(), s1 = s0;
  int64_t i = 0;
  for (; i + 32 <= dim; i += 32) {
    s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(whole(x + i), whole(y + i)));
    s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(whole(x + i + 16), whole(y + i + 16)));
  }
  s0 = _mm256_add_epi32(s0, s1);
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(s0), _mm256_extracti128_si256(s0, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
  return _mm_cvtsi128_si32(s) + dot_int8_body(x + i, y + i, dim - i);
}

#endif


static double exact_int8 (const void *a, const void *b, int64_t dim) {
  return exact_int8_body(a, b, dim);
}

static double exact_bits (const void *a, const void *b, int64_t dim) {
  return exact_bits_body(a, b, dim);
}


/* The function of a kind, by heed_rows_kind. */
static dot dot_of (int kind) {
  static const dot plain[] = {dot_float_plain, dot_int8_plain, dot_bits_plain};
#if defined(WIDE)
  static const dot wide[] = {dot_float_wide, dot_int8_wide, dot_bits_wide};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt")) return wide[kind];
#endif
  return plain[kind];
}

#endif
