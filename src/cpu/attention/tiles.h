/*
** tiles.h - attention of any shape, tile by tile, in memory that grows with T and S only (read once
** for each type).
**
** Each lane holds a query. For a panel of them (two vectors), the scores of a tile of keys are a
** product k q^T; so the softmax goes down the columns of the tile, without a sum across lanes,
** k and v are read in place, with any strides, and what is masked stays in its lane. Rows of one
** panel are independent: no result depends on how panels are shared among threads.
**
** M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax" (2018); T. Dao et al.,
** "FlashAttention" (2022).
*/

#ifndef T
#include "cpu/attention/attention.h"
#else

typedef struct FN(panel) {         /* some queries during the iteration over keys */
  tile x;                          /* their position in it */
  T *q;                            /* (D, PANEL), scaled */
  T *o;                            /* (Dv, PANEL): the sum of weights and values so far */
  T *top, *sum;                    /* (PANEL): largest score, sum of weights relative to it */
  bool begun;
  bool steady;                     /* no lane's top is infinite or NaN */
} FN(panel);

typedef struct FN(workspace) {
  T *k, *v;                        /* (S, D), (S, Dv), if they have to be converted */
  T *s, *spare;                    /* (TILE_KEYS, PANEL), (at least 2 TILE_KEYS, PANEL) */
  T *panels;
} FN(workspace);


static int64_t FN(panel_size) (const attend *a) { return (a->D + a->Dv + 2) * PANEL; }


/* All panels of a head; and how many of them are one piece of work. */
static int64_t FN(panels_of) (const attend *a) { return (a->queries + PANEL - 1) / PANEL; }

static int64_t FN(split_of) (const attend *a) { return smaller(FN(panels_of)(a), BLOCK_PANELS); }


/* Shares out the workspace at 'base', and counts its bytes; with NULL it only counts. */
static size_t FN(share_tiles) (const attend *a, FN(workspace) *r, T *base) {
  const int64_t keys = smaller(a->keys, TILE_KEYS);
  const bool convert = a->w->in[ATTENTION_K].type != TYPE;
  const FN(share) shares[] = {
    {&r->k, convert ? a->keys * a->D : 0}, {&r->v, convert ? a->keys * a->Dv : 0},
    {&r->s, keys * PANEL}, {&r->spare, larger(2 * keys, larger(a->D, a->Dv)) * PANEL},
    {&r->panels, FN(split_of)(a) * FN(panel_size)(a)}
  };
  return SHARE_OUT(shares, base);
}


static void FN(begin_panel) (const attend *a, FN(panel) *p, T *spare) {
  FN(load_panel)(a, &a->w->in[ATTENTION_Q], &p->x, (T)a->factor, spare, p->q);
  for (int64_t c = 0; c < PANEL; c += LANES) {
    FN(store)(p->top + c, FN(splat)(-(T)INFINITY));
    FN(store)(p->sum + c, (FN(vector)){0});
  }
  p->begun = p->steady = false;
}


/* Multiplies the sums of earlier tiles by 'fade', in the lanes from c on. */
static void FN(fade_panel) (FN(panel) *p, int64_t c, FN(vector) fade, int64_t Dv) {
  FN(store)(p->sum + c, FN(load)(p->sum + c) * fade);
  for (int64_t d = c; d < Dv * PANEL; d += PANEL)
    FN(store)(p->o + d, FN(load)(p->o + d) * fade);
}


/* Turns scores s into weights relative to 'base', and returns their sum; in the lanes from c on. */
INLINED FN(vector) FN(weigh_lanes) (const FN(exp2_constants) *constants, const tile *x, int64_t c,
                                    T *s, FN(vector) base) {
  const FN(vector) most = FN(splat)(MOST_EXPONENT);
  FN(vector) sum = {0};
  for (int64_t j = c; j < x->keys * PANEL; j += PANEL) {
    const FN(vector) y = FN(lesser)(most, FN(load)(s + j) - base);
    const FN(vector) weight = FN(exp2_with)(constants, y);
    FN(store)(s + j, weight);
    sum += weight;
  }
  return sum;
}


/* The sum of the weights of scores s, which stay as they are. */
static FN(vector) FN(weights_total) (const FN(exp2_constants) *constants, const tile *x, int64_t c,
                                     const T *s, FN(vector) base) {
  const FN(vector) most = FN(splat)(MOST_EXPONENT);
  FN(vector) sum = {0};
  for (int64_t j = c; j < x->keys * PANEL; j += PANEL)
    sum += FN(exp2_with)(constants, FN(lesser)(most, FN(load)(s + j) - base));
  return sum;
}


