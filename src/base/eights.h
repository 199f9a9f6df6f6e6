/*
** eights.h - the types of blocks as they are read: eight quants at a time, and the scale and the
** least value of sixteen. The CPU and GPUs include it.
**
** The layouts are those of ggml-common.h, the arithmetic is that of its reference, in its order.
** All products of a scale and a quant that something is added to are exact, so that a fused
** multiplication gives the same bits.
**
**   eight_NAME(b, i)     elements 8 i to 8 i + 7 of the block at b, a byte each, the first lowest
**   scale_NAME(b, g)     of elements 16 g to 16 g + 15
**   least_NAME(b, g)     what is added to them, 0 of a type that has none
**   unsigned_NAME(b, i)  of some types: as eight_NAME, before the quants are made negative
**
** Readers define EIGHTS, how functions are declared; half_at(b), a float16 at b; eight_at(b), the 8
** bytes there; and 'eights' with eights_at: the same, or a vector of 32 bytes, which blocks of 256
** elements give for i = 4 k. Blocks, and all that is read so, lie at even addresses.
*/

#ifndef eights_h
#define eights_h

#define EIGHT_OF(x) (UINT64_C(0x0101010101010101) * (uint64_t)(x))

/* 'bits' bits of each byte, from bit 'from' on. */
#define EIGHT_BITS(x, from, bits) ((x) >> (from) & EIGHT_OF((1 << (bits)) - 1))

/* Elements from 0 to 127, less 'zero', at most 128. No byte borrows from the next. */
#define EIGHT_LESS(x, zero) ((((x) | EIGHT_OF(0x80)) - EIGHT_OF(zero)) ^ EIGHT_OF(0x80))


/*
** {==================================================================
** Blocks of 32 elements: a scale, a least value in some, fifth bits in some; then the low halves
** of 16 bytes and the high ones
** ===================================================================
*/

EIGHTS uint64_t eight_nibbles (const uint8_t *at, int i) {
  return EIGHT_BITS(eight_at(at + 8 * (i & 1)), 4 * (i >> 1), 4);
}

/*
** Bits of a byte, one for each element, as fifth bits: each byte of x keeps its own bit of eight,
** and an addition carries that bit to the byte's highest, which is moved to the fifth.
*/
EIGHTS uint64_t eight_fifths (uint8_t byte) {
  const uint64_t x = EIGHT_OF(byte) & UINT64_C(0x8040201008040201);
  return (x + UINT64_C(0x00406070787c7e7f)) >> 3 & EIGHT_OF(16);
}

EIGHTS uint64_t eight_q8_0 (const uint8_t *b, int i) { return eight_at(b + 2 + 8 * i); }

EIGHTS uint64_t eight_q4_0 (const uint8_t *b, int i) {
  return EIGHT_LESS(eight_nibbles(b + 2, i), 8);
}

EIGHTS uint64_t eight_q4_1 (const uint8_t *b, int i) { return eight_nibbles(b + 4, i); }

EIGHTS uint64_t eight_q5_0 (const uint8_t *b, int i) {
  return EIGHT_LESS(eight_nibbles(b + 6, i) | eight_fifths(b[2 + i]), 16);
}

EIGHTS uint64_t eight_q5_1 (const uint8_t *b, int i) {
  return eight_nibbles(b + 8, i) | eight_fifths(b[4 + i]);
}

EIGHTS float scale_q8_0 (const uint8_t *b, int g) { return (void)g, half_at(b); }
EIGHTS float scale_q4_0 (const uint8_t *b, int g) { return (void)g, half_at(b); }
EIGHTS float scale_q4_1 (const uint8_t *b, int g) { return (void)g, half_at(b); }
EIGHTS float scale_q5_0 (const uint8_t *b, int g) { return (void)g, half_at(b); }
EIGHTS float scale_q5_1 (const uint8_t *b, int g) { return (void)g, half_at(b); }

EIGHTS float least_q8_0 (const uint8_t *b, int g) { return (void)b, (void)g, 0; }
EIGHTS float least_q4_0 (const uint8_t *b, int g) { return (void)b, (void)g, 0; }
EIGHTS float least_q4_1 (const uint8_t *b, int g) { return (void)g, half_at(b + 2); }
EIGHTS float least_q5_0 (const uint8_t *b, int g) { return (void)b, (void)g, 0; }
EIGHTS float least_q5_1 (const uint8_t *b, int g) { return (void)g, half_at(b + 2); }

/* }================================================================== */


