/*
** cuda_same.h - runs a work on the CPU and on a GPU, and compares the results.
**
** The work's views are of the CPU's memory. The memory that a view reaches is copied to the GPU,
** also for outputs; afterwards every byte in an output's reach, elements between its own included,
** must be what the CPU has there.
*/

#ifndef cuda_same_h
#define cuda_same_h

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"

typedef struct both {
  heed_context *cx;
  device *cpu, *gpu;
  int seen, tried, failed;         /* works */
  bool rests;                      /* the GPU: works are seen, as many as without */
} both;

static inline bool both_open (both *b) {
  *b = (both){.cx = heed_open(NULL)};
  b->cpu = b->cx->devices.list[0];
  b->gpu = core_device(b->cx, "test", "cuda");
  if (b->gpu == NULL) printf("skipped: %s\n0 passed, 0 failed, 1 skipped\n", heed_error(b->cx));
  return b->gpu != NULL;
}

/* Are the GPUs of a context emulated ones? */
static inline bool emulates (heed_context *cx) {
  return core_plugin_reason(cx, "cuda") == NULL &&
         strcmp(cx->devices.plugin->built, "emulated") == 0;
}

/* Memory of the cases so far. */
static void **made;
static size_t nmade;

static inline void *make (size_t bytes) {
  if ((nmade & (nmade - 1)) == 0) made = realloc(made, (nmade > 0 ? 2 * nmade : 1) * sizeof *made);
  return made[nmade++] = aligned_alloc(64, (bytes + 64) & ~(size_t)63);
}

static inline int both_close (both *b) {
  while (nmade > 0) free(made[--nmade]);
  free(made);
  printf("%d works, %d differ\n", b->tried, b->failed);
  int failed = b->failed;
  heed_close(b->cx);
  return failed > 0;
}

/* The memory that a view reaches, and its copy on the GPU. */
typedef struct reached { char *start, *copy; size_t bytes; } reached;

static inline reached reach_of (const view *v) {
  int64_t first, last, size = scalar_sizes[v->type];
  const layout at = scalar_is_block(v->type) ? view_bytes_layout(v->type, &v->at) : v->at;
  layout_reach(&at, &first, &last);
  if (v->data == NULL || first > last) return (reached){NULL, NULL, 0};
  return (reached){(char *)v->data + first * size, NULL, (size_t)((last - first + 1) * size)};
}

static inline reached send_view (both *b, view *v) {
  reached r = reach_of(v);
  if (r.bytes == 0) return r;
  r.copy = b->gpu->alloc(b->gpu, r.bytes);
  if (r.copy == NULL || b->gpu->upload(b->gpu, r.copy, r.start, r.bytes) != NULL) abort();
  v->data = r.copy + ((char *)v->data - r.start);
  return r;
}

/* Outputs that are inputs as well share their copy. */
static inline reached send_or_share (both *b, view *v, int n, const reached *have) {
  reached r = reach_of(v);
  for (int i = 0; i < n; i++)
    if (r.bytes > 0 && have[i].start == r.start && have[i].bytes == r.bytes) {
      v->data = have[i].copy + ((char *)v->data - r.start);
      return (reached){r.start, NULL, 0};
    }
  return send_view(b, v);
}

/* Of halves, floats and doubles: |a - b| up to 'tolerance' times the larger of |a| and 'scale'. */
static inline bool near (double a, double b, double tolerance, double scale) {
  if (a != a || b != b) return a != a && b != b;
  if (a == b) return true;
  double size = fabs(a) > scale ? fabs(a) : scale;
  return fabs(a - b) <= tolerance * size;
}

static inline double scale_of (heed_type type, const char *data, size_t n) {
  double sum = 0;
  size_t counted = 0;
  for (size_t i = 0; i < n; i++) {
    double x = scalar_double(scalar_load(type, data + i * scalar_sizes[type]));
    if (isfinite(x)) { sum += fabs(x); counted++; }
  }
  return counted > 0 ? sum / (double)counted : 0;
}

static inline bool same_memory (const char *name, int which, const view *v, const reached *r,
                                const char *got, double tolerance) {
  size_t size = scalar_sizes[v->type], n = r->bytes / size;
  double scale = scale_of(v->type, r->start, n);
  for (size_t i = 0; i < n; i++) {
    const char *x = r->start + i * size, *y = got + i * size;
    if (memcmp(x, y, size) == 0) continue;
    double a = scalar_double(scalar_load(v->type, x)), b = scalar_double(scalar_load(v->type, y));
    if (scalar_is_float(v->type) && near(a, b, tolerance, tolerance > 0 ? scale : 0) &&
        !(tolerance == 0 && a == 0))
      continue;
    printf("%s: out[%d] element %zu of memory: %.17g on the CPU, %.17g on the GPU\n", name,
           which, i, a, b);
    return false;
  }
  return true;
}

