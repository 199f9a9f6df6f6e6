/*
** decode.h - blocks as quants, scales and least values: one function for each type of blocks.
**
** The layouts are those of ggml-common.h, the arithmetic is that of its reference, in its order.
** All products of a scale and a quant that something is added to are exact, so that a fused
** multiplication gives the same bits.
*/

#ifndef decode_h
#define decode_h

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


/* {== Blocks of 32 elements: q, scale and least are at the block's first ones ================ */

static inline void set_groups (float *scale, float d) { scale[0] = scale[1] = d; }

static inline void decode_q8_0 (const uint8_t *b, int8_t *q, float *scale, float *least) {
  (void)least;
  set_groups(scale, half_at(b));
  memcpy(q, b + 2, 32);
}


/* {== Eight elements in 64 bits: the compiler makes code for single bytes of short loops ==== */

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

static inline uint64_t eight_at (const void *at) {
  uint64_t x;
  memcpy(&x, at, sizeof x);
  return x;
}

/* Elements from 0 to 127, less 'zero', at most 128. No byte borrows from the next. */
static inline void put_eight (int8_t *q, uint64_t x, int zero) {
  x = ((x | EACH(0x80)) - EACH(zero)) ^ EACH(0x80);
  memcpy(q, &x, sizeof x);
}

/* The low halves of 16 bytes, then the high ones, less 'zero'. */
static inline void decode_nibbles (const uint8_t *bytes, int8_t *q, int zero) {
  for (int i = 0; i < 16; i += 8) {
    const uint64_t x = eight_at(bytes + i);
    put_eight(q + i, x & EACH(15), zero);
    put_eight(q + 16 + i, x >> 4 & EACH(15), zero);
  }
}

/*
** The fifth bits of 32 elements, less 'zero': each byte of x keeps its own bit of eight, and an
** addition carries that bit to the byte's highest, which is moved to the fifth.
*/
static inline void decode_fifth (uint32_t bits, int8_t *q, int zero) {
  for (int i = 0; i < 32; i += 8) {
    const uint64_t x = EACH(bits >> i & 255) & UINT64_C(0x8040201008040201);
    const uint64_t fifth = (x + UINT64_C(0x00406070787c7e7f)) >> 3 & EACH(16);
    put_eight(q + i, eight_at(q + i) | fifth, zero);
  }
}

static inline void decode_q4_0 (const uint8_t *b, int8_t *q, float *scale, float *least) {
  (void)least;
  set_groups(scale, half_at(b));
  decode_nibbles(b + 2, q, 8);
}

static inline void decode_q4_1 (const uint8_t *b, int8_t *q, float *scale, float *least) {
  set_groups(scale, half_at(b));
  set_groups(least, half_at(b + 2));
  decode_nibbles(b + 4, q, 0);
}


static inline void decode_q5_0 (const uint8_t *b, int8_t *q, float *scale, float *least) {
  (void)least;
  set_groups(scale, half_at(b));
  decode_nibbles(b + 6, q, 0);
  decode_fifth(bits_at(b + 2), q, 16);
}

static inline void decode_q5_1 (const uint8_t *b, int8_t *q, float *scale, float *least) {
  set_groups(scale, half_at(b));
  set_groups(least, half_at(b + 2));
  decode_nibbles(b + 8, q, 0);
  decode_fifth(bits_at(b + 4), q, 0);
}

/* {== Blocks of 256 elements ======================================== */

/* 16 scales and least values of four bits, 2 bits for each quant, scales of both. */
static inline void decode_q2_k (const uint8_t *b, int8_t *q, float *scale, float *least) {
  const float d = half_at(b + 80), m = half_at(b + 82);
  for (int g = 0; g < SPAN_GROUPS; g++) {
    scale[g] = d * (float)(b[g] & 15);
    least[g] = -(m * (float)(b[g] >> 4));
  }
  for (int i = 0; i < SPAN; i++)
    q[i] = (int8_t)(b[16 + (i >> 7) * 32 + (i & 31)] >> (i >> 5 & 3) * 2 & 3);
}


/* Third bits, 2 bits for each quant, 16 scales of six bits. */
static inline void decode_q3_k (const uint8_t *b, int8_t *q, float *scale, float *least) {
  const uint8_t *s = b + 96;
  const float d = half_at(b + 108);
  (void)least;
  for (int g = 0; g < SPAN_GROUPS; g++) {
    int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4, high = s[8 + (g & 3)] >> (g >> 2) * 2 & 3;
    scale[g] = d * (float)((low | high << 4) - 32);
  }
  for (int i = 0; i < SPAN; i++) {
    int low = b[32 + (i >> 7) * 32 + (i & 31)] >> (i >> 5 & 3) * 2 & 3;
    q[i] = (int8_t)(low - (b[i & 31] >> (i >> 5) & 1 ? 0 : 4));
  }
}


