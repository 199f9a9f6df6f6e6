/*
** scalars.c - the bits of numbers: every half beside its value, conversions at their limits, the
** generators beside published numbers.
*/

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "base/scalar.h"

static int failed;

static void check (bool good, const char *what) {
  if (good || failed++ > 20) return;
  printf("scalars: %s: wrong\n", what);
}


/*
** {==================================================================
** Halves
** ===================================================================
*/

static double value_of (unsigned bits, int fraction_bits, int bias) {
  const int most = (1 << (15 - fraction_bits)) - 1, exponent = (int)(bits >> fraction_bits) & most;
  const int fraction = (int)(bits & ((1u << fraction_bits) - 1)), one = 1 << fraction_bits;
  double y = exponent == 0 ? ldexp(fraction, 1 - bias - fraction_bits)
                           : ldexp(one + fraction, exponent - bias - fraction_bits);
  if (exponent == most) y = fraction != 0 ? NAN : INFINITY;
  return bits & 0x8000 ? -y : y;
}

/* Values beside each half, and in the middle of two, of which the even one is nearest. */
static void is_rounded (unsigned bits, int fraction_bits, int bias, uint16_t (*round) (float),
                        const char *what) {
  const float f = (float)value_of(bits, fraction_bits, bias);
  const float next = (float)value_of(bits + 1, fraction_bits, bias);
  check(round(f) == bits && round(-f) == (bits | 0x8000), what);
  const float middle = isinf(next) ? fraction_bits == 10 ? 65520 : INFINITY
                                   : (float)(((double)f + next) / 2);
  if (isinf(middle)) return;
  check(round(middle) == bits + (bits & 1), what);
  check(round(nextafterf(middle, 0)) == bits, what);
  check(round(nextafterf(middle, INFINITY)) == bits + 1, what);
  check(round(-middle) == (0x8000 | (bits + (bits & 1))), what);
}

static void halves_are_exact (void) {
  for (unsigned bits = 0; bits < 0x10000; bits++) {
    const double f = value_of(bits, 10, 15), b = value_of(bits, 7, 127);
    const float gotf = scalar_from_float16((uint16_t)bits);
    const float gotb = scalar_from_bfloat16((uint16_t)bits);
    check(f != f ? gotf != gotf : gotf == f && !signbit(gotf) == !signbit(f), "a float16");
    check(b != b ? gotb != gotb : gotb == b && !signbit(gotb) == !signbit(b), "a bfloat16");
    if (bits < 0x7c00) is_rounded(bits, 10, 15, scalar_to_float16, "to float16");
    if (bits < 0x7f80) is_rounded(bits, 7, 127, scalar_to_bfloat16, "to bfloat16");
  }
  check(scalar_to_float16(INFINITY) == 0x7c00 && scalar_to_float16(-INFINITY) == 0xfc00 &&
        scalar_to_float16(3e38f) == 0x7c00, "float16 without end");
  check((scalar_to_float16(NAN) & 0x7fff) == 0x7e00, "a float16 that is no number");
  check(scalar_to_bfloat16(INFINITY) == 0x7f80 && scalar_to_bfloat16(-INFINITY) == 0xff80 &&
        scalar_to_bfloat16(3.4e38f) == 0x7f80, "bfloat16 without end");
  check(scalar_to_bfloat16(NAN) == 0x7fc0, "a bfloat16 that is no number");
}

/* }================================================================== */


/*
** {==================================================================
** Types
** ===================================================================
*/

