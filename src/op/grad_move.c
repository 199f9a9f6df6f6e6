/*
** grad_move.c - floor 5: gradients of the operations that move elements. What goes somewhere
** by an operation comes back by its opposite.
*/

#include "op/move.h"


static heed_tensor *reshaped (heed_tensor *g, const layout *shape) {
  heed_value args[] = {heed_t(g), heed_l(shape->rank, shape->size)};
  return op_call(g->cx, HEED_reshape, 2, args);
}


/* What many gradients add up in: halves in float32, which the walk rounds at the end. */
static heed_tensor *sum_of_zeros (rule *r, const layout *shape) {
  return op_zeros(r->cx, op_computing(r->g->type), shape);
}


/* The operation again, on t instead of the input. */
static heed_tensor *same_on (rule *r, heed_tensor *t) {
  heed_value args[HEED_ARGUMENTS];
  int n = op_signature(r->cx, r->op)->parameters;
  if (t == NULL) return NULL;
  memcpy(args, r->args, (size_t)n * sizeof *args);
  args[0] = heed_t(t);
  return op_call(r->cx, r->op, n, args);
}


/*
** {==================================================================
** Views
** ===================================================================
*/

bool grad_view (rule *r) { return give(r, 0, reshaped(r->g, shape_of(r, 0))); }

bool grad_squeeze (rule *r) { return grad_view(r); }

bool grad_unsqueeze (rule *r) { return grad_view(r); }


bool grad_transpose (rule *r) { return give(r, 0, same_on(r, r->g)); }


bool grad_permute (rule *r) {
  int64_t back[HEED_RANK];
  int rank = r->g->at.rank, axis;
  for (int i = 0; i < rank; i++) {
    int64_t wanted = r->args[1].kind == HEED_LIST ? r->args[1].list[i] : r->args[1].integer;
    layout_axis(rank, wanted, &axis);
    back[axis] = i;
  }
  heed_value args[] = {heed_t(r->g), heed_l(rank, back)};
  return give(r, 0, op_call(r->cx, HEED_permute, 2, args));
}


bool grad_expand (rule *r) { return give(r, 0, r->g); }


/* Nothing but the part that was seen has influence. */
static bool grad_part (rule *r) {
  heed_tensor *whole = op_zeros(r->cx, r->g->type, shape_of(r, 0));
  return move_copy(r->cx, r->op, same_on(r, whole), r->g) && give(r, 0, whole);
}

bool grad_select (rule *r) { return grad_part(r); }

bool grad_slice (rule *r) { return grad_part(r); }

bool grad_diagonal (rule *r) { return grad_part(r); }


/* Windows may overlap: an element gets the gradients of all that show it. */
bool grad_unfold (rule *r) {
  heed_tensor *whole = sum_of_zeros(r, shape_of(r, 0)), *windows = same_on(r, whole);
  heed_tensor *g = whole != NULL ? op_cast(r->g, whole->type) : NULL;
  work w;
  if (windows == NULL || g == NULL) return false;
  w.kind = WORK_SCATTER;
  w.op = SCATTER_ADD;
  w.nout = w.nin = 1;
  w.mask.n = 0;
  w.out[0] = tensor_seen(windows);
  w.in[0] = tensor_seen(g);
  return (layout_numel(&g->at) == 0 || op_run_for(r->cx, r->op, &w)) && give(r, 0, whole);
}

/* }================================================================== */


/*
** {==================================================================
** Copies
** ===================================================================
*/

bool grad_clone (rule *r) { return give(r, 0, r->g); }

bool grad_to (rule *r) { return give(r, 0, r->g); }

/* What was written over has no influence, and that is a gradient of zeros (PyTorch). */
bool grad_copy (rule *r) {
  return give(r, 1, r->g) &&
         (!wants(r, 0) || give(r, 0, op_zeros(r->cx, r->g->type, shape_of(r, 0))));
}

bool grad_fill (rule *r) { return grad_copy(r); }


bool grad_join (rule *r) {
  int64_t from = 0;
  int axis;
  layout_axis(r->g->at.rank, r->args[1].integer, &axis);
  for (int i = 0; i < r->n->nedges; i++) {
    const layout *shape = shape_of(r, i);
    if (shape->rank != r->g->at.rank) continue;  /* of shape (0), beside others */
    layout at = layout_narrow(&r->g->at, axis, from, shape->size[axis], 1);
    if (wants(r, i) && !give(r, i, op_view(r->g, &at))) return false;
    from += shape->size[axis];
  }
  return true;
}


bool grad_flip (rule *r) { return give(r, 0, same_on(r, r->g)); }


/* Padding backwards is cropping, and the other way round. */
bool grad_pad (rule *r) {
  const heed_value *pads = &r->args[1];
  int64_t back[2 * HEED_RANK];
  for (int i = 0; i < pads->n; i++) back[i] = -pads->list[i];
  heed_value args[] = {heed_t(r->g), heed_l(pads->n, back)};
  return give(r, 0, op_call(r->cx, HEED_pad, 2, args));
}

