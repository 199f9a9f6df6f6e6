/*
** product.c - matrix products, and their gradients.
*/

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "memory/packed.h"
#include "op/compose.h"


/*
** {==================================================================
** Checks
** ===================================================================
*/

/* The factors of all rows here. */
enum { LEFT = ARG(matmul, input), RIGHT = ARG(matmul, other) };
_Static_assert(LEFT == ARG(linear, input) && RIGHT == ARG(linear, weight), "factors of linear");
_Static_assert(LEFT == ARG(bmm, input) && RIGHT == ARG(bmm, mat2), "factors of bmm");
_Static_assert(LEFT == ARG(dot, input) && RIGHT == ARG(dot, other), "factors of dot");
_Static_assert(LEFT == ARG(outer, input) && RIGHT == ARG(outer, vec2), "factors of outer");

static heed_tensor *left_of (const call *c) { return arg_tensor(c, LEFT); }
static heed_tensor *right_of (const call *c) { return arg_tensor(c, RIGHT); }


/* Both of one type, which is not bool; beside blocks, floats that float32 holds. */
static bool check_types_of (call *c, int i, int j) {
  heed_type a = arg_tensor(c, i)->type, b = arg_tensor(c, j)->type;
  if (scalar_is_block(b))
    return (scalar_is_float(a) && a != HEED_FLOAT64) ||
           check_refuse(c, i, "float32, float16 or bfloat16 expected beside %s, got %s",
                        scalar_names[b], scalar_names[a]);
  if (a == HEED_BOOL && b == HEED_BOOL)
    return check_refuse(c, i, "bools have no products; convert with to(\"int64\")");
  return check_one_type(c, i, j);
}


static bool check_factors (call *c) { return check_types_of(c, LEFT, RIGHT); }


static bool refuse_pair (call *c, int i, int j, const char *why) {
  char one[LAYOUT_TEXT], other[LAYOUT_TEXT];
  return core_fail(c->cx, op_name(c->op), "shapes %s of '%s' and %s of '%s' do not fit: %s",
                   layout_text(&arg_tensor(c, i)->at, one), check_name(c, i),
                   layout_text(&arg_tensor(c, j)->at, other), check_name(c, j), why) != NULL;
}

static bool refuse_shapes (call *c, const char *why) { return refuse_pair(c, LEFT, RIGHT, why); }


#define BATCHES_DIFFER "they are batches of different sizes"

/* The sizes that are summed over, of arguments i and j. */
static bool check_sums (call *c, int i, int j, int64_t a, int64_t b) {
  char why[80];
  if (a == b) return true;
  snprintf(why, sizeof why, "%" PRId64 " columns meet %" PRId64 " rows", a, b);
  return refuse_pair(c, i, j, why);
}

static bool check_inner (call *c, int64_t a, int64_t b) {
  return check_sums(c, LEFT, RIGHT, a, b);
}

/* }================================================================== */


/*
** {==================================================================
** Layouts
** ===================================================================
*/

/* The factors as matrices (B.., M, K) and (B.., K, N), the result as (B.., M, N) and as given. */
typedef struct product {
  layout a, b, y, shape;
  int64_t m, k, n;
} product;


/* A layout without its last two axes. */
static layout batch_of (const layout *at) {
  layout batch = *at;
  batch.rank -= 2;
  return batch;
}


/* 'at' with 'batch' before its last two axes; its own batch broadcasts to that. */
static layout with_batch (const layout *at, const layout *batch) {
  layout own = batch_of(at), wide;
  layout_expand(&own, batch, &wide);
  for (int i = 0; i < 2; i++, wide.rank++) {
    wide.size[wide.rank] = at->size[own.rank + i];
    wide.stride[wide.rank] = at->stride[own.rank + i];
  }
  return wide;
}


