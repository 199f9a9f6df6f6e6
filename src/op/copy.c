/*
** copy.c - operations that copy elements, in their order.
*/

#include <inttypes.h>

#include "op/move.h"


/*
** {==================================================================
** What these and the other moves share
** ===================================================================
*/

bool move_view (heed_tensor *t, const layout *shape, view *expanded) {
  layout wide;
  if (t == NULL || !tensor_materialize(t) || !layout_expand(&t->at, shape, &wide)) return false;
  *expanded = view_with(t, &wide);
  return true;
}


bool move_copy (heed_context *cx, heed_op op, heed_tensor *to, heed_tensor *from) {
  work w;
  view x;
  if (to == NULL || from == NULL) return false;
  if (to->type == from->type && !tensor_copies(from, op_name(op))) return false;
  if (cx->scope.composing)
    return heed_apply_in_place(cx, HEED_copy, (heed_value[]){heed_t(to), heed_t(from)}, 2);
  copy_op kind = to->store == from->store ? COPY_OVERLAPPING : COPY_APART;
  if (!move_view(from, &to->at, &x)) return false;
  work_copy(&w, kind, view_of(to), x);
  return layout_numel(&to->at) == 0 || op_run_for(cx, op, &w);
}


heed_tensor *move_target (call *c, const heed_tensor *input) {
  return c->into != NULL ? c->into : op_new(c->cx, input->type, &input->at);
}


heed_tensor *move_taken (call *c, heed_tensor *t, const layout *at) {
  heed_tensor *part = op_view(t, at);
  heed_tensor *y = part != NULL ? op_new(c->cx, t->type, at) : NULL;
  return move_copy(c->cx, c->op, y, part) ? y : NULL;
}


bool move_broadcasts (call *c, int i, int j) {
  layout wider;
  char one[LAYOUT_TEXT], other[LAYOUT_TEXT];
  const layout *a = &c->args[i].tensor->at, *b = &c->args[j].tensor->at;
  return layout_broadcast(a, b, &wider) ||
         check_refuse(c, j, "shape %s does not broadcast with the shape %s of argument '%s'",
                      layout_text(b, other), layout_text(a, one), check_name(c, i));
}


heed_tensor *move_value (call *c, int i, heed_type type) {
  heed_tensor *t = c->args[i].tensor;
  if (scalar_category(t->type) <= scalar_category(type)) return op_cast(t, type);
  check_refuse(c, i, "a value of type %s cannot be kept in a tensor of type %s",
               scalar_names[t->type], scalar_names[type]);
  return NULL;
}

/* }================================================================== */


/*
** {==================================================================
** Of one tensor
** ===================================================================
*/

bool do_clone (call *c) {
  heed_tensor *t = c->args[ARG(clone, input)].tensor;
  return give_out(c, move_taken(c, t, &t->at));
}


bool do_contiguous (call *c) {
  return give_out(c, op_dense(c->args[ARG(contiguous, input)].tensor));
}


/* Blocks are made of floats that need no gradient, on one device. */
static bool check_conversion (call *c, heed_tensor *t, heed_type type) {
  const int input = ARG(to, input), dtype = ARG(to, dtype);
  if (type == t->type || !scalar_is_block(type)) return true;
  if (!scalar_blocks[type].written)
    return check_refuse(c, dtype, "a tensor cannot be converted to %s, which is only read",
                        scalar_names[type]);
  if (!scalar_is_float(t->type) || t->number)
    return check_refuse(c, input, "a tensor of a float type expected for %s, got %s%s",
                        scalar_names[type], t->number ? "a number" : scalar_names[t->type],
                        t->number ? "" : "; x:to(\"float32\") gives one");
  return !c->cx->scope.recording || !heed_requires_grad(t) ||
         check_refuse(c, input, "it requires grad, and %s has no gradient; detach() it",
                      scalar_names[type]);
}


bool do_to (call *c) {
  heed_tensor *t = c->args[ARG(to, input)].tensor;
  heed_type type = arg_type(c, ARG(to, dtype), t->type);
  device *where = c->cx->scope.device;
  if (arg_given(c, ARG(to, device)))
    where = core_device(c->cx, op_name(c->op), c->args[ARG(to, device)].text);
  if (where == NULL || !check_conversion(c, t, type)) return false;
  const bool packs = scalar_is_block(type) && type != t->type;
  if (where != c->cx->scope.device || (packs && !op_supports(c->cx, WORK_BLOCKS, BLOCKS_PACK)))
    return give_out(c, op_hold(c->cx, tensor_moved(t, where, type)));
  if (type == t->type && !t->number) return give_out(c, t);
  heed_tensor *y = op_new(c->cx, type, &t->at);
  return move_copy(c->cx, c->op, y, t) && give_out(c, y);
}

