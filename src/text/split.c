/*
** split.c - pre-tokenizers: what cuts a text into words, each by a regular expression.
*/

#include <stdio.h>
#include <string.h>

#include "memory/context.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

#define MOST_LENGTH 10000          /* of FixedLength */

static const char GPT2[] =
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
#define PUNCTUATION_CLASS "!-/:-@\\[-`{-~\\p{P}"
static const char PUNCTUATION[] = "[" PUNCTUATION_CLASS "]";
static const char WORDS[] = "[\\w\\u200c\\u200d]+|[^\\w\\s\\u200c\\u200d]+";
static const char BERT[] = "[^\\s" PUNCTUATION_CLASS "]+|[" PUNCTUATION_CLASS "]";


/*
** {==================================================================
** Reading
** ===================================================================
*/

static bool add_splitter (heed_tokenizer *t, splitter s) {
  if (t->nsplitters == MOST_SPLITTERS) {
    core_fail(t->cx, NULL, "at most %d pre-tokenizers expected", MOST_SPLITTERS);
    return false;
  }
  t->splitters[t->nsplitters++] = s;
  return true;
}


static bool add (heed_tokenizer *t, const regex *pattern, behaviour b, bool invert) {
  return pattern != NULL && add_splitter(t, (splitter){pattern, b, invert, t->maps_bytes});
}


static bool add_plain (heed_tokenizer *t, const char *pattern, behaviour b, bool invert) {
  return add(t, regex_compile(&t->memory, &t->u, pattern, strlen(pattern)), b, invert);
}


static bool read_behaviour (heed_tokenizer *t, const json *j, const json_value *v, behaviour *b) {
  static const char *const names[] = {
    [ISOLATED] = "Isolated", [REMOVED] = "Removed", [PREVIOUS] = "MergedWithPrevious",
    [NEXT] = "MergedWithNext", [CONTIGUOUS] = "Contiguous"
  };
  for (int i = 0; i <= CONTIGUOUS; i++) {
    *b = (behaviour)i;
    if (json_is(j, v, names[i])) return true;
  }
  return refuse_part(t, j, "the behaviour", v);
}


/* A text as a pattern: its punctuation stands for itself. */
static const regex *literal (heed_tokenizer *t, const json *j, const json_value *v) {
  char *pattern = keep(&t->memory, 2 * (size_t)v->length + 1);
  const char *text = json_text(j, v);
  size_t n = 0;
  if (pattern == NULL) return NULL;
  for (uint32_t i = 0; i < v->length; i++) {
    if (memchr("\\|()[]{}?*+.^$", text[i], 14) != NULL) pattern[n++] = '\\';
    pattern[n++] = text[i];
  }
  return regex_compile(&t->memory, &t->u, pattern, n);
}


const regex *read_pattern (heed_tokenizer *t, const json *j, const json_value *v,
                           const char *part) {
  const json_value *expression = json_get(j, v, "Regex"), *text = json_get(j, v, "String");
  if (json_kind_is(expression, HEED_JSON_TEXT))
    return regex_compile(&t->memory, &t->u, json_text(j, expression), expression->length);
  if (json_kind_is(text, HEED_JSON_TEXT) && text->length > 0) return literal(t, j, text);
  return core_fail(t->cx, NULL, "%s: a pattern of some text expected", part);
}


static bool read_split (heed_tokenizer *t, const json *j, const json_value *v) {
  behaviour b;
  return read_behaviour(t, j, json_get(j, v, "behavior"), &b) &&
         add(t, read_pattern(t, j, json_get(j, v, "pattern"), "the pre-tokenizer Split"), b,
             json_true(json_get(j, v, "invert")));
}


/* Of bytes that are characters of names already, none is a blank. */
static bool check_raw (heed_tokenizer *t, const char *name) {
  if (!t->maps_bytes) return true;
  core_fail(t->cx, NULL, "the pre-tokenizer %s: no ByteLevel before it expected", name);
  return false;
}


static bool read_byte_level (heed_tokenizer *t, const json *j, const json_value *v) {
  const json_value *use = json_get(j, v, "use_regex");
  bool spaced = json_true(json_get(j, v, "add_prefix_space"));
  if (spaced && (!metaspace_prefix(t) || !add_splitter(t, (splitter){.pattern = NULL})))
    return false;
  if (!check_raw(t, "ByteLevel")) return false;
  if (!json_kind_is(use, HEED_JSON_FALSE) && !add_plain(t, GPT2, ISOLATED, false)) return false;
  return t->maps_bytes = true;
}


/* Texts of so many characters, and what is left. */
static bool read_length (heed_tokenizer *t, const json *j, const json_value *v) {
  char pattern[32];
  int64_t n;
  if (!json_integer(j, json_get(j, v, "length"), &n) || n < 1 || n > MOST_LENGTH) {
    core_fail(t->cx, NULL, "the pre-tokenizer FixedLength: a 'length' from 1 to %d expected",
              MOST_LENGTH);
    return false;
  }
  snprintf(pattern, sizeof pattern, "[\\s\\S]{1,%d}", (int)n);
  return add_plain(t, pattern, ISOLATED, false);
}


static bool read_delimiter (heed_tokenizer *t, const json *j, const json_value *v) {
  const json_value *text = json_get(j, v, "delimiter");
  if (json_kind_is(text, HEED_JSON_TEXT) && text->length > 0)
    return add(t, literal(t, j, text), REMOVED, false);
  core_fail(t->cx, NULL, "the pre-tokenizer CharDelimiterSplit: a 'delimiter' expected");
  return false;
}


