/*
** few.h - attention of few queries, as in generation, token by token (read once for each type).
**
** Lanes hold keys, and a row of scores is a query's. The heads that share keys and values are
** taken together, so that these are read once. Keys are cut into parts, always in the same
** places, so that threads can share them; the parts are joined by their sums of weights.
**
** T. Dao et al., "Flash-Decoding for long-context inference" (2023).
*/

#ifndef T
#include "cpu/attention/attention.h"
#else

#define PART_KEYS (8 * TILE_KEYS)  /* doubled until there are at most MOST_PARTS */
#define MOST_PARTS 4096
#define KEYS_AHEAD 48              /* fetched ahead of the key that is read */

typedef struct FN(few) FN(few);
typedef struct FN(rows) FN(rows);

/* Part n of the heads that r has, or its weights once the normalisers are known. */
typedef void (*FN(few_run)) (const FN(few) *f, const FN(rows) *r, int64_t n);

struct FN(few) {
  attend *a;
  int64_t rows;                    /* queries of the heads that share keys: (heads, T) */
  int64_t parts, part_keys;
  T *sums;                         /* (B, Hk, parts): an FN(part) each */
  FN(few_run) run;
};

typedef struct FN(part) {          /* what the rows have of some keys */
  T *o;                            /* (rows, Dv): the sum of weights and values */
  T *top, *sum;                    /* (rows): largest score, sum of weights relative to it */
} FN(part);

struct FN(rows) {                  /* of one (b, hk) */
  int64_t b, hk;
  T *q;                            /* (rows, D), scaled */
  T *s;                            /* (rows, TILE_KEYS) */
  T *k, *v;                        /* (TILE_KEYS, D), (TILE_KEYS, Dv), if they must be converted */
  T *spare;                        /* (TILE_KEYS) */
};


static int64_t FN(part_size) (const FN(few) *f) {
  return round_up(f->rows * (f->a->Dv + 2), LANES);
}


static FN(part) FN(part_at) (const FN(few) *f, int64_t head, int64_t n) {
  T *at = f->sums + (head * f->parts + n) * FN(part_size)(f);
  const int64_t o = f->rows * f->a->Dv;
  return (FN(part)){at, at + o, at + o + f->rows};
}


/* Shares out the workspace at 'base', and counts its bytes; with NULL it only counts. */
static size_t FN(share_few) (const attend *a, FN(rows) *r, T *base) {
  const FN(share) shares[] = {
    {&r->q, a->shared * a->queries * a->D}, {&r->s, a->shared * a->queries * TILE_KEYS},
    {&r->k, TILE_KEYS * a->D}, {&r->v, TILE_KEYS * a->Dv}, {&r->spare, TILE_KEYS}
  };
  return SHARE_OUT(shares, base);
}


typedef struct FN(lines_of) {      /* unbroken rows, as they lie or converted */
  const char *at;
  int64_t row;                     /* in bytes */
  int source;                      /* what they are of, as FN(one)'s source counts it */
  bool in_place;
} FN(lines_of);

/*
** Keys of a tile, or their values. Where 'short_too', rows of 16-bit floats stay as they lie too:
** the memory's speed is the limit, and they are half as long.
*/
static FN(lines_of) FN(tile_rows) (const attend *a, const view *v, const FN(rows) *r,
                                   const tile *x, bool short_too, T *workspace) {
  const int source = FN(source_of)(v->type);
  const bool in_place = v->at.stride[3] == 1 && (v->type == TYPE || (short_too && source > 0));
  if (in_place)
    return (FN(lines_of)){view_at(v, r->b, r->hk, x->j, 0),
                          v->at.stride[2] * FN(source_bytes)(source), source, true};
  FN(rows_of)(a, v, r->b, r->hk, (key_range){x->j, x->j + x->keys}, false, workspace);
  return (FN(lines_of)){(const char *)workspace, v->at.size[3] * BYTES, 0, false};
}


