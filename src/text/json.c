/*
** json.c - JSON as RFC 8259 has it, a value at a time.
*/

#include <stdio.h>
#include <string.h>

#include "heed_json.h"
#include "text/hex.h"
#include "text/utf8.h"

/*
** {==================================================================
** Refusals
** ===================================================================
*/

/* The character at a byte, in quotes, as the Lua half quotes names; all of it is there, since the
   text is UTF-8. */
static void describe (const heed_json *j, size_t at, char *to, size_t room) {
  unsigned char c = at < j->n ? (unsigned char)j->text[at] : 0;
  size_t bytes = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
  if (at >= j->n) snprintf(to, room, "the end");
  else if (c < 32 || c == '"' || c == '\\' || c == 127) snprintf(to, room, "\"\\x%02x\"", c);
  else snprintf(to, room, "\"%.*s\"", (int)bytes, j->text + at);
}


static bool refuse (heed_json *j, const char *what, size_t at) {
  snprintf(j->wrong, sizeof j->wrong, "%s at byte %zu", what, at + 1);
  return false;
}


static bool expected (heed_json *j, const char *wanted) {
  char found[16];
  describe(j, j->at, found, sizeof found);
  snprintf(j->wrong, sizeof j->wrong, "expected %s at byte %zu, got %s", wanted, j->at + 1, found);
  return false;
}

/* }================================================================== */


static void skip_blanks (heed_json *j) {
  size_t at = j->at;
  while (at < j->n && (j->text[at] == ' ' || j->text[at] == '\n' || j->text[at] == '\r' ||
                       j->text[at] == '\t')) at++;
  j->at = at;
}


/* The byte at a place; 0 at the end, which no JSON has outside of texts. */
static char byte_at (const heed_json *j, size_t at) { return at < j->n ? j->text[at] : '\0'; }


/* Goes over a byte, if that is the one. */
static bool skip (heed_json *j, char c) {
  bool is = j->at < j->n && j->text[j->at] == c;
  j->at += is;
  return is;
}


/* A program that passes NULL for what is written gets no value. */
static bool lacks (heed_json *j, const void *to) {
  if (j != NULL && to == NULL) refuse(j, "NULL in the place of a value", j->at);
  return j == NULL || to == NULL;
}


bool heed_json_open (heed_json *j, const char *text, size_t n, int depth) {
  if (j == NULL) return false;
  if (text == NULL && n > 0) {
    *j = (heed_json){.text = ""};
    return refuse(j, "NULL in the place of a text", 0);
  }
  *j = (heed_json){.text = text, .n = n, .depth = depth};
  size_t good = utf8_valid_bytes(text, n);
  return good == n || refuse(j, "invalid UTF-8", good);
}


/*
** {==================================================================
** Texts
** ===================================================================
*/

