/*
** tokenizer.c - a tokenizer, from the text of tokenizer.json to the tokens of a text.
*/

#include <string.h>

#include "memory/context.h"
#include "text/forms.h"
#include "text/tokenizer.h"
#include "text/utf8.h"


bool refuse_part (heed_tokenizer *t, const json *j, const char *what, const json_value *v) {
  if (heed_error(t->cx) != NULL) return false;
  if (json_kind_is(v, HEED_JSON_TEXT))
    core_fail(t->cx, NULL, "%s '%.*s' is not known", what, (int)(v->length < 60 ? v->length : 60),
              json_text(j, v));
  else core_fail(t->cx, NULL, "%s is not of a known kind", what);
  return false;
}


/*
** {==================================================================
** Reading
** ===================================================================
*/

static bool is_absent (const json_value *v) { return v == NULL || v->kind == HEED_JSON_NULL; }


/* Is there a part of the type 'ByteLevel', alone or in a sequence? */
static bool has_byte_level (const json *j, const json_value *v, const char *list) {
  if (json_is(j, json_get(j, v, "type"), "ByteLevel")) return true;
  const json_value *parts = json_get(j, v, list);
  const json_value *each = json_kind_is(parts, HEED_JSON_ARRAY) ? json_inside(j, parts) : NULL;
  for (uint32_t i = 0; each != NULL && i < parts->length; i++, each = json_next(j, each))
    if (json_is(j, json_get(j, each, "type"), "ByteLevel")) return true;
  return false;
}


/* The token that texts are padded with, by its name or else by its id. */
static void read_padding (heed_tokenizer *t, const json *j, const json_value *v) {
  const json_value *name = json_get(j, v, "pad_token");
  int64_t id;
  t->padding = NO_ID;
  if (json_kind_is(name, HEED_JSON_TEXT))
    t->padding = table_find(t, &t->by_name, json_text(j, name), name->length);
  if (t->padding == NO_ID && json_integer(j, json_get(j, v, "pad_id"), &id) && id < t->count &&
      t->tokens[id].name.at != NULL)
    t->padding = (uint32_t)id;
}


/* Which side of a text that is too long is left out, written "Left" or "left". */
static bool read_truncation (heed_tokenizer *t, const json *j, const json_value *v) {
  const json_value *side = json_get(j, v, "direction");
  t->left = json_is(j, side, "Left") || json_is(j, side, "left");
  if (t->left || is_absent(side) || json_is(j, side, "Right") || json_is(j, side, "right"))
    return true;
  return refuse_part(t, j, "the truncation's direction", side);
}


static bool read_parts (heed_tokenizer *t, const json *j) {
  const json_value *root = j->values.at, *model = json_get(j, root, "model");
  const json_value *added = json_get(j, root, "added_tokens");
  const json_value *before = json_get(j, root, "pre_tokenizer");
  if (is_absent(added)) added = NULL;
  unicode_open(&t->u);
  form_open(&t->u);
  t->byte_level = has_byte_level(j, before, "pretokenizers");
  if (!normalize_read(t, j, json_get(j, root, "normalizer")) ||
      !vocabulary_read(t, j, model, added)) return false;
  read_padding(t, j, json_get(j, root, "padding"));
  return read_truncation(t, j, json_get(j, root, "truncation")) && added_read(t, j, added) &&
         model_read(t, j, model) && split_read(t, j, before) &&
         template_read(t, j, json_get(j, root, "post_processor")) &&
         decode_read(t, j, json_get(j, root, "decoder"));
}


heed_tokenizer *heed_tokenizer_read (heed_context *cx, const char *text, size_t n) {
  json j;
  if (cx == NULL || !core_given(cx, "tokenizer", "a text of JSON", text) ||
      !json_read(cx, &j, text, n)) return NULL;
  heed_tokenizer *t = core_alloc(cx, sizeof *t);
  if (t != NULL) {
    memset(t, 0, sizeof *t);
    t->cx = t->memory.cx = cx;
    if (!read_parts(t, &j)) {
      heed_tokenizer_drop(t);
      t = NULL;
    }
  }
  json_free(&j);
  return t;
}


void heed_tokenizer_drop (heed_tokenizer *t) {
  if (t == NULL) return;
  heed_context *cx = t->cx;
  LIST_FREE(cx, &t->single);
  LIST_FREE(cx, &t->pair);
  LIST_FREE(cx, &t->ids);
  LIST_FREE(cx, &t->offsets);
  LIST_FREE(cx, &t->result);
  LIST_FREE(cx, &t->result_offsets);
  LIST_FREE(cx, &t->result_types);
  LIST_FREE(cx, &t->slices);
  LIST_FREE(cx, &t->symbols);
  LIST_FREE(cx, &t->joins);
  for (int i = 0; i < MOST_SPLITTERS; i++) LIST_FREE(cx, &t->mapped[i]);
  unigram_free(t);
  normalize_free(t);
  decode_free(t);
  keeper_free(&t->memory);
  core_free(cx, t, sizeof *t);
}

/* }================================================================== */