static bool read_sequence (heed_tokenizer *t, const json *j, const json_value *v) {
  const json_value *list = json_get(j, v, "pretokenizers");
  if (!json_kind_is(list, HEED_JSON_ARRAY)) return refuse_part(t, j, "the pre-tokenizer", v);
  v = json_inside(j, list);
  for (uint32_t i = 0; i < list->length; i++, v = json_next(j, v))
    if (json_is(j, json_get(j, v, "type"), "Sequence") || !split_read(t, j, v))
      return refuse_part(t, j, "the pre-tokenizer", json_get(j, v, "type"));
  return true;
}


bool split_read (heed_tokenizer *t, const json *j, const json_value *v) {
  const json_value *type = json_get(j, v, "type");
  behaviour b = ISOLATED;
  if (v == NULL || v->kind == HEED_JSON_NULL) return true;
  if (json_is(j, type, "Sequence")) return read_sequence(t, j, v);
  if (json_is(j, type, "Split")) return read_split(t, j, v);
  if (json_is(j, type, "ByteLevel")) return read_byte_level(t, j, v);
  if (json_is(j, type, "BertPreTokenizer")) return add_plain(t, BERT, REMOVED, true);
  if (json_is(j, type, "Whitespace")) return add_plain(t, WORDS, REMOVED, true);
  if (json_is(j, type, "WhitespaceSplit")) return add_plain(t, "\\s", REMOVED, false);
  if (json_is(j, type, "CharDelimiterSplit")) return read_delimiter(t, j, v);
  if (json_is(j, type, "FixedLength")) return read_length(t, j, v);
  if (json_is(j, type, "Metaspace"))
    return metaspace_read(t, j, v) && check_raw(t, "Metaspace") &&
           add_splitter(t, (splitter){.pattern = NULL});
  if (json_is(j, type, "Digits")) {
    if (!json_true(json_get(j, v, "individual_digits"))) b = CONTIGUOUS;
    return add_plain(t, "\\p{N}", b, false);
  }
  if (json_is(j, type, "Punctuation"))
    return (json_get(j, v, "behavior") == NULL ||
            read_behaviour(t, j, json_get(j, v, "behavior"), &b)) &&
           add_plain(t, PUNCTUATION, b, false);
  return refuse_part(t, j, "the pre-tokenizer", type);
}

/* }================================================================== */


/*
** {==================================================================
** Splitting. A part of the text, matched or not, joins the one that waits, or takes its place.
** ===================================================================
*/

typedef struct cutter {
  heed_tokenizer *t;
  int level;                       /* of the splitter */
  behaviour behaviour;
  bytes from, end;                 /* what waits; empty: nothing */
  bool match;
} cutter;

static bool split (heed_tokenizer *t, int level, bytes from, bytes end);


static bool flush (cutter *c) {
  bool wanted = c->from < c->end && !(c->behaviour == REMOVED && c->match);
  return !wanted || split(c->t, c->level + 1, c->from, c->end);
}


static bool joins (const cutter *c, bool match) {
  if (c->from == c->end) return false;
  switch (c->behaviour) {
    case PREVIOUS: return match && !c->match;
    case NEXT: return !match && c->match;
    case CONTIGUOUS: return match == c->match;
    case ISOLATED: case REMOVED: break;
  }
  return false;
}


/* A joined part counts as what it ended with, so that a second match stays alone. A match may be
   empty: the text is cut there. */
static bool cut (cutter *c, bytes from, bytes end, bool match) {
  if (joins(c, match)) c->end = end;
  else {
    if (!flush(c)) return false;
    c->from = from;
    c->end = end;
  }
  c->match = match;
  return true;
}


/* The characters of names that stand for [from, end). */
static bool map_bytes (heed_tokenizer *t, chars *to, bytes from, bytes end) {
  to->n = 0;
  if (!ROOM(t->cx, to, 2 * (end - from) + 1)) return false;
  for (bytes p = from; p < end; p++) {
    to->n += utf8_put(to->at + to->n, point_of(*p));
    if (!text_polls(t->cx, p - from)) return false;
  }
  return true;
}


/* Where a splitter is in what it sees, and in the text, where each character is a byte. */
typedef struct place { bytes seen, text; bool mapped; } place;

/* The byte of the text that a later place in what is seen stands for. */
static bytes text_at (place *at, bytes seen) {
  if (!at->mapped) return seen;
  while (at->seen < seen) {
    at->seen += *at->seen < 128 ? 1 : 2;
    at->text++;
  }
  return at->text;
}


static bool split (heed_tokenizer *t, int level, bytes from, bytes end) {
  if (level == t->nsplitters)
    return word_encode(t, (const char *)from, (size_t)(end - from), from - t->now.from);
  const splitter *s = &t->splitters[level];
  if (s->pattern == NULL) return metaspace_split(t, level + 1, from, end, split);
  cutter c = {.t = t, .level = level, .behaviour = s->behaviour};
  chars *seen = &t->mapped[level];
  if (s->mapped && !map_bytes(t, seen, from, end)) return false;
  place at = {.seen = s->mapped ? (bytes)seen->at : from, .text = from, .mapped = s->mapped};
  regex_search r = regex_begin(s->pattern, at.seen, s->mapped ? at.seen + seen->n : end);
  regex_result found;
  while ((found = regex_next(&r)) == REGEX_FOUND) {
    bytes rest = text_at(&at, r.from), match = text_at(&at, r.match);
    bytes match_end = text_at(&at, r.match_end);
    if (rest < match && !cut(&c, rest, match, s->invert)) return false;
    if (!cut(&c, match, match_end, !s->invert)) return false;
  }
  if (found == REGEX_FAILED) return false;
  bytes rest = text_at(&at, r.from);
  return (rest == end || cut(&c, rest, end, s->invert)) && flush(&c);
}


bool split_words (heed_tokenizer *t, bytes from, bytes end) { return split(t, 0, from, end); }

/* }================================================================== */
