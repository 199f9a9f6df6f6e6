/*
** fast_mask.h - who may attend, for attention on tensor cores: of a tile of 16 queries the pairs as
** words, one for each query and 32 keys.
**
** Of four lanes that share two rows each asks for one word, and gets the other three from its
** neighbours. The tree is evaluated over words, on a stack of MASK_DEPTH registers.
*/

#ifndef cuda_fast_mask_h
#define cuda_fast_mask_h

#include "cuda/attention/fast.h"


/*
** {==================================================================
** Words: bit k for query i and key j + k. Queries and keys that are not there may have any bits.
** ===================================================================
*/

/* Bits from 'first' to 'last'. */
INLINE uint32_t word_between (int64_t first, int64_t last) {
  const int from = (int)min(max(first, (int64_t)0), (int64_t)32);
  const int to = (int)min(max(last + 1, (int64_t)0), (int64_t)32);
  return to > from ? ~0u >> (32 - (to - from)) << from : 0;
}


INLINE uint32_t word_of_band (const attend_mask &, const mask_step &s, int, int, int i, int j) {
  return word_between((int64_t)i + s.low - j, (int64_t)i + s.high - j);
}


INLINE uint32_t word_of_lengths (const attend_mask &m, const mask_step &s, int b, int, int,
                                 int j) {
  return word_between(0, mask_length(m, s, b) - 1 - j);
}


INLINE uint32_t word_of_blocks (const attend_mask &, const mask_step &s, int, int, int i, int j) {
  const int64_t block = block_of_query(s, i);
  return word_between((block + s.low) * s.size - j, (block + s.high + 1) * s.size - 1 - j);
}


INLINE uint32_t word_of_every (const attend_mask &, const mask_step &s, int, int, int i, int j) {
  const unsigned size = (unsigned)s.size;
  const unsigned query = rest_of(s, (unsigned)i + (unsigned)s.offset);
  const unsigned key = rest_of(s, (unsigned)j);
  uint32_t bits = 0;
  for (unsigned k = query >= key ? query - key : query + size - key; k < 32; k += size)
    bits |= 1u << k;
  return bits;
}


INLINE uint32_t word_of_documents (const attend_mask &m, const mask_step &s, int b, int, int i,
                                   int j) {
  const int64_t position = (int64_t)i + s.offset;
  uint32_t bits = 0;
  if (position < 0 || position >= m.S) return 0;
  const int64_t id = document_of(m, s, b, position);
#pragma unroll 4
  for (int k = 0; k < 32; k++)
    bits |= (uint32_t)(document_of(m, s, b, min(j + k, m.S - 1)) == id) << k;
  return bits;
}


/* A bit for each byte, which is 0 or 1. */
INLINE uint32_t bits_of_bytes (uint32_t bytes) { return bytes * 0x01020408u >> 24 & 0xf; }

INLINE uint32_t word_of_dense (const attend_mask &m, const mask_step &s, int b, int h, int i,
                               int j) {
  const head_operand &o = m.in[s.operand];
  const uint8_t *row = (const uint8_t *)o.data + b * o.stride[0] + h * o.stride[1]
                       + min(i, m.T - 1) * o.stride[2];
  uint32_t bits = 0;
  if (o.stride[3] == 1 && j + 32 <= m.S && ((uintptr_t)(row + j) & 15) == 0) {
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const uint4 few = ((const uint4 *)(row + j))[k];
      bits |= (bits_of_bytes(few.x) | bits_of_bytes(few.y) << 4 | bits_of_bytes(few.z) << 8 |
               bits_of_bytes(few.w) << 12) << 16 * k;
    }
    return bits;
  }
#pragma unroll 4
  for (int k = 0; k < 32; k++)
    bits |= (uint32_t)(row[min(j + k, m.S - 1) * o.stride[3]] != 0) << k;
  return bits;
}


INLINE uint32_t word_of_leaf (const attend_mask &m, const mask_step &s, int b, int h, int i,
                              int j) {
  switch (s.kind) {
#define LEAF(NAME, name, ...) case MASK_##NAME: return word_of_##name(m, s, b, h, i, j);
#define JOIN(NAME, ...) case MASK_##NAME:
#include "op/masks.def"
    case MASK_KINDS: break;
  }
  return 0;
}

/* }================================================================== */


