/*
** take.c - parts of a tensor that a list of index tensors selects, one for each axis.
**
** A selection is NumPy's advanced indexing: tensors of positions broadcast together; a tensor of
** bools stands for as many axes as it has; axes without an index are kept.
*/

#include <string.h>

#include "op/move.h"


/*
** {==================================================================
** Selecting
** ===================================================================
*/

typedef struct selection {
  int n;                           /* tensors in the list, those of bools replaced */
  heed_tensor *index[HEED_RANK];   /* NULL: the axis is kept */
  bool from_end;                   /* position -1 is the last one */
  int indices;                     /* index tensors, without NULL */
  layout positions;                /* the shape of all index tensors together */
  int first;                       /* the axis of the result where its axes begin */
  layout shape;                    /* of the result, dense */
  layout from;                     /* the tensor that is indexed, with that shape */
} selection;


static bool refuse_index (call *c, int i, int k, const heed_tensor *t) {
  return check_refuse(c, i, "entry %d: positions (int64) or bools (bool) expected, got %s%s",
                      k + 1, scalar_names[t->type],
                      t->at.rank == 0 && t->type == HEED_BOOL ? " of rank 0" : "");
}


/* A tensor of bools stands for its rank of axes: the positions of those that are true. */
static bool add_bools (call *c, int i, int k, heed_tensor *t, const layout *at,
                       selection *s) {
  layout axes = *at;
  char one[LAYOUT_TEXT], other[LAYOUT_TEXT];
  if (t->at.rank == 0) return refuse_index(c, i, k, t);
  axes.rank = t->at.rank;
  if (s->n + t->at.rank <= at->rank)
    memcpy(axes.size, at->size + s->n, (size_t)axes.rank * sizeof *axes.size);
  if (s->n + t->at.rank > at->rank || !layout_same_shape(&axes, &t->at))
    return check_refuse(c, i, "entry %d: bools of shape %s do not fit a tensor of shape %s from "
                        "dimension %d on", k + 1, layout_text(&t->at, one),
                        layout_text(at, other), s->n + 1);
  heed_tensor *where = op1(HEED_nonzero, t);     /* (found, rank) */
  for (int axis = 0; axis < axes.rank && where != NULL; axis++) {
    layout column = layout_select(&where->at, 1, axis);
    if ((s->index[s->n++] = op_view(where, &column)) == NULL) return false;
  }
  return where != NULL;
}


static bool read_indices (call *c, int i, const layout *at, selection *s) {
  const heed_value *list = &c->args[i];
  char text[LAYOUT_TEXT];
  s->n = 0;
  s->from_end = true;
  for (int k = 0; k < list->n; k++) {
    heed_tensor *t = list->tensors[k];
    if (s->n >= at->rank)
      return check_refuse(c, i, "%d entries are too many for a tensor of shape %s", list->n,
                          layout_text(at, text));
    if (t != NULL && t->type == HEED_BOOL) {
      if (!add_bools(c, i, k, t, at, s)) return false;
    }
    else if (t != NULL && t->type != HEED_INT64) return refuse_index(c, i, k, t);
    else s->index[s->n++] = t;
  }
  return true;
}


/* Counts them, and finds the shape that they broadcast to. */
static bool broadcast_indices (call *c, int i, selection *s) {
  char one[LAYOUT_TEXT], other[LAYOUT_TEXT];
  s->indices = 0;
  layout_dense(&s->positions, 0, NULL);
  for (int k = 0; k < s->n; k++) {
    layout wider;
    if (s->index[k] == NULL) continue;
    if (!layout_broadcast(&s->positions, &s->index[k]->at, &wider))
      return check_refuse(c, i, "positions of shapes %s and %s do not broadcast together",
                          layout_text(&s->positions, one), layout_text(&s->index[k]->at, other));
    s->positions = wider;
    s->indices++;
  }
  return true;
}


/* The axes of adjacent index tensors stay where these are; otherwise they come first. */
static int first_axis (const selection *s) {
  int first = -1, last = -1;
  for (int k = 0; k < s->n; k++) {
    if (s->index[k] == NULL) continue;
    if (first < 0) first = k;
    last = k;
  }
  return s->indices > 0 && last - first + 1 == s->indices ? first : 0;
}


