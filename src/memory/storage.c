/*
** storage.c - counted bytes: where they come from, and what becomes of them.
**
** Blocks come in classes of size, and a dropped one is kept with its header for the next
** tensor of its class, so that a training loop allocates nothing from the system. The bytes of kept
** blocks are bounded, count against the limit, and are given back before a tensor is refused. Sizes
** that were not wanted for the longest go first: the cache serves the sizes that a program uses
** now. What lives long is of no class: it is as large as it must be, and goes back at once.
*/

#include "base/aligned.h"
#include "memory/context.h"
#include "memory/packed.h"

#define LIKE_HOST ((size_t)512 << 20)  /* see told */
#define PARTS 64                   /* of an accelerator's memory: see collect_accelerator */
#define MIB ((size_t)1 << 20)
#define PRESSURE MIB               /* growth of small blocks after which the host is asked again */
#define CACHE_AT_LEAST (64 * MIB)  /* may be cached however little is live */


/*
** {==================================================================
** Classes of size
** ===================================================================
*/

#define FIRST_BIT 6                /* up to 64 bytes: class 0 */
#define BIG_BIT 20                 /* below 1 MiB two classes to a doubling, then eight */
#define FIRST_BIG (1 + 2 * (BIG_BIT - FIRST_BIT))
#define PAGE 4096
#define LEAST_SINGLE ((size_t)1 << 16)     /* bytes of what lives long that are worth it */

/* As little as can be, of no class. */
static int no_class (size_t bytes, size_t *capacity) {
  if (HEED_EXACT) *capacity = bytes > 0 ? bytes : 1;
  else *capacity = (bytes + PAGE - 1) / PAGE * PAGE;
  return STORAGE_CLASSES;
}


/* The class of 'bytes', and in *capacity the size of its blocks; STORAGE_CLASSES: none. */
static int class_of (size_t bytes, size_t *capacity) {
  if (HEED_EXACT) return no_class(bytes, capacity);
  if (bytes <= (size_t)1 << FIRST_BIT) { *capacity = (size_t)1 << FIRST_BIT; return 0; }
  int bit = 63 - __builtin_clzll(bytes - 1);             /* 2^bit < bytes <= 2^(bit + 1) */
  int fine = bit < BIG_BIT ? 1 : 3;
  size_t steps = ((bytes - 1) >> (bit - fine)) + 1;
  int part = (int)steps - (1 << fine) - 1;
  int class = bit < BIG_BIT ? 1 + 2 * (bit - FIRST_BIT) + part
                            : FIRST_BIG + 8 * (bit - BIG_BIT) + part;
  *capacity = steps << (bit - fine);
  return class < STORAGE_CLASSES ? class : no_class(bytes, capacity);
}


/* The class of a storage. */
static int class_of_own (const storage *s) {
  size_t capacity;
  return s->single ? STORAGE_CLASSES : class_of(s->capacity, &capacity);
}

/* }================================================================== */


/*
** {==================================================================
** Data: from the device, or from the host's own allocator, aligned by hand
** ===================================================================
*/

void *storage_take_data (heed_context *cx, device *where, size_t capacity) {
  if (!where->host || cx->host.resize == NULL) return where->alloc(where, capacity);
  void *block = cx->host.resize(cx->host.self, NULL, 0, capacity + ALIGNMENT);
  return block != NULL ? aligned_in(block) : NULL;
}


void storage_give_data (heed_context *cx, device *where, void *data, size_t capacity) {
  if (!where->host || cx->host.resize == NULL) where->free(where, data, capacity);
  else cx->host.resize(cx->host.self, aligned_block(data), capacity + ALIGNMENT, 0);
}


static void destroy (storage *s) {
  heed_context *cx = s->cx;
  storage_give_data(cx, s->where, s->data, s->capacity);
  core_free(cx, s, sizeof *s);
}


static void cache (heed_context *cx, storage *s, int class) {
  s->next = cx->storages.free[class];
  cx->storages.free[class] = s;
  cx->storages.account.cached += s->capacity;
}


