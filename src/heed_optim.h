/*
** heed_optim.h - optimisers, and changes of many tensors: a part of heed.h, which includes it.
*/

#ifndef heed_optim_h
#define heed_optim_h

/* HEED_SGD, HEED_ADAM, HEED_ADAMW, HEED_LION: op/optimizers.def is the table of optimizers. */
typedef enum heed_optimizer {
#define OPTIMIZER(NAME, ...) HEED_##NAME,
#include "op/optimizers.def"
  HEED_NOPTIMIZERS
} heed_optimizer;

#define HEED_STATES 3               /* most that a parameter has */

/*
** PyTorch's options, by PyTorch's names: double lr, momentum, dampening, weight_decay, beta1,
** beta2, eps; bool nesterov, amsgrad, maximize. Those that an optimizer does not have may be 0.
*/
typedef struct heed_step {
#define NUMBER(name, ...) double name;
#define ENTRY(name, ...) double name;
#define FLAG(name) bool name;
#include "op/optimizers.def"
  int64_t step;                     /* this one's number for these parameters, from 1 */
} heed_step;

/*
** One step for n parameters. states[s][i] is state s of parameter i: momentum buffer for
** SGD with momentum; exp_avg, exp_avg_sq and, with amsgrad, max_exp_avg_sq for Adam; exp_avg for
** Lion, whose decay is AdamW's; for all of them, what op/optimizers.def says.
** A parameter whose gradient is NULL is left as it is; when it has one again, it lags behind,
** and belongs to a call of its own, with its own 'step': the first fills SGD's buffer with the
** gradient, and Adam corrects its means by it.
*/
HEED_API bool heed_optimize (heed_context *cx, heed_optimizer kind, const heed_step *step, int n,
                             heed_tensor *const *parameters, heed_tensor *const *gradients,
                             heed_tensor *const *const *states);

/* A step, as heed_optimize takes it. */
typedef struct heed_optimization {
  heed_optimizer kind;
  const heed_step *step;
  int n;
  heed_tensor *const *parameters, *const *gradients;
  heed_tensor *const *const *states;
} heed_optimization;

/*
** Changes of many tensors, which are made together: all of them are checked, and all memory that
** they need is taken, before the first is made, so that an error leaves every tensor as it was. A
** list is NULL where there is none. Nothing is recorded.
**   steps      of optimisers, of parameters that differ
**   targets    are written behind the steps: HEED_copy sets them to their operands, which are
**              broadcast, and of which each is read as it was before the first target; HEED_lerp
**              moves them towards their operands by 'number'; HEED_mul multiplies them by it
**   takers     take over what their givers are, as by heed_take_over, where there are givers;
**              then have these gradients, or none where that is NULL
** An interruption before the first change stops them all, unless they are 'uninterrupted', as
** those that take others back.
*/
typedef struct heed_changes {
  bool uninterrupted;
  int nsteps, ntargets, ntakers;
  const heed_optimization *steps;
  heed_op op;
  double number;
  heed_tensor *const *targets, *const *operands;
  heed_tensor *const *takers, *const *givers, *const *gradients;
} heed_changes;

HEED_API bool heed_commit (heed_context *cx, const heed_changes *changes);

/*
** The p-norm of the gradients that n parameters have, taken over all of them, as a tensor of rank 0
** (0 without any). heed_clip_gradients scales them so that it is at most 'max'; infinite and NaN
** norms scale as numbers do.
*/
HEED_API heed_tensor *heed_gradient_norm (heed_context *cx, double p, int n,
                                          heed_tensor *const *parameters);
HEED_API heed_tensor *heed_clip_gradients (heed_context *cx, double max, double p, int n,
                                           heed_tensor *const *parameters);

#endif
