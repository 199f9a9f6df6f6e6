/*
** pairs.h - products of bfloat16 matrices of many rows, x W^T, by AVX-512's instruction for two
** products of bfloat16 that are added to a sum in float32 (BF16).
**
** Thirty-two rows of W are interleaved, two elements of each together, and stay so while all rows
** of x are multiplied by them. The instruction takes subnormal numbers for zeros, and gives none:
** where a factor has one, the product takes another way. A sum below 2^-126 becomes 0.
*/

#ifndef pairs_h
#define pairs_h

#include "cpu/cpu.h"
#include "cpu/vector/elementwise.h"
#include "cpu/vector/sixteen.h"

#if defined(HAS_AVX512) && !defined(__clang__)

#define HAS_PAIRS 1
#define PAIRS __attribute__((target("avx512bf16")))
#define PAIRS_ROWS 8               /* of x, whose sums stay in registers */
#define PAIRS_VECTORS 2            /* of columns of y */
#define PAIRS_COLUMNS (16 * PAIRS_VECTORS)   /* rows of w that are interleaved */
#define PAIRS_MANY 16              /* rows of x for which that pays */
#define PAIRS_STOPS 256            /* of them between two questions whether to stop */

/*
** y (m, n) = x (m, k) w (n, k)^T + bias (n), in steps between rows of so many elements. k is even,
** 2 at least, and m is PAIRS_ROWS at least.
*/
typedef struct pairs_product {
  cpu *self;
  const uint16_t *x, *w;
  const float *bias;               /* or NULL */
  char *y;
  heed_type type;                  /* of y: FLOAT32 or BFLOAT16 */
  int64_t m, n, k, x_row, w_row, y_row;
  bool failed;                     /* a thread got no memory */
  bool subnormal;                  /* w has a subnormal number */
} pairs_product;

/* Two elements of these rows of w each. */
typedef uint16_t pairs_panel[PAIRS_COLUMNS][2];


static inline bool has_pairs (void) { return __builtin_cpu_supports("avx512bf16"); }

INLINED bool has_subnormal (__m512i v) {
  const __mmask32 small = _mm512_testn_epi16_mask(v, _mm512_set1_epi16(0x7f80));
  return _mm512_mask_test_epi16_mask(small, v, _mm512_set1_epi16(0x7f)) != 0;
}


/* Thirty-two elements of a row, or those that are left, and zeros. */
INLINED __m512i pairs_load (const uint16_t *at, int64_t left) {
  const __mmask32 some = left >= 32 ? 0xffffffff : (__mmask32)((UINT64_C(1) << left) - 1);
  return _mm512_maskz_loadu_epi16(some, at);
}


static bool rows_have_subnormal (const uint16_t *x, int64_t row, int64_t m, int64_t k) {
  for (int64_t i = 0; i < m; i++, x += row)
    for (int64_t j = 0; j < k; j += 32)
      if (has_subnormal(pairs_load(x + j, k - j))) return true;
  return false;
}


/*
** Interleaves rows of w; those beyond 'rows' are zeros. The next panel's are fetched, which come
** while products of these are made. Has one of them a subnormal number?
*/
static bool pairs_pack (pairs_panel *to, const uint16_t *w, int64_t w_row, int64_t k,
                        int64_t rows) {
  bool subnormal = false;
  for (int64_t at = 0; at < k; at += 32)
    for (int c = 0; c < PAIRS_COLUMNS; c += 16) {
      __m512i v[16];
      for (int r = 0; r < 16; r++) {
        const uint16_t *from = w + (c + r) * w_row + at;
        v[r] = c + r < rows ? pairs_load(from, k - at) : _mm512_setzero_si512();
        if (c + r < rows) fetch_far(from + PAIRS_COLUMNS * w_row, 64);
        subnormal |= has_subnormal(v[r]);
      }
      const int64_t n = smaller(k - at + 1, 32) / 2;
      UNROLL for (int j = 0; j < 16; j += 4) {
        __m512i four[4];
        four_columns(v, j, four);
        for (int i = 0; i < 4 && j + i < n; i++) _mm512_store_si512(to[at / 2 + j + i][c], four[i]);
      }
    }
  return subnormal;
}


