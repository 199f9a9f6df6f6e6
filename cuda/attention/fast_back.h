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

#include "cuda/attention/attention_back.h"
#include "cuda/attention/fast_mask.h"

/* A kernel's gradients; those of both keys and values are too many for the widest heads. */
enum { MAKES_DQ = 1, MAKES_DK = 2, MAKES_DV = 4 };

/* The tiles for heads of up to WIDTH numbers. */
template <int WIDTH_, int MAKES_> struct back {
  static constexpr int WIDTH = WIDTH_, MAKES = MAKES_;
  static constexpr bool OF_KEYS = MAKES != MAKES_DQ;       /* rows are keys, columns queries */
  static constexpr int PIECES = 1, WARPS = 4, ROWS = 16 * WARPS, THREADS = 32 * WARPS;
  static constexpr int STEP = WIDTH == 256 ? 16 : WIDTH == 128 ? 32 : 64;      /* columns */
  static constexpr int ROW = 2 * WIDTH;                    /* bytes */
  static constexpr int COPY = 2 * STEP * ROW + 2 * STEP * (int)sizeof(float);  /* of columns */
};

template <int WIDTH, int MAKES> struct tiling<back<WIDTH, MAKES>> {
  typedef back<WIDTH, MAKES> G;
  static constexpr int rows = G::OF_KEYS ? G::STEP : G::ROWS;
  static constexpr int keys = G::OF_KEYS ? G::ROWS : G::STEP;
};


/*
** {==================================================================
** Tiles in shared memory: of q and g, or of k and v, one behind the other. Columns have two copies;
** columns of queries have their lse and delta behind them.
** ===================================================================
*/

template <class G> INLINE int columns_at (int copy) {
  return 2 * G::ROWS * G::ROW + copy * G::COPY;
}
template <class G> HOST_TOO int back_bytes (void) { return 2 * G::ROWS * G::ROW + 2 * G::COPY; }


template <class S, class G, bool KEYS, int ROWS>
INLINE void copy_side (uint32_t to, const attend &a, const tile &x) {
  const head_operand &first = KEYS ? a.k : a.q, &second = KEYS ? a.v : a.g;
  const int64_t h = KEYS ? x.h / a.shared : x.h;
  const int from = KEYS ? x.j : x.i, n = (int)(KEYS ? a.S : a.T);
  copy_rows<S, G, ROWS>(to, first, head_at(first, x.b, h), from, n, (int)a.D);
  copy_rows<S, G, ROWS>(to + ROWS * G::ROW, second, head_at(second, x.b, h), from, n, (int)a.Dv);
}


/* As whole chunks: rows behind the last query are prepared, too. */
template <class G> INLINE void copy_numbers (uint32_t to, const attend &a, const tile &x) {
  const int chunk = (int)threadIdx.x, of_each = G::STEP / 4;
  if (chunk >= 2 * of_each) return;
  const float *from = chunk < of_each ? lse_of_rows<float>(a) : delta_of_rows<float>(a);
  ptx_copy(to + (uint32_t)chunk * 16, from + prepared_row(a, x, x.i) + chunk % of_each * 4, 16);
}


template <class S, class G>
INLINE void copy_columns (uint32_t to, const attend &a, const tile &x) {
  copy_side<S, G, !G::OF_KEYS, G::STEP>(to, a, x);
  if (G::OF_KEYS) copy_numbers<G>(to + 2 * G::STEP * G::ROW, a, x);
}

/* }================================================================== */


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
template <class G>
INLINE uint32_t pairs_of_queries (const attend_mask &m, const tile &x, unsigned kind) {
  const int l = lane_of(), own = x.j + (G::STEP == 64 ? (l >> 1 & 1) * 32 : 0);
  uint32_t word = word_between(0, (int64_t)m.S - 1 - own), may = 0;
  if (kind == TILE_SOME) word &= word_of_pairs(m, x.b, x.h, own_row<G>(x, 0) + (l & 1) * 8, own);
  EACH(h, 2) EACH(t, (G::STEP + 31) / 32) {
    const uint32_t bits = __shfl_sync(FULL, word, (l & ~3) | h | t << 1) >> (l & 3) * 2;
    may |= pairs_together(bits) << (16 * t + 2 * h);
  }
  return may;
}


