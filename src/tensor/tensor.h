/*
** tensor.h - a tensor: a handle on storage, with a layout and a node.
*/

#ifndef tensor_h
#define tensor_h

#include "tensor/capture.h"
#include "tensor/node.h"

#pragma GCC visibility push(hidden)

/* A handle. Handles with one gradient share a node; views remember the handle they view. */
struct heed_tensor {
  heed_context *cx;
  int64_t refs;
  storage *store;
  node *node;                      /* NULL: no graph */
  node *frozen;                    /* of a leaf that requires no grad now: its node; or NULL */
  heed_tensor *base;               /* the handle that this is a view of, or NULL */
  int64_t base_order;              /* of base's node when this view's own was made; 0: none */
  heed_type type;
  int output;                      /* of node */
  bool number;                     /* came from a Lua number: joins types weakly; see 'value' */
  bool detached_view;              /* a view made without gradients: it has no graph */
  int32_t ahead;                   /* of its storage's version: it took over other memory */
  layout at;
  scalar value;                    /* of a number, which has no storage until it is needed */
};

/* These functions return NULL after core_fail. */
heed_tensor *tensor_new (heed_context *cx, heed_type type, const layout *shape);  /* dense, on the
                                                        current device */
heed_tensor *tensor_moved (heed_tensor *t, device *where, heed_type type);   /* a dense copy */
/* Can t be copied as it is? Blocks can where their rows lie along the axis where a dense tensor of
   t's shape has them. */
bool tensor_copies (const heed_tensor *t, const char *function);
device *tensor_device (const heed_tensor *t);        /* NULL: a number, which is on all of them */
/* The device of t; of a number the one on which it would get storage. */
static inline device *tensor_where (const heed_tensor *t) {
  return t->store != NULL ? t->store->where : t->cx->scope.device;
}
heed_tensor *tensor_on (heed_context *cx, storage *s, heed_type type, const layout *at);
                                          /* one more owner of s */
heed_tensor *tensor_view (heed_tensor *t, const layout *at);     /* of t's storage, no graph */
/* Checks what a host gave, and makes the layout of it. */
bool tensor_check (heed_context *cx, const char *function, heed_type type, int rank,
                   const int64_t *size, layout *at);
heed_tensor *tensor_lend (heed_context *cx, device *where, heed_type type, int rank,
                          const int64_t *size, void *data, void (*release) (void *, void *),
                          void *self);               /* checks as heed_lend does */
heed_tensor *tensor_number (heed_context *cx, scalar value);     /* rank 0, weak, no storage */

/* leaf.c: the halves of heed_take_over and heed_set_gradient; the second of each does not fail. */
bool tensor_may_take_over (const heed_tensor *t, heed_tensor *from);
void tensor_take_over (heed_tensor *t, const heed_tensor *from);
bool tensor_has_gradient (const heed_tensor *t, bool some);  /* may it have: some, or none? */
heed_tensor *tensor_gradient_for (const heed_tensor *t, heed_tensor *gradient);  /* owned */
void tensor_put_gradient (heed_tensor *t, heed_tensor *gradient);    /* which it owns now */

bool tensor_materialize (heed_tensor *t);            /* gives a number storage; true for others */
/* The handle that t is a view of; NULL also when that has taken over other memory since. */
static inline heed_tensor *tensor_viewed (const heed_tensor *t) {
  return t->base != NULL && t->base->store == t->store ? t->base : NULL;
}
/* The tensor that t is a view of, if t's graph comes from there. */
static inline heed_tensor *tensor_base (const heed_tensor *t) {
  return t->detached_view ? NULL : tensor_viewed(t);
}
/* Did that handle get a node after t's own was made? graph_node_of makes t's anew then. */
static inline bool tensor_behind (const heed_tensor *t) {
  const heed_tensor *base = tensor_base(t);
  return base != NULL && base->node != NULL && base->node->order != t->base_order;
}
/* The first element; NULL: a number, or there are no elements. */
static inline void *tensor_data (const heed_tensor *t) {
  return t->store == NULL || t->store->data == NULL ? NULL
       : (char *)t->store->data + scalar_bytes(t->type, t->at.offset);
}
/* For a device, with another layout of its storage (at->offset counted in storage). */
static inline void view_set (view *v, const heed_tensor *t, const layout *at) {
  v->type = t->type;
  layout_copy(&v->at, at);
  v->at.offset = 0;
  if (t->number) v->value = t->value;
  v->data = t->store == NULL || t->store->data == NULL ? NULL
          : (char *)t->store->data + scalar_bytes(t->type, at->offset);
}
static inline view view_with (const heed_tensor *t, const layout *at) {
  view v;
  view_set(&v, t, at);
  return v;
}
/* For a device; without storage, as its value. */
static inline view view_of (const heed_tensor *t) { return view_with(t, &t->at); }


#pragma GCC visibility pop

#endif
