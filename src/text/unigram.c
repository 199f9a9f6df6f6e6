/*
** unigram.c - the unigram model: of all ways to cut a word into pieces that with the highest score,
** found by Viterbi's algorithm.
**
** A score is a double, and of equal ones the first that was found stays, shorter pieces first, as
** the package `tokenizers` has it.
*/

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "memory/context.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

__extension__ typedef unsigned __int128 wide;

#define PENALTY 10.0               /* of a character that is no piece, below the worst score */
#define MOST 1e200                 /* of a score's size: all sums of them are finite */

#define ROOT 0                     /* the first node */
#define FREE NODE_BITS             /* the parent of a node that is not yet used */
#define NO_PARENT (FREE - 1)       /* of the root */
#define BLOCK 256                  /* nodes that are added at once: one for each byte */
#define WINDOW 8                   /* sets of 64 nodes, where room for children is looked for */
#define MOST_DIGITS 19             /* of a number that 64 bits hold */
#define PART 7                     /* bytes of a piece in a key */
#define FEW 32                     /* pieces that are sorted without counts */


/*
** {==================================================================
** The tree
** ===================================================================
*/

/* A node while the tree grows, with the id of the piece that ends there, or NO_ID. One piece alone
   goes through a node that is 'lonely', and 'base' is how many bytes lead there. */
typedef struct grown { uint32_t base, parent : 31, lonely : 1, id; } grown;

/*
** A piece in the order of the tree. A key is PART of its bytes from a depth on, the first one
** highest, zeros behind its end, and in the lowest byte how many of them it has: so a piece that
** ends comes before those that go on, also with bytes of 0. 'next' is the key of the bytes behind.
*/
typedef struct sorted { uint64_t key, next; uint32_t id; } sorted;

/* The pieces that go through a node, and how many bytes lead there. */
typedef struct range { uint32_t node, first, n, depth; } range;

typedef struct tree {
  heed_tokenizer *t;
  const double *scores;            /* by id */
  LIST(grown) nodes;
  LIST(uint64_t) free;             /* sets of 64 nodes: a bit for each that is free */
  LIST(range) ranges;              /* of nodes whose children are still to be found */
  sorted *pieces, *room;
  uint32_t open;                   /* the sets before this one are empty */
} tree;


static uint64_t key_at (span name, size_t depth) {
  uint64_t key = 0, n = 0;
  for (size_t i = depth; i < depth + PART; i++) {
    key = key << 8 | (i < name.n ? (uint8_t)name.at[i] : 0);
    n += i < name.n;
  }
  return key << 8 | n;
}

static uint8_t key_byte (uint64_t key, int i) { return (uint8_t)(key >> 8 * (PART - i)); }


static void sort_few (sorted *p, uint32_t n) {
  for (uint32_t i = 1, k; i < n; i++) {
    const sorted x = p[i];
    for (k = i; k > 0 && p[k - 1].key > x.key; k--) p[k] = p[k - 1];
    p[k] = x;
  }
}


/* By each byte of their keys in turn, the lowest one first; not by one that is the same in all. */
static bool sort_many (heed_context *cx, sorted *p, sorted *room, uint32_t n) {
  const int size = PART + 1;
  uint32_t counts[PART + 1][256] = {{0}};
  sorted *from = p, *to = room;
  for (uint32_t i = 0; i < n; i++)
    for (int b = 0; b < size; b++) counts[b][key_byte(p[i].key, b)]++;
  for (int b = size; b-- > 0; ) {
    uint32_t slot[256], at = 0;
    if (counts[b][key_byte(p[0].key, b)] == n) continue;
    if (core_poll(cx, NULL)) return false;
    for (int c = 0; c < 256; at += counts[b][c++]) slot[c] = at;
    for (uint32_t i = 0; i < n; i++) to[slot[key_byte(from[i].key, b)]++] = from[i];
    sorted *kept = from;
    from = to;
    to = kept;
  }
  if (from != p) memcpy(p, from, n * sizeof *p);
  return true;
}