/* 8 scales and least values of six bits in 12 bytes, for 32 elements each, times those of all. */
static inline void decode_sixes (const uint8_t *b, float *scale, float *least) {
  const uint8_t *s = b + 4;
  const float d = half_at(b), m = half_at(b + 2);
  for (int k = 0; k < 8; k++) {
    int one = k < 4 ? s[k] & 63 : (s[k + 4] & 15) | s[k - 4] >> 6 << 4;
    int other = k < 4 ? s[k + 4] & 63 : s[k + 4] >> 4 | s[k] >> 6 << 4;
    set_groups(scale + 2 * k, d * (float)one);
    set_groups(least + 2 * k, -(m * (float)other));
  }
}


/* The low halves of 32 bytes, then the high ones, four times. */
static inline void decode_halves (const uint8_t *at, int8_t *q) {
  uint8_t bytes[128];
  memcpy(bytes, at, sizeof bytes);
  for (int k = 0; k < 4; k++)
    for (int i = 0; i < 32; i++) {
      q[64 * k + i] = (int8_t)(bytes[32 * k + i] & 15);
      q[64 * k + 32 + i] = (int8_t)(bytes[32 * k + i] >> 4);
    }
}

static inline void decode_q4_k (const uint8_t *b, int8_t *q, float *scale, float *least) {
  decode_sixes(b, scale, least);
  decode_halves(b + 16, q);
}

static inline void decode_q5_k (const uint8_t *b, int8_t *q, float *scale, float *least) {
  decode_sixes(b, scale, least);
  decode_halves(b + 48, q);
  for (int k = 0; k < 8; k++)
    for (int i = 0; i < 32; i++)
      q[32 * k + i] = (int8_t)(q[32 * k + i] + ((b[16 + i] >> k & 1) << 4));
}


/* 4 bits of each quant, 2 bits of each, 16 scales of eight bits. */
static inline void decode_q6_k (const uint8_t *b, int8_t *q, float *scale, float *least) {
  const float d = half_at(b + 208);
  (void)least;
  for (int g = 0; g < SPAN_GROUPS; g++) scale[g] = d * (float)(int8_t)b[192 + g];
  for (int part = 0; part < 2; part++)
    for (int i = 0; i < 32; i++) {
      const uint8_t *low = b + 64 * part + i, high = b[128 + 32 * part + i];
      int8_t *to = q + 128 * part + i;
      to[0] = (int8_t)(((low[0] & 15) | (high & 3) << 4) - 32);
      to[32] = (int8_t)(((low[32] & 15) | (high >> 2 & 3) << 4) - 32);
      to[64] = (int8_t)((low[0] >> 4 | (high >> 4 & 3) << 4) - 32);
      to[96] = (int8_t)((low[32] >> 4 | high >> 6 << 4) - 32);
    }
}

/* }================================================================== */


/* n elements from 'at' on, of whole blocks, at most SPAN. */
#define BLOCK(NAME, name, elements, bytes, ...) \
  static void decode_span_##name (const uint8_t *at, int n, span *s) { \
    for (int i = 0; i < n; i += (elements), at += (bytes)) \
      decode_##name(at, s->q + i, s->scale + i / DECODE_GROUP, s->least + i / DECODE_GROUP); \
  }
#include "base/blocks.def"

typedef struct decoder {
  void (*decode) (const uint8_t *at, int n, span *s);
  bool least;
} decoder;

static const decoder decoders[HEED_ALL_TYPES] = {
#define BLOCK(NAME, name, elements, bytes, least, ...) [HEED_##NAME] = {decode_span_##name, least},
#include "base/blocks.def"
};


/* Values of a group of a span. */
INLINED void group_values (const decoder *d, const span *s, int g, block_lanes *y) {
  const block_lanes scale = block_all(s->scale[g]);
  values_of(s->q + g * DECODE_GROUP, y);
  UNROLL for (int i = 0; i < GROUP_VECTORS; i++) y[i] *= scale;
  if (!d->least) return;
  const block_lanes least = block_all(s->least[g]);
  UNROLL for (int i = 0; i < GROUP_VECTORS; i++) y[i] += least;
}


/* n elements as values. */
static inline void decode_values (const decoder *d, const uint8_t *at, int n, float *y) {
  span s;
  d->decode(at, n, &s);
  for (int g = 0; g < n / DECODE_GROUP; g++) {
    block_lanes v[GROUP_VECTORS];
    group_values(d, &s, g, v);
    UNROLL for (int i = 0; i < GROUP_VECTORS; i++)
      block_store(y + g * DECODE_GROUP + i * BLOCK_LANES, v[i]);
  }
}

#endif
