/*
** attention.c - attention: its arguments, the fused work, the gradient.
**
** The mask reaches a device as a value: a tree of who may attend, which it asks tile by tile.
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
  int rank = o->in[QUERY]->at.rank;
  if (rank == 4) return *at;
  layout heads = layout_insert(at, rank - 2);
  return rank == 3 ? heads : layout_insert(&heads, 0);
}


layout attention_shape (const attending *o, int64_t last) {
  layout shape, at = o->in[QUERY]->at;
  at.size[at.rank - 1] = last;
  layout_dense(&shape, at.rank - (last < 0), at.size);
  return shape;
}


layout attention_operand (const attending *o, int i) {
  layout to, at;
  if (i == LENGTHS) layout_dense(&to, 1, &o->B);
  else to = attention_shape(o, o->S);
  layout_expand(&o->in[i]->at, &to, &at);
  return i == LENGTHS ? at : attention_layout(o, &at);
}

/* }================================================================== */


/*
** {==================================================================
** Arguments
** ===================================================================
*/

static double number_or (const heed_value *v, double otherwise) {
  if (v->kind == HEED_NONE) return otherwise;
  return v->kind == HEED_FLOAT ? v->number : (double)v->integer;
}


static int64_t within (int64_t x, int64_t least, int64_t most) {
  return x < least ? least : x > most ? most : x;
}


static void read_sizes (attending *o) {
  layout q = attention_layout(o, &o->in[QUERY]->at), k = attention_layout(o, &o->in[KEY]->at);
  o->B = q.size[0];
  o->H = q.size[1];
  o->T = q.size[2];
  o->D = q.size[3];
  o->Hk = k.size[1];
  o->S = k.size[2];
  o->Dv = attention_layout(o, &o->in[VALUE]->at).size[3];
}


/* What is no tensor; the sizes are known. Queries end where keys end, unless describe otherwise. */
static void read_numbers (attending *o, const heed_value *args) {
  bool moved = args[OFFSET].kind != HEED_NONE;
  o->causal = args[CAUSAL].integer != 0;
  o->fused = args[FUSED].integer != 0;
  o->offset = within(moved ? args[OFFSET].integer : o->S - o->T, -o->T, o->S);
  o->scale = number_or(&args[SCALE], o->D > 0 ? 1 / sqrt((double)o->D) : 1);
  o->softcap = number_or(&args[SOFTCAP], 0);
  o->dropout = number_or(&args[DROPOUT], 0);
}


static bool refuse_shapes (call *c, const char *why) {
  char q[LAYOUT_TEXT], k[LAYOUT_TEXT], v[LAYOUT_TEXT];
  return core_fail(c->cx, "attention: shapes %s of 'query', %s of 'key' and %s of 'value' do not "
                   "fit: %s", layout_text(&c->args[QUERY].tensor->at, q),
                   layout_text(&c->args[KEY].tensor->at, k),
                   layout_text(&c->args[VALUE].tensor->at, v), why) != NULL;
}


static bool check_sizes (call *c, const attending *o) {
  layout k = attention_layout(o, &o->in[KEY]->at), v = attention_layout(o, &o->in[VALUE]->at);
  if (k.size[0] != o->B || v.size[0] != o->B) return refuse_shapes(c, "batches differ");
  if (v.size[1] != o->Hk) return refuse_shapes(c, "keys and values have not as many heads");
  if (o->H != o->Hk && (o->Hk == 0 || o->H % o->Hk != 0))
    return refuse_shapes(c, "the heads of queries are no multiple of those of keys");
  if (v.size[2] != o->S) return refuse_shapes(c, "there are not as many keys as values");
  if (k.size[3] != o->D) return refuse_shapes(c, "queries and keys are not of one size");
  layout y = attention_shape(o, o->S), dense;
  return layout_dense(&dense, y.rank, y.size) || refuse_shapes(c, "too many weights");
}


