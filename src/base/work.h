/*
** work.h - what a device is asked to do: a plain value, one builder for each kind.
**
** Work can be copied, recorded and run again: it names memory, layouts and numbers, never a
** tensor. A builder sets all that its kind has but operands that it returns unset: those its
** comment names.
*/

#ifndef work_h
#define work_h

#include "base/view.h"

#pragma GCC visibility push(hidden)

typedef enum work_kind {
#define KIND(NAME, ...) WORK_##NAME,
#define NUMBERED(NAME, ...) WORK_##NAME,
#include "base/works.def"
  WORK_KINDS
} work_kind;

/* Is it composed from other kinds where a device does not support it? */
static inline bool work_is_fused (work_kind kind) {
  return kind >= WORK_SOFTMAX && kind <= WORK_CLIP;
}

/* 'op' of each kind that has ops of its own: copy_op, reduce_op, ... */
#define OP(name) name,
#define KIND(NAME, name, text, ops) typedef enum name##_op { ops } name##_op;
#include "base/works.def"

/* How many ops each kind has: WORK_MAP_OPS, ... */
enum {
#define OP(name) + 1
#define KIND(NAME, name, text, ops) WORK_##NAME##_OPS = 0 ops,
#define NUMBERED(NAME, name, text, n) WORK_##NAME##_OPS = (n),
#include "base/works.def"
};

/* Operands by name: places in a work's out[] and in[]. Comments name those that may be none. */
enum { DERIVATIVE_G, DERIVATIVE_A, DERIVATIVE_B, DERIVATIVE_C, DERIVATIVE_Y, DERIVATIVE_INS };
enum { MATMUL_A, MATMUL_B, MATMUL_ADDEND };                     /* none: ADDEND */
enum { BLOCKS_X, BLOCKS_WEIGHT, BLOCKS_BIAS, BLOCKS_INS };      /* none: BIAS */
enum { INDEX_VALUES, INDEX_POSITIONS };     /* GATHER, SCATTER: the first of n indices */
enum { NORM_X, NORM_WEIGHT, NORM_BIAS, NORM_INS };              /* none: WEIGHT, BIAS */
enum { NORM_Y, NORM_MEAN, NORM_RSTD, NORM_OUTS };               /* none: MEAN, of RMS */
enum { NORM_BACK_G, NORM_BACK_X, NORM_BACK_WEIGHT, NORM_BACK_MEAN, NORM_BACK_RSTD, NORM_BACK_INS };
enum { NORM_BACK_DX, NORM_BACK_DWEIGHT, NORM_BACK_DBIAS, NORM_BACK_OUTS };     /* none: any */
enum { ROTATE_X, ROTATE_COS, ROTATE_SIN, ROTATE_INS };
enum { LOSS_X, LOSS_TARGET, LOSS_WEIGHT, LOSS_INS };            /* none: WEIGHT */
enum { LOSS_Y, LOSS_LOGSUMEXP, LOSS_ROW_WEIGHT, LOSS_OUTS };
enum { LOSS_BACK_G, LOSS_BACK_X, LOSS_BACK_TARGET, LOSS_BACK_WEIGHT, LOSS_BACK_LOGSUMEXP,
       LOSS_BACK_INS };
#define MASK_OPERANDS 4
enum { ATTENTION_Q, ATTENTION_K, ATTENTION_V, ATTENTION_BIAS, ATTENTION_RELATIVE, ATTENTION_KEY,
       ATTENTION_MASK,                     /* the first of the mask's; none: BIAS, RELATIVE, KEY */
       ATTENTION_INS = ATTENTION_MASK + MASK_OPERANDS,
       ATTENTION_GRADIENT = ATTENTION_INS, ATTENTION_OUTPUT, ATTENTION_LSE,
       ATTENTION_GRADIENT_LSE,                                  /* none: GRADIENT_LSE */
       ATTENTION_BACK_INS };
enum { ATTENTION_Y, ATTENTION_Y_LSE, ATTENTION_WEIGHTS, ATTENTION_OUTS };      /* none: WEIGHTS */
enum { ATTENTION_DQ, ATTENTION_DK, ATTENTION_DV, ATTENTION_DBIAS, ATTENTION_DRELATIVE,
       ATTENTION_BACK_OUTS };                                   /* none: DBIAS, DRELATIVE */

