/*
** attention_loops.h - attention itself (read once for each type).
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


/* Shares out the workspace at 'base'; with NULL it only counts. */
static size_t FN(share_workspace) (const attend *a, FN(workspace) *r, T *base) {
  const int64_t keys = smaller(a->keys, TILE_KEYS);
  const bool convert = a->w->in[ATTENTION_K].type != TYPE;
  int64_t size[5] = {convert ? a->keys * a->D : 0, convert ? a->keys * a->Dv : 0, keys * PANEL,
                     larger(2 * keys, larger(a->D, a->Dv)) * PANEL,
                     smaller(a->split, BLOCK_PANELS) * FN(panel_size)(a)};
  T **part[5] = {&r->k, &r->v, &r->s, &r->spare, &r->panels};
  size_t used = 0;
  for (int i = 0; i < 5; i++) {
    *part[i] = base + used;
    used += (size_t)round_up(size[i], PANEL);
  }
  return used * sizeof(T);
}


static void FN(begin_panel) (const attend *a, FN(panel) *p, T *spare) {
  FN(load_panel)(a, &a->w->in[ATTENTION_Q], &p->x, (T)a->factor, spare, p->q);
  for (int64_t c = 0; c < PANEL; c += LANES) {
    FN(store)(p->top + c, FN(splat)(-(T)INFINITY));
    FN(store)(p->sum + c, (FN(vector)){0});
  }
  p->begun = p->steady = false;
}


/* What came before counts less, by 'fade', in lanes c on. */
static void FN(fade_panel) (FN(panel) *p, int64_t c, FN(vector) fade, int64_t Dv) {
  FN(store)(p->sum + c, FN(load)(p->sum + c) * fade);
  for (int64_t d = c; d < Dv * PANEL; d += PANEL)
    FN(store)(p->o + d, FN(load)(p->o + d) * fade);
}


/* Scores s become weights relative to 'base', and their sum is returned; lanes c on. */
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


/* The sum of the weights that scores s would have, without making them so. */
static FN(vector) FN(weights_total) (const FN(exp2_constants) *constants, const tile *x, int64_t c,
                                     const T *s, FN(vector) base) {
  const FN(vector) most = FN(splat)(MOST_EXPONENT);
  FN(vector) sum = {0};
  for (int64_t j = c; j < x->keys * PANEL; j += PANEL)
    sum += FN(exp2_with)(constants, FN(lesser)(most, FN(load)(s + j) - base));
  return sum;
}


/*
** Scores s become weights, down each column: relative to what they were relative to before, unless
** that is -inf or they get too large; then to the largest yet. What a lane has depends on its own
** scores alone.
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
** r->s = weights relative to what they were relative to before, in all lanes: no search for the
** largest, no change of what came before. False if some get too large for that.
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
  if (careful) FN(multiply_careful)(&sum, false, a->Dv, x->n, values, r->s, p->o);
  else FN(multiply)(&sum, a->Dv, x->n > LANES ? PANEL : LANES, values, r->s, p->o);
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


/* What is blocked has a score of -inf and no weight, even where its row's normaliser is NaN. */
static inline FN(vector) FN(weight_of) (FN(vector) score, FN(vector) weight) {
  return FN(select)(score == -(T)INFINITY, (FN(vector)){0}, weight);
}


/* The weights themselves, once the rows' normalisers are known. */
static void FN(weigh_tile) (const attend *a, FN(panel) *p, FN(operand) k, const FN(workspace) *r) {
  const tile *x = &p->x;
  const tile_kind kind = mask_classify(a->w, x);
  if (kind != TILE_NONE) FN(scores)(a, x, kind, k, p->q, r->s, PANEL, NULL, r->spare);
  for (int64_t c = 0; c < x->n; c += LANES) {
    FN(vector) lse = FN(load)(p->sum + c) * (T)LOG2E;
    lse = FN(select)(lse == -(T)INFINITY, (FN(vector)){0}, lse);
    for (int64_t j = 0; j < x->keys; j++) {
      T *at = r->s + j * PANEL + c;
      const FN(vector) score = FN(load)(at), weight = FN(vector_exp2)(score - lse);
      FN(store)(at, kind == TILE_NONE ? (FN(vector)){0} : FN(weight_of)(score, weight));
    }
  }
  if (a->drop != 0) FN(drop_scores)(a, x, r->s, PANEL, r->s, PANEL);
  FN(store_panel)(a, &a->w->out[ATTENTION_WEIGHTS], x, x->j, x->keys, r->s, PANEL, r->spare);
}


static void FN(store_lse) (const attend *a, const FN(panel) *p) {
  const view *v = &a->w->out[ATTENTION_Y_LSE];
  const int64_t *stride = v->at.stride;
  const int64_t at = p->x.b * stride[0] + p->x.h * stride[1] + p->x.i * stride[2];
  char *to = (char *)v->data + at * scalar_sizes[v->type];
  if (v->type == TYPE && stride[2] == 1) memcpy(to, p->sum, (size_t)p->x.n * sizeof(T));
  else a->self->level->store(p->x.n, v->type, to, stride[2], TYPE, p->sum);
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


/* Panels are redone with care if what is masked may have got in: 0 times NaN is NaN. */
static void FN(attend_block) (const attend *a, int n, FN(panel) *p, FN(operand) k, FN(operand) v,
                              const FN(workspace) *r) {
  FN(attend_panels)(a, n, p, k, v, r, false);
  for (int i = 0; i < n; i++) {
    if (a->w->attention.mask.n > 0 && !FN(is_finite)(p[i].o, a->Dv, p[i].x.n, PANEL))
      FN(attend_panels)(a, 1, &p[i], k, v, r, true);
    FN(store_panel)(a, &a->w->out[ATTENTION_Y], &p[i].x, 0, a->Dv, p[i].o, PANEL, r->spare);
    FN(store_lse)(a, &p[i]);
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
  FN(operand) k = FN(operand_of)(a, &a->w->in[ATTENTION_K], b, hk, r->k);
  FN(operand) v = FN(operand_of)(a, &a->w->in[ATTENTION_V], b, hk, r->v);
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


static void FN(attend_piece) (void *arg, int64_t from, int64_t to) {
  attend *a = arg;
  _Alignas(64) char near[NEAR_BYTES];
  FN(workspace) r;
  T *workspace = attend_workspace(a, near);
  if (workspace == NULL) return;
  FN(share_workspace)(a, &r, workspace);
  const int64_t panels = (a->queries - 1) / PANEL + 1;
  for (int64_t item = from; item < to; item++) {
    const int64_t head = item / a->splits, first = item % a->splits * a->split;
    FN(attend_head)(a, head / a->H, head % a->H, first, smaller(first + a->split, panels),
                    &r);
  }
  if ((char *)workspace != near) cpu_scratch_free(workspace);
}


static void FN(attend) (attend *a) {
  if (a->B * a->H * a->queries == 0) return;
  const int64_t panels = (a->queries - 1) / PANEL + 1;
  FN(workspace) r;
  a->split = smaller(panels, BLOCK_PANELS);
  a->splits = (panels - 1) / a->split + 1;
  a->workspace = FN(share_workspace)(a, &r, NULL);
  const int64_t cost = a->split * PANEL * (a->keys + 8) * (a->D + a->Dv + 16);   /* about a flop */
  pool_run(a->self->pool, a->B * a->H * a->splits, larger(1, 1000000 / cost), FN(attend_piece),
           a);
}

#endif
