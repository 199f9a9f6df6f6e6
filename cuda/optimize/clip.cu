/*
** clip.cu - the norm of all gradients of all types, and their scaling to a largest one: three
** launches, none of which waits for another's result.
**
** The rows are cut into chunks; a table in device memory says which row a chunk is of. Sums of
** chunks are added up in one fixed order, so that equal gradients have equal norms.
*/

#include "cuda/cuda.h"

#include <stdlib.h>

#define THREADS 256
#define CHUNK 4096                 /* elements */

typedef struct line {
  clip_row row;
  int64_t first;                   /* of its chunks */
} line;


/* The last row that begins at this chunk or before it: rows without elements have none. */
INLINE const line &line_of (const line *lines, int n, int64_t chunk) {
  int low = 0, high = n - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (lines[middle].first <= chunk) low = middle;
    else high = middle - 1;
  }
  return lines[low];
}


/* The sum over the block, in thread 0. */
INLINE double block_sum (double x) {
  __shared__ double sums[THREADS];
  sums[threadIdx.x] = x;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if ((int)threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  x = sums[0];
  __syncthreads();
  return x;
}


template <class S> INLINE double squares (const line &l, int64_t from, int64_t to) {
  double sum = 0;
  for (int64_t i = from + threadIdx.x; i < to; i += THREADS) {
    double x = wide(((const S *)l.row.data)[i]);
    sum += x * x;
  }
  return sum;
}


template <class S> INLINE void scale (const line &l, int64_t from, int64_t to, float factor) {
  S *x = (S *)l.row.data;
  for (int64_t i = from + threadIdx.x; i < to; i += THREADS)
    x[i] = convert<S>(wide(x[i]) * factor);
}


KERNEL sum_chunks (double *sums, const line *lines, int n, int64_t chunks) {
  for (int64_t c = blockIdx.x; c < chunks; c += gridDim.x) {
    const line &l = line_of(lines, n, c);
    int64_t from = (c - l.first) * CHUNK, to = from + CHUNK < l.row.n ? from + CHUNK : l.row.n;
    double sum = 0;
    FOR_FLOAT(l.row.type, sum = squares<S>(l, from, to))
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[c] = sum;
  }
}


/* One block. */
KERNEL sum_up (double *norm, const double *sums, int64_t chunks) {
  double sum = 0;
  for (int64_t c = threadIdx.x; c < chunks; c += THREADS) sum += sums[c];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *norm = sqrt(sum);
}


KERNEL scale_chunks (const double *norm, double max, const line *lines, int n, int64_t chunks) {
  const double factor = max / (*norm + CLIP_MARGIN);
  if (factor >= 1) return;
  for (int64_t c = blockIdx.x; c < chunks; c += gridDim.x) {
    const line &l = line_of(lines, n, c);
    int64_t from = (c - l.first) * CHUNK, to = from + CHUNK < l.row.n ? from + CHUNK : l.row.n;
    FOR_FLOAT(l.row.type, scale<S>(l, from, to, (float)factor))
  }
}


/* The table, in device memory behind the sums; how many chunks there are. */
static const char *send (cuda *self, const work *w, double **sums, line **lines, int64_t *chunks) {
  const size_t bytes = (size_t)w->clip.n * sizeof(line);
  line *table = (line *)malloc(bytes + 1);
  if (table == NULL) return cuda_no_memory;
  memset(table, 0, bytes);
  *chunks = 0;
  for (int64_t i = 0; i < w->clip.n; i++) {
    table[i].row = w->clip.row[i];
    table[i].first = *chunks;
    *chunks += (table[i].row.n + CHUNK - 1) / CHUNK;
  }
  *lines = (line *)cuda_scratch(self, bytes);
  *sums = (double *)cuda_scratch(self, (size_t)(*chunks + 1) * sizeof **sums);
  const char *why = *lines == NULL || *sums == NULL ? cuda_no_memory
                  : cuda_send(self, *lines, table, bytes);
  free(table);
  return why;
}


const char *cuda_clip (cuda *self, const work *w) {
  double *sums, *norm = (double *)w->out->data;
  line *lines;
  int64_t chunks;
  const char *why = send(self, w, &sums, &lines, &chunks);
  const int n = (int)w->clip.n;
  if (why != NULL) return why;
  const dim3 blocks = cuda_blocks(self, chunks, 1);
  why = launch(self, blocks, THREADS, 0, sum_chunks, sums, lines, n, chunks);
  if (why == NULL) why = launch(self, 1, THREADS, 0, sum_up, norm, sums, chunks);
  if (why != NULL || w->op == CLIP_NORM) return why;
  return launch(self, blocks, THREADS, 0, scale_chunks, norm, w->clip.max, lines, n, chunks);
}