/* Copies an output from the GPU; reports asynchronous errors, too. */
static inline const char *fetch_view (both *b, const view *v, const view *on_gpu, reached *r,
                                      char **got) {
  *r = view_is_none(v) ? (reached){NULL, NULL, 0} : reach_of(v);
  *got = r->bytes > 0 ? malloc(r->bytes) : NULL;
  if (r->bytes == 0) return NULL;
  const char *start = (const char *)on_gpu->data - ((char *)v->data - r->start);
  return b->gpu->download(b->gpu, *got, start, r->bytes);
}

/* Both refuse, in the same words, though the GPU may add that it was asynchronous; or neither. */
static inline bool same_words (const char *name, const char *cpu, const char *gpu) {
  bool good = cpu == NULL ? gpu == NULL : gpu != NULL && strncmp(cpu, gpu, strlen(cpu)) == 0;
  if (!good) printf("%s: '%s' on the CPU, '%s' on the GPU\n", name, cpu, gpu);
  return good;
}

static inline bool same_outputs (both *b, const char *name, const work *w, const work *on_gpu,
                                 const char *cpu, const char *gpu, double tolerance) {
  bool good = true;
  for (int i = 0; i < w->nout; i++) {
    reached r;
    char *got;
    const char *why = fetch_view(b, &w->out[i], &on_gpu->out[i], &r, &got);
    if (gpu == NULL) gpu = why;
    if (gpu == NULL && cpu == NULL && r.bytes > 0)
      good = same_memory(name, i, &w->out[i], &r, got, tolerance) && good;
    free(got);
  }
  return same_words(name, cpu, gpu) && good;
}

static inline void free_copies (both *b, int n, const reached *r) {
  for (int i = 0; i < n; i++)
    if (r[i].copy != NULL) b->gpu->free(b->gpu, r[i].copy, r[i].bytes);
}

/* HEED_SOME=n: of the works, every n-th runs on the GPU; the others on the CPU alone. */
static inline bool is_left_out (both *b, const work *w) {
  const char *some = getenv("HEED_SOME");
  const bool runs = some == NULL || atoi(some) < 2 || b->seen++ % atoi(some) == 0;
  if (runs && !b->rests) return false;
  b->cpu->run(b->cpu, w);
  b->gpu->way = NULL;
  return true;
}

/* Was the last work done in this way, if it was not left out? */
static inline bool went (both *b, const char *way) {
  if (b->gpu->way == NULL) return b->rests || getenv("HEED_SOME") != NULL;
  return strcmp(b->gpu->way, way) == 0;
}

/*
** 'tolerance' 0: the same bits, but for the kind of NaN; otherwise see 'near', where the scale is
** the mean size of the output's elements.
*/
static inline bool same (both *b, const char *name, const work *w, double tolerance) {
  if (is_left_out(b, w)) return true;
  work on_gpu = *w;
  reached ins[WORK_INS], outs[WORK_OUTS], none = {NULL, NULL, 0};
  for (int i = 0; i < w->nin; i++)
    ins[i] = view_is_none(&w->in[i]) ? none : send_view(b, &on_gpu.in[i]);
  for (int i = 0; i < w->nout; i++)
    outs[i] = view_is_none(&w->out[i]) ? none : send_or_share(b, &on_gpu.out[i], w->nin, ins);
  const char *cpu = b->cpu->run(b->cpu, w), *gpu = b->gpu->run(b->gpu, &on_gpu);
  bool good = same_outputs(b, name, w, &on_gpu, cpu, gpu, tolerance);
  free_copies(b, w->nin, ins);
  free_copies(b, w->nout, outs);
  b->tried++;
  b->failed += !good;
  return good;
}

/* Dense views of the CPU's memory: all bits set, or numbers from 'low' to 'high'. */
static inline view fresh (heed_type type, int rank, const int64_t *size) {
  view v = {.type = type};
  layout_dense(&v.at, rank, size);
  size_t bytes = (size_t)layout_numel(&v.at) * scalar_sizes[type];
  v.data = make(bytes);
  memset(v.data, 0xff, bytes);
  return v;
}

static uint64_t drawn = 88172645463325252ull;

static inline double draw (void) {                    /* in [0, 1) */
  drawn ^= drawn << 13; drawn ^= drawn >> 7; drawn ^= drawn << 17;
  return (double)(drawn >> 11) * 0x1p-53;
}

static inline view filled (heed_type type, int rank, const int64_t *size, double low,
                           double high) {
  view v = fresh(type, rank, size);
  int64_t n = layout_numel(&v.at);
  for (int64_t i = 0; i < n; i++) {
    double x = low + (high - low) * draw();
    scalar_store(type, (char *)v.data + i * scalar_sizes[type],
                 (scalar){.type = HEED_FLOAT64, .f = scalar_is_float(type) ? x : floor(x)});
  }
  return v;
}

#endif
