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

#endif
