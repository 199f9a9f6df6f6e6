/*
** added.c - tokens that are found in a text as they are, before it is split: at each place the
** longest, from left to right.
*/

#include <string.h>

#include "memory/context.h"
#include "text/tokenizer.h"
#include "text/utf8.h"


/*
** {==================================================================
** Reading
** ===================================================================
*/

static bool open_set (heed_tokenizer *t, added_set *s, uint32_t n) {
  memset(s->first, 0xff, sizeof s->first);
  s->at = keep(&t->memory, n * sizeof *s->at);
  s->other = keep(&t->memory, n * sizeof *s->other);
  return s->at != NULL && s->other != NULL;
}


/* Lists of one first byte are in order of length, the longest first. */
static bool insert (heed_tokenizer *t, added_set *s, added_token a, int64_t *steps) {
  int32_t self = s->n++, *to;
  s->at[self] = a;
  to = &s->first[(unsigned char)a.text.at[0]];
  for (; *to >= 0 && s->at[*to].text.n > a.text.n; to = &s->other[*to])
    if (!text_polls(t->cx, ++*steps)) return false;
  s->other[self] = *to;
  *to = self;
  return text_polls(t->cx, ++*steps);
}


/* The token's text as it stands in normalized texts. */
static bool normalize_token (heed_tokenizer *t, added_token *a) {
  passage text = {.from = (bytes)a->text.at, .end = (bytes)a->text.at + a->text.n};
  if (!normalize(t, &text)) return false;
  size_t n = (size_t)(text.end - text.from);
  char *copy = keep(&t->memory, n);
  if (copy == NULL) return false;
  if (n > 0) memcpy(copy, text.from, n);
  a->text = (span){copy, (uint32_t)n};
  return true;
}


/* The id of an added token: that of the model's token with its name, where there is one, whatever
   the list says. */
static uint32_t id_of (heed_tokenizer *t, uint32_t listed) {
  const token *k = &t->tokens[listed];
  if (k->own) return listed;
  uint32_t id = table_find(t, &t->by_name, k->name.at, k->name.n);
  if (id == NO_ID || !t->tokens[id].own) return listed;
  t->tokens[id].added = true;
  t->tokens[id].special = t->tokens[id].special || k->special;
  return id;
}


