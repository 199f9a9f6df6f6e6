/*
** softmax_loops.h - softmax of rows of type T: included for each T.
*/

/* The largest element is taken away first, so that no power overflows. */
static void FN(softmax_row) (int64_t n, T *y, const T *x) {
  T top = FN(extreme)(n, x, false);
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) y[i] = EXP(x[i] - top);
  T scale = (T)(1 / FN(sum)(n, y));
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) y[i] *= scale;
}


static void FN(log_softmax_row) (int64_t n, T *y, const T *x) {
  T top = FN(extreme)(n, x, false), size = (T)log(FN(powers)(n, x, top));
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) y[i] = (x[i] - top) - size;
}


/* dx = y (g - sum g y) */
static void FN(softmax_back_row) (int64_t n, T *dx, const T *g, const T *y) {
  T common = (T)FN(dot)(n, g, y);
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (g[i] - common);
}


/* dx = g - e^y sum g */
static void FN(log_softmax_back_row) (int64_t n, T *dx, const T *g, const T *y) {
  T common = (T)FN(sum)(n, g);
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) dx[i] = g[i] - EXP(y[i]) * common;
}


static void FN(softmax_rows) (void *arg, int64_t from, int64_t to) {
  row_work *d = arg;
  int64_t n = d->n;
  T *room = rows_room(d, 3);
  for (int64_t r = from; r < to && room != NULL; r++) {
    const T *a = stream_read(d->self, &d->x[0], r * n, n, d->as, room), *b = a;
    if (d->w->nin > 1) b = stream_read(d->self, &d->x[1], r * n, n, d->as, room + n);
    T *y = stream_place(&d->y[0], r * n, n, d->as, room + 2 * n);
    switch (d->w->op) {
      case SOFTMAX: FN(softmax_row)(n, y, a); break;
      case SOFTMAX_LOG: FN(log_softmax_row)(n, y, a); break;
      case SOFTMAX_BACK: FN(softmax_back_row)(n, y, a, b); break;
      default: FN(log_softmax_back_row)(n, y, a, b); break;
    }
    stream_write(d->self, &d->y[0], r * n, n, d->as, y);
  }
  cpu_scratch_free(room);
}
