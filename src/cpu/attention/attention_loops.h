/*
** attention_loops.h - attention itself (read once for each type).
*/

#ifndef T
#include "cpu/attention/attention.h"
#else

typedef struct OF(panel) {         /* some queries during the iteration over keys */
  tile x;                          /* their position in it */
  T *q;                            /* (D, PANEL), scaled */
  T *o;                            /* (Dv, PANEL): the sum of weights and values so far */
  T *top, *sum;                    /* (PANEL): largest score, sum of weights relative to it */
  bool begun;
  bool steady;                     /* no lane's top is infinite or NaN */
} OF(panel);

typedef struct OF(workspace) {
  T *k, *v;                        /* (S, D), (S, Dv), if they have to be converted */
  T *s, *spare;                    /* (TILE_KEYS, PANEL), (at least 2 TILE_KEYS, PANEL) */
  T *panels;
} OF(workspace);


static int64_t OF(panel_size) (const attend *a) { return (a->D + a->Dv + 2) * PANEL; }


/* Shares out the workspace at 'base'; with NULL it only counts. */
static size_t OF(share_workspace) (const attend *a, OF(workspace) *r, T *base) {
  const int64_t keys = smaller(a->keys, TILE_KEYS);
  const bool convert = a->w->in[ATTENTION_K].type != TYPE;
  int64_t size[5] = {convert ? a->keys * a->D : 0, convert ? a->keys * a->Dv : 0, keys * PANEL,
                     larger(2 * keys, larger(a->D, a->Dv)) * PANEL,
                     smaller(a->split, BLOCK_PANELS) * OF(panel_size)(a)};
  T **part[5] = {&r->k, &r->v, &r->s, &r->spare, &r->panels};
  size_t used = 0;
  for (int i = 0; i < 5; i++) {
    *part[i] = base + used;
    used += (size_t)round_up(size[i], PANEL);
  }
  return used * sizeof(T);
}


static void OF(begin_panel) (const attend *a, OF(panel) *p, T *spare) {
  OF(load_panel)(a, &a->w->in[ATTENTION_Q], &p->x, (T)a->factor, spare, p->q);
  for (int64_t c = 0; c < PANEL; c += LANES) {
    OF(store)(p->top + c, OF(splat)(-(T)INFINITY));
    OF(store)(p->sum + c, (OF(vector)){0});
  }
  p->begun = p->steady = false;
}


/* What came before counts less, by 'fade', in lanes c on. */
static void OF(fade_panel) (OF(panel) *p, int64_t c, OF(vector) fade, int64_t Dv) {
  OF(store)(p->sum + c, OF(load)(p->sum + c) * fade);
  for (int64_t d = c; d < Dv * PANEL; d += PANEL)
    OF(store)(p->o + d, OF(load)(p->o + d) * fade);
}


/* Scores s become weights relative to 'base', and their sum is returned; lanes c on. */
INLINED OF(vector) OF(weigh_lanes) (const OF(exp2_constants) *constants, const tile *x, int64_t c,
                                    T *s, OF(vector) base) {
  const OF(vector) most = OF(splat)(MOST_EXPONENT);
  OF(vector) sum = {0};
  for (int64_t j = c; j < x->keys * PANEL; j += PANEL) {
    const OF(vector) y = OF(lesser)(most, OF(load)(s + j) - base);
    const OF(vector) weight = OF(exp2_with)(constants, y);
    OF(store)(s + j, weight);
    sum += weight;
  }
  return sum;
}


/* The sum of the weights that scores s would have, without making them so. */
static OF(vector) OF(weights_total) (const OF(exp2_constants) *constants, const tile *x, int64_t c,
                                     const T *s, OF(vector) base) {
  const OF(vector) most = OF(splat)(MOST_EXPONENT);
  OF(vector) sum = {0};
  for (int64_t j = c; j < x->keys * PANEL; j += PANEL)
    sum += OF(exp2_with)(constants, OF(lesser)(most, OF(load)(s + j) - base));
  return sum;
}


