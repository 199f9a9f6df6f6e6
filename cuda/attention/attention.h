/*
** attention.h - what attention and its gradients share: the work as kernels read it, scores,
** dropout. attention_mask.h says which pairs may attend.
**
** The exact kernels: any head size, mask, bias, strides and type, in memory that grows with T and
** S only. A block has a tile of queries (or of keys, for their gradients) and iterates over those
** tiles of the other side where somebody may attend; scores stay in registers. Results wider than
** COLUMNS are divided among several blocks, each of which computes the scores again.
**
** M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax" (2018); T. Dao et al.,
** "FlashAttention" (2022), for the gradient from the rows' normalisers.
*/

#ifndef cuda_attention_h
#define cuda_attention_h

#include "cuda/attention/attention_mask.h"
#include "cuda/random/philox.h"

#define COLUMNS(T, wide) ((wide) * SIDE(T))    /* of results that a block keeps in registers */
#define LOG2E 1.44269504088896340736
#define LOG_OF_2 0.69314718055994530942

/* The widest COLUMNS: halves have faster ways and doubles are rare, so code for them is small. */
template <class S> constexpr int widest = sizeof(S) == sizeof(float) ? 2 : 1;

typedef struct attend {
  int64_t B, H, shared, T, S;      /* 'shared': heads of q for one of k and v */
  int64_t D, Dv;
  int64_t tiles;                   /* of a head */
  double scale, factor;            /* of q k^T; for scores as exponents of 2, or in softcaps */
  double cap;                      /* softcap as an exponent of 2, or 0 */
  uint64_t drop;                   /* of dropout: the least draw that is kept; 0: none */
  double kept;                     /* the factor of what is kept */
  struct { float scale, factor, cap, kept; } single;     /* the same for tensor cores */
  const uint64_t *key;
  attend_mask mask;
  head_operand q, k, v, bias;
  head_operand relative;                /* (H, T + S - 1) */
  head_operand y, lse, weights;         /* forward: out */
  head_operand g, g_lse;                /* backward: in */
  head_operand dq, dk, dv, dbias, drelative;           /* backward: out */
  void *rows;                      /* backward: (2, B, H, prepared), see prepare_rows */
  int64_t prepared;                /* backward: T, as far as there are whole tiles of queries */
  void *bands;                     /* backward: sums along diagonals, see add_bands */
} attend;

static_assert(sizeof(attend) <= 4000, "an argument of kernels, on all drivers");

static inline attend attend_of (const work *w) {          /* host */
  const layout *q = &w->in[ATTENTION_Q].at, *k = &w->in[ATTENTION_K].at;
  attend a = {};
  a.B = q->size[0];
  a.H = q->size[1];
  a.shared = k->size[1] > 0 ? q->size[1] / k->size[1] : 1;
  a.T = q->size[2];
  a.S = k->size[2];
  a.D = q->size[3];
  a.Dv = w->in[ATTENTION_V].at.size[3];
  a.scale = w->attention.scale;
  a.factor = a.scale * LOG2E;
  if (w->attention.softcap != 0) {
    a.cap = w->attention.softcap * LOG2E;
    a.factor = a.scale / w->attention.softcap;
  }
  a.kept = 1;
  if (w->attention.dropout != 0) {
    a.drop = (uint64_t)ceil(w->attention.dropout * 0x1p32);
    a.kept = 1 / (1 - w->attention.dropout);
    a.key = (const uint64_t *)w->in[ATTENTION_KEY].data;
  }
  a.single = {(float)a.scale, (float)a.factor, (float)a.cap, (float)a.kept};
  a.mask = cuda_mask_of(w);
  a.q = head_operand_of(&w->in[ATTENTION_Q]);
  a.k = head_operand_of(&w->in[ATTENTION_K]);
  a.v = head_operand_of(&w->in[ATTENTION_V]);
  a.bias = head_operand_of(&w->in[ATTENTION_BIAS]);
  a.relative = head_operand_of(&w->in[ATTENTION_RELATIVE]);
  return a;
}


template <class T> HOST_TOO int64_t tiles_of (int64_t n) { return (n + SIDE(T) - 1) / SIDE(T); }

INLINE tile tile_of (int64_t b, int64_t h, int64_t i, int64_t j) {
  const tile x = {(int)b, (int)h, (int)i, (int)j};
  return x;
}

/*
** The batch and the head (of so many) of block number 'block', and, in *n, which of its tiles:
** blockIdx.x counts them in this order. Counts have 32 bits, of which a division is short.
*/
INLINE tile tile_of_block (const attend &a, int64_t heads, int64_t block, int *n) {
  const unsigned head = (unsigned)block / (unsigned)a.tiles;
  *n = (int)((unsigned)block % (unsigned)a.tiles);
  return tile_of(head / (unsigned)heads, head % (unsigned)heads, 0, 0);
}

/* Of keys and values, for one of queries. */
INLINE int head_of_keys (const attend &a, int h) { return h / (int)a.shared; }

