/*
** optimize_composed.c - an optimiser's step made of other operations: what the fused work is held
** equal to, and what devices without it use.
**
** The formulas and their order are PyTorch's. Halves are computed in float32: what a step reads
** is converted once, and only what it writes is rounded.
*/

#include <math.h>

#include "op/compose.h"


/* to = from, where it lies; its version is the caller's business. */
static bool store (heed_tensor *to, heed_tensor *from) {
  work w;
  if (from == NULL) return false;
  work_copy(&w, COPY_APART, view_of(to), view_of(from));
  return layout_numel(&to->at) == 0 || op_run_for(to->cx, HEED_copy, &w);
}


/* t, but 0 for what is denormal: states decay into that, see cpu/optimize/optimize.h. */
static heed_tensor *state (heed_tensor *t) {
  if (t == NULL) return NULL;
  heed_tensor *small = op2(HEED_lt, op1(HEED_abs, t), op_float(t->cx, LEAST_STATE(t->type)));
  return op3(HEED_where, small, op_integer(t->cx, 0), t);
}


/* a + factor b */
static heed_tensor *add_scaled (heed_tensor *a, heed_tensor *b, double factor) {
  return op2(HEED_add, a, op_scale(b, factor));
}


/* The direction of descent: the gradient, with the decay of weights unless that is decoupled. */
static heed_tensor *descent (const heed_step *o, heed_tensor *p, heed_tensor *g, double decay) {
  if (o->maximize) g = op1(HEED_neg, g);
  return decay != 0 ? add_scaled(g, p, decay) : g;
}


/* buffer = momentum buffer + (1 - dampening) d, and d itself in the first step. */
static heed_tensor *momentum_of (const heed_step *o, heed_tensor *buffer, heed_tensor *d) {
  if (o->step == 1) return state(d);
  return state(add_scaled(op_scale(buffer, o->momentum), d, 1 - o->dampening));
}


static bool step_sgd (const heed_step *o, const optimized *t, heed_type type) {
  heed_tensor *p = op_cast(t->parameter, type);
  heed_tensor *d = descent(o, p, op_cast(t->gradient, type), o->weight_decay);
  if (o->momentum != 0) {
    heed_tensor *buffer = *t->state;
    heed_tensor *m = momentum_of(o, op_cast(buffer, type), d);
    d = o->nesterov ? add_scaled(d, m, o->momentum) : m;
    if (d == NULL || !store(buffer, m)) return false;
  }
  return store(t->parameter, add_scaled(p, d, -o->lr));
}


/* States of Adam, in their order. */
enum { MEAN, SQUARE, LARGEST };

/* The running means: of d, and of its square. */
static heed_tensor *mean_of (const heed_step *o, heed_tensor *mean, heed_tensor *d) {
  return state(add_scaled(mean, op2(HEED_sub, d, mean), 1 - o->beta1));
}

static heed_tensor *square_of (const heed_step *o, heed_tensor *square, heed_tensor *d) {
  return state(add_scaled(op_scale(square, o->beta2), op1(HEED_square, d), 1 - o->beta2));
}


/* a / b, but 0 where b is. */
static heed_tensor *ratio (heed_tensor *a, heed_tensor *b) {
  if (a == NULL || b == NULL) return NULL;
  heed_tensor *zero = op_integer(a->cx, 0);
  return op3(HEED_where, op2(HEED_eq, b, zero), zero, op2(HEED_div, a, b));
}


/* p -= lr / (1 - beta1^t) mean / (sqrt(square) / sqrt(1 - beta2^t) + eps) */
static bool step_adam (const heed_step *o, const optimized *t, heed_type type, bool decoupled) {
  double first = 1 - pow(o->beta1, (double)o->step), second = 1 - pow(o->beta2, (double)o->step);
  heed_tensor *p = op_cast(t->parameter, type), *const *state = t->state;
  if (decoupled) p = op_scale(p, 1 - o->lr * o->weight_decay);
  if (p == NULL) return false;
  heed_tensor *d = descent(o, p, op_cast(t->gradient, type), decoupled ? 0 : o->weight_decay);
  heed_tensor *mean = mean_of(o, op_cast(state[MEAN], type), d);
  heed_tensor *square = square_of(o, op_cast(state[SQUARE], type), d), *top = square;
  if (o->amsgrad) top = op2(HEED_maximum, op_cast(state[LARGEST], type), square);
  heed_tensor *root = op2(HEED_div, op1(HEED_sqrt, top), op_float(p->cx, sqrt(second)));
  p = add_scaled(p, ratio(mean, op_shift(root, o->eps)), -o->lr / first);
  if (p == NULL) return false;
  return store(state[MEAN], mean) && store(state[SQUARE], square) &&
         (!o->amsgrad || store(state[LARGEST], top)) && store(t->parameter, p);
}


/* Chen et al. 2023, Symbolic Discovery of Optimization Algorithms, algorithm 2. */
static bool step_lion (const heed_step *o, const optimized *t, heed_type type) {
  heed_tensor *p = op_cast(t->parameter, type), *mean = op_cast(*t->state, type);
  heed_tensor *d = descent(o, p, op_cast(t->gradient, type), 0), *off = op2(HEED_sub, d, mean);
  heed_tensor *along = op1(HEED_sign, add_scaled(mean, off, 1 - o->beta1));
  p = add_scaled(op_scale(p, 1 - o->lr * o->weight_decay), along, -o->lr);
  mean = state(add_scaled(mean, off, 1 - o->beta2));
  return p != NULL && mean != NULL && store(*t->state, mean) && store(t->parameter, p);
}


bool optimize_composed (heed_optimizer kind, const heed_step *step, const optimized *t) {
  heed_type type = scalar_computing(t->parameter->type);
  if (kind == HEED_SGD) return step_sgd(step, t, type);
  if (kind == HEED_LION) return step_lion(step, t, type);
  return step_adam(step, t, type, kind == HEED_ADAMW);
}
