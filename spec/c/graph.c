/*
** graph.c - what a graph costs: the bytes that recorded operations keep, and give back; and a pass
** within a pass, where memory ends.
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failing.h"
#include "heed.h"

enum { LENGTH = 4096, MOST = 512 };    /* operations of a chain; bytes for each of them */

/* Counts what is alive. */
static void *resize (void *self, void *block, size_t old_size, size_t new_size) {
  size_t *alive = self;
  void *result = NULL;
  if (new_size == 0) free(block);
  else result = realloc(block, new_size);
  if (new_size > 0 && result == NULL) return NULL;
  *alive += new_size - old_size;       /* which is 0 for a new block */
  return result;
}

/* x op w, op w … */
static heed_tensor *chain (heed_context *cx, heed_op op, heed_tensor *x, heed_tensor *w, int n) {
  heed_tensor *y = heed_keep(x);
  for (int i = 0; i < n; i++) {
    heed_tensor *next = heed_call(cx, op, (heed_value[]){heed_t(y), heed_t(w)}, 2);
    heed_drop(y);
    y = next;
  }
  return y;
}

static bool check (heed_context *cx, const size_t *alive, heed_op op, heed_tensor *x,
                   heed_tensor *w) {
  heed_drop(chain(cx, op, x, w, 2));             /* the cached tensors are there */
  size_t before = *alive;
  heed_tensor *y = chain(cx, op, x, w, LENGTH);
  size_t each = (*alive - before) / LENGTH;
  bool good = y != NULL && each <= MOST && heed_backward(y, x, false);
  heed_drop(y);
  heed_memory_trim(cx);
  heed_tensor *g = heed_gradient(x);
  good = good && g != NULL && *alive <= before + 4096;
  if (!good) printf("graph: %zu bytes for each %s, %zu kept\n", each, heed_describe(cx, op)->name,
                    *alive - before);
  heed_drop(g);
  heed_set_gradient(x, NULL);
  return good;
}


/*
** {==================================================================
** A pass within a pass
** ===================================================================
*/

typedef struct inner {
  heed_context *cx;
  failing *memory;
  heed_tensor *y;                  /* its pass reaches what waits in the outer one */
  long n;                          /* the request for memory that fails; -1: none */
} inner;

static bool pass_again (void *self, int noutputs, heed_tensor *const *gradients, int ninputs,
                        heed_tensor **results) {
  inner *in = self;
  (void)noutputs; (void)ninputs;
  if (in->n >= 0) heed_memory_trim(in->cx);
  in->memory->countdown = in->n;
  const bool good = heed_backward(in->y, NULL, true);
  in->memory->countdown = -1;
  if (good) *results = heed_keep(*gradients);
  return good;
}

/* 1: there are not so many requests; 0: the pass fails whole; -1: wrong. */
static int within_pass (long n, bool onwards) {
  failing memory = {.countdown = -1, .onwards = onwards, .twice = true};
  heed_context *cx = heed_open(&(heed_host){.resize = failing_resize, .self = &memory,
                                            .threads = 1});
  double value = 3;
  inner in = {cx, &memory, NULL, n};
  const heed_custom custom = {pass_again, NULL, &in};
  heed_tensor *x = heed_from(cx, HEED_FLOAT64, 0, NULL, &value);
  heed_require_grad(x, true);
  heed_tensor *square = heed_call(cx, HEED_square, (heed_value[]){heed_t(x)}, 1);
  heed_tensor *twice = heed_call(cx, HEED_mul, (heed_value[]){heed_t(square), heed_i(2)}, 2);
  in.y = heed_call(cx, HEED_sub, (heed_value[]){heed_t(square), heed_t(twice)}, 2);
  heed_tensor *z = heed_from(cx, HEED_FLOAT64, 0, NULL, &value);
  bool good = heed_record_custom(cx, &custom, 1, &x, 1, &z);
  heed_tensor *y = heed_call(cx, HEED_add, (heed_value[]){heed_t(square), heed_t(z)}, 2);
  const bool done = heed_backward(y, NULL, true);
  if (done) good = good && heed_error(cx) == NULL;
  else {
    const char *error = heed_error(cx);
    good = good && memory.failed && error != NULL && strstr(error, "not enough memory") != NULL &&
           heed_gradient(x) == NULL;
    heed_clear(cx);
    in.n = -1;
    good = good && heed_backward(y, NULL, true);
  }
  heed_tensor *g = heed_gradient(x);
  good = good && heed_read(g, HEED_FLOAT64, &value) && value == 1;     /* 6 + 1 - 6 */
  heed_drop(g); heed_drop(y); heed_drop(z); heed_drop(in.y); heed_drop(twice);
  heed_drop(square); heed_drop(x);
  heed_close(cx);
  return !good || memory.alive != 0 ? -1 : done && !memory.failed;
}