/* One matrix for the whole batch: then the batch is more rows, if it lies so. */
static bool flatten_batch (product *p) {
  layout flat;
  if (p->b.rank != 2 || p->a.rank == 2 || p->n == 0) return p->y.rank == 2;
  int64_t rows = layout_numel(&p->y) / p->n;
  if (!layout_reshape(&p->a, 2, (int64_t[]){rows, p->k}, &flat)) return false;
  p->a = flat;
  return layout_dense(&p->y, 2, (int64_t[]){rows, p->n});
}


/* False, without a message, when there are too many elements. */
static bool set_result (product *p, const layout *batch, bool has_m, bool has_n) {
  int64_t size[HEED_RANK], shape[HEED_RANK];
  int rank = batch->rank, given = rank;
  memcpy(size, batch->size, (size_t)rank * sizeof *size);
  memcpy(shape, batch->size, (size_t)rank * sizeof *shape);
  size[rank] = p->m;
  size[rank + 1] = p->n;
  if (has_m) shape[given++] = p->m;
  if (has_n) shape[given++] = p->n;
  return layout_dense(&p->y, rank + 2, size) && layout_dense(&p->shape, given, shape);
}


/* Two matrices: nothing broadcasts. */
static bool set_matrices (call *c, product *p, const layout *a, const layout *b) {
  layout_copy(&p->a, a);
  layout_copy(&p->b, b);
  p->m = a->size[0];
  p->k = a->size[1];
  p->n = b->size[1];
  if (!check_inner(c, p->k, b->size[0])) return false;
  if (!layout_dense(&p->y, 2, (int64_t[]){p->m, p->n}))
    return refuse_shapes(c, "the result has too many elements");
  layout_copy(&p->shape, &p->y);
  return true;
}


/* The result for factors whose batches broadcast to 'batch'. */
static bool set_factors (product *p, const layout *batch, bool has_m, bool has_n) {
  p->m = p->a.size[p->a.rank - 2];
  p->k = p->a.size[p->a.rank - 1];
  p->n = p->b.size[p->b.rank - 1];
  if (!set_result(p, batch, has_m, has_n)) return false;
  if (flatten_batch(p)) return true;
  p->a = with_batch(&p->a, batch);
  p->b = with_batch(&p->b, batch);
  return true;
}


/* Vectors stand as one row on the left, as one column on the right. */
static bool set_product (call *c, product *p, const layout *a, const layout *b) {
  layout batch, a_batch, b_batch;
  if (a->rank == 2 && b->rank == 2) return set_matrices(c, p, a, b);
  p->a = a->rank == 1 ? layout_insert(a, 0) : *a;
  p->b = b->rank == 1 ? layout_insert(b, 1) : *b;
  if (!check_inner(c, p->a.size[p->a.rank - 1], p->b.size[p->b.rank - 2])) return false;
  a_batch = batch_of(&p->a);
  b_batch = batch_of(&p->b);
  if (!layout_broadcast(&a_batch, &b_batch, &batch))
    return refuse_shapes(c, "the dimensions before the last two do not broadcast");
  return set_factors(p, &batch, a->rank > 1, b->rank > 1) ||
         refuse_shapes(c, "the result has too many elements");
}


/*
** The copy of a factor that products keep; or NULL: replays may write the factor in between, unless
** it has blocks and no capture made it (heed_write refuses that).
*/
static packed_copy *copy_of (const call *c, const heed_tensor *t, const view *v) {
  if (t->store == NULL) return NULL;
  const bool keeps = c->cx->capture.where == NULL ||
                     (scalar_is_block(t->type) && t->store->capture == 0);
  return keeps ? packed_find(t->store, v->data) : NULL;
}


/*
** Matrices (M, K) and (K, N) of blocks, whose rows lie along one axis or the other. 'packed' is a
** copy of b; or NULL.
*/
static bool run_blocks (heed_context *cx, heed_op op, blocks_op kind, view y, view a, view b,
                        view bias, packed_copy *packed) {
  work w;
  const bool transposed = layout_block_axis(&b.at, scalar_blocks[b.type].elements) == 0;
  if (transposed) b.at = layout_transpose(&b.at, 0, 1);
  if (layout_numel(&y.at) == 0) return true;
  work_blocks(&w, transposed ? kind : BLOCKS_BACK, y, a, b, bias, packed);
  return op_run_for(cx, op, &w);
}


