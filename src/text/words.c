/*
** words.c - how often each word is in the texts that a trainer is given.
*/

#include <string.h>

#include "memory/block.h"
#include "memory/failure.h"
#include "text/train.h"


static bool widen (heed_context *cx, word_counts *w) {
  uint64_t slots = w->slots > 0 ? 4 * w->slots : 1 << 12, at;
  uint32_t *slot = core_alloc(cx, slots * sizeof *slot);
  if (slot == NULL) return false;
  memset(slot, 0, slots * sizeof *slot);
  for (int64_t i = 0; i < w->words.n; i++) {
    const counted *c = &w->words.at[i];
    at = bytes_hash(w->bytes.at + c->at, c->n) & (slots - 1);
    while (slot[at] != 0) at = (at + 1) & (slots - 1);
    slot[at] = (uint32_t)i + 1;
  }
  core_free(cx, w->slot, w->slots * sizeof *slot);
  w->slot = slot;
  w->slots = slots;
  return true;
}


static bool add (heed_context *cx, word_counts *w, const char *word, size_t n, uint64_t at) {
  if (w->words.n >= INT32_MAX)
    return core_fail(cx, NULL, "fewer than 2^31 different words expected") != NULL;
  if (!ROOM(cx, &w->words, 1) || !ROOM(cx, &w->bytes, (int64_t)n)) return false;
  memcpy(w->bytes.at + w->bytes.n, word, n);
  w->words.at[w->words.n++] = (counted){(uint64_t)w->bytes.n, (uint32_t)n, 1};
  w->bytes.n += (int64_t)n;
  w->slot[at] = (uint32_t)w->words.n;
  return true;
}


bool words_count (heed_tokenizer *t, const char *word, size_t n) {
  word_counts *w = t->counts;
  if ((uint64_t)w->words.n >= w->slots / 2 && !widen(t->cx, w)) return false;
  uint64_t at = bytes_hash(word, n) & (w->slots - 1);
  for (; w->slot[at] != 0; at = (at + 1) & (w->slots - 1)) {
    counted *c = &w->words.at[w->slot[at] - 1];
    if (c->n != n || memcmp(w->bytes.at + c->at, word, n) != 0) continue;
    c->count++;
    return true;
  }
  return add(t->cx, w, word, n, at);
}


void words_free (heed_context *cx, word_counts *w) {
  LIST_FREE(cx, &w->words);
  LIST_FREE(cx, &w->bytes);
  core_free(cx, w->slot, w->slots * sizeof *w->slot);
}
