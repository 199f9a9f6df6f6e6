/*
** loss.c - losses made of other operations. Cross entropy has a file of its own.
*/

#include <inttypes.h>

#include "op/loss.h"


heed_tensor *loss_reduced (heed_tensor *loss, int64_t how) {
  if (loss == NULL || how == LOSS_NONE) return loss;
  return op1(how == LOSS_MEAN ? HEED_mean : HEED_sum, loss);
}


/* The losses of this file begin with one pair of arguments. */
#define SAME_PAIR(op) SAME_ARG(mse_loss, op, input); SAME_ARG(mse_loss, op, target)

enum { INPUT = ARG(mse_loss, input), TARGET = ARG(mse_loss, target) };

SAME_PAIR(l1_loss);
SAME_PAIR(smooth_l1_loss);
SAME_PAIR(huber_loss);
SAME_PAIR(kl_div);
SAME_PAIR(binary_cross_entropy);
SAME_PAIR(bce_with_logits);


/* Input and target of one shape; the input, of a float type. */
static bool check_pair (call *c) {
  return check_float(c, INPUT) && check_same_shape(c, INPUT, TARGET);
}


/* As check_pair; a target that is a number is allowed besides, and holds for every element. */
static bool check_pair_or_number (call *c) {
  return arg_tensor(c, TARGET)->number ? check_float(c, INPUT) : check_pair(c);
}


/* A weight that broadcasts to the input, and does not widen it. */
static bool check_weight (call *c, int i) {
  layout wide;
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  const heed_tensor *weight = arg_tensor(c, i);
  const layout *at = &arg_tensor(c, INPUT)->at;
  return weight == NULL || layout_expand(&weight->at, at, &wide) ||
         check_refuse(c, i, "a shape that broadcasts to %s expected, got %s",
                      layout_text(at, want), layout_text(&weight->at, have));
}


static heed_tensor *difference (call *c) {
  return op2(HEED_sub, arg_tensor(c, INPUT), arg_tensor(c, TARGET));
}


/*
** {==================================================================
** Distances
** ===================================================================
*/

SAME_ARG(mse_loss, l1_loss, reduction);
SAME_ARG(mse_loss, l1_loss, weight);
SAME_ARG(mse_loss, huber_loss, reduction);

/* y, each by argument i, its weight, if there is one; a mean is then by the sum of weights. */
static bool give_weighted (call *c, heed_tensor *y, int i) {
  heed_tensor *weight = arg_tensor(c, i);
  int64_t how = arg_count(c, ARG(mse_loss, reduction));
  if (weight != NULL && !check_same_shape(c, INPUT, i)) return false;
  if (weight == NULL) return give_out(c, loss_reduced(y, how));
  y = op2(HEED_mul, y, weight);
  if (how != LOSS_MEAN) return give_out(c, loss_reduced(y, how));
  return give_out(c, op2(HEED_div, op1(HEED_sum, y), op1(HEED_sum, weight)));
}


static bool weighted_distance (call *c, heed_op distance) {
  return check_pair_or_number(c) &&
         give_weighted(c, op1(distance, difference(c)), ARG(mse_loss, weight));
}


bool do_mse_loss (call *c) { return weighted_distance(c, HEED_square); }


bool do_l1_loss (call *c) { return weighted_distance(c, HEED_abs); }


/*
** 'factor' times d^2 / (2 beta) where the distance d is below beta, d - beta / 2 beyond. The
** squared distance is cut off at beta: the gradient beyond is 0, not 0 times infinity.
*/
static heed_tensor *bent_distance (call *c, double beta, double factor) {
  heed_tensor *d = op1(HEED_abs, difference(c)), *far = op_shift(d, -beta / 2);
  if (factor != 1) far = op_scale(far, factor);
  if (beta == 0) return far;
  heed_tensor *most = op_float(c->cx, beta);
  heed_tensor *near = op_scale(op1(HEED_square, op2(HEED_minimum, d, most)), 0.5 * factor / beta);
  return op3(HEED_where, op2(HEED_lt, d, most), near, far);
}


bool do_smooth_l1_loss (call *c) {
  double beta = arg_number(c, ARG(smooth_l1_loss, beta));
  if (!check_pair_or_number(c)) return false;
  if (!(beta >= 0))
    return check_refuse(c, ARG(smooth_l1_loss, beta), "a number from 0 on expected, got %g", beta);
  heed_tensor *loss = bent_distance(c, beta, 1);
  return give_out(c, loss_reduced(loss, arg_count(c, ARG(smooth_l1_loss, reduction))));
}


