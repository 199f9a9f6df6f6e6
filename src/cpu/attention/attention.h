/*
** attention.h - attention, fused: softmax(scale q k^T + bias) v, tile by tile, in memory that
** grows with T and S only.
**
** Each lane holds a query. For a panel of them (two vectors), the scores of a tile of keys are a
** product k q^T; so the softmax goes down the columns of the tile, without a sum across lanes,
** k and v are read in place, with any strides, and what is masked stays in its lane. Rows of one
** panel are independent: no result depends on how panels are shared among threads.
**
** M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax" (2018); T. Dao et al.,
** "FlashAttention" (2022), for the gradient from the rows' normalisers.
*/

#ifndef attention_h
#define attention_h

#include "cpu/product/matmul.h"
#include "cpu/attention/attention_mask.h"

#define FEW_QUERIES 4              /* at most, that have their own way */
#define BLOCK_PANELS 4             /* panels that a tile of k and v is used for at a time */
#define NEAR_BYTES 16384           /* of a piece's work that fits on the stack */

#define APART static __attribute__((noinline))     /* has a large frame of its own */

#define MOST_EXPONENT 24           /* of a tile's weights, relative to an earlier largest score */
#define MOST_WEIGHT ((T)(1 << MOST_EXPONENT))  /* their sum is less */

#define LOG2E 1.44269504088896340736
#define LOG_OF_2 0.69314718055994530942

typedef struct attend {            /* the work of either direction, read once */
  cpu *self;
  const work *w;
  int64_t B, H, Hk, queries, keys, D, Dv;      /* (B, H, T, S): T queries, S keys */
  int64_t shared;                  /* heads of q for one of k and v */
  double factor;                   /* of q k^T: to exponents of 2, or to softcap's unit */
  double cap;                      /* softcap as an exponent of 2, or 0 */
  bool plain;                      /* no softcap, no bias: scores are q k^T */
  uint64_t key, drop;              /* of dropout; drop 0: none */
  double kept;                     /* what stays is multiplied by */
  int64_t split;                   /* panels of a head for one piece of work */
  int64_t splits;
  size_t workspace;                /* bytes for a piece of work */
  bool failed;                     /* a piece got no memory */
} attend;


static void *view_at (const view *v, int64_t b, int64_t h, int64_t i, int64_t j) {
  const int64_t *stride = v->at.stride;
  int64_t at = b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3];
  return (char *)v->data + at * scalar_sizes[v->type];
}


static attend attend_open (cpu *self, const work *w) {
  const layout *q = &w->in[ATTENTION_Q].at, *k = &w->in[ATTENTION_K].at;
  const double scale = w->attention.scale, softcap = w->attention.softcap;
  attend a = {
    .self = self, .w = w, .B = q->size[0], .H = q->size[1], .Hk = k->size[1], .queries = q->size[2],
    .keys = k->size[2], .D = q->size[3], .Dv = w->in[ATTENTION_V].at.size[3],
    .shared = q->size[1] / larger(k->size[1], 1), .factor = scale * LOG2E, .kept = 1
  };
  if (softcap != 0) {
    a.cap = softcap * LOG2E;
    a.factor = scale / softcap;
  }
  a.plain = softcap == 0 && view_is_none(&w->in[ATTENTION_BIAS]) &&
            view_is_none(&w->in[ATTENTION_RELATIVE]);
  if (w->attention.dropout != 0) {
    memcpy(&a.key, w->in[ATTENTION_KEY].data, sizeof a.key);
    a.drop = (uint64_t)ceil(w->attention.dropout * 0x1p32);
    a.kept = 1 / (1 - w->attention.dropout);
  }
  return a;
}


/* Memory of a piece of work: 'near', on the stack, if it is small. */
static void *attend_workspace (attend *a, void *near) {
  void *workspace = a->workspace <= NEAR_BYTES ? near : cpu_scratch(a->workspace);
  if (workspace == NULL) __atomic_store_n(&a->failed, true, __ATOMIC_RELAXED);
  return workspace;
}


#define LOOPS "cpu/attention/attention_tile.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/attention/attention_kernel.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/attention/attention_loops.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/attention/attention_heads.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/attention/attention_few.h"
#include "cpu/for_floats.h"


/* Lanes of queries would be empty; dropout is panels' alone. */
static bool attend_is_few (const attend *a) {
  return a->queries <= FEW_QUERIES && a->drop == 0;
}


static const char *attention (cpu *self, const work *w) {
  attend a = attend_open(self, w);
  const bool few = attend_is_few(&a), wide = w->in[ATTENTION_Q].type == HEED_FLOAT64;
  if (!(wide ? attend_in_heads_double : attend_in_heads_float)(&a, few)) {
    if (wide) (few ? attend_few_double : attend_double)(&a);
    else (few ? attend_few_float : attend_float)(&a);
  }
  return a.failed ? cpu_no_memory : NULL;
}

#endif
