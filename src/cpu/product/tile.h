/*
** tile.h - products of small matrices, in place, without packing (read once for each type).
**
** A tile is some rows of the result, two vectors wide, kept in registers over the depth: each
** step loads one row of b and multiplies it by one element of each row of a. So a may have any
** strides, while b and c are unbroken along their rows. An element is always summed in the order
** of the depth: how a product is cut into tiles does not change it.
*/

#ifndef T
#include "cpu/vector/simd.h"
#else

typedef struct FN(product) {       /* c = alpha * a b [+ addend] [+ c] */
  int64_t depth;
  int64_t a_row, a_column, b_row, c_row;
  T alpha;
  bool add, far;                   /* to what c holds; c is in no near cache */
  int64_t ahead;                   /* bytes from b to what a tile fetches meanwhile, */
  int64_t step;                    /* so many of it for each row of b */
  const T *addend;                 /* or NULL; its columns are 0 or 1 apart */
  int64_t addend_row, addend_column;
} FN(product);

typedef void (*FN(kernel)) (const FN(product) *p, const T *a, const T *b, T *c, const T *addend,
                            int last);


/* sum = a b. 'last' counts the lanes of the last vector; 'cut': they are not all. */
INLINED void FN(tile_sums) (const int rows, const int vectors, const bool cut,
                            const FN(product) *p, const T *a, const T *b, int last,
                            FN(vector) sum[][4]) {
  const int64_t a_row = p->a_row, a_column = p->a_column, b_row = p->b_row, step = p->step;
  const char *ahead = (const char *)b + p->ahead;
  const T *at[(TILE_ROWS + 2) / 3];      /* every third row: the rest is within an address */
  UNROLL for (int i = 0; i < rows; i++) {
    UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = (FN(vector)){0};
    if (i % 3 == 0) at[i / 3] = a + i * a_row;
  }
  for (int64_t k = p->depth; k > 0; k--) {
    FN(vector) line[4];
    UNROLL for (int j = 0; j < vectors; j++)
      line[j] = cut && j == vectors - 1 ? FN(load_part)(b + j * LANES, last)
                                        : FN(load)(b + j * LANES);
    UNROLL for (int i = 0; i < rows; i++) {
      const T x = at[i / 3][(i % 3) * a_row];
      UNROLL for (int j = 0; j < vectors; j++) sum[i][j] += x * line[j];
      if (i % 3 == 2 || i == rows - 1) at[i / 3] += a_column;
    }
    if (rows >= FETCHING_ROWS)
      UNROLL for (int j = 0; j < vectors * VECTOR_BYTES; j += 64)
        __builtin_prefetch(ahead + j);
    ahead += step;
    b += b_row;
  }
}


INLINED void FN(tile) (const int rows, const int vectors, const bool cut, const FN(product) *p,
                       const T *a, const T *b, T *c, const T *addend, int last) {
  FN(vector) sum[TILE_ROWS][4];
  FN(tile_sums)(rows, vectors, cut, p, a, b, last, sum);
  const T alpha = p->alpha;
  const int64_t c_row = p->c_row;
#define EACH(statement) \
  UNROLL for (int i = 0; i < rows; i++) \
    UNROLL for (int j = 0; j < vectors; j++) { \
      const int n = cut && j == vectors - 1 ? last : LANES; \
      statement; \
    }
  EACH((void)n; sum[i][j] *= alpha)
  if (addend != NULL) {
    const int64_t row = p->addend_row;
    if (p->addend_column == 0) EACH((void)n; sum[i][j] += addend[i * row])
    else EACH(sum[i][j] += FN(load_some)(addend + i * row + j * LANES, n))
  }
  if (p->add) EACH(sum[i][j] += FN(load_some)(c + i * c_row + j * LANES, n))
  EACH(FN(store_some)(c + i * c_row + j * LANES, sum[i][j], n))
#undef EACH
}


#define KERNEL(rows, vectors, cut) \
  static void FN(tile_##rows##_##vectors##_##cut) (const FN(product) *p, const T *a, const T *b, \
                                                   T *c, const T *addend, int last) { \
    FN(tile)(rows, vectors, cut, p, a, b, c, addend, last); \
  }
