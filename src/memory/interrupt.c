/*
** interrupt.c - how work is stopped before its end.
*/

#include "memory/interrupt.h"
#include "memory/machine.h"

#define POLL_EVERY 2000000         /* nanoseconds between two questions to the host */


static bool ask_host (interruption *s) {
  int64_t t = machine_tick();
  if (t - s->polled < POLL_EVERY) return false;
  s->polled = t;
  if (s->host(s->self)) atomic_store_explicit(&s->asked, true, memory_order_relaxed);
  return interrupt_asked(s);
}


bool interrupt_stops (interruption *s) {
  if (s->held > 0) return false;
  if (interrupt_asked(s)) return true;
  return s->host != NULL && pthread_equal(s->caller, pthread_self()) && ask_host(s);
}
