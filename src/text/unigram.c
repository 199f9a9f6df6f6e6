/*
** unigram.c - the unigram model: of all ways to cut a word into pieces that with the highest score,
** found by Viterbi's algorithm.
**
** A score is a double, and of equal ones the first that was found stays, shorter pieces first, as
** the package `tokenizers` has it.
*/

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "memory/context.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

#define PENALTY 10.0               /* of a character that is no piece, below the worst score */
#define NARROW 6                   /* children of a branch that are searched one by one */


/*
** {==================================================================
** The tree
** ===================================================================
*/

/* Pieces in order of their byte at 'depth', which all have; counts of each byte. */
static void sort_by_byte (const heed_tokenizer *t, uint32_t *ids, uint32_t *room, uint32_t n,
                          uint32_t depth, uint32_t counts[256]) {
  uint32_t slot[256], at = 0;
  memset(counts, 0, 256 * sizeof *counts);
  for (uint32_t i = 0; i < n; i++) counts[(unsigned char)t->tokens[ids[i]].name.at[depth]]++;
  for (int c = 0; c < 256; c++) {
    slot[c] = at;
    at += counts[c];
  }
  for (uint32_t i = 0; i < n; i++)
    room[slot[(unsigned char)t->tokens[ids[i]].name.at[depth]]++] = ids[i];
  memcpy(ids, room, n * sizeof *ids);
}


typedef struct range { uint32_t first, n; } range;

/* Growing: the ranges of ids that branches have until their children are known. */
typedef struct tree {
  heed_tokenizer *t;
  LIST(branch) branches;
  LIST(range) ranges;
  uint32_t *ids, *room, wide;
} tree;


static bool add_branch (tree *r, uint32_t first, uint32_t n, int label) {
  heed_context *cx = r->t->cx;
  if (!ROOM(cx, &r->branches, 1) || !ROOM(cx, &r->ranges, 1)) return false;
  r->branches.at[r->branches.n++] = (branch){.id = NO_ID, .label = (uint8_t)label};
  r->ranges.at[r->ranges.n++] = (range){first, n};
  return true;
}


/* Pieces that end here come first; of equal ones the last one stands in the file's table. */
static uint32_t take_ended (tree *r, branch *b, range in, uint32_t depth) {
  uint32_t ended = 0, *ids = r->ids + in.first;
  for (uint32_t i = 0; i < in.n; i++) {
    uint32_t id = ids[i];
    if (r->t->tokens[id].name.n > depth) continue;
    ids[i] = ids[ended];
    ids[ended++] = id;
    if (b->id == NO_ID || id > b->id) b->id = id;
  }
  b->special = b->id != NO_ID && r->t->tokens[b->id].special;
  return ended;
}


static bool grow (tree *r, int64_t self, uint32_t depth) {
  branch b = r->branches.at[self];
  range in = r->ranges.at[self];
  uint32_t ended = take_ended(r, &b, in, depth), counts[256];
  uint32_t at = in.first + ended, n = in.n - ended;
  b.first = (uint32_t)r->branches.n;
  if (n == 1) {
    if (!add_branch(r, at, 1, r->t->tokens[r->ids[at]].name.at[depth])) return false;
  }
  else if (n > 0) {
    sort_by_byte(r->t, r->ids + at, r->room, n, depth, counts);
    for (int c = 0; c < 256; at += counts[c++])
      if (counts[c] > 0 && !add_branch(r, at, counts[c], c)) return false;
  }
  b.n = (uint16_t)((uint32_t)r->branches.n - b.first);
  if (b.n > NARROW && r->wide < UINT16_MAX) b.wide = (uint16_t)++r->wide;
  r->branches.at[self] = b;
  return true;
}


/* Level by level: a branch's children are added behind all of its level. */
static bool grow_all (tree *r, uint32_t n) {
  if (!add_branch(r, 0, n, 0)) return false;
  int64_t next = 0;
  for (uint32_t depth = 0; next < r->branches.n; depth++) {
    int64_t level = r->branches.n;
    for (; next < level; next++)
      if (!grow(r, next, depth) || ((next & 0xffff) == 0 && core_poll(r->t->cx, NULL)))
        return false;
  }
  return r->branches.n < INT32_MAX;
}


