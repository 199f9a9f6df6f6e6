/*
** plugin.h - what an object of devices, such as heed/cuda.so, shows to the core: one table.
**
** The core opens it when a device of its kind is first needed. The object sees no symbol of the
** core.
*/

#ifndef plugin_h
#define plugin_h

#include "memory/device.h"

#define PLUGIN_SYMBOL "heed_plugin"
#define PLUGIN_VERSION 4           /* of this table */

/* A function that returns a text returns NULL, or why it failed. */
typedef struct plugin {
  int version;                     /* PLUGIN_VERSION */
  int rows;                        /* HEED_NOPS: of the table of operations */
  uint64_t interface;              /* HEED_INTERFACE: a hash of ops.def and of these headers */
  size_t work_size, device_size;
  const char *kind;                /* "cuda": its devices are "cuda:0", "cuda:1" … */
  const char *built;               /* "13.0": the runtime that it was built with */
  const char *(*reason) (char *text, size_t bytes);          /* why there is no device */
  int (*count) (void);
  const char *(*properties) (int index, heed_device_properties *p);
  device *(*open) (int index, char *text, size_t bytes);     /* NULL: why, in 'text' */
  void *(*pin) (size_t bytes);     /* memory of the host that its devices can reach */
  void (*unpin) (void *data);
} plugin;

#endif
