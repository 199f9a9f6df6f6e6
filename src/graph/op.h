/*
** op.h - floor 4 and 5: how an operation is called, and how its parts are found.
**
** For a row OP(name, ...) there are do_name and grad_name; for COMPOSED and PLAIN, do_name.
** do_name checks everything, then works; it reads c->args (one for each parameter of the row,
** defaults filled in, choices as the number of their word, a number given for a tensor as a
** tensor of rank 0) and sets c->out. Whatever tensors it makes through the functions below are
** temporaries: the call that runs owns them and drops them at its end, so nothing is freed by
** hand, and c->out may hold temporaries and arguments alike. NULL goes in and comes out, so
** do_name may chain without checks and say 'return give_out(...)'.
*/

#ifndef op_h
#define op_h

#include "tensor/core.h"

#pragma GCC visibility push(hidden)

#define OP_OUTS 4                  /* most results, those that only the gradient sees included */
#define OP_EDGES 64                /* most tensor arguments, lists included */
#define OP_INPUTS 8                /* most tensor arguments, lists counted once */


/*
** {==================================================================
** Parts of a row by the names that ops.def gives them, counted from 0: an argument,
** ARG(softmax, dim); a tensor argument as gradients count them, IN(matmul, other), which behind a
** list of tensors is counted from the end, LAST_IN(b); a result, OUT(layer_norm, rstd).
** ===================================================================
*/

#define ARG(op, name) ((int)offsetof(struct op_arguments_##op, name))
#define IN(op, name) ((int)offsetof(struct op_inputs_##op, name))
#define OUT(op, name) ((int)offsetof(struct op_results_##op, name))
#define LAST_IN(b) ((b)->n->nedges - 1)