static void add_axis (layout *at, int64_t size, int64_t stride) {
  at->size[at->rank] = size;
  at->stride[at->rank++] = stride;
}


/* The layout of the indexed tensor with the result's axes; axes of positions have stride 0. */
static layout indexed_layout (const selection *s, const layout *at) {
  layout result;
  bool added = false;
  result.offset = at->offset;
  result.rank = 0;
  for (int k = 0; k <= at->rank; k++) {
    if (!added && (result.rank == s->first || k == at->rank)) {
      for (int i = 0; i < s->positions.rank; i++) add_axis(&result, s->positions.size[i], 0);
      added = true;
    }
    if (k < at->rank && (k >= s->n || s->index[k] == NULL))
      add_axis(&result, at->size[k], at->stride[k]);
  }
  return result;
}


/* An index tensor with the result's axes; axes that are kept have stride 0. */
static view view_index (const selection *s, const heed_tensor *t) {
  layout wide, at = s->shape;
  layout_expand(&t->at, &s->positions, &wide);
  for (int i = 0; i < at.rank; i++) {
    bool within = i >= s->first && i < s->first + s->positions.rank;
    at.stride[i] = within ? wide.stride[i - s->first] : 0;
  }
  at.offset = wide.offset;
  return view_with(t, &at);
}


static bool check_result (call *c, int i, const layout *at, selection *s) {
  int rank = at->rank + s->positions.rank;
  char text[LAYOUT_TEXT];
  for (int k = 0; k < s->n; k++) rank -= s->index[k] != NULL;
  if (rank > HEED_RANK)
    return check_refuse(c, i, "a result of rank %d; there are at most %d dimensions", rank,
                        HEED_RANK);
  s->from = indexed_layout(s, at);
  return layout_dense(&s->shape, s->from.rank, s->from.size) ||
         check_refuse(c, i, "a result of shape %s has too many elements",
                      layout_text(&s->from, text));
}


/* The work's indices: their views, and the stride and size of their axes. */
static bool set_indices (const layout *at, const selection *s, work *w) {
  int n = 0;
  for (int k = 0; k < s->n; k++) {
    heed_tensor *t = s->index[k];
    if (t == NULL) continue;
    if (!tensor_materialize(t)) return false;
    w->index.stride[n] = at->stride[k];
    w->index.size[n] = at->size[k];
    w->in[INDEX_POSITIONS + n++] = view_index(s, t);
  }
  return true;
}


/* s->index selects from a tensor of layout 'at'; argument i, for messages, listed it. */
static bool finish_selection (call *c, int i, const layout *at, selection *s, work *w) {
  if (!broadcast_indices(c, i, s)) return false;
  s->first = first_axis(s);
  return check_result(c, i, at, s) && set_indices(at, s, w);
}


static heed_tensor *gathered (call *c, heed_tensor *t, const selection *s, work *w) {
  heed_tensor *y = op_new(c->cx, t->type, &s->shape);
  if (y == NULL) return NULL;
  work_gather(w, s->indices, s->from_end, view_of(y), view_with(t, &s->from));
  return layout_numel(&s->shape) == 0 || op_run(c, w) ? y : NULL;
}

/* }================================================================== */


/*
** {==================================================================
** Taking and putting
** ===================================================================
*/

bool do_take (call *c) {
  heed_tensor *t = c->args[ARG(take, input)].tensor;
  const int i = ARG(take, indices);
  selection s;
  work w;
  if (!tensor_materialize(t) || !read_indices(c, i, &t->at, &s)) return false;
  return finish_selection(c, i, &t->at, &s, &w) && give_out(c, gathered(c, t, &s, &w));
}


static bool reads (const heed_tensor *t, const call *c) {
  const heed_value *list = &c->args[ARG(put, indices)];
  for (int k = 0; k < list->n; k++)
    if (list->tensors[k] != NULL && list->tensors[k]->store == t->store) return true;
  return c->args[ARG(put, values)].tensor->store == t->store;
}


