/*
** norm.cu - layer norm and rms norm of rows, forward and back.
**
** Ways back go over x and g once: a thread_group takes every so many rows, and keeps its own sums for
** the gradients of weight and bias beside them, a place for each column, in shared memory where
** they fit. Each place belongs to one thread, and thread_groups are added up in order, so that results
** are the same from run to run; how many thread_groups there are depends on the shape alone.
*/

#include "cuda/rows.h"

#define MOST_THREADS 512
#define GROUP_ROWS 4                /* at least, for a thread_group on the way back */
#define BACK_BLOCKS 264            /* of them at most: two for each multiprocessor of an H100 */
#define WARP_COLUMNS 1024          /* up to here a row is for one warp */


typedef struct norm_work {
  thread_groups all;
  int64_t rows, n;
  int64_t pitch;                   /* n, rounded up */
  bool dense;                      /* see iterate */
  bool layer;                      /* or rms */
  double eps;
  operand x, y, weight, bias;      /* on the way back y is dx */
  operand g, mean, rstd;
  int sums;                        /* 2: of g x^ and of g; 1: of g x^; 0: of neither */
  bool apart;                      /* they do not fit into shared memory */
  void *parts;                     /* (blocks, sums, pitch) */
  operand dweight, dbias;
} norm_work;


/*
** {==================================================================
** Forward
** ===================================================================
*/

/* What a row has in common. The mean comes in two parts: a large one would be rounded. */
template <class T> struct moments { T mean, rest, rstd; };


/* The mean is 0 for rms. Two passes, so that a large mean costs no digits. */
template <class S>
INLINE moments<COMPUTED(S)> moments_of (const norm_work &w, const thread_group &t, const line<S> &x) {
  typedef COMPUTED(S) T;
  __shared__ shared_buffer<pair> room;
  pair s = {0, 0};
  moments<T> m = {0, 0, 0};
  if (w.layer) {
    iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto at) { s.a += pack_sum(x.read(at)); });
    m.mean = (T)(together(t, plus_both(), s, room).a / (double)w.n);
    s.a = 0;
  }
  iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto at) {
    auto off = x.read(at), square = off;
    EACH(k, at.count) {
      off.of[k] -= m.mean;
      square.of[k] = off.of[k] * off.of[k];
    }
    s.a += pack_sum(square);
    s.b += pack_sum(off);
  });
  s = together(t, plus_both(), s, room);
  if (w.layer) {
    s.a -= s.b * s.b / (double)w.n;
    m.rest = (T)(s.b / (double)w.n);
  }
  m.rstd = (T)(1 / sqrt(s.a / (double)w.n + w.eps));
  return m;
}


template <class S>
KERNEL __launch_bounds__(MOST_THREADS, 2) norm_rows (const __grid_constant__ norm_work w) {
  typedef COMPUTED(S) T;
  const thread_group t = thread_group_of(w.all);
  const line<S> x = line_of<S>(w.x, t), y = line_of<S>(w.y, t);
  const bool weighted = have(w.weight), biased = have(w.bias);
  const line<S> weight = single_line<S>(w.weight), bias = single_line<S>(w.bias);
  moments<T> m = moments_of<S>(w, t, x);
  iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) {
    auto p = x.read(s), scale = p, shift = p;
    if (weighted) scale = weight.read(s);
    if (biased) shift = bias.read(s);
    EACH(k, s.count) {
      p.of[k] = ((p.of[k] - m.mean) - m.rest) * m.rstd;
      if (weighted) p.of[k] *= scale.of[k];
      if (biased) p.of[k] += shift.of[k];
    }
    y.write(s, p);
  });
  if (!t.here || t.me != 0) return;
  if (w.layer) put_of_row(w.mean, t.row, m.mean);
  put_of_row(w.rstd, t.row, m.rstd);
}

/* }================================================================== */


/*
** {==================================================================
** Back
** ===================================================================
*/

template <class S> struct back_row {
  line<S> g, x, dx, weight;
  bool weighted, wanted;           /* dx is */
  COMPUTED(S) mean, rstd;
};


template <class S> INLINE back_row<S> back_row_of (const norm_work &w, const thread_group &t) {
  typedef COMPUTED(S) T;
  back_row<S> r;
  r.g = line_of<S>(w.g, t);
  r.x = line_of<S>(w.x, t);
  r.dx = line_of<S>(w.y, t);
  r.weight = single_line<S>(w.weight);
  r.weighted = have(w.weight);
  r.wanted = have(w.y);
  r.mean = w.layer ? get_of_row<T>(w.mean, t.row) : 0;
  r.rstd = get_of_row<T>(w.rstd, t.row);
  return r;
}


/* into += x */
template <class T, int N, class Span>
INLINE void add_to (const line<T> &into, Span s, const pack<T, N> &x) {
  pack<T, N> sum = into.read(s);
  EACH(k, N) sum.of[k] += x.of[k];
  into.write(s, sum);
}

