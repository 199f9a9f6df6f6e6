/*
** backward.c - floor 5: the backward pass, which calls one backward function for each node.
**
** Nodes are visited from the latest to the earliest: a node is made after its inputs, so by
** then every gradient of its results has been added up. What reaches leaves is accumulated in a
** list and added to their gradients at the end, so that a pass that fails changes nothing.
*/

#include <string.h>

#include "op/compose.h"

/* What a leaf is to get. */
typedef struct accumulated {
  node *leaf;
  heed_tensor *gradient;
} accumulated;

/* The incoming gradient of a node in a pass that another one interrupts. */
typedef struct saved_gradient {
  node *n;
  int output;
  heed_tensor *gradient;
} saved_gradient;

typedef struct pass {
  heed_context *cx;
  struct pass *outer;              /* a custom backward function may start another pass */
  int64_t id;
  node **nodes;                    /* reached, kept */
  int64_t count, capacity;
  accumulated *list;
  int64_t nlist, list_capacity;
  bool selects;                    /* heed_gradients: these gradients instead of the leaves' */
  int nwanted;
  heed_tensor *const *wanted;
  heed_tensor **found;
  bool retain;
  saved_gradient *saved;           /* of the outer pass */
  int64_t nsaved, saved_capacity;
} pass;


/*
** {==================================================================
** What a pass reaches
** ===================================================================
*/

/* A pass within another must not see the other's gradients, and puts them back at its end. */
static bool save_incoming (pass *p, node *n) {
  for (int i = 0; p->outer != NULL && i < n->noutputs; i++) {
    if (n->incoming[i] == NULL) continue;
    if (!core_grow(p->cx, (void **)&p->saved, p->nsaved, &p->saved_capacity,
                   sizeof *p->saved))
      return false;
    p->saved[p->nsaved++] = (saved_gradient){n, i, n->incoming[i]};
    n->incoming[i] = NULL;
  }
  return true;
}

/* At each 1024th step i: is the pass to stop? */
static bool poll (const pass *p, int64_t i) {
  return i % 1024 == 1023 && core_poll(p->cx, "backward");
}

static bool reach (pass *p, node *n) {
  if (n == NULL || n->pass == p->id) return true;
  if (!core_grow(p->cx, (void **)&p->nodes, p->count, &p->capacity, sizeof *p->nodes)) return false;
  n->pass = p->id;
  node_keep(n);
  p->nodes[p->count++] = n;
  return save_incoming(p, n);
}

/* The list serves as its own queue, so that no chain is too long. */
static bool reach_all (pass *p, node *root) {
  bool good = reach(p, root);
  for (int64_t i = 0; good && i < p->count; i++) {
    node *n = p->nodes[i];
    if (poll(p, i)) return false;
    for (int e = 0; good && e < n->nedges; e++) good = reach(p, n->edges[e].node);
  }
  return good;
}

/* The next of two runs, the later node first. */
static node *take_later (node ***a, node *const *a_end, node ***b, node *const *b_end) {
  bool first = *b == b_end || (*a != a_end && (**a)->order > (**b)->order);
  return first ? *(*a)++ : *(*b)++;
}

static bool merge (const pass *p, node **to, node **a, int64_t na, int64_t nb) {
  node **b = a + na, **a_end = b, **b_end = b + nb;
  for (int64_t i = 0; i < na + nb; i++) {
    if (poll(p, i)) return false;
    to[i] = take_later(&a, a_end, &b, b_end);
  }
  return true;
}

/* n nodes at 'from' in order, there or at 'to'; NULL: the pass is to stop. */
static node **sort (const pass *p, node **from, node **to, int64_t n) {
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      int64_t na = run < n - i ? run : n - i, nb = run < n - i - na ? run : n - i - na;
      if (poll(p, i / (2 * run)) || !merge(p, to + i, from + i, na, nb)) return NULL;
    }
    node **other = from;
    from = to;
    to = other;
  }
  return from;
}

/* The latest first. Of a chain they stand so already. */
static bool sort_nodes (pass *p) {
  int64_t i = 1;
  while (i < p->count && p->nodes[i]->order < p->nodes[i - 1]->order) i++;
  if (i >= p->count) return true;
  size_t bytes = (size_t)p->count * sizeof *p->nodes;
  node **both = core_alloc(p->cx, 2 * bytes);
  if (both == NULL) return false;
  memcpy(both, p->nodes, bytes);
  node **sorted = sort(p, both, both + p->count, p->count);
  if (sorted != NULL) memcpy(p->nodes, sorted, bytes);
  core_free(p->cx, both, 2 * bytes);
  return sorted != NULL;
}

