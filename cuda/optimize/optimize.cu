/*
** optimize.cu - one step of an optimizer for all parameters of all types: one launch.
**
** The rows are cut into chunks; a table in device memory says which row a chunk is of. Numbers that
** change from step to step are in device memory as well: while work is captured, in a block that
** stays, in which the last thread block to end leaves the number of the next step. So n replays do
** what n calls do, and a new learning rate is sent to the block (see optimize.h).
**
** The formulas, and so the order of operations, are the CPU's.
*/

#include "cuda/optimize/optimize.h"
#include "cuda/device/release.h"
#include "cuda/vector/math.h"

#include <stdlib.h>

/* By squares: good to n 2^-53, and without a call, which would spill registers. */
HOST_TOO double power (double x, int64_t n) {
  double y = 1;
  for (; n > 0; n >>= 1, x *= x)
    if (n & 1) y *= x;
  return y;
}

#define POWER(x, n) power(x, n)
#include "base/optimizer.h"

#define THREADS 256
#define CHUNK 4096                 /* elements */

/* The step, as the kernel reads it. */
typedef struct stepping {
  heed_step step;
  unsigned done;                   /* blocks that have read it and ended */
} stepping;

typedef struct line {
  optimize_row row;
  int64_t first;                   /* of its chunks */
  bool aligned;                    /* all its memory, to 16 bytes */
} line;

struct steps { steps *next; stepping *block; heed_step step; };


/*
** {==================================================================
** One element: parameter, gradient, states
** ===================================================================
*/

INLINE float kept (float x) { return fabsf(x) < (float)LEAST_STATE(HEED_FLOAT32) ? 0 : x; }
INLINE double kept (double x) { return fabs(x) < LEAST_STATE(HEED_FLOAT64) ? 0 : x; }

/* The formulas of op/optimizers.def. */
#define KEPT(x) kept(x)
#define STEP(formula) \
  template <class T> INLINE void step_##formula (const optimizer_constants *k, \
                                                 [[maybe_unused]] int states, T *p, T g, T *s)
#include "op/optimizers.def"
#undef KEPT

/* What decides which formula runs, and which states are read and written. */
typedef struct variant { heed_optimizer kind; int states, reads; } variant;

template <class T>
INLINE void step_element (const optimizer_constants *k, variant m, T *p, T g, T *s) {
  switch (m.kind) {
#define OPTIMIZER(NAME, name, formula, ...) \
    case HEED_##NAME: step_##formula<T>(k, m.states, p, g, s); return;
#include "op/optimizers.def"
    case HEED_NOPTIMIZERS: return;
  }
}

/* }================================================================== */


/*
** {==================================================================
** Chunks
** ===================================================================
*/

/* N elements that are read and written at once. */
template <class S, int N> struct __align__(N * sizeof(S)) pack { S x[N]; };

template <class S, int N>
INLINE void step_pack (const optimizer_constants *k, variant m, const optimize_row &row,
                       int64_t at) {
  typedef COMPUTED(S) T;
  typedef pack<S, N> packed;
  packed p = ((const packed *)row.parameter)[at], g = ((const packed *)row.gradient)[at];
  packed s[HEED_STATES];
  for (int i = 0; i < HEED_STATES; i++)
    if (i < m.reads) s[i] = ((const packed *)row.state[i])[at];
    else s[i] = packed{};
  for (int j = 0; j < N; j++) {
    T x = wide(p.x[j]), state[HEED_STATES];
    for (int i = 0; i < HEED_STATES; i++) state[i] = wide(s[i].x[j]);
    step_element<T>(k, m, &x, wide(g.x[j]), state);
    p.x[j] = convert<S>(x);
    for (int i = 0; i < HEED_STATES; i++) s[i].x[j] = convert<S>(state[i]);
  }
  ((packed *)row.parameter)[at] = p;
  for (int i = 0; i < HEED_STATES; i++)
    if (i < m.states) ((packed *)row.state[i])[at] = s[i];
}


/* Elements from .. to - 1; 'from' is a multiple of CHUNK. */
template <class S>
INLINE void step_chunk (const optimizer_constants *k, variant m, const line &l, int64_t from,
                        int64_t to) {
  const int many = 16 / (int)sizeof(S);
  int64_t packs = l.aligned ? to / many : from / many;
  for (int64_t i = from / many + threadIdx.x; i < packs; i += THREADS)
    step_pack<S, many>(k, m, l.row, i);
  for (int64_t i = packs * many + threadIdx.x; i < to; i += THREADS)
    step_pack<S, 1>(k, m, l.row, i);
}


/* The last row that begins at this chunk or before it. */
INLINE int row_of (const line *lines, int n, int64_t chunk) {
  int low = 0, high = n - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (lines[middle].first <= chunk) low = middle;
    else high = middle - 1;
  }
  return low;
}


INLINE void step_line (const optimizer_constants *k, variant m, const line &l, int64_t chunk) {
  int64_t from = (chunk - l.first) * CHUNK, to = from + CHUNK < l.row.n ? from + CHUNK : l.row.n;
  switch (l.row.type) {
    case HEED_FLOAT32: step_chunk<float>(k, m, l, from, to); break;
    case HEED_FLOAT64: step_chunk<double>(k, m, l, from, to); break;
    case HEED_FLOAT16: step_chunk<float16>(k, m, l, from, to); break;
    case HEED_BFLOAT16: step_chunk<bfloat16>(k, m, l, from, to); break;
    case HEED_BOOL: case HEED_UINT8: case HEED_INT64: SCALAR_BLOCK_CASES: break;
  }
}


