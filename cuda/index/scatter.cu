/*
** scatter.cu - writes elements by position, or adds them to what is there.
**
** Where two elements may have one target, targets are sorted, stably, so that the elements of one
** target are neighbours in row-major order: the last one is what is set, and sums are made of
** windows of 32, then of windows of the sums that those did not complete, until there is one
** window. The order of additions is therefore fixed.
*/

#include "cuda/index/index.h"
#include "cuda/index/sort.h"

#define WINDOW 32
#define BATCH 4
#define NO_KEY (~0ull)


/*
** {==================================================================
** Elements of distinct targets, each for itself
** ===================================================================
*/

template <class S> KERNEL set_distinct (iteration w, S *to, const S *from, int64_t n, faults f) {
  for (int64_t i = first_index(); i < n; i += index_step())
    to[offset_by(w.at, w.inner, i) + displacement(w, f, i)] = from[element_offset(w.at, i)];
}


template <class S> KERNEL add_distinct (iteration w, S *to, const S *from, int64_t n, faults f) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    S *y = &to[offset_by(w.at, w.inner, i) + displacement(w, f, i)];
    *y = convert<S>(wide(*y) + wide(from[element_offset(w.at, i)]));
  }
}

/* }================================================================== */


/*
** {==================================================================
** Rows that may have one target: they are sorted by it; the columns of a row have distinct ones
** ===================================================================
*/

typedef struct target_rows {
  int64_t rows, columns;
  int64_t least, step;             /* a row's target = least + key * step */
  path row, column;                /* of the source */
  int64_t to[HEED_RANK];           /* strides of the columns' targets */
} target_rows;

KERNEL make_keys (iteration w, target_rows m, uint64_t *keys, faults f) {
  for (int64_t i = first_index(); i < m.rows; i += index_step()) {
    int64_t at = offset_by(w.at, w.inner, i) + displacement(w, f, i) - m.least;
    keys[i] = (uint64_t)at / (uint64_t)m.step;
  }
}

INLINE int64_t target_of (const target_rows &m, uint64_t key, int64_t column) {
  return m.least + (int64_t)key * m.step + offset_by(m.column, m.to, column);
}


template <class S> KERNEL set_last (target_rows m, S *to, const S *from, ordered o) {
  for (int64_t t = first_index(); t < m.rows * m.columns; t += index_step()) {
    int64_t i = t / m.columns, column = t - i * m.columns;
    if (i + 1 < m.rows && o.keys[i + 1] == o.keys[i]) continue;
    to[target_of(m, o.keys[i], column)] =
        from[element_offset(m.row, o.at[i]) + element_offset(m.column, column)];
  }
}


/* The operand of a pass: sorted rows; or the sums (n, columns) of the windows of the pass before,
   two for each window. */
template <class T> struct summing {
  int64_t n;
  const uint64_t *keys;
  const uint32_t *at;              /* of rows; NULL: sums */
  const T *sums;
  uint64_t *keys_to;               /* of the first and the last sum of each window */
  T *sums_to;                      /* those sums, which may continue in other windows */
};

/* Does the sum at i, the first of a window, continue that of the window before? */
template <class T> INLINE bool continues (const summing<T> &s, int64_t i) {
  if (i == 0 || i >= s.n) return false;
  return s.at != NULL ? s.keys[i] == s.keys[i - 1] : s.keys[i] != NO_KEY;
}

template <class S, class T>
INLINE T addend (const target_rows &m, const summing<T> &s, const S *from, int64_t i,
                 int64_t column) {
  if (s.at == NULL) return s.sums[i * m.columns + column];
  return wide(from[element_offset(m.row, s.at[i]) + column]);
}

/* A sum of a window: COMPLETE, it is added to its target; else it is kept for the next round. */
typedef enum sum_state { COMPLETE = -1, FIRST, LAST } sum_state;

template <class S, class T>
INLINE void store_sum (const target_rows &m, const summing<T> &s, sum_state state, int64_t window,
                       uint64_t key, int64_t column, T sum, S *to) {
  int64_t i = 2 * window + state;
  if (state == COMPLETE) {
    S *y = &to[target_of(m, key, column)];
    *y = convert<S>(wide(*y) + sum);
    return;
  }
  if (column == 0) s.keys_to[i] = key;
  s.sums_to[i * m.columns + column] = sum;
}


