/*
** index.cu - elements by position: gather and scatter.
**
** Positions count from 1 and are checked where they are used. Where two elements may go to one
** place, places are sorted, stably, so that those of one place stand together in row-major
** order: the last one is what is set, and sums are made of windows of 32, then of windows of
** what those left over, until there is one: in the same order whenever it is done.
*/

#include "cuda/sort.h"

#define INDICES (WORK_INS - 1)
#define THREADS 256
#define WINDOW 32
#define BATCH 4
#define NOWHERE (~0ull)            /* the key of what is not there */


/*
** {==================================================================
** Walks
** ===================================================================
*/

/* Elements in row-major order: where they stand, and where positions lead them. */
typedef struct iterate {
  path at;                         /* of the side that positions do not move */
  int64_t inner[HEED_RANK];        /* strides of the other side */
  int n;
  struct {
    const int64_t *data;           /* NULL: 'value' */
    int64_t value, times, limit, stride[HEED_RANK];
  } index[INDICES];
} iterate;

/* As element_offset(), with other strides. */
INLINE int64_t along (const path &p, const int64_t *stride, int64_t index) {
  int64_t at = 0;
  for (int i = p.rank - 1; i > 0; i--) {
    int64_t rest = p.small ? divide((uint32_t)index, p.by[i]) : index / p.size[i];
    at += (index - rest * p.size[i]) * stride[i];
    index = rest;
  }
  return p.rank > 0 ? at + index * stride[0] : 0;
}

/* The element's place in the index that it takes its position from. */
INLINE int64_t own_index (const iterate &w, int k, int64_t i) {
  int64_t place = 0, size = 1;
  for (int axis = w.at.rank - 1; axis >= 0; axis--) {
    if (w.index[k].stride[axis] != 0) {
      place += i % w.at.size[axis] * size;
      size *= w.at.size[axis];
    }
    i /= w.at.size[axis];
  }
  return place;
}

/* How far positions move element i. */
INLINE int64_t moved (const iterate &w, const faults &f, int64_t i) {
  int64_t sum = 0;
  for (int k = 0; k < w.n; k++) {
    const int64_t *data = w.index[k].data;
    int64_t limit = w.index[k].limit;
    int64_t p = data != NULL ? data[along(w.at, w.index[k].stride, i)] : w.index[k].value;
    if (p < 1 || p > limit) p = checked(f, p, limit, own_index(w, k, i)) + 1;
    sum += (p - 1) * w.index[k].times;
  }
  return sum;
}

/* }================================================================== */


/*
** {==================================================================
** Each element for itself; C is as wide as what is moved
** ===================================================================
*/

template <class C> KERNEL gather (iterate w, C *to, const C *from, int64_t n, faults f) {
  for (int64_t i = first_index(); i < n; i += index_step())
    to[element_offset(w.at, i)] = from[along(w.at, w.inner, i) + moved(w, f, i)];
}


template <class C> KERNEL put_apart (iterate w, C *to, const C *from, int64_t n, faults f) {
  for (int64_t i = first_index(); i < n; i += index_step())
    to[along(w.at, w.inner, i) + moved(w, f, i)] = from[element_offset(w.at, i)];
}


template <class S> KERNEL add_apart (iterate w, S *to, const S *from, int64_t n, faults f) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    S *y = &to[along(w.at, w.inner, i) + moved(w, f, i)];
    *y = convert<S>(wide(*y) + wide(from[element_offset(w.at, i)]));
  }
}


/* There is nothing that a position could name. */
KERNEL refuse_first (const int64_t *data, int64_t value, faults f) {
  report(f, FAULT_POSITION, 1, data != NULL ? *data : value, 0);
}

/* }================================================================== */


/*
** {==================================================================
** Rows that meet: 'rows' have a place each, by which they are sorted; their columns stay apart
** ===================================================================
*/

typedef struct shared_buffer {
  int64_t rows, columns;
  int64_t least, step;             /* row's place = least + key * step */
  path row, column;                /* where they come from */
  int64_t to[HEED_RANK];           /* strides of the columns' places */
} shared_buffer;

