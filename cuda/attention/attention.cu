/*
** attention.cu - attention: y = softmax(scale q k^T + biases) v, its rows' normalisers, and the
** weights if they are wanted. See attention.h.
*/

#include "cuda/attention/few.h"
#include "cuda/attention/ways.h"


/* This thread's queries, after the keys so far: an online softmax. */
template <class T, int WIDE> struct progress {
  part<T> y[WIDE];                 /* the weighted sum of values */
  T top[FEW(T)], sum[FEW(T)];      /* largest score, sum of weights relative to it */
};

template <class T, int WIDE> INLINE void begin_rows (progress<T, WIDE> &p) {
#pragma unroll
  for (int c = 0; c < WIDE; c++) clear_part(p.y[c]);
  UNROLL(T, i) {
    p.top[i] = -(T)INFINITY;
    p.sum[i] = 0;
  }
}


/* Scores s become weights relative to the largest so far; the sums so far are rescaled. */
template <class T, int WIDE> INLINE void online_softmax (progress<T, WIDE> &p, part<T> &s) {
  UNROLL(T, i) {
    T top = p.top[i], sum = 0;
    UNROLL(T, j) top = larger()(s.at[i][j], top);
    top = row_reduce(larger(), top);
    const T base = top == -(T)INFINITY ? (T)0 : top;
    UNROLL(T, j) {
      s.at[i][j] = exp2(s.at[i][j] - base);
      sum += s.at[i][j];
    }
    const T fade = exp2(p.top[i] - base);
    p.sum[i] = p.sum[i] * fade + row_reduce(plus(), sum);
    p.top[i] = top;
#pragma unroll
    for (int c = 0; c < WIDE; c++) UNROLL(T, j) p.y[c].at[i][j] *= fade;
  }
}


/* The next tile of keys; the block computes columns from 'from' on. */
template <class S, class T, int WIDE>
INLINE void attend_tile (const attend &a, const tile &x, unsigned may, int64_t from,
                         progress<T, WIDE> &p, T *one, T *two) {
  part<T> s;
  multiply_keys<S>(s, a, x, one, two);
  score_part(s, a, x, may, one);
  online_softmax(p, s);
  drop_part(s, a, x, one);
  __syncthreads();                 /* nobody reads 'one' any more */
  store_part_transposed(one, s);
#pragma unroll
  for (int c = 0; c < WIDE; c++)
    add_weighted<S>(p.y[c], a, a.v, head_at(a.v, x.b, head_of_keys(a, x.h)) + x.j * a.v.stride[2],
                    from + c * SIDE(T), a.Dv, at_most(a.S - x.j, SIDE(T)), one, two);
}


/* y = y / sum, 0 where nothing was attended to; sum becomes the row's logsumexp. */
template <class S, class T, int WIDE>
INLINE void end_rows (const attend &a, const tile &x, int64_t from, progress<T, WIDE> &p,
                      T *buffer) {
  UNROLL(T, i) {
    const T share = p.sum[i] == 0 ? (T)0 : 1 / p.sum[i];
#pragma unroll
    for (int c = 0; c < WIDE; c++) UNROLL(T, j) p.y[c].at[i][j] *= share;
    p.sum[i] = p.top[i] * (T)LOG_OF_2 + log(p.sum[i]);
    const int64_t row = x.i + tile_y() * FEW(T) + i;
    if (from == 0 && tile_x() == 0 && row < a.T)
      ((T *)a.lse.data)[row_at(a.lse, x, row)] = p.sum[i];
  }
#pragma unroll
  for (int c = 0; c < WIDE; c++)
    store_result<S>(a.y, row_at(a.y, x, x.i), a.T - x.i, from + c * SIDE(T), a.Dv, p.y[c],
                    (T)1, buffer);
}


/* A block: a tile of queries (blockIdx.x), and COLUMNS of y (blockIdx.y). */
template <class S, int WIDE>
KERNEL __launch_bounds__(TILE_THREADS, 2) attend_rows (__grid_constant__ const attend a) {
  typedef COMPUTED(S) T;
  SHARED(T, one);
  T *two = one + TILE_SIZE(T);
  const int64_t from = (int64_t)blockIdx.y * COLUMNS(T, WIDE);
  int n;
  tile x = tile_of_block(a, a.H, blockIdx.x, &n);
  x.i = ((int)a.tiles - 1 - n) * SIDE(T);      /* the longest first */
  tile_line<0, 1> keys(x);
  progress<T, WIDE> p;
  unsigned may;
  begin_rows(p);
  while (more_tiles<T>(keys, a.mask, x)) {
    if (!take_tile<T>(keys, a.mask, x, &may)) continue;
    attend_tile<S>(a, x, may, from, p, one, two);
  }
  end_rows<S>(a, x, from, p, one);
}


