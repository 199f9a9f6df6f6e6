/*
** layout.c - how elements lie in storage.
**
** Layouts are made by layout_dense and layout_broadcast, which check every product, and
** otherwise from layouts: so the arithmetic of the other functions stays within bounds.
*/

#include "base/layout.h"

#include <inttypes.h>
#include <stdio.h>

#define WIDEST 8                   /* bytes of the largest type: bytes fit where elements do */


static int64_t magnitude (int64_t a) { return a < 0 ? -a : a; }


/*
** {==================================================================
** Shapes
** ===================================================================
*/

/* An empty axis counts as one of size 1, so that it excuses no overflow of the others. */
bool layout_dense (layout *at, int rank, const int64_t *size) {
  if (rank < 0 || rank > HEED_RANK) return false;
  at->rank = rank;
  at->offset = 0;
  int64_t n = 1;
  for (int i = rank - 1; i >= 0; i--) {
    if (size[i] < 0) return false;
    at->size[i] = size[i];
    at->stride[i] = n;
    if (size[i] > 1 && !layout_times(n, size[i], &n)) return false;
  }
  return n <= INT64_MAX / WIDEST;
}


bool layout_is_dense (const layout *at) {
  int64_t n = 1;
  bool gaps = false;
  for (int i = at->rank - 1; i >= 0; i--) {
    if (at->size[i] == 0) return true;
    if (at->size[i] == 1) continue;
    gaps |= at->stride[i] != n;
    n *= at->size[i];
  }
  return !gaps;
}


bool layout_same_shape (const layout *a, const layout *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->size[i] != b->size[i]) return false;
  return true;
}


/* Size of an axis counted from the last one; axes that are not there have size 1. */
static int64_t size_from_end (const layout *at, int i) {
  return i < at->rank ? at->size[at->rank - 1 - i] : 1;
}


bool layout_broadcast (const layout *a, const layout *b, layout *to) {
  int rank = a->rank > b->rank ? a->rank : b->rank;
  int64_t size[HEED_RANK];
  for (int i = 0; i < rank; i++) {
    int64_t x = size_from_end(a, i), y = size_from_end(b, i);
    if (x != y && x != 1 && y != 1) return false;
    size[rank - 1 - i] = x == 1 ? y : x;
  }
  return layout_dense(to, rank, size);
}


bool layout_expand (const layout *at, const layout *to, layout *result) {
  int added = to->rank - at->rank;
  if (added < 0) return false;
  layout view = *to;
  view.offset = at->offset;
  for (int i = 0; i < to->rank; i++) {
    int64_t size = i < added ? 1 : at->size[i - added];
    if (size != 1 && size != to->size[i]) return false;
    view.stride[i] = size == 1 ? 0 : at->stride[i - added];
  }
  *result = view;
  return true;
}


bool layout_axis (int rank, int64_t axis, int *result) {
  int axes = rank > 0 ? rank : 1;
  if (axis < -axes || axis >= axes) return false;
  *result = (int)(axis < 0 ? axis + axes : axis);
  return true;
}


char *layout_text (const layout *at, char text[LAYOUT_TEXT]) {
  char *end = text;
  *end++ = '(';
  for (int i = 0; i < at->rank; i++)
    end += sprintf(end, "%s%" PRId64, i > 0 ? ", " : "", at->size[i]);
  *end++ = ')';
  *end = '\0';
  return text;
}

/* }================================================================== */


/*
** {==================================================================
** Views
** ===================================================================
*/

layout layout_transpose (const layout *at, int a, int b) {
  layout view = *at;
  view.size[a] = at->size[b];
  view.size[b] = at->size[a];
  view.stride[a] = at->stride[b];
  view.stride[b] = at->stride[a];
  return view;
}


layout layout_permute (const layout *at, const int *order) {
  layout view = *at;
  for (int i = 0; i < at->rank; i++) {
    view.size[i] = at->size[order[i]];
    view.stride[i] = at->stride[order[i]];
  }
  return view;
}


layout layout_select (const layout *at, int axis, int64_t position) {
  layout view = layout_remove(at, axis);
  view.offset += position * at->stride[axis];
  return view;
}


/* Where nothing or one element is left, 'step' may be anything: it leaves no trace. */
layout layout_narrow (const layout *at, int axis, int64_t start, int64_t length, int64_t step) {
  layout view = *at;
  view.size[axis] = length;
  if (length > 0) view.offset += start * at->stride[axis];
  if (length > 1) view.stride[axis] *= step;
  return view;
}


layout layout_flip (const layout *at, int axis) {
  layout view = *at;
  if (at->size[axis] > 0) view.offset += (at->size[axis] - 1) * at->stride[axis];
  view.stride[axis] = -at->stride[axis];
  return view;
}


layout layout_insert (const layout *at, int axis) {
  layout view = *at;
  for (int i = at->rank; i > axis; i--) {
    view.size[i] = at->size[i - 1];
    view.stride[i] = at->stride[i - 1];
  }
  view.rank++;
  view.size[axis] = 1;
  view.stride[axis] = axis < at->rank ? at->size[axis] * at->stride[axis] : 1;
  return view;
}


