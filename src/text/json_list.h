/*
** json_list.h - JSON that is read at once into a list of values.
**
** A value that holds others stands before them, and says where the next one behind them stands.
** Texts without escapes are bytes of the JSON, which must last as long; others are copied.
*/

#ifndef text_json_list_h
#define text_json_list_h

#include "heed_json.h"
#include "text/memory.h"

#pragma GCC visibility push(hidden)

typedef struct json_value {
  heed_json_kind kind : 8;
  bool copied : 1;                 /* a text's bytes are among the copies */
  uint32_t start, length;          /* of a text or number: bytes; of others: how many are inside */
  uint32_t next;                   /* behind it and all that is inside */
} json_value;

typedef struct json {
  heed_context *cx;
  const char *text;
  size_t size;
  LIST(char) copies;               /* of texts that have escapes, without them */
  LIST(json_value) values;
} json;

/* False: a failure that says what was expected, and at which byte. */
bool json_read (heed_context *cx, json *j, const char *text, size_t n);
void json_free (json *j);

const json_value *json_get (const json *j, const json_value *object, const char *key);   /* NULL */
const json_value *json_inside (const json *j, const json_value *v);      /* the first one in it */
const json_value *json_next (const json *j, const json_value *v);
const char *json_text (const json *j, const json_value *v);              /* v->length bytes */
bool json_is (const json *j, const json_value *v, const char *text);     /* NULL: false */
bool json_true (const json_value *v);                                    /* NULL: false */
bool json_integer (const json *j, const json_value *v, int64_t *n);      /* NULL: false */
static inline bool json_kind_is (const json_value *v, heed_json_kind kind) {
  return v != NULL && v->kind == kind;
}

#pragma GCC visibility pop

#endif
