/*
** cross_entropy.c - cross entropy with labels or probabilities, and nll_loss.
**
** The classes are the second axis, or the only one; they are seen last, and all other axes as
** rows: (R, C). Labels count from 1, one value may be ignored. Probabilities, and labels on a
** device that has no loss of its own, become a matrix t of targets (R, C) with all weights in
** it, and the loss of a row is -sum t log p.
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
  layout shape;                    /* of the input without its classes */
  int64_t size[2];                 /* R and C */
} targets;


/*
** {==================================================================
** Arguments
** ===================================================================
*/

/* (N, C, d..) as (N, d.., C) */
static heed_tensor *classes_last (heed_tensor *t) {
  int64_t order[HEED_RANK];
  int rank = t->at.rank;
  if (rank < 3) return t;
  for (int i = 0; i < rank; i++) order[i] = i == 0 ? 0 : i == rank - 1 ? 1 : i + 1;
  return op_permute(t, rank, order);
}


/* Sets the shape and R and C, by the input with its classes last. */
static void set_sizes (targets *o) {
  const layout *at = &o->x->at;
  layout_dense(&o->shape, at->rank - 1, at->size);
  o->size[0] = layout_numel(&o->shape);
  o->size[1] = at->size[at->rank - 1];
}


static bool check_target (call *c, const targets *o, bool may_be_probabilities) {
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT], got[LAYOUT_TEXT];
  const heed_tensor *t = o->target;
  const layout *shape = o->labels ? &o->shape : &c->args[0].tensor->at;
  if (!o->labels && !(may_be_probabilities && scalar_is_float(t->type)))
    return check_refuse(c, 1, "labels of type int64%s expected, got %s",
                        may_be_probabilities ? ", or probabilities of a float type," : "",
                        scalar_names[t->type]);
  return layout_same_shape(&t->at, shape) ||
         check_refuse(c, 1, "%s of shape %s expected for an input of shape %s, got %s%s",
                      o->labels ? "labels" : "probabilities", layout_text(shape, want),
                      layout_text(&c->args[0].tensor->at, have), layout_text(&t->at, got),
                      o->labels ? "" : "; labels are of type int64");
}


static bool check_class_weight (call *c, const targets *o) {
  char text[LAYOUT_TEXT];
  const heed_tensor *weight = o->weight;
  if (weight == NULL) return true;
  if (weight->at.rank != 1 || weight->at.size[0] != o->size[1])
    return check_refuse(c, 2, "a weight for each of %" PRId64 " classes expected, got a tensor of "
                        "shape %s", o->size[1], layout_text(&weight->at, text));
  return check_float(c, 2);
}


/* Both losses start with the same four arguments. */
static bool read_targets (call *c, targets *o, bool may_be_probabilities) {
  *o = (targets){.cx = c->cx, .weight = arg_tensor(c, 2), .ignored = arg_count(c, 3)};
  if (!check_float(c, 0) || !check_rank(c, 0, 1, HEED_RANK)) return false;
  o->x = classes_last(c->args[0].tensor);
  o->target = op_materialized(c->args[1].tensor);
  if (o->x == NULL || o->target == NULL) return false;
  o->labels = o->target->type == HEED_INT64;
  set_sizes(o);
  if (!check_target(c, o, may_be_probabilities) || !check_class_weight(c, o)) return false;
  if (o->size[1] == 0 && o->size[0] > 0) return check_refuse(c, 0, "there are no classes");
  if (!o->labels) o->target = classes_last(o->target);
  return o->target != NULL;
}

/* }================================================================== */


/*
** {==================================================================
** Targets as a matrix
** ===================================================================
*/

static heed_tensor *reshaped (heed_tensor *t, int64_t rows, int64_t columns) {
  layout shape;
  return layout_dense(&shape, 2, (int64_t[]){rows, columns})
         ? op_with_shape(HEED_reshape, t, &shape) : NULL;
}


static heed_tensor *row_sum (heed_tensor *t) {
  return op_reduce(HEED_sum, t, 1, (int64_t[]){1}, true);
}


/* Labels (R, 1), with 1 for those that are ignored; *kept tells which are not. */
static heed_tensor *safe_labels (const targets *o, heed_tensor **kept) {
  heed_tensor *label = reshaped(o->target, o->size[0], 1);
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
  w.kind = WORK_SCATTER;
  w.op = SCATTER_SET;
  w.nout = 1;
  w.nin = 2;
  w.mask.n = 0;
  w.count[0] = 1;
  w.count[1] = o->size[1];
  w.out[0] = view_with(t, &along);
  return op_view_shaped(&w.in[0], kept, 1, o->size) && op_view_shaped(&w.in[1], label, 1, o->size) &&
         op_run_for(o->cx, HEED_scatter, &w) ? t : NULL;
}


/* t (R, C) of labels; *weights is what each row weighs, (R, 1). */
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
  return op_cast(t, type);
}


