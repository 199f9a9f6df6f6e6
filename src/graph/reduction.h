/*
** reduction.h - reductions over any axes, as work for a device.
*/

#ifndef reduction_h
#define reduction_h

#include "graph/make.h"

#pragma GCC visibility push(hidden)

/*
** The input is viewed with the reduced axes last; the result has 'shape' for the
** caller and 'out' for the device.
*/
typedef struct reduction {
  heed_tensor *x;
  layout in, out, shape;
  int axes;                        /* how many are reduced */
  int64_t count;                   /* elements for one result */
} reduction;

void reduction_open (reduction *f, heed_tensor *x, const bool marks[HEED_RANK], bool keepdim);
bool reduction_run (const reduction *f, heed_op op, reduce_op kind, heed_tensor *y, heed_tensor *z);

#pragma GCC visibility pop

#endif
