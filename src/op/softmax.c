/*
** softmax.c - softmax and its logarithm, and their gradients; fused where the device can.
*/

#include "op/compose.h"


SAME_ARG(softmax, log_softmax, input);
SAME_ARG(softmax, log_softmax, dim);
SAME_ARG(softmax, log_softmax, dtype);
SAME_IN(softmax, log_softmax, input);
SAME_OUT(softmax, log_softmax, output);


static view with_last (const heed_tensor *t, int axis) {
  if (axis == t->at.rank - 1) return view_of(t);
  layout at = layout_with_last(&t->at, axis);
  return view_with(t, &at);
}


static int64_t row_of (const heed_tensor *t, int axis) {
  return t->at.rank > 0 ? t->at.size[axis] : 1;
}


/*
** {==================================================================
** Forward
** ===================================================================
*/

static heed_tensor *fused (call *c, softmax_op kind, heed_tensor *x, int axis, heed_type type) {
  work w;
  heed_tensor *y = op_new(c->cx, type, &x->at);
  if (y == NULL) return NULL;
  work_softmax(&w, kind, with_last(y, axis), with_last(x, axis));
  return op_run(c, &w) ? y : NULL;
}


/* e^(x - top) / sum, or x - top - log sum. An axis without elements has no top. */
static heed_tensor *composed (call *c, softmax_op kind, heed_tensor *x, int axis, heed_type type) {
  if (layout_numel(&x->at) == 0) return op_new(c->cx, type, &x->at);
  x = op_cast(x, scalar_computing(x->type));
  heed_tensor *rest = op2(HEED_sub, x, op_reduce_axis(HEED_max, x, axis, true));
  heed_tensor *e = op1(HEED_exp, rest), *sum = op_reduce_axis(HEED_sum, e, axis, true);
  if (kind == SOFTMAX_LOG) return op_cast(op2(HEED_sub, rest, op1(HEED_log, sum)), type);
  return op_cast(op2(HEED_div, e, sum), type);
}


bool do_softmax (call *c) {
  heed_tensor *x = arg_tensor(c, ARG(softmax, input));
  heed_type type = arg_type(c, ARG(softmax, dtype), scalar_floating(op_promote(1, &x)));
  int axis;
  x = op_materialized(x);
  if (x == NULL || !check_axis(c, ARG(softmax, dim), x->at.rank, &axis)) return false;
  if (!scalar_is_float(type))
    return check_refuse(c, ARG(softmax, dtype), "a float type expected, got %s",
                        scalar_names[type]);
  if (arg_given(c, ARG(softmax, dtype))) x = op_cast(x, type);
  if (x == NULL) return false;
  softmax_op kind = c->op == HEED_softmax ? SOFTMAX : SOFTMAX_LOG;
  const scope before = scope_unrecorded(c->cx);
  bool whole = op_fuses(c->cx, WORK_SOFTMAX, kind, row_of(x, axis));
  heed_tensor *y = (whole ? fused : composed)(c, kind, x, axis, type);
  scope_end(c->cx, &before);
  return give_out(c, y);
}


bool do_log_softmax (call *c) { return do_softmax(c); }

/* }================================================================== */


/*
** {==================================================================
** Gradient
** ===================================================================
*/

static heed_tensor *fused_back (backward *b, softmax_op kind, heed_tensor *y, int axis) {
  work w;
  heed_tensor *dx = op_new(b->cx, y->type, &y->at);
  if (dx == NULL) return NULL;
  work_softmax_back(&w, kind, with_last(dx, axis), with_last(b->g, axis), with_last(y, axis));
  return op_run_for(b->cx, b->op, &w) ? dx : NULL;
}


/* dx = y (g - sum g y), and g - e^y sum g for the logarithm. */
static heed_tensor *composed_back (backward *b, softmax_op kind, heed_tensor *y, int axis) {
  heed_tensor *g = op_cast(b->g, scalar_computing(y->type));
  if (kind == SOFTMAX_LOG_BACK) {
    heed_tensor *sum = op_reduce_axis(HEED_sum, g, axis, true);
    return op2(HEED_sub, g, op2(HEED_mul, op1(HEED_exp, y), sum));
  }
  heed_tensor *sum = op_reduce_axis(HEED_sum, op2(HEED_mul, g, y), axis, true);
  return op2(HEED_mul, y, op2(HEED_sub, g, sum));
}


bool grad_softmax (backward *b) {
  heed_tensor *y = output(b, OUT(softmax, output));
  int axis;
  if (y == NULL) return false;
  if (!layout_axis(y->at.rank, b->args[ARG(softmax, dim)].integer, &axis)) return false;
  softmax_op kind = b->op == HEED_softmax ? SOFTMAX_BACK : SOFTMAX_LOG_BACK;
  bool whole = op_fuses(b->cx, WORK_SOFTMAX, kind, row_of(y, axis));
  return give(b, IN(softmax, input), (whole ? fused_back : composed_back)(b, kind, y, axis));
}


bool grad_log_softmax (backward *b) { return grad_softmax(b); }

/* }================================================================== */
