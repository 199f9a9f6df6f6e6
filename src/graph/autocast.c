/*
** autocast.c - mixed precision: in which types a call works while heed_set_autocast names one.
**
** The lists are PyTorch's (torch.autocast, "Autocast Op Reference"). What stands in none of them
** follows promotion, and so do calls with a float64 among their tensors. What a listed operation
** calls for itself is not converted again.
*/

#include "graph/op.h"

typedef enum policy {
  FOLLOWS,                         /* promotion; its own calls may be converted */
  LOW,                             /* in the type that was named */
  FULL,                            /* halves become float32 */
  PROMOTES                         /* as it is, with all that it is made of */
} policy;

static policy policy_of (heed_op op) {
  switch (op) {
    case HEED_matmul: case HEED_bmm: case HEED_addmm: case HEED_baddbmm: case HEED_einsum:
    case HEED_linear: case HEED_attention:
      return LOW;
    case HEED_reciprocal: case HEED_rsqrt: case HEED_exp: case HEED_expm1: case HEED_log:
    case HEED_log2: case HEED_log1p: case HEED_tan: case HEED_asin: case HEED_acos:
    case HEED_sinh: case HEED_cosh: case HEED_softplus: case HEED_pow: case HEED_square:
    case HEED_sum: case HEED_prod: case HEED_cumsum: case HEED_cumprod: case HEED_logsumexp:
    case HEED_norm: case HEED_normalize: case HEED_cosine_similarity:
    case HEED_softmax: case HEED_log_softmax: case HEED_layer_norm: case HEED_rms_norm:
    case HEED_cross_entropy: case HEED_nll_loss: case HEED_binary_cross_entropy:
    case HEED_bce_with_logits: case HEED_mse_loss: case HEED_l1_loss: case HEED_smooth_l1_loss:
    case HEED_huber_loss: case HEED_kl_div:
      return FULL;
    case HEED_outer: case HEED_dot:
      return PROMOTES;
    default: return FOLLOWS;
  }
}


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


/* Conversions of parameters are kept; others are temporaries. */
static heed_tensor *converted (heed_context *cx, heed_tensor *t, heed_type type) {
  const bool kept = type != HEED_FLOAT32 && heed_is_leaf(t) && heed_requires_grad(t) &&
                    tensor_viewed(t) == NULL;
  heed_tensor *cast = kept ? core_kept_cast(cx, t) : NULL;
  if (cast != NULL) return op_hold(cx, heed_keep(cast));
  cast = op_cast(t, type);
  return cast == NULL || (kept && !core_keep_cast(cx, t, cast)) ? NULL : cast;
}


/* NULL, a number, or of another kind than floats: as it is. */
static bool convert (heed_context *cx, heed_tensor **t, heed_type type) {
  if (*t == NULL || (*t)->number || !scalar_is_float((*t)->type) || (*t)->type == type) return true;
  *t = converted(cx, *t, type);
  return *t != NULL;
}


static bool convert_list (heed_context *cx, heed_value *v, heed_tensor **list, heed_type type) {
  if (v->n > OP_EDGES) return true;              /* which the operation refuses */
  for (int i = 0; i < v->n; i++) {
    list[i] = v->tensors[i];
    if (!convert(cx, &list[i], type)) return false;
  }
  *v = heed_ts(v->n, list);
  return true;
}


bool op_autocast (call *c, heed_value *args, heed_tensor *list[OP_EDGES]) {
  heed_context *cx = c->cx;
  const policy p = c->in_place ? FOLLOWS : policy_of(c->op);
  const int n = op_signature(c->op)->parameters;
  const heed_type type = p == LOW ? cx->autocast.type : HEED_FLOAT32;
  if (p == FOLLOWS) return true;
  bool good = true, changes = p != PROMOTES && !has_double(args, n);
  for (int i = 0; good && changes && i < n; i++) {
    if (args[i].kind == HEED_TENSOR) good = convert(cx, &args[i].tensor, type);
    if (args[i].kind == HEED_TENSORS) good = convert_list(cx, &args[i], list, type);
  }
  cx->autocast.type = HEED_FLOAT32;              /* for what it calls itself; run sets it back */
  return good;
}
