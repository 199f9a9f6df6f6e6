/*
** memory.c - the limit of a context: what it refuses, and in which words; exact sizes where a
** sanitizer looks.
*/

#include <stdio.h>
#include <string.h>

#include "failing.h"
#include "heed.h"
#include "heed_search.h"
#include "memory/context.h"
#include "memory/packed.h"
#include "tensor/tensor.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#define MIB ((size_t)1 << 20)

static int failed;

static void check (bool good, const char *what) {
  if (good) return;
  printf("memory: %s: wrong\n", what);
  failed = 1;
}


/* Did the last call fail so? */
static void refused (heed_context *cx, bool done, const char *begin) {
  const char *error = heed_error(cx);
  check(!done && error != NULL && strncmp(error, begin, strlen(begin)) == 0, begin);
  heed_clear(cx);
}


static void host_asks (heed_context *cx) {
  check(heed_memory_room(cx, 60 * MIB, "a table"), "room below the limit");
  refused(cx, heed_memory_room(cx, 70 * MIB, "a table"), "memory limit of 64.0 MiB: ");
  refused(cx, heed_memory_room(cx, SIZE_MAX, "a table"), "memory limit of 64.0 MiB: ");
  check(!heed_memory_room(NULL, 1, "a table"), "no context");
}


/*
** {==================================================================
** One ledger
** ===================================================================
*/

/* An element that stands for n. */
static heed_tensor *expanded (heed_context *cx, heed_type type, int64_t n) {
  heed_tensor *x = heed_empty(cx, type, 1, (int64_t[]){1});
  heed_tensor *y = heed_call(cx, HEED_expand, (heed_value[]){heed_t(x), heed_l(1, &n)}, 2);
  heed_drop(x);
  return y;
}


/* The outputs of all views of a leaf are alive: nodes and handles, and no data. */
static void graph_counts (heed_context *cx) {
  float zero = 0;
  const int64_t size[] = {1};
  heed_tensor *y = heed_from(cx, HEED_FLOAT32, 1, size, &zero);
  heed_require_grad(y, true);
  const size_t before = heed_memory_now(cx).other;
  while (heed_error(cx) == NULL) {
    heed_tensor *next = heed_call(cx, HEED_view, (heed_value[]){heed_t(y), heed_l(1, size)}, 2);
    if (next == NULL) break;
    heed_drop(y);
    y = next;
  }
  heed_memory now = heed_memory_now(cx);
  refused(cx, false, "view: memory limit of 64.0 MiB: ");
  check(now.other > before + 40 * MIB && now.live < MIB, "nodes are counted");
  check(now.live + now.other + now.cached <= now.limit, "nodes below the limit");
  heed_drop(y);
  heed_memory_trim(cx);
  check(heed_memory_now(cx).other < before + MIB, "nodes that were freed");
}


static void scratch_counts (heed_context *cx) {
  heed_tensor *x = expanded(cx, HEED_FLOAT32, 1 << 27), *out[HEED_RESULTS];
  heed_value of_x[] = {heed_t(x), heed_i(1)};
  refused(cx, heed_apply(cx, HEED_topk, of_x, 2, out) != 0, "topk: memory limit of 64.0 MiB: ");
  heed_drop(x);
  x = expanded(cx, HEED_FLOAT16, 1 << 26);
  heed_tensor *y = heed_call(cx, HEED_matmul, (heed_value[]){heed_t(x), heed_t(x)}, 2);
  refused(cx, y != NULL, "matmul: memory limit of 64.0 MiB: ");
  heed_drop(y);
  heed_drop(x);
  check(heed_memory_now(cx).other < MIB, "scratch memory is given back");
}


static void works_count (heed_context *cx) {
  heed_tensor *x = expanded(cx, HEED_FLOAT32, 1);
  check(heed_capture_begin(cx, "cpu"), "a capture begins");
  while (heed_apply_in_place(cx, HEED_neg, (heed_value[]){heed_t(x)}, 1)) {}
  refused(cx, false, "neg_: memory limit of 64.0 MiB: ");
  heed_capture_drop(cx, heed_capture_end(cx));
  heed_clear(cx);
  heed_drop(x);
}


/* A recorded step, with what it says of each parameter, goes as it came. */
static void steps_are_given_back (heed_context *cx) {
  const heed_step step = {.lr = 0.5, .step = 1};
  heed_tensor *x[2], *g[2];
  for (int i = 0; i < 2; i++) {
    x[i] = expanded(cx, HEED_FLOAT32, 1);
    g[i] = expanded(cx, HEED_FLOAT32, 1);
  }
  heed_memory_trim(cx);
  const size_t before = heed_memory_now(cx).other;
  check(heed_capture_begin(cx, "cpu") && heed_optimize(cx, HEED_SGD, &step, 2, x, g, NULL),
        "a step that is captured");
  heed_capture_drop(cx, heed_capture_end(cx));
  heed_memory_trim(cx);
  check(heed_memory_now(cx).other == before, "a recorded step");
  for (int i = 0; i < 2; i++) {
    heed_drop(x[i]);
    heed_drop(g[i]);
  }
}

