/*
** index.c - elements by position: gather, scatter, nonzero.
**
** Positions count from 1, or -1 from the end where a work says so. All of them are checked before
** anything is written.
*/

#include "cpu/copy/copy_row.h"
#include "cpu/copy/iterator.h"

#define CHUNK 512
#define TOGETHER 65536             /* most elements that share positions and are moved at once */

/* Iteration over the elements, the tensor and its indices together, with axes fused. */
typedef struct indexing {
  cpu *self;
  const work *w;
  int n;                           /* indices */
  size_t size;                     /* of an element */
  heed_type type;
  bool adding;
  char *outer;                     /* the side that is iterated in order … */
  char *inner;                     /* … and the one that positions index */
  layout outer_at, inner_at;
  layout index_at[WORK_INDICES];
} indexing;


/*
** {==================================================================
** Checks
** ===================================================================
*/

static const char *refuse_position (cpu *self, int64_t value, int64_t at, int64_t limit) {
  if (limit == 0)
    return cpu_refuse(self, "index %lld at position %lld: there are no elements",
                      (long long)value, (long long)at);
  return cpu_refuse(self, "index %lld at position %lld is outside 1 to %lld%s", (long long)value,
                    (long long)at, (long long)limit,
                    value == 0 ? "; positions count from 1: + 1?" : "");
}


/* The index without the axes that it was expanded over: its own elements. */
static view own_elements (const view *v) {
  view own = *v;
  for (int i = 0; i < own.at.rank; i++)
    if (own.at.stride[i] == 0 && own.at.size[i] > 0) own.at.size[i] = 1;
  return own;
}


/* By signs, which SSE2 can compute in vectors, where it can't compare 64 bits. */
static bool all_within (int64_t n, const int64_t *x, int64_t limit) {
  int64_t outside = 0;
  for (int64_t i = 0; i < n; i++) outside |= (x[i] - 1) | (limit - x[i]);
  return outside >= 0;
}


/* Sets *counts if a position counts from the end. */
static const char *check_index (cpu *self, const view *own, int64_t limit, bool from_end,
                                bool *counts) {
  iterator s;
  int64_t workspace[CHUNK], numel = layout_numel(&own->at);
  iterator_open(&s, own, HEED_INT64);
  for (int64_t from = 0; from < numel; from += CHUNK) {
    if (cpu_stops(self, from / CHUNK, CHUNK)) return cpu_interrupted;
    int64_t n = numel - from < CHUNK ? numel - from : CHUNK;
    const int64_t *x = iterator_read(self, &s, from, n, HEED_INT64, workspace);
    if (all_within(n, x, limit)) continue;
    for (int64_t i = 0; i < n; i++) {
      const bool counted = from_end && x[i] < 0 && x[i] >= -limit;
      if (!counted && (x[i] < 1 || x[i] > limit))
        return refuse_position(self, x[i], from + i + 1, limit);
      *counts = *counts || counted;
    }
  }
  return NULL;
}


/* The same positions from the start alone, at 'to', of which the index becomes a view. */
static const char *move_index (cpu *self, view *index, const view *own, int64_t limit,
                               int64_t *to) {
  iterator s;
  layout dense;
  const int64_t numel = layout_numel(&own->at);
  if (index->data == NULL) {             /* a number */
    if (index->value.i < 0) index->value.i += limit + 1;
    return NULL;
  }
  iterator_open(&s, own, HEED_INT64);
  for (int64_t from = 0; from < numel; from += CHUNK) {
    if (cpu_stops(self, from / CHUNK, CHUNK)) return cpu_interrupted;
    int64_t n = numel - from < CHUNK ? numel - from : CHUNK, workspace[CHUNK];
    const int64_t *x = iterator_read(self, &s, from, n, HEED_INT64, workspace);
    for (int64_t i = 0; i < n; i++) to[from + i] = x[i] < 0 ? x[i] + limit + 1 : x[i];
  }
  layout_dense(&dense, own->at.rank, own->at.size);
  for (int i = 0; i < dense.rank; i++)
    index->at.stride[i] = own->at.size[i] == 1 ? 0 : dense.stride[i];
  index->data = to;
  return NULL;
}


/* A work whose positions count from the start. */
typedef struct started {
  const work *w;                   /* the one that was given, or 'moved' */
  work moved;
  int64_t *positions;              /* scratch memory, or NULL */
} started;

