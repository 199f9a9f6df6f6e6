/*
** core.h - floors 1 and 2: contexts, storage, tensors and their history.
*/

#ifndef core_h
#define core_h

#include "core/plugin.h"
#include "core/device.h"
#include "core/pool.h"
#include "core/random.h"

#pragma GCC visibility push(hidden)

/* Counted bytes on a device. 'version' grows with every change in place. */
typedef struct storage storage;
struct storage {
  heed_context *cx;
  device *where;
  int64_t refs;
  size_t bytes;                    /* that a tensor may use */
  size_t room;                     /* that were allocated: a size class; 0 for foreign memory */
  void *data;
  int64_t version;
  heed_op changer;                 /* the op that changed it last, for the message */
  int64_t graph;                   /* the number of the one that captured its making, or 0 */
  void (*release) (void *self, void *data);                  /* of foreign memory */
  void *self;
  storage *next;                   /* in the cache */
};

typedef struct node node;

/* A handle. Handles of one history share a node; views remember the handle they view. */
struct heed_tensor {
  heed_context *cx;
  int64_t refs;
  storage *store;
  layout at;
  heed_type type;
  bool number;                     /* came from a Lua number: joins types weakly; see 'value' */
  scalar value;                    /* of a number, which has no storage until asked */
  int output;                      /* of node */
  node *node;                      /* NULL: no history */
  heed_tensor *base;               /* the handle that this is a view of, or NULL */
  bool unheard;                    /* a view made without gradients: it has no history */
  int64_t base_order;              /* of base's node when this view's own was made; 0: none */
};

/* A value that a gradient rule needs: a tensor without history, at a version. */
typedef struct saved {
  storage *store;                  /* NULL: only shape and type were kept */
  int64_t version;
  layout at;
  heed_type type;
  bool number;
  scalar value;
  bool there;                      /* false: the argument was left out */
} saved;

/* An input of a node: where its gradient goes. */
typedef struct edge {
  node *node;                      /* NULL: wants no gradient */
  int output;
  heed_type type;                  /* of the input, its shape and its device: the walk sums */
  layout at;                       /* over broadcast axes, converts and moves in one place */
  device *where;
} edge;

typedef enum node_kind { NODE_LEAF, NODE_OP, NODE_OVERLAY, NODE_VIEW, NODE_CUSTOM } node_kind;

/*
** A step of history. Nodes are made after their inputs, so 'order' falls along every edge.
** A leaf owns its gradient. Arrays lie behind the node, in one block.
*/
struct node {
  heed_context *cx;
  int64_t refs;
  int64_t order;
  node_kind kind;
  heed_op op;
  int nedges, nsaved, noutputs, nargs;
  edge *edges;                     /* one for each tensor argument, lists flattened */
  saved *saved;                    /* arguments' tensors first (nedges of them), then outputs */
  heed_value *args;                /* the scalar arguments as they were given (lists copied) */
  heed_tensor *gradient;           /* of a leaf */
  layout region;                   /* OVERLAY and VIEW: the part of the base, in its storage */
  layout whole; heed_type type;    /* of the base, or of the leaf */
  heed_custom custom;
  bool freed;                      /* a walk without 'retain' went through: edges lead nowhere */
  /* while a walk runs: */
  heed_tensor **incoming;          /* gradient of each output, or NULL (lies behind the node) */
  int64_t walk;                    /* the walk that has seen it */
  int64_t accumulated;                 /* of a leaf: where the walk's list has it, if it does */
  node *next;                      /* list of those to free */
};

/* Bytes of storage on the host; foreign memory is not counted. */
typedef struct memory_account {
  size_t live, cached, peak, limit;
  size_t read;                     /* live and cached when the machine was last asked for 'limit' */
  bool limited;                    /* by the user */
} memory_account;

#define CORE_GPUS 16
#define STORAGE_CLASSES 125        /* 64 bytes to 4 GiB: see storage.c */
#define SMALL_CLASSES 64           /* 64 bytes to 4 KiB, in steps of 64: see context.c */

