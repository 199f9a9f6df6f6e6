/*
** polls.h - core_poll of a program that is linked with --wrap=core_poll: counts the polls, and
** interrupts the context at the one before which 'countdown' reached 0.
*/

#ifndef polls_h
#define polls_h

#include "memory/context.h"

static long polls, countdown = -1;

bool __real_core_poll (heed_context *cx, const char *function);
bool __wrap_core_poll (heed_context *cx, const char *function);

bool __wrap_core_poll (heed_context *cx, const char *function) {
  polls++;
  if (countdown >= 0 && countdown-- == 0) heed_interrupt(cx);
  return __real_core_poll(cx, function);
}

#endif
