/*
** memory.c - memory of a tokenizer: blocks that live as long as it, and lists that grow.
*/

#include <string.h>

#include "memory/context.h"
#include "text/memory.h"

typedef struct kept {
  struct kept *next;
  size_t bytes;
} kept;


void *keep_room (keeper *k, size_t bytes) {
  kept *block = core_alloc(k->cx, sizeof *block + bytes);
  if (block == NULL) return NULL;
  *block = (kept){k->first, sizeof *block + bytes};
  k->first = block;
  return block + 1;
}


void *keep (keeper *k, size_t bytes) {
  void *block = keep_room(k, bytes);
  return block != NULL ? memset(block, 0, bytes) : NULL;
}


void keeper_free (keeper *k) {
  while (k->first != NULL) {
    kept *block = k->first;
    k->first = block->next;
    core_free(k->cx, block, block->bytes);
  }
}


bool list_room (heed_context *cx, void **at, int64_t *capacity, int64_t wanted, size_t size) {
  if (wanted < 2 * *capacity) wanted = 2 * *capacity;
  void *grown = core_resize(cx, *at, (size_t)*capacity * size, (size_t)wanted * size);
  if (grown == NULL) return false;
  *at = grown;
  *capacity = wanted;
  return true;
}
