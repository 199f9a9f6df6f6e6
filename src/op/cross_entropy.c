/*
** cross_entropy.c - cross entropy with labels or probabilities, and nll_loss.
**
** The classes are the second axis, or the only one, unless 'dim' names another; the input is viewed
** with the classes last and all other axes as rows: (R, C). Labels count from 1, one value may be
** ignored. Probabilities, and labels on a device that has no loss of its own, become a matrix t of
** targets (R, C) with all weights in it, and the loss of a row is -sum t log p.
*/

#include <inttypes.h>

#include "op/loss.h"


typedef struct targets {
  heed_context *cx;
  heed_tensor *x;                  /* classes last */
  heed_tensor *target, *weight;
  bool labels;                     /* or probabilities, classes last */
  int64_t ignored;
  double smoothing;
  int axis;                        /* of the classes, as given */
  layout shape;                    /* of the input without its classes */
  int64_t size[2];                 /* R and C */
} targets;

SAME_ARG(cross_entropy, nll_loss, input);
SAME_ARG(cross_entropy, nll_loss, target);
SAME_ARG(cross_entropy, nll_loss, weight);
SAME_ARG(cross_entropy, nll_loss, ignore_index);
SAME_ARG(cross_entropy, nll_loss, reduction);


/*
** {==================================================================
** Arguments
** ===================================================================
*/

/* Where the classes of a tensor of this rank are, if 'dim' does not say so. */
static int classes_axis (int rank) { return rank > 1 ? 1 : 0; }


/* (N.., C, d..) as (N.., d.., C) */
static heed_tensor *classes_last (const targets *o, heed_tensor *t) {
  int64_t order[HEED_RANK];
  int last = t->at.rank - 1;
  for (int i = 0; i <= last; i++) order[i] = i < o->axis ? i : i == last ? o->axis : i + 1;
  return op_permute(t, last + 1, order);
}


/* Sets the shape and R and C, by the input with its classes last. */
static void set_sizes (targets *o) {
  const layout *at = &o->x->at;
  layout_dense(&o->shape, at->rank - 1, at->size);
  o->size[0] = layout_numel(&o->shape);
  o->size[1] = at->size[at->rank - 1];
}


/* Has t the input's shape but for the last dimension, as if classes were there? */
static bool is_class_last (const layout *t, const layout *input) {
  layout rest = *input;
  rest.rank--;
  return layout_same_shape(t, &rest);
}


static bool check_target (call *c, const targets *o, bool may_be_probabilities) {
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT], got[LAYOUT_TEXT];
  const heed_tensor *t = o->target;
  const layout *given = &arg_tensor(c, ARG(cross_entropy, input))->at;
  const layout *shape = o->labels ? &o->shape : given;
  if (!o->labels && !(may_be_probabilities && scalar_is_float(t->type)))
    return check_refuse(c, ARG(cross_entropy, target), "labels of type int64%s expected, got %s",
                        may_be_probabilities ? ", or probabilities of a float type," : "",
                        scalar_names[t->type]);
  return layout_same_shape(&t->at, shape) ||
         check_refuse(c, ARG(cross_entropy, target), "%s of shape %s expected for an input of "
                      "shape %s, got %s%s", o->labels ? "labels" : "probabilities",
                      layout_text(shape, want), layout_text(given, have), layout_text(&t->at, got),
                      !o->labels ? "; labels are of type int64" :
                      o->axis != 1 || !is_class_last(&t->at, given) ? "" :
                      "; classes are dimension 2 unless 'dim' says so: {dim = -1}");
}


static bool check_class_weight (call *c, const targets *o) {
  char text[LAYOUT_TEXT];
  const heed_tensor *weight = o->weight;
  if (weight == NULL) return true;
  if (weight->at.rank != 1 || weight->at.size[0] != o->size[1])
    return check_refuse(c, ARG(cross_entropy, weight), "a weight for each of %" PRId64 " classes "
                        "expected, got a tensor of shape %s", o->size[1],
                        layout_text(&weight->at, text));
  return check_float(c, ARG(cross_entropy, weight));
}


