/*
** fast_back.h - the gradients of attention of halves on tensor cores, for one type: the kernel, and
** its launches. fast_back_bfloat16.cu and fast_back_float16.cu compile it; attention_back.cu has
** the formulas.
**
** Each gradient is made by a block that has a tile of its rows: of queries for dq, of keys for dk
** and dv. Scores and dp are computed with those rows as the rows of mma.sync, so that p and ds,
** rounded to halves, are the left factors of the products that are summed. The other side's tiles
** are the columns: while one is computed with, the next is copied. Sums have one fixed order; heads
** of q that share keys come one after the other.
**
** A block first takes all numbers for finite, as in fast_forward.h. If a sum was not, it begins
** again with scalar products, in which weights of 0 take nothing, and no ds is rounded to a half,
** where it may be infinite: float16's largest number is 65504.
*/

#ifndef cuda_fast_back_h
#define cuda_fast_back_h

#include "cuda/attention/fast_bands.h"

/*
** The tiles for heads of up to WIDTH numbers, of the widest of which gradients of both keys and
** values are too many for one kernel. A multiprocessor has registers for 8 warps: of two blocks,
** or of one.
*/
template <int WIDTH_, int MAKES_, bool RICH_, int WARPS_> struct back {
  static constexpr int WIDTH = WIDTH_, MAKES = MAKES_, WARPS = WARPS_;
  static constexpr bool RICH = RICH_, OF_KEYS = MAKES != MAKES_DQ;
  static constexpr int PIECES = 1, ROWS = 16 * WARPS, THREADS = 32 * WARPS, BLOCKS = 8 / WARPS;
  static constexpr int STEP = WIDTH == 256 ? 16 : WIDTH == 128 ? 32 : 64;      /* columns */
  static constexpr int ROW = 2 * WIDTH;                    /* bytes */
  static constexpr int NUMBERS = 2 * STEP * (int)sizeof(float);
  static constexpr int DISTANCES = RICH ? (ROWS + STEP) * (int)sizeof(float) : 0;
  static constexpr int COPY = 2 * STEP * ROW + (NUMBERS + DISTANCES + 127) / 128 * 128;
};

template <int WIDTH, int MAKES, bool RICH, int WARPS>
struct tiling<back<WIDTH, MAKES, RICH, WARPS>> {
  typedef back<WIDTH, MAKES, RICH, WARPS> G;
  static constexpr int rows = G::OF_KEYS ? G::STEP : G::ROWS;
  static constexpr int keys = G::OF_KEYS ? G::ROWS : G::STEP;
};

template <int WIDTH, int MAKES, bool RICH, int WARPS>
constexpr bool calls_tree<back<WIDTH, MAKES, RICH, WARPS>> =
    RICH && WIDTH <= 128 && (MAKES == MAKES_DQ || WARPS == 4);


/*
** {==================================================================
** Tiles in shared memory: of q and g, or of k and v, one behind the other. Columns have two copies;
** columns of queries have their lse and delta behind them, and biases by distance come last. Tiles
** begin at multiples of 128 bytes: see fast.h.
** ===================================================================
*/

template <class G> INLINE int columns_at (int copy) {
  return 2 * side_bytes<G>(G::ROWS) + copy * G::COPY;
}
template <class G> HOST_TOO constexpr int back_bytes (void) {
  return 2 * side_bytes<G>(G::ROWS) + 2 * G::COPY;
}


/* As whole chunks: rows behind the last query are prepared, too. */
template <class G> INLINE void copy_numbers (uint32_t to, const attend &a, const tile &x) {
  const int chunk = (int)threadIdx.x, of_each = G::STEP / 4;
  if (chunk >= 2 * of_each) return;
  const float *from = chunk < of_each ? lse_of_rows<float>(a) : delta_of_rows<float>(a);
  ptx_copy(to + (uint32_t)chunk * 16, from + prepared_row(a, x, x.i) + chunk % of_each * 4, 16);
}


/* Lse and delta of a copy's columns, and distances of its tile. */
template <class G> INLINE float *numbers_of_copy (unsigned char *memory, int copy) {
  return (float *)(memory + columns_at<G>(copy) + 2 * side_bytes<G>(G::STEP));
}
template <class G> INLINE float *distances_of_copy (unsigned char *memory, int copy) {
  return (float *)((unsigned char *)numbers_of_copy<G>(memory, copy) + G::NUMBERS);
}


