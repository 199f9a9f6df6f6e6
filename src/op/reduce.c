/*
** reduce.c - reductions, and running sums and products.
**
** Sums and products of integers and bools are int64. Axes that are given as an empty list, or not
** at all, are all axes.
*/

#include <math.h>

#include "op/compose.h"


/*
** {==================================================================
** What they share
** ===================================================================
*/

/* These rows have the arguments of sum, but not all of them its 'dtype'. */
#define LIKE_SUM(op) \
  SAME_ARG(sum, op, input); SAME_ARG(sum, op, dim); SAME_ARG(sum, op, keepdim)

LIKE_SUM(mean);
LIKE_SUM(max);
LIKE_SUM(min);
LIKE_SUM(amax);
LIKE_SUM(amin);
LIKE_SUM(argmax);
LIKE_SUM(argmin);
LIKE_SUM(logsumexp);
LIKE_SUM(prod);
LIKE_SUM(any);
LIKE_SUM(all);
SAME_ARG(sum, mean, dtype);
SAME_ARG(sum, prod, dtype);
SAME_ARG(sum, var, input);
SAME_ARG(sum, var, dim);
SAME_ARG(sum, norm, input);
SAME_ARG(sum, cumsum, input);
SAME_ARG(sum, cumprod, input);


/* The tensor that is reduced. */
static heed_tensor *input_of (const call *c) {
  return op_materialized(arg_tensor(c, ARG(sum, input)));
}


static bool open_axes (call *c, reduction *f, heed_tensor *x, bool keepdim) {
  bool marks[HEED_RANK];
  int n;
  if (x == NULL || !check_axes(c, ARG(sum, dim), x->at.rank, marks, &n)) return false;
  reduction_open(f, x, marks, keepdim);
  return true;
}


/* Opens f over the axes in argument 'dim'. */
static bool open_reduction (call *c, reduction *f, heed_tensor *x) {
  return open_axes(c, f, x, arg_flag(c, ARG(sum, keepdim)));
}


static bool give_reduction (call *c, const reduction *f, reduce_op kind, heed_type type) {
  heed_tensor *y = op_new(c->cx, type, &f->shape);
  return reduction_run(f, c->op, kind, y, NULL) && give_out(c, y);
}


/* A number has the default type. */
static heed_type own_type (const call *c) {
  return op_promote(1, &c->args[ARG(sum, input)].tensor);
}


static heed_type sum_type (heed_type type) { return scalar_is_float(type) ? type : HEED_INT64; }


/* The input, rounded to 'type' before the work where that is not the wider type. */
static heed_tensor *rounded_to (call *c, heed_type type) {
  heed_tensor *x = input_of(c);
  if (x == NULL || scalar_promote(x->type, type) == type) return x;
  return op_cast(x, type);
}


static bool check_some (call *c, const reduction *f) {
  char text[LAYOUT_TEXT];
  return f->count > 0 ||
         check_refuse(c, ARG(sum, input), "an empty dimension has no such element; the shape is "
                      "%s", layout_text(&f->x->at, text));
}


/* y = op(x, other) in the wider type of x and y; 'other' may be left out. */
static bool map_into (call *c, heed_op op, heed_tensor *y, const heed_tensor *x,
                      const view *other) {
  work w;
  if (y == NULL || x == NULL) return false;
  work_map(&w, op, op_computing(scalar_promote(x->type, y->type)), other != NULL ? 2 : 1);
  *w.out = view_of(y);
  w.in[IN(div, input)] = view_of(x);
  if (other != NULL) w.in[IN(div, other)] = *other;
  return op_run(c, &w);
}


/* y = x / divisor. They may be the same tensor. */
static bool divide (call *c, heed_tensor *y, const heed_tensor *x, double divisor) {
  view number = view_number((scalar){.type = HEED_FLOAT64, .f = divisor});
  return map_into(c, HEED_div, y, x, &number);
}

/* }================================================================== */


/*
** {==================================================================
** Sums and products
** ===================================================================
*/

