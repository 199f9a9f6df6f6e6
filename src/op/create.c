/*
** create.c - tensors made from numbers: filled, or ranges.
*/

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "op/move.h"


/*
** {==================================================================
** Filled
** ===================================================================
*/

SAME_ARG(ones, full, size);

static bool filled (call *c, heed_type type, heed_tensor *value) {
  layout shape;
  if (!check_shape(c, ARG(ones, size), -1, &shape)) return false;
  heed_tensor *y = op_new(c->cx, type, &shape);
  return move_copy(c->cx, c->op, y, value) && give_out(c, y);
}


bool do_zeros (call *c) {
  layout shape;
  return check_shape(c, ARG(zeros, size), -1, &shape) &&
         give_out(c, op_zeros(c->cx, arg_type(c, ARG(zeros, dtype), HEED_FLOAT32), &shape));
}


bool do_ones (call *c) {
  return filled(c, arg_type(c, ARG(ones, dtype), HEED_FLOAT32), op_integer(c->cx, 1));
}


bool do_empty (call *c) {
  layout shape;
  return check_shape(c, ARG(empty, size), -1, &shape) &&
         give_out(c, op_new(c->cx, arg_type(c, ARG(empty, dtype), HEED_FLOAT32), &shape));
}


/* A float number gives float32, the default type; other values keep their type. */
bool do_full (call *c) {
  heed_tensor *value = c->args[ARG(full, fill_value)].tensor;
  heed_type type = value->number && scalar_is_float(value->type) ? HEED_FLOAT32 : value->type;
  type = arg_type(c, ARG(full, dtype), type);
  if (!check_rank(c, ARG(full, fill_value), 0, 0)) return false;
  if (c->cx->scope.recording && scalar_is_float(type) && heed_requires_grad(value))
    return check_refuse(c, ARG(full, fill_value), "it requires grad, and would get no gradient; "
                        "detach() it, or use fill or expand");
  return filled(c, type, value);
}


static bool refuse_size (call *c, int i, int64_t size) {
  return check_refuse(c, i, "size %" PRId64 " is negative", size);
}


bool do_eye (call *c) {
  int64_t n = arg_count(c, ARG(eye, n));
  int64_t m = arg_given(c, ARG(eye, m)) ? arg_count(c, ARG(eye, m)) : n;
  int64_t size[2] = {n, m};
  layout shape;
  if (n < 0) return refuse_size(c, ARG(eye, n), n);
  if (m < 0) return refuse_size(c, ARG(eye, m), m);
  if (!layout_dense(&shape, 2, size))
    return check_refuse(c, ARG(eye, n), "a shape of (%" PRId64 ", %" PRId64 ") has too many "
                        "elements", n, m);
  heed_tensor *y = op_zeros(c->cx, arg_type(c, ARG(eye, dtype), HEED_FLOAT32), &shape);
  if (y == NULL) return false;
  layout diagonal = layout_select(&y->at, 0, 0);
  diagonal.size[0] = n < m ? n : m;
  diagonal.stride[0] = m + 1;
  return move_copy(c->cx, c->op, op_view(y, &diagonal), op_integer(c->cx, 1)) && give_out(c, y);
}

/* }================================================================== */


/*
** {==================================================================
** Ranges. The host computes them, in int64 or float64; then they move to the current device.
** ===================================================================
*/

static bool refuse_length (call *c, int i) {
  return check_refuse(c, i, "a range of too many elements");
}


static heed_tensor *new_row (call *c, int i, heed_type type, int64_t n) {
  layout row;
  if (!layout_dense(&row, 1, &n)) { refuse_length(c, i); return NULL; }
  const scope before = scope_begin(c->cx);
  c->cx->scope.device = c->cx->devices.list[0];
  heed_tensor *y = op_new(c->cx, type, &row);
  scope_end(c->cx, &before);
  return y != NULL && storage_fix(y->store) ? y : NULL;
}


/* Is the range to end before its element i? */
static bool stops (call *c, int64_t i) {
  return (i & 0xffff) == 0xffff && core_poll(c->cx, op_name(c->op));
}


/* A replay makes it anew of what was computed once. */
static bool give_row (call *c, heed_tensor *y, heed_type type) {
  if (!core_reaches(c->cx, y->store->where)) y = op1(HEED_clone, y);
  return give_out(c, op_cast(op_to(y, c->cx->scope.device), type));
}


/* How many steps Lua's 'for' takes from start to end after the first; -1: it takes none. */
static __int128 steps_between (int64_t start, int64_t end, int64_t step) {
  if (step > 0 ? start > end : start < end) return -1;
  return ((__int128)end - start) / step;
}


