/*
** ledger.c - where bytes of the host's memory go, one by one: classes of size, caches, the limit to
** the byte; how failures are kept, and put into words.
*/

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failing.h"
#include "heed.h"
#include "memory/context.h"
#include "memory/packed.h"
#include "tensor/tensor.h"

#define MIB ((size_t)1 << 20)

static int failed;

static void check (bool good, const char *what) {
  if (good) return;
  printf("ledger: %s: wrong\n", what);
  failed = 1;
}

static heed_tensor *bytes_of (heed_context *cx, size_t n) {
  const int64_t size = (int64_t)n;
  return heed_empty(cx, HEED_UINT8, 1, &size);
}

static bool says (heed_context *cx, const char *text) {
  const char *error = heed_error(cx);
  const bool good = error != NULL && strcmp(error, text) == 0;
  if (!good) printf("ledger: '%s' expected, got '%s'\n", text, error != NULL ? error : "nothing");
  heed_clear(cx);
  return good;
}


/*
** {==================================================================
** Words
** ===================================================================
*/

static void numbers_have_units (void) {
  static const struct { size_t n; const char *text; } some[] = {
    {0, "0 bytes"}, {1, "1 byte"}, {2, "2 bytes"}, {1023, "1023 bytes"}, {1024, "1.0 KiB"},
    {1126, "1.0 KiB"}, {1127, "1.1 KiB"}, {2047, "1.9 KiB"}, {1048575, "1023.9 KiB"},
    {1048576, "1.0 MiB"}, {(size_t)3 << 29, "1.5 GiB"}, {(size_t)1 << 40, "1.0 TiB"},
    {(size_t)1 << 50, "1.0 PiB"}, {SIZE_MAX, "15.9 EiB"}
  };
  for (size_t i = 0; i < sizeof some / sizeof *some; i++)
    check(strcmp(core_bytes(some[i].n).text, some[i].text) == 0, some[i].text);
}

static void failures_are_kept (heed_context *cx) {
  check(heed_error(cx) == NULL && core_done(cx, "f", NULL), "no failure");
  check(!core_done(cx, "f", "it is lost") && !core_done(cx, "g", "later"), "two failures");
  check(says(cx, "f: it is lost"), "the first is kept");
  core_fail(cx, NULL, "%d", 7);
  check(says(cx, "7"), "without a function");
  core_fail_at(cx, "f", "x", "no %s", "number");
  core_fail_async(cx, "g", "later");
  check(says(cx, "f: argument 'x': no number"), "an argument");
  core_fail_at(cx, NULL, "x", "none");
  check(says(cx, "argument 'x': none"), "an argument of no function");
  core_fail_at(cx, "f", NULL, "none");
  check(says(cx, "f: none"), "no argument");
  heed_set_caller(cx, "mine");
  core_fail(cx, "f", "none");
  check(says(cx, "mine: none"), "the caller is named");
  core_fail_async(cx, "f", "none");
  check(says(cx, "f: none"), "unless an earlier call failed");
  core_fail_at(cx, "f", "x", "none");
  check(says(cx, "mine: argument 'x': none"), "the caller, and an argument");
  heed_set_caller(cx, NULL);
  check(core_given(cx, "f", "rows", cx) && heed_error(cx) == NULL, "what is given");
  check(!core_given(cx, "f", "rows", NULL) && says(cx, "f: rows expected, got NULL"), "or not");
  core_fail(cx, "f", "got %g, %g", -NAN, NAN);
  check(says(cx, "f: got nan, nan"), "a NaN has no sign");
  heed_fail(cx, "%s: %d", "mine", 3);
  heed_fail(cx, "later");
  core_fail(cx, "f", "later");
  check(says(cx, "mine: 3"), "a host's own words");
  core_fail(cx, "f", "first");
  heed_fail(cx, "later");
  check(says(cx, "f: first"), "a host's words behind a failure");
  heed_fail(NULL, "none");
  heed_clear(NULL);
  check(strcmp(heed_error(NULL), "no context: not enough memory, or no such level") == 0,
        "the failure of no context");
}

