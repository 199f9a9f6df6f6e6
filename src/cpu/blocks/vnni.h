/*
** vnni.h - products of rows that were rounded to 8 bits with blocks, by AVX-512's instruction for
** dot products of four bytes (VNNI). One row of x goes along k; of several rows each lane is a row
** of w, thirty-two of which lie interleaved.
**
** Either way an element of y is added up in one order: in SPAN elements group g of DECODE_GROUP
** stands in lane 4 (g % 4) + g / 4, which is where sums of four vectors of dot products come out; a
** lane adds up its groups of all spans, and block_sum the lanes. A quant of w, plus 128, is
** unsigned, as the instruction wants it; 'offset' is what that adds to a group, and is taken off.
*/

#ifndef vnni_h
#define vnni_h

#include "cpu/blocks/round.h"

#if defined(HAS_AVX512) && !defined(__clang__)

#define HAS_VNNI 1
#define VNNI __attribute__((target("avx512vnni")))
#define VNNI_ROWS 4                /* of x, whose sums stay in registers */
#define VNNI_VECTORS 2             /* of columns of y */
#define VNNI_COLUMNS (16 * VNNI_VECTORS)   /* rows of w that are interleaved */
#define VNNI_MANY 12               /* rows of x for which w is interleaved */

#define VNNI_SHIFT(zero) (__builtin_ctz(128) - __builtin_ctz(zero))     /* 128 >> shift is zero */

/* SPAN elements of a row of x, the end of a row filled with zeros; numbers of groups by lanes. */
typedef struct vnni_span {
  int8_t q[SPAN];
  float scale[SPAN_GROUPS], sum[SPAN_GROUPS];      /* sum: of its elements' values */
  int32_t offset[SPAN_GROUPS];                     /* -128 times the sum of its quants */
} vnni_span;

/* SPAN elements of these rows of w: of each lane quants plus 128, four of each row together. */
typedef struct vnni_panel {
  uint8_t q[SPAN_GROUPS][DECODE_GROUP / 4][VNNI_COLUMNS][4];
  float scale[SPAN_GROUPS][VNNI_COLUMNS], least[SPAN_GROUPS][VNNI_COLUMNS];
} vnni_panel;


static inline bool has_vnni (void) { return __builtin_cpu_supports("avx512vnni"); }

static inline int64_t vnni_spans (int64_t k) { return (k + SPAN - 1) / SPAN; }

/* The group that stands in a lane of a span's numbers. */
INLINED int group_of_lane (int lane) { return 4 * (lane % 4) + lane / 4; }

/* In each 128 bits the sums of a, of b, of c and of d there. */
INLINED __m512i sums_of_four (__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}


/* A group of ROUND_GROUP elements, as round_row rounds it; its scale. */
INLINED float vnni_round_group (const float *x, int8_t *q) {
  const __m512 v[2] = {_mm512_loadu_ps(x), _mm512_loadu_ps(x + 16)};
  const __m512i sizes = _mm512_max_epi32(_mm512_castps_si512(_mm512_abs_ps(v[0])),
                                         _mm512_castps_si512(_mm512_abs_ps(v[1])));
  const float most = as_float((uint32_t)_mm512_reduce_max_epi32(sizes));
  if (!(most <= FLT_MAX)) return (float)NAN;
  if (most < 128 * FLT_MIN) return 0;
  UNROLL for (int i = 0; i < 2; i++) {
    const __m512 y = _mm512_mul_ps(v[i], _mm512_set1_ps(127 / most));
    const __m512 half = _mm512_or_ps(_mm512_and_ps(y, _mm512_set1_ps(-0.0f)), _mm512_set1_ps(0.5f));
    _mm_storeu_si128((__m128i *)(void *)(q + 16 * i),
                     _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(_mm512_add_ps(y, half))));
  }
  return most / 127;
}


