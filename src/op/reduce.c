/*
** reduce.c - reductions and running sums.
**
** Sums of whole numbers and bools are int64. Axes that are given as an empty list, or not at
** all, are all axes.
*/

#include <math.h>

#include "op/compose.h"


/*
** {==================================================================
** What they share
** ===================================================================
*/

/* Opens f over the axes in argument 'dim', for x, or for the first argument. */
static bool open_reduction (call *c, reduction *f, heed_tensor *x, int dim, int keepdim) {
  bool marks[HEED_RANK];
  int n;
  if (x == NULL) x = op_materialized(c->args[0].tensor);
  if (x == NULL || !check_axes(c, dim, x->at.rank, marks, &n)) return false;
  reduction_open(f, x, marks, arg_flag(c, keepdim));
  return true;
}


static bool give_reduction (call *c, const reduction *f, reduce_kind kind, heed_type type) {
  heed_tensor *y = op_new(c->cx, type, &f->shape);
  return reduction_run(f, c->op, kind, y, NULL) && give_out(c, y);
}


/* A number has the default type. */
static heed_type own_type (const call *c) { return op_promote(1, &c->args[0].tensor); }


static heed_type sum_type (heed_type type) { return scalar_is_float(type) ? type : HEED_INT64; }


/* The first argument, rounded to 'type' before the work where that is not the wider type. */
static heed_tensor *rounded_to (call *c, heed_type type) {
  heed_tensor *x = op_materialized(c->args[0].tensor);
  if (x == NULL || scalar_promote(x->type, type) == type) return x;
  return op_cast(x, type);
}


static bool check_some (call *c, const reduction *f) {
  char text[LAYOUT_TEXT];
  return f->count > 0 || check_refuse(c, 0, "an empty dimension has no such element; the shape is "
                                      "%s", layout_text(&f->x->at, text));
}


/* y = x / divisor, which may be one number. They may be the same tensor. */
static bool divide (call *c, heed_tensor *y, const heed_tensor *x, double divisor) {
  work w;
  if (y == NULL) return false;
  w.kind = WORK_MAP;
  w.op = HEED_div;
  w.nout = 1;
  w.nin = 2;
  w.mask.n = 0;
  w.count[0] = op_computing(y->type);
  w.count[1] = 0;
  w.out[0] = view_of(y);
  w.in[0] = view_of(x);
  w.in[1] = (view){.type = HEED_FLOAT64, .value = {.type = HEED_FLOAT64, .f = divisor}};
  return op_run(c, &w);
}

/* }================================================================== */


/*
** {==================================================================
** Sums and products
** ===================================================================
*/

bool do_sum (call *c) {
  heed_type type = arg_type(c, 3, sum_type(own_type(c)));
  reduction f;
  heed_tensor *x = rounded_to(c, type);
  return x != NULL && open_reduction(c, &f, x, 1, 2) && give_reduction(c, &f, REDUCE_SUM, type);
}


bool do_prod (call *c) {
  heed_type type = arg_type(c, 3, sum_type(own_type(c)));
  reduction f;
  heed_tensor *x = rounded_to(c, type);
  return x != NULL && open_reduction(c, &f, x, 1, 2) && give_reduction(c, &f, REDUCE_PROD, type);
}


/* Halves are added up in float32, where their sum has room. */
bool do_mean (call *c) {
  reduction f;
  heed_type type = arg_type(c, 3, own_type(c));
  if (!scalar_is_float(type))
    return check_refuse(c, 0, "a mean is of a float type, not %s; give dtype = \"float32\"",
                        scalar_names[type]);
  heed_tensor *x = rounded_to(c, type);
  if (x == NULL || !open_reduction(c, &f, x, 1, 2)) return false;
  heed_tensor *sum = op_new(c->cx, op_computing(type), &f.shape);
  heed_tensor *y = sum != NULL && sum->type == type ? sum : op_new(c->cx, type, &f.shape);
  return reduction_run(&f, c->op, REDUCE_SUM, sum, NULL) &&
         divide(c, y, sum, (double)f.count) && give_out(c, y);
}


/* Along the last axis, so the axis becomes the last one. */
bool do_cumsum (call *c) {
  heed_type type = arg_type(c, 2, sum_type(own_type(c)));
  heed_tensor *x = rounded_to(c, type);
  int axis;
  work w;
  if (x == NULL || !check_axis(c, 1, x->at.rank, &axis)) return false;
  heed_tensor *y = op_new(c->cx, type, &x->at);
  if (y == NULL) return false;
  layout in = layout_with_last(&x->at, axis), out = layout_with_last(&y->at, axis);
  w.kind = WORK_SCAN;
  w.op = c->op;
  w.nin = w.nout = 1;
  w.mask.n = 0;
  w.count[0] = 0;
  w.in[0] = view_with(x, &in);
  w.out[0] = view_with(y, &out);
  return op_run(c, &w) && give_out(c, y);
}

/* }================================================================== */


/*
** {==================================================================
** Variance
** ===================================================================
*/

/* What is taken from the number of elements: 'correction', or 1 for an unbiased estimate. */
static double correction_of (const call *c) {
  return arg_given(c, 4) ? arg_number(c, 4) : arg_flag(c, 2) ? 1 : 0;
}


