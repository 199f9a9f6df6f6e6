/*
** cuda.c - devices by name.
*/

#include "core/core.h"

#include <string.h>


device *core_device (heed_context *cx, const char *who, const char *name) {
  if (name != NULL && strcmp(name, cx->cpu->name) == 0) return cx->cpu;
  return core_fail(cx, "%s: argument 'device': there is no '%.40s' here, only 'cpu'", who,
                   name != NULL ? name : "");
}
