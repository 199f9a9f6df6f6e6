/*
** api.c - what only a host written in C can do: pass NULL on, give numbers for gradients, use
** two contexts, lend odd bools, say by a rule who may attend, round as it likes.
*/

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "heed.h"
#include "heed_json.h"
#include "heed_search.h"

enum { LONG = 1 << 18 };

static int failed;

static void check (bool good, const char *what) {
  if (good) return;
  printf("api: %s: wrong\n", what);
  failed = 1;
}

static heed_tensor *leaf (heed_context *cx, double value) {
  heed_tensor *t = heed_from(cx, HEED_FLOAT64, 0, NULL, &value);
  heed_require_grad(t, true);
  return t;
}

static double gradient_of (heed_tensor *t) {
  double value = -1;
  heed_tensor *g = heed_gradient(t);
  heed_read(g, HEED_FLOAT64, &value);
  heed_drop(g);
  return value;
}

static void nothing_is_set (void) {
  check(heed_threads(NULL) == 0 && !heed_set_threads(NULL, 1), "threads of no context");
  check(heed_device(NULL) == NULL && !heed_set_device(NULL, "cpu"), "its device");
  check(!heed_recording(NULL) && !heed_set_recording(NULL, true), "its recording");
  check(heed_set_caller(NULL, "f") == NULL && !heed_seed(NULL, 1), "its caller and seed");
  check(heed_autocast(NULL) == HEED_FLOAT32 && heed_set_autocast(NULL, HEED_FLOAT16) ==
        HEED_FLOAT32, "its mixed precision");
}

static void nothing_comes_back (heed_context *cx) {
  heed_value number[] = {heed_f(1)};
  heed_tensor *out[HEED_RESULTS];
  heed_rng_get(cx, NULL);
  check(!heed_set_device(cx, NULL) && !heed_type_find("bool", NULL), "a name, or where to put it");
  check(heed_apply(cx, HEED_exp, number, 1, NULL) == 0 &&
        heed_apply_on(cx, NULL, HEED_exp, number, 1, out) == 0, "an array for results");
  check(heed_call(NULL, HEED_exp, number, 1) == NULL, "a call without a context");
  check(!heed_apply_in_place(NULL, HEED_exp, number, 1), "one in place");
  check(heed_describe(NULL, HEED_exp) == NULL, "its signature");
  check(!heed_record_custom(NULL, NULL, 0, NULL, 0, NULL), "an operation of the host's");
  heed_tensor *t = heed_number(cx, 1);
  check(!heed_take_over(NULL, t) && !heed_take_over(t, NULL), "memory of another");
  heed_drop(t);
}

static void refused (heed_context *cx, bool none, const char *message) {
  check(none && heed_error(cx) != NULL && strcmp(heed_error(cx), message) == 0, message);
  heed_clear(cx);
}

static void no_lists_come_back (heed_context *cx) {
  float number = 1;
  int64_t at;
  const heed_rows rows = {HEED_ROWS_FLOAT32, 1, 1, 4, &number, NULL},
    bare = {HEED_ROWS_FLOAT32, 1, 1, 4, NULL, NULL};
  refused(cx, !heed_require_grad_all(cx, 2, NULL, true), "requires_grad: there are no tensors");
  check(!heed_require_grad_all(NULL, 2, NULL, true), "leaves without a context");
  refused(cx, !heed_commit(cx, &(heed_changes){.nsteps = 1}), "commit: there are no steps");
  refused(cx, !heed_nearest(cx, NULL, &rows, NULL, 1, &at, &number),
          "nearest: rows expected, got NULL");
  refused(cx, !heed_nearest(cx, &rows, NULL, NULL, 1, &at, &number),
          "nearest: queries expected, got NULL");
  refused(cx, !heed_nearest(cx, &bare, &rows, NULL, 1, &at, &number),
          "nearest: the data of rows expected, got NULL");
  refused(cx, !heed_nearest(cx, &rows, &bare, NULL, 1, &at, &number),
          "nearest: the data of queries expected, got NULL");
  refused(cx, !heed_nearest(cx, &rows, &rows, NULL, 1, NULL, &number),
          "nearest: a place for positions expected, got NULL");
  refused(cx, !heed_nearest(cx, &rows, &rows, NULL, 1, &at, NULL),
          "nearest: a place for scores expected, got NULL");
  heed_rows other = rows;
  other.kind = HEED_ROWS_INT8;
  refused(cx, !heed_nearest(cx, &rows, &other, NULL, 1, &at, &number),
          "nearest: rows and queries of one kind and size expected");
  other = rows;
  other.dim = 2;
  refused(cx, !heed_nearest(cx, &other, &rows, NULL, 1, &at, &number),
          "nearest: rows and queries of one kind and size expected");
  check(!heed_nearest(NULL, &rows, &rows, NULL, 1, &at, &number), "a search without a context");
  check(heed_nearest(cx, &bare, &bare, NULL, 0, NULL, NULL), "a search for no rows");
}

