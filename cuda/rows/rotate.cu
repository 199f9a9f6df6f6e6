/*
** rotate.cu - rows of pairs, each rotated by an angle: a thread group for each row.
*/

#include "cuda/rows/rows.h"

#define BLOCK_THREADS 512


typedef struct rotate_work {
  thread_groups all;
  int64_t n, pairs;
  bool interleaved;
  bool dense;                      /* see iterate */
  row_operand x, cos, sin, y;
} rotate_work;


/* The first columns of a row's pairs, or, with k = 1, the second. */
template <class S> INLINE line<S> columns_of (const rotate_work &w, line<S> row, int k) {
  if (w.interleaved) return line<S>{row.data + k * row.stride, 2 * row.stride};
  return line<S>{row.data + k * w.pairs * row.stride, row.stride};
}


template <class S>
KERNEL __launch_bounds__(BLOCK_THREADS, 1) rotate_rows (const __grid_constant__ rotate_work w) {
  typedef COMPUTED(S) T;
  const thread_group t = thread_group_of(w.all);
  const line<S> x = line_of<S>(w.x, t), y = line_of<S>(w.y, t);
  const line<T> cos = line_of<T>(w.cos, t), sin = line_of<T>(w.sin, t);
  const line<S> xa = columns_of(w, x, 0), xb = columns_of(w, x, 1);
  const line<S> ya = columns_of(w, y, 0), yb = columns_of(w, y, 1);
  iterate<WIDTH(S)>(t, w.pairs, w.dense, [&] (auto s) {
    const auto c = cos.read(s), d = sin.read(s);
    auto a = xa.read(s), b = xb.read(s);
    EACH(k, s.count) {
      const T first = a.of[k], second = b.of[k];
      a.of[k] = first * c.of[k] - second * d.of[k];
      b.of[k] = second * c.of[k] + first * d.of[k];
    }
    ya.write(s, a);
    yb.write(s, b);
  });
  iterate_from<1>(t, 2 * w.pairs, w.n, false, [&] (auto s) { y.write(s, x.read(s)); });
}


/* Are rows and halves of rows aligned to the width in which threads read them? */
template <class S> static bool is_dense (const rotate_work *w) {
  typedef COMPUTED(S) T;
  const int bytes = WIDTH(S) * (int)sizeof(S), wide = WIDTH(S) * (int)sizeof(T);
  return !w->interleaved && w->pairs % WIDTH(S) == 0 && row_operand_dense(&w->x, bytes) &&
         row_operand_dense(&w->y, bytes) && row_operand_dense(&w->cos, wide) &&
         row_operand_dense(&w->sin, wide);
}


template <class S> static const char *rotate (cuda *self, rotate_work *w, int64_t rows) {
  w->dense = is_dense<S>(w);
  launch_shape c = launch_shape_of(rows, w->pairs, w->dense ? WIDTH(S) : 1, false);
  w->all = c.all;
  return launch(self, c.blocks, c.threads, 0, rotate_rows<S>, *w);
}


const char *cuda_rotate (cuda *self, const work *w) {
  const view *y = &w->out[0];
  rotate_work d = {};
  if (layout_numel(&y->at) == 0) return NULL;
  d.n = row_length(&y->at);
  d.pairs = row_length(&w->in[ROTATE_COS].at);
  d.interleaved = w->rotate.interleaved;
  d.x = row_operand_of(&w->in[ROTATE_X]);
  d.cos = row_operand_of(&w->in[ROTATE_COS]);
  d.sin = row_operand_of(&w->in[ROTATE_SIN]);
  d.y = row_operand_of(y);
  const int64_t rows = layout_numel(&y->at) / d.n;
  FOR_FLOAT(y->type, return rotate<S>(self, &d, rows))
  return cuda_refuse(self, "rotation of pairs in %s", scalar_names[y->type]);
}
