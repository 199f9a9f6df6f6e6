/*
** vnni_many.h - products of many rows that were rounded to 8 bits with blocks: a panel of rows of w
** is interleaved, and each lane of a vector is one of them.
*/

#ifndef vnni_many_h
#define vnni_many_h

#include "cpu/blocks/vnni.h"
#include "cpu/vector/sixteen.h"

#if defined(HAS_VNNI)

#define VNNI_TILE 8                /* rows of x */
#define VNNI_HALF VNNI_MANY        /* of a last tile, if no more are left */
#define VNNI_VECTORS 2             /* of columns of y */
#define VNNI_COLUMNS (16 * VNNI_VECTORS)   /* rows of w that are interleaved */

/*
** A panel has these rows of w group by group, as they are used. A group has its quants as loaded,
** of each four elements of each row together; then the scale of each row; then, if the type has it,
** what is least.
*/
static inline int64_t vnni_group_bytes (int group, bool has_least) {
  return VNNI_COLUMNS * (group + (has_least ? 2 : 1) * (int64_t)sizeof(float));
}

/* A span of sixteen rows of w, row by row. */
typedef struct vnni_rows_of_span {
  __m512i q[VNNI_LANES][16];
  __m512i scale[16], least[16];
} vnni_rows_of_span;


/*
** Rows of x lie in tiles, the spans of a tile's rows together: row r is at x + vnni_place. Those of
** fewer than VNNI_MANY rows make one tile. Otherwise m rows are as many as vnni_padded says.
*/
static inline int64_t vnni_padded (int64_t m) {
  return m < VNNI_MANY ? m : (m + VNNI_HALF - 1) / VNNI_HALF * VNNI_HALF;
}

static inline int64_t vnni_tile_rows (int64_t m, int64_t r) {
  return smaller(vnni_padded(m) - r / VNNI_TILE * VNNI_TILE, VNNI_TILE);
}

static inline int64_t vnni_place (int64_t r, int64_t k) {
  return r / VNNI_TILE * VNNI_TILE * vnni_spans(k) + r % VNNI_TILE;
}


/* So many of the rows, the others zeros. */
INLINED void vnni_load_rows (const heed_type type, const int elements, bool has_least,
                             const uint8_t *w, int64_t w_row, int n, int64_t rows,
                             vnni_rows_of_span *to) {
  for (int r = 0; r < 16; r++, w += w_row) {
    loaded s = {.scale = _mm512_setzero_ps(), .least = _mm512_setzero_ps()};
    UNROLL for (int i = 0; i < SPAN_VECTORS; i++) s.q[i] = _mm512_setzero_si512();
    if (r < rows && n == SPAN / elements) load_span(type, w, SPAN / elements, &s);
    else if (r < rows) load_span(type, w, n, &s);
    UNROLL for (int i = 0; i < VNNI_LANES; i++) to->q[i][r] = s.q[i];
    to->scale[r] = _mm512_castps_si512(s.scale);
    if (has_least) to->least[r] = _mm512_castps_si512(s.least);
  }
}


/* Facts and functions of a type; compilers make code for each. */
typedef struct vnni_type {
  void (*products) (const vnni_rows *at, const vnni_span *x, int64_t k, int64_t m, int64_t y_row);
  void (*load_rows) (const uint8_t *w, int64_t w_row, int n, int64_t rows, vnni_rows_of_span *to);
  int elements, zero, group;
  bool least, across;
} vnni_type;

