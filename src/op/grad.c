/*
** grad.c - floor 5: gradient rules of reductions and running sums.
**
** The rules of products, softmax, norms, losses and attention stand beside their work.
*/

#include <math.h>

#include "op/compose.h"


/* A reduction's result, or its gradient, seen with the input's shape. */
static heed_tensor *spread (backward *b, heed_tensor *t, int dim) {
  const layout *to = shape_of(b, 0);
  bool marks[HEED_RANK];
  if (t == NULL) return NULL;
  layout at = *to;
  bool kept = t->at.rank == to->rank;
  op_mark_axes(&b->args[dim], to->rank, marks);
  at.offset = t->at.offset;
  for (int i = 0, k = 0; i < to->rank; i++) {
    at.stride[i] = marks[i] ? 0 : t->at.stride[k];
    k += kept || !marks[i];
  }
  return op_view(t, &at);
}


/* How many elements make one result. */
static double count_of (backward *b, int dim) {
  const layout *at = shape_of(b, 0);
  bool marks[HEED_RANK];
  double n = 1;
  op_mark_axes(&b->args[dim], at->rank, marks);
  for (int i = 0; i < at->rank; i++)
    if (marks[i]) n *= (double)at->size[i];
  return n;
}


/* Sums t, of the input's shape, over what was reduced; the axes stay. */
static heed_tensor *again (backward *b, heed_op op, heed_tensor *t, int dim) {
  const layout *at = shape_of(b, 0);
  int64_t axes[HEED_RANK];
  bool marks[HEED_RANK];
  int n = 0;
  op_mark_axes(&b->args[dim], at->rank, marks);
  for (int i = 0; i < at->rank; i++)
    if (marks[i]) axes[n++] = i;
  return op_reduce(op, t, n, axes, true);
}


/*
** {==================================================================
** Sums and products
** ===================================================================
*/

bool grad_sum (backward *b) { return give(b, 0, spread(b, b->g, 1)); }


bool grad_mean (backward *b) {
  heed_tensor *g = op2(HEED_div, b->g, op_float(b->cx, count_of(b, 1)));
  return give(b, 0, spread(b, g, 1));
}


/*
** The slope is the product of the others. With zeros set to 1, that is the whole product by
** the element; where there is another zero, it is 0.
*/
bool grad_prod (backward *b) {
  heed_tensor *x = input(b, 0), *one = op_float(b->cx, 1);
  heed_tensor *zero = op2(HEED_eq, x, op_integer(b->cx, 0));
  heed_tensor *filled = op3(HEED_where, zero, one, x);
  heed_tensor *others = op2(HEED_sub, again(b, HEED_sum, zero, 1), zero);
  heed_tensor *slope = op2(HEED_div, again(b, HEED_prod, filled, 1), filled);
  slope = op3(HEED_where, op2(HEED_gt, others, op_integer(b->cx, 0)), op_integer(b->cx, 0), slope);
  return give(b, 0, op2(HEED_mul, spread(b, b->g, 1), slope));
}


/* Each element is in all sums from its own on: the running sum of g from the end. */
bool grad_cumsum (backward *b) {
  heed_tensor *dx = op_new(b->cx, b->g->type, &b->g->at);
  int axis;
  work w;
  if (dx == NULL || !layout_axis(dx->at.rank, b->args[1].integer, &axis)) return false;
  layout in = layout_with_last(&b->g->at, axis), out = layout_with_last(&dx->at, axis);
  w.kind = WORK_SCAN;
  w.op = b->op;
  w.nin = w.nout = 1;
  w.mask.n = 0;
  w.count[0] = 1;
  w.in[0] = view_with(b->g, &in);
  w.out[0] = view_with(dx, &out);
  return op_run_for(b->cx, b->op, &w) && give(b, 0, dx);
}

/* }================================================================== */


/*
** {==================================================================
** Variance
** ===================================================================
*/

/* 2 (x - mean) / (n - correction) */
static heed_tensor *variance_gradient (backward *b) {
  const heed_value *correction = &b->args[4];
  double c = b->args[2].integer != 0;
  if (correction->kind == HEED_FLOAT) c = correction->number;
  else if (correction->kind == HEED_INTEGER) c = (double)correction->integer;
  heed_tensor *off = op2(HEED_sub, input(b, 0), spread(b, output(b, 1), 1));
  return op_scale(off, 2 / fmax(count_of(b, 1) - c, 0));
}


bool grad_var (backward *b) {
  return give(b, 0, op2(HEED_mul, spread(b, b->g, 1), variance_gradient(b)));
}