/* For both losses. */
static bool read_targets (call *c, targets *o, bool may_be_probabilities, int axis) {
  const int input = ARG(cross_entropy, input);
  *o = (targets){.cx = c->cx, .weight = arg_tensor(c, ARG(cross_entropy, weight)),
                 .ignored = arg_count(c, ARG(cross_entropy, ignore_index)), .axis = axis};
  o->x = classes_last(o, arg_tensor(c, input));
  o->target = op_materialized(arg_tensor(c, ARG(cross_entropy, target)));
  if (o->x == NULL || o->target == NULL) return false;
  o->labels = o->target->type == HEED_INT64;
  set_sizes(o);
  if (!check_target(c, o, may_be_probabilities) || !check_class_weight(c, o)) return false;
  if (o->size[1] == 0 && o->size[0] > 0) return check_refuse(c, input, "there are no classes");
  if (!o->labels) o->target = classes_last(o, o->target);
  return o->target != NULL;
}


static bool check_input (call *c) {
  const int input = ARG(cross_entropy, input);
  return check_float(c, input) && check_rank(c, input, 1, HEED_RANK);
}

/* }================================================================== */


/*
** {==================================================================
** Targets as a matrix
** ===================================================================
*/

/* t as (R, C), and as a column (R, 1). */
static heed_tensor *as_rows (const targets *o, heed_tensor *t) {
  return op_reshape(t, 2, o->size);
}

static heed_tensor *as_column (const targets *o, heed_tensor *t) {
  return op_reshape(t, 2, (int64_t[]){o->size[0], 1});
}


static heed_tensor *row_sum (heed_tensor *t) { return op_reduce_axis(HEED_sum, t, 1, true); }


/* Labels (R, 1), with 1 for those that are ignored; *kept: which are not. */
static heed_tensor *safe_labels (const targets *o, heed_tensor **kept) {
  heed_tensor *label = as_column(o, o->target);
  *kept = op2(HEED_ne, label, op_integer(o->cx, o->ignored));
  return op3(HEED_where, *kept, label, op_integer(o->cx, 1));
}


/*
** t (R, C): what is kept (R, 1) where its label stands, else 0. The device checks labels, of which
** none counts from the end.
*/
static heed_tensor *hot_matrix (const targets *o, heed_tensor *label, heed_tensor *kept) {
  layout shape, along;
  work w;
  if (label == NULL || kept == NULL || !layout_dense(&shape, 2, o->size)) return NULL;
  heed_tensor *t = op_zeros(o->cx, kept->type, &shape);
  if (t == NULL || o->size[0] == 0) return t;
  along = layout_select(&shape, 1, 0);
  view x, position;
  if (!op_view_shaped(&x, kept, 1, o->size) || !op_view_shaped(&position, label, 1, o->size))
    return NULL;
  work_scatter(&w, SCATTER_SET, 1, false, view_with(t, &along), x);
  w.in[INDEX_POSITIONS] = position;
  w.index.stride[0] = 1;
  w.index.size[0] = o->size[1];
  return op_run_for(o->cx, HEED_scatter, &w) ? t : NULL;
}


/* t (R, C) of labels; *weights is what each row weighs, (R, 1): both, or NULL. */
static heed_tensor *label_matrix (const targets *o, heed_type type, heed_tensor **weights) {
  heed_tensor *kept, *label = safe_labels(o, &kept);
  kept = op_cast(kept, type);
  heed_tensor *t = hot_matrix(o, label, kept), *hot = t;
  if (o->smoothing != 0) {
    heed_tensor *even = op_scale(kept, o->smoothing / (double)o->size[1]);
    t = op2(HEED_add, op_scale(t, 1 - o->smoothing), even);
  }
  if (o->weight != NULL) t = op2(HEED_mul, t, o->weight), hot = op2(HEED_mul, hot, o->weight);
  *weights = row_sum(hot);
  return *weights != NULL ? op_cast(t, type) : NULL;
}


/* t (R, C) of probabilities; each row weighs 1. */
static heed_tensor *probability_matrix (const targets *o, heed_type type) {
  heed_tensor *t = op_cast(as_rows(o, o->target), type);
  if (o->smoothing != 0)
    t = op_shift(op_scale(t, 1 - o->smoothing), o->smoothing / (double)o->size[1]);
  return o->weight != NULL ? op_cast(op2(HEED_mul, t, o->weight), type) : t;
}


static heed_tensor *target_matrix (const targets *o, heed_type type, heed_tensor **weights) {
  *weights = NULL;
  return o->labels ? label_matrix(o, type, weights) : probability_matrix(o, type);
}


/*
** -sum t log p of each row, (R, 1). Where t is 0 an infinite log p counts nothing; where nothing
** counts the loss is 0, which no negation gives a sign.
*/
static heed_tensor *matrix_loss (heed_tensor *t, heed_tensor *log_p) {
  if (t == NULL || log_p == NULL) return NULL;
  heed_tensor *none = op2(HEED_eq, t, op_integer(t->cx, 0));
  heed_tensor *each = op2(HEED_mul, t, op3(HEED_where, none, op_integer(t->cx, 0), log_p));
  return op2(HEED_sub, op_integer(t->cx, 0), row_sum(each));
}


