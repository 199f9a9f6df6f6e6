/*
** matmul.h - products of matrices, of any strides, in batches.
**
** A product that is small or has few rows reads its operands in place; b is packed first into
** panels two vectors wide when it is large or transposed (and a, when it is large and transposed),
** in blocks that fit the caches: K. Goto, R. van de Geijn, "Anatomy of high-performance matrix
** multiplication", ACM TOMS 34 (2008). ways.h says which way is taken. Each element is summed in
** one order, so results do not depend on the number of threads.
*/

#ifndef matmul_h
#define matmul_h

#include "cpu/product/pairs.h"
#include "cpu/vector/elementwise.h"

#define DOT_STEPS 256              /* of a sum in lanes, before it is added up in double */
#define DOT_TURN 4                 /* vectors of a column that are read before the next column's */
#define LARGE_BYTES (1 << 20)      /* of b, above which a few rows wait for memory, as a rule */
#define ALONE_BYTES 32             /* of a vector, with which a column's sum is as fast as memory */
#define ALONE_DEPTH (16384 / BYTES)    /* of rows that stay in the first cache beside a column */
#define NEAR_ELEMENTS 2048         /* of b packed on the stack */
#define BLOCK_COLUMNS 512          /* of packed b, and of c: it is read for each block of depth */
#define BLOCK_ROWS (16 * TILE_ROWS)
#define PIECE_COLUMNS (4 * PANEL)  /* of a block, for one thread; */
#define FEW_PIECES 8               /* or of a panel, where a thread has fewer than so many */
#define DIRECT_BYTES (1 << 18)     /* of b that need not be packed: it stays in the second cache */
#define DEEP_BYTES (1 << 18)       /* of a, read for each panel of kept b: as above */
#define FEW_ROWS 8                 /* of a, while b is read once */
#define LINES 8                    /* of b, read side by side */
#define LINE_ROWS 4                /* of a, at a time */
#define LINE_SUMS (16384 / BYTES)  /* of lines, on the stack */
#define LINE_BLOCKS 32             /* of depth, whose sums have room at a time */
#define NEAR_DEPTH 64              /* of 16-bit floats, converted before they are transposed */
#define PIECE_READ (1 << 18)       /* bytes of a piece of work that memory holds up, at least */
#define PIECE_SUMS (1 << 16)       /* elements of one that adds up the sums of lines */
#define FAR_BYTES (1 << 24)        /* of b that is in no cache, and is read once */
#define SMALL_FLOPS (1 << 18)      /* of a product of a batch that needs no care */
#define TURNED_COLUMNS 8           /* of c, at most, that are summed as rows */
#define TURNED_ROWS (4 * LANES)    /* of c, at a time */
#define PIECE_FLOPS 1000000        /* of a piece of work for another thread, at least */
#define LONG_DOT ((int64_t)1 << 20)    /* elements of a scalar product that is not cut */

_Static_assert(DOT_STEPS % DOT_TURN == 0 && DOT_TURN % 2 == 0, "two products are added at a time");

/* Depth of a packed panel: that and the tiles' rows of a stay in near caches. */
#if defined(LEVEL_AVX512)
#define BLOCK_DEPTH 512
#else
#define BLOCK_DEPTH 256
#endif

/* Rows of a at a time in scalar products with four columns: their sums fit the registers. */
#if TILE_ROWS == 12
#define DOT_ROWS 4
#define EACH_DOT_ROW(X, ...) \
  X(__VA_ARGS__, 1) X(__VA_ARGS__, 2) X(__VA_ARGS__, 3) X(__VA_ARGS__, 4)
#else
#define DOT_ROWS 3
#define EACH_DOT_ROW(X, ...) X(__VA_ARGS__, 1) X(__VA_ARGS__, 2) X(__VA_ARGS__, 3)
#endif