static bool check_qkv (call *c, attending *o) {
  heed_type type = o->in[QUERY]->type;
  int rank = o->in[QUERY]->at.rank;
  if (!check_rank(c, QUERY, 2, 4) || !check_float(c, QUERY)) return false;
  for (int i = KEY; i <= VALUE; i++)
    if (!check_rank(c, i, rank, rank) || !check_types(c, i, type)) return false;
  read_sizes(o);
  return check_sizes(c, o);
}


/* Does operand i broadcast to that shape? */
static bool check_operand (call *c, const attending *o, int i, const layout *to) {
  layout at;
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  return layout_expand(&o->in[i]->at, to, &at) ||
         check_refuse(c, i, "a shape that broadcasts to %s expected, got %s",
                      layout_text(to, want), layout_text(&o->in[i]->at, have));
}


/* Beyond S a length means all keys. On a card, which nobody reads back, one below 0 means none. */
static bool check_lengths (call *c, const heed_tensor *lengths) {
  if (tensor_device(lengths) != c->cx->cpu) return true;
  const int64_t *n = view_of(lengths).data;
  int64_t step = lengths->at.rank > 0 ? lengths->at.stride[0] : 0;
  for (int64_t i = 0; i < layout_numel(&lengths->at); i++)
    if (n[i * step] < 0)
      return check_refuse(c, LENGTHS, "numbers of keys expected, got %" PRId64, n[i * step]);
  return true;
}


static bool check_mask (call *c, attending *o) {
  layout weights = attention_shape(o, o->S), batch;
  heed_tensor *allowed = o->in[MASK], *bias = o->in[BIAS], *lengths = o->in[LENGTHS];
  if (allowed != NULL && scalar_is_float(allowed->type))
    return check_refuse(c, MASK, "a bool tensor expected, true where one may attend, got %s; what "
                        "is added to the scores is called 'bias'", scalar_names[allowed->type]);
  if (allowed != NULL && (!check_types(c, MASK, HEED_BOOL) || !check_operand(c, o, MASK, &weights)))
    return false;
  if (bias != NULL && (!check_float(c, BIAS) || !check_operand(c, o, BIAS, &weights))) return false;
  layout_dense(&batch, 1, &o->B);
  return lengths == NULL ||
         (check_types(c, LENGTHS, HEED_INT64) && check_operand(c, o, LENGTHS, &batch) &&
          check_lengths(c, lengths));
}


static bool check_numbers (call *c) {
  if (arg_given(c, OFFSET) && !arg_flag(c, CAUSAL))
    return check_refuse(c, OFFSET, "it goes with causal = true");
  if (arg_given(c, SOFTCAP) && !(arg_number(c, SOFTCAP) >= 0 && isfinite(arg_number(c, SOFTCAP))))
    return check_refuse(c, SOFTCAP, "a number from 0 on expected, got %g", arg_number(c, SOFTCAP));
  return check_probability(c, DROPOUT);
}


