/*
** grad.c - floor 5: gradient rules of reductions and running sums.
**
** The rules of products, softmax, norms, losses and attention stand beside their work.
*/

#include <math.h>

#include "op/compose.h"


/* A reduction's result, or its gradient, seen with the input's shape. */
static heed_tensor *spread (rule *r, heed_tensor *t, int dim) {
  const layout *to = shape_of(r, 0);
  bool marks[HEED_RANK];
  if (t == NULL) return NULL;
  layout at = *to;
  bool kept = t->at.rank == to->rank;
  op_mark_axes(&r->args[dim], to->rank, marks);
  at.offset = t->at.offset;
  for (int i = 0, k = 0; i < to->rank; i++) {
    at.stride[i] = marks[i] ? 0 : t->at.stride[k];
    k += kept || !marks[i];
  }
  return op_view(t, &at);
}


/* How many elements make one result. */
static double count_of (rule *r, int dim) {
  const layout *at = shape_of(r, 0);
  bool marks[HEED_RANK];
  double n = 1;
  op_mark_axes(&r->args[dim], at->rank, marks);
  for (int i = 0; i < at->rank; i++)
    if (marks[i]) n *= (double)at->size[i];
  return n;
}


/* Sums t, of the input's shape, over what was reduced; the axes stay. */
static heed_tensor *again (rule *r, heed_op op, heed_tensor *t, int dim) {
  const layout *at = shape_of(r, 0);
  int64_t axes[HEED_RANK];
  bool marks[HEED_RANK];
  int n = 0;
  op_mark_axes(&r->args[dim], at->rank, marks);
  for (int i = 0; i < at->rank; i++)
    if (marks[i]) axes[n++] = i;
  return op_reduce(op, t, n, axes, true);
}


/*
** {==================================================================
** Sums and products
** ===================================================================
*/

bool grad_sum (rule *r) { return give(r, 0, spread(r, r->g, 1)); }


bool grad_mean (rule *r) {
  heed_tensor *g = op2(HEED_div, r->g, op_float(r->cx, count_of(r, 1)));
  return give(r, 0, spread(r, g, 1));
}


/*
** The slope is the product of the others. With zeros set to 1, that is the whole product by
** the element; where there is another zero, it is 0.
*/
bool grad_prod (rule *r) {
  heed_tensor *x = input(r, 0), *one = op_float(r->cx, 1);
  heed_tensor *zero = op2(HEED_eq, x, op_whole(r->cx, 0));
  heed_tensor *filled = op3(HEED_where, zero, one, x);
  heed_tensor *others = op2(HEED_sub, again(r, HEED_sum, zero, 1), zero);
  heed_tensor *slope = op2(HEED_div, again(r, HEED_prod, filled, 1), filled);
  slope = op3(HEED_where, op2(HEED_gt, others, op_whole(r->cx, 0)), op_whole(r->cx, 0), slope);
  return give(r, 0, op2(HEED_mul, spread(r, r->g, 1), slope));
}


/* Each element is in all sums from its own on: the running sum of g from the end. */
bool grad_cumsum (rule *r) {
  heed_tensor *dx = op_new(r->cx, r->g->type, &r->g->at);
  int axis;
  work w;
  if (dx == NULL || !layout_axis(dx->at.rank, r->args[1].integer, &axis)) return false;
  layout in = layout_with_last(&r->g->at, axis), out = layout_with_last(&dx->at, axis);
  w.kind = WORK_SCAN;
  w.op = r->op;
  w.nin = w.nout = 1;
  w.mask.n = 0;
  w.count[0] = 1;
  w.in[0] = tensor_seen_as(r->g, &in);
  w.out[0] = tensor_seen_as(dx, &out);
  return op_run_for(r->cx, r->op, &w) && give(r, 0, dx);
}

/* }================================================================== */


/*
** {==================================================================
** Variance
** ===================================================================
*/

/* 2 (x - mean) / (n - correction) */
static heed_tensor *variance_slope (rule *r) {
  const heed_value *correction = &r->args[4];
  double c = r->args[2].integer != 0;
  if (correction->kind == HEED_FLOAT) c = correction->number;
  else if (correction->kind == HEED_INTEGER) c = (double)correction->integer;
  heed_tensor *off = op2(HEED_sub, input(r, 0), spread(r, output(r, 1), 1));
  return op_scale(off, 2 / fmax(count_of(r, 1) - c, 0));
}


bool grad_var (rule *r) {
  return give(r, 0, op2(HEED_mul, spread(r, r->g, 1), variance_slope(r)));
}


/* By the root of the variance; 0 where that is 0, as PyTorch has it. */
bool grad_std (rule *r) {
  heed_tensor *y = output(r, 0), *zero = op_whole(r->cx, 0);
  heed_tensor *g = op2(HEED_div, r->g, op_scale(y, 2));
  g = op3(HEED_where, op2(HEED_eq, y, zero), zero, g);
  return give(r, 0, op2(HEED_mul, spread(r, g, 1), variance_slope(r)));
}

