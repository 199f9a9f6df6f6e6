/*
** heed.h - the public C API: tensors, gradients, attention.
**
**   heed_context *cx = heed_open(NULL);
**   heed_tensor *x = heed_from(cx, HEED_FLOAT32, 2, (int64_t[]){2, 2}, numbers);
**   heed_tensor *y = heed_call(cx, HEED_exp, (heed_value[]){heed_t(x)}, 1);
**   if (y == NULL) puts(heed_error(cx));
**   heed_drop(y); heed_drop(x);
**   heed_close(cx);
**
** What a function returns is yours; what you pass stays yours. NULL may be passed
** anywhere and comes back as NULL: the context keeps the first message, so a chain of
** calls needs one check, at its end. A context and its tensors belong to one thread at a
** time, whose stack need not be larger than 64 KiB. Axes count from 0 here (negative ones
** from the end); index values inside tensors (labels, ids, positions) count from 1, as
** everywhere in heed.
*/

#ifndef HEED_H
#define HEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEED_API __attribute__((visibility("default")))

#define HEED_RANK 8        /* most axes of a tensor */
#define HEED_RESULTS 3     /* most results of an operation */
#define HEED_ARGUMENTS 20  /* most arguments of an operation */

typedef struct heed_context heed_context;
typedef struct heed_tensor heed_tensor;

/*
** {==================================================================
** Types and operations
** ===================================================================
*/

/* In order of promotion, but float16 with bfloat16 gives float32. Behind HEED_NTYPES stand types of
   blocks, whose elements are no values of their own: see base/blocks.def. */
typedef enum heed_type {
  HEED_BOOL, HEED_UINT8, HEED_INT64,
  HEED_FLOAT16, HEED_BFLOAT16, HEED_FLOAT32, HEED_FLOAT64,
  HEED_NTYPES,
#define BLOCK(NAME, ...) HEED_##NAME,
#include "base/blocks.def"
  HEED_ALL_TYPES
} heed_type;

/* Every row of the table of operations, in its order. */
typedef enum heed_op {
#define UNARY(name, ...) HEED_##name,
#define BINARY(name, ...) HEED_##name,
#define TERNARY(name, ...) HEED_##name,
#define OP(name, ...) HEED_##name,
#define COMPOSED(name, ...) HEED_##name,
#define PLAIN(name, ...) HEED_##name,
#include "op/ops.def"
  HEED_NOPS
} heed_op;

/* Kinds of arguments; an op's row says which it takes. */
typedef enum heed_kind {
  HEED_NONE,      /* left out: the row's default holds */
  HEED_TENSOR,    /* .tensor; a number will do too */
  HEED_INTEGER,   /* .integer: counts, positions, axes, sizes, and integers */
  HEED_FLOAT,     /* .number */
  HEED_FLAG,      /* .integer, 0 or 1 */
  HEED_LIST,      /* .list: axes or sizes */
  HEED_TENSORS,   /* .tensors; an entry may be NULL where the row allows it */
  HEED_TEXT       /* .text: one of an option's words */
} heed_kind;

typedef struct heed_value {
  heed_kind kind;
  int n;                            /* of a list */
  union {
    heed_tensor *tensor;
    int64_t integer;
    double number;
    const int64_t *list;
    heed_tensor *const *tensors;
    const char *text;
  };
} heed_value;

/*
** Arguments by their names, as heed_describe and docs/operations.md have them: where one stands in
** a call, HEED_ARG(attention, mask), and how many there are, HEED_ARGS(attention). Those that are
** 0 are left out:
**
**   heed_value args[HEED_ARGS(attention)] = {0};
**   args[HEED_ARG(attention, query)] = heed_t(q);
**   heed_tensor *y = heed_call(cx, HEED_attention, args, HEED_ARGS(attention));
*/
#define HEED_ARG(op, name) ((int)offsetof(struct heed_arguments_##op, name))
#define HEED_ARGS(op) ((int)sizeof(struct heed_arguments_##op))

#define UNARY(name, domain, y, da, ra, ...) \
  struct heed_arguments_##name { char input; __VA_ARGS__ };
#define BINARY(name, domain, y, da, ra, db, rb, ...) \
  struct heed_arguments_##name { char input, other; __VA_ARGS__ };
