/*
** bpe.c - byte pair encoding: of the neighbours in a word those are joined first whose merge stands
** first in the file, and of equals the leftmost.
*/

#include <string.h>

#include "memory/context.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

#define SHORT 48                   /* characters of a word whose pairs are searched one by one */
#define MOST_AFFIX 64
#define NO_RANK UINT32_MAX


static uint64_t pair_of (uint32_t left, uint32_t right) { return (uint64_t)left << 32 | right; }


static merge *slot_of (const heed_tokenizer *t, uint64_t pair) {
  uint64_t at = pair * 0x9e3779b97f4a7c15u;
  for (at = (at ^ at >> 29) & (t->merge_slots - 1); ; at = (at + 1) & (t->merge_slots - 1))
    if (t->merges[at].pair == pair || t->merges[at].pair == NO_PAIR) return &t->merges[at];
}


/*
** {==================================================================
** Reading
** ===================================================================
*/

static bool fail_at (heed_tokenizer *t, uint32_t i, const char *wanted) {
  core_fail(t->cx, NULL, "merge %u of the BPE model: %s expected", i + 1, wanted);
  return false;
}


/* Both halves of a merge: two texts, or one with a blank between them. */
static bool read_halves (const json *j, const json_value *v, span half[2]) {
  if (v->kind == HEED_JSON_ARRAY && v->length == 2) {
    for (int i = 0; i < 2; i++) {
      v = i == 0 ? json_inside(j, v) : json_next(j, v);
      if (v->kind != HEED_JSON_TEXT) return false;
      half[i] = (span){json_text(j, v), v->length};
    }
    return true;
  }
  if (v->kind != HEED_JSON_TEXT) return false;
  const char *text = json_text(j, v), *blank = memchr(text, ' ', v->length);
  if (blank == NULL) return false;
  uint32_t n = (uint32_t)(blank - text);
  half[0] = (span){text, n};
  half[1] = (span){blank + 1, v->length - n - 1};
  return memchr(half[1].at, ' ', half[1].n) == NULL;
}


/* A continuing half begins with the prefix, which what they make has once. */
static bool add_merge (heed_tokenizer *t, const span half[2], uint32_t rank) {
  uint32_t left = own_find(t, half[0].at, half[0].n);
  uint32_t right = own_find(t, half[1].at, half[1].n);
  if (left == NO_ID || right == NO_ID) return fail_at(t, rank, "two tokens of the vocabulary");
  uint32_t skip = t->prefix.n;
  if (skip > half[1].n || memcmp(half[1].at, t->prefix.at, skip) != 0)
    return fail_at(t, rank, "a second half with the continuing prefix");
  char small[512], *both = small;
  size_t n = (size_t)half[0].n + half[1].n - skip;
  if (n > sizeof small && (both = core_alloc(t->cx, n)) == NULL) return false;
  memcpy(both, half[0].at, half[0].n);
  memcpy(both + half[0].n, half[1].at + skip, half[1].n - skip);
  uint32_t id = own_find(t, both, n);
  if (both != small) core_free(t->cx, both, n);
  if (id == NO_ID) return fail_at(t, rank, "halves that make a token of the vocabulary");
  merge *m = slot_of(t, pair_of(left, right));
  *m = (merge){pair_of(left, right), rank, id};
  return true;
}


/* The token of a character, which may be the first or the last one of its word; or NO_ID. */
static uint32_t find_start (const heed_tokenizer *t, const char *at, size_t n, bool first,
                            bool last) {
  char name[2 * MOST_AFFIX + 4];
  size_t length = 0;
  if (!first) {
    memcpy(name, t->prefix.at, t->prefix.n);
    length = t->prefix.n;
  }
  memcpy(name + length, at, n);
  length += n;
  if (last) {
    memcpy(name + length, t->suffix.at, t->suffix.n);
    length += t->suffix.n;
  }
  return own_find(t, name, length);
}


/* Whether each byte has a token, where tokens are made of bytes. */
static bool read_starts (heed_tokenizer *t) {
  bool all = true;
  for (uint32_t point = 0; point < 0x144; point++) {
    char name[4];
    int n = utf8_put(name, point), byte = t->byte_level ? byte_of(point) : (int)point;
    if (byte < 0 || byte > 255) continue;
    for (int where = 0; where < 4; where++) {
      uint32_t id = find_start(t, name, (size_t)n, where & 1, where & 2);
      t->start_id[where][byte] = id;
      all = all && id != NO_ID;
    }
  }
  return all && t->byte_level;
}


static bool read_affix (heed_tokenizer *t, const json *j, const json_value *v, span *to) {
  *to = (span){"", 0};
  if (v == NULL || v->kind == HEED_JSON_NULL) return true;
  if (v->kind != HEED_JSON_TEXT || v->length > MOST_AFFIX) {
    core_fail(t->cx, NULL, "the BPE model: a prefix or suffix of at most %d bytes expected",
              MOST_AFFIX);
    return false;
  }
  char *copy = keep(&t->memory, v->length + 1);
  if (copy == NULL) return false;
  memcpy(copy, json_text(j, v), v->length);
  *to = (span){copy, v->length};
  return true;
}


