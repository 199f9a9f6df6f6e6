/*
** rows.h - rows that thread_groups of threads work on: what reductions, softmax, norms and losses share.
**
** A thread_group is some lanes of a warp, a block, or the threads of a block that stand one above the
** other: then 32 rows lie side by side in memory. All threads of a block come to every shared_buffer
** of a thread_group; one that has no row brings nothing to it.
*/

#ifndef cuda_rows_h
#define cuda_rows_h

#include "cuda/cuda.h"


/*
** {==================================================================
** Teams
** ===================================================================
*/

#define COLUMN_WARPS 16            /* most of them, for rows side by side */

typedef enum thread_group_kind { GROUP_LANES, GROUP_BLOCK, GROUP_COLUMN } thread_group_kind;

typedef struct thread_groups {             /* goes to a kernel by value */
  thread_group_kind kind;
  int size;                        /* threads of one */
  int64_t rows;
} thread_groups;

typedef struct thread_group {
  thread_group_kind kind;
  int me, size;
  int64_t row;
  bool here;                       /* there is such a row */
} thread_group;

INLINE thread_group thread_group_of (const thread_groups &all) {
  thread_group t;
  int lane = (int)threadIdx.x & (all.size - 1);
  t.kind = all.kind;
  t.size = all.size;
  t.me = all.kind == GROUP_COLUMN ? warp_of() : all.kind == GROUP_LANES ? lane : (int)threadIdx.x;
  t.row = all.kind == GROUP_COLUMN ? (int64_t)blockIdx.x * 32 + lane_of()
        : all.kind == GROUP_LANES ? first_index() / all.size : (int64_t)blockIdx.x;
  t.here = t.row < all.rows;
  return t;
}


template <class X, class Y> struct two { X a; Y b; };

template <class X> INLINE X from_lane (X x, int by) { return __shfl_xor_sync(FULL, x, by); }
template <class X, class Y> INLINE two<X, Y> from_lane (two<X, Y> x, int by) {
  return two<X, Y>{from_lane(x.a, by), from_lane(x.b, by)};
}

typedef two<double, double> pair;  /* two sums at once */

struct plus_both {
  __device__ pair operator() (pair x, pair y) const { return pair{x.a + y.a, x.b + y.b}; }
};

/* Shared memory in which thread_groups meet. */
template <class X> struct shared_buffer { X of[COLUMN_WARPS * 32]; };

/* What f makes of all the thread_group's x, the same in all its threads: f must not mind their order. */
template <class F, class X> INLINE X together (const thread_group &t, const F &f, X x, shared_buffer<X> &room) {
  int column = t.kind == GROUP_COLUMN, warps = (int)(blockDim.x >> 5);
  if (!column)
    for (int by = t.kind == GROUP_LANES ? t.size / 2 : 16; by > 0; by >>= 1)
      x = f(x, from_lane(x, by));
  if (t.kind == GROUP_LANES || warps == 1) return x;
  __syncthreads();                 /* the room may still be read from the shared_buffer before */
  if (column || lane_of() == 0) room.of[column ? threadIdx.x : warp_of()] = x;
  __syncthreads();
  x = room.of[column ? lane_of() : 0];
  for (int i = 1; i < warps; i++) x = f(x, room.of[column ? i * 32 + lane_of() : i]);
  return x;
}


/* Host: how rows of n elements are shared out, when a thread reads 'wide' of them at once. */
typedef struct launch_shape {
  thread_groups all;
  dim3 blocks, threads;
} launch_shape;

static inline launch_shape launch_shape_of (int64_t rows, int64_t n, int wide, bool columns) {
  int64_t steps = (n + wide - 1) / wide;
  int size = 1, threads = 128;
  launch_shape c;
  if (columns) {
    while (size < COLUMN_WARPS && size * 4 < steps) size *= 2;
    c.all = thread_groups{GROUP_COLUMN, size, rows};
    c.blocks = dim3((unsigned)((rows + 31) / 32));
    c.threads = dim3((unsigned)size * 32);
    return c;
  }
  while (size < 32 && size * 4 < steps) size *= 2;
  if (steps > 256)
    for (size = threads; size < 512 && size * 4 < steps;) size *= 2;
  threads = size > threads ? size : threads;
  c.all = thread_groups{steps > 256 ? GROUP_BLOCK : GROUP_LANES, size, rows};
  c.blocks = dim3((unsigned)((rows * size + threads - 1) / threads));
  c.threads = dim3((unsigned)threads);
  return c;
}

/* }================================================================== */


/*
** {==================================================================
** Elements of a row: read and written some at a time
** ===================================================================
*/

/* Storage whose type is known when the kernel runs, computed in T. */
template <class T> struct mixed {};
template <class T> struct element<mixed<T>> { typedef T computed; };

/* Elements of a row that a thread takes at once: the first of them, and steps to the next. */
template <int N, bool DENSE> struct span {
  int64_t from, step;
  enum { count = N };
  __device__ __forceinline__ int64_t at (int k) const { return from + k * (DENSE ? 1 : step); }
};