static storage *uncache (heed_context *cx, int class) {
  storage *s = cx->storages.free[class];
  cx->storages.free[class] = s->next;
  cx->storages.account.cached -= s->capacity;
  return s;
}


void heed_memory_trim (heed_context *cx) {
  if (cx == NULL) return;
  for (int class = 0; class < STORAGE_CLASSES; class++)
    while (cx->storages.free[class] != NULL) destroy(uncache(cx, class));
  core_trim(cx);
}

/* }================================================================== */


/*
** {==================================================================
** Storages
** ===================================================================
*/

/*
** The host may run a script's finalisers, whose calls stand within the call that runs. An
** interruption stops the outer call.
*/
static void reclaim (heed_context *cx, size_t bytes, bool urgent) {
  if (cx->host.reclaim == NULL) return;
  const scope before = scope_begin(cx);
  cx->scope.device = cx->devices.chosen;
  core_hold(cx);
  cx->host.reclaim(cx->host.self, bytes, urgent);
  core_release(cx);
  scope_end(cx, &before);
}


void storage_relieve (heed_context *cx) {
  memory_account *m = &cx->storages.account;
  bool urgent = m->limited && m->live + m->blocks > m->limit - m->limit / 8;
  reclaim(cx, PRESSURE, urgent);
  m->pressed = m->blocks + (urgent ? PRESSURE / 16 : PRESSURE);
}


static void count (memory_account *m, size_t capacity) {
  m->live += capacity;
  account_note_peak(m);
}


static void *try_data (heed_context *cx, device *where, size_t capacity) {
  bool fits = !where->host || account_fits(&cx->storages.account, capacity);
  return fits ? storage_take_data(cx, where, capacity) : NULL;
}


/* Tries three times: as things are, without the cache, and after the host reclaimed memory. */
static void *new_data (heed_context *cx, device *where, size_t bytes, size_t capacity) {
  void *data = try_data(cx, where, capacity);
  if (data == NULL) {
    heed_memory_trim(cx);
    data = try_data(cx, where, capacity);
  }
  if (data == NULL) {
    reclaim(cx, bytes, true);
    heed_memory_trim(cx);
    data = try_data(cx, where, capacity);
  }
  if (data != NULL) return data;
  if (where->host && !account_fits(&cx->storages.account, capacity)) {
    account_refuse(cx, NULL, bytes, "a tensor");
    return NULL;
  }
  const char *why = where->gone != NULL ? where->gone(where) : NULL;
  if (why != NULL) return core_fail(cx, NULL, "device '%s': %s", where->name, why);
  return core_fail(cx, NULL, "not enough memory: %s for a tensor on %s", core_bytes(bytes).text,
                   where->name);
}


static storage *new_header (heed_context *cx, device *where, size_t size) {
  storage *s = core_alloc(cx, size);
  if (s == NULL) return NULL;
  *s = (storage){.cx = cx, .where = where, .refs = 1};
  return s;
}


static storage *make (heed_context *cx, device *where, size_t bytes, size_t capacity) {
  storage *s = new_header(cx, where, sizeof *s);
  if (s == NULL) return NULL;
  s->capacity = capacity;
  s->data = new_data(cx, where, bytes, capacity);
  cx->storages.made++;
  if (s->data != NULL) return s;
  core_free(cx, s, sizeof *s);
  return NULL;
}


static void renew (storage *s) {
  s->refs = 1;
  s->version = 0;
}


static storage *reuse (heed_context *cx, int class) {
  storage *s = uncache(cx, class);
  renew(s);
  return s;
}


/*
** {==================================================================
** Memory of a capture on the host. Replays do works in the order in which they were recorded, so
** what is dropped may serve a later work; but no other tensor, until the capture itself goes.
** ===================================================================
*/

/* Memory that the capture has and needs no more. */
static storage *take_again (capture_memory *m, int class) {
  storage *s = class < STORAGE_CLASSES ? m->free[class] : NULL;
  if (s == NULL) return NULL;
  m->free[class] = s->next;
  renew(s);
  s->reused = true;
  return s;
}


