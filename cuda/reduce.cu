/*
** reduce.cu - reductions: a thread_group of threads for each result, or for each part of a row where
** there are few results.
**
** How a row is cut depends on shapes alone, and parts are joined in one order, so that results
** are the same from run to run. Sums of floats are added up in float for a pack of elements
** only, then in double. Mean and squares are two passes, so that a large mean costs no digits.
*/

#include "cuda/rows.h"

#define MOST_THREADS 512
#define ENOUGH ((int64_t)1 << 18)  /* threads that keep a card busy */
#define MOST_PARTS 1024


typedef struct result { void *data; heed_type type; path at; } result;

typedef struct reduction {
  thread_groups all;
  operand x;                       /* over the axes of the results; 'stride' is not used */
  path row;                        /* over those that are reduced */
  int64_t count;                   /* elements of a row … */
  int64_t segment;                 /* … and of a part of it */
  bool dense;                      /* see iterate */
  bool low;                        /* the least, not the largest */
  bool zero;                       /* is one of them 0, not: is one not 0 */
  bool averages;                   /* sums are divided by 'count', and kept in 'mean' */
  int op;
  double *mean;                    /* (results) */
  void *parts;                     /* (results, parts) states */
  int nout;
  result y[2];
} reduction;


/*
** {==================================================================
** What is made of elements: each has a state, takes packs into it, joins two of them, and
** finishes a result
** ===================================================================
*/

template <class A> INLINE void give (const reduction &d, int i, int64_t row, A value) {
  put(d.y[i].data, d.y[i].type, element_offset(d.y[i].at, row), value);
}


template <class T> struct sums : plus {
  typedef COUNTED(T) state;
  __device__ sums (const reduction &, const thread_group &) {}
  __device__ state none (void) const { return 0; }
  template <int N, class Span>
  __device__ void take (state &x, const pack<T, N> &p, Span) const {
    x += pack_sum(p);
  }
  __device__ void finish (const reduction &d, int64_t row, state x) const {
    if (d.averages) d.mean[row] = (double)(x /= (state)d.count);
    give(d, 0, row, x);
  }
};


template <class T> struct products {
  typedef COUNTED(T) state;
  __device__ products (const reduction &, const thread_group &) {}
  __device__ state none (void) const { return 1; }
  __device__ state operator() (state a, state b) const { return a * b; }
  template <int N, class Span>
  __device__ void take (state &x, const pack<T, N> &p, Span) const {
    EACH(k, N) x *= p.of[k];
  }
  __device__ void finish (const reduction &d, int64_t row, state x) const { give(d, 0, row, x); }
};


template <class T> struct bools {
  typedef int state;
  bool zero;
  __device__ bools (const reduction &d, const thread_group &) : zero(d.zero) {}
  __device__ state none (void) const { return 0; }
  __device__ state operator() (state a, state b) const { return a | b; }
  template <int N, class Span>
  __device__ void take (state &x, const pack<T, N> &p, Span) const {
    EACH(k, N) x |= (p.of[k] == 0) == zero;
  }
  __device__ void finish (const reduction &d, int64_t row, state x) const {
    give(d, 0, row, (int64_t)(x != d.zero));
  }
};


/* The best and its position; -1: none yet. NaN is better than all, the first of equals wins. */
template <class T> struct extremes {
  typedef two<T, int64_t> state;
  bool low;
  __device__ extremes (const reduction &d, const thread_group &) : low(d.low) {}
  __device__ state none (void) const { return state{0, -1}; }

  __device__ bool better (T x, T best) const {
    return (low ? x < best : x > best) || (x != x && best == best);
  }
  __device__ state operator() (state a, state b) const {
    bool other = better(b.a, a.a) || (!better(a.a, b.a) && b.b < a.b);
    return b.b >= 0 && (a.b < 0 || other) ? b : a;
  }
  template <int N, class Span>
  __device__ void take (state &x, const pack<T, N> &p, Span s) const {
    EACH(k, N)
      if (x.b < 0 || better(p.of[k], x.a)) x = state{p.of[k], s.at(k)};
  }
  __device__ void finish (const reduction &d, int64_t row, state x) const {
    if (d.op == REDUCE_ARGMAX || d.op == REDUCE_ARGMIN) give(d, 0, row, x.b + 1);
    else give(d, 0, row, x.a);
    if (d.nout > 1) give(d, 1, row, x.b + 1);
  }
};