/* Long words are cut, each where its place ends. */
static void words_are_cut (heed_context *cx) {
  char name[200], text[1200], wanted[1200];
  memset(name, 'n', 199);
  memset(text, 't', 1199);
  name[199] = text[1199] = '\0';
  core_fail_at(cx, name, name, "%s", text);
  snprintf(wanted, sizeof wanted, "%.63s: argument '%.63s': %.799s", name, name, text);
  check(says(cx, wanted), "a long failure");
  core_fail_async(cx, name, text);
  snprintf(wanted, sizeof wanted, "%.63s: %.799s", name, text);
  check(says(cx, wanted), "an earlier call's");
  heed_fail(cx, "%s", text);
  check(strlen(heed_error(cx)) == 1023, "a host's");
  heed_clear(cx);
}

/* }================================================================== */


/*
** {==================================================================
** Small blocks
** ===================================================================
*/

static void blocks_are_cached (heed_context *cx) {
  memory_account *m = &cx->storages.account;
  core_trim(cx);
  check(cx->blocks.bytes == 0, "no block is kept");
  for (size_t bytes = 0; bytes < 4300; bytes += bytes % 64 == 1 ? 62 : 1) {
    const size_t size = bytes > 4096 ? bytes : bytes == 0 ? 64 : (bytes + 63) / 64 * 64;
    const size_t before = m->blocks;
    void *block = core_alloc(cx, bytes);
    check(block != NULL && m->blocks == before + size && cx->blocks.bytes == 0, "a block");
    core_free(cx, block, bytes);
    const bool kept = size <= 4096;
    check(cx->blocks.bytes == (kept ? size : 0) && m->blocks == before + (kept ? size : 0),
          "a block that is kept");
    if (kept) {
      check(core_alloc(cx, size) == block && cx->blocks.bytes == 0 && m->blocks == before + size,
            "and used again");
      core_free(cx, block, size);
    }
    core_trim(cx);
    check(cx->blocks.bytes == 0 && m->blocks == before, "and given back");
  }
  core_free(cx, NULL, 64);
  check(cx->blocks.bytes == 0, "no block");
}

static void the_cache_is_bounded (heed_context *cx) {
  enum { MANY = 5000 };
  static void *block[MANY];
  const size_t before = cx->storages.account.blocks;
  for (int i = 0; i < MANY; i++) block[i] = core_alloc(cx, 4096);
  for (int i = 0; i < MANY; i++) core_free(cx, block[i], 4096);
  check(cx->blocks.bytes == 16 * MIB && cx->storages.account.blocks == before + 16 * MIB,
        "as many blocks as are kept");
  core_trim(cx);
  check(cx->storages.account.blocks == before, "none is kept");
}

static void lists_grow (heed_context *cx) {
  int *list = NULL;
  int64_t capacity = 0;
  for (int n = 0; n < 300; n++) {
    check(core_grow(cx, (void **)&list, n, &capacity, sizeof *list), "a list grows");
    check(capacity == (n < 64 ? 64 : n < 128 ? 128 : n < 256 ? 256 : 512), "by doubling");
    list[n] = n;
  }
  for (int n = 0; n < 300; n++) check(list[n] == n, "with what it holds");
  core_free(cx, list, (size_t)capacity * sizeof *list);
}

/* }================================================================== */


/*
** {==================================================================
** Storage
** ===================================================================
*/

/* The least block that holds so many: two sizes to a doubling below 1 MiB, then eight. */
static size_t capacity_of (size_t bytes) {
  size_t power = 64;
  if (bytes <= power) return power;
  while (2 * power < bytes) power *= 2;
  const size_t step = power / (power < MIB ? 2 : 8);
  return power + (bytes - power + step - 1) / step * step;
}