static void types_have_properties (void) {
  static const struct {
    const char *name; int size, category; bool is_float, half; heed_type computing, floating;
  } types[] = {
    {"bool", 1, 0, false, false, HEED_INT64, HEED_FLOAT32},
    {"uint8", 1, 1, false, false, HEED_INT64, HEED_FLOAT32},
    {"int64", 8, 1, false, false, HEED_INT64, HEED_FLOAT32},
    {"float16", 2, 2, true, true, HEED_FLOAT32, HEED_FLOAT16},
    {"bfloat16", 2, 2, true, true, HEED_FLOAT32, HEED_BFLOAT16},
    {"float32", 4, 2, true, false, HEED_FLOAT32, HEED_FLOAT32},
    {"float64", 8, 2, true, false, HEED_FLOAT64, HEED_FLOAT64}
  };
  for (int i = 0; i < HEED_NTYPES; i++) {
    const heed_type t = (heed_type)i;
    check(scalar_sizes[i] == types[i].size && strcmp(scalar_names[i], types[i].name) == 0,
          "a type");
    check(scalar_is_type(t) && !scalar_is_block(t) && scalar_is_float(t) == types[i].is_float &&
          scalar_is_half(t) == types[i].half && scalar_category(t) == types[i].category &&
          scalar_computing(t) == types[i].computing && scalar_floating(t) == types[i].floating,
          types[i].name);
    check(scalar_bytes(t, 3) == 3 * types[i].size && scalar_blocks[i].elements == 1 &&
          scalar_blocks[i].bytes == types[i].size && scalar_blocks[i].written, "its bytes");
    check(heed_type_size(t) == (size_t)types[i].size && heed_type_block(t) == 1 &&
          heed_type_written(t) && heed_type_bytes(t, 3) == 3 * (size_t)types[i].size &&
          heed_type_bytes(t, -1) == 0 && heed_type_bytes(t, 0) == 0, "as hosts see it");
    for (int k = 0; k < HEED_NTYPES; k++)
      check(scalar_promote(t, (heed_type)k) ==
            (i == k || !types[i].half || !types[k].half ? (heed_type)(i > k ? i : k)
                                                        : HEED_FLOAT32), "two types");
  }
  check(!scalar_is_type(HEED_NTYPES) && !scalar_is_type(HEED_ALL_TYPES) &&
        !scalar_is_type((heed_type)-1) && scalar_names[HEED_NTYPES] == NULL, "types that are none");
  check(heed_type_name(HEED_ALL_TYPES) == NULL && heed_type_name((heed_type)-1) == NULL &&
        heed_type_name(HEED_NTYPES) == NULL && heed_type_size(HEED_NTYPES) == 0 &&
        heed_type_size((heed_type)-1) == 0 && heed_type_block(HEED_NTYPES) == 1 &&
        !heed_type_written(HEED_NTYPES) && heed_type_bytes(HEED_NTYPES, 4) == 0,
        "as hosts see those");
}

static void blocks_have_properties (void) {
  static const struct { const char *name; int elements, bytes; bool written; } blocks[] = {
    {"q8_0", 32, 34, true}, {"q4_0", 32, 18, true}, {"q4_1", 32, 20, true},
    {"q5_0", 32, 22, true}, {"q5_1", 32, 24, true}, {"q2_k", 256, 84, false},
    {"q3_k", 256, 110, false}, {"q4_k", 256, 144, true}, {"q5_k", 256, 176, true},
    {"q6_k", 256, 210, true}
  };
  for (int i = 0; i < HEED_ALL_TYPES - HEED_NTYPES - 1; i++) {
    const heed_type t = (heed_type)(HEED_NTYPES + 1 + i);
    heed_type found;
    check(scalar_is_type(t) && scalar_is_block(t) && !scalar_is_float(t) && !scalar_is_half(t) &&
          scalar_sizes[t] == 1 && strcmp(heed_type_name(t), blocks[i].name) == 0, "blocks");
    check(heed_type_find(blocks[i].name, &found) && found == t, "blocks by their name");
    check(heed_type_block(t) == blocks[i].elements && heed_type_size(t) == 0 &&
          heed_type_written(t) == blocks[i].written &&
          heed_type_bytes(t, 3 * blocks[i].elements) == 3 * (size_t)blocks[i].bytes,
          blocks[i].name);
  }
}

/* }================================================================== */


/*
** {==================================================================
** Conversions
** ===================================================================
*/

static scalar a_float (double f) { return (scalar){.type = HEED_FLOAT64, .f = f}; }

static scalar an_integer (int64_t i) { return (scalar){.type = HEED_INT64, .i = i}; }

static int64_t stored (heed_type type, scalar value) {
  unsigned char data[8] = {0};
  scalar_store(type, data, value);
  const scalar y = scalar_load(type, data);
  check(y.type == (type == HEED_BOOL ? HEED_BOOL : HEED_INT64), "the type of what is read");
  return y.i;
}

static double stored_float (heed_type type, scalar value) {
  unsigned char data[8] = {0};
  scalar_store(type, data, value);
  const scalar y = scalar_load(type, data);
  check(y.type == HEED_FLOAT64, "a float that is read");
  return y.f;
}

