/*
** mapping.h - files in memory: pages are read when they are first touched, shared with all that map
** the same file, and copied for this process when it first writes them.
*/

#ifndef mapping_h
#define mapping_h

#include "heed.h"

#pragma GCC visibility push(hidden)

/* The bytes at 'at' of n that the mapping has; NULL after a failure. */
void *mapping_bytes (heed_mapping *m, size_t at, size_t n);
void mapping_keep (heed_mapping *m);
heed_context *mapping_context (const heed_mapping *m);

#pragma GCC visibility pop

#endif
