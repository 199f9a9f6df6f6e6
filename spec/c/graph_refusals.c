/*
** graph_refusals.c - graphs that a host in C makes of what does not fit: tensors of another
** context, gradients of other shapes, changes in place; and in which words each is refused.
*/

#include "failing.h"
#include "refusals.h"


/*
** {==================================================================
** Tensors of another context
** ===================================================================
*/

static bool give_foreign (void *self, int n, heed_tensor *const *gradients, int ninputs,
                          heed_tensor **results) {
  (void)n; (void)gradients; (void)ninputs;
  *results = heed_keep(self);
  return true;
}

static void contexts_are_apart (heed_context *cx, heed_context *other) {
  heed_tensor *x = vector(cx), *foreign = vector(other), *both[] = {x, foreign};
  refuses_one(cx, HEED_exp, heed_t(foreign), "exp: argument 'input' belongs to another context");
  refuses(cx, HEED_add, x, heed_t(foreign), "add: argument 'other' belongs to another context");
  refuses_one(cx, HEED_cat, heed_ts(2, both),
              "cat: entry 2 of 'tensors' belongs to another context");
  refused(cx, !heed_take_over(x, foreign), "take_over: the tensors belong to two contexts");
  check(heed_require_grad(x, true), "a leaf");
  refused(cx, !heed_set_gradient(x, foreign), "grad: the gradient belongs to another context");
  refused(cx, !heed_backward(x, foreign, false),
          "backward: the gradient belongs to another context");
  heed_custom custom = {give_foreign, NULL, foreign};
  heed_hook *hook = heed_add_hook(x, &custom);
  heed_tensor *y = heed_call(cx, HEED_sum, (heed_value[]){heed_t(x)}, 1);
  refused(cx, !heed_backward(y, NULL, true),
          "register_hook: the hook gave a gradient of another context");
  heed_remove_hook(hook);
  heed_tensor *z = heed_number(cx, 1);
  check(heed_record_custom(cx, &custom, 1, &x, 1, &z), "an operation of the host's");
  refused(cx, !heed_backward(z, NULL, true), "custom: backward gave a gradient of another context");
  refused(cx, !heed_record_custom(cx, &custom, 2, both, 1, &z),
          "custom: input 2 belongs to another context");
  refused(cx, !heed_record_custom(cx, &custom, 1, &x, 1, &foreign),
          "custom: output 1 belongs to another context");
  refused(cx, !heed_record_custom(cx, &custom, 1, NULL, 1, &z), "custom: there are no inputs");
  refused(cx, !heed_record_custom(cx, &custom, 1, &x, -1, &z), "custom: there are no outputs");
  check(heed_record_custom(cx, &custom, 0, NULL, 0, NULL), "one of nothing");
  check(heed_record_custom(cx, &custom, 1, &x, 0, NULL), "one without a result");
  heed_drop(x); heed_drop(y); heed_drop(z); heed_drop(foreign);
}

/* }================================================================== */


/*
** {==================================================================
** Graphs
** ===================================================================
*/

/* Results of a backward function, or of a hook. */
typedef struct gives { bool good; heed_tensor *gradient; } gives;

static bool give (void *self, int n, heed_tensor *const *gradients, int ninputs,
                  heed_tensor **results) {
  const gives *g = self;
  (void)n; (void)gradients; (void)ninputs;
  *results = heed_keep(g->gradient);
  return g->good;
}

