/*
** metaspace.c - the pre-tokenizer Metaspace: blanks become a mark, which words begin with.
*/

#include <string.h>

#include "memory/context.h"
#include "text/normalize.h"
#include "text/utf8.h"


static bool refuse (heed_tokenizer *t, const char *wanted) {
  core_fail(t->cx, NULL, "the pre-tokenizer Metaspace: %s expected", wanted);
  return false;
}


/* Older files have add_prefix_space, true unless it is there. */
static bool read_scheme (heed_tokenizer *t, const json *j, const json_value *v) {
  const json_value *scheme = json_get(j, v, "prepend_scheme");
  metaspace *m = &t->metaspace;
  m->scheme = PREPEND_ALWAYS;
  if (json_is(j, scheme, "never")) m->scheme = PREPEND_NEVER;
  else if (json_is(j, scheme, "first")) m->scheme = PREPEND_FIRST;
  else if (scheme == NULL && json_kind_is(json_get(j, v, "add_prefix_space"), HEED_JSON_FALSE))
    m->scheme = PREPEND_NEVER;
  return scheme == NULL || m->scheme != PREPEND_ALWAYS || json_is(j, scheme, "always") ||
         refuse(t, "'prepend_scheme' always, first or never");
}


bool metaspace_read (heed_tokenizer *t, const json *j, const json_value *v) {
  const json_value *mark = json_get(j, v, "replacement");
  metaspace *m = &t->metaspace;
  if (m->width > 0) return refuse(t, "one of it, or of add_prefix_space,");
  if (!json_kind_is(mark, HEED_JSON_TEXT) || mark->length == 0 || mark->length > 4)
    return refuse(t, "one character as 'replacement'");
  bytes p = (bytes)json_text(j, mark);
  m->width = utf8_get(p, p + mark->length, &m->mark);
  if (m->width != (int)mark->length) return refuse(t, "one character as 'replacement'");
  m->doubles = json_true(json_get(j, v, "doubles"));
  m->splits = !json_kind_is(json_get(j, v, "split"), HEED_JSON_FALSE);
  return read_scheme(t, j, v);
}


bool metaspace_prefix (heed_tokenizer *t) {
  if (t->metaspace.width > 0) return refuse(t, "one of it, or of add_prefix_space,");
  t->metaspace = (metaspace){.mark = ' ', .width = 1, .scheme = PREPEND_ALWAYS};
  return true;
}


static bool prepends (const heed_tokenizer *t, const passage *old, uint32_t first) {
  const metaspace *m = &t->metaspace;
  bool marked = (first == ' ' || first == m->mark) && !m->doubles;
  if (marked || m->scheme == PREPEND_NEVER) return false;
  if (m->scheme == PREPEND_ALWAYS) return true;
  if (old->from == t->now.from && m->doubles) return t->section == 0;
  return (old->origins != NULL ? old->origins[0].from : old->shift) == 0;
}


/* Blanks become marks, unless those are blanks; the one in front comes from the first character. */
static bool rewrite (rewriting *r) {
  uint32_t mark = r->t->metaspace.mark, first;
  rewriting_get(r, &first);
  if (prepends(r->t, r->old, first) &&
      (!rewriting_put(r, mark, 0) || !rewriting_put(r, first == ' ' ? mark : first, 1)))
    return false;
  if (mark == ' ') return rewriting_keep(r, r->old->end);
  for (int64_t i = 0; r->p < r->old->end; i++) {
    bytes blank = memchr(r->p, ' ', (size_t)(r->old->end - r->p));
    if (!rewriting_keep(r, blank != NULL ? blank : r->old->end)) return false;
    if (blank != NULL && !rewriting_put(r, mark, 0)) return false;
    if (!text_polls(r->t->cx, i)) return false;
  }
  return true;
}


/* Each mark begins a word, also where another one follows. */
static bool split_marks (heed_tokenizer *t, int level, word_taker each) {
  char mark[4];
  int width = utf8_put(mark, t->metaspace.mark);
  bytes from = t->now.from, end = t->now.end;
  while (from < end) {
    bytes next = from + 1;
    while (next < end && (*next != (unsigned char)mark[0] || end - next < width ||
                          memcmp(next, mark, (size_t)width) != 0)) next++;
    if (!each(t, level, from, next)) return false;
    from = next;
  }
  return true;
}


bool metaspace_split (heed_tokenizer *t, int level, bytes from, bytes end, word_taker each) {
  passage whole = t->now;
  passage old = {.from = from, .end = end, .shift = whole.shift + (from - whole.from)};
  if (from >= end) return true;
  if (whole.origins != NULL) old.origins = whole.origins + (from - whole.from);
  if (old.shift + (end - from) > UINT32_MAX)
    return core_fail(t->cx, NULL, "a text below 4 GiB expected") != NULL;
  draft *to = &t->marked;
  to->text.n = to->origins.n = 0;
  rewriting r = {.t = t, .p = from, .old = &old, .to = to, .most = INT64_MAX};
  if (!rewrite(&r)) return false;
  t->now = (passage){.from = to->text.at, .end = to->text.at + to->text.n,
                     .origins = to->origins.at};
  bool good = t->metaspace.splits ? split_marks(t, level, each) :
              each(t, level, t->now.from, t->now.end);
  t->now = whole;
  return good;
}
