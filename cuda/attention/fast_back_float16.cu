/*
** fast_back_float16.cu - gradients of attention of float16 on tensor cores: see fast_back.h.
*/

#include "cuda/attention/fast_back.h"

const char *back_float16 (cuda *self, const attend &a) {
  return back_halves<float16>(self, a);
}