/* A row of k elements. */
VNNI static void vnni_round (vnni_span *to, const float *x, int64_t k) {
  const __m512i lanes = _mm512_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6, 1, 3, 5, 7, 1, 3, 5, 7);
  for (; k > 0; k -= SPAN, x += SPAN, to++) {
    float scale[16] = {0};
    __m512i dots[SPAN_VECTORS];
    memset(to->q, 0, sizeof to->q);
    for (int g = 0; g < smaller(k, SPAN) / ROUND_GROUP; g++)
      scale[g] = vnni_round_group(x + g * ROUND_GROUP, to->q + g * ROUND_GROUP);
    UNROLL for (int i = 0; i < SPAN_VECTORS; i++)
      dots[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1),
                                    _mm512_load_si512(to->q + 64 * i));
    const __m512i sums = sums_of_four(dots[0], dots[1], dots[2], dots[3]);
    const __m512 each = _mm512_permutexvar_ps(lanes, _mm512_loadu_ps(scale));
    _mm512_store_ps(to->scale, each);
    _mm512_store_ps(to->sum, _mm512_mul_ps(each, _mm512_cvtepi32_ps(sums)));
    _mm512_store_si512(to->offset, _mm512_sub_epi32(_mm512_setzero_si512(),
                                                    _mm512_slli_epi32(sums, 7)));
  }
}


/* The sums of 'rows' rows of x and the first n blocks of a span of w. */
VNNI INLINED void vnni_step (const heed_type type, bool has_least, const uint8_t *w, int n,
                             const vnni_span *x, int64_t spans, const int rows, __m512 *sum) {
  loaded s;
  load_span(type, w, n, &s);
  UNROLL for (int r = 0; r < rows; r++) {
    const vnni_span *each = x + r * spans;
    __m512i dots[SPAN_VECTORS], offset = _mm512_load_si512(each->offset);
    UNROLL for (int i = 0; i < SPAN_VECTORS; i++)
      dots[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), s.q[i],
                                    _mm512_load_si512(each->q + 64 * i));
    __m512i all = sums_of_four(dots[0], dots[1], dots[2], dots[3]);
    if (loaded_zero(type) > 0)
      all = _mm512_add_epi32(all, _mm512_srai_epi32(offset, VNNI_SHIFT(loaded_zero(type))));
    sum[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(all),
                             _mm512_mul_ps(s.scale, _mm512_load_ps(each->scale)), sum[r]);
    if (has_least) sum[r] = _mm512_fmadd_ps(s.least, _mm512_load_ps(each->sum), sum[r]);
  }
}


/* The products of a row of w, of k elements, with some rows of x, at intervals of y_row in y. */
VNNI INLINED void vnni_dots (const heed_type type, const int elements, const int bytes,
                             bool has_least, const uint8_t *w, const vnni_span *x, int64_t k,
                             const int rows, float *y, int64_t y_row, float bias) {
  const int64_t spans = vnni_spans(k);
  __m512 sum[VNNI_ROWS];
  UNROLL for (int r = 0; r < rows; r++) sum[r] = _mm512_setzero_ps();
  for (; k >= SPAN; k -= SPAN, w += SPAN / elements * bytes, x++) {
    UNROLL for (int i = 0; i < SPAN / elements * bytes; i += 64)
      __builtin_prefetch(w + BLOCKS_AHEAD + i);
    vnni_step(type, has_least, w, SPAN / elements, x, spans, rows, sum);
  }
  if (k > 0) vnni_step(type, has_least, w, (int)k / elements, x, spans, rows, sum);
  UNROLL for (int r = 0; r < rows; r++) y[r * y_row] = block_sum((block_lanes)sum[r]) + bias;
}


/* The same with m rows. */
VNNI INLINED void vnni_products (const heed_type type, const int elements, const int bytes,
                                 bool has_least, const uint8_t *w, const vnni_span *x, int64_t k,
                                 int64_t m, float *y, int64_t y_row, float bias) {
  const int64_t spans = vnni_spans(k);
  for (; m >= VNNI_ROWS; m -= VNNI_ROWS, x += VNNI_ROWS * spans, y += VNNI_ROWS * y_row)
    vnni_dots(type, elements, bytes, has_least, w, x, k, VNNI_ROWS, y, y_row, bias);
  for (; m > 0; m--, x += spans, y += y_row)
    vnni_dots(type, elements, bytes, has_least, w, x, k, 1, y, y_row, bias);
}


typedef void (*vnni_row) (const uint8_t *w, const vnni_span *x, int64_t k, int64_t m, float *y,
                          int64_t y_row, float bias);

