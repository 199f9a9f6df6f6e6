/*
** call.h - a call of an operation, as the do_ function of its row sees it.
**
** do_name checks everything, then works; it reads c->args (one for each parameter of the row,
** defaults filled in, choices as the number of their word, a number given for a tensor as a
** tensor of rank 0) and sets c->out. All tensors that it makes (make.h) are temporaries: the call
** that runs owns them and drops them at its end, so nothing is freed by hand, and c->out may hold
** temporaries and arguments alike. NULL goes in and comes out, so do_name may chain without checks
** and say 'return give_out(...)'.
*/

#ifndef call_h
#define call_h

#include "graph/make.h"
#include "graph/row.h"

#pragma GCC visibility push(hidden)

typedef struct call {
  heed_context *cx;
  heed_op op;
  const heed_value *args;
  bool in_place;                   /* the first argument is what is changed */
  heed_tensor *into;               /* in place: where the first result may go; else NULL */
  heed_tensor *out[OP_OUTS];
} call;

/* c->out from tensors; false if a is NULL. */
bool give_out (call *c, heed_tensor *a);
bool give_outs (call *c, int n, heed_tensor *const *ys);

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
static inline int64_t arg_whole (const call *c, int i) {         /* of a number that is whole */
  return c->args[i].kind == HEED_FLOAT ? (int64_t)c->args[i].number : c->args[i].integer;
}
static inline heed_tensor *arg_scalar (const call *c, int i) {   /* a number, with all its digits */
  return c->args[i].kind == HEED_FLOAT ? op_float(c->cx, c->args[i].number)
                                       : op_integer(c->cx, c->args[i].integer);
}
static inline heed_type arg_type (const call *c, int i, heed_type otherwise) {
  return arg_given(c, i) ? (heed_type)c->args[i].integer : otherwise;
}

/* The work (base/work.h), on the device where the call works, as all of these. */
bool op_run (call *c, const work *w);
bool op_run_for (heed_context *cx, heed_op op, const work *w);   /* in backward functions */
bool graph_no_second (heed_context *cx, heed_op op);   /* refuses a gradient that is recorded */
bool op_supports (heed_context *cx, work_kind kind, int op);     /* or must it be composed? */
bool op_fuses (heed_context *cx, work_kind kind, int op, int64_t row);   /* as op_supports, for
                                          works over rows: no row is interrupted midway */

/*
** A call from the outside: its scope, and how many temporaries there were before it. Messages name
** its caller; where there is none, 'name'. All that was made since the begin is dropped at the end.
*/
typedef struct call_scope {
  scope before;
  int64_t temporaries;
  heed_region region;              /* if a profile runs: the one around it */
} call_scope;

static inline void call_begin (heed_context *cx, const char *name, call_scope *s) {
  s->before = scope_begin(cx);
  s->temporaries = cx->graph->temporaries.n;
  s->region = (heed_region){0};
  if (cx->scope.caller == NULL) cx->scope.caller = name;
  cx->scope.composing = false;
  if (cx->profile != NULL) s->region = profile_enter(cx, cx->scope.caller);
}
static inline void call_end (heed_context *cx, const call_scope *s) {
  scope_end(cx, &s->before);
  op_drop_temporaries(cx, s->temporaries);
  if (cx->profile != NULL) profile_leave(cx, s->region);
}

/* arguments.c: the arguments as do_ functions see them; args holds all parameters. */
bool call_accept (heed_context *cx, heed_op op, const heed_value *given, int n, heed_value *args);
/* call.c: accepts the arguments and does the work of the row, where its tensors are. */
bool call_run (call *c, const heed_value *given, int n, heed_value *args);

/*
** in_place.c: a write of t by HEED_copy, with x; or by an elementwise operation of t, x, if that is
** not NULL, and a number. First the operand is made, x as a tensor of t's shape on its device (t
** where there is no x); NULL: it is refused. The write itself takes no memory, and fails with the
** device alone.
*/
heed_tensor *graph_operand (heed_tensor *t, heed_tensor *x);
bool graph_write (heed_tensor *t, const heed_tensor *x, heed_op op, const heed_tensor *number);

#pragma GCC visibility pop

#endif
