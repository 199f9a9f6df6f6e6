/*
** capture.c - captures of the CPU's work: also random numbers, interrupted replays, two contexts.
*/

#include <pthread.h>
#include <unistd.h>

#define DEVICE "cpu"
#include "captures.h"


static heed_tensor *draw (heed_context *cx) {
  return heed_call(cx, HEED_randn, (heed_value[]){heed_l(1, (int64_t[]){N})}, 1);
}


/* Replays draw the numbers that the work itself would. */
static void draws (heed_context *cx) {
  float wanted[4][N], got[N];
  heed_seed(cx, 5);
  for (int i = 0; i < 4; i++) {
    heed_tensor *y = draw(cx);
    check(heed_read(y, HEED_FLOAT32, wanted[i]), "numbers");
    heed_drop(y);
  }
  heed_seed(cx, 5);
  check(heed_capture_begin(cx, DEVICE), "a capture begins");
  heed_tensor *y = draw(cx);
  check(!heed_read(y, HEED_FLOAT32, got) && heed_data(y) == NULL, "nothing is there to be read");
  heed_clear(cx);
  heed_capture *c = heed_capture_end(cx);
  for (int i = 0; i < 4; i++) {
    check(heed_capture_replay(cx, c) && heed_read(y, HEED_FLOAT32, got), "a replay");
    check(memcmp(got, wanted[i], sizeof got) == 0, "the same numbers");
  }
  heed_drop(y);
  heed_capture_drop(cx, c);
}


/* Tensors dropped in a pause serve the capture alone: no other tensor has their memory. */
static void drops_in_pauses (heed_context *cx) {
  check(heed_capture_begin(cx, DEVICE), "a capture with a pause");
  heed_tensor *y = draw(cx);
  heed_capture_pause(cx, false);   /* none is there, */
  heed_capture_pause(cx, true);
  heed_capture_pause(cx, true);    /* and another is none */
  heed_drop(y);
  heed_tensor *own = heed_call(cx, HEED_zeros, (heed_value[]){heed_l(1, (int64_t[]){N})}, 1);
  heed_capture_pause(cx, false);
  heed_capture *c = heed_capture_end(cx);
  check(heed_capture_replay(cx, c) && is(own, 0, 0, 0), "memory that is not the capture's");
  heed_drop(own);
  heed_capture_drop(cx, c);
}


static void *interrupt_soon (void *cx) {
  usleep(50000);
  heed_interrupt(cx);
  return NULL;
}


/* A dot product of 2^44 elements behind a sum in place, which is done once in each replay. */
static heed_capture *endless (heed_context *cx, heed_tensor *x) {
  const int64_t size[] = {(int64_t)1 << 44};
  if (!heed_capture_begin(cx, DEVICE)) return NULL;
  heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(x), heed_f(1)}, 2);
  heed_tensor *first = heed_call(cx, HEED_select, (heed_value[]){heed_t(x), heed_i(0), heed_i(1)},
                                 3);
  heed_tensor *wide = heed_call(cx, HEED_expand, (heed_value[]){heed_t(first), heed_l(1, size)}, 2);
  heed_tensor *y = heed_call(cx, HEED_matmul, (heed_value[]){heed_t(wide), heed_t(wide)}, 2);
  heed_drop(first);
  heed_drop(wide);
  heed_drop(y);
  return heed_capture_end(cx);
}


static void interrupts (heed_context *cx) {
  heed_tensor *x = vector(cx, 1);
  heed_capture *c = endless(cx, x);
  check(c != NULL, "a capture of hours");
  for (int threads = 1; threads <= 3; threads += 2) {
    pthread_t other;
    heed_set_threads(cx, threads);
    pthread_create(&other, NULL, interrupt_soon, cx);
    int64_t version = heed_version(x);
    check(!heed_capture_replay(cx, c) && strcmp(heed_error(cx), "capture: interrupted") == 0,
          "a replay is stopped");
    pthread_join(other, NULL);
    heed_clear(cx);
    check(heed_version(x) > version, "what it changed counts as changed");
  }
  check(is(x, 3, 4, 5), "what came before was done");
  heed_interrupt(cx);
  check(!heed_capture_replay(cx, c), "nor does it begin");
  heed_clear(cx);
  check(is(x, 3, 4, 5), "it did not begin");
  heed_capture_drop(cx, c);
  heed_drop(x);
}