#define BLOCK(NAME, name, elements, bytes, least, group, ...) \
  VNNI static void vnni_products_##name (const vnni_rows *at, const vnni_span *x, int64_t k, \
                                         int64_t m, int64_t y_row) { \
    vnni_products(HEED_##NAME, elements, bytes, least, group, at, x, k, m, y_row); \
  } \
  static void vnni_load_rows_##name (const uint8_t *w, int64_t w_row, int n, int64_t rows, \
                                     vnni_rows_of_span *to) { \
    vnni_load_rows(HEED_##NAME, elements, least, w, w_row, n, rows, to); \
  }
#include "base/blocks.def"

static const vnni_type vnni_types[HEED_ALL_TYPES] = {
#define BLOCK(NAME, name, elements, bytes, least, group, ...) \
  [HEED_##NAME] = {vnni_products_##name, vnni_load_rows_##name, elements, ZERO_##name, group, \
                   least, LOW_##name > 0},
#include "base/blocks.def"
};


static int64_t vnni_panel_bytes (const vnni_type *t, int64_t k) {
  return k / t->group * vnni_group_bytes(t->group, t->least);
}


/* Quants of sixteen rows, of the first k elements of a span: c is in the first group. */
INLINED void vnni_pack_quants (uint8_t *c, int64_t each, const vnni_rows_of_span *s, int group,
                               int64_t k) {
  for (int e = 0; e < k; e += DECODE_GROUP) {
    __m512i v[4];
    four_columns(s->q[e / LANE], e % LANE / 4, v);
    uint8_t *to = c + e / group * each + e % group * VNNI_COLUMNS;
    UNROLL for (int i = 0; i < 4; i++) _mm512_store_si512(to + 4 * i * VNNI_COLUMNS, v[i]);
  }
}

/* Their numbers, which stand as in 'loaded': those of four lanes together. */
INLINED void vnni_pack_numbers (uint8_t *c, int64_t each, const __m512i rows[16], int group,
                                int64_t k) {
  for (int e = 0; e < LANE; e += group) {
    __m512i v[4];
    four_columns(rows, e / DECODE_GROUP * 4, v);
    for (int i = 0; i < VNNI_LANES && i * LANE + e < k; i++)
      _mm512_store_si512(c + (i * LANE + e) / group * each, v[i]);
  }
}


/* Interleaves rows of w, of k elements each; those beyond 'rows' are zeros. */
static void vnni_pack (uint8_t *to, const vnni_type *t, const uint8_t *w, int64_t w_row,
                       int64_t bytes, int64_t k, int64_t rows) {
  const int64_t each = vnni_group_bytes(t->group, t->least);
  const int64_t numbers = VNNI_COLUMNS * (int64_t)sizeof(float);
  vnni_rows_of_span s;
  for (; k > 0; k -= SPAN, w += bytes, to += SPAN / t->group * each)
    for (int c = 0; c < VNNI_COLUMNS; c += 16) {
      const int64_t some = smaller(k, SPAN);
      uint8_t *at = to + 4 * c, *number = at + VNNI_COLUMNS * t->group;
      t->load_rows(w + c * w_row, w_row, (int)some / t->elements, rows - c, &s);
      vnni_pack_quants(at, each, &s, t->group, some);
      vnni_pack_numbers(number, each, s.scale, t->group, some);
      if (t->least) vnni_pack_numbers(number + numbers, each, s.least, t->group, some);
    }
}


/* Sums of each group of spans, for rows of x and columns of a panel. */
typedef __m512 vnni_sums[SPAN / DECODE_GROUP][VNNI_TILE][VNNI_VECTORS];


/*
** A panel, and the n columns of y that belong to its rows; 'bias' is NULL, or has a number for
** each. What is read next is fetched while products are made, 'each' bytes with a group: many lines
** on their way at once would hold up what is read meanwhile.
*/
typedef struct vnni_columns {
  const uint8_t *w;
  int64_t k, n, y_row, each;
  float *y;
  const float *bias;
  const uint8_t *ahead;
} vnni_columns;

/* So many bytes, with products of m rows of x. */
static void vnni_look_ahead (vnni_columns *c, const vnni_type *t, const uint8_t *ahead,
                             int64_t bytes, int64_t m) {
  const int64_t groups = (m + VNNI_TILE - 1) / VNNI_TILE * (c->k / t->group);
  c->ahead = ahead;
  c->each = bytes / groups + 1;
}

INLINED void vnni_fetch (vnni_columns *c) {
  for (int64_t i = 0; i < c->each; i += 64) fetch_far(c->ahead + i, 64);
  c->ahead += c->each;
}


/*
** Adds a group, from element e of a span on, of 'rows' rows of x and all columns of a panel, to its
** sums; the first span's are all there is of them.
*/
VNNI INLINED void vnni_group (const uint8_t *w, const vnni_span *x, int e, const bool is_first,
                              bool has_least, const int group, const int rows,
                              __m512 sum[VNNI_TILE][VNNI_VECTORS]) {
  const int number = 4 * (e % LANE / DECODE_GROUP) + e / LANE;
  const float *numbers = (const float *)(const void *)(w + VNNI_COLUMNS * group);
  __m512i all[VNNI_TILE][VNNI_VECTORS];
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int v = 0; v < VNNI_VECTORS; v++)
      all[r][v] = _mm512_set1_epi32(x[r].offset[number]);
  UNROLL for (int j = 0; j < group / 4; j++)
    UNROLL for (int r = 0; r < rows; r++) {
      int32_t four;
      memcpy(&four, x[r].q + e + 4 * j, sizeof four);
      UNROLL for (int v = 0; v < VNNI_VECTORS; v++)
        all[r][v] = _mm512_dpbusd_epi32(all[r][v],
                                        _mm512_load_si512(w + 4 * (j * VNNI_COLUMNS + 16 * v)),
                                        _mm512_set1_epi32(four));
    }
  UNROLL for (int v = 0; v < VNNI_VECTORS; v++) {
    const __m512 scale = _mm512_load_ps(numbers + 16 * v);
    UNROLL for (int r = 0; r < rows; r++) {
      const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x[r].scale[number]));
      const __m512 before = is_first ? _mm512_setzero_ps() : sum[r][v];
      sum[r][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(all[r][v]), both, before);
    }
    if (!has_least) continue;
    const __m512 least = _mm512_load_ps(numbers + VNNI_COLUMNS + 16 * v);
    UNROLL for (int r = 0; r < rows; r++)
      sum[r][v] = _mm512_fmadd_ps(least, _mm512_set1_ps(x[r].sum[number]), sum[r][v]);
  }
}


