/*
** norm.c - layer norm, rms norm and dropout; the norms' gradients; vectors of length 1.
**
** The axes that are normed over are viewed as one, all others as rows: (R, C). Statistics of
** the rows are float32, or float64 for float64.
*/

#include <float.h>
#include <math.h>

#include "op/compose.h"
#include "op/move.h"


typedef struct norm {
  heed_context *cx;
  heed_op op;
  bool layer;                      /* or rms */
  int64_t size[2];                 /* R and C */
  double eps;
  heed_tensor *x, *weight, *bias;  /* the latter may be NULL */
  heed_tensor *mean, *rstd;        /* (R); mean is NULL for rms */
} norm;

SAME_ARG(layer_norm, rms_norm, input);
SAME_ARG(layer_norm, rms_norm, shape);
SAME_ARG(layer_norm, rms_norm, weight);
SAME_IN(layer_norm, rms_norm, input);
SAME_IN(layer_norm, rms_norm, weight);
SAME_OUT(layer_norm, rms_norm, output);


/*
** {==================================================================
** Arguments
** ===================================================================
*/

/* Is 'shape' what x ends with? Then sets R and C. */
static bool check_shape_of_norm (call *c, norm *o, layout *shape) {
  const layout *at = &o->x->at;
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  if (!check_shape(c, ARG(layer_norm, shape), -1, shape)) return false;
  bool ends = shape->rank > 0 && shape->rank <= at->rank;
  for (int i = 1; ends && i <= shape->rank; i++)
    ends = shape->size[shape->rank - i] == at->size[at->rank - i];
  if (!ends)
    return check_refuse(c, ARG(layer_norm, shape), "%s is not what the shape %s of argument "
                        "'input' ends with", layout_text(shape, want), layout_text(at, have));
  o->size[0] = o->size[1] = 1;
  for (int i = 0; i < at->rank; i++) o->size[i >= at->rank - shape->rank] *= at->size[i];
  return true;
}


/* Weight or bias: NULL, or a tensor of that shape. */
static bool read_scale (call *c, int i, const layout *shape, heed_tensor **t) {
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  *t = arg_tensor(c, i);
  if (*t == NULL) return true;
  if (!layout_same_shape(&(*t)->at, shape))
    return check_refuse(c, i, "a tensor of shape %s expected, got one of shape %s",
                        layout_text(shape, want), layout_text(&(*t)->at, have));
  return check_float(c, i);
}


static double default_eps (const heed_tensor *x) {
  return x->type == HEED_FLOAT64 ? DBL_EPSILON : FLT_EPSILON;
}


static bool read_norm (call *c, norm *o) {
  layout shape;
  int eps = o->layer ? ARG(layer_norm, eps) : ARG(rms_norm, eps);
  o->cx = c->cx;
  o->op = c->op;
  o->x = arg_tensor(c, ARG(layer_norm, input));
  o->bias = o->mean = NULL;
  if (!check_float(c, ARG(layer_norm, input)) || !check_shape_of_norm(c, o, &shape)) return false;
  if (!read_scale(c, ARG(layer_norm, weight), &shape, &o->weight)) return false;
  if (o->layer && !read_scale(c, ARG(layer_norm, bias), &shape, &o->bias)) return false;
  o->eps = op_number_in(&c->args[eps], default_eps(o->x));
  if (o->eps >= 0 && isfinite(o->eps)) return true;
  return check_refuse(c, eps, "a finite number of at least 0 expected, got %g", o->eps);
}


static bool is_empty (const norm *o) { return layout_numel(&o->x->at) == 0; }


/* t, or view_none for NULL, as rows (R, C), as one row (C), as one number for each (R). */
static bool view_rows (const norm *o, view *v, heed_tensor *t) {
  return op_view_shaped(v, t, 2, o->size);
}

static bool set_row_view (const norm *o, view *v, heed_tensor *t) {
  return op_view_shaped(v, t, 1, o->size + 1);
}

static bool view_column (const norm *o, view *v, heed_tensor *t) {
  return op_view_shaped(v, t, 1, o->size);
}

/* }================================================================== */


/*
** {==================================================================
** Forward
** ===================================================================
*/

