/*
** refusals.h - calls that fail, and in which words.
*/

#ifndef refusals_h
#define refusals_h

#include <stdio.h>
#include <string.h>

#include "heed.h"

static int failed;

static void check (bool good, const char *what) {
  if (good) return;
  printf("%s: wrong\n", what);
  failed = 1;
}

/* Did the last call fail so? */
static void refused (heed_context *cx, bool none, const char *message) {
  const char *error = heed_error(cx);
  if (!none || error == NULL || strcmp(error, message) != 0) {
    printf("'%s' expected, got '%s'\n", message, error != NULL ? error : "no error");
    failed = 1;
  }
  heed_clear(cx);
}

static heed_tensor *vector (heed_context *cx) {
  return heed_from(cx, HEED_FLOAT32, 1, (int64_t[]){4}, (float[]){1, 2, 3, 4});
}

/* One argument, or two, that are refused. */
static void refuses_one (heed_context *cx, heed_op op, heed_value v, const char *message) {
  refused(cx, heed_call(cx, op, &v, 1) == NULL, message);
}

static void refuses (heed_context *cx, heed_op op, heed_tensor *x, heed_value v,
                     const char *message) {
  refused(cx, heed_call(cx, op, (heed_value[]){heed_t(x), v}, 2) == NULL, message);
}

#endif