/* Refuses the first label for which 'wrong' (R, 1) holds, in the words of the CPU's kernel. */
static bool refuse_label (const call *c, const targets *o, heed_tensor *label,
                          heed_tensor *wrong) {
  int64_t row = 0, value = 0;
  heed_value along[] = {heed_t(op_cast(wrong, HEED_INT64)), heed_i(0)};
  heed_tensor *first = op_call(c->cx, HEED_argmax, 2, along);
  if (first == NULL || !heed_read(first, HEED_INT64, &row)) return false;
  heed_value args[] = {heed_t(label), heed_i(0), heed_i(row)};
  heed_tensor *found = op_call(c->cx, HEED_select, 3, args);
  if (found == NULL || !heed_read(found, HEED_INT64, &value)) return false;
  return core_fail(c->cx, op_name(c->op), "label %" PRId64 " at position %" PRId64 " is outside "
                   "1 to %" PRId64 "; labels count from 1%s", value, row, o->size[1],
                   value == 0 ? ": + 1?" : "") != NULL;
}


/* The CPU's are checked before any work; other devices check them while they work. */
static bool check_labels (call *c, const targets *o) {
  double any = 0;
  heed_context *cx = c->cx;
  if (!core_reaches(cx, cx->scope.device)) return true;
  heed_tensor *kept, *label = safe_labels(o, &kept);
  if (label == NULL || o->size[0] == 0) return label != NULL;
  heed_tensor *low = op2(HEED_lt, label, op_integer(cx, 1));
  heed_tensor *high = op2(HEED_gt, label, op_integer(cx, o->size[1]));
  heed_tensor *wrong = op2(HEED_logical_or, low, high);
  return op_read(op1(HEED_any, wrong), &any) && (any == 0 || refuse_label(c, o, label, wrong));
}

/* }================================================================== */


/*
** {==================================================================
** Forward
** ===================================================================
*/

/* The losses of rows as one, or with their shape. 'weights' are what rows weigh in the mean. */
static heed_tensor *joined (const targets *o, heed_tensor *rows, heed_tensor *weights,
                            int64_t how) {
  if (rows == NULL) return NULL;
  if (how == LOSS_NONE) rows = op_with_shape(HEED_reshape, rows, &o->shape);
  else rows = op1(HEED_sum, rows);
  return op_cast(how == LOSS_MEAN ? op2(HEED_div, rows, weights) : rows, o->x->type);
}


/* The sum of all rows' weights, by which the mean divides. */
static heed_tensor *total (const targets *o, heed_tensor *weights) {
  return weights != NULL ? op1(HEED_sum, weights) : op_float(o->cx, (double)o->size[0]);
}


bool do_nll_loss (call *c) {
  targets o;
  if (!check_input(c) || !loss_check_weight(c, ARG(nll_loss, weight))) return false;
  int axis = classes_axis(arg_tensor(c, ARG(nll_loss, input))->at.rank);
  if (!read_targets(c, &o, false, axis)) return false;
  const scope before = scope_unrecorded(c->cx);
  heed_tensor *weights = NULL, *t = NULL;
  if (check_labels(c, &o)) t = target_matrix(&o, scalar_computing(o.x->type), &weights);
  scope_end(c->cx, &before);
  if (t == NULL) return false;
  heed_tensor *rows = matrix_loss(t, as_rows(&o, o.x));
  heed_tensor *zero = op_integer(c->cx, 0);        /* where nothing counts; the sum has a sign */
  rows = op3(HEED_where, op2(HEED_eq, weights, zero), zero, rows);
  return give_out(c, joined(&o, rows, total(&o, weights), arg_count(c, ARG(nll_loss, reduction))));
}


/* Of each row (R): its loss, its normaliser, what it weighs. */
typedef struct row_losses { heed_tensor *loss, *lse, *weight; } row_losses;


/* A new column of numbers for the work. */
static heed_tensor *new_column (const targets *o, view *v) {
  heed_tensor *t = op_new_sized(o->cx, scalar_computing(o->x->type), 1, o->size);
  *v = t != NULL ? view_of(t) : view_none();
  return t;
}


