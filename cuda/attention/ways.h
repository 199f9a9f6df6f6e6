/*
** ways.h - the ways in which attention and its gradients can be computed: of a table the first that
** fits is taken, so the last one fits all works. device.way is its name afterwards.
**
** The choice depends on shapes, types, layouts and the GPU, never on values: captured work stays
** right, and two runs take the same way.
*/

#ifndef cuda_attention_ways_h
#define cuda_attention_ways_h

#include "cuda/attention/attention.h"

/* Is code for GPUs of 9.0 alone, on which no other way does what warpgroups can? */
#ifdef HEED_WARPGROUPS_ALONE
#define WARPGROUPS_ALONE true
#else
#define WARPGROUPS_ALONE false
#endif

#pragma GCC visibility push(hidden)

typedef struct attention_way {
  const char *name;
  bool (*fits) (const cuda *self, const attend &a);
  const char *(*run) (cuda *self, const attend &a);
} attention_way;

static inline const char *attention_take (cuda *self, const attention_way *ways,
                                          const attend &a) {
  while (!ways->fits(self, a)) ways++;
  self->device.way = ways->name;
  return ways->run(self, a);
}

/*
** Halves on tensor cores: heads of up to 256 numbers, whose rows are unbroken and lie at multiples
** of 16 bytes: fast.cu; fast_bfloat16.cu and fast_float16.cu.
*/
bool attention_fits_fast (const cuda *self, const attend &a);
const char *attend_fast (cuda *self, const attend &a);
const char *attend_bfloat16 (cuda *self, const attend &a);
const char *attend_float16 (cuda *self, const attend &a);

/*
** The same by products of warpgroups, where the GPU is of 9.0 and softcap, biases and dropout are
** not asked for: fast_groups.cu.
*/
bool attention_fits_groups (const cuda *self, const attend &a);
const char *attend_with_groups (cuda *self, const attend &a);

/*
** Gradients of the same, if those of y lie so, too: fast_back_bfloat16.cu, fast_back_float16.cu.
*/
bool attention_fits_fast_back (const cuda *self, const attend &a);
const char *back_fast (cuda *self, const attend &a);
const char *back_bfloat16 (cuda *self, const attend &a);
const char *back_float16 (cuda *self, const attend &a);

/* The same by products of warpgroups, of heads of up to 128 numbers: fast_groups_back.cu. */
bool attention_fits_groups_back (const cuda *self, const attend &a);
const char *back_by_groups (cuda *self, const attend &a);

/*
** Floats by products of TF32, as those of float32 are multiplied (product/float.h): by one where
** matmul_precision allows it, by three where these are faster than multiplications and additions:
** fast_float32.cu. Their gradients are exact.
*/
bool attention_fits_one_tf32 (const cuda *self, const attend &a);
const char *attend_one_tf32 (cuda *self, const attend &a);
bool attention_fits_three_tf32 (const cuda *self, const attend &a);
const char *attend_three_tf32 (cuda *self, const attend &a);

/* Any head size, mask, bias, strides and floating type: attention.cu, attention_back.cu. */
static inline bool attention_fits_exact (const cuda *, const attend &) { return true; }

#pragma GCC visibility pop

#endif