/* }================================================================== */


/*
** {==================================================================
** Sums of gradients, which own what they hold
** ===================================================================
*/

static bool is_sole_owner (const heed_tensor *t) {
  return t->refs == 1 && t->store != NULL && t->store->refs == 1;
}

/* Leaves that took over other memory may get gradients that differ: see check_leaf. */
static bool are_alike (const heed_tensor *a, const heed_tensor *b) {
  const device *where = a->cx->current;
  return a->type == b->type && !a->number && !b->number && tensor_device(a) == where &&
         tensor_device(b) == where && layout_same_shape(&a->at, &b->at);
}

/* a + b, in a's place if nobody else sees it, owned; for tensors that are alike. */
static heed_tensor *added (heed_context *cx, heed_tensor *a, heed_tensor *b) {
  bool own = is_sole_owner(a) && layout_is_dense(&a->at);
  heed_tensor *y = own ? heed_keep(a) : tensor_new(cx, a->type, &a->at);
  work w;
  if (y == NULL) return NULL;
  work_map(&w, HEED_add, op_computing(a->type), 2);
  w.map.number[0] = 1;
  *w.out = view_of(y);
  w.in[IN(add, input)] = view_of(a);
  w.in[IN(add, other)] = view_of(b);
  if (op_run_for(cx, HEED_add, &w)) return y;
  heed_drop(y);
  return NULL;
}

/* *sum += g; g is borrowed. The first is only kept: copies are made when a second comes. */
static bool add_up (heed_context *cx, heed_tensor **sum, heed_tensor *g) {
  if (*sum == NULL) {
    *sum = heed_keep(g);
    return true;
  }
  heed_tensor *y = are_alike(*sum, g)
                   ? added(cx, *sum, g)
                   : heed_call(cx, HEED_add, (heed_value[]){heed_t(*sum), heed_t(g)}, 2);
  if (y == NULL) return false;
  heed_drop(*sum);
  *sum = y;
  return true;
}

/* g summed over the axes along which an input was broadcast. */
static heed_tensor *sum_to (heed_tensor *g, const edge *e) {
  if (g == NULL || edge_has_shape(e, &g->at)) return g;
  bool marks[HEED_RANK];
  int extra = g->at.rank - e->rank;
  reduction f;
  for (int i = 0; i < g->at.rank; i++)
    marks[i] = i < extra || (e->size[i - extra] == 1 && g->at.size[i] != 1);
  reduction_open(&f, g, marks, false);
  heed_tensor *y = op_new_sized(g->cx, g->type, e->rank, e->size);
  return reduction_run(&f, HEED_sum, REDUCE_SUM, y, NULL) ? y : NULL;
}

static heed_tensor *fit (heed_tensor *g, const edge *e) {
  g = op_cast(sum_to(g, e), e->type);
  return e->where != NULL ? op_to(g, e->where) : g;
}

/* }================================================================== */


/*
** {==================================================================
** Backward functions
** ===================================================================
*/

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

/* What lay under the region has no influence; what was laid over it gets its part. */
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
    default: return op_rows[b->op].grad(b);
  }
}

/* Messages name the operation whose gradient fails, not the one that asked for it. */
static bool apply_backward (backward *b) {
  heed_context *cx = b->cx;
  const char *caller = cx->caller;
  cx->caller = core_op_name(b->op);
  bool good = call_backward(b);
  if (!good && !cx->failure.set)
    core_fail(cx, NULL, "its backward function failed: does 'saves' of its row name all it reads?");
  cx->caller = caller;
  return good;
}

/* }================================================================== */


/*
** {==================================================================
** The pass
** ===================================================================
*/

/* heed_gradients: adds up what is for a result of n that is wanted. */
static bool find_wanted (pass *p, node *n, heed_tensor *const *incoming) {
  for (int i = 0; i < p->nwanted; i++) {
    int output;
    if (p->wanted[i] == NULL || graph_node_of(p->wanted[i], &output) != n) continue;
    if (incoming[output] == NULL) continue;
    if (!add_up(p->cx, &p->found[i], incoming[output])) return false;
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
  if (!check_leaf(leaf, g)) return false;
  while (p->outer != NULL) p = p->outer;
  if (p->selects) return find_wanted(p, leaf, &g);
  int64_t at = leaf->accumulated;      /* of an earlier pass, perhaps */
  if (at < p->nlist && p->list[at].leaf == leaf)
    return add_up(p->cx, &p->list[at].gradient, g);
  if (!core_grow(p->cx, (void **)&p->list, p->nlist, &p->list_capacity, sizeof *p->list))
    return false;
  node_keep(leaf);
  leaf->accumulated = p->nlist;
  p->list[p->nlist++] = (accumulated){leaf, heed_keep(g)};
  return true;
}

/* What results of n retain, as leaves do. */
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
    heed_tensor *g = fit(b->given[i], e);
    if (g == NULL || !add_up(b->cx, &e->node->incoming[e->output], g)) return false;
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
  if (t != NULL && tensor_device(t) != NULL) t->cx->current = tensor_device(t);
}

