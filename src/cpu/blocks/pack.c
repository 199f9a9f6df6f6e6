/*
** pack.c - values become blocks: each type's scales, least values and quants.
**
** Values that are not finite, or whose scale float16 does not hold, are refused.
*/

#include "cpu/cpu.h"

#include <math.h>
#include <string.h>

#define SPAN 256


static float half_to (uint8_t *at, float value) {
  const uint16_t bits = scalar_to_float16(value);
  memcpy(at, &bits, sizeof bits);
  return scalar_from_float16(bits);
}


static float inverse (float x) { return x != 0 ? 1 / x : 0; }


static int quant (float x, int least, int most) {
  const float rounded = rintf(x);
  return rounded < (float)least ? least : rounded > (float)most ? most : (int)rounded;
}


/* The value of the largest size, with its sign. */
static float largest (const float *x, int n) {
  float found = 0;
  for (int i = 0; i < n; i++)
    if (fabsf(x[i]) > fabsf(found)) found = x[i];
  return found;
}


static void range (const float *x, int n, float *least, float *most) {
  *least = *most = x[0];
  for (int i = 1; i < n; i++) {
    if (x[i] < *least) *least = x[i];
    if (x[i] > *most) *most = x[i];
  }
}


/*
** {==================================================================
** Blocks of 32 elements
** ===================================================================
*/

static void pack_q8_0 (const float *x, uint8_t *b) {
  const float scale = fabsf(largest(x, 32)) / 127, each = inverse(scale);
  half_to(b, scale);
  for (int i = 0; i < 32; i++) b[2 + i] = (uint8_t)(int8_t)quant(x[i] * each, -127, 127);
}


/* Quants of 'bits' bits from a zero in their middle, the low four of them in 'low'. */
static uint32_t pack_middle (const float *x, uint8_t *b, uint8_t *low, int bits) {
  const int zero = 1 << (bits - 1);
  const float each = inverse(half_to(b, largest(x, 32) / (float)-zero));
  uint32_t fifth = 0;
  memset(low, 0, 16);
  for (int i = 0; i < 32; i++) {
    const int q = quant(x[i] * each + (float)zero, 0, 2 * zero - 1);
    low[i & 15] = (uint8_t)(low[i & 15] | (q & 15) << (i >> 4) * 4);
    fifth |= (uint32_t)(q >> 4) << i;
  }
  return fifth;
}


/* The same from the least value on. */
static uint32_t pack_least (const float *x, uint8_t *b, uint8_t *low, int bits) {
  float least, most;
  const int last = (1 << bits) - 1;
  range(x, 32, &least, &most);
  const float each = inverse(half_to(b, (most - least) / (float)last));
  least = half_to(b + 2, least);
  uint32_t fifth = 0;
  memset(low, 0, 16);
  for (int i = 0; i < 32; i++) {
    const int q = quant((x[i] - least) * each, 0, last);
    low[i & 15] = (uint8_t)(low[i & 15] | (q & 15) << (i >> 4) * 4);
    fifth |= (uint32_t)(q >> 4) << i;
  }
  return fifth;
}


static void pack_q4_0 (const float *x, uint8_t *b) { pack_middle(x, b, b + 2, 4); }

static void pack_q4_1 (const float *x, uint8_t *b) { pack_least(x, b, b + 4, 4); }

static void pack_q5_0 (const float *x, uint8_t *b) {
  const uint32_t fifth = pack_middle(x, b, b + 6, 5);
  memcpy(b + 2, &fifth, sizeof fifth);
}

static void pack_q5_1 (const float *x, uint8_t *b) {
  const uint32_t fifth = pack_least(x, b, b + 8, 5);
  memcpy(b + 4, &fifth, sizeof fifth);
}

/* }================================================================== */


/*
** {==================================================================
** Blocks of 256 elements
** ===================================================================
*/

/* Scales and least values, negated, of 8 groups of 32; and both as six bits in 12 bytes. */
static void pack_sixes (const float *x, uint8_t *b, int last, float scale[8], float least[8]) {
  float most_scale = 0, most_least = 0;
  uint8_t *s = b + 4;
  for (int k = 0; k < 8; k++) {
    float low, high;
    range(x + 32 * k, 32, &low, &high);
    least[k] = low < 0 ? -low : 0;
    scale[k] = ((high > 0 ? high : 0) + least[k]) / (float)last;
    most_scale = fmaxf(most_scale, scale[k]);
    most_least = fmaxf(most_least, least[k]);
  }
  const float d = half_to(b, most_scale / 63), m = half_to(b + 2, most_least / 63);
  memset(s, 0, 12);
  for (int k = 0; k < 8; k++) {
    const int one = quant(scale[k] * inverse(d), 0, 63);
    const int other = quant(least[k] * inverse(m), 0, 63);
    scale[k] = d * (float)one;
    least[k] = m * (float)other;
    s[k < 4 ? k : k + 4] |= (uint8_t)(k < 4 ? one : (one & 15) | (other & 15) << 4);
    if (k < 4) s[k + 4] |= (uint8_t)other;
    else {
      s[k - 4] |= (uint8_t)(one >> 4 << 6);
      s[k] |= (uint8_t)(other >> 4 << 6);
    }
  }
}


