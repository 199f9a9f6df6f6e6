/*
** precompiled.c - the normalizer Precompiled: clusters of fewer than six bytes are looked up as a
** whole, and what is found takes the place of all of one, though it may be that of its start only;
** other clusters are looked up character by character. So the package `tokenizers` has it.
** SentencePiece looks up the longest start instead.
*/

#include "text/charsmap.h"
#include "text/grapheme.h"
#include "text/normalize.h"
#include "text/utf8.h"

#define SHORT_CLUSTER 6

/* A character that waits: what is dropped behind it belongs to it. */
typedef struct waiting {
  rewriting *r;
  uint32_t point;
  int64_t change;
  bool is;
} waiting;


static bool flush (waiting *w) {
  bool good = !w->is || rewriting_put(w->r, w->point, w->change);
  w->is = false;
  return good;
}


static bool put (waiting *w, uint32_t point, int64_t change) {
  if (!flush(w)) return false;
  *w = (waiting){w->r, point, change, true};
  return true;
}


static int64_t count_points (bytes p, bytes end) {
  int64_t count = 0;
  for (uint32_t point; p < end; count++) p += utf8_get(p, end, &point);
  return count;
}


/* A text in the place of [p, end): its last characters are new ones, or the last one takes those
   that are left over. */
static bool put_instead (waiting *w, bytes text, size_t n, bytes p, bytes end) {
  bytes text_end = text + n;
  int64_t count = count_points(text, text_end), more = count - count_points(p, end);
  for (int64_t i = 0; i < count; i++) {
    uint32_t point;
    text += utf8_get(text, text_end, &point);
    if (!put(w, point, more > 0 && i >= count - more ? 1 : 0)) return false;
  }
  if (more < 0 && w->is) w->change += more;
  return true;
}


/* The longest start of what is left, or a character. */
static bool put_longest (waiting *w, const charsmap *m, bytes *p, bytes end) {
  size_t n, used;
  uint32_t point;
  const char *text = charsmap_find(m, *p, end, true, &n, &used);
  bytes from = *p;
  *p += text != NULL ? (int64_t)used : utf8_get(*p, end, &point);
  if (text != NULL) return put_instead(w, (bytes)text, n, from, *p);
  return put(w, *p - from == 1 && *from >= 128 ? RAW_BYTE + *from : point, 0);
}


/* [p, end) as a whole, if the table has a start of it. */
static bool put_found (waiting *w, const charsmap *m, bytes p, bytes end, bool *found) {
  size_t n, used;
  const char *text = charsmap_find(m, p, end, false, &n, &used);
  *found = text != NULL;
  return text == NULL || put_instead(w, (bytes)text, n, p, end);
}


static bool put_points (waiting *w, const charsmap *m, bytes p, bytes end) {
  for (int n; p < end; p += n) {
    uint32_t point;
    bool found;
    n = utf8_get(p, end, &point);
    if (n == 1 && *p >= 128) point = RAW_BYTE + *p;
    if (!put_found(w, m, p, p + n, &found)) return false;
    if (!found && !put(w, point, 0)) return false;
  }
  return true;
}


bool precompiled_run (const normalizer *n, rewriting *r) {
  waiting w = {.r = r};
  bytes end = r->old->end, p = r->p;
  for (int64_t i = 0; p < end; i++) {
    if (!text_polls(r->t->cx, i)) return false;
    if (n->longest) {
      if (!put_longest(&w, n->map, &p, end)) return false;
      continue;
    }
    bytes next = p + grapheme_length(&r->t->u, p, end);
    bool found = false;
    if (next - p < SHORT_CLUSTER && !put_found(&w, n->map, p, next, &found)) return false;
    if (!found && !put_points(&w, n->map, p, next)) return false;
    p = next;
  }
  return flush(&w);
}