/* The groups of a span; 'next' is the same span of the next tile of x. */
VNNI INLINED void vnni_add_span (vnni_columns *c, const uint8_t *w, const vnni_span *x,
                                 const vnni_span *next, int64_t k, const bool is_first,
                                 bool has_least, const int group, const int rows, vnni_sums sum) {
  for (int g = 0; g < SPAN / group; g++) {
    if (g < rows) fetch_near(next + g, sizeof *next);
    if (g * group < k) {
      vnni_fetch(c);
      vnni_group(w + g * vnni_group_bytes(group, has_least), x, g * group, is_first, has_least,
                 group, rows, sum[g]);
    }
    else if (is_first) memset(sum[g], 0, sizeof sum[g]);
  }
}


/* Of all rows of a tile, which are at x, m rows of y from row i on. */
VNNI INLINED void vnni_tile (vnni_columns *c, const vnni_span *x, int64_t i, int64_t m,
                             bool has_least, const int group, const int rows) {
  const int64_t spans = vnni_spans(c->k);
  const int64_t bytes = SPAN / group * vnni_group_bytes(group, has_least);
  float *y = c->y + i * c->y_row;
  vnni_sums sum;
  for (int r = 0; r < m; r++)
    for (int v = 0; v < VNNI_VECTORS; v++) __builtin_prefetch(y + r * c->y_row + 16 * v, 1);
  vnni_add_span(c, c->w, x, x + spans * rows, c->k, true, has_least, group, rows, sum);
  for (int64_t s = 1; s < spans; s++)
    vnni_add_span(c, c->w + s * bytes, x + s * rows, x + (spans + s) * rows, c->k - s * SPAN, false,
                  has_least, group, rows, sum);
  for (int v = 0; v < VNNI_VECTORS && c->n > 16 * v; v++) {
    const int64_t n = smaller(c->n - 16 * v, 16);
    const __mmask16 some = (__mmask16)((1u << n) - 1);
    const __m512 bias = c->bias != NULL ? _mm512_maskz_loadu_ps(some, c->bias + 16 * v)
                                        : _mm512_setzero_ps();
    for (int r = 0; r < m; r++) {                                    /* as vnni_sum */
      __m512 lane[VNNI_LANES];
      UNROLL for (int l = 0; l < VNNI_LANES; l++) {
        const int g = l * (LANE / group);
        lane[l] = _mm512_add_ps(sum[g][r][v], sum[g + 1][r][v]);
        if (group == DECODE_GROUP)
          lane[l] = _mm512_add_ps(lane[l], _mm512_add_ps(sum[g + 2][r][v], sum[g + 3][r][v]));
      }
      const __m512 even = _mm512_add_ps(lane[0], lane[2]), odd = _mm512_add_ps(lane[1], lane[3]);
      _mm512_mask_storeu_ps(y + r * c->y_row + 16 * v, some,
                            _mm512_add_ps(_mm512_add_ps(even, odd), bias));
    }
  }
}


/* Rows of y from 'first' on, where a tile begins; x has all of them. */
VNNI INLINED void vnni_tiles (vnni_columns *c, const vnni_span *x, int64_t first, int64_t end,
                              bool has_least, const int group) {
  for (int64_t i = first; i < end; i += VNNI_TILE) {
    const int64_t m = smaller(end - i, VNNI_TILE);
    const vnni_span *rows = x + vnni_place(i, c->k);
    if (m > VNNI_HALF) vnni_tile(c, rows, i, m, has_least, group, VNNI_TILE);
    else vnni_tile(c, rows, i, m, has_least, group, VNNI_HALF);
  }
}

VNNI static void vnni_multiply (const vnni_type *t, vnni_columns *c, const vnni_span *x,
                                int64_t first, int64_t end) {
  if (t->group == DECODE_GROUP && t->least) vnni_tiles(c, x, first, end, true, DECODE_GROUP);
  else if (t->group == DECODE_GROUP) vnni_tiles(c, x, first, end, false, DECODE_GROUP);
  else if (t->least) vnni_tiles(c, x, first, end, true, ROUND_GROUP);
  else vnni_tiles(c, x, first, end, false, ROUND_GROUP);
}

#endif

#endif
