/*
** walk.c - floor 5: the walk through history that calls one rule for each node.
**
** Nodes are visited from the latest to the earliest: a node is made after its inputs, so by
** then every gradient of its results has come in. What reaches leaves is kept saved_gradient and added
** to their gradients at the end, so that a walk that fails changes nothing.
*/

#include <stdlib.h>

#include "op/op.h"

/* What a leaf, or an asked-for tensor, has received. */
typedef struct accumulated {
  node *leaf;
  heed_tensor *gradient;
} accumulated;

/* What was on its way to a node in a walk that another one interrupts. */
typedef struct saved_gradient {
  node *n;
  int output;
  heed_tensor *gradient;
} saved_gradient;

typedef struct walk {
  heed_context *cx;
  struct walk *outer;              /* a rule of the user's may walk again */
  int64_t id;
  node **nodes;                    /* reached, kept */
  int64_t count, room;
  accumulated *accumulated_list;
  int64_t naccumulated, accumulated_capacity;
  bool asks;                       /* heed_gradients: instead of leaves, these */
  int nwanted;
  heed_tensor *const *wanted;
  heed_tensor **found;
  bool retain;
  saved_gradient *saved_gradients;                   /* gradients of the outer walk's */
  int64_t nsaved_gradients, saved_gradient_capacity;
} walk;


/*
** {==================================================================
** Growing lists
** ===================================================================
*/

/* A walk within another finds no gradients of the other's, and leaves them as they were. */
static bool put_aside (walk *w, node *n) {
  for (int i = 0; w->outer != NULL && i < n->noutputs; i++) {
    if (n->incoming[i] == NULL) continue;
    if (!core_grow(w->cx, (void **)&w->saved_gradients, w->nsaved_gradients, &w->saved_gradient_capacity, sizeof *w->saved_gradients))
      return false;
    w->saved_gradients[w->nsaved_gradients++] = (saved_gradient){n, i, n->incoming[i]};
    n->incoming[i] = NULL;
  }
  return true;
}

static bool reach (walk *w, node *n) {
  if (n == NULL || n->walk == w->id) return true;
  if (!core_grow(w->cx, (void **)&w->nodes, w->count, &w->room, sizeof *w->nodes)) return false;
  n->walk = w->id;
  node_keep(n);
  w->nodes[w->count++] = n;
  return put_aside(w, n);
}

/* The list serves as its own queue, so that no chain is too long. */
static bool reach_all (walk *w, node *root) {
  bool good = reach(w, root);
  for (int64_t i = 0; good && i < w->count; i++) {
    node *n = w->nodes[i];
    for (int e = 0; good && e < n->nedges; e++) good = reach(w, n->edges[e].node);
  }
  return good;
}

static int later_first (const void *a, const void *b) {
  int64_t x = (*(node *const *)a)->order, y = (*(node *const *)b)->order;
  return (x < y) - (x > y);
}

/* }================================================================== */


/*
** {==================================================================
** Gradients on their way. Sums own what they hold.
** ===================================================================
*/

static bool alone (const heed_tensor *t) {
  return t->refs == 1 && t->store != NULL && t->store->refs == 1;
}

/* *sum += g; g is borrowed. The first is only kept: copies are made when a second comes. */
static bool add_up (heed_context *cx, heed_tensor **sum, heed_tensor *g) {
  if (*sum == NULL) {
    *sum = heed_keep(g);
    return true;
  }
  if (alone(*sum) && layout_is_dense(&(*sum)->at))
    return heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(*sum), heed_t(g)}, 2);
  heed_tensor *y = heed_call(cx, HEED_add, (heed_value[]){heed_t(*sum), heed_t(g)}, 2);
  if (y == NULL) return false;
  heed_drop(*sum);
  *sum = y;
  return true;
}

/* g summed over the axes along which an input was broadcast. */
static heed_tensor *sum_to (heed_tensor *g, const layout *shape) {
  if (g == NULL || layout_same_shape(&g->at, shape)) return g;
  int64_t axes[HEED_RANK];
  int n = 0, extra = g->at.rank - shape->rank;
  for (int i = 0; i < g->at.rank; i++) {
    if (i < extra || (shape->size[i - extra] == 1 && g->at.size[i] != 1)) axes[n++] = i;
  }
  if (n > 0)
    g = op_call(g->cx, HEED_sum, 3, (heed_value[]){heed_t(g), heed_l(n, axes), heed_b(true)});
  if (g == NULL || layout_same_shape(&g->at, shape)) return g;
  return op_call(g->cx, HEED_reshape, 2, (heed_value[]){heed_t(g), heed_l(shape->rank,
                                                                          shape->size)});
}

