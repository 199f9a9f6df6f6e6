/*
** model.c - models: what cuts a word into tokens, and the words that were cut before.
*/

#include <stdio.h>
#include <string.h>

#include "memory/context.h"
#include "text/train.h"


/* Older files name no type; an option that no other model has tells it. */
static bool is_model (const json *j, const json_value *model, const char *name,
                      const char *option) {
  const json_value *type = json_get(j, model, "type");
  return type != NULL ? json_is(j, type, name) : json_get(j, model, option) != NULL;
}


/* Refuses ByteLevel beside a model that cuts characters: those of names are bytes here. */
static bool check_bytes (heed_tokenizer *t, const char *model) {
  if (!t->byte_level) return true;
  core_fail(t->cx, NULL, "the pre-tokenizer ByteLevel: the model BPE or WordLevel expected, got %s",
            model);
  return false;
}


bool model_read (heed_tokenizer *t, const json *j, const json_value *model) {
  t->cache = keep(&t->memory, CACHE_SLOTS * sizeof *t->cache);
  if (t->cache == NULL) return false;
  if (is_model(j, model, "BPE", "merges")) return bpe_read(t, j, model);
  if (is_model(j, model, "Unigram", "unk_id"))
    return check_bytes(t, "Unigram") && unigram_read(t, j, model);
  if (is_model(j, model, "WordPiece", "max_input_chars_per_word"))
    return check_bytes(t, "WordPiece") && wordpiece_read(t, j, model);
  if (json_is(j, json_get(j, model, "type"), "WordLevel")) return wordlevel_read(t, j, model);
  return refuse_part(t, j, "the model", json_get(j, model, "type"));
}


/* Tokens of bytes, for characters that have none. */
void model_fallback (heed_tokenizer *t, const json *j, const json_value *model) {
  bool falls = json_true(json_get(j, model, "byte_fallback"));
  char name[8];
  for (int i = 0; i < 256; i++) {
    snprintf(name, sizeof name, "<0x%02X>", i);
    t->byte_id[i] = falls ? table_find(t, &t->by_name, name, 6) : NO_ID;
  }
}


bool give_slice (heed_tokenizer *t, uint32_t id, uint32_t n) {
  if (!ROOM(t->cx, &t->slices, 1)) return false;
  t->slices.at[t->slices.n++] = (slice){id, n};
  return true;
}


/* A slice without bytes has those of the one before it. */
static bool give_cached (heed_tokenizer *t, const cached *c, int64_t at) {
  int64_t from = at;
  for (int i = 0; i < c->n; i++) {
    if (c->bytes[i] > 0) from = at;
    at += c->bytes[i];
    if (!give_token(t, c->id[i], from, at)) return false;
  }
  return true;
}


static bool give_slices (heed_tokenizer *t, int64_t at) {
  int64_t from = at;
  for (int64_t i = 0; i < t->slices.n; i++) {
    const slice *u = &t->slices.at[i];
    if (u->n > 0) from = at;
    at += u->n;
    if (!give_token(t, u->id, from, at) || !text_polls(t->cx, i)) return false;
  }
  return true;
}


static void remember (const heed_tokenizer *t, cached *c, const char *word, size_t n) {
  if (n > CACHE_KEY || t->slices.n > CACHE_IDS) return;
  c->length = (uint8_t)n;
  c->parse = t->parse;
  c->n = (uint8_t)t->slices.n;
  memcpy(c->key, word, n);
  for (int i = 0; i < c->n; i++) {
    c->id[i] = t->slices.at[i].id;
    c->bytes[i] = (uint8_t)t->slices.at[i].n;
  }
}


bool word_encode (heed_tokenizer *t, const char *word, size_t n, int64_t at) {
  if (n == 0) return true;
  if (n >= INT32_MAX) return core_fail(t->cx, NULL, "a word below 2 GiB expected") != NULL;
  if ((++t->words & 0xff) == 0 && core_poll(t->cx, NULL)) return false;
  if (t->counts != NULL) return words_count(t, word, n);
  cached *c = &t->cache[n <= CACHE_KEY ? bytes_hash(word, n) & (CACHE_SLOTS - 1) : 0];
  if (c->length == n && c->parse == t->parse && memcmp(c->key, word, n) == 0)
    return give_cached(t, c, at);
  if (!t->cut(t, word, n)) return false;
  remember(t, c, word, n);
  return give_slices(t, at);
}
