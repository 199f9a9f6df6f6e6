/*
** pass.c - the backward pass, which calls one backward function for each node.
**
** Nodes are visited from the latest to the earliest: a node is made after its inputs, so by
** then every gradient of its results has been added up. Gradients of leaves are gathered in a
** list and added to the leaves at the end, so that a pass that fails changes nothing.
*/

#include "graph/call.h"
#include "graph/make.h"
#include "graph/pass.h"
#include "graph/record.h"
#include "tensor/capture.h"


/* heed_gradients: adds up what is for a result of n that is wanted. */
static bool find_wanted (pass *p, node *n, heed_tensor *const *incoming) {
  for (int i = 0; i < p->nwanted; i++) {
    int output;
    if (p->wanted[i] == NULL || graph_node_of(p->wanted[i], &output) != n) continue;
    if (incoming[output] == NULL) continue;
    if (!sum_add(p->cx, &p->found[i], incoming[output])) return false;
  }
  return true;
}


/* A leaf that took over other memory may have become something else. */
static bool check_leaf (const node *leaf, const heed_tensor *g) {
  char was[LAYOUT_TEXT], is[LAYOUT_TEXT];
  return (layout_same_shape(&g->at, leaf->base_at) && g->type == leaf->type) ||
         core_fail(leaf->cx, "backward", "a leaf is %s of shape %s now, and was %s of shape %s "
                   "when it was used", scalar_names[leaf->type], layout_text(leaf->base_at, is),
                   scalar_names[g->type], layout_text(&g->at, was));
}


/* The outermost pass adds to the leaves, at its end, unless it selects gradients. */
static bool accumulate (pass *p, node *leaf, heed_tensor *g) {
  if (leaf->frozen) return true;
  if (!check_leaf(leaf, g)) return false;
  while (p->outer != NULL) p = p->outer;
  if (p->selects) return find_wanted(p, leaf, &g);
  int64_t at = leaf->accumulated;      /* of an earlier pass, perhaps */
  if (at < p->nlist && p->list[at].leaf == leaf)
    return sum_add(p->cx, &p->list[at].gradient, g);
  if (!core_grow(p->cx, (void **)&p->list, p->nlist, &p->list_capacity, sizeof *p->list))
    return false;
  node_keep(leaf);
  leaf->accumulated = p->nlist;
  p->list[p->nlist++] = (accumulated){leaf, heed_keep(g), NULL};
  return true;
}


/* Results of n that retain gradients get theirs, as leaves do. */
static bool retain_gradients (pass *p, const node *n) {
  bool good = true;
  for (const heed_hook *h = n->hooks; good && !p->selects && h != NULL; h = h->next)
    if (h->retained != NULL && n->incoming[h->output] != NULL)
      good = accumulate(p, h->retained, n->incoming[h->output]);
  return good;
}


static bool route (backward *b) {
  for (int i = 0; i < b->n->nedges; i++) {
    const edge *e = &b->n->edges[i];
    if (b->given[i] == NULL || e->node == NULL) continue;
    heed_tensor *g = sum_fit(b->given[i], e);
    if (g == NULL || !sum_add(b->cx, &e->node->incoming[e->output], g)) return false;
  }
  return true;
}


static void drop_incoming (node *n) {
  for (int i = 0; i < n->noutputs; i++) {
    heed_drop(n->incoming[i]);
    n->incoming[i] = NULL;
  }
}


static bool any_incoming (const node *n) {
  for (int i = 0; i < n->noutputs; i++)
    if (n->incoming[i] != NULL) return true;
  return false;
}


/* Backward functions work where the gradients are. */
static void work_on_device_of (const heed_tensor *t) {
  if (t != NULL && tensor_device(t) != NULL) t->cx->scope.device = tensor_device(t);
}


static bool check_not_freed (const node *n) {
  return !n->freed || core_fail(n->cx, "backward", "the graph was freed by an earlier backward; "
                                "give it {retain_graph = true}, or detach what was made before it");
}


/* A custom backward function may have started a pass over this very step, which freed it. */
static bool visit_step (pass *p, node *n) {
  backward b;                          /* large: not cleared as a whole */
  if (!check_not_freed(n)) return false;
  b.cx = p->cx;
  b.op = n->op;
  b.n = n;
  b.args = n->args;
  for (int i = 0; i < OP_OUTS; i++) b.gs[i] = i < n->noutputs ? n->incoming[i] : NULL;
  for (int i = 0; i < n->nedges; i++) b.given[i] = NULL;
  b.g = b.gs[0];
  int64_t mark = p->cx->graph->temporaries.n;
  for (int i = 0; i < n->noutputs; i++) work_on_device_of(n->incoming[i]);
  bool good = backward_apply(&b) && check_not_freed(n) && route(&b);
  op_drop_temporaries(p->cx, mark);
  return good;
}


