/*
** matmul_loops.h - products by tiles: in place, or of packed panels (read once for each type).
*/

#ifndef T
#include "cpu/product/matmul.h"
#else

/*
** {==================================================================
** In place: nothing is packed
** ===================================================================
*/

/*
** As deep at a time as a block, so that sums are of the same parts.
*/
static void FN(multiply_lines) (const FN(one) *x, int64_t rows, int64_t columns) {
  const T *b = x->b;
  FN(product) p = x->p;
  for (int64_t k = 0; k == 0 || k < x->p.depth; k += BLOCK_DEPTH) {
    if (cpu_stops(x->m->self, k / BLOCK_DEPTH, rows * columns * BLOCK_DEPTH)) return;
    p.depth = smaller(BLOCK_DEPTH, x->p.depth - k);
    FN(multiply)(&p, rows, columns, x->a + k * p.a_column, b + k * p.b_row, x->c);
    p.add = true;
    p.addend = NULL;
  }
}

static void FN(row_piece) (void *arg, int64_t from, int64_t to) {
  const FN(one) *x = arg, y = FN(part_of)(x, from * TILE_ROWS, 0);
  FN(multiply_lines)(&y, smaller((to - from) * TILE_ROWS, x->rows - from * TILE_ROWS), x->columns);
}

static void FN(column_piece) (void *arg, int64_t from, int64_t to) {
  const int64_t unit = 4 * LANES;
  const FN(one) *x = arg, y = FN(part_of)(x, 0, from * unit);
  FN(multiply_lines)(&y, x->rows, smaller((to - from) * unit, x->columns - from * unit));
}

static void FN(direct) (FN(one) *x) {
  const int64_t unit = x->rows >= x->columns ? TILE_ROWS : 4 * LANES;
  const int64_t most = larger(x->rows, x->columns), least = smaller(x->rows, x->columns);
  const int64_t cost = 2 * unit * least * x->p.depth + 100;
  pool_run(x->m->self->pool, (most + unit - 1) / unit, PIECE_FLOPS / cost + 1,
           unit == TILE_ROWS ? FN(row_piece) : FN(column_piece), x);
}

/* }================================================================== */


/*
** {==================================================================
** With b packed: (panels, depth, PANEL); and a, if it has to be: (strips, depth, TILE_ROWS)
** ===================================================================
*/

typedef struct FN(block) {
  FN(one) x;                       /* of this block of columns and depth */
  T *packed_a, *packed_b;          /* the first may be NULL */
  int64_t column_pieces;
} FN(block);


/* to[k * to_row + i] = from[i * row + k * column], i < n, k < depth. */
static void FN(pack) (int64_t n, int64_t depth, const T *from, int64_t row, int64_t column, T *to,
                      int64_t to_row) {
  if (column == 1) { FN(transpose)(n, depth, n, 1, from, row, to, to_row); return; }
  for (int64_t k = 0; k < depth; k++, from += column, to += to_row)
    if (row == 1) {
      for (int64_t i = 0; i < n; i += LANES)
        FN(store_some)(to + i, FN(load_some)(from + i, (int)(n - i)), (int)(n - i));
    } else {
      for (int64_t i = 0; i < n; i++) to[i] = from[i * row];
    }
}


#if BYTES == 4
/* The same of 16-bit floats. Not inlined: its frame would be its callers', whose work is small. */
__attribute__((noinline))
static void halves_pack (heed_type type, int64_t n, int64_t depth, const uint16_t *from,
                         int64_t row, int64_t column, float *to, int64_t to_row) {
  float near[PANEL * NEAR_DEPTH];
  for (int64_t k = 0, some; k < depth; k += some) {
    some = column == 1 ? smaller(depth - k, NEAR_DEPTH) : 1;
    const uint16_t *at = from + k * column;
    if (column == 1) {
      for (int64_t i = 0; i < n; i++)
        halves_convert(type, some, near + i * NEAR_DEPTH, at + i * row);
      transpose_float(n, some, n, 1, near, NEAR_DEPTH, to + k * to_row, to_row);
    } else if (row == 1) {
      halves_convert(type, n, to + k * to_row, at);
    } else {
      for (int64_t i = 0; i < n; i++) to[k * to_row + i] = half_one(type, at[i * row]);
    }
  }
}
#endif