bool do_sum (call *c) {
  heed_type type = arg_type(c, ARG(sum, dtype), sum_type(own_type(c)));
  reduction f;
  heed_tensor *x = rounded_to(c, type);
  return open_reduction(c, &f, x) && give_reduction(c, &f, REDUCE_SUM, type);
}


bool do_prod (call *c) {
  heed_type type = arg_type(c, ARG(sum, dtype), sum_type(own_type(c)));
  reduction f;
  heed_tensor *x = rounded_to(c, type);
  return open_reduction(c, &f, x) && give_reduction(c, &f, REDUCE_PROD, type);
}


/* Halves are added up in float32, whose range holds their sum. */
bool do_mean (call *c) {
  reduction f;
  heed_type type = arg_type(c, ARG(sum, dtype), own_type(c));
  if (!scalar_is_float(type))
    return check_refuse(c, ARG(mean, input), "a mean is of a float type, not %s; give dtype = "
                        "\"float32\"", scalar_names[type]);
  heed_tensor *x = rounded_to(c, type);
  if (!open_reduction(c, &f, x)) return false;
  heed_tensor *sum = op_new(c->cx, op_computing(type), &f.shape);
  heed_tensor *y = sum != NULL && sum->type == type ? sum : op_new(c->cx, type, &f.shape);
  return reduction_run(&f, c->op, REDUCE_SUM, sum, NULL) &&
         divide(c, y, sum, (double)f.count) && give_out(c, y);
}


SAME_ARG(cumsum, cumprod, dim);
SAME_ARG(cumsum, cumprod, dtype);

static bool scan (call *c, scan_op kind) {
  heed_type type = arg_type(c, ARG(cumsum, dtype), sum_type(own_type(c)));
  heed_tensor *x = rounded_to(c, type);
  int axis;
  if (x == NULL || !check_axis(c, ARG(cumsum, dim), x->at.rank, &axis)) return false;
  heed_tensor *y = op_new(c->cx, type, &x->at);
  return op_run_scan(c->op, kind, axis, false, y, x) && give_out(c, y);
}


bool do_cumsum (call *c) { return scan(c, SCAN_SUM); }


bool do_cumprod (call *c) { return scan(c, SCAN_PROD); }

/* }================================================================== */


/*
** {==================================================================
** Variance
** ===================================================================
*/

SAME_ARG(var, std, input);
SAME_ARG(var, std, dim);
SAME_ARG(var, std, unbiased);
SAME_ARG(var, std, keepdim);
SAME_ARG(var, std, correction);
SAME_OUT(var, std, output);
SAME_OUT(var, std, mean);

/* What is taken from the number of elements: 'correction', or 1 for an unbiased estimate. */
static double correction_of (const call *c) {
  if (arg_given(c, ARG(var, correction))) return arg_number(c, ARG(var, correction));
  return arg_flag(c, ARG(var, unbiased)) ? 1 : 0;
}


/* The mean, for the gradient, and the variance, or its root: squares are not of x's range. */
static bool variance (call *c, bool root) {
  reduction f;
  if (!check_float(c, ARG(var, input))) return false;
  if (!open_axes(c, &f, input_of(c), arg_flag(c, ARG(var, keepdim)))) return false;
  heed_tensor *squares = op_new(c->cx, HEED_FLOAT64, &f.shape);
  heed_tensor *mean = op_new(c->cx, op_computing(f.x->type), &f.shape);
  heed_tensor *y = op_new(c->cx, f.x->type, &f.shape);
  double count = fmax((double)f.count - correction_of(c), 0);
  return squares != NULL && reduction_run(&f, c->op, REDUCE_MOMENTS, mean, squares) &&
         divide(c, root ? squares : y, squares, count) &&
         (!root || map_into(c, HEED_sqrt, y, squares, NULL)) &&
         give_outs(c, 2, (heed_tensor *[]){[OUT(var, output)] = y, [OUT(var, mean)] = mean});
}


bool do_var (call *c) { return variance(c, false); }


bool do_std (call *c) { return variance(c, true); }

/* }================================================================== */


/*
** {==================================================================
** The largest and the smallest
** ===================================================================
*/

SAME_OUT(max, min, values);
SAME_OUT(max, min, indices);

