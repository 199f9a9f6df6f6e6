/*
** template.c - post-processors: special tokens around one text or two, and where tokens begin.
*/

#include <string.h>

#include "memory/context.h"
#include "text/tokenizer.h"

#define MOST_PIECES 4096           /* of a text or a pair with what is around, */
#define MOST_TEXTS 8               /* and how often texts stand there */


/*
** {==================================================================
** Reading
** ===================================================================
*/

/* A piece whose tokens are of the text 'of', from 0. */
static bool add (heed_tokenizer *t, template *to, piece_kind kind, int64_t id, uint32_t of) {
  if (kind == PIECE_TOKEN && (id >= t->count || t->tokens[id].name.at == NULL)) {
    core_fail(t->cx, NULL, "the post-processor: a token expected, got the id %lld", (long long)id);
    return false;
  }
  int64_t texts = 0;
  for (int64_t i = 0; kind != PIECE_TOKEN && i < to->n; i++) texts += to->at[i].kind != PIECE_TOKEN;
  if (to->n >= MOST_PIECES || texts >= MOST_TEXTS)
    return core_fail(t->cx, NULL, "the post-processor: at most %d pieces expected, of which %d are "
                     "texts", MOST_PIECES, MOST_TEXTS) != NULL;
  if (!ROOM(t->cx, to, 1)) return false;
  to->at[to->n++] = (piece){kind, (uint32_t)id, of};
  return true;
}


/* All ids of a special token of the template. */
static bool add_special (heed_tokenizer *t, const json *j, template *to, const json_value *tokens,
                         const json_value *name, uint32_t of) {
  const json_value *v = tokens != NULL ? json_inside(j, tokens) : NULL;
  int64_t id;
  for (uint32_t i = 0; v != NULL && i < tokens->length; i++) {
    const json_value *value = json_next(j, v), *ids = json_get(j, value, "ids");
    bool is = name->length == v->length && json_kind_is(ids, HEED_JSON_ARRAY) &&
              memcmp(json_text(j, v), json_text(j, name), v->length) == 0;
    const json_value *each = is ? json_inside(j, ids) : NULL;
    for (uint32_t k = 0; is && k < ids->length; k++, each = json_next(j, each))
      if (!json_integer(j, each, &id) || !add(t, to, PIECE_TOKEN, id, of)) return false;
    if (is) return true;
    if (!text_polls(t->cx, i)) return false;
    v = json_next(j, value);
  }
  return refuse_part(t, j, "the special token of the post-processor", name);
}


/* Of which text a piece is: 0 unless the file says so. */
static bool read_type (heed_tokenizer *t, const json *j, const json_value *v, uint32_t *of) {
  v = json_get(j, v, "type_id");
  int64_t type = 0;
  if (v != NULL && (!json_integer(j, v, &type) || type < 0 || type > MOST_TYPE))
    return refuse_part(t, j, "the template's type_id", v);
  *of = (uint32_t)type;
  return true;
}


static bool read_pieces (heed_tokenizer *t, const json *j, template *to, const json_value *list,
                         const json_value *tokens) {
  if (!json_kind_is(list, HEED_JSON_ARRAY)) return refuse_part(t, j, "the template", list);
  const json_value *v = json_inside(j, list);
  for (uint32_t i = 0; i < list->length; i++, v = json_next(j, v)) {
    const json_value *sequence = json_get(j, v, "Sequence"), *text = json_get(j, sequence, "id");
    const json_value *special = json_get(j, v, "SpecialToken");
    const json_value *name = json_get(j, special, "id");
    bool first = json_is(j, text, "A"), known = first || json_is(j, text, "B");
    uint32_t of = 0;
    if (!read_type(t, j, sequence != NULL ? sequence : special, &of)) return false;
    if (known && !add(t, to, first ? PIECE_FIRST : PIECE_SECOND, 0, of)) return false;
    if (known) continue;
    if (!json_kind_is(name, HEED_JSON_TEXT)) return refuse_part(t, j, "the template's piece", v);
    if (!add_special(t, j, to, tokens, name, of)) return false;
  }
  return true;
}