/*
** Turns scores s into weights, down each column. The base is that of the earlier tiles, unless that
** is -inf or a weight gets too large; then the base becomes the largest score so far. A lane
** depends on its own scores alone.
*/
static void FN(online_softmax) (FN(panel) *p, T *s, int64_t Dv) {
  const FN(exp2_constants) constants = FN(exp2_open)();
  p->steady = true;
  for (int64_t c = 0; c < p->x.n; c += LANES) {
    const FN(vector) before = FN(load)(p->top + c);
    FN(vector) top = before;
    for (int64_t j = c; j < p->x.keys * PANEL; j += PANEL)
      top = FN(larger)(FN(load)(s + j), top);
    if (p->begun) {
      const FN(vector) total = FN(weights_total)(&constants, &p->x, c, s, before);
      top = FN(select)((before > -(T)INFINITY) & (total < MOST_WEIGHT), before, top);
    }
    const FN(vector) base = FN(select)(top == -(T)INFINITY, (FN(vector)){0}, top);
    if (p->begun && !FN(all_lanes)(top == before))
      FN(fade_panel)(p, c, FN(exp2_with)(&constants, before - base), Dv);
    FN(vector) sum = FN(weigh_lanes)(&constants, &p->x, c, s, base);
    if (p->begun) sum += FN(load)(p->sum + c);
    FN(store)(p->top + c, top);
    FN(store)(p->sum + c, sum);
    p->steady &= FN(all_lanes)(top - top == (T)0);
  }
}


/*
** r->s = weights relative to the base of the earlier tiles, in all lanes, without a search for the
** largest score and without rescaling. False if a weight gets too large for that.
*/
static bool FN(steady_weights) (const attend *a, FN(panel) *p, tile_kind kind, FN(operand) k,
                                const FN(workspace) *r) {
  const tile *x = &p->x;
  FN(ending) e = {.less = p->top};
  FN(vector) *total = e.total;
  if (FN(is_plain)(a, x, kind)) {
    const FN(product) scores = FN(scores_product)(a, k, PANEL);
    FN(multiply_ended)(FN(weigh), &scores, x->keys, k.at + x->j * k.row, p->q, r->s, &e);
  } else {
    const FN(exp2_constants) constants = FN(exp2_open)();
    FN(scores)(a, x, kind, k, p->q, r->s, PANEL, NULL, r->spare);
    for (int64_t c = 0; c < x->n; c += LANES)
      total[c / LANES] = FN(weigh_lanes)(&constants, x, c, r->s, FN(load)(p->top + c));
  }
  if (!FN(all_lanes)((total[0] < MOST_WEIGHT) & (total[1] < MOST_WEIGHT))) return false;
  for (int64_t c = 0; c < x->n; c += LANES)
    FN(store)(p->sum + c, FN(load)(p->sum + c) + total[c / LANES]);
  return true;
}


/* r->s = the weights of a tile. */
static void FN(attend_weights) (const attend *a, FN(panel) *p, tile_kind kind, FN(operand) k,
                                const FN(workspace) *r) {
  if (p->steady && FN(steady_weights)(a, p, kind, k, r)) return;
  FN(scores)(a, &p->x, kind, k, p->q, r->s, PANEL, NULL, r->spare);
  FN(online_softmax)(p, r->s, a->Dv);
}


static void FN(attend_tile) (const attend *a, FN(panel) *p, FN(operand) k, FN(operand) v,
                             const FN(workspace) *r, bool careful) {
  const tile *x = &p->x;
  const tile_kind kind = mask_classify(a->w, x);
  if (kind == TILE_NONE) return;
  FN(attend_weights)(a, p, kind, k, r);
  if (a->drop != 0) FN(drop_scores)(a, x, r->s, PANEL, r->s, PANEL);
  FN(product) sum = {.depth = x->keys, .a_row = v.column, .a_column = v.row, .b_row = PANEL,
                     .c_row = PANEL, .alpha = 1, .add = p->begun};
  const T *values = v.at + x->j * v.row;
  FN(multiply_weights)(&sum, careful, false, a->Dv,
                       careful ? x->n : x->n > LANES ? PANEL : LANES, values, r->s, p->o);
  p->begun = true;
}


/* o = o / sum, 0 where nothing was attended to; sum = the natural logarithm of all. */
static void FN(end_panel) (const attend *a, FN(panel) *p) {
  for (int64_t c = 0; c < p->x.n; c += LANES) {
    FN(vector) sum = FN(load)(p->sum + c), share = FN(select)(sum == (T)0, sum, 1 / sum);
    for (int64_t d = 0; d < a->Dv; d++) {
      T *at = p->o + d * PANEL + c;
      FN(store)(at, p->begun ? FN(load)(at) * share : share);
    }
    FN(store)(p->sum + c, FN(load)(p->top + c) * (T)LOG_OF_2 + FN(vector_log)(sum));
  }
}


/* The weights themselves, once the rows' normalisers are known. */
static void FN(weigh_tile) (const attend *a, FN(panel) *p, FN(operand) k, const FN(workspace) *r) {
  const tile *x = &p->x;
  const tile_kind kind = mask_classify(a->w, x);
  if (kind == TILE_NONE) memset(r->s, 0, (size_t)(x->keys * PANEL) * sizeof(T));
  else {
    FN(scores)(a, x, kind, k, p->q, r->s, PANEL, NULL, r->spare);
    for (int64_t c = 0; c < x->n; c += LANES)
      FN(weigh_scores)(x->keys, r->s + c, PANEL, FN(exponent_of)(FN(load)(p->sum + c)));
  }
  if (a->drop != 0) FN(drop_scores)(a, x, r->s, PANEL, r->s, PANEL);
  FN(store_panel)(a, &a->w->out[ATTENTION_WEIGHTS], x, x->j, x->keys, r->s, PANEL, r->spare);
}


