/*
** fast_groups.cu - attention of halves by products of warpgroups: see fast_groups.h.
*/

#include "cuda/attention/fast_groups.h"

bool attention_fits_groups (const cuda *self, const attend &a) {
  const bool has_groups = WARPGROUPS_COMPILED && self->gpu.major == 9 && self->gpu.minor == 0;
  return has_groups && attention_fits_fast(self, a) && !has_options(a);
}


const char *attend_with_groups (cuda *self, const attend &a) {
  return a.q.type == HEED_BFLOAT16 ? attend_by_groups<bfloat16>(self, a)
                                   : attend_by_groups<float16>(self, a);
}
