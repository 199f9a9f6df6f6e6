/*
** few_tile.h - attention of few queries, as a warp computes it: copies of keys and values, and
** scores and weights of a tile. See few.cu.
*/

#ifndef cuda_few_tile_h
#define cuda_few_tile_h

#include "cuda/attention/few.h"
#include "cuda/mma.h"

#define WARPS 4
#define THREADS (32 * WARPS)
#define PIECE 8                    /* elements of a row that a lane has */
#define BATCH 8                    /* copies of 16 bytes that a lane has on their way */
#define BATCH_BYTES (BATCH * 16 * 32)
#define MOST_ROWS(T) (32 / (int)sizeof(T))     /* of a warp: their sums stay in registers */

static_assert(PIECE * 32 >= FEW_DEPTH, "a warp holds a row");

typedef struct few_queries {
  attend a;
  int64_t Hk, part_keys;
  int rows;                        /* of a head of keys: (shared, T) */
  int parts;
  int groups;                      /* of rows in a block, a power of 2: warps that differ in rows */
  int row_blocks;                  /* for a part */
  bool keys_fit, values_fit;       /* copies of 16 bytes */
  void *sums, *states;             /* of parts: (B, Hk, parts, rows, Dv), and without Dv */
} few_queries;

static_assert(sizeof(few_queries) <= 4000, "an argument of kernels, on all drivers");

template <class T> struct row_state { T top, sum; };     /* see online_softmax */

/* How a warp with ROWS rows, G lanes for each key, lays out its keys. */
template <class S, int ROWS, int G> struct few_shape {
  typedef COMPUTED(S) T;
  static constexpr int WIDTH = 16 / (int)sizeof(S);      /* elements of a copy */
  static constexpr int COPIES = PIECE / WIDTH;           /* of a lane for one key */
  static constexpr int KEYS = SIDE(T) * G / 32;          /* of a tile, for each group of lanes */
  static constexpr int AHEAD = BATCH / COPIES;           /* keys of a batch, for each group */
  static constexpr int AT_ONCE = ROWS * AHEAD < 8 ? AHEAD : 8 / ROWS;      /* that are summed */
  static constexpr int LINE = SIDE(T) + 32 / G * FEW(T); /* of scores: groups in other banks */
  static constexpr int ACROSS = G * WIDTH;               /* columns of a group's copies */
  static constexpr int ABREAST = ROWS * AHEAD < 16 ? AHEAD : AHEAD / 2;   /* of a loop's turn */
  static constexpr size_t SCORES = ROWS * LINE * sizeof(T);
  static constexpr size_t BYTES = 2 * BATCH_BYTES + SCORES;       /* of a warp */
  static constexpr int BLOCKS = ROWS == 1 ? 4 : ROWS < MOST_ROWS(T) ? 3 : 2;       /* at once */
  static constexpr size_t SHARED_BYTES = WARPS * (BYTES + ROWS * sizeof(row_state<T>));
  static_assert(ROWS * 32 * PIECE * sizeof(T) <= 2 * BATCH_BYTES, "sums take their place");
  static_assert(KEYS % AHEAD == 0 && AHEAD % AT_ONCE == 0 && G >= 8, "all of a tile");
};


/*
** {==================================================================
** Rows of keys and of values
** ===================================================================
*/

/* Where copy c of this lane's part of a row begins. */
template <class S, int G> INLINE int column_of (int c) {
  return (c * G + lane_of() % G) * (16 / (int)sizeof(S));
}


/* Keys or values of a head, from this lane's first element of its group's next row on. */
template <class S> struct few_source {
  const S *at;
  int64_t row, column;
  int columns, left;               /* of a row; rows that are there */
  bool fits;                       /* copies of 16 bytes */
};


template <class Shape, class S, int G>
INLINE few_source<S> source_of (const attend &a, const head_operand &o, const tile &x,
                                int64_t columns, bool fits) {
  const int first = x.j + lane_of() / G * Shape::KEYS;
  const S *head = (const S *)o.data + head_at(o, x.b, head_of_keys(a, x.h));
  return {head + first * o.stride[2] + column_of<S, G>(0) * o.stride[3], o.stride[2], o.stride[3],
          (int)columns - column_of<S, G>(0), (int)a.S - first, fits};
}


