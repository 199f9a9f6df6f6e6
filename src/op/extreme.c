/*
** extreme.c - the largest and the smallest elements and their positions, with gradients.
*/

#include "op/reduce.h"


SAME_OUT(max, min, values);
SAME_OUT(max, min, indices);

/* With an axis, their positions too. */
static bool extreme (call *c, reduce_op kind) {
  reduction f;
  heed_tensor *y, *positions = NULL;
  if (!reduce_open(c, &f, reduce_input(c)) || !reduce_check_some(c, &f)) return false;
  y = op_new(c->cx, f.x->type, &f.shape);
  if (arg_given(c, ARG(max, dim))) {
    positions = op_new(c->cx, HEED_INT64, &f.shape);
    if (positions == NULL) return false;
  }
  return reduction_run(&f, c->op, kind, y, positions) &&
         give_outs(c, 2, (heed_tensor *[]){[OUT(max, values)] = y,
                                           [OUT(max, indices)] = positions});
}


bool do_max (call *c) { return extreme(c, REDUCE_MAX); }


bool do_min (call *c) { return extreme(c, REDUCE_MIN); }


/* Over any axes, without positions. */
static bool extreme_value (call *c, reduce_op kind) {
  reduction f;
  return reduce_open(c, &f, reduce_input(c)) && reduce_check_some(c, &f) &&
         reduce_give(c, &f, kind, f.x->type);
}


bool do_amax (call *c) { return extreme_value(c, REDUCE_MAX); }


bool do_amin (call *c) { return extreme_value(c, REDUCE_MIN); }


static bool position (call *c, reduce_op kind) {
  reduction f;
  return reduce_open(c, &f, reduce_input(c)) && reduce_check_some(c, &f) &&
         reduce_give(c, &f, kind, HEED_INT64);
}


bool do_argmax (call *c) { return position(c, REDUCE_ARGMAX); }


bool do_argmin (call *c) { return position(c, REDUCE_ARGMIN); }


/* Where x is y, both NaN included. */
static heed_tensor *same (heed_tensor *x, heed_tensor *y) {
  heed_tensor *both = op2(HEED_logical_and, op1(HEED_isnan, x), op1(HEED_isnan, y));
  return op2(HEED_logical_or, op2(HEED_eq, x, y), both);
}


/* g to where x is y, in even shares. */
heed_tensor *reduce_shared (backward *b, heed_tensor *x, heed_tensor *y) {
  heed_tensor *ties = same(x, reduce_spread(b, y));
  heed_tensor *share = op2(HEED_div, reduce_spread(b, b->g), reduce_repeated(b, HEED_sum, ties));
  return op3(HEED_where, ties, share, op_integer(b->cx, 0));
}


/* The same by operations. */
static heed_tensor *composed (backward *b, heed_tensor *zeros, heed_tensor *positions) {
  const heed_value *dim = &b->args[ARG(max, dim)];
  heed_tensor *g = b->g;
  if (g->at.rank < zeros->at.rank) {
    g = op_along(HEED_unsqueeze, g, dim->integer);
    positions = op_along(HEED_unsqueeze, positions, dim->integer);
  }
  if (g == NULL || positions == NULL) return NULL;
  heed_value args[] = {heed_t(zeros), *dim, heed_t(positions), heed_t(g)};
  return op_call(b->cx, HEED_scatter, 4, args);
}


/* g at the positions, in zeros of the input's shape. */
static heed_tensor *scattered (backward *b, heed_tensor *positions) {
  const layout shape = shape_of(b, REDUCE_INPUT);
  heed_tensor *dx = op_zeros(b->cx, b->g->type, &shape);
  int axis;
  work w;
  if (dx == NULL || positions == NULL) return NULL;
  if (composes(b)) return composed(b, dx, positions);
  if (!layout_axis(dx->at.rank, b->args[ARG(max, dim)].integer, &axis)) return NULL;
  layout into = dx->at;
  int64_t stride = into.rank > 0 ? into.stride[axis] : 0;
  int64_t size = into.rank > 0 ? into.size[axis] : 1;
  if (b->g->at.rank < into.rank) into = layout_select(&into, axis, 0);
  else if (into.rank > 0) into = layout_narrow(&into, axis, 0, 1, 1);
  work_scatter(&w, SCATTER_SET, 1, false, view_with(dx, &into), view_of(b->g));
  w.in[INDEX_POSITIONS] = view_of(positions);
  w.index.stride[0] = stride;
  w.index.size[0] = size;
  return op_run_for(b->cx, b->op, &w) ? dx : NULL;
}


/* Of an axis: the one that was found. Of all: every one that is the largest, in even shares. */
bool grad_max (backward *b) {
  if (b->args[ARG(max, dim)].kind != HEED_NONE)
    return reduce_give_input(b, scattered(b, output(b, OUT(max, indices))));
  heed_tensor *x = input(b, REDUCE_INPUT), *y = output(b, OUT(max, values));
  return reduce_give_input(b, reduce_shared(b, x, y));
}


bool grad_min (backward *b) { return grad_max(b); }


SAME_OUT(amax, amin, output);

bool grad_amax (backward *b) {
  heed_tensor *x = input(b, REDUCE_INPUT), *y = output(b, OUT(amax, output));
  return reduce_give_input(b, reduce_shared(b, x, y));
}


bool grad_amin (backward *b) { return grad_amax(b); }
