/*
** decode.c - decoders: the text of ids, at once or id by id.
**
** A decoder changes each token by itself, and some change the first or the last one otherwise. So
** each token has a ready text, that which it has between others, and those at the ends are made
** when they are met. Bytes of ByteFallback come out as they are, also where they are no UTF-8.
*/

#include <string.h>

#include "memory/context.h"
#include "text/hex.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

#define MOST_STRIPPED 16
#define MOST_GROWTH 16             /* texts in all: so many times the file */
#define MOST_TEXT (1ll << 30)      /* and so many bytes */


/*
** {==================================================================
** Steps: from one list of bytes to another
** ===================================================================
*/

static bool refuse (heed_tokenizer *t, const char *name, const char *wanted) {
  core_fail(t->cx, NULL, "the decoder %s: %s expected", name, wanted);
  return false;
}


static bool put (heed_tokenizer *t, chars *to, const char *text, size_t n) {
  decoding *d = &t->decoding;
  if (to != &d->out && to->n + (int64_t)n > d->most)
    return refuse(t, "of the file", "texts of at most 16 times the file");
  if (!ROOM(t->cx, to, (int64_t)n + TEXT_SLACK)) return false;
  memcpy(to->at + to->n, text, n);
  to->n += (int64_t)n;
  return true;
}


static bool begins (const char *p, const char *end, span with) {
  return with.n > 0 && end - p >= (ptrdiff_t)with.n && memcmp(p, with.at, with.n) == 0;
}


static bool ends (const char *p, const char *end, span with) {
  return end - p >= (ptrdiff_t)with.n && begins(end - with.n, end, with);
}


static bool replace_text (heed_tokenizer *t, const chars *in, chars *to, span from, span with) {
  const char *p = in->at, *end = p + in->n;
  while (p < end) {
    bool found = begins(p, end, from);
    if (!(found ? put(t, to, with.at, with.n) : put(t, to, p, 1))) return false;
    p += found ? from.n : 1;
  }
  return true;
}


static bool replace_pattern (heed_tokenizer *t, const chars *in, chars *to, const decoder *d) {
  regex_search s = regex_begin(d->pattern, (bytes)in->at, (bytes)in->at + in->n);
  regex_result found;
  while ((found = regex_next(&s)) == REGEX_FOUND) {
    if (!put(t, to, (const char *)s.from, (size_t)(s.match - s.from))) return false;
    if (!put(t, to, d->to.at, d->to.n)) return false;
  }
  return found != REGEX_FAILED && put(t, to, (const char *)s.from, (size_t)(s.end - s.from));
}


/* The byte of a name such as <0x0A>, or -1. */
int fallback_byte (const char *name, size_t n) {
  int byte = 0;
  if (n != 6 || memcmp(name, "<0x", 3) != 0 || name[5] != '>') return -1;
  for (int i = 3; i < 5; i++) {
    int digit = hex_digit(name[i]);
    if (digit < 0) return -1;
    byte = byte * 16 + digit;
  }
  return byte;
}


static bool put_byte (heed_tokenizer *t, const chars *in, chars *to) {
  int value = fallback_byte(in->at, (size_t)in->n);
  char byte = (char)value;
  return value < 0 ? put(t, to, in->at, (size_t)in->n) : put(t, to, &byte, 1);
}


static bool put_byte_level (heed_tokenizer *t, const chars *in, chars *to) {
  uint32_t n;
  if (!ROOM(t->cx, to, in->n + TEXT_SLACK)) return false;
  if (!name_bytes((span){in->at, (uint32_t)in->n}, to->at, &n))
    return put(t, to, in->at, (size_t)in->n);
  to->n = n;
  return true;
}


static void strip (const decoder *d, const char **from, const char **end) {
  for (int64_t i = 0; i < d->start && begins(*from, *end, d->from); i++) *from += d->from.n;
  for (int64_t i = 0; i < d->stop && ends(*from, *end, d->from); i++) *end -= d->from.n;
}


