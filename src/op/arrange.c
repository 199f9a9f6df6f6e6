/*
** arrange.c - operations that copy elements to other positions, repeat them or mask them.
*/

#include <inttypes.h>
#include <math.h>

#include <string.h>

#include "op/move.h"


/*
** {==================================================================
** Flipping, padding, rolling
** ===================================================================
*/

bool do_flip (call *c) {
  heed_tensor *t = c->args[ARG(flip, input)].tensor;
  layout at = t->at;
  const int64_t *list;
  bool marks[HEED_RANK] = {false};
  int n, named = move_list(c, ARG(flip, dims), &list);
  if (named > 0 && !check_axes(c, ARG(flip, dims), at.rank, marks, &n)) return false;
  for (int i = 0; i < at.rank; i++)
    if (marks[i]) at = layout_flip(&at, i);
  return give_out(c, move_taken(c, t, &at));
}


SAME_ARG(pad, constant_pad_nd, input);
SAME_ARG(pad, constant_pad_nd, pad);

/* A pair of numbers for each axis, from the last one backwards: how much before and after. */
static bool read_pads (call *c, int rank, int64_t before[HEED_RANK], int64_t after[HEED_RANK]) {
  const heed_value *v = &c->args[ARG(constant_pad_nd, pad)];
  if (v->n % 2 != 0 || v->n > 2 * rank)
    return check_refuse(c, ARG(constant_pad_nd, pad), "pairs for at most %d dimensions expected, "
                        "got %d numbers", rank, v->n);
  for (int i = 0; i < rank; i++) {
    int pair = 2 * (rank - 1 - i);
    before[i] = pair < v->n ? v->list[pair] : 0;
    after[i] = pair < v->n ? v->list[pair + 1] : 0;
  }
  return true;
}


/* Negative pads crop, but no more than there is. */
static bool padded_shape (call *c, const layout *at, const int64_t *before, const int64_t *after,
                          layout *shape) {
  int64_t size[HEED_RANK];
  for (int i = 0; i < at->rank; i++) {
    int64_t n = at->size[i];
    if (before[i] < -n || after[i] < -n || !layout_plus(n, before[i], &n) ||
        !layout_plus(n, after[i], &n) || n < 0)
      return check_refuse(c, ARG(constant_pad_nd, pad), "dimension %d of size %" PRId64 " cannot "
                          "be padded by %" PRId64 " and %" PRId64, i + 1, at->size[i], before[i],
                          after[i]);
    size[i] = n;
  }
  return layout_dense(shape, at->rank, size) ||
         check_refuse(c, ARG(constant_pad_nd, pad), "too many elements");
}


bool do_constant_pad_nd (call *c) {
  heed_tensor *t = c->args[ARG(constant_pad_nd, input)].tensor;
  int64_t before[HEED_RANK], after[HEED_RANK];
  layout shape;
  if (!read_pads(c, t->at.rank, before, after)) return false;
  if (!padded_shape(c, &t->at, before, after, &shape)) return false;
  heed_tensor *y = op_new(c->cx, t->type, &shape);
  heed_tensor *value = arg_scalar(c, ARG(constant_pad_nd, value));
  if (!move_copy(c->cx, c->op, y, value)) return false;
  layout from = t->at, to = y->at;
  for (int i = 0; i < shape.rank; i++) {
    int64_t cut = before[i] < 0 ? -before[i] : 0, gap = before[i] > 0 ? before[i] : 0;
    int64_t kept = t->at.size[i] - cut - (after[i] < 0 ? -after[i] : 0);
    from = layout_narrow(&from, i, cut, kept, 1);
    to = layout_narrow(&to, i, gap, kept, 1);
  }
  return move_copy(c->cx, c->op, op_view(y, &to), op_view(t, &from)) && give_out(c, y);
}


/* Positions 'first' to 'last' of an axis, which count from 1; backwards with a step of -1. */
static heed_tensor *part (heed_tensor *t, int axis, int64_t first, int64_t last, int64_t step) {
  heed_value args[] = {heed_t(t), heed_i(axis), heed_i(first), heed_i(last), heed_i(step)};
  return op_call(t->cx, HEED_slice, 5, args);
}


static heed_tensor *cat (int n, heed_tensor *const *parts, int axis) {
  for (int i = 0; i < n; i++)
    if (parts[i] == NULL) return NULL;
  return op_call(parts[0]->cx, HEED_cat, 2, (heed_value[]){heed_ts(n, parts), heed_i(axis)});
}


