/*
** loss.h - cross entropy of rows with labels, and the way back.
*/

#ifndef loss_h
#define loss_h

#define T float
#define A double
#define FN(name) name##_float
#include "cpu/loss_loops.h"
#undef T
#undef FN

#define T double
#define FN(name) name##_double
#include "cpu/loss_loops.h"
#undef T
#undef A
#undef FN


/* Labels count from 1, and one that does may be ignored. */
static const char *check_labels (row_work *d) {
  int64_t ignored = d->w->count[0], workspace;
  int target = d->w->op == LOSS_CROSS_ENTROPY ? 1 : 2;
  for (int64_t r = 0; r < d->rows; r++) {
    int64_t label = *(const int64_t *)iterator_read(d->self, &d->x[target], r, 1, HEED_INT64, &workspace);
    if (label == ignored || (label >= 1 && label <= d->n)) continue;
    return cpu_refuse(d->self, "label %lld at position %lld is outside 1 to %lld; "
                      "labels count from 1%s", (long long)label, (long long)r + 1,
                      (long long)d->n, label == 0 ? ": + 1?" : "");
  }
  return NULL;
}


static const char *loss (cpu *self, const work *w) {
  row_work d;
  bool back = w->op == LOSS_CROSS_ENTROPY_BACK;
  rows_open(&d, self, w, &w->in[back].at);
  const char *message = check_labels(&d);
  if (message != NULL) return message;
  if (back) return rows_run(&d, loss_back_rows_float, loss_back_rows_double);
  return rows_run(&d, loss_rows_float, loss_rows_double);
}

#endif