/* }================================================================== */


/*
** {==================================================================
** The largest, logsumexp, norm
** ===================================================================
*/

/* Where x is y, both NaN included. */
static heed_tensor *same (heed_tensor *x, heed_tensor *y) {
  heed_tensor *both = op2(HEED_logical_and, op1(HEED_isnan, x), op1(HEED_isnan, y));
  return op2(HEED_logical_or, op2(HEED_eq, x, y), both);
}


/* g to where x is y, in even shares. */
static heed_tensor *shared (rule *r, heed_tensor *x, heed_tensor *y, int dim) {
  heed_tensor *ties = same(x, spread(r, y, dim));
  heed_tensor *share = op2(HEED_div, spread(r, r->g, dim), again(r, HEED_sum, ties, dim));
  return op3(HEED_where, ties, share, op_whole(r->cx, 0));
}


/* g to the positions, in zeros of the input's shape. */
static heed_tensor *placed (rule *r, heed_tensor *positions) {
  heed_tensor *dx = op_zeros(r->cx, r->g->type, shape_of(r, 0));
  int axis;
  work w;
  if (dx == NULL || positions == NULL) return NULL;
  if (!layout_axis(dx->at.rank, r->args[1].integer, &axis)) return NULL;
  layout into = dx->at;
  w.kind = WORK_SCATTER;
  w.op = SCATTER_SET;
  w.nout = 1;
  w.nin = 2;
  w.mask.n = 0;
  w.count[0] = into.rank > 0 ? into.stride[axis] : 0;
  w.count[1] = into.rank > 0 ? into.size[axis] : 1;
  if (r->g->at.rank < into.rank) into = layout_select(&into, axis, 0);
  else if (into.rank > 0) into = layout_narrow(&into, axis, 0, 1, 1);
  w.out[0] = tensor_seen_as(dx, &into);
  w.in[0] = tensor_seen(r->g);
  w.in[1] = tensor_seen(positions);
  return op_run_for(r->cx, r->op, &w) ? dx : NULL;
}


/* Of an axis: the one that was found. Of all: every one that is the largest, in even shares. */
bool grad_max (rule *r) {
  if (r->args[1].kind != HEED_NONE) return give(r, 0, placed(r, output(r, 1)));
  return give(r, 0, shared(r, input(r, 0), output(r, 0), 1));
}


bool grad_min (rule *r) { return grad_max(r); }


/* g e^(x - y) */
bool grad_logsumexp (rule *r) {
  heed_tensor *off = op2(HEED_sub, input(r, 0), spread(r, output(r, 0), 1));
  return give(r, 0, op2(HEED_mul, spread(r, r->g, 1), op1(HEED_exp, off)));
}


/* t where the condition does not hold, else 0. */
static heed_tensor *unless (heed_tensor *condition, heed_tensor *t) {
  return t != NULL ? op3(HEED_where, condition, op_whole(t->cx, 0), t) : NULL;
}


/* g sign(x) (|x| / y)^(p - 1), and 0 where x or y is 0. */
static heed_tensor *power_slope (rule *r, heed_tensor *x, heed_tensor *y, double p) {
  heed_tensor *zero = op_whole(r->cx, 0), *power = op_float(r->cx, p - 1);
  heed_tensor *g = unless(op2(HEED_eq, y, zero), op2(HEED_div, r->g, op2(HEED_pow, y, power)));
  heed_tensor *slope = op2(HEED_mul, op1(HEED_sign, x), op2(HEED_pow, op1(HEED_abs, x), power));
  return op2(HEED_mul, spread(r, g, 2), unless(op2(HEED_eq, x, zero), slope));
}


static heed_tensor *norm_slope (rule *r, double p) {
  heed_tensor *x = input(r, 0), *y = output(r, 0), *g = r->g;
  if (p == 0) return op_zeros(r->cx, type_of(r, 0), shape_of(r, 0));
  if (p == 1) return op2(HEED_mul, op1(HEED_sign, x), spread(r, g, 2));
  if (isinf(p)) return op2(HEED_mul, op1(HEED_sign, x), shared(r, op1(HEED_abs, x), y, 2));
  if (p != 2) return power_slope(r, x, y, p);
  heed_tensor *rate = unless(op2(HEED_eq, y, op_whole(r->cx, 0)), op2(HEED_div, g, y));
  return op2(HEED_mul, x, spread(r, rate, 2));
}


bool grad_norm (rule *r) {
  const heed_value *p = &r->args[1];
  return give(r, 0, norm_slope(r, p->kind == HEED_FLOAT ? p->number : (double)p->integer));
}

/* }================================================================== */
