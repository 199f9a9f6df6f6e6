/*
** optimize_composed.c - an optimiser's step made of other operations: what the fused work is held
** equal to, and what devices without it use.
**
** The formulas and their order are PyTorch's. Halves are computed in float32: what a step reads
** is converted once, and only what it writes is rounded.
*/

#include <math.h>

#include "base/optimizer.h"
#include "op/compose.h"


/* to = from, where it lies; its version is the caller's business. */
static bool store (heed_tensor *to, const heed_tensor *from) {
  work w;
  if (from == NULL) return true;
  work_copy(&w, COPY_APART, view_of(to), view_of(from));
  return layout_numel(&to->at) == 0 || op_run_for(to->cx, HEED_copy, &w);
}


bool optimize_store (const optimized *t) {
  bool good = store(t->parameter, t->new_parameter);
  for (int i = 0; i < HEED_STATES; i++)
    if (t->state[i] != NULL) good = store(t->state[i], t->new_state[i]) && good;
  return good;
}


/* t, but 0 for what is denormal: states decay into that, see KEPT in optimizers.def. */
static heed_tensor *state (heed_tensor *t) {
  if (t == NULL) return NULL;
  heed_tensor *small = op2(HEED_lt, op1(HEED_abs, t), op_float(t->cx, LEAST_STATE(t->type)));
  return op3(HEED_where, small, op_integer(t->cx, 0), t);
}


/* a + factor b */
static heed_tensor *add_scaled (heed_tensor *a, heed_tensor *b, double factor) {
  return op2(HEED_add, a, op_scale(b, factor));
}


/* A step of one parameter, in the type that is computed in. */
typedef struct descending {
  const heed_step *o;
  heed_type type;
  heed_tensor *parameter;          /* shrunk, where decay shrinks the weights themselves */
  heed_tensor *along;              /* the gradient, with the decay that is added to it */
  optimized *t;                    /* the tensors themselves */
} descending;


static bool begin (descending *d, bool decoupled) {
  const heed_step *o = d->o;
  heed_tensor *p = op_cast(d->t->parameter, d->type), *g = op_cast(d->t->gradient, d->type);
  if (decoupled) p = op_scale(p, 1 - o->lr * o->weight_decay);
  if (o->maximize) g = op1(HEED_neg, g);
  if (!decoupled && o->weight_decay != 0) g = add_scaled(g, p, o->weight_decay);
  d->parameter = p;
  d->along = g;
  return p != NULL && g != NULL;
}


static heed_tensor *state_of (const descending *d, int i) {
  return op_cast(d->t->state[i], d->type);
}


/* buffer = momentum buffer + (1 - dampening) along, and 'along' itself in the first step. */
static heed_tensor *momentum_of (const descending *d) {
  if (d->o->step == 1) return state(d->along);
  heed_tensor *buffer = op_scale(state_of(d, 0), d->o->momentum);
  return state(add_scaled(buffer, d->along, 1 - d->o->dampening));
}


static bool step_sgd (const descending *d) {
  const heed_step *o = d->o;
  heed_tensor *along = d->along;
  if (o->momentum != 0) {
    heed_tensor *m = momentum_of(d);
    along = o->nesterov ? add_scaled(along, m, o->momentum) : m;
    d->t->new_state[0] = m;
  }
  d->t->new_parameter = add_scaled(d->parameter, along, -o->lr);
  return d->t->new_parameter != NULL;
}


/* States of Adam, in their order. */
enum { MEAN, SQUARE, LARGEST };

/* The running means: of 'along', and of its square. */
static heed_tensor *mean_of (const descending *d) {
  heed_tensor *mean = state_of(d, MEAN);
  return state(add_scaled(mean, op2(HEED_sub, d->along, mean), 1 - d->o->beta1));
}

static heed_tensor *square_of (const descending *d) {
  heed_tensor *square = op_scale(state_of(d, SQUARE), d->o->beta2);
  return state(add_scaled(square, op1(HEED_square, d->along), 1 - d->o->beta2));
}


/* a / b, but 0 where b is. */
static heed_tensor *ratio (heed_tensor *a, heed_tensor *b) {
  if (a == NULL || b == NULL) return NULL;
  heed_tensor *zero = op_integer(a->cx, 0);
  return op3(HEED_where, op2(HEED_eq, b, zero), zero, op2(HEED_div, a, b));
}


/* p -= lr / (1 - beta1^t) mean / (sqrt(square) / sqrt(1 - beta2^t) + eps) */
static bool step_adam (const descending *d) {
  const heed_step *o = d->o;
  double first = 1 - pow(o->beta1, (double)o->step), second = 1 - pow(o->beta2, (double)o->step);
  heed_tensor *mean = mean_of(d), *square = square_of(d), *top = square, *p = d->parameter;
  if (o->amsgrad) top = op2(HEED_maximum, state_of(d, LARGEST), square);
  heed_tensor *root = op2(HEED_div, op1(HEED_sqrt, top), op_float(p->cx, sqrt(second)));
  heed_tensor **state = d->t->new_state;
  state[MEAN] = mean;
  state[SQUARE] = square;
  if (o->amsgrad) state[LARGEST] = top;
  d->t->new_parameter = add_scaled(p, ratio(mean, op_shift(root, o->eps)), -o->lr / first);
  return d->t->new_parameter != NULL;
}


/* Chen et al. 2023, algorithm 2. */
static bool step_lion (const descending *d) {
  const heed_step *o = d->o;
  heed_tensor *mean = state_of(d, 0), *off = op2(HEED_sub, d->along, mean);
  heed_tensor *along = op1(HEED_sign, add_scaled(mean, off, 1 - o->beta1));
  d->t->new_parameter = add_scaled(d->parameter, along, -o->lr);
  d->t->new_state[0] = state(add_scaled(mean, off, 1 - o->beta2));
  return d->t->new_parameter != NULL && d->t->new_state[0] != NULL;
}


bool optimize_composed (heed_optimizer kind, const heed_step *step, optimized *t) {
  enum { GRADIENT, WEIGHTS };
  descending d = {.o = step, .type = scalar_computing(t->parameter->type), .t = t};
  switch (kind) {
#define OPTIMIZER(NAME, name, formula, decay, ...) \
    case HEED_##NAME: return begin(&d, decay == WEIGHTS) && step_##formula(&d);
#include "op/optimizers.def"
    case HEED_NOPTIMIZERS: break;
  }
  return false;
}
