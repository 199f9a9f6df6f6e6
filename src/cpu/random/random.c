/*
** random.c - random tensors: on the CPU, the numbers that PyTorch draws for the same seed.
**
** Elements are drawn in row-major order, those of what has gaps or is transposed in the order of
** memory. Integers come from 32 bits up to a width of 2^28, from 64 bits above; halves are drawn
** as float and rounded.
*/

#include "cpu/copy/iterator.h"

#include <math.h>

#define CHUNK 512

typedef struct sampling {
  cpu *self;
  const work *w;
  generator *g;
  iterator y;
  heed_type as;                    /* of the samples: float, double or int64 */
  int64_t numel;
} sampling;

/* Fills n elements, the first of which is number 'from'. */
typedef void (*sampler) (sampling *d, int64_t from, int64_t n, void *y);


/* Have all elements one distribution? */
static bool identical (const work *w) {
  if (w->op != RANDOM_BERNOULLI) return w->op == RANDOM_UNIFORM || w->op == RANDOM_NORMAL;
  for (int i = 0; i < w->in[0].at.rank; i++)
    if (w->in[0].at.stride[i] != 0) return false;
  return true;
}


/* The axes from the largest stride to the smallest: then rows follow memory. */
static layout in_memory_order (const layout *at) {
  int order[HEED_RANK];
  for (int i = 0; i < at->rank; i++) {
    int j = i;
    for (; j > 0 && at->stride[order[j - 1]] < at->stride[i]; j--) order[j] = order[j - 1];
    order[j] = i;
  }
  return layout_permute(at, order);
}


static void sample_all (sampling *d, sampler piece) {
  double workspace[CHUNK];
  for (int64_t from = 0; from < d->numel; from += CHUNK) {
    if (cpu_stops(d->self, from / CHUNK, CHUNK)) return;
    int64_t n = d->numel - from < CHUNK ? d->numel - from : CHUNK;
    void *y = iterator_target(&d->y, from, n, d->as, workspace);
    piece(d, from, n, y);
    iterator_write(d->self, &d->y, from, n, d->as, y);
  }
}


/*
** {==================================================================
** Uniform
** ===================================================================
*/

/* n <= CHUNK numbers in [from, to) of 24 bits … */
static void uniform_floats (const sampling *d, int64_t n, float *x, float from, float to) {
  uint32_t bits[CHUNK];
  generator_fill(d->g, n, bits);
  d->self->level->uniform(n, x, bits, from, to);
}


static uint64_t joined (const uint32_t *bits) { return (uint64_t)bits[0] << 32 | bits[1]; }


/* … or in [0, 1) of 53, whose high half comes first. */
static void uniform_doubles (generator *g, int64_t n, double *x) {
  uint32_t bits[2 * CHUNK];
  generator_fill(g, 2 * n, bits);
  for (int64_t i = 0; i < n; i++)
    x[i] = (double)(int64_t)(joined(bits + 2 * i) & 0x1fffffffffffff) * 0x1p-53;
}


/* x (to - from) + from, rounded once; what was rounded up to 'to' becomes 'from'. */
static void uniform_float (sampling *d, int64_t from, int64_t n, void *y) {
  float low = (float)d->w->random.a, high = (float)d->w->random.b, *x = y;
  (void)from;
  uniform_floats(d, n, x, low, high);
  for (int64_t i = 0; i < n && scalar_is_half(d->y.type); i++) {
    if (d->y.type == HEED_FLOAT16) x[i] = scalar_from_float16(scalar_to_float16(x[i]));
    else x[i] = scalar_from_bfloat16(scalar_to_bfloat16(x[i]));
    if (x[i] == high) x[i] = low;
  }
}


static void uniform_double (sampling *d, int64_t from, int64_t n, void *y) {
  double low = d->w->random.a, high = d->w->random.b, *x = y;
  (void)from;
  uniform_doubles(d->g, n, x);
  for (int64_t i = 0; i < n; i++) {
    x[i] = fma(x[i], high - low, low);
    if (x[i] == high) x[i] = low;
  }
}

/* }================================================================== */


