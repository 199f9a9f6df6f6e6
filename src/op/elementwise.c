/*
** elementwise.c - the elementwise rows: which type, which shape, one piece of work.
*/

#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "op/op.h"


/*
** {==================================================================
** Promotion: tensors with axes outrank those without, which outrank numbers, unless a
** later rank brings a higher category (bool, integer, float). PyTorch's result_type.
** ===================================================================
*/

typedef struct ranked { bool any; heed_type type; } ranked;

static void join (ranked *r, heed_type type) {
  r->type = r->any ? scalar_promote(r->type, type) : type;
  r->any = true;
}

static ranked outrank (ranked high, ranked low) {
  if (!high.any) return low;
  if (!low.any || scalar_category(high.type) >= scalar_category(low.type)) return high;
  return (ranked){true, scalar_promote(high.type, low.type)};
}

/* A floating number joins as float32, the default type. */
static heed_type number_type (const heed_tensor *t) {
  return t->type == HEED_FLOAT64 ? HEED_FLOAT32 : t->type;
}

heed_type op_promote (int n, heed_tensor *const *ts) {
  ranked axes = {false, HEED_BOOL}, none = axes, number = axes;
  for (int i = 0; i < n; i++) {
    if (ts[i]->number) join(&number, number_type(ts[i]));
    else join(ts[i]->at.rank > 0 ? &axes : &none, ts[i]->type);
  }
  return outrank(outrank(axes, none), number).type;
}

/* }================================================================== */


static bool refuse_type (const call *c, heed_type type) {
  return core_fail(c->cx, op_name(c->op), "not defined for tensors of type %s",
                   scalar_names[type]);
}

/* The type of the inputs, once they are of one: *type. */
static bool joined_type (call *c, op_domain domain, int n, heed_tensor *const *ts,
                         heed_type *type) {
  *type = domain == PICK ? op_promote(n - 1, ts + 1) : op_promote(n, ts);
  if (domain == FLT) *type = scalar_floating(*type);
  if (domain == NUM && *type == HEED_BOOL) return refuse_type(c, *type);
  if (domain == PICK && (*ts)->type != HEED_BOOL && (*ts)->type != HEED_UINT8)
    return check_refuse(c, ARG(where, condition), "a bool tensor expected, got %s",
                        scalar_names[(*ts)->type]);
  return true;
}

static bool refuse_shapes (const call *c, const layout *a, const layout *b) {
  char one[LAYOUT_TEXT], other[LAYOUT_TEXT];
  return core_fail(c->cx, op_name(c->op), "shapes %s and %s do not broadcast together",
                   layout_text(a, one), layout_text(b, other));
}

/* The shape that all broadcast to. */
static bool joined_shape (const call *c, int n, heed_tensor *const *ts, layout *shape) {
  *shape = (*ts)->at;
  for (int i = 1; i < n; i++) {
    layout wider;
    if (ts[i]->at.rank == 0 || layout_same_shape(shape, &ts[i]->at)) continue;
    if (!layout_broadcast(shape, &ts[i]->at, &wider))
      return refuse_shapes(c, shape, &ts[i]->at);
    *shape = wider;
  }
  return true;
}

static void set_view (view *v, const heed_tensor *t, const layout *shape) {
  if (t->store == NULL || layout_same_shape(&t->at, shape)) {
    *v = view_of(t);
    return;
  }
  layout wide;
  layout_expand(&t->at, shape, &wide);
  *v = view_with(t, &wide);
}

/* The row's own numbers stand behind its tensors. */
static void set_numbers (double number[2], const heed_value *args, int first, int parameters) {
  for (int i = first; i < parameters && i - first < 2; i++)
    number[i - first] = args[i].kind == HEED_FLOAT ? args[i].number : (double)args[i].integer;
}

/* In place: may the work write where it reads? Only element by element, from the same place. */
static bool reads_safely (const heed_tensor *into, const heed_tensor *t) {
  if (t->number || t->store != into->store) return true;
  return t->type == into->type && t->at.offset == into->at.offset &&
         memcmp(t->at.stride, into->at.stride, (size_t)into->at.rank * sizeof(int64_t)) == 0 &&
         layout_same_shape(&t->at, &into->at);
}

static heed_tensor *result_for (call *c, heed_type type, const layout *shape, int n,
                                heed_tensor *const *ts) {
  heed_tensor *into = c->into;
  bool good = into != NULL && layout_same_shape(&into->at, shape) &&
              scalar_category(type) <= scalar_category(into->type);
  for (int i = 0; good && i < n; i++) good = reads_safely(into, ts[i]);
  return good ? into : op_new(c->cx, type, shape);
}