#define TERNARY(name, domain, y, da, ra, db, rb, dc, rc, arguments) \
  struct heed_arguments_##name { arguments };
#define OP(name, arguments, ...) struct heed_arguments_##name { arguments };
#define COMPOSED(name, arguments, ...) struct heed_arguments_##name { arguments };
#define PLAIN(name, arguments, ...) struct heed_arguments_##name { arguments };
#define TENSOR(name, ...) char name;
#define TENSORS(name, ...) char name;
#define TARGET(name) char name;
#define NUMBER(name, ...) char name;
#define COUNT(name, ...) char name;
#define POSITION(name, ...) char name;
#define AXIS(name, ...) char name;
#define AXES(name, ...) char name;
#define SHAPE(name, ...) char name;
#define FLAG(name, ...) char name;
#define TEXT(name, ...) char name;
#define CHOICE(name, ...) char name;
#define OPTIONAL(kind, name) char name;
#include "op/ops.def"

/* What an argument of a row wants (the words of ops.def). */
typedef enum heed_want {
  HEED_WANT_TENSOR, HEED_WANT_TENSORS, HEED_WANT_NUMBER, HEED_WANT_COUNT, HEED_WANT_POSITION,
  HEED_WANT_AXIS, HEED_WANT_AXES, HEED_WANT_SHAPE, HEED_WANT_FLAG, HEED_WANT_DTYPE,
  HEED_WANT_CHOICE, HEED_WANT_TEXT
} heed_want;

typedef struct heed_parameter {
  const char *name;
  heed_want want;
  bool optional;                    /* may be left out without a default */
  bool target;                      /* what the in-place variant overwrites */
  heed_value value;                 /* the default, or of kind HEED_NONE */
  const char *words;                /* of a choice: "mean|sum|none"; else NULL */
} heed_parameter;

typedef struct heed_signature {
  const char *name, *in_place_name; /* "add", "add_"; whether there is one: heed_works_in_place */
  int results;                      /* that a caller sees */
  int parameters;
  const heed_parameter *parameter;
  bool verdict;                     /* over all dimensions it gives one bool: any and all */
} heed_signature;

/* Has the operation a variant, name_, that writes into its first argument? */
static inline bool heed_works_in_place (const heed_signature *s) { return s->parameter[0].target; }
/* Is its first argument a tensor? */
static inline bool heed_is_method (const heed_signature *s) {
  return s->parameter[0].want == HEED_WANT_TENSOR;
}

HEED_API const heed_signature *heed_describe (heed_context *cx, heed_op op);
HEED_API const char *heed_type_name (heed_type type);
HEED_API bool heed_type_find (const char *name, heed_type *type);
HEED_API size_t heed_type_size (heed_type type);         /* of an element; 0: of blocks, or none */
HEED_API int heed_type_block (heed_type type);           /* elements of a block; 1: no blocks */
HEED_API bool heed_type_written (heed_type type);        /* can values be converted to it? */
HEED_API size_t heed_type_bytes (heed_type type, int64_t n);     /* of n elements, whole blocks */

/* Values, without compound literals, so that C++ takes them too. */
static inline heed_value heed_none (void) {
  heed_value v;
  v.kind = HEED_NONE;
  v.n = 0;
  v.integer = 0;
  return v;
}
static inline heed_value heed_t (heed_tensor *t) {
  heed_value v = heed_none();
  v.kind = HEED_TENSOR;
  v.tensor = t;
  return v;
}
static inline heed_value heed_i (int64_t i) {
  heed_value v = heed_none();
  v.kind = HEED_INTEGER;
  v.integer = i;
  return v;
}
static inline heed_value heed_f (double f) {
  heed_value v = heed_none();
  v.kind = HEED_FLOAT;
  v.number = f;
  return v;
}
static inline heed_value heed_b (bool b) {
  heed_value v = heed_i(b);
  v.kind = HEED_FLAG;
  return v;
}
static inline heed_value heed_l (int n, const int64_t *list) {
  heed_value v = heed_none();
  v.kind = HEED_LIST;
  v.n = n;
  v.list = list;
  return v;
}
static inline heed_value heed_ts (int n, heed_tensor *const *tensors) {
  heed_value v = heed_none();
  v.kind = HEED_TENSORS;
  v.n = n;
  v.tensors = tensors;
  return v;
}
static inline heed_value heed_s (const char *text) {
  heed_value v = heed_none();
  v.kind = HEED_TEXT;
  v.text = text;
  return v;
}

