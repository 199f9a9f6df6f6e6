/*
** clip.cu - the norm of all gradients of all types, and their scaling to a largest one: three
** launches, none of which waits for another's result.
**
** The rows are cut into chunks; a table in device memory says which row a chunk is of. Sums of
** chunks are added up in one fixed order, so that equal gradients have equal norms.
*/

#include "cuda/rows/sums.h"

#include <stdlib.h>

#define THREADS 256
#define CHUNK 4096                 /* elements */

typedef struct gradient {
  clip_row row;
  int64_t first;                   /* of its chunks */
  bool aligned;                    /* its memory, to 16 bytes */
} gradient;


/* The last row that begins at this chunk or before it: rows without elements have none. */
INLINE const gradient &gradient_of (const gradient *gradients, int n, int64_t chunk) {
  int low = 0, high = n - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (gradients[middle].first <= chunk) low = middle;
    else high = middle - 1;
  }
  return gradients[low];
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


/* All threads of a block, for a chunk. */
INLINE thread_group chunk_threads (void) {
  return thread_group{GROUP_BLOCK, (int)threadIdx.x, THREADS, 0, true};
}

/* f(elements, how many, are they aligned) for each chunk of the block, as a line of S. */
template <class F> INLINE void each_chunk (const gradient *gradients, int n, int64_t chunks, F f) {
  for (int64_t c = blockIdx.x; c < chunks; c += gridDim.x) {
    const gradient &l = gradient_of(gradients, n, c);
    const int64_t from = (c - l.first) * CHUNK, rest = l.row.n - from;
    FOR_FLOAT(l.row.type, f(c, line<S>{(S *)l.row.data + from, 1}, rest < CHUNK ? rest : CHUNK,
                            l.aligned))
  }
}


template <class S> INLINE double squares (line<S> x, int64_t n, bool aligned) {
  auto sum = no_squares((COMPUTED(S))0);
  iterate<WIDTH(S)>(chunk_threads(), n, aligned,
                    [&] (auto s) { take_squares(sum, x.read(s), (COMPUTED(S))0); });
  return sums_of(sum).a;
}


template <class S> INLINE void scale (line<S> x, int64_t n, bool aligned, float factor) {
  iterate<WIDTH(S)>(chunk_threads(), n, aligned, [&] (auto s) {
    auto p = x.read(s);
    EACH(k, s.count) p.of[k] *= factor;
    x.write(s, p);
  });
}


KERNEL __launch_bounds__(THREADS, 4)
sum_chunks (double *sums, const gradient *gradients, int n, int64_t chunks) {
  each_chunk(gradients, n, chunks, [&] (int64_t c, auto x, int64_t count, bool aligned) {
    double sum = block_sum(squares(x, count, aligned));
    if (threadIdx.x == 0) sums[c] = sum;
  });
}


/* One block. */
KERNEL sum_up (double *norm, const double *sums, int64_t chunks) {
  double sum = 0;
  for (int64_t c = threadIdx.x; c < chunks; c += THREADS) sum += sums[c];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *norm = sqrt(sum);
}


KERNEL __launch_bounds__(THREADS, 4)
scale_chunks (const double *norm, double max, const gradient *gradients, int n, int64_t chunks) {
  const double factor = max / (*norm + CLIP_MARGIN);
  if (factor >= 1) return;
  each_chunk(gradients, n, chunks, [&] (int64_t, auto x, int64_t count, bool aligned) {
    scale(x, count, aligned, (float)factor);
  });
}


/* The table, in device memory behind the sums; how many chunks there are. */
static const char *send (cuda *self, const work *w, double **sums, gradient **gradients,
                         int64_t *chunks) {
  const size_t bytes = (size_t)w->clip.n * sizeof(gradient);
  gradient *table = (gradient *)malloc(bytes + 1);
  if (table == NULL) return cuda_no_memory;
  memset(table, 0, bytes);
  *chunks = 0;
  for (int64_t i = 0; i < w->clip.n; i++) {
    table[i].row = w->clip.row[i];
    table[i].first = *chunks;
    table[i].aligned = (uintptr_t)table[i].row.data % 16 == 0;
    *chunks += (table[i].row.n + CHUNK - 1) / CHUNK;
  }
  *gradients = (gradient *)cuda_scratch(self, bytes);
  *sums = (double *)cuda_scratch(self, (size_t)(*chunks + 1) * sizeof **sums);
  const char *why = *gradients == NULL || *sums == NULL ? cuda_no_memory
                  : cuda_send(self, *gradients, table, bytes);
  free(table);
  return why;
}


const char *cuda_clip (cuda *self, const work *w) {
  double *sums, *norm = (double *)w->out->data;
  gradient *gradients;
  int64_t chunks;
  const char *why = send(self, w, &sums, &gradients, &chunks);
  const int n = (int)w->clip.n;
  if (why != NULL) return why;
  const dim3 blocks = cuda_blocks(self, chunks, 1);
  why = launch(self, blocks, THREADS, 0, sum_chunks, sums, gradients, n, chunks);
  if (why == NULL) why = launch(self, 1, THREADS, 0, sum_up, norm, sums, chunks);
  if (why != NULL || w->op == CLIP_NORM) return why;
  return launch(self, blocks, THREADS, 0, scale_chunks, norm, w->clip.max, gradients, n, chunks);
}
