/*
** state.h - what this floor keeps in a context.
*/

#ifndef graph_state_h
#define graph_state_h

#include "memory/context.h"

#pragma GCC visibility push(hidden)

typedef struct temporary_list {
  heed_tensor **list;
  int64_t n, capacity;
} temporary_list;

typedef struct graph_state {
  const struct op_row *rows;       /* HEED_NOPS: the table of operations */
  temporary_list temporaries;      /* owned by the operations that run: make.c */
  struct pass *pass;               /* the backward pass that runs, or NULL */
  int64_t passes;                  /* backward passes begun */
} graph_state;

/* The rows are those of all operations, in the order of ops.def. False: no memory. */
bool graph_open (heed_context *cx, const struct op_row *rows);
void graph_close (heed_context *cx);

#pragma GCC visibility pop

#endif