bool added_read (heed_tokenizer *t, const json *j, const json_value *list) {
  uint32_t n = list != NULL ? list->length : 0;
  if (!open_set(t, &t->added[0], n) || !open_set(t, &t->added[1], n)) return false;
  const json_value *v = list != NULL ? json_inside(j, list) : NULL;
  int64_t steps = 0;
  normalize_begin(t, (int64_t)j->size);
  for (uint32_t i = 0; i < n; i++, v = json_next(j, v)) {
    int64_t id = 0;
    json_integer(j, json_get(j, v, "id"), &id);
    added_token a = {
      .id = id_of(t, (uint32_t)id), .text = t->tokens[id].name,
      .single_word = json_true(json_get(j, v, "single_word")),
      .left = json_true(json_get(j, v, "lstrip")), .right = json_true(json_get(j, v, "rstrip")),
      .special = json_true(json_get(j, v, "special"))
    };
    bool normalized = json_true(json_get(j, v, "normalized"));
    if (normalized && !normalize_token(t, &a)) return false;
    if (a.text.n > 0 && !insert(t, &t->added[normalized], a, &steps)) return false;
  }
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Searching
** ===================================================================
*/

static bool is_in (const heed_tokenizer *t, uint32_t point, uint32_t categories) {
  return unicode_in(&t->u, point, categories);
}


/* Joiners of width zero belong to words. */
static bool is_word (const heed_tokenizer *t, uint32_t point) {
  return is_in(t, point, unicode_word()) || point == 0x200c || point == 0x200d;
}


/* Is the text of a token at p no part of a longer word? */
static bool is_alone (const heed_tokenizer *t, bytes start, bytes p, bytes q, bytes end) {
  uint32_t point;
  if (p > start && utf8_before(start, p, &point) > 0 && is_word(t, point)) return false;
  return q >= end || utf8_get(q, end, &point) == 0 || !is_word(t, point);
}


/* Where the byte at p of the passage stands in the whole text. */
static int64_t place_of (const heed_tokenizer *t, bytes p, bool behind) {
  const origin *origins = t->now.origins;
  int64_t at = p - t->now.from;
  if (origins == NULL) return t->now.shift + at;
  return behind ? origins[at - 1].end : origins[at].from;
}


/* Does the text from p to q lie in one of the parts where special tokens are found? */
static bool in_part (const heed_tokenizer *t, bytes p, bytes q) {
  int64_t low = 0, high = t->nparts;
  if (high == 0) return false;
  int64_t from = place_of(t, p, false), end = place_of(t, q, true);
  while (low < high) {                     /* the first part that ends behind 'from' */
    int64_t middle = low + (high - low) / 2;
    if (t->parts[2 * middle + 1] > from) high = middle;
    else low = middle + 1;
  }
  return low < t->nparts && t->parts[2 * low] <= from && end <= t->parts[2 * low + 1];
}


/* The longest of the tokens that stand at p, or NULL; 'steps' counts those that were looked at. */
static const added_token *find_at (const heed_tokenizer *t, const added_set *s, bytes p,
                                   bytes end, int64_t *steps) {
  for (int32_t i = s->first[*p]; i >= 0; i = s->other[i], ++*steps) {
    span text = s->at[i].text;
    bool open = !s->at[i].special || t->parse;
    if (!open && t->nparts == 0) continue;
    if (text.n > (size_t)(end - p) || memcmp(text.at, p, text.n) != 0) continue;
    if (open || in_part(t, p, p + text.n)) return &s->at[i];
  }
  return NULL;
}


static bytes blanks_before (const heed_tokenizer *t, bytes from, bytes p) {
  uint32_t point;
  while (p > from) {
    int n = utf8_before(from, p, &point);
    if (!is_in(t, point, unicode_blanks())) break;
    p -= n;
  }
  return p;
}


static bytes blanks_behind (const heed_tokenizer *t, bytes p, bytes end) {
  uint32_t point;
  while (p < end) {
    int n = utf8_get(p, end, &point);
    if (!is_in(t, point, unicode_blanks())) break;
    p += n;
  }
  return p;
}


/* Gives a token at p that takes the blanks from 'left' and up to 'right' along. Offsets that lose
   blanks lose those, but for a single one in front of the whole text, where a prefix stays. */
static bool give_added (heed_tokenizer *t, const added_token *a, bytes left, bytes p, bytes right) {
  uint32_t blank;
  bool is_one = left < p && left + utf8_get(left, p, &blank) == p;
  bool stays = is_one && t->trims_prefix && place_of(t, left, false) == 0;
  if (t->trims && !stays) left = p;
  if (t->trims) right = p + a->text.n;
  return give_token(t, a->id, left - t->now.from, right - t->now.from);
}


/* Tokens are found in the blanks, too, that the one before them took along. */
bool added_split (heed_tokenizer *t, int which, bytes from, bytes end,
                  bool (*between) (heed_tokenizer *t, bytes from, bytes end)) {
  const added_set *s = &t->added[which];
  bytes start = from, p = s->n > 0 ? from : end, blanks = from;
  int64_t steps = 0;
  while (p < end) {
    const added_token *a = s->first[*p] >= 0 ? find_at(t, s, p, end, &steps) : NULL;
    if (++steps > 0xffff) {
      if (core_poll(t->cx, NULL)) return false;
      steps = 0;
    }
    if (a == NULL) {
      p++;
      continue;
    }
    bytes at = p, left = p, right = p + a->text.n;
    p = right;
    if (a->single_word && !is_alone(t, start, left, right, end)) continue;
    if (a->left && from < right) left = from < left ? blanks_before(t, from, left) : from;
    if (a->right) right = blanks = blanks_behind(t, right < blanks ? blanks : right, end);
    if (left > from && !between(t, from, left)) return false;
    if (!give_added(t, a, left, at, right)) return false;
    from = right;
  }
  return from >= end || between(t, from, end);
}

/* }================================================================== */
