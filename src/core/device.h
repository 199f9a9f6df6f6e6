/*
** device.h - what floor 4 asks of a device: one function, whose argument is a plain value.
**
** A 'work' can be copied, kept and run again: it names memory, layouts and numbers, never
** a tensor. Devices are tables by the shape of the work; a NULL entry means that floor 4
** composes it from the others (SOFTMAX and what follows it) or that it is refused.
*/

#ifndef device_h
#define device_h

#include "core/layout.h"
#include "core/pool.h"
#include "core/random.h"
#include "core/scalar.h"

#pragma GCC visibility push(hidden)

/* A tensor as kernels see it. 'data' is the first element (offset applied, at.offset is 0); */
/* NULL with rank 0 means the number itself, 'value'. */
typedef struct view {
  void *data;
  heed_type type;
  layout at;
  scalar value;
} view;

typedef enum work_kind {
  WORK_MAP,        /* out[0] = op(in[0..2]), elementwise, number[] its parameters; all inputs
                      have out's shape (stride 0 where broadcast); types are mixed freely:
                      count[0] is the heed_type to compute in (BOOL, UINT8 and INT64 as INT64,
                      halves as FLOAT32); count[1] = 1: the inputs are rounded to count[0] first */
  WORK_DERIVATIVE,      /* out[0] = g * d op / d in[which]: in = g, a, b, c, y (data NULL and rank -1
                      where the row does not need it), count[0] as MAP, count[1] = which */
  WORK_COPY,       /* out[0] = in[0], any types and layouts; count[0] = 1: they may overlap */
  WORK_REDUCE,     /* op is a reduce_kind; in[0] has out's axes first and then count[0] more,
                      which are reduced; ARGMAX and ARGMIN give positions from 1 in the row-major
                      order of the reduced axes; MAX and MIN fill out[1] with them if nout is 2;
                      MOMENTS fills out[0] with the mean, out[1] with sum (x - mean)^2 */
  WORK_SCAN,       /* out[0] = running sum of in[0] along the last axis; count[0] = 1: backwards */
  WORK_MATMUL,     /* out[0] (B.., M, N) = number[0] * in[0] (B.., M, K) in[1] (B.., K, N)
                      [+ in[2], broadcast to out's shape, if nin is 3] [+ out[0] if count[0]];
                      batch axes have stride 0 where broadcast; any strides */
  WORK_GATHER,     /* out[0][c] = in[0][c], moved by (in[1 + k][c] - 1) * count[2k] elements for
                      each index k; in[0] has out's shape; a position p is checked:
                      1 <= p <= count[2k + 1] */
  WORK_SCATTER,    /* the other way: out[0][c moved] = in[0][c], for c in in[0]'s shape; out[0] is
                      given with that shape and its own strides; op is a scatter_kind; one
                      fixed order of additions */
  WORK_SORT,       /* out[0] values, out[1] positions from 1, of in[0] along the last axis,
                      stable; count[0] = 1: falling; NaN counts as largest; out may hold only
                      the first count[1] of them (top-k) */
  WORK_NONZERO,    /* out[0] (n, rank) int64: positions from 1 of what is not 0, in order */
  WORK_RANDOM,     /* op is a random_kind; fills out[0] from the context's generator */
  WORK_SOFTMAX,    /* op is a softmax_kind, along the last axis; BACK kinds: in = g, y */
  WORK_NORM,       /* op is a norm_kind over the last axis (floor 4 flattens): see norm_kind */
  WORK_LOSS,       /* cross entropy with class indices: see loss_kind */
  WORK_ATTENTION,  /* see attention_work */
  WORK_ATTENTION_BACK,
  WORK_OPTIMIZE,   /* see optimize_work; out is not used */
  WORK_KINDS
} work_kind;

typedef enum reduce_kind {
  REDUCE_SUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN, REDUCE_ARGMAX, REDUCE_ARGMIN,
  REDUCE_ANY, REDUCE_ALL, REDUCE_MOMENTS, REDUCE_LOGSUMEXP
} reduce_kind;

typedef enum scatter_kind { SCATTER_SET, SCATTER_ADD } scatter_kind;

typedef enum random_kind {
  RANDOM_UNIFORM,    /* in [number[0], number[1]) */
  RANDOM_NORMAL,     /* mean number[0], deviation number[1] */
  RANDOM_INTEGER,    /* from count[0] to count[1], both counted */
  RANDOM_BERNOULLI,  /* in[0]: the probability, broadcast to out */
  RANDOM_PERMUTATION,/* of 1 to n */
  RANDOM_DROPOUT     /* out[0] = 0 with probability number[0], else 1 / (1 - number[0]), by Philox:
                        key in[0] (int64, one element), counter the element's row-major index */
} random_kind;

typedef enum softmax_kind { SOFTMAX, SOFTMAX_LOG, SOFTMAX_BACK, SOFTMAX_LOG_BACK } softmax_kind;

