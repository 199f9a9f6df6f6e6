/*
** op.c - how an operation is called: its row, its arguments, its temporaries.
*/

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph/op.h"


/*
** {==================================================================
** Temporaries
** ===================================================================
*/

heed_tensor *op_hold (heed_context *cx, heed_tensor *owned) {
  if (owned == NULL) return NULL;
  if (cx->ntemporaries == cx->temporaries_capacity &&
      !core_grow(cx, (void **)&cx->temporaries, cx->ntemporaries, &cx->temporaries_capacity,
                 sizeof *cx->temporaries)) {
    heed_drop(owned);
    return NULL;
  }
  return cx->temporaries[cx->ntemporaries++] = owned;
}

void op_drop_temporaries (heed_context *cx, int64_t mark) {
  while (cx->ntemporaries > mark) heed_drop(cx->temporaries[--cx->ntemporaries]);
}

heed_tensor *op_new (heed_context *cx, heed_type type, const layout *shape) {
  return op_hold(cx, tensor_new(cx, type, shape));
}

heed_tensor *op_new_sized (heed_context *cx, heed_type type, int rank, const int64_t *size) {
  return op_hold(cx, heed_empty(cx, type, rank, size));
}

heed_tensor *op_view (heed_tensor *t, const layout *at) {
  if (t == NULL || !tensor_materialize(t)) return NULL;
  return op_hold(t->cx, tensor_view(t, at));
}

heed_tensor *op_float (heed_context *cx, double value) {
  return op_hold(cx, tensor_number(cx, (scalar){.type = HEED_FLOAT64, .f = value}));
}

heed_tensor *op_integer (heed_context *cx, int64_t value) {
  return op_hold(cx, tensor_number(cx, (scalar){.type = HEED_INT64, .i = value}));
}

/* }================================================================== */


/*
** {==================================================================
** Calls
** ===================================================================
*/

static const char *kind_name (const heed_value *v) {
  static const char *const names[] = {"nothing", "a tensor", "a whole number", "a number",
                                      "a bool", "a list", "a list of tensors", "a text"};
  return names[v->kind];
}

static void *wrong_kind (heed_context *cx, const op_row *row, const heed_parameter *p,
                         const heed_value *v, const char *wanted) {
  return core_fail_at(cx, row->signature.name, p->name, "%s expected, got %s", wanted,
                      kind_name(v));
}

static bool accept_tensor (heed_context *cx, const op_row *row, const heed_parameter *p,
                           heed_value *v) {
  heed_tensor *t = NULL;
  switch (v->kind) {
    case HEED_TENSOR: t = v->tensor; break;
    case HEED_FLAG: t = op_hold(cx, heed_bool(cx, v->integer != 0)); break;
    case HEED_INTEGER: t = op_integer(cx, v->integer); break;
    case HEED_FLOAT: t = op_float(cx, v->number); break;
    default: return wrong_kind(cx, row, p, v, "a tensor") != NULL;
  }
  if (t == NULL) return false;     /* a NULL that was passed on: its message stands */
  if (t->cx != cx)
    return core_fail(cx, row->signature.name, "argument '%s' belongs to another context", p->name);
  capture_input(cx, t);
  *v = heed_t(t);
  return true;
}

static bool accept_tensors (heed_context *cx, const op_row *row, const heed_parameter *p,
                            const heed_value *v) {
  if (v->kind != HEED_TENSORS) return wrong_kind(cx, row, p, v, "a list of tensors") != NULL;
  for (int i = 0; i < v->n; i++) {
    if (v->tensors[i] != NULL && v->tensors[i]->cx != cx)
      return core_fail(cx, row->signature.name, "entry %d of '%s' belongs to another context",
                       i + 1, p->name);
    capture_input(cx, v->tensors[i]);
  }
  return true;
}

static bool accept_integer (heed_context *cx, const op_row *row, const heed_parameter *p,
                          heed_value *v) {
  if (v->kind == HEED_INTEGER || v->kind == HEED_FLAG) return true;
  if (v->kind == HEED_FLOAT && v->number == floor(v->number) && fabs(v->number) < 0x1p62) {
    *v = heed_i((int64_t)v->number);
    return true;
  }
  if (v->kind == HEED_FLOAT)
    return core_fail_at(cx, row->signature.name, p->name, "a whole number expected, got %g",
                        v->number);
  return wrong_kind(cx, row, p, v, "a whole number") != NULL;
}

