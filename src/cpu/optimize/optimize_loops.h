/*
** optimize_loops.h - optimisers' steps in type T: included for each T.
*/

#ifndef T
#include "cpu/optimize/optimize.h"
#else

/* x, or 0 for a denormal, see optimize.h. */
static inline T FN(state) (T x) { return ABS(x) < (T)LEAST_STATE(TYPE) ? 0 : x; }


static void FN(step_sgd) (const heed_step *o, int64_t n, T *p, const T *g, T *momentum) {
  const T sign = o->maximize ? -1 : 1, decay = (T)o->weight_decay, lr = (T)o->lr;
  const T keep = (T)o->momentum, add = (T)(1 - o->dampening), look = o->nesterov ? keep : 0;
  if (momentum == NULL) {
    VECTOR_LOOP for (int64_t i = 0; i < n; i++) p[i] -= lr * (sign * g[i] + decay * p[i]);
    return;
  }
  const T old = o->step == 1 ? 0 : keep, new = o->step == 1 ? 1 : add;
  if (o->step == 1) memset(momentum, 0, (size_t)n * sizeof(T));
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
    const T gradient = sign * g[i] + decay * p[i];
    const T m = FN(state)(old * momentum[i] + new * gradient);
    momentum[i] = m;
    p[i] -= lr * (o->nesterov ? gradient + look * m : m);
  }
}


/* Numbers that stay the same over a step; bias corrections go by the step. */
typedef struct FN(adam) {
  T sign, decay, fade, weight1, beta2, weight2, root, eps, size;
} FN(adam);

static FN(adam) FN(adam_numbers) (const heed_step *o, bool decoupled) {
  double first = 1 - pow(o->beta1, (double)o->step), second = 1 - pow(o->beta2, (double)o->step);
  return (FN(adam)){
    .sign = o->maximize ? -1 : 1,
    .decay = decoupled ? 0 : (T)o->weight_decay,
    .fade = decoupled ? (T)(1 - o->lr * o->weight_decay) : 1,
    .weight1 = (T)(1 - o->beta1), .beta2 = (T)o->beta2, .weight2 = (T)(1 - o->beta2),
    .root = (T)sqrt(second), .eps = (T)o->eps, .size = (T)(o->lr / first)
  };
}


static void FN(step_adam) (const FN(adam) *o, int64_t n, T *p, const T *g, T *mean, T *square,
                           T *most) {
  const FN(adam) k = *o;
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
    const T old = p[i] * k.fade, gradient = k.sign * g[i] + k.decay * old;
    const T m = FN(state)(mean[i] + k.weight1 * (gradient - mean[i]));
    const T s = FN(state)(square[i] * k.beta2 + k.weight2 * gradient * gradient);
    mean[i] = m;
    square[i] = s;
    T top = s;
    if (most != NULL) most[i] = top = most[i] > s ? most[i] : s;
    const T divisor = SQRT(top) / k.root + k.eps;
    p[i] = old - k.size * (divisor == 0 ? 0 : m / divisor);
  }
}


/* p fades, and goes by lr along the sign of a mean that weighs this gradient more. */
static void FN(step_lion) (const heed_step *o, int64_t n, T *p, const T *g, T *mean) {
  const T fade = (T)(1 - o->lr * o->weight_decay), lr = (T)o->lr, sign = o->maximize ? -1 : 1;
  const T weight1 = (T)(1 - o->beta1), weight2 = (T)(1 - o->beta2);
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
    const T off = sign * g[i] - mean[i], along = mean[i] + weight1 * off;
    mean[i] = FN(state)(mean[i] + weight2 * off);
    p[i] = p[i] * fade - lr * SIGN(along);
  }
}


/* 'most' is NULL unless amsgrad is on. */
static void FN(step) (const work *w, int64_t n, T *p, const T *g, T *s0, T *s1, T *s2) {
  const heed_step *o = &w->optimize.step;
  if (w->op == HEED_SGD) {
    FN(step_sgd)(o, n, p, g, o->momentum != 0 ? s0 : NULL);
    return;
  }
  if (w->op == HEED_LION) {
    FN(step_lion)(o, n, p, g, s0);
    return;
  }
  FN(adam) numbers = FN(adam_numbers)(o, w->op == HEED_ADAMW);
  if (o->amsgrad) FN(step_adam)(&numbers, n, p, g, s0, s1, s2);
  else FN(step_adam)(&numbers, n, p, g, s0, s1, NULL);
}


static void FN(step_row) (const work *w, const optimize_row *row, int64_t from, int64_t to) {
  T *state[3];
  for (int i = 0; i < 3; i++)
    state[i] = row->state[i] != NULL ? (T *)row->state[i] + from : NULL;
  FN(step)(w, to - from, (T *)row->parameter + from, (const T *)row->gradient + from, state[0],
           state[1], state[2]);
}

#endif
