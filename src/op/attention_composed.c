/*
** attention_composed.c - attention made of other operations, and its gradient: specs hold the fused
** work equal to it, and devices without fused work use it.
**
** Here the weights (B, H, T, S) stand in memory. Blocked keys and values never enter a sum: scores
** and their gradients are replaced where they are blocked, and in the products that sum over keys
** or queries a weight of 0 takes nothing, not even of NaN.
*/

#include <math.h>

#include "op/attention.h"


typedef struct weighing {
  heed_type type;                  /* that is computed in */
  heed_tensor *q, *k, *v;          /* (B, Hk, H / Hk, T, D), (B, Hk, 1, S, D or Dv) */
  heed_tensor *allowed;            /* broadcasts to (B, H, T, S); NULL: all are */
  heed_tensor *bend;               /* derivative of softcap, or NULL */
  heed_tensor *weights;            /* (B, H, T, S) */
  heed_tensor *factors;            /* of dropout, or NULL */
  heed_tensor *dropped;            /* weights after it */
  heed_tensor *lse;                /* (B, H, T, 1) */
} weighing;


/*
** {==================================================================
** Shapes
** ===================================================================
*/

/* (B, H or Hk, rows, columns) with the heads as (Hk, heads of each). */
static heed_tensor *grouped (const attending *o, heed_tensor *t) {
  if (t == NULL) return NULL;
  const int64_t *size = t->at.size;
  return op_reshape(t, 5, (int64_t[]){size[0], o->Hk, size[1] / o->Hk, size[2], size[3]});
}


/* Heads of queries as they were: (B, H, rows, columns). */
static heed_tensor *ungrouped (const attending *o, heed_tensor *t) {
  if (t == NULL) return NULL;
  const int64_t *size = t->at.size;
  return op_reshape(t, 4, (int64_t[]){size[0], o->H, size[3], size[4]});
}


/* A caller's tensor as (B, heads, rows, columns), grouped, of the computing type. */
static heed_tensor *taken (const attending *o, const weighing *p, heed_tensor *t) {
  if (t == NULL) return NULL;
  layout at = attention_layout(o, &t->at);
  return op_cast(grouped(o, op_view(t, &at)), p->type);
}


/* The tensor in the caller's shape and type: the inverse of the above. */
static heed_tensor *returned (heed_tensor *t, const layout *shape, heed_type type) {
  return op_cast(t != NULL ? op_with_shape(HEED_reshape, t, shape) : NULL, type);
}


static heed_tensor *transposed (heed_tensor *t) { return op_swap(t, -2, -1); }


/* The sum over the last axis, which stays. */
static heed_tensor *row_sum (heed_tensor *t) { return op_reduce_axis(HEED_sum, t, -1, true); }

/* }================================================================== */


/*
** {==================================================================
** Products in which 0 takes nothing
** ===================================================================
*/

static bool is_finite (heed_tensor *t, bool *answer) {
  double all;
  bool good = op_read(op1(HEED_all, op1(HEED_isfinite, t)), &all);
  *answer = good && all != 0;
  return good;
}


/*
** The infinities and NaN of b, summed with the signs of a: infinite where all terms are infinite
** and of one sign, NaN where they are not, 0 where there are none.
*/
static heed_tensor *product_of_infinite (heed_tensor *a, heed_tensor *b) {
  heed_context *cx = a->cx;
  heed_tensor *zero = op_integer(cx, 0), *sign = op1(HEED_sign, a);
  heed_tensor *infinite = op_cast(op1(HEED_logical_not, op1(HEED_isfinite, b)), b->type);
  heed_tensor *way = op3(HEED_where, op1(HEED_isinf, b), op1(HEED_sign, b), zero);
  heed_tensor *terms = op2(HEED_matmul, op1(HEED_abs, sign), infinite);
  heed_tensor *sum = op2(HEED_matmul, sign, way);
  heed_tensor *one_way = op2(HEED_eq, terms, op1(HEED_abs, sum));
  heed_tensor *value = op3(HEED_where, one_way, op_scale(sum, INFINITY), op_float(cx, NAN));
  return op3(HEED_where, op2(HEED_eq, terms, zero), zero, value);
}