static bool put_stripped (heed_tokenizer *t, const chars *in, chars *to, const decoder *d) {
  const char *from = in->at, *end = from + in->n;
  strip(d, &from, &end);
  return put(t, to, from, (size_t)(end - from));
}


/* WordPiece's decoder tidies up in this order, each in the text that the one before it left. */
static bool clean_up (heed_tokenizer *t, chars *text) {
  static const char *const pairs[][2] = {
    {" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"},
    {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}
  };
  chars *other = text == &t->decoding.work[0] ? &t->decoding.work[1] : &t->decoding.work[0];
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    span from = {pairs[i][0], (uint32_t)strlen(pairs[i][0])};
    span to = {pairs[i][1], (uint32_t)strlen(pairs[i][1])};
    other->n = 0;
    if (!replace_text(t, text, other, from, to)) return false;
    text->n = 0;
    if (!put(t, text, other->at, (size_t)other->n)) return false;
  }
  return true;
}


static bool put_word (heed_tokenizer *t, const chars *in, chars *to, const decoder *d, bool first) {
  bool inside = !first && (d->from.n == 0 || begins(in->at, in->at + in->n, d->from));
  uint32_t skipped = inside ? d->from.n : 0;
  return (first || inside || put(t, to, " ", 1)) &&
         put(t, to, in->at + skipped, (size_t)in->n - skipped) && (!d->flag || clean_up(t, to));
}


/* Without the padding; tidied up, with blanks between words. */
static bool put_ctc (heed_tokenizer *t, const chars *in, chars *to, const decoder *d) {
  static const span blank = {" ", 1}, nothing = {"", 0};
  chars *other = to == &t->decoding.work[0] ? &t->decoding.work[1] : &t->decoding.work[0];
  if (!replace_text(t, in, to, d->from, nothing)) return false;
  if (!d->flag) return true;
  if (!clean_up(t, to)) return false;
  other->n = 0;
  if (!put(t, other, to->at, (size_t)to->n)) return false;
  to->n = 0;
  return replace_text(t, other, to, d->to, blank);
}


static bool apply (heed_tokenizer *t, const decoder *d, const chars *in, chars *to, bool first,
                   bool last) {
  static const span blank = {" ", 1}, nothing = {"", 0};
  size_t n = (size_t)in->n;
  switch (d->kind) {
    case DECODE_BYTE_LEVEL: return put_byte_level(t, in, to);
    case DECODE_REPLACE:
      return d->pattern ? replace_pattern(t, in, to, d) : replace_text(t, in, to, d->from, d->to);
    case DECODE_BYTES: return put_byte(t, in, to);
    case DECODE_STRIP: return put_stripped(t, in, to, d);
    case DECODE_METASPACE:
      return replace_text(t, in, to, d->from, first && d->flag ? nothing : blank);
    case DECODE_WORDPIECE: return put_word(t, in, to, d, first);
    case DECODE_SUFFIX: return replace_text(t, in, to, d->from, last ? nothing : blank);
    case DECODE_CTC: return put_ctc(t, in, to, d);
    case DECODE_JOIN: return (first || put(t, to, " ", 1)) && put(t, to, in->at, n);
  }
  return false;
}


/* The text of the token 'id', which counts from 0; it lasts until the next one's. */
static const chars *make_text (heed_tokenizer *t, uint32_t id, bool first, bool last) {
  decoding *d = &t->decoding;
  span name = t->tokens[id].name;
  chars *text = &d->work[0];
  text->n = 0;
  if (!put(t, text, name.at, name.n)) return NULL;
  for (int i = 0; i < d->n; i++) {
    chars *to = text == &d->work[0] ? &d->work[1] : &d->work[0];
    to->n = 0;
    if (!ROOM(t->cx, to, 1) || !apply(t, &d->steps[i], text, to, first, last)) return NULL;
    text = to;
  }
  return text;
}

