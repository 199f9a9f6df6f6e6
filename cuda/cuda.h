/*
** cuda.h - a GPU as a device: what every file of this folder includes.
**
** A kind of work is one function, cuda_name, that launches kernels into the device's stream and
** returns NULL or why not. The function waits for nothing: scratch memory, and the memory of its
** views, may be freed as soon as its launches are in the stream, since whatever uses that memory
** next is launched behind them in the same stream.
*/

#ifndef cuda_cuda_h
#define cuda_cuda_h

#include "cuda/core.h"
#include "cuda/kernel.h"
#include "cuda/runtime.h"

#pragma GCC visibility push(hidden)

typedef struct memory memory;      /* memory.cu */
typedef struct staging staging;    /* transfer.cu */
typedef struct steps steps;        /* optimize.cu */

/* The random generator, in device memory, so that a replayed graph moves its offset on. */
typedef struct generator_state { uint64_t seed, offset; unsigned done; } generator_state;

typedef struct cuda {
  struct device device;            /* first: a device * is a cuda * */
  int index;
  cuda_context context;            /* the driver's, of this process and device */
  runtime_device gpu;              /* its properties */
  cuda_stream stream;
  struct memory *memory;
  struct staging *staging;
  void *scratch[64];               /* of the work that runs */
  int nscratch;
  struct fault_record *record;     /* where kernels report faults, in device memory */
  struct fault_note *note;         /* pinned: is there one, and a copy of it */
  fault_word launches;             /* that may report, so far */
  bool reports;                    /* one of them is in the capture that goes on */
  struct generator_state *generator_state;       /* in device memory */
  void *products;                  /* what cublas.cu keeps, or NULL */
  int precision;                   /* of float32 products: 0 highest, 1 high, 2 medium */
  struct steps *steps;             /* that were captured: see optimize.h */
  bool blocking;                   /* waits after every work */
  bool capturing;
  bool lost;
  char name[16];
  char message[320];
} cuda;

extern const char cuda_no_memory[];

/* Keeps a message in 'self' and returns it. */
const char *cuda_refuse (cuda *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A code of the runtime: NULL for 0, or why not; notices that a device is lost. */
const char *cuda_check (cuda *self, int code);

/* Memory until the work is done, aligned to 512 bytes; NULL: return cuda_no_memory. */
void *cuda_scratch (cuda *self, size_t bytes);
/* The argument of a kernel that checks values. */
faults cuda_faults (cuda *self);
/* At the end of a capture: faults of its next replay are not taken for those of this one. */
const char *cuda_seal_faults (cuda *self);
/* Waits for the stream; returns what kernels reported. */
const char *cuda_wait (cuda *self);
/* Device memory into the host's, after a wait; refused while capturing. */
const char *cuda_read (cuda *self, void *to, const void *from, size_t bytes);
const char *cuda_zero (cuda *self, void *to, size_t bytes);     /* into the stream */
/* From the host's memory into the device's, in the stream: 'from' may change at once. */
const char *cuda_send (cuda *self, void *to, const void *from, size_t bytes);

/* Threads of a block that n threads are enough for: whole warps, 'most' at most. */
static inline int cuda_threads (int64_t n, int most) {
  return n < most ? (int)((n + 31) / 32 * 32) : most;
}
/* Blocks for n threads of 'threads' each, at most a few for each multiprocessor. */
dim3 cuda_blocks (const cuda *self, int64_t n, int threads);

/* After a launch that lacked memory: is there more now? A kernel's code is loaded into memory when
   the kernel is first launched, and free slabs may hold all of that. */
bool cuda_gave_room (cuda *self);

/*
** Launches: return launch(self, blocks, threads, shared, kernel<float>, a, b, c);
** The arguments are converted to the kernel's own. No blocks: nothing is done.
*/
template <class... P>
static inline const char *launch (cuda *self, dim3 blocks, dim3 threads, size_t shared,
                                  void (*kernel) (P...), const argument<P> &... args) {
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return NULL;
  runtime_grid g = {blocks, threads, shared, self->stream};
  int code;
  do code = runtime_launch(g, kernel, args...);
  while (code == RUNTIME_NO_MEMORY && cuda_gave_room(self));
  return cuda_check(self, code);
}

/* A work of its own, from within another one. */
const char *cuda_run (cuda *self, const work *w);

/*
** The kinds of work, a file for each or for a few that are alike. The names are weak: without
** its file a kind is NULL, which device.cu does not support.
*/
#define WEAK __attribute__((weak))
const char *cuda_map (cuda *self, const work *w) WEAK;
const char *cuda_derivative (cuda *self, const work *w) WEAK;
const char *cuda_copy (cuda *self, const work *w) WEAK;
const char *cuda_reduce (cuda *self, const work *w) WEAK;
const char *cuda_scan (cuda *self, const work *w) WEAK;
const char *cuda_matmul (cuda *self, const work *w) WEAK;
const char *cuda_gather (cuda *self, const work *w) WEAK;
const char *cuda_scatter (cuda *self, const work *w) WEAK;
const char *cuda_blocks (cuda *self, const work *w) WEAK;
const char *cuda_sort (cuda *self, const work *w) WEAK;
const char *cuda_nonzero (cuda *self, const work *w) WEAK;
const char *cuda_random (cuda *self, const work *w) WEAK;
const char *cuda_softmax (cuda *self, const work *w) WEAK;
const char *cuda_norm (cuda *self, const work *w) WEAK;
const char *cuda_rotate (cuda *self, const work *w) WEAK;
const char *cuda_loss (cuda *self, const work *w) WEAK;
const char *cuda_attention (cuda *self, const work *w) WEAK;
const char *cuda_attention_back (cuda *self, const work *w) WEAK;
const char *cuda_optimize (cuda *self, const work *w) WEAK;
const char *cuda_clip (cuda *self, const work *w) WEAK;
const char *cuda_probabilities (cuda *self, const work *w) WEAK;
void cuda_products_close (cuda *self) WEAK;      /* frees self->products */
/* The library that multiplies, or why none does; known once a product was computed. */
void cuda_products_found (char *text, size_t bytes) WEAK;
void cuda_products_describe (cuda *self, char *text, size_t bytes) WEAK;

#pragma GCC visibility pop

#endif