/* For a function that works for two rows: the argument stands at one place in both. */
#define SAME_ARG(one, other, name) \
  _Static_assert(ARG(one, name) == ARG(other, name), #one " and " #other " differ in " #name)

#define UNARY(name, domain, y, da, ra, ...) \
  struct op_arguments_##name { char input; __VA_ARGS__ };
#define BINARY(name, domain, y, da, ra, db, rb, ...) \
  struct op_arguments_##name { char input, other; __VA_ARGS__ };
#define TERNARY(name, domain, y, da, ra, db, rb, dc, rc, arguments) \
  struct op_arguments_##name { arguments };
#define OP(name, arguments, ...) struct op_arguments_##name { arguments };
#define COMPOSED(name, arguments, ...) struct op_arguments_##name { arguments };
#define PLAIN(name, arguments, ...) struct op_arguments_##name { arguments };
#define TENSOR(name, ...) char name;
#define TENSORS(name, ...) char name;
#define TARGET(name) char name;
#define NUMBER(name, ...) char name;
#define COUNT(name, ...) char name;
#define POSITION(name, ...) char name;
#define AXIS(name, ...) char name;
#define AXES(name, ...) char name;
#define SHAPE(name, ...) char name;
#define FLAG(name, ...) char name;
#define TEXT(name, ...) char name;
#define CHOICE(name, ...) char name;
#define OPTIONAL(kind, name) char name;
#include "op/ops.def"

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

/* … and those of them that a caller sees. */
#define OP(name, arguments, results, ...) struct op_seen_##name { results };
#define RESULT(name) char name;
#define HIDDEN(name)
#include "op/ops.def"

/* }================================================================== */


typedef struct call {
  heed_context *cx;
  heed_op op;
  const heed_value *args;
  bool in_place;                   /* the first argument is what is changed */
  heed_tensor *into;               /* in place: where the first result may go; else NULL */
  heed_tensor *out[OP_OUTS];
} call;

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

typedef struct backward backward;

typedef struct op_row {
  heed_signature signature;
  const uint8_t *saves;            /* of a recorded row: see OP_FOR_ALL */
  int inputs;                      /* of a recorded row: tensor arguments, lists counted once */
  int results;                     /* those that only the gradient sees included */
  uint8_t passes;                  /* elementwise: bit i: the gradient of input i is g itself */
  op_domain domain;                /* STRUCTURED: not an elementwise row */
  bool recorded;                   /* OP and elementwise rows of a float result */
  bool plain;                      /* a PLAIN row */
  autocast_policy autocast;
  uint32_t moved;                  /* bit i: argument i moves to the device of the others */
  const faster_row *faster;        /* of a BINARY row; or NULL */
  bool (*check) (call *c, heed_type type);     /* of an elementwise row; or NULL */
  bool (*work) (call *c);
  bool (*grad) (backward *b);
} op_row;

extern const op_row op_rows[HEED_NOPS];

static inline const heed_signature *op_signature (heed_op op) { return &op_rows[op].signature; }
static inline const char *op_name (heed_op op) { return op_rows[op].signature.name; }


/*
** {==================================================================
** For do_ functions. All tensors here are temporaries of the call that runs.
** ===================================================================
*/

/* c->out from tensors; false if a is NULL. */
bool give_out (call *c, heed_tensor *a);
bool give_outs (call *c, int n, heed_tensor *const *ys);

heed_tensor *op_hold (heed_context *cx, heed_tensor *owned);     /* makes it a temporary */
void op_drop_temporaries (heed_context *cx, int64_t mark);       /* but the first 'mark' */
heed_tensor *op_new (heed_context *cx, heed_type type, const layout *shape);
heed_tensor *op_new_sized (heed_context *cx, heed_type type, int rank, const int64_t *size);
heed_tensor *op_view (heed_tensor *t, const layout *at);
heed_tensor *op_float (heed_context *cx, double value);          /* numbers, weak in promotion */
heed_tensor *op_integer (heed_context *cx, int64_t value);
bool op_filled (heed_tensor *t, int64_t value);                  /* with one value */
heed_tensor *op_zeros (heed_context *cx, heed_type type, const layout *shape);
heed_tensor *op_to (heed_tensor *t, device *where);              /* t, or moved (recorded) */
heed_tensor *op_dense (heed_tensor *t);        /* t, or a dense copy (recorded) */
heed_tensor *op_cast (heed_tensor *t, heed_type type);           /* t, or converted (recorded) */

/* Other operations, recorded like any call: the first result. */
heed_tensor *op1 (heed_op op, heed_tensor *a);
heed_tensor *op2 (heed_op op, heed_tensor *a, heed_tensor *b);
heed_tensor *op3 (heed_op op, heed_tensor *a, heed_tensor *b, heed_tensor *c);
heed_tensor *op_call (heed_context *cx, heed_op op, int n, const heed_value *args);
bool op_calls (heed_context *cx, heed_op op, int n, const heed_value *args,
               heed_tensor *out[HEED_RESULTS]);                  /* all results */

static inline heed_tensor *first_result (const call *c) { return *c->out; }

/* Arguments by kind; i is an ARG. */
static inline heed_tensor *arg_tensor (const call *c, int i) {
  return c->args[i].kind == HEED_TENSOR ? c->args[i].tensor : NULL;
}
static inline bool arg_given (const call *c, int i) { return c->args[i].kind != HEED_NONE; }
static inline bool arg_flag (const call *c, int i) {
  return arg_given(c, i) && c->args[i].integer != 0;
}
static inline int64_t arg_count (const call *c, int i) { return c->args[i].integer; }
static inline double arg_number (const call *c, int i) {
  return c->args[i].kind == HEED_FLOAT ? c->args[i].number : (double)c->args[i].integer;
}
static inline heed_type arg_type (const call *c, int i, heed_type otherwise) {
  return arg_given(c, i) ? (heed_type)c->args[i].integer : otherwise;
}

/* device.c: sets the current device for a call, once others are open, and moves what follows. */
bool op_set_device (call *c, heed_value *args);

/* autocast.c: converts the arguments of a call in mixed precision; lists into 'list'. */
bool op_autocast (call *c, heed_value *args, heed_tensor *list[OP_EDGES]);

/* The work (base/work.h), on the device where the call works, as all of these. */
bool op_run (call *c, const work *w);
bool op_run_for (heed_context *cx, heed_op op, const work *w);   /* in backward functions */
bool op_supports (heed_context *cx, work_kind kind, int op);     /* or must it be composed? */
bool op_fuses (heed_context *cx, work_kind kind, int op, int64_t row);   /* the same of works over
                                          rows, which the host does not interrupt within one */

/* The type that tensors promote to (PyTorch's rule for ranks, rank 0 and numbers). */
heed_type op_promote (int n, heed_tensor *const *ts);
heed_type op_computing (heed_type type);       /* FLOAT32, FLOAT64 or INT64: what loops use */
static inline heed_type op_float_of (heed_type type) {           /* integers become float32 */
  return scalar_is_float(type) ? type : HEED_FLOAT32;
}

/* }================================================================== */


/*
** {==================================================================
** Checks (check.c), one place for each message. 'c' names the operation; 'i' is the argument,
** an ARG, whose name the message quotes. All false or -1 after core_fail.
** ===================================================================
*/

bool check_rank (call *c, int i, int least, int most);           /* of tensor argument i */
bool check_axis (call *c, int i, int rank, int *axis);           /* argument i is an axis of rank */
/* Axes of argument i as marks; none given: all. Duplicates and others are refused. */
bool check_axes (call *c, int i, int rank, bool marks[HEED_RANK], int *n);
bool check_position (call *c, int i, int64_t size, int64_t *zero_based);  /* from 1; -1 the last */
/* A shape argument; with 'infer' >= 0 elements one -1 may stand for what is left. */
bool check_shape (call *c, int i, int64_t infer, layout *shape);
bool check_same_shape (call *c, int i, int j);                   /* of two tensor arguments */
bool check_float (call *c, int i);                               /* a float type */
bool check_one_type (call *c, int i, int j);                     /* of two tensor arguments */
bool check_types (call *c, int i, heed_type type);               /* exactly this type */
bool check_probability (call *c, int i);
bool check_index_type (call *c, int i);                          /* int64 (uint8 is refused) */
const char *check_name (const call *c, int i);                   /* the parameter's name */
/* What a host gave, before it is looked at: an op that there is, lists that are there. */
bool check_given (heed_context *cx, heed_op op, const heed_value *given, int n);
/* Fails with "name: argument 'dim': why". */
bool check_refuse (const call *c, int i, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* }================================================================== */


/*
** {==================================================================
** For grad_ functions, on floor 5. 'b->g' is the gradient of the first result (never NULL where
** there is one result); b->gs[] of all (NULL: zero). Nothing is recorded while they run. The
** backward pass sums what is given over broadcast axes and converts it: none mentions either.
** Inputs are counted as IN counts them, results as OUT.
** ===================================================================
*/

struct backward {
  heed_context *cx;
  heed_op op;
  node *n;
  heed_tensor *g, *gs[OP_OUTS];
  const heed_value *args;          /* as in call, but tensors and lists of them are absent */
  heed_tensor *given[OP_EDGES];    /* borrowed */
};

static inline bool wants (const backward *b, int i) { return b->n->edges[i].node != NULL; }
static inline layout shape_of (const backward *b, int i) { return edge_shape(&b->n->edges[i]); }
static inline int rank_of (const backward *b, int i) { return b->n->edges[i].rank; }
static inline heed_type type_of (const backward *b, int i) { return b->n->edges[i].type; }
/* Saved inputs and results, as temporaries; NULL with a message if changed in place; 'absent' ones
   (arguments that were left out) are NULL without one: test with has_input. */
heed_tensor *input (backward *b, int i);
bool has_input (const backward *b, int i);
heed_tensor *output (backward *b, int i);
/* The gradient of input i; false if g is NULL. Ignored when the input wants none. */
bool give (backward *b, int i, heed_tensor *g);

/* }================================================================== */

/* graph.c: the node of a handle, made anew if its base was changed in place since. */
node *graph_node_of (heed_tensor *t, int *output);               /* not kept; NULL: none */
bool graph_record (call *c, const op_row *row);                  /* gives c->out a node */
bool graph_check_view (const heed_tensor *t, bool recorded, heed_op op);     /* or refuses */
bool graph_call_hooks (node *n);   /* hook.c: they may give other gradients than n->incoming */
bool graph_overlay (heed_tensor *target, heed_tensor *y, heed_op op);    /* target takes y's node */
int op_edges (heed_context *cx, heed_op op, const heed_value *args, heed_tensor *ts[OP_EDGES]);
      /* the tensor arguments in order, lists flattened, NULL where left out; -1: too many */

bool do_map (call *c);             /* the elementwise rows: elementwise.c */
bool grad_map (backward *b);

#define OP(name, ...) bool do_##name (call *c); bool grad_##name (backward *b);
#define COMPOSED(name, ...) bool do_##name (call *c);
#define PLAIN(name, ...) bool do_##name (call *c);
#define CHECKED(name) bool check_##name (call *c, heed_type type);
#include "op/ops.def"

#pragma GCC visibility pop

#endif
