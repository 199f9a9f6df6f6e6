/*
** variance.c - variance and standard deviation, with their gradients.
*/

#include <math.h>

#include "op/reduce.h"


SAME_ARG(var, std, input);
SAME_ARG(var, std, dim);
SAME_ARG(var, std, unbiased);
SAME_ARG(var, std, keepdim);
SAME_ARG(var, std, correction);
SAME_OUT(var, std, output);
SAME_OUT(var, std, mean);

/* The divisor is the number of elements less this: 'correction', or 1 for an unbiased estimate. */
static double correction_of (const call *c) {
  if (arg_given(c, ARG(var, correction))) return arg_number(c, ARG(var, correction));
  return arg_flag(c, ARG(var, unbiased)) ? 1 : 0;
}


/* The mean, for the gradient, and the variance, or its root: squares are not of x's range. */
static bool variance (call *c, bool root) {
  reduction f;
  if (!check_float(c, ARG(var, input))) return false;
  if (!reduce_open_axes(c, &f, reduce_input(c), arg_flag(c, ARG(var, keepdim)))) return false;
  heed_tensor *squares = op_new(c->cx, HEED_FLOAT64, &f.shape);
  heed_tensor *mean = op_new(c->cx, scalar_computing(f.x->type), &f.shape);
  heed_tensor *y = op_new(c->cx, f.x->type, &f.shape);
  double count = fmax((double)f.count - correction_of(c), 0);
  return squares != NULL && reduction_run(&f, c->op, REDUCE_MOMENTS, mean, squares) &&
         reduce_divide(c, root ? squares : y, squares, count) &&
         (!root || reduce_map(c, HEED_sqrt, y, squares, NULL)) &&
         give_outs(c, 2, (heed_tensor *[]){[OUT(var, output)] = y, [OUT(var, mean)] = mean});
}


bool do_var (call *c) { return variance(c, false); }


bool do_std (call *c) { return variance(c, true); }


/* 2 (x - mean) / (n - correction) */
static heed_tensor *variance_gradient (backward *b) {
  double unbiased = b->args[ARG(var, unbiased)].integer != 0;
  double correction = op_number_in(&b->args[ARG(var, correction)], unbiased);
  heed_tensor *x = input(b, REDUCE_INPUT);
  heed_tensor *mean = composes(b) ? reduce_repeated(b, HEED_mean, x)
                                  : reduce_spread(b, output(b, OUT(var, mean)));
  heed_tensor *off = op2(HEED_sub, x, mean);
  return op_scale(off, 2 / fmax(reduce_count(b) - correction, 0));
}


bool grad_var (backward *b) {
  return reduce_give_input(b, op2(HEED_mul, reduce_spread(b, b->g), variance_gradient(b)));
}


/* By the root of the variance; 0 where that is 0, as PyTorch has it. */
bool grad_std (backward *b) {
  heed_tensor *y = output(b, OUT(std, output)), *zero = op_integer(b->cx, 0);
  heed_tensor *g = op2(HEED_div, b->g, op_scale(y, 2));
  g = op3(HEED_where, op2(HEED_eq, y, zero), zero, g);
  return reduce_give_input(b, op2(HEED_mul, reduce_spread(b, g), variance_gradient(b)));
}