/* }================================================================== */


/*
** {==================================================================
** Reading
** ===================================================================
*/

static bool keep_text (heed_tokenizer *t, const json *j, const json_value *v, span *to) {
  if (!json_kind_is(v, HEED_JSON_TEXT)) return false;
  char *copy = keep(&t->memory, v->length + 1);
  if (copy == NULL) return false;
  memcpy(copy, json_text(j, v), v->length);
  *to = (span){copy, v->length};
  return true;
}


static bool read_replace (heed_tokenizer *t, const json *j, const json_value *v, decoder *d) {
  const json_value *pattern = json_get(j, v, "pattern");
  const json_value *expression = json_get(j, pattern, "Regex");
  const json_value *text = json_get(j, pattern, "String");
  if (!keep_text(t, j, json_get(j, v, "content"), &d->to))
    return refuse(t, "Replace", "a text as 'content'");
  if (json_kind_is(expression, HEED_JSON_TEXT)) {
    d->pattern = regex_compile(&t->memory, &t->u, json_text(j, expression), expression->length);
    return d->pattern != NULL;
  }
  return (keep_text(t, j, text, &d->from) && d->from.n > 0) || refuse(t, "Replace", "a pattern");
}


/* A text of one character. */
static bool read_point (heed_tokenizer *t, const json *j, const json_value *v, decoder *d,
                        const char *name, const char *key) {
  uint32_t point;
  if (keep_text(t, j, json_get(j, v, key), &d->from) && d->from.n > 0) {
    bytes p = (bytes)d->from.at;
    if (utf8_get(p, p + d->from.n, &point) == (int)d->from.n) return true;
  }
  return refuse(t, name, "one character");
}


static bool read_strip (heed_tokenizer *t, const json *j, const json_value *v, decoder *d) {
  bool good = json_integer(j, json_get(j, v, "start"), &d->start) && d->start <= MOST_STRIPPED &&
              json_integer(j, json_get(j, v, "stop"), &d->stop) && d->stop <= MOST_STRIPPED;
  if (!good) return refuse(t, "Strip", "'start' and 'stop' from 0 to 16");
  return read_point(t, j, v, d, "Strip", "content");
}


/* Does the first token lose its mark? Older files say so by add_prefix_space. */
static bool prepends (const json *j, const json_value *v) {
  const json_value *scheme = json_get(j, v, "prepend_scheme");
  if (json_kind_is(scheme, HEED_JSON_TEXT)) return !json_is(j, scheme, "never");
  return !json_kind_is(json_get(j, v, "add_prefix_space"), HEED_JSON_FALSE);
}


static bool read_step (heed_tokenizer *t, const json *j, const json_value *v, decoder *d) {
  const json_value *type = json_get(j, v, "type");
  const json_value *cleanup = json_get(j, v, "cleanup");
  static const struct { const char *name; decoder_kind kind; } names[] = {
    {"ByteLevel", DECODE_BYTE_LEVEL}, {"Replace", DECODE_REPLACE}, {"ByteFallback", DECODE_BYTES},
    {"Strip", DECODE_STRIP}, {"Metaspace", DECODE_METASPACE}, {"WordPiece", DECODE_WORDPIECE},
    {"BPEDecoder", DECODE_SUFFIX}, {"CTC", DECODE_CTC}
  };
  size_t i = 0, n = sizeof names / sizeof *names;
  while (i < n && !json_is(j, type, names[i].name)) i++;
  if (i == n) return refuse_part(t, j, "the decoder", type);
  *d = (decoder){.kind = names[i].kind};
  switch (d->kind) {
    case DECODE_REPLACE: return read_replace(t, j, v, d);
    case DECODE_STRIP: return read_strip(t, j, v, d);
    case DECODE_METASPACE:
      d->flag = prepends(j, v);
      return read_point(t, j, v, d, "Metaspace", "replacement");
    case DECODE_WORDPIECE:
      d->flag = !json_kind_is(cleanup, HEED_JSON_FALSE);
      return keep_text(t, j, json_get(j, v, "prefix"), &d->from) ||
             refuse(t, "WordPiece", "a text as 'prefix'");
    case DECODE_SUFFIX:
      return (keep_text(t, j, json_get(j, v, "suffix"), &d->from) && d->from.n > 0) ||
             refuse(t, "BPEDecoder", "a text as 'suffix'");
    case DECODE_CTC:
      d->flag = !json_kind_is(cleanup, HEED_JSON_FALSE);
      return (keep_text(t, j, json_get(j, v, "pad_token"), &d->from) &&
              keep_text(t, j, json_get(j, v, "word_delimiter_token"), &d->to)) ||
             refuse(t, "CTC", "texts as 'pad_token' and 'word_delimiter_token'");
    case DECODE_BYTE_LEVEL: case DECODE_BYTES: case DECODE_JOIN: break;
  }
  return true;
}


