/*
** float.h - products of float32: stages in shared memory, and three ways to multiply them.
**
** A block of FLOAT_THREADS threads makes FLOAT_ROWS by FLOAT_COLUMNS results, FLOAT_DEPTH of the
** summed axis at a time, which is a stage. A stage lies in shared memory as its operand does in
** global memory, so that 16 bytes are copied at once while the stage before is multiplied: 'along'
** the summed axis, (x, k), or 'across' it, (k, x), where x is a row of a or a column of b.
**
** multiply_add_floats    fused multiplications and additions
** multiply_tf32<false>   tensor cores, of factors rounded to TF32's 11 bits
** multiply_tf32<true>    tensor cores, of factors x = high + low, both of TF32: of the four
**                        products the one of both low parts, below 2^-22 of a term, is left out
**
** Sums of two stages are added up apart from the whole: long sums stay accurate, and tensor cores,
** which round towards 0, do so on short ones alone.
*/

#ifndef cuda_float_h
#define cuda_float_h

#include "cuda/mma.h"

#define FLOAT_THREADS 256
#define FLOAT_ROWS 128
#define FLOAT_COLUMNS 64
#define FLOAT_DEPTH 16

/* Results of a thread; which ones, a way of multiplying says. */
struct sums { float at[8][4]; };


/*
** {==================================================================
** Stages
** ===================================================================
*/

/* X rows of a, or columns of b. No bank is read twice at once, whichever way reads it. */
template <int X_, bool ALONG_> struct stage {
  static constexpr int X = X_;
  static constexpr bool ALONG = ALONG_;
  static constexpr int LINES = ALONG ? X : FLOAT_DEPTH, LENGTH = ALONG ? FLOAT_DEPTH : X;
  static constexpr int LINE = LENGTH + (ALONG ? 4 : 8);
  static constexpr int SIZE = LINES * LINE;
  static __device__ __forceinline__ int at (int x, int k) {
    return ALONG ? x * LINE + k : k * LINE + x;
  }
};

/* Where stages come from: an operand's first element for this tile, and its strides. */
struct operand {
  const float *from;
  int64_t x_stride, k_stride;
  int across;                      /* x that there are */
  bool paired;                     /* 16 bytes can be copied at once */
};


/* PIECE floats at once; what lies beyond 'lines' and 'length' becomes 0, and nothing is read. */
template <int PIECE, class L>
INLINE void copy_pieces (uint32_t to, const float *from, int64_t line_stride, int64_t stride,
                         int lines, int length) {
  constexpr int PIECES = L::LENGTH / PIECE;
#pragma unroll 1
  for (int i = 0; i < L::LINES * PIECES / FLOAT_THREADS; i++) {
    const int e = (int)threadIdx.x + i * FLOAT_THREADS, line = e / PIECES;
    const int at = e % PIECES * PIECE;
    const int n = line < lines ? min(max(length - at, 0), PIECE) : 0;
    ptx_copy<4 * PIECE>(to + (uint32_t)(4 * (line * L::LINE + at)),
                        from + line * line_stride + at * stride, 4 * n);
  }
}


/* Begins to copy a stage whose first k is 'k'; 'depth' of them are left. */
template <class L>
INLINE void copy_stage (uint32_t to, const operand &o, int64_t k, int depth) {
  const float *from = o.from + k * o.k_stride;
  const int64_t line = L::ALONG ? o.x_stride : o.k_stride;
  const int64_t stride = L::ALONG ? o.k_stride : o.x_stride;
  const int lines = L::ALONG ? o.across : depth, length = L::ALONG ? depth : o.across;
  if (o.paired) copy_pieces<4, L>(to, from, line, 1, lines, length);
  else copy_pieces<1, L>(to, from, line, stride, lines, length);
}

/* }================================================================== */


/*
** {==================================================================
** By fused multiplications and additions: a thread has 8 rows and 4 columns, of 16 by 16 threads
** ===================================================================
*/

