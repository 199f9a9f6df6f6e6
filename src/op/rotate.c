/*
** rotate.c - pairs of columns, each rotated by an angle: rotary positions (Su et al. 2021, section
** 3.2), with their gradients; fused where the device can.
*/

#include "op/compose.h"


typedef struct rotation {
  heed_context *cx;
  bool interleaved;
  int64_t pairs;
  heed_tensor *x, *cos, *sin;      /* (..., D), and (..., pairs) that broadcast to it */
} rotation;


/*
** {==================================================================
** Forward
** ===================================================================
*/

/* x's shape, with one column for each pair: as sizes alone. */
static layout shape_of_pairs (const rotation *o) {
  layout shape = o->x->at;
  shape.size[shape.rank - 1] = o->pairs;
  return shape;
}


static bool check_angles (call *c, rotation *o) {
  const int cosine = ARG(rotate_pairs, cos), sine = ARG(rotate_pairs, sin);
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  layout expanded;
  if (!check_rank(c, cosine, 1, HEED_RANK) || !check_float(c, cosine) || !check_float(c, sine) ||
      !check_same_shape(c, cosine, sine)) return false;
  const int64_t columns = o->x->at.size[o->x->at.rank - 1];
  o->pairs = o->cos->at.size[o->cos->at.rank - 1];
  if (columns < 2)
    return check_refuse(c, ARG(rotate_pairs, input), "at least 2 columns expected, got shape %s",
                        layout_text(&o->x->at, have));
  if (o->pairs < 1 || o->pairs > columns / 2)
    return check_refuse(c, cosine, "a column for each pair expected, from 1 to %lld of a tensor of "
                        "shape %s, got shape %s", (long long)columns / 2,
                        layout_text(&o->x->at, want), layout_text(&o->cos->at, have));
  const layout shape = shape_of_pairs(o);
  if (layout_expand(&o->cos->at, &shape, &expanded)) return true;
  return check_refuse(c, cosine, "a shape that broadcasts to %s expected, got %s",
                      layout_text(&shape, want), layout_text(&o->cos->at, have));
}


static bool read_rotation (call *c, rotation *o) {
  *o = (rotation){.cx = c->cx, .interleaved = arg_flag(c, ARG(rotate_pairs, interleaved)),
                  .x = arg_tensor(c, ARG(rotate_pairs, input)),
                  .cos = arg_tensor(c, ARG(rotate_pairs, cos)),
                  .sin = arg_tensor(c, ARG(rotate_pairs, sin))};
  return check_rank(c, ARG(rotate_pairs, input), 1, HEED_RANK) &&
         check_float(c, ARG(rotate_pairs, input)) && check_angles(c, o);
}


/* Cosines or sines, in the computing type and with x's axes. */
static bool view_angles (const rotation *o, view *v, heed_tensor *t) {
  const layout shape = shape_of_pairs(o);
  layout at;
  t = op_cast(t, scalar_computing(o->x->type));
  if (t == NULL || !layout_expand(&t->at, &shape, &at)) return false;
  *v = view_with(t, &at);
  return true;
}


static heed_tensor *fused (const rotation *o) {
  work w;
  heed_tensor *y = op_new(o->cx, o->x->type, &o->x->at);
  if (y == NULL) return NULL;
  work_rotate(&w, o->interleaved, view_of(y), view_of(o->x));
  return view_angles(o, &w.in[ROTATE_COS], o->cos) && view_angles(o, &w.in[ROTATE_SIN], o->sin) &&
         op_run_for(o->cx, HEED_rotate_pairs, &w) ? y : NULL;
}


/* Columns of t from 'first' to 'last', which count from 1. */
static heed_tensor *columns (heed_tensor *t, int64_t first, int64_t last, int64_t step) {
  if (t == NULL) return NULL;
  return op_call(t->cx, HEED_slice, 5, (heed_value[]){heed_t(t), heed_i(-1), heed_i(first),
                                                      heed_i(last), heed_i(step)});
}


/* The first columns of all pairs of t, or, with k = 1, the second, in the computing type. */
static heed_tensor *of_pairs (const rotation *o, heed_tensor *t, int k) {
  const int64_t n = o->pairs;
  t = o->interleaved ? columns(t, 1 + k, 2 * n - 1 + k, 2)
                     : columns(t, k * n + 1, (k + 1) * n, 1);
  return t != NULL ? op_cast(t, scalar_computing(t->type)) : NULL;
}