static const char *move_all (cpu *self, started *s, const view *own, int64_t numel) {
  const char *message = NULL;
  s->moved = *s->w;
  s->positions = cpu_scratch(self, (size_t)numel * sizeof *s->positions);
  if (s->positions == NULL) return cpu_no_memory;
  int64_t *to = s->positions;
  for (int k = 0; k < s->w->nin - 1 && message == NULL; k++) {
    message = move_index(self, &s->moved.in[1 + k], &own[k], s->w->index.size[k], to);
    to += layout_numel(&own[k].at);
  }
  s->w = &s->moved;
  return message;
}


/* Checks all positions. What is in 's' is freed in any case. */
static const char *start (cpu *self, const work *w, started *s) {
  view own[WORK_INDICES];
  const char *message = NULL;
  bool counts = false;
  int64_t numel = 0;
  s->w = w;
  s->positions = NULL;
  for (int k = 0; k < w->nin - 1 && message == NULL; k++) {
    own[k] = own_elements(&w->in[1 + k]);
    numel += layout_numel(&own[k].at);
    message = check_index(self, &own[k], w->index.size[k], w->index.from_end, &counts);
  }
  return message == NULL && counts ? move_all(self, s, own, numel) : message;
}

/* }================================================================== */


/*
** {==================================================================
** Iteration
** ===================================================================
*/

static void add (heed_type type, void *to, const void *from) {
  scalar a = scalar_load(type, to), b = scalar_load(type, from);
  if (a.type == HEED_FLOAT64) a.f += b.f;
  else a.i += b.i;
  scalar_store(type, to, a);
}

#define EACH(X, body) { \
    X *const ys = to; \
    const X *const xs = from; \
    for (int64_t i = 0; i < n; i++) body; \
    return; \
  }

static void add_row (heed_type type, int64_t n, void *to, int64_t to_stride, const void *from,
                     int64_t from_stride) {
  bool plain = to_stride == 1 && from_stride == 1;
  if (type == HEED_FLOAT32 && plain) EACH(float, ys[i] += xs[i])
  if (type == HEED_FLOAT32) EACH(float, ys[i * to_stride] += xs[i * from_stride])
  if (type == HEED_FLOAT64) EACH(double, ys[i * to_stride] += xs[i * from_stride])
  if (type == HEED_INT64) EACH(int64_t, ys[i * to_stride] += xs[i * from_stride])
  size_t size = scalar_sizes[type];
  for (int64_t i = 0; i < n; i++)
    add(type, (char *)to + i * to_stride * (int64_t)size,
        (const char *)from + i * from_stride * (int64_t)size);
}


/* n elements that share their positions, between outer and inner in the work's direction. */
static void move_row (const indexing *d, int64_t n, char *outer, int64_t outer_stride, char *inner,
                      int64_t inner_stride) {
  if (d->adding) add_row(d->type, n, inner, inner_stride, outer, outer_stride);
  else if (d->w->kind == WORK_SCATTER)
    copy_row(d->size, n, inner, inner_stride, outer, outer_stride);
  else copy_row(d->size, n, outer, outer_stride, inner, inner_stride);
}


/* Offsets of a row's first elements and indices. */
typedef struct row_offsets { int64_t outer, inner, index[WORK_INDICES]; } row_offsets;

static row_offsets offsets_of (const indexing *d, int64_t row) {
  row_offsets p = {0};
  for (int i = d->outer_at.rank - 2; i >= 0; i--) {
    int64_t size = d->outer_at.size[i], c = row % size;
    row /= size;
    p.outer += c * d->outer_at.stride[i];
    p.inner += c * d->inner_at.stride[i];
    for (int k = 0; k < d->n; k++) p.index[k] += c * d->index_at[k].stride[i];
  }
  return p;
}


/* Do the elements of a row share their positions? */
static bool has_row_positions (const indexing *d) {
  int last = d->outer_at.rank - 1;
  for (int k = 0; k < d->n; k++)
    if (d->index_at[k].stride[last] != 0) return false;
  return true;
}


/* Offsets in 'inner' of elements i .. i + n - 1 of a row. */
static void inner_offsets (const indexing *d, const row_offsets *p, int64_t i, int64_t n,
                           int64_t *offset) {
  int last = d->outer_at.rank - 1;
  for (int64_t j = 0; j < n; j++) offset[j] = (i + j) * d->inner_at.stride[last];
  for (int k = 0; k < d->n; k++) {
    const view *v = &d->w->in[1 + k];
    int64_t stride = d->index_at[k].stride[last], times = d->w->index.stride[k];
    const int64_t *index = v->data != NULL ? v->data : &v->value.i;
    index += p->index[k] + i * stride;
    for (int64_t j = 0; j < n; j++) offset[j] += (index[j * stride] - 1) * times;
  }
}


