/*
** state.h - what this floor keeps in a context: each part has its file.
*/

#ifndef tensor_state_h
#define tensor_state_h

#include "tensor/capture.h"
#include "tensor/casts.h"
#include "tensor/node.h"

#pragma GCC visibility push(hidden)

typedef struct tensor_state {
  int64_t alive;                   /* tensors: the context waits for them at close */
  node_list nodes;                 /* node.c */
  cast_list casts;                 /* casts.c */
  capture_list captures;           /* capture.c */
  struct pending_release *pending; /* foreign.c: released while the device's work was captured */
} tensor_state;

bool tensor_open (heed_context *cx);                 /* false: no memory */
void tensor_close (heed_context *cx);
/* After a tensor or a node went: a closed context without either is freed. */
void tensor_left (heed_context *cx);
void foreign_end_releases (heed_context *cx);        /* that waited for a capture's end */

#pragma GCC visibility pop

#endif