/* Makes mean and rstd too. */
static heed_tensor *fused (norm *o) {
  work w;
  heed_type type = scalar_computing(o->x->type);
  heed_tensor *y = op_new(o->cx, o->x->type, &o->x->at);
  if (o->layer) o->mean = op_new_sized(o->cx, type, 1, o->size);
  o->rstd = op_new_sized(o->cx, type, 1, o->size);
  if (y == NULL || o->rstd == NULL || (o->layer && o->mean == NULL)) return NULL;
  if (is_empty(o)) return y;
  work_norm(&w, o->layer ? NORM_LAYER : NORM_RMS, o->eps);
  return view_rows(o, &w.out[NORM_Y], y) && view_column(o, &w.out[NORM_MEAN], o->mean) &&
         view_column(o, &w.out[NORM_RSTD], o->rstd) && view_rows(o, &w.in[NORM_X], o->x) &&
         set_row_view(o, &w.in[NORM_WEIGHT], o->weight) &&
         set_row_view(o, &w.in[NORM_BIAS], o->bias) &&
         op_run_for(o->cx, o->op, &w) ? y : NULL;
}


/* (R, C), in the type of the statistics. */
static heed_tensor *as_rows (const norm *o, heed_tensor *t) {
  return op_cast(op_reshape(t, 2, o->size), scalar_computing(o->x->type));
}


static heed_tensor *row_mean (heed_tensor *t) { return op_reduce_axis(HEED_mean, t, 1, true); }


/* Weight or bias as one row. */
static heed_tensor *as_row (const norm *o, heed_tensor *t) {
  return op_reshape(t, 1, o->size + 1);
}


/* (x - mean) rstd, by the statistics (R, 1). */
static heed_tensor *normed (const norm *o, heed_tensor *mean, heed_tensor *rstd) {
  heed_tensor *x = as_rows(o, o->x);
  return op2(HEED_mul, o->layer ? op2(HEED_sub, x, mean) : x, rstd);
}


/* Makes mean and rstd; x - mean, (R, C). Squares are float64: they may be out of x's range. */
static heed_tensor *set_statistics (norm *o) {
  heed_tensor *x = as_rows(o, o->x);
  heed_tensor *mean = o->layer ? row_mean(x) : NULL;
  if (o->layer) x = op2(HEED_sub, x, mean);
  heed_tensor *square = row_mean(op1(HEED_square, op_cast(x, HEED_FLOAT64)));
  heed_tensor *rstd = op1(HEED_rsqrt, op_shift(square, o->eps));
  o->mean = op_reshape(mean, 1, o->size);
  o->rstd = op_reshape(op_cast(rstd, scalar_computing(o->x->type)), 1, o->size);
  return x;
}


/* Makes mean and rstd too. */
static heed_tensor *composed (norm *o) {
  const int64_t column[] = {o->size[0], 1};
  heed_tensor *x = set_statistics(o);
  heed_tensor *y = op2(HEED_mul, x, op_reshape(o->rstd, 2, column));
  if (o->weight != NULL) y = op2(HEED_mul, y, as_row(o, o->weight));
  if (o->bias != NULL) y = op2(HEED_add, y, as_row(o, o->bias));
  if (o->rstd == NULL || (o->layer && o->mean == NULL)) return NULL;
  return op_with_shape(HEED_reshape, op_cast(y, o->x->type), &o->x->at);
}


static bool give_norm (call *c, const norm *o, heed_tensor *y) {
  if (o->layer)
    return give_outs(c, 3, (heed_tensor *[]){[OUT(layer_norm, output)] = y,
                                             [OUT(layer_norm, mean)] = o->mean,
                                             [OUT(layer_norm, rstd)] = o->rstd});
  return give_outs(c, 2, (heed_tensor *[]){[OUT(rms_norm, output)] = y,
                                           [OUT(rms_norm, rstd)] = o->rstd});
}


static bool norm_rows (call *c, norm *o) {
  if (!read_norm(c, o)) return false;
  const scope before = scope_unrecorded(c->cx);
  norm_op kind = o->layer ? NORM_LAYER : NORM_RMS;
  heed_tensor *y = (op_fuses(c->cx, WORK_NORM, kind, o->size[1]) ? fused : composed)(o);
  scope_end(c->cx, &before);
  return give_norm(c, o, y);
}


bool do_layer_norm (call *c) {
  norm o = {.layer = true};
  return norm_rows(c, &o);
}


/* Without eps: the smallest step of the computing type. */
bool do_rms_norm (call *c) {
  norm o = {.layer = false};
  return norm_rows(c, &o);
}

/* }================================================================== */


