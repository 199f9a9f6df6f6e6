/*
** compose.h - other operations, as compositions and backward functions call them.
**
** Each function gives a temporary, recorded like any call; NULL goes in and comes out.
*/

#ifndef compose_h
#define compose_h

#include "op/op.h"

#pragma GCC visibility push(hidden)

heed_tensor *op_scale (heed_tensor *t, double factor);
heed_tensor *op_shift (heed_tensor *t, double term);

/* sum, mean, max … over axes; none of them: over all. */
heed_tensor *op_reduce (heed_op op, heed_tensor *t, int n, const int64_t *axes, bool keepdim);
heed_tensor *op_reduce_axis (heed_op op, heed_tensor *t, int64_t axis, bool keepdim);
heed_tensor *op_along (heed_op op, heed_tensor *t, int64_t axis);    /* op(t, axis) */
heed_tensor *op_with_shape (heed_op op, heed_tensor *t, const layout *shape);
                                               /* view, reshape, expand */
heed_tensor *op_reshape (heed_tensor *t, int rank, const int64_t *size);
heed_tensor *op_swap (heed_tensor *t, int64_t a, int64_t b);         /* two axes */
heed_tensor *op_permute (heed_tensor *t, int n, const int64_t *order);

/* t for a device with another shape, of a copy where it must be; view_none for NULL. */
bool op_view_shaped (view *v, heed_tensor *t, int rank, const int64_t *size);

/* A new tensor of a layout's shape, whose elements lie in the same order, if it has no gaps. */
heed_tensor *op_new_like (heed_context *cx, heed_type type, const layout *at);

/* An ordinary tensor for a number that was given: of its default type, with storage. */
heed_tensor *op_materialized (heed_tensor *t);

/* The number in an argument, or 'otherwise' where it was left out. */
double op_number_in (const heed_value *v, double otherwise);

/* The axes that a reduction's 'dim' names, which was checked: all of them where none is given. */
void op_mark_axes (const heed_value *dim, int rank, bool marks[HEED_RANK]);

/* The number in a tensor of one element; false for a failure. */
bool op_read (heed_tensor *t, double *value);

/* Draws a key for dropout, 64 bits of the context's generator, into an int64 of one element. */
bool op_draw_key (heed_tensor *key);

/* Dropout's factors, 0 or 1 / (1 - p), for a tensor of this shape. */
heed_tensor *op_dropout_factors (heed_context *cx, heed_op op, heed_type type,
                                 const layout *shape, double p, const heed_tensor *key);

/* A layout with 'axis' last: for work that goes along the last axis. */
layout layout_with_last (const layout *at, int axis);

/* y = running sum or product of x along an axis; 'reverse': from its end. */
bool op_run_scan (heed_op op, scan_op kind, int axis, bool reverse, heed_tensor *y, heed_tensor *x);

/* What an optimiser's step works on: dense tensors of one type; states that it has, or NULL. */
typedef struct optimized {
  heed_tensor *parameter, *gradient, *state[HEED_STATES];
  heed_tensor *new_parameter, *new_state[HEED_STATES];      /* of a composed step: their values */
} optimized;

/* optimize_composed.c: the step of one parameter. First its new values, which are temporaries. */
bool optimize_composed (heed_optimizer kind, const heed_step *step, optimized *t);
bool optimize_store (const optimized *t);                   /* then they are written */

/* optimize.c: a step, which is prepared, done, and ended in any case; it lies in 'o' until then. */
typedef struct stepping {
  heed_context *cx;
  const heed_optimization *of;
  int states;                      /* that each parameter has */
  optimized *list;                 /* of each parameter; one that is left out is NULL in it */
  optimize_row *row;
} stepping;

const char *optimize_name (heed_optimizer kind);            /* as messages have it */
bool optimize_prepare (heed_context *cx, const heed_optimization *of, stepping *o);
bool optimize_work (const stepping *o);                     /* fails with the device alone */
void optimize_end (stepping *o);

#pragma GCC visibility pop

#endif