static void gradients_fit (heed_context *cx) {
  heed_tensor *x = vector(cx), *z = heed_number(cx, 1), *y;
  heed_tensor *pair = heed_from(cx, HEED_FLOAT32, 1, (int64_t[]){2}, (float[]){1, 2});
  heed_tensor *wide = heed_call(cx, HEED_to, (heed_value[]){heed_t(x), heed_s("float64")}, 2);
  gives g = {false, NULL};
  const heed_custom custom = {give, NULL, &g};
  refused(cx, heed_add_hook(x, &custom) == NULL,
          "register_hook: the tensor has no gradient: it does not require grad");
  refused(cx, !heed_retain_gradient(x),
          "retain_grad: the tensor has no gradient: it does not require grad");
  refused(cx, heed_add_hook(x, NULL) == NULL, "register_hook: there is no function");
  refused(cx, !heed_set_gradient(x, pair), "grad: only a leaf that requires grad has one");
  check(heed_set_gradient(x, NULL), "no gradient of no leaf");
  check(heed_require_grad(x, true), "a leaf");
  refused(cx, !heed_set_gradient(x, pair), "grad: shape (4) expected, got (2)");
  refused(cx, !heed_set_gradient(x, wide), "grad: type float32 expected, got float64");
  heed_tensor *some[] = {pair, NULL};
  check(!heed_require_grad_all(cx, 2, some, true) && !heed_requires_grad(pair) &&
        heed_require_grad_all(cx, 0, NULL, true), "leaves of which one is missing");
  refused(cx, !heed_set_gradient(x, x), "grad: the gradient lies in one stretch of memory with "
          "the tensor, which a sum there may change; clone() it first");
  refused(cx, !heed_record_custom(cx, NULL, 1, &x, 1, &z), "custom: there is no backward function");
  check(heed_record_custom(cx, &custom, 1, &x, 1, &z), "an operation of the host's");
  refused(cx, !heed_backward(z, NULL, true), "custom: backward failed");
  g.good = true;
  g.gradient = pair;
  refused(cx, !heed_backward(z, NULL, true),
          "custom: backward gave input 1 a gradient of shape (2), not (4)");
  heed_hook *hook = heed_add_hook(x, &custom);
  y = heed_call(cx, HEED_sum, (heed_value[]){heed_t(x)}, 1);
  refused(cx, !heed_backward(y, NULL, true), "register_hook: the hook gave float32 of shape (2) "
          "for a gradient that is float32 of shape (4)");
  g.gradient = wide;
  refused(cx, !heed_backward(y, NULL, true), "register_hook: the hook gave float64 of shape (4) "
          "for a gradient that is float32 of shape (4)");
  g = (gives){false, NULL};
  refused(cx, !heed_backward(y, NULL, true), "register_hook: the hook failed");
  heed_remove_hook(hook);
  refused(cx, !heed_require_grad(y, false),
          "requires_grad: only a leaf can stop requiring grad; use detach()");
  refused(cx, !heed_set_gradient(y, pair), "grad: only a leaf that requires grad has one");
  check(heed_gradients(y, NULL, 0, NULL, NULL, true), "a pass for no gradient");
  check(heed_backward(y, NULL, false), "a pass");
  refused(cx, heed_add_hook(y, &custom) == NULL,
          "register_hook: the graph was freed by an earlier backward");
  refused(cx, !heed_retain_gradient(y),
          "retain_grad: the graph was freed by an earlier backward");
  refused(cx, !heed_backward(y, NULL, false), "backward: the graph was freed by an earlier "
          "backward; give it {retain_graph = true}, or detach what was made before it");
  heed_drop(y);
  y = heed_call(cx, HEED_sum, (heed_value[]){heed_t(x)}, 1);
  check(heed_take_over(x, pair), "other memory");
  refused(cx, !heed_backward(y, NULL, false), "backward: a leaf is float32 of shape (2) now, and "
          "was float32 of shape (4) when it was used");
  heed_drop(y);
  y = heed_call(cx, HEED_sum, (heed_value[]){heed_t(x)}, 1);
  heed_tensor *same = heed_call(cx, HEED_to, (heed_value[]){heed_t(pair), heed_s("float64")}, 2);
  check(heed_take_over(x, same), "memory of another type");
  refused(cx, !heed_backward(y, NULL, false), "backward: a leaf is float64 of shape (2) now, and "
          "was float32 of shape (2) when it was used");
  heed_drop(same);
  heed_drop(y); heed_drop(x); heed_drop(z); heed_drop(pair); heed_drop(wide);
}

static void saved_values_stay (heed_context *cx) {
  heed_tensor *x = vector(cx), *w = vector(cx);
  heed_require_grad(x, true);
  heed_tensor *y = heed_call(cx, HEED_mul, (heed_value[]){heed_t(x), heed_t(w)}, 2);
  check(heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(w), heed_i(1)}, 2) &&
        heed_apply_in_place(cx, HEED_neg, (heed_value[]){heed_t(w)}, 1), "changes in place");
  heed_set_caller(cx, "mine");
  refused(cx, !heed_backward(y, x, true), "mul: a value that its gradient needs was changed in "
          "place by neg_ (version 2, saved at 0)");
  heed_set_caller(cx, NULL);
  heed_drop(x); heed_drop(w); heed_drop(y);
}

static void edges_are_counted (heed_context *cx) {
  enum { MOST = 64 };
  heed_tensor *list[MOST + 1], *x = vector(cx), *y;
  gives g = {true, NULL};
  const heed_custom custom = {give, NULL, &g};
  for (int i = 0; i <= MOST; i++) list[i] = x;
  y = heed_call(cx, HEED_cat, (heed_value[]){heed_ts(MOST + 1, list)}, 1);
  check(heed_numel(y) == 4 * (MOST + 1), "any number of tensors without a graph");
  heed_drop(y);
  heed_require_grad(x, true);
  y = heed_number(cx, 1);
  refused(cx, !heed_record_custom(cx, &custom, MOST + 1, list, 1, &y),
          "custom: at most 64 tensors can be given while gradients are recorded");
  check(heed_record_custom(cx, &custom, MOST, list, 1, &y), "the most for a host's operation");
  refused(cx, !heed_record_custom(cx, &custom, 1, (heed_tensor *[]){NULL}, 1, &y),
          "custom: input 1 is missing");
  refused(cx, !heed_record_custom(cx, &custom, 1, &x, 2, (heed_tensor *[]){y, NULL}),
          "custom: output 2 is missing");
  heed_drop(y); heed_drop(x);
}

