/*
** cuda_stress.c - bad values in masses: a warp of them, works in a row of them, ten million. The
** GPU reports bad values in no more time than good ones take; an emulated GPU gets fewer.
*/

#include "memory/machine.h"
#include "cuda_child.h"

#define LIMIT 5                    /* positions from 1 to it are good */
#define WARP 32
#define LONGEST 2000000000         /* nanoseconds on a GPU; a lock for each fault takes minutes */

typedef struct masses { view index, held, out; } masses;

static int64_t fewer_if_emulated (const both *b, int64_t n) {
  return strcmp(b->cx->devices.plugin->built, "emulated") == 0 ? n / 100 : n;
}


static view vector_of (device *d, heed_type type, int64_t n) {
  view v = {.type = type};
  layout_dense(&v.at, 1, &n);
  v.data = d->alloc(d, (size_t)n * scalar_sizes[type]);
  return v;
}

static void take (device *d, view v) {
  d->free(d, v.data, (size_t)layout_numel(&v.at) * scalar_sizes[v.type]);
}


/* n positions, 'good' of them 2, and those behind them from 'bad' on. */
static masses masses_of (device *d, int64_t n, int64_t good, int64_t bad) {
  masses m = {vector_of(d, HEED_INT64, n), vector_of(d, HEED_FLOAT32, LIMIT),
              vector_of(d, HEED_FLOAT32, n)};
  const float held[LIMIT] = {1, 2, 3, 4, 5};
  int64_t *positions = malloc((size_t)n * sizeof *positions);
  for (int64_t i = 0; i < n; i++) positions[i] = i < good ? 2 : bad + i - good;
  check(d->upload(d, m.index.data, positions, (size_t)n * sizeof *positions) == NULL, "positions");
  check(d->upload(d, m.held.data, held, sizeof held) == NULL, "what they lead to");
  free(positions);
  return m;
}

static void masses_drop (device *d, masses m) {
  take(d, m.index);
  take(d, m.held);
  take(d, m.out);
}


/* out[i] = held[index[i]], or held[index[i]] = out[i]. */
static const char *move (device *d, const masses *m, bool scatter) {
  work w;
  view held = m->held;
  held.at = m->out.at;
  held.at.stride[0] = 0;
  if (scatter) work_scatter(&w, SCATTER_SET, 1, false, held, m->out);
  else work_gather(&w, 1, false, m->out, held);
  w.in[1] = m->index;
  w.index.stride[0] = 1;
  w.index.size[0] = LIMIT;
  d->op = scatter ? HEED_scatter : HEED_gather;
  return d->run(d, &w);
}

/* Waits too; NULL: all positions were good. */
static const char *moved (device *d, const masses *m, bool scatter, int64_t *nanoseconds) {
  const int64_t began = machine_clock();
  const char *why = move(d, m, scatter);
  if (why == NULL) why = d->accelerator->wait(d);
  *nanoseconds = machine_clock() - began;
  return why;
}


/* All lanes of a warp, then fewer of them, by gather and scatter: the first is reported. */
static void warp (both *b) {
  device *d = b->gpu;
  int64_t took;
  for (int good = 0; good < WARP; good++) {
    masses m = masses_of(d, WARP, good, 100);
    for (int scatter = 0; scatter < 2; scatter++) {
      check(says(moved(d, &m, scatter, &took), "index 100 at"), "the first bad lane is reported");
      check(d->accelerator->wait(d) == NULL, "once");
    }
    masses_drop(d, m);
  }
}


/* A thousand bad works before anybody waits: the first is reported, the device works on. */
static void in_a_row (both *b) {
  device *d = b->gpu;
  const int64_t works = fewer_if_emulated(b, 1000) + 10;
  masses first = masses_of(d, WARP, 0, 700), later = masses_of(d, WARP, 0, 900);
  masses good = masses_of(d, WARP, WARP, 0);
  const char *why = move(d, &first, false);
  for (int64_t i = 0; i < works && why == NULL; i++) why = move(d, &later, i % 2 == 0);
  if (why == NULL) why = d->accelerator->wait(d);
  check(says(why, "index 700 at"), "of many bad works the first is reported");
  for (int i = 0; i < 3 && why != NULL; i++) why = d->accelerator->wait(d);
  check(why == NULL, "reports come to an end");
  float got[WARP];
  check(move(d, &good, false) == NULL, "a good work after them");
  check(d->download(d, got, good.out.data, sizeof got) == NULL && got[WARP - 1] == 2, "works");
  masses_drop(d, first);
  masses_drop(d, later);
  masses_drop(d, good);
}


/* Of ten millions, all from the one after 'first' on are bad. */
static void beside_good (both *b, const char *name, bool scatter, int64_t first) {
  device *d = b->gpu;
  const int64_t n = fewer_if_emulated(b, 10000000);
  masses good = masses_of(d, n, n, 0), bad = masses_of(d, n, first, 100);
  int64_t fast, slow;
  moved(d, &good, scatter, &fast);                       /* the first loads the kernel */
  check(moved(d, &good, scatter, &fast) == NULL, "good positions");
  check(says(moved(d, &bad, scatter, &slow), "index 100 at"), "the first bad position is reported");
  check(n < 10000000 || slow < LONGEST, "without a crawl");
  printf("%s, %lld: %.2f ms, good ones %.2f ms\n", name, (long long)n, (double)slow / 1e6,
         (double)fast / 1e6);
  masses_drop(d, good);
  masses_drop(d, bad);
}

static void millions (both *b) {
  beside_good(b, "all bad, gather", false, 0);
  beside_good(b, "all bad, scatter", true, 0);
  beside_good(b, "bad from the second warp on, gather", false, WARP);
}


static void divisions (both *b) {
  device *d = b->gpu;
  const int64_t n = fewer_if_emulated(b, 10000000), began = machine_clock();
  view x = vector_of(d, HEED_INT64, n);
  set(d, x, integer(7));
  const char *why = map(d, HEED_remainder, x, x, view_number(integer(0)));
  if (why == NULL) why = d->accelerator->wait(d);
  check(says(why, "division by zero at position 1"), "the first of many zeros");
  check(n < 10000000 || machine_clock() - began < LONGEST, "without a crawl");
  take(d, x);
}


int main (void) {
  run("a warp of bad lanes", warp);
  run("bad works in a row", in_a_row);
  run("millions of bad positions", millions);
  run("millions of divisions by zero", divisions);
  printf("%d wrong\n", wrong);
  return wrong > 0;
}
