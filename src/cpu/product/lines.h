/*
** lines.h - products of few rows with a large matrix whose rows are unbroken (read once for each
** type). LINES of them at a time are read side by side over all columns: memory is read three times
** as fast so as in tiles, whose columns are far from each other.
*/

#ifndef T
#include "cpu/product/matmul.h"
#else

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
FN(EACH_SOURCE)(LINE_KERNELS, LINE)
static const FN(line_kernel) FN(line_kernels)[][LINE_ROWS + 1] = {    /* [0]: 1 row, 1 line */
#define SOURCE_LINES(X, name, type) {LINE_KERNELS(X, name, type)},
  FN(EACH_SOURCE)(SOURCE_LINES, LINE_NAME)
};


/* sum += the products of some lines of b, and some columns. */
static void FN(add_lines) (const FN(one) *x, int64_t columns, T *sum, int64_t sum_row) {
  const FN(product) *p = &x->p;
  const FN(line_kernel) *kernel = FN(line_kernels)[x->source];
  const int64_t b_row = p->b_row * FN(b_bytes)(x);
  const char *b = x->b;
  for (int64_t k = 0, lines; k < p->depth; k += lines, b += lines * b_row) {
    lines = p->depth - k >= LINES ? LINES : 1;
    for (int64_t i = 0, rows; i < x->rows; i += rows) {
      rows = lines == 1 ? 1 : smaller(x->rows - i, LINE_ROWS);
      kernel[lines == 1 ? 0 : rows](p, x->a + i * p->a_row + k * p->a_column, b, b_row, columns,
                                    sum + i * sum_row, sum_row);
    }
  }
}


static void FN(sum_lines) (const FN(one) *x, int64_t columns, T *sum, int64_t sum_row) {
  memset(sum, 0, (size_t)(x->rows * sum_row) * sizeof(T));
  FN(add_lines)(x, columns, sum, sum_row);
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


/* The products of later lines are added to c. */
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


/* Columns that are taken at a time, so that their sums stay in the nearest cache. */
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
  d.sum = cpu_scratch(x->m->self, (size_t)(blocks * d.parts * x->rows * columns) * sizeof(T));
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

#undef LINE
#undef LINE_NAME
#undef LINE_KERNELS
#undef SOURCE_LINES

#endif
