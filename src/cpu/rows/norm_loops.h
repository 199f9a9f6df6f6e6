/*
** norm_loops.h - norms of rows of type T: included for each T.
*/

#ifndef T
#include "cpu/rows/norm.h"
#else

/* Statistics of a row. The mean has two parts: a large one would be rounded. */
typedef struct FN(moments) {
  T mean, rest, rstd;
} FN(moments);


/* y = (x - mean) rstd weight + bias; either may be NULL. */
INLINED void FN(scale_with) (int64_t n, T *y, const T *x, FN(moments) m, const T *weight,
                             const T *bias, const bool weighted, const bool biased) {
  const T mean = m.mean, rest = m.rest, rstd = m.rstd;
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
    T size = ((x[i] - mean) - rest) * rstd;
    if (weighted) size *= weight[i];
    y[i] = biased ? size + bias[i] : size;
  }
}

static void FN(scale_row) (int64_t n, T *y, const T *x, FN(moments) m, const T *weight,
                           const T *bias) {
  if (weight != NULL && bias != NULL) FN(scale_with)(n, y, x, m, weight, bias, true, true);
  else if (weight != NULL) FN(scale_with)(n, y, x, m, weight, bias, true, false);
  else if (bias != NULL) FN(scale_with)(n, y, x, m, weight, bias, false, true);
  else FN(scale_with)(n, y, x, m, weight, bias, false, false);
}


/* One element of a column of statistics. */
static void FN(put) (const row_work *d, int out, int64_t row, T value) {
  const iterator *s = &d->y[out];
  if (s->kind == ITERATOR_DENSE && s->type == d->as) {
    ((T *)s->data)[row] = value;
    return;
  }
  T *to = iterator_target(s, row, 1, d->as, &value);
  *to = value;
  iterator_write(d->self, s, row, 1, d->as, to);
}


static T FN(get) (const row_work *d, int in, int64_t row) {
  const iterator *s = &d->x[in];
  T workspace;
  if (s->kind == ITERATOR_SPLAT && s->type == d->as) return *(const T *)s->data;
  return *(const T *)iterator_read(d->self, &d->x[in], row, 1, d->as, &workspace);
}


/* A number near the mean of most rows: the mean of the first vector. */
static T FN(pivot) (int64_t n, const T *x) {
  return n < LANES ? x[0] : (T)(FN(lanes_sum)(FN(load)(x)) / LANES);
}


/*
** The mean is 0 for rms. One pass around a pivot, if that turns out to be near the mean; else two
** passes: a mean that is far from it, beside the deviation, would cost digits.
*/
static FN(moments) FN(stats) (int64_t n, const T *x, bool layer, double eps) {
  FN(moments) m = {.mean = layer ? FN(pivot)(n, x) : 0};
  A off = 0, squares = FN(near_squares)(n, x, m.mean, &off);
  if (!FN(holds)(squares) || (layer && !(2 * off * off <= squares * (A)n))) {
    m.mean = layer ? (T)(FN(sum)(n, x) / (A)n) : 0;
    off = 0;
    squares = FN(squares)(n, x, m.mean, &off);
  }
  if (layer && !isinf(m.mean)) {
    const A mean = m.mean + off / (A)n;
    squares -= off * off / (A)n;
    m.rest = (T)(off / (A)n - (A)((T)mean - m.mean));
    m.mean = (T)mean;
  }
  m.rstd = (T)(1 / sqrt(squares / (A)n + eps));
  return m;
}


