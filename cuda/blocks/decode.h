/*
** decode.h - blocks as kernels read them: a struct for each type of blocks, of base/eights.h.
*/

#ifndef cuda_decode_h
#define cuda_decode_h

#include "cuda/kernel.h"

#define GROUP 16                   /* elements that share a scale */

INLINE float half_at (const uint8_t *at) { return ptx_from_half(*(const uint16_t *)at); }

INLINE uint64_t eight_at (const uint8_t *at) {
  const uint16_t *two = (const uint16_t *)at;
  return two[0] | (uint64_t)two[1] << 16 | (uint64_t)two[2] << 32 | (uint64_t)two[3] << 48;
}

typedef uint64_t eights;
INLINE eights eights_at (const uint8_t *at) { return eight_at(at); }

#define EIGHTS INLINE
#include "base/eights.h"

#define BLOCK(NAME, name, elements, bytes, has_least, ...) \
  struct name { \
    static constexpr int GROUPS = (elements) / GROUP, BYTES = (bytes); \
    static constexpr bool LEAST = (has_least) != 0; \
    static __device__ __forceinline__ uint64_t eight (const uint8_t *b, int i) { \
      return eight_##name(b, i); \
    } \
    static __device__ __forceinline__ float scale (const uint8_t *b, int g) { \
      return scale_##name(b, g); \
    } \
    static __device__ __forceinline__ float least (const uint8_t *b, int g) { \
      return least_##name(b, g); \
    } \
  };
#include "base/blocks.def"


/* The values of group number 'group' of a row of blocks: those of the CPU. */
template <class B> INLINE void group_values (float (&y)[GROUP], const uint8_t *row, int64_t group) {
  const uint8_t *b = row + group / B::GROUPS * B::BYTES;
  const int g = (int)(group % B::GROUPS);
  const float scale = B::scale(b, g), least = B::least(b, g);
#pragma unroll
  for (int i = 0; i < GROUP; i++) {
    const uint64_t x = B::eight(b, 2 * g + i / 8);
    y[i] = (float)(int8_t)(x >> i % 8 * 8) * scale;
    if (B::LEAST) y[i] += least;
  }
}

#endif