INLINE int64_t head_at (const head_operand &o, int64_t b, int64_t h) {
  return b * o.stride[0] + h * o.stride[1];
}
INLINE int64_t row_at (const head_operand &o, const tile &x, int64_t i) {
  return head_at(o, x.b, x.h) + i * o.stride[2];
}


/*
** {==================================================================
** Scores
** ===================================================================
*/

/* As load_tile, to element 'to' of shared memory: much to compile, so a kernel has it once. */
template <class S, class T>
CALLED bool load_elements (int to, const S *data, int64_t start, int64_t x_stride,
                           int64_t k_stride, int across, int depth, T factor) {
  SHARED(T, memory);
  const typed_elements<const S, T> from = {data};
  return load_tile(memory + to, from, start, x_stride, k_stride, across, depth, factor);
}

template <class S, class T>
INLINE bool load_operand (T *to, const head_operand &o, int64_t start, int x_axis, int k_axis,
                          int across, int depth, T factor) {
  SHARED(T, memory);
  return load_elements<S>((int)(to - memory), (const S *)o.data, start, o.stride[x_axis],
                          o.stride[k_axis], across, depth, factor);
}


/* sum = a b^T of two operands (rows, depth), one tile each; 'one' and 'two' are shared memory. */
template <class S, class T>
INLINE void multiply_rows (part<T> &sum, const head_operand &a, int64_t a_start, int rows, T factor,
                           const head_operand &b, int64_t b_start, int columns, int64_t depth,
                           T *one, T *two) {
  clear_part(sum);
  for (int64_t d = 0; d < depth; d += SIDE(T)) {
    const int n = at_most(depth - d, SIDE(T));
    __syncthreads();
    load_operand<S>(one, a, a_start + d * a.stride[3], 2, 3, rows, n, factor);
    load_operand<S>(two, b, b_start + d * b.stride[3], 2, 3, columns, n, (T)1);
    __syncthreads();
    multiply_tiles(sum, one, two, n);
  }
}


/* The products of queries and keys of a tile, times a.factor. */
template <class S, class T>
INLINE void multiply_keys (part<T> &s, const attend &a, const tile &x, T *one, T *two) {
  multiply_rows<S>(s, a.q, row_at(a.q, x, x.i), at_most(a.T - x.i, SIDE(T)), (T)a.factor, a.k,
                   head_at(a.k, x.b, head_of_keys(a, x.h)) + x.j * a.k.stride[2],
                   at_most(a.S - x.j, SIDE(T)), a.D, one, two);
}


/* s = cap tanh(s); *derivative = 1 - tanh(s)^2 */
template <class T> INLINE T cap_score (const attend &a, T s, T *derivative) {
  const T t = tanh(s);
  *derivative = 1 - t * t;
  return t * (T)a.cap;
}

template <class T> INLINE T bias_at (const attend &a, const tile &x, int64_t i, int64_t j) {
  return fetch_float<T>(a.bias.data, a.bias.type, row_at(a.bias, x, i) + j * a.bias.stride[3])
         * (T)LOG2E;
}


/* The biases by distance of a tile: that of row r and column c becomes to[SIDE - 1 + r - c]. */
template <class T> INLINE void load_relative (T *to, const attend &a, const tile &x) {
  const int e = (int)threadIdx.x;
  const int64_t from = (int64_t)x.i - x.j - SIDE(T) + a.S, at = from + e;
  const int64_t start = x.h * a.relative.stride[0];
  if (e >= 2 * SIDE(T) - 1) return;
  to[e] = at < 0 || at >= a.T + a.S - 1 ? (T)0
        : fetch_float<T>(a.relative.data, a.relative.type, start + at * a.relative.stride[1])
          * (T)LOG2E;
}

/* The bias of this thread's row 0 and column 0; that of row r and column c is r - c behind it. */
template <class T> INLINE const T *own_relative (const T *from) {
  return from + SIDE(T) - 1 + (tile_y() - tile_x()) * FEW(T);
}

template <class T>
INLINE void add_relative (part<T> &s, const attend &a, const tile &x, T *buffer) {
  __syncthreads();                             /* nobody reads 'buffer' any more */
  load_relative(buffer, a, x);
  __syncthreads();
  const T *from = own_relative(buffer);
  UNROLL(T, i) UNROLL(T, j) s.at[i][j] += from[i - j];
}


/* s becomes scores, as exponents of 2, by way of 'buffer'; where 'may' has no bit, -inf. */
template <class T>
INLINE void score_part (part<T> &s, const attend &a, const tile &x, unsigned may, T *buffer) {
  if (a.cap != 0 || a.bias.data != NULL) {
    __syncthreads();                           /* nobody reads 'buffer' any more */
    store_part(buffer, s);
#pragma unroll 1
    for (int n = 0; n < FEW(T) * FEW(T); n++) {
      const int64_t i = x.i + tile_y() * FEW(T) + n / FEW(T);
      const int64_t j = x.j + tile_x() * FEW(T) + n % FEW(T);
      T *at = &own_line(buffer, n / FEW(T)).at[n % FEW(T)], derivative;
      if (a.cap != 0) *at = cap_score(a, *at, &derivative);
      if (a.bias.data != NULL && may >> n & 1) *at += bias_at<T>(a, x, i, j);
    }
    load_part(s, buffer);
  }
  if (a.relative.data != NULL) add_relative(s, a, x, buffer);
  UNROLL(T, i) UNROLL(T, j)
    if (!(may >> (i * FEW(T) + j) & 1)) s.at[i][j] = -(T)INFINITY;
}


