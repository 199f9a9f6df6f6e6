/*
** plugin.c - which plugins a core takes: those of its own table of operations and interface. The
** plugins lie beside the program: see plugins/table.h.
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heed.h"
#include "memory/context.h"

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

/* Why there is no device where HEED_CUDA names this. */
static void has_reason (const char *given, const char *begin) {
  setenv("HEED_CUDA", given, 1);
  heed_context *cx = heed_open(NULL);
  const char *got = heed_device_reason(cx, "cuda");
  if (got == NULL || strncmp(got, begin, strlen(begin)) != 0) {
    printf("plugin: '%s' expected, got '%s'\n", begin, got != NULL ? got : "");
    failed = 1;
  }
  heed_close(cx);
}

/* Starts a copy of the program under a name; whether it ends well. */
static bool runs (const char *copy, const char *name, const char *folder, const char *more) {
  int status = 1;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    if (chdir(folder) == 0) execl(copy, name, folder, more, NULL);
    _exit(0);                      /* QEMU starts none */
  }
  return waitpid(child, &status, 0) == child && status == 0;
}

/*
** A copy of the program beside a file that is no plugin, started as a shell does that finds it; and
** under names that are no paths, where a file in the current folder is none that is beside it.
*/
static void is_beside_program (const char *program) {
  static const int lengths[] = {4080, 4088, 4095, 4096, 5000};
  char folder[] = "/tmp/heed-plugin-XXXXXX", copy[64], command[4200], name[5001];
  if (mkdtemp(folder) == NULL) { failed = 1; return; }
  snprintf(copy, sizeof copy, "%s/copy", folder);
  snprintf(command, sizeof command, "cp '%s' %s && echo no plugin >%s/cuda.so", program, copy,
           folder);
  failed |= system(command) != 0 || !runs(copy, "copy", folder, NULL);
  for (int i = 0; i < 5; i++) {
    memset(name, '/', sizeof name);
    memcpy(name, "/none", 5);
    name[lengths[i]] = '\0';
    failed |= !runs(copy, name, folder, "none");
  }
  snprintf(command, sizeof command, "rm -r %s", folder);
  failed |= system(command) != 0;
}

static int as_copy (const char *folder, bool found) {
  char reason[100] = "built without CUDA: there is no cuda.so";
  if (found) snprintf(reason, sizeof reason, "cuda.so can't be loaded: %s/cuda.so: ", folder);
  has_reason("", reason);
  return failed;
}

static void names_have_numbers (void) {
  static const struct { const char *name; int index; } names[] = {
    {NULL, -1}, {"", -1}, {"cpu", -1}, {"cud", -1}, {"cudax", -1}, {"cuda", 0}, {"cuda:", -1},
    {"cuda:0", 0}, {"cuda:7", 7}, {"cuda:12", 12}, {"cuda:012", 12}, {"cuda:999", 999},
    {"cuda:1000", -1}, {"cuda:1a", -1}, {"cuda:a", -1}, {"cuda:-1", -1}, {"cuda0", -1},
    {"cuda: 1", -1}, {"xcuda", -1}
  };
  heed_context *cx = heed_open(NULL);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (core_device_index(names[i].name) == names[i].index) continue;
    printf("plugin: the number of '%s': wrong\n", names[i].name);
    failed = 1;
  }
  if (core_find_device(cx, "cpu") == NULL || core_find_device(cx, "cuda") != NULL ||
      core_find_device(cx, "cuda:1") != NULL || core_find_device(cx, NULL) != NULL) {
    puts("plugin: devices by their names: wrong");
    failed = 1;
  }
  heed_close(cx);
}

int main (int n, char **arguments) {
  char rows[200];
  if (n < 1) return 1;
  if (n > 1) return as_copy(arguments[1], n == 2);
  snprintf(rows, sizeof rows, "cuda.so was built for another version of heed: its table of "
           "operations has %d rows, this one %d", HEED_NOPS + 1, HEED_NOPS);
  check(arguments[0], "rows", rows);
  static const char *const others[] = {"version", "interface", "work", "device", "kind", "none"};
  for (int i = 0; i < 6; i++)
    check(arguments[0], others[i],
          "cuda.so was built for another version of heed: its interface differs");
  check(arguments[0], "same", "it has no devices");
  has_reason("/no/such.so", "HEED_CUDA names a file that is not there: /no/such.so");
  has_reason("/dev/null", "cuda.so can't be loaded: ");
  has_reason("", "built without CUDA: there is no cuda.so");
  is_beside_program(arguments[0]);
  names_have_numbers();
  if (!failed) puts("plugin: others than the core's are refused");
  return failed;
}
