/*
** attention.h - what both directions of attention share: the work as kernels see it, who may
** attend to whom, scores, dropout.
**
** The exact kernels: any head size, mask, bias, strides and type, in memory that grows with T and
** S only. A block has a tile of queries (or of keys, for their gradients) and walks over the
** tiles of the other side; scores live in registers. Results wider than COLUMNS are shared out
** to several blocks, each of which makes the scores again.
**
** M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax" (2018); T. Dao et al.,
** "FlashAttention" (2022), for the gradient from the rows' normalisers.
*/

#ifndef cuda_attention_h
#define cuda_attention_h

#include "cuda/cuda.h"
#include "cuda/philox.h"
#include "cuda/tile.h"

#define COLUMNS(T, wide) ((wide) * SIDE(T))    /* of results that a block keeps in registers */
#define LOG2E 1.44269504088896340736
#define LOG_OF_2 0.69314718055994530942

typedef struct operand {           /* (B, H, rows, columns), or fewer of these axes */
  void *data;                      /* NULL: not there */
  heed_type type;
  int64_t stride[4];
} operand;

typedef struct attend {
  int64_t B, H, shared, T, S;      /* T queries, S keys; heads of q for one of k and v */
  int64_t D, Dv;
  int64_t tiles;                   /* of a head */
  double scale, factor;            /* of q k^T; the same to powers of 2, or to softcap's unit */
  double cap;                      /* softcap in powers of 2, or 0 */
  uint64_t drop;                   /* of dropout: the least draw that is kept; 0: none */
  double kept;                     /* what is kept is multiplied by */
  const uint64_t *key;
  struct mask mask;
  operand q, k, v, bias, masks[3];
  operand y, lse, weights;         /* forward: out */
  operand g, g_lse;                /* backward: in … */
  operand dq, dk, dv, dbias;       /* … and out */
  void *rows;                      /* backward: (2, B, H, T), see prepare_rows */
} attend;

static inline operand operand_of (const view *v) {        /* host */
  operand o = {NULL, HEED_BOOL, {0}};
  if (v->at.rank < 0) return o;    /* left out: its type is not set */
  o.data = v->data;
  o.type = v->type;
  for (int i = 0; i < v->at.rank && i < 4; i++) o.stride[i] = v->at.stride[i];
  return o;
}

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
  a.scale = w->number[0];
  a.factor = w->number[0] * LOG2E;
  if (w->number[1] != 0) {
    a.cap = w->number[1] * LOG2E;
    a.factor = w->number[0] / w->number[1];
  }
  a.kept = 1;
  if (w->number[2] != 0) {
    a.drop = (uint64_t)ceil(w->number[2] * 0x1p32);
    a.kept = 1 / (1 - w->number[2]);
    a.key = (const uint64_t *)w->in[ATTENTION_KEY].data;
  }
  a.mask = w->mask;
  a.q = operand_of(&w->in[ATTENTION_Q]);
  a.k = operand_of(&w->in[ATTENTION_K]);
  a.v = operand_of(&w->in[ATTENTION_V]);
  a.bias = operand_of(&w->in[ATTENTION_BIAS]);
  for (int i = 0; i < 3 && ATTENTION_MASK + i < w->nin; i++)
    a.masks[i] = operand_of(&w->in[ATTENTION_MASK + i]);
  return a;
}


/* A tile of queries from i on and keys from j on; both ends are those of the work, or before. */
typedef struct tile { int b, h, i, j, i_end, j_end; } tile;

INLINE tile tile_of (int64_t b, int64_t h, int64_t i, int64_t i_end, int64_t j, int64_t j_end) {
  const tile x = {(int)b, (int)h, (int)i, (int)j, (int)i_end, (int)j_end};
  return x;
}

INLINE int64_t head_at (const operand &o, int64_t b, int64_t h) {
  return b * o.stride[0] + h * o.stride[1];
}
INLINE int64_t row_at (const operand &o, const tile &x, int64_t i) {
  return head_at(o, x.b, x.h) + i * o.stride[2];
}


/*
** {==================================================================
** Who may attend. The only joint of masks is 'and', so each other node may simply block
** ===================================================================
*/

INLINE int64_t mask_length (const attend &a, int node, int64_t b) {
  const operand &o = a.masks[a.mask.node[node].operand - ATTENTION_MASK];
  return ((const int64_t *)o.data)[b * o.stride[0]];
}


/* The first key from which on nothing may be attended to by queries before i_end. */
INLINE int64_t mask_end (const attend &a, int64_t b, int64_t i_end) {
  int64_t end = a.S;
  for (int m = 0; m < a.mask.n; m++) {
    int64_t most = a.S;
    if (a.mask.node[m].kind == MASK_CAUSAL) most = i_end + a.mask.node[m].offset;
    if (a.mask.node[m].kind == MASK_LENGTHS) most = mask_length(a, m, b);
    end = min(end, max(most, (int64_t)0));
  }
  return end;
}


