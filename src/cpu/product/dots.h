/*
** dots.h - products by scalar products: b is the transpose of unbroken rows, as in x W^T. The
** larger side is read once, as it lies (read once for each type).
*/

#ifndef T
#include "cpu/product/matmul.h"
#else

/* The totals of GROUP vectors, which are overwritten. */
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


/*
** Adds the products of two pairs of vectors to a sum. Those of 16-bit floats are added up first:
** a sum that waits for each product alone is slower than memory.
*/
INLINED FN(vector) FN(two_added) (const heed_type type, FN(vector) sum, FN(vector) a, FN(vector) x,
                                  FN(vector) b, FN(vector) y) {
  if (type == TYPE) { sum += a * x; return sum + b * y; }
  FN(vector) two = a * x;
  IN_REGISTER(two);                /* rounded by itself, in all kernels */
  two += b * y;
  return sum + two;
}


/* Lanes of depth, at most a vector of them: 'rows' rows of a times four columns of b. */
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

/* The same of two vectors of depth. */
INLINED void FN(dot_two) (const int rows, const heed_type type, FN(vector) sum[DOT_ROWS][4],
                          const T *a, int64_t a_row, const char *const at[4], int64_t k) {
  if (type == TYPE) {              /* one by one, which takes fewer registers */
    FN(dot_step)(rows, type, sum, a, a_row, at, k, LANES);
    FN(dot_step)(rows, type, sum, a, a_row, at, k + LANES, LANES);
    return;
  }
  FN(vector) line[DOT_ROWS][2];
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int v = 0; v < 2; v++) line[i][v] = FN(load)(a + i * a_row + k + v * LANES);
  UNROLL for (int j = 0; j < 4; j++) {
    const FN(vector) x = FN(load_from)(type, at[j], k, LANES);
    const FN(vector) y = FN(load_from)(type, at[j], k + LANES, LANES);
    UNROLL for (int i = 0; i < rows; i++)
      sum[i][j] = FN(two_added)(type, sum[i][j], line[i][0], x, line[i][1], y);
  }
}

/* The same of one of the columns, number j. */
INLINED void FN(dot_pair) (const int rows, const heed_type type, FN(vector) sum[DOT_ROWS][4],
                           const int j, const T *a, int64_t a_row, const char *column, int64_t k) {
  const FN(vector) x = FN(load_from)(type, column, k, LANES);
  const FN(vector) y = FN(load_from)(type, column, k + LANES, LANES);
  UNROLL for (int i = 0; i < rows; i++)
    sum[i][j] = FN(two_added)(type, sum[i][j], FN(load)(a + i * a_row + k), x,
                              FN(load)(a + i * a_row + k + LANES), y);
}

/* Depth from 'k' to 'end', less than two vectors. */
INLINED void FN(dot_rest) (const int rows, const heed_type type, FN(vector) sum[DOT_ROWS][4],
                           const T *a, int64_t a_row, const char *const at[4], int64_t k,
                           int64_t end) {
  for (int lanes; k < end; k += lanes) {
    lanes = (int)smaller(end - k, LANES);
    FN(dot_step)(rows, type, sum, a, a_row, at, k, lanes);
  }
}


/* Columns of b from there on, n of at most four: the last one again where there are fewer. */
INLINED void FN(dot_columns_at) (const FN(one) *x, const char *b, int64_t n, const char *at[4]) {
  UNROLL for (int j = 0; j < 4; j++)
    at[j] = b + smaller(j, n - 1) * x->b_column * FN(b_bytes)(x);
}


/* The scalar products of 'rows' rows and n columns, as c has them. */
INLINED void FN(dot_end) (const int rows, const FN(one) *x, double total[DOT_ROWS][4], T *c,
                          const T *addend, int64_t n) {
  const FN(product) *p = &x->p;
  UNROLL for (int i = 0; i < rows; i++) {
    for (int64_t j = 0; j < n; j++) {
      T y = (T)total[i][j] * p->alpha;
      if (addend != NULL) y += addend[i * p->addend_row + j * p->addend_column];
      if (p->add) y += c[i * p->c_row + j];
      c[i * p->c_row + j] = y;
    }
  }
}