/*
** Sorts the pieces of a node by the bytes that come next. Names lie far apart: they are looked at
** for two keys at once.
*/
static bool sort (const tree *r, range in) {
  sorted *p = r->pieces + in.first;
  if (in.depth / PART % 2 == 1)
    for (uint32_t i = 0; i < in.n; i++) p[i].key = p[i].next;
  else for (uint32_t i = 0; i < in.n; i++) {
    const span name = r->t->tokens[p[i].id].name;
    p[i].key = key_at(name, in.depth);
    p[i].next = key_at(name, in.depth + PART);
  }
  if (in.n >= FEW) return sort_many(r->t->cx, p, r->room, in.n);
  sort_few(p, in.n);
  return true;
}


static bool refuse_size (heed_tokenizer *t) {
  core_fail(t->cx, NULL, "pieces of fewer than 2^31 bytes expected");
  return false;
}


static bool add_block (tree *r) {
  if (r->nodes.n > INT32_MAX - 2 * BLOCK) return refuse_size(r->t);
  if (!ROOM(r->t->cx, &r->nodes, BLOCK) || !ROOM(r->t->cx, &r->free, BLOCK / 64)) return false;
  const grown empty = {.parent = FREE, .id = NO_ID};
  for (int i = 0; i < BLOCK; i++) r->nodes.at[r->nodes.n++] = empty;
  for (int i = 0; i < BLOCK / 64; i++) r->free.at[r->free.n++] = UINT64_MAX;
  return true;
}


static void take_node (tree *r, uint32_t at, uint32_t parent) {
  r->nodes.at[at].parent = parent;
  r->free.at[at / 64] &= ~(UINT64_C(1) << at % 64);
}

/* Bit b of the result is bit b ^ by of a set. */
static uint64_t exchanged (uint64_t set, int by) {
  static const uint64_t lower[] = {UINT64_C(0x5555555555555555), UINT64_C(0x3333333333333333),
                                   UINT64_C(0x0f0f0f0f0f0f0f0f), UINT64_C(0x00ff00ff00ff00ff),
                                   UINT64_C(0x0000ffff0000ffff), UINT64_C(0x00000000ffffffff)};
  for (int i = 0; i < 6; i++)
    if (by >> i & 1) set = (set >> (1 << i) & lower[i]) | (set & lower[i]) << (1 << i);
  return set;
}


/* Looks for a base whose children are free, in the sets from 'at' to end - 1: the bits of 'fit' are
   the bases of a set. */
static bool base_among (const tree *r, int64_t at, int64_t end, const uint8_t *labels, int n,
                        uint32_t *base) {
  for (; at < end && at < r->free.n; at++) {
    uint64_t fit = UINT64_MAX;
    for (int i = 0; i < n && fit != 0; i++)
      fit &= exchanged(r->free.at[at ^ labels[i] / 64], labels[i] % 64);
    *base = (uint32_t)(64 * at + (fit != 0 ? __builtin_ctzll(fit) : 0));
    if (fit != 0) return true;
  }
  return false;
}


/*
** The first free nodes may stay so for ever, where all labels come in pairs, say. So the last block
** is looked through, too, and has taken as many children as fit before another one is added.
*/
static bool find_base (tree *r, const uint8_t *labels, int n, uint32_t *base) {
  while (r->open < r->free.n && r->free.at[r->open] == 0) r->open++;
  if (base_among(r, r->open, (int64_t)r->open + WINDOW, labels, n, base) ||
      base_among(r, r->free.n - BLOCK / 64, r->free.n, labels, n, base)) return true;
  *base = (uint32_t)r->nodes.n;
  return add_block(r);
}


/* Pieces that end here come first; of equal ones the last one stands in the file's table. */
static uint32_t take_ended (tree *r, range in) {
  grown *g = &r->nodes.at[in.node];
  const sorted *p = r->pieces + in.first;
  uint32_t ended = 0;
  for (; ended < in.n && (p[ended].key & 0xff) == in.depth % PART; ended++)
    if (g->id == NO_ID || p[ended].id > g->id) g->id = p[ended].id;
  return ended;
}