KERNEL make_keys (iterate w, shared_buffer m, uint64_t *keys, faults f) {
  for (int64_t i = first_index(); i < m.rows; i += index_step()) {
    int64_t at = along(w.at, w.inner, i) + moved(w, f, i) - m.least;
    keys[i] = (uint64_t)at / (uint64_t)m.step;
  }
}

INLINE int64_t index_of (const shared_buffer &m, uint64_t key, int64_t column) {
  return m.least + (int64_t)key * m.step + along(m.column, m.to, column);
}


template <class C> KERNEL put_last (shared_buffer m, C *to, const C *from, ordered o) {
  for (int64_t t = first_index(); t < m.rows * m.columns; t += index_step()) {
    int64_t i = t / m.columns, column = t - i * m.columns;
    if (i + 1 < m.rows && o.keys[i + 1] == o.keys[i]) continue;
    to[index_of(m, o.keys[i], column)] = from[element_offset(m.row, o.at[i]) + element_offset(m.column, column)];
  }
}


/* What is summed: rows in order; or sums (n, columns), of which two are of one window. */
template <class T> struct summing {
  int64_t n;
  const uint64_t *keys;
  const uint32_t *at;              /* of rows; NULL: sums */
  const T *sums;
  uint64_t *keys_to;               /* of the windows: their first sum, and their last … */
  T *sums_to;                      /* … where it goes on in another window */
};

/* Does a sum go on from before i, the first of a window? */
template <class T> INLINE bool goes_on (const summing<T> &s, int64_t i) {
  if (i == 0 || i >= s.n) return false;
  return s.at != NULL ? s.keys[i] == s.keys[i - 1] : s.keys[i] != NOWHERE;
}

template <class S, class T>
INLINE T addend (const shared_buffer &m, const summing<T> &s, const S *from, int64_t i, int64_t column) {
  if (s.at == NULL) return s.sums[i * m.columns + column];
  return wide(from[element_offset(m.row, s.at[i]) + column]);
}

/* A sum of a window has ended. It goes to its place, or the window leaves it over: see 'kept'. */
typedef enum kept { COMPLETE = -1, FIRST, LAST } kept;

template <class S, class T>
INLINE void end_sum (const shared_buffer &m, const summing<T> &s, kept which, int64_t window,
                     uint64_t key, int64_t column, T sum, S *to) {
  int64_t i = 2 * window + which;
  if (which == COMPLETE) {
    S *y = &to[index_of(m, key, column)];
    *y = convert<S>(wide(*y) + sum);
    return;
  }
  if (column == 0) s.keys_to[i] = key;
  s.sums_to[i * m.columns + column] = sum;
}


/* BATCH of a window's rows are read at once, before the sums that need them. */
template <class S, class T>
KERNEL sum_windows (shared_buffer m, summing<T> s, S *to, const S *from) {
  int64_t windows = (s.n + WINDOW - 1) / WINDOW;
  for (int64_t t = first_index(); t < windows * m.columns; t += index_step()) {
    int64_t window = t / m.columns, column = t - window * m.columns;
    int64_t i = window * WINDOW, end = i + WINDOW < s.n ? i + WINDOW : s.n;
    int64_t from_column = s.at != NULL ? element_offset(m.column, column) : column;
    bool first = goes_on(s, i), last = goes_on(s, end);
    uint64_t key = NOWHERE;
    T sum = 0;
    if (column == 0) s.keys_to[2 * window + FIRST] = s.keys_to[2 * window + LAST] = NOWHERE;
    for (; i < end; i += BATCH) {
      uint64_t keys[BATCH];
      T x[BATCH];
      for (int j = 0; j < BATCH; j++) keys[j] = i + j < end ? s.keys[i + j] : NOWHERE;
      for (int j = 0; j < BATCH; j++)
        x[j] = keys[j] != NOWHERE ? addend<S, T>(m, s, from, i + j, from_column) : T(0);
      for (int j = 0; j < BATCH; j++) {
        if (keys[j] == NOWHERE) continue;
        if (keys[j] != key && key != NOWHERE) {
          end_sum(m, s, first ? FIRST : COMPLETE, window, key, column, sum, to);
          first = false;
          sum = 0;
        }
        key = keys[j];
        sum += x[j];
      }
    }
    if (key != NOWHERE)
      end_sum(m, s, first ? FIRST : last ? LAST : COMPLETE, window, key, column, sum, to);
  }
}

