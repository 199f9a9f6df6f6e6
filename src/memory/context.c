/*
** context.c - a context: opened and closed, its settings, how it is interrupted.
*/

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "memory/context.h"
#include "memory/packed.h"


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
  heed_profile_drop(cx, cx->profile);
  if (cx->close_above != NULL) cx->close_above(cx);
  packed_close(cx);
  heed_memory_trim(cx);
  while (cx->devices.n > 0) {
    device *d = cx->devices.list[--cx->devices.n];
    d->close(d);
  }
  if (cx->pool != NULL) pool_close(cx->pool);
  core_trim(cx);
  account_close(&cx->storages.account);
  block_give(&host, cx, sizeof *cx);
}


heed_context *core_open (const heed_host *host) {
  heed_host given = host != NULL ? *host : (heed_host){0};
  heed_context *cx = block_take(&given, sizeof *cx);
  if (cx == NULL) return NULL;
  memset(cx, 0, sizeof *cx);
  cx->host = given;
  cx->scope.recording = true;
  cx->scope.mixed = HEED_FLOAT32;
  account_open(&cx->storages.account);
  cx->stop.host = given.interrupted;
  cx->stop.self = given.self;
  cx->pool = pool_open(first_threads(&given), &cx->stop);
  if (cx->pool == NULL) { core_close(cx); return NULL; }
  generator_seed(&cx->random, any_seed(cx));
  return cx;
}

/* }================================================================== */


/*
** {==================================================================
** Settings
** ===================================================================
*/

const char *heed_set_caller (heed_context *cx, const char *function) {
  if (cx == NULL) return NULL;
  const char *before = cx->scope.caller;
  cx->scope.caller = function;
  return before;
}


int heed_threads (heed_context *cx) { return cx != NULL ? pool_threads(cx->pool) : 0; }


bool heed_set_threads (heed_context *cx, int n) {
  if (cx == NULL) return false;
  if (n < 1 || n > MOST_THREADS)
    return core_fail(cx, "threads", "1 to %d expected, got %d", MOST_THREADS, n);
  return pool_resize(cx->pool, n) || core_fail(cx, "threads", "%d could not be had", n);
}


const char *heed_device (heed_context *cx) { return cx != NULL ? cx->devices.chosen->name : NULL; }


bool heed_set_device (heed_context *cx, const char *name) {
  device *where = NULL;
  if (cx != NULL && name != NULL) where = core_device(cx, "default_device", name);
  if (where == NULL) return false;
  cx->devices.chosen = cx->scope.device = where;
  return true;
}


bool heed_recording (heed_context *cx) { return cx != NULL && cx->scope.recording; }


bool heed_set_recording (heed_context *cx, bool on) {
  bool was = heed_recording(cx);
  if (cx != NULL) cx->scope.recording = on;
  return was;
}


bool heed_seed (heed_context *cx, uint64_t seed) {
  if (cx == NULL || !core_check_generator(cx, "manual_seed")) return false;
  generator_seed(&cx->random, seed);
  for (int i = 0; i < cx->devices.n; i++) {
    device *d = cx->devices.list[i];
    if (d->accelerator != NULL) d->accelerator->seed(d, seed);
  }
  return true;
}


void heed_rng_seeded (uint64_t seed, uint8_t state[HEED_RNG_BYTES]) {
  generator g;
  if (state == NULL) return;
  generator_seed(&g, seed);
  generator_save(&g, state);
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
  return (unsigned)type < HEED_ALL_TYPES ? scalar_names[type] : NULL;
}


bool heed_type_find (const char *name, heed_type *type) {
  for (int i = 0; name != NULL && type != NULL && i < HEED_ALL_TYPES; i++)
    if (scalar_names[i] != NULL && strcmp(name, scalar_names[i]) == 0) {
      *type = (heed_type)i;
      return true;
    }
  return false;
}


size_t heed_type_size (heed_type type) {
  return (unsigned)type < HEED_NTYPES ? scalar_sizes[type] : 0;
}


int heed_type_block (heed_type type) {
  return scalar_is_type(type) ? scalar_blocks[type].elements : 1;
}


bool heed_type_written (heed_type type) {
  return scalar_is_type(type) && scalar_blocks[type].written;
}


size_t heed_type_bytes (heed_type type, int64_t n) {
  return scalar_is_type(type) && n > 0 ? (size_t)scalar_bytes(type, n) : 0;
}

/* }================================================================== */


/*
** {==================================================================
** Interruptions
** ===================================================================
*/

void heed_interrupt (heed_context *cx) {
  if (cx != NULL) atomic_store_explicit(&cx->stop.asked, true, memory_order_relaxed);
}


bool core_interrupted (heed_context *cx, const char *function) {
  if (!interrupt_asked(&cx->stop)) return false;
  atomic_store_explicit(&cx->storages.account.refused, 0, memory_order_relaxed);
  if (core_lost(cx, function)) return true;
  atomic_store_explicit(&cx->stop.asked, false, memory_order_relaxed);
  core_fail(cx, function, "interrupted");
  return true;
}


bool core_fail_lost (heed_context *cx, const char *function) {
  const char *file = atomic_load(&cx->stop.lost);
  core_fail(cx, function, "%s became shorter while it was mapped, or its disk fails", file);
  return true;
}


bool core_poll (heed_context *cx, const char *function) {
  cx->stop.caller = pthread_self();
  return interrupt_stops(&cx->stop) && core_interrupted(cx, function);
}


bool heed_interrupted (heed_context *cx) { return cx != NULL && core_poll(cx, NULL); }

/* }================================================================== */
