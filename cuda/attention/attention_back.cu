/*
** attention_back.cu - the gradients of attention. See attention.h.
**
** With weights p = 2^(s - lse), computed again, and g the gradient of y: dv = p^T g, dp = g v^T,
** ds = p (dp - delta), delta = sum(g y) less the gradient of lse; dq = scale ds k, dk = scale
** ds^T q. One pass over the keys makes dq and dbias, one over the queries dk and dv, so that one
** block makes each sum, in a fixed order; heads of q that share keys come one after the other. For
** the biases by distance a third pass goes along the diagonals.
*/

#include "cuda/attention/attention_back.h"
#include "cuda/attention/attention_bands.h"
#include "cuda/mma.h"

#define ROWS_THREADS 128           /* of prepare_rows: one for each query */
#define ROWS_COLUMNS 16            /* that it reads at a time: as many halves are a sector */


/*
** {==================================================================
** Two numbers for each query: lse as an exponent of 2, and delta
** ===================================================================
*/

/* A warp reads these columns of its 32 queries, neighbours by neighbours. */
template <class T> struct read_columns { T g[32][ROWS_COLUMNS + 1], y[32][ROWS_COLUMNS + 1]; };

/* Columns from 'from' on, 0 where none are; x is the first of the queries. */
template <class S, class T>
INLINE void read_operand (T (*to)[ROWS_COLUMNS + 1], const attend &a, const head_operand &o,
                          const tile &x, int64_t from) {
  const int column = lane_of() % ROWS_COLUMNS, first = lane_of() / ROWS_COLUMNS;
  const int64_t at = row_at(o, x, x.i) + (from + column) * o.stride[3];
  const int rows = from + column < a.Dv ? at_most(a.T - x.i, 32) : 0;
#pragma unroll
  for (int r = first; r < 32; r += 32 / ROWS_COLUMNS)
    to[r][column] = r < rows ? (T)wide(((const S *)o.data)[at + r * o.stride[2]]) : (T)0;
}


/*
** Of query x.i + lane. It is summed in the order of dp, so that the two are equal where a query
** attends to one key only.
*/
template <class S, class T>
INLINE T delta_of (const attend &a, const tile &x, read_columns<T> &read) {
  const int l = lane_of();
  T sum = 0;
  for (int64_t from = 0; from < a.Dv; from += ROWS_COLUMNS) {
    __syncwarp();
    read_operand<S>(read.g, a, a.g, x, from);
    read_operand<S>(read.y, a, a.y, x, from);
    __syncwarp();
#pragma unroll
    for (int c = 0; c < ROWS_COLUMNS; c++) sum = multiply_add(read.g[l][c], read.y[l][c], sum);
  }
  return sum;
}


/* Where nothing is attended to, lse becomes +inf, as weights are 2^-inf then. */
template <class S> KERNEL prepare_rows (__grid_constant__ const attend a) {
  typedef COMPUTED(S) T;
  __shared__ read_columns<T> read[ROWS_THREADS / 32];
  const int64_t rows = a.prepared, n = a.B * a.H * rows;
  for (int64_t r = first_index(); r < n; r += index_step()) {
    const tile x = tile_of(r / rows / a.H, r / rows % a.H, r % rows - lane_of(), 0);
    const T sum = delta_of<S>(a, x, read[threadIdx.x / 32]);
    const int64_t row = x.i + lane_of();
    T lse = (T)INFINITY, from_lse = 0;
    if (row < a.T) {
      lse = ((const T *)a.lse.data)[row_at(a.lse, x, row)] * (T)LOG2E;
      if (a.g_lse.data != NULL) from_lse = ((const T *)a.g_lse.data)[row_at(a.g_lse, x, row)];
    }
    lse_of_rows<T>(a)[r] = lse == -(T)INFINITY ? (T)INFINITY : lse;
    delta_of_rows<T>(a)[r] = sum - from_lse;
  }
}

/* }================================================================== */


/*
** {==================================================================
** p and ds of a tile
** ===================================================================
*/

/* Gradients ds: of products, or of what is added to them once they are capped. */
enum { OF_PRODUCTS, OF_BIASES };

