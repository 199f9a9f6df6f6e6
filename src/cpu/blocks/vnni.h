/*
** vnni.h - products of rows that were rounded to 8 bits with blocks, by AVX-512's instruction for
** dot products of four bytes (VNNI). A few rows of x go along k where w lies as blocks; otherwise
** each lane is a row of w, thirty-two of which are interleaved: see vnni_many.h.
**
** Either way an element of y is added up in one order. Elements of w that share a scale are a
** group; each group of a span has a sum of its own, which goes on from span to span. Sums of the
** same lane, 64 elements of a span, are added two by two, and four_sum adds up the lanes. A quant
** of w is unsigned, as the instruction wants it, by loaded_zero of its type; 'offset' is what that
** adds to a group, and is taken off.
*/

#ifndef vnni_h
#define vnni_h

#include "cpu/blocks/round.h"
#include "cpu/vector/sixteen.h"

#if defined(HAS_AVX512) && !defined(__clang__)

#define HAS_VNNI 1
#define VNNI __attribute__((target("avx512vnni")))
#define VNNI_MANY 4                /* rows of x for which blocks are interleaved */
#define VNNI_LANES SPAN_VECTORS
#define LANE (SPAN / VNNI_LANES)   /* elements of a span in a lane */

/*
** In a rounded_span the numbers of sixteen elements stand as in 'loaded': those at 16 (4 i + j) in
** lane 4 j + i; where the groups of w have 32, the number of both halves stands in the lane of
** either. Where quants of w are loaded in another order, x and its numbers stand in that; across,
** the offsets are in even lanes alone.
*/
static inline bool has_vnni (void) { return __builtin_cpu_supports("avx512vnni"); }

