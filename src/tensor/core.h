/*
** core.h - floors 1 and 2: contexts, storage, tensors and their graph.
*/

#ifndef core_h
#define core_h

#include "base/float_mode.h"
#include "memory/interrupt.h"
#include "memory/plugin.h"

#pragma GCC visibility push(hidden)

/*
** Counted bytes on a device. 'version' grows with every change in place. It is as small
** as can be, since thousands come and go between two collections: small calls wait for memory.
*/
typedef struct storage storage;
struct storage {
  heed_context *cx;
  device *where;
  int64_t refs;
  size_t bytes;                    /* that a tensor may use */
  size_t capacity;                 /* that were allocated: a size class; 0 for foreign memory */
  void *data;
  union {
    int64_t version;
    storage *next;                 /* in the cache */
  };
  short changer;                   /* the op that changed it last, for the message */
  bool again;                      /* recorded works write it: it serves that capture again */
  bool settled;                    /* the host writes it in that capture, which holds it as it is */
  int capture;                     /* the number of the one that recorded its making, or 0 */
};

/* Memory of the host's. */
typedef struct foreign {
  storage storage;                 /* first: a storage without capacity is a foreign */
  void (*release) (void *self, void *data);
  void *self;
} foreign;

typedef struct node node;

/* A handle. Handles with one gradient share a node; views remember the handle they view. */
struct heed_tensor {
  heed_context *cx;
  int64_t refs;
  storage *store;
  node *node;                      /* NULL: no graph */
  heed_tensor *base;               /* the handle that this is a view of, or NULL */
  int64_t base_order;              /* of base's node when this view's own was made; 0: none */
  heed_type type;
  int output;                      /* of node */
  bool number;                     /* came from a Lua number: joins types weakly; see 'value' */
  bool detached_view;              /* a view made without gradients: it has no graph */
  layout at;
  scalar value;                    /* of a number, which has no storage until it is needed */
};

/*
** A value that a backward function needs: a tensor without a graph, at a version. Here and in an
** edge, sizes and strides lie behind the node, as many as there are: most nodes have few.
*/
typedef struct saved {
  storage *store;                  /* NULL: a number that has none */
  int64_t version, offset;
  const int64_t *dims;             /* sizes, then strides */
  scalar value;                    /* of a number */
  uint8_t type, rank;
  bool number;
  bool present;                    /* false: no gradient that is wanted needs it, or left out */
} saved;

/*
** An input of a node: where its gradient goes. By its type, shape and device the backward pass sums
** over broadcast axes, converts and moves, in one place.
*/
typedef struct edge {
  node *node;                      /* NULL: wants no gradient */
  device *where;
  const int64_t *size;
  int output;                      /* of 'node' */
  uint8_t type, rank;
} edge;

typedef enum node_kind { NODE_LEAF, NODE_OP, NODE_OVERLAY, NODE_VIEW, NODE_CUSTOM } node_kind;

/* A host's function on the gradient of one of a node's outputs; or a leaf that retains it. */
struct heed_hook {
  node *n;
  heed_hook *next;                 /* in the order in which they were added */
  int64_t number;                  /* … counted */
  int output;
  heed_custom custom;
  node *retained;                  /* a leaf, which there is no function beside; or NULL */
};

/*
** A step of the graph. Nodes are made after their inputs, so 'order' falls along every edge.
** A leaf owns its gradient. Arrays lie behind the node, in one block.
*/
struct node {
  heed_context *cx;
  int64_t refs;
  int64_t order;
  node_kind kind;
  heed_op op;
  int nedges, nsaved, noutputs, nargs, ndims;
  edge *edges;                     /* one for each tensor argument, lists flattened */
  saved *saved;                    /* arguments' tensors first (nedges of them), then outputs */
  heed_value *args;                /* the scalar arguments as they were given (lists copied) */
  int64_t *dims;                   /* for sizes and strides: the next that is free */
  heed_tensor *gradient;           /* of a leaf */
  layout *region;                  /* OVERLAY and VIEW: the part of the base, in its storage */
  layout *base_at; heed_type type; /* of the base, or of the leaf */
  heed_custom custom;
  heed_hook *hooks;
  bool freed;                      /* by a pass without 'retain': edges lead nowhere */
  /* while a backward pass runs: */
  heed_tensor **incoming;          /* gradient of each output, or NULL (lies behind the node) */
  int64_t pass;                    /* the last that visited it */
  int64_t accumulated;             /* of a leaf: its index in the pass's list, if it is there */
  node *next;                      /* list of those to free */
};

/* Bytes of storage on the host; foreign memory is not counted. */
typedef struct memory_account {
  size_t live, cached, peak, limit;
  size_t read;                     /* live and cached when 'limit' was last read off the machine */
  bool limited;                    /* by the user */
} memory_account;

