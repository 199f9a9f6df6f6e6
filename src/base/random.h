/*
** random.h - the generators: Mersenne Twister as PyTorch uses it on the CPU, and Philox.
**
** M. Matsumoto, T. Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998); J. Salmon et al.,
** "Parallel random numbers: as easy as 1, 2, 3", SC11 (Philox 4x32, 10 rounds).
*/

#ifndef random_h
#define random_h

#include <string.h>

#include "heed.h"

#pragma GCC visibility push(hidden)

typedef struct generator {
  uint64_t seed;
  uint32_t state[624];
  int left, next;
  bool seeded;
  double normal;                   /* the second of a pair, kept for the next call */
  float normal_float;
  bool has_normal, has_normal_float;
} generator;

void generator_seed (generator *g, uint64_t seed);
uint32_t generator_32 (generator *g);
uint64_t generator_64 (generator *g);        /* the first 32 bits are the high half */
void generator_fill (generator *g, int64_t n, uint32_t *numbers);   /* n times generator_32 */
double generator_uniform_double (generator *g);  /* 53 bits */
double generator_normal (generator *g);          /* one at a time (PyTorch below 16 elements) */

/* PyTorch's bytes of a CPU generator's state. */
void generator_save (const generator *g, uint8_t state[HEED_RNG_BYTES]);
bool generator_load (generator *g, const uint8_t state[HEED_RNG_BYTES]);

/* Philox: four 32-bit numbers from a 64-bit key and a 64-bit counter. */
static inline void philox (uint64_t key, uint64_t counter, uint32_t out[4]) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
  for (int round = 0; round < 10; round++) {
    uint64_t a = (uint64_t)0xD2511F53 * c[0], b = (uint64_t)0xCD9E8D57 * c[2];
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b,
                        (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
    memcpy(c, next, sizeof c);
    k0 += 0x9E3779B9; k1 += 0xBB67AE85;
  }
  memcpy(out, c, sizeof c);
}

/* Is element 'index' kept, when each is dropped with probability p? One number each, of four. */
static inline bool philox_keeps (uint64_t key, uint64_t index, double p) {
  uint32_t bits[4];
  philox(key, index >> 2, bits);
  return (double)bits[index & 3] * 0x1p-32 >= p;
}

#pragma GCC visibility pop

#endif