static void storage_has_classes (heed_context *cx) {
  heed_memory_trim(cx);
  for (size_t power = 32; power < 64 * MIB; power *= 2)
    for (size_t part = 0; part < 8; part++)
      for (size_t more = 0; more < 3; more++) {
        const size_t bytes = power + part * power / 8 + more - 1, live = heed_memory_now(cx).live;
        heed_tensor *x = bytes_of(cx, bytes), *y = heed_keep(x);
        const heed_memory now = heed_memory_now(cx);
        check(now.live == live + capacity_of(bytes) && now.cached == 0, "the size of a block");
        heed_drop(y);
        const char *data = heed_data(x);
        heed_drop(x);
        check(heed_memory_now(cx).live == live &&
              heed_memory_now(cx).cached == capacity_of(bytes), "a block is kept");
        x = bytes_of(cx, capacity_of(bytes));
        check(heed_data(x) == data && heed_memory_now(cx).cached == 0, "and used again");
        heed_drop(x);
        heed_memory_trim(cx);
        check(heed_memory_now(cx).cached == 0, "and given back");
      }
}

/* Pages of the largest are never touched. */
static void the_largest_have_none (heed_context *cx) {
  const size_t most = (size_t)4 << 30, limit = heed_memory_now(cx).limit;
  heed_memory_limit(cx, 4 * most);
  const size_t live = heed_memory_now(cx).live;
  heed_tensor *x = bytes_of(cx, most - 5), *y = bytes_of(cx, most + 1);
  if (x != NULL && y != NULL) {
    check(heed_memory_now(cx).live == live + most + most + 4096, "a size, and whole pages");
    heed_drop(x);
    check(heed_memory_now(cx).cached == most, "the largest that is kept");
    heed_drop(y);
    check(heed_memory_now(cx).cached == 0, "nothing is, where little is live");
  }
  else {
    check(limit < 4 * most, "memory");
    heed_drop(x);
    heed_drop(y);
  }
  heed_clear(cx);
  heed_memory_trim(cx);
  heed_memory_limit(cx, 0);
}

static void sizes_wanted_longest_ago_go (heed_context *cx) {
  static const size_t sizes[] = {20 * MIB, 28 * MIB, 16 * MIB, 8 * MIB};
  heed_memory_trim(cx);
  check(heed_memory_now(cx).live < MIB, "little is live");
  for (int i = 0; i < 3; i++) heed_drop(bytes_of(cx, sizes[i]));
  check(heed_memory_now(cx).cached == 64 * MIB, "as much as is kept, however little is live");
  heed_drop(bytes_of(cx, sizes[0]));
  heed_drop(bytes_of(cx, sizes[3]));
  check(heed_memory_now(cx).cached == 44 * MIB, "the size that was not wanted for longest goes");
  heed_tensor *x = bytes_of(cx, 80 * MIB);
  check(heed_memory_now(cx).cached == 44 * MIB, "nothing goes while more is live");
  heed_drop(bytes_of(cx, 48 * MIB));
  check(heed_memory_now(cx).cached == (16 + 8 + 48) * MIB, "of two sizes the larger goes");
  heed_drop(x);
  check(heed_memory_now(cx).cached == (8 + 48) * MIB, "less is live, less is kept");
  heed_memory_trim(cx);
}

/* }================================================================== */


/*
** {==================================================================
** The limit
** ===================================================================
*/

