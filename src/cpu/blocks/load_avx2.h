/*
** load_avx2.h - a span of blocks in AVX2's registers: one function for each type, which reads what
** base/eights.h reads by eight elements.
*/

#ifndef load_avx2_h
#define load_avx2_h

#include "cpu/blocks/span.h"

#if defined(HAS_AVX2) || defined(HAS_AVX512)

/*
** Elements in order, as bytes: of q8_0 the signed quants, of other types the quants plus UP_name,
** which are not negative. Numbers of groups of 32 elements stand in order in the first vector;
** those of groups of 16 as sums of quants come: groups 0, 2, 4, 6, 1, 3, 5 and 7, then the next
** eight.
*/
typedef struct quant_span {
  __m256i q[SPAN / 32];
  __m256 scale[2], least[2];
} quant_span;

enum {
  UP_q8_0 = 0, UP_q4_0 = 8, UP_q4_1 = 0, UP_q5_0 = 16, UP_q5_1 = 0, UP_q2_k = 0, UP_q3_k = 4,
  UP_q4_k = 0, UP_q5_k = 0, UP_q6_k = 32
};

/* The numbers of groups of 16 in that order. */
static const uint8_t group_places[SPAN_GROUPS] = {0, 2, 4, 6, 1, 3, 5, 7,
                                                  8, 10, 12, 14, 9, 11, 13, 15};


INLINED __m128i sixteen_bytes (const uint8_t *at) {
  return _mm_loadu_si128((const __m128i *)(const void *)at);
}


/*
** {==================================================================
** Blocks of 32 elements of a span, or of its first half, of which the first n are there. Of the
** others the last one is read again, and their numbers are 0.
** ===================================================================
*/

/* Block i of n that have so many bytes, the first of which is at 'at'. */
INLINED const uint8_t *block_of_span (const uint8_t *at, int bytes, int n, int i) {
  return at + smaller(i, n - 1) * bytes;
}

/* The float16 numbers that stand so far behind the beginnings of blocks. */
INLINED __m256 numbers_of_blocks (const uint8_t *at, int bytes, int n, int blocks, int behind) {
  int16_t half[8] = {0};
  UNROLL for (int i = 0; i < 8; i++)
    if (i < blocks) memcpy(&half[i], block_of_span(at, bytes, n, i) + behind, sizeof half[i]);
  const __m256 all = _mm256_cvtph_ps(_mm_setr_epi16(half[0], half[1], half[2], half[3], half[4],
                                                    half[5], half[6], half[7]));
  if (n == 8) return all;
  const __m256i there = _mm256_cmpgt_epi32(_mm256_set1_epi32(n),
                                           _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  return _mm256_and_ps(all, _mm256_castsi256_ps(there));
}

/* The low halves of 16 bytes, then the high ones. */
INLINED __m256i halves_of_bytes (const uint8_t *at) {
  const __m128i bytes = sixteen_bytes(at);
  const __m256i shifts = _mm256_setr_epi64x(0, 0, 4, 4);
  return _mm256_and_si256(_mm256_srlv_epi64(_mm256_broadcastsi128_si256(bytes), shifts),
                          _mm256_set1_epi8(15));
}

/* Sixteens where bits of 32 are set. */
INLINED __m256i fifths_of (const uint8_t *at) {
  const __m256i places = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202,
                                            0x0303030303030303);
  const __m256i bits = _mm256_set1_epi64x((int64_t)UINT64_C(0x8040201008040201));
  const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits_at(at)), places);
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bits), bits);
  return _mm256_and_si256(set, _mm256_set1_epi8(16));
}

INLINED void quants_q8_0 (const uint8_t *at, int n, const bool whole, quant_span *to) {
  const int blocks = whole ? 8 : 4;
  to->scale[0] = numbers_of_blocks(at, BYTES_q8_0, n, blocks, 0);
  UNROLL for (int i = 0; i < 8; i++)
    if (i < blocks) to->q[i] = bytes_at(block_of_span(at, BYTES_q8_0, n, i) + 2);
}

