/*
** nonzero.cu - positions of what is not 0, in order: tiles count, counts become offsets, tiles
** write. The output is as long as the caller counted.
*/

#include "cuda/index/sort.h"

#define THREADS 256
#define ITEMS 8                    /* neighbours, of a thread */
#define TILE (THREADS * ITEMS)

typedef struct search {
  const void *x;
  heed_type type;
  int64_t n, tiles;
  path at;                         /* axes as they are: positions count along them */
  int64_t *y;                      /* (found, rank) */
  int64_t found, row, column;      /* rows of y, and its strides */
  uint64_t *counts;                /* of each tile; then of all tiles before it */
} search;

/* A bit for each of the thread's elements: is it not 0? */
INLINE unsigned found_at (const search &d, int64_t from) {
  unsigned found = 0;
  for (int i = 0; i < ITEMS && from + i < d.n; i++)
    found |= (unsigned)(fetch<double>(d.x, d.type, element_offset(d.at, from + i)) != 0) << i;
  return found;
}


KERNEL __launch_bounds__(THREADS) count_tiles (search d) {
  __shared__ int buffer[MOST_WARPS];
  for (int64_t tile = blockIdx.x; tile < d.tiles; tile += gridDim.x) {
    unsigned found = found_at(d, tile * TILE + threadIdx.x * ITEMS);
    int n = block_sum(__popc(found), buffer);
    if (threadIdx.x == 0) d.counts[tile] = (uint64_t)n;
  }
}


INLINE void put_position (const search &d, int64_t row, int64_t index) {
  int64_t *y = d.y + row * d.row;
  for (int k = d.at.rank - 1; k >= 0; k--) {
    int64_t rest = d.at.small ? divide((uint32_t)index, d.at.by[k]) : index / d.at.size[k];
    y[k * d.column] = index - rest * d.at.size[k] + 1;
    index = rest;
  }
}


KERNEL __launch_bounds__(THREADS) put_tiles (search d) {
  __shared__ int buffer[MOST_WARPS];
  for (int64_t tile = blockIdx.x; tile < d.tiles; tile += gridDim.x) {
    int64_t from = tile * TILE + threadIdx.x * ITEMS;
    unsigned found = found_at(d, from);
    int all;
    int64_t row = (int64_t)d.counts[tile] + block_before(__popc(found), buffer, &all);
    for (int i = 0; i < ITEMS; i++)
      if ((found >> i & 1) && row < d.found) put_position(d, row++, from + i);
  }
}


const char *cuda_nonzero (cuda *self, const work *w) {
  const view *x = &w->in[0], *y = &w->out[0];
  search d = {x->data, x->type, layout_numel(&x->at), 0, path_of(&x->at), (int64_t *)y->data,
              y->at.size[0], y->at.stride[0], y->at.stride[1], NULL};
  if (d.n == 0 || layout_numel(&y->at) == 0) return NULL;
  d.tiles = (d.n + TILE - 1) / TILE;
  d.counts = (uint64_t *)cuda_scratch(self, (size_t)(d.tiles + 1) * sizeof *d.counts);
  if (d.counts == NULL) return cuda_no_memory;
  dim3 blocks = cuda_blocks(self, d.tiles, 1);
  const char *why = launch(self, blocks, THREADS, 0, count_tiles, d);
  if (why == NULL)
    why = launch(self, 1, d.tiles > THREADS ? 1024 : THREADS, 0, sum_before<uint64_t>, 1,
                 d.tiles, d.counts, d.counts + d.tiles);
  return why != NULL ? why : launch(self, blocks, THREADS, 0, put_tiles, d);
}
