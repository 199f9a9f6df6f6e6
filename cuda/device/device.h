/*
** device.h - what opens, drives and records on a device: see device.cu.
*/

#ifndef cuda_device_h
#define cuda_device_h

#include "cuda/cuda.h"

#pragma GCC visibility push(hidden)

extern const char cuda_forked[];
bool cuda_is_forked (void);        /* is this a child, and devices were counted before? */
void cuda_watch_forks (void);

/* Makes it the thread's device; *before is the host's, for cuda_leave. NULL, or why not. */
const char *cuda_enter (cuda *self, cuda_context *before);
void cuda_leave (const cuda *self, cuda_context before);

void cuda_prepare (cuda *self);    /* sets the functions of its device but 'close' */
extern const accelerator cuda_accelerator;    /* accelerator.cu: those of all devices */
const char *cuda_asynchronous_error (cuda *self);    /* what earlier work reported */

/* Pinned: what the host sees of a fault without asking the device. */
typedef struct fault_note {
  int raised;                      /* 0: there is none */
  struct fault_record seen;
} fault_note;

int cuda_clear_faults (cuda *self);    /* into the stream */
const char *cuda_block (cuda *self);   /* where this is set, waits for the latest work */

#pragma GCC visibility pop

#endif