/*
** Scores s become weights, down each column: relative to what they were relative to before, unless
** that is -inf or they get too large; then to the largest yet. What a lane has depends on its own
** scores alone.
*/
static void OF(online_softmax) (OF(panel) *p, T *s, int64_t Dv) {
  const OF(exp2_constants) constants = OF(exp2_open)();
  p->steady = true;
  for (int64_t c = 0; c < p->x.n; c += LANES) {
    const OF(vector) before = OF(load)(p->top + c);
    OF(vector) top = before;
    for (int64_t j = c; j < p->x.keys * PANEL; j += PANEL)
      top = OF(larger)(OF(load)(s + j), top);
    if (p->begun) {
      const OF(vector) total = OF(weights_total)(&constants, &p->x, c, s, before);
      top = OF(select)((before > -(T)INFINITY) & (total < MOST_WEIGHT), before, top);
    }
    const OF(vector) base = OF(select)(top == -(T)INFINITY, (OF(vector)){0}, top);
    if (p->begun && !OF(all_lanes)(top == before))
      OF(fade_panel)(p, c, OF(exp2_with)(&constants, before - base), Dv);
    OF(vector) sum = OF(weigh_lanes)(&constants, &p->x, c, s, base);
    if (p->begun) sum += OF(load)(p->sum + c);
    OF(store)(p->top + c, top);
    OF(store)(p->sum + c, sum);
    p->steady &= OF(all_lanes)(top - top == (T)0);
  }
}


/*
** r->s = weights relative to what they were relative to before, in all lanes: no search for the
** largest, no change of what came before. False if some get too large for that.
*/
static bool OF(steady_weights) (const attend *a, OF(panel) *p, tile_kind kind, OF(operand) k,
                                const OF(workspace) *r) {
  const tile *x = &p->x;
  OF(ending) e = {.less = p->top};
  OF(vector) *total = e.total;
  if (OF(is_plain)(a, x, kind)) {
    const OF(product) scores = OF(scores_product)(a, k, PANEL);
    OF(multiply_ended)(OF(weigh), &scores, x->keys, k.at + x->j * k.row, p->q, r->s, &e);
  } else {
    const OF(exp2_constants) constants = OF(exp2_open)();
    OF(scores)(a, x, kind, k, p->q, r->s, PANEL, NULL, r->spare);
    for (int64_t c = 0; c < x->n; c += LANES)
      total[c / LANES] = OF(weigh_lanes)(&constants, x, c, r->s, OF(load)(p->top + c));
  }
  if (!OF(all_lanes)((total[0] < MOST_WEIGHT) & (total[1] < MOST_WEIGHT))) return false;
  for (int64_t c = 0; c < x->n; c += LANES)
    OF(store)(p->sum + c, OF(load)(p->sum + c) + total[c / LANES]);
  return true;
}


/* r->s = the weights of a tile. */
static void OF(attend_weights) (const attend *a, OF(panel) *p, tile_kind kind, OF(operand) k,
                                const OF(workspace) *r) {
  if (p->steady && OF(steady_weights)(a, p, kind, k, r)) return;
  OF(scores)(a, &p->x, kind, k, p->q, r->s, PANEL, NULL, r->spare);
  OF(online_softmax)(p, r->s, a->Dv);
}


static void OF(attend_tile) (const attend *a, OF(panel) *p, OF(operand) k, OF(operand) v,
                             const OF(workspace) *r, bool careful) {
  const tile *x = &p->x;
  const tile_kind kind = mask_classify(a->w, x);
  if (kind == TILE_NONE) return;
  OF(attend_weights)(a, p, kind, k, r);
  if (a->drop != 0) OF(drop_scores)(a, x, r->s, PANEL, r->s, PANEL);
  OF(product) sum = {.depth = x->keys, .a_row = v.column, .a_column = v.row, .b_row = PANEL,
                     .c_row = PANEL, .alpha = 1, .add = p->begun};
  const T *values = v.at + x->j * v.row;
  if (careful) OF(multiply_careful)(&sum, false, a->Dv, x->n, values, r->s, p->o);
  else OF(multiply)(&sum, a->Dv, x->n > LANES ? PANEL : LANES, values, r->s, p->o);
  p->begun = true;
}