/* The four digits of \uXXXX at a place, or -1. */
static int unit_at (const heed_json *j, size_t at) {
  int unit = 0;
  if (j->n < 6 || at > j->n - 6 || j->text[at] != '\\' || j->text[at + 1] != 'u') return -1;
  for (int i = 2; i < 6; i++) {
    int digit = hex_digit(j->text[at + (size_t)i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}


static bool is_half (int unit) { return unit >= 0xd800 && unit < 0xe000; }


/* Goes over an escape; a code point may take two. */
static bool skip_escape (heed_json *j) {
  char c = byte_at(j, j->at + 1);
  if (c != 'u') {
    if (c == '\0' || strchr("\"\\/bfnrt", c) == NULL) return refuse(j, "bad escape", j->at);
    j->at += 2;
    return true;
  }
  int unit = unit_at(j, j->at), low = unit_at(j, j->at + 6);
  if (unit < 0) return refuse(j, "bad \\u escape", j->at);
  if (is_half(unit) && (unit >= 0xdc00 || low < 0xdc00 || low > 0xdfff))
    return refuse(j, "half of a surrogate pair", j->at);
  j->at += is_half(unit) ? 12 : 6;
  return true;
}


/* The first quote, backslash or control character from here on: eight bytes at a time. */
static size_t end_of_plain (const heed_json *j, size_t at) {
  const uint64_t ones = 0x0101010101010101u, highs = ones * 0x80;
  for (; j->n - at >= 8; at += 8) {
    uint64_t w;
    memcpy(&w, j->text + at, 8);
    uint64_t quote = w ^ ones * '"', slash = w ^ ones * '\\';
    uint64_t hit = ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((w - ones * 32) & ~w);
    if ((hit & highs) != 0) break;
  }
  while (at < j->n && j->text[at] != '"' && j->text[at] != '\\' &&
         (unsigned char)j->text[at] >= 32) at++;
  return at;
}


static bool read_text (heed_json *j, heed_json_value *v) {
  const size_t quote = j->at++;
  *v = (heed_json_value){.kind = HEED_JSON_TEXT, .start = j->at};
  for (;;) {
    j->at = end_of_plain(j, j->at);
    if (j->at >= j->n) {
      snprintf(j->wrong, sizeof j->wrong, "string at byte %zu has no end", quote + 1);
      return false;
    }
    if (j->text[j->at] == '"') break;
    if (j->text[j->at] != '\\') return refuse(j, "control character in a string", j->at);
    v->escaped = true;
    if (!skip_escape(j)) return false;
  }
  v->end = j->at++;
  return true;
}


/* One escape, which is right: how many bytes it has, and in 'to' what it stands for. */
static size_t unescape (const heed_json *j, size_t at, char **to) {
  static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
  char c = j->text[at + 1];
  if (c != 'u') {
    *(*to)++ = into[strchr(from, c) - from];
    return 2;
  }
  int unit = unit_at(j, at);
  bool half = is_half(unit);
  if (half) unit = 0x10000 + ((unit - 0xd800) << 10) + (unit_at(j, at + 6) - 0xdc00);
  *to += utf8_put(*to, (uint32_t)unit);
  return half ? 12 : 6;
}


size_t heed_json_text (const char *text, const heed_json_value *v, char *to) {
  if (text == NULL || v == NULL || to == NULL) return 0;
  const heed_json j = {.text = text, .n = v->end};
  char *p = to;
  for (size_t at = v->start, stop; at < v->end; at = stop) {
    stop = end_of_plain(&j, at);
    memmove(p, text + at, stop - at);
    p += stop - at;
    if (stop < v->end) stop += unescape(&j, stop, &p);
  }
  return (size_t)(p - to);
}

/* }================================================================== */


static bool skip_digits (heed_json *j) {
  size_t from = j->at;
  while (j->at < j->n && j->text[j->at] >= '0' && j->text[j->at] <= '9') j->at++;
  return j->at > from;
}


/* A part of a number behind its first digits, if there is one with digits. */
static bool skip_part (heed_json *j, bool exponent) {
  size_t from = j->at;
  if (exponent ? skip(j, 'e') || skip(j, 'E') : skip(j, '.')) {
    if (exponent && !skip(j, '-')) skip(j, '+');
    if (skip_digits(j)) return true;
  }
  j->at = from;
  return false;
}


static bool read_number (heed_json *j, heed_json_value *v) {
  *v = (heed_json_value){.kind = HEED_JSON_NUMBER, .start = j->at};
  skip(j, '-');
  size_t first = j->at;
  if (!skip_digits(j) || (j->text[first] == '0' && j->at > first + 1))
    return refuse(j, "bad number", v->start);
  v->whole = !skip_part(j, false);
  if (skip_part(j, true)) v->whole = false;
  v->end = j->at;
  return true;
}


static bool read_word (heed_json *j, heed_json_value *v, const char *word, heed_json_kind kind) {
  size_t n = strlen(word);
  if (j->n - j->at < n || memcmp(j->text + j->at, word, n) != 0) return expected(j, "a value");
  *v = (heed_json_value){.kind = kind, .start = j->at, .end = j->at + n};
  j->at += n;
  return true;
}


static bool read_bracket (heed_json *j, heed_json_value *v, heed_json_kind kind) {
  if (j->depth < 1) return refuse(j, "nested too deep", j->at);
  *v = (heed_json_value){.kind = kind, .start = j->at, .end = j->at + 1};
  j->depth--;
  j->at++;
  return true;
}


static bool read_value (heed_json *j, heed_json_value *v) {
  char c = byte_at(j, j->at);
  switch (c) {
    case '{': return read_bracket(j, v, HEED_JSON_OBJECT);
    case '[': return read_bracket(j, v, HEED_JSON_ARRAY);
    case '"': return read_text(j, v);
    case 't': return read_word(j, v, "true", HEED_JSON_TRUE);
    case 'f': return read_word(j, v, "false", HEED_JSON_FALSE);
    case 'n': return read_word(j, v, "null", HEED_JSON_NULL);
  }
  if (c == '-' || (c >= '0' && c <= '9')) return read_number(j, v);
  return expected(j, "a value");
}


heed_json_kind heed_json_read (heed_json *j, heed_json_value *v) {
  if (lacks(j, v)) return HEED_JSON_WRONG;
  skip_blanks(j);
  return read_value(j, v) ? v->kind : HEED_JSON_WRONG;
}


static char closing (heed_json_kind kind) { return kind == HEED_JSON_ARRAY ? ']' : '}'; }


static bool skip_closing (heed_json *j, heed_json_kind kind) {
  bool ended = skip(j, closing(kind));
  j->depth += ended;
  return ended;
}


int heed_json_first (heed_json *j, heed_json_kind kind) {
  if (j == NULL) return -1;
  skip_blanks(j);
  return !skip_closing(j, kind);
}


int heed_json_another (heed_json *j, heed_json_kind kind) {
  if (j == NULL) return -1;
  skip_blanks(j);
  if (skip(j, ',')) {
    skip_blanks(j);
    return 1;
  }
  if (skip_closing(j, kind)) return 0;
  expected(j, kind == HEED_JSON_ARRAY ? "\",\" or \"]\"" : "\",\" or \"}\"");
  return -1;
}


bool heed_json_name (heed_json *j, heed_json_value *name) {
  if (lacks(j, name)) return false;
  skip_blanks(j);
  if (byte_at(j, j->at) != '"') return expected(j, "a name in quotes");
  if (!read_text(j, name)) return false;
  skip_blanks(j);
  if (!skip(j, ':')) return expected(j, "\":\"");
  skip_blanks(j);
  return true;
}


bool heed_json_ended (heed_json *j) {
  if (j == NULL) return false;
  skip_blanks(j);
  return j->at >= j->n || expected(j, "the end");
}
