/*
** grad_move.c - floor 5: gradients of the operations that move elements: the inverse move, applied
** to the gradient.
*/

#include "op/move.h"


/* g's elements in another layout, without being a view of g: as nobody records here, that would
   only keep g. */
static heed_tensor *laid_out (heed_tensor *g, const layout *at) {
  return op_hold(g->cx, tensor_on(g->cx, g->store, g->type, at));
}


/* With the shape of input i. */
static heed_tensor *reshaped (backward *b, heed_tensor *g, int i) {
  const edge *e = &b->n->edges[i];
  layout at;
  if (!layout_reshape(&g->at, e->rank, e->size, &at)) {
    g = op1(HEED_clone, g);
    if (g == NULL || !layout_reshape(&g->at, e->rank, e->size, &at)) return NULL;
  }
  return laid_out(g, &at);
}


static heed_tensor *zeros_like (backward *b, heed_type type, int i) {
  const layout shape = shape_of(b, i);
  return op_zeros(b->cx, type, &shape);
}


/* To sum many gradients in: halves in float32, which the backward pass rounds at the end. */
static heed_tensor *sum_of_zeros (backward *b, int i) {
  return zeros_like(b, op_computing(b->g->type), i);
}


/* The operation again, on t instead of its input, which is the first argument. */
static heed_tensor *same_on (backward *b, heed_tensor *t) {
  heed_value args[HEED_ARGUMENTS];
  int n = op_signature(b->op)->parameters;
  if (t == NULL) return NULL;
  memcpy(args, b->args, (size_t)n * sizeof *args);
  args[ARG(view, input)] = heed_t(t);
  return op_call(b->cx, b->op, n, args);
}


/*
** {==================================================================
** Views
** ===================================================================
*/

SAME_ARG(view, squeeze, input);
SAME_ARG(view, unsqueeze, input);

bool grad_view (backward *b) {
  return give(b, IN(view, input), reshaped(b, b->g, IN(view, input)));
}

bool grad_squeeze (backward *b) { return grad_view(b); }

bool grad_unsqueeze (backward *b) { return grad_view(b); }


bool grad_transpose (backward *b) {
  int one = 0, other = 0, rank = b->g->at.rank;
  layout_axis(rank, b->args[ARG(transpose, dim0)].integer, &one);
  layout_axis(rank, b->args[ARG(transpose, dim1)].integer, &other);
  layout at = rank > 0 ? layout_transpose(&b->g->at, one, other) : b->g->at;
  return give(b, IN(transpose, input), laid_out(b->g, &at));
}


bool grad_permute (backward *b) {
  int back[HEED_RANK], rank = b->g->at.rank, axis;
  const heed_value *dims = &b->args[ARG(permute, dims)];
  for (int i = 0; i < rank; i++) {
    layout_axis(rank, dims->kind == HEED_LIST ? dims->list[i] : dims->integer, &axis);
    back[axis] = i;
  }
  layout at = layout_permute(&b->g->at, back);
  return give(b, IN(permute, input), laid_out(b->g, &at));
}


bool grad_expand (backward *b) { return give(b, IN(expand, input), b->g); }


SAME_ARG(view, select, input);
SAME_ARG(view, slice, input);
SAME_ARG(view, diagonal, input);

/* Elements outside of the part have a gradient of 0. */
static bool grad_part (backward *b) {
  heed_tensor *whole = zeros_like(b, b->g->type, IN(view, input));
  return move_copy(b->cx, b->op, same_on(b, whole), b->g) && give(b, IN(view, input), whole);
}

/* … of which there is none along an axis of size 1. */
bool grad_select (backward *b) {
  const layout shape = shape_of(b, IN(select, input));
  if (layout_numel(&b->g->at) != layout_numel(&shape)) return grad_part(b);
  return give(b, IN(select, input), reshaped(b, b->g, IN(select, input)));
}

bool grad_slice (backward *b) { return grad_part(b); }

bool grad_diagonal (backward *b) { return grad_part(b); }


SAME_ARG(diag_embed, diagonal, offset);

/* What lies on the diagonal. */
bool grad_diag_embed (backward *b) {
  heed_value args[] = {heed_t(b->g), b->args[ARG(diag_embed, offset)],
                       b->args[ARG(diag_embed, dim1)], b->args[ARG(diag_embed, dim2)]};
  return give(b, IN(diag_embed, input), op_call(b->cx, HEED_diagonal, 4, args));
}


/* Windows may overlap: an element gets the gradients of all that contain it. */
bool grad_unfold (backward *b) {
  heed_tensor *whole = sum_of_zeros(b, IN(unfold, input));
  heed_tensor *windows = same_on(b, whole);
  heed_tensor *g = whole != NULL ? op_cast(b->g, whole->type) : NULL;
  work w;
  if (windows == NULL || g == NULL) return false;
  work_scatter(&w, SCATTER_ADD, 0, view_of(windows), view_of(g));
  return (layout_numel(&g->at) == 0 || op_run_for(b->cx, b->op, &w)) &&
         give(b, IN(unfold, input), whole);
}

/* }================================================================== */


/*
** {==================================================================
** Copies
** ===================================================================
*/

bool grad_clone (backward *b) { return give(b, IN(clone, input), b->g); }

bool grad_to (backward *b) { return give(b, IN(to, input), b->g); }

/* Values that were overwritten have a gradient of zeros, not none (PyTorch). */
static bool grad_overwritten (backward *b, int target, int source) {
  if (!give(b, source, b->g)) return false;
  return !wants(b, target) ||
         give(b, target, zeros_like(b, b->g->type, target));
}

