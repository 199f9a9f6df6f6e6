/*
** device.h - what the core requires of a device, and what accelerators have beyond that.
*/

#ifndef device_h
#define device_h

#include "memory/pool.h"
#include "base/random.h"
#include "base/work.h"

/*
** With HEED_EXACT=1, for sanitizers, host memory has the size that was asked for, and is given back
** at once: every use of freed memory and of bytes behind a block is seen.
*/
#ifndef HEED_EXACT
#define HEED_EXACT 0
#endif

#pragma GCC visibility push(hidden)

typedef struct device device;
typedef struct device_event device_event;          /* a point in a stream, with its time */
typedef struct device_capture device_capture;      /* work that was recorded */

/*
** The functions of a device that works beside the host: its stream, events, memory figures,
** captures. A function that returns a text returns NULL, or why it failed (the text lives as long
** as the device).
*/
typedef struct accelerator {
  const char *(*wait) (device *d); /* for all its work; reports asynchronous errors */
  void (*memory) (device *d, heed_device_memory *m);
  void (*reset_peak) (device *d);
  void (*limit) (device *d, size_t bytes);         /* 0: all that the device has */
  void (*trim) (device *d);        /* gives cached memory back */
  void (*block) (device *d, bool yes);             /* waits after each work */
  void (*precision) (device *d, int level);        /* of float32 products: 0 highest, 2 medium */
  void (*products) (device *d, char *text, size_t bytes);    /* what does them, if any were done */
  void (*seed) (device *d, uint64_t seed);
  const char *(*rng_get) (device *d, uint64_t state[2]);     /* seed and offset */
  const char *(*rng_set) (device *d, const uint64_t state[2]);
  const char *(*copy) (device *to, void *data, device *from, const void *from_data, size_t bytes);
                                   /* from another one of this kind; both streams stay in order */
  /* Copies from and to pinned memory of the host, which do not wait. */
  const char *(*send) (device *d, void *to, const void *from, size_t bytes);
  const char *(*receive) (device *d, void *to, const void *from, size_t bytes);
  /* Events: 'elapsed' waits for the later one. */
  device_event *(*event_record) (device *d);
  const char *(*event_elapsed) (device *d, device_event *from, device_event *to, double *seconds);
  void (*event_drop) (device *d, device_event *e);
  /* Foreign streams: work in one is waited for, or waits for ours. */
  void *(*stream) (device *d);
  const char *(*after) (device *d, void *stream);
  const char *(*before) (device *d, void *stream);
  /* Captures: what is run from 'begin' on is recorded, with the memory that it uses. */
  const char *(*capture_begin) (device *d);
  device_capture *(*capture_end) (device *d, const char **why);
  const char *(*capture_replay) (device *d, device_capture *c);
  void (*capture_drop) (device *d, device_capture *c);
  const char *(*capture_set_step) (device *d, device_capture *c, int which, const heed_step *step);
                                   /* the numbers of an optimiser's work, counted from 0 */
} accelerator;

/* Every function returns NULL, or why not (a text that lives as long as the device). */
struct device {
  const char *name;                                /* "cpu", "cuda:0" */
  bool host;                                       /* the host can read its memory */
  size_t memory;                                   /* bytes that an accelerator has */
  size_t taken, enough;            /* of storage.c: bytes taken since the live ones were counted;
                                      above so many live ones the host is to collect garbage */
  const accelerator *accelerator;                  /* NULL: it works while the host waits */
  void (*close) (device *self);                    /* after its last memory was given back */
  void *(*alloc) (device *self, size_t bytes);     /* 64-byte aligned; NULL: gone, or no memory */
  void (*free) (device *self, void *data, size_t bytes);
  const char *(*upload) (device *self, void *to, const void *from, size_t bytes);
  const char *(*download) (device *self, void *to, const void *from, size_t bytes);
  const char *(*run) (device *self, const work *w);          /* what it supports */
  bool (*map) (device *self, const dense_map *w);  /* does such work as 'run' does, quickly;
                                      false: nothing was done, 'run' has to; NULL: always */
  bool (*supports) (const device *self, work_kind kind, int op);     /* op: as in the work */
  const char *(*gone) (device *self);      /* why it can't be used any more; NULL: it can;
                                              the CPU, which stays, has no entry */
  int64_t works;                   /* that it has been given */
  const char *way;                 /* how it did its last work, where its kernels have several
                                      ways; NULL: there is one, or none is told */
  int op;                          /* whose work runs: a heed_op, or above them a number that the
                                      core gave to its caller; after a message, whose it is about:
                                      an accelerator reports errors asynchronously */
};

/*
** account.c: counts the scratch memory of a device of the host's, on any of the context's threads;
** false: the limit has no room.
*/
bool scratch_take (heed_context *cx, size_t bytes);
void scratch_give (heed_context *cx, size_t bytes);

/* storage.c: does what is made now live long? */
bool storage_lasts (const heed_context *cx);

/* What a copy of a weight is made of, and for what: packed.c. */
typedef struct packed_key {
  const void *from, *by;           /* the weight's first element; the kernels' level */
  int64_t rows, columns;
  int64_t size;                    /* of an element */
} packed_key;

typedef struct packed_copy packed_copy;

/* The copy, if it is one of the weight as it is now; or NULL. */
void *packed_data (const packed_copy *p, const packed_key *key);
/* Memory for it, which counts; NULL, without a message: none, or it is another weight's. */
void *packed_renew (packed_copy *p, const packed_key *key, size_t bytes);
void packed_done (packed_copy *p, const packed_key *key);            /* it is written */

#pragma GCC visibility pop

#endif
