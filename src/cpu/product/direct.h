/*
** direct.h - products by tiles in place: nothing is packed (read once for each type).
*/

#ifndef T
#include "cpu/product/matmul.h"
#else

/* Takes as much depth at a time as a block has, so that the partial sums are the same ones. */
static void FN(multiply_blocks) (const FN(one) *x, int64_t rows, int64_t columns) {
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
  FN(multiply_blocks)(&y, smaller((to - from) * TILE_ROWS, x->rows - from * TILE_ROWS), x->columns);
}

static void FN(column_piece) (void *arg, int64_t from, int64_t to) {
  const int64_t unit = 4 * LANES;
  const FN(one) *x = arg, y = FN(part_of)(x, 0, from * unit);
  FN(multiply_blocks)(&y, x->rows, smaller((to - from) * unit, x->columns - from * unit));
}

static void FN(direct) (FN(one) *x) {
  const int64_t unit = x->rows >= x->columns ? TILE_ROWS : 4 * LANES;
  const int64_t most = larger(x->rows, x->columns), least = smaller(x->rows, x->columns);
  const int64_t cost = 2 * unit * least * x->p.depth + 100;
  pool_run(x->m->self->pool, (most + unit - 1) / unit, PIECE_FLOPS / cost + 1,
           unit == TILE_ROWS ? FN(row_piece) : FN(column_piece), x);
}


static void FN(direct_alone) (FN(one) *x) {
  FN(multiply)(&x->p, x->rows, x->columns, x->a, x->b, x->c);
}


/*
** {==================================================================
** Turned: few columns, a being the transpose of unbroken rows, as in the gradient of a weight
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
    FN(multiply_blocks)(&y, x->columns, rows);
    FN(put_turned)(x, row, rows, sum);
  }
}


static void FN(turned) (FN(one) *x) {
  const int64_t cost = 2 * TURNED_ROWS * x->columns * x->p.depth + 100;
  pool_run(x->m->self->pool, (x->rows + TURNED_ROWS - 1) / TURNED_ROWS, PIECE_FLOPS / cost + 1,
           FN(turned_piece), x);
}

/* }================================================================== */

#endif
