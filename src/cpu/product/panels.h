/*
** panels.h - products with b packed into (panels, depth, PANEL); and a, if it has to be, into
** (strips, depth, TILE_ROWS) (read once for each type).
*/

#ifndef T
#include "cpu/product/matmul.h"
#else

typedef struct FN(block) {
  FN(one) x;                       /* of this block of columns and depth */
  T *packed_a, *packed_b;          /* the first may be NULL */
  int64_t packed_depth;            /* of packed_b, from one of its panels to the next */
  bool kept;                       /* packed_b was packed before: it comes from memory */
  int64_t piece_columns, column_pieces;
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
/*
** The same of 16-bit floats; those of the next panel are fetched meanwhile. Not inlined: its frame
** would be its callers', whose work is small.
*/
__attribute__((noinline))
static void halves_pack (heed_type type, int64_t n, int64_t depth, const uint16_t *from,
                         int64_t row, int64_t column, float *to, int64_t to_row) {
  float near[PANEL * NEAR_DEPTH];
  for (int64_t k = 0, some; k < depth; k += some) {
    some = column == 1 ? smaller(depth - k, NEAR_DEPTH) : 1;
    const uint16_t *at = from + k * column;
    if (column == 1) {
      for (int64_t i = 0; i < n; i++) {
        fetch_far(at + (i + n) * row, NEAR_DEPTH * (int)sizeof *at);
        halves_convert(type, some, near + i * NEAR_DEPTH, at + i * row);
      }
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
  for (int64_t j = from; j < to && (j == from || !cpu_stopped(d->x.m->self)); j++)
    FN(pack_panel)(&d->x, j * PANEL, d->packed_b + j * PANEL * d->packed_depth);
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
  if (d->kept) {
    y.p.ahead = d->packed_depth * PANEL * BYTES;
    y.p.step = PANEL * BYTES / ((rows + TILE_ROWS - 1) / TILE_ROWS);
  }
  for (int64_t j = 0; j < columns; j += PANEL) {
    const int64_t n = smaller(columns - j, PANEL);
    const int wide = n > LANES, last = (int)(n - wide * LANES);
    const FN(kernel) *kernel = FN(kernels)[wide][last < LANES];
    const T *b = d->packed_b + (column + j) * d->packed_depth;
    const T *addend = y.p.addend == NULL ? NULL : y.p.addend + j * y.p.addend_column;
    if (d->packed_a != NULL)
      FN(multiply_strips)(&y.p, kernel, rows, a, b, y.c + j, addend, last);
    else
      FN(multiply_columns)(y.p, kernel, rows, TILE_ROWS, a, b, y.c + j, addend, last);
  }
}


static void FN(block_piece) (void *arg, int64_t from, int64_t to) {
  const FN(block) *d = arg;
  const FN(one) *x = &d->x;
  for (int64_t at = from; at < to && (at == from || !cpu_stopped(x->m->self)); at++) {
    const int64_t row = at / d->column_pieces * BLOCK_ROWS;
    const int64_t column = at % d->column_pieces * d->piece_columns;
    FN(block_part)(d, row, smaller(x->rows - row, BLOCK_ROWS), column,
                   smaller(x->columns - column, d->piece_columns));
  }
}


static void FN(pack_b) (FN(block) *d) {
  pool_run(d->x.m->self->pool, (d->x.columns + PANEL - 1) / PANEL,
           32768 / (d->x.p.depth * PANEL) + 1, FN(pack_b_piece), d);
}


/* b is packed. A few pieces would be shared out unequally: they are of single panels. */
static void FN(run_block) (FN(block) *d) {
  pool *threads = d->x.m->self->pool;
  const int64_t depth = d->x.p.depth, rows = d->x.rows, columns = d->x.columns;
  const int64_t row_pieces = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
  const bool few = row_pieces * columns < FEW_PIECES * PIECE_COLUMNS * pool_threads(threads);
  if (d->packed_a != NULL)
    pool_run(threads, (rows + TILE_ROWS - 1) / TILE_ROWS, 32768 / (depth * TILE_ROWS) + 1,
             FN(pack_a_piece), d);
  d->piece_columns = few ? PANEL : PIECE_COLUMNS;
  d->column_pieces = (columns + d->piece_columns - 1) / d->piece_columns;
  const int64_t cost = 2 * smaller(rows, BLOCK_ROWS) * smaller(columns, d->piece_columns) * depth;
  pool_run_uneven(threads, row_pieces * d->column_pieces, PIECE_FLOPS / (cost + 100) + 1,
                  FN(block_piece), d);
}


/* Is a to be packed: transposed, and each element used often? */
static bool FN(packs_a) (const FN(one) *x) {
  return x->p.a_column != 1 && x->columns >= 8 * PANEL && x->p.depth >= 32;
}


/* The block of some columns, from column j and depth k on. */
static FN(block) FN(block_of) (const FN(one) *x, int64_t j, int64_t columns, int64_t k) {
  FN(block) d = {.x = FN(part_of)(x, 0, j)};
  d.x.columns = smaller(x->columns - j, columns);
  d.x.p.depth = smaller(x->p.depth - k, BLOCK_DEPTH);
  d.x.a += k * x->p.a_column;
  d.x.b = FN(b_at)(&d.x, k * x->p.b_row);
  if (k > 0) { d.x.p.add = true; d.x.p.addend = NULL; }
  return d;
}


/*
** {==================================================================
** Weights that are packed once, in panels of all their depth
** ===================================================================
*/

/* All of b, packed now or before; NULL: it is not kept. A batch is work of several threads. */
static T *FN(all_packed) (const FN(one) *x) {
  const matmuls *m = x->m;
  packed_copy *p = m->packed;
  if (p == NULL || x->source != 0 || m->batches != 1 || x->p.b_row != 1
      || x->b_column != x->p.depth || x->p.a_column != 1) return NULL;
  const packed_key key = {x->b, m->self->level, x->p.depth, x->columns, BYTES};
  T *all = packed_data(p, &key);
  if (all != NULL) return all;
  all = packed_renew(p, &key, (size_t)(x->p.depth * round_up(x->columns, PANEL)) * sizeof(T));
  if (all == NULL) return NULL;
  FN(block) d = {.x = *x, .packed_b = all, .packed_depth = x->p.depth};
  FN(pack_b)(&d);
  if (cpu_stopped(m->self)) return NULL;
  packed_done(p, &key);
  return all;
}


typedef struct FN(weights) {
  const FN(one) *x;
  T *all;
} FN(weights);

/* Some columns, and the depth from k on. */
static FN(block) FN(kept_block) (const FN(weights) *d, int64_t j, int64_t columns, int64_t k) {
  FN(block) e = FN(block_of)(d->x, j, columns, k);
  e.packed_depth = d->x->p.depth;
  e.packed_b = d->all + j * e.packed_depth + k * PANEL;
  e.kept = true;
  return e;
}


/* Some panels, through all depth. */
static void FN(kept_piece) (void *arg, int64_t from, int64_t to) {
  const FN(weights) *d = arg;
  for (int64_t k = 0; k < d->x->p.depth && (k == 0 || !cpu_stopped(d->x->m->self));
       k += BLOCK_DEPTH) {
    const FN(block) e = FN(kept_block)(d, from * PANEL, (to - from) * PANEL, k);
    FN(block_part)(&e, 0, e.x.rows, 0, e.x.columns);
  }
}


/* False: b is not kept. Threads share the columns of a few rows: sums stay in their caches. */
static bool FN(panels_kept) (const FN(one) *x) {
  FN(weights) d = {x, FN(all_packed)(x)};
  const int64_t depth = x->p.depth;
  if (d.all == NULL) return false;
  if (x->rows <= BLOCK_ROWS && x->rows * depth <= DEEP_BYTES / BYTES)
    pool_run_uneven(x->m->self->pool, (x->columns + PANEL - 1) / PANEL,
                    PIECE_FLOPS / (2 * x->rows * PANEL * depth + 100) + 1, FN(kept_piece), &d);
  else for (int64_t j = 0; j < x->columns; j += BLOCK_COLUMNS)
    for (int64_t k = 0; k < depth && !cpu_stopped(x->m->self); k += BLOCK_DEPTH) {
      FN(block) e = FN(kept_block)(&d, j, BLOCK_COLUMNS, k);
      FN(run_block)(&e);
    }
  return true;
}

/* }================================================================== */


static void FN(panels) (FN(one) *x) {
  if (FN(panels_kept)(x)) return;
  T near[NEAR_ELEMENTS];
  const bool both = FN(packs_a)(x);              /* then a is packed for each block of columns */
  const int64_t most = both ? 2 * BLOCK_COLUMNS : BLOCK_COLUMNS;
  const int64_t depth = smaller(x->p.depth, BLOCK_DEPTH);
  const int64_t size_b = depth * round_up(smaller(x->columns, most), PANEL);
  const int64_t size_a = both ? depth * round_up(x->rows, TILE_ROWS) : 0;
  T *workspace = near;
  if (size_b + size_a > NEAR_ELEMENTS)
    workspace = cpu_scratch(x->m->self, (size_t)(size_b + size_a) * sizeof(T));
  if (workspace == NULL) { x->m->failed = true; return; }
  for (int64_t j = 0; j < x->columns; j += most)
    for (int64_t k = 0; k < x->p.depth; k += BLOCK_DEPTH) {
      if (j + k > 0 && cpu_stopped(x->m->self)) break;
      FN(block) d = FN(block_of)(x, j, most, k);
      d.packed_b = workspace;
      d.packed_depth = d.x.p.depth;
      d.packed_a = both ? workspace + size_b : NULL;
      FN(pack_b)(&d);
      FN(run_block)(&d);
    }
  if (workspace != near) cpu_scratch_free(workspace);
}


/* A small product: each panel of b is used as soon as it is packed, if it has room. */
static void FN(panels_alone) (FN(one) *x) {
  T packed[NEAR_ELEMENTS];
  if (x->p.depth * PANEL > NEAR_ELEMENTS) { FN(panels)(x); return; }
  FN(product) p = x->p;
  p.b_row = PANEL;
  for (int64_t j = 0; j < x->columns; j += PANEL) {
    FN(pack_panel)(x, j, packed);
    FN(multiply)(&p, x->rows, smaller(x->columns - j, PANEL), x->a, packed, x->c + j);
    if (p.addend != NULL) p.addend += PANEL * p.addend_column;
  }
}

#endif
