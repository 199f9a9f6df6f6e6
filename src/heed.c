/*
** heed.c - a context, put together: the core, the CPU as its first device, the operations.
*/

#include <stdlib.h>

#include "cpu/cpu.h"
#include "op/op.h"
#include "tensor/state.h"


/* NULL: there is no such level. */
static const cpu_level *first_level (const heed_host *host) {
  const char *name = host != NULL ? host->level : NULL;
  if (name != NULL) return cpu_level_find(name);
  name = getenv("HEED_LEVEL");
  return name != NULL && *name != '\0' ? cpu_level_find(name) : cpu_level_best();
}


static bool add_cpu (heed_context *cx, const cpu_level *level) {
  device *d = cpu_open(cx, cx->pool, &cx->random, level);
  if (d == NULL) return false;
  cx->devices.list[cx->devices.n++] = d;
  cx->devices.chosen = cx->scope.device = d;
  return true;
}


static void close_floors (heed_context *cx) {
  graph_close(cx);
  tensor_close(cx);
}


heed_context *heed_open (const heed_host *host) {
  const cpu_level *level = first_level(host);
  heed_context *cx = level != NULL ? core_open(host) : NULL;
  if (cx == NULL) return NULL;
  cx->close_above = close_floors;
  if (add_cpu(cx, level) && tensor_open(cx) && graph_open(cx, op_rows)) return cx;
  core_close(cx);
  return NULL;
}


/* Tensors and nodes that outlive the call keep the context, without threads and caches. */
void heed_close (heed_context *cx) {
  if (cx == NULL || cx->closing) return;
  if (capture_is_open(&cx->capture)) heed_capture_drop(cx, heed_capture_end(cx));
  core_forget_casts(cx);
  cx->closing = true;
  heed_memory_trim(cx);
  pool_resize(cx->pool, 1);
  tensor_left(cx);
}


const char *heed_level (heed_context *cx) {
  return cx != NULL ? cpu_level_name(cpu_level_of(cx->devices.list[0])) : NULL;
}


bool heed_set_level (heed_context *cx, const char *name) {
  if (cx == NULL || name == NULL) return false;
  const cpu_level *level = cpu_level_find(name);
  if (level == NULL)
    return core_fail(cx, "level", "'%.40s' is unknown, or this CPU lacks it", name);
  cpu_use(cx->devices.list[0], level);
  return true;
}