/* In each 128 bits the sums of a, of b, of c and of d there. */
INLINED __m512i sums_of_four (__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

/* The sums of both halves of groups of 32, in the lanes of either. */
INLINED __m512i sums_of_halves (__m512i x) {
  return _mm512_add_epi32(x, _mm512_shuffle_i32x4(x, x, 0xb1));
}

/* Of sums across: those of both blocks of each lane, added; and the first number of each lane. */
INLINED __m512 sums_of_lanes (__m512 v) { return _mm512_add_ps(v, _mm512_permute_ps(v, 0x4e)); }

INLINED __m128 first_of_lanes (__m512 v) {
  const __m512i lanes = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
  return _mm512_castps512_ps128(_mm512_permutexvar_ps(lanes, v));
}

INLINED float four_sum (__m128 v) {
  const __m128 two = _mm_add_ps(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}


/* In each 128 bits the greatest of a, of b, of c and of d there. */
INLINED __m512i most_of_four (__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab = _mm512_max_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd = _mm512_max_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  return _mm512_max_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

/* The greatest sizes of eight groups of two vectors: those of group g in lane g % 4 + 8 (g / 4). */
INLINED __m512 group_sizes (const __m512 v[16]) {
  __m512i size[8];
  UNROLL for (int g = 0; g < 8; g++)
    size[g] = _mm512_max_epi32(_mm512_castps_si512(_mm512_abs_ps(v[2 * g])),
                               _mm512_castps_si512(_mm512_abs_ps(v[2 * g + 1])));
  const __m512i first = most_of_four(size[0], size[1], size[2], size[3]);
  const __m512i second = most_of_four(size[4], size[5], size[6], size[7]);
  const __m512i most = _mm512_max_epi32(_mm512_shuffle_i32x4(first, second, 0x44),
                                        _mm512_shuffle_i32x4(first, second, 0xee));
  return _mm512_castsi512_ps(_mm512_max_epi32(most, _mm512_shuffle_i32x4(most, most, 0xb1)));
}

/* Values that were scaled to 8 bits, rounded to the nearest, halves away from zero. */
INLINED __m512i nearest (__m512 v) {
  const __m512i sign = _mm512_castps_si512(_mm512_set1_ps(-0.0f));
  const __m512i half = _mm512_castps_si512(_mm512_set1_ps(BELOW_HALF));
  const __m512i more = _mm512_ternarylogic_epi32(_mm512_castps_si512(v), sign, half, 0xea);
  return _mm512_cvttps_epi32(_mm512_add_ps(v, _mm512_castsi512_ps(more)));
}

/* Four vectors of integers as bytes, in order. */
INLINED __m512i as_bytes (const __m512i v[4]) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i low = _mm512_packs_epi32(v[0], v[1]), high = _mm512_packs_epi32(v[2], v[3]);
  return _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
}


/* Lane j of vector i becomes lane i of vector j: elements in order are then as quants across. */
INLINED void turn_across (__m512i v[4]) {
  const __m512i a = _mm512_shuffle_i32x4(v[0], v[1], 0x44);
  const __m512i b = _mm512_shuffle_i32x4(v[2], v[3], 0x44);
  const __m512i c = _mm512_shuffle_i32x4(v[0], v[1], 0xee);
  const __m512i d = _mm512_shuffle_i32x4(v[2], v[3], 0xee);
  v[0] = _mm512_shuffle_i32x4(a, b, 0x88);
  v[1] = _mm512_shuffle_i32x4(a, b, 0xdd);
  v[2] = _mm512_shuffle_i32x4(c, d, 0x88);
  v[3] = _mm512_shuffle_i32x4(c, d, 0xdd);
}


/* The lanes of group_sizes, and those of sums, in the order in which the span has its numbers. */
INLINED __m512i lanes_of_sizes (quant_order order) {
  if (order == QUANTS_ACROSS)
    return _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 8, 8, 9, 9, 10, 10, 11, 11);
  if (order == QUANTS_IN_HALVES)
    return _mm512_setr_epi32(0, 1, 8, 9, 2, 3, 10, 11, 0, 1, 8, 9, 2, 3, 10, 11);
  return _mm512_setr_epi32(0, 2, 8, 10, 0, 2, 8, 10, 1, 3, 9, 11, 1, 3, 9, 11);
}

INLINED __m512i lanes_of_sums (quant_order order) {
  if (order == QUANTS_ACROSS)
    return _mm512_setr_epi32(0, 0, 8, 8, 1, 1, 9, 9, 2, 2, 10, 10, 3, 3, 11, 11);
  if (order == QUANTS_IN_HALVES)
    return _mm512_setr_epi32(0, 8, 2, 10, 1, 9, 3, 11, 0, 8, 2, 10, 1, 9, 3, 11);
  return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}


/*
** A row of k elements, rounded as round_row rounds them, to be multiplied by rows of w whose quants
** and groups are these, and whose quants are loaded in that order. Its spans are at intervals of
** 'rows' of them: those of some rows lie together.
*/
VNNI static void vnni_round (rounded_span *to, int64_t rows, const float *x, int64_t k, int zero,
                             int group, quant_order order) {
  const __m512i of_sizes = lanes_of_sizes(order), of_sums = lanes_of_sums(order);
  for (; k > 0; k -= SPAN, x += SPAN, to += rows) {
    __m512 v[16];
    UNROLL for (int i = 0; i < 16; i++)
      v[i] = 16 * i < k ? _mm512_loadu_ps(x + 16 * i) : _mm512_setzero_ps();
    const __m512 most = group_sizes(v);
    const __mmask16 finite = _mm512_cmp_ps_mask(most, _mm512_set1_ps(FLT_MAX), _CMP_LE_OQ);
    const __mmask16 large = _mm512_cmp_ps_mask(most, _mm512_set1_ps(128 * FLT_MIN), _CMP_GE_OQ);
    const __m512 full = _mm512_set1_ps(127);
    const __m512 each = _mm512_mask_blend_ps(finite, _mm512_set1_ps((float)NAN),
                                             _mm512_maskz_div_ps(large, most, full));
    float factor[16];
    _mm512_storeu_ps(factor, _mm512_maskz_div_ps(finite & large, full, most));
    __m512i dots[SPAN_VECTORS], all[SPAN_VECTORS];
    UNROLL for (int i = 0; i < SPAN_VECTORS; i++) {
      __m512i q[4];
      UNROLL for (int j = 0; j < 4; j++) {
        const int g = 2 * i + j / 2;
        q[j] = nearest(_mm512_mul_ps(v[4 * i + j], _mm512_set1_ps(factor[g % 4 + 8 * (g / 4)])));
      }
      all[i] = as_bytes(q);
      dots[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), all[i]);
    }
    if (order != QUANTS_PLAIN) turn_across(all);
    UNROLL for (int i = 0; i < SPAN_VECTORS; i++) _mm512_store_si512(to->q + 64 * i, all[i]);
    __m512i sums = sums_of_four(dots[0], dots[1], dots[2], dots[3]);
    if (group == ROUND_GROUP) sums = sums_of_halves(sums);
    sums = _mm512_permutexvar_epi32(of_sums, sums);
    const __m512 scale = _mm512_permutexvar_ps(of_sizes, each);
    _mm512_store_ps(to->scale, scale);
    _mm512_store_ps(to->sum, _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sums)));
    const __mmask16 lanes = order == QUANTS_ACROSS ? 0x5555 : 0xffff;
    _mm512_store_si512(to->offset,
                       _mm512_maskz_mullo_epi32(lanes, sums, _mm512_set1_epi32(-zero)));
  }
}