static bool read_template (heed_tokenizer *t, const json *j, const json_value *v) {
  const json_value *tokens = json_get(j, v, "special_tokens");
  t->single.n = t->pair.n = 0;
  if (tokens != NULL && tokens->kind != HEED_JSON_OBJECT)
    return refuse_part(t, j, "the template's special tokens", tokens);
  return read_pieces(t, j, &t->single, json_get(j, v, "single"), tokens) &&
         read_pieces(t, j, &t->pair, json_get(j, v, "pair"), tokens);
}


/* ["</s>", 2] */
static bool read_id (const json *j, const json_value *v, int64_t *id) {
  if (!json_kind_is(v, HEED_JSON_ARRAY) || v->length != 2) return false;
  return json_integer(j, json_next(j, json_inside(j, v)), id);
}


/* Bert's and Roberta's: one token before all, and one or two behind each text. Roberta's has one
   type of texts. */
static bool read_around (heed_tokenizer *t, const json *j, const json_value *v, bool twice) {
  int64_t first, last;
  t->single.n = t->pair.n = 0;
  if (!read_id(j, json_get(j, v, "cls"), &first) || !read_id(j, json_get(j, v, "sep"), &last))
    return refuse_part(t, j, "the post-processor without 'cls' or 'sep'", json_get(j, v, "type"));
  uint32_t of = !twice;
  return add(t, &t->single, PIECE_TOKEN, first, 0) && add(t, &t->single, PIECE_FIRST, 0, 0) &&
         add(t, &t->single, PIECE_TOKEN, last, 0) && add(t, &t->pair, PIECE_TOKEN, first, 0) &&
         add(t, &t->pair, PIECE_FIRST, 0, 0) && add(t, &t->pair, PIECE_TOKEN, last, 0) &&
         (!twice || add(t, &t->pair, PIECE_TOKEN, last, 0)) &&
         add(t, &t->pair, PIECE_SECOND, 0, of) && add(t, &t->pair, PIECE_TOKEN, last, of);
}


static void read_trims (heed_tokenizer *t, const json *j, const json_value *v) {
  t->trims = t->trims || json_true(json_get(j, v, "trim_offsets"));
  t->trims_prefix = json_true(json_get(j, v, "add_prefix_space"));
}


static bool read_one (heed_tokenizer *t, const json *j, const json_value *v) {
  const json_value *type = json_get(j, v, "type");
  if (json_is(j, type, "TemplateProcessing")) return read_template(t, j, v);
  if (json_is(j, type, "BertProcessing")) return read_around(t, j, v, false);
  bool roberta = json_is(j, type, "RobertaProcessing");
  if (!roberta && !json_is(j, type, "ByteLevel"))
    return refuse_part(t, j, "the post-processor", type);
  read_trims(t, j, v);
  return !roberta || read_around(t, j, v, true);
}


