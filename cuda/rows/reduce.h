/*
** reduce.h - reductions: a thread group for each result, or for each part of a row where there
** are few results.
**
** How a row is cut depends on shapes alone, and parts are joined in one order, so that results
** are the same from run to run.
**
** A reducer F<T> says what is made of elements of the computing type T: it has a state, which
** begins as none(); take() adds a pack of elements to it, F itself joins two states, finish()
** writes a result. The files reduce_*.cu hold the reducers; reduce.cu chooses among them.
*/

#ifndef cuda_reduce_h
#define cuda_reduce_h

#include "cuda/rows/rows.h"

#define BLOCK_THREADS 512
#define ENOUGH_THREADS ((int64_t)1 << 18)        /* that keep a GPU busy */
#define MOST_PARTS 1024


typedef struct reduce_result { void *data; heed_type type; path at; } reduce_result;

typedef struct reduce_work {
  thread_groups all;
  row_operand x;                   /* over the axes of the results; 'stride' is not used */
  path row;                        /* over those that are reduced */
  int64_t count;                   /* elements of a row */
  int64_t segment;                 /* elements of a part of a row */
  bool dense;                      /* see iterate */
  bool low;                        /* the least, not the largest */
  bool zero;                       /* is one of them 0, not: is one not 0 */
  bool averages;                   /* sums are divided by 'count', and kept in 'mean' */
  bool positions;                  /* results are positions */
  double *mean;                    /* (results), or NULL: 0 */
  void *parts;                     /* (results, parts) states */
  int nout;
  reduce_result y[2];
} reduce_work;

#pragma GCC visibility push(hidden)

const char *reduce_sums (cuda *self, reduce_work *d);
const char *reduce_products (cuda *self, reduce_work *d);
const char *reduce_extremes (cuda *self, reduce_work *d);
const char *reduce_bools (cuda *self, reduce_work *d);
const char *reduce_squares (cuda *self, reduce_work *d);     /* of x - mean */
const char *reduce_exponentials (cuda *self, reduce_work *d);

#pragma GCC visibility pop


/*
** {==================================================================
** Kernels
** ===================================================================
*/

template <class A> INLINE void put_result (const reduce_work &d, int i, int64_t row, A value) {
  put(d.y[i].data, d.y[i].type, element_offset(d.y[i].at, row), value);
}


/* A row over several axes. */
template <class S> struct deep_row {
  line<S> all;
  const path &row;
  template <int N> __device__ pack<COMPUTED(S), N> read (span<N, false> s) const {
    pack<COMPUTED(S), N> x;
    EACH(k, N) x.of[k] = all.get(element_offset(row, s.at(k)));
    return x;
  }
  template <int N> __device__ pack<COMPUTED(S), N> read (span<N, true> s) const {
    return all.read(span<N, true>{element_offset(row, s.from), 1});
  }
};


template <template <class> class F, class S>
KERNEL __launch_bounds__(BLOCK_THREADS, 2) reduce_rows (const __grid_constant__ reduce_work d) {
  typedef F<COMPUTED(S)> reducer;
  typedef typename reducer::state state;
  __shared__ shared_buffer<state> buffer;
  const thread_group t = thread_group_of(d.all);
  const reducer f(d, t);
  const deep_row<S> row = {line_of<S>(d.x, t), d.row};
  int64_t from = blockIdx.y * d.segment, to = min(from + d.segment, d.count);
  state x = f.none();
  iterate_from<WIDTH(S)>(t, from, to, d.dense, [&] (auto s) { f.take(x, row.read(s), s); });
  x = group_reduce(t, f, x, buffer);
  if (!t.active || t.rank != 0) return;
  if (gridDim.y == 1) f.finish(d, t.row, x);
  else ((state *)d.parts)[t.row * gridDim.y + blockIdx.y] = x;
}


template <class F> KERNEL reduce_parts (const __grid_constant__ reduce_work d, int parts) {
  typedef typename F::state state;
  __shared__ shared_buffer<state> buffer;
  const thread_group t = thread_group_of(d.all);
  const F f(d, t);
  const state *part = (const state *)d.parts + t.row * parts;
  state x = f.none();
  for (int i = t.rank; t.active && i < parts; i += t.size) x = f(x, part[i]);
  x = group_reduce(t, f, x, buffer);
  if (t.active && t.rank == 0) f.finish(d, t.row, x);
}

/* }================================================================== */


