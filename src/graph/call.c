/*
** call.c - how an operation is called: its row, its device, its results.
*/

#include "graph/call.h"
#include "graph/check.h"
#include "graph/make.h"
#include "graph/record.h"
#include "graph/state.h"


/* Rows of blocks stay whole. */
static bool check_rows (call *c) {
  const heed_tensor *y = first_result(c);
  const int elements = scalar_blocks[y->type].elements;
  char text[LAYOUT_TEXT];
  return layout_block_axis(&y->at, elements) >= 0 ||
         core_fail(c->cx, op_name(c->op), "rows of type %s stay whole, in multiples of %d elements"
                   "; the result would have the shape %s", scalar_names[y->type], elements,
                   layout_text(&y->at, text));
}


/* A call works where its tensors are; its results in c->out are temporaries or arguments. */
static bool run_on_device (call *c, const op_row *row, heed_value *args) {
  if (c->cx->devices.n > 1 && !op_set_device(c, args)) return false;
  c->args = args;
  for (int i = 0; i < OP_OUTS; i++) c->out[i] = NULL;
  if (!row->work(c) || first_result(c) == NULL) return false;
  if (scalar_is_block(first_result(c)->type) && !check_rows(c)) return false;
  return !c->cx->scope.recording || !row->recorded || graph_record(c, row);
}


static bool run_autocast (call *c, const op_row *row, heed_value *args) {
  heed_tensor *list[OP_EDGES];
  return op_autocast(c, args, list) && run_on_device(c, row, args);
}


static inline bool run (call *c, const char *name, const heed_value *given, int n,
                        heed_value *args) {
  heed_context *cx = c->cx;
  const float_mode mode = float_mode_begin();
  const op_row *row = op_row_of(cx, c->op);
  bool mixed = cx->scope.mixed != HEED_FLOAT32;
  bool good = call_accept(cx, c->op, given, n, args) &&
              (mixed ? run_autocast : run_on_device)(c, row, args) &&
              !core_lost(cx, name);
  float_mode_end(mode);
  return good;
}


bool call_run (call *c, const heed_value *given, int n, heed_value *args) {
  return run(c, op_name(c->op), given, n, args);
}


int heed_apply (heed_context *cx, heed_op op, const heed_value *given, int n,
                heed_tensor *out[HEED_RESULTS]) {
  heed_value args[HEED_ARGUMENTS];
  call c = {.cx = cx, .op = op};
  if (out == NULL) return 0;
  for (int i = 0; i < HEED_RESULTS; i++) out[i] = NULL;
  if (!check_given(cx, op, given, n)) return 0;
  const char *name = op_name(op);
  if (core_interrupted(cx, name)) return 0;
  if (cx->storages.account.blocks >= cx->storages.account.pressed) storage_relieve(cx);
  int results = op_signature(cx, op)->results;
  call_scope s;
  call_begin(cx, name, &s);
  bool good = run(&c, name, given, n, args);
  for (int i = 0; good && i < results; i++) out[i] = heed_keep(c.out[i]);
  call_end(cx, &s);
  return good ? results : 0;
}


int heed_apply_on (heed_context *cx, const char *name, heed_op op, const heed_value *given, int n,
                   heed_tensor *out[HEED_RESULTS]) {
  if (out == NULL) return 0;
  for (int i = 0; i < HEED_RESULTS; i++) out[i] = NULL;
  if (name == NULL || heed_describe(cx, op) == NULL) return 0;
  device *where = core_device(cx, op_name(op), name);
  if (where == NULL) return 0;
  const scope before = scope_begin(cx);
  cx->scope.device = where;
  int results = heed_apply(cx, op, given, n, out);
  scope_end(cx, &before);
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


bool graph_no_second (heed_context *cx, heed_op op) {
  return core_fail(cx, NULL, "create_graph: %s's gradient has none of its own", op_name(op));
}


/* Work that no operation did has no gradient: a gradient that is recorded is composed. */
bool op_run_for (heed_context *cx, heed_op op, const work *w) {
  if (cx->scope.composing) return graph_no_second(cx, op);
  return core_run(cx, op, cx->scope.device, w);
}


bool op_run (call *c, const work *w) { return op_run_for(c->cx, c->op, w); }


bool op_supports (heed_context *cx, work_kind kind, int op) {
  return !cx->scope.composing && cx->scope.device->supports(cx->scope.device, kind, op);
}


#define LONG_ROW ((int64_t)1 << 23)

bool op_fuses (heed_context *cx, work_kind kind, int op, int64_t row) {
  return op_supports(cx, kind, op) && (row <= LONG_ROW || !cx->scope.device->host);
}