/* By the root of the variance; 0 where that is 0, as PyTorch has it. */
bool grad_std (backward *b) {
  heed_tensor *y = output(b, 0), *zero = op_integer(b->cx, 0);
  heed_tensor *g = op2(HEED_div, b->g, op_scale(y, 2));
  g = op3(HEED_where, op2(HEED_eq, y, zero), zero, g);
  return give(b, 0, op2(HEED_mul, spread(b, g, 1), variance_gradient(b)));
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
static heed_tensor *shared (backward *b, heed_tensor *x, heed_tensor *y, int dim) {
  heed_tensor *ties = same(x, spread(b, y, dim));
  heed_tensor *share = op2(HEED_div, spread(b, b->g, dim), again(b, HEED_sum, ties, dim));
  return op3(HEED_where, ties, share, op_integer(b->cx, 0));
}


/* g to the positions, in zeros of the input's shape. */
static heed_tensor *placed (backward *b, heed_tensor *positions) {
  heed_tensor *dx = op_zeros(b->cx, b->g->type, shape_of(b, 0));
  int axis;
  work w;
  if (dx == NULL || positions == NULL) return NULL;
  if (!layout_axis(dx->at.rank, b->args[1].integer, &axis)) return NULL;
  layout into = dx->at;
  w.kind = WORK_SCATTER;
  w.op = SCATTER_SET;
  w.nout = 1;
  w.nin = 2;
  w.mask.n = 0;
  w.count[0] = into.rank > 0 ? into.stride[axis] : 0;
  w.count[1] = into.rank > 0 ? into.size[axis] : 1;
  if (b->g->at.rank < into.rank) into = layout_select(&into, axis, 0);
  else if (into.rank > 0) into = layout_narrow(&into, axis, 0, 1, 1);
  w.out[0] = view_with(dx, &into);
  w.in[0] = view_of(b->g);
  w.in[1] = view_of(positions);
  return op_run_for(b->cx, b->op, &w) ? dx : NULL;
}


/* Of an axis: the one that was found. Of all: every one that is the largest, in even shares. */
bool grad_max (backward *b) {
  if (b->args[1].kind != HEED_NONE) return give(b, 0, placed(b, output(b, 1)));
  return give(b, 0, shared(b, input(b, 0), output(b, 0), 1));
}


bool grad_min (backward *b) { return grad_max(b); }


/* g e^(x - y) */
bool grad_logsumexp (backward *b) {
  heed_tensor *off = op2(HEED_sub, input(b, 0), spread(b, output(b, 0), 1));
  return give(b, 0, op2(HEED_mul, spread(b, b->g, 1), op1(HEED_exp, off)));
}


/* t where the condition does not hold, else 0. */
static heed_tensor *unless (heed_tensor *condition, heed_tensor *t) {
  return t != NULL ? op3(HEED_where, condition, op_integer(t->cx, 0), t) : NULL;
}


/* g sign(x) (|x| / y)^(p - 1), and 0 where x or y is 0. */
static heed_tensor *power_gradient (backward *b, heed_tensor *x, heed_tensor *y, double p) {
  heed_tensor *zero = op_integer(b->cx, 0), *power = op_float(b->cx, p - 1);
  heed_tensor *g = unless(op2(HEED_eq, y, zero), op2(HEED_div, b->g, op2(HEED_pow, y, power)));
  heed_tensor *slope = op2(HEED_mul, op1(HEED_sign, x), op2(HEED_pow, op1(HEED_abs, x), power));
  return op2(HEED_mul, spread(b, g, 2), unless(op2(HEED_eq, x, zero), slope));
}


static heed_tensor *norm_gradient (backward *b, double p) {
  heed_tensor *x = input(b, 0), *y = output(b, 0), *g = b->g;
  if (p == 0) return op_zeros(b->cx, type_of(b, 0), shape_of(b, 0));
  if (p == 1) return op2(HEED_mul, op1(HEED_sign, x), spread(b, g, 2));
  if (isinf(p)) return op2(HEED_mul, op1(HEED_sign, x), shared(b, op1(HEED_abs, x), y, 2));
  if (p != 2) return power_gradient(b, x, y, p);
  heed_tensor *rate = unless(op2(HEED_eq, y, op_integer(b->cx, 0)), op2(HEED_div, g, y));
  return op2(HEED_mul, x, spread(b, rate, 2));
}


bool grad_norm (backward *b) {
  const heed_value *p = &b->args[1];
  return give(b, 0, norm_gradient(b, p->kind == HEED_FLOAT ? p->number : (double)p->integer));
}

/* }================================================================== */