static bool check_not_freed (const node *n) {
  return !n->freed || core_fail(n->cx, "backward", "the graph was freed by an earlier backward; "
                                "give it {retain_graph = true}");
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
  int64_t mark = p->cx->ntemporaries;
  for (int i = 0; i < n->noutputs; i++) work_on_device_of(n->incoming[i]);
  bool good = apply_backward(&b) && check_not_freed(n) && route(&b);
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

/* The first gradient of a leaf must be its own: no other handle, no other owner of its bytes. */
static bool own_gradient (pass *p, accumulated *a) {
  if (a->leaf->gradient != NULL) return true;
  if (is_sole_owner(a->gradient) && layout_is_dense(&a->gradient->at)) return true;
  heed_tensor *own = heed_call(p->cx, HEED_clone, (heed_value[]){heed_t(a->gradient)}, 1);
  if (own == NULL) return false;
  heed_drop(a->gradient);
  a->gradient = own;
  return true;
}

/* Later ones are added in place, so that a handle on the gradient sees them. */
static bool add_gradient (pass *p, accumulated *a) {
  heed_tensor *sum = a->leaf->gradient;
  capture_gradient(a->leaf, true);
  if (sum == NULL || layout_overlaps_itself(&sum->at))
    return add_up(p->cx, &a->leaf->gradient, a->gradient);
  return heed_apply_in_place(p->cx, HEED_add, (heed_value[]){heed_t(sum), heed_t(a->gradient)}, 2);
}

/* Adds what was accumulated. All that needs memory comes first. */
static bool commit (pass *p) {
  for (int64_t i = 0; i < p->nlist; i++)
    if (!own_gradient(p, &p->list[i])) return false;
  if (core_interrupted(p->cx, "backward")) return false;
  bool good = true;
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
    node_drop(p->list[i].leaf);
  }
  core_free(cx, p->nodes, (size_t)p->capacity * sizeof *p->nodes);
  core_free(cx, p->saved, (size_t)p->saved_capacity * sizeof *p->saved);
  core_free(cx, p->list, (size_t)p->list_capacity * sizeof *p->list);
}

static bool run_pass (pass *p, node *root, int output, heed_tensor *seed) {
  if (!reach_all(p, root) || !sort_nodes(p)) return false;
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
  if (cx->capture != NULL || !cx->current->host) return op_filled(one, 1) ? one : NULL;
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
                     "requires grad");
  bool recording = cx->recording;
  const heed_type mixed = heed_set_autocast(cx, HEED_FLOAT32);
  int64_t mark = cx->ntemporaries;
  device *before = cx->current;
  cx->recording = false;
  work_on_device_of(y);
  heed_tensor *g = first_gradient(y, seed);
  capture_input(cx, g);
  const char *caller = cx->caller;
  if (caller == NULL) cx->caller = "backward";
  p->cx = cx;
  p->outer = cx->pass;
  p->id = ++cx->passes;
  cx->pass = p;
  const float_mode mode = float_mode_begin();
  bool good = g != NULL && run_pass(p, root, output, g);
  float_mode_end(mode);
  cx->pass = p->outer;
  cx->caller = caller;
  finish(p);
  op_drop_temporaries(cx, mark);
  cx->recording = recording;
  heed_set_autocast(cx, mixed);
  cx->current = before;
  return good;
}

bool heed_backward (heed_tensor *y, heed_tensor *seed, bool retain) {
  if (y == NULL) return false;
  pass p = {.retain = retain};
  return start(&p, y, seed);
}

bool heed_gradients (heed_tensor *y, heed_tensor *seed, int n, heed_tensor *const *xs,
                     heed_tensor **gs, bool retain) {
  if (n > 0 && gs == NULL) return false;
  for (int i = 0; i < n; i++) gs[i] = NULL;
  if (y == NULL || (n > 0 && xs == NULL)) return false;
  pass p = {.retain = retain, .selects = true, .nwanted = n, .wanted = xs, .found = gs};
  bool good = start(&p, y, seed);
  for (int i = 0; !good && i < n; i++) {
    heed_drop(gs[i]);
    gs[i] = NULL;
  }
  return good;
}

/* }================================================================== */