static void FN(load_queries) (const attend *a, const FN(rows) *r) {
  const int64_t size = a->queries * a->D;
  for (int64_t g = 0; g < a->shared; g++)
    FN(rows_of)(a, &a->w->in[ATTENTION_Q], r->b, r->hk * a->shared + g,
                (key_range){0, a->queries}, false, r->q + g * size);
  for (int64_t e = 0; e < a->shared * size; e++) r->q[e] *= (T)a->factor;
}


/*
** Turns the scores of a row into weights relative to the largest so far, and rescales the sums of
** earlier tiles.
*/
static void FN(few_softmax) (const attend *a, int64_t keys, T *s, T *o, T *top, T *sum) {
  const FN(exp2_constants) constants = FN(exp2_open)();
  FN(vector) most = FN(splat)(*top), total = {0};
  for (int64_t j = 0; j < keys; j += LANES) most = FN(larger)(FN(load)(s + j), most);
  const T before = *top;
  for (int i = 0; i < LANES; i++) *top = most[i] > *top ? most[i] : *top;
  const T base = *top == -(T)INFINITY ? 0 : *top;
  for (int64_t j = 0; j < keys; j += LANES) {
    const FN(vector) weight = FN(exp2_with)(&constants, FN(load)(s + j) - base);
    FN(store)(s + j, weight);
    total += weight;
  }
  const T fade = FN(vector_exp2)(FN(splat)(before - base))[0];
  *sum = *sum * fade + FN(total)(total);
  if (before < *top)
    for (int64_t d = 0; d < a->Dv; d++) o[d] *= fade;
}


/*
** {==================================================================
** Parts
** ===================================================================
*/

/* May no query of these heads attend to any key of the tile? */
static bool FN(is_blocked) (const attend *a, tile x) {
  for (int64_t g = 0; g < a->shared; g++, x.h++)
    if (mask_classify(a->w, &x) != TILE_NONE) return false;
  return true;
}


/* s[i][j] = row i of q times row j of k, 'rows' by n <= 4; room for 4 columns. */
INLINED void FN(key_sums) (const int rows, const heed_type type, int64_t depth, const T *q,
                           const char *k, int64_t k_row, int64_t n, T *s) {
  FN(vector) sum[DOT_ROWS][4] = {{{0}}};
  const char *at[4];
  int64_t d = 0;
  UNROLL for (int j = 0; j < 4; j++) at[j] = k + smaller(j, n - 1) * k_row;
  for (; d + LANES <= depth; d += LANES) FN(dot_step)(rows, type, sum, q, depth, at, d, LANES);
  if (d < depth) FN(dot_step)(rows, type, sum, q, depth, at, d, (int)(depth - d));
  UNROLL for (int i = 0; i < rows; i++)
    UNROLL for (int j = 0; j < 4; j += GROUP) {
      const FN(piece) total = FN(totals)(sum[i] + j);
      memcpy(s + i * TILE_KEYS + j, &total, sizeof total);
    }
}

typedef void (*FN(key_kernel)) (int64_t depth, const T *q, const char *k, int64_t k_row, int64_t n,
                                T *s);

#define KEY_SUMS(name, type, rows) \
  static void FN(key_sums_##name##_##rows) (int64_t depth, const T *q, const char *k, \
                                            int64_t k_row, int64_t n, T *s) { \
    FN(key_sums)(rows, type, depth, q, k, k_row, n, s); \
  }
#define KEY_SUMS_NAME(name, type, rows) FN(key_sums_##name##_##rows),
#define KEY_ROWS(X, name, type) EACH_DOT_ROW(X, name, type)
FN(EACH_SOURCE)(KEY_ROWS, KEY_SUMS)
static const FN(key_kernel) FN(key_kernels)[][DOT_ROWS] = {
#define KEY_SOURCE(X, name, type) {EACH_DOT_ROW(X, name, type)},
  FN(EACH_SOURCE)(KEY_SOURCE, KEY_SUMS_NAME)
};
#undef KEY_SUMS
#undef KEY_SUMS_NAME
#undef KEY_ROWS
#undef KEY_SOURCE


