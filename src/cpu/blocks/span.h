/*
** span.h - rows of blocks as quants, scales and least values, a span at a time: by eight elements,
** as base/eights.h reads each type, on every level.
*/

#ifndef span_h
#define span_h

#include "cpu/blocks/quants.h"
#include "cpu/cpu.h"
#include "cpu/vector/elementwise.h"

#define SPAN 256                   /* elements that are decoded at a time */
#define SPAN_GROUPS (SPAN / DECODE_GROUP)

/* Element i is q[i] * scale[i / 16], plus least[i / 16] where the type has it. */
typedef struct span {
  int8_t q[SPAN];
  float scale[SPAN_GROUPS], least[SPAN_GROUPS];
} span;


static inline float half_at (const uint8_t *at) {
  uint16_t bits;
  memcpy(&bits, at, sizeof bits);
#if defined(HAS_AVX2) || defined(HAS_AVX512)
  return _cvtsh_ss(bits);
#else
  return half_to_float(bits);
#endif
}


static inline uint32_t bits_at (const uint8_t *at) {
  uint32_t bits;
  memcpy(&bits, at, sizeof bits);
  return bits;
}


static inline uint64_t eight_at (const uint8_t *at) {
  uint64_t x;
  memcpy(&x, at, sizeof x);
  return x;
}

/* Up to 32 bytes at once: of single ones of short loops compilers make code for each. */
typedef uint64_t eights __attribute__((vector_size(VECTOR_BYTES < 32 ? VECTOR_BYTES : 32)));

INLINED eights eights_at (const uint8_t *at) {
  eights x;
  memcpy(&x, at, sizeof x);
  return x;
}

#define EIGHTS INLINED
#include "base/eights.h"


/* A block of each type. */
#define BLOCK(NAME, name, elements, bytes, has_least, ...) \
  INLINED void decode_##name (const uint8_t *restrict b, int8_t *restrict q, \
                              float *restrict scale, float *restrict least) { \
    enum { GROUPS = (elements) / DECODE_GROUP }; \
    float numbers[2][GROUPS]; \
    UNROLL for (int g = 0; g < GROUPS; g++) numbers[0][g] = scale_##name(b, g); \
    UNROLL for (int g = 0; g < GROUPS; g++) numbers[1][g] = least_##name(b, g); \
    memcpy(scale, numbers[0], sizeof numbers[0]); \
    if (has_least) memcpy(least, numbers[1], sizeof numbers[1]); \
    UNROLL for (int i = 0; i < (elements) / 8; i += (int)sizeof(eight_##name(b, 0)) / 8) { \
      const __typeof__(eight_##name(b, 0)) x = eight_##name(b, i); \
      memcpy(q + 8 * i, &x, sizeof x); \
    } \
  }
#include "base/blocks.def"


/* n elements from 'at' on, of whole blocks, at most SPAN. */
#define BLOCK(NAME, name, elements, bytes, ...) \
  static inline void span_decoded_##name (const uint8_t *at, int n, span *s) { \
    for (int i = 0; i < n; i += (elements), at += (bytes)) \
      decode_##name(at, s->q + i, s->scale + i / DECODE_GROUP, s->least + i / DECODE_GROUP); \
  }
#include "base/blocks.def"


/*
** {==================================================================
** Facts for functions that load blocks into registers
** ===================================================================
*/

enum {
#define BLOCK(NAME, name, elements, bytes, ...) BYTES_##name = bytes,
#include "base/blocks.def"
};

/*
** Where the low four bits of a block's 32 elements begin, of types that are made so, and their
** fifth bits: 0, where there are none.
*/
enum {
  LOW_q8_0 = 0, LOW_q4_0 = 2, LOW_q4_1 = 4, LOW_q5_0 = 6, LOW_q5_1 = 8, LOW_q2_k = 0, LOW_q3_k = 0,
  LOW_q4_k = 0, LOW_q5_k = 0, LOW_q6_k = 0
};
enum {
  FIFTH_q8_0 = 0, FIFTH_q4_0 = 0, FIFTH_q4_1 = 0, FIFTH_q5_0 = 2, FIFTH_q5_1 = 4, FIFTH_q2_k = 0,
  FIFTH_q3_k = 0, FIFTH_q4_k = 0, FIFTH_q5_k = 0, FIFTH_q6_k = 0
};


#if defined(HAS_AVX2) || defined(HAS_AVX512)

INLINED __m256i bytes_at (const uint8_t *at) {
  return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

/* Eight scales and eight least values of six bits in 12 bytes, as bytes: the first four of either,
   then the others. See decode_sixes. */
INLINED __m128i sixes_of (const uint8_t *b) {
  const uint64_t both = eight_at(b + 4), low = bits_at(b + 12);
  uint64_t first = both & UINT64_C(0x3f3f3f3f3f3f3f3f);
  uint64_t others = (both >> 2 & UINT64_C(0x3030303030303030))
                    | (low << 28 & UINT64_C(0x0f0f0f0f00000000)) | (low & UINT64_C(0x0f0f0f0f));
  __asm__("" : "+r"(first), "+r"(others));      /* GCC makes slower vectors of two numbers */
  return _mm_set_epi64x((int64_t)others, (int64_t)first);
}

#endif

/* }================================================================== */

#endif