/* 16 bytes of a row that is not aligned to them, or not that wide. */
template <class S> INLINE uint4 gather_row (const S *row, int64_t step, int n) {
  union { uint4 bits; S at[16 / sizeof(S)]; } x;
  x.bits = make_uint4(0, 0, 0, 0);
#pragma unroll
  for (int i = 0; i < 16 / (int)sizeof(S); i++)
    if (i < n) x.at[i] = row[i * step];
  return x.bits;
}


/* The next batch is on its way; behind the last key and the last column all is 0. */
template <class Shape, class S, int G> INLINE void fetch_batch (few_source<S> &from, uint4 *to) {
  constexpr int APART = G * Shape::WIDTH;      /* columns between copies of one row */
  if (from.fits) {
#pragma unroll
    for (int n = 0; n < BATCH; n++) {
      const int key = n / Shape::COPIES, column = n % Shape::COPIES * APART;
      const bool there = key < from.left && column < from.columns;
      ptx_copy(ptx_shared(to + n * 32), from.at + key * from.row + column, there ? 16 : 0);
    }
  } else {
#pragma unroll 1
    for (int n = 0; n < BATCH; n++) {
      const int key = n / Shape::COPIES, column = n % Shape::COPIES * APART;
      to[n * 32] = gather_row(from.at + key * from.row + column * from.column, from.column,
                              key < from.left ? from.columns - column : 0);
    }
  }
  from.at += Shape::AHEAD * from.row;
  from.left -= Shape::AHEAD;
  ptx_commit();
}


/* This lane's elements of key n of a batch. */
template <class Shape, class S, class T> INLINE void take_row (T (&x)[PIECE], const uint4 *from,
                                                               int n) {
#pragma unroll
  for (int c = 0; c < Shape::COPIES; c++) {
    union { uint4 bits; S at[16 / sizeof(S)]; } y;
    y.bits = from[(n * Shape::COPIES + c) * 32];
#pragma unroll
    for (int i = 0; i < Shape::WIDTH; i++) x[c * Shape::WIDTH + i] = (T)wide(y.at[i]);
  }
}

/* }================================================================== */


/*
** {==================================================================
** Scores and weights of a tile: (ROWS, LINE), in memory of the warp
** ===================================================================
*/

/* Where the line of a group of lanes begins. */
template <class Shape, int G> INLINE int group_line (void) {
  return lane_of() / G * (Shape::KEYS + FEW(typename Shape::T));
}

/* The place of key n of a tile in its line. */
template <class Shape> INLINE int place_of (int n) {
  return n + n / Shape::KEYS * FEW(typename Shape::T);
}


/*
** Sums of s[0] … s[N - 1] over the G lanes of a group; s[0] becomes that of number n / (G / N) in
** its lane n. Each exchange halves what is left to be summed.
*/
template <int N, int G, class T> INLINE void spread_sums (T (&s)[N]) {
  int by = G / 2;
#pragma unroll
  for (int n = N / 2; n > 0; n /= 2, by /= 2) {
    const bool upper = (lane_of() & by) != 0;
#pragma unroll
    for (int i = 0; i < n; i++) {
      const T given = upper ? s[i] : s[i + n], kept = upper ? s[i + n] : s[i];
      s[i] = kept + __shfl_xor_sync(FULL, given, by);
    }
  }
#pragma unroll
  for (; by > 0; by /= 2) s[0] += __shfl_xor_sync(FULL, s[0], by);
}


/* The products of all rows and the keys of a batch, to the places from 'scores' on. */
template <class Shape, class S, int ROWS, int G, class T>
INLINE void score_batch (const T (&q)[ROWS][PIECE], const uint4 *from, T *scores) {
  constexpr int SUMS = ROWS * Shape::AT_ONCE, LANES = G / SUMS;
#pragma unroll (Shape::ABREAST / Shape::AT_ONCE)
  for (int n = 0; n < Shape::AHEAD; n += Shape::AT_ONCE) {
    T s[SUMS];
#pragma unroll
    for (int k = 0; k < Shape::AT_ONCE; k++) {
      T x[PIECE];
      take_row<Shape, S>(x, from, n + k);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        s[k * ROWS + r] = 0;
#pragma unroll
        for (int d = 0; d < PIECE; d++)
          s[k * ROWS + r] = multiply_add(q[r][d], x[d], s[k * ROWS + r]);
      }
    }
    spread_sums<SUMS, G>(s);
    const int own = lane_of() % G / LANES;
    if (lane_of() % LANES == 0)
      scores[own % ROWS * Shape::LINE + n + own / ROWS] = s[0];
  }
}