static void steps_are_there (heed_context *cx) {
  heed_tensor *x = leaf(cx, 1), *g = heed_number(cx, 1);
  heed_step step = {.lr = 0.5, .step = 1};
  check(heed_capture_begin(cx, "cpu") && heed_optimize(cx, HEED_SGD, &step, 1, &x, &g, NULL),
        "a step that is captured");
  heed_capture *c = heed_capture_end(cx);
  refused(cx, c != NULL && !heed_capture_set_step(cx, c, 0, NULL),
          "capture: a step expected, got NULL");
  refused(cx, !heed_capture_set_step(cx, c, 1, &step), "capture: there is no step 1");
  check(heed_capture_set_step(cx, c, 0, &step), "another step");
  heed_capture_drop(cx, c);
  heed_drop(x); heed_drop(g);
}

static void reads_no_null (void) {
  heed_json j, none;
  heed_json_value v;
  char to[4];
  check(!heed_json_open(&none, NULL, 3, 2) && strstr(none.wrong, "NULL") != NULL &&
        heed_json_read(&none, &v) == HEED_JSON_WRONG, "JSON of NULL");
  check(heed_json_open(&j, "\"a\":1", 5, 2) && !heed_json_name(&j, NULL) &&
        strstr(j.wrong, "NULL in the place of a value at byte 1") != NULL &&
        heed_json_read(&j, NULL) == HEED_JSON_WRONG, "no place for a value");
  check(heed_json_read(&j, &v) == HEED_JSON_TEXT && heed_json_text("abc", &v, NULL) == 0 &&
        heed_json_text(NULL, &v, to) == 0 && heed_json_text("abc", NULL, to) == 0, "no text");
  check(!heed_json_open(NULL, "1", 1, 2) && heed_json_read(NULL, &v) == HEED_JSON_WRONG &&
        heed_json_first(NULL, HEED_JSON_ARRAY) == -1 && !heed_json_name(NULL, &v) &&
        heed_json_another(NULL, HEED_JSON_ARRAY) == -1 && !heed_json_ended(NULL), "no JSON");
}

static bool back (void *self, int n, heed_tensor *const *gradients, int ninputs,
                  heed_tensor **results) {
  (void)n; (void)gradients;
  for (int i = 0; i < ninputs; i++) results[i] = heed_number(self, 2);
  return true;
}

static bool negate (void *self, int n, heed_tensor *const *gradients, int ninputs,
                    heed_tensor **results) {
  (void)self;
  check(n == 1 && ninputs == 1, "a gradient for a gradient");
  heed_value g[] = {heed_t(*gradients)};
  *results = heed_call(heed_context_of(*gradients), HEED_neg, g, 1);
  return *results != NULL;
}

static void count (void *self) { ++*(int *)self; }

static void gradients_are_hooked (heed_context *cx) {
  int released = 0;
  heed_custom hook = {negate, count, &released}, none = {NULL, count, &released};
  heed_tensor *x = leaf(cx, 3), *plain = heed_number(cx, 2);
  heed_tensor *y = heed_call(cx, HEED_square, (heed_value[]){heed_t(x)}, 1);
  check(heed_retain_gradient(y) && heed_add_hook(y, &hook) != NULL, "a hook");
  check(heed_backward(y, NULL, false) && gradient_of(y) == -1 && gradient_of(x) == -6, "its call");
  check(released == 1, "a hook that goes with its graph");
  check(heed_add_hook(y, &hook) == NULL && heed_error(cx) != NULL, "a hook on what was freed");
  heed_clear(cx);
  heed_remove_hook(heed_add_hook(x, &hook));
  heed_remove_hook(NULL);
  check(released == 2 && heed_backward(x, NULL, false) && gradient_of(x) == -5, "a hook removed");
  check(heed_add_hook(plain, &hook) == NULL && !heed_retain_gradient(plain), "one without a graph");
  heed_clear(cx);
  check(heed_add_hook(NULL, &hook) == NULL && heed_add_hook(x, &none) == NULL &&
        heed_add_hook(x, NULL) == NULL && !heed_retain_gradient(NULL), "no tensor, or no function");
  heed_clear(cx);
  heed_add_hook(x, &hook);
  heed_drop(x);
  heed_drop(y);
  heed_drop(plain);
  check(released == 3, "a hook that goes with its leaf");
}

static double value_of (heed_tensor *t) {
  double value = -1;
  heed_read(t, HEED_FLOAT64, &value);
  return value;
}

