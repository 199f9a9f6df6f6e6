/*
** reduce.cu - reductions: layouts, and which reducer does the work. See reduce.h.
*/

#include "cuda/rows/reduce.h"


/* The input's axes, those of the results first, then those of a row. */
static void set_layouts (reduce_work *d, const work *w) {
  const layout *in = &w->in[0].at;
  int rank = in->rank - w->reduce.axes;
  layout outer = *in, row = *in;
  path paths[3];
  const layout *of_results[3] = {&outer}, *only = &row;
  outer.rank = rank;
  row.rank = in->rank - rank;
  for (int i = 0; i < row.rank; i++) {
    row.size[i] = in->size[rank + i];
    row.stride[i] = in->stride[rank + i];
  }
  for (int i = 0; i < w->nout; i++) of_results[i + 1] = &w->out[i].at;
  paths_of(w->nout + 1, of_results, paths);
  d->x = row_operand{w->in[0].data, w->in[0].type, paths[0], 1};
  for (int i = 0; i < w->nout; i++)
    d->y[i] = reduce_result{w->out[i].data, w->out[i].type, paths[i + 1]};
  paths_of(1, &only, &d->row);
  d->count = layout_numel(&row);
}


/* Mean and squares are two passes, so that a large mean costs no digits. */
static const char *moments (cuda *self, reduce_work *d, int64_t results) {
  d->averages = true;
  d->mean = (double *)cuda_scratch(self, (size_t)results * sizeof *d->mean);
  if (d->mean == NULL) return cuda_no_memory;
  const char *why = reduce_sums(self, d);
  return why != NULL ? why : reduce_squares(self, d);
}


const char *cuda_reduce (cuda *self, const work *w) {
  if (layout_numel(&w->out[0].at) == 0) return NULL;
  reduce_work d = {};
  set_layouts(&d, w);
  d.nout = w->nout;
  d.low = w->op == REDUCE_MIN || w->op == REDUCE_ARGMIN;
  d.positions = w->op == REDUCE_ARGMAX || w->op == REDUCE_ARGMIN;
  d.zero = w->op == REDUCE_ALL;
  switch ((reduce_op)w->op) {
    case REDUCE_SUM: return reduce_sums(self, &d);
    case REDUCE_PROD: return reduce_products(self, &d);
    case REDUCE_MAX: case REDUCE_MIN: case REDUCE_ARGMAX: case REDUCE_ARGMIN:
      return reduce_extremes(self, &d);
    case REDUCE_ANY: case REDUCE_ALL: return reduce_bools(self, &d);
    case REDUCE_SQUARES: return reduce_squares(self, &d);
    case REDUCE_MOMENTS: return moments(self, &d, layout_numel(&w->out[0].at));
    case REDUCE_LOGSUMEXP: return reduce_exponentials(self, &d);
  }
  return cuda_refuse(self, "unknown reduction %d", w->op);
}
