/*
** create.c - tensors from nothing: filled, counted up.
*/

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "op/move.h"


/*
** {==================================================================
** Filled
** ===================================================================
*/

bool op_filled (heed_tensor *t, int64_t value) {
  work w;
  w.kind = WORK_COPY;
  w.op = HEED_fill;
  w.nout = w.nin = 1;
  w.mask.n = 0;
  w.count[0] = 0;
  w.out[0] = view_of(t);
  w.in[0] = (view){.type = HEED_INT64, .value = {.type = HEED_INT64, .i = value}};
  return layout_numel(&t->at) == 0 || op_run_for(t->cx, HEED_fill, &w);
}


heed_tensor *op_zeros (heed_context *cx, heed_type type, const layout *shape) {
  heed_tensor *t = op_new(cx, type, shape);
  if (t == NULL) return NULL;
  if (!cx->current->host) return op_filled(t, 0) ? t : NULL;
  memset(t->store->data, 0, (size_t)layout_numel(&t->at) * scalar_sizes[type]);
  return t;
}


static bool filled (call *c, heed_type type, heed_tensor *value) {
  layout shape;
  if (!check_shape(c, 0, -1, &shape)) return false;
  heed_tensor *y = op_new(c->cx, type, &shape);
  return move_copy(c->cx, c->op, y, value) && give_out(c, y);
}


bool do_zeros (call *c) {
  layout shape;
  return check_shape(c, 0, -1, &shape) &&
         give_out(c, op_zeros(c->cx, arg_type(c, 1, HEED_FLOAT32), &shape));
}


bool do_ones (call *c) {
  return filled(c, arg_type(c, 1, HEED_FLOAT32), op_integer(c->cx, 1));
}


bool do_empty (call *c) {
  layout shape;
  return check_shape(c, 0, -1, &shape) &&
         give_out(c, op_new(c->cx, arg_type(c, 1, HEED_FLOAT32), &shape));
}


/* A floating number gives float32, the default type; others keep theirs. */
bool do_full (call *c) {
  heed_tensor *value = c->args[1].tensor;
  heed_type type = value->number && scalar_is_float(value->type) ? HEED_FLOAT32 : value->type;
  return check_rank(c, 1, 0, 0) && filled(c, arg_type(c, 2, type), value);
}


bool do_eye (call *c) {
  int64_t n = arg_count(c, 0), size[2] = {n, arg_given(c, 1) ? arg_count(c, 1) : n};
  layout shape;
  for (int i = 0; i < 2; i++)
    if (size[i] < 0) return check_refuse(c, i, "size %" PRId64 " is negative", size[i]);
  if (!layout_dense(&shape, 2, size))
    return check_refuse(c, 0, "a shape of (%" PRId64 ", %" PRId64 ") has too many elements",
                        size[0], size[1]);
  heed_tensor *y = op_zeros(c->cx, arg_type(c, 2, HEED_FLOAT32), &shape);
  if (y == NULL) return false;
  layout diagonal = layout_select(&y->at, 0, 0);
  diagonal.size[0] = size[0] < size[1] ? size[0] : size[1];
  diagonal.stride[0] = size[1] + 1;
  return move_copy(c->cx, c->op, op_view(y, &diagonal), op_integer(c->cx, 1)) && give_out(c, y);
}

/* }================================================================== */


/*
** {==================================================================
** Counted up. The host counts, in int64 or float64; then the row goes where it belongs.
** ===================================================================
*/

static bool refuse_length (call *c, int i) {
  return check_refuse(c, i, "a range of too many elements");
}


static heed_tensor *new_row (call *c, int i, heed_type type, int64_t n) {
  layout row;
  if (!layout_dense(&row, 1, &n)) { refuse_length(c, i); return NULL; }
  device *here = c->cx->current;
  c->cx->current = c->cx->cpu;
  heed_tensor *y = op_new(c->cx, type, &row);
  c->cx->current = here;
  return y;
}


static bool give_row (call *c, heed_tensor *y, heed_type type) {
  return give_out(c, op_cast(op_to(y, c->cx->current), type));
}


/* How many steps Lua's 'for' takes from start to end after the first; -1: it takes none. */
static __int128 steps_between (int64_t start, int64_t end, int64_t step) {
  if (step > 0 ? start > end : start < end) return -1;
  return ((__int128)end - start) / step;
}


static bool whole_range (call *c, int64_t start, int64_t end, int64_t step) {
  __int128 steps = steps_between(start, end, step);
  if (steps >= INT64_MAX) return refuse_length(c, 1);
  heed_tensor *y = new_row(c, 1, HEED_INT64, (int64_t)steps + 1);
  if (y == NULL) return false;
  int64_t *values = y->store->data, n = (int64_t)steps;
  for (int64_t i = 0; i <= n; i++) {
    values[i] = start;
    if (i < n) start += step;      /* no step leads beyond the end */
  }
  return give_row(c, y, arg_type(c, 3, HEED_INT64));
}


static bool float_range (call *c, double start, double end, double step) {
  double steps = floor((end - start) / step);
  if (!isfinite(start) || !isfinite(end) || !isfinite(step))
    return check_refuse(c, 1, "a range from %g to %g by %g does not end", start, end, step);
  if (steps >= 0x1p62) return refuse_length(c, 1);
  int64_t n = steps < 0 ? 0 : (int64_t)steps + 1;
  heed_tensor *y = new_row(c, 1, HEED_FLOAT64, n);
  if (y == NULL) return false;
  double *values = y->store->data;
  for (int64_t i = 0; i < n; i++) values[i] = start + (double)i * step;
  return give_row(c, y, arg_type(c, 3, HEED_FLOAT32));
}


static void read_bounds (const call *c, double value[3], int64_t whole[3], bool *floats) {
  *floats = false;
  for (int i = 0; i < 3; i++) {
    *floats |= c->args[i].kind == HEED_FLOAT;
    value[i] = arg_number(c, i);
    whole[i] = c->args[i].kind == HEED_FLOAT ? 0 : arg_count(c, i);
  }
}


bool do_arange (call *c) {
  double value[3];
  int64_t whole[3];
  bool floats;
  read_bounds(c, value, whole, &floats);
  if (value[2] == 0) return check_refuse(c, 2, "a step of 0 leads nowhere");
  return floats ? float_range(c, value[0], value[1], value[2])
                : whole_range(c, whole[0], whole[1], whole[2]);
}


/* The second half is counted from the end, so that it meets it (PyTorch). */
bool do_linspace (call *c) {
  double start = arg_number(c, 0), end = arg_number(c, 1);
  int64_t n = arg_count(c, 2);
  if (n < 0) return check_refuse(c, 2, "a number of steps expected, got %" PRId64, n);
  heed_tensor *y = new_row(c, 2, HEED_FLOAT64, n);
  if (y == NULL) return false;
  double *values = y->store->data, step = n > 1 ? (end - start) / (double)(n - 1) : 0;
  for (int64_t i = 0; i < n; i++)
    values[i] = i < n - n / 2 ? start + step * (double)i : end - step * (double)(n - 1 - i);
  return give_row(c, y, arg_type(c, 3, HEED_FLOAT32));
}

/* }================================================================== */
