/*
** view.c - operations whose result shares the storage of their input: only layouts change.
*/

#include <inttypes.h>

#include <string.h>

#include "op/compose.h"
#include "op/move.h"


SAME_ARG(view, squeeze, input);
SAME_ARG(view, unsqueeze, input);
SAME_ARG(view, transpose, input);
SAME_ARG(view, permute, input);
SAME_ARG(view, expand, input);
SAME_ARG(view, unfold, input);
SAME_ARG(view, select, input);
SAME_ARG(view, slice, input);
SAME_ARG(view, diagonal, input);

static bool give_view (call *c, const layout *at) {
  return give_out(c, op_view(c->args[ARG(view, input)].tensor, at));
}


/* No product of sizes may overflow, also where strides are 0. */
static bool check_size (call *c, int i, const layout *at) {
  layout dense;
  char text[LAYOUT_TEXT];
  return layout_dense(&dense, at->rank, at->size) ||
         check_refuse(c, i, "a shape of %s has too many elements", layout_text(at, text));
}


/*
** {==================================================================
** Other shapes for the same elements
** ===================================================================
*/

bool do_view (call *c) {
  heed_tensor *t = c->args[ARG(view, input)].tensor;
  layout shape, at;
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  if (!check_shape(c, ARG(view, size), layout_numel(&t->at), &shape)) return false;
  if (!layout_reshape(&t->at, shape.rank, shape.size, &at))
    return check_refuse(c, ARG(view, size), "a tensor of shape %s, whose elements do not lie in "
                        "order, cannot be viewed as %s without a copy; use reshape",
                        layout_text(&t->at, have), layout_text(&shape, want));
  return give_view(c, &at);
}


bool do_reshape (call *c) {
  heed_tensor *t = c->args[ARG(reshape, input)].tensor;
  layout shape, at;
  if (!check_shape(c, ARG(reshape, shape), layout_numel(&t->at), &shape)) return false;
  if (!layout_reshape(&t->at, shape.rank, shape.size, &at)) t = op1(HEED_clone, t);
  heed_value args[] = {heed_t(t), heed_l(shape.rank, shape.size)};
  return t != NULL && give_out(c, op_call(c->cx, HEED_view, 2, args));
}


bool do_flatten (call *c) {
  heed_tensor *t = c->args[ARG(flatten, input)].tensor;
  int first, last, rank = 0;
  int64_t size[HEED_RANK + 1], numel = layout_numel(&t->at);
  if (!check_axis(c, ARG(flatten, start_dim), t->at.rank, &first)) return false;
  if (!check_axis(c, ARG(flatten, end_dim), t->at.rank, &last)) return false;
  if (first > last)
    return check_refuse(c, ARG(flatten, end_dim), "dimension %d stands before dimension %d",
                        last + 1, first + 1);
  if (t->at.rank == 0) size[rank++] = numel;
  for (int i = 0; i < t->at.rank; i++) {
    if (i > first && i <= last) size[rank - 1] *= t->at.size[i];
    else size[rank++] = t->at.size[i];
  }
  heed_value args[] = {heed_t(t), heed_l(rank, size)};
  return give_out(c, op_call(c->cx, HEED_reshape, 2, args));
}


/* One dimension as several, of which one size may be left open. */
bool do_unflatten (call *c) {
  const layout *at = &arg_tensor(c, ARG(unflatten, input))->at;
  layout sizes, shape = *at;
  int axis;
  if (!check_rank(c, ARG(unflatten, input), 1, HEED_RANK)) return false;
  if (!check_axis(c, ARG(unflatten, dim), at->rank, &axis)) return false;
  if (!check_shape(c, ARG(unflatten, sizes), at->size[axis], &sizes)) return false;
  if (sizes.rank == 0) return check_refuse(c, ARG(unflatten, sizes), "at least one size expected");
  int rank = at->rank - 1 + sizes.rank;
  if (rank > HEED_RANK)
    return check_refuse(c, ARG(unflatten, sizes), "a result of rank %d; there are at most %d "
                        "dimensions", rank, HEED_RANK);
  memcpy(shape.size + axis, sizes.size, (size_t)sizes.rank * sizeof *shape.size);
  for (int i = axis + 1; i < at->rank; i++) shape.size[i + sizes.rank - 1] = at->size[i];
  heed_value args[] = {c->args[ARG(unflatten, input)], heed_l(rank, shape.size)};
  return give_out(c, op_call(c->cx, HEED_reshape, 2, args));
}


