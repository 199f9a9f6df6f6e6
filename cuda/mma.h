/*
** mma.h - instructions of tensor cores, and copies that run beside them: one function each, and the
** same in plain C++ for the emulated GPU.
**
** A matrix of 8 by 8 halves is spread over a warp: lane l has elements 2 (l % 4) and the next of
** row l / 4 in one register, the first in the lower half. A product c += a b^T has
**   a (16, 16)   in four such: rows 0 and columns 0, rows 8, columns 8, rows 8 and columns 8
**   b (8, 16)    in two: columns 0, columns 8
**   c (16, 8)    in floats: c[0] and c[1] lie as a matrix's elements do, c[2] and c[3] 8 rows below
** so c, rounded, is half of an a for the next product.
*/

#ifndef cuda_mma_h
#define cuda_mma_h

#include "cuda/kernel.h"

#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)

/* The same number, of which the compiler knows nothing: it computes again what comes of it, rather
   than to keep that in registers. */
PTX int64_t ptx_anew (int64_t x) {
#ifdef __CUDACC__
  asm volatile("" : "+l"(x));
#endif
  return x;
}


#ifdef __CUDACC__

/* Of dynamic shared memory. */
PTX uint32_t ptx_shared (const void *at) { return (uint32_t)__cvta_generic_to_shared(at); }


/* Four floats at a multiple of 16 bytes. */
PTX float4 ptx_load_floats (uint32_t at) {
  float4 x;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "r"(at));
  return x;
}


/* Four matrices: lane 8 m + r says where row r of matrix m is, 16 bytes, aligned. */
PTX void ptx_load_matrices (uint32_t (&m)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(at));
}

/* The same four matrices, each of them transposed. */
PTX void ptx_load_transposed (uint32_t (&m)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(at));
}


