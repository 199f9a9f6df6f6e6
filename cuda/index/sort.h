/*
** sort.h - keys in order, and exclusive sums.
*/

#ifndef cuda_sort_h
#define cuda_sort_h

#include "cuda/cuda.h"

#pragma GCC visibility push(hidden)

/* Keys in rising order, and the index that each of them had, from 0. */
typedef struct ordered { const uint64_t *keys; const uint32_t *at; } ordered;

/* Stable; keys differ in their low 'bits' only. Overwrites 'keys'; n is below ORDER_LIMIT. */
#define ORDER_LIMIT 0xffffffffll
const char *cuda_order (cuda *self, int64_t n, int bits, uint64_t *keys, ordered *y);

#pragma GCC visibility pop


/* Sum of x over the threads before this one of a block of full warps; see block_reduce. */
template <class T> INLINE T block_before (T x, T *buffer, T *all) {
  int warps = (int)(blockDim.x >> 5), lane = lane_of();
  T sum = x, before = 0;
  for (int by = 1; by < 32; by <<= 1) {
    T left = __shfl_up_sync(FULL, sum, by);
    if (lane >= by) sum += left;
  }
  __syncthreads();                 /* the call before may still read 'buffer' */
  if (lane == 31) buffer[warp_of()] = sum;
  __syncthreads();
  *all = 0;
  for (int i = 0; i < warps; i++) {
    if (i < warp_of()) before += buffer[i];
    *all += buffer[i];
  }
  return before + sum - x;
}


/* Each row of n counts, by a block: a count becomes the sum of those before it. */
template <class T> KERNEL sum_before (int64_t rows, int64_t n, T *counts, T *totals) {
  __shared__ T buffer[MOST_WARPS];
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    T sum = 0, all;
    for (int64_t from = 0; from < n; from += blockDim.x) {
      int64_t i = from + threadIdx.x;
      T before = block_before(i < n ? counts[row * n + i] : T(0), buffer, &all);
      if (i < n) counts[row * n + i] = sum + before;
      sum += all;
    }
    if (threadIdx.x == 0) totals[row] = sum;
  }
}

#endif
