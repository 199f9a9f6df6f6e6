/*
** attention_cases.h - works of attention and of its gradients, at random: shapes, layouts, masks,
** options, NaN.
*/

#ifndef attention_cases_h
#define attention_cases_h

#include "cuda_masks.h"

typedef struct options {
  heed_type type;
  int way;                           /* how the heads lie: see 'heads' */
  int nodes;                         /* of the mask, at most */
  bool causal, deep, bias, relative, weights, lse, cap, drop;
  bool aligned;                      /* rows lie at multiples of 16 bytes: see 'aligned_heads' */
  bool steep;                        /* scores are ten times as large */
  bool low;                          /* biases lie near -600, so all exponentials vanish */
  int bad;                           /* see 'spoil_blocked' */
} options;


/* (B, H, T, D): plain, or with T before H, D before T, every other of D, T upwards. */
static inline view heads (heed_type type, const int64_t size[4], int way, double high) {
  int64_t extent[] = {size[0], size[1], size[2], size[3]};
  int first = way == 1 ? 1 : 2;      /* of the axes that are swapped */
  if (way == 1 || way == 2) {
    extent[first] = size[first + 1];
    extent[first + 1] = size[first];
  }
  if (way == 3) extent[3] = 2 * size[3] + 1;
  view v = filled(type, 4, extent, -high, high);
  if (way == 1 || way == 2) v.at = layout_transpose(&v.at, first, first + 1);
  if (way == 3) v.at = layout_narrow(&v.at, 3, 1, size[3], 2);
  if (way == 4 && size[2] > 0) v.at = layout_flip(&v.at, 2);
  return without_offset(v);
}


/* Rows at multiples of 16 bytes: plain, or with T before H, T upwards. */
static inline view aligned_heads (heed_type type, const int64_t size[4], int way, double high) {
  view v = heads(type, SIZES(size[0], size[1], size[2], (size[3] + 7) / 8 * 8),
                 way % 3 == 2 ? 4 : way % 3, high);
  v.at = layout_narrow(&v.at, 3, 0, size[3], 1);
  return without_offset(v);
}

static inline view some_heads (const options *o, const int64_t size[4], int way, double high) {
  return o->aligned ? aligned_heads(o->type, size, way, high)
                    : heads(o->type, size, way % 5, high);
}


/* Causal, or a tree at random. */
static inline void add_mask (work *w, const shape *s, const options *o) {
  int operand = ATTENTION_MASK;
  if (o->nodes > 0) add_tree(w, s, o->nodes, o->deep, &operand);
  if (!o->causal) return;
  bool first = w->attention.mask.n == 0;
  add_node(w, MASK_BAND);
  mask_node *band = &w->attention.mask.node[w->attention.mask.n - 1];
  band->low = INT64_MIN / 4;
  band->high = chance(0.5) ? s->S - s->T : between(-s->T, s->S - 1);
  if (!first) add_node(w, MASK_AND);
}


/* One element in the middle of a row, in the first head of every batch. */
static inline void spoil_row (const view *v, int64_t row, double x) {
  if (v->at.size[3] == 0 || row >= v->at.size[2]) return;
  view part = *v;
  part.at = layout_narrow(&part.at, 1, 0, 1, 1);
  part.at = layout_narrow(&part.at, 2, row, 1, 1);
  part.at = layout_narrow(&part.at, 3, v->at.size[3] / 2, 1, 1);
  part = without_offset(part);
  for (int64_t i = 0; i < v->at.size[0]; i++) put(&part, i, x);
}

/*
** The last key and its value, which most queries may not see; for 3 a query, too; for 4 values of
** many keys.
*/
static inline void spoil_blocked (work *w, const shape *s, int bad) {
  const double ends[] = {NAN, INFINITY, -INFINITY};
  if (bad == 0) return;
  if (bad == 4)
    for (int64_t j = s->S / 3; j < s->S; j += 5)
      spoil_row(&w->in[ATTENTION_V], j, ends[j / 5 % 3]);
  spoil_row(&w->in[ATTENTION_K], s->S - 1, NAN);
  spoil_row(&w->in[ATTENTION_V], s->S - 1, bad == 1 ? NAN : -INFINITY);
  if (bad == 3) spoil_row(&w->in[ATTENTION_Q], s->T / 2, NAN);
}


