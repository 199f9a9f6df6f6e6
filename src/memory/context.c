/*
** context.c - a context: its settings, its first failure, its small blocks.
*/

#include "tensor/core.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* HEED_CACHE=0 lets a sanitizer see every use of freed memory. */
#ifndef HEED_CACHE
#define HEED_CACHE 1
#endif

#define SMALL_STEP 64
#define SMALL_CACHE (HEED_CACHE * ((size_t)16 << 20))    /* most bytes of small blocks cached */
#define MOST_THREADS 256


/*
** {==================================================================
** Failures
** ===================================================================
*/

static void keep_failure (heed_context *cx, const char *function, const char *argument,
                          const char *text) {
  failure *f = &cx->failure;
  if (f->set) return;
  f->set = true;
  f->verbatim = false;
  snprintf(f->function, sizeof f->function, "%s", function != NULL ? function : "");
  snprintf(f->argument, sizeof f->argument, "%s", argument != NULL ? argument : "");
  snprintf(f->text, sizeof f->text, "%s", text);
}


/* Names the caller, where there is one, instead of the function. */
static void fail (heed_context *cx, const char *function, const char *argument,
                  const char *format, va_list args) {
  char text[sizeof cx->failure.text];
  vsnprintf(text, sizeof text, format, args);
  keep_failure(cx, cx->caller != NULL ? cx->caller : function, argument, text);
}


void *core_fail (heed_context *cx, const char *function, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fail(cx, function, NULL, format, args);
  va_end(args);
  return NULL;
}


void *core_fail_at (heed_context *cx, const char *function, const char *argument,
                    const char *format, ...) {
  va_list args;
  va_start(args, format);
  fail(cx, function, argument, format, args);
  va_end(args);
  return NULL;
}


void *core_fail_async (heed_context *cx, const char *function, const char *text) {
  keep_failure(cx, function, NULL, text);
  return NULL;
}


void heed_fail (heed_context *cx, const char *format, ...) {
  va_list args;
  if (cx == NULL || cx->failure.set) return;
  cx->failure.set = cx->failure.verbatim = true;
  va_start(args, format);
  vsnprintf(cx->message, sizeof cx->message, format, args);
  va_end(args);
}


/* C libraries differ in the sign that they give to a NaN: it has none here. */
static void compose_message (heed_context *cx) {
  const failure *f = &cx->failure;
  bool at = f->argument[0] != '\0';
  snprintf(cx->message, sizeof cx->message, "%s%s%s%s%s%s", f->function,
           f->function[0] != '\0' ? ": " : "", at ? "argument '" : "", f->argument,
           at ? "': " : "", f->text);
  char *nan = strstr(cx->message, " -nan");
  if (nan != NULL) memmove(nan + 1, nan + 2, strlen(nan + 2) + 1);
}


/* Without floats, which the host's locale may write with a comma. */
bytes_text core_bytes (size_t n) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  bytes_text y;
  int unit = 0;
  if (n < 1024) {
    snprintf(y.text, sizeof y.text, "%zu bytes", n);
    return y;
  }
  for (; n >= (size_t)1024 * 1024; n /= 1024) unit++;
  snprintf(y.text, sizeof y.text, "%zu.%zu %s", n / 1024, n % 1024 * 10 / 1024, units[unit]);
  return y;
}


const char *heed_error (heed_context *cx) {
  if (cx == NULL) return "no context: not enough memory, or no such level";
  if (!cx->failure.set) return NULL;
  if (!cx->failure.verbatim) compose_message(cx);
  return cx->message;
}


void heed_clear (heed_context *cx) {
  if (cx != NULL) cx->failure.set = false;
}


const char *heed_set_caller (heed_context *cx, const char *function) {
  if (cx == NULL) return NULL;
  const char *before = cx->caller;
  cx->caller = function;
  return before;
}

/* }================================================================== */


/*
** {==================================================================
** Small blocks: headers and nodes come and go with every operation, so they are cached
** ===================================================================
*/

static void *take (const heed_host *host, size_t bytes) {
  return host->resize != NULL ? host->resize(host->self, NULL, 0, bytes) : malloc(bytes);
}


static void give (const heed_host *host, void *block, size_t bytes) {
  if (host->resize != NULL) host->resize(host->self, block, bytes, 0);
  else free(block);
}


static size_t small_class (size_t bytes) { return bytes == 0 ? 0 : (bytes - 1) / SMALL_STEP; }


/* What is allocated, so that blocks of one class are alike. */
static size_t rounded (size_t bytes) {
  size_t class = small_class(bytes);
  return class < SMALL_CLASSES ? (class + 1) * SMALL_STEP : bytes;
}


static void *take_anew (heed_context *cx, size_t bytes) {
  void *block = take(&cx->host, rounded(bytes));
  if (block == NULL) {
    heed_memory_trim(cx);
    block = take(&cx->host, rounded(bytes));
  }
  return block != NULL ? block : core_fail(cx, NULL, "not enough memory: %s",
                                           core_bytes(bytes).text);
}


