/*
** autocast.c - mixed precision: in which types a call works while heed_set_autocast names one.
**
** Rows have their policy from AUTOCAST of ops.def. Rows without one follow promotion, and so do
** calls with a float64 among their tensors, and calls in place. The calls that a row with a policy
** makes are not converted again.
*/

#include "graph/call.h"
#include "graph/make.h"
#include "graph/record.h"
#include "tensor/casts.h"

static bool is_double (const heed_tensor *t) {
  return t != NULL && !t->number && t->type == HEED_FLOAT64;
}


static bool has_double (const heed_value *args, int n) {
  for (int i = 0; i < n; i++) {
    const heed_value *v = &args[i];
    if (v->kind == HEED_TENSOR && is_double(v->tensor)) return true;
    for (int k = 0; v->kind == HEED_TENSORS && k < v->n; k++)
      if (is_double(v->tensors[k])) return true;
  }
  return false;
}


/* Conversions of parameters are kept; other conversions are temporaries. */
static heed_tensor *converted (heed_context *cx, heed_tensor *t, heed_type type) {
  const bool kept = type != HEED_FLOAT32 && heed_is_leaf(t) && heed_requires_grad(t);
  heed_tensor *cast = kept ? core_kept_cast(cx, t) : NULL;
  if (cast != NULL) return op_hold(cx, heed_keep(cast));
  cast = op_cast(t, type);
  return cast == NULL || (kept && !core_keep_cast(cx, t, cast)) ? NULL : cast;
}


/* Converts a float tensor; NULL, numbers and other types stay. */
static bool convert (heed_context *cx, heed_tensor **t, heed_type type) {
  if (*t == NULL || (*t)->number || !scalar_is_float((*t)->type) || (*t)->type == type) return true;
  *t = converted(cx, *t, type);
  return *t != NULL;
}


static bool convert_list (heed_context *cx, heed_value *v, heed_tensor **list, heed_type type) {
  if (v->n > OP_EDGES) return true;              /* too many: the operation refuses them */
  for (int i = 0; i < v->n; i++) {
    list[i] = v->tensors[i];
    if (!convert(cx, &list[i], type)) return false;
  }
  *v = heed_ts(v->n, list);
  return true;
}


bool op_autocast (call *c, heed_value *args, heed_tensor *list[OP_EDGES]) {
  heed_context *cx = c->cx;
  const autocast_policy p = c->in_place ? AUTOCAST_FOLLOWS : op_row_of(cx, c->op)->autocast;
  const int n = op_signature(cx, c->op)->parameters;
  const heed_type type = p == AUTOCAST_LOW ? cx->scope.mixed : HEED_FLOAT32;
  if (p == AUTOCAST_FOLLOWS) return true;
  bool good = true, changes = p != AUTOCAST_PROMOTES && !has_double(args, n);
  for (int i = 0; good && changes && i < n; i++) {
    if (args[i].kind == HEED_TENSOR) good = convert(cx, &args[i].tensor, type);
    if (args[i].kind == HEED_TENSORS) good = convert_list(cx, &args[i], list, type);
  }
  cx->scope.mixed = HEED_FLOAT32;      /* for the calls that the row makes */
  return good;
}