/* A target, and what is written into it. */
static void refuses_write (heed_context *cx, heed_op op, heed_tensor *t, heed_value v,
                           const char *message) {
  refused(cx, !heed_apply_in_place(cx, op, (heed_value[]){heed_t(t), v}, 2), message);
}

static void targets_fit (heed_context *cx) {
  const int64_t two = 2, four = 4;
  heed_tensor *x = vector(cx), *whole = heed_from(cx, HEED_INT64, 1, &two, (int64_t[]){1, 2});
  heed_tensor *rows = heed_from(cx, HEED_FLOAT32, 2, (int64_t[]){2, 4}, (float[8]){0});
  heed_tensor *one = heed_from(cx, HEED_FLOAT32, 0, NULL, (float[]){1});
  heed_tensor *wide = heed_call(cx, HEED_expand, (heed_value[]){heed_t(one), heed_l(1, &four)}, 2);
  heed_tensor *q = heed_empty(cx, HEED_Q8_0, 1, (int64_t[]){32});
  refuses_write(cx, HEED_add, x, heed_t(rows),
                "add_: a result of shape (2, 4) does not fit into a tensor of shape (4)");
  refuses_write(cx, HEED_add, whole, heed_f(0.5),
                "add_: a result of type float32 cannot be kept in a tensor of type int64");
  refuses_write(cx, HEED_add, wide, heed_i(1), "add_: the tensor is expanded: several positions "
                "share one element; clone() it first");
  refuses_write(cx, HEED_add, q, heed_i(1),
                "add_: a tensor of blocks, q8_0, cannot be changed in place");
  heed_set_recording(cx, false);
  heed_tensor *apart = heed_call(cx, HEED_view, (heed_value[]){heed_t(x), heed_l(1, &four)}, 2);
  heed_set_recording(cx, true);
  heed_require_grad(x, true);
  refuses_write(cx, HEED_add, x, heed_i(1),
                "add_: a leaf that requires grad is changed in place; use heed.no_grad");
  heed_tensor *view = heed_call(cx, HEED_view, (heed_value[]){heed_t(x), heed_l(1, &four)}, 2);
  refuses_write(cx, HEED_add, view, heed_i(1), "add_: a view of a leaf that requires grad is "
                "changed in place; use heed.no_grad");
  heed_drop(apart);
  heed_tensor *sum = heed_call(cx, HEED_add, (heed_value[]){heed_t(x), heed_i(1)}, 2);
  heed_set_recording(cx, false);
  apart = heed_call(cx, HEED_view, (heed_value[]){heed_t(sum), heed_l(1, &four)}, 2);
  check(heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(apart), heed_i(1)}, 2),
        "a view while nothing is recorded");
  heed_set_recording(cx, true);
  refuses_write(cx, HEED_add, apart, heed_i(1), "add_: a view that was made without gradients is "
                "changed in place; make it again, or use heed.no_grad");
  heed_drop(apart); heed_drop(sum); heed_drop(view); heed_drop(q); heed_drop(wide); heed_drop(one);
  heed_drop(rows); heed_drop(whole); heed_drop(x);
}

/* }================================================================== */


/* A leaf keeps its gradient while that fits what the leaf becomes. */
static void gradients_stay_that_fit (heed_context *cx) {
  static const struct { heed_type type; int64_t size; bool stays; } ways[] = {
    {HEED_FLOAT32, 4, true}, {HEED_FLOAT64, 4, false}, {HEED_FLOAT32, 2, false},
    {HEED_FLOAT64, 2, false}
  };
  for (int i = 0; i < 4; i++) {
    heed_tensor *x = vector(cx), *g = vector(cx);
    heed_tensor *from = heed_empty(cx, ways[i].type, 1, &ways[i].size);
    check(heed_require_grad(x, true) && heed_set_gradient(x, g), "a leaf with a gradient");
    const int64_t version = heed_version(x);
    check(heed_take_over(x, from) && heed_type_of(x) == ways[i].type &&
          heed_numel(x) == ways[i].size && heed_shares_memory(x, from), "other memory");
    check(heed_requires_grad(x) && heed_is_leaf(x) && heed_version(x) == version + 1, "a leaf yet");
    heed_tensor *kept = heed_gradient(x);
    check((kept != NULL) == ways[i].stays, "a gradient that fits");
    heed_drop(kept); heed_drop(from); heed_drop(g); heed_drop(x);
  }
}


int main (void) {
  failing memory = {.countdown = -1};
  const heed_host host = {.resize = failing_resize, .self = &memory};
  heed_context *cx = heed_open(&host), *other = heed_open(&host);
  contexts_are_apart(cx, other);
  gradients_fit(cx);
  saved_values_stay(cx);
  edges_are_counted(cx);
  targets_fit(cx);
  gradients_stay_that_fit(cx);
  heed_close(other);
  heed_close(cx);
  check(memory.alive == 0 && memory.bytes == 0, "what is given back");
  if (!failed) puts("graphs: refused in the words that are wanted");
  return failed;
}
