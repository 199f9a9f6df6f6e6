/*
** elementwise.h - the loops of ops.def for each computing type, and conversions.
*/

#ifndef elementwise_h
#define elementwise_h

#include "cpu/vector/math.h"
#include "cpu/vector/simd.h"

/* The loop's iterations do not depend on each other, though its output may be its input. */
#if defined(__clang__)
#define VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define VECTOR_LOOP _Pragma("GCC ivdep")
#endif


/*
** {==================================================================
** Single elements. float16 by its bits, without branches.
** ===================================================================
*/

static inline float half_to_float (uint16_t bits) {
  uint32_t size = bits & 0x7fff, sign = (uint32_t)(bits & 0x8000) << 16;
  uint32_t normal = (size << 13) + (112u << 23) + (size >= 0x7c00 ? 112u << 23 : 0);
  float tiny = (float)(int32_t)size * 0x1p-24f;
  return as_float((size < 0x400 ? as_bits(tiny) : normal) | sign);
}

/* Ties go to even: by adding what 13 bits lack, or, below 2^-14, by adding 1/2. */
static inline uint16_t float_to_half (float f) {
  uint32_t bits = as_bits(f), size = bits & 0x7fffffff;
  uint32_t normal = (size + 0xfff + (size >> 13 & 1) - (112u << 23)) >> 13;
  uint32_t tiny = as_bits(as_float(size) + 0.5f) - as_bits(0.5f);
  uint32_t large = size > 0x7f800000 ? 0x7e00 : 0x7c00;
  uint32_t half = size < 0x38800000 ? tiny : size >= 0x477ff000 ? large : normal;
  return (uint16_t)(half | (bits >> 16 & 0x8000));
}

/* To integers: NaN gives 0, what is too large the largest. */
static inline int64_t integer_double (double x) {
  int64_t y = x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : 0;
  return __builtin_fabs(x) < 0x1p63 ? (int64_t)x : y;
}
static inline int64_t integer_float (float x) { return integer_double(x); }
static inline int64_t integer_int64 (int64_t x) { return x; }

static inline uint8_t byte_float (float x) {
  x = x > 0 ? x : 0;
  return (uint8_t)(int32_t)(x < 255 ? x : 255);
}
static inline uint8_t byte_double (double x) {
  x = x > 0 ? x : 0;
  return (uint8_t)(int32_t)(x < 255 ? x : 255);
}
static inline uint8_t byte_int64 (int64_t x) { return (uint8_t)x; }

static inline float saturated_float (float x) { return x; }
static inline float saturated_wide_float (double x) { return (float)x; }
static inline double saturated_double (float x) { return x; }
static inline double saturated_wide_double (double x) { return x; }
static inline int64_t saturated_int64 (float x) { return integer_float(x); }
static inline int64_t saturated_wide_int64 (double x) { return integer_double(x); }

/* }================================================================== */


/* Rows of float16 by the CPU's own instructions, where it has them. */
static void load_halves (int64_t n, float *y, const uint16_t *x) {
  int64_t i = 0;
#if defined(HAS_AVX512)
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(y + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(x + i))));
#endif
#if defined(HAS_AVX2) || defined(HAS_AVX512)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
#elif defined(LEVEL_NEON)
  for (; i + 4 <= n; i += 4)
    vst1q_f32(y + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x + i))));
#endif
  VECTOR_LOOP for (; i < n; i++) y[i] = half_to_float(x[i]);
}

static void store_halves (int64_t n, uint16_t *y, const float *x) {
  int64_t i = 0;
#if defined(HAS_AVX512)
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256((__m256i *)(y + i), _mm512_cvtps_ph(_mm512_loadu_ps(x + i), 0));
#endif
#if defined(HAS_AVX2) || defined(HAS_AVX512)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
#elif defined(LEVEL_NEON)
  for (; i + 4 <= n; i += 4)
    vst1_u16(y + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + i))));
#endif
  VECTOR_LOOP for (; i < n; i++) y[i] = float_to_half(x[i]);
}


#define LOOPS "cpu/vector/loops.h"
#include "cpu/for_floats.h"

#define T int64_t
#define FN(name) name##_int64
#include "cpu/vector/loops.h"
#undef T
#undef FN


/* To a computing type, or to the same type. */
static void elementwise_load (int64_t n, heed_type to, void *y, heed_type from, const void *x,
                              int64_t stride) {
  if (to == HEED_FLOAT32 && from == HEED_FLOAT16 && stride == 1) load_halves(n, y, x);
  else if (to == HEED_FLOAT32) load_type_float(n, y, from, x, stride);
  else if (to == HEED_FLOAT64) load_type_double(n, y, from, x, stride);
  else load_type_int64(n, y, from, x, stride);
}


/* From a computing type. */
static void elementwise_store (int64_t n, heed_type to, void *y, int64_t stride, heed_type from,
                               const void *x) {
  if (from == HEED_FLOAT32 && to == HEED_FLOAT16 && stride == 1) store_halves(n, y, x);
  else if (from == HEED_FLOAT32) store_type_float(n, to, y, stride, x);
  else if (from == HEED_FLOAT64) store_type_double(n, to, y, stride, x);
  else store_type_int64(n, to, y, stride, x);
}

#endif
