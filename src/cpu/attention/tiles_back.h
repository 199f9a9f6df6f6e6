/*
** tiles_back.h - the gradients of attention, tile by tile (read once for each type).
**
** With weights p = 2^(s - lse), computed again, and g the gradient of y: dv = p^T g, dp = g v^T,
** ds = p (dp - delta), delta = sum(g y) less the gradient of lse; dq = scale ds k, dk = scale
** ds^T q. A piece of work is a group of tiles of keys of one (b, hk), with all queries; dq and the
** gradient of biases by distance are summed over groups afterwards, in their order. Groups depend
** on the shape alone, so results do not depend on threads.
**
** T. Dao et al., "FlashAttention" (2022), for the gradient from the rows' normalisers.
*/

#ifndef T
#include "cpu/attention/attention.h"
#else

#define BACK_PIECES 16             /* wanted at least, as long as groups stay large … */
#define GROUP_TILES 4              /* … of this many tiles */

typedef struct FN(groups) {
  attend *a;
  int64_t size, n;                 /* keys of a group; groups of a head */
  T *sums;                         /* (n, B, H, panels, D, PANEL): dq, if there are several */
  T *relative;                     /* (n, B, H, T + S - 1): sums of ds by distance */
} FN(groups);

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


/* Shares out the workspace at 'base', and counts its bytes; with NULL it only counts. */
static size_t FN(share_back) (const attend *a, FN(back) *r, T *base) {
  const view *in = a->w->in, *out = a->w->out;
  const int64_t keys = smaller(a->keys, TILE_KEYS), rows = round_up(a->queries, PANEL);
  const int64_t D = a->D, Dv = a->Dv;
  r->block = smaller(rows, BLOCK_PANELS * PANEL);
  r->row = r->block + LANES;           /* so that rows do not share places in the cache */
  const FN(share) shares[] = {
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
  return SHARE_OUT(shares, base);
}


static void FN(clear) (T *at, int64_t rows, int64_t columns, int64_t row) {
  if (columns == row) { columns *= rows; rows = 1; }
  for (int64_t j = 0; j < rows; j++) memset(at + j * row, 0, (size_t)columns * sizeof(T));
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
  const tile rows = {.b = b, .h = h, .i = from, .n = to - from};
  if (!FN(has_dense_rows)(v))
    FN(store_rows)(a, v, &rows, 0, v->at.size[3], sum.at + from * sum.row, sum.row);
}


/* lse as an exponent of 2. */
static void FN(load_lse) (const attend *a, const tile *x, T *lse) {
  for (int64_t c = 0; c < PANEL; c += LANES) FN(store)(lse + c, (FN(vector)){0});
  FN(load_line)(a, &a->w->in[ATTENTION_LSE], x, lse);
  for (int64_t c = 0; c < PANEL; c += LANES)
    FN(store)(lse + c, FN(exponent_of)(FN(load)(lse + c)));
}


/* delta = sum(g y) - gradient of lse; g is a panel (Dv, PANEL). */
static void FN(load_delta) (const attend *a, const tile *x, const T *g, T *spare, T *delta) {
  T *y = spare + a->Dv * PANEL, from_lse[2 * LANES] = {0};
  if (!view_is_none(&a->w->in[ATTENTION_GRADIENT_LSE]))
    FN(load_line)(a, &a->w->in[ATTENTION_GRADIENT_LSE], x, from_lse);
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
  const view *q_view = &a->w->in[ATTENTION_Q], *g_view = &a->w->in[ATTENTION_GRADIENT];
  const key_range all = {0, a->queries};
  r->q = FN(rows_of)(a, q_view, b, h, all, FN(has_dense_rows)(q_view), r->workspace[4]);
  r->g = FN(rows_of)(a, g_view, b, h, all, FN(has_dense_rows)(g_view), r->workspace[5]);
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


/* ds = p (dp - delta); ds holds dp before. */
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
  FN(multiply_weights)(&dq, careful, false, a->D,
                       careful ? x->n : x->n > LANES ? PANEL : LANES,
                       r->k.at + x->j * r->k.row, ds, r->dq_panels + x->i * a->D);
}


/*
** Computes p, ds and dq of a panel. Returns where the keys end that the panel attends to, counted
** in the tile. Up to there, and up to 'least', p and ds of blocked pairs are 0.
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
  FN(multiply_weights)(&sum, careful, true, to - from, a->Dv, r->p + at,
                       r->g.at + (x->i + i) * r->g.row, r->dv.at + j * r->dv.row);
  sum.alpha = (T)a->w->attention.scale;
  sum.b_row = r->q.row;
  sum.c_row = r->dk.row;
  FN(multiply_weights)(&sum, careful, true, to - from, a->D, r->ds + at,
                       r->q.at + (x->i + i) * r->q.row, r->dk.at + j * r->dk.row);
}


/*
** The gradients from a tile of keys and a block of queries. Keys to which some panel is the first
** to attend need nothing of the panels before it, which is half of them under a causal mask; keys
** need nothing of the panels behind the last that attends to any of them.
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


/* The sums by distance of one h, cleared: in the result, or in this group's memory. */
static T *FN(relative_sums) (const FN(groups) *d, int64_t b, int64_t h, int64_t group) {
  const attend *a = d->a;
  const int64_t size = a->queries + a->keys - 1;
  if (d->relative == NULL) return NULL;
  T *sums = d->relative + ((group * a->B + b) * a->H + h) * size;
  memset(sums, 0, (size_t)size * sizeof(T));
  return sums;
}


/* dq of one h: to the result, or into the sums of this group. */
static void FN(store_dq) (const FN(groups) *d, int64_t b, int64_t h, int64_t group,
                          const FN(back) *r) {
  const attend *a = d->a;
  const int64_t size = round_up(a->queries, PANEL) * a->D;
  if (d->n > 1) {
    T *sums = d->sums + ((group * a->B + b) * a->H + h) * size;
    memcpy(sums, r->dq_panels, (size_t)size * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < a->queries; i += PANEL) {
    const tile x = {.b = b, .h = h, .i = i, .n = smaller(a->queries - i, PANEL)};
    FN(store_panel)(a, &a->w->out[ATTENTION_DQ], &x, 0, a->D, r->dq_panels + i * a->D, PANEL,
                    r->spare);
  }
}


static bool FN(dq_needs_care) (const attend *a, key_range some, const FN(back) *r) {
  bool needed = false;
  for (int64_t i = some.from; i < some.to; i += PANEL)
    needed |= FN(needs_care)(a, r->dq_panels + i * a->D, a->D, smaller(a->queries - i, PANEL),
                             PANEL);
  return needed;
}


/* One group of one (b, hk). Returns whether its results need products with care. */
static bool FN(back_group) (const FN(groups) *d, int64_t b, int64_t hk, int64_t group,
                            FN(back) *r, bool careful) {
  const attend *a = d->a;
  const int64_t shared = a->shared, from = group * d->size;
  const int64_t to = smaller(from + d->size, a->keys);
  const key_range some = FN(queries_of)(a, b, from, to);
  bool needed = false;
  r->dk = FN(sum_of)(&a->w->out[ATTENTION_DK], b, hk, from, to, r->workspace[2]);
  r->dv = FN(sum_of)(&a->w->out[ATTENTION_DV], b, hk, from, to, r->workspace[3]);
  for (int64_t h = hk * shared; h < (hk + 1) * shared; h++) {
    FN(begin_back)(a, b, h, some, r);
    r->relative = FN(relative_sums)(d, b, h, group);
    for (int64_t j = from; j < to; j += TILE_KEYS) {
      tile x = {.b = b, .h = h, .j = j, .keys = smaller(to - j, TILE_KEYS)};
      for (x.i = some.from - some.from % larger(r->block, 1); x.i < some.to; x.i += r->block) {
        if ((x.i > some.from || j > from) && cpu_stopped(a->self)) return false;
        FN(back_block)(a, x, r, careful);
      }
    }
    needed |= FN(dq_needs_care)(a, some, r);
    FN(store_dq)(d, b, h, group, r);
  }
  return needed || FN(needs_care)(a, r->dk.at + from * r->dk.row, to - from, a->D, r->dk.row)
         || FN(needs_care)(a, r->dv.at + from * r->dv.row, to - from, a->Dv, r->dv.row);
}


static void FN(back_piece) (const void *plan, void *workspace, int64_t from, int64_t to) {
  const FN(groups) *d = plan;
  const attend *a = d->a;
  FN(back) r;
  FN(share_back)(a, &r, workspace);
  for (int64_t item = from; item < to; item++) {
    const int64_t head = item / d->n, group = item % d->n;
    const int64_t b = head / a->Hk, hk = head % a->Hk, first = group * d->size;
    const int64_t end = smaller(first + d->size, a->keys);
    r.k = FN(head_of)(a, &a->w->in[ATTENTION_K], b, hk, r.workspace[0]);
    r.v = FN(head_of)(a, &a->w->in[ATTENTION_V], b, hk, r.workspace[1]);
    if (FN(back_group)(d, b, hk, group, &r, false)) FN(back_group)(d, b, hk, group, &r, true);
    FN(store_sum)(a, &a->w->out[ATTENTION_DK], b, hk, first, end, r.dk);
    FN(store_sum)(a, &a->w->out[ATTENTION_DV], b, hk, first, end, r.dv);
  }
}


/* Panels from .. to - 1 of all (b, h): dq is the sum over groups. */
static void FN(sum_piece) (const void *plan, void *workspace, int64_t from, int64_t to) {
  const FN(groups) *d = plan;
  const attend *a = d->a;
  const int64_t panels = FN(panels_of)(a), size = a->D * PANEL;
  for (int64_t at = from; at < to; at++) {
    const int64_t i = at % panels * PANEL, head = at / panels;
    const tile x = {.b = head / a->H, .h = head % a->H, .i = i,
                    .n = smaller(a->queries - i, PANEL)};
    T *sum = d->sums + at * size;
    for (int64_t group = 1; group < d->n; group++) {
      const T *one = sum + group * a->B * a->H * panels * size;
      for (int64_t e = 0; e < size; e += LANES)
        FN(store)(sum + e, FN(load)(sum + e) + FN(load)(one + e));
    }
    FN(store_panel)(a, &a->w->out[ATTENTION_DQ], &x, 0, a->D, sum, PANEL, workspace);
  }
}


/* The gradient of the biases by distance, from the sums of all groups. */
static void FN(sum_relative) (const FN(groups) *d) {
  const attend *a = d->a;
  const int64_t n = a->B * a->H * (a->queries + a->keys - 1);
  T *to = a->w->out[ATTENTION_DRELATIVE].data;
  for (int64_t e = 0; e < n; e++) {
    T sum = d->relative[e];
    for (int64_t group = 1; group < d->n; group++) sum += d->relative[group * n + e];
    to[e] = sum;
  }
}


static FN(groups) FN(groups_of) (attend *a) {
  const int64_t tiles = (a->keys + TILE_KEYS - 1) / TILE_KEYS, heads = larger(a->B * a->Hk, 1);
  const int64_t n = larger(1, smaller(BACK_PIECES / heads, tiles / GROUP_TILES));
  FN(groups) d = {.a = a, .size = larger(1, (tiles + n - 1) / n) * TILE_KEYS};
  d.n = larger(1, (a->keys + d.size - 1) / d.size);
  return d;
}


/* Memory for what groups add up by themselves, if there are several. */
static bool FN(make_sums) (FN(groups) *d) {
  const attend *a = d->a;
  const view *relative = &a->w->out[ATTENTION_DRELATIVE];
  const int64_t heads = d->n * a->B * a->H;
  if (d->n == 1) {
    d->relative = relative->data;
    return true;
  }
  d->sums = cpu_scratch(a->self, (size_t)(heads * FN(panels_of)(a) * a->D * PANEL) * sizeof(T));
  if (!view_is_none(relative))
    d->relative = cpu_scratch(a->self, (size_t)(heads * (a->queries + a->keys - 1)) * sizeof(T));
  return d->sums != NULL && (d->relative != NULL || view_is_none(relative));
}


static void FN(add_sums) (const FN(groups) *d) {
  attend *a = d->a;
  run_pieces(a, (size_t)(a->D * PANEL) * sizeof(T), a->B * a->H * FN(panels_of)(a), 16,
             FN(sum_piece), d);
  if (!a->failed && d->relative != NULL) FN(sum_relative)(d);
}


static size_t FN(back_workspace) (const attend *a) {
  FN(back) r;
  return FN(share_back)(a, &r, NULL);
}


static void FN(attend_back) (attend *a) {
  FN(groups) d = FN(groups_of)(a);
  const int64_t cost = a->queries * smaller(a->keys, d.size) * (a->D + a->Dv + 16) * 4 + 1000;
  a->failed = !FN(make_sums)(&d);
  run_pieces(a, a->workspace, a->B * a->Hk * d.n, 1000000 / cost, FN(back_piece), &d);
  if (d.n == 1) return;
  FN(add_sums)(&d);
  cpu_scratch_free(d.sums);
  cpu_scratch_free(d.relative);
}

#undef BACK_PIECES
#undef GROUP_TILES

#endif
