/*
** heed_json.h - JSON as RFC 8259 has it, read where it stands, a value at a time: tokenizers,
** configurations and headers of weights are written in it. No memory is taken, no context needed.
*/

#ifndef HEED_JSON_H
#define HEED_JSON_H

#include "heed.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum heed_json_kind {
  HEED_JSON_WRONG,                  /* the text is no JSON here: 'wrong' says why */
  HEED_JSON_NULL, HEED_JSON_FALSE, HEED_JSON_TRUE, HEED_JSON_NUMBER, HEED_JSON_TEXT,
  HEED_JSON_ARRAY, HEED_JSON_OBJECT
} heed_json_kind;

typedef struct heed_json {
  const char *text;
  size_t n;
  size_t at;                        /* the byte that is read next */
  int depth;                        /* how many more arrays and objects may stand inside */
  char wrong[112];                  /* what was expected at which byte, from 1, and what is there */
} heed_json;

typedef struct heed_json_value {
  heed_json_kind kind;
  bool escaped;                     /* a text's bytes hold escapes */
  bool whole;                       /* a number has neither fraction nor exponent */
  size_t start, end;                /* its bytes; a text's without quotes; a list's first bracket */
} heed_json_value;

/* Goes to the start of a text; false: it is no UTF-8. */
HEED_API bool heed_json_open (heed_json *j, const char *text, size_t n, int depth);
/* The next value; of an array or object what is inside follows, by heed_json_first. */
HEED_API heed_json_kind heed_json_read (heed_json *j, heed_json_value *v);
/* Behind the bracket, and behind each value inside: 1: another one follows, in an object its name;
   0: that was the end; -1: wrong. */
HEED_API int heed_json_first (heed_json *j, heed_json_kind kind);
HEED_API int heed_json_another (heed_json *j, heed_json_kind kind);
/* A member's name, and the colon behind it. */
HEED_API bool heed_json_name (heed_json *j, heed_json_value *name);
/* Is nothing left but blanks? */
HEED_API bool heed_json_ended (heed_json *j);
/* Writes a text without its escapes, at most v->end - v->start bytes: how many. 'to' may be where
   the text itself stands. */
HEED_API size_t heed_json_text (const char *text, const heed_json_value *v, char *to);

#ifdef __cplusplus
}
#endif

#endif