/* A step that is refused says why, and changes nothing. */
static void step_is_refused (heed_context *cx, heed_optimizer kind, int n, heed_tensor *p,
                             heed_tensor *g, const char *why) {
  const heed_step step = {.lr = 1, .step = 1};
  check(!heed_optimize(cx, kind, &step, n, p ? &p : NULL, g ? &g : NULL, NULL) &&
        heed_error(cx) != NULL && strstr(heed_error(cx), why) != NULL, why);
  heed_clear(cx);
}

static void steps_are_refused (heed_context *cx, heed_tensor *x, heed_tensor *foreign) {
  const heed_step step = {.lr = 1, .step = 1};
  const double before = value_of(x);
  heed_tensor *list[] = {x, NULL};
  step_is_refused(cx, HEED_SGD, -1, x, x, "negative");
  step_is_refused(cx, HEED_SGD, 1, NULL, x, "there are no parameters, or no gradients");
  step_is_refused(cx, HEED_SGD, 1, x, NULL, "there are no parameters, or no gradients");
  step_is_refused(cx, HEED_SGD, 1, foreign, x, "parameter 1 belongs to another context");
  check(!heed_optimize(cx, HEED_SGD, &step, 2, list, (heed_tensor *[]){x, x}, NULL) &&
        strstr(heed_error(cx), "parameter 2 is missing") != NULL, "a missing parameter");
  heed_clear(cx);
  const heed_optimization two[] = {{HEED_SGD, &step, 1, &x, &x, NULL},
                                   {HEED_ADAM, &step, 1, &foreign, &x, NULL}};
  check(!heed_commit(cx, &(heed_changes){.nsteps = 2, .steps = two}) &&
        strstr(heed_error(cx), "Adam: parameter 1 belongs") != NULL,
        "of several steps, the one that is refused is named");
  heed_clear(cx);
  heed_tensor *pair = heed_from(cx, HEED_FLOAT64, 1, (int64_t[]){2}, (double[]){1, 2});
  check(!heed_commit(cx, &(heed_changes){.nsteps = 1, .steps = two, .op = HEED_copy, .ntargets = 1,
                                         .targets = &x, .operands = &pair}) &&
        strncmp(heed_error(cx), "a tensor of shape (2)", 21) == 0,
        "what fails behind a step does not bear its name");
  heed_clear(cx);
  heed_drop(pair);
  check(value_of(x) == before, "a refused step changes no parameter");
  heed_clear(cx);
  check(heed_optimize(cx, HEED_SGD, &step, 0, NULL, NULL, NULL), "a step of no parameters");
}

/* SGD with momentum of one parameter, gradient and state. */
static void momentum_is_refused (heed_context *cx, heed_tensor *p, heed_tensor *g,
                                 heed_tensor *state, const char *why) {
  const heed_step step = {.lr = 1, .momentum = 0.5, .step = 1};
  heed_tensor *const *states[] = {&state};
  check(!heed_optimize(cx, HEED_SGD, &step, 1, &p, &g, states) && heed_error(cx) != NULL &&
        strstr(heed_error(cx), why) != NULL && strncmp(heed_error(cx), "SGD: ", 5) == 0, why);
  heed_clear(cx);
}

static void entries_are_checked (heed_context *cx, heed_context *other) {
  const double zeros[4] = {0};
  heed_tensor *x = leaf(cx, 3), *g = leaf(cx, 1), *state = leaf(cx, 0), *foreign = leaf(other, 1);
  heed_tensor *number = heed_number(cx, 1), *halves = heed_from(cx, HEED_FLOAT32, 0, NULL, zeros);
  heed_tensor *whole = heed_from(cx, HEED_INT64, 0, NULL, zeros);
  heed_tensor *square = heed_from(cx, HEED_FLOAT64, 2, (int64_t[]){2, 2}, zeros);
  heed_tensor *across = heed_call(cx, HEED_transpose,
                                  (heed_value[]){heed_t(square), heed_i(0), heed_i(1)}, 3);
  heed_tensor *wide = heed_call(cx, HEED_expand,
                                (heed_value[]){heed_t(x), heed_l(1, (int64_t[]){2})}, 2);
  momentum_is_refused(cx, x, g, NULL, "parameter 1 lacks a state");
  momentum_is_refused(cx, x, g, foreign, "parameter 1 has a state of another context");
  momentum_is_refused(cx, x, g, number, "has a state that does not lie dense in memory");
  momentum_is_refused(cx, square, square, across, "has a state that does not lie dense in memory");
  momentum_is_refused(cx, x, g, halves, "has a state of another type or shape");
  momentum_is_refused(cx, x, g, square, "has a state of another type or shape");
  momentum_is_refused(cx, x, foreign, state, "parameter 1 has a gradient of another context");
  momentum_is_refused(cx, number, g, state, "parameter 1 is of no float type");
  momentum_is_refused(cx, whole, g, state, "parameter 1 is of no float type");
  momentum_is_refused(cx, wide, g, state, "parameter 1 is expanded");
  momentum_is_refused(cx, x, square, state, "parameter 1 has shape (), its gradient (2, 2)");
  const heed_step step = {.lr = 1, .momentum = 0.5, .step = 1};
  heed_tensor *const *states[] = {&state};
  check(heed_optimize(cx, HEED_SGD, &step, 1, &x, &number, states) && value_of(x) == 2 &&
        value_of(state) == 1, "a step by a number, with momentum");
  heed_drop(wide); heed_drop(across); heed_drop(square); heed_drop(whole); heed_drop(halves);
  heed_drop(number); heed_drop(foreign); heed_drop(state); heed_drop(g); heed_drop(x);
}

