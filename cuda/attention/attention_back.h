/*
** attention_back.h - what all ways to the gradients of attention read: two numbers for each query,
** lse as an exponent of 2, and delta (see attention_back.cu).
*/

#ifndef cuda_attention_back_h
#define cuda_attention_back_h

#include "cuda/attention/ways.h"

#define PREPARED 128               /* rows of a head come in so many, past the last with p = 0 */

INLINE int64_t prepared_row (const attend &a, const tile &x, int64_t i) {
  return (x.b * a.H + x.h) * a.prepared + i;
}

template <class T> INLINE T *lse_of_rows (const attend &a) { return (T *)a.rows; }
template <class T> INLINE T *delta_of_rows (const attend &a) {
  return (T *)a.rows + a.B * a.H * a.prepared;
}

#endif
