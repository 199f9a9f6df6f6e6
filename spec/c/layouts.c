/*
** layouts.c - layouts beside what they mean: every small one, element by element; and the largest.
*/

#include <stdio.h>
#include <string.h>

#include "base/layout.h"
#include "base/view.h"

enum { AXES = 3, MOST_SIZE = 3, MOST_ELEMENTS = 27 };

static int failed;

static void check (bool good, const char *what) {
  if (good || failed++ > 20) return;
  printf("layouts: %s: wrong\n", what);
}

static void check_at (bool good, const char *what, const layout *at) {
  char text[LAYOUT_TEXT];
  if (good || failed++ > 20) return;
  printf("layouts: %s: wrong for %s from %d on, strides", what, layout_text(at, text),
         (int)at->offset);
  for (int i = 0; i < at->rank; i++) printf(" %d", (int)at->stride[i]);
  putchar('\n');
}


/*
** {==================================================================
** The meaning of a layout: where its elements lie, row by row
** ===================================================================
*/

typedef struct elements { int n; int64_t at[MOST_ELEMENTS]; } elements;

static int64_t element_at (const layout *at, int64_t number) {
  int64_t where = at->offset;
  for (int i = at->rank - 1; i >= 0; i--) {
    where += number % at->size[i] * at->stride[i];
    number /= at->size[i];
  }
  return where;
}

static elements elements_of (const layout *at) {
  elements e = {0};
  int64_t n = 1;
  for (int i = 0; i < at->rank; i++) n *= at->size[i];
  for (e.n = 0; e.n < n; e.n++) e.at[e.n] = element_at(at, e.n);
  return e;
}

static bool same (const elements *a, const elements *b) {
  return a->n == b->n && memcmp(a->at, b->at, (size_t)a->n * sizeof *a->at) == 0;
}

static bool are_rows (const layout *at, const elements *e) {
  for (int i = 0; i < e->n; i++)
    if (e->at[i] != at->offset + i) return false;
  return true;
}

static bool has (const elements *e, int64_t at) {
  for (int i = 0; i < e->n; i++)
    if (e->at[i] == at) return true;
  return false;
}

static bool has_twice (const elements *e) {
  for (int i = 0; i < e->n; i++)
    for (int k = 0; k < i; k++)
      if (e->at[i] == e->at[k]) return true;
  return false;
}

/* Every element from the first on, as many as there are. */
static bool is_interval (const layout *at, const elements *e) {
  for (int i = 0; i < e->n; i++)
    if (!has(e, at->offset + i)) return false;
  return true;
}

