/*
** norm.cu - layer norm and rms norm of rows, and their gradients.
**
** The gradients take one pass over x and g: a thread group takes every so many rows, and keeps
** its own sums for the gradients of weight and bias beside them, one for each column, in shared
** memory where they fit. Each sum belongs to one thread, and groups are added up in order, so that
** results are the same from run to run; the number of groups depends on the shape alone.
*/

#include "cuda/rows/rows.h"

#define BLOCK_THREADS 512
#define GROUP_ROWS 4               /* at least, for a thread group, backward */
#define BACK_BLOCKS 264            /* at most: two for each multiprocessor of an H100 */
#define WARP_COLUMNS 1024          /* at most, for a warp to take a row, backward */


typedef struct norm_work {
  thread_groups all;
  int64_t rows, n;
  int64_t pitch;                   /* n, rounded up */
  bool dense;                      /* see iterate */
  bool layer;                      /* or rms */
  double eps;
  row_operand x, y, weight, bias;  /* backward, y is dx */
  row_operand g, mean, rstd;
  int sums;                        /* 2: of g x^ and of g; 1: of g x^; 0: of neither */
  bool spilled;                    /* rows that do not fit into shared memory */
  void *parts;                     /* (blocks, sums, pitch) */
  row_operand dweight, dbias;
} norm_work;


/*
** {==================================================================
** Forward
** ===================================================================
*/

/* The moments of a row. The mean has two parts, since one float would round a large mean. */
template <class T> struct moments { T mean, rest, rstd; };


/* The mean is 0 for rms. Two passes, so that a large mean costs no digits. */
template <class S>
INLINE moments<COMPUTED(S)> moments_of (const norm_work &w, const thread_group &t,
                                        const line<S> &x) {
  typedef COMPUTED(S) T;
  __shared__ shared_buffer<pair> buffer;
  pair s = {0, 0};
  moments<T> m = {0, 0, 0};
  if (w.layer) {
    iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto at) { s.a += pack_sum(x.read(at)); });
    m.mean = (T)(group_reduce(t, plus_both(), s, buffer).a / (double)w.n);
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
  s = group_reduce(t, plus_both(), s, buffer);
  if (w.layer) {
    s.a -= s.b * s.b / (double)w.n;
    m.rest = (T)(s.b / (double)w.n);
  }
  m.rstd = (T)(1 / sqrt(s.a / (double)w.n + w.eps));
  return m;
}


template <class S>
KERNEL __launch_bounds__(BLOCK_THREADS, 2) norm_rows (const __grid_constant__ norm_work w) {
  typedef COMPUTED(S) T;
  const thread_group t = thread_group_of(w.all);
  const line<S> x = line_of<S>(w.x, t), y = line_of<S>(w.y, t);
  const bool weighted = is_present(w.weight), biased = is_present(w.bias);
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
  if (!t.active || t.rank != 0) return;
  if (w.layer) put_of_row(w.mean, t.row, m.mean);
  put_of_row(w.rstd, t.row, m.rstd);
}

/* }================================================================== */


/*
** {==================================================================
** Backward
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
  r.weighted = is_present(w.weight);
  r.wanted = is_present(w.y);
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
                       const line<COMPUTED(S)> &sums, shared_buffer<pair> &buffer) {
  typedef COMPUTED(S) T;
  pair sum = back_sums(w, t, r, sums);
  if (!r.wanted) return;
  sum = group_reduce(t, plus_both(), sum, buffer);
  const T mean_g = w.layer ? (T)(sum.a / (double)w.n) : 0, mean_gx = (T)(sum.b / (double)w.n);
  iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) {
    auto g = r.g.read(s), x = read_normed(r, s);
    if (r.weighted) g = product(g, r.weight.read(s));
    EACH(k, s.count) g.of[k] = r.rstd * (g.of[k] - mean_g - x.of[k] * mean_gx);
    r.dx.write(s, g);
  });
}


/* Each thread clears the sums that belong to it, and some of those that belong to no column. */
template <class S>
INLINE void clear_sums (const norm_work &w, const thread_group &t, COMPUTED(S) *sums) {
  for (int i = 0; i < w.sums; i++) {
    iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) {
      EACH(k, s.count) sums[i * w.pitch + s.at(k)] = 0;
    });
    for (int64_t k = w.n + t.rank; k < w.pitch; k += t.size) sums[i * w.pitch + k] = 0;
  }
}


/* The sums of the block's groups, in order. */
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
KERNEL __launch_bounds__(BLOCK_THREADS, 1) norm_back_rows (const __grid_constant__ norm_work w) {
  typedef COMPUTED(S) T;
  SHARED(shared_buffer<pair>, buffer);
  T *held = (T *)(buffer + 1);
  thread_group t = thread_group_of(w.all);         /* 'row' is the group's number first */
  int64_t size = w.sums * w.pitch;
  T *part = (T *)w.parts + blockIdx.x * size;
  T *sums = w.spilled ? part : held + (int)threadIdx.x / t.size * size;
  clear_sums<S>(w, t, sums);
  for (; t.row < w.rows; t.row += w.all.rows)
    back_line(w, t, back_row_of<S>(w, t), line<T>{sums, 1}, *buffer);
  if (!w.spilled && w.sums > 0) join_groups(w, held, part);
}


