/*
** fast_back_bfloat16.cu - gradients of attention of bfloat16 on tensor cores: see fast_back.h.
*/

#include "cuda/attention/fast_back.h"

const char *back_bfloat16 (cuda *self, const attend &a) {
  return back_halves<bfloat16>(self, a);
}
