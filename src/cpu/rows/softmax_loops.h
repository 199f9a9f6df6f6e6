/*
** softmax_loops.h - softmax of rows of type T: included for each T.
*/

#ifndef T
#include "cpu/rows/softmax.h"
#else

/* The sum of a short row, or of x y if there is a y, in the order of a tile of rows. */
static T FN(short_sum) (int64_t n, const T *x, const T *y) {
  T sum = 0;
  for (int64_t i = 0; i < n; i++) sum += y != NULL ? x[i] * y[i] : x[i];
  return sum;
}


/*
** The largest element is subtracted first, so that no exponential overflows. A NaN need not be
** found for that: it is in the sum, and so in all of the row.
*/
static void FN(softmax_row) (int64_t n, T *y, const T *x) {
  T top = FN(best_of)(n, x, false, false);
  A sum = FN(exponentials)(n, y, x, top);
  const T scale = (T)(1 / (n <= SHORT_ROW ? FN(short_sum)(n, y, NULL) : sum));
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) y[i] *= scale;
}


static void FN(log_softmax_row) (int64_t n, T *y, const T *x) {
  T top = FN(best_of)(n, x, false, false), size;
  if (n <= SHORT_ROW) {
    T e[SHORT_ROW];
    VECTOR_LOOP for (int64_t i = 0; i < n; i++) e[i] = EXP_BELOW(x[i] - top);
    size = LOG(FN(short_sum)(n, e, NULL));
  } else size = (T)log(FN(sum_exp)(n, x, top));
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) y[i] = (x[i] - top) - size;
}


/* dx = y (g - sum g y) */
static void FN(softmax_back_row) (int64_t n, T *dx, const T *g, const T *y) {
  T common = n <= SHORT_ROW ? FN(short_sum)(n, g, y) : (T)FN(dot)(n, g, y);
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (g[i] - common);
}


/* dx = g - e^y sum g */
static void FN(log_softmax_back_row) (int64_t n, T *dx, const T *g, const T *y) {
  T common = n <= SHORT_ROW ? FN(short_sum)(n, g, NULL) : (T)FN(sum)(n, g);
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) dx[i] = g[i] - EXP_BELOW(y[i]) * common;
}


static void FN(softmax_rows) (void *arg, int64_t from, int64_t to) {
  row_work *d = arg;
  int64_t n = d->n;
  row_memory near;
  T *workspace = rows_workspace(d, 3, &near);
  for (int64_t r = from; r < to && workspace != NULL && !rows_stopped(d); r++) {
    const T *a = iterator_read(d->self, &d->x[0], r * n, n, d->as, workspace), *b = a;
    if (d->w->nin > 1) b = iterator_read(d->self, &d->x[1], r * n, n, d->as, workspace + n);
    T *y = iterator_target(&d->y[0], r * n, n, d->as, workspace + 2 * n);
    switch ((softmax_op)d->w->op) {
      case SOFTMAX: FN(softmax_row)(n, y, a); break;
      case SOFTMAX_LOG: FN(log_softmax_row)(n, y, a); break;
      case SOFTMAX_BACK: FN(softmax_back_row)(n, y, a, b); break;
      case SOFTMAX_LOG_BACK: FN(log_softmax_back_row)(n, y, a, b); break;
    }
    iterator_write(d->self, &d->y[0], r * n, n, d->as, y);
  }
  rows_free(workspace, &near);
}


/*
** {==================================================================
** 'wide' rows at once, TILE or FEW, transposed: element i of row j at i wide + j
** ===================================================================
*/

INLINED void FN(tile_top) (const int wide, int64_t n, T *top, const T *x) {
  memcpy(top, x, (size_t)wide * sizeof(T));
  for (int64_t i = 1; i < n; i++)
    VECTOR_LOOP for (int j = 0; j < wide; j++)
      top[j] = x[i * wide + j] > top[j] ? x[i * wide + j] : top[j];
}


/* Sums of the rows; of x y, if there is a y. Short sums of T first, as in reduce. */
INLINED void FN(tile_sum) (const int wide, int64_t n, T *sum, const T *x, const T *y) {
  A total[TILE] = {0};
  for (int64_t from = 0; from < n; from += 32) {
    int64_t to = from + 32 < n ? from + 32 : n;
    T part[TILE] = {0};
    for (int64_t i = from; i < to; i++) {
      if (y == NULL) VECTOR_LOOP for (int j = 0; j < wide; j++) part[j] += x[i * wide + j];
      else VECTOR_LOOP for (int j = 0; j < wide; j++) part[j] += x[i * wide + j] * y[i * wide + j];
    }
    VECTOR_LOOP for (int j = 0; j < wide; j++) total[j] += part[j];
  }
  for (int j = 0; j < wide; j++) sum[j] = (T)total[j];
}


INLINED void FN(tile_exponentials) (const int wide, int64_t n, T *y, const T *x, const T *top) {
  for (int64_t i = 0; i < n; i++)
    VECTOR_LOOP for (int j = 0; j < wide; j++)
      y[i * wide + j] = EXP_BELOW(x[i * wide + j] - top[j]);
}


