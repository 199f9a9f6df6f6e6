/*
** vnni_panel.h - panels: thirty-two rows of w, interleaved group by group, as products use them.
**
** A span begins with the float16 scales of each row that multiply its groups' numbers, and those of
** least values, where these numbers are bytes. A group has its quants as loaded, of each four
** elements of each row together: bytes, or the bits above the lowest four, and then these, those of
** the second half of its elements above those of the first; then its scale of each row, and what is
** least of each. A wide panel has bytes and floats. Panels that are kept take as much memory as
** blocks, but those of q2_k and q3_k, which are wide.
**
** A product reads a panel from its first byte to its last. Some CPUs read memory in order twice as
** fast as two streams, or as lines that are out of order by a few hundred bytes.
*/

#ifndef vnni_panel_h
#define vnni_panel_h

#include "cpu/blocks/vnni.h"
#include "cpu/vector/sixteen.h"

#if defined(HAS_VNNI)

#define VNNI_VECTORS 2             /* of columns of y */
#define VNNI_COLUMNS (16 * VNNI_VECTORS)   /* rows of w that are interleaved */

/* The facts of a panel for which code is made. */
typedef struct panel_form {
  int bits;                        /* of a quant: 4, 5, 6 or 8 */
  int number;                      /* bytes: a float, a float16, or one byte, times the span's */
  int group;                       /* elements */
  bool least;
} panel_form;

#define WIDE(group, least) {8, sizeof(float), group, least}

/* Bits of a quant and bytes of a number, in panels that are kept. */
enum {
  BITS_q8_0 = 8, BITS_q4_0 = 4, BITS_q4_1 = 4, BITS_q5_0 = 5, BITS_q5_1 = 5, BITS_q2_k = 8,
  BITS_q3_k = 8, BITS_q4_k = 4, BITS_q5_k = 5, BITS_q6_k = 6
};
enum {
  NUMBER_q8_0 = 2, NUMBER_q4_0 = 2, NUMBER_q4_1 = 2, NUMBER_q5_0 = 2, NUMBER_q5_1 = 2,
  NUMBER_q2_k = 4, NUMBER_q3_k = 4, NUMBER_q4_k = 1, NUMBER_q5_k = 1, NUMBER_q6_k = 1
};


/* Of numbers: scales, and least values. */
INLINED int panel_kinds (const panel_form f) { return f.least ? 2 : 1; }

/* Bytes of a group: bits above the lowest four, all quants, all. */
INLINED int64_t panel_above (const panel_form f) {
  return f.bits == 8 ? 0 : VNNI_COLUMNS * f.group * (f.bits - 4) / 8;
}

INLINED int64_t panel_numbers (const panel_form f) { return VNNI_COLUMNS * f.group * f.bits / 8; }

INLINED int64_t panel_group (const panel_form f) {
  return panel_numbers(f) + panel_kinds(f) * f.number * VNNI_COLUMNS;
}

INLINED int64_t panel_head (const panel_form f) {                    /* of a span */
  return f.number == 1 ? panel_kinds(f) * 2 * VNNI_COLUMNS : 0;
}

INLINED int64_t panel_bytes (const panel_form f, int64_t k) {
  return spans_of(k) * panel_head(f) + k / f.group * panel_group(f);
}


/*
** {==================================================================
** Numbers and quants of a group
** ===================================================================
*/

/* Factors of a span's bytes: of those of scales, and of least values. */
typedef struct panel_factors {
  __m512 of[2][VNNI_VECTORS];
} panel_factors;

INLINED panel_factors panel_begin (const panel_form f, const uint8_t *head) {
  panel_factors by;
  UNROLL for (int i = 0; i < 2 * VNNI_VECTORS; i++)
    by.of[i / VNNI_VECTORS][i % VNNI_VECTORS] = 32 * i < panel_head(f)
                                                ? _mm512_cvtph_ps(bytes_at(head + 32 * i))
                                                : _mm512_setzero_ps();
  return by;
}

/* The scales of sixteen rows, from 16 v on, or their least values. */
INLINED __m512 panel_number (const panel_form f, const panel_factors *by, const uint8_t *group,
                             bool least, int v) {
  const int64_t at = (least ? VNNI_COLUMNS : 0) + 16 * v;
  const void *numbers = group + panel_numbers(f) + at * f.number;
  if (f.number == 4) return _mm512_loadu_ps(numbers);
  if (f.number == 2) return _mm512_cvtph_ps(_mm256_loadu_si256(numbers));
  const __m512 bytes = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(numbers)));
  return _mm512_mul_ps(bytes, by->of[least][v]);
}


/*
** The bits above the lowest four of elements 4 step + 0 .. 3, where they stand in a byte. 'above'
** has those of each step of a group, the first step's the lowest.
*/
INLINED __m512i bits_above (const panel_form f, __m512i above, int step) {
  const int bits = f.bits - 4, up = 4 - bits * step;
  const __m512i moved = up > 0 ? _mm512_slli_epi16(above, up) : _mm512_srli_epi16(above, -up);
  return _mm512_and_si512(moved, _mm512_set1_epi8(bits == 1 ? 0x10 : 0x30));
}

