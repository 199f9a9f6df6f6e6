/*
** accelerator.h - two accelerators, "cuda:0" and "cuda:1", of a plugin that is part of the program:
** the host cannot touch their memory, their work is done by the CPU, at once, and they note what
** they are asked for. A test can say what fails.
*/

#ifndef accelerator_h
#define accelerator_h

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "failing.h"
#include "refusals.h"
#include "memory/context.h"
#include "tensor/tensor.h"

#define MIB ((size_t)1 << 20)

#define MEMORY (64 * MIB)          /* of a device: what was given back is not taken again */

enum { GPUS = 2, WORKS = 64 };

typedef struct gpu {
  device device;                   /* first */
  device *cpu;
  char *data;
  size_t taken;
  heed_device_memory memory;
  uint64_t seed, offset;
  bool blocks, open;
  int level;                       /* of precision */
  int waits, trims, peaks, captures, events;         /* how often it was asked for them */
  void *after, *before;            /* the last stream that it waited for, or that waits for it */
  bool lacks;                      /* memory */
  int lacks_kind;                  /* of work, or -1 */
  const char *fails;               /* why all that can fail does */
  const char *gone;                /* why it is lost */
  int late;                        /* whose work a failure was about; 0: that which runs */
  bool records;                    /* a capture runs */
  work work[WORKS];
  int works, step;
} gpu;

static gpu gpus[GPUS];
static device *cpu_of_spec;
static const char *no_gpus;        /* why there are none */
static int pinned, pins_left = -1; /* blocks that there are; that may yet be had, < 0: any number */


static const char *fails (device *d) {
  gpu *g = (gpu *)d;
  if (g->fails != NULL && g->late != 0) d->op = g->late;
  return g->fails;
}