#define MULTIPLY(S, type) \
  PTX void ptx_multiply (float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, S) { \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 " \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)); \
  }
MULTIPLY(bfloat16, "bf16")
MULTIPLY(float16, "f16")
#undef MULTIPLY


/*
** The same of floats, of which TF32 has the first 19 bits, the others are not read: a (16, 8) in
** four registers, each an element of row l / 4 and column l % 4, and the places as above, of 4
** columns; b (8, 8) so in two.
*/
PTX void ptx_multiply_tf32 (float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The nearest of TF32, the other 13 bits 0; a NaN stays one. */
PTX uint32_t ptx_to_tf32 (float x) {
  uint32_t y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y & 0xffffe000;
}


/* Two floats as halves, 'low' in the lower half; of a NaN only its being one is kept. */
#define PACK(S, type) \
  PTX uint32_t ptx_pack (float low, float high, S) { \
    uint32_t y; \
    asm("cvt.rn." type ".f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low)); \
    return y; \
  }
PACK(bfloat16, "bf16x2")
PACK(float16, "f16x2")
#undef PACK


/* 2^x, to some 2^-22; what is below 2^-126 becomes 0. */
PTX float ptx_exp2 (float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}


/*
** SIZE bytes, 16 or 4, into shared memory, of which the first 'bytes' come from device memory, and
** the rest are 0; both sides are aligned to SIZE. Nothing may touch 'to' until the thread has
** waited; other threads see the bytes after a barrier behind that.
*/
template <int SIZE = 16> PTX void ptx_copy (uint32_t to, const void *from, int bytes) {
  static_assert(SIZE == 16 || SIZE == 4, "copies are of 16 bytes or of 4");
  if (SIZE == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 : : "r"(to), "l"(__cvta_generic_to_global(from)), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 : : "r"(to), "l"(__cvta_generic_to_global(from)), "r"(bytes) : "memory");
}

/* The thread's copies since the last call become a group. */
PTX void ptx_commit (void) { asm volatile("cp.async.commit_group;" : : : "memory"); }

/* Waits until at most 'left' of the thread's groups are on their way: the latest ones. */
template <int left> PTX void ptx_wait (void) {
  asm volatile("cp.async.wait_group %0;" : : "n"(left) : "memory");
}

#else

PTX uint32_t ptx_shared (const void *at) {
  return (uint32_t)((const char *)at - emulated_shared);
}


PTX float4 ptx_load_floats (uint32_t at) {
  if (at % 16 != 0) emulated_fail("loads floats from where they are not aligned");
  return *(const float4 *)(emulated_shared + at);
}


/* Element 'column' of a row is in its lane's register m, in the half that column's parity says. */
PTX void emulated_matrices (uint32_t (&m)[4], uint32_t at, bool transposed) {
  if (at % 16 != 0) emulated_fail("loads a matrix from where rows are not aligned");
  const uint32_t *rows = (const uint32_t *)emulated_table(FULL, &at, sizeof at);
  const int line = emulated_lane() / 4, first = emulated_lane() % 4 * 2;
  for (int i = 0; i < 4; i++) {
    uint16_t half[2];
    for (int k = 0; k < 2; k++) {
      const int row = transposed ? first + k : line, column = transposed ? line : first + k;
      memcpy(&half[k], emulated_shared + rows[8 * i + row] + 2 * column, 2);
    }
    m[i] = half[0] | (uint32_t)half[1] << 16;
  }
}

PTX void ptx_load_matrices (uint32_t (&m)[4], uint32_t at) { emulated_matrices(m, at, false); }

PTX void ptx_load_transposed (uint32_t (&m)[4], uint32_t at) { emulated_matrices(m, at, true); }


/* A lane's share of a and b, in floats: element k of register r in [2 r + k]. */
struct emulated_factors { float a[8], b[4]; };

template <class S> PTX float emulated_half (uint32_t pair, int which) {
  return wide(S{(uint16_t)(pair >> 16 * which)});
}

/* A tensor core adds in an order and with roundings of its own; here a sum is rounded once. */
template <class S>
PTX void ptx_multiply (float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, S) {
  emulated_factors own;
  for (int i = 0; i < 8; i++) own.a[i] = emulated_half<S>(a[i / 2], i % 2);
  for (int i = 0; i < 4; i++) own.b[i] = emulated_half<S>(i < 2 ? b0 : b1, i % 2);
  const emulated_factors *of = (const emulated_factors *)emulated_table(FULL, &own, sizeof own);
  const int line = emulated_lane() / 4, first = emulated_lane() % 4 * 2;
  for (int i = 0; i < 4; i++) {
    double sum = c[i];
    for (int k = 0; k < 16; k++) {
      const int lane = k % 8 / 2, half = k % 2, right = k / 8;
      sum += (double)of[line * 4 + lane].a[4 * right + 2 * (i / 2) + half] *
             of[(first + i % 2) * 4 + lane].b[2 * right + half];
    }
    c[i] = (float)sum;
  }
}


PTX float emulated_tf32 (uint32_t bits) { return __uint_as_float(bits & 0xffffe000); }

PTX void ptx_multiply_tf32 (float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const uint32_t own[6] = {a[0], a[1], a[2], a[3], b0, b1};
  const uint32_t (*of)[6] = (const uint32_t (*)[6])emulated_table(FULL, own, sizeof own);
  const int line = emulated_lane() / 4, first = emulated_lane() % 4 * 2;
  for (int i = 0; i < 4; i++) {
    double sum = c[i];
    for (int k = 0; k < 8; k++)
      sum += (double)emulated_tf32(of[line * 4 + k % 4][k / 4 * 2 + i / 2]) *
             emulated_tf32(of[(first + i % 2) * 4 + k % 4][4 + k / 4]);
    c[i] = (float)sum;
  }
}

/* Halfway cases go away from 0. */
PTX uint32_t ptx_to_tf32 (float x) {
  const uint32_t bits = __float_as_uint(x);
  return x != x ? 0x7fffe000 : (bits + 0x1000) & 0xffffe000;
}


template <class S> PTX uint32_t ptx_pack (float low, float high, S) {
  return convert<S>(low).bits | (uint32_t)convert<S>(high).bits << 16;
}

PTX float ptx_exp2 (float x) {
  const float y = exp2f(x);
  return y < 0x1p-126f ? 0 : y;
}


template <int SIZE = 16> PTX void ptx_copy (uint32_t to, const void *from, int bytes) {
  emulated_copy(emulated_shared + to, from, bytes, SIZE);
}

PTX void ptx_commit (void) { emulated_copy_commit(); }

template <int left> PTX void ptx_wait (void) { emulated_copy_wait(left); }

#endif


/* A factor as TF32 has it, and what is left of it. */
template <int N> struct factors { uint32_t high[N], low[N]; };

template <int N> INLINE void set_factor (factors<N> &f, int i, float x) {
  f.high[i] = ptx_to_tf32(x);
  f.low[i] = __float_as_uint(x - __uint_as_float(f.high[i]));
}

#endif
