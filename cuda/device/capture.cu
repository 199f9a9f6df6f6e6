/*
** capture.cu - captures of a device: a CUDA graph, the memory that it works in, and what was sent
** to it.
*/

#include "cuda/device/capture.h"
#include "cuda/device/device.h"
#include "cuda/device/memory.h"
#include "cuda/device/release.h"
#include "cuda/device/transfer.h"
#include "cuda/optimize/optimize.h"

#include <stdlib.h>


struct device_capture {
  cuda_graph graph;
  struct arena *arena;
  struct held *held;
  struct steps *steps;             /* of optimisers */
};


/* The cache goes back to the device first: a capture can neither use it nor free it. */
static const char *start_capture (cuda *self) {
  const char *why = cuda_wait(self);
  if (why != NULL) return why;
  memory_trim(self->memory);
  if (!memory_begin_arena(self->memory)) return "not enough memory";
  release_hold();
  why = cuda_check(self, runtime_capture(self->stream));
  self->capturing = why == NULL;
  if (why == NULL) return NULL;
  release_resume();
  memory_drop_arena(self->memory, memory_end_arena(self->memory));
  return why;
}


const char *capture_begin (device *d) {
  cuda *self = (cuda *)d;
  cuda_context before;
  const char *why = cuda_enter(self, &before);
  if (why != NULL) return why;
  why = start_capture(self);
  cuda_leave(self, before);
  return why;
}


static void drop_parts (cuda *self, device_capture *c) {
  if (c->graph != NULL) runtime_graph_close(c->graph);
  if (c->arena != NULL) memory_drop_arena(self->memory, c->arena);
  transfer_drop(c->held);
  steps_drop(c->steps);
  free(c);
}


static device_capture *end_entered (cuda *self, const char **why) {
  device_capture parts = {NULL, NULL, NULL, NULL};
  const char *unsealed = cuda_seal_faults(self);
  int code = runtime_capture_end(self->stream, &parts.graph);
  self->capturing = false;
  release_resume();
  parts.arena = memory_end_arena(self->memory);
  parts.held = transfer_held(self);
  parts.steps = steps_held(self);
  device_capture *c = (device_capture *)calloc(1, sizeof *c);
  *why = c == NULL ? "not enough memory" : cuda_check(self, code);
  if (*why == NULL) *why = unsealed;
  if (c == NULL) memory_drop_arena(self->memory, parts.arena);   /* little else can be done */
  else *c = parts;
  if (*why == NULL) return c;
  if (c != NULL) drop_parts(self, c);
  return NULL;
}


/* Of a device that was lost meanwhile. */
static device_capture *abandon_capture (cuda *self) {
  cuda_context before;
  if (cuda_is_forked() || runtime_enter(self->context, &before) != 0) return NULL;
  self->capturing = false;
  release_resume();
  runtime_leave(self->context, before);
  return NULL;
}


device_capture *capture_end (device *d, const char **why) {
  cuda *self = (cuda *)d;
  cuda_context before;
  *why = cuda_enter(self, &before);
  if (*why != NULL) return abandon_capture(self);
  device_capture *c = end_entered(self, why);
  cuda_leave(self, before);
  return c;
}


const char *capture_replay (device *d, device_capture *c) {
  cuda *self = (cuda *)d;
  cuda_context before;
  const char *why = cuda_enter(self, &before);
  if (why != NULL) return why;
  why = cuda_asynchronous_error(self);
  if (why == NULL) why = cuda_check(self, runtime_graph_run(c->graph, self->stream));
  if (why == NULL) why = cuda_block(self);
  cuda_leave(self, before);
  return why;
}


const char *capture_set_step (device *d, device_capture *c, int which, const heed_step *step) {
  cuda *self = (cuda *)d;
  cuda_context before;
  const char *why = cuda_enter(self, &before);
  if (why != NULL) return why;
  why = steps_set(self, c->steps, which, step);
  cuda_leave(self, before);
  return why;
}


void capture_drop (device *d, device_capture *c) {
  cuda *self = (cuda *)d;
  cuda_context before;
  if (c == NULL || cuda_enter(self, &before) != NULL) return;
  runtime_stream_wait(self->stream);
  drop_parts(self, c);
  cuda_leave(self, before);
}
