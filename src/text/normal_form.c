/*
** normal_form.c - the normal forms of Unicode: NFC, NFD, NFKC, NFKD.
**
** A text is taken apart in front of each character that the form neither changes nor joins to
** others before it. Where others follow such a character, all of them are decomposed, put in
** canonical order, and composed.
*/

#include <string.h>

#include "memory/context.h"
#include "text/forms.h"
#include "text/normalize.h"
#include "text/utf8.h"


/* Does the form change the character, or join it to what is before it? */
static bool is_active (const unicode *u, const normalizer *n, uint32_t point) {
  int marks = n->composed ? UNICODE_JOINS : UNICODE_DECOMPOSES;
  if (n->compatible) marks |= UNICODE_COMPATIBLE;
  return (form_marks(u, point) & marks) != 0;
}


/* The first active character in [p, end), or 'end', and the one before it. */
static bytes next_active (const unicode *u, const normalizer *n, bytes p, bytes end,
                          bytes *before) {
  uint32_t point;
  for (*before = p; p < end; ) {
    int length = utf8_get(p, end, &point);
    if (point >= 128 && is_active(u, n, point)) return p;
    *before = p;
    p += length;
  }
  return end;
}


bool form_changes (heed_tokenizer *t, const normalizer *n, const passage *text) {
  bytes before;
  return next_active(&t->u, n, text->from, text->end, &before) < text->end;
}


/* The character at p, decomposed: its parts stand where it was. */
static bool add_parts (const normalizer *n, heed_tokenizer *t, uint32_t point) {
  uint32_t parts[FORM_MOST] = {point};
  int count = point < RAW_BYTE ? form_decompose(point, n->compatible, parts) : 1;
  if (!ROOM(t->cx, &t->units, FORM_MOST)) return false;
  for (int i = 0; i < count; i++)
    t->units.at[t->units.n++] = (unit){parts[i], unicode_class(parts[i]), i > 0};
  return true;
}


/* Combining characters behind each other in order of their classes, those of one class as they
   were: by counting, since a hostile text has any number of them. */
static bool sort_marks (heed_tokenizer *t, unit *at, int64_t n) {
  if (n < 2) return true;
  if (!ROOM(t->cx, &t->sorted, n)) return false;
  int64_t behind[256] = {0};
  for (int64_t i = 0; i < n; i++) behind[at[i].class]++;
  for (int64_t class = 0, before = 0, count; class < 256; class++, before += count) {
    count = behind[class];
    behind[class] = before;
  }
  for (int64_t i = 0; i < n; i++) t->sorted.at[behind[at[i].class]++] = at[i];
  memcpy(at, t->sorted.at, (size_t)n * sizeof *at);
  return true;
}


static bool sort_units (heed_tokenizer *t) {
  unit *at = t->units.at;
  for (int64_t i = 0, from = 0; i <= t->units.n; i++) {
    if (i < t->units.n && at[i].class != 0) continue;
    if (!sort_marks(t, at + from, i - from)) return false;
    from = i + 1;
  }
  return true;
}


/* A character joins the last one without a class, unless one that stays between them has no lower
   class. */
static void compose_units (heed_tokenizer *t) {
  unit *at = t->units.at;
  int64_t starter = -1, n = 0;
  int32_t last = 0;                /* the class of what stays between; 0: nothing does */
  for (int64_t i = 0; i < t->units.n; i++) {
    bool open = starter >= 0 && (last == 0 || last < at[i].class);
    uint32_t both = open ? form_compose(at[starter].point, at[i].point) : 0;
    if (both != 0) {
      at[starter].point = both;
      at[starter].change += at[i].change - 1;
      continue;
    }
    if (at[i].class == 0) starter = n;
    last = at[i].class;
    at[n++] = at[i];
  }
  t->units.n = n;
}


/* The characters up to 'end'. */
static bool run_stretch (const normalizer *n, rewriting *r, bytes end) {
  heed_tokenizer *t = r->t;
  t->units.n = 0;
  for (int64_t i = 0; r->p < end; i++) {
    uint32_t point;
    int length = rewriting_get(r, &point);
    if (!add_parts(n, t, point) || !text_polls(t->cx, i)) return false;
    r->p += length;
  }
  if (!sort_units(t)) return false;
  if (n->composed) compose_units(t);
  return true;
}


bool form_run (const normalizer *n, rewriting *r) {
  const unicode *u = &r->t->u;
  bytes end = r->old->end, before;
  for (int64_t i = 0; r->p < end; i++) {
    bytes active = next_active(u, n, r->p, end, &before), from, p = active;
    if (!rewriting_keep(r, active < end ? before : end)) return false;
    for (uint32_t point; p < end; ) {
      int length = utf8_get(p, end, &point);
      if (!is_active(u, n, point)) break;
      p += length;
    }
    from = r->p;
    if (!run_stretch(n, r, p)) return false;
    r->p = from;
    for (int64_t k = 0; k < r->t->units.n; k++) {
      const unit *one = &r->t->units.at[k];
      if (!rewriting_put(r, one->point, one->change) || !text_polls(r->t->cx, k)) return false;
    }
    if (!text_polls(r->t->cx, i)) return false;
  }
  return true;
}
