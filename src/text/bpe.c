/*
** bpe.c - byte pair encoding: of the neighbours in a word those are joined first whose merge stands
** first in the file, and of equals the leftmost.
*/

#include <string.h>

#include "memory/context.h"
#include "text/tokenizer.h"

#define SHORT 48                   /* bytes of a word whose pairs are searched one by one */
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
  if (v->kind == JSON_ARRAY && v->length == 2) {
    for (int i = 0; i < 2; i++) {
      v = i == 0 ? json_inside(j, v) : json_next(j, v);
      if (v->kind != JSON_TEXT) return false;
      half[i] = (span){json_text(j, v), v->length};
    }
    return true;
  }
  if (v->kind != JSON_TEXT) return false;
  const char *text = json_text(j, v), *blank = memchr(text, ' ', v->length);
  if (blank == NULL) return false;
  uint32_t n = (uint32_t)(blank - text);
  half[0] = (span){text, n};
  half[1] = (span){blank + 1, v->length - n - 1};
  return memchr(half[1].at, ' ', half[1].n) == NULL;
}


static bool add_merge (heed_tokenizer *t, const span half[2], uint32_t rank) {
  uint32_t left = table_find(t, &t->by_name, half[0].at, half[0].n);
  uint32_t right = table_find(t, &t->by_name, half[1].at, half[1].n);
  if (left == NO_ID || right == NO_ID) return fail_at(t, rank, "two tokens of the vocabulary");
  t->symbols.n = 0;
  char small[512], *both = small;
  size_t n = (size_t)half[0].n + half[1].n;
  if (n > sizeof small && (both = core_alloc(t->cx, n)) == NULL) return false;
  memcpy(both, half[0].at, half[0].n);
  memcpy(both + half[0].n, half[1].at, half[1].n);
  uint32_t id = table_find(t, &t->by_name, both, n);
  if (both != small) core_free(t->cx, both, n);
  if (id == NO_ID) return fail_at(t, rank, "halves that make a token of the vocabulary");
  merge *m = slot_of(t, pair_of(left, right));
  *m = (merge){pair_of(left, right), rank, id};
  return true;
}


static bool read_bytes (heed_tokenizer *t) {
  for (int i = 0; i < 256; i++) {
    char byte = (char)i;
    t->byte_id[i] = table_find(t, &t->by_raw, &byte, 1);
    if (t->byte_id[i] == NO_ID) {
      core_fail(t->cx, NULL, "the BPE model: a token for each byte expected, none for 0x%02x", i);
      return false;
    }
  }
  return true;
}


bool bpe_read (heed_tokenizer *t, const json *j, const json_value *model) {
  const json_value *list = json_get(j, model, "merges");
  if (!json_kind_is(list, JSON_ARRAY)) {
    core_fail(t->cx, NULL, "the BPE model: a list as 'merges' expected");
    return false;
  }
  t->whole_words = json_true(json_get(j, model, "ignore_merges"));
  for (t->merge_slots = 16; t->merge_slots / 2 < list->length; ) t->merge_slots *= 2;
  t->merges = keep(&t->memory, t->merge_slots * sizeof *t->merges);
  t->cache = keep(&t->memory, CACHE_SLOTS * sizeof *t->cache);
  if (t->merges == NULL || t->cache == NULL) return false;
  memset(t->merges, 0xff, t->merge_slots * sizeof *t->merges);
  const json_value *v = json_inside(j, list);
  for (uint32_t i = 0; i < list->length; i++, v = json_next(j, v)) {
    span half[2];
    if (!read_halves(j, v, half)) return fail_at(t, i, "two tokens");
    if (!add_merge(t, half, i)) return false;
  }
  return read_bytes(t);
}

/* }================================================================== */


/*
** {==================================================================
** Words of few bytes: the best pair is searched for
** ===================================================================
*/

