/*
** random.cu - random tensors by Philox: a function of seed, offset and element.
**
** Seed and offset are in device memory. All blocks of a kernel read them, and the last block to
** end advances the offset by the counters that were used, so that a replayed graph draws new
** numbers. Each counter gives four numbers of 32 bits, whatever the order of threads: the same
** numbers for the same seed on every GPU. The CPU draws other numbers, but the same for dropout.
*/

#include "cuda/random/philox.h"
#include "cuda/index/sort.h"

#define THREADS 256
#define PER_COUNTER 4              /* numbers of 32 bits that a counter gives */

/* A tensor that is filled; the elements of a group share a counter. */
typedef struct filling {
  generator_state *state;
  void *y;
  heed_type type;
  bool dense;                      /* groups are contiguous, and aligned to their size */
  int64_t n, groups;
  path at;
} filling;


/*
** {==================================================================
** What kernels begin and end with
** ===================================================================
*/

typedef struct generator_start { uint64_t seed, offset; } generator_start;

INLINE generator_start begin (const generator_state *state) {
  return generator_start{state->seed, state->offset};
}

/* Advances the state once all threads of all blocks have read it. */
INLINE void finish (generator_state *state, uint64_t used) {
  __syncthreads();
  if (threadIdx.x == 0 && ends_last(&state->done)) state->offset += used;
}


/* f(g, draw) for each group of elements, with the numbers of its counter. */
template <class F> INLINE void each_group (generator_state *state, int64_t groups, F f) {
  generator_start s = begin(state);
  for (int64_t g = first_index(); g < groups; g += index_step()) {
    uint32_t draw[PER_COUNTER];
    philox_draw(s.seed, s.offset + (uint64_t)g, draw);
    f(g, draw);
  }
  finish(state, (uint64_t)groups);
}


INLINE uint64_t joined (uint32_t high, uint32_t low) { return (uint64_t)high << 32 | low; }

/* 24 and 53 bits in [0, 1). */
INLINE float unit_float (uint32_t draw) { return (float)(draw >> 8) * 0x1p-24f; }
INLINE double unit_double (uint64_t draw) { return (double)(draw >> 11) * 0x1p-53; }


template <class T> INLINE void put_one (const filling &d, int64_t i, T x) {
  if (i < d.n) put<T>(d.y, d.type, element_offset(d.at, i), x);
}

/* Elements 4 group to 4 group + 3, by one store where they are dense. */
template <class T> INLINE void put_four (const filling &d, int64_t group, const T *x) {
  int64_t i = PER_COUNTER * group;
  bool full = d.dense && i + PER_COUNTER <= d.n;
  if (full && d.type == HEED_FLOAT32)
    ((float4 *)d.y)[group] = make_float4((float)x[0], (float)x[1], (float)x[2], (float)x[3]);
  else if (full && d.type == HEED_FLOAT16)
    ((ushort4 *)d.y)[group] = make_ushort4(ptx_to_half((float)x[0]), ptx_to_half((float)x[1]),
                                           ptx_to_half((float)x[2]), ptx_to_half((float)x[3]));
  else if (full && d.type == HEED_BFLOAT16)
    ((ushort4 *)d.y)[group] = make_ushort4(ptx_to_bfloat((float)x[0]), ptx_to_bfloat((float)x[1]),
                                           ptx_to_bfloat((float)x[2]), ptx_to_bfloat((float)x[3]));
  else
    for (int k = 0; k < PER_COUNTER; k++) put_one(d, i + k, x[k]);
}

/* }================================================================== */


/*
** {==================================================================
** Uniform: what is rounded up to 'high' becomes 'low'
** ===================================================================
*/

INLINE float rounded (heed_type type, float x) {
  if (type == HEED_FLOAT16) return ptx_from_half(ptx_to_half(x));
  return type == HEED_BFLOAT16 ? wide(bfloat16{ptx_to_bfloat(x)}) : x;
}

KERNEL uniform_float (filling d, float low, float high) {
  each_group(d.state, d.groups, [&] (int64_t g, const uint32_t *draw) {
    float x[PER_COUNTER];
    for (int k = 0; k < PER_COUNTER; k++) {
      x[k] = rounded(d.type, fmaf(unit_float(draw[k]), high - low, low));
      if (x[k] == high) x[k] = low;
    }
    put_four(d, g, x);
  });
}

KERNEL uniform_double (filling d, double low, double high) {
  each_group(d.state, d.groups, [&] (int64_t g, const uint32_t *draw) {
    for (int k = 0; k < 2; k++) {
      double x = fma(unit_double(joined(draw[2 * k], draw[2 * k + 1])), high - low, low);
      put_one(d, 2 * g + k, x == high ? low : x);
    }
  });
}

