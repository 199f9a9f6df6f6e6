/*
** attend.h - a work of attention, of either direction, read once; and how its pieces get memory.
*/

#ifndef attend_h
#define attend_h

#include "cpu/attention/mask.h"

#define NEAR_BYTES 16384           /* of a piece's workspace that fits on the stack */

#define APART static __attribute__((noinline))     /* has a large frame of its own */

#define LOG2E 1.44269504088896340736
#define LOG_OF_2 0.69314718055994530942

typedef struct attend {
  cpu *self;
  const work *w;
  int64_t B, H, Hk, queries, keys, D, Dv;      /* (B, H, T, S): T queries, S keys */
  int64_t shared;                  /* heads of q for one of k and v */
  double factor;                   /* of q k^T: to exponents of 2, or to softcap's unit */
  double cap;                      /* softcap as an exponent of 2, or 0 */
  bool plain;                      /* no softcap, no bias: scores are q k^T */
  uint64_t key, drop;              /* of dropout; drop 0: none */
  double kept;                     /* what stays is multiplied by */
  size_t workspace;                /* bytes for a piece of work */
  bool failed;                     /* a piece got no memory */
} attend;

/* A way to compute attention: the first that fits is taken. */
typedef struct attend_way {
  bool (*fits) (const attend *a);
  size_t (*workspace) (const attend *a);
  void (*run) (attend *a);
} attend_way;


/* Of a view (B, H, rows, columns), or with j 0 of (B, H, rows). */
static void *view_at (const view *v, int64_t b, int64_t h, int64_t i, int64_t j) {
  const int64_t *stride = v->at.stride;
  int64_t at = b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3];
  return (char *)v->data + at * scalar_sizes[v->type];
}


static attend attend_open (cpu *self, const work *w) {
  const layout *q = &w->in[ATTENTION_Q].at, *k = &w->in[ATTENTION_K].at;
  const double scale = w->attention.scale, softcap = w->attention.softcap;
  attend a = {
    .self = self, .w = w, .B = q->size[0], .H = q->size[1], .Hk = k->size[1], .queries = q->size[2],
    .keys = k->size[2], .D = q->size[3], .Dv = w->in[ATTENTION_V].at.size[3],
    .shared = q->size[1] / larger(k->size[1], 1), .factor = scale * LOG2E, .kept = 1
  };
  if (softcap != 0) {
    a.cap = softcap * LOG2E;
    a.factor = scale / softcap;
  }
  a.plain = softcap == 0 && view_is_none(&w->in[ATTENTION_BIAS]) &&
            view_is_none(&w->in[ATTENTION_RELATIVE]);
  if (w->attention.dropout != 0) {
    memcpy(&a.key, w->in[ATTENTION_KEY].data, sizeof a.key);
    a.drop = (uint64_t)ceil(w->attention.dropout * 0x1p32);
    a.kept = 1 / (1 - w->attention.dropout);
  }
  return a;
}


/*
** {==================================================================
** Pieces of work, each with a workspace
** ===================================================================
*/

/* Items from .. to - 1 of a plan; a workspace is the piece's own. */
typedef void (*attend_piece) (const void *plan, void *workspace, int64_t from, int64_t to);

typedef struct attend_pieces {
  attend *a;
  size_t workspace;
  attend_piece run;
  const void *plan;
} attend_pieces;


static void run_piece (void *arg, int64_t from, int64_t to) {
  const attend_pieces *p = arg;
  _Alignas(64) char near[NEAR_BYTES];
  void *workspace = p->workspace <= NEAR_BYTES ? near : cpu_scratch(p->a->self, p->workspace);
  if (workspace == NULL) {
    __atomic_store_n(&p->a->failed, true, __ATOMIC_RELAXED);
    return;
  }
  p->run(p->plan, workspace, from, to);
  if (workspace != near) cpu_scratch_free(workspace);
}


/* Shares out n items, unless a piece has failed. Masks make some items cheaper than others. */
static void run_pieces (attend *a, size_t workspace, int64_t n, int64_t grain, attend_piece run,
                        const void *plan) {
  attend_pieces p = {a, workspace, run, plan};
  if (!a->failed) pool_run_uneven(a->self->pool, n, larger(1, grain), run_piece, &p);
}

/* }================================================================== */

#endif
