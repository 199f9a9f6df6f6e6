/*
** scalar.h - the types that a tensor can hold: sizes, names, bits.
*/

#ifndef scalar_h
#define scalar_h

#include <string.h>

#include "heed.h"

#pragma GCC visibility push(hidden)

extern const uint8_t scalar_sizes[HEED_ALL_TYPES];       /* bytes of an element, of blocks 1 */
extern const char *const scalar_names[HEED_ALL_TYPES];   /* NULL: HEED_NTYPES */

/* A type of blocks, or, of another type, an element as a block of its own. */
typedef struct scalar_block {
  int elements, bytes;
  bool written;
} scalar_block;

extern const scalar_block scalar_blocks[HEED_ALL_TYPES];

/* The cases of a switch over types of single elements. */
#define SCALAR_BLOCK_CASES \
  case HEED_Q8_0: case HEED_Q4_0: case HEED_Q4_1: case HEED_Q5_0: case HEED_Q5_1: \
  case HEED_Q2_K: case HEED_Q3_K: case HEED_Q4_K: case HEED_Q5_K: case HEED_Q6_K: \
  case HEED_NTYPES: case HEED_ALL_TYPES

static inline bool scalar_is_type (heed_type type) {
  return (unsigned)type < HEED_ALL_TYPES && type != HEED_NTYPES;
}
static inline bool scalar_is_block (heed_type type) { return type > HEED_NTYPES; }

/* The bytes of n elements, which are whole blocks. */
static inline int64_t scalar_bytes (heed_type type, int64_t n) {
  if (!scalar_is_block(type)) return n * scalar_sizes[type];
  return n / scalar_blocks[type].elements * scalar_blocks[type].bytes;
}

static inline bool scalar_is_float (heed_type type) {
  return type >= HEED_FLOAT16 && type < HEED_NTYPES;
}
static inline bool scalar_is_half (heed_type type) {
  return type == HEED_FLOAT16 || type == HEED_BFLOAT16;
}

/* Bools, integers, floats: what an in-place result may not rise above. */
static inline int scalar_category (heed_type type) {
  return scalar_is_float(type) ? 2 : type == HEED_BOOL ? 0 : 1;
}

/* The type that loops compute in. */
static inline heed_type scalar_computing (heed_type type) {
  if (type == HEED_FLOAT64) return HEED_FLOAT64;
  return type >= HEED_FLOAT16 ? HEED_FLOAT32 : HEED_INT64;
}

/* The type itself if it is a float type, else float32. */
static inline heed_type scalar_floating (heed_type type) {
  return scalar_is_float(type) ? type : HEED_FLOAT32;
}

/* The type of a result of two types (NumPy's lattice, as PyTorch has it). */
heed_type scalar_promote (heed_type a, heed_type b);

/* A number of the host's: a bool, an integer or a float. */
typedef struct scalar {
  heed_type type;                  /* HEED_BOOL, HEED_INT64 or HEED_FLOAT64 */
  union { double f; int64_t i; };  /* .i for the first two */
} scalar;

static inline double scalar_double (scalar s) { return s.type == HEED_FLOAT64 ? s.f : (double)s.i; }

/* Reads and writes one element; conversions as in C, saturating where C leaves them undefined. */
scalar scalar_load (heed_type type, const void *at);
void scalar_store (heed_type type, void *at, scalar value);

/* Reads one element as int64 or float64, where that loses nothing; false: it was not read. */
bool scalar_widen (heed_type from, const void *at, heed_type to, void *data);

static inline float scalar_from_bfloat16 (uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float f;
  memcpy(&f, &wide, sizeof f);
  return f;
}

/* Rounds to nearest, ties to even; a NaN stays one. */
static inline uint16_t scalar_to_bfloat16 (float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return (uint16_t)(f != f ? 0x7fc0 : rounded);
}

float scalar_from_float16 (uint16_t bits);
uint16_t scalar_to_float16 (float f);

#pragma GCC visibility pop

#endif
