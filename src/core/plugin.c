/*
** cuda.c - opens heed/cuda.so when a card is first asked for, and its cards as devices.
**
** The object lies beside this one, or where HEED_CUDA says. It is never closed: a driver keeps
** threads of its own.
*/

#define _GNU_SOURCE                /* dladdr */

#include "core/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"

#define PATH 4096


/* "dir/cuda.so" for the object "dir/core.so" that this code came from. */
static bool path_beside (char path[PATH]) {
  Dl_info here;
  if (dladdr((const void *)(uintptr_t)path_beside, &here) == 0 || here.dli_fname == NULL)
    return false;
  const char *slash = strrchr(here.dli_fname, '/');
  size_t n = slash != NULL ? (size_t)(slash - here.dli_fname) + 1 : 0;
  if (n + sizeof "cuda.so" > PATH) return false;
  memcpy(path, here.dli_fname, n);
  memcpy(path + n, "cuda.so", sizeof "cuda.so");
  return true;
}


/* The reason may be cut off. */
static void *refuse (heed_context *cx, const char *why, const char *what) {
  snprintf(cx->no_cuda, sizeof cx->no_cuda, "%s%s", why, what);
  return NULL;
}


/* The table of an object that was made for this core. */
static const device_plugin *read_plugin (heed_context *cx, void *object) {
  const device_plugin *door = dlsym(object, PLUGIN_SYMBOL);
  bool good = door != NULL && door->version == PLUGIN_VERSION && door->work_size == sizeof(work) &&
              door->device_size == sizeof(device);
  return good ? door : refuse(cx, "cuda.so was built for another version of heed", "");
}


static const device_plugin *load (heed_context *cx, const char *path) {
  void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (object == NULL) return refuse(cx, "cuda.so can't be loaded: ", dlerror());
  return read_plugin(cx, object);
}


static const device_plugin *open_object (heed_context *cx) {
  char beside[PATH];
  const char *given = getenv("HEED_CUDA");
  if (given != NULL && *given != '\0') {
    if (access(given, F_OK) == 0) return load(cx, given);
    return refuse(cx, "HEED_CUDA names a file that is not there: ", given);
  }
  if (path_beside(beside) && access(beside, F_OK) == 0) return load(cx, beside);
  return refuse(cx, "built without CUDA: there is no cuda.so", "");
}


const device_plugin *core_cuda (heed_context *cx) {
  if (cx->cuda == NULL) cx->cuda = open_object(cx);
  return cx->cuda;
}


const char *core_cuda_reason (heed_context *cx) {
  const device_plugin *door = core_cuda(cx);
  if (door == NULL) return cx->no_cuda;
  return door->reason(cx->no_cuda, sizeof cx->no_cuda);
}


/* The number behind "cuda:", 0 for "cuda"; -1: this is no name of a card. */
int heed_cuda_index (const char *name) {
  if (name == NULL || strncmp(name, "cuda", 4) != 0) return -1;
  if (name[4] == '\0') return 0;
  if (name[4] != ':' || name[5] == '\0' || strlen(name) > 7) return -1;
  int index = 0;
  for (const char *at = name + 5; *at != '\0'; at++) {
    if (*at < '0' || *at > '9') return -1;
    index = 10 * index + *at - '0';
  }
  return index;
}


/* One that is open: a card may be lost, or its parent's. */
static device *present_device (heed_context *cx, const char *who, device *d) {
  const char *why = d->gone(d);
  return why == NULL ? d : core_fail(cx, "%s: device '%s': %s", who, d->name, why);
}


static device *open_device (heed_context *cx, const char *who, int index) {
  if (index < CORE_GPUS && cx->gpu[index] != NULL) return present_device(cx, who, cx->gpu[index]);
  const char *why = core_cuda_reason(cx);
  if (why != NULL) return core_fail(cx, "%s: device 'cuda': %s", who, why);
  if (index >= CORE_GPUS)
    return core_fail(cx, "%s: device 'cuda:%d': there are fewer cards", who, index);
  device *d = cx->cuda->open(index, cx->no_cuda, sizeof cx->no_cuda);
  if (d == NULL) return core_fail(cx, "%s: device 'cuda:%d': %s", who, index, cx->no_cuda);
  cx->cuda->seed(d, cx->random.seed);
  cx->cuda->precision(d, cx->precision);
  cx->has_accelerators = true;
  return cx->gpu[index] = d;
}


device *core_device (heed_context *cx, const char *who, const char *name) {
  if (strcmp(name, "cpu") == 0) return cx->cpu;
  int index = heed_cuda_index(name);
  if (index >= 0) return open_device(cx, who, index);
  return core_fail(cx, "%s: device 'cpu', 'cuda' or 'cuda:0' expected, got '%.40s'", who, name);
}


void core_cuda_close (heed_context *cx) {
  core_end_releases(cx);
  for (int i = 0; i < CORE_GPUS; i++)
    if (cx->gpu[i] != NULL) cx->cuda->close(cx->gpu[i]);
}
