/*
** profile.c - where time and memory go. Each change of region charges the time since the last one,
** and the memory that was taken meanwhile, to the record of the region that ran.
*/

#include <stdio.h>
#include <string.h>

#include "memory/context.h"
#include "memory/machine.h"

#define FIRST_SLOTS 256            /* a power of two */
#define LATEST 512                 /* a power of two */

/* Regions of one name in one layer. */
typedef struct cell {
  heed_profile_record record;      /* without its seconds */
  int64_t time;
  bool host;                       /* it has no name */
  char name[48];
} cell;

struct heed_profile {
  int number;                      /* of the context's profiles, from 1 on */
  int at;                          /* the record of the region that runs */
  bool closed;                     /* what it calls is part of it */
  bool lacking;                    /* there was no memory for a record */
  bool counts;                     /* times are the processor's counts, else nanoseconds */
  int64_t began, clock;            /* when the profile did, in both */
  double second;                   /* that a unit of time takes, once it has ended */
  int64_t last;                    /* when that region began, or went on */
  size_t bytes;                    /* that tensors took since then */
  size_t before;                   /* most bytes of the host before then */
  size_t there, most_there;        /* bytes on accelerators: now, and most since then */
  cell *cells;
  int64_t n, capacity;
  int *slots;                      /* records by hash, counted from 1; 0: free */
  size_t nslots;                   /* a power of two, more than twice as many as records */
  int latest[LATEST];              /* records by the address of a name, counted from 1; 0: none */
};


/*
** {==================================================================
** Records
** ===================================================================
*/

/* FNV-1a */
static size_t hash_of (const char *name, bool gradient, int layer) {
  uint64_t h = 0xcbf29ce484222325u ^ (uint64_t)(2 * (int64_t)layer + gradient);
  h *= 0x100000001b3u;
  for (const char *c = name; *c != '\0'; c++) h = (h ^ (unsigned char)*c) * 0x100000001b3u;
  return (size_t)(h ^ h >> 32);
}


static bool is_of (const cell *c, const char *name, bool gradient, int layer) {
  return c->record.layer == layer && c->record.gradient == gradient &&
         strncmp(c->name, name, sizeof c->name - 1) == 0;
}


/* The slot of a record, or the free one where it belongs. */
static int *slot_of (const heed_profile *p, const char *name, bool gradient, int layer) {
  size_t i = hash_of(name, gradient, layer) & (p->nslots - 1);
  while (p->slots[i] != 0 && !is_of(&p->cells[p->slots[i] - 1], name, gradient, layer))
    i = (i + 1) & (p->nslots - 1);
  return &p->slots[i];
}


static int *new_slots (heed_context *cx, size_t n) {
  int *slots = core_alloc(cx, n * sizeof *slots);
  if (slots != NULL) memset(slots, 0, n * sizeof *slots);
  return slots;
}


static bool widen (heed_context *cx, heed_profile *p) {
  int *before = p->slots, *slots = new_slots(cx, 2 * p->nslots);
  if (slots == NULL) return false;
  core_free(cx, before, p->nslots * sizeof *before);
  p->slots = slots;
  p->nslots *= 2;
  for (int i = 0; i < p->n; i++) {
    const cell *c = &p->cells[i];
    *slot_of(p, c->name, c->record.gradient, c->record.layer) = i + 1;
  }
  return true;
}


static bool make_room (heed_context *cx, heed_profile *p) {
  return core_grow(cx, (void **)&p->cells, p->n, &p->capacity, sizeof *p->cells) &&
         (2 * ((size_t)p->n + 1) < p->nslots || widen(cx, p));
}


/* A new one; that which runs, where there is no memory: the call that is measured goes on. */
static int add_record (heed_context *cx, const char *name, bool gradient) {
  heed_profile *p = cx->profile;
  const failure before = cx->failure;
  if (p->lacking || !make_room(cx, p)) {
    cx->failure = before;
    p->lacking = true;
    return p->at;
  }
  cell *c = &p->cells[p->n];
  *c = (cell){.record = {.gradient = gradient, .layer = cx->scope.layer}, .host = *name == '\0'};
  snprintf(c->name, sizeof c->name, "%s", name);
  *slot_of(p, c->name, gradient, c->record.layer) = (int)++p->n;
  return (int)p->n - 1;
}