bool grad_copy (backward *b) { return grad_overwritten(b, IN(copy, input), IN(copy, src)); }

bool grad_fill (backward *b) { return grad_overwritten(b, IN(fill, input), IN(fill, value)); }


bool grad_join (backward *b) {
  int64_t from = 0;
  int axis;
  layout_axis(b->g->at.rank, b->args[ARG(join, dim)].integer, &axis);
  for (int i = IN(join, tensors); i <= LAST_IN(b); i++) {
    const edge *e = &b->n->edges[i];
    if (e->rank != b->g->at.rank) continue;      /* of shape (0), beside others */
    layout at = layout_narrow(&b->g->at, axis, from, e->size[axis], 1);
    if (wants(b, i) && !give(b, i, op_view(b->g, &at))) return false;
    from += e->size[axis];
  }
  return true;
}


bool grad_flip (backward *b) { return give(b, IN(flip, input), same_on(b, b->g)); }


/* The gradient of padding is cropping, and the reverse. */
bool grad_constant_pad_nd (backward *b) {
  const heed_value *pads = &b->args[ARG(constant_pad_nd, pad)];
  int64_t back[2 * HEED_RANK];
  for (int i = 0; i < pads->n; i++) back[i] = -pads->list[i];
  heed_value args[] = {heed_t(b->g), heed_l(pads->n, back)};
  return give(b, IN(constant_pad_nd, input), op_call(b->cx, HEED_constant_pad_nd, 2, args));
}

/* }================================================================== */


/*
** {==================================================================
** By positions
** ===================================================================
*/

SAME_ARG(gather, scatter, dim);
SAME_ARG(gather, scatter_add, dim);
SAME_ARG(scatter, scatter_add, src);

static bool add_along (backward *b, heed_tensor *sum, heed_tensor *index, heed_tensor *g) {
  if (sum == NULL || index == NULL) return false;
  heed_value args[] = {heed_t(sum), b->args[ARG(gather, dim)], heed_t(index),
                       heed_t(op_cast(g, sum->type))};
  return heed_apply_in_place(b->cx, HEED_scatter_add, args, 4);
}


static heed_tensor *gather_along (backward *b, heed_tensor *index) {
  if (index == NULL) return NULL;
  heed_value args[] = {heed_t(b->g), b->args[ARG(gather, dim)], heed_t(index)};
  return op_call(b->cx, HEED_gather, 3, args);
}


bool grad_gather (backward *b) {
  heed_tensor *sum = sum_of_zeros(b, IN(gather, input));
  return add_along(b, sum, input(b, IN(gather, index)), b->g) && give(b, IN(gather, input), sum);
}


/* The source may be larger than the index: the rest of it has a gradient of 0. */
static bool give_source (backward *b, heed_tensor *index) {
  heed_tensor *g = gather_along(b, index);
  const int src = IN(scatter, src);
  if (g == NULL || rank_of(b, src) == 0 || edge_has_shape(&b->n->edges[src], &g->at))
    return give(b, src, g);
  heed_tensor *whole = zeros_like(b, g->type, src);
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
  if (index == NULL || (wants(b, IN(scatter, src)) && !give_source(b, index))) return false;
  heed_value args[] = {heed_t(b->g), b->args[ARG(scatter, dim)], heed_t(index), heed_i(0)};
  return !wants(b, IN(scatter, input)) ||
         give(b, IN(scatter, input), op_call(b->cx, HEED_scatter, 4, args));
}


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
  heed_tensor *list[OP_EDGES], *sum = sum_of_zeros(b, IN(take, input));
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
  if (index == NULL) return false;
  heed_value args[] = {heed_t(b->g), b->args[ARG(index_add, dim)], heed_t(index)};
  heed_tensor *g = op_call(b->cx, HEED_index_select, 3, args);
  double alpha = b->args[ARG(index_add, alpha)].kind == HEED_FLOAT
                 ? b->args[ARG(index_add, alpha)].number
                 : (double)b->args[ARG(index_add, alpha)].integer;
  return give(b, source, g != NULL ? op2(HEED_mul, g, op_float(b->cx, alpha)) : NULL);
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
  layout to = g->at, at = layout_insert(&ids->at, ids->at.rank);
  work w;
  for (int i = 0; i < ids->at.rank; i++) to.stride[i] = 0;
  to.stride[ids->at.rank] = sum->at.stride[1];
  to.offset = sum->at.offset;
  at.size[ids->at.rank] = sum->at.size[1];
  at.stride[ids->at.rank] = 0;
  work_scatter(&w, SCATTER_ADD, 1, view_with(sum, &to), view_of(g));
  w.in[INDEX_POSITIONS] = view_with(ids, &at);
  w.index.stride[0] = sum->at.stride[0];
  w.index.size[0] = sum->at.size[0];
  return layout_numel(&g->at) == 0 || op_run_for(b->cx, b->op, &w);
}


/* The padding's row has a gradient of 0. */
bool grad_embedding (backward *b) {
  const int weight = IN(embedding, weight);
  const heed_value padding = b->args[ARG(embedding, padding_idx)];
  heed_tensor *ids = input(b, IN(embedding, input)), *sum = sum_of_zeros(b, weight);
  if (!add_rows(b, sum, ids)) return false;
  if (padding.kind != HEED_NONE && !clear_row(sum, padding)) return false;
  return give(b, weight, sum);
}


/* Each gradient goes to the position that its value came from. */
static bool grad_order (backward *b, int in, const heed_value *dim, heed_tensor *indices) {
  heed_tensor *whole = zeros_like(b, b->g->type, in);
  if (indices == NULL || whole == NULL) return false;
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

/* }================================================================== */
