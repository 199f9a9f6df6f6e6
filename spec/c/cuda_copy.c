/*
** cuda_copy.c - copies, conversions and fills on a GPU, of all types and layouts.
*/

#include "cuda_same.h"

#define SIZES(...) (int64_t[]){__VA_ARGS__}


static void copy (both *b, const char *name, view to, view from) {
  work w;
  work_copy(&w, COPY_APART, to, from);
  same(b, name, &w, 0);
}


static void types (both *b, heed_type to, heed_type from) {
  char name[64];
  snprintf(name, sizeof name, "%s from %s", scalar_names[to], scalar_names[from]);
  view x = filled(from, 2, SIZES(7, 33), from == HEED_UINT8 ? 0 : -300, 300);
  if (from == HEED_BOOL) x = filled(from, 2, SIZES(7, 33), 0, 2);
  if (scalar_is_float(from))
    for (int i = 0; i < 3; i++)
      scalar_store(from, (char *)x.data + i * scalar_sizes[from],
                   (scalar){.type = HEED_FLOAT64, .f = (double[]){NAN, INFINITY, -1e300}[i]});
  view y = fresh(to, 2, SIZES(7, 33)), transposed = x, wide = x;
  copy(b, name, y, x);
  y = fresh(to, 2, SIZES(33, 7));
  transposed.at = layout_transpose(&x.at, 0, 1);
  copy(b, name, y, transposed);
  wide.at = layout_narrow(&x.at, 0, 2, 1, 1);
  wide.at.stride[0] = 0;
  wide.at.size[0] = 5;
  y = fresh(to, 2, SIZES(5, 33));
  y.at = layout_flip(&y.at, 1);
  wide.data = (char *)wide.data + wide.at.offset * scalar_sizes[from];
  y.data = (char *)y.data + y.at.offset * scalar_sizes[to];
  wide.at.offset = y.at.offset = 0;
  copy(b, name, y, wide);
}


static void transposes (both *b) {
  view x = filled(HEED_FLOAT32, 4, SIZES(3, 70, 5, 41), -1, 1);
  int order[] = {2, 3, 0, 1};
  view from = x;
  from.at = layout_permute(&x.at, order);
  copy(b, "permuted", fresh(HEED_FLOAT32, 4, from.at.size), from);
  from.at = layout_transpose(&x.at, 1, 3);
  copy(b, "transposed", fresh(HEED_FLOAT32, 4, from.at.size), from);
}


static void fills (both *b) {
  for (heed_type type = 0; type < HEED_NTYPES; type++) {
    view number = view_number((scalar){.type = HEED_FLOAT64, .f = 1.3});
    view y = fresh(type, 2, SIZES(9, 10));
    copy(b, "fill", y, number);
    y.at = layout_narrow(&y.at, 1, 0, 5, 2);
    number.value.f = 200.7;
    copy(b, "fill a part", y, number);
  }
}


static void overlap (both *b) {
  view x = filled(HEED_INT64, 1, SIZES(1000), 0, 100);
  view flipped = x;
  flipped.at = layout_flip(&x.at, 0);
  flipped.data = (char *)x.data + flipped.at.offset * 8;
  flipped.at.offset = 0;
  work w;
  work_copy(&w, COPY_OVERLAPPING, x, flipped);
  same(b, "overlapping", &w, 0);
}


int main (void) {
  both b;
  if (!both_open(&b)) return 0;
  for (heed_type to = 0; to < HEED_NTYPES; to++)
    for (heed_type from = 0; from < HEED_NTYPES; from++) types(&b, to, from);
  transposes(&b);
  fills(&b);
  overlap(&b);
  return both_close(&b);
}
