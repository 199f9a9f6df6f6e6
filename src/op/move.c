/*
** move.c - what the gradients of operations that move elements share.
*/

#include <string.h>

#include "op/move.h"


heed_tensor *move_zeros (backward *b, heed_type type, int i) {
  const layout shape = shape_of(b, i);
  return op_zeros(b->cx, type, &shape);
}


heed_tensor *move_sum (backward *b, int i) {
  return move_zeros(b, scalar_computing(b->g->type), i);
}


heed_tensor *move_repeated (backward *b, heed_tensor *t) {
  heed_value args[HEED_ARGUMENTS];
  int n = op_signature(b->cx, b->op)->parameters;
  if (t == NULL) return NULL;
  memcpy(args, b->args, (size_t)n * sizeof *args);
  args[ARG(view, input)] = heed_t(t);
  return op_call(b->cx, b->op, n, args);
}
