/*
** vector_norm.c - norms of vectors, with their gradient.
*/

#include <math.h>

#include "op/reduce.h"


/*
** |x|^p, to be added up; for p = 0 it counts, and squares are the reduction's. Other powers may
** be out of x's range: they are float64.
*/
static heed_tensor *powers (heed_tensor *x, double p) {
  if (x == NULL || p == 2) return x;
  if (p == 0) return op_cast(op2(HEED_ne, x, op_integer(x->cx, 0)), scalar_computing(x->type));
  if (p != 1 && !isinf(p)) x = op_cast(x, HEED_FLOAT64);
  x = op1(HEED_abs, x);
  return x == NULL || p == 1 || isinf(p) ? x : op2(HEED_pow, x, op_float(x->cx, p));
}


static heed_tensor *root (heed_tensor *y, double p) {
  if (y == NULL || p == 0 || p == 1 || isinf(p)) return y;
  return p == 2 ? op1(HEED_sqrt, y) : op2(HEED_pow, y, op_float(y->cx, 1 / p));
}


static heed_tensor *norm (call *c, heed_tensor *x, const bool marks[HEED_RANK], double p) {
  reduction f;
  heed_type type = x->type;
  x = powers(x, p);
  if (x == NULL) return NULL;
  reduction_open(&f, x, marks, arg_flag(c, ARG(norm, keepdim)));
  heed_tensor *y = op_new(c->cx, p == 2 ? HEED_FLOAT64 : scalar_computing(x->type), &f.shape);
  reduce_op kind = p == 2 ? REDUCE_SQUARES : !isinf(p) ? REDUCE_SUM
                   : p > 0 ? REDUCE_MAX : REDUCE_MIN;
  return reduction_run(&f, c->op, kind, y, NULL) ? op_cast(root(y, p), type) : NULL;
}


/* (sum |x|^p)^(1/p); p = inf and -inf give the largest and smallest |x|. */
bool do_norm (call *c) {
  double p = arg_number(c, ARG(norm, p));
  heed_tensor *x = reduce_input(c);
  bool marks[HEED_RANK];
  int n;
  reduction f;
  if (x == NULL || !check_float(c, ARG(norm, input))) return false;
  if (!check_axes(c, ARG(norm, dim), x->at.rank, marks, &n)) return false;
  if (p != p) return check_refuse(c, ARG(norm, p), "a number expected, got NaN");
  reduction_open(&f, x, marks, false);
  if ((isinf(p) || p < 0) && !reduce_check_some(c, &f)) return false;
  const scope before = scope_unrecorded(c->cx);
  heed_tensor *y = norm(c, x, marks, p);
  scope_end(c->cx, &before);
  return give_out(c, y);
}


/* t where the condition does not hold, else 0. */
static heed_tensor *unless (heed_tensor *condition, heed_tensor *t) {
  return t != NULL ? op3(HEED_where, condition, op_integer(t->cx, 0), t) : NULL;
}


/* g sign(x) (|x| / y)^(p - 1), and 0 where x or y is 0. */
static heed_tensor *power_gradient (backward *b, heed_tensor *x, heed_tensor *y, double p) {
  heed_tensor *zero = op_integer(b->cx, 0), *power = op_float(b->cx, p - 1);
  heed_tensor *g = unless(op2(HEED_eq, y, zero), b->g);
  heed_tensor *share = op2(HEED_pow, op2(HEED_div, op1(HEED_abs, x), reduce_spread(b, y)), power);
  heed_tensor *d = op2(HEED_mul, op1(HEED_sign, x), share);
  return op2(HEED_mul, reduce_spread(b, g), unless(op2(HEED_eq, x, zero), d));
}


static heed_tensor *norm_gradient (backward *b, double p) {
  heed_tensor *x = input(b, REDUCE_INPUT), *y = output(b, OUT(norm, output)), *g = b->g;
  const layout shape = shape_of(b, REDUCE_INPUT);
  if (p == 0) return op_zeros(b->cx, type_of(b, REDUCE_INPUT), &shape);
  if (p == 1) return op2(HEED_mul, op1(HEED_sign, x), reduce_spread(b, g));
  if (isinf(p)) return op2(HEED_mul, op1(HEED_sign, x), reduce_shared(b, op1(HEED_abs, x), y));
  if (p != 2) return power_gradient(b, x, y, p);
  heed_tensor *rate = unless(op2(HEED_eq, y, op_integer(b->cx, 0)), op2(HEED_div, g, y));
  return op2(HEED_mul, x, reduce_spread(b, rate));
}


bool grad_norm (backward *b) {
  return reduce_give_input(b, norm_gradient(b, op_number_in(&b->args[ARG(norm, p)], 2)));
}