static void conversions_have_limits (void) {
  check(stored(HEED_BOOL, a_float(0)) == 0 && stored(HEED_BOOL, a_float(-0.0)) == 0 &&
        stored(HEED_BOOL, a_float(1e-300)) == 1 && stored(HEED_BOOL, a_float(NAN)) == 1 &&
        stored(HEED_BOOL, an_integer(256)) == 1 && stored(HEED_BOOL, an_integer(0)) == 0 &&
        stored(HEED_BOOL, an_integer((int64_t)1 << 32)) == 1, "as bools");
  static const struct { double f; int byte; } bytes[] = {
    {NAN, 0}, {-INFINITY, 0}, {-1, 0}, {-0.5, 0}, {0.999, 0}, {1, 1}, {254.9, 254}, {255, 255},
    {255.5, 255}, {256, 255}, {1e30, 255}, {INFINITY, 255}
  };
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
    check(stored(HEED_UINT8, a_float(bytes[i].f)) == bytes[i].byte, "a float as a byte");
  check(stored(HEED_UINT8, an_integer(257)) == 1 && stored(HEED_UINT8, an_integer(-1)) == 255 &&
        stored(HEED_UINT8, an_integer(255)) == 255, "an integer as a byte");
  check(stored(HEED_INT64, a_float(NAN)) == 0 && stored(HEED_INT64, a_float(0x1p63)) == INT64_MAX &&
        stored(HEED_INT64, a_float(-0x1p63)) == INT64_MIN &&
        stored(HEED_INT64, a_float(-INFINITY)) == INT64_MIN &&
        stored(HEED_INT64, a_float(INFINITY)) == INT64_MAX &&
        stored(HEED_INT64, a_float(0x1.fffffffffffffp62)) == 0x7ffffffffffffc00 &&
        stored(HEED_INT64, a_float(-2.9)) == -2 && stored(HEED_INT64, a_float(2.9)) == 2,
        "a float as an integer");
  check(stored(HEED_INT64, an_integer(INT64_MIN)) == INT64_MIN &&
        stored(HEED_INT64, an_integer(INT64_MAX)) == INT64_MAX, "an integer");
  check(stored_float(HEED_FLOAT32, a_float(0.1)) == 0.1f &&
        stored_float(HEED_FLOAT32, an_integer(16777219)) == 16777220 &&
        stored_float(HEED_FLOAT64, an_integer(16777219)) == 16777219 &&
        stored_float(HEED_FLOAT64, a_float(0.1)) == 0.1 &&
        stored_float(HEED_FLOAT16, an_integer(-2049)) == -2048 &&
        stored_float(HEED_BFLOAT16, an_integer(259)) == 260 &&
        stored_float(HEED_FLOAT16, a_float(1e9)) == INFINITY, "as floats");
  check(scalar_double(an_integer(-3)) == -3 && scalar_double(a_float(0.5)) == 0.5 &&
        scalar_double((scalar){.type = HEED_BOOL, .i = 1}) == 1, "as a double");
}

static void some_types_are_wide (void) {
  const int64_t whole = -5;
  const float single = 0.1f;
  const double wide = 0.1;
  const uint8_t byte = 200, yes = 1;
  int64_t i = 0;
  double f = 0;
  check(scalar_widen(HEED_INT64, &whole, HEED_INT64, &i) && i == -5, "an integer");
  check(scalar_widen(HEED_UINT8, &byte, HEED_INT64, &i) && i == 200, "a byte as an integer");
  check(scalar_widen(HEED_FLOAT32, &single, HEED_FLOAT64, &f) && f == 0.1f, "a float as a double");
  check(scalar_widen(HEED_FLOAT64, &wide, HEED_FLOAT64, &f) && f == 0.1, "a double");
  i = 7;
  f = 7;
  check(!scalar_widen(HEED_BOOL, &yes, HEED_BOOL, &i) &&
        !scalar_widen(HEED_BOOL, &yes, HEED_INT64, &i) &&
        !scalar_widen(HEED_INT64, &whole, HEED_FLOAT64, &f) &&
        !scalar_widen(HEED_FLOAT64, &wide, HEED_INT64, &i) &&
        !scalar_widen(HEED_FLOAT32, &single, HEED_FLOAT32, &f) && i == 7 && f == 7, "what is not");
}

/* }================================================================== */


/*
** {==================================================================
** Generators
** ===================================================================
*/

