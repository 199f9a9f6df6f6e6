/*
** plugin.cu - the one name that heed/cuda.so shows: its table for the core (memory/plugin.h). Opens
** and closes devices.
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

#ifndef HEED_ARCHITECTURES
#define HEED_ARCHITECTURES "none"  /* the Makefile's: for which there is code */
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
** Opening and closing
** ===================================================================
*/

/* NVIDIA's number of the first driver for this version of CUDA. */
static int driver_for (int version) { return version >= 13000 ? 580 : 525; }


/* How many devices there are; in 'text': why there is none; NULL if there is one. */
static const char *count_devices (int *n, char *text, size_t bytes) {
  int driver = 0, needs = runtime_needs() / 1000 * 1000;       /* minor versions are compatible */
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
  else if (code == RUNTIME_OLD_DRIVER || driver < needs)
    snprintf(text, bytes, "the driver is for CUDA %d.%d, %d.0 is needed (driver %d or later)",
             driver / 1000, driver % 1000 / 10, needs / 1000, driver_for(needs));
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
  int code = runtime_stream_open(&self->stream);
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
  self->device.accelerator = &cuda_accelerator;
  self->device.close = close_device;
  return self;
}


static device *refuse (cuda *self, char *text, size_t bytes, const char *why) {
  snprintf(text, bytes, "%s", why);
  if (self != NULL) destroy(self);
  return NULL;
}


KERNEL is_there (void) {}

/* All kernels are compiled for the same architectures: what holds for this one holds for all. */
static int check_code (const cuda *self, char *text, size_t bytes) {
  const runtime_device *gpu = &self->gpu;
  int code = gpu->major >= LEAST_MAJOR ? runtime_loads(is_there) : RUNTIME_NO_CODE;
  snprintf(text, bytes, "%s", runtime_text(code));
  if (gpu->major < LEAST_MAJOR)
    snprintf(text, bytes, "%s has compute capability %d.%d, 8.0 is needed", gpu->name, gpu->major,
             gpu->minor);
  else if (code == RUNTIME_NO_CODE || code == RUNTIME_NEWER_CODE)
    snprintf(text, bytes, "%s has compute capability %d.%d, but heed/cuda.so was built for %s "
             "('make cuda' builds it for the GPU at hand): %s", gpu->name, gpu->major, gpu->minor,
             HEED_ARCHITECTURES, runtime_text(code));
  return code;
}


static device *open_entered (cuda *self, char *text, size_t bytes) {
  int code = runtime_device_read(self->index, &self->gpu);
  snprintf(text, bytes, "%s", runtime_text(code));
  self->device.memory = self->gpu.memory;
  if (code == 0) code = check_code(self, text, bytes);
  if (code == 0) {
    code = make_parts(self);
    snprintf(text, bytes, "%s", runtime_text(code));
  }
  runtime_last();
  if (code == 0) return &self->device;
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
