/*
** fast_forward.h - attention on tensor cores, for one type: the kernel, and its launch.
** fast_bfloat16.cu, fast_float16.cu and fast_float32.cu compile it.
**
** Copies run beside products: values come while scores are computed, the next keys while values
** are added. Tiles of keys where no query of the block may attend are passed over, and a warp takes
** no part in one where none of its own may.
**
** A block first takes all values for finite. If some were not, it begins again, with products for
** any values, which are slower (see fast.h and fast_floats.h): a NaN among the values of blocked
** keys has shown up in its results.
*/

#ifndef cuda_fast_forward_h
#define cuda_fast_forward_h

#include "cuda/attention/fast_floats.h"
#include "cuda/attention/fast_mask.h"
#include "cuda/attention/fast_scores.h"

/* Biases by distance of a tile, in shared memory behind its tiles. */
template <class G> INLINE float *distances_of (unsigned char *shared) {
  return (float *)(shared + tiles_bytes<G>());
}


template <class S, class G>
INLINE void copy_keys (uint32_t to, const attend &a, const head_operand &o, const tile &x,
                       int64_t columns) {
  const int64_t start = head_at(o, x.b, head_of_keys(a, x.h));
  copy_rows<S, G, G::STEP>(to, o, start, x.j, (int)a.S, (int)columns);
}


/*
** {==================================================================
** Products of a tile: 'any' numbers need not be finite
** ===================================================================
*/

/*
** What is left to multiply a tile's products by as exponents of 2. Those of floats may be so large
** that the largest one, less itself in one rounding with the factor, is far from 0.
*/
template <class S, class G> INLINE float factor_left (const attend &a) {
  return G::RICH || sizeof(S) == 4 ? 1.0f : a.single.factor;
}


template <class S, class G>
INLINE void multiply_tile (shares<G> &s, const attend &a, uint32_t shared, bool any) {
  const uint32_t queries = queries_at<G>(shared), keys = keys_at<G>(shared);
  if constexpr (sizeof(S) == 2) multiply_queries<S>(s, queries, keys, a.D);
  else {
    if (any) multiply_any_queries(s, queries, keys, a.D);
    else multiply_float_queries(s, queries, keys, a.D);
    if (!G::RICH) EACH(j, G::STEP / 8) EACH(e, 4) s.at[0][j][e] *= a.single.factor;
  }
}


template <class S, class G>
INLINE void add_tile (rows_so_far<G> &p, const shares<G> &s, const attend &a, uint32_t shared,
                      bool any) {
  const uint32_t values = values_at<G>(shared);
  const bool zeros = a.mask.n == 0;            /* of weights count */
  if constexpr (sizeof(S) == 2) {
    if (any) add_any_values<S>(p, s, values, a.Dv, zeros ? MARK_NAN : 0.0f);
    else add_values<S, G>(p.y, s, values, a.Dv);
  }
  else if (any) add_any_floats<G>(p.y, s, values, a.Dv, zeros);
  else add_float_values<G>(p.y, s, values, a.Dv);
}


template <class S, class G>
INLINE void store_own_row (const attend &a, const tile &x, int row,
                           const float (&y)[G::WIDTH / 8][4], float factor) {
  const int64_t start = row_at(a.y, x, row);
  if constexpr (sizeof(S) == 2) store_row<S, G>(a.y, start, a.Dv, y, factor);
  else store_floats<G>(a.y, start, a.Dv, y, factor);
}

/* }================================================================== */


/* All keys; 'any': values need not be finite. */
template <class S, class G>
INLINE void attend_all (const attend &a, tile x, rows_so_far<G> &p, unsigned char *memory,
                        bool any) {
  const uint32_t shared = ptx_shared(memory);
  float *distances = distances_of<G>(memory);
  tile_line<0, 1> keys(x);
  begin_rows(p);
  unsigned kind = next_of_line<G>(keys, a.mask, x);
  if (kind != TILE_NONE) copy_keys<S, G>(keys_at<G>(shared), a, a.k, x, a.D);
  ptx_commit();
#pragma unroll 1
  while (kind != TILE_NONE) {
    const tile now = x;
    const unsigned own = kind == TILE_SOME ? kind_of_warp<G>(a.mask, now) : kind;
    shares<G> s;
    own_words<G> may;
    ptx_wait<0>();
    __syncthreads();               /* keys are there, nobody reads the values before any more */
    copy_keys<S, G>(values_at<G>(shared), a, a.v, now, a.Dv);
    ptx_commit();
    if (G::RICH && a.relative.data != NULL) load_distances<G>(distances, a, now);
    if (own != TILE_NONE) multiply_tile<S>(s, a, shared, any);
    kind = next_of_line<G>(keys, a.mask, x);
    ptx_wait<0>();
    __syncthreads();               /* values are there, nobody reads the keys any more */
    if (kind != TILE_NONE) copy_keys<S, G>(keys_at<G>(shared), a, a.k, x, a.D);
    ptx_commit();
    if (own == TILE_NONE) continue;
    if (G::RICH) score<S>(s, a, now, distances);
    ask_words(may, a.mask, now, own);
    mask_scores(s, may);
    online_softmax(p, s, factor_left<S, G>(a));
    if (G::RICH && a.drop != 0) drop_weights(s, a, now);
    add_tile<S>(p, s, a, shared, any);
  }
  ptx_wait<0>();
}