/*
** {==================================================================
** Normal: below 16 elements, or with gaps, one at a time, from 16 on in blocks of 16, of which
** the first eight are paired with the last eight. The numbers left over make the last 16 anew.
** ===================================================================
*/

static void normal_few (sampling *d, int64_t from, int64_t n, void *y) {
  double mean = d->w->random.a, deviation = d->w->random.b;
  (void)from;
  for (int64_t i = 0; i < n; i++) {
    double x = fma(generator_normal(d->g), deviation, mean);
    if (d->as == HEED_FLOAT32) ((float *)y)[i] = (float)x;
    else ((double *)y)[i] = x;
  }
}


static void normal_doubles (int64_t n, double *x, double mean, double deviation) {
  for (int64_t block = 0; block < n; block += 16)
    for (double *u = x + block; u < x + block + 8; u++) {
      double length = sqrt(-2 * log(1 - u[0])), angle = 6.28318530717958647692 * u[8];
      u[0] = fma(length * cos(angle), deviation, mean);
      u[8] = fma(length * sin(angle), deviation, mean);
    }
}


static void normal_blocks (sampling *d, int64_t from, int64_t n, void *y) {
  double mean = d->w->random.a, deviation = d->w->random.b;
  (void)from;
  if (d->as == HEED_FLOAT32) {
    uniform_floats(d, n, y, 0, 1);
    d->self->level->normal(n, y, (float)mean, (float)deviation);
  }
  else {
    uniform_doubles(d->g, n, y);
    normal_doubles(n, y, mean, deviation);
  }
}


/*
** The uniform numbers of the last, incomplete block are drawn too, though none is used; for
** halves they are not (PyTorch's way).
*/
static void normal_many (sampling *d) {
  double workspace[16];
  int64_t numel = d->numel, rest = numel % 16;
  d->numel -= rest;
  sample_all(d, normal_blocks);
  d->numel = numel;
  if (rest == 0) return;
  if (d->as == HEED_FLOAT64) uniform_doubles(d->g, rest, workspace);
  else if (!scalar_is_half(d->y.type)) uniform_floats(d, rest, (float *)workspace, 0, 1);
  void *y = iterator_target(&d->y, numel - 16, 16, d->as, workspace);
  normal_blocks(d, numel - 16, 16, y);
  iterator_write(d->self, &d->y, numel - 16, 16, d->as, y);
}

/* }================================================================== */


/*
** {==================================================================
** Integers and bools
** ===================================================================
*/

static void integer (sampling *d, int64_t from, int64_t n, void *y) {
  uint64_t low = (uint64_t)d->w->random.low, width = (uint64_t)d->w->random.high - low + 1;
  bool wide = width >= 1u << 28 || width == 0;
  uint32_t bits[2 * CHUNK];
  (void)from;
  generator_fill(d->g, wide ? 2 * n : n, bits);
  for (int64_t i = 0; i < n; i++) {
    uint64_t x = wide ? joined(bits + 2 * i) : bits[i];
    ((int64_t *)y)[i] = (int64_t)((width == 0 ? x : x % width) + low);
  }
}


/* A single p is compared in double; those of a tensor in float, unless they are double. */
static void bernoulli (sampling *d, int64_t from, int64_t n, void *y) {
  const view *v = &d->w->in[0];
  const bool wide = v->data == NULL || v->type == HEED_FLOAT64;
  const heed_type as = wide ? HEED_FLOAT64 : HEED_FLOAT32;
  double workspace[CHUNK], u[CHUNK];
  iterator s;
  iterator_open(&s, v, as);
  const void *p = iterator_read(d->self, &s, from, n, as, workspace);
  if (wide) uniform_doubles(d->g, n, u);
  else uniform_floats(d, n, (float *)u, 0, 1);
  for (int64_t i = 0; i < n; i++)
    ((int64_t *)y)[i] = wide ? u[i] < ((const double *)p)[i]
                             : ((const float *)u)[i] < ((const float *)p)[i];
}