/* Each records its own work. */
static void two_contexts (heed_context *cx) {
  heed_context *other = heed_open(NULL);
  heed_tensor *x = vector(cx, 1), *w = vector(cx, 7), *y = vector(other, 1);
  check(heed_require_grad(w, true), "w is a leaf");
  check(heed_capture_begin(cx, DEVICE), "a capture begins");
  heed_apply_in_place(other, HEED_add, (heed_value[]){heed_t(y), heed_f(1)}, 2);
  check(is(y, 2, 3, 4), "the other context works");
  check(work(cx, w, x), "work");
  heed_capture *c = heed_capture_end(cx);
  heed_set_gradient(w, NULL);
  check(heed_capture_replay(cx, c) && has_gradient(w, 1, 2, 3), "a replay");
  heed_drop(y);
  heed_close(other);
  heed_drop(x);
  heed_drop(w);
  heed_capture_drop(cx, c);
}


/* The storage of a number that captured work needed is written at once, and outlives it. */
static void numbers_outlive_captures (heed_context *cx) {
  heed_tensor *n = heed_number(cx, 5);
  const heed_value wide[] = {heed_t(n), heed_l(1, (int64_t[]){N})};
  check(heed_capture_begin(cx, DEVICE), "a capture begins");
  heed_tensor *view = heed_call(cx, HEED_expand, wide, 2);
  heed_tensor *lost = heed_call(cx, HEED_neg, (heed_value[]){heed_t(view)}, 1);
  heed_capture_drop(cx, heed_capture_end(cx));
  float got[N];
  check(!heed_read(lost, HEED_FLOAT32, got) && heed_error(cx) != NULL &&
        strcmp(heed_error(cx), "a tensor has no value: the work that makes it was captured, and "
               "then dropped") == 0, "a result of the capture has no value");
  heed_clear(cx);
  check(heed_data(lost) == NULL && heed_error(cx) != NULL, "nor memory to be read");
  heed_clear(cx);
  check(is(view, 5, 5, 5), "a view of the number has its value");
  check(heed_read(n, HEED_FLOAT32, got) && got[0] == 5, "and the number");
  heed_drop(lost);
  heed_drop(view);
  heed_drop(n);
}


