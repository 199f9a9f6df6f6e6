/*
** maddubs.h - products of rows that were rounded to 8 bits with blocks, by AVX2's instruction for
** sums of two products of bytes.
**
** An element of y is added up in one order, whatever rows stand beside it: products of a group of w
** are added up exactly, and each group of a span has a sum of its own, which goes on from span to
** span. Two products of quants fit into 16 bits: 63 or 128 times 127, twice.
*/

#ifndef maddubs_h
#define maddubs_h

#include "cpu/blocks/load_avx2.h"
#include "cpu/blocks/round.h"

#if defined(HAS_AVX2) || defined(HAS_AVX512)

#define HAS_MADDUBS 1
#define MADDUBS_ROWS 4             /* of x, at a time */

/*
** The numbers of 32 elements, placed as in quant_span. 'up' is what was added to each quant of w,
** whose groups are these.
*/
INLINED void round_numbers (rounded_span *to, int g, int group, int up, float scale,
                            const int32_t sums[2]) {
  for (int half = 0; half < 2; half++) {
    const bool whole = group == ROUND_GROUP;
    const int32_t sum = whole ? sums[0] + sums[1] : sums[half];
    const int place = whole ? g : g / 4 * 8 + half * 4 + g % 4;
    to->scale[place] = scale;
    to->sum[place] = scale * (float)sum;
    to->offset[place] = -up * sum;
  }
}

/* A row of k elements, to be multiplied by rows of w whose groups are these. */
static void round_spans (rounded_span *to, const float *x, int64_t k, int group, int up) {
  for (; k > 0; k -= SPAN, to++)
    for (int g = 0; g < SPAN / ROUND_GROUP; g++, x += ROUND_GROUP) {
      int32_t sums[2] = {0, 0};
      int8_t *q = to->q + g * ROUND_GROUP;
      float scale = 0;
      if (g * ROUND_GROUP < k) scale = round_group(x, q, sums);
      else memset(q, 0, ROUND_GROUP);
      round_numbers(to, g, group, up, scale, sums);
    }
}


/* The facts of a type for which code is made. */
typedef struct quant_form {
  heed_type type;
  int elements, bytes;
  bool least;
  int group, up;
  void (*load) (const uint8_t *at, int n, bool whole, quant_span *to);
} quant_form;


/* The sums of four products each of 32 quants; those of q8_0 have signs, which x takes over. */
INLINED __m256i four_products (const heed_type type, __m256i w, const int8_t *x) {
  const __m256i q = bytes_at((const uint8_t *)x);
  const __m256i two = type == HEED_Q8_0
                      ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w))
                      : _mm256_maddubs_epi16(w, q);
  return _mm256_madd_epi16(two, _mm256_set1_epi16(1));
}