/* a b, where an element of a that is 0 takes nothing of b, be that NaN or infinite. */
static heed_tensor *product (const weighing *p, heed_tensor *a, heed_tensor *b) {
  bool finite;
  heed_tensor *y = op2(HEED_matmul, a, b);
  if (y == NULL || p->allowed == NULL) return y;
  if (!is_finite(y, &finite)) return NULL;
  if (finite) return y;
  heed_tensor *rest = op3(HEED_where, op1(HEED_isfinite, b), b, op_integer(b->cx, 0));
  return op2(HEED_add, op2(HEED_matmul, a, rest), product_of_infinite(a, b));
}

/* }================================================================== */


/*
** {==================================================================
** Who may attend, and biases by distance
** ===================================================================
*/

/* t where one may attend, and 'otherwise' where not. */
static heed_tensor *unblocked (const weighing *p, heed_tensor *t, double otherwise) {
  if (t == NULL || p->allowed == NULL) return t;
  return op3(HEED_where, p->allowed, t, op_float(t->cx, otherwise));
}

/* i - j + S, (1, 1, 1, T S): the positions of pairs among the T + S - 1 distances. */
static heed_tensor *distances_of (const attending *o) {
  heed_context *cx = o->cx;
  const heed_value i[] = {heed_i(o->S), heed_i(o->S + o->T - 1), heed_i(1)};
  const heed_value j[] = {heed_i(0), heed_i(o->S - 1), heed_i(1)};
  heed_tensor *d = op2(HEED_sub, op_along(HEED_unsqueeze, op_call(cx, HEED_arange, 3, i), 1),
                       op_call(cx, HEED_arange, 3, j));
  return op_reshape(d, 4, (int64_t[]){1, 1, 1, o->T * o->S});
}


/* t (B, H, 1, n) */
static heed_tensor *repeated (const attending *o, heed_tensor *t, int64_t n) {
  layout to;
  layout_dense(&to, 4, (int64_t[]){o->B, o->H, 1, n});
  return op_with_shape(HEED_expand, t, &to);
}


/* The biases (H, T + S - 1), or fewer, as scores (B, H, T, S). */
static heed_tensor *spread (const attending *o, heed_tensor *relative) {
  const int64_t n = o->T + o->S - 1;
  layout to = attention_distances(o), at;
  layout_expand(&relative->at, &to, &at);
  heed_tensor *rows = op_reshape(op_view(relative, &at), 4, (int64_t[]){1, o->H, 1, n});
  rows = repeated(o, rows, n);
  heed_tensor *index = repeated(o, distances_of(o), o->T * o->S);
  if (rows == NULL || index == NULL) return NULL;
  heed_tensor *y = op_call(o->cx, HEED_gather, 3,
                           (heed_value[]){heed_t(rows), heed_i(-1), heed_t(index)});
  return op_reshape(y, 4, (int64_t[]){o->B, o->H, o->T, o->S});
}


/* The gradient of spreading: d (B, H, T, S), summed by distance, (B, H, T + S - 1). */
static heed_tensor *gathered (const attending *o, heed_tensor *d, heed_tensor *sums) {
  const int64_t n = o->T + o->S - 1;
  d = op_reshape(d, 4, (int64_t[]){o->B, o->H, 1, o->T * o->S});
  heed_tensor *index = repeated(o, distances_of(o), o->T * o->S);
  heed_tensor *to = op_reshape(sums, 4, (int64_t[]){o->B, o->H, 1, n});
  if (d == NULL || index == NULL || to == NULL) return NULL;
  to = op_call(o->cx, HEED_scatter_add, 4,
               (heed_value[]){heed_t(to), heed_i(-1), heed_t(index), heed_t(d)});
  return op_reshape(to, 3, (int64_t[]){o->B, o->H, n});
}

/* }================================================================== */


/*
** {==================================================================
** Forward
** ===================================================================
*/

