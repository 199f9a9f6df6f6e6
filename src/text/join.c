/*
** join.c - training: of all neighbours in the words the most frequent pair becomes a token, again
** and again. Of equally frequent pairs it is the one with the smaller left id, then the smaller
** right one.
**
** Symbols of all words stand in one array, those of a word linked. Each pair knows how often it is
** there, and all places where it ever began; a place counts only if the pair still stands there. A
** heap holds pairs by how often they were there when they entered it, which may be too often, never
** too seldom.
*/

#include <string.h>

#include "memory/context.h"
#include "text/train.h"
#include "text/utf8.h"

#define NONE (-1)
#define POLLED_STEPS 0x3fff

typedef struct letter { uint32_t id; int32_t before, next, word; } letter;
typedef struct place { int32_t at, next; } place;      /* next: of the list, or NONE */

typedef struct pair {
  uint32_t left, right;
  int32_t first, last;             /* places, in the order in which they came */
  int64_t count;
  bool waits;                      /* to enter the heap */
} pair;

typedef struct waiting { int64_t count; int32_t pair; } waiting;

typedef struct joiner {
  heed_trainer *r;
  heed_context *cx;
  const word_counts *words;
  LIST(letter) letters;
  LIST(place) places;
  LIST(pair) pairs;
  LIST(waiting) heap;
  LIST(int32_t) more;              /* pairs that are there more often than before */
  int32_t free;                    /* places to use again */
  uint32_t *slot;                  /* pairs by their ids, plus one */
  uint64_t slots;
  int64_t steps;
} joiner;


static bool polls (joiner *k) {
  return (++k->steps & POLLED_STEPS) != 0 || !core_poll(k->cx, NULL);
}


/*
** {==================================================================
** Pairs
** ===================================================================
*/

static uint64_t slot_of (const joiner *k, uint32_t left, uint32_t right) {
  uint64_t at = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
  for (at = (at ^ at >> 29) & (k->slots - 1); k->slot[at] != 0; at = (at + 1) & (k->slots - 1)) {
    const pair *p = &k->pairs.at[k->slot[at] - 1];
    if (p->left == left && p->right == right) break;
  }
  return at;
}


static bool widen (joiner *k) {
  uint64_t old = k->slots;
  uint32_t *kept = k->slot, *slot;
  k->slots = old > 0 ? 4 * old : 1 << 12;
  slot = core_alloc(k->cx, k->slots * sizeof *slot);
  if (slot == NULL) {
    k->slots = old;
    return false;
  }
  k->slot = memset(slot, 0, k->slots * sizeof *slot);
  for (int64_t i = 0; i < k->pairs.n; i++)
    slot[slot_of(k, k->pairs.at[i].left, k->pairs.at[i].right)] = (uint32_t)i + 1;
  core_free(k->cx, kept, old * sizeof *slot);
  return true;
}


/* The pair's number, which it is given if it is new; NONE: no memory. */
static int32_t pair_number (joiner *k, uint32_t left, uint32_t right) {
  if ((uint64_t)k->pairs.n >= k->slots / 2 && !widen(k)) return NONE;
  uint64_t at = slot_of(k, left, right);
  if (k->slot[at] == 0) {
    if (!ROOM(k->cx, &k->pairs, 1)) return NONE;
    k->pairs.at[k->pairs.n++] = (pair){left, right, NONE, NONE, 0, false};
    k->slot[at] = (uint32_t)k->pairs.n;
  }
  return (int32_t)k->slot[at] - 1;
}


static bool add_place (joiner *k, int32_t number, int32_t at) {
  int32_t self = k->free;
  pair *p = &k->pairs.at[number];
  if (self != NONE) k->free = k->places.at[self].next;
  else {
    if (k->places.n >= INT32_MAX || !ROOM(k->cx, &k->places, 1)) return false;
    self = (int32_t)k->places.n++;
  }
  k->places.at[self] = (place){at, NONE};
  if (p->last == NONE) p->first = self;
  else k->places.at[p->last].next = self;
  p->last = self;
  return true;
}


/* The letter at a place and the next one are there, 'count' times more. */
static bool add_pair (joiner *k, int32_t at, int64_t count) {
  const letter *a = &k->letters.at[at];
  int32_t number = pair_number(k, a->id, k->letters.at[a->next].id);
  if (number == NONE || !add_place(k, number, at) || !ROOM(k->cx, &k->more, 1)) return false;
  pair *p = &k->pairs.at[number];
  p->count += count;
  if (!p->waits) k->more.at[k->more.n++] = number;
  return p->waits = true;
}