/* Columns of b from 'column' on, a panel at most. */
static void FN(pack_panel) (const FN(one) *x, int64_t column, T *packed) {
  const int64_t n = smaller(x->columns - column, PANEL);
  const char *b = FN(b_at)(x, column * x->b_column);
#if BYTES == 4
  if (x->source != 0)
    halves_pack(x->m->b_type, n, x->p.depth, (const uint16_t *)b, x->b_column, x->p.b_row, packed,
                PANEL);
  else
#endif
    FN(pack)(n, x->p.depth, (const T *)b, x->b_column, x->p.b_row, packed, PANEL);
}


static void FN(pack_b_piece) (void *arg, int64_t from, int64_t to) {
  const FN(block) *d = arg;
  for (int64_t j = from; j < to; j++)
    FN(pack_panel)(&d->x, j * PANEL, d->packed_b + j * PANEL * d->x.p.depth);
}


static void FN(pack_a_piece) (void *arg, int64_t from, int64_t to) {
  const FN(block) *d = arg;
  const FN(one) *x = &d->x;
  for (int64_t i = from; i < to; i++)
    FN(pack)(smaller(x->rows - i * TILE_ROWS, TILE_ROWS), x->p.depth,
             x->a + i * TILE_ROWS * x->p.a_row, x->p.a_row, x->p.a_column,
             d->packed_a + i * TILE_ROWS * x->p.depth, TILE_ROWS);
}


/* Strips of a times one panel of b. */
static void FN(multiply_strips) (const FN(product) *p, const FN(kernel) *kernel, int64_t rows,
                                 const T *a, const T *b, T *c, const T *addend, int last) {
  for (; rows > 0; rows -= TILE_ROWS) {
    if (p->far) FN(fetch_tile)(p, smaller(rows, TILE_ROWS), c);
    kernel[smaller(rows, TILE_ROWS)](p, a, b, c, addend, last);
    a += TILE_ROWS * p->depth;
    c += TILE_ROWS * p->c_row;
    if (addend != NULL) addend += TILE_ROWS * p->addend_row;
  }
}


/* Some rows and columns of a block. */
static void FN(block_part) (const FN(block) *d, int64_t row, int64_t rows, int64_t column,
                            int64_t columns) {
  FN(one) y = FN(part_of)(&d->x, row, column);
  const T *a = d->packed_a == NULL ? y.a : d->packed_a + row * y.p.depth;
  if (d->packed_a != NULL) { y.p.a_row = 1; y.p.a_column = TILE_ROWS; }
  y.p.b_row = PANEL;
  y.p.far = y.p.depth >= 64;
  for (int64_t j = 0; j < columns; j += PANEL) {
    const int64_t n = smaller(columns - j, PANEL);
    const int wide = n > LANES, last = (int)(n - wide * LANES);
    const FN(kernel) *kernel = FN(kernels)[wide][last < LANES];
    const T *b = d->packed_b + (column + j) * y.p.depth;
    const T *addend = y.p.addend == NULL ? NULL : y.p.addend + j * y.p.addend_column;
    if (d->packed_a != NULL)
      FN(multiply_strips)(&y.p, kernel, rows, a, b, y.c + j, addend, last);
    else
      FN(multiply_columns)(&y.p, kernel, rows, TILE_ROWS, a, b, y.c + j, addend, last);
  }
}


static void FN(block_piece) (void *arg, int64_t from, int64_t to) {
  const FN(block) *d = arg;
  const FN(one) *x = &d->x;
  for (int64_t at = from; at < to && (at == from || !cpu_stopped(x->m->self)); at++) {
    const int64_t row = at / d->column_pieces * BLOCK_ROWS;
    const int64_t column = at % d->column_pieces * PIECE_COLUMNS;
    FN(block_part)(d, row, smaller(x->rows - row, BLOCK_ROWS), column,
                   smaller(x->columns - column, PIECE_COLUMNS));
  }
}


