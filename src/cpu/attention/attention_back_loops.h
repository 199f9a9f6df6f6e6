/*
** attention_back_loops.h - the gradients of attention (read once for each type).
*/

#ifndef T
#include "cpu/attention/attention_back.h"
#else

typedef struct FN(matrix) {            /* unbroken rows */
  T *at;
  int64_t row;
} FN(matrix);

/* Operands and memory of a piece of work; all but the first two lines are of one h. */
typedef struct FN(back) {
  FN(operand) k, v;                    /* (S, D), (S, Dv) */
  FN(matrix) dk, dv;                   /* (S, D), (S, Dv): sums so far */
  FN(operand) q, g;                    /* (T, D), (T, Dv), unbroken rows */
  T *q_panels, *g_panels, *dq_panels;  /* (panels, D or Dv, PANEL); the first is scaled */
  T *lse, *delta;                      /* (T): lse as an exponent of 2 */
  T *p, *ds;                           /* (TILE_KEYS, row): weights after dropout, and ds */
  T *plain, *capped;                   /* (TILE_KEYS, PANEL): weights before it; derivatives of
                                          softcap */
  T *relative;                         /* (T + S - 1): sums of ds by distance */
  int64_t block, row;                  /* queries that p and ds are kept for at a time; of a row */
  T *spare;
  T *workspace[6];                     /* for operands that must be converted: k v dk dv q g */
} FN(back);


/* Shares out the workspace at 'base'; with NULL it only counts. */
static size_t FN(share_back_workspace) (const attend_back *d, FN(back) *r, T *base) {
  const attend *a = &d->a;
  const view *in = a->w->in, *out = a->w->out;
  const int64_t keys = smaller(a->keys, TILE_KEYS), rows = round_up(a->queries, PANEL);
  const int64_t D = a->D, Dv = a->Dv;
  r->block = smaller(rows, BLOCK_PANELS * PANEL);
  r->row = r->block + LANES;           /* so that rows do not share places in the cache */
  const struct { T **part; int64_t size; } parts[] = {
    {&r->q_panels, rows * D}, {&r->g_panels, rows * Dv}, {&r->dq_panels, rows * D},
    {&r->lse, rows}, {&r->delta, rows}, {&r->p, keys * r->row}, {&r->ds, keys * r->row},
    {&r->plain, a->drop == 0 ? 0 : keys * PANEL},
    {&r->capped, a->cap == 0 ? 0 : keys * PANEL},
    {&r->spare, larger(2 * keys, 2 * larger(D, Dv)) * PANEL},
    {&r->workspace[0], in[ATTENTION_K].type == TYPE ? 0 : a->keys * D},
    {&r->workspace[1], in[ATTENTION_V].type == TYPE ? 0 : a->keys * Dv},
    {&r->workspace[2], FN(has_dense_rows)(&out[ATTENTION_DK]) ? 0 : a->keys * D},
    {&r->workspace[3], FN(has_dense_rows)(&out[ATTENTION_DV]) ? 0 : a->keys * Dv},
    {&r->workspace[4], FN(has_dense_rows)(&in[ATTENTION_Q]) ? 0 : a->queries * D},
    {&r->workspace[5], FN(has_dense_rows)(&in[ATTENTION_GRADIENT]) ? 0 : a->queries * Dv}
  };
  size_t used = 0;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    *parts[i].part = base + used;
    used += (size_t)round_up(parts[i].size, PANEL);
  }
  return used * sizeof(T);
}


static void FN(clear) (T *at, int64_t rows, int64_t columns, int64_t row) {
  if (columns == row) { columns *= rows; rows = 1; }
  for (int64_t j = 0; j < rows; j++) memset(at + j * row, 0, (size_t)columns * sizeof(T));
}


/* A head with unbroken rows of T. */
static FN(operand) FN(rows_of) (const attend *a, const view *v, int64_t b, int64_t h,
                                T *workspace) {
  if (FN(has_dense_rows)(v)) return (FN(operand)){view_at(v, b, h, 0, 0), v->at.stride[2], 1};
  for (int64_t i = 0; i < v->at.size[2] && !cpu_stops(a->self, i, v->at.size[3]); i++)
    a->self->level->load(v->at.size[3], TYPE, workspace + i * v->at.size[3], v->type,
                         view_at(v, b, h, i, 0), v->at.stride[3]);
  return (FN(operand)){workspace, v->at.size[3], 1};
}


