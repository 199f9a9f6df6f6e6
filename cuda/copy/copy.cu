/*
** copy.cu - elements from one layout to another, as they are or converted.
**
** Elements of one type are moved by their size: along rows, or in squares that are transposed in
** shared memory where the two layouts run along different axes.
*/

#include "cuda/cuda.h"

#define THREADS 256
#define SIDE 32                    /* of a square */
#define ROWS 8                     /* of a square that are moved at once */


/*
** {==================================================================
** Kernels
** ===================================================================
*/

template <class U>
KERNEL move_rows (U *to, path to_at, const U *from, path from_at, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step())
    to[element_offset(to_at, i)] = from[element_offset(from_at, i)];
}


/* A transposition by squares: rows i and columns j of 'planes' planes. */
typedef struct transposition {
  int64_t rows, columns, planes;
  path to_plane, from_plane;
  int64_t to_i, to_j, from_i, from_j;            /* strides: those of 'from' are least along i */
} transposition;

template <class U> KERNEL move_squares (U *to, const U *from, transposition t) {
  __shared__ U square[SIDE][SIDE + 1];           /* (j, i); one more: no bank conflicts */
  int64_t across = (t.columns + SIDE - 1) / SIDE, down = (t.rows + SIDE - 1) / SIDE;
  for (int64_t b = blockIdx.x; b < across * down * t.planes; b += gridDim.x) {
    int64_t plane = b / (across * down), at = b % (across * down);
    int64_t i0 = at / across * SIDE, j0 = at % across * SIDE;
    U *y = to + element_offset(t.to_plane, plane);
    const U *x = from + element_offset(t.from_plane, plane);
    for (int r = (int)threadIdx.y; r < SIDE; r += ROWS) {
      int64_t i = i0 + threadIdx.x, j = j0 + r;
      if (i < t.rows && j < t.columns) square[r][threadIdx.x] = x[i * t.from_i + j * t.from_j];
    }
    __syncthreads();
    for (int r = (int)threadIdx.y; r < SIDE; r += ROWS) {
      int64_t i = i0 + r, j = j0 + threadIdx.x;
      if (i < t.rows && j < t.columns) y[i * t.to_i + j * t.to_j] = square[threadIdx.x][r];
    }
    __syncthreads();
  }
}


/* Through T, which holds what both types can. */
template <class T>
KERNEL convert_rows (void *to, heed_type to_type, path to_at, const void *from,
                     heed_type from_type, path from_at, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step())
    put<T>(to, to_type, element_offset(to_at, i),
           fetch<T>(from, from_type, element_offset(from_at, i)));
}


template <class U> KERNEL fill_rows (U *to, path to_at, U value, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) to[element_offset(to_at, i)] = value;
}

/* }================================================================== */


/*
** {==================================================================
** The order of axes, which is free: a copy has no order of elements
** ===================================================================
*/

typedef struct copying {
  cuda *self;
  char *to;
  const char *from;
  layout to_at, from_at;
  int64_t n;
} copying;


static void fuse (copying *c) {
  layout *both[] = {&c->to_at, &c->from_at};
  layout_fuse(both, 2);
}


static void swap (copying *c, int a, int b) {
  c->to_at = layout_transpose(&c->to_at, a, b);
  c->from_at = layout_transpose(&c->from_at, a, b);
}


/* By decreasing strides of 'to', fused. */
static void order_axes (copying *c) {
  fuse(c);
  for (int i = 1; i < c->to_at.rank; i++)
    for (int j = i; j > 0; j--)
      if (distance(c->to_at.stride[j]) > distance(c->to_at.stride[j - 1])) swap(c, j, j - 1);
  fuse(c);
}


/* The axis with the least stride that is not 0. */
static int least_axis (const layout *at) {
  int least = at->rank - 1;
  for (int i = 0; i < at->rank - 1; i++)
    if (at->stride[i] != 0 && distance(at->stride[i]) < distance(at->stride[least])) least = i;
  return least;
}

/* }================================================================== */


/* Both layouts without their last two axes. */
static transposition transposition_of (const copying *c) {
  transposition t;
  layout to = c->to_at, from = c->from_at;
  int i = to.rank - 2, j = to.rank - 1;
  t.rows = to.size[i];
  t.columns = to.size[j];
  t.to_i = to.stride[i];
  t.to_j = to.stride[j];
  t.from_i = from.stride[i];
  t.from_j = from.stride[j];
  to.rank = from.rank = i;
  t.planes = layout_numel(&to);
  t.to_plane = path_of(&to);
  t.from_plane = path_of(&from);
  return t;
}