/* The factor beside blocks: float32, dense. */
static heed_tensor *beside_blocks (heed_tensor *t) { return op_dense(op_cast(t, HEED_FLOAT32)); }


/*
** The same for a product that was set, of 'type' in the end. Factors are rounded to 8 bits where
** float32 products may be less than exact: heed_set_matmul_precision.
*/
static bool multiply_blocks (call *c, const product *p, heed_tensor *a, heed_tensor *b,
                             heed_tensor *bias, heed_type type) {
  if (p->b.rank != 2)
    return check_refuse(c, RIGHT, "a matrix expected of blocks of type %s", scalar_names[b->type]);
  const blocks_op kind = c->cx->devices.precision > 0 ? BLOCKS_ROUNDED : BLOCKS_PRODUCT;
  heed_tensor *y = op_new(c->cx, HEED_FLOAT32, &p->shape);
  bias = op_cast(bias, HEED_FLOAT32);
  if (y == NULL) return false;
  const view weight = view_with(b, &p->b);
  return run_blocks(c->cx, c->op, kind, view_with(y, &p->y), view_with(a, &p->a), weight,
                    bias != NULL ? view_of(op_dense(bias)) : view_none(),
                    copy_of(c, b, &weight)) &&
         give_out(c, op_cast(y, type));
}


static void set_operands (work *w, const product *p, const heed_tensor *y, const heed_tensor *a,
                          const heed_tensor *b) {
  view_set(&w->out[0], y, &p->y);
  view_set(&w->in[MATMUL_A], a, &p->a);
  view_set(&w->in[MATMUL_B], b, &p->b);
}


/* y = a b, or a b + bias. */
static bool multiply (call *c, const product *p, heed_tensor *a, heed_tensor *b,
                      heed_tensor *bias) {
  work w;
  heed_tensor *y = op_new(c->cx, a->type, &p->shape);
  if (y == NULL) return false;
  work_product(&w, 1, false, bias != NULL);
  set_operands(&w, p, y, a, b);
  if (bias != NULL) {
    layout wide;
    layout_expand(&bias->at, &p->y, &wide);
    view_set(&w.in[MATMUL_ADDEND], bias, &wide);
  }
  w.matmul.packed = copy_of(c, b, &w.in[MATMUL_B]);
  return op_run(c, &w) && give_out(c, y);
}

/* }================================================================== */


/*
** {==================================================================
** Products
** ===================================================================
*/

bool do_matmul (call *c) {
  heed_tensor *a = left_of(c), *b = right_of(c);
  const heed_type type = a->type;
  const bool blocks = scalar_is_block(b->type);
  product p;
  if (!check_rank(c, LEFT, 1, HEED_RANK) || !check_rank(c, RIGHT, 1, HEED_RANK)) return false;
  if (!check_factors(c) || (blocks && !check_rank(c, RIGHT, 2, 2))) return false;
  if (blocks && (a = beside_blocks(a)) == NULL) return false;
  if (!set_product(c, &p, &a->at, &b->at)) return false;
  return blocks ? multiply_blocks(c, &p, a, b, NULL, type) : multiply(c, &p, a, b, NULL);
}