static bool refuse_values (call *c, const selection *s) {
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  const layout *values = &c->args[ARG(put, values)].tensor->at;
  return check_refuse(c, ARG(put, values), "values of shape %s do not fit positions of shape %s",
                      layout_text(values, have), layout_text(&s->shape, want));
}


/* The target is written itself unless it is read as well, or more often than it has elements. */
bool do_put (call *c) {
  heed_tensor *t = c->args[ARG(put, input)].tensor;
  heed_tensor *values = move_value(c, ARG(put, values), t->type);
  const int i = ARG(put, indices);
  selection s;
  work w;
  layout wide;
  view x;
  if (values == NULL || !read_indices(c, i, &t->at, &s)) return false;
  heed_tensor *y = c->into == t && !reads(t, c) ? t : move_taken(c, t, &t->at);
  if (y == NULL || !finish_selection(c, i, &y->at, &s, &w)) return false;
  if (y == t && layout_numel(&s.shape) > layout_numel(&t->at)) {
    y = move_taken(c, t, &t->at);
    if (y == NULL || !finish_selection(c, i, &y->at, &s, &w)) return false;
  }
  if (!layout_expand(&values->at, &s.shape, &wide)) return refuse_values(c, &s);
  if (!move_view(values, &s.shape, &x)) return false;
  scatter_op op = arg_flag(c, ARG(put, accumulate)) ? SCATTER_ADD : SCATTER_SET;
  work_scatter(&w, op, s.indices, s.from_end, view_with(y, &s.from), x);
  return (layout_numel(&s.shape) == 0 || op_run(c, &w)) && give_out(c, y);
}


/* The axis in argument 'dim' of a tensor that index_select reads, and index_add writes. */
static bool check_index (call *c, int *axis) {
  const int index = ARG(index_select, index);
  return check_rank(c, ARG(index_select, input), 1, HEED_RANK) && check_rank(c, index, 0, 1) &&
         check_axis(c, ARG(index_select, dim), arg_tensor(c, ARG(index_select, input))->at.rank,
                    axis) && check_index_type(c, index);
}


SAME_ARG(index_select, index_add, input);
SAME_ARG(index_select, index_add, dim);
SAME_ARG(index_select, index_add, index);

/* Index tensors for 'put' and 'take': the positions, as a vector, for one axis. */
static bool list_index (call *c, int axis, heed_tensor *list[HEED_RANK]) {
  heed_tensor *index = arg_tensor(c, ARG(index_select, index));
  layout row = index->at.rank == 0 ? layout_insert(&index->at, 0) : index->at;
  for (int i = 0; i < axis; i++) list[i] = NULL;
  list[axis] = op_view(index, &row);
  return list[axis] != NULL;
}


/* The source has the input's shape, with as many slices along the axis as there are positions. */
static bool check_source (call *c, int axis) {
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  const layout *source = &arg_tensor(c, ARG(index_add, source))->at;
  layout shape = arg_tensor(c, ARG(index_add, input))->at;
  shape.size[axis] = layout_numel(&arg_tensor(c, ARG(index_add, index))->at);
  return layout_same_shape(source, &shape) ||
         check_refuse(c, ARG(index_add, source), "a shape of %s expected, got %s",
                      layout_text(&shape, want), layout_text(source, have));
}


/* The source times alpha. */
static heed_tensor *scaled_source (call *c) {
  heed_tensor *source = arg_tensor(c, ARG(index_add, source));
  double alpha = arg_number(c, ARG(index_add, alpha));
  if (alpha == 1) return source;
  const scope before = scope_unrecorded(c->cx);
  source = op2(HEED_mul, source, arg_scalar(c, ARG(index_add, alpha)));
  scope_end(c->cx, &before);
  return source;
}


/* As 'put', which adds what is selected more than once. */
bool do_index_add (call *c) {
  heed_tensor *list[HEED_RANK];
  call put = *c;
  int axis;
  if (!check_index(c, &axis) || !check_source(c, axis) || !list_index(c, axis, list)) return false;
  heed_tensor *source = scaled_source(c);
  if (source == NULL) return false;
  heed_value args[] = {c->args[ARG(index_add, input)], heed_ts(axis + 1, list), heed_t(source),
                       heed_b(true)};
  put.op = HEED_put;
  put.args = args;
  return do_put(&put) && give_out(c, first_result(&put));
}