/* The numbers of mt19937ar.c and of std::mt19937 for their common seed. */
static void is_mersenne_twister (void) {
  static uint32_t all[10000], pieces[10000];
  static const int64_t sizes[] = {1, 2, 622, 623, 624, 625, 1247, 1248, 1249};
  generator g, h;
  generator_seed(&g, 5489);
  uint64_t sum = 0;
  for (int i = 0; i < 10000; i++) sum += all[i] = generator_32(&g);
  check(all[0] == 3499211612u && all[1] == 581869302u && all[2] == 3890346734u &&
        all[9999] == 4123659995u && sum == UINT64_C(21571313423311), "published numbers");
  for (int way = 0; way < 9; way++) {
    generator_seed(&h, 5489 + ((uint64_t)7 << 32));
    for (int64_t at = 0, n; at < 10000; at += n) {
      n = at + sizes[way] < 10000 ? sizes[way] : 10000 - at;
      generator_fill(&h, n, pieces + at);
    }
    check(memcmp(all, pieces, sizeof all) == 0, "numbers in pieces");
    generator after = g;
    check(generator_32(&h) == generator_32(&after), "what follows");
  }
  generator_seed(&g, 5489);
  check(generator_64(&g) == ((uint64_t)all[0] << 32 | all[1]), "64 bits");
  generator_seed(&g, 5489);
  const double u = (double)(((uint64_t)all[0] << 32 | all[1]) & 0x1fffffffffffff) * 0x1p-53;
  check(generator_uniform_double(&g) == u, "a uniform number");
}

static void states_are_checked (void) {
  static const struct { int32_t left, seeded; uint64_t next; bool good; } states[] = {
    {1, 1, 0, true}, {1, 1, 624, true}, {1, 1, 625, false}, {624, 1, 1, true},
    {624, 1, 2, false}, {625, 1, 0, false}, {0, 1, 5, false}, {-1, 1, 5, false},
    {5, 0, 5, false}, {5, 2, 5, false}, {300, 1, 325, true}, {300, 1, 326, false}
  };
  uint8_t bytes[HEED_RNG_BYTES], again[HEED_RNG_BYTES];
  generator g, h;
  generator_seed(&g, 11);
  const double first = generator_normal(&g);
  check(g.has_normal && first != g.normal, "a pair of normal numbers");
  generator_save(&g, bytes);
  memset(&h, 0, sizeof h);
  check(generator_load(&h, bytes) && h.seed == 11, "a state");
  generator_save(&h, again);
  check(memcmp(bytes, again, sizeof bytes) == 0, "the state once more");
  check(generator_normal(&h) == g.normal && !h.has_normal, "the second of a pair");
  generator_normal(&g);
  for (int i = 0; i < 2000; i++) check(generator_32(&g) == generator_32(&h), "what follows");
  const float kept = 0.25f;          /* PyTorch's, which heed only hands on */
  memcpy(bytes + 5044, &kept, sizeof kept);
  bytes[5048] = 1;
  check(generator_load(&h, bytes), "a state with a float");
  generator_save(&h, again);
  check(memcmp(bytes, again, sizeof bytes) == 0, "the float, too");
  for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
    memcpy(bytes + 8, &states[i].left, 4);
    memcpy(bytes + 12, &states[i].seeded, 4);
    memcpy(bytes + 16, &states[i].next, 8);
    check(generator_load(&h, bytes) == states[i].good, "is it a state?");
  }
}

/* The known answers of Random123. */
static void is_philox (void) {
  static const uint32_t zeros[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  uint32_t got[4];
  philox(0, 0, got);
  check(memcmp(got, zeros, sizeof got) == 0, "published numbers of Philox");
  for (uint64_t i = 0; i < 64; i++) {
    philox(99, i / 4, got);
    const double p = (double)got[i % 4] * 0x1p-32;
    check(philox_keeps(99, i, p) && !philox_keeps(99, i, nextafter(p, 1)), "is it kept?");
    check(philox_keeps(99, i, 0) && !philox_keeps(99, i, 1), "all, or none");
  }
}

/* }================================================================== */


int main (void) {
  halves_are_exact();
  types_have_properties();
  blocks_have_properties();
  conversions_have_limits();
  some_types_are_wide();
  is_mersenne_twister();
  states_are_checked();
  is_philox();
  if (!failed) puts("scalars: bit by bit");
  return failed > 0;
}