#define BLOCK(NAME, name, elements, bytes, least, ...) \
  VNNI static void vnni_row_##name (const uint8_t *w, const vnni_span *x, int64_t k, int64_t m, \
                                    float *y, int64_t y_row, float bias) { \
    vnni_products(HEED_##NAME, elements, bytes, least, w, x, k, m, y, y_row, bias); \
  }
#include "base/blocks.def"

static const vnni_row vnni_rows[HEED_ALL_TYPES] = {
#define BLOCK(NAME, name, ...) [HEED_##NAME] = vnni_row_##name,
#include "base/blocks.def"
};


/* A span of w, the end of a row filled with zeros. */
INLINED void vnni_decode (const decoder *d, const uint8_t *w, int64_t left, span *s) {
  if (left < SPAN) memset(s, 0, sizeof *s);
  d->decode(w, (int)smaller(left, SPAN), s);
}


/* Sixteen vectors of 16 numbers, transposed. */
INLINED void vnni_transpose (__m512i v[16]) {
  __m512i four[4][4];              /* [k][m]: columns m, 4 + m, 8 + m, 12 + m of rows 4 k … */
  UNROLL for (int k = 0; k < 4; k++) {
    const __m512i *r = v + 4 * k;
    const __m512i a = _mm512_unpacklo_epi32(r[0], r[1]), b = _mm512_unpackhi_epi32(r[0], r[1]);
    const __m512i c = _mm512_unpacklo_epi32(r[2], r[3]), d = _mm512_unpackhi_epi32(r[2], r[3]);
    four[k][0] = _mm512_unpacklo_epi64(a, c);
    four[k][1] = _mm512_unpackhi_epi64(a, c);
    four[k][2] = _mm512_unpacklo_epi64(b, d);
    four[k][3] = _mm512_unpackhi_epi64(b, d);
  }
  UNROLL for (int m = 0; m < 4; m++) {
    const __m512i a = _mm512_shuffle_i32x4(four[0][m], four[1][m], 0x44);
    const __m512i b = _mm512_shuffle_i32x4(four[0][m], four[1][m], 0xee);
    const __m512i c = _mm512_shuffle_i32x4(four[2][m], four[3][m], 0x44);
    const __m512i d = _mm512_shuffle_i32x4(four[2][m], four[3][m], 0xee);
    v[m] = _mm512_shuffle_i32x4(a, c, 0x88);
    v[4 + m] = _mm512_shuffle_i32x4(a, c, 0xdd);
    v[8 + m] = _mm512_shuffle_i32x4(b, d, 0x88);
    v[12 + m] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
}


/* Numbers of groups of sixteen spans, to lines of lanes. */
INLINED void vnni_pack_numbers (float (*to)[VNNI_COLUMNS], const float *from) {
  const int64_t step = sizeof(span) / sizeof(float);
  __m512i v[16];
  UNROLL for (int c = 0; c < 16; c++) v[c] = _mm512_loadu_si512(from + c * step);
  vnni_transpose(v);
  UNROLL for (int lane = 0; lane < SPAN_GROUPS; lane++)
    _mm512_store_si512(to[lane], v[group_of_lane(lane)]);
}


/* Interleaves rows of w, of k elements each; those beyond 'rows' are zeros. */
static void vnni_pack (vnni_panel *to, const decoder *d, const uint8_t *w, int64_t w_row,
                       heed_type type, int64_t k, int64_t rows) {
  const int64_t bytes = scalar_bytes(type, SPAN);
  span s[16];
  for (; k > 0; k -= SPAN, w += bytes, to++)
    for (int c = 0; c < VNNI_COLUMNS; c += 16) {
      for (int i = 0; i < 16; i++)
        if (c + i < rows) vnni_decode(d, w + (c + i) * w_row, k, s + i);
        else memset(s + i, 0, sizeof *s);
      for (int i = 0; i < SPAN_VECTORS; i++) {
        __m512i v[16];
        UNROLL for (int r = 0; r < 16; r++)
          v[r] = _mm512_xor_si512(_mm512_loadu_si512(s[r].q + 64 * i),
                                  _mm512_set1_epi8((char)0x80));
        vnni_transpose(v);
        UNROLL for (int j = 0; j < 16; j++)
          _mm512_store_si512(to->q[j / 4 * 4 + i][j % 4][c], v[j]);
      }
      vnni_pack_numbers((float (*)[VNNI_COLUMNS])&to->scale[0][c], s->scale);
      if (d->least) vnni_pack_numbers((float (*)[VNNI_COLUMNS])&to->least[0][c], s->least);
    }
}


typedef __m512 vnni_sums[VNNI_ROWS][VNNI_VECTORS][SPAN_GROUPS];

/* A lane of all spans that have its group, for some rows of x, of k elements, and all columns. */
VNNI INLINED void vnni_lane (const vnni_panel *w, const vnni_span *x, int64_t k, int lane,
                             bool has_least, const int rows, vnni_sums *to) {
  const int group = group_of_lane(lane) * DECODE_GROUP;
  const int64_t spans = vnni_spans(k), end = spans - (k - (spans - 1) * SPAN <= group);
  __m512 sum[VNNI_ROWS][VNNI_VECTORS];
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int v = 0; v < VNNI_VECTORS; v++) sum[r][v] = _mm512_setzero_ps();
  for (int64_t i = 0; i < end; i++, w++, x++) {
    __m512i all[VNNI_ROWS][VNNI_VECTORS];
    UNROLL for (int r = 0; r < rows; r++)
      UNROLL for (int v = 0; v < VNNI_VECTORS; v++)
        all[r][v] = _mm512_set1_epi32(x[r * spans].offset[lane]);
    UNROLL for (int j = 0; j < DECODE_GROUP / 4; j++)
      UNROLL for (int r = 0; r < rows; r++) {
        int32_t four;
        memcpy(&four, x[r * spans].q + group + 4 * j, sizeof four);
        UNROLL for (int v = 0; v < VNNI_VECTORS; v++)
          all[r][v] = _mm512_dpbusd_epi32(all[r][v], _mm512_load_si512(w->q[lane][j][16 * v]),
                                          _mm512_set1_epi32(four));
      }
    UNROLL for (int v = 0; v < VNNI_VECTORS; v++) {
      const __m512 scale = _mm512_load_ps(w->scale[lane] + 16 * v);
      UNROLL for (int r = 0; r < rows; r++) {
        const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x[r * spans].scale[lane]));
        sum[r][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(all[r][v]), both, sum[r][v]);
      }
      if (!has_least) continue;
      const __m512 least = _mm512_load_ps(w->least[lane] + 16 * v);
      UNROLL for (int r = 0; r < rows; r++)
        sum[r][v] = _mm512_fmadd_ps(least, _mm512_set1_ps(x[r * spans].sum[lane]), sum[r][v]);
    }
  }
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int v = 0; v < VNNI_VECTORS; v++) (*to)[r][v][lane] = sum[r][v];
}


