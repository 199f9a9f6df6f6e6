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

/* A change in place: the tensor takes the node of y, its new value; of a view, the base does. */
typedef struct overlay { node *base, *view; } overlay;
bool graph_overlay_begin (overlay *o, heed_tensor *target, heed_tensor *y, heed_op op);
void graph_overlay_end (const overlay *o, heed_tensor *target, const heed_tensor *y, bool done);

int op_edges (heed_context *cx, heed_op op, const heed_value *args, heed_tensor *ts[OP_EDGES]);
      /* the tensor arguments in order, lists flattened, NULL where left out; -1: too many */

/* place.c: sets the current device for a call, once others are open, and moves what follows. */
bool op_set_device (call *c, heed_value *args);

/* autocast.c: converts the arguments of a call in mixed precision; lists into 'list'. */
bool op_autocast (call *c, heed_value *args, heed_tensor *list[OP_EDGES]);

#pragma GCC visibility pop

#endif