/* Quants of elements 4 step + 0 .. 3 of sixteen rows, from 16 v on. */
INLINED __m512i panel_quants (const panel_form f, const uint8_t *group, int step, int v) {
  const int half = f.group / 8;
  const uint8_t *low = group + panel_above(f);
  if (f.bits == 8) return _mm512_loadu_si512(low + 4 * (VNNI_COLUMNS * step + 16 * v));
  const __m512i fours = _mm512_set1_epi8(15);
  __m512i q = _mm512_loadu_si512(low + 4 * (VNNI_COLUMNS * (step % half) + 16 * v));
  if (step >= half) q = _mm512_srli_epi16(q, 4);
  if (f.bits == 4) return _mm512_and_si512(q, fours);
  const __m512i above = bits_above(f, _mm512_loadu_si512(group + 64 * v), step);
  return _mm512_ternarylogic_epi32(q, fours, above, 0xea);           /* q & fours | above */
}

/* }================================================================== */


/*
** {==================================================================
** Wide panels of rows of w
** ===================================================================
*/

/* A span of sixteen rows of w, row by row. */
typedef struct vnni_rows_of_span {
  __m512i q[VNNI_LANES][16];
  __m512i scale[16], least[16];
} vnni_rows_of_span;

typedef void (*vnni_rows_loader) (const uint8_t *w, int64_t w_row, int n, int64_t rows,
                                  vnni_rows_of_span *to);

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


/* Quants of sixteen rows, of the first k elements of a span: 'to' is in the first group. */
INLINED void pack_quants (uint8_t *to, int64_t each, const vnni_rows_of_span *s, int group,
                          int64_t k) {
  for (int e = 0; e < k; e += DECODE_GROUP) {
    __m512i v[4];
    four_columns(s->q[e / LANE], e % LANE / 4, v);
    uint8_t *at = to + e / group * each + e % group * VNNI_COLUMNS;
    UNROLL for (int i = 0; i < 4; i++) _mm512_store_si512(at + 4 * i * VNNI_COLUMNS, v[i]);
  }
}

/* Numbers of sixteen rows, which stand as in 'loaded': those of four lanes together. */
INLINED void pack_numbers (uint8_t *to, int64_t each, const __m512i rows[16], int group,
                           int64_t k) {
  for (int e = 0; e < LANE; e += group) {
    __m512i v[4];
    four_columns(rows, e / DECODE_GROUP * 4, v);
    for (int i = 0; i < VNNI_LANES && i * LANE + e < k; i++)
      _mm512_store_si512(to + (i * LANE + e) / group * each, v[i]);
  }
}


/*
** Rows of w, at 'elements' a block; those beyond 'rows' are zeros. A span has so many bytes. The
** frame is large, and so is that of pack_kept.
*/
__attribute__((noinline))
static void pack_wide (uint8_t *to, const panel_form f, vnni_rows_loader load, int elements,
                       const uint8_t *w, int64_t w_row, int64_t bytes, int64_t k, int64_t rows) {
  const int64_t each = panel_group(f), of_kind = VNNI_COLUMNS * (int64_t)sizeof(float);
  vnni_rows_of_span s;
  for (; k > 0; k -= SPAN, w += bytes, to += SPAN / f.group * each)
    for (int c = 0; c < VNNI_COLUMNS; c += 16) {
      const int64_t some = smaller(k, SPAN);
      uint8_t *at = to + 4 * c;
      load(w + c * w_row, w_row, (int)some / elements, rows - c, &s);
      pack_quants(at, each, &s, f.group, some);
      pack_numbers(at + panel_numbers(f), each, s.scale, f.group, some);
      if (f.least) pack_numbers(at + panel_numbers(f) + of_kind, each, s.least, f.group, some);
    }
}

/* }================================================================== */


/*
** {==================================================================
** Panels that are kept
** ===================================================================
*/

/* The quants of a group of a wide panel, in so many bits. */
INLINED void narrow_quants (const panel_form f, const uint8_t *from, uint8_t *to) {
  const int half = f.group / 8;
  const __m512i fours = _mm512_set1_epi8(15);
  uint8_t *low = to + panel_above(f);
  UNROLL for (int v = 0; v < VNNI_VECTORS; v++) {
    __m512i above = _mm512_setzero_si512();
    UNROLL for (int step = 0; step < f.group / 4; step++) {
      const int64_t at = 4 * (VNNI_COLUMNS * (step % half) + 16 * v);
      const __m512i q = _mm512_load_si512(from + 4 * (VNNI_COLUMNS * step + 16 * v));
      __m512i four = _mm512_and_si512(q, fours);
      if (step >= half)
        four = _mm512_or_si512(_mm512_slli_epi16(four, 4), _mm512_loadu_si512(low + at));
      _mm512_storeu_si512(low + at, four);
      const __m512i more = _mm512_andnot_si512(fours, q);
      const int down = 4 - (f.bits - 4) * step;                      /* as bits_above takes them */
      above = _mm512_or_si512(above, down > 0 ? _mm512_srli_epi16(more, down)
                                              : _mm512_slli_epi16(more, -down));
    }
    if (f.bits > 4) _mm512_storeu_si512(to + 64 * v, above);
  }
}

