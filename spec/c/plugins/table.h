/*
** table.h - a plugin with no devices: what a core looks at before it uses one. The file that
** includes this says in what it differs from the core: in ROWS, in INTERFACE, or not at all.
*/

#include <stdio.h>

#include "memory/plugin.h"

#ifndef HEED_INTERFACE
#define HEED_INTERFACE 0           /* the Makefile's hash */
#endif
#ifndef ROWS
#define ROWS HEED_NOPS
#endif
#ifndef INTERFACE
#define INTERFACE HEED_INTERFACE
#endif

static const char *reason (char *text, size_t bytes) {
  snprintf(text, bytes, "it has no devices");
  return text;
}

HEED_API extern const plugin heed_plugin;

const plugin heed_plugin = {
  .version = PLUGIN_VERSION, .rows = ROWS, .interface = INTERFACE, .work_size = sizeof(work),
  .device_size = sizeof(device), .kind = "cuda", .built = "spec", .reason = reason
};
