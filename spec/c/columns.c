/*
** columns.c - products of one row and a large matrix, whose columns are read in turns or each alone
** (src/cpu/product/dots.h). Both ways give the same bits, whichever this CPU takes.
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "graph/call.h"
#include "memory/context.h"

enum { BYTES_OF_B = 3 << 19, MARGIN = 5 };

static int tried, failed;

static heed_tensor *made (heed_context *cx, int rank, const int64_t *size, const char *type) {
  heed_tensor *x = heed_call(cx, HEED_randn, (heed_value[]){heed_l(rank, size)}, 1);
  heed_tensor *y = heed_call(cx, HEED_to, (heed_value[]){heed_t(x), heed_s(type)}, 2);
  heed_drop(x);
  return y;
}

/* x times w transposed, with an addend, while the CPU reads columns in that way. */
static double *product (heed_context *cx, bool alone, heed_tensor *x, heed_tensor *w,
                        heed_tensor *bias, int64_t n) {
  double *values = calloc((size_t)n, sizeof *values);
  ((cpu *)cx->devices.list[0])->reads_alone = alone;
  const heed_value args[] = {heed_t(x), heed_t(w), heed_t(bias)};
  heed_tensor *y = heed_call(cx, HEED_linear, args, 3);
  if (values == NULL || y == NULL || !heed_read(y, HEED_FLOAT64, values)) {
    free(values);
    values = NULL;
  }
  heed_drop(y);
  return values;
}

/* Columns lie side by side, or some elements apart. */
static void is_same (heed_context *cx, const char *type, int64_t depth, int64_t apart) {
  const int64_t size = strcmp(type, "float64") == 0 ? 8 : strcmp(type, "float32") == 0 ? 4 : 2;
  const int64_t n = BYTES_OF_B / (depth * size) + MARGIN;
  const int64_t row[] = {1, depth}, all[] = {n, depth + apart};
  heed_tensor *x = made(cx, 2, row, type), *wide = made(cx, 2, all, type);
  heed_tensor *w = heed_call(cx, HEED_narrow, (heed_value[]){heed_t(wide), heed_i(1), heed_i(1),
                                                             heed_i(depth)}, 4);
  heed_tensor *bias = made(cx, 1, &n, type);
  double *turns = product(cx, false, x, w, bias, n), *alone = product(cx, true, x, w, bias, n);
  tried++;
  if (turns == NULL || alone == NULL || memcmp(turns, alone, (size_t)n * sizeof *turns) != 0) {
    failed++;
    printf("columns: %s, %s, a depth of %d, %d apart: %s\n", heed_level(cx), type, (int)depth,
           (int)apart, heed_error(cx) != NULL ? heed_error(cx) : "not the same");
  }
  free(turns);
  free(alone);
  heed_drop(x);
  heed_drop(wide);
  heed_drop(w);
  heed_drop(bias);
}


int main (void) {
  static const char *const levels[] = {"base", "avx2", "avx512", "neon"};
  static const char *const types[] = {"float32", "float64", "bfloat16", "float16"};
  static const int64_t depths[] = {64, 100, 1031, 4096, 4111, 9000};
  heed_context *cx = heed_open(NULL);
  if (cx == NULL) return 1;
  heed_seed(cx, 1);
  for (int i = 0; i < 4; i++) {
    const bool here = heed_set_level(cx, levels[i]);
    heed_clear(cx);
    if (!here) continue;
    for (int t = 0; t < 4; t++)
      for (int d = 0; d < 6; d++)
        for (int apart = 0; apart < 2; apart++) is_same(cx, types[t], depths[d], 3 * apart);
  }
  heed_close(cx);
  if (failed == 0) printf("columns: %d products\n", tried);
  return failed > 0 || tried == 0;
}
