/*
** sort.c - elements in order, with the positions where they stood.
*/

#include <inttypes.h>

#include "op/op.h"


/* t with the axis moved to the end; one of rank 0 is seen as a row of one. */
static view view_last (const heed_tensor *t, int axis) {
  layout at = t->at.rank > 0 ? t->at : layout_insert(&t->at, 0);
  int order[HEED_RANK];
  for (int i = 0; i < at.rank; i++) order[i] = i < axis ? i : i + 1;
  order[at.rank - 1] = axis;
  at = layout_permute(&at, order);
  return view_with(t, &at);
}


/* The first 'kept' in order along the axis. */
static bool sort (call *c, int axis, bool falls, int64_t kept) {
  heed_tensor *t = c->args[0].tensor;
  layout shape = t->at;
  work w;
  if (!tensor_materialize(t)) return false;
  if (shape.rank > 0) shape.size[axis] = kept;
  heed_tensor *ys[] = {op_new(c->cx, t->type, &shape), op_new(c->cx, HEED_INT64, &shape)};
  if (ys[0] == NULL || ys[1] == NULL) return false;
  w.kind = WORK_SORT;
  w.op = c->op;
  w.nout = 2;
  w.nin = 1;
  w.mask.n = 0;
  w.count[0] = falls;
  w.count[1] = kept;
  w.in[0] = view_last(t, axis);
  for (int i = 0; i < 2; i++) w.out[i] = view_last(ys[i], axis);
  return (layout_numel(&ys[0]->at) == 0 || op_run(c, &w)) && give_outs(c, 2, ys);
}


bool do_sort (call *c) {
  const layout *at = &c->args[0].tensor->at;
  int axis;
  if (!check_axis(c, 1, at->rank, &axis)) return false;
  return sort(c, axis, arg_flag(c, 2), at->rank > 0 ? at->size[axis] : 1);
}


bool do_topk (call *c) {
  const layout *at = &c->args[0].tensor->at;
  int64_t k = arg_count(c, 1);
  int axis;
  if (!check_axis(c, 2, at->rank, &axis)) return false;
  int64_t n = at->rank > 0 ? at->size[axis] : 1;
  if (k < 0 || k > n || (at->rank == 0 && k != 1))
    return check_refuse(c, 1, "%" PRId64 " elements do not stand along dimension %d of size %"
                        PRId64, k, axis + 1, n);
  return sort(c, axis, arg_flag(c, 3), k);
}


bool do_argsort (call *c) {
  heed_tensor *ys[HEED_RESULTS];
  return op_calls(c->cx, HEED_sort, 4, c->args, ys) && give_out(c, ys[1]);
}
