/*
** load.h - a span of blocks in AVX-512's registers: one function for each type, which reads what
** base/eights.h reads by eight elements. Specs hold both to the same bits.
*/

#ifndef load_h
#define load_h

#include "cpu/blocks/span.h"

#if defined(HAS_AVX512)

#define SPAN_VECTORS (SPAN / 64)

/*
** Elements in order, each the quant plus loaded_zero of the type, so that it is not negative. Group
** g of DECODE_GROUP elements has its numbers in lane 4 (g % 4) + g / 4.
*/
typedef struct loaded {
  __m512i q[SPAN_VECTORS];
  __m512 scale, least;
} loaded;

/* Numbers of groups by lanes, and the other way around: 4 x 4, transposed. */
INLINED __m512 swapped (__m512 x) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_ps(order, x);
}

INLINED __m512 by_lanes (const float *groups) { return swapped(_mm512_loadu_ps(groups)); }

INLINED void by_groups (__m512 lanes, float *groups) { _mm512_storeu_ps(groups, swapped(lanes)); }


/*
** {==================================================================
** Eight blocks of 32 elements, of which the first n are there: others have scales of 0. Where
** pairs of them are those of four rows, each begins 'pair' bytes behind the one before.
** ===================================================================
*/

/*
** The words so far behind the beginnings of eight blocks, in two vectors of which the second begins
** that many bytes behind the first: by lanes, or across.
*/
INLINED __m512i words_of_blocks (int bytes, int first, int second, bool across) {
  short at[16];
  UNROLL for (int lane = 0; lane < 16; lane++) {
    const int block = across ? lane / 2 : lane % 4 * 2 + lane / 8;
    const int word = block * bytes / 2 + first;
    at[lane] = (short)(block < 4 ? word : word + 32 - second / 2);
  }
  return _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)at));
}

/* The float16 numbers there. */
INLINED __m512 halves_among (__m512i one, __m512i other, int bytes, int first, int second,
                             bool across) {
  const __m512i at = words_of_blocks(bytes, first, second, across);
  return _mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutex2var_epi16(one, at, other)));
}


/*
** The float16 numbers that stand 'first' words behind the beginnings of blocks of so many bytes:
** of all eight at once where four have them in a vector.
*/
INLINED __m512 block_halves (const uint8_t *at, int bytes, int64_t pair, int first, int n,
                             bool across) {
  const int second = 7 * bytes + 2 * first + 2 <= 128 ? 64 : 4 * bytes;
  if (n == 8 && pair == 2 * bytes && 3 * bytes + 2 * first + 2 <= 64)
    return halves_among(_mm512_loadu_si512(at), _mm512_loadu_si512(at + second), bytes, first,
                        second, across);
  uint64_t half[2] = {0, 0};       /* of even blocks, and of odd ones; across, in order */
  at += 2 * first;
  UNROLL for (int i = 0; i < 8; i++)
    if (i < n) {
      uint16_t bits;
      memcpy(&bits, at + i / 2 * pair + i % 2 * bytes, sizeof bits);
      uint64_t wide = bits;
      __asm__("" : "+r"(wide));      /* GCC makes vectors of four numbers in 12 steps */
      half[across ? i / 4 : i % 2] |= wide << (across ? i % 4 : i / 2) * 16;
    }
  const __m256i all = _mm256_castsi128_si256(_mm_set_epi64x((int64_t)half[1], (int64_t)half[0]));
  const __m256i twice = _mm256_permute4x64_epi64(all, 0x50);
  return _mm512_cvtph_ps(across ? _mm256_unpacklo_epi16(twice, twice) : twice);
}


/* Two blocks begin at 'at' and 'other': the second is the first one where it is not there. */
INLINED __m512i eights_of (const uint8_t *at, const uint8_t *other) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(bytes_at(at)), bytes_at(other), 1);
}


/* The low halves of 16 bytes, then the high ones: of two blocks. */
INLINED __m512i nibbles_of (const uint8_t *first, const uint8_t *second) {
  const __m512i shifts = _mm512_setr_epi64(0, 0, 0x0004000400040004, 0x0004000400040004,
                                           0, 0, 0x0004000400040004, 0x0004000400040004);
  const __m128i one = _mm_loadu_si128((const __m128i *)(const void *)first);
  const __m128i two = _mm_loadu_si128((const __m128i *)(const void *)second);
  const __m512i both = _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(one), 0xff00, two);
  return _mm512_and_si512(_mm512_srlv_epi16(both, shifts), _mm512_set1_epi8(15));
}


