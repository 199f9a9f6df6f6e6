/*
** failure.c - the first failure of a context is kept, and put into words when a host asks for it.
*/

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "memory/context.h"


static void keep_failure (heed_context *cx, const char *function, const char *argument,
                          const char *text) {
  failure *f = &cx->failure;
  if (f->set) return;
  f->set = true;
  f->verbatim = false;
  snprintf(f->function, sizeof f->function, "%s", function != NULL ? function : "");
  snprintf(f->argument, sizeof f->argument, "%s", argument != NULL ? argument : "");
  snprintf(f->text, sizeof f->text, "%s", text);
}


/* Names the caller, where there is one, instead of the function. */
static void fail (heed_context *cx, const char *function, const char *argument,
                  const char *format, va_list args) {
  char text[sizeof cx->failure.text];
  vsnprintf(text, sizeof text, format, args);
  keep_failure(cx, cx->scope.caller != NULL ? cx->scope.caller : function, argument, text);
}


void *core_fail (heed_context *cx, const char *function, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fail(cx, function, NULL, format, args);
  va_end(args);
  return NULL;
}


bool core_given (heed_context *cx, const char *function, const char *what, const void *given) {
  return given != NULL || core_fail(cx, function, "%s expected, got NULL", what) != NULL;
}


void *core_fail_at (heed_context *cx, const char *function, const char *argument,
                    const char *format, ...) {
  va_list args;
  va_start(args, format);
  fail(cx, function, argument, format, args);
  va_end(args);
  return NULL;
}


void *core_fail_async (heed_context *cx, const char *function, const char *text) {
  keep_failure(cx, function, NULL, text);
  return NULL;
}


void heed_fail (heed_context *cx, const char *format, ...) {
  va_list args;
  if (cx == NULL || cx->failure.set) return;
  cx->failure.set = cx->failure.verbatim = true;
  va_start(args, format);
  vsnprintf(cx->failure.message, sizeof cx->failure.message, format, args);
  va_end(args);
}


/* C libraries differ in the sign that they give to a NaN: it has none here. */
static void compose_message (heed_context *cx) {
  const failure *f = &cx->failure;
  bool at = f->argument[0] != '\0';
  snprintf(cx->failure.message, sizeof cx->failure.message, "%s%s%s%s%s%s", f->function,
           f->function[0] != '\0' ? ": " : "", at ? "argument '" : "", f->argument,
           at ? "': " : "", f->text);
  char *nan = strstr(cx->failure.message, " -nan");
  if (nan != NULL) memmove(nan + 1, nan + 2, strlen(nan + 2) + 1);
}


/* Without floats, which the host's locale may write with a comma. */
bytes_text core_bytes (size_t n) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  bytes_text y;
  int unit = 0;
  if (n < 1024) {
    snprintf(y.text, sizeof y.text, "%zu byte%s", n, n == 1 ? "" : "s");
    return y;
  }
  for (; n >= (size_t)1024 * 1024; n /= 1024) unit++;
  snprintf(y.text, sizeof y.text, "%zu.%zu %s", n / 1024, n % 1024 * 10 / 1024, units[unit]);
  return y;
}


const char *heed_error (heed_context *cx) {
  if (cx == NULL) return "no context: not enough memory, or no such level";
  if (!cx->failure.set) return NULL;
  if (!cx->failure.verbatim) compose_message(cx);
  return cx->failure.message;
}


void heed_clear (heed_context *cx) {
  if (cx != NULL) cx->failure.set = false;
}


bool core_done (heed_context *cx, const char *function, const char *why) {
  return why == NULL || core_fail(cx, function, "%s", why);
}
