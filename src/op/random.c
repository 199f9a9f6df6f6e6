/*
** chance.c - tensors of random numbers, drawn as PyTorch draws them.
*/

#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "op/move.h"


/* Fills y by 'kind'; 'from' and 'to' are its numbers. */
static bool draw (call *c, random_kind kind, heed_tensor *y, double from, double to) {
  work w;
  if (y == NULL) return false;
  w.kind = WORK_RANDOM;
  w.op = kind;
  w.nout = 1;
  w.nin = 0;
  w.mask.n = 0;
  w.number[0] = from;
  w.number[1] = to;
  w.out[0] = view_of(y);
  return (layout_numel(&y->at) == 0 || op_run(c, &w)) && give_out(c, y);
}


/*
** {==================================================================
** New tensors
** ===================================================================
*/

/* A new tensor of argument 0's shape and a float type. */
static heed_tensor *new_float (call *c) {
  layout shape;
  heed_type type = arg_type(c, 1, HEED_FLOAT32);
  if (!check_shape(c, 0, -1, &shape)) return NULL;
  if (scalar_is_float(type)) return op_new(c->cx, type, &shape);
  check_refuse(c, 1, "a float type expected, got %s", scalar_names[type]);
  return NULL;
}


bool do_rand (call *c) { return draw(c, RANDOM_UNIFORM, new_float(c), 0, 1); }

bool do_randn (call *c) { return draw(c, RANDOM_NORMAL, new_float(c), 0, 1); }


/* Whole numbers are drawn as int64, whatever they become. */
static bool draw_integer (call *c, random_kind kind, heed_tensor *y, int64_t low, int64_t high) {
  work w;
  if (y == NULL) return false;
  w.kind = WORK_RANDOM;
  w.op = kind;
  w.nout = 1;
  w.nin = 0;
  w.mask.n = 0;
  w.count[0] = low;
  w.count[1] = high;
  w.out[0] = view_of(y);
  return layout_numel(&y->at) == 0 || op_run(c, &w);
}


static bool check_fits (call *c, int i, heed_type type) {
  int64_t n = arg_count(c, i), most = type == HEED_BOOL ? 1 : 255;
  return (type != HEED_BOOL && type != HEED_UINT8) || (n >= 0 && n <= most) ||
         check_refuse(c, i, "%" PRId64 " is no number of type %s", n, scalar_names[type]);
}


bool do_randint (call *c) {
  int64_t low = arg_count(c, 0), high = arg_count(c, 1);
  heed_type type = arg_type(c, 3, HEED_INT64);
  layout shape;
  if (high < low)
    return check_refuse(c, 1, "nothing lies between %" PRId64 " and %" PRId64, low, high);
  if (!check_fits(c, 0, type) || !check_fits(c, 1, type) || !check_shape(c, 2, -1, &shape))
    return false;
  heed_tensor *y = op_new(c->cx, HEED_INT64, &shape);
  return draw_integer(c, RANDOM_INTEGER, y, low, high) && give_out(c, op_cast(y, type));
}


bool do_randperm (call *c) {
  int64_t n = arg_count(c, 0);
  layout row;
  if (n < 0 || !layout_dense(&row, 1, &n))
    return check_refuse(c, 0, "a number of elements expected, got %" PRId64, n);
  heed_tensor *y = op_new(c->cx, HEED_INT64, &row);
  return draw_integer(c, RANDOM_PERMUTATION, y, 1, n) &&
         give_out(c, op_cast(y, arg_type(c, 1, HEED_INT64)));
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
  double from = arg_number(c, 1), to = arg_number(c, 2);
  if (!check_float(c, 0)) return false;
  double most = largest(c->args[0].tensor->type);
  if (!(from <= to && from >= -most && to - from <= most && to <= most))
    return check_refuse(c, 2, "nothing lies between %g and %g", from, to);
  return draw(c, RANDOM_UNIFORM, move_target(c, c->args[0].tensor), from, to);
}


bool do_normal (call *c) {
  double deviation = arg_number(c, 2);
  if (!check_float(c, 0)) return false;
  if (!(deviation >= 0))
    return check_refuse(c, 2, "a deviation of 0 or more expected, got %g", deviation);
  return draw(c, RANDOM_NORMAL, move_target(c, c->args[0].tensor), arg_number(c, 1), deviation);
}


/* Does 'test' hold for all elements? A NaN passes none. */
static bool all_pass (heed_tensor *t, heed_op test, double bound, bool *pass) {
  int64_t truth = 0;
  heed_tensor *y = op1(HEED_all, op2(test, t, op_float(t->cx, bound)));
  if (y == NULL || !heed_read(y, HEED_INT64, &truth)) return false;
  *pass = truth != 0;
  return true;
}


/* A card is not waited for to tell. */
static bool check_probabilities (call *c, heed_tensor *t) {
  bool low, high;
  if (!check_float(c, 0)) return false;
  if (!c->cx->current->host) return true;
  if (!all_pass(t, HEED_ge, 0, &low) || !all_pass(t, HEED_le, 1, &high)) return false;
  return (low && high) || check_refuse(c, 0, "probabilities from 0 to 1 expected");
}