/* Rows from .. to - 1 of a gradient, to be summed in place or else in 'workspace': cleared. */
static FN(matrix) FN(sum_of) (const view *v, int64_t b, int64_t h, int64_t from, int64_t to,
                               T *workspace) {
  const int64_t columns = v->at.size[3];
  const bool in_place = FN(has_dense_rows)(v);
  T *at = in_place ? view_at(v, b, h, 0, 0) : workspace;
  const int64_t row = in_place ? v->at.stride[2] : columns;
  FN(clear)(at + from * row, to - from, columns, row);
  return (FN(matrix)){at, row};
}


static void FN(store_sum) (const attend *a, const view *v, int64_t b, int64_t h, int64_t from,
                           int64_t to, FN(matrix) sum) {
  if (FN(has_dense_rows)(v)) return;
  for (int64_t i = from; i < to; i++)
    a->self->level->store(v->at.size[3], v->type, view_at(v, b, h, i, 0), v->at.stride[3], TYPE,
                          sum.at + i * sum.row);
}


/* n elements of a row of lse or its gradient, (B, H, T). */
static void FN(load_row) (const attend *a, const view *v, const tile *x, T *to) {
  const int64_t *stride = v->at.stride;
  const int64_t at = x->b * stride[0] + x->h * stride[1] + x->i * stride[2];
  a->self->level->load(x->n, TYPE, to, v->type,
                       (const char *)v->data + at * scalar_sizes[v->type], stride[2]);
}


/* lse as an exponent of 2; where nothing is attended to +inf, so that weights are 2^-inf. */
static void FN(load_lse) (const attend *a, const tile *x, T *lse) {
  for (int64_t c = 0; c < PANEL; c += LANES) FN(store)(lse + c, (FN(vector)){0});
  FN(load_row)(a, &a->w->in[ATTENTION_LSE], x, lse);
  for (int64_t c = 0; c < PANEL; c += LANES) {
    FN(vector) y = FN(load)(lse + c) * (T)LOG2E;
    FN(store)(lse + c, FN(select)(y == -(T)INFINITY, FN(splat)((T)INFINITY), y));
  }
}


/* delta = sum(g y) - gradient of lse; g is a panel (Dv, PANEL). */
static void FN(load_delta) (const attend *a, const tile *x, const T *g, T *spare, T *delta) {
  T *y = spare + a->Dv * PANEL, from_lse[2 * LANES] = {0};
  if (!view_is_none(&a->w->in[ATTENTION_GRADIENT_LSE]))
    FN(load_row)(a, &a->w->in[ATTENTION_GRADIENT_LSE], x, from_lse);
  FN(load_panel)(a, &a->w->in[ATTENTION_OUTPUT], x, 1, spare, y);
  for (int64_t c = 0; c < PANEL; c += LANES) {
    FN(vector) sum = {0};
    if (c < x->n)
      for (int64_t e = 0; e < a->Dv * PANEL; e += PANEL)
        sum += FN(load)(g + e + c) * FN(load)(y + e + c);
    FN(store)(delta + c, sum - FN(load)(from_lse + c));
  }
}


/*
** The queries, whole panels of them, that may attend to any of the keys from .. to - 1; all of them
** where each pair has a gradient of its own, that of its bias.
*/
static key_range FN(queries_of) (const attend *a, int64_t b, int64_t from, int64_t to) {
  key_range some = {0, 0};
  if (!view_is_none(&a->w->out[ATTENTION_DBIAS])) return (key_range){0, a->queries};
  for (int64_t i = 0; i < a->queries; i += PANEL) {
    const int64_t end = smaller(i + PANEL, a->queries);
    const key_range keys = mask_keys(a->w, b, i, end, a->keys);
    if (larger(keys.from, from) < smaller(keys.to, to))
      some = either_range(some, (key_range){i, end});
  }
  return some;
}


