/*
** nearest.c - the rows that are most like a query: all are scored, and the best are kept.
*/

#include "heed_search.h"

#include <stdlib.h>

#include "memory/context.h"
#include "search/dots.h"

#define CHUNK 4096                 /* rows that one thread scores at once */
#define BLOCK 64                   /* rows that stay in the cache for all queries of a group */
#define GROUP 16                   /* queries at once */
#define ENTRIES ((int64_t)1 << 20) /* that a group of several queries may keep */

/* A row and its score. */
typedef struct found { float score; int64_t at; } found;

typedef struct search {
  const heed_rows *rows, *queries;
  dot dot;
  const pool *pool;
  int64_t k, chunks, first, nqueries;    /* kept of each chunk; the queries of the group */
  found *kept;                     /* [query][chunk][k]: heaps, the worst first */
} search;


static inline bool is_before (found a, found b) {
  return a.score > b.score || (a.score == b.score && a.at < b.at);
}


static inline const void *row_of (const heed_rows *r, int64_t i) {
  return (const char *)r->data + i * r->width;
}


static double scale_of (const heed_rows *r, int64_t i) {
  return r->scale != NULL ? (double)r->scale[i] : 1;
}


/* A score of a row by a sum of products; one that is no number is the worst. */
static float score_of (const heed_rows *rows, int64_t at, double sum, double scale) {
  const bool bits = rows->kind == HEED_ROWS_BITS;
  const float score = (float)(bits ? sum / (double)rows->dim : sum * scale_of(rows, at) * scale);
  return score >= -HUGE_VALF ? score : -HUGE_VALF;
}


/* Puts an entry in the place of the worst of a heap of n, which stands at 0, and moves it down to
   where it belongs. */
static void sink (found *heap, int64_t n, found x) {
  int64_t i = 0;
  for (;;) {
    int64_t child = 2 * i + 1;
    if (child >= n) break;
    if (child + 1 < n && is_before(heap[child], heap[child + 1])) child++;
    if (!is_before(x, heap[child])) break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = x;
}


static void rise (found *heap, int64_t i, found x) {
  for (; i > 0 && is_before(heap[(i - 1) / 2], x); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
  heap[i] = x;
}


/* Keeps x if it is one of the k best of a heap that has n; gives the new n. */
static int64_t keep_best (found *heap, int64_t n, int64_t k, found x) {
  if (n < k) rise(heap, n++, x);
  else if (is_before(x, heap[0])) sink(heap, n, x);
  return n;
}


/* The rows of a block beside one query: the count of its heap goes on. */
static int64_t score_block (const search *s, int64_t query, int64_t from, int64_t to, found *heap,
                            int64_t n) {
  const heed_rows *rows = s->rows, *queries = s->queries;
  const void *q = row_of(queries, s->first + query);
  const double scale = scale_of(queries, s->first + query);
  for (int64_t i = from; i < to; i++) {
    const double sum = s->dot(q, row_of(rows, i), rows->dim);
    n = keep_best(heap, n, s->k, (found){score_of(rows, i, sum, scale), i});
  }
  return n;
}


static void score_chunks (void *arg, int64_t from, int64_t to) {
  const search *s = arg;
  for (int64_t chunk = from; chunk < to; chunk++) {
    const int64_t begin = chunk * CHUNK;
    const int64_t left = s->rows->n - begin, end = begin + (left < CHUNK ? left : CHUNK);
    int64_t n[GROUP] = {0};
    for (int64_t at = begin; at < end && !pool_stopped(s->pool); at += BLOCK)
      for (int64_t q = 0; q < s->nqueries; q++)
        n[q] = score_block(s, q, at, at + BLOCK < end ? at + BLOCK : end,
                           s->kept + (q * s->chunks + chunk) * s->k, n[q]);
  }
}


static int by_score (const void *a, const void *b) {
  const found *x = a, *y = b;
  return is_before(*x, *y) ? -1 : is_before(*y, *x);
}


/* The best of all chunks, in order, at the start of a query's list; the last chunk may have kept
   fewer than k. */
static void merge (const search *s, found *list) {
  const int64_t last = s->rows->n - (s->chunks - 1) * CHUNK;
  int64_t n = (s->chunks - 1) * s->k + (last < s->k ? last : s->k);
  qsort(list, (size_t)n, sizeof *list, by_score);
}


/* The k best rows of a query are scored again with its floats. */
static void score_again (const search *s, const float *exact, int64_t k, found *list) {
  const heed_rows *rows = s->rows;
  const dot f = rows->kind == HEED_ROWS_INT8 ? exact_int8 :
                rows->kind == HEED_ROWS_BITS ? exact_bits : s->dot;
  for (int64_t i = 0; i < k; i++) {
    const double sum = f(exact, row_of(rows, list[i].at), rows->dim);
    list[i].score = score_of(rows, list[i].at, sum, 1);
  }
  qsort(list, (size_t)k, sizeof *list, by_score);
}


/* The scores of the queries from s->first on, and what is kept of them. */
static bool run_group (heed_context *cx, search *s, const float *exact, int64_t k,
                       int64_t *positions, float *scores) {
  pool_run(cx->pool, s->chunks, 1, score_chunks, s);
  for (int64_t q = 0; q < s->nqueries; q++) {
    found *list = s->kept + q * s->chunks * s->k;
    if (core_interrupted(cx, NULL)) return false;
    merge(s, list);
    if (exact != NULL) score_again(s, exact + (s->first + q) * s->rows->dim, k, list);
    for (int64_t i = 0; i < k; i++) {
      positions[(s->first + q) * k + i] = list[i].at;
      scores[(s->first + q) * k + i] = list[i].score;
    }
  }
  return true;
}


static bool is_given (heed_context *cx, const char *what, const void *given) {
  return core_given(cx, "nearest", what, given);
}


bool heed_nearest (heed_context *cx, const heed_rows *rows, const heed_rows *queries,
                   const float *exact, int64_t k, int64_t *positions, float *scores) {
  if (cx == NULL || !is_given(cx, "rows", rows) || !is_given(cx, "queries", queries)) return false;
  if (rows->kind != queries->kind || rows->dim != queries->dim) {
    core_fail(cx, "nearest", "rows and queries of one kind and size expected");
    return false;
  }
  k = k < rows->n ? k : rows->n;
  if (k < 1 || queries->n < 1) return true;
  if (!is_given(cx, "the data of rows", rows->data) ||
      !is_given(cx, "the data of queries", queries->data) ||
      !is_given(cx, "a place for positions", positions) ||
      !is_given(cx, "a place for scores", scores)) return false;
  search s = {.rows = rows, .queries = queries, .dot = dot_of((int)rows->kind),
              .pool = cx->pool};
  s.chunks = (rows->n + CHUNK - 1) / CHUNK;
  s.k = k < CHUNK ? k : CHUNK;
  const int64_t each = s.chunks * s.k, fit = ENTRIES / each;
  const int64_t group = fit < 1 ? 1 : fit < GROUP ? fit : GROUP;
  const size_t bytes = (size_t)(group * each) * sizeof *s.kept;
  s.kept = core_alloc(cx, bytes);
  if (s.kept == NULL) return false;
  bool good = true;
  const float_mode mode = float_mode_begin();
  for (s.first = 0; good && s.first < queries->n; s.first += group) {
    s.nqueries = queries->n - s.first < group ? queries->n - s.first : group;
    good = run_group(cx, &s, exact, k, positions, scores);
  }
  float_mode_end(mode);
  core_free(cx, s.kept, bytes);
  return good && !core_lost(cx, "nearest");
}