/* May query i attend to keys from j on? A bit for each of FEW. See kind_by_call. */
template <class T>
CALLED unsigned row_that_may (const attend_mask &m, const tile x, int i, int j) {
  return ask<ROW_BITS>(m, [&] (const mask_step &s) -> unsigned {
    return row_of_pairs<T>(m, s, x, i, j);
  });
}

template <class T>
INLINE unsigned keys_that_may (const attend_mask &m, const tile &x, bool all, int i, int j) {
  const unsigned inside = columns_between<T>(0, (int64_t)m.S - 1 - j);
  return all ? inside : inside & row_that_may<T>(m, x, i, j);
}


/* The bias by distance of a pair, as an exponent of 2. */
template <class T> INLINE T relative_at (const attend &a, int h, int i, int j) {
  return fetch_float<T>(a.relative.data, a.relative.type, h * a.relative.stride[0]
                  + ((int64_t)i - j + a.S - 1) * a.relative.stride[1]) * (T)LOG2E;
}


/* Products of query i and keys from j on become scores, as exponents of 2; -inf without a bit. */
template <class T>
INLINE void finish_scores (few<T> &s, const attend &a, const tile &x, unsigned may, int i, int j) {
  UNROLL(T, c) {
    T derivative;
    if (a.cap != 0) s.at[c] = cap_score(a, s.at[c], &derivative);
    if (!(may >> c & 1)) s.at[c] = -(T)INFINITY;
    else {
      if (a.bias.data != NULL) s.at[c] += bias_at<T>(a, x, i, j + c);
      if (a.relative.data != NULL) s.at[c] += relative_at<T>(a, x.h, i, j + c);
    }
  }
}


/* The lane that keeps the state of row r: one of those that hold its keys. */
INLINE int keeper_of (int r) { return (r & 1) * 16 + (r >> 1); }
INLINE int row_of_keeper (int lane) { return (lane & 15) * 2 + (lane >> 4); }


/*
** The scores of row r, this half warp's, for a tile become weights relative to the largest so far;
** the row's keeper moves on its state. By how much earlier sums fade.
*/
template <class T> INLINE T online_softmax (few<T> &s, row_state<T> &state, int r) {
  const int keeper = keeper_of(r);
  const T before = __shfl_sync(FULL, state.top, keeper);
  T top = before, sum = 0;
  UNROLL(T, c) top = larger()(s.at[c], top);
  top = row_reduce(larger(), top);
  const T base = top == -(T)INFINITY ? (T)0 : top;
  UNROLL(T, c) {
    s.at[c] = exp2(s.at[c] - base);
    sum += s.at[c];
  }
  sum = row_reduce(plus(), sum);
  const T fade = exp2(before - base);
  if (lane_of() == keeper) {
    state.top = top;
    state.sum = state.sum * fade + sum;
  }
  return fade;
}


/* Products become weights, two rows at a time, 16 lanes for each. This lane's row's fading. */
template <class Shape, int ROWS, class T>
INLINE T weigh_tile (const few_queries &f, tile x, bool all, int first_row, row_state<T> &state,
                     T *scores) {
  const attend &a = f.a;
  const int n = tile_x() * FEW(T), head = x.h;
  T own = 1;
#pragma unroll 1
  for (int pair = 0; pair < ROWS; pair += 2) {
    const int r = min(pair + lane_of() / 16, ROWS - 1);
    const int row = min(first_row + r, f.rows - 1), i = row % (int)a.T;
    few<T> *at = (few<T> *)(scores + r * Shape::LINE + place_of<Shape>(n)), s = *at;
    x.h = head + row / (int)a.T;
    finish_scores(s, a, x, keys_that_may<T>(a.mask, x, all, i, x.j + n), i, x.j + n);
    const T fade = online_softmax(s, state, r);
    if (lane_of() == keeper_of(r)) own = fade;
    if (ROWS % 2 == 1) __syncwarp();   /* both halves of the warp have read the last row */
    if (pair + lane_of() / 16 < ROWS) *at = s;
  }
  return own;
}

/* }================================================================== */

#endif
