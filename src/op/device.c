/*
** place.c - on which device a call works: where its tensors are.
**
** Numbers are everywhere; a single element of the host's follows the other tensors, and so
** does what is copied into another tensor. Nothing else moves by itself.
*/

#include <stdio.h>

#include "op/op.h"


static device *index_of (const heed_tensor *t) {
  return t == NULL || t->number ? NULL : tensor_device(t);
}


/* The device of v's first tensor; NULL if it has none. */
static device *index_in (const heed_value *v) {
  device *where = v->kind == HEED_TENSOR ? index_of(v->tensor) : NULL;
  for (int k = 0; v->kind == HEED_TENSORS && where == NULL && k < v->n; k++)
    where = index_of(v->tensors[k]);
  return where;
}


static bool follows (const call *c, int i, const heed_value *v) {
  if (v->kind != HEED_TENSOR) return false;
  return (c->op == HEED_copy && i == 1) || (v->tensor->at.rank == 0 && index_of(v->tensor)->host);
}


/* The argument that says where the call works; -1: none does. */
static int first_placed (const call *c, const heed_value *args, int n) {
  int found = -1;
  if (c->in_place) return 0;
  for (int i = 0; i < n; i++) {
    if (index_in(&args[i]) == NULL) continue;
    if (!follows(c, i, &args[i])) return i;
    if (found < 0) found = i;
  }
  return found;
}


/* "argument 'other'", or "entry 2 of 'tensors'" where entry k of a list is on 'where'. */
static const char *index_text (const call *c, int i, const heed_value *v, const device *where,
                               char text[64]) {
  int k = 0;
  while (v->kind == HEED_TENSORS && k < v->n && index_of(v->tensors[k]) != where) k++;
  if (v->kind == HEED_TENSORS) snprintf(text, 64, "entry %d of '%s'", k + 1, check_name(c, i));
  else snprintf(text, 64, "argument '%s'", check_name(c, i));
  return text;
}


static bool refuse_index (const call *c, const heed_value *args, int i, const device *its,
                          int first) {
  char one[64], other[64];
  const device *here = c->cx->current;
  return core_fail(c->cx, "%s: %s is on %s, %s on %s; move one with to()", check_caller(c),
                   index_text(c, i, &args[i], its, one), its->name,
                   index_text(c, first, &args[first], here, other), here->name) != NULL;
}


/* The list that argument i is, if all of it is here. */
static bool check_list (const call *c, const heed_value *args, int i, int first) {
  for (int k = 0; k < args[i].n; k++) {
    const device *its = index_of(args[i].tensors[k]);
    if (its != NULL && its != c->cx->current) return refuse_index(c, args, i, its, first);
  }
  return true;
}


/* Argument i, here. */
static bool bring (call *c, heed_value *args, int i, int first) {
  heed_value *v = &args[i];
  device *here = c->cx->current, *its = index_in(v);
  if (v->kind == HEED_TENSORS) return check_list(c, args, i, first);
  if (v->kind != HEED_TENSOR || its == here) return true;
  heed_tensor *t = v->tensor;
  if (its == NULL)                 /* a number, materialized elsewhere perhaps */
    t = tensor_device(t) == NULL ? t : op_hold(c->cx, tensor_number(c->cx, t->value));
  else if (follows(c, i, v)) t = op_to(t, here);
  else return refuse_index(c, args, i, its, first);
  *v = heed_t(t);
  return t != NULL;
}


/* Sets 'here' for a call, and brings what follows. 'to' itself looks after its own. */
bool op_set_device (call *c, heed_value *args) {
  int n = op_signature(c->cx, c->op)->parameters, first = first_placed(c, args, n);
  if (first >= 0) c->cx->current = index_in(&args[first]);
  for (int i = 0; i < n; i++)
    if (!bring(c, args, i, first)) return false;
  return true;
}


heed_tensor *op_to (heed_tensor *t, device *where) {
  if (t == NULL || t->number || tensor_device(t) == where) return t;
  return op_call(t->cx, HEED_to, 3, (heed_value[]){heed_t(t), heed_none(), heed_s(where->name)});
}
