/*
** copy.c - elements from one layout to another.
*/

#include "cpu/copy/copy_row.h"
#include "cpu/cpu.h"

#define SIDE 32                    /* of a square of elements that is transposed */

typedef struct copying {
  cpu *self;
  char *to;
  const char *from;
  layout to_at, from_at;           /* fused; 'to' has its smallest stride along the last axis … */
  bool across;                     /* … and 'from' along the axis before it */
  size_t size;                     /* of an element */
} copying;


/*
** y[i, j] = x[i, j] for m x n elements, n <= SIDE, m <= SIDE, where x is dense along i and y
** along j: through a square of their own, so that each cache line is read or written once.
*/
#define SQUARE(X) { \
    X square[SIDE][SIDE], *const y = to; \
    const X *const x = from; \
    for (int64_t j = 0; j < n; j++) \
      for (int64_t i = 0; i < m; i++) square[j][i] = x[i * from_i + j * from_j]; \
    for (int64_t i = 0; i < m; i++) \
      for (int64_t j = 0; j < n; j++) y[i * to_i + j * to_j] = square[j][i]; \
    return; \
  }

static void copy_square (size_t size, int64_t m, int64_t n, void *to, int64_t to_i, int64_t to_j,
                         const void *from, int64_t from_i, int64_t from_j) {
  switch (size) {
    case 1: SQUARE(uint8_t)
    case 2: SQUARE(uint16_t)
    case 4: SQUARE(uint32_t)
    default: SQUARE(uint64_t)
  }
}


/* The start of row number 'row' of the axes before the last 'inner' ones. */
static void find_row (const copying *c, int64_t row, int inner, char **to, const char **from) {
  int64_t to_offset = 0, from_offset = 0;
  for (int i = c->to_at.rank - inner - 1; i >= 0; i--) {
    int64_t size = c->to_at.size[i], at = row % size;
    row /= size;
    to_offset += at * c->to_at.stride[i];
    from_offset += at * c->from_at.stride[i];
  }
  *to = c->to + to_offset * (int64_t)c->size;
  *from = c->from + from_offset * (int64_t)c->size;
}


/* Elements at .. at + n - 1 of a row. */
static void copy_part (const copying *c, int64_t at, int64_t n, char *to, const char *from) {
  int last = c->to_at.rank - 1;
  int64_t to_stride = c->to_at.stride[last], from_stride = c->from_at.stride[last];
  int64_t size = (int64_t)c->size;
  copy_row(c->size, n, to + at * to_stride * size, to_stride, from + at * from_stride * size,
           from_stride);
}


static void copy_rows (void *arg, int64_t first, int64_t end) {
  const copying *c = arg;
  int64_t n = c->to_at.size[c->to_at.rank - 1], at = 0;
  for (int64_t row = first; row < end; row++) {
    char *to;
    const char *from;
    find_row(c, row, 1, &to, &from);
    for (at = 0; n - at > MOVED_ELEMENTS; at += MOVED_ELEMENTS) {
      if (cpu_stopped(c->self)) return;
      copy_part(c, at, MOVED_ELEMENTS, to, from);
    }
    copy_part(c, at, n - at, to, from);
  }
}


/* Bands of SIDE rows: along the axis before the last, in order, then the axes before it. */
static void copy_bands (void *arg, int64_t first, int64_t end) {
  const copying *c = arg;
  int j = c->to_at.rank - 1, i = j - 1;
  int64_t rows = c->to_at.size[i], n = c->to_at.size[j], bands = (rows + SIDE - 1) / SIDE;
  const int64_t *to_stride = c->to_at.stride, *from_stride = c->from_at.stride;
  int64_t size = (int64_t)c->size;
  for (int64_t band = first; band < end; band++) {
    int64_t row = band % bands * SIDE, m = rows - row < SIDE ? rows - row : SIDE;
    char *to;
    const char *from;
    find_row(c, band / bands, 2, &to, &from);
    to += row * to_stride[i] * size;
    from += row * from_stride[i] * size;
    for (int64_t at = 0; at < n && !cpu_stops(c->self, at / SIDE, SIDE * SIDE); at += SIDE)
      copy_square(c->size, m, n - at < SIDE ? n - at : SIDE, to + at * to_stride[j] * size,
                  to_stride[i], to_stride[j], from + at * from_stride[j] * size, from_stride[i],
                  from_stride[j]);
  }
}


