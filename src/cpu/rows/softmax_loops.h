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
** TILE rows at once, transposed: element i of row j at i TILE + j
** ===================================================================
*/

static void FN(tile_top) (int64_t n, T *top, const T *x) {
  memcpy(top, x, TILE * sizeof(T));
  for (int64_t i = 1; i < n; i++)
    VECTOR_LOOP for (int j = 0; j < TILE; j++)
      top[j] = x[i * TILE + j] > top[j] ? x[i * TILE + j] : top[j];
}


/* Sums of the rows; of x y, if there is a y. Short sums of T first, as in reduce. */
static void FN(tile_sum) (int64_t n, T *sum, const T *x, const T *y) {
  A total[TILE] = {0};
  for (int64_t from = 0; from < n; from += 32) {
    int64_t to = from + 32 < n ? from + 32 : n;
    T part[TILE] = {0};
    for (int64_t i = from; i < to; i++) {
      if (y == NULL) VECTOR_LOOP for (int j = 0; j < TILE; j++) part[j] += x[i * TILE + j];
      else VECTOR_LOOP for (int j = 0; j < TILE; j++) part[j] += x[i * TILE + j] * y[i * TILE + j];
    }
    VECTOR_LOOP for (int j = 0; j < TILE; j++) total[j] += part[j];
  }
  for (int j = 0; j < TILE; j++) sum[j] = (T)total[j];
}


static void FN(tile_exponentials) (int64_t n, T *y, const T *x, const T *top) {
  for (int64_t i = 0; i < n; i++)
    VECTOR_LOOP for (int j = 0; j < TILE; j++)
      y[i * TILE + j] = EXP_BELOW(x[i * TILE + j] - top[j]);
}


static void FN(softmax_tile) (int64_t n, T *y, const T *x) {
  T top[TILE], sum[TILE];
  FN(tile_top)(n, top, x);
  FN(tile_exponentials)(n, y, x, top);
  FN(tile_sum)(n, sum, y, NULL);
  for (int j = 0; j < TILE; j++) sum[j] = 1 / sum[j];
  for (int64_t i = 0; i < n; i++)
    VECTOR_LOOP for (int j = 0; j < TILE; j++) y[i * TILE + j] *= sum[j];
}


static void FN(log_softmax_tile) (int64_t n, T *y, const T *x) {
  T top[TILE], sum[TILE];
  FN(tile_top)(n, top, x);
  FN(tile_exponentials)(n, y, x, top);
  FN(tile_sum)(n, sum, y, NULL);
  VECTOR_LOOP for (int j = 0; j < TILE; j++) sum[j] = LOG(sum[j]);
  for (int64_t i = 0; i < n; i++)
    VECTOR_LOOP for (int j = 0; j < TILE; j++)
      y[i * TILE + j] = (x[i * TILE + j] - top[j]) - sum[j];
}


static void FN(softmax_back_tile) (int64_t n, T *dx, const T *g, const T *y) {
  T sum[TILE];
  FN(tile_sum)(n, sum, g, y);
  for (int64_t i = 0; i < n; i++)
    VECTOR_LOOP for (int j = 0; j < TILE; j++)
      dx[i * TILE + j] = y[i * TILE + j] * (g[i * TILE + j] - sum[j]);
}


static void FN(log_softmax_back_tile) (int64_t n, T *dx, const T *g, const T *y) {
  T sum[TILE];
  FN(tile_sum)(n, sum, g, NULL);
  for (int64_t i = 0; i < n; i++)
    VECTOR_LOOP for (int j = 0; j < TILE; j++)
      dx[i * TILE + j] = g[i * TILE + j] - EXP_BELOW(y[i * TILE + j]) * sum[j];
}


/* 'rows' of the rows that begin at x; what is left of the tile is 0. */
static void FN(tile_load) (int64_t n, int64_t rows, T *tile, const T *x, int64_t row,
                           int64_t element) {
  if (row == 1 && rows == TILE) {
    for (int64_t i = 0; i < n; i++) memcpy(tile + i * TILE, x + i * element, TILE * sizeof(T));
    return;
  }
  if (rows < TILE) memset(tile, 0, (size_t)(n * TILE) * sizeof(T));
  for (int64_t j = 0; j < rows; j++)
    for (int64_t i = 0; i < n; i++) tile[i * TILE + j] = x[j * row + i * element];
}


static void FN(tile_store) (int64_t n, int64_t rows, T *y, const T *tile, int64_t row,
                            int64_t element) {
  if (row == 1 && rows == TILE) {
    for (int64_t i = 0; i < n; i++) memcpy(y + i * element, tile + i * TILE, TILE * sizeof(T));
    return;
  }
  for (int64_t j = 0; j < rows; j++)
    for (int64_t i = 0; i < n; i++) y[j * row + i * element] = tile[i * TILE + j];
}


static void FN(softmax_tiles) (void *arg, int64_t from, int64_t to) {
  tile_work *d = arg;
  const work *w = d->rows.w;
  int64_t n = d->rows.n, size = n * TILE;
  row_memory near;
  T *workspace = rows_workspace(&d->rows, 3 * TILE, &near);
  for (int64_t k = from; k < to && workspace != NULL; k++) {
    int64_t rows = tiles_rows(d, k);
    T *a = workspace, *b = workspace + size, *y = workspace + 2 * size;
    for (int i = 0; i < w->nin; i++)
      FN(tile_load)(n, rows, workspace + i * size, (const T *)w->in[i].data + tiles_at(d, i, k),
                    tiles_row(d, i), tiles_element(d, i));
    switch ((softmax_op)w->op) {
      case SOFTMAX: FN(softmax_tile)(n, y, a); break;
      case SOFTMAX_LOG: FN(log_softmax_tile)(n, y, a); break;
      case SOFTMAX_BACK: FN(softmax_back_tile)(n, y, a, b); break;
      case SOFTMAX_LOG_BACK: FN(log_softmax_back_tile)(n, y, a, b); break;
    }
    FN(tile_store)(n, rows, (T *)w->out[0].data + tiles_at(d, w->nin, k), y,
                   tiles_row(d, w->nin), tiles_element(d, w->nin));
  }
  rows_free(workspace, &near);
}

/* }================================================================== */

#endif