/* Some queries of one h, transposed into panels, and what is one number for each; dq is 0. */
static void FN(begin_back) (const attend *a, int64_t b, int64_t h, key_range some, FN(back) *r) {
  r->q = FN(rows_of)(a, &a->w->in[ATTENTION_Q], b, h, r->workspace[4]);
  r->g = FN(rows_of)(a, &a->w->in[ATTENTION_GRADIENT], b, h, r->workspace[5]);
  for (int64_t i = some.from; i < some.to && !cpu_stops(a->self, i / PANEL, PANEL * a->D);
       i += PANEL) {
    const tile x = {.b = b, .h = h, .i = i, .n = smaller(a->queries - i, PANEL)};
    const int64_t width = x.n > LANES ? PANEL : LANES;
    T *q = r->q_panels + i * a->D, *g = r->g_panels + i * a->Dv;
    FN(transpose)(x.n, a->D, width, (T)a->factor, r->q.at + i * r->q.row, r->q.row, q, PANEL);
    FN(transpose)(x.n, a->Dv, width, 1, r->g.at + i * r->g.row, r->g.row, g, PANEL);
    FN(load_lse)(a, &x, r->lse + i);
    FN(load_delta)(a, &x, g, r->spare, r->delta + i);
  }
  memset(r->dq_panels, 0, (size_t)(round_up(a->queries, PANEL) * a->D) * sizeof(T));
}


/* The weights before dropout, p being those after it. */
static FN(matrix) FN(plain_weights) (const attend *a, const FN(back) *r, T *p) {
  return a->drop == 0 ? (FN(matrix)){p, r->row} : (FN(matrix)){r->plain, PANEL};
}


/* The weights of a panel, as in the forward pass; if careful, a score of -inf has exactly 0. */
static void FN(back_weights) (const attend *a, const tile *x, tile_kind kind, const FN(back) *r,
                              T *p, bool careful) {
  if (FN(is_plain)(a, x, kind) && a->drop == 0) {
    const FN(product) scores = FN(scores_product)(a, r->k, r->row);
    FN(ending) e = {.less = r->lse + x->i};
    FN(multiply_ended)(FN(weigh), &scores, x->keys, r->k.at + x->j * r->k.row,
                       r->q_panels + x->i * a->D, p, &e);
    return;
  }
  const FN(exp2_constants) constants = FN(exp2_open)();
  const FN(matrix) plain = FN(plain_weights)(a, r, p);
  FN(scores)(a, x, kind, r->k, r->q_panels + x->i * a->D, plain.at, plain.row, r->capped,
             r->spare);
  for (int64_t c = 0; c < x->n; c += LANES) {
    const FN(vector) lse = FN(load)(r->lse + x->i + c);
    for (int64_t j = 0; j < x->keys; j++) {
      T *at = plain.at + j * plain.row + c;
      const FN(vector) score = FN(load)(at), weight = FN(exp2_with)(&constants, score - lse);
      FN(store)(at, careful ? FN(weight_of)(score, weight) : weight);
    }
  }
  if (a->drop != 0) FN(drop_scores)(a, x, plain.at, plain.row, p, r->row);
}


/* ds = p (dp - delta), where ds is dp so far. */
static void FN(score_gradients) (const tile *x, const FN(back) *r, const T *p, T *ds) {
  for (int64_t c = 0; c < x->n; c += LANES) {
    const FN(vector) delta = FN(load)(r->delta + x->i + c);
    for (int64_t at = c; at < c + x->keys * r->row; at += r->row)
      FN(store)(ds + at, FN(load)(p + at) * (FN(load)(ds + at) - delta));
  }
}


/* The same with dropout: dp counts with the weights after it, delta with those before it. */
static void FN(gradients_dropped) (const tile *x, const FN(back) *r, const T *p, T *ds) {
  for (int64_t j = 0; j < x->keys; j++)
    for (int64_t c = 0; c < x->n; c += LANES) {
      T *at = ds + j * r->row + c;
      FN(store)(at, FN(load)(p + j * r->row + c) * FN(load)(at)
                    - FN(load)(r->plain + j * PANEL + c) * FN(load)(r->delta + x->i + c));
    }
}