/* Sixteens where the fifth bits of two blocks are. */
INLINED __m512i with_fifths (__m512i q, const uint8_t *first, const uint8_t *second) {
  const __mmask64 bits = (__mmask64)bits_at(first) | (__mmask64)bits_at(second) << 32;
  return _mm512_mask_add_epi8(q, bits, q, _mm512_set1_epi8(16));
}


INLINED void load_q8_0 (const uint8_t *at, int n, loaded *to) {
  enum { EACH_BLOCK = BYTES_q8_0 };
  to->scale = block_halves(at, EACH_BLOCK, 2 * EACH_BLOCK, 0, n, false);
  at += 2;
  UNROLL for (int i = 0; i < SPAN_VECTORS; i++, at += 2 * EACH_BLOCK)
    to->q[i] = 2 * i >= n ? _mm512_setzero_si512()
             : _mm512_xor_si512(eights_of(at, 2 * i + 1 < n ? at + EACH_BLOCK : at),
                                _mm512_set1_epi8((char)0x80));
}


/*
** Where bytes begin whose low halves and high ones are two groups of 32 elements, of types with
** such bytes, and where 32 bytes have the fifth bits of all eight groups.
*/
enum {
  HALVES_q8_0 = 0, HALVES_q4_0 = 0, HALVES_q4_1 = 0, HALVES_q5_0 = 0, HALVES_q5_1 = 0,
  HALVES_q2_k = 0, HALVES_q3_k = 0, HALVES_q4_k = 16, HALVES_q5_k = 48, HALVES_q6_k = 0
};
enum {
  FIFTHS_q8_0 = 0, FIFTHS_q4_0 = 0, FIFTHS_q4_1 = 0, FIFTHS_q5_0 = 0, FIFTHS_q5_1 = 0,
  FIFTHS_q2_k = 0, FIFTHS_q3_k = 0, FIFTHS_q4_k = 0, FIFTHS_q5_k = 16, FIFTHS_q6_k = 0
};


/* How quants and numbers stand in vectors where a few rows of x are multiplied: see
   load_nibbles_across, and load_in_halves, whose numbers alone stand otherwise. */
typedef enum quant_order { QUANTS_PLAIN, QUANTS_ACROSS, QUANTS_IN_HALVES } quant_order;

#define ORDER_OF(name) (LOW_##name > 0 ? QUANTS_ACROSS : \
                        HALVES_##name > 0 ? QUANTS_IN_HALVES : QUANTS_PLAIN)

INLINED quant_order order_of (const heed_type type) {
  switch ((int)type) {
#define BLOCK(NAME, name, ...) case HEED_##NAME: return ORDER_OF(name);
#include "base/blocks.def"
  }
  return QUANTS_PLAIN;
}


/* The scales of blocks with nibbles, and the least values that follow them. */
INLINED void load_numbers (const uint8_t *at, int bytes, int64_t pair, int n, bool has_least,
                           bool across, loaded *to) {
  to->scale = block_halves(at, bytes, pair, 0, n, across);
  if (has_least) to->least = block_halves(at, bytes, pair, 1, n, across);
}

INLINED void load_nibbles (const uint8_t *at, int bytes, int n, int low, int fifth, bool has_least,
                           loaded *to) {
  load_numbers(at, bytes, 2 * bytes, n, has_least, false, to);
  UNROLL for (int i = 0; i < SPAN_VECTORS; i++, at += 2 * bytes) {
    const uint8_t *other = 2 * i + 1 < n ? at + bytes : at;
    to->q[i] = _mm512_setzero_si512();
    if (2 * i >= n) continue;
    to->q[i] = nibbles_of(at + low, other + low);
    if (fifth > 0) to->q[i] = with_fifths(to->q[i], at + fifth, other + fifth);
  }
}

#define NIBBLES(name, has_least) \
  INLINED void load_##name (const uint8_t *at, int n, loaded *to) { \
    load_nibbles(at, BYTES_##name, n, LOW_##name, FIFTH_##name, has_least, to); \
  }
NIBBLES(q4_0, false)
NIBBLES(q4_1, true)
NIBBLES(q5_0, false)
NIBBLES(q5_1, true)
#undef NIBBLES


/* The low bits of four blocks, those of 'first' in the first lane: what a vector has of them. */
INLINED __m512i low_bits_of (int bytes, int low, int first) {
  short at[32];
  UNROLL for (int i = 0; i < 32; i++)
    at[i] = (short)(((2 * (i / 8) + first) * bytes + low) / 2 + i % 8);
  return _mm512_loadu_si512(at);
}


