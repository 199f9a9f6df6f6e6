/*
** random_loops.h - loops of random.c: those that a level makes fast. A multiplication with an
** addition is rounded once at all levels, as in PyTorch.
*/

#ifndef random_loops_h
#define random_loops_h

#include "cpu/vector/elementwise.h"

#define NORMAL_BLOCKS 32           /* of 16 elements, worked on at once */


/* n numbers of 24 bits become x (to - from) + from; what was rounded up to 'to' becomes 'from'. */
static void random_uniform (int64_t n, float *y, const uint32_t *bits, float from, float to) {
  const float width = to - from;
  if (from == 0 && to == 1) {
    VECTOR_LOOP for (int64_t i = 0; i < n; i++)
      y[i] = (float)(int32_t)(bits[i] & 0xffffff) * 0x1p-24f;
    return;
  }
  VECTOR_LOOP for (int64_t i = 0; i < n; i++) {
    const float x = fmaf((float)(int32_t)(bits[i] & 0xffffff) * 0x1p-24f, width, from);
    y[i] = x == to ? from : x;
  }
}


/*
** Blocks of 16 uniform numbers in [0, 1) become normal, the first eight paired with the last eight
** (G. Box, M. Muller, 1958).
*/
static void random_normal (int64_t n, float *x, float mean, float deviation) {
  float length[8 * NORMAL_BLOCKS], sine[8 * NORMAL_BLOCKS], cosine[8 * NORMAL_BLOCKS];
  for (int64_t from = 0; from < n; from += 16 * NORMAL_BLOCKS) {
    const int64_t blocks = smaller((n - from) / 16, NORMAL_BLOCKS);
    float *const at = x + from;
    for (int64_t b = 0; b < blocks; b++)
      VECTOR_LOOP for (int64_t i = 0; i < 8; i++) {
        length[8 * b + i] = 1 - at[16 * b + i];
        cosine[8 * b + i] = (float)6.28318530717958647692 * at[16 * b + i + 8];
      }
    map_log_float(8 * blocks, length, length, NULL, NULL, (double[]){0, 0});
    map_sin_float(8 * blocks, sine, cosine, NULL, NULL, (double[]){0, 0});
    map_cos_float(8 * blocks, cosine, cosine, NULL, NULL, (double[]){0, 0});
    for (int64_t b = 0; b < blocks; b++)
      VECTOR_LOOP for (int64_t i = 0; i < 8; i++) {
        const float size = sqrtf(-2 * length[8 * b + i]);
        at[16 * b + i] = fmaf(size * cosine[8 * b + i], deviation, mean);
        at[16 * b + i + 8] = fmaf(size * sine[8 * b + i], deviation, mean);
      }
  }
}

#undef NORMAL_BLOCKS

#endif
