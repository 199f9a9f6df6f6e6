/*
** optimize.h - one step of an optimizer of op/optimizers.def, in one pass over memory.
*/

#ifndef optimize_h
#define optimize_h

#include "base/optimizer.h"
#include "cpu/vector/elementwise.h"
#include "cpu/vector/simd.h"

#define CHUNK 512

typedef struct optimization {
  cpu *self;
  const work *w;
  const optimize_row *row;
  optimizer_constants constants;
} optimization;


#define LOOPS "cpu/optimize/optimize_loops.h"
#include "cpu/for_floats.h"


/* n <= CHUNK halves through float. The gradient is only read. */
static void step_halves (const optimization *d, int64_t from, int64_t n) {
  enum { GRADIENT, PARAMETER, STATE, PARTS = STATE + HEED_STATES };
  const optimize_row *row = d->row;
  float at[PARTS][CHUNK], *state[HEED_STATES];
  const void *in[PARTS] = {row->gradient, row->parameter};
  for (int i = 0; i < HEED_STATES; i++) {
    in[STATE + i] = row->state[i];
    state[i] = row->state[i] != NULL ? at[STATE + i] : NULL;
  }
  for (int i = 0; i < PARTS; i++)
    if (in[i] != NULL)
      load_type_float(n, at[i], row->type, (const uint16_t *)in[i] + from, 1);
  step_float(d, n, at[PARAMETER], at[GRADIENT], state);
  void *out[PARTS] = {NULL, row->parameter};
  for (int i = 0; i < HEED_STATES; i++) out[STATE + i] = row->state[i];
  for (int i = PARAMETER; i < PARTS; i++)
    if (out[i] != NULL)
      store_type_float(n, row->type, (uint16_t *)out[i] + from, 1, at[i]);
}


static void optimize_piece (void *arg, int64_t from, int64_t to) {
  const optimization *d = arg;
  const optimize_row *row = d->row;
  if (row->type == HEED_FLOAT32) step_row_float(d, row, from, to);
  else if (row->type == HEED_FLOAT64) step_row_double(d, row, from, to);
  else
    for (; from < to; from += CHUNK) step_halves(d, from, to - from < CHUNK ? to - from : CHUNK);
}


static const char *optimize (cpu *self, const work *w) {
  const heed_optimizer kind = (heed_optimizer)w->op;
  optimization d = {.self = self, .w = w};
  d.constants = optimizer_constants_of(kind, &w->optimize.step);
  for (int64_t i = 0; i < w->optimize.n; i++) {
    d.row = &w->optimize.row[i];
    pool_run(self->pool, d.row->n, 16384, optimize_piece, &d);
  }
  return NULL;
}

#undef CHUNK

#endif