/* Without axes: all of size 1. With axes: those of them that have size 1. */
bool do_squeeze (call *c) {
  layout at = c->args[ARG(squeeze, input)].tensor->at;
  const int64_t *list;
  bool marks[HEED_RANK] = {false};
  const int dim = ARG(squeeze, dim);
  int n, named = move_list(c, dim, &list);
  if ((named > 0 || !arg_given(c, dim)) && !check_axes(c, dim, at.rank, marks, &n)) return false;
  for (int i = at.rank - 1; i >= 0; i--)
    if (marks[i] && at.size[i] == 1) at = layout_remove(&at, i);
  return give_view(c, &at);
}


bool do_unsqueeze (call *c) {
  const layout *at = &c->args[ARG(unsqueeze, input)].tensor->at;
  int axis;
  if (!check_rank(c, ARG(unsqueeze, input), 0, HEED_RANK - 1)) return false;
  if (!check_axis(c, ARG(unsqueeze, dim), at->rank + 1, &axis)) return false;
  layout result = layout_insert(at, axis);
  return give_view(c, &result);
}

/* }================================================================== */


/*
** {==================================================================
** Other orders of axes
** ===================================================================
*/

bool do_transpose (call *c) {
  layout at = arg_tensor(c, ARG(transpose, input))->at;
  int a, b;
  if (!check_axis(c, ARG(transpose, dim0), at.rank, &a)) return false;
  if (!check_axis(c, ARG(transpose, dim1), at.rank, &b)) return false;
  if (at.rank > 0) at = layout_transpose(&at, a, b);
  return give_view(c, &at);
}


bool do_t (call *c) {
  heed_tensor *t = c->args[ARG(t, input)].tensor;
  if (!check_rank(c, ARG(t, input), 0, 2)) return false;
  if (t->at.rank < 2) return give_out(c, t);
  heed_value args[] = {heed_t(t), heed_i(0), heed_i(1)};
  return give_out(c, op_call(c->cx, HEED_transpose, 3, args));
}


bool do_permute (call *c) {
  const layout *at = &c->args[ARG(permute, input)].tensor->at;
  const int64_t *list;
  bool marks[HEED_RANK];
  int order[HEED_RANK], marked, n = move_list(c, ARG(permute, dims), &list);
  if (!check_axes(c, ARG(permute, dims), at->rank, marks, &marked)) return false;
  if (n != at->rank)
    return check_refuse(c, ARG(permute, dims), "all %d dimensions expected, got %d", at->rank, n);
  for (int i = 0; i < n; i++) layout_axis(at->rank, list[i], &order[i]);
  layout result = layout_permute(at, order);
  return give_view(c, &result);
}


/* The axes that are not named keep their order, in the places that are left. */
static void fill_order (int rank, const bool moved[HEED_RANK], const bool taken[HEED_RANK],
                        int64_t order[HEED_RANK]) {
  for (int to = 0, from = 0; to < rank; to++) {
    if (taken[to]) continue;
    while (moved[from]) from++;
    order[to] = from++;
  }
}


bool do_movedim (call *c) {
  heed_tensor *t = arg_tensor(c, ARG(movedim, input));
  const int source = ARG(movedim, source), destination = ARG(movedim, destination);
  const int64_t *from, *to;
  int n = move_list(c, source, &from), m = move_list(c, destination, &to), rank = t->at.rank;
  int marked, a, b;
  bool moved[HEED_RANK] = {false}, taken[HEED_RANK] = {false};
  int64_t order[HEED_RANK];
  if (n != m)
    return check_refuse(c, destination, "%d dimensions expected, as many as in 'source', got %d",
                        n, m);
  if (n > 0 && (!check_axes(c, source, rank, moved, &marked) ||
                !check_axes(c, destination, rank, taken, &marked)))
    return false;
  for (int i = 0; i < n && rank > 0; i++) {
    layout_axis(rank, from[i], &a);
    layout_axis(rank, to[i], &b);
    order[b] = a;
  }
  fill_order(rank, moved, taken, order);
  heed_value args[] = {heed_t(t), heed_l(rank, order)};
  return give_out(c, op_call(c->cx, HEED_permute, 2, args));
}

/* }================================================================== */


/*
** {==================================================================
** Repeating without a copy
** ===================================================================
*/