/* The first query that may attend to a key from j on. */
INLINE int64_t mask_begin (const attend &a, int64_t j) {
  int64_t begin = 0;
  for (int m = 0; m < a.mask.n; m++)
    if (a.mask.node[m].kind == MASK_CAUSAL) begin = max(begin, j - a.mask.node[m].offset);
  return begin;
}


/* May all of a tile attend to all, as can be describe without looking at each? */
template <class T> INLINE bool tile_is_free (const attend &a, const tile &x) {
  bool free = x.i + SIDE(T) <= x.i_end && x.j + SIDE(T) <= x.j_end;
  for (int m = 0; m < a.mask.n; m++) {
    if (a.mask.node[m].kind == MASK_DENSE) free = false;
    if (a.mask.node[m].kind == MASK_LENGTHS) free &= x.j + SIDE(T) <= mask_length(a, m, x.b);
    if (a.mask.node[m].kind == MASK_CAUSAL)
      free &= x.j + SIDE(T) - 1 <= x.i + a.mask.node[m].offset;
  }
  return free;
}


/* May query i attend to key j, both in the tile? */
INLINE bool ask_pair (const attend &a, const tile &x, int64_t i, int64_t j) {
  bool yes = true;
  for (int m = 0; m < a.mask.n; m++) {
    if (a.mask.node[m].kind == MASK_CAUSAL) yes &= j <= i + a.mask.node[m].offset;
    if (a.mask.node[m].kind == MASK_LENGTHS) yes &= j < mask_length(a, m, x.b);
    if (a.mask.node[m].kind == MASK_DENSE) {
      const operand &o = a.masks[a.mask.node[m].operand - ATTENTION_MASK];
      yes &= ((const uint8_t *)o.data)[row_at(o, x, i) + j * o.stride[3]] != 0;
    }
  }
  return yes;
}


/*
** One bit for each result of this thread: may this query attend to this key? False for the
** whole block if nobody may attend to anything. All threads call it.
*/
template <class T> INLINE bool ask_mask (const attend &a, const tile &x, unsigned *may) {
  *may = ~0u;
  if (tile_is_free<T>(a, x)) return true;
  const int64_t i0 = x.i + tile_y() * FEW(T), j0 = x.j + tile_x() * FEW(T);
  *may = 0;
#pragma unroll 1
  for (int n = 0; n < FEW(T) * FEW(T); n++) {
    const int64_t i = i0 + n / FEW(T), j = j0 + n % FEW(T);
    if (i < x.i_end && j < x.j_end && ask_pair(a, x, i, j)) *may |= 1u << n;
  }
  return __syncthreads_or(*may != 0);
}

/* }================================================================== */


/*
** {==================================================================
** Scores
** ===================================================================
*/

/* sum = a b^T of two operands (rows, depth), one tile each; 'one' and 'two' are shared memory. */
template <class S, class T>
INLINE void multiply_rows (part<T> &sum, const operand &a, int64_t a_start, int rows, T factor,
                           const operand &b, int64_t b_start, int columns, int64_t depth, T *one,
                           T *two) {
  const plain<const S, T> of_a = {(const S *)a.data}, of_b = {(const S *)b.data};
  clear_part(sum);
  for (int64_t d = 0; d < depth; d += SIDE(T)) {
    const int n = at_most(depth - d, SIDE(T));
    __syncthreads();
    load_tile(one, of_a, a_start + d * a.stride[3], a.stride[2], a.stride[3], rows, n, factor);
    load_tile(two, of_b, b_start + d * b.stride[3], b.stride[2], b.stride[3], columns, n, (T)1);
    __syncthreads();
    multiply_tiles(sum, one, two, n);
  }
}


/* The products of queries and keys of a tile, to the unit that score_of expects. */
template <class S, class T>
INLINE void multiply_keys (part<T> &s, const attend &a, const tile &x, T *one, T *two) {
  multiply_rows<S>(s, a.q, row_at(a.q, x, x.i), at_most(x.i_end - x.i, SIDE(T)), (T)a.factor, a.k,
                   head_at(a.k, x.b, x.h / a.shared) + x.j * a.k.stride[2],
                   at_most(x.j_end - x.j, SIDE(T)), a.D, one, two);
}


/* s = cap tanh(s); *slope = 1 - tanh(s)^2 */
template <class T> INLINE T cap_score (const attend &a, T s, T *slope) {
  const T t = tanh(s);
  *slope = 1 - t * t;
  return t * (T)a.cap;
}

template <class T> INLINE T bias_at (const attend &a, const tile &x, int64_t i, int64_t j) {
  return fetch<T>(a.bias.data, a.bias.type, row_at(a.bias, x, i) + j * a.bias.stride[3])
         * (T)LOG2E;
}


