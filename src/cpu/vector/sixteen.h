/*
** sixteen.h - rows of 16 numbers of 32 bits in AVX-512's registers, transposed.
*/

#ifndef sixteen_h
#define sixteen_h

#include "cpu/vector/simd.h"

#if defined(HAS_AVX512)

/*
** Four columns, from 'column' on, of sixteen rows. The rows are read by lanes of 128 bits, which
** leaves the unit that shuffles half the work that it has with rows in registers.
*/
INLINED void four_columns (const __m512i rows[16], int column, __m512i v[4]) {
  __m512i r[4];                    /* lane l of r[i] is of row 4 l + i */
  UNROLL for (int i = 0; i < 4; i++) {
    const __m128i *at = (const __m128i *)(const void *)(rows + i) + column / 4;
    r[i] = _mm512_castsi128_si512(_mm_load_si128(at));
    r[i] = _mm512_inserti32x4(r[i], _mm_load_si128(at + 16), 1);
    r[i] = _mm512_inserti32x4(r[i], _mm_load_si128(at + 32), 2);
    r[i] = _mm512_inserti32x4(r[i], _mm_load_si128(at + 48), 3);
  }
  const __m512i a = _mm512_unpacklo_epi32(r[0], r[1]), b = _mm512_unpackhi_epi32(r[0], r[1]);
  const __m512i c = _mm512_unpacklo_epi32(r[2], r[3]), d = _mm512_unpackhi_epi32(r[2], r[3]);
  v[0] = _mm512_unpacklo_epi64(a, c);
  v[1] = _mm512_unpackhi_epi64(a, c);
  v[2] = _mm512_unpacklo_epi64(b, d);
  v[3] = _mm512_unpackhi_epi64(b, d);
}

#endif

#endif
