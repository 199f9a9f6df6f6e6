/*
** graph.c - what a graph costs: the bytes that recorded operations keep, and give back.
*/

#include <stdio.h>
#include <stdlib.h>

#include "heed.h"

enum { LENGTH = 4096, MOST = 640 };    /* operations of a chain; bytes for each of them */

/* Counts what is alive. */
static void *resize (void *self, void *block, size_t old_size, size_t new_size) {
  size_t *alive = self;
  void *result = NULL;
  if (new_size == 0) free(block);
  else result = realloc(block, new_size);
  if (new_size > 0 && result == NULL) return NULL;
  *alive += new_size - (block != NULL ? old_size : 0);
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

int main (void) {
  size_t alive = 0;
  heed_host host = {.resize = resize, .self = &alive, .threads = 1};
  heed_context *cx = heed_open(&host);
  const int64_t size[] = {2, 3};
  const float numbers[6] = {1, 1, 1, 1, 1, 1};
  heed_tensor *x = heed_from(cx, HEED_FLOAT32, 2, size, numbers);
  heed_tensor *w = heed_from(cx, HEED_FLOAT32, 2, size, numbers);
  bool good = heed_require_grad(x, true) && check(cx, &alive, HEED_add, x, w) &&
              check(cx, &alive, HEED_mul, x, w);
  if (!good && heed_error(cx) != NULL) puts(heed_error(cx));
  heed_drop(x);
  heed_drop(w);
  heed_close(cx);
  return good && alive == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