static bool is_captured (const heed_context *cx, const device *where) {
  return where == cx->capture.where && cx->capture.memory != NULL;
}


/* In the list of what the capture made; without memory for that, it is dropped. */
static storage *hold_for_capture (heed_context *cx, storage *s) {
  capture_memory *m = cx->capture.memory;
  s->reused = s->fixed = false;
  if (!core_grow(cx, (void **)&m->made, m->nmade, &m->made_capacity, sizeof *m->made)) {
    storage_leave_births(s);
    storage_drop(s);
    return NULL;
  }
  return m->made[m->nmade++] = s;
}


/* The memory of the capture that holds s until it ends, be it paused or not; or NULL. */
static capture_memory *holder_of (const heed_context *cx, const storage *s) {
  const capturing *c = &cx->capture;
  if (s->capture == 0 || s->capture != c->number) return NULL;
  if (s->where == c->paused) return c->paused_memory;
  return s->where == c->where ? c->memory : NULL;
}


static void put_back (capture_memory *m, storage *s, int class) {
  if (class == STORAGE_CLASSES) return;
  s->next = m->free[class];
  m->free[class] = s;
}


static storage *take_new (heed_context *cx, device *where, size_t bytes, int class,
                          size_t capacity) {
  bool cached = where == cx->devices.list[0] && class < STORAGE_CLASSES &&
                cx->storages.free[class] != NULL;
  storage *s = cached ? reuse(cx, class) : make(cx, where, bytes, capacity);
  if (s == NULL) return NULL;
  if (class < STORAGE_CLASSES) cx->storages.wanted[class] = cx->storages.made;
  s->capture = cx->capture.where != NULL ? cx->capture.number : 0;
  if (where == cx->capture.where) cx->capture.births->alive++;
  if (where->host) count(&cx->storages.account, s->capacity);
  return is_captured(cx, where) ? hold_for_capture(cx, s) : s;
}


/* Memory that works of the capture do not write, for a storage that has such. */
static bool exchange_data (storage *s) {
  size_t capacity;
  int class = class_of(s->capacity, &capacity);    /* of a capture's: s is not single */
  storage *other = take_new(s->cx, s->where, s->bytes, class, capacity);
  if (other == NULL) return false;
  void *data = other->data;
  other->data = s->data;
  s->data = data;
  storage_drop(other);
  return true;
}


bool storage_fix (storage *s) {
  if (holder_of(s->cx, s) == NULL || s->fixed) return true;
  if (s->reused && !exchange_data(s)) return false;
  s->fixed = true;
  s->refs++;
  return true;
}


void storage_end_capture (capture_memory *m) {
  for (int64_t i = 0; i < m->nmade; i++)
    if (!m->made[i]->fixed) m->made[i]->refs++;
}


void storage_drop_made (heed_context *cx, capture_memory *m) {
  while (m->nmade > 0) storage_drop(m->made[--m->nmade]);
  core_free(cx, m->made, (size_t)m->made_capacity * sizeof *m->made);
}

/* }================================================================== */


/*
** Bytes as the host is told of them, whose collector works for each of its own: an accelerator's
** count as if it had LIKE_HOST bytes of memory.
*/
static size_t told (const device *where, size_t bytes) {
  return where->memory > LIKE_HOST ? bytes / (where->memory / LIKE_HOST) : bytes;
}


/*
** The host's collector may wait for more than it was told of. So whenever a part of an
** accelerator's memory was taken, its live bytes are looked at: where they have grown by half, or
** by that part, since garbage was last collected, it is.
*/
static void collect_accelerator (heed_context *cx, device *where, size_t bytes) {
  const size_t part = where->memory / PARTS;
  heed_device_memory now;
  where->taken += bytes;
  if (where->taken < part) return;
  where->taken = 0;
  where->accelerator->memory(where, &now);
  if (now.live <= where->enough) return;
  reclaim(cx, SIZE_MAX / 2, false);
  where->accelerator->memory(where, &now);
  where->enough = now.live + (now.live / 2 > part ? now.live / 2 : part);
}