/* o = o / sum, 0 where nothing was attended to; sum = the natural logarithm of all. */
static void OF(end_panel) (const attend *a, OF(panel) *p) {
  for (int64_t c = 0; c < p->x.n; c += LANES) {
    OF(vector) sum = OF(load)(p->sum + c), share = OF(select)(sum == (T)0, sum, 1 / sum);
    for (int64_t d = 0; d < a->Dv; d++) {
      T *at = p->o + d * PANEL + c;
      OF(store)(at, p->begun ? OF(load)(at) * share : share);
    }
    OF(store)(p->sum + c, OF(load)(p->top + c) * (T)LOG_OF_2 + OF(log)(sum));
  }
}


/* What is blocked has a score of -inf and no weight, even where its row's normaliser is NaN. */
static inline OF(vector) OF(weight_of) (OF(vector) score, OF(vector) weight) {
  return OF(select)(score == -(T)INFINITY, (OF(vector)){0}, weight);
}


/* The weights themselves, once the rows' normalisers are known. */
static void OF(weigh_tile) (const attend *a, OF(panel) *p, OF(operand) k, const OF(workspace) *r) {
  const tile *x = &p->x;
  const tile_kind kind = mask_classify(a->w, x);
  if (kind != TILE_NONE) OF(scores)(a, x, kind, k, p->q, r->s, PANEL, NULL, r->spare);
  for (int64_t c = 0; c < x->n; c += LANES) {
    OF(vector) lse = OF(load)(p->sum + c) * (T)LOG2E;
    lse = OF(select)(lse == -(T)INFINITY, (OF(vector)){0}, lse);
    for (int64_t j = 0; j < x->keys; j++) {
      T *at = r->s + j * PANEL + c;
      const OF(vector) score = OF(load)(at), weight = OF(exp2)(score - lse);
      OF(store)(at, kind == TILE_NONE ? (OF(vector)){0} : OF(weight_of)(score, weight));
    }
  }
  if (a->drop != 0) OF(drop_scores)(a, x, r->s, PANEL, r->s, PANEL);
  OF(store_panel)(a, &a->w->out[ATTENTION_WEIGHTS], x, x->j, x->keys, r->s, PANEL, r->spare);
}


static void OF(store_lse) (const attend *a, const OF(panel) *p) {
  const view *v = &a->w->out[ATTENTION_Y_LSE];
  const int64_t *stride = v->at.stride;
  const int64_t at = p->x.b * stride[0] + p->x.h * stride[1] + p->x.i * stride[2];
  char *to = (char *)v->data + at * scalar_sizes[v->type];
  if (v->type == TYPE && stride[2] == 1) memcpy(to, p->sum, (size_t)p->x.n * sizeof(T));
  else a->self->level->store(p->x.n, v->type, to, stride[2], TYPE, p->sum);
}


/* The part of the tile of keys from j on that lies within a range. */
static void OF(set_tile) (tile *x, int64_t j, key_range keys) {
  x->j = larger(j, keys.from);
  x->keys = smaller(keys.to, j + TILE_KEYS) - x->j;
}


/* Some panels, together over all keys. */
static void OF(attend_panels) (const attend *a, int n, OF(panel) *p, OF(operand) k, OF(operand) v,
                               const OF(workspace) *r, bool careful) {
  key_range keys[BLOCK_PANELS], all = {0, 0};
  for (int i = 0; i < n; i++) {
    const tile *x = &p[i].x;
    OF(begin_panel)(a, &p[i], r->spare);
    keys[i] = mask_keys(a->w, x->b, x->i, x->i + x->n, a->keys);
    all = either_range(all, keys[i]);
  }
  const int64_t first = all.from - all.from % TILE_KEYS;
  for (int64_t j = first; j < all.to && (j == first || !cpu_stopped(a->self)); j += TILE_KEYS)
    for (int i = 0; i < n; i++) {
      OF(set_tile)(&p[i].x, j, keys[i]);
      if (p[i].x.keys > 0) OF(attend_tile)(a, &p[i], k, v, r, careful);
    }
  for (int i = 0; i < n; i++) OF(end_panel)(a, &p[i]);
}