/* 64 bytes in a register: otherwise GCC reads them anew for each permutation. */
INLINED __m512i read_once (const uint8_t *at) {
  __m512i v = _mm512_loadu_si512(at);
  __asm__("" : "+v"(v));
  return v;
}


/*
** The quants of the same blocks across: of four blocks, each in a lane of 128 bits, the first
** sixteen in one vector and the others in the next one; blocks 0, 2, 4 and 6, then 1, 3, 5 and 7.
** Numbers stand in the order of the blocks, each twice. Where eight blocks without least values
** have all but their last bits in 128 bytes, three permutations of these find everything.
*/
INLINED void load_nibbles_across (const uint8_t *at, int bytes, int64_t pair, int n, int low,
                                  int fifth, bool has_least, loaded *to) {
  const __m512i fours = _mm512_set1_epi8(15), sixteens = _mm512_set1_epi8(16);
  const bool close = n == 8 && pair == 2 * bytes && 7 * bytes + low == 128 && !has_least;
  __m512i one, other;
  if (close) {
    one = read_once(at);
    other = read_once(at + 64);
    to->scale = halves_among(one, other, bytes, 0, 64, true);
  }
  else load_numbers(at, bytes, pair, n, has_least, true, to);
  UNROLL for (int odd = 0; odd < 2; odd++) {
    __m512i v = _mm512_setzero_si512();
    __mmask64 first = 0, second = 0;       /* fifth bits */
    if (close) {
      v = _mm512_permutex2var_epi16(one, low_bits_of(bytes, low, odd), other);
      if (odd == 1)
        v = _mm512_mask_broadcast_i32x4(v, 0xf000,
                                        _mm_loadu_si128((const __m128i *)(const void *)(at + 128)));
    }
    else UNROLL for (int lane = 0; lane < 4; lane++) {
      const uint8_t *b = at + lane * pair + odd * bytes;
      if (2 * lane + odd >= n) continue;
      const __m128i each = _mm_loadu_si128((const __m128i *)(const void *)(b + low));
      v = lane == 0 ? _mm512_broadcast_i32x4(each)
                    : _mm512_mask_broadcast_i32x4(v, (__mmask16)(15 << 4 * lane), each);
      if (fifth == 0) continue;
      first |= (__mmask64)(bits_at(b + fifth) & 0xffff) << 16 * lane;
      second |= (__mmask64)(bits_at(b + fifth) >> 16) << 16 * lane;
    }
    to->q[2 * odd] = _mm512_and_si512(v, fours);
    to->q[2 * odd + 1] = _mm512_and_si512(_mm512_srli_epi16(v, 4), fours);
    if (fifth == 0) continue;
    to->q[2 * odd] = _mm512_mask_add_epi8(to->q[2 * odd], first, to->q[2 * odd], sixteens);
    to->q[2 * odd + 1] = _mm512_mask_add_epi8(to->q[2 * odd + 1], second, to->q[2 * odd + 1],
                                              sixteens);
  }
}

/* }================================================================== */


/*
** {==================================================================
** A block of 256 elements, which is a span
** ===================================================================
*/

INLINED __m512 eight_numbers (__m128i sixes, __m128i lanes, float scale) {
  const __m512i all = _mm512_cvtepu8_epi32(_mm_shuffle_epi8(sixes, lanes));
  return _mm512_mul_ps(_mm512_cvtepi32_ps(all), _mm512_set1_ps(scale));
}

/* Each stands in the lanes of both halves of its 32 elements. */
INLINED void load_sixes (const uint8_t *b, loaded *to) {
  const __m128i sixes = sixes_of(b);
  const __m128i scales = _mm_setr_epi8(0, 2, 8, 10, 0, 2, 8, 10, 1, 3, 9, 11, 1, 3, 9, 11);
  const __m128i leasts = _mm_add_epi8(scales, _mm_set1_epi8(4));
  to->scale = eight_numbers(sixes, scales, half_at(b));
  to->least = eight_numbers(sixes, leasts, -half_at(b + 2));
}

/* The low halves of 32 bytes, then the high ones, four times. */
INLINED void load_halves_of_bytes (const uint8_t *at, loaded *to) {
  const __m512i shifts = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(4), 1);
  UNROLL for (int i = 0; i < SPAN_VECTORS; i++) {
    const __m256i bytes = bytes_at(at + 32 * i);
    to->q[i] = _mm512_and_si512(_mm512_srlv_epi16(_mm512_broadcast_i64x4(bytes), shifts),
                                _mm512_set1_epi8(15));
  }
}

