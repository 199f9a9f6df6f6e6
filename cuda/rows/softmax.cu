/*
** softmax.cu - softmax of rows, its logarithm, and their gradients: a thread group for each row.
**
** A row is read twice, the second time from a cache: first for what its elements have in common,
** then for the results. Forward, maximum and sum are found in one pass.
*/

#include "cuda/rows/sums.h"

#define BLOCK_THREADS 512


typedef struct softmax_work {
  thread_groups all;
  int64_t n;
  bool dense;                      /* see iterate */
  row_operand x[2], y;
} softmax_work;


/* Shared by the elements of a row. */
template <class T> struct shared_part { T top, rest; };

template <softmax_op OP, class S>
INLINE shared_part<COMPUTED(S)> forward_part (const softmax_work &w, const thread_group &t,
                                              const line<S> &x) {
  typedef COMPUTED(S) T;
  __shared__ shared_buffer<exponentials<T>> buffer;
  exponentials<T> p = no_exponentials<T>();
  iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) { take_exponentials(p, x.read(s)); });
  p = group_reduce(t, join_exponentials(), p, buffer);
  double sum = isinf(p.top) ? (double)NAN : value_of(p.sum);   /* as inf - inf is */
  return shared_part<T>{p.top, (T)(OP == SOFTMAX ? 1 / sum : log(sum))};
}


template <softmax_op OP, class S>
INLINE shared_part<COMPUTED(S)> back_part (const softmax_work &w, const thread_group &t,
                                           const line<S> &g, const line<S> &y) {
  typedef COMPUTED(S) T;
  __shared__ shared_buffer<double> buffer;
  double sum = 0;
  iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) {
    auto x = g.read(s);
    if (OP == SOFTMAX_BACK) {
      auto of_y = y.read(s);
      EACH(k, s.count) x.of[k] *= of_y.of[k];
    }
    sum += pack_sum(x);
  });
  return shared_part<T>{0, (T)group_reduce(t, plus(), sum, buffer)};
}


/* Of x, or of g and y. */
template <softmax_op OP, class T> INLINE T result (T a, T b, shared_part<T> c) {
  if constexpr (OP == SOFTMAX) return exponential(a - c.top) * c.rest;
  else if constexpr (OP == SOFTMAX_LOG) return (a - c.top) - c.rest;
  else if constexpr (OP == SOFTMAX_BACK) return b * (a - c.rest);
  else {
    static_assert(OP == SOFTMAX_LOG_BACK, "an operation of softmax");
    return a - exponential(b) * c.rest;
  }
}


template <softmax_op OP, class S>
KERNEL __launch_bounds__(BLOCK_THREADS, 1) softmax_rows (const __grid_constant__ softmax_work w) {
  typedef COMPUTED(S) T;
  const bool forward = OP == SOFTMAX || OP == SOFTMAX_LOG;
  const thread_group t = thread_group_of(w.all);
  const line<S> a = line_of<S>(w.x[0], t), b = line_of<S>(w.x[forward ? 0 : 1], t);
  const line<S> y = line_of<S>(w.y, t);
  shared_part<T> c;
  if constexpr (forward) c = forward_part<OP, S>(w, t, a);
  else c = back_part<OP, S>(w, t, a, b);
  iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) {
    auto of_a = a.read(s), of_b = forward ? of_a : b.read(s);
    EACH(k, s.count)
      of_a.of[k] = result<OP, T>(of_a.of[k], of_b.of[k], c);
    y.write(s, of_a);
  });
}


template <softmax_op OP, class S>
static const char *softmax (cuda *self, softmax_work *w, int64_t rows) {
  const int bytes = WIDTH(S) * scalar_sizes[w->y.type];
  w->dense = WIDTH(S) > 1 && row_operand_dense(&w->y, bytes) &&
             row_operand_dense(&w->x[0], bytes) && row_operand_dense(&w->x[1], bytes);
  int wide = w->dense ? WIDTH(S) : 1;
  launch_shape c = launch_shape_of(rows, w->n, wide, row_operand_columns(&w->x[0]));
  w->all = c.all;
  return launch(self, c.blocks, c.threads, 0, softmax_rows<OP, S>, *w);
}


template <softmax_op OP> static const char *softmax_of (cuda *self, const work *w) {
  const view *y = &w->out[0];
  softmax_work d = {};
  d.n = row_length(&y->at);
  d.y = row_operand_of(y);
  d.x[1] = no_row_operand();
  for (int i = 0; i < w->nin; i++) d.x[i] = row_operand_of(&w->in[i]);
  bool same = one_type(w->in, w->nin, y->type);
  int64_t rows = layout_numel(&y->at) / d.n;
  FOR_ROWS(same, y->type, any_double(w), return softmax<OP, S>(self, &d, rows))
  return NULL;
}


const char *cuda_softmax (cuda *self, const work *w) {
  if (layout_numel(&w->out[0].at) == 0) return NULL;
  switch ((softmax_op)w->op) {
    case SOFTMAX: return softmax_of<SOFTMAX>(self, w);
    case SOFTMAX_LOG: return softmax_of<SOFTMAX_LOG>(self, w);
    case SOFTMAX_BACK: return softmax_of<SOFTMAX_BACK>(self, w);
    case SOFTMAX_LOG_BACK: return softmax_of<SOFTMAX_LOG_BACK>(self, w);
  }
  return cuda_refuse(self, "unknown softmax operation %d", w->op);
}
