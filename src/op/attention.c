/*
** attention.c - attention: its arguments, the fused work, the gradient.
**
** The mask reaches a device as a value: a tree of who may attend, evaluated tile by tile.
*/

#include <inttypes.h>
#include <math.h>

#include "op/attention.h"


/*
** {==================================================================
** Shapes
** ===================================================================
*/

layout attention_layout (const attending *o, const layout *at) {
  if (o->rank == 4) return *at;
  layout heads = layout_insert(at, o->rank - 2);
  return o->rank == 3 ? heads : layout_insert(&heads, 0);
}


layout attention_shape (const attending *o, int64_t last) {
  const int64_t size[] = {o->B, o->H, o->T, last}, batches[] = {o->B, o->T, last};
  layout shape;
  layout_dense(&shape, o->rank - (last < 0), o->rank == 4 ? size : o->rank == 3 ? batches
                                                                                : size + 2);
  return shape;
}


layout attention_square (const attending *o, const heed_tensor *t) {
  layout to = attention_shape(o, o->S), at;
  layout_expand(&t->at, &to, &at);
  return attention_layout(o, &at);
}


layout attention_distances (const attending *o) {
  layout at;
  layout_dense(&at, 2, (int64_t[]){o->H, o->T + o->S > 0 ? o->T + o->S - 1 : 0});
  return at;
}

/* }================================================================== */


/*
** {==================================================================
** Arguments
** ===================================================================
*/

static int64_t within (int64_t x, int64_t least, int64_t most) {
  return x < least ? least : x > most ? most : x;
}


/* The size of an axis of (B, H, T, D), from 0 on, as attention_layout has it. */
static int64_t size_of (const attending *o, const heed_tensor *t, int axis) {
  int missing = 4 - o->rank;
  if (axis >= 2 || missing == 0) return t->at.size[axis - missing];
  return axis == 0 && missing == 1 ? t->at.size[0] : 1;
}


static void read_sizes (attending *o) {
  o->rank = o->query->at.rank;
  o->B = size_of(o, o->query, 0);
  o->H = size_of(o, o->query, 1);
  o->T = size_of(o, o->query, 2);
  o->D = size_of(o, o->query, 3);
  o->Hk = size_of(o, o->key, 1);
  o->S = size_of(o, o->key, 2);
  o->Dv = size_of(o, o->value, 3);
}


/* Reads the numbers; the sizes are known. Without an offset, queries end where keys end. */
static void read_numbers (attending *o, const heed_value *args) {
  const heed_value *offset = &args[ARG(attention, offset)];
  int64_t moved = offset->kind != HEED_NONE ? offset->integer : o->S - o->T;
  o->causal = args[ARG(attention, causal)].integer != 0;
  o->fused = args[ARG(attention, fused)].integer != 0;
  o->offset = within(moved, -o->T, o->S);
  o->scale = op_number_in(&args[ARG(attention, scale)], o->D > 0 ? 1 / sqrt((double)o->D) : 1);
  o->softcap = op_number_in(&args[ARG(attention, softcap)], 0);
  o->dropout = op_number_in(&args[ARG(attention, dropout)], 0);
}


static bool refuse_shapes (const attending *o, const char *why) {
  char q[LAYOUT_TEXT], k[LAYOUT_TEXT], v[LAYOUT_TEXT];
  return core_fail(o->cx, op_name(o->op), "shapes %s of 'query', %s of 'key' and %s of 'value' do "
                   "not fit: %s", layout_text(&o->query->at, q), layout_text(&o->key->at, k),
                   layout_text(&o->value->at, v), why) != NULL;
}


static bool check_sizes (const attending *o) {
  if (size_of(o, o->key, 0) != o->B || size_of(o, o->value, 0) != o->B)
    return refuse_shapes(o, "batches differ");
  if (size_of(o, o->value, 1) != o->Hk)
    return refuse_shapes(o, "keys and values have not as many heads");
  if (o->H != o->Hk && (o->Hk == 0 || o->H % o->Hk != 0))
    return refuse_shapes(o, "the heads of queries are no multiple of those of keys");
  if (size_of(o, o->value, 2) != o->S)
    return refuse_shapes(o, "there are not as many keys as values");
  if (size_of(o, o->key, 3) != o->D)
    return refuse_shapes(o, "queries and keys are not of one size");
  layout y = attention_shape(o, o->S), dense;
  return layout_dense(&dense, y.rank, y.size) || refuse_shapes(o, "too many weights");
}


