/*
** in_place.c - a call whose result is written over its first argument.
*/

#include <string.h>

#include "graph/call.h"
#include "graph/check.h"
#include "graph/make.h"
#include "graph/record.h"
#include "graph/state.h"
#include "tensor/capture.h"


static bool all_recorded (call *c, const heed_value *args) {
  heed_tensor *ts[OP_EDGES];
  int n = op_edges(c->cx, c->op, args, ts), output;
  for (int i = 0; i < n; i++) {
    if (ts[i] != NULL && graph_node_of(ts[i], &output) != NULL) return true;
  }
  return false;
}


/* May 't' be written into? */
static bool check_target (heed_context *cx, const char *name, heed_tensor *t, bool recording) {
  int output;
  if (t->number)
    return core_fail(cx, name, "a number cannot be changed in place");
  if (scalar_is_block(t->type))
    return core_fail(cx, name, "a tensor of blocks, %s, cannot be changed in place",
                     scalar_names[t->type]);
  if (layout_overlaps_itself(&t->at))
    return core_fail(cx, name, "the tensor is expanded: several positions share one element; "
                     "clone() it first");
  node *n = recording ? graph_node_of(t, &output) : NULL;
  if (n != NULL && n->kind == NODE_LEAF)
    return core_fail(cx, name, "a leaf that requires grad is changed in place; use heed.no_grad");
  const heed_tensor *base = tensor_base(t);
  if (n != NULL && base != NULL && base->node != NULL && base->node->kind == NODE_LEAF)
    return core_fail(cx, name, "a view of a leaf that requires grad is changed in place; use "
                     "heed.no_grad");
  return true;
}


static bool check_fits (heed_context *cx, const char *name, const heed_tensor *t,
                        const heed_tensor *y) {
  char have[LAYOUT_TEXT], got[LAYOUT_TEXT];
  if (!layout_same_shape(&t->at, &y->at))
    return core_fail(cx, name, "a result of shape %s does not fit into a tensor of shape %s",
                     layout_text(&y->at, got), layout_text(&t->at, have));
  if (scalar_category(y->type) > scalar_category(t->type))
    return core_fail(cx, name, "a result of type %s cannot be kept in a tensor of type %s",
                     scalar_names[y->type], scalar_names[t->type]);
  return true;
}


static bool copy_into (heed_context *cx, heed_op op, heed_tensor *t, const heed_tensor *y) {
  work w;
  work_copy(&w, COPY_APART, view_of(t), view_of(y));
  return op_run_for(cx, op, &w);
}


/* A handle on a copy of t's values, with t's node: what a node may save. */
static heed_tensor *old_values (heed_tensor *t, node *own, int output) {
  heed_context *cx = t->cx;
  heed_tensor *old = op_new(cx, t->type, &t->at);
  if (old == NULL || !copy_into(cx, HEED_clone, old, t)) return NULL;
  if (own != NULL) {
    node_keep(own);
    old->node = own;
    old->output = output;
  }
  return old;
}


static void mark_changed (heed_tensor *t, heed_op op) {
  t->store->version++;
  t->store->changer = op;
}


/*
** With a graph: computed apart, then copied in; the handle takes the result's node. Random numbers
** (PLAIN rows) have no node, and are written over the copy.
*/
static bool in_place_recorded (call *c, heed_value *given, int n, heed_value *args) {
  heed_tensor *t = given->tensor;
  overlay o;
  int output;
  node *own = graph_node_of(t, &output);
  bool plain = op_row_of(c->cx, c->op)->plain;
  *given = heed_t(old_values(t, plain ? NULL : own, output));
  if (plain) c->into = given->tensor;
  if (given->tensor == NULL || !call_run(c, given, n, args)) return false;
  heed_tensor *y = first_result(c);
  if (!check_fits(c->cx, op_signature(c->cx, c->op)->in_place_name, t, y)) return false;
  if (!graph_overlay_begin(&o, t, y, c->op)) return false;
  const bool done = copy_into(c->cx, c->op, t, y);
  if (done) mark_changed(t, c->op);
  graph_overlay_end(&o, t, y, done);
  return done;
}


