/*
** softmax.h - softmax of rows, its logarithm, and the ways back.
*/

#ifndef softmax_h
#define softmax_h

#include "cpu/rows.h"

#define T float
#define A double
#define FN(name) name##_float
#include "cpu/softmax_loops.h"
#undef T
#undef FN

#define T double
#define FN(name) name##_double
#include "cpu/softmax_loops.h"
#undef T
#undef A
#undef FN


static const char *softmax (cpu *self, const work *w) {
  row_work d;
  rows_open(&d, self, w, &w->out[0].at);
  return rows_run(&d, softmax_rows_float, softmax_rows_double);
}

#endif