static bool check_qkv (call *c, attending *o) {
  const int query = ARG(attention, query), key = ARG(attention, key);
  const int value = ARG(attention, value), rank = o->query->at.rank;
  heed_type type = o->query->type;
  if (!check_rank(c, query, 2, 4) || !check_float(c, query)) return false;
  if (!check_rank(c, key, rank, rank) || !check_types(c, key, type)) return false;
  if (!check_rank(c, value, rank, rank) || !check_types(c, value, type)) return false;
  read_sizes(o);
  return check_sizes(o);
}


/* Does tensor argument i broadcast to that shape? */
static bool check_operand (call *c, int i, const layout *to) {
  layout at;
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  const layout *given = &arg_tensor(c, i)->at;
  return layout_expand(given, to, &at) ||
         check_refuse(c, i, "a shape that broadcasts to %s expected, got %s",
                      layout_text(to, want), layout_text(given, have));
}


bool attention_check_lengths (call *c, const attending *o, int i, const heed_tensor *lengths,
                              int64_t most) {
  if (!core_reaches(c->cx, tensor_device(lengths))) return true;
  const int64_t *n = view_of(lengths).data;
  int64_t step = lengths->at.rank > 0 ? lengths->at.stride[0] : 0;
  for (int64_t k = 0; k < layout_numel(&lengths->at); k++)
    if (n[k * step] < 0 || n[k * step] > most)
      return check_refuse(c, i, "numbers of keys from 0 to %" PRId64 " expected, got %" PRId64,
                          o->S, n[k * step]);
  return true;
}


static bool check_bias (call *c, const attending *o) {
  const int bias = ARG(attention, bias), relative = ARG(attention, relative);
  if (o->bias == NULL && o->relative == NULL) return true;
  layout weights = attention_shape(o, o->S), distances = attention_distances(o);
  if (o->bias != NULL && (!check_float(c, bias) || !check_operand(c, bias, &weights))) return false;
  return o->relative == NULL ||
         (check_float(c, relative) && check_operand(c, relative, &distances));
}


static bool check_mask (call *c, const attending *o) {
  const int allowed = ARG(attention, mask), lengths = ARG(attention, lengths);
  layout weights = attention_shape(o, o->S), batch;
  if (o->mask != NULL && scalar_is_float(o->mask->type))
    return check_refuse(c, allowed, "a bool tensor expected, true where one may attend, got %s; "
                        "what is added to the scores is called 'bias'",
                        scalar_names[o->mask->type]);
  if (o->mask != NULL && (!check_types(c, allowed, HEED_BOOL) ||
                          !check_operand(c, allowed, &weights)))
    return false;
  layout_dense(&batch, 1, &o->B);
  return o->lengths == NULL ||
         (check_types(c, lengths, HEED_INT64) && check_operand(c, lengths, &batch) &&
          attention_check_lengths(c, o, lengths, o->lengths, o->S));
}


static bool check_numbers (call *c) {
  const int offset = ARG(attention, offset), softcap = ARG(attention, softcap);
  if (arg_given(c, offset) && !arg_flag(c, ARG(attention, causal)))
    return check_refuse(c, offset, "it goes with causal = true");
  if (arg_given(c, softcap) && !(arg_number(c, softcap) >= 0 && isfinite(arg_number(c, softcap))))
    return check_refuse(c, softcap, "a number from 0 on expected, got %g", arg_number(c, softcap));
  return check_probability(c, ARG(attention, dropout));
}


static bool read_tensor (const call *c, int i, heed_tensor **t) {
  *t = op_materialized(arg_tensor(c, i));
  return *t != NULL || !arg_given(c, i);
}


