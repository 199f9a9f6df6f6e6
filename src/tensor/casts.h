/*
** casts.h - conversions of parameters, which are kept in mixed precision.
*/

#ifndef casts_h
#define casts_h

#include "memory/context.h"

#pragma GCC visibility push(hidden)

/* A parameter that was converted. */
typedef struct kept_cast {
  heed_tensor *of, *cast;
  const storage *store;            /* of the parameter when it was converted */
  int64_t version;                 /* of that storage then */
} kept_cast;

/* The conversions of a context. */
typedef struct cast_list {
  kept_cast *kept;
  int64_t n, capacity;
} cast_list;

/* Conversions of parameters, borrowed; NULL: none is kept that serves. */
heed_tensor *core_kept_cast (const heed_context *cx, const heed_tensor *t);
bool core_keep_cast (heed_context *cx, heed_tensor *t, heed_tensor *cast);
void core_forget_casts (heed_context *cx);

#pragma GCC visibility pop

#endif
