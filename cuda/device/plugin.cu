/*
** plugin.cu - the one name that heed/cuda.so shows: its table for the core (memory/plugin.h), and
** what its devices have as accelerators (memory/device.h).
*/

#include "cuda/device/device.h"
#include "cuda/device/memory.h"
#include "cuda/optimize/optimize.h"
#include "cuda/device/release.h"
#include "cuda/device/transfer.h"

#include <stdio.h>
#include <stdlib.h>

#define LEAST_MAJOR 8              /* compute capability 8.0 */

#ifndef HEED_INTERFACE
#define HEED_INTERFACE 0           /* the Makefile's hash */
#endif

#ifdef __CUDACC__
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define CUDA_BUILT TEXT(__CUDACC_VER_MAJOR__) "." TEXT(__CUDACC_VER_MINOR__)
#else
#define CUDA_BUILT "emulated"
#endif


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


/*
** {==================================================================
** Captures: a CUDA graph, the memory that it works in, and what was sent to it
** ===================================================================
*/

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


static const char *begin_capture (device *d) {
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


static device_capture *end_capture (device *d, const char **why) {
  cuda *self = (cuda *)d;
  cuda_context before;
  *why = cuda_enter(self, &before);
  if (*why != NULL) return abandon_capture(self);
  device_capture *c = end_entered(self, why);
  cuda_leave(self, before);
  return c;
}


static const char *replay_capture (device *d, device_capture *c) {
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


static const char *set_capture_step (device *d, device_capture *c, int which,
                                     const heed_step *step) {
  cuda *self = (cuda *)d;
  cuda_context before;
  const char *why = cuda_enter(self, &before);
  if (why != NULL) return why;
  why = steps_set(self, c->steps, which, step);
  cuda_leave(self, before);
  return why;
}


static void drop_capture (device *d, device_capture *c) {
  cuda *self = (cuda *)d;
  cuda_context before;
  if (c == NULL || cuda_enter(self, &before) != NULL) return;
  runtime_stream_wait(self->stream);
  drop_parts(self, c);
  cuda_leave(self, before);
}

/* }================================================================== */


static const accelerator functions = {
  wait_for_work, read_memory, reset_peak, limit_memory, trim_memory, set_blocking, set_precision,
  describe_products, set_seed, get_rng, set_rng,
  copy_from_device, copy_pinned, copy_pinned,
  record_event, elapsed_between, drop_event,
  stream_of, wait_for_stream, make_stream_wait,
  begin_capture, end_capture, replay_capture, drop_capture, set_capture_step
};


/*
** {==================================================================
** Opening and closing
** ===================================================================
*/

/* How many devices there are; in 'text': why there is none; NULL if there is one. */
static const char *count_devices (int *n, char *text, size_t bytes) {
  int driver = 0, needs = runtime_needs();
  *n = 0;
  if (cuda_is_forked()) { snprintf(text, bytes, "%s", cuda_forked); return text; }
  int code = runtime_version(&driver);
  if (code == 0 && driver > 0) code = runtime_count(n);
  runtime_last();
  if (code == 0 && *n > 0) {
    cuda_watch_forks();            /* the driver is initialised, and does not survive them */
    return NULL;
  }
  if (driver == 0) snprintf(text, bytes, "no driver");
  else if (code == RUNTIME_OLD_DRIVER || driver < needs / 1000 * 1000)
    snprintf(text, bytes, "the driver is for CUDA %d.%d, %d.%d is needed (driver 580 or later)",
             driver / 1000, driver % 1000 / 10, needs / 1000, needs % 1000 / 10);
  else if (code == 0 || code == RUNTIME_NO_DEVICE) snprintf(text, bytes, "no device");
  else snprintf(text, bytes, "%s", runtime_text(code));
  return text;
}


static int make_pinned (cuda *self) {
  int code = runtime_alloc_host((void **)&self->note, sizeof *self->note);
  if (code == 0) memset(self->note, 0, sizeof *self->note);
  return code;
}


/* The record of faults and the generator, in device memory. */
static int make_state (cuda *self) {
  size_t bytes = 256;
  static_assert(sizeof(fault_record) <= 256, "it has room");
  char *state = (char *)memory_take(self->memory, 2 * bytes);
  int code = memory_code(self->memory);
  if (state == NULL) return code != 0 ? code : RUNTIME_NO_MEMORY;
  self->record = (fault_record *)state;
  self->generator_state = (generator_state *)(state + bytes);
  code = cuda_clear_faults(self);
  return code != 0 ? code : runtime_fill(state + bytes, 0, bytes, self->stream);
}


static int make_parts (cuda *self) {
  int code = runtime_device_read(self->index, &self->gpu);
  if (code == 0) code = runtime_stream_open(&self->stream);
  if (code == 0) code = make_pinned(self);
  if (code == 0) self->memory = memory_open(self->stream);
  if (code == 0 && self->memory == NULL) code = RUNTIME_NO_MEMORY;
  return code != 0 ? code : make_state(self);
}


/* Also of one that could not be opened; a child of fork leaves what is on the GPU alone. */
static void destroy (cuda *self) {
  if (!cuda_is_forked()) {
    if (self->stream != NULL) runtime_stream_wait(self->stream);
    if (cuda_products_close != NULL && self->products != NULL) cuda_products_close(self);
    transfer_close(self->staging);
    release_pinned(self->note);
    if (self->memory != NULL) memory_close(self->memory);
    if (self->stream != NULL) runtime_stream_close(self->stream);
    runtime_last();
  }
  free(self);
}


static void close_device (device *d) {
  cuda *self = (cuda *)d;
  cuda_context own = self->context, before;
  bool entered = !cuda_is_forked() && runtime_enter(own, &before) == 0;      /* a lost one, too */
  destroy(self);
  if (entered) runtime_leave(own, before);
}


static cuda *new_device (int index) {
  cuda *self = (cuda *)calloc(1, sizeof *self);
  if (self == NULL) return NULL;
  self->index = index;
  snprintf(self->name, sizeof self->name, "cuda:%d", index);
  cuda_prepare(self);
  self->device.accelerator = &functions;
  self->device.close = close_device;
  return self;
}


static device *refuse (cuda *self, char *text, size_t bytes, const char *why) {
  snprintf(text, bytes, "%s", why);
  if (self != NULL) destroy(self);
  return NULL;
}


static device *open_entered (cuda *self, char *text, size_t bytes) {
  int code = make_parts(self);
  runtime_last();
  if (code != 0) return refuse(self, text, bytes, runtime_text(code));
  if (self->gpu.major >= LEAST_MAJOR) return &self->device;
  snprintf(text, bytes, "%s has compute capability %d.%d, 8.0 is needed", self->gpu.name,
           self->gpu.major, self->gpu.minor);
  destroy(self);
  return NULL;
}

/* }================================================================== */


/*
** {==================================================================
** The table
** ===================================================================
*/

static const char *plugin_reason (char *text, size_t bytes) {
  int n;
  return count_devices(&n, text, bytes);
}


static int plugin_count (void) {
  int n = 0;
  if (cuda_is_forked() || runtime_count(&n) != 0) n = 0;
  runtime_last();
  return n;
}


static const char *plugin_properties (int index, heed_device_properties *p) {
  runtime_device gpu;
  int code = cuda_is_forked() ? RUNTIME_NO_DEVICE : runtime_device_read(index, &gpu);
  runtime_last();
  if (code != 0) return runtime_text(code);
  static_assert(sizeof p->name == sizeof gpu.name, "names are as long");
  memcpy(p->name, gpu.name, sizeof p->name);
  p->memory = gpu.memory;
  p->major = gpu.major;
  p->minor = gpu.minor;
  p->multiprocessors = gpu.multiprocessors;
  p->matmul[0] = '\0';
  if (cuda_products_found != NULL) cuda_products_found(p->matmul, sizeof p->matmul);
  return NULL;
}


/* The context of the first device that was opened: pinned memory needs one context, whichever
   device reaches the memory. */
static cuda_context home;


static device *plugin_open (int index, char *text, size_t bytes) {
  cuda_context own, before;
  int n;
  if (count_devices(&n, text, bytes) != NULL) return NULL;
  if (index < 0 || index >= n) {
    snprintf(text, bytes, "there are GPUs 0 to %d", n - 1);
    return NULL;
  }
  cuda *self = new_device(index);
  if (self == NULL) return refuse(self, text, bytes, "not enough memory");
  int code = runtime_context(index, &own);
  if (code == 0) code = runtime_enter(own, &before);
  if (code != 0) return refuse(self, text, bytes, runtime_text(code));
  self->context = own;
  device *d = open_entered(self, text, bytes);
  if (d != NULL && __atomic_load_n(&home, __ATOMIC_RELAXED) == NULL)
    __atomic_store_n(&home, own, __ATOMIC_RELAXED);
  runtime_leave(own, before);
  return d;
}


/* The first device's where none was opened. */
static bool enter_home (cuda_context *own, cuda_context *before) {
  *own = __atomic_load_n(&home, __ATOMIC_RELAXED);
  if (cuda_is_forked() || (*own == NULL && runtime_context(0, own) != 0)) return false;
  return runtime_enter(*own, before) == 0;
}


static void *plugin_pin (size_t bytes) {
  void *data = NULL;
  cuda_context own, before;
  if (!enter_home(&own, &before)) return NULL;
  if (runtime_alloc_host(&data, bytes) != 0) data = NULL;
  runtime_last();
  runtime_leave(own, before);
  return data;
}


static void plugin_unpin (void *data) {
  cuda_context own, before;
  if (!enter_home(&own, &before)) return;
  release_pinned(data);
  runtime_leave(own, before);
}

/* }================================================================== */


extern "C" __attribute__((visibility("default"))) const plugin heed_plugin;

const plugin heed_plugin = {
  PLUGIN_VERSION, HEED_NOPS, HEED_INTERFACE, sizeof(work), sizeof(device), "cuda", CUDA_BUILT,
  plugin_reason, plugin_count, plugin_properties, plugin_open, plugin_pin, plugin_unpin
};