static bool in_place_plain (call *c, const heed_value *given, int n, heed_value *args) {
  heed_tensor *t = given->tensor;
  c->into = t;
  c->cx->scope.recording = false;        /* no argument has a graph */
  bool good = call_run(c, given, n, args);
  heed_tensor *y = first_result(c);
  if (!good || !check_fits(c->cx, op_signature(c->cx, c->op)->in_place_name, t, y)) return false;
  if (y != t && !copy_into(c->cx, c->op, t, y)) return false;
  mark_changed(t, c->op);
  return true;
}


static bool apply_to (call *c, heed_tensor *t, const heed_value *given, int n) {
  heed_value args[HEED_ARGUMENTS], first[HEED_ARGUMENTS];
  heed_context *cx = c->cx;
  memcpy(first, given, (size_t)n * sizeof *first);
  memcpy(args, given, (size_t)n * sizeof *args);
  for (int i = n; i < HEED_ARGUMENTS; i++) args[i] = heed_none();
  bool recorded = cx->scope.recording && all_recorded(c, args);
  if (!graph_check_view(t, recorded, c->op)) return false;
  return recorded ? in_place_recorded(c, first, n, args) : in_place_plain(c, given, n, args);
}


bool heed_apply_in_place (heed_context *cx, heed_op op, const heed_value *given, int n) {
  call c = {.cx = cx, .op = op, .in_place = true};
  if (!check_given(cx, op, given, n)) return false;
  const char *name = op_signature(cx, op)->in_place_name;
  if (n < 1 || n > HEED_ARGUMENTS || given->kind != HEED_TENSOR || given->tensor == NULL) {
    core_fail(cx, name, "a tensor expected as the first argument");
    return false;
  }
  heed_tensor *t = given->tensor;
  if (!check_target(cx, name, t, cx->scope.recording) || core_interrupted(cx, name)) return false;
  if (!capture_input(cx, t) || !capture_input(cx, tensor_viewed(t))) return false;
  call_scope s;
  call_begin(cx, name, &s);
  cx->scope.device = tensor_device(t);
  cx->scope.target = t->store;
  heed_keep(t);                    /* arguments may be dropped while memory is made */
  bool good = apply_to(&c, t, given, n);
  call_end(cx, &s);
  heed_drop(t);
  return good;
}


/*
** {==================================================================
** Tensors that are written together. Nothing is recorded.
** ===================================================================
*/

heed_tensor *graph_operand (heed_tensor *t, heed_tensor *x) {
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  heed_context *cx = t->cx;
  const char *name = cx->scope.caller;
  layout wide;
  if (!check_target(cx, name, t, false)) return NULL;
  cx->scope.device = tensor_device(t);
  if (x == NULL) return t;
  if (!tensor_materialize(x)) return NULL;
  if (tensor_device(x) != tensor_device(t))
    return core_fail(cx, name, "tensors on %s and on %s", tensor_where(t)->name,
                     tensor_where(x)->name);
  if (!layout_expand(&x->at, &t->at, &wide))
    return core_fail(cx, name, "a tensor of shape %s cannot be copied to one of shape %s",
                     layout_text(&x->at, have), layout_text(&t->at, want));
  if (x->store == t->store) x = op1(HEED_clone, x);
  if (x != NULL && !layout_same_shape(&x->at, &t->at)) x = op_view(x, &wide);
  return x != NULL && check_fits(cx, name, t, x) ? x : NULL;
}


bool graph_write (heed_tensor *t, const heed_tensor *x, heed_op op, const heed_tensor *number) {
  heed_context *cx = t->cx;
  work w;
  if (layout_numel(&t->at) == 0) return true;
  cx->scope.device = tensor_device(t);
  if (op == HEED_copy) work_copy(&w, COPY_APART, view_of(t), view_of(x));
  else {
    work_map(&w, op, scalar_computing(t->type), x != NULL ? 3 : 2);
    w.out[0] = w.in[0] = view_of(t);
    if (x != NULL) w.in[1] = view_of(x);
    w.in[w.nin - 1] = view_of(number);
  }
  if (!op_run_for(cx, op, &w)) return false;
  mark_changed(t, op);
  return true;
}

/* }================================================================== */
