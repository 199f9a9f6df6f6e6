/*
** random.c - tensors of random numbers, drawn as PyTorch draws them.
*/

#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "op/move.h"


static bool run_if_any (call *c, const work *w, const heed_tensor *y) {
  return layout_numel(&y->at) == 0 || op_run(c, w);
}


/* Fills y by 'kind'; a and b are its numbers. */
static bool draw (call *c, random_op kind, heed_tensor *y, double a, double b) {
  work w;
  if (y == NULL) return false;
  work_random(&w, kind, a, b, 0, 0, view_of(y));
  return run_if_any(c, &w, y) && give_out(c, y);
}


/*
** {==================================================================
** New tensors
** ===================================================================
*/

SAME_ARG(rand, randn, size);
SAME_ARG(rand, randn, dtype);

/* A new tensor of a float type. */
static heed_tensor *new_float (call *c) {
  layout shape;
  heed_type type = arg_type(c, ARG(rand, dtype), HEED_FLOAT32);
  if (!check_shape(c, ARG(rand, size), -1, &shape)) return NULL;
  if (scalar_is_float(type)) return op_new(c->cx, type, &shape);
  check_refuse(c, ARG(rand, dtype), "a float type expected, got %s", scalar_names[type]);
  return NULL;
}


bool do_rand (call *c) { return draw(c, RANDOM_UNIFORM, new_float(c), 0, 1); }

bool do_randn (call *c) { return draw(c, RANDOM_NORMAL, new_float(c), 0, 1); }


/* Integers are drawn as int64, whatever they become. */
static bool draw_integer (call *c, random_op kind, heed_tensor *y, int64_t low, int64_t high) {
  work w;
  if (y == NULL) return false;
  work_random(&w, kind, 0, 0, low, high, view_of(y));
  return run_if_any(c, &w, y);
}


/* Does the type hold the number? float16 rounds what is nearer to 65504 than to 65536. */
static bool fits (int64_t n, heed_type type) {
  if (type == HEED_BOOL) return n == 0 || n == 1;
  if (type == HEED_UINT8) return n >= 0 && n <= 255;
  return type != HEED_FLOAT16 || (n > -65520 && n < 65520);
}


static bool check_fits (call *c, int i, heed_type type) {
  int64_t n = arg_count(c, i);
  return fits(n, type) ||
         check_refuse(c, i, "%" PRId64 " is no number of type %s", n, scalar_names[type]);
}


bool do_randint (call *c) {
  const int from = ARG(randint, low), to = ARG(randint, high);
  int64_t low = arg_count(c, from), high = arg_count(c, to);
  heed_type type = arg_type(c, ARG(randint, dtype), HEED_INT64);
  layout shape;
  if (high < low)
    return check_refuse(c, to, "nothing lies between %" PRId64 " and %" PRId64, low, high);
  if (!check_fits(c, from, type) || !check_fits(c, to, type)) return false;
  if (!check_shape(c, ARG(randint, size), -1, &shape)) return false;
  heed_tensor *y = op_new(c->cx, HEED_INT64, &shape);
  return draw_integer(c, RANDOM_INTEGER, y, low, high) && give_out(c, op_cast(y, type));
}


bool do_randperm (call *c) {
  int64_t n = arg_count(c, ARG(randperm, n));
  heed_type type = arg_type(c, ARG(randperm, dtype), HEED_INT64);
  layout row;
  if (n < 0 || !layout_dense(&row, 1, &n))
    return check_refuse(c, ARG(randperm, n), "a number of elements expected, got %" PRId64, n);
  if (!check_fits(c, ARG(randperm, n), type)) return false;
  heed_tensor *y = op_new(c->cx, HEED_INT64, &row);
  return draw_integer(c, RANDOM_PERMUTATION, y, 1, n) && give_out(c, op_cast(y, type));
}

/* }================================================================== */


/*
** {==================================================================
** Like a tensor, or into it
** ===================================================================
*/

static double largest (heed_type type) {
  return type == HEED_FLOAT64 ? DBL_MAX : type == HEED_FLOAT16 ? 65504 : FLT_MAX;
}


bool do_uniform (call *c) {
  heed_tensor *t = arg_tensor(c, ARG(uniform, input));
  double from = arg_number(c, ARG(uniform, from)), to = arg_number(c, ARG(uniform, to));
  if (!check_float(c, ARG(uniform, input))) return false;
  double most = largest(t->type);
  if (!(from <= to && from >= -most && to - from <= most && to <= most))
    return check_refuse(c, ARG(uniform, to), "nothing lies between %g and %g", from, to);
  return draw(c, RANDOM_UNIFORM, move_target(c, t), from, to);
}