/*
** Rows are keys: each lane asks for one query in 32, and gets the words of its columns. Queries
** that are not there have no pairs, since keys may be NaN.
*/
template <class G>
INLINE uint32_t pairs_of_keys (const attend_mask &m, const tile &x, unsigned kind) {
  const int l = lane_of(), key = x.j + (int)threadIdx.x / 32 * 16;
  uint32_t may = 0;
  EACH(t, (G::STEP + 31) / 32) {
    const int query = x.i + 32 * t + l;
    uint32_t word = query < m.T ? word_between(0, (int64_t)m.S - 1 - key) : 0;
    if (kind == TILE_SOME) word &= word_of_pairs(m, x.b, x.h, query, key);
    EACH(j, min(G::STEP / 8, 4)) EACH(e, 2) {
      const uint32_t bits = __shfl_sync(FULL, word, 8 * j + 2 * (l & 3) + e) >> l / 4;
      may |= (bits & 1) << (16 * t + 4 * j + e) | (bits >> 8 & 1) << (16 * t + 4 * j + 2 + e);
    }
  }
  return may;
}


template <class G>
INLINE uint32_t pairs_of_lane (const attend_mask &m, const tile &x, unsigned kind) {
  const bool whole = x.j + tiling<G>::keys <= m.S && (!G::OF_KEYS || x.i + G::STEP <= m.T);
  if (kind == TILE_ALL && whole) return ~0u;
  return G::OF_KEYS ? pairs_of_keys<G>(m, x, kind) : pairs_of_queries<G>(m, x, kind);
}


/* The kind of tile that a warp's rows are. */
template <class G> INLINE unsigned kind_of_rows (const attend_mask &m, const tile &x) {
  area r = area_of<G>(m, x);
  int &first = G::OF_KEYS ? r.j : r.i, &last = G::OF_KEYS ? r.j_last : r.i_last;
  first += (int)threadIdx.x / 32 * 16;
  last = min(last, first + 15);
  return first > last ? TILE_NONE : kind_of(m, r);
}

/* }================================================================== */


/*
** {==================================================================
** p and ds of a tile, and what is summed of them
** ===================================================================
*/

/* A lane's share of a warp's 16 rows: of dq or dk, and of dv. */
template <class G> struct sums {
  float first[1][G::WIDTH / 8][4], second[1][G::WIDTH / 8][4];
};

/* Rows of queries have their lse and delta in registers. */
struct own_numbers { float lse[2], delta[2]; };


template <class G> INLINE own_numbers numbers_of_rows (const attend &a, const tile &x) {
  own_numbers n = {};
  if (!G::OF_KEYS) {
    EACH(h, 2) {
      const int64_t at = prepared_row(a, x, own_row<G>(x, 0) + 8 * h);
      n.lse[h] = lse_of_rows<float>(a)[at];
      n.delta[h] = delta_of_rows<float>(a)[at];
    }
  }
  return n;
}


/*
** Products p and dp become weights and gradients ds, 0 where a pair may not attend. 'any': numbers
** need not be finite; a weight of 0 has no gradient then, if there is a mask.
*/
template <class G>
INLINE void weigh (shares<G> &p, shares<G> &ds, const attend &a, uint32_t may,
                   const own_numbers &own, const float *numbers, bool any) {
  const float factor = (float)a.factor;
  const bool masked = a.mask.n > 0;
  EACH(j, G::STEP / 8) EACH(e, 4) {
    const int column = 8 * j + 2 * (lane_of() & 3) + e % 2;
    const float lse = G::OF_KEYS ? numbers[column] : own.lse[e / 2];
    const float delta = G::OF_KEYS ? numbers[G::STEP + column] : own.delta[e / 2];
    const float score = p.at[0][j][e] * factor, dp = ds.at[0][j][e];
    const bool yes = may >> (4 * j + e) & 1 && !(any && score == -INFINITY);
    const float weight = yes ? ptx_exp2(score - lse) : 0.0f;
    const bool none = !(may >> (4 * j + e) & 1) || (any && masked && weight == 0);
    p.at[0][j][e] = weight;
    ds.at[0][j][e] = none ? 0.0f : weight * (dp - delta);
  }
}


