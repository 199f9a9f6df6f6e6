/*
** wordpiece.c - WordPiece: a word is cut from left to right into the longest tokens there are.
** Pieces behind the first have a prefix in the vocabulary.
*/

#include <string.h>

#include "memory/context.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

#define POLLED_BYTES (1 << 20)     /* looked up between two questions whether to stop */


static bool read_prefix (heed_tokenizer *t, const json *j, const json_value *v) {
  t->prefix = (span){"##", 2};
  if (v == NULL) return true;
  if (v->kind != HEED_JSON_TEXT) return refuse_part(t, j, "the WordPiece model: the prefix", v);
  char *copy = keep(&t->memory, v->length);
  if (copy == NULL) return false;
  memcpy(copy, json_text(j, v), v->length);
  t->prefix = (span){copy, v->length};
  return true;
}


static bool read_limit (heed_tokenizer *t, const json *j, const json_value *v) {
  t->word_most = 100;
  if (v == NULL || json_integer(j, v, &t->word_most)) return true;
  core_fail(t->cx, NULL, "the WordPiece model: a count as 'max_input_chars_per_word' expected");
  return false;
}


static bool read_unknown (heed_tokenizer *t, const json *j, const json_value *v) {
  bool given = json_kind_is(v, HEED_JSON_TEXT);
  t->unknown = given ? table_find(t, &t->by_name, json_text(j, v), v->length) : NO_ID;
  if (t->unknown != NO_ID) return true;
  return refuse_part(t, j, "the WordPiece model: the unk_token", v);
}


bool wordpiece_read (heed_tokenizer *t, const json *j, const json_value *model) {
  t->cut = wordpiece_cut;
  for (uint32_t id = 0; id < t->count; id++)
    if (t->tokens[id].own && t->tokens[id].raw.n > t->longest) t->longest = t->tokens[id].raw.n;
  return read_prefix(t, j, json_get(j, model, "continuing_subword_prefix")) &&
         read_limit(t, j, json_get(j, model, "max_input_chars_per_word")) &&
         read_unknown(t, j, json_get(j, model, "unk_token")) &&
         own_read(t, &t->by_raw, (span){"", 0}) && own_read(t, &t->continuing, t->prefix);
}


static bool is_too_long (const heed_tokenizer *t, bytes p, bytes end) {
  int64_t count = 0;
  if (end - p <= t->word_most) return false;
  for (uint32_t point; p < end && count <= t->word_most; count++) p += utf8_get(p, end, &point);
  return count > t->word_most;
}


/* The longest token that [p, end) begins with, and its length; NO_ID: there is none, or the call
   was stopped. */
static uint32_t find_longest (heed_tokenizer *t, const id_table *table, bytes p, bytes end,
                              uint32_t *n, bool *stopped) {
  int64_t looked = 0;
  *n = end - p < (int64_t)t->longest ? (uint32_t)(end - p) : t->longest;
  for (; *n > 0; (*n)--) {
    bool inside = p + *n < end && (p[*n] & 0xc0) == 0x80;
    uint32_t id = inside ? NO_ID : table_find(t, table, (const char *)p, *n);
    if (id != NO_ID) return id;
    if ((looked += *n) < POLLED_BYTES) continue;
    if ((*stopped = core_poll(t->cx, NULL))) return NO_ID;
    looked = 0;
  }
  return NO_ID;
}


bool wordpiece_cut (heed_tokenizer *t, const char *word, size_t n) {
  bytes start = (bytes)word, end = start + n, p = start;
  bool known = !is_too_long(t, start, end), stopped = false;
  t->slices.n = 0;
  while (known && p < end) {
    uint32_t length;
    uint32_t id = find_longest(t, p == start ? &t->by_raw : &t->continuing, p, end, &length,
                               &stopped);
    known = id != NO_ID;
    if (known && !give_slice(t, id, length)) return false;
    p += length;
  }
  if (known || stopped) return !stopped;
  t->slices.n = 0;
  return give_slice(t, t->unknown, (uint32_t)n);
}