/* A device's memory can be read and written while the device works, and not otherwise. */
static void reach (gpu *g, bool yes) {
  if (mprotect(g->data, MEMORY, yes ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) abort();
}

static void *gpu_alloc (device *d, size_t bytes) {
  gpu *g = (gpu *)d;
  if (g->lacks || g->gone != NULL || bytes > MEMORY - 64 - g->taken) return NULL;
  g->memory.live += bytes;
  g->taken += (bytes + 63) / 64 * 64;
  return g->data + g->taken - (bytes + 63) / 64 * 64;
}

static void gpu_free (device *d, void *data, size_t bytes) {
  (void)data;
  ((gpu *)d)->memory.live -= bytes;
}

static const char *gpu_move (device *d, void *to, const void *from, size_t bytes) {
  if (fails(d) != NULL) return fails(d);
  reach((gpu *)d, true);
  memcpy(to, from, bytes);
  reach((gpu *)d, false);
  return NULL;
}

static const char *work_on (gpu *g, const work *w) {
  reach(g, true);
  const char *why = g->cpu->run(g->cpu, w);
  reach(g, false);
  return why;
}

static const char *gpu_run (device *d, const work *w) {
  gpu *g = (gpu *)d;
  if (fails(d) != NULL) return fails(d);
  if (!g->records) return work_on(g, w);
  if (g->works < WORKS) g->work[g->works++] = *w;
  return NULL;
}

static bool gpu_supports (const device *d, work_kind kind, int op) {
  const gpu *g = (const gpu *)d;
  return (int)kind != g->lacks_kind && g->cpu->supports(g->cpu, kind, op);
}

static const char *gpu_gone (device *d) { return ((gpu *)d)->gone; }

static void gpu_close (device *d) {
  gpu *g = (gpu *)d;
  munmap(g->data, MEMORY);
  g->open = false;
}


static const char *gpu_wait (device *d) { ((gpu *)d)->waits++; return fails(d); }
static void gpu_memory (device *d, heed_device_memory *m) { *m = ((gpu *)d)->memory; }
static void gpu_reset_peak (device *d) { ((gpu *)d)->peaks++; }
static void gpu_limit (device *d, size_t bytes) { ((gpu *)d)->memory.limit = bytes; }
static void gpu_trim (device *d) { ((gpu *)d)->trims++; }
static void gpu_block (device *d, bool yes) { ((gpu *)d)->blocks = yes; }
static void gpu_precision (device *d, int level) { ((gpu *)d)->level = level; }
static void gpu_seed (device *d, uint64_t seed) {
  ((gpu *)d)->seed = seed;
  ((gpu *)d)->offset = 0;
}

static void gpu_products (device *d, char *text, size_t bytes) {
  snprintf(text, bytes, "products of %s", d->name);
}

static const char *gpu_rng_get (device *d, uint64_t state[2]) {
  state[0] = ((gpu *)d)->seed;
  state[1] = ((gpu *)d)->offset;
  return fails(d);
}

static const char *gpu_rng_set (device *d, const uint64_t state[2]) {
  ((gpu *)d)->seed = state[0];
  ((gpu *)d)->offset = state[1];
  return fails(d);
}

/* An event is the device, which has one time. A failure is one of the device itself. */
static device_event *gpu_event (device *d) {
  gpu *g = (gpu *)d;
  if (g->fails != NULL) g->gone = g->fails;
  if (g->lacks || g->gone != NULL) return NULL;
  g->events++;
  return (device_event *)d;
}

static const char *gpu_elapsed (device *d, device_event *from, device_event *to, double *seconds) {
  *seconds = from == to ? 0.5 : -1;
  return fails(d);
}

static void gpu_event_drop (device *d, device_event *e) {
  ((gpu *)d)->events -= e == (device_event *)d;
}

static void *gpu_stream (device *d) { return &((gpu *)d)->works; }
static const char *gpu_after (device *d, void *s) { ((gpu *)d)->after = s; return fails(d); }
static const char *gpu_before (device *d, void *s) { ((gpu *)d)->before = s; return fails(d); }


static const char *gpu_capture_begin (device *d) {
  gpu *g = (gpu *)d;
  if (g->fails != NULL) return g->fails;
  g->records = true;
  g->works = 0;
  return NULL;
}

static device_capture *gpu_capture_end (device *d, const char **why) {
  gpu *g = (gpu *)d;
  g->records = false;
  *why = fails(d);
  if (*why != NULL) return NULL;
  g->captures++;
  return (device_capture *)d;
}

static const char *gpu_replay (device *d, device_capture *c) {
  gpu *g = (gpu *)d;
  const char *why = c == (device_capture *)d ? fails(d) : "another capture";
  for (int i = 0; why == NULL && i < g->works; i++) why = work_on(g, &g->work[i]);
  return why;
}

static void gpu_capture_drop (device *d, device_capture *c) {
  ((gpu *)d)->captures -= c == (device_capture *)d;
}

static const char *gpu_set_step (device *d, device_capture *c, int which, const heed_step *step) {
  ((gpu *)d)->step = c == (device_capture *)d ? 100 * which + (int)step->step : -1;
  return fails(d);
}


static const accelerator functions = {
  .wait = gpu_wait, .memory = gpu_memory, .reset_peak = gpu_reset_peak, .limit = gpu_limit,
  .trim = gpu_trim, .block = gpu_block, .precision = gpu_precision, .products = gpu_products,
  .seed = gpu_seed, .rng_get = gpu_rng_get, .rng_set = gpu_rng_set,
  .event_record = gpu_event, .event_elapsed = gpu_elapsed,
  .event_drop = gpu_event_drop, .stream = gpu_stream, .after = gpu_after, .before = gpu_before,
  .capture_begin = gpu_capture_begin, .capture_end = gpu_capture_end,
  .capture_replay = gpu_replay, .capture_drop = gpu_capture_drop, .capture_set_step = gpu_set_step
};


static const char *gpu_reason (char *text, size_t bytes) {
  (void)text; (void)bytes;
  return no_gpus;
}

static int gpu_count (void) { return GPUS; }

static const char *gpu_properties (int index, heed_device_properties *p) {
  *p = (heed_device_properties){.multiprocessors = index + 10};
  return gpus[index].fails;
}

static device *gpu_open (int index, char *text, size_t bytes) {
  static const char *const names[GPUS] = {"cuda:0", "cuda:1"};
  if (index >= GPUS) {
    snprintf(text, bytes, "there are %d", GPUS);
    return NULL;
  }
  gpus[index] = (gpu){
    .cpu = cpu_of_spec, .open = true, .level = -1, .lacks_kind = -1, .memory.total = MEMORY,
    .data = mmap(NULL, MEMORY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
    .device = {.name = names[index], .memory = MEMORY, .accelerator = &functions,
               .close = gpu_close, .alloc = gpu_alloc, .free = gpu_free, .upload = gpu_move,
               .download = gpu_move, .run = gpu_run, .supports = gpu_supports, .gone = gpu_gone}
  };
  if (gpus[index].data == MAP_FAILED) abort();
  return &gpus[index].device;
}

static void *gpu_pin (size_t bytes) {
  if (pins_left-- == 0) return NULL;
  pinned++;
  return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void gpu_unpin (void *data) {
  pinned--;
  free(data);
}

static const plugin plugin_of_spec = {
  .version = PLUGIN_VERSION, .rows = HEED_NOPS, .work_size = sizeof(work),
  .device_size = sizeof(device), .kind = "cuda", .built = "spec", .reason = gpu_reason,
  .count = gpu_count, .properties = gpu_properties, .open = gpu_open, .pin = gpu_pin,
  .unpin = gpu_unpin
};


/* A context that finds the plugin; its devices are opened where they are first named. */
static heed_context *open_with_gpus (const heed_host *host) {
  heed_context *cx = heed_open(host);
  cx->devices.plugin = &plugin_of_spec;
  cpu_of_spec = cx->devices.list[0];
  no_gpus = NULL;
  pins_left = -1;
  return cx;
}


enum { N = 4 };

static const int64_t size_n[] = {N};

static const float numbers[N] = {1, 2, 3, 4};

/* On the device that is chosen. */
static heed_tensor *vector_on (heed_context *cx, const char *name) {
  const char *before = heed_device(cx);
  check(heed_set_device(cx, name), name);
  heed_tensor *x = vector(cx);
  check(heed_set_device(cx, before), "the device as it was");
  return x;
}

static heed_tensor *scalar_on (heed_context *cx, const char *name, float value) {
  const char *before = heed_device(cx);
  heed_set_device(cx, name);
  heed_tensor *x = heed_from(cx, HEED_FLOAT32, 0, NULL, &value);
  heed_set_device(cx, before);
  return x;
}

static bool is (heed_tensor *t, float by, float more) {
  float got[N] = {0};
  if (heed_numel(t) != N || !heed_read(t, HEED_FLOAT32, got)) return false;
  for (int i = 0; i < N; i++)
    if (got[i] != numbers[i] * by + more) return false;
  return true;
}

static bool lies_on (const heed_tensor *t, const char *name) {
  return t != NULL && strcmp(heed_device_of(t), name) == 0;
}

static heed_tensor *call (heed_context *cx, heed_op op, heed_tensor *a, heed_tensor *b) {
  return heed_call(cx, op, (heed_value[]){heed_t(a), heed_t(b)}, 2);
}

static heed_tensor *times (heed_context *cx, heed_tensor *a, double number) {
  return heed_call(cx, HEED_mul, (heed_value[]){heed_t(a), heed_f(number)}, 2);
}


/* A test in a context that has both devices open, and the CPU chosen. */
static void with (void (*test) (heed_context *cx)) {
  failing host = {.countdown = -1};
  heed_context *cx = open_with_gpus(&(heed_host){.resize = failing_resize, .self = &host});
  check(heed_set_device(cx, "cuda:1") && heed_set_device(cx, "cuda:0") &&
        heed_set_device(cx, "cpu"), "two devices");
  test(cx);
  heed_close(cx);
  check(pinned == 0 && gpus[0].memory.live == 0 && gpus[1].memory.live == 0 &&
        host.alive == 0 && host.bytes == 0, "what is left");
}

#endif