/* x number i of thread t: of 'across' stages fours are neighbours. */
template <class L> INLINE int own_x (int t, int i) {
  return L::ALONG ? t + 16 * i : i / 4 * 64 + 4 * t + i % 4;
}

/* to[j][i]: of k number k + j, a thread's x number first + i. */
template <class L>
INLINE void load_fours (float (&to)[4][4], const float *from, int t, int first, int k) {
  EACH(n, 4) {
    const float4 v = *(const float4 *)(from + (L::ALONG ? L::at(own_x<L>(t, first + n), k)
                                                        : L::at(own_x<L>(t, first), k + n)));
    const float four[4] = {v.x, v.y, v.z, v.w};
    EACH(m, 4) to[L::ALONG ? m : n][L::ALONG ? n : m] = four[m];
  }
}

struct multiply_add_floats {
  static constexpr bool TENSOR = false;

  template <class L> static __device__ __forceinline__ int row (int i, int) {
    return own_x<L>((int)threadIdx.x / 16, i);
  }
  template <class L> static __device__ __forceinline__ int column (int, int e) {
    return own_x<L>((int)threadIdx.x % 16, e);
  }

  template <class A, class B>
  static __device__ __forceinline__ void add (sums &s, const float *a, const float *b) {
#pragma unroll 1
    for (int k = 0; k < FLOAT_DEPTH; k += 4) {
      float x[4][4], y[4][4];
      load_fours<B>(y, b, (int)threadIdx.x % 16, 0, k);
      EACH(h, 2) {
        load_fours<A>(x, a, (int)threadIdx.x / 16, 4 * h, k);
        EACH(j, 4) EACH(i, 4) EACH(e, 4)
          s.at[4 * h + i][e] = fmaf(x[j][i], y[j][e], s.at[4 * h + i][e]);
      }
    }
  }
};

/* }================================================================== */


/*
** {==================================================================
** By tensor cores: a warp has 32 rows and 32 columns, of 4 by 2 warps; see mma.h
** ===================================================================
*/

/* THREE: see above; otherwise one product, of the high parts. */
template <bool THREE> struct multiply_tf32 {
  static constexpr bool TENSOR = true;

  template <class L> static __device__ __forceinline__ int row (int i, int e) {
    return (int)threadIdx.x / 64 * 32 + i / 4 * 16 + e / 2 * 8 + lane_of() / 4;
  }
  template <class L> static __device__ __forceinline__ int column (int i, int e) {
    return (int)threadIdx.x / 32 % 2 * 32 + i % 4 * 8 + lane_of() % 4 * 2 + e % 2;
  }

  template <class A, class B>
  static __device__ __forceinline__ void add (sums &s, const float *a, const float *b) {
    const int line = lane_of() / 4, step = lane_of() % 4;
    a += A::at((int)threadIdx.x / 64 * 32 + line, step);
    b += B::at((int)threadIdx.x / 32 % 2 * 32 + line, step);
#pragma unroll 1
    for (int k = 0; k < FLOAT_DEPTH / 8; k++) {
      factors<4> x[2];
      factors<2> y[4];
      EACH(i, 2) EACH(r, 4)
        set_factor(x[i], r, a[A::at(16 * i + r % 2 * 8, 8 * k + r / 2 * 4)]);
      EACH(j, 4) EACH(r, 2) set_factor(y[j], r, b[B::at(8 * j, 8 * k + 4 * r)]);
      if (THREE) {
        EACH(i, 8) ptx_multiply_tf32(s.at[i], x[i / 4].low, y[i % 4].high[0], y[i % 4].high[1]);
        EACH(i, 8) ptx_multiply_tf32(s.at[i], x[i / 4].high, y[i % 4].low[0], y[i % 4].low[1]);
      }
      EACH(i, 8) ptx_multiply_tf32(s.at[i], x[i / 4].high, y[i % 4].high[0], y[i % 4].high[1]);
    }
  }
};

/* }================================================================== */

#endif
