/*
** blocks.cu - types of blocks: their values, and products with rows of them.
**
** Few rows are multiplied with blocks as they are read. For more, and for gradients, some rows of
** blocks become values in scratch memory, which matmul.cu multiplies. A result of few rows has the
** same bits whatever rows stand beside it. Rows are never rounded to 8 bits: BLOCKS_ROUNDED is
** BLOCKS_PRODUCT, by such products of floats as matmul_precision allows.
*/

#include "cuda/blocks/decode.h"
#include "cuda/cuda.h"

#define WARPS 8
#define THREADS (32 * WARPS)
#define CHUNK 32                   /* groups that a warp makes values of at once: one for a lane */
#define LINE (GROUP + 1)           /* of values in shared memory: lanes write to other banks */
#define FEW_ROWS 8
#define COLUMNS 2                  /* rows of blocks that a warp multiplies at once */
#define MOST_VALUES ((int64_t)1 << 17)         /* in scratch memory, for each multiprocessor */
#define MOST_PARTS 16              /* products, each of which may take scratch memory, too */

/* Its place in blocks.def. */
static int row_of_type (heed_type type) { return type - HEED_NTYPES - 1; }


/*
** {==================================================================
** Values
** ===================================================================
*/

typedef struct unpacking {
  const uint8_t *from;
  void *to;
  heed_type type;                  /* of 'to' */
  path from_at, to_at;             /* rows: bytes of 'from', elements of 'to' */
  int64_t stride, groups, all;     /* elements in a row of 'to'; groups of a row, and of all rows */
} unpacking;


/* A lane decodes a group; what the warp has decoded it writes in the order of the elements. */
template <class B> KERNEL __launch_bounds__(THREADS)
unpack (__grid_constant__ const unpacking u) {
  __shared__ float values[WARPS][CHUNK * LINE];
  __shared__ int64_t targets[WARPS][CHUNK];
  float *own = values[warp_of()];
  int64_t *target = targets[warp_of()];
  for (int64_t first = (blockIdx.x * (int64_t)WARPS + warp_of()) * CHUNK; first < u.all;
       first += (int64_t)gridDim.x * WARPS * CHUNK) {
    const int64_t n = first + lane_of();
    if (n < u.all) {
      const int64_t row = n / u.groups, group = n % u.groups;
      float y[GROUP];
      group_values<B>(y, u.from + element_offset(u.from_at, row), group);
#pragma unroll
      for (int i = 0; i < GROUP; i++) own[lane_of() * LINE + i] = y[i];
      target[lane_of()] = element_offset(u.to_at, row) + group * GROUP * u.stride;
    }
    __syncwarp();
    const int there = (int)min(u.all - first, (int64_t)CHUNK) * GROUP;
#pragma unroll 4
    for (int i = lane_of(); i < there; i += 32)
      put(u.to, u.type, target[i / GROUP] + i % GROUP * u.stride,
          own[i / GROUP * LINE + i % GROUP]);
    __syncwarp();
  }
}


template <class B> static const char *unpack_as (cuda *self, const unpacking &u) {
  return launch(self, cuda_blocks(self, (u.all + CHUNK - 1) / CHUNK, WARPS), dim3(THREADS), 0,
                unpack<B>, u);
}


static const char *unpack_view (cuda *self, const view *to, const view *from) {
  const int row = layout_block_axis(&from->at, scalar_blocks[from->type].elements);
  const layout bytes = view_bytes_layout(from->type, &from->at);
  const layout from_rows = layout_remove(&bytes, row), to_rows = layout_remove(&to->at, row);
  const layout *both[] = {&from_rows, &to_rows};
  path p[2];
  unpacking u;
  paths_of(2, both, p);
  u.from = (const uint8_t *)from->data;
  u.to = to->data;
  u.type = to->type;
  u.from_at = p[0];
  u.to_at = p[1];
  u.stride = to->at.stride[row];
  u.groups = from->at.size[row] / GROUP;
  u.all = layout_numel(&from->at) / GROUP;
  static const char *(*const by_type[]) (cuda *, const unpacking &) = {
#define BLOCK(NAME, name, ...) unpack_as<name>,
#include "base/blocks.def"
  };
  return by_type[row_of_type(from->type)](self, u);
}

/* }================================================================== */


/*
** {==================================================================
** Products of few rows
** ===================================================================
*/

/* y (m, n) = x (m, k) w (n, k)^T [+ bias] */
typedef struct few_rows {
  const uint8_t *w;
  const float *x, *bias;           /* bias: or NULL */
  float *y;
  int64_t m, n, groups;            /* of a row of w */
  int64_t x_row, y_row, w_row;     /* between rows, of w in bytes */
  bool paired;                     /* 16 bytes of x can be read at once */
} few_rows;


INLINE void load_group (float (&to)[GROUP], const float *from, bool paired) {
  if (paired) {
#pragma unroll
    for (int i = 0; i < GROUP; i += 4) {
      const float4 four = *(const float4 *)(from + i);
      to[i] = four.x;
      to[i + 1] = four.y;
      to[i + 2] = four.z;
      to[i + 3] = four.w;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < GROUP; i++) to[i] = from[i];
}


/* Of rows of x and of w that are not there the last ones stand in. */
template <class B, int ROWS>
INLINE void sum_groups (float (&sum)[COLUMNS][ROWS], const few_rows &p, int64_t m, int64_t n) {
  for (int64_t g = lane_of(); g < p.groups; g += 32) {
    float x[ROWS][GROUP];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
      load_group(x[r], p.x + min(m + r, p.m - 1) * p.x_row + g * GROUP, p.paired);
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
      float w[GROUP];
      group_values<B>(w, p.w + min(n + c, p.n - 1) * p.w_row, g);
#pragma unroll
      for (int i = 0; i < GROUP; i++)
#pragma unroll
        for (int r = 0; r < ROWS; r++) sum[c][r] = fmaf(w[i], x[r][i], sum[c][r]);
    }
  }
}