/* Would the number in argument i lose digits as a double? */
static bool loses_digits (const call *c, int i) {
  const double x = arg_number(c, i);
  return c->args[i].kind == HEED_INTEGER && (x >= 0x1p63 || (int64_t)x != arg_count(c, i));
}

/* Integers are not computed with fractions; numbers of rows are doubles, but for map_scaled. */
static bool check_numbers (call *c, int first, int parameters, heed_type type) {
  const bool scaled = type == HEED_INT64 && (c->op == HEED_add || c->op == HEED_sub);
  for (int i = first; i < parameters && !scalar_is_float(type); i++) {
    if (!check_whole(c, i, type)) return false;
    if (!scaled && loses_digits(c, i))
      return check_refuse(c, i, "a number that float64 holds expected beside tensors of type %s, "
                          "got %" PRId64, scalar_names[type], arg_count(c, i));
  }
  return true;
}

/* PyTorch refuses a negative number; with a tensor of such powers it computes 0, 1 and -1. */
bool check_pow (call *c, heed_type type) {
  const heed_tensor *power = c->args[ARG(pow, other)].tensor;
  if (scalar_is_float(type) || !power->number || scalar_double(power->value) >= 0) return true;
  return check_refuse(c, ARG(pow, other), "whole numbers have no power of %g: negative ones give "
                      "fractions", scalar_double(power->value));
}

/* The row that computes the call: its own, or a faster one for this second operand. */
static heed_op computing_row (const call *c, heed_type type, heed_tensor *const *ts) {
  const faster_row *f = op_rows[c->op].faster;
  if (f == NULL || !scalar_is_float(type) || !ts[1]->number) return c->op;
  const double number = scalar_double(ts[1]->value);
  while (f->op != HEED_NOPS && f->number != number) f++;
  return f->op != HEED_NOPS ? f->op : c->op;
}

/* After how many elements 'at' starts anew when it is broadcast to 'to'; 0: it is not so simple. */
static int64_t period_of (const layout *at, const layout *to) {
  int64_t n = 1;
  int i = 1;
  if (at->rank > to->rank) return 0;
  for (; i <= at->rank && at->size[at->rank - i] == to->size[to->rank - i]; i++)
    n *= at->size[at->rank - i];
  for (; i <= at->rank; i++)
    if (at->size[at->rank - i] != 1) return 0;
  return n;
}

/*
** Dense operands of the type that is computed in, which repeat themselves in the shape of the
** largest of them, or numbers that join that type: the operand which the result is like; their
** numbers of elements. NULL: they are not so, as the promotion above and broadcasting are for.
*/
static const heed_tensor *model_of (op_domain domain, int n, heed_tensor *const *ts,
                                    int64_t *numel) {
  const heed_tensor *model = NULL;
  int64_t most = -1;
  if (domain == PICK) return NULL;
  for (int i = 0; i < n; i++) {
    numel[i] = layout_numel(&ts[i]->at);
    if (ts[i]->number || numel[i] <= most) continue;
    model = ts[i];
    most = numel[i];
  }
  if (most <= 0 || scalar_computing(model->type) != model->type) return NULL;
  if (domain == FLT && !scalar_is_float(model->type)) return NULL;
  for (int i = 0; i < n; i++) {
    const heed_tensor *t = ts[i];
    bool alike = t->number ? scalar_category(t->type) <= scalar_category(model->type)
               : t == model || (t->type == model->type && period_of(&t->at, &model->at) > 0);
    if (!alike || (!t->number && !layout_is_dense(&t->at))) return NULL;
  }
  return model;
}

/* The short way: operands that are alike. False: it must be done as any other. */
static bool run_alike (call *c, heed_op op, heed_type type, heed_tensor *y,
                       heed_tensor *const *ts, const int64_t *numel) {
  const op_row *row = &op_rows[c->op];
  dense_map w;
  w.op = op;
  w.nin = op_rows[op].inputs;
  w.type = type;
  w.to = y->type;
  w.n = layout_numel(&y->at);
  w.y = tensor_data(y);
  for (int i = 0; i < w.nin; i++) {
    w.x[i] = ts[i]->number ? NULL : tensor_data(ts[i]);
    w.period[i] = numel[i];
    if (ts[i]->number) w.value[i] = ts[i]->value;
  }
  set_numbers(w.number, c->args, row->inputs, row->signature.parameters);
  return core_map(c->cx, c->cx->scope.device, &w);
}