/* }================================================================== */


/*
** {==================================================================
** Normal: pairs (G. Box, M. Muller, 1958)
** ===================================================================
*/

KERNEL normal_float (filling d, float mean, float deviation) {
  each_group(d.state, d.groups, [&] (int64_t g, const uint32_t *draw) {
    float x[PER_COUNTER];
    for (int k = 0; k < PER_COUNTER; k += 2) {
      float u = fmaf((float)draw[k], 0x1p-32f, 0x1p-33f), sine, cosine;    /* in (0, 1] */
      float length = sqrtf(-2 * logf(u));
      sincospif(2 * unit_float(draw[k + 1]), &sine, &cosine);
      x[k] = fmaf(length * cosine, deviation, mean);
      x[k + 1] = fmaf(length * sine, deviation, mean);
    }
    put_four(d, g, x);
  });
}

KERNEL normal_double (filling d, double mean, double deviation) {
  each_group(d.state, d.groups, [&] (int64_t g, const uint32_t *draw) {
    double sine, cosine;
    double length = sqrt(-2 * log(1 - unit_double(joined(draw[0], draw[1]))));
    sincospi(2 * unit_double(joined(draw[2], draw[3])), &sine, &cosine);
    put_one(d, 2 * g, fma(length * cosine, deviation, mean));
    put_one(d, 2 * g + 1, fma(length * sine, deviation, mean));
  });
}

/* }================================================================== */


/*
** {==================================================================
** Integers, bools, permutations
** ===================================================================
*/

/* 64 bits each, scaled: no integer is likelier than another by more than width / 2^64. */
KERNEL integers (filling d, uint64_t low, uint64_t width) {
  each_group(d.state, d.groups, [&] (int64_t g, const uint32_t *draw) {
    for (int k = 0; k < 2; k++) {
      uint64_t x = joined(draw[2 * k], draw[2 * k + 1]);
      put_one(d, 2 * g + k, (int64_t)((width == 0 ? x : __umul64hi(x, width)) + low));
    }
  });
}


/* Element i from 0 on, whose position is from 1. */
INLINE double probability_at (const void *p, heed_type type, const path &at, int64_t i,
                              const faults &f) {
  const double x = fetch<double>(p, type, element_offset(at, i));
  if (!(x >= 0 && x <= 1))
    report(f, FAULT_PROBABILITY, 0, i + 1, (int64_t)__double_as_longlong(x), 0);
  return x;
}


KERNEL probabilities (const void *p, heed_type type, path at, int64_t n, faults f) {
  for (int64_t i = first_index(); i < n; i += index_step()) probability_at(p, type, at, i, f);
}


/* 'p' NULL: the probability is 'number'. */
KERNEL bools (filling d, const void *p, heed_type type, path at, double number, faults f) {
  each_group(d.state, d.groups, [&] (int64_t g, const uint32_t *draw) {
    for (int k = 0; k < 2 && 2 * g + k < d.n; k++) {
      double least = p != NULL ? probability_at(p, type, at, 2 * g + k, f) : number;
      put_one(d, 2 * g + k,
              (int64_t)(unit_double(joined(draw[2 * k], draw[2 * k + 1])) < least));
    }
  });
}


KERNEL random_keys (generator_state *state, uint64_t *keys, int64_t n) {
  each_group(state, (n + 1) / 2, [&] (int64_t g, const uint32_t *draw) {
    keys[2 * g] = joined(draw[0], draw[1]);
    if (2 * g + 1 < n) keys[2 * g + 1] = joined(draw[2], draw[3]);
  });
}

KERNEL put_order (filling d, const uint32_t *order) {
  for (int64_t i = first_index(); i < d.n; i += index_step())
    put_one(d, i, (int64_t)order[i] + 1);
}

/* The positions of random keys, in order of the keys. */
static const char *fill_permutation (cuda *self, const filling &d) {
  ordered y;
  if (d.n >= ORDER_LIMIT) return "a permutation of 2^32 numbers is too long";
  uint64_t *keys = (uint64_t *)cuda_scratch(self, (size_t)d.n * sizeof *keys);
  if (keys == NULL) return cuda_no_memory;
  const char *why = launch(self, cuda_blocks(self, (d.n + 1) / 2, THREADS), THREADS, 0,
                           random_keys, d.state, keys, d.n);
  if (why == NULL) why = cuda_order(self, d.n, 64, keys, &y);
  return why != NULL ? why : launch(self, cuda_blocks(self, d.n, THREADS), THREADS, 0, put_order,
                                    d, y.at);
}