/*
** {==================================================================
** Gradients
** ===================================================================
*/

/* The gradients of the tensor inputs, NULL where none is wanted. */
typedef struct norm_gradients { heed_tensor *x, *weight, *bias; } norm_gradients;


static norm_op back_of (const norm *o) { return o->layer ? NORM_LAYER_BACK : NORM_RMS_BACK; }


/* A tensor for the gradient of input i, if it is wanted; with no elements summed it is 0. */
static bool new_gradient (backward *b, const norm *o, int i, heed_tensor **d) {
  const layout shape = shape_of(b, i);
  *d = NULL;
  if (!wants(b, i)) return true;
  *d = (is_empty(o) ? op_zeros : op_new)(b->cx, type_of(b, i), &shape);
  return *d != NULL;
}


static bool fused_back (backward *b, norm *o, norm_gradients *d) {
  work w;
  if (!new_gradient(b, o, IN(layer_norm, input), &d->x)) return false;
  if (!new_gradient(b, o, IN(layer_norm, weight), &d->weight)) return false;
  if (o->layer && !new_gradient(b, o, IN(layer_norm, bias), &d->bias)) return false;
  if (is_empty(o)) return true;
  work_norm(&w, back_of(o), o->eps);
  return view_rows(o, &w.out[NORM_BACK_DX], d->x) &&
         set_row_view(o, &w.out[NORM_BACK_DWEIGHT], d->weight) &&
         set_row_view(o, &w.out[NORM_BACK_DBIAS], d->bias) &&
         view_rows(o, &w.in[NORM_BACK_G], b->g) && view_rows(o, &w.in[NORM_BACK_X], o->x) &&
         set_row_view(o, &w.in[NORM_BACK_WEIGHT], o->weight) &&
         view_column(o, &w.in[NORM_BACK_MEAN], o->mean) &&
         view_column(o, &w.in[NORM_BACK_RSTD], o->rstd) && op_run_for(b->cx, b->op, &w);
}


/* dx = rstd (g w - mean(g w) - x^ mean(g w x^)), for rms without the first mean. */
static heed_tensor *input_gradient (const norm *o, heed_tensor *g, heed_tensor *x,
                                    heed_tensor *rstd) {
  if (o->weight != NULL) g = op2(HEED_mul, g, as_row(o, o->weight));
  heed_tensor *along = op2(HEED_mul, x, row_mean(op2(HEED_mul, g, x)));
  if (o->layer) g = op2(HEED_sub, g, row_mean(g));
  return op2(HEED_mul, rstd, op2(HEED_sub, g, along));
}


static heed_tensor *sum_of_rows (heed_tensor *t) {
  return op_reduce_axis(HEED_sum, t, 0, false);
}


static bool composed_back (backward *b, norm *o, norm_gradients *d) {
  const int64_t column[] = {o->size[0], 1};
  heed_tensor *g = as_rows(o, b->g), *rstd = op_reshape(o->rstd, 2, column);
  heed_tensor *x = normed(o, op_reshape(o->mean, 2, column), rstd);
  if (wants(b, IN(layer_norm, input))) d->x = input_gradient(o, g, x, rstd);
  if (wants(b, IN(layer_norm, weight))) d->weight = sum_of_rows(op2(HEED_mul, g, x));
  if (o->layer && wants(b, IN(layer_norm, bias))) d->bias = sum_of_rows(g);
  return g != NULL && x != NULL;
}


/* The statistics that forward kept, which have no gradient; or, with theirs, computed again. */
static bool restore_statistics (backward *b, norm *o) {
  const heed_value *eps = &b->args[o->layer ? ARG(layer_norm, eps) : ARG(rms_norm, eps)];
  if (composes(b)) {
    o->eps = op_number_in(eps, default_eps(o->x));
    set_statistics(o);
  }
  else {
    if (o->layer) o->mean = output(b, OUT(layer_norm, mean));
    o->rstd = output(b, o->layer ? OUT(layer_norm, rstd) : OUT(rms_norm, rstd));
  }
  return o->rstd != NULL && (!o->layer || o->mean != NULL);
}


