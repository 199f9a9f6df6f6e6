/*
** plugin.c - opens heed/cuda.so when a device of its kind is first needed, and its devices.
**
** The object lies beside this one, or where HEED_CUDA says. The object is never closed: a driver
** keeps threads of its own. No other file of the core knows what kind of devices a plugin has.
*/

#define _GNU_SOURCE                /* dladdr */

#include "memory/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/context.h"

#ifndef HEED_INTERFACE
#define HEED_INTERFACE 0           /* the Makefile's hash */
#endif

#define KIND "cuda"
#define OBJECT "cuda.so"
#define PATH 4096
#define NAME 16                    /* of a device */


/*
** {==================================================================
** The object
** ===================================================================
*/

/*
** The length of "dir/", which is left in 'path', for the object "dir/core.so" that this code came
** from, or for a program that it is in, whose name has no folder where a shell found it.
*/
static size_t own_folder (char path[PATH]) {
  Dl_info own;
  if (dladdr((const void *)(uintptr_t)own_folder, &own) == 0 || own.dli_fname == NULL) return 0;
  ssize_t n = strchr(own.dli_fname, '/') != NULL ? snprintf(path, PATH, "%s", own.dli_fname)
                                                 : readlink("/proc/self/exe", path, PATH);
  if (n >= PATH) return 0;
  while (n > 0 && path[n - 1] != '/') n--;
  return n > 0 ? (size_t)n : 0;
}


/* "dir/cuda.so" */
static bool path_beside (char path[PATH]) {
  size_t n = own_folder(path);
  if (n == 0 || n + sizeof OBJECT > PATH) return false;
  memcpy(path + n, OBJECT, sizeof OBJECT);
  return true;
}


/* The reason may be cut off. */
static void *refuse (heed_context *cx, const char *why, const char *what) {
  snprintf(cx->devices.no_plugin, sizeof cx->devices.no_plugin, "%s%s", why, what);
  return NULL;
}


/* The difference from the core, in 'text'; NULL: none. Another version's fields are not read. */
static const char *difference (const plugin *p, char text[80]) {
  bool same = p != NULL && p->version == PLUGIN_VERSION;
  if (same && p->rows != HEED_NOPS) {
    snprintf(text, 80, "its table of operations has %d rows, this one %d", p->rows, HEED_NOPS);
    return text;
  }
  same = same && p->interface == HEED_INTERFACE && p->work_size == sizeof(work) &&
         p->device_size == sizeof(device) && strcmp(p->kind, KIND) == 0;
  return same ? NULL : "its interface differs";
}


static const plugin *load (heed_context *cx, const char *path) {
  char text[80];
  void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (object == NULL) return refuse(cx, OBJECT " can't be loaded: ", dlerror());
  const plugin *p = dlsym(object, PLUGIN_SYMBOL);
  const char *why = difference(p, text);
  return why == NULL ? p : refuse(cx, OBJECT " was built for another version of heed: ", why);
}


static const plugin *open_object (heed_context *cx) {
  char beside[PATH];
  const char *given = getenv("HEED_CUDA");
  if (given != NULL && *given != '\0') {
    if (access(given, F_OK) == 0) return load(cx, given);
    return refuse(cx, "HEED_CUDA names a file that is not there: ", given);
  }
  if (path_beside(beside) && access(beside, F_OK) == 0) return load(cx, beside);
  return refuse(cx, "built without CUDA: there is no " OBJECT, "");
}


const char *core_plugin_reason (heed_context *cx, const char *kind) {
  if (kind == NULL || strcmp(kind, KIND) != 0) {
    refuse(cx, "the only kind of devices is '" KIND "'", "");
    return cx->devices.no_plugin;
  }
  if (cx->devices.plugin == NULL) cx->devices.plugin = open_object(cx);
  if (cx->devices.plugin == NULL) return cx->devices.no_plugin;
  return cx->devices.plugin->reason(cx->devices.no_plugin, sizeof cx->devices.no_plugin);
}

/* }================================================================== */


/*
** {==================================================================
** Its devices
** ===================================================================
*/

/* The number behind "cuda:", 0 for "cuda". */
int core_device_index (const char *name) {
  size_t n = strlen(KIND);
  if (name == NULL || strncmp(name, KIND, n) != 0) return -1;
  if (name[n] == '\0') return 0;
  const char *digits = name + n + 1;
  if (name[n] != ':' || *digits == '\0' || strlen(digits) > 3) return -1;
  return digits[strspn(digits, "0123456789")] == '\0' ? atoi(digits) : -1;
}


device *core_find_device (const heed_context *cx, const char *name) {
  char own[NAME];
  int index = core_device_index(name);
  if (index >= 0) snprintf(own, sizeof own, KIND ":%d", index);
  for (int i = 0; name != NULL && i < cx->devices.n; i++)
    if (strcmp(cx->devices.list[i]->name, index >= 0 ? own : name) == 0) return cx->devices.list[i];
  return NULL;
}


/* An accelerator may be lost, or be the parent process's. */
static device *check_present (heed_context *cx, const char *function, device *d) {
  const char *why = d->gone != NULL ? d->gone(d) : NULL;
  return why == NULL ? d : core_fail(cx, function, "device '%s': %s", d->name, why);
}


static device *open_device (heed_context *cx, const char *function, int index) {
  const char *why = core_plugin_reason(cx, KIND);
  if (why != NULL) return core_fail(cx, function, "device '" KIND "': %s", why);
  if (index >= DEVICES_MOST - 1)
    return core_fail(cx, function, "device '" KIND ":%d': there are fewer GPUs", index);
  device *d = cx->devices.plugin->open(index, cx->devices.no_plugin, sizeof cx->devices.no_plugin);
  if (d == NULL)
    return core_fail(cx, function, "device '" KIND ":%d': %s", index, cx->devices.no_plugin);
  d->accelerator->seed(d, cx->random.seed);
  d->accelerator->precision(d, cx->devices.precision);
  cx->devices.list[cx->devices.n++] = d;
  core_set_blocking(cx);
  return d;
}


device *core_device (heed_context *cx, const char *function, const char *name) {
  device *d = core_find_device(cx, name);
  if (d != NULL) return check_present(cx, function, d);
  int index = core_device_index(name);
  if (index >= 0) return open_device(cx, function, index);
  return core_fail(cx, function, "device 'cpu', '" KIND "' or '" KIND ":0' expected, got '%.40s'",
                   name);
}

/* }================================================================== */