/* Sum of (x - mean)^2, and of x - mean, which is 0 but for the rounding of mean. */
template <class T> struct squares {
  typedef two<double, double> state;
  T mean;
  __device__ squares (const reduction &d, const thread_group &t) : mean(t.here ? (T)d.mean[t.row] : 0) {}
  __device__ state none (void) const { return state{0, 0}; }
  __device__ state operator() (state a, state b) const { return state{a.a + b.a, a.b + b.b}; }
  template <int N, class Span>
  __device__ void take (state &x, const pack<T, N> &p, Span) const {
    pack<T, N> off, square;
    EACH(k, N) off.of[k] = p.of[k] - mean;
    EACH(k, N) square.of[k] = off.of[k] * off.of[k];
    x.a += pack_sum(square);
    x.b += pack_sum(off);
  }
  __device__ void finish (const reduction &d, int64_t row, state x) const {
    give(d, 1, row, d.count > 0 ? x.a - x.b * x.b / (double)d.count : 0.0);
  }
};


template <class T> struct log_exponentials : join_exponentials {
  typedef powers<T> state;
  __device__ log_exponentials (const reduction &, const thread_group &) {}
  __device__ state none (void) const { return no_exponentials<T>(); }
  template <int N, class Span>
  __device__ void take (state &x, const pack<T, N> &p, Span) const {
    take_exponentials(x, p);
  }
  __device__ void finish (const reduction &d, int64_t row, state x) const {
    give(d, 0, row, log(x.sum) + finite_top(x.top));
  }
};

/* }================================================================== */


/*
** {==================================================================
** Kernels
** ===================================================================
*/

