/*
** cuda_cases.h - random cases, the same in every run: numbers, and views in all layouts.
*/

#ifndef cuda_cases_h
#define cuda_cases_h

#include "cuda_same.h"

#define SIZES(...) (int64_t[]){__VA_ARGS__}

static const heed_type float_types[] = {
  HEED_FLOAT32, HEED_FLOAT64, HEED_FLOAT16, HEED_BFLOAT16
};

static inline int64_t pick (int64_t n) { return (int64_t)(draw() * (double)n); }     /* [0, n) */

static inline int64_t between (int64_t low, int64_t high) {     /* both counted */
  return low + pick(high - low + 1);
}

static inline bool chance (double p) { return draw() < p; }

static inline heed_type float_type (void) { return float_types[pick(4)]; }

/* The type of the accumulators of a type's rows. */
static inline heed_type wide (heed_type type) {
  return type == HEED_FLOAT64 ? type : HEED_FLOAT32;
}

static inline scalar real (double x) { return (scalar){.type = HEED_FLOAT64, .f = x}; }
static inline scalar integer (int64_t i) { return (scalar){.type = HEED_INT64, .i = i}; }

/* The element at a row-major position. */
static inline void *element (const view *v, int64_t position) {
  int64_t offset = 0;
  for (int i = v->at.rank - 1; i >= 0; i--) {
    offset += position % v->at.size[i] * v->at.stride[i];
    position /= v->at.size[i];
  }
  return (char *)v->data + offset * scalar_sizes[v->type];
}

static inline double get (const view *v, int64_t position) {
  return scalar_double(scalar_load(v->type, element(v, position)));
}

static inline void put (const view *v, int64_t position, double x) {
  scalar_store(v->type, element(v, position), real(x));
}

/* A view as devices are given it: its offset in 'data'. */
static inline view without_offset (view v) {
  if (layout_numel(&v.at) > 0) v.data = (char *)v.data + v.at.offset * scalar_sizes[v.type];
  v.at.offset = 0;
  return v;
}


/* How a view lies in its memory; several at once. */
enum { TRANSPOSED = 1, STEPPED = 2, FLIPPED = 4, PART = 8, REPEATED = 16, LAYOUTS = 16 };

