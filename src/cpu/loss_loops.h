/*
** loss_loops.h - cross entropy of rows of type T: included for each T.
*/

static int64_t FN(label) (const row_work *d, int in, int64_t row) {
  int64_t workspace;
  return *(const int64_t *)iterator_read(d->self, &d->x[in], row, 1, HEED_INT64, &workspace);
}


/*
** -log p of the label, smoothed: (1 - s) w[label] (lse - x[label]) + s / n sum w (lse - x).
** The difference to the largest element is taken first, for the sake of small losses.
*/
static T FN(loss_row) (int64_t n, const T *x, int64_t label, const T *weight, double smoothing,
                       T *lse) {
  T top = FN(extreme)(n, x, false);
  A size = log(FN(powers)(n, x, isinf(top) ? 0 : top)), spread = 0, w = 1;
  if (isinf(top)) top = 0;
  *lse = (T)(top + size);
  if (weight != NULL) w = weight[label];
  A loss = w * ((top - x[label]) + size);
  if (smoothing == 0) return (T)loss;
  for (int64_t i = 0; i < n; i++)
    spread += (weight != NULL ? weight[i] : 1) * ((A)(top - x[i]) + size);
  return (T)((1 - smoothing) * loss + smoothing / (A)n * spread);
}


static void FN(loss_rows) (void *arg, int64_t from, int64_t to) {
  row_work *d = arg;
  const work *w = d->w;
  int64_t n = d->n;
  T *workspace = rows_capacity(d, 2);
  if (workspace == NULL) return;
  const T *weight = NULL;
  if (rows_have(&w->in[2])) weight = iterator_read(d->self, &d->x[2], 0, n, d->as, workspace);
  for (int64_t r = from; r < to; r++) {
    int64_t label = FN(label)(d, 1, r) - 1;
    bool ignored = label + 1 == w->count[0];
    const T *x = iterator_read(d->self, &d->x[0], r * n, n, d->as, workspace + n);
    T lse, loss = FN(loss_row)(n, x, ignored ? 0 : label, weight, w->number[0], &lse);
    FN(put)(d, 0, r, ignored ? 0 : loss);
    FN(put)(d, 1, r, lse);
    FN(put)(d, 2, r, ignored ? 0 : weight != NULL ? weight[label] : 1);
  }
  cpu_scratch_free(workspace);
}


/* dx = g ((1 - s) w[label] (p - [label]) + s / n (p sum w - w)), p = e^(x - lse). */
static void FN(loss_back_row) (int64_t n, T *dx, T g, const T *x, int64_t label, const T *weight,
                               A weights, double smoothing, T lse) {
  A w = weight != NULL ? weight[label] : 1, share = smoothing / (A)n;
  const T slope = (T)(g * ((1 - smoothing) * w + share * weights)), even = (T)(g * share);
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) dx[i] = slope * EXP(x[i] - lse);
  if (smoothing != 0 && weight != NULL)
    VECTOR_LOOP for (int64_t i = 0; i < n; i++) dx[i] -= even * weight[i];
  else if (smoothing != 0)
    VECTOR_LOOP for (int64_t i = 0; i < n; i++) dx[i] -= even;
  dx[label] -= (T)(g * (1 - smoothing) * w);
}


static void FN(loss_back_rows) (void *arg, int64_t from, int64_t to) {
  row_work *d = arg;
  const work *w = d->w;
  int64_t n = d->n;
  T *workspace = rows_capacity(d, 3);
  if (workspace == NULL) return;
  const T *weight = NULL;
  if (rows_have(&w->in[3])) weight = iterator_read(d->self, &d->x[3], 0, n, d->as, workspace);
  A weights = weight != NULL ? FN(sum)(n, weight) : (A)n;
  for (int64_t r = from; r < to; r++) {
    int64_t label = FN(label)(d, 2, r) - 1;
    const T *x = iterator_read(d->self, &d->x[1], r * n, n, d->as, workspace + n);
    T *dx = iterator_target(&d->y[0], r * n, n, d->as, workspace + 2 * n);
    if (label + 1 == w->count[0]) memset(dx, 0, (size_t)n * sizeof(T));
    else FN(loss_back_row)(n, dx, FN(get)(d, 0, r), x, label, weight, weights, w->number[0],
                           FN(get)(d, 4, r));
    iterator_write(d->self, &d->y[0], r * n, n, d->as, dx);
  }
  cpu_scratch_free(workspace);
}
