/*
** train.c - training of tokenizers: words are counted, and tokens are made of their characters.
*/

#include <string.h>

#include "memory/context.h"
#include "text/train.h"
#include "text/utf8.h"

#define PIECE (1 << 20)            /* bytes of a long text that are cut into words at once */
#define POINTS 0x110000


/*
** {==================================================================
** Tokens by name
** ===================================================================
*/

static uint64_t slot_of (const heed_trainer *r, const char *name, size_t n) {
  uint64_t at = bytes_hash(name, n) & (r->slots - 1);
  for (; r->slot[at] != 0; at = (at + 1) & (r->slots - 1)) {
    const made *m = &r->tokens.at[r->slot[at] - 1];
    if (m->n == n && memcmp(r->names.at + m->at, name, n) == 0) break;
  }
  return at;
}


uint32_t made_find (const heed_trainer *r, const char *name, size_t n) {
  return r->slots > 0 ? r->slot[slot_of(r, name, n)] - 1 : NOT_MADE;
}


static bool widen (heed_trainer *r) {
  uint64_t old = r->slots;
  uint32_t *kept = r->slot, *slot;
  r->slots = old > 0 ? 4 * old : 1 << 10;
  slot = core_alloc(r->cx, r->slots * sizeof *slot);
  if (slot == NULL) {
    r->slots = old;
    return false;
  }
  r->slot = memset(slot, 0, r->slots * sizeof *slot);
  for (int64_t i = 0; i < r->tokens.n; i++) {
    const made *m = &r->tokens.at[i];
    slot[slot_of(r, r->names.at + m->at, m->n)] = (uint32_t)i + 1;
  }
  core_free(r->cx, kept, old * sizeof *slot);
  return true;
}


bool made_add (heed_trainer *r, const char *name, size_t n, bool special) {
  if ((uint64_t)r->tokens.n >= r->slots / 2 && !widen(r)) return false;
  if (!ROOM(r->cx, &r->tokens, 1) || !ROOM(r->cx, &r->names, (int64_t)n)) return false;
  uint64_t at = slot_of(r, name, n);
  memcpy(r->names.at + r->names.n, name, n);
  r->tokens.at[r->tokens.n++] = (made){(uint64_t)r->names.n, (uint32_t)n, special};
  r->names.n += (int64_t)n;
  r->slot[at] = (uint32_t)r->tokens.n;
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** The first tokens: bytes, or the most frequent characters
** ===================================================================
*/

static bool add_first (heed_trainer *r, uint32_t point, bool inside) {
  char name[128];
  span prefix = r->t->prefix;
  size_t n = inside ? prefix.n : 0;
  memcpy(name, prefix.at, n);
  n += (size_t)utf8_put(name + n, point);
  uint32_t id = made_find(r, name, n);
  if (id == NOT_MADE) return made_add(r, name, n, false);
  core_fail(r->cx, NULL, "a special token that is no character of words expected, got '%.*s'",
            (int)n, name);
  return false;
}


static bool add_bytes (heed_trainer *r) {
  for (uint32_t point = 0; point < 0x144; point++)
    if (byte_of(point) >= 0 && !add_first(r, point, false)) return false;
  return true;
}


typedef struct point_count { int64_t count; bool inside; } point_count;


static bool count_points (heed_trainer *r, point_count *points) {
  const word_counts *w = r->t->counts;
  for (int64_t i = 0; i < w->words.n; i++) {
    const counted *c = &w->words.at[i];
    bytes start = (bytes)w->bytes.at + c->at, end = start + c->n;
    uint32_t point;
    for (bytes p = start; p < end; ) {
      bool inside = p > start;
      p += utf8_get(p, end, &point);
      points[point].count += c->count;
      points[point].inside = points[point].inside || inside;
      if (((p - start) & 0xffff) < 4 && core_poll(r->cx, NULL)) return false;
    }
  }
  return true;
}


/* The count that a character needs, so that no more than 'most' have it; of those that have it
   exactly, the first 'ties' are taken. */
static int64_t least_count (const point_count *points, int64_t most, int64_t *ties) {
  int64_t low = 1, high = 1;
  for (uint32_t c = 0; c < POINTS; c++) if (points[c].count > high) high = points[c].count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2, n = 0;
    for (uint32_t c = 0; c < POINTS; c++) n += points[c].count > middle;
    if (n <= most) high = middle;
    else low = middle + 1;
  }
  *ties = most;
  for (uint32_t c = 0; c < POINTS; c++) *ties -= points[c].count > low;
  return low;
}


static bool add_points (heed_trainer *r, const point_count *points, int64_t most) {
  int64_t ties, least = least_count(points, most, &ties);
  const int places = r->t->prefix.n > 0 ? 2 : 1;       /* without a prefix, both are one token */
  for (int inside = 0; inside < places; inside++) {
    int64_t left = ties;
    for (uint32_t c = 0; c < POINTS; c++) {
      bool taken = points[c].count > least || (points[c].count == least && left-- > 0);
      if (taken && (!inside || points[c].inside) && !add_first(r, c, inside)) return false;
    }
  }
  return true;
}