/* Products of the quants of a span, added up for each group. */
VNNI INLINED __m512i vnni_sums_of_groups (const loaded *s, const rounded_span *x,
                                          const int group) {
  __m512i dots[SPAN_VECTORS];
  UNROLL for (int i = 0; i < SPAN_VECTORS; i++)
    dots[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), s->q[i],
                                  _mm512_load_si512(x->q + 64 * i));
  const __m512i all = sums_of_four(dots[0], dots[1], dots[2], dots[3]);
  return group == ROUND_GROUP ? sums_of_halves(all) : all;
}

/* Products of quants across: those of sixteen elements in the four sums of a lane. */
VNNI INLINED void vnni_dots_across (const __m512i q[SPAN_VECTORS], const rounded_span *x,
                                    __m512i dots[2]) {
  UNROLL for (int i = 0; i < 2; i++) {
    dots[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), q[2 * i],
                                  _mm512_load_si512(x->q + 128 * i));
    dots[i] = _mm512_dpbusd_epi32(dots[i], q[2 * i + 1], _mm512_load_si512(x->q + 128 * i + 64));
  }
}

/* The same, added up for each group, with the offset. Sums of eight products are below 32768. */
VNNI INLINED __m512i vnni_sums_across (const loaded *s, const rounded_span *x, bool has_offset) {
  const __m512i offset = has_offset ? _mm512_load_si512(x->offset) : _mm512_setzero_si512();
  __m512i dots[2];
  vnni_dots_across(s->q, x, dots);
  const __m512i both = _mm512_packs_epi32(dots[0], dots[1]);
  const __m512i two = _mm512_dpwssd_epi32(offset, both, _mm512_set1_epi16(1));
  return _mm512_add_epi32(two, _mm512_shuffle_epi32(two, _MM_PERM_CDAB));
}

/* Products of quants in halves, added up for each group of 32. */
VNNI INLINED __m256i vnni_sums_in_halves (const loaded_halves *s, const rounded_span *x) {
  __m512i dots[2];
  vnni_dots_across(s->q, x, dots);
  if (s->shift > 0) dots[1] = _mm512_srai_epi32(dots[1], (unsigned)s->shift);
  const __m512i two = _mm512_madd_epi16(_mm512_packs_epi32(dots[0], dots[1]),
                                        _mm512_set1_epi16(1));
  const __m256 first = _mm256_castsi256_ps(_mm512_castsi512_si256(two));
  const __m256 other = _mm256_castsi256_ps(_mm512_extracti64x4_epi64(two, 1));
  return _mm256_add_epi32(_mm256_castps_si256(_mm256_shuffle_ps(first, other, 0x88)),
                          _mm256_castps_si256(_mm256_shuffle_ps(first, other, 0xdd)));
}


/* vnni_step of quants in halves: the sums of groups stand in the first half of 'sum'. */
VNNI INLINED void vnni_step_in_halves (const heed_type type, const uint8_t *w,
                                       const rounded_span *x, const int rows, __m512 *sum) {
  loaded_halves s;
  load_span_in_halves(type, w, &s);
  UNROLL for (int r = 0; r < rows; r++) {
    const __m256 groups = _mm256_cvtepi32_ps(vnni_sums_in_halves(&s, x + r));
    const __m256 scale = _mm256_mul_ps(s.scale, _mm256_load_ps(x[r].scale));
    const __m256 before = _mm512_castps512_ps256(sum[r]);
    const __m256 more = _mm256_fmadd_ps(groups, scale, before);
    sum[r] = _mm512_castps256_ps512(_mm256_fnmadd_ps(s.most, _mm256_load_ps(x[r].sum), more));
  }
}


