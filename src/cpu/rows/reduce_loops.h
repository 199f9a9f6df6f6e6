/*
** reduce_loops.h - reductions of elements of type T, counted up in A: included for each T.
**
** Memory is read in one of two ways: a row for one result, or a row for WIDTH results at once.
** Sums go through short sums of T in vectors, so that an error grows with the short ones.
*/

#ifndef T
#include "cpu/rows/reduce.h"
#else

#define V FN(row_vector)
#define LENGTH ((int64_t)(VECTOR_BYTES / sizeof(T)))     /* elements of a vector */
#ifdef T_IS_FLOAT
#define NOT_NUMBERS(v) ((v) != (v))
#define NOT_A_NUMBER NAN
#else
#define NOT_NUMBERS(v) ((v) ^ (v))
#define NOT_A_NUMBER 0
#endif

typedef T V __attribute__((vector_size(VECTOR_BYTES), aligned(__alignof__(T)), may_alias));
typedef BITS FN(row_flags) __attribute__((vector_size(VECTOR_BYTES)));

/* WIDTH results so far. */
typedef struct FN(results) {
  A sum[WIDTH];                    /* or product, or 0 and 1 */
  A off[WIDTH];                    /* see squares */
  A mean[WIDTH];
  T part[WIDTH];                   /* short sums, of 'parts' rows */
  T best[WIDTH];
  int64_t at[WIDTH];               /* position of the best, from 0; -1: none yet */
  int parts;
  bool positions;                  /* are wanted */
} FN(results);


/*
** {==================================================================
** A row
** ===================================================================
*/

#include "cpu/rows/row_loops.h"

#ifdef T_IS_FLOAT

static void FN(take_exponentials) (FN(results) *r, int64_t n, const T *x) {
  T e[WIDTH];
  VECTOR_LOOP for (int64_t j = 0; j < n; j++)
    e[j] = EXP(x[j] - (ISINF(r->best[j]) ? 0 : r->best[j]));
  VECTOR_LOOP for (int64_t j = 0; j < n; j++) r->sum[j] += e[j];
}


static void FN(log_exponentials) (FN(results) *r, int64_t n) {
  for (int64_t j = 0; j < n; j++) r->sum[j] = log(r->sum[j]) + (ISINF(r->best[j]) ? 0 : r->best[j]);
}

#else                              /* loops for floats only */

static void FN(take_exponentials) (FN(results) *r, int64_t n, const T *x) {
  r->sum[n - 1] = x[n - 1];
}
static void FN(log_exponentials) (FN(results) *r, int64_t n) { r->sum[n - 1] = 0; }

#endif


/* Takes n elements, the first of which has position 'at', into result j. */
static void FN(row) (reduce_pass pass, FN(results) *r, int64_t j, int64_t n, const T *x,
                     int64_t at) {
  switch (pass) {
    case PASS_SUM: r->sum[j] += FN(sum)(n, x); break;
    case PASS_PROD: r->sum[j] *= FN(row_product)(n, x); break;
    case PASS_ANY: r->sum[j] = r->sum[j] != 0 || FN(has)(n, x, 0, false); break;
    case PASS_ALL: r->sum[j] = r->sum[j] != 0 && !FN(has)(n, x, 0, true); break;
    case PASS_SQUARES: r->sum[j] += FN(squares)(n, x, (T)r->mean[j], &r->off[j]); break;
    case PASS_EXPONENTIALS: r->sum[j] += FN(sum_exp_of)(n, x, r->best[j]); break;
    case PASS_MAX:
    case PASS_MIN: {
      T best = FN(extreme)(n, x, pass == PASS_MIN);
      if (r->at[j] >= 0 && !FN(better)(best, r->best[j], pass == PASS_MIN)) break;
      r->best[j] = best;
      r->at[j] = at + (r->positions ? FN(find)(n, x, best) : 0);
    }
  }
}

/* }================================================================== */


/*
** {==================================================================
** A row of n results: each takes one element, of position 'at'
** ===================================================================
*/

static void FN(add_parts) (FN(results) *r, int64_t n) {
  VECTOR_LOOP for (int64_t j = 0; j < n; j++) r->sum[j] += r->part[j];
  memset(r->part, 0, (size_t)n * sizeof(T));
  r->parts = 0;
}


static void FN(take_sum) (FN(results) *r, int64_t n, const T *x) {
  T *part = r->part;
  VECTOR_LOOP for (int64_t j = 0; j < n; j++) part[j] += x[j];
  if (++r->parts >= 32) FN(add_parts)(r, n);
}


