/*
** matmul.cu - products of matrices, of any type, strides and batches: by cuBLASLt where that is
** found and takes them, else by kernels of our own: large ones of float32 in float.cu, others here.
*/

#include "cuda/product/cublas.h"
#include "cuda/product/matmul.h"
#include "cuda/product/tile.h"

#define MOST_FEW (32 * 32 * 32)    /* multiplications of one matrix */


/*
** {==================================================================
** The kernel
** ===================================================================
*/

/* Sums go SIDE by SIDE of depth, then together, so that long ones stay accurate. */
template <class T, class E>
INLINE void sum_products (part<T> &sum, const products &p, const E &a, int64_t a_at, const E &b,
                          int64_t b_at, int rows, int columns, T *one, T *two) {
  const bool wanted = tile_y() * FEW(T) < rows && tile_x() * FEW(T) < columns;
  clear_part(sum);
  for (int64_t k = 0; k < p.depth; k += SIDE(T)) {
    const int depth = at_most(p.depth - k, SIDE(T));
    part<T> more;
    __syncthreads();
    load_tile(one, a, a_at + k * p.a.column, p.a.row, p.a.column, rows, depth, (T)1);
    load_tile(two, b, b_at + k * p.b.row, p.b.column, p.b.row, columns, depth, (T)1);
    __syncthreads();
    if (!wanted) continue;         /* this thread only loads: no part of c is its own */
    clear_part(more);
    multiply_tiles(more, one, two, depth);
    UNROLL(T, i) UNROLL(T, j) sum.at[i][j] = multiply_add(more.at[i][j], (T)1, sum.at[i][j]);
  }
}


template <class T, class E>
INLINE void store_products (const part<T> &sum, const products &p, const E &c, int64_t c_at,
                            const E &addend, int64_t addend_at, int rows, int columns, T *buffer) {
  __syncthreads();
  store_part(buffer, sum);
#pragma unroll 1
  for (int n = 0; n < FEW(T) * FEW(T); n++) {
    const int i = tile_y() * FEW(T) + n / FEW(T), j = tile_x() * FEW(T) + n % FEW(T);
    if (i >= rows || j >= columns) continue;
    const int64_t at = c_at + i * p.c.row + j * p.c.column;
    T y = multiply_add(own_line(buffer, n / FEW(T)).at[n % FEW(T)], (T)p.alpha, (T)0);
    if (p.added)
      y = multiply_add(addend.get(addend_at + i * p.addend.row + j * p.addend.column), (T)1, y);
    if (p.accumulate) y = multiply_add(c.get(at), (T)1, y);
    c.set(at, y);
  }
}


template <class T, class E>
KERNEL __launch_bounds__(TILE_THREADS, 2)
multiply (__grid_constant__ const products p, E a, E b, E c, E addend) {
  SHARED(T, one);
  T *two = one + TILE_SIZE(T);
  const int64_t tiles = p.across * p.down;
  for (int64_t n = blockIdx.x; n < tiles * p.batches; n += gridDim.x) {
    const int64_t batch = n / tiles, i = n % tiles / p.across * SIDE(T);
    const int64_t j = n % p.across * SIDE(T);
    const int rows = at_most(p.rows - i, SIDE(T)), columns = at_most(p.columns - j, SIDE(T));
    part<T> sum;
    sum_products(sum, p, a, element_offset(p.batch[0], batch) + i * p.a.row, b,
                 element_offset(p.batch[1], batch) + j * p.b.column, rows, columns, one, two);
    store_products(sum, p, c, element_offset(p.batch[2], batch) + i * p.c.row + j * p.c.column,
                   addend, element_offset(p.batch[3], batch) + i * p.addend.row +
                   j * p.addend.column, rows, columns, one);
  }
}

/* }================================================================== */


/*
** {==================================================================
** The work
** ===================================================================
*/

static side side_of (const layout *at) {
  const int r = at->rank - 2;
  const side s = {at->size[r] == 1 ? 0 : at->stride[r],
                  at->size[r + 1] == 1 ? 0 : at->stride[r + 1]};
  return s;
}


/* The addend with all axes of out: those it lacks come first. */
static layout addend_layout (const layout *at, const layout *out) {
  layout wide = *out;
  for (int i = 0, lacks = out->rank - at->rank; i < out->rank; i++)
    wide.stride[i] = i >= lacks && at->size[i - lacks] != 1 ? at->stride[i - lacks] : 0;
  return wide;
}


static bool has_addend (const work *w) { return w->nin > MATMUL_ADDEND; }


