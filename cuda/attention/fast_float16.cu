/*
** fast_float16.cu - attention of float16 on tensor cores: see fast_forward.h.
*/

#include "cuda/attention/fast_forward.h"

const char *attend_float16 (cuda *self, const attend &a) {
  return attend_halves<float16>(self, a);
}