/* The weights themselves, from lse: a block for each tile of queries and keys. */
template <class S>
KERNEL __launch_bounds__(TILE_THREADS, 2) attend_weights (__grid_constant__ const attend a) {
  typedef COMPUTED(S) T;
  SHARED(T, one);
  T *two = one + TILE_SIZE(T);
  int n;
  tile x = tile_of_block(a, a.H, blockIdx.x, &n);
  x.i = n * SIDE(T);
  for (x.j = (int)blockIdx.y * SIDE(T); x.j < a.S; x.j += (int)gridDim.y * SIDE(T)) {
    const unsigned kind = kind_of<T>(a.mask, x);
    unsigned may;
    part<T> s;
    clear_part(s);
    if (kind != TILE_NONE && tile_may_attend<T>(a.mask, x, kind == TILE_ALL, &may)) {
      multiply_keys<S>(s, a, x, one, two);
      score_part(s, a, x, may, one);
      UNROLL(T, i) {
        const int64_t row = min((int64_t)x.i + tile_y() * FEW(T) + i, a.T - 1);
        const T lse = ((const T *)a.lse.data)[row_at(a.lse, x, row)];
        const T base = lse == -(T)INFINITY ? (T)0 : lse * (T)LOG2E;
        UNROLL(T, j)
          s.at[i][j] = s.at[i][j] == -(T)INFINITY ? (T)0 : exp2(s.at[i][j] - base);
      }
      drop_part(s, a, x, one);
    }
    store_result<S>(a.weights, row_at(a.weights, x, x.i), a.T - x.i, x.j, a.S, s, (T)1, one);
  }
}


template <class S, int WIDE> static const char *attend_with (cuda *self, attend a) {
  typedef COMPUTED(S) T;
  const size_t shared = 2 * TILE_SIZE(T) * sizeof(T);
  const char *why = cuda_find_ids(self, &a.mask, a.B, SIDE(T));
  if (why != NULL) return why;
  a.tiles = tiles_of<T>(a.T);
  const unsigned rows = (unsigned)(a.tiles * a.H * a.B);
  const unsigned groups = (unsigned)((a.Dv + COLUMNS(T, WIDE) - 1) / COLUMNS(T, WIDE));
  return launch(self, dim3(rows, max(groups, 1u)), dim3(TILE_THREADS), shared,
                attend_rows<S, WIDE>, a);
}


template <class S> static const char *weigh_with (cuda *self, attend a) {
  typedef COMPUTED(S) T;
  const char *why = cuda_find_ids(self, &a.mask, a.B, SIDE(T));
  if (why != NULL) return why;
  a.tiles = tiles_of<T>(a.T);
  const unsigned rows = (unsigned)(a.tiles * a.H * a.B);
  const unsigned keys = (unsigned)min(tiles_of<T>(a.S), (int64_t)65535);
  return launch(self, dim3(rows, keys), dim3(TILE_THREADS), 2 * TILE_SIZE(T) * sizeof(T),
                attend_weights<S>, a);
}


static const char *attend_exact (cuda *self, const attend &a) {
  FOR_FLOAT(a.q.type, return a.Dv > SIDE(COMPUTED(S)) ? attend_with<S, widest<S>>(self, a)
                                                      : attend_with<S, 1>(self, a))
  return attention_refuse(self, a);
}


/* From lse, whichever way made it: the results are the same with weights and without. */
static const char *weigh (cuda *self, const attend &a) {
  if (a.weights.data == NULL) return NULL;
  FOR_FLOAT(a.q.type, return weigh_with<S>(self, a))
  return attention_refuse(self, a);
}


static const attention_way ways[] = {
  {"few queries", attention_fits_few, attention_few},
  {"warpgroups", attention_fits_groups, attend_with_groups},
  {"fast", attention_fits_fast, attend_fast},
  {"one product of TF32", attention_fits_one_tf32, attend_one_tf32},
  {"three products of TF32", attention_fits_three_tf32, attend_three_tf32},
  {"exact", attention_fits_exact, attend_exact}
};


const char *cuda_attention (cuda *self, const work *w) {
  attend a = attend_of(w);
  const char *why = cuda_check_lengths(self, &a.mask, a.B);
  if (why != NULL) return why;
  a.y = head_operand_of(&w->out[ATTENTION_Y]);
  a.lse = head_operand_of(&w->out[ATTENTION_Y_LSE]);
  a.weights = head_operand_of(&w->out[ATTENTION_WEIGHTS]);
  bool fits = attention_counts_fit(a) && attention_fits(&w->out[ATTENTION_Y_LSE], a.q.type, true) &&
              attention_fits(&w->out[ATTENTION_Y], a.q.type, false) &&
              attention_fits(&w->out[ATTENTION_WEIGHTS], a.q.type, false);
  for (int i = ATTENTION_Q; i <= ATTENTION_V; i++)
    fits &= attention_fits(&w->in[i], a.q.type, false);
  if (!fits) return attention_refuse(self, a);
  why = attention_take(self, ways, a);
  return why != NULL ? why : weigh(self, a);
}