/* Dropout's factors of FEW elements of row i, from key j on: 0, or a.kept. */
template <class T>
INLINE few<T> dropout_factors (const attend &a, const tile &x, int64_t i, int64_t j) {
  const uint64_t first = (uint64_t)(((x.b * a.H + x.h) * a.T + i) * a.S + j);
  uint32_t draw[4];
  few<T> factor = {};
  philox_draw(*a.key, first >> 2, draw);
#pragma unroll 1
  for (int next = 0; next < 2; next++) {       /* the numbers may come from two counters */
    UNROLL(T, k) {
      const unsigned which = (unsigned)(first + k) & 3;
      const uint32_t one = which < 2 ? which == 0 ? draw[0] : draw[1]
                                     : which == 2 ? draw[2] : draw[3];
      if ((int)((first + k) >> 2 != first >> 2) == next)
        factor.at[k] = one >= a.drop ? (T)a.kept : (T)0;
    }
    if (next == 1 || (first & 3) + FEW(T) <= 4) break;
    philox_draw(*a.key, (first >> 2) + 1, draw);
  }
  return factor;
}


template <class T>
INLINE void drop_part (part<T> &s, const attend &a, const tile &x, T *buffer) {
  if (a.drop == 0) return;
  __syncthreads();
  store_part(buffer, s);
#pragma unroll 1
  for (int i = 0; i < FEW(T); i++) {
    const few<T> factor = dropout_factors<T>(a, x, x.i + tile_y() * FEW(T) + i,
                                             x.j + tile_x() * FEW(T));
    few<T> &line = own_line(buffer, i);
    UNROLL(T, j) line.at[j] *= factor.at[j];
  }
  load_part(s, buffer);
}

/* }================================================================== */


/*
** sum += w^T m for columns from 'from' on of m, which is 'depth' rows of 'o' from 'start' on and
** is loaded into 'buffer'; w are weights in shared memory. A tile is summed before it is added.
*/
template <class S, class T>
INLINE void add_weighted (part<T> &sum, const attend &a, const head_operand &o, int64_t start,
                          int64_t from, int64_t columns, int depth, const T *w, T *buffer) {
  part<T> more;
  if (from >= columns) return;
  __syncthreads();                 /* w is written, nobody reads 'buffer' any more */
  bool bad = load_operand<S>(buffer, o, start + from * o.stride[3], 3, 2,
                             at_most(columns - from, SIDE(T)), depth, (T)1);
  bad = __syncthreads_or(bad);
  clear_part(more);
  if (bad && a.mask.n > 0) multiply_nonzero(more, w, buffer, depth);
  else multiply_tiles(more, w, buffer, depth);
  UNROLL(T, i) UNROLL(T, j) sum.at[i][j] += more.at[i][j];
}


/* Rows from 'row' on, columns from 'from' on of a result, by way of 'buffer'. */
template <class S, class T>
INLINE void store_result (const head_operand &o, int64_t start, int64_t rows, int64_t from,
                          int64_t columns, const part<T> &p, T factor, T *buffer) {
  __syncthreads();                 /* nobody reads 'buffer' any more */
  store_part(buffer, p);
#pragma unroll 1
  for (int n = 0; n < FEW(T) * FEW(T); n++) {
    const int64_t r = tile_y() * FEW(T) + n / FEW(T), c = from + tile_x() * FEW(T) + n % FEW(T);
    if (r < rows && c < columns)
      ((S *)o.data)[start + r * o.stride[2] + c * o.stride[3]] =
          convert<S>(own_line(buffer, n / FEW(T)).at[n % FEW(T)] * factor);
  }
}


/*
** {==================================================================
** Host: the kernels are for operands of one type, and its computing type
** ===================================================================
*/

static inline bool attention_fits (const view *v, heed_type type, bool computed) {
  if (computed && type != HEED_FLOAT64) type = HEED_FLOAT32;
  return view_is_none(v) || v->type == type;
}

/*
** Queries and keys must be counted in an int, and those of 32 tiles behind the last; so must the
** blocks of all heads, which have tiles of SIDE(double) queries or keys at least, or diagonals of
** such tiles.
*/
static inline bool attention_counts_fit (const attend &a) {
  const double tiles = (double)tiles_of<double>(a.T) + (double)tiles_of<double>(a.S);
  return max(a.T, a.S) < INT32_MAX - 33 * SIDE(float) &&
         (double)a.B * (double)a.H * tiles < INT32_MAX;
}

static inline const char *attention_refuse (cuda *self, const attend &a) {
  return cuda_refuse(self, attention_counts_fit(a) ? "operands of one floating type expected"
                           : "fewer heads, queries and keys expected: 2^31 blocks are too many");
}

/* }================================================================== */

#endif