/* scale q k^T, capped, with the biases, and -inf where it is blocked. */
static heed_tensor *scores (const attending *o, weighing *p) {
  heed_tensor *s = op_scale(ungrouped(o, op2(HEED_matmul, p->q, transposed(p->k))), o->scale);
  if (o->softcap != 0) {
    heed_tensor *y = op1(HEED_tanh, op_scale(s, 1 / o->softcap));
    p->bend = y != NULL ? op2(HEED_sub, op_float(o->cx, 1), op1(HEED_square, y)) : NULL;
    s = p->bend != NULL ? op_scale(y, o->softcap) : NULL;
  }
  if (o->bias != NULL) {
    layout at = attention_square(o, o->bias);
    s = op2(HEED_add, s, op_cast(op_view(o->bias, &at), p->type));
  }
  if (o->relative != NULL) s = op2(HEED_add, s, op_cast(spread(o, o->relative), p->type));
  return unblocked(p, s, -INFINITY);
}


/* Rows without any finite score get weights of 0. */
static bool set_weights (const attending *o, weighing *p, heed_tensor *s) {
  heed_tensor *zero = op_integer(o->cx, 0);
  heed_tensor *top = op_reduce_axis(HEED_max, s, -1, true);
  if (top == NULL) return false;
  top = op3(HEED_where, op2(HEED_eq, top, op_float(o->cx, -INFINITY)), zero, top);
  heed_tensor *e = op1(HEED_exp, op2(HEED_sub, s, top)), *sum = e != NULL ? row_sum(e) : NULL;
  p->lse = op2(HEED_add, top, op1(HEED_log, sum));
  sum = sum != NULL ? op3(HEED_where, op2(HEED_eq, sum, zero), op_float(o->cx, 1), sum) : NULL;
  p->weights = unblocked(p, op2(HEED_div, e, sum), 0);   /* also in a row that is NaN */
  return p->lse != NULL && p->weights != NULL;
}


static bool drop (const attending *o, weighing *p) {
  p->dropped = p->weights;
  if (o->dropout_key == NULL) return true;
  p->factors = op_dropout_factors(o->cx, o->op, p->type, &p->weights->at, o->dropout,
                                  o->dropout_key);
  p->dropped = op2(HEED_mul, p->weights, p->factors);
  return p->dropped != NULL;
}


static bool weigh (const attending *o, weighing *p) {
  *p = (weighing){.type = scalar_computing(o->query->type)};
  p->q = taken(o, p, o->query);
  p->k = taken(o, p, o->key);
  p->v = taken(o, p, o->value);
  return attention_allowed(o, &p->allowed) && set_weights(o, p, scores(o, p)) && drop(o, p);
}


/* The weights (B, H, T, S), their normalisers (B, H, T) and what they give, as results. */
static bool set_results (const attending *o, const weighing *p, bool weights,
                         heed_tensor *ys[OP_OUTS]) {
  layout result = attention_shape(o, o->Dv), square = attention_shape(o, o->S);
  layout rows = attention_shape(o, -1);
  heed_type type = o->query->type;
  heed_tensor *y = product(p, grouped(o, p->dropped), p->v), *all = NULL;
  if (weights) all = returned(p->dropped, &square, type);
  ys[OUT(attention, output)] = y = returned(y, &result, type);
  ys[OUT(attention, weights)] = all;
  ys[OUT(attention, lse)] = returned(p->lse, &rows, p->type);
  return y != NULL && ys[OUT(attention, lse)] != NULL && (all != NULL || !weights);
}


/* Without keys, or without queries. */
static bool set_no_results (const attending *o, bool weights, heed_tensor *ys[OP_OUTS]) {
  layout result = attention_shape(o, o->Dv), square = attention_shape(o, o->S);
  layout rows = attention_shape(o, -1);
  heed_type type = o->query->type;
  heed_tensor *y = op_zeros(o->cx, type, &result);
  heed_tensor *all = weights ? op_zeros(o->cx, type, &square) : NULL;
  ys[OUT(attention, output)] = y;
  ys[OUT(attention, weights)] = all;
  ys[OUT(attention, lse)] = op1(HEED_log, op_zeros(o->cx, scalar_computing(type), &rows));
  return y != NULL && ys[OUT(attention, lse)] != NULL && (all != NULL || !weights);
}


