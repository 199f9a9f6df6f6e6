/*
** matmul_few.h - products of few rows with a large matrix, which is read once, as it lies (read
** once for each type): a scalar product for each column of b that is unbroken, as in x W^T; else
** some lines of b at a time, over all columns.
*/

#ifndef T
#include "cpu/product/matmul.h"
#else

/* The types that b may be of, as x->source counts them. */
#if BYTES == 4
#define EACH_SOURCE(X, Y) \
  X(Y, own, TYPE) X(Y, bfloat16, HEED_BFLOAT16) X(Y, float16, HEED_FLOAT16)
#else
#define EACH_SOURCE(X, Y) X(Y, own, TYPE)
#endif

/*
** {==================================================================
** Scalar products: b the transpose of unbroken rows
** ===================================================================
*/

/* The totals of GROUP vectors, which it uses up. */
INLINED FN(piece) FN(totals) (FN(vector) v[GROUP]) {
  FN(piece) part[VECTOR_BYTES / 16];
  FN(transpose_pieces)(v);
  FN(vector) sum = v[0];
  UNROLL for (int k = 1; k < GROUP; k++) sum += v[k];
  memcpy(part, &sum, sizeof part);
  UNROLL for (int k = 1; k < VECTOR_BYTES / 16; k++) part[0] += part[k];
  return part[0];
}


/* Adds the totals of four vectors. */
INLINED void FN(add_totals) (FN(vector) v[4], double total[4]) {
  UNROLL for (int i = 0; i < 4; i += GROUP) {
    const FN(piece) part = FN(totals)(v + i);
    UNROLL for (int k = 0; k < GROUP; k++) total[i + k] += part[k];
  }
}


/* What is read some time later. */
INLINED void FN(fetch) (const char *from, const int bytes) {
  UNROLL for (int i = 0; i < bytes; i += 64) __builtin_prefetch(from + i);
}


/* Lanes of depth: 'rows' rows of a times four columns of b. */
INLINED void FN(dot_step) (const int rows, const heed_type type, FN(vector) sum[DOT_ROWS][4],
                           const T *a, int64_t a_row, const char *const at[4], int64_t k,
                           int lanes) {
  FN(vector) line[DOT_ROWS];
  UNROLL for (int i = 0; i < rows; i++) line[i] = FN(load_some)(a + i * a_row + k, lanes);
  UNROLL for (int j = 0; j < 4; j++) {
    const FN(vector) y = FN(load_from)(type, at[j], k, lanes);
    UNROLL for (int i = 0; i < rows; i++) sum[i][j] += line[i] * y;
  }
}


/*
** 'rows' rows of c, four columns of which n are there. Each step fetches as much as it reads of
** what comes next, in one line: memory is faster so than along four lines.
*/
INLINED void FN(dot_tile) (const int rows, const heed_type type, const FN(one) *x, const T *a,
                           const char *b, T *c, const T *addend, int64_t n, const char *next) {
  const int step = 8 * LANES * (type == TYPE ? BYTES : 2);
  const FN(product) *p = &x->p;
  const int64_t depth = p->depth, a_row = p->a_row;
  const char *at[4];
  double total[DOT_ROWS][4] = {{0}};
  UNROLL for (int j = 0; j < 4; j++)
    at[j] = b + smaller(j, n - 1) * x->b_column * FN(b_bytes)(x);
  for (int64_t k = 0, end; k < depth;) {
    FN(vector) sum[DOT_ROWS][4] = {{{0}}};
    end = smaller(depth, k + DOT_STEPS * LANES);
    for (; k + 2 * LANES <= end; k += 2 * LANES, next += step) {
      FN(fetch)(next, step);
      FN(dot_step)(rows, type, sum, a, a_row, at, k, LANES);
      FN(dot_step)(rows, type, sum, a, a_row, at, k + LANES, LANES);
    }
    if (k + LANES <= end) {
      FN(dot_step)(rows, type, sum, a, a_row, at, k, LANES);
      k += LANES;
    }
    if (k < end) FN(dot_step)(rows, type, sum, a, a_row, at, k, (int)(end - k));
    k = end;
    UNROLL for (int i = 0; i < rows; i++) FN(add_totals)(sum[i], total[i]);
  }
  UNROLL for (int i = 0; i < rows; i++) {
    for (int64_t j = 0; j < n; j++) {
      T y = (T)total[i][j] * p->alpha;
      if (addend != NULL) y += addend[i * p->addend_row + j * p->addend_column];
      if (p->add) y += c[i * p->c_row + j];
      c[i * p->c_row + j] = y;
    }
  }
}

