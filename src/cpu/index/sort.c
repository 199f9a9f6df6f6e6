/*
** sort.c - rows in order, stable; or their first k.
**
** Elements become integers in the same order, so that one sort serves all types: NaN above all,
** both zeros equal, and descending order by their complement.
*/

#include "cpu/copy/iterator.h"

#define LONG_ROW 65536             /* elements; shorter ones are not stopped inside */

typedef struct pair { int64_t key, at; } pair;

typedef struct sorting {
  cpu *self;
  iterator x, values, positions;
  heed_type as;
  int64_t n, k;                    /* elements of a row, and how many are wanted */
  bool descending;
  bool failed;
} sorting;


/*
** {==================================================================
** Keys
** ===================================================================
*/

static int64_t key_of_double (double x) {
  int64_t bits;
  if (x != x) return INT64_MAX;
  x += 0.0;                                        /* -0 becomes 0 */
  memcpy(&bits, &x, sizeof bits);
  return bits < 0 ? bits ^ INT64_MAX : bits;
}


static void make_keys (const sorting *d, const void *x, pair *pairs) {
  for (int64_t i = 0; i < d->n && !cpu_stops(d->self, i, 1); i++) {
    int64_t key = d->as == HEED_INT64 ? ((const int64_t *)x)[i]
                : key_of_double(d->as == HEED_FLOAT32 ? (double)((const float *)x)[i]
                                                      : ((const double *)x)[i]);
    pairs[i] = (pair){d->descending ? ~key : key, i};
  }
}

/* }================================================================== */


/*
** {==================================================================
** Merge sort, from runs that were sorted by insertion
** ===================================================================
*/

#define RUN 16

static void sort_run (pair *p, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    pair now = p[i];
    int64_t j = i;
    for (; j > 0 && p[j - 1].key > now.key; j--) p[j] = p[j - 1];
    p[j] = now;
  }
}


static void merge (const cpu *self, pair *to, const pair *a, int64_t na, const pair *b,
                   int64_t nb) {
  const pair *a_end = a + na, *b_end = b + nb;
  for (int64_t i = 0; a < a_end && b < b_end; i++) {
    *to++ = b->key < a->key ? *b++ : *a++;
    if (cpu_stops(self, i, 1)) return;
  }
  memcpy(to, a, (size_t)(a_end - a) * sizeof *a);
  memcpy(to + (a_end - a), b, (size_t)(b_end - b) * sizeof *b);
}


/* Sorts p, with a workspace for as many; returns the one of the two that holds the result. */
static pair *sort (const cpu *self, pair *p, pair *workspace, int64_t n) {
  for (int64_t i = 0; i < n && !cpu_stops(self, i / RUN, RUN); i += RUN)
    sort_run(p + i, n - i < RUN ? n - i : RUN);
  for (int64_t run = RUN; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      int64_t na = n - i < run ? n - i : run, nb = n - i - na < run ? n - i - na : run;
      if (cpu_stops(self, i / (2 * run), 2 * run)) return p;
      merge(self, workspace + i, p + i, na, p + i + na, nb);
    }
    pair *other = p;
    p = workspace;
    workspace = other;
  }
  return p;
}

/* }================================================================== */


/*
** {==================================================================
** The first k: a heap whose root is the last of them so far
** ===================================================================
*/

static bool after (const pair *a, const pair *b) {
  return a->key != b->key ? a->key > b->key : a->at > b->at;
}


