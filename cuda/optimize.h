/*
** optimize.h - optimisers' steps that were captured: their numbers lie in memory of the card,
** which every run of the kernel leaves with the next step's number.
*/

#ifndef cuda_optimize_h
#define cuda_optimize_h

#include "cuda/cuda.h"

#pragma GCC visibility push(hidden)

/* Of all works of one recording, in their order. */
steps *steps_held (cuda *self);                  /* captured until now, and forgets them */
/* The numbers of work 'which' (from 0), from the next replay on. */
const char *steps_set (cuda *self, steps *s, int which, const heed_step *step);
void steps_drop (steps *s);

#pragma GCC visibility pop

#endif
