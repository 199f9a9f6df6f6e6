/*
** sum.c - sums of gradients, which own their tensors.
*/

#include "graph/call.h"
#include "graph/make.h"
#include "graph/pass.h"
#include "graph/reduction.h"


bool sum_owns (const heed_tensor *t) {
  return t->refs == 1 && t->store != NULL && t->store->refs == 1;
}


/* Gradients of a leaf that took over other memory may differ: see check_leaf. */
static bool are_alike (const heed_tensor *a, const heed_tensor *b) {
  const device *where = a->cx->scope.device;
  return a->type == b->type && !a->number && !b->number && tensor_device(a) == where &&
         tensor_device(b) == where && layout_same_shape(&a->at, &b->at);
}


/* a + b, in a's place if nobody else sees it, owned; for tensors that are alike. */
static heed_tensor *added (heed_context *cx, heed_tensor *a, heed_tensor *b) {
  bool own = sum_owns(a) && layout_is_dense(&a->at);
  heed_tensor *y = own ? heed_keep(a) : tensor_new(cx, a->type, &a->at);
  work w;
  if (y == NULL) return NULL;
  work_map(&w, HEED_add, scalar_computing(a->type), 2);
  w.map.number[0] = 1;
  *w.out = view_of(y);
  w.in[IN(add, input)] = view_of(a);
  w.in[IN(add, other)] = view_of(b);
  if (op_run_for(cx, HEED_add, &w)) return y;
  heed_drop(y);
  return NULL;
}


/* *sum += g; g is borrowed. The first is only kept: copies are made when a second comes. */
bool sum_add (heed_context *cx, heed_tensor **sum, heed_tensor *g) {
  if (*sum == NULL) {
    *sum = heed_keep(g);
    return true;
  }
  heed_tensor *y = !cx->scope.recording && are_alike(*sum, g)
                   ? added(cx, *sum, g)
                   : heed_call(cx, HEED_add, (heed_value[]){heed_t(*sum), heed_t(g)}, 2);
  if (y == NULL) return false;
  heed_drop(*sum);
  *sum = y;
  return true;
}


/* By operations, for gradients that are recorded. */
static heed_tensor *recorded_sum (heed_tensor *g, const bool marks[HEED_RANK], const edge *e) {
  int64_t axes[HEED_RANK];
  int n = 0;
  for (int i = 0; i < g->at.rank; i++)
    if (marks[i]) axes[n++] = i;
  g = op_call(g->cx, HEED_sum, 2, (heed_value[]){heed_t(g), heed_l(n, axes)});
  if (g == NULL || edge_has_shape(e, &g->at)) return g;
  return op_call(g->cx, HEED_view, 2, (heed_value[]){heed_t(g), heed_l(e->rank, e->size)});
}


/* g summed over the axes along which an input was broadcast. */
static heed_tensor *sum_to (heed_tensor *g, const edge *e) {
  if (g == NULL || edge_has_shape(e, &g->at)) return g;
  bool marks[HEED_RANK];
  int extra = g->at.rank - e->rank;
  reduction f;
  for (int i = 0; i < g->at.rank; i++)
    marks[i] = i < extra || (e->size[i - extra] == 1 && g->at.size[i] != 1);
  if (g->cx->scope.recording) return recorded_sum(g, marks, e);
  reduction_open(&f, g, marks, false);
  heed_tensor *y = op_new_sized(g->cx, g->type, e->rank, e->size);
  return reduction_run(&f, HEED_sum, REDUCE_SUM, y, NULL) ? y : NULL;
}


heed_tensor *sum_fit (heed_tensor *g, const edge *e) {
  g = op_cast(sum_to(g, e), e->type);
  return e->where != NULL ? op_to(g, e->where) : g;
}
