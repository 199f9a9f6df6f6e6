/*
** fast_weigh.h - weights of a tile of attention on tensor cores, computed again from lse, and their
** gradients: what all kernels of gradients do to a tile's products. attention_back.cu has the
** formulas.
*/

#ifndef cuda_fast_weigh_h
#define cuda_fast_weigh_h

#include "cuda/attention/attention_back.h"
#include "cuda/attention/fast_mask.h"
#include "cuda/attention/fast_scores.h"

/* A kernel's gradients: MAKES_BANDS, of biases by distance. */
enum { MAKES_DQ = 1, MAKES_DK = 2, MAKES_DV = 4, MAKES_BANDS = 8 };


/* Bytes of a tile's rows of one operand. */
template <class G> HOST_TOO constexpr int side_bytes (int rows) { return rows * 2 * G::WIDTH; }

/* Begins to copy a tile's rows of k and v, or those of q and g, one behind the other. */
template <class S, class G, bool KEYS, int ROWS>
INLINE void copy_side (uint32_t to, const attend &a, const tile &x) {
  const head_operand &first = KEYS ? a.k : a.q, &second = KEYS ? a.v : a.g;
  const int h = KEYS ? head_of_keys(a, x.h) : x.h;
  const int from = KEYS ? x.j : x.i, n = (int)(KEYS ? a.S : a.T);
  copy_rows<S, G, ROWS>(to, first, head_at(first, x.b, h), from, n, (int)a.D);
  copy_rows<S, G, ROWS>(to + side_bytes<G>(ROWS), second, head_at(second, x.b, h), from, n,
                        (int)a.Dv);
}


/*
** {==================================================================
** Who may attend: bit 4 j + e for element [j][e] of this lane's share
** ===================================================================
*/

/* Bits 8 j + e for e below 2 become bits 4 j + e. */
INLINE uint32_t pairs_together (uint32_t bits) {
  bits &= 0x03030303u;
  bits = (bits | bits >> 4) & 0x00330033u;
  return (bits | bits >> 8) & 0x00003333u;
}


/* Rows are queries: as in mask_scores. */
template <class G, bool CALLS>
INLINE uint32_t pairs_of_queries (const attend_mask &m, const tile &x, unsigned kind) {
  const uint32_t word = own_word<G, CALLS>(m, x, kind, own_row<G>(x, 0), x.j);
  uint32_t may = 0;
  EACH(h, 2) EACH(t, (G::STEP + 31) / 32)
    may |= pairs_together(shared_word(word, h, t)) << (16 * t + 2 * h);
  return may;
}


/*
** Rows are keys: each lane asks for one query in 32, and gets the words of its columns. Queries
** that are not there have no pairs, since keys may be NaN.
*/
template <class G, bool CALLS>
INLINE uint32_t pairs_of_keys (const attend_mask &m, const tile &x, unsigned kind) {
  const int l = lane_of(), key = x.j + (int)threadIdx.x / 32 * 16;
  uint32_t may = 0;
  EACH(t, (G::STEP + 31) / 32) {
    const int query = x.i + 32 * t + l;
    uint32_t word = query < m.T ? word_between(0, (int64_t)m.S - 1 - key) : 0;
    if (kind == TILE_SOME) word &= word_of_tree<CALLS>(m, x.b, x.h, query, key);
    EACH(j, min(G::STEP / 8, 4)) EACH(e, 2) {
      const uint32_t bits = __shfl_sync(FULL, word, 8 * j + 2 * (l & 3) + e) >> l / 4;
      may |= (bits & 1) << (16 * t + 4 * j + e) | (bits >> 8 & 1) << (16 * t + 4 * j + 2 + e);
    }
  }
  return may;
}


template <class G, bool CALLS = calls_tree<G>>
INLINE uint32_t pairs_of_lane (const attend_mask &m, const tile &x, unsigned kind) {
  const bool whole = x.j + tiling<G>::keys <= m.S && (!G::OF_KEYS || x.i + G::STEP <= m.T);
  if (kind == TILE_ALL && whole) return ~0u;
  return G::OF_KEYS ? pairs_of_keys<G, CALLS>(m, x, kind)
                    : pairs_of_queries<G, CALLS>(m, x, kind);
}


/* The kind of tile that a warp's rows are. */
template <class G> INLINE unsigned kind_of_rows (const attend_mask &m, const tile &x) {
  area r = area_of<G>(m, x);
  int &first = G::OF_KEYS ? r.j : r.i, &last = G::OF_KEYS ? r.j_last : r.i_last;
  first += (int)threadIdx.x / 32 * 16;
  last = min(last, first + 15);
  return first > last ? TILE_NONE : calls_tree<G> ? kind_by_call(m, r) : kind_of(m, r);
}

/* }================================================================== */



/*
** {==================================================================
** p and ds
** ===================================================================
*/

/* Rows of queries have their lse and delta in registers; 'factor' is the one of products. */
struct own_numbers { float lse[2], delta[2], factor; };


