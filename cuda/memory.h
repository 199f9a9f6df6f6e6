/*
** memory.h - device memory: pieces of slabs, kept for the next who asks.
*/

#ifndef cuda_memory_h
#define cuda_memory_h

#include "cuda/core.h"
#include "cuda/runtime.h"

#pragma GCC visibility push(hidden)

typedef struct memory memory;
typedef struct arena arena;        /* slabs of one purpose: eager work, or one recording */

memory *memory_open (cuda_stream s);                     /* NULL: no memory */
void memory_close (memory *m);                           /* with all slabs */
void *memory_take (memory *m, size_t bytes);             /* aligned to 512 bytes, or NULL */
int memory_code (const memory *m);     /* of a take that gave NULL; 0: the runtime was not asked */
void memory_give (memory *m, void *data);                /* for work later in the stream */
void memory_trim (memory *m);                            /* slabs that nobody uses go back */
void memory_limit (memory *m, size_t bytes);             /* 0: what the card has */
void memory_account_of (memory *m, device_memory *numbers);
void memory_reset_peak (memory *m);

/* Between these two, pieces come from an arena of their own, which nobody else gets … */
bool memory_begin_arena (memory *m);
arena *memory_end_arena (memory *m);
/* … before it is let go and its last piece was given back. */
void memory_let_go (memory *m, arena *a);

#pragma GCC visibility pop

#endif
