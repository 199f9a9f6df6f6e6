/*
** rotate_loops.h - rotated pairs of a row of type T: included for each T.
*/

#ifndef T
#include "cpu/rows/rotate.h"
#else

/* Pair i at columns i and n + i. */
static void FN(rotate_halves) (int64_t n, T *y, const T *x, const T *cos, const T *sin) {
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
    const T a = x[i], b = x[n + i];
    y[i] = a * cos[i] - b * sin[i];
    y[n + i] = b * cos[i] + a * sin[i];
  }
}


/* Pair i at columns 2 i and 2 i + 1. */
static void FN(rotate_neighbours) (int64_t n, T *y, const T *x, const T *cos, const T *sin) {
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
    const T a = x[2 * i], b = x[2 * i + 1];
    y[2 * i] = a * cos[i] - b * sin[i];
    y[2 * i + 1] = b * cos[i] + a * sin[i];
  }
}


static void FN(rotate_rows) (void *arg, int64_t from, int64_t to) {
  row_work *d = arg;
  const layout *angles = &d->w->in[ROTATE_COS].at;
  const int64_t n = d->n, pairs = angles->size[angles->rank - 1];
  row_memory near;
  T *workspace = rows_workspace(d, 4, &near);
  for (int64_t r = from; r < to && workspace != NULL && !rows_stopped(d); r++) {
    const T *x = iterator_read(d->self, &d->x[ROTATE_X], r * n, n, d->as, workspace);
    const T *cos = iterator_read(d->self, &d->x[ROTATE_COS], r * pairs, pairs, d->as,
                                 workspace + n);
    const T *sin = iterator_read(d->self, &d->x[ROTATE_SIN], r * pairs, pairs, d->as,
                                 workspace + 2 * n);
    T *y = iterator_target(&d->y[0], r * n, n, d->as, workspace + 3 * n);
    (d->w->rotate.interleaved ? FN(rotate_neighbours) : FN(rotate_halves))(pairs, y, x, cos, sin);
    if (2 * pairs < n) memcpy(y + 2 * pairs, x + 2 * pairs, (size_t)(n - 2 * pairs) * sizeof(T));
    iterator_write(d->self, &d->y[0], r * n, n, d->as, y);
  }
  rows_free(workspace, &near);
}

#endif
