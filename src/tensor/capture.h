/*
** capture.h - what captured work reads is kept for it, and compared before a replay.
*/

#ifndef capture_h
#define capture_h

#include "tensor/node.h"

#pragma GCC visibility push(hidden)

/* The capture that runs, and those that wait for its end. */
typedef struct capture_list {
  heed_capture *running;           /* or NULL */
  heed_capture *dropped;           /* meanwhile: freed at its end */
} capture_list;

void capture_add_input (heed_context *cx, heed_tensor *t);
void capture_add_gradient (node *leaf, bool read);   /* its gradient: 'read', or set */
static inline void capture_input (heed_context *cx, heed_tensor *t) {
  if (cx->capture.where != NULL && t != NULL) capture_add_input(cx, t);
}
static inline void capture_gradient (node *leaf, bool read) {
  if (leaf->cx->capture.where != NULL) capture_add_gradient(leaf, read);
}
bool capture_read (const heed_tensor *t, heed_type type, void *data);    /* of what is not reached:
                                             numbers alone have a value */

#pragma GCC visibility pop

#endif