template <class T, int N> INLINE pack<T, N> product (pack<T, N> x, const pack<T, N> &y) {
  EACH(k, N) x.of[k] *= y.of[k];
  return x;
}


/* x^ = (x - mean) rstd */
template <class S, class Span> INLINE auto read_normed (const back_row<S> &r, Span s) {
  auto x = r.x.read(s);
  EACH(k, s.count) x.of[k] = (x.of[k] - r.mean) * r.rstd;
  return x;
}


/* Sums of g w and of g w x^; and the row's share of the gradients of weight and bias. */
template <class S>
INLINE pair back_sums (const norm_work &w, const thread_group &t, const back_row<S> &r,
                                      const line<COMPUTED(S)> &dweight) {
  typedef COMPUTED(S) T;
  const line<T> dbias = {dweight.data + w.pitch, 1};
  pair sum = {0, 0};
  iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) {
    auto g = r.g.read(s), x = read_normed(r, s);
    if (w.sums > 0) add_to(dweight, s, product(g, x));
    if (w.sums > 1) add_to(dbias, s, g);
    if (r.weighted) g = product(g, r.weight.read(s));
    sum.a += pack_sum(g);
    sum.b += pack_sum(product(g, x));
  });
  return sum;
}


/* dx = rstd (g w - mean(g w) - x^ mean(g w x^)), for rms without the first mean. */
template <class S>
INLINE void back_line (const norm_work &w, const thread_group &t, const back_row<S> &r,
                       const line<COMPUTED(S)> &sums, shared_buffer<pair> &room) {
  typedef COMPUTED(S) T;
  pair sum = back_sums(w, t, r, sums);
  if (!r.wanted) return;
  sum = together(t, plus_both(), sum, room);
  const T common = w.layer ? (T)(sum.a / (double)w.n) : 0, slope = (T)(sum.b / (double)w.n);
  iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) {
    auto g = r.g.read(s), x = read_normed(r, s);
    if (r.weighted) g = product(g, r.weight.read(s));
    EACH(k, s.count) g.of[k] = r.rstd * (g.of[k] - common - x.of[k] * slope);
    r.dx.write(s, g);
  });
}


/* A place is cleared by whom it belongs to. */
template <class S>
INLINE void clear_sums (const norm_work &w, const thread_group &t, COMPUTED(S) *sums) {
  for (int i = 0; i < w.sums; i++)
    iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) {
      EACH(k, s.count) sums[i * w.pitch + s.at(k)] = 0;
    });
}


/* The sums of the block's thread_groups, in order. */
template <class T> INLINE void join_groups (const norm_work &w, const T *held, T *part) {
  int64_t size = w.sums * w.pitch;
  int count = (int)blockDim.x / w.all.size;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x) {
    T sum = held[i];
    for (int k = 1; k < count; k++) sum += held[k * size + i];
    part[i] = sum;
  }
}


template <class S>
KERNEL __launch_bounds__(MOST_THREADS, 1) norm_back_rows (const __grid_constant__ norm_work w) {
  typedef COMPUTED(S) T;
  SHARED(shared_buffer<pair>, room);
  T *held = (T *)(room + 1);
  thread_group t = thread_group_of(w.all);         /* 'row' is its number first */
  int64_t size = w.sums * w.pitch;
  T *part = (T *)w.parts + blockIdx.x * size;
  T *sums = w.apart ? part : held + (int)threadIdx.x / t.size * size;
  clear_sums<S>(w, t, sums);
  for (; t.row < w.rows; t.row += w.all.rows)
    back_line(w, t, back_row_of<S>(w, t), line<T>{sums, 1}, *room);
  if (!w.apart && w.sums > 0) join_groups(w, held, part);
}


/* Column 'row' of the sums, over all blocks. */
template <class T>
KERNEL __launch_bounds__(MOST_THREADS, 2) norm_back_parts (const __grid_constant__ norm_work w,
                                                        thread_groups all, int parts) {
  __shared__ shared_buffer<double> room;
  const thread_group t = thread_group_of(all);
  double sum = 0;
  for (int i = t.me; t.here && i < parts; i += t.size)
    sum += ((const T *)w.parts)[i * all.rows + t.row];
  sum = together(t, plus(), sum, room);
  int64_t which = t.row / w.pitch, column = t.row % w.pitch;
  if (!t.here || t.me != 0 || column >= w.n) return;
  if (which == 0 && have(w.dweight)) put_of_row(w.dweight, column, sum);
  if (which == 1) put_of_row(w.dbias, column, sum);
}

/* }================================================================== */


/*
** {==================================================================
** Host
** ===================================================================
*/

static bool is_dense (const norm_work *w, int wide) {
  const operand *all[] = {&w->x, &w->y, &w->g, &w->weight, &w->bias};
  for (int i = 0; i < 5; i++)
    if (have(*all[i]) && !operand_dense(all[i], wide * scalar_sizes[all[i]->type])) return false;
  return wide > 1;
}