static void FN(run_block) (FN(block) *d) {
  pool *threads = d->x.m->self->pool;
  const int64_t depth = d->x.p.depth, rows = d->x.rows, columns = d->x.columns;
  pool_run(threads, (columns + PANEL - 1) / PANEL, 32768 / (depth * PANEL) + 1,
           FN(pack_b_piece), d);
  if (d->packed_a != NULL)
    pool_run(threads, (rows + TILE_ROWS - 1) / TILE_ROWS, 32768 / (depth * TILE_ROWS) + 1,
             FN(pack_a_piece), d);
  d->column_pieces = (columns + PIECE_COLUMNS - 1) / PIECE_COLUMNS;
  const int64_t cost = 2 * smaller(rows, BLOCK_ROWS) * smaller(columns, PIECE_COLUMNS) * depth;
  pool_run(threads, (rows + BLOCK_ROWS - 1) / BLOCK_ROWS * d->column_pieces,
           PIECE_FLOPS / (cost + 100) + 1, FN(block_piece), d);
}


/* Is a to be packed: transposed, and each element used often? */
static bool FN(packs_a) (const FN(one) *x) {
  return x->p.a_column != 1 && x->columns >= 8 * PANEL && x->p.depth >= 32;
}


static void FN(packed) (FN(one) *x) {
  T near[NEAR_ELEMENTS];
  const bool both = FN(packs_a)(x);              /* then a is packed for each block of columns */
  const int64_t most = both ? 2 * BLOCK_COLUMNS : BLOCK_COLUMNS;
  const int64_t depth = smaller(x->p.depth, BLOCK_DEPTH);
  const int64_t size_b = depth * round_up(smaller(x->columns, most), PANEL);
  const int64_t size_a = both ? depth * round_up(x->rows, TILE_ROWS) : 0;
  T *workspace = near;
  if (size_b + size_a > NEAR_ELEMENTS)
    workspace = cpu_scratch((size_t)(size_b + size_a) * sizeof(T));
  if (workspace == NULL) { x->m->failed = true; return; }
  for (int64_t j = 0; j < x->columns; j += most)
    for (int64_t k = 0; k < x->p.depth; k += BLOCK_DEPTH) {
      if (j + k > 0 && cpu_stopped(x->m->self)) break;
      FN(block) d = {.x = FN(part_of)(x, 0, j), .packed_b = workspace,
                     .packed_a = both ? workspace + size_b : NULL};
      d.x.columns = smaller(x->columns - j, most);
      d.x.p.depth = smaller(x->p.depth - k, BLOCK_DEPTH);
      d.x.a += k * x->p.a_column;
      d.x.b = FN(b_at)(&d.x, k * x->p.b_row);
      if (k > 0) { d.x.p.add = true; d.x.p.addend = NULL; }
      FN(run_block)(&d);
    }
  if (workspace != near) cpu_scratch_free(workspace);
}

/* }================================================================== */


/*
** {==================================================================
** Few columns, a being the transpose of unbroken rows, as in the gradient of a weight
** ===================================================================
*/

/* c += columns of sums that are rows of 'sum'. */
static void FN(put_turned) (const FN(one) *x, int64_t row, int64_t rows, const T *sum) {
  const FN(product) *p = &x->p;
  for (int64_t i = row; i < row + rows; i++) {
    T *c = x->c + i * p->c_row;
    for (int64_t j = 0; j < x->columns; j++) {
      T y = sum[j * TURNED_ROWS + i - row];
      if (p->addend != NULL) y += p->addend[i * p->addend_row + j * p->addend_column];
      c[j] = p->add ? y + c[j] : y;
    }
  }
}


/* c^T = b^T a^T: lanes are rows of c, where columns would fill few of them. */
static void FN(turned_piece) (void *arg, int64_t from, int64_t to) {
  const FN(one) *x = arg;
  const FN(product) *p = &x->p;
  T sum[TURNED_COLUMNS * TURNED_ROWS];
  for (int64_t row = from * TURNED_ROWS; row < to * TURNED_ROWS && row < x->rows;
       row += TURNED_ROWS) {
    const int64_t rows = smaller(x->rows - row, TURNED_ROWS);
    const FN(one) y = {
      .m = x->m, .a = x->b, .b = x->a + row, .c = sum,
      .p = {.depth = p->depth, .a_row = x->b_column, .a_column = p->b_row,
            .b_row = p->a_column, .c_row = TURNED_ROWS, .alpha = p->alpha}
    };
    FN(multiply_lines)(&y, x->columns, rows);
    FN(put_turned)(x, row, rows, sum);
  }
}


