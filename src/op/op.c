/*
** op.c - how an operation is called: its row, its arguments, its temporaries.
*/

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "op/op.h"


/*
** {==================================================================
** The rows
** ===================================================================
*/

/* Is this slope just "g", or SCALED(g)? Then the gradient passes through as it is. */
#define PASSES_THROUGH(text, i) \
  (((text)[0] == 'g' && (text)[1] == '\0') || ((text)[0] == 'S' && (text)[1] == 'C') ? 1 << (i) : 0)

const op_row op_rows[HEED_NOPS] = {
#define UNARY(name, extra, domain, saves, y, da) \
  {#name, "input!:tensor " extra, saves, 1, 1, domain, domain != TEST, false, \
   PASSES_THROUGH(#da, 0), do_map, grad_map},
#define BINARY(name, extra, domain, saves, y, da, db) \
  {#name, "input!:tensor other:tensor " extra, saves, 1, 1, domain, domain != TEST, false, \
   PASSES_THROUGH(#da, 0) | PASSES_THROUGH(#db, 1), do_map, grad_map},
#define TERNARY(name, signature, domain, saves, y, da, db, dc) \
  {#name, signature, saves, 1, 1, domain, domain != TEST, false, 0, do_map, grad_map},
#define OP(name, seen, results, signature, saves) \
  {#name, signature, saves, seen, results, STRUCTURED, true, false, 0, do_##name, grad_##name},
#define COMPOSED(name, seen, signature) \
  {#name, signature, "", seen, seen, STRUCTURED, false, false, 0, do_##name, NULL},
#define PLAIN(name, seen, signature) \
  {#name, signature, "", seen, seen, STRUCTURED, false, true, 0, do_##name, NULL},
#include "op/ops.def"
#undef UNARY
#undef BINARY
#undef TERNARY
#undef OP
#undef COMPOSED
#undef PLAIN
};

/* }================================================================== */


/*
** {==================================================================
** Signatures: the text of a row, read once for each context
** ===================================================================
*/

static const struct { const char *word; heed_want want; } wants_by_word[] = {
  {"tensor", HEED_WANT_TENSOR}, {"tensors", HEED_WANT_TENSORS}, {"number", HEED_WANT_NUMBER},
  {"count", HEED_WANT_COUNT}, {"position", HEED_WANT_POSITION}, {"axis", HEED_WANT_AXIS},
  {"axes", HEED_WANT_AXES}, {"shape", HEED_WANT_SHAPE}, {"flag", HEED_WANT_FLAG},
  {"type", HEED_WANT_TYPE}, {"text", HEED_WANT_TEXT}
};

static heed_want want_of (const char *word, size_t length) {
  for (size_t i = 0; i < sizeof wants_by_word / sizeof *wants_by_word; i++) {
    if (strlen(wants_by_word[i].word) == length &&
        memcmp(wants_by_word[i].word, word, length) == 0)
      return wants_by_word[i].want;
  }
  return HEED_WANT_OPTION;         /* anything else lists its words */
}

static bool ends_word (char c) { return c == '\0' || c == ' ' || c == '=' || c == '|'; }

/* The number of 'text' among "mean|sum|none", or -1. */
static int option_number (const char *words, const char *text) {
  size_t length = 0;
  while (!ends_word(text[length])) length++;
  for (int i = 0; ; i++) {
    size_t n = 0;
    while (!ends_word(words[n])) n++;
    if (n == length && memcmp(words, text, n) == 0) return i;
    if (words[n] != '|') return -1;
    words += n + 1;
  }
}

/* "0.01", "1e-5", "-1": strtod would read as the host's locale says. */
static double read_number (const char *s) {
  double digits = 0;
  int power = 0;
  bool negative = *s == '-';
  for (s += negative; *s >= '0' && *s <= '9'; s++) digits = 10 * digits + (*s - '0');
  if (*s == '.')
    for (s++; *s >= '0' && *s <= '9'; s++, power--) digits = 10 * digits + (*s - '0');
  if (*s == 'e') power += (int)strtol(s + 1, NULL, 10);
  double value = power < 0 ? digits / pow(10, -power) : digits * pow(10, power);
  return negative ? -value : value;
}

static heed_value default_value (const heed_parameter *p, const char *text) {
  switch (p->want) {
    case HEED_WANT_FLAG: return heed_b(*text == 't');
    case HEED_WANT_OPTION: return heed_i(option_number(p->words, text));
    case HEED_WANT_NUMBER: return heed_f(read_number(text));
    default: return heed_i(strtoll(text, NULL, 10));
  }
}

/* Reads one "name!:kind?" or "name:kind=default"; returns what follows it. */
static const char *read_parameter (const char *s, heed_parameter *p) {
  size_t n = strcspn(s, ":!");
  memcpy(p->name, s, n);
  p->name[n] = '\0';
  p->target = (s[n] == '!');
  p->words = s += n + 1 + p->target;
  n = strcspn(s, " ?=");
  p->want = want_of(s, n);
  p->optional = (s[n] == '?');
  if (s[n] == '=') p->value = default_value(p, s + n + 1);
  s += strcspn(s, " ");
  return s + strspn(s, " ");
}

static void read_signature (const op_row *row, heed_signature *signature) {
  signature->name = row->name;
  signature->results = row->seen;
  for (const char *s = row->signature; *s != '\0'; )
    s = read_parameter(s, &signature->parameter[signature->parameters++]);
  if (signature->parameters == 0) return;
  signature->method = signature->parameter[0].want == HEED_WANT_TENSOR;
  signature->in_place = signature->parameter[0].target;
}

const heed_signature *heed_describe (heed_context *cx, heed_op op) {
  if (cx == NULL) return NULL;
  if ((unsigned)op >= HEED_NOPS)
    return core_fail(cx, "heed: there is no operation %d; they end at %d", (int)op, HEED_NOPS - 1);
  if (cx->signatures == NULL) {
    cx->signatures = core_alloc(cx, HEED_NOPS * sizeof(heed_signature));
    if (cx->signatures == NULL) return NULL;
    memset(cx->signatures, 0, HEED_NOPS * sizeof(heed_signature));
    for (int i = 0; i < HEED_NOPS; i++) read_signature(&op_rows[i], &cx->signatures[i]);
  }
  return &cx->signatures[op];
}

/* }================================================================== */


/*
** {==================================================================
** Temporaries
** ===================================================================
*/

heed_tensor *op_hold (heed_context *cx, heed_tensor *owned) {
  if (owned == NULL) return NULL;
  if (cx->ntemporaries == cx->temporaries_capacity) {
    int room = cx->temporaries_capacity == 0 ? 64 : 2 * cx->temporaries_capacity;
    heed_tensor **more = core_alloc(cx, (size_t)room * sizeof *more);
    if (more == NULL) { heed_drop(owned); return NULL; }
    if (cx->ntemporaries > 0)
      memcpy(more, cx->temporaries, (size_t)cx->ntemporaries * sizeof *more);
    core_free(cx, cx->temporaries, (size_t)cx->temporaries_capacity * sizeof *more);
    cx->temporaries = more;
    cx->temporaries_capacity = room;
  }
  return cx->temporaries[cx->ntemporaries++] = owned;
}

static void drop_temporaries (heed_context *cx, int mark) {
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
                                      "a truth", "a list", "a list of tensors", "a text"};
  return names[v->kind];
}

static void *wrong_kind (heed_context *cx, const op_row *row, const heed_parameter *p,
                         const heed_value *v, const char *wanted) {
  return core_fail(cx, "%s: argument '%s': %s expected, got %s", row->name, p->name, wanted,
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
    return core_fail(cx, "%s: argument '%s' belongs to another context", row->name, p->name);
  capture_input(cx, t);
  *v = heed_t(t);
  return true;
}

static bool accept_tensors (heed_context *cx, const op_row *row, const heed_parameter *p,
                            const heed_value *v) {
  if (v->kind != HEED_TENSORS) return wrong_kind(cx, row, p, v, "a list of tensors") != NULL;
  for (int i = 0; i < v->n; i++) {
    if (v->tensors[i] != NULL && v->tensors[i]->cx != cx)
      return core_fail(cx, "%s: entry %d of '%s' belongs to another context", row->name, i + 1,
                       p->name);
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
    return core_fail(cx, "%s: argument '%s': a whole number expected, got %g", row->name, p->name,
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

static bool accept_option (heed_context *cx, const op_row *row, const heed_parameter *p,
                           heed_value *v) {
  if (v->kind == HEED_INTEGER) return true;
  if (v->kind != HEED_TEXT) return wrong_kind(cx, row, p, v, "a word") != NULL;
  int number = option_number(p->words, v->text);
  if (number < 0)
    return core_fail(cx, "%s: argument '%s': one of %.*s expected, got '%.40s'", row->name,
                     p->name, (int)strcspn(p->words, " ="), p->words, v->text);
  *v = heed_i(number);
  return true;
}

static bool accept_type (heed_context *cx, const op_row *row, const heed_parameter *p,
                         heed_value *v) {
  heed_type type;
  if (v->kind == HEED_INTEGER && v->integer >= 0 && v->integer < HEED_NTYPES) return true;
  if (v->kind != HEED_TEXT) return wrong_kind(cx, row, p, v, "a type") != NULL;
  if (!heed_type_find(v->text, &type))
    return core_fail(cx, "%s: argument '%s': no type is called '%.40s'", row->name, p->name,
                     v->text);
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
    return core_fail(cx, "%s: argument '%s' is missing", row->name, p->name);
  }
  switch (p->want) {
    case HEED_WANT_TENSOR: return accept_tensor(cx, row, p, v);
    case HEED_WANT_TENSORS: return accept_tensors(cx, row, p, v);
    case HEED_WANT_NUMBER: return accept_number(cx, row, p, v);
    case HEED_WANT_AXES: case HEED_WANT_SHAPE: return accept_list(cx, row, p, v);
    case HEED_WANT_OPTION: return accept_option(cx, row, p, v);
    case HEED_WANT_TYPE: return accept_type(cx, row, p, v);
    case HEED_WANT_TEXT:
      return v->kind == HEED_TEXT || wrong_kind(cx, row, p, v, "a text") != NULL;
    default: return accept_integer(cx, row, p, v);   /* counts, positions, axes, flags */
  }
}

/* The arguments as do_ functions see them; args has room for all parameters. */
static bool accept_all (heed_context *cx, heed_op op, const heed_value *given, int n,
                        heed_value *args) {
  const op_row *row = &op_rows[op];
  const heed_signature *signature = op_signature(cx, op);
  if (n > signature->parameters)
    return core_fail(cx, "%s: at most %d arguments expected, got %d", row->name,
                     signature->parameters, n);
  for (int i = 0; i < signature->parameters; i++) {
    args[i] = i < n ? given[i] : heed_none();
    if (!accept(cx, row, &signature->parameter[i], &args[i])) return false;
  }
  return true;
}

/* A call works where its tensors are; its results in c->out are temporaries or arguments. */
static bool run_here (call *c, const op_row *row, heed_value *args) {
  if (c->cx->has_accelerators && !op_set_device(c, args)) return false;
  c->args = args;
  for (int i = 0; i < OP_OUTS; i++) c->out[i] = NULL;
  if (!row->work(c) || c->out[0] == NULL) return false;
  return !c->cx->recording || !row->recorded || graph_record(c, row);
}

static bool run (call *c, const heed_value *given, int n, heed_value *args) {
  heed_context *cx = c->cx;
  device *before = cx->current;
  bool good = accept_all(cx, c->op, given, n, args) && run_here(c, &op_rows[c->op], args);
  cx->current = before;
  return good;
}

int heed_apply (heed_context *cx, heed_op op, const heed_value *given, int n,
                heed_tensor *out[HEED_RESULTS]) {
  heed_value args[HEED_ARGUMENTS];
  call c = {.cx = cx, .op = op};
  if (out == NULL) return 0;
  for (int i = 0; i < HEED_RESULTS; i++) out[i] = NULL;
  if (!check_given(cx, op, given, n)) return 0;
  int mark = cx->ntemporaries, results = op_rows[op].seen;
  bool failed = cx->failed;
  heed_op asked = cx->caller;
  cx->caller = core_caller(cx, op);
  bool good = run(&c, given, n, args);
  if (!good && !failed) blame_caller(cx, "");
  cx->caller = asked;
  for (int i = 0; good && i < results; i++) out[i] = heed_keep(c.out[i]);
  drop_temporaries(cx, mark);
  return good ? results : 0;
}

int heed_apply_on (heed_context *cx, const char *name, heed_op op, const heed_value *given, int n,
                   heed_tensor *out[HEED_RESULTS]) {
  if (out == NULL) return 0;
  for (int i = 0; i < HEED_RESULTS; i++) out[i] = NULL;
  if (name == NULL || heed_describe(cx, op) == NULL) return 0;
  device *before = cx->current, *where = core_device(cx, op_rows[op].name, name);
  if (where == NULL) return 0;
  cx->current = where;
  int results = heed_apply(cx, op, given, n, out);
  cx->current = before;
  return results;
}

heed_tensor *heed_call (heed_context *cx, heed_op op, const heed_value *args, int n) {
  heed_tensor *out[HEED_RESULTS];
  heed_apply(cx, op, args, n, out);
  heed_drop(out[1]);
  heed_drop(out[2]);
  return out[0];
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
  c->out[0] = a;
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

bool op_can (heed_context *cx, work_kind kind) { return cx->current->can[kind]; }

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
    return core_fail(cx, "%s_: a number cannot be changed in place", name);
  if (layout_overlaps_itself(&t->at))
    return core_fail(cx, "%s_: the tensor is expanded: several positions share one element; "
                     "clone() it first", name);
  node *n = recording ? graph_node_of(t, &output) : NULL;
  if (n != NULL && n->kind == NODE_LEAF)
    return core_fail(cx, "%s_: a leaf that requires grad is changed in place; use heed.no_grad",
                     name);
  const heed_tensor *base = tensor_base(t);
  if (n != NULL && base != NULL && base->node != NULL && base->node->kind == NODE_LEAF)
    return core_fail(cx, "%s_: a view of a leaf that requires grad is changed in place; use "
                     "heed.no_grad", name);
  return true;
}

static bool check_fits (heed_context *cx, const char *name, const heed_tensor *t,
                        const heed_tensor *y) {
  char have[LAYOUT_TEXT], got[LAYOUT_TEXT];
  if (!layout_same_shape(&t->at, &y->at))
    return core_fail(cx, "%s_: a result of shape %s does not fit into a tensor of shape %s", name,
                     layout_text(&y->at, got), layout_text(&t->at, have));
  if (scalar_category(y->type) > scalar_category(t->type))
    return core_fail(cx, "%s_: a result of type %s cannot be kept in a tensor of type %s", name,
                     scalar_names[y->type], scalar_names[t->type]);
  return true;
}

static bool copy_into (heed_context *cx, heed_op op, heed_tensor *t, const heed_tensor *y) {
  work w;
  w.kind = WORK_COPY; w.op = op; w.nout = w.nin = 1; w.mask.n = 0;
  w.count[0] = 1;
  w.out[0] = view_of(t);
  w.in[0] = view_of(y);
  return op_run_for(cx, op, &w);
}

/* A handle on a copy of t's values, with t's history: what a rule may save. */
static heed_tensor *old_values (heed_tensor *t, node *history, int output) {
  heed_context *cx = t->cx;
  heed_tensor *old = op_new(cx, t->type, &t->at);
  if (old == NULL || !copy_into(cx, HEED_clone, old, t)) return NULL;
  if (history != NULL) {
    node_keep(history);
    old->node = history;
    old->output = output;
  }
  return old;
}

/*
** With history: worked out apart, then copied in; the handle takes the result's history. What
** is drawn has none, and is drawn over the copy.
*/
static bool in_place_recorded (call *c, heed_value *given, int n, heed_value *args) {
  heed_tensor *t = given[0].tensor;
  int output;
  node *history = graph_node_of(t, &output);
  bool drawn = op_rows[c->op].plain;
  given[0] = heed_t(old_values(t, drawn ? NULL : history, output));
  if (drawn) c->into = given[0].tensor;
  if (given[0].tensor == NULL || !run(c, given, n, args)) return false;
  if (!check_fits(c->cx, op_rows[c->op].name, t, c->out[0])) return false;
  if (!copy_into(c->cx, c->op, t, c->out[0])) return false;
  t->store->version++;
  t->store->changer = c->op;
  return graph_overlay(t, c->out[0], c->op);
}

static bool in_place_plain (call *c, const heed_value *given, int n, heed_value *args) {
  heed_tensor *t = given[0].tensor;
  c->into = t;
  bool recording = c->cx->recording;
  c->cx->recording = false;        /* nothing here has history */
  bool good = run(c, given, n, args);
  c->cx->recording = recording;
  if (!good || !check_fits(c->cx, op_rows[c->op].name, t, c->out[0])) return false;
  if (c->out[0] != t && !copy_into(c->cx, c->op, t, c->out[0])) return false;
  t->store->version++;
  t->store->changer = c->op;
  return true;
}

bool heed_apply_in_place (heed_context *cx, heed_op op, const heed_value *given, int n) {
  heed_value args[HEED_ARGUMENTS], first[HEED_ARGUMENTS];
  call c = {.cx = cx, .op = op, .in_place = true};
  if (!check_given(cx, op, given, n)) return false;
  const char *name = op_rows[op].name;
  if (n < 1 || n > HEED_ARGUMENTS || given[0].kind != HEED_TENSOR || given[0].tensor == NULL) {
    core_fail(cx, "%s_: a tensor expected as the first argument", name);
    return false;
  }
  heed_tensor *t = given[0].tensor;
  if (!check_target(cx, name, t, cx->recording)) return false;
  capture_input(cx, t);
  int mark = cx->ntemporaries;
  device *before = cx->current;
  heed_op asked = cx->caller;
  cx->caller = core_caller(cx, op);
  cx->current = tensor_device(t);
  memcpy(first, given, (size_t)n * sizeof *first);
  memcpy(args, given, (size_t)n * sizeof *args);
  for (int i = n; i < HEED_ARGUMENTS; i++) args[i] = heed_none();
  heed_keep(t);                    /* arguments may be dropped while room is made */
  bool recorded = cx->recording && all_recorded(&c, args), failed = cx->failed;
  bool good = graph_check_view(t, recorded, op) && (recorded ? in_place_recorded(&c, first, n, args)
                                                          : in_place_plain(&c, given, n, args));
  if (!good && !failed) blame_caller(cx, asked == HEED_NOPS ? "_" : "");
  cx->current = before;
  cx->caller = asked;
  drop_temporaries(cx, mark);
  heed_drop(t);
  return good;
}

/* }================================================================== */