template <class S, class G>
INLINE void copy_columns (unsigned char *memory, int copy, const attend &a, const tile &x) {
  copy_side<S, G, !G::OF_KEYS, G::STEP>(ptx_shared(memory) + columns_at<G>(copy), a, x);
  if (G::OF_KEYS) copy_numbers<G>(ptx_shared(numbers_of_copy<G>(memory, copy)), a, x);
  if (G::RICH && a.relative.data != NULL)
    load_distances<G>(distances_of_copy<G>(memory, copy), a, x);
}

/* }================================================================== */


/*
** {==================================================================
** Sums of a tile's p and ds
** ===================================================================
*/

/* A lane's share of a warp's 16 rows: of dq or dk, and of dv. */
template <class G> struct sums {
  float first[1][G::WIDTH / 8][4], second[1][G::WIDTH / 8][4];
};

/* As add_values, by scalar products of any numbers; 'zeros': weights of 0 count. */
template <class S, class G>
INLINE void add_any (float (&y)[1][G::WIDTH / 8][4], shares<G> s, const unsigned char *tile,
                     int64_t columns, bool zeros) {
  const int l = lane_of();
#pragma unroll 1
  for (int n = 0; n < G::STEP; n++) {
    const int r = rare_key(n);
    float w[2];
    if (n > 0 && n % 8 == 0) next_weights<1>(s);
    EACH(h, 2) w[h] = rare_weight(s, h, n);
    EACH(c, G::WIDTH / 8) {
      if (beyond(8 * c, columns)) break;
      const int column = (c >> 3) * to_next_column<G>(G::STEP);
      const uint32_t pair = *(const uint32_t *)(tile + r * G::ROW + column
                                                + ((c ^ r) & 7) * 16 + (l & 3) * 4);
      EACH(k, 4)
        if (w[k / 2] != 0 || zeros)
          y[0][c][k] = fmaf(w[k / 2], wide(S{(uint16_t)(pair >> 16 * (k % 2))}), y[0][c][k]);
    }
  }
}


/* A tile of columns, of which the block has a copy in its memory. */
template <class S, class G>
INLINE void add_tile (sums<G> &sum, const attend &a, const tile &x, unsigned kind,
                      const own_numbers &own, unsigned char *memory, int copy, bool any) {
  const uint32_t rows = ptx_shared(memory), columns = rows + (uint32_t)columns_at<G>(copy);
  const unsigned char *const first = memory + columns_at<G>(copy);
  const bool zeros = a.mask.n == 0;
  shares<G> p, ds = {};
  extras<G> more;
  ask_extras<S>(more, a, x, distances_of_copy<G>(memory, copy));
  multiply_queries<S>(p, rows, columns, a.D);
  if (G::MAKES != MAKES_DV)
    multiply_queries<S>(ds, rows + G::ROWS * G::ROW, columns + G::STEP * G::ROW, a.Dv);
  weigh<S>(p, ds, more, a, x, pairs_of_lane<G>(a.mask, x, kind), own,
           numbers_of_copy<G>(memory, copy), any);
  if (any) {
    if (G::MAKES & MAKES_DV)
      add_any<S, G>(sum.second, p, first + G::STEP * G::ROW, a.Dv, zeros);
    if (G::MAKES != MAKES_DV) add_any<S, G>(sum.first, ds, first, a.D, zeros);
    return;
  }
  if (G::MAKES & MAKES_DV)
    add_values<S, G>(sum.second, p, columns + G::STEP * G::ROW, a.Dv);
  if (G::MAKES != MAKES_DV) add_values<S, G>(sum.first, ds, columns, a.D);
}

/* }================================================================== */


/*
** {==================================================================
** The kernel: a block has ROWS queries of a head, or ROWS keys and all heads that share them
** ===================================================================
*/

/* Made anew where it is wanted, rather than kept beside the sums. */
template <class G> INLINE tile first_tile (const attend &a) {
  int n;
  tile x = tile_of_block(a, G::OF_KEYS ? head_of_keys(a, (int)a.H) : a.H, ptx_anew(blockIdx.x), &n);
  if (G::OF_KEYS) {
    x.h *= (int)a.shared;
    x.j = n * G::ROWS;
  }
  else x.i = ((int)a.tiles - 1 - n) * G::ROWS;           /* the longest first */
  return x;
}


