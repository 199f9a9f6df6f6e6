/*
** backward.c - the backward function of a node: its row's, a view's, an overlay's or the host's.
*/

#include "graph/call.h"
#include "graph/make.h"
#include "graph/pass.h"


/* A saved value that is a result of 'from', where gradients are recorded. */
static heed_tensor *saved_of (backward *b, int i, node *from, int result) {
  heed_tensor *t = op_hold(b->cx, node_saved(b->n, i));
  if (t == NULL || from == NULL || !composes(b) || !scalar_is_float(t->type)) return t;
  node_keep(from);
  t->node = from;
  t->output = result;
  return t;
}

heed_tensor *input (backward *b, int i) {
  return saved_of(b, i, b->n->edges[i].node, b->n->edges[i].output);
}
heed_tensor *constant_output (backward *b, int i) {
  return saved_of(b, b->n->nedges + i, NULL, 0);
}
/* Hidden results have no gradient. */
heed_tensor *output (backward *b, int i) {
  bool hidden = b->n->kind == NODE_OP && i >= op_signature(b->cx, b->op)->results;
  if (!hidden || !composes(b)) return saved_of(b, b->n->nedges + i, b->n, i);
  graph_no_second(b->cx, b->op);
  return NULL;
}
bool has_input (const backward *b, int i) { return b->n->saved[i].present; }


bool give (backward *b, int i, heed_tensor *g) {
  if (g == NULL) return false;
  if (wants(b, i)) b->given[i] = g;
  return true;
}


static bool grad_custom (backward *b) {
  node *n = b->n;
  heed_tensor *results[OP_EDGES] = {NULL};
  b->cx->scope.composing = false;      /* what it calls knows whether to record, */
  b->cx->scope.gradient = false;       /* and works as it does elsewhere */
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
    case NODE_VIEW: return grad_region(b);
    case NODE_OVERLAY: return grad_overlay(b);
    case NODE_CUSTOM: return grad_custom(b);
    case NODE_OP: return op_row_of(b->cx, b->op)->grad(b);
    case NODE_LEAF: return true;
  }
  return false;
}


/* A profile has the time of the host's own backward function apart from what it calls. */
static heed_region enter_gradient (const backward *b) {
  if (b->cx->profile == NULL) return (heed_region){0};
  return profile_enter_gradient(b->cx, core_op_name(b->op), b->n->kind == NODE_CUSTOM);
}


/* Messages name the operation whose gradient fails, not the one that asked for it. */
bool backward_apply (backward *b) {
  heed_context *cx = b->cx;
  const scope before = scope_begin(cx);
  cx->scope.composing = cx->scope.recording;
  cx->scope.gradient = true;
  cx->scope.layer = b->n->layer;
  if (!composes(b)) cx->scope.caller = core_op_name(b->op);
  const heed_region around = enter_gradient(b);
  bool good = call_backward(b);
  if (cx->profile != NULL) profile_leave(cx, around);
  if (!good && !cx->failure.set)
    core_fail(cx, NULL, "its backward function failed: does 'saves' of its row name all it reads?");
  scope_end(cx, &before);
  return good;
}
