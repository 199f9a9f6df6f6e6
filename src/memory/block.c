/*
** block.c - small blocks of the host's memory, cached by class of size.
*/

#include <stdlib.h>
#include <string.h>

#include "memory/context.h"

#define BLOCK_STEP 64
#define BLOCK_CACHE (HEED_EXACT ? 0 : (size_t)16 << 20)  /* most bytes cached */


static void *host_resize (const heed_host *host, void *block, size_t from, size_t to) {
  return host->resize != NULL ? host->resize(host->self, block, from, to) : realloc(block, to);
}


void *block_take (const heed_host *host, size_t bytes) { return host_resize(host, NULL, 0, bytes); }


void block_give (const heed_host *host, void *block, size_t bytes) {
  if (host->resize != NULL) host->resize(host->self, block, bytes, 0);
  else free(block);
}


static size_t small_class (size_t bytes) { return bytes == 0 ? 0 : (bytes - 1) / BLOCK_STEP; }


/* The size that is allocated, so that blocks of one class are alike. */
static size_t rounded (size_t bytes) {
  size_t class = small_class(bytes);
  if (HEED_EXACT) return bytes > 0 ? bytes : 1;
  return class < BLOCK_CLASSES ? (class + 1) * BLOCK_STEP : bytes;
}


static bool makes_room (heed_context *cx, size_t size) {
  memory_account *m = &cx->storages.account;
  if (account_fits(m, size)) return true;
  heed_memory_trim(cx);
  if (account_fits(m, size)) return true;
  m->pressed = 0;                  /* the next call asks the host first */
  return account_refuse(cx, NULL, size, "a node or a list");
}


/* A block of 'size' bytes with what 'block' of 'from' bytes holds; NULL: that stays as it is. */
static void *take_anew (heed_context *cx, void *block, size_t from, size_t size) {
  if (!makes_room(cx, size - from)) return NULL;
  void *taken = host_resize(&cx->host, block, from, size);
  if (taken == NULL) {
    heed_memory_trim(cx);
    taken = host_resize(&cx->host, block, from, size);
  }
  if (taken == NULL) return core_fail(cx, NULL, "not enough memory: %s", core_bytes(size).text);
  cx->storages.account.blocks += size - from;
  account_note_peak(&cx->storages.account);
  return taken;
}


static void give_back (heed_context *cx, void *block, size_t size) {
  cx->storages.account.blocks -= size;
  block_give(&cx->host, block, size);
}


void *core_alloc (heed_context *cx, size_t bytes) {
  size_t class = small_class(bytes);
  void *block = class < BLOCK_CLASSES ? cx->blocks.free[class] : NULL;
  if (block == NULL) return take_anew(cx, NULL, 0, rounded(bytes));
  memcpy(&cx->blocks.free[class], block, sizeof block);   /* a free block starts with the next */
  cx->blocks.bytes -= rounded(bytes);
  return block;
}


void core_free (heed_context *cx, void *block, size_t bytes) {
  size_t class = small_class(bytes);
  if (block == NULL) return;
  if (class >= BLOCK_CLASSES || cx->blocks.bytes + rounded(bytes) > BLOCK_CACHE) {
    give_back(cx, block, rounded(bytes));
    return;
  }
  memcpy(block, &cx->blocks.free[class], sizeof block);
  cx->blocks.free[class] = block;
  cx->blocks.bytes += rounded(bytes);
}


/* A large block may stay where it is: its pages are not copied. */
void *core_resize (heed_context *cx, void *block, size_t from, size_t to) {
  if (small_class(from) >= BLOCK_CLASSES) return take_anew(cx, block, rounded(from), rounded(to));
  void *taken = core_alloc(cx, to);
  if (taken == NULL) return NULL;
  if (from > 0) memcpy(taken, block, from);
  core_free(cx, block, from);
  return taken;
}


bool core_grow (heed_context *cx, void **list, int64_t n, int64_t *capacity, size_t size) {
  if (n < *capacity) return true;
  int64_t more = *capacity == 0 ? 64 : 2 * *capacity;
  void *grown = core_resize(cx, *list, (size_t)*capacity * size, (size_t)more * size);
  if (grown == NULL) return false;
  *list = grown;
  *capacity = more;
  return true;
}


void core_trim (heed_context *cx) {
  for (size_t class = 0; class < BLOCK_CLASSES; class++) {
    void *block;
    while ((block = cx->blocks.free[class]) != NULL) {
      memcpy(&cx->blocks.free[class], block, sizeof block);
      give_back(cx, block, (class + 1) * BLOCK_STEP);
    }
  }
  cx->blocks.bytes = 0;
}