static void the_limit_is_exact (void) {
  heed_context *cx = heed_open(NULL);
  heed_tensor *x = bytes_of(cx, MIB);
  heed_drop(bytes_of(cx, 64));       /* its handle and header are kept */
  heed_memory_trim(cx);
  heed_tensor *warm = bytes_of(cx, 64);
  heed_drop(warm);
  heed_memory now = heed_memory_now(cx);
  size_t used = now.live + now.other;
  heed_memory_limit(cx, used + now.cached + MIB);
  now = heed_memory_now(cx);
  check(now.limit == used + now.cached + MIB, "the limit");
  heed_tensor *y = bytes_of(cx, MIB);
  check(y != NULL, "what fits to the byte");
  heed_drop(y);
  heed_memory_trim(cx);
  now = heed_memory_now(cx);
  used = now.live + now.other;
  check(heed_memory_room(cx, now.limit - used, "a table"), "room to the byte");
  check(!heed_memory_room(cx, now.limit - used + 1, "a table"), "a byte more");
  char text[200];
  snprintf(text, sizeof text, "memory limit of %s: %s in use, a table needs %s more",
           core_bytes(now.limit).text, core_bytes(used).text,
           core_bytes(now.limit - used + 1).text);
  check(says(cx, text), "what it says");
  heed_drop(x);
  now = heed_memory_now(cx);
  check(now.cached == MIB && heed_memory_room(cx, MIB, "a table"), "what is kept makes room");
  check(heed_memory_room(cx, now.limit - now.live - now.other, "a table"), "with what is free");
  check(!heed_memory_room(cx, now.limit - now.live - now.other + 1, "a table"), "and no more");
  heed_clear(cx);
  heed_memory_limit(cx, now.limit - 1);
  check(heed_memory_now(cx).cached == MIB, "a limit that all fits into");
  heed_memory_limit(cx, now.live + now.other + now.cached - 1);
  check(heed_memory_now(cx).cached == 0, "one that it does not");
  heed_memory_limit(cx, 0);
  check(heed_memory_now(cx).limit > 0, "the machine's limit again");
  heed_memory_limit(NULL, 1);
  check(heed_memory_now(NULL).limit == 0, "no context");
  heed_close(cx);
}

/* Blocks are not kept where they and the rest would be more than a limit that came later. */
static void nothing_is_kept_beyond (void) {
  heed_context *cx = heed_open(NULL);
  heed_tensor *x = bytes_of(cx, MIB), *y = bytes_of(cx, 2 * MIB);
  heed_memory_limit(cx, 2 * MIB);
  heed_drop(x);
  check(heed_memory_now(cx).cached == 0, "a block beyond the limit goes");
  heed_drop(y);
  check(heed_memory_now(cx).cached == 2 * MIB, "one that fits is kept");
  heed_close(cx);
}

static void peaks_are_noted (void) {
  heed_context *cx = heed_open(NULL);
  heed_drop(bytes_of(cx, 3 * MIB));
  const heed_memory now = heed_memory_now(cx);
  check(now.peak >= 3 * MIB && now.peak < 4 * MIB, "the most at once");
  heed_drop(bytes_of(cx, 2 * MIB));
  check(heed_memory_now(cx).peak == now.peak, "which less does not change");
  check(scratch_take(cx, 8 * MIB), "scratch memory");
  check(heed_memory_now(cx).peak > 8 * MIB && heed_memory_now(cx).other > 8 * MIB, "counts");
  scratch_give(cx, 8 * MIB);
  check(heed_memory_now(cx).other < MIB, "until it is given back");
  const size_t other = heed_memory_now(cx).other;
  if (heed_memory_now(cx).limit < SIZE_MAX / 4) {
    check(!scratch_take(cx, SIZE_MAX / 2) && heed_memory_now(cx).other == other, "all there is");
    check(account_refused(cx, "f"), "more than the machine has");
    heed_clear(cx);
  }
  check(scratch_take(cx, ACCOUNT_READ_EVERY), "what nobody looks at the machine for");
  check(heed_memory_now(cx).other == other + ACCOUNT_READ_EVERY, "counts, too");
  scratch_give(cx, ACCOUNT_READ_EVERY);
  heed_memory_limit(cx, MIB);
  check(!scratch_take(cx, 2 * MIB) && !scratch_take(cx, 3 * MIB), "more than the limit");
  check(account_refused(cx, "f") && !account_refused(cx, "f"), "is refused once");
  check(strstr(heed_error(cx), "f: memory limit of 1.0 MiB: ") == heed_error(cx) &&
        strstr(heed_error(cx), ", scratch memory needs 3.0 MiB more") != NULL, "in such words");
  heed_clear(cx);
  heed_close(cx);
}