/* delta times the smooth loss with beta = delta: d^2 / 2, and delta (d - delta / 2) beyond. */
bool do_huber_loss (call *c) {
  double delta = arg_number(c, ARG(huber_loss, delta));
  if (!check_pair_or_number(c)) return false;
  if (!(delta > 0))
    return check_refuse(c, ARG(huber_loss, delta), "a number above 0 expected, got %g", delta);
  return give_weighted(c, bent_distance(c, delta, delta), ARG(huber_loss, weight));
}

/* }================================================================== */


/*
** {==================================================================
** Probabilities
** ===================================================================
*/

/* target log target, which is 0 at 0 */
static heed_tensor *entropy (heed_tensor *target) {
  heed_tensor *none = op2(HEED_eq, target, op_integer(target->cx, 0));
  heed_tensor *safe = op3(HEED_where, none, op_float(target->cx, 1), target);
  return op2(HEED_mul, target, op1(HEED_log, safe));
}


/* target (log target - input), for an input that is a logarithm. */
bool do_kl_div (call *c) {
  heed_tensor *x = arg_tensor(c, INPUT), *target = arg_tensor(c, TARGET), *loss;
  int64_t how = arg_count(c, ARG(kl_div, reduction)), batch = x->at.rank > 0 ? *x->at.size : 1;
  if (!check_pair_or_number(c)) return false;
  if (arg_flag(c, ARG(kl_div, log_target)))
    loss = op2(HEED_mul, op1(HEED_exp, target), op2(HEED_sub, target, x));
  else loss = op2(HEED_sub, entropy(target), op2(HEED_mul, target, x));
  loss = loss_reduced(loss, how);
  if (how == LOSS_BATCH_MEAN) loss = op2(HEED_div, loss, op_float(c->cx, (double)batch));
  return give_out(c, loss);
}


/*
** (1 - t) x - (1 + (pos_weight - 1) t) log sigmoid(x), which is large for no x that is not.
*/
bool do_bce_with_logits (call *c) {
  heed_tensor *x = arg_tensor(c, INPUT), *target = arg_tensor(c, TARGET);
  heed_tensor *weight = arg_tensor(c, ARG(bce_with_logits, weight));
  heed_tensor *pos_weight = arg_tensor(c, ARG(bce_with_logits, pos_weight));
  if (!check_pair(c) || !check_weight(c, ARG(bce_with_logits, weight)) ||
      !check_weight(c, ARG(bce_with_logits, pos_weight)))
    return false;
  heed_tensor *one = op_float(c->cx, 1), *log_p = op1(HEED_logsigmoid, x);
  if (pos_weight != NULL) {
    heed_tensor *more = op2(HEED_mul, op2(HEED_sub, pos_weight, one), target);
    log_p = op2(HEED_mul, op2(HEED_add, more, one), log_p);
  }
  heed_tensor *loss = op2(HEED_sub, op2(HEED_mul, op2(HEED_sub, one, target), x), log_p);
  if (weight != NULL) loss = op2(HEED_mul, loss, weight);
  return give_out(c, loss_reduced(loss, arg_count(c, ARG(bce_with_logits, reduction))));
}


/* On a device that looks for itself. */
static bool check_unit_there (call *c, heed_tensor *t) {
  work w;
  t = op_materialized(t);
  if (t == NULL) return false;
  work_probabilities(&w, view_of(t));
  return op_run(c, &w);
}


/* All elements of argument i from 0 to 1? NaN is not. Other devices' are not read back. */
static bool check_unit (call *c, int i) {
  heed_tensor *t = arg_tensor(c, i);
  double least, most;
  if (layout_numel(&t->at) == 0) return true;
  if (!core_reaches(c->cx, c->cx->scope.device))
    return !op_supports(c->cx, WORK_PROBABILITIES, 0) || check_unit_there(c, t);
  if (!op_read(op1(HEED_min, t), &least) || !op_read(op1(HEED_max, t), &most)) return false;
  if (least >= 0 && most <= 1) return true;
  return check_refuse(c, i, "probabilities from 0 to 1 expected, got %g",
                      least >= 0 ? most : least);
}


/* max(log x, -100) */
static heed_tensor *held_log (heed_tensor *x) {
  heed_tensor *y = op1(HEED_log, x);
  return y != NULL ? op2(HEED_maximum, y, op_float(y->cx, -100)) : NULL;
}


static heed_tensor *complement (heed_tensor *x) {
  return x != NULL ? op2(HEED_sub, op_float(x->cx, 1), x) : NULL;
}