INLINED void FN(softmax_tile) (const int wide, int64_t n, T *y, const T *x) {
  T top[TILE], sum[TILE];
  FN(tile_top)(wide, n, top, x);
  FN(tile_exponentials)(wide, n, y, x, top);
  FN(tile_sum)(wide, n, sum, y, NULL);
  for (int j = 0; j < wide; j++) sum[j] = 1 / sum[j];
  for (int64_t i = 0; i < n; i++)
    VECTOR_LOOP for (int j = 0; j < wide; j++) y[i * wide + j] *= sum[j];
}


INLINED void FN(log_softmax_tile) (const int wide, int64_t n, T *y, const T *x) {
  T top[TILE], sum[TILE];
  FN(tile_top)(wide, n, top, x);
  FN(tile_exponentials)(wide, n, y, x, top);
  FN(tile_sum)(wide, n, sum, y, NULL);
  VECTOR_LOOP for (int j = 0; j < wide; j++) sum[j] = LOG(sum[j]);
  for (int64_t i = 0; i < n; i++)
    VECTOR_LOOP for (int j = 0; j < wide; j++)
      y[i * wide + j] = (x[i * wide + j] - top[j]) - sum[j];
}


INLINED void FN(softmax_back_tile) (const int wide, int64_t n, T *dx, const T *g, const T *y) {
  T sum[TILE];
  FN(tile_sum)(wide, n, sum, g, y);
  for (int64_t i = 0; i < n; i++)
    VECTOR_LOOP for (int j = 0; j < wide; j++)
      dx[i * wide + j] = y[i * wide + j] * (g[i * wide + j] - sum[j]);
}


INLINED void FN(log_softmax_back_tile) (const int wide, int64_t n, T *dx, const T *g, const T *y) {
  T sum[TILE];
  FN(tile_sum)(wide, n, sum, g, NULL);
  for (int64_t i = 0; i < n; i++)
    VECTOR_LOOP for (int j = 0; j < wide; j++)
      dx[i * wide + j] = g[i * wide + j] - EXP_BELOW(y[i * wide + j]) * sum[j];
}


/* 'rows' of the rows that begin at x; what is left of the tile is 0. */
INLINED void FN(tile_load) (const int wide, int64_t n, int64_t rows, T *tile, const T *x,
                            int64_t row, int64_t element) {
  const size_t bytes = (size_t)wide * sizeof(T);
  if (row == 1 && rows == wide) {
    for (int64_t i = 0; i < n; i++) memcpy(tile + i * wide, x + i * element, bytes);
    return;
  }
  if (rows < wide) memset(tile, 0, (size_t)(n * wide) * sizeof(T));
  for (int64_t j = 0; j < rows; j++)
    for (int64_t i = 0; i < n; i++) tile[i * wide + j] = x[j * row + i * element];
}


INLINED void FN(tile_store) (const int wide, int64_t n, int64_t rows, T *y, const T *tile,
                             int64_t row, int64_t element) {
  const size_t bytes = (size_t)wide * sizeof(T);
  if (row == 1 && rows == wide) {
    for (int64_t i = 0; i < n; i++) memcpy(y + i * element, tile + i * wide, bytes);
    return;
  }
  for (int64_t j = 0; j < rows; j++)
    for (int64_t i = 0; i < n; i++) y[j * row + i * element] = tile[i * wide + j];
}


/* Tile k, whose rows are not more than 'wide'. */
INLINED void FN(run_tile) (const int wide, const tile_work *d, int64_t k, T *workspace) {
  const work *w = d->rows.w;
  const int64_t n = d->rows.n, size = n * wide, rows = tiles_rows(d, k);
  T *a = workspace, *b = workspace + size, *y = workspace + 2 * size;
  for (int i = 0; i < w->nin; i++)
    FN(tile_load)(wide, n, rows, workspace + i * size,
                  (const T *)w->in[i].data + tiles_at(d, i, k), tiles_row(d, i),
                  tiles_element(d, i));
  switch ((softmax_op)w->op) {
    case SOFTMAX: FN(softmax_tile)(wide, n, y, a); break;
    case SOFTMAX_LOG: FN(log_softmax_tile)(wide, n, y, a); break;
    case SOFTMAX_BACK: FN(softmax_back_tile)(wide, n, y, a, b); break;
    case SOFTMAX_LOG_BACK: FN(log_softmax_back_tile)(wide, n, y, a, b); break;
  }
  FN(tile_store)(wide, n, rows, (T *)w->out[0].data + tiles_at(d, w->nin, k), y,
                 tiles_row(d, w->nin), tiles_element(d, w->nin));
}


static void FN(softmax_tiles) (void *arg, int64_t from, int64_t to) {
  tile_work *d = arg;
  row_memory near;
  T *workspace = rows_workspace(&d->rows, 3 * TILE, &near);
  for (int64_t k = from; k < to && workspace != NULL; k++)
    if (tiles_rows(d, k) <= FEW) FN(run_tile)(FEW, d, k, workspace);
    else FN(run_tile)(TILE, d, k, workspace);
  rows_free(workspace, &near);
}

/* }================================================================== */

#endif