/* }================================================================== */

/*
** {==================================================================
** Contexts
** ===================================================================
*/

/*
** What a host gives to a context; any member may be 0. 'resize' is realloc with the old
** size and frees when 'new_size' is 0. 'reclaim' is called before 'bytes' of storage are
** allocated, and again with 'urgent' when that failed: it may drop tensors, and nothing
** else of heed may be called from it.
*/
typedef struct heed_host {
  void *(*resize) (void *self, void *block, size_t old_size, size_t new_size);
  void (*reclaim) (void *self, size_t bytes, bool urgent);
  bool (*interrupted) (void *self); /* asked every 2 ms or more while a call works: see below */
  void *self;
  const char *level;                /* "base", "avx2", "avx512", "neon"; NULL: HEED_LEVEL or best */
  int threads;                      /* 0: as many as there are cores */
} heed_host;

HEED_API heed_context *heed_open (const heed_host *host);   /* NULL: no memory, no such level */
HEED_API void heed_close (heed_context *cx);                /* after its last tensor, or before */
HEED_API const char *heed_error (heed_context *cx);         /* the first message, or NULL */
HEED_API void heed_clear (heed_context *cx);                /* forgets the message */
HEED_API void heed_fail (heed_context *cx, const char *format, ...)
    __attribute__((format(printf, 2, 3)));                  /* keeps a message of the host's */
HEED_API const char *heed_level (heed_context *cx);
HEED_API bool heed_set_level (heed_context *cx, const char *name);
HEED_API int heed_threads (heed_context *cx);
HEED_API bool heed_set_threads (heed_context *cx, int n);   /* 1 to 256 */

/*
** Stops the call that runs, or else the next one: it fails with 'interrupted' (named as every
** message) within 100 ms, and all goes on. Any thread may call it, and a signal's handler. A host
** that would rather be asked has 'interrupted', which is called by the thread whose call runs.
** What was being made is dropped, and what was there before stays as it is: a call in place, a
** step of an optimiser, heed_write, and a backward pass that adds to the leaves' gradients are
** refused before their first write, or end. That takes as long as memory does, which is some
** seconds for some tens of gigabytes. A graph that an interrupted backward pass has walked is
** freed; random numbers that were drawn are gone. Work of accelerators that was begun ends.
*/
HEED_API void heed_interrupt (heed_context *cx);
/* For a host's own loops: was it called? Then that is a failure, and it is over. */
HEED_API bool heed_interrupted (heed_context *cx);

/* The default device: where tensors are made ("cpu", "cuda", "cuda:1", counted from 0). */
HEED_API const char *heed_device (heed_context *cx);
HEED_API bool heed_set_device (heed_context *cx, const char *name);

typedef struct heed_memory {
  size_t live, cached;              /* bytes of tensors' data: used, and kept for the next */
  size_t peak;                      /* most bytes live and other at once */
  size_t limit;                     /* of all; set to 0: the machine's free memory */
  size_t other;                     /* bytes of handles, graph, recorded works, kernels' scratch */
} heed_memory;

HEED_API heed_memory heed_memory_now (heed_context *cx);
HEED_API void heed_memory_limit (heed_context *cx, size_t bytes);
/* Before a host allocates for its own: has the limit room? False: a failure that names 'what'. */
HEED_API bool heed_memory_room (heed_context *cx, size_t bytes, const char *what);
HEED_API void heed_memory_trim (heed_context *cx);          /* gives the cache back */
/* Tensors that are made until 'lasting' is false again live long, as weights and all in blocks do:
   on the CPU those of 64 KiB and more share huge pages, to be read faster. Gives what it was. */
HEED_API bool heed_memory_lasting (heed_context *cx, bool lasting);

/* }================================================================== */

/*
** {==================================================================
** Tensors
** ===================================================================
*/