/* Gradients of weights of 0 become 0, NaN included. */
static void FN(block_gradients) (const tile *x, FN(matrix) weights, FN(matrix) gradients) {
  for (int64_t j = 0; j < x->keys; j++)
    for (int64_t c = 0; c < x->n; c += LANES) {
      const FN(vector) weight = FN(load)(weights.at + j * weights.row + c);
      T *at = gradients.at + j * gradients.row + c;
      FN(store)(at, FN(select)(weight == (T)0, weight, FN(load)(at)));
    }
}


/* ds times the derivative of softcap */
static void FN(cap_gradients) (const tile *x, const FN(back) *r, T *ds) {
  for (int64_t j = 0; j < x->keys; j++)
    for (int64_t c = 0; c < x->n; c += LANES) {
      T *at = ds + j * r->row + c;
      FN(store)(at, FN(load)(at) * FN(load)(r->capped + j * PANEL + c));
    }
}


/* Adds up ds along the diagonals of a tile, where distances are equal. */
static void FN(relative_gradients) (const attend *a, const tile *x, const FN(back) *r,
                                    const T *ds) {
  T *line = r->spare, *sum = r->relative + FN(relative_from)(a, x);
  memset(line, 0, (size_t)(x->keys + PANEL) * sizeof(T));
  for (int64_t j = 0; j < x->keys; j++)
    for (int64_t c = 0; c < x->n; c += LANES) {
      T *to = line + x->keys - 1 - j + c;
      const FN(vector) g = FN(load_some)(ds + j * r->row + c, (int)smaller(x->n - c, LANES));
      FN(store)(to, FN(load)(to) + g);
    }
  for (int64_t e = 0; e < x->keys + x->n - 1; e++) sum[e] += line[e];
}


/* The gradient of the scores of a panel, and of the biases. */
static void FN(back_gradients) (const attend *a, const tile *x, tile_kind kind, const FN(back) *r,
                                T *p, T *ds) {
  const FN(product) dp = {.depth = a->Dv, .a_row = r->v.row, .a_column = r->v.column,
                          .b_row = PANEL, .c_row = r->row, .alpha = 1};
  const T *g = r->g_panels + x->i * a->Dv;
  const T *v = r->v.at + x->j * r->v.row;
  if (a->drop == 0 && x->n > LANES) {
    FN(ending) e = {.less = r->delta + x->i, .weights = p};
    FN(multiply_ended)(FN(slope), &dp, x->keys, v, g, ds, &e);
  } else {
    FN(multiply)(&dp, x->keys, x->n > LANES ? PANEL : LANES, v, g, ds);
    if (a->drop == 0) FN(score_gradients)(x, r, p, ds);
    else FN(gradients_dropped)(x, r, p, ds);
  }
  if (kind == TILE_MIXED) {
    const FN(matrix) plain = FN(plain_weights)(a, r, p);
    FN(block_gradients)(x, plain, (FN(matrix)){ds, r->row});
    if (a->cap != 0) FN(block_gradients)(x, plain, (FN(matrix)){r->capped, PANEL});
  }
  if (!view_is_none(&a->w->out[ATTENTION_DBIAS]))
    FN(store_panel)(a, &a->w->out[ATTENTION_DBIAS], x, x->j, x->keys, ds, r->row, r->spare);
  if (!view_is_none(&a->w->out[ATTENTION_DRELATIVE])) FN(relative_gradients)(a, x, r, ds);
  if (a->cap != 0) FN(cap_gradients)(x, r, ds);
}


/* c += a b: fast, or so that weights of 0 add nothing. */
static void FN(add_product) (const FN(product) *p, bool careful, bool weights_in_a, int64_t rows,
                             int64_t columns, const T *a, const T *b, T *c) {
  if (careful) FN(multiply_careful)(p, weights_in_a, rows, columns, a, b, c);
  else FN(multiply)(p, rows, columns, a, b, c);
}


/* Keys from .. to - 1 of a tile, which a panel does not attend to: its p and ds are 0. */
static void FN(clear_panel) (const attend *a, const tile *x, int64_t from, int64_t to,
                             const FN(back) *r, T *p, T *ds) {
  if (from >= to) return;
  FN(clear)(p + from * r->row, to - from, PANEL, r->row);
  FN(clear)(ds + from * r->row, to - from, PANEL, r->row);
  if (!view_is_none(&a->w->out[ATTENTION_DBIAS]))
    FN(store_panel)(a, &a->w->out[ATTENTION_DBIAS], x, x->j + from, to - from,
                    ds + from * r->row, r->row, r->spare);
}