static bool read_call (call *c, attending *o) {
  const heed_value *operands = &c->args[ARG(attention, operands)];
  *o = (attending){.cx = c->cx, .op = c->op, .rule = &c->args[ARG(attention, rule)],
                   .operands = operands->n, .says = ARG(attention, mask)};
  if (operands->kind == HEED_TENSORS) o->operand = operands->tensors;
  if (!read_tensor(c, ARG(attention, query), &o->query) ||
      !read_tensor(c, ARG(attention, key), &o->key) ||
      !read_tensor(c, ARG(attention, value), &o->value) ||
      !read_tensor(c, ARG(attention, mask), &o->mask) ||
      !read_tensor(c, ARG(attention, bias), &o->bias) ||
      !read_tensor(c, ARG(attention, relative), &o->relative) ||
      !read_tensor(c, ARG(attention, lengths), &o->lengths))
    return false;
  if (!check_qkv(c, o) || !attention_check_rule(c, o) || !check_mask(c, o) || !check_bias(c, o) ||
      !check_numbers(c))
    return false;
  read_numbers(o, c->args);
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Work for a device
** ===================================================================
*/

/* With all axes; none for NULL. */
static void set_full (view *v, const attending *o, const heed_tensor *t) {
  if (t == NULL) view_clear(v);
  else if (o->rank == 4) view_set(v, t, &t->at);
  else {
    layout at = attention_layout(o, &t->at);
    view_set(v, t, &at);
  }
}


static bool set_work (work *w, const attending *o, work_kind kind) {
  work_attention(w, kind, o->scale, o->softcap, o->dropout);
  set_full(&w->in[ATTENTION_Q], o, o->query);
  set_full(&w->in[ATTENTION_K], o, o->key);
  set_full(&w->in[ATTENTION_V], o, o->value);
  w->in[ATTENTION_BIAS] = w->in[ATTENTION_RELATIVE] = view_none();
  if (o->bias != NULL) {
    layout at = attention_square(o, o->bias);
    w->in[ATTENTION_BIAS] = view_with(o->bias, &at);
  }
  if (o->relative != NULL) {
    layout distances = attention_distances(o), at;
    layout_expand(&o->relative->at, &distances, &at);
    w->in[ATTENTION_RELATIVE] = view_with(o->relative, &at);
  }
  w->in[ATTENTION_KEY] = o->dropout_key != NULL ? view_of(o->dropout_key) : view_none();
  return attention_set_mask(w, o);
}


/*
** The state that the gradient needs beside arguments and result, in one int64 tensor: the rows'
** normalisers, of the computing type, unless all is composed, and last the key of dropout.
*/
static heed_tensor *state_new (const attending *o, bool has_lse) {
  layout lse = attention_shape(o, -1);
  int64_t bytes = has_lse ? layout_numel(&lse) * scalar_sizes[scalar_computing(o->query->type)] : 0;
  return op_new_sized(o->cx, HEED_INT64, 1, (int64_t[]){(bytes + 7) / 8 + 1});
}


static heed_tensor *state_lse (const attending *o, heed_tensor *state) {
  layout lse = attention_shape(o, -1);
  heed_type type = scalar_computing(o->query->type);
  return state != NULL ? op_hold(o->cx, tensor_on(o->cx, state->store, type, &lse)) : NULL;
}


static heed_tensor *state_key (heed_tensor *state) {
  if (state == NULL) return NULL;
  layout last = layout_narrow(&state->at, 0, state->at.size[0] - 1, 1, 1);
  return op_view(state, &last);
}

/* }================================================================== */


/*
** {==================================================================
** Forward
** ===================================================================
*/

/* The heads of a position side by side, where those of the query are: they are joined by a view. */
static heed_tensor *new_result (const attending *o) {
  const layout *q = &o->query->at;
  const int head = q->rank - 3, row = q->rank - 2;
  layout at = attention_shape(o, o->Dv);
  if (head >= 0 && q->stride[head] > 0 && q->stride[head] < q->stride[row]) {
    at = layout_transpose(&at, head, row);
    layout_dense(&at, at.rank, at.size);
    at = layout_transpose(&at, head, row);
  }
  return op_new_like(o->cx, o->query->type, &at);
}


/* Fills ys[], by OUT(attention, …); the normalisers go to the state. */
static bool fused (const attending *o, bool weights, heed_tensor *ys[OP_OUTS]) {
  work w;
  layout square = attention_shape(o, o->S);
  heed_type type = o->query->type;
  heed_tensor *y = ys[OUT(attention, output)] = new_result(o);
  heed_tensor *lse = ys[OUT(attention, lse)] = state_lse(o, ys[OUT(attention, state)]);
  heed_tensor *all = ys[OUT(attention, weights)] = weights ? op_new(o->cx, type, &square) : NULL;
  if (y == NULL || lse == NULL || (weights && all == NULL)) return false;
  if (!set_work(&w, o, WORK_ATTENTION)) return false;
  set_full(&w.out[ATTENTION_Y], o, y);
  set_full(&w.out[ATTENTION_Y_LSE], o, lse);
  set_full(&w.out[ATTENTION_WEIGHTS], o, all);
  return op_run_for(o->cx, o->op, &w);
}


static bool is_fused (const attending *o) {
  int64_t row = 1024 * (o->D > o->Dv ? o->D : o->Dv);    /* a step takes some thousand of them */
  return o->fused && op_fuses(o->cx, WORK_ATTENTION, 0, row) &&
         op_supports(o->cx, WORK_ATTENTION_BACK, 0);
}


static bool attention (call *c, attending *o) {
  heed_tensor *ys[OP_OUTS] = {NULL};
  bool weights = arg_flag(c, ARG(attention, weights));
  heed_tensor *state = ys[OUT(attention, state)] = state_new(o, is_fused(o));
  if (state == NULL) return false;
  if (o->dropout > 0 && !op_draw_key(o->dropout_key = state_key(state))) return false;
  if (!(is_fused(o) ? fused : attention_composed)(o, weights, ys)) return false;
  if (!arg_flag(c, ARG(attention, lse))) ys[OUT(attention, lse)] = NULL;
  return give_outs(c, OP_OUTS, ys);
}


bool do_attention (call *c) {
  attending o;
  if (!read_call(c, &o)) return false;
  const scope before = scope_unrecorded(c->cx);
  bool good = attention(c, &o);
  scope_end(c->cx, &before);
  return good;
}

/* }================================================================== */


/*
** {==================================================================
** Gradient
** ===================================================================
*/

static bool restore_tensor (backward *b, int i, heed_tensor **t) {
  *t = op_materialized(input(b, i));
  return *t != NULL || !has_input(b, i);
}


/* Puts the tensors of the rule, which are the last inputs, into 'operands'. */
static bool restore_rule (backward *b, attending *o, heed_tensor *operands[OP_EDGES]) {
  const int first = IN(attention, operands);
  o->rule = &b->args[ARG(attention, rule)];
  o->operand = operands;
  o->operands = LAST_IN(b) + 1 - first;
  for (int i = 0; i < o->operands; i++)
    if (!restore_tensor(b, first + i, &operands[i])) return false;
  return true;
}


static bool restore (backward *b, attending *o, heed_tensor *operands[OP_EDGES]) {
  *o = (attending){.cx = b->cx, .op = b->op};
  if (!restore_tensor(b, IN(attention, query), &o->query) ||
      !restore_tensor(b, IN(attention, key), &o->key) ||
      !restore_tensor(b, IN(attention, value), &o->value) ||
      !restore_tensor(b, IN(attention, mask), &o->mask) ||
      !restore_tensor(b, IN(attention, bias), &o->bias) ||
      !restore_tensor(b, IN(attention, relative), &o->relative) ||
      !restore_tensor(b, IN(attention, lengths), &o->lengths) || !restore_rule(b, o, operands))
    return false;
  read_sizes(o);
  read_numbers(o, b->args);
  heed_tensor *state = output(b, OUT(attention, state));
  if (o->dropout > 0) o->dropout_key = state_key(state);
  return state != NULL && (o->dropout == 0 || o->dropout_key != NULL);
}


static bool fused_back (backward *b, const attending *o, heed_tensor *ds[ATTENTION_BACK_OUTS]) {
  work w;
  heed_tensor *y = output(b, OUT(attention, output)), *g = b->gs[OUT(attention, output)];
  heed_tensor *lse = state_lse(o, output(b, OUT(attention, state)));
  if (y == NULL || lse == NULL) return false;
  if (g == NULL && (g = op_zeros(b->cx, y->type, &y->at)) == NULL) return false;
  if (!set_work(&w, o, WORK_ATTENTION_BACK)) return false;
  set_full(&w.in[ATTENTION_GRADIENT], o, g);
  set_full(&w.in[ATTENTION_OUTPUT], o, y);
  set_full(&w.in[ATTENTION_LSE], o, lse);
  set_full(&w.in[ATTENTION_GRADIENT_LSE], o, b->gs[OUT(attention, lse)]);
  for (int i = 0; i < ATTENTION_DRELATIVE; i++) set_full(&w.out[i], o, ds[i]);
  w.out[ATTENTION_DRELATIVE] = ds[ATTENTION_DRELATIVE] != NULL ? view_of(ds[ATTENTION_DRELATIVE])
                                                               : view_none();
  return op_run_for(b->cx, b->op, &w);
}


/* For a gradient that lies as 'at': heads that are parts of rows go back as they are. */
static heed_tensor *new_like (heed_context *cx, heed_type type, const layout *at) {
  bool rows = at->stride[at->rank - 1] == 1;
  return (rows ? op_new_like : op_new)(cx, type, at);
}


/* ds of query, key and value, and of biases if they are wanted, with all their axes. */
static bool new_gradients (backward *b, const attending *o, bool zeros,
                           heed_tensor *ds[ATTENTION_BACK_OUTS]) {
  heed_tensor *(*make) (heed_context *, heed_type, const layout *) = zeros ? op_zeros
                                                                          : new_like;
  layout weights = attention_shape(o, o->S), distances = attention_distances(o), heads;
  heed_type type = o->query->type;
  layout_dense(&heads, 3, (int64_t[]){o->B, o->H, distances.size[1]});
  bool biased = wants(b, IN(attention, bias)), relative = wants(b, IN(attention, relative));
  ds[ATTENTION_DQ] = make(b->cx, type, &o->query->at);
  ds[ATTENTION_DK] = make(b->cx, type, &o->key->at);
  ds[ATTENTION_DV] = make(b->cx, type, &o->value->at);
  ds[ATTENTION_DBIAS] = biased ? make(b->cx, type, &weights) : NULL;
  ds[ATTENTION_DRELATIVE] = relative ? make(b->cx, scalar_computing(type), &heads) : NULL;
  for (int i = ATTENTION_DQ; i <= ATTENTION_DV; i++)
    if (ds[i] == NULL) return false;
  return (ds[ATTENTION_DBIAS] != NULL || !biased) && (ds[ATTENTION_DRELATIVE] != NULL || !relative);
}


/* The gradient of input i, if it is wanted. */
static bool give_wanted (backward *b, int i, heed_tensor *d) {
  return !wants(b, i) || give(b, i, d);
}


/* The gradient of the weights needs all of them at once: then it is composed. */
bool grad_attention (backward *b) {
  attending o;
  heed_tensor *ds[ATTENTION_BACK_OUTS], *operands[OP_EDGES];
  if (!restore(b, &o, operands)) return false;
  bool empty = attention_is_empty(&o);
  bool composed = !is_fused(&o) || b->gs[OUT(attention, weights)] != NULL;
  if (!new_gradients(b, &o, empty || composed, ds)) return false;
  if (!empty && !(composed ? attention_composed_back(&o, b->gs, ds) : fused_back(b, &o, ds)))
    return false;
  return give(b, IN(attention, query), ds[ATTENTION_DQ]) &&
         give(b, IN(attention, key), ds[ATTENTION_DK]) &&
         give(b, IN(attention, value), ds[ATTENTION_DV]) &&
         give_wanted(b, IN(attention, bias), ds[ATTENTION_DBIAS]) &&
         give_wanted(b, IN(attention, relative), ds[ATTENTION_DRELATIVE]);
}

/* }================================================================== */
