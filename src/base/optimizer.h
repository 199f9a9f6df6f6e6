/*
** optimizer.h - the table of optimizers as functions of a step's numbers, for hosts and kernels.
**
** CUDA defines HOST_TOO and POWER before it includes this file.
*/

#ifndef optimizer_h
#define optimizer_h

#include <math.h>

#include "heed.h"

#ifndef HOST_TOO
#define HOST_TOO static inline
#endif
#ifndef POWER
#define POWER(x, n) pow((x), (double)(n))
#endif

/* The least number in a state but 0: see KEPT in op/optimizers.def. */
#define LEAST_STATE(type) ((type) == HEED_FLOAT64 ? 0x1p-1022 : 0x1p-126)


/* How many states a parameter has. */
HOST_TOO int optimizer_states (heed_optimizer kind, const heed_step *o) {
  switch (kind) {
#define OPTIMIZER(NAME, name, formula, decay, begin, options, states) \
    case HEED_##NAME: return 0 states;
#define STATE(name) + 1
#define STATE_IF(name, option) + (o->option != 0)
#include "op/optimizers.def"
    case HEED_NOPTIMIZERS: break;
  }
  return 0;
}


/* How many of them this step reads. */
HOST_TOO int optimizer_reads (heed_optimizer kind, const heed_step *o) {
  enum { ZEROS, FILLED };
  int begin = ZEROS;
  switch (kind) {
#define OPTIMIZER(NAME, name, formula, decay, begins, ...) case HEED_##NAME: begin = begins; break;
#include "op/optimizers.def"
    case HEED_NOPTIMIZERS: break;
  }
  return begin == FILLED && o->step == 1 ? 0 : optimizer_states(kind, o);
}


/* What stays the same over a step. */
typedef struct optimizer_constants {
#define CONSTANT(name, value) double name;
#include "op/optimizers.def"
} optimizer_constants;

HOST_TOO optimizer_constants optimizer_constants_of (heed_optimizer kind, const heed_step *o) {
  enum { GRADIENT, WEIGHTS };
  int decay = GRADIENT;
  optimizer_constants k;
  switch (kind) {
#define OPTIMIZER(NAME, name, formula, decays, ...) case HEED_##NAME: decay = decays; break;
#include "op/optimizers.def"
    case HEED_NOPTIMIZERS: break;
  }
#define DECOUPLED (decay == WEIGHTS)
#define CONSTANT(name, value) k.name = value;
#include "op/optimizers.def"
#undef DECOUPLED
  return k;
}

#endif