/* The token of what has none; 'needed': a character may have none. */
static bool read_unknown (heed_tokenizer *t, const json *j, const json_value *v, bool needed) {
  bool given = json_kind_is(v, HEED_JSON_TEXT);
  t->unknown = given ? table_find(t, &t->by_name, json_text(j, v), v->length) : NO_ID;
  if (!given || !needed || t->unknown != NO_ID) return true;
  return refuse_part(t, j, "the BPE model: the unk_token", v);
}


static bool read_merges (heed_tokenizer *t, const json *j, const json_value *list) {
  if (!json_kind_is(list, HEED_JSON_ARRAY)) {
    core_fail(t->cx, NULL, "the BPE model: a list as 'merges' expected");
    return false;
  }
  for (t->merge_slots = 16; t->merge_slots / 2 < list->length; ) t->merge_slots *= 2;
  t->merges = keep(&t->memory, t->merge_slots * sizeof *t->merges);
  if (t->merges == NULL) return false;
  memset(t->merges, 0xff, t->merge_slots * sizeof *t->merges);
  const json_value *v = json_inside(j, list);
  for (uint32_t i = 0; i < list->length; i++, v = json_next(j, v)) {
    span half[2];
    if (!read_halves(j, v, half)) return fail_at(t, i, "two tokens");
    if (!add_merge(t, half, i)) return false;
  }
  return true;
}


bool bpe_read (heed_tokenizer *t, const json *j, const json_value *model) {
  const json_value *dropout = json_get(j, model, "dropout");
  if (dropout != NULL && dropout->kind != HEED_JSON_NULL) {
    core_fail(t->cx, NULL, "the BPE model: 'dropout' is not known");
    return false;
  }
  t->cut = bpe_cut;
  model_fallback(t, j, model);
  t->whole_words = json_true(json_get(j, model, "ignore_merges"));
  t->fuse_unknown = json_true(json_get(j, model, "fuse_unk"));
  if (!read_affix(t, j, json_get(j, model, "continuing_subword_prefix"), &t->prefix) ||
      !read_affix(t, j, json_get(j, model, "end_of_word_suffix"), &t->suffix)) return false;
  bool needed = !read_starts(t);
  if (needed && t->byte_level && json_true(json_get(j, model, "byte_fallback"))) {
    core_fail(t->cx, NULL, "the BPE model: a token for each byte expected where byte_fallback "
              "stands beside ByteLevel");
    return false;
  }
  if (t->whole_words && t->byte_level && !own_read(t, &t->by_raw, (span){"", 0})) return false;
  return read_unknown(t, j, json_get(j, model, "unk_token"), needed) &&
         read_merges(t, j, json_get(j, model, "merges"));
}

/* }================================================================== */


/*
** {==================================================================
** The characters of a word
** ===================================================================
*/

static bool give_unknown (heed_tokenizer *t, uint32_t n, bool *fuses) {
  bool again = *fuses;
  *fuses = t->fuse_unknown;
  if (t->unknown == NO_ID) return true;
  if (again) {
    t->slices.at[t->slices.n - 1].n += n;
    return true;
  }
  return give_slice(t, t->unknown, n);
}


/* The tokens of a character's bytes, if each byte has one. */
static bool give_bytes (heed_tokenizer *t, bytes p, int n, bool *given) {
  *given = true;
  for (int i = 0; i < n; i++) *given = *given && t->byte_id[p[i]] != NO_ID;
  for (int i = 0; *given && i < n; i++)
    if (!give_slice(t, t->byte_id[p[i]], 1)) return false;
  return true;
}


