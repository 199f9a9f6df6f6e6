/*
** move.h - what the operations that move elements share: lists, targets, copies, positions.
*/

#ifndef move_h
#define move_h

#include "op/op.h"

#pragma GCC visibility push(hidden)

/* Argument i as a list: an integer is a list of one, nothing is an empty one. */
static inline int move_list (const call *c, int i, const int64_t **list) {
  const heed_value *v = &c->args[i];
  *list = v->kind == HEED_LIST ? v->list : &v->integer;
  return v->kind == HEED_LIST ? v->n : v->kind == HEED_NONE ? 0 : 1;
}

/* Where an op with an in-place variant writes: the target itself, or a new tensor like 'input'. */
heed_tensor *move_target (call *c, const heed_tensor *input);

/* to = from, which broadcasts to it, whatever they share. */
bool move_copy (heed_context *cx, heed_op op, heed_tensor *to, heed_tensor *from);

/* A dense copy of t's elements that 'at' reaches, without a graph. */
heed_tensor *move_taken (call *c, heed_tensor *t, const layout *at);

/* t expanded to a shape that it broadcasts to; a number gets its storage. False: no memory. */
bool move_view (heed_tensor *t, const layout *shape, view *expanded);

/* Tensor argument i as 'type', for a tensor that keeps its type; a higher category is refused. */
heed_tensor *move_value (call *c, int i, heed_type type);

/* Do the shapes of tensor arguments i and j broadcast together? Refuses j if not. */
bool move_broadcasts (call *c, int i, int j);

/* For gradients: zeros of a type, with the shape of input i. */
heed_tensor *move_zeros (backward *b, heed_type type, int i);

/* Zeros to sum many gradients in: halves in float32, which the backward pass rounds at the end. */
heed_tensor *move_sum (backward *b, int i);

/* The operation, with its arguments, on t instead of its input, which is the first argument. */
heed_tensor *move_repeated (backward *b, heed_tensor *t);

#pragma GCC visibility pop

#endif