/*
** {==================================================================
** Encoding
** ===================================================================
*/

bool give_token (heed_tokenizer *t, uint32_t id, int64_t from, int64_t to) {
  const origin *origins = t->now.origins;
  if (!ROOM(t->cx, &t->ids, 1) || !ROOM(t->cx, &t->offsets, 2)) return false;
  t->ids.at[t->ids.n++] = id;
  t->offsets.at[t->offsets.n++] = origins != NULL ? origins[from].from : t->now.shift + from;
  t->offsets.at[t->offsets.n++] = origins != NULL ? origins[to - 1].end : t->now.shift + to;
  return true;
}


/* The text between tokens that are found as they are is normalized, and searched again. */
static bool encode_part (heed_tokenizer *t, bytes from, bytes end) {
  passage whole = t->now;
  t->now = (passage){.from = from, .end = end, .shift = from - whole.from};
  t->section = t->now.shift;
  bool good = normalize(t, &t->now) &&
              added_split(t, 1, t->now.from, t->now.end, split_words);
  t->now = whole;
  return good;
}


static bool encode (heed_tokenizer *t, const char *text, size_t n) {
  t->now = (passage){.from = (bytes)text, .end = (bytes)text + n};
  normalize_begin(t, (int64_t)n);
  return added_split(t, 0, t->now.from, t->now.end, encode_part);
}


/* The offsets of a token that is a part of a character are those of the whole character. */
static bool widen (heed_tokenizer *t, int64_t first, const char *text_at, size_t n) {
  int64_t *offset = t->offsets.at + 2 * first, count = t->ids.n - first;
  bytes text = (bytes)text_at;
  for (int64_t i = 0; i < 2 * count; i++) {
    if (!text_polls(t->cx, i)) return false;
    bytes p = text + offset[i], end = text + n, from;
    uint32_t point;
    if (p == text || p == end || (*p & 0xc0) != 0x80) continue;
    for (from = p - 1; from > text && p - from < 3 && (*from & 0xc0) == 0x80; ) from--;
    int length = utf8_get(from, end, &point);
    if (from + length > p) offset[i] = (i % 2 == 0 ? from : from + length) - text;
  }
  return true;
}


bool heed_tokenize (heed_tokenizer *t, const char *text, size_t n, const char *pair, size_t npair,
                    const heed_tokenizing *how, heed_tokens *tokens) {
  static const heed_tokenizing zeros;
  if (t == NULL || !core_given(t->cx, "tokenize", "a place for tokens", tokens)) return false;
  if (how == NULL) how = &zeros;
  if (n > 0 && !core_given(t->cx, "tokenize", "a text", text)) return false;
  if (how->nparts > 0 && !core_given(t->cx, "tokenize", "a list of parts", how->parts))
    return false;
  if (text == NULL) text = "";
  t->parse = how->parse;
  t->parts = how->parts;
  t->nparts = how->nparts;
  t->ids.n = t->offsets.n = 0;
  if (!encode(t, text, n) || !widen(t, 0, text, n)) return false;
  t->nparts = 0;                           /* those were of the first text */
  int64_t first = t->ids.n;
  if (pair != NULL && (!encode(t, pair, npair) || !widen(t, first, pair, npair))) return false;
  if (!template_fill(t, how, first, pair != NULL)) return false;
  *tokens = (heed_tokens){t->result.n, t->result.at, t->result_offsets.at, t->result_types.at};
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Tokens
** ===================================================================
*/

static const token *token_at (const heed_tokenizer *t, int64_t id) {
  bool known = t != NULL && id >= 1 && id <= t->count && t->tokens[id - 1].name.at != NULL;
  return known ? &t->tokens[id - 1] : NULL;
}


const char *heed_token_name (const heed_tokenizer *t, int64_t id, size_t *n) {
  const token *k = token_at(t, id);
  if (k == NULL || !core_given(t->cx, "token_name", "a place for the length", n)) return NULL;
  *n = k->name.n;
  return k->name.at;
}


bool heed_token_is_special (const heed_tokenizer *t, int64_t id) {
  const token *k = token_at(t, id);
  return k != NULL && k->special;
}


int64_t heed_token_id (const heed_tokenizer *t, const char *name, size_t n) {
  if (t == NULL || (n > 0 && !core_given(t->cx, "token_id", "a name", name))) return 0;
  uint32_t id = table_find(t, &t->by_name, n > 0 ? name : "", n);
  return id != NO_ID ? (int64_t)id + 1 : 0;
}


int64_t heed_token_padding (const heed_tokenizer *t) {
  return t != NULL && t->padding != NO_ID ? (int64_t)t->padding + 1 : 0;
}


bool heed_tokenizer_is_left (const heed_tokenizer *t) { return t != NULL && t->left; }


int64_t heed_token_unknown (const heed_tokenizer *t) {
  return t != NULL && t->unknown != NO_ID ? (int64_t)t->unknown + 1 : 0;
}


int64_t heed_token_count (const heed_tokenizer *t) { return t != NULL ? t->count : 0; }

/* }================================================================== */