/* Changes that a capture makes, and tensors that take the place of those it read. */
static void inputs_are_apart (heed_context *cx) {
  heed_tensor *x = vector(cx, 1), *z = vector(cx, 2), *fresh = vector(cx, 3);
  heed_tensor *number = heed_number(cx, 1);
  heed_tensor *one = heed_from(cx, HEED_FLOAT32, 0, NULL, &(float){1});
  heed_tensor *wide = heed_call(cx, HEED_expand,
                                (heed_value[]){heed_t(one), heed_l(1, (int64_t[]){N})}, 2);
  heed_tensor *view = heed_call(cx, HEED_view,
                                (heed_value[]){heed_t(x), heed_l(1, (int64_t[]){N})}, 2);
  check(heed_capture_begin(cx, DEVICE), "a capture begins");
  heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(x), heed_t(z)}, 2);
  heed_tensor *y = heed_call(cx, HEED_neg, (heed_value[]){heed_t(x)}, 1);
  heed_capture *c = heed_capture_end(cx);
  check(heed_capture_changes(c, x) && !heed_capture_changes(c, z) &&
        !heed_capture_changes(c, fresh) && heed_capture_changes(c, NULL) &&
        !heed_capture_changes(NULL, x) && !heed_capture_changes(NULL, NULL), "what it changes");
  check(heed_shares_memory(x, view) && heed_shares_memory(x, x) && !heed_shares_memory(x, z) &&
        !heed_shares_memory(number, number) && !heed_shares_memory(NULL, x) &&
        !heed_shares_memory(x, NULL), "memory that is shared");
  check(heed_capture_apart(c, x, fresh) && heed_capture_apart(c, z, fresh) &&
        heed_capture_apart(c, x, NULL) && heed_capture_apart(NULL, x, x), "other memory");
  check(!heed_capture_apart(c, x, z) && !heed_capture_apart(c, z, x) &&
        !heed_capture_apart(c, z, view), "memory that it changes, or reads");
  check(!heed_capture_apart(c, x, y) && heed_capture_apart(c, z, y), "memory that it made");
  check(heed_capture_apart(c, z, z) && heed_capture_apart(c, z, number) &&
        heed_capture_apart(c, z, wide), "what is read alone");
  check(!heed_capture_apart(c, x, number) && !heed_capture_apart(c, x, wide),
        "what cannot be changed");
  check(heed_capture_state_of(c) == HEED_CAPTURE_READY && heed_capture_steps(c) == 0 &&
        heed_capture_steps(NULL) == 0 && heed_capture_state_of(NULL) == HEED_CAPTURE_READY,
        "its state");
  heed_capture_drop(cx, c);
  heed_capture_drop(cx, NULL);
  heed_capture_drop(NULL, NULL);
  check(!heed_capture_replay(cx, NULL) && !heed_capture_replay(NULL, NULL) &&
        heed_error(cx) == NULL, "no capture");
  heed_drop(x); heed_drop(z); heed_drop(fresh); heed_drop(number); heed_drop(one); heed_drop(wide);
  heed_drop(view); heed_drop(y);
}


/* A capture that was never done takes back what it did, and not what came later. */
static void takes_back_its_own (heed_context *cx) {
  const int64_t nodes = heed_graph_nodes(cx);
  heed_tensor *x = vector(cx, 1), *w = vector(cx, 2), *other = vector(cx, 3), *in = vector(cx, 4);
  check(heed_require_grad(w, true), "w is a leaf");
  heed_tensor *y = heed_call(cx, HEED_mul, (heed_value[]){heed_t(w), heed_i(2)}, 2);
  heed_tensor *z = heed_call(cx, HEED_mul, (heed_value[]){heed_t(w), heed_i(3)}, 2);
  heed_tensor *v = vector(cx, 5), *all[] = {x, w, y, z, in};
  check(heed_require_grad(v, true), "v is a leaf");
  check(heed_capture_begin(cx, DEVICE), "a capture begins");
  for (int i = 0; i < 4; i++)
    heed_drop(heed_call(cx, HEED_neg, (heed_value[]){heed_t(all[i])}, 1));
  heed_apply_in_place(cx, HEED_mul, (heed_value[]){heed_t(z), heed_t(v)}, 2);
  heed_apply_in_place(cx, HEED_mul, (heed_value[]){heed_t(in), heed_t(v)}, 2);
  heed_capture *c = heed_capture_end(cx);
  const int64_t version = heed_version(in);
  check(heed_require_grad(x, true) && heed_require_grad(w, false), "a leaf more, and one less");
  check(heed_take_over(y, other) && !heed_requires_grad(y), "a tensor with other memory");
  check(heed_take_over(z, other) && heed_apply_in_place(cx, HEED_mul, (heed_value[]){heed_t(z),
        heed_t(v)}, 2) && heed_requires_grad(z), "another, with a graph");
  heed_capture_drop(cx, c);
  check(heed_requires_grad(x) && heed_is_leaf(x), "it is a leaf yet");
  check(!heed_requires_grad(w), "it is none any more");
  check(!heed_requires_grad(y) && heed_shares_memory(y, other), "the other memory has no graph");
  check(!heed_requires_grad(in) && heed_version(in) == version - 1, "a change that was not done");
  heed_tensor *sum = heed_call(cx, HEED_sum, (heed_value[]){heed_t(z)}, 1);
  check(heed_backward(sum, NULL, false) && has_gradient(v, 3, 4, 5), "nor has the graph gone");
  for (int i = 0; i < 5; i++) heed_drop(all[i]);
  heed_drop(other); heed_drop(v); heed_drop(sum);
  check(heed_graph_nodes(cx) == nodes, "no node is left");
}