/*
** {==================================================================
** Blocks of 256 elements. Of bytes that hold several elements each, 32 after another have the
** lowest bits of 32 elements, then the next ones of the next 32, and so on.
** ===================================================================
*/

/* 2 bits of each quant. */
EIGHTS eights eight_twos (const uint8_t *at, int i) {
  return EIGHT_BITS(eights_at(at + 32 * (i >> 4) + 8 * (i & 3)), 2 * (i >> 2 & 3), 2);
}

/* 4 bits. */
EIGHTS eights eight_fours (const uint8_t *at, int i) {
  return EIGHT_BITS(eights_at(at + 32 * (i >> 3) + 8 * (i & 3)), 4 * (i >> 2 & 1), 4);
}

/* One bit. */
EIGHTS eights eight_ones (const uint8_t *at, int i) {
  return EIGHT_BITS(eights_at(at + 8 * (i & 3)), i >> 2, 1);
}


/* 16 scales and least values of four bits, quants, scales of both. */
EIGHTS eights eight_q2_k (const uint8_t *b, int i) { return eight_twos(b + 16, i); }

EIGHTS float scale_q2_k (const uint8_t *b, int g) { return half_at(b + 80) * (float)(b[g] & 15); }

EIGHTS float least_q2_k (const uint8_t *b, int g) {
  return -(half_at(b + 82) * (float)(b[g] >> 4));
}


/* Third bits, the other two, 16 scales of six bits, that of all. */
EIGHTS eights unsigned_q3_k (const uint8_t *b, int i) {
  return eight_twos(b + 32, i) | eight_ones(b, i) << 2;
}

EIGHTS eights eight_q3_k (const uint8_t *b, int i) { return EIGHT_LESS(unsigned_q3_k(b, i), 4); }

EIGHTS float scale_q3_k (const uint8_t *b, int g) {
  const uint8_t *s = b + 96;
  const int low = s[g & 7] >> 4 * (g >> 3) & 15, high = s[8 + (g & 3)] >> 2 * (g >> 2) & 3;
  return half_at(b + 108) * (float)((low | high << 4) - 32);
}

EIGHTS float least_q3_k (const uint8_t *b, int g) { return (void)b, (void)g, 0; }


/* 8 scales and least values of six bits in 12 bytes, for 32 elements each: those of all first. */
EIGHTS float scale_sixes (const uint8_t *b, int k) {
  const uint8_t *s = b + 4;
  return half_at(b) * (float)(k < 4 ? s[k] & 63 : (s[k + 4] & 15) | s[k - 4] >> 6 << 4);
}

EIGHTS float least_sixes (const uint8_t *b, int k) {
  const uint8_t *s = b + 4;
  return -(half_at(b + 2) * (float)(k < 4 ? s[k + 4] & 63 : s[k + 4] >> 4 | s[k] >> 6 << 4));
}

EIGHTS eights eight_q4_k (const uint8_t *b, int i) { return eight_fours(b + 16, i); }
EIGHTS float scale_q4_k (const uint8_t *b, int g) { return scale_sixes(b, g >> 1); }
EIGHTS float least_q4_k (const uint8_t *b, int g) { return least_sixes(b, g >> 1); }

EIGHTS eights eight_q5_k (const uint8_t *b, int i) {
  return eight_fours(b + 48, i) | eight_ones(b + 16, i) << 4;
}
EIGHTS float scale_q5_k (const uint8_t *b, int g) { return scale_sixes(b, g >> 1); }
EIGHTS float least_q5_k (const uint8_t *b, int g) { return least_sixes(b, g >> 1); }


/* 4 bits of each quant, of which 64 elements share 32 bytes in another order: 0 and 64 the first;
   2 bits of each, 16 scales of eight bits, that of all. */
EIGHTS eights unsigned_q6_k (const uint8_t *b, int i) {
  const int part = i >> 4, quarter = i >> 2 & 3;
  const uint8_t *low = b + 64 * part + 32 * (quarter & 1) + 8 * (i & 3);
  return EIGHT_BITS(eights_at(low), 4 * (quarter >> 1), 4) | eight_twos(b + 128, i) << 4;
}

EIGHTS eights eight_q6_k (const uint8_t *b, int i) { return EIGHT_LESS(unsigned_q6_k(b, i), 32); }

EIGHTS float scale_q6_k (const uint8_t *b, int g) {
  return half_at(b + 208) * (float)(int8_t)b[192 + g];
}

EIGHTS float least_q6_k (const uint8_t *b, int g) { return (void)b, (void)g, 0; }

/* }================================================================== */

#endif