/* }================================================================== */


/*
** {==================================================================
** By positions
** ===================================================================
*/

static bool add_along (rule *r, heed_tensor *sum, heed_tensor *index, heed_tensor *g) {
  if (sum == NULL || index == NULL) return false;
  heed_value args[] = {heed_t(sum), r->args[1], heed_t(index), heed_t(op_cast(g, sum->type))};
  return heed_apply_in_place(r->cx, HEED_scatter_add, args, 4);
}


static heed_tensor *gather_along (rule *r, heed_tensor *index) {
  if (index == NULL) return NULL;
  heed_value args[] = {heed_t(r->g), r->args[1], heed_t(index)};
  return op_call(r->cx, HEED_gather, 3, args);
}


bool grad_gather (rule *r) {
  heed_tensor *sum = sum_of_zeros(r, shape_of(r, 0));
  return add_along(r, sum, input(r, 1), r->g) && give(r, 0, sum);
}


/* The source may be larger than the index: the rest of it has no influence. */
static bool give_source (rule *r, heed_tensor *index) {
  heed_tensor *g = gather_along(r, index);
  const layout *shape = shape_of(r, 2);
  if (g == NULL || shape->rank == 0 || layout_same_shape(&g->at, shape)) return give(r, 2, g);
  heed_tensor *whole = op_zeros(r->cx, g->type, shape);
  if (whole == NULL) return false;
  layout at = whole->at;
  memcpy(at.size, g->at.size, (size_t)at.rank * sizeof *at.size);
  return move_copy(r->cx, r->op, op_view(whole, &at), g) && give(r, 2, whole);
}


bool grad_scatter_add (rule *r) {
  return give(r, 0, r->g) && (!wants(r, 2) || give_source(r, input(r, 1)));
}


bool grad_scatter (rule *r) {
  heed_tensor *index = input(r, 1);
  if (index == NULL || (wants(r, 2) && !give_source(r, index))) return false;
  heed_value args[] = {heed_t(r->g), r->args[1], heed_t(index), heed_i(0)};
  return !wants(r, 0) || give(r, 0, op_call(r->cx, HEED_scatter, 4, args));
}


/* The saved index tensors, from input 'first' on; NULL for axes taken whole. */
static bool indices (rule *r, int first, int n, heed_tensor **list) {
  for (int i = 0; i < n; i++) {
    list[i] = NULL;
    if (has_input(r, first + i) && (list[i] = input(r, first + i)) == NULL) return false;
  }
  return true;
}


static bool add_at (rule *r, heed_tensor *sum, int n, heed_tensor *const *list) {
  if (sum == NULL) return false;
  heed_value args[] = {heed_t(sum), heed_ts(n, list), heed_t(op_cast(r->g, sum->type)),
                       heed_b(true)};
  return heed_apply_in_place(r->cx, HEED_put, args, 4);
}


bool grad_take (rule *r) {
  heed_tensor *list[OP_EDGES], *sum = sum_of_zeros(r, shape_of(r, 0));
  int n = r->n->nedges - 1;
  return indices(r, 1, n, list) && add_at(r, sum, n, list) && give(r, 0, sum);
}


bool grad_put (rule *r) {
  heed_tensor *list[OP_EDGES];
  int n = r->n->nedges - 2;
  if (!indices(r, 1, n, list)) return false;
  bool adds = r->args[3].integer != 0;
  heed_value args[] = {heed_t(r->g), heed_ts(n, list), heed_i(0)};
  if (wants(r, n + 1) && !give(r, n + 1, op_call(r->cx, HEED_take, 2, args))) return false;
  return !wants(r, 0) || give(r, 0, adds ? r->g : op_call(r->cx, HEED_put, 3, args));
}


/* The row of the padding learns nothing. */
bool grad_embedding (rule *r) {
  heed_tensor *ids = input(r, 0), *sum = sum_of_zeros(r, shape_of(r, 1));
  if (ids == NULL || !add_at(r, sum, 1, &ids)) return false;
  if (r->args[2].kind == HEED_NONE) return give(r, 1, sum);
  heed_value args[] = {heed_t(sum), heed_i(0), r->args[2]};
  heed_tensor *row = op_call(r->cx, HEED_select, 3, args);
  return row != NULL && heed_apply_in_place(r->cx, HEED_zero, (heed_value[]){heed_t(row)}, 1) &&
         give(r, 1, sum);
}


/* Each value goes back to where it stood. */
static bool grad_order (rule *r, const heed_value *dim) {
  heed_tensor *where = output(r, 1), *whole = op_zeros(r->cx, r->g->type, shape_of(r, 0));
  if (where == NULL || whole == NULL) return false;
  heed_value args[] = {heed_t(whole), *dim, heed_t(where), heed_t(r->g)};
  return heed_apply_in_place(r->cx, HEED_scatter, args, 4) && give(r, 0, whole);
}

bool grad_sort (rule *r) { return grad_order(r, &r->args[1]); }

bool grad_topk (rule *r) { return grad_order(r, &r->args[2]); }

/* }================================================================== */