/* Without p, a tensor holds the probabilities itself; in place p is then one half (PyTorch). */
bool do_bernoulli (call *c) {
  heed_tensor *t = c->args[0].tensor, *p = t;
  if (arg_given(c, 1) && !check_probability(c, 1)) return false;
  if (arg_given(c, 1)) p = op_float(c->cx, arg_number(c, 1));
  else if (c->into != NULL) p = op_float(c->cx, 0.5);
  else if (!check_probabilities(c, t)) return false;
  heed_tensor *y = move_target(c, t);
  work w;
  if (p == NULL || y == NULL) return false;
  w.kind = WORK_RANDOM;
  w.op = RANDOM_BERNOULLI;
  w.nout = w.nin = 1;
  w.mask.n = 0;
  w.out[0] = view_of(y);
  if (!move_view(p, &y->at, &w.in[0])) return false;
  return (layout_numel(&y->at) == 0 || op_run(c, &w)) && give_out(c, y);
}

/* }================================================================== */


/*
** {==================================================================
** By weight: rows of weights (R, C) give positions (R, n)
** ===================================================================
*/

/* A row's running share of the whole; rounded to float32 where the weights are no doubles. */
static void add_shares (double *share, int64_t n, bool wide) {
  double sum = 0;
  for (int64_t j = 0; j < n; j++)
    share[j] = sum = wide ? sum + share[j] : (double)(float)(sum + share[j]);
  for (int64_t j = 0; j < n; j++)
    share[j] = wide ? share[j] / sum : (double)(float)(share[j] / sum);
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
static void draw_again (call *c, double *share, int64_t rows, int64_t columns, int64_t n,
                        bool wide, int64_t *y) {
  for (int64_t row = 0; row < rows; row++, share += columns) {
    add_shares(share, columns, wide);
    for (int64_t k = 0; k < n; k++)
      *y++ = 1 + find_share(share, columns, generator_uniform_double(&c->cx->random));
  }
}


/*
** Without replacement: the n largest of w / e, e drawn from the exponential distribution.
** (P. Efraimidis, P. Spirakis, "Weighted random sampling with a reservoir", 2006.)
*/
static heed_tensor *draw_once (call *c, heed_tensor *weight, int64_t n) {
  heed_tensor *ys[HEED_RESULTS];
  heed_value like[] = {heed_l(weight->at.rank, weight->at.size), heed_i(HEED_FLOAT64)};
  heed_tensor *e = op_call(c->cx, HEED_rand, 2, like);
  e = op1(HEED_neg, op1(HEED_log1p, op1(HEED_neg, e)));
  e = op2(HEED_maximum, e, op_float(c->cx, 0x1p-1000));
  heed_tensor *score = op2(HEED_div, weight, e);
  if (score == NULL) return NULL;
  heed_value args[] = {heed_t(score), heed_i(n)};
  return op_calls(c->cx, HEED_topk, 2, args, ys) ? ys[1] : NULL;
}


/* Is every row finite, not negative, and has it weights for n draws? */
static bool check_weights (call *c, const double *weight, int64_t rows, int64_t columns,
                           int64_t n, bool replace) {
  for (int64_t row = 0; row < rows; row++, weight += columns) {
    int64_t found = 0;
    double sum = 0;
    for (int64_t j = 0; j < columns; j++) {
      if (!(weight[j] >= 0))
        return check_refuse(c, 0, "weight %g in row %" PRId64, weight[j], row + 1);
      found += weight[j] > 0;
      sum += weight[j];
    }
    if (!isfinite(sum)) return check_refuse(c, 0, "row %" PRId64 " is not finite", row + 1);
    if (found == 0 && n > 0) return check_refuse(c, 0, "row %" PRId64 " has no weight", row + 1);
    if (!replace && found < n)
      return check_refuse(c, 1, "%" PRId64 " draws without replacement from %" PRId64
                          " weights above 0 in row %" PRId64, n, found, row + 1);
  }
  return true;
}


bool do_multinomial (call *c) {
  heed_tensor *t = c->args[0].tensor;
  int64_t n = arg_count(c, 1);
  bool replace = arg_flag(c, 2);
  if (!check_float(c, 0) || !check_rank(c, 0, 1, 2)) return false;
  layout shape = t->at;
  int64_t columns = shape.size[shape.rank - 1], rows = shape.rank == 2 ? shape.size[0] : 1;
  if (n < 0) return check_refuse(c, 1, "a number of draws expected, got %" PRId64, n);
  shape.size[shape.rank - 1] = n;
  if (!layout_dense(&shape, shape.rank, shape.size))
    return check_refuse(c, 1, "%" PRId64 " draws are too many elements", n);
  device *where = c->cx->current;
  heed_tensor *weight = op1(HEED_clone, op_cast(op_hold(c->cx, heed_detach(t)), HEED_FLOAT64));
  weight = op_to(weight, c->cx->cpu);
  if (weight == NULL) return false;
  c->cx->current = c->cx->cpu;                      /* the host draws */
  double *weights = weight->store->data;
  if (!check_weights(c, weights, rows, columns, n, replace)) return false;
  if (!replace) return give_out(c, op_to(draw_once(c, weight, n), where));
  heed_tensor *y = op_new(c->cx, HEED_INT64, &shape);
  if (y == NULL) return false;
  draw_again(c, weights, rows, columns, n, t->type == HEED_FLOAT64, y->store->data);
  return give_out(c, op_to(y, where));
}

/* }================================================================== */
