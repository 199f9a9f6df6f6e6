/*
** op.h - the functions of the rows. For a row OP(name, ...) there are do_name and grad_name; for
** COMPOSED and PLAIN, do_name.
*/

#ifndef op_h
#define op_h

#include "graph/backward.h"
#include "graph/check.h"
#include "graph/make.h"
#include "graph/reduction.h"

#pragma GCC visibility push(hidden)

extern const op_row op_rows[HEED_NOPS];      /* rows.c */

/* The type that tensors promote to (PyTorch's rule for ranks, rank 0 and numbers). */
heed_type op_promote (int n, heed_tensor *const *ts);

bool do_map (call *c);             /* the elementwise rows: elementwise.c */
bool grad_map (backward *b);
/* expression.c: the derivative by input i, of operations; 'number' are the row's p and q. */
heed_tensor *expression_derivative (backward *b, int i, const double number[2]);

#define OP(name, ...) bool do_##name (call *c); bool grad_##name (backward *b);
#define COMPOSED(name, ...) bool do_##name (call *c);
#define PLAIN(name, ...) bool do_##name (call *c);
#define CHECKED(name) bool check_##name (call *c, heed_type type);
#include "op/ops.def"

#pragma GCC visibility pop

#endif
