/*
** ways.h - which way a product takes: the first of the table that fits. The choice depends on
** sizes, strides and b's type alone, so results do not depend on threads (read once for each type).
*/

#ifndef T
#include "cpu/product/matmul.h"
#else

static bool FN(is_transposed) (const FN(one) *x) { return x->b_column != 1 && x->columns > 1; }

static int64_t FN(bytes_of_b) (const FN(one) *x) {
  return x->p.depth * x->columns * FN(b_bytes)(x);
}


/* Rows of both are unbroken along the depth; and one column, or too little to pack b for. */
static bool FN(fits_dots) (const FN(one) *x) {
  const int64_t rows = x->m->b_rows, columns = x->columns, depth = x->p.depth;
  const bool few_rows = rows <= DOT_ROWS || (rows <= 24 && depth >= 256);
  const bool few_columns = columns <= (LANES == 4 ? 3 : LANES - 4) && depth >= 32 * columns;
  if (x->p.b_row != 1 || x->p.a_column != 1 || depth < LANES) return false;
  return columns == 1 || (FN(is_transposed)(x) && (few_rows || few_columns));
}


static bool FN(has_no_depth) (const FN(one) *x) { return x->p.depth == 0; }


/* Columns of c would fill few lanes; its rows fill them. */
static bool FN(fits_turned) (const FN(one) *x) {
  return x->source == 0 && x->columns > 1 && x->columns <= TURNED_COLUMNS && x->columns < LANES
         && x->p.a_row == 1 && x->m->b_rows >= 2 * LANES && x->p.depth >= 16;
}


/* b is read once: that takes the time, where it is in no near cache or must be converted. */
static bool FN(fits_lines) (const FN(one) *x) {
  return !FN(is_transposed)(x) && x->m->b_rows <= FEW_ROWS
         && (x->source != 0 || FN(bytes_of_b)(x) > DIRECT_BYTES);
}


/* b lies as tiles read it, and in a cache; or it is used too seldom to be packed. */
static bool FN(fits_direct) (const FN(one) *x) {
  const int64_t bytes = FN(bytes_of_b)(x);
  return !FN(is_transposed)(x) && x->source == 0
         && (bytes <= DIRECT_BYTES || (x->m->b_rows <= 2 * TILE_ROWS && bytes <= FAR_BYTES));
}


static bool FN(fits_panels) (const FN(one) *x) {
  (void)x;
  return true;
}


typedef struct FN(product_way) {
  bool (*fits) (const FN(one) *x);
  void (*run) (FN(one) *x);        /* shared out among threads */
  void (*alone) (FN(one) *x);      /* a small one, by the thread that calls */
} FN(product_way);

static const FN(product_way) FN(product_ways)[] = {
  {FN(fits_dots), FN(dots), FN(dots_alone)},
  {FN(has_no_depth), FN(direct), FN(direct_alone)},
  {FN(fits_turned), FN(turned), FN(turned)},
  {FN(fits_lines), FN(lines), FN(lines)},
  {FN(fits_direct), FN(direct), FN(direct_alone)},
  {FN(fits_panels), FN(panels), FN(panels_alone)}
};


static double FN(flops_of) (const matmuls *m) {
  return 2.0 * (double)m->rows * (double)m->columns * (double)m->depth;
}


/* Is each product of a batch for the thread that calls? */
static bool FN(is_small) (const matmuls *m) {
  return FN(flops_of)(m) < SMALL_FLOPS && m->depth <= BLOCK_DEPTH;
}


/*
** How many products of a batch are a piece of work. Many are shared out among threads as they are;
** few large ones are one piece, and each of them is shared out by itself.
*/
static int64_t FN(products_of_piece) (const matmuls *m, int threads) {
  const double flops = FN(flops_of)(m);
  if (m->batches < 4 * threads && flops > 4 * PIECE_FLOPS) return m->batches;
  return (int64_t)(PIECE_FLOPS / (flops + 100)) + 1;
}


/* Products 'from' to 'to' - 1 of a batch. */
static void FN(batch_piece) (void *arg, int64_t from, int64_t to) {
  matmuls *m = arg;
  FN(one) x = FN(one_of)(m, from);
  const FN(product_way) *way = FN(product_ways);
  const int64_t flops = (int64_t)FN(flops_of)(m);
  while (!way->fits(&x)) way++;
  void (*const run) (FN(one) *x) = FN(is_small)(m) ? way->alone : way->run;
  for (int64_t at = from; at < to && !cpu_stops(m->self, at, flops); at++) {
    FN(one_move)(&x, at);
    run(&x);
  }
}


static void FN(matmul) (matmuls *m) {
  pool *p = m->self->pool;
  pool_run(p, m->batches, FN(products_of_piece)(m, pool_threads(p)), FN(batch_piece), m);
}

#endif