/* input (.., in), weight (out, in), bias (out). */
bool do_linear (call *c) {
  const int bias_at = ARG(linear, bias);
  heed_tensor *x = left_of(c), *weight = right_of(c), *bias = arg_tensor(c, bias_at);
  product p;
  char text[LAYOUT_TEXT];
  if (!check_rank(c, LEFT, 1, HEED_RANK) || !check_rank(c, RIGHT, 2, 2)) return false;
  if (!check_factors(c) || (bias != NULL && !check_one_type(c, LEFT, bias_at))) return false;
  if (weight->at.size[1] != x->at.size[x->at.rank - 1])
    return refuse_shapes(c, "the last sizes of both are the features that come in");
  if (bias != NULL && (bias->at.rank != 1 || bias->at.size[0] != weight->at.size[0]))
    return check_refuse(c, bias_at, "%" PRId64 " elements expected, got a tensor of shape %s",
                        weight->at.size[0], layout_text(&bias->at, text));
  const heed_type type = x->type;
  const bool blocks = scalar_is_block(weight->type);
  layout transposed = layout_transpose(&weight->at, 0, 1);
  if (blocks && (x = beside_blocks(x)) == NULL) return false;
  if (!set_product(c, &p, &x->at, &transposed)) return false;
  return blocks ? multiply_blocks(c, &p, x, weight, bias, type) : multiply(c, &p, x, weight, bias);
}


static bool give_matmul (call *c) {
  return give_out(c, op2(HEED_matmul, left_of(c), right_of(c)));
}


static bool check_ranks (call *c, int rank) {
  return check_rank(c, LEFT, rank, rank) && check_rank(c, RIGHT, rank, rank);
}


bool do_bmm (call *c) {
  const layout *a = &left_of(c)->at, *b = &right_of(c)->at;
  if (!check_ranks(c, 3) || !check_factors(c)) return false;
  if (a->size[0] != b->size[0]) return refuse_shapes(c, BATCHES_DIFFER);
  return check_inner(c, a->size[2], b->size[1]) && give_matmul(c);
}


bool do_dot (call *c) {
  const layout *a = &left_of(c)->at, *b = &right_of(c)->at;
  if (!check_ranks(c, 1) || !check_factors(c)) return false;
  if (a->size[0] != b->size[0]) return refuse_shapes(c, "they are of different lengths");
  return give_matmul(c);
}


bool do_outer (call *c) {
  return check_ranks(c, 1) &&
         give_out(c, op2(HEED_mul, op_along(HEED_unsqueeze, left_of(c), 1), right_of(c)));
}


SAME_ARG(addmm, baddbmm, input);
SAME_ARG(addmm, baddbmm, beta);
SAME_ARG(addmm, baddbmm, alpha);
_Static_assert(ARG(addmm, mat1) == ARG(baddbmm, batch1), "first factor of baddbmm");
_Static_assert(ARG(addmm, mat2) == ARG(baddbmm, batch2), "second factor of baddbmm");

/* t times the number in argument i. */
static heed_tensor *times (call *c, heed_tensor *t, int i) {
  double factor = arg_number(c, i);
  if (t == NULL || factor == 1) return t;
  if (scalar_is_float(t->type)) return op_scale(t, factor);
  return op2(HEED_mul, t, op_integer(c->cx, arg_whole(c, i)));
}


/* beta input + alpha a b. With beta 0 the input counts nothing, NaN included (PyTorch). */
static bool add_product (call *c, int rank, heed_op multiply) {
  const int first = ARG(addmm, mat1), second = ARG(addmm, mat2), addend = ARG(addmm, input);
  heed_tensor *a = arg_tensor(c, first), *b = arg_tensor(c, second), *x = arg_tensor(c, addend);
  layout wide;
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  if (!check_rank(c, first, rank, rank) || !check_rank(c, second, rank, rank)) return false;
  if (!check_types_of(c, first, second) || !check_one_type(c, first, addend)) return false;
  if (!check_whole(c, ARG(addmm, beta), x->type) || !check_whole(c, ARG(addmm, alpha), x->type))
    return false;
  if (rank == 3 && a->at.size[0] != b->at.size[0])
    return refuse_pair(c, first, second, BATCHES_DIFFER);
  if (!check_sums(c, first, second, a->at.size[rank - 1], b->at.size[rank - 2])) return false;
  heed_tensor *y = op2(multiply, a, b);
  if (y == NULL) return false;
  if (!layout_expand(&x->at, &y->at, &wide))
    return check_refuse(c, addend, "a shape that broadcasts to %s expected, got %s",
                        layout_text(&y->at, want), layout_text(&x->at, have));
  y = times(c, y, ARG(addmm, alpha));
  if (arg_number(c, ARG(addmm, beta)) == 0) return give_out(c, y);
  return give_out(c, op2(HEED_add, times(c, x, ARG(addmm, beta)), y));
}