#define EACH_MOVED(X) { \
    X *const a = (X *)outer, *const b = (X *)inner; \
    if (scattered) for (int64_t i = 0; i < n; i++) b[offset[i]] = a[i * stride]; \
    else for (int64_t i = 0; i < n; i++) a[i * stride] = b[offset[i]]; \
    return; \
  }

/* n elements of a row, each with its own position. */
static void move_each (const indexing *d, int64_t n, char *outer, char *inner,
                       const int64_t *offset) {
  int64_t stride = d->outer_at.stride[d->outer_at.rank - 1], size = (int64_t)d->size;
  const bool scattered = d->w->kind == WORK_SCATTER;
  for (int64_t i = 0; i < n && d->adding; i++)
    add_row(d->type, 1, inner + offset[i] * size, 1, outer + i * stride * size, 1);
  if (d->adding) return;
  switch (size) {
    case 1: EACH_MOVED(uint8_t)
    case 2: EACH_MOVED(uint16_t)
    case 4: EACH_MOVED(uint32_t)
    default: EACH_MOVED(uint64_t)
  }
}


/* Rows from .. to - 1, of each the elements first .. first + n - 1; polled in between. */
static void iterate (const indexing *d, int64_t from, int64_t to, int64_t first, int64_t n) {
  int last = d->outer_at.rank - 1;
  int64_t size = (int64_t)d->size, offset[CHUNK];
  int64_t outer_stride = d->outer_at.stride[last], inner_stride = d->inner_at.stride[last];
  bool together = has_row_positions(d);
  int64_t most = together ? TOGETHER : CHUNK, moved = 0;
  for (int64_t row = from; row < to; row++) {
    row_offsets p = offsets_of(d, row);
    char *outer = d->outer + p.outer * size, *inner = d->inner + p.inner * size;
    for (int64_t i = first; i < first + n;) {
      if (moved > TOGETHER && cpu_stopped(d->self)) return;
      if (moved > TOGETHER) moved = 0;
      int64_t left = first + n - i, now = left < most ? left : most;
      char *at = outer + i * outer_stride * size;
      inner_offsets(d, &p, i, together ? 1 : now, offset);
      if (together) move_row(d, now, at, outer_stride, inner + offset[0] * size, inner_stride);
      else move_each(d, now, at, inner, offset);
      i += now;
      moved += now;
    }
    moved += 16;
  }
}


static void iterate_rows (void *arg, int64_t from, int64_t to) {
  const indexing *d = arg;
  iterate(d, from, to, 0, d->outer_at.size[d->outer_at.rank - 1]);
}


/* All rows, but a part of each: so that several threads add in one order. */
static void iterate_columns (void *arg, int64_t from, int64_t to) {
  const indexing *d = arg;
  int64_t rows = layout_numel(&d->outer_at) / d->outer_at.size[d->outer_at.rank - 1];
  iterate(d, 0, rows, from, to - from);
}

/* }================================================================== */


/*
** {==================================================================
** Rows by one index (an embedding, say): positions are dense, and rows on both sides. The result
** is that of the iteration above, to the bit.
** ===================================================================
*/

typedef struct row_index {
  const indexing *d;
  const int64_t *position;
  int64_t outer_row, inner_row, inner_step;    /* in bytes, as all here */
} row_index;

typedef uint64_t pair __attribute__((vector_size(16), aligned(1), may_alias));
typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));


/* Is w work of rows by one index? Then 'r' is set. */
static bool is_by_rows (row_index *r, const indexing *d) {
  if (d->n != 1 || d->outer_at.rank != 2 || d->w->in[INDEX_POSITIONS].data == NULL) return false;
  if (d->outer_at.stride[1] != 1 || d->inner_at.stride[1] != 1) return false;
  if (d->index_at[0].stride[0] != 1 || d->index_at[0].stride[1] != 0) return false;
  if (d->adding && d->type != HEED_FLOAT32) return false;
  if (d->outer_at.size[1] > MOVED_ELEMENTS) return false;          /* between two polls */
  const int64_t size = (int64_t)d->size;
  *r = (row_index){.d = d, .position = d->w->in[INDEX_POSITIONS].data,
                   .outer_row = d->outer_at.stride[0] * size,
                   .inner_row = d->inner_at.stride[0] * size,
                   .inner_step = d->w->index.stride[0] * size};
  return true;
}


