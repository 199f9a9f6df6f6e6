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

/* What the accumulators of a type's rows are kept in. */
static inline heed_type wide (heed_type type) {
  return type == HEED_FLOAT64 ? type : HEED_FLOAT32;
}

static inline scalar real (double x) { return (scalar){.type = HEED_FLOAT64, .f = x}; }
static inline scalar whole (int64_t i) { return (scalar){.type = HEED_INT64, .i = i}; }

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

/* A view as devices are given it: without an offset. */
static inline view materialized (view v) {
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

/* Filled memory with room for what 'ways' asks for, then the view of 'size' within it. */
static inline view laid (heed_type type, int rank, const int64_t *size, int ways, double low,
                         double high) {
  int order[HEED_RANK], axis[HEED_RANK];
  int64_t step[HEED_RANK], start[HEED_RANK], room[HEED_RANK] = {0};
  shuffle(rank, order);
  for (int i = 0; i < rank; i++) {
    int a = ways & TRANSPOSED ? order[i] : i;
    axis[a] = i;
    step[a] = ways & STEPPED ? between(1, 3) : 1;
    start[a] = ways & PART ? pick(4) : 0;
    room[i] = start[a] + size[a] * step[a] + (ways & PART ? pick(4) : 0);
  }
  view v = filled(type, rank, room, low, high);
  v.at = layout_permute(&v.at, axis);
  for (int a = 0; a < rank; a++) {
    bool repeated = (ways & REPEATED) && chance(0.5);
    v.at = layout_narrow(&v.at, a, start[a], size[a], step[a]);
    if ((ways & FLIPPED) && chance(0.5) && size[a] > 0) v.at = layout_flip(&v.at, a);
    if (repeated) v.at.stride[a] = 0;
  }
  return materialized(v);
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

/* Floors them, so that many are alike. */
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
    if (v->at.rank < 0) continue;
    n += (size_t)snprintf(text + n, sizeof text - n, " %s", scalar_names[v->type]);
    for (int k = 0; k < v->at.rank; k++)
      n += (size_t)snprintf(text + n, sizeof text - n, " %lld/%lld", (long long)v->at.size[k],
                            (long long)v->at.stride[k]);
  }
  return text;
}

/* Gives back what was made for the cases so far. */
static inline void forget (void) { while (nmade > 0) free(made[--nmade]); }

/* The memory of an output after a work ran on the card; to be freed. */
static inline char *run_there (both *b, const work *there, const reached *r, void *in_place) {
  char *got = malloc(r->bytes + 1);
  const char *why = b->card->run(b->card, there);
  if (why == NULL) why = b->card->download(b->card, got, in_place, r->bytes);
  if (why != NULL) printf("not run: %s\n", why);
  return got;
}

/* Every output has the same bits when the card runs the work again. */
static inline void same_again (both *b, const char *name, const work *w) {
  work there = *w;
  reached ins[WORK_INS] = {{NULL}}, outs[WORK_OUTS] = {{NULL}};
  bool good = true;
  for (int i = 0; i < w->nin; i++) if (w->in[i].at.rank >= 0) ins[i] = send_view(b, &there.in[i]);
  for (int i = 0; i < w->nout; i++)
    if (w->out[i].at.rank >= 0) outs[i] = send_view(b, &there.out[i]);
  for (int i = 0; i < w->nout; i++) {
    char *first = run_there(b, &there, &outs[i], outs[i].in_place);
    char *second = run_there(b, &there, &outs[i], outs[i].in_place);
    good = good && memcmp(first, second, outs[i].bytes) == 0;
    free(first);
    free(second);
  }
  if (!good) printf("%s: not the same again\n", name);
  free_twins(b, w->nin, ins);
  free_twins(b, w->nout, outs);
  b->tried++;
  b->failed += !good;
}

#endif