INLINED void load_q4_k (const uint8_t *b, int n, loaded *to) {
  (void)n;
  load_sixes(b, to);
  load_halves_of_bytes(b + 16, to);
}

/* Bit 2 i of a byte is the fifth one of its element among the first 32 of vector i. */
INLINED void load_q5_k (const uint8_t *b, int n, loaded *to) {
  (void)n;
  const __m512i fifths = _mm512_broadcast_i64x4(bytes_at(b + 16));
  load_sixes(b, to);
  load_halves_of_bytes(b + 48, to);
  UNROLL for (int i = 0; i < SPAN_VECTORS; i++) {
    const __m512i bit = _mm512_inserti64x4(_mm512_set1_epi8((char)(1 << 2 * i)),
                                           _mm256_set1_epi8((char)(2 << 2 * i)), 1);
    to->q[i] = _mm512_mask_add_epi8(to->q[i], _mm512_test_epi8_mask(fifths, bit), to->q[i],
                                    _mm512_set1_epi8(16));
  }
}


/*
** The same block across: low halves of 128 bytes are groups 0, 2, 4 and 6 of 32 elements, in lanes
** of 128 bits, and high ones groups 1, 3, 5 and 7; the first sixteen of each stand in one vector
** and the others in the next one. Of eight numbers, those of groups 0, 1, 4, 5, 2, 3, 6 and 7.
*/
typedef struct loaded_halves {
  __m512i q[SPAN_VECTORS];
  int shift;                       /* bits by which the sums of high halves are too large */
  __m256 scale, most;              /* most: what is to be subtracted */
} loaded_halves;

INLINED void load_in_halves (const uint8_t *b, int low, int fifths, loaded_halves *to) {
  const __m128i order = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
  const __m512i eight = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  const __m512i lows = _mm512_set1_epi8(15), highs = _mm512_set1_epi8((char)0xf0);
  const __m512i numbers = _mm512_cvtepu8_epi32(_mm_shuffle_epi8(sixes_of(b), order));
  const __m512 two = _mm512_castps128_ps512(_mm_cvtph_ps(_mm_cvtsi32_si128((int)bits_at(b))));
  const __m512 all = _mm512_mul_ps(_mm512_cvtepi32_ps(numbers), _mm512_permutexvar_ps(eight, two));
  const __m512i one = read_once(b + low), other = read_once(b + low + 64);
  to->scale = _mm512_castps512_ps256(all);
  to->most = _mm512_extractf32x8_ps(all, 1);
  to->shift = fifths > 0 ? 0 : 4;
  const __m512i bytes[2] = {_mm512_shuffle_i32x4(one, other, 0x88),
                            _mm512_shuffle_i32x4(one, other, 0xdd)};
  UNROLL for (int half = 0; half < 2; half++) {
    const __m512i v = bytes[half];
    to->q[half] = _mm512_and_si512(v, lows);
    to->q[half + 2] = fifths > 0 ? _mm512_and_si512(_mm512_srli_epi16(v, 4), lows)
                                 : _mm512_and_si512(v, highs);
  }
  if (fifths == 0) return;
  UNROLL for (int i = 0; i < SPAN_VECTORS; i++) {
    const uint8_t *at = b + fifths + i % 2 * 16;
    const __m512i bits = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)at));
    int turns[16];                 /* lane j / 4 has its bits of the group i / 2 + j / 4 * 2 */
    UNROLL for (int j = 0; j < 16; j++) turns[j] = (4 - i / 2 - j / 4 * 2) & 31;
    to->q[i] = _mm512_ternarylogic_epi32(
        to->q[i], _mm512_rolv_epi32(bits, _mm512_loadu_si512(turns)), _mm512_set1_epi8(16), 0xf8);
  }
}


