/*
** place.c - on which device a call works: where its tensors are.
**
** Numbers are on every device; a single element in the host's memory moves to the other tensors,
** and so does what is copied into another tensor. Nothing else moves by itself.
*/

#include <stdio.h>

#include "graph/check.h"
#include "graph/make.h"
#include "graph/record.h"


static device *device_of (const heed_tensor *t) {
  return t == NULL || t->number ? NULL : tensor_device(t);
}


/* The device of v's first tensor; NULL if it has none. */
static device *device_in (const heed_value *v) {
  device *where = v->kind == HEED_TENSOR ? device_of(v->tensor) : NULL;
  for (int k = 0; v->kind == HEED_TENSORS && where == NULL && k < v->n; k++)
    where = device_of(v->tensors[k]);
  return where;
}


static bool follows (const call *c, int i, const heed_value *v) {
  if (v->kind != HEED_TENSOR) return false;
  if (op_row_of(c->cx, c->op)->moved >> i & 1) return true;
  return v->tensor->at.rank == 0 && device_of(v->tensor)->host;
}


/* The argument whose device the call works on; -1: there is none. */
static int first_on_device (const call *c, const heed_value *args, int n) {
  int found = -1;
  if (c->in_place) return 0;                   /* the target */
  for (int i = 0; i < n; i++) {
    if (device_in(&args[i]) == NULL) continue;
    if (!follows(c, i, &args[i])) return i;
    if (found < 0) found = i;
  }
  return found;
}


/* "argument 'other'", or "entry 2 of 'tensors'" where entry k of a list is on 'where'. */
static const char *tensor_text (const call *c, int i, const heed_value *v, const device *where,
                               char text[64]) {
  int k = 0;
  while (v->kind == HEED_TENSORS && k < v->n && device_of(v->tensors[k]) != where) k++;
  if (v->kind == HEED_TENSORS) snprintf(text, 64, "entry %d of '%s'", k + 1, check_name(c, i));
  else snprintf(text, 64, "argument '%s'", check_name(c, i));
  return text;
}


static bool refuse_device (const call *c, const heed_value *args, int i, const device *where,
                           int first) {
  char one[64], other[64];
  const device *current = c->cx->scope.device;
  return core_fail(c->cx, op_name(c->op), "%s is on %s, %s on %s; move one with to()",
                   tensor_text(c, i, &args[i], where, one), where->name,
                   tensor_text(c, first, &args[first], current, other), current->name) != NULL;
}


/* Are all tensors of the list that argument i is on the current device? */
static bool check_list (const call *c, const heed_value *args, int i, int first) {
  for (int k = 0; k < args[i].n; k++) {
    const device *where = device_of(args[i].tensors[k]);
    if (where != NULL && where != c->cx->scope.device)
      return refuse_device(c, args, i, where, first);
  }
  return true;
}


/* Moves argument i to the current device if it follows; refuses what is elsewhere. */
static bool move_argument (call *c, heed_value *args, int i, int first) {
  heed_value *v = &args[i];
  device *current = c->cx->scope.device, *where = device_in(v);
  if (v->kind == HEED_TENSORS) return check_list(c, args, i, first);
  if (v->kind != HEED_TENSOR || where == current) return true;
  heed_tensor *t = v->tensor;
  if (where == NULL)               /* a number, perhaps with storage on another device */
    t = tensor_device(t) == NULL ? t : op_hold(c->cx, tensor_number(c->cx, t->value));
  else if (follows(c, i, v)) t = op_to(t, current);
  else return refuse_device(c, args, i, where, first);
  *v = heed_t(t);
  return t != NULL;
}


bool op_set_device (call *c, heed_value *args) {
  int n = op_signature(c->cx, c->op)->parameters, first = first_on_device(c, args, n);
  if (first >= 0) c->cx->scope.device = device_in(&args[first]);
  for (int i = 0; i < n; i++)
    if (!move_argument(c, args, i, first)) return false;
  return true;
}


heed_tensor *op_to (heed_tensor *t, device *where) {
  if (t == NULL || t->number || tensor_device(t) == where) return t;
  return op_call(t->cx, HEED_to, 3, (heed_value[]){heed_t(t), heed_none(), heed_s(where->name)});
}
