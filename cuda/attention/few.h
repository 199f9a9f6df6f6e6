/*
** few.h - the way that attention of few queries takes (few.cu).
*/

#ifndef cuda_few_h
#define cuda_few_h

#include "cuda/attention/attention.h"

#define FEW_QUERIES 16             /* of a head, at most */
#define FEW_DEPTH 256              /* of keys and of values, at most */

#pragma GCC visibility push(hidden)

/* Without dropout. */
bool attention_fits_few (const cuda *self, const attend &a);
const char *attention_few (cuda *self, const attend &a);

#pragma GCC visibility pop

#endif