/* y = y / sum, 0 where nothing was attended to; and the rows' logsumexp. */
template <class S, class G>
INLINE void end_rows (const attend &a, const tile &x, rows_so_far<G> &p, float factor) {
  const int l = lane_of(), first = own_row<G>(x, 0);
  float lse[2 * G::PIECES], share[2 * G::PIECES];
  EACH(n, 2 * G::PIECES) {
    const float sum = quad_reduce(plus(), p.sum[n / 2][n % 2]);
    lse[n] = (p.top[n / 2][n % 2] * factor + log2f(sum)) * (float)LOG_OF_2;
    share[n] = sum == 0 ? 0.0f : 1 / sum;
  }
#pragma unroll 1
  for (int row = first; row < min(first + 16 * G::PIECES, (int)a.T); row += 8) {
    if ((l & 3) == 0) ((float *)a.lse.data)[row_at(a.lse, x, row)] = lse[0];
    store_own_row<S, G>(a, x, row, p.y[0], share[0]);
    next_row<G>(p.y);
    EACH(n, 2 * G::PIECES - 1) {
      lse[n] = lse[n + 1];
      share[n] = share[n + 1];
    }
  }
}


/* The tile of queries of a block, with no keys yet. */
template <class G> INLINE tile queries_of_block (const attend &a) {
  int n;
  tile x = tile_of_block(a, a.H, blockIdx.x, &n);
  x.i = ((int)a.tiles - 1 - n) * G::ROWS;      /* the longest first */
  return x;
}


/* A block: a tile of queries. */
template <class S, class G>
KERNEL __launch_bounds__(G::THREADS, G::BLOCKS) attend_tiles (__grid_constant__ const attend a) {
  SHARED(unsigned char, memory);
  const tile x = queries_of_block<G>(a);
  rows_so_far<G> p;
  copy_rows<S, G, G::ROWS>(queries_at<G>(ptx_shared(memory)), a.q, head_at(a.q, x.b, x.h), x.i,
                           (int)a.T, (int)a.D);
  bool any = false;
#pragma unroll 1
  do {
    attend_all<S, G>(a, x, p, memory, any);
    any = !any && __syncthreads_or(not_all_finite<G>(p.y));
  } while (any);
  end_rows<S>(a, x, p, factor_left<S, G>(a));
}


/* Launches a kernel with a block for each tile of queries. */
template <class G>
static const char *for_queries (cuda *self, attend a, int shared, void (*kernel)(const attend)) {
  const char *why = cuda_find_ids(self, &a.mask, a.B, G::STEP);
  if (why != NULL) return why;
  a.tiles = (a.T + G::ROWS - 1) / G::ROWS;
  return launch(self, dim3((unsigned)(a.tiles * a.H * a.B)), dim3(G::THREADS), (size_t)shared,
                kernel, a);
}


template <class S, class G> static const char *run_fast (cuda *self, const attend &a) {
  const int shared = tiles_bytes<G>() + (G::RICH ? distances_bytes<G>() : 0);
  return for_queries<G>(self, a, shared, attend_tiles<S, G>);
}


template <class S, int WIDTH> static const char *run_width (cuda *self, const attend &a) {
  if constexpr (!WARPGROUPS_ALONE)
    if (!has_options(a)) return run_fast<S, fast<WIDTH, false>>(self, a);
  return run_fast<S, fast<WIDTH, true>>(self, a);
}


template <class S> static const char *attend_halves (cuda *self, const attend &a) {
  const int64_t width = max(a.D, a.Dv);
  return width <= 64 ? run_width<S, 64>(self, a)
       : width <= 128 ? run_width<S, 128>(self, a) : run_width<S, 256>(self, a);
}

#endif