/* A replay that does not begin makes no gradient, though the one before it did. */
static void stops_before_it_begins (heed_context *cx) {
  heed_tensor *x = vector(cx, 1), *w = vector(cx, 7);
  check(heed_require_grad(w, true), "w is a leaf");
  heed_capture *c = capture(cx, w, x);
  heed_set_gradient(w, NULL);
  check(heed_capture_replay(cx, c) && has_gradient(w, 1, 2, 3), "a replay");
  heed_set_gradient(w, NULL);
  heed_interrupt(cx);
  check(!heed_capture_replay(cx, c) && heed_gradient(w) == NULL, "one that does not begin");
  check(strcmp(heed_error(cx), "capture: interrupted") == 0, "what it says");
  heed_clear(cx);
  check(heed_capture_replay(cx, c) && has_gradient(w, 1, 2, 3), "the next one");
  heed_capture_drop(cx, c);
  heed_drop(x);
  heed_drop(w);
}


/* Bytes of the host that captured work holds beside tensors: calls with x and, many times, with y,
   or, where that is NULL, with the result of the first. */
static size_t bytes_of_capture (heed_context *cx, heed_tensor *x, heed_tensor *y) {
  heed_memory_trim(cx);
  const size_t before = heed_memory_now(cx).other;
  check(heed_capture_begin(cx, DEVICE), "a capture begins");
  heed_tensor *made = heed_call(cx, HEED_neg, (heed_value[]){heed_t(x)}, 1);
  for (int i = 0; i < 400; i++)
    heed_drop(heed_call(cx, HEED_neg, (heed_value[]){heed_t(y != NULL ? y : made)}, 1));
  heed_capture *c = heed_capture_end(cx);
  const size_t held = heed_memory_now(cx).other - before;
  check(c != NULL, "a capture of many calls");
  heed_capture_drop(cx, c);
  heed_drop(made);
  return held;
}


/* Inputs of recorded work are kept once, be it the first or a later one. */
static void keeps_inputs_once (heed_context *cx) {
  enum { LITTLE = 4096 };
  heed_tensor *x = vector(cx, 1), *y = vector(cx, 2);
  bytes_of_capture(cx, x, y);
  const size_t without = bytes_of_capture(cx, x, NULL);
  check(bytes_of_capture(cx, x, x) < without + LITTLE, "the first input");
  check(bytes_of_capture(cx, x, y) < without + LITTLE, "the second input");
  heed_drop(x); heed_drop(y);
}


/* A pass reads the gradient that it begins with, whose memory no other tensor gets meanwhile. */
static void keeps_first_gradients (heed_context *cx) {
  heed_tensor *w = vector(cx, 7), *seed = vector(cx, 4);
  check(heed_require_grad(w, true) && heed_capture_begin(cx, DEVICE), "a capture begins");
  heed_tensor *y = heed_call(cx, HEED_mul, (heed_value[]){heed_t(w), heed_i(2)}, 2);
  check(heed_backward(y, seed, false), "a pass");
  heed_capture *c = heed_capture_end(cx);
  heed_drop(seed);
  heed_tensor *others[] = {vector(cx, 100), vector(cx, 200), vector(cx, 300)};
  check(heed_capture_replay(cx, c) && has_gradient(w, 8, 10, 12), "the gradient it began with");
  heed_capture_drop(cx, c);
  for (int i = 0; i < 3; i++) heed_drop(others[i]);
  heed_drop(w); heed_drop(y);
}


