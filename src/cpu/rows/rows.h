/*
** rows.h - what softmax, norms and losses share: rows of n elements, taken by threads.
*/

#ifndef rows_h
#define rows_h

#include "cpu/level_begin.h"

#define ROW_INS NORM_BACK_INS      /* most, also of losses */
#define ROW_OUTS NORM_BACK_OUTS

typedef struct row_work {
  cpu *self;
  const work *w;
  heed_type as;                    /* what is computed in */
  int64_t rows, n;
  iterator x[ROW_INS], y[ROW_OUTS];    /* of what is not view_none */
  bool failed;                     /* a thread got no memory */
} row_work;

/* Memory of a thread for 'count' rows: that on its stack, if it fits; NULL marks the failure. */
typedef struct row_memory { _Alignas(64) char bytes[12288]; } row_memory;

static void *rows_workspace (row_work *d, int64_t count, row_memory *near) {
  const size_t bytes = (size_t)(count * d->n) * scalar_sizes[d->as];
  void *workspace = bytes <= sizeof near->bytes ? near->bytes : cpu_scratch(d->self, bytes);
  if (workspace == NULL) __atomic_store_n(&d->failed, true, __ATOMIC_RELAXED);
  return workspace;
}

static void rows_free (void *workspace, const row_memory *near) {
  if (workspace != near->bytes) cpu_scratch_free(workspace);
}

/* Rows for one thread: about 16 K elements. */
static int64_t rows_grain (const row_work *d) { return 16384 / (d->n + 1) + 1; }

/* Asked between rows: is the work to stop? Short rows need not ask, since ranges of rows do. */
static bool rows_stopped (const row_work *d) { return d->n >= 16384 && cpu_stopped(d->self); }

/* Iterators over a work's rows of n elements. */
static void rows_open (row_work *d, cpu *self, const work *w, const layout *shape) {
  *d = (row_work){.self = self, .w = w, .n = shape->rank > 0 ? shape->size[shape->rank - 1] : 1};
  d->rows = d->n > 0 ? layout_numel(shape) / d->n : 0;
  d->as = HEED_FLOAT32;
  for (int i = 0; i < w->nin; i++)
    if (!view_is_none(&w->in[i]) && w->in[i].type == HEED_FLOAT64) d->as = HEED_FLOAT64;
  for (int i = 0; i < w->nin; i++)
    if (!view_is_none(&w->in[i])) iterator_open(&d->x[i], &w->in[i], d->as);
  for (int i = 0; i < w->nout; i++)
    if (!view_is_none(&w->out[i])) iterator_open(&d->y[i], &w->out[i], d->as);
}

static const char *rows_run (row_work *d, pool_piece of_float, pool_piece of_double) {
  if (d->rows == 0) return NULL;
  pool_run(d->self->pool, d->rows, rows_grain(d),
           d->as == HEED_FLOAT64 ? of_double : of_float, d);
  return d->failed ? cpu_no_memory : NULL;
}

#endif
