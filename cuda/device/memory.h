/*
** memory.h - device memory: a cache of slabs, which are handed out in pieces.
*/

#ifndef cuda_memory_h
#define cuda_memory_h

#include "cuda/core.h"
#include "cuda/runtime.h"

#pragma GCC visibility push(hidden)

typedef struct memory memory;
typedef struct arena arena;        /* slabs of one purpose: eager work, or one capture */

memory *memory_open (cuda_stream s);                     /* NULL: no memory of the host */
void memory_close (memory *m);                           /* with all slabs */
void *memory_take (memory *m, size_t bytes);             /* aligned to 512 bytes, or NULL */
int memory_code (const memory *m);     /* the runtime's, after a take gave NULL; 0: it was not
                                          called */
void memory_give (memory *m, void *data);                /* for reuse later in the stream */
size_t memory_trim (memory *m);                          /* frees unused slabs: their bytes */
void memory_limit (memory *m, size_t bytes);             /* 0: all that the device has */
void memory_account_of (memory *m, heed_device_memory *numbers);
void memory_reset_peak (memory *m);

/* Between begin and end, pieces come from a new arena, which no other work uses. */
bool memory_begin_arena (memory *m);
arena *memory_end_arena (memory *m);
/* The slabs of an arena are freed when it is dropped and its last piece was given back. */
void memory_drop_arena (memory *m, arena *a);

#pragma GCC visibility pop

#endif