#define NAME(rows, vectors, cut) FN(tile_##rows##_##vectors##_##cut),
#define ONE_CUT(rows) NAME(rows, 1, 1)
#define TWO_CUT(rows) NAME(rows, 2, 1)
#define FOUR_CUT(rows) NAME(rows, 4, 1)
#if defined(HAS_AVX512)                /* a mask costs nothing: all are cut */
#define ROW(rows) KERNEL(rows, 1, 1) KERNEL(rows, 2, 1)
#define HALF(rows) KERNEL(rows, 4, 1)
#define ONE ONE_CUT
#define TWO TWO_CUT
#define FOUR FOUR_CUT
#else
#define ROW(rows) KERNEL(rows, 1, 0) KERNEL(rows, 2, 0) KERNEL(rows, 1, 1) KERNEL(rows, 2, 1)
#define HALF(rows) KERNEL(rows, 4, 0) KERNEL(rows, 4, 1)
#define ONE(rows) NAME(rows, 1, 0)
#define TWO(rows) NAME(rows, 2, 0)
#define FOUR(rows) NAME(rows, 4, 0)
#endif

EACH_ROW(ROW)
EACH_HALF(HALF)                    /* few rows: wider, or there are too few sums in flight */

static const FN(kernel) FN(kernels)[3][2][TILE_ROWS + 1] = {   /* [1, 2, 4 vectors][cut][rows] */
  {{NULL, EACH_ROW(ONE)}, {NULL, EACH_ROW(ONE_CUT)}},
  {{NULL, EACH_ROW(TWO)}, {NULL, EACH_ROW(TWO_CUT)}},
  {{NULL, EACH_HALF(FOUR)}, {NULL, EACH_HALF(FOUR_CUT)}}
};

#undef KERNEL
#undef NAME
#undef ROW
#undef HALF
#undef ONE
#undef TWO
#undef FOUR
#undef ONE_CUT
#undef TWO_CUT
#undef FOUR_CUT


/* Rows of a tile two vectors wide that is in no near cache: it is here when its sums are. */
static void FN(fetch_tile) (const FN(product) *p, int64_t rows, const T *c) {
  for (; rows > 0; rows--, c += p->c_row)
    UNROLL for (int j = 0; j < 2 * VECTOR_BYTES; j += 64)
      __builtin_prefetch((const char *)c + j, 1);
}


/*
** A column of tiles: all rows, some vectors wide, cut into tiles of nearly one height. Each fetches
** an equal part of what is 'ahead'.
*/
static void FN(multiply_columns) (FN(product) p, const FN(kernel) *kernel, int64_t rows,
                                  int64_t most, const T *a, const T *b, T *c, const T *addend,
                                  int last) {
  for (int64_t tiles = (rows + most - 1) / most; tiles > 0; tiles--) {
    int64_t n = tiles == 1 ? rows : (int64_t)((uint32_t)(rows + tiles - 1) / (uint32_t)tiles);
    if (p.far) FN(fetch_tile)(&p, n, c);
    kernel[n](&p, a, b, c, addend, last);
    p.ahead += p.depth * p.step;
    a += n * p.a_row;
    c += n * p.c_row;
    if (addend != NULL) addend += n * p.addend_row;
    rows -= n;
  }
}


/* The product, all of it, with nothing packed beforehand. */
static void FN(multiply) (const FN(product) *p, int64_t rows, int64_t columns, const T *a,
                          const T *b, T *c) {
  const T *addend = p->addend;
  for (int64_t n; columns > 0; columns -= n) {
    int wide = columns <= LANES ? 0 : rows <= TILE_ROWS / 2 && columns > 2 * LANES ? 2 : 1;
    n = smaller(columns, (int64_t)LANES << wide);
    if (wide == 2 && n <= 3 * LANES) { wide = 1; n = 2 * LANES; }
    int last = (int)(n - ((((int64_t)1 << wide) - 1) * LANES));
    FN(multiply_columns)(*p, FN(kernels)[wide][last < LANES], rows,
                         wide == 2 ? TILE_ROWS / 2 : TILE_ROWS, a, b, c, addend, last);
    b += n;
    c += n;
    if (addend != NULL) addend += n * p->addend_column;
  }
}

#endif