/*
** Columns of c, n of at most four, in 'rows' rows. Each step fetches as much as it reads, from one
** line of memory, which is faster than from four: 'near' bytes ahead and, of 16-bit floats, which
** are read half as fast from caches, far ahead before. A side of which parts are read is no such
** line, and 'near' 0: then the line is fetched itself.
*/
INLINED void FN(dot_tile) (const int rows, const heed_type type, const FN(one) *x, const T *a,
                           const char *b, T *c, const T *addend, int64_t n, const char *line,
                           int64_t near) {
  const int step = 8 * LANES * (type == TYPE ? BYTES : 2);
  const int64_t depth = x->p.depth, a_row = x->p.a_row;
  const char *at[4], *far = line + (near > 0 ? BYTES_AHEAD : 0);
  double total[DOT_ROWS][4] = {{0}};
  FN(dot_columns_at)(x, b, n, at);
  for (int64_t k = 0, end; k < depth;) {
    FN(vector) sum[DOT_ROWS][4] = {{{0}}};
    end = smaller(depth, k + DOT_STEPS * LANES);
    for (; k + 2 * LANES <= end; k += 2 * LANES, line += step, far += step) {
      if (type != TYPE) fetch_far(far, step);
      fetch_near(line + near, step);
      FN(dot_two)(rows, type, sum, a, a_row, at, k);
    }
    FN(dot_rest)(rows, type, sum, a, a_row, at, k, end);
    k = end;
    UNROLL for (int i = 0; i < rows; i++) FN(add_totals)(sum[i], total[i]);
  }
  FN(dot_end)(rows, x, total, c, addend, n);
}


/*
** The same of a b that is larger than near caches: it takes as long as memory does. Columns take
** turns of some vectors, and are fetched in that order: elements of T into the first cache only.
** CPUs that read alone fetch 16-bit floats only, and for one row into the second cache alone.
*/
INLINED void FN(dot_turns) (const int rows, const heed_type type, const FN(one) *x, const T *a,
                            const char *b, T *c, const T *addend, int64_t n) {
  const int size = type == TYPE ? BYTES : 2, turn = DOT_TURN * LANES, bytes = turn * size;
  const int64_t depth = x->p.depth, column = depth * size, next = 4 * x->b_column * size;
  const int64_t a_row = x->p.a_row;
  const bool fetches = !x->m->self->reads_alone || (type != TYPE && rows > 1);
  const char *at[4];
  double total[DOT_ROWS][4] = {{0}};
  FN(dot_columns_at)(x, b, n, at);
  fetched near = fetched_after(BYTES_NEAR / 4, column, next);
  fetched far = fetched_after(BYTES_AHEAD / 4, column, next);
  for (int64_t k = 0, end; k < depth;) {
    FN(vector) sum[DOT_ROWS][4] = {{{0}}};
    end = smaller(depth, k + DOT_STEPS * LANES);
    for (; k + turn <= end; k += turn) {
      UNROLL for (int j = 0; j < 4; j++) {
        if (type != TYPE) fetch_far(at[j] + far.at, bytes);
        if (fetches) fetch_near(at[j] + near.at, bytes);
        UNROLL for (int i = 0; i < DOT_TURN; i += 2)
          FN(dot_pair)(rows, type, sum, j, a, a_row, at[j], k + i * LANES);
      }
      fetched_step(&near, bytes, column, next);
      if (type != TYPE) fetched_step(&far, bytes, column, next);
    }
    for (; k + 2 * LANES <= end; k += 2 * LANES)
      FN(dot_two)(rows, type, sum, a, a_row, at, k);
    FN(dot_rest)(rows, type, sum, a, a_row, at, k, end);
    k = end;
    UNROLL for (int i = 0; i < rows; i++) FN(add_totals)(sum[i], total[i]);
  }
  FN(dot_end)(rows, x, total, c, addend, n);
}