void *core_alloc (heed_context *cx, size_t bytes) {
  size_t class = small_class(bytes);
  void *block = class < SMALL_CLASSES ? cx->free_small[class] : NULL;
  if (block == NULL) return take_anew(cx, bytes);
  memcpy(&cx->free_small[class], block, sizeof block);   /* a free block starts with the next */
  cx->small -= rounded(bytes);
  return block;
}


void core_free (heed_context *cx, void *block, size_t bytes) {
  size_t class = small_class(bytes);
  if (block == NULL) return;
  if (class >= SMALL_CLASSES || cx->small + rounded(bytes) > SMALL_CACHE) {
    give(&cx->host, block, rounded(bytes));
    return;
  }
  memcpy(block, &cx->free_small[class], sizeof block);
  cx->free_small[class] = block;
  cx->small += rounded(bytes);
}


bool core_grow (heed_context *cx, void **list, int64_t n, int64_t *capacity, size_t size) {
  if (n < *capacity) return true;
  int64_t more = *capacity == 0 ? 64 : 2 * *capacity;
  void *grown = core_alloc(cx, (size_t)more * size);
  if (grown == NULL) return false;
  if (n > 0) memcpy(grown, *list, (size_t)n * size);
  core_free(cx, *list, (size_t)*capacity * size);
  *list = grown;
  *capacity = more;
  return true;
}


void core_trim (heed_context *cx) {
  for (size_t class = 0; class < SMALL_CLASSES; class++) {
    void *block;
    while ((block = cx->free_small[class]) != NULL) {
      memcpy(&cx->free_small[class], block, sizeof block);
      give(&cx->host, block, (class + 1) * SMALL_STEP);
    }
  }
  cx->small = 0;
}

/* }================================================================== */


/*
** {==================================================================
** Opening and closing
** ===================================================================
*/

/* A seed where none was given. */
static uint64_t any_seed (const heed_context *cx) {
  uint64_t seed;
  struct timespec now;
  if (getentropy(&seed, sizeof seed) == 0) return seed;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000007u ^ (uint64_t)now.tv_nsec << 20 ^ (uintptr_t)cx;
}


static int first_threads (const heed_host *host) {
  int n = host->threads > 0 ? host->threads : pool_cores();
  return n < MOST_THREADS ? n : MOST_THREADS;
}


void core_close (heed_context *cx) {
  heed_host host = cx->host;
  cx->closing = true;
  core_forget_casts(cx);
  heed_memory_trim(cx);
  core_end_releases(cx);
  while (cx->ndevices > 0) {
    device *d = cx->device[--cx->ndevices];
    d->close(d);
  }
  if (cx->pool != NULL) pool_close(cx->pool);
  core_free(cx, cx->temporaries, (size_t)cx->temporaries_capacity * sizeof *cx->temporaries);
  core_free(cx, cx->autocast.kept, (size_t)cx->autocast.capacity * sizeof *cx->autocast.kept);
  core_trim(cx);
  give(&host, cx, sizeof *cx);
}


heed_context *core_open (const heed_host *host) {
  heed_host given = host != NULL ? *host : (heed_host){0};
  heed_context *cx = take(&given, sizeof *cx);
  if (cx == NULL) return NULL;
  memset(cx, 0, sizeof *cx);
  cx->host = given;
  cx->recording = true;
  cx->autocast.type = HEED_FLOAT32;
  cx->stop.host = given.interrupted;
  cx->stop.self = given.self;
  cx->pool = pool_open(first_threads(&given), &cx->stop);
  if (cx->pool == NULL) { core_close(cx); return NULL; }
  generator_seed(&cx->random, any_seed(cx));
  return cx;
}


void core_left (heed_context *cx) {
  if (cx->closing && cx->tensors == 0 && cx->nodes == 0 && !cx->freeing) core_close(cx);
}


/* What outlives it keeps the context, without threads and caches. */
void heed_close (heed_context *cx) {
  if (cx == NULL || cx->closing) return;
  if (cx->capture != NULL) heed_capture_drop(cx, heed_capture_end(cx));
  cx->closing = true;
  heed_memory_trim(cx);
  pool_resize(cx->pool, 1);
  core_left(cx);
}

/* }================================================================== */


/*
** {==================================================================
** Settings
** ===================================================================
*/

int heed_threads (heed_context *cx) { return cx != NULL ? pool_threads(cx->pool) : 0; }


bool heed_set_threads (heed_context *cx, int n) {
  if (cx == NULL) return false;
  if (n < 1 || n > MOST_THREADS)
    return core_fail(cx, "threads", "1 to %d expected, got %d", MOST_THREADS, n);
  return pool_resize(cx->pool, n) || core_fail(cx, "threads", "%d could not be had", n);
}


const char *heed_device (heed_context *cx) { return cx != NULL ? cx->default_device->name : NULL; }


bool heed_set_device (heed_context *cx, const char *name) {
  device *where = NULL;
  if (cx != NULL && name != NULL) where = core_device(cx, "default_device", name);
  if (where == NULL) return false;
  cx->default_device = cx->current = where;
  return true;
}


bool heed_recording (heed_context *cx) { return cx != NULL && cx->recording; }


