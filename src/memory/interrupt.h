/*
** interrupt.h - how work is stopped before its end.
*/

#ifndef interrupt_h
#define interrupt_h

#include <pthread.h>
#include <stdatomic.h>

#include "heed.h"

#pragma GCC visibility push(hidden)

/*
** Of a context. Any thread may set 'asked', and a signal's handler; all else is the caller's. What
** works polls: it returns early, and what it made is thrown away. While something is held nothing
** stops: tensors that exist are being written.
*/
typedef struct interruption {
  atomic_bool asked;
  int held;
  bool (*host) (void *self);       /* asks the host, on the caller's thread; or NULL */
  void *self;
  pthread_t caller;                /* the thread whose call runs */
  int64_t polled;                  /* when the host was asked last */
} interruption;

static inline bool interrupt_asked (const interruption *s) {
  return atomic_load_explicit(&s->asked, memory_order_relaxed) && s->held == 0;
}

/* Polled by work on any thread, some ten microseconds apart or more: is it to stop? */
bool interrupt_stops (interruption *s);

#pragma GCC visibility pop

#endif
