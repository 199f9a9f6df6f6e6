/*
** rotate.h - rows of pairs, each rotated by an angle.
*/

#ifndef rotate_h
#define rotate_h

#include "cpu/rows/reduce.h"
#include "cpu/rows/rows.h"

#define LOOPS "cpu/rows/rotate_loops.h"
#include "cpu/for_floats.h"


static const char *rotate (cpu *self, const work *w) {
  row_work d;
  rows_open(&d, self, w, &w->in[ROTATE_X].at);
  return rows_run(&d, rotate_rows_float, rotate_rows_double);
}

#endif
