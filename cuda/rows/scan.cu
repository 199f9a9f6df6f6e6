/*
** scan.cu - running sums and products along rows.
**
** A thread group goes along its row chunk by chunk: each thread scans a few adjacent elements, the
** group scans the totals of its threads, and the total so far is carried on. Where rows are few
** and long they are cut: first each part is reduced, then the totals of the parts are scanned by
** the same kernel, and then each part begins with the total of those before it.
*/

#include "cuda/rows/rows.h"

#define BLOCK_THREADS 512
#define ENOUGH_THREADS ((int64_t)1 << 17)        /* that keep a GPU busy */
#define MOST_PARTS 1024


typedef struct scan_work {
  thread_groups all;
  int64_t n;                       /* elements of a row */
  int64_t segment;                 /* elements of a part of a row */
  bool dense;                      /* see iterate */
  bool exclusive;                  /* results leave out their own element */
  row_operand x, y;
  void *parts;                     /* (rows, parts) totals, or NULL */
} scan_work;


/* A scan F joins two totals of type A, 'none' being the neutral one, and takes packs into one. */
struct running_sum : plus {
  enum { none = 0 };
  template <class A, class T, int N> __device__ void take (A &x, const pack<T, N> &p) const {
    x += pack_sum(p);
  }
};
struct running_product : times {
  enum { none = 1 };
  template <class A, class T, int N> __device__ void take (A &x, const pack<T, N> &p) const {
    EACH(k, N) x = (*this)(x, (A)p.of[k]);
  }
};


/* The total of the group's threads before this one; *all becomes that of all its threads. */
template <class F, class A>
INLINE A total_before (const thread_group &t, F f, A mine, A *all, shared_buffer<A> &buffer) {
  int width = t.kind == GROUP_LANES ? t.size : 32, warps = (int)(blockDim.x >> 5);
  int lane = lane_of() & (width - 1);
  A total = mine;
  for (int by = 1; by < width; by *= 2) {
    A other = __shfl_up_sync(FULL, total, by, width);
    if (lane >= by) total = f(other, total);
  }
  A last = __shfl_sync(FULL, total, width - 1, width);
  A first = __shfl_up_sync(FULL, total, 1, width);
  if (lane == 0) first = F::none;
  *all = last;
  if (t.kind == GROUP_LANES || warps == 1) return first;
  __syncthreads();
  if (lane == 0) buffer.of[warp_of()] = last;
  __syncthreads();
  A lead = F::none;
  total = F::none;
  for (int i = 0; i < warps; i++) {
    if (i == warp_of()) lead = total;
    total = f(total, buffer.of[i]);
  }
  *all = total;
  return f(lead, first);
}


/* Each thread takes a pack at a time; threads past the end contribute nothing. */
template <int N, bool DENSE, class S, class F, class A>
INLINE void scan_line (const scan_work &w, const thread_group &t, F f, const line<S> &x,
                       const line<S> &y, int64_t from, int64_t to, A carry,
                       shared_buffer<A> &buffer) {
  for (int64_t base = from; base < to; base += (int64_t)t.size * N) {
    int64_t i = base + (int64_t)t.rank * N;
    bool some = t.active && i + N <= to;
    span<N, DENSE> s = {i, 1};
    pack<COMPUTED(S), N> p;
    EACH(k, N) p.of[k] = F::none;
    if (some) p = x.read(s);
    A total[N], all;
    total[0] = p.of[0];
    for (int k = 1; k < N; k++) total[k] = f(total[k - 1], (A)p.of[k]);
    A lead = f(carry, total_before(t, f, total[N - 1], &all, buffer));
    EACH(k, N) p.of[k] = (COMPUTED(S))(w.exclusive ? k > 0 ? f(lead, total[k - 1]) : lead
                                                   : f(lead, total[k]));
    if (some) y.write(s, p);
    carry = f(carry, all);
  }
}


template <class F, class S>
KERNEL __launch_bounds__(BLOCK_THREADS, 2) scan_rows (const __grid_constant__ scan_work w) {
  typedef ACCUMULATOR(COMPUTED(S)) A;
  __shared__ shared_buffer<A> buffer;
  const thread_group t = thread_group_of(w.all);
  const line<S> x = line_of<S>(w.x, t), y = line_of<S>(w.y, t);
  int64_t from = blockIdx.y * w.segment, to = min(from + w.segment, w.n);
  A carry = F::none;
  if (w.parts != NULL && t.active) carry = ((const A *)w.parts)[t.row * gridDim.y + blockIdx.y];
  if (WIDTH(S) > 1 && w.dense)
    scan_line<WIDTH(S), true, S>(w, t, F(), x, y, from, to, carry, buffer);
  else scan_line<1, false, S>(w, t, F(), x, y, from, to, carry, buffer);
}


