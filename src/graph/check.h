/*
** check.h - what an argument must be: one place for each message.
**
** 'c' names the operation; 'i' is the argument, an ARG, whose name the message quotes. All false or
** -1 after core_fail.
*/

#ifndef check_h
#define check_h

#include "graph/call.h"

#pragma GCC visibility push(hidden)

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
bool check_whole (call *c, int i, heed_type type);               /* where the type is no float */
bool check_index_type (call *c, int i);                          /* int64 (uint8 is refused) */
const char *check_name (const call *c, int i);                   /* the parameter's name */
/* The first check of a host's arguments: the op exists, and lists are not NULL. */
bool check_given (heed_context *cx, heed_op op, const heed_value *given, int n);
/* Fails with "name: argument 'dim': why". */
bool check_refuse (const call *c, int i, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#pragma GCC visibility pop

#endif
