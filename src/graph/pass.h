/*
** pass.h - a backward pass: the nodes that it reaches, and what becomes of their gradients.
*/

#ifndef pass_h
#define pass_h

#include "graph/backward.h"

#pragma GCC visibility push(hidden)

/* A leaf and what it gets at the end of the pass. */
typedef struct accumulated {
  node *leaf;
  heed_tensor *gradient;
  heed_tensor *sum;                /* the gradient that it has, which grows; NULL: it gets this */
} accumulated;

/* The incoming gradient of a node, set aside while a pass within the pass runs. */
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
  bool records;                    /* the gradients get gradients of their own; it retains */
  saved_gradient *saved;           /* of the outer pass */
  int64_t nsaved, saved_capacity;
} pass;

/* reach.c: p->nodes are those that a result of the root is made from, the latest first. False: no
   memory, or the pass is to stop. */
bool pass_reach (pass *p, node *root);

/* sum.c: *sum += g, which is borrowed. */
bool sum_add (heed_context *cx, heed_tensor **sum, heed_tensor *g);
/* g as the input that the edge stands for: summed over broadcast axes, converted, moved. */
heed_tensor *sum_fit (heed_tensor *g, const edge *e);
bool sum_owns (const heed_tensor *t);        /* does nobody else see t or its bytes? */

/* region.c: the backward functions of a view and of an overlay. */
bool grad_region (backward *b);
bool grad_overlay (backward *b);

/* backward.c: calls the backward function of b->n. */
bool backward_apply (backward *b);

#pragma GCC visibility pop

#endif
