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


void *keep (keeper *k, size_t bytes) {
  kept *block = core_alloc(k->cx, sizeof *block + bytes);
  if (block == NULL) return NULL;
  *block = (kept){k->first, sizeof *block + bytes};
  k->first = block;
  return memset(block + 1, 0, bytes);
}


void keeper_free (keeper *k) {
  while (k->first != NULL) {
    kept *block = k->first;
    k->first = block->next;
    core_free(k->cx, block, block->bytes);
  }
}


bool list_room (heed_context *cx, void **at, int64_t n, int64_t *capacity, int64_t more,
                size_t size) {
  int64_t wanted = 2 * *capacity > n + more ? 2 * *capacity : n + more + 64;
  void *grown = core_alloc(cx, (size_t)wanted * size);
  if (grown == NULL) return false;
  if (n > 0) memcpy(grown, *at, (size_t)n * size);
  core_free(cx, *at, (size_t)*capacity * size);
  *at = grown;
  *capacity = wanted;
  return true;
}