/*
** Of line i of this thread: products p and dp become weights, after dropout, and gradients ds.
** Where a key is blocked both are 0, even if the row's normaliser or the key is NaN. 'relative'
** holds the biases by distance.
*/
template <class S, int DS, class T>
INLINE void weigh_line (T *of_p, T *of_dp, const T *relative, const attend &a, const tile &x,
                        unsigned may, int i, bool to_bias) {
  const int row = x.i + tile_y() * FEW(T) + i, key = x.j + tile_x() * FEW(T);
  const bool inside = row < a.T;
  const int64_t at = prepared_row(a, x, row);
  const T lse = lse_of_rows<T>(a)[at], delta = delta_of_rows<T>(a)[at];
  few<T> p = own_line(of_p, i), ds = own_line(of_dp, i), factor;
  if (a.drop != 0) factor = dropout_factors<T>(a, x, row, key);
  UNROLL(T, j) {
    T derivative = 1, score = p.at[j];
    const bool yes = may >> (i * FEW(T) + j) & 1;
    if (a.cap != 0) score = cap_score(a, score, &derivative);
    if (yes && a.bias.data != NULL) score += bias_at<T>(a, x, row, key + j);
    if (a.relative.data != NULL) score += own_relative(relative)[i - j];
    const T weight = yes && score != -(T)INFINITY ? exp2(score - lse) : (T)0, dp = ds.at[j];
    p.at[j] = weight;
    ds.at[j] = weight * (dp - delta);
    if (a.drop != 0) {             /* dp counts with the weights after it, delta not */
      p.at[j] = weight * factor.at[j];
      ds.at[j] = p.at[j] * dp - weight * delta;
    }
    if (!yes || (weight == 0 && a.mask.n > 0)) ds.at[j] = derivative = 0;
    if (to_bias && inside && key + j < a.S)
      ((S *)a.dbias.data)[row_at(a.dbias, x, row) + (key + j) * a.dbias.stride[3]] =
          convert<S>(ds.at[j]);
    if (DS == OF_PRODUCTS) ds.at[j] *= derivative;
  }
  own_line(of_p, i) = p;
  own_line(of_dp, i) = ds;
}


/* Into 'p' and 'ds'; 'buffer' is one more tile of shared memory. */
template <class S, int DS, class T>
INLINE void make_gradients (T *p, T *ds, T *buffer, const attend &a, const tile &x, unsigned may,
                            bool to_bias) {
  part<T> sum;
  multiply_rows<S>(sum, a.g, row_at(a.g, x, x.i), at_most(a.T - x.i, SIDE(T)), (T)1, a.v,
                   head_at(a.v, x.b, head_of_keys(a, x.h)) + x.j * a.v.stride[2],
                   at_most(a.S - x.j, SIDE(T)), a.Dv, p, buffer);
  __syncthreads();                 /* nobody reads 'ds' of the tile before any more */
  store_part(ds, sum);
  multiply_keys<S>(sum, a, x, p, buffer);
  __syncthreads();
  store_part(p, sum);
  if (a.relative.data != NULL) {
    load_relative(buffer, a, x);
    __syncthreads();
  }
#pragma unroll 1
  for (int i = 0; i < FEW(T); i++) weigh_line<S, DS>(p, ds, buffer, a, x, may, i, to_bias);
}

/* }================================================================== */


/*
** {==================================================================
** dq and dbias: a block has a tile of queries, and COLUMNS of dq
** ===================================================================
*/

/* The bias's gradient is 0 where nothing is attended to: first in all rows of these queries. */
template <class S, class T> INLINE void clear_bias (const attend &a, const tile &x) {
  for (int64_t j = tile_x() * FEW(T); j < a.S; j += SIDE(T))
    UNROLL(T, r) UNROLL(T, c) {
      const int64_t row = x.i + tile_y() * FEW(T) + r, key = j + c;
      if (row < a.T && key < a.S)
        ((S *)a.dbias.data)[row_at(a.dbias, x, row) + key * a.dbias.stride[3]] = convert<S>((T)0);
    }
}


template <class S, int WIDE>
KERNEL __launch_bounds__(TILE_THREADS, 2) attend_back_rows (__grid_constant__ const attend a) {
  typedef COMPUTED(S) T;
  SHARED(T, p);
  T *ds = p + TILE_SIZE(T), *buffer = ds + TILE_SIZE(T);
  const int64_t from = (int64_t)blockIdx.y * COLUMNS(T, WIDE);
  const bool to_bias = from == 0 && a.dbias.data != NULL;
  int n;
  tile x = tile_of_block(a, a.H, blockIdx.x, &n);
  x.i = ((int)a.tiles - 1 - n) * SIDE(T);      /* the longest first */
  tile_line<0, 1> keys(x);
  const int64_t k_head = head_at(a.k, x.b, head_of_keys(a, x.h));
  part<T> dq[WIDE];
  unsigned may;
#pragma unroll
  for (int c = 0; c < WIDE; c++) clear_part(dq[c]);
  if (to_bias && a.mask.n > 0) clear_bias<S, T>(a, x);    /* each thread what it writes later */
  while (more_tiles<T>(keys, a.mask, x)) {
    if (!take_tile<T>(keys, a.mask, x, &may)) continue;
    part<T> own;
    make_gradients<S, OF_PRODUCTS>(p, ds, buffer, a, x, may, to_bias);
    load_part(own, ds);
    __syncthreads();
    store_part_transposed(p, own);
#pragma unroll
    for (int c = 0; c < WIDE; c++)
      add_weighted<S>(dq[c], a, a.k, k_head + x.j * a.k.stride[2], from + c * SIDE(T), a.D,
                      at_most(a.S - x.j, SIDE(T)), p, buffer);
  }
#pragma unroll
  for (int c = 0; c < WIDE; c++)
    store_result<S>(a.dq, row_at(a.dq, x, x.i), a.T - x.i, from + c * SIDE(T), a.D, dq[c],
                    (T)a.scale, buffer);
}

