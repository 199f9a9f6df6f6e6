/*
** transfer.h - copies between the host's memory and a card's.
*/

#ifndef cuda_transfer_h
#define cuda_transfer_h

#include "cuda/cuda.h"

#pragma GCC visibility push(hidden)

/* 'from' may go as soon as it returns; while capturing, what was sent stays with the recording. */
const char *transfer_up (cuda *self, void *to, const void *from, size_t bytes);
const char *transfer_down (cuda *self, void *to, const void *from, size_t bytes);
void transfer_close (staging *s);

/* Pinned memory that a recording owns. */
typedef struct held held;
held *transfer_held (cuda *self);                /* what was sent while capturing, and forgets it */
void transfer_drop (held *h);

#pragma GCC visibility pop

#endif
