/*
** rows.h - rows that groups of threads work on: what reductions, scans, softmax, norms and losses
** share.
**
** A thread group is some lanes of a warp, a block, or a column of a block's threads: then 32 rows
** are adjacent in memory. All threads of a block take part in every group_reduce; those of a
** group without a row contribute nothing.
*/

#ifndef cuda_rows_h
#define cuda_rows_h

#include "cuda/cuda.h"


/*
** {==================================================================
** Thread groups
** ===================================================================
*/

#define COLUMN_WARPS 16            /* at most, for rows that are adjacent in memory */

typedef enum thread_group_kind { GROUP_LANES, GROUP_BLOCK, GROUP_COLUMN } thread_group_kind;

typedef struct thread_groups {     /* passed to kernels by value */
  thread_group_kind kind;
  int size;                        /* threads of a group */
  int64_t rows;
} thread_groups;

typedef struct thread_group {
  thread_group_kind kind;
  int rank, size;                  /* of this thread in the group; threads */
  int64_t row;
  bool active;                     /* there is such a row */
} thread_group;

INLINE thread_group thread_group_of (const thread_groups &all) {
  thread_group t;
  int lane = (int)threadIdx.x & (all.size - 1);
  t.kind = all.kind;
  t.size = all.size;
  t.rank = all.kind == GROUP_COLUMN ? warp_of()
         : all.kind == GROUP_LANES ? lane : (int)threadIdx.x;
  t.row = all.kind == GROUP_COLUMN ? (int64_t)blockIdx.x * 32 + lane_of()
        : all.kind == GROUP_LANES ? first_index() / all.size : (int64_t)blockIdx.x;
  t.active = t.row < all.rows;
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

/* Shared memory through which the warps of a group exchange values. */
template <class X> struct shared_buffer { X of[COLUMN_WARPS * 32]; };

/* Reduces the group's x by f, associative and commutative: the same result in all its threads. */
template <class F, class X>
INLINE X group_reduce (const thread_group &t, const F &f, X x, shared_buffer<X> &buffer) {
  int column = t.kind == GROUP_COLUMN, warps = (int)(blockDim.x >> 5);
  if (!column)
    for (int by = t.kind == GROUP_LANES ? t.size / 2 : 16; by > 0; by >>= 1)
      x = f(x, from_lane(x, by));
  if (t.kind == GROUP_LANES || warps == 1) return x;
  __syncthreads();                 /* the call before may still read the buffer */
  if (column || lane_of() == 0) buffer.of[column ? threadIdx.x : warp_of()] = x;
  __syncthreads();
  x = buffer.of[column ? lane_of() : 0];
  for (int i = 1; i < warps; i++) x = f(x, buffer.of[column ? i * 32 + lane_of() : i]);
  return x;
}


/* Host: threads for rows of n elements, of which a thread reads 'wide' together. */
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

/* Storage whose type is known only when the kernel runs, computed in T. */
template <class T> struct mixed {};
template <class T> struct element<mixed<T>> { typedef T computed; };

/* N elements of a row that a thread takes together: the first, and the step to the next. */
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


/* A view whose last axis is that of the rows; lead.rank -1: none. */
typedef struct row_operand {
  void *data;
  heed_type type;
  path lead;                       /* the other axes */
  int64_t stride;                  /* of the last one */
} row_operand;

HOST_TOO bool is_present (const row_operand &o) { return o.lead.rank >= 0; }

template <class S> struct line_factory {
  static __device__ __forceinline__ line<S> of (const row_operand &o, int64_t from) {
    return line<S>{(S *)o.data + from, o.stride};
  }
};
template <class T> struct line_factory<mixed<T>> {
  static __device__ __forceinline__ line<mixed<T>> of (const row_operand &o, int64_t from) {
    return line<mixed<T>>{o.data, o.type, from, o.stride};
  }
};

/* The group's row of an operand; inactive groups get row 0. */
template <class S> INLINE line<S> line_of (const row_operand &o, const thread_group &t) {
  return line_factory<S>::of(o, t.active ? element_offset(o.lead, t.row) : 0);
}

/* An element for each row: its operand has one axis. */
template <class T> INLINE T get_of_row (const row_operand &o, int64_t row) {
  return fetch<T>(o.data, o.type, row * o.stride);
}
template <class T> INLINE void put_of_row (const row_operand &o, int64_t row, T x) {
  put(o.data, o.type, row * o.stride, x);
}

/* The only row of an operand with one axis. */
template <class S> INLINE line<S> single_line (const row_operand &o) {
  return line_factory<S>::of(o, 0);
}


/*
** f(s) for spans of elements 'from' to n - 1 of the group's row: dense ones of WIDE where all
** operands are dense and aligned so, else four with the group's size as step, then single ones.
*/
template <int WIDE, class F>
INLINE void iterate_from (const thread_group &t, int64_t from, int64_t n, bool dense, F f) {
  int64_t i = from;
  if (!t.active) return;
  if (WIDE > 1 && dense) {
    int64_t end = from + (n - from) / WIDE * WIDE;
    for (i += (int64_t)t.rank * WIDE; i < end; i += (int64_t)t.size * WIDE)
      f(span<WIDE, true>{i, 1});
    i = end + t.rank;
  }
  else
    for (i += t.rank; i + 3 * (int64_t)t.size < n; i += 4 * (int64_t)t.size)
      f(span<4, false>{i, t.size});
  for (; i < n; i += t.size) f(span<1, false>{i, 1});
}

template <int WIDE, class F>
INLINE void iterate (const thread_group &t, int64_t n, bool dense, F f) {
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

/* The type that sums and products of T are accumulated in: of sums, a pack at a time. */
template <class T> struct accumulator { typedef double type; };
template <> struct accumulator<int64_t> { typedef int64_t type; };
#define ACCUMULATOR(T) typename accumulator<T>::type

/* }================================================================== */


/*
** {==================================================================
** Host: operands
** ===================================================================
*/

static inline row_operand no_row_operand (void) {
  row_operand o = {};
  o.lead.rank = -1;
  return o;
}

static inline row_operand row_operand_of (const view *v) {
  row_operand o = no_row_operand();
  if (view_is_none(v)) return o;
  layout lead = v->at;
  const layout *only = &lead;
  o.data = v->data;
  o.type = v->type;
  if (lead.rank > 0) o.stride = lead.stride[--lead.rank];
  paths_of(1, &only, &o.lead);
  return o;
}

/* Are all rows dense, and aligned to 'bytes'? */
static inline bool row_operand_dense (const row_operand *o, int bytes) {
  if (o->lead.rank < 0) return true;
  int64_t size = scalar_sizes[o->type], off = (int64_t)(uintptr_t)o->data;
  for (int i = 0; i < o->lead.rank; i++) off |= o->lead.stride[i] * size;
  return o->stride == 1 && off % bytes == 0;
}

/* Are neighbouring rows closer in memory than neighbouring elements of a row? */
static inline bool row_operand_columns (const row_operand *o) {
  int last = o->lead.rank - 1;
  return last >= 0 && o->lead.size[last] >= 8 && o->lead.stride[last] != 0 &&
         distance(o->lead.stride[last]) < distance(o->stride);
}

/* Are the n views, but those that are none, of this floating type? */
static inline bool one_type (const view *v, int n, heed_type type) {
  for (int i = 0; i < n; i++)
    if (!view_is_none(&v[i]) && v[i].type != type) return false;
  return scalar_is_float(type);
}

/* The statement with S for the storage of rows: of 'type' if all have the same, else mixed. */
#define FOR_ROWS(same, type, any_double, ...) \
  if (same) { FOR_FLOAT(type, __VA_ARGS__) } \
  else if (any_double) { typedef mixed<double> S; __VA_ARGS__; } \
  else { typedef mixed<float> S; __VA_ARGS__; }

static inline bool any_double (const work *w) {
  for (int i = 0; i < w->nin; i++)
    if (!view_is_none(&w->in[i]) && w->in[i].type == HEED_FLOAT64) return true;
  return false;
}

/* Elements of a row: the size of the last axis. */
static inline int64_t row_length (const layout *at) {
  return at->rank > 0 ? at->size[at->rank - 1] : 1;
}

/* }================================================================== */

#endif