/* n rows from number j on, of so many bytes, which are read soon. */
static void FN(fetch_rows) (const FN(lines_of) *x, int64_t j, int64_t n, int64_t bytes) {
  const bool unbroken = x->row == bytes;
  const int64_t lines = unbroken ? 1 : n, line = unbroken ? n * bytes : bytes;
  for (int64_t i = j; i < j + lines; i++) fetch_far(x->at + i * x->row, line);
}


/*
** r->s = q k^T. The loop fetches ahead: keys that lie in place, of which there are 'there', and the
** values of these keys where they do, if there are values. The memory's speed is the limit here.
*/
static void FN(multiply_keys) (const FN(few) *f, const FN(rows) *r, int64_t keys,
                               const FN(lines_of) *k, int64_t there, const FN(lines_of) *v) {
  const int64_t depth = f->a->D, bytes = FN(source_bytes)(k->source);
  const FN(key_kernel) *kernels = FN(key_kernels)[k->source];
  for (int64_t j = 0; j < keys; j += 4) {
    const int64_t n = smaller(keys - j, 4);
    for (int64_t i = 0; i < f->rows; i += DOT_ROWS)
      kernels[smaller(f->rows - i, DOT_ROWS) - 1](depth, r->q + i * depth, k->at + j * k->row,
                                                  k->row, n, r->s + i * TILE_KEYS + j);
    if (v != NULL && v->in_place)
      FN(fetch_rows)(v, j, n, f->a->Dv * FN(source_bytes)(v->source));
    if (k->in_place && j + KEYS_AHEAD + 4 <= there)
      FN(fetch_rows)(k, j + KEYS_AHEAD, 4, depth * bytes);
  }
}


/* r->s = the scores of all rows for the keys of a tile. */
static void FN(few_scores) (const FN(few) *f, const FN(rows) *r, tile x, const FN(lines_of) *v) {
  const attend *a = f->a;
  const FN(lines_of) k = FN(tile_rows)(a, &a->w->in[ATTENTION_K], r, &x, true, r->k);
  FN(multiply_keys)(f, r, x.keys, &k, a->keys - x.j, v);
  for (int64_t g = 0; g < a->shared; g++, x.h++)
    FN(finish_rows)(a, &x, r->s + g * a->queries * TILE_KEYS, r->spare);
}


/* o += the weights of a tile times its values. */
static void FN(add_values) (const FN(few) *f, const FN(rows) *r, int64_t keys,
                            const FN(lines_of) *v, T *o, bool careful) {
  const int64_t Dv = f->a->Dv;
  const T *values = (const T *)(const void *)v->at;
  const FN(one) x = {
    .p = {.depth = keys, .a_row = TILE_KEYS, .a_column = 1,
          .b_row = v->row / FN(source_bytes)(v->source), .c_row = Dv, .alpha = 1, .add = true},
    .rows = f->rows, .columns = Dv, .a = r->s, .b = v->at, .source = v->source
  };
  if (careful) FN(multiply_careful)(&x.p, true, f->rows, Dv, r->s, values, o);
  else if (v->source > 0) FN(add_lines)(&x, Dv, o, Dv);
  else FN(multiply)(&x.p, f->rows, Dv, r->s, values, o);
}


/* Lines are added to whole vectors of results. */
static void FN(attend_few_keys) (const FN(few) *f, const FN(rows) *r, tile x, const FN(part) *p,
                                 bool careful) {
  const attend *a = f->a;
  const bool short_too = !careful && a->Dv % LANES == 0;
  const FN(lines_of) v = FN(tile_rows)(a, &a->w->in[ATTENTION_V], r, &x, short_too, r->v);
  FN(few_scores)(f, r, x, &v);
  for (int64_t i = 0; i < f->rows; i++)
    FN(few_softmax)(a, x.keys, r->s + i * TILE_KEYS, p->o + i * a->Dv, p->top + i, p->sum + i);
  FN(add_values)(f, r, x.keys, &v, p->o, careful);
}


