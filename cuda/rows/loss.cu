/*
** loss.cu - cross entropy of rows with labels, and its gradient: a thread group for each row.
**
** A row is read once for its loss, maximum and sum of exponentials together, and once more where
** labels are smoothed. Labels are checked here: a wrong one is reported, and counts as the first
** class.
*/

#include "cuda/rows/sums.h"

#define BLOCK_THREADS 512


typedef struct loss_work {
  thread_groups all;
  int64_t n;
  bool dense;                      /* see iterate */
  int64_t ignored;                 /* this label */
  double smoothing;
  row_operand x, target, weight;
  row_operand loss, lse, share;    /* (rows); 'share': the row's weight */
  row_operand g, dx;
  const double *weights;           /* their sum, or NULL */
  struct faults faults;
} loss_work;


/* The row's label, counted from 0. */
INLINE int64_t label_of (const loss_work &w, const thread_group &t, bool *ignored) {
  int64_t label = t.active ? get_of_row<int64_t>(w.target, t.row) : 1;
  *ignored = t.active && label == w.ignored;
  if (label >= 1 && label <= w.n) return label - 1;
  if (!*ignored && t.rank == 0) report(w.faults, FAULT_LABEL, 0, t.row + 1, label, w.n);
  return 0;
}


template <class T> INLINE T class_weight (const loss_work &w, int64_t label) {
  return is_present(w.weight) ? get_of_row<T>(w.weight, label) : (T)1;
}


/* Sum of weight (lse - x), lse given as top + size. */
template <class S>
INLINE double spread_of (const loss_work &w, const thread_group &t, const line<S> &x,
                         COMPUTED(S) top, double size) {
  typedef COMPUTED(S) T;
  __shared__ shared_buffer<pair> buffer;
  const line<mixed<T>> weight = single_line<mixed<T>>(w.weight);
  const bool weighted = is_present(w.weight);
  pair sum = {0, 0};        /* of weight (top - x), of the weights */
  iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) {
    auto p = x.read(s), scale = p;
    if (weighted) scale = weight.read(s);
    EACH(k, s.count) {
      T by = weighted ? scale.of[k] : (T)1;
      scale.of[k] = by;
      p.of[k] = by * (top - p.of[k]);
    }
    sum.a += pack_sum(p);
    sum.b += pack_sum(scale);
  });
  sum = group_reduce(t, plus_both(), sum, buffer);
  return sum.a + size * sum.b;
}


/*
** -log p of the label, smoothed: (1 - s) w[label] (lse - x[label]) + s / n sum w (lse - x).
** x is subtracted from the maximum first, so that small losses keep their digits.
*/
template <class S>
KERNEL __launch_bounds__(BLOCK_THREADS, 1) loss_rows (const __grid_constant__ loss_work w) {
  typedef COMPUTED(S) T;
  __shared__ shared_buffer<exponentials<T>> buffer;
  const thread_group t = thread_group_of(w.all);
  const line<S> x = line_of<S>(w.x, t);
  bool ignored;
  int64_t label = label_of(w, t, &ignored);
  exponentials<T> p = no_exponentials<T>();
  iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) { take_exponentials(p, x.read(s)); });
  p = group_reduce(t, join_exponentials(), p, buffer);
  T top = finite_top(p.top);
  double size = log(value_of(p.sum)), spread = 0;
  if (w.smoothing != 0) spread = spread_of(w, t, x, top, size);
  if (!t.active || t.rank != 0) return;
  T share = class_weight<T>(w, label);
  double loss = share * ((double)(top - x.get(label)) + size);
  if (w.smoothing != 0)
    loss = (1 - w.smoothing) * loss + w.smoothing / (double)w.n * spread;
  put_of_row(w.loss, t.row, ignored ? (T)0 : (T)loss);
  put_of_row(w.lse, t.row, (T)(top + size));
  put_of_row(w.share, t.row, ignored ? (T)0 : share);
}


/* Shared by the gradients of a row: the factors of e^(x - lse), of the weight and of the label. */
template <class T> struct coefficients { T of_exponential, of_weight, of_label, lse; };

template <class T>
INLINE coefficients<T> coefficients_of (const loss_work &w, const thread_group &t, int64_t label) {
  double share = w.smoothing / (double)w.n;
  double weights = w.weights != NULL ? *w.weights : (double)w.n;
  double hit = (1 - w.smoothing) * class_weight<T>(w, label);
  T g = get_of_row<T>(w.g, t.row);
  return coefficients<T>{(T)(g * (hit + share * weights)), (T)(g * share), (T)(g * hit),
                         get_of_row<T>(w.lse, t.row)};
}