template <class U> static const char *move_as (copying *c) {
  int last = c->to_at.rank - 1, least = last >= 0 ? least_axis(&c->from_at) : last;
  U *to = (U *)c->to;
  const U *from = (const U *)c->from;
  bool transposed = least != last && c->to_at.size[least] >= SIDE / 2 &&
                    c->to_at.size[last] >= SIDE / 2;
  int threads = cuda_threads(c->n, THREADS);
  if (!transposed)
    return launch(c->self, cuda_blocks(c->self, c->n, threads), threads, 0, move_rows<U>, to,
                  path_of(&c->to_at), from, path_of(&c->from_at), c->n);
  for (int i = least; i < last - 1; i++) swap(c, i, i + 1);
  transposition t = transposition_of(c);
  int64_t squares = (t.rows + SIDE - 1) / SIDE * ((t.columns + SIDE - 1) / SIDE) * t.planes;
  return launch(c->self, cuda_blocks(c->self, squares, 1), dim3(SIDE, ROWS), 0, move_squares<U>,
                to, from, t);
}


static const char *move (cuda *self, const view *to, const view *from) {
  copying c = {self, (char *)to->data, (const char *)from->data, to->at, from->at,
               layout_numel(&to->at)};
  size_t size = scalar_sizes[to->type];
  if (layout_is_dense(&to->at) && layout_is_dense(&from->at))
    return cuda_check(self, runtime_copy(c.to, c.from, (size_t)c.n * size, self->stream));
  order_axes(&c);
  switch (size) {
    case 1: return move_as<uint8_t>(&c);
    case 2: return move_as<uint16_t>(&c);
    case 4: return move_as<uint32_t>(&c);
    default: return move_as<uint64_t>(&c);
  }
}


template <class U> static const char *fill_as (cuda *self, const view *to, const void *value) {
  int64_t n = layout_numel(&to->at);
  const layout *at = &to->at;
  path p;
  U x;
  memcpy(&x, value, sizeof x);
  paths_of(1, &at, &p);
  int threads = cuda_threads(n, THREADS);
  return launch(self, cuda_blocks(self, n, threads), threads, 0, fill_rows<U>, (U *)to->data, p,
                x, n);
}


static const char *fill (cuda *self, const view *to, scalar value) {
  char item[8];
  scalar_store(to->type, item, value);
  switch (scalar_sizes[to->type]) {
    case 1: return fill_as<uint8_t>(self, to, item);
    case 2: return fill_as<uint16_t>(self, to, item);
    case 4: return fill_as<uint32_t>(self, to, item);
    default: return fill_as<uint64_t>(self, to, item);
  }
}


/* The type through which elements are converted. */
static heed_type joining_type (heed_type to, heed_type from) {
  if (!scalar_is_float(to) && !scalar_is_float(from)) return HEED_INT64;
  return from == HEED_FLOAT64 || to == HEED_FLOAT64 ? HEED_FLOAT64 : HEED_FLOAT32;
}


static const char *convert_view (cuda *self, const view *to, const view *from) {
  const layout *both[] = {&to->at, &from->at};
  path p[2];
  int64_t n = layout_numel(&to->at);
  int threads = cuda_threads(n, THREADS);
  paths_of(2, both, p);
  FOR_COMPUTED(joining_type(to->type, from->type),
               return launch(self, cuda_blocks(self, n, threads), threads, 0, convert_rows<S>,
                             to->data, to->type, p[0], from->data, from->type, p[1], n))
  return NULL;
}


/* Output and input may overlap: through a dense copy of the input. */
static const char *copy_overlapping (cuda *self, const work *w) {
  view dense = w->in[0];
  layout_dense(&dense.at, w->in[0].at.rank, w->in[0].at.size);
  dense.data = cuda_scratch(self, (size_t)layout_numel(&dense.at) * scalar_sizes[dense.type]);
  if (dense.data == NULL) return cuda_no_memory;
  const char *why = move(self, &dense, &w->in[0]);
  if (why != NULL) return why;
  return w->out[0].type == dense.type ? move(self, &w->out[0], &dense)
                                      : convert_view(self, &w->out[0], &dense);
}


const char *cuda_copy (cuda *self, const work *w) {
  const view *to = &w->out[0], *from = &w->in[0];
  if (layout_numel(&to->at) == 0) return NULL;
  if (from->data == NULL) return fill(self, to, from->value);
  switch ((copy_op)w->op) {
    case COPY_APART:
      return to->type == from->type ? move(self, to, from) : convert_view(self, to, from);
    case COPY_OVERLAPPING: return copy_overlapping(self, w);
  }
  return cuda_refuse(self, "unknown copy %d", w->op);
}