static void FN(attend_part) (const FN(few) *f, const FN(rows) *r, int64_t n, const FN(part) *p,
                             bool careful) {
  const attend *a = f->a;
  const key_range own = {n * f->part_keys, (n + 1) * f->part_keys};
  const key_range keys = both_ranges(own, mask_keys(a->w, r->b, 0, a->queries, a->keys));
  memset(p->o, 0, (size_t)(f->rows * a->Dv) * sizeof(T));
  for (int64_t i = 0; i < f->rows; i++) {
    p->top[i] = -(T)INFINITY;
    p->sum[i] = 0;
  }
  int64_t j = larger(keys.from, 0) / TILE_KEYS * TILE_KEYS;
  for (; j < keys.to && !cpu_stopped(a->self); j += TILE_KEYS) {
    const tile x = {.b = r->b, .h = r->hk * a->shared, .n = a->queries, .j = j,
                    .keys = smaller(keys.to - j, TILE_KEYS)};
    if (!FN(is_blocked)(a, x)) FN(attend_few_keys)(f, r, x, p, careful);
  }
}


static void FN(attend_own_part) (const FN(few) *f, const FN(rows) *r, int64_t n) {
  const attend *a = f->a;
  const FN(part) p = FN(part_at)(f, r->b * a->Hk + r->hk, n);
  FN(attend_part)(f, r, n, &p, false);
  if (FN(needs_care)(a, p.o, f->rows, a->Dv, a->Dv)) FN(attend_part)(f, r, n, &p, true);
}


/* The weights of row i of r->s, to where the caller wants them. */
static void FN(store_weights) (const FN(few) *f, const FN(rows) *r, const tile *x, int64_t i) {
  const attend *a = f->a;
  const FN(part) p = FN(part_at)(f, r->b * a->Hk + r->hk, 0);
  const tile row = {.b = r->b, .h = x->h + i / a->queries, .i = i % a->queries, .n = 1};
  T *s = r->s + i * TILE_KEYS;
  FN(weigh_scores)((x->keys - 1) / LANES + 1, s, LANES, FN(exponent_of)(FN(splat)(p.top[i])));
  FN(store_rows)(a, &a->w->out[ATTENTION_WEIGHTS], &row, x->j, x->keys, s, 0);
}


static void FN(weigh_part) (const FN(few) *f, const FN(rows) *r, int64_t n) {
  const attend *a = f->a;
  const int64_t end = smaller((n + 1) * f->part_keys, a->keys);
  for (int64_t j = n * f->part_keys; j < end && !cpu_stopped(a->self); j += TILE_KEYS) {
    const tile x = {.b = r->b, .h = r->hk * a->shared, .n = a->queries, .j = j,
                    .keys = smaller(end - j, TILE_KEYS)};
    FN(few_scores)(f, r, x, NULL);
    for (int64_t i = 0; i < f->rows; i++) FN(store_weights)(f, r, &x, i);
  }
}


static void FN(few_piece) (const void *plan, void *workspace, int64_t from, int64_t to) {
  const FN(few) *f = plan;
  const attend *a = f->a;
  FN(rows) r;
  FN(share_few)(a, &r, workspace);
  for (int64_t item = from, head = -1; item < to; item++) {
    if (item / f->parts != head) {
      head = item / f->parts;
      r.b = head / a->Hk;
      r.hk = head % a->Hk;
      FN(load_queries)(a, &r);
    }
    f->run(f, &r, item % f->parts);
  }
}

/* }================================================================== */


/*
** {==================================================================
** All of it
** ===================================================================
*/

