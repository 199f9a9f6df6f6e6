/*
** fast.cu - which works tensor cores can do: see fast.h.
*/

#include "cuda/attention/fast.h"
#include "cuda/product/matmul.h"


/* Are its rows unbroken, and at multiples of 16 bytes? */
static bool is_aligned (const head_operand &o) {
  const int64_t chunk = o.type == HEED_FLOAT32 ? 4 : 8;
  bool aligned = (uintptr_t)o.data % 16 == 0 && o.stride[3] == 1;
  for (int i = 0; i < 3; i++) aligned &= o.stride[i] % chunk == 0;
  return aligned;
}


static bool fits_tensor_cores (const attend &a) {
  const heed_type type = a.q.type;
  if (min(a.D, a.Dv) < 1 || max(a.D, a.Dv) > FAST_WIDTH || min(a.T, a.S) < 1) return false;
  if (a.bias.data != NULL && a.bias.type != type && a.bias.type != HEED_FLOAT32) return false;
  if (a.drop != 0 && a.S % 4 != 0) return false;       /* draws come in fours */
  const float factor = a.single.factor;
  if (!(factor > 0 && factor < INFINITY)) return false;
  return is_aligned(a.q) && is_aligned(a.k) && is_aligned(a.v);
}


bool attention_fits_fast (const cuda *, const attend &a) {
  const bool halves = a.q.type == HEED_BFLOAT16 || a.q.type == HEED_FLOAT16;
  return halves && fits_tensor_cores(a);
}


const char *attend_fast (cuda *self, const attend &a) {
  return a.q.type == HEED_BFLOAT16 ? attend_bfloat16(self, a) : attend_float16(self, a);
}


bool attention_fits_fast_back (const cuda *self, const attend &a) {
  return attention_fits_fast(self, a) && is_aligned(a.g);
}


const char *back_fast (cuda *self, const attend &a) {
  return a.q.type == HEED_BFLOAT16 ? back_bfloat16(self, a) : back_float16(self, a);
}


bool attention_fits_one_tf32 (const cuda *self, const attend &a) {
  return a.q.type == HEED_FLOAT32 && self->precision > 0 && fits_tensor_cores(a);
}


bool attention_fits_three_tf32 (const cuda *self, const attend &a) {
  return a.q.type == HEED_FLOAT32 && has_fast_tf32(self) && fits_tensor_cores(a);
}
