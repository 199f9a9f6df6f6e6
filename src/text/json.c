/*
** json.c - JSON as RFC 8259 has it, read at once into a list of values.
*/

#include <string.h>

#include "memory/block.h"
#include "memory/failure.h"
#include "text/json.h"
#include "text/utf8.h"

#define DEEPEST 64                 /* most values that stand inside each other */

typedef struct reader {
  json *j;
  char *p, *end;
  int depth;
} reader;

static bool read_value (reader *r);


static bool fail (reader *r, const char *wanted) {
  int64_t line = 1;
  for (const char *p = r->j->text; p < r->p; p++) line += *p == '\n';
  core_fail(r->j->cx, NULL, "line %lld of the JSON: %s expected", (long long)line, wanted);
  return false;
}


static void skip_blanks (reader *r) {
  while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\r' || *r->p == '\t')) r->p++;
}


static json_value *add (reader *r, json_kind kind) {
  json *j = r->j;
  if (!ROOM(j->cx, &j->values, 1)) return NULL;
  json_value *v = &j->values.at[j->values.n++];
  *v = (json_value){kind, (uint32_t)(r->p - j->text), 0, (uint32_t)j->values.n};
  return v;
}


int json_hex (char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}


/* The four digits behind \u; -1: they are none. */
static int read_unit (reader *r) {
  int unit = 0;
  if (r->end - r->p < 4) return -1;
  for (int i = 0; i < 4; i++) {
    int digit = json_hex(r->p[i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  r->p += 4;
  return unit;
}


/* A code point of one or two escapes; half a pair alone is none. */
static bool read_escaped_point (reader *r, char **to) {
  int unit = read_unit(r);
  if (unit >= 0xd800 && unit < 0xdc00 && r->end - r->p > 6 && r->p[0] == '\\' && r->p[1] == 'u') {
    r->p += 2;
    int low = read_unit(r);
    if (low < 0xdc00 || low > 0xdfff) return fail(r, "the second half of a surrogate pair");
    unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
  }
  if (unit < 0 || (unit >= 0xd800 && unit < 0xe000)) return fail(r, "a code point");
  *to += utf8_put(*to, (uint32_t)unit);
  return true;
}


static bool read_escape (reader *r, char **to) {
  static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
  char c = r->p < r->end ? *r->p++ : '\0';
  if (c == 'u') return read_escaped_point(r, to);
  const char *found = c != '\0' ? strchr(from, c) : NULL;
  if (found == NULL) return fail(r, "an escape");
  *(*to)++ = into[found - from];
  return true;
}


/* The text that is written is never longer than the one that was read. */
static bool read_text (reader *r) {
  if (r->p >= r->end || *r->p != '"') return fail(r, "a text");
  r->p++;
  json_value *v = add(r, JSON_TEXT);
  if (v == NULL) return false;
  char *from = r->p, *to = from;
  for (;;) {
    if (r->p >= r->end || (unsigned char)*r->p < 32) return fail(r, "the end of a text");
    char c = *r->p++;
    if (c == '"') break;
    if (c != '\\') *to++ = c;
    else if (!read_escape(r, &to)) return false;
  }
  v->length = (uint32_t)(to - from);
  return utf8_valid(from, v->length) || fail(r, "UTF-8");
}


static bool skip_digits (reader *r) {
  char *from = r->p;
  while (r->p < r->end && *r->p >= '0' && *r->p <= '9') r->p++;
  return r->p > from;
}


static bool skip_char (reader *r, char c) {
  bool is = r->p < r->end && *r->p == c;
  r->p += is;
  return is;
}


static bool read_number (reader *r) {
  json_value *v = add(r, JSON_NUMBER);
  if (v == NULL) return false;
  char *from = r->p;
  skip_char(r, '-');
  bool zero = r->p < r->end && *r->p == '0';
  if (zero) r->p++;
  else if (!skip_digits(r)) return fail(r, "a value");
  if (skip_char(r, '.') && !skip_digits(r)) return fail(r, "a digit");
  if (skip_char(r, 'e') || skip_char(r, 'E')) {
    if (!skip_char(r, '-')) skip_char(r, '+');
    if (!skip_digits(r)) return fail(r, "a digit");
  }
  v->length = (uint32_t)(r->p - from);
  return true;
}


static bool read_word (reader *r, const char *word, json_kind kind) {
  size_t n = strlen(word);
  if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0) return fail(r, "a value");
  if (add(r, kind) == NULL) return false;
  r->p += n;
  return true;
}


static bool read_member (reader *r) {
  skip_blanks(r);
  if (!read_text(r)) return false;
  skip_blanks(r);
  if (!skip_char(r, ':')) return fail(r, "':'");
  return read_value(r);
}


/* An array or object, whose first bracket stands here. */
static bool read_list (reader *r, json_kind kind, char last) {
  uint32_t self = (uint32_t)r->j->values.n, count = 0;
  if (++r->depth > DEEPEST) return fail(r, "at most 64 values inside each other");
  if (add(r, kind) == NULL) return false;
  r->p++;
  skip_blanks(r);
  if (!skip_char(r, last)) {
    do {
      if (!(kind == JSON_OBJECT ? read_member(r) : read_value(r))) return false;
      count++;
      skip_blanks(r);
    } while (skip_char(r, ','));
    if (!skip_char(r, last)) return fail(r, kind == JSON_OBJECT ? "',' or '}'" : "',' or ']'");
  }
  r->depth--;
  r->j->values.at[self].length = count;
  r->j->values.at[self].next = (uint32_t)r->j->values.n;
  return true;
}


static bool read_value (reader *r) {
  skip_blanks(r);
  switch (r->p < r->end ? *r->p : '\0') {
    case '{': return read_list(r, JSON_OBJECT, '}');
    case '[': return read_list(r, JSON_ARRAY, ']');
    case '"': return read_text(r);
    case 't': return read_word(r, "true", JSON_TRUE);
    case 'f': return read_word(r, "false", JSON_FALSE);
    case 'n': return read_word(r, "null", JSON_NULL);
  }
  return read_number(r);
}


bool json_read (heed_context *cx, json *j, const char *text, size_t n) {
  *j = (json){.cx = cx, .size = n};
  if (n >= UINT32_MAX) {
    core_fail(cx, NULL, "JSON below 4 GiB expected");
    return false;
  }
  j->text = core_alloc(cx, n + 1);
  if (j->text == NULL) return false;
  memcpy(j->text, text, n);
  reader r = {.j = j, .p = j->text, .end = j->text + n};
  bool good = read_value(&r);
  skip_blanks(&r);
  if (good && r.p < r.end) good = fail(&r, "the end");
  if (!good) json_free(j);
  return good;
}


void json_free (json *j) {
  core_free(j->cx, j->text, j->size + 1);
  LIST_FREE(j->cx, &j->values);
  *j = (json){.cx = j->cx};
}


const json_value *json_inside (const json *j, const json_value *v) {
  return j->values.at + (v - j->values.at) + 1;
}


const json_value *json_next (const json *j, const json_value *v) {
  return j->values.at + v->next;
}


const char *json_text (const json *j, const json_value *v) { return j->text + v->start; }


bool json_is (const json *j, const json_value *v, const char *text) {
  return json_kind_is(v, JSON_TEXT) && v->length == strlen(text) &&
         memcmp(json_text(j, v), text, v->length) == 0;
}


bool json_true (const json_value *v) { return json_kind_is(v, JSON_TRUE); }


const json_value *json_get (const json *j, const json_value *object, const char *key) {
  if (!json_kind_is(object, JSON_OBJECT)) return NULL;
  const json_value *v = json_inside(j, object);
  for (uint32_t i = 0; i < object->length; i++) {
    const json_value *value = json_next(j, v);
    if (json_is(j, v, key)) return value;
    v = json_next(j, value);
  }
  return NULL;
}


bool json_integer (const json *j, const json_value *v, int64_t *n) {
  if (!json_kind_is(v, JSON_NUMBER) || v->length > 15) return false;
  const char *p = json_text(j, v);
  *n = 0;
  for (uint32_t i = 0; i < v->length; i++) {
    if (p[i] < '0' || p[i] > '9') return false;
    *n = *n * 10 + (p[i] - '0');
  }
  return true;
}
