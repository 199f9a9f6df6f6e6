/*
** cuda_blocks.c - types of blocks on a GPU: values of all types and layouts, products of few rows
** and of many, and those of gradients.
*/

#include "cuda_cases.h"

#define TOLERANCE 6e-6             /* of sums in float32 */
#define MORE 1100                  /* rows of an emulated GPU's weight that go in two parts */


/* Rows of blocks of random bytes; 'small': with scales below 2, so that sums stay finite. */
static view blocks_of (heed_type type, int rank, const int64_t *size, bool small) {
  view v = {.type = type};
  layout_dense(&v.at, rank, size);
  const int64_t n = scalar_bytes(type, layout_numel(&v.at));
  uint8_t *byte = v.data = make((size_t)n);
  for (int64_t i = 0; i < n; i++) byte[i] = (uint8_t)(pick(256) & (small ? 0xbf : 0xff));
  return v;
}

static view block_view (view v) {
  v.data = (char *)v.data + scalar_bytes(v.type, v.at.offset);
  v.at.offset = 0;
  return v;
}

/* How rows lie: all, every second one, from the last one on, one for all. */
static view with_rows (view v, int axis, int way) {
  const int64_t n = v.at.size[axis];
  if (way == 1) v.at = layout_narrow(&v.at, axis, 1, n / 2, 2);
  if (way == 2) v.at = layout_flip(&v.at, axis);
  if (way == 3) v.at.stride[axis] = 0;
  return block_view(v);
}


static void unpacks (both *b, heed_type type) {
  const int64_t k = scalar_blocks[type].elements, sizes[][3] = {
    {1, 1, k}, {3, 5, 3 * k}, {2, 4, 512}, {5, 2, k}
  };
  for (int i = 0; i < 24; i++) {
    const int64_t *size = sizes[pick(4)];
    const int way = size[0] > 1 ? (int)pick(4) : 0;
    view x = with_rows(blocks_of(type, 3, size, false), (int)pick(2), way);
    if (chance(0.5)) x.at = layout_transpose(&x.at, (int)pick(2), 2);
    view y = output(i < HEED_NTYPES ? (heed_type)i : float_type(), 3, x.at.size);
    work w;
    work_copy(&w, COPY_APART, y, x);
    same(b, describe(scalar_names[type], &w), &w, 0);
  }
}


/* Rows of float32, between which there may be others, so that they may lie anywhere. */
static view rows_of (int64_t m, int64_t n) {
  view v = filled(HEED_FLOAT32, 2, SIZES(m, n + (chance(0.5) ? 0 : between(1, 4))), -1, 1);
  const int64_t from = pick(v.at.size[1] - n + 1);
  v.at = layout_narrow(&v.at, 1, from, n, 1);
  return without_offset(v);
}


static void product (both *b, heed_type type, blocks_op op, const int64_t size[3]) {
  const int64_t m = size[0], n = size[1], k = size[2];
  const bool back = op == BLOCKS_BACK;
  view w = with_rows(blocks_of(type, 2, SIZES(n, k), true), 0, n > 1 ? 2 * (int)pick(2) : 0);
  view bias = chance(0.5) && !back ? filled(HEED_FLOAT32, 1, SIZES(n), -9, 9) : view_none();
  view x = rows_of(m, back ? n : k), y = rows_of(m, back ? k : n);
  work of;
  work_blocks(&of, op, y, x, w, bias, NULL);
  same(b, describe(scalar_names[type], &of), &of, TOLERANCE);
  const bool few = !back && m <= 8, ran = b->gpu->way != NULL || getenv("HEED_SOME") == NULL;
  if (ran && went(b, "few rows beside blocks") != few) {
    printf("%s: %lld rows were not multiplied so\n", scalar_names[type], (long long)m);
    b->failed++;
  }
  work rounded = of;
  rounded.op = BLOCKS_ROUNDED;
  if (!back) same_bits(b, "rounded", "as the exact one", &of, &rounded);
}


static void products (both *b, heed_type type) {
  static const int64_t some[] = {1, 1, 2, 4, 5, 8, 9, 40}, columns[] = {1, 7, 16, 33};
  const int64_t k = scalar_blocks[type].elements;
  for (int i = 0; i < 12; i++) {
    const int64_t size[] = {some[i % 8], columns[pick(4)], k * between(1, k > 32 ? 4 : 30)};
    product(b, type, i % 3 == 2 ? BLOCKS_BACK : BLOCKS_PRODUCT, size);
  }
}


/* Numbers that are not finite, in rows and in scales, reach the same results. */
static void not_finite (both *b, heed_type type) {
  view w = blocks_of(type, 2, SIZES(6, 512), true), x = rows_of(12, 512), y = rows_of(12, 6);
  work of;
  put(&x, 700, NAN);
  put(&x, 1100, INFINITY);
  memset((char *)w.data + scalar_bytes(type, 1024), 0x7c, 8);
  work_blocks(&of, BLOCKS_PRODUCT, y, x, w, view_none(), NULL);
  same(b, describe("not finite", &of), &of, TOLERANCE);
  of.out[0].at.size[0] = of.in[BLOCKS_X].at.size[0] = 4;
  same(b, describe("not finite, few", &of), &of, TOLERANCE);
}


static void parts (both *b) {
  product(b, HEED_Q4_0, BLOCKS_PRODUCT, SIZES(9, MORE, 512));
  product(b, HEED_Q8_0, BLOCKS_BACK, SIZES(2, MORE, 512));
}


int main (void) {
  both b;
  if (!both_open(&b)) return 0;
  for (heed_type type = HEED_NTYPES + 1; type < HEED_ALL_TYPES; type++) {
    unpacks(&b, type);
    products(&b, type);
    not_finite(&b, type);
    free_cases();
  }
  parts(&b);
  return both_close(&b);
}
