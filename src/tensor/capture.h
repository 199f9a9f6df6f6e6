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

/* Does a capture run, or are there tensors whose work was captured and is gone? */
static inline bool capture_watches (const heed_context *cx) {
  return cx->capture.where != NULL || cx->capture.lost > 0;
}
bool capture_add_input (heed_context *cx, heed_tensor *t);
void capture_add_gradient (node *leaf, bool read);   /* its gradient: 'read', or set */
bool capture_value (heed_tensor *t);                 /* false: t never got a value */
/* Work reads or writes t, which may be NULL. False: t never got a value. */
static inline bool capture_input (heed_context *cx, heed_tensor *t) {
  return t == NULL || !capture_watches(cx) || capture_add_input(cx, t);
}
static inline void capture_gradient (node *leaf, bool read) {
  if (leaf->cx->capture.where != NULL) capture_add_gradient(leaf, read);
}
bool capture_read (const heed_tensor *t, heed_type type, void *data);    /* of what is not reached:
                                             numbers alone have a value */

#pragma GCC visibility pop

#endif