static void FN(norm_rows) (void *arg, int64_t from, int64_t to) {
  row_work *d = arg;
  const work *w = d->w;
  int64_t n = d->n;
  bool layer = w->op == NORM_LAYER;
  row_memory near;
  T *workspace = rows_workspace(d, 4, &near);
  const T *weight = NULL, *bias = NULL;
  if (workspace == NULL) return;
  if (!view_is_none(&w->in[NORM_WEIGHT]))
    weight = iterator_read(d->self, &d->x[NORM_WEIGHT], 0, n, d->as, workspace);
  if (!view_is_none(&w->in[NORM_BIAS]))
    bias = iterator_read(d->self, &d->x[NORM_BIAS], 0, n, d->as, workspace + n);
  for (int64_t r = from; r < to && !rows_stopped(d); r++) {
    const T *x = iterator_read(d->self, &d->x[NORM_X], r * n, n, d->as, workspace + 2 * n);
    T *y = iterator_target(&d->y[NORM_Y], r * n, n, d->as, workspace + 3 * n);
    FN(moments) m = FN(stats)(n, x, layer, w->norm.eps);
    FN(scale_row)(n, y, x, m, weight, bias);
    iterator_write(d->self, &d->y[NORM_Y], r * n, n, d->as, y);
    if (layer) FN(put)(d, NORM_MEAN, r, m.mean);
    FN(put)(d, NORM_RSTD, r, m.rstd);
  }
  rows_free(workspace, &near);
}


/* The numbers of a row that its gradient needs. */
typedef struct FN(gradient) {
  T mean, rstd;
  T mean_gw, mean_gwx;             /* of g w and of g w x^; the former is 0 for rms */
} FN(gradient);


/* n <= LANES elements from i on: g w, in *size (x - mean) rstd = x^, in *g g itself. */
INLINED FN(vector) FN(back_at) (const FN(gradient) *b, int64_t i, int n, const T *gs, const T *xs,
                                const T *weight, FN(vector) *g, FN(vector) *size) {
  *g = FN(load_some)(gs + i, n);
  *size = (FN(load_some)(xs + i, n) - b->mean) * b->rstd;
  return weight != NULL ? *g * FN(load_some)(weight + i, n) : *g;
}


/* Short sums of g w and g w x^. */
typedef struct FN(back_part) { FN(vector) plain, with; } FN(back_part);

INLINED void FN(back_sum) (const FN(gradient) *b, FN(back_part) *part, int64_t i, int n, T *dweight,
                           T *dbias, const T *gs, const T *xs, const T *weight) {
  FN(vector) g, size, gw = FN(back_at)(b, i, n, gs, xs, weight, &g, &size);
  FN(store_some)(dweight + i, FN(load_some)(dweight + i, n) + g * size, n);
  FN(store_some)(dbias + i, FN(load_some)(dbias + i, n) + g, n);
  part->plain += gw;
  part->with += gw * size;
}


/* Adds g x^ and g to dweight and dbias, and sets the means of 'b'. */
static void FN(back_sums) (FN(gradient) *b, int64_t n, T *dweight, T *dbias, const T *gs,
                           const T *xs, const T *weight, bool layer) {
  A plain = 0, with = 0;
  for (int64_t i = 0; i < n;) {
    const int64_t end = smaller(n, i + 32 * LANES);
    FN(back_part) part = {{0}, {0}};
    for (; i + LANES <= end; i += LANES)
      FN(back_sum)(b, &part, i, LANES, dweight, dbias, gs, xs, weight);
    if (i < end) FN(back_sum)(b, &part, i, (int)(end - i), dweight, dbias, gs, xs, weight);
    i = end;
    plain += FN(lanes_sum)(part.plain);
    with += FN(lanes_sum)(part.with);
  }
  b->mean_gw = layer ? (T)(plain / (A)n) : 0;
  b->mean_gwx = (T)(with / (A)n);
}


/* dx = rstd (g w - mean(g w) - x^ mean(g w x^)), for rms without the mean. */
INLINED void FN(back_put) (const FN(gradient) *b, int64_t i, int n, T *dx, const T *gs, const T *xs,
                           const T *weight) {
  FN(vector) g, size, gw = FN(back_at)(b, i, n, gs, xs, weight, &g, &size);
  FN(store_some)(dx + i, b->rstd * (gw - b->mean_gw - size * b->mean_gwx), n);
}

