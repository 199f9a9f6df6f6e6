/*
** cards.c - the door of CUDA for C: which cards there are, what their memory holds, how long
** something took.
*/

#include "core/core.h"

#include <stdio.h>
#include <string.h>


device *core_device_at (heed_context *cx, const char *who, int index) {
  char name[16];
  if (index < 0 || index >= CORE_GPUS)
    return core_fail(cx, "%s: there is no 'cuda:%d'", who, index);
  snprintf(name, sizeof name, "cuda:%d", index);
  return core_device(cx, who, name);
}


bool core_done (heed_context *cx, const char *who, const char *why) {
  return why == NULL || core_fail(cx, "%s: %s", who, why);
}


const char *core_error_op (const device *d, const char *who) {
  return d->op == HEED_NOPS ? who : core_op_name(d->op);
}


static void unpin (void *self, void *data) {
  const device_plugin *door = self;
  door->unpin(data);
}


const char *heed_device_reason (heed_context *cx) {
  return cx != NULL ? core_cuda_reason(cx) : "no context";
}


int heed_device_count (heed_context *cx) {
  return heed_device_reason(cx) == NULL ? cx->cuda->count() : 0;
}


bool heed_device_properties_of (heed_context *cx, int index, heed_device_properties *card) {
  device_properties p;
  if (cx == NULL) return false;
  const char *why = core_cuda_reason(cx);
  if (why != NULL) return core_fail(cx, "properties: %s", why);
  if (index < 0 || index >= cx->cuda->count())
    return core_fail(cx, "properties: there is no 'cuda:%d'; cards count from 0", index);
  if (!core_done(cx, "properties", cx->cuda->properties(index, &p))) return false;
  memcpy(card->name, p.name, sizeof card->name);
  card->memory = p.memory;
  card->major = p.major;
  card->minor = p.minor;
  card->multiprocessors = p.processors;
  return true;
}


static const char *const precisions[] = {"highest", "high", "medium"};


const char *heed_matmul_precision (heed_context *cx) {
  return cx != NULL ? precisions[cx->precision] : NULL;
}


bool heed_set_matmul_precision (heed_context *cx, const char *name) {
  int level = 0;
  if (cx == NULL || name == NULL) return false;
  while (level < 3 && strcmp(precisions[level], name) != 0) level++;
  if (level == 3)
    return core_fail(cx, "matmul_precision: 'highest', 'high' or 'medium' expected, got '%.40s'",
                     name);
  cx->precision = level;
  for (int i = 0; i < CORE_GPUS; i++)
    if (cx->gpu[i] != NULL) cx->cuda->precision(cx->gpu[i], level);
  return true;
}


/* A copy of t in memory of the host's that cards can reach by themselves. */
heed_tensor *heed_pin (heed_tensor *t) {
  heed_context *cx = heed_context_of(t);
  if (cx == NULL) return NULL;
  const char *why = core_cuda_reason(cx);
  if (why != NULL) return core_fail(cx, "pin_memory: %s", why);
  size_t bytes = (size_t)layout_numel(&t->at) * scalar_sizes[t->type];
  void *data = cx->cuda->pin(bytes > 0 ? bytes : 1);
  if (data == NULL) return core_fail(cx, "pin_memory: no memory for %zu bytes", bytes);
  heed_tensor *y = NULL;
  if (heed_read(t, t->type, data))
    y = heed_lend(cx, t->type, t->at.rank, t->at.size, data, unpin, (void *)(uintptr_t)cx->cuda);
  if (y == NULL) cx->cuda->unpin(data);
  return y;
}


bool heed_synchronize (heed_context *cx, int index) {
  if (cx == NULL) return false;
  device *d = core_device_at(cx, "synchronize", index);
  if (d == NULL) return false;
  d->op = HEED_NOPS;
  const char *why = cx->cuda->wait(d);
  return core_done(cx, core_error_op(d, "synchronize"), why);
}


bool heed_device_memory_now (heed_context *cx, int index, heed_device_memory *now) {
  device_memory m;
  device *d = cx != NULL ? core_device_at(cx, "memory", index) : NULL;
  if (d == NULL) return false;
  cx->cuda->memory(d, &m);
  *now = (heed_device_memory){m.live, m.cached, m.peak, m.limit, m.free, m.total};
  return true;
}


bool heed_device_reset_peak (heed_context *cx, int index) {
  device *d = cx != NULL ? core_device_at(cx, "reset_peak", index) : NULL;
  if (d != NULL) cx->cuda->reset_peak(d);
  return d != NULL;
}


bool heed_device_limit (heed_context *cx, int index, size_t bytes) {
  device *d = cx != NULL ? core_device_at(cx, "limit", index) : NULL;
  if (d != NULL) cx->cuda->limit(d, bytes);
  return d != NULL;
}


bool heed_device_trim (heed_context *cx, int index) {
  device *d = cx != NULL ? core_device_at(cx, "empty_cache", index) : NULL;
  if (d != NULL) cx->cuda->trim(d);
  return d != NULL;
}


bool heed_device_block (heed_context *cx, bool yes) {
  if (cx == NULL || core_device(cx, "blocking", "cuda") == NULL) return false;
  for (int i = 0; i < CORE_GPUS; i++)
    if (cx->gpu[i] != NULL) cx->cuda->block(cx->gpu[i], yes);
  return true;
}


