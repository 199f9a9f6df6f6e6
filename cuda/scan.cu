/*
** scan.cu - running sums along rows.
**
** A thread_group goes along its row chunk by chunk: each thread adds up some elements that lie side by
** side, the thread_group adds up what its threads have, and what came before is carried on. Where rows
** are few and long they are cut: first the parts are summed, then the sums of parts are scanned
** by this same file, and then each part begins with what the parts before it have.
*/

#include "cuda/rows.h"

#define MOST_THREADS 512
#define ENOUGH ((int64_t)1 << 17)  /* threads that keep a card busy */
#define MOST_PARTS 1024


typedef struct scan_work {
  thread_groups all;
  int64_t n;                       /* elements of a row … */
  int64_t segment;                 /* … and of a part of it */
  bool dense;                      /* see iterate */
  bool exclusive;                  /* each result is what stands before it */
  operand x, y;
  void *parts;                     /* (rows, parts) sums, or NULL */
} scan_work;


/* What the threads of the thread_group before this one have; *all becomes the sum of all of them. */
template <class A> INLINE A before (const thread_group &t, A mine, A *all, shared_buffer<A> &room) {
  int width = t.kind == GROUP_LANES ? t.size : 32, warps = (int)(blockDim.x >> 5);
  int lane = lane_of() & (width - 1);
  A sum = mine;
  for (int by = 1; by < width; by *= 2) {
    A other = __shfl_up_sync(FULL, sum, by, width);
    if (lane >= by) sum = other + sum;
  }
  A last = __shfl_sync(FULL, sum, width - 1, width), first = __shfl_up_sync(FULL, sum, 1, width);
  if (lane == 0) first = 0;
  *all = last;
  if (t.kind == GROUP_LANES || warps == 1) return first;
  __syncthreads();
  if (lane == 0) room.of[warp_of()] = last;
  __syncthreads();
  A lead = 0, total = 0;
  for (int i = 0; i < warps; i++) {
    if (i == warp_of()) lead = total;
    total = total + room.of[i];
  }
  *all = total;
  return lead + first;
}


/* A pack at a time for each thread; those past the end bring nothing. */
template <int N, bool DENSE, class S, class A>
INLINE void scan_line (const scan_work &w, const thread_group &t, const line<S> &x, const line<S> &y,
                       int64_t from, int64_t to, A carry, shared_buffer<A> &room) {
  for (int64_t base = from; base < to; base += (int64_t)t.size * N) {
    int64_t i = base + (int64_t)t.me * N;
    bool some = t.here && i + N <= to;
    span<N, DENSE> s = {i, 1};
    pack<COMPUTED(S), N> p = {};
    if (some) p = x.read(s);
    A sum[N], all;
    sum[0] = p.of[0];
    for (int k = 1; k < N; k++) sum[k] = sum[k - 1] + p.of[k];
    A lead = carry + before(t, sum[N - 1], &all, room);
    EACH(k, N) p.of[k] = (COMPUTED(S))(w.exclusive ? k > 0 ? lead + sum[k - 1] : lead
                                                   : lead + sum[k]);
    if (some) y.write(s, p);
    carry = carry + all;
  }
}


template <class S>
KERNEL __launch_bounds__(MOST_THREADS, 2) scan_rows (const __grid_constant__ scan_work w) {
  typedef COUNTED(COMPUTED(S)) A;
  __shared__ shared_buffer<A> room;
  const thread_group t = thread_group_of(w.all);
  const line<S> x = line_of<S>(w.x, t), y = line_of<S>(w.y, t);
  int64_t from = blockIdx.y * w.segment, to = min(from + w.segment, w.n);
  A carry = 0;
  if (w.parts != NULL && t.here) carry = ((const A *)w.parts)[t.row * gridDim.y + blockIdx.y];
  if (WIDTH(S) > 1 && w.dense)
    scan_line<WIDTH(S), true, S, A>(w, t, x, y, from, to, carry, room);
  else scan_line<1, false, S, A>(w, t, x, y, from, to, carry, room);
}