static bool read_call (call *c, attending *o) {
  *o = (attending){.cx = c->cx, .op = c->op};
  for (int i = QUERY; i <= LENGTHS; i++) {
    o->in[i] = op_materialized(arg_tensor(c, i));
    if (arg_given(c, i) && o->in[i] == NULL) return false;
  }
  if (!check_qkv(c, o) || !check_mask(c, o) || !check_numbers(c)) return false;
  read_numbers(o, c->args);
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Work for a device
** ===================================================================
*/

/* One more condition; all must hold. */
static void add_mask (work *w, mask_kind kind, int operand, int64_t offset) {
  mask *m = &w->mask;
  bool first = m->n == 0;
  m->node[m->n].kind = kind;
  m->node[m->n].operand = operand;
  m->node[m->n++].offset = offset;
  if (!first) m->node[m->n++].kind = MASK_AND;
}


static void set_mask (work *w, const attending *o) {
  int operand = ATTENTION_MASK;
  w->mask.n = 0;
  for (int i = 0; i < 3; i++) w->in[operand + i] = view_none();
  if (o->causal) add_mask(w, MASK_CAUSAL, 0, o->offset);
  for (int i = MASK; i <= LENGTHS; i += LENGTHS - MASK) {
    if (o->in[i] == NULL) continue;
    layout at = attention_operand(o, i);
    w->in[operand] = view_with(o->in[i], &at);
    add_mask(w, i == MASK ? MASK_DENSE : MASK_LENGTHS, operand++, 0);
  }
}


static view seen (const attending *o, const heed_tensor *t) {
  if (t == NULL) return view_none();
  layout at = attention_layout(o, &t->at);
  return view_with(t, &at);
}


static void set_work (work *w, const attending *o, work_kind kind) {
  w->kind = kind;
  w->op = o->op;
  w->number[0] = o->scale;
  w->number[1] = o->softcap;
  w->number[2] = o->dropout;
  set_mask(w, o);
  for (int i = QUERY; i <= VALUE; i++) w->in[ATTENTION_Q + i] = seen(o, o->in[i]);
  w->in[ATTENTION_BIAS] = view_none();
  if (o->in[BIAS] != NULL) {
    layout at = attention_operand(o, BIAS);
    w->in[ATTENTION_BIAS] = view_with(o->in[BIAS], &at);
  }
  w->in[ATTENTION_KEY] = o->key != NULL ? view_of(o->key) : view_none();
}


/*
** What the gradient needs beside arguments and result, in one int64 tensor: the rows'
** normalisers, of the computing type, unless all is composed, and last the key of dropout.
*/
static heed_tensor *state_new (const attending *o, bool has_lse) {
  layout lse = attention_shape(o, -1);
  int64_t bytes = has_lse ? layout_numel(&lse) * scalar_sizes[op_computing(o->in[QUERY]->type)] : 0;
  return op_new_sized(o->cx, HEED_INT64, 1, (int64_t[]){(bytes + 7) / 8 + 1});
}


static heed_tensor *state_lse (const attending *o, heed_tensor *state) {
  layout lse = attention_shape(o, -1);
  heed_type type = op_computing(o->in[QUERY]->type);
  return state != NULL ? op_hold(o->cx, tensor_on(o->cx, state->store, type, &lse)) : NULL;
}


static heed_tensor *state_key (heed_tensor *state) {
  if (state == NULL) return NULL;
  layout last = layout_narrow(&state->at, 0, state->at.size[0] - 1, 1, 1);
  return op_view(state, &last);
}

/* }================================================================== */


static bool fused (const attending *o, heed_tensor *y, heed_tensor *lse, heed_tensor *weights) {
  work w;
  set_work(&w, o, WORK_ATTENTION);
  w.nin = ATTENTION_GRADIENT;
  w.nout = 3;
  w.out[0] = seen(o, y);
  w.out[1] = seen(o, lse);
  w.out[2] = seen(o, weights);
  return op_run_for(o->cx, o->op, &w);
}


static bool run_fused (const attending *o, heed_tensor *state, heed_tensor *ys[3], bool weights) {
  layout result = attention_shape(o, o->Dv), square = attention_shape(o, o->S);
  heed_type type = o->in[QUERY]->type;
  ys[RESULT] = op_new(o->cx, type, &result);
  ys[RESULT_WEIGHTS] = weights ? op_new(o->cx, type, &square) : NULL;
  ys[RESULT_LSE] = state_lse(o, state);
  if (ys[RESULT] == NULL || ys[RESULT_LSE] == NULL) return false;
  return !(weights && ys[RESULT_WEIGHTS] == NULL) &&
         fused(o, ys[RESULT], ys[RESULT_LSE], ys[RESULT_WEIGHTS]);
}


static bool by_device (const attending *o) {
  return o->fused && op_can(o->cx, WORK_ATTENTION) && op_can(o->cx, WORK_ATTENTION_BACK);
}


static bool attention (call *c, attending *o) {
  heed_tensor *ys[4] = {NULL};
  heed_tensor *state = ys[RESULT_STATE] = state_new(o, by_device(o));
  if (state == NULL) return false;
  if (o->dropout > 0 && !op_draw_key(o->key = state_key(state))) return false;
  bool weights = arg_flag(c, WEIGHTS);
  if (!(by_device(o) ? run_fused(o, state, ys, weights) : attention_composed(o, ys, weights)))
    return false;
  if (!arg_flag(c, LSE)) ys[RESULT_LSE] = NULL;
  return give_outs(c, 4, ys);
}


bool do_attention (call *c) {
  attending o;
  if (!read_call(c, &o)) return false;
  bool recording = heed_set_recording(c->cx, false);
  bool good = attention(c, &o);
  heed_set_recording(c->cx, recording);
  return good;
}


/*
** {==================================================================
** Gradient
** ===================================================================
*/

static bool recall (backward *b, attending *o) {
  *o = (attending){.cx = b->cx, .op = b->op};
  for (int i = QUERY; i <= LENGTHS; i++) {
    o->in[i] = op_materialized(input(b, i));
    if (has_input(b, i) && o->in[i] == NULL) return false;
  }
  read_sizes(o);
  read_numbers(o, b->args);
  heed_tensor *state = output(b, RESULT_STATE);
  if (o->dropout > 0) o->key = state_key(state);
  return state != NULL && (o->dropout == 0 || o->key != NULL);
}


static bool fused_back (backward *b, const attending *o, heed_tensor *ds[4]) {
  work w;
  heed_tensor *y = output(b, RESULT), *lse = state_lse(o, output(b, RESULT_STATE));
  heed_tensor *g = b->gs[RESULT];
  if (y == NULL || lse == NULL) return false;
  if (g == NULL && (g = op_zeros(b->cx, y->type, &y->at)) == NULL) return false;
  set_work(&w, o, WORK_ATTENTION_BACK);
  w.nin = WORK_INS;
  w.nout = 4;
  w.in[ATTENTION_GRADIENT] = seen(o, g);
  w.in[ATTENTION_OUTPUT] = seen(o, y);
  w.in[ATTENTION_LSE] = seen(o, lse);
  w.in[ATTENTION_GRADIENT_LSE] = seen(o, b->gs[RESULT_LSE]);
  for (int i = 0; i < 4; i++) w.out[i] = seen(o, ds[i]);
  return op_run_for(b->cx, b->op, &w);
}


/* ds of query, key and value, and of the bias if it is wanted, with all its axes. */
static bool new_gradients (backward *b, const attending *o, bool filled, heed_tensor *ds[4]) {
  heed_tensor *(*new) (heed_context *, heed_type, const layout *) = filled ? op_zeros : op_new;
  layout weights = attention_shape(o, o->S);
  for (int i = 0; i < 3; i++) {
    ds[i] = new(b->cx, o->in[i]->type, &o->in[i]->at);
    if (ds[i] == NULL) return false;
  }
  ds[3] = wants(b, BIAS) ? new(b->cx, o->in[QUERY]->type, &weights) : NULL;
  return ds[3] != NULL || !wants(b, BIAS);
}


/* The weights' gradient asks for all of them at once: then the slopes are composed. */
bool grad_attention (backward *b) {
  attending o;
  heed_tensor *ds[4];
  if (!recall(b, &o)) return false;
  bool empty = o.B == 0 || o.H == 0 || o.T == 0 || o.S == 0;
  bool whole = !by_device(&o) || b->gs[RESULT_WEIGHTS] != NULL;
  if (!new_gradients(b, &o, empty || whole, ds)) return false;
  if (!empty && !(whole ? attention_composed_back(&o, b->gs, ds) : fused_back(b, &o, ds)))
    return false;
  for (int i = QUERY; i <= VALUE; i++)
    if (!give(b, i, ds[i])) return false;
  return !wants(b, BIAS) || give(b, BIAS, ds[3]);
}

/* }================================================================== */