/* Behind Fuse, and behind ByteLevel, a text is one token, which Strip alone makes sense for. */
static bool add_step (heed_tokenizer *t, const json *j, const json_value *v) {
  decoding *d = &t->decoding;
  const json_value *type = json_get(j, v, "type");
  decoder step;
  if (json_is(j, type, "Fuse")) return d->fused = true;
  if (!read_step(t, j, v, &step)) return false;
  if (d->fused) {
    bool bytes_end = d->n > 0 && d->steps[d->n - 1].kind == DECODE_BYTE_LEVEL;
    if (step.kind != DECODE_STRIP || d->strip.from.n > 0)
      return refuse(t, bytes_end ? "ByteLevel" : "Fuse", "one Strip at most behind it");
    d->strip = step;
    return true;
  }
  if (d->merges || (step.kind == DECODE_CTC && d->n > 0))
    return refuse(t, "CTC", "no other decoder beside it");
  if (d->n == MOST_DECODERS) return refuse(t, "Sequence", "at most 8 decoders");
  d->steps[d->n++] = step;
  d->fused = step.kind == DECODE_BYTE_LEVEL;
  d->merges = d->merges || step.kind == DECODE_CTC;
  d->last_differs = d->last_differs || step.kind == DECODE_SUFFIX;
  d->first_differs = d->first_differs || step.kind == DECODE_WORDPIECE ||
                     (step.kind == DECODE_METASPACE && step.flag);
  return true;
}


static bool read_steps (heed_tokenizer *t, const json *j, const json_value *v) {
  if (v == NULL || v->kind == HEED_JSON_NULL) {
    t->decoding.steps[t->decoding.n++].kind = DECODE_JOIN;
    return t->decoding.first_differs = true;
  }
  if (!json_is(j, json_get(j, v, "type"), "Sequence")) return add_step(t, j, v);
  const json_value *list = json_get(j, v, "decoders");
  if (!json_kind_is(list, HEED_JSON_ARRAY)) return refuse(t, "Sequence", "a list of decoders");
  v = json_inside(j, list);
  for (uint32_t i = 0; i < list->length; i++, v = json_next(j, v))
    if (!add_step(t, j, v)) return false;
  return true;
}


bool decode_read (heed_tokenizer *t, const json *j, const json_value *v) {
  decoding *d = &t->decoding;
  d->most = MOST_GROWTH * (int64_t)j->size < MOST_TEXT ? MOST_GROWTH * (int64_t)j->size : MOST_TEXT;
  if (!read_steps(t, j, v)) return false;
  d->ready = keep(&t->memory, t->count * sizeof *d->ready);
  if (d->ready == NULL || !ROOM(t->cx, &d->texts, TEXT_SLACK)) return false;
  for (uint32_t id = 0; id < t->count; id++) {
    if (t->tokens[id].name.at == NULL) continue;
    const chars *text = make_text(t, id, false, false);
    if (text == NULL || ((id & 0xfff) == 0 && core_poll(t->cx, NULL))) return false;
    d->ready[id] = (ready){(uint32_t)d->texts.n, (uint32_t)text->n, t->tokens[id].special, 1};
    if (!put(t, &d->texts, text->at, (size_t)text->n)) return false;
  }
  return ROOM(t->cx, &d->texts, TEXT_SLACK);
}


