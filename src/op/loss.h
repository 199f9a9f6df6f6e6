/*
** loss.h - what the losses share.
*/

#ifndef op_loss_h
#define op_loss_h

#include "op/compose.h"

#pragma GCC visibility push(hidden)

/* The words of 'reduction', in the rows' order; kl_div alone has the last. */
enum { LOSS_MEAN, LOSS_SUM, LOSS_NONE, LOSS_BATCH_MEAN };

heed_tensor *loss_reduced (heed_tensor *loss, int64_t how);

/* In a backward function: false, with a message, when input i, a weight, wants a gradient. */
bool loss_refuse_weight (const backward *b, int i);

/* The same in a call that does not record what it does with argument i. */
bool loss_check_weight (const call *c, int i);

#pragma GCC visibility pop

#endif
