/*
** heed.c - a context, put together: the core, the CPU as its first device, the operations.
*/

#include "tensor/core.h"

#include <stdlib.h>

#include "cpu/cpu.h"
#include "graph/op.h"


/* NULL: there is no such level. */
static const cpu_level *first_level (const heed_host *host) {
  const char *name = host != NULL ? host->level : NULL;
  if (name != NULL) return cpu_level_find(name);
  name = getenv("HEED_LEVEL");
  return name != NULL && *name != '\0' ? cpu_level_find(name) : cpu_level_best();
}


static bool add_cpu (heed_context *cx, const cpu_level *level) {
  device *d = cpu_open(cx->pool, &cx->random, level);
  if (d == NULL) return false;
  cx->device[cx->ndevices++] = d;
  cx->default_device = cx->current = d;
  return true;
}


heed_context *heed_open (const heed_host *host) {
  const cpu_level *level = first_level(host);
  heed_context *cx = level != NULL ? core_open(host) : NULL;
  if (cx == NULL) return NULL;
  if (add_cpu(cx, level)) return cx;
  core_close(cx);
  return NULL;
}


const char *heed_level (heed_context *cx) {
  return cx != NULL ? cpu_level_name(cpu_level_of(cx->device[0])) : NULL;
}


bool heed_set_level (heed_context *cx, const char *name) {
  if (cx == NULL || name == NULL) return false;
  const cpu_level *level = cpu_level_find(name);
  if (level == NULL)
    return core_fail(cx, "level", "'%.40s' is unknown, or this CPU lacks it", name);
  cpu_use(cx->device[0], level);
  return true;
}
