/*
** run.c - work is given to a device, and the message of a device becomes a failure.
*/

#include <stdio.h>
#include <string.h>

#include "memory/context.h"


const char *core_op_name (int op) {
  static const char *const names[] = {
#define UNARY(name, ...) #name,
#define BINARY(name, ...) #name,
#define TERNARY(name, ...) #name,
#define OP(name, ...) #name,
#define COMPOSED(name, ...) #name,
#define PLAIN(name, ...) #name,
#include "op/ops.def"
    "custom", [CORE_READ] = "read", [CORE_SYNCHRONIZE] = "synchronize", [CORE_CAPTURE] = "capture"
  };
  return names[op];
}


const char *core_number_name (const heed_context *cx, int op) {
  return op < CORE_OPS ? core_op_name(op) : cx->devices.callers[op - CORE_OPS];
}


static const char *run_in_own_mode (device *where, const work *w) {
  const float_mode before = float_mode_begin();
  const char *why = where->run(where, w);
  float_mode_end(before);
  return why;
}


/* The number of the caller's name, if that is another than the operation's. */
static int caller_number (heed_context *cx, int op) {
  const char *name = cx->scope.caller;
  if (name == NULL || strcmp(name, core_op_name(op)) == 0) return op;
  device_list *known = &cx->devices;
  const size_t most = sizeof *known->callers;
  int i = 0;
  while (i < known->ncallers && strncmp(known->callers[i], name, most - 1) != 0) i++;
  if (i == CALLERS_MOST) return op;
  if (i == known->ncallers) snprintf(known->callers[known->ncallers++], most, "%s", name);
  return CORE_OPS + i;
}


/* A device that works while the host waits has asynchronous errors in replays alone. */
static int number_for (heed_context *cx, const device *d, int op) {
  return d->accelerator != NULL || d == cx->capture.where ? caller_number(cx, op) : op;
}


void core_begin (heed_context *cx, device *d, int op) { d->op = number_for(cx, d, op); }


bool core_end (heed_context *cx, device *d, int op, const char *why) {
  if (why == NULL) return true;
  if (d->host && account_refused(cx, core_op_name(op))) return false;
  if (d->op == number_for(cx, d, op)) return core_fail(cx, core_op_name(op), "%s", why);
  return core_fail_async(cx, core_number_name(cx, d->op), why);
}


/* Is a result in memory of what is changed in place? */
static bool writes_target (const heed_context *cx, const work *w) {
  const storage *s = cx->scope.target;
  for (int i = 0; s != NULL && i < w->nout; i++)
    if ((uintptr_t)w->out[i].data - (uintptr_t)s->data < s->bytes) return true;
  return false;
}


/* Interrupted work has returned early, without a result, or with a message that says so. */
static bool run_or_stop (heed_context *cx, heed_op op, device *where, const work *w) {
  cx->stop.caller = pthread_self();
  core_begin(cx, where, op);
  const char *why = run_in_own_mode(where, w);
  if (where->host && core_interrupted(cx, core_op_name(op))) return false;
  return core_end(cx, where, op, why);
}


bool core_run (heed_context *cx, heed_op op, device *where, const work *w) {
  if (!where->supports(where, w->kind, w->op))
    return core_fail(cx, core_op_name(op), "cannot be done on %s", where->name);
  if (!core_check_captured(cx, core_op_name(op), where)) return false;
  where->works++;
  if (writes_target(cx, w)) core_hold(cx);       /* until the call in place ends */
  if (cx->capture.memory != NULL) return works_add(cx, number_for(cx, where, op), w);
  return run_or_stop(cx, op, where, w);
}


/* Such work ends before it could be interrupted. A capture records the work of core_run alone. */
bool core_map (heed_context *cx, device *where, const dense_map *w) {
  if (where->map == NULL || cx->capture.where != NULL || !where->map(where, w)) return false;
  where->works++;
  return true;
}