/* Most names come again from the same address, but another may lie there then. */
static int *latest_of (heed_profile *p, const char *name, bool gradient, int layer) {
  uintptr_t i = (uintptr_t)name / 4 + 37 * (uintptr_t)layer + gradient;
  return &p->latest[i & (LATEST - 1)];
}


/* The record of a name ("": the host's) in the layer that works. */
static int record_of (heed_context *cx, const char *name, bool gradient) {
  heed_profile *p = cx->profile;
  const int layer = cx->scope.layer;
  int *latest = latest_of(p, name, gradient, layer);
  if (*latest != 0 && is_of(&p->cells[*latest - 1], name, gradient, layer)) return *latest - 1;
  const int *slot = slot_of(p, name, gradient, layer);
  if (*slot == 0) return add_record(cx, name, gradient);
  *latest = *slot;
  return *slot - 1;
}

/* }================================================================== */


/*
** {==================================================================
** Regions
** ===================================================================
*/

static int64_t now (const heed_profile *p) {
  return p->counts ? machine_count() : machine_clock();
}


/* The clock and the time at one moment; read again, a few times, where the host came between. */
static void read_both (const heed_profile *p, int64_t *clock, int64_t *time) {
  for (int tries = 0; tries < 8; tries++) {
    const int64_t before = machine_clock();
    *time = now(p);
    *clock = machine_clock();
    if (*clock - before < 10000) return;
  }
}


/* A unit of time in seconds, as the clock went since the begin. */
static double second_of (const heed_profile *p) {
  int64_t clock, time;
  read_both(p, &clock, &time);
  const int64_t passed = time - p->began;
  return p->counts && passed > 0 ? 1e-9 * (double)(clock - p->clock) / (double)passed : 1e-9;
}


static size_t most (size_t a, size_t b) { return a > b ? a : b; }


/* The account's own peak is that since the last charge. */
static size_t take_peak (heed_context *cx) {
  heed_profile *p = cx->profile;
  memory_account *m = &cx->storages.account;
  size_t peak = atomic_load_explicit(&m->peak, memory_order_relaxed);
  p->before = most(p->before, peak);
  atomic_store_explicit(&m->peak, account_used(m), memory_order_relaxed);
  return peak;
}


static void charge (heed_context *cx) {
  heed_profile *p = cx->profile;
  cell *c = &p->cells[p->at];
  heed_profile_record *r = &c->record;
  const int64_t t = now(p);
  c->time += t - p->last;
  r->bytes += p->bytes;
  r->peak = most(r->peak, take_peak(cx) + p->most_there);
  p->last = t;
  p->bytes = 0;
  p->most_there = p->there;
}


static void go_to (heed_context *cx, int record) {
  if (record == cx->profile->at) return;
  charge(cx);
  cx->profile->at = record;
}


static heed_region begin (heed_context *cx, const char *name, bool gradient, bool closed) {
  heed_profile *p = cx->profile;
  const heed_region before = {p->number, p->at, p->closed};
  go_to(cx, record_of(cx, name, gradient));
  p->cells[p->at].record.calls++;
  p->closed = closed;
  return before;
}


heed_region profile_enter (heed_context *cx, const char *name) {
  const heed_profile *p = cx->profile;
  if (p->closed) return (heed_region){p->number, p->at, true};
  return begin(cx, name, cx->scope.gradient, true);
}


heed_region profile_enter_gradient (heed_context *cx, const char *name, bool open) {
  return begin(cx, name, true, !open);
}


/* A profile that began or ended since has other records. */
void profile_leave (heed_context *cx, heed_region before) {
  heed_profile *p = cx->profile;
  if (p == NULL || p->number != before.profile) return;
  go_to(cx, before.record);
  p->closed = before.closed;
}


void profile_layer (heed_context *cx) {
  const heed_profile *p = cx->profile;
  const cell *c = &p->cells[p->at];
  if (p->closed) return;
  if (c->host) {
    go_to(cx, record_of(cx, "", false));
    return;
  }
  char name[sizeof c->name];
  memcpy(name, c->name, sizeof name);        /* cells move */
  go_to(cx, record_of(cx, name, c->record.gradient));
}