/* s becomes scores, as powers of 2, by way of 'room'; what may not be attended to -inf. */
template <class T>
INLINE void score_part (part<T> &s, const attend &a, const tile &x, unsigned may, T *room) {
  if (a.cap != 0 || a.bias.data != NULL) {
    __syncthreads();                           /* 'room' is not read any more */
    store_part(room, s);
#pragma unroll 1
    for (int n = 0; n < FEW(T) * FEW(T); n++) {
      const int64_t i = x.i + tile_y() * FEW(T) + n / FEW(T);
      const int64_t j = x.j + tile_x() * FEW(T) + n % FEW(T);
      T *at = &own_line(room, n / FEW(T)).at[n % FEW(T)], slope;
      if (a.cap != 0) *at = cap_score(a, *at, &slope);
      if (a.bias.data != NULL && may >> n & 1) *at += bias_at<T>(a, x, i, j);
    }
    load_part(s, room);
  }
  EACH(T, i) EACH(T, j)
    if (!(may >> (i * FEW(T) + j) & 1)) s.at[i][j] = -(T)INFINITY;
}


/* Dropout's factors of FEW elements of row i, from key j on: 0, or what is kept is worth. */
template <class T>
INLINE few<T> dropout_factors (const attend &a, const tile &x, int64_t i, int64_t j) {
  const uint64_t first = (uint64_t)(((x.b * a.H + x.h) * a.T + i) * a.S + j);
  uint32_t draw[4];
  few<T> factor = {};
  philox_draw(*a.key, first >> 2, draw);
#pragma unroll 1
  for (int turn = 0; turn < 2; turn++) {       /* they may lie across two counters */
    EACH(T, k) {
      const unsigned which = (unsigned)(first + k) & 3;
      const uint32_t one = which < 2 ? which == 0 ? draw[0] : draw[1]
                                     : which == 2 ? draw[2] : draw[3];
      if ((int)((first + k) >> 2 != first >> 2) == turn)
        factor.at[k] = one >= a.drop ? (T)a.kept : (T)0;
    }
    if (turn == 1 || (first & 3) + FEW(T) <= 4) break;
    philox_draw(*a.key, (first >> 2) + 1, draw);
  }
  return factor;
}


template <class T>
INLINE void drop_part (part<T> &s, const attend &a, const tile &x, T *room) {
  if (a.drop == 0) return;
  __syncthreads();
  store_part(room, s);
#pragma unroll 1
  for (int i = 0; i < FEW(T); i++) {
    const few<T> factor = dropout_factors<T>(a, x, x.i + tile_y() * FEW(T) + i,
                                             x.j + tile_x() * FEW(T));
    few<T> &line = own_line(room, i);
    EACH(T, j) line.at[j] *= factor.at[j];
  }
  load_part(s, room);
}

/* }================================================================== */


/*
** sum += w^T m for columns from 'from' on of m, which is 'depth' rows of 'o' from 'start' on and
** comes to 'room'; w are weights in shared memory. A tile is summed up before it is added.
*/
template <class S, class T>
INLINE void add_weighted (part<T> &sum, const attend &a, const operand &o, int64_t start,
                          int64_t from, int64_t columns, int depth, const T *w, T *room) {
  const plain<const S, T> of_o = {(const S *)o.data};
  part<T> more;
  if (from >= columns) return;
  __syncthreads();                 /* w is there, 'room' is not read any more */
  bool bad = load_tile(room, of_o, start + from * o.stride[3], o.stride[3], o.stride[2],
                       at_most(columns - from, SIDE(T)), depth, (T)1);
  bad = __syncthreads_or(bad);
  clear_part(more);
  if (bad && a.mask.n > 0) multiply_careful(more, w, room, depth);
  else multiply_tiles(more, w, room, depth);
  EACH(T, i) EACH(T, j) sum.at[i][j] += more.at[i][j];
}


/* Rows from 'row' on, columns from 'from' on of a result. */
template <class S, class T>
INLINE void store_result (const operand &o, int64_t start, int64_t rows, int64_t from,
                          int64_t columns, const part<T> &p, T factor) {
  EACH(T, i) EACH(T, j) {
    const int64_t r = tile_y() * FEW(T) + i, c = from + tile_x() * FEW(T) + j;
    if (r < rows && c < columns)
      ((S *)o.data)[start + r * o.stride[2] + c * o.stride[3]] = convert<S>(p.at[i][j] * factor);
  }
}


/*
** {==================================================================
** Host: the kernels are made for rows of one type, and what it is computed in
** ===================================================================
*/

template <class T> static inline int64_t tiles_of (int64_t n) {
  return (n + SIDE(T) - 1) / SIDE(T);
}

static inline bool attention_fits (const view *v, heed_type type, bool computed) {
  if (computed && type != HEED_FLOAT64) type = HEED_FLOAT32;
  return v->at.rank < 0 || v->type == type;
}

/* Heads, queries and keys are counted in an int. */
static inline bool attention_is_short (const attend &a) {
  return a.B < INT32_MAX && a.H < INT32_MAX && max(a.T, a.S) < INT32_MAX - 2 * SIDE(float);
}

static inline const char *attention_types (cuda *self) {
  return cuda_refuse(self, "attention: operands of one floating type expected");
}

/* }================================================================== */

#endif