/* Its seed, and how many numbers were drawn. */
bool heed_device_rng_get (heed_context *cx, int index, uint64_t state[2]) {
  device *d = cx != NULL ? core_device_at(cx, "rng_state", index) : NULL;
  return d != NULL && core_done(cx, "rng_state", cx->cuda->rng_get(d, state));
}


bool heed_device_rng_set (heed_context *cx, int index, const uint64_t state[2]) {
  device *d = cx != NULL ? core_device_at(cx, "rng_state", index) : NULL;
  return d != NULL && core_done(cx, "rng_state", cx->cuda->rng_set(d, state));
}


/* A capture keeps the work of heed's stream alone: neither others nor events can be waited for. */
static bool may_meet (heed_context *cx, const char *who, const device *d) {
  return cx->captured != d || core_fail(cx, "%s: not while %s is captured", who, d->name);
}


heed_event *heed_event_record (heed_context *cx, int index) {
  device *d = cx != NULL ? core_device_at(cx, "elapsed", index) : NULL;
  if (d == NULL || !may_meet(cx, "elapsed", d)) return NULL;
  device_event *m = cx->cuda->moment(d);
  if (m == NULL) {
    const char *why = d->gone(d);
    core_fail(cx, "elapsed: %s", why != NULL ? why : "there is no memory for an event");
  }
  return (heed_event *)m;
}


bool heed_event_elapsed (heed_context *cx, int index, heed_event *from, heed_event *to,
                        double *seconds) {
  device *d = cx != NULL ? core_device_at(cx, "elapsed", index) : NULL;
  return d != NULL && core_done(cx, "elapsed", cx->cuda->between(d, (device_event *)from,
                                                            (device_event *)to, seconds));
}


void heed_event_drop (heed_context *cx, int index, heed_event *m) {
  if (cx != NULL && m != NULL && (unsigned)index < CORE_GPUS && cx->gpu[index] != NULL)
    cx->cuda->forget(cx->gpu[index], (device_event *)m);
}


/*
** {==================================================================
** Memory of somebody else's, and streams of others
** ===================================================================
*/

/* What is lent to a card, until its last handle goes. */
typedef struct pending_release {
  device *where;
  heed_context *cx;
  void *stream;                    /* of whom it belongs to */
  void (*release) (void *self, void *data);
  void *self, *data;
  struct pending_release *next;               /* of those that wait for a capture to end */
} pending_release;


/* Its stream waits, or the host does if that fails; on a lost card there is nothing to wait for. */
static void end_release (pending_release *given) {
  pending_release l = *given;
  core_free(l.cx, given, sizeof l);
  if (l.cx->cuda->before(l.where, l.stream) != NULL) l.cx->cuda->wait(l.where);
  if (l.release != NULL) l.release(l.self, l.data);
}


/* A capture would keep the waiting, so that it stays undone: then it comes later. */
static void defer_release (void *self, void *data) {
  pending_release *l = self;
  heed_context *cx = l->cx;
  l->data = data;
  if (cx->captured != l->where) { end_release(l); return; }
  l->next = cx->returned;
  cx->returned = l;
}


void core_end_releases (heed_context *cx) {
  pending_release *l;
  while ((l = cx->returned) != NULL) {
    cx->returned = l->next;
    end_release(l);
  }
}


void *heed_device_stream (heed_context *cx, int index) {
  device *d = cx != NULL ? core_device_at(cx, "stream", index) : NULL;
  return d != NULL ? cx->cuda->stream(d) : NULL;
}


heed_tensor *heed_device_lend (heed_context *cx, int index, void *stream, heed_type type, int rank,
                             const int64_t *size, void *data,
                             void (*release) (void *self, void *data), void *self) {
  device *d = cx != NULL ? core_device_at(cx, "lend", index) : NULL;
  if (d == NULL || !may_meet(cx, "lend", d)) return NULL;
  if (!core_done(cx, "lend", cx->cuda->after(d, stream))) return NULL;
  pending_release *l = core_alloc(cx, sizeof *l);
  if (l == NULL) return NULL;
  *l = (pending_release){d, cx, stream, release, self, NULL, NULL};
  heed_tensor *t = tensor_lend(cx, d, type, rank, size, data, defer_release, l);
  if (t == NULL) core_free(cx, l, sizeof *l);
  return t;
}


/* The card that t lies on; NULL after a message. */
static device *accelerator_of (heed_tensor *t, const char *who) {
  if (t == NULL || !tensor_materialize(t)) return NULL;
  device *d = tensor_device(t);
  if (d->host) return core_fail(t->cx, "%s: a tensor of a card expected, got one on cpu", who);
  return may_meet(t->cx, who, d) ? d : NULL;
}


void *heed_device_data (heed_tensor *t, void *stream) {
  device *d = accelerator_of(t, "cuda_data");
  if (d == NULL || !core_done(t->cx, "cuda_data", t->cx->cuda->before(d, stream))) return NULL;
  return view_of(t).data;
}


bool heed_device_after (heed_tensor *t, void *stream) {
  device *d = accelerator_of(t, "cuda_after");
  return d != NULL && core_done(t->cx, "cuda_after", t->cx->cuda->after(d, stream));
}

/* }================================================================== */
