/*
** reduction.c - reductions over any axes, as work for a device.
*/

#include "graph/call.h"
#include "graph/reduction.h"


void reduction_open (reduction *f, heed_tensor *x, const bool marks[HEED_RANK], bool keepdim) {
  const layout *at = &x->at;
  int64_t out[HEED_RANK], shape[HEED_RANK];
  int order[HEED_RANK], kept = 0, n = 0, rank = 0;
  f->x = x;
  f->count = 1;
  for (int i = 0; i < at->rank; i++) {
    if (marks[i]) f->count *= at->size[i];
    else out[kept] = at->size[i], order[kept++] = i;
    if (!marks[i] || keepdim) shape[rank++] = marks[i] ? 1 : at->size[i];
  }
  for (int i = 0; i < at->rank; i++)
    if (marks[i]) order[kept + n++] = i;
  f->axes = n;
  f->in = layout_permute(at, order);
  layout_dense(&f->out, kept, out);
  layout_dense(&f->shape, rank, shape);
}


bool reduction_run (const reduction *f, heed_op op, reduce_op kind, heed_tensor *y,
                    heed_tensor *z) {
  work w;
  if (y == NULL) return false;
  work_reduce(&w, kind, f->axes, view_with(y, &f->out),
              z != NULL ? view_with(z, &f->out) : view_none(), view_with(f->x, &f->in));
  return op_run_for(y->cx, op, &w);
}