/* Row i of each side, from byte 'first' on. */
static char *outer_row (const row_index *r, int64_t i, int64_t first) {
  return r->d->outer + (i * r->outer_row + first);
}

static char *inner_row (const row_index *r, int64_t i, int64_t first) {
  return r->d->inner + (i * r->inner_row + (r->position[i] - 1) * r->inner_step + first);
}


/* At least one unit; the last one may overlap the one before. */
#define COPY_UNITS(UNIT) { \
    for (int64_t i = from; i < to; i++) { \
      char *a = outer_row(r, i, first), *b = inner_row(r, i, first); \
      const char *const x = out ? a : b; \
      char *const y = out ? b : a; \
      for (size_t k = 0; k + sizeof(UNIT) < bytes; k += sizeof(UNIT)) \
        *(UNIT *)(y + k) = *(const UNIT *)(x + k); \
      *(UNIT *)(y + bytes - sizeof(UNIT)) = *(const UNIT *)(x + bytes - sizeof(UNIT)); \
    } \
    return; \
  }

typedef uint64_t loose_8 __attribute__((aligned(1), may_alias));
typedef uint32_t loose_4 __attribute__((aligned(1), may_alias));
typedef uint16_t loose_2 __attribute__((aligned(1), may_alias));

static void copy_rows (const row_index *r, int64_t from, int64_t to, int64_t first, size_t bytes) {
  const bool out = r->d->w->kind == WORK_SCATTER;
  if (bytes < 2) COPY_UNITS(char)
  if (bytes < 4) COPY_UNITS(loose_2)
  if (bytes < 8) COPY_UNITS(loose_4)
  if (bytes < 16) COPY_UNITS(loose_8)
  if (bytes <= 256) COPY_UNITS(pair)
  for (int64_t i = from; i < to; i++) {
    char *a = outer_row(r, i, first), *b = inner_row(r, i, first);
    if (i + 1 < to)
      for (size_t k = 0; k < 512; k += 64) __builtin_prefetch(inner_row(r, i + 1, first) + k);
    memcpy(out ? b : a, out ? a : b, bytes);
  }
}

#undef COPY_UNITS


static void add_rows (const row_index *r, int64_t from, int64_t to, int64_t first, size_t bytes) {
  for (int64_t i = from; i < to; i++) {
    const char *x = outer_row(r, i, first);
    char *y = inner_row(r, i, first);
    size_t k = 0;
    for (; k + sizeof(quad) <= bytes; k += sizeof(quad)) *(quad *)(y + k) += *(const quad *)(x + k);
    for (; k < bytes; k += sizeof(float)) *(float *)(y + k) += *(const float *)(x + k);
  }
}


/* Rows from .. to - 1, of each the elements first .. first + n - 1; polled in between. */
static void move_rows (const row_index *r, int64_t from, int64_t to, int64_t first, int64_t n) {
  const size_t bytes = (size_t)n * r->d->size;
  const int64_t start = first * (int64_t)r->d->size;
  const int64_t most = TOGETHER / (n + 16) + 1;
  for (int64_t now; from < to && !cpu_stopped(r->d->self); from += now) {
    now = to - from < most ? to - from : most;
    if (r->d->adding) add_rows(r, from, from + now, start, bytes);
    else copy_rows(r, from, from + now, start, bytes);
  }
}

static void rows_piece (void *arg, int64_t from, int64_t to) {
  const row_index *r = arg;
  move_rows(r, from, to, 0, r->d->outer_at.size[1]);
}

static void columns_piece (void *arg, int64_t from, int64_t to) {
  const row_index *r = arg;
  move_rows(r, 0, r->d->outer_at.size[0], from, to - from);
}

/* }================================================================== */