static inline view dropout_key (void) {
  view v = fresh(HEED_INT64, 1, SIZES(1));
  *(int64_t *)v.data = (int64_t)(drawn ^ drawn << 32);
  return v;
}

static inline void lower (const view *v, double by) {
  for (int64_t i = 0, n = layout_numel(&v->at); i < n; i++) put(v, i, get(v, i) - by);
}

static inline view bias (const shape *s, const options *o) {
  heed_type type = chance(0.5) ? o->type : HEED_FLOAT32;
  view v = heads(type, SIZES(s->B, s->H, s->T, s->S), o->way, o->low ? 20 : 1);
  if (o->low) lower(&v, 600);
  if (o->way == 0) v.at.stride[1] = 0;
  return v;
}

/* (H, T + S - 1) */
static inline view relative (const shape *s, const options *o) {
  heed_type type = chance(0.5) ? o->type : HEED_FLOAT32;
  view v = laid(type, 2, SIZES(s->H, s->T + s->S - 1), some_layout(), -1, 1);
  if (chance(0.2)) v.at.stride[0] = 0;
  return v;
}

static inline void forwards (work *w, const shape *s, const options *o) {
  heed_type type = o->type;
  work_attention(w, WORK_ATTENTION, o->steep ? 3 : 0.3, o->cap ? 2.5 : 0, 0);
  for (int i = 0; i < ATTENTION_INS; i++) w->in[i] = view_none();
  w->in[ATTENTION_Q] = some_heads(o, SIZES(s->B, s->H, s->T, s->D), o->way, 2);
  w->in[ATTENTION_K] = some_heads(o, SIZES(s->B, s->Hk, s->S, s->D), o->way + 1, 2);
  w->in[ATTENTION_V] = some_heads(o, SIZES(s->B, s->Hk, s->S, s->Dv), o->way * 2, 1);
  if (o->bias) w->in[ATTENTION_BIAS] = bias(s, o);
  if (o->relative) w->in[ATTENTION_RELATIVE] = relative(s, o);
  if (o->drop) w->in[ATTENTION_KEY] = dropout_key();
  add_mask(w, s, o);
  spoil_blocked(w, s, o->bad);
  w->out[ATTENTION_Y] = heads(type, SIZES(s->B, s->H, s->T, s->Dv), o->way % 3, 1);
  w->out[ATTENTION_Y_LSE] = filled(wide(type), 3, SIZES(s->B, s->H, s->T), 0, 1);
  w->out[ATTENTION_WEIGHTS] = view_none();
  if (o->weights)
    w->out[ATTENTION_WEIGHTS] = heads(type, SIZES(s->B, s->H, s->T, s->S), (o->way + 1) % 4, 1);
}

/* The gradients of a work that ran. */
static inline void backwards (work *w, const shape *s, const options *o) {
  heed_type type = o->type;
  view y = w->out[ATTENTION_Y], lse = w->out[ATTENTION_Y_LSE];
  w->kind = WORK_ATTENTION_BACK;     /* the same numbers, mask and first operands */
  w->nin = ATTENTION_BACK_INS;
  w->nout = ATTENTION_BACK_OUTS;
  w->in[ATTENTION_GRADIENT] = some_heads(o, SIZES(s->B, s->H, s->T, s->Dv), o->way + 2, 1);
  if (o->bad == 3) spoil_row(&w->in[ATTENTION_GRADIENT], s->T / 3, NAN);
  w->in[ATTENTION_OUTPUT] = y;
  w->in[ATTENTION_LSE] = lse;
  w->in[ATTENTION_GRADIENT_LSE] = view_none();
  if (o->lse)
    w->in[ATTENTION_GRADIENT_LSE] = filled(wide(type), 3, SIZES(s->B, s->H, s->T), -1, 1);
  w->out[ATTENTION_DQ] = heads(type, SIZES(s->B, s->H, s->T, s->D), o->way % 4, 1);
  w->out[ATTENTION_DK] = heads(type, SIZES(s->B, s->Hk, s->S, s->D), (o->way + 2) % 4, 1);
  w->out[ATTENTION_DV] = heads(type, SIZES(s->B, s->Hk, s->S, s->Dv), (o->way + 3) % 4, 1);
  w->out[ATTENTION_DBIAS] = view_none();
  if (o->bias)
    w->out[ATTENTION_DBIAS] = heads(type, SIZES(s->B, s->H, s->T, s->S), (o->way + 1) % 4, 1);
  w->out[ATTENTION_DRELATIVE] = view_none();
  if (o->relative)
    w->out[ATTENTION_DRELATIVE] =
        filled(wide(type), 3, SIZES(s->B, s->H, s->T + s->S - 1), -1, 1);
}