/*
** The scalar products of the rows and one column, for CPUs that read alone. Elements of T are
** fetched; the products of 16-bit floats take as long as memory does.
*/
INLINED void FN(dot_column) (const int rows, const heed_type type, const T *a, int64_t a_row,
                             const char *b, int64_t depth, double total[4]) {
  for (int64_t k = 0, end; k < depth; k = end) {
    FN(vector) sum[4] = {{0}};
    end = smaller(depth, k + DOT_STEPS * LANES);
    for (; k + 2 * LANES <= end; k += 2 * LANES) {
      if (type == TYPE) fetch_far(b + k * BYTES + BYTES_SOON, 2 * LANES * BYTES);
      const FN(vector) x = FN(load_from)(type, b, k, LANES);
      const FN(vector) y = FN(load_from)(type, b, k + LANES, LANES);
      UNROLL for (int i = 0; i < rows; i++)
        sum[i] = FN(two_added)(type, sum[i], FN(load)(a + i * a_row + k), x,
                               FN(load)(a + i * a_row + k + LANES), y);
    }
    for (int lanes; k < end; k += lanes) {
      lanes = (int)smaller(end - k, LANES);
      const FN(vector) y = FN(load_from)(type, b, k, lanes);
      UNROLL for (int i = 0; i < rows; i++) sum[i] += FN(load_some)(a + i * a_row + k, lanes) * y;
    }
    FN(add_totals)(sum, total);
  }
}

/* Columns of c, n of at most four, in 'rows' rows: each is read alone. */
INLINED void FN(dot_alone) (const int rows, const heed_type type, const FN(one) *x, const T *a,
                            const char *b, T *c, const T *addend, int64_t n) {
  const int64_t column = x->b_column * FN(b_bytes)(x);
  double total[DOT_ROWS][4];
  for (int64_t j = 0; j < n; j++) {
    double each[4] = {0};
    FN(dot_column)(rows, type, a, x->p.a_row, b + j * column, x->p.depth, each);
    UNROLL for (int i = 0; i < rows; i++) total[i][j] = each[i];
  }
  FN(dot_end)(rows, x, total, c, addend, n);
}


typedef void (*FN(dot_kernel)) (const FN(one) *x, const T *a, const char *b, T *c,
                                const T *addend, int64_t n, const char *line, int64_t near);

#define DOTS(name, type, rows) \
  static void FN(dots_##name##_##rows) (const FN(one) *x, const T *a, const char *b, T *c, \
                                        const T *addend, int64_t n, const char *line, \
                                        int64_t near) { \
    FN(dot_tile)(rows, type, x, a, b, c, addend, n, line, near); \
  }
#define DOTS_NAME(name, type, rows) FN(dots_##name##_##rows),
#define ALL_ROWS(X, name, type) EACH_DOT_ROW(X, name, type)
FN(EACH_SOURCE)(ALL_ROWS, DOTS)
static const FN(dot_kernel) FN(dot_kernels)[][DOT_ROWS] = {
#define SOURCE_ROWS(X, name, type) {EACH_DOT_ROW(X, name, type)},
  FN(EACH_SOURCE)(SOURCE_ROWS, DOTS_NAME)
};


static const T *FN(addend_at) (const FN(product) *p, int64_t i, int64_t j) {
  return p->addend == NULL ? NULL : p->addend + i * p->addend_row + j * p->addend_column;
}

/*
** 'rows' rows, all there are, and columns 'from' to 'end' - 1. Fields of x that were read for four
** columns alone would have left the caches when the next four come, and be waited for. Where
** columns are read alone, longer rows would come from the second cache for each of them, and some
** rows times 16-bit floats would wait for the products.
*/
#define LARGE(name, type, rows) \
  static void FN(large_##name##_##rows) (const FN(one) *x, int64_t from, int64_t end) { \
    const FN(one) y = *x; \
    const bool alone = y.m->self->reads_alone && rows * y.p.depth <= ALONE_DEPTH && \
                       (rows == 1 || type == TYPE); \
    for (int64_t j = from; j < end; j += 4) { \
      const char *b = FN(b_at)(&y, j * y.b_column); \
      const T *addend = FN(addend_at)(&y.p, 0, j); \
      if (alone) FN(dot_alone)(rows, type, &y, y.a, b, y.c + j, addend, smaller(end - j, 4)); \
      else FN(dot_turns)(rows, type, &y, y.a, b, y.c + j, addend, smaller(end - j, 4)); \
    } \
  }
#define LARGE_NAME(name, type, rows) FN(large_##name##_##rows),
FN(EACH_SOURCE)(ALL_ROWS, LARGE)
static void (*const FN(large_kernels)[][DOT_ROWS]) (const FN(one) *x, int64_t from, int64_t end) = {
  FN(EACH_SOURCE)(SOURCE_ROWS, LARGE_NAME)
};