/* }================================================================== */


/*
** {==================================================================
** dk and dv: a block has a tile of keys, and COLUMNS of each
** ===================================================================
*/

template <class T, int WIDE> struct gradients { part<T> dk[WIDE], dv[WIDE]; };


/* The part of a tile of queries, from its p and ds; columns from 'from' on. */
template <class S, class T, int WIDE>
INLINE void add_queries (gradients<T, WIDE> &sum, const T *p, const T *ds, T *buffer,
                         const attend &a, const tile &x, int64_t from) {
  const int rows = at_most(a.T - x.i, SIDE(T));
#pragma unroll
  for (int c = 0; c < WIDE; c++) {
    const int64_t first = from + c * SIDE(T);
    add_weighted<S>(sum.dv[c], a, a.g, row_at(a.g, x, x.i), first, a.Dv, rows, p, buffer);
    add_weighted<S>(sum.dk[c], a, a.q, row_at(a.q, x, x.i), first, a.D, rows, ds, buffer);
  }
}


/* A block's keys, of all heads of queries that share them the first one. */
template <class T> INLINE tile keys_of_block (const attend &a, int64_t block) {
  int n;
  tile x = tile_of_block(a, head_of_keys(a, (int)a.H), block, &n);
  x.h *= (int)a.shared;
  x.j = n * SIDE(T);
  return x;
}


template <class S, int WIDE>
KERNEL __launch_bounds__(TILE_THREADS, WIDE == 1 ? 2 : 1)
attend_back_keys (__grid_constant__ const attend a) {
  typedef COMPUTED(S) T;
  SHARED(T, p);
  T *ds = p + TILE_SIZE(T), *buffer = ds + TILE_SIZE(T);
  const int64_t from = (int64_t)blockIdx.y * COLUMNS(T, WIDE);
  tile x = keys_of_block<T>(a, blockIdx.x);
  gradients<T, WIDE> sum;
  unsigned may;
#pragma unroll
  for (int c = 0; c < WIDE; c++) {
    clear_part(sum.dk[c]);
    clear_part(sum.dv[c]);
  }
  for (int rest = (int)a.shared; rest > 0; rest--, x.h++) {
    x.i = 0;
    tile_line<1, 0> queries(x);
    while (more_tiles<T>(queries, a.mask, x)) {
      if (!take_tile<T>(queries, a.mask, x, &may)) continue;
      make_gradients<S, OF_PRODUCTS>(p, ds, buffer, a, x, may, false);
      add_queries<S>(sum, p, ds, buffer, a, x, from);
    }
  }
  x = keys_of_block<T>(a, ptx_anew(blockIdx.x));         /* rather than kept beside the sums */
  x.h = head_of_keys(a, x.h);
#pragma unroll
  for (int c = 0; c < WIDE; c++) {
    const int64_t first = from + c * SIDE(T);
    store_result<S>(a.dk, row_at(a.dk, x, x.j), a.S - x.j, first, a.D, sum.dk[c], (T)a.scale,
                    buffer);
    store_result<S>(a.dv, row_at(a.dv, x, x.j), a.S - x.j, first, a.Dv, sum.dv[c], (T)1, buffer);
  }
}

/* }================================================================== */


/*
** {==================================================================
** drelative: see attention_bands.h
** ===================================================================
*/

template <class T> using exact_band = band_tiles<T, SIDE(T), LINE(T), TILE_THREADS>;

template <class S>
KERNEL __launch_bounds__(TILE_THREADS, 2) attend_back_diagonals (__grid_constant__ const attend a) {
  typedef COMPUTED(S) T;
  SHARED(T, p);
  T *ds = p + TILE_SIZE(T), *buffer = ds + TILE_SIZE(T);
  tile x = first_of_band<exact_band<T>>(a);
  tile_line<1, 1> diagonal(x);
  diagonals<T> sum = {0, 0};
  unsigned may;
  while (more_tiles<T>(diagonal, a.mask, x)) {
    if (!take_tile<T>(diagonal, a.mask, x, &may)) continue;
    make_gradients<S, OF_BIASES>(p, ds, buffer, a, x, may, false);
    __syncthreads();               /* ds is written */
    add_diagonals<exact_band<T>>(sum, ds);
  }
  store_diagonals<exact_band<T>>(a, sum, p);
}