/* Rows of blocks as bytes, and such bytes as blocks again: handles on the same memory. */
static heed_tensor *as_bytes (heed_tensor *t) {
  const layout at = view_bytes_layout(t->type, &t->at);
  return op_hold(t->cx, tensor_on(t->cx, t->store, HEED_UINT8, &at));
}

static heed_tensor *as_blocks (heed_tensor *bytes, const heed_tensor *of) {
  if (bytes == NULL) return NULL;
  layout at = bytes->at;
  at.size[at.rank - 1] = of->at.size[of->at.rank - 1];
  if (!layout_dense(&at, at.rank, at.size)) return NULL;
  return op_hold(of->cx, tensor_on(of->cx, bytes->store, of->type, &at));
}


static bool select_blocks (call *c, int axis) {
  heed_tensor *t = arg_tensor(c, ARG(index_select, input));
  if (axis == t->at.rank - 1 || layout_block_axis(&t->at, scalar_blocks[t->type].elements)
                                != t->at.rank - 1)
    return check_refuse(c, ARG(index_select, dim), "whole rows expected of blocks of type %s, "
                        "which lie along the last dimension", scalar_names[t->type]);
  heed_value args[] = {heed_t(as_bytes(t)), heed_i(axis), c->args[ARG(index_select, index)]};
  return give_out(c, as_blocks(op_call(c->cx, HEED_index_select, 3, args), t));
}


bool do_index_select (call *c) {
  int axis;
  heed_tensor *list[HEED_RANK];
  if (!check_index(c, &axis)) return false;
  if (scalar_is_block(arg_tensor(c, ARG(index_select, input))->type))
    return select_blocks(c, axis);
  if (!list_index(c, axis, list)) return false;
  heed_value args[] = {c->args[ARG(index_select, input)], heed_ts(axis + 1, list)};
  return give_out(c, op_call(c->cx, HEED_take, 2, args));
}


/* t expanded to 'shape' but for one axis, which keeps its size. */
static heed_tensor *expanded_beside (heed_tensor *t, layout shape, int axis) {
  shape.size[axis] = t->at.size[axis];
  heed_value args[] = {heed_t(t), heed_l(shape.rank, shape.size)};
  return op_call(t->cx, HEED_expand, 2, args);
}


static bool refuse_beside (call *c, const layout *at, const layout *index, int axis) {
  char one[LAYOUT_TEXT], other[LAYOUT_TEXT];
  return check_refuse(c, ARG(take_along_dim, indices), "positions of shape %s do not broadcast to "
                      "%s beside dimension %d", layout_text(index, other), layout_text(at, one),
                      axis + 1);
}


/* As gather, whose index and input broadcast along the other axes. Without an axis: of one row. */
bool do_take_along_dim (call *c) {
  const int input = ARG(take_along_dim, input), indices = ARG(take_along_dim, indices);
  const int dim = ARG(take_along_dim, dim);
  heed_tensor *t = arg_tensor(c, input), *index = arg_tensor(c, indices);
  layout a, b, shape;
  int axis = 0;
  if (!check_index_type(c, indices)) return false;
  if (!arg_given(c, dim)) {
    t = op1(HEED_flatten, t);
    index = op1(HEED_flatten, index);
    if (t == NULL || index == NULL) return false;
  }
  else if (!check_rank(c, input, 1, HEED_RANK) ||
           !check_rank(c, indices, t->at.rank, t->at.rank) ||
           !check_axis(c, dim, t->at.rank, &axis))
    return false;
  a = t->at;
  b = index->at;
  a.size[axis] = b.size[axis] = 1;
  if (!layout_broadcast(&a, &b, &shape)) return refuse_beside(c, &t->at, &index->at, axis);
  t = expanded_beside(t, shape, axis);
  index = expanded_beside(index, shape, axis);
  heed_value args[] = {heed_t(t), heed_i(axis), heed_t(index)};
  return give_out(c, op_call(c->cx, HEED_gather, 3, args));
}