/* BATCH rows of a window are read at once, before the sums that need them. */
template <class S, class T>
KERNEL sum_windows (target_rows m, summing<T> s, S *to, const S *from) {
  int64_t windows = (s.n + WINDOW - 1) / WINDOW;
  for (int64_t t = first_index(); t < windows * m.columns; t += index_step()) {
    int64_t window = t / m.columns, column = t - window * m.columns;
    int64_t i = window * WINDOW, end = i + WINDOW < s.n ? i + WINDOW : s.n;
    int64_t from_column = s.at != NULL ? element_offset(m.column, column) : column;
    bool first = continues(s, i), last = continues(s, end);
    uint64_t key = NO_KEY;
    T sum = 0;
    if (column == 0) s.keys_to[2 * window + FIRST] = s.keys_to[2 * window + LAST] = NO_KEY;
    for (; i < end; i += BATCH) {
      uint64_t keys[BATCH];
      T x[BATCH];
      for (int j = 0; j < BATCH; j++) keys[j] = i + j < end ? s.keys[i + j] : NO_KEY;
      for (int j = 0; j < BATCH; j++)
        x[j] = keys[j] != NO_KEY ? addend<S, T>(m, s, from, i + j, from_column) : T(0);
      for (int j = 0; j < BATCH; j++) {
        if (keys[j] == NO_KEY) continue;
        if (keys[j] != key && key != NO_KEY) {
          store_sum(m, s, first ? FIRST : COMPLETE, window, key, column, sum, to);
          first = false;
          sum = 0;
        }
        key = keys[j];
        sum += x[j];
      }
    }
    if (key != NO_KEY)
      store_sum(m, s, first ? FIRST : last ? LAST : COMPLETE, window, key, column, sum, to);
  }
}

/* }================================================================== */


/*
** {==================================================================
** Which elements may have one target
** ===================================================================
*/

/* Offsets that rows reach: multiples of 'step' from 'least' on, over a length of 'reach'. */
typedef struct offset_range { int64_t least, reach, step; } offset_range;