template <class T, int N> struct pack { T of[N]; };

/* Elements that 16 bytes hold, at most 8. */
template <class S> struct width { enum { of = 16 / sizeof(S) < 8 ? 16 / sizeof(S) : 8 }; };
template <class T> struct width<mixed<T>> { enum { of = 1 }; };
#define WIDTH(S) ((int)width<S>::of)

template <class S, int N> struct alignas(N * sizeof(S)) packed { S of[N]; };

#define EACH(k, N) for (int k = 0; k < N; k++)


/* A row in memory. */
template <class S> struct line {
  S *data;
  int64_t stride;
  typedef COMPUTED(S) T;

  __device__ __forceinline__ T get (int64_t i) const { return wide(data[i * stride]); }
  __device__ __forceinline__ void set (int64_t i, T x) const { data[i * stride] = convert<S>(x); }

  template <int N> __device__ __forceinline__ pack<T, N> read (span<N, false> s) const {
    pack<T, N> x;
    EACH(k, N) x.of[k] = get(s.at(k));
    return x;
  }
  template <int N> __device__ __forceinline__ pack<T, N> read (span<N, true> s) const {
    packed<S, N> raw = *(const packed<S, N> *)(data + s.from);
    pack<T, N> x;
    EACH(k, N) x.of[k] = wide(raw.of[k]);
    return x;
  }
  template <int N> __device__ __forceinline__ void write (span<N, false> s, pack<T, N> x) const {
    EACH(k, N) set(s.at(k), x.of[k]);
  }
  template <int N> __device__ __forceinline__ void write (span<N, true> s, pack<T, N> x) const {
    packed<S, N> raw;
    EACH(k, N) raw.of[k] = convert<S>(x.of[k]);
    *(packed<S, N> *)(data + s.from) = raw;
  }
};

template <class U> struct line<mixed<U>> {
  void *data;
  heed_type type;
  int64_t from, stride;
  typedef U T;

  __device__ __forceinline__ T get (int64_t i) const {
    return fetch<T>(data, type, from + i * stride);
  }
  __device__ __forceinline__ void set (int64_t i, T x) const {
    put(data, type, from + i * stride, x);
  }
  template <int N, bool D> __device__ __forceinline__ pack<T, N> read (span<N, D> s) const {
    pack<T, N> x;
    EACH(k, N) x.of[k] = get(s.at(k));
    return x;
  }
  template <int N, bool D>
  __device__ __forceinline__ void write (span<N, D> s, pack<T, N> x) const {
    EACH(k, N) set(s.at(k), x.of[k]);
  }
};


/* A view whose last axis is that of the rows; rank -1: it is not there. */
typedef struct operand {
  void *data;
  heed_type type;
  path lead;                       /* the other axes */
  int64_t stride;                  /* of the last one */
} operand;

HOST_TOO bool have (const operand &o) { return o.lead.rank >= 0; }

template <class S> struct line_factory {
  static __device__ __forceinline__ line<S> of (const operand &o, int64_t from) {
    return line<S>{(S *)o.data + from, o.stride};
  }
};
template <class T> struct line_factory<mixed<T>> {
  static __device__ __forceinline__ line<mixed<T>> of (const operand &o, int64_t from) {
    return line<mixed<T>>{o.data, o.type, from, o.stride};
  }
};

/* The thread_group's row of an operand; thread_groups without one have row 0. */
template <class S> INLINE line<S> line_of (const operand &o, const thread_group &t) {
  return line_factory<S>::of(o, t.here ? element_offset(o.lead, t.row) : 0);
}

/* An element for each row: its operand has one axis. */
template <class T> INLINE T get_of_row (const operand &o, int64_t row) {
  return fetch<T>(o.data, o.type, row * o.stride);
}
template <class T> INLINE void put_of_row (const operand &o, int64_t row, T x) {
  put(o.data, o.type, row * o.stride, x);
}

/* The only row of an operand with one axis. */
template <class S> INLINE line<S> single_line (const operand &o) {
  return line_factory<S>::of(o, 0);
}


/*
** f(s) for spans of the thread_group's row of n elements: dense ones of WIDE where all operands are dense
** and aligned so, else four that are a thread_group apart, and the rest one by one.
*/
template <int WIDE, class F>
INLINE void iterate_from (const thread_group &t, int64_t from, int64_t n, bool dense, F f) {
  int64_t i = from;
  if (!t.here) return;
  if (WIDE > 1 && dense) {
    int64_t end = from + (n - from) / WIDE * WIDE;
    for (i += (int64_t)t.me * WIDE; i < end; i += (int64_t)t.size * WIDE)
      f(span<WIDE, true>{i, 1});
    i = end + t.me;
  }
  else
    for (i += t.me; i + 3 * (int64_t)t.size < n; i += 4 * (int64_t)t.size)
      f(span<4, false>{i, t.size});
  for (; i < n; i += t.size) f(span<1, false>{i, 1});
}