static bool passes_fail_whole (bool onwards) {
  int result = 0;
  long n = 0;
  while (n < 1000 && (result = within_pass(n, onwards)) == 0) n++;
  if (result != 1 || n < 3) printf("graph: a pass within a pass, without memory %ld: wrong\n", n);
  return result == 1 && n >= 3;
}

/* }================================================================== */


static bool sets_recording (void *self, int noutputs, heed_tensor *const *gradients, int ninputs,
                            heed_tensor **results) {
  (void)noutputs; (void)gradients; (void)ninputs;
  *results = NULL;
  heed_set_recording(self, false);
  return true;
}

/* Settings that a hook makes hold until it returns: the gradient behind it is recorded. */
static bool hooks_set_nothing (void) {
  heed_context *cx = heed_open(NULL);
  const heed_custom hook = {sets_recording, NULL, cx};
  const double three = 3;
  double value = 0;
  heed_tensor *x = heed_from(cx, HEED_FLOAT64, 0, NULL, &three), *g = NULL, *twice = NULL;
  heed_require_grad(x, true);
  heed_tensor *square = heed_call(cx, HEED_square, (heed_value[]){heed_t(x)}, 1);
  heed_tensor *y = heed_call(cx, HEED_square, (heed_value[]){heed_t(square)}, 1);
  bool good = heed_add_hook(square, &hook) != NULL &&
              heed_recorded_gradients(y, NULL, 1, &x, &g) && heed_recording(cx) &&
              heed_gradients(g, NULL, 1, &x, &twice, false) &&
              heed_read(twice, HEED_FLOAT64, &value) && value == 108;        /* of x^4: 12 x^2 */
  if (!good) puts("graph: what a hook sets stays set");
  heed_drop(twice); heed_drop(g); heed_drop(y); heed_drop(square); heed_drop(x);
  heed_close(cx);
  return good;
}


/* Gives zeros. */
static bool zeros_back (void *self, int n, heed_tensor *const *gradients, int ninputs,
                        heed_tensor **results) {
  (void)self; (void)n; (void)gradients; (void)ninputs; (void)results;
  return true;
}


/*
** A view that was the third result of a host's operation is the first of a step of its own, once
** its base was changed in place.
*/
static bool views_are_made_anew (void) {
  heed_context *cx = heed_open(NULL);
  const int64_t size[] = {3};
  const double numbers[] = {1, 2, 3};
  const heed_custom custom = {zeros_back, NULL, NULL};
  heed_tensor *x = heed_from(cx, HEED_FLOAT64, 1, size, numbers);
  heed_tensor *w = heed_from(cx, HEED_FLOAT64, 1, size, numbers);
  heed_tensor *base = heed_from(cx, HEED_FLOAT64, 1, size, numbers);
  heed_tensor *view = heed_call(cx, HEED_narrow, (heed_value[]){heed_t(base), heed_i(0), heed_i(2),
                                heed_i(2)}, 4);
  heed_tensor *outputs[] = {heed_detach(x), heed_detach(x), view};
  heed_require_grad(x, true);
  heed_require_grad(w, true);
  double got[3] = {-1, -1, -1};
  bool good = heed_record_custom(cx, &custom, 1, &x, 3, outputs) &&
              heed_apply_in_place(cx, HEED_mul, (heed_value[]){heed_t(base), heed_t(w)}, 2);
  heed_tensor *sum = heed_call(cx, HEED_sum, (heed_value[]){heed_t(view)}, 1);
  good = good && heed_backward(sum, NULL, false);
  heed_tensor *g = heed_gradient(w);
  good = good && g != NULL && heed_read(g, HEED_FLOAT64, got) && got[0] == 0 && got[1] == 2 &&
         got[2] == 3;
  if (!good) printf("graph: a view made anew: %g, %g, %g\n", got[0], got[1], got[2]);
  for (int i = 0; i < 3; i++) heed_drop(outputs[i]);
  heed_drop(g); heed_drop(sum); heed_drop(base); heed_drop(w); heed_drop(x);
  heed_close(cx);
  return good;
}