bool attention_composed (const attending *o, bool weights, heed_tensor *ys[OP_OUTS]) {
  weighing p;
  if (attention_is_empty(o)) return set_no_results(o, weights, ys);
  return weigh(o, &p) && set_results(o, &p, weights, ys);
}

/* }================================================================== */


/*
** {==================================================================
** Gradient
** ===================================================================
*/

/* Of the weights before dropout: (g v^T + their own gradient) factors. */
static heed_tensor *weights_gradient (const attending *o, const weighing *p, heed_tensor *g,
                                      heed_tensor *of_weights) {
  heed_tensor *d = NULL;
  if (g != NULL) d = ungrouped(o, op2(HEED_matmul, g, transposed(p->v)));
  if (of_weights != NULL) {
    layout at = attention_layout(o, &of_weights->at);
    heed_tensor *more = op_cast(op_view(of_weights, &at), p->type);
    d = g != NULL ? op2(HEED_add, d, more) : more;
  }
  else if (g == NULL) d = op_zeros(o->cx, p->type, &p->weights->at);
  d = unblocked(p, d, 0);
  return p->factors != NULL ? op2(HEED_mul, d, p->factors) : d;
}


/* Of the scores, biases included: w (d - sum w d), and w g for the normalisers. */
static heed_tensor *scores_gradient (const attending *o, const weighing *p, heed_tensor *d,
                                     heed_tensor *of_lse) {
  if (d == NULL) return NULL;
  d = op2(HEED_sub, d, row_sum(op2(HEED_mul, p->weights, d)));
  if (of_lse != NULL)
    d = op2(HEED_add, d, op_reshape(of_lse, 4, (int64_t[]){o->B, o->H, o->T, 1}));
  return unblocked(p, op2(HEED_mul, p->weights, d), 0);
}


/* (B, Hk, H / Hk, S, D), summed over the heads that share it. */
static heed_tensor *over_group (heed_tensor *t) {
  return op_reduce(HEED_sum, t, 1, (int64_t[]){2}, false);
}


bool attention_composed_back (const attending *o, heed_tensor *const gs[OP_OUTS],
                              heed_tensor *ds[ATTENTION_BACK_OUTS]) {
  weighing p;
  layout square = attention_shape(o, o->S);
  heed_type type = o->query->type;
  if (!weigh(o, &p)) return false;
  heed_tensor *g = taken(o, &p, gs[OUT(attention, output)]);
  if (g == NULL && gs[OUT(attention, output)] != NULL) return false;
  heed_tensor *d = weights_gradient(o, &p, g, gs[OUT(attention, weights)]);
  d = scores_gradient(o, &p, d, gs[OUT(attention, lse)]);
  if (ds[ATTENTION_DBIAS] != NULL) ds[ATTENTION_DBIAS] = returned(d, &square, type);
  if (ds[ATTENTION_DRELATIVE] != NULL)
    ds[ATTENTION_DRELATIVE] = gathered(o, d, ds[ATTENTION_DRELATIVE]);
  if (p.bend != NULL) d = unblocked(&p, op2(HEED_mul, d, p.bend), 0);
  d = grouped(o, op_scale(d, o->scale));
  heed_tensor *dq = product(&p, d, p.k), *dk = over_group(product(&p, transposed(d), p.q));
  ds[ATTENTION_DQ] = returned(dq, &o->query->at, type);
  ds[ATTENTION_DK] = returned(dk, &o->key->at, type);
  if (g != NULL) {
    heed_tensor *dv = over_group(product(&p, transposed(grouped(o, p.dropped)), g));
    ds[ATTENTION_DV] = returned(dv, &o->value->at, type);
  }
  return ds[ATTENTION_DQ] != NULL && ds[ATTENTION_DK] != NULL && ds[ATTENTION_DV] != NULL;
}

/* }================================================================== */