static void numbers_are_gradients (heed_context *cx, heed_context *other) {
  heed_tensor *x = leaf(cx, 3), *seed = heed_number(cx, 2), *foreign = heed_number(other, 2);
  check(heed_backward(x, seed, false) && gradient_of(x) == 2, "a number as the first gradient");
  check(heed_set_gradient(x, seed) && heed_backward(x, NULL, false) && gradient_of(x) == 3,
        "a gradient set to a number");
  check(!heed_backward(x, foreign, false) && heed_error(cx) != NULL, "another context's");
  heed_clear(cx);
  heed_tensor *g = NULL;
  check(!heed_gradients(x, NULL, 1, NULL, &g, true) &&
        !heed_gradients(x, NULL, 1, &x, NULL, true), "gradients without lists");
  heed_tensor *y = heed_detach(x);
  heed_custom custom = {back, NULL, cx};
  heed_set_gradient(x, NULL);
  check(heed_record_custom(cx, &custom, 1, &x, 1, &y) && heed_backward(y, NULL, false) &&
        gradient_of(x) == 2, "a number from a backward function");
  heed_custom none = {NULL, NULL, NULL};
  g = NULL;
  check(!heed_record_custom(cx, NULL, 1, &x, 1, &y) && !heed_record_custom(cx, &none, 1, &x, 1, &y)
        && !heed_record_custom(cx, &custom, 1, &x, 1, &g) &&
        !heed_record_custom(cx, &custom, 1, &g, 1, &y), "no backward function, or no handle");
  heed_clear(cx);
  heed_step step = {.step = 1};
  heed_step wrong = {.step = 1, .beta2 = 1};
  check(!heed_optimize(cx, HEED_ADAM, &wrong, 1, &x, &x, NULL) &&
        strstr(heed_error(cx), "beta2") != NULL, "a number of a step by its name");
  heed_clear(cx);
  wrong = (heed_step){.step = 1, .dampening = NAN};
  check(!heed_optimize(cx, HEED_SGD, &wrong, 1, &x, &x, NULL) &&
        strstr(heed_error(cx), "SGD: argument 'dampening': a finite number expected, got ") != NULL,
        "a dampening that is none");
  heed_clear(cx);
  check(!heed_optimize(cx, HEED_NOPTIMIZERS, &step, 1, &x, &x, NULL) &&
        strcmp(heed_error(cx), "optimize: there is no such optimiser, or no step") == 0,
        "no such optimizer");
  heed_clear(cx);
  steps_are_refused(cx, x, foreign);
  entries_are_checked(cx, other);
  check(!heed_record_custom(cx, &custom, 1, &foreign, 1, &y) && heed_error(cx) != NULL,
        "a backward function for another context's");
  heed_clear(cx);
  heed_drop(y); heed_drop(foreign); heed_drop(seed); heed_drop(x);
}