static void drop_pair (joiner *k, uint32_t left, uint32_t right, int64_t count) {
  uint32_t number = k->slot[slot_of(k, left, right)];
  k->pairs.at[number - 1].count -= count;
}

/* }================================================================== */


/*
** {==================================================================
** The heap
** ===================================================================
*/

static bool is_before (const joiner *k, const waiting *a, const waiting *b) {
  const pair *p = &k->pairs.at[a->pair], *q = &k->pairs.at[b->pair];
  if (a->count != b->count) return a->count > b->count;
  return p->left != q->left ? p->left < q->left : p->right < q->right;
}


static bool push (joiner *k, int32_t number) {
  if (!ROOM(k->cx, &k->heap, 1)) return false;
  waiting new = {k->pairs.at[number].count, number}, *heap = k->heap.at;
  int64_t i = k->heap.n++;
  for (; i > 0 && is_before(k, &new, &heap[(i - 1) / 2]); i = (i - 1) / 2)
    heap[i] = heap[(i - 1) / 2];
  heap[i] = new;
  return true;
}


static bool push_more (joiner *k) {
  for (; k->more.n > 0; k->more.n--) {
    int32_t number = k->more.at[k->more.n - 1];
    k->pairs.at[number].waits = false;
    if (!polls(k) || !push(k, number)) return false;
  }
  return true;
}