/* }================================================================== */


/*
** {==================================================================
** What a work asks for, on the host
** ===================================================================
*/

typedef struct indexing {
  cuda *self;
  const work *w;
  int n, size;                     /* of indices; bytes of what is moved */
  char *outer, *inner;
  layout at[INDICES + 2];          /* of outer, inner, and the indices: fused */
  int64_t times[INDICES];
} indexing;

static int64_t distance (int64_t stride) { return stride < 0 ? -stride : stride; }


static void begin (indexing *d, cuda *self, const work *w, const view *outer, const view *inner) {
  layout *all[INDICES + 2];
  d->self = self;
  d->w = w;
  d->n = w->nin - 1;
  d->size = scalar_sizes[outer->type];
  d->outer = (char *)outer->data;
  d->inner = (char *)inner->data;
  d->at[0] = outer->at;
  d->at[1] = inner->at;
  for (int k = 0; k < d->n; k++) {
    layout *at = &d->at[k + 2];
    *at = w->in[1 + k].data != NULL ? w->in[1 + k].at : outer->at;
    if (w->in[1 + k].data == NULL) memset(at->stride, 0, sizeof at->stride);
    d->times[k] = w->count[2 * k];
  }
  for (int i = 0; i < d->n + 2; i++) all[i] = &d->at[i];
  layout_fuse(all, d->n + 2);
}