/* }================================================================== */


/*
** {==================================================================
** A host that reclaims
** ===================================================================
*/

typedef struct asking { int calmly, urgently; } asking;

static void reclaim (void *self, size_t bytes, bool urgent) {
  asking *n = self;
  (void)bytes;
  *(urgent ? &n->urgently : &n->calmly) += 1;
}


/* A host is asked urgently, which may stop it for long, only where memory is short. */
static void asks_of_host (void) {
  asking n = {0};
  const int64_t some = 1 << 20, many = 1 << 25;
  heed_context *cx = heed_open(&(heed_host){.reclaim = reclaim, .self = &n});
  heed_memory_limit(cx, 64 * MIB);
  heed_drop(heed_empty(cx, HEED_FLOAT32, 1, &some));
  check(n.calmly > 0 && n.urgently == 0, "memory that there is");
  check(heed_empty(cx, HEED_FLOAT32, 1, &many) == NULL && n.urgently == 1, "memory that is short");
  heed_tensor *x = heed_empty(cx, HEED_FLOAT32, 1, &some);
  const heed_value args[] = {heed_t(x), heed_l(1, &some)};
  for (int i = 0; i < 3; i++) {
    n = (asking){0};
    if (i == 1) refused(cx, core_alloc(cx, 100 * MIB) != NULL, "memory limit of 64.0 MiB: ");
    heed_drop(heed_call(cx, HEED_view, args, 2));
    check(n.calmly == (i < 2) && n.urgently == 0, "the first call, and one after a refused block");
  }
  heed_drop(x);
  heed_close(cx);
}

/* }================================================================== */


/* AddressSanitizer sees the byte behind a tensor, and behind a block. */
static void sizes_are_exact (heed_context *cx) {
#ifdef __SANITIZE_ADDRESS__
  const size_t live = heed_memory_now(cx).live;
  heed_tensor *x = heed_empty(cx, HEED_BOOL, 1, (int64_t[]){5});
  check(heed_memory_now(cx).live == live + 5, "a tensor is counted exactly");
  check(__asan_address_is_poisoned((char *)heed_data(x) + 5), "a byte behind a tensor");
  const size_t other = heed_memory_now(cx).other;
  char *block = core_alloc(cx, 5);
  check(heed_memory_now(cx).other == other + 5, "a block is counted exactly");
  check(!__asan_address_is_poisoned(block + 4) && __asan_address_is_poisoned(block + 5),
        "a byte behind a block");
  core_free(cx, block, 5);
  check(__asan_address_is_poisoned(block), "a block that was freed");
  heed_drop(x);
#else
  (void)cx;
#endif
}


/* Tensors that live long lie side by side. */
static void lasting_ones_share (heed_context *cx) {
  heed_tensor *t[3];
  for (int i = 0; i < 3; i++) {
    heed_memory_lasting(cx, i < 2);
    t[i] = heed_empty(cx, HEED_FLOAT32, 1, (int64_t[]){1 << 14});
  }
  const char *first = heed_data(t[0]), *second = heed_data(t[1]), *other = heed_data(t[2]);
  check(HEED_EXACT || second - first == 1 << 16, "two lasting tensors");
  check(HEED_EXACT || other - second != 1 << 16, "a tensor that does not last");
  for (int i = 0; i < 3; i++) heed_drop(t[i]);
  for (int i = 0; i < 2; i++) t[i] = heed_empty(cx, HEED_Q8_0, 2, (int64_t[]){1 << 7, 1 << 12});
  first = heed_data(t[0]), second = heed_data(t[1]);
  check(HEED_EXACT || second - first == 17 << 15, "two in blocks");
  for (int i = 0; i < 2; i++) heed_drop(t[i]);
  check(!heed_memory_lasting(NULL, true), "no context");
  check(!heed_memory_lasting(cx, true) && heed_memory_lasting(cx, false), "what it was before");
}