/* }================================================================== */


/*
** {==================================================================
** Over a tensor's values
** ===================================================================
*/

bool do_copy (call *c) {
  heed_tensor *t = c->args[ARG(copy, input)].tensor, *from = c->args[ARG(copy, src)].tensor;
  layout wide;
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  if (!layout_expand(&from->at, &t->at, &wide))
    return check_refuse(c, ARG(copy, src), "a tensor of shape %s cannot be copied to one of shape "
                        "%s", layout_text(&from->at, have), layout_text(&t->at, want));
  heed_tensor *y = move_target(c, t);
  return move_copy(c->cx, c->op, y, from) && give_out(c, y);
}


bool do_fill (call *c) {
  if (!check_rank(c, ARG(fill, value), 0, 0)) return false;
  heed_tensor *y = move_target(c, c->args[ARG(fill, input)].tensor);
  return move_copy(c->cx, c->op, y, c->args[ARG(fill, value)].tensor) && give_out(c, y);
}


bool do_zero (call *c) {
  heed_tensor *zero = op_integer(c->cx, 0), *t = c->into;
  if (t == NULL) return give_out(c, op2(HEED_fill, c->args[ARG(zero, input)].tensor, zero));
  return move_copy(c->cx, c->op, t, zero) && give_out(c, t);
}

/* }================================================================== */


/*
** {==================================================================
** Joining. 'join' is cat for as many tensors as one node of the graph can hold; cat joins
** more of them in a tree.
** ===================================================================
*/

/* A tensor of shape (0) joins anything, as in PyTorch. */
static bool joins_anything (const heed_tensor *t) { return t->at.rank == 1 && t->at.size[0] == 0; }


SAME_ARG(join, cat, tensors);
SAME_ARG(join, cat, dim);
SAME_ARG(join, stack, tensors);

/* Tensors, none of them missing: all of one shape if they are stacked, else of rank 1 or more. */
static bool check_list (call *c, bool stacked) {
  const heed_value *list = &c->args[ARG(join, tensors)];
  char text[LAYOUT_TEXT];
  if (list->n == 0) return check_refuse(c, ARG(join, tensors), "one tensor or more expected");
  for (int i = 0; i < list->n; i++) {
    const heed_tensor *t = list->tensors[i], *first = list->tensors[0];
    if (t == NULL) return check_refuse(c, ARG(join, tensors), "tensor %d is missing", i + 1);
    if (!stacked && t->at.rank == 0)
      return check_refuse(c, ARG(join, tensors), "tensor %d has rank 0; use stack", i + 1);
    if (stacked && !layout_same_shape(&t->at, &first->at)) {
      char other[LAYOUT_TEXT];
      return check_refuse(c, ARG(join, tensors), "tensor %d has shape %s, tensor 1 has %s", i + 1,
                          layout_text(&t->at, text), layout_text(&first->at, other));
    }
  }
  return true;
}


/* Does 'b', tensor i of the list, fit beside 'a' along the axis? */
static bool check_beside (call *c, const layout *a, const layout *b, int i, int axis) {
  char one[LAYOUT_TEXT], other[LAYOUT_TEXT];
  bool fits = a->rank == b->rank;
  for (int k = 0; fits && k < a->rank; k++) fits = k == axis || a->size[k] == b->size[k];
  return fits || check_refuse(c, ARG(join, tensors), "tensor %d of shape %s does not fit beside "
                              "one of shape %s along dimension %d", i + 1, layout_text(b, other),
                              layout_text(a, one), axis + 1);
}


static const layout *first_shape (const heed_value *list) {
  for (int i = 0; i < list->n; i++)
    if (!joins_anything(list->tensors[i])) return &list->tensors[i]->at;
  return &list->tensors[0]->at;
}


