/*
** matmul.h - products of matrices, of any strides, in batches.
**
** A product that is small or has few rows reads its operands in place; b is packed first into
** panels two vectors wide when it is large or transposed (and a, when it is large and transposed),
** in blocks that fit the caches: K. Goto, R. van de Geijn, "Anatomy of high-performance matrix
** multiplication", ACM TOMS 34 (2008). Which way is taken depends on sizes and strides alone, and
** each element is summed in one order, so results do not depend on the number of threads.
*/

#ifndef matmul_h
#define matmul_h

#define DOT_STEPS 256              /* of a sum in lanes, before it is added up in double */
#define NEAR_ELEMENTS 2048         /* of b packed on the stack */
#define BLOCK_DEPTH 256            /* of a packed panel: it stays in the nearest cache */
#define BLOCK_COLUMNS 4096         /* of packed b */
#define BLOCK_ROWS (16 * TILE_ROWS)
#define DIRECT_BYTES (1 << 18)     /* of b that need not be packed: it stays in the second cache */
#define PIECE_FLOPS 1000000        /* of a piece of work for another thread, at least */
#define LONG_DOT ((int64_t)1 << 20)    /* elements of a scalar product that is not cut */

typedef struct side {              /* of one operand: strides of its rows, columns and batches */
  char *data;
  int64_t row, column, batch[HEED_RANK];
} side;

typedef struct matmuls {           /* a work, ready to run */
  cpu *self;
  heed_type type;                  /* FLOAT32, FLOAT64 or INT64 */
  int64_t rows, columns, depth;
  double alpha;
  bool add, added;                 /* to out; an addend */
  int axes;                        /* of batches */
  int64_t size[HEED_RANK], batches;
  side a, b, c, addend;
  bool failed;
} matmuls;


static side side_of (const view *v) {
  const int r = v->at.rank;
  side s = {.data = v->data, .row = v->at.stride[r - 2], .column = v->at.stride[r - 1]};
  for (int i = 0; i < r - 2; i++) s.batch[i] = v->at.stride[i];
  return s;
}


/* The addend as if it had all axes of out: those it lacks are in front. */
static side side_of_addend (const view *v, int rank) {
  view wide = {.data = v->data, .at.rank = rank};
  for (int i = 0, lacks = rank - v->at.rank; i < rank; i++) {
    const bool own = i >= lacks && v->at.size[i - lacks] != 1;
    wide.at.stride[i] = own ? v->at.stride[i - lacks] : 0;
  }
  return side_of(&wide);
}


/* Rows of one batch after another, over one b: they are the rows of one matrix. */
static bool rows_continue (side *s, int axis, int64_t rows) {
  return rows == 1 || s->batch[axis] == rows * s->row;
}

static void merge_rows (side *s, int axis, int64_t rows) {
  if (rows == 1) s->row = s->batch[axis];
}

static void merge_batches (matmuls *m) {
  while (m->axes > 0) {
    const int last = m->axes - 1;
    if (m->size[last] != 1) {
      if (m->b.batch[last] != 0 || !rows_continue(&m->a, last, m->rows) ||
          !rows_continue(&m->c, last, m->rows) || !rows_continue(&m->addend, last, m->rows))
        return;
      merge_rows(&m->a, last, m->rows);
      merge_rows(&m->c, last, m->rows);
      merge_rows(&m->addend, last, m->rows);
      m->rows *= m->size[last];
    }
    m->axes = last;
  }
}


static void swap_axes (side *s) {
  int64_t row = s->row;
  s->row = s->column;
  s->column = row;
}

/* c^T = b^T a^T: rows of c must be unbroken, and one column is better done as one row. */
static void transpose_product (matmuls *m) {
  if (m->columns == 1 ? m->rows == 1 || m->c.row != 1 : m->c.column == 1) return;
  side a = m->a;
  int64_t rows = m->rows;
  m->a = m->b;
  m->b = a;
  m->rows = m->columns;
  m->columns = rows;
  swap_axes(&m->a);
  swap_axes(&m->b);
  swap_axes(&m->c);
  swap_axes(&m->addend);
}


static matmuls matmul_open (cpu *self, const work *w, heed_type type) {
  const view *out = &w->out[0], *a = &w->in[MATMUL_A], *b = &w->in[MATMUL_B];
  const int rank = out->at.rank;
  matmuls m = {
    .self = self, .type = type, .rows = out->at.size[rank - 2], .columns = out->at.size[rank - 1],
    .depth = a->at.size[rank - 1], .alpha = w->matmul.alpha, .add = w->matmul.accumulate,
    .added = w->nin > 2, .axes = rank - 2, .batches = 1, .a = side_of(a), .b = side_of(b),
    .c = side_of(out)
  };
  if (m.added) m.addend = side_of_addend(&w->in[MATMUL_ADDEND], rank);
  for (int i = 0; i < m.axes; i++) m.size[i] = out->at.size[i];
  merge_batches(&m);
  for (int i = 0; i < m.axes; i++) m.batches *= m.size[i];
  transpose_product(&m);
  return m;
}


