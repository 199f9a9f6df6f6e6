/*
** fast_scores.h - what attention on tensor cores does to a tile's scores and weights where asked:
** softcap, biases, biases by distance, dropout. Rows of a tile are queries and columns keys, or the
** other way round: see G::OF_KEYS.
*/

#ifndef cuda_fast_scores_h
#define cuda_fast_scores_h

#include "cuda/attention/fast.h"

/* Do these kernels come in, RICH ones? */
static inline bool has_options (const attend &a) {
  return a.cap != 0 || a.bias.data != NULL || a.relative.data != NULL || a.drop != 0;
}


/*
** {==================================================================
** Scores
** ===================================================================
*/

template <class G> HOST_TOO int distances_bytes (void) {
  return (G::ROWS + G::STEP) * (int)sizeof(float);
}

/* The bias by distance of query r and key c of a tile becomes to[KEYS - 1 + r - c]. */
template <class G> INLINE void load_distances (float *to, const attend &a, const tile &x) {
  const int64_t from = (int64_t)x.i - x.j - tiling<G>::keys + a.S;
  const int64_t start = x.h * a.relative.stride[0];
  for (int e = (int)threadIdx.x; e < G::ROWS + G::STEP - 1; e += G::THREADS) {
    const int64_t at = from + e;
    to[e] = at < 0 || at >= a.T + a.S - 1 ? 0.0f
          : fetch_float<float>(a.relative.data, a.relative.type, start + at * a.relative.stride[1])
            * (float)LOG2E;
  }
}


template <class G>
INLINE void add_distances (shares<G> &s, const float *distances) {
  constexpr int SIGN = G::OF_KEYS ? -1 : 1;    /* of what rows add to a distance */
  EACH(i, G::PIECES) {
    const float *own = distances + tiling<G>::keys - 1 + SIGN * (lane_row<G>(i) - lane_column());
    EACH(j, G::STEP / 8) EACH(e, 4) s.at[i][j][e] += own[SIGN * (8 * (e / 2) - 8 * j - e % 2)];
  }
}


/* Of rows and columns that are not there, the last one's. */
template <class B, class G>
INLINE void add_biases (shares<G> &s, const attend &a, const tile &x) {
  constexpr bool KEYS = G::OF_KEYS;
  const int64_t of_row = a.bias.stride[KEYS ? 3 : 2], of_column = a.bias.stride[KEYS ? 2 : 3];
  const int row = KEYS ? x.j : x.i, last_row = (int)(KEYS ? a.S : a.T) - 1;
  const int column = (KEYS ? x.i : x.j) + lane_column(), last = (int)(KEYS ? a.T : a.S) - 1;
  const B *head = (const B *)a.bias.data + head_at(a.bias, x.b, x.h);
  EACH(i, G::PIECES) EACH(h, 2) {
    const B *own = head + min(row + lane_row<G>(i) + 8 * h, last_row) * of_row;
    EACH(j, G::STEP / 8) EACH(e, 2)
      s.at[i][j][2 * h + e] +=
          wide(own[min(column + 8 * j + e, last) * of_column]) * (float)LOG2E;
  }
}


/* Adds biases to products that are scaled and capped, as exponents of 2. */
template <class S, class G>
INLINE void add_to_scores (shares<G> &s, const attend &a, const tile &x, const float *distances) {
  if (a.bias.data != NULL) {
    if (a.bias.type == HEED_FLOAT32) add_biases<float>(s, a, x);
    else add_biases<S>(s, a, x);
  }
  if (a.relative.data != NULL) add_distances(s, distances);
}


/* 1 - 2 / (e^2x + 1), as exact as halves ask for; of floats the whole function. */
template <class S> INLINE float fast_tanh (float x) {
  if (sizeof(S) == 4) return tanhf(x);
  return 1 - __fdividef(2, 1 + ptx_exp2(x * (float)(2 * LOG2E)));
}