/* The variance, and the mean for the gradient; both are worked out in float32 or float64. */
static bool variance (call *c, heed_tensor **y, heed_tensor **mean) {
  reduction f;
  if (!check_float(c, 0) || !open_reduction(c, &f, NULL, 1, 3)) return false;
  heed_type type = f.x->type;
  heed_tensor *squares = op_new(c->cx, op_computing(type), &f.shape);
  *mean = op_new(c->cx, op_computing(type), &f.shape);
  if (squares == NULL || !reduction_run(&f, c->op, REDUCE_MOMENTS, *mean, squares)) return false;
  *y = squares->type == type ? squares : op_new(c->cx, type, &f.shape);
  return divide(c, *y, squares, fmax((double)f.count - correction_of(c), 0));
}


bool do_var (call *c) {
  heed_tensor *ys[2];
  return variance(c, &ys[0], &ys[1]) && give_outs(c, 2, ys);
}


bool do_std (call *c) {
  heed_tensor *ys[2];
  if (!variance(c, &ys[0], &ys[1])) return false;
  ys[0] = op1(HEED_sqrt, ys[0]);
  return give_outs(c, 2, ys);
}

/* }================================================================== */


/*
** {==================================================================
** The largest and the smallest
** ===================================================================
*/

/* With an axis, their positions too. */
static bool extreme (call *c, reduce_kind kind) {
  reduction f;
  heed_tensor *ys[2] = {NULL, NULL};
  if (!open_reduction(c, &f, NULL, 1, 2) || !check_some(c, &f)) return false;
  ys[0] = op_new(c->cx, f.x->type, &f.shape);
  if (arg_given(c, 1) && (ys[1] = op_new(c->cx, HEED_INT64, &f.shape)) == NULL) return false;
  return reduction_run(&f, c->op, kind, ys[0], ys[1]) && give_outs(c, 2, ys);
}


bool do_max (call *c) { return extreme(c, REDUCE_MAX); }


bool do_min (call *c) { return extreme(c, REDUCE_MIN); }


static bool position (call *c, reduce_kind kind) {
  reduction f;
  return open_reduction(c, &f, NULL, 1, 2) && check_some(c, &f) && give_reduction(c, &f, kind, HEED_INT64);
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
  return open_reduction(c, &f, NULL, 1, 2) && give_reduction(c, &f, REDUCE_ANY, HEED_BOOL);
}


bool do_all (call *c) {
  reduction f;
  return open_reduction(c, &f, NULL, 1, 2) && give_reduction(c, &f, REDUCE_ALL, HEED_BOOL);
}


bool do_logsumexp (call *c) {
  reduction f;
  heed_tensor *x = rounded_to(c, op_float_of(own_type(c)));
  return x != NULL && open_reduction(c, &f, x, 1, 2) &&
         give_reduction(c, &f, REDUCE_LOGSUMEXP, op_float_of(x->type));
}


/* |x|^p, to be added up; for p = 0 it counts. */
static heed_tensor *powers (heed_tensor *x, double p) {
  if (x == NULL) return NULL;
  if (p == 0) return op_cast(op2(HEED_ne, x, op_integer(x->cx, 0)), x->type);
  if (p == 2) return op1(HEED_square, x);
  x = op1(HEED_abs, x);
  return x == NULL || p == 1 || isinf(p) ? x : op2(HEED_pow, x, op_float(x->cx, p));
}


static heed_tensor *root (heed_tensor *y, double p) {
  if (y == NULL || p == 0 || p == 1 || isinf(p)) return y;
  return p == 2 ? op1(HEED_sqrt, y) : op2(HEED_pow, y, op_float(y->cx, 1 / p));
}


/* In float32 or float64, whatever x is. */
static heed_tensor *norm (call *c, heed_tensor *x, const bool marks[HEED_RANK], double p) {
  reduction f;
  heed_type type = x->type;
  x = powers(op_cast(x, op_computing(type)), p);
  if (x == NULL) return NULL;
  reduction_open(&f, x, marks, arg_flag(c, 3));
  heed_tensor *y = op_new(c->cx, x->type, &f.shape);
  reduce_kind kind = !isinf(p) ? REDUCE_SUM : p > 0 ? REDUCE_MAX : REDUCE_MIN;
  return reduction_run(&f, c->op, kind, y, NULL) ? op_cast(root(y, p), type) : NULL;
}


/* (sum |x|^p)^(1/p); p = inf and -inf give the largest and smallest |x|. */
bool do_norm (call *c) {
  double p = arg_number(c, 1);
  heed_tensor *x = op_materialized(c->args[0].tensor);
  bool marks[HEED_RANK];
  int n;
  reduction f;
  if (x == NULL || !check_float(c, 0) || !check_axes(c, 2, x->at.rank, marks, &n)) return false;
  if (p != p) return check_refuse(c, 1, "a number expected, got NaN");
  reduction_open(&f, x, marks, false);
  if ((isinf(p) || p < 0) && !check_some(c, &f)) return false;
  bool recording = heed_set_recording(c->cx, false);
  heed_tensor *y = norm(c, x, marks, p);
  heed_set_recording(c->cx, recording);
  return give_out(c, y);
}

/* }================================================================== */
