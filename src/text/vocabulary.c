/*
** vocabulary.c - tokens by id, by name, and by the bytes that they stand for.
*/

#include <string.h>

#include "memory/failure.h"
#include "text/tokenizer.h"
#include "text/utf8.h"


uint64_t bytes_hash (const char *p, size_t n) {
  uint64_t h = n * 0x9e3779b97f4a7c15u, word;
  for (; n >= 8; n -= 8, p += 8) {
    memcpy(&word, p, 8);
    h = (h ^ word) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  }
  for (word = 0; n > 0; n--) word = word << 8 | (unsigned char)*p++;
  h = (h ^ word) * 0xc4ceb9fe1a85ec53u;
  return h ^ h >> 29;
}


static span key_of (const heed_tokenizer *t, const id_table *table, uint32_t id) {
  span key = table->raw ? t->tokens[id].raw : t->tokens[id].name;
  return (span){key.at + table->skip, key.n - table->skip};
}


/* Where a key stands in the table, or the free slot where it would. */
static uint32_t slot_of (const heed_tokenizer *t, const id_table *table, span wanted) {
  uint32_t at = (uint32_t)bytes_hash(wanted.at, wanted.n) & (table->slots - 1);
  for (; table->slot[at] != 0; at = (at + 1) & (table->slots - 1)) {
    span key = key_of(t, table, table->slot[at] - 1);
    if (key.n == wanted.n && memcmp(key.at, wanted.at, key.n) == 0) break;
  }
  return at;
}


/* A free slot is 0, which makes NO_ID. */
uint32_t table_find (const heed_tokenizer *t, const id_table *table, const char *p, size_t n) {
  if (n >= UINT32_MAX) return NO_ID;
  return table->slot[slot_of(t, table, (span){p, (uint32_t)n})] - 1;
}


/* Of tokens with the same bytes the first one stays. */
static void table_add (const heed_tokenizer *t, id_table *table, uint32_t id) {
  uint32_t at = slot_of(t, table, key_of(t, table, id));
  if (table->slot[at] == 0) table->slot[at] = id + 1;
}


static bool table_open (heed_tokenizer *t, id_table *table, bool raw, uint32_t n) {
  *table = (id_table){.slots = 16, .raw = raw};
  while (table->slots / 2 < n) table->slots *= 2;
  table->slot = keep(&t->memory, table->slots * sizeof *table->slot);
  return table->slot != NULL;
}


static bool fail (heed_tokenizer *t, const char *what, span name) {
  core_fail(t->cx, NULL, "%s, got '%.*s'", what, (int)(name.n < 80 ? name.n : 80), name.at);
  return false;
}


static span span_of (const json *j, const json_value *v) {
  return (span){json_text(j, v), v->length};
}


/* The byte that a character of byte-level tokens stands for, or -1: printable characters of Latin-1
   are themselves, the others are U+0100 and on, in order. */
int byte_of (uint32_t point) {
  static const struct { uint32_t first, byte, n; } others[] = {
    {0x100, 0, 33}, {0x121, 127, 34}, {0x143, 173, 1}
  };
  bool itself = (point > 32 && point < 127) || (point > 160 && point < 256 && point != 173);
  if (itself) return (int)point;
  for (int i = 0; i < 3; i++)
    if (point >= others[i].first && point < others[i].first + others[i].n)
      return (int)(others[i].byte + point - others[i].first);
  return -1;
}


uint32_t point_of (unsigned char byte) {
  uint32_t point = 0x100;
  if (byte_of(byte) == byte) return byte;
  while (byte_of(point) != byte) point++;
  return point;
}


bool name_bytes (span name, char *to, uint32_t *n) {
  bytes p = (bytes)name.at, end = p + name.n;
  for (*n = 0; p < end; ) {
    uint32_t point;
    p += utf8_get(p, end, &point);
    int byte = byte_of(point);
    if (byte < 0) return false;
    to[(*n)++] = (char)byte;
  }
  return true;
}


static bool count_id (heed_tokenizer *t, uint32_t id) {
  if (id >= t->count) t->count = id + 1;
  return true;
}


static bool take_id (heed_tokenizer *t, const json *j, const json_value *v, span name,
                     uint32_t *id) {
  int64_t n;
  if (!json_integer(j, v, &n) || n >= (int64_t)j->size || n >= INT32_MAX)
    return fail(t, "a token's id below the file's size expected", name);
  return count_id(t, *id = (uint32_t)n);
}


