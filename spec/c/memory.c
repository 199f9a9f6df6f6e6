/*
** memory.c - the limit of a context: what it refuses, and in which words.
*/

#include <stdio.h>
#include <string.h>

#include "heed.h"

#define MIB ((size_t)1 << 20)

static int failed;

static void check (bool good, const char *what) {
  if (good) return;
  printf("memory: %s: wrong\n", what);
  failed = 1;
}


/* Did the last call fail so? */
static void refused (heed_context *cx, bool done, const char *begin) {
  const char *error = heed_error(cx);
  check(!done && error != NULL && strncmp(error, begin, strlen(begin)) == 0, begin);
  heed_clear(cx);
}


static void host_asks (heed_context *cx) {
  check(heed_memory_room(cx, 60 * MIB, "a table"), "room below the limit");
  refused(cx, heed_memory_room(cx, 70 * MIB, "a table"), "memory limit of 64.0 MiB: ");
  refused(cx, heed_memory_room(cx, SIZE_MAX, "a table"), "memory limit of 64.0 MiB: ");
  check(!heed_memory_room(NULL, 1, "a table"), "no context");
}


int main (void) {
  heed_context *cx = heed_open(NULL);
  heed_memory_limit(cx, 64 * MIB);
  host_asks(cx);
  heed_close(cx);
  printf("memory: %s\n", failed ? "wrong" : "the limit holds");
  return failed;
}