template <class S>
KERNEL __launch_bounds__(MOST_THREADS, 2) sum_parts (const __grid_constant__ scan_work w) {
  typedef COUNTED(COMPUTED(S)) A;
  __shared__ shared_buffer<A> room;
  const thread_group t = thread_group_of(w.all);
  const line<S> x = line_of<S>(w.x, t);
  int64_t from = blockIdx.y * w.segment, to = min(from + w.segment, w.n);
  A sum = 0;
  iterate_from<WIDTH(S)>(t, from, to, w.dense, [&] (auto s) { sum += pack_sum(x.read(s)); });
  sum = together(t, plus(), sum, room);
  if (t.here && t.me == 0) ((A *)w.parts)[t.row * gridDim.y + blockIdx.y] = sum;
}


/* Backwards is forwards from the other end. */
static void turn (operand *o, int64_t n) {
  o->data = (char *)o->data + (n - 1) * o->stride * scalar_sizes[o->type];
  o->stride = -o->stride;
}


/* Rows of parts, dense, become what stands before each part. */
template <class A> static const char *scan_parts (cuda *self, void *parts, int64_t rows,
                                                  int64_t n) {
  view v = {};
  v.data = parts;
  v.type = (A)0.5 != 0 ? HEED_FLOAT64 : HEED_INT64;
  const int64_t size[] = {rows, n};
  layout_dense(&v.at, 2, size);
  scan_work w = {};
  w.n = w.segment = n;
  w.exclusive = true;
  w.x = w.y = operand_of(&v);
  launch_shape c = launch_shape_of(rows, n, 1, false);
  w.all = c.all;
  return launch(self, c.blocks, c.threads, 0, scan_rows<A>, w);
}


/* Rows that lie side by side are gone down by one thread each. */
static launch_shape launch_shape_of_scan (int64_t rows, int64_t n, int wide, bool columns) {
  return columns ? launch_shape_of(rows, 1, 1, false) : launch_shape_of(rows, n, wide, false);
}


template <class S> static const char *scan (cuda *self, scan_work *w, int64_t rows) {
  typedef COUNTED(COMPUTED(S)) A;
  const int bytes = WIDTH(S) * scalar_sizes[w->x.type];
  w->dense = WIDTH(S) > 1 && w->n % WIDTH(S) == 0 && operand_dense(&w->x, bytes) &&
             operand_dense(&w->y, bytes);
  int wide = w->dense ? WIDTH(S) : 1;
  launch_shape c = launch_shape_of_scan(rows, w->n, wide, operand_columns(&w->x));
  int64_t threads = (int64_t)c.blocks.x * c.threads.x, parts = ENOUGH / threads;
  int64_t most = w->n / ((int64_t)c.all.size * wide * 8);
  parts = parts < most ? parts : most;
  parts = parts < MOST_PARTS ? parts : MOST_PARTS;
  w->all = c.all;
  w->segment = w->n;
  if (parts < 2) return launch(self, c.blocks, c.threads, 0, scan_rows<S>, *w);
  w->segment = ((w->n + parts - 1) / parts + 63) / 64 * 64;
  parts = (w->n + w->segment - 1) / w->segment;
  c.blocks.y = (unsigned)parts;
  w->parts = cuda_scratch(self, (size_t)(rows * parts) * sizeof (A));
  if (w->parts == NULL) return cuda_no_memory;
  const char *why = launch(self, c.blocks, c.threads, 0, sum_parts<S>, *w);
  if (why == NULL) why = scan_parts<A>(self, w->parts, rows, parts);
  return why != NULL ? why : launch(self, c.blocks, c.threads, 0, scan_rows<S>, *w);
}


const char *cuda_scan (cuda *self, const work *w) {
  const view *x = &w->in[0], *y = &w->out[0];
  int64_t numel = layout_numel(&y->at);
  if (numel == 0) return NULL;
  scan_work d = {};
  d.n = row_length(&y->at);
  d.x = operand_of(x);
  d.y = operand_of(y);
  if (w->count[0] == 1) { turn(&d.x, d.n); turn(&d.y, d.n); }
  int64_t rows = numel / d.n;
  bool wide = x->type == HEED_FLOAT64 || y->type == HEED_FLOAT64;
  if (!scalar_is_float(x->type) && !scalar_is_float(y->type))
    return x->type == HEED_INT64 && y->type == HEED_INT64
           ? scan<int64_t>(self, &d, rows) : scan<mixed<int64_t>>(self, &d, rows);
  FOR_ROWS(x->type == y->type, x->type, wide, return scan<S>(self, &d, rows))
  return NULL;
}
