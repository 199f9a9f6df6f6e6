/*
** quants.h - quants of 8 bits in vectors: as values, and as factors of integer products.
*/

#ifndef quants_h
#define quants_h

#include "cpu/vector/simd.h"

#define DECODE_GROUP 16            /* elements of a block that share a scale */
#define ROUND_GROUP 32             /* elements of a rounded row that do */

typedef float block_lanes __attribute__((vector_size(VECTOR_BYTES)));
#define BLOCK_LANES ((int)(VECTOR_BYTES / sizeof(float)))
#define GROUP_VECTORS (DECODE_GROUP / BLOCK_LANES)


INLINED block_lanes block_load (const float *at) {
  block_lanes v;
  memcpy(&v, at, sizeof v);
  return v;
}

INLINED void block_store (float *at, block_lanes v) { memcpy(at, &v, sizeof v); }

INLINED block_lanes block_all (float x) { return x - (block_lanes){0}; }

/* Halves are added up, and halves of the sums. */
#if defined(HAS_AVX512) || defined(HAS_AVX2)

INLINED float sum_of_eight (__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

#endif

INLINED float block_sum (block_lanes v) {
#if defined(HAS_AVX512)
  return sum_of_eight(_mm256_add_ps(_mm512_castps512_ps256((__m512)v),
                                    _mm512_extractf32x8_ps((__m512)v, 1)));
#elif defined(HAS_AVX2)
  return sum_of_eight((__m256)v);
#else
  float sums[BLOCK_LANES];
  block_store(sums, v);
  for (int n = BLOCK_LANES / 2; n > 0; n /= 2)
    for (int i = 0; i < n; i++) sums[i] += sums[n + i];
  return sums[0];
#endif
}


/* DECODE_GROUP quants as values: the compiler makes scalar code of conversions from 8 bits. */
#if defined(HAS_AVX512)

INLINED void values_of (const int8_t *q, block_lanes *y) {
  const __m128i group = _mm_loadu_si128((const __m128i *)(const void *)q);
  y[0] = (block_lanes)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(group));
}

#elif defined(HAS_AVX2)

INLINED void values_of (const int8_t *q, block_lanes *y) {
  UNROLL for (int i = 0; i < GROUP_VECTORS; i++) {
    const __m128i eight = _mm_loadl_epi64((const __m128i *)(const void *)(q + i * BLOCK_LANES));
    y[i] = (block_lanes)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
  }
}

#else

INLINED void values_of (const int8_t *q, block_lanes *y) {
  int32_t wide[DECODE_GROUP];
  float values[DECODE_GROUP];
  for (int i = 0; i < DECODE_GROUP; i++) wide[i] = q[i];
  for (int i = 0; i < DECODE_GROUP; i++) values[i] = (float)wide[i];
  memcpy(y, values, sizeof values);
}

#endif

#endif
