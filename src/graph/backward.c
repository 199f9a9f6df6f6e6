/*
** backward.c - the backward function of a node: its row's, a view's, an overlay's or the host's.
*/

#include "graph/call.h"
#include "graph/make.h"
#include "graph/pass.h"


heed_tensor *input (backward *b, int i) { return op_hold(b->cx, node_saved(b->n, i)); }
heed_tensor *output (backward *b, int i) {
  return op_hold(b->cx, node_saved(b->n, b->n->nedges + i));
}
bool has_input (const backward *b, int i) { return b->n->saved[i].present; }


bool give (backward *b, int i, heed_tensor *g) {
  if (g == NULL) return false;
  if (wants(b, i)) b->given[i] = g;
  return true;
}


/* A dense buffer that spans the storage of n's base and region, and the part that 'at' names. */
static heed_tensor *spanning (const node *n, int64_t *first) {
  int64_t last, start, end;
  layout_reach(n->base_at, first, &last);
  layout_reach(n->region, &start, &end);
  if (start < *first) *first = start;
  if (end > last) last = end;
  int64_t size = last - *first + 1;
  layout shape;
  return layout_dense(&shape, 1, &size) ? op_zeros(n->cx, n->type, &shape) : NULL;
}


static heed_tensor *part (heed_tensor *buffer, const layout *at, int64_t first) {
  layout moved = *at;
  moved.offset -= first;
  return op_view(buffer, &moved);
}


static bool copy (heed_context *cx, heed_tensor *to, heed_tensor *from, bool add) {
  if (to == NULL || from == NULL) return false;
  work w;
  if (add) work_scatter(&w, SCATTER_ADD, 0, view_of(to), view_of(from));
  else work_copy(&w, COPY_APART, view_of(to), view_of(from));
  return op_run_for(cx, HEED_copy, &w);
}


/* The inputs of the nodes that are made without a row: a view's base; an overlay's. */
enum { VIEW_BASE = 0, OVERLAY_BASE = 0, OVERLAY_REGION = 1 };

static bool grad_part (backward *b) {
  int64_t first;
  heed_tensor *buffer = spanning(b->n, &first);
  if (buffer == NULL) return false;
  heed_tensor *region = part(buffer, b->n->region, first);
  if (!copy(b->cx, region, b->g, layout_overlaps_itself(b->n->region))) return false;
  return give(b, VIEW_BASE, part(buffer, b->n->base_at, first));
}


/* The elements under the region have no influence; the source gets the region's part of g. */
static bool grad_overlay (backward *b) {
  int64_t first;
  heed_tensor *buffer = spanning(b->n, &first);
  if (buffer == NULL) return false;
  heed_tensor *base = part(buffer, b->n->base_at, first);
  heed_tensor *region = part(buffer, b->n->region, first);
  if (!copy(b->cx, base, b->g, false)) return false;
  if (wants(b, OVERLAY_REGION) && !give(b, OVERLAY_REGION, op1(HEED_clone, region))) return false;
  if (region == NULL) return false;
  return heed_apply_in_place(b->cx, HEED_zero, (heed_value[]){heed_t(region)}, 1) &&
         give(b, OVERLAY_BASE, base);
}


static bool grad_custom (backward *b) {
  node *n = b->n;
  heed_tensor *results[OP_EDGES] = {NULL};
  if (!n->custom.backward(n->custom.self, n->noutputs, n->incoming, n->nedges, results)) {
    if (!b->cx->failure.set) core_fail(b->cx, "custom", "backward failed");
    return false;
  }
  bool good = true;
  for (int i = 0; i < n->nedges; i++) {
    heed_tensor *g = op_hold(b->cx, results[i]);
    if (results[i] == NULL) continue;
    char want[LAYOUT_TEXT], got[LAYOUT_TEXT];
    if (g == NULL) good = false;
    else if (good && g->cx != b->cx)
      good = core_fail(b->cx, "custom", "backward gave a gradient of another context");
    else if (good && !edge_has_shape(&n->edges[i], &g->at)) {
      layout shape = shape_of(b, i);
      good = core_fail(b->cx, "custom", "backward gave input %d a gradient of shape %s, not %s",
                       i + 1, layout_text(&g->at, got), layout_text(&shape, want));
    }
    else if (good) give(b, i, g);
  }
  return good;
}


static bool call_backward (backward *b) {
  switch (b->n->kind) {
    case NODE_VIEW: return grad_part(b);
    case NODE_OVERLAY: return grad_overlay(b);
    case NODE_CUSTOM: return grad_custom(b);
    case NODE_OP: return op_row_of(b->cx, b->op)->grad(b);
    case NODE_LEAF: return true;
  }
  return false;
}


/* Messages name the operation whose gradient fails, not the one that asked for it. */
bool backward_apply (backward *b) {
  heed_context *cx = b->cx;
  const scope before = scope_begin(cx);
  cx->scope.caller = core_op_name(b->op);
  bool good = call_backward(b);
  if (!good && !cx->failure.set)
    core_fail(cx, NULL, "its backward function failed: does 'saves' of its row name all it reads?");
  scope_end(cx, &before);
  return good;
}
