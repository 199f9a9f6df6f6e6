/*
** node.c - nodes of the graph: made, filled, forgotten, freed.
*/

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tensor/state.h"
#include "tensor/tensor.h"


/* Layouts of a base or a leaf, and of a region. */
static size_t layouts_of (node_kind kind) {
  return kind == NODE_LEAF ? 1 : kind == NODE_OVERLAY || kind == NODE_VIEW ? 2 : 0;
}


/* Node, edges, saved values, incoming gradients, arguments, layouts and dims lie in one block. */
static size_t size_of (node_kind kind, node_size n) {
  return sizeof(node) + (size_t)n.edges * sizeof(edge) + (size_t)n.saved * sizeof(saved) +
         (size_t)n.outputs * sizeof(heed_tensor *) + (size_t)n.args * sizeof(heed_value) +
         layouts_of(kind) * sizeof(layout) + (size_t)n.dims * sizeof(int64_t);
}


node *node_new (heed_context *cx, node_kind kind, heed_op op, node_size size) {
  size_t bytes = size_of(kind, size);
  node *n = core_alloc(cx, bytes);
  if (n == NULL) return NULL;
  memset(n, 0, bytes);
  n->cx = cx;
  n->refs = 1;
  n->order = ++cx->tensors->nodes.clock;
  n->kind = kind;
  n->op = op;
  n->layer = cx->scope.layer;
  n->nedges = size.edges; n->nsaved = size.saved; n->noutputs = size.outputs;
  n->nargs = size.args; n->ndims = size.dims;
  n->edges = (edge *)(n + 1);
  n->saved = (saved *)(n->edges + size.edges);
  n->incoming = (heed_tensor **)(n->saved + size.saved);
  n->args = (heed_value *)(n->incoming + size.outputs);
  n->base_at = (layout *)(n->args + size.args);
  n->region = n->base_at + 1;
  n->dims = (int64_t *)(n->base_at + layouts_of(kind));
  cx->tensors->nodes.n++;
  return n;
}


node *node_leaf (heed_context *cx, const heed_tensor *t) {
  node *n = node_new(cx, NODE_LEAF, HEED_NOPS, (node_size){.outputs = 1});
  if (n == NULL) return NULL;
  *n->base_at = t->at;
  n->type = t->type;
  return n;
}


void node_keep (node *n) {
  if (n != NULL) n->refs++;
}


int64_t heed_graph_nodes (heed_context *cx) { return cx != NULL ? cx->tensors->nodes.n : 0; }


int64_t node_order (const node *n) { return n != NULL ? n->order : 0; }


void node_put_gradient (node *leaf, heed_tensor *gradient) {
  heed_tensor *old = leaf->gradient;
  leaf->gradient = gradient;
  heed_drop(old);
}


/* The hook that retains t's gradient, or NULL. */
static heed_hook *retaining (const heed_tensor *t) {
  heed_hook *h = t->node != NULL ? t->node->hooks : NULL;
  while (h != NULL && (h->output != t->output || h->retained == NULL)) h = h->next;
  return h;
}


bool node_is_retained (const heed_tensor *t) { return retaining(t) != NULL; }


node *node_of_gradient (const heed_tensor *t) {
  if (t->node == NULL || t->node->kind == NODE_LEAF) return t->node;
  const heed_hook *h = retaining(t);
  return h != NULL ? h->retained : NULL;
}


/*
** {==================================================================
** Hooks
** ===================================================================
*/

/* Behind all others of n's. */
static void link_hook (node *n, int output, heed_hook *h) {
  heed_hook *first = n->hooks, *last = first != NULL ? first->before : h;
  h->n = n;
  h->output = output;
  h->next = NULL;
  h->before = last;
  h->number = first != NULL ? last->number + 1 : 1;
  if (first == NULL) n->hooks = h;
  else last->next = first->before = h;
}


heed_hook *node_add_hook (node *n, int output) {
  heed_hook *h = core_alloc(n->cx, sizeof *h);
  if (h == NULL) return NULL;
  *h = (heed_hook){0};
  link_hook(n, output, h);
  return h;
}


static void unlink_hook (heed_hook *hook) {
  node *n = hook->n;
  bool first = hook == n->hooks;
  n->cx->tensors->nodes.unhooked++;
  if (first) n->hooks = hook->next;
  else hook->before->next = hook->next;
  heed_hook *behind = hook->next != NULL ? hook->next : n->hooks;
  if (behind != NULL) behind->before = hook->before;
}


void node_remove_hook (heed_hook *hook) {
  heed_custom custom = hook->custom;
  unlink_hook(hook);
  node_drop(hook->retained);
  core_free(hook->n->cx, hook, sizeof *hook);
  if (custom.release != NULL) custom.release(custom.self);
}


void node_take (heed_tensor *t, node *n, int output) {
  heed_hook *h = n != NULL && n != t->node ? retaining(t) : NULL;
  if (h != NULL) {
    unlink_hook(h);
    link_hook(n, output, h);
  }
  node_keep(n);
  node_drop(t->node);
  t->node = n;
  t->output = output;
}


/* All of them, or those that no later pass can call. */
static void drop_hooks (node *n, bool all) {
  for (heed_hook *h = n->hooks, *next; h != NULL; h = next) {
    next = h->next;
    if (all || h->retained == NULL) node_remove_hook(h);
  }
}

/* }================================================================== */


/*
** {==================================================================
** Freeing. A node that loses its last owner while others are being freed is only added to the
** list: so a chain of any length takes one stack frame, also through a host's 'release'.
** ===================================================================
*/

static void drop_saved (node *n) {
  for (int i = 0; i < n->nsaved; i++) {
    storage *s = n->saved[i].store;
    n->saved[i].store = NULL;
    storage_drop(s);
  }
}


