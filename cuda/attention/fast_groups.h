/*
** fast_groups.h - attention of halves by products of warpgroups (wgmma.h), on GPUs of compute
** capability 9.0, for one type: the kernel, and its launch. fast_groups.cu compiles it.
**
** A warpgroup has 64 queries, and a tile of keys is as wide as registers allow. While a tile's
** scores become weights, those of the tile before are multiplied with their values; the next keys
** and values are copied meanwhile. There are two tiles of either in shared memory, so that the
** block waits once for a tile of keys.
**
** Values that are not finite are found as in fast_forward.h, and taken without overlap.
**
** J. Shah et al., "FlashAttention-3" (2024), for the order of products and softmax.
*/

#ifndef cuda_fast_groups_h
#define cuda_fast_groups_h

#include "cuda/attention/fast_forward.h"
#include "cuda/wgmma.h"

/* The tiles of heads of up to WIDTH numbers: 64, 128 or 256. */
template <int WIDTH_> struct groups {
  static constexpr int WIDTH = WIDTH_, PIECES = 1;
  static constexpr bool RICH = false, OF_KEYS = false;
  static constexpr int WARPS = 8;
  static constexpr int ROWS = 16 * WARPS;
  static constexpr int STEP = WIDTH == 256 ? 64 : 128;     /* keys of a tile */
  static constexpr int THREADS = 32 * WARPS;
  static constexpr int ROW = 128;                          /* bytes of a column's row */
  static constexpr int TILE = STEP * 2 * WIDTH;            /* bytes of keys, or of values */
};

template <int WIDTH> struct tiling<groups<WIDTH>> {
  static constexpr int rows = groups<WIDTH>::ROWS, keys = groups<WIDTH>::STEP;
};

template <int WIDTH> struct lies<groups<WIDTH>> { static constexpr bool in_columns = true; };

/* Else a kernel would have nine trees: of the first tile, of the next, and for any values. */
template <int WIDTH> constexpr bool calls_tree<groups<WIDTH>> = true;

template <class G> HOST_TOO int queries_bytes (void) { return G::ROWS * 2 * G::WIDTH; }

/* Of two tiles, number 0 or 1. */
template <class G> INLINE uint32_t group_keys (uint32_t shared, int n) {
  return shared + (uint32_t)(queries_bytes<G>() + n * G::TILE);
}
template <class G> INLINE uint32_t group_values (uint32_t shared, int n) {
  return group_keys<G>(shared, 2 + n);
}


/* The weights of a tile as left factors. */
template <class G> struct packed { uint32_t at[G::STEP / 16][4]; };

template <class S, class G> INLINE void pack_tile (packed<G> &w, const shares<G> &s) {
  EACH(k, G::STEP / 16) pack_weights<S>(w.at[k], s.at[0][2 * k], s.at[0][2 * k + 1]);
}


/* Copies are there, and of all threads; nobody multiplies any more what came before. */
INLINE void wait_for_copies (void) {
  ptx_wait<0>();
  ptx_show_to_groups();
  __syncthreads();
}


/* Of wide heads products of queries have more addresses than registers are left. */
template <class G> INLINE uint32_t queries_anew (uint32_t shared) {
  return G::WIDTH == 64 ? shared : (uint32_t)ptx_anew(shared);
}


/* Begins s = q k^T, of this warpgroup's rows of q and all rows of k. */
template <class S, class G>
INLINE void begin_scores (shares<G> &s, uint32_t queries, uint32_t keys) {
  const int group = (int)threadIdx.x / 128;
  const uint64_t q = matrix_of(queries + (uint32_t)(group * 64 * G::ROW), 16);
  const uint64_t k = matrix_of(keys, 16);
  EACH(d, G::WIDTH / 16) {
    const int across = d % 4 * 32;             /* bytes */
    ptx_multiply_group(s.at[0], q + (d / 4 * to_next_column<G>(G::ROWS) + across) / 16,
                       k + (d / 4 * to_next_column<G>(G::STEP) + across) / 16, d > 0, S());
  }
  ptx_group_commit();
}


/* Begins y += weights times the values of their tile. */
template <class S, class G>
INLINE void begin_values (float (&y)[1][G::WIDTH / 8][4], const packed<G> &w, uint32_t values) {
  const uint64_t v = matrix_of(values, to_next_column<G>(G::STEP));
  EACH(k, G::STEP / 16)
    ptx_multiply_group(y[0], w.at[k], v + k * 16 * G::ROW / 16, true, S());
  ptx_group_commit();
}


/* Scores become weights; by how much the sums so far fade. */
template <class G>
INLINE void weigh_tile (rows_so_far<G> &p, shares<G> &s, const attend &a, const own_words<G> &may,
                        float (&fade)[2]) {
  mask_scores(s, may);
  EACH(h, 2) fade[h] = weigh_row(p, s, 0, h, a.single.factor);
}

template <class G> INLINE void fade_values (rows_so_far<G> &p, const float (&fade)[2]) {
  if (__any_sync(FULL, fade[0] != 1 || fade[1] != 1))
    EACH(c, G::WIDTH / 8) EACH(e, 4) p.y[0][c][e] *= fade[e / 2];
}

