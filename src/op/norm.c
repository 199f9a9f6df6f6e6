/*
** norm.c - layer norm, rms norm and dropout; the norms' gradients.
**
** The axes that are normed over are seen as one, all others as rows: (R, C). Statistics of
** the rows are float32, or float64 for float64.
*/

#include <float.h>

#include "op/compose.h"


typedef struct norm {
  heed_context *cx;
  heed_op op;
  bool layer;                      /* or rms */
  int64_t size[2];                 /* R and C */
  double eps;
  heed_tensor *x, *weight, *bias;  /* the latter may be NULL */
  heed_tensor *mean, *rstd;        /* (R); mean is NULL for rms */
} norm;


/*
** {==================================================================
** Arguments
** ===================================================================
*/

/* Is 'shape' what x ends with? Then sets R and C. */
static bool check_shape_of_norm (call *c, norm *o, layout *shape) {
  const layout *at = &o->x->at;
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  if (!check_shape(c, 1, -1, shape)) return false;
  bool ends = shape->rank > 0 && shape->rank <= at->rank;
  for (int i = 1; ends && i <= shape->rank; i++)
    ends = shape->size[shape->rank - i] == at->size[at->rank - i];
  if (!ends)
    return check_refuse(c, 1, "%s is not what the shape %s of argument 'input' ends with",
                        layout_text(shape, want), layout_text(at, have));
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


static bool read_norm (call *c, norm *o) {
  layout shape;
  int eps = o->layer ? 4 : 3;
  o->cx = c->cx;
  o->op = c->op;
  o->x = c->args[0].tensor;
  o->bias = o->mean = NULL;
  if (!check_float(c, 0) || !check_shape_of_norm(c, o, &shape)) return false;
  if (!read_scale(c, 2, &shape, &o->weight)) return false;
  if (o->layer && !read_scale(c, 3, &shape, &o->bias)) return false;
  o->eps = o->x->type == HEED_FLOAT64 ? DBL_EPSILON : FLT_EPSILON;
  if (arg_given(c, eps)) o->eps = arg_number(c, eps);
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Forward
** ===================================================================
*/

static void set_work (work *w, const norm *o, norm_kind kind, int nin, int nout) {
  w->kind = WORK_NORM;
  w->op = kind;
  w->nin = nin;
  w->nout = nout;
  w->mask.n = 0;
  w->number[0] = o->eps;
}


static bool fused (norm *o, heed_tensor *y) {
  work w;
  int first = o->layer ? 3 : 2;
  set_work(&w, o, o->layer ? NORM_LAYER : NORM_RMS, first, first);
  if (o->layer) w.out[1] = view_of(o->mean);
  w.out[first - 1] = view_of(o->rstd);
  return op_view_shaped(&w.out[0], y, 2, o->size) && op_view_shaped(&w.in[0], o->x, 2, o->size) &&
         op_view_shaped(&w.in[1], o->weight, 1, o->size + 1) &&
         (!o->layer || op_view_shaped(&w.in[2], o->bias, 1, o->size + 1)) &&
         op_run_for(o->cx, o->op, &w);
}


static heed_tensor *shaped (heed_tensor *t, int rank, const int64_t *size) {
  layout shape;
  return layout_dense(&shape, rank, size) ? op_with_shape(HEED_reshape, t, &shape) : NULL;
}


/* (R, C), in the type of the statistics. */
static heed_tensor *as_rows (const norm *o, heed_tensor *t) {
  return op_cast(shaped(t, 2, o->size), op_computing(o->x->type));
}


static heed_tensor *row_mean (heed_tensor *t) {
  return op_reduce(HEED_mean, t, 1, (int64_t[]){1}, true);
}


/* (x - mean) rstd, by the statistics (R, 1). */
static heed_tensor *normed (const norm *o, heed_tensor *mean, heed_tensor *rstd) {
  heed_tensor *x = as_rows(o, o->x);
  return op2(HEED_mul, o->layer ? op2(HEED_sub, x, mean) : x, rstd);
}


/* Fills mean and rstd too. */
static heed_tensor *composed (norm *o) {
  heed_tensor *x = as_rows(o, o->x);
  heed_tensor *mean = o->layer ? row_mean(x) : NULL;
  if (o->layer) x = op2(HEED_sub, x, mean);
  heed_tensor *rstd = op1(HEED_rsqrt, op_shift(row_mean(op1(HEED_square, x)), o->eps));
  heed_tensor *y = op2(HEED_mul, x, rstd);
  if (o->weight != NULL) y = op2(HEED_mul, y, shaped(o->weight, 1, o->size + 1));
  if (o->bias != NULL) y = op2(HEED_add, y, shaped(o->bias, 1, o->size + 1));
  o->mean = shaped(mean, 1, o->size);
  o->rstd = shaped(rstd, 1, o->size);
  y = op_cast(y, o->x->type);
  return y != NULL ? op_with_shape(HEED_reshape, y, &o->x->at) : NULL;
}


static bool give_norm (call *c, norm *o, heed_tensor *y) {
  if (o->layer) return give_outs(c, 3, (heed_tensor *[]){y, o->mean, o->rstd});
  return give_outs(c, 2, (heed_tensor *[]){y, o->rstd});
}


static bool norm_rows (call *c, norm *o) {
  if (!read_norm(c, o)) return false;
  bool empty = o->size[0] == 0 || o->size[1] == 0;
  if (!empty && !op_can(c->cx, WORK_NORM)) {
    bool recording = heed_set_recording(c->cx, false);
    heed_tensor *y = composed(o);
    heed_set_recording(c->cx, recording);
    return y != NULL && give_norm(c, o, y);
  }
  heed_type type = op_computing(o->x->type);
  heed_tensor *y = op_new(c->cx, o->x->type, &o->x->at);
  if (o->layer) o->mean = op_new_sized(c->cx, type, 1, o->size);
  o->rstd = op_new_sized(c->cx, type, 1, o->size);
  if (y == NULL || o->rstd == NULL || (o->layer && o->mean == NULL)) return false;
  return (empty || fused(o, y)) && give_norm(c, o, y);
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

/* ds[] are the gradients of x, weight, bias: NULL where nobody wants one. */
static bool fused_back (backward *b, norm *o, heed_tensor *ds[3]) {
  work w;
  int stats = o->layer ? 4 : 3;
  set_work(&w, o, o->layer ? NORM_LAYER_BACK : NORM_RMS_BACK, stats + 1, o->layer ? 3 : 2);
  if (o->layer) w.in[3] = view_of(o->mean);
  w.in[stats] = view_of(o->rstd);
  return op_view_shaped(&w.out[0], ds[0], 2, o->size) && op_view_shaped(&w.out[1], ds[1], 1, o->size + 1) &&
         op_view_shaped(&w.out[2], ds[2], 1, o->size + 1) && op_view_shaped(&w.in[0], b->g, 2, o->size) &&
         op_view_shaped(&w.in[1], o->x, 2, o->size) && op_view_shaped(&w.in[2], o->weight, 1, o->size + 1) &&
         op_run_for(b->cx, b->op, &w);
}


/* dx = rstd (g w - mean(g w) - x^ mean(g w x^)), for rms without the first mean. */
static heed_tensor *input_gradient (norm *o, heed_tensor *g, heed_tensor *x, heed_tensor *rstd) {
  if (o->weight != NULL) g = op2(HEED_mul, g, shaped(o->weight, 1, o->size + 1));
  heed_tensor *along = op2(HEED_mul, x, row_mean(op2(HEED_mul, g, x)));
  if (o->layer) g = op2(HEED_sub, g, row_mean(g));
  return op2(HEED_mul, rstd, op2(HEED_sub, g, along));
}


static bool composed_back (backward *b, norm *o, heed_tensor *ds[3]) {
  const int64_t axes[] = {0}, column[] = {o->size[0], 1};
  heed_tensor *g = as_rows(o, b->g), *rstd = shaped(o->rstd, 2, column);
  heed_tensor *x = normed(o, shaped(o->mean, 2, column), rstd);
  if (ds[0] != NULL) ds[0] = input_gradient(o, g, x, rstd);
  if (ds[1] != NULL) ds[1] = op_reduce(HEED_sum, op2(HEED_mul, g, x), 1, axes, false);
  if (ds[2] != NULL) ds[2] = op_reduce(HEED_sum, g, 1, axes, false);
  return g != NULL && x != NULL;
}


static bool recall (backward *b, norm *o) {
  const heed_value *shape = &b->args[1];
  *o = (norm){.cx = b->cx, .op = b->op, .layer = b->op == HEED_layer_norm, .size = {1, 1}};
  o->x = input(b, 0);
  o->weight = input(b, 1);
  if (o->layer) o->mean = output(b, 1);
  o->rstd = output(b, o->layer ? 2 : 1);
  if (o->x == NULL || o->rstd == NULL || (o->layer && o->mean == NULL)) return false;
  if (o->weight == NULL && has_input(b, 1)) return false;
  int rank = o->x->at.rank, from = rank - shape->n;
  for (int i = 0; i < rank; i++) o->size[i >= from] *= o->x->at.size[i];
  return true;
}


bool grad_layer_norm (backward *b) {
  norm o;
  heed_tensor *ds[3] = {NULL};
  if (!recall(b, &o)) return false;
  int n = o.layer ? 3 : 2;
  bool empty = o.size[0] == 0 || o.size[1] == 0;
  for (int i = 0; i < n; i++) {
    if (!wants(b, i)) continue;
    ds[i] = empty ? op_zeros(b->cx, type_of(b, i), shape_of(b, i))
                  : op_new(b->cx, type_of(b, i), shape_of(b, i));
    if (ds[i] == NULL) return false;
  }
  if (!empty && !(op_can(b->cx, WORK_NORM) ? fused_back : composed_back)(b, &o, ds)) return false;
  for (int i = 0; i < n; i++)
    if (wants(b, i) && !give(b, i, op_with_shape(HEED_reshape, ds[i], shape_of(b, i))))
      return false;
  return true;
}


bool grad_rms_norm (backward *b) { return grad_layer_norm(b); }

/* }================================================================== */


/*
** Each element is dropped with probability p, the others grow by 1 / (1 - p). One key of 64
** bits is drawn from the generator; what becomes of an element is Philox of that key and of its
** position, counted row by row. Nothing is drawn when nothing can be dropped.
*/
bool do_dropout (call *c) {
  heed_tensor *x = op_materialized(c->args[0].tensor);
  if (x == NULL || !check_float(c, 0) || !check_probability(c, 1)) return false;
  if (arg_number(c, 1) == 0 || !arg_flag(c, 2)) return give_out(c, c->args[0].tensor);
  heed_tensor *key = op_new_sized(c->cx, HEED_INT64, 1, (int64_t[]){1});
  if (!op_draw_key(key)) return false;
  return give_out(c, op2(HEED_mul, x, op_dropout_factors(c->cx, c->op, x->type, &x->at,
                                                         arg_number(c, 1), key)));
}