/* The first part takes in row i of the one that follows. */
static void FN(join_part) (const attend *a, const FN(part) *p, const FN(part) *q, int64_t i) {
  const T top = p->top[i] < q->top[i] ? q->top[i] : p->top[i];
  const T base = top == -(T)INFINITY ? 0 : top;
  const T mine = FN(vector_exp2)(FN(splat)(p->top[i] - base))[0];
  const T theirs = FN(vector_exp2)(FN(splat)(q->top[i] - base))[0];
  if (q->top[i] == -(T)INFINITY && q->sum[i] == 0) return;
  for (int64_t d = 0; d < a->Dv; d++)
    p->o[i * a->Dv + d] = p->o[i * a->Dv + d] * mine + q->o[i * a->Dv + d] * theirs;
  p->sum[i] = p->sum[i] * mine + q->sum[i] * theirs;
  p->top[i] = top;
}


/* The results of row i of a head: 0 where nothing was attended to. Its normaliser. */
static T FN(end_row) (const attend *a, int64_t b, int64_t h, int64_t i, T *o, T top, T sum) {
  const tile row = {.b = b, .h = h, .i = i, .n = 1};
  const T normaliser = top * (T)LOG_OF_2 + FN(vector_log)(FN(splat)(sum))[0];
  for (int64_t d = 0; d < a->Dv; d++) o[d] = sum == 0 ? 0 : o[d] / sum;
  FN(store_rows)(a, &a->w->out[ATTENTION_Y], &row, 0, a->Dv, o, 0);
  FN(store_line)(a, &a->w->out[ATTENTION_Y_LSE], &row, &normaliser);
  return normaliser;
}


/*
** Heads of keys from 'from' to 'to' - 1: their parts are joined, in order. In the place of a
** row's largest score its normaliser stays behind.
*/
static void FN(join_piece) (const void *plan, void *workspace, int64_t from, int64_t to) {
  const FN(few) *f = plan;
  const attend *a = f->a;
  (void)workspace;
  for (int64_t head = from; head < to; head++) {
    const FN(part) p = FN(part_at)(f, head, 0);
    for (int64_t i = 0; i < f->rows; i++) {
      for (int64_t n = 1; n < f->parts; n++) {
        const FN(part) q = FN(part_at)(f, head, n);
        FN(join_part)(a, &p, &q, i);
      }
      p.top[i] = FN(end_row)(a, head / a->Hk, head % a->Hk * a->shared + i / a->queries,
                             i % a->queries, p.o + i * a->Dv, p.top[i], p.sum[i]);
    }
  }
}


static size_t FN(few_workspace) (const attend *a) {
  FN(rows) r;
  return FN(share_few)(a, &r, NULL);
}


static void FN(attend_few) (attend *a) {
  if (a->B * a->H * a->queries == 0) return;
  FN(few) f = {.a = a, .rows = a->shared * a->queries, .part_keys = PART_KEYS,
               .run = FN(attend_own_part)};
  while (a->keys / f.part_keys >= MOST_PARTS) f.part_keys *= 2;
  f.parts = larger(1, (a->keys - 1) / f.part_keys + 1);
  const int64_t heads = a->B * a->Hk;
  f.sums = cpu_scratch(a->self, (size_t)(heads * f.parts * FN(part_size)(&f)) * sizeof(T));
  if (f.sums == NULL) { a->failed = true; return; }
  const int64_t cost = smaller(a->keys + 8, f.part_keys) * (f.rows + 2) * (a->D + a->Dv + 16);
  run_pieces(a, a->workspace, heads * f.parts, 400000 / cost, FN(few_piece), &f);
  run_pieces(a, 0, heads, 100000 / (f.parts * f.rows * (a->Dv + 16)), FN(join_piece), &f);
  f.run = FN(weigh_part);
  if (!view_is_none(&a->w->out[ATTENTION_WEIGHTS]))
    run_pieces(a, a->workspace, heads * f.parts, 400000 / cost, FN(few_piece), &f);
  cpu_scratch_free(f.sums);
}

/* }================================================================== */

#undef PART_KEYS
#undef MOST_PARTS

#endif
