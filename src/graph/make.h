/*
** make.h - temporaries: tensors that the call that runs owns, and drops at its end.
*/

#ifndef make_h
#define make_h

#include "tensor/tensor.h"

#pragma GCC visibility push(hidden)

heed_tensor *op_hold (heed_context *cx, heed_tensor *owned);     /* makes it a temporary */
void op_drop_temporaries (heed_context *cx, int64_t mark);       /* but the first 'mark' */
heed_tensor *op_new (heed_context *cx, heed_type type, const layout *shape);
heed_tensor *op_new_sized (heed_context *cx, heed_type type, int rank, const int64_t *size);
heed_tensor *op_view (heed_tensor *t, const layout *at);
heed_tensor *op_float (heed_context *cx, double value);          /* numbers, weak in promotion */
heed_tensor *op_integer (heed_context *cx, int64_t value);
bool op_filled (heed_tensor *t, int64_t value);                  /* with one value */
heed_tensor *op_zeros (heed_context *cx, heed_type type, const layout *shape);

#pragma GCC visibility pop

#endif