static void mixes_precision (heed_context *cx, heed_context *other) {
  heed_tensor *x = leaf(cx, 2), *foreign = leaf(other, 2), *none = NULL;
  check(heed_set_autocast(cx, HEED_FLOAT16) == HEED_FLOAT32 && heed_autocast(cx) == HEED_FLOAT16,
        "mixed precision begins");
  check(heed_set_autocast(cx, HEED_INT64) == HEED_FLOAT16 && heed_error(cx) != NULL &&
        heed_autocast(cx) == HEED_FLOAT16, "a type that products are not converted to");
  heed_clear(cx);
  heed_tensor *y = heed_from(cx, HEED_FLOAT32, 2, (int64_t[]){2, 2}, (float[]){1, 2, 3, 4});
  heed_tensor *product = heed_call(cx, HEED_matmul, (heed_value[]){heed_t(y), heed_t(y)}, 2);
  check(heed_type_of(product) == HEED_FLOAT16, "a product in float16");
  heed_tensor *wide = heed_call(cx, HEED_to, (heed_value[]){heed_t(y), heed_s("float64")}, 2);
  check(heed_type_of(wide) == HEED_FLOAT64, "a type by its name");
  check(heed_call(cx, HEED_to, (heed_value[]){heed_t(y), heed_s("float65")}, 2) == NULL &&
        strstr(heed_error(cx), "no type is called 'float65'") != NULL, "a type that is none");
  heed_clear(cx);
  heed_drop(wide);
  check(heed_set_autocast(cx, HEED_FLOAT32) == HEED_FLOAT16, "mixed precision ends");
  check(heed_autocast(NULL) == HEED_FLOAT32 && heed_set_autocast(NULL, HEED_FLOAT16) ==
        HEED_FLOAT32, "mixed precision without a context");
  check(heed_clip_gradients(NULL, 1, 2, 1, &x) == NULL && heed_error(cx) == NULL, "no context");
  check(heed_clip_gradients(cx, -1, 2, 1, &x) == NULL, "a largest norm below 0");
  heed_clear(cx);
  check(heed_clip_gradients(cx, 1, 2, 1, &foreign) == NULL, "another context's gradient");
  heed_clear(cx);
  check(heed_gradient_norm(cx, 2, 1, &none) == NULL, "no parameter");
  heed_clear(cx);
  heed_tensor *norm = heed_gradient_norm(cx, 2, 0, NULL);
  check(norm != NULL && heed_error(cx) == NULL, "the norm of nothing");
  heed_drop(norm); heed_drop(product); heed_drop(y); heed_drop(foreign); heed_drop(x);
}

static void numbers_broadcast (heed_context *cx) {
  float zeros[6] = {0}, sum[6];
  heed_tensor *five = heed_number(cx, 5);
  heed_tensor *x = heed_from(cx, HEED_FLOAT32, 2, (int64_t[]){2, 3}, zeros);
  heed_data(five);                 /* gives it storage */
  heed_tensor *y = heed_call(cx, HEED_add, (heed_value[]){heed_t(x), heed_t(five)}, 2);
  check(heed_read(y, HEED_FLOAT32, sum) && sum[0] == 5 && sum[5] == 5, "a number in storage");
  heed_drop(y); heed_drop(x); heed_drop(five);
}

static void numbers_keep_their_types (heed_context *cx) {
  const int64_t most = ((int64_t)1 << 53) + 1;
  int64_t whole = 0;
  heed_tensor *n = heed_integer(cx, most);
  heed_tensor *y = heed_call(cx, HEED_neg, (heed_value[]){heed_t(n)}, 1);
  check(heed_type_of(n) == HEED_INT64 && heed_rank(n) == 0, "an integer is one");
  check(heed_read(y, HEED_INT64, &whole) && whole == -most, "an integer keeps all its digits");
  check(heed_integer(NULL, 1) == NULL, "an integer of no context");
  heed_drop(y); heed_drop(n);
}

/* Also while work is captured, when values of tensors cannot be read. */
static void numbers_become_bytes (heed_context *cx) {
  static const double from[] = {-INFINITY, -1.5, 0, 1.5, 300, INFINITY, NAN};
  static const uint8_t to[] = {0, 0, 0, 1, 255, 255, 0};
  for (int i = 0; i < 14; i++) {
    uint8_t byte = 9;
    heed_tensor *n = heed_number(cx, from[i % 7]);
    if (i == 7) check(heed_capture_begin(cx, "cpu"), "a capture");
    check(heed_read(n, HEED_UINT8, &byte) && byte == to[i % 7], "a number as the nearest byte");
    heed_drop(n);
  }
  heed_capture_drop(cx, heed_capture_end(cx));
}

static void nothing_is_lent (heed_context *cx) {
  const int64_t none = 0, one = 1;
  heed_tensor *empty = heed_lend(cx, HEED_FLOAT32, 1, &none, NULL, NULL, NULL);
  check(empty != NULL && heed_numel(empty) == 0, "no memory for no elements");
  refused(cx, heed_lend(cx, HEED_FLOAT32, 1, &one, NULL, NULL, NULL) == NULL,
          "lend: there are no data");
  heed_tensor *row = heed_from(cx, HEED_FLOAT32, 2, (int64_t[]){1, 1}, &(float){1});
  heed_value list[] = {heed_ts(1, (heed_tensor *[]){empty, row, NULL}), heed_i(0)};
  heed_tensor *y = heed_call(cx, HEED_cat, list, 2);
  check(y != NULL && heed_rank(y) == 1, "a list that ends before another tensor");
  heed_drop(row); heed_drop(y); heed_drop(empty);
}

