/*
** grad.c - floor 5: backward functions of reductions, running sums and running products.
**
** Those of products, softmax, norms, losses and attention stand beside their forward work.
*/

#include <math.h>

#include "op/compose.h"


/* Rows whose derivatives are worked out here, but norm, have 'dim' where sum has it. */
SAME_ARG(sum, mean, dim);
SAME_ARG(sum, var, dim);
SAME_ARG(sum, std, dim);
SAME_ARG(sum, max, dim);
SAME_ARG(sum, min, dim);
SAME_ARG(sum, amax, dim);
SAME_ARG(sum, amin, dim);
SAME_ARG(sum, logsumexp, dim);
SAME_ARG(sum, prod, dim);

/* … and one input. */
enum { INPUT = IN(sum, input) };
SAME_IN(sum, mean, input);
SAME_IN(sum, var, input);
SAME_IN(sum, std, input);
SAME_IN(sum, max, input);
SAME_IN(sum, min, input);
SAME_IN(sum, amax, input);
SAME_IN(sum, amin, input);
SAME_IN(sum, logsumexp, input);
SAME_IN(sum, norm, input);
SAME_IN(sum, prod, input);
SAME_IN(sum, cumsum, input);
SAME_IN(sum, cumprod, input);


/* Marks what was reduced. */
static void mark_reduced (const backward *b, bool marks[HEED_RANK]) {
  int dim = b->op == HEED_norm ? ARG(norm, dim) : ARG(sum, dim);
  op_mark_axes(&b->args[dim], rank_of(b, INPUT), marks);
}


/* A reduction's result, or its gradient, viewed with the input's shape. */
static heed_tensor *spread (backward *b, heed_tensor *t) {
  bool marks[HEED_RANK];
  if (t == NULL) return NULL;
  layout at = shape_of(b, INPUT);
  bool kept = t->at.rank == at.rank;
  mark_reduced(b, marks);
  at.offset = t->at.offset;
  for (int i = 0, k = 0; i < at.rank; i++) {
    at.stride[i] = marks[i] ? 0 : t->at.stride[k];
    k += kept || !marks[i];
  }
  return op_view(t, &at);
}


/* How many elements make one result. */
static double count_of (backward *b) {
  const edge *e = &b->n->edges[INPUT];
  bool marks[HEED_RANK];
  double n = 1;
  mark_reduced(b, marks);
  for (int i = 0; i < e->rank; i++)
    if (marks[i]) n *= (double)e->size[i];
  return n;
}


/* Reduces t, of the input's shape, over what was reduced; the axes stay. */
static heed_tensor *again (backward *b, heed_op op, heed_tensor *t) {
  int64_t axes[HEED_RANK];
  bool marks[HEED_RANK];
  int n = 0;
  mark_reduced(b, marks);
  for (int i = 0; i < rank_of(b, INPUT); i++)
    if (marks[i]) axes[n++] = i;
  return op_reduce(op, t, n, axes, true);
}


static bool give_input (backward *b, heed_tensor *g) { return give(b, INPUT, g); }


/*
** {==================================================================
** Sums and products
** ===================================================================
*/

bool grad_sum (backward *b) { return give_input(b, spread(b, b->g)); }


bool grad_mean (backward *b) {
  return give_input(b, spread(b, op2(HEED_div, b->g, op_float(b->cx, count_of(b)))));
}


/*
** The derivative is the product of the others. With zeros set to 1, that is the whole product by
** the element; where there is another zero, it is 0.
*/
bool grad_prod (backward *b) {
  heed_tensor *x = input(b, INPUT), *one = op_float(b->cx, 1), *none = op_integer(b->cx, 0);
  heed_tensor *zero = op2(HEED_eq, x, none);
  heed_tensor *filled = op3(HEED_where, zero, one, x);
  heed_tensor *others = op2(HEED_sub, again(b, HEED_sum, zero), zero);
  heed_tensor *d = op2(HEED_div, again(b, HEED_prod, filled), filled);
  d = op3(HEED_where, op2(HEED_gt, others, none), none, d);
  return give_input(b, op2(HEED_mul, spread(b, b->g), d));
}

