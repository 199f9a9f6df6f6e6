/*
** vnni_many.h - products of panels (vnni_panel.h) with rows of x that were rounded to 8 bits: each
** lane of a vector is a row of w.
**
** Many rows are multiplied by wide panels, which are made for the product. Kept panels are
** multiplied as they lie if their quants are bytes, or if the rows are few: they are read as fast
** as memory gives them.
*/

#ifndef vnni_many_h
#define vnni_many_h

#include "cpu/blocks/vnni_panel.h"

#if defined(HAS_VNNI)

#define VNNI_TILE 8                /* rows of x */
#define VNNI_HALF VNNI_MANY        /* of a last tile, if no more are left; or of all */


/*
** Rows of x lie in tiles of 'most' rows at most, the spans of a tile's rows together: row r is at
** x + vnni_place. Those of fewer than VNNI_MANY rows make one tile, or one each. Otherwise m rows
** are as many as vnni_padded says.
*/
static inline int64_t vnni_padded (int64_t m) {
  return m < VNNI_MANY ? m : (m + VNNI_HALF - 1) / VNNI_HALF * VNNI_HALF;
}

static inline int64_t vnni_tile_rows (int64_t m, int64_t r, int64_t most) {
  return smaller(vnni_padded(m) - r / most * most, most);
}

static inline int64_t vnni_place (int64_t r, int64_t k, int64_t most) {
  return r / most * most * spans_of(k) + r % most;
}


/*
** A panel, and the columns of y from that of its first row on, n of them; 'bias' is NULL, or has a
** number for each. Bytes that are read next are fetched while products are made, 'each' with a
** group: many lines on their way at once would hold up what is read meanwhile.
*/
typedef struct vnni_columns {
  const uint8_t *w;
  int64_t k, n, y_row, each;
  float *y;
  const float *bias;
  const uint8_t *ahead;
} vnni_columns;

/* So many bytes, with products of m rows of x, in tiles of 'most' rows. */
static void vnni_look_ahead (vnni_columns *c, int group, int64_t bytes, int64_t m, int64_t most) {
  const int64_t groups = (m + most - 1) / most * (c->k / group);
  c->each = bytes / groups + 1;
}

INLINED void vnni_fetch (vnni_columns *c) {
  for (int64_t i = 0; i < c->each; i += 64) fetch_far(c->ahead + i, 64);
  c->ahead += c->each;
}


/*
** Sums of each group of spans: of a group those of rows of x, of each those of columns of a panel.
*/
typedef __m512 vnni_sums[SPAN / DECODE_GROUP * VNNI_TILE * VNNI_VECTORS];

/*
** Adds a group, from element e of a span on, of 'rows' rows of x and all columns of a panel, to its
** sums; the first span's are all there is of them.
*/
VNNI INLINED void vnni_group (const panel_form f, const panel_factors *by, const uint8_t *w,
                              const rounded_span *x, int e, const bool is_first, const int rows,
                              __m512 *sum) {
  const int number = 4 * (e % LANE / DECODE_GROUP) + e / LANE;
  __m512i all[VNNI_TILE][VNNI_VECTORS];
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int v = 0; v < VNNI_VECTORS; v++)
      all[r][v] = _mm512_set1_epi32(x[r].offset[number]);
  UNROLL for (int step = 0; step < f.group / 4; step++) {
    __m512i q[VNNI_VECTORS];
    UNROLL for (int v = 0; v < VNNI_VECTORS; v++) q[v] = panel_quants(f, w, step, v);
    UNROLL for (int r = 0; r < rows; r++) {
      int32_t four;
      memcpy(&four, x[r].q + e + 4 * step, sizeof four);
      UNROLL for (int v = 0; v < VNNI_VECTORS; v++)
        all[r][v] = _mm512_dpbusd_epi32(all[r][v], q[v], _mm512_set1_epi32(four));
    }
    if (rows == 1) IN_ORDER();     /* a row waits for memory, which is fastest so (vnni_panel.h) */
  }
  UNROLL for (int v = 0; v < VNNI_VECTORS; v++) {
    const __m512 scale = panel_number(f, by, w, false, v);
    UNROLL for (int r = 0; r < rows; r++) {
      __m512 *to = sum + r * VNNI_VECTORS + v;
      const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x[r].scale[number]));
      const __m512 before = is_first ? _mm512_setzero_ps() : *to;
      *to = _mm512_fmadd_ps(_mm512_cvtepi32_ps(all[r][v]), both, before);
    }
    if (!f.least) continue;
    const __m512 least = panel_number(f, by, w, true, v);
    UNROLL for (int r = 0; r < rows; r++) {
      __m512 *to = sum + r * VNNI_VECTORS + v;
      *to = _mm512_fmadd_ps(least, _mm512_set1_ps(x[r].sum[number]), *to);
    }
  }
}