/* The tree's answer. */
INLINE uint32_t word_of_pairs (const attend_mask &m, int b, int h, int i, int j) {
  uint32_t top = ~0u, second = 0, third = 0, fourth = 0;
#pragma unroll 1
  for (int n = 0; n < m.n; n++) {
    const mask_step &s = m.step[n];
    const bool joins = s.kind == MASK_AND || s.kind == MASK_OR;
    if (s.kind == MASK_NOT) top = ~top;
    else if (joins) {
      top = s.kind == MASK_AND ? top & second : top | second;
      second = third;
      third = fourth;
    }
    else {
      fourth = third;
      third = second;
      second = top;
      top = word_of_leaf(m, s, b, h, i, j);
    }
  }
  return top;
}


/* As kind_by_call. */
CALLED uint32_t word_by_call (const attend_mask &m, int b, int h, int i, int j) {
  return word_of_pairs(m, b, h, i, j);
}

template <bool CALLS>
INLINE uint32_t word_of_tree (const attend_mask &m, int b, int h, int i, int j) {
  return CALLS ? word_by_call(m, b, h, i, j) : word_of_pairs(m, b, h, i, j);
}


/*
** Of 16 queries and 64 keys, from this lane's 'query' and from 'key' on, four lanes that share two
** queries have a word each: of the upper or the lower query (by bit 0), and of the first or the
** last 32 keys (by bit 1). Keys that are not there have no pairs. 'kind' is that of the warp.
*/
template <class G, bool CALLS = calls_tree<G>>
INLINE uint32_t own_word (const attend_mask &m, const tile &x, unsigned kind, int query, int key) {
  const int l = lane_of(), own = key + (G::STEP >= 64 ? (l >> 1 & 1) * 32 : 0);
  uint32_t word = word_between(0, (int64_t)m.S - 1 - own);
  if (kind == TILE_SOME) word &= word_of_tree<CALLS>(m, x.b, x.h, query + (l & 1) * 8, own);
  return word;
}

/* Bits 8 j + e: keys 8 j + e of this lane's share, of the lower query (h is 1), the last 32 (t). */
INLINE uint32_t shared_word (uint32_t own, int h, int t) {
  const int l = lane_of();
  return __shfl_sync(FULL, own, (l & ~3) | h | t << 1) >> (l & 3) * 2;
}


/* Of a warp's queries 'kind' says what they may: words of this lane, unless they may all. */
template <class G> struct own_words {
  static constexpr int EACH_PIECE = (G::STEP + 63) / 64, ALL = G::PIECES * EACH_PIECE;
  bool some;
  uint32_t at[ALL];
};

/* Each word comes to the last place, and moves on, so that the code that asks is there once. */
template <class G>
INLINE void ask_words (own_words<G> &w, const attend_mask &m, const tile &x, unsigned kind) {
  constexpr int ALL = own_words<G>::ALL, OF_PIECE = own_words<G>::EACH_PIECE;
  w.some = kind != TILE_ALL || x.j + G::STEP > m.S;
  if (!w.some) return;
#pragma unroll 1
  for (int n = 0; n < ALL; n++) {
    EACH(k, ALL - 1) w.at[k] = w.at[k + 1];
    w.at[ALL - 1] = own_word<G>(m, x, kind, own_row<G>(x, n / OF_PIECE),
                                x.j + 64 * (n % OF_PIECE));
  }
}


/* Scores of pairs that may not attend become -inf, those of keys that are not there too. */
template <class G> INLINE void mask_scores (shares<G> &s, const own_words<G> &w) {
  if (!w.some) return;
  EACH(i, G::PIECES) EACH(c, own_words<G>::EACH_PIECE) {
    EACH(h, 2) EACH(t, (min(G::STEP, 64) + 31) / 32) {
      const uint32_t bits = shared_word(w.at[i * own_words<G>::EACH_PIECE + c], h, t);
      EACH(j, min(G::STEP / 8, 4)) EACH(e, 2)
        if (!(bits >> (8 * j + e) & 1)) s.at[i][8 * c + 4 * t + j][2 * h + e] = -INFINITY;
    }
  }
}


/* The kind of tile that a warp's queries are. */
template <class G> INLINE unsigned kind_of_warp (const attend_mask &m, const tile &x) {
  area r = area_of<G>(m, x);
  r.i += (int)threadIdx.x / 32 * G::PIECES * 16;
  r.i_last = min(r.i_last, r.i + G::PIECES * 16 - 1);
  return r.i > r.i_last ? TILE_NONE : calls_tree<G> ? kind_by_call(m, r) : kind_of(m, r);
}

#endif