static void FN(turned) (FN(one) *x) {
  const int64_t cost = 2 * TURNED_ROWS * x->columns * x->p.depth + 100;
  pool_run(x->m->self->pool, (x->rows + TURNED_ROWS - 1) / TURNED_ROWS, PIECE_FLOPS / cost + 1,
           FN(turned_piece), x);
}

/* }================================================================== */


/* How a product is computed: that follows from sizes, strides and b's type alone. */
static product_way FN(way_of) (const FN(one) *x) {
  const bool transposed = x->b_column != 1 && x->columns > 1, half = x->source != 0;
  const int64_t rows = x->m->b_rows, columns = x->columns, depth = x->p.depth;
  const int64_t bytes = depth * columns * FN(b_bytes)(x);
  const bool few_rows = rows <= DOT_ROWS || (rows <= 24 && depth >= 256);
  const bool few_columns = columns < LANES && columns <= larger(LANES - 4, 4);
  if (x->p.b_row == 1 && x->p.a_column == 1 && depth >= LANES
      && (columns == 1
          || (transposed && (few_rows || (few_columns && depth >= 32 * columns)))))
    return BY_DOTS;
  if (depth == 0) return BY_TILES;
  if (!half && columns > 1 && columns <= TURNED_COLUMNS && columns < LANES && x->p.a_row == 1
      && rows >= 2 * LANES && depth >= 16)
    return BY_TURNED;
  if (!transposed && rows <= FEW_ROWS && (half || bytes > DIRECT_BYTES)) return BY_LINES;
  if (!transposed && !half
      && (bytes <= DIRECT_BYTES || (rows <= 2 * TILE_ROWS && bytes <= FAR_BYTES)))
    return BY_TILES;
  return BY_PANELS;
}


static void FN(run_one) (FN(one) *x, product_way way) {
  switch (way) {
    case BY_DOTS: FN(dots)(x); break;
    case BY_LINES: FN(lines)(x); break;
    case BY_TILES: FN(direct)(x); break;
    case BY_TURNED: FN(turned)(x); break;
    case BY_PANELS: FN(packed)(x); break;
  }
}


/* A small product: each panel of b is used as soon as it is packed. */
static void FN(small_panels) (const FN(one) *x) {
  T packed[NEAR_ELEMENTS];
  FN(product) p = x->p;
  p.b_row = PANEL;
  for (int64_t j = 0; j < x->columns; j += PANEL) {
    FN(pack_panel)(x, j, packed);
    FN(multiply)(&p, x->rows, smaller(x->columns - j, PANEL), x->a, packed, x->c + j);
    if (p.addend != NULL) p.addend += PANEL * p.addend_column;
  }
}


/* Small products go straight to their loops. */
static void FN(batch_piece) (void *arg, int64_t from, int64_t to) {
  matmuls *m = arg;
  FN(one) x = FN(one_of)(m, from);
  const product_way way = FN(way_of)(&x);
  const double flops = 2.0 * (double)m->rows * (double)m->columns * (double)m->depth;
  const bool small = flops < SMALL_FLOPS && m->depth <= BLOCK_DEPTH;
  for (int64_t at = from; at < to; at++) {
    if (cpu_stops(m->self, at - from, small ? (int64_t)flops : 1 << 16)) return;
    if (at > from) FN(one_move)(&x, at);
    if (small && way == BY_TILES) FN(multiply)(&x.p, x.rows, x.columns, x.a, x.b, x.c);
    else if (small && way == BY_PANELS && x.p.depth * PANEL <= NEAR_ELEMENTS)
      FN(small_panels)(&x);
    else if (small && way == BY_DOTS) FN(dot_some)(&x, 0, FN(dot_tiles)(&x));
    else FN(run_one)(&x, way);
  }
}


/* Many batches are shared out as they are; of few large ones, each is shared out by itself. */
static void FN(matmul) (matmuls *m) {
  const double flops = 2.0 * (double)m->rows * (double)m->columns * (double)m->depth + 100;
  const bool few = m->batches < 4 * pool_threads(m->self->pool) && flops > 4 * PIECE_FLOPS;
  pool_run(m->self->pool, m->batches, few ? m->batches : (int64_t)(PIECE_FLOPS / flops) + 1,
           FN(batch_piece), m);
}

#endif