struct heed_context {
  heed_host host;
  char message[1024];
  bool failed;
  device *cpu;
  device *gpu[CORE_GPUS];                  /* opened ones, by number */
  bool has_accelerators;                               /* some are */
  device *captured;                        /* whose work is kept now, or NULL */
  heed_capture *graph;                       /* … and in what */
  heed_capture *late;                        /* dropped meanwhile: they go at its end */
  int64_t graphs;                          /* that were begun: the number of the last */
  struct pending_release *returned;                   /* lent to a card, let go while it was captured */
  device *default_device;                            /* where what is made from nothing goes */
  device *current;                            /* where the call that runs works; else home */
  heed_op caller;                           /* by the host: what runs, runs for it; or HEED_NOPS */
  const cpu_level *level;
  const device_plugin *cuda;           /* NULL: not asked for, or there is none */
  char no_cuda[320];               /* why there is none */
  int precision;                   /* of float32 products on cards */
  pool *pool;
  generator random;
  memory_account memory;
  storage *free_storages[STORAGE_CLASSES]; /* cached with their data */
  void *free_small[SMALL_CLASSES];         /* cached blocks of core_alloc */
  size_t small;                            /* bytes of those */
  bool recording;
  int64_t clock;                           /* order of the latest node, from 1 on */
  int64_t walks, nodes;
  node *dying;                             /* nodes that wait to be freed */
  bool burying;                            /* somebody frees them */
  struct walk *walk;                       /* the one that runs, or NULL */
  heed_tensor **temporaries;               /* owned by the ops that run: see op.h */
  int ntemporaries, temporaries_capacity;
  heed_signature *signatures;              /* HEED_NOPS */
  int64_t tensors;                         /* alive: the context waits for them at close */
  bool closing;
};

/* Whom messages name: what the host asked for, not what it is composed of. */
static inline heed_op core_caller (const heed_context *cx, heed_op op) {
  return cx->caller != HEED_NOPS ? cx->caller : op;
}

/* context.c */
void *core_alloc (heed_context *cx, size_t bytes);   /* uninitialised; keeps a message */
void core_free (heed_context *cx, void *block, size_t bytes);        /* as many as were asked for */
/* Room in *list for one more behind n elements of 'size' bytes; false: no memory. */
bool core_grow (heed_context *cx, void **list, int64_t n, int64_t *room, size_t size);
void core_trim (heed_context *cx);                   /* gives cached small blocks back */
const char *core_op_name (heed_op op);                 /* "custom" for HEED_NOPS */
void core_left (heed_context *cx);   /* after a tensor or node went: a closed context may go too */
/* Keeps the first message; always NULL, so that 'return core_fail(...)' reads well. */
void *core_fail (heed_context *cx, const char *format, ...) __attribute__((format(printf, 2, 3)));
void core_parallel (heed_context *cx, int64_t n, int64_t grain,
                    void (*piece) (void *arg, int64_t from, int64_t to), void *arg);
bool core_run (heed_context *cx, heed_op op, device *where, const work *w);
      /* runs it; a device's message is kept as "name: message" */

/* cuda.c: by name: "cpu", "cuda", "cuda:1"; opened at the first use; NULL after core_fail */
device *core_device (heed_context *cx, const char *who, const char *name);
const char *core_cuda_reason (heed_context *cx);     /* why there is no card; NULL: there is one */
const device_plugin *core_cuda (heed_context *cx);       /* NULL: there is no cuda.so, see 'reason' */
void core_cuda_close (heed_context *cx);

/* cards.c */
device *core_device_at (heed_context *cx, const char *who, int index);    /* that is open, or is opened
                                             now; NULL after a message */
bool core_done (heed_context *cx, const char *who, const char *why);      /* no 'why', no failure */
const char *core_error_op (const device *d, const char *who);          /* whom its message is about:
                                             an operation that it describe of late, or who asked */
void core_end_releases (heed_context *cx);              /* that waited for a capture's end */

