/*
** columns.c - products of a few rows and a large matrix, whose columns are read in turns or each
** alone (src/cpu/product/dots.h). Both ways give the same bits, whichever this CPU takes, and those
** of each row by itself.
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "graph/call.h"
#include "memory/context.h"

enum { BYTES_OF_B = 3 << 19, MARGIN = 5, ROWS = 4, ROWS_ALIKE = 3 };

static int tried, failed;

static heed_tensor *made (heed_context *cx, int rank, const int64_t *size, const char *type) {
  heed_tensor *x = heed_call(cx, HEED_randn, (heed_value[]){heed_l(rank, size)}, 1);
  heed_tensor *y = heed_call(cx, HEED_to, (heed_value[]){heed_t(x), heed_s(type)}, 2);
  heed_drop(x);
  return y;
}

/* Rows of x from 'first' on times w transposed, with an addend, while the CPU reads columns in that
   way: written to 'to', of n columns. */
static bool product (heed_context *cx, bool alone, heed_tensor *x, int64_t first, int64_t rows,
                     heed_tensor *w, heed_tensor *bias, double *to) {
  ((cpu *)cx->devices.list[0])->reads_alone = alone;
  const heed_value part[] = {heed_t(x), heed_i(0), heed_i(first + 1), heed_i(rows)};
  heed_tensor *some = heed_call(cx, HEED_narrow, part, 4);
  const heed_value args[] = {heed_t(some), heed_t(w), heed_t(bias)};
  heed_tensor *y = some != NULL ? heed_call(cx, HEED_linear, args, 3) : NULL;
  const bool good = y != NULL && heed_read(y, HEED_FLOAT64, to);
  heed_drop(some);
  heed_drop(y);
  return good;
}

/* All rows at once in both ways, and one by one; each level computes ROWS_ALIKE as it does one. */
static bool are_same (heed_context *cx, heed_tensor *x, int64_t rows, heed_tensor *w,
                      heed_tensor *bias, int64_t n) {
  const size_t bytes = (size_t)(rows * n) * sizeof(double);
  double *y[3] = {malloc(bytes), malloc(bytes), malloc(bytes)};
  bool same = y[0] != NULL && y[1] != NULL && y[2] != NULL;
  for (int alone = 0; alone < 2; alone++)
    same = same && product(cx, alone, x, 0, rows, w, bias, y[alone]);
  for (int64_t i = 0; i < rows && rows <= ROWS_ALIKE; i++)
    same = same && product(cx, true, x, i, 1, w, bias, y[2] + i * n);
  same = same && memcmp(y[0], y[1], bytes) == 0;
  same = same && (rows > ROWS_ALIKE || memcmp(y[0], y[2], bytes) == 0);
  for (int i = 0; i < 3; i++) free(y[i]);
  return same;
}

/* Columns lie side by side, or some elements apart. */
static void try_rows (heed_context *cx, const char *type, int64_t rows, int64_t depth,
                      int64_t apart) {
  const int64_t size = strcmp(type, "float64") == 0 ? 8 : strcmp(type, "float32") == 0 ? 4 : 2;
  const int64_t n = BYTES_OF_B / (depth * size) + MARGIN;
  const int64_t of_x[] = {rows, depth}, all[] = {n, depth + apart};
  heed_tensor *x = made(cx, 2, of_x, type), *wide = made(cx, 2, all, type);
  heed_tensor *w = heed_call(cx, HEED_narrow, (heed_value[]){heed_t(wide), heed_i(1), heed_i(1),
                                                             heed_i(depth)}, 4);
  heed_tensor *bias = made(cx, 1, &n, type);
  tried++;
  if (!are_same(cx, x, rows, w, bias, n)) {
    failed++;
    printf("columns: %s, %s, %d rows, a depth of %d, %d apart: %s\n", heed_level(cx), type,
           (int)rows, (int)depth, (int)apart,
           heed_error(cx) != NULL ? heed_error(cx) : "not the same");
  }
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
        for (int rows = 1; rows <= ROWS; rows++)
          try_rows(cx, types[t], rows, depths[d], (rows + d) % 2 * 3);
  }
  heed_close(cx);
  if (failed == 0) printf("columns: %d products\n", tried);
  return failed > 0 || tried == 0;
}
