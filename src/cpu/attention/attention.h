/*
** attention.h - attention, fused: softmax(scale q k^T + bias) v, and its gradients.
** spec/c/attention_plain.c says in few lines what is computed, and ways.h by which way.
*/

#ifndef attention_h
#define attention_h

#include "cpu/attention/attend.h"
#include "cpu/product/matmul.h"     /* tiles; and the scalar products of few queries */

#define FEW_QUERIES 4              /* at most, that have their own way */
#define HEADS_QUERIES 32           /* of a small head, at most: one block of panels, at any level */
#define HEADS_VECTORS 768          /* of queries, keys, values and results together, at most */
#define BLOCK_PANELS 4             /* panels that a tile of k and v is used for at a time */

#define MOST_EXPONENT 24           /* of a tile's weights, relative to an earlier largest score */
#define MOST_WEIGHT ((T)(1 << MOST_EXPONENT))  /* their sum is less */

#define LOOPS "cpu/attention/operands.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/attention/scores.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/attention/weights.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/attention/kernel.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/attention/heads.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/attention/few.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/attention/tiles.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/attention/tiles_back.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/attention/ways.h"
#include "cpu/for_floats.h"


/* By the first way that fits. */
static const char *attend_by (const attend_way *way, cpu *self, const work *w) {
  attend a = attend_open(self, w);
  while (!way->fits(&a)) way++;
  a.workspace = way->workspace(&a);
  way->run(&a);
  return a.failed ? cpu_no_memory : NULL;
}


static const char *attention (cpu *self, const work *w) {
  const bool wide = w->in[ATTENTION_Q].type == HEED_FLOAT64;
  return attend_by(wide ? attention_ways_double : attention_ways_float, self, w);
}


static const char *attention_back (cpu *self, const work *w) {
  const bool wide = w->in[ATTENTION_Q].type == HEED_FLOAT64;
  return attend_by(wide ? attention_back_ways_double : attention_back_ways_float, self, w);
}

#endif