static bool integer_range (call *c, int64_t start, int64_t end, int64_t step) {
  __int128 steps = steps_between(start, end, step);
  if (steps >= INT64_MAX) return refuse_length(c, ARG(arange, end));
  heed_tensor *y = new_row(c, ARG(arange, end), HEED_INT64, (int64_t)steps + 1);
  if (y == NULL) return false;
  int64_t *values = y->store->data, n = (int64_t)steps;
  for (int64_t i = 0; i <= n; i++) {
    if (stops(c, i)) return false;
    values[i] = start;
    if (i < n) start += step;      /* not beyond the end, where it might overflow */
  }
  return give_row(c, y, arg_type(c, ARG(arange, dtype), HEED_INT64));
}


/* As many steps as fit, and one that misses its end by rounding alone: 0.3 / 0.1 is below 3. */
static double steps_within (double start, double end, double step) {
  const double steps = (end - start) / step, near = rint(steps);
  return fabs(steps - near) <= 4 * DBL_EPSILON * fabs(near) ? near : floor(steps);
}


static bool float_range (call *c, double start, double end, double step) {
  double steps = steps_within(start, end, step);
  if (!isfinite(start) || !isfinite(end) || !isfinite(step))
    return check_refuse(c, ARG(arange, end), "a range from %g to %g by %g does not end", start, end,
                        step);
  if (steps >= 0x1p62) return refuse_length(c, ARG(arange, end));
  int64_t n = steps < 0 ? 0 : (int64_t)steps + 1;
  heed_tensor *y = new_row(c, ARG(arange, end), HEED_FLOAT64, n);
  if (y == NULL) return false;
  double *values = y->store->data;
  for (int64_t i = 0; i < n; i++) {
    if (stops(c, i)) return false;
    values[i] = start + (double)i * step;
  }
  if (n > 0 && (step > 0 ? values[n - 1] > end : values[n - 1] < end)) values[n - 1] = end;
  return give_row(c, y, arg_type(c, ARG(arange, dtype), HEED_FLOAT32));
}


bool do_arange (call *c) {
  const int start = ARG(arange, start), end = ARG(arange, end), step = ARG(arange, step);
  bool floats = c->args[start].kind == HEED_FLOAT || c->args[end].kind == HEED_FLOAT ||
                c->args[step].kind == HEED_FLOAT;
  if (arg_number(c, step) == 0) return check_refuse(c, step, "a step of 0 leads nowhere");
  if (floats) return float_range(c, arg_number(c, start), arg_number(c, end), arg_number(c, step));
  return integer_range(c, arg_count(c, start), arg_count(c, end), arg_count(c, step));
}


/* No double holds all whole numbers beyond these. */
static bool is_long (int64_t n) { return n < -((int64_t)1 << 53) || n > (int64_t)1 << 53; }


/* Whole numbers, each cut to one exactly. */
static bool integer_line (call *c, int64_t start, int64_t end, int64_t n) {
  heed_tensor *y = new_row(c, ARG(linspace, steps), HEED_INT64, n);
  if (y == NULL) return false;
  int64_t *values = y->store->data, gaps = n > 1 ? n - 1 : 1;
  for (int64_t i = 0; i < n; i++) {
    if (stops(c, i)) return false;
    values[i] = (int64_t)(((__int128)start * (gaps - i) + (__int128)end * i) / gaps);
  }
  return give_row(c, y, HEED_INT64);
}


/* The second half is counted from the end, which makes the last value exact (PyTorch). */
bool do_linspace (call *c) {
  double start = arg_number(c, ARG(linspace, start)), end = arg_number(c, ARG(linspace, end));
  const heed_value *first = &c->args[ARG(linspace, start)], *last = &c->args[ARG(linspace, end)];
  heed_type type = arg_type(c, ARG(linspace, dtype), HEED_FLOAT32);
  int64_t n = arg_count(c, ARG(linspace, steps));
  if (n < 0)
    return check_refuse(c, ARG(linspace, steps), "a number of steps expected, got %" PRId64, n);
  if (type == HEED_INT64 && first->kind == HEED_INTEGER && last->kind == HEED_INTEGER &&
      (is_long(first->integer) || is_long(last->integer)))
    return integer_line(c, first->integer, last->integer, n);
  heed_tensor *y = new_row(c, ARG(linspace, steps), HEED_FLOAT64, n);
  if (y == NULL) return false;
  double *values = y->store->data, step = n > 1 ? (end - start) / (double)(n - 1) : 0;
  for (int64_t i = 0; i < n; i++) {
    if (stops(c, i)) return false;
    values[i] = i < n - n / 2 ? start + step * (double)i : end - step * (double)(n - 1 - i);
  }
  return give_row(c, y, type);
}

/* }================================================================== */