/* Some rows of y, and those columns of the panel that there are. */
PAIRS INLINED void pairs_tile (const pairs_product *p, const pairs_panel *w, int64_t m, int64_t n,
                               int64_t columns, const int rows) {
  const uint16_t *x = p->x + m * p->x_row;
  char *y = p->y + (m * p->y_row + n) * scalar_sizes[p->type];
  __m512 sum[PAIRS_ROWS][PAIRS_VECTORS];
  UNROLL for (int r = 0; r < rows; r++) {
    __builtin_prefetch(y + r * p->y_row * scalar_sizes[p->type], 1);
    UNROLL for (int v = 0; v < PAIRS_VECTORS; v++) sum[r][v] = _mm512_setzero_ps();
  }
  for (int64_t k = 0; k < p->k / 2; k++, x += 2) {
    __m512bh line[PAIRS_VECTORS];
    UNROLL for (int v = 0; v < PAIRS_VECTORS; v++)
      line[v] = (__m512bh)_mm512_load_si512(w[k][16 * v]);
    UNROLL for (int r = 0; r < rows; r++) {
      int32_t two;
      memcpy(&two, x + r * p->x_row, sizeof two);
      const __m512bh both = (__m512bh)_mm512_set1_epi32(two);
      UNROLL for (int v = 0; v < PAIRS_VECTORS; v++)
        sum[r][v] = _mm512_dpbf16_ps(sum[r][v], line[v], both);
    }
  }
  UNROLL for (int v = 0; v < PAIRS_VECTORS; v++) {
    const int64_t some = smaller(columns - 16 * v, 16);
    if (some <= 0) break;
    const __mmask16 there = (__mmask16)((1u << some) - 1);
    const __m512 more = p->bias != NULL ? _mm512_maskz_loadu_ps(there, p->bias + n + 16 * v)
                                        : _mm512_setzero_ps();
    UNROLL for (int r = 0; r < rows; r++) {
      char *at = y + (r * p->y_row + 16 * v) * scalar_sizes[p->type];
      const __m512 all = _mm512_add_ps(sum[r][v], more);
      if (p->type == HEED_FLOAT32) _mm512_mask_storeu_ps(at, there, all);
      else _mm256_mask_storeu_epi16(at, there, (__m256i)_mm512_cvtneps_pbh(all));
    }
  }
}


/* Columns of a panel, of m rows of y: the last rows begin among those before. */
PAIRS static void pairs_columns (const pairs_product *p, const pairs_panel *w, int64_t n,
                                 int64_t columns) {
  for (int64_t m = 0; m < p->m && (m % PAIRS_STOPS > 0 || !cpu_stopped(p->self)); m += PAIRS_ROWS)
    pairs_tile(p, w, smaller(m, p->m - PAIRS_ROWS), n, columns, PAIRS_ROWS);
}


/* Panels of columns. */
static void pairs_piece (void *arg, int64_t first, int64_t end) {
  pairs_product *p = arg;
  char *scratch = cpu_scratch(p->self, (size_t)(p->k / 2) * sizeof(pairs_panel) + VECTOR_BYTES);
  if (scratch == NULL) { __atomic_store_n(&p->failed, true, __ATOMIC_RELAXED); return; }
  pairs_panel *w = (void *)(scratch + -(uintptr_t)scratch % VECTOR_BYTES);
  for (int64_t i = first; i < end && !cpu_stopped(p->self); i++) {
    if (__atomic_load_n(&p->subnormal, __ATOMIC_RELAXED)) break;   /* y is computed anew */
    const int64_t n = i * PAIRS_COLUMNS, columns = smaller(p->n - n, PAIRS_COLUMNS);
    if (pairs_pack(w, p->w + n * p->w_row, p->w_row, p->k, columns)) {
      __atomic_store_n(&p->subnormal, true, __ATOMIC_RELAXED);
      break;
    }
    pairs_columns(p, w, n, columns);
  }
  cpu_scratch_free(scratch);
}


/*
** Is y there? No, where a factor has a subnormal number or memory is short: then y may be
** written in part, and the caller computes all of it.
*/
static bool pairs_run (pairs_product *p) {
  if (rows_have_subnormal(p->x, p->x_row, p->m, p->k)) return false;
  pool_run(p->self->pool, (p->n + PAIRS_COLUMNS - 1) / PAIRS_COLUMNS,
           (1 << 19) / (PAIRS_COLUMNS * p->k * p->m) + 1, pairs_piece, p);
  return !p->failed && !p->subnormal;
}

#endif

#endif