#define CORE_DEVICES 17            /* the CPU and what plugins open */
#define STORAGE_CLASSES 125        /* 64 bytes to 4 GiB: see storage.c */
#define SMALL_CLASSES 64           /* 64 bytes to 4 KiB, in steps of 64: see context.c */
#define CORE_CALLERS 256           /* most callers that have a number */

/* The host's memory that a capture made; what is dropped meanwhile serves that capture again. */
typedef struct capture_memory {
  storage **made;
  int64_t nmade, made_capacity;
  storage *free[STORAGE_CLASSES];
} capture_memory;

/* The first failure since the last heed_clear; heed_error puts it into words. */
typedef struct failure {
  bool set;
  bool verbatim;                   /* the host's own words: heed_fail */
  char function[64];               /* as it was called, or empty */
  char argument[64];               /* or empty */
  char text[800];
} failure;

/* A parameter that was converted: see casts.c. */
typedef struct kept_cast {
  heed_tensor *of, *cast;
  const storage *store;            /* of the parameter … */
  int64_t version;                 /* … when it was converted */
} kept_cast;

/* Mixed precision: the type of products, or FLOAT32. */
typedef struct autocast {
  heed_type type;
  kept_cast *kept;
  int64_t n, capacity;
} autocast;

struct heed_context {
  heed_host host;
  failure failure;
  char message[1024];                      /* the failure, in words */
  const char *caller;                      /* what messages name; NULL: the operation */
  char callers[CORE_CALLERS][40];          /* those that have a number: see core_begin */
  int ncallers;
  device *device[CORE_DEVICES];            /* that were opened; the first is the CPU */
  int ndevices;
  device *default_device;                  /* of tensors that are made from nothing */
  device *current;                         /* where the call that runs works; else the default */
  const plugin *plugin;                    /* NULL: not needed yet, or there is none */
  char no_plugin[320];                     /* why there is none */
  device *captured;                        /* whose work is recorded now, or NULL */
  heed_capture *capture;                   /* … and in what */
  capture_memory *capture_memory;          /* … and its memory, on the host; or NULL */
  heed_capture *dropped;                   /* meanwhile: freed at its end */
  int captures;                            /* that were begun: the number of the last */
  struct pending_release *pending;         /* foreign memory, released while it was captured */
  int precision;                           /* of float32 products on accelerators */
  pool *pool;
  interruption stop;
  const storage *target;                   /* what a call in place writes, or NULL */
  generator random;
  memory_account memory;
  storage *free_storages[STORAGE_CLASSES]; /* cached with their data */
  int64_t storages_wanted[STORAGE_CLASSES];        /* 'blocks' when one was wanted last */
  int64_t blocks;                          /* of storages, taken from the system so far */
  void *free_small[SMALL_CLASSES];         /* cached blocks of core_alloc */
  size_t small;                            /* bytes of those */
  bool recording;
  autocast autocast;
  int64_t clock;                           /* order of the latest node, from 1 on */
  int64_t passes, nodes;                   /* backward passes begun; nodes alive */
  node *unreferenced;                      /* nodes that wait to be freed */
  bool freeing;                            /* they are being freed */
  struct pass *pass;                       /* the backward pass that runs, or NULL */
  heed_tensor **temporaries;               /* owned by the ops that run: see op.h */
  int64_t ntemporaries, temporaries_capacity;
  int64_t tensors;                         /* alive: the context waits for them at close */
  bool closing;
};

