/*
** plugin.c - which plugins a core takes: those of its own table of operations and interface. The
** plugins lie beside the program: see plugins/table.h.
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heed.h"

static int failed;

/* A context of its own for each: one keeps the plugin that it has found. */
static void check (const char *program, const char *name, const char *wanted) {
  char path[4096];
  const char *slash = strrchr(program, '/');
  int n = slash != NULL ? (int)(slash - program) + 1 : 0;
  snprintf(path, sizeof path, "%.*splugins/%s.so", n, program, name);
  setenv("HEED_CUDA", path, 1);
  heed_context *cx = heed_open(NULL);
  const char *got = heed_device_reason(cx, "cuda");
  bool good = got != NULL && strcmp(got, wanted) == 0 && heed_device_count(cx, "cuda") == 0;
  if (!good) printf("plugin: %s: '%s' expected, got '%s'\n", name, wanted, got != NULL ? got : "");
  failed |= !good;
  good = !heed_set_device(cx, "cuda") && strstr(heed_error(cx), wanted) != NULL;
  if (!good) printf("plugin: %s: a device opens, or no message says why not\n", name);
  failed |= !good;
  heed_close(cx);
}

int main (int n, char **arguments) {
  char rows[200];
  if (n < 1) return 1;
  snprintf(rows, sizeof rows, "cuda.so was built for another version of heed: its table of "
           "operations has %d rows, this one %d", HEED_NOPS + 1, HEED_NOPS);
  check(arguments[0], "rows", rows);
  static const char *const others[] = {"version", "interface", "work", "device", "kind", "none"};
  for (int i = 0; i < 6; i++)
    check(arguments[0], others[i],
          "cuda.so was built for another version of heed: its interface differs");
  check(arguments[0], "same", "it has no devices");
  if (!failed) puts("plugin: others than the core's are refused");
  return failed;
}