bool heed_memory_lasting (heed_context *cx, bool lasting) {
  const bool before = cx != NULL && cx->storages.lasting;
  if (cx != NULL) cx->storages.lasting = lasting;
  return before;
}


bool storage_lasts (const heed_context *cx) { return cx->storages.lasting; }


storage *storage_new (heed_context *cx, device *where, size_t bytes) {
  size_t capacity;
  const bool single = cx->storages.lasting && where->host && bytes >= LEAST_SINGLE &&
                      !is_captured(cx, where);
  int class = (single ? no_class : class_of)(bytes, &capacity);
  reclaim(cx, told(where, bytes), false);
  if (where->accelerator != NULL && !is_captured(cx, where)) collect_accelerator(cx, where, bytes);
  storage *s = NULL;
  if (is_captured(cx, where)) s = take_again(cx->capture.memory, class);
  if (s == NULL) s = take_new(cx, where, bytes, class, capacity);
  if (s == NULL) return NULL;
  s->bytes = bytes;
  s->single = single;
  if (cx->profile != NULL) profile_take(cx, where, bytes, s->capacity);
  return s;
}


storage *storage_lend (heed_context *cx, device *where, void *data, size_t bytes,
                       void (*release) (void *, void *), void *self) {
  storage *s = new_header(cx, where, sizeof(foreign));
  if (s == NULL) return NULL;
  foreign *f = (foreign *)s;
  s->bytes = bytes;
  s->data = data;
  f->release = release;
  f->self = self;
  return s;
}


void storage_keep (storage *s) {
  if (s != NULL) s->refs++;
}


/* As much as is live, but a little in any case. */
static size_t most_cached (const heed_context *cx) {
  size_t live = cx->storages.account.live;
  if (HEED_EXACT || cx->closing) return 0;
  return live > CACHE_AT_LEAST ? live : CACHE_AT_LEAST;
}


/* Other devices have caches of their own. */
static bool worth_keeping (const heed_context *cx, const storage *s, int class) {
  const memory_account *m = &cx->storages.account;
  return s->where == cx->devices.list[0] && class < STORAGE_CLASSES &&
         s->capacity <= most_cached(cx) &&
         (!m->limited || m->live + m->cached + s->capacity <= m->limit);
}


/* The class with blocks that was not wanted for the longest; of several, that of the largest. */
static int least_wanted (const heed_context *cx) {
  int least = STORAGE_CLASSES;
  for (int class = STORAGE_CLASSES - 1; class >= 0; class--) {
    if (cx->storages.free[class] == NULL) continue;
    if (least == STORAGE_CLASSES || cx->storages.wanted[class] < cx->storages.wanted[least])
      least = class;
  }
  return least;
}


static void shrink_cache (heed_context *cx) {
  while (cx->storages.account.cached > most_cached(cx)) destroy(uncache(cx, least_wanted(cx)));
}


static void drop_own (heed_context *cx, storage *s) {
  const int class = class_of_own(s);
  capture_memory *held = holder_of(cx, s);
  if (held != NULL) { put_back(held, s, class); return; }
  storage_leave_births(s);
  if (s->where->host) cx->storages.account.live -= s->capacity;
  else if (cx->profile != NULL) profile_give(cx, s->capacity);
  if (worth_keeping(cx, s, class)) cache(cx, s, class);
  else destroy(s);
  shrink_cache(cx);
}


static void drop_foreign (heed_context *cx, foreign *f) {
  if (f->release != NULL) f->release(f->self, f->storage.data);
  core_free(cx, f, sizeof *f);
}


void storage_drop (storage *s) {
  if (s == NULL || --s->refs > 0) return;
  if (s->packed) packed_drop(s);
  if (s->capacity > 0) drop_own(s->cx, s);
  else drop_foreign(s->cx, (foreign *)s);
}

/* }================================================================== */
