/*
** clip.h - the norm of many gradients, and their scaling to a largest one: one pass over memory for
** each.
**
** Rows are cut into chunks, whose sums are added up in their order, so that a norm does not depend
** on threads.
*/

#ifndef clip_h
#define clip_h

#include "cpu/vector/elementwise.h"

#define CHUNK 16384
#define PART 512

typedef struct clipping {
  const work *w;
  double *sums;                    /* of the squares of each chunk */
  float scale;
} clipping;


/* The elements of a chunk, from 0; moves *row on to its row, and *first to that row's chunk. */
static int64_t chunk_at (const clipping *d, int64_t chunk, int64_t *row, int64_t *first) {
  const clip_row *rows = d->w->clip.row;
  for (; (rows[*row].n + CHUNK - 1) / CHUNK <= chunk - *first; ++*row)
    *first += (rows[*row].n + CHUNK - 1) / CHUNK;
  const int64_t left = rows[*row].n - (chunk - *first) * CHUNK;
  return left < CHUNK ? left : CHUNK;
}


static double squares_of (heed_type type, int64_t n, const void *x) {
  double total = 0, off = 0;
  float part[PART];
  if (type == HEED_FLOAT32) return squares_float(n, x, 0, &off);
  for (int64_t i = 0; i < n; i += PART) {
    const int64_t m = n - i < PART ? n - i : PART;
    elementwise_load(m, HEED_FLOAT32, part, type, (const uint16_t *)x + i, 1);
    total += squares_float(m, part, 0, &off);
  }
  return total;
}


static void scale_chunk (heed_type type, int64_t n, void *x, float scale) {
  float part[PART], *y = x;
  if (type == HEED_FLOAT32) {
    VECTOR_LOOP for (int64_t i = 0; i < n; i++) y[i] *= scale;
    return;
  }
  for (int64_t i = 0; i < n; i += PART) {
    const int64_t m = n - i < PART ? n - i : PART;
    elementwise_load(m, HEED_FLOAT32, part, type, (const uint16_t *)x + i, 1);
    VECTOR_LOOP for (int64_t k = 0; k < m; k++) part[k] *= scale;
    elementwise_store(m, type, (uint16_t *)x + i, 1, HEED_FLOAT32, part);
  }
}


/* Squares into 'sums'; once they are there and gone, the scaling. */
static void clip_chunks (void *arg, int64_t from, int64_t to) {
  const clipping *d = arg;
  int64_t row = 0, first = 0;
  for (int64_t c = from; c < to; c++) {
    const int64_t n = chunk_at(d, c, &row, &first), at = (c - first) * CHUNK;
    const clip_row *r = &d->w->clip.row[row];
    char *x = (char *)r->data + (size_t)at * scalar_sizes[r->type];
    if (d->sums != NULL) d->sums[c] = squares_of(r->type, n, x);
    else scale_chunk(r->type, n, x, d->scale);
  }
}


static double norm_of (cpu *self, clipping *d, int64_t chunks) {
  double total = 0;
  pool_run(self->pool, chunks, 1, clip_chunks, d);
  for (int64_t i = 0; i < chunks; i++) total += d->sums[i];
  return sqrt(total);
}


static const char *clip (cpu *self, const work *w) {
  int64_t chunks = 0;
  for (int64_t i = 0; i < w->clip.n; i++) chunks += (w->clip.row[i].n + CHUNK - 1) / CHUNK;
  clipping d = {.w = w, .sums = cpu_scratch(self, (size_t)chunks * sizeof *d.sums)};
  if (d.sums == NULL) return cpu_no_memory;
  const double norm = norm_of(self, &d, chunks);
  *(double *)w->out->data = norm;
  cpu_scratch_free(d.sums);
  d.sums = NULL;
  const double scale = w->clip.max / (norm + CLIP_MARGIN);
  d.scale = (float)scale;
  if (w->op == CLIP_SCALE && !(scale >= 1)) pool_run(self->pool, chunks, 1, clip_chunks, &d);
  return NULL;
}

#undef CHUNK
#undef PART

#endif
