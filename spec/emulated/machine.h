/*
** machine.h - what the parts of the emulated GPU share: emulate.cc runs kernels, on the stacks of
** emulate_fibre.cc, emulate_device.cc has memory, emulate_stream.cc the work that waits in streams,
** emulate_race.cc sees which accesses to memory nothing orders, emulate_count.cc counts them,
** emulate_copy.cc has the copies of kernels.
*/

#ifndef emulated_machine_h
#define emulated_machine_h

#include "cuda/runtime.h"

#pragma GCC visibility push(hidden)

#define MACHINE_THREADS 1024       /* most of a block, whatever the limit is */
#define MACHINE_WARPS (MACHINE_THREADS / 32)
#define MACHINE_INVALID 1          /* failures, by CUDA's numbers */
#define MACHINE_LOST 719
#define MACHINE_IN_CAPTURE 900

/* Settings: see emulate_device.cc. */
enum { MACHINE_AS_READY, MACHINE_LOWEST, MACHINE_HIGHEST, MACHINE_RANDOM };
extern int64_t machine_order;      /* of warps; above MACHINE_RANDOM, other random ones */
/* Of a launch: threads of a block, bytes of dynamic shared memory, bytes of parameters. */
extern struct machine_limits { int64_t threads, shared, parameters; } machine_limits;

/* Runs a launch to its end: NULL, or what went wrong (until the next one). */
const char *machine_run (dim3 blocks, dim3 threads, size_t shared, const emulated_work *work);
int machine_thread (void);         /* that runs, of its block */

/* Stacks: 'body' runs on each, and does not return. */
typedef struct fibre fibre;
bool fibres_make (void (*body) (void));
void fibres_clear (void);          /* all of them idle and not started */
fibre *fibre_take (void);          /* an idle one */
void fibre_rest (void);            /* the current one is idle */
fibre *fibre_current (void);
void fibre_switch (fibre *to);     /* NULL: to the host */

/* Where a kernel is, and what orders its accesses to memory; nothing where it is not watched. */
void race_begin_launch (size_t shared, const void *kernel);
void race_end_launch (void);
void race_begin_block (void);
void race_end_block (void);
/* The threads, by bits of their warps, see all that one of them saw or did; which threads live. */
void race_join (const unsigned *members, const unsigned *live);

/* An access of the thread that runs, from a place of the program. */
void race_touch (const void *at, size_t bytes, bool writes, const void *place);
void race_unwrite (const void *at, size_t bytes, const void *place);
/* The function at this address. */
void race_name (const void *function, char *text, size_t bytes);

/* Where accesses are watched and to be counted. */
extern bool count_wanted;
void count_set (void);                 /* they are, from here on */
void count_begin_launch (const void *kernel, int threads, size_t shared);
void count_access (bool shared, uintptr_t at, size_t bytes, bool writes, const void *from);
void count_flush (void);
void count_report (const char *path);  /* appends */

/* The copies of the thread that runs: it ends; those of all threads: a kernel has failed. */
void machine_end_copies (void);
void machine_forget_copies (void);

/* Around every function of runtime.h: one at a time, counted; 'begin' may fail. */
int machine_begin (void);
void machine_enter (void);             /* the same, neither counted nor failing */
int machine_end (int code);
int machine_lose (const char *why);    /* every later call fails */
bool machine_asynchronous (void);      /* does work wait in its stream? */
int machine_current (void);            /* the device of this thread: a context is made if need be */

void machine_open (void);              /* device memory can be accessed */
void machine_close (void);             /* device memory can no longer be accessed */
int machine_free (void *data);         /* device memory */
char *machine_arena (int index, size_t *bytes);          /* all addresses of a device, or NULL */
bool machine_reaches (const void *data, size_t bytes);   /* of a device, or pinned */

int machine_run_device (int index);    /* all work that waits */
int machine_end_captures (void);       /* a wait for devices: refused, and ends captures, if any */

#pragma GCC visibility pop

#endif