/* Where batch number 'at' of an operand starts, in elements. */
static int64_t batch_offset (const matmuls *m, const side *s, int64_t at) {
  int64_t offset = 0;
  for (int i = m->axes - 1; i >= 0 && at > 0; i--) {
    offset += at % m->size[i] * s->batch[i];
    at /= m->size[i];
  }
  return offset;
}


#define LOOPS "cpu/matmul_loops.h"
#include "cpu/for_floats.h"

/*
** {==================================================================
** Integers, which wrap: plain loops
** ===================================================================
*/

typedef struct integers {
  matmuls *m;
  const uint64_t *a, *b, *addend;
  uint64_t *c;
} integers;


static void integer_piece (void *arg, int64_t from, int64_t to) {
  const integers *x = arg;
  const matmuls *m = x->m;
  const uint64_t alpha = (uint64_t)(int64_t)m->alpha;
  for (int64_t i = from; i < to; i++) {
    uint64_t *c = x->c + i * m->c.row;
    for (int64_t j = 0; j < m->columns; j++) {
      uint64_t *at = c + j * m->c.column;
      *at = m->add ? *at : 0;
      if (m->added) *at += x->addend[i * m->addend.row + j * m->addend.column];
    }
    for (int64_t k = 0; k < m->depth && !cpu_stops(m->self, k, m->columns); k++) {
      const uint64_t factor = alpha * x->a[i * m->a.row + k * m->a.column];
      const uint64_t *b = x->b + k * m->b.row;
      for (int64_t j = 0; j < m->columns; j++)
        c[j * m->c.column] += factor * b[j * m->b.column];
    }
  }
}


static void matmul_integer (matmuls *m) {
  const int64_t cost = m->columns * m->depth * 4 + 100;
  for (int64_t at = 0; at < m->batches && !cpu_stops(m->self, at, 512); at++) {
    integers x = {.m = m, .a = (const uint64_t *)m->a.data + batch_offset(m, &m->a, at),
                  .b = (const uint64_t *)m->b.data + batch_offset(m, &m->b, at),
                  .c = (uint64_t *)m->c.data + batch_offset(m, &m->c, at)};
    if (m->added) x.addend = (const uint64_t *)m->addend.data + batch_offset(m, &m->addend, at);
    pool_run(m->self->pool, m->rows, PIECE_FLOPS / cost + 1, integer_piece, &x);
  }
}

/* }================================================================== */


static const char *matmul_run (matmuls *m) {
  if (m->rows == 0 || m->columns == 0 || m->batches == 0) return NULL;
  switch (m->type) {
    case HEED_FLOAT32: matmul_f32(m); break;
    case HEED_FLOAT64: matmul_f64(m); break;
    default: matmul_integer(m); break;
  }
  return m->failed ? cpu_no_memory : NULL;
}


/*
** {==================================================================
** Other types and odd strides: operands are converted completely, row by row
** ===================================================================
*/

/* Element (.., 0) of row number 'at' of a view. */
static char *row_of (const view *v, int64_t at) {
  int64_t offset = 0;
  for (int i = v->at.rank - 2; i >= 0; i--) {
    offset += at % v->at.size[i] * v->at.stride[i];
    at /= v->at.size[i];
  }
  return (char *)v->data + offset * scalar_sizes[v->type];
}


static int64_t rows_of (const view *v) {
  const int64_t columns = v->at.size[v->at.rank - 1];
  return columns == 0 ? 0 : layout_numel(&v->at) / columns;
}


/* The same shape, dense, at 'data'. */
static view dense_view (const view *v, heed_type type, void *data) {
  view d = {.data = data, .type = type, .at = v->at};
  int64_t stride = 1;
  for (int i = d.at.rank - 1; i >= 0; i--) {
    d.at.stride[i] = stride;
    stride *= d.at.size[i];
  }
  return d;
}


/* Rows that are dense: of 'to' when loading, of 'from' when storing. */
static void load_view (cpu *self, const view *from, const view *to) {
  const int last = from->at.rank - 1;
  const int64_t n = from->at.size[last], stride = from->at.stride[last];
  for (int64_t i = 0; i < rows_of(from); i++)
    for (int64_t j = 0; j < n; j += MOVED_ELEMENTS) {
      if ((n >= 4096 || (i & 63) == 63) && cpu_stopped(self)) return;
      self->level->load(smaller(n - j, MOVED_ELEMENTS), to->type,
                        row_of(to, i) + j * scalar_sizes[to->type], from->type,
                        row_of(from, i) + j * stride * scalar_sizes[from->type], stride);
    }
}


