/*
** tile.h - products of tiles: what matrix products and attention are made of.
**
** A block of TILE_THREADS threads, 16 by 16, makes a tile of SIDE by SIDE results; a thread makes
** FEW by FEW of them. Factors are in shared memory with the axis that is summed over first,
** (depth, SIDE), so that a step reads two short vectors, neither of them transposed.
*/

#ifndef cuda_tile_h
#define cuda_tile_h

#include "cuda/kernel.h"

#define TILE_THREADS 256
#define FEW(T) (16 / (int)sizeof(T))           /* results of a thread along an axis */
#define SIDE(T) (16 * FEW(T))
#define LINE(T) (SIDE(T) + FEW(T))             /* of shared memory: for fewer conflicts */
#define TILE_SIZE(T) (SIDE(T) * LINE(T))

template <class T> struct alignas(16) few { T at[FEW(T)]; };

/* The elements of a tile that a thread holds: rows from FEW tile_y(), columns from FEW tile_x(). */
template <class T> struct part { T at[FEW(T)][FEW(T)]; };

#define UNROLL(T, i) _Pragma("unroll") for (int i = 0; i < FEW(T); i++)

INLINE int tile_x (void) { return (int)(threadIdx.x & 15); }
INLINE int tile_y (void) { return (int)(threadIdx.x >> 4); }


/* Elements of one type, and of a type that is known only when the kernel runs. */
template <class S, class T> struct typed_elements {
  S *data;
  __device__ __forceinline__ T get (int64_t at) const { return (T)wide(data[at]); }
  __device__ __forceinline__ void set (int64_t at, T x) const { data[at] = convert<S>(x); }
};

template <class T> struct mixed_elements {
  void *data;
  heed_type type;
  __device__ __forceinline__ T get (int64_t at) const { return fetch<T>(data, type, at); }
  __device__ __forceinline__ void set (int64_t at, T x) const { put(data, type, at, x); }
};


INLINE float multiply_add (float x, float y, float z) { return x * y + z; }
INLINE double multiply_add (double x, double y, double z) { return x * y + z; }
INLINE int64_t multiply_add (int64_t x, int64_t y, int64_t z) {        /* wraps */
  return (int64_t)((uint64_t)x * (uint64_t)y + (uint64_t)z);
}

INLINE bool not_finite (float x) { return !(fabsf(x) <= 0x1.fffffep127f); }
INLINE bool not_finite (double x) { return !(fabs(x) <= 0x1.fffffffffffffp1023); }
INLINE bool not_finite (int64_t) { return false; }

INLINE int at_most (int64_t n, int most) { return n < most ? (int)n : most; }


template <class T> INLINE void clear_part (part<T> &p) {
  UNROLL(T, i) UNROLL(T, j) p.at[i][j] = 0;
}


/*
** to[k][x] = factor times the element x steps along one axis and k along the other, for each k
** below 'depth'; 0 from x = 'across' on. Lanes go along the axis whose elements are closer.
** Was anything that this thread read not finite?
*/
template <class T, class From>
INLINE bool load_tile (T *to, const From &from, int64_t start, int64_t x_stride, int64_t k_stride,
                       int across, int depth, T factor) {
  bool bad = false;
  const int lane = (int)threadIdx.x;
  if (distance(x_stride) <= distance(k_stride)) {
#pragma unroll 2
    for (int e = lane; e < SIDE(T) * depth; e += TILE_THREADS) {
      int x = e % SIDE(T), k = e / SIDE(T);
      T y = x < across ? from.get(start + x * x_stride + k * k_stride) : (T)0;
      bad |= not_finite(y);
      to[k * LINE(T) + x] = y * factor;
    }
    return bad;
  }
#pragma unroll 1
  for (int e = lane; e < SIDE(T) * SIDE(T) / FEW(T); e += TILE_THREADS) {
    int k = e % SIDE(T), x = e / SIDE(T) * FEW(T);
    few<T> line;
    if (k >= depth) continue;
    UNROLL(T, i) {
      T y = x + i < across ? from.get(start + (x + i) * x_stride + k * k_stride) : (T)0;
      bad |= not_finite(y);
      line.at[i] = y * factor;
    }
    *(few<T> *)(to + k * LINE(T) + x) = line;
  }
  return bad;
}


/*
** {==================================================================
** Parts in shared memory, as they are, [y][x], and transposed, [x][y]
** ===================================================================
*/

/* Line i of this thread's part of a tile. */
template <class T> INLINE few<T> &own_line (T *of, int i) {
  return *(few<T> *)(of + (tile_y() * FEW(T) + i) * LINE(T) + tile_x() * FEW(T));
}

template <class T> INLINE void store_part (T *to, const part<T> &p) {
  UNROLL(T, i) {
    few<T> line;
    UNROLL(T, j) line.at[j] = p.at[i][j];
    own_line(to, i) = line;
  }
}

template <class T> INLINE void load_part (part<T> &p, T *from) {
  UNROLL(T, i) {
    const few<T> line = own_line(from, i);
    UNROLL(T, j) p.at[i][j] = line.at[j];
  }
}

template <class T> INLINE void store_part_transposed (T *to, const part<T> &p) {
  UNROLL(T, j) {
    few<T> line;
    UNROLL(T, i) line.at[i] = p.at[i][j];
    *(few<T> *)(to + (tile_x() * FEW(T) + j) * LINE(T) + tile_y() * FEW(T)) = line;
  }
}

/* }================================================================== */


/* sum += a^T b, of factors (depth, SIDE). */
template <class T> INLINE void multiply_tiles (part<T> &sum, const T *a, const T *b, int depth) {
  a += tile_y() * FEW(T);
  b += tile_x() * FEW(T);
#pragma unroll 4
  for (int k = 0; k < depth; k++) {
    const few<T> x = *(const few<T> *)(a + k * LINE(T)), y = *(const few<T> *)(b + k * LINE(T));
    UNROLL(T, i) UNROLL(T, j) sum.at[i][j] = multiply_add(x.at[i], y.at[j], sum.at[i][j]);
  }
}


/* The same, but weights of 0 in a take nothing of b, be it NaN or infinite. */
template <class T>
INLINE void multiply_nonzero (part<T> &sum, const T *a, const T *b, int depth) {
  a += tile_y() * FEW(T);
  b += tile_x() * FEW(T);
#pragma unroll 1
  for (int k = 0; k < depth; k++) {
    const few<T> x = *(const few<T> *)(a + k * LINE(T)), y = *(const few<T> *)(b + k * LINE(T));
    UNROLL(T, i) UNROLL(T, j)
      if (x.at[i] != 0) sum.at[i][j] = multiply_add(x.at[i], y.at[j], sum.at[i][j]);
  }
}


/* Over the 16 threads that share a tile's rows, in one order. */
template <class F, class T> INLINE T row_reduce (F f, T x) {
  for (int by = 8; by > 0; by >>= 1) x = f(x, __shfl_xor_sync(FULL, x, by));
  return x;
}

#endif
