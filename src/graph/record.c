/*
** record.c - how a call becomes a node, and what becomes of it in place.
*/

#include <string.h>

#include "graph/backward.h"
#include "graph/make.h"
#include "graph/record.h"

static int edges_of (const heed_parameter *p, const heed_value *v) {
  if (p->want == HEED_WANT_TENSOR) return 1;
  if (p->want == HEED_WANT_TENSORS) return v->kind == HEED_TENSORS ? v->n : 0;
  return 0;
}


static bool refuse_edges (heed_context *cx, heed_op op) {
  return core_fail(cx, core_op_name(op), "at most %d tensors can be given while gradients are "
                   "recorded", OP_EDGES);
}


int op_edges (heed_context *cx, heed_op op, const heed_value *args, heed_tensor *ts[OP_EDGES]) {
  const heed_signature *signature = op_signature(cx, op);
  int n = 0;
  for (int i = 0; i < signature->parameters; i++) {
    const heed_value *v = &args[i];
    int edges = edges_of(&signature->parameter[i], v);
    if (edges > OP_EDGES - n) { refuse_edges(cx, op); return -1; }
    for (int k = 0; k < edges; k++)
      ts[n++] = v->kind == HEED_TENSORS ? v->tensors[k] : v->kind == HEED_TENSOR ? v->tensor : NULL;
  }
  return n;
}


/*
** {==================================================================
** Views whose base was changed in place
** ===================================================================
*/

/* The node that reads t's part of its base, a result of 'whole'. */
static node *view_node (heed_tensor *t, node *whole, int output) {
  const heed_tensor *base = tensor_base(t);
  node *n = node_new(t->cx, NODE_VIEW, HEED_view,
                     (node_size){.edges = 1, .outputs = 1, .dims = base->at.rank});
  if (n == NULL) return NULL;
  node_set_edge(n, 0, whole, output, base);
  *n->base_at = base->at;
  *n->region = t->at;
  n->type = base->type;
  return n;
}


/* The view t, whose base is up to date, takes n, which it owns now. */
static void take_view_node (heed_tensor *t, node *n) {
  node_take(t, n, 0);
  node_drop(n);
  t->base_order = node_order(t->base->node);
}


node *graph_node_of (heed_tensor *t, int *output) {
  if (tensor_behind(t)) {
    node *n = view_node(t, t->base->node, t->base->output);
    if (n == NULL) return NULL;
    take_view_node(t, n);
  }
  *output = t->output;
  return t->node;
}

/* }================================================================== */


/*
** {==================================================================
** Recording
** ===================================================================
*/

/*
** Brings the nodes of all views up to date, before the node is made whose inputs they are: its
** order is above theirs. False: no memory.
*/
static bool find_nodes (int n, heed_tensor *const *ts, bool *any) {
  int output;
  *any = false;
  for (int i = 0; i < n; i++) {
    if (ts[i] == NULL) continue;
    if (graph_node_of(ts[i], &output) != NULL) *any = true;
    else if (tensor_behind(ts[i])) return false;
  }
  return true;
}


/* Space for the integers of lists, counted in values. */
static int list_capacity (const heed_value *v) {
  if (v->kind != HEED_LIST) return 0;
  return (int)(((size_t)v->n * sizeof(int64_t) + sizeof(heed_value) - 1) / sizeof(heed_value));
}


/* Arguments that are no tensors, kept with the node; integers of lists lie behind them. */
static void keep_args (node *n, const heed_value *args, int nargs) {
  heed_value *lists = n->args + nargs;
  for (int i = 0; i < nargs; i++) {
    n->args[i] = args[i];
    if (args[i].kind == HEED_TENSOR || args[i].kind == HEED_TENSORS || args[i].kind == HEED_TEXT)
      n->args[i] = heed_none();
    else if (args[i].kind == HEED_LIST && args[i].n > 0) {
      memcpy(lists, args[i].list, (size_t)args[i].n * sizeof(int64_t));
      n->args[i].list = (int64_t *)lists;
      lists += list_capacity(&args[i]);
    }
  }
}


/* The node of an input whose gradient is wanted, by now up to date, or NULL. */
static node *node_wanted (const heed_tensor *t) {
  return t != NULL && scalar_is_float(t->type) ? t->node : NULL;
}

