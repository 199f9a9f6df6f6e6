/*
** hook.c - functions of the host's on the gradients of tensors, and gradients that are
** retained.
**
** The node whose result a tensor is has a list of both. A pass calls the functions as soon
** as all of a node's gradients have come together, then retains, then goes on.
*/

#include "graph/record.h"
#include "tensor/state.h"


/* The node that t is a result of, which a pass can still reach. */
static node *live_node (heed_tensor *t, const char *function, int *output) {
  node *n = graph_node_of(t, output);
  if (n == NULL)
    return core_fail(t->cx, function, "the tensor has no gradient: it does not require grad");
  if (n->freed)
    return core_fail(t->cx, function, "the graph was freed by an earlier backward");
  return n;
}


heed_hook *heed_add_hook (heed_tensor *t, const heed_custom *hook) {
  int output;
  if (t == NULL) return NULL;
  if (hook == NULL || hook->backward == NULL)
    return core_fail(t->cx, "register_hook", "there is no function");
  node *n = live_node(t, "register_hook", &output);
  heed_hook *h = n != NULL ? node_add_hook(n, output) : NULL;
  if (h != NULL) h->custom = *hook;
  return h;
}


void heed_remove_hook (heed_hook *hook) {
  if (hook != NULL) node_remove_hook(hook);
}


bool heed_retain_gradient (heed_tensor *t) {
  int output;
  node *n = t != NULL ? live_node(t, "retain_grad", &output) : NULL;
  if (n == NULL || node_of_gradient(t) != NULL) return n != NULL;
  node *leaf = node_leaf(t->cx, t);
  heed_hook *h = leaf != NULL ? node_add_hook(n, output) : NULL;
  if (h == NULL) node_drop(leaf);
  else h->retained = leaf;
  return h != NULL;
}


bool heed_graph_is_shared (const heed_tensor *t) {
  return t != NULL && (t->refs > 1 || (t->node != NULL && t->node->refs > 1));
}


/* A hook's gradient replaces g, and must have its shape and type. */
static bool check_hooked (const heed_tensor *g, const heed_tensor *given) {
  char want[LAYOUT_TEXT], got[LAYOUT_TEXT];
  heed_context *cx = g->cx;
  if (given->cx != cx)
    return core_fail(cx, "register_hook", "the hook gave a gradient of another context");
  if (!layout_same_shape(&g->at, &given->at) || g->type != given->type)
    return core_fail(cx, "register_hook", "the hook gave %s of shape %s for a gradient that is %s "
                     "of shape %s", scalar_names[given->type], layout_text(&given->at, got),
                     scalar_names[g->type], layout_text(&g->at, want));
  return tensor_device(g) == tensor_device(given) ||
         core_fail(cx, "register_hook", "the hook gave a gradient on %s for one on %s",
                   heed_device_of(given), heed_device_of(g));
}


/* The function may remove hooks, this one too: nothing of it is used afterwards. */
static bool call_hook (node *n, const heed_hook *h) {
  heed_custom custom = h->custom;
  int output = h->output;
  heed_tensor *g = n->incoming[output], *given = NULL;
  const scope before = scope_begin(n->cx);
  n->cx->scope.caller = NULL;          /* a failure names the hook */
  bool good = custom.backward(custom.self, 1, &g, 1, &given);
  if (good && given != NULL) good = tensor_materialize(given) && check_hooked(g, given);
  if (!good && !n->cx->failure.set) core_fail(n->cx, "register_hook", "the hook failed");
  scope_end(n->cx, &before);
  if (!good || given == NULL) {
    heed_drop(given);
    return good;
  }
  n->incoming[output] = given;
  heed_drop(g);
  return true;
}


/* The first, from h on and behind a number, whose output has a gradient. */
static const heed_hook *hook_from (const node *n, const heed_hook *h, int64_t number) {
  while (h != NULL &&
         (h->number <= number || h->retained != NULL || n->incoming[h->output] == NULL))
    h = h->next;
  return h;
}


/* The next one stands behind h, unless hooks were removed: then it is looked for by its number. */
bool graph_call_hooks (node *n) {
  const int64_t *unhooked = &n->cx->tensors->nodes.unhooked;
  const heed_hook *h = hook_from(n, n->hooks, 0);
  while (h != NULL) {
    const int64_t number = h->number, before = *unhooked;
    if (!call_hook(n, h)) return false;
    h = hook_from(n, *unhooked == before ? h->next : n->hooks, number);
  }
  return true;
}