/* Products become scores, as exponents of 2; what is added to blocked pairs has no meaning. */
template <class S, class G>
INLINE void score (shares<G> &s, const attend &a, const tile &x, const float *distances) {
  const float factor = a.single.factor, cap = a.single.cap;
  EACH(i, G::PIECES) EACH(j, G::STEP / 8) EACH(e, 4) s.at[i][j][e] *= factor;
  if (a.single.cap != 0) {
    EACH(i, G::PIECES) EACH(j, G::STEP / 8) EACH(e, 4)
      s.at[i][j][e] = fast_tanh<S>(s.at[i][j][e]) * cap;
  }
  add_to_scores<S>(s, a, x, distances);
}

/* }================================================================== */


/*
** {==================================================================
** Dropout: bit 4 j + e for element [j][e] of a piece that is kept. Draws are the CPU's: four
** numbers of a counter for four keys of a query. A piece has 32 counters for each 8 columns, one
** for a lane.
** ===================================================================
*/

/* The kept of a counter's four keys. */
INLINE uint32_t kept_of_counter (const attend &a, const tile &x, int query, uint64_t keys) {
  const uint64_t row = (uint64_t)(x.b * a.H + x.h) * (uint64_t)a.T + (uint64_t)query;
  uint32_t draw[4], keeps = 0;
  philox_draw(*a.key, row * ((uint64_t)a.S / 4) + keys, draw);
  EACH(k, 4) keeps |= (uint32_t)(draw[k] >= a.drop) << k;
  return keeps;
}


/*
** Two lanes have two each of four keys, in two rows. The lane with the first two draws for the
** upper row, the other one for the lower.
*/
template <class G>
INLINE uint32_t kept_of_queries (const attend &a, const tile &x, int piece) {
  const int l = lane_of(), query = own_row<G>(x, piece) + (l & 1) * 8;
  uint32_t own = 0, may = 0;
#pragma unroll 1
  for (int j = 0; j < G::STEP / 8; j++)
    own |= kept_of_counter(a, x, query, (uint64_t)(x.j / 4 + (l >> 1 & 1) + 2 * j)) << 4 * j;
  const uint32_t other = __shfl_xor_sync(FULL, own, 1);
  EACH(h, 2) may |= ((h == (l & 1) ? own : other) >> 2 * (l & 1) & 0x33333333u) << 2 * h;
  return may;
}


/* Of 8 queries and 16 keys, lane l draws for query l % 8 and four keys from 4 (l / 8) on. */
template <class G>
INLINE uint32_t kept_of_keys (const attend &a, const tile &x, int piece) {
  const int l = lane_of(), key = x.j + ((int)threadIdx.x / 32 * G::PIECES + piece) * 16;
  uint32_t own = 0, may = 0;
#pragma unroll 1
  for (int j = 0; j < G::STEP / 8; j++)
    own |= kept_of_counter(a, x, x.i + 8 * j + l % 8, (uint64_t)(key / 4 + l / 8)) << 4 * j;
  EACH(e, 4) {
    const int lane = 2 * (l & 3) + e % 2 + 8 * (l / 16 + 2 * (e / 2));
    may |= (__shfl_sync(FULL, own, lane) >> (l / 4 & 3) & 0x11111111u) << e;
  }
  return may;
}


template <class G> INLINE uint32_t kept_pairs (const attend &a, const tile &x, int piece) {
  return G::OF_KEYS ? kept_of_keys<G>(a, x, piece) : kept_of_queries<G>(a, x, piece);
}

template <class G> INLINE void drop_weights (shares<G> &s, const attend &a, const tile &x) {
  EACH(i, G::PIECES) {
    const uint32_t keeps = kept_pairs<G>(a, x, i);
    EACH(j, G::STEP / 8) EACH(e, 4)
      s.at[i][j][e] *= keeps >> (4 * j + e) & 1 ? a.single.kept : 0.0f;
  }
}

/* }================================================================== */

#endif