template <class S> static const char *there (cuda *self, norm_work *w) {
  w->dense = is_dense(w, WIDTH(S));
  launch_shape c = launch_shape_of(w->rows, w->n, w->dense ? WIDTH(S) : 1, false);
  w->all = c.all;
  return launch(self, c.blocks, c.threads, 0, norm_rows<S>, *w);
}


/* A warp or a block for a row, and some rows for each of them. */
static launch_shape launch_shape_of_back (const norm_work *w, int wide) {
  launch_shape c = launch_shape_of(w->rows, w->n, wide, false);
  int in_block = 1, most = BACK_BLOCKS;
  if (w->n <= WARP_COLUMNS) {
    c.threads = dim3(128);
    c.all.kind = GROUP_LANES;
    c.all.size = 32;
    in_block = 4;
    most = 2 * BACK_BLOCKS;
  }
  else {
    if (c.all.kind == GROUP_LANES) c.all.size = 128;
    c.all.kind = GROUP_BLOCK;
    c.threads = dim3((unsigned)c.all.size);
  }
  int64_t blocks = (w->rows + in_block * GROUP_ROWS - 1) / (in_block * GROUP_ROWS);
  c.blocks = dim3((unsigned)(blocks < most ? blocks : most));
  c.all.rows = (int64_t)c.blocks.x * in_block;
  return c;
}


template <class T> static const char *join_parts (cuda *self, const norm_work *w, int parts) {
  if (w->sums == 0) return NULL;
  launch_shape c = launch_shape_of(w->sums * w->pitch, parts, 1, true);
  return launch(self, c.blocks, c.threads, 0, norm_back_parts<T>, *w, c.all, parts);
}


template <class S> static const char *back (cuda *self, norm_work *w) {
  typedef COMPUTED(S) T;
  w->dense = is_dense(w, WIDTH(S));
  w->pitch = (w->n + 7) / 8 * 8;
  launch_shape c = launch_shape_of_back(w, w->dense ? WIDTH(S) : 1);
  size_t sums = (size_t)(w->sums * w->pitch) * sizeof (T);
  size_t held = sums * (c.threads.x / (unsigned)c.all.size), room = sizeof(shared_buffer<pair>);
  w->apart = room + held > (size_t)self->card.block_shared;
  w->all = c.all;
  if (w->sums > 0) {
    w->parts = cuda_scratch(self, c.blocks.x * sums + 1);
    if (w->parts == NULL) return cuda_no_memory;
  }
  const char *why = launch(self, c.blocks, c.threads, room + (w->apart ? 0 : held),
                           norm_back_rows<S>, *w);
  return why != NULL ? why : join_parts<T>(self, w, (int)c.blocks.x);
}


static const char *norm_there (cuda *self, const work *w, norm_work *d) {
  int stats = d->layer ? 1 : 0;
  d->x = operand_of(&w->in[0]);
  d->weight = operand_of(&w->in[1]);
  if (d->layer) d->bias = operand_of(&w->in[2]);
  d->y = operand_of(&w->out[0]);
  if (d->layer) d->mean = operand_of(&w->out[1]);
  d->rstd = operand_of(&w->out[stats + 1]);
  heed_type type = w->in[0].type;
  FOR_ROWS(one_type(w->in, w->nin, type) && w->out[0].type == type, type, any_double(w),
           return there<S>(self, d))
  return NULL;
}


static const char *norm_back (cuda *self, const work *w, norm_work *d) {
  d->g = operand_of(&w->in[0]);
  d->x = operand_of(&w->in[1]);
  d->weight = operand_of(&w->in[2]);
  if (d->layer) d->mean = operand_of(&w->in[3]);
  d->rstd = operand_of(&w->in[d->layer ? 4 : 3]);
  d->y = operand_of(&w->out[0]);
  d->dweight = operand_of(&w->out[1]);
  if (w->nout > 2) d->dbias = operand_of(&w->out[2]);
  d->sums = have(d->dbias) ? 2 : have(d->dweight) ? 1 : 0;
  heed_type type = w->in[1].type;
  FOR_ROWS(one_type(w->in, 3, type) && one_type(w->out, 1, type), type, any_double(w),
           return back<S>(self, d))
  return NULL;
}


const char *cuda_norm (cuda *self, const work *w) {
  norm_work d = {};
  bool forward = w->op == NORM_LAYER || w->op == NORM_RMS;
  const layout *shape = &w->in[forward ? 0 : 1].at;
  operand *all[] = {&d.weight, &d.bias, &d.g, &d.mean, &d.rstd, &d.dweight, &d.dbias};
  for (int i = 0; i < 7; i++) all[i]->lead.rank = -1;
  d.layer = w->op == NORM_LAYER || w->op == NORM_LAYER_BACK;
  d.eps = w->number[0];
  d.n = row_length(shape);
  d.rows = d.n > 0 ? layout_numel(shape) / d.n : 0;
  return forward ? norm_there(self, w, &d) : norm_back(self, w, &d);
}

/* }================================================================== */