static void bools_are_one (heed_context *cx) {
  uint8_t odd[4] = {0, 1, 2, 255}, bytes[4];
  const uint8_t even[4] = {0, 1, 1, 1};
  heed_tensor *lent = heed_lend(cx, HEED_BOOL, 1, (int64_t[]){4}, odd, NULL, NULL);
  heed_tensor *copied = heed_from(cx, HEED_BOOL, 1, (int64_t[]){4}, odd);
  check(heed_read(lent, HEED_BOOL, bytes) && memcmp(bytes, even, 4) == 0, "lent bools");
  check(memcmp(heed_data(copied), even, 4) == 0, "copied bools");
  check(heed_write(copied, HEED_BOOL, odd) && memcmp(heed_data(copied), even, 4) == 0,
        "written bools");
  heed_drop(copied); heed_drop(lent);
}

/* x / 3 by some threads, which begin while the host rounds upwards: later calls find them awake. */
static void divides (int threads, const float *x, const float *third) {
  enum { CALLS = 30 };
  heed_context *cx = heed_open(&(heed_host){.threads = threads});
  heed_tensor *t = heed_from(cx, HEED_FLOAT32, 1, (int64_t[]){LONG}, x), *q[CALLS];
  fesetround(FE_UPWARD);
  for (int i = 0; i < CALLS; i++)
    q[i] = heed_call(cx, HEED_div, (heed_value[]){heed_t(t), heed_f(3)}, 2);
  check(fegetround() == FE_UPWARD, "the host's rounding");
  fesetround(FE_TONEAREST);
  for (int i = 0; i < CALLS; i++) {
    check(memcmp(heed_data(q[i]), third, LONG * sizeof *third) == 0, "rounding to nearest");
    heed_drop(q[i]);
  }
  heed_drop(t);
  heed_close(cx);
}

static void rounds_alike (void) {
  static float x[LONG], third[LONG];
  for (int i = 0; i < LONG; i++) x[i] = (float)i, third[i] = x[i] / 3;
  divides(1, x, third);
  divides(4, x, third);
}

enum { FEW = 11, RESULTS = 8 };

/* Results that must not depend on the host's rounding mode, and numbers that show that mode. */
static void compute (heed_context *cx, float y[RESULTS][FEW]) {
  const int64_t size[] = {1, FEW};
  float own[FEW];
  for (int i = 0; i < FEW; i++) own[i] = (float)(i * i) * 0.375f;
  heed_tensor *out[RESULTS] = {0}, *x = heed_from(cx, HEED_FLOAT32, 2, size, own);
  heed_tensor *third = heed_number(cx, 1.0 / 3);
  heed_require_grad(x, true);
  const heed_value range[] = {heed_f(0), heed_f(1), heed_f(0.1)};
  const heed_value line[] = {heed_f(0), heed_f(0.7), heed_i(FEW)};
  out[0] = heed_call(cx, HEED_arange, range, 3);
  out[1] = heed_call(cx, HEED_linspace, line, 3);
  out[2] = heed_call(cx, HEED_full, (heed_value[]){heed_l(2, size), heed_t(third)}, 2);
  out[3] = heed_call(cx, HEED_mul, (heed_value[]){heed_t(x), heed_t(third)}, 2);
  out[4] = heed_call(cx, HEED_softmax, (heed_value[]){heed_t(x), heed_i(1)}, 2);
  heed_tensor *spread = heed_call(cx, HEED_std, (heed_value[]){heed_t(x)}, 1);
  heed_backward(spread, NULL, false);
  out[5] = heed_gradient(x);
  out[6] = heed_call(cx, HEED_mul, (heed_value[]){heed_t(x), heed_f(1e-40)}, 2);
  for (int i = 0; i < RESULTS; i++) {
    memset(y[i], 0, sizeof y[i]);
    if (heed_numel(out[i]) == FEW) heed_read(out[i], HEED_FLOAT32, y[i]);
    heed_drop(out[i]);
  }
  heed_drop(spread); heed_drop(third); heed_drop(x);
  heed_nearest(cx, &(heed_rows){HEED_ROWS_FLOAT32, FEW - 1, 2, sizeof *own, own, NULL},
               &(heed_rows){HEED_ROWS_FLOAT32, 1, 2, 2 * sizeof *own, (float[]){0.3f, 0.7f}, NULL},
               NULL, FEW, (int64_t[FEW]){0}, y[7]);
}