/* A vector of each of the rows, from x on, or the first n lanes of it. */
INLINED void FN(sum_vectors) (T *part, const T *x, int64_t apart, int64_t rows, const bool whole,
                              int n) {
  V s = {0}, t = {0};
#if defined(T_IS_FLOAT) && (defined(HAS_AVX512) || defined(HAS_AVX2))
#define AT(k) (whole ? *(const V *)(x + (k) * apart) : (V)FN(load_part)(x + (k) * apart, n))
#else
#define AT(k) (*(const V *)(x + (k) * apart))
  if (!whole) {
    for (int i = 0; i < n; i++) {
      T sum = 0;
      for (int64_t k = 0; k < rows; k++) sum += x[k * apart + i];
      part[i] = sum;
    }
    return;
  }
#endif
  int64_t k = 0;
  for (; k + 2 <= rows; k += 2) {
    s += AT(k);
    t += AT(k + 1);
  }
  if (k < rows) s += AT(k);
  s += t;
  memcpy(part, &s, (size_t)n * sizeof(T));
#undef AT
}


/* At most 32 rows that are 'apart' elements from each other: short sums in registers. */
static void FN(sum_columns) (FN(results) *r, int64_t n, const T *x, int64_t apart, int64_t rows) {
  T *part = r->part;
  int64_t j = 0;
  for (; j + 4 * LENGTH <= n; j += 4 * LENGTH) {
    V s[4] = {{0}, {0}, {0}, {0}};
    for (int64_t k = 0; k < rows; k++)
      for (int i = 0; i < 4; i++) s[i] += *(const V *)(x + k * apart + j + i * LENGTH);
    memcpy(part + j, s, sizeof s);
  }
  for (; j + LENGTH <= n; j += LENGTH)
    FN(sum_vectors)(part + j, x + j, apart, rows, true, (int)LENGTH);
  if (j < n) FN(sum_vectors)(part + j, x + j, apart, rows, false, (int)(n - j));
  FN(add_parts)(r, n);
}


static void FN(take_best) (FN(results) *r, int64_t n, const T *x, int64_t at, bool low) {
  T *best = r->best;
  int64_t *where = r->at;
  VECTOR_LOOP for (int64_t j = 0; j < n; j++) {
    const T old = best[j], now = x[j];
    const bool take = (low ? now < old : now > old) | ((int)ISNAN(now) & !ISNAN(old)) |
                      (where[j] < 0);
    best[j] = take ? now : old;
    where[j] = take ? at : where[j];
  }
}


static void FN(take) (reduce_pass pass, FN(results) *r, int64_t n, const T *x, int64_t at) {
  A *sum = r->sum;
  switch (pass) {
    case PASS_SUM: FN(take_sum)(r, n, x); break;
    case PASS_PROD:
      VECTOR_LOOP for (int64_t j = 0; j < n; j++) sum[j] *= x[j];
      break;
    case PASS_ANY:
      VECTOR_LOOP for (int64_t j = 0; j < n; j++) sum[j] = x[j] != 0 ? 1 : sum[j];
      break;
    case PASS_ALL:
      VECTOR_LOOP for (int64_t j = 0; j < n; j++) sum[j] = x[j] == 0 ? 0 : sum[j];
      break;
    case PASS_SQUARES:
      VECTOR_LOOP for (int64_t j = 0; j < n; j++) {
        const A d = x[j] - r->mean[j];
        sum[j] += d * d;
        r->off[j] += d;
      }
      break;
    case PASS_EXPONENTIALS: FN(take_exponentials)(r, n, x); break;
    case PASS_MAX: FN(take_best)(r, n, x, at, false); break;
    case PASS_MIN: FN(take_best)(r, n, x, at, true); break;
  }
}

/* }================================================================== */


/*
** {==================================================================
** Passes over memory
** ===================================================================
*/

static void FN(begin_pass) (const reduction *d, reduce_pass pass, FN(results) *r, int64_t n) {
  r->parts = 0;
  for (int64_t j = 0; j < n; j++) {
    if (d->passes == 1) r->mean[j] = 0;
    r->sum[j] = pass == PASS_PROD || pass == PASS_ALL;
    r->off[j] = 0;
    r->part[j] = 0;
    if (pass == PASS_MAX || pass == PASS_MIN) r->at[j] = -1;
  }
}


/* Result j: elements from .. to - 1 of its row, which are one piece. */
static void FN(pass_piece) (const reduction *d, reduce_pass pass, FN(results) *r, int64_t j,
                            const T *x, int64_t from, int64_t to) {
  for (; to - from > LONG_ROW && !cpu_stopped(d->self); from += LONG_ROW)
    FN(row)(pass, r, j, LONG_ROW, x + from, from);
  if (to > from) FN(row)(pass, r, j, to - from, x + from, from);
}