static waiting pop (joiner *k) {
  waiting *heap = k->heap.at, first = heap[0], last = heap[--k->heap.n];
  int64_t i = 0, n = k->heap.n;
  for (;;) {
    int64_t child = 2 * i + 1;
    if (child >= n) break;
    child += child + 1 < n && is_before(k, &heap[child + 1], &heap[child]);
    if (!is_before(k, &heap[child], &last)) break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = last;
  return first;
}


/* The most frequent pair, or NONE: there is none that is there 'least' times. */
static int32_t best_pair (joiner *k, int64_t least, bool *stopped) {
  while (k->heap.n > 0) {
    waiting w = pop(k);
    int64_t count = k->pairs.at[w.pair].count;
    if ((*stopped = !polls(k))) return NONE;
    if (w.count == count) return count >= least && count > 0 ? w.pair : NONE;
    if (count > 0 && (*stopped = !push(k, w.pair))) return NONE;
  }
  return NONE;
}

/* }================================================================== */


/*
** {==================================================================
** Words as letters
** ===================================================================
*/

/* The token of a character in a word, or NOT_MADE. */
static uint32_t letter_id (const joiner *k, bytes p, int n, bool first) {
  char name[128];
  const heed_tokenizer *t = k->r->t;
  size_t length = 0;
  if (t->byte_level) length = (size_t)utf8_put(name, point_of(*p));
  else {
    if (!first) memcpy(name, t->prefix.at, length = t->prefix.n);
    memcpy(name + length, p, (size_t)n);
    length += (size_t)n;
  }
  return made_find(k->r, name, length);
}


/* The letters of a word; none of a word with a character that has no token. */
static bool add_word (joiner *k, int32_t word) {
  const counted *c = &k->words->words.at[word];
  bytes start = (bytes)k->words->bytes.at + c->at, end = start + c->n;
  int64_t first = k->letters.n;
  uint32_t point;
  if (first + c->n >= INT32_MAX)
    return core_fail(k->cx, NULL, "fewer than 2^31 bytes of different words expected") != NULL;
  for (bytes p = start; p < end; ) {
    int n = k->r->t->byte_level ? 1 : utf8_get(p, end, &point);
    uint32_t id = letter_id(k, p, n, p == start);
    if (id == NOT_MADE) {
      k->letters.n = first;
      return true;
    }
    if (!polls(k) || !ROOM(k->cx, &k->letters, 1)) return false;
    int32_t self = (int32_t)k->letters.n++;
    k->letters.at[self] = (letter){id, p == start ? NONE : self - 1, NONE, word};
    if (p > start) k->letters.at[self - 1].next = self;
    p += n;
  }
  return true;
}


static bool begin (joiner *k) {
  for (int64_t i = 0; i < k->words->words.n; i++)
    if (!add_word(k, (int32_t)i)) return false;
  for (int64_t i = 0; i < k->letters.n; i++) {
    const letter *a = &k->letters.at[i];
    if (!polls(k)) return false;
    if (a->next != NONE && !add_pair(k, (int32_t)i, k->words->words.at[a->word].count))
      return false;
  }
  return push_more(k);
}

/* }================================================================== */


/*
** {==================================================================
** Joining
** ===================================================================
*/

/* The token that a pair becomes, which may be there; NOT_MADE: no memory. */
static uint32_t token_of (joiner *k, const pair *p) {
  heed_trainer *r = k->r;
  const made *left = &r->tokens.at[p->left], *right = &r->tokens.at[p->right];
  uint32_t skip = r->t->prefix.n, n = left->n + right->n - skip, id;
  char *name = core_alloc(k->cx, n + 1);
  if (name == NULL) return NOT_MADE;
  memcpy(name, r->names.at + left->at, left->n);
  memcpy(name + left->n, r->names.at + right->at + skip, right->n - skip);
  id = made_find(r, name, n);
  if (id == NOT_MADE && made_add(r, name, n, false)) id = (uint32_t)r->tokens.n - 1;
  core_free(k->cx, name, n + 1);
  return id;
}


/* Joins the letter at a place with the next one. */
static bool join_at (joiner *k, int32_t at, uint32_t id) {
  letter *all = k->letters.at, *a = &all[at], *b = &all[a->next];
  int64_t count = k->words->words.at[a->word].count;
  if (a->before != NONE) drop_pair(k, all[a->before].id, a->id, count);
  if (b->next != NONE) drop_pair(k, b->id, all[b->next].id, count);
  a->id = id;
  a->next = b->next;
  b->id = NOT_MADE;
  if (a->next != NONE) all[a->next].before = at;
  return (a->before == NONE || add_pair(k, a->before, count)) &&
         (a->next == NONE || add_pair(k, at, count));
}


static bool stands_at (const joiner *k, int32_t at, uint32_t left, uint32_t right) {
  const letter *a = &k->letters.at[at];
  return a->id == left && a->next != NONE && k->letters.at[a->next].id == right;
}


/* A run of equal letters is joined from its start, two by two. */
static bool join_run (joiner *k, int32_t at, uint32_t old, uint32_t id) {
  const letter *all = k->letters.at;
  while (all[at].before != NONE && all[all[at].before].id == old) {
    at = all[at].before;
    if (!polls(k)) return false;
  }
  while (at != NONE && stands_at(k, at, old, old)) {
    if (!polls(k) || !join_at(k, at, id)) return false;
    at = all[at].next;
  }
  return true;
}


/* Joins the pair wherever it stands. */
static bool join_all (joiner *k, int32_t number, uint32_t id) {
  pair p = k->pairs.at[number];
  for (int32_t i = p.first, next; i != NONE; i = next) {
    place here = k->places.at[i];
    next = here.next;
    k->places.at[i].next = k->free;
    k->free = i;
    if (!polls(k)) return false;
    if (!stands_at(k, here.at, p.left, p.right)) continue;
    if (!(p.left == p.right ? join_run(k, here.at, p.left, id) : join_at(k, here.at, id)))
      return false;
  }
  pair *done = &k->pairs.at[number];
  done->first = done->last = NONE;
  done->count = 0;
  return push_more(k);
}


static bool join_best (joiner *k, int64_t most, int64_t least) {
  heed_trainer *r = k->r;
  bool stopped = false;
  while (r->tokens.n < most) {
    int32_t number = best_pair(k, least, &stopped);
    if (number == NONE) return !stopped;
    uint32_t id = token_of(k, &k->pairs.at[number]);
    if (id == NOT_MADE) return false;
    if (r->tokens.at[id].special) continue;
    if (!ROOM(k->cx, &r->merges, 1)) return false;
    const pair *p = &k->pairs.at[number];
    r->merges.at[r->merges.n++] = (made_merge){p->left, p->right};
    if (!join_all(k, number, id)) return false;
  }
  return true;
}

/* }================================================================== */


bool join_pairs (heed_trainer *r, int64_t most, int64_t least) {
  joiner k = {.r = r, .cx = r->cx, .words = r->t->counts, .free = NONE};
  bool good = begin(&k) && join_best(&k, most, least);
  LIST_FREE(k.cx, &k.letters);
  LIST_FREE(k.cx, &k.places);
  LIST_FREE(k.cx, &k.pairs);
  LIST_FREE(k.cx, &k.heap);
  LIST_FREE(k.cx, &k.more);
  core_free(k.cx, k.slot, k.slots * sizeof *k.slot);
  return good;
}
