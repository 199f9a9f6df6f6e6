/*
** block.c - small blocks of the host's memory, cached by class of size.
*/

#include <stdlib.h>
#include <string.h>

#include "memory/context.h"

#define BLOCK_STEP 64
#define BLOCK_CACHE (HEED_EXACT ? 0 : (size_t)16 << 20)  /* most bytes cached */


void *block_take (const heed_host *host, size_t bytes) {
  return host->resize != NULL ? host->resize(host->self, NULL, 0, bytes) : malloc(bytes);
}


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


static void *take_anew (heed_context *cx, size_t bytes) {
  size_t size = rounded(bytes);
  if (!makes_room(cx, size)) return NULL;
  void *block = block_take(&cx->host, size);
  if (block == NULL) {
    heed_memory_trim(cx);
    block = block_take(&cx->host, size);
  }
  if (block == NULL) return core_fail(cx, NULL, "not enough memory: %s", core_bytes(bytes).text);
  cx->storages.account.blocks += size;
  account_note_peak(&cx->storages.account);
  return block;
}


static void give_back (heed_context *cx, void *block, size_t size) {
  cx->storages.account.blocks -= size;
  block_give(&cx->host, block, size);
}


void *core_alloc (heed_context *cx, size_t bytes) {
  size_t class = small_class(bytes);
  void *block = class < BLOCK_CLASSES ? cx->blocks.free[class] : NULL;
  if (block == NULL) return take_anew(cx, bytes);
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


bool core_grow (heed_context *cx, void **list, int64_t n, int64_t *capacity, size_t size) {
  if (n < *capacity) return true;
  int64_t more = *capacity == 0 ? 64 : 2 * *capacity;
  void *grown = core_alloc(cx, (size_t)more * size);
  if (grown == NULL) return false;
  if (n > 0) memcpy(grown, *list, (size_t)n * size);
  core_free(cx, *list, (size_t)*capacity * size);
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
