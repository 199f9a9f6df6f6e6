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
static heed_tensor *sum_of_zeros (backward *b, const layout *shape) {
  return op_zeros(b->cx, op_computing(b->g->type), shape);
}


/* The operation again, on t instead of the input. */
static heed_tensor *same_on (backward *b, heed_tensor *t) {
  heed_value args[HEED_ARGUMENTS];
  int n = op_signature(b->cx, b->op)->parameters;
  if (t == NULL) return NULL;
  memcpy(args, b->args, (size_t)n * sizeof *args);
  args[0] = heed_t(t);
  return op_call(b->cx, b->op, n, args);
}


/*
** {==================================================================
** Views
** ===================================================================
*/

bool grad_view (backward *b) { return give(b, 0, reshaped(b->g, shape_of(b, 0))); }

bool grad_squeeze (backward *b) { return grad_view(b); }

bool grad_unsqueeze (backward *b) { return grad_view(b); }


bool grad_transpose (backward *b) { return give(b, 0, same_on(b, b->g)); }


bool grad_permute (backward *b) {
  int64_t back[HEED_RANK];
  int rank = b->g->at.rank, axis;
  for (int i = 0; i < rank; i++) {
    int64_t wanted = b->args[1].kind == HEED_LIST ? b->args[1].list[i] : b->args[1].integer;
    layout_axis(rank, wanted, &axis);
    back[axis] = i;
  }
  heed_value args[] = {heed_t(b->g), heed_l(rank, back)};
  return give(b, 0, op_call(b->cx, HEED_permute, 2, args));
}


bool grad_expand (backward *b) { return give(b, 0, b->g); }


/* Nothing but the part that was seen has influence. */
static bool grad_part (backward *b) {
  heed_tensor *whole = op_zeros(b->cx, b->g->type, shape_of(b, 0));
  return move_copy(b->cx, b->op, same_on(b, whole), b->g) && give(b, 0, whole);
}

bool grad_select (backward *b) { return grad_part(b); }

bool grad_slice (backward *b) { return grad_part(b); }

bool grad_diagonal (backward *b) { return grad_part(b); }


/* Windows may overlap: an element gets the gradients of all that show it. */
bool grad_unfold (backward *b) {
  heed_tensor *whole = sum_of_zeros(b, shape_of(b, 0)), *windows = same_on(b, whole);
  heed_tensor *g = whole != NULL ? op_cast(b->g, whole->type) : NULL;
  work w;
  if (windows == NULL || g == NULL) return false;
  w.kind = WORK_SCATTER;
  w.op = SCATTER_ADD;
  w.nout = w.nin = 1;
  w.mask.n = 0;
  w.out[0] = view_of(windows);
  w.in[0] = view_of(g);
  return (layout_numel(&g->at) == 0 || op_run_for(b->cx, b->op, &w)) && give(b, 0, whole);
}

/* }================================================================== */


/*
** {==================================================================
** Copies
** ===================================================================
*/

bool grad_clone (backward *b) { return give(b, 0, b->g); }

bool grad_to (backward *b) { return give(b, 0, b->g); }

/* What was written over has no influence, and that is a gradient of zeros (PyTorch). */
bool grad_copy (backward *b) {
  return give(b, 1, b->g) &&
         (!wants(b, 0) || give(b, 0, op_zeros(b->cx, b->g->type, shape_of(b, 0))));
}

bool grad_fill (backward *b) { return grad_copy(b); }


bool grad_join (backward *b) {
  int64_t from = 0;
  int axis;
  layout_axis(b->g->at.rank, b->args[1].integer, &axis);
  for (int i = 0; i < b->n->nedges; i++) {
    const layout *shape = shape_of(b, i);
    if (shape->rank != b->g->at.rank) continue;  /* of shape (0), beside others */
    layout at = layout_narrow(&b->g->at, axis, from, shape->size[axis], 1);
    if (wants(b, i) && !give(b, i, op_view(b->g, &at))) return false;
    from += shape->size[axis];
  }
  return true;
}


bool grad_flip (backward *b) { return give(b, 0, same_on(b, b->g)); }


/* Padding backwards is cropping, and the other way round. */
bool grad_pad (backward *b) {
  const heed_value *pads = &b->args[1];
  int64_t back[2 * HEED_RANK];
  for (int i = 0; i < pads->n; i++) back[i] = -pads->list[i];
  heed_value args[] = {heed_t(b->g), heed_l(pads->n, back)};
  return give(b, 0, op_call(b->cx, HEED_pad, 2, args));
}