static products products_of (const work *w, const layout *addend) {
  const layout *at[BATCHED] = {&w->in[MATMUL_A].at, &w->in[MATMUL_B].at, &w->out[0].at, addend};
  const int rank = w->out[0].at.rank;
  layout batch[BATCHED];
  const layout *all[BATCHED];
  products p;
  for (int i = 0; i < BATCHED; i++) {
    batch[i] = *at[i];
    batch[i].rank = rank - 2;
    all[i] = &batch[i];
  }
  paths_of(BATCHED, all, p.batch);
  p.rows = at[2]->size[rank - 2];
  p.columns = at[2]->size[rank - 1];
  p.depth = at[0]->size[rank - 1];
  p.batches = layout_numel(&batch[2]);
  p.alpha = w->matmul.alpha;
  p.accumulate = w->matmul.accumulate;
  p.added = has_addend(w);
  p.a = side_of(at[0]);
  p.b = side_of(at[1]);
  p.c = side_of(at[2]);
  p.addend = side_of(at[3]);
  return p;
}


template <class T, class E>
static const char *multiply_with (cuda *self, products &p, E a, E b, E c, E addend) {
  p.across = (p.columns + SIDE(T) - 1) / SIDE(T);
  p.down = (p.rows + SIDE(T) - 1) / SIDE(T);
  const int64_t blocks = min(p.across * p.down * p.batches, (int64_t)INT32_MAX);
  return launch(self, dim3((unsigned)blocks), dim3(TILE_THREADS),
                2 * TILE_SIZE(T) * sizeof(T), multiply<T, E>, p, a, b, c, addend);
}


/* All of one type; and, slower, of types that are looked up for each element. */
template <class S> static const char *multiply_typed (cuda *self, products &p, void *const d[]) {
  typedef typed_elements<S, COMPUTED(S)> E;
  return multiply_with<COMPUTED(S)>(self, p, E{(S *)d[0]}, E{(S *)d[1]}, E{(S *)d[2]},
                                    E{(S *)d[3]});
}

template <class T>
static const char *multiply_mixed (cuda *self, products &p, const work *w, void *const d[]) {
  typedef mixed_elements<T> E;
  const heed_type added = has_addend(w) ? w->in[MATMUL_ADDEND].type : w->out[0].type;
  return multiply_with<T>(self, p, E{d[0], w->in[MATMUL_A].type},
                          E{d[1], w->in[MATMUL_B].type}, E{d[2], w->out[0].type}, E{d[3], added});
}


/* Products of few numbers: a tile of float.cu would be mostly empty. Sums of them are rounded step
   by step, as the CPU's. */
static bool has_few (const products &p) {
  return p.rows <= MOST_FEW && p.columns <= MOST_FEW && p.depth <= MOST_FEW &&
         p.rows * p.columns * p.depth <= MOST_FEW;
}


static const char *multiply_tiled (cuda *self, const work *w) {
  const heed_type type = w->out[0].type;
  const bool added = has_addend(w);
  const view *y = &w->out[0], *more = &w->in[MATMUL_ADDEND];
  const layout addend = added ? addend_layout(&more->at, &y->at) : y->at;
  void *const data[BATCHED] = {w->in[MATMUL_A].data, w->in[MATMUL_B].data, y->data,
                               added ? more->data : NULL};
  products p = products_of(w, &addend);
  bool same = true;
  for (int i = 0; i < w->nin; i++) {
    if (w->in[i].data == NULL) return cuda_refuse(self, "a tensor expected, got a number");
    same &= w->in[i].type == type;
  }
  if (same && type == HEED_FLOAT32 && !has_few(p))
    return multiply_floats(self, p, {(const float *)data[0], (const float *)data[1],
                                     (const float *)data[3], (float *)data[2]});
  if (same && type == HEED_INT64) return multiply_typed<int64_t>(self, p, data);
  if (same) FOR_FLOAT(type, return multiply_typed<S>(self, p, data))
  if (type == HEED_FLOAT64) return multiply_mixed<double>(self, p, w, data);
  return scalar_is_float(type) ? multiply_mixed<float>(self, p, w, data)
                               : multiply_mixed<int64_t>(self, p, w, data);
}


const char *cuda_matmul (cuda *self, const work *w) {
  const char *why = NULL;
  if (layout_numel(&w->out[0].at) == 0 || cublas_matmul(self, w, &why)) return why;
  return multiply_tiled(self, w);
}

/* }================================================================== */