/* The part of tile x that is attended to: p and ds, which begin at its first key, and dq. */
static void FN(back_tile) (const attend *a, const tile *x, tile_kind kind, const FN(back) *r, T *p,
                           T *ds, bool careful) {
  FN(back_weights)(a, x, kind, r, p, careful && kind == TILE_MIXED);
  FN(back_gradients)(a, x, kind, r, p, ds);
  const FN(product) dq = {.depth = x->keys, .a_row = r->k.column, .a_column = r->k.row,
                          .b_row = r->row, .c_row = PANEL, .alpha = (T)a->w->attention.scale,
                          .add = true};
  FN(add_product)(&dq, careful, false, a->D,
                  careful ? x->n : x->n > LANES ? PANEL : LANES, r->k.at + x->j * r->k.row, ds,
                  r->dq_panels + x->i * a->D);
}


/*
** p and ds of a panel, and its dq; behind which key, counted in the tile, nothing is attended to.
** Up to there, and up to 'least', p and ds are 0 where nothing is.
*/
static int64_t FN(back_panel) (const attend *a, tile x, int64_t least, const FN(back) *r, T *p,
                               T *ds, bool careful) {
  const key_range some = mask_keys(a->w, x.b, x.i, x.i + x.n, a->keys);
  int64_t from = larger(some.from - x.j, 0), to = smaller(some.to - x.j, x.keys);
  tile part = x;
  part.j += from;
  part.keys = to - from;
  const tile_kind kind = from >= to ? TILE_NONE : mask_classify(a->w, &part);
  if (kind == TILE_NONE) from = to = 0;
  else FN(back_tile)(a, &part, kind, r, p + from * r->row, ds + from * r->row, careful);
  if (!view_is_none(&a->w->out[ATTENTION_DBIAS])) least = x.keys;
  FN(clear_panel)(a, &x, 0, from, r, p, ds);
  FN(clear_panel)(a, &x, to, least, r, p, ds);
  return to;
}


/* dv and dk of keys 'from' to 'to' - 1 of a tile, from a block's queries, the first i left out. */
static void FN(back_keys) (const attend *a, const tile *x, int64_t from, int64_t to, int64_t i,
                           int64_t n, const FN(back) *r, bool careful) {
  const int64_t j = x->j + from, at = from * r->row + i;
  FN(product) sum = {.depth = n - i, .a_row = r->row, .a_column = 1, .b_row = r->g.row,
                     .c_row = r->dv.row, .alpha = 1, .add = true};
  FN(add_product)(&sum, careful, true, to - from, a->Dv, r->p + at,
                  r->g.at + (x->i + i) * r->g.row, r->dv.at + j * r->dv.row);
  sum.alpha = (T)a->w->attention.scale;
  sum.b_row = r->q.row;
  sum.c_row = r->dk.row;
  FN(add_product)(&sum, careful, true, to - from, a->D, r->ds + at,
                  r->q.at + (x->i + i) * r->q.row, r->dk.at + j * r->dk.row);
}


/*
** All that a tile of keys has to do with a block of queries. Keys that a panel is the first to
** attend to need nothing of the panels before it: under a causal mask that is half of them; and
** none need those of the panels behind the last that attends to any.
*/
static void FN(back_block) (const attend *a, tile x, const FN(back) *r, bool careful) {
  const int64_t n = smaller(a->queries - x.i, r->block);
  int64_t reached[BLOCK_PANELS], most = 0, end = 0;
  for (int64_t i = 0; i < n; i += PANEL) {
    tile y = x;
    y.i += i;
    y.n = smaller(n - i, PANEL);
    reached[i / PANEL] = FN(back_panel)(a, y, most, r, r->p + i, r->ds + i, careful);
    most = larger(most, reached[i / PANEL]);
    if (reached[i / PANEL] > 0) end = i + y.n;
  }
  most = 0;
  for (int64_t i = 0; i < end; i += PANEL)
    if (reached[i / PANEL] > most) {
      FN(back_keys)(a, &x, most, reached[i / PANEL], i, end, r, careful);
      most = reached[i / PANEL];
    }
}