layout layout_remove (const layout *at, int axis) {
  layout view = *at;
  view.rank--;
  for (int i = axis; i < view.rank; i++) {
    view.size[i] = at->size[i + 1];
    view.stride[i] = at->stride[i + 1];
  }
  return view;
}


/*
** Strides for the sizes of 'to' over 'at', none of them empty and 'at' with an axis: at's axes fall
** into runs that lie like one axis, from the last on, and each run must be used up by new axes.
*/
static bool follow (const layout *at, layout *to) {
  int new = to->rank - 1;
  int64_t old_run = 1, new_run = 1, innermost = at->stride[at->rank - 1];
  for (int old = at->rank - 1; old >= 0; old--) {
    old_run *= at->size[old];
    if (old > 0 && (at->size[old - 1] == 1 || at->stride[old - 1] == old_run * innermost))
      continue;                    /* the run goes on */
    while (new >= 0 && (new_run < old_run || to->size[new] == 1)) {
      to->stride[new] = new_run * innermost;
      new_run *= to->size[new--];
    }
    if (new_run != old_run) return false;
    if (old > 0) innermost = at->stride[old - 1];
    old_run = new_run = 1;
  }
  return new == -1;
}


/* As PyTorch's view does it (computeStride in ATen/TensorUtils.cpp). */
bool layout_reshape (const layout *at, int rank, const int64_t *size, layout *result) {
  layout to;
  if (!layout_dense(&to, rank, size) || layout_numel(&to) != layout_numel(at)) return false;
  to.offset = at->offset;
  if (layout_same_shape(at, &to)) to = *at;
  else if (at->rank > 0 && layout_numel(at) > 0 && !follow(at, &to)) return false;
  *result = to;
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Memory
** ===================================================================
*/

int layout_block_axis (const layout *at, int64_t elements) {
  int axis = -1;
  if (at->offset % elements != 0) return -1;
  for (int i = 0; i < at->rank; i++) {
    bool row = at->stride[i] == 1 && at->size[i] > 1;
    if (row ? axis >= 0 || at->size[i] % elements != 0
            : at->size[i] > 1 && at->stride[i] % elements != 0) return -1;
    if (row) axis = i;
  }
  return axis;
}


void layout_reach (const layout *at, int64_t *first, int64_t *last) {
  *first = *last = at->offset;
  for (int i = 0; i < at->rank; i++) {
    int64_t way = (at->size[i] - 1) * at->stride[i];
    if (at->size[i] == 0) { *last = at->offset - 1; *first = at->offset; return; }
    *(way < 0 ? first : last) += way;
  }
}


/* Axes of more than one element, from the smallest stride to the largest. */
static int sort_axes (const layout *at, int axis[HEED_RANK]) {
  int n = 0;
  for (int i = 0; i < at->rank; i++) {
    if (at->size[i] <= 1) continue;
    int k = n++;
    for (; k > 0 && magnitude(at->stride[axis[k - 1]]) > magnitude(at->stride[i]); k--)
      axis[k] = axis[k - 1];
    axis[k] = i;
  }
  return n;
}


bool layout_is_packed (const layout *at) {
  int axis[HEED_RANK], n = sort_axes(at, axis);
  int64_t run = 1;
  for (int k = 0; k < n; k++) {
    if (at->stride[axis[k]] != run) return false;
    run *= at->size[axis[k]];
  }
  return true;
}


/*
** No overlap if every step along an axis leaves what the axes of smaller steps reach. Layouts
** that interleave without sharing an element are said to overlap; no operation makes one.
*/
bool layout_overlaps_itself (const layout *at) {
  int axis[HEED_RANK], n = sort_axes(at, axis);
  int64_t reach = 0;
  if (layout_numel(at) == 0) return false;
  for (int k = 0; k < n; k++) {
    int64_t step = magnitude(at->stride[axis[k]]);
    if (step <= reach) return true;
    reach += (at->size[axis[k]] - 1) * step;
  }
  return false;
}


/* Does axis i, of 'size', follow on axis 'last' in all n layouts? */
static bool follows (layout *const *at, int n, int last, int i, int64_t size) {
  for (int k = 0; k < n; k++)
    if (at[k]->stride[last] != size * at[k]->stride[i]) return false;
  return true;
}


static void put_axis (layout *const *at, int n, int from, int to, int64_t size) {
  for (int k = 0; k < n; k++) {
    at[k]->stride[to] = at[k]->stride[from];
    at[k]->size[to] = size;
  }
}


void layout_fuse (layout *const *at, int n) {
  int rank = at[0]->rank, last = -1;
  int64_t run = 0;                 /* elements of the last axis so far */
  for (int i = 0; i < rank; i++) {
    int64_t size = at[0]->size[i];
    if (size == 1) continue;
    if (last >= 0 && follows(at, n, last, i, size)) put_axis(at, n, i, last, run *= size);
    else if (++last == i) run = size;            /* is where it belongs */
    else put_axis(at, n, i, last, run = size);
  }
  for (int k = 0; k < n; k++) at[k]->rank = last + 1;
}

/* }================================================================== */
