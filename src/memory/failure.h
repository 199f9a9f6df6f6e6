/*
** failure.h - the first failure of a context, which heed_error puts into words.
*/

#ifndef failure_h
#define failure_h

#include "heed.h"

#pragma GCC visibility push(hidden)

/* The first failure since the last heed_clear. */
typedef struct failure {
  bool set;
  bool verbatim;                   /* 'message' holds the host's own words: heed_fail */
  char function[64];               /* as the host called it, or empty */
  char argument[64];               /* or empty */
  char text[800];
  char message[1024];              /* all of it in words */
} failure;

/*
** Keeps the first failure; always NULL, so that 'return core_fail(...)' reads well. 'function' is
** named unless the scope has a caller; NULL: none is known. 'argument' may be NULL.
*/
void *core_fail (heed_context *cx, const char *function, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void *core_fail_at (heed_context *cx, const char *function, const char *argument,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Is there what a host was to give? False: a failure that says what was expected. */
bool core_given (heed_context *cx, const char *function, const char *what, const void *given);

/* Keeps the failure of an earlier call, whose function is named in any case. */
void *core_fail_async (heed_context *cx, const char *function, const char *text);

bool core_done (heed_context *cx, const char *function, const char *why);    /* no 'why', no
                                                 failure */

/* A number of bytes in words: "21.2 GiB". */
typedef struct bytes_text { char text[32]; } bytes_text;
bytes_text core_bytes (size_t n);

#pragma GCC visibility pop

#endif
