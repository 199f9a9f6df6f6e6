/*
** record.h - how a call becomes a node, and on which device and in which type it works.
*/

#ifndef record_h
#define record_h

#include "graph/call.h"

#pragma GCC visibility push(hidden)

/* record.c: the node of a handle, made anew if its base was changed in place since. */
node *graph_node_of (heed_tensor *t, int *output);               /* not kept; NULL: none */
bool graph_record (call *c, const op_row *row);                  /* gives c->out a node */
bool graph_check_view (const heed_tensor *t, bool recorded, heed_op op);     /* or refuses */
bool graph_call_hooks (node *n);   /* hook.c: they may give other gradients than n->incoming */
/* The tensors among the arguments: are there any with a graph? False: no memory, or too many. */
bool graph_inputs (heed_context *cx, heed_op op, const heed_value *args, bool *any);
int op_edges (heed_context *cx, heed_op op, const heed_value *args, heed_tensor *ts[OP_EDGES]);
      /* the tensor arguments in order, lists flattened, NULL where left out; -1: too many */

/*
** A change in place: what gets a node by it, once y is written over the target. False: no memory.
** The end of one that was begun takes none.
*/
typedef struct overlay {
  heed_tensor *t;                  /* the target, or what it is a view of */
  node *n;                         /* NULL: t's graph ends */
  node *view;                      /* the target's own, where it is made at once; or NULL */
  int output;                      /* of n */
} overlay;
bool graph_overlay_begin (overlay *o, heed_tensor *target, heed_tensor *y, heed_op op);
void graph_overlay_end (const overlay *o, heed_tensor *target, bool done);

/* place.c: sets the current device for a call, once others are open, and moves what follows. */
bool op_set_device (call *c, heed_value *args);

/* autocast.c: converts the arguments of a call in mixed precision; lists into 'list'. */
bool op_autocast (call *c, heed_value *args, heed_tensor *list[OP_EDGES]);

#pragma GCC visibility pop

#endif