HEED_API heed_tensor *heed_empty (heed_context *cx, heed_type type, int rank, const int64_t *size);
HEED_API heed_tensor *heed_from (heed_context *cx, heed_type type, int rank, const int64_t *size,
                                 const void *data);         /* copies, row by row */
HEED_API heed_tensor *heed_lend (heed_context *cx, heed_type type, int rank, const int64_t *size,
                                 void *data, void (*release) (void *self, void *data),
                                 void *self);               /* the host's memory, as it is */

/*
** Files as memory. A mapped file is read where it is first touched, and shared with all processes
** that map it; what is written into its tensors is this process's own, and the file stays as it is.
** Mapped bytes do not count as memory of the context. A mapping has owners: the host, until
** heed_unmap, and its tensors. 'file' is open for reading, and may be closed at once; 'name' stands
** in messages. Where the file becomes shorter while it is mapped, or its disk fails, every call of
** the context fails until the mapping has no owner; a call in place that ran has read zeros, as
** every call does of bytes that its last page lacks. To notice lost pages, heed answers SIGBUS
** while a file is mapped, passes on what is not its own, and puts back the handler that was there
** before; threads that call heed must not block that signal. At most 256 files of a process are
** mapped.
*/
typedef struct heed_mapping heed_mapping;
HEED_API heed_mapping *heed_map (heed_context *cx, int file, const char *name);
HEED_API void heed_unmap (heed_mapping *m);
/* The elements from byte 'at' on, a multiple of their size; not of bool, since not every byte is
   one. */
HEED_API heed_tensor *heed_map_tensor (heed_mapping *m, heed_type type, int rank,
                                       const int64_t *size, size_t at);

/*
** Says that t is a weight of many products. On the CPU, the first one of more than a few rows (of a
** weight in blocks: any whose rows are rounded) then keeps a copy of it as it is read there, which
** counts as memory of the context and goes with t's storage. Without memory for it, on other
** devices, and in captures, but for blocks, products read t as ever. A change makes it anew, but
** nobody sees what is written where heed_data points. Results are the same.
*/
HEED_API bool heed_pack (heed_tensor *t);

HEED_API heed_tensor *heed_number (heed_context *cx, double value);     /* joins any type */
HEED_API heed_tensor *heed_integer (heed_context *cx, int64_t value);
HEED_API heed_tensor *heed_bool (heed_context *cx, bool value);

HEED_API heed_tensor *heed_keep (heed_tensor *t);           /* one more owner */
HEED_API void heed_drop (heed_tensor *t);                   /* one owner less */
HEED_API heed_tensor *heed_detach (heed_tensor *t);         /* the same values, no graph */
HEED_API bool heed_is_shared (const heed_tensor *t);        /* has other owners; is or has views */

HEED_API heed_context *heed_context_of (const heed_tensor *t);
HEED_API heed_type heed_type_of (const heed_tensor *t);
HEED_API const char *heed_device_of (const heed_tensor *t); /* "cpu", "cuda:0" */
HEED_API int heed_rank (const heed_tensor *t);
HEED_API int64_t heed_size (const heed_tensor *t, int axis);
HEED_API int64_t heed_stride (const heed_tensor *t, int axis);
HEED_API int64_t heed_numel (const heed_tensor *t);
HEED_API bool heed_contiguous (const heed_tensor *t);
HEED_API int64_t heed_version (const heed_tensor *t);       /* grows in place and by take_over */
HEED_API bool heed_shares_memory (const heed_tensor *a, const heed_tensor *b);
HEED_API void *heed_data (heed_tensor *t);     /* on the CPU, not in a capture: the first element */
HEED_API bool heed_read (heed_tensor *t, heed_type type, void *data);  /* copies out, row by row */
HEED_API bool heed_write (heed_tensor *t, heed_type type, const void *data);   /* copies in */
HEED_API bool heed_take_over (heed_tensor *t, heed_tensor *from);  /* storage, layout and type */

/* }================================================================== */

/*
** {==================================================================
** Who may attend
** ===================================================================
*/