template <class G> INLINE own_numbers numbers_of_rows (const attend &a, const tile &x) {
  own_numbers n = {};
  n.factor = a.single.factor;
  if (!G::OF_KEYS) {
    EACH(h, 2) {
      const int64_t at = prepared_row(a, x, own_row<G>(x, 0) + 8 * h);
      n.lse[h] = lse_of_rows<float>(a)[at];
      n.delta[h] = delta_of_rows<float>(a)[at];
    }
  }
  return n;
}


/* Gradients of biases are 0 where nothing is attended to: first in all rows of these queries. */
template <class S, class G> INLINE void clear_biases (const attend &a, const tile &x) {
  const int l = lane_of(), warp = (int)threadIdx.x / 32;
  for (int r = x.i + warp; r < min(x.i + G::ROWS, (int)a.T); r += G::WARPS) {
    S *row = (S *)a.dbias.data + row_at(a.dbias, x, r);
    for (int64_t c = 2 * l; c < a.S; c += 64)
      store_pair(row, a.dbias, c, a.S, 0, 0, has_pairs(a.dbias, row));
  }
}


/* Gradients of the biases of 8 keys, in a warp's 16 queries. */
template <class S, class G>
INLINE void store_biases (const attend &a, const tile &x, int key, const float (&ds)[4]) {
  EACH(h, 2) {
    const int query = own_row<G>(x, 0) + 8 * h;
    S *row = (S *)a.dbias.data + row_at(a.dbias, x, ptx_anew(query));
    if (query < a.T)
      store_pair(row, a.dbias, key + lane_column(), a.S, ds[2 * h], ds[2 * h + 1],
                 has_pairs(a.dbias, row));
  }
}


/* Of a tile what options ask for, before there are its products: these are registers, too. */
template <class G> struct extras {
  shares<G> added;                 /* biases of both kinds */
  uint32_t keeps;                  /* dropout: see kept_pairs */
};

template <class S, class G>
INLINE void ask_extras (extras<G> &x, const attend &a, const tile &at, const float *distances) {
  x = extras<G>{{}, ~0u};
  if (!G::RICH) return;
  if (a.drop != 0) x.keeps = kept_pairs<G>(a, at, 0);
  add_to_scores<S>(x.added, a, at, distances);
}


/* Products of 8 columns become scores, and of a softcap the derivatives. */
template <class S, class G>
INLINE void score_columns (float (&s)[4], float (&slope)[4], const attend &a, float factor,
                           const float (&added)[4]) {
  const float cap = a.single.cap;
  EACH(e, 4) s[e] *= factor;
  if (!G::RICH) return;
  if (a.single.cap != 0) {
    EACH(e, 4) {
      const float t = fast_tanh<S>(s[e]);
      slope[e] = 1 - t * t;
      s[e] = t * cap;
    }
  }
  EACH(e, 4) s[e] += added[e];
}


/*
** Products p and dp become weights after dropout, and gradients ds: of the products, or of what was
** 'added' to them. Both are 0 where a pair may not attend. 'any': numbers need not be finite; a
** weight of 0 has no gradient then, if there is a mask. 'numbers': lse and delta of columns.
*/
template <class S, class G>
INLINE void weigh (shares<G> &p, shares<G> &ds, const extras<G> &more, const attend &a,
                   const tile &x, uint32_t may, const own_numbers &own, const float *numbers,
                   bool any) {
  const bool masked = a.mask.n > 0;
  EACH(j, G::STEP / 8) {
    float slope[4] = {1, 1, 1, 1};
    score_columns<S, G>(p.at[0][j], slope, a, own.factor, more.added.at[0][j]);
    EACH(e, 4) {
      const int column = 8 * j + lane_column() + e % 2;
      const float lse = G::OF_KEYS ? numbers[column] : own.lse[e / 2];
      const float delta = G::OF_KEYS ? numbers[G::STEP + column] : own.delta[e / 2];
      const float score = p.at[0][j][e], dp = ds.at[0][j][e];
      const bool yes = may >> (4 * j + e) & 1 && !(any && score == -INFINITY);
      const float weight = yes ? ptx_exp2(score - lse) : 0.0f;
      const bool none = !(may >> (4 * j + e) & 1) || (any && masked && weight == 0);
      const float kept = !G::RICH ? 1 : more.keeps >> (4 * j + e) & 1 ? a.single.kept : 0.0f;
      p.at[0][j][e] = weight * kept;
      ds.at[0][j][e] = none ? 0.0f : weight * (kept * dp - delta);
      if (none) slope[e] = 0;
    }
    if (G::RICH && G::MAKES == MAKES_DQ && a.dbias.data != NULL)
      store_biases<S, G>(a, x, x.j + 8 * j, ds.at[0][j]);
    if (G::RICH && G::MAKES != MAKES_BANDS) EACH(e, 4) ds.at[0][j][e] *= slope[e];
  }
}

/* }================================================================== */

#endif