static bool accept_list (heed_context *cx, const op_row *row, const heed_parameter *p,
                         heed_value *v) {
  if (v->kind == HEED_LIST) return true;
  if (v->kind == HEED_INTEGER && p->want == HEED_WANT_AXES) {
    int64_t axis = v->integer;     /* one axis may stand for a list of one: kept as an integer */
    *v = heed_i(axis);
    return true;
  }
  return wrong_kind(cx, row, p, v, "a list") != NULL;
}

/* The number of 'word' among "mean|sum|none", or -1. */
static int choice_number (const char *words, const char *word) {
  size_t length = strlen(word);
  for (int i = 0; ; i++) {
    size_t n = strcspn(words, "|");
    if (n == length && memcmp(words, word, n) == 0) return i;
    if (words[n] == '\0') return -1;
    words += n + 1;
  }
}

static bool accept_choice (heed_context *cx, const op_row *row, const heed_parameter *p,
                           heed_value *v) {
  if (v->kind == HEED_INTEGER) return true;
  if (v->kind != HEED_TEXT) return wrong_kind(cx, row, p, v, "a word") != NULL;
  int number = choice_number(p->words, v->text);
  if (number < 0)
    return core_fail_at(cx, row->signature.name, p->name, "one of %s expected, got '%.40s'",
                        p->words, v->text);
  *v = heed_i(number);
  return true;
}

static bool accept_type (heed_context *cx, const op_row *row, const heed_parameter *p,
                         heed_value *v) {
  heed_type type;
  if (v->kind == HEED_INTEGER && v->integer >= 0 && v->integer < HEED_NTYPES) return true;
  if (v->kind != HEED_TEXT) return wrong_kind(cx, row, p, v, "a type") != NULL;
  if (!heed_type_find(v->text, &type))
    return core_fail_at(cx, row->signature.name, p->name, "no type is called '%.40s'", v->text);
  *v = heed_i(type);
  return true;
}

static bool accept_number (heed_context *cx, const op_row *row, const heed_parameter *p,
                           const heed_value *v) {
  if (v->kind == HEED_FLOAT || v->kind == HEED_INTEGER) return true;
  return wrong_kind(cx, row, p, v, "a number") != NULL;
}

/* Makes v what the parameter wants, or fails. */
static bool accept (heed_context *cx, const op_row *row, const heed_parameter *p, heed_value *v) {
  if (v->kind == HEED_NONE) {
    *v = p->value;
    if (v->kind != HEED_NONE || p->optional) return true;
    return core_fail(cx, row->signature.name, "argument '%s' is missing", p->name);
  }
  switch (p->want) {
    case HEED_WANT_TENSOR: return accept_tensor(cx, row, p, v);
    case HEED_WANT_TENSORS: return accept_tensors(cx, row, p, v);
    case HEED_WANT_NUMBER: return accept_number(cx, row, p, v);
    case HEED_WANT_AXES: case HEED_WANT_SHAPE: return accept_list(cx, row, p, v);
    case HEED_WANT_CHOICE: return accept_choice(cx, row, p, v);
    case HEED_WANT_DTYPE: return accept_type(cx, row, p, v);
    case HEED_WANT_TEXT:
      return v->kind == HEED_TEXT || wrong_kind(cx, row, p, v, "a text") != NULL;
    default: return accept_integer(cx, row, p, v);   /* counts, positions, axes, flags */
  }
}

/* A tensor of this context, which 'accept' leaves as it is: most arguments. */
static bool is_plain (const heed_context *cx, const heed_parameter *p, const heed_value *v) {
  return v->kind == HEED_TENSOR && p->want == HEED_WANT_TENSOR && v->tensor != NULL &&
         v->tensor->cx == cx && cx->capture == NULL;
}