static bool restore (backward *b, norm *o) {
  const heed_value *shape = &b->args[ARG(layer_norm, shape)];
  *o = (norm){.cx = b->cx, .op = b->op, .layer = b->op == HEED_layer_norm, .size = {1, 1}};
  o->x = input(b, IN(layer_norm, input));
  o->weight = input(b, IN(layer_norm, weight));
  if (o->x == NULL) return false;
  if (o->weight == NULL && has_input(b, IN(layer_norm, weight))) return false;
  int rank = o->x->at.rank, from = rank - shape->n;
  for (int i = 0; i < rank; i++) o->size[i >= from] *= o->x->at.size[i];
  return restore_statistics(b, o);
}


static bool give_shaped (backward *b, int i, heed_tensor *d) {
  const layout shape = shape_of(b, i);
  return !wants(b, i) || give(b, i, op_with_shape(HEED_reshape, d, &shape));
}


bool grad_layer_norm (backward *b) {
  norm o;
  norm_gradients d = {NULL, NULL, NULL};
  if (!restore(b, &o)) return false;
  bool whole = op_fuses(b->cx, WORK_NORM, back_of(&o), o.size[1]);
  return (whole ? fused_back : composed_back)(b, &o, &d) &&
         give_shaped(b, IN(layer_norm, input), d.x) &&
         give_shaped(b, IN(layer_norm, weight), d.weight) &&
         (!o.layer || give_shaped(b, IN(layer_norm, bias), d.bias));
}


bool grad_rms_norm (backward *b) { return grad_layer_norm(b); }

/* }================================================================== */


/*
** Each element is dropped with probability p, the others grow by 1 / (1 - p). One key of 64
** bits is drawn from the generator; whether an element is dropped is Philox of that key and of its
** index, counted row by row. Nothing is drawn when nothing can be dropped.
*/
bool do_dropout (call *c) {
  heed_tensor *given = arg_tensor(c, ARG(dropout, input)), *x = op_materialized(given);
  double p = arg_number(c, ARG(dropout, p));
  if (x == NULL || !check_float(c, ARG(dropout, input)) || !check_probability(c, ARG(dropout, p)))
    return false;
  if (p == 0 || !arg_flag(c, ARG(dropout, training))) return give_out(c, given);
  heed_tensor *key = op_new_sized(c->cx, HEED_INT64, 1, (int64_t[]){1});
  if (!op_draw_key(key)) return false;
  return give_out(c, op2(HEED_mul, x, op_dropout_factors(c->cx, c->op, x->type, &x->at, p, key)));
}


/*
** {==================================================================
** Vectors of length 1
** ===================================================================
*/

/* The length of x along an axis, which stays, and at least eps. */
static heed_tensor *length (heed_tensor *x, double p, int axis, double eps) {
  if (x == NULL) return NULL;
  heed_value args[] = {heed_t(x), heed_f(p), heed_i(axis), heed_b(true)};
  heed_tensor *n = op_call(x->cx, HEED_norm, 4, args);
  return n != NULL ? op2(HEED_maximum, n, op_float(x->cx, eps)) : NULL;
}


bool do_normalize (call *c) {
  heed_tensor *x = arg_tensor(c, ARG(normalize, input));
  int axis;
  if (!check_float(c, ARG(normalize, input))) return false;
  if (!check_axis(c, ARG(normalize, dim), x->at.rank, &axis)) return false;
  double p = arg_number(c, ARG(normalize, p)), eps = arg_number(c, ARG(normalize, eps));
  return give_out(c, op2(HEED_div, x, length(x, p, axis, eps)));
}


/* The products of both, each of length 1, added up: no product of lengths leaves their range. */
bool do_cosine_similarity (call *c) {
  const int one = ARG(cosine_similarity, x1), other = ARG(cosine_similarity, x2);
  heed_tensor *x = arg_tensor(c, one), *y = arg_tensor(c, other);
  double eps = arg_number(c, ARG(cosine_similarity, eps));
  layout shape;
  int axis;
  if (!check_float(c, one) || !check_float(c, other) || !move_broadcasts(c, one, other))
    return false;
  layout_broadcast(&x->at, &y->at, &shape);
  if (!check_axis(c, ARG(cosine_similarity, dim), shape.rank, &axis)) return false;
  x = op_with_shape(HEED_expand, x, &shape);
  y = op_with_shape(HEED_expand, y, &shape);
  if (x == NULL || y == NULL) return false;
  x = op2(HEED_div, x, length(x, 2, axis, eps));
  y = op2(HEED_div, y, length(y, 2, axis, eps));
  return give_out(c, op_reduce_axis(HEED_sum, op2(HEED_mul, x, y), axis, false));
}

/* }================================================================== */
