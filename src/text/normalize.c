/*
** normalize.c - normalizers: a text is rewritten, and each byte of the new one knows the character
** of the original that it came from.
*/

#include <string.h>

#include "memory/context.h"
#include "text/charsmap.h"
#include "text/forms.h"
#include "text/normalize.h"
#include "text/utf8.h"

#define MOST_GROWTH 64             /* of a text, with all its parts: so many times its bytes, */
#define SMALL_TEXT (1 << 16)       /* and so many more */


/*
** {==================================================================
** Rewriting
** ===================================================================
*/

static bool has_room (rewriting *r, int64_t more) {
  heed_context *cx = r->t->cx;
  if (more > r->most - r->to->text.n)
    return core_fail(cx, NULL, "the normalizer: a text that grows by at most %d times expected",
                     MOST_GROWTH) != NULL;
  return ROOM(cx, &r->to->text, more) && ROOM(cx, &r->to->origins, more);
}


int rewriting_get (const rewriting *r, uint32_t *point) {
  int n = utf8_get(r->p, r->old->end, point);
  if (n == 1 && *r->p >= 128) *point = RAW_BYTE + *r->p;
  return n;
}


/* The place of the character at p, of n bytes. */
static origin origin_at (const passage *old, bytes p, int n) {
  if (old->origins != NULL) return old->origins[p - old->from];
  uint32_t from = (uint32_t)(old->shift + (p - old->from));
  return (origin){from, from + (uint32_t)n};
}


static origin origin_before (const passage *old, bytes p) {
  uint32_t point;
  if (p == old->from) return (origin){(uint32_t)old->shift, (uint32_t)old->shift};
  int n = utf8_before(old->from, p, &point);
  return origin_at(old, p - n, n);
}


static void write_at (draft *to, uint32_t point, origin at) {
  char *text = (char *)to->text.at + to->text.n;
  int n = 1;
  if (point >= RAW_BYTE) *text = (char)(point - RAW_BYTE);
  else n = utf8_put(text, point);
  to->text.n += n;
  for (; n > 0; n--) to->origins.at[to->origins.n++] = at;
}


bool rewriting_put (rewriting *r, uint32_t point, int64_t change) {
  uint32_t old;
  if (!has_room(r, 4)) return false;
  if (change > 0 || r->p >= r->old->end) {
    write_at(r->to, point, origin_before(r->old, r->p));
    return true;
  }
  int n = rewriting_get(r, &old);
  write_at(r->to, point, origin_at(r->old, r->p, n));
  r->p += n;
  for (; change < 0 && r->p < r->old->end; change++) r->p += rewriting_get(r, &old);
  return true;
}


/* Characters of ASCII, some at a time, for which there is room: how many. */
static int64_t keep_ascii (rewriting *r, bytes until) {
  const int64_t most = until - r->p < 0x4000 ? until - r->p : 0x4000, at = r->p - r->old->from;
  const origin *old = r->old->origins != NULL ? r->old->origins + at : NULL;
  const uint32_t from = (uint32_t)(r->old->shift + at);
  unsigned char *text = r->to->text.at + r->to->text.n;
  origin *to = r->to->origins.at + r->to->origins.n;
  int64_t n = 0;
  for (; n < most && r->p[n] < 128; n++) {
    text[n] = r->p[n];
    to[n] = old != NULL ? old[n] : (origin){from + (uint32_t)n, from + (uint32_t)n + 1};
  }
  r->to->text.n += n;
  r->to->origins.n += n;
  r->p += n;
  return n;
}


bool rewriting_keep (rewriting *r, bytes until) {
  uint32_t point;
  if (!has_room(r, until - r->p)) return false;
  for (int64_t steps = 0; r->p < until; ) {
    steps += 1 + keep_ascii(r, until);
    if (r->p < until) {
      int n = rewriting_get(r, &point);
      write_at(r->to, point, origin_at(r->old, r->p, n));
      r->p += n;
    }
    if (steps < 0x4000) continue;
    steps = 0;
    if (core_poll(r->t->cx, NULL)) return false;
  }
  return true;
}


void normalize_begin (heed_tokenizer *t, int64_t size) {
  t->growth = MOST_GROWTH * size + SMALL_TEXT;
}