static heed_tensor *binary_cross_entropy (call *c) {
  heed_tensor *x = arg_tensor(c, INPUT), *target = arg_tensor(c, TARGET);
  heed_tensor *weight = arg_tensor(c, ARG(binary_cross_entropy, weight));
  heed_tensor *yes = op2(HEED_mul, target, held_log(x));
  heed_tensor *no = op2(HEED_mul, complement(target), held_log(complement(x)));
  heed_tensor *loss = op1(HEED_neg, op2(HEED_add, yes, no));
  if (weight != NULL) loss = op2(HEED_mul, loss, weight);
  return loss_reduced(loss, arg_count(c, ARG(binary_cross_entropy, reduction)));
}


/* -(t log x + (1 - t) log(1 - x)), the logarithms held at -100 (PyTorch's bound). */
bool do_binary_cross_entropy (call *c) {
  heed_tensor *y = NULL;
  if (!check_pair(c) || !check_weight(c, ARG(binary_cross_entropy, weight))) return false;
  const scope before = scope_unrecorded(c->cx);
  if (check_unit(c, INPUT) && check_unit(c, TARGET)) y = binary_cross_entropy(c);
  scope_end(c->cx, &before);
  return give_out(c, y);
}


#define LEAST_SPREAD 1e-12

static heed_tensor *detached (heed_tensor *t) {
  return t != NULL ? op_hold(t->cx, heed_detach(t)) : NULL;
}


/* x, and where it lies below LEAST_SPREAD that, with the derivative of x all the same. */
static heed_tensor *lifted (heed_tensor *x) {
  heed_tensor *least = x != NULL ? op_float(x->cx, LEAST_SPREAD) : NULL;
  heed_tensor *more = op1(HEED_relu, op2(HEED_sub, least, detached(x)));
  return op2(HEED_add, x, more);
}


/*
** (x - t) / (x (1 - x)), whose divisor is held at 1e-12. The derivatives of a recorded one are
** those of (1 - t) / (1 - x) - t / x, where a side that is multiplied by 0 counts nothing: at
** x = t = 1 that is 1, and by the held divisor it would be 1e12. A float16 holds no such numbers.
*/
static heed_tensor *slope (backward *b, heed_tensor *x, heed_tensor *rest, heed_tensor *target) {
  heed_tensor *least = op_float(b->cx, LEAST_SPREAD);
  heed_tensor *spread = op2(HEED_maximum, op2(HEED_mul, x, rest), least);
  heed_tensor *y = op2(HEED_div, op2(HEED_sub, x, target), spread);
  if (!composes(b) || y == NULL || y->type == HEED_FLOAT16) return y;
  heed_tensor *no = op2(HEED_div, complement(target), lifted(rest));
  heed_tensor *sides = op2(HEED_sub, no, op2(HEED_div, target, lifted(x)));
  return op2(HEED_add, detached(y), op2(HEED_sub, sides, detached(sides)));
}


/* dx = g (x - t) / (x (1 - x)); dt = g (log(1 - x) - log x) */
bool grad_binary_cross_entropy (backward *b) {
  const int input_at = IN(binary_cross_entropy, input), target = IN(binary_cross_entropy, target);
  const int weight = IN(binary_cross_entropy, weight);
  heed_tensor *x = input(b, input_at), *g = b->g, *rest = complement(x);
  if (x == NULL || !loss_refuse_weight(b, weight)) return false;
  if (b->args[ARG(binary_cross_entropy, reduction)].integer == LOSS_MEAN)
    g = op2(HEED_div, g, op_integer(b->cx, layout_numel(&x->at)));
  if (has_input(b, weight)) g = op2(HEED_mul, g, input(b, weight));
  if (wants(b, target)) {
    heed_tensor *d = op2(HEED_sub, op1(HEED_log, rest), op1(HEED_log, x));
    if (!give(b, target, op2(HEED_mul, g, d))) return false;
  }
  if (!wants(b, input_at)) return true;
  return give(b, input_at, op2(HEED_mul, g, slope(b, x, rest, input(b, target))));
}


static bool refuse_weight (heed_context *cx, heed_op op) {
  return core_fail(cx, op_name(op), "there is no gradient for argument 'weight'") != NULL;
}


bool loss_refuse_weight (const backward *b, int i) {
  return !wants(b, i) || refuse_weight(b->cx, b->op);
}


bool loss_check_weight (const call *c, int i) {
  return !c->cx->scope.recording || !heed_requires_grad(arg_tensor(c, i)) ||
         refuse_weight(c->cx, c->op);
}

/* }================================================================== */