/*
** The words of the list 'rule' of attention, each followed by its numbers, in postfix order; the
** tensors that words take are 'operands', in the order of the words. Keys j and queries i count
** from 0, and query i stands at position p = i + S - T among the keys. So
** {HEED_MASK_BAND, -255, 0, HEED_MASK_DOCUMENTS, HEED_MASK_AND} is a window within documents.
** Likewise from 0, element i - j + S - 1 of 'relative' (H, T + S - 1) is added to a score.
** op/masks.def says what each word means.
*/
typedef enum heed_mask {
#define WORD(NAME, ...) HEED_MASK_##NAME,
#define JOIN(NAME, ...) HEED_MASK_##NAME,
#include "op/masks.def"
  HEED_NMASKS
} heed_mask;

/* A word's row of the table of masks. */
typedef struct heed_word {
  const char *name, *constructor;   /* "band_from"; what messages name, "band" */
  int numbers;                      /* that follow it */
  int joins;                        /* masks before it that it joins */
  const char *what;                 /* the first number is, with the least that it may be; */
  int64_t least;                    /* NULL: any number */
  heed_type type;                   /* of its tensor, which broadcasts to 'dims', letters of */
  const char *dims;                 /* BHTS; "": it takes no tensor */
  bool absolute;                    /* does it number keys from the first one on? */
} heed_word;

HEED_API const heed_word *heed_describe_mask (heed_mask word);      /* NULL: there is none */

/* }================================================================== */

/*
** {==================================================================
** Operations and gradients
** ===================================================================
*/

/* Results into out[], their number as result; 0 for a failure. */
HEED_API int heed_apply (heed_context *cx, heed_op op, const heed_value *args, int n,
                         heed_tensor *out[HEED_RESULTS]);
/* The same, where what is made from nothing goes to a device of that name. */
HEED_API int heed_apply_on (heed_context *cx, const char *device, heed_op op,
                            const heed_value *args, int n, heed_tensor *out[HEED_RESULTS]);
/* The first result; the others are dropped. */
HEED_API heed_tensor *heed_call (heed_context *cx, heed_op op, const heed_value *args, int n);
/* As heed_apply, into the first argument; false for a failure. */
HEED_API bool heed_apply_in_place (heed_context *cx, heed_op op, const heed_value *args, int n);

/*
** The function that messages name, until it is set back; the text must stay alive until then.
** NULL: the operation that was called. Returns what it was.
*/
HEED_API const char *heed_set_caller (heed_context *cx, const char *function);

HEED_API bool heed_requires_grad (const heed_tensor *t);
HEED_API bool heed_is_leaf (const heed_tensor *t);
HEED_API bool heed_require_grad (heed_tensor *t, bool yes); /* leaves of a float type only */
HEED_API bool heed_require_grad_all (heed_context *cx, int n, heed_tensor *const *ts, bool yes);
                                                            /* of all of them, or none */
HEED_API heed_tensor *heed_gradient (heed_tensor *t);       /* yours too; NULL if there is none */
HEED_API bool heed_set_gradient (heed_tensor *t, heed_tensor *gradient);   /* NULL: none */
HEED_API bool heed_recording (heed_context *cx);
HEED_API bool heed_set_recording (heed_context *cx, bool on);   /* what it was */
/* Gradients of y (seeded with 'seed', NULL for 1) added to those of all leaves. */
HEED_API bool heed_backward (heed_tensor *y, heed_tensor *seed, bool retain);
/* Gradients of y by xs[i] into gs[i] (NULL where y does not depend on it). */
HEED_API bool heed_gradients (heed_tensor *y, heed_tensor *seed, int n, heed_tensor *const *xs,
                              heed_tensor **gs, bool retain);
/* The same, whose gradients have graphs, for gradients of theirs; the graph of y is retained. */
HEED_API bool heed_recorded_gradients (heed_tensor *y, heed_tensor *seed, int n,
                                       heed_tensor *const *xs, heed_tensor **gs);
/*
** Mixed precision, as PyTorch's autocast: with HEED_FLOAT16 or HEED_BFLOAT16, products work in that
** type, and softmax, norms, losses, sums, powers and exponentials in float32; HEED_FLOAT32 ends it.
** Gradients reach parameters in their own types. Returns what it was.
*/
HEED_API heed_type heed_autocast (heed_context *cx);
HEED_API heed_type heed_set_autocast (heed_context *cx, heed_type type);
HEED_API int64_t heed_graph_nodes (heed_context *cx);       /* alive in this context */