INLINED void load_q6_k (const uint8_t *b, int n, loaded *to) {
  (void)n;
  const __m128i lanes = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(b + 192));
  const __m512i fours = _mm512_set1_epi8(15), highs = _mm512_set1_epi8(0x30);
  const __m512i twos = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(2), 1);
  const __m512i up = _mm512_sub_epi16(_mm512_set1_epi16(4), twos);
  const __m512i scales = _mm512_cvtepi8_epi32(_mm_shuffle_epi8(bytes, lanes));
  to->scale = _mm512_mul_ps(_mm512_cvtepi32_ps(scales), _mm512_set1_ps(half_at(b + 208)));
  UNROLL for (int part = 0; part < 2; part++) {
    const __m512i low = _mm512_loadu_si512(b + 64 * part);
    const __m512i high = _mm512_broadcast_i64x4(bytes_at(b + 128 + 32 * part));
    to->q[2 * part] = _mm512_or_si512(_mm512_and_si512(low, fours),
                                      _mm512_and_si512(_mm512_sllv_epi16(high, up), highs));
    to->q[2 * part + 1] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(low, 4), fours),
                                          _mm512_and_si512(_mm512_srlv_epi16(high, twos), highs));
  }
}


/* Through memory, by eights. */
INLINED void load_decoded (void (*decode) (const uint8_t *at, int n, span *s), const uint8_t *b,
                           loaded *to) {
  span s;
  decode(b, SPAN, &s);
  UNROLL for (int i = 0; i < SPAN_VECTORS; i++)
    to->q[i] = _mm512_xor_si512(_mm512_loadu_si512(s.q + 64 * i), _mm512_set1_epi8((char)0x80));
  to->scale = by_lanes(s.scale);
  to->least = by_lanes(s.least);
}

INLINED void load_q2_k (const uint8_t *b, int n, loaded *to) {
  (void)n;
  load_decoded(span_decoded_q2_k, b, to);
}

INLINED void load_q3_k (const uint8_t *b, int n, loaded *to) {
  (void)n;
  load_decoded(span_decoded_q3_k, b, to);
}

/* }================================================================== */


/* The first n blocks of a span: all of them, or those at the end of a row. */
INLINED void load_span (const heed_type type, const uint8_t *at, int n, loaded *to) {
  switch ((int)type) {
#define BLOCK(NAME, name, ...) case HEED_##NAME: load_##name(at, n, to); break;
#include "base/blocks.def"
  }
}

/* The same across, of types with nibbles alone; also of pairs of blocks of four rows. */
INLINED void load_span_across (const heed_type type, const uint8_t *at, int64_t pair, int n,
                               loaded *to) {
  switch ((int)type) {
#define BLOCK(NAME, name, elements, bytes, least, ...) \
    case HEED_##NAME: \
      load_nibbles_across(at, bytes, pair, n, LOW_##name, FIFTH_##name, least, to); \
      break;
#include "base/blocks.def"
  }
}

/* The same in halves, of types that have them alone. */
INLINED void load_span_in_halves (const heed_type type, const uint8_t *b, loaded_halves *to) {
  switch ((int)type) {
#define BLOCK(NAME, name, ...) \
    case HEED_##NAME: load_in_halves(b, HALVES_##name, FIFTHS_##name, to); break;
#include "base/blocks.def"
  }
}

/* The number that load_span adds to a quant, which is not negative then. */
enum {
  ZERO_q8_0 = 128, ZERO_q4_0 = 8, ZERO_q4_1 = 0, ZERO_q5_0 = 16, ZERO_q5_1 = 0, ZERO_q2_k = 128,
  ZERO_q3_k = 128, ZERO_q4_k = 0, ZERO_q5_k = 0, ZERO_q6_k = 32
};

INLINED int loaded_zero (const heed_type type) {
  switch ((int)type) {
#define BLOCK(NAME, name, ...) case HEED_##NAME: return ZERO_##name;
#include "base/blocks.def"
  }
  return 0;
}


/* n elements from 'at' on, of whole blocks; those behind them are any quants times 0. */
INLINED void span_loaded (const heed_type type, int elements, bool has_least, const uint8_t *at,
                          int n, span *s) {
  loaded x;
  load_span(type, at, n / elements, &x);
  UNROLL for (int i = 0; i < SPAN_VECTORS; i++)
    _mm512_storeu_si512(s->q + 64 * i,
                        _mm512_sub_epi8(x.q[i], _mm512_set1_epi8((char)loaded_zero(type))));
  by_groups(x.scale, s->scale);
  if (has_least) by_groups(x.least, s->least);
}

#define BLOCK(NAME, name, elements, bytes, least, ...) \
  static void span_loaded_##name (const uint8_t *at, int n, span *s) { \
    if (n == SPAN) span_loaded(HEED_##NAME, elements, least, at, SPAN, s); \
    else span_loaded(HEED_##NAME, elements, least, at, n, s); \
  }
#include "base/blocks.def"

#endif

#endif