static heed_tensor *sum_of_products (heed_tensor *a, heed_tensor *b, heed_tensor *c,
                                     heed_tensor *d) {
  return op2(HEED_add, op2(HEED_mul, a, b), op2(HEED_mul, c, d));
}

static heed_tensor *difference_of_products (heed_tensor *a, heed_tensor *b, heed_tensor *c,
                                            heed_tensor *d) {
  return op2(HEED_sub, op2(HEED_mul, a, b), op2(HEED_mul, c, d));
}


/* Pairs (a, b) as columns of x's order, and behind them those of x that are in no pair. */
static heed_tensor *joined (const rotation *o, heed_tensor *a, heed_tensor *b) {
  const layout *at = &o->x->at;
  layout shape = shape_of_pairs(o);
  heed_tensor *list[] = {op_cast(a, o->x->type), op_cast(b, o->x->type)};
  heed_value args[] = {heed_ts(2, list), heed_i(-1)};
  heed_tensor *y = op_call(o->cx, o->interleaved ? HEED_stack : HEED_cat, 2, args);
  shape.size[at->rank - 1] *= 2;
  y = op_reshape(y, at->rank, shape.size);
  if (y == NULL || layout_same_shape(&y->at, at)) return y;
  heed_tensor *rest = columns(o->x, 2 * o->pairs + 1, -1, 1), *whole[] = {y, rest};
  return op_call(o->cx, HEED_cat, 2, (heed_value[]){heed_ts(2, whole), heed_i(-1)});
}


/* (a cos - b sin, b cos + a sin) */
static heed_tensor *composed (const rotation *o) {
  heed_tensor *a = of_pairs(o, o->x, 0), *b = of_pairs(o, o->x, 1);
  return joined(o, difference_of_products(a, o->cos, b, o->sin),
                sum_of_products(b, o->cos, a, o->sin));
}


bool do_rotate_pairs (call *c) {
  rotation o;
  if (!read_rotation(c, &o)) return false;
  const scope before = scope_unrecorded(c->cx);
  bool whole = op_fuses(c->cx, WORK_ROTATE, 0, o.x->at.size[o.x->at.rank - 1]);
  heed_tensor *y = (whole ? fused : composed)(&o);
  scope_end(c->cx, &before);
  return give_out(c, y);
}

/* }================================================================== */


/*
** {==================================================================
** Gradients
** ===================================================================
*/

/* By x the rotation back; by the angles g's pairs (ga, gb): ga a + gb b, and gb a - ga b. */
bool grad_rotate_pairs (backward *b) {
  const heed_value interleaved = b->args[ARG(rotate_pairs, interleaved)];
  if (wants(b, IN(rotate_pairs, input))) {
    heed_tensor *cos = input(b, IN(rotate_pairs, cos)), *sin = input(b, IN(rotate_pairs, sin));
    sin = op1(HEED_neg, sin);
    heed_value args[] = {heed_t(b->g), heed_t(cos), heed_t(sin), interleaved};
    if (!give(b, IN(rotate_pairs, input), op_call(b->cx, HEED_rotate_pairs, 4, args)))
      return false;
  }
  if (!wants(b, IN(rotate_pairs, cos)) && !wants(b, IN(rotate_pairs, sin))) return true;
  const layout shape = shape_of(b, IN(rotate_pairs, cos));
  const rotation o = {.cx = b->cx, .interleaved = interleaved.integer != 0,
                      .pairs = shape.size[shape.rank - 1]};
  heed_tensor *x = input(b, IN(rotate_pairs, input));
  heed_tensor *xa = of_pairs(&o, x, 0), *xb = of_pairs(&o, x, 1);
  heed_tensor *ga = of_pairs(&o, b->g, 0), *gb = of_pairs(&o, b->g, 1);
  return give(b, IN(rotate_pairs, cos), sum_of_products(ga, xa, gb, xb)) &&
         give(b, IN(rotate_pairs, sin), difference_of_products(gb, xa, ga, xb));
}

/* }================================================================== */