/*
** An operation of the host's. 'backward' gets the outputs' gradients (NULL: zero) and
** fills gradients for the inputs (NULL: none), false for a failure, after heed_fail.
** 'release' is called when the graph is freed.
*/
typedef struct heed_custom {
  bool (*backward) (void *self, int noutputs, heed_tensor *const *gradients,
                    int ninputs, heed_tensor **results);
  void (*release) (void *self);
  void *self;
} heed_custom;

/* Gives the outputs (handles without a graph) a node whose backward is 'custom'. */
HEED_API bool heed_record_custom (heed_context *cx, const heed_custom *custom, int ninputs,
                                  heed_tensor *const *inputs, int noutputs,
                                  heed_tensor *const *outputs);

/*
** A function of the host's on the gradient of t, called once in a pass, before anything else gets
** that gradient, in the order in which they were added. 'backward' gets it as its one gradient and
** may give another as its one result. The hook lives until it is removed, or a pass frees the graph
** there; then 'release' is called. NULL: a failure.
*/
typedef struct heed_hook heed_hook;
HEED_API heed_hook *heed_add_hook (heed_tensor *t, const heed_custom *hook);
HEED_API void heed_remove_hook (heed_hook *hook);
HEED_API bool heed_retain_gradient (heed_tensor *t);        /* from now on, as a leaf's */
/* Does more than this handle lead to what it was computed by? */
HEED_API bool heed_graph_is_shared (const heed_tensor *t);

/* }================================================================== */

/*
** {==================================================================
** Random numbers (PyTorch's, for the same seed) and optimisers
** ===================================================================
*/

#define HEED_RNG_BYTES 5056         /* PyTorch's own state of a CPU generator */

/* None of these while work is captured. */
HEED_API bool heed_seed (heed_context *cx, uint64_t seed);
HEED_API bool heed_rng_get (heed_context *cx, uint8_t state[HEED_RNG_BYTES]);
HEED_API bool heed_rng_set (heed_context *cx, const uint8_t state[HEED_RNG_BYTES]);
HEED_API void heed_rng_seeded (uint64_t seed, uint8_t state[HEED_RNG_BYTES]);    /* of a generator
                                                   with that seed; the context's own stays */

#include "heed_optim.h"             /* optimisers, and changes of many tensors */
#include "heed_profile.h"           /* where time and memory go */

/* }================================================================== */

/*
** {==================================================================
** Devices beyond the CPU, by name: "cuda" is "cuda:0", "cuda:1" is the second. What needs one
** fails, with the reason, where there is none.
** ===================================================================
*/

typedef struct heed_device_properties {
  char name[256];
  size_t memory;                    /* bytes */
  int major, minor;                 /* compute capability */
  int multiprocessors;
  char matmul[512];                 /* what multiplies matrices, and why not cuBLASLt */
} heed_device_properties;

typedef struct heed_device_memory {
  size_t live, cached, peak, limit; /* bytes of this context */
  size_t free, total;               /* of the device */
} heed_device_memory;

typedef struct heed_event heed_event;        /* a point in a device's work, with its time */

/* Why there is no device of this kind ("cuda"); NULL: there is. */
HEED_API const char *heed_device_reason (heed_context *cx, const char *kind);
HEED_API int heed_device_count (heed_context *cx, const char *kind);
HEED_API bool heed_device_describe (heed_context *cx, const char *device,
                                    heed_device_properties *properties);
/* Of float32 products: "highest" (float32), "high" (TF32) or "medium" (bfloat16). */
HEED_API const char *heed_matmul_precision (heed_context *cx);
HEED_API bool heed_set_matmul_precision (heed_context *cx, const char *name);
/* A copy in host memory that devices of this kind can reach by themselves. */
HEED_API heed_tensor *heed_pin (heed_tensor *t, const char *kind);
HEED_API bool heed_synchronize (heed_context *cx, const char *device);   /* reports asynchronous
                                                                            errors */
HEED_API bool heed_device_memory_now (heed_context *cx, const char *device,
                                      heed_device_memory *now);