static void sift_down (pair *heap, int64_t k, int64_t i) {
  pair now = heap[i];
  for (;;) {
    int64_t child = 2 * i + 1;
    if (child >= k) break;
    if (child + 1 < k && after(&heap[child + 1], &heap[child])) child++;
    if (!after(&heap[child], &now)) break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = now;
}


/* Brings the first k of n pairs, in order of position, to the front. */
static void select_first (const cpu *self, pair *p, int64_t n, int64_t k) {
  for (int64_t i = k / 2 - 1; i >= 0 && !cpu_stops(self, i, 1); i--) sift_down(p, k, i);
  for (int64_t i = k; i < n && !cpu_stops(self, i, 1); i++)
    if (after(&p[0], &p[i])) {
      p[0] = p[i];
      sift_down(p, k, 0);
    }
}


/* A heap is not in order of position, by which the sort is stable: a full order. */
static void sort_heap (const cpu *self, pair *p, int64_t k) {
  for (int64_t end = k - 1; end > 0 && !cpu_stops(self, end, 1); end--) {
    pair last = p[0];
    p[0] = p[end];
    p[end] = last;
    sift_down(p, end, 0);
  }
}

/* }================================================================== */


static pair *order_row (const sorting *d, pair *pairs) {
  if (d->k == d->n) return sort(d->self, pairs, pairs + d->n, d->n);
  select_first(d->self, pairs, d->n, d->k);
  sort_heap(d->self, pairs, d->k);
  return pairs;
}


static void write_row (const sorting *d, int64_t row, const pair *first, const char *x,
                       char *values, int64_t *positions) {
  size_t size = scalar_sizes[d->as];
  values = iterator_target(&d->values, row * d->k, d->k, d->as, values);
  positions = iterator_target(&d->positions, row * d->k, d->k, HEED_INT64, positions);
  for (int64_t i = 0; i < d->k && !cpu_stops(d->self, i, 1); i++) {
    memcpy(values + (size_t)i * size, x + (size_t)first[i].at * size, size);
    positions[i] = first[i].at + 1;
  }
  iterator_write(d->self, &d->values, row * d->k, d->k, d->as, values);
  iterator_write(d->self, &d->positions, row * d->k, d->k, HEED_INT64, positions);
}


/* Workspace of a thread: 2 n pairs, n elements to read, n values and n positions to write. */
static void sort_rows (void *arg, int64_t from, int64_t to) {
  sorting *d = arg;
  size_t n = (size_t)d->n, bytes;
  bool fits = !__builtin_mul_overflow(n, 2 * sizeof(pair) + 3 * sizeof(int64_t), &bytes);
  pair *pairs = fits ? cpu_scratch(d->self, bytes) : NULL;   /* expanded rows have any length */
  if (pairs == NULL) {
    __atomic_store_n(&d->failed, true, __ATOMIC_RELAXED);
    return;
  }
  int64_t *in = (int64_t *)(pairs + 2 * n), *values = in + n, *positions = values + n;
  for (int64_t row = from; row < to && !(n >= 2048 && cpu_stopped(d->self)); row++) {
    const void *x = iterator_read(d->self, &d->x, row * d->n, d->n, d->as, in);
    make_keys(d, x, pairs);
    if (d->n >= LONG_ROW && cpu_stopped(d->self)) break;
    const pair *ordered = order_row(d, pairs);
    if (d->n >= LONG_ROW && cpu_stopped(d->self)) break;    /* positions may be no positions */
    write_row(d, row, ordered, x, (char *)values, positions);
  }
  cpu_scratch_free(pairs);
}


const char *cpu_sort (cpu *self, const work *w) {
  const layout *in = &w->in[0].at, *out = &w->out[0].at;
  sorting d = {.self = self, .descending = w->sort.descending};
  heed_type type = w->in[0].type;
  d.as = type == HEED_FLOAT64 ? type : scalar_is_float(type) ? HEED_FLOAT32 : HEED_INT64;
  d.n = in->rank > 0 ? in->size[in->rank - 1] : 1;
  d.k = out->rank > 0 ? out->size[out->rank - 1] : 1;
  if (layout_numel(out) == 0) return NULL;
  iterator_open(&d.x, &w->in[0], d.as);
  iterator_open(&d.values, &w->out[0], d.as);
  iterator_open(&d.positions, &w->out[1], HEED_INT64);
  pool_run(self->pool, layout_numel(out) / d.k, 2048 / d.n + 1, sort_rows, &d);
  return d.failed ? cpu_no_memory : NULL;
}