static bool add_characters (heed_trainer *r, int64_t most) {
  size_t size = POINTS * sizeof(point_count);
  point_count *points = core_alloc(r->cx, size);
  if (points == NULL) return false;
  memset(points, 0, size);
  bool good = count_points(r, points) && add_points(r, points, most);
  core_free(r->cx, points, size);
  return good;
}

/* }================================================================== */


/*
** {==================================================================
** The API
** ===================================================================
*/

heed_trainer *heed_trainer_new (heed_context *cx, const char *parts, size_t n) {
  heed_tokenizer *t = heed_tokenizer_read(cx, parts, n);
  heed_trainer *r = t != NULL ? core_alloc(cx, sizeof *r) : NULL;
  word_counts *counts = r != NULL ? keep(&t->memory, sizeof *counts) : NULL;
  if (counts == NULL) {
    if (r != NULL) core_free(cx, r, sizeof *r);
    heed_tokenizer_drop(t);
    return NULL;
  }
  *r = (heed_trainer){.cx = cx, .t = t};
  t->counts = counts;
  return r;
}


void heed_trainer_drop (heed_trainer *r) {
  if (r == NULL) return;
  LIST_FREE(r->cx, &r->tokens);
  LIST_FREE(r->cx, &r->names);
  LIST_FREE(r->cx, &r->merges);
  core_free(r->cx, r->slot, r->slots * sizeof *r->slot);
  words_free(r->cx, r->t->counts);
  heed_tokenizer_drop(r->t);
  core_free(r->cx, r, sizeof *r);
}


/* How many bytes are cut at once: all, or up to the end of a line that no blank stands beside. */
static size_t piece_of (const char *text, size_t n) {
  if (n <= 2 * PIECE) return n;
  for (size_t i = PIECE; i < 2 * PIECE; i++)
    if (text[i - 1] == '\n' && (unsigned char)text[i - 2] > ' ' && (unsigned char)text[i] > ' ')
      return i;
  for (size_t i = PIECE; i < 2 * PIECE; i++) if (text[i - 1] == '\n' || text[i] == ' ') return i;
  size_t i = PIECE;
  while (i > PIECE - 4 && ((unsigned char)text[i] & 0xc0) == 0x80) i--;
  return i;
}


bool heed_trainer_feed (heed_trainer *r, const char *text, size_t n) {
  const heed_tokenizing how = {.special = false};
  heed_tokens none;
  if (r == NULL || (n > 0 && !core_given(r->cx, "trainer_feed", "a text", text))) return false;
  for (size_t now; n > 0; text += now, n -= now) {
    now = piece_of(text, n);
    if (!heed_tokenize(r->t, text, now, NULL, 0, &how, &none) || core_poll(r->cx, NULL))
      return false;
  }
  return true;
}


static bool special_given (heed_trainer *r, const heed_training *how) {
  static const char who[] = "trainer_make";
  if (how->nspecial > 0 && !core_given(r->cx, who, "a list of special tokens", how->special))
    return false;
  for (int64_t i = 0; i < how->nspecial; i++)
    if (!core_given(r->cx, who, "the text of a special token", how->special[i].at)) return false;
  return true;
}


bool heed_trainer_make (heed_trainer *r, const heed_training *how) {
  if (r == NULL || !core_given(r->cx, "trainer_make", "what to make", how) ||
      !special_given(r, how)) return false;
  r->tokens.n = r->names.n = r->merges.n = 0;
  if (r->slots > 0) memset(r->slot, 0, r->slots * sizeof *r->slot);
  for (int64_t i = 0; i < how->nspecial; i++)
    if (!made_add(r, how->special[i].at, how->special[i].n, true)) return false;
  if (!(r->t->byte_level ? add_bytes(r) : add_characters(r, how->characters))) return false;
  if (r->tokens.n <= how->vocabulary) return join_pairs(r, how->vocabulary, how->least);
  core_fail(r->cx, NULL, "a vocabulary of at least %lld tokens expected, got %lld",
            (long long)r->tokens.n, (long long)how->vocabulary);
  return false;
}


int64_t heed_trainer_count (const heed_trainer *r) { return r != NULL ? r->tokens.n : 0; }


heed_text heed_trainer_token (const heed_trainer *r, int64_t id) {
  if (r == NULL || id < 1 || id > r->tokens.n) return (heed_text){NULL, 0};
  const made *m = &r->tokens.at[id - 1];
  return (heed_text){r->names.at + m->at, m->n};
}


bool heed_trainer_merge (const heed_trainer *r, int64_t i, int64_t ids[2]) {
  if (r == NULL || i < 0 || i >= r->merges.n ||
      !core_given(r->cx, "trainer_merge", "a place for two ids", ids)) return false;
  ids[0] = (int64_t)r->merges.at[i].left + 1;
  ids[1] = (int64_t)r->merges.at[i].right + 1;
  return true;
}

/* }================================================================== */
