/*
** cpu.h - the CPU as a device, and what its files share.
*/

#ifndef cpu_h
#define cpu_h

#include "cpu/pages.h"
#include "memory/device.h"

#pragma GCC visibility push(hidden)

/*
** {==================================================================
** The device. A level is a set of loops for one instruction set: "base", "avx2", "avx512", "neon".
** ===================================================================
*/

typedef struct cpu_level cpu_level;

device *cpu_open (heed_context *cx, pool *p, generator *random, const cpu_level *level);
                                                         /* NULL: no memory */
void cpu_use (device *d, const cpu_level *level);
const cpu_level *cpu_level_of (const device *d);

const cpu_level *cpu_level_best (void);
const cpu_level *cpu_level_find (const char *name);      /* NULL: unknown, or this CPU lacks it */
const char *cpu_level_name (const cpu_level *level);
bool cpu_reads_alone (void);

/* }================================================================== */


typedef struct cpu {
  device device;                   /* first: a device * is a cpu * */
  const cpu_level *level;
  bool reads_alone;                /* see levels.c: which way columns are read (dots.h) */
  heed_context *cx;                /* whose memory is counted */
  pool *pool;
  generator *random;
  pages pages;
  char message[256];               /* of a failure */
} cpu;

/*
** A level file sets its target, includes the loops and exports one of these; nothing else in it
** has linkage.
*/
struct cpu_level {
  const char *name;
  /* elementwise.h: n elements, dense, of the computing type */
  void (*map[HEED_NOPS][3]) (int64_t n, void *y, const void *a, const void *b, const void *c,
                             const double *number);          /* [op][FLOAT32, FLOAT64, INT64] */
  void (*derivative[HEED_NOPS][3][2]) (int64_t n, void *d, const void *g, const void *a,
                                       const void *b, const void *c, const void *y,
                                       const double *number);
                                                             /* [op][input][FLOAT32, FLOAT64] */
  /* n elements from 'from' with a stride, converted; and the other way */
  void (*load) (int64_t n, heed_type to, void *y, heed_type from, const void *x, int64_t stride);
  void (*store) (int64_t n, heed_type to, void *y, int64_t stride, heed_type from, const void *x);
  /* dropout.h: n factors, 0 or 'kept'; 'first' is a multiple of 4 */
  void (*dropout) (int64_t n, float *y, uint64_t key, uint64_t first, double p, float kept);
  /* random_loops.h: 32 bits to [from, to); of [0, 1), in blocks of 16, to normal numbers */
  void (*uniform) (int64_t n, float *y, const uint32_t *bits, float from, float to);
  void (*normal) (int64_t n, float *x, float mean, float deviation);
  /* each returns NULL or why not; ops are those that cpu_run lets through */
  const char *(*reduce) (cpu *self, const work *w);
  const char *(*scan) (cpu *self, const work *w);
  const char *(*matmul) (cpu *self, const work *w);
  const char *(*blocks) (cpu *self, const work *w);      /* all but packing */
  const char *(*softmax) (cpu *self, const work *w);
  const char *(*norm) (cpu *self, const work *w);
  const char *(*rotate) (cpu *self, const work *w);
  const char *(*loss) (cpu *self, const work *w);
  const char *(*attention) (cpu *self, const work *w);
  const char *(*attention_back) (cpu *self, const work *w);
  const char *(*optimize) (cpu *self, const work *w);
  const char *(*clip) (cpu *self, const work *w);
};

extern const cpu_level cpu_base, cpu_avx2, cpu_avx512, cpu_neon;   /* those of this architecture:
                                                                      see levels.c */

/* Keeps a message in 'self' and returns it. */
const char *cpu_refuse (cpu *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
** Polled by kernels: is the work to stop? Then what it makes is thrown away, and must only not
** reach outside its memory; checks return cpu_interrupted. In a loop 'cpu_stops' is given the
** number of the step and about how many elements a step has: it polls at each 2^16th element.
*/
extern const char cpu_interrupted[];
#define MOVED_ELEMENTS ((int64_t)1 << 18)      /* of a long row between two polls */
static inline bool cpu_stopped (const cpu *self) { return pool_stopped(self->pool); }
static inline bool cpu_stops (const cpu *self, int64_t step, int64_t elements) {
  return elements * (step + 1) >> 16 != elements * step >> 16 && cpu_stopped(self);
}

/* Scratch memory of a kernel, counted; a kernel that gets none returns cpu_no_memory. */
extern const char cpu_no_memory[];
void *cpu_scratch (const cpu *self, size_t bytes);       /* 64-byte aligned */
void cpu_scratch_free (void *scratch);

/* The same for all levels: */
const char *cpu_map (cpu *self, const work *w);          /* elementwise.c */
bool cpu_map_dense (device *self, const dense_map *w);
const char *cpu_derivative (cpu *self, const work *w);
const char *cpu_convert (cpu *self, const work *w);      /* a copy to another type, or a fill */
const char *cpu_copy (cpu *self, const work *w);         /* copy.c */
const char *cpu_gather (cpu *self, const work *w);       /* index.c */
const char *cpu_scatter (cpu *self, const work *w);
const char *cpu_nonzero (cpu *self, const work *w);
bool cpu_matmul_tiny (const work *w);                    /* tiny.c: false if it is not tiny */
const char *cpu_pack (cpu *self, const work *w);         /* blocks/pack.c: values to blocks */
const char *cpu_sort (cpu *self, const work *w);         /* sort.c */
const char *cpu_random (cpu *self, const work *w);       /* random.c */
const char *cpu_probabilities (cpu *self, const work *w);          /* check.c */
const char *cpu_check_attention (cpu *self, const work *w);        /* its mask's numbers of keys */

#pragma GCC visibility pop

#endif
