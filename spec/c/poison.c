/*
** poison.c - memory as it comes: the same work gives the same numbers where all that was not set is
** odd, and where it is zero.
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heed.h"

enum { MOST = 600 };

/* Memory is filled with a byte before it is given, and when it comes back. */
static void *resize (void *self, void *block, size_t old_size, size_t new_size) {
  const int byte = *(const int *)self;
  if (new_size == 0) {
    if (block != NULL) memset(block, byte, old_size);
    free(block);
    return NULL;
  }
  void *fresh = malloc(new_size);
  if (fresh != NULL) memset(fresh, byte, new_size);
  return fresh;
}

/* Numbers that were read so far. */
typedef struct numbers { int n; double of[MOST]; } numbers;

static void note (numbers *y, double number) {
  if (y->n < MOST) y->of[y->n++] = number;
}

static void note_all (numbers *y, heed_tensor *t) {
  double of[32] = {0};
  note(y, (double)heed_numel(t));
  note(y, (double)heed_type_of(t));
  note(y, heed_requires_grad(t));
  note(y, heed_is_leaf(t));
  note(y, (double)heed_version(t));
  if (heed_numel(t) <= 32 && heed_read(t, HEED_FLOAT64, of))
    for (int i = 0; i < heed_numel(t); i++) note(y, of[i]);
}

/* No block is used twice. */
static heed_tensor *call (heed_context *cx, heed_op op, int n, const heed_value *args) {
  heed_memory_trim(cx);
  heed_tensor *y = heed_call(cx, op, args, n);
  heed_memory_trim(cx);
  return y;
}

static void change (heed_context *cx, heed_op op, heed_tensor *t, heed_value by) {
  heed_memory_trim(cx);
  heed_apply_in_place(cx, op, (heed_value[]){heed_t(t), by}, 2);
  heed_memory_trim(cx);
}

static void count (void *self, void *data) {
  (void)data;
  ++*(int *)self;
}

static bool twice (void *self, int n, heed_tensor *const *gradients, int ninputs,
                   heed_tensor **results) {
  heed_context *cx = self;
  (void)n; (void)ninputs;
  heed_memory_trim(cx);
  *results = heed_call(cx, HEED_mul, (heed_value[]){heed_t(*gradients), heed_i(2)}, 2);
  return *results != NULL;
}

static heed_tensor *six (heed_context *cx, float first) {
  float data[6];
  for (int i = 0; i < 6; i++) data[i] = first + (float)i;
  heed_memory_trim(cx);
  return heed_from(cx, HEED_FLOAT32, 2, (int64_t[]){2, 3}, data);
}

/* Views, changes in place, numbers, lists, hooks, a function of the host's, a pass. */
static void passes (heed_context *cx, numbers *y) {
  const heed_custom hook = {twice, NULL, cx};
  heed_tensor *x = six(cx, 1), *w = six(cx, 0.5f), *number = heed_number(cx, 3);
  heed_require_grad(x, true);
  heed_require_grad(w, true);
  heed_tensor *a = call(cx, HEED_mul, 2, (heed_value[]){heed_t(x), heed_t(w)});
  heed_tensor *t = call(cx, HEED_transpose, 3, (heed_value[]){heed_t(a), heed_i(0), heed_i(1)});
  heed_tensor *row = call(cx, HEED_select, 3, (heed_value[]){heed_t(a), heed_i(0), heed_i(1)});
  change(cx, HEED_mul, row, heed_t(number));
  heed_tensor *b = call(cx, HEED_add, 2, (heed_value[]){heed_t(t), heed_t(number)});
  heed_retain_gradient(b);
  heed_add_hook(b, &hook);
  heed_tensor *both[] = {b, t};
  heed_tensor *c = call(cx, HEED_cat, 2, (heed_value[]){heed_ts(2, both), heed_i(1)});
  heed_tensor *z = call(cx, HEED_sum, 1, (heed_value[]){heed_t(c)});
  heed_memory_trim(cx);
  heed_tensor *own = heed_detach(z);
  heed_record_custom(cx, &hook, 1, &z, 1, &own);
  heed_memory_trim(cx);
  note(y, heed_backward(own, NULL, true));
  note(y, heed_backward(own, number, false));
  heed_tensor *all[] = {x, w, a, t, row, b, c, z, own, number};
  for (int i = 0; i < 10; i++) {
    heed_tensor *g = heed_gradient(all[i]);
    note_all(y, all[i]);
    note_all(y, g);
    heed_drop(g);
  }
  for (int i = 0; i < 10; i++) heed_drop(all[i]);
}