/*
** {==================================================================
** Steps of a graph, of which one lacks memory
** ===================================================================
*/

enum {
  LEAF, CUSTOM, CALL, VIEW, RETAIN_VIEW, IN_VIEW, OVERLAY, OF_VIEW, HOOK, RETAIN, DETACH, PASS,
  STEPS
};

static const char *const steps[] = {
  "a leaf", "a host's operation", "a call", "a view", "a gradient that the view retains",
  "a change of the view", "a change of its base", "a call with the view", "a hook",
  "a gradient that is retained", "a tensor without a graph", "a pass"
};

typedef struct graph {
  heed_tensor *x, *custom, *y, *view, *z, *bare;
} graph;

static bool keeps_gradient (void *self, int noutputs, heed_tensor *const *gradients, int ninputs,
                            heed_tensor **results) {
  (void)self; (void)noutputs; (void)gradients; (void)ninputs; (void)results;
  return true;
}

static bool take_step (heed_context *cx, graph *g, int step) {
  static const heed_custom custom = {zeros_back, NULL, NULL}, hook = {keeps_gradient, NULL, NULL};
  switch (step) {
    case LEAF: return heed_require_grad(g->x, true);
    case CUSTOM: return heed_record_custom(cx, &custom, 1, &g->x, 1, &g->custom);
    case CALL:
      g->y = heed_call(cx, HEED_mul, (heed_value[]){heed_t(g->x), heed_t(g->custom)}, 2);
      return g->y != NULL;
    case VIEW:
      g->view = heed_call(cx, HEED_narrow, (heed_value[]){heed_t(g->y), heed_i(0), heed_i(2),
                          heed_i(2)}, 4);
      return g->view != NULL;
    case RETAIN_VIEW: return heed_retain_gradient(g->view);
    case IN_VIEW:
      return heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(g->view), heed_i(1)}, 2);
    case OVERLAY:
      return heed_apply_in_place(cx, HEED_mul, (heed_value[]){heed_t(g->y), heed_t(g->x)}, 2);
    case OF_VIEW:
      g->z = heed_call(cx, HEED_sum, (heed_value[]){heed_t(g->view)}, 1);
      return g->z != NULL;
    case HOOK: return heed_add_hook(g->y, &hook) != NULL;
    case RETAIN: return heed_retain_gradient(g->y);
    case DETACH: return (g->bare = heed_detach(g->y)) != NULL;
    default: return heed_backward(g->z, NULL, true);
  }
}