/* context.c */
heed_context *core_open (const heed_host *host);     /* without devices; NULL: no memory */
void core_close (heed_context *cx);                  /* at once: it has no tensors and nodes */
void *core_alloc (heed_context *cx, size_t bytes);   /* uninitialised; keeps a failure */
void core_free (heed_context *cx, void *block, size_t bytes);        /* as many as were allocated */
/* Makes *list hold one more than n elements of 'size' bytes; false: no memory. */
bool core_grow (heed_context *cx, void **list, int64_t n, int64_t *capacity, size_t size);
void core_trim (heed_context *cx);                   /* gives cached small blocks back */
const char *core_op_name (int op);                   /* "custom" for HEED_NOPS */
void core_left (heed_context *cx);   /* after a tensor or node went: a closed context may go too */
/*
** Keeps the first failure; always NULL, so that 'return core_fail(...)' reads well. 'function' is
** named unless the context has a caller; NULL: none is known. 'argument' may be NULL.
*/
void *core_fail (heed_context *cx, const char *function, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void *core_fail_at (heed_context *cx, const char *function, const char *argument,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
void *core_fail_async (heed_context *cx, const char *function, const char *text);    /* of an
                                                 earlier call: its function is named in any case */
typedef struct bytes_text { char text[32]; } bytes_text;
bytes_text core_bytes (size_t n);                    /* "21.2 GiB" */
void core_parallel (heed_context *cx, int64_t n, int64_t grain,
                    void (*piece) (void *arg, int64_t from, int64_t to), void *arg);
bool core_run (heed_context *cx, heed_op op, device *where, const work *w);
      /* runs it; a device's message is kept as a failure of 'op' */
bool core_map (heed_context *cx, device *where, const dense_map *w);   /* false: core_run has to */
/*
** Was the context interrupted? Then that is a failure of the function, and it is over. Loops over
** many small works poll, some ten microseconds apart; before the first write of what is in place
** it is asked for the last time: what comes between core_hold and core_release runs to its end.
*/
bool core_interrupted (heed_context *cx, const char *function);
bool core_poll (heed_context *cx, const char *function);     /* asks the host too */
static inline void core_hold (heed_context *cx) { cx->stop.held++; }
static inline void core_release (heed_context *cx) { cx->stop.held--; }
/*
** Before and after a device's function that may report an asynchronous error. 'op' is what the
** device does; what it is given is marked with the number of the caller, so that a message that
** comes later names that. core_end keeps a message; true: there was none.
*/
enum { CORE_READ = HEED_NOPS + 1, CORE_SYNCHRONIZE, CORE_CAPTURE, CORE_OPS };
void core_begin (heed_context *cx, device *d, int op);
bool core_end (heed_context *cx, device *d, int op, const char *why);

/* plugin.c: by name: "cpu", "cuda", "cuda:1"; opened at the first use; NULL after core_fail */
device *core_device (heed_context *cx, const char *function, const char *name);
device *core_find_device (const heed_context *cx, const char *name);     /* NULL: it isn't open */
int core_device_index (const char *name);            /* of a plugin's, from 0; -1: no such name */
const char *core_plugin_reason (heed_context *cx, const char *kind);   /* why there is no device of
                                                 this kind; NULL: there is, and cx->plugin */

/* accelerator.c */
device *core_accelerator (heed_context *cx, const char *function, const char *name);   /* as
                                                 core_device, but refuses the CPU */
bool core_done (heed_context *cx, const char *function, const char *why);    /* no 'why', no
                                                 failure */
void core_end_releases (heed_context *cx);           /* that waited for a capture's end */

/* record.c: work of a device that works while the host waits, and its memory, between begin and
** drop; cx->capture_memory is that from begin to end */
typedef struct work_list work_list;
work_list *works_begin (heed_context *cx);       /* NULL: no memory */
bool works_add (heed_context *cx, work_list *r, int op, const work *w);      /* op: device.op */
void works_end (heed_context *cx, work_list *r);
void works_drop (heed_context *cx, work_list *r);
bool works_replay (heed_context *cx, device *where, work_list *r);
bool works_set_step (heed_context *cx, work_list *r, int which, const heed_step *step);
int64_t works_steps (const work_list *r);        /* of optimisers, taken by the last replay */

/*
** capture.c: what recorded work reads is kept for it, and compared before a replay
*/
bool capture_add_work (heed_context *cx, int op, const work *w);     /* false: no memory */
void capture_add_input (heed_context *cx, heed_tensor *t);
void capture_add_gradient (node *leaf, bool read);   /* its gradient: 'read', or set */
static inline void capture_input (heed_context *cx, heed_tensor *t) {
  if (cx->capture != NULL && t != NULL) capture_add_input(cx, t);
}
static inline void capture_gradient (node *leaf, bool read) {
  if (leaf->cx->capture != NULL) capture_add_gradient(leaf, read);
}
/* May the host read and write the memory of 'where'? What is recorded is not there yet. */
static inline bool core_reaches (const heed_context *cx, const device *where) {
  return where->host && where != cx->captured;
}
bool core_check_reach (heed_context *cx, const char *function, const device *where);
bool core_check_captured (heed_context *cx, const char *function, const device *where);    /* work
                                             elsewhere is refused */
bool core_check_generator (heed_context *cx, const char *function);  /* reads or sets its state */
bool capture_read (const heed_tensor *t, heed_type type, void *data);    /* of what is not reached:
                                             numbers alone have a value */

/* storage.c */
storage *storage_new (heed_context *cx, device *where, size_t bytes);    /* uninitialised; lets the
                                             host reclaim memory, which may drop tensors */
storage *storage_lend (heed_context *cx, device *where, void *data, size_t bytes,
                       void (*release) (void *, void *), void *self);
void storage_keep (storage *s);
void storage_drop (storage *s);
bool storage_settle (storage *s);            /* before the host writes it: in a capture nothing
                                                else does, before or after; false: no memory */
void storage_end_capture (capture_memory *m);      /* which owns what it made from now on */
void storage_drop_made (heed_context *cx, capture_memory *m);

/* tensor.c: all return NULL after core_fail */
heed_tensor *tensor_new (heed_context *cx, heed_type type, const layout *shape);  /* dense, on the
                                                        current device */
heed_tensor *tensor_moved (heed_tensor *t, device *where, heed_type type);   /* a dense copy */
device *tensor_device (const heed_tensor *t);        /* NULL: a number, which is on all of them */
heed_tensor *tensor_on (heed_context *cx, storage *s, heed_type type, const layout *at);
                                          /* one more owner of s */
heed_tensor *tensor_view (heed_tensor *t, const layout *at);     /* of t's storage, no graph */
heed_tensor *tensor_lend (heed_context *cx, device *where, heed_type type, int rank,
                          const int64_t *size, void *data, void (*release) (void *, void *),
                          void *self);               /* checks as heed_lend does */
heed_tensor *tensor_number (heed_context *cx, scalar value);     /* rank 0, weak, no storage */
bool tensor_materialize (heed_tensor *t);            /* gives a number storage; true for others */
/* The handle that t is a view of; NULL also when that has taken over other memory since. */
static inline heed_tensor *tensor_viewed (const heed_tensor *t) {
  return t->base != NULL && t->base->store == t->store ? t->base : NULL;
}
/* The same where t's graph comes from there. */
static inline heed_tensor *tensor_base (const heed_tensor *t) {
  return t->detached_view ? NULL : tensor_viewed(t);
}
/* Did that handle get a node after t's own was made? graph_node_of makes t's anew then. */
static inline bool tensor_behind (const heed_tensor *t) {
  const heed_tensor *base = tensor_base(t);
  return base != NULL && base->node != NULL && base->node->order != t->base_order;
}
/* The first element; NULL: a number, or there are no elements. */
static inline void *tensor_data (const heed_tensor *t) {
  return t->store == NULL || t->store->data == NULL ? NULL
       : (char *)t->store->data + t->at.offset * scalar_sizes[t->type];
}
/* For a device, with another layout of its storage (at->offset counted in storage). */
static inline view view_with (const heed_tensor *t, const layout *at) {
  view v;
  v.type = t->type;
  layout_copy(&v.at, at);
  v.at.offset = 0;
  if (t->number) v.value = t->value;
  v.data = t->store == NULL || t->store->data == NULL ? NULL
         : (char *)t->store->data + at->offset * scalar_sizes[t->type];
  return v;
}
/* *v = view_none(), of which little is touched. */
static inline void view_clear (view *v) {
  v->data = NULL;
  v->type = HEED_BOOL;
  v->at.rank = -1;
}
/* For a device; without storage, as its value. */
static inline view view_of (const heed_tensor *t) { return view_with(t, &t->at); }

/* casts.c: conversions of parameters, borrowed; NULL: none is kept that serves */
heed_tensor *core_kept_cast (const heed_context *cx, const heed_tensor *t);
bool core_keep_cast (heed_context *cx, heed_tensor *t, heed_tensor *cast);
void core_forget_casts (heed_context *cx);

/* node.c */
typedef struct node_size {
  int edges, saved, outputs, args;
  int dims;                        /* a size for each axis of an edge, size and stride of a saved */
} node_size;
node *node_new (heed_context *cx, node_kind kind, heed_op op, node_size size);   /* refs 1, all
                                                        else zeroed */
void node_keep (node *n);
void node_drop (node *n);                            /* frees a chain without recursion */
node *node_leaf (heed_context *cx, const heed_tensor *t);
void node_forget (node *n);        /* drops saved values and inputs' nodes: 'freed' from now on */
int64_t node_order (const node *n);                  /* 0: there is none */
void node_put_gradient (node *leaf, heed_tensor *gradient);          /* which it owns now */
node *node_of_gradient (const heed_tensor *t);       /* the leaf that has t's; NULL: none */
heed_hook *node_add_hook (node *n, int output);      /* empty; NULL: no memory */
void node_remove_hook (heed_hook *hook);
void node_save (node *n, int i, const heed_tensor *t);
/* Edge i leads to an input, which may be NULL, from what is like t; after t was saved, if it is. */
void node_set_edge (node *n, int i, node *input, int output, const heed_tensor *t);
bool edge_has_shape (const edge *e, const layout *at);
layout edge_shape (const edge *e);                   /* dense */
bool node_view (node *n, int i, view *v);            /* the saved value itself, or view_none; false
                                                        after core_fail */
heed_tensor *node_saved (node *n, int i);            /* a new handle without a graph; checks the
                                                        version; NULL and no message if absent */

#pragma GCC visibility pop

#endif