static bool visit (pass *p, node *n) {
  if (!any_incoming(n)) return true;
  bool good = graph_call_hooks(n) && find_wanted(p, n, n->incoming) && retain_gradients(p, n);
  if (good && n->kind == NODE_LEAF)
    good = p->selects || accumulate(p, n, n->incoming[0]);
  else if (good)
    good = visit_step(p, n);
  drop_incoming(n);
  if (good && !p->retain && n->kind != NODE_LEAF) node_forget(n);
  return good;
}


static bool copy_gradient (pass *p, accumulated *a) {
  heed_tensor *copy = heed_call(p->cx, HEED_clone, (heed_value[]){heed_t(a->gradient)}, 1);
  if (copy == NULL) return false;
  heed_drop(a->gradient);
  a->gradient = copy;
  return true;
}


/* The first gradient of a leaf must be its own: no other handle, no other owner of its bytes. */
static bool own_gradient (pass *p, accumulated *a) {
  return (sum_owns(a->gradient) && layout_is_dense(&a->gradient->at)) || copy_gradient(p, a);
}


/* A leaf's gradient that took over other memory may have become something else. */
static bool check_sum (const heed_tensor *sum, const heed_tensor *g) {
  char has[LAYOUT_TEXT], gets[LAYOUT_TEXT];
  const device *at = tensor_where(sum), *from = tensor_where(g);
  return (layout_same_shape(&sum->at, &g->at) && sum->type == g->type && at == from) ||
         core_fail(g->cx, "backward", "a leaf's gradient is %s of shape %s on %s now; what is "
                   "added to it is %s of shape %s on %s", scalar_names[sum->type],
                   layout_text(&sum->at, has), at->name, scalar_names[g->type],
                   layout_text(&g->at, gets), from->name);
}


/* The sum of a leaf's gradient, which is expanded, and of a->gradient becomes that. */
static bool replace_sum (pass *p, accumulated *a) {
  heed_tensor *sum = heed_keep(a->leaf->gradient);
  bool good = sum_add(p->cx, &sum, a->gradient);
  heed_drop(good ? a->gradient : sum);
  if (good) a->gradient = sum;
  return good;
}


/* Later gradients are added in place, so that a handle on the first sees them. */
static bool prepare (pass *p, accumulated *a, int64_t number) {
  heed_tensor *sum = a->leaf->gradient;
  if (sum == NULL) return own_gradient(p, a);
  if (!check_sum(sum, a->gradient) || !capture_input(p->cx, sum)) return false;
  if (layout_overlaps_itself(&sum->at)) return replace_sum(p, a);
  a->sum = heed_keep(sum);
  sum->store->commit = number;
  return true;
}


/* A gradient in memory that is to be written is copied: all are read as they were. */
static bool copy_written (pass *p, accumulated *a, int64_t number) {
  const storage *s = a->gradient->store;
  return s == NULL || s->commit != number || copy_gradient(p, a);
}


static bool add_gradient (pass *p, accumulated *a) {
  capture_gradient(a->leaf, true);
  if (a->sum == NULL) {
    node_put_gradient(a->leaf, heed_keep(a->gradient));
    return true;
  }
  return heed_apply_in_place(p->cx, HEED_add,
                             (heed_value[]){heed_t(a->sum), heed_t(a->gradient)}, 2);
}


/* Adds what was accumulated. All that can be refused or needs memory comes first. */
static bool commit (pass *p) {
  const int64_t number = ++p->cx->storages.commits;
  bool good = true;
  for (int64_t i = 0; good && i < p->nlist; i++) good = prepare(p, &p->list[i], number);
  for (int64_t i = 0; good && i < p->nlist; i++) good = copy_written(p, &p->list[i], number);
  if (!good || core_interrupted(p->cx, "backward")) return false;
  core_hold(p->cx);
  for (int64_t i = 0; good && i < p->nlist; i++) good = add_gradient(p, &p->list[i]);
  core_release(p->cx);
  return good;
}


static void finish (pass *p) {
  heed_context *cx = p->cx;
  for (int64_t i = 0; i < p->count; i++) drop_incoming(p->nodes[i]);
  for (int64_t i = 0; i < p->nsaved; i++)
    p->saved[i].n->incoming[p->saved[i].output] = p->saved[i].gradient;
  for (int64_t i = 0; i < p->count; i++) node_drop(p->nodes[i]);
  for (int64_t i = 0; i < p->nlist; i++) {
    heed_drop(p->list[i].gradient);
    heed_drop(p->list[i].sum);
    node_drop(p->list[i].leaf);
  }
  core_free(cx, p->nodes, (size_t)p->capacity * sizeof *p->nodes);
  core_free(cx, p->saved, (size_t)p->saved_capacity * sizeof *p->saved);
  core_free(cx, p->list, (size_t)p->list_capacity * sizeof *p->list);
}