bool do_normal (call *c) {
  heed_tensor *t = arg_tensor(c, ARG(normal, input));
  double mean = arg_number(c, ARG(normal, mean)), deviation = arg_number(c, ARG(normal, std));
  if (!check_float(c, ARG(normal, input))) return false;
  if (!(deviation >= 0))
    return check_refuse(c, ARG(normal, std), "a deviation of 0 or more expected, got %g",
                        deviation);
  return draw(c, RANDOM_NORMAL, move_target(c, t), mean, deviation);
}


/* Does 'test' hold for all elements? A NaN passes none. */
static bool all_pass (heed_tensor *t, heed_op test, double bound, bool *pass) {
  int64_t all = 0;
  heed_tensor *y = op1(HEED_all, op2(test, t, op_float(t->cx, bound)));
  if (y == NULL || !heed_read(y, HEED_INT64, &all)) return false;
  *pass = all != 0;
  return true;
}


/* Other devices' are not read back for it. */
static bool check_probabilities (call *c, heed_tensor *t) {
  bool low, high;
  if (!check_float(c, ARG(bernoulli, input))) return false;
  if (!core_reaches(c->cx, c->cx->scope.device)) return true;
  if (!all_pass(t, HEED_ge, 0, &low) || !all_pass(t, HEED_le, 1, &high)) return false;
  return (low && high) ||
         check_refuse(c, ARG(bernoulli, input), "probabilities from 0 to 1 expected");
}


/* Without p, a tensor holds the probabilities itself; in place p is then one half (PyTorch). */
bool do_bernoulli (call *c) {
  heed_tensor *t = arg_tensor(c, ARG(bernoulli, input)), *p = t;
  bool given = arg_given(c, ARG(bernoulli, p));
  if (given && !check_probability(c, ARG(bernoulli, p))) return false;
  if (given) p = op_float(c->cx, arg_number(c, ARG(bernoulli, p)));
  else if (c->into != NULL) p = op_float(c->cx, 0.5);
  else if (!check_probabilities(c, t)) return false;
  heed_tensor *y = move_target(c, t);
  work w;
  view probability;
  if (p == NULL || y == NULL || !move_view(p, &y->at, &probability)) return false;
  work_bernoulli(&w, view_of(y), probability);
  return run_if_any(c, &w, y) && give_out(c, y);
}

/* }================================================================== */


/*
** {==================================================================
** By weight: rows of weights (R, C) give positions (R, n)
** ===================================================================
*/

/* Step i of a loop: is it to stop? */
static bool stops (const call *c, int64_t i) {
  return (i & 0xffff) == 0xffff && core_poll(c->cx, op_name(c->op));
}


/* Do the weights' running sums stay within float32? */
static bool sums_narrow (const call *c, const double *weight, int64_t n, bool *narrow) {
  float sum = 0;
  for (int64_t j = 0; j < n; j++) {
    if (stops(c, j)) return false;
    sum = (float)(sum + weight[j]);
  }
  *narrow = isfinite(sum);
  return true;
}


/*
** A row's running shares of its sum; rounded to float32 where the weights are no doubles and their
** sum does not overflow.
*/
static bool add_shares (const call *c, double *share, int64_t n, bool wide) {
  double sum = 0;
  bool narrow = true;
  if (!wide && !sums_narrow(c, share, n, &narrow)) return false;
  wide = wide || !narrow;
  for (int64_t j = 0; j < n; j++) {
    if (stops(c, j)) return false;
    share[j] = sum = wide ? sum + share[j] : (double)(float)(sum + share[j]);
  }
  for (int64_t j = 0; j < n; j++) {
    if (stops(c, j)) return false;
    share[j] = wide ? share[j] / sum : (double)(float)(share[j] / sum);
  }
  return true;
}


/* The first position whose share reaches the draw and is not nothing. */
static int64_t find_share (const double *share, int64_t n, double drawn) {
  int64_t left = 0, right = n - 1;               /* whose share is 1 */
  while (left < right) {
    int64_t middle = left + (right - left) / 2;
    if (share[middle] < drawn || share[middle] == 0) left = middle + 1;
    else right = middle;
  }
  return left;
}


/* Each draw from all: PyTorch's loop over running shares (MultinomialKernel.cpp). */
static bool draw_again (call *c, double *share, int64_t rows, int64_t columns, int64_t n,
                        bool wide, int64_t *y) {
  for (int64_t row = 0; row < rows; row++, share += columns) {
    if (!add_shares(c, share, columns, wide)) return false;
    for (int64_t k = 0; k < n; k++) {
      if (stops(c, k)) return false;
      *y++ = 1 + find_share(share, columns, generator_uniform_double(&c->cx->random));
    }
  }
  return true;
}


/* A drawn 0 counts as this: all other numbers that are drawn are 2^-53 or more. */
#define LEAST_DRAWN 0x1p-54

/* Would the weight overflow, or lose digits, when it is divided by what is drawn, 37 at most? */
static bool is_extreme (double weight) {
  return weight > 0 && (weight < 0x1p-1000 || weight > 0x1p960);
}


