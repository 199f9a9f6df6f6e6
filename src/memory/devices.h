/*
** devices.h - the devices of a context: opened, set, given work.
*/

#ifndef devices_h
#define devices_h

#include "memory/plugin.h"

#pragma GCC visibility push(hidden)

#define DEVICES_MOST 17            /* the CPU and what plugins open */
#define CALLERS_MOST 256           /* most callers that have a number */

typedef struct device_list {
  device *list[DEVICES_MOST];      /* that were opened; the first is the CPU */
  int n;
  device *chosen;                  /* of tensors that are made from nothing */
  const plugin *plugin;            /* NULL: not needed yet, or there is none */
  char no_plugin[320];             /* why there is none */
  int precision;                   /* of float32 products on accelerators */
  bool blocking;                   /* accelerators are waited for after each work */
  char callers[CALLERS_MOST][40];  /* those that have a number: see core_begin */
  int ncallers;
} device_list;

/* plugin.c: by name: "cpu", "cuda", "cuda:1"; opened at the first use; NULL after core_fail */
device *core_device (heed_context *cx, const char *function, const char *name);
device *core_find_device (const heed_context *cx, const char *name);     /* NULL: it isn't open */
int core_device_index (const char *name);            /* of a plugin's, from 0; -1: no such name */
const char *core_plugin_reason (heed_context *cx, const char *kind);   /* why there is no device of
                                                 this kind; NULL: there is, and a plugin */

/* accelerator.c */
device *core_accelerator (heed_context *cx, const char *function, const char *name);   /* as
                                                 core_device, but refuses the CPU */
void core_set_blocking (heed_context *cx);           /* as asked for, and while a profile runs */
/* A capture records heed's stream alone: other streams and events cannot be waited for. */
bool core_check_uncaptured (heed_context *cx, const char *function, const device *d);

/*
** run.c: before and after a device's function that may report an asynchronous error. 'op' is what
** the device does; the device's work is marked with the number of the caller, so that a message
** that comes later names that. core_end keeps a message; true: there was none.
*/
enum { CORE_READ = HEED_NOPS + 1, CORE_SYNCHRONIZE, CORE_CAPTURE, CORE_OPS };
const char *core_op_name (int op);                   /* "custom" for HEED_NOPS */
const char *core_number_name (const heed_context *cx, int op);   /* of a device.op */
void core_begin (heed_context *cx, device *d, int op);
bool core_end (heed_context *cx, device *d, int op, const char *why);
bool core_run (heed_context *cx, heed_op op, device *where, const work *w);
      /* runs it; a device's message is kept as a failure of 'op' */
bool core_map (heed_context *cx, device *where, const dense_map *w);   /* false: core_run has to */

#pragma GCC visibility pop

#endif