/* A graph lacks the saved values that a capture was to make and that was dropped. */
static void loses_saved_values (heed_context *cx) {
  heed_tensor *w = vector(cx, 7), *x = vector(cx, 1), *seed = vector(cx, 4);
  check(heed_require_grad(w, true) && heed_capture_begin(cx, DEVICE), "a capture begins");
  heed_tensor *factor = heed_call(cx, HEED_neg, (heed_value[]){heed_t(x)}, 1);
  heed_tensor *y = heed_call(cx, HEED_mul, (heed_value[]){heed_t(w), heed_t(factor)}, 2);
  heed_capture_drop(cx, heed_capture_end(cx));
  check(!heed_backward(y, seed, false) && heed_error(cx) != NULL &&
        strcmp(heed_error(cx), "mul: a tensor has no value: the work that makes it was captured, "
               "and then dropped") == 0, "a pass that reads it");
  heed_clear(cx);
  heed_drop(y);
  check(heed_set_gradient(w, factor), "a gradient that has no value");
  heed_tensor *v = vector(cx, 5);
  check(heed_require_grad(v, true) && heed_set_gradient(v, x), "another leaf");
  y = heed_call(cx, HEED_add, (heed_value[]){heed_t(w), heed_t(v)}, 2);
  check(!heed_backward(y, seed, false) && has_gradient(v, 1, 2, 3), "a pass that adds to it");
  heed_clear(cx);
  heed_drop(w); heed_drop(x); heed_drop(seed); heed_drop(factor); heed_drop(y); heed_drop(v);
}


/* The graph that a tensor had is kept until the first replay alone: the tensor may lose it then. */
static void lets_graphs_go (heed_context *cx) {
  heed_tensor *w = vector(cx, 7), *other = vector(cx, 1);
  check(heed_require_grad(w, true), "w is a leaf");
  heed_tensor *y = heed_call(cx, HEED_mul, (heed_value[]){heed_t(w), heed_i(2)}, 2);
  heed_set_recording(cx, false);
  check(heed_capture_begin(cx, DEVICE), "a capture begins");
  heed_drop(heed_call(cx, HEED_neg, (heed_value[]){heed_t(y)}, 1));
  heed_capture *c = heed_capture_end(cx);
  heed_set_recording(cx, true);
  const int64_t nodes = heed_graph_nodes(cx);
  check(heed_capture_replay(cx, c) && heed_graph_nodes(cx) == nodes, "a replay");
  check(heed_take_over(y, other) && heed_graph_nodes(cx) == nodes - 1, "the graph has gone");
  heed_capture_drop(cx, c);
  heed_drop(w); heed_drop(y); heed_drop(other);
}


/* The gradient that was there before is let go by the first replay of work that sets it anew. */
static void lets_gradients_go (heed_context *cx) {
  enum { WIDE = 1 << 18 };         /* 1 MiB of floats */
  const int64_t size = WIDE;
  const heed_value wide[] = {heed_l(1, &size), heed_i(HEED_FLOAT32)};
  heed_tensor *w = heed_call(cx, HEED_ones, wide, 1), *g = heed_call(cx, HEED_ones, wide, 1);
  check(heed_require_grad(w, true) && heed_set_gradient(w, g), "a leaf with a gradient");
  heed_drop(g);
  check(heed_capture_begin(cx, DEVICE), "a capture begins");
  heed_set_gradient(w, NULL);
  heed_tensor *sum = heed_call(cx, HEED_sum, (heed_value[]){heed_t(w)}, 1);
  check(heed_backward(sum, NULL, false), "a pass");
  heed_drop(sum);
  heed_capture *c = heed_capture_end(cx);
  heed_memory_trim(cx);
  const size_t before = heed_memory_now(cx).live;
  check(heed_capture_replay(cx, c), "a replay");
  check(heed_memory_now(cx).live + (1 << 20) == before, "bytes of the gradient before");
  check(heed_capture_replay(cx, c) && heed_memory_now(cx).live + (1 << 20) == before, "and then");
  heed_capture_drop(cx, c);
  g = heed_gradient(w);
  check(g != NULL && heed_numel(g) == WIDE, "the gradient that was made stays");
  heed_drop(g);
  heed_drop(w);
}