/* The kind of a warp's queries: where none may attend it has a part in products all the same. */
template <class G> INLINE unsigned kind_in_group (const attend &a, const tile &x, unsigned kind) {
  return kind == TILE_SOME && kind_of_warp<G>(a.mask, x) == TILE_ALL ? TILE_ALL : kind;
}


/*
** Scores of tile x, which is of this kind, become weights w, and x moves on. Beside them the values
** of the tile before, number n, are added with its weights, but for the FIRST. Who may attend is
** asked before: functions are called for that, and products should not wait for a call.
*/
template <bool FIRST, class S, class G>
INLINE void attend_tile (const attend &a, tile_line<0, 1> &line, tile &x, unsigned &kind,
                         rows_so_far<G> &p, packed<G> &w, uint32_t shared, int n) {
  const tile now = x;
  own_words<G> may;
  shares<G> s;
  float fade[2];
  ask_words(may, a.mask, now, kind_in_group<G>(a, now, kind));
  kind = next_of_line<G>(line, a.mask, x);
  wait_for_copies();
  ptx_group_begin();
  begin_scores<S>(s, queries_anew<G>(shared), group_keys<G>(shared, n ^ 1));
  if (!FIRST) begin_values<S, G>(p.y, w, group_values<G>(shared, n));
  copy_keys<S, G>(group_values<G>(shared, n ^ 1), a, a.v, now, a.Dv);
  if (kind != TILE_NONE) copy_keys<S, G>(group_keys<G>(shared, n), a, a.k, x, a.D);
  ptx_commit();
  ptx_group_wait<FIRST ? 0 : 1>();
  weigh_tile(p, s, a, may, fade);
  if (!FIRST) {
    ptx_group_wait<0>();
    fade_values(p, fade);
  }
  pack_tile<S>(w, s);
}


/* All keys, of finite values. */
template <class S, class G>
INLINE void attend_finite (const attend &a, tile x, rows_so_far<G> &p, uint32_t shared) {
  tile_line<0, 1> line(x);
  packed<G> w;
  int n = 0;                                   /* of the tiles whose weights are packed */
  begin_rows(p);
  unsigned kind = next_of_line<G>(line, a.mask, x);
  if (kind == TILE_NONE) return;
  copy_keys<S, G>(group_keys<G>(shared, 0), a, a.k, x, a.D);
  ptx_commit();
  attend_tile<true, S>(a, line, x, kind, p, w, shared, 1);
#pragma unroll 1
  while (kind != TILE_NONE) {
    attend_tile<false, S>(a, line, x, kind, p, w, shared, n);
    n ^= 1;
  }
  wait_for_copies();
  ptx_group_begin();
  begin_values<S, G>(p.y, w, group_values<G>(shared, n));
  ptx_group_wait<0>();
}


/* All keys, whatever their values are. */
template <class S, class G>
INLINE void attend_any (const attend &a, tile x, rows_so_far<G> &p, uint32_t shared) {
  const uint32_t keys = group_keys<G>(shared, 0), values = group_values<G>(shared, 0);
  const float zero = a.mask.n == 0 ? MARK_NAN : 0.0f;
  tile_line<0, 1> line(x);
  begin_rows(p);
#pragma unroll 1
  for (;;) {
    const unsigned kind = next_of_line<G>(line, a.mask, x);
    own_words<G> may;
    shares<G> s = {};
    float fade[2];
    if (kind == TILE_NONE) break;
    ask_words(may, a.mask, x, kind);
    __syncthreads();                           /* nobody reads the tile before any more */
    copy_keys<S, G>(keys, a, a.k, x, a.D);
    copy_keys<S, G>(values, a, a.v, x, a.Dv);
    ptx_commit();
    wait_for_copies();
    ptx_group_begin();
    begin_scores<S>(s, queries_anew<G>(shared), keys);
    ptx_group_wait<0>();
    weigh_tile(p, s, a, may, fade);
    fade_values(p, fade);
    add_any_values<S>(p, s, values, a.Dv, zero);
  }
}


/* A block: a tile of queries. */
template <class S, class G>
KERNEL __launch_bounds__(G::THREADS, 1) attend_groups (__grid_constant__ const attend a) {
#if HAS_WARPGROUPS
  SHARED(unsigned char, memory);
  const uint32_t shared = ptx_shared(memory);
  const tile x = queries_of_block<G>(a);
  rows_so_far<G> p;
  copy_rows<S, G, G::ROWS>(shared, a.q, head_at(a.q, x.b, x.h), x.i, (int)a.T, (int)a.D);
  ptx_commit();
  attend_finite<S>(a, x, p, shared);
  ptx_wait<0>();                               /* for queries that attend to no key */
  if (__syncthreads_or(not_all_finite<G>(p.y))) attend_any<S>(a, x, p, shared);
  end_rows<S>(a, x, p, a.single.factor);
#endif
}


template <class S, class G> static const char *run_groups (cuda *self, const attend &a) {
  return for_queries<G>(self, a, queries_bytes<G>() + 4 * G::TILE, attend_groups<S, G>);
}


template <class S> static const char *attend_by_groups (cuda *self, const attend &a) {
  const int64_t width = max(a.D, a.Dv);
  return width <= 64 ? run_groups<S, groups<64>>(self, a)
       : width <= 128 ? run_groups<S, groups<128>>(self, a) : run_groups<S, groups<256>>(self, a);
}

#endif