/* The groups of a span, at w; 'next' is the same span of the next tile of x. */
VNNI INLINED void vnni_add_span (vnni_columns *c, const panel_form f, const uint8_t *w,
                                 const rounded_span *x, const rounded_span *next, int64_t k,
                                 const bool is_first, const int rows, vnni_sums sum) {
  const panel_factors by = panel_begin(f, w);
  const uint8_t *at = w + panel_head(f);
  for (int g = 0; g < SPAN / f.group; g++, at += panel_group(f)) {
    __m512 *to = sum + g * rows * VNNI_VECTORS;
    if (rows > 1 && g < rows) fetch_near(next + g, sizeof *next);
    if (g * f.group < k) {
      vnni_fetch(c);
      vnni_group(f, &by, at, x, g * f.group, is_first, rows, to);
    }
    else if (is_first) memset(to, 0, (size_t)(rows * VNNI_VECTORS) * sizeof *to);
  }
}


/* The sums of all groups, at intervals of 'each', as one number of each row of w: as vnni_sum. */
INLINED __m512 vnni_total (const __m512 *sum, int each, const int group) {
  __m512 lane[VNNI_LANES];
  UNROLL for (int l = 0; l < VNNI_LANES; l++) {
    const __m512 *at = sum + l * (LANE / group) * each;
    lane[l] = _mm512_add_ps(at[0], at[each]);
    if (group == DECODE_GROUP)
      lane[l] = _mm512_add_ps(lane[l], _mm512_add_ps(at[2 * each], at[3 * each]));
  }
  return _mm512_add_ps(_mm512_add_ps(lane[0], lane[2]), _mm512_add_ps(lane[1], lane[3]));
}

/* Of all rows of a tile, which are at x, m rows of y from row i on. */
VNNI INLINED void vnni_tile (vnni_columns *c, const panel_form f, const rounded_span *x, int64_t i,
                             int64_t m, const int rows) {
  const int64_t spans = spans_of(c->k);
  const int64_t bytes = panel_bytes(f, SPAN);
  float *y = c->y + i * c->y_row;
  vnni_sums sum;
  for (int r = 0; r < m; r++)
    for (int v = 0; v < VNNI_VECTORS; v++) __builtin_prefetch(y + r * c->y_row + 16 * v, 1);
  vnni_add_span(c, f, c->w, x, x + spans * rows, c->k, true, rows, sum);
  for (int64_t s = 1; s < spans; s++)
    vnni_add_span(c, f, c->w + s * bytes, x + s * rows, x + (spans + s) * rows, c->k - s * SPAN,
                  false, rows, sum);
  for (int v = 0; v < VNNI_VECTORS && c->n > 16 * v; v++) {
    const __mmask16 some = (__mmask16)((1u << smaller(c->n - 16 * v, 16)) - 1);
    const __m512 bias = c->bias != NULL ? _mm512_maskz_loadu_ps(some, c->bias + 16 * v)
                                        : _mm512_setzero_ps();
    for (int r = 0; r < m; r++) {
      const __m512 *of_row = sum + r * VNNI_VECTORS + v;
      _mm512_mask_storeu_ps(y + r * c->y_row + 16 * v, some,
                            _mm512_add_ps(vnni_total(of_row, rows * VNNI_VECTORS, f.group), bias));
    }
  }
}


/* Rows of y from 'first' on, where a tile begins; x has all of them. */
VNNI INLINED void vnni_tiles (vnni_columns *c, const panel_form f, const rounded_span *x,
                              int64_t first, int64_t end, const int most) {
  for (int64_t i = first; i < end; i += most) {
    const int64_t m = smaller(end - i, most);
    const rounded_span *rows = x + vnni_place(i, c->k, most);
    if (most == VNNI_TILE && m <= VNNI_HALF) vnni_tile(c, f, rows, i, m, VNNI_HALF);
    else vnni_tile(c, f, rows, i, m, most);
  }
}


/*
** So many panels, which lie side by side. Little else is read for each of them that may have left
** the caches meanwhile.
*/
VNNI INLINED void vnni_panels (const vnni_columns *first_panel, const panel_form f,
                               const rounded_span *x, int64_t first, int64_t end, const int most,
                               int64_t panels) {
  vnni_columns c = *first_panel;
  const int64_t bytes = panel_bytes(f, c.k);
  for (; panels > 0; panels--) {
    c.ahead = c.w + bytes;
    vnni_tiles(&c, f, x, first, end, most);
    c.w += bytes;
    c.n -= VNNI_COLUMNS;
    c.y += VNNI_COLUMNS;
    if (c.bias != NULL) c.bias += VNNI_COLUMNS;
  }
}