/* The sizes to expand to, where -1 keeps the size of the input's axis. */
static bool read_sizes (call *c, const layout *at, layout *to) {
  const int i = ARG(expand, size);
  const heed_value *v = &c->args[i];
  if (v->n > HEED_RANK || v->n < at->rank)
    return check_refuse(c, i, "%d to %d sizes expected for a tensor of rank %d, got %d", at->rank,
                        HEED_RANK, at->rank, v->n);
  *to = *at;
  to->rank = v->n;
  for (int k = 0; k < v->n; k++) {
    int old = k - (v->n - at->rank);
    to->size[k] = v->list[k] == -1 && old >= 0 ? at->size[old] : v->list[k];
    if (to->size[k] < 0)
      return check_refuse(c, i, "size %" PRId64 " of dimension %d is negative", to->size[k], k + 1);
  }
  return true;
}


bool do_expand (call *c) {
  const layout *at = &c->args[ARG(expand, input)].tensor->at;
  layout to, wide;
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  if (!read_sizes(c, at, &to) || !check_size(c, ARG(expand, size), &to)) return false;
  if (!layout_expand(at, &to, &wide))
    return check_refuse(c, ARG(expand, size), "shape %s cannot be expanded to %s: only dimensions "
                        "of size 1 can", layout_text(at, have), layout_text(&to, want));
  return give_view(c, &wide);
}


bool do_broadcast_to (call *c) {
  const heed_value args[] = {c->args[ARG(broadcast_to, input)], c->args[ARG(broadcast_to, size)]};
  return give_out(c, op_call(c->cx, HEED_expand, 2, args));
}


bool do_expand_as (call *c) {
  const layout *like = &arg_tensor(c, ARG(expand_as, other))->at;
  const layout *at = &arg_tensor(c, ARG(expand_as, input))->at;
  layout wide;
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  if (at->rank > like->rank || !layout_expand(at, like, &wide))
    return check_refuse(c, ARG(expand_as, other), "shape %s cannot be expanded to %s: only "
                        "dimensions of size 1 can", layout_text(at, have),
                        layout_text(like, want));
  heed_value args[] = {c->args[ARG(expand_as, input)], heed_l(like->rank, like->size)};
  return give_out(c, op_call(c->cx, HEED_expand, 2, args));
}


/* Windows along an axis; they overlap when the step is smaller than they are. */
bool do_unfold (call *c) {
  layout at = c->args[ARG(unfold, input)].tensor->at;
  int64_t size = arg_count(c, ARG(unfold, size)), step = arg_count(c, ARG(unfold, step));
  int axis;
  if (!check_rank(c, ARG(unfold, input), 1, HEED_RANK - 1)) return false;
  if (!check_axis(c, ARG(unfold, dimension), at.rank, &axis)) return false;
  if (size < 0 || size > at.size[axis])
    return check_refuse(c, ARG(unfold, size), "windows of 0 to %" PRId64 " elements expected, got %"
                        PRId64, at.size[axis], size);
  if (step < 1)
    return check_refuse(c, ARG(unfold, step), "a step of 1 or more expected, got %" PRId64, step);
  int64_t windows = (at.size[axis] - size) / step + 1, stride = at.stride[axis];
  at = layout_narrow(&at, axis, 0, windows, step);
  at.size[at.rank] = size;
  at.stride[at.rank++] = stride;
  return check_size(c, ARG(unfold, size), &at) && give_view(c, &at);
}

/* }================================================================== */


/*
** {==================================================================
** Parts
** ===================================================================
*/

bool do_select (call *c) {
  const layout *at = &c->args[ARG(select, input)].tensor->at;
  int axis;
  int64_t position;
  if (!check_rank(c, ARG(select, input), 1, HEED_RANK)) return false;
  if (!check_axis(c, ARG(select, dim), at->rank, &axis)) return false;
  if (!check_position(c, ARG(select, index), at->size[axis], &position)) return false;
  layout result = layout_select(at, axis, position);
  return give_view(c, &result);
}


/* Argument i, from 1; negative ones count from the end. The bound is in 'least' to 'most'. */
static bool read_bound (call *c, int i, int64_t size, int64_t least, int64_t most, int64_t *bound) {
  int64_t given = arg_count(c, i);
  *bound = given < 0 ? given + size + 1 : given;
  if (given == 0 && least > 0) return check_refuse(c, i, "position 0: positions count from 1");
  return (*bound >= least && *bound <= most) ||
         check_refuse(c, i, "position %" PRId64 " lies outside of a dimension of size %" PRId64,
                      given, size);
}