/* The words of 'mode', in the row's order. */
enum { PAD_CONSTANT, PAD_REFLECT, PAD_REPLICATE, PAD_CIRCULAR };


/* An axis of size 1 as n equal ones. */
static heed_tensor *widened (heed_tensor *t, int axis, int64_t n) {
  if (t == NULL) return NULL;
  int64_t size[HEED_RANK];
  memcpy(size, t->at.size, (size_t)t->at.rank * sizeof *size);
  size[axis] = n;
  return op_call(t->cx, HEED_expand, 2, (heed_value[]){heed_t(t), heed_l(t->at.rank, size)});
}


/* The 'count' elements that pad an axis of size n, before it or behind it. */
static heed_tensor *padding (heed_tensor *t, int axis, int64_t count, int64_t mode, bool behind) {
  int64_t n = t->at.size[axis];
  if (mode == PAD_REFLECT && behind) return part(t, axis, n - 1, n - count, -1);
  if (mode == PAD_REFLECT) return part(t, axis, count + 1, 2, -1);
  if (mode == PAD_CIRCULAR && behind) return part(t, axis, 1, count, 1);
  if (mode == PAD_CIRCULAR) return part(t, axis, n - count + 1, n, 1);
  int64_t last = behind ? n : 1;
  return widened(part(t, axis, last, last, 1), axis, count);
}


/* A reflection leaves the edge out; an axis goes around once. */
static bool check_padding (call *c, int axis, int64_t n, int64_t count, int64_t mode) {
  int64_t most = mode == PAD_REFLECT ? n - 1 : mode == PAD_CIRCULAR ? n : n > 0 ? INT64_MAX : 0;
  return count <= 0 || count <= most ||
         check_refuse(c, ARG(pad, pad), "dimension %d of size %" PRId64 " has at most %" PRId64
                      " elements to pad with in this mode, got %" PRId64, axis + 1, n,
                      most > 0 ? most : 0, count);
}


/*
** t with an axis cropped where the numbers are negative, and what is put beside it. A reflection is
** that of the whole axis, the other modes go by what is left of it (PyTorch).
*/
static heed_tensor *pad_axis (heed_tensor *t, int axis, int64_t before, int64_t after,
                              int64_t mode) {
  heed_tensor *parts[3], *whole = t;
  int n = 0;
  if (before < 0 || after < 0)
    t = part(t, axis, before < 0 ? 1 - before : 1, t->at.size[axis] + (after < 0 ? after : 0), 1);
  if (t == NULL || (before <= 0 && after <= 0)) return t;
  heed_tensor *from = mode == PAD_REFLECT ? whole : t;
  if (before > 0) parts[n++] = padding(from, axis, before, mode, false);
  parts[n++] = t;
  if (after > 0) parts[n++] = padding(from, axis, after, mode, true);
  return cat(n, parts, axis);
}


bool do_pad (call *c) {
  heed_tensor *t = arg_tensor(c, ARG(pad, input)), *y = t;
  int64_t before[HEED_RANK], after[HEED_RANK], mode = arg_count(c, ARG(pad, mode));
  layout shape;
  if (mode == PAD_CONSTANT) {
    heed_value args[] = {heed_t(t), c->args[ARG(pad, pad)], c->args[ARG(pad, value)]};
    return give_out(c, op_call(c->cx, HEED_constant_pad_nd, 3, args));
  }
  if (arg_given(c, ARG(pad, value)))
    return check_refuse(c, ARG(pad, value), "only mode \"constant\" pads with a value");
  if (!read_pads(c, t->at.rank, before, after)) return false;
  if (!padded_shape(c, &t->at, before, after, &shape)) return false;
  for (int i = 0; i < shape.rank; i++) {
    int64_t cut = (before[i] < 0 ? before[i] : 0) + (after[i] < 0 ? after[i] : 0);
    int64_t n = t->at.size[i] + (mode == PAD_REFLECT ? 0 : cut);
    if (!check_padding(c, i, n, before[i], mode) || !check_padding(c, i, n, after[i], mode))
      return false;
    y = y != NULL ? pad_axis(y, i, before[i], after[i], mode) : NULL;
  }
  return give_out(c, y != NULL && y->store == t->store ? op1(HEED_clone, y) : y);
}


/* The last 'shift' elements come first. */
static heed_tensor *roll (heed_tensor *t, int axis, int64_t shift) {
  int64_t n = t->at.rank > 0 ? t->at.size[axis] : 0;
  shift = n > 0 ? (shift % n + n) % n : 0;
  if (shift == 0) return t;
  heed_tensor *parts[] = {part(t, axis, n - shift + 1, n, 1), part(t, axis, 1, n - shift, 1)};
  return cat(2, parts, axis);
}