typedef void (*FN(dot_kernel)) (const FN(one) *x, const T *a, const char *b, T *c,
                                const T *addend, int64_t n, const char *next);

#define DOTS(name, type, rows) \
  static void FN(dots_##name##_##rows) (const FN(one) *x, const T *a, const char *b, T *c, \
                                        const T *addend, int64_t n, const char *next) { \
    FN(dot_tile)(rows, type, x, a, b, c, addend, n, next); \
  }
#define DOTS_NAME(name, type, rows) FN(dots_##name##_##rows),
#define ALL_ROWS(X, name, type) EACH_DOT_ROW(X, name, type)
EACH_SOURCE(ALL_ROWS, DOTS)
static const FN(dot_kernel) FN(dot_kernels)[][DOT_ROWS] = {
#define SOURCE_ROWS(X, name, type) {EACH_DOT_ROW(X, name, type)},
  EACH_SOURCE(SOURCE_ROWS, DOTS_NAME)
};


/*
** DOT_ROWS rows from 'i' on, or what is left of them, and four columns from 'j' on; what is read
** after them begins at 'next'.
*/
static void FN(dots_at) (const FN(one) *x, int64_t i, int64_t j, const void *next) {
  const FN(product) *p = &x->p;
  const T *addend = p->addend == NULL ? NULL
                    : p->addend + i * p->addend_row + j * p->addend_column;
  FN(dot_kernels)[x->source][smaller(x->rows - i, DOT_ROWS) - 1](
    x, x->a + i * p->a_row, FN(b_at)(x, j * x->b_column), x->c + i * p->c_row + j, addend,
    smaller(x->columns - j, 4), next);
}


/* Columns 4 'from' to 4 'to' - 1: b is read once. */
static void FN(dot_columns) (const FN(one) *x, int64_t from, int64_t to) {
  const bool in_line = x->b_column == x->p.depth;
  for (int64_t j = 4 * from; j < smaller(4 * to, x->columns); j += 4) {
    const int64_t next = in_line && j + 4 < x->columns ? j + 4 : j;
    for (int64_t i = 0; i < x->rows; i += DOT_ROWS)
      FN(dots_at)(x, i, j, FN(b_at)(x, next * x->b_column));
  }
}


/* Rows DOT_ROWS 'from' to DOT_ROWS 'to' - 1: a is read once. */
static void FN(dot_rows) (const FN(one) *x, int64_t from, int64_t to) {
  const bool in_line = x->p.a_row == x->p.depth;
  for (int64_t i = DOT_ROWS * from; i < smaller(DOT_ROWS * to, x->rows); i += DOT_ROWS) {
    const int64_t next = in_line && i + DOT_ROWS < x->rows ? i + DOT_ROWS : i;
    for (int64_t j = 0; j < x->columns; j += 4) FN(dots_at)(x, i, j, x->a + next * x->p.a_row);
  }
}


/* Tiles of the larger side, which is shared out. */
static int64_t FN(dot_tiles) (const FN(one) *x) {
  return x->rows > x->columns ? (x->rows + DOT_ROWS - 1) / DOT_ROWS : (x->columns + 3) / 4;
}

static void FN(dot_some) (const FN(one) *x, int64_t from, int64_t to) {
  (x->rows > x->columns ? FN(dot_rows) : FN(dot_columns))(x, from, to);
}


