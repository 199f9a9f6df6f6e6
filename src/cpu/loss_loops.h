/*
** loss_loops.h - cross entropy of rows of type T: included for each T.
*/

/*
** -log p of the label, smoothed: (1 - s) w[label] (lse - x[label]) + s / n sum w (lse - x).
** The difference to the largest element is taken first, for the sake of small losses.
*/
static T FN(loss_row) (int64_t n, const T *x, int64_t label, const T *weight, double smoothing,
                       T *lse) {
  T top = FN(best_of)(n, x, false, false);
  A size = log(FN(sum_exp_of)(n, x, top)), spread = 0, w = 1;
  if (isinf(top)) top = 0;
  *lse = (T)(top + size);
  if (weight != NULL) w = weight[label];
  A loss = w * ((top - x[label]) + size);
  if (smoothing == 0) return (T)loss;
  for (int64_t i = 0; i < n; i++)
    spread += (weight != NULL ? weight[i] : 1) * ((A)(top - x[i]) + size);
  return (T)((1 - smoothing) * loss + smoothing / (A)n * spread);
}


/* The weights of the classes, or NULL: none are given. */
static const T *FN(class_weights) (const row_work *d, int weight, T *workspace) {
  if (view_is_none(&d->w->in[weight])) return NULL;
  return iterator_read(d->self, &d->x[weight], 0, d->n, d->as, workspace);
}


static void FN(loss_rows) (void *arg, int64_t from, int64_t to) {
  row_work *d = arg;
  const work *w = d->w;
  int64_t n = d->n;
  row_memory near;
  T *workspace = rows_workspace(d, 2, &near);
  if (workspace == NULL) return;
  const T *weight = FN(class_weights)(d, LOSS_WEIGHT, workspace);
  for (int64_t r = from; r < to && !rows_stopped(d); r++) {
    int64_t label = label_of(d, LOSS_TARGET, r) - 1;
    bool ignored = label + 1 == w->loss.ignore_index;
    const T *x = iterator_read(d->self, &d->x[LOSS_X], r * n, n, d->as, workspace + n);
    T lse, loss = FN(loss_row)(n, x, ignored ? 0 : label, weight, w->loss.label_smoothing, &lse);
    FN(put)(d, LOSS_Y, r, ignored ? 0 : loss);
    FN(put)(d, LOSS_LOGSUMEXP, r, lse);
    FN(put)(d, LOSS_ROW_WEIGHT, r, ignored ? 0 : weight != NULL ? weight[label] : 1);
  }
  rows_free(workspace, &near);
}


/* dx = g ((1 - s) w[label] (p - [label]) + s / n (p sum w - w)), p = e^(x - lse). */
static void FN(loss_back_row) (int64_t n, T *dx, T g, const T *x, int64_t label, const T *weight,
                               A weights, double smoothing, T lse) {
  A w = weight != NULL ? weight[label] : 1, share = smoothing / (A)n;
  const T scale = (T)(g * ((1 - smoothing) * w + share * weights)), even = (T)(g * share);
  FN(exponentials_of)(n, dx, x, lse, scale);
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
  row_memory near;
  T *workspace = rows_workspace(d, 3, &near);
  if (workspace == NULL) return;
  const T *weight = FN(class_weights)(d, LOSS_BACK_WEIGHT, workspace);
  A weights = weight != NULL ? FN(sum)(n, weight) : (A)n;
  for (int64_t r = from; r < to && !rows_stopped(d); r++) {
    int64_t label = label_of(d, LOSS_BACK_TARGET, r) - 1;
    const T *x = iterator_read(d->self, &d->x[LOSS_BACK_X], r * n, n, d->as, workspace + n);
    T *dx = iterator_target(&d->y[0], r * n, n, d->as, workspace + 2 * n);
    if (label + 1 == w->loss.ignore_index) memset(dx, 0, (size_t)n * sizeof(T));
    else FN(loss_back_row)(n, dx, FN(get)(d, LOSS_BACK_G, r), x, label, weight, weights,
                           w->loss.label_smoothing, FN(get)(d, LOSS_BACK_LOGSUMEXP, r));
    iterator_write(d->self, &d->y[0], r * n, n, d->as, dx);
  }
  rows_free(workspace, &near);
}
