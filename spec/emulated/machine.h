/*
** machine.h - what the parts of the emulated GPU share: emulate.cc runs kernels, emulate_device.cc
** has memory, emulate_stream.cc the work that waits in streams, emulate_copy.cc copies of kernels.
*/

#ifndef emulated_machine_h
#define emulated_machine_h

#include "cuda/runtime.h"

#pragma GCC visibility push(hidden)

#define MACHINE_SHARED 101376      /* bytes for a block: what all GPUs from 8.0 on have */
#define MACHINE_INVALID 1          /* failures, by CUDA's numbers */
#define MACHINE_LOST 719
#define MACHINE_IN_CAPTURE 900

/* Runs a launch to its end: NULL, or what went wrong (until the next one). */
const char *machine_run (dim3 blocks, dim3 threads, size_t shared, void (*run) (void *),
                         void *call);

/* The copies of the thread that runs: it ends; those of all threads: a kernel has failed. */
void machine_end_copies (void);
void machine_forget_copies (void);

/* Around every function of runtime.h: one at a time, counted; 'begin' may fail. */
int machine_begin (void);
int machine_end (int code);
int machine_lose (const char *why);    /* every later call fails */
bool machine_asynchronous (void);      /* does work wait in its stream? */
int machine_current (void);            /* the device of this thread: a context is made if need be */

void machine_open (void);              /* device memory can be accessed */
void machine_close (void);             /* device memory can no longer be accessed */
int machine_free (void *data);         /* device memory */
bool machine_reaches (const void *data, size_t bytes);   /* of a device, or pinned */

int machine_run_device (int index);    /* all work that waits */
int machine_end_captures (void);       /* a wait for devices: refused, and ends captures, if any */

#pragma GCC visibility pop

#endif
