/*
** norm_loops.h - norms of rows of type T: included for each T.
*/

/* Statistics of a row. The mean has two parts: a large one would be rounded. */
typedef struct FN(moments) {
  T mean, rest, rstd;
} FN(moments);


/* y = (x - mean) rstd weight + bias; either may be NULL. */
static void FN(scale_row) (int64_t n, T *y, const T *x, FN(moments) m, const T *weight,
                           const T *bias) {
  const T mean = m.mean, rest = m.rest, rstd = m.rstd;
  if (weight != NULL && bias != NULL) {
    VECTOR_LOOP for (int64_t i = 0; i < n; i++)
      y[i] = ((x[i] - mean) - rest) * rstd * weight[i] + bias[i];
    return;
  }
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) y[i] = ((x[i] - mean) - rest) * rstd;
  if (weight != NULL) VECTOR_LOOP for (int64_t i = 0; i < n; i++) y[i] *= weight[i];
  if (bias != NULL) VECTOR_LOOP for (int64_t i = 0; i < n; i++) y[i] += bias[i];
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
  T workspace;
  return *(const T *)iterator_read(d->self, &d->x[in], row, 1, d->as, &workspace);
}


/* The mean is 0 for rms. Two passes, so that a large mean costs no digits. */
static FN(moments) FN(stats) (int64_t n, const T *x, bool layer, double eps) {
  FN(moments) m = {.mean = layer ? (T)(FN(sum)(n, x) / (A)n) : 0};
  A off = 0, squares = FN(squares)(n, x, m.mean, &off);
  if (layer) {
    squares -= off * off / (A)n;
    m.rest = (T)(off / (A)n);
  }
  m.rstd = (T)(1 / sqrt(squares / (A)n + eps));
  return m;
}


static void FN(norm_rows) (void *arg, int64_t from, int64_t to) {
  row_work *d = arg;
  const work *w = d->w;
  int64_t n = d->n;
  bool layer = w->op == NORM_LAYER;
  T *workspace = rows_workspace(d, 4);
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
  cpu_scratch_free(workspace);
}


/* Sums of g w and of g w x^, the latter in *with. Short sums of T, as in reduce. */
static A FN(back_sums) (int64_t n, const T *g, const T *x, T mean, T rstd, const T *weight,
                        T *workspace, A *with) {
  if (weight != NULL) VECTOR_LOOP for (int64_t i = 0; i < n; i++) workspace[i] = g[i] * weight[i];
  const T *gw = weight != NULL ? workspace : g;
  A plain = FN(sum)(n, gw);
  *with = (FN(dot)(n, gw, x) - mean * plain) * rstd;
  return plain;
}


/* dx = rstd (g w - mean(g w) - x^ mean(g w x^)), for rms without the mean. */
static void FN(back_row) (const norm_back *d, int64_t n, T *dx, const T *g, const T *x, T mean,
                          T rstd, T *workspace) {
  const T *weight = d->weight;
  A with, plain = FN(back_sums)(n, g, x, mean, rstd, weight, workspace, &with);
  const T mean_gw = d->layer ? (T)(plain / (A)n) : 0, mean_gwx = (T)(with / (A)n);
  const T *gw = weight != NULL ? workspace : g;
  VECTOR_LOOP for (int64_t i = 0; i < n; i++)
    dx[i] = rstd * (gw[i] - mean_gw - (x[i] - mean) * rstd * mean_gwx);
}


/* The block's share of dweight and dbias. */
static void FN(add_shares) (int64_t n, T *dweight, T *dbias, const T *g, const T *x, T mean,
                            T rstd) {
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
    dweight[i] += g[i] * ((x[i] - mean) * rstd);
    dbias[i] += g[i];
  }
}


static void FN(back_block) (norm_back *d, int64_t block, T *workspace) {
  row_work *rs = &d->rows;
  int64_t n = rs->n, end = (block + 1) * d->block < rs->rows ? (block + 1) * d->block : rs->rows;
  T *dweight = (T *)d->parts + block * 2 * n, *dbias = dweight + n;
  bool wanted = !view_is_none(&rs->w->out[NORM_BACK_DX]);
  memset(dweight, 0, (size_t)(2 * n) * sizeof(T));
  for (int64_t r = block * d->block; r < end; r++) {
    if (cpu_stops(rs->self, r, n)) return;
    const T *g = iterator_read(rs->self, &rs->x[NORM_BACK_G], r * n, n, rs->as, workspace);
    const T *x = iterator_read(rs->self, &rs->x[NORM_BACK_X], r * n, n, rs->as, workspace + n);
    T mean = d->layer ? FN(get)(rs, NORM_BACK_MEAN, r) : 0;
    T rstd = FN(get)(rs, NORM_BACK_RSTD, r);
    FN(add_shares)(n, dweight, dbias, g, x, mean, rstd);
    if (!wanted) continue;
    T *dx = iterator_target(&rs->y[NORM_BACK_DX], r * n, n, rs->as, workspace + 2 * n);
    FN(back_row)(d, n, dx, g, x, mean, rstd, workspace + 3 * n);
    iterator_write(rs->self, &rs->y[NORM_BACK_DX], r * n, n, rs->as, dx);
  }
}


static void FN(back_blocks) (void *arg, int64_t from, int64_t to) {
  norm_back *d = arg;
  T *workspace = rows_workspace(&d->rows, 4);
  for (int64_t block = from; block < to && workspace != NULL; block++)
    FN(back_block)(d, block, workspace);
  cpu_scratch_free(workspace);
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
