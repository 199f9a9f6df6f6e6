/*
** optimize.h - optimisers' steps that were captured: their numbers lie in device memory, where
** every run of the kernel leaves the next step's number.
*/

#ifndef cuda_optimize_h
#define cuda_optimize_h

#include "cuda/cuda.h"

#pragma GCC visibility push(hidden)

/* Of all works of one capture, in their order. */
steps *steps_held (cuda *self);                  /* those captured until now: yours now */
/* The numbers of work 'which' (from 0), from the next replay on. */
const char *steps_set (cuda *self, steps *s, int which, const heed_step *step);
void steps_drop (steps *s);

#pragma GCC visibility pop

#endif