static bool joined_shape (call *c, layout *shape, int *axis) {
  const heed_value *list = &c->args[ARG(join, tensors)];
  const layout *first = first_shape(list);
  char text[LAYOUT_TEXT];
  if (!check_axis(c, ARG(join, dim), first->rank, axis)) return false;
  int64_t total = 0;
  for (int i = 0; i < list->n; i++) {
    const heed_tensor *t = list->tensors[i];
    if (joins_anything(t)) continue;
    if (!check_beside(c, first, &t->at, i, *axis)) return false;
    if (!layout_plus(total, t->at.size[*axis], &total))
      return check_refuse(c, ARG(join, tensors), "together they have too many elements");
  }
  layout whole = *first;
  whole.size[*axis] = total;
  return layout_dense(shape, whole.rank, whole.size) ||
         check_refuse(c, ARG(join, tensors), "a shape of %s has too many elements",
                      layout_text(&whole, text));
}


static heed_tensor *join (call *c, const layout *shape, int axis) {
  const heed_value *list = &c->args[ARG(join, tensors)];
  int64_t from = 0;
  heed_tensor *y = op_new(c->cx, op_promote(list->n, list->tensors), shape);
  for (int i = 0; y != NULL && i < list->n; i++) {
    heed_tensor *t = list->tensors[i];
    if (joins_anything(t)) continue;
    layout at = layout_narrow(&y->at, axis, from, t->at.size[axis], 1);
    if (!move_copy(c->cx, c->op, op_view(y, &at), t)) return NULL;
    from += t->at.size[axis];
  }
  return y;
}


bool do_join (call *c) {
  layout shape;
  int axis;
  return check_list(c, false) && joined_shape(c, &shape, &axis) &&
         give_out(c, join(c, &shape, axis));
}


static heed_tensor *join_recorded (heed_context *cx, int n, heed_tensor *const *list, int axis) {
  heed_value args[] = {heed_ts(n, list), heed_i(axis)};
  return op_call(cx, HEED_join, 2, args);
}


/* Parts of a size that fills the nodes of the tree. */
static heed_tensor *join_tree (heed_context *cx, int n, heed_tensor *const *list, int axis) {
  heed_tensor *parts[OP_EDGES];
  if (n <= OP_EDGES) return join_recorded(cx, n, list, axis);
  int count = 0, each = OP_EDGES;
  while (each < n / OP_EDGES + (n % OP_EDGES != 0)) each *= OP_EDGES;
  for (int from = 0; from < n; from += each) {
    parts[count] = join_tree(cx, n - from < each ? n - from : each, list + from, axis);
    if (parts[count++] == NULL) return NULL;
  }
  return join_recorded(cx, count, parts, axis);
}


bool do_cat (call *c) {
  layout shape;
  int axis;
  if (!check_list(c, false) || !joined_shape(c, &shape, &axis)) return false;
  if (!c->cx->scope.recording) return give_out(c, join(c, &shape, axis));
  const heed_value *list = &c->args[ARG(cat, tensors)];
  return give_out(c, join_tree(c->cx, list->n, list->tensors, axis));
}


/* Every tensor gets a new axis, along which the tensors are joined. */
bool do_stack (call *c) {
  heed_context *cx = c->cx;
  const heed_value *given = &c->args[ARG(stack, tensors)];
  int n = given->n, axis;
  if (!check_list(c, true)) return false;
  const layout *first = &given->tensors[0]->at;
  if (first->rank == HEED_RANK)
    return check_refuse(c, ARG(stack, tensors), "tensors of rank %d cannot be stacked", HEED_RANK);
  if (!check_axis(c, ARG(stack, dim), first->rank + 1, &axis)) return false;
  heed_tensor **list = core_alloc(cx, (size_t)n * sizeof *list);
  if (list == NULL) return false;
  bool good = true;
  for (int i = 0; good && i < n; i++) {
    heed_value args[] = {heed_t(given->tensors[i]), heed_i(axis)};
    good = (list[i] = op_call(cx, HEED_unsqueeze, 2, args)) != NULL;
  }
  heed_value args[] = {heed_ts(n, list), heed_i(axis)};
  heed_tensor *y = good ? op_call(cx, HEED_cat, 2, args) : NULL;
  core_free(cx, list, (size_t)n * sizeof *list);
  return give_out(c, y);
}

/* }================================================================== */


/*
** {==================================================================
** Gradients
** ===================================================================
*/

bool grad_clone (backward *b) { return give(b, IN(clone, input), b->g); }


bool grad_to (backward *b) { return give(b, IN(to, input), b->g); }


/* Values that were overwritten have a gradient of zeros, not none (PyTorch). */
static bool grad_overwritten (backward *b, int target, int source) {
  if (!give(b, source, b->g)) return false;
  return !wants(b, target) ||
         give(b, target, move_zeros(b, b->g->type, target));
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

/* }================================================================== */
