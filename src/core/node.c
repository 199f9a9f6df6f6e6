/*
** node.c - nodes of the graph: made, filled, forgotten, freed.
*/

#include "core/core.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>


/* Node, edges, saved values, incoming gradients and arguments lie in one block. */
static size_t size_of (int nedges, int nsaved, int noutputs, int nargs) {
  return sizeof(node) + (size_t)nedges * sizeof(edge) + (size_t)nsaved * sizeof(saved) +
         (size_t)noutputs * sizeof(heed_tensor *) + (size_t)nargs * sizeof(heed_value);
}


node *node_new (heed_context *cx, node_kind kind, heed_op op, int nedges, int nsaved,
                int noutputs, int nargs) {
  size_t bytes = size_of(nedges, nsaved, noutputs, nargs);
  node *n = core_alloc(cx, bytes);
  if (n == NULL) return NULL;
  memset(n, 0, bytes);
  n->cx = cx;
  n->refs = 1;
  n->order = ++cx->clock;
  n->kind = kind;
  n->op = op;
  n->nedges = nedges; n->nsaved = nsaved; n->noutputs = noutputs; n->nargs = nargs;
  n->edges = (edge *)(n + 1);
  n->saved = (saved *)(n->edges + nedges);
  n->incoming = (heed_tensor **)(n->saved + nsaved);
  n->args = (heed_value *)(n->incoming + noutputs);
  cx->nodes++;
  return n;
}


node *node_leaf (heed_context *cx, const heed_tensor *t) {
  node *n = node_new(cx, NODE_LEAF, HEED_NOPS, 0, 0, 1, 0);
  if (n == NULL) return NULL;
  n->base_at = t->at;
  n->type = t->type;
  return n;
}


void node_keep (node *n) {
  if (n != NULL) n->refs++;
}


int64_t node_order (const node *n) { return n != NULL ? n->order : 0; }


void node_put_gradient (node *leaf, heed_tensor *gradient) {
  heed_tensor *old = leaf->gradient;
  leaf->gradient = gradient;
  heed_drop(old);
}


node *node_of_gradient (const heed_tensor *t) {
  node *n = t->node;
  if (n == NULL || n->kind == NODE_LEAF) return n;
  for (heed_hook *h = n->hooks; h != NULL; h = h->next)
    if (h->output == t->output && h->retained != NULL) return h->retained;
  return NULL;
}


/*
** {==================================================================
** Hooks
** ===================================================================
*/

heed_hook *node_add_hook (node *n, int output) {
  heed_hook **end = &n->hooks, *h = core_alloc(n->cx, sizeof *h);
  int64_t number = 0;
  if (h == NULL) return NULL;
  for (; *end != NULL; end = &(*end)->next) number = (*end)->number;
  *h = (heed_hook){.n = n, .number = number + 1, .output = output};
  *end = h;
  return h;
}


void node_remove_hook (heed_hook *hook) {
  heed_hook **at = &hook->n->hooks;
  heed_custom custom = hook->custom;
  while (*at != hook) at = &(*at)->next;
  *at = hook->next;
  node_drop(hook->retained);
  core_free(hook->n->cx, hook, sizeof *hook);
  if (custom.release != NULL) custom.release(custom.self);
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
  for (int i = 0; i < n->noutputs; i++) heed_drop(n->incoming[i]);
  drop_edges(n);
  core_free(cx, n, size_of(n->nedges, n->nsaved, n->noutputs, n->nargs));
  cx->nodes--;
}


void node_drop (node *n) {
  if (n == NULL || --n->refs > 0) return;
  heed_context *cx = n->cx;
  n->next = cx->unreferenced;
  cx->unreferenced = n;
  if (cx->freeing) return;
  cx->freeing = true;
  while ((n = cx->unreferenced) != NULL) {
    cx->unreferenced = n->next;
    free_node(n);
  }
  cx->freeing = false;
  core_left(cx);
}


void node_forget (node *n) {
  if (n->kind == NODE_LEAF) return;
  n->freed = true;
  release_custom(n);
  drop_hooks(n, false);
  drop_saved(n);
  drop_edges(n);
}

/* }================================================================== */


/*
** {==================================================================
** Saved values
** ===================================================================
*/

bool node_save (node *n, int i, const heed_tensor *t, bool value) {
  saved *s = &n->saved[i];
  storage_drop(s->store);
  memset(s, 0, sizeof *s);
  if (t == NULL) return true;
  s->present = true;
  s->at = t->at;
  s->type = t->type;
  if (!value) return true;
  s->number = t->number;
  s->value = t->value;
  storage_keep(t->store);
  s->store = t->store;
  s->version = t->store != NULL ? t->store->version : 0;
  return true;
}


static bool unchanged (node *n, const saved *s) {
  char text[240];
  if (s->store->version == s->version) return true;
  snprintf(text, sizeof text, "a value that its gradient needs was changed in place by %s_ "
           "(version %" PRId64 ", saved at %" PRId64 ")", core_op_name(s->store->changer),
           s->store->version, s->version);
  return core_fail_async(n->cx, core_op_name(n->op), text);
}


heed_tensor *node_saved (node *n, int i) {
  const saved *s = &n->saved[i];
  if (n->freed)
    return core_fail(n->cx, "backward", "the graph was freed; pass retain_graph = true the first "
                     "time");
  if (!s->present) return NULL;
  if (s->store == NULL) return s->number ? tensor_number(n->cx, s->value) : NULL;
  if (!unchanged(n, s)) return NULL;
  heed_tensor *t = tensor_on(n->cx, s->store, s->type, &s->at);
  if (t == NULL) return NULL;
  t->number = s->number;
  t->value = s->value;
  capture_input(n->cx, t);
  return t;
}

/* }================================================================== */
