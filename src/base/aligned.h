/*
** aligned.h - data that is aligned for vectors, in a block that is not.
*/

#ifndef aligned_h
#define aligned_h

#include <stdint.h>

#define ALIGNMENT 64

/*
** Data in a block of ALIGNMENT bytes more, whose pointer stands before them. Blocks are aligned for
** pointers, so that one fits.
*/
static inline void *aligned_in (void *block) {
  char *data = (char *)block + ALIGNMENT - (uintptr_t)block % ALIGNMENT;
  ((void **)data)[-1] = block;
  return data;
}

static inline void *aligned_block (void *data) { return ((void **)data)[-1]; }

#endif