static int join_short (const heed_tokenizer *t, const char *word, int n, uint32_t id[SHORT]) {
  const merge *with_next[SHORT];
  for (int i = 0; i < n; i++) id[i] = t->byte_id[(unsigned char)word[i]];
  for (int i = 0; i + 1 < n; i++) with_next[i] = slot_of(t, pair_of(id[i], id[i + 1]));
  for (;;) {
    int best = 0;
    for (int i = 1; i + 1 < n; i++)
      if (with_next[i]->rank < with_next[best]->rank) best = i;
    if (n < 2 || with_next[best]->rank == NO_RANK) return n;
    id[best] = with_next[best]->id;
    n--;
    for (int i = best + 1; i < n; i++) {
      id[i] = id[i + 1];
      with_next[i] = with_next[i + 1];
    }
    if (best > 0) with_next[best - 1] = slot_of(t, pair_of(id[best - 1], id[best]));
    if (best + 1 < n) with_next[best] = slot_of(t, pair_of(id[best], id[best + 1]));
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


static bool begin_long (heed_tokenizer *t, const char *word, int32_t n) {
  t->symbols.n = t->joins.n = 0;
  if (!ROOM(t->cx, &t->symbols, n)) return false;
  t->symbols.n = n;
  for (int32_t i = 0; i < n; i++)
    t->symbols.at[i] = (symbol){t->byte_id[(unsigned char)word[i]], 1, i - 1,
                                i + 1 < n ? i + 1 : -1};
  for (int32_t i = 0; i + 1 < n; i++) {
    if (!push_join(t, i)) return false;
    if ((i & 0xffff) == 0xffff && core_poll(t->cx, NULL)) return false;
  }
  return true;
}


/* Does the join still stand for what is there? */
static bool is_current (const symbol *s, const join *j) {
  return s[j->at].n > 0 && s[j->at].next >= 0 &&
         pair_of(s[j->at].id, s[s[j->at].next].id) == j->pair;
}


static bool join_long (heed_tokenizer *t, const char *word, size_t n) {
  if (n >= INT32_MAX) return core_fail(t->cx, NULL, "a word below 2 GiB expected") != NULL;
  if (!begin_long(t, word, (int32_t)n)) return false;
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


static bool encode_long (heed_tokenizer *t, const char *word, size_t n, int64_t at) {
  if (!join_long(t, word, n)) return false;
  for (int32_t i = 0; i >= 0; i = t->symbols.at[i].next) {
    const symbol *s = &t->symbols.at[i];
    if (!give_token(t, s->id, at, at + s->n)) return false;
    at += s->n;
  }
  return true;
}

/* }================================================================== */


static bool give_ids (heed_tokenizer *t, const uint32_t *id, int n, int64_t at) {
  for (int i = 0; i < n; i++) {
    int64_t length = t->tokens[id[i]].raw.n;
    if (!give_token(t, id[i], at, at + length)) return false;
    at += length;
  }
  return true;
}


static bool encode_short (heed_tokenizer *t, const char *word, size_t n, int64_t at) {
  cached *c = &t->cache[bytes_hash(word, n) & (CACHE_SLOTS - 1)];
  uint32_t id[SHORT];
  if (c->length == n && n <= CACHE_KEY && memcmp(c->key, word, n) == 0)
    return give_ids(t, c->id, c->n, at);
  int count = join_short(t, word, (int)n, id);
  if (n <= CACHE_KEY && count <= CACHE_IDS) {
    c->length = (uint8_t)n;
    c->n = (uint8_t)count;
    memcpy(c->key, word, n);
    memcpy(c->id, id, (size_t)count * sizeof *id);
  }
  return give_ids(t, id, count, at);
}


bool bpe_encode (heed_tokenizer *t, const char *word, size_t n, int64_t at) {
  if (n == 0) return true;
  if ((++t->words & 0xfff) == 0 && core_poll(t->cx, NULL)) return false;
  if (t->whole_words) {
    uint32_t id = table_find(t, &t->by_raw, word, n);
    if (id != NO_ID) return give_token(t, id, at, at + (int64_t)n);
  }
  return n <= SHORT ? encode_short(t, word, n, at) : encode_long(t, word, n, at);
}
