/*
** rows.c - the table of operations as values, straight from ops.def.
*/

#include "op/op.h"


/*
** {==================================================================
** Parameters. A default is "+ 0" of what the row says, so that nothing is 0, and of no kind.
** ===================================================================
*/

#define VALUE_INTEGER(kind_, ...) \
  {.kind = sizeof #__VA_ARGS__ > 1 ? kind_ : HEED_NONE, .integer = __VA_ARGS__ + 0}
#define VALUE_NUMBER(...) \
  {.kind = sizeof #__VA_ARGS__ > 1 ? HEED_FLOAT : HEED_NONE, .number = __VA_ARGS__ + 0}

#define UNARY(name, domain, y, da, ra, ...) \
  static const heed_parameter parameters_##name[] = {TARGET(input) __VA_ARGS__};
#define BINARY(name, domain, y, da, ra, db, rb, ...) \
  static const heed_parameter parameters_##name[] = {TARGET(input) TENSOR(other) __VA_ARGS__};
#define TERNARY(name, domain, y, da, ra, db, rb, dc, rc, arguments) \
  static const heed_parameter parameters_##name[] = {arguments};
#define OP(name, arguments, ...) static const heed_parameter parameters_##name[] = {arguments};
#define COMPOSED(name, arguments, ...) \
  static const heed_parameter parameters_##name[] = {arguments};
#define PLAIN(name, arguments, ...) static const heed_parameter parameters_##name[] = {arguments};

#define TENSOR(name_) {.name = #name_, .want = HEED_WANT_TENSOR},
#define TENSORS(name_) {.name = #name_, .want = HEED_WANT_TENSORS},
#define TARGET(name_) {.name = #name_, .want = HEED_WANT_TENSOR, .target = true},
#define AXES(name_) {.name = #name_, .want = HEED_WANT_AXES},
#define SHAPE(name_) {.name = #name_, .want = HEED_WANT_SHAPE},
#define TEXT(name_) {.name = #name_, .want = HEED_WANT_TEXT},
#define OPTIONAL(kind_, name_) {.name = #name_, .want = HEED_WANT_##kind_, .optional = true},
#define CHOICE(name_, words_) \
  {.name = #name_, .want = HEED_WANT_CHOICE, .words = words_, \
   .value = {.kind = HEED_INTEGER, .integer = 0}},
#define NUMBER(name_, ...) \
  {.name = #name_, .want = HEED_WANT_NUMBER, .value = VALUE_NUMBER(__VA_ARGS__)},
#define COUNT(name_, ...) \
  {.name = #name_, .want = HEED_WANT_COUNT, .value = VALUE_INTEGER(HEED_INTEGER, __VA_ARGS__)},
#define POSITION(name_, ...) \
  {.name = #name_, .want = HEED_WANT_POSITION, .value = VALUE_INTEGER(HEED_INTEGER, __VA_ARGS__)},
#define AXIS(name_, ...) \
  {.name = #name_, .want = HEED_WANT_AXIS, .value = VALUE_INTEGER(HEED_INTEGER, __VA_ARGS__)},
#define FLAG(name_, ...) \
  {.name = #name_, .want = HEED_WANT_FLAG, .value = VALUE_INTEGER(HEED_FLAG, __VA_ARGS__)},
#include "op/ops.def"

/* }================================================================== */


/*
** {==================================================================
** The values that gradients need
** ===================================================================
*/

/* The words that declare what a derivative reads. */
enum {
  READS_NONE = 0, READS_A = 1, READS_B = 2, READS_C = 4, READS_Y = 8, READS_G = 16,
  READS_AB = READS_A | READS_B, READS_ABC = READS_AB | READS_C, READS_ABY = READS_AB | READS_Y,
  READS_AY = READS_A | READS_Y, READS_BY = READS_B | READS_Y
};

/* The inputs, as bits, whose derivative reads a value. */
#define READERS(value, ra, rb, rc) \
  (((ra) & (value)) != 0) | (((rb) & (value)) != 0) << 1 | (((rc) & (value)) != 0) << 2

#define READS(ra, rb, rc) \
  .saves = (const uint8_t[OP_INPUTS + 1]){ \
    READERS(READS_A, ra, rb, rc), READERS(READS_B, ra, rb, rc), READERS(READS_C, ra, rb, rc), \
    [OP_INPUTS] = READERS(READS_Y, ra, rb, rc)}, \
  .passes = READERS(READS_G, ra, rb, rc)

/* Inputs by number, for SAVED(name, FIRST). */
enum { FIRST = 1, SECOND = 2, BUT_FIRST = OP_FOR_ALL & ~FIRST };

#define OP(name, arguments, results, ...) \
  static const struct op_values_##name saves_##name = {__VA_ARGS__};
#define SAVED(name, ...) .name = sizeof #__VA_ARGS__ > 1 ? __VA_ARGS__ + 0 : OP_FOR_ALL,
#include "op/ops.def"

/* }================================================================== */


#define SIGNATURE(op, results_) \
  .signature = {.name = #op, .in_place_name = #op "_", .results = results_, \
                .parameters = sizeof parameters_##op / sizeof *parameters_##op, \
                .parameter = parameters_##op}

#define ELEMENTWISE(op, n, domain_) \
  SIGNATURE(op, 1), .inputs = n, .results = 1, .domain = domain_, .recorded = domain_ != TEST, \
  .work = do_map, .grad = grad_map

const op_row op_rows[HEED_NOPS] = {
#define UNARY(name, domain, y, da, ra, ...) \
  {ELEMENTWISE(name, 1, domain), READS(READS_##ra, 0, 0), .derivative = {#da}},
#define BINARY(name, domain, y, da, ra, db, rb, ...) \
  {ELEMENTWISE(name, 2, domain), READS(READS_##ra, READS_##rb, 0), .derivative = {#da, #db}},
#define TERNARY(name, domain, y, da, ra, db, rb, dc, rc, arguments) \
  {ELEMENTWISE(name, 3, domain), READS(READS_##ra, READS_##rb, READS_##rc), \
   .derivative = {#da, #db, #dc}},
#define OP(name, ...) \
  {SIGNATURE(name, sizeof(struct op_seen_##name)), .saves = (const uint8_t *)&saves_##name, \
   .inputs = sizeof(struct op_inputs_##name), .results = sizeof(struct op_results_##name), \
   .domain = STRUCTURED, .recorded = true, .work = do_##name, .grad = grad_##name},
#define COMPOSED(name, arguments) \
  {SIGNATURE(name, 1), .results = 1, .domain = STRUCTURED, .work = do_##name},
#define PLAIN(name, arguments) \
  {SIGNATURE(name, 1), .results = 1, .domain = STRUCTURED, .plain = true, .work = do_##name},

#define AUTOCAST(name, policy) [HEED_##name].autocast = AUTOCAST_##policy,
#define FASTER(name, cases) [HEED_##name].faster = (const faster_row[]){cases {0, HEED_NOPS}},
#define AT(number, name) {number, HEED_##name},
#define CHECKED(name) [HEED_##name].check = check_##name,
#define MOVED(name, argument) [HEED_##name].moved = 1u << ARG(name, argument),
#define BLOCKS(name, first, second) \
  [HEED_##name].blocks = 1u << ARG(name, first) | 1u << ARG(name, second),
#define VERDICT(name) [HEED_##name].signature.verdict = true,
#include "op/ops.def"
};