/* Long scalar products are cut, so that they can be stopped; their parts are added up. */
static void FN(dot_piece) (void *arg, int64_t from, int64_t to) {
  const FN(one) *x = arg;
  for (int64_t k = 0; k < x->p.depth; k += LONG_DOT) {
    if (k > 0 && cpu_stopped(x->m->self)) break;
    FN(one) y = *x;
    y.a += k;
    y.b = FN(b_at)(x, k);
    y.p.depth = smaller(x->p.depth - k, LONG_DOT);
    if (k > 0) { y.p.add = true; y.p.addend = NULL; }
    FN(dot_some)(&y, from, to);
  }
}


/* Few products are made of what is read: both are counted. */
static void FN(dots) (FN(one) *x) {
  const bool tall = x->rows > x->columns;
  const int64_t bytes = x->p.depth * (tall ? DOT_ROWS * BYTES : 4 * FN(b_bytes)(x));
  const int64_t cost = 8 * smaller(x->rows, x->columns) * x->p.depth;
  const int64_t grain = smaller(PIECE_FLOPS / (cost + 100), PIECE_READ / (bytes + 100)) + 1;
  pool_run(x->m->self->pool, FN(dot_tiles)(x), grain, FN(dot_piece), x);
}

/* }================================================================== */


/*
** {==================================================================
** Lines: b's rows are unbroken. LINES of them at a time are read side by side over all columns:
** memory is read three times as fast so as in tiles, whose columns are far from each other.
** ===================================================================
*/

/* sum[i][j] += the products of 'lines' lines of b with row i of a, in order. */
INLINED void FN(line_step) (const int rows, const int lines, const heed_type type,
                            FN(vector) x[LINE_ROWS][LINES], const char *b, int64_t b_row, int n,
                            T *sum, int64_t sum_row) {
  FN(vector) line[LINES];
  UNROLL for (int l = 0; l < lines; l++) line[l] = FN(load_from)(type, b + l * b_row, 0, n);
  UNROLL for (int i = 0; i < rows; i++) {
    FN(vector) y = FN(load)(sum + i * sum_row);
    UNROLL for (int l = 0; l < lines; l++) y += x[i][l] * line[l];
    FN(store)(sum + i * sum_row, y);
  }
}


/* b_row counts bytes; sum has room for whole vectors. */
INLINED void FN(line_tile) (const int rows, const int lines, const heed_type type,
                            const FN(product) *p, const T *a, const char *b, int64_t b_row,
                            int64_t columns, T *sum, int64_t sum_row) {
  const int64_t bytes = type == TYPE ? BYTES : 2;
  FN(vector) x[LINE_ROWS][LINES];
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int l = 0; l < lines; l++)
      x[i][l] = FN(splat)(a[i * p->a_row + l * p->a_column]);
  int64_t j = 0;
  for (; j + LANES <= columns; j += LANES)
    FN(line_step)(rows, lines, type, x, b + j * bytes, b_row, LANES, sum + j, sum_row);
  if (j < columns)
    FN(line_step)(rows, lines, type, x, b + j * bytes, b_row, (int)(columns - j), sum + j,
                  sum_row);
}

typedef void (*FN(line_kernel)) (const FN(product) *p, const T *a, const char *b, int64_t b_row,
                                 int64_t columns, T *sum, int64_t sum_row);

#define LINE(name, type, rows, lines) \
  static void FN(lines_##name##_##rows##_##lines) (const FN(product) *p, const T *a, \
      const char *b, int64_t b_row, int64_t columns, T *sum, int64_t sum_row) { \
    FN(line_tile)(rows, lines, type, p, a, b, b_row, columns, sum, sum_row); \
  }
#define LINE_NAME(name, type, rows, lines) FN(lines_##name##_##rows##_##lines),
#define LINE_KERNELS(X, name, type) \
  X(name, type, 1, 1) X(name, type, 1, 8) X(name, type, 2, 8) X(name, type, 3, 8) \
  X(name, type, 4, 8)
EACH_SOURCE(LINE_KERNELS, LINE)
static const FN(line_kernel) FN(line_kernels)[][LINE_ROWS + 1] = {    /* [0]: 1 row, 1 line */
#define SOURCE_LINES(X, name, type) {LINE_KERNELS(X, name, type)},
  EACH_SOURCE(SOURCE_LINES, LINE_NAME)
};