static bool run_pass (pass *p, node *root, int output, heed_tensor *seed) {
  if (!pass_reach(p, root)) return false;
  root->incoming[output] = heed_keep(seed);
  for (int64_t i = 0; i < p->count; i++)
    if (core_poll(p->cx, "backward") || !visit(p, p->nodes[i])) return false;
  return p->outer != NULL || commit(p);
}


/* A tensor like y, of one element, that is 1. Work that is captured must write it each time. */
static heed_tensor *new_one (heed_tensor *y) {
  heed_context *cx = y->cx;
  heed_tensor *one = op_new(cx, y->type, &y->at);
  if (one == NULL) return NULL;
  if (cx->capture.where != NULL || !cx->scope.device->host) return op_filled(one, 1) ? one : NULL;
  scalar_store(one->type, one->store->data, (scalar){.type = HEED_INT64, .i = 1});
  return one;
}


/* The gradient that a pass starts with: 'seed', or 1 for a single element. */
static heed_tensor *first_gradient (heed_tensor *y, heed_tensor *seed) {
  char want[LAYOUT_TEXT], got[LAYOUT_TEXT];
  if (seed == NULL && layout_numel(&y->at) != 1)
    return core_fail(y->cx, "backward", "a gradient is needed for a tensor of shape %s; only one "
                     "element has one by itself", layout_text(&y->at, want));
  if (seed == NULL) return new_one(y);
  if (seed->cx != y->cx)
    return core_fail(y->cx, "backward", "the gradient belongs to another context");
  if (!layout_same_shape(&seed->at, &y->at))
    return core_fail(y->cx, "backward", "the gradient has shape %s, the tensor %s",
                     layout_text(&seed->at, got), layout_text(&y->at, want));
  return op_cast(seed, y->type);
}


static bool start (pass *p, heed_tensor *y, heed_tensor *seed) {
  heed_context *cx = y->cx;
  int output = 0;
  node *root = graph_node_of(y, &output);
  if (root == NULL)
    return core_fail(cx, "backward", "the tensor has no graph: nothing that it was made from "
                     "requires grad, as frozen parameters do not, or it was made within no_grad");
  const char *name = cx->scope.caller != NULL ? cx->scope.caller : "backward";
  const heed_region around = heed_region_begin(cx, name);
  call_scope s;
  call_begin(cx, cx->scope.caller, &s);
  heed_set_autocast(cx, HEED_FLOAT32);
  cx->scope.recording = p->records;
  work_on_device_of(y);
  heed_tensor *g = first_gradient(y, seed);
  if (!capture_input(cx, g)) g = NULL;
  cx->scope.caller = name;
  p->cx = cx;
  p->outer = cx->graph->pass;
  p->id = ++cx->graph->passes;
  cx->graph->pass = p;
  const float_mode mode = float_mode_begin();
  bool good = g != NULL && run_pass(p, root, output, g);
  float_mode_end(mode);
  cx->graph->pass = p->outer;
  finish(p);
  call_end(cx, &s);
  heed_region_end(cx, around);
  return good;
}


/* A backward function that is recorded may start a pass, whose gradients go into the outer one. */
static bool within_recorded (const heed_context *cx) {
  return cx->graph->pass != NULL && cx->graph->pass->records && cx->scope.recording;
}


bool heed_backward (heed_tensor *y, heed_tensor *seed, bool retain) {
  if (y == NULL) return false;
  bool records = within_recorded(y->cx);
  pass p = {.retain = retain || records, .records = records};
  return start(&p, y, seed);
}


static bool gradients (pass *p, heed_tensor *y, heed_tensor *seed, int n, heed_tensor *const *xs,
                       heed_tensor **gs) {
  if (n > 0 && gs == NULL) return false;
  for (int i = 0; i < n; i++) gs[i] = NULL;
  if (y == NULL || (n > 0 && xs == NULL)) return false;
  p->selects = true;
  p->nwanted = n;
  p->wanted = xs;
  p->found = gs;
  bool good = start(p, y, seed);
  for (int i = 0; !good && i < n; i++) {
    heed_drop(gs[i]);
    gs[i] = NULL;
  }
  return good;
}


bool heed_gradients (heed_tensor *y, heed_tensor *seed, int n, heed_tensor *const *xs,
                     heed_tensor **gs, bool retain) {
  pass p = {.retain = retain};
  return gradients(&p, y, seed, n, xs, gs);
}


bool heed_recorded_gradients (heed_tensor *y, heed_tensor *seed, int n, heed_tensor *const *xs,
                              heed_tensor **gs) {
  pass p = {.retain = true, .records = true};
  return gradients(&p, y, seed, n, xs, gs);
}