/* A warp has COLUMNS columns of y and ROWS of its rows. */
template <class B, int ROWS> KERNEL __launch_bounds__(THREADS)
multiply_few (__grid_constant__ const few_rows p) {
  const int64_t n = (blockIdx.x * (int64_t)WARPS + warp_of()) * COLUMNS;
  const int64_t m = (int64_t)blockIdx.y * ROWS;
  float sum[COLUMNS][ROWS] = {};
  if (n >= p.n) return;
  sum_groups<B, ROWS>(sum, p, m, n);
#pragma unroll
  for (int c = 0; c < COLUMNS; c++)
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const float y = warp_reduce(plus(), sum[c][r]);
      if (lane_of() == 0 && n + c < p.n && m + r < p.m)
        p.y[(m + r) * p.y_row + n + c] = y + (p.bias != NULL ? p.bias[n + c] : 0);
    }
}


template <class B, int ROWS> static const char *launch_few (cuda *self, const few_rows &p) {
  const int64_t each = WARPS * COLUMNS, across = (p.n + each - 1) / each;
  const dim3 blocks((unsigned)across, (unsigned)((p.m + ROWS - 1) / ROWS));
  return launch(self, blocks, dim3(THREADS), 0, multiply_few<B, ROWS>, p);
}

template <class B> static const char *few_as (cuda *self, const few_rows &p) {
  return p.m == 1 ? launch_few<B, 1>(self, p) : launch_few<B, 4>(self, p);
}


static const char *multiply_rows (cuda *self, const work *w) {
  const view *y = &w->out[0], *x = &w->in[BLOCKS_X], *weight = &w->in[BLOCKS_WEIGHT];
  few_rows p;
  p.w = (const uint8_t *)weight->data;
  p.x = (const float *)x->data;
  p.bias = view_is_none(&w->in[BLOCKS_BIAS]) ? NULL : (const float *)w->in[BLOCKS_BIAS].data;
  p.y = (float *)y->data;
  p.m = y->at.size[0];
  p.n = weight->at.size[0];
  p.groups = weight->at.size[1] / GROUP;
  p.x_row = x->at.stride[0];
  p.y_row = y->at.stride[0];
  p.w_row = scalar_bytes(weight->type, weight->at.stride[0]);
  p.paired = (uintptr_t)x->data % 16 == 0 && (p.m == 1 || p.x_row % 4 == 0);
  self->device.way = "few rows beside blocks";
  static const char *(*const by_type[]) (cuda *, const few_rows &) = {
#define BLOCK(NAME, name, ...) few_as<name>,
#include "base/blocks.def"
  };
  return by_type[row_of_type(weight->type)](self, p);
}

/* }================================================================== */


/*
** {==================================================================
** Products with values in scratch memory
** ===================================================================
*/

static view narrowed (const view *v, int axis, int64_t from, int64_t n) {
  view part = *v;
  part.at.size[axis] = n;
  part.data = (char *)v->data + scalar_bytes(v->type, from * v->at.stride[axis]);
  return part;
}


/* Of n rows of w from 'first' on, whose values are in 'values': columns of y, or their share. */
static const char *multiply_part (cuda *self, const work *w, const view *values, int64_t first) {
  const int64_t n = values->at.size[0];
  const bool back = w->op == BLOCKS_BACK;
  const view *x = &w->in[BLOCKS_X], *y = &w->out[0], *bias = &w->in[BLOCKS_BIAS];
  view other = *values;
  work part;
  if (back) {
    work_matmul(&part, 1, first > 0, *y, narrowed(x, 1, first, n), other, view_none());
    return cuda_matmul(self, &part);
  }
  other.at = layout_transpose(&values->at, 0, 1);
  work_matmul(&part, 1, false, narrowed(y, 1, first, n), *x, other,
              view_is_none(bias) ? view_none() : narrowed(bias, 0, first, n));
  return cuda_matmul(self, &part);
}


static const char *multiply_values (cuda *self, const work *w) {
  const view *weight = &w->in[BLOCKS_WEIGHT];
  const int64_t n = weight->at.size[0], k = weight->at.size[1];
  const int64_t values_fit = self->gpu.multiprocessors * MOST_VALUES / k;
  const int64_t most = min(n, max(values_fit, (n + MOST_PARTS - 1) / MOST_PARTS));
  view values;
  const char *why = NULL;
  values.type = HEED_FLOAT32;
  values.data = cuda_scratch(self, (size_t)(most * k) * sizeof(float));
  if (values.data == NULL) return cuda_no_memory;
  for (int64_t first = 0; first < n && why == NULL; first += most) {
    const view rows = narrowed(weight, 0, first, min(most, n - first));
    layout_dense(&values.at, 2, rows.at.size);
    why = unpack_view(self, &values, &rows);
    if (why == NULL) why = multiply_part(self, w, &values, first);
  }
  return why;
}

/* }================================================================== */


const char *cuda_blocks (cuda *self, const work *w) {
  if (layout_numel(&w->out[0].at) == 0) return NULL;
  switch ((blocks_op)w->op) {
    case BLOCKS_UNPACK: return unpack_view(self, &w->out[0], &w->in[0]);
    case BLOCKS_PRODUCT: case BLOCKS_ROUNDED:
      return w->out[0].at.size[0] <= FEW_ROWS ? multiply_rows(self, w) : multiply_values(self, w);
    case BLOCKS_BACK: return multiply_values(self, w);
    case BLOCKS_PACK: break;
  }
  return cuda_refuse(self, "blocks are made by the host");
}