#define WORK_OUTS 5
#define WORK_INS 14
#define WORK_INDICES (WORK_INS - 1)

/*
** Who may attend, as a tree in postfix order that kernels ask tile by tile. Operands are
** views in the work's in[], by number. An empty tree lets everyone attend. Queries i and keys j
** count from 0; query i stands at position i + offset among the keys. op/masks.def says what each
** kind of node means.
*/
#define MASK_NODES 16
typedef enum mask_kind {
#define LEAF(NAME, ...) MASK_##NAME,
#define JOIN(NAME, ...) MASK_##NAME,
#include "op/masks.def"
  MASK_KINDS
} mask_kind;

typedef struct mask_node {
  mask_kind kind;
  int operand;
  int64_t low, high, offset, size;
} mask_node;

typedef struct mask {
  int n;
  mask_node node[MASK_NODES];
} mask;

/* Has a node of this kind a view of its own, in[operand]? */
static inline bool mask_has_operand (mask_kind kind) {
  switch (kind) {
#define LEAF(NAME, name, operand) case MASK_##NAME: return operand;
#define JOIN(NAME, ...) case MASK_##NAME:
#include "op/masks.def"
    case MASK_KINDS: break;
  }
  return false;
}

/*
** WORK_MAP of operands that lie one behind the other, all of the type that is computed in: the
** short way for what is small. Its op is a heed_op; y is of that type, or of bools.
*/
#define DENSE_INS 3
typedef struct dense_map {
  int op, nin;
  heed_type type, to;              /* of x, and of y */
  int64_t n;
  void *y;
  const void *x[DENSE_INS];        /* NULL: the number beside it */
  scalar value[DENSE_INS];
  int64_t period[DENSE_INS];       /* elements of x, which are repeated up to n */
  double number[2];
} dense_map;

/* One parameter of an optimiser's step: rows of elements, all of them dense and of one type. */
typedef struct optimize_row {
  heed_type type;
  int64_t n;
  void *parameter, *state[HEED_STATES];        /* NULL: it has none */
  const void *gradient;
} optimize_row;

/* A gradient: n elements without gaps, in float32 or halves. */
typedef struct clip_row {
  heed_type type;
  int64_t n;
  void *data;
} clip_row;

typedef struct work {
  work_kind kind;
  int op;
  int nout, nin;
  union {                          /* by kind */
    struct { heed_type type; double number[2]; } map;
    struct { heed_type type; int which; double number[2]; } derivative;
    struct { int axes; } reduce;
    struct { bool reverse; } scan;
    struct { double alpha; bool accumulate; struct packed_copy *packed; } matmul;
    struct { struct packed_copy *packed; } blocks;       /* of products */
    struct {                                             /* GATHER, SCATTER */
      bool from_end;
      int64_t stride[WORK_INDICES], size[WORK_INDICES];
    } index;
    struct { bool descending; int64_t length; } sort;
    struct { double a, b; int64_t low, high; } random;
    struct { double eps; } norm;
    struct { bool interleaved; } rotate;
    struct { int64_t ignore_index; double label_smoothing; } loss;
    struct { double scale, softcap, dropout; struct mask mask; } attention;    /* and its BACK */
    struct { int64_t n; const optimize_row *row; heed_step step; } optimize;
    struct { int64_t n; const clip_row *row; double max; } clip;
  };
  view out[WORK_OUTS];             /* only the first nout and nin are set: a work is large, */
  view in[WORK_INS];               /* so it is not cleared as a whole */
} work;

static inline void work_begin (work *w, work_kind kind, int op, int nout, int nin) {
  w->kind = kind;
  w->op = op;
  w->nout = nout;
  w->nin = nin;
}

/*
** out[0] = op(in[0..nin-1]), elementwise, in the computing type 'type' (BOOL, UINT8 and INT64 in
** INT64, halves in FLOAT32), with the row's numbers; all inputs have out's shape (stride 0 where
** broadcast), types are mixed freely. The caller sets map.number, out[0] and in[].
*/
static inline void work_map (work *w, heed_op op, heed_type type, int nin) {
  work_begin(w, WORK_MAP, op, 1, nin);
  w->map.type = type;
}

