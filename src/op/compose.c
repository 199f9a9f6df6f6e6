/*
** compose.c - other operations, as compositions and backward functions call them.
*/

#include "op/compose.h"


heed_tensor *op_scale (heed_tensor *t, double factor) {
  return t != NULL ? op2(HEED_mul, t, op_float(t->cx, factor)) : NULL;
}


heed_tensor *op_shift (heed_tensor *t, double term) {
  return t != NULL ? op2(HEED_add, t, op_float(t->cx, term)) : NULL;
}


/* max, min and prod take one axis, not a list. */
heed_tensor *op_reduce (heed_op op, heed_tensor *t, int n, const int64_t *axes, bool keepdim) {
  if (t == NULL) return NULL;
  bool one = (op == HEED_max || op == HEED_min || op == HEED_prod);
  heed_value dim = one ? heed_i(axes[0]) : heed_l(n, axes);
  if (n == t->at.rank) dim = heed_none();
  return op_call(t->cx, op, 3, (heed_value[]){heed_t(t), dim, heed_b(keepdim)});
}


heed_tensor *op_reduce_axis (heed_op op, heed_tensor *t, int64_t axis, bool keepdim) {
  return op_reduce(op, t, 1, &axis, keepdim);
}


heed_tensor *op_along (heed_op op, heed_tensor *t, int64_t axis) {
  return t != NULL ? op_call(t->cx, op, 2, (heed_value[]){heed_t(t), heed_i(axis)}) : NULL;
}


heed_tensor *op_with_shape (heed_op op, heed_tensor *t, const layout *shape) {
  if (t == NULL || layout_same_shape(&t->at, shape)) return t;
  return op_call(t->cx, op, 2, (heed_value[]){heed_t(t), heed_l(shape->rank, shape->size)});
}


heed_tensor *op_reshape (heed_tensor *t, int rank, const int64_t *size) {
  layout shape;
  return t != NULL && layout_dense(&shape, rank, size) ? op_with_shape(HEED_reshape, t, &shape)
                                                       : NULL;
}


heed_tensor *op_swap (heed_tensor *t, int64_t a, int64_t b) {
  if (t == NULL) return NULL;
  return op_call(t->cx, HEED_transpose, 3, (heed_value[]){heed_t(t), heed_i(a), heed_i(b)});
}


heed_tensor *op_permute (heed_tensor *t, int n, const int64_t *order) {
  bool moves = false;
  for (int i = 0; i < n; i++) moves |= order[i] != i;
  if (t == NULL || !moves) return t;
  return op_call(t->cx, HEED_permute, 2, (heed_value[]){heed_t(t), heed_l(n, order)});
}


bool op_view_shaped (view *v, heed_tensor *t, int rank, const int64_t *size) {
  layout at;
  *v = view_none();
  if (t == NULL) return true;
  if (!layout_reshape(&t->at, rank, size, &at)) {
    t = op1(HEED_clone, t);
    if (t == NULL || !layout_reshape(&t->at, rank, size, &at)) return false;
  }
  *v = view_with(t, &at);
  return true;
}


heed_tensor *op_new_like (heed_context *cx, heed_type type, const layout *at) {
  heed_tensor *y = op_new(cx, type, at);
  if (y == NULL || !layout_is_packed(at)) return y;
  y->at = *at;
  y->at.offset = 0;
  return y;
}


heed_tensor *op_materialized (heed_tensor *t) {
  if (t == NULL || !t->number) return t;
  t = op_cast(t, op_promote(1, &t));
  return t != NULL && tensor_materialize(t) ? t : NULL;
}


double op_number_in (const heed_value *v, double otherwise) {
  if (v->kind == HEED_NONE) return otherwise;
  return v->kind == HEED_FLOAT ? v->number : (double)v->integer;
}


void op_mark_axes (const heed_value *dim, int rank, bool marks[HEED_RANK]) {
  int axis, n = dim->kind == HEED_LIST ? dim->n : dim->kind == HEED_INTEGER ? 1 : 0;
  for (int i = 0; i < HEED_RANK; i++) marks[i] = n == 0 && i < rank;
  for (int i = 0; i < n; i++)
    if (layout_axis(rank, dim->kind == HEED_LIST ? dim->list[i] : dim->integer, &axis))
      marks[axis] = axis < rank;
}


bool op_read (heed_tensor *t, double *value) {
  return t != NULL && heed_read(t, HEED_FLOAT64, value);
}


/*
** {==================================================================
** Dropout
** ===================================================================
*/

bool op_draw_key (heed_tensor *key) {
  work w;
  if (key == NULL) return false;
  const bool host = key->store->where->host;
  if (core_reaches(key->cx, key->store->where)) {
    uint64_t drawn = generator_64(&key->cx->random);
    return heed_write(key, HEED_INT64, &drawn);
  }
  work_random(&w, RANDOM_INTEGER, 0, 0, 0, host ? -1 : INT64_MAX, view_of(key));
  return op_run_for(key->cx, HEED_dropout, &w);  /* by the device's generator, also in a replay */
}


heed_tensor *op_dropout_factors (heed_context *cx, heed_op op, heed_type type,
                                 const layout *shape, double p, const heed_tensor *key) {
  work w;
  heed_tensor *factors = op_new(cx, type, shape);
  if (factors == NULL) return NULL;
  work_dropout(&w, p, view_of(factors), view_of(key));
  return op_run_for(cx, op, &w) ? factors : NULL;
}

/* }================================================================== */


/*
** {==================================================================
** Scans
** ===================================================================
*/

layout layout_with_last (const layout *at, int axis) {
  return at->rank > 0 ? layout_transpose(at, axis, at->rank - 1) : *at;
}


bool op_run_scan (heed_op op, scan_op kind, int axis, bool reverse, heed_tensor *y,
                  heed_tensor *x) {
  work w;
  if (y == NULL || x == NULL) return false;
  layout in = layout_with_last(&x->at, axis), out = layout_with_last(&y->at, axis);
  work_scan(&w, kind, reverse, view_with(y, &out), view_with(x, &in));
  return op_run_for(y->cx, op, &w);
}

/* }================================================================== */
