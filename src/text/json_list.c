/*
** json_list.c - JSON that is read at once into a list of values.
*/

#include <string.h>

#include "memory/block.h"
#include "memory/failure.h"
#include "text/json_list.h"

#define DEEPEST 64                 /* most values that stand inside each other */

static bool read_value (json *j, heed_json *from);


static json_value *add (json *j, heed_json_kind kind, size_t start, size_t length) {
  if (!ROOM(j->cx, &j->values, 1)) return NULL;
  json_value *v = &j->values.at[j->values.n++];
  *v = (json_value){.kind = kind, .start = (uint32_t)start, .length = (uint32_t)length,
                    .next = (uint32_t)j->values.n};
  return v;
}


static bool add_text (json *j, const heed_json_value *v) {
  const size_t n = v->end - v->start;
  if (!v->escaped) return add(j, HEED_JSON_TEXT, v->start, n) != NULL;
  if (!ROOM(j->cx, &j->copies, (int64_t)n)) return false;
  const size_t at = (size_t)j->copies.n, length = heed_json_text(j->text, v, j->copies.at + at);
  json_value *added = add(j, HEED_JSON_TEXT, at, length);
  if (added == NULL) return false;
  added->copied = true;
  j->copies.n += (int64_t)length;
  return true;
}


static bool read_inside (json *j, heed_json *from, heed_json_kind kind) {
  int64_t self = j->values.n;
  uint32_t count = 0;
  if (add(j, kind, 0, 0) == NULL) return false;
  int more = heed_json_first(from, kind);
  for (; more > 0; more = heed_json_another(from, kind), count++) {
    heed_json_value name;
    if (kind == HEED_JSON_OBJECT && !(heed_json_name(from, &name) && add_text(j, &name)))
      return false;
    if (!read_value(j, from)) return false;
  }
  j->values.at[self].length = count;
  j->values.at[self].next = (uint32_t)j->values.n;
  return more == 0;
}


static bool read_value (json *j, heed_json *from) {
  heed_json_value v;
  switch (heed_json_read(from, &v)) {
    case HEED_JSON_WRONG: return false;
    case HEED_JSON_TEXT: return add_text(j, &v);
    case HEED_JSON_ARRAY: case HEED_JSON_OBJECT: return read_inside(j, from, v.kind);
    case HEED_JSON_NULL: case HEED_JSON_FALSE: case HEED_JSON_TRUE: case HEED_JSON_NUMBER: break;
  }
  return add(j, v.kind, v.start, v.end - v.start) != NULL;
}


bool json_read (heed_context *cx, json *j, const char *text, size_t n) {
  heed_json from;
  *j = (json){.cx = cx, .text = text, .size = n};
  if (n >= UINT32_MAX) {
    core_fail(cx, NULL, "JSON below 4 GiB expected");
    return false;
  }
  if (heed_json_open(&from, text, n, DEEPEST) && read_value(j, &from) &&
      heed_json_ended(&from)) return true;
  if (from.wrong[0] != '\0') core_fail(cx, NULL, "the JSON: %s", from.wrong);
  json_free(j);
  return false;
}


void json_free (json *j) {
  LIST_FREE(j->cx, &j->copies);
  LIST_FREE(j->cx, &j->values);
  *j = (json){.cx = j->cx};
}


const json_value *json_inside (const json *j, const json_value *v) {
  return j->values.at + (v - j->values.at) + 1;
}


const json_value *json_next (const json *j, const json_value *v) {
  return j->values.at + v->next;
}


const char *json_text (const json *j, const json_value *v) {
  return (v->copied ? j->copies.at : j->text) + v->start;
}


bool json_is (const json *j, const json_value *v, const char *text) {
  return json_kind_is(v, HEED_JSON_TEXT) && v->length == strlen(text) &&
         memcmp(json_text(j, v), text, v->length) == 0;
}


bool json_true (const json_value *v) { return json_kind_is(v, HEED_JSON_TRUE); }


const json_value *json_get (const json *j, const json_value *object, const char *key) {
  if (!json_kind_is(object, HEED_JSON_OBJECT)) return NULL;
  const json_value *v = json_inside(j, object);
  for (uint32_t i = 0; i < object->length; i++) {
    const json_value *value = json_next(j, v);
    if (json_is(j, v, key)) return value;
    v = json_next(j, value);
  }
  return NULL;
}


bool json_integer (const json *j, const json_value *v, int64_t *n) {
  if (!json_kind_is(v, HEED_JSON_NUMBER) || v->length > 15) return false;
  const char *p = json_text(j, v);
  *n = 0;
  for (uint32_t i = 0; i < v->length; i++) {
    if (p[i] < '0' || p[i] > '9') return false;
    *n = *n * 10 + (p[i] - '0');
  }
  return true;
}