/* A group of a wide panel; numbers of bytes come from blocks. */
INLINED void narrow_group (const panel_form f, const uint8_t *from, uint8_t *to) {
  const panel_form wide = WIDE(f.group, f.least);
  if (f.bits == 8) memcpy(to, from, (size_t)panel_numbers(f));
  else narrow_quants(f, from, to);
  from += panel_numbers(wide);
  to += panel_numbers(f);
  for (int i = 0; i < panel_kinds(f) * VNNI_VECTORS; i++) {
    const __m512 number = _mm512_load_ps(from + 64 * i);
    if (f.number == 4) _mm512_storeu_ps(to + 64 * i, number);
    if (f.number == 2)
      _mm256_storeu_si256((__m256i *)(void *)(to + 32 * i), _mm512_cvtps_ph(number, 8));
  }
}


/* The numbers of a block's groups, which are bytes, and the float16 numbers that multiply them. */
typedef struct block_bytes {
  int8_t of_groups[2][SPAN_GROUPS];        /* scales; least values */
  uint16_t by[2];
} block_bytes;

INLINED void read_sixes (const uint8_t *b, block_bytes *to) {
  uint64_t sixes[2];
  _mm_storeu_si128((__m128i *)(void *)sixes, _mm_shuffle_epi32(sixes_of(b), 0xd8));
  for (int i = 0; i < 2; i++) memcpy(to->of_groups[i], &sixes[i], sizeof sixes[i]);
  memcpy(to->by, b, sizeof to->by);
  to->by[1] ^= 0x8000;             /* least values are subtracted */
}

INLINED void read_block_bytes (const heed_type type, const uint8_t *b, block_bytes *to) {
  if (type == HEED_Q6_K) {
    memcpy(to->of_groups[0], b + 192, SPAN_GROUPS);
    memcpy(to->by, b + 208, sizeof *to->by);
  } else read_sixes(b, to);
}

/* The same of all rows of a span, which is a block; those beyond 'rows' are zeros. */
INLINED void pack_block_bytes (const heed_type type, const panel_form f, const uint8_t *w,
                               int64_t w_row, int64_t rows, uint8_t *head) {
  for (int c = 0; c < VNNI_COLUMNS; c++, w += w_row) {
    block_bytes b = {.by = {0}};
    if (c < rows) read_block_bytes(type, w, &b);
    for (int i = 0; i < panel_kinds(f); i++) {
      const int64_t at = i * VNNI_COLUMNS + c;
      memcpy(head + 2 * at, &b.by[i], sizeof b.by[i]);
      uint8_t *bytes = head + panel_head(f) + panel_numbers(f) + at;
      for (int g = 0; g < SPAN / f.group; g++)
        bytes[g * panel_group(f)] = (uint8_t)b.of_groups[i][g];
    }
  }
}


/* Rows of w, as in pack_wide. */
INLINED void pack_kept (const heed_type type, const panel_form f, uint8_t *to,
                        vnni_rows_loader load, int elements, const uint8_t *w, int64_t w_row,
                        int64_t bytes, int64_t k, int64_t rows) {
  const panel_form wide = WIDE(f.group, f.least);
  _Alignas(VECTOR_BYTES) uint8_t whole[SPAN / DECODE_GROUP *
                                       VNNI_COLUMNS * (DECODE_GROUP + 2 * sizeof(float))];
  for (; k > 0; k -= SPAN, w += bytes) {
    const int64_t some = smaller(k, SPAN);
    pack_wide(whole, wide, load, elements, w, w_row, bytes, some, rows);
    if (f.number == 1) pack_block_bytes(type, f, w, w_row, rows, to);
    to += panel_head(f);
    for (int64_t g = 0; g < some / f.group; g++, to += panel_group(f))
      narrow_group(f, whole + g * panel_group(wide), to);
  }
}


/* A kept panel becomes a wide one. */
INLINED void widen (const panel_form f, const uint8_t *from, int64_t k, uint8_t *to) {
  const panel_form wide = WIDE(f.group, f.least);
  for (; k > 0; k -= SPAN) {
    const panel_factors by = panel_begin(f, from);
    from += panel_head(f);
    for (int e = 0; e < smaller(k, SPAN); e += f.group) {
      UNROLL for (int step = 0; step < f.group / 4; step++)
        UNROLL for (int v = 0; v < VNNI_VECTORS; v++)
          _mm512_store_si512(to + 4 * (VNNI_COLUMNS * step + 16 * v),
                             panel_quants(f, from, step, v));
      UNROLL for (int i = 0; i < panel_kinds(f) * VNNI_VECTORS; i++)
        _mm512_store_ps(to + panel_numbers(wide) + 64 * i,
                        panel_number(f, &by, from, i / VNNI_VECTORS == 1, i % VNNI_VECTORS));
      from += panel_group(f);
      to += panel_group(wide);
    }
  }
}

/* }================================================================== */

#endif

#endif