/* }================================================================== */


/*
** {==================================================================
** Running sums and products
** ===================================================================
*/

SAME_ARG(cumsum, cumprod, dim);

/* The sum of each element of t and of all behind it. */
static heed_tensor *sum_from_end (backward *b, heed_tensor *t) {
  int axis;
  if (t == NULL || !layout_axis(t->at.rank, b->args[ARG(cumsum, dim)].integer, &axis)) return NULL;
  heed_tensor *y = op_new(b->cx, t->type, &t->at);
  return op_run_scan(b->op, SCAN_SUM, axis, true, y, t) ? y : NULL;
}


/* Each element is in all sums from its own on. */
bool grad_cumsum (backward *b) { return give_input(b, sum_from_end(b, b->g)); }


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
** zero: there y is taken with zeros set to 1. All others are factors of zeros: 0.
*/
bool grad_cumprod (backward *b) {
  heed_tensor *g = op_cast(b->g, op_computing(b->g->type)), *none = op_integer(b->cx, 0);
  heed_tensor *x = op_cast(input(b, INPUT), b->g->type);
  if (g == NULL || x == NULL) return false;
  x = op_cast(x, g->type);
  heed_tensor *is_zero = op2(HEED_eq, x, none), *zeros = along(b, HEED_cumsum, is_zero);
  heed_tensor *y = along(b, HEED_cumprod, op3(HEED_where, is_zero, op_float(b->cx, 1), x));
  heed_tensor *gy = op2(HEED_mul, g, y);
  heed_tensor *first = op2(HEED_eq, op2(HEED_mul, zeros, is_zero), op_integer(b->cx, 1));
  heed_tensor *rest = op3(HEED_where, first, sum_where(b, zeros, 1, gy), none);
  heed_tensor *before = op2(HEED_div, sum_where(b, zeros, 0, gy), x);
  return give_input(b, op3(HEED_where, op2(HEED_eq, zeros, none), before, rest));
}

/* }================================================================== */


/*
** {==================================================================
** Variance
** ===================================================================
*/

SAME_ARG(var, std, unbiased);
SAME_ARG(var, std, correction);
SAME_OUT(var, std, mean);

/* 2 (x - mean) / (n - correction) */
static heed_tensor *variance_gradient (backward *b) {
  double unbiased = b->args[ARG(var, unbiased)].integer != 0;
  double correction = op_number_in(&b->args[ARG(var, correction)], unbiased);
  heed_tensor *off = op2(HEED_sub, input(b, INPUT), spread(b, output(b, OUT(var, mean))));
  return op_scale(off, 2 / fmax(count_of(b) - correction, 0));
}


bool grad_var (backward *b) {
  return give_input(b, op2(HEED_mul, spread(b, b->g), variance_gradient(b)));
}


