/*
** index.c - elements at positions that tensors hold: read, written, counted.
**
** Devices take positions from 1 to the size of an axis and check them. Positions that count
** from the end are converted here, if there are any.
*/

#include <inttypes.h>

#include <string.h>

#include "op/move.h"


/*
** {==================================================================
** Along one axis: gather, scatter. A tensor of rank 0 is viewed as one of rank 1.
** ===================================================================
*/

SAME_ARG(gather, scatter, input);
SAME_ARG(gather, scatter, dim);
SAME_ARG(gather, scatter, index);
SAME_ARG(gather, scatter_add, input);
SAME_ARG(gather, scatter_add, dim);
SAME_ARG(gather, scatter_add, index);
SAME_ARG(scatter, scatter_add, src);

static layout lifted (const layout *at) { return at->rank > 0 ? *at : layout_insert(at, 0); }


/* Is 'small' nowhere larger than 'large', but perhaps along 'axis' (-1: nowhere)? */
static bool check_within (call *c, int i, const layout *small, int j, const layout *large,
                          int axis) {
  char one[LAYOUT_TEXT], other[LAYOUT_TEXT];
  bool fits = small->rank == large->rank;
  for (int k = 0; fits && k < small->rank; k++)
    fits = k == axis || small->size[k] <= large->size[k];
  return fits || check_refuse(c, i, "shape %s does not fit into the shape %s of argument '%s'",
                              layout_text(small, one), layout_text(large, other),
                              check_name(c, j));
}


/* t's storage with the shape of the index; the axis gets stride 0. */
static view view_along (const heed_tensor *t, const layout *index, int axis) {
  layout at = lifted(&t->at);
  memcpy(at.size, index->size, (size_t)index->rank * sizeof *at.size);
  if (axis >= 0) at.stride[axis] = 0;
  return view_with(t, &at);
}


/* The work's index, along the axis of 'indexed' that the call names. */
static bool set_along (call *c, work *w, heed_tensor *indexed, layout *index, int *axis) {
  const int i = ARG(gather, index);
  layout large = lifted(&indexed->at);
  if (!check_axis(c, ARG(gather, dim), large.rank, axis) || !check_index_type(c, i)) return false;
  *index = lifted(&c->args[i].tensor->at);
  if (!check_within(c, i, index, ARG(gather, input), &large, *axis)) return false;
  heed_tensor *positions = c->args[i].tensor;
  if (!tensor_materialize(positions)) return false;
  w->index.stride[0] = large.stride[*axis];
  w->index.size[0] = large.size[*axis];
  w->in[INDEX_POSITIONS] = view_along(positions, index, -1);
  return true;
}


bool do_gather (call *c) {
  heed_tensor *t = c->args[ARG(gather, input)].tensor;
  work w;
  layout index;
  int axis;
  if (!tensor_materialize(t) || !set_along(c, &w, t, &index, &axis)) return false;
  heed_tensor *y = op_new(c->cx, t->type, &c->args[ARG(gather, index)].tensor->at);
  if (y == NULL) return false;
  work_gather(&w, 1, true, view_along(y, &index, -1), view_along(t, &index, axis));
  return (layout_numel(&index) == 0 || op_run(c, &w)) && give_out(c, y);
}


static bool shares (const heed_tensor *a, const heed_tensor *b) {
  return a->store != NULL && a->store == b->store;
}


/* The input's values in a tensor that may be written: the target, unless that must not be. */
static heed_tensor *written (call *c, heed_tensor *input, bool apart) {
  if (c->into == input && !apart) return input;
  return move_taken(c, input, &input->at);
}


/* The values to scatter: at least as large as the index, or one for all. */
static bool view_values (call *c, heed_tensor *src, const layout *index, view *values) {
  if (!tensor_materialize(src)) return false;
  if (src->at.rank == 0) return move_view(src, index, values);
  if (!check_within(c, ARG(scatter, index), index, ARG(scatter, src), &src->at, -1)) return false;
  *values = view_along(src, index, -1);
  return true;
}


static bool scatter (call *c, scatter_op kind) {
  heed_tensor *t = c->args[ARG(scatter, input)].tensor;
  heed_tensor *src = move_value(c, ARG(scatter, src), t->type);
  work w;
  layout index;
  view values;
  int axis;
  if (src == NULL) return false;
  const heed_tensor *positions = c->args[ARG(scatter, index)].tensor;
  bool long_work = layout_numel(&positions->at) > layout_numel(&t->at);
  heed_tensor *y = written(c, t, shares(t, src) || shares(t, positions) || long_work);
  if (y == NULL || !set_along(c, &w, y, &index, &axis)) return false;
  if (!view_values(c, src, &index, &values)) return false;
  work_scatter(&w, kind, 1, true, view_along(y, &index, axis), values);
  return (layout_numel(&index) == 0 || op_run(c, &w)) && give_out(c, y);
}


bool do_scatter (call *c) { return scatter(c, SCATTER_SET); }

bool do_scatter_add (call *c) { return scatter(c, SCATTER_ADD); }

/* }================================================================== */


/*
** {==================================================================
** Positions as results
** ===================================================================
*/

/* How many elements are not 0; -1 after a failure. */
static int64_t count_true (heed_tensor *t) {
  int64_t n = -1;
  if (t->type != HEED_BOOL) t = op2(HEED_ne, t, op_integer(t->cx, 0));
  t = op1(HEED_sum, t);
  return t != NULL && heed_read(t, HEED_INT64, &n) ? n : -1;
}