void profile_take (heed_context *cx, const device *where, size_t bytes, size_t capacity) {
  heed_profile *p = cx->profile;
  p->bytes += bytes;
  if (where->host) return;
  p->there += capacity;
  p->most_there = most(p->most_there, p->there);
}


void profile_give (heed_context *cx, size_t capacity) {
  heed_profile *p = cx->profile;
  p->there -= capacity < p->there ? capacity : p->there;
}


size_t profile_peak (const heed_context *cx) {
  return cx->profile != NULL ? cx->profile->before : 0;
}

/* }================================================================== */


/*
** {==================================================================
** For hosts
** ===================================================================
*/

/* Bytes of tensors on accelerators. */
static size_t used_there (heed_context *cx) {
  size_t used = 0;
  for (int i = 0; i < cx->devices.n; i++) {
    heed_device_memory m;
    device *d = cx->devices.list[i];
    if (d->accelerator == NULL) continue;
    d->accelerator->memory(d, &m);
    used += m.live;
  }
  return used;
}


static heed_profile *new_profile (heed_context *cx) {
  heed_profile *p = core_alloc(cx, sizeof *p);
  if (p == NULL) return NULL;
  *p = (heed_profile){.number = ++cx->profiles, .nslots = FIRST_SLOTS, .counts = machine_counts()};
  p->slots = new_slots(cx, FIRST_SLOTS);
  if (p->slots != NULL) return p;
  core_free(cx, p, sizeof *p);
  return NULL;
}


/* The first record is the host's, since there is one to charge. */
heed_profile *heed_profile_begin (heed_context *cx) {
  if (cx == NULL) return NULL;
  if (cx->profile != NULL) return core_fail(cx, "profile", "another profile runs already");
  if (capture_is_open(&cx->capture))
    return core_fail(cx, "profile", "work is captured: begin before the capture");
  heed_profile *p = cx->profile = new_profile(cx);
  if (p == NULL || !make_room(cx, p)) {
    cx->profile = NULL;
    heed_profile_drop(cx, p);
    return NULL;
  }
  record_of(cx, "", false);
  core_set_blocking(cx);
  take_peak(cx);
  p->there = p->most_there = used_there(cx);
  read_both(p, &p->clock, &p->began);
  p->last = p->began;
  return p;
}


bool heed_profile_end (heed_context *cx) {
  heed_profile *p = cx != NULL ? cx->profile : NULL;
  if (p == NULL) return cx != NULL && core_fail(cx, "profile", "no profile runs") != NULL;
  charge(cx);
  p->second = second_of(p);
  atomic_store_explicit(&cx->storages.account.peak, p->before, memory_order_relaxed);
  cx->profile = NULL;
  core_set_blocking(cx);
  return !p->lacking || core_fail(cx, "profile", "not enough memory for its records") != NULL;
}


int64_t heed_profile_records (const heed_profile *p) { return p != NULL ? p->n : 0; }


heed_profile_record heed_profile_record_at (const heed_profile *p, int64_t i) {
  if (p == NULL || i < 0 || i >= p->n) return (heed_profile_record){0};
  heed_profile_record r = p->cells[i].record;
  r.seconds = (double)p->cells[i].time * (p->second > 0 ? p->second : second_of(p));
  r.name = p->cells[i].host ? NULL : p->cells[i].name;
  return r;
}


void heed_profile_drop (heed_context *cx, heed_profile *p) {
  if (cx == NULL || p == NULL) return;
  if (p == cx->profile) heed_profile_end(cx);
  core_free(cx, p->slots, p->nslots * sizeof *p->slots);
  core_free(cx, p->cells, (size_t)p->capacity * sizeof *p->cells);
  core_free(cx, p, sizeof *p);
}


heed_region heed_region_begin (heed_context *cx, const char *name) {
  if (cx == NULL || cx->profile == NULL || name == NULL) return (heed_region){0};
  return profile_enter(cx, name);
}


void heed_region_end (heed_context *cx, heed_region region) {
  if (cx != NULL) profile_leave(cx, region);
}


int heed_layer (const heed_context *cx) { return cx != NULL ? cx->scope.layer : 0; }


int heed_set_layer (heed_context *cx, int layer) {
  if (cx == NULL) return 0;
  const int before = cx->scope.layer;
  cx->scope.layer = layer;
  if (before != layer && cx->profile != NULL) profile_layer(cx);
  return before;
}

/* }================================================================== */