/* Gives a node its children, whose pieces lie side by side. */
static bool grow (tree *r, range in) {
  if (in.n == 1 && in.node != ROOT) {
    grown *g = &r->nodes.at[in.node];
    g->id = r->pieces[in.first].id;
    g->lonely = 1;
    g->base = in.depth;
    return true;
  }
  if (in.depth % PART == 0 && !sort(r, in)) return false;
  uint32_t base;
  uint8_t labels[256];
  range children[256];
  int k = 0;
  for (uint32_t i = take_ended(r, in); i < in.n; i++) {
    uint8_t c = key_byte(r->pieces[in.first + i].key, (int)(in.depth % PART));
    if (k == 0 || labels[k - 1] != c) {
      labels[k] = c;
      children[k++] = (range){0, in.first + i, 0, in.depth + 1};
    }
    children[k - 1].n++;
  }
  if (k == 0) return true;
  if (!find_base(r, labels, k, &base) || !ROOM(r->t->cx, &r->ranges, k)) return false;
  r->nodes.at[in.node].base = base;
  while (k-- > 0) {
    children[k].node = base ^ labels[k];
    take_node(r, children[k].node, in.node);
    r->ranges.at[r->ranges.n++] = children[k];
  }
  return true;
}


static bool grow_all (tree *r, uint32_t n) {
  if (!add_block(r) || !ROOM(r->t->cx, &r->ranges, 1)) return false;
  take_node(r, ROOT, NO_PARENT);
  r->ranges.at[r->ranges.n++] = (range){ROOT, 0, n, 0};
  for (int64_t i = 0; r->ranges.n > 0; i++)
    if (!grow(r, r->ranges.at[--r->ranges.n]) || !text_polls(r->t->cx, i)) return false;
  return true;
}


/* Pieces that texts are cut into; SentencePiece never finds those of bytes in a text. */
static uint32_t list_pieces (const heed_tokenizer *t, sorted *to, uint32_t n, bool all) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i++) {
    span name = t->tokens[i].name;
    if (all || fallback_byte(name.at, name.n) < 0) to[count++].id = i;
  }
  return count;
}


/* Where a tail begins among the names of tokens. */
static bool place_tail (heed_tokenizer *t, node *to, span name, uint32_t depth) {
  const size_t at = (size_t)(name.at - t->names) + depth;
  if (at > NODE_BITS) return refuse_size(t);
  to->base = at & NODE_BITS;
  to->has_tail = 1;
  return true;
}


/* Copies the nodes to stay. The root's piece, which no text has, is the unknown one. */
static bool settle (tree *r) {
  unigram *u = &r->t->unigram;
  u->nodes = keep_room(&r->t->memory, (size_t)r->nodes.n * sizeof *u->nodes);
  u->ids = keep_room(&r->t->memory, (size_t)r->nodes.n * sizeof *u->ids);
  if (u->nodes == NULL || u->ids == NULL) return false;
  for (int64_t i = 0; i < r->nodes.n; i++) {
    const grown *g = &r->nodes.at[i];
    const token *ending = g->id != NO_ID ? &r->t->tokens[g->id] : NULL;
    node *to = &u->nodes[i];
    u->ids[i] = g->id;
    *to = (node){.score = ending != NULL ? r->scores[g->id] : -INFINITY, .parent = g->parent,
                 .base = g->lonely ? 0 : g->base & NODE_BITS,
                 .special = ending != NULL && ending->special};
    if (!g->lonely) continue;
    if (g->base < ending->name.n && !place_tail(r->t, to, ending->name, g->base)) return false;
  }
  u->ids[ROOT] = r->t->unknown;
  return true;
}


