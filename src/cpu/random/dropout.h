/*
** dropout.h - dropout's factors for elements in a row: philox_keeps, many at a time.
*/

#ifndef dropout_h
#define dropout_h

#include "cpu/vector/elementwise.h"

#define LINES 16                   /* counters worked on at once */

/* philox() of LINES counters from 'counter' on: number k of counter i is bits[k][i]. */
static void philox_lines (uint64_t key, uint64_t counter, uint32_t bits[4][LINES]) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32), *c0 = bits[0], *c1 = bits[1];
  uint32_t *c2 = bits[2], *c3 = bits[3];
  for (int i = 0; i < LINES; i++) {
    c0[i] = (uint32_t)(counter + (uint64_t)i);
    c1[i] = (uint32_t)((counter + (uint64_t)i) >> 32);
    c2[i] = c3[i] = 0;
  }
  for (int round = 0; round < 10; round++) {
    VECTOR_LOOP for (int i = 0; i < LINES; i++) {
      uint64_t a = (uint64_t)0xD2511F53 * c0[i], b = (uint64_t)0xCD9E8D57 * c2[i];
      c0[i] = (uint32_t)(b >> 32) ^ c1[i] ^ k0;
      c1[i] = (uint32_t)b;
      c2[i] = (uint32_t)(a >> 32) ^ c3[i] ^ k1;
      c3[i] = (uint32_t)a;
    }
    k0 += 0x9E3779B9; k1 += 0xBB67AE85;
  }
}


/* For n elements, of which the first has index 'first', a multiple of 4: 0 or 'kept'. */
static void dropout (int64_t n, float *y, uint64_t key, uint64_t first, double p, float kept) {
  const uint64_t least = (uint64_t)ceil(p * 0x1p32);               /* number that is kept */
  uint32_t bits[4][LINES];
  for (int64_t at = 0; at < n; at += 4 * LINES) {
    int64_t m = n - at < 4 * LINES ? n - at : 4 * LINES;
    philox_lines(key, (first + (uint64_t)at) >> 2, bits);
    if (m == 4 * LINES)
      for (int i = 0; i < LINES; i++)
        for (int k = 0; k < 4; k++) y[at + 4 * i + k] = bits[k][i] >= least ? kept : 0;
    else
      for (int64_t i = 0; i < m; i++) y[at + i] = bits[i & 3][i >> 2] >= least ? kept : 0;
  }
}

#undef LINES

#endif
