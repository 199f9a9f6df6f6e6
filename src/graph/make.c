/*
** make.c - tensors that operations make: temporaries of the call that runs.
*/

#include <string.h>

#include "graph/call.h"
#include "graph/make.h"
#include "graph/state.h"


heed_tensor *op_hold (heed_context *cx, heed_tensor *owned) {
  if (owned == NULL) return NULL;
  temporary_list *t = &cx->graph->temporaries;
  if (t->n == t->capacity &&
      !core_grow(cx, (void **)&t->list, t->n, &t->capacity, sizeof *t->list)) {
    heed_drop(owned);
    return NULL;
  }
  return t->list[t->n++] = owned;
}


void op_drop_temporaries (heed_context *cx, int64_t mark) {
  temporary_list *t = &cx->graph->temporaries;
  while (t->n > mark) heed_drop(t->list[--t->n]);
}


heed_tensor *op_new (heed_context *cx, heed_type type, const layout *shape) {
  return op_hold(cx, tensor_new(cx, type, shape));
}


heed_tensor *op_new_sized (heed_context *cx, heed_type type, int rank, const int64_t *size) {
  return op_hold(cx, heed_empty(cx, type, rank, size));
}


/* In a gradient that is recorded a view's node comes from its base, as after a change in place. */
heed_tensor *op_view (heed_tensor *t, const layout *at) {
  if (t == NULL || !tensor_materialize(t)) return NULL;
  heed_tensor *y = op_hold(t->cx, tensor_view(t, at));
  if (y != NULL && t->cx->scope.composing) y->base_order = 0;
  return y;
}


heed_tensor *op_float (heed_context *cx, double value) {
  return op_hold(cx, tensor_number(cx, (scalar){.type = HEED_FLOAT64, .f = value}));
}


heed_tensor *op_integer (heed_context *cx, int64_t value) {
  return op_hold(cx, tensor_number(cx, (scalar){.type = HEED_INT64, .i = value}));
}


bool op_filled (heed_tensor *t, int64_t value) {
  work w;
  scalar x = {.type = HEED_INT64, .i = value};
  work_copy(&w, COPY_APART, view_of(t), view_number(x));
  return layout_numel(&t->at) == 0 || core_run(t->cx, HEED_fill, t->cx->scope.device, &w);
}


#define LONG_FILL ((size_t)1 << 20)    /* bytes: more are work, which can be stopped */

heed_tensor *op_zeros (heed_context *cx, heed_type type, const layout *shape) {
  heed_tensor *t = op_new(cx, type, shape);
  if (t == NULL) return NULL;
  size_t bytes = (size_t)scalar_bytes(type, layout_numel(&t->at));
  if (!core_reaches(cx, cx->scope.device) || bytes > LONG_FILL)
    return op_filled(t, 0) ? t : NULL;
  memset(t->store->data, 0, bytes);
  return t;
}
