/*
** philox.h - base/random.h's Philox for kernels: J. Salmon et al., "Parallel random numbers: as
** easy as 1, 2, 3", SC11 (4x32, 10 rounds).
*/

#ifndef cuda_philox_h
#define cuda_philox_h

#include "cuda/kernel.h"

INLINE void philox_draw (uint64_t key, uint64_t counter, uint32_t draw[4]) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = 0, c3 = 0;
#pragma unroll
  for (int round = 0; round < 10; round++) {
    uint32_t a = __umulhi(0xD2511F53u, c0), b = __umulhi(0xCD9E8D57u, c2);
    uint32_t low = 0xD2511F53u * c0;
    c0 = b ^ c1 ^ k0;
    c1 = 0xCD9E8D57u * c2;
    c2 = a ^ c3 ^ k1;
    c3 = low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  draw[0] = c0;
  draw[1] = c1;
  draw[2] = c2;
  draw[3] = c3;
}

#endif
