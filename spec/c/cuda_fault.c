/*
** cuda_fault.c - what kernels report of bad values: which of many, with what is said of it; and
** that the device works on.
*/

#include "cuda_child.h"

#define SIZES(...) (int64_t[]){__VA_ARGS__}


/*
** {==================================================================
** Bad positions, beside the CPU's message
** ===================================================================
*/

static view positions (int64_t n, const int64_t *value) {
  view v = fresh(HEED_INT64, 1, &n);
  memcpy(v.data, value, (size_t)n * sizeof *value);
  return v;
}

/* A gather by n tensors of positions of one shape, all of which are bad, or 1. */
static void refused (both *b, const char *name, int n, const view *index, const int64_t *limit) {
  view held = filled(HEED_FLOAT32, 1, SIZES(1), 0, 1);
  work w;
  held.at = index[0].at;
  held.at.offset = 0;
  memset(held.at.stride, 0, sizeof held.at.stride);
  work_gather(&w, n, false, fresh(HEED_FLOAT32, held.at.rank, held.at.size), held);
  for (int k = 0; k < n; k++) {
    w.in[1 + k] = index[k];
    w.index.stride[k] = 1;
    w.index.size[k] = limit[k];
  }
  check(same(b, name, &w, 0), name);
}

static void refused_one (both *b, const char *name, int64_t n, const int64_t *value) {
  const view index = positions(n, value);
  refused(b, name, 1, &index, SIZES(5));
}


static void lanes (both *b) {
  int64_t value[32];
  for (int i = 0; i < 32; i++) value[i] = 100 + i;
  refused_one(b, "32 lanes of a warp", 32, value);
  for (int i = 0; i < 31; i++) value[i] = 1;
  refused_one(b, "the last of them", 32, value);
}


static void many (both *b) {
  const int64_t n = 1000000;
  int64_t *value = malloc((size_t)n * sizeof *value);
  for (int64_t i = 0; i < n; i++) value[i] = -i;
  refused_one(b, "a million", n, value);
  for (int64_t i = 0; i < 700000; i++) value[i] = 1;
  refused_one(b, "the last of a million", n, value);
  free(value);
}