static void ignores_the_host_mode (heed_context *cx) {
  static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  float nearest[RESULTS][FEW], y[RESULTS][FEW];
  compute(cx, nearest);
  check(nearest[0][FEW - 1] == 1 && nearest[6][1] != 0, "eleven tenths, and a denormal");
  for (int i = 0; i < 3; i++) {
    fesetround(modes[i]);
    compute(cx, y);
    check(fegetround() == modes[i], "the host's rounding after every call");
    fesetround(FE_TONEAREST);
    for (int k = 0; k < RESULTS; k++)
      check(memcmp(y[k], nearest[k], sizeof y[k]) == 0, "a result, however the host rounds");
  }
#if defined(__SSE__)
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040);         /* flush to zero, denormals are zero */
  compute(cx, y);
  const unsigned after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before);
  check((after & 0x8040) == 0x8040, "the host's flushing after every call");
  check(memcmp(y, nearest, sizeof y) == 0, "results while the host flushes denormals");
#endif
}

/* The pairs of 3 queries and 3 keys that may attend, as the bits of a number; -1 for a failure. */
static int mask_of (heed_context *cx, int n, const int64_t *rule, int operands,
                    heed_tensor *const *ts) {
  bool may[9];
  const int64_t size[] = {1, 1, 3, 3};
  heed_value args[] = {heed_l(4, size), heed_l(n, rule), heed_ts(operands, ts)};
  heed_tensor *y = heed_call(cx, HEED_attention_mask, args, 3);
  int bits = heed_read(y, HEED_BOOL, may) ? 0 : -1;
  for (int i = 0; i < 9 && bits >= 0; i++) bits |= may[i] << i;
  heed_drop(y);
  heed_clear(cx);
  return bits;
}

static void rules_say_who_may_attend (heed_context *cx) {
  heed_tensor *ids = heed_from(cx, HEED_INT64, 1, (int64_t[]){3}, (int64_t[]){1, 1, 2});
  heed_tensor *none = NULL;
  const int64_t rule[] = {HEED_MASK_BAND, -1, 0, HEED_MASK_DOCUMENTS, HEED_MASK_AND,
                          HEED_MASK_FIRST, 1, HEED_MASK_OR};
  check(mask_of(cx, 0, rule, 0, NULL) == 0777, "a rule of no words");
  check(mask_of(cx, 3, rule, 0, NULL) == 0631, "a band");
  check(mask_of(cx, 5, rule, 1, &ids) == 0431, "a band within documents");
  check(mask_of(cx, 8, rule, 1, &ids) == 0531, "and the first key");
  check(mask_of(cx, 8, rule, 1, &none) == -1, "a tensor that is not there");
  for (int n = 1; n < 8; n++)
    check(n == 3 || n == 5 || mask_of(cx, n, rule, n > 3, &ids) == -1, "a rule that is cut off");
  const int64_t size[] = {1, 1, 3, 3}, cut[] = {HEED_MASK_BAND, -1, 0, HEED_MASK_BAND, -1};
  const heed_value args[] = {heed_l(4, size), heed_l(5, cut), heed_ts(0, NULL)};
  check(heed_call(cx, HEED_attention_mask, args, 3) == NULL &&
        strstr(heed_error(cx), "stands at number 4") != NULL, "where a rule is cut off");
  heed_clear(cx);
  heed_drop(ids);
  int64_t many[65 * 2 + 64];
  for (int i = 0; i < 65; i++) many[2 * i] = HEED_MASK_FIRST, many[2 * i + 1] = 1;
  for (int i = 0; i < 64; i++) many[64 * 2 + i] = HEED_MASK_AND;
  check(mask_of(cx, 64 * 2 + 63, many, 0, NULL) == 0111, "64 conditions that wait");
  for (int i = 0; i < 64; i++) many[65 * 2 + i] = HEED_MASK_AND;
  many[64 * 2] = HEED_MASK_FIRST;
  check(mask_of(cx, 65 * 2 + 64, many, 0, NULL) == -1, "one more");
}