/* Quants of 'bits' bits: four in 'low', the fifth in 'fifth' where there is one. */
static void pack_kept (const float *x, uint8_t *b, uint8_t *low, uint8_t *fifth, int bits) {
  float scale[8], least[8];
  const int last = (1 << bits) - 1;
  pack_sixes(x, b, last, scale, least);
  memset(low, 0, 128);
  if (fifth != NULL) memset(fifth, 0, 32);
  for (int k = 0; k < 8; k++)
    for (int i = 0; i < 32; i++) {
      const int q = quant((x[32 * k + i] + least[k]) * inverse(scale[k]), 0, last);
      uint8_t *to = low + 32 * (k / 2) + i;
      *to = (uint8_t)(*to | (q & 15) << (k & 1) * 4);
      if (fifth != NULL) fifth[i] = (uint8_t)(fifth[i] | q >> 4 << k);
    }
}


static void pack_q4_k (const float *x, uint8_t *b) { pack_kept(x, b, b + 16, NULL, 4); }

static void pack_q5_k (const float *x, uint8_t *b) { pack_kept(x, b, b + 48, b + 16, 5); }


static void pack_q6_k (const float *x, uint8_t *b) {
  float scale[16];
  for (int g = 0; g < 16; g++) scale[g] = largest(x + 16 * g, 16) / -32;
  const float d = half_to(b + 208, largest(scale, 16) / -128);
  memset(b, 0, 192);
  for (int i = 0; i < SPAN; i++) {
    const int one = quant(scale[i / 16] * inverse(d), -128, 127);
    const int q = quant(x[i] * inverse(d * (float)one), -32, 31) + 32;
    const int part = i >> 7, quarter = i >> 5 & 3, at = i & 31;
    uint8_t *low = b + 64 * part + 32 * (quarter & 1) + at, *high = b + 128 + 32 * part + at;
    *low = (uint8_t)(*low | (q & 15) << (quarter >> 1) * 4);
    *high = (uint8_t)(*high | q >> 4 << quarter * 2);
    b[192 + i / 16] = (uint8_t)(int8_t)one;
  }
}

/* }================================================================== */


typedef struct packing {
  cpu *self;
  const view *to, *from;
  void (*pack) (const float *x, uint8_t *block);
  int row, elements, bytes;
  bool refused;                    /* a value was not finite, or too large */
} packing;


static const float MOST = 65504;   /* of float16 */

/* A sum that is finite where all values are; scales and least values are no larger than them. */
static bool may_be_packed (const float *x, int n) {
  for (int i = 0; i < n; i++)
    if (!(fabsf(x[i]) <= MOST)) return false;
  return true;
}


static void pack_rows (void *arg, int64_t first, int64_t end) {
  packing *p = arg;
  const view *to = p->to, *from = p->from;
  const int64_t n = to->at.size[p->row], stride = from->at.stride[p->row];
  float values[SPAN];
  for (int64_t i = first; i < end; i++) {
    uint8_t *y = (uint8_t *)view_row(to, p->row, i);
    const char *x = view_row(from, p->row, i);
    if (cpu_stops(p->self, i - first, n)) return;
    for (int64_t k = 0; k < n; k += p->elements, y += p->bytes) {
      p->self->level->load(p->elements, HEED_FLOAT32, values, from->type,
                           x + k * stride * scalar_sizes[from->type], stride);
      if (may_be_packed(values, p->elements)) p->pack(values, y);
      else __atomic_store_n(&p->refused, true, __ATOMIC_RELAXED);
    }
  }
}


const char *cpu_pack (cpu *self, const work *w) {
  static void (*const packs[HEED_ALL_TYPES]) (const float *, uint8_t *) = {
#define WRITTEN(name) pack_##name
#define READ(name) NULL
#define BLOCK(NAME, name, elements, bytes, least, group, use) [HEED_##NAME] = use(name),
#include "base/blocks.def"
  };
  const view *to = &w->out[0];
  const scalar_block *b = &scalar_blocks[to->type];
  const int row = layout_block_axis(&to->at, b->elements);
  packing p = {self, to, &w->in[0], packs[to->type], row, b->elements, b->bytes, false};
  if (!b->written) return cpu_refuse(self, "values do not become %s", scalar_names[to->type]);
  if (layout_numel(&to->at) == 0) return NULL;
  const int64_t n = to->at.size[row], rows = layout_numel(&to->at) / n;
  pool_run(self->pool, rows, 8192 / n + 1, pack_rows, &p);
  if (!p.refused) return NULL;
  return cpu_refuse(self, "finite values of at most %g expected for %s", (double)MOST,
                    scalar_names[to->type]);
}