/* 1: there are not so many requests; 0: the step fails whole; -1: wrong. */
static int within_step (int step, long n, bool onwards) {
  failing memory = {.countdown = -1, .onwards = onwards, .twice = true};
  heed_context *cx = heed_open(&(heed_host){.resize = failing_resize, .self = &memory,
                                            .threads = 1});
  const int64_t size = 3;
  const double numbers[] = {1, 2, 3};
  double got[3] = {0};
  graph g = {.x = heed_from(cx, HEED_FLOAT64, 1, &size, numbers),
             .custom = heed_from(cx, HEED_FLOAT64, 1, &size, numbers)};
  bool good = true;
  for (int i = 0; i < STEPS; i++) {
    heed_memory_trim(cx);
    memory.countdown = i == step ? n : -1;
    bool done = take_step(cx, &g, i);
    memory.countdown = -1;
    const char *error = heed_error(cx);
    good = good && (done ? error == NULL : i == step && memory.failed && error != NULL &&
                    strstr(error, "not enough memory") != NULL);
    heed_clear(cx);
    good = good && (done || take_step(cx, &g, i));
  }
  heed_tensor *of_x = heed_gradient(g.x), *of_y = heed_gradient(g.y);
  heed_tensor *of_view = heed_gradient(g.view);
  good = good && heed_read(of_x, HEED_FLOAT64, got) && got[0] == 0 && got[1] == 9 && got[2] == 19;
  good = good && heed_read(of_view, HEED_FLOAT64, got) && got[0] == 1 && got[1] == 1;
  good = good && heed_read(of_y, HEED_FLOAT64, got) && got[0] == 0 && got[1] == 1 && got[2] == 1;
  heed_drop(of_view); heed_drop(of_x); heed_drop(of_y);
  heed_drop(g.bare); heed_drop(g.z); heed_drop(g.view);
  heed_drop(g.y); heed_drop(g.custom); heed_drop(g.x);
  heed_close(cx);
  return !good || memory.alive != 0 ? -1 : !memory.failed;
}

static bool steps_fail_whole (bool onwards) {
  for (int step = 0; step < STEPS; step++) {
    int result = 0;
    long n = 0;
    while (n < 1000 && (result = within_step(step, n, onwards)) == 0) n++;
    if (result == 1 && n > 0) continue;
    printf("graph: %s, without memory %ld: wrong\n", steps[step], n);
    return false;
  }
  return true;
}

/* }================================================================== */


/* x^0, whose value is not needed: it may change, and no failure is left behind. */
static bool value_is_left_out (heed_context *cx, heed_tensor *x) {
  heed_tensor *none = heed_number(cx, 0), *g = NULL;
  heed_tensor *a = heed_call(cx, HEED_mul, (heed_value[]){heed_t(x), heed_t(x)}, 2);
  heed_tensor *y = heed_call(cx, HEED_pow, (heed_value[]){heed_t(a), heed_t(none)}, 2);
  heed_tensor *sum = heed_call(cx, HEED_sum, (heed_value[]){heed_t(y)}, 1);
  heed_set_recording(cx, false);
  bool good = heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(a), heed_t(x)}, 2);
  heed_set_recording(cx, true);
  good = good && heed_recorded_gradients(sum, NULL, 1, &x, &g) && heed_error(cx) == NULL;
  if (!good) puts("graph: a value that is left out is read");
  heed_drop(g); heed_drop(sum); heed_drop(y); heed_drop(a); heed_drop(none);
  return good;
}


int main (void) {
  size_t alive = 0;
  heed_host host = {.resize = resize, .self = &alive, .threads = 1};
  heed_context *cx = heed_open(&host);
  const int64_t size[] = {2, 3};
  const float numbers[6] = {1, 1, 1, 1, 1, 1};
  heed_tensor *x = heed_from(cx, HEED_FLOAT32, 2, size, numbers);
  heed_tensor *w = heed_from(cx, HEED_FLOAT32, 2, size, numbers);
  bool good = heed_require_grad(x, true) && check(cx, &alive, HEED_add, x, w) &&
              check(cx, &alive, HEED_mul, x, w) && value_is_left_out(cx, x);
  if (!good && heed_error(cx) != NULL) puts(heed_error(cx));
  heed_drop(x);
  heed_drop(w);
  heed_close(cx);
  return good && alive == 0 && passes_fail_whole(true) && passes_fail_whole(false) &&
         hooks_set_nothing() && views_are_made_anew() && steps_fail_whole(true) &&
         steps_fail_whole(false) ? EXIT_SUCCESS : EXIT_FAILURE;
}