template <class F, class S>
KERNEL __launch_bounds__(BLOCK_THREADS, 2) reduce_parts (const __grid_constant__ scan_work w) {
  typedef ACCUMULATOR(COMPUTED(S)) A;
  __shared__ shared_buffer<A> buffer;
  const thread_group t = thread_group_of(w.all);
  const line<S> x = line_of<S>(w.x, t);
  int64_t from = blockIdx.y * w.segment, to = min(from + w.segment, w.n);
  A total = F::none;
  iterate_from<WIDTH(S)>(t, from, to, w.dense, [&] (auto s) { F().take(total, x.read(s)); });
  total = group_reduce(t, F(), total, buffer);
  if (t.active && t.rank == 0) ((A *)w.parts)[t.row * gridDim.y + blockIdx.y] = total;
}


/* A reverse scan is a scan from the other end. */
static void reverse (row_operand *o, int64_t n) {
  o->data = (char *)o->data + (n - 1) * o->stride * scalar_sizes[o->type];
  o->stride = -o->stride;
}


/* In place: the totals of parts become those of all parts before them. */
template <class F, class A>
static const char *scan_parts (cuda *self, void *parts, int64_t rows, int64_t n) {
  view v = {};
  v.data = parts;
  v.type = (A)0.5 != 0 ? HEED_FLOAT64 : HEED_INT64;
  const int64_t size[] = {rows, n};
  layout_dense(&v.at, 2, size);
  scan_work w = {};
  w.n = w.segment = n;
  w.exclusive = true;
  w.x = w.y = row_operand_of(&v);
  launch_shape c = launch_shape_of(rows, n, 1, false);
  w.all = c.all;
  return launch(self, c.blocks, c.threads, 0, scan_rows<F, A>, w);
}


/* Rows that are adjacent in memory have one thread each. */
static launch_shape launch_shape_of_scan (int64_t rows, int64_t n, int wide, bool columns) {
  return columns ? launch_shape_of(rows, 1, 1, false) : launch_shape_of(rows, n, wide, false);
}


template <class F, class S>
static const char *scan_as (cuda *self, scan_work *w, int64_t rows) {
  typedef ACCUMULATOR(COMPUTED(S)) A;
  const int bytes = WIDTH(S) * scalar_sizes[w->x.type];
  w->dense = WIDTH(S) > 1 && w->n % WIDTH(S) == 0 && row_operand_dense(&w->x, bytes) &&
             row_operand_dense(&w->y, bytes);
  int wide = w->dense ? WIDTH(S) : 1;
  launch_shape c = launch_shape_of_scan(rows, w->n, wide, row_operand_columns(&w->x));
  int64_t threads = (int64_t)c.blocks.x * c.threads.x, parts = ENOUGH_THREADS / threads;
  int64_t most = w->n / ((int64_t)c.all.size * wide * 8);
  parts = parts < most ? parts : most;
  parts = parts < MOST_PARTS ? parts : MOST_PARTS;
  w->all = c.all;
  w->segment = w->n;
  if (parts < 2) return launch(self, c.blocks, c.threads, 0, scan_rows<F, S>, *w);
  w->segment = ((w->n + parts - 1) / parts + 63) / 64 * 64;
  parts = (w->n + w->segment - 1) / w->segment;
  c.blocks.y = (unsigned)parts;
  w->parts = cuda_scratch(self, (size_t)(rows * parts) * sizeof (A));
  if (w->parts == NULL) return cuda_no_memory;
  const char *why = launch(self, c.blocks, c.threads, 0, reduce_parts<F, S>, *w);
  if (why == NULL) why = scan_parts<F, A>(self, w->parts, rows, parts);
  return why != NULL ? why : launch(self, c.blocks, c.threads, 0, scan_rows<F, S>, *w);
}


template <class F> static const char *scan (cuda *self, const work *w) {
  const view *x = &w->in[0], *y = &w->out[0];
  scan_work d = {};
  d.n = row_length(&y->at);
  d.x = row_operand_of(x);
  d.y = row_operand_of(y);
  if (w->scan.reverse) { reverse(&d.x, d.n); reverse(&d.y, d.n); }
  int64_t rows = layout_numel(&y->at) / d.n;
  bool wide = x->type == HEED_FLOAT64 || y->type == HEED_FLOAT64;
  if (!scalar_is_float(x->type) && !scalar_is_float(y->type))
    return x->type == HEED_INT64 && y->type == HEED_INT64
           ? scan_as<F, int64_t>(self, &d, rows) : scan_as<F, mixed<int64_t>>(self, &d, rows);
  FOR_ROWS(x->type == y->type, x->type, wide, return scan_as<F, S>(self, &d, rows))
  return NULL;
}


const char *cuda_scan (cuda *self, const work *w) {
  if (layout_numel(&w->out[0].at) == 0) return NULL;
  switch ((scan_op)w->op) {
    case SCAN_SUM: return scan<running_sum>(self, w);
    case SCAN_PROD: return scan<running_product>(self, w);
  }
  return cuda_refuse(self, "unknown scan %d", w->op);
}
