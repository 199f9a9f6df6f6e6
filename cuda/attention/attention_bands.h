/*
** attention_bands.h - the gradients of biases by distance: sums of ds along diagonals, as all ways
** make them. A block has a band, tiles along a diagonal; bands overlap by half.
*/

#ifndef cuda_attention_bands_h
#define cuda_attention_bands_h

#include "cuda/attention/ways.h"

/* How a block has ds of a tile: EDGE rows of as many columns, LINE elements apart. */
template <class T_, int EDGE_, int LINE_, int THREADS_> struct band_tiles {
  typedef T_ T;
  static constexpr int EDGE = EDGE_, LINE = LINE_, THREADS = THREADS_;
};

/* A thread's part of two diagonals of the tiles: r - c = t, and r - c = t - EDGE. */
template <class T> struct diagonals { T below, above; };


template <class W> HOST_TOO int64_t edges_of (int64_t n) { return (n + W::EDGE - 1) / W::EDGE; }

/* A block's first tile: blockIdx.x is (B, H, bands), from the last keys and first queries on. */
template <class W> INLINE tile first_of_band (const attend &a) {
  int n;
  tile x = tile_of_block(a, a.H, blockIdx.x, &n);
  const int start = (n - ((int)edges_of<W>(a.S) - 1)) * W::EDGE;       /* i - j */
  x.i = max(start, 0);
  x.j = max(-start, 0);
  return x;
}


/* A tile's columns r - t, counted round it, are these two: so all threads have as much to add. */
template <class W, class T> INLINE void add_diagonals (diagonals<T> &sum, const T *ds) {
  const int parts = W::THREADS / W::EDGE, rows = W::EDGE / parts;
  const int t = (int)threadIdx.x % W::EDGE, first = (int)threadIdx.x / W::EDGE * rows;
#pragma unroll 4
  for (int r = first; r < first + rows; r++) {
    const T x = ds[r * W::LINE + ((r - t) & (W::EDGE - 1))];
    sum.below += r >= t ? x : (T)0;
    sum.above += r >= t ? (T)0 : x;
  }
}


/* The parts, added in their order, by way of 'buffer': element EDGE + r - c of a band's 2 EDGE. */
template <class W, class T>
INLINE void store_diagonals (const attend &a, const diagonals<T> &sum, T *buffer) {
  const int e = (int)threadIdx.x, parts = W::THREADS / W::EDGE;
  __syncthreads();
  buffer[e] = sum.above;
  buffer[W::THREADS + e] = sum.below;
  __syncthreads();
  if (e >= 2 * W::EDGE) return;
  const T *of = buffer + e / W::EDGE * W::THREADS + e % W::EDGE;
  T all = of[0];
  for (int n = 1; n < parts; n++) all += of[n * W::EDGE];
  ((T *)a.bands)[(int64_t)blockIdx.x * (2 * W::EDGE) + e] = all;
}


/* An element of drelative: of the second half of a band, and the first half of the next. */
template <class W> KERNEL add_bands (__grid_constant__ const attend a) {
  typedef typename W::T T;
  const int64_t size = a.T + a.S - 1, before = edges_of<W>(a.S) * W::EDGE - (a.S - 1);
  for (int64_t n = first_index(); n < a.B * a.H * size; n += index_step()) {
    const int64_t head = n / size, e = n % size, at = e + before, band = at / W::EDGE;
    const T *of = (const T *)a.bands + (head * a.tiles + band) * (2 * W::EDGE) + at % W::EDGE;
    const T below = band > 0 ? *(of - W::EDGE) : (T)0, above = band < a.tiles ? *of : (T)0;
    ((T *)a.drelative.data)[head_at(a.drelative, head / a.H, head % a.H)
                            + e * a.drelative.stride[2]] = below + above;
  }
}


/* 'sum_band' is the kernel of a band; it takes 'shared' bytes of shared memory. */
template <class W>
static const char *run_bands (cuda *self, attend a, void (*sum_band) (const attend),
                              size_t shared) {
  const int64_t n = a.B * a.H * max(a.T + a.S - 1, (int64_t)0);
  a.tiles = max(edges_of<W>(a.T) + edges_of<W>(a.S) - 1, (int64_t)0);
  a.bands = cuda_scratch(self, (size_t)(a.B * a.H * a.tiles * 2 * W::EDGE)
                               * sizeof(typename W::T));
  if (a.bands == NULL) return cuda_no_memory;
  const char *why = launch(self, dim3((unsigned)(a.B * a.H * a.tiles)), dim3(W::THREADS), shared,
                           sum_band, a);
  if (why != NULL) return why;
  return launch(self, cuda_blocks(self, n, W::THREADS), dim3(W::THREADS), 0, add_bands<W>, a);
}

#endif
