/*
** ptx.h - instructions that CUDA's C++ has no name for, one function each, and the same in plain
** C++ for the emulated GPU.
*/

#ifndef cuda_ptx_h
#define cuda_ptx_h

#include "cuda/runtime.h"

#define PTX static __device__ __forceinline__


/*
** {==================================================================
** 16-bit floats by their bits; a NaN becomes the one that the CPU makes
** ===================================================================
*/

#ifdef __CUDACC__

PTX float ptx_from_half (uint16_t bits) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
  return y;
}

PTX uint16_t ptx_to_half (float x) {
  uint16_t y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return x != x ? (uint16_t)(__float_as_uint(x) >> 16 & 0x8000) | 0x7e00 : y;
}

PTX uint16_t ptx_to_bfloat (float x) {
  uint16_t y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return x != x ? 0x7fc0 : y;
}

#else

PTX float ptx_from_half (uint16_t bits) {
  uint32_t size = bits & 0x7fff, sign = (uint32_t)(bits & 0x8000) << 16;
  uint32_t normal = (size << 13) + (112u << 23) + (size >= 0x7c00 ? 112u << 23 : 0);
  uint32_t tiny = __float_as_uint((float)size * 0x1p-24f);
  return __uint_as_float((size < 0x400 ? tiny : normal) | sign);
}

/* Ties go to even: by adding what 13 bits lack, or, below 2^-14, by adding 1/2. */
PTX uint16_t ptx_to_half (float x) {
  uint32_t bits = __float_as_uint(x), size = bits & 0x7fffffff;
  uint32_t normal = (size + 0xfff + (size >> 13 & 1) - (112u << 23)) >> 13;
  uint32_t tiny = __float_as_uint(__uint_as_float(size) + 0.5f) - __float_as_uint(0.5f);
  uint32_t large = size > 0x7f800000 ? 0x7e00 : 0x7c00;
  uint32_t y = size < 0x38800000 ? tiny : size >= 0x477ff000 ? large : normal;
  return (uint16_t)(y | (bits >> 16 & 0x8000));
}

PTX uint16_t ptx_to_bfloat (float x) {
  uint32_t bits = __float_as_uint(x);
  return x != x ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif

/* }================================================================== */

#endif
