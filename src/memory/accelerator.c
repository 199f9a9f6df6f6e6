/*
** accelerator.c - what hosts see of accelerators: what devices there are, what their memory holds,
** how long something took; foreign memory and streams.
*/

#include "tensor/core.h"

#include <string.h>


device *core_accelerator (heed_context *cx, const char *function, const char *name) {
  if (cx == NULL || name == NULL) return NULL;
  device *d = core_device(cx, function, name);
  if (d == NULL || d->accelerator != NULL) return d;
  return core_fail(cx, function, "an accelerator expected, got '%s'", d->name);
}


bool core_done (heed_context *cx, const char *function, const char *why) {
  return why == NULL || core_fail(cx, function, "%s", why);
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
  return heed_device_reason(cx, kind) == NULL ? cx->plugin->count() : 0;
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
  if (index < 0 || index >= cx->plugin->count())
    return core_fail(cx, "properties", "there is no '%.40s'; devices count from 0", name);
  if (!core_done(cx, "properties", cx->plugin->properties(index, properties))) return false;
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
  return cx != NULL ? precisions[cx->precision] : NULL;
}


bool heed_set_matmul_precision (heed_context *cx, const char *name) {
  int level = 0;
  if (cx == NULL || name == NULL) return false;
  while (level < 3 && strcmp(precisions[level], name) != 0) level++;
  if (level == 3)
    return core_fail(cx, "matmul_precision", "'highest', 'high' or 'medium' expected, got '%.40s'",
                     name);
  cx->precision = level;
  for (int i = 0; i < cx->ndevices; i++) {
    device *d = cx->device[i];
    if (d->accelerator != NULL) d->accelerator->precision(d, level);
  }
  return true;
}


bool heed_device_block (heed_context *cx, const char *kind, bool yes) {
  if (core_accelerator(cx, "blocking", kind) == NULL) return false;
  for (int i = 0; i < cx->ndevices; i++) {
    device *d = cx->device[i];
    if (d->accelerator != NULL) d->accelerator->block(d, yes);
  }
  return true;
}


static void unpin (void *self, void *data) {
  const plugin *p = self;
  p->unpin(data);
}


heed_tensor *heed_pin (heed_tensor *t, const char *kind) {
  heed_context *cx = heed_context_of(t);
  if (cx == NULL || !core_done(cx, "pin_memory", core_plugin_reason(cx, kind))) return NULL;
  size_t bytes = (size_t)layout_numel(&t->at) * scalar_sizes[t->type];
  void *data = cx->plugin->pin(bytes > 0 ? bytes : 1);
  if (data == NULL) return core_fail(cx, "pin_memory", "no memory for %s", core_bytes(bytes).text);
  heed_tensor *y = NULL;
  if (heed_read(t, t->type, data))
    y = heed_lend(cx, t->type, t->at.rank, t->at.size, data, unpin,
                  (void *)(uintptr_t)cx->plugin);
  if (y == NULL) cx->plugin->unpin(data);
  return y;
}


bool heed_synchronize (heed_context *cx, const char *name) {
  device *d = core_accelerator(cx, "synchronize", name);
  if (d == NULL) return false;
  core_begin(cx, d, CORE_SYNCHRONIZE);
  return core_end(cx, d, CORE_SYNCHRONIZE, d->accelerator->wait(d));
}


bool heed_device_memory_now (heed_context *cx, const char *name, heed_device_memory *now) {
  device *d = core_accelerator(cx, "memory", name);
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
  device *d = core_accelerator(cx, "rng_state", name);
  return d != NULL && core_check_generator(cx, "rng_state") &&
         core_done(cx, "rng_state", d->accelerator->rng_get(d, state));
}


bool heed_device_rng_set (heed_context *cx, const char *name, const uint64_t state[2]) {
  device *d = core_accelerator(cx, "rng_state", name);
  return d != NULL && core_check_generator(cx, "rng_state") &&
         core_done(cx, "rng_state", d->accelerator->rng_set(d, state));
}

/* }================================================================== */


/*
** {==================================================================
** Events
** ===================================================================
*/

