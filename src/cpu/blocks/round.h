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

/*
** The scale of a group, whose quants and the sums of either half of them are stored. A group with a
** value that is not finite becomes NaN. The bits of sizes are in the order of the sizes, and those
** of what is not finite come last.
*/
static inline float round_group (const float *x, int8_t *q, int32_t sums[2]) {
  int32_t bits[ROUND_GROUP], most_bits = 0, wide[ROUND_GROUP];
  float most;
  memcpy(bits, x, sizeof bits);
  for (int i = 0; i < ROUND_GROUP; i++) {
    const int32_t size = bits[i] & INT32_MAX;
    most_bits = size > most_bits ? size : most_bits;
  }
  memcpy(&most, &most_bits, sizeof most);
  const bool finite = most <= FLT_MAX, small = finite && most < 128 * FLT_MIN;
  const float each = small ? 0 : 127 / most;
  for (int i = 0; i < ROUND_GROUP; i++) {
    const float v = finite ? x[i] * each : 0;
    wide[i] = (int32_t)(v + (v < 0 ? -BELOW_HALF : BELOW_HALF));
  }
  for (int i = 0; i < ROUND_GROUP; i++) q[i] = (int8_t)wide[i];
  sums[0] = sums[1] = 0;
  for (int i = 0; i < ROUND_GROUP; i++) sums[i / DECODE_GROUP] += wide[i];
  return !finite ? (float)NAN : small ? 0 : most / 127;
}


/*
** SPAN elements of a row of x, the end of a row filled with zeros. How numbers of groups stand is
** said where they are made (maddubs.h, vnni.h).
*/
typedef struct rounded_span {
  int8_t q[SPAN];
  float scale[SPAN_GROUPS], sum[SPAN_GROUPS];      /* sum: of its elements' values */
  int32_t offset[SPAN_GROUPS];     /* what the sum of products is less than with quants as loaded */
} rounded_span;

static inline int64_t spans_of (int64_t k) { return (k + SPAN - 1) / SPAN; }


/* n rows of w, and columns of y; 'bias' is NULL, or has a number for each. */
typedef struct product_rows {
  const uint8_t *w;
  int64_t w_row, n;
  bool soon;                       /* fetches BYTES_SOON ahead alone */
  const float *bias;
  float *y;
} product_rows;

/* Fetches as many bytes of the rows as are read now. */
INLINED void fetch_row (const uint8_t *w, int64_t bytes, bool soon) {
  if (soon) fetch_far(w + BYTES_SOON, bytes);
  else fetch_line(w, bytes);
}

#endif