static void drop_edges (node *n) {
  for (int i = 0; i < n->nedges; i++) {
    node *input = n->edges[i].node;
    n->edges[i].node = NULL;
    node_drop(input);
  }
}


static void release_custom (node *n) {
  heed_custom custom = n->custom;
  n->custom.release = NULL;
  if (custom.release != NULL) custom.release(custom.self);
}


static void free_node (node *n) {
  heed_context *cx = n->cx;
  release_custom(n);
  drop_hooks(n, true);
  drop_saved(n);
  heed_drop(n->gradient);
  drop_edges(n);
  core_free(cx, n, size_of(n->kind, (node_size){n->nedges, n->nsaved, n->noutputs, n->nargs,
                                                n->ndims}));
  cx->tensors->nodes.n--;
}


void node_drop (node *n) {
  if (n == NULL || --n->refs > 0) return;
  heed_context *cx = n->cx;
  n->next = cx->tensors->nodes.unreferenced;
  cx->tensors->nodes.unreferenced = n;
  if (cx->tensors->nodes.freeing) return;
  cx->tensors->nodes.freeing = true;
  while ((n = cx->tensors->nodes.unreferenced) != NULL) {
    cx->tensors->nodes.unreferenced = n->next;
    free_node(n);
  }
  cx->tensors->nodes.freeing = false;
  tensor_left(cx);
}


void node_forget (node *n) {
  n->freed = true;
  release_custom(n);
  drop_hooks(n, false);
  drop_saved(n);
  drop_edges(n);
}

/* }================================================================== */


/*
** {==================================================================
** Edges
** ===================================================================
*/

/* Keeps some sizes or strides behind the node. */
static int64_t *keep_dims (node *n, int rank, const int64_t *given) {
  int64_t *dims = n->dims;
  for (int i = 0; i < rank; i++) dims[i] = given[i];
  n->dims += rank;
  return dims;
}


void node_set_edge (node *n, int i, node *input, int output, const heed_tensor *t) {
  const saved *s = i < n->nsaved ? &n->saved[i] : NULL;
  edge *e = &n->edges[i];
  node_keep(input);
  e->node = input;
  e->output = output;
  e->where = tensor_device(t);
  e->type = (uint8_t)t->type;
  e->rank = (uint8_t)t->at.rank;
  e->size = s != NULL && s->present ? s->dims : keep_dims(n, t->at.rank, t->at.size);
}


bool edge_has_shape (const edge *e, const layout *at) {
  if (e->rank != at->rank) return false;
  for (int i = 0; i < at->rank; i++)
    if (e->size[i] != at->size[i]) return false;
  return true;
}


layout edge_shape (const edge *e) {
  layout at;
  layout_dense(&at, e->rank, e->size);
  return at;
}

/* }================================================================== */


/*
** {==================================================================
** Saved values
** ===================================================================
*/

void node_save (node *n, int i, const heed_tensor *t) {
  saved *s = &n->saved[i];
  s->present = true;
  s->number = t->number;
  s->value = t->value;
  s->type = (uint8_t)t->type;
  s->rank = (uint8_t)t->at.rank;
  s->offset = t->at.offset;
  s->dims = keep_dims(n, t->at.rank, t->at.size);
  keep_dims(n, t->at.rank, t->at.stride);
  storage_keep(t->store);
  s->store = t->store;
  s->version = t->store != NULL ? t->store->version : 0;
}


static void read_layout (const saved *s, layout *at) {
  at->rank = s->rank;
  at->offset = s->offset;
  for (int i = 0; i < s->rank; i++) {
    at->size[i] = s->dims[i];
    at->stride[i] = s->dims[s->rank + i];
  }
}


static bool unchanged (node *n, const saved *s) {
  char text[240];
  if (s->store->version == s->version) return true;
  snprintf(text, sizeof text, "a value that its gradient needs was changed in place by %s_ "
           "(version %" PRId64 ", saved at %" PRId64 ")", core_op_name(s->store->changer),
           s->store->version, s->version);
  return core_fail_async(n->cx, core_op_name(n->op), text);
}


/* May saved value s be read? */
static bool check_saved (node *n, const saved *s) {
  if (n->freed)
    return core_fail(n->cx, "backward", "the graph was freed; pass retain_graph = true the first "
                     "time");
  return s->store == NULL || unchanged(n, s);
}


heed_tensor *node_saved (node *n, int i) {
  const saved *s = &n->saved[i];
  if (!check_saved(n, s) || !s->present) return NULL;
  if (s->store == NULL) return tensor_number(n->cx, s->value);
  layout at;
  read_layout(s, &at);
  heed_tensor *t = tensor_on(n->cx, s->store, s->type, &at);
  if (t == NULL) return NULL;
  t->number = s->number;
  t->value = s->value;
  if (capture_input(n->cx, t)) return t;
  heed_drop(t);
  return NULL;
}


/* Tells the capture that runs of the saved tensor, which its work reads. */
static bool capture_saved (node *n, int i) {
  heed_tensor *t = capture_watches(n->cx) ? node_saved(n, i) : NULL;
  heed_drop(t);
  return t != NULL || !capture_watches(n->cx);
}


bool node_view (node *n, int i, view *v) {
  const saved *s = &n->saved[i];
  view_clear(v);
  if (!check_saved(n, s)) return false;
  if (!s->present) return true;
  if (!capture_saved(n, i)) return false;
  v->type = s->type;
  v->value = s->value;
  read_layout(s, &v->at);
  v->at.offset = 0;
  if (s->store != NULL && s->store->data != NULL)
    v->data = (char *)s->store->data + scalar_bytes(s->type, s->offset);
  return true;
}

/* }================================================================== */