/* Some lines of b, and some columns. */
static void FN(sum_lines) (const FN(one) *x, int64_t columns, T *sum, int64_t sum_row) {
  const FN(product) *p = &x->p;
  const FN(line_kernel) *kernel = FN(line_kernels)[x->source];
  const int64_t b_row = p->b_row * FN(b_bytes)(x);
  const char *b = x->b;
  memset(sum, 0, (size_t)(x->rows * sum_row) * sizeof(T));
  for (int64_t k = 0, lines; k < p->depth; k += lines, b += lines * b_row) {
    lines = p->depth - k >= LINES ? LINES : 1;
    for (int64_t i = 0, rows; i < x->rows; i += rows) {
      rows = lines == 1 ? 1 : smaller(x->rows - i, LINE_ROWS);
      kernel[lines == 1 ? 0 : rows](p, x->a + i * p->a_row + k * p->a_column, b, b_row, columns,
                                    sum + i * sum_row, sum_row);
    }
  }
}


/* c = alpha sum [+ addend] [+ c] */
static void FN(finish_lines) (const FN(one) *x, int64_t columns, const T *sum, int64_t sum_row) {
  const FN(product) *p = &x->p;
  for (int64_t i = 0; i < x->rows; i++) {
    T *c = x->c + i * p->c_row;
    const T *addend = p->addend == NULL ? NULL : p->addend + i * p->addend_row;
    for (int64_t j = 0; j < columns; j += LANES) {
      const int n = (int)smaller(columns - j, LANES);
      FN(vector) y = FN(load)(sum + i * sum_row + j) * p->alpha;
      if (addend != NULL)
        y += p->addend_column == 0 ? FN(splat)(*addend) : FN(load_some)(addend + j, n);
      if (p->add) y += FN(load_some)(c + j, n);
      FN(store_some)(c + j, y, n);
    }
  }
}


/* What comes behind so many lines is added to c. */
static void FN(go_deeper) (FN(one) *x, int64_t lines) {
  x->a += lines * x->p.a_column;
  x->b = FN(b_at)(x, lines * x->p.b_row);
  x->p.add = true;
  x->p.addend = NULL;
}


/* Some columns: blocks of lines, as tiles add them up. */
static void FN(line_columns) (FN(one) x, int64_t columns, int64_t sum_row) {
  T sum[LINE_SUMS];
  const int64_t depth = x.p.depth;
  for (int64_t k = 0; k == 0 || k < depth; k += BLOCK_DEPTH) {
    if (cpu_stops(x.m->self, k / BLOCK_DEPTH, x.rows * columns * BLOCK_DEPTH)) return;
    x.p.depth = smaller(depth - k, BLOCK_DEPTH);
    FN(sum_lines)(&x, columns, sum, sum_row);
    FN(finish_lines)(&x, columns, sum, sum_row);
    FN(go_deeper)(&x, BLOCK_DEPTH);
  }
}


/* So many at a time: their sums stay in the nearest cache. */
static int64_t FN(line_width) (const FN(one) *x) { return LINE_SUMS / x->rows / LANES * LANES; }


static void FN(lines_alone) (const FN(one) *x) {
  const int64_t width = FN(line_width)(x);
  for (int64_t j = 0; j < x->columns; j += width)
    FN(line_columns)(FN(part_of)(x, 0, j), smaller(x->columns - j, width), width);
}


typedef struct FN(line_blocks) {
  FN(one) x;
  T *sum;                          /* of the products of a block of depth and some columns */
  int64_t columns, parts;          /* so many at a time, so often */
} FN(line_blocks);


static int64_t FN(depth_blocks) (int64_t depth) { return (depth + BLOCK_DEPTH - 1) / BLOCK_DEPTH; }