bool do_addmm (call *c) { return add_product(c, 2, HEED_matmul); }


bool do_baddbmm (call *c) { return add_product(c, 3, HEED_bmm); }


/* The sum of a matrix's diagonal. */
bool do_trace (call *c) {
  return check_rank(c, ARG(trace, input), 2, 2) &&
         give_out(c, op1(HEED_sum, op1(HEED_diagonal, arg_tensor(c, ARG(trace, input)))));
}

/* }================================================================== */


/*
** {==================================================================
** Gradients
** ===================================================================
*/

/* A tensor's matrices (.., R, C). */
typedef struct matrices {
  heed_tensor *t;
  layout at;
} matrices;

static matrices matrices_of (heed_tensor *t) { return (matrices){t, t->at}; }


static matrices swapped (matrices m) {
  m.at = layout_transpose(&m.at, m.at.rank - 2, m.at.rank - 1);
  return m;
}


/* One axis more for a vector, before or behind its own. */
static matrices with_axis (matrices m, bool given, int axis) {
  if (given) m.at = layout_insert(&m.at, axis);
  return m;
}


/* As one matrix of all rows; of a copy, where they lie apart. */
static bool join_rows (matrices *m) {
  const layout *at = &m->at;
  layout rows;
  int64_t size[2] = {1, at->size[at->rank - 1]};
  if (at->rank == 2) return true;
  for (int i = 0; i < at->rank - 1; i++) size[0] *= at->size[i];
  if (!layout_reshape(at, 2, size, &rows)) {
    m->t = op1(HEED_clone, op_view(m->t, at));
    if (m->t == NULL || !layout_reshape(&m->t->at, 2, size, &rows)) return false;
  }
  m->at = rows;
  return true;
}


/* g w, of blocks. */
static heed_tensor *multiplied_blocks (backward *r, matrices g, matrices w, const layout *shape) {
  product p = {.b = w.at};
  const heed_type type = g.t->type;
  heed_tensor *a = beside_blocks(op_view(g.t, &g.at));
  if (a == NULL) return NULL;
  p.a = a->at;
  layout batch = batch_of(&p.a);
  if (!set_factors(&p, &batch, true, true))
    return core_fail(r->cx, NULL, "the gradient has too many elements");
  heed_tensor *y = op_new(r->cx, HEED_FLOAT32, shape != NULL ? shape : &p.shape);
  if (y == NULL || !run_blocks(r->cx, r->op, BLOCKS_PRODUCT, view_with(y, &p.y), view_with(a, &p.a),
                               view_with(w.t, &p.b), view_none(), NULL)) return NULL;
  return op_cast(y, type);
}


static heed_tensor *composed (matrices a, matrices b, const layout *shape) {
  heed_tensor *y = op2(HEED_matmul, op_view(a.t, &a.at), op_view(b.t, &b.at));
  return shape != NULL ? op_with_shape(HEED_reshape, y, shape) : y;
}


/* a b as a tensor of 'shape', which has all its elements; NULL: as matrices. */
static heed_tensor *multiplied (backward *r, matrices a, matrices b, const layout *shape) {
  product p;
  layout batch, a_batch = batch_of(&a.at), b_batch = batch_of(&b.at);
  work w;
  if (composes(r)) return composed(a, b, shape);
  if (scalar_is_block(b.t->type)) return multiplied_blocks(r, a, b, shape);
  p.a = a.at;
  p.b = b.at;
  if (!layout_broadcast(&a_batch, &b_batch, &batch) || !set_factors(&p, &batch, true, true))
    return core_fail(r->cx, NULL, "the gradient has too many elements");
  heed_tensor *y = op_new(r->cx, a.t->type, shape != NULL ? shape : &p.shape);
  if (y == NULL) return NULL;
  work_product(&w, 1, false, false);
  set_operands(&w, &p, y, a.t, b.t);
  return op_run_for(r->cx, r->op, &w) ? y : NULL;
}