template <int WIDE, class F> INLINE void iterate (const thread_group &t, int64_t n, bool dense, F f) {
  iterate_from<WIDE>(t, 0, n, dense, f);
}


/* The sum of a pack, in halves. */
template <class T> INLINE T pack_sum (const pack<T, 1> &x) { return x.of[0]; }
template <class T, int N> INLINE T pack_sum (const pack<T, N> &x) {
  pack<T, N / 2> half;
  EACH(k, N / 2) half.of[k] = x.of[k] + x.of[k + N / 2];
  return pack_sum(half);
}

/* }================================================================== */


/*
** {==================================================================
** Arithmetic
** ===================================================================
*/

/* What sums of T are counted up in. */
template <class T> struct counted { typedef double type; };
template <> struct counted<int64_t> { typedef int64_t type; };
#define COUNTED(T) typename counted<T>::type

INLINE float exponential (float x) { return expf(x); }
INLINE double exponential (double x) { return exp(x); }

/* Infinite tops count as 0, so that what is equal to them does not become NaN. */
template <class T> INLINE T finite_top (T top) { return isinf(top) ? (T)0 : top; }

/* Sum of e^(x - top), where top is the largest of the x so far: no NaN, but -inf at first. */
template <class T> struct powers { T top; double sum; };

template <class T> INLINE powers<T> no_exponentials (void) { return powers<T>{(T)-INFINITY, 0}; }

template <class T, int N> INLINE void take_exponentials (powers<T> &p, const pack<T, N> &x) {
  T top = p.top;
  EACH(k, N) top = x.of[k] > top ? x.of[k] : top;
  if (top > p.top) {               /* exact, however often a row rises */
    if (!isinf(p.top)) p.sum *= exp((double)p.top - top);
    p.top = top;
  }
  pack<T, N> e;
  EACH(k, N) e.of[k] = exponential(x.of[k] - finite_top(top));
  p.sum += pack_sum(e);
}

template <class T> INLINE powers<T> from_lane (powers<T> p, int by) {
  return powers<T>{from_lane(p.top, by), from_lane(p.sum, by)};
}

struct join_exponentials {
  template <class T> __device__ powers<T> operator() (powers<T> a, powers<T> b) const {
    double fall = exp(-fabs((double)a.top - b.top));
    if (a.top == b.top) return powers<T>{a.top, a.sum + b.sum};
    return a.top > b.top ? powers<T>{a.top, a.sum + b.sum * fall}
                         : powers<T>{b.top, a.sum * fall + b.sum};
  }
};

/* }================================================================== */


/*
** {==================================================================
** Host: operands
** ===================================================================
*/

static inline operand operand_of (const view *v) {
  operand o = {};
  layout lead = v->at;
  const layout *only = &lead;
  o.data = v->data;
  o.type = v->type;
  o.stride = 0;
  o.lead.rank = -1;
  if (v->at.rank < 0) return o;
  if (lead.rank > 0) o.stride = lead.stride[--lead.rank];
  paths_of(1, &only, &o.lead);
  return o;
}

/* Do all rows begin at a multiple of 'bytes', and are they dense? */
static inline bool operand_dense (const operand *o, int bytes) {
  if (o->lead.rank < 0) return true;
  int64_t size = scalar_sizes[o->type], off = (int64_t)(uintptr_t)o->data;
  for (int i = 0; i < o->lead.rank; i++) off |= o->lead.stride[i] * size;
  return o->stride == 1 && off % bytes == 0;
}

static inline int64_t distance (int64_t stride) { return stride < 0 ? -stride : stride; }

/* Do rows lie side by side? */
static inline bool operand_columns (const operand *o) {
  int last = o->lead.rank - 1;
  return last >= 0 && o->lead.size[last] >= 8 && o->lead.stride[last] != 0 &&
         distance(o->lead.stride[last]) < distance(o->stride);
}

/* Are n views of one type, a float? Those that are not there may be. */
static inline bool one_type (const view *v, int n, heed_type type) {
  for (int i = 0; i < n; i++)
    if (v[i].at.rank >= 0 && v[i].type != type) return false;
  return scalar_is_float(type);
}

/* The statement with S for the storage of rows: of 'type' if all have the same, or mixed. */
#define FOR_ROWS(same, type, any_double, ...) \
  if (same) { FOR_FLOAT(type, __VA_ARGS__) } \
  else if (any_double) { typedef mixed<double> S; __VA_ARGS__; } \
  else { typedef mixed<float> S; __VA_ARGS__; }

static inline bool any_double (const work *w) {
  for (int i = 0; i < w->nin; i++)
    if (w->in[i].at.rank >= 0 && w->in[i].type == HEED_FLOAT64) return true;
  return false;
}

/* Rows of a view along its last axis. */
static inline int64_t row_length (const layout *at) {
  return at->rank > 0 ? at->size[at->rank - 1] : 1;
}

/* }================================================================== */

#endif