/* Where the sums by distance of one h go: the result, or this group's; cleared. */
static T *FN(relative_sums) (const attend_back *d, int64_t b, int64_t h, int64_t group) {
  const attend *a = &d->a;
  const int64_t size = a->queries + a->keys - 1;
  if (d->relative == NULL) return NULL;
  T *sums = (T *)d->relative + ((group * a->B + b) * a->H + h) * size;
  memset(sums, 0, (size_t)size * sizeof(T));
  return sums;
}


/* dq of one h: to the result, or into the sums of this group. */
static void FN(store_dq) (const attend_back *d, int64_t b, int64_t h, int64_t group,
                          const FN(back) *r) {
  const attend *a = &d->a;
  const int64_t size = round_up(a->queries, PANEL) * a->D;
  if (d->groups > 1) {
    T *sums = (T *)d->sums + ((group * a->B + b) * a->H + h) * size;
    memcpy(sums, r->dq_panels, (size_t)size * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < a->queries; i += PANEL) {
    const tile x = {.b = b, .h = h, .i = i, .n = smaller(a->queries - i, PANEL)};
    FN(store_panel)(a, &a->w->out[ATTENTION_DQ], &x, 0, a->D, r->dq_panels + i * a->D, PANEL,
                    r->spare);
  }
}


/* Is dq of these queries finite? If not, what is masked may have got in. */
static bool FN(dq_is_finite) (const attend *a, key_range some, const FN(back) *r) {
  bool finite = true;
  for (int64_t i = some.from; i < some.to; i += PANEL)
    finite &= FN(is_finite)(r->dq_panels + i * a->D, a->D, smaller(a->queries - i, PANEL), PANEL);
  return finite;
}


/* One group of one (b, hk). False if a result is not finite that a mask should keep finite. */
static bool FN(back_group) (const attend_back *d, int64_t b, int64_t hk, int64_t group,
                            FN(back) *r, bool careful) {
  const attend *a = &d->a;
  const int64_t shared = a->shared, from = group * d->group;
  const int64_t to = smaller(from + d->group, a->keys);
  const bool check = a->w->attention.mask.n > 0 && !careful;
  const key_range some = FN(queries_of)(a, b, from, to);
  bool finite = true;
  r->dk = FN(sum_of)(&a->w->out[ATTENTION_DK], b, hk, from, to, r->workspace[2]);
  r->dv = FN(sum_of)(&a->w->out[ATTENTION_DV], b, hk, from, to, r->workspace[3]);
  for (int64_t h = hk * shared; h < (hk + 1) * shared; h++) {
    FN(begin_back)(a, b, h, some, r);
    r->relative = FN(relative_sums)(d, b, h, group);
    for (int64_t j = from; j < to; j += TILE_KEYS) {
      tile x = {.b = b, .h = h, .j = j, .keys = smaller(to - j, TILE_KEYS)};
      for (x.i = some.from - some.from % larger(r->block, 1); x.i < some.to; x.i += r->block) {
        if ((x.i > some.from || j > from) && cpu_stopped(a->self)) return true;
        FN(back_block)(a, x, r, careful);
      }
    }
    if (check) finite &= FN(dq_is_finite)(a, some, r);
    FN(store_dq)(d, b, h, group, r);
  }
  if (!check) return true;
  return finite && FN(is_finite)(r->dk.at + from * r->dk.row, to - from, a->D, r->dk.row)
         && FN(is_finite)(r->dv.at + from * r->dv.row, to - from, a->Dv, r->dv.row);
}


static void FN(back_piece) (void *arg, int64_t from, int64_t to) {
  attend_back *d = arg;
  attend *a = &d->a;
  _Alignas(64) char near[NEAR_BYTES];
  FN(back) r;
  T *workspace = attend_workspace(a, near);
  if (workspace == NULL) return;
  FN(share_back_workspace)(d, &r, workspace);
  for (int64_t item = from; item < to; item++) {
    const int64_t head = item / d->groups, group = item % d->groups;
    const int64_t b = head / a->Hk, hk = head % a->Hk, first = group * d->group;
    const int64_t end = smaller(first + d->group, a->keys);
    r.k = FN(operand_of)(a, &a->w->in[ATTENTION_K], b, hk, r.workspace[0]);
    r.v = FN(operand_of)(a, &a->w->in[ATTENTION_V], b, hk, r.workspace[1]);
    if (!FN(back_group)(d, b, hk, group, &r, false)) FN(back_group)(d, b, hk, group, &r, true);
    FN(store_sum)(a, &a->w->out[ATTENTION_DK], b, hk, first, end, r.dk);
    FN(store_sum)(a, &a->w->out[ATTENTION_DV], b, hk, first, end, r.dv);
  }
  if ((char *)workspace != near) cpu_scratch_free(workspace);
}


/* Panels from .. to - 1 of all (b, h): dq is the sum over groups. */
static void FN(sum_piece) (void *arg, int64_t from, int64_t to) {
  attend_back *d = arg;
  attend *a = &d->a;
  const int64_t panels = (a->queries - 1) / PANEL + 1, size = a->D * PANEL;
  T *spare = cpu_scratch((size_t)size * sizeof(T));
  if (spare == NULL) { a->failed = true; return; }
  for (int64_t at = from; at < to; at++) {
    const int64_t i = at % panels * PANEL, head = at / panels;
    const tile x = {.b = head / a->H, .h = head % a->H, .i = i,
                    .n = smaller(a->queries - i, PANEL)};
    T *sum = (T *)d->sums + at * size;
    for (int64_t group = 1; group < d->groups; group++) {
      const T *one = sum + group * a->B * a->H * panels * size;
      for (int64_t e = 0; e < size; e += LANES)
        FN(store)(sum + e, FN(load)(sum + e) + FN(load)(one + e));
    }
    FN(store_panel)(a, &a->w->out[ATTENTION_DQ], &x, 0, a->D, sum, PANEL, spare);
  }
  cpu_scratch_free(spare);
}


/* The gradient of the biases by distance, from the sums of all groups. */
static void FN(sum_relative) (const attend_back *d) {
  const attend *a = &d->a;
  const int64_t n = a->B * a->H * (a->queries + a->keys - 1);
  T *to = a->w->out[ATTENTION_DRELATIVE].data;
  const T *from = d->relative;
  for (int64_t e = 0; e < n; e++) {
    T sum = from[e];
    for (int64_t group = 1; group < d->groups; group++) sum += from[group * n + e];
    to[e] = sum;
  }
}


/* Memory for what groups add up by themselves, if there are several. */
static bool FN(make_sums) (attend_back *d, int64_t panels) {
  const attend *a = &d->a;
  const view *relative = &a->w->out[ATTENTION_DRELATIVE];
  const int64_t heads = d->groups * a->B * a->H;
  if (d->groups == 1) {
    d->relative = relative->data;
    return true;
  }
  d->sums = cpu_scratch((size_t)(heads * panels * a->D * PANEL) * sizeof(T));
  if (!view_is_none(relative))
    d->relative = cpu_scratch((size_t)(heads * (a->queries + a->keys - 1)) * sizeof(T));
  return d->sums != NULL && (d->relative != NULL || view_is_none(relative));
}


static void FN(add_sums) (attend_back *d, int64_t panels) {
  attend *a = &d->a;
  pool_run(a->self->pool, a->B * a->H * panels, 16, FN(sum_piece), d);
  if (d->relative != NULL) FN(sum_relative)(d);
}


static void FN(attend_back) (attend_back *d) {
  attend *a = &d->a;
  const int64_t panels = (a->queries + PANEL - 1) / PANEL;
  FN(back) r;
  a->workspace = FN(share_back_workspace)(d, &r, NULL);
  a->failed = !FN(make_sums)(d, panels);
  const int64_t cost = a->queries * smaller(a->keys, d->group) * (a->D + a->Dv + 16) * 4 + 1000;
  if (!a->failed)
    pool_run(a->self->pool, a->B * a->Hk * d->groups, larger(1, 1000000 / cost), FN(back_piece),
             d);
  if (d->groups == 1) return;
  if (!a->failed) FN(add_sums)(d, panels);
  cpu_scratch_free(d->sums);
  cpu_scratch_free(d->relative);
}

#endif