/* Result j of a batch that begins at x: elements from .. to - 1 of its row. */
static void FN(pass_row) (const reduction *d, reduce_pass pass, FN(results) *r, int64_t j, char *x,
                          int64_t from, int64_t to) {
  T workspace[CHUNK];
  iterator s;
  bool dense = d->row.kind == ITERATOR_DENSE;
  if (!dense) {
    s = d->row;
    s.data = x;
  }
  for (; from < to && !cpu_stops(d->self, from / CHUNK, CHUNK); from += CHUNK) {
    const int64_t n = to - from < CHUNK ? to - from : CHUNK;
    const T *elements = workspace;
    if (dense) elementwise_load(n, d->as, workspace, d->row.type, x + from * d->size, 1);
    else elements = iterator_read(d->self, &s, from, n, d->as, workspace);
    FN(row)(pass, r, j, n, elements, from);
  }
}


/* All n results of a batch that begins at x. */
static void FN(run_pass) (const reduction *d, reduce_pass pass, FN(results) *r, int64_t n, char *x,
                          int64_t from, int64_t to) {
  if (!d->columns) {
    for (int64_t j = 0; j < n; j++, x += d->step * d->size)
      if (d->contiguous) FN(pass_piece)(d, pass, r, j, (const T *)x, from, to);
      else FN(pass_row)(d, pass, r, j, x, from, to);
    return;
  }
  T workspace[WIDTH];
  bool plain = d->step == 1 && d->w->in[0].type == d->as;
  const layout *row = &d->row.at;
  if (plain && pass == PASS_SUM && row->rank == 1)
    for (; from < to && !cpu_stops(d->self, from / 32, 32 * n); from += 32)
      FN(sum_columns)(r, n, (const T *)x + from * row->stride[0], row->stride[0],
                      to - from < 32 ? to - from : 32);
  for (int64_t i = from; i < to && !cpu_stops(d->self, i, n); i++) {
    const char *at = x + iterator_offset(row, i) * d->size;
    if (!plain) d->self->level->load(n, d->as, workspace, d->w->in[0].type, at, d->step);
    FN(take)(pass, r, n, plain ? (const T *)at : workspace, i);
  }
}


/* Adds the results of elements that come after those of 'r'. */
static void FN(merge) (reduce_pass pass, FN(results) *r, const FN(results) *more, int64_t n) {
  for (int64_t j = 0; j < n; j++) {
    if (pass == PASS_PROD) r->sum[j] *= more->sum[j];
    else if (pass == PASS_ANY) r->sum[j] = r->sum[j] != 0 || more->sum[j] != 0;
    else if (pass == PASS_ALL) r->sum[j] = r->sum[j] != 0 && more->sum[j] != 0;
    else r->sum[j] += more->sum[j] + more->part[j];
    r->off[j] += more->off[j];
    bool extreme = pass == PASS_MAX || pass == PASS_MIN;
    if (!extreme || more->at[j] < 0) continue;
    if (r->at[j] >= 0 && !FN(better)(more->best[j], r->best[j], pass == PASS_MIN)) continue;
    r->best[j] = more->best[j];
    r->at[j] = more->at[j];
  }
}


static void FN(end_pass) (const reduction *d, reduce_pass pass, FN(results) *r, int64_t n) {
  if (pass == PASS_SUM) FN(add_parts)(r, n);
  for (int64_t j = 0; j < n && d->passes > 1; j++) {
    if (pass == PASS_SUM) r->mean[j] = r->sum[j] / (A)d->count;
    if (pass == PASS_SQUARES && d->count > 0) r->sum[j] -= r->off[j] * r->off[j] / (A)d->count;
    if (pass == PASS_MAX && r->at[j] < 0) r->best[j] = 0;
  }
}


static void FN(finish) (const reduction *d, FN(results) *r, int64_t batch) {
  int64_t n = reduction_width(d, batch);
  bool best = d->pass[0] == PASS_MAX || d->pass[0] == PASS_MIN;
  if (d->w->op == REDUCE_MOMENTS) {
    reduction_store(d, 0, batch, n, COUNTED, r->mean);
    reduction_store(d, 1, batch, n, COUNTED, r->sum);
    return;
  }
  if (d->w->op == REDUCE_LOGSUMEXP) FN(log_exponentials)(r, n);
  else if (best)
    for (int64_t j = 0; j < n; j++) {
      r->sum[j] = (A)r->best[j];
      r->at[j]++;
    }
  if (d->w->op == REDUCE_ARGMAX || d->w->op == REDUCE_ARGMIN)
    reduction_store(d, 0, batch, n, HEED_INT64, r->at);
  else {
    reduction_store(d, 0, batch, n, COUNTED, r->sum);
    if (best && d->w->nout > 1) reduction_store(d, 1, batch, n, HEED_INT64, r->at);
  }
}


