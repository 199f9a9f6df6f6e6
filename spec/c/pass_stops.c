/*
** pass_stops.c - backward passes that are interrupted, at each poll of theirs while they look for
** their nodes and bring them into order: nothing has changed, and the next pass is as ever.
** See polls.h.
*/

#include <stdio.h>
#include <string.h>

#include "heed.h"
#include "polls.h"

enum { STEPS = 3000, NODES = 2 * STEPS + 2 };        /* a sum and a product each, leaf and root */

static int failures = 0;


static void check (bool good, const char *what, long at) {
  if (good) return;
  printf("pass_stops: %s, poll %ld: wrong\n", what, at);
  failures++;
}


/* -(x + 2x + 2x + …): from the root on, nodes are not found in the order of their making. */
static heed_tensor *long_sum (heed_context *cx, heed_tensor *x) {
  heed_tensor *sum = heed_keep(x);
  for (int i = 0; i < STEPS; i++) {
    heed_tensor *y = heed_call(cx, HEED_mul, (heed_value[]){heed_t(x), heed_i(2)}, 2);
    heed_tensor *next = heed_call(cx, HEED_add, (heed_value[]){heed_t(sum), heed_t(y)}, 2);
    heed_drop(sum);
    heed_drop(y);
    sum = next;
  }
  heed_tensor *root = heed_call(cx, HEED_neg, (heed_value[]){heed_t(sum)}, 1);
  heed_drop(sum);
  return root;
}


static bool has_gradient (heed_tensor *x, float wanted) {
  float got = 0;
  heed_tensor *g = heed_gradient(x);
  const bool good = g != NULL && heed_read(g, HEED_FLOAT32, &got) && got == wanted;
  heed_drop(g);
  return good;
}


int main (void) {
  heed_context *cx = heed_open(NULL);
  const float one = 1, wanted = -(1 + 2 * STEPS);
  heed_tensor *x = heed_from(cx, HEED_FLOAT32, 0, NULL, &one);
  check(heed_require_grad(x, true), "a leaf", 0);
  heed_tensor *y = long_sum(cx, x);
  check(heed_graph_nodes(cx) == NODES, "nodes", heed_graph_nodes(cx));
  polls = 0;
  check(heed_backward(y, NULL, true) && has_gradient(x, wanted), "a pass", polls);
  const long before = polls - NODES;                 /* a node that is visited polls once */
  check(before >= 20 && before <= 60, "polls before the first node", before);
  for (long at = 0; at < before; at++) {
    heed_set_gradient(x, NULL);
    countdown = at;
    check(!heed_backward(y, NULL, true) && heed_error(cx) != NULL &&
          strcmp(heed_error(cx), "backward: interrupted") == 0, "a pass is stopped", at);
    countdown = -1;
    heed_clear(cx);
    check(heed_gradient(x) == NULL, "a gradient of a pass that was stopped", at);
    check(heed_backward(y, NULL, true) && has_gradient(x, wanted), "the next pass", at);
  }
  heed_drop(x); heed_drop(y);
  check(heed_graph_nodes(cx) == 0, "nodes that are left", heed_graph_nodes(cx));
  heed_close(cx);
  if (failures == 0) puts("pass_stops: passes stop where they poll");
  return failures > 0;
}