/*
** out[0] = g * d op / d input 'which'. The caller sets derivative.number, out[0] and the
** DERIVATIVE_ operands; view_none where the row does not need it.
*/
static inline void work_derivative (work *w, heed_op op, heed_type type, int which) {
  work_begin(w, WORK_DERIVATIVE, op, 1, DERIVATIVE_INS);
  w->derivative.type = type;
  w->derivative.which = which;
}

/*
** y = x, any types and layouts of one shape. Types of blocks: to and from others that are UNPACK
** and PACK, of a float type, and else a copy of bytes; PACK refuses values that are not finite.
*/
static inline void work_copy (work *w, copy_op op, view y, view x) {
  const bool to = scalar_is_block(y.type), from = scalar_is_block(x.type);
  if (to && y.type == x.type) { y = view_bytes(y); x = view_bytes(x); }
  if (y.type != x.type && (to || from))
    work_begin(w, WORK_BLOCKS, from ? BLOCKS_UNPACK : BLOCKS_PACK, 1, 1);
  else work_begin(w, WORK_COPY, op, 1, 1);
  w->out[0] = y;
  w->in[0] = x;
}

/*
** Of w (N, K), rows of blocks: PRODUCT is y (M, N) = x (M, K) w^T + bias (N), BACK is y (M, K) =
** x (M, N) w. x and y are float32, and dense but for the distance of their rows. ROUNDED is PRODUCT
** of x whose rows are rounded to 8 bits first, 32 elements with a scale of their own; then a copy
** of w is kept for later ones: 'packed', or NULL.
*/
static inline void work_blocks (work *w, blocks_op op, view y, view x, view weight, view bias,
                                struct packed_copy *packed) {
  work_begin(w, WORK_BLOCKS, op, 1, BLOCKS_INS);
  w->blocks.packed = packed;
  w->out[0] = y;
  w->in[BLOCKS_X] = x;
  w->in[BLOCKS_WEIGHT] = weight;
  w->in[BLOCKS_BIAS] = bias;
}

/*
** x has y's axes first and then 'axes' more, which are reduced; ARGMAX and ARGMIN give positions
** from 1 in the row-major order of the reduced axes; MAX and MIN fill z with them unless it is
** none; SQUARES are sum x^2; MOMENTS fills y with the mean, z with sum (x - mean)^2. Neither
** leaves the range of float64 on its way, whatever x is.
*/
static inline void work_reduce (work *w, reduce_op op, int axes, view y, view z, view x) {
  work_begin(w, WORK_REDUCE, op, view_is_none(&z) ? 1 : 2, 1);
  w->reduce.axes = axes;
  w->out[0] = y;
  w->out[1] = z;
  w->in[0] = x;
}

/* y = running sum or product of x along the last axis; 'reverse': from its end. */
static inline void work_scan (work *w, scan_op op, bool reverse, view y, view x) {
  work_begin(w, WORK_SCAN, op, 1, 1);
  w->scan.reverse = reverse;
  w->out[0] = y;
  w->in[0] = x;
}

/*
** y (B.., M, N) = alpha * a (B.., M, K) b (B.., K, N) [+ addend, broadcast to y's shape] [+ y if
** 'accumulate']; batch axes have stride 0 where broadcast; any strides. matmul.packed may say where
** a copy of b is kept for later products: NULL, unless the caller sets it. work_product leaves to
** the caller to set out[0] and in[], with an addend where 'added' says so: copies of views cost as
** much as a small product.
*/
static inline void work_product (work *w, double alpha, bool accumulate, bool added) {
  work_begin(w, WORK_MATMUL, 0, 1, added ? 3 : 2);
  w->matmul.alpha = alpha;
  w->matmul.accumulate = accumulate;
  w->matmul.packed = NULL;
  if (!added) view_clear(&w->in[MATMUL_ADDEND]);
}