/* In each 128 bits the sums of a, of b, of c and of d there. */
INLINED __m256i sums_by_lanes (__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i ab = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  const __m256i cd = _mm256_add_epi32(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
  return _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
}

/* Products of the quants of a span, or of its first half, added up for each group. */
INLINED void products_of_groups (const heed_type type, const int group, const quant_span *w,
                                 const rounded_span *x, const bool whole, __m256i all[2]) {
  all[1] = _mm256_setzero_si256();
  UNROLL for (int i = 0; i < 2; i++) {
    if (i == 1 && !whole) break;
    __m256i dots[4];
    UNROLL for (int j = 0; j < 4; j++)
      dots[j] = four_products(type, w->q[4 * i + j], x->q + 32 * (4 * i + j));
    all[i] = sums_by_lanes(dots[0], dots[1], dots[2], dots[3]);
  }
  if (group == ROUND_GROUP)
    all[0] = _mm256_add_epi32(_mm256_permute2x128_si256(all[0], all[1], 0x20),
                              _mm256_permute2x128_si256(all[0], all[1], 0x31));
}

/* Adds a span, or its first half, to the sums of its groups. */
INLINED void add_span (const quant_form f, const quant_span *w, const rounded_span *x,
                       const bool whole, __m256 sum[2]) {
  __m256i all[2];
  products_of_groups(f.type, f.group, w, x, whole, all);
  UNROLL for (int i = 0; i < 2; i++) {
    if (f.group == ROUND_GROUP && i == 1) break;
    const __m256i *offset = (const __m256i *)(const void *)x->offset + i;
    if (f.up > 0) all[i] = _mm256_add_epi32(all[i], _mm256_loadu_si256(offset));
    const __m256 scale = _mm256_mul_ps(w->scale[i], _mm256_loadu_ps(x->scale + 8 * i));
    sum[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(all[i]), scale, sum[i]);
    if (f.least) sum[i] = _mm256_fmadd_ps(w->least[i], _mm256_loadu_ps(x->sum + 8 * i), sum[i]);
  }
}

/* Adds the first n blocks of a span, or of its first half, with 'rows' rows of x. */
INLINED void quant_step (const quant_form f, const uint8_t *w, int n, const bool whole,
                         const rounded_span *x, int64_t spans, const int rows,
                         __m256 sum[MADDUBS_ROWS][2]) {
  quant_span s;
  f.load(w, n, whole, &s);
  UNROLL for (int r = 0; r < rows; r++) add_span(f, &s, x + r * spans, whole, sum[r]);
}

/* The products of a row of w, of k elements, with 'rows' rows of x, at intervals of y_row in y. */
INLINED void quant_dots (const quant_form f, const uint8_t *w, bool soon, const rounded_span *x,
                         int64_t k, const int rows, float *y, int64_t y_row, float bias) {
  const int64_t spans = spans_of(k);
  const int blocks = SPAN / f.elements;
  __m256 sum[MADDUBS_ROWS][2];
  UNROLL for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = _mm256_setzero_ps();
  for (; k >= SPAN; k -= SPAN, w += blocks * f.bytes, x++) {
    fetch_row(w, blocks * f.bytes, soon);
    quant_step(f, w, blocks, true, x, spans, rows, sum);
  }
  fetch_row(w, k / f.elements * f.bytes, soon);
  if (k > SPAN / 2) quant_step(f, w, (int)k / f.elements, true, x, spans, rows, sum);
  else if (k > 0) quant_step(f, w, (int)k / f.elements, false, x, spans, rows, sum);
  UNROLL for (int r = 0; r < rows; r++) {
    const __m256 all = f.group == ROUND_GROUP ? sum[r][0] : _mm256_add_ps(sum[r][0], sum[r][1]);
    y[r * y_row] = sum_of_eight(all) + bias;
  }
}

INLINED void quant_columns (const quant_form f, const product_rows *at, const rounded_span *x,
                            int64_t k, const int rows, float *y, int64_t y_row) {
  const uint8_t *w = at->w;
  for (int64_t i = 0; i < at->n; i++, w += at->w_row)
    quant_dots(f, w, at->soon, x, k, rows, y + i, y_row, at->bias != NULL ? at->bias[i] : 0);
}

/* The same with m rows of x, each of which is of whole spans. */
INLINED void quant_products (const quant_form f, const product_rows *at, const rounded_span *x,
                             int64_t k, int64_t m, int64_t y_row) {
  const int64_t spans = spans_of(k);
  float *y = at->y;
  for (; m >= MADDUBS_ROWS; m -= MADDUBS_ROWS) {
    quant_columns(f, at, x, k, MADDUBS_ROWS, y, y_row);
    x += MADDUBS_ROWS * spans;
    y += MADDUBS_ROWS * y_row;
  }
  for (; m > 0; m--, x += spans, y += y_row) quant_columns(f, at, x, k, 1, y, y_row);
}


/* Functions of a type: compilers make code for each. */
typedef struct maddubs_type {
  void (*products) (const product_rows *at, const rounded_span *x, int64_t k, int64_t m,
                    int64_t y_row);
  int group, up;
} maddubs_type;

#define BLOCK(NAME, name, elements, bytes, least, group, ...) \
  static void quant_products_##name (const product_rows *at, const rounded_span *x, int64_t k, \
                                     int64_t m, int64_t y_row) { \
    const quant_form f = {HEED_##NAME, elements, bytes, least, group, UP_##name, quants_##name}; \
    quant_products(f, at, x, k, m, y_row); \
  }
#include "base/blocks.def"

static const maddubs_type maddubs_types[HEED_ALL_TYPES] = {
#define BLOCK(NAME, name, elements, bytes, least, group, ...) \
  [HEED_##NAME] = {quant_products_##name, group, UP_##name},
#include "base/blocks.def"
};

#endif

#endif
