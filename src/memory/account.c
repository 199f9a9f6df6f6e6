/*
** account.c - the ledger of a context: all bytes of the host that it holds, and their limit.
*/

#include "memory/context.h"
#include "memory/machine.h"

void account_open (memory_account *m) { pthread_mutex_init(&m->scratching, NULL); }

void account_close (memory_account *m) { pthread_mutex_destroy(&m->scratching); }


/*
** {==================================================================
** The limit
** ===================================================================
*/

static size_t least (size_t a, size_t b) { return a < b ? a : b; }


/* Memory that was taken but never touched is still among what the machine calls free. */
static void read_machine (memory_account *m) {
  size_t total = account_used(m) + m->cached, free = machine_memory(), touched = machine_resident();
  if (touched > total) touched = total;
  m->limit = free <= SIZE_MAX - touched ? free + touched : SIZE_MAX;
  m->sure = least(m->limit, total + ACCOUNT_READ_EVERY);
}


static bool has_room (const memory_account *m, size_t bytes) {
  size_t total = account_used(m) + m->cached;
  return total <= m->limit && bytes <= m->limit - total;
}


/* The user's limit is no matter of the machine. */
bool account_fits_after_look (memory_account *m, size_t bytes) {
  if (!m->limited) read_machine(m);
  return has_room(m, bytes);
}


void account_raise_peak (memory_account *m) {
  size_t now = account_used(m), peak = atomic_load_explicit(&m->peak, memory_order_relaxed);
  while (now > peak && !atomic_compare_exchange_weak_explicit(&m->peak, &peak, now,
                                                              memory_order_relaxed,
                                                              memory_order_relaxed)) {}
}


bool account_refuse (heed_context *cx, const char *function, size_t bytes, const char *what) {
  const memory_account *m = &cx->storages.account;
  core_fail(cx, function, "memory limit of %s: %s in use, %s needs %s more",
            core_bytes(m->limit).text, core_bytes(account_used(m)).text, what,
            core_bytes(bytes).text);
  return false;
}


heed_memory heed_memory_now (heed_context *cx) {
  if (cx == NULL) return (heed_memory){0};
  memory_account *m = &cx->storages.account;
  if (m->limit == 0) read_machine(m);
  size_t peak = m->peak, before = profile_peak(cx);
  return (heed_memory){.live = m->live, .cached = m->cached, .peak = peak > before ? peak : before,
                       .limit = m->limit, .other = account_used(m) - m->live};
}


void heed_memory_limit (heed_context *cx, size_t bytes) {
  if (cx == NULL) return;
  cx->storages.account.limited = bytes > 0;
  cx->storages.account.limit = cx->storages.account.sure = bytes;
  if (!account_fits(&cx->storages.account, 0)) heed_memory_trim(cx);
}


/* Cached bytes are given back where others need them. */
bool heed_memory_room (heed_context *cx, size_t bytes, const char *what) {
  if (cx == NULL) return false;
  memory_account *m = &cx->storages.account;
  return bytes <= m->cached || account_fits(m, bytes - m->cached) ||
         account_refuse(cx, NULL, bytes, what);
}

/* }================================================================== */


/*
** {==================================================================
** Scratch memory
** ===================================================================
*/

/* A host's own allocator is called by no thread but the caller's: then the cache stays. */
static bool make_room (heed_context *cx, size_t bytes) {
  memory_account *m = &cx->storages.account;
  pthread_mutex_lock(&m->scratching);
  if (!has_room(m, bytes) && cx->host.resize == NULL) heed_memory_trim(cx);
  bool room = has_room(m, bytes);
  if (room) atomic_fetch_add_explicit(&m->scratch, bytes, memory_order_relaxed);
  pthread_mutex_unlock(&m->scratching);
  return room;
}


static bool machine_has (memory_account *m, size_t bytes) {
  if (bytes > ACCOUNT_READ_EVERY && bytes > machine_memory()) return false;
  atomic_fetch_add_explicit(&m->scratch, bytes, memory_order_relaxed);
  return true;
}


bool scratch_take (heed_context *cx, size_t bytes) {
  memory_account *m = &cx->storages.account;
  bool room = m->limited ? make_room(cx, bytes) : machine_has(m, bytes);
  if (room) account_note_peak(m);
  else atomic_store_explicit(&m->refused, bytes, memory_order_relaxed);
  return room;
}


void scratch_give (heed_context *cx, size_t bytes) {
  atomic_fetch_sub_explicit(&cx->storages.account.scratch, bytes, memory_order_relaxed);
}


bool account_refused (heed_context *cx, const char *function) {
  memory_account *m = &cx->storages.account;
  size_t bytes = atomic_load_explicit(&m->refused, memory_order_relaxed);
  if (bytes == 0) return false;
  atomic_store_explicit(&m->refused, 0, memory_order_relaxed);
  if (!m->limited) read_machine(m);
  account_refuse(cx, function, bytes, "scratch memory");
  return true;
}

/* }================================================================== */