/* A capture records heed's stream alone: neither other streams nor events can be waited for. */
static bool check_not_captured (heed_context *cx, const char *function, const device *d) {
  return cx->captured != d || core_fail(cx, function, "not while %s is captured", d->name);
}


heed_event *heed_event_record (heed_context *cx, const char *name) {
  device *d = core_accelerator(cx, "elapsed", name);
  if (d == NULL || !check_not_captured(cx, "elapsed", d)) return NULL;
  device_event *e = d->accelerator->event_record(d);
  if (e == NULL) {
    const char *why = d->gone(d);
    core_fail(cx, "elapsed", "%s", why != NULL ? why : "there is no memory for an event");
  }
  return (heed_event *)e;
}


bool heed_event_elapsed (heed_context *cx, const char *name, heed_event *from, heed_event *to,
                         double *seconds) {
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


/*
** {==================================================================
** Foreign memory and streams
** ===================================================================
*/

/* Memory that was lent, until its last handle goes. */
typedef struct pending_release {
  device *where;
  heed_context *cx;
  void *stream;                    /* its owner's */
  void (*release) (void *self, void *data);
  void *self, *data;
  struct pending_release *next;    /* of those that wait for a capture's end */
} pending_release;


/* The owner's stream waits; if that fails, the host does. A lost device has nothing to wait for. */
static void end_release (pending_release *pending) {
  pending_release p = *pending;
  core_free(p.cx, pending, sizeof p);
  const accelerator *a = p.where->accelerator;
  if (a->before(p.where, p.stream) != NULL) a->wait(p.where);
  if (p.release != NULL) p.release(p.self, p.data);
}


/* A capture would record that wait instead of doing it: then it is put off until its end. */
static void release_foreign (void *self, void *data) {
  pending_release *p = self;
  heed_context *cx = p->cx;
  p->data = data;
  if (cx->captured != p->where) { end_release(p); return; }
  p->next = cx->pending;
  cx->pending = p;
}


void core_end_releases (heed_context *cx) {
  pending_release *p;
  while ((p = cx->pending) != NULL) {
    cx->pending = p->next;
    end_release(p);
  }
}


void *heed_device_stream (heed_context *cx, const char *name) {
  device *d = core_accelerator(cx, "stream", name);
  return d != NULL ? d->accelerator->stream(d) : NULL;
}


heed_tensor *heed_device_lend (heed_context *cx, const char *name, void *stream, heed_type type,
                               int rank, const int64_t *size, void *data,
                               void (*release) (void *self, void *data), void *self) {
  device *d = core_accelerator(cx, "lend", name);
  if (d == NULL || !check_not_captured(cx, "lend", d)) return NULL;
  if (!core_done(cx, "lend", d->accelerator->after(d, stream))) return NULL;
  pending_release *p = core_alloc(cx, sizeof *p);
  if (p == NULL) return NULL;
  *p = (pending_release){d, cx, stream, release, self, NULL, NULL};
  heed_tensor *t = tensor_lend(cx, d, type, rank, size, data, release_foreign, p);
  if (t == NULL) core_free(cx, p, sizeof *p);
  return t;
}


/* The accelerator that t lies on; NULL after a message. */
static device *accelerator_of (heed_tensor *t, const char *function) {
  if (t == NULL || !tensor_materialize(t)) return NULL;
  device *d = tensor_device(t);
  if (d->accelerator == NULL)
    return core_fail(t->cx, function, "a tensor on an accelerator expected, got one on %s",
                     d->name);
  return check_not_captured(t->cx, function, d) ? d : NULL;
}


void *heed_device_data (heed_tensor *t, void *stream) {
  device *d = accelerator_of(t, "device_data");
  if (d == NULL || !core_done(t->cx, "device_data", d->accelerator->before(d, stream)))
    return NULL;
  return view_of(t).data;
}


bool heed_device_after (heed_tensor *t, void *stream) {
  device *d = accelerator_of(t, "device_after");
  return d != NULL && core_done(t->cx, "device_after", d->accelerator->after(d, stream));
}

/* }================================================================== */