/* The inputs whose gradient is wanted, as bits; the inputs of a long list share the last bit. */
static unsigned inputs_wanted (int nedges, heed_tensor *const *ts) {
  unsigned wanted = 0;
  for (int i = 0; i < nedges; i++)
    if (node_wanted(ts[i]) != NULL) wanted |= 1u << (i < OP_INPUTS ? i : OP_INPUTS - 1);
  return wanted;
}


/* Does a gradient that is wanted need input i? Tensors from the last input on are a list. */
static bool saves_input (const op_row *row, unsigned wanted, int i) {
  return (row->saves[i < row->inputs ? i : row->inputs - 1] & wanted) != 0;
}


static bool saves_result (const op_row *row, unsigned wanted, int i) {
  return (row->saves[OP_INPUTS + i] & wanted) != 0;
}


/* Lists the arguments and results of the call, with NULL for those that are not saved. */
static int list_saved (const call *c, const op_row *row, int nedges, heed_tensor *const *ts,
                       const heed_tensor **kept) {
  const unsigned wanted = inputs_wanted(nedges, ts);
  int dims = 0;
  for (int i = 0; i < nedges; i++) {
    kept[i] = saves_input(row, wanted, i) ? ts[i] : NULL;
    if (ts[i] != NULL) dims += ts[i]->at.rank * (kept[i] != NULL ? 2 : 1);
  }
  for (int i = 0; i < row->results; i++) {
    const heed_tensor *y = kept[nedges + i] = saves_result(row, wanted, i) ? c->out[i] : NULL;
    if (y != NULL) dims += 2 * y->at.rank;
  }
  return dims;
}


static node *node_of_call (call *c, const op_row *row, int nedges, heed_tensor *const *ts) {
  const heed_tensor *kept[OP_EDGES + OP_OUTS];
  int nargs = op_signature(c->cx, c->op)->parameters;
  node_size size = {nedges, nedges + row->results, row->results, nargs,
                    list_saved(c, row, nedges, ts, kept)};
  for (int i = 0; i < nargs; i++) size.args += list_capacity(&c->args[i]);
  node *n = node_new(c->cx, NODE_OP, c->op, size);
  if (n == NULL) return NULL;
  keep_args(n, c->args, nargs);
  for (int i = 0; i < size.saved; i++)
    if (kept[i] != NULL) node_save(n, i, kept[i]);
  for (int i = 0; i < nedges; i++)
    if (ts[i] != NULL) node_set_edge(n, i, node_wanted(ts[i]), ts[i]->output, ts[i]);
  return n;
}


/* Each float result gets the node; a result that is an argument gets a handle of its own. */
static bool attach (call *c, node *n, int results, int nedges, heed_tensor *const *ts) {
  for (int i = 0; i < results; i++) {
    heed_tensor *y = c->out[i];
    if (y == NULL || !scalar_is_float(y->type)) continue;
    for (int k = 0; k < nedges; k++) {
      if (y == ts[k] && (y = op_view(y, &y->at)) == NULL) return false;
    }
    c->out[i] = y;
    node_keep(n);
    node_drop(y->node);
    y->node = n;
    y->output = i;
    if (y->base != NULL) y->base_order = node_order(y->base->node);
  }
  return true;
}


/* Could any argument have a graph? Most calls without gradients end here. */
static bool nothing_to_record (const call *c) {
  if (!scalar_is_float(first_result(c)->type)) return true;
  int n = op_signature(c->cx, c->op)->parameters;
  for (int i = 0; i < n; i++) {
    const heed_value *v = &c->args[i];
    if (v->kind == HEED_TENSORS) return false;
    if (v->kind == HEED_TENSOR && (v->tensor->node != NULL || tensor_base(v->tensor) != NULL))
      return false;
  }
  return true;
}


bool graph_record (call *c, const op_row *row) {
  heed_tensor *ts[OP_EDGES];
  if (nothing_to_record(c)) return true;
  bool any;
  int nedges = op_edges(c->cx, c->op, c->args, ts);
  if (nedges < 0 || !find_nodes(nedges, ts, &any)) return false;
  if (!any) return true;
  node *n = node_of_call(c, row, nedges, ts);
  bool good = n != NULL && attach(c, n, row->results, nedges, ts);
  node_drop(n);
  return good;
}