static heed_tensor *fit (heed_tensor *g, const edge *e) {
  g = op_cast(sum_to(g, &e->at), e->type);
  return e->where != NULL ? op_to(g, e->where) : g;
}

/* }================================================================== */


/*
** {==================================================================
** Rules
** ===================================================================
*/

heed_tensor *input (backward *b, int i) { return op_hold(b->cx, node_saved(b->n, i)); }
heed_tensor *output (backward *b, int i) {
  return op_hold(b->cx, node_saved(b->n, b->n->nedges + i));
}
bool has_input (const backward *b, int i) { return b->n->saved[i].there; }

bool give (backward *b, int i, heed_tensor *g) {
  if (g == NULL) return false;
  if (wants(b, i)) b->given[i] = g;
  return true;
}

/* A dense buffer that spans the storage of n's base and region, and the part that 'at' names. */
static heed_tensor *spanning (const node *n, int64_t *first) {
  int64_t last, start, end;
  layout_reach(&n->whole, first, &last);
  layout_reach(&n->region, &start, &end);
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
  w.kind = add ? WORK_SCATTER : WORK_COPY;
  w.op = add ? SCATTER_ADD : HEED_copy;
  w.nout = w.nin = 1;
  w.count[0] = 0;
  w.mask.n = 0;
  w.out[0] = view_of(to);
  w.in[0] = view_of(from);
  return op_run_for(cx, HEED_copy, &w);
}

static bool grad_part (backward *b) {
  int64_t first;
  heed_tensor *buffer = spanning(b->n, &first);
  if (buffer == NULL) return false;
  heed_tensor *region = part(buffer, &b->n->region, first);
  if (!copy(b->cx, region, b->g, layout_overlaps_itself(&b->n->region))) return false;
  return give(b, 0, part(buffer, &b->n->whole, first));
}

/* What lay under the region has no influence; what was laid over it gets its part. */
static bool grad_overlay (backward *b) {
  int64_t first;
  heed_tensor *buffer = spanning(b->n, &first);
  if (buffer == NULL) return false;
  heed_tensor *whole = part(buffer, &b->n->whole, first);
  heed_tensor *region = part(buffer, &b->n->region, first);
  if (!copy(b->cx, whole, b->g, false)) return false;
  if (wants(b, 1) && !give(b, 1, op1(HEED_clone, region))) return false;
  if (region == NULL) return false;
  return heed_apply_in_place(b->cx, HEED_zero, (heed_value[]){heed_t(region)}, 1) &&
         give(b, 0, whole);
}

static bool grad_custom (backward *b) {
  node *n = b->n;
  heed_tensor *results[OP_EDGES] = {NULL};
  if (!n->custom.backward(n->custom.self, n->noutputs, n->incoming, n->nedges, results)) {
    if (!b->cx->failed) core_fail(b->cx, "custom: backward failed");
    return false;
  }
  bool good = true;
  for (int i = 0; i < n->nedges; i++) {
    heed_tensor *g = op_hold(b->cx, results[i]);
    if (results[i] == NULL) continue;
    char want[LAYOUT_TEXT], got[LAYOUT_TEXT];
    if (g == NULL) good = false;
    else if (good && g->cx != b->cx)
      good = core_fail(b->cx, "custom: backward gave a gradient of another context");
    else if (good && !layout_same_shape(&g->at, shape_of(b, i)))
      good = core_fail(b->cx, "custom: backward gave input %d a gradient of shape %s, not %s",
                       i + 1, layout_text(&g->at, got), layout_text(shape_of(b, i), want));
    else if (good) give(b, i, g);
  }
  return good;
}

static bool apply_backward (backward *b) {
  switch (b->n->kind) {
    case NODE_VIEW: return grad_part(b);
    case NODE_OVERLAY: return grad_overlay(b);
    case NODE_CUSTOM: return grad_custom(b);
    default: return op_rows[b->op].grad(b);
  }
}

/* }================================================================== */


/*
** {==================================================================
** The walk
** ===================================================================
*/

/* heed_gradients: is this result of n one of those asked for? */
static bool find_wanted (walk *w, node *n, heed_tensor *const *incoming) {
  for (int i = 0; i < w->nwanted; i++) {
    int output;
    if (w->wanted[i] == NULL || graph_node_of(w->wanted[i], &output) != n) continue;
    if (incoming[output] == NULL) continue;
    if (!add_up(w->cx, &w->found[i], incoming[output])) return false;
  }
  return true;
}

