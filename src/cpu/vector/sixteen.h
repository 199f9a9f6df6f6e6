/*
** sixteen.h - rows of 16 numbers of 32 bits in AVX-512's registers, transposed.
*/

#ifndef sixteen_h
#define sixteen_h

#include "cpu/vector/simd.h"

#if defined(HAS_AVX512)

INLINED void transpose_sixteen (__m512i v[16]) {
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

#endif

#endif