static void FN(run_batches) (void *arg, int64_t from, int64_t to) {
  const reduction *d = arg;
  FN(results) r;
  r.positions = d->positions;
  for (int64_t batch = from; batch < to; batch++) {
    int64_t n = reduction_width(d, batch);
    for (int i = 0; i < d->passes; i++) {
      FN(begin_pass)(d, d->pass[i], &r, n);
      FN(run_pass)(d, d->pass[i], &r, n, reduction_at(d, batch), 0, d->count);
      FN(end_pass)(d, d->pass[i], &r, n);
    }
    FN(finish)(d, &r, batch);
  }
}


/* Parts of the only batch; parts[i] brings the results of the passes before. */
static void FN(run_segments) (void *arg, int64_t from, int64_t to) {
  const reduction *d = arg;
  FN(results) *parts = d->parts;
  int64_t n = reduction_width(d, 0);
  for (int64_t i = from; i < to; i++) {
    int64_t start = (d->first + i) * d->segment, end = start + d->segment;
    parts[i].positions = d->positions;
    FN(begin_pass)(d, d->now, &parts[i], n);
    FN(run_pass)(d, d->now, &parts[i], n, reduction_at(d, 0), start,
                 end < d->count ? end : d->count);
  }
}


/* The results from d->first on, at most SEGMENTS, into r. */
static void FN(add_segments) (reduction *d, FN(results) *r, int64_t n, int64_t segments) {
  FN(results) *parts = d->parts;
  for (int64_t k = 0; d->now != d->pass[0] && k < segments; k++) parts[k] = *r;
  pool_run(d->self->pool, segments, 1, FN(run_segments), d);
  for (int64_t k = 0; k < segments; k++) FN(merge)(d->now, r, &parts[k], n);
}


static void FN(reduce_segments) (reduction *d, int64_t segments) {
  FN(results) r;
  int64_t n = reduction_width(d, 0);
  for (int i = 0; i < d->passes; i++) {
    d->now = d->pass[i];
    FN(begin_pass)(d, d->now, &r, n);
    for (d->first = 0; d->first < segments && !cpu_stopped(d->self); d->first += SEGMENTS)
      FN(add_segments)(d, &r, n, segments - d->first < SEGMENTS ? segments - d->first : SEGMENTS);
    FN(end_pass)(d, d->now, &r, n);
  }
  FN(finish)(d, &r, 0);
}


static const char *FN(reduce) (reduction *d) {
  int64_t segments = reduction_segments(d), elements = d->width * (d->count + 1);
  if (segments == 1) {
    pool_run(d->self->pool, d->batches, 65536 / elements + 1, FN(run_batches), d);
    return NULL;
  }
  d->parts = cpu_scratch(d->self, (size_t)(segments < SEGMENTS ? segments : SEGMENTS) *
                         sizeof(FN(results)));
  if (d->parts == NULL) return cpu_no_memory;
  FN(reduce_segments)(d, segments);
  cpu_scratch_free(d->parts);
  return NULL;
}

/* }================================================================== */


static A FN(scan_start) (scan_op op) {
  switch (op) {
    case SCAN_SUM: return 0;
    case SCAN_PROD: return 1;
  }
  return 0;
}


/* The next n elements of a row; the last one is the start of those that follow. */
static A FN(scan_part) (const scan_rows *d, A before, int64_t n, T *y, const T *x) {
  const int64_t first = d->reverse ? n - 1 : 0, step = d->reverse ? -1 : 1;
  switch (d->op) {
    case SCAN_SUM:
      for (int64_t k = 0, i = first; k < n; k++, i += step) y[i] = (T)(before += x[i]);
      break;
    case SCAN_PROD:
      for (int64_t k = 0, i = first; k < n; k++, i += step) y[i] = (T)(before *= x[i]);
      break;
  }
  return before;
}


/* Running sums or products of rows from .. to - 1. */
static void FN(scan_rows) (void *arg, int64_t from, int64_t to) {
  const scan_rows *d = arg;
  T in[CHUNK], out[CHUNK];
  for (int64_t row = from; row < to; row++) {
    A last = FN(scan_start)(d->op);
    for (int64_t done = 0; done < d->n; done += CHUNK) {
      if (cpu_stops(d->self, done / CHUNK, CHUNK)) return;
      int64_t n = d->n - done < CHUNK ? d->n - done : CHUNK;
      int64_t at = row * d->n + (d->reverse ? d->n - done - n : done);
      const T *x = iterator_read(d->self, &d->in, at, n, d->as, in);
      T *y = iterator_target(&d->out, at, n, d->as, out);
      last = FN(scan_part)(d, last, n, y, x);
      iterator_write(d->self, &d->out, at, n, d->as, y);
    }
  }
}

#undef V
#undef LENGTH
#undef NOT_NUMBERS
#undef NOT_A_NUMBER

#endif
