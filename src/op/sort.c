/*
** sort.c - elements in order, with the positions where they stood.
*/

#include <inttypes.h>

#include "op/compose.h"
#include "op/move.h"


/* t with the axis moved to the end; one of rank 0 is viewed as a row of one. */
static view view_last (const heed_tensor *t, int axis) {
  layout at = t->at.rank > 0 ? t->at : layout_insert(&t->at, 0);
  int order[HEED_RANK];
  for (int i = 0; i < at.rank; i++) order[i] = i < axis ? i : i + 1;
  order[at.rank - 1] = axis;
  at = layout_permute(&at, order);
  return view_with(t, &at);
}


SAME_ARG(sort, topk, input);
SAME_OUT(sort, topk, values);
SAME_OUT(sort, topk, indices);

/* The first 'kept' in order along the axis. */
static bool sort (call *c, int axis, bool descending, int64_t kept) {
  heed_tensor *t = arg_tensor(c, ARG(sort, input));
  layout shape = t->at;
  work w;
  if (!tensor_materialize(t)) return false;
  if (shape.rank > 0) shape.size[axis] = kept;
  heed_tensor *y = op_new(c->cx, t->type, &shape);
  heed_tensor *positions = op_new(c->cx, HEED_INT64, &shape);
  if (y == NULL || positions == NULL) return false;
  work_sort(&w, descending, kept, view_last(y, axis), view_last(positions, axis),
            view_last(t, axis));
  return (layout_numel(&shape) == 0 || op_run(c, &w)) &&
         give_outs(c, 2, (heed_tensor *[]){[OUT(sort, values)] = y,
                                           [OUT(sort, indices)] = positions});
}


bool do_sort (call *c) {
  const layout *at = &arg_tensor(c, ARG(sort, input))->at;
  int axis;
  if (!check_axis(c, ARG(sort, dim), at->rank, &axis)) return false;
  return sort(c, axis, arg_flag(c, ARG(sort, descending)), at->rank > 0 ? at->size[axis] : 1);
}


bool do_topk (call *c) {
  const layout *at = &arg_tensor(c, ARG(topk, input))->at;
  int64_t k = arg_count(c, ARG(topk, k));
  int axis;
  if (!check_axis(c, ARG(topk, dim), at->rank, &axis)) return false;
  int64_t n = at->rank > 0 ? at->size[axis] : 1;
  if (k < 0 || k > n || (at->rank == 0 && k != 1))
    return check_refuse(c, ARG(topk, k), "%" PRId64 " elements do not stand along dimension %d of "
                        "size %" PRId64, k, axis + 1, n);
  return sort(c, axis, arg_flag(c, ARG(topk, largest)), k);
}


SAME_ARG(sort, argsort, input);
SAME_ARG(sort, argsort, dim);
SAME_ARG(sort, argsort, descending);
SAME_ARG(sort, argsort, stable);

bool do_argsort (call *c) {
  heed_tensor *ys[HEED_RESULTS];
  return op_calls(c->cx, HEED_sort, op_signature(c->cx, c->op)->parameters, c->args, ys) &&
         give_out(c, ys[OUT(sort, indices)]);
}


/* Each gradient goes to the position that its value came from. */
static bool grad_order (backward *b, int in, const heed_value *dim, heed_tensor *indices) {
  heed_tensor *whole = move_zeros(b, b->g->type, in);
  heed_value args[] = {heed_t(whole), *dim, heed_t(indices), heed_t(b->g)};
  return heed_apply_in_place(b->cx, HEED_scatter, args, 4) && give(b, in, whole);
}


bool grad_sort (backward *b) {
  const heed_value *dim = &b->args[ARG(sort, dim)];
  return grad_order(b, IN(sort, input), dim, output(b, OUT(sort, indices)));
}


bool grad_topk (backward *b) {
  const heed_value *dim = &b->args[ARG(topk, dim)];
  return grad_order(b, IN(topk, input), dim, output(b, OUT(topk, indices)));
}