/* The tiles of columns, of one head after the other where rows are keys. */
template <class G> struct line_of_columns {
  tile_line<G::OF_KEYS, !G::OF_KEYS> line;
  int heads;                       /* still to come */
  __device__ __forceinline__ line_of_columns (const attend &a, const tile &x)
      : line(x), heads(G::OF_KEYS ? (int)a.shared - 1 : 0) {}
};

/* Moves x to the next tile of columns: its kind, or NONE behind the last. */
template <class G, bool CALLS = calls_tree<G>>
INLINE unsigned next_columns (line_of_columns<G> &l, const attend_mask &m, tile &x) {
  unsigned kind = TILE_NONE;
#pragma unroll 1
  while (kind == TILE_NONE) {
    if (more_tiles<G, CALLS>(l.line, m, x)) kind = next_tile<G>(l.line, x);
    else if (l.heads > 0) {
      l.heads--;
      x.h++;
      x.i = 0;
      l.line = tile_line<G::OF_KEYS, !G::OF_KEYS>(x);
    }
    else break;
  }
  return kind;
}


template <class G> INLINE void clear_sums (sums<G> &sum) {
  EACH(c, G::WIDTH / 8) EACH(e, 4) sum.first[0][c][e] = sum.second[0][c][e] = 0;
}


/* The first turn only begins to copy: so the code that asks for tiles and copies is there once. */
template <class S, class G>
INLINE void add_all (sums<G> &sum, const attend &a, tile x, unsigned char *memory, bool any) {
  const own_numbers own = numbers_of_rows<G>(a, x);
  line_of_columns<G> l(a, x);
  int copy = 1;
  unsigned kind = TILE_NONE;
  clear_sums(sum);
#pragma unroll 1
  do {
    const tile now = x;
    const unsigned before = kind;
    const unsigned of_rows = kind == TILE_SOME ? kind_of_rows<G>(a.mask, now) : kind;
    kind = next_columns<G>(l, a.mask, x);
    if (before != TILE_NONE) {
      ptx_wait<0>();
      __syncthreads();             /* columns are there, nobody reads those before any more */
    }
    if (kind != TILE_NONE) copy_columns<S, G>(memory, !copy, a, x);
    ptx_commit();
    if (of_rows != TILE_NONE)
      add_tile<S>(sum, a, now, of_rows, own, memory, copy, any);
    copy = !copy;
  } while (kind != TILE_NONE);
  ptx_wait<0>();
}


/* One of a block's sums, times 'factor'. */
template <class S, class G>
INLINE void store_sum (const head_operand &o, const attend &a, const tile &x,
                       float (&sum)[1][G::WIDTH / 8][4], int64_t columns, float factor) {
  const int from = (G::OF_KEYS ? x.j : x.i) + (int)ptx_anew(threadIdx.x) / 32 * 16 + lane_of() / 4;
  const int64_t head = head_at(o, x.b, G::OF_KEYS ? head_of_keys(a, x.h) : x.h);
  const int rows = (int)(G::OF_KEYS ? a.S : a.T);
#pragma unroll 1
  for (int row = from; row < min(from + 16, rows); row += 8) {
    store_row<S, G>(o, head + row * o.stride[2], columns, sum[0], factor);
    next_row<G>(sum);
  }
}

template <class S, class G> INLINE void store_sums (const attend &a, const tile &x,
                                                    sums<G> &sum) {
  if (G::MAKES != MAKES_DV)
    store_sum<S, G>(G::OF_KEYS ? a.dk : a.dq, a, x, sum.first, a.D, a.single.scale);
  if (G::MAKES & MAKES_DV) store_sum<S, G>(a.dv, a, x, sum.second, a.Dv, 1);
}


