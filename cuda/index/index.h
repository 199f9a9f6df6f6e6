/*
** index.h - elements by position: what gather and scatter share.
**
** Positions count from 1, or -1 from the end where a work says so, and are checked where they are
** used.
*/

#ifndef cuda_index_h
#define cuda_index_h

#include "cuda/cuda.h"

#define INDEX_THREADS 256


/*
** {==================================================================
** Iterations
** ===================================================================
*/

/* Elements in row-major order: their offsets, and how far positions displace them. */
typedef struct iteration {
  path at;                         /* of the side that positions do not displace */
  int64_t inner[HEED_RANK];        /* strides of the other side */
  int n;
  bool from_end;                   /* position -1 is the last one */
  struct {
    const int64_t *data;           /* NULL: 'value' */
    int64_t value, times, limit, stride[HEED_RANK];
  } index[WORK_INDICES];
} iteration;

/* As element_offset(), with other strides. */
INLINE int64_t offset_by (const path &p, const int64_t *stride, int64_t index) {
  int64_t at = 0;
  for (int i = p.rank - 1; i > 0; i--) {
    int64_t rest = p.small ? divide((uint32_t)index, p.by[i]) : index / p.size[i];
    at += (index - rest * p.size[i]) * stride[i];
    index = rest;
  }
  return p.rank > 0 ? at + index * stride[0] : 0;
}

/* The row-major index, in the tensor of positions k, of the position of element i. */
INLINE int64_t index_of_position (const iteration &w, int k, int64_t i) {
  int64_t index = 0, size = 1;
  for (int axis = w.at.rank - 1; axis >= 0; axis--) {
    if (w.index[k].stride[axis] != 0) {
      index += i % w.at.size[axis] * size;
      size *= w.at.size[axis];
    }
    i /= w.at.size[axis];
  }
  return index;
}

/* How far positions displace element i; one that is outside counts as the first. */
INLINE int64_t displacement (const iteration &w, const faults &f, int64_t i) {
  int64_t sum = 0;
  for (int k = 0; k < w.n; k++) {
    const int64_t *data = w.index[k].data;
    int64_t limit = w.index[k].limit;
    int64_t p = data != NULL ? data[offset_by(w.at, w.index[k].stride, i)] : w.index[k].value;
    if (w.from_end && p < 0 && p >= -limit) p += limit + 1;
    if (p < 1 || p > limit) {
      report(f, FAULT_POSITION, k, index_of_position(w, k, i) + 1, p, limit);
      p = 1;
    }
    sum += (p - 1) * w.index[k].times;
  }
  return sum;
}

/* }================================================================== */


/*
** {==================================================================
** Host: the work's axes
** ===================================================================
*/

typedef struct indexing {
  cuda *self;
  const work *w;
  int n, size;                     /* of indices; bytes of an element */
  char *outer, *inner;
  layout at[WORK_INDICES + 2];     /* of outer, inner, and the indices: fused */
  int64_t times[WORK_INDICES];
} indexing;

static inline indexing indexing_of (cuda *self, const work *w, const view *outer,
                                    const view *inner) {
  indexing d;
  layout *all[WORK_INDICES + 2];
  d.self = self;
  d.w = w;
  d.n = w->nin - 1;
  d.size = scalar_sizes[outer->type];
  d.outer = (char *)outer->data;
  d.inner = (char *)inner->data;
  d.at[0] = outer->at;
  d.at[1] = inner->at;
  for (int k = 0; k < d.n; k++) {
    layout *at = &d.at[k + 2];
    *at = w->in[1 + k].data != NULL ? w->in[1 + k].at : outer->at;
    if (w->in[1 + k].data == NULL) memset(at->stride, 0, sizeof at->stride);
    d.times[k] = w->index.stride[k];
  }
  for (int i = 0; i < d.n + 2; i++) all[i] = &d.at[i];
  layout_fuse(all, d.n + 2);
  return d;
}


