/*
** reduce.h - reductions, running sums and products.
**
** The results are cut into batches of at most WIDTH along their last axis. A batch is read
** row by row, a row for each result, or, where results are neighbours in memory, all its
** results at once. One batch with many elements is cut into segments instead. The cuts
** depend on the shapes alone, so that results do not depend on the number of threads.
*/

#ifndef reduce_h
#define reduce_h

#include "cpu/rows/rows.h"
#include "cpu/vector/elementwise.h"

#define WIDTH 128
#define CHUNK 512
#define LONG_ROW ((int64_t)1 << 20)    /* elements between two polls */
#define SEGMENTS 1024              /* whose results are kept at a time */

typedef enum pass {
  PASS_SUM, PASS_PROD, PASS_ANY, PASS_ALL, PASS_SQUARES, PASS_EXPONENTIALS, PASS_MAX, PASS_MIN
} reduce_pass;

typedef struct reduction {
  cpu *self;
  const work *w;
  heed_type as;                    /* what is computed in */
  reduce_pass pass[2];
  int passes;
  bool positions;                  /* of the best are wanted */
  layout x, y[2];                  /* input and outputs over the axes of the results, fused */
  iterator row;                    /* the input over the axes that are reduced */
  bool columns;                    /* results are next to each other in memory */
  bool contiguous;                 /* a row is one piece, of type 'as' */
  int64_t count;                   /* elements of a row */
  int64_t step;                    /* from result to result, in the input's elements */
  int64_t size;                    /* of such an element */
  int64_t width, batches;
  int64_t segment;                 /* elements of a row, where it is cut */
  int64_t first;                   /* of the segments that run */
  reduce_pass now;
  void *parts;
} reduction;

typedef struct scan_rows {
  cpu *self;
  iterator in, out;
  heed_type as;
  scan_op op;
  int64_t n;
  bool reverse;
} scan_rows;


/*
** {==================================================================
** Where a batch is in memory
** ===================================================================
*/

static int64_t reduction_last (const reduction *d) {
  return d->x.rank > 0 ? d->x.size[d->x.rank - 1] : 1;
}


/* Its results; 'first' is that of the last axis with which it begins. */
static int64_t reduction_split (const reduction *d, int64_t batch, int64_t *lead, int64_t *first) {
  int64_t last = reduction_last(d), in_row = (last + d->width - 1) / d->width;
  *lead = batch / in_row;
  *first = batch % in_row * d->width;
  return last - *first < d->width ? last - *first : d->width;
}


static int64_t reduction_width (const reduction *d, int64_t batch) {
  int64_t lead, first;
  return reduction_split(d, batch, &lead, &first);
}


static int64_t reduction_offset (const reduction *d, const layout *at, int64_t batch) {
  int64_t lead, first;
  reduction_split(d, batch, &lead, &first);
  if (at->rank == 0) return 0;
  layout leading = *at;
  leading.rank--;
  return iterator_offset(&leading, lead) + first * at->stride[at->rank - 1];
}


static char *reduction_at (const reduction *d, int64_t batch) {
  return (char *)d->w->in[0].data + reduction_offset(d, &d->x, batch) * d->size;
}


static void reduction_store (const reduction *d, int out, int64_t batch, int64_t n, heed_type as,
                             const void *results) {
  const view *v = &d->w->out[out];
  const layout *at = &d->y[out];
  char *y = (char *)v->data + reduction_offset(d, at, batch) * scalar_sizes[v->type];
  d->self->level->store(n, v->type, y, at->rank > 0 ? at->stride[at->rank - 1] : 1, as, results);
}


/* Many elements for few results are cut: 64 K for a thread. */
static int64_t reduction_segments (reduction *d) {
  if (d->batches > 1 || d->count < 4096 || d->count * d->width < 131072) return 1;
  d->segment = 65536 / d->width;
  return (d->count + d->segment - 1) / d->segment;
}

/* }================================================================== */


#define COUNTED HEED_FLOAT64
#define LOOPS "cpu/rows/reduce_loops.h"
#include "cpu/for_floats.h"
#undef COUNTED

#define T int64_t
#define A int64_t
#define BITS int64_t
#define COUNTED HEED_INT64
#define FN(name) name##_int64
#include "cpu/rows/reduce_loops.h"
#undef T
#undef A
#undef COUNTED
#undef BITS
#undef FN


/*
** {==================================================================
** Entry points
** ===================================================================
*/

/* Integers are summed as such, unless the result is a float. */
static heed_type computing (heed_type in, heed_type out) {
  bool wide = in == HEED_FLOAT64 || out == HEED_FLOAT64;
  if (!scalar_is_float(in) && !scalar_is_float(out)) return HEED_INT64;
  return wide ? HEED_FLOAT64 : HEED_FLOAT32;
}