/*
** da = g b^T. One row a for a whole batch of b is summed over the batch within the product, where
** g and b lie so; else the backward pass does it.
*/
static heed_tensor *grad_left (backward *r, matrices g, matrices b) {
  const layout shape = shape_of(r, IN(matmul, input));
  int64_t n = layout_numel(&g.at), k = b.at.size[b.at.rank - 2];
  matrices row = g, rows = b = swapped(b);
  if (g.at.rank > 2 && k > 0 && layout_numel(&shape) == k &&
      layout_reshape(&g.at, 2, (int64_t[]){1, n}, &row.at) &&
      layout_reshape(&b.at, 2, (int64_t[]){n, k}, &rows.at))
    return multiplied(r, row, rows, &shape);
  return multiplied(r, g, b, NULL);
}


/* db = a^T g. One b for a whole batch of a: the batch is summed over as more rows. */
static heed_tensor *grad_right (backward *r, matrices a, matrices g) {
  const layout shape = shape_of(r, IN(matmul, other));
  if (shape.rank <= 2 && (!join_rows(&a) || !join_rows(&g))) return NULL;
  return multiplied(r, swapped(a), g, shape.rank == 1 ? &shape : NULL);
}


/* y = a b, with vectors as a row and a column. */
bool grad_matmul (backward *r) {
  const int one = IN(matmul, input), other = IN(matmul, other);
  bool row = rank_of(r, one) == 1, column = rank_of(r, other) == 1;
  matrices g = with_axis(matrices_of(r->g), column, r->g->at.rank);
  g = with_axis(g, row, g.at.rank - 1);
  if (wants(r, one)) {
    heed_tensor *b = input(r, other);
    if (b == NULL || !give(r, one, grad_left(r, g, with_axis(matrices_of(b), column, 1))))
      return false;
  }
  if (!wants(r, other)) return true;
  heed_tensor *a = input(r, one);
  return a != NULL && give(r, other, grad_right(r, with_axis(matrices_of(a), row, 0), g));
}


/* The sum of all rows. */
static heed_tensor *sum_of_rows (backward *b, matrices g) {
  if (composes(b)) return op_reduce_axis(HEED_sum, op_view(g.t, &g.at), 0, false);
  reduction f = {.x = g.t, .in = swapped(g).at, .axes = 1};
  heed_tensor *y = op_new_sized(b->cx, g.t->type, 1, &g.at.size[1]);
  if (y == NULL) return NULL;
  f.out = y->at;
  return reduction_run(&f, b->op, REDUCE_SUM, y, NULL) ? y : NULL;
}


/* dx = g w */
static bool give_input (backward *b, matrices g) {
  const int x = IN(linear, input);
  const layout shape = shape_of(b, x);
  heed_tensor *weight = input(b, IN(linear, weight));
  return weight != NULL && give(b, x, multiplied(b, g, matrices_of(weight), &shape));
}


/* dw = g^T x */
static bool give_weight (backward *b, matrices g) {
  heed_tensor *t = input(b, IN(linear, input));
  if (t == NULL) return false;
  matrices x = with_axis(matrices_of(t), t->at.rank == 1, 0);
  return join_rows(&x) && give(b, IN(linear, weight), multiplied(b, swapped(g), x, NULL));
}


/* y = x w^T + bias, all rows of x and y as one matrix. */
bool grad_linear (backward *b) {
  const int bias = IN(linear, bias);
  matrices g = with_axis(matrices_of(b->g), b->g->at.rank == 1, 0);
  return join_rows(&g) && (!wants(b, IN(linear, input)) || give_input(b, g)) &&
         (!wants(b, IN(linear, weight)) || give_weight(b, g)) &&
         (!wants(b, bias) || give(b, bias, sum_of_rows(b, g)));
}

/* }================================================================== */