static inline void work_matmul (work *w, double alpha, bool accumulate, view y, view a, view b,
                                view addend) {
  work_product(w, alpha, accumulate, !view_is_none(&addend));
  w->out[0] = y;
  w->in[MATMUL_A] = a;
  w->in[MATMUL_B] = b;
  w->in[MATMUL_ADDEND] = addend;
}

/*
** y[c] = x[c], moved by (in[1 + k][c] - 1) * index.stride[k] elements for each of n indices; x has
** y's shape. A position p is checked: 1 <= p <= index.size[k]; 'from_end' lets -1 be the last one,
** and so on. The caller sets in[1..n], and index.stride and index.size.
*/
static inline void work_gather (work *w, int n, bool from_end, view y, view x) {
  work_begin(w, WORK_GATHER, 0, 1, 1 + n);
  w->index.from_end = from_end;
  w->out[0] = y;
  w->in[0] = x;
}

/*
** The inverse of GATHER: y[c moved] = x[c], for c in x's shape; y is given with that shape and its
** own strides; ADD has one fixed order of additions. The caller sets the same.
*/
static inline void work_scatter (work *w, scatter_op op, int n, bool from_end, view y, view x) {
  work_begin(w, WORK_SCATTER, op, 1, 1 + n);
  w->index.from_end = from_end;
  w->out[0] = y;
  w->in[0] = x;
}

/*
** The values of x along the last axis in order, stable, and their positions from 1; NaN counts as
** largest. y and positions may hold only the first 'length' of them (top-k).
*/
static inline void work_sort (work *w, bool descending, int64_t length, view y, view positions,
                              view x) {
  work_begin(w, WORK_SORT, 0, 2, 1);
  w->sort.descending = descending;
  w->sort.length = length;
  w->out[0] = y;
  w->out[1] = positions;
  w->in[0] = x;
}

/* positions (n, rank) int64: from 1, of what is not 0 in x, in order. */
static inline void work_nonzero (work *w, view positions, view x) {
  work_begin(w, WORK_NONZERO, 0, 1, 1);
  w->out[0] = positions;
  w->in[0] = x;
}

/*
** Fills y from the context's generator. UNIFORM: in [a, b). NORMAL: mean a, deviation b. INTEGER:
** from 'low' to 'high', both included (on the CPU 0 to -1: any 64 bits). PERMUTATION: of 1 to n.
*/
static inline void work_random (work *w, random_op op, double a, double b, int64_t low,
                                int64_t high, view y) {
  work_begin(w, WORK_RANDOM, op, 1, 0);
  w->random.a = a;
  w->random.b = b;
  w->random.low = low;
  w->random.high = high;
  w->out[0] = y;
}

/* y = 1 with probability p, which is broadcast to y, else 0. */
static inline void work_bernoulli (work *w, view y, view p) {
  work_begin(w, WORK_RANDOM, RANDOM_BERNOULLI, 1, 1);
  w->out[0] = y;
  w->in[0] = p;
}

/*
** y = 0 with probability random.a = p, else 1 / (1 - p), by Philox: key (int64, one element),
** counter the element's row-major index.
*/
static inline void work_dropout (work *w, double p, view y, view key) {
  work_begin(w, WORK_RANDOM, RANDOM_DROPOUT, 1, 1);
  w->random.a = p;
  w->out[0] = y;
  w->in[0] = key;
}

/* Along the last axis. */
static inline void work_softmax (work *w, softmax_op op, view y, view x) {
  work_begin(w, WORK_SOFTMAX, op, 1, 1);
  w->out[0] = y;
  w->in[0] = x;
}
static inline void work_softmax_back (work *w, softmax_op op, view dx, view g, view y) {
  work_begin(w, WORK_SOFTMAX, op, 1, 2);
  w->out[0] = dx;
  w->in[0] = g;
  w->in[1] = y;
}

/*
** x (R, C), weight and bias (C); y (R, C), mean and rstd (R) (float32, or float64 for float64).
** BACK: dx (R, C), dweight and dbias (C). The caller sets the NORM_ or NORM_BACK_ operands.
*/
static inline void work_norm (work *w, norm_op op, double eps) {
  bool back = op == NORM_LAYER_BACK || op == NORM_RMS_BACK;
  work_begin(w, WORK_NORM, op, back ? (int)NORM_BACK_OUTS : (int)NORM_OUTS,
             back ? (int)NORM_BACK_INS : (int)NORM_INS);
  w->norm.eps = eps;
}

