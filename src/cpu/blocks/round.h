/*
** round.h - rows of values rounded to 8 bits, and products of their integers with quants, which are
** exact.
*/

#ifndef round_h
#define round_h

#include <float.h>

#include "cpu/blocks/decode.h"

#define ROUND_GROUP 32             /* elements that share a scale */

typedef float block_lanes __attribute__((vector_size(VECTOR_BYTES)));
#define BLOCK_LANES ((int)(VECTOR_BYTES / sizeof(float)))

/* Rows (M, K): element k is q[k] * scale[k / 32]; sum[k / 16] is that of 16 of them. */
typedef struct rounded {
  float *scale, *sum;
  int8_t *q;
} rounded;


/* A group with a value that is not finite becomes NaN. */
static void round_row (const rounded *to, const float *x, int64_t row, int64_t k) {
  int8_t *q = to->q + row * k;
  float *scale = to->scale + row * k / ROUND_GROUP, *sum = to->sum + row * k / DECODE_GROUP;
  for (int64_t g = 0; g < k / ROUND_GROUP; g++, x += ROUND_GROUP, q += ROUND_GROUP) {
    float most = 0;
    bool finite = true;
    for (int i = 0; i < ROUND_GROUP; i++) {
      const float size = x[i] < 0 ? -x[i] : x[i];
      most = size > most ? size : most;
      finite &= size <= FLT_MAX;
    }
    const bool small = most < 128 * FLT_MIN;
    const float each = finite && !small ? 127 / most : 0;
    int sums[2] = {0, 0};
    scale[g] = !finite ? (float)NAN : small ? 0 : most / 127;
    for (int i = 0; i < ROUND_GROUP; i++) {
      const float v = finite ? x[i] * each : 0;
      q[i] = (int8_t)(int)(v + (v < 0 ? -0.5f : 0.5f));
    }
    for (int i = 0; i < ROUND_GROUP; i++) sums[i / DECODE_GROUP] += q[i];
    sum[2 * g] = scale[g] * (float)sums[0];
    sum[2 * g + 1] = scale[g] * (float)sums[1];
  }
}


/*
** Quants of a group of 32 as they are multiplied; their products with others, added up in lanes, of
** which the first half is the first 16 elements; and the scales of both halves in these lanes.
*/
#if defined(HAS_AVX512)

typedef __m512i group_quants;

INLINED group_quants group_load (const int8_t *q) {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)q));
}

INLINED block_lanes group_dot (group_quants w, const int8_t *q) {
  return (block_lanes)_mm512_cvtepi32_ps(_mm512_madd_epi16(w, group_load(q)));
}

#elif defined(HAS_AVX2)

typedef __m256i group_quants;

INLINED group_quants group_load (const int8_t *q) {
  return _mm256_loadu_si256((const __m256i *)(const void *)q);
}

/* Sizes of w times x with the signs of w: two products fit into 16 bits, of 128 and 127. */
INLINED block_lanes group_dot (group_quants w, const int8_t *q) {
  const __m256i two = _mm256_maddubs_epi16(_mm256_abs_epi8(w),
                                           _mm256_sign_epi8(group_load(q), w));
  return (block_lanes)_mm256_cvtepi32_ps(_mm256_madd_epi16(two, _mm256_set1_epi16(1)));
}

#else

typedef const int8_t *group_quants;

INLINED group_quants group_load (const int8_t *q) { return q; }

INLINED block_lanes group_dot (group_quants w, const int8_t *q) {
  enum { EACH = ROUND_GROUP / BLOCK_LANES };
  block_lanes y;
  for (int l = 0; l < BLOCK_LANES; l++) {
    int sum = 0;
    for (int i = 0; i < EACH; i++) sum += w[l * EACH + i] * q[l * EACH + i];
    y[l] = (float)sum;
  }
  return y;
}

#endif


INLINED block_lanes group_scale (float first, float second) {
  block_lanes v;
  for (int l = 0; l < BLOCK_LANES / 2; l++) v[l] = first;
  for (int l = BLOCK_LANES / 2; l < BLOCK_LANES; l++) v[l] = second;
  return v;
}

#endif