/* Does each step along an axis leave what shorter steps reach? */
static bool is_nested (const layout *at) {
  for (int i = 0; i < at->rank; i++) {
    int64_t reach = 0, step = at->stride[i] < 0 ? -at->stride[i] : at->stride[i];
    for (int k = 0; k < at->rank; k++) {
      int64_t other = at->stride[k] < 0 ? -at->stride[k] : at->stride[k];
      if (k != i && at->size[k] > 1 && other <= step) reach += (at->size[k] - 1) * other;
    }
    if (at->size[i] > 1 && step <= reach) return false;
  }
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Every layout of few axes
** ===================================================================
*/

static void is_what_it_is (const layout *at, const elements *e) {
  int64_t first, last, least = at->offset, most = at->offset;
  for (int i = 0; i < e->n; i++) {
    if (e->at[i] < least) least = e->at[i];
    if (e->at[i] > most) most = e->at[i];
  }
  layout_reach(at, &first, &last);
  check_at(first == least && last == (e->n > 0 ? most : least - 1), "what it reaches", at);
  check_at(layout_numel(at) == e->n, "its elements", at);
  check_at(layout_is_dense(at) == are_rows(at, e), "is it dense?", at);
  check_at(layout_overlaps_itself(at) == (e->n > 0 && !is_nested(at)), "does it overlap?", at);
  check_at(!has_twice(e) || layout_overlaps_itself(at), "elements that are there twice", at);
  if (e->n > 0) check_at(layout_is_packed(at) == is_interval(at, e), "is it packed?", at);
}

static void views_are_right (const layout *at, const elements *e) {
  if (e->n == 0) return;
  for (int i = 0; i < at->rank; i++) {
    const layout flipped = layout_flip(at, i), wide = layout_insert(at, i);
    const layout back = layout_remove(&wide, i), again = layout_flip(&flipped, i);
    elements f = elements_of(&wide);
    check_at(same(&f, e) && wide.rank == at->rank + 1 && wide.size[i] == 1 &&
             wide.stride[i] == at->size[i] * at->stride[i], "an axis of size 1", at);
    f = elements_of(&back);
    check_at(same(&f, e) && layout_same_shape(&back, at), "the axis taken out", at);
    f = elements_of(&again);
    check_at(same(&f, e), "flipped twice", at);
    check_at(flipped.offset == at->offset + (at->size[i] - 1) * at->stride[i] &&
             layout_same_shape(&flipped, at), "flipped", at);
    for (int64_t k = 0; k < at->size[i]; k++) {
      const layout one = layout_select(at, i, k), piece = layout_narrow(at, i, k, 1, 5);
      const elements a = elements_of(&one), b = elements_of(&piece);
      check_at(same(&a, &b) && one.rank == at->rank - 1 && piece.rank == at->rank &&
               has(e, one.offset) && piece.size[i] == 1 && piece.stride[i] == at->stride[i] &&
               one.offset == at->offset + k * at->stride[i], "a position", at);
    }
    const layout none = layout_narrow(at, i, 1, 0, 3), two = layout_narrow(at, i, 0, 2, 3);
    check_at(none.offset == at->offset && none.size[i] == 0 && none.stride[i] == at->stride[i],
             "no positions", at);
    check_at(two.stride[i] == 3 * at->stride[i] && two.offset == at->offset, "a step", at);
    for (int k = 0; k < at->rank; k++) {
      const layout t = layout_transpose(at, i, k);
      int order[AXES] = {0, 1, 2};
      order[i] = k, order[k] = i;
      const layout p = layout_permute(at, order);
      const elements a = elements_of(&t), b = elements_of(&p);
      check_at(same(&a, &b) && layout_same_shape(&t, &p), "axes in another order", at);
      check_at(t.size[i] == at->size[k] && t.stride[k] == at->stride[i], "transposed", at);
    }
  }
  const layout end = layout_insert(at, at->rank);
  check_at(end.stride[at->rank] == 1 && end.size[at->rank] == 1 && end.rank == at->rank + 1,
           "an axis at the end", at);
}

/* Strides that give other sizes these elements, if there are such, are found. */
static void is_reshaped (const layout *at, const elements *e, int rank, const int64_t *size) {
  layout to, wanted;
  const bool good = layout_reshape(at, rank, size, &to);
  layout_dense(&wanted, rank, size);
  if (layout_numel(&wanted) != e->n) { check_at(!good, "another number of elements", at); return; }
  if (e->n == 0) { check_at(good && to.offset == at->offset, "no elements", at); return; }
  const layout dense = wanted;
  wanted.offset = at->offset;
  for (int i = 0; i < rank; i++)
    wanted.stride[i] = size[i] > 1 ? e->at[dense.stride[i]] - *e->at : 1;
  const elements f = elements_of(&wanted), g = good ? elements_of(&to) : f;
  check_at(good == same(&f, e), "can it be viewed so?", at);
  if (!good) return;
  check_at(same(&g, e) && layout_same_shape(&to, &dense), "viewed with another shape", at);
}

static void is_reshaped_to_all (const layout *at, const elements *e) {
  static const int64_t sizes[] = {0, 1, 2, 3, 4, 6, 9};
  enum { SIZES = 7 };
  is_reshaped(at, e, 0, NULL);
  for (int i = 0; i < SIZES * SIZES * SIZES; i++) {
    const int64_t size[] = {sizes[i % SIZES], sizes[i / SIZES % SIZES], sizes[i / SIZES / SIZES]};
    is_reshaped(at, e, 3, size);
    if (i < SIZES * SIZES) is_reshaped(at, e, 2, size);
    if (i < SIZES) is_reshaped(at, e, 1, size);
  }
}

/* Rows along the one axis of stride 1, whole blocks of 2 elements, and blocks apart. */
static void has_blocks (const layout *at) {
  int row = -1, rows = 0;
  bool whole = at->offset % 2 == 0;
  for (int i = 0; i < at->rank; i++) {
    if (at->size[i] <= 1) continue;
    if (at->stride[i] == 1) row = i, rows++;
    whole = whole && (at->stride[i] == 1 ? at->size[i] : at->stride[i]) % 2 == 0;
  }
  check_at(layout_block_axis(at, 2) == (whole && rows == 1 ? row : -1), "its blocks", at);
}

/* Two layouts of one shape lie as before, along as few axes as can be. */
static void is_fused (const layout *at, const elements *e) {
  for (int way = 0; way < 3; way++) {
    layout one = *at, other = *at;
    for (int i = 0; i < at->rank; i++)
      other.stride[i] = way == 0 ? at->stride[i] : way == 1 ? 0 : 2 * at->stride[i];
    const elements before = elements_of(&other);
    const layout was = other;
    layout_fuse((layout *[]){&one, &other}, 2);
    const elements a = elements_of(&one), b = elements_of(&other);
    check_at(e->n == 0 || (same(&a, e) && same(&b, &before)), "fused", at);
    check_at(layout_same_shape(&one, &other) && layout_numel(&one) == e->n, "its shape then", at);
    for (int i = 0; i < one.rank; i++) {
      const bool follows = i > 0 && one.stride[i - 1] == one.size[i] * one.stride[i] &&
                           other.stride[i - 1] == one.size[i] * other.stride[i];
      check_at(one.size[i] != 1 && !follows, "as few axes as can be", &was);
    }
  }
}

static void every_layout (void) {
  enum { STRIDES = 10, LEAST = -3 };
  for (int rank = 0; rank <= AXES; rank++) {
    int ways = 1, n = (MOST_SIZE + 1) * STRIDES;
    for (int i = 0; i < rank; i++) ways *= n;
    for (int way = 0; way < ways; way++) {
      layout at = {.rank = rank, .offset = way % 3 + (way % 7 == 0)};
      for (int i = 0, rest = way; i < rank; i++, rest /= n) {
        at.size[i] = rest % (MOST_SIZE + 1);
        at.stride[i] = rest / (MOST_SIZE + 1) % STRIDES + LEAST;
      }
      const elements e = elements_of(&at);
      is_what_it_is(&at, &e);
      has_blocks(&at);
      views_are_right(&at, &e);
      is_fused(&at, &e);
      if (way % 97 == 0 || rank < AXES) is_reshaped_to_all(&at, &e);
    }
  }
}

/* }================================================================== */


/*
** {==================================================================
** Shapes
** ===================================================================
*/

static void shapes_are_bounded (void) {
  const int64_t most = INT64_MAX / 8, half = (int64_t)1 << 30;
  layout at;
  check(layout_dense(&at, 1, &most), "the most elements");
  check(!layout_dense(&at, 1, (int64_t[]){most + 1}), "one more");
  check(layout_dense(&at, 2, (int64_t[]){half - 1, half}), "a product");
  check(!layout_dense(&at, 2, (int64_t[]){half, half}), "a product that is too large");
  check(!layout_dense(&at, 3, (int64_t[]){half, half, 16}), "one that is no number");
  check(!layout_dense(&at, 3, (int64_t[]){0, half, half}), "one beside an empty axis");
  check(!layout_dense(&at, 3, (int64_t[]){half, half, 0}), "one before an empty axis");
  check(!layout_dense(&at, 1, (int64_t[]){-1}), "a negative size");
  check(!layout_dense(&at, -1, NULL) && !layout_dense(&at, HEED_RANK + 1, NULL), "no such rank");
  check(layout_dense(&at, 3, (int64_t[]){2, 0, 3}) && at.stride[0] == 3 && at.stride[1] == 3 &&
        at.stride[2] == 1 && at.offset == 0, "strides beside an empty axis");
  check(layout_dense(&at, 2, (int64_t[]){2, 5}) && at.stride[0] == 5, "strides");
  const int64_t all[] = {INT64_MAX, 1, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, 0};
  char text[LAYOUT_TEXT];
  at.rank = 0;
  check(strcmp(layout_text(&at, text), "()") == 0, "the text of no axes");
  at.rank = HEED_RANK;
  memcpy(at.size, all, sizeof all);
  check(strlen(layout_text(&at, text)) == 6 * 19 + 2 + 7 * 2 + 2 &&
        strncmp(text, "(9223372036854775807, 1, 9", 26) == 0 && strstr(text, ", 0)") != NULL,
        "the longest text");
}

static void shapes_are_compared (void) {
  for (int i = 0; i < 4 * 4 * 4 * 4; i++) {
    const int64_t one[] = {i % 4, i / 4 % 4}, other[] = {i / 16 % 4, i / 64};
    layout a, b, to, wide;
    layout_dense(&a, 2, one);
    layout_dense(&b, 2, other);
    bool fit = true, expands = true;
    int64_t size[2];
    for (int k = 0; k < 2; k++) {
      fit = fit && (one[k] == other[k] || one[k] == 1 || other[k] == 1);
      expands = expands && (one[k] == other[k] || one[k] == 1);
      size[k] = one[k] == 1 ? other[k] : one[k];
    }
    check(layout_same_shape(&a, &b) == (one[0] == other[0] && one[1] == other[1]), "one shape");
    check(layout_broadcast(&a, &b, &to) == fit, "do they broadcast?");
    if (fit) check(to.rank == 2 && to.size[0] == size[0] && to.size[1] == size[1], "to a shape");
    a.offset = 7;
    check(layout_expand(&a, &b, &wide) == expands, "does it expand?");
    if (!expands) continue;
    check(layout_same_shape(&wide, &b) && wide.offset == 7, "to the shape");
    for (int k = 0; k < 2; k++)
      check(wide.stride[k] == (one[k] == 1 ? 0 : a.stride[k]), "its strides");
  }
  layout row, table, to;
  layout_dense(&row, 1, (int64_t[]){3});
  layout_dense(&table, 2, (int64_t[]){2, 3});
  check(!layout_same_shape(&row, &table), "shapes of two ranks");
  check(layout_broadcast(&row, &table, &to) && layout_same_shape(&to, &table), "a row and rows");
  check(layout_broadcast(&table, &row, &to) && layout_same_shape(&to, &table), "rows and a row");
  check(layout_expand(&row, &table, &to) && to.stride[0] == 0 && to.stride[1] == 1,
        "a row as rows");
  check(!layout_expand(&table, &row, &to), "rows as one");
  layout_dense(&row, 1, (int64_t[]){(int64_t)1 << 40});
  layout_dense(&table, 2, (int64_t[]){(int64_t)1 << 40, 1});
  check(!layout_broadcast(&row, &table, &to), "too many elements");
}

static void axes_are_counted (void) {
  for (int rank = 0; rank < 3; rank++)
    for (int64_t axis = -4; axis < 4; axis++) {
      int got = 99, axes = rank > 0 ? rank : 1;
      const bool good = axis >= -axes && axis < axes;
      check(layout_axis(rank, axis, &got) == good, "is there such an axis?");
      if (good) check(got == (axis + axes) % axes, "an axis from either end");
    }
}

static void copies_are_whole (void) {
  for (int rank = 0; rank <= HEED_RANK; rank++) {
    layout at = {.rank = rank, .offset = 5}, to;
    for (int i = 0; i < HEED_RANK; i++) at.size[i] = 2 + i, at.stride[i] = 20 + i;
    memset(&to, 0, sizeof to);
    layout_copy(&to, &at);
    check(to.rank == rank && to.offset == 5 && layout_same_shape(&to, &at) &&
          memcmp(to.stride, at.stride, (size_t)rank * sizeof *to.stride) == 0, "a copy");
  }
}

/* Rows of blocks as bytes: here blocks of 32 elements in 34 bytes. */
static void blocks_are_bytes (void) {
  char data[1];
  layout at = {.rank = 3, .offset = 64, .size = {2, 96, 5}, .stride = {96 * 5, 1, 96}};
  layout bytes = view_bytes_layout(HEED_Q8_0, &at);
  check(bytes.offset == 68 && bytes.size[0] == 2 && bytes.size[1] == 102 && bytes.size[2] == 5 &&
        bytes.stride[0] == 510 && bytes.stride[1] == 1 && bytes.stride[2] == 102, "rows as bytes");
  view v = {.data = data, .type = HEED_Q8_0, .at = at};
  check(view_bytes(v).type == HEED_UINT8 && view_bytes(v).at.size[1] == 102, "a view of bytes");
  for (int i = 0; i < 10; i++)
    check((char *)view_row(&v, 1, i) - data == i / 5 * 510 + i % 5 * 102, "a row");
  v = view_none();
  check(view_is_none(&v) && v.data == NULL && v.type == HEED_BOOL, "no view");
  v.at.rank = 0;
  check(!view_is_none(&v), "a view");
  v.data = data;
  view_clear(&v);
  check(view_is_none(&v) && v.data == NULL && v.type == HEED_BOOL, "a view that is cleared");
  v = view_number((scalar){.type = HEED_INT64, .i = 3});
  check(v.data == NULL && v.type == HEED_INT64 && v.at.rank == 0 && v.at.offset == 0 &&
        v.value.i == 3, "a number as a view");
}

/* }================================================================== */


int main (void) {
  every_layout();
  shapes_are_bounded();
  shapes_are_compared();
  axes_are_counted();
  copies_are_whole();
  blocks_are_bytes();
  if (!failed) puts("layouts: as their elements lie");
  return failed > 0;
}
