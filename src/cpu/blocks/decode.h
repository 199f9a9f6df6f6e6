/*
** decode.h - rows of blocks as values, a span at a time, by the level's functions for each type.
*/

#ifndef decode_h
#define decode_h

#include "cpu/blocks/load.h"

#if defined(HAS_AVX512)
#define span_of(name) span_loaded_##name
#else
#define span_of(name) span_decoded_##name
#endif

typedef struct decoder {
  void (*decode) (const uint8_t *at, int n, span *s);
  bool least;
} decoder;

static const decoder decoders[HEED_ALL_TYPES] = {
#define BLOCK(NAME, name, elements, bytes, least, ...) [HEED_##NAME] = {span_of(name), least},
#include "base/blocks.def"
};


/* Values of a group of a span. */
INLINED void group_values (const decoder *d, const span *s, int g, block_lanes *y) {
  const block_lanes scale = block_all(s->scale[g]);
  values_of(s->q + g * DECODE_GROUP, y);
  UNROLL for (int i = 0; i < GROUP_VECTORS; i++) y[i] *= scale;
  if (!d->least) return;
  const block_lanes least = block_all(s->least[g]);
  UNROLL for (int i = 0; i < GROUP_VECTORS; i++) y[i] += least;
}


/* n elements as values. */
static inline void decode_values (const decoder *d, const uint8_t *at, int n, float *y) {
  span s;
  d->decode(at, n, &s);
  for (int g = 0; g < n / DECODE_GROUP; g++) {
    block_lanes v[GROUP_VECTORS];
    group_values(d, &s, g, v);
    UNROLL for (int i = 0; i < GROUP_VECTORS; i++)
      block_store(y + g * DECODE_GROUP + i * BLOCK_LANES, v[i]);
  }
}

#endif