/*
** From start to stop, as Lua's 'for' counts: with a negative step the view is flipped, and a
** range that starts behind its end is empty. An empty range may lie just outside of it.
*/
bool do_slice (call *c) {
  const layout *at = &c->args[ARG(slice, input)].tensor->at;
  int64_t start, stop, step = arg_count(c, ARG(slice, step)), length = 0;
  int axis;
  if (!check_rank(c, ARG(slice, input), 1, HEED_RANK)) return false;
  if (!check_axis(c, ARG(slice, dim), at->rank, &axis)) return false;
  if (step == 0) return check_refuse(c, ARG(slice, step), "a step of 0 leads nowhere");
  int64_t n = at->size[axis];
  bool rises = step > 0;
  if (!read_bound(c, ARG(slice, start), n, rises || n > 0, rises ? n + 1 : n, &start)) return false;
  if (!read_bound(c, ARG(slice, stop), n, rises ? 0 : 1, rises ? n : n + 1, &stop)) return false;
  if (rises ? start <= stop : start >= stop) length = (stop - start) / step + 1;
  layout result = layout_narrow(at, axis, start - 1, length, step);
  return give_view(c, &result);
}


bool do_narrow (call *c) {
  const layout *at = &c->args[ARG(narrow, input)].tensor->at;
  int64_t start, length = arg_count(c, ARG(narrow, length));
  int axis;
  char text[LAYOUT_TEXT];
  if (!check_rank(c, ARG(narrow, input), 1, HEED_RANK)) return false;
  if (!check_axis(c, ARG(narrow, dim), at->rank, &axis)) return false;
  int64_t n = at->size[axis];
  if (!read_bound(c, ARG(narrow, start), n, 1, n + 1, &start)) return false;
  if (length < 0 || length > n - start + 1)
    return check_refuse(c, ARG(narrow, length), "%" PRId64 " elements from position %" PRId64
                        " do not fit into dimension %d of size %" PRId64 " of a tensor of shape %s",
                        length, start, axis + 1, n, layout_text(at, text));
  heed_value args[] = {c->args[ARG(narrow, input)], heed_i(axis), heed_i(start),
                       heed_i(start + length - 1), heed_i(1)};
  return give_out(c, op_call(c->cx, HEED_slice, 5, args));
}


/* Elements of the diagonal of axes a and b, counted above it for a positive offset. */
static layout diagonal_of (const layout *at, int64_t offset, int a, int b) {
  int64_t rows = at->size[a] + (offset < 0 ? offset : 0);
  int64_t columns = at->size[b] - (offset > 0 ? offset : 0);
  int64_t length = rows < columns ? rows : columns;
  layout result = layout_remove(at, a > b ? a : b);
  result = layout_remove(&result, a > b ? b : a);
  if (length > 0) result.offset += offset < 0 ? -offset * at->stride[a] : offset * at->stride[b];
  result.size[result.rank] = length > 0 ? length : 0;
  result.stride[result.rank++] = at->stride[a] + at->stride[b];
  return result;
}


/* The two axes are removed, their diagonal becomes the last one. */
bool do_diagonal (call *c) {
  const layout *at = &c->args[ARG(diagonal, input)].tensor->at;
  int64_t offset = arg_count(c, ARG(diagonal, offset));
  int a, b;
  if (!check_rank(c, ARG(diagonal, input), 2, HEED_RANK)) return false;
  if (!check_axis(c, ARG(diagonal, dim1), at->rank, &a)) return false;
  if (!check_axis(c, ARG(diagonal, dim2), at->rank, &b)) return false;
  if (a == b) return check_refuse(c, ARG(diagonal, dim2), "dimension %d is named twice", a + 1);
  layout result = diagonal_of(at, offset, a, b);
  return give_view(c, &result);
}


/* The last axis along the diagonal of two new ones, between zeros: 'diagonal' gives it back. */
bool do_diag_embed (call *c) {
  heed_tensor *t = arg_tensor(c, ARG(diag_embed, input));
  int64_t offset = arg_count(c, ARG(diag_embed, offset)), n;
  layout shape;
  int a, b;
  if (!check_rank(c, ARG(diag_embed, input), 1, HEED_RANK - 1)) return false;
  if (!check_axis(c, ARG(diag_embed, dim1), t->at.rank + 1, &a)) return false;
  if (!check_axis(c, ARG(diag_embed, dim2), t->at.rank + 1, &b)) return false;
  if (a == b) return check_refuse(c, ARG(diag_embed, dim2), "dimension %d is named twice", a + 1);
  if (offset == INT64_MIN || !layout_plus(t->at.size[t->at.rank - 1], offset < 0 ? -offset : offset,
                                          &n))
    return check_refuse(c, ARG(diag_embed, offset), "too many elements");
  layout whole = layout_remove(&t->at, t->at.rank - 1);
  whole = layout_insert(&whole, a < b ? a : b);
  whole = layout_insert(&whole, a < b ? b : a);
  whole.size[a] = whole.size[b] = n;
  if (!layout_dense(&shape, whole.rank, whole.size))
    return check_refuse(c, ARG(diag_embed, offset), "too many elements");
  heed_tensor *y = op_zeros(c->cx, t->type, &shape);
  layout diagonal = diagonal_of(&shape, offset, a, b);
  return move_copy(c->cx, c->op, op_view(y, &diagonal), t) && give_out(c, y);
}


