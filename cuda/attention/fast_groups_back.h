/*
** fast_groups_back.h - the gradients of attention of halves by products of warpgroups (wgmma.h), on
** GPUs of compute capability 9.0, for one type: the kernel, and its launches.
**
** As in fast_back.h, but for the products: a block has 128 rows, and those of the tile before are
** still added while the next tile's scores are computed. Heads of up to 128 numbers.
*/

#ifndef cuda_fast_groups_back_h
#define cuda_fast_groups_back_h

#include "cuda/attention/fast_back.h"
#include "cuda/attention/fast_groups.h"

/* The tiles for heads of up to WIDTH numbers: 64 or 128. */
template <int WIDTH_, int MAKES_> struct back_groups {
  static constexpr int WIDTH = WIDTH_, MAKES = MAKES_;
  static constexpr bool RICH = false, OF_KEYS = MAKES != MAKES_DQ;
  static constexpr int PIECES = 1, WARPS = 8, ROWS = 16 * WARPS, THREADS = 32 * WARPS;
  static constexpr int STEP = 64;                          /* columns */
  static constexpr int ROW = 128;                          /* bytes of a column's row */
  static constexpr int NUMBERS = 2 * STEP * (int)sizeof(float);
  static constexpr int COPY = 2 * STEP * 2 * WIDTH + (NUMBERS + 1023) / 1024 * 1024;
};

template <int WIDTH, int MAKES> struct tiling<back_groups<WIDTH, MAKES>> {
  typedef back_groups<WIDTH, MAKES> G;
  static constexpr int rows = G::OF_KEYS ? G::STEP : G::ROWS;
  static constexpr int keys = G::OF_KEYS ? G::ROWS : G::STEP;
};

template <int WIDTH, int MAKES> struct lies<back_groups<WIDTH, MAKES>> {
  static constexpr bool in_columns = true;
};


/* p and ds of a tile of columns, of which the block has a copy in its memory; ANY numbers. */
template <bool ANY, class S, class G>
INLINE void weigh_columns (shares<G> &p, shares<G> &ds, const attend &a, const tile &x,
                           unsigned kind, const own_numbers &own, unsigned char *memory,
                           int copy) {
  const uint32_t rows = ptx_shared(memory), columns = rows + (uint32_t)columns_at<G>(copy);
  extras<G> more;
  ask_extras<S>(more, a, x, NULL);
  ptx_group_begin();
  begin_scores<S>(p, rows, columns);
  begin_scores<S>(ds, rows + side_bytes<G>(G::ROWS), columns + side_bytes<G>(G::STEP));
  const uint32_t may = pairs_of_lane<G, ANY>(a.mask, x, kind);
  ptx_group_wait<0>();
  weigh<S>(p, ds, more, a, x, may, own, numbers_of_copy<G>(memory, copy), ANY);
}


/* Begins to add a tile of columns to the sums. */
template <class S, class G>
INLINE void add_columns (sums<G> &sum, const shares<G> &p, const shares<G> &ds,
                         unsigned char *memory, int copy) {
  const uint32_t columns = ptx_shared(memory) + (uint32_t)columns_at<G>(copy);
  packed<G> of_p, of_ds;
  pack_tile<S>(of_p, p);
  pack_tile<S>(of_ds, ds);
  ptx_group_begin();
  if (G::MAKES & MAKES_DV)
    begin_values<S, G>(sum.second, of_p, columns + side_bytes<G>(G::STEP));
  begin_values<S, G>(sum.first, of_ds, columns);
}


/* Clears the sums of x's rows, moves x to the first tile of columns and begins to copy it. */
template <class S, class G>
INLINE unsigned begin_columns (line_of_columns<G> &l, sums<G> &sum, const attend &a, tile &x,
                               unsigned char *memory) {
  clear_sums(sum);
  const unsigned kind = next_columns<G, true>(l, a.mask, x);
  if (kind != TILE_NONE) copy_columns<S, G>(memory, 0, a, x);
  ptx_commit();
  return kind;
}