/* 'outer' is iterated in order, positions index 'inner'. */
static void begin (indexing *d, cpu *self, const work *w, const view *outer, const view *inner) {
  *d = (indexing){.self = self, .w = w, .n = w->nin - 1, .size = scalar_sizes[outer->type],
                  .type = outer->type, .outer = outer->data, .inner = inner->data,
                  .outer_at = outer->at, .inner_at = inner->at};
  layout *all[WORK_INDICES + 2] = {&d->outer_at, &d->inner_at};
  for (int k = 0; k < d->n; k++) {
    d->index_at[k] = w->in[1 + k].data != NULL ? w->in[1 + k].at : outer->at;
    for (int i = 0; i < outer->at.rank && w->in[1 + k].data == NULL; i++)
      d->index_at[k].stride[i] = 0;
    all[k + 2] = &d->index_at[k];
  }
  layout_fuse(all, d->n + 2);
  for (int i = 0; i < d->n + 2 && d->outer_at.rank <= 1; i++)
    if (all[i]->rank == 0) {
      all[i]->rank = 1;
      all[i]->size[0] = 1;
      all[i]->stride[0] = 0;
    }
}


static void gather (cpu *self, const work *w) {
  indexing d;
  row_index r;
  begin(&d, self, w, &w->out[0], &w->in[0]);
  int64_t n = d.outer_at.size[d.outer_at.rank - 1], rows = layout_numel(&d.outer_at) / n;
  if (is_by_rows(&r, &d)) pool_run(self->pool, rows, 32768 / n + 1, rows_piece, &r);
  else pool_run(self->pool, rows, 32768 / n + 1, iterate_rows, &d);
}


static void scatter (cpu *self, const work *w) {
  indexing d;
  row_index r;
  begin(&d, self, w, &w->in[0], &w->out[0]);
  d.adding = w->op == SCATTER_ADD;
  int64_t n = d.outer_at.size[d.outer_at.rank - 1], rows = layout_numel(&d.outer_at) / n;
  bool apart = has_row_positions(&d) && d.inner_at.stride[d.inner_at.rank - 1] != 0;
  if (is_by_rows(&r, &d)) pool_run(self->pool, n, 32768 / rows + 16, columns_piece, &r);
  else if (apart) pool_run(self->pool, n, 32768 / rows + 16, iterate_columns, &d);
  else iterate_columns(&d, 0, n);
}


/* Runs a work with elements, whose positions are checked before. */
static const char *run_started (cpu *self, const work *w, void (*run) (cpu *self, const work *w)) {
  started s;
  const char *message = start(self, w, &s);
  if (message == NULL) run(self, s.w);
  cpu_scratch_free(s.positions);
  return message;
}


const char *cpu_gather (cpu *self, const work *w) {
  return layout_numel(&w->out[0].at) == 0 ? NULL : run_started(self, w, gather);
}


const char *cpu_scatter (cpu *self, const work *w) {
  return layout_numel(&w->in[0].at) == 0 ? NULL : run_started(self, w, scatter);
}


/* The position of the next element in row-major order. */
static void step (const layout *at, int64_t *position) {
  for (int i = at->rank - 1; i >= 0; i--) {
    if (++position[i] < at->size[i]) return;
    position[i] = 0;
  }
}


static bool is_zero (heed_type as, const void *x, int64_t i) {
  if (as == HEED_FLOAT32) return ((const float *)x)[i] == 0;
  return as == HEED_FLOAT64 ? ((const double *)x)[i] == 0 : ((const int64_t *)x)[i] == 0;
}


/* Fills the output, which was made for all of them. */
const char *cpu_nonzero (cpu *self, const work *w) {
  const view *x = &w->in[0], *out = &w->out[0];
  heed_type as = x->type == HEED_FLOAT64 ? HEED_FLOAT64
               : scalar_is_float(x->type) ? HEED_FLOAT32 : HEED_INT64;
  int64_t numel = layout_numel(&x->at), left = out->at.size[0], position[HEED_RANK] = {0};
  int64_t *y = out->data, workspace[CHUNK];
  iterator s;
  iterator_open(&s, x, as);
  for (int64_t from = 0; from < numel && left > 0; from += CHUNK) {
    if (cpu_stops(self, from / CHUNK, CHUNK)) return NULL;
    int64_t n = numel - from < CHUNK ? numel - from : CHUNK;
    const void *elements = iterator_read(self, &s, from, n, as, workspace);
    for (int64_t i = 0; i < n && left > 0; i++, step(&x->at, position)) {
      if (is_zero(as, elements, i)) continue;
      for (int k = 0; k < x->at.rank; k++) y[k * out->at.stride[1]] = position[k] + 1;
      y += out->at.stride[0];
      left--;
    }
  }
  return NULL;
}