/* Calls 'take' for each token of the model's vocabulary, and each one that was added. */
typedef bool (*taker) (heed_tokenizer *t, const json *j, span name, uint32_t id, char **room,
                       const json_value *added);

static bool each_token (heed_tokenizer *t, const json *j, const json_value *model,
                        const json_value *added, taker take, char *room) {
  const json_value *vocabulary = json_get(j, model, "vocab"), *v;
  bool listed = vocabulary->kind == HEED_JSON_ARRAY;    /* of pairs, whose ids are their places */
  uint32_t id;
  v = json_inside(j, vocabulary);
  for (uint32_t i = 0; i < vocabulary->length; i++) {
    const json_value *name = listed ? json_inside(j, v) : v, *value = json_next(j, v);
    if (listed && (v->kind != HEED_JSON_ARRAY || v->length != 2 || name->kind != HEED_JSON_TEXT))
      return fail(t, "a piece and its score expected", (span){"another value", 13});
    if (listed ? !count_id(t, id = i) : !take_id(t, j, value, span_of(j, name), &id)) return false;
    if (take != NULL && !take(t, j, span_of(j, name), id, &room, NULL)) return false;
    v = listed ? value : json_next(j, value);
  }
  v = added != NULL ? json_inside(j, added) : NULL;
  for (uint32_t i = 0; v != NULL && i < added->length; i++, v = json_next(j, v)) {
    const json_value *name = json_get(j, v, "content");
    if (!json_kind_is(name, HEED_JSON_TEXT) || name->length == 0)
      return fail(t, "an added token with its content expected", (span){"none", 4});
    if (!take_id(t, j, json_get(j, v, "id"), span_of(j, name), &id)) return false;
    if (take != NULL && !take(t, j, span_of(j, name), id, &room, v)) return false;
  }
  return true;
}


static bool take_token (heed_tokenizer *t, const json *j, span name, uint32_t id, char **room,
                        const json_value *added) {
  token *k = &t->tokens[id];
  bool again = k->name.at != NULL;
  if (again && (k->name.n != name.n || memcmp(k->name.at, name.at, name.n) != 0))
    return fail(t, "one token for an id expected", name);
  if (!again) {
    memcpy(*room, name.at, name.n);
    k->name = (span){*room, name.n};
    *room += name.n;
    k->raw.at = *room;
    if (!t->byte_level || !name_bytes(name, *room, &k->raw.n)) k->raw = k->name;
    else *room += k->raw.n;
  }
  k->own = k->own || added == NULL;
  k->added = k->added || added != NULL;
  k->special = k->special || (added != NULL && json_true(json_get(j, added, "special")));
  return true;
}


bool vocabulary_read (heed_tokenizer *t, const json *j, const json_value *model,
                      const json_value *added) {
  const json_value *vocabulary = json_get(j, model, "vocab");
  bool scored = json_is(j, json_get(j, model, "type"), "Unigram");
  if (!json_kind_is(vocabulary, scored ? HEED_JSON_ARRAY : HEED_JSON_OBJECT))
    return fail(t, "a table of tokens as 'vocab' expected", (span){"none", 4});
  if (added != NULL && added->kind != HEED_JSON_ARRAY)
    return fail(t, "a list as 'added_tokens' expected", (span){"none", 4});
  if (!each_token(t, j, model, added, NULL, NULL)) return false;
  t->tokens = keep(&t->memory, t->count * sizeof *t->tokens);
  char *room = keep_room(&t->memory, (t->byte_level ? 2 : 1) * j->size);
  if (t->tokens == NULL || room == NULL) return false;
  t->names = room;
  if (!each_token(t, j, model, added, take_token, room)) return false;
  if (!table_open(t, &t->by_name, false, t->count)) return false;
  for (uint32_t id = 0; id < t->count; id++)
    if (t->tokens[id].name.at != NULL) table_add(t, &t->by_name, id);
  return true;
}


uint32_t own_find (const heed_tokenizer *t, const char *p, size_t n) {
  uint32_t id = table_find(t, &t->by_name, p, n);
  return id != NO_ID && t->tokens[id].own ? id : NO_ID;
}


bool own_read (heed_tokenizer *t, id_table *table, span prefix) {
  if (!table_open(t, table, true, t->count)) return false;
  table->skip = prefix.n;
  for (uint32_t id = 0; id < t->count; id++) {
    const token *k = &t->tokens[id];
    bool begins = k->own && k->raw.n >= prefix.n && memcmp(k->raw.at, prefix.at, prefix.n) == 0;
    if (begins) table_add(t, table, id);
  }
  return true;
}
