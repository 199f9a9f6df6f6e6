/*
** leaf.c - leaves of the graph: a tensor becomes one, has a gradient, takes over other memory.
*/

#include <string.h>

#include "tensor/capture.h"
#include "tensor/tensor.h"


static bool is_leaf_node (const node *n) { return n != NULL && n->kind == NODE_LEAF; }

bool heed_requires_grad (const heed_tensor *t) {
  return t != NULL && (t->node != NULL || tensor_behind(t));
}

bool heed_is_leaf (const heed_tensor *t) {
  return t != NULL && !tensor_behind(t) && (t->node == NULL || is_leaf_node(t->node));
}


/* A function that makes tensors has it as an argument. */
static bool check_float (const heed_tensor *t) {
  const char *own = "requires_grad", *caller = t->cx->scope.caller;
  bool argument = caller != NULL && strncmp(caller, own, strlen(own)) != 0;
  return scalar_is_float(t->type) ||
         core_fail_at(t->cx, own, argument ? own : NULL, "float types only, got %s",
                      scalar_names[t->type]);
}


static void put_gradient (node *leaf, heed_tensor *gradient) {
  capture_gradient(leaf, false);
  node_put_gradient(leaf, gradient);
}


/* A frozen leaf has lost its gradient, and no pass adds to it. */
static void set_frozen (node *leaf, bool frozen) {
  leaf->frozen = frozen;
  put_gradient(leaf, NULL);
}


/* The node of a frozen leaf, which is what the tensor has become meanwhile. */
static node *thawed (heed_tensor *t) {
  node *leaf = t->frozen;
  t->frozen = NULL;
  set_frozen(leaf, false);
  *leaf->base_at = t->at;
  leaf->type = t->type;
  return leaf;
}


/* A leaf is no view: later changes of its base are not part of its graph. */
static bool start_graph (heed_tensor *t) {
  if (heed_requires_grad(t)) return true;
  if (!check_float(t) || !tensor_materialize(t)) return false;
  t->node = t->frozen != NULL ? thawed(t) : node_leaf(t->cx, t);
  if (t->node == NULL) return false;
  heed_drop(t->base);
  t->base = NULL;
  t->output = 0;
  t->number = false;               /* a leaf has a type to keep */
  return true;
}


static bool check_leaf (const heed_tensor *t) {
  return heed_is_leaf(t) ||
         core_fail(t->cx, "requires_grad", "only a leaf can stop requiring grad; use detach()");
}


/* The node stays with the tensor if a graph leads to it, or hooks wait there. */
static bool end_graph (heed_tensor *t) {
  if (!check_leaf(t)) return false;
  node *leaf = t->node;
  if (leaf == NULL) return true;
  t->node = NULL;
  set_frozen(leaf, true);
  if (leaf->refs > 1 || leaf->hooks != NULL) t->frozen = leaf;
  else node_drop(leaf);
  return true;
}


bool heed_require_grad (heed_tensor *t, bool yes) {
  return t != NULL && (yes ? start_graph(t) : end_graph(t));
}


/* Leaves that began a graph before one could not end theirs again, which never fails. */
static bool start_graphs (heed_context *cx, int n, heed_tensor *const *ts) {
  int started = 0;
  size_t bytes = (size_t)n * sizeof *ts;
  heed_tensor **list = core_alloc(cx, bytes);
  bool good = list != NULL;
  for (int i = 0; good && i < n; i++) {
    if (heed_requires_grad(ts[i])) continue;
    good = start_graph(ts[i]);
    if (good) list[started++] = ts[i];
  }
  while (!good && started > 0) end_graph(list[--started]);
  core_free(cx, list, bytes);
  return good;
}


bool heed_require_grad_all (heed_context *cx, int n, heed_tensor *const *ts, bool yes) {
  if (cx == NULL) return false;
  if (ts == NULL && n > 0) return core_fail(cx, "requires_grad", "there are no tensors") != NULL;
  for (int i = 0; i < n; i++)
    if (ts[i] == NULL || ts[i]->cx != cx || (!yes && !check_leaf(ts[i]))) return false;
  if (yes) return n == 0 || start_graphs(cx, n, ts);
  for (int i = 0; i < n; i++) end_graph(ts[i]);
  return true;
}


heed_tensor *heed_gradient (heed_tensor *t) {
  node *n = t != NULL ? node_of_gradient(t) : NULL;
  if (n == NULL) return NULL;
  capture_gradient(n, true);
  return heed_keep(n->gradient);
}


