/*
** fast_float32.cu - attention of float32 on tensor cores: see fast_floats.h.
*/

#include "cuda/attention/fast_forward.h"


template <int WIDTH, int TERMS> static const char *run_floats (cuda *self, const attend &a) {
  return has_options(a) ? run_fast<float, fast_floats<WIDTH, true, TERMS>>(self, a)
                        : run_fast<float, fast_floats<WIDTH, false, TERMS>>(self, a);
}


template <int TERMS> static const char *attend_floats (cuda *self, const attend &a) {
  const int64_t width = max(a.D, a.Dv);
  return width <= 64 ? run_floats<64, TERMS>(self, a)
       : width <= 128 ? run_floats<128, TERMS>(self, a) : run_floats<256, TERMS>(self, a);
}


const char *attend_three_tf32 (cuda *self, const attend &a) { return attend_floats<3>(self, a); }

const char *attend_one_tf32 (cuda *self, const attend &a) { return attend_floats<1>(self, a); }