void decode_free (heed_tokenizer *t) {
  decoding *d = &t->decoding;
  LIST_FREE(t->cx, &d->texts);
  LIST_FREE(t->cx, &d->work[0]);
  LIST_FREE(t->cx, &d->work[1]);
  LIST_FREE(t->cx, &d->out);
}

/* }================================================================== */


/*
** {==================================================================
** At once
** ===================================================================
*/

static bool is_left_out (const ready *r, bool special) { return r->special && !special; }


static const ready *ready_of (heed_tokenizer *t, int64_t id, int64_t position) {
  const ready *r = id >= 1 && id <= t->count ? &t->decoding.ready[id - 1] : NULL;
  if (r != NULL && r->known) return r;
  if (core_lost(t->cx, NULL)) return NULL;
  if (position == 0)
    core_fail(t->cx, NULL, "an id from 1 to %lld expected, got %lld", (long long)t->count,
              (long long)id);
  else
    core_fail(t->cx, NULL, "ids from 1 to %lld expected, got %lld at position %lld",
              (long long)t->count, (long long)id, (long long)position);
  return NULL;
}


/* Ids that lead to a text: [*first, *last), and how many bytes those between them have. */
static bool measure (heed_tokenizer *t, const int64_t *ids, int64_t n, bool special,
                     int64_t *first, int64_t *last, int64_t *size) {
  *first = *last = *size = 0;
  for (int64_t i = 0; i < n; i++) {
    const ready *r = ready_of(t, ids[i], i + 1);
    if (r == NULL || ((i & 0xffff) == 0xffff && core_poll(t->cx, NULL))) return false;
    if (is_left_out(r, special)) continue;
    if (*last == 0) *first = i;
    *last = i + 1;
    *size += r->n;
  }
  return true;
}


/* Short texts are copied with what stands behind them: there is room for it. */
static void copy (const decoding *d, const int64_t *ids, int64_t n, bool special, chars *out) {
  char *to = out->at + out->n;
  int64_t before = 0;
  for (int64_t i = 0; i < n; i++) {
    const ready *r = &d->ready[ids[i] - 1];
    if (is_left_out(r, special)) continue;
    if (d->merges && ids[i] == before) continue;
    before = ids[i];
    const char *from = d->texts.at + r->at;
    memcpy(to, from, TEXT_SLACK);
    if (r->n > TEXT_SLACK) memcpy(to + TEXT_SLACK, from + TEXT_SLACK, r->n - TEXT_SLACK);
    to += r->n;
  }
  out->n = to - out->at;
}


static bool put_one (heed_tokenizer *t, int64_t id, bool first, bool last) {
  const chars *text = make_text(t, (uint32_t)(id - 1), first, last);
  return text != NULL && put(t, &t->decoding.out, text->at, (size_t)text->n);
}