/*
** At most DOT_ROWS rows from 'i' on, and four columns from 'j' on; 'line' and 'near' say what is
** fetched meanwhile.
*/
static void FN(dots_at) (const FN(one) *x, int64_t i, int64_t j, const void *line, int64_t near) {
  const FN(product) *p = &x->p;
  FN(dot_kernels)[x->source][smaller(x->rows - i, DOT_ROWS) - 1](
    x, x->a + i * p->a_row, FN(b_at)(x, j * x->b_column), x->c + i * p->c_row + j,
    FN(addend_at)(p, i, j), smaller(x->columns - j, 4), line, near);
}


/*
** One row, and a b that memory gives? On CPUs that read alone, also a few; but with short vectors
** those would wait for the sums.
*/
static bool FN(is_large) (const FN(one) *x) {
  const bool alone = x->m->self->reads_alone;
  if (alone && VECTOR_BYTES < ALONE_BYTES) return false;
  return x->rows <= (alone ? DOT_ROWS : 1) && x->columns >= 4 && x->p.depth >= DOT_TURN * LANES &&
         x->columns * x->p.depth * FN(b_bytes)(x) > LARGE_BYTES;
}

/* Columns 4 'from' to 4 'to' - 1: b is read once. */
static void FN(dot_columns) (const FN(one) *x, int64_t from, int64_t to) {
  const int64_t end = smaller(4 * to, x->columns);
  const bool in_line = x->b_column == x->p.depth;
  const int64_t near = in_line ? smaller(4 * x->p.depth * FN(b_bytes)(x), BYTES_NEAR) : 0;
  if (FN(is_large)(x)) {
    FN(large_kernels)[x->source][x->rows - 1](x, 4 * from, end);
    return;
  }
  for (int64_t j = 4 * from; j < end; j += 4) {
    const char *b = FN(b_at)(x, j * x->b_column);
    for (int64_t i = 0; i < x->rows; i += DOT_ROWS) FN(dots_at)(x, i, j, b, near);
  }
}


/* Rows DOT_ROWS 'from' to DOT_ROWS 'to' - 1: a is read once. */
static void FN(dot_rows) (const FN(one) *x, int64_t from, int64_t to) {
  const bool in_line = x->p.a_row == x->p.depth;
  const int64_t near = in_line ? smaller(DOT_ROWS * x->p.depth * BYTES, BYTES_NEAR) : 0;
  for (int64_t i = DOT_ROWS * from; i < smaller(DOT_ROWS * to, x->rows); i += DOT_ROWS) {
    const T *a = x->a + i * x->p.a_row;
    for (int64_t j = 0; j < x->columns; j += 4) FN(dots_at)(x, i, j, a, near);
  }
}


/* Tiles of the larger side, which is shared out. */
static int64_t FN(dot_tiles) (const FN(one) *x) {
  return x->rows > x->columns ? (x->rows + DOT_ROWS - 1) / DOT_ROWS : (x->columns + 3) / 4;
}

static void FN(dot_some) (const FN(one) *x, int64_t from, int64_t to) {
  (x->rows > x->columns ? FN(dot_rows) : FN(dot_columns))(x, from, to);
}


/* Cuts long scalar products, so that they can be stopped, and adds up their parts. */
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


/*
** The cost of a piece, in products and in memory, since few products are made of each element that
** is read.
*/
static void FN(dots) (FN(one) *x) {
  const bool tall = x->rows > x->columns;
  const int64_t bytes = x->p.depth * (tall ? DOT_ROWS * BYTES : 4 * FN(b_bytes)(x));
  const int64_t cost = 8 * smaller(x->rows, x->columns) * x->p.depth;
  const int64_t grain = smaller(PIECE_FLOPS / (cost + 100), PIECE_READ / (bytes + 100)) + 1;
  pool_run(x->m->self->pool, FN(dot_tiles)(x), grain, FN(dot_piece), x);
}

static void FN(dots_alone) (FN(one) *x) { FN(dot_some)(x, 0, FN(dot_tiles)(x)); }

#undef DOTS
#undef DOTS_NAME
#undef ALL_ROWS
#undef SOURCE_ROWS
#undef LARGE
#undef LARGE_NAME

#endif