static void extend (offset_range *s, int64_t stride, int64_t size) {
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


/* Of the axes that are not chosen, and of all positions. 'step' 0: there is one offset. */
static offset_range range_of (const indexing *d, const bool *chosen) {
  offset_range s = {0, 0, 0};
  for (int i = 0; i < d->at[1].rank; i++)
    if (!chosen[i]) extend(&s, d->at[1].stride[i], d->at[1].size[i]);
  for (int k = 0; k < d->n; k++) extend(&s, d->times[k], d->w->index.size[k]);
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
** Do elements that differ along the chosen axes have distinct targets? They do if each of those
** axes lies below the step of the range or beyond its reach, and its stride is larger than what
** the axes of smaller strides reach.
*/
static bool are_distinct (const indexing *d, const bool *chosen) {
  offset_range s = range_of(d, chosen);
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


/* All axes; or those along which no position changes, if targets are distinct; or none. */
static bool choose_all (const indexing *d, bool *chosen) {
  for (int i = 0; i < HEED_RANK; i++) chosen[i] = true;
  return are_distinct(d, chosen);
}

static void choose_columns (const indexing *d, bool *chosen) {
  for (int i = 0; i < d->at[1].rank; i++) {
    chosen[i] = d->at[1].stride[i] != 0;
    for (int k = 0; k < d->n; k++) chosen[i] = chosen[i] && d->at[k + 2].stride[i] == 0;
  }
  if (!are_distinct(d, chosen)) memset(chosen, 0, HEED_RANK * sizeof *chosen);
}

/* }================================================================== */


/*
** {==================================================================
** Scatter where elements may have one target
** ===================================================================
*/

static target_rows targets_of (const indexing *d, const bool *chosen, const iteration *rows) {
  iteration columns = iteration_over(d, chosen, true);
  offset_range s = range_of(d, chosen);
  target_rows m;
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


static const char *order_rows (const indexing *d, const iteration &rows, const target_rows &m,
                               int64_t reach, ordered *o) {
  cuda *self = d->self;
  int bits = 0;
  if (m.rows >= ORDER_LIMIT) return "2^32 rows are too many to be scattered";
  while (bits < 63 && reach / m.step >> bits > 0) bits++;
  uint64_t *keys = (uint64_t *)cuda_scratch(self, (size_t)m.rows * sizeof *keys);
  if (keys == NULL) return cuda_no_memory;
  const char *why = launch(self, cuda_blocks(self, m.rows, INDEX_THREADS), INDEX_THREADS, 0,
                           make_keys, rows, m, keys, cuda_faults(self));
  return why != NULL ? why : cuda_order(self, m.rows, bits, keys, o);
}


/* Sums of windows, then of the sums that they kept, until there is a single window. */
template <class S>
static const char *add_rows (const indexing *d, const target_rows &m, const ordered &o) {
  typedef COMPUTED(S) T;
  cuda *self = d->self;
  summing<T> s = {m.rows, o.keys, o.at, NULL, NULL, NULL};
  for (;;) {
    int64_t windows = (s.n + WINDOW - 1) / WINDOW;
    size_t kept = (size_t)(2 * windows);
    s.keys_to = (uint64_t *)cuda_scratch(self, kept * sizeof(uint64_t));
    s.sums_to = (T *)cuda_scratch(self, kept * (size_t)m.columns * sizeof(T));
    if (s.keys_to == NULL || s.sums_to == NULL) return cuda_no_memory;
    const char *why = launch(self, cuda_blocks(self, windows * m.columns, INDEX_THREADS),
                             INDEX_THREADS, 0, sum_windows<S, T>, m, s, (S *)d->inner,
                             (const S *)d->outer);
    if (why != NULL || windows == 1) return why;
    s = summing<T>{2 * windows, s.keys_to, NULL, s.sums_to, NULL, NULL};
  }
}


template <class S>
static const char *set_rows (const indexing *d, const target_rows &m, const ordered &o) {
  return launch(d->self, cuda_blocks(d->self, m.rows * m.columns, INDEX_THREADS), INDEX_THREADS, 0,
                set_last<S>, m, (S *)d->inner, (const S *)d->outer, o);
}


static const char *scatter_sorted (const indexing *d) {
  bool chosen[HEED_RANK];
  ordered o;
  choose_columns(d, chosen);
  iteration rows = iteration_over(d, chosen, false);
  target_rows m = targets_of(d, chosen, &rows);
  const char *why = order_rows(d, rows, m, range_of(d, chosen).reach, &o);
  if (why != NULL) return why;
  if (d->w->op == SCATTER_ADD) { FOR_TYPE(d->w->in[0].type, return add_rows<S>(d, m, o)) }
  else { FOR_SIZE(d->size, return set_rows<S>(d, m, o)) }
  return NULL;
}

/* }================================================================== */


static const char *scatter_distinct (indexing *d) {
  cuda *self = d->self;
  bool adds = d->w->op == SCATTER_ADD;
  if (!adds) indexing_widen(d);
  int64_t n = layout_numel(&d->at[0]);
  iteration all = iteration_over_all(d);
  dim3 blocks = cuda_blocks(self, n, INDEX_THREADS);
  if (adds) {
    FOR_TYPE(d->w->in[0].type, return launch(self, blocks, INDEX_THREADS, 0, add_distinct<S>, all,
                                             (S *)d->inner, (const S *)d->outer, n,
                                             cuda_faults(self)))
  }
  else {
    FOR_SIZE(d->size, return launch(self, blocks, INDEX_THREADS, 0, set_distinct<S>, all,
                                    (S *)d->inner, (const S *)d->outer, n, cuda_faults(self)))
  }
  return NULL;
}


const char *cuda_scatter (cuda *self, const work *w) {
  const view *x = &w->in[0], *nothing = index_of_nothing(w);
  bool chosen[HEED_RANK];
  if (w->op != SCATTER_SET && w->op != SCATTER_ADD)
    return cuda_refuse(self, "unknown scatter %d", w->op);
  if (layout_numel(&x->at) == 0) return NULL;
  if (nothing != NULL) return refuse_index(self, nothing);
  indexing d = indexing_of(self, w, x, &w->out[0]);
  return choose_all(&d, chosen) ? scatter_distinct(&d) : scatter_sorted(&d);
}
