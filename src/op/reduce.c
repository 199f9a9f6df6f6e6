/*
** reduce.c - reductions: sums, products, means, tests; and what all reductions share.
**
** Sums and products of integers and bools are int64. Axes that are given as an empty list, or not
** at all, are all axes.
*/

#include "op/reduce.h"


/*
** {==================================================================
** What they share
** ===================================================================
*/

/* Rows with the arguments of sum, which may lack its 'dtype'. */
#define LIKE_SUM(op) \
  SAME_ARG(sum, op, input); SAME_ARG(sum, op, dim); SAME_ARG(sum, op, keepdim)

LIKE_SUM(mean);
LIKE_SUM(max);
LIKE_SUM(min);
LIKE_SUM(amax);
LIKE_SUM(amin);
LIKE_SUM(argmax);
LIKE_SUM(argmin);
LIKE_SUM(logsumexp);
LIKE_SUM(prod);
LIKE_SUM(any);
LIKE_SUM(all);
SAME_ARG(sum, mean, dtype);
SAME_ARG(sum, prod, dtype);
SAME_ARG(sum, var, input);
SAME_ARG(sum, var, dim);
SAME_ARG(sum, norm, input);
SAME_ARG(sum, cumsum, input);
SAME_ARG(sum, cumprod, input);
SAME_ARG(sum, std, dim);

/* All of them have one input: REDUCE_INPUT. */
SAME_IN(sum, mean, input);
SAME_IN(sum, var, input);
SAME_IN(sum, std, input);
SAME_IN(sum, max, input);
SAME_IN(sum, min, input);
SAME_IN(sum, amax, input);
SAME_IN(sum, amin, input);
SAME_IN(sum, logsumexp, input);
SAME_IN(sum, norm, input);
SAME_IN(sum, prod, input);
SAME_IN(sum, cumsum, input);
SAME_IN(sum, cumprod, input);


/* The tensor that is reduced. */
heed_tensor *reduce_input (const call *c) {
  return op_materialized(arg_tensor(c, ARG(sum, input)));
}


bool reduce_open_axes (call *c, reduction *f, heed_tensor *x, bool keepdim) {
  bool marks[HEED_RANK];
  int n;
  if (x == NULL || !check_axes(c, ARG(sum, dim), x->at.rank, marks, &n)) return false;
  reduction_open(f, x, marks, keepdim);
  return true;
}


/* Opens f over the axes in argument 'dim'. */
bool reduce_open (call *c, reduction *f, heed_tensor *x) {
  return reduce_open_axes(c, f, x, arg_flag(c, ARG(sum, keepdim)));
}


bool reduce_give (call *c, const reduction *f, reduce_op kind, heed_type type) {
  heed_tensor *y = op_new(c->cx, type, &f->shape);
  return reduction_run(f, c->op, kind, y, NULL) && give_out(c, y);
}


/* A number has the default type. */
heed_type reduce_own_type (const call *c) {
  return op_promote(1, &c->args[ARG(sum, input)].tensor);
}


heed_type reduce_sum_type (heed_type type) { return scalar_is_float(type) ? type : HEED_INT64; }


/* The input, rounded to 'type' before the work where that is not the wider type. */
heed_tensor *reduce_rounded (call *c, heed_type type) {
  heed_tensor *x = reduce_input(c);
  if (x == NULL || scalar_promote(x->type, type) == type) return x;
  return op_cast(x, type);
}


bool reduce_check_some (call *c, const reduction *f) {
  char text[LAYOUT_TEXT];
  return f->count > 0 ||
         check_refuse(c, ARG(sum, input), "an empty dimension has no such element; the shape is "
                      "%s", layout_text(&f->x->at, text));
}


/* y = op(x, other) in the wider type of x and y; 'other' may be left out. */
bool reduce_map (call *c, heed_op op, heed_tensor *y, const heed_tensor *x,
                      const view *other) {
  work w;
  if (y == NULL || x == NULL) return false;
  work_map(&w, op, scalar_computing(scalar_promote(x->type, y->type)), other != NULL ? 2 : 1);
  *w.out = view_of(y);
  w.in[IN(div, input)] = view_of(x);
  if (other != NULL) w.in[IN(div, other)] = *other;
  return op_run(c, &w);
}


/* y = x / divisor; y may be x. */
bool reduce_divide (call *c, heed_tensor *y, const heed_tensor *x, double divisor) {
  view number = view_number((scalar){.type = HEED_FLOAT64, .f = divisor});
  return reduce_map(c, HEED_div, y, x, &number);
}


/* Marks what was reduced. */
static void mark_reduced (const backward *b, bool marks[HEED_RANK]) {
  int dim = b->op == HEED_norm ? ARG(norm, dim) : ARG(sum, dim);
  op_mark_axes(&b->args[dim], rank_of(b, REDUCE_INPUT), marks);
}


/* A reduction's result, or its gradient, viewed with the input's shape. */
heed_tensor *reduce_spread (backward *b, heed_tensor *t) {
  bool marks[HEED_RANK];
  if (t == NULL) return NULL;
  layout at = shape_of(b, REDUCE_INPUT);
  bool kept = t->at.rank == at.rank;
  mark_reduced(b, marks);
  at.offset = t->at.offset;
  for (int i = 0, k = 0; i < at.rank; i++) {
    at.stride[i] = marks[i] ? 0 : t->at.stride[k];
    k += kept || !marks[i];
  }
  return op_view(t, &at);
}