/*
** {==================================================================
** Host: how memory is read, how rows are cut
** ===================================================================
*/

/* Is every pack of 'wide' elements contiguous and aligned? */
static inline bool reduce_is_dense (const reduce_work *d, int wide) {
  row_operand row = d->x;
  const path *p = &d->row;
  int64_t off = 0;
  if (p->rank == 0 || p->stride[p->rank - 1] != 1) return false;
  for (int i = 0; i < p->rank - 1; i++) off |= p->stride[i] | p->size[i + 1];
  return off % wide == 0 && row_operand_dense(&row, wide * scalar_sizes[d->x.type]);
}


static inline bool reduce_by_columns (const reduce_work *d) {
  row_operand x = d->x;
  x.stride = d->row.rank > 0 ? d->row.stride[d->row.rank - 1] : 0;
  return row_operand_columns(&x);
}


/* Parts of a row, so that a GPU is busy and each thread has some steps to do. */
static inline int64_t reduce_cut (reduce_work *d, const launch_shape *c, int wide) {
  int64_t threads = (int64_t)c->blocks.x * c->threads.x, least = (int64_t)c->all.size * wide * 8;
  int64_t parts = ENOUGH_THREADS / threads, most = d->count / least;
  if (parts > most) parts = most;
  if (parts > MOST_PARTS) parts = MOST_PARTS;
  if (parts < 2) { d->segment = d->count; return 1; }
  d->segment = ((d->count + parts - 1) / parts + 63) / 64 * 64;
  return (d->count + d->segment - 1) / d->segment;
}


template <template <class> class F, class S>
static const char *reduce_with (cuda *self, reduce_work *d) {
  typedef F<COMPUTED(S)> reducer;
  int64_t rows = 1;
  for (int i = 0; i < d->x.lead.rank; i++) rows *= d->x.lead.size[i];
  d->dense = reduce_is_dense(d, WIDTH(S));
  int wide = d->dense ? WIDTH(S) : 1;
  launch_shape c = launch_shape_of(rows, d->count, wide, reduce_by_columns(d));
  int64_t parts = reduce_cut(d, &c, wide);
  if (parts > 1) {
    d->parts = cuda_scratch(self, (size_t)(rows * parts) * sizeof(typename reducer::state));
    if (d->parts == NULL) return cuda_no_memory;
  }
  d->all = c.all;
  c.blocks.y = (unsigned)parts;
  const char *why = launch(self, c.blocks, c.threads, 0, reduce_rows<F, S>, *d);
  if (why != NULL || parts == 1) return why;
  c = launch_shape_of(rows, parts, 1, false);
  d->all = c.all;
  return launch(self, c.blocks, c.threads, 0, reduce_parts<reducer>, *d, (int)parts);
}


/* Integers are reduced as such, unless the result is a float. */
static inline heed_type reduce_computing (heed_type in, heed_type out) {
  if (!scalar_is_float(in) && !scalar_is_float(out)) return HEED_INT64;
  return in == HEED_FLOAT64 || out == HEED_FLOAT64 ? HEED_FLOAT64 : HEED_FLOAT32;
}


/* Is the input read by its type? Else elements are converted one by one to float or double. */
static inline bool reduce_reads_own (const reduce_work *d, heed_type *as) {
  heed_type type = d->x.type;
  *as = reduce_computing(type, d->y[0].type);
  return *as == reduce_computing(type, type);
}

template <template <class> class F> static const char *reduce_any (cuda *self, reduce_work *d) {
  heed_type as;
  if (reduce_reads_own(d, &as)) { FOR_TYPE(d->x.type, return reduce_with<F, S>(self, d)) }
  if (as == HEED_FLOAT64) return reduce_with<F, mixed<double>>(self, d);
  return reduce_with<F, mixed<float>>(self, d);
}

template <template <class> class F> static const char *reduce_floats (cuda *self, reduce_work *d) {
  heed_type as;
  if (reduce_reads_own(d, &as)) { FOR_FLOAT(d->x.type, return reduce_with<F, S>(self, d)) }
  if (as == HEED_FLOAT64) return reduce_with<F, mixed<double>>(self, d);
  return reduce_with<F, mixed<float>>(self, d);
}

/* Computed in the input's type, whatever that of the result is. */
template <template <class> class F> static const char *reduce_own (cuda *self, reduce_work *d) {
  FOR_TYPE(d->x.type, return reduce_with<F, S>(self, d))
  return NULL;
}

/* }================================================================== */

#endif