template <class S, class G>
KERNEL __launch_bounds__(G::THREADS, G::BLOCKS) back_tiles (__grid_constant__ const attend a) {
  SHARED(unsigned char, memory);
  sums<G> sum;
  copy_side<S, G, G::OF_KEYS, G::ROWS>(ptx_shared(memory), a, first_tile<G>(a));
  if (G::RICH && G::MAKES == MAKES_DQ && a.dbias.data != NULL && a.mask.n > 0)
    clear_biases<S, G>(a, first_tile<G>(a));
  bool any = false;
#pragma unroll 1
  do {
    add_all<S>(sum, a, first_tile<G>(a), memory, any);
    any = !any && __syncthreads_or((G::MAKES != MAKES_DV && not_all_finite<G>(sum.first)) ||
                                   ((G::MAKES & MAKES_DV) && not_all_finite<G>(sum.second)));
  } while (any);
  store_sums<S>(a, first_tile<G>(a), sum);
}

/* }================================================================== */


/* Launches a kernel with a block for each tile of rows. */
template <class G>
static const char *for_rows (cuda *self, attend a, void (*kernel)(const attend)) {
  const char *why = cuda_find_ids(self, &a.mask, a.B, tiling<G>::keys);
  if (why != NULL) return why;
  const int64_t heads = G::OF_KEYS ? a.H / a.shared : a.H;
  a.tiles = ((G::OF_KEYS ? a.S : a.T) + G::ROWS - 1) / G::ROWS;
  return launch(self, dim3((unsigned)(a.tiles * heads * a.B)), dim3(G::THREADS),
                (size_t)back_bytes<G>(), kernel, a);
}


/*
** KiB of shared memory: a multiprocessor of 8.6, 8.9 or 12.0 has LEAST, others more; one is kept
** for each block, and one is more than a block may have.
*/
#define LEAST 100

template <class G> HOST_TOO constexpr bool blocks_fit (int kib) {
  return G::BLOCKS * (back_bytes<G>() + 1024) <= kib * 1024;
}

/* 4 or 8: the Makefile knows that all GPUs which the code is for take blocks of so many warps. */
#ifndef HEED_BACK_WARPS
#define HEED_BACK_WARPS 0
#endif

/*
** In blocks of 4 warps, of which a multiprocessor has two; where these do not fit, in one of 8 if
** that does: a warp alone in its quarter would wait for itself. A row's sums are the same.
*/
template <class S, int WIDTH, int MAKES, bool RICH>
static const char *run_back (cuda *self, const attend &a) {
  typedef back<WIDTH, MAKES, RICH, 4> narrow;
  typedef back<WIDTH, MAKES, RICH, 8> wide;
  constexpr bool ASKS = !blocks_fit<narrow>(LEAST) && blocks_fit<wide>(LEAST);
  if constexpr (ASKS && HEED_BACK_WARPS == 8) return for_rows<wide>(self, a, back_tiles<S, wide>);
  else {
    if constexpr (ASKS && HEED_BACK_WARPS != 4)
      if (!blocks_fit<narrow>(self->gpu.block_shared / 1024 + 1))
        return for_rows<wide>(self, a, back_tiles<S, wide>);
    return for_rows<narrow>(self, a, back_tiles<S, narrow>);
  }
}


template <class S, int WIDTH, bool RICH>
static const char *back_with (cuda *self, const attend &a) {
  const char *why = NULL;
  if constexpr (RICH)
    if (a.drelative.data != NULL) why = back_relative<S, WIDTH>(self, a);
  if (why == NULL) why = run_back<S, WIDTH, MAKES_DQ, RICH>(self, a);
  if (why != NULL) return why;
  if constexpr (WIDTH <= 128)
    return run_back<S, WIDTH, MAKES_DK | MAKES_DV, RICH>(self, a);
  else {
    why = run_back<S, WIDTH, MAKES_DK, RICH>(self, a);
    return why != NULL ? why : run_back<S, WIDTH, MAKES_DV, RICH>(self, a);
  }
}


template <class S, int WIDTH> static const char *back_width (cuda *self, const attend &a) {
  if constexpr (!WARPGROUPS_ALONE || WIDTH > 128)
    if (!has_options(a)) return back_with<S, WIDTH, false>(self, a);
  return back_with<S, WIDTH, true>(self, a);
}


template <class S> static const char *back_halves (cuda *self, const attend &a) {
  const int64_t width = max(a.D, a.Dv);
  return width <= 64 ? back_width<S, 64>(self, a)
       : width <= 128 ? back_width<S, 128>(self, a) : back_width<S, 256>(self, a);
}

#endif
