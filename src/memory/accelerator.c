/*
** accelerator.c - what hosts see of accelerators: what devices there are, what their memory holds,
** how long something took.
*/

#include <string.h>

#include "memory/context.h"


device *core_accelerator (heed_context *cx, const char *function, const char *name) {
  if (cx == NULL || name == NULL) return NULL;
  device *d = core_device(cx, function, name);
  if (d == NULL || d->accelerator != NULL) return d;
  return core_fail(cx, function, "an accelerator expected, got '%s'", d->name);
}


bool core_check_uncaptured (heed_context *cx, const char *function, const device *d) {
  return cx->capture.where != d || core_fail(cx, function, "not while %s is captured", d->name);
}


/*
** {==================================================================
** What there is
** ===================================================================
*/

const char *heed_device_reason (heed_context *cx, const char *kind) {
  return cx != NULL ? core_plugin_reason(cx, kind) : "no context";
}


int heed_device_count (heed_context *cx, const char *kind) {
  return heed_device_reason(cx, kind) == NULL ? cx->devices.plugin->count() : 0;
}


/* The part of a device's name before the ':'. */
static const char *kind_of (const char *name, char kind[16]) {
  size_t n = strcspn(name, ":");
  if (n > 15) n = 15;
  memcpy(kind, name, n);
  kind[n] = '\0';
  return kind;
}


bool heed_device_describe (heed_context *cx, const char *name,
                           heed_device_properties *properties) {
  char kind[16];
  if (cx == NULL || name == NULL || properties == NULL) return false;
  if (!core_done(cx, "properties", core_plugin_reason(cx, kind_of(name, kind)))) return false;
  int index = core_device_index(name);
  if (index < 0 || index >= cx->devices.plugin->count())
    return core_fail(cx, "properties", "there is no '%.40s'; devices count from 0", name);
  if (!core_done(cx, "properties", cx->devices.plugin->properties(index, properties))) return false;
  device *d = core_find_device(cx, name);
  if (d != NULL)
    d->accelerator->products(d, properties->matmul, sizeof properties->matmul);
  return true;
}


int64_t heed_works (heed_context *cx, const char *name) {
  const device *d = cx != NULL ? core_find_device(cx, name) : NULL;
  return d != NULL ? d->works : 0;
}

/* }================================================================== */


/*
** {==================================================================
** Settings and memory
** ===================================================================
*/

static const char *const precisions[] = {"highest", "high", "medium"};


const char *heed_matmul_precision (heed_context *cx) {
  return cx != NULL ? precisions[cx->devices.precision] : NULL;
}


bool heed_set_matmul_precision (heed_context *cx, const char *name) {
  int level = 0;
  if (cx == NULL || name == NULL) return false;
  while (level < 3 && strcmp(precisions[level], name) != 0) level++;
  if (level == 3)
    return core_fail(cx, "matmul_precision", "'highest', 'high' or 'medium' expected, got '%.40s'",
                     name);
  cx->devices.precision = level;
  for (int i = 0; i < cx->devices.n; i++) {
    device *d = cx->devices.list[i];
    if (d->accelerator != NULL) d->accelerator->precision(d, level);
  }
  return true;
}


void core_set_blocking (heed_context *cx) {
  for (int i = 0; i < cx->devices.n; i++) {
    device *d = cx->devices.list[i];
    if (d->accelerator != NULL)
      d->accelerator->block(d, cx->devices.blocking || cx->profile != NULL);
  }
}


bool heed_device_block (heed_context *cx, const char *kind, bool yes) {
  if (core_accelerator(cx, "blocking", kind) == NULL) return false;
  cx->devices.blocking = yes;
  core_set_blocking(cx);
  return true;
}


bool heed_synchronize (heed_context *cx, const char *name) {
  device *d = core_accelerator(cx, "synchronize", name);
  if (d == NULL) return false;
  core_begin(cx, d, CORE_SYNCHRONIZE);
  return core_end(cx, d, CORE_SYNCHRONIZE, d->accelerator->wait(d));
}


bool heed_device_memory_now (heed_context *cx, const char *name, heed_device_memory *now) {
  device *d = now != NULL ? core_accelerator(cx, "memory", name) : NULL;
  if (d != NULL) d->accelerator->memory(d, now);
  return d != NULL;
}


bool heed_device_reset_peak (heed_context *cx, const char *name) {
  device *d = core_accelerator(cx, "reset_peak", name);
  if (d != NULL) d->accelerator->reset_peak(d);
  return d != NULL;
}


bool heed_device_limit (heed_context *cx, const char *name, size_t bytes) {
  device *d = core_accelerator(cx, "limit", name);
  if (d != NULL) d->accelerator->limit(d, bytes);
  return d != NULL;
}


bool heed_device_trim (heed_context *cx, const char *name) {
  device *d = core_accelerator(cx, "empty_cache", name);
  if (d != NULL) d->accelerator->trim(d);
  return d != NULL;
}


/* Its seed, and how many numbers were drawn. */
bool heed_device_rng_get (heed_context *cx, const char *name, uint64_t state[2]) {
  device *d = state == NULL ? NULL : core_accelerator(cx, "rng_state", name);
  return d != NULL && core_check_generator(cx, "rng_state") &&
         core_done(cx, "rng_state", d->accelerator->rng_get(d, state));
}


bool heed_device_rng_set (heed_context *cx, const char *name, const uint64_t state[2]) {
  device *d = state == NULL ? NULL : core_accelerator(cx, "rng_state", name);
  return d != NULL && core_check_generator(cx, "rng_state") &&
         core_done(cx, "rng_state", d->accelerator->rng_set(d, state));
}

/* }================================================================== */


/*
** {==================================================================
** Events
** ===================================================================
*/

heed_event *heed_event_record (heed_context *cx, const char *name) {
  device *d = core_accelerator(cx, "elapsed", name);
  if (d == NULL || !core_check_uncaptured(cx, "elapsed", d)) return NULL;
  device_event *e = d->accelerator->event_record(d);
  if (e == NULL) {
    const char *why = d->gone(d);
    core_fail(cx, "elapsed", "%s", why != NULL ? why : "there is no memory for an event");
  }
  return (heed_event *)e;
}


bool heed_event_elapsed (heed_context *cx, const char *name, heed_event *from, heed_event *to,
                         double *seconds) {
  if (from == NULL || to == NULL || seconds == NULL) return false;
  device *d = core_accelerator(cx, "elapsed", name);
  return d != NULL &&
         core_done(cx, "elapsed", d->accelerator->event_elapsed(d, (device_event *)from,
                                                                (device_event *)to, seconds));
}


void heed_event_drop (heed_context *cx, const char *name, heed_event *e) {
  device *d = cx != NULL && e != NULL ? core_find_device(cx, name) : NULL;
  if (d != NULL && d->accelerator != NULL) d->accelerator->event_drop(d, (device_event *)e);
}

/* }================================================================== */


void *heed_device_stream (heed_context *cx, const char *name) {
  device *d = core_accelerator(cx, "stream", name);
  return d != NULL ? d->accelerator->stream(d) : NULL;
}