/* The arguments as do_ functions see them; args holds all parameters. */
static bool accept_all (heed_context *cx, heed_op op, const heed_value *given, int n,
                        heed_value *args) {
  const op_row *row = &op_rows[op];
  const heed_signature *signature = op_signature(op);
  if (n > signature->parameters)
    return core_fail(cx, signature->name, "at most %d arguments expected, got %d",
                     signature->parameters, n);
  for (int i = 0; i < signature->parameters; i++) {
    const heed_parameter *p = &signature->parameter[i];
    args[i] = i < n ? given[i] : heed_none();
    if (!is_plain(cx, p, &args[i]) && !accept(cx, row, p, &args[i])) return false;
  }
  return true;
}

/* A call works where its tensors are; its results in c->out are temporaries or arguments. */
static bool run_on_device (call *c, const op_row *row, heed_value *args) {
  if (c->cx->ndevices > 1 && !op_set_device(c, args)) return false;
  c->args = args;
  for (int i = 0; i < OP_OUTS; i++) c->out[i] = NULL;
  if (!row->work(c) || first_result(c) == NULL) return false;
  return !c->cx->recording || !row->recorded || graph_record(c, row);
}

/* What it calls itself is not converted again. */
static bool run_autocast (call *c, const op_row *row, heed_value *args) {
  heed_tensor *list[OP_EDGES];
  const heed_type type = c->cx->autocast.type;
  bool good = op_autocast(c, args, list) && run_on_device(c, row, args);
  c->cx->autocast.type = type;
  return good;
}

static bool run (call *c, const heed_value *given, int n, heed_value *args) {
  heed_context *cx = c->cx;
  device *before = cx->current;
  const float_mode mode = float_mode_begin();
  const op_row *row = &op_rows[c->op];
  bool mixed = cx->autocast.type != HEED_FLOAT32;
  bool good = accept_all(cx, c->op, given, n, args) &&
              (mixed ? run_autocast : run_on_device)(c, row, args);
  float_mode_end(mode);
  cx->current = before;
  return good;
}

int heed_apply (heed_context *cx, heed_op op, const heed_value *given, int n,
                heed_tensor *out[HEED_RESULTS]) {
  heed_value args[HEED_ARGUMENTS];
  call c = {.cx = cx, .op = op};
  if (out == NULL) return 0;
  for (int i = 0; i < HEED_RESULTS; i++) out[i] = NULL;
  if (!check_given(cx, op, given, n) || core_interrupted(cx, op_name(op))) return 0;
  int64_t mark = cx->ntemporaries;
  int results = op_signature(op)->results;
  const char *caller = cx->caller;
  if (caller == NULL) cx->caller = op_name(op);
  bool good = run(&c, given, n, args);
  cx->caller = caller;
  for (int i = 0; good && i < results; i++) out[i] = heed_keep(c.out[i]);
  op_drop_temporaries(cx, mark);
  return good ? results : 0;
}

int heed_apply_on (heed_context *cx, const char *name, heed_op op, const heed_value *given, int n,
                   heed_tensor *out[HEED_RESULTS]) {
  if (out == NULL) return 0;
  for (int i = 0; i < HEED_RESULTS; i++) out[i] = NULL;
  if (name == NULL || heed_describe(cx, op) == NULL) return 0;
  device *before = cx->current, *where = core_device(cx, op_name(op), name);
  if (where == NULL) return 0;
  cx->current = where;
  int results = heed_apply(cx, op, given, n, out);
  cx->current = before;
  return results;
}

heed_tensor *heed_call (heed_context *cx, heed_op op, const heed_value *args, int n) {
  heed_tensor *out[HEED_RESULTS];
  heed_apply(cx, op, args, n, out);
  for (int i = 1; i < HEED_RESULTS; i++) heed_drop(out[i]);
  return *out;
}

bool op_calls (heed_context *cx, heed_op op, int n, const heed_value *args,
               heed_tensor *out[HEED_RESULTS]) {
  bool good = heed_apply(cx, op, args, n, out) != 0;
  for (int i = 0; i < HEED_RESULTS; i++) {
    bool was = out[i] != NULL;
    out[i] = op_hold(cx, out[i]);
    if (was && out[i] == NULL) good = false;
  }
  return good;
}