/* A vector as the diagonal of a matrix; of a matrix a copy of its diagonal. */
bool do_diag (call *c) {
  const heed_value x = c->args[ARG(diag, input)], offset = c->args[ARG(diag, diagonal)];
  if (!check_rank(c, ARG(diag, input), 1, 2)) return false;
  bool vector = x.tensor->at.rank == 1;
  heed_tensor *y = op_call(c->cx, vector ? HEED_diag_embed : HEED_diagonal, 2,
                           (heed_value[]){x, offset});
  return give_out(c, vector ? y : op1(HEED_clone, y));
}

/* }================================================================== */


/*
** {==================================================================
** Gradients: the inverse view, or the part in zeros
** ===================================================================
*/

/* g's elements in another layout; without being a view of g, which would only keep g, unless that
   is recorded. */
static heed_tensor *laid_out (heed_tensor *g, const layout *at) {
  if (g->cx->scope.composing) return op_view(g, at);
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
  heed_tensor *whole = move_zeros(b, b->g->type, IN(view, input));
  return move_copy(b->cx, b->op, move_repeated(b, whole), b->g) && give(b, IN(view, input), whole);
}


/* Along an axis of size 1 no element lies outside of the part. */
bool grad_select (backward *b) {
  const layout shape = shape_of(b, IN(select, input));
  if (layout_numel(&b->g->at) != layout_numel(&shape)) return grad_part(b);
  return give(b, IN(select, input), reshaped(b, b->g, IN(select, input)));
}


bool grad_slice (backward *b) { return grad_part(b); }


bool grad_diagonal (backward *b) { return grad_part(b); }


SAME_ARG(diag_embed, diagonal, offset);

/* The elements of g on the diagonal. */
bool grad_diag_embed (backward *b) {
  heed_value args[] = {heed_t(b->g), b->args[ARG(diag_embed, offset)],
                       b->args[ARG(diag_embed, dim1)], b->args[ARG(diag_embed, dim2)]};
  return give(b, IN(diag_embed, input), op_call(b->cx, HEED_diagonal, 4, args));
}


/* The positions in the input, as a row, that the elements of the windows come from. */
static heed_tensor *window_positions (backward *b, const layout *shape) {
  heed_value range[] = {heed_i(1), heed_i(layout_numel(shape)), heed_i(1)};
  heed_tensor *row = op_call(b->cx, HEED_arange, 3, range);
  return move_repeated(b, op_with_shape(HEED_view, row, shape));
}


static heed_tensor *composed_windows (backward *b) {
  const layout shape = shape_of(b, IN(unfold, input));
  int64_t n = layout_numel(&shape);
  heed_tensor *whole = op_reshape(move_zeros(b, b->g->type, IN(unfold, input)), 1, &n);
  if (whole == NULL || layout_numel(&b->g->at) == 0) return op_with_shape(HEED_view, whole, &shape);
  heed_tensor *positions = window_positions(b, &shape);
  if (positions == NULL) return NULL;
  heed_value args[] = {heed_t(whole), heed_ts(1, &positions), heed_t(b->g), heed_b(true)};
  return op_with_shape(HEED_view, op_call(b->cx, HEED_put, 4, args), &shape);
}


/* Windows may overlap: an element gets the gradients of all that contain it. */
bool grad_unfold (backward *b) {
  if (composes(b)) return give(b, IN(unfold, input), composed_windows(b));
  heed_tensor *whole = move_sum(b, IN(unfold, input));
  heed_tensor *windows = move_repeated(b, whole);
  heed_tensor *g = whole != NULL ? op_cast(b->g, whole->type) : NULL;
  work w;
  if (windows == NULL || g == NULL) return false;
  work_scatter(&w, SCATTER_ADD, 0, false, view_of(windows), view_of(g));
  return (layout_numel(&g->at) == 0 || op_run_for(b->cx, b->op, &w)) &&
         give(b, IN(unfold, input), whole);
}

/* }================================================================== */