/* May elements be taken 'many' at once, along the last axis? */
static bool fits (const indexing *d, int64_t many) {
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
static void widen (indexing *d) {
  int many = 16 / d->size, last = d->at[0].rank - 1;
  while (many > 1 && !fits(d, many)) many /= 2;
  if (many == 1) return;
  d->size *= many;
  for (int i = 0; i < d->n + 2; i++) d->at[i].size[last] /= many;
  for (int k = 0; k < d->n; k++) d->times[k] /= many;
  for (int i = 0; i < last; i++) {
    d->at[0].stride[i] /= many;
    d->at[1].stride[i] /= many;
  }
}


/* The axes that are, or are not, among the chosen. */
static iterate pass_of (const indexing *d, const bool *chosen, bool yes) {
  layout outer = {};
  iterate w = {};
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
  for (int k = 0; k < d->n; k++) {
    const view *v = &d->w->in[1 + k];
    w.index[k].data = (const int64_t *)v->data;
    w.index[k].value = v->value.i;
    w.index[k].times = d->times[k];
    w.index[k].limit = d->w->count[2 * k + 1];
  }
  return w;
}

/* }================================================================== */


/*
** {==================================================================
** Which places may meet
** ===================================================================
*/

/* Places that rows reach: multiples of 'step' from 'least' on, over a length of 'reach'. */
typedef struct span { int64_t least, reach, step; } span;

static void extend (span *s, int64_t stride, int64_t size) {
  int64_t a = s->step, b = distance(stride);
  if (size <= 1 || stride == 0) return;
  s->reach += b * (size - 1);
  if (stride < 0) s->least -= b * (size - 1);
  while (b != 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  s->step = a;
}


/* Of the axes that are not chosen, and of all positions. 'step' is 0 where there is one place. */
static span span_of (const indexing *d, const bool *chosen) {
  span s = {0, 0, 0};
  for (int i = 0; i < d->at[1].rank; i++)
    if (!chosen[i]) extend(&s, d->at[1].stride[i], d->at[1].size[i]);
  for (int k = 0; k < d->n; k++) extend(&s, d->times[k], d->w->count[2 * k + 1]);
  return s;
}


/* The chosen axis with the least stride above 'least'; -1: none. */
static int next_axis (const indexing *d, const bool *chosen, int64_t least) {
  int next = -1;
  for (int i = 0; i < d->at[1].rank; i++) {
    int64_t stride = distance(d->at[1].stride[i]);
    if (chosen[i] && stride > least &&
        (next < 0 || stride < distance(d->at[1].stride[next])))
      next = i;
  }
  return next;
}


/*
** Do elements that differ along the chosen axes never meet? Those axes have room below the step
** of the span, and beyond its reach; each of them goes past what the smaller ones reach.
*/
static bool stay_apart (const indexing *d, const bool *chosen) {
  span s = span_of(d, chosen);
  int64_t reach = 0, least = 0;
  bool beyond = s.step == 0;
  int left = 0;
  for (int i = 0; i < d->at[1].rank; i++) left += chosen[i];
  for (int axis; left > 0 && (axis = next_axis(d, chosen, least)) >= 0; left--) {
    least = distance(d->at[1].stride[axis]);
    if (!beyond && least >= s.step) {
      if (reach >= s.step) return false;
      reach += s.reach;
      beyond = true;
    }
    if (least <= reach) return false;
    reach += least * (d->at[1].size[axis] - 1);
  }
  return left == 0 && (beyond || reach < s.step);
}


/* All axes; or those along which no position changes, if they stay apart; or none. */
static bool choose_all (const indexing *d, bool *chosen) {
  for (int i = 0; i < HEED_RANK; i++) chosen[i] = true;
  return stay_apart(d, chosen);
}

static void choose_columns (const indexing *d, bool *chosen) {
  for (int i = 0; i < d->at[1].rank; i++) {
    chosen[i] = d->at[1].stride[i] != 0;
    for (int k = 0; k < d->n; k++) chosen[i] = chosen[i] && d->at[k + 2].stride[i] == 0;
  }
  if (!stay_apart(d, chosen)) memset(chosen, 0, HEED_RANK * sizeof *chosen);
}

/* }================================================================== */


/*
** {==================================================================
** Scatter where places may meet
** ===================================================================
*/

static shared_buffer shared_buffer_of (const indexing *d, const bool *chosen, const iterate *rows) {
  iterate columns = pass_of(d, chosen, true);
  span s = span_of(d, chosen);
  shared_buffer m;
  m.rows = m.columns = 1;
  for (int i = 0; i < rows->at.rank; i++) m.rows *= rows->at.size[i];
  for (int i = 0; i < columns.at.rank; i++) m.columns *= columns.at.size[i];
  m.least = s.least;
  m.step = s.step > 0 ? s.step : 1;
  m.row = rows->at;
  m.column = columns.at;
  memcpy(m.to, columns.inner, sizeof m.to);
  return m;
}


static const char *order_rows (const indexing *d, const iterate &rows, const shared_buffer &m,
                               int64_t reach, ordered *o) {
  cuda *self = d->self;
  int bits = 0;
  if (m.rows >= ORDER_LIMIT) return "2^32 rows are too many to be scattered";
  while (bits < 63 && reach / m.step >> bits > 0) bits++;
  uint64_t *keys = (uint64_t *)cuda_scratch(self, (size_t)m.rows * sizeof *keys);
  if (keys == NULL) return cuda_no_memory;
  const char *why = launch(self, cuda_blocks(self, m.rows, THREADS), THREADS, 0, make_keys, rows,
                           m, keys, cuda_faults(self));
  return why != NULL ? why : cuda_order(self, m.rows, bits, keys, o);
}


/* Sums of windows, then of what they left, until a single window leaves nothing. */
template <class S>
static const char *add_rows (const indexing *d, const shared_buffer &m, const ordered &o) {
  typedef COMPUTED(S) T;
  cuda *self = d->self;
  summing<T> s = {m.rows, o.keys, o.at, NULL, NULL, NULL};
  for (;;) {
    int64_t windows = (s.n + WINDOW - 1) / WINDOW;
    size_t left = (size_t)(2 * windows);
    s.keys_to = (uint64_t *)cuda_scratch(self, left * sizeof(uint64_t));
    s.sums_to = (T *)cuda_scratch(self, left * (size_t)m.columns * sizeof(T));
    if (s.keys_to == NULL || s.sums_to == NULL) return cuda_no_memory;
    const char *why = launch(self, cuda_blocks(self, windows * m.columns, THREADS), THREADS, 0,
                             sum_windows<S, T>, m, s, (S *)d->inner, (const S *)d->outer);
    if (why != NULL || windows == 1) return why;
    s = summing<T>{2 * windows, s.keys_to, NULL, s.sums_to, NULL, NULL};
  }
}


template <class C>
static const char *put_rows (const indexing *d, const shared_buffer &m, const ordered &o) {
  return launch(d->self, cuda_blocks(d->self, m.rows * m.columns, THREADS), THREADS, 0,
                put_last<C>, m, (C *)d->inner, (const C *)d->outer, o);
}


#define BY_SIZE(bytes, ...) switch (bytes) { \
    TYPE_CASE(1, uint8_t, __VA_ARGS__) TYPE_CASE(2, uint16_t, __VA_ARGS__) \
    TYPE_CASE(4, uint32_t, __VA_ARGS__) TYPE_CASE(8, uint64_t, __VA_ARGS__) \
    TYPE_CASE(16, uint4, __VA_ARGS__) default: break; }

static const char *scatter_buffer (const indexing *d) {
  bool chosen[HEED_RANK];
  ordered o;
  choose_columns(d, chosen);
  iterate rows = pass_of(d, chosen, false);
  shared_buffer m = shared_buffer_of(d, chosen, &rows);
  const char *why = order_rows(d, rows, m, span_of(d, chosen).reach, &o);
  if (why != NULL) return why;
  if (d->w->op == SCATTER_ADD) { FOR_TYPE(d->w->in[0].type, return add_rows<S>(d, m, o)) }
  else { BY_SIZE(d->size, return put_rows<S>(d, m, o)) }
  return NULL;
}

/* }================================================================== */


/* An index of which no position can be right; -1: there is none. */
static int empty_index (const work *w) {
  for (int k = 0; k < w->nin - 1; k++)
    if (w->count[2 * k + 1] == 0) return k;
  return -1;
}


static const char *refuse (cuda *self, const view *index) {
  return launch(self, 1, 1, 0, refuse_first, (const int64_t *)index->data, index->value.i,
                cuda_faults(self));
}


const char *cuda_gather (cuda *self, const work *w) {
  indexing d;
  const bool all[HEED_RANK] = {};
  if (layout_numel(&w->out[0].at) == 0) return NULL;
  if (empty_index(w) >= 0) return refuse(self, &w->in[1 + empty_index(w)]);
  begin(&d, self, w, &w->out[0], &w->in[0]);
  widen(&d);
  int64_t n = layout_numel(&d.at[0]);
  iterate elements = pass_of(&d, all, false);
  BY_SIZE(d.size, return launch(self, cuda_blocks(self, n, THREADS), THREADS, 0, gather<S>,
                                elements, (S *)d.outer, (const S *)d.inner, n, cuda_faults(self)))
  return NULL;
}


static const char *scatter_apart (indexing *d) {
  cuda *self = d->self;
  const bool all[HEED_RANK] = {};
  bool adds = d->w->op == SCATTER_ADD;
  if (!adds) widen(d);
  int64_t n = layout_numel(&d->at[0]);
  iterate elements = pass_of(d, all, false);
  dim3 blocks = cuda_blocks(self, n, THREADS);
  if (adds) {
    FOR_TYPE(d->w->in[0].type, return launch(self, blocks, THREADS, 0, add_apart<S>, elements,
                                             (S *)d->inner, (const S *)d->outer, n,
                                             cuda_faults(self)))
  }
  else {
    BY_SIZE(d->size, return launch(self, blocks, THREADS, 0, put_apart<S>, elements,
                                   (S *)d->inner, (const S *)d->outer, n, cuda_faults(self)))
  }
  return NULL;
}


const char *cuda_scatter (cuda *self, const work *w) {
  indexing d;
  bool chosen[HEED_RANK];
  if (layout_numel(&w->in[0].at) == 0) return NULL;
  if (empty_index(w) >= 0) return refuse(self, &w->in[1 + empty_index(w)]);
  begin(&d, self, w, &w->in[0], &w->out[0]);
  return choose_all(&d, chosen) ? scatter_apart(&d) : scatter_buffer(&d);
}