/* Tensors that live long take the pages that they need, uncached; small ones are as others. */
static void lasting_ones_are_exact (heed_context *cx) {
  enum { PAGES = 5 * 256 + 1 };                          /* a class has 5.5 MiB */
  for (int lasting = 0; lasting < 2; lasting++) {
    heed_memory_lasting(cx, lasting == 1);
    const heed_memory before = heed_memory_now(cx);
    heed_tensor *large = heed_empty(cx, HEED_UINT8, 1, (int64_t[]){PAGES * 4096 - 5});
    heed_tensor *small = heed_empty(cx, HEED_UINT8, 1, (int64_t[]){(1 << 16) - 5});
    const size_t live = heed_memory_now(cx).live - before.live;
    check(HEED_EXACT || live == (lasting ? PAGES * 4096 : 11 << 19) + (1 << 16), "what it takes");
    heed_drop(large);
    heed_drop(small);
    const heed_memory after = heed_memory_now(cx);
    check(after.live == before.live, "what is given back");
    check(HEED_EXACT || after.cached - before.cached == (1 << 16) + (lasting ? 0 : 11 << 19),
          "what is cached");
    heed_memory_trim(cx);
  }
  heed_memory_lasting(cx, false);
}


static heed_tensor *pages (heed_context *cx, int64_t n) {
  return heed_empty(cx, HEED_UINT8, 1, &(int64_t){n * 4096});
}


/* Pages of a lasting tensor that was dropped serve the next one that they suffice for. */
static void dropped_pages_serve_again (heed_context *cx) {
  heed_memory_lasting(cx, true);
  heed_tensor *dropped = pages(cx, 20), *t[] = {pages(cx, 20), NULL, NULL};
  const char *first = heed_data(dropped), *second = heed_data(t[0]);
  heed_drop(dropped);
  t[1] = pages(cx, 21);
  t[2] = pages(cx, 20);
  const char *longer = heed_data(t[1]), *same = heed_data(t[2]);
  check(HEED_EXACT || second - first == 20 * 4096, "tensors side by side");
  check(HEED_EXACT || longer - second == 20 * 4096, "one page too few");
  check(HEED_EXACT || same == first, "as many pages");
  for (int i = 0; i < 3; i++) heed_drop(t[i]);
  heed_memory_lasting(cx, false);
}


/* Cached bytes make room for scratch memory, but where a host has an allocator of its own. */
static void scratch_takes_from_the_cache (void) {
  failing a = {.countdown = -1};
  for (int own = 0; own < 2 && !HEED_EXACT; own++) {
    const heed_host host = {.resize = failing_resize, .self = &a, .threads = 1};
    heed_context *cx = heed_open(own ? &host : NULL);
    heed_memory_limit(cx, 16 * MIB);
    heed_drop(heed_empty(cx, HEED_UINT8, 1, (int64_t[]){4 * MIB}));
    check(scratch_take(cx, MIB) && heed_memory_now(cx).cached == 4 * MIB, "room beside the cache");
    scratch_give(cx, MIB);
    const bool taken = scratch_take(cx, 14 * MIB);
    check(taken == !own && heed_memory_now(cx).cached == (own ? 4 * MIB : 0), "room in its place");
    if (taken) scratch_give(cx, 14 * MIB);
    heed_close(cx);
  }
}


/* A copy that a host has no memory for counts nothing, and may be had later. */
static void copies_may_get_none (void) {
  failing memory = {.countdown = -1};
  heed_context *cx = heed_open(&(heed_host){.resize = failing_resize, .self = &memory});
  heed_tensor *x = pages(cx, 1);
  const char *data = heed_data(x);
  const packed_key key = {.from = data, .by = data, .rows = 8, .columns = 16, .size = 4};
  const size_t live = heed_memory_now(cx).live;
  check(packed_ask(x->store, data), "a copy that is wanted");
  packed_copy *p = packed_find(x->store, data);
  memory.countdown = 0;
  check(packed_renew(p, &key, 5000) == NULL && memory.failed, "memory that a host has not");
  check(heed_memory_now(cx).live == live && heed_error(cx) == NULL, "what it counts");
  check(packed_renew(p, &key, 5000) != NULL && heed_memory_now(cx).live == live + 5000,
        "memory that a host has again");
  heed_drop(x);
  heed_close(cx);
  check(memory.alive == 0 && memory.bytes == 0, "what a host gets back");
}


typedef struct bounded { size_t used, most; } bounded;

/* A host's allocator that has so many bytes. */
static void *bounded_resize (void *self, void *block, size_t from, size_t to) {
  bounded *b = self;
  if (b->used - from + to > b->most) return NULL;
  b->used += to - from;
  if (to > 0) return realloc(block, to);
  free(block);
  return NULL;
}

/* Cached memory makes room for a block where the host has no more. */
static void blocks_take_from_the_cache (void) {
  bounded host = {.most = 4 * MIB};
  heed_context *cx = heed_open(&(heed_host){.resize = bounded_resize, .self = &host});
  heed_drop(heed_empty(cx, HEED_UINT8, 1, (int64_t[]){2 * MIB}));
  void *block = core_alloc(cx, 3 * MIB);
  check(block != NULL && heed_memory_now(cx).cached == 0, "a block in place of the cache");
  core_free(cx, block, 3 * MIB);
  heed_close(cx);
  check(host.used == 0, "what the host gets back");
}