bool normalize (heed_tokenizer *t, passage *text) {
  if (t->normalizers.n == 0) return true;
  if (text->shift + (text->end - text->from) > UINT32_MAX)
    return core_fail(t->cx, NULL, "a text below 4 GiB expected") != NULL;
  for (int64_t i = 0, other = 0; i < t->normalizers.n && text->from < text->end; i++) {
    const normalizer *n = &t->normalizers.at[i];
    if (n->changes != NULL && !n->changes(t, n, text)) continue;
    draft *to = &t->drafts[other];
    rewriting r = {.t = t, .p = text->from, .old = text, .to = to, .most = t->growth};
    to->text.n = to->origins.n = 0;
    if (!n->run(n, &r)) return false;
    *text = (passage){.from = to->text.at, .end = to->text.at + to->text.n,
                      .origins = to->origins.at};
    other = 1 - other;
  }
  t->growth -= text->end - text->from;
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Characters, each by itself: BertNormalizer, Lowercase, StripAccents
** ===================================================================
*/

static bool is_ideograph (uint32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0x2f800 && c <= 0x2fa1f);
}


/* 0: the character goes. */
static uint32_t clean (const unicode *u, uint32_t c) {
  uint32_t others = unicode_named("Cc", 2) | unicode_named("Cf", 2) | unicode_named("Co", 2);
  if (c == '\t' || c == '\n' || c == '\r') return ' ';
  if (c == 0xfffd || c >= RAW_BYTE || unicode_in(u, c, others)) return 0;
  return unicode_in(u, c, unicode_blanks()) ? ' ' : c;
}


