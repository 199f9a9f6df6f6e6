/*
** row.h - a row of the table of operations, and its parts by their names.
*/

#ifndef row_h
#define row_h

#include "graph/state.h"

#pragma GCC visibility push(hidden)

#define OP_OUTS 4                  /* most results, those that only the gradient sees included */
#define OP_EDGES 64                /* most tensor arguments, lists included */
#define OP_INPUTS 8                /* most tensor arguments, lists counted once */


/*
** {==================================================================
** Parts of a row by the names that ops.def gives them, counted from 0: an argument,
** ARG(softmax, dim); a tensor argument as gradients count them, IN(matmul, other), which behind a
** list of tensors is counted from the end (LAST_IN of backward.h); a result, OUT(layer_norm, rstd).
** ===================================================================
*/

#define ARG(op, name) HEED_ARG(op, name)
#define IN(op, name) ((int)offsetof(struct op_inputs_##op, name))
#define OUT(op, name) ((int)offsetof(struct op_results_##op, name))

/* For a function that works for two rows: the part stands at one place in both. */
#define SAME_ARG(one, other, name) \
  _Static_assert(ARG(one, name) == ARG(other, name), #one " and " #other " differ in " #name)
#define SAME_IN(one, other, name) \
  _Static_assert(IN(one, name) == IN(other, name), #one " and " #other " differ in " #name)
#define SAME_OUT(one, other, name) \
  _Static_assert(OUT(one, name) == OUT(other, name), #one " and " #other " differ in " #name)

#define UNARY(name, ...) struct op_inputs_##name { char input; };
#define BINARY(name, ...) struct op_inputs_##name { char input, other; };
#define TERNARY(name, domain, y, da, ra, db, rb, dc, rc, arguments) \
  struct op_inputs_##name { arguments };
#define OP(name, arguments, results, ...) \
  struct op_inputs_##name { arguments }; \
  struct op_values_##name { \
    union { struct { arguments }; uint8_t inputs_[OP_INPUTS]; }; \
    results \
  }; \
  _Static_assert(sizeof(struct op_inputs_##name) <= OP_INPUTS, "too many inputs of " #name);
#define TENSOR(name, ...) uint8_t name;
#define TENSORS(name, ...) uint8_t name;
#define TARGET(name) uint8_t name;
#define RESULT(name) uint8_t name;
#define HIDDEN(name) uint8_t name;
#define NUMBER(name, ...)
#define COUNT(name, ...)
#define POSITION(name, ...)
#define AXIS(name, ...)
#define AXES(name, ...)
#define SHAPE(name, ...)
#define FLAG(name, ...)
#define TEXT(name, ...)
#define CHOICE(name, ...)
#define OPTIONAL(kind, name) OP_INPUT_##kind(name)
#define OP_INPUT_TENSOR(name) uint8_t name;
#define OP_INPUT_TENSORS(name) uint8_t name;
#define OP_INPUT_NUMBER(name)
#define OP_INPUT_COUNT(name)
#define OP_INPUT_POSITION(name)
#define OP_INPUT_AXIS(name)
#define OP_INPUT_AXES(name)
#define OP_INPUT_SHAPE(name)
#define OP_INPUT_DTYPE(name)
#define OP_INPUT_TEXT(name)
#include "op/ops.def"

#define UNARY(name, ...) struct op_results_##name { char output; };
#define BINARY(name, ...) struct op_results_##name { char output; };
#define TERNARY(name, ...) struct op_results_##name { char output; };
#define OP(name, arguments, results, ...) struct op_results_##name { results };
#define RESULT(name) char name;
#define HIDDEN(name) char name;
#include "op/ops.def"

/* The results that a caller sees. */
#define OP(name, arguments, results, ...) struct op_seen_##name { results };
#define RESULT(name) char name;
#define HIDDEN(name)
#include "op/ops.def"

/* }================================================================== */


struct call;
struct backward;

typedef enum op_domain { FLT, NUM, ALL, TEST, PICK, STRUCTURED } op_domain;

/*
** The values that gradients of a row need: 'saves' has a byte for each input, and from OP_INPUTS on
** for each result. Bit i of it: the gradient of input i needs the value.
*/
#define OP_FOR_ALL 0xFF

/* The types of a call in mixed precision: see AUTOCAST in ops.def. */
typedef enum autocast_policy {
  AUTOCAST_FOLLOWS, AUTOCAST_LOW, AUTOCAST_FULL, AUTOCAST_PROMOTES
} autocast_policy;

/* The row that computes a BINARY row whose second operand is this number. */
typedef struct faster_row {
  double number;
  heed_op op;                      /* HEED_NOPS behind the last case */
} faster_row;

typedef struct op_row {
  heed_signature signature;
  const uint8_t *saves;            /* of a recorded row: see OP_FOR_ALL */
  int inputs;                      /* of a recorded row: tensor arguments, lists counted once */
  int results;                     /* those that only the gradient sees included */
  uint8_t passes;                  /* elementwise: bit i: the gradient of input i is g itself */
  const char *derivative[3];       /* elementwise: by each input, as ops.def has it */
  op_domain domain;                /* STRUCTURED: not an elementwise row */
  bool recorded;                   /* OP and elementwise rows of a float result */
  bool plain;                      /* a PLAIN row */
  autocast_policy autocast;
  uint32_t blocks;                 /* bit i: argument i may be of a type of blocks */
  uint32_t moved;                  /* bit i: argument i moves to the device of the others */
  const faster_row *faster;        /* of a BINARY row; or NULL */
  bool (*check) (struct call *c, heed_type type);     /* of an elementwise row; or NULL */
  bool (*work) (struct call *c);
  bool (*grad) (struct backward *b);
} op_row;

/* The rows that this floor was opened with. */
static inline const op_row *op_row_of (const heed_context *cx, heed_op op) {
  return &cx->graph->rows[op];
}
static inline const heed_signature *op_signature (const heed_context *cx, heed_op op) {
  return &op_row_of(cx, op)->signature;
}
static inline const char *op_name (heed_op op) { return core_op_name((int)op); }

#pragma GCC visibility pop

#endif
