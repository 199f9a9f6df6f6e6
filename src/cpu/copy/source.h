/*
** source.h - vectors of T from memory that holds T or, for float, one of the 16-bit floats (read
** once for each type). 'type' is a constant wherever these are used.
*/

#ifndef T
#include "cpu/product/matmul.h"
#else

#if BYTES == 4

#define HALF_BYTES (VECTOR_BYTES / 2)

typedef uint16_t halves __attribute__((vector_size(HALF_BYTES)));
typedef uint16_t loose_halves __attribute__((vector_size(HALF_BYTES), aligned(2), may_alias));
typedef uint32_t wide_halves __attribute__((vector_size(VECTOR_BYTES)));

/* The first n lanes, 0 < n; the others are 0 and not read. */
INLINED halves halves_load (const uint16_t *from, int n) {
  if (n >= LANES) return *(const loose_halves *)from;
#if defined(HAS_AVX512)
  return (halves)_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), from);
#else
  uint16_t part[LANES] = {0};
  for (int i = 0; i < n; i++) part[i] = from[i];
  return *(const loose_halves *)part;
#endif
}


INLINED vector_float halves_widen (const heed_type type, halves h) {
#if defined(HAS_AVX512)
  return type == HEED_BFLOAT16
         ? (vector_float)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16)
         : (vector_float)_mm512_cvtph_ps((__m256i)h);
#elif defined(HAS_AVX2)
  return type == HEED_BFLOAT16
         ? (vector_float)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)h), 16)
         : (vector_float)_mm256_cvtph_ps((__m128i)h);
#elif defined(LEVEL_NEON)
  return type == HEED_BFLOAT16
         ? (vector_float)vshll_n_u16((uint16x4_t)h, 16)
         : (vector_float)vcvt_f32_f16(vreinterpret_f16_u16((uint16x4_t)h));
#else
  if (type == HEED_BFLOAT16)
    return (vector_float)(__builtin_convertvector(h, wide_halves) << 16);
  vector_float v;
  for (int i = 0; i < LANES; i++) v[i] = half_to_float(h[i]);
  return v;
#endif
}


INLINED void halves_convert_as (const heed_type type, int64_t n, float *to, const uint16_t *from) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    store_float(to + i, halves_widen(type, halves_load(from + i, LANES)));
  if (i < n)
    store_some_float(to + i, halves_widen(type, halves_load(from + i, (int)(n - i))), (int)(n - i));
}

static void halves_convert (heed_type type, int64_t n, float *to, const uint16_t *from) {
  if (type == HEED_BFLOAT16) halves_convert_as(HEED_BFLOAT16, n, to, from);
  else halves_convert_as(HEED_FLOAT16, n, to, from);
}


static inline float half_one (heed_type type, uint16_t bits) {
  return type == HEED_BFLOAT16 ? scalar_from_bfloat16(bits) : half_to_float(bits);
}

#endif


/* Elements at .. at + n - 1, 0 < n, of which there are LANES at most. */
INLINED FN(vector) FN(load_from) (const heed_type type, const void *from, int64_t at, int n) {
#if BYTES == 4
  if (type != TYPE) return halves_widen(type, halves_load((const uint16_t *)from + at, n));
#endif
  (void)type;
  return FN(load_some)((const T *)from + at, n);
}

#endif