/* Pieces that texts are cut into; SentencePiece never finds those of bytes in a text. */
static uint32_t list_pieces (const heed_tokenizer *t, uint32_t *ids, uint32_t n, bool all) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i++) {
    span name = t->tokens[i].name;
    if (all || fallback_byte(name.at, name.n) < 0) ids[count++] = i;
  }
  return count;
}


/* Copies the branches to stay, with tables for those of many children. */
static bool settle (tree *r) {
  unigram *u = &r->t->unigram;
  const size_t size = (size_t)r->branches.n * sizeof *u->branches;
  u->branches = keep(&r->t->memory, size);
  u->wide = keep(&r->t->memory, (r->wide + 1) * sizeof *u->wide);
  if (u->branches == NULL || u->wide == NULL) return false;
  memcpy(u->branches, r->branches.at, size);
  for (int64_t i = 0; i < r->branches.n; i++) {
    const branch *b = &u->branches[i];
    for (uint32_t c = 0; b->wide > 0 && c < b->n; c++)
      u->wide[b->wide][u->branches[b->first + c].label] = (uint16_t)(c + 1);
  }
  for (uint32_t i = u->branches[0].first, n = 0; n < u->branches[0].n; i++, n++)
    u->root[u->branches[i].label] = i;
  return true;
}


static bool build (heed_tokenizer *t, uint32_t n, bool all) {
  size_t size = (n + 1) * sizeof(uint32_t);
  tree r = {.t = t, .ids = core_alloc(t->cx, size), .room = core_alloc(t->cx, size)};
  bool good = r.ids != NULL && r.room != NULL;
  good = good && grow_all(&r, list_pieces(t, r.ids, n, all)) && settle(&r);
  core_free(t->cx, r.ids, size);
  core_free(t->cx, r.room, size);
  LIST_FREE(t->cx, &r.branches);
  LIST_FREE(t->cx, &r.ranges);
  return good;
}

/* }================================================================== */


/*
** {==================================================================
** Reading
** ===================================================================
*/

static bool refuse (heed_tokenizer *t, const char *wanted) {
  core_fail(t->cx, NULL, "the Unigram model: %s expected", wanted);
  return false;
}


/* A number of the JSON, whatever the host's locale has for a decimal point. */
static bool read_number (const json *j, const json_value *v, double *to) {
  char text[64];
  if (!json_kind_is(v, HEED_JSON_NUMBER) || v->length >= sizeof text) return false;
  memcpy(text, json_text(j, v), v->length);
  text[v->length] = '\0';
  char *point = strchr(text, '.');
  if (point != NULL) *point = *localeconv()->decimal_point;
  *to = strtod(text, NULL);
  return *to - *to == 0;
}


static bool read_scores (heed_tokenizer *t, const json *j, const json_value *list) {
  unigram *u = &t->unigram;
  u->scores = keep(&t->memory, (list->length + 1) * sizeof *u->scores);
  if (u->scores == NULL) return false;
  const json_value *v = json_inside(j, list);
  for (uint32_t i = 0; i < list->length; i++, v = json_next(j, v)) {
    if (!read_number(j, json_next(j, json_inside(j, v)), &u->scores[i]))
      return refuse(t, "a finite number as a score");
    if (i == 0 || u->scores[i] < u->unknown) u->unknown = u->scores[i];
  }
  u->unknown -= PENALTY;
  return true;
}


bool unigram_read (heed_tokenizer *t, const json *j, const json_value *model) {
  const json_value *list = json_get(j, model, "vocab"), *unknown = json_get(j, model, "unk_id");
  int64_t id;
  t->cut = unigram_cut;
  t->fuse_unknown = true;
  t->unknown = NO_ID;
  if (unknown != NULL && unknown->kind != HEED_JSON_NULL) {
    if (!json_integer(j, unknown, &id) || id >= list->length)
      return refuse(t, "an id of the vocabulary as 'unk_id'");
    t->unknown = (uint32_t)id;
  }
  model_fallback(t, j, model);
  bool all = !json_kind_is(json_get(j, model, "bytes_in_text"), HEED_JSON_FALSE);
  return read_scores(t, j, list) && build(t, list->length, all);
}


void unigram_free (heed_tokenizer *t) { LIST_FREE(t->cx, &t->unigram.best); }

/* }================================================================== */


/*
** {==================================================================
** Cutting
** ===================================================================
*/