/*
** Without replacement: the n largest of w / e, e drawn from the exponential distribution.
** (P. Efraimidis, P. Spirakis, "Weighted random sampling with a reservoir", 2006.) Logarithms have
** the same order; they are for quotients that a double does not hold.
*/
static heed_tensor *draw_once (call *c, heed_tensor *weight, int64_t n, bool extreme) {
  heed_tensor *ys[HEED_RESULTS];
  heed_value like[] = {heed_l(weight->at.rank, weight->at.size), heed_i(HEED_FLOAT64)};
  heed_tensor *e = op_call(c->cx, HEED_rand, 2, like);
  e = op1(HEED_neg, op1(HEED_log1p, op1(HEED_neg, e)));
  e = op2(HEED_maximum, e, op_float(c->cx, LEAST_DRAWN));
  heed_tensor *score = extreme ? op2(HEED_sub, op1(HEED_log, weight), op1(HEED_log, e))
                               : op2(HEED_div, weight, e);
  if (score == NULL) return NULL;
  heed_value args[] = {heed_t(score), heed_i(n)};
  return op_calls(c->cx, HEED_topk, 2, args, ys) ? ys[OUT(topk, indices)] : NULL;
}


/* Is every row finite, not negative, and has it weights for n draws? Is any weight extreme? */
static bool check_weights (call *c, const double *weight, int64_t rows, int64_t columns,
                           int64_t n, bool replace, bool *extreme) {
  const int input = ARG(multinomial, input), samples = ARG(multinomial, num_samples);
  for (int64_t row = 0; row < rows; row++, weight += columns) {
    int64_t found = 0;
    double sum = 0;
    for (int64_t j = 0; j < columns; j++) {
      if (stops(c, j)) return false;
      if (!(weight[j] >= 0))
        return check_refuse(c, input, "weight %g in row %" PRId64, weight[j], row + 1);
      found += weight[j] > 0;
      *extreme |= is_extreme(weight[j]);
      sum += weight[j];
    }
    if (!isfinite(sum)) return check_refuse(c, input, "row %" PRId64 " is not finite", row + 1);
    if (found == 0 && n > 0)
      return check_refuse(c, input, "row %" PRId64 " has no weight", row + 1);
    if (!replace && found < n)
      return check_refuse(c, samples, "%" PRId64 " draws without replacement from %" PRId64
                          " weights above 0 in row %" PRId64, n, found, row + 1);
  }
  return true;
}


static bool check_samples (call *c, const layout *at, int64_t n, bool replace, layout *shape) {
  const int samples = ARG(multinomial, num_samples);
  *shape = *at;
  shape->size[shape->rank - 1] = n;
  if (n < 0) return check_refuse(c, samples, "a number of draws expected, got %" PRId64, n);
  if (!replace && n > at->size[at->rank - 1])
    return check_refuse(c, samples, "%" PRId64 " draws without replacement from %" PRId64
                        " weights", n, at->size[at->rank - 1]);
  return layout_dense(shape, shape->rank, shape->size) ||
         check_refuse(c, samples, "%" PRId64 " draws are too many elements", n);
}


/* The weights on the CPU, as doubles. */
static heed_tensor *weights_of (call *c, heed_tensor *t) {
  t = op1(HEED_clone, op_cast(op_hold(c->cx, heed_detach(t)), HEED_FLOAT64));
  return op_to(t, c->cx->devices.list[0]);
}


/* The CPU draws, whatever the device. */
bool do_multinomial (call *c) {
  heed_tensor *t = arg_tensor(c, ARG(multinomial, input));
  int64_t n = arg_count(c, ARG(multinomial, num_samples));
  bool replace = arg_flag(c, ARG(multinomial, replacement)), wide = t->type == HEED_FLOAT64;
  layout shape;
  if (!check_float(c, ARG(multinomial, input))) return false;
  if (!check_rank(c, ARG(multinomial, input), 1, 2)) return false;
  if (!check_samples(c, &t->at, n, replace, &shape)) return false;
  int64_t columns = t->at.size[t->at.rank - 1], rows = t->at.rank == 2 ? t->at.size[0] : 1;
  device *where = c->cx->scope.device;
  heed_tensor *weight = weights_of(c, t), *y;
  if (weight == NULL) return false;
  c->cx->scope.device = c->cx->devices.list[0];
  if (!core_check_reach(c->cx, op_name(c->op), c->cx->scope.device)) return false;
  double *weights = weight->store->data;
  bool extreme = false;
  if (!check_weights(c, weights, rows, columns, n, replace, &extreme)) return false;
  if (!replace) return give_out(c, op_to(draw_once(c, weight, n, extreme), where));
  y = op_new(c->cx, HEED_INT64, &shape);
  if (y == NULL) return false;
  return draw_again(c, weights, rows, columns, n, wide, y->store->data) &&
         give_out(c, op_to(y, where));
}

/* }================================================================== */