/* dx = g ((1 - s) w[label] (p - [label]) + s / n (p sum w - w)), p = e^(x - lse). */
template <class S>
KERNEL __launch_bounds__(BLOCK_THREADS, 1) loss_back_rows (const __grid_constant__ loss_work w) {
  typedef COMPUTED(S) T;
  const thread_group t = thread_group_of(w.all);
  const line<S> x = line_of<S>(w.x, t), dx = line_of<S>(w.dx, t);
  const line<mixed<T>> weight = single_line<mixed<T>>(w.weight);
  const bool smooth = w.smoothing != 0, weighted = smooth && is_present(w.weight);
  bool ignored;
  int64_t label = label_of(w, t, &ignored);
  if (!t.active) return;
  coefficients<T> c = coefficients_of<T>(w, t, label);
  iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) {
    auto p = x.read(s), scale = p;
    if (weighted) scale = weight.read(s);
    EACH(k, s.count) {
      T y = c.of_exponential * exponential(p.of[k] - c.lse);
      if (smooth) y -= weighted ? c.of_weight * scale.of[k] : c.of_weight;
      if (s.at(k) == label) y -= c.of_label;
      p.of[k] = ignored ? (T)0 : y;
    }
    dx.write(s, p);
  });
}


/*
** {==================================================================
** Host
** ===================================================================
*/

/* The sum of all weights, on the device. */
static const char *sum_weights (cuda *self, const view *weight, loss_work *d) {
  work w;
  view sum = {};
  sum.type = HEED_FLOAT64;
  sum.data = cuda_scratch(self, sizeof(double));
  if (sum.data == NULL) return cuda_no_memory;
  work_reduce(&w, REDUCE_SUM, 1, sum, view_none(), *weight);
  d->weights = (const double *)sum.data;
  return cuda_run(self, &w);
}


template <class S>
static const char *loss (cuda *self, loss_work *w, int64_t rows, void (*kernel) (loss_work)) {
  const int bytes = WIDTH(S) * scalar_sizes[w->x.type];
  w->dense = WIDTH(S) > 1 && row_operand_dense(&w->x, bytes) && row_operand_dense(&w->dx, bytes);
  int wide = w->dense ? WIDTH(S) : 1;
  launch_shape c = launch_shape_of(rows, w->n, wide, row_operand_columns(&w->x));
  w->all = c.all;
  return launch(self, c.blocks, c.threads, 0, kernel, *w);
}


/* The type of rows is that of x, if all are computed in that one. */
static bool reads_own (const work *w, const view *x) {
  return scalar_is_float(x->type) && (!any_double(w) || x->type == HEED_FLOAT64);
}


static loss_work loss_of (cuda *self, const work *w, const view *x) {
  loss_work d = {};
  d.n = row_length(&x->at);
  d.x = row_operand_of(x);
  d.ignored = w->loss.ignore_index;
  d.smoothing = w->loss.label_smoothing;
  d.faults = cuda_faults(self);
  return d;
}


static const char *loss_forward (cuda *self, const work *w) {
  const view *x = &w->in[LOSS_X];
  int64_t numel = layout_numel(&x->at);
  if (numel == 0) return NULL;
  loss_work d = loss_of(self, w, x);
  d.target = row_operand_of(&w->in[LOSS_TARGET]);
  d.weight = row_operand_of(&w->in[LOSS_WEIGHT]);
  d.dx = no_row_operand();
  d.loss = row_operand_of(&w->out[LOSS_Y]);
  d.lse = row_operand_of(&w->out[LOSS_LOGSUMEXP]);
  d.share = row_operand_of(&w->out[LOSS_ROW_WEIGHT]);
  FOR_ROWS(reads_own(w, x), x->type, any_double(w),
           return loss<S>(self, &d, numel / d.n, loss_rows<S>))
  return NULL;
}


static const char *loss_back (cuda *self, const work *w) {
  const view *x = &w->in[LOSS_BACK_X], *weight = &w->in[LOSS_BACK_WEIGHT], *dx = &w->out[0];
  int64_t numel = layout_numel(&x->at);
  if (numel == 0) return NULL;
  loss_work d = loss_of(self, w, x);
  d.g = row_operand_of(&w->in[LOSS_BACK_G]);
  d.target = row_operand_of(&w->in[LOSS_BACK_TARGET]);
  d.weight = row_operand_of(weight);
  d.lse = row_operand_of(&w->in[LOSS_BACK_LOGSUMEXP]);
  d.dx = row_operand_of(dx);
  if (d.smoothing != 0 && is_present(d.weight)) {
    const char *why = sum_weights(self, weight, &d);
    if (why != NULL) return why;
  }
  FOR_ROWS(reads_own(w, x) && dx->type == x->type, x->type, any_double(w),
           return loss<S>(self, &d, numel / d.n, loss_back_rows<S>))
  return NULL;
}


const char *cuda_loss (cuda *self, const work *w) {
  switch ((loss_op)w->op) {
    case LOSS_CROSS_ENTROPY: return loss_forward(self, w);
    case LOSS_CROSS_ENTROPY_BACK: return loss_back(self, w);
  }
  return cuda_refuse(self, "unknown loss %d", w->op);
}

/* }================================================================== */