heed_tensor *op_call (heed_context *cx, heed_op op, int n, const heed_value *args) {
  return op_hold(cx, heed_call(cx, op, args, n));
}

heed_tensor *op1 (heed_op op, heed_tensor *a) {
  if (a == NULL) return NULL;
  return op_call(a->cx, op, 1, (heed_value[]){heed_t(a)});
}

heed_tensor *op2 (heed_op op, heed_tensor *a, heed_tensor *b) {
  if (a == NULL || b == NULL) return NULL;
  return op_call(a->cx, op, 2, (heed_value[]){heed_t(a), heed_t(b)});
}

heed_tensor *op3 (heed_op op, heed_tensor *a, heed_tensor *b, heed_tensor *c) {
  if (a == NULL || b == NULL || c == NULL) return NULL;
  return op_call(a->cx, op, 3, (heed_value[]){heed_t(a), heed_t(b), heed_t(c)});
}

heed_tensor *op_dense (heed_tensor *t) {
  if (t == NULL || (!t->number && layout_is_dense(&t->at))) return t;
  return op1(HEED_clone, t);
}

heed_tensor *op_cast (heed_tensor *t, heed_type type) {
  if (t == NULL || (t->type == type && !t->number)) return t;
  return op_call(t->cx, HEED_to, 2, (heed_value[]){heed_t(t), heed_i(type)});
}

bool give_out (call *c, heed_tensor *a) {
  *c->out = a;
  return a != NULL;
}

bool give_outs (call *c, int n, heed_tensor *const *ys) {
  for (int i = 0; i < n; i++) c->out[i] = ys[i];
  return ys[0] != NULL;
}

bool op_run_for (heed_context *cx, heed_op op, const work *w) {
  return core_run(cx, op, cx->current, w);
}

bool op_run (call *c, const work *w) { return op_run_for(c->cx, c->op, w); }

bool op_supports (heed_context *cx, work_kind kind, int op) {
  return cx->current->supports(cx->current, kind, op);
}

#define LONG_ROW ((int64_t)1 << 23)

bool op_fuses (heed_context *cx, work_kind kind, int op, int64_t row) {
  return op_supports(cx, kind, op) && (row <= LONG_ROW || !cx->current->host);
}

/* }================================================================== */


/*
** {==================================================================
** In place
** ===================================================================
*/

static bool all_recorded (call *c, const heed_value *args) {
  heed_tensor *ts[OP_EDGES];
  int n = op_edges(c->cx, c->op, args, ts), output;
  for (int i = 0; i < n; i++) {
    if (ts[i] != NULL && graph_node_of(ts[i], &output) != NULL) return true;
  }
  return false;
}

/* May 't' be written into? */
static bool check_target (heed_context *cx, const char *name, heed_tensor *t, bool recording) {
  int output;
  if (t->number)
    return core_fail(cx, name, "a number cannot be changed in place");
  if (layout_overlaps_itself(&t->at))
    return core_fail(cx, name, "the tensor is expanded: several positions share one element; "
                     "clone() it first");
  node *n = recording ? graph_node_of(t, &output) : NULL;
  if (n != NULL && n->kind == NODE_LEAF)
    return core_fail(cx, name, "a leaf that requires grad is changed in place; use heed.no_grad");
  const heed_tensor *base = tensor_base(t);
  if (n != NULL && base != NULL && base->node != NULL && base->node->kind == NODE_LEAF)
    return core_fail(cx, name, "a view of a leaf that requires grad is changed in place; use "
                     "heed.no_grad");
  return true;
}

static bool check_fits (heed_context *cx, const char *name, const heed_tensor *t,
                        const heed_tensor *y) {
  char have[LAYOUT_TEXT], got[LAYOUT_TEXT];
  if (!layout_same_shape(&t->at, &y->at))
    return core_fail(cx, name, "a result of shape %s does not fit into a tensor of shape %s",
                     layout_text(&y->at, got), layout_text(&t->at, have));
  if (scalar_category(y->type) > scalar_category(t->type))
    return core_fail(cx, name, "a result of type %s cannot be kept in a tensor of type %s",
                     scalar_names[y->type], scalar_names[t->type]);
  return true;
}