/* A leaf that took over other memory may have become something else. */
static bool check_leaf (const node *leaf, const heed_tensor *g) {
  char was[LAYOUT_TEXT], is[LAYOUT_TEXT];
  return (layout_same_shape(&g->at, &leaf->whole) && g->type == leaf->type) ||
         core_fail(leaf->cx, "backward: a leaf is %s of shape %s now, and was %s of shape %s when "
                   "it was used", scalar_names[leaf->type], layout_text(&leaf->whole, is),
                   scalar_names[g->type], layout_text(&g->at, was));
}

/* The outermost walk adds up, at its end; unless it only asks for some of them. */
static bool arrive (walk *w, node *leaf, heed_tensor *g) {
  if (!check_leaf(leaf, g)) return false;
  while (w->outer != NULL) w = w->outer;
  if (w->asks) return find_wanted(w, leaf, &g);
  int64_t at = leaf->accumulated;      /* of an earlier walk, perhaps */
  if (at < w->naccumulated && w->accumulated_list[at].leaf == leaf)
    return add_up(w->cx, &w->accumulated_list[at].gradient, g);
  if (!core_grow(w->cx, (void **)&w->accumulated_list, w->naccumulated, &w->accumulated_capacity,
                 sizeof *w->accumulated_list))
    return false;
  node_keep(leaf);
  leaf->accumulated = w->naccumulated;
  w->accumulated_list[w->naccumulated++] = (accumulated){leaf, heed_keep(g)};
  return true;
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

/* Rules work where the gradients are. */
static void work_beside (const heed_tensor *t) {
  if (t != NULL && tensor_device(t) != NULL) t->cx->current = tensor_device(t);
}

static bool check_alive (const node *n) {
  return !n->freed || core_fail(n->cx, "backward: the graph was freed by an earlier backward; "
                                "give it {retain_graph = true}");
}

/* A rule of the user's may have walked over this very step, and freed it. */
static bool visit_step (walk *w, node *n) {
  backward b = {.cx = w->cx, .op = n->op, .n = n, .args = n->args};
  if (!check_alive(n)) return false;
  for (int i = 0; i < n->noutputs && i < OP_OUTS; i++) b.gs[i] = n->incoming[i];
  b.g = b.gs[0];
  int mark = w->cx->ntemporaries;
  for (int i = 0; i < n->noutputs; i++) work_beside(n->incoming[i]);
  bool good = apply_backward(&b) && check_alive(n) && route(&b);
  while (w->cx->ntemporaries > mark) heed_drop(w->cx->temporaries[--w->cx->ntemporaries]);
  return good;
}

static bool visit (walk *w, node *n) {
  if (!any_incoming(n)) return true;
  bool good = find_wanted(w, n, n->incoming);
  if (good && n->kind == NODE_LEAF)
    good = w->asks || arrive(w, n, n->incoming[0]);
  else if (good)
    good = visit_step(w, n);
  drop_incoming(n);
  if (good && !w->retain && n->kind != NODE_LEAF) node_forget(n);
  return good;
}

/* The first gradient of a leaf must be its own: no other handle, no other owner of its bytes. */
static bool own_gradient (walk *w, accumulated *a) {
  if (a->leaf->gradient != NULL) return true;
  if (alone(a->gradient) && layout_is_dense(&a->gradient->at)) return true;
  heed_tensor *own = heed_call(w->cx, HEED_clone, (heed_value[]){heed_t(a->gradient)}, 1);
  if (own == NULL) return false;
  heed_drop(a->gradient);
  a->gradient = own;
  return true;
}

/* Later ones are added in place, so that a handle on the gradient sees them. */
static bool add_gradient (walk *w, accumulated *a) {
  heed_tensor *sum = a->leaf->gradient;
  capture_gradient(a->leaf, true);
  if (sum == NULL || layout_overlaps_itself(&sum->at))
    return add_up(w->cx, &a->leaf->gradient, a->gradient);
  return heed_apply_in_place(w->cx, HEED_add, (heed_value[]){heed_t(sum), heed_t(a->gradient)}, 2);
}

/* Adds what has arrived. All that needs memory comes first. */
static bool commit (walk *w) {
  for (int64_t i = 0; i < w->naccumulated; i++)
    if (!own_gradient(w, &w->accumulated_list[i])) return false;
  for (int64_t i = 0; i < w->naccumulated; i++)
    if (!add_gradient(w, &w->accumulated_list[i])) return false;
  return true;
}

static void finish (walk *w) {
  heed_context *cx = w->cx;
  for (int64_t i = 0; i < w->count; i++) drop_incoming(w->nodes[i]);
  for (int64_t i = 0; i < w->nsaved_gradients; i++)
    w->saved_gradients[i].n->incoming[w->saved_gradients[i].output] = w->saved_gradients[i].gradient;
  for (int64_t i = 0; i < w->count; i++) node_drop(w->nodes[i]);
  for (int64_t i = 0; i < w->naccumulated; i++) {
    heed_drop(w->accumulated_list[i].gradient);
    node_drop(w->accumulated_list[i].leaf);
  }
  core_free(cx, w->nodes, (size_t)w->room * sizeof *w->nodes);
  core_free(cx, w->saved_gradients, (size_t)w->saved_gradient_capacity * sizeof *w->saved_gradients);
  core_free(cx, w->accumulated_list, (size_t)w->accumulated_capacity * sizeof *w->accumulated_list);
}

static bool run_pass (walk *w, node *root, int output, heed_tensor *seed) {
  if (!reach_all(w, root)) return false;
  qsort(w->nodes, (size_t)w->count, sizeof *w->nodes, later_first);
  root->incoming[output] = heed_keep(seed);
  for (int64_t i = 0; i < w->count; i++)
    if (!visit(w, w->nodes[i])) return false;
  return w->outer != NULL || commit(w);
}

/* The gradient that a walk starts with: 'seed', or 1 for a single element. */
static heed_tensor *first_gradient (heed_tensor *y, heed_tensor *seed) {
  char want[LAYOUT_TEXT], got[LAYOUT_TEXT];
  if (seed == NULL && layout_numel(&y->at) != 1)
    return core_fail(y->cx, "backward: a gradient is needed for a tensor of shape %s; only one "
                     "element has one by itself", layout_text(&y->at, want));
  if (seed == NULL) {
    heed_tensor *one = op_new(y->cx, y->type, &y->at);
    if (one == NULL) return NULL;
    return op_filled(one, 1) ? one : NULL;
  }
  if (seed->cx != y->cx)
    return core_fail(y->cx, "backward: the gradient belongs to another context");
  if (!layout_same_shape(&seed->at, &y->at))
    return core_fail(y->cx, "backward: the gradient has shape %s, the tensor %s",
                     layout_text(&seed->at, got), layout_text(&y->at, want));
  return op_cast(seed, y->type);
}

static bool start (walk *w, heed_tensor *y, heed_tensor *seed) {
  heed_context *cx = y->cx;
  int output = 0;
  node *root = graph_node_of(y, &output);
  if (root == NULL)
    return core_fail(cx, "backward: the tensor has no history: nothing that it was made from "
                     "requires grad");
  bool recording = cx->recording;
  int mark = cx->ntemporaries;
  device *here = cx->current;
  cx->recording = false;
  work_beside(y);
  heed_tensor *g = first_gradient(y, seed);
  capture_input(cx, g);
  w->cx = cx;
  w->outer = cx->walk;
  w->id = ++cx->walks;
  cx->walk = w;
  bool good = g != NULL && run_pass(w, root, output, g);
  cx->walk = w->outer;
  finish(w);
  while (cx->ntemporaries > mark) heed_drop(cx->temporaries[--cx->ntemporaries]);
  cx->recording = recording;
  cx->current = here;
  return good;
}

bool heed_backward (heed_tensor *y, heed_tensor *seed, bool retain) {
  if (y == NULL) return false;
  walk w = {.retain = retain};
  return start(&w, y, seed);
}

bool heed_gradients (heed_tensor *y, heed_tensor *seed, int n, heed_tensor *const *xs,
                     heed_tensor **gs, bool retain) {
  if (n > 0 && gs == NULL) return false;
  for (int i = 0; i < n; i++) gs[i] = NULL;
  if (y == NULL || (n > 0 && xs == NULL)) return false;
  walk w = {.retain = retain, .asks = true, .nwanted = n, .wanted = xs, .found = gs};
  bool good = start(&w, y, seed);
  for (int i = 0; !good && i < n; i++) {
    heed_drop(gs[i]);
    gs[i] = NULL;
  }
  return good;
}

/* }================================================================== */