bool heed_detokenize (heed_tokenizer *t, const int64_t *ids, int64_t n, bool special,
                      heed_text *text) {
  if (t == NULL || (n > 0 && !core_given(t->cx, "detokenize", "a list of ids", ids)) ||
      !core_given(t->cx, "detokenize", "a place for the text", text)) return false;
  decoding *d = &t->decoding;
  int64_t first, last, size;
  if (!measure(t, ids, n, special, &first, &last, &size)) return false;
  d->out.n = 0;
  if (!ROOM(t->cx, &d->out, size + TEXT_SLACK)) return false;
  bool alone = last - first == 1;
  if (last > 0 && (d->first_differs || (alone && d->last_differs)) &&
      !put_one(t, ids[first++], true, alone)) return false;
  bool ending = last > first && d->last_differs;
  if (!ROOM(t->cx, &d->out, size + TEXT_SLACK)) return false;
  copy(d, ids + first, last - first - ending, special, &d->out);
  if (ending && !put_one(t, ids[last - 1], false, true)) return false;
  const char *from = d->out.at, *end = from + d->out.n;
  strip(&d->strip, &from, &end);
  *text = (heed_text){from, (size_t)(end - from)};
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Id by id
** ===================================================================
*/

/* How many of the last bytes are a character's first ones. */
static int64_t incomplete (const char *from, int64_t n) {
  for (int64_t i = 1; i <= 3 && i <= n; i++) {
    unsigned char c = (unsigned char)from[n - i];
    if ((c & 0xc0) == 0x80) continue;
    int length = c < 0xc2 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 1;
    return length > i ? i : 0;
  }
  return 0;
}


/* Takes what the whole text loses at its start off the start of 'out'. */
static void strip_start (const decoder *d, heed_stream *s, const char **from, const char *end) {
  for (; s->stripped < d->start && begins(*from, end, d->from); s->stripped++)
    *from += d->from.n;
  bool waits = end - *from < (ptrdiff_t)d->from.n &&
               memcmp(*from, d->from.at, (size_t)(end - *from)) == 0;
  if (!waits) s->stripped = MOST_STRIPPED;
}


/* Gives what stands in 'out', but for what another id may change. */
static void release (heed_tokenizer *t, heed_stream *s, heed_text *text) {
  const decoder *d = &t->decoding.strip;
  const char *from = t->decoding.out.at, *end = from + t->decoding.out.n;
  strip_start(d, s, &from, end);
  const char *until = end - incomplete(from, end - from);
  for (int64_t i = 0; i < d->stop && ends(from, until, d->from); i++) until -= d->from.n;
  s->nheld = (int32_t)(end - until);
  memcpy(s->held, until, (size_t)s->nheld);
  *text = (heed_text){from, (size_t)(until - from)};
}


static bool begin_piece (heed_tokenizer *t, const heed_stream *s) {
  t->decoding.out.n = 0;
  return put(t, &t->decoding.out, s->held, (size_t)s->nheld);
}


static bool stream_given (const heed_tokenizer *t, const char *function, const heed_stream *s,
                          heed_text *text) {
  if (text != NULL) *text = (heed_text){"", 0};
  return t != NULL && core_given(t->cx, function, "a stream", s) &&
         core_given(t->cx, function, "a place for the text", text);
}


bool heed_stream_push (heed_tokenizer *t, heed_stream *s, int64_t id, heed_text *text) {
  const ready *r = stream_given(t, "stream_push", s, text) ? ready_of(t, id, 0) : NULL;
  if (r == NULL) return false;
  if (is_left_out(r, s->special)) return true;
  if (t->decoding.merges && id == s->before) return true;
  s->before = id;
  if (t->decoding.last_differs) {
    int64_t now = s->waiting;
    s->waiting = id;
    if ((id = now) == 0) return true;
  }
  if (!begin_piece(t, s) || !put_one(t, id, !s->begun, false)) return false;
  s->begun = true;
  release(t, s, text);
  return true;
}


bool heed_stream_finish (heed_tokenizer *t, heed_stream *s, heed_text *text) {
  if (!stream_given(t, "stream_finish", s, text) || !begin_piece(t, s)) return false;
  if (s->waiting != 0 && !put_one(t, s->waiting, !s->begun, true)) return false;
  const decoder *d = &t->decoding.strip;
  const char *from = t->decoding.out.at, *end = from + t->decoding.out.n;
  strip_start(d, s, &from, end);
  for (int64_t i = 0; i < d->stop && ends(from, end, d->from); i++) end -= d->from.n;
  *text = (heed_text){from, (size_t)(end - from)};
  *s = (heed_stream){.special = s->special};
  return true;
}

/* }================================================================== */