static void FN(back_row) (const FN(gradient) *b, int64_t n, T *dx, const T *gs, const T *xs,
                          const T *weight) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) FN(back_put)(b, i, LANES, dx, gs, xs, weight);
  if (i < n) FN(back_put)(b, i, (int)(n - i), dx, gs, xs, weight);
}


static void FN(gradient_block) (norm_back *d, int64_t block, T *workspace) {
  row_work *rs = &d->rows;
  int64_t n = rs->n, end = (block + 1) * d->block < rs->rows ? (block + 1) * d->block : rs->rows;
  T *dweight = (T *)d->parts + block * 2 * n, *dbias = dweight + n;
  bool wanted = !view_is_none(&rs->w->out[NORM_BACK_DX]);
  memset(dweight, 0, (size_t)(2 * n) * sizeof(T));
  for (int64_t r = block * d->block; r < end; r++) {
    if (cpu_stops(rs->self, r, n)) return;
    const T *g = iterator_read(rs->self, &rs->x[NORM_BACK_G], r * n, n, rs->as, workspace);
    const T *x = iterator_read(rs->self, &rs->x[NORM_BACK_X], r * n, n, rs->as, workspace + n);
    FN(gradient) b = {.mean = d->layer ? FN(get)(rs, NORM_BACK_MEAN, r) : 0,
                  .rstd = FN(get)(rs, NORM_BACK_RSTD, r)};
    FN(back_sums)(&b, n, dweight, dbias, g, x, d->weight, d->layer);
    if (!wanted) continue;
    T *dx = iterator_target(&rs->y[NORM_BACK_DX], r * n, n, rs->as, workspace + 2 * n);
    FN(back_row)(&b, n, dx, g, x, d->weight);
    iterator_write(rs->self, &rs->y[NORM_BACK_DX], r * n, n, rs->as, dx);
  }
}


static void FN(back_blocks) (void *arg, int64_t from, int64_t to) {
  norm_back *d = arg;
  row_memory near;
  T *workspace = rows_workspace(&d->rows, 3, &near);
  for (int64_t block = from; block < to && workspace != NULL; block++)
    FN(gradient_block)(d, block, workspace);
  rows_free(workspace, &near);
}


/* The blocks' shares together, for one result. */
static void FN(add_blocks) (const norm_back *d, int out, int64_t blocks) {
  const row_work *rs = &d->rows;
  int64_t n = rs->n;
  T *sum = (T *)d->parts + (out - NORM_BACK_DWEIGHT) * n;
  if (view_is_none(&rs->w->out[out])) return;
  for (int64_t b = 1; b < blocks; b++) {
    const T *part = sum + b * 2 * n;
    VECTOR_LOOP for (int64_t i = 0; i < n; i++) sum[i] += part[i];
  }
  T *to = iterator_target(&rs->y[out], 0, n, rs->as, sum);
  if (to != sum) memcpy(to, sum, (size_t)n * sizeof(T));
  iterator_write(rs->self, &rs->y[out], 0, n, rs->as, to);
}


static void FN(norm_back) (norm_back *d, void *workspace) {
  row_work *rs = &d->rows;
  if (!view_is_none(&rs->w->in[NORM_BACK_WEIGHT]))
    d->weight = iterator_read(rs->self, &rs->x[NORM_BACK_WEIGHT], 0, rs->n, rs->as, workspace);
  d->block = (rs->rows + NORM_BLOCKS - 1) / NORM_BLOCKS;
  if (d->block < rows_grain(rs)) d->block = rows_grain(rs);
  int64_t blocks = rs->rows > 0 ? (rs->rows + d->block - 1) / d->block : 0;
  if (blocks == 0) memset(d->parts, 0, (size_t)(2 * rs->n) * sizeof(T));
  pool_run(rs->self->pool, blocks, 1, FN(back_blocks), d);
  FN(add_blocks)(d, NORM_BACK_DWEIGHT, blocks);
  FN(add_blocks)(d, NORM_BACK_DBIAS, blocks);
}

#endif