/* }================================================================== */


/* A copy of a weight serves the product that it was made for, while the weight is the same. */
static void copies_serve_one_product (heed_context *cx) {
  heed_tensor *x = bytes_of(cx, 131072), *other = bytes_of(cx, 64);
  const char *data = heed_data(x);
  storage *s = x->store;
  const size_t live = heed_memory_now(cx).live;
  packed_key key = {.from = data, .by = data, .rows = 8, .columns = 16, .size = 4};
  check(packed_find(s, data) == NULL && packed_ask(s, data), "a copy that is wanted");
  packed_copy *p = packed_find(s, data);
  check(p != NULL && packed_ask(s, data) && packed_find(s, data) == p, "once");
  check(packed_find(s, data + 64) == NULL && packed_find(other->store, data) == NULL, "no other");
  check(packed_ask(s, data + 64) && packed_find(s, data + 64) != p, "of another part");
  for (int i = 2; i < 2000; i++) check(packed_ask(s, data + 64 * i), "many parts");
  for (int i = 0; i < 2000; i++)
    check(packed_find(s, data + 64 * i) != NULL && packed_find(s, data + 64 * i)->from ==
          data + 64 * i, "a part among many");
  check(packed_data(p, &key) == NULL, "it is not there yet");
  void *copy = packed_renew(p, &key, 5000);
  check(copy != NULL && heed_memory_now(cx).live == live + 5000, "its memory");
  check(packed_data(p, &key) == NULL, "nor is it made");
  packed_done(p, &key);
  check(packed_data(p, &key) == copy, "the copy");
  for (int i = 0; i < 5; i++) {
    packed_key wrong = key;
    if (i == 0) wrong.from = data + 1;
    else if (i == 1) wrong.by = data + 1;
    else if (i == 2) wrong.rows += 1;
    else if (i == 3) wrong.columns += 1;
    else wrong.size += 1;
    check(packed_data(p, &wrong) == NULL, "another product");
    if (i == 0) check(packed_renew(p, &wrong, 5000) == NULL, "another weight");
  }
  check(packed_data(p, &key) == copy, "the copy is as it was");
  s->version++;
  check(packed_data(p, &key) == NULL, "a weight that has changed");
  check(packed_renew(p, &key, 5000) == copy && heed_memory_now(cx).live == live + 5000,
        "its memory serves again");
  packed_done(p, &key);
  check(packed_data(p, &key) == copy, "a new copy");
  check(packed_renew(p, &key, 6000) != NULL && heed_memory_now(cx).live == live + 6000,
        "memory of another size");
  check(packed_data(p, &key) == NULL, "which has no copy yet");
  const heed_memory now = heed_memory_now(cx);
  heed_memory_limit(cx, now.live + now.other + now.cached);
  check(packed_renew(p, &key, 7000) == NULL && heed_memory_now(cx).live == live,
        "a copy that there is no memory for");
  heed_memory_limit(cx, 0);
  check(heed_error(cx) == NULL, "is no failure");
  check(packed_renew(p, &key, 7000) != NULL, "memory again");
  packed_key second = key;
  second.from = data + 64;
  const char *large = packed_renew(p, &key, 1 << 16);
  const char *next = packed_renew(packed_find(s, data + 64), &second, 1 << 16);
  check(large != NULL && next == large + (1 << 16) && !storage_lasts(cx), "copies share pages");
  heed_drop(x);
  check(heed_memory_now(cx).live == live - 131072, "copies go with their weight");
  heed_drop(other);
}


/*
** {==================================================================
** Hosts
** ===================================================================
*/

typedef struct asked { heed_context *cx; int calmly, urgently; size_t bytes; bool stopped; } asked;

