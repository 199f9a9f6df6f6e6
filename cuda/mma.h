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

#ifdef __CUDACC__

/* Of dynamic shared memory. */
PTX uint32_t ptx_shared (const void *at) { return (uint32_t)__cvta_generic_to_shared(at); }


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
** 16 bytes into shared memory, of which the first 'bytes' come from device memory, and the rest
** are 0; both sides are aligned to 16 bytes. Nothing may touch 'to' until the thread has waited;
** other threads see the bytes after a barrier behind that.
*/
PTX void ptx_copy (uint32_t to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
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


template <class S> PTX uint32_t ptx_pack (float low, float high, S) {
  return convert<S>(low).bits | (uint32_t)convert<S>(high).bits << 16;
}

PTX float ptx_exp2 (float x) {
  const float y = exp2f(x);
  return y < 0x1p-126f ? 0 : y;
}


PTX void ptx_copy (uint32_t to, const void *from, int bytes) {
  emulated_copy(emulated_shared + to, from, bytes);
}

PTX void ptx_commit (void) { emulated_copy_commit(); }

template <int left> PTX void ptx_wait (void) { emulated_copy_wait(left); }

#endif

#endif
