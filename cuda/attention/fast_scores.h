/*
** fast_scores.h - what attention on tensor cores does to a tile's scores and weights where asked:
** softcap, biases, biases by distance, dropout.
*/

#ifndef cuda_fast_scores_h
#define cuda_fast_scores_h

#include "cuda/attention/fast.h"

/* Biases by distance of a tile, in shared memory behind its tiles. */
template <class G> INLINE float *distances_of (unsigned char *shared) {
  return (float *)(shared + tiles_bytes<G>());
}
template <class G> HOST_TOO int distances_bytes (void) {
  return (G::ROWS + G::STEP) * (int)sizeof(float);
}


/* The bias of row r and column c becomes to[KEYS - 1 + r - c]. */
template <class G> INLINE void load_distances (float *to, const attend &a, const tile &x) {
  const int64_t from = (int64_t)x.i - x.j - G::STEP + a.S, start = x.h * a.relative.stride[0];
  for (int e = (int)threadIdx.x; e < G::ROWS + G::STEP - 1; e += G::THREADS) {
    const int64_t at = from + e;
    to[e] = at < 0 || at >= a.T + a.S - 1 ? 0.0f
          : fetch<float>(a.relative.data, a.relative.type, start + at * a.relative.stride[1])
            * (float)LOG2E;
  }
}


/* 1 - 2 / (e^2x + 1) */
INLINE float fast_tanh (float x) {
  return 1 - __fdividef(2, 1 + ptx_exp2(x * (float)(2 * LOG2E)));
}


template <class B, class G>
INLINE void add_biases (shares<G> &s, const attend &a, const tile &x) {
  const int key = own_key(x), last = (int)a.S - 1;
  EACH(i, G::PIECES) EACH(h, 2) {
    const int64_t query = min((int64_t)own_row<G>(x, i) + 8 * h, a.T - 1);
    const B *row = (const B *)a.bias.data + row_at(a.bias, x, query);
    EACH(j, G::STEP / 8) EACH(e, 2)
      s.at[i][j][2 * h + e] +=
          wide(row[min(key + 8 * j + e, last) * a.bias.stride[3]]) * (float)LOG2E;
  }
}


/* Products become scores, as exponents of 2; what is added to blocked pairs has no meaning. */
template <class S, class G>
INLINE void score (shares<G> &s, const attend &a, const tile &x, const float *distances) {
  const float factor = (float)a.factor, cap = (float)a.cap;
  EACH(i, G::PIECES) EACH(j, G::STEP / 8) EACH(e, 4) s.at[i][j][e] *= factor;
  if (a.cap != 0) {
    EACH(i, G::PIECES) EACH(j, G::STEP / 8) EACH(e, 4)
      s.at[i][j][e] = fast_tanh(s.at[i][j][e]) * cap;
  }
  if (a.bias.data != NULL) {
    if (a.bias.type == HEED_FLOAT32) add_biases<float>(s, a, x);
    else add_biases<S>(s, a, x);
  }
  if (a.relative.data != NULL) {
    EACH(i, G::PIECES) {
      const float *own = distances + G::STEP - 1 + (own_row<G>(x, i) - x.i) - (own_key(x) - x.j);
      EACH(j, G::STEP / 8) EACH(e, 4) s.at[i][j][e] += own[8 * (e / 2) - 8 * j - e % 2];
    }
  }
}


/*
** Draws are the CPU's: four numbers of a counter for four keys, of which two lanes have two each,
** in two rows. The lane with the first two draws for the upper row, the other one for the lower.
*/
template <class G> INLINE void drop_weights (shares<G> &s, const attend &a, const tile &x) {
  const int l = lane_of();
  const uint64_t row_counters = (uint64_t)a.S / 4, key = *a.key;
  const float kept = (float)a.kept;
  EACH(i, G::PIECES) {
    const uint64_t query = (uint64_t)(own_row<G>(x, i) + (l & 1) * 8);
    const uint64_t row = (uint64_t)(x.b * a.H + x.h) * (uint64_t)a.T + query;
    const uint64_t counter = row * row_counters + (uint64_t)(x.j / 4 + (l >> 1 & 1));
    uint32_t keeps = 0;
#pragma unroll 1
    for (int j = 0; j < G::STEP / 8; j++) {
      uint32_t draw[4];
      philox_draw(key, counter + 2 * (uint64_t)j, draw);
      EACH(k, 4) keeps |= (uint32_t)(draw[k] >= a.drop) << (4 * j + k);
    }
    const uint32_t other = __shfl_xor_sync(FULL, keeps, 1);
    EACH(h, 2) {
      const uint32_t bits = (h == (l & 1) ? keeps : other) >> 2 * (l & 1);
      EACH(j, G::STEP / 8) EACH(e, 2)
        s.at[i][j][2 * h + e] *= bits >> (4 * j + e) & 1 ? kept : 0.0f;
    }
  }
}

#endif