/* graph.c: what captured work finds there is kept for it, and looked at before a replay */
void capture_add_input (heed_context *cx, heed_tensor *t);
void capture_add_gradient (node *leaf, bool read);            /* its gradient: 'read', or set */
static inline void capture_input (heed_context *cx, heed_tensor *t) {
  if (cx->graph != NULL && t != NULL) capture_add_input(cx, t);
}
static inline void capture_gradient (node *leaf, bool read) {
  if (leaf->cx->graph != NULL) capture_add_gradient(leaf, read);
}

/* storage.c */
storage *storage_new (heed_context *cx, device *where, size_t bytes);    /* uninitialised; asks
                                             the host for room first, which may drop tensors */
storage *storage_lend (heed_context *cx, device *where, void *data, size_t bytes,
                       void (*release) (void *, void *), void *self);
void storage_keep (storage *s);
void storage_drop (storage *s);

/* tensor.c: all return NULL after core_fail */
heed_tensor *tensor_new (heed_context *cx, heed_type type, const layout *shape);  /* dense, here */
heed_tensor *tensor_moved (heed_tensor *t, device *where, heed_type type);   /* a dense copy */
device *tensor_device (const heed_tensor *t);     /* NULL: a number, which is everywhere */
heed_tensor *tensor_on (heed_context *cx, storage *s, heed_type type, const layout *at);
                                          /* one more owner of s */
heed_tensor *tensor_view (heed_tensor *t, const layout *at);     /* of t's storage, no history */
heed_tensor *tensor_lend (heed_context *cx, device *where, heed_type type, int rank,
                          const int64_t *size, void *data, void (*release) (void *, void *),
                          void *self);               /* checks as heed_lend does */
heed_tensor *tensor_number (heed_context *cx, scalar value);     /* rank 0, weak, no storage */
bool tensor_materialize (heed_tensor *t);      /* gives a number its storage; true for all others */
/* The handle that t is a view of; NULL also when that has taken over other memory since. */
static inline heed_tensor *tensor_viewed (const heed_tensor *t) {
  return t->base != NULL && t->base->store == t->store ? t->base : NULL;
}
/* The same where t's history comes from there. */
static inline heed_tensor *tensor_base (const heed_tensor *t) {
  return t->unheard ? NULL : tensor_viewed(t);
}
/* Did that handle get a history that t's own knows nothing of? graph_node_of makes it anew then. */
static inline bool tensor_behind (const heed_tensor *t) {
  const heed_tensor *base = tensor_base(t);
  return base != NULL && base->node != NULL && base->node->order != t->base_order;
}
/* For a device, with another layout of its storage (at->offset counted in storage). */
static inline view view_with (const heed_tensor *t, const layout *at) {
  view v;
  v.type = t->type;
  v.at = *at;
  v.at.offset = 0;
  v.value = t->value;
  v.data = t->store == NULL || t->store->data == NULL ? NULL
         : (char *)t->store->data + at->offset * scalar_sizes[t->type];
  return v;
}
/* For a device; without storage, as its value. */
static inline view view_of (const heed_tensor *t) { return view_with(t, &t->at); }
static inline view view_none (void) {
  view v;
  v.data = NULL;
  v.type = HEED_BOOL;
  v.at.rank = -1;
  return v;
}

/* node.c */
node *node_new (heed_context *cx, node_kind kind, heed_op op, int nedges, int nsaved,
                int noutputs, int nargs);            /* refs 1, arrays zeroed */
void node_keep (node *n);
void node_drop (node *n);                            /* frees a chain without recursion */
node *node_leaf (heed_context *cx, const heed_tensor *t);
void node_forget (node *n);        /* drops saved values and inputs' nodes: 'freed' from now on */
int64_t node_order (const node *n);                  /* 0: there is none */
void node_put_gradient (node *leaf, heed_tensor *gradient);          /* which it owns now */
bool node_save (node *n, int i, const heed_tensor *t, bool value);   /* value false: shape only */
heed_tensor *node_saved (node *n, int i);            /* a new handle without history; checks the
                                                        version; NULL and no message if absent */

#pragma GCC visibility pop

#endif
