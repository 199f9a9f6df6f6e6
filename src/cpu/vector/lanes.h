/*
** lanes.h - a vector of T and what can be done with it (read once for each type).
*/

#ifndef T
#include "cpu/vector/simd.h"
#else

typedef T FN(vector) __attribute__((vector_size(VECTOR_BYTES)));
typedef T FN(loose) __attribute__((vector_size(VECTOR_BYTES), aligned(BYTES), may_alias));
typedef BITS FN(flags) __attribute__((vector_size(VECTOR_BYTES)));    /* each lane 0 or -1 */

INLINED FN(vector) FN(load) (const T *from) { return *(const FN(loose) *)from; }
INLINED void FN(store) (T *to, FN(vector) v) { *(FN(loose) *)to = v; }
INLINED FN(vector) FN(splat) (T x) { return x - (FN(vector)){0}; }    /* x - 0 keeps -0 */


/* x y + sum, rounded once where the level has FMA: GCC fuses the two by itself, also where the sum
   is taken under a condition; clang does not there. */
INLINED T FN(fused) (T x, T y, T sum) {
#if defined(__clang__) && (defined(LEVEL_AVX2) || defined(LEVEL_AVX512))
  return BYTES == 4 ? (T)__builtin_fmaf((float)x, (float)y, (float)sum)
                    : (T)__builtin_fma(x, y, sum);
#else
  return x * y + sum;
#endif
}


/* The first n lanes, 0 < n < LANES; the others are 0 and not read. AVX-512 takes LANES too. */
INLINED FN(vector) FN(load_part) (const T *from, int n) {
#if defined(HAS_AVX512)
  if (BYTES == 4) return (FN(vector))_mm512_maskz_loadu_epi32((__mmask16)((1u << n) - 1), from);
  return (FN(vector))_mm512_maskz_loadu_epi64((__mmask8)((1u << n) - 1), from);
#elif defined(HAS_AVX2)
  const FN(flags) counting = BYTES == 4 ? (FN(flags))(__m256i)(__v8si){0, 1, 2, 3, 4, 5, 6, 7}
                                            : (FN(flags))(__m256i)(__v4di){0, 1, 2, 3};
  FN(flags) wanted = counting < n;
  if (BYTES == 4) return (FN(vector))_mm256_maskload_epi32((const int *)from, (__m256i)wanted);
  return (FN(vector))_mm256_maskload_epi64((const long long *)from, (__m256i)wanted);
#else
  T part[LANES] = {0};
  for (int i = 0; i < n; i++) part[i] = from[i];
  return FN(load)(part);
#endif
}


/* The first n lanes, 0 < n < LANES; AVX2's own masked store is slow on AMD's CPUs. */
INLINED void FN(store_part) (T *to, FN(vector) v, int n) {
#if defined(HAS_AVX512)
  if (BYTES == 4) _mm512_mask_storeu_epi32(to, (__mmask16)((1u << n) - 1), (__m512i)v);
  else _mm512_mask_storeu_epi64(to, (__mmask8)((1u << n) - 1), (__m512i)v);
#elif defined(HAS_AVX2)
  const int bytes = n * BYTES;
  char *at = (char *)to;
  __m128i half = _mm256_castsi256_si128((__m256i)v);
  if (bytes & 16) {
    _mm_storeu_si128((__m128i *)at, half);
    half = _mm256_extracti128_si256((__m256i)v, 1);
    at += 16;
  }
  if (bytes & 8) {
    _mm_storel_epi64((__m128i *)at, half);
    half = _mm_unpackhi_epi64(half, half);
    at += 8;
  }
  if (BYTES == 4 && (bytes & 4)) _mm_storeu_si32(at, half);
#else
  T part[LANES];
  FN(store)(part, v);
  for (int i = 0; i < n; i++) to[i] = part[i];
#endif
}


INLINED FN(vector) FN(load_some) (const T *from, int n) {
  return n >= LANES ? FN(load)(from) : FN(load_part)(from, n);
}

INLINED void FN(store_some) (T *to, FN(vector) v, int n) {
  if (n >= LANES) FN(store)(to, v);
  else FN(store_part)(to, v, n);
}

INLINED FN(vector) FN(select) (FN(flags) which, FN(vector) yes, FN(vector) no) {
  return (FN(vector))((which & (FN(flags))yes) | (~which & (FN(flags))no));
}

INLINED T FN(total) (FN(vector) v) {
  T part[LANES], sum = 0;
  FN(store)(part, v);
  for (int i = 0; i < LANES; i++) sum += part[i];
  return sum;
}


