/*
** softmax.h - softmax of rows, its logarithm, and their gradients.
*/

#ifndef softmax_h
#define softmax_h

#include "cpu/rows/reduce.h"
#include "cpu/rows/rows.h"

#define TILE 32
#define FEW 8                      /* rows, of which a narrow tile costs less */
#define SHORT_ROW 24
#define LONG_COLUMN 4096


/*
** {==================================================================
** Rows that are short, or whose elements are not contiguous, are computed together: TILE of them
** along the axis before the last, once axes are fused.
** ===================================================================
*/

typedef struct tile_work {
  row_work rows;
  layout at[3];                    /* of inputs, then of the output, without the last axis … */
  int64_t element[3];              /* … whose stride is here */
} tile_work;

static int64_t tiles_last (const tile_work *d) { return d->at[0].size[d->at[0].rank - 1]; }

static int64_t tiles_in_row (const tile_work *d) { return (tiles_last(d) + TILE - 1) / TILE; }

/* Rows of tile k. */
static int64_t tiles_rows (const tile_work *d, int64_t k) {
  int64_t left = tiles_last(d) - k % tiles_in_row(d) * TILE;
  return left < TILE ? left : TILE;
}

static int64_t tiles_row (const tile_work *d, int i) { return d->at[i].stride[d->at[i].rank - 1]; }

static int64_t tiles_element (const tile_work *d, int i) { return d->element[i]; }

static int64_t tiles_at (const tile_work *d, int i, int64_t k) {
  layout lead = d->at[i];
  lead.rank--;
  return iterator_offset(&lead, k / tiles_in_row(d)) + k % tiles_in_row(d) * TILE * tiles_row(d, i);
}


/* Are tiles faster for this work? Then 'd' is set. */
static bool tiles_open (tile_work *d, const row_work *r) {
  const work *w = r->w;
  layout *lead[3];
  int n = w->nin + 1;
  d->rows = *r;
  for (int i = 0; i < n; i++) {
    const view *v = i < w->nin ? &w->in[i] : &w->out[0];
    if (v->type != r->as || v->at.rank < 2 || v->data == NULL) return false;
    d->at[i] = v->at;
    d->element[i] = v->at.stride[--d->at[i].rank];
    lead[i] = &d->at[i];
  }
  layout_fuse(lead, n);
  if (d->at[0].rank == 0 || tiles_last(d) < 4 || r->n > LONG_COLUMN) return false;
  return r->n <= SHORT_ROW || (d->element[0] != 1 && tiles_row(d, 0) == 1);
}

/* }================================================================== */


#define LOOPS "cpu/rows/softmax_loops.h"
#include "cpu/for_floats.h"


static const char *softmax (cpu *self, const work *w) {
  row_work d;
  rows_open(&d, self, w, &w->out[0].at);
  tile_work t;
  if (d.rows > 0 && tiles_open(&t, &d)) {
    int64_t count = d.rows / tiles_last(&t) * tiles_in_row(&t);
    pool_run(self->pool, count, 8192 / (TILE * d.n) + 1,
             d.as == HEED_FLOAT64 ? softmax_tiles_double : softmax_tiles_float, &t);
    return t.rows.failed ? cpu_no_memory : NULL;
  }
  return rows_run(&d, softmax_rows_float, softmax_rows_double);
}

#undef TILE
#undef FEW

#endif
