/*
** running.c - running sums and products, with their gradients.
*/

#include "op/reduce.h"


SAME_ARG(cumsum, cumprod, dim);
SAME_ARG(cumsum, cumprod, dtype);

static bool scan (call *c, scan_op kind) {
  heed_type type = arg_type(c, ARG(cumsum, dtype), reduce_sum_type(reduce_own_type(c)));
  heed_tensor *x = reduce_rounded(c, type);
  int axis;
  if (x == NULL || !check_axis(c, ARG(cumsum, dim), x->at.rank, &axis)) return false;
  heed_tensor *y = op_new(c->cx, type, &x->at);
  return op_run_scan(c->op, kind, axis, false, y, x) && give_out(c, y);
}


bool do_cumsum (call *c) { return scan(c, SCAN_SUM); }


bool do_cumprod (call *c) { return scan(c, SCAN_PROD); }


/* The sum of each element of t and of all behind it. */
static heed_tensor *sum_from_end (backward *b, heed_tensor *t) {
  int axis;
  const int64_t dim = b->args[ARG(cumsum, dim)].integer;
  if (composes(b))
    return op_along(HEED_flip, op_along(HEED_cumsum, op_along(HEED_flip, t, dim), dim), dim);
  if (t == NULL || !layout_axis(t->at.rank, dim, &axis)) return NULL;
  heed_tensor *y = op_new(b->cx, t->type, &t->at);
  return op_run_scan(b->op, SCAN_SUM, axis, true, y, t) ? y : NULL;
}


/* Each element is in all sums from its own on. */
bool grad_cumsum (backward *b) { return reduce_give_input(b, sum_from_end(b, b->g)); }


static heed_tensor *along (backward *b, heed_op op, heed_tensor *t) {
  return op_along(op, t, b->args[ARG(cumprod, dim)].integer);
}


/* g y where there are n zeros up to it, summed from the end. */
static heed_tensor *sum_where (backward *b, heed_tensor *zeros, int64_t n, heed_tensor *gy) {
  heed_tensor *chosen = op2(HEED_eq, zeros, op_integer(b->cx, n));
  return sum_from_end(b, op3(HEED_where, chosen, gy, op_integer(b->cx, 0)));
}


/*
** An element before the first zero is a factor of all products that are not 0: sum g y / x over
** those from its own on. The first zero's derivatives are the products without it, up to the next
** zero: there y is taken with zeros set to 1. Elements behind the second zero are factors of zeros
** alone: 0.
*/
bool grad_cumprod (backward *b) {
  heed_tensor *g = op_cast(b->g, scalar_computing(b->g->type)), *none = op_integer(b->cx, 0);
  heed_tensor *x = op_cast(input(b, REDUCE_INPUT), b->g->type);
  if (g == NULL || x == NULL) return false;
  x = op_cast(x, g->type);
  heed_tensor *is_zero = op2(HEED_eq, x, none), *zeros = along(b, HEED_cumsum, is_zero);
  if (!reduce_refuse_zeros(b, is_zero)) return false;
  heed_tensor *y = along(b, HEED_cumprod, op3(HEED_where, is_zero, op_float(b->cx, 1), x));
  heed_tensor *gy = op2(HEED_mul, g, y);
  heed_tensor *first = op2(HEED_eq, op2(HEED_mul, zeros, is_zero), op_integer(b->cx, 1));
  heed_tensor *rest = op3(HEED_where, first, sum_where(b, zeros, 1, gy), none);
  heed_tensor *before = op2(HEED_div, sum_where(b, zeros, 0, gy), x);
  return reduce_give_input(b, op3(HEED_where, op2(HEED_eq, zeros, none), before, rest));
}