KERNEL __launch_bounds__(THREADS, 3)
step_lines (stepping *block, heed_optimizer kind, const line *lines, int n, int64_t chunks) {
  __shared__ optimizer_constants shared;
  __shared__ heed_step o;
  if (threadIdx.x == 0) {
    o = block->step;
    shared = optimizer_constants_of(kind, &o);
  }
  __syncthreads();
  variant m = {kind, optimizer_states(kind, &o), optimizer_reads(kind, &o)};
  for (int64_t c = blockIdx.x; c < chunks; c += gridDim.x)
    step_line(&shared, m, lines[row_of(lines, n, c)], c);
  if (threadIdx.x == 0 && ends_last(&block->done)) block->step.step++;
}

/* }================================================================== */


/*
** {==================================================================
** The table
** ===================================================================
*/

static bool is_aligned (const optimize_row *row) {
  uintptr_t all = (uintptr_t)row->parameter | (uintptr_t)row->gradient;
  for (int i = 0; i < HEED_STATES; i++) all |= (uintptr_t)row->state[i];
  return all % 16 == 0;
}


/* How many chunks there are. */
static int64_t fill_lines (const work *w, line *lines) {
  int64_t chunks = 0;
  for (int64_t i = 0; i < w->optimize.n; i++) {
    const optimize_row *row = &w->optimize.row[i];
    lines[i].row = *row;
    lines[i].first = chunks;
    lines[i].aligned = is_aligned(row);
    chunks += (row->n + CHUNK - 1) / CHUNK;
  }
  return chunks;
}

/* }================================================================== */


/*
** {==================================================================
** Captured steps: a block of device memory that no other work uses, filled at once, by a stream
** that is not captured
** ===================================================================
*/

static int fill_block (stepping *block, const stepping *from) {
  cuda_stream s;
  void *pinned;
  int code = runtime_alloc_host(&pinned, sizeof *from);
  if (code != 0) return code;
  memcpy(pinned, from, sizeof *from);
  code = runtime_stream_open(&s);
  if (code == 0) {
    code = runtime_copy(block, pinned, sizeof *from, s);
    if (code == 0) code = runtime_stream_wait(s);
    runtime_stream_close(s);
  }
  release_pinned(pinned);
  return code;
}


static const char *hold_block (cuda *self, const stepping *from, stepping **block) {
  void *data = NULL;
  steps *s = (steps *)calloc(1, sizeof *s), **last = &self->steps;
  if (s == NULL) return cuda_no_memory;
  int code = runtime_alloc(&data, sizeof *from);
  if (code == 0) code = fill_block((stepping *)data, from);
  if (code != 0) {
    if (data != NULL) release_device(data);
    free(s);
    return cuda_check(self, code);
  }
  while (*last != NULL) last = &(*last)->next;
  *last = s;
  s->block = *block = (stepping *)data;
  return NULL;
}


steps *steps_held (cuda *self) {
  steps *s = self->steps;
  self->steps = NULL;
  return s;
}


const char *steps_set (cuda *self, steps *s, int which, const heed_step *step) {
  while (which-- > 0 && s != NULL) s = s->next;
  if (s == NULL) return "there is no such step in this capture";
  return cuda_send(self, &s->block->step, step, sizeof *step);
}


void steps_drop (steps *s) {
  while (s != NULL) {
    steps *next = s->next;
    release_device(s->block);
    free(s);
    s = next;
  }
}

/* }================================================================== */


/* Sends the step and the table, in one piece; while capturing, the step's own block, too. */
static const char *send (cuda *self, const work *w, char *buffer, int64_t *chunks,
                         stepping **block, line **lines) {
  size_t bytes = (size_t)w->optimize.n * sizeof(line), head = sizeof(stepping);
  stepping *now = (stepping *)buffer;
  memset(buffer, 0, head + bytes);
  now->step = w->optimize.step;
  *chunks = fill_lines(w, (line *)(buffer + head));
  char *data = (char *)cuda_scratch(self, head + bytes);
  if (data == NULL) return cuda_no_memory;
  *block = (stepping *)data;
  *lines = (line *)(data + head);
  const char *why = self->capturing ? hold_block(self, now, block) : NULL;
  return why != NULL ? why : cuda_send(self, data, buffer, head + bytes);
}


const char *cuda_optimize (cuda *self, const work *w) {
  int64_t chunks, n = w->optimize.n;
  stepping *block;
  line *lines;
  char *buffer = (char *)malloc(sizeof *block + (size_t)n * sizeof *lines);
  if (buffer == NULL) return cuda_no_memory;
  const char *why = send(self, w, buffer, &chunks, &block, &lines);
  free(buffer);
  if (why != NULL) return why;
  return launch(self, cuda_blocks(self, chunks, 1), THREADS, 0, step_lines, block,
                (heed_optimizer)w->op, lines, (int)n, chunks);
}