static bool fused (call *c, const targets *o, row_losses *y) {
  work w;
  work_loss(&w, LOSS_CROSS_ENTROPY, o->ignored, o->smoothing);
  y->loss = new_column(o, &w.out[LOSS_Y]);
  y->lse = new_column(o, &w.out[LOSS_LOGSUMEXP]);
  y->weight = new_column(o, &w.out[LOSS_ROW_WEIGHT]);
  if (y->loss == NULL || y->lse == NULL || y->weight == NULL) return false;
  return op_view_shaped(&w.in[LOSS_X], o->x, 2, o->size) &&
         op_view_shaped(&w.in[LOSS_TARGET], o->target, 1, o->size) &&
         op_view_shaped(&w.in[LOSS_WEIGHT], o->weight, 1, o->size + 1) && op_run(c, &w);
}


static bool composed (call *c, const targets *o, row_losses *y) {
  heed_type type = scalar_computing(o->x->type);
  if (o->labels && !check_labels(c, o)) return false;
  heed_tensor *t = target_matrix(o, type, &y->weight), *x = op_cast(as_rows(o, o->x), type);
  y->loss = matrix_loss(t, op_along(HEED_log_softmax, x, 1));
  y->lse = op_reduce_axis(HEED_logsumexp, x, 1, false);
  return y->loss != NULL && y->lse != NULL;
}


static bool cross_entropy (call *c, const targets *o) {
  row_losses rows;
  int64_t how = arg_count(c, ARG(cross_entropy, reduction));
  bool by_device = o->labels && op_fuses(c->cx, WORK_LOSS, LOSS_CROSS_ENTROPY, o->size[1]);
  if (!(by_device ? fused : composed)(c, o, &rows)) return false;
  heed_tensor *weights = how == LOSS_MEAN ? total(o, rows.weight) : NULL;
  heed_tensor *y = joined(o, rows.loss, weights, how);
  y = op_hold(c->cx, heed_detach(y));            /* no view, for its caller */
  return give_outs(c, 3, (heed_tensor *[]){[OUT(cross_entropy, output)] = y,
                                           [OUT(cross_entropy, logsumexp)] = rows.lse,
                                           [OUT(cross_entropy, row_weight)] = weights});
}


bool do_cross_entropy (call *c) {
  targets o;
  const int dim = ARG(cross_entropy, dim);
  if (!check_input(c)) return false;
  int rank = arg_tensor(c, ARG(cross_entropy, input))->at.rank, axis = classes_axis(rank);
  if (arg_given(c, dim) && !check_axis(c, dim, rank, &axis)) return false;
  if (!read_targets(c, &o, true, axis)) return false;
  o.smoothing = arg_number(c, ARG(cross_entropy, label_smoothing));
  if (!check_probability(c, ARG(cross_entropy, label_smoothing))) return false;
  const scope before = scope_unrecorded(c->cx);
  bool good = cross_entropy(c, &o);
  scope_end(c->cx, &before);
  return good;
}

/* }================================================================== */


/*
** {==================================================================
** Gradient
** ===================================================================
*/

/* The gradient of each row's loss: (R), or one element for all. */
static heed_tensor *row_gradient (backward *b, const targets *o) {
  layout rows;
  int64_t how = b->args[ARG(cross_entropy, reduction)].integer;
  if (how == LOSS_MEAN)
    return op2(HEED_div, b->g, constant_output(b, OUT(cross_entropy, row_weight)));
  if (how == LOSS_SUM) return b->g;
  return layout_dense(&rows, 1, o->size) ? op_with_shape(HEED_reshape, b->g, &rows) : NULL;
}


static heed_tensor *fused_back (backward *b, const targets *o, heed_tensor *g) {
  work w;
  layout rows, wide;
  heed_tensor *dx = op_new_sized(b->cx, o->x->type, 2, o->size);
  heed_tensor *lse = output(b, OUT(cross_entropy, logsumexp));
  if (dx == NULL || lse == NULL) return NULL;
  if (!layout_dense(&rows, 1, o->size) || !layout_expand(&g->at, &rows, &wide)) return NULL;
  work_loss(&w, LOSS_CROSS_ENTROPY_BACK, o->ignored, o->smoothing);
  *w.out = view_of(dx);
  w.in[LOSS_BACK_G] = view_with(g, &wide);
  return op_view_shaped(&w.in[LOSS_BACK_X], o->x, 2, o->size) &&
         op_view_shaped(&w.in[LOSS_BACK_TARGET], o->target, 1, o->size) &&
         op_view_shaped(&w.in[LOSS_BACK_WEIGHT], o->weight, 1, o->size + 1) &&
         op_view_shaped(&w.in[LOSS_BACK_LOGSUMEXP], lse, 1, o->size) &&
         op_run_for(b->cx, b->op, &w) ? dx : NULL;
}