static void values (both *b) {
  static const int64_t bad[] = {
    0, -1, 6, INT64_MAX, INT64_MIN, 1 << 20, (1 << 20) - 1, 1ll << 40, 0x123456789abcdef,
    -0x123456789abcdef
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    refused_one(b, "a value", 3, SIZES(1, 1, bad[i]));
  const view one = positions(2, SIZES(1, INT64_MAX));
  refused(b, "a limit", 1, &one, SIZES(0x123456789abcdef));
  refused(b, "no elements", 1, &one, SIZES(0));
}


/* The CPU checks the first tensor of positions before the second. */
static void several (both *b) {
  view both_bad[] = {positions(4, SIZES(1, 1, 9, 8)), positions(4, SIZES(77, 1, 78, 1))};
  refused(b, "positions in two tensors", 2, both_bad, SIZES(5, 50));
  view second_bad[] = {positions(4, SIZES(1, 1, 1, 1)), positions(4, SIZES(1, 79, 1, 78))};
  refused(b, "positions in the second", 2, second_bad, SIZES(5, 50));
}


static void layouts (both *b) {
  view v = positions(6, SIZES(1, 1, 9, 1, 8, 7));
  layout_dense(&v.at, 2, SIZES(2, 3));
  v.at = layout_transpose(&v.at, 0, 1);
  refused(b, "positions across", 1, &v, SIZES(5));
  v = positions(6, SIZES(9, 1, 8, 1, 7, 1));
  v.at = layout_narrow(&v.at, 0, 1, 2, 2);
  v.data = (int64_t *)v.data + v.at.offset;
  v.at.offset = 0;
  ((int64_t *)v.data)[2] = 44;
  refused(b, "every other position", 1, &v, SIZES(5));
  v = positions(3, SIZES(1, 9, 8));
  layout_expand(&v.at, &(layout){.rank = 2, .size = {4, 3}}, &v.at);
  refused(b, "repeated positions", 1, &v, SIZES(5));
}


/* x % y for integers, y with zeros from 'first' on and every 'step'. */
static void divisions (both *b) {
  for (int way = 0; way < 3; way++) {
    view x = filled(HEED_INT64, 2, SIZES(30, 40), 1, 100);
    view y = filled(HEED_INT64, 2, SIZES(40, 30), 1, 100), z = fresh(HEED_INT64, 2, x.at.size);
    y.at = layout_transpose(&y.at, 0, 1);
    for (int i = way == 2 ? 0 : 555; i < (way == 0 ? 556 : 1200); i++) ((int64_t *)y.data)[i] = 0;
    work w;
    work_map(&w, HEED_remainder, HEED_INT64, 2);
    w.out[0] = z;
    w.in[0] = x;
    w.in[1] = y;
    check(same(b, "a division", &w, 0), "a division by zero");
  }
}

/* }================================================================== */


/*
** {==================================================================
** Several works
** ===================================================================
*/

/* The next work reports the fault of an earlier one, by its name; the device stays usable. */
static void works (both *b) {
  device *d = b->gpu;
  const accelerator *a = d->accelerator;
  view x = vector_on(d, HEED_INT64), zero = view_number(integer(0));
  view one = view_number(integer(1));
  set(d, x, integer(7));
  check(map(d, HEED_remainder, x, x, zero) == NULL, "a division is not waited for");
  const char *why = map(d, HEED_add, x, x, one);
  check(why == NULL || d->op == HEED_remainder, "an asynchronous error has its operation's name");
  if (why == NULL) why = a->wait(d);
  check(says(why, "division by zero at position 1 (asynchronous"), "a fault is reported later");
  check(map(d, HEED_add, x, x, one) == NULL, "the device works after a fault");
  check(a->wait(d) == NULL, "a fault is reported once");
  a->block(d, true);
  why = map(d, HEED_floor_divide, x, x, zero);
  check(says(why, "division by zero at position 1"), "blocking reports at once");
  check(why != NULL && strstr(why, "asynchronous") == NULL && d->op == HEED_floor_divide,
        "and that is not asynchronous");
  d->free(d, x.data, N * 8);
}


/* A replay is an earlier call's work, unless it is waited for. */
static void asynchronous_replays (both *b) {
  device *d = b->gpu;
  const accelerator *a = d->accelerator;
  view x = vector_on(d, HEED_INT64), by = vector_on(d, HEED_INT64);
  const char *why;
  set(d, x, integer(7));
  set(d, by, integer(0));
  check(a->capture_begin(d) == NULL, "a capture begins");
  map(d, HEED_remainder, x, x, by);
  device_capture *c = a->capture_end(d, &why);
  check(c != NULL && a->capture_replay(d, c) == NULL, "a replay is not waited for");
  check(says(a->wait(d), "(asynchronous"), "so that its fault is reported later");
  a->block(d, true);
  d->op = HEED_NOPS;
  why = a->capture_replay(d, c);
  check(says(why, "division by zero at position 1") && strstr(why, "asynchronous") == NULL &&
        d->op == HEED_remainder, "blocking reports at once");
  a->capture_drop(d, c);
  d->free(d, x.data, N * 8);
  d->free(d, by.data, N * 8);
}


/* Sevens, divided by 'by', in which there is one zero. */
static void spoil_divisor (device *d, view by, int position) {
  int64_t x[N];
  for (int i = 0; i < N; i++) x[i] = i + 1 != position;
  d->upload(d, by.data, x, sizeof x);
}

/* Of two works that fail, the first is reported, whatever their positions are. */
static void two_works (both *b) {
  device *d = b->gpu;
  view x = vector_on(d, HEED_INT64), by = vector_on(d, HEED_INT64);
  set(d, x, integer(7));
  for (int times = 0; times < 3; times++) {
    spoil_divisor(d, by, 600);
    check(map(d, HEED_remainder, x, x, by) == NULL, "the first");
    spoil_divisor(d, by, 5);
    const char *why = map(d, HEED_floor_divide, x, x, by);
    if (why == NULL) why = d->accelerator->wait(d);
    check(says(why, "position 600") && d->op == HEED_remainder, "the first is reported");
    check(d->accelerator->wait(d) == NULL, "and that is all");
  }
  d->free(d, x.data, N * 8);
  d->free(d, by.data, N * 8);
}


/* The same with replays, which do the same launches again. */
static void two_replays (both *b) {
  device *d = b->gpu;
  const accelerator *a = d->accelerator;
  view x = vector_on(d, HEED_INT64), by = vector_on(d, HEED_INT64);
  const char *why;
  set(d, x, integer(7));
  check(a->capture_begin(d) == NULL, "a capture begins");
  map(d, HEED_remainder, x, x, by);
  device_capture *c = a->capture_end(d, &why);
  spoil_divisor(d, by, 600);
  why = a->capture_replay(d, c);
  spoil_divisor(d, by, 5);
  if (why == NULL) why = a->capture_replay(d, c);
  if (why == NULL) why = a->wait(d);
  check(says(why, "position 600"), "the first replay is reported");
  check(a->wait(d) == NULL, "and that is all");
  spoil_divisor(d, by, 700);
  why = map(d, HEED_floor_divide, x, x, by);
  spoil_divisor(d, by, 4);
  if (why == NULL) why = a->capture_replay(d, c);
  if (why == NULL) why = a->wait(d);
  check(says(why, "position 700") && d->op == HEED_floor_divide,
        "a work before a replay of earlier work is the first");
  a->capture_drop(d, c);
  d->free(d, x.data, N * 8);
  d->free(d, by.data, N * 8);
}

/* }================================================================== */


/* Threads take turns at every atomic operation, of which a launch may do so many. */
static void run_counted (const char *most, const char *name, void (*f) (both *b)) {
  setenv("HEED_EMULATED_ATOMICS", most, 1);
  run(name, f);
  unsetenv("HEED_EMULATED_ATOMICS");
}


int main (void) {
  run_counted("400", "32 lanes do not wait for one another", lanes);
  run_counted("20000", "a million bad positions", many);
  run_counted("20000", "two tensors of positions", several);
  run("values and limits", values);
  run("layouts", layouts);
  run("divisions", divisions);
  run("works", works);
  run("asynchronous replays", asynchronous_replays);
  run("two works", two_works);
  run("two replays", two_replays);
  printf("%d wrong\n", wrong);
  return wrong > 0;
}