/*
** Adds to the sums of 'rows' rows of x the first n blocks of a span of w. Sums of groups stand as
** the numbers of x do. Blocks across may be pairs of four rows: see load.h.
*/
VNNI INLINED void vnni_step (const heed_type type, bool has_least, const int group,
                             const uint8_t *w, int64_t pair, int n, const rounded_span *x,
                             const int rows, __m512 *sum) {
  const bool across = order_of(type) == QUANTS_ACROSS;
  loaded s;
  if (order_of(type) == QUANTS_IN_HALVES) {
    vnni_step_in_halves(type, w, x, rows, sum);
    return;
  }
  if (across) load_span_across(type, w, pair, n, &s);
  else load_span(type, w, n, &s);
  UNROLL for (int r = 0; r < rows; r++) {
    const rounded_span *each = x + r;
    const bool has_offset = loaded_zero(type) > 0;
    __m512i all = across ? vnni_sums_across(&s, each, has_offset)
                         : vnni_sums_of_groups(&s, each, group);
    if (has_offset && !across) all = _mm512_add_epi32(all, _mm512_load_si512(each->offset));
    const __m512 dots = _mm512_cvtepi32_ps(all), values = _mm512_load_ps(each->sum);
    const __m512 scale = _mm512_mul_ps(s.scale, _mm512_load_ps(each->scale));
    sum[r] = _mm512_fmadd_ps(dots, scale, sum[r]);
    if (has_least) sum[r] = _mm512_fmadd_ps(s.least, values, sum[r]);
  }
}


/* The sums of a row of w, of k elements, without those behind the last whole span. */
VNNI INLINED void vnni_whole (const heed_type type, const int elements, const int bytes,
                              bool has_least, const int group, const uint8_t *w,
                              bool soon, const rounded_span *x, int64_t k, const int rows,
                              __m512 *sum) {
  UNROLL for (int r = 0; r < rows; r++) sum[r] = _mm512_setzero_ps();
  for (; k >= SPAN; k -= SPAN, w += SPAN / elements * bytes, x += rows) {
    fetch_row(w, SPAN / elements * bytes, soon);
    vnni_step(type, has_least, group, w, 2 * bytes, SPAN / elements, x, rows, sum);
  }
  fetch_row(w, k / elements * bytes, soon);
}


/* The sums of all groups as one number. */
INLINED float vnni_sum (__m512 sum, const int group, quant_order order) {
  if (order == QUANTS_ACROSS) return four_sum(first_of_lanes(sums_of_lanes(sum)));
  const __m128 first = _mm512_castps512_ps128(sum);
  if (order == QUANTS_IN_HALVES) {
    const __m128 second = _mm512_extractf32x4_ps(sum, 1);
    const __m128 lanes = _mm_add_ps(_mm_shuffle_ps(first, second, 0x88),
                                    _mm_shuffle_ps(first, second, 0xdd));
    return four_sum(_mm_permute_ps(lanes, 0xd8));       /* they were those of 0, 2, 1 and 3 */
  }
  const __m128 third = _mm512_extractf32x4_ps(sum, 2);
  if (group == ROUND_GROUP) return four_sum(_mm_add_ps(first, third));
  return four_sum(_mm_add_ps(_mm_add_ps(first, _mm512_extractf32x4_ps(sum, 1)),
                             _mm_add_ps(third, _mm512_extractf32x4_ps(sum, 3))));
}


/* The products of a row of w with some rows of x, at intervals of y_row in y. */
VNNI INLINED void vnni_dots (const heed_type type, const int elements, const int bytes,
                             bool has_least, const int group, const uint8_t *w, bool soon,
                             const rounded_span *x, int64_t k, const int rows, float *y,
                             int64_t y_row, float bias) {
  const int n = (int)(k % SPAN) / elements;
  __m512 sum[VNNI_MANY - 1];
  vnni_whole(type, elements, bytes, has_least, group, w, soon, x, k, rows, sum);
  if (n > 0)
    vnni_step(type, has_least, group, w + k / SPAN * (SPAN / elements * bytes), 2 * bytes, n,
              x + k / SPAN * rows, rows, sum);
  UNROLL for (int r = 0; r < rows; r++)
    y[r * y_row] = vnni_sum(sum[r], group, order_of(type)) + bias;
}


/* A pair of blocks of a span of x, across, four times: for the same pair of four rows of w. */
INLINED void vnni_repeat (rounded_span *to, const rounded_span *x, int pair) {
  for (int i = 0; i < SPAN_VECTORS; i++) {
    const __m128i *lane = (const __m128i *)(const void *)(x->q + 64 * i) + pair;
    _mm512_store_si512(to->q + 64 * i, _mm512_broadcast_i32x4(_mm_load_si128(lane)));
  }
  _mm512_store_ps(to->scale, _mm512_broadcast_f32x4(_mm_load_ps(x->scale + 4 * pair)));
  _mm512_store_ps(to->sum, _mm512_broadcast_f32x4(_mm_load_ps(x->sum + 4 * pair)));
  const __m128i *offset = (const __m128i *)(const void *)x->offset + pair;
  _mm512_store_si512(to->offset, _mm512_broadcast_i32x4(_mm_load_si128(offset)));
}