static bool begin_word (heed_tokenizer *t, bytes word, bytes end) {
  bool fuses = false;              /* the last one is unknown, and another one joins it */
  uint32_t point;
  t->slices.n = 0;
  if (!ROOM(t->cx, &t->slices, end - word)) return false;
  for (bytes p = word; p < end; ) {
    int n = t->byte_level ? 1 : utf8_get(p, end, &point);
    bool first = p == word, last = p + n == end, given;
    uint32_t id = n == 1 && (t->byte_level || *p < 128) ? t->start_id[first | last << 1][*p] :
                  find_start(t, (const char *)p, (size_t)n, first, last);
    if (id != NO_ID) {
      fuses = false;
      if (!give_slice(t, id, (uint32_t)n)) return false;
    }
    else {
      if (!give_bytes(t, p, n, &given)) return false;
      if (given) fuses = false;
      else if (!give_unknown(t, (uint32_t)n, &fuses)) return false;
    }
    p += n;
    if (((p - word) & 0x3fff) < n && core_poll(t->cx, NULL)) return false;
  }
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Words of few characters: the best pair is searched for
** ===================================================================
*/

static int join_short (const heed_tokenizer *t, slice *u, int n) {
  const merge *with_next[SHORT];
  for (int i = 0; i + 1 < n; i++) with_next[i] = slot_of(t, pair_of(u[i].id, u[i + 1].id));
  for (;;) {
    int best = 0;
    for (int i = 1; i + 1 < n; i++)
      if (with_next[i]->rank < with_next[best]->rank) best = i;
    if (n < 2 || with_next[best]->rank == NO_RANK) return n;
    u[best].id = with_next[best]->id;
    u[best].n += u[best + 1].n;
    n--;
    for (int i = best + 1; i < n; i++) {
      u[i] = u[i + 1];
      with_next[i] = with_next[i + 1];
    }
    if (best > 0) with_next[best - 1] = slot_of(t, pair_of(u[best - 1].id, u[best].id));
    if (best + 1 < n) with_next[best] = slot_of(t, pair_of(u[best].id, u[best + 1].id));
  }
}

/* }================================================================== */


/*
** {==================================================================
** Long words: pairs wait in a heap
** ===================================================================
*/

static bool is_before (const join *a, const join *b) {
  return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}


static bool push_join (heed_tokenizer *t, int32_t at) {
  const symbol *s = t->symbols.at;
  if (at < 0 || s[at].next < 0) return true;
  const merge *m = slot_of(t, pair_of(s[at].id, s[s[at].next].id));
  if (m->rank == NO_RANK) return true;
  if (!ROOM(t->cx, &t->joins, 1)) return false;
  join new = {m->rank, at, m->pair}, *heap = t->joins.at;
  int64_t i = t->joins.n++;
  for (; i > 0 && is_before(&new, &heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
  heap[i] = new;
  return true;
}


static join pop_join (heed_tokenizer *t) {
  join *heap = t->joins.at, first = heap[0], last = heap[--t->joins.n];
  int64_t i = 0, n = t->joins.n;
  for (;;) {
    int64_t child = 2 * i + 1;
    if (child >= n) break;
    child += child + 1 < n && is_before(&heap[child + 1], &heap[child]);
    if (!is_before(&heap[child], &last)) break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = last;
  return first;
}


static bool begin_long (heed_tokenizer *t, int32_t n) {
  t->symbols.n = t->joins.n = 0;
  if (!ROOM(t->cx, &t->symbols, n)) return false;
  t->symbols.n = n;
  for (int32_t i = 0; i < n; i++) {
    int32_t next = i + 1 < n ? i + 1 : -1;
    t->symbols.at[i] = (symbol){t->slices.at[i].id, t->slices.at[i].n, i - 1, next};
    if (!text_polls(t->cx, i)) return false;
  }
  for (int32_t i = 0; i + 1 < n; i++)
    if (!push_join(t, i) || !text_polls(t->cx, i)) return false;
  return true;
}


/* Does the join still stand for what is there? */
static bool is_current (const symbol *s, const join *j) {
  return s[j->at].n > 0 && s[j->at].next >= 0 &&
         pair_of(s[j->at].id, s[s[j->at].next].id) == j->pair;
}


static bool join_long (heed_tokenizer *t) {
  if (!begin_long(t, (int32_t)t->slices.n)) return false;
  symbol *s = t->symbols.at;
  for (int64_t i = 0; t->joins.n > 0; i++) {
    join j = pop_join(t);
    if ((i & 0xfff) == 0xfff && core_poll(t->cx, NULL)) return false;
    if (!is_current(s, &j)) continue;
    symbol *left = &s[j.at], *right = &s[left->next];
    left->id = slot_of(t, j.pair)->id;
    left->n += right->n;
    right->n = 0;
    left->next = right->next;
    if (left->next >= 0) s[left->next].before = j.at;
    if (!push_join(t, left->before) || !push_join(t, j.at)) return false;
  }
  return true;
}


static bool cut_long (heed_tokenizer *t) {
  if (!join_long(t)) return false;
  const symbol *s = t->symbols.at;
  t->slices.n = 0;
  for (int32_t i = 0; i >= 0; i = s[i].next) {
    t->slices.at[t->slices.n++] = (slice){s[i].id, s[i].n};
    if (!text_polls(t->cx, t->slices.n)) return false;
  }
  return true;
}

/* }================================================================== */


bool bpe_cut (heed_tokenizer *t, const char *word, size_t n) {
  if (t->whole_words) {
    uint32_t id = t->byte_level ? table_find(t, &t->by_raw, word, n) : own_find(t, word, n);
    t->slices.n = 0;
    if (id != NO_ID && may_be(t, id)) return give_slice(t, id, (uint32_t)n);
  }
  if (!begin_word(t, (bytes)word, (bytes)word + n)) return false;
  if (t->slices.n > SHORT) return cut_long(t);
  t->slices.n = join_short(t, t->slices.at, (int)t->slices.n);
  return true;
}