/* Some rows of y, and those columns of the panel that there are. */
VNNI INLINED void vnni_tile (const vnni_panel *w, const vnni_span *x, int64_t k, bool has_least,
                             const int rows, float *y, int64_t y_row, const float *bias,
                             int64_t columns) {
  vnni_sums all;
  for (int lane = 0; lane < SPAN_GROUPS; lane++)
    vnni_lane(w, x, k, lane, has_least, rows, &all);
  for (int v = 0; v < VNNI_VECTORS && columns > 16 * v; v++) {
    const int64_t n = smaller(columns - 16 * v, 16);
    const __mmask16 some = (__mmask16)((1u << n) - 1);
    for (int r = 0; r < rows; r++) {
      __m512 *sum = all[r][v];
      for (int half = SPAN_GROUPS / 2; half > 0; half /= 2)        /* as block_sum */
        for (int i = 0; i < half; i++) sum[i] = _mm512_add_ps(sum[i], sum[half + i]);
      if (bias != NULL) sum[0] = _mm512_add_ps(sum[0], _mm512_maskz_loadu_ps(some, bias + 16 * v));
      _mm512_mask_storeu_ps(y + r * y_row + 16 * v, some, sum[0]);
    }
  }
}


/* Columns of a panel, of m rows of y. */
VNNI static void vnni_columns (const vnni_panel *w, const vnni_span *x, int64_t k, int64_t m,
                               bool has_least, float *y, int64_t y_row, const float *bias,
                               int64_t columns) {
  const int64_t spans = vnni_spans(k);
  int64_t r = 0;
  for (; r + VNNI_ROWS <= m; r += VNNI_ROWS)
    vnni_tile(w, x + r * spans, k, has_least, VNNI_ROWS, y + r * y_row, y_row, bias, columns);
  for (; r < m; r++)
    vnni_tile(w, x + r * spans, k, has_least, 1, y + r * y_row, y_row, bias, columns);
}

#endif

#endif
