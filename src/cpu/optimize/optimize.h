/*
** optimize.h - one step of SGD, Adam, AdamW or Lion, in one pass over memory.
**
** The order of operations is PyTorch's (its plain loop over tensors), so that runs agree. Denormal
** states become 0, on every device: running means decay into them and would stay there, rounded
** to themselves, while a step takes six times as long. So Adam's divisor may be 0, without eps:
** such an element stays.
*/

#ifndef optimize_h
#define optimize_h

#include "cpu/vector/elementwise.h"

#define CHUNK 512

typedef struct optimization {
  cpu *self;
  const work *w;
  const optimize_row *row;
} optimization;


#define LOOPS "cpu/optimize/optimize_loops.h"
#include "cpu/for_floats.h"


/* n <= CHUNK halves through float. The gradient is only read. */
static void step_halves (const optimization *d, int64_t from, int64_t n) {
  const optimize_row *row = d->row;
  float at[5][CHUNK];
  const void *in[5] = {row->gradient, row->parameter, row->state[0], row->state[1], row->state[2]};
  for (int i = 0; i < 5; i++)
    if (in[i] != NULL)
      load_type_float(n, at[i], row->type, (const uint16_t *)in[i] + from, 1);
  step_float(d->w, n, at[1], at[0], at[2], at[3], at[4]);
  void *out[5] = {NULL, row->parameter, row->state[0], row->state[1], row->state[2]};
  for (int i = 1; i < 5; i++)
    if (out[i] != NULL)
      store_type_float(n, row->type, (uint16_t *)out[i] + from, 1, at[i]);
}


static void optimize_piece (void *arg, int64_t from, int64_t to) {
  const optimization *d = arg;
  const optimize_row *row = d->row;
  if (row->type == HEED_FLOAT32) step_row_float(d->w, row, from, to);
  else if (row->type == HEED_FLOAT64) step_row_double(d->w, row, from, to);
  else
    for (; from < to; from += CHUNK) step_halves(d, from, to - from < CHUNK ? to - from : CHUNK);
}


static const char *optimize (cpu *self, const work *w) {
  for (int64_t i = 0; i < w->optimize.n; i++) {
    optimization d = {.self = self, .w = w, .row = &w->optimize.row[i]};
    pool_run(self->pool, d.row->n, 16384, optimize_piece, &d);
  }
  return NULL;
}

#undef CHUNK

#endif
