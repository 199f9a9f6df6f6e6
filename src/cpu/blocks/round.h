/*
** round.h - rows of values rounded to 8 bits, and products of their integers with quants, which are
** exact.
*/

#ifndef round_h
#define round_h

#include <float.h>

#include "cpu/blocks/decode.h"

/*
** The largest number below 1/2. Added to a size it gives the next integer from 1/2 on, as 1/2 does,
** and not for this number itself, whose sum with 1/2 is rounded to 1.
*/
#define BELOW_HALF 0x1.fffffep-2f

/* Rows (M, K): element k is q[k] * scale[k / 32]; sum[k / 16] is that of 16 of them. */
typedef struct rounded {
  float *scale, *sum;
  int8_t *q;
} rounded;


/*
** A group with a value that is not finite becomes NaN. The bits of sizes are in the order of the
** sizes, and those of what is not finite come last.
*/
static void round_row (const rounded *to, const float *x, int64_t row, int64_t k) {
  int8_t *q = to->q + row * k;
  float *scale = to->scale + row * k / ROUND_GROUP, *sum = to->sum + row * k / DECODE_GROUP;
  for (int64_t g = 0; g < k / ROUND_GROUP; g++, x += ROUND_GROUP, q += ROUND_GROUP) {
    int32_t bits[ROUND_GROUP], most_bits = 0, wide[ROUND_GROUP], sums[2] = {0, 0};
    float most;
    memcpy(bits, x, sizeof bits);
    for (int i = 0; i < ROUND_GROUP; i++) {
      const int32_t size = bits[i] & INT32_MAX;
      most_bits = size > most_bits ? size : most_bits;
    }
    memcpy(&most, &most_bits, sizeof most);
    const bool finite = most <= FLT_MAX, small = finite && most < 128 * FLT_MIN;
    const float each = small ? 0 : 127 / most;
    scale[g] = !finite ? (float)NAN : small ? 0 : most / 127;
    for (int i = 0; i < ROUND_GROUP; i++) {
      const float v = finite ? x[i] * each : 0;
      wide[i] = (int32_t)(v + (v < 0 ? -BELOW_HALF : BELOW_HALF));
    }
    for (int i = 0; i < ROUND_GROUP; i++) q[i] = (int8_t)wide[i];
    for (int i = 0; i < ROUND_GROUP; i++) sums[i / DECODE_GROUP] += wide[i];
    sum[2 * g] = scale[g] * (float)sums[0];
    sum[2 * g + 1] = scale[g] * (float)sums[1];
  }
}

#endif