/* With an axis, their positions too. */
static bool extreme (call *c, reduce_op kind) {
  reduction f;
  heed_tensor *y, *positions = NULL;
  if (!open_reduction(c, &f, input_of(c)) || !check_some(c, &f)) return false;
  y = op_new(c->cx, f.x->type, &f.shape);
  if (arg_given(c, ARG(max, dim))) {
    positions = op_new(c->cx, HEED_INT64, &f.shape);
    if (positions == NULL) return false;
  }
  return reduction_run(&f, c->op, kind, y, positions) &&
         give_outs(c, 2, (heed_tensor *[]){[OUT(max, values)] = y,
                                           [OUT(max, indices)] = positions});
}


bool do_max (call *c) { return extreme(c, REDUCE_MAX); }


bool do_min (call *c) { return extreme(c, REDUCE_MIN); }


/* Over any axes, without positions. */
static bool extreme_value (call *c, reduce_op kind) {
  reduction f;
  return open_reduction(c, &f, input_of(c)) && check_some(c, &f) &&
         give_reduction(c, &f, kind, f.x->type);
}


bool do_amax (call *c) { return extreme_value(c, REDUCE_MAX); }


bool do_amin (call *c) { return extreme_value(c, REDUCE_MIN); }


static bool position (call *c, reduce_op kind) {
  reduction f;
  return open_reduction(c, &f, input_of(c)) && check_some(c, &f) &&
         give_reduction(c, &f, kind, HEED_INT64);
}


bool do_argmax (call *c) { return position(c, REDUCE_ARGMAX); }


bool do_argmin (call *c) { return position(c, REDUCE_ARGMIN); }

/* }================================================================== */


/*
** {==================================================================
** The rest
** ===================================================================
*/

bool do_any (call *c) {
  reduction f;
  return open_reduction(c, &f, input_of(c)) && give_reduction(c, &f, REDUCE_ANY, HEED_BOOL);
}


bool do_all (call *c) {
  reduction f;
  return open_reduction(c, &f, input_of(c)) && give_reduction(c, &f, REDUCE_ALL, HEED_BOOL);
}


bool do_logsumexp (call *c) {
  reduction f;
  heed_tensor *x = rounded_to(c, op_float_of(own_type(c)));
  return open_reduction(c, &f, x) &&
         give_reduction(c, &f, REDUCE_LOGSUMEXP, op_float_of(x->type));
}


/*
** |x|^p, to be added up; for p = 0 it counts, and squares are the reduction's. Other powers may
** be out of x's range: they are float64.
*/
static heed_tensor *powers (heed_tensor *x, double p) {
  if (x == NULL || p == 2) return x;
  if (p == 0) return op_cast(op2(HEED_ne, x, op_integer(x->cx, 0)), op_computing(x->type));
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
  heed_tensor *y = op_new(c->cx, p == 2 ? HEED_FLOAT64 : op_computing(x->type), &f.shape);
  reduce_op kind = p == 2 ? REDUCE_SQUARES : !isinf(p) ? REDUCE_SUM
                   : p > 0 ? REDUCE_MAX : REDUCE_MIN;
  return reduction_run(&f, c->op, kind, y, NULL) ? op_cast(root(y, p), type) : NULL;
}


/* (sum |x|^p)^(1/p); p = inf and -inf give the largest and smallest |x|. */
bool do_norm (call *c) {
  double p = arg_number(c, ARG(norm, p));
  heed_tensor *x = input_of(c);
  bool marks[HEED_RANK];
  int n;
  reduction f;
  if (x == NULL || !check_float(c, ARG(norm, input))) return false;
  if (!check_axes(c, ARG(norm, dim), x->at.rank, marks, &n)) return false;
  if (p != p) return check_refuse(c, ARG(norm, p), "a number expected, got NaN");
  reduction_open(&f, x, marks, false);
  if ((isinf(p) || p < 0) && !check_some(c, &f)) return false;
  bool recording = heed_set_recording(c->cx, false);
  heed_tensor *y = norm(c, x, marks, p);
  heed_set_recording(c->cx, recording);
  return give_out(c, y);
}

/* }================================================================== */