bool heed_set_recording (heed_context *cx, bool on) {
  bool was = heed_recording(cx);
  if (cx != NULL) cx->recording = on;
  return was;
}


int64_t heed_graph_nodes (heed_context *cx) { return cx != NULL ? cx->nodes : 0; }


bool heed_seed (heed_context *cx, uint64_t seed) {
  if (cx == NULL || !core_check_generator(cx, "manual_seed")) return false;
  generator_seed(&cx->random, seed);
  for (int i = 0; i < cx->ndevices; i++) {
    device *d = cx->device[i];
    if (d->accelerator != NULL) d->accelerator->seed(d, seed);
  }
  return true;
}


bool heed_rng_get (heed_context *cx, uint8_t state[HEED_RNG_BYTES]) {
  if (cx == NULL || state == NULL || !core_check_generator(cx, "rng_state")) return false;
  generator_save(&cx->random, state);
  return true;
}


bool heed_rng_set (heed_context *cx, const uint8_t state[HEED_RNG_BYTES]) {
  if (cx == NULL || state == NULL || !core_check_generator(cx, "rng_state")) return false;
  return generator_load(&cx->random, state) ||
         core_fail(cx, "rng_state", "this is no state of a generator");
}


const char *heed_type_name (heed_type type) {
  return (unsigned)type < HEED_NTYPES ? scalar_names[type] : NULL;
}


bool heed_type_find (const char *name, heed_type *type) {
  for (int i = 0; name != NULL && type != NULL && i < HEED_NTYPES; i++)
    if (strcmp(name, scalar_names[i]) == 0) { *type = (heed_type)i; return true; }
  return false;
}


size_t heed_type_size (heed_type type) {
  return (unsigned)type < HEED_NTYPES ? scalar_sizes[type] : 0;
}

/* }================================================================== */


/*
** {==================================================================
** Work
** ===================================================================
*/

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


void heed_interrupt (heed_context *cx) {
  if (cx != NULL) atomic_store_explicit(&cx->stop.asked, true, memory_order_relaxed);
}


bool core_interrupted (heed_context *cx, const char *function) {
  if (!interrupt_asked(&cx->stop)) return false;
  atomic_store_explicit(&cx->stop.asked, false, memory_order_relaxed);
  core_fail(cx, function, "interrupted");
  return true;
}


bool core_poll (heed_context *cx, const char *function) {
  cx->stop.caller = pthread_self();
  return interrupt_stops(&cx->stop) && core_interrupted(cx, function);
}


bool heed_interrupted (heed_context *cx) { return cx != NULL && core_poll(cx, NULL); }


void core_parallel (heed_context *cx, int64_t n, int64_t grain,
                    void (*piece) (void *arg, int64_t from, int64_t to), void *arg) {
  pool_run(cx->pool, n, grain, piece, arg);
}


static const char *run_in_own_mode (device *where, const work *w) {
  const float_mode before = float_mode_begin();
  const char *why = where->run(where, w);
  float_mode_end(before);
  return why;
}


/* Of the caller's name, if that is another than the operation's. */
static int caller_number (heed_context *cx, int op) {
  const char *name = cx->caller;
  if (name == NULL || strcmp(name, core_op_name(op)) == 0) return op;
  int i = 0;
  while (i < cx->ncallers && strncmp(cx->callers[i], name, sizeof *cx->callers - 1) != 0) i++;
  if (i == CORE_CALLERS) return op;
  if (i == cx->ncallers) snprintf(cx->callers[cx->ncallers++], sizeof *cx->callers, "%s", name);
  return CORE_OPS + i;
}


/* What works while the host waits has no asynchronous errors, but in replays. */
static int number_for (heed_context *cx, const device *d, int op) {
  return d->accelerator != NULL || d == cx->captured ? caller_number(cx, op) : op;
}


void core_begin (heed_context *cx, device *d, int op) { d->op = number_for(cx, d, op); }


bool core_end (heed_context *cx, device *d, int op, const char *why) {
  if (why == NULL) return true;
  if (d->op == number_for(cx, d, op)) return core_fail(cx, core_op_name(op), "%s", why);
  const char *function = d->op < CORE_OPS ? core_op_name(d->op) : cx->callers[d->op - CORE_OPS];
  return core_fail_async(cx, function, why);
}


/* Is a result in memory of what is changed in place? */
static bool writes_target (const heed_context *cx, const work *w) {
  const storage *s = cx->target;
  for (int i = 0; s != NULL && i < w->nout; i++)
    if ((uintptr_t)w->out[i].data - (uintptr_t)s->data < s->bytes) return true;
  return false;
}


/* What is interrupted has returned early, with a result that is none, or a message to say so. */
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
  if (cx->capture_memory != NULL) return capture_add_work(cx, number_for(cx, where, op), w);
  return run_or_stop(cx, op, where, w);
}


/* It is over before an interruption could stop it, and is recorded only as what 'run' is given. */
bool core_map (heed_context *cx, device *where, const dense_map *w) {
  if (where->map == NULL || cx->captured != NULL || !where->map(where, w)) return false;
  where->works++;
  return true;
}

/* }================================================================== */