/* Rows of blocks, as float32. */
static bool embed_blocks (call *c, heed_tensor *weight) {
  heed_value args[] = {c->args[ARG(embedding, input)], heed_t(as_bytes(weight)),
                       c->args[ARG(embedding, padding_idx)]};
  if (layout_block_axis(&weight->at, scalar_blocks[weight->type].elements) != 1)
    return check_refuse(c, ARG(embedding, weight), "rows of type %s along the last dimension "
                        "expected; it is transposed", scalar_names[weight->type]);
  heed_tensor *rows = op_call(c->cx, HEED_embedding, 3, args);
  return give_out(c, op_cast(as_blocks(rows, weight), HEED_FLOAT32));
}


/* Rows of the weight: ids (..) and (V, D) give (.., D). No id counts from the end. */
bool do_embedding (call *c) {
  const int ids = ARG(embedding, input), padding_idx = ARG(embedding, padding_idx);
  heed_tensor *weight = c->args[ARG(embedding, weight)].tensor;
  selection s = {.n = 1, .index = {c->args[ids].tensor}};
  work w;
  int64_t padding, rows;
  if (!check_index_type(c, ids) || !check_rank(c, ARG(embedding, weight), 2, 2)) return false;
  if (scalar_is_block(weight->type)) return embed_blocks(c, weight);
  rows = weight->at.size[0];
  if (arg_given(c, padding_idx) && !check_position(c, padding_idx, rows, &padding)) return false;
  return tensor_materialize(weight) && finish_selection(c, ids, &weight->at, &s, &w) &&
         give_out(c, gathered(c, weight, &s, &w));
}

/* }================================================================== */


/*
** {==================================================================
** Masks
** ===================================================================
*/

bool do_masked_fill (call *c) {
  heed_tensor *t = c->args[ARG(masked_fill, input)].tensor;
  const int bools = ARG(masked_fill, mask), with = ARG(masked_fill, value);
  if (!check_types(c, bools, HEED_BOOL)) return false;
  if (!move_broadcasts(c, ARG(masked_fill, input), bools)) return false;
  if (!check_rank(c, with, 0, 0)) return false;
  heed_tensor *value = t->type == HEED_BOOL ? op_cast(c->args[with].tensor, HEED_BOOL)
                                            : move_value(c, with, t->type);
  return give_out(c, op3(HEED_where, c->args[bools].tensor, value, t));
}


/* Both broadcast; the elements where the mask is true, in order. */
bool do_masked_select (call *c) {
  const int i = ARG(masked_select, input), j = ARG(masked_select, mask);
  heed_tensor *t = c->args[i].tensor, *bools = c->args[j].tensor;
  layout shape;
  if (!check_types(c, j, HEED_BOOL) || !move_broadcasts(c, i, j)) return false;
  layout_broadcast(&t->at, &bools->at, &shape);
  if (shape.rank == 0) shape = layout_insert(&shape, 0);
  heed_value sizes = heed_l(shape.rank, shape.size);
  t = op_call(c->cx, HEED_expand, 2, (heed_value[]){heed_t(t), sizes});
  bools = op_call(c->cx, HEED_expand, 2, (heed_value[]){heed_t(bools), sizes});
  if (t == NULL || bools == NULL) return false;
  heed_value args[] = {heed_t(t), heed_ts(1, &bools)};
  return give_out(c, op_call(c->cx, HEED_take, 2, args));
}

/* }================================================================== */


/*
** {==================================================================
** Gradients
** ===================================================================
*/

/* The saved index tensors, from input 'first' on; NULL for axes without one. */
static bool saved_indices (backward *b, int first, int n, heed_tensor **list) {
  for (int i = 0; i < n; i++) {
    list[i] = NULL;
    if (has_input(b, first + i) && (list[i] = input(b, first + i)) == NULL) return false;
  }
  return true;
}