/* All columns, of finite numbers. */
template <class S, class G>
INLINE void add_finite (sums<G> &sum, const attend &a, tile x, unsigned char *memory) {
  own_numbers own = numbers_of_rows<G>(a, x);
  own.factor = (float)a.factor;                /* the single one would be read for each number */
  line_of_columns<G> l(a, x);
  int copy = 0;
  unsigned kind = begin_columns<S>(l, sum, a, x, memory);
#pragma unroll 1
  while (kind != TILE_NONE) {
    const tile now = x;
    const bool all = kind == TILE_SOME && kind_of_rows<G>(a.mask, now) == TILE_ALL;
    const unsigned of_rows = all ? TILE_ALL : kind;        /* of none, too */
    shares<G> p, ds;
    kind = next_columns<G>(l, a.mask, x);
    ptx_group_wait<0>();
    wait_for_copies();
    if (kind != TILE_NONE) copy_columns<S, G>(memory, !copy, a, x);
    ptx_commit();
    weigh_columns<false, S>(p, ds, a, now, of_rows, own, memory, copy);
    add_columns<S>(sum, p, ds, memory, copy);
    copy = !copy;
  }
  ptx_group_wait<0>();
  ptx_wait<0>();
}


/*
** All columns, whatever their numbers are. That is seldom wanted: one sum is made and stored after
** the other, and each turn makes its tile anew, as registers are few.
*/
template <class S, class G> INLINE void make_any (const attend &a, unsigned char *memory) {
  const int tiles = ((int)(G::OF_KEYS ? a.T : a.S) + G::STEP - 1) / G::STEP;
  bool second = (G::MAKES & MAKES_DV) != 0;
#pragma unroll 1
  do {
    sums<G> sum;
    clear_sums(sum);
#pragma unroll 1
    for (int n = 0; n < (G::OF_KEYS ? (int)a.shared : 1) * tiles; n++) {
      tile x = first_tile<G>(a);
      shares<G> p = {}, ds = {};
      x.h += n / tiles;
      (G::OF_KEYS ? x.i : x.j) = n % tiles * G::STEP;
      const unsigned kind = kind_of<G, true>(a.mask, x);
      if (kind == TILE_NONE) continue;
      __syncthreads();                         /* nobody reads the columns before any more */
      copy_columns<S, G>(memory, 0, a, x);
      ptx_commit();
      wait_for_copies();
      weigh_columns<true, S>(p, ds, a, x, kind, numbers_of_rows<G>(a, x), memory, 0);
      if (second) ds = p;
      add_any<S, G>(sum.first, ds, memory + columns_at<G>(0) + second * side_bytes<G>(G::STEP),
                    second ? a.Dv : a.D, a.mask.n == 0);
    }
    store_sum<S, G>(second ? a.dv : G::OF_KEYS ? a.dk : a.dq, a, first_tile<G>(a), sum.first,
                    second ? a.Dv : a.D, second ? 1 : a.single.scale);
    second = !second;
  } while (!second && (G::MAKES & MAKES_DV) != 0);
}


template <class S, class G>
KERNEL __launch_bounds__(G::THREADS, 1) back_with_groups (__grid_constant__ const attend a) {
#if HAS_WARPGROUPS
  SHARED(unsigned char, memory);
  sums<G> sum;
  copy_side<S, G, G::OF_KEYS, G::ROWS>(ptx_shared(memory), a, first_tile<G>(a));
  ptx_commit();
  add_finite<S>(sum, a, first_tile<G>(a), memory);
  if (__syncthreads_or(not_all_finite<G>(sum.first) ||
                       ((G::MAKES & MAKES_DV) && not_all_finite<G>(sum.second))))
    make_any<S, G>(a, memory);
  else store_sums<S>(a, first_tile<G>(a), sum);
#endif
}


template <class S, int WIDTH> static const char *back_groups_of (cuda *self, const attend &a) {
  typedef back_groups<WIDTH, MAKES_DQ> of_queries;
  typedef back_groups<WIDTH, MAKES_DK | MAKES_DV> of_keys;
  const char *why = for_rows<of_queries>(self, a, back_with_groups<S, of_queries>);
  return why != NULL ? why : for_rows<of_keys>(self, a, back_with_groups<S, of_keys>);
}


template <class S> static const char *back_halves_by_groups (cuda *self, const attend &a) {
  return max(a.D, a.Dv) <= 64 ? back_groups_of<S, 64>(self, a) : back_groups_of<S, 128>(self, a);
}

#endif