/* Settings made here end here, and no interruption comes before the end of the call. */
static void reclaim (void *self, size_t bytes, bool urgent) {
  asked *a = self;
  *(urgent ? &a->urgently : &a->calmly) += 1;
  a->bytes = bytes;
  if (a->cx == NULL) return;
  heed_set_recording(a->cx, false);
  heed_set_caller(a->cx, "reclaim");
  heed_interrupt(a->cx);
  a->stopped = a->stopped || heed_interrupted(a->cx);
}

static void hosts_are_asked (void) {
  asked a = {0};
  heed_context *cx = heed_open(&(heed_host){.reclaim = reclaim, .self = &a});
  a = (asked){.cx = cx};
  heed_drop(bytes_of(cx, 3 * MIB + 5));
  check(a.calmly == 1 && a.urgently == 0 && a.bytes == 3 * MIB + 5, "what a tensor needs");
  check(heed_recording(cx) && heed_set_caller(cx, NULL) == NULL && !a.stopped, "its settings");
  check(heed_interrupted(cx) && says(cx, "interrupted"), "the interruption comes afterwards");
  heed_memory_limit(cx, 8 * MIB);
  a = (asked){0};
  check(bytes_of(cx, 9 * MIB) == NULL && a.calmly == 1 && a.urgently == 1 && a.bytes == 9 * MIB,
        "more than there is");
  heed_clear(cx);
  heed_memory_limit(cx, 0);
  heed_close(cx);
}

static void *take (device *d, size_t bytes) { (void)d; return malloc(bytes); }
static void give (device *d, void *data, size_t bytes) { (void)d; (void)bytes; free(data); }

/* A device's bytes count as if it had 512 MiB. */
static void devices_are_large (void) {
  asked a = {0};
  heed_context *cx = heed_open(&(heed_host){.reclaim = reclaim, .self = &a});
  device d = {.name = "large", .alloc = take, .free = give};
  for (int less = 0; less < 2; less++) {
    d.memory = 1024 * MIB - (size_t)less;
    storage *s = storage_new(cx, &d, 4 * MIB);
    check(s != NULL && a.bytes == (less ? 4 : 2) * MIB, "a large device's bytes");
    storage_drop(s);
  }
  heed_close(cx);
}

/* Memory is short where more than seven eighths of the limit are taken: the next question comes
   after a sixteenth of the growth. */
static void memory_is_short (void) {
  asked a = {0};
  heed_context *cx = heed_open(&(heed_host){.reclaim = reclaim, .self = &a});
  memory_account *m = &cx->storages.account;
  const size_t live = m->live;
  m->limited = true;
  m->limit = 800 * MIB;
  m->live = 700 * MIB - m->blocks;
  storage_relieve(cx);
  check(a.calmly == 1 && a.urgently == 0 && m->pressed == m->blocks + MIB, "seven eighths");
  m->live++;
  storage_relieve(cx);
  check(a.calmly == 1 && a.urgently == 1 && m->pressed == m->blocks + MIB / 16, "a byte more");
  m->live = live;
  heed_memory_limit(cx, 0);
  heed_close(cx);
}

/* Each time that handles and nodes have taken a MiB more; the sooner, where memory is short. */
static void hosts_drop_handles (void) {
  enum { MANY = 20000 };
  static heed_tensor *views[MANY];
  const int64_t four = 4;
  asked a = {0};
  heed_context *cx = heed_open(&(heed_host){.reclaim = reclaim, .self = &a});
  heed_tensor *x = bytes_of(cx, 4);
  const heed_value args[] = {heed_t(x), heed_l(1, &four)};
  a.calmly = 0;
  const size_t before = heed_memory_now(cx).other;
  for (int i = 0; i < MANY; i++) views[i] = heed_call(cx, HEED_view, args, 2);
  const int grown = (int)((heed_memory_now(cx).other - before) / MIB);
  check(grown > 2 && a.calmly >= grown - 1 && a.calmly <= grown + 1 && a.urgently == 0,
        "growth of handles");
  check(a.bytes == MIB, "as much as there is growth between two questions");
  for (int i = 0; i < MANY; i++) heed_drop(views[i]);
  heed_memory_trim(cx);
  heed_memory_limit(cx, 8 * MIB);
  a = (asked){0};
  int n = 0;
  while (n < MANY && (views[n] = heed_call(cx, HEED_view, args, 2)) != NULL) n++;
  check(n == MANY || (a.calmly >= 5 && a.urgently >= 12), "a limit that comes nearer");
  heed_clear(cx);
  while (n > 0) heed_drop(views[--n]);
  heed_drop(x);
  heed_close(cx);
}