/* As add_values, by scalar products of any numbers; 'zeros': weights of 0 count. */
template <class S, class G>
INLINE void add_any (float (&y)[1][G::WIDTH / 8][4], const shares<G> &s, const unsigned char *tile,
                     int64_t columns, bool zeros) {
  const int l = lane_of();
  EACH(j, G::STEP / 8) EACH(e, 2) {
#pragma unroll 1
    for (int quad = 0; quad < 4; quad++) {
      const int r = 8 * j + 2 * quad + e;
      float w[2];
      EACH(h, 2) w[h] = __shfl_sync(FULL, s.at[0][j][2 * h + e], (l & ~3) | quad);
      EACH(c, G::WIDTH / 8) {
        if (beyond(8 * c, columns)) break;
        const uint32_t pair = *(const uint32_t *)(tile + r * G::ROW + (c & ~7) * 16
                                                  + ((c ^ r) & 7) * 16 + (l & 3) * 4);
        EACH(k, 4)
          if (w[k / 2] != 0 || zeros)
            y[0][c][k] = fmaf(w[k / 2], wide(S{(uint16_t)(pair >> 16 * (k % 2))}), y[0][c][k]);
      }
    }
  }
}


/* A tile of columns, which the block has at 'at' in its memory. */
template <class S, class G>
INLINE void add_tile (sums<G> &sum, const attend &a, const tile &x, unsigned kind,
                      const own_numbers &own, const unsigned char *memory, int at, bool any) {
  const uint32_t rows = ptx_shared(memory), columns = rows + (uint32_t)at;
  const unsigned char *const first = memory + at, *const second = first + G::STEP * G::ROW;
  const float *numbers = (const float *)(second + G::STEP * G::ROW);
  const bool zeros = a.mask.n == 0;
  shares<G> p, ds;
  multiply_queries<S>(p, rows, columns, a.D);
  multiply_queries<S>(ds, rows + G::ROWS * G::ROW, columns + G::STEP * G::ROW, a.Dv);
  weigh(p, ds, a, pairs_of_lane<G>(a.mask, x, kind), own, numbers, any);
  if (any) {
    if (G::MAKES & MAKES_DV) add_any<S, G>(sum.second, p, second, a.Dv, zeros);
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

template <class G> INLINE tile first_tile (const attend &a) {
  const int64_t head = blockIdx.x / a.tiles, n = blockIdx.x % a.tiles, of_k = a.H / a.shared;
  if (G::OF_KEYS) return tile_of(head / of_k, head % of_k * a.shared, 0, n * G::ROWS);
  return tile_of(head / a.H, head % a.H, (a.tiles - 1 - n) * G::ROWS, 0);      /* longest first */
}


/* The tiles of columns, of one head after the other where rows are keys. */
template <class G> struct line_of_columns {
  tile_line<G::OF_KEYS, !G::OF_KEYS> line;
  int heads;                       /* still to come */
};

/* Moves x to the next tile of columns: its kind, or NONE behind the last. */
template <class G>
INLINE unsigned next_columns (line_of_columns<G> &l, const attend_mask &m, tile &x) {
  unsigned kind = TILE_NONE;
#pragma unroll 1
  while (kind == TILE_NONE) {
    if (more_tiles<G>(l.line, m, x)) kind = next_tile<G>(l.line, x);
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


template <class S, class G>
INLINE void add_all (sums<G> &sum, const attend &a, tile x, unsigned char *memory, bool any) {
  line_of_columns<G> l = {tile_line<G::OF_KEYS, !G::OF_KEYS>(x),
                          G::OF_KEYS ? (int)a.shared - 1 : 0};
  const own_numbers own = numbers_of_rows<G>(a, x);
  int copy = 0;
  EACH(c, G::WIDTH / 8) EACH(e, 4) sum.first[0][c][e] = sum.second[0][c][e] = 0;
  unsigned kind = next_columns<G>(l, a.mask, x);
  if (kind != TILE_NONE) copy_columns<S, G>(ptx_shared(memory) + columns_at<G>(copy), a, x);
  ptx_commit();
#pragma unroll 1
  while (kind != TILE_NONE) {
    const tile now = x;
    const unsigned of_rows = kind == TILE_SOME ? kind_of_rows<G>(a.mask, now) : kind;
    kind = next_columns<G>(l, a.mask, x);
    ptx_wait<0>();
    __syncthreads();               /* columns are there, nobody reads those before any more */
    if (kind != TILE_NONE) copy_columns<S, G>(ptx_shared(memory) + columns_at<G>(!copy), a, x);
    ptx_commit();
    if (of_rows != TILE_NONE)
      add_tile<S>(sum, a, now, of_rows, own, memory, columns_at<G>(copy), any);
    copy = !copy;
  }
  ptx_wait<0>();
}


template <class S, class G> INLINE void store_sums (const attend &a, const tile &x,
                                                    const sums<G> &sum) {
  const int from = (G::OF_KEYS ? x.j : x.i) + (int)threadIdx.x / 32 * 16 + lane_of() / 4;
  const int64_t h = G::OF_KEYS ? x.h / a.shared : x.h;
  const head_operand &first = G::OF_KEYS ? a.dk : a.dq;
  EACH(lower, 2) {
    const int row = from + 8 * lower;
    if (row >= (G::OF_KEYS ? a.S : a.T)) continue;
    if (G::MAKES != MAKES_DV)
      store_row<S, G>(first, head_at(first, x.b, h) + row * first.stride[2], a.D, sum.first[0],
                      lower, (float)a.scale);
    if (G::MAKES & MAKES_DV)
      store_row<S, G>(a.dv, head_at(a.dv, x.b, h) + row * a.dv.stride[2], a.Dv, sum.second[0],
                      lower, 1.0f);
  }
}


template <class S, class G>
KERNEL __launch_bounds__(G::THREADS, 2) back_tiles (__grid_constant__ const attend a) {
  SHARED(unsigned char, memory);
  const tile x = first_tile<G>(a);
  sums<G> sum;
  copy_side<S, G, G::OF_KEYS, G::ROWS>(ptx_shared(memory), a, x);
  bool any = false;
#pragma unroll 1
  do {
    add_all<S>(sum, a, x, memory, any);
    any = !any && __syncthreads_or((G::MAKES != MAKES_DV && not_all_finite<G>(sum.first)) ||
                                   ((G::MAKES & MAKES_DV) && not_all_finite<G>(sum.second)));
  } while (any);
  store_sums<S>(a, x, sum);
}

/* }================================================================== */


template <class S, class G> static const char *run_back (cuda *self, attend a) {
  const char *why = cuda_find_ids(self, &a.mask, a.B, tiling<G>::keys);
  if (why != NULL) return why;
  const int64_t heads = G::OF_KEYS ? a.H / a.shared : a.H;
  a.tiles = ((G::OF_KEYS ? a.S : a.T) + G::ROWS - 1) / G::ROWS;
  return launch(self, dim3((unsigned)(a.tiles * heads * a.B)), dim3(G::THREADS),
                (size_t)back_bytes<G>(), back_tiles<S, G>, a);
}


template <class S> static const char *back_halves (cuda *self, const attend &a) {
  const int64_t width = max(a.D, a.Dv);
  const char *why = width <= 64 ? run_back<S, back<64, MAKES_DQ>>(self, a)
                  : width <= 128 ? run_back<S, back<128, MAKES_DQ>>(self, a)
                                 : run_back<S, back<256, MAKES_DQ>>(self, a);
  if (why != NULL) return why;
  if (width <= 64) return run_back<S, back<64, MAKES_DK | MAKES_DV>>(self, a);
  if (width <= 128) return run_back<S, back<128, MAKES_DK | MAKES_DV>>(self, a);
  why = run_back<S, back<256, MAKES_DK>>(self, a);
  return why != NULL ? why : run_back<S, back<256, MAKES_DV>>(self, a);
}

#endif
