/*
** node.h - a step of the graph, its inputs and what its gradient needs.
*/

#ifndef node_h
#define node_h

#include "memory/context.h"

#pragma GCC visibility push(hidden)

typedef struct node node;

/*
** A value that a backward function needs: a tensor without a graph, at a version. Here and in an
** edge, sizes and strides lie behind the node, as many as there are: most nodes have few.
*/
typedef struct saved {
  storage *store;                  /* NULL: a number that has none */
  int64_t version, offset;
  const int64_t *dims;             /* sizes, then strides */
  scalar value;                    /* of a number */
  uint8_t type, rank;
  bool number;
  bool present;                    /* false: no gradient that is wanted needs it, or left out */
} saved;

/*
** An input of a node: where its gradient goes. By its type, shape and device the backward pass sums
** over broadcast axes, converts and moves, in one place.
*/
typedef struct edge {
  node *node;                      /* NULL: wants no gradient */
  device *where;
  const int64_t *size;
  int output;                      /* of 'node' */
  uint8_t type, rank;
} edge;

typedef enum node_kind { NODE_LEAF, NODE_OP, NODE_OVERLAY, NODE_VIEW, NODE_CUSTOM } node_kind;

/* A host's function on the gradient of one of a node's outputs; or a leaf that retains it. */
struct heed_hook {
  node *n;
  heed_hook *next;                 /* in the order in which they were added */
  heed_hook *before;               /* of the first: the last */
  int64_t number;                  /* … counted */
  int output;
  heed_custom custom;
  node *retained;                  /* a leaf, which there is no function beside; or NULL */
};

/*
** A step of the graph. Nodes are made after their inputs, so 'order' falls along every edge.
** A leaf owns its gradient. Arrays lie behind the node, in one block.
*/
struct node {
  heed_context *cx;
  int64_t refs;
  int64_t order;
  node_kind kind;
  heed_op op;
  int nedges, nsaved, noutputs, nargs, ndims;
  int layer;                       /* that worked when it was made */
  edge *edges;                     /* one for each tensor argument, lists flattened */
  saved *saved;                    /* arguments' tensors first (nedges of them), then outputs */
  heed_value *args;                /* the scalar arguments as they were given (lists copied) */
  int64_t *dims;                   /* for sizes and strides: the next that is free */
  heed_tensor *gradient;           /* of a leaf */
  layout *region;                  /* OVERLAY and VIEW: the part of the base, in its storage */
  layout *base_at; heed_type type; /* of the base, or of the leaf */
  heed_custom custom;
  heed_hook *hooks;
  bool freed;                      /* by a pass without 'retain': edges lead nowhere */
  bool frozen;                     /* a leaf, which gets no gradient now */
  /* while a backward pass runs: */
  heed_tensor **incoming;          /* gradient of each output, or NULL (lies behind the node) */
  int64_t pass;                    /* the last that visited it */
  int64_t accumulated;             /* of a leaf: its index in the pass's list, if it is there */
  node *next;                      /* list of those to free */
};

/* The nodes of a context. */
typedef struct node_list {
  int64_t clock;                   /* the order of the latest node, from 1 on */
  int64_t n;                       /* alive */
  int64_t unhooked;                /* how many hooks were removed or moved so far */
  node *unreferenced;              /* wait to be freed */
  bool freeing;                    /* nodes are being freed */
} node_list;

typedef struct node_size {
  int edges, saved, outputs, args;
  int dims;                        /* a size for each axis of an edge, size and stride of a saved */
} node_size;
node *node_new (heed_context *cx, node_kind kind, heed_op op, node_size size);   /* refs 1, all
                                                        else zeroed */
void node_keep (node *n);
void node_drop (node *n);                            /* frees a chain without recursion */
node *node_leaf (heed_context *cx, const heed_tensor *t);
void node_forget (node *n);        /* of one that is no leaf, drops saved values and inputs' nodes:
                                      'freed' from now on */
int64_t node_order (const node *n);                  /* 0: there is none */
void node_put_gradient (node *leaf, heed_tensor *gradient);          /* which it owns now */
node *node_of_gradient (const heed_tensor *t);       /* the leaf that has t's; NULL: none */
bool node_is_retained (const heed_tensor *t);        /* is t's gradient, though t is no leaf? */
/* t is a result of n from now on, which may be NULL: a gradient that t retains is that of n's. */
void node_take (heed_tensor *t, node *n, int output);
heed_hook *node_add_hook (node *n, int output);      /* empty; NULL: no memory */
void node_remove_hook (heed_hook *hook);
void node_save (node *n, int i, const heed_tensor *t);
/* Edge i leads to an input, which may be NULL, from what is like t; after t was saved, if it is. */
void node_set_edge (node *n, int i, node *input, int output, const heed_tensor *t);
bool edge_has_shape (const edge *e, const layout *at);
layout edge_shape (const edge *e);                   /* dense */
bool node_view (node *n, int i, view *v);            /* the saved value itself, or view_none; false
                                                        after core_fail */
heed_tensor *node_saved (node *n, int i);            /* a new handle without a graph; checks the
                                                        version; NULL and no message if absent */

#pragma GCC visibility pop

#endif
