/*
** backward.h - the backward pass, as the grad_ function of a row sees it.
**
** 'b->g' is the gradient of the first result (never NULL where there is one result); b->gs[] of all
** (NULL: zero). The pass sums given gradients over broadcast axes and converts them: no grad_
** function mentions either. Inputs are counted as IN counts them, results as OUT.
**
** Nothing is recorded while grad_name runs, unless the gradients are to have gradients of their own
** (create_graph). Then saved values have their nodes, all is made of operations and of views, and
** work is refused, since it has no gradient: op_supports answers false, and where nobody asks that,
** 'composes' says that operations are wanted.
*/

#ifndef backward_h
#define backward_h

#include "graph/row.h"
#include "tensor/tensor.h"

#pragma GCC visibility push(hidden)

typedef struct backward backward;
struct backward {
  heed_context *cx;
  heed_op op;
  node *n;
  heed_tensor *g, *gs[OP_OUTS];
  const heed_value *args;          /* as in call, but tensors and lists of them are absent */
  heed_tensor *given[OP_EDGES];    /* borrowed */
};

static inline bool wants (const backward *b, int i) { return b->n->edges[i].node != NULL; }
static inline layout shape_of (const backward *b, int i) { return edge_shape(&b->n->edges[i]); }
static inline int rank_of (const backward *b, int i) { return b->n->edges[i].rank; }
static inline heed_type type_of (const backward *b, int i) { return b->n->edges[i].type; }
/* Saved inputs and results, as temporaries; NULL with a message if changed in place; 'absent' ones
   (arguments that were left out) are NULL without one: test with has_input. */
heed_tensor *input (backward *b, int i);
bool has_input (const backward *b, int i);
heed_tensor *output (backward *b, int i);
heed_tensor *constant_output (backward *b, int i);   /* what no input with a gradient influences */
static inline bool composes (const backward *b) { return b->cx->scope.composing; }
/* The gradient of input i; false if g is NULL. Ignored when the input wants none. */
bool give (backward *b, int i, heed_tensor *g);

#define LAST_IN(b) ((b)->n->nedges - 1)      /* the last tensor argument, behind a list */

#pragma GCC visibility pop

#endif
