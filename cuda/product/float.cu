/*
** float.cu - products of float32 of any strides: on tensor cores where three products of TF32 are
** faster than fused multiplications and additions, or where matmul_precision allows one.
*/

#include "cuda/product/float.h"
#include "cuda/product/matmul.h"

#define RESULT_LINE (FLOAT_COLUMNS + 1)        /* of results in shared memory */


/*
** {==================================================================
** The kernel
** ===================================================================
*/

/* A tile: its first row and column, of which matrix, and how many there are. */
struct place { int64_t batch, row, column; int rows, columns; };

/* Of this block. */
INLINE int64_t number_of_tile (void) { return blockIdx.x + (int64_t)gridDim.x * blockIdx.y; }

INLINE place place_of (const products &p, int64_t n) {
  const int64_t tiles = p.across * p.down;
  place x = {n / tiles, n % tiles / p.across * FLOAT_ROWS, n % p.across * FLOAT_COLUMNS, 0, 0};
  x.rows = (int)min(p.rows - x.row, (int64_t)FLOAT_ROWS);
  x.columns = (int)min(p.columns - x.column, (int64_t)FLOAT_COLUMNS);
  return x;
}


template <class A, class B> HOST_TOO int product_bytes (void) {
  const int stages = 2 * (A::SIZE + B::SIZE), results = FLOAT_ROWS * RESULT_LINE;
  return (stages > results ? stages : results) * (int)sizeof(float);
}


INLINE void add_sums (sums &to, sums &more) {
  EACH(i, 8) EACH(e, 4) {
    to.at[i][e] += more.at[i][e];
    more.at[i][e] = 0;
  }
}


/* The next stage is on its way while one is multiplied. */
template <class A, class B, class HOW>
INLINE void sum_stages (sums &sum, const operand &a, const operand &b, int64_t depth,
                        float *shared) {
  const uint32_t start = ptx_shared(shared);
  sums part = {};
  sum = part;
#pragma unroll 1
  for (int64_t k = -FLOAT_DEPTH; k < depth; k += FLOAT_DEPTH) {
    const int64_t next = k + FLOAT_DEPTH;
    const float *stage = shared + (k & FLOAT_DEPTH ? A::SIZE + B::SIZE : 0);
    ptx_wait<0>();
    __syncthreads();               /* this stage is there, nobody reads the one before any more */
    if (next < depth) {
      const uint32_t to = start + (next & FLOAT_DEPTH ? (A::SIZE + B::SIZE) * 4 : 0);
      const int left = (int)min(depth - next, (int64_t)FLOAT_DEPTH);
      copy_stage<A>(to, a, next, left);
      copy_stage<B>(to + A::SIZE * 4, b, next, left);
    }
    ptx_commit();
    if (k < 0) continue;           /* the first turn only copies */
    HOW::template add<A, B>(part, stage, stage + A::SIZE);
    if (k & FLOAT_DEPTH || next >= depth) add_sums(sum, part);
  }
}


INLINE bool any_not_finite (const sums &s) {
  float zero = 0;
  EACH(i, 8) EACH(e, 4) zero = fmaf(s.at[i][e], 0.0f, zero);
  return __syncthreads_or(zero != 0);
}


template <class A, class B, class HOW> INLINE void keep_sums (float *results, const sums &s) {
  __syncthreads();
  EACH(i, 8) EACH(e, 4)
    results[HOW::template row<A>(i, e) * RESULT_LINE + HOW::template column<B>(i, e)] = s.at[i][e];
  __syncthreads();
}


/* Lanes go along the axis of c whose elements are closer. */
INLINE void store_results (const products &p, const product_data &d, const place &x,
                           const float *results) {
  float *c = d.c + element_offset(p.batch[2], x.batch) + x.row * p.c.row + x.column * p.c.column;
  const float *addend = d.addend + element_offset(p.batch[3], x.batch) + x.row * p.addend.row +
                        x.column * p.addend.column;
  const bool along = p.c.column == 1 || distance(p.c.column) <= distance(p.c.row);
#pragma unroll 4
  for (int e = (int)threadIdx.x; e < FLOAT_ROWS * FLOAT_COLUMNS; e += FLOAT_THREADS) {
    const int i = along ? e / FLOAT_COLUMNS : e % FLOAT_ROWS;
    const int j = along ? e % FLOAT_COLUMNS : e / FLOAT_ROWS;
    if (i >= x.rows || j >= x.columns) continue;
    float *to = c + i * p.c.row + j * p.c.column;
    float y = results[i * RESULT_LINE + j] * (float)p.alpha;
    if (p.added) y += addend[i * p.addend.row + j * p.addend.column];
    *to = p.accumulate ? y + *to : y;
  }
}