/* Functions of a type: compilers make code for each. 'multiply' is of kept panels. */
typedef struct vnni_type {
  void (*products) (const product_rows *at, const rounded_span *x, int64_t k, int64_t m,
                    int64_t y_row);
  vnni_rows_loader load_rows;
  void (*keep) (uint8_t *to, const uint8_t *w, int64_t w_row, int64_t bytes, int64_t k,
                int64_t rows);
  void (*widen) (const uint8_t *from, int64_t k, uint8_t *to);
  void (*multiply) (const vnni_columns *c, const rounded_span *x, int64_t first, int64_t end,
                    int64_t most, int64_t panels);
  panel_form kept, wide;
  int elements, zero;
  quant_order order;
} vnni_type;

#define KEPT(name, group, least) {BITS_##name, NUMBER_##name, group, least}

#define BLOCK(NAME, name, elements, bytes, least, group, ...) \
  VNNI static void vnni_products_##name (const product_rows *at, const rounded_span *x, int64_t k, \
                                         int64_t m, int64_t y_row) { \
    vnni_products(HEED_##NAME, elements, bytes, least, group, at, x, k, m, y_row); \
  } \
  static void vnni_load_rows_##name (const uint8_t *w, int64_t w_row, int n, int64_t rows, \
                                     vnni_rows_of_span *to) { \
    vnni_load_rows(HEED_##NAME, elements, least, w, w_row, n, rows, to); \
  } \
  static void keep_##name (uint8_t *to, const uint8_t *w, int64_t w_row, int64_t of_span, \
                           int64_t k, int64_t rows) { \
    pack_kept(HEED_##NAME, (panel_form)KEPT(name, group, least), to, vnni_load_rows_##name, \
              elements, w, w_row, of_span, k, rows); \
  } \
  static void widen_##name (const uint8_t *from, int64_t k, uint8_t *to) { \
    widen((panel_form)KEPT(name, group, least), from, k, to); \
  } \
  VNNI static void multiply_##name (const vnni_columns *c, const rounded_span *x, int64_t first, \
                                    int64_t end, int64_t most, int64_t panels) { \
    const panel_form f = KEPT(name, group, least); \
    if (most == 1) vnni_panels(c, f, x, first, end, 1, panels); \
    else if (BITS_##name == 8) vnni_panels(c, f, x, first, end, VNNI_TILE, panels); \
    else vnni_panels(c, f, x, first, end, VNNI_HALF, panels); \
  }
#include "base/blocks.def"

static const vnni_type vnni_types[HEED_ALL_TYPES] = {
#define BLOCK(NAME, name, elements, bytes, least, group, ...) \
  [HEED_##NAME] = {vnni_products_##name, vnni_load_rows_##name, keep_##name, widen_##name, \
                   multiply_##name, KEPT(name, group, least), WIDE(group, least), elements, \
                   ZERO_##name, ORDER_OF(name)},
#include "base/blocks.def"
};
#undef KEPT


/* Rows of x in a tile of a product of m rows, with kept panels or without. */
static int64_t vnni_tile_of (const vnni_type *t, int64_t m, bool has_kept) {
  if (!has_kept) return VNNI_TILE;
  if (m < VNNI_MANY) return 1;
  return t->kept.bits < 8 && m <= VNNI_TILE ? VNNI_HALF : VNNI_TILE;
}

/* Are kept panels multiplied as they lie? */
static bool vnni_is_direct (const vnni_type *t, int64_t m) {
  return t->kept.bits == 8 || m <= VNNI_TILE;
}

/* Wide panels. */
VNNI static void vnni_multiply (const vnni_type *t, vnni_columns *c, const rounded_span *x,
                                int64_t first, int64_t end) {
  const panel_form f = t->wide;
  if (f.group == DECODE_GROUP && f.least)
    vnni_tiles(c, (panel_form)WIDE(DECODE_GROUP, true), x, first, end, VNNI_TILE);
  else if (f.group == DECODE_GROUP)
    vnni_tiles(c, (panel_form)WIDE(DECODE_GROUP, false), x, first, end, VNNI_TILE);
  else if (f.least)
    vnni_tiles(c, (panel_form)WIDE(ROUND_GROUP, true), x, first, end, VNNI_TILE);
  else vnni_tiles(c, (panel_form)WIDE(ROUND_GROUP, false), x, first, end, VNNI_TILE);
}

#endif

#endif
