/*
** fast_bfloat16.cu - attention of bfloat16 on tensor cores: see fast_forward.h.
*/

#include "cuda/attention/fast_forward.h"

const char *attend_bfloat16 (cuda *self, const attend &a) {
  return attend_halves<bfloat16>(self, a);
}