/* Do two tensors of one type lie in one stretch of memory? */
static bool share_memory (const heed_tensor *a, const heed_tensor *b) {
  int64_t first, last, from, to;
  if (a->store == NULL || a->store != b->store) return false;
  layout_reach(&a->at, &first, &last);
  layout_reach(&b->at, &from, &to);
  return first <= to && from <= last;
}


static bool check_gradient (const heed_tensor *t, const heed_tensor *g) {
  char want[LAYOUT_TEXT], got[LAYOUT_TEXT];
  if (g->cx != t->cx) return core_fail(t->cx, "grad", "the gradient belongs to another context");
  if (!layout_same_shape(&g->at, &t->at))
    return core_fail(t->cx, "grad", "shape %s expected, got %s", layout_text(&t->at, want),
                     layout_text(&g->at, got));
  if (g->type != t->type)
    return core_fail(t->cx, "grad", "type %s expected, got %s", scalar_names[t->type],
                     scalar_names[g->type]);
  if (tensor_where(g) != tensor_where(t))
    return core_fail(t->cx, "grad", "the tensor is on %s, the gradient on %s",
                     tensor_where(t)->name, tensor_where(g)->name);
  return !share_memory(t, g) ||
         core_fail(t->cx, "grad", "the gradient lies in one stretch of memory with the tensor, "
                   "which a sum there may change; clone() it first");
}


/* A gradient is kept without its graph, which might lead back to the leaf. */
heed_tensor *tensor_gradient_for (const heed_tensor *t, heed_tensor *gradient) {
  if (!check_gradient(t, gradient) || !tensor_materialize(gradient)) return NULL;
  bool plain = gradient->node == NULL && gradient->base == NULL && !gradient->number;
  gradient = plain ? heed_keep(gradient) : heed_detach(gradient);
  if (gradient != NULL) gradient->number = false;
  return gradient;
}


bool tensor_has_gradient (const heed_tensor *t, bool some) {
  return node_of_gradient(t) != NULL || (!some && t->node == NULL) ||
         core_fail(t->cx, "grad", "only a leaf that requires grad has one");
}


void tensor_put_gradient (heed_tensor *t, heed_tensor *gradient) {
  node *n = node_of_gradient(t);
  if (n != NULL) put_gradient(n, gradient);
}


bool heed_set_gradient (heed_tensor *t, heed_tensor *gradient) {
  if (t == NULL || !tensor_has_gradient(t, gradient != NULL)) return false;
  heed_tensor *own = gradient != NULL ? tensor_gradient_for(t, gradient) : NULL;
  if (gradient != NULL && own == NULL) return false;
  tensor_put_gradient(t, own);
  return true;
}


/* A leaf becomes what 'from' is; its gradient goes if it will not fit. */
static void renew_leaf (const heed_tensor *t, const heed_tensor *from) {
  node *leaf = t->node;
  if (tensor_where(t) != tensor_where(from) || t->type != from->type ||
      !layout_same_shape(&t->at, &from->at))
    put_gradient(leaf, NULL);
  *leaf->base_at = from->at;
  leaf->type = from->type;
}


/* A tensor that is no leaf loses its graph with its value; a leaf that becomes blocks, too. */
static void renew_node (heed_tensor *t, const heed_tensor *from) {
  if (is_leaf_node(t->node) && !scalar_is_block(from->type)) { renew_leaf(t, from); return; }
  node *n = t->node;
  t->node = NULL;
  node_drop(n);
}


bool tensor_may_take_over (const heed_tensor *t, heed_tensor *from) {
  if (from->cx != t->cx)
    return core_fail(t->cx, "take_over", "the tensors belong to two contexts");
  if (capture_is_open(&t->cx->capture))
    return core_fail(t->cx, "set_", "a tensor gets other memory while work is captured");
  return (!is_leaf_node(t->node) || scalar_is_block(from->type) || check_float(from)) &&
         tensor_materialize(from);
}


void tensor_take_over (heed_tensor *t, const heed_tensor *from) {
  t->ahead = (int32_t)(heed_version(t) + 1 - from->store->version);
  renew_node(t, from);
  storage *store = t->store;
  heed_tensor *base = t->base;
  storage_keep(from->store);
  t->store = from->store;
  t->at = from->at;
  t->type = from->type;
  t->number = false;
  t->base = NULL;
  storage_drop(store);
  heed_drop(base);
}


bool heed_take_over (heed_tensor *t, heed_tensor *from) {
  if (t == NULL || from == NULL || !tensor_may_take_over(t, from)) return false;
  tensor_take_over(t, from);
  return true;
}
