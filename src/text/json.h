/*
** json.h - JSON as RFC 8259 has it, read at once into a list of values.
**
** A value that holds others stands before them, and says where the next one behind them stands.
** Texts are bytes of the reader's copy, unescaped where they stood.
*/

#ifndef text_json_h
#define text_json_h

#include "text/memory.h"

#pragma GCC visibility push(hidden)

typedef enum json_kind {
  JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_TEXT, JSON_ARRAY, JSON_OBJECT
} json_kind;

typedef struct json_value {
  json_kind kind;
  uint32_t start, length;          /* of a text or number: bytes; of others: how many are inside */
  uint32_t next;                   /* behind it and all that is inside */
} json_value;

typedef struct json {
  heed_context *cx;
  char *text;
  size_t size;
  LIST(json_value) values;
} json;

/* False: a failure that says the line and what was expected. */
bool json_read (heed_context *cx, json *j, const char *text, size_t n);
void json_free (json *j);

const json_value *json_get (const json *j, const json_value *object, const char *key);   /* NULL */
const json_value *json_inside (const json *j, const json_value *v);      /* the first one in it */
const json_value *json_next (const json *j, const json_value *v);
const char *json_text (const json *j, const json_value *v);              /* v->length bytes */
bool json_is (const json *j, const json_value *v, const char *text);     /* NULL: false */
int json_hex (char c);                                                   /* a digit, or -1 */
bool json_true (const json_value *v);                                    /* NULL: false */
bool json_integer (const json *j, const json_value *v, int64_t *n);      /* NULL: false */
static inline bool json_kind_is (const json_value *v, json_kind kind) {
  return v != NULL && v->kind == kind;
}

#pragma GCC visibility pop

#endif