/* Each argument stands where heed_describe says that it does. */
static void arguments_have_names (heed_context *cx) {
  const heed_signature *attention = heed_describe(cx, HEED_attention);
  const heed_parameter *p = attention->parameter;
  check(HEED_ARGS(attention) == attention->parameters, "how many arguments attention has");
  check(strcmp(p[HEED_ARG(attention, query)].name, "query") == 0 &&
        strcmp(p[HEED_ARG(attention, mask)].name, "mask") == 0 &&
        strcmp(p[HEED_ARG(attention, causal)].name, "causal") == 0, "attention's arguments");
#define IS_ARG(op, n) check(HEED_ARGS(op) == heed_describe(cx, HEED_##op)->parameters && \
    strcmp(heed_describe(cx, HEED_##op)->parameter[HEED_ARG(op, n)].name, #n) == 0, #op "'s " #n)
  IS_ARG(neg, input);
  IS_ARG(add, alpha);
  IS_ARG(lerp, weight);
  IS_ARG(softmax, dtype);
  IS_ARG(layer_norm, eps);
#undef IS_ARG
  heed_tensor *x = heed_from(cx, HEED_FLOAT32, 2, (int64_t[]){2, 1}, (float[]){1, 2});
  heed_value args[HEED_ARGS(attention)] = {0};
  float y[2];
  args[HEED_ARG(attention, query)] = args[HEED_ARG(attention, key)] = heed_t(x);
  args[HEED_ARG(attention, value)] = heed_t(x);
  args[HEED_ARG(attention, causal)] = heed_b(true);
  heed_tensor *z = heed_call(cx, HEED_attention, args, HEED_ARGS(attention));
  check(heed_read(z, HEED_FLOAT32, y) && y[0] == 1 && y[1] > 1, "a causal call");
  heed_drop(z); heed_drop(x);
}

/* A commit that cannot be done is refused before its first change. */
static void commits_whole_changes (heed_context *cx, heed_context *other) {
  heed_tensor *x = leaf(cx, 1), *y = leaf(cx, 2), *to = leaf(cx, 5), *away = leaf(other, 7);
  heed_tensor *pair = heed_from(cx, HEED_FLOAT64, 1, (int64_t[]){2}, (double[]){1, 2});
  heed_tensor *both[] = {x, y}, *fit[] = {to, x}, *wrong[] = {to, pair}, *foreign[] = {to, away};
  heed_changes c = {.op = HEED_copy, .ntargets = 2, .targets = both, .operands = wrong};
  check(!heed_commit(NULL, &c) && !heed_commit(cx, NULL), "no context, or no changes");
  check(!heed_commit(cx, &c) && value_of(x) == 1 && value_of(y) == 2, "a shape that does not fit");
  heed_clear(cx);
  c.operands = foreign;
  check(!heed_commit(cx, &c) && value_of(x) == 1, "a tensor of another context");
  heed_clear(cx);
  c = (heed_changes){.op = HEED_exp, .ntargets = 2, .targets = both, .operands = fit};
  refused(cx, !heed_commit(cx, &c), "commit: no tensors are written by this operation");
  heed_tensor *whole = heed_from(cx, HEED_INT64, 0, NULL, (int64_t[]){3}), *wholes[] = {x, whole};
  c = (heed_changes){.op = HEED_lerp, .ntargets = 2, .targets = wholes, .operands = fit};
  refused(cx, !heed_commit(cx, &c), "commit: target 2 is of no float type");
  c.targets = both;
  c.number = 0.5;
  check(heed_commit(cx, &c) && value_of(x) == 3 && value_of(y) == 1.5, "halfway");
  c.op = HEED_mul;
  check(heed_commit(cx, &c) && value_of(x) == 1.5 && value_of(y) == 0.75, "and half of that");
  heed_tensor *copy = heed_call(cx, HEED_clone, (heed_value[]){heed_t(pair)}, 1);
  heed_tensor *more = leaf(cx, 5), *gradients[] = {more, x};
  c = (heed_changes){.ntakers = 2, .takers = both, .givers = wrong, .gradients = gradients};
  refused(cx, !heed_commit(cx, &c) && value_of(x) == 1.5, "grad: shape (2) expected, got ()");
  gradients[1] = copy;
  check(heed_commit(cx, &c) && value_of(x) == 5 && gradient_of(x) == 5, "other memory");
  check(!heed_require_grad_all(cx, 2, (heed_tensor *[]){pair, away}, true) &&
        !heed_requires_grad(pair), "a leaf of another context");
  heed_clear(cx);
  check(heed_require_grad_all(cx, 2, both, false) && !heed_requires_grad(x), "no leaves");
  heed_drop(x); heed_drop(y); heed_drop(to); heed_drop(away); heed_drop(pair); heed_drop(copy);
  heed_drop(more); heed_drop(whole);
}

int main (void) {
  heed_context *cx = heed_open(NULL), *other = heed_open(NULL);
  nothing_is_set();
  nothing_comes_back(cx);
  no_lists_come_back(cx);
  steps_are_there(cx);
  reads_no_null();
  arguments_have_names(cx);
  gradients_are_hooked(cx);
  numbers_are_gradients(cx, other);
  mixes_precision(cx, other);
  numbers_broadcast(cx);
  numbers_keep_their_types(cx);
  numbers_become_bytes(cx);
  nothing_is_lent(cx);
  bools_are_one(cx);
  rounds_alike();
  rules_say_who_may_attend(cx);
  ignores_the_host_mode(cx);
  commits_whole_changes(cx, other);
  heed_close(other);
  heed_close(cx);
  if (!failed) puts("api: as heed.h says");
  return failed;
}