static void reduction_passes (reduction *d) {
  static const reduce_pass first[] = {
    [REDUCE_SUM] = PASS_SUM, [REDUCE_PROD] = PASS_PROD, [REDUCE_MAX] = PASS_MAX,
    [REDUCE_MIN] = PASS_MIN, [REDUCE_ARGMAX] = PASS_MAX, [REDUCE_ARGMIN] = PASS_MIN,
    [REDUCE_ANY] = PASS_ANY, [REDUCE_ALL] = PASS_ALL, [REDUCE_SQUARES] = PASS_SQUARES,
    [REDUCE_MOMENTS] = PASS_SUM,
    [REDUCE_LOGSUMEXP] = PASS_MAX
  };
  d->pass[0] = first[d->w->op];
  d->pass[1] = d->w->op == REDUCE_MOMENTS ? PASS_SQUARES : PASS_EXPONENTIALS;
  d->positions = d->w->nout > 1 || d->w->op == REDUCE_ARGMAX || d->w->op == REDUCE_ARGMIN;
  d->passes = d->w->op == REDUCE_MOMENTS || d->w->op == REDUCE_LOGSUMEXP ? 2 : 1;
}


/* Positions, bools and squares do not depend on the result's type: the input's will do. */
static heed_type reduction_type (const work *w) {
  heed_type in = w->in[0].type, out = w->out[0].type;
  bool own = w->op == REDUCE_ARGMAX || w->op == REDUCE_ARGMIN || w->op == REDUCE_ANY ||
             w->op == REDUCE_ALL || w->op == REDUCE_SQUARES;
  return computing(in, own ? in : out);
}


/* The layouts of results and rows. */
static void reduction_layouts (reduction *d) {
  const layout *in = &d->w->in[0].at;
  int outer = in->rank - d->w->reduce.axes;
  view row = d->w->in[0];
  d->x = *in;
  d->x.rank = outer;
  layout *fused[3] = {&d->x};
  for (int i = 0; i < d->w->nout; i++) {
    d->y[i] = d->w->out[i].at;
    fused[i + 1] = &d->y[i];
  }
  layout_fuse(fused, d->w->nout + 1);
  row.at.rank = in->rank - outer;
  for (int i = 0; i < row.at.rank; i++) {
    row.at.size[i] = in->size[outer + i];
    row.at.stride[i] = in->stride[outer + i];
  }
  iterator_open(&d->row, &row, d->as);
  d->row.at = row.at;
  layout_fuse((layout *[]){&d->row.at}, 1);
}


static int64_t distance (int64_t stride) { return stride < 0 ? -stride : stride; }


/* The order of iteration: along the shorter stride, if there are results enough. */
static void reduction_iterate (reduction *d) {
  const layout *row = &d->row.at;
  d->count = layout_numel(row);
  d->size = scalar_sizes[d->w->in[0].type];
  d->step = d->x.rank > 0 ? d->x.stride[d->x.rank - 1] : 0;
  d->contiguous = d->row.kind == ITERATOR_DENSE && d->row.type == d->as;
  int64_t last = reduction_last(d);
  int64_t stride = row->rank > 0 ? row->stride[row->rank - 1] : 0;
  d->columns = last >= 4 && d->step != 0 && distance(d->step) < distance(stride);
  d->width = d->columns ? WIDTH : 16384 / (d->count + 1) + 1;
  if (d->width > WIDTH) d->width = WIDTH;
  if (d->width > last) d->width = last;
  d->batches = layout_numel(&d->x) / last * ((last + d->width - 1) / d->width);
}


static const char *reduce (cpu *self, const work *w) {
  if (layout_numel(&w->out[0].at) == 0) return NULL;
  reduction d = {.self = self, .w = w, .as = reduction_type(w)};
  reduction_passes(&d);
  reduction_layouts(&d);
  reduction_iterate(&d);
  if (d.as == HEED_FLOAT32) return reduce_float(&d);
  return d.as == HEED_FLOAT64 ? reduce_double(&d) : reduce_int64(&d);
}


static const char *scan (cpu *self, const work *w) {
  const layout *at = &w->out[0].at;
  int64_t numel = layout_numel(at);
  if (numel == 0) return NULL;
  scan_rows d = {.self = self, .as = computing(w->in[0].type, w->out[0].type),
                 .op = (scan_op)w->op, .n = at->rank > 0 ? at->size[at->rank - 1] : 1,
                 .reverse = w->scan.reverse};
  iterator_open(&d.in, &w->in[0], d.as);
  iterator_open(&d.out, &w->out[0], d.as);
  pool_run(self->pool, numel / d.n, 8192 / d.n + 1,
           d.as == HEED_FLOAT32 ? scan_rows_float
           : d.as == HEED_FLOAT64 ? scan_rows_double : scan_rows_int64, &d);
  return NULL;
}

/* }================================================================== */

#undef SEGMENTS
#undef LONG_ROW
#undef CHUNK
#undef WIDTH

#endif
