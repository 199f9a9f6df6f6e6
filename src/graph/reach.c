/*
** reach.c - the nodes that a backward pass reaches, in the order in which it visits them.
**
** Nodes are made after their inputs, so the latest comes first.
*/

#include <string.h>

#include "graph/pass.h"


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


bool pass_reach (pass *p, node *root) { return reach_all(p, root) && sort_nodes(p); }
