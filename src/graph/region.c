/*
** region.c - gradients of a view that is made anew from its base, and of a base that has a region
** laid over it: both lie in a row of all elements that base and region span.
*/

#include "graph/call.h"
#include "graph/make.h"
#include "graph/pass.h"


/* The inputs of the nodes that are made without a row: a view's base; an overlay's. */
enum { VIEW_BASE = 0, OVERLAY_BASE = 0, OVERLAY_REGION = 1 };

/* Elements of a storage that lie in a row. */
typedef struct span { int64_t first, size; } span;


static span spanned (const node *n) {
  int64_t first, last, start, end;
  layout_reach(n->base_at, &first, &last);
  layout_reach(n->region, &start, &end);
  if (start < first) first = start;
  if (end > last) last = end;
  return (span){first, last - first + 1};
}


static heed_tensor *new_row (const node *n, span s) {
  layout shape;
  return layout_dense(&shape, 1, &s.size) ? op_zeros(n->cx, n->type, &shape) : NULL;
}


static heed_tensor *part (heed_tensor *row, const layout *at, span s) {
  layout moved = *at;
  moved.offset -= s.first;
  return op_view(row, &moved);
}


static bool copy (heed_context *cx, heed_tensor *to, heed_tensor *from, bool add) {
  if (to == NULL || from == NULL) return false;
  work w;
  if (add) work_scatter(&w, SCATTER_ADD, 0, false, view_of(to), view_of(from));
  else work_copy(&w, COPY_APART, view_of(to), view_of(from));
  return op_run_for(cx, HEED_copy, &w);
}


/*
** {==================================================================
** Of operations, for gradients that are recorded
** ===================================================================
*/

/* g summed over the axes along which the layout repeats an element; they have size 1 in it then. */
static heed_tensor *summed (heed_tensor *g, layout *at) {
  int64_t axes[HEED_RANK];
  int n = 0;
  for (int i = 0; i < at->rank; i++) {
    if (at->stride[i] != 0 || at->size[i] < 2) continue;
    at->size[i] = 1;
    axes[n++] = i;
  }
  if (n == 0) return g;
  return op_call(g->cx, HEED_sum, 3, (heed_value[]){heed_t(g), heed_l(n, axes), heed_b(true)});
}


/* g as a row, its axes in the order in which a packed layout has them. */
static heed_tensor *in_order (heed_tensor *g, const layout *at, int64_t size) {
  int64_t order[HEED_RANK];
  for (int i = 0, k; i < at->rank; order[k] = i, i++)
    for (k = i; k > 0 && at->stride[order[k - 1]] < at->stride[i]; k--) order[k] = order[k - 1];
  if (at->rank > 1)
    g = op_call(g->cx, HEED_permute, 2, (heed_value[]){heed_t(g), heed_l(at->rank, order)});
  if (g == NULL) return NULL;
  return op_call(g->cx, HEED_reshape, 2, (heed_value[]){heed_t(g), heed_l(1, &size)});
}


/* The row with values at a part of it: instead of what is there, or added to that. */
static heed_tensor *with_values (heed_tensor *row, const layout *at, span s, heed_tensor *values,
                                 bool add) {
  if (row == NULL || values == NULL || layout_numel(at) == 0) return row;
  heed_context *cx = row->cx;
  heed_value range[] = {heed_i(1), heed_i(s.size), heed_i(1)};
  heed_tensor *positions = part(op_call(cx, HEED_arange, 3, range), at, s);
  if (positions == NULL) return NULL;
  heed_value args[] = {heed_t(row), heed_ts(1, &positions), heed_t(values), heed_b(add)};
  return op_call(cx, HEED_put, 4, args);
}


static heed_tensor *composed_row (backward *b, const layout *where, span s) {
  layout at = *where;
  heed_tensor *g = summed(b->g, &at);
  if (g != NULL && s.size > 0 && layout_numel(&at) == s.size && layout_is_packed(&at))
    return in_order(g, &at, s.size);
  return with_values(new_row(b->n, s), &at, s, g, true);
}

/* }================================================================== */


/* A row with g where 'at' has its elements, and zeros elsewhere. */
static heed_tensor *row_of_gradient (backward *b, const layout *at, span s) {
  if (composes(b)) return composed_row(b, at, s);
  heed_tensor *row = new_row(b->n, s);
  if (row == NULL) return NULL;
  return copy(b->cx, part(row, at, s), b->g, layout_overlaps_itself(at)) ? row : NULL;
}


bool grad_region (backward *b) {
  const span s = spanned(b->n);
  heed_tensor *row = row_of_gradient(b, b->n->region, s);
  return row != NULL && give(b, VIEW_BASE, part(row, b->n->base_at, s));
}


static bool clear (heed_tensor *t) {
  return t != NULL && heed_apply_in_place(t->cx, HEED_zero, (heed_value[]){heed_t(t)}, 1);
}


/* The elements under the region have no influence; the source gets the region's part of g. */
bool grad_overlay (backward *b) {
  const span s = spanned(b->n);
  const layout *at = b->n->region;
  heed_tensor *row = row_of_gradient(b, b->n->base_at, s), *region = part(row, at, s);
  if (region == NULL) return false;
  if (wants(b, OVERLAY_REGION) && !give(b, OVERLAY_REGION, op1(HEED_clone, region))) return false;
  if (composes(b)) row = with_values(row, at, s, op_integer(b->cx, 0), false);
  else if (!clear(region)) return false;
  return give(b, OVERLAY_BASE, part(row, b->n->base_at, s));
}
