/*
** transfer.h - copies between the host's memory and a device's.
*/

#ifndef cuda_transfer_h
#define cuda_transfer_h

#include "cuda/cuda.h"

#pragma GCC visibility push(hidden)

/* 'from' may change as soon as it returns; a capture keeps what was sent meanwhile. */
const char *transfer_up (cuda *self, void *to, const void *from, size_t bytes);
const char *transfer_down (cuda *self, void *to, const void *from, size_t bytes);
void transfer_close (staging *s);

/* Pinned memory that a capture owns. */
typedef struct held held;
held *transfer_held (cuda *self);                /* what was sent while capturing: yours now */
void transfer_drop (held *h);

#pragma GCC visibility pop

#endif