static void hosts_allocate (void) {
  failing memory = {.countdown = -1};
  heed_context *cx = heed_open(&(heed_host){.resize = failing_resize, .self = &memory});
  for (size_t bytes = 1; bytes < MIB; bytes *= 3) {
    heed_tensor *x = bytes_of(cx, bytes);
    check((uintptr_t)heed_data(x) % 64 == 0, "where a tensor lies");
    memset(heed_data(x), 1, bytes);
    heed_drop(x);
  }
  heed_close(cx);
  check(memory.alive == 0 && memory.bytes == 0, "what a host's allocator gets back");
}

/* }================================================================== */


/* A large block that grows, where the host has memory when asked again, and where it has none. */
static void hosts_grow_blocks (void) {
  failing memory = {.countdown = -1};
  heed_context *cx = heed_open(&(heed_host){.resize = failing_resize, .self = &memory});
  const size_t size = 10000;
  char *block = core_alloc(cx, size);
  if (block == NULL) {
    check(false, "a block");
    return;
  }
  memset(block, 7, size);
  memory.countdown = 0;
  char *grown = core_resize(cx, block, size, 2 * size);
  check(memory.failed && grown != NULL && heed_error(cx) == NULL, "a block that grows after all");
  if (grown == NULL) grown = block;
  memory.countdown = 0;
  memory.onwards = true;
  check(core_resize(cx, grown, 2 * size, 4 * size) == NULL && heed_error(cx) != NULL,
        "a block that cannot grow");
  for (size_t i = 0; i < size; i++) check(grown[i] == 7, "what it holds");
  core_free(cx, grown, 2 * size);
  heed_close(cx);
  check(memory.alive == 0 && memory.bytes == 0, "what is given back");
}


/* A context has all of its memory, or there is none, and nothing is left. */
static void contexts_open_whole (void) {
  int n = 0;
  for (bool opened = false; !opened && n < 100; n++) {
    failing memory = {.countdown = n, .onwards = true};
    heed_context *cx = heed_open(&(heed_host){.resize = failing_resize, .self = &memory});
    opened = !memory.failed;
    check((cx != NULL) == opened, "a context without memory");
    memory.countdown = -1;
    heed_close(cx);
    check(memory.alive == 0, "what is left of it");
  }
  check(n > 3 && n < 100, "requests of a context");
}


int main (void) {
  heed_context *cx = heed_open(NULL);
  contexts_open_whole();
  numbers_have_units();
  failures_are_kept(cx);
  words_are_cut(cx);
  lists_grow(cx);
  if (!HEED_EXACT) {
    blocks_are_cached(cx);
    the_cache_is_bounded(cx);
    storage_has_classes(cx);
    the_largest_have_none(cx);
    sizes_wanted_longest_ago_go(cx);
    the_limit_is_exact();
    nothing_is_kept_beyond();
  }
  peaks_are_noted();
  if (!HEED_EXACT) copies_serve_one_product(cx);
  hosts_are_asked();
  devices_are_large();
  memory_is_short();
  if (!HEED_EXACT) hosts_drop_handles();
  hosts_allocate();
  hosts_grow_blocks();
  heed_close(cx);
  if (!failed) puts("ledger: to the byte");
  return failed;
}