static const char *name_of (const char *what, const shape *s, const options *o, const mask *m) {
  static char text[600];
  size_t n = (size_t)snprintf(text, sizeof text,
           "%s %s B %d H %d/%d T %d S %d D %d/%d way %d%s%s%s%s%s%s%s%s bad %d, mask", what,
           scalar_names[o->type], (int)s->B, (int)s->H, (int)s->Hk, (int)s->T, (int)s->S,
           (int)s->D, (int)s->Dv, o->way, o->bias ? " bias" : "", o->relative ? " relative" : "",
           o->weights ? " weights" : "", o->lse ? " lse" : "", o->cap ? " cap" : "",
           o->drop ? " drop" : "", o->steep ? " steep" : "", o->low ? " low" : "", o->bad);
  for (int i = 0; i < m->n; i++)
    n += (size_t)snprintf(text + n, sizeof text - n, " %d", m->node[i].kind);
  return text;
}


static inline options some_options (heed_type type, const shape *s) {
  return (options){
    .type = type, .way = (int)pick(5), .nodes = chance(0.8) ? (int)between(1, 14) : 0,
    .causal = chance(0.3), .deep = chance(0.2), .bias = chance(0.3), .relative = chance(0.4),
    .weights = chance(0.3), .lse = chance(0.3), .cap = chance(0.3),
    .drop = s->S > 1 && chance(0.3), .bad = chance(0.3) ? (int)between(1, 3) : 0
  };
}

/* Relative to an element, or to the mean of all where that is more. */
static inline double tolerance (heed_type type) {
  return type == HEED_FLOAT64 ? 3e-12 : type == HEED_FLOAT32 ? 6e-5
       : type == HEED_FLOAT16 ? 2e-3 : 1.6e-2;
}


/* Gradients are differences of sums, which nearly cancel in rows of few keys. */
static inline double tolerance_back (heed_type type) {
  return tolerance(type) * (scalar_is_half(type) ? 1 : 4);
}


#define EACH_SHAPE(s, all) for (const shape *s = all; s < all + sizeof all / sizeof *all; s++)

static const shape attention_shapes[] = {
  {1, 1, 1, 1, 1, 1, 1}, {2, 2, 1, 5, 7, 3, 4}, {1, 2, 2, 64, 64, 64, 64},
  {1, 4, 2, 65, 130, 16, 80}, {2, 1, 1, 33, 100, 70, 5}, {3, 2, 1, 130, 65, 40, 130},
  {1, 1, 1, 20, 30, 200, 200}, {3, 1, 1, 70, 1, 8, 8}, {1, 1, 1, 1, 200, 32, 32},
  {1, 1, 1, 4, 5, 0, 3}, {1, 3, 1, 129, 129, 32, 32}, {2, 1, 1, 300, 410, 5, 9},
  {1, 1, 1, 40, 2200, 3, 4}, {1, 1, 1, 2200, 40, 4, 3},
  {3, 6, 2, 3, 150, 20, 33}, {1, 2, 1, 4, 1300, 17, 9},        /* few queries, several parts */
  {5, 7, 7, 6, 5, 8, 8}, {3, 11, 11, 17, 9, 5, 3}, {9, 4, 4, 1, 30, 9, 2}     /* small heads */
};

/* No batch, no queries, no keys, no values. */
static const shape empty_shapes[] = {
  {0, 2, 1, 3, 4, 5, 6}, {1, 2, 2, 0, 4, 5, 6}, {1, 2, 1, 3, 0, 5, 6}, {1, 1, 1, 3, 4, 5, 0}
};

#endif