template <class S> static const char *back_relative (cuda *self, const attend &a) {
  typedef COMPUTED(S) T;
  return run_bands<exact_band<T>>(self, a, attend_back_diagonals<S>,
                                  3 * TILE_SIZE(T) * sizeof(T));
}

/* }================================================================== */


static unsigned groups_of (int64_t columns, int of_block) {
  return (unsigned)max((columns + of_block - 1) / of_block, (int64_t)1);
}


template <class S, int WIDE> static const char *back_with (cuda *self, attend a) {
  typedef COMPUTED(S) T;
  const size_t shared = 3 * TILE_SIZE(T) * sizeof(T);
  const char *why = cuda_find_ids(self, &a.mask, a.B, SIDE(T));
  if (why == NULL && a.drelative.data != NULL) why = back_relative<S>(self, a);
  if (why != NULL) return why;
  a.tiles = tiles_of<T>(a.T);
  dim3 blocks((unsigned)(a.tiles * a.H * a.B), groups_of(a.D, COLUMNS(T, WIDE)));
  why = launch(self, blocks, dim3(TILE_THREADS), shared, attend_back_rows<S, WIDE>, a);
  if (why != NULL) return why;
  a.tiles = tiles_of<T>(a.S);
  blocks = dim3((unsigned)(a.tiles * (a.H / a.shared) * a.B),
                groups_of(max(a.D, a.Dv), COLUMNS(T, WIDE)));
  return launch(self, blocks, dim3(TILE_THREADS), shared, attend_back_keys<S, WIDE>, a);
}


static const char *back_exact (cuda *self, const attend &a) {
  FOR_FLOAT(a.q.type, return max(a.D, a.Dv) > SIDE(COMPUTED(S))
                             ? back_with<S, widest<S>>(self, a) : back_with<S, 1>(self, a))
  return attention_refuse(self, a);
}


static const attention_way ways[] = {
  {"warpgroups", attention_fits_groups_back, back_by_groups},
  {"fast", attention_fits_fast_back, back_fast},
  {"exact", attention_fits_exact, back_exact}
};


template <class S> static const char *prepare (cuda *self, attend *a) {
  a->prepared = (a->T + PREPARED - 1) / PREPARED * PREPARED;
  const int64_t n = a->B * a->H * a->prepared;
  a->rows = cuda_scratch(self, (size_t)(2 * n) * sizeof(COMPUTED(S)));
  if (a->rows == NULL) return cuda_no_memory;
  return launch(self, cuda_blocks(self, n, ROWS_THREADS), dim3(ROWS_THREADS), 0, prepare_rows<S>,
                *a);
}


static const char *prepare_and_take (cuda *self, attend a) {
  const char *why = NULL;
  FOR_FLOAT(a.q.type, why = prepare<S>(self, &a))
  return why != NULL ? why : attention_take(self, ways, a);
}


const char *cuda_attention_back (cuda *self, const work *w) {
  attend a = attend_of(w);
  a.g = head_operand_of(&w->in[ATTENTION_GRADIENT]);
  a.y = head_operand_of(&w->in[ATTENTION_OUTPUT]);
  a.lse = head_operand_of(&w->in[ATTENTION_LSE]);
  a.g_lse = head_operand_of(&w->in[ATTENTION_GRADIENT_LSE]);
  a.dq = head_operand_of(&w->out[ATTENTION_DQ]);
  a.dk = head_operand_of(&w->out[ATTENTION_DK]);
  a.dv = head_operand_of(&w->out[ATTENTION_DV]);
  a.dbias = head_operand_of(&w->out[ATTENTION_DBIAS]);
  a.drelative = head_operand_of(&w->out[ATTENTION_DRELATIVE]);
  bool fits = attention_counts_fit(a) && attention_fits(&w->in[ATTENTION_LSE], a.q.type, true) &&
              attention_fits(&w->in[ATTENTION_GRADIENT_LSE], a.q.type, true) &&
              attention_fits(&w->out[ATTENTION_DRELATIVE], a.q.type, true);
  for (int i = ATTENTION_Q; i <= ATTENTION_V; i++)
    fits &= attention_fits(&w->in[i], a.q.type, false);
  for (int i = ATTENTION_GRADIENT; i <= ATTENTION_OUTPUT; i++)
    fits &= attention_fits(&w->in[i], a.q.type, false);
  for (int i = 0; i < ATTENTION_DRELATIVE; i++) fits &= attention_fits(&w->out[i], a.q.type, false);
  return fits ? prepare_and_take(self, a) : attention_refuse(self, a);
}
