/*
** reduce.h - what reductions and their gradients share.
*/

#ifndef reduce_h
#define reduce_h

#include "op/compose.h"

#pragma GCC visibility push(hidden)

/* The one input of all reductions, as gradients count them. */
enum { REDUCE_INPUT = IN(sum, input) };

/* The tensor that is reduced. */
heed_tensor *reduce_input (const call *c);
/* The type of the input, where a number has the default type; the type of sums of that. */
heed_type reduce_own_type (const call *c);
heed_type reduce_sum_type (heed_type type);
/* The input, rounded to 'type' before the work where that is not the wider type. */
heed_tensor *reduce_rounded (call *c, heed_type type);

/* Opens f over the axes in argument 'dim'; reduce_open reads 'keepdim' too. */
bool reduce_open_axes (call *c, reduction *f, heed_tensor *x, bool keepdim);
bool reduce_open (call *c, reduction *f, heed_tensor *x);
bool reduce_check_some (call *c, const reduction *f);        /* each result is of some element */
bool reduce_give (call *c, const reduction *f, reduce_op kind, heed_type type);

/* y = op(x, other) in the wider type of x and y; 'other' may be left out. y may be x. */
bool reduce_map (call *c, heed_op op, heed_tensor *y, const heed_tensor *x, const view *other);
bool reduce_divide (call *c, heed_tensor *y, const heed_tensor *x, double divisor);

/* For gradients: a reduction's result, or its gradient, viewed with the input's shape. */
heed_tensor *reduce_spread (backward *b, heed_tensor *t);
double reduce_count (backward *b);           /* how many elements make one result */
/* Reduces t, of the input's shape, over the axes that were reduced; the axes stay. */
heed_tensor *reduce_repeated (backward *b, heed_op op, heed_tensor *t);
/* extreme.c: g to the elements of x that are y, in even shares. */
heed_tensor *reduce_shared (backward *b, heed_tensor *x, heed_tensor *y);
/* Refuses zeros, by which a formula divides, where the gradient is to have one of its own. */
bool reduce_refuse_zeros (backward *b, heed_tensor *zeros);
bool reduce_give_input (backward *b, heed_tensor *g);

#pragma GCC visibility pop

#endif
