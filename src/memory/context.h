/*
** context.h - a context: the parts of this floor, and where the floors above keep theirs.
*/

#ifndef context_h
#define context_h

#include "base/float_mode.h"
#include "memory/block.h"
#include "memory/devices.h"
#include "memory/failure.h"
#include "memory/interrupt.h"
#include "memory/profile.h"
#include "memory/storage.h"
#include "memory/works.h"

#pragma GCC visibility push(hidden)

/*
** The settings of the call that runs and of the calls that it makes; they are restored after the
** call: see scope_begin.
*/
typedef struct scope {
  device *device;                  /* where the call works */
  const storage *target;           /* what a call in place writes, or NULL */
  const char *caller;              /* what messages name; NULL: the operation */
  heed_type mixed;                 /* the type of products in mixed precision; FLOAT32: it is off */
  bool recording;                  /* calls become nodes of the graph */
  bool gradient;                   /* an operation's gradient is made */
  bool composing;                  /* a gradient that is recorded is made: of operations alone */
  int layer;                       /* that works: see heed_set_layer */
  int held;                        /* of 'stop', when the scope began */
} scope;

struct heed_context {
  heed_host host;
  failure failure;                 /* failure.c */
  block_cache blocks;              /* block.c */
  storage_list storages;           /* storage.c */
  device_list devices;             /* plugin.c, accelerator.c, run.c */
  capturing capture;               /* works.c */
  heed_profile *profile;           /* that runs, or NULL: profile.c */
  int profiles;                    /* begun so far */
  scope scope;
  interruption stop;               /* interrupt.c */
  pool *pool;                      /* pool.c */
  generator random;
  struct tensor_state *tensors;    /* tensor/state.h */
  struct graph_state *graph;       /* graph/state.h */
  void (*close_above) (heed_context *cx);  /* frees the state of the floors above */
  bool closing;
};

heed_context *core_open (const heed_host *host);     /* without devices; NULL: no memory */
void core_close (heed_context *cx);                  /* at once: it has no tensors and nodes */

/*
** The scope of a call: what is set in cx->scope between begin and end is undone at the end.
** Work that writes the target of a call in place is held until that call ends.
*/
static inline scope scope_begin (const heed_context *cx) {
  scope before = cx->scope;
  before.held = cx->stop.held;
  return before;
}
static inline void scope_end (heed_context *cx, const scope *before) {
  if (cx->scope.target != before->target) cx->stop.held = before->held;
  cx->scope = *before;
}

/* A scope in which nothing is recorded. */
static inline scope scope_unrecorded (heed_context *cx) {
  const scope before = scope_begin(cx);
  cx->scope.recording = cx->scope.composing = false;
  return before;
}

/*
** Was the context interrupted? Then that is a failure of the function, and it is over. Loops over
** many small works poll, some ten microseconds apart; before the first write of what is in place
** it is asked for the last time: work between core_hold and core_release runs to its end.
*/
bool core_interrupted (heed_context *cx, const char *function);
bool core_poll (heed_context *cx, const char *function);     /* asks the host too */

/* Is a mapped file lost? Then that is a failure of the function, and of all until it is unmapped:
   what the function has read may be zeros. */
bool core_fail_lost (heed_context *cx, const char *function);
static inline bool core_lost (heed_context *cx, const char *function) {
  return atomic_load_explicit(&cx->stop.lost, memory_order_relaxed) != NULL &&
         core_fail_lost(cx, function);
}
static inline void core_hold (heed_context *cx) { cx->stop.held++; }
static inline void core_release (heed_context *cx) { cx->stop.held--; }

/* May the host read and write the memory of 'where'? Recorded work has not written it yet. */
static inline bool core_reaches (const heed_context *cx, const device *where) {
  return where->host && where != cx->capture.where;
}

#pragma GCC visibility pop

#endif