static inline void shuffle (int n, int *order) {
  for (int i = 0; i < n; i++) order[i] = i;
  for (int i = n - 1; i > 0; i--) {
    int j = (int)pick(i + 1), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
}

/* Filled memory, large enough for what 'ways' says, and the view of 'size' within it. */
static inline view laid (heed_type type, int rank, const int64_t *size, int ways, double low,
                         double high) {
  int order[HEED_RANK], axis[HEED_RANK];
  int64_t step[HEED_RANK], start[HEED_RANK], extent[HEED_RANK] = {0};
  shuffle(rank, order);
  for (int i = 0; i < rank; i++) {
    int a = ways & TRANSPOSED ? order[i] : i;
    axis[a] = i;
    step[a] = ways & STEPPED ? between(1, 3) : 1;
    start[a] = ways & PART ? pick(4) : 0;
    extent[i] = start[a] + size[a] * step[a] + (ways & PART ? pick(4) : 0);
  }
  view v = filled(type, rank, extent, low, high);
  v.at = layout_permute(&v.at, axis);
  for (int a = 0; a < rank; a++) {
    bool repeated = (ways & REPEATED) && chance(0.5);
    v.at = layout_narrow(&v.at, a, start[a], size[a], step[a]);
    if ((ways & FLIPPED) && chance(0.5) && size[a] > 0) v.at = layout_flip(&v.at, a);
    if (repeated) v.at.stride[a] = 0;
  }
  return without_offset(v);
}

/* One of the layouts, often the plain one. */
static inline int some_layout (void) { return chance(0.3) ? 0 : (int)pick(LAYOUTS); }

static inline double low_of (heed_type type) {
  return type == HEED_BOOL || type == HEED_UINT8 ? 0 : -3;
}

static inline double high_of (heed_type type) { return type == HEED_BOOL ? 2 : 4; }

/* Small numbers. */
static inline view input (heed_type type, int rank, const int64_t *size) {
  int ways = some_layout() | (chance(0.15) ? REPEATED : 0);
  return laid(type, rank, size, ways, low_of(type), high_of(type));
}

static inline view output (heed_type type, int rank, const int64_t *size) {
  return laid(type, rank, size, some_layout(), 0, 1);
}

/* Some elements become NaN, infinite or a zero. */
static inline void spoil (const view *v, int64_t many) {
  static const double ends[] = {NAN, INFINITY, -INFINITY, 0, -0.0};
  int64_t n = layout_numel(&v->at);
  if (!scalar_is_float(v->type) || n == 0) return;
  while (many-- > 0) put(v, pick(n), ends[pick(5)]);
}

/* Floors them, so that many are equal. */
static inline void coarsen (const view *v) {
  int64_t n = layout_numel(&v->at);
  for (int64_t i = 0; i < n; i++) put(v, i, floor(get(v, i)));
}


/* "sum int64 (2, 3)/(3, 1)": the name of a work for its message. */
static inline const char *describe (const char *what, const work *w) {
  static char text[4096];
  size_t n = (size_t)snprintf(text, sizeof text, "%s, op %d", what, w->op);
  for (int i = 0; i < w->nin + w->nout; i++) {
    const view *v = i < w->nin ? &w->in[i] : &w->out[i - w->nin];
    n += (size_t)snprintf(text + n, sizeof text - n, ", %s %d", i < w->nin ? "in" : "out",
                          i < w->nin ? i : i - w->nin);
    if (view_is_none(v)) continue;
    n += (size_t)snprintf(text + n, sizeof text - n, " %s", scalar_names[v->type]);
    for (int k = 0; k < v->at.rank; k++)
      n += (size_t)snprintf(text + n, sizeof text - n, " %lld/%lld", (long long)v->at.size[k],
                            (long long)v->at.stride[k]);
  }
  return text;
}

/* Frees the memory of the cases so far. */
static inline void free_cases (void) { while (nmade > 0) free(made[--nmade]); }

/* The memory of all outputs after a work ran on the GPU; to be freed. */
static inline void run_and_fetch (both *b, const work *w, char *got[WORK_OUTS],
                                  size_t bytes[WORK_OUTS]) {
  work on_gpu = *w;
  reached ins[WORK_INS] = {0}, outs[WORK_OUTS] = {0};
  for (int i = 0; i < w->nin; i++)
    if (!view_is_none(&w->in[i])) ins[i] = send_view(b, &on_gpu.in[i]);
  for (int i = 0; i < w->nout; i++)
    if (!view_is_none(&w->out[i])) outs[i] = send_view(b, &on_gpu.out[i]);
  const char *why = b->gpu->run(b->gpu, &on_gpu);
  for (int i = 0; i < w->nout; i++) {
    got[i] = malloc(outs[i].bytes + 1);
    bytes[i] = outs[i].bytes;
    if (why == NULL) why = b->gpu->download(b->gpu, got[i], outs[i].copy, bytes[i]);
  }
  if (why != NULL) printf("not run: %s\n", why);
  free_copies(b, w->nin, ins);
  free_copies(b, w->nout, outs);
}

/* Every output has the same bits when the GPU runs another work for them; 'what' is said of it. */
static inline bool same_bits (both *b, const char *name, const char *what, const work *w,
                              const work *other) {
  char *first[WORK_OUTS], *second[WORK_OUTS];
  size_t bytes[WORK_OUTS], others[WORK_OUTS];
  bool good = true;
  if (is_left_out(b, w)) return true;
  run_and_fetch(b, w, first, bytes);
  run_and_fetch(b, other, second, others);
  for (int i = 0; i < w->nout; i++) {
    bool same = bytes[i] == others[i] && memcmp(first[i], second[i], bytes[i]) == 0;
    if (!same) printf("%s: out[%d] is not the same %s\n", name, i, what);
    good = good && same;
    free(first[i]);
    free(second[i]);
  }
  b->tried++;
  b->failed += !good;
  return good;
}

/* Checks that the same work gives the same bits again. */
static inline void same_again (both *b, const char *name, const work *w) {
  same_bits(b, name, "again", w, w);
}

#endif
