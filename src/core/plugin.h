/*
** cuda.h - the door of heed/cuda.so, an object that the core opens when it is first asked for a
** card. It sees no name of the core and shows one of its own, a table of functions.
*/

#ifndef core_cuda_h
#define core_cuda_h

#include "core/device.h"

#define PLUGIN_SYMBOL "heed_device_plugin"
#define PLUGIN_VERSION 3             /* of what stands here */

typedef struct device_properties {
  char name[256];
  size_t memory;                   /* bytes */
  int major, minor;                /* compute capability */
  int processors;                  /* multiprocessors */
} device_properties;

/* Bytes of one context on one card, as the processor's account; free and total are the card's. */
typedef struct device_memory {
  size_t live, cached, peak, limit;
  size_t free, total;
} device_memory;

typedef struct device_event device_event;      /* a place in a stream, with its time */
typedef struct device_capture device_capture;    /* work that was captured */

/* What returns a text returns NULL, or why not. */
typedef struct device_plugin {
  int version;                     /* PLUGIN_VERSION, and the sizes of what both sides read: */
  size_t work_size, device_size;
  const char *built;               /* "13.0": the runtime it was built with */
  const char *(*reason) (char *text, size_t bytes);      /* why there is no card, in 'text' */
  int (*count) (void);
  const char *(*properties) (int index, device_properties *p);
  device *(*open) (int index, char *text, size_t bytes); /* NULL: why, in 'text' */
  void (*close) (device *d);       /* after its last memory was given back */
  const char *(*wait) (device *d); /* for all its work; raises faults */
  void (*memory) (device *d, device_memory *m);
  void (*reset_peak) (device *d);
  void (*limit) (device *d, size_t bytes);               /* 0: what the card has */
  void (*trim) (device *d);        /* gives cached memory back to the card */
  void (*block) (device *d, bool yes);                   /* waits after each work */
  void (*precision) (device *d, int level);              /* of float32 products: 0 highest */
  void (*seed) (device *d, uint64_t seed);
  const char *(*rng_get) (device *d, uint64_t state[2]); /* seed and offset */
  const char *(*rng_set) (device *d, const uint64_t state[2]);
  const char *(*copy) (device *to, void *data, device *from, const void *from_data, size_t bytes);
                                   /* between cards; both streams are kept in order */
  /* Pinned memory of the host's, and copies from and to it that do not wait. */
  void *(*pin) (size_t bytes);
  void (*unpin) (void *data);
  const char *(*send) (device *d, void *to, const void *from, size_t bytes);
  const char *(*receive) (device *d, void *to, const void *from, size_t bytes);
  /* Times: a moment is put into the stream; 'between' waits for the later one. */
  device_event *(*moment) (device *d);
  const char *(*between) (device *d, device_event *from, device_event *to, double *seconds);
  void (*forget) (device *d, device_event *m);
  /* Memory of somebody else's: its work in 'stream' is waited for, and waits for ours. */
  void *(*stream) (device *d);
  const char *(*after) (device *d, void *stream);
  const char *(*before) (device *d, void *stream);
  /* Capture: what is run from here on is kept, with the memory that it uses. */
  const char *(*capture) (device *d);
  device_capture *(*capture_end) (device *d, const char **why);
  const char *(*replay) (device *d, device_capture *r);
  void (*drop) (device *d, device_capture *r);
  const char *(*set_step) (device *d, device_capture *r, int which, const heed_step *step);
                                   /* the numbers of an optimiser's work, counted from 0 */
} device_plugin;

#endif