static bool add_at (backward *b, heed_tensor *sum, int n, heed_tensor *const *list) {
  if (sum == NULL) return false;
  heed_value args[] = {heed_t(sum), heed_ts(n, list), heed_t(op_cast(b->g, sum->type)),
                       heed_b(true)};
  return heed_apply_in_place(b->cx, HEED_put, args, 4);
}


bool grad_take (backward *b) {
  heed_tensor *list[OP_EDGES], *sum = move_sum(b, IN(take, input));
  int n = LAST_IN(b) - IN(take, indices) + 1;
  return saved_indices(b, IN(take, indices), n, list) && add_at(b, sum, n, list) &&
         give(b, IN(take, input), sum);
}


bool grad_put (backward *b) {
  heed_tensor *list[OP_EDGES];
  const int values = LAST_IN(b), n = values - IN(put, indices);
  if (!saved_indices(b, IN(put, indices), n, list)) return false;
  bool adds = b->args[ARG(put, accumulate)].integer != 0;
  heed_value args[] = {heed_t(b->g), heed_ts(n, list), heed_i(0)};
  if (wants(b, values) && !give(b, values, op_call(b->cx, HEED_take, 2, args))) return false;
  return !wants(b, IN(put, input)) ||
         give(b, IN(put, input), adds ? b->g : op_call(b->cx, HEED_put, 3, args));
}


SAME_ARG(index_add, index_select, dim);

bool grad_index_add (backward *b) {
  const int source = IN(index_add, source);
  if (!give(b, IN(index_add, input), b->g)) return false;
  if (!wants(b, source)) return true;
  heed_tensor *index = input(b, IN(index_add, index));
  heed_value args[] = {heed_t(b->g), b->args[ARG(index_add, dim)], heed_t(index)};
  heed_tensor *g = op_call(b->cx, HEED_index_select, 3, args);
  double alpha = b->args[ARG(index_add, alpha)].kind == HEED_FLOAT
                 ? b->args[ARG(index_add, alpha)].number
                 : (double)b->args[ARG(index_add, alpha)].integer;
  return give(b, source, op2(HEED_mul, g, op_float(b->cx, alpha)));
}


static bool clear_row (heed_tensor *t, heed_value index) {
  heed_value args[] = {heed_t(t), heed_i(0), index};
  heed_tensor *row = op_call(t->cx, HEED_select, 3, args);
  return row != NULL && heed_apply_in_place(t->cx, HEED_zero, (heed_value[]){heed_t(row)}, 1);
}


/* Each row of g to the row of 'sum' that its id names. */
static bool add_rows (backward *b, heed_tensor *sum, heed_tensor *ids) {
  heed_tensor *g = sum != NULL ? op_cast(b->g, sum->type) : NULL;
  if (g == NULL || ids == NULL || !tensor_materialize(ids)) return false;
  if (composes(b)) return add_at(b, sum, 1, &ids);
  layout to = g->at, at = layout_insert(&ids->at, ids->at.rank);
  work w;
  for (int i = 0; i < ids->at.rank; i++) to.stride[i] = 0;
  to.stride[ids->at.rank] = sum->at.stride[1];
  to.offset = sum->at.offset;
  at.size[ids->at.rank] = sum->at.size[1];
  at.stride[ids->at.rank] = 0;
  work_scatter(&w, SCATTER_ADD, 1, false, view_with(sum, &to), view_of(g));
  w.in[INDEX_POSITIONS] = view_with(ids, &at);
  w.index.stride[0] = sum->at.stride[0];
  w.index.size[0] = sum->at.size[0];
  return layout_numel(&g->at) == 0 || op_run_for(b->cx, b->op, &w);
}


/* The padding's row has a gradient of 0. */
bool grad_embedding (backward *b) {
  const int weight = IN(embedding, weight);
  const heed_value padding = b->args[ARG(embedding, padding_idx)];
  heed_tensor *ids = input(b, IN(embedding, input)), *sum = move_sum(b, weight);
  if (!add_rows(b, sum, ids)) return false;
  if (padding.kind != HEED_NONE && !clear_row(sum, padding)) return false;
  return give(b, weight, sum);
}

/* }================================================================== */