static bool run_any (call *c, heed_op op, heed_type type, const layout *shape, heed_tensor *y,
                     heed_tensor *const *ts) {
  const op_row *row = &op_rows[c->op];
  int inputs = op_rows[op].inputs;
  work w;
  work_map(&w, op, scalar_computing(type), inputs);
  set_numbers(w.map.number, c->args, row->inputs, row->signature.parameters);
  *w.out = view_of(y);
  for (int i = 0; i < inputs; i++) set_view(&w.in[i], ts[i], shape);
  return op_run(c, &w);
}

SAME_ARG(add, sub, input);
SAME_ARG(add, sub, other);
SAME_ARG(add, sub, alpha);

/* add or sub of int64, whose alpha no double holds: its product with the other comes first. */
static bool map_scaled (call *c) {
  const scope before = scope_unrecorded(c->cx);
  heed_tensor *other = op_cast(arg_tensor(c, ARG(add, other)), HEED_INT64);
  other = op2(HEED_mul, other, op_integer(c->cx, arg_count(c, ARG(add, alpha))));
  scope_end(c->cx, &before);
  if (other == NULL) return false;
  heed_value args[] = {c->args[ARG(add, input)], heed_t(other), heed_i(1)};
  call plain = *c;
  plain.args = args;
  return do_map(&plain) && give_out(c, first_result(&plain));
}

bool do_map (call *c) {
  const op_row *row = &op_rows[c->op];
  int n = row->inputs;
  heed_tensor *ts[DENSE_INS] = {NULL};
  int64_t numel[DENSE_INS];
  heed_type type;
  layout joined;
  for (int i = 0; i < n; i++) ts[i] = c->args[i].tensor;
  const heed_tensor *model = model_of(row->domain, n, ts, numel);
  const layout *shape = model != NULL ? &model->at : &joined;
  if (model != NULL) type = model->type;
  else if (!joined_type(c, row->domain, n, ts, &type) || !joined_shape(c, n, ts, &joined))
    return false;
  if (!check_numbers(c, n, row->signature.parameters, type)) return false;
  if (row->check != NULL && !row->check(c, type)) return false;
  if (type == HEED_INT64 && (c->op == HEED_add || c->op == HEED_sub) &&
      loses_digits(c, ARG(add, alpha)))
    return map_scaled(c);
  heed_type to = row->domain == TEST ? HEED_BOOL : type;
  heed_tensor *y = result_for(c, to, shape, n, ts);
  if (y == NULL) return false;
  heed_op op = computing_row(c, type, ts);
  bool short_way = model != NULL && y->type == to && (y != c->into || layout_is_dense(&y->at));
  if (short_way && run_alike(c, op, type, y, ts, numel)) return give_out(c, y);
  return run_any(c, op, type, shape, y, ts) && give_out(c, y);
}

/* Saved value i as a derivative reads it; one that no wanted derivative needs was not saved. */
static bool set_saved (backward *b, view *v, int i, const layout *shape) {
  if (!node_view(b->n, i, v)) return false;
  if (b->n->saved[i].store == NULL || layout_same_shape(&v->at, shape)) return true;
  layout own = v->at;
  layout_expand(&own, shape, &v->at);
  return true;
}

/* Sets the operands of derivatives: g, the inputs, the result. */
static bool set_operands (backward *b, work *w, int n, const layout *shape) {
  w->in[DERIVATIVE_G] = view_of(b->g);
  for (int i = 0; i < 3; i++) {
    view_clear(&w->in[DERIVATIVE_A + i]);
    if (i < n && !set_saved(b, &w->in[DERIVATIVE_A + i], i, shape)) return false;
  }
  return set_saved(b, &w->in[DERIVATIVE_Y], n + OUT(neg, output), shape);
}

static bool derivative (backward *b, work *w, int which) {
  heed_tensor *d = op_new(b->cx, b->g->type, &b->g->at);
  if (d == NULL) return false;
  w->derivative.which = which;
  *w->out = view_of(d);
  return op_run_for(b->cx, b->op, w) && give(b, which, d);
}

/* The share of g that a tie with a bound leaves: see ops.def. */
static double share_of (const saved *bound) {
  if (!bound->number) return 0.5;
  return isfinite(scalar_double(bound->value)) ? 0 : 1;
}