/* t (R, C) of probabilities; each row weighs 1. */
static heed_tensor *probability_matrix (const targets *o, heed_type type) {
  heed_tensor *t = op_cast(reshaped(o->target, o->size[0], o->size[1]), type);
  if (o->smoothing != 0)
    t = op_shift(op_scale(t, 1 - o->smoothing), o->smoothing / (double)o->size[1]);
  return o->weight != NULL ? op_cast(op2(HEED_mul, t, o->weight), type) : t;
}


static heed_tensor *target_matrix (const targets *o, heed_type type, heed_tensor **weights) {
  *weights = NULL;
  return o->labels ? label_matrix(o, type, weights) : probability_matrix(o, type);
}


/* -sum t log p of each row, (R, 1). Where t is 0 an infinite log p counts nothing. */
static heed_tensor *matrix_loss (heed_tensor *t, heed_tensor *log_p) {
  if (t == NULL || log_p == NULL) return NULL;
  heed_tensor *none = op2(HEED_eq, t, op_integer(t->cx, 0));
  heed_tensor *each = op2(HEED_mul, t, op3(HEED_where, none, op_integer(t->cx, 0), log_p));
  return op1(HEED_neg, row_sum(each));
}


/* The device checks them while it works; on the host they are looked at first. */
static bool check_labels (call *c, const targets *o) {
  double least, most;
  if (!c->cx->current->host) return true;
  heed_tensor *kept, *label = safe_labels(o, &kept);
  if (label == NULL || o->size[0] == 0) return label != NULL;
  if (!op_read(op1(HEED_min, label), &least) || !op_read(op1(HEED_max, label), &most))
    return false;
  if (least >= 1 && most <= (double)o->size[1]) return true;
  return check_refuse(c, 1, "labels from 1 to %" PRId64 " expected, got %g%s", o->size[1],
                      least < 1 ? least : most, least == 0 ? "; labels count from 1: + 1?" : "");
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


/* What all rows weigh together, in the mean. */
static heed_tensor *total (const targets *o, heed_tensor *weights) {
  return weights != NULL ? op1(HEED_sum, weights) : op_float(o->cx, (double)o->size[0]);
}


bool do_nll_loss (call *c) {
  targets o;
  if (!read_targets(c, &o, false)) return false;
  bool recording = heed_set_recording(c->cx, false);
  heed_tensor *weights = NULL, *t = NULL;
  if (check_labels(c, &o)) t = target_matrix(&o, op_computing(o.x->type), &weights);
  heed_set_recording(c->cx, recording);
  if (t == NULL) return false;
  heed_tensor *rows = matrix_loss(t, reshaped(o.x, o.size[0], o.size[1]));
  heed_tensor *zero = op_integer(c->cx, 0);        /* where nothing counts; the sum has a sign */
  rows = op3(HEED_where, op2(HEED_eq, weights, zero), zero, rows);
  return give_out(c, joined(&o, rows, total(&o, weights), arg_count(c, 4)));
}


/* The losses of rows (R), their normalisers (R), and what they weigh (R). */
static bool fused (call *c, const targets *o, heed_tensor *outs[3]) {
  work w;
  w.kind = WORK_LOSS;
  w.op = LOSS_CROSS_ENTROPY;
  w.nout = w.nin = 3;
  w.mask.n = 0;
  w.count[0] = o->ignored;
  w.number[0] = o->smoothing;
  for (int i = 0; i < 3; i++) {
    outs[i] = op_new_sized(o->cx, op_computing(o->x->type), 1, o->size);
    if (outs[i] == NULL) return false;
    w.out[i] = view_of(outs[i]);
  }
  return op_view_shaped(&w.in[0], o->x, 2, o->size) && op_view_shaped(&w.in[1], o->target, 1, o->size) &&
         op_view_shaped(&w.in[2], o->weight, 1, o->size + 1) && op_run(c, &w);
}


static bool composed (call *c, const targets *o, heed_tensor *outs[3]) {
  heed_type type = op_computing(o->x->type);
  if (o->labels && !check_labels(c, o)) return false;
  heed_tensor *t = target_matrix(o, type, &outs[2]);
  heed_tensor *x = op_cast(reshaped(o->x, o->size[0], o->size[1]), type);
  outs[0] = matrix_loss(t, op_along(HEED_log_softmax, x, 1));
  outs[1] = op_reduce(HEED_logsumexp, x, 1, (int64_t[]){1}, false);
  return outs[0] != NULL && outs[1] != NULL;
}


static bool cross_entropy (call *c, const targets *o) {
  heed_tensor *outs[3];
  bool by_device = o->labels && op_can(c->cx, WORK_LOSS);
  if (!(by_device ? fused : composed)(c, o, outs)) return false;
  heed_tensor *weigh = arg_count(c, 4) == LOSS_MEAN ? total(o, outs[2]) : NULL;
  heed_tensor *y = joined(o, outs[0], weigh, arg_count(c, 4));
  y = op_hold(c->cx, heed_detach(y));            /* no view, as its caller sees it */
  return give_outs(c, 3, (heed_tensor *[]){y, outs[1], weigh});
}


bool do_cross_entropy (call *c) {
  targets o;
  if (!read_targets(c, &o, true)) return false;
  o.smoothing = arg_number(c, 5);
  if (!check_probability(c, 5)) return false;
  bool recording = heed_set_recording(c->cx, false);
  bool good = cross_entropy(c, &o);
  heed_set_recording(c->cx, recording);
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
  if (b->args[4].integer == LOSS_MEAN) return op2(HEED_div, b->g, output(b, 2));
  if (b->args[4].integer == LOSS_SUM) return b->g;
  return layout_dense(&rows, 1, o->size) ? op_with_shape(HEED_reshape, b->g, &rows) : NULL;
}


static bool fused_back (backward *b, const targets *o, heed_tensor *g, heed_tensor *dx) {
  work w;
  layout rows, wide;
  w.kind = WORK_LOSS;
  w.op = LOSS_CROSS_ENTROPY_BACK;
  w.nout = 1;
  w.nin = 5;
  w.mask.n = 0;
  w.count[0] = o->ignored;
  w.number[0] = o->smoothing;
  w.out[0] = view_of(dx);
  if (!layout_dense(&rows, 1, o->size) || !layout_expand(&g->at, &rows, &wide)) return false;
  w.in[0] = view_with(g, &wide);
  heed_tensor *lse = output(b, 1);
  return lse != NULL && op_view_shaped(&w.in[1], o->x, 2, o->size) &&
         op_view_shaped(&w.in[2], o->target, 1, o->size) &&
         op_view_shaped(&w.in[3], o->weight, 1, o->size + 1) && op_view_shaped(&w.in[4], lse, 1, o->size) &&
         op_run_for(b->cx, b->op, &w);
}


/*
** dx = g (p sum t - t), and 0 for ignored rows, even if g is NaN; for probabilities
** dt = -g (1 - s) w log p.
*/
static heed_tensor *composed_back (backward *b, const targets *o, heed_tensor *g, heed_tensor **dt) {
  heed_type type = op_computing(o->x->type);
  heed_tensor *weights, *t = target_matrix(o, type, &weights);
  heed_tensor *x = op_cast(reshaped(o->x, o->size[0], o->size[1]), type);
  heed_tensor *log_p = op2(HEED_sub, x, reshaped(output(b, 1), o->size[0], 1));
  if (g->at.rank > 0) g = reshaped(g, o->size[0], 1);
  *dt = op_scale(op2(HEED_mul, g, log_p), o->smoothing - 1);
  if (o->weight != NULL) *dt = op2(HEED_mul, *dt, o->weight);
  heed_tensor *sum = t != NULL ? row_sum(t) : NULL, *zero = op_integer(b->cx, 0);
  heed_tensor *slope = op2(HEED_sub, op2(HEED_mul, op1(HEED_exp, log_p), sum), t);
  slope = op2(HEED_mul, g, slope);
  return o->labels ? op3(HEED_where, op2(HEED_eq, sum, zero), zero, slope) : slope;
}


/* (R, C) as (N, C, d..) */
static heed_tensor *classes_second (const targets *o, heed_tensor *t) {
  layout shape = o->x->at;
  int64_t order[HEED_RANK];
  int rank = shape.rank;
  for (int i = 0; i < rank; i++) order[i] = i == 0 ? 0 : i == 1 ? rank - 1 : i - 1;
  t = t != NULL ? op_with_shape(HEED_reshape, t, &shape) : NULL;
  return rank < 3 ? t : op_permute(t, rank, order);
}


static bool recall (backward *b, targets *o) {
  *o = (targets){.cx = b->cx, .x = input(b, 0), .target = input(b, 1), .weight = input(b, 2),
                 .ignored = b->args[3].integer};
  o->smoothing = b->args[5].kind == HEED_FLOAT ? b->args[5].number : (double)b->args[5].integer;
  o->target = op_materialized(o->target);
  if (o->x == NULL || o->target == NULL) return false;
  if (o->weight == NULL && has_input(b, 2)) return false;
  o->labels = o->target->type == HEED_INT64;
  o->x = classes_last(o->x);
  if (!o->labels) o->target = classes_last(o->target);
  if (o->x == NULL || o->target == NULL) return false;
  set_sizes(o);
  return true;
}


bool grad_cross_entropy (backward *b) {
  targets o;
  heed_tensor *dx, *dt = NULL;
  if (!loss_refuse_weight(b, 2) || !recall(b, &o)) return false;
  heed_tensor *g = row_gradient(b, &o);
  if (g == NULL) return false;
  if (o.labels && op_can(b->cx, WORK_LOSS)) {
    dx = op_new_sized(b->cx, o.x->type, 2, o.size);
    if (dx == NULL || !fused_back(b, &o, g, dx)) return false;
  }
  else dx = composed_back(b, &o, g, &dt);
  if (wants(b, 1) && !give(b, 1, classes_second(&o, dt))) return false;
  return give(b, 0, classes_second(&o, dx));
}

/* }================================================================== */
