/*
** softmax.c - softmax and its logarithm, and their gradients; fused where the device can.
*/

#include "op/compose.h"


/* Along 'axis', which is seen as the last one in all operands. */
static bool run (heed_context *cx, heed_op op, softmax_kind kind, int axis, heed_tensor *y,
                 int nin, heed_tensor *const *in) {
  work w;
  w.kind = WORK_SOFTMAX;
  w.op = kind;
  w.nout = 1;
  w.nin = nin;
  w.mask.n = 0;
  layout at = layout_with_last(&y->at, axis);
  w.out[0] = view_with(y, &at);
  for (int i = 0; i < nin; i++) {
    at = layout_with_last(&in[i]->at, axis);
    w.in[i] = view_with(in[i], &at);
  }
  return op_run_for(cx, op, &w);
}


/* e^(x - top) / sum, or x - top - log sum. */
static heed_tensor *composed (heed_tensor *x, int axis, bool logarithm) {
  x = op_cast(x, op_computing(x->type));
  heed_tensor *rest = op2(HEED_sub, x, op_reduce(HEED_max, x, 1, (int64_t[]){axis}, true));
  heed_tensor *e = op1(HEED_exp, rest);
  heed_tensor *sum = op_reduce(HEED_sum, e, 1, (int64_t[]){axis}, true);
  return logarithm ? op2(HEED_sub, rest, op1(HEED_log, sum)) : op2(HEED_div, e, sum);
}


static bool give_composed (call *c, heed_tensor *x, int axis, heed_type type) {
  bool recording = heed_set_recording(c->cx, false);
  heed_tensor *y = op_cast(composed(x, axis, c->op == HEED_log_softmax), type);
  heed_set_recording(c->cx, recording);
  return give_out(c, y);
}


bool do_softmax (call *c) {
  heed_type type = arg_type(c, 2, op_float_of(op_promote(1, &c->args[0].tensor)));
  heed_tensor *x = op_materialized(c->args[0].tensor);
  int axis;
  if (x == NULL || !check_axis(c, 1, x->at.rank, &axis)) return false;
  if (!scalar_is_float(type))
    return check_refuse(c, 2, "a float type expected, got %s", scalar_names[type]);
  if (arg_given(c, 2)) x = op_cast(x, type);
  if (x == NULL) return false;
  if (layout_numel(&x->at) > 0 && !op_can(c->cx, WORK_SOFTMAX))
    return give_composed(c, x, axis, type);
  heed_tensor *y = op_new(c->cx, type, &x->at);
  softmax_kind kind = c->op == HEED_softmax ? SOFTMAX : SOFTMAX_LOG;
  return y != NULL && run(c->cx, c->op, kind, axis, y, 1, &x) && give_out(c, y);
}


bool do_log_softmax (call *c) { return do_softmax(c); }


/* dx = y (g - sum g y), and g - e^y sum g for the logarithm. */
static heed_tensor *composed_back (backward *b, heed_tensor *y, int axis) {
  const int64_t axes[] = {axis};
  heed_tensor *g = op_cast(b->g, op_computing(y->type));
  if (b->op == HEED_log_softmax) {
    heed_tensor *sum = op_reduce(HEED_sum, g, 1, axes, true);
    return op2(HEED_sub, g, op2(HEED_mul, op1(HEED_exp, y), sum));
  }
  heed_tensor *sum = op_reduce(HEED_sum, op2(HEED_mul, g, y), 1, axes, true);
  return op2(HEED_mul, y, op2(HEED_sub, g, sum));
}


bool grad_softmax (backward *b) {
  heed_tensor *y = output(b, 0);
  int axis;
  if (y == NULL || !layout_axis(y->at.rank, b->args[1].integer, &axis)) return false;
  if (!op_can(b->cx, WORK_SOFTMAX)) return give(b, 0, composed_back(b, y, axis));
  heed_tensor *dx = op_new(b->cx, y->type, &y->at);
  softmax_kind kind = b->op == HEED_softmax ? SOFTMAX_BACK : SOFTMAX_LOG_BACK;
  return dx != NULL && run(b->cx, b->op, kind, axis, dx, 2, (heed_tensor *[]){b->g, y}) &&
         give(b, 0, dx);
}


bool grad_log_softmax (backward *b) { return grad_softmax(b); }
