/*
** loss_loops.h - cross entropy of rows of type T: included for each T.
*/

#ifndef T
#include "cpu/rows/loss.h"
#else

/*
** -log p of the label, smoothed: (1 - s) w[label] (lse - x[label]) + s / n sum w (lse - x).
** The difference to the largest element is taken first, for the sake of small losses. This part
** needs no logarithm of lse = top + log sum, which is taken of LOSS_BLOCK rows together.
*/
typedef struct FN(loss_part) {
  int64_t label;                   /* from 0 on; -1: it is ignored */
  T top;
  A gap, spread;                   /* top - x[label]; if s is not 0, sum w (top - x) */
} FN(loss_part);

/* The rest of 'p', whose label is set, and the row's sum of exponentials. */
static A FN(loss_sum) (int64_t n, const T *x, const T *weight, bool smooth, FN(loss_part) *p) {
  const T top = FN(best_of)(n, x, false, false);
  p->top = isinf(top) ? 0 : top;
  p->gap = p->top - x[p->label < 0 ? 0 : p->label];
  p->spread = 0;
  for (int64_t i = 0; smooth && i < n; i++)
    p->spread += (weight != NULL ? weight[i] : 1) * (A)(p->top - x[i]);
  return FN(sum_exp_of)(n, x, top);
}


static void FN(loss_put) (const row_work *d, int64_t row, const FN(loss_part) *p, A log_sum,
                          const T *weight, A weights) {
  const double smoothing = d->w->loss.label_smoothing;
  const T w = p->label < 0 ? 0 : weight != NULL ? weight[p->label] : 1;
  A loss = w * (p->gap + log_sum);
  if (smoothing != 0)
    loss = (1 - smoothing) * loss + smoothing / (A)d->n * (p->spread + log_sum * weights);
  FN(put)(d, LOSS_Y, row, p->label < 0 ? 0 : (T)loss);
  FN(put)(d, LOSS_LOGSUMEXP, row, (T)(p->top + log_sum));
  FN(put)(d, LOSS_ROW_WEIGHT, row, w);
}


/* The weights of the classes, or NULL: none are given. */
static const T *FN(class_weights) (const row_work *d, int weight, T *workspace) {
  if (view_is_none(&d->w->in[weight])) return NULL;
  return iterator_read(d->self, &d->x[weight], 0, d->n, d->as, workspace);
}


/* Rows of a block, 0 < rows; x is read once, as it may be brought to the workspace. */
static void FN(loss_block) (row_work *d, int64_t from, int rows, const T *weight, A weights,
                            T *workspace) {
  const work *w = d->w;
  FN(loss_part) part[LOSS_BLOCK];
  A sum[LOSS_BLOCK], log_sum[LOSS_BLOCK];
  for (int i = 0; i < rows; i++) {
    const int64_t r = from + i, label = label_of(d, LOSS_TARGET, r);
    const T *x = iterator_read(d->self, &d->x[LOSS_X], r * d->n, d->n, d->as, workspace);
    part[i].label = label == w->loss.ignore_index ? -1 : label - 1;
    sum[i] = FN(loss_sum)(d->n, x, weight, w->loss.label_smoothing != 0, &part[i]);
  }
  for (int i = rows; i < LOSS_BLOCK; i++) sum[i] = 1;
  for (int i = 0; i < LOSS_BLOCK; i += VECTOR_BYTES / (int)sizeof(A))
    store_double(log_sum + i, vector_log_double(load_double(sum + i)));
  for (int i = 0; i < rows; i++)
    FN(loss_put)(d, from + i, &part[i], isinf(sum[i]) ? sum[i] : log_sum[i], weight, weights);
}


static void FN(loss_rows) (void *arg, int64_t from, int64_t to) {
  row_work *d = arg;
  row_memory near;
  T *workspace = rows_workspace(d, 2, &near);
  if (workspace == NULL) return;
  const T *weight = FN(class_weights)(d, LOSS_WEIGHT, workspace);
  const A weights = weight != NULL ? FN(sum)(d->n, weight) : (A)d->n;
  const int64_t most = d->n < LONG_CLASSES ? LOSS_BLOCK : 1;
  for (int64_t r = from; r < to && !rows_stopped(d); r += most)
    FN(loss_block)(d, r, (int)smaller(to - r, most), weight, weights, workspace + d->n);
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

#endif