/* Column 'row' of the sums, over all blocks. */
template <class T>
KERNEL __launch_bounds__(BLOCK_THREADS, 2) norm_back_parts (const __grid_constant__ norm_work w,
                                                           thread_groups all, int parts) {
  __shared__ shared_buffer<double> buffer;
  const thread_group t = thread_group_of(all);
  double sum = 0;
  for (int i = t.rank; t.active && i < parts; i += t.size)
    sum += ((const T *)w.parts)[i * all.rows + t.row];
  sum = group_reduce(t, plus(), sum, buffer);
  int64_t which = t.row / w.pitch, column = t.row % w.pitch;
  if (!t.active || t.rank != 0 || column >= w.n) return;
  if (which == 0 && is_present(w.dweight)) put_of_row(w.dweight, column, sum);
  if (which == 1) put_of_row(w.dbias, column, sum);
}

/* }================================================================== */


/*
** {==================================================================
** Host
** ===================================================================
*/

static bool is_dense (const norm_work *w, int wide) {
  const row_operand *all[] = {&w->x, &w->y, &w->g, &w->weight, &w->bias};
  for (const row_operand *o : all)
    if (is_present(*o) && !row_operand_dense(o, wide * scalar_sizes[o->type])) return false;
  return wide > 1;
}


template <class S> static const char *forward_as (cuda *self, norm_work *w) {
  w->dense = is_dense(w, WIDTH(S));
  launch_shape c = launch_shape_of(w->rows, w->n, w->dense ? WIDTH(S) : 1, false);
  w->all = c.all;
  return launch(self, c.blocks, c.threads, 0, norm_rows<S>, *w);
}


/* A warp or a block for a row, and several rows for each of them. */
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


template <class S> static const char *back_as (cuda *self, norm_work *w) {
  typedef COMPUTED(S) T;
  w->dense = is_dense(w, WIDTH(S));
  w->pitch = (w->n + 7) / 8 * 8;
  launch_shape c = launch_shape_of_back(w, w->dense ? WIDTH(S) : 1);
  size_t sums = (size_t)(w->sums * w->pitch) * sizeof (T);
  size_t held = sums * (c.threads.x / (unsigned)c.all.size), buffer = sizeof(shared_buffer<pair>);
  w->spilled = buffer + held > (size_t)self->gpu.block_shared;
  w->all = c.all;
  if (w->sums > 0) {
    w->parts = cuda_scratch(self, c.blocks.x * sums + 1);
    if (w->parts == NULL) return cuda_no_memory;
  }
  const char *why = launch(self, c.blocks, c.threads, buffer + (w->spilled ? 0 : held),
                           norm_back_rows<S>, *w);
  return why != NULL ? why : join_parts<T>(self, w, (int)c.blocks.x);
}


static const char *norm_forward (cuda *self, const work *w, norm_work *d) {
  const view *x = &w->in[NORM_X];
  d->x = row_operand_of(x);
  d->weight = row_operand_of(&w->in[NORM_WEIGHT]);
  d->bias = row_operand_of(&w->in[NORM_BIAS]);
  d->y = row_operand_of(&w->out[NORM_Y]);
  d->mean = row_operand_of(&w->out[NORM_MEAN]);
  d->rstd = row_operand_of(&w->out[NORM_RSTD]);
  bool same = one_type(w->in, NORM_INS, x->type) && w->out[NORM_Y].type == x->type;
  FOR_ROWS(same, x->type, any_double(w), return forward_as<S>(self, d))
  return NULL;
}


static const char *norm_back (cuda *self, const work *w, norm_work *d) {
  const view *x = &w->in[NORM_BACK_X];
  d->g = row_operand_of(&w->in[NORM_BACK_G]);
  d->x = row_operand_of(x);
  d->weight = row_operand_of(&w->in[NORM_BACK_WEIGHT]);
  d->mean = row_operand_of(&w->in[NORM_BACK_MEAN]);
  d->rstd = row_operand_of(&w->in[NORM_BACK_RSTD]);
  d->y = row_operand_of(&w->out[NORM_BACK_DX]);
  d->dweight = row_operand_of(&w->out[NORM_BACK_DWEIGHT]);
  d->dbias = row_operand_of(&w->out[NORM_BACK_DBIAS]);
  d->sums = is_present(d->dbias) ? 2 : is_present(d->dweight) ? 1 : 0;
  bool same = one_type(w->in, NORM_BACK_WEIGHT + 1, x->type) &&
              one_type(&w->out[NORM_BACK_DX], 1, x->type);
  FOR_ROWS(same, x->type, any_double(w), return back_as<S>(self, d))
  return NULL;
}


static norm_work norm_of (const work *w, const view *x, bool layer) {
  norm_work d = {};
  row_operand *const optional[] = {&d.weight, &d.bias, &d.g, &d.mean, &d.rstd, &d.dweight,
                                   &d.dbias};
  for (row_operand *o : optional) *o = no_row_operand();
  d.layer = layer;
  d.eps = w->norm.eps;
  d.n = row_length(&x->at);
  d.rows = d.n > 0 ? layout_numel(&x->at) / d.n : 0;
  return d;
}


const char *cuda_norm (cuda *self, const work *w) {
  switch ((norm_op)w->op) {
    case NORM_LAYER: case NORM_RMS: {
      norm_work d = norm_of(w, &w->in[NORM_X], w->op == NORM_LAYER);
      return norm_forward(self, w, &d);
    }
    case NORM_LAYER_BACK: case NORM_RMS_BACK: {
      norm_work d = norm_of(w, &w->in[NORM_BACK_X], w->op == NORM_LAYER_BACK);
      return norm_back(self, w, &d);
    }
  }
  return cuda_refuse(self, "unknown norm %d", w->op);
}

/* }================================================================== */
