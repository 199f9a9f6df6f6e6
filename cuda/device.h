/*
** device.h - what the door asks of a card: see device.cu.
*/

#ifndef cuda_device_h
#define cuda_device_h

#include "cuda/cuda.h"

#pragma GCC visibility push(hidden)

extern const char cuda_forked[];
bool cuda_is_forked (void);        /* is this a child, and cards were counted before? */
void cuda_watch_forks (void);

/* Sets the card of the thread; *before is the host's, for cuda_leave. NULL, or why not. */
const char *cuda_enter (cuda *self, int *before);
void cuda_leave (const cuda *self, int before);

void cuda_prepare (cuda *self);    /* the functions of its device */
const char *cuda_asynchronous_error (cuda *self);    /* raises what an earlier work reported */
const char *cuda_block (cuda *self);   /* where it is wished, waits for what was just given */

#pragma GCC visibility pop

#endif
