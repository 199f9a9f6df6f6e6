/*
** fast_groups_back.cu - gradients of attention of halves by products of warpgroups: see
** fast_groups_back.h.
*/

#include "cuda/attention/fast_groups_back.h"

bool attention_fits_groups_back (const cuda *self, const attend &a) {
  return attention_fits_groups(self, a) && attention_fits_fast_back(self, a) &&
         max(a.D, a.Dv) <= 128;
}


const char *back_by_groups (cuda *self, const attend &a) {
  return a.q.type == HEED_BFLOAT16 ? back_halves_by_groups<bfloat16>(self, a)
                                   : back_halves_by_groups<float16>(self, a);
}
