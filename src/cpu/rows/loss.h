/*
** loss.h - cross entropy of rows with labels, and its gradient.
*/

#ifndef cpu_loss_h
#define cpu_loss_h

#include "cpu/rows/reduce.h"

static int64_t label_of (const row_work *d, int target, int64_t row) {
  int64_t workspace;
  return *(const int64_t *)iterator_read(d->self, &d->x[target], row, 1, HEED_INT64, &workspace);
}


/* Rows whose logarithms are taken together, if short: long ones could be stopped only late. */
#define LOSS_BLOCK 16
#define LONG_CLASSES 1024

#define LOOPS "cpu/rows/loss_loops.h"
#include "cpu/for_floats.h"


/* Labels count from 1, but for the one that is ignored. */
static const char *check_labels (row_work *d) {
  const int64_t ignored = d->w->loss.ignore_index;
  const int target = d->w->op == LOSS_CROSS_ENTROPY ? (int)LOSS_TARGET : (int)LOSS_BACK_TARGET;
  for (int64_t r = 0; r < d->rows; r++) {
    const int64_t label = label_of(d, target, r);
    if (cpu_stops(d->self, r, 1)) return cpu_interrupted;
    if (label == ignored || (label >= 1 && label <= d->n)) continue;
    return cpu_refuse(d->self, "label %lld at position %lld is outside 1 to %lld; "
                      "labels count from 1%s", (long long)label, (long long)r + 1,
                      (long long)d->n, label == 0 ? ": + 1?" : "");
  }
  return NULL;
}


static const char *loss (cpu *self, const work *w) {
  row_work d;
  const bool back = w->op == LOSS_CROSS_ENTROPY_BACK;
  rows_open(&d, self, w, &w->in[back ? (int)LOSS_BACK_X : (int)LOSS_X].at);
  const char *message = check_labels(&d);
  if (message != NULL) return message;
  if (back) return rows_run(&d, loss_back_rows_float, loss_back_rows_double);
  return rows_run(&d, loss_rows_float, loss_rows_double);
}

#endif
