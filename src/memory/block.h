/*
** block.h - small blocks of the host's memory, cached: headers and nodes come and go with every
** operation.
*/

#ifndef block_h
#define block_h

#include "heed.h"

#pragma GCC visibility push(hidden)

#define BLOCK_CLASSES 64           /* 64 bytes to 4 KiB, in steps of 64 */

typedef struct block_cache {
  void *free[BLOCK_CLASSES];       /* each block starts with the next one of its class */
  size_t bytes;                    /* of all of them */
} block_cache;

void *core_alloc (heed_context *cx, size_t bytes);   /* uninitialised; keeps a failure */
void core_free (heed_context *cx, void *block, size_t bytes);        /* as many as were allocated */

/* Makes a block larger, and keeps what it holds; NULL: a failure, and the block is as before. */
void *core_resize (heed_context *cx, void *block, size_t from, size_t to);

/* Makes *list hold one more than n elements of 'size' bytes; false: no memory. */
bool core_grow (heed_context *cx, void **list, int64_t n, int64_t *capacity, size_t size);

void core_trim (heed_context *cx);                   /* gives cached blocks back */

/* Blocks that no cache holds: the context itself. */
void *block_take (const heed_host *host, size_t bytes);
void block_give (const heed_host *host, void *block, size_t bytes);

#pragma GCC visibility pop

#endif
