/*
** one.h - one product of a batch (read once for each type).
*/

#ifndef T
#include "cpu/product/matmul.h"
#else

/* c = alpha a b [+ addend] [+ c], each (rows, columns) and so on, any strides. */
typedef struct FN(one) {
  matmuls *m;
  FN(product) p;                   /* a_row, a_column, b_row, c_row … */
  int64_t rows, columns, b_column;
  const T *a;
  const void *b;
  int source;                      /* what b is of: T 0, bfloat16 1, float16 2 */
  T *c;
} FN(one);


static int FN(source_of) (heed_type type) {
  return type == TYPE ? 0 : type == HEED_BFLOAT16 ? 1 : 2;
}

static int64_t FN(source_bytes) (int source) { return source == 0 ? BYTES : 2; }

static int64_t FN(b_bytes) (const FN(one) *x) { return FN(source_bytes)(x->source); }


/* The address that many elements further in b. */
static const char *FN(b_at) (const FN(one) *x, int64_t elements) {
  return (const char *)x->b + elements * FN(b_bytes)(x);
}


static FN(one) FN(part_of) (const FN(one) *x, int64_t row, int64_t column) {
  FN(one) y = *x;
  y.a += row * x->p.a_row;
  y.b = FN(b_at)(x, column * x->b_column);
  y.c += row * x->p.c_row + column;
  if (x->p.addend != NULL) y.p.addend += row * x->p.addend_row + column * x->p.addend_column;
  return y;
}


/* Goes to product number 'at' of the batch. */
static void FN(one_move) (FN(one) *x, int64_t at) {
  const matmuls *m = x->m;
  x->a = (const T *)m->a.data + batch_offset(m, &m->a, at);
  x->b = m->b.data + batch_offset(m, &m->b, at) * FN(b_bytes)(x);
  x->c = (T *)m->c.data + batch_offset(m, &m->c, at);
  if (m->added) x->p.addend = (const T *)m->addend.data + batch_offset(m, &m->addend, at);
}


static FN(one) FN(one_of) (matmuls *m, int64_t at) {
  FN(one) x = {
    .m = m, .rows = m->rows, .columns = m->columns, .b_column = m->b.column,
    .p = {.depth = m->depth, .a_row = m->a.row, .a_column = m->a.column, .b_row = m->b.row,
          .c_row = m->c.row, .alpha = (T)m->alpha, .add = m->add, .addend_row = m->addend.row,
          .addend_column = m->columns == 1 ? 0 : m->addend.column},
    .source = FN(source_of)(m->b_type)
  };
  FN(one_move)(&x, at);
  return x;
}

#endif