/* A search gives back what it kept, and has a failure where it can keep nothing. */
static void searches_give_back (void) {
  enum { ROWS = 5000, K = 64 };
  static float data[ROWS];
  int64_t at[K];
  float scores[K];
  failing memory = {.countdown = -1};
  heed_context *cx = heed_open(&(heed_host){.resize = failing_resize, .self = &memory});
  const heed_rows rows = {HEED_ROWS_FLOAT32, ROWS, 1, sizeof *data, data, NULL};
  const heed_rows query = {HEED_ROWS_FLOAT32, 1, 1, sizeof *data, data, NULL};
  check(heed_nearest(cx, &rows, &query, NULL, K, at, scores) && at[K - 1] == K - 1, "a search");
  memory.countdown = 0;
  memory.onwards = true;
  refused(cx, heed_nearest(cx, &rows, &query, NULL, K, at, scores), "not enough memory: ");
  heed_close(cx);
  check(memory.alive == 0 && memory.bytes == 0, "what searches give back");
}


/*
** {==================================================================
** A machine whose memory is told: what it has left, and what of it this process has touched
** ===================================================================
*/

static size_t left = 1024 * MIB, touched = 0;
static bool is_told = false;

/* The linker gives heed these functions. */
size_t __real_machine_memory (void);
size_t __real_machine_resident (void);
size_t __wrap_machine_memory (void);
size_t __wrap_machine_resident (void);
size_t __wrap_machine_memory (void) { return is_told ? left : __real_machine_memory(); }
size_t __wrap_machine_resident (void) { return is_told ? touched : __real_machine_resident(); }

/* Memory that heed has touched is no more among what is left, but fits as well. */
static void machines_have_limits (heed_context *cx) {
  memory_account *m = &cx->storages.account;
  check(scratch_take(cx, 8 * MIB), "memory");
  const size_t used = account_used(m) + m->cached;
  static const size_t some[] = {0, 1000, 7 * MIB, 512 * MIB};
  for (int i = 0; i < 4; i++) {
    touched = some[i];
    m->limit = 0;
    check(heed_memory_now(cx).limit == left + (touched < used ? touched : used), "the limit");
  }
  left = SIZE_MAX - used, touched = used;
  m->limit = 0;
  check(heed_memory_now(cx).limit == SIZE_MAX, "up to all there is");
  left = SIZE_MAX - used + 1;
  m->limit = 0;
  check(heed_memory_now(cx).limit == SIZE_MAX, "and no more");
  scratch_give(cx, 8 * MIB);
  left = 100 * MIB;
  check(scratch_take(cx, left), "all that is left");
  scratch_give(cx, left);
  check(!scratch_take(cx, left + 1), "a byte more");
  touched = 0;
  refused(cx, !account_refused(cx, "f"), "f: memory limit of 100.0 MiB: ");
}

/* The machine is read again where more than 64 MiB were taken since, or are asked for. */
static void growth_is_looked_at (heed_context *cx) {
  memory_account *m = &cx->storages.account;
  left = 1024 * MIB;
  check(account_fits(m, 64 * MIB + 1) && m->limit == left, "a request that is large");
  left += MIB;
  check(account_fits(m, 64 * MIB) && m->limit == left - MIB, "no growth");
  check(scratch_take(cx, 60 * MIB) && account_fits(m, 4 * MIB), "growth that is little");
  check(m->limit == left - MIB && account_fits(m, 4 * MIB + 1) && m->limit == left, "growth");
  left = 10 * MIB;
  check(account_fits(m, 64 * MIB), "what was sure");
  check(!account_fits(m, 64 * MIB + 1) && !account_fits(m, 10 * MIB), "is sure no more");
  scratch_give(cx, 60 * MIB);
}

/* }================================================================== */


int main (void) {
  heed_context *cx = heed_open(NULL);
  dropped_pages_serve_again(cx);
  lasting_ones_share(cx);
  heed_memory_trim(cx);
  lasting_ones_are_exact(cx);
  heed_memory_trim(cx);
  sizes_are_exact(cx);
  heed_memory_limit(cx, 64 * MIB);
  host_asks(cx);
  graph_counts(cx);
  scratch_counts(cx);
  works_count(cx);
  steps_are_given_back(cx);
  heed_close(cx);
  asks_of_host();
  scratch_takes_from_the_cache();
  copies_may_get_none();
  searches_give_back();
  blocks_take_from_the_cache();
  is_told = true;
  cx = heed_open(NULL);
  machines_have_limits(cx);
  growth_is_looked_at(cx);
  heed_close(cx);
  printf("memory: %s\n", failed ? "wrong" : "the limit holds");
  return failed;
}