/* How many elements make one result. */
double reduce_count (backward *b) {
  const edge *e = &b->n->edges[REDUCE_INPUT];
  bool marks[HEED_RANK];
  double n = 1;
  mark_reduced(b, marks);
  for (int i = 0; i < e->rank; i++)
    if (marks[i]) n *= (double)e->size[i];
  return n;
}


/* Reduces t, of the input's shape, over what was reduced; the axes stay. */
heed_tensor *reduce_repeated (backward *b, heed_op op, heed_tensor *t) {
  int64_t axes[HEED_RANK];
  bool marks[HEED_RANK];
  int n = 0;
  mark_reduced(b, marks);
  for (int i = 0; i < rank_of(b, REDUCE_INPUT); i++)
    if (marks[i]) axes[n++] = i;
  return op_reduce(op, t, n, axes, true);
}


bool reduce_refuse_zeros (backward *b, heed_tensor *zeros) {
  double any = 0;
  if (!composes(b)) return true;
  if (!op_read(op1(HEED_any, zeros), &any)) return false;
  return any == 0 || core_fail(b->cx, NULL, "create_graph: %s's gradient has none of its own where "
                               "an element is 0", op_name(b->op));
}


bool reduce_give_input (backward *b, heed_tensor *g) { return give(b, REDUCE_INPUT, g); }

/* }================================================================== */


/*
** {==================================================================
** Sums and products
** ===================================================================
*/

bool do_sum (call *c) {
  heed_type type = arg_type(c, ARG(sum, dtype), reduce_sum_type(reduce_own_type(c)));
  reduction f;
  heed_tensor *x = reduce_rounded(c, type);
  return reduce_open(c, &f, x) && reduce_give(c, &f, REDUCE_SUM, type);
}


bool do_prod (call *c) {
  heed_type type = arg_type(c, ARG(sum, dtype), reduce_sum_type(reduce_own_type(c)));
  reduction f;
  heed_tensor *x = reduce_rounded(c, type);
  return reduce_open(c, &f, x) && reduce_give(c, &f, REDUCE_PROD, type);
}


/* Halves are added up in float32, whose range holds their sum. */
bool do_mean (call *c) {
  reduction f;
  heed_type type = arg_type(c, ARG(sum, dtype), reduce_own_type(c));
  if (!scalar_is_float(type))
    return check_refuse(c, ARG(mean, input), "a mean is of a float type, not %s; give dtype = "
                        "\"float32\"", scalar_names[type]);
  heed_tensor *x = reduce_rounded(c, type);
  if (!reduce_open(c, &f, x)) return false;
  heed_tensor *sum = op_new(c->cx, scalar_computing(type), &f.shape);
  heed_tensor *y = sum != NULL && sum->type == type ? sum : op_new(c->cx, type, &f.shape);
  return reduction_run(&f, c->op, REDUCE_SUM, sum, NULL) &&
         reduce_divide(c, y, sum, (double)f.count) && give_out(c, y);
}


bool grad_sum (backward *b) { return reduce_give_input(b, reduce_spread(b, b->g)); }


bool grad_mean (backward *b) {
  heed_tensor *g = op2(HEED_div, b->g, op_float(b->cx, reduce_count(b)));
  return reduce_give_input(b, reduce_spread(b, g));
}


/*
** The derivative is the product of the others. With zeros set to 1, that is the whole product by
** the element; where there is another zero, it is 0.
*/
bool grad_prod (backward *b) {
  heed_tensor *x = input(b, REDUCE_INPUT), *one = op_float(b->cx, 1), *none = op_integer(b->cx, 0);
  heed_tensor *zero = op2(HEED_eq, x, none);
  if (!reduce_refuse_zeros(b, zero)) return false;
  heed_tensor *filled = op3(HEED_where, zero, one, x);
  heed_tensor *others = op2(HEED_sub, reduce_repeated(b, HEED_sum, zero), zero);
  heed_tensor *d = op2(HEED_div, reduce_repeated(b, HEED_prod, filled), filled);
  d = op3(HEED_where, op2(HEED_gt, others, none), none, d);
  return reduce_give_input(b, op2(HEED_mul, reduce_spread(b, b->g), d));
}

/* }================================================================== */


/*
** {==================================================================
** Tests, and the logarithm of a sum
** ===================================================================
*/

bool do_any (call *c) {
  reduction f;
  return reduce_open(c, &f, reduce_input(c)) && reduce_give(c, &f, REDUCE_ANY, HEED_BOOL);
}


bool do_all (call *c) {
  reduction f;
  return reduce_open(c, &f, reduce_input(c)) && reduce_give(c, &f, REDUCE_ALL, HEED_BOOL);
}


bool do_logsumexp (call *c) {
  reduction f;
  heed_tensor *x = reduce_rounded(c, scalar_floating(reduce_own_type(c)));
  return reduce_open(c, &f, x) &&
         reduce_give(c, &f, REDUCE_LOGSUMEXP, scalar_floating(x->type));
}


/* g e^(x - y) */
bool grad_logsumexp (backward *b) {
  heed_tensor *y = reduce_spread(b, output(b, OUT(logsumexp, output)));
  heed_tensor *e = op1(HEED_exp, op2(HEED_sub, input(b, REDUCE_INPUT), y));
  return reduce_give_input(b, op2(HEED_mul, reduce_spread(b, b->g), e));
}

/* }================================================================== */
