/*
** matmul_loops.h - products by tiles: in place, or of packed panels (read once for each type).
*/

/*
** {==================================================================
** In place: nothing is packed
** ===================================================================
*/

/*
** As deep at a time as a block, so that sums are of the same parts.
*/
static void OF(multiply_lines) (const OF(one) *x, int64_t rows, int64_t columns) {
  const T *b = x->b;
  OF(product) p = x->p;
  for (int64_t k = 0; k == 0 || k < x->p.depth; k += BLOCK_DEPTH) {
    if (cpu_stops(x->m->self, k / BLOCK_DEPTH, rows * columns * BLOCK_DEPTH)) return;
    p.depth = smaller(BLOCK_DEPTH, x->p.depth - k);
    OF(multiply)(&p, rows, columns, x->a + k * p.a_column, b + k * p.b_row, x->c);
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


#if BYTES == 4
/* The same of 16-bit floats. */
static void halves_pack (heed_type type, int64_t n, int64_t depth, const uint16_t *from,
                         int64_t row, int64_t column, float *to, int64_t to_row) {
  float near[PANEL * NEAR_DEPTH];
  for (int64_t k = 0, some; k < depth; k += some) {
    some = column == 1 ? smaller(depth - k, NEAR_DEPTH) : 1;
    const uint16_t *at = from + k * column;
    if (column == 1) {
      for (int64_t i = 0; i < n; i++)
        halves_convert(type, some, near + i * NEAR_DEPTH, at + i * row);
      transpose_f32(n, some, n, 1, near, NEAR_DEPTH, to + k * to_row, to_row);
    } else if (row == 1) {
      halves_convert(type, n, to + k * to_row, at);
    } else {
      for (int64_t i = 0; i < n; i++) to[k * to_row + i] = half_one(type, at[i * row]);
    }
  }
}
#endif


static void OF(pack_b_piece) (void *arg, int64_t from, int64_t to) {
  const OF(block) *d = arg;
  const OF(one) *x = &d->x;
  for (int64_t j = from; j < to; j++) {
    const int64_t n = smaller(x->columns - j * PANEL, PANEL);
    const char *b = OF(b_at)(x, j * PANEL * x->b_column);
    T *packed = d->packed_b + j * PANEL * x->p.depth;
#if BYTES == 4
    if (x->source != 0) {
      halves_pack(x->m->b_type, n, x->p.depth, (const uint16_t *)b, x->b_column, x->p.b_row,
                  packed, PANEL);
      continue;
    }
#endif
    OF(pack)(n, x->p.depth, (const T *)b, x->b_column, x->p.b_row, packed, PANEL);
  }
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
  y.p.far = true;
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
    const int64_t column = at % d->column_pieces * PIECE_COLUMNS;
    OF(block_part)(d, row, smaller(x->rows - row, BLOCK_ROWS), column,
                   smaller(x->columns - column, PIECE_COLUMNS));
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
  d->column_pieces = (columns + PIECE_COLUMNS - 1) / PIECE_COLUMNS;
  const int64_t cost = 2 * smaller(rows, BLOCK_ROWS) * smaller(columns, PIECE_COLUMNS) * depth;
  pool_run(threads, (rows + BLOCK_ROWS - 1) / BLOCK_ROWS * d->column_pieces,
           PIECE_FLOPS / (cost + 100) + 1, OF(block_piece), d);
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
      d.x.b = OF(b_at)(&d.x, k * x->p.b_row);
      if (k > 0) { d.x.p.add = true; d.x.p.addend = NULL; }
      OF(run_block)(&d);
    }
  if (workspace != near) cpu_scratch_free(workspace);
}

/* }================================================================== */


/* One product, by the way that suits its shape. */
static void OF(run_one) (OF(one) *x) {
  const bool transposed = x->b_column != 1 && x->columns > 1, half = x->source != 0;
  const int64_t rows = x->rows, depth = x->p.depth;
  const int64_t bytes = depth * x->columns * OF(b_bytes)(x);
  if (x->p.b_row == 1 && x->p.a_column == 1 && depth >= LANES
      && (x->columns == 1
          || (transposed && (rows <= DOT_ROWS || (rows <= 24 && depth >= 256)))))
    OF(dots)(x);
  else if (!transposed && rows <= FEW_ROWS && (half || bytes > DIRECT_BYTES))
    OF(lines)(x);
  else if (depth == 0 || (!transposed && !half && bytes <= DIRECT_BYTES))
    OF(direct)(x);
  else if (!transposed && !half && rows <= 2 * TILE_ROWS && bytes <= FAR_BYTES)
    OF(direct)(x);
  else
    OF(packed)(x);
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

