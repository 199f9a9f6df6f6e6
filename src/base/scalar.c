/*
** scalar.c - sizes, names and conversions of the types that a tensor can hold.
*/

#include "base/scalar.h"

#include <math.h>


const uint8_t scalar_sizes[HEED_ALL_TYPES] = {
  1, 1, 8, 2, 2, 4, 8,
#define BLOCK(NAME, ...) [HEED_##NAME] = 1,
#include "base/blocks.def"
};

const char *const scalar_names[HEED_ALL_TYPES] = {
  "bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64",
#define BLOCK(NAME, name, ...) [HEED_##NAME] = #name,
#include "base/blocks.def"
};

const scalar_block scalar_blocks[HEED_ALL_TYPES] = {
  {1, 1, true}, {1, 1, true}, {1, 8, true}, {1, 2, true}, {1, 2, true}, {1, 4, true}, {1, 8, true},
#define WRITTEN(name) true
#define READ(name) false
#define BLOCK(NAME, name, elements, bytes, least, group, use) \
  [HEED_##NAME] = {elements, bytes, use(name)},
#include "base/blocks.def"
};


heed_type scalar_promote (heed_type a, heed_type b) {
  if (a != b && scalar_is_half(a) && scalar_is_half(b)) return HEED_FLOAT32;
  return a > b ? a : b;
}


float scalar_from_float16 (uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float f = exponent == 31 ? (fraction ? NAN : INFINITY)
          : exponent == 0 ? (float)fraction * 0x1p-24f
          : ldexpf((float)(1024 + fraction), exponent - 25);
  return bits & 0x8000 ? -f : f;
}


/* Rounds to nearest, ties to even: adding 2^k moves the last bit of f to where a half ends. */
uint16_t scalar_to_float16 (float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
  float size = fabsf(f);
  if (f != f) return (uint16_t)(sign | 0x7e00);
  if (size >= 65520) return (uint16_t)(sign | 0x7c00);
  if (size < 0x1p-14f) return (uint16_t)(sign | (uint16_t)rintf(size * 0x1p24f));
  bits &= 0x7fffffff;
  bits += 0xfff + (bits >> 13 & 1);
  return (uint16_t)(sign | ((bits >> 13) - (112 << 10)));
}


scalar scalar_load (heed_type type, const void *at) {
  scalar s = {.type = type < HEED_FLOAT16 ? (type == HEED_BOOL ? HEED_BOOL : HEED_INT64)
                                          : HEED_FLOAT64};
  uint16_t half;
  float f;
  switch (type) {
    case HEED_BOOL: s.i = *(const uint8_t *)at != 0; break;
    case HEED_UINT8: s.i = *(const uint8_t *)at; break;
    case HEED_INT64: memcpy(&s.i, at, sizeof s.i); break;
    case HEED_FLOAT16: memcpy(&half, at, sizeof half); s.f = scalar_from_float16(half); break;
    case HEED_BFLOAT16: memcpy(&half, at, sizeof half); s.f = scalar_from_bfloat16(half); break;
    case HEED_FLOAT32: memcpy(&f, at, sizeof f); s.f = f; break;
    case HEED_FLOAT64: memcpy(&s.f, at, sizeof s.f); break;
    SCALAR_BLOCK_CASES: break;
  }
  return s;
}


/* NaN gives 0. */
static int64_t saturate (double f, double low, double high, int64_t lowest, int64_t highest) {
  return f != f ? 0 : f <= low ? lowest : f >= high ? highest : (int64_t)f;
}


static int64_t integer (scalar s) {
  return s.type != HEED_FLOAT64 ? s.i : saturate(s.f, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX);
}


static uint8_t byte (scalar s) {
  return (uint8_t)(s.type != HEED_FLOAT64 ? s.i : saturate(s.f, 0, 255, 0, 255));
}


void scalar_store (heed_type type, void *at, scalar value) {
  double f = scalar_double(value);
  float single = value.type == HEED_FLOAT64 ? (float)value.f : (float)value.i;
  int64_t i;
  uint16_t half;
  switch (type) {
    case HEED_BOOL: *(uint8_t *)at = value.type == HEED_FLOAT64 ? f != 0 : value.i != 0; break;
    case HEED_UINT8: *(uint8_t *)at = byte(value); break;
    case HEED_INT64: i = integer(value); memcpy(at, &i, sizeof i); break;
    case HEED_FLOAT16: half = scalar_to_float16(single); memcpy(at, &half, sizeof half); break;
    case HEED_BFLOAT16: half = scalar_to_bfloat16(single); memcpy(at, &half, sizeof half); break;
    case HEED_FLOAT32: memcpy(at, &single, sizeof single); break;
    case HEED_FLOAT64: memcpy(at, &f, sizeof f); break;
    SCALAR_BLOCK_CASES: break;
  }
}


bool scalar_widen (heed_type from, const void *at, heed_type to, void *data) {
  scalar value = scalar_load(from, at);
  if (value.type != to || to == HEED_BOOL) return false;
  memcpy(data, &value.i, sizeof value.i);
  return true;
}
