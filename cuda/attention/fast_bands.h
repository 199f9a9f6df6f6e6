/*
** fast_bands.h - the gradients of biases by distance on tensor cores: see attention_bands.h.
**
** Queries and keys of a tile are copied while gradients and values of it are multiplied, and the
** other way round. No ds is rounded to a half, and each one is of one query and one key, so numbers
** need not be finite.
*/

#ifndef cuda_fast_bands_h
#define cuda_fast_bands_h

#include "cuda/attention/attention_bands.h"
#include "cuda/attention/fast_weigh.h"

/* The tiles for heads of up to WIDTH numbers. */
template <int WIDTH_> struct band {
  static constexpr int WIDTH = WIDTH_, MAKES = MAKES_BANDS;
  static constexpr bool RICH = true, OF_KEYS = false;
  static constexpr int PIECES = 1, WARPS = WIDTH == 256 ? 2 : 4, THREADS = 32 * WARPS;
  static constexpr int ROWS = 16 * WARPS, STEP = ROWS;
  static constexpr int ROW = 2 * WIDTH;                    /* bytes */
  static constexpr int LINE = STEP + 8;                    /* of ds, in floats */
  typedef band_tiles<float, STEP, LINE, THREADS> tiles;
};

template <int WIDTH> struct tiling<band<WIDTH>> {
  static constexpr int rows = band<WIDTH>::ROWS, keys = band<WIDTH>::STEP;
};

template <int WIDTH> constexpr bool calls_tree<band<WIDTH>> = true;


/* Four tiles in shared memory, from q on k g v, behind them ds, and biases by distance. */
template <class G> HOST_TOO int band_tile_at (int n) { return n * G::STEP * G::ROW; }
template <class G> HOST_TOO int band_bytes (void) {
  return band_tile_at<G>(4) + G::STEP * G::LINE * (int)sizeof(float) + distances_bytes<G>();
}
template <class G> INLINE float *ds_of_band (unsigned char *memory) {
  return (float *)(memory + band_tile_at<G>(4));
}
template <class G> INLINE float *distances_of_band (unsigned char *memory) {
  return ds_of_band<G>(memory) + G::STEP * G::LINE;
}


/* Rows of two operands, of queries and of keys, become tiles 'to' and the next. */
template <class S, class G>
INLINE void copy_pair (uint32_t to, const attend &a, const head_operand &query,
                       const head_operand &key, const tile &x, int64_t columns) {
  copy_rows<S, G, G::ROWS>(to, query, head_at(query, x.b, x.h), x.i, (int)a.T, (int)columns);
  copy_rows<S, G, G::STEP>(to + (uint32_t)band_tile_at<G>(1), key,
                           head_at(key, x.b, head_of_keys(a, x.h)), x.j, (int)a.S, (int)columns);
}


template <class G> INLINE void store_ds (float *to, const shares<G> &ds) {
  EACH(j, G::STEP / 8) EACH(h, 2) {
    const float2 pair = {ds.at[0][j][2 * h], ds.at[0][j][2 * h + 1]};
    *(float2 *)(to + (lane_row<G>(0) + 8 * h) * G::LINE + 8 * j + lane_column()) = pair;
  }
}


/* The pairs of queries that are there: the others share diagonals with them. */
template <class G>
INLINE uint32_t pairs_of_band (const attend &a, const tile &x, unsigned kind) {
  uint32_t may = pairs_of_lane<G>(a.mask, x, kind);
  EACH(h, 2) if (own_row<G>(x, 0) + 8 * h >= a.T) may &= ~(0x33333333u << 2 * h);
  return may;
}


/* ds, from products p and dp: 0 for a warp none of whose rows may attend. */
template <class S, class G>
INLINE void weigh_band (float *to, shares<G> &p, shares<G> &dp, const attend &a, const tile &x,
                        unsigned kind, const float *distances) {
  extras<G> more;
  if (kind == TILE_NONE) EACH(j, G::STEP / 8) EACH(e, 4) dp.at[0][j][e] = 0;
  else {
    ask_extras<S>(more, a, x, distances);
    weigh<S>(p, dp, more, a, x, pairs_of_band<G>(a, x, kind), numbers_of_rows<G>(a, x), NULL,
             true);
  }
  store_ds(to, dp);
}


template <class S, class G>
KERNEL __launch_bounds__(G::THREADS, 2) sum_diagonals (__grid_constant__ const attend a) {
  typedef typename G::tiles W;
  SHARED(unsigned char, memory);
  const uint32_t q = ptx_shared(memory), k = q + (uint32_t)band_tile_at<G>(1);
  const uint32_t g = q + (uint32_t)band_tile_at<G>(2), v = q + (uint32_t)band_tile_at<G>(3);
  float *ds = ds_of_band<G>(memory), *distances = distances_of_band<G>(memory);
  tile x = first_of_band<W>(a);
  tile_line<1, 1> diagonal(x);
  diagonals<float> sum = {0, 0};
  load_distances<G>(distances, a, x);          /* those of all tiles of the band */
  unsigned kind = next_of_line<G>(diagonal, a.mask, x);
  if (kind != TILE_NONE) copy_pair<S, G>(q, a, a.q, a.k, x, a.D);
  ptx_commit();
#pragma unroll 1
  while (kind != TILE_NONE) {
    const tile now = x;
    const unsigned own = kind == TILE_SOME ? kind_of_rows<G>(a.mask, now) : kind;
    shares<G> p, dp;
    ptx_wait<0>();
    __syncthreads();               /* q and k are there, nobody reads g, v and ds any more */
    copy_pair<S, G>(g, a, a.g, a.v, now, a.Dv);
    ptx_commit();
    if (own != TILE_NONE) multiply_queries<S>(p, q, k, a.D);
    kind = next_of_line<G>(diagonal, a.mask, x);
    ptx_wait<0>();
    __syncthreads();               /* g and v are there, nobody reads q and k any more */
    if (kind != TILE_NONE) copy_pair<S, G>(q, a, a.q, a.k, x, a.D);
    ptx_commit();
    if (own != TILE_NONE) multiply_queries<S>(dp, g, v, a.Dv);
    weigh_band<S, G>(ds, p, dp, a, now, own, distances);
    __syncthreads();               /* ds is written */
    add_diagonals<W>(sum, ds);
  }
  ptx_wait<0>();
  store_diagonals<W>(a, sum, ds);
}


template <class S, int WIDTH> static const char *back_relative (cuda *self, attend a) {
  typedef band<WIDTH> G;
  const char *why = cuda_find_ids(self, &a.mask, a.B, G::STEP);
  if (why != NULL) return why;
  return run_bands<typename G::tiles>(self, a, sum_diagonals<S, G>, (size_t)band_bytes<G>());
}

#endif