/*
** {==================================================================
** The order of axes
** ===================================================================
*/

static int64_t distance (int64_t stride) { return stride < 0 ? -stride : stride; }


static void swap (copying *c, int a, int b) {
  c->to_at = layout_transpose(&c->to_at, a, b);
  c->from_at = layout_transpose(&c->from_at, a, b);
}


/* Fused, and by falling strides of 'to': any order of elements will do. */
static void order_axes (copying *c) {
  layout_fuse((layout *[]){&c->to_at, &c->from_at}, 2);
  for (int i = 1; i < c->to_at.rank; i++)
    for (int j = i; j > 0; j--)
      if (distance(c->to_at.stride[j]) > distance(c->to_at.stride[j - 1])) swap(c, j, j - 1);
  layout_fuse((layout *[]){&c->to_at, &c->from_at}, 2);
}


/* Moves the axis of the smallest stride of 'from' before the last one, if it is not the last. */
static void find_across (copying *c) {
  int last = c->to_at.rank - 1, least = last;
  for (int i = 0; i < last; i++)
    if (distance(c->from_at.stride[i]) < distance(c->from_at.stride[least])) least = i;
  c->across = least != last && c->from_at.stride[least] != 0;
  for (int i = least; c->across && i < last - 1; i++) swap(c, i, i + 1);
}

/* }================================================================== */


static void copy_bytes (void *arg, int64_t first, int64_t end) {
  const copying *c = arg;
  memcpy(c->to + first, c->from + first, (size_t)(end - first));
}


static const char *copy_same (cpu *self, const view *to, const view *from) {
  int64_t numel = layout_numel(&to->at);
  copying c = {.self = self, .to = to->data, .from = from->data, .to_at = to->at,
               .from_at = from->at, .size = scalar_sizes[to->type]};
  if (numel == 0) return NULL;
  if (layout_is_dense(&to->at) && layout_is_dense(&from->at)) {
    pool_run(self->pool, numel * (int64_t)c.size, 262144, copy_bytes, &c);
    return NULL;
  }
  order_axes(&c);
  if (c.to_at.rank == 0) {
    memcpy(c.to, c.from, c.size);
    return NULL;
  }
  find_across(&c);
  int64_t n = c.to_at.size[c.to_at.rank - 1], rows = numel / n;
  if (!c.across) pool_run(self->pool, rows, 65536 / n + 1, copy_rows, &c);
  else {
    int64_t side = c.to_at.size[c.to_at.rank - 2], bands = rows / side * ((side + SIDE - 1) / SIDE);
    pool_run(self->pool, bands, 16384 / (n * SIDE) + 1, copy_bands, &c);
  }
  return NULL;
}


/* Copies through a dense copy, where memory might be read after it was written. */
static const char *copy_overlapping (cpu *self, const work *w) {
  view dense = {.type = w->in[0].type};
  layout_dense(&dense.at, w->in[0].at.rank, w->in[0].at.size);
  dense.data = cpu_scratch(self, (size_t)layout_numel(&dense.at) * scalar_sizes[dense.type]);
  if (dense.data == NULL) return cpu_no_memory;
  work second;
  work_copy(&second, COPY_APART, w->out[0], dense);
  const char *message = copy_same(self, &dense, &w->in[0]);
  if (message == NULL) message = cpu_copy(self, &second);
  cpu_scratch_free(dense.data);
  return message;
}


const char *cpu_copy (cpu *self, const work *w) {
  const view *to = &w->out[0], *from = &w->in[0];
  bool number = from->data == NULL;
  if (w->op == COPY_OVERLAPPING && !number) return copy_overlapping(self, w);
  if (number || to->type != from->type) return cpu_convert(self, w);
  return copy_same(self, to, from);
}
