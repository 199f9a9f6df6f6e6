/*
** loss.cu - cross entropy of rows with labels, and the way back: a thread_group of threads for each row.
**
** A row is read once for its loss, largest element and sum of powers together, and once more
** where labels are smoothed. Labels are checked here: one that is wrong is reported, and the
** row goes on as if it had the first class.
*/

#include "cuda/rows.h"

#define MOST_THREADS 512


typedef struct loss_work {
  thread_groups all;
  int64_t n;
  bool dense;                      /* see iterate */
  int64_t ignored;
  double smoothing;
  operand x, target, weight;
  operand loss, lse, share;        /* (rows); 'share' is what a row weighs */
  operand g, dx;
  const double *weights;           /* all of them together, or NULL */
  struct faults faults;
} loss_work;


/* The row's label from 0; *ignored if it counts for nothing. */
INLINE int64_t label_of (const loss_work &w, const thread_group &t, bool *ignored) {
  int64_t label = t.here ? get_of_row<int64_t>(w.target, t.row) : 1;
  *ignored = t.here && label == w.ignored;
  if (label >= 1 && label <= w.n) return label - 1;
  if (!*ignored && t.me == 0) report(w.faults, FAULT_LABEL, t.row + 1, label, w.n);
  return 0;
}


template <class T> INLINE T class_weight (const loss_work &w, int64_t label) {
  return have(w.weight) ? get_of_row<T>(w.weight, label) : (T)1;
}


/* Sum of weight (lse - x), lse given as top + size. */
template <class S>
INLINE double spread_of (const loss_work &w, const thread_group &t, const line<S> &x, COMPUTED(S) top,
                         double size) {
  typedef COMPUTED(S) T;
  __shared__ shared_buffer<pair> room;
  const line<mixed<T>> weight = single_line<mixed<T>>(w.weight);
  const bool weighted = have(w.weight);
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
  sum = together(t, plus_both(), sum, room);
  return sum.a + size * sum.b;
}


/*
** -log p of the label, smoothed: (1 - s) w[label] (lse - x[label]) + s / n sum w (lse - x).
** The difference to the largest element is taken first, for the sake of small losses.
*/
template <class S>
KERNEL __launch_bounds__(MOST_THREADS, 1) loss_rows (const __grid_constant__ loss_work w) {
  typedef COMPUTED(S) T;
  __shared__ shared_buffer<powers<T>> room;
  const thread_group t = thread_group_of(w.all);
  const line<S> x = line_of<S>(w.x, t);
  bool ignored;
  int64_t label = label_of(w, t, &ignored);
  powers<T> p = no_exponentials<T>();
  iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) { take_exponentials(p, x.read(s)); });
  p = together(t, join_exponentials(), p, room);
  T top = finite_top(p.top);
  double size = log(p.sum), spread = 0;
  if (w.smoothing != 0) spread = spread_of(w, t, x, top, size);
  if (!t.here || t.me != 0) return;
  T share = class_weight<T>(w, label);
  double loss = share * ((double)(top - x.get(label)) + size);
  if (w.smoothing != 0)
    loss = (1 - w.smoothing) * loss + w.smoothing / (double)w.n * spread;
  put_of_row(w.loss, t.row, ignored ? (T)0 : (T)loss);
  put_of_row(w.lse, t.row, (T)(top + size));
  put_of_row(w.share, t.row, ignored ? (T)0 : share);
}


/* What the elements of a row have in common on the way back. */
template <class T> struct slopes { T of_power, even, of_label, lse; };

template <class T> INLINE slopes<T> gradients_of (const loss_work &w, const thread_group &t, int64_t label) {
  double share = w.smoothing / (double)w.n;
  double weights = w.weights != NULL ? *w.weights : (double)w.n;
  double hit = (1 - w.smoothing) * class_weight<T>(w, label);
  T g = get_of_row<T>(w.g, t.row);
  return slopes<T>{(T)(g * (hit + share * weights)), (T)(g * share), (T)(g * hit),
                   get_of_row<T>(w.lse, t.row)};
}