/* The part of the tile of keys from j on that lies within a range. */
static void FN(set_tile) (tile *x, int64_t j, key_range keys) {
  x->j = larger(j, keys.from);
  x->keys = smaller(keys.to, j + TILE_KEYS) - x->j;
}


/* Some panels, together over all keys. */
static void FN(attend_panels) (const attend *a, int n, FN(panel) *p, FN(operand) k, FN(operand) v,
                               const FN(workspace) *r, bool careful) {
  key_range keys[BLOCK_PANELS], all = {0, 0};
  for (int i = 0; i < n; i++) {
    const tile *x = &p[i].x;
    FN(begin_panel)(a, &p[i], r->spare);
    keys[i] = mask_keys(a->w, x->b, x->i, x->i + x->n, a->keys);
    all = either_range(all, keys[i]);
  }
  const int64_t first = all.from - all.from % TILE_KEYS;
  for (int64_t j = first; j < all.to && (j == first || !cpu_stopped(a->self)); j += TILE_KEYS)
    for (int i = 0; i < n; i++) {
      FN(set_tile)(&p[i].x, j, keys[i]);
      if (p[i].x.keys > 0) FN(attend_tile)(a, &p[i], k, v, r, careful);
    }
  for (int i = 0; i < n; i++) FN(end_panel)(a, &p[i]);
}


static void FN(attend_block) (const attend *a, int n, FN(panel) *p, FN(operand) k, FN(operand) v,
                              const FN(workspace) *r) {
  FN(attend_panels)(a, n, p, k, v, r, false);
  for (int i = 0; i < n; i++) {
    if (FN(needs_care)(a, p[i].o, a->Dv, p[i].x.n, PANEL))
      FN(attend_panels)(a, 1, &p[i], k, v, r, true);
    FN(store_panel)(a, &a->w->out[ATTENTION_Y], &p[i].x, 0, a->Dv, p[i].o, PANEL, r->spare);
    FN(store_line)(a, &a->w->out[ATTENTION_Y_LSE], &p[i].x, p[i].sum);
    if (!view_is_none(&a->w->out[ATTENTION_WEIGHTS]))
      for (int64_t j = 0; j < a->keys && (j == 0 || !cpu_stopped(a->self)); j += TILE_KEYS) {
        FN(set_tile)(&p[i].x, j, (key_range){0, a->keys});
        FN(weigh_tile)(a, &p[i], k, r);
      }
  }
}


/* Panels 'from' to 'to' - 1 of one head. */
static void FN(attend_head) (const attend *a, int64_t b, int64_t h, int64_t from, int64_t to,
                             const FN(workspace) *r) {
  const int64_t hk = h / a->shared;
  FN(operand) k = FN(head_of)(a, &a->w->in[ATTENTION_K], b, hk, r->k);
  FN(operand) v = FN(head_of)(a, &a->w->in[ATTENTION_V], b, hk, r->v);
  FN(panel) p[BLOCK_PANELS];
  for (int64_t at = from; at < to; at += BLOCK_PANELS) {
    const int n = (int)smaller(to - at, BLOCK_PANELS);
    for (int i = 0; i < n; i++) {
      T *workspace = r->panels + i * FN(panel_size)(a);
      const int64_t first = (at + i) * PANEL;
      p[i] = (FN(panel)){.x = {.b = b, .h = h, .i = first, .n = smaller(a->queries - first, PANEL)},
                         .q = workspace, .o = workspace + a->D * PANEL,
                         .top = workspace + (a->D + a->Dv) * PANEL,
                         .sum = workspace + (a->D + a->Dv + 1) * PANEL};
    }
    FN(attend_block)(a, n, p, k, v, r);
  }
}


static void FN(tiles_piece) (const void *plan, void *workspace, int64_t from, int64_t to) {
  const attend *a = plan;
  const int64_t panels = FN(panels_of)(a), split = FN(split_of)(a);
  const int64_t splits = (panels - 1) / split + 1;
  FN(workspace) r;
  FN(share_tiles)(a, &r, workspace);
  for (int64_t item = from; item < to; item++) {
    const int64_t head = item / splits, first = item % splits * split;
    FN(attend_head)(a, head / a->H, head % a->H, first, smaller(first + split, panels), &r);
  }
}


static size_t FN(tiles_workspace) (const attend *a) {
  FN(workspace) r;
  return FN(share_tiles)(a, &r, NULL);
}


static void FN(attend_tiles) (attend *a) {
  if (a->B * a->H * a->queries == 0) return;
  const int64_t split = FN(split_of)(a), splits = (FN(panels_of)(a) - 1) / split + 1;
  const int64_t cost = split * PANEL * (a->keys + 8) * (a->D + a->Dv + 16);    /* about a flop */
  run_pieces(a, a->workspace, a->B * a->H * splits, 500000 / cost, FN(tiles_piece), a);
}

#endif
