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
** A context's request to stop. Any thread and any signal handler may set 'asked'; the other fields
** belong to the calling thread. Loops poll and return early, and their results are dropped. While
** 'held' is above 0 nothing stops, since tensors that exist are being written.
*/
typedef struct interruption {
  atomic_bool asked;
  _Atomic(const char *) lost;      /* a mapped file that cannot be read, for as long as it is
                                      mapped: all calls stop; or NULL */
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