INLINED void quants_of_halves (const uint8_t *at, int bytes, int n, const bool whole, int low,
                               int fifth, bool has_least, quant_span *to) {
  const int blocks = whole ? 8 : 4;
  to->scale[0] = numbers_of_blocks(at, bytes, n, blocks, 0);
  if (has_least) to->least[0] = numbers_of_blocks(at, bytes, n, blocks, 2);
  UNROLL for (int i = 0; i < 8; i++) {
    const uint8_t *b = block_of_span(at, bytes, n, i);
    if (i >= blocks) break;
    to->q[i] = halves_of_bytes(b + low);
    if (fifth > 0) to->q[i] = _mm256_or_si256(to->q[i], fifths_of(b + fifth));
  }
}

#define HALVES(name, has_least) \
  INLINED void quants_##name (const uint8_t *at, int n, const bool whole, quant_span *to) { \
    quants_of_halves(at, BYTES_##name, n, whole, LOW_##name, FIFTH_##name, has_least, to); \
  }
HALVES(q4_0, false)
HALVES(q4_1, true)
HALVES(q5_0, false)
HALVES(q5_1, true)
#undef HALVES

/* }================================================================== */


/*
** {==================================================================
** A block of 256 elements, which is a span
** ===================================================================
*/

/* The first eight of some bytes, as numbers times a factor. */
INLINED __m256 eight_times (__m128i bytes, float factor) {
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), _mm256_set1_ps(factor));
}

/* Sixteen numbers of groups. */
INLINED void sixteen_times (__m128i bytes, float factor, __m256 to[2]) {
  const __m128i placed = _mm_shuffle_epi8(bytes, sixteen_bytes(group_places));
  to[0] = eight_times(placed, factor);
  to[1] = eight_times(_mm_unpackhi_epi64(placed, placed), factor);
}

INLINED void sixes_in_order (const uint8_t *b, quant_span *to) {
  const __m128i sixes = sixes_of(b);
  const __m128i places = _mm_setr_epi8(0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15);
  const __m128i placed = _mm_shuffle_epi8(sixes, places);
  to->scale[0] = eight_times(placed, half_at(b));
  to->least[0] = eight_times(_mm_unpackhi_epi64(placed, placed), -half_at(b + 2));
}

/* Quants by one of the functions of eights.h, which give 32 of them. */
#define QUANTS_BY(eight) \
  UNROLL for (int i = 0; i < SPAN / 32; i++) to->q[i] = (__m256i)eight(b, 4 * i)

INLINED void quants_q2_k (const uint8_t *b, int n, const bool whole, quant_span *to) {
  (void)n, (void)whole;
  const __m128i both = sixteen_bytes(b), fours = _mm_set1_epi8(15);
  sixteen_times(_mm_and_si128(both, fours), half_at(b + 80), to->scale);
  sixteen_times(_mm_and_si128(_mm_srli_epi16(both, 4), fours), -half_at(b + 82), to->least);
  QUANTS_BY(eight_q2_k);
}

INLINED void quants_q3_k (const uint8_t *b, int n, const bool whole, quant_span *to) {
  (void)n, (void)whole;
  const __m128i low = _mm_loadl_epi64((const __m128i *)(const void *)(b + 96));
  const __m128i fours = _mm_and_si128(_mm_unpacklo_epi64(low, _mm_srli_epi16(low, 4)),
                                      _mm_set1_epi8(15));
  const __m128i high = _mm_srlv_epi32(_mm_set1_epi32((int)bits_at(b + 104)),
                                      _mm_setr_epi32(0, 2, 4, 6));
  const __m128i twos = _mm_slli_epi16(_mm_and_si128(high, _mm_set1_epi8(3)), 4);
  sixteen_times(_mm_sub_epi8(_mm_or_si128(fours, twos), _mm_set1_epi8(32)), half_at(b + 108),
                to->scale);
  QUANTS_BY(unsigned_q3_k);
}

INLINED void quants_q4_k (const uint8_t *b, int n, const bool whole, quant_span *to) {
  (void)n, (void)whole;
  sixes_in_order(b, to);
  QUANTS_BY(eight_q4_k);
}

INLINED void quants_q5_k (const uint8_t *b, int n, const bool whole, quant_span *to) {
  (void)n, (void)whole;
  sixes_in_order(b, to);
  QUANTS_BY(eight_q5_k);
}

INLINED void quants_q6_k (const uint8_t *b, int n, const bool whole, quant_span *to) {
  (void)n, (void)whole;
  sixteen_times(sixteen_bytes(b + 192), half_at(b + 208), to->scale);
  QUANTS_BY(unsigned_q6_k);
}

#undef QUANTS_BY

/* }================================================================== */

#endif

#endif
