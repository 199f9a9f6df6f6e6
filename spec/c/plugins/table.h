/*
** table.h - a plugin with no devices: what a core looks at before it uses one. The file that
** includes this says in what it differs from the core: in one of the macros below, or in nothing.
*/

#include <stdio.h>

#include "memory/plugin.h"

#ifndef HEED_INTERFACE
#define HEED_INTERFACE 0           /* the Makefile's hash */
#endif
#ifndef VERSION
#define VERSION PLUGIN_VERSION
#endif
#ifndef ROWS
#define ROWS HEED_NOPS
#endif
#ifndef INTERFACE
#define INTERFACE HEED_INTERFACE
#endif
#ifndef WORK_SIZE
#define WORK_SIZE sizeof(work)
#endif
#ifndef DEVICE_SIZE
#define DEVICE_SIZE sizeof(device)
#endif
#ifndef DEVICES
#define DEVICES "cuda"
#endif

static const char *reason (char *text, size_t bytes) {
  snprintf(text, bytes, "it has no devices");
  return text;
}

HEED_API extern const plugin heed_plugin;

const plugin heed_plugin = {
  .version = VERSION, .rows = ROWS, .interface = INTERFACE, .work_size = WORK_SIZE,
  .device_size = DEVICE_SIZE, .kind = DEVICES, .built = "spec", .reason = reason
};