/* The types that b may be of, as FN(one)'s source counts them. */
#define EACH_SOURCE_double(X, Y) X(Y, own, TYPE)
#define EACH_SOURCE_float(X, Y) \
  X(Y, own, TYPE) X(Y, bfloat16, HEED_BFLOAT16) X(Y, float16, HEED_FLOAT16)

/*
** Lines of memory that are read in turns, some bytes of each; behind the last line the next ones
** begin. What is fetched has the order of what is read, with which memory is fastest.
*/
typedef struct fetched {           /* a place in a line, or in a later one */
  int64_t at;                      /* bytes from the beginning of the line that is read */
  int64_t left;                    /* bytes from the place to the end of its own line */
} fetched;

/* The place that is read after so many bytes of lines of 'line' bytes, at distances of 'next'. */
INLINED fetched fetched_after (int64_t bytes, int64_t line, int64_t next) {
  return (fetched){bytes / line * next + bytes % line, line - bytes % line};
}

INLINED void fetched_step (fetched *f, int64_t bytes, int64_t line, int64_t next) {
  f->at += bytes;
  f->left -= bytes;
  if (f->left > 0) return;
  f->at += next - line;
  f->left += line;
}


typedef struct side {              /* of one operand: strides of its rows, columns and batches */
  char *data;
  int64_t row, column, batch[HEED_RANK];
} side;