/* dx = g ((1 - s) w[label] (p - [label]) + s / n (p sum w - w)), p = e^(x - lse). */
template <class S>
KERNEL __launch_bounds__(MOST_THREADS, 1) loss_back_rows (const __grid_constant__ loss_work w) {
  typedef COMPUTED(S) T;
  const thread_group t = thread_group_of(w.all);
  const line<S> x = line_of<S>(w.x, t), dx = line_of<S>(w.dx, t);
  const line<mixed<T>> weight = single_line<mixed<T>>(w.weight);
  const bool smooth = w.smoothing != 0, weighted = smooth && have(w.weight);
  bool ignored;
  int64_t label = label_of(w, t, &ignored);
  if (!t.here) return;
  slopes<T> c = gradients_of<T>(w, t, label);
  iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) {
    auto p = x.read(s), scale = p;
    if (weighted) scale = weight.read(s);
    EACH(k, s.count) {
      T y = c.of_power * exponential(p.of[k] - c.lse);
      if (smooth) y -= weighted ? c.even * scale.of[k] : c.even;
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
  w.kind = WORK_REDUCE;
  w.op = REDUCE_SUM;
  w.nin = w.nout = 1;
  w.mask.n = 0;
  w.count[0] = 1;
  w.in[0] = *weight;
  w.out[0] = view{};
  w.out[0].type = HEED_FLOAT64;
  w.out[0].data = cuda_scratch(self, sizeof(double));
  if (w.out[0].data == NULL) return cuda_no_memory;
  d->weights = (const double *)w.out[0].data;
  return cuda_run(self, &w);
}


template <class S> static const char *loss (cuda *self, loss_work *w, int64_t rows, bool back) {
  const int bytes = WIDTH(S) * scalar_sizes[w->x.type];
  w->dense = WIDTH(S) > 1 && operand_dense(&w->x, bytes) && operand_dense(&w->dx, bytes);
  launch_shape c = launch_shape_of(rows, w->n, w->dense ? WIDTH(S) : 1, operand_columns(&w->x));
  w->all = c.all;
  return launch(self, c.blocks, c.threads, 0, back ? loss_back_rows<S> : loss_rows<S>, *w);
}


static void open_operands (loss_work *d, const work *w, bool back) {
  d->x = operand_of(&w->in[back]);
  d->target = operand_of(&w->in[back + 1]);
  d->weight = operand_of(&w->in[back + 2]);
  d->dx.lead.rank = -1;
  if (back) {
    d->g = operand_of(&w->in[0]);
    d->lse = operand_of(&w->in[4]);
    d->dx = operand_of(&w->out[0]);
    return;
  }
  d->loss = operand_of(&w->out[0]);
  d->lse = operand_of(&w->out[1]);
  d->share = operand_of(&w->out[2]);
}


const char *cuda_loss (cuda *self, const work *w) {
  const bool back = w->op == LOSS_CROSS_ENTROPY_BACK;
  const view *x = &w->in[back], *weight = &w->in[back + 2];
  loss_work d = {};
  int64_t numel = layout_numel(&x->at);
  if (numel == 0) return NULL;
  open_operands(&d, w, back);
  d.n = row_length(&x->at);
  d.ignored = w->count[0];
  d.smoothing = w->number[0];
  d.faults = cuda_faults(self);
  if (back && d.smoothing != 0 && have(d.weight)) {
    const char *why = sum_weights(self, weight, &d);
    if (why != NULL) return why;
  }
  bool same = one_type(x, 1, x->type) && (!back || w->out[0].type == x->type);
  bool wide = any_double(w);
  if (wide) same = same && x->type == HEED_FLOAT64;
  FOR_ROWS(same, x->type, wide, return loss<S>(self, &d, numel / d.n, back))
  return NULL;
}

/* }================================================================== */