bool template_read (heed_tokenizer *t, const json *j, const json_value *v) {
  bool plain = add(t, &t->single, PIECE_FIRST, 0, 0) &&
               add(t, &t->pair, PIECE_FIRST, 0, 0) && add(t, &t->pair, PIECE_SECOND, 0, 1);
  if (!plain || v == NULL || v->kind == HEED_JSON_NULL) return plain;
  if (!json_is(j, json_get(j, v, "type"), "Sequence")) return read_one(t, j, v);
  const json_value *list = json_get(j, v, "processors");
  if (!json_kind_is(list, HEED_JSON_ARRAY)) return refuse_part(t, j, "the post-processor", v);
  v = json_inside(j, list);
  for (uint32_t i = 0; i < list->length; i++, v = json_next(j, v))
    if (!read_one(t, j, v)) return false;
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Filling
** ===================================================================
*/

/* How many blanks a token's name begins or ends with: byte-level names and added ones have them.
   'all': there is nothing else. */
static int64_t blanks_of (span name, bool last, bool *all) {
  int64_t count = 0;
  *all = false;
  for (uint32_t i = 0; i < name.n; count++) {
    const char *p = last ? name.at + name.n - 1 - i : name.at + i;
    bool mapped = i + 1 < name.n && memcmp(last ? p - 1 : p, "\xc4\xa0", 2) == 0;
    if (!mapped && !(*p == ' ' || (*p >= '\t' && *p <= '\r'))) break;
    i += mapped ? 2 : 1;
    *all = i == name.n;
  }
  return count;
}


/* Offsets lose the blanks at both ends of their token. One that was put in front of a text may
   stand for a longer character. */
static void trim (const heed_tokenizer *t, uint32_t id, bool first, int64_t at[2]) {
  span name = t->tokens[id].name;
  bool all;
  int64_t before = blanks_of(name, false, &all), behind = blanks_of(name, true, &all);
  if (before > 0) {
    if (before == 1 && (first || at[0] == 0) && t->trims_prefix) before = 0;
    at[0] = at[0] + before < at[1] ? at[0] + before : at[1];
  }
  if (all) at[1] = at[0];
  else if (behind > 0 && at[1] >= behind) at[1] = at[1] - behind > at[0] ? at[1] - behind : at[0];
}


static bool put (heed_tokenizer *t, int64_t id, uint32_t of, int64_t from, int64_t to) {
  if (!ROOM(t->cx, &t->result, 1) || !ROOM(t->cx, &t->result_offsets, 2)) return false;
  if (!ROOM(t->cx, &t->result_types, 1)) return false;
  t->result_types.at[t->result_types.n++] = of + 1;
  t->result.at[t->result.n++] = id + 1;
  t->result_offsets.at[t->result_offsets.n++] = from;
  t->result_offsets.at[t->result_offsets.n++] = to;
  return true;
}


static bool put_text (heed_tokenizer *t, uint32_t of, int64_t from, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    int64_t *at = t->offsets.at + 2 * (from + i), id = t->ids.at[from + i];
    if (t->trims) trim(t, (uint32_t)id, i == 0, at);
    if (!put(t, id, of, at[0], at[1]) || !text_polls(t->cx, i)) return false;
  }
  return true;
}


/* The ids that two texts may have, where both are too long: the longer loses first. */
static void share (int64_t most, int64_t *first, int64_t *second) {
  int64_t *less = *first > *second ? second : first;
  int64_t *more = less == first ? second : first;
  if (*first + *second <= most) return;
  *more = *less > most ? *less : *less > most - *less ? *less : most - *less;
  if (*less + *more <= most) return;
  *less = most / 2;
  *more = *less + most % 2;
}


bool template_fill (heed_tokenizer *t, const heed_tokenizing *how, int64_t first, bool pair) {
  const template *plan = pair ? &t->pair : &t->single;
  int64_t second = t->ids.n - first, begin = first, around = 0, all = t->ids.n, skipped[2] = {0};
  for (int64_t i = 0; i < plan->n; i++) around += how->special && plan->at[i].kind == PIECE_TOKEN;
  if (how->most > 0 && how->most < around) {
    core_fail(t->cx, NULL, "at most %lld ids expected, but %lld special tokens stand around a text",
              (long long)how->most, (long long)around);
    return false;
  }
  if (how->most > 0) share(how->most - around, &first, &second);
  if (how->left) {
    skipped[0] = begin - first;
    skipped[1] = all - begin - second;
  }
  t->result.n = t->result_offsets.n = t->result_types.n = 0;
  for (int64_t i = 0; i < plan->n; i++) {
    const piece *p = &plan->at[i];
    bool good = true;
    switch (p->kind) {
      case PIECE_FIRST: good = put_text(t, p->of, skipped[0], first); break;
      case PIECE_SECOND: good = put_text(t, p->of, begin + skipped[1], second); break;
      case PIECE_TOKEN: good = !how->special || put(t, p->id, p->of, 0, 0); break;
    }
    if (!good) return false;
  }
  return true;
}

/* }================================================================== */