/* Is the derivative of input i g itself? (add and sub with alpha: only when it is 1) */
static bool passes (const backward *b, int i, double alpha) {
  const op_row *row = &op_rows[b->op];
  if (!(row->passes >> i & 1)) return false;
  return i == 0 || row->signature.parameters == row->inputs || alpha == 1;
}

bool grad_map (backward *b) {
  int n = op_rows[b->op].inputs;
  bool set = false;
  work w;
  work_derivative(&w, b->op, scalar_computing(b->g->type), 0);
  double *number = w.derivative.number;
  set_numbers(number, b->args, n, op_signature(b->cx, b->op)->parameters);
  for (int i = 1; i < n && n == 3; i++) number[i - 1] = share_of(&b->n->saved[i]);
  for (int i = 0; i < n; i++) {
    if (!wants(b, i)) continue;
    if (passes(b, i, *number)) {
      give(b, i, b->g);
      continue;
    }
    if (composes(b)) {
      if (!give(b, i, expression_derivative(b, i, number))) return false;
      continue;
    }
    if (!set && !set_operands(b, &w, n, &b->g->at)) return false;
    set = true;
    if (!derivative(b, &w, i)) return false;
  }
  return true;
}


/*
** {==================================================================
** Made of other rows
** ===================================================================
*/

/* The largest number of a type. */
static const double most_of[HEED_NTYPES] = {
  [HEED_FLOAT16] = 65504, [HEED_BFLOAT16] = 0x1.fep127, [HEED_FLOAT32] = FLT_MAX,
  [HEED_FLOAT64] = DBL_MAX
};

/* x, but the number in argument i, or 'otherwise', where it is 'value'. */
static heed_tensor *replaced (call *c, heed_tensor *x, double value, int i, double otherwise) {
  double number = arg_given(c, i) ? arg_number(c, i) : otherwise;
  if (x == NULL) return NULL;
  heed_tensor *there = value != value ? op1(HEED_isnan, x)
                                      : op2(HEED_eq, x, op_float(c->cx, value));
  return op3(HEED_where, there, op_float(c->cx, number), x);
}

bool do_nan_to_num (call *c) {
  heed_tensor *x = arg_tensor(c, ARG(nan_to_num, input));
  if (!scalar_is_float(x->type)) return give_out(c, op1(HEED_clone, x));
  double most = most_of[x->type];
  x = replaced(c, x, (double)NAN, ARG(nan_to_num, nan), 0);
  x = replaced(c, x, (double)INFINITY, ARG(nan_to_num, posinf), most);
  return give_out(c, replaced(c, x, -(double)INFINITY, ARG(nan_to_num, neginf), -most));
}

/* Whole numbers are compared as float64. */
static heed_tensor *as_float (heed_tensor *t) {
  return scalar_is_float(t->type) ? t : op_cast(t, HEED_FLOAT64);
}

/* Equal, or |x - y| <= atol + rtol |y|, where that is finite; with equal_nan both may be NaN. */
bool do_isclose (call *c) {
  heed_tensor *x = arg_tensor(c, ARG(isclose, input)), *y = arg_tensor(c, ARG(isclose, other));
  double rtol = arg_number(c, ARG(isclose, rtol)), atol = arg_number(c, ARG(isclose, atol));
  if (!(rtol >= 0))
    return check_refuse(c, ARG(isclose, rtol), "a number from 0 on expected, got %g", rtol);
  if (!(atol >= 0))
    return check_refuse(c, ARG(isclose, atol), "a number from 0 on expected, got %g", atol);
  heed_tensor *close = op2(HEED_eq, x, y);
  if (arg_flag(c, ARG(isclose, equal_nan)))
    close = op2(HEED_logical_or, close,
                op2(HEED_logical_and, op1(HEED_isnan, x), op1(HEED_isnan, y)));
  x = as_float(x);
  y = as_float(y);
  if (x == NULL || y == NULL) return false;
  heed_tensor *apart = op1(HEED_abs, op2(HEED_sub, x, y));
  heed_tensor *allowed = op2(HEED_mul, op1(HEED_abs, y), op_float(c->cx, rtol));
  allowed = op2(HEED_add, allowed, op_float(c->cx, atol));
  heed_tensor *near = op2(HEED_le, apart, allowed);
  near = op2(HEED_logical_and, near, op1(HEED_isfinite, apart));
  return give_out(c, op2(HEED_logical_or, close, near));
}

/* }================================================================== */