/* As target_matrix, where labels have no gradient. */
static heed_tensor *constant_matrix (const targets *o, heed_type type, heed_tensor **weights) {
  const scope before = o->labels ? scope_unrecorded(o->cx) : scope_begin(o->cx);
  heed_tensor *t = target_matrix(o, type, weights);
  scope_end(o->cx, &before);
  return t;
}


/*
** dx = g (p sum t - t), and 0 for ignored rows, even if g is NaN; for probabilities, if it is
** wanted, dt = -g (1 - s) w log p.
*/
static heed_tensor *composed_back (backward *b, const targets *o, heed_tensor *g,
                                   heed_tensor **dt) {
  heed_type type = scalar_computing(o->x->type);
  heed_tensor *weights, *t = constant_matrix(o, type, &weights);
  heed_tensor *x = op_cast(as_rows(o, o->x), type);
  heed_tensor *lse = composes(b) ? op_reduce_axis(HEED_logsumexp, x, 1, true)
                                 : as_column(o, output(b, OUT(cross_entropy, logsumexp)));
  heed_tensor *log_p = op2(HEED_sub, x, lse);
  if (g->at.rank > 0) g = as_column(o, g);
  if (wants(b, IN(cross_entropy, target))) {
    *dt = op_scale(op2(HEED_mul, g, log_p), o->smoothing - 1);
    if (o->weight != NULL) *dt = op2(HEED_mul, *dt, o->weight);
  }
  heed_tensor *sum = t != NULL ? row_sum(t) : NULL;
  heed_tensor *dx = op2(HEED_sub, op2(HEED_mul, op1(HEED_exp, log_p), sum), t);
  dx = op2(HEED_mul, g, dx);
  if (!o->labels) return dx;
  heed_tensor *zero = op_integer(b->cx, 0);
  return op3(HEED_where, op2(HEED_eq, sum, zero), zero, dx);
}


/* (R, C) as (N.., C, d..) */
static heed_tensor *classes_back (const targets *o, heed_tensor *t) {
  layout shape = o->x->at;
  int64_t order[HEED_RANK];
  int rank = shape.rank;
  for (int i = 0; i < rank; i++) order[i] = i < o->axis ? i : i == o->axis ? rank - 1 : i - 1;
  t = t != NULL ? op_with_shape(HEED_reshape, t, &shape) : NULL;
  return op_permute(t, rank, order);
}


static int restored_axis (const backward *b) {
  const heed_value *dim = &b->args[ARG(cross_entropy, dim)];
  int rank = rank_of(b, IN(cross_entropy, input)), axis = classes_axis(rank);
  if (dim->kind != HEED_NONE) layout_axis(rank, dim->integer, &axis);
  return axis;
}


static bool restore (backward *b, targets *o) {
  const int weight = IN(cross_entropy, weight);
  *o = (targets){.cx = b->cx, .x = input(b, IN(cross_entropy, input)),
                 .target = op_materialized(input(b, IN(cross_entropy, target))),
                 .weight = input(b, weight),
                 .ignored = b->args[ARG(cross_entropy, ignore_index)].integer,
                 .axis = restored_axis(b),
                 .smoothing = op_number_in(&b->args[ARG(cross_entropy, label_smoothing)], 0)};
  if (o->x == NULL || o->target == NULL) return false;
  if (o->weight == NULL && has_input(b, weight)) return false;
  o->labels = o->target->type == HEED_INT64;
  o->x = classes_last(o, o->x);
  if (!o->labels) o->target = classes_last(o, o->target);
  if (o->x == NULL || o->target == NULL) return false;
  set_sizes(o);
  return true;
}


bool grad_cross_entropy (backward *b) {
  targets o;
  heed_tensor *dx, *dt = NULL;
  if (!loss_refuse_weight(b, IN(cross_entropy, weight)) || !restore(b, &o)) return false;
  heed_tensor *g = row_gradient(b, &o);
  if (g == NULL) return false;
  bool by_device = o.labels && op_fuses(b->cx, WORK_LOSS, LOSS_CROSS_ENTROPY_BACK, o.size[1]);
  if (by_device) dx = fused_back(b, &o, g);
  else dx = composed_back(b, &o, g, &dt);
  if (wants(b, IN(cross_entropy, target)) &&
      !give(b, IN(cross_entropy, target), classes_back(&o, dt)))
    return false;
  return give(b, IN(cross_entropy, input), classes_back(&o, dx));
}

/* }================================================================== */