/* Panels are redone with care if what is masked may have got in: 0 times NaN is NaN. */
static void OF(attend_block) (const attend *a, int n, OF(panel) *p, OF(operand) k, OF(operand) v,
                              const OF(workspace) *r) {
  OF(attend_panels)(a, n, p, k, v, r, false);
  for (int i = 0; i < n; i++) {
    if (a->w->attention.mask.n > 0 && !OF(is_finite)(p[i].o, a->Dv, p[i].x.n, PANEL))
      OF(attend_panels)(a, 1, &p[i], k, v, r, true);
    OF(store_panel)(a, &a->w->out[ATTENTION_Y], &p[i].x, 0, a->Dv, p[i].o, PANEL, r->spare);
    OF(store_lse)(a, &p[i]);
    if (!view_is_none(&a->w->out[ATTENTION_WEIGHTS]))
      for (int64_t j = 0; j < a->keys && (j == 0 || !cpu_stopped(a->self)); j += TILE_KEYS) {
        OF(set_tile)(&p[i].x, j, (key_range){0, a->keys});
        OF(weigh_tile)(a, &p[i], k, r);
      }
  }
}


/* Panels 'from' to 'to' - 1 of one head. */
static void OF(attend_head) (const attend *a, int64_t b, int64_t h, int64_t from, int64_t to,
                             const OF(workspace) *r) {
  const int64_t hk = h / a->shared;
  OF(operand) k = OF(operand_of)(a, &a->w->in[ATTENTION_K], b, hk, r->k);
  OF(operand) v = OF(operand_of)(a, &a->w->in[ATTENTION_V], b, hk, r->v);
  OF(panel) p[BLOCK_PANELS];
  for (int64_t at = from; at < to; at += BLOCK_PANELS) {
    const int n = (int)smaller(to - at, BLOCK_PANELS);
    for (int i = 0; i < n; i++) {
      T *workspace = r->panels + i * OF(panel_size)(a);
      const int64_t first = (at + i) * PANEL;
      p[i] = (OF(panel)){.x = {.b = b, .h = h, .i = first, .n = smaller(a->queries - first, PANEL)},
                         .q = workspace, .o = workspace + a->D * PANEL,
                         .top = workspace + (a->D + a->Dv) * PANEL,
                         .sum = workspace + (a->D + a->Dv + 1) * PANEL};
    }
    OF(attend_block)(a, n, p, k, v, r);
  }
}


static void OF(attend_piece) (void *arg, int64_t from, int64_t to) {
  attend *a = arg;
  _Alignas(64) char near[NEAR_BYTES];
  OF(workspace) r;
  T *workspace = attend_workspace(a, near);
  if (workspace == NULL) return;
  OF(share_workspace)(a, &r, workspace);
  const int64_t panels = (a->queries - 1) / PANEL + 1;
  for (int64_t item = from; item < to; item++) {
    const int64_t head = item / a->splits, first = item % a->splits * a->split;
    OF(attend_head)(a, head / a->H, head % a->H, first, smaller(first + a->split, panels),
                    &r);
  }
  if ((char *)workspace != near) cpu_scratch_free(workspace);
}


static void OF(attend) (attend *a) {
  if (a->B * a->H * a->queries == 0) return;
  const int64_t panels = (a->queries - 1) / PANEL + 1;
  OF(workspace) r;
  a->split = smaller(panels, BLOCK_PANELS);
  a->splits = (panels - 1) / a->split + 1;
  a->workspace = OF(share_workspace)(a, &r, NULL);
  const int64_t cost = a->split * PANEL * (a->keys + 8) * (a->D + a->Dv + 16);   /* about a flop */
  pool_run(a->self->pool, a->B * a->H * a->splits, larger(1, 1000000 / cost), OF(attend_piece),
           a);
}

#endif