/* Control characters go; blanks, marks of direction and the like become spaces; 0: it goes. */
static uint32_t nmt (uint32_t c) {
  if (c == '\t' || c == '\n' || c == '\f' || c == '\r') return ' ';
  bool control = (c >= 1 && c < 32) || c == 0x7f || c == 0x8f || c == 0x9f;
  if (control) return 0;
  bool blank = c == 0x1680 || (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 ||
               c == 0x2581 || c == 0xfeff || c == NO_POINT;
  return blank ? ' ' : c;
}


/* Of one letter only, the capital I with a dot, the lower case is two characters. */
static int lower (uint32_t c, uint32_t *to) {
  to[0] = unicode_lower(c);
  to[1] = 0x307;
  return c == 0x130 ? 2 : 1;
}


#define MOST_OF_ONE (2 * FORM_MOST + 2)

/* The characters that one becomes. */
static int map_point (const normalizer *n, const unicode *u, uint32_t c,
                      uint32_t to[MOST_OF_ONE]) {
  uint32_t parts[FORM_MOST] = {c};
  int count = 1, filled = 0;
  if (n->clean && (parts[0] = c = clean(u, c)) == 0) return 0;
  if (n->nmt && c != 0 && (parts[0] = c = nmt(c)) == 0) return 0;
  bool alone = n->ideographs && is_ideograph(c);
  if (n->decomposes && c < RAW_BYTE) count = form_decompose(c, false, parts);
  if (alone) to[filled++] = ' ';
  for (int i = 0; i < count; i++) {
    if (unicode_in(u, parts[i], n->dropped)) continue;
    if (n->lower) filled += lower(parts[i], to + filled);
    else to[filled++] = parts[i];
  }
  if (alone) to[filled++] = ' ';
  return filled;
}


static void map_ascii (normalizer *n, const unicode *u) {
  uint32_t to[MOST_OF_ONE];
  for (uint32_t c = 0; c < 128; c++)
    n->ascii[c] = map_point(n, u, c, to) == 0 ? DROPPED : (unsigned char)to[0];
}


/* Characters of ASCII, up to another one or the end; there is room. */
static void run_ascii (const normalizer *n, rewriting *r, bytes end) {
  draft *to = r->to;
  unsigned char *text = to->text.at;
  int64_t k = to->text.n;
  bytes p = r->p;
  for (; p < end && *p < 128; p++) {
    text[k] = n->ascii[*p];
    to->origins.at[k] = origin_at(r->old, p, 1);
    k += text[k] != DROPPED;
  }
  r->p = p;
  to->text.n = to->origins.n = k;
}


static bool run_one (const normalizer *n, rewriting *r) {
  uint32_t c, to[MOST_OF_ONE];
  int length = rewriting_get(r, &c), count = map_point(n, &r->t->u, c, to);
  origin at = origin_at(r->old, r->p, length);
  if (!has_room(r, 4 * MOST_OF_ONE)) return false;
  for (int i = 0; i < count; i++) write_at(r->to, to[i], at);
  r->p += length;
  return true;
}


static bool run_characters (const normalizer *n, rewriting *r) {
  const int64_t stretch = 1 << 16;
  while (r->p < r->old->end) {
    bytes end = r->old->end - r->p > stretch ? r->p + stretch : r->old->end;
    if (!has_room(r, end - r->p)) return false;
    run_ascii(n, r, end);
    while (r->p < end && *r->p >= 128)
      if (!run_one(n, r)) return false;
    if (core_poll(r->t->cx, NULL)) return false;
  }
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Replace, Prepend, Strip, ByteLevel
** ===================================================================
*/

static bool put_text (rewriting *r, span text, int64_t change) {
  bytes p = (bytes)text.at, end = p + text.n;
  for (uint32_t point; p < end; change = 1) {
    p += utf8_get(p, end, &point);
    if (!rewriting_put(r, point, change)) return false;
  }
  return true;
}


static bool run_replace (const normalizer *n, rewriting *r) {
  regex_search s = regex_begin(n->pattern, r->old->from, r->old->end);
  regex_result found;
  for (int64_t i = 0; (found = regex_next(&s)) == REGEX_FOUND; i++) {
    if (!rewriting_keep(r, s.match)) return false;
    r->p = s.match_end;
    if (!put_text(r, n->text, 1) || !text_polls(r->t->cx, i)) return false;
  }
  return found != REGEX_FAILED && rewriting_keep(r, r->old->end);
}


/* All that is put there comes from the first character, which follows. */
static bool run_prepend (const normalizer *n, rewriting *r) {
  uint32_t first;
  if (n->text.n == 0) return rewriting_keep(r, r->old->end);
  rewriting_get(r, &first);
  return put_text(r, n->text, 0) && rewriting_put(r, first, 1) &&
         rewriting_keep(r, r->old->end);
}


static bool run_strip (const normalizer *n, rewriting *r) {
  const unicode *u = &r->t->u;
  bytes end = r->old->end;
  uint32_t point;
  while (n->left && r->p < end) {
    int length = rewriting_get(r, &point);
    if (!unicode_in(u, point, unicode_blanks())) break;
    r->p += length;
  }
  while (n->right && end > r->p) {
    int length = utf8_before(r->p, end, &point);
    if (!unicode_in(u, point, unicode_blanks())) break;
    end -= length;
  }
  return rewriting_keep(r, end);
}


/* Each byte becomes its character of byte-level names. */
static bool run_bytes (const normalizer *n, rewriting *r) {
  uint32_t point;
  (void)n;
  for (int64_t i = 0; r->p < r->old->end; i++) {
    bytes p = r->p;
    int width = rewriting_get(r, &point);
    for (int k = 0; k < width; k++)
      if (!rewriting_put(r, point_of(p[k]), k > 0)) return false;
    if (!text_polls(r->t->cx, i)) return false;
  }
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Reading
** ===================================================================
*/

static bool copy_text (heed_tokenizer *t, const json *j, const json_value *v, span *to) {
  if (!json_kind_is(v, HEED_JSON_TEXT)) return refuse_part(t, j, "the normalizer's text", v);
  char *copy = keep(&t->memory, v->length);
  if (copy == NULL) return false;
  memcpy(copy, json_text(j, v), v->length);
  *to = (span){copy, v->length};
  return true;
}


static bool read_characters (heed_tokenizer *t, const json *j, const json_value *v,
                             normalizer *n) {
  const json_value *type = json_get(j, v, "type"), *strip = json_get(j, v, "strip_accents");
  n->run = run_characters;
  n->lower = json_is(j, type, "Lowercase") || json_true(json_get(j, v, "lowercase"));
  n->nmt = json_is(j, type, "Nmt");
  n->clean = json_true(json_get(j, v, "clean_text"));
  n->ideographs = json_true(json_get(j, v, "handle_chinese_chars"));
  if (json_is(j, type, "StripAccents")) n->dropped = unicode_named("M", 1);
  else if (strip == NULL || strip->kind == HEED_JSON_NULL) n->decomposes = n->lower;
  else n->decomposes = json_true(strip);
  if (json_is(j, type, "Lowercase")) n->decomposes = false;
  if (n->decomposes) n->dropped = unicode_named("Mn", 2);
  map_ascii(n, &t->u);
  return true;
}


static bool read_form (heed_tokenizer *t, const json *j, const json_value *v, normalizer *n) {
  const json_value *type = json_get(j, v, "type");
  (void)t;
  n->run = form_run;
  n->changes = form_changes;
  n->composed = json_is(j, type, "NFC") || json_is(j, type, "NFKC");
  n->compatible = json_is(j, type, "NFKC") || json_is(j, type, "NFKD");
  return true;
}


static bool read_replace (heed_tokenizer *t, const json *j, const json_value *v, normalizer *n) {
  n->run = run_replace;
  n->pattern = read_pattern(t, j, json_get(j, v, "pattern"), "the normalizer Replace");
  return n->pattern != NULL && copy_text(t, j, json_get(j, v, "content"), &n->text);
}


static bool read_prepend (heed_tokenizer *t, const json *j, const json_value *v, normalizer *n) {
  n->run = run_prepend;
  return copy_text(t, j, json_get(j, v, "prepend"), &n->text);
}


static bool read_strip (heed_tokenizer *t, const json *j, const json_value *v, normalizer *n) {
  (void)t;
  n->run = run_strip;
  n->left = json_true(json_get(j, v, "strip_left"));
  n->right = json_true(json_get(j, v, "strip_right"));
  return true;
}


static bool read_bytes (heed_tokenizer *t, const json *j, const json_value *v, normalizer *n) {
  (void)t, (void)j, (void)v;
  n->run = run_bytes;
  return true;
}


static bool read_precompiled (heed_tokenizer *t, const json *j, const json_value *v,
                              normalizer *n) {
  const json_value *map = json_get(j, v, "precompiled_charsmap");
  if (!json_kind_is(map, HEED_JSON_TEXT)) return refuse_part(t, j, "the normalizer's table", map);
  n->run = precompiled_run;
  n->longest = json_true(json_get(j, v, "longest"));
  n->map = charsmap_decode(&t->memory, json_text(j, map), map->length);
  return n->map != NULL;
}


typedef bool (*reader) (heed_tokenizer *t, const json *j, const json_value *v, normalizer *n);

static const struct { const char *type; reader read; } kinds[] = {
  {"BertNormalizer", read_characters}, {"ByteLevel", read_bytes}, {"Lowercase", read_characters},
  {"NFC", read_form}, {"NFD", read_form}, {"NFKC", read_form}, {"NFKD", read_form},
  {"Nmt", read_characters}, {"Precompiled", read_precompiled}, {"Prepend", read_prepend},
  {"Replace", read_replace}, {"Strip", read_strip}, {"StripAccents", read_characters}
};


/* Are there marks that stay where accents go, and that canonical order may move? */
static bool moves_marks (heed_tokenizer *t, const normalizer *n, const passage *text) {
  uint32_t point, spacing = unicode_named("Mc", 2);
  (void)n;
  for (bytes p = text->from; p < text->end; ) {
    p += utf8_get(p, text->end, &point);
    if (point >= 128 && unicode_in(&t->u, point, spacing) && unicode_class(point) != 0) return true;
  }
  return false;
}


static bool add (heed_tokenizer *t, normalizer n) {
  if (!ROOM(t->cx, &t->normalizers, 1)) return false;
  t->normalizers.at[t->normalizers.n++] = n;
  return true;
}


/* Decomposition by characters leaves them in their order: where that is not the canonical one, NFD
   goes before it. */
static bool read_one (heed_tokenizer *t, const json *j, const json_value *v) {
  const json_value *type = json_get(j, v, "type");
  normalizer n = {.run = NULL}, order = {.run = form_run, .changes = moves_marks};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (!json_is(j, type, kinds[i].type)) continue;
    return kinds[i].read(t, j, v, &n) && (!n.decomposes || add(t, order)) && add(t, n);
  }
  return refuse_part(t, j, "the normalizer", type);
}


bool normalize_read (heed_tokenizer *t, const json *j, const json_value *v) {
  if (v == NULL || v->kind == HEED_JSON_NULL) return true;
  if (!json_is(j, json_get(j, v, "type"), "Sequence")) return read_one(t, j, v);
  const json_value *list = json_get(j, v, "normalizers");
  if (!json_kind_is(list, HEED_JSON_ARRAY)) return refuse_part(t, j, "the normalizer", v);
  v = json_inside(j, list);
  for (uint32_t i = 0; i < list->length; i++, v = json_next(j, v))
    if (!normalize_read(t, j, v)) return false;
  return true;
}


void normalize_free (heed_tokenizer *t) {
  LIST_FREE(t->cx, &t->normalizers);
  LIST_FREE(t->cx, &t->units);
  LIST_FREE(t->cx, &t->sorted);
  for (int i = 0; i < 2; i++) {
    LIST_FREE(t->cx, &t->drafts[i].text);
    LIST_FREE(t->cx, &t->drafts[i].origins);
  }
  LIST_FREE(t->cx, &t->marked.text);
  LIST_FREE(t->cx, &t->marked.origins);
}

/* }================================================================== */
