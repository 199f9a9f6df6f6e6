/*
** norm.h - layer norm and rms norm of rows, and their gradients.
**
** The gradients of weight and bias are added up in blocks of rows, whose number depends on the
** shape alone, so that the result does not depend on the number of threads.
*/

#ifndef norm_h
#define norm_h

#include "cpu/rows/reduce.h"

#define NORM_BLOCKS 16

typedef struct norm_back {
  row_work rows;
  bool layer;                      /* or rms */
  int64_t block;                   /* rows of one */
  const void *weight;              /* or NULL */
  void *parts;                     /* (NORM_BLOCKS, 2, n): sums of g x^ and of g, as in out[] */
} norm_back;

#define LOOPS "cpu/rows/norm_loops.h"
#include "cpu/for_floats.h"


static const char *norm_forward (cpu *self, const work *w) {
  row_work d;
  rows_open(&d, self, w, &w->in[NORM_X].at);
  return rows_run(&d, norm_rows_float, norm_rows_double);
}


static const char *norm (cpu *self, const work *w) {
  if (w->op == NORM_LAYER || w->op == NORM_RMS) return norm_forward(self, w);
  norm_back d = {.layer = w->op == NORM_LAYER_BACK};
  rows_open(&d.rows, self, w, &w->in[NORM_BACK_X].at);
  bool wide = d.rows.as == HEED_FLOAT64;
  size_t bytes = (size_t)(2 * NORM_BLOCKS + 1) * (size_t)d.rows.n * scalar_sizes[d.rows.as];
  char *workspace = cpu_scratch(self, bytes);
  if (workspace == NULL) return cpu_no_memory;
  d.parts = workspace + (size_t)d.rows.n * scalar_sizes[d.rows.as];
  if (wide) norm_back_double(&d, workspace);
  else norm_back_float(&d, workspace);
  cpu_scratch_free(workspace);
  return d.rows.failed ? cpu_no_memory : NULL;
}

#endif