static bool build (heed_tokenizer *t, const double *scores, uint32_t n, bool all) {
  size_t size = ((size_t)n + 1) * sizeof(sorted);
  tree r = {.t = t, .scores = scores};
  r.pieces = core_alloc(t->cx, size);
  r.room = core_alloc(t->cx, size);
  bool good = r.pieces != NULL && r.room != NULL;
  good = good && grow_all(&r, list_pieces(t, r.pieces, n, all)) && settle(&r);
  core_free(t->cx, r.pieces, size);
  core_free(t->cx, r.room, size);
  LIST_FREE(t->cx, &r.nodes);
  LIST_FREE(t->cx, &r.free);
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


/*
** The double nearest to digits / tens. Both are scaled to fill 64 bits, so that the quotient has 63
** bits at least, ten more than a double; its lowest bit tells whether there is a remainder.
*/
static double nearest_quotient (uint64_t digits, uint64_t tens) {
  if (digits == 0) return 0;
  const int up = __builtin_clzll(digits), down = __builtin_clzll(tens);
  const wide n = (wide)(digits << up) << 63, d = tens << down;
  const uint64_t q = (uint64_t)(n / d) | (n % d != 0);
  return ldexp((double)q, down - up - 63);
}


/* A number of few digits without an exponent, as strtod reads it, but several times faster. */
static bool plain_number (const char *s, size_t n, double *to) {
  const bool negative = n > 0 && s[0] == '-';
  uint64_t digits = 0, tens = 1;
  int count = 0;
  bool point = false;
  for (size_t i = negative; i < n; i++) {
    if (s[i] == '.') point = true;
    else if (s[i] < '0' || s[i] > '9' || ++count > MOST_DIGITS) return false;
    else {
      digits = 10 * digits + (uint64_t)(s[i] - '0');
      if (point) tens *= 10;
    }
  }
  const double size = nearest_quotient(digits, tens);
  *to = negative ? -size : size;
  return true;
}


/* A number of the JSON, whatever the host's locale has for a decimal point. */
static bool read_number (const json *j, const json_value *v, double *to) {
  char text[64];
  if (!json_kind_is(v, HEED_JSON_NUMBER) || v->length >= sizeof text) return false;
  if (plain_number(json_text(j, v), v->length, to)) return true;
  memcpy(text, json_text(j, v), v->length);
  text[v->length] = '\0';
  char *point = strchr(text, '.');
  if (point != NULL) *point = *localeconv()->decimal_point;
  *to = strtod(text, NULL);
  return *to - *to == 0;
}


static bool read_scores (heed_tokenizer *t, const json *j, const json_value *list,
                         double *scores) {
  unigram *u = &t->unigram;
  const json_value *v = json_inside(j, list);
  for (uint32_t i = 0; i < list->length; i++, v = json_next(j, v)) {
    if (!read_number(j, json_next(j, json_inside(j, v)), &scores[i]) || fabs(scores[i]) > MOST)
      return refuse(t, "a number from -1e200 to 1e200 as a score");
    if (i == 0 || scores[i] < u->unknown) u->unknown = scores[i];
  }
  u->unknown -= PENALTY;
  return true;
}


static bool read_pieces (heed_tokenizer *t, const json *j, const json_value *model) {
  const json_value *list = json_get(j, model, "vocab");
  bool all = !json_kind_is(json_get(j, model, "bytes_in_text"), HEED_JSON_FALSE);
  size_t size = (list->length + 1) * sizeof(double);
  double *scores = core_alloc(t->cx, size);
  bool good = scores != NULL && read_scores(t, j, list, scores) &&
              build(t, scores, list->length, all);
  core_free(t->cx, scores, size);
  return good;
}


bool unigram_read (heed_tokenizer *t, const json *j, const json_value *model) {
  const json_value *list = json_get(j, model, "vocab"), *unknown = json_get(j, model, "unk_id");
  int64_t id;
  t->cut = unigram_cut;
  t->fuse_unknown = true;
  t->unknown = NO_ID;
  if (list->kind != HEED_JSON_ARRAY) return refuse(t, "a list of pieces and scores as 'vocab'");
  if (unknown != NULL && unknown->kind != HEED_JSON_NULL) {
    if (!json_integer(j, unknown, &id) || id >= list->length)
      return refuse(t, "an id of the vocabulary as 'unk_id'");
    t->unknown = (uint32_t)id;
  }
  model_fallback(t, j, model);
  return read_pieces(t, j, model);
}


void unigram_free (heed_tokenizer *t) { LIST_FREE(t->cx, &t->unigram.best); }

/* }================================================================== */


/*
** {==================================================================
** Cutting
** ===================================================================
*/

/* How many bytes a node's tail has, if they follow in the word; 0: they do not. Bytes that are
   compared are steps. */
static uint32_t tail_length (const heed_tokenizer *t, uint32_t i, bytes p, uint32_t n,
                             int64_t *steps) {
  const char *tail = t->names + t->unigram.nodes[i].base;
  if (n == 0 || (unsigned char)*tail != *p) return 0;
  const span name = t->tokens[t->unigram.ids[i]].name;
  const uint32_t rest = (uint32_t)(name.at + name.n - tail);
  if (rest > n) return 0;
  *steps += rest;
  return memcmp(tail, p, rest) == 0 ? rest : 0;
}


/* Offers all pieces that begin at a place. Is one of them the character there, of 'width' bytes? */
static bool offer_pieces (const heed_tokenizer *t, bytes word, uint32_t at, uint32_t n,
                          uint32_t width, int64_t *steps) {
  const unigram *u = &t->unigram;
  const node *nodes = u->nodes, *last = &nodes[ROOT];
  const bool parse = t->parse;
  way *best = u->best.at;
  const double score = best[at].score;
  bool whole = false;
  uint32_t i = ROOT, p = at;
  while (p < n && !last->has_tail) {
    uint32_t next = last->base ^ word[p];
    if (nodes[next].parent != i) break;
    i = next;
    last = &nodes[i];
    p++;
    if (last->has_tail) {
      const uint32_t rest = tail_length(t, i, word + p, n - p, steps);
      if (rest == 0) break;
      p += rest;
    }
    bool may = parse || !last->special;
    if (p - at == width) whole = may && last->score >= -MOST;
    if (score + last->score > best[p].score && may)
      best[p] = (way){score + last->score, at, i};
  }
  *steps += p - at;
  return whole;
}


static bool find_best (heed_tokenizer *t, bytes word, uint32_t n) {
  unigram *u = &t->unigram;
  int64_t steps = 0;
  u->best.n = 0;
  if (!ROOM(t->cx, &u->best, (int64_t)n + 1)) return false;
  way *best = u->best.at;
  best[0] = (way){0, 0, ROOT};
  for (uint32_t i = 1; i <= n; i++) {
    best[i] = (way){-INFINITY, 0, ROOT};
    if (!text_polls(t->cx, i)) return false;
  }
  for (uint32_t at = 0, width; at < n; at += width) {
    uint32_t point;
    width = (uint32_t)utf8_get(word + at, word + n, &point);
    if (!offer_pieces(t, word, at, n, width, &steps)) {
      if (t->unknown == NO_ID) return refuse(t, "'unk_id' for a character that is no piece");
      way unknown = {best[at].score + u->unknown, at, ROOT};
      if (unknown.score > best[at + width].score) best[at + width] = unknown;
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
  const unigram *u = &t->unigram;
  const way *best = u->best.at;
  int64_t steps = 0;
  t->slices.n = 0;
  for (uint32_t end = (uint32_t)n, from; end > 0; end = from) {
    uint32_t id = u->ids[best[end].node];
    from = best[end].from;
    while (id == t->unknown && from > 0 && u->ids[best[from].node] == id) from = best[from].from;
    bool good = id != t->unknown ? give_slice(t, id, end - from) :
                give_unknown(t, (bytes)word + from, end - from);
    if (!good || !text_polls(t->cx, steps++)) return false;
  }
  reverse(t->slices.at, t->slices.n);
  return true;
}

/* }================================================================== */
