/*
** softmax.cu - softmax of rows, its logarithm, and the ways back: a thread_group of threads for each row.
**
** A row is read twice, the second time from a cache: first for what its elements have in common,
** then for the results. On the way there largest element and sum are found at once.
*/

#include "cuda/rows.h"

#define MOST_THREADS 512


typedef struct softmax_work {
  thread_groups all;
  int64_t n;
  bool dense;                      /* see iterate */
  operand x[2], y;
} softmax_work;


/* What the elements of a row have in common. */
template <class T> struct shared_part { T top, rest; };

template <int KIND, class S>
INLINE shared_part<COMPUTED(S)> forward (const softmax_work &w, const thread_group &t, const line<S> &x) {
  typedef COMPUTED(S) T;
  __shared__ shared_buffer<powers<T>> room;
  powers<T> p = no_exponentials<T>();
  iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) { take_exponentials(p, x.read(s)); });
  p = together(t, join_exponentials(), p, room);
  double sum = isinf(p.top) ? (double)NAN : p.sum;         /* infinite - infinite, as they say */
  return shared_part<T>{p.top, (T)(KIND == SOFTMAX ? 1 / sum : log(sum))};
}


template <int KIND, class S>
INLINE shared_part<COMPUTED(S)> back (const softmax_work &w, const thread_group &t, const line<S> &g,
                                      const line<S> &y) {
  typedef COMPUTED(S) T;
  __shared__ shared_buffer<double> room;
  double sum = 0;
  iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) {
    auto x = g.read(s);
    if (KIND == SOFTMAX_BACK) {
      auto of_y = y.read(s);
      EACH(k, s.count) x.of[k] *= of_y.of[k];
    }
    sum += pack_sum(x);
  });
  return shared_part<T>{0, (T)together(t, plus(), sum, room)};
}


/* Of x, or of g and y. */
template <int KIND, class T> INLINE T result (T a, T b, shared_part<T> c) {
  switch (KIND) {
    case SOFTMAX: return exponential(a - c.top) * c.rest;
    case SOFTMAX_LOG: return (a - c.top) - c.rest;
    case SOFTMAX_BACK: return b * (a - c.rest);
    default: return a - exponential(b) * c.rest;
  }
}


template <int KIND, class S>
KERNEL __launch_bounds__(MOST_THREADS, 1) softmax_rows (const __grid_constant__ softmax_work w) {
  typedef COMPUTED(S) T;
  const bool there = KIND == SOFTMAX || KIND == SOFTMAX_LOG;
  const thread_group t = thread_group_of(w.all);
  const line<S> a = line_of<S>(w.x[0], t), b = line_of<S>(w.x[there ? 0 : 1], t);
  const line<S> y = line_of<S>(w.y, t);
  shared_part<T> c;
  if constexpr (there) c = forward<KIND, S>(w, t, a);
  else c = back<KIND, S>(w, t, a, b);
  iterate<WIDTH(S)>(t, w.n, w.dense, [&] (auto s) {
    auto of_a = a.read(s), of_b = there ? of_a : b.read(s);
    EACH(k, s.count)
      of_a.of[k] = result<KIND, T>(of_a.of[k], of_b.of[k], c);
    y.write(s, of_a);
  });
}


template <class S> static const char *softmax (cuda *self, int kind, softmax_work *w,
                                               int64_t rows) {
  const int bytes = WIDTH(S) * scalar_sizes[w->y.type];
  w->dense = WIDTH(S) > 1 && operand_dense(&w->y, bytes) && operand_dense(&w->x[0], bytes) &&
             operand_dense(&w->x[1], bytes);
  launch_shape c = launch_shape_of(rows, w->n, w->dense ? WIDTH(S) : 1, operand_columns(&w->x[0]));
  w->all = c.all;
  switch (kind) {
    case SOFTMAX: return launch(self, c.blocks, c.threads, 0, softmax_rows<SOFTMAX, S>, *w);
    case SOFTMAX_LOG:
      return launch(self, c.blocks, c.threads, 0, softmax_rows<SOFTMAX_LOG, S>, *w);
    case SOFTMAX_BACK:
      return launch(self, c.blocks, c.threads, 0, softmax_rows<SOFTMAX_BACK, S>, *w);
    default: return launch(self, c.blocks, c.threads, 0, softmax_rows<SOFTMAX_LOG_BACK, S>, *w);
  }
}


const char *cuda_softmax (cuda *self, const work *w) {
  const view *y = &w->out[0];
  int64_t numel = layout_numel(&y->at);
  if (numel == 0) return NULL;
  softmax_work d = {};
  d.n = row_length(&y->at);
  d.y = operand_of(y);
  d.x[1].lead.rank = -1;
  for (int i = 0; i < w->nin; i++) d.x[i] = operand_of(&w->in[i]);
  bool same = one_type(w->in, w->nin, y->type);
  FOR_ROWS(same, y->type, any_double(w), return softmax<S>(self, w->op, &d, numel / d.n))
  return NULL;
}