#define TAIL_PAIRS (SPAN / ROUND_GROUP / 2 - 1)    /* behind the last whole span, at most */

/*
** Four rows of w, of which the pairs of blocks behind the last whole span make a span together:
** each is of one lane of its row, so that the sums of that lane go on as those of four rows.
*/
VNNI INLINED void vnni_four (const heed_type type, const int elements, const int bytes,
                             bool has_least, const int group, const product_rows *at, int64_t i,
                             const rounded_span *x, int64_t k, const int rows,
                             const rounded_span *tails, int64_t y_row) {
  const uint8_t *w = at->w + i * at->w_row;
  __m512 sum[4][VNNI_MANY - 1];
  ONE_BY_ONE for (int c = 0; c < 4; c++)
    vnni_whole(type, elements, bytes, has_least, group, w + c * at->w_row, at->soon, x, k, rows,
               sum[c]);
  UNROLL for (int r = 0; r < rows; r++) {
    __m512i v[4];
    UNROLL for (int c = 0; c < 4; c++) v[c] = _mm512_castps_si512(sum[c][r]);
    turn_across(v);
    UNROLL for (int c = 0; c < 4; c++) sum[c][r] = _mm512_castsi512_ps(v[c]);
  }
  w += k / SPAN * (SPAN / elements * bytes);
  UNROLL for (int p = 0; p < TAIL_PAIRS; p++)
    if (p < k % SPAN / (2 * elements))
      vnni_step(type, has_least, group, w + 2 * p * bytes, at->w_row, SPAN / elements,
                tails + p * rows, rows, sum[p]);
  const __m128 bias = at->bias != NULL ? _mm_loadu_ps(at->bias + i) : _mm_setzero_ps();
  UNROLL for (int r = 0; r < rows; r++) {                            /* as vnni_sum */
    __m512 lane[4];
    UNROLL for (int c = 0; c < 4; c++) lane[c] = sums_of_lanes(sum[c][r]);
    const __m512 even = _mm512_add_ps(lane[0], lane[2]), odd = _mm512_add_ps(lane[1], lane[3]);
    _mm_storeu_ps(at->y + r * y_row + i,
                  _mm_add_ps(first_of_lanes(_mm512_add_ps(even, odd)), bias));
  }
}


VNNI INLINED void vnni_columns_of (const heed_type type, const int elements, const int bytes,
                                   bool has_least, const int group, product_rows at,
                                   const rounded_span *x, int64_t k, const int rows,
                                   int64_t y_row) {
  rounded_span tails[(VNNI_MANY - 1) * TAIL_PAIRS];
  int64_t i = 0;
  if (order_of(type) == QUANTS_ACROSS && k % (2 * elements) == 0) {
    for (int p = 0; p < k % SPAN / (2 * elements); p++)
      for (int r = 0; r < rows; r++)
        vnni_repeat(&tails[p * rows + r], x + k / SPAN * rows + r, p);
    for (; i + 4 <= at.n; i += 4)
      vnni_four(type, elements, bytes, has_least, group, &at, i, x, k, rows, tails, y_row);
  }
  for (; i < at.n; i++)
    vnni_dots(type, elements, bytes, has_least, group, at.w + i * at.w_row, at.soon, x, k, rows,
              at.y + i, y_row, at.bias != NULL ? at.bias[i] : 0);
}


/* The same with m rows of x, fewer than VNNI_MANY. */
VNNI INLINED void vnni_products (const heed_type type, const int elements, const int bytes,
                                 bool has_least, const int group, const product_rows *at,
                                 const rounded_span *x, int64_t k, int64_t m, int64_t y_row) {
  if (m == 1)
    vnni_columns_of(type, elements, bytes, has_least, group, *at, x, k, 1, y_row);
  else if (m == 2)
    vnni_columns_of(type, elements, bytes, has_least, group, *at, x, k, 2, y_row);
  else vnni_columns_of(type, elements, bytes, has_least, group, *at, x, k, 3, y_row);
}

#endif

#endif