static void store_view (cpu *self, const view *from, const view *to) {
  const int last = to->at.rank - 1;
  const int64_t n = to->at.size[last], stride = to->at.stride[last];
  for (int64_t i = 0; i < rows_of(to); i++)
    for (int64_t j = 0; j < n; j += MOVED_ELEMENTS) {
      if ((n >= 4096 || (i & 63) == 63) && cpu_stopped(self)) return;
      self->level->store(smaller(n - j, MOVED_ELEMENTS), to->type,
                         row_of(to, i) + j * stride * scalar_sizes[to->type], stride,
                         from->type, row_of(from, i) + j * scalar_sizes[from->type]);
    }
}


/* Batch axes that are broadcast are converted once. */
static view without_broadcast (const view *v) {
  view y = *v;
  for (int i = 0; i < y.at.rank - 2; i++)
    if (y.at.stride[i] == 0) y.at.size[i] = 1;
  return y;
}


static void broadcast_again (view *v, const view *like) {
  for (int i = 0; i < v->at.rank - 2; i++)
    if (v->at.size[i] != like->at.size[i]) {
      v->at.stride[i] = 0;
      v->at.size[i] = like->at.size[i];
    }
}


/* The addend with all of out's axes. */
static view addend_of (const work *w) {
  const view *addend = &w->in[MATMUL_ADDEND];
  view y = {.data = addend->data, .type = addend->type, .at = w->out[0].at};
  side s = side_of_addend(addend, y.at.rank);
  memcpy(y.at.stride, s.batch, sizeof s.batch);
  y.at.stride[y.at.rank - 2] = s.row;
  y.at.stride[y.at.rank - 1] = s.column;
  return y;
}


/* v as 'type', dense, at 'data'. */
static view converted (cpu *self, const view *v, heed_type type, void *data) {
  const view d = dense_view(v, type, data);
  load_view(self, v, &d);
  return d;
}


static const char *matmul_converted (cpu *self, const work *w, heed_type type) {
  const view narrow[] = {without_broadcast(&w->in[MATMUL_A]), without_broadcast(&w->in[MATMUL_B]),
                         w->out[0], w->nin > 2 ? addend_of(w) : view_none()};
  size_t start[5] = {0};
  for (int i = 0; i < 4; i++) {
    const int64_t n = view_is_none(&narrow[i]) ? 0 : layout_numel(&narrow[i].at);
    start[i + 1] = start[i] + (size_t)round_up(n, 16) * scalar_sizes[type];
  }
  char *workspace = cpu_scratch(start[4]);
  if (workspace == NULL) return cpu_no_memory;
  view a = converted(self, &narrow[0], type, workspace + start[0]);
  view b = converted(self, &narrow[1], type, workspace + start[1]), addend = narrow[3];
  const view y = dense_view(&narrow[2], type, workspace + start[2]);
  broadcast_again(&a, &w->in[MATMUL_A]);
  broadcast_again(&b, &w->in[MATMUL_B]);
  if (w->matmul.accumulate) load_view(self, &narrow[2], &y);
  if (w->nin > 2) addend = converted(self, &narrow[3], type, workspace + start[3]);
  work inner;
  work_matmul(&inner, w->matmul.alpha, w->matmul.accumulate, y, a, b, addend);
  matmuls m = matmul_open(self, &inner, type);
  const char *why = matmul_run(&m);
  if (why == NULL) store_view(self, &y, &narrow[2]);
  cpu_scratch_free(workspace);
  return why;
}

/* }================================================================== */


/* The type that a product is computed in. */
static heed_type matmul_type (const work *w) {
  heed_type type = w->out[0].type;
  return type == HEED_FLOAT64 ? type : scalar_is_float(type) ? HEED_FLOAT32 : HEED_INT64;
}


static const char *matmul (cpu *self, const work *w) {
  const heed_type type = matmul_type(w);
  bool as_it_is = w->out[0].type == type;
  for (int i = 0; i < w->nin; i++) as_it_is &= w->in[i].type == type && w->in[i].data != NULL;
  if (as_it_is) {
    matmuls m = matmul_open(self, w, type);
    if ((m.c.column == 1 || m.columns == 1) && (!m.added || m.addend.column == 0
                                                || m.addend.column == 1 || m.columns == 1))
      return matmul_run(&m);
  }
  return matmul_converted(self, w, type);
}

#endif
