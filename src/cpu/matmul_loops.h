/*
** matmul_loops.h - the ways of computing a product (read once for each type).
*/

/* One product: c = alpha a b [+ addend] [+ c], each (rows, columns) and so on, any strides. */
typedef struct OF(one) {
  matmuls *m;
  OF(product) p;                   /* a_row, a_column, b_row, c_row … */
  int64_t rows, columns, b_column;
  const T *a, *b;
  T *c;
} OF(one);


/*
** {==================================================================
** Scalar products: few rows of a, and b the transpose of unbroken rows, as in x W^T
** ===================================================================
*/

/* Adds the totals of four vectors. */
INLINED void OF(add_totals) (OF(vector) v[4], double total[4]) {
  OF(piece) part[VECTOR_BYTES / 16];
  UNROLL for (int i = 0; i < 4; i += GROUP) {
    OF(transpose_pieces)(v + i);
    OF(vector) sum = v[i];
    UNROLL for (int k = 1; k < GROUP; k++) sum += v[i + k];
    memcpy(part, &sum, sizeof part);
    UNROLL for (int k = 1; k < VECTOR_BYTES / 16; k++) part[0] += part[k];
    UNROLL for (int k = 0; k < GROUP; k++) total[i + k] += part[0][k];
  }
}


/* Lanes of depth: 'rows' rows of a times four columns of b. */
INLINED void OF(dot_step) (const int rows, OF(vector) sum[3][4], const T *a, int64_t a_row,
                           const T *const at[4], int64_t k, int lanes) {
  OF(vector) line[3];
  UNROLL for (int i = 0; i < rows; i++) line[i] = OF(load_some)(a + i * a_row + k, lanes);
  UNROLL for (int j = 0; j < 4; j++) {
    const OF(vector) y = OF(load_some)(at[j] + k, lanes);
    UNROLL for (int i = 0; i < rows; i++) sum[i][j] += line[i] * y;
  }
}