/*
** A tile's results in shared memory: or false, if some are not finite, of which tensor cores know
** nothing: they make NaN of what is infinite, or too large for TF32.
*/
template <class A, class B, class HOW>
INLINE bool make_tile (const products &p, const product_data &d, int64_t n, bool a_paired,
                       bool b_paired, float *shared) {
  const place x = place_of(p, n);
  const operand a = {d.a + element_offset(p.batch[0], x.batch) + x.row * p.a.row, p.a.row,
                     p.a.column, x.rows, a_paired};
  const operand b = {d.b + element_offset(p.batch[1], x.batch) + x.column * p.b.column,
                     p.b.column, p.b.row, x.columns, b_paired};
  sums s;
  sum_stages<A, B, HOW>(s, a, b, p.depth, shared);
  if (HOW::TENSOR && any_not_finite(s)) return false;
  keep_sums<A, B, HOW>(shared, s);
  return true;
}


template <class A, class B, class HOW>
KERNEL __launch_bounds__(FLOAT_THREADS, 2)
multiply_float (__grid_constant__ const products p, __grid_constant__ const product_data d,
                bool a_paired, bool b_paired) {
  SHARED(float, shared);
  const int64_t n = number_of_tile();
  if (n >= p.across * p.down * p.batches) return;
  if (!make_tile<A, B, HOW>(p, d, n, a_paired, b_paired, shared))
    make_tile<A, B, multiply_add_floats>(p, d, ptx_anew(number_of_tile()), a_paired, b_paired,
                                         shared);
  store_results(p, d, place_of(p, ptx_anew(number_of_tile())), shared);
}

/* }================================================================== */


/*
** {==================================================================
** Launches
** ===================================================================
*/

/* Does an operand lie along k rather than across it? */
static bool is_along (int64_t x_stride, int64_t k_stride) {
  return k_stride == 1 || (x_stride != 1 && distance(k_stride) <= distance(x_stride));
}


static bool is_paired (const float *data, int64_t x_stride, int64_t k_stride, const path &batch) {
  const bool along = is_along(x_stride, k_stride);
  bool paired = (uintptr_t)data % 16 == 0 && (along ? k_stride : x_stride) == 1 &&
                (along ? x_stride : k_stride) % 4 == 0;
  for (int i = 0; i < batch.rank; i++) paired &= batch.stride[i] % 4 == 0;
  return paired;
}


template <class A, class B, class HOW>
static const char *launch_floats (cuda *self, products &p, const product_data &d) {
  p.across = (p.columns + FLOAT_COLUMNS - 1) / FLOAT_COLUMNS;
  p.down = (p.rows + FLOAT_ROWS - 1) / FLOAT_ROWS;
  const int64_t tiles = p.across * p.down * p.batches, line = min(tiles, (int64_t)1 << 30);
  const dim3 blocks((unsigned)line, (unsigned)((tiles + line - 1) / line));
  return launch(self, blocks, dim3(FLOAT_THREADS), product_bytes<A, B>(),
                multiply_float<A, B, HOW>, p, d,
                is_paired(d.a, p.a.row, p.a.column, p.batch[0]),
                is_paired(d.b, p.b.column, p.b.row, p.batch[1]));
}


template <class HOW>
static const char *multiply_how (cuda *self, products &p, const product_data &d) {
  typedef stage<FLOAT_ROWS, true> rows_along;
  typedef stage<FLOAT_ROWS, false> rows_across;
  typedef stage<FLOAT_COLUMNS, true> columns_along;
  typedef stage<FLOAT_COLUMNS, false> columns_across;
  const bool b_along = is_along(p.b.column, p.b.row);
  if (is_along(p.a.row, p.a.column))
    return b_along ? launch_floats<rows_along, columns_along, HOW>(self, p, d)
                   : launch_floats<rows_along, columns_across, HOW>(self, p, d);
  return b_along ? launch_floats<rows_across, columns_along, HOW>(self, p, d)
                 : launch_floats<rows_across, columns_across, HOW>(self, p, d);
}


typedef struct float_way {
  const char *name;
  bool (*fits) (const cuda *self);
  const char *(*run) (cuda *self, products &p, const product_data &d);
} float_way;

static const float_way float_ways[] = {
  {"one product of TF32", [] (const cuda *self) { return self->precision > 0; },
   multiply_how<multiply_tf32<false>>},
  {"three products of TF32", has_fast_tf32, multiply_how<multiply_tf32<true>>},
  {"multiplications and additions", [] (const cuda *) { return true; },
   multiply_how<multiply_add_floats>}
};


const char *multiply_floats (cuda *self, products &p, const product_data &d) {
  const float_way *way = float_ways;
  while (!way->fits(self)) way++;
  self->device.way = way->name;
  return way->run(self, p, d);
}

/* }================================================================== */