/* Sums 'from' to 'to' - 1: the parts of the first block of depth, of the next one … */
static void FN(line_sums_piece) (void *arg, int64_t from, int64_t to) {
  const FN(line_blocks) *d = arg;
  const FN(one) *x = &d->x;
  for (int64_t at = from; at < to && !cpu_stopped(x->m->self); at++) {
    const int64_t k = at / d->parts * BLOCK_DEPTH, j = at % d->parts * d->columns;
    FN(one) y = FN(part_of)(x, 0, j);
    FN(go_deeper)(&y, k);
    y.p.depth = smaller(x->p.depth - k, BLOCK_DEPTH);
    FN(sum_lines)(&y, smaller(x->columns - j, d->columns), d->sum + at * x->rows * d->columns,
                  d->columns);
  }
}


/* Adds the sums of all blocks to parts 'from' to 'to' - 1 of c, in order. */
static void FN(line_parts_piece) (void *arg, int64_t from, int64_t to) {
  const FN(line_blocks) *d = arg;
  const int64_t blocks = FN(depth_blocks)(d->x.p.depth), size = d->x.rows * d->columns;
  for (int64_t part = from; part < to; part++) {
    FN(one) y = FN(part_of)(&d->x, 0, part * d->columns);
    const int64_t columns = smaller(y.columns - part * d->columns, d->columns);
    for (int64_t i = 0; i < blocks; i++) {
      FN(finish_lines)(&y, columns, d->sum + (i * d->parts + part) * size, d->columns);
      FN(go_deeper)(&y, BLOCK_DEPTH);
    }
  }
}


/* Some blocks of depth, whose sums have room. */
static void FN(run_line_blocks) (FN(line_blocks) *d) {
  const FN(one) *x = &d->x;
  pool *threads = x->m->self->pool;
  const int64_t blocks = FN(depth_blocks)(x->p.depth), size = x->rows * d->columns;
  const int64_t bytes = BLOCK_DEPTH * d->columns * FN(b_bytes)(x);
  pool_run(threads, blocks * d->parts, PIECE_READ / bytes + 1, FN(line_sums_piece), d);
  pool_run(threads, d->parts, PIECE_SUMS / (blocks * size) + 1, FN(line_parts_piece), d);
}


/* Threads take blocks of depth, which lie in one line, and their sums are added up at the end. */
static void FN(lines_by_blocks) (const FN(one) *x, int64_t columns) {
  const int64_t depth = x->p.depth, most = LINE_BLOCKS * BLOCK_DEPTH;
  const int64_t blocks = FN(depth_blocks)(smaller(depth, most));
  FN(line_blocks) d = {.x = *x, .columns = columns,
                       .parts = (x->columns + columns - 1) / columns};
  d.sum = cpu_scratch((size_t)(blocks * d.parts * x->rows * columns) * sizeof(T));
  if (d.sum == NULL) { x->m->failed = true; return; }
  for (int64_t k = 0; k < depth && !cpu_stopped(x->m->self); k += most) {
    d.x.p.depth = smaller(depth - k, most);
    FN(run_line_blocks)(&d);
    FN(go_deeper)(&d.x, most);
  }
  cpu_scratch_free(d.sum);
}


/* Each element is summed in the same order, however the work is shared out. */
static void FN(lines) (FN(one) *x) {
  const int threads = pool_threads(x->m->self->pool);
  const int64_t blocks = FN(depth_blocks)(x->p.depth), most = x->columns / (4 * LANES);
  const int64_t bytes = x->p.depth * x->columns * FN(b_bytes)(x);
  const int64_t pieces = threads == 1 ? 1 : smaller(bytes / (2 * PIECE_READ), 2 * threads);
  if (pieces <= 1) { FN(lines_alone)(x); return; }
  const int64_t parts = larger(smaller((pieces + blocks - 1) / blocks, most), 1);
  const int64_t columns = round_up((x->columns + parts - 1) / parts, LANES);
  FN(lines_by_blocks)(x, smaller(columns, FN(line_width)(x)));
}

/* }================================================================== */

#undef DOTS
#undef DOTS_NAME
#undef ALL_ROWS
#undef SOURCE_ROWS
#undef LINE
#undef LINE_NAME
#undef LINE_KERNELS
#undef SOURCE_LINES
#undef EACH_SOURCE

#endif