/* 'rows' rows of c, four columns of which n are there. */
INLINED void OF(dot_tile) (const int rows, const OF(one) *x, const T *a, const T *b, T *c,
                           const T *addend, int64_t n) {
  const OF(product) *p = &x->p;
  const int64_t depth = p->depth, a_row = p->a_row;
  const T *at[4];
  double total[3][4] = {{0}};
  UNROLL for (int j = 0; j < 4; j++) at[j] = b + smaller(j, n - 1) * x->b_column;
  for (int64_t k = 0, end; k < depth;) {
    OF(vector) sum[3][4] = {{{0}}};
    for (end = smaller(depth, k + DOT_STEPS * LANES); k + LANES <= end; k += LANES)
      OF(dot_step)(rows, sum, a, a_row, at, k, LANES);
    if (k < end) OF(dot_step)(rows, sum, a, a_row, at, k, (int)(end - k));
    k = end;
    UNROLL for (int i = 0; i < rows; i++) OF(add_totals)(sum[i], total[i]);
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

#define DOTS(rows) \
  static void OF(dot_tile_##rows) (const OF(one) *x, const T *a, const T *b, T *c, \
                                   const T *addend, int64_t n) { \
    OF(dot_tile)(rows, x, a, b, c, addend, n); \
  }
DOTS(1) DOTS(2) DOTS(3)
#undef DOTS


/* Columns 4 'from' to 4 'to' - 1. */
static void OF(dot_columns) (const OF(one) *x, int64_t from, int64_t to) {
  const OF(product) *p = &x->p;
  for (int64_t j = 4 * from; j < smaller(4 * to, x->columns); j += 4) {
    const int64_t n = smaller(x->columns - j, 4);
    for (int64_t i = 0, rows; i < x->rows; i += rows) {
      const T *a = x->a + i * p->a_row, *b = x->b + j * x->b_column;
      const T *addend = p->addend == NULL ? NULL
                        : p->addend + i * p->addend_row + j * p->addend_column;
      T *c = x->c + i * p->c_row + j;
      rows = smaller(x->rows - i, 3);
      if (rows == 3) OF(dot_tile_3)(x, a, b, c, addend, n);
      else if (rows == 2) OF(dot_tile_2)(x, a, b, c, addend, n);
      else OF(dot_tile_1)(x, a, b, c, addend, n);
    }
  }
}


/* Long scalar products are cut, so that they can be stopped; their parts are added up. */
static void OF(dot_piece) (void *arg, int64_t from, int64_t to) {
  const OF(one) *x = arg;
  for (int64_t k = 0; k < x->p.depth; k += LONG_DOT) {
    if (k > 0 && cpu_stopped(x->m->self)) break;
    OF(one) y = *x;
    y.a += k;
    y.b += k;
    y.p.depth = smaller(x->p.depth - k, LONG_DOT);
    if (k > 0) { y.p.add = true; y.p.addend = NULL; }
    OF(dot_columns)(&y, from, to);
  }
}


static void OF(dots) (OF(one) *x) {
  const int64_t cost = 8 * x->rows * x->p.depth + 100;
  pool_run(x->m->self->pool, (x->columns + 3) / 4, PIECE_FLOPS / cost + 1, OF(dot_piece), x);
}

/* }================================================================== */


/*
** {==================================================================
** In place: nothing is packed
** ===================================================================
*/

static OF(one) OF(part_of) (const OF(one) *x, int64_t row, int64_t column) {
  OF(one) y = *x;
  y.a += row * x->p.a_row;
  y.b += column * x->b_column;
  y.c += row * x->p.c_row + column;
  if (x->p.addend != NULL) y.p.addend += row * x->p.addend_row + column * x->p.addend_column;
  return y;
}

/*
** As deep at a time as a block, so that sums are of the same parts. One row reads a large b once:
** then fewer complete lines of it at a time, for the prefetcher's sake (lines of 4096 elements:
** 8 at a time take a third of the time of all).
*/
static void OF(multiply_lines) (const OF(one) *x, int64_t rows, int64_t columns) {
  const bool once = rows == 1 && x->p.depth * columns * BYTES > DIRECT_BYTES;
  const int64_t lines = once ? 8 : BLOCK_DEPTH;
  OF(product) p = x->p;
  for (int64_t k = 0; k == 0 || k < x->p.depth; k += lines) {
    if (cpu_stops(x->m->self, k / lines, rows * columns * lines)) return;
    p.depth = smaller(lines, x->p.depth - k);
    OF(multiply)(&p, rows, columns, x->a + k * p.a_column, x->b + k * p.b_row, x->c);
    p.add = true;
    p.addend = NULL;
  }
}

static void OF(row_piece) (void *arg, int64_t from, int64_t to) {
  const OF(one) *x = arg, y = OF(part_of)(x, from * TILE_ROWS, 0);
  OF(multiply_lines)(&y, smaller((to - from) * TILE_ROWS, x->rows - from * TILE_ROWS), x->columns);
}

static void OF(column_piece) (void *arg, int64_t from, int64_t to) {
  const int64_t unit = 4 * LANES;
  const OF(one) *x = arg, y = OF(part_of)(x, 0, from * unit);
  OF(multiply_lines)(&y, x->rows, smaller((to - from) * unit, x->columns - from * unit));
}

static void OF(direct) (OF(one) *x) {
  const int64_t unit = x->rows >= x->columns ? TILE_ROWS : 4 * LANES;
  const int64_t most = larger(x->rows, x->columns), least = smaller(x->rows, x->columns);
  const int64_t cost = 2 * unit * least * x->p.depth + 100;
  pool_run(x->m->self->pool, (most + unit - 1) / unit, PIECE_FLOPS / cost + 1,
           unit == TILE_ROWS ? OF(row_piece) : OF(column_piece), x);
}

/* }================================================================== */


/*
** {==================================================================
** With b packed: (panels, depth, PANEL); and a, if it has to be: (strips, depth, TILE_ROWS)
** ===================================================================
*/

typedef struct OF(block) {
  OF(one) x;                       /* of this block of columns and depth */
  T *packed_a, *packed_b;          /* the first may be NULL */
  int64_t column_pieces;
} OF(block);


/* to[k * to_row + i] = from[i * row + k * column], i < n, k < depth. */
static void OF(pack) (int64_t n, int64_t depth, const T *from, int64_t row, int64_t column, T *to,
                      int64_t to_row) {
  if (column == 1) { OF(transpose)(n, depth, n, 1, from, row, to, to_row); return; }
  for (int64_t k = 0; k < depth; k++, from += column, to += to_row)
    if (row == 1 && n == PANEL) {
      OF(store)(to, OF(load)(from));
      OF(store)(to + LANES, OF(load)(from + LANES));
    } else {
      for (int64_t i = 0; i < n; i++) to[i] = from[i * row];
    }
}


static void OF(pack_b_piece) (void *arg, int64_t from, int64_t to) {
  const OF(block) *d = arg;
  const OF(one) *x = &d->x;
  for (int64_t j = from; j < to; j++)
    OF(pack)(smaller(x->columns - j * PANEL, PANEL), x->p.depth, x->b + j * PANEL * x->b_column,
             x->b_column, x->p.b_row, d->packed_b + j * PANEL * x->p.depth, PANEL);
}


static void OF(pack_a_piece) (void *arg, int64_t from, int64_t to) {
  const OF(block) *d = arg;
  const OF(one) *x = &d->x;
  for (int64_t i = from; i < to; i++)
    OF(pack)(smaller(x->rows - i * TILE_ROWS, TILE_ROWS), x->p.depth,
             x->a + i * TILE_ROWS * x->p.a_row, x->p.a_row, x->p.a_column,
             d->packed_a + i * TILE_ROWS * x->p.depth, TILE_ROWS);
}


/* Strips of a times one panel of b. */
static void OF(multiply_strips) (const OF(product) *p, const OF(kernel) *kernel, int64_t rows,
                                 const T *a, const T *b, T *c, const T *addend, int last) {
  for (; rows > 0; rows -= TILE_ROWS) {
    kernel[smaller(rows, TILE_ROWS)](p, a, b, c, addend, last);
    a += TILE_ROWS * p->depth;
    c += TILE_ROWS * p->c_row;
    if (addend != NULL) addend += TILE_ROWS * p->addend_row;
  }
}


/* Some rows and columns of a block. */
static void OF(block_part) (const OF(block) *d, int64_t row, int64_t rows, int64_t column,
                            int64_t columns) {
  OF(one) y = OF(part_of)(&d->x, row, column);
  const T *a = d->packed_a == NULL ? y.a : d->packed_a + row * y.p.depth;
  if (d->packed_a != NULL) { y.p.a_row = 1; y.p.a_column = TILE_ROWS; }
  y.p.b_row = PANEL;
  for (int64_t j = 0; j < columns; j += PANEL) {
    const int64_t n = smaller(columns - j, PANEL);
    const int wide = n > LANES, last = (int)(n - wide * LANES);
    const OF(kernel) *kernel = OF(kernels)[wide][last < LANES];
    const T *b = d->packed_b + (column + j) * y.p.depth;
    const T *addend = y.p.addend == NULL ? NULL : y.p.addend + j * y.p.addend_column;
    if (d->packed_a != NULL)
      OF(multiply_strips)(&y.p, kernel, rows, a, b, y.c + j, addend, last);
    else
      OF(multiply_columns)(&y.p, kernel, rows, TILE_ROWS, a, b, y.c + j, addend, last);
  }
}


static void OF(block_piece) (void *arg, int64_t from, int64_t to) {
  const OF(block) *d = arg;
  const OF(one) *x = &d->x;
  for (int64_t at = from; at < to && (at == from || !cpu_stopped(x->m->self)); at++) {
    const int64_t row = at / d->column_pieces * BLOCK_ROWS;
    const int64_t column = at % d->column_pieces * (16 * PANEL);
    OF(block_part)(d, row, smaller(x->rows - row, BLOCK_ROWS), column,
                   smaller(x->columns - column, 16 * PANEL));
  }
}


static void OF(run_block) (OF(block) *d) {
  pool *threads = d->x.m->self->pool;
  const int64_t depth = d->x.p.depth, rows = d->x.rows, columns = d->x.columns;
  pool_run(threads, (columns + PANEL - 1) / PANEL, 32768 / (depth * PANEL) + 1,
           OF(pack_b_piece), d);
  if (d->packed_a != NULL)
    pool_run(threads, (rows + TILE_ROWS - 1) / TILE_ROWS, 32768 / (depth * TILE_ROWS) + 1,
             OF(pack_a_piece), d);
  d->column_pieces = (columns + 16 * PANEL - 1) / (16 * PANEL);
  const int64_t cost = 2 * smaller(rows, BLOCK_ROWS) * smaller(columns, 16 * PANEL) * depth + 100;
  pool_run(threads, (rows + BLOCK_ROWS - 1) / BLOCK_ROWS * d->column_pieces,
           PIECE_FLOPS / cost + 1, OF(block_piece), d);
}


/* Is a to be packed: transposed, and each element used often? */
static bool OF(packs_a) (const OF(one) *x) {
  return x->p.a_column != 1 && x->columns >= 8 * PANEL && x->p.depth >= 32;
}


static void OF(packed) (OF(one) *x) {
  T near[NEAR_ELEMENTS];
  const int64_t depth = smaller(x->p.depth, BLOCK_DEPTH);
  const int64_t size_b = depth * round_up(smaller(x->columns, BLOCK_COLUMNS), PANEL);
  const int64_t size_a = OF(packs_a)(x) ? depth * round_up(x->rows, TILE_ROWS) : 0;
  T *workspace = near;
  if (size_b + size_a > NEAR_ELEMENTS)
    workspace = cpu_scratch((size_t)(size_b + size_a) * sizeof(T));
  if (workspace == NULL) { x->m->failed = true; return; }
  for (int64_t j = 0; j < x->columns; j += BLOCK_COLUMNS)
    for (int64_t k = 0; k < x->p.depth; k += BLOCK_DEPTH) {
      if (k > 0 && cpu_stopped(x->m->self)) break;
      OF(block) d = {.x = OF(part_of)(x, 0, j), .packed_b = workspace,
                     .packed_a = size_a > 0 ? workspace + size_b : NULL};
      d.x.columns = smaller(x->columns - j, BLOCK_COLUMNS);
      d.x.p.depth = smaller(x->p.depth - k, BLOCK_DEPTH);
      d.x.a += k * x->p.a_column;
      d.x.b += k * x->p.b_row;
      if (k > 0) { d.x.p.add = true; d.x.p.addend = NULL; }
      OF(run_block)(&d);
    }
  if (workspace != near) cpu_scratch_free(workspace);
}

/* }================================================================== */


/* One product, by the way that suits its shape. */
static void OF(run_one) (OF(one) *x) {
  const bool transposed = x->b_column != 1 && x->columns > 1;
  const int64_t bytes = x->p.depth * x->columns * BYTES;
  if (x->p.b_row == 1 && x->p.a_column == 1 && x->p.depth >= LANES
      && (x->columns == 1
          || (transposed && (x->rows <= 3 || (x->rows <= 24 && x->p.depth >= 256)))))
    OF(dots)(x);
  else if (!transposed && (x->rows <= 2 * TILE_ROWS || bytes <= DIRECT_BYTES))
    OF(direct)(x);
  else if (x->p.depth == 0)
    OF(direct)(x);
  else
    OF(packed)(x);
}


static OF(one) OF(one_of) (matmuls *m, int64_t at) {
  OF(one) x = {
    .m = m, .rows = m->rows, .columns = m->columns, .b_column = m->b.column,
    .p = {.depth = m->depth, .a_row = m->a.row, .a_column = m->a.column, .b_row = m->b.row,
          .c_row = m->c.row, .alpha = (T)m->alpha, .add = m->add},
    .a = (const T *)m->a.data + batch_offset(m, &m->a, at),
    .b = (const T *)m->b.data + batch_offset(m, &m->b, at),
    .c = (T *)m->c.data + batch_offset(m, &m->c, at)
  };
  if (m->added) {
    x.p.addend = (const T *)m->addend.data + batch_offset(m, &m->addend, at);
    x.p.addend_row = m->addend.row;
    x.p.addend_column = m->columns == 1 ? 0 : m->addend.column;
  }
  return x;
}


static void OF(batch_piece) (void *arg, int64_t from, int64_t to) {
  for (int64_t at = from; at < to; at++) {
    OF(one) x = OF(one_of)(arg, at);
    OF(run_one)(&x);
  }
}


/* Many batches are shared out as they are; of few large ones, each is shared out by itself. */
static void OF(matmul) (matmuls *m) {
  const double flops = 2.0 * (double)m->rows * (double)m->columns * (double)m->depth + 100;
  const bool few = m->batches < 4 * pool_threads(m->self->pool) && flops > 4 * PIECE_FLOPS;
  pool_run(m->self->pool, m->batches, few ? m->batches : (int64_t)(PIECE_FLOPS / flops) + 1,
           OF(batch_piece), m);
}

