/*
** foreign.c - tensors and memory that others have: pinned, of a mapped file, lent by a device's
** owner, handed to a foreign stream.
*/

#include "memory/mapping.h"
#include "tensor/state.h"
#include "tensor/tensor.h"


/*
** {==================================================================
** Pinned memory of the host
** ===================================================================
*/

static void unpin (void *self, void *data) {
  const plugin *p = self;
  p->unpin(data);
}


heed_tensor *heed_pin (heed_tensor *t, const char *kind) {
  heed_context *cx = heed_context_of(t);
  if (cx == NULL || !core_done(cx, "pin_memory", core_plugin_reason(cx, kind))) return NULL;
  size_t bytes = (size_t)scalar_bytes(t->type, layout_numel(&t->at));
  void *data = cx->devices.plugin->pin(bytes > 0 ? bytes : 1);
  if (data == NULL) return core_fail(cx, "pin_memory", "no memory for %s", core_bytes(bytes).text);
  heed_tensor *y = NULL;
  if (heed_read(t, t->type, data))
    y = heed_lend(cx, t->type, t->at.rank, t->at.size, data, unpin,
                  (void *)(uintptr_t)cx->devices.plugin);
  if (y == NULL) cx->devices.plugin->unpin(data);
  return y;
}

/* }================================================================== */


/*
** {==================================================================
** Mapped files
** ===================================================================
*/

static void unmap (void *self, void *data) {
  (void)data;
  heed_unmap(self);
}


heed_tensor *heed_map_tensor (heed_mapping *m, heed_type type, int rank, const int64_t *size,
                              size_t at) {
  layout of;
  if (m == NULL) return NULL;
  heed_context *cx = mapping_context(m);
  if (!tensor_check(cx, "map", type, rank, size, &of)) return NULL;
  if (type == HEED_BOOL) return core_fail(cx, "map", "a type other than bool expected");
  size_t bytes = (size_t)scalar_bytes(type, layout_numel(&of));
  void *data = mapping_bytes(m, at, bytes);
  if (data == NULL) return NULL;
  heed_tensor *t = tensor_lend(cx, cx->devices.list[0], type, rank, size, data, unmap, m);
  if (t != NULL) mapping_keep(m);
  return t;
}

/* }================================================================== */


/*
** {==================================================================
** Memory of a device, in order with the stream of its owner
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
  if (cx->capture.where != p->where) { end_release(p); return; }
  p->next = cx->tensors->pending;
  cx->tensors->pending = p;
}


void foreign_end_releases (heed_context *cx) {
  pending_release *p;
  while ((p = cx->tensors->pending) != NULL) {
    cx->tensors->pending = p->next;
    end_release(p);
  }
}


heed_tensor *heed_device_lend (heed_context *cx, const char *name, void *stream, heed_type type,
                               int rank, const int64_t *size, void *data,
                               void (*release) (void *self, void *data), void *self) {
  device *d = core_accelerator(cx, "lend", name);
  if (d == NULL || !core_check_uncaptured(cx, "lend", d)) return NULL;
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
  if (t == NULL || !capture_value(t) || !tensor_materialize(t)) return NULL;
  device *d = tensor_device(t);
  if (d->accelerator == NULL)
    return core_fail(t->cx, function, "a tensor on an accelerator expected, got one on %s",
                     d->name);
  return core_check_uncaptured(t->cx, function, d) ? d : NULL;
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