static heed_tensor *reshape (heed_tensor *t, int rank, const int64_t *size) {
  if (t == NULL) return NULL;
  heed_value args[] = {heed_t(t), heed_l(rank, size)};
  return op_call(t->cx, HEED_reshape, 2, args);
}


/* Without axes, the elements are rolled as one row. */
bool do_roll (call *c) {
  heed_tensor *t = c->args[ARG(roll, input)].tensor, *y = t;
  const int64_t *shifts, *axes;
  int n = move_list(c, ARG(roll, shifts), &shifts), axis;
  int named = move_list(c, ARG(roll, dims), &axes);
  int64_t numel = layout_numel(&t->at);
  if (n != (named > 0 ? named : 1))
    return check_refuse(c, ARG(roll, shifts), "%d shifts expected, as many as dimensions, got %d",
                        named > 0 ? named : 1, n);
  if (named == 0) y = reshape(t, 1, &numel);
  for (int i = 0; y != NULL && i < n; i++) {
    if (!layout_axis(y->at.rank, named > 0 ? axes[i] : 0, &axis))
      return check_refuse(c, ARG(roll, dims), "a tensor of rank %d has no dimension %" PRId64,
                          t->at.rank, axes[i] < 0 ? axes[i] : axes[i] + 1);
    y = roll(y, axis, shifts[i]);
  }
  if (named == 0) y = reshape(y, t->at.rank, t->at.size);
  if (y != NULL && y->store == t->store) y = op1(HEED_clone, y);
  return give_out(c, y);
}

/* }================================================================== */


/*
** {==================================================================
** Repeating
** ===================================================================
*/

/*
** Each element of an axis, or the whole axis, 'times' times: an axis of size 1 is put beside it,
** expanded, and merged with it.
*/
static heed_tensor *repeat (heed_tensor *t, int axis, int64_t times, bool each) {
  if (t == NULL || times == 1) return t;
  layout shape = t->at;
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; i++) outer *= shape.size[i];
  for (int i = axis + 1; i < shape.rank; i++) inner *= shape.size[i];
  int64_t n = shape.size[axis], size[4] = {outer, each ? n : 1, each ? 1 : n, inner};
  shape.size[axis] = n * times;
  t = reshape(t, 4, size);
  size[each ? 2 : 1] = times;
  if (t == NULL) return NULL;
  heed_value args[] = {heed_t(t), heed_l(4, size)};
  return reshape(op_call(t->cx, HEED_expand, 2, args), shape.rank, shape.size);
}


/* May the axis grow so much? The shape grows with it. */
static bool check_growth (call *c, int i, layout *shape, int axis, int64_t times) {
  int64_t size;
  if (times < 0)
    return check_refuse(c, i, "a number of times expected, got %" PRId64, times);
  if (!layout_times(shape->size[axis], times, &size))
    return check_refuse(c, i, "%" PRId64 " times is too many elements", times);
  shape->size[axis] = size;
  return layout_dense(shape, shape->rank, shape->size) ||
         check_refuse(c, i, "%" PRId64 " times is too many elements", times);
}


bool do_tile (call *c) {
  heed_tensor *t = c->args[ARG(tile, input)].tensor, *y = t;
  const int64_t *times;
  int n = move_list(c, ARG(tile, dims), &times), rank = n > t->at.rank ? n : t->at.rank;
  int64_t size[HEED_RANK];
  layout shape;
  if (rank > HEED_RANK)
    return check_refuse(c, ARG(tile, dims), "at most %d dimensions, got %d", HEED_RANK, n);
  for (int i = 0; i < rank; i++)
    size[i] = i < rank - t->at.rank ? 1 : t->at.size[i - (rank - t->at.rank)];
  layout_dense(&shape, rank, size);
  for (int i = 0; i < n; i++)
    if (!check_growth(c, ARG(tile, dims), &shape, rank - n + i, times[i])) return false;
  if (rank > t->at.rank) y = reshape(t, rank, size);
  for (int i = 0; i < n; i++) y = repeat(y, rank - n + i, times[i], false);
  if (y != NULL && y->store == t->store) y = op1(HEED_clone, y);
  return give_out(c, y);
}


