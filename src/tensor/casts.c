/*
** casts.c - the type of mixed precision, and the conversions that are kept while it holds.
**
** A parameter is converted once: its conversion, with its node, serves all calls until the type
** changes, a backward pass walks the graph, or a capture begins or ends.
*/

#include "tensor/state.h"
#include "tensor/tensor.h"


void core_forget_casts (heed_context *cx) {
  while (cx->tensors->casts.n > 0) {
    const kept_cast k = cx->tensors->casts.kept[--cx->tensors->casts.n];
    heed_drop(k.of);
    heed_drop(k.cast);
  }
}


heed_type heed_autocast (heed_context *cx) {
  return cx != NULL ? cx->scope.mixed : HEED_FLOAT32;
}


heed_type heed_set_autocast (heed_context *cx, heed_type type) {
  const heed_type was = heed_autocast(cx);
  if (cx == NULL || type == was) return was;
  if (type != HEED_FLOAT16 && type != HEED_BFLOAT16 && type != HEED_FLOAT32) {
    core_fail(cx, "autocast", "float16, bfloat16 or float32 expected, got %s",
              (unsigned)type < HEED_NTYPES ? scalar_names[type] : "no type");
    return was;
  }
  core_forget_casts(cx);
  cx->scope.mixed = type;
  return was;
}


static kept_cast *entry_of (const heed_context *cx, const heed_tensor *t) {
  for (int64_t i = 0; i < cx->tensors->casts.n; i++)
    if (cx->tensors->casts.kept[i].of == t) return &cx->tensors->casts.kept[i];
  return NULL;
}


/* One that was made without a graph does not serve a call that needs it. */
static bool serves (const heed_context *cx, const kept_cast *k) {
  return k->store == k->of->store && k->version == k->store->version &&
         (k->cast->node != NULL || !cx->scope.recording);
}


heed_tensor *core_kept_cast (const heed_context *cx, const heed_tensor *t) {
  const kept_cast *k = entry_of(cx, t);
  return k != NULL && serves(cx, k) ? k->cast : NULL;
}


bool core_keep_cast (heed_context *cx, heed_tensor *t, heed_tensor *cast) {
  cast_list *a = &cx->tensors->casts;
  kept_cast *k = entry_of(cx, t);
  if (k == NULL) {
    if (!core_grow(cx, (void **)&a->kept, a->n, &a->capacity, sizeof *a->kept)) return false;
    k = &a->kept[a->n++];
    *k = (kept_cast){.of = heed_keep(t)};
  }
  heed_drop(k->cast);
  k->cast = heed_keep(cast);
  k->store = t->store;
  k->version = t->store->version;
  return true;
}