/* May elements be moved 'many' at once, along the last axis? */
static inline bool indexing_fits (const indexing *d, int64_t many) {
  int last = d->at[0].rank - 1, bytes = d->size * (int)many;
  bool good = last >= 0 && d->at[0].stride[last] == 1 && d->at[1].stride[last] == 1 &&
              d->at[0].size[last] % many == 0;
  good = good && ((uintptr_t)d->outer | (uintptr_t)d->inner) % bytes == 0;
  for (int k = 0; k < d->n && good; k++)
    good = d->at[k + 2].stride[last] == 0 && d->times[k] % many == 0;
  for (int i = 0; i < last && good; i++)
    good = d->at[0].stride[i] % many == 0 && d->at[1].stride[i] % many == 0;
  return good;
}


/* Elements become wider ones, up to 16 bytes, where all strides allow it. */
static inline void indexing_widen (indexing *d) {
  int many = 16 / d->size, last = d->at[0].rank - 1;
  while (many > 1 && !indexing_fits(d, many)) many /= 2;
  if (many == 1) return;
  d->size *= many;
  for (int i = 0; i < d->n + 2; i++) d->at[i].size[last] /= many;
  for (int k = 0; k < d->n; k++) d->times[k] /= many;
  for (int i = 0; i < last; i++) {
    d->at[0].stride[i] /= many;
    d->at[1].stride[i] /= many;
  }
}


/* Over the axes that are, or are not, among the chosen. */
static inline iteration iteration_over (const indexing *d, const bool *chosen, bool yes) {
  layout outer = {};
  iteration w = {};
  for (int i = 0; i < d->at[0].rank; i++) {
    if (chosen[i] != yes) continue;
    int axis = outer.rank++;
    outer.size[axis] = d->at[0].size[i];
    outer.stride[axis] = d->at[0].stride[i];
    w.inner[axis] = d->at[1].stride[i];
    for (int k = 0; k < d->n; k++) w.index[k].stride[axis] = d->at[k + 2].stride[i];
  }
  w.at = path_of(&outer);
  w.n = d->n;
  w.from_end = d->w->index.from_end;
  for (int k = 0; k < d->n; k++) {
    const view *v = &d->w->in[1 + k];
    w.index[k].data = (const int64_t *)v->data;
    w.index[k].value = v->value.i;
    w.index[k].times = d->times[k];
    w.index[k].limit = d->w->index.size[k];
  }
  return w;
}

static inline iteration iteration_over_all (const indexing *d) {
  const bool none[HEED_RANK] = {};
  return iteration_over(d, none, false);
}


/* The statement with S as wide as an element that is moved. */
#define FOR_SIZE(bytes, ...) switch (bytes) { \
    TYPE_CASE(1, uint8_t, __VA_ARGS__) TYPE_CASE(2, uint16_t, __VA_ARGS__) \
    TYPE_CASE(4, uint32_t, __VA_ARGS__) TYPE_CASE(8, uint64_t, __VA_ARGS__) \
    TYPE_CASE(16, uint4, __VA_ARGS__) default: break; }

/* }================================================================== */


/*
** {==================================================================
** Axes without elements
** ===================================================================
*/

/* The tensor of positions along an axis of size 0, where none is right; NULL: there is no such. */
static inline const view *index_of_nothing (const work *w) {
  for (int k = 0; k < w->nin - 1; k++)
    if (w->index.size[k] == 0) return &w->in[1 + k];
  return NULL;
}

KERNEL report_first (const int64_t *data, int64_t value, faults f) {
  report(f, FAULT_POSITION, 0, 1, data != NULL ? *data : value, 0);
}

static inline const char *refuse_index (cuda *self, const view *index) {
  return launch(self, 1, 1, 0, report_first, (const int64_t *)index->data, index->value.i,
                cuda_faults(self));
}

/* }================================================================== */

#endif