/* A row over several axes. */
template <class S> struct trail {
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
KERNEL __launch_bounds__(MOST_THREADS, 2) reduce_rows (const __grid_constant__ reduction d) {
  typedef F<COMPUTED(S)> reduction;
  __shared__ shared_buffer<typename reduction::state> room;
  const thread_group t = thread_group_of(d.all);
  const reduction f(d, t);
  const trail<S> row = {line_of<S>(d.x, t), d.row};
  int64_t from = blockIdx.y * d.segment, to = min(from + d.segment, d.count);
  typename reduction::state x = f.none();
  iterate_from<WIDTH(S)>(t, from, to, d.dense, [&] (auto s) { f.take(x, row.read(s), s); });
  x = together(t, f, x, room);
  if (!t.here || t.me != 0) return;
  if (gridDim.y == 1) f.finish(d, t.row, x);
  else ((typename reduction::state *)d.parts)[t.row * gridDim.y + blockIdx.y] = x;
}


template <class Fold> KERNEL reduce_parts (const __grid_constant__ reduction d, int parts) {
  __shared__ shared_buffer<typename Fold::state> room;
  const thread_group t = thread_group_of(d.all);
  const Fold f(d, t);
  const typename Fold::state *part = (const typename Fold::state *)d.parts + t.row * parts;
  typename Fold::state x = f.none();
  for (int i = t.me; t.here && i < parts; i += t.size) x = f(x, part[i]);
  x = together(t, f, x, room);
  if (t.here && t.me == 0) f.finish(d, t.row, x);
}

/* }================================================================== */


/*
** {==================================================================
** Host: how memory is walked
** ===================================================================
*/

/* The input's axes, those of the results first, then those of a row. */
static void open_layouts (reduction *d, const work *w) {
  const layout *in = &w->in[0].at;
  int rank = in->rank - (int)w->count[0];
  layout outer = *in, row = *in;
  path paths[3];
  const layout *of_results[3] = {&outer}, *only = &row;
  outer.rank = rank;
  row.rank = in->rank - rank;
  for (int i = 0; i < row.rank; i++) {
    row.size[i] = in->size[rank + i];
    row.stride[i] = in->stride[rank + i];
  }
  for (int i = 0; i < w->nout; i++) of_results[i + 1] = &w->out[i].at;
  paths_of(w->nout + 1, of_results, paths);
  d->x = operand{w->in[0].data, w->in[0].type, paths[0], 1};
  for (int i = 0; i < w->nout; i++)
    d->y[i] = result{w->out[i].data, w->out[i].type, paths[i + 1]};
  paths_of(1, &only, &d->row);
  d->count = layout_numel(&row);
}


/* Does every pack of 'wide' elements lie in one aligned piece? */
static bool is_dense (const reduction *d, int wide) {
  operand row = d->x;
  const path *p = &d->row;
  int64_t off = 0;
  if (p->rank == 0 || p->stride[p->rank - 1] != 1) return false;
  for (int i = 0; i < p->rank - 1; i++) off |= p->stride[i] | p->size[i + 1];
  return off % wide == 0 && operand_dense(&row, wide * scalar_sizes[d->x.type]);
}


static bool side_by_side (const reduction *d) {
  operand x = d->x;
  x.stride = d->row.rank > 0 ? d->row.stride[d->row.rank - 1] : 0;
  return operand_columns(&x);
}


/* Parts of a row, so that a card is busy and a thread has some steps to go. */
static int64_t parts_of (reduction *d, const launch_shape *c, int wide) {
  int64_t threads = (int64_t)c->blocks.x * c->threads.x, least = (int64_t)c->all.size * wide * 8;
  int64_t parts = ENOUGH / threads, most = d->count / least;
  if (parts > most) parts = most;
  if (parts > MOST_PARTS) parts = MOST_PARTS;
  if (parts < 2) { d->segment = d->count; return 1; }
  d->segment = ((d->count + parts - 1) / parts + 63) / 64 * 64;
  return (d->count + d->segment - 1) / d->segment;
}


template <template <class> class F, class S> static const char *run_reduction (cuda *self, reduction *d) {
  typedef F<COMPUTED(S)> reduction;
  int64_t rows = 1;
  for (int i = 0; i < d->x.lead.rank; i++) rows *= d->x.lead.size[i];
  d->dense = is_dense(d, WIDTH(S));
  launch_shape c = launch_shape_of(rows, d->count, d->dense ? WIDTH(S) : 1, side_by_side(d));
  int64_t parts = parts_of(d, &c, d->dense ? WIDTH(S) : 1);
  if (parts > 1) {
    d->parts = cuda_scratch(self, (size_t)(rows * parts) * sizeof(typename reduction::state));
    if (d->parts == NULL) return cuda_no_memory;
  }
  d->all = c.all;
  c.blocks.y = (unsigned)parts;
  const char *why = launch(self, c.blocks, c.threads, 0, reduce_rows<F, S>, *d);
  if (why != NULL || parts == 1) return why;
  c = launch_shape_of(rows, parts, 1, false);
  d->all = c.all;
  return launch(self, c.blocks, c.threads, 0, reduce_parts<reduction>, *d, (int)parts);
}

/* }================================================================== */


/*
** {==================================================================
** The door
** ===================================================================
*/

/* Whole numbers are counted as such, unless the result is a float. */
static heed_type computing (heed_type in, heed_type out) {
  if (!scalar_is_float(in) && !scalar_is_float(out)) return HEED_INT64;
  return in == HEED_FLOAT64 || out == HEED_FLOAT64 ? HEED_FLOAT64 : HEED_FLOAT32;
}


/* Elements are read by their type, or converted one by one to what is computed in. */
template <template <class> class F> static const char *reduce_any (cuda *self, reduction *d) {
  heed_type type = d->x.type, as = computing(type, d->y[0].type);
  if (as == computing(type, type)) { FOR_TYPE(type, return run_reduction<F, S>(self, d)) }
  if (as == HEED_FLOAT64) return run_reduction<F, mixed<double>>(self, d);
  return run_reduction<F, mixed<float>>(self, d);
}

template <template <class> class F> static const char *reduce_floats (cuda *self, reduction *d) {
  heed_type type = d->x.type, as = computing(type, d->y[0].type);
  if (as == computing(type, type)) { FOR_FLOAT(type, return run_reduction<F, S>(self, d)) }
  if (as == HEED_FLOAT64) return run_reduction<F, mixed<double>>(self, d);
  return run_reduction<F, mixed<float>>(self, d);
}

template <template <class> class F> static const char *reduce_own (cuda *self, reduction *d) {
  FOR_TYPE(d->x.type, return run_reduction<F, S>(self, d))
  return NULL;
}


static const char *moments (cuda *self, reduction *d, int64_t results) {
  d->averages = true;
  d->mean = (double *)cuda_scratch(self, (size_t)results * sizeof *d->mean);
  if (d->mean == NULL) return cuda_no_memory;
  const char *why = reduce_floats<sums>(self, d);
  return why != NULL ? why : reduce_floats<squares>(self, d);
}


const char *cuda_reduce (cuda *self, const work *w) {
  if (layout_numel(&w->out[0].at) == 0) return NULL;
  reduction d = {};
  open_layouts(&d, w);
  d.op = w->op;
  d.nout = w->nout;
  d.low = w->op == REDUCE_MIN || w->op == REDUCE_ARGMIN;
  d.zero = w->op == REDUCE_ALL;
  switch (w->op) {
    case REDUCE_SUM: return reduce_any<sums>(self, &d);
    case REDUCE_PROD: return reduce_any<products>(self, &d);
    case REDUCE_ANY: case REDUCE_ALL: return reduce_own<bools>(self, &d);
    case REDUCE_MOMENTS: return moments(self, &d, layout_numel(&w->out[0].at));
    case REDUCE_LOGSUMEXP: return reduce_floats<log_exponentials>(self, &d);
    default: return reduce_own<extremes>(self, &d);
  }
}

/* }================================================================== */