/* (found, rank) */
bool do_nonzero (call *c) {
  heed_tensor *t = c->args[ARG(nonzero, input)].tensor;
  int64_t size[2] = {0, t->at.rank};
  if (!tensor_materialize(t) || (size[0] = count_true(t)) < 0) return false;
  heed_tensor *y = op_new_sized(c->cx, HEED_INT64, 2, size);
  work w;
  if (y == NULL) return false;
  work_nonzero(&w, view_of(y), view_of(t));
  return (layout_numel(&y->at) == 0 || op_run(c, &w)) && give_out(c, y);
}


/* The largest label, on the host. */
static bool largest (call *c, heed_tensor *labels, int64_t *value) {
  heed_tensor *y = op_new_sized(c->cx, HEED_INT64, 0, NULL);
  work w;
  if (y == NULL) return false;
  work_reduce(&w, REDUCE_MAX, labels->at.rank, view_of(y), view_none(), view_of(labels));
  return op_run(c, &w) && heed_read(y, HEED_INT64, value);
}


/* The number of classes: given, or the largest label. */
static bool read_classes (call *c, heed_tensor *labels, int64_t *n) {
  const int i = ARG(one_hot, num_classes);
  *n = arg_count(c, i);
  if (*n > 0) return true;
  if (*n != -1) return check_refuse(c, i, "one class or more expected, got %" PRId64, *n);
  if (layout_numel(&labels->at) == 0)
    return check_refuse(c, i, "without labels, the number of classes must be given");
  if (!largest(c, labels, n)) return false;
  return *n > 0 || check_refuse(c, ARG(one_hot, input), "label %" PRId64 ": labels count from 1",
                                *n);
}


/* Labels do not count from the end: the device refuses a negative one. */
bool do_one_hot (call *c) {
  heed_tensor *t = c->args[ARG(one_hot, input)].tensor;
  layout shape = t->at;
  int64_t n;
  work w;
  view one;
  if (!check_index_type(c, ARG(one_hot, input))) return false;
  if (!check_rank(c, ARG(one_hot, input), 0, HEED_RANK - 1)) return false;
  if (!tensor_materialize(t) || !read_classes(c, t, &n)) return false;
  shape.size[shape.rank++] = n;
  if (!layout_dense(&shape, shape.rank, shape.size))
    return check_refuse(c, ARG(one_hot, num_classes), "%" PRId64 " classes are too many elements",
                        n);
  heed_tensor *y = op_zeros(c->cx, HEED_INT64, &shape);
  if (y == NULL) return false;
  layout first = layout_select(&shape, shape.rank - 1, 0);
  if (!move_view(op_integer(c->cx, 1), &first, &one)) return false;
  work_scatter(&w, SCATTER_SET, 1, false, view_with(y, &first), one);
  w.index.stride[0] = 1;
  w.index.size[0] = n;
  w.in[INDEX_POSITIONS] = view_of(t);
  return (layout_numel(&t->at) == 0 || op_run(c, &w)) && give_out(c, y);
}

/* }================================================================== */


/*
** {==================================================================
** Gradients
** ===================================================================
*/

SAME_ARG(gather, scatter, dim);
SAME_ARG(gather, scatter_add, dim);
SAME_ARG(scatter, scatter_add, src);

static bool add_along (backward *b, heed_tensor *sum, heed_tensor *index, heed_tensor *g) {
  if (sum == NULL) return false;
  heed_value args[] = {heed_t(sum), b->args[ARG(gather, dim)], heed_t(index),
                       heed_t(op_cast(g, sum->type))};
  return heed_apply_in_place(b->cx, HEED_scatter_add, args, 4);
}


static heed_tensor *gather_along (backward *b, heed_tensor *index) {
  heed_value args[] = {heed_t(b->g), b->args[ARG(gather, dim)], heed_t(index)};
  return op_call(b->cx, HEED_gather, 3, args);
}


bool grad_gather (backward *b) {
  heed_tensor *sum = move_sum(b, IN(gather, input));
  return add_along(b, sum, input(b, IN(gather, index)), b->g) && give(b, IN(gather, input), sum);
}


/* The source may be larger than the index: the rest of it has a gradient of 0. */
static bool give_source (backward *b, heed_tensor *index) {
  heed_tensor *g = gather_along(b, index);
  const int src = IN(scatter, src);
  if (g == NULL || rank_of(b, src) == 0 || edge_has_shape(&b->n->edges[src], &g->at))
    return give(b, src, g);
  heed_tensor *whole = move_zeros(b, g->type, src);
  if (whole == NULL) return false;
  layout at = whole->at;
  memcpy(at.size, g->at.size, (size_t)at.rank * sizeof *at.size);
  return move_copy(b->cx, b->op, op_view(whole, &at), g) && give(b, src, whole);
}


bool grad_scatter_add (backward *b) {
  if (!give(b, IN(scatter_add, input), b->g)) return false;
  return !wants(b, IN(scatter_add, src)) || give_source(b, input(b, IN(scatter_add, index)));
}


bool grad_scatter (backward *b) {
  heed_tensor *index = input(b, IN(scatter, index));
  if (wants(b, IN(scatter, src)) && !give_source(b, index)) return false;
  heed_value args[] = {heed_t(b->g), b->args[ARG(scatter, dim)], heed_t(index), heed_i(0)};
  return !wants(b, IN(scatter, input)) ||
         give(b, IN(scatter, input), op_call(b->cx, HEED_scatter, 4, args));
}

/* }================================================================== */
