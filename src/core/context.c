/*
** context.c - a context: its settings, its first message, its small blocks.
*/

#include "core/core.h"

#include <fenv.h>
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
** Messages
** ===================================================================
*/

/* C libraries differ in the sign that they give to a NaN: it has none here. */
static void keep_message (heed_context *cx, const char *format, va_list args) {
  if (cx->failed) return;
  cx->failed = true;
  vsnprintf(cx->message, sizeof cx->message, format, args);
  char *nan = strstr(cx->message, " -nan");
  if (nan != NULL) memmove(nan + 1, nan + 2, strlen(nan + 2) + 1);
}


void *core_fail (heed_context *cx, const char *format, ...) {
  va_list args;
  va_start(args, format);
  keep_message(cx, format, args);
  va_end(args);
  return NULL;
}


void heed_fail (heed_context *cx, const char *format, ...) {
  va_list args;
  if (cx == NULL) return;
  va_start(args, format);
  keep_message(cx, format, args);
  va_end(args);
}


const char *heed_error (heed_context *cx) {
  if (cx == NULL) return "no context: there is not enough memory, or no such level";
  return cx->failed ? cx->message : NULL;
}


void heed_clear (heed_context *cx) {
  if (cx != NULL) cx->failed = false;
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


/* What is really asked for, so that blocks of one class are alike. */
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
  return block != NULL ? block : core_fail(cx, "not enough memory: %zu bytes", bytes);
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


bool core_grow (heed_context *cx, void **list, int64_t n, int64_t *room, size_t size) {
  if (n < *room) return true;
  int64_t more = *room == 0 ? 64 : 2 * *room;
  void *grown = core_alloc(cx, (size_t)more * size);
  if (grown == NULL) return false;
  if (n > 0) memcpy(grown, *list, (size_t)n * size);
  core_free(cx, *list, (size_t)*room * size);
  *list = grown;
  *room = more;
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

/* A seed for those who give none. */
static uint64_t any_seed (const heed_context *cx) {
  uint64_t seed;
  struct timespec now;
  if (getentropy(&seed, sizeof seed) == 0) return seed;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000007u ^ (uint64_t)now.tv_nsec << 20 ^ (uintptr_t)cx;
}


static const cpu_level *first_level (const heed_host *host) {
  const char *name = host->level != NULL ? host->level : getenv("HEED_LEVEL");
  return name != NULL ? cpu_level_find(name) : cpu_level_best();
}


static int first_threads (const heed_host *host) {
  int n = host->threads > 0 ? host->threads : pool_cores();
  return n < MOST_THREADS ? n : MOST_THREADS;
}


static void destroy (heed_context *cx) {
  heed_host host = cx->host;
  cx->closing = true;
  heed_memory_trim(cx);
  core_cuda_close(cx);
  if (cx->cpu != NULL) cpu_close(cx->cpu);
  if (cx->pool != NULL) pool_close(cx->pool);
  core_free(cx, cx->temporaries, (size_t)cx->temporaries_capacity * sizeof *cx->temporaries);
  core_free(cx, cx->signatures, HEED_NOPS * sizeof *cx->signatures);
  core_trim(cx);
  give(&host, cx, sizeof *cx);
}


heed_context *heed_open (const heed_host *host) {
  heed_host lent = host != NULL ? *host : (heed_host){0};
  heed_context *cx = take(&lent, sizeof *cx);
  if (cx == NULL) return NULL;
  memset(cx, 0, sizeof *cx);
  cx->host = lent;
  cx->recording = true;
  cx->caller = HEED_NOPS;
  cx->level = first_level(&lent);
  if (cx->level != NULL) cx->pool = pool_open(first_threads(&lent));
  if (cx->pool != NULL) cx->cpu = cpu_open(cx->pool, &cx->random, cx->level);
  if (cx->cpu == NULL) { destroy(cx); return NULL; }
  cx->default_device = cx->current = cx->cpu;
  generator_seed(&cx->random, any_seed(cx));
  return cx;
}


void core_left (heed_context *cx) {
  if (cx->closing && cx->tensors == 0 && cx->nodes == 0 && !cx->burying) destroy(cx);
}


/* What outlives it keeps the context, without threads and caches. */
void heed_close (heed_context *cx) {
  if (cx == NULL || cx->closing) return;
  if (cx->graph != NULL) heed_capture_drop(cx, heed_capture_end(cx));
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

const char *heed_level (heed_context *cx) {
  return cx != NULL ? cpu_level_name(cx->level) : NULL;
}


bool heed_set_level (heed_context *cx, const char *name) {
  if (cx == NULL || name == NULL) return false;
  const cpu_level *level = cpu_level_find(name);
  if (level == NULL)
    return core_fail(cx, "level: '%.40s' is unknown, or this processor lacks it", name);
  cx->level = level;
  cpu_use(cx->cpu, level);
  return true;
}


int heed_threads (heed_context *cx) { return cx != NULL ? pool_threads(cx->pool) : 0; }


bool heed_set_threads (heed_context *cx, int n) {
  if (cx == NULL) return false;
  if (n < 1 || n > MOST_THREADS)
    return core_fail(cx, "threads: 1 to %d expected, got %d", MOST_THREADS, n);
  return pool_resize(cx->pool, n) || core_fail(cx, "threads: %d could not be had", n);
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


void heed_seed (heed_context *cx, uint64_t seed) {
  if (cx == NULL) return;
  generator_seed(&cx->random, seed);
  for (int i = 0; i < CORE_GPUS; i++)
    if (cx->gpu[i] != NULL) cx->cuda->seed(cx->gpu[i], seed);
}


void heed_rng_get (heed_context *cx, uint8_t state[HEED_RNG_BYTES]) {
  if (cx != NULL && state != NULL) generator_save(&cx->random, state);
}


bool heed_rng_set (heed_context *cx, const uint8_t state[HEED_RNG_BYTES]) {
  if (cx == NULL || state == NULL) return false;
  return generator_load(&cx->random, state) ||
         core_fail(cx, "rng_state: this is no state of a generator");
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

const char *core_op_name (heed_op op) {
  static const char *const names[] = {
#define UNARY(name, ...) #name,
#define BINARY(name, ...) #name,
#define TERNARY(name, ...) #name,
#define OP(name, ...) #name,
#define COMPOSED(name, ...) #name,
#define PLAIN(name, ...) #name,
#include "op/ops.def"
#undef UNARY
#undef BINARY
#undef TERNARY
#undef OP
#undef COMPOSED
#undef PLAIN
    "custom", "read", "item", "totable", "data", "tostring", "tensor", "equal", "index"
  };
  return names[op];
}


heed_op heed_set_caller (heed_context *cx, heed_op who) {
  if (cx == NULL || (unsigned)who > HEED_index) return HEED_NOPS;
  heed_op was = cx->caller;
  cx->caller = who;
  return was;
}


void core_parallel (heed_context *cx, int64_t n, int64_t grain,
                    void (*piece) (void *arg, int64_t from, int64_t to), void *arg) {
  pool_run(cx->pool, n, grain, piece, arg);
}


/*
** The host may round otherwise, or flush denormals; the pool's threads do not. So that a result
** does not depend on who works, the caller's mode is C's own meanwhile.
*/
#if defined(__SSE__)
typedef unsigned int float_mode;
#define OWN_MODE 0x1f80u
#define FLAGS 0x3fu

static float_mode read_mode (void) { return __builtin_ia32_stmxcsr(); }
static void set_mode (float_mode mode) { __builtin_ia32_ldmxcsr(mode); }

#elif defined(__aarch64__)
typedef uint64_t float_mode;
#define OWN_MODE 0u
#define FLAGS 0u

static float_mode read_mode (void) {
  float_mode mode;
  __asm__ volatile ("mrs %0, fpcr" : "=r" (mode));
  return mode;
}

static void set_mode (float_mode mode) {
  __asm__ volatile ("msr fpcr, %0" : : "r" (mode) : "memory");
}

#else
typedef int float_mode;
#define OWN_MODE FE_TONEAREST
#define FLAGS 0

static float_mode read_mode (void) { return fegetround(); }
static void set_mode (float_mode mode) { fesetround(mode); }
#endif


static const char *run_in_own_mode (device *where, const work *w) {
  float_mode before = read_mode();
  if ((before & ~FLAGS) == OWN_MODE) return where->run(where, w);
  set_mode(OWN_MODE);
  const char *why = where->run(where, w);
  set_mode(before);
  return why;
}


bool core_run (heed_context *cx, heed_op op, device *where, const work *w) {
  op = core_caller(cx, op);
  if (!where->can[w->kind])
    return core_fail(cx, "%s: cannot be done on %s", core_op_name(op), where->name);
  if (cx->captured != NULL && cx->captured != where)
    return core_fail(cx, "%s: works on %s while the work of %s is captured", core_op_name(op),
                     where->name, cx->captured->name);
  where->works++;
  where->op = op;
  const char *why = run_in_own_mode(where, w);
  return why == NULL || core_fail(cx, "%s: %s", core_op_name(where->op), why);
}

/* }================================================================== */