/* A replay's failure names who called for the work: of many callers the first ones, in 39 bytes. */
static void names_its_callers (void) {
  enum { NAMED = 256, CALLERS = 260 };
  static heed_tensor *positions[CALLERS];
  static char name[CALLERS][48];
  const int64_t one = 1, far = 9;
  heed_context *cx = heed_open(NULL);
  heed_tensor *x = vector(cx, 1);
  for (int i = 0; i < CALLERS; i++) {
    snprintf(name[i], sizeof name[i], "caller_%d_%s", i, i == 7 ? "of_a_name_of_more_than_39" : "");
    while (i == 8 && strlen(name[i]) < 39) strcat(name[i], "x");
    positions[i] = heed_from(cx, HEED_INT64, 1, &one, &one);
  }
  strcat(name[7], "_bytes__");
  check(strlen(name[7]) == 42 && strlen(name[8]) == 39, "two long names");
  check(heed_capture_begin(cx, DEVICE), "a capture begins");
  for (int i = 0; i < CALLERS; i++) {
    heed_set_caller(cx, name[i]);
    heed_drop(heed_call(cx, HEED_index_select, (heed_value[]){heed_t(x), heed_i(0),
                                                              heed_t(positions[i])}, 3));
  }
  heed_set_caller(cx, NULL);
  heed_capture *c = heed_capture_end(cx);
  check(heed_capture_replay(cx, c), "a replay");
  for (int i = 0; i < CALLERS; i++) {
    char begin[64];
    check(heed_write(positions[i], HEED_INT64, &far), "a position");
    snprintf(begin, sizeof begin, "%.39s: ", i < NAMED ? name[i] : "take");
    const bool good = heed_capture_replay(cx, c);
    check(!good && heed_error(cx) != NULL &&
          strncmp(heed_error(cx), begin, strlen(begin)) == 0, begin);
    heed_clear(cx);
    check(heed_write(positions[i], HEED_INT64, &one), "a position");
    heed_drop(positions[i]);
  }
  heed_capture_drop(cx, c);
  heed_drop(x);
  heed_close(cx);
}


/* Copies of weights in blocks serve captured products, and so hold until the capture ends. */
static void keeps_packed_blocks (heed_context *cx) {
  enum { BYTES = 34 };
  const int64_t size[] = {1, 32};
  uint8_t block[BYTES] = {0};
  heed_tensor *w = heed_from(cx, HEED_Q8_0, 2, size, block);
  check(heed_write(w, HEED_Q8_0, block) && heed_pack(w), "a weight in blocks");
  check(heed_write(w, HEED_Q8_0, block), "a change of a packed one");
  check(heed_capture_begin(cx, DEVICE), "a capture begins");
  check(!heed_write(w, HEED_Q8_0, block) &&
        strstr(heed_error(cx), "write: blocks of which products keep copies") != NULL, "a change");
  heed_clear(cx);
  heed_capture_drop(cx, heed_capture_end(cx));
  check(heed_write(w, HEED_Q8_0, block), "a change afterwards");
  heed_drop(w);
}


int main (void) {
  heed_context *cx = heed_open(NULL);
  keeps_inputs_once(cx);
  lets_gradients_go(cx);
  lets_graphs_go(cx);
  keeps_first_gradients(cx);
  loses_saved_values(cx);
  draws(cx);
  drops_in_pauses(cx);
  interrupts(cx);
  two_contexts(cx);
  numbers_outlive_captures(cx);
  inputs_are_apart(cx);
  takes_back_its_own(cx);
  stops_before_it_begins(cx);
  keeps_packed_blocks(cx);
  heed_close(cx);
  names_its_callers();
  if (without_failures()) with_failures();
  printf("%d wrong\n", wrong);
  return wrong > 0;
}
