/*
** sort.h - keys in order, and sums of what stands before.
*/

#ifndef cuda_sort_h
#define cuda_sort_h

#include "cuda/cuda.h"

#pragma GCC visibility push(hidden)

/* Keys in rising order, and where each of them stood (from 0). */
typedef struct ordered { const uint64_t *keys; const uint32_t *at; } ordered;

/* Stable; only the low 'bits' of a key differ. 'keys' is worked on; fewer than ORDER_LIMIT. */
#define ORDER_LIMIT 0xffffffffll
const char *cuda_order (cuda *self, int64_t n, int bits, uint64_t *keys, ordered *y);

#pragma GCC visibility pop


/* Sum of x over the threads before this one of a block of whole warps; see block_reduce. */
template <class T> INLINE T block_before (T x, T *room, T *all) {
  int warps = (int)(blockDim.x >> 5), lane = lane_of();
  T sum = x, before = 0;
  for (int by = 1; by < 32; by <<= 1) {
    T left = __shfl_up_sync(FULL, sum, by);
    if (lane >= by) sum += left;
  }
  __syncthreads();                 /* 'room' may still be read from the time before */
  if (lane == 31) room[warp_of()] = sum;
  __syncthreads();
  *all = 0;
  for (int i = 0; i < warps; i++) {
    if (i < warp_of()) before += room[i];
    *all += room[i];
  }
  return before + sum - x;
}


/* Each row of n counts, by a block: a count becomes the sum of those before it. */
template <class T> KERNEL stand_before (int64_t rows, int64_t n, T *counts, T *totals) {
  __shared__ T room[MOST_WARPS];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    T sum = 0, all;
    for (int64_t from = 0; from < n; from += blockDim.x) {
      int64_t i = from + threadIdx.x;
      T before = block_before(i < n ? counts[row * n + i] : T(0), room, &all);
      if (i < n) counts[row * n + i] = sum + before;
      sum += all;
    }
    if (threadIdx.x == 0) totals[row] = sum;
  }
}

#endif