/* Fisher and Yates's shuffle of 1 to n, from the front; 64 bits where 32 would be uneven. */
static const char *permutation (sampling *d) {
  int64_t n = d->numel, *x = cpu_scratch(d->self, (size_t)n * sizeof *x);
  if (x == NULL) return cpu_no_memory;
  for (int64_t i = 0; i < n && !cpu_stops(d->self, i, 1); i++) x[i] = i + 1;
  if (cpu_stopped(d->self)) n = 0;
  for (int64_t i = 0; i < n - 1 && !cpu_stops(d->self, i, 1); i++) {
    uint64_t bits = n < UINT32_MAX / 20 ? generator_32(d->g) : generator_64(d->g);
    int64_t j = i + (int64_t)(bits % (uint64_t)(n - i)), at_i = x[i];
    x[i] = x[j];
    x[j] = at_i;
  }
  for (int64_t from = 0; from < n && !cpu_stops(d->self, from / CHUNK, CHUNK); from += CHUNK) {
    int64_t count = n - from < CHUNK ? n - from : CHUNK;
    int64_t *y = iterator_target(&d->y, from, count, HEED_INT64, x + from);
    if (y != x + from) memcpy(y, x + from, (size_t)count * sizeof *y);
    iterator_write(d->self, &d->y, from, count, HEED_INT64, y);
  }
  cpu_scratch_free(x);
  return NULL;
}

/* }================================================================== */


/*
** {==================================================================
** Dropout's factors: by an element's index, in any order
** ===================================================================
*/

static uint64_t key_of (const view *v) {
  return v->data != NULL ? *(const uint64_t *)v->data : (uint64_t)v->value.i;
}


/* Factors of doubles are not rounded to float. */
static void dropout_chunks (void *arg, int64_t from, int64_t to) {
  sampling *d = arg;
  double workspace[CHUNK];
  float line[CHUNK];
  const double p = d->w->random.a, kept = 1 / (1 - p);
  const bool doubles = d->as == HEED_FLOAT64;
  uint64_t key = key_of(&d->w->in[0]);
  for (int64_t at = from * CHUNK; at < d->numel && at < to * CHUNK; at += CHUNK) {
    int64_t n = d->numel - at < CHUNK ? d->numel - at : CHUNK;
    void *y = iterator_target(&d->y, at, n, d->as, workspace);
    float *factors = doubles ? line : y;
    d->self->level->dropout(n, factors, key, (uint64_t)at, p, doubles ? 1 : (float)kept);
    for (int64_t i = 0; doubles && i < n; i++) ((double *)y)[i] = factors[i] != 0 ? kept : 0;
    iterator_write(d->self, &d->y, at, n, d->as, y);
  }
}

/* }================================================================== */


const char *cpu_random (cpu *self, const work *w) {
  sampling d = {.self = self, .w = w, .g = self->random, .numel = layout_numel(&w->out[0].at)};
  heed_type type = w->out[0].type;
  bool integers = w->op == RANDOM_INTEGER || w->op == RANDOM_BERNOULLI ||
                  w->op == RANDOM_PERMUTATION;
  view y = w->out[0];
  bool dense = layout_is_dense(&y.at);
  d.as = integers ? HEED_INT64 : type == HEED_FLOAT64 ? type : HEED_FLOAT32;
  if (d.numel == 0) return NULL;
  if (!dense && identical(w)) y.at = in_memory_order(&y.at);
  iterator_open(&d.y, &y, d.as);
  switch ((random_op)w->op) {
    case RANDOM_UNIFORM:
      sample_all(&d, d.as == HEED_FLOAT64 ? uniform_double : uniform_float);
      break;
    case RANDOM_NORMAL:
      if (d.numel < 16 || !dense) sample_all(&d, normal_few);
      else normal_many(&d);
      break;
    case RANDOM_INTEGER: sample_all(&d, integer); break;
    case RANDOM_BERNOULLI: sample_all(&d, bernoulli); break;
    case RANDOM_PERMUTATION: return permutation(&d);
    case RANDOM_DROPOUT:
      pool_run(self->pool, (d.numel + CHUNK - 1) / CHUNK, 16, dropout_chunks, &d);
      break;
  }
  return NULL;
}