bool do_repeat_interleave (call *c) {
  heed_tensor *t = c->args[ARG(repeat_interleave, input)].tensor, *y = t;
  int64_t times = arg_count(c, ARG(repeat_interleave, repeats)), numel = layout_numel(&t->at);
  int axis = 0;
  bool flat = !arg_given(c, ARG(repeat_interleave, dim));
  if (!flat && !check_axis(c, ARG(repeat_interleave, dim), t->at.rank, &axis)) return false;
  if (flat || t->at.rank == 0) y = reshape(t, 1, &numel);
  if (y == NULL) return false;
  layout shape = y->at;
  if (!check_growth(c, ARG(repeat_interleave, repeats), &shape, axis, times)) return false;
  y = repeat(y, axis, times, true);
  if (y != NULL && y->store == t->store) y = op1(HEED_clone, y);
  return give_out(c, y);
}

/* }================================================================== */


/*
** {==================================================================
** Masking
** ===================================================================
*/

static heed_tensor *count_up (heed_context *cx, int64_t n) {
  heed_value args[] = {heed_i(1), heed_i(n), heed_i(1)};
  return op_call(cx, HEED_arange, 3, args);
}


SAME_ARG(tril, triu, input);
SAME_ARG(tril, triu, diagonal);

/* column - row, compared with the diagonal: (rows, columns). */
static heed_tensor *compare_diagonal (call *c, heed_op compare) {
  const layout *at = &c->args[ARG(tril, input)].tensor->at;
  heed_tensor *columns = count_up(c->cx, at->size[at->rank - 1]);
  heed_tensor *rows = count_up(c->cx, at->size[at->rank - 2]);
  heed_value args[] = {heed_t(rows), heed_i(1)};
  rows = op_call(c->cx, HEED_unsqueeze, 2, args);
  heed_tensor *diagonal = op_integer(c->cx, arg_count(c, ARG(tril, diagonal)));
  return op2(compare, op2(HEED_sub, columns, rows), diagonal);
}


/* The zero is a bool, which does not change the input's type. */
static bool keep_where (call *c, heed_op compare) {
  if (!check_rank(c, ARG(tril, input), 2, HEED_RANK)) return false;
  heed_tensor *t = c->args[ARG(tril, input)].tensor;
  heed_tensor *zero = op_hold(c->cx, heed_bool(c->cx, false));
  return give_out(c, op3(HEED_where, compare_diagonal(c, compare), t, zero));
}


bool do_tril (call *c) { return keep_where(c, HEED_le); }

bool do_triu (call *c) { return keep_where(c, HEED_ge); }


SAME_ARG(clamp, clip, input);
SAME_ARG(clamp, clip, min);
SAME_ARG(clamp, clip, max);

/* For a bound that was left out: infinity, or the first or last integer. */
static heed_tensor *no_bound (heed_context *cx, heed_type type, bool low) {
  if (scalar_is_float(type)) return op_float(cx, low ? -(double)INFINITY : (double)INFINITY);
  return op_integer(cx, low ? INT64_MIN : INT64_MAX);
}


bool do_clamp (call *c) {
  heed_tensor *low = arg_tensor(c, ARG(clamp, min)), *high = arg_tensor(c, ARG(clamp, max));
  if (low == NULL && high == NULL)
    return check_refuse(c, ARG(clamp, min), "a bound expected, min or max");
  if (low != NULL && !move_broadcasts(c, ARG(clamp, input), ARG(clamp, min))) return false;
  if (high != NULL && !move_broadcasts(c, ARG(clamp, input), ARG(clamp, max))) return false;
  heed_tensor *both[] = {c->args[ARG(clamp, input)].tensor, low != NULL ? low : high};
  heed_type type = op_promote(2, both);
  if (type == HEED_BOOL) return check_refuse(c, ARG(clamp, input), "bools have no bounds");
  if (low == NULL) low = no_bound(c->cx, type, true);
  if (high == NULL) high = no_bound(c->cx, type, false);
  return give_out(c, op3(HEED_bound, both[0], low, high));
}


bool do_clip (call *c) { return do_clamp(c); }

/* }================================================================== */


/*
** {==================================================================
** Gradients
** ===================================================================
*/

bool grad_flip (backward *b) { return give(b, IN(flip, input), move_repeated(b, b->g)); }


/* The gradient of padding is cropping, and the reverse. */
bool grad_constant_pad_nd (backward *b) {
  const heed_value *pads = &b->args[ARG(constant_pad_nd, pad)];
  int64_t back[2 * HEED_RANK];
  for (int i = 0; i < pads->n; i++) back[i] = -pads->list[i];
  heed_value args[] = {heed_t(b->g), heed_l(pads->n, back)};
  return give(b, IN(constant_pad_nd, input), op_call(b->cx, HEED_constant_pad_nd, 2, args));
}

/* }================================================================== */