/* A handle is missing where the call that should have made it failed. */
static bool check_handles (heed_context *cx, const char *what, int n, heed_tensor *const *ts) {
  if (n < 0 || (n > 0 && ts == NULL)) return core_fail(cx, "custom", "there are no %ss", what);
  for (int i = 0; i < n; i++) {
    if (ts[i] == NULL) return core_fail(cx, "custom", "%s %d is missing", what, i + 1);
    if (ts[i]->cx != cx)
      return core_fail(cx, "custom", "%s %d belongs to another context", what, i + 1);
  }
  return true;
}


bool heed_record_custom (heed_context *cx, const heed_custom *custom, int ninputs,
                         heed_tensor *const *inputs, int noutputs, heed_tensor *const *outputs) {
  bool any;
  if (cx == NULL) return false;
  if (custom == NULL || custom->backward == NULL)
    return core_fail(cx, "custom", "there is no backward function");
  if (ninputs > OP_EDGES) return refuse_edges(cx, HEED_NOPS);
  if (!check_handles(cx, "input", ninputs, inputs) ||
      !check_handles(cx, "output", noutputs, outputs))
    return false;
  if (!find_nodes(ninputs, inputs, &any)) return false;
  node_size size = {.edges = ninputs, .outputs = noutputs};
  for (int i = 0; i < ninputs; i++) size.dims += inputs[i]->at.rank;
  node *n = node_new(cx, NODE_CUSTOM, HEED_NOPS, size);
  if (n == NULL) return false;
  for (int i = 0; i < ninputs; i++)
    node_set_edge(n, i, node_wanted(inputs[i]), inputs[i]->output, inputs[i]);
  n->custom = *custom;
  for (int i = 0; i < noutputs; i++) {
    node_keep(n);
    node_drop(outputs[i]->node);
    outputs[i]->node = n;
    outputs[i]->output = i;
  }
  node_drop(n);
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** In place
** ===================================================================
*/

/* Would a change of t in place be recorded on what t is a view of? If that has a graph, it must. */
bool graph_check_view (const heed_tensor *t, bool recorded, heed_op op) {
  const heed_tensor *whole = tensor_viewed(t);
  if (!t->cx->scope.recording || !t->detached_view || whole == NULL) return true;
  if (!recorded && whole->node == NULL) return true;
  return core_fail(t->cx, op_signature(t->cx, op)->in_place_name, "a view that was made without "
                   "gradients is changed in place; make it again, or use heed.no_grad");
}


/* The base becomes "what it was, with this region laid over it". */
static node *overlay_node (heed_tensor *target, heed_tensor *y, heed_op op) {
  heed_tensor *base = tensor_base(target);
  node *n = node_new(target->cx, NODE_OVERLAY, op,
                     (node_size){.edges = 2, .outputs = 1,
                                 .dims = base->at.rank + target->at.rank});
  if (n == NULL) return NULL;
  node_set_edge(n, 0, base->node, base->output, base);
  node_set_edge(n, 1, y->node, y->output, target);
  *n->base_at = base->at;
  *n->region = target->at;
  n->type = base->type;
  return n;
}


/*
** A view's own node is made anew from its base when it is next asked for; at once where the view
** retains its gradient, as a pass that goes by would give it that of what it was.
*/
bool graph_overlay_begin (overlay *o, heed_tensor *target, heed_tensor *y, heed_op op) {
  *o = (overlay){NULL, NULL};
  if (tensor_base(target) == NULL) return true;
  o->base = overlay_node(target, y, op);
  if (o->base == NULL || !node_is_retained(target)) return o->base != NULL;
  o->view = view_node(target, o->base, 0);
  if (o->view != NULL) return true;
  node_drop(o->base);
  return false;
}


void graph_overlay_end (const overlay *o, heed_tensor *target, const heed_tensor *y, bool done) {
  if (done && o->base == NULL) node_take(target, y->node, y->output);
  if (done && o->base != NULL) node_take(target->base, o->base, 0);
  if (done && o->view != NULL) take_view_node(target, o->view);
  else node_drop(o->view);
  node_drop(o->base);
}

/* }================================================================== */