typedef enum norm_kind {
  NORM_LAYER,        /* in = x (R, C), weight (C) or rank -1, bias (C) or rank -1; out = y,
                        mean (R), rstd (R) (float32, or float64 for float64); number[0] = eps */
  NORM_RMS,          /* in = x, weight; out = y, rstd */
  NORM_LAYER_BACK,   /* in = g, x, weight, mean, rstd; out = dx, dweight, dbias (rank -1: none) */
  NORM_RMS_BACK      /* in = g, x, weight, rstd; out = dx, dweight */
} norm_kind;

typedef enum loss_kind {
  LOSS_CROSS_ENTROPY,      /* in = x (R, C), target (R) int64 from 1, weight (C) or rank -1;
                              out = loss of each row (R), logsumexp of each row (R), weight of each
                              row (R); count[0] = ignore_index, number[0] = label_smoothing */
  LOSS_CROSS_ENTROPY_BACK  /* in = g (R) times what the row weighs, x, target, weight, logsumexp;
                              out = dx */
} loss_kind;

/*
** Who may attend, as a tree in postfix order that kernels ask tile by tile. Operands are
** views in the work's in[], by number. An empty tree lets everyone attend.
*/
#define MASK_NODES 8
typedef enum mask_kind {
  MASK_DENSE,      /* in[operand]: bool (B, H, T, S), broadcast by strides */
  MASK_CAUSAL,     /* key position j <= i + offset (positions from 0) */
  MASK_LENGTHS,    /* in[operand]: int64 (B): keys from 0 to length - 1 */
  MASK_AND         /* of the two before it */
} mask_kind;

typedef struct mask {
  int n;
  struct { mask_kind kind; int operand; int64_t offset; } node[MASK_NODES];
} mask;

/*
** Attention. in = q (B, H, T, D), k (B, Hk, S, D), v (B, Hk, S, Dv), [3] bias (B, H, T, S) or rank
** -1, [4] key of dropout (int64, one element) or rank -1, [5..] operands of the mask.
** number = scale, softcap (0: none), dropout. out = y (B, H, T, Dv), lse (B, H, T) (float32, or
** float64), weights (B, H, T, S) or rank -1: after dropout. A row that may attend to nothing
** gives 0, lse -inf. What is blocked is never read into a sum, be it NaN or infinite.
** BACK: in[8..] = g, y, lse, g of lse or rank -1; out = dq, dk, dv, dbias (B, H, T, S) or rank -1.
** Dropout's element index is row-major in (B, H, T, S).
*/
#define ATTENTION_Q 0
#define ATTENTION_K 1
#define ATTENTION_V 2
#define ATTENTION_BIAS 3
#define ATTENTION_KEY 4
#define ATTENTION_MASK 5     /* to 7 */
#define ATTENTION_GRADIENT 8
#define ATTENTION_OUTPUT 9
#define ATTENTION_LSE 10
#define ATTENTION_GRADIENT_LSE 11

/* One optimiser step: plain rows of elements, all of them dense and of one type each. */
typedef struct optimize_row {
  heed_type type;
  int64_t n;
  void *parameter, *state[3];
  const void *gradient;
} optimize_row;

#define WORK_OUTS 4
#define WORK_INS 12

typedef struct work {
  work_kind kind;
  int op;                          /* heed_op, or a kind within the kind */
  int nout, nin;
  double number[4];
  int64_t count[2 * WORK_INS];
  struct mask mask;
  const optimize_row *rows;        /* OPTIMIZE: count[0] of them; op is a heed_optimizer */
  heed_step step;
  view out[WORK_OUTS];             /* only the first nout and nin are set: a work is large, */
  view in[WORK_INS];               /* so it is not cleared as a whole */
} work;

typedef struct device device;

/* Every function returns NULL, or why not (a text that lives as long as the device). */
struct device {
  const char *name;                                          /* "cpu", "cuda:0" */
  bool host;                                                 /* the host can read its memory */
  void *(*alloc) (device *self, size_t bytes);       /* 64-byte aligned; NULL: gone, or no memory */
  void (*free) (device *self, void *data, size_t bytes);
  const char *(*upload) (device *self, void *to, const void *from, size_t bytes);
  const char *(*download) (device *self, void *to, const void *from, size_t bytes);
  const char *(*run) (device *self, const work *w);          /* one of the kinds it can do */
  const char *(*gone) (device *self);      /* why it can't be used any more; NULL: it can;
                                              the processor, which stays, has no entry */
  bool can[WORK_KINDS];
  int64_t works;                   /* that it has been given */
  heed_op op;                      /* whose work runs; after a message, whose it is about: a
                                      card may find out late what was wrong */
};

/*
** The door of the processor's device (floor 3), so that a context can open it from below: its
** levels ("base", "avx2", "avx512", "neon"), and the device at one of them.
*/
typedef struct cpu_level cpu_level;

const cpu_level *cpu_level_best (void);                  /* that this processor has */
const cpu_level *cpu_level_find (const char *name);      /* NULL: unknown, or not here */
const char *cpu_level_name (const cpu_level *level);

device *cpu_open (pool *p, generator *random, const cpu_level *level);   /* NULL: no memory */
void cpu_close (device *d);
void cpu_use (device *d, const cpu_level *level);

#pragma GCC visibility pop

#endif