HEED_API bool heed_device_reset_peak (heed_context *cx, const char *device);
HEED_API bool heed_device_limit (heed_context *cx, const char *device, size_t bytes);  /* 0: all */
HEED_API bool heed_device_trim (heed_context *cx, const char *device);   /* frees the cache */
HEED_API bool heed_device_block (heed_context *cx, const char *kind, bool yes);  /* waits after
                                                                            each operation */
HEED_API bool heed_device_rng_get (heed_context *cx, const char *device, uint64_t state[2]);
HEED_API bool heed_device_rng_set (heed_context *cx, const char *device, const uint64_t state[2]);
HEED_API heed_event *heed_event_record (heed_context *cx, const char *device);
HEED_API bool heed_event_elapsed (heed_context *cx, const char *device, heed_event *from,
                                  heed_event *to, double *seconds);      /* waits for the later */
HEED_API void heed_event_drop (heed_context *cx, const char *device, heed_event *e);
HEED_API int64_t heed_works (heed_context *cx, const char *device);      /* that it was given;
                                                                            "cpu" too */

/*
** Streams (of CUDA: cudaStream_t; NULL is its default one). All work of a context on a device
** goes through one stream, which a host may put kernels of its own into. A host with other
** streams lends memory of the device, whose earlier work in 'stream' is waited for; when the last
** handle goes, 'stream' waits for heed's work, and 'release' is called. Or it works on t's
** memory: 'stream' waits for heed's work up to heed_device_data, heed's for that in 'stream' up to
** heed_device_after; until then the host keeps t; backward does not notice what is written there.
** None of these while the device's work is captured; what was lent before must outlive the capture.
*/
HEED_API void *heed_device_stream (heed_context *cx, const char *device);
HEED_API heed_tensor *heed_device_lend (heed_context *cx, const char *device, void *stream,
                                        heed_type type, int rank, const int64_t *size, void *data,
                                        void (*release) (void *self, void *data), void *self);
HEED_API void *heed_device_data (heed_tensor *t, void *stream); /* NULL too if it has no elements */
HEED_API bool heed_device_after (heed_tensor *t, void *stream);

/*
** Captures: work that is recorded instead of done, with the memory that it uses, and done again by
** every replay. All of it is on one device. Its optimisers' steps are counted from 0; their numbers
** count on by themselves. A capture holds the tensors that it works on, and leaves gradients in
** leaves as the work does. STALE: a tensor has other memory since, or one of the host's, which
** another device was sent, was changed; GRADIENTS_DIFFER: a leaf has not the gradient, or the lack
** of one, that the work began with. Then a replay does not do what the work would do now; nor does
** it for a 'given' tensor, whose values are copied into an input and back, unless that is apart:
** can be written if the input is changed, and shares no memory with what the work uses besides, of
** which one of both is changed. What a capture makes has no values before a replay. If it is
** dropped before, or while it is paused, that is refused wherever it is read; all else is as if its
** work had not been called. In a pause work is done, on accelerators refused.
*/
typedef struct heed_capture heed_capture;
typedef enum heed_capture_state {
  HEED_CAPTURE_READY, HEED_CAPTURE_GRADIENTS_DIFFER, HEED_CAPTURE_STALE
} heed_capture_state;

HEED_API bool heed_capture_begin (heed_context *cx, const char *device);
HEED_API bool heed_capture_reads (heed_context *cx, heed_tensor *t);     /* as if the work did */
HEED_API void heed_capture_pause (heed_context *cx, bool yes);     /* the host's finalisers run */
HEED_API heed_capture *heed_capture_end (heed_context *cx);        /* NULL for a failure */
HEED_API heed_capture_state heed_capture_state_of (const heed_capture *c);
HEED_API bool heed_capture_changes (const heed_capture *c, const heed_tensor *t);  /* NULL: any */
HEED_API bool heed_capture_apart (const heed_capture *c, const heed_tensor *input,
                                  const heed_tensor *given);
HEED_API bool heed_capture_replay (heed_context *cx, heed_capture *c);
HEED_API bool heed_capture_set_step (heed_context *cx, heed_capture *c, int which,
                                     const heed_step *step);
HEED_API int64_t heed_capture_steps (const heed_capture *c);       /* taken by the last replay */
HEED_API void heed_capture_drop (heed_context *cx, heed_capture *c);

/* }================================================================== */

#ifdef __cplusplus
}
#endif

#endif