/* }================================================================== */


/*
** {==================================================================
** By positions
** ===================================================================
*/

static bool add_along (backward *b, heed_tensor *sum, heed_tensor *index, heed_tensor *g) {
  if (sum == NULL || index == NULL) return false;
  heed_value args[] = {heed_t(sum), b->args[1], heed_t(index), heed_t(op_cast(g, sum->type))};
  return heed_apply_in_place(b->cx, HEED_scatter_add, args, 4);
}


static heed_tensor *gather_along (backward *b, heed_tensor *index) {
  if (index == NULL) return NULL;
  heed_value args[] = {heed_t(b->g), b->args[1], heed_t(index)};
  return op_call(b->cx, HEED_gather, 3, args);
}


bool grad_gather (backward *b) {
  heed_tensor *sum = sum_of_zeros(b, shape_of(b, 0));
  return add_along(b, sum, input(b, 1), b->g) && give(b, 0, sum);
}


/* The source may be larger than the index: the rest of it has no influence. */
static bool give_source (backward *b, heed_tensor *index) {
  heed_tensor *g = gather_along(b, index);
  const layout *shape = shape_of(b, 2);
  if (g == NULL || shape->rank == 0 || layout_same_shape(&g->at, shape)) return give(b, 2, g);
  heed_tensor *whole = op_zeros(b->cx, g->type, shape);
  if (whole == NULL) return false;
  layout at = whole->at;
  memcpy(at.size, g->at.size, (size_t)at.rank * sizeof *at.size);
  return move_copy(b->cx, b->op, op_view(whole, &at), g) && give(b, 2, whole);
}


bool grad_scatter_add (backward *b) {
  return give(b, 0, b->g) && (!wants(b, 2) || give_source(b, input(b, 1)));
}


bool grad_scatter (backward *b) {
  heed_tensor *index = input(b, 1);
  if (index == NULL || (wants(b, 2) && !give_source(b, index))) return false;
  heed_value args[] = {heed_t(b->g), b->args[1], heed_t(index), heed_i(0)};
  return !wants(b, 0) || give(b, 0, op_call(b->cx, HEED_scatter, 4, args));
}


/* The saved index tensors, from input 'first' on; NULL for axes taken whole. */
static bool indices (backward *b, int first, int n, heed_tensor **list) {
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
  heed_tensor *list[OP_EDGES], *sum = sum_of_zeros(b, shape_of(b, 0));
  int n = b->n->nedges - 1;
  return indices(b, 1, n, list) && add_at(b, sum, n, list) && give(b, 0, sum);
}


bool grad_put (backward *b) {
  heed_tensor *list[OP_EDGES];
  int n = b->n->nedges - 2;
  if (!indices(b, 1, n, list)) return false;
  bool adds = b->args[3].integer != 0;
  heed_value args[] = {heed_t(b->g), heed_ts(n, list), heed_i(0)};
  if (wants(b, n + 1) && !give(b, n + 1, op_call(b->cx, HEED_take, 2, args))) return false;
  return !wants(b, 0) || give(b, 0, adds ? b->g : op_call(b->cx, HEED_put, 3, args));
}


/* The row of the padding learns nothing. */
bool grad_embedding (backward *b) {
  heed_tensor *ids = input(b, 0), *sum = sum_of_zeros(b, shape_of(b, 1));
  if (ids == NULL || !add_at(b, sum, 1, &ids)) return false;
  if (b->args[2].kind == HEED_NONE) return give(b, 1, sum);
  heed_value args[] = {heed_t(sum), heed_i(0), b->args[2]};
  heed_tensor *row = op_call(b->cx, HEED_select, 3, args);
  return row != NULL && heed_apply_in_place(b->cx, HEED_zero, (heed_value[]){heed_t(row)}, 1) &&
         give(b, 1, sum);
}


/* Each value goes back to where it stood. */
static bool grad_order (backward *b, const heed_value *dim) {
  heed_tensor *where = output(b, 1), *whole = op_zeros(b->cx, b->g->type, shape_of(b, 0));
  if (where == NULL || whole == NULL) return false;
  heed_value args[] = {heed_t(whole), *dim, heed_t(where), heed_t(b->g)};
  return heed_apply_in_place(b->cx, HEED_scatter, args, 4) && give(b, 0, whole);
}

bool grad_sort (backward *b) { return grad_order(b, &b->args[1]); }

bool grad_topk (backward *b) { return grad_order(b, &b->args[2]); }

/* }================================================================== */
