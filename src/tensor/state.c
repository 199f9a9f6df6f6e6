/*
** state.c - what this floor keeps in a context: made when it opens, freed when it closes.
*/

#include <string.h>

#include "tensor/state.h"


bool tensor_open (heed_context *cx) {
  cx->tensors = core_alloc(cx, sizeof *cx->tensors);
  if (cx->tensors == NULL) return false;
  memset(cx->tensors, 0, sizeof *cx->tensors);
  return true;
}


void tensor_close (heed_context *cx) {
  tensor_state *s = cx->tensors;
  if (s == NULL) return;
  core_free(cx, s->casts.kept, (size_t)s->casts.capacity * sizeof *s->casts.kept);
  core_free(cx, s, sizeof *s);
  cx->tensors = NULL;
}


void tensor_left (heed_context *cx) {
  const tensor_state *s = cx->tensors;
  if (cx->closing && s->alive == 0 && s->nodes.n == 0 && !s->nodes.freeing) core_close(cx);
}