/* }================================================================== */


/*
** {==================================================================
** Dropout's factors: by a key of their own, as on the CPU
** ===================================================================
*/

template <class T>
KERNEL dropout (filling d, const uint64_t *key, uint64_t number, uint64_t least, T kept) {
  uint64_t k = key != NULL ? *key : number;
  for (int64_t g = first_index(); g < d.groups; g += index_step()) {
    uint32_t draw[PER_COUNTER];
    T x[PER_COUNTER];
    philox_draw(k, (uint64_t)g, draw);
    for (int i = 0; i < PER_COUNTER; i++) x[i] = draw[i] >= least ? kept : 0;
    put_four(d, g, x);
  }
}

static const char *fill_dropout (cuda *self, const work *w, dim3 blocks, const filling &d) {
  const double p = w->random.a, kept = 1 / (1 - p);
  const view *key = &w->in[0];
  const uint64_t *at = (const uint64_t *)key->data, least = (uint64_t)ceil(p * 0x1p32);
  const uint64_t number = at != NULL ? 0 : (uint64_t)key->value.i;
  if (d.type == HEED_FLOAT64)
    return launch(self, blocks, THREADS, 0, dropout<double>, d, at, number, least, kept);
  return launch(self, blocks, THREADS, 0, dropout<float>, d, at, number, least, (float)kept);
}

/* }================================================================== */


static const char *fill_floats (cuda *self, const work *w, dim3 blocks, const filling &d,
                                void (*single) (filling, float, float),
                                void (*twice) (filling, double, double)) {
  double a = w->random.a, b = w->random.b;
  return d.type == HEED_FLOAT64 ? launch(self, blocks, THREADS, 0, twice, d, a, b)
                                : launch(self, blocks, THREADS, 0, single, d, a, b);
}


static const char *fill_integers (cuda *self, const work *w, dim3 blocks, const filling &d) {
  uint64_t low = (uint64_t)w->random.low, width = (uint64_t)w->random.high - low + 1;
  return launch(self, blocks, THREADS, 0, integers, d, low, width);
}


static const char *fill_bools (cuda *self, const work *w, dim3 blocks, const filling &d) {
  const view *p = &w->in[0];
  path at = path_of(&p->at);
  return launch(self, blocks, THREADS, 0, bools, d, p->data, p->type, at,
                p->data != NULL ? 0 : scalar_double(p->value), cuda_faults(self));
}


const char *cuda_probabilities (cuda *self, const work *w) {
  const view *p = &w->in[0];
  const layout *at = &p->at;
  const int64_t n = layout_numel(at);
  path whole;
  paths_of(1, &at, &whole);
  return launch(self, cuda_blocks(self, n, THREADS), THREADS, 0, probabilities, p->data, p->type,
                whole, n, cuda_faults(self));
}


static filling filling_of (cuda *self, const work *w) {
  const view *y = &w->out[0];
  const layout *at = &y->at;
  filling d;
  d.state = self->generator_state;
  d.y = y->data;
  d.type = y->type;
  d.n = layout_numel(at);
  d.dense = layout_is_dense(at) && (uintptr_t)y->data % (PER_COUNTER * scalar_sizes[y->type]) == 0;
  paths_of(1, &at, &d.at);
  bool floats = w->op == RANDOM_UNIFORM || w->op == RANDOM_NORMAL;
  bool four = w->op == RANDOM_DROPOUT || (floats && y->type != HEED_FLOAT64);
  d.groups = four ? (d.n + 3) / 4 : (d.n + 1) / 2;
  return d;
}


const char *cuda_random (cuda *self, const work *w) {
  filling d = filling_of(self, w);
  dim3 blocks = cuda_blocks(self, d.groups, THREADS);
  if (d.n == 0) return NULL;
  switch ((random_op)w->op) {
    case RANDOM_UNIFORM: return fill_floats(self, w, blocks, d, uniform_float, uniform_double);
    case RANDOM_NORMAL: return fill_floats(self, w, blocks, d, normal_float, normal_double);
    case RANDOM_INTEGER: return fill_integers(self, w, blocks, d);
    case RANDOM_BERNOULLI: return fill_bools(self, w, blocks, d);
    case RANDOM_PERMUTATION: return fill_permutation(self, d);
    case RANDOM_DROPOUT: return fill_dropout(self, w, blocks, d);
  }
  return cuda_refuse(self, "unknown random operation %d", w->op);
}