/*
** Pairs (a, b) of columns of x (..., D) become (a cos - b sin, b cos + a sin) in y, of x's type;
** cos and sin (..., P) with x's other axes, in the computing type of x. Pair i is columns i and
** P + i or, interleaved, 2 i and 2 i + 1; columns from 2 P on are copied. The caller sets cos and
** sin.
*/
static inline void work_rotate (work *w, bool interleaved, view y, view x) {
  work_begin(w, WORK_ROTATE, 0, 1, ROTATE_INS);
  w->rotate.interleaved = interleaved;
  w->out[0] = y;
  w->in[ROTATE_X] = x;
}

/*
** Cross entropy of x (R, C) with class indices: target (R) int64 from 1, weight (C); the loss, the
** logsumexp and the weight of each row (R). BACK: g (R) times what the row weighs; out[0] = dx.
** The caller sets the LOSS_ or LOSS_BACK_ operands.
*/
static inline void work_loss (work *w, loss_op op, int64_t ignore_index, double label_smoothing) {
  bool back = op == LOSS_CROSS_ENTROPY_BACK;
  work_begin(w, WORK_LOSS, op, back ? 1 : (int)LOSS_OUTS,
             back ? (int)LOSS_BACK_INS : (int)LOSS_INS);
  w->loss.ignore_index = ignore_index;
  w->loss.label_smoothing = label_smoothing;
}

/*
** q (B, H, T, D), k (B, Hk, S, D), v (B, Hk, S, Dv), bias (B, H, T, S), relative (H, T + S - 1),
** whose element i - j + S - 1 of head h is added to the score of query i and key j, key of dropout
** (int64, one element), operands of the mask; y (B, H, T, Dv), lse (B, H, T) (float32, or float64),
** weights (B, H, T, S) after dropout, whose element index is row-major in (B, H, T, S). softcap 0:
** none. A row that may attend to nothing gives 0, lse -inf. Blocked keys and values never enter a
** sum, be they NaN or infinite. BACK: dq, dk, dv, dbias (B, H, T, S) and drelative
** (B, H, T + S - 1) (float32, or float64), from y, lse and their gradients. The caller sets the
** ATTENTION_ operands and attention.mask.
*/
static inline void work_attention (work *w, work_kind kind, double scale, double softcap,
                                   double dropout) {
  bool back = kind == WORK_ATTENTION_BACK;
  work_begin(w, kind, 0, back ? (int)ATTENTION_BACK_OUTS : (int)ATTENTION_OUTS,
             back ? (int)ATTENTION_BACK_INS : (int)ATTENTION_INS);
  w->attention.scale = scale;
  w->attention.softcap = softcap;
  w->attention.dropout = dropout;
  w->attention.mask.n = 0;
}

/* Only a check: are all elements of p from 0 to 1? An accelerator reports what is not later. */
static inline void work_probabilities (work *w, view p) {
  work_begin(w, WORK_PROBABILITIES, 0, 0, 1);
  w->in[0] = p;
}

/* One step over n parameters. */
static inline void work_optimize (work *w, heed_optimizer op, int64_t n, const optimize_row *row,
                                  const heed_step *step) {
  work_begin(w, WORK_OPTIMIZE, op, 0, 0);
  w->optimize.n = n;
  w->optimize.row = row;
  w->optimize.step = *step;
}

/*
** norm (float64, one element) = the root of all squares in n rows, added up in float64. SCALE: the
** rows are multiplied with max / (norm + CLIP_MARGIN) where that is not 1 or more.
*/
#define CLIP_MARGIN 1e-6           /* PyTorch's */
static inline void work_clip (work *w, clip_op op, double max, int64_t n, const clip_row *row,
                              view norm) {
  work_begin(w, WORK_CLIP, op, 1, 0);
  w->clip.n = n;
  w->clip.row = row;
  w->clip.max = max;
  w->out[0] = norm;
}

#pragma GCC visibility pop

#endif