static bool copy_into (heed_context *cx, heed_op op, heed_tensor *t, const heed_tensor *y) {
  work w;
  work_copy(&w, COPY_APART, view_of(t), view_of(y));
  return op_run_for(cx, op, &w);
}

/* A handle on a copy of t's values, with t's node: what a node may save. */
static heed_tensor *old_values (heed_tensor *t, node *own, int output) {
  heed_context *cx = t->cx;
  heed_tensor *old = op_new(cx, t->type, &t->at);
  if (old == NULL || !copy_into(cx, HEED_clone, old, t)) return NULL;
  if (own != NULL) {
    node_keep(own);
    old->node = own;
    old->output = output;
  }
  return old;
}

static void mark_changed (heed_tensor *t, heed_op op) {
  t->store->version++;
  t->store->changer = op;
}

/*
** With a graph: computed apart, then copied in; the handle takes the result's node. Random numbers
** (PLAIN rows) have no node, and are written over the copy.
*/
static bool in_place_recorded (call *c, heed_value *given, int n, heed_value *args) {
  heed_tensor *t = given->tensor;
  int output;
  node *own = graph_node_of(t, &output);
  bool plain = op_rows[c->op].plain;
  *given = heed_t(old_values(t, plain ? NULL : own, output));
  if (plain) c->into = given->tensor;
  if (given->tensor == NULL || !run(c, given, n, args)) return false;
  heed_tensor *y = first_result(c);
  if (!check_fits(c->cx, op_signature(c->op)->in_place_name, t, y)) return false;
  if (!copy_into(c->cx, c->op, t, y)) return false;
  mark_changed(t, c->op);
  return graph_overlay(t, y, c->op);
}

static bool in_place_plain (call *c, const heed_value *given, int n, heed_value *args) {
  heed_tensor *t = given->tensor;
  c->into = t;
  bool recording = c->cx->recording;
  c->cx->recording = false;        /* nothing here has a graph */
  bool good = run(c, given, n, args);
  c->cx->recording = recording;
  heed_tensor *y = first_result(c);
  if (!good || !check_fits(c->cx, op_signature(c->op)->in_place_name, t, y)) return false;
  if (y != t && !copy_into(c->cx, c->op, t, y)) return false;
  mark_changed(t, c->op);
  return true;
}

static bool apply_to (call *c, heed_tensor *t, const heed_value *given, int n) {
  heed_value args[HEED_ARGUMENTS], first[HEED_ARGUMENTS];
  heed_context *cx = c->cx;
  memcpy(first, given, (size_t)n * sizeof *first);
  memcpy(args, given, (size_t)n * sizeof *args);
  for (int i = n; i < HEED_ARGUMENTS; i++) args[i] = heed_none();
  bool recorded = cx->recording && all_recorded(c, args);
  if (!graph_check_view(t, recorded, c->op)) return false;
  return recorded ? in_place_recorded(c, first, n, args) : in_place_plain(c, given, n, args);
}

bool heed_apply_in_place (heed_context *cx, heed_op op, const heed_value *given, int n) {
  call c = {.cx = cx, .op = op, .in_place = true};
  if (!check_given(cx, op, given, n)) return false;
  const char *name = op_signature(op)->in_place_name, *caller = cx->caller;
  if (n < 1 || n > HEED_ARGUMENTS || given->kind != HEED_TENSOR || given->tensor == NULL) {
    core_fail(cx, name, "a tensor expected as the first argument");
    return false;
  }
  heed_tensor *t = given->tensor;
  if (!check_target(cx, name, t, cx->recording) || core_interrupted(cx, name)) return false;
  capture_input(cx, t);
  int64_t mark = cx->ntemporaries;
  device *before = cx->current;
  const storage *target = cx->target;
  int held = cx->stop.held;
  if (caller == NULL) cx->caller = name;
  cx->current = tensor_device(t);
  cx->target = t->store;
  heed_keep(t);                    /* arguments may be dropped while memory is made */
  bool good = apply_to(&c, t, given, n);
  cx->current = before;
  cx->caller = caller;
  cx->target = target;
  cx->stop.held = held;
  op_drop_temporaries(cx, mark);
  heed_drop(t);
  return good;
}

/* }================================================================== */