/* Memory of the host's, other memory, mixed precision, gradients of gradients. */
static void others (heed_context *cx, numbers *y) {
  int released = 0;
  float lent[4] = {1, 2, 3, 4};
  const int64_t four = 4;
  heed_memory_trim(cx);
  heed_tensor *l = heed_lend(cx, HEED_FLOAT32, 1, &four, lent, count, &released);
  heed_tensor *x = six(cx, 1), *w = six(cx, 2), *g = NULL, *gg = NULL;
  note_all(y, l);
  change(cx, HEED_add, x, heed_i(1));
  change(cx, HEED_add, x, heed_i(1));
  heed_memory_trim(cx);
  note(y, heed_take_over(w, x));
  note_all(y, w);
  heed_require_grad(w, true);
  heed_tensor *s = call(cx, HEED_square, 1, (heed_value[]){heed_t(w)});
  heed_tensor *q = call(cx, HEED_mul, 2, (heed_value[]){heed_t(s), heed_t(w)});
  heed_tensor *z = call(cx, HEED_sum, 1, (heed_value[]){heed_t(q)});
  note(y, heed_recorded_gradients(z, NULL, 1, &w, &g));
  heed_tensor *zz = call(cx, HEED_sum, 1, (heed_value[]){heed_t(g)});
  note(y, heed_gradients(zz, NULL, 1, &w, &gg, false));
  note_all(y, g);
  note_all(y, gg);
  heed_set_autocast(cx, HEED_BFLOAT16);
  heed_tensor *back = call(cx, HEED_transpose, 3, (heed_value[]){heed_t(w), heed_i(0), heed_i(1)});
  heed_tensor *p = call(cx, HEED_matmul, 2, (heed_value[]){heed_t(w), heed_t(back)});
  heed_set_autocast(cx, HEED_FLOAT32);
  note_all(y, p);
  heed_tensor *all[] = {l, x, w, g, gg, s, q, z, zz, back, p};
  for (int i = 0; i < 11; i++) heed_drop(all[i]);
  note(y, released);
}

static void captures (heed_context *cx, numbers *y) {
  heed_tensor *x = six(cx, 1), *w = six(cx, 2);
  heed_require_grad(w, true);
  heed_memory_trim(cx);
  note(y, heed_capture_begin(cx, "cpu"));
  change(cx, HEED_add, x, heed_i(1));
  heed_tensor *a = call(cx, HEED_mul, 2, (heed_value[]){heed_t(x), heed_t(w)});
  heed_tensor *z = call(cx, HEED_sum, 1, (heed_value[]){heed_t(a)});
  note(y, heed_backward(z, NULL, false));
  heed_memory_trim(cx);
  heed_capture *c = heed_capture_end(cx);
  heed_set_gradient(w, NULL);
  note(y, (double)heed_capture_state_of(c));
  note(y, (double)heed_capture_steps(c));
  for (int i = 0; i < 2; i++) {
    heed_set_gradient(w, NULL);
    heed_memory_trim(cx);
    note(y, heed_capture_replay(cx, c));
    heed_tensor *g = heed_gradient(w);
    note_all(y, x);
    note_all(y, z);
    note_all(y, g);
    heed_drop(g);
  }
  heed_capture_drop(cx, c);
  heed_drop(x); heed_drop(w); heed_drop(a); heed_drop(z);
}

static numbers work (int byte) {
  numbers y = {0};
  heed_context *cx = heed_open(&(heed_host){.resize = resize, .self = &byte, .threads = 1});
  passes(cx, &y);
  others(cx, &y);
  captures(cx, &y);
  note(&y, heed_error(cx) == NULL);
  note(&y, (double)heed_graph_nodes(cx));
  note(&y, (double)heed_memory_now(cx).live);
  heed_close(cx);
  return y;
}

int main (void) {
  static const int bytes[] = {0xa5, 0xff, 1, 0x80};
  const numbers zero = work(0);
  int failed = zero.n < 150 || zero.n == MOST || zero.of[zero.n - 3] != 1 ||
               zero.of[zero.n - 2] != 0 || zero.of[zero.n - 1] != 0;
  if (failed) printf("poison: the work itself, %d numbers: wrong\n", zero.n);
  for (int i = 0; i < 4; i++) {
    const numbers odd = work(bytes[i]);
    int at = 0;
    while (at < zero.n && at < odd.n && zero.of[at] == odd.of[at]) at++;
    if (at == zero.n && at == odd.n) continue;
    printf("poison: number %d of memory with %d: %g expected, got %g\n", at, bytes[i], zero.of[at],
           odd.of[at]);
    failed = 1;
  }
  if (!failed) puts("poison: nothing depends on what memory had");
  return failed;
}