/* The child that a byte leads to, or NULL. */
static inline const branch *child (const unigram *u, const branch *b, uint8_t byte) {
  const branch *all = &u->branches[b->first];
  if (b->wide > 0) {
    uint16_t i = u->wide[b->wide][byte];
    return i > 0 ? &all[i - 1] : NULL;
  }
  for (uint32_t i = 0; i < b->n; i++)
    if (all[i].label == byte) return &all[i];
  return NULL;
}


static inline void offer (way *to, double score, uint32_t from, uint32_t id) {
  if (to->id == NO_ID - 1 || score > to->score) *to = (way){score, from, id};
}


/* Offers all pieces that begin at a place; false: none is the character there. */
static bool offer_pieces (heed_tokenizer *t, bytes word, uint32_t at, uint32_t n, uint32_t width,
                          int64_t *steps) {
  const unigram *u = &t->unigram;
  uint32_t start = u->root[word[at]], p = at + 1;
  double score = u->best.at[at].score;
  bool whole = false;
  for (const branch *b = start != 0 ? &u->branches[start] : NULL; b != NULL; p++, ++*steps) {
    if (b->id != NO_ID && (t->parse || !b->special)) {
      offer(&u->best.at[p], score + u->scores[b->id], at, b->id);
      whole = whole || p - at == width;
    }
    b = p < n ? child(u, b, word[p]) : NULL;
  }
  return whole;
}


static bool find_best (heed_tokenizer *t, bytes word, uint32_t n) {
  unigram *u = &t->unigram;
  int64_t steps = 0;
  u->best.n = 0;
  if (!ROOM(t->cx, &u->best, (int64_t)n + 1)) return false;
  for (uint32_t i = 0; i <= n; i++) {
    u->best.at[i] = (way){0, 0, NO_ID - 1};
    if (!text_polls(t->cx, i)) return false;
  }
  for (uint32_t at = 0, width; at < n; at += width) {
    uint32_t point;
    width = (uint32_t)utf8_get(word + at, word + n, &point);
    if (!offer_pieces(t, word, at, n, width, &steps)) {
      if (t->unknown == NO_ID) return refuse(t, "'unk_id' for a character that is no piece");
      offer(&u->best.at[at + width], u->best.at[at].score + u->unknown, at, t->unknown);
    }
    if (++steps > 0x3fff) {
      steps = 0;
      if (core_poll(t->cx, NULL)) return false;
    }
  }
  return true;
}


/* Tokens of an unknown text: a piece after all, those of its bytes, or the unknown token. */
static bool give_unknown (heed_tokenizer *t, bytes p, uint32_t n) {
  uint32_t id = table_find(t, &t->by_name, (const char *)p, n);
  bool falls = id == NO_ID || !t->tokens[id].own || !may_be(t, id);
  if (!falls) return give_slice(t, id, n);
  for (uint32_t i = 0; falls && i < n; i++) falls = t->byte_id[p[i]] != NO_ID;
  if (!falls) return give_slice(t, t->unknown, n);
  for (uint32_t i = n; i-- > 0; ) if (!give_slice(t, t->byte_id[p[i]], i > 0 ? 0 : n)) return false;
  return true;
}


static void reverse (slice *u, int64_t n) {
  for (int64_t i = 0; i < n / 2; i++) {
    slice kept = u[i];
    u[i] = u[n - 1 - i];
    u[n - 1 - i] = kept;
  }
}


/* From the end of the word back to its start; unknown neighbours are one. */
bool unigram_cut (heed_tokenizer *t, const char *word, size_t n) {
  if (!find_best(t, (bytes)word, (uint32_t)n)) return false;
  const way *best = t->unigram.best.at;
  int64_t steps = 0;
  t->slices.n = 0;
  for (uint32_t end = (uint32_t)n, from; end > 0; end = from) {
    uint32_t id = best[end].id;
    from = best[end].from;
    while (id == t->unknown && from > 0 && best[from].id == id) from = best[from].from;
    bool good = id != t->unknown ? give_slice(t, id, end - from) :
                give_unknown(t, (bytes)word + from, end - from);
    if (!good || !text_polls(t->cx, steps++)) return false;
  }
  reverse(t->slices.at, t->slices.n);
  return true;
}

/* }================================================================== */
