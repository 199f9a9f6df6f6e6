/*
** accelerator.cu - what a device has as an accelerator (memory/device.h): waiting, memory,
** settings, copies, events and foreign streams.
*/

#include "cuda/device/capture.h"
#include "cuda/device/device.h"
#include "cuda/device/memory.h"
#include "cuda/device/transfer.h"

#include <stdlib.h>


/*
** {==================================================================
** Waiting, memory, settings
** ===================================================================
*/

static const char *wait_for_work (device *d) {
  cuda *self = (cuda *)d;
  cuda_context before;
  const char *why = cuda_enter(self, &before);
  if (why != NULL) return why;
  why = cuda_wait(self);
  cuda_leave(self, before);
  return why;
}


static void read_memory (device *d, heed_device_memory *m) {
  cuda *self = (cuda *)d;
  cuda_context before;
  memset(m, 0, sizeof *m);
  memory_account_of(self->memory, m);
  if (cuda_enter(self, &before) != NULL) return;
  runtime_memory(&m->free, &m->total);
  cuda_leave(self, before);
}


static void reset_peak (device *d) { memory_reset_peak(((cuda *)d)->memory); }


static void limit_memory (device *d, size_t bytes) {
  cuda *self = (cuda *)d;
  cuda_context before;
  if (cuda_enter(self, &before) != NULL) return;
  memory_limit(self->memory, bytes);
  cuda_leave(self, before);
}


static void trim_memory (device *d) {
  cuda *self = (cuda *)d;
  cuda_context before;
  if (cuda_enter(self, &before) != NULL) return;
  memory_trim(self->memory);
  cuda_leave(self, before);
}


static void set_blocking (device *d, bool yes) { ((cuda *)d)->blocking = yes; }

static void set_precision (device *d, int level) { ((cuda *)d)->precision = level; }


static void describe_products (device *d, char *text, size_t bytes) {
  if (cuda_products_describe != NULL) cuda_products_describe((cuda *)d, text, bytes);
}


static const char *set_rng (device *d, const uint64_t state[2]) {
  cuda *self = (cuda *)d;
  generator_state given = {state[0], state[1], 0};
  return d->upload(d, self->generator_state, &given, sizeof given);
}


static void set_seed (device *d, uint64_t seed) {
  uint64_t state[2] = {seed, 0};
  set_rng(d, state);
}


static const char *get_rng (device *d, uint64_t state[2]) {
  cuda *self = (cuda *)d;
  generator_state now = {0, 0, 0};
  const char *why = d->download(d, &now, self->generator_state, sizeof now);
  state[0] = now.seed;
  state[1] = now.offset;
  return why;
}

/* }================================================================== */


/*
** {==================================================================
** Copies that do not wait: of pinned memory, and between devices
** ===================================================================
*/

static const char *copy_pinned (device *d, void *to, const void *from, size_t bytes) {
  cuda *self = (cuda *)d;
  cuda_context before;
  const char *why = cuda_enter(self, &before);
  if (why != NULL) return why;
  why = cuda_check(self, runtime_copy(to, from, bytes, self->stream));
  cuda_leave(self, before);
  return why;
}


static int follow_entered (cuda_stream first, cuda_stream later) {
  cuda_event e;
  int code = runtime_event_open(&e, false);
  if (code != 0) return code;
  code = runtime_event_put(e, first);
  if (code == 0) code = runtime_stream_after(later, e);
  runtime_event_close(e);
  return code;
}

/* 'later' waits for what 'first', a stream of this device, was given up to now. */
static int follow (const cuda *self, cuda_stream first, cuda_stream later) {
  cuda_context before;
  int code = runtime_enter(self->context, &before);      /* an event is on its stream's device */
  if (code != 0) return code;
  code = follow_entered(first, later);
  runtime_leave(self->context, before);
  return code;
}


/* In the source's stream, after what both did before and ahead of what both do later. */
static const char *copy_between (cuda *to, void *data, cuda *from, const void *from_data,
                                 size_t bytes) {
  int code = follow(to, to->stream, from->stream);
  if (code == 0)
    code = runtime_copy_between(data, to->index, from_data, from->index, bytes, from->stream);
  if (code == 0) code = follow(from, from->stream, to->stream);
  return cuda_check(from, code);
}


static const char *copy_from_device (device *to, void *data, device *from, const void *from_data,
                                     size_t bytes) {
  cuda *source = (cuda *)from;
  cuda_context before;
  const char *why = cuda_enter(source, &before);
  if (why != NULL) return why;
  why = copy_between((cuda *)to, data, source, from_data, bytes);
  cuda_leave(source, before);
  return why;
}

/* }================================================================== */


/*
** {==================================================================
** Events, and foreign streams
** ===================================================================
*/

static device_event *record_event (device *d) {
  cuda *self = (cuda *)d;
  cuda_event e = NULL;
  cuda_context before;
  if (cuda_enter(self, &before) != NULL) return NULL;
  int code = runtime_event_open(&e, true);
  if (code == 0) code = runtime_event_put(e, self->stream);
  cuda_check(self, code);
  cuda_leave(self, before);
  return (device_event *)e;
}


static const char *elapsed_between (device *d, device_event *from, device_event *to,
                                    double *seconds) {
  cuda *self = (cuda *)d;
  cuda_context before;
  const char *why = cuda_enter(self, &before);
  if (why != NULL) return why;
  int code = runtime_event_wait((cuda_event)to);
  if (code == 0) code = runtime_event_between(seconds, (cuda_event)from, (cuda_event)to);
  why = cuda_check(self, code);
  cuda_leave(self, before);
  return why;
}


static void drop_event (device *d, device_event *e) {
  cuda *self = (cuda *)d;
  cuda_context before;
  if (e == NULL || cuda_enter(self, &before) != NULL) return;
  runtime_event_close((cuda_event)e);
  cuda_leave(self, before);
}


static const char *order_streams (cuda *self, cuda_stream first, cuda_stream later) {
  cuda_context before;
  const char *why = cuda_enter(self, &before);
  if (why != NULL) return why;
  why = cuda_check(self, follow(self, first, later));
  cuda_leave(self, before);
  return why;
}


static void *stream_of (device *d) { return ((cuda *)d)->stream; }


static const char *wait_for_stream (device *d, void *stream) {
  cuda *self = (cuda *)d;
  return order_streams(self, (cuda_stream)stream, self->stream);
}


static const char *make_stream_wait (device *d, void *stream) {
  cuda *self = (cuda *)d;
  return order_streams(self, self->stream, (cuda_stream)stream);
}

/* }================================================================== */


const accelerator cuda_accelerator = {
  wait_for_work, read_memory, reset_peak, limit_memory, trim_memory, set_blocking, set_precision,
  describe_products, set_seed, get_rng, set_rng,
  copy_from_device, copy_pinned, copy_pinned,
  record_event, elapsed_between, drop_event,
  stream_of, wait_for_stream, make_stream_wait,
  capture_begin, capture_end, capture_replay, capture_drop, capture_set_step
};