/*
** {==================================================================
** Transposing a matrix: LANES x LANES elements at a time, 16 bytes of a row being moved first to
** the vector of their column, then 4 x 4 or 2 x 2 elements transposed within 16 bytes.
** ===================================================================
*/

typedef T FN(piece) __attribute__((vector_size(16)));      /* of a row: GROUP elements */
typedef T FN(loose_piece) __attribute__((vector_size(16), aligned(BYTES), may_alias));

/* Pieces of rows r, r + GROUP, … in one vector; beyond the last row, the last row again. */
INLINED FN(vector) FN(load_pieces) (const T *from, int64_t row, int r, int64_t rows) {
  FN(piece) piece[VECTOR_BYTES / 16];
  UNROLL for (int g = 0; g < VECTOR_BYTES / 16; g++)
    piece[g] = *(const FN(loose_piece) *)(from + smaller(r + g * GROUP, rows - 1) * row);
#if defined(HAS_AVX2)
  return (FN(vector))_mm256_set_m128i((__m128i)piece[1], (__m128i)piece[0]);
#elif defined(HAS_AVX512)
  __m512i v = _mm512_castsi128_si512((__m128i)piece[0]);
  v = _mm512_inserti64x2(v, (__m128i)piece[1], 1);
  v = _mm512_inserti64x2(v, (__m128i)piece[2], 2);
  return (FN(vector))_mm512_inserti64x2(v, (__m128i)piece[3], 3);
#else
  FN(vector) v;
  memcpy(&v, piece, sizeof v);
  return v;
#endif
}


/* The pieces of GROUP rows become those of GROUP columns. */
INLINED void FN(transpose_pieces) (FN(vector) v[]) {
  typedef double wide __attribute__((vector_size(VECTOR_BYTES)));
  typedef int64_t wide_flags __attribute__((vector_size(VECTOR_BYTES), unused));
#define WIDE(a, b, ...) (FN(vector))LANES_OF(wide_flags, (wide)(a), (wide)(b), __VA_ARGS__)
#if BYTES == 4
  FN(vector) a = LANES_OF(FN(flags), v[0], v[1], LOW_4);
  FN(vector) b = LANES_OF(FN(flags), v[0], v[1], HIGH_4);
  FN(vector) c = LANES_OF(FN(flags), v[2], v[3], LOW_4);
  FN(vector) d = LANES_OF(FN(flags), v[2], v[3], HIGH_4);
  v[0] = WIDE(a, c, LOW_8);
  v[1] = WIDE(a, c, HIGH_8);
  v[2] = WIDE(b, d, LOW_8);
  v[3] = WIDE(b, d, HIGH_8);
#else
  FN(vector) a = v[0];
  v[0] = WIDE(a, v[1], LOW_8);
  v[1] = WIDE(a, v[1], HIGH_8);
#endif
#undef WIDE
}


/* LANES rows, or what is left of them. The last GROUP of columns may overlap the one before. */
INLINED void FN(transpose_rows) (int64_t rows, int64_t columns, int lanes, T factor,
                                 const T *from, int64_t from_row, T *to, int64_t to_row) {
  for (int64_t c = 0; c < columns; c += GROUP) {
    const int64_t at = smaller(c, columns - GROUP);
    FN(vector) v[GROUP];
    UNROLL for (int r = 0; r < GROUP; r++)
      v[r] = FN(load_pieces)(from + at, from_row, r, rows);
    FN(transpose_pieces)(v);
    UNROLL for (int i = 0; i < GROUP; i++)
      FN(store_some)(to + (at + i) * to_row, v[i] * factor, lanes);
  }
}


/*
** to[c * to_row + r] = factor * from[r * from_row + c]; of each line of 'to', 'written' are
** written, which may be more than there are rows.
*/
static void FN(transpose) (int64_t rows, int64_t columns, int64_t written, T factor, const T *from,
                           int64_t from_row, T *to, int64_t to_row) {
  for (int64_t r = 0; r < rows; r += LANES, from += LANES * from_row) {
    const int64_t n = smaller(rows - r, LANES);
    if (columns < GROUP)
      for (int64_t c = 0; c < columns; c++)
        for (int64_t i = 0; i < smaller(written - r, LANES); i++)
          to[c * to_row + r + i] = factor * from[smaller(i, n - 1) * from_row + c];
    else if (n == LANES)
      FN(transpose_rows)(LANES, columns, LANES, factor, from, from_row, to + r, to_row);
    else
      FN(transpose_rows)(n, columns, (int)smaller(written - r, LANES), factor, from, from_row,
                         to + r, to_row);
  }
}

/* }================================================================== */

#endif