/* By the root of the variance; 0 where that is 0, as PyTorch has it. */
bool grad_std (backward *b) {
  heed_tensor *y = output(b, OUT(std, output)), *zero = op_integer(b->cx, 0);
  heed_tensor *g = op2(HEED_div, b->g, op_scale(y, 2));
  g = op3(HEED_where, op2(HEED_eq, y, zero), zero, g);
  return give_input(b, op2(HEED_mul, spread(b, g), variance_gradient(b)));
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
static heed_tensor *shared (backward *b, heed_tensor *x, heed_tensor *y) {
  heed_tensor *ties = same(x, spread(b, y));
  heed_tensor *share = op2(HEED_div, spread(b, b->g), again(b, HEED_sum, ties));
  return op3(HEED_where, ties, share, op_integer(b->cx, 0));
}


SAME_OUT(max, min, values);
SAME_OUT(max, min, indices);

/* g at the positions, in zeros of the input's shape. */
static heed_tensor *scattered (backward *b, heed_tensor *positions) {
  const layout shape = shape_of(b, INPUT);
  heed_tensor *dx = op_zeros(b->cx, b->g->type, &shape);
  int axis;
  work w;
  if (dx == NULL || positions == NULL) return NULL;
  if (!layout_axis(dx->at.rank, b->args[ARG(max, dim)].integer, &axis)) return NULL;
  layout into = dx->at;
  int64_t stride = into.rank > 0 ? into.stride[axis] : 0;
  int64_t size = into.rank > 0 ? into.size[axis] : 1;
  if (b->g->at.rank < into.rank) into = layout_select(&into, axis, 0);
  else if (into.rank > 0) into = layout_narrow(&into, axis, 0, 1, 1);
  work_scatter(&w, SCATTER_SET, 1, view_with(dx, &into), view_of(b->g));
  w.in[INDEX_POSITIONS] = view_of(positions);
  w.index.stride[0] = stride;
  w.index.size[0] = size;
  return op_run_for(b->cx, b->op, &w) ? dx : NULL;
}


/* Of an axis: the one that was found. Of all: every one that is the largest, in even shares. */
bool grad_max (backward *b) {
  if (b->args[ARG(max, dim)].kind != HEED_NONE)
    return give_input(b, scattered(b, output(b, OUT(max, indices))));
  return give_input(b, shared(b, input(b, INPUT), output(b, OUT(max, values))));
}


bool grad_min (backward *b) { return grad_max(b); }


SAME_OUT(amax, amin, output);

bool grad_amax (backward *b) {
  return give_input(b, shared(b, input(b, INPUT), output(b, OUT(amax, output))));
}


bool grad_amin (backward *b) { return grad_amax(b); }


/* g e^(x - y) */
bool grad_logsumexp (backward *b) {
  heed_tensor *y = spread(b, output(b, OUT(logsumexp, output)));
  heed_tensor *e = op1(HEED_exp, op2(HEED_sub, input(b, INPUT), y));
  return give_input(b, op2(HEED_mul, spread(b, b->g), e));
}


/* t where the condition does not hold, else 0. */
static heed_tensor *unless (heed_tensor *condition, heed_tensor *t) {
  return t != NULL ? op3(HEED_where, condition, op_integer(t->cx, 0), t) : NULL;
}


/* g sign(x) (|x| / y)^(p - 1), and 0 where x or y is 0. */
static heed_tensor *power_gradient (backward *b, heed_tensor *x, heed_tensor *y, double p) {
  heed_tensor *zero = op_integer(b->cx, 0), *power = op_float(b->cx, p - 1);
  heed_tensor *g = unless(op2(HEED_eq, y, zero), b->g);
  heed_tensor *share = op2(HEED_pow, op2(HEED_div, op1(HEED_abs, x), spread(b, y)), power);
  heed_tensor *d = op2(HEED_mul, op1(HEED_sign, x), share);
  return op2(HEED_mul, spread(b, g), unless(op2(HEED_eq, x, zero), d));
}


static heed_tensor *norm_gradient (backward *b, double p) {
  heed_tensor *x = input(b, INPUT), *y = output(b, OUT(norm, output)), *g = b->g;
  const layout shape = shape_of(b, INPUT);
  if (p == 0) return op_zeros(b->cx, type_of(b, INPUT), &shape);
  if (p == 1) return op2(HEED_mul, op1(HEED_sign, x), spread(b, g));
  if (isinf(p)) return op2(HEED_mul, op1(HEED_sign, x), shared(b, op1(HEED_abs, x), y));
  if (p != 2) return power_gradient(b, x, y, p);
  heed_tensor *rate = unless(op2(HEED_eq, y, op_integer(b->cx, 0)), op2(HEED_div, g, y));
  return op2(HEED_mul, x, spread(b, rate));
}


bool grad_norm (backward *b) {
  return give_input(b, norm_gradient(b, op_number_in(&b->args[ARG(norm, p)], 2)));
}

/* }================================================================== */
