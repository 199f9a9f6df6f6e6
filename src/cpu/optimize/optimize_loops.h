/*
** optimize_loops.h - optimizers' steps in type T: included for each T.
*/

#ifndef T
#include "cpu/optimize/optimize.h"
#else

static inline T FN(kept) (T x) { return ABS(x) < (T)LEAST_STATE(TYPE) ? 0 : x; }

/* One element, by the formulas of op/optimizers.def. */
#define KEPT(x) FN(kept)(x)
#define STEP(formula) \
  INLINED void FN(step_##formula) (const optimizer_constants *k, \
                                   __attribute__((unused)) int states, T *p, T g, T *s)
#include "op/optimizers.def"


/* n elements, with a loop for each number of states that the optimizer may have. */
#define LOOP(formula, n_states) \
  case n_states: { \
    T *const s0 = state[0], *const s1 = state[1], *const s2 = state[2]; \
    VECTOR_LOOP for (int64_t i = 0; i < n; i++) { \
      T x = p[i], s[HEED_STATES] = {n_states > 0 ? s0[i] : 0, n_states > 1 ? s1[i] : 0, \
                                    n_states > 2 ? s2[i] : 0}; \
      FN(step_##formula)(&k, n_states, &x, g[i], s); \
      p[i] = x; \
      if (n_states > 0) s0[i] = s[0]; \
      if (n_states > 1) s1[i] = s[1]; \
      if (n_states > 2) s2[i] = s[2]; \
    } \
    return; \
  }

#define OPTIMIZER(NAME, name, formula, ...) \
  static void FN(steps_##name) (const optimizer_constants *constants, int states, int64_t n, T *p, \
                                const T *g, T *const *state) { \
    const optimizer_constants k = *constants; \
    switch (states) { \
      LOOP(formula, 0) LOOP(formula, 1) LOOP(formula, 2) LOOP(formula, 3) \
    } \
  }
#include "op/optimizers.def"
_Static_assert(HEED_STATES == 3, "there is a loop for each number of states");


static void FN(step) (const optimization *d, int64_t n, T *p, const T *g, T *const *state) {
  const heed_optimizer kind = (heed_optimizer)d->w->op;
  const heed_step *o = &d->w->optimize.step;
  const int states = optimizer_states(kind, o);
  for (int i = optimizer_reads(kind, o); i < states; i++)
    memset(state[i], 0, (size_t)n * sizeof(T));
  switch (kind) {
#define OPTIMIZER(NAME, name, ...) \
    case HEED_##NAME: FN(steps_##name)(&d->constants, states, n, p, g, state); return;
#include "op/optimizers.def"
    case HEED_NOPTIMIZERS: return;
  }
}


static void FN(step_row) (const optimization *d, const optimize_row *row, int64_t from,
                          int64_t to) {
  T *state[HEED_STATES];
  for (int i = 0; i < HEED_STATES; i++)
    state[i] = row->state[i] != NULL ? (T *)row->state[i] + from : NULL;
  FN(step)(d, to - from, (T *)row->parameter + from, (const T *)row->gradient + from, state);
}

#undef KEPT
#undef LOOP

#endif