typedef struct matmuls {           /* a work, ready to run */
  cpu *self;
  heed_type type;                  /* FLOAT32, FLOAT64 or INT64 */
  heed_type a_type, b_type;        /* beside FLOAT32 that of b may be a 16-bit float */
  int64_t rows, columns, depth;
  int64_t b_rows;                  /* those of all batches that are multiplied by one b */
  double alpha;
  bool add, added;                 /* to out; an addend */
  int axes;                        /* of batches */
  int64_t size[HEED_RANK], batches;
  side a, b, c, addend;
  packed_copy *packed;                  /* of b, where a copy is kept; or NULL */
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


static bool continues (const side *s, int axis, int64_t n, int64_t stride) {
  return n == 1 || s->batch[axis] == n * stride;
}

/* Rows of one batch after another, over one b, are the rows of one matrix. */
static bool merge_rows (matmuls *m, int axis) {
  side *const sides[] = {&m->a, &m->c, &m->addend};
  for (int i = 0; i < 3; i++)
    if (!continues(sides[i], axis, m->rows, sides[i]->row)) return false;
  if (m->b.batch[axis] != 0) return false;
  for (int i = 0; i < 3 && m->rows == 1; i++) sides[i]->row = sides[i]->batch[axis];
  m->rows *= m->size[axis];
  return true;
}

/* Columns of one batch after another, over one a, are the columns of one matrix. */
static bool merge_columns (matmuls *m, int axis) {
  side *const sides[] = {&m->b, &m->c, &m->addend};
  for (int i = 0; i < 3; i++)
    if (!continues(sides[i], axis, m->columns, sides[i]->column)) return false;
  if (m->a.batch[axis] != 0) return false;
  for (int i = 0; i < 3 && m->columns == 1; i++) sides[i]->column = sides[i]->batch[axis];
  m->columns *= m->size[axis];
  return true;
}

/* Counted before they are merged: a view's rows are computed as those of its copy, which may be. */
static int64_t rows_of_one_b (const matmuls *m) {
  int64_t rows = m->rows;
  for (int i = m->axes - 1; i >= 0 && (m->size[i] == 1 || m->b.batch[i] == 0); i--)
    rows *= m->size[i];
  return rows;
}


static void merge_batches (matmuls *m) {
  for (; m->axes > 0; m->axes--) {
    const int last = m->axes - 1;
    if (m->size[last] != 1 && !merge_rows(m, last) && !merge_columns(m, last)) return;
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
  heed_type type = m->a_type;
  int64_t rows = m->rows;
  m->a = m->b;
  m->b = a;
  m->a_type = m->b_type;
  m->b_type = type;
  m->rows = m->b_rows = m->columns;
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
    .self = self, .type = type, .a_type = a->type, .b_type = b->type,
    .rows = out->at.size[rank - 2], .columns = out->at.size[rank - 1],
    .depth = a->at.size[rank - 1], .alpha = w->matmul.alpha, .add = w->matmul.accumulate,
    .added = w->nin > 2, .axes = rank - 2, .batches = 1, .a = side_of(a), .b = side_of(b),
    .c = side_of(out), .packed = w->matmul.packed
  };
  if (m.added) m.addend = side_of_addend(&w->in[MATMUL_ADDEND], rank);
  for (int i = 0; i < m.axes; i++) m.size[i] = out->at.size[i];
  m.b_rows = rows_of_one_b(&m);
  merge_batches(&m);
  for (int i = 0; i < m.axes; i++) m.batches *= m.size[i];
  transpose_product(&m);
  return m;
}


/* Where batch number 'at' of an operand starts, in elements. */
static int64_t batch_offset (const matmuls *m, const side *s, int64_t at) {
  int64_t offset = 0;
  for (int i = m->axes - 1; i > 0 && at > 0; i--) {
    offset += at % m->size[i] * s->batch[i];
    at /= m->size[i];
  }
  return m->axes > 0 ? offset + at * s->batch[0] : 0;
}


#define LOOPS "cpu/copy/source.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/product/one.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/product/dots.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/product/lines.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/product/direct.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/product/panels.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/product/ways.h"
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
    case HEED_FLOAT32: matmul_float(m); break;
    case HEED_FLOAT64: matmul_double(m); break;
    case HEED_INT64: matmul_integer(m); break;
    case HEED_BOOL: case HEED_UINT8: case HEED_FLOAT16: case HEED_BFLOAT16:
    SCALAR_BLOCK_CASES: break;
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


/* A view of v's shape, dense, at 'data'. */
static view dense_view (const view *v, heed_type type, void *data) {
  view d = {.data = data, .type = type, .at = v->at};
  int64_t stride = 1;
  for (int i = d.at.rank - 1; i >= 0; i--) {
    d.at.stride[i] = stride;
    stride *= d.at.size[i];
  }
  return d;
}


typedef struct move {              /* from one view to another of its shape */
  cpu *self;
  const view *from, *to;
} move;


/* Rows; those of 'to' are dense. */
static void load_piece (void *arg, int64_t first, int64_t end) {
  const move *x = arg;
  const view *from = x->from, *to = x->to;
  const int last = from->at.rank - 1;
  const int64_t n = from->at.size[last], stride = from->at.stride[last];
  for (int64_t i = first; i < end; i++)
    for (int64_t j = 0; j < n; j += MOVED_ELEMENTS) {
      if ((n >= 4096 || (i & 63) == 63) && cpu_stopped(x->self)) return;
      x->self->level->load(smaller(n - j, MOVED_ELEMENTS), to->type,
                           row_of(to, i) + j * scalar_sizes[to->type], from->type,
                           row_of(from, i) + j * stride * scalar_sizes[from->type], stride);
    }
}


/* Rows; those of 'from' are dense. */
static void store_piece (void *arg, int64_t first, int64_t end) {
  const move *x = arg;
  const view *from = x->from, *to = x->to;
  const int last = to->at.rank - 1;
  const int64_t n = to->at.size[last], stride = to->at.stride[last];
  for (int64_t i = first; i < end; i++)
    for (int64_t j = 0; j < n; j += MOVED_ELEMENTS) {
      if ((n >= 4096 || (i & 63) == 63) && cpu_stopped(x->self)) return;
      x->self->level->store(smaller(n - j, MOVED_ELEMENTS), to->type,
                            row_of(to, i) + j * stride * scalar_sizes[to->type], stride,
                            from->type, row_of(from, i) + j * scalar_sizes[from->type]);
    }
}


static void move_view (cpu *self, const view *from, const view *to, pool_piece piece) {
  move x = {self, from, to};
  const int64_t columns = from->at.size[from->at.rank - 1];
  pool_run(self->pool, rows_of(from), 65536 / (columns + 8) + 1, piece, &x);
}


/* Axes that are broadcast, of the first few, are converted once. */
static view without_broadcast (const view *v, int axes) {
  view y = *v;
  for (int i = 0; i < axes; i++)
    if (y.at.stride[i] == 0) y.at.size[i] = 1;
  return y;
}


static void broadcast_again (view *v, const view *like) {
  for (int i = 0; i < v->at.rank; i++)
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
  move_view(self, v, &d, load_piece);
  return d;
}


/* A factor: column by column, if its columns lie so and are long. */
static view converted_factor (cpu *self, const view *v, heed_type type, void *data) {
  const int row = v->at.rank - 2, column = v->at.rank - 1;
  if (v->at.stride[row] != 1 || v->at.stride[column] == 1 || v->at.size[row] <= FEW_ROWS)
    return converted(self, v, type, data);
  view y = *v;
  y.at = layout_transpose(&v->at, row, column);
  y = converted(self, &y, type, data);
  y.at = layout_transpose(&y.at, row, column);
  return y;
}


static bool lies_as (const view *v, heed_type type) { return v->type == type && v->data != NULL; }


/* A work's operands and its result as it is computed, in one type. */
enum { MATMUL_OUT = MATMUL_ADDEND + 1, MATMUL_VIEWS };

typedef struct copies {
  view view[MATMUL_VIEWS];
  bool made[MATMUL_VIEWS];         /* or it lies as it is needed */
  size_t start[MATMUL_VIEWS + 1];  /* in the workspace */
} copies;


/* Factors that are of 'type', and the one numbered 'kept', stay where they are. */
static copies copies_plan (const work *w, heed_type type, int kept) {
  const int rank = w->out[0].at.rank;
  copies c = {.view = {w->in[MATMUL_A], w->in[MATMUL_B], w->nin > 2 ? addend_of(w) : view_none(),
                       w->out[0]}};
  for (int i = 0; i < MATMUL_VIEWS; i++) {
    view *v = &c.view[i];
    c.made[i] = !view_is_none(v) && (i > MATMUL_B || (i != kept && !lies_as(v, type)));
    if (c.made[i] && i <= MATMUL_B) *v = without_broadcast(v, rank - 2);
    else if (c.made[i] && i == MATMUL_ADDEND) *v = without_broadcast(v, rank - 1);
    const int64_t n = c.made[i] ? layout_numel(&v->at) : 0;
    c.start[i + 1] = c.start[i] + (size_t)round_up(n, 16) * scalar_sizes[type];
  }
  return c;
}


static void copies_make (cpu *self, const work *w, heed_type type, copies *c, char *workspace) {
  for (int i = 0; i < MATMUL_VIEWS; i++) {
    view *v = &c->view[i];
    void *data = workspace + c->start[i];
    if (!c->made[i]) continue;
    if (i == MATMUL_OUT)
      *v = w->matmul.accumulate ? converted(self, v, type, data) : dense_view(v, type, data);
    else
      *v = i == MATMUL_ADDEND ? converted(self, v, type, data)
                              : converted_factor(self, v, type, data);
    broadcast_again(v, i <= MATMUL_B ? &w->in[i] : &w->out[0]);
  }
}


/* Computes in 'type'; 'kept' numbers a factor of 16-bit floats that is read as it lies, or -1. */
static const char *matmul_converted (cpu *self, const work *w, heed_type type, int kept) {
  copies c = copies_plan(w, type, kept);
  char *workspace = cpu_scratch(self, c.start[MATMUL_VIEWS]);
  if (workspace == NULL) return cpu_no_memory;
  copies_make(self, w, type, &c, workspace);
  work inner;
  work_matmul(&inner, w->matmul.alpha, w->matmul.accumulate, c.view[MATMUL_OUT],
              c.view[MATMUL_A], c.view[MATMUL_B], c.view[MATMUL_ADDEND]);
  matmuls m = matmul_open(self, &inner, type);
  const bool suits = m.a_type == type;           /* not transposed, so that a is what is kept */
  const char *why = suits ? matmul_run(&m) : NULL;
  if (suits && why == NULL) move_view(self, &c.view[MATMUL_OUT], &w->out[0], store_piece);
  cpu_scratch_free(workspace);
  return suits ? why : matmul_converted(self, w, type, -1);
}

/* }================================================================== */


/* The type that a product is computed in. */
static heed_type matmul_type (const work *w) {
  heed_type type = w->out[0].type;
  return type == HEED_FLOAT64 ? type : scalar_is_float(type) ? HEED_FLOAT32 : HEED_INT64;
}


/*
** The operand that is read in its own type beside float32: for a single column the other factor,
** elsewhere b.
*/
static int matmul_kept (const work *w, heed_type type) {
  const layout *at = &w->out[0].at;
  const int b = at->size[at->rank - 1] == 1 ? MATMUL_A : MATMUL_B;
  return type == HEED_FLOAT32 && scalar_is_half(w->in[b].type) && w->in[b].data != NULL ? b : -1;
}


#if defined(HAS_PAIRS)

/* The product of bfloat16 matrices, if it is one of many rows that lie as pairs.h has them. */
static bool matmul_pairs (cpu *self, const work *w) {
  const view *out = &w->out[0], *addend = &w->in[MATMUL_ADDEND];
  const bool added = w->nin > 2;
  if (w->in[MATMUL_A].type != HEED_BFLOAT16 || w->in[MATMUL_B].type != HEED_BFLOAT16
      || (out->type != HEED_BFLOAT16 && out->type != HEED_FLOAT32)
      || w->matmul.accumulate || w->matmul.alpha != 1 || !has_pairs()) return false;
  const matmuls m = matmul_open(self, w, HEED_FLOAT32);
  if (m.batches != 1 || m.rows < PAIRS_MANY || m.depth < 2 || m.depth % 2 > 0
      || m.a.column != 1 || m.b.row != 1 || m.c.column != 1
      || (added && (m.addend.row != 0 || m.addend.column != 1
                    || (addend->type != HEED_FLOAT32 && addend->type != HEED_BFLOAT16))))
    return false;
  float *bias = !added ? NULL : cpu_scratch(self, (size_t)m.columns * sizeof *bias);
  if (added && bias == NULL) return false;
  if (added) self->level->load(m.columns, HEED_FLOAT32, bias, addend->type, m.addend.data, 1);
  pairs_product p = {
    .self = self, .x = (const uint16_t *)m.a.data, .w = (const uint16_t *)m.b.data, .bias = bias,
    .y = m.c.data, .type = out->type, .m = m.rows, .n = m.columns, .k = m.depth,
    .x_row = m.a.row, .w_row = m.b.column, .y_row = m.c.row
  };
  const bool done = pairs_run(&p);
  cpu_scratch_free(bias);
  return done;
}

#endif


static const char *matmul (cpu *self, const work *w) {
  const heed_type type = matmul_type(w);
#if defined(HAS_PAIRS)
  if (matmul_pairs(self, w)) return NULL;
#endif
  bool as_it_is = lies_as(&w->out[0], type);
  for (int i = 0; i < w->nin; i++) as_it_is &= lies_as(&w->in[i], type);
  if (as_it_is) {
    matmuls m = matmul_open(self, w, type);
    if ((m.c.column == 1 || m.columns == 1) && (!m.added || m.addend.column == 0
                                                || m.addend.column == 1 || m.columns == 1))
      return matmul_run(&m);
  }
  return matmul_converted(self, w, type, matmul_kept(w, type));
}

#endif
