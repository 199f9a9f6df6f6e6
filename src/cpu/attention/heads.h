/*
** heads.h - attention of many small heads (read once for each type).
**
** Each lane holds a head: LANES of them are transposed into matrices of vectors, and then all is
** as for one head and single numbers, without a sum across lanes or a lane that is empty. Each
** number is computed by the same steps as in panels of queries: whether a batch is large enough
** for this way does not show in the results.
*/

#ifndef T
#include "cpu/attention/attention.h"
#else

typedef struct FN(heads) {         /* LANES heads, or the n that are left; matrices of vectors */
  const attend *a;
  int64_t first, n;                /* counted over (B, H) */
  T *q, *k, *v, *y;                /* (T, D), (S, D), (S, Dv), (T, Dv) */
  T *scaled;                       /* (T, D): q times a's factor */
  T *p, *lse;                      /* (T, S): scores, then weights; (T) */
  T *g, *ds, *dq, *dk, *dv;        /* of y, scores … */
} FN(heads);


/*
** {==================================================================
** Matrices of heads: from and to memory, and their products
** ===================================================================
*/

/*
** Heads of a view (B, H, rows, columns) or (B, H, rows) that lie at equal distance. Columns that
** are unbroken are moved together, and rows that are, as one.
*/
typedef struct FN(head_rows) {
  T *at;
  int64_t n, step;                 /* heads, and their distance */
  int64_t rows, columns, together;
  int64_t row, column;             /* strides */
} FN(head_rows);

/* The heads of r from number 'from' on: all that are left, or all of one batch. */
static FN(head_rows) FN(head_rows_of) (const FN(heads) *r, const view *v, int64_t from) {
  const int64_t *size = v->at.size, *stride = v->at.stride, H = size[1];
  const int64_t head = r->first + from, left = r->n - from;
  const bool even = size[0] == 1 || H == 1 || stride[0] == H * stride[1];
  FN(head_rows) m = {
    .at = (T *)v->data + head / H * stride[0] + head % H * stride[1],
    .n = even ? left : smaller(left, H - head % H), .step = stride[H == 1 ? 0 : 1],
    .rows = size[2], .columns = v->at.rank == 4 ? size[3] : 1, .row = stride[2],
    .column = v->at.rank == 4 ? stride[3] : 1
  };
  if (m.column == 1 && (m.row == m.columns || m.rows == 1)) {
    m.columns *= m.rows;
    m.rows = 1;
  }
  m.together = m.column == 1 ? m.columns : 1;
  return m;
}


/* Lanes without a head repeat the last one. */
static void FN(load_heads) (const FN(heads) *r, const view *v, T factor, T *to) {
  FN(head_rows) m;
  for (int64_t lane = 0; lane < r->n; lane += m.n) {
    m = FN(head_rows_of)(r, v, lane);
    const int64_t written = lane + m.n < r->n ? m.n : LANES - lane;
    for (int64_t i = 0; i < m.rows; i++)
      for (int64_t j = 0; j < m.columns; j += m.together)
        FN(transpose)(m.n, m.together, written, factor, m.at + i * m.row + j * m.column, m.step,
                      to + (i * m.columns + j) * LANES + lane, LANES);
  }
}


static void FN(store_heads) (const FN(heads) *r, const view *v, const T *from) {
  FN(head_rows) m;
  for (int64_t lane = 0; lane < r->n; lane += m.n) {
    m = FN(head_rows_of)(r, v, lane);
    for (int64_t i = 0; i < m.rows; i++)
      for (int64_t j = 0; j < m.columns; j += m.together)
        FN(transpose)(m.together, m.n, m.together, 1, from + (i * m.columns + j) * LANES + lane,
                      LANES, m.at + i * m.row + j * m.column, m.step);
  }
}


#define HEAD_COLUMNS 6             /* of two rows of a product at a time: 12 sums in flight */

/* n elements of two rows of a product, which may be one and the same; strides count numbers. */
INLINED void FN(head_sums) (const int n, int64_t depth, const T *const a[2], int64_t a_column,
                            const T *b, int64_t b_row, int64_t b_column, T factor,
                            T *const c[2]) {
  FN(vector) sum[2][HEAD_COLUMNS];
  UNROLL for (int j = 0; j < n; j++) sum[0][j] = sum[1][j] = (FN(vector)){0};
  for (int64_t k = 0; k < depth * a_column; k += a_column, b += b_row) {
    const FN(vector) x = FN(load)(a[0] + k), y = FN(load)(a[1] + k);
    UNROLL for (int j = 0; j < n; j++) {
      FN(vector) z = FN(load)(b + j * b_column);
      IN_REGISTER(z);                /* without this, z is loaded twice */
      sum[0][j] += x * z;
      sum[1][j] += y * z;
    }
  }
  UNROLL for (int i = 0; i < 2; i++)
    UNROLL for (int j = 0; j < n; j++) FN(store)(c[i] + j * LANES, sum[i][j] * factor);
}


/* The same for one element; where a is 0 nothing is added, be b NaN or infinite. */
static void FN(head_sum_careful) (int64_t depth, const T *a, int64_t a_column, const T *b,
                                  int64_t b_row, T factor, T *c) {
  FN(vector) sum = {0};
  for (; depth > 0; depth--, a += a_column, b += b_row) {
    const FN(vector) x = FN(load)(a), next = sum + x * FN(load)(b);
    sum = FN(select)(x == (T)0, sum, next);
  }
  FN(store)(c, sum * factor);
}


#define HEAD_SUMS(n) \
  static void FN(head_sums_##n) (int64_t depth, const T *const a[2], int64_t a_column, \
                                 const T *b, int64_t b_row, int64_t b_column, T factor, \
                                 T *const c[2]) { \
    FN(head_sums)(n, depth, a, a_column, b, b_row, b_column, factor, c); \
  }
HEAD_SUMS(1) HEAD_SUMS(2) HEAD_SUMS(3) HEAD_SUMS(4) HEAD_SUMS(5) HEAD_SUMS(6)
#undef HEAD_SUMS

static void (*const FN(head_kernels)[]) (int64_t, const T *const a[2], int64_t, const T *, int64_t,
                                         int64_t, T, T *const c[2]) = {
  NULL, FN(head_sums_1), FN(head_sums_2), FN(head_sums_3), FN(head_sums_4), FN(head_sums_5),
  FN(head_sums_6)
};


/* c (rows, columns) = factor a b; the operands' strides count vectors. */
static void FN(multiply_heads) (int64_t rows, int64_t columns, int64_t depth, T factor,
                                FN(operand) a, FN(operand) b, T *c) {
  const int64_t cuts = (columns + HEAD_COLUMNS - 1) / HEAD_COLUMNS;
  for (int64_t i = 0; i < rows; i += 2) {
    const int64_t other = i + 1 < rows ? 1 : 0;
    const T *from[2] = {a.at + i * a.row * LANES, a.at + (i + other) * a.row * LANES};
    for (int64_t cut = 0, j = 0, n; cut < cuts; cut++, j += n) {
      T *at = c + (i * columns + j) * LANES, *to[2] = {at, at + other * columns * LANES};
      n = (columns - j + cuts - cut - 1) / (cuts - cut);
      FN(head_kernels)[n](depth, from, a.column * LANES, b.at + j * b.column * LANES,
                          b.row * LANES, b.column * LANES, factor, to);
    }
  }
}


static void FN(multiply_heads_careful) (int64_t rows, int64_t columns, int64_t depth, T factor,
                                        FN(operand) a, FN(operand) b, T *c) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++)
      FN(head_sum_careful)(depth, a.at + i * a.row * LANES, a.column * LANES,
                           b.at + j * b.column * LANES, b.row * LANES, factor,
                           c + (i * columns + j) * LANES);
}

/* }================================================================== */


/*
** {==================================================================
** Scores
** ===================================================================
*/

/* Who may attend, key by key: a word for each lane. */
static void FN(heads_bits) (const FN(heads) *r, uint64_t bits[LANES][TILE_KEYS]) {
  const attend *a = r->a;
  for (int64_t c = 0; c < LANES; c++) {
    const int64_t head = r->first + smaller(c, r->n - 1);
    const tile x = {.b = head / a->H, .h = head % a->H, .n = a->queries, .keys = a->keys};
    if (c > 0 && mask_is_even(a->w)) memcpy(bits[c], bits[0], sizeof bits[0]);
    else mask_bits(a->w, &x, bits[c]);
  }
}


/* Lane by lane: may query i attend to key j? */
static FN(flags) FN(heads_flags) (uint64_t bits[LANES][TILE_KEYS], int64_t i, int64_t j) {
  FN(flags) may;
  for (int c = 0; c < LANES; c++) may[c] = -(BITS)(bits[c][j] >> i & 1);
  return may;
}


APART void FN(block_heads) (const FN(heads) *r) {
  const attend *a = r->a;
  const FN(vector) never = FN(splat)(-(T)INFINITY);
  uint64_t bits[LANES][TILE_KEYS];
  FN(heads_bits)(r, bits);
  for (int64_t j = 0; j < a->keys; j++) {
    uint64_t all = bits[0][j], any = all;
    for (int c = 1; c < LANES; c++) {
      all &= bits[c][j];
      any |= bits[c][j];
    }
    for (int64_t i = 0; i < a->queries; i++) {
      T *at = r->p + (i * a->keys + j) * LANES;
      if (all >> i & 1) continue;
      FN(store)(at, any >> i & 1 ? FN(select)(FN(heads_flags)(bits, i, j), FN(load)(at), never)
                                 : never);
    }
  }
}


static void FN(heads_scores) (const FN(heads) *r) {
  const attend *a = r->a;
  FN(multiply_heads)(a->queries, a->keys, a->D, 1, (FN(operand)){r->scaled, a->D, 1},
                     (FN(operand)){r->k, 1, a->D}, r->p);
  if (a->w->attention.mask.n > 0) FN(block_heads)(r);
}


/*
** Turns rows of scores into weights, and gives their sums and normalisers. Each step is done for
** all rows, so that no row waits for its own step before.
*/
static void FN(heads_softmax) (const FN(heads) *r, FN(vector) *sum) {
  const FN(exp2_constants) constants = FN(exp2_open)();
  const int64_t rows = r->a->queries, row = r->a->keys * LANES;
  FN(vector) top[HEADS_QUERIES];
  for (int64_t i = 0; i < rows; i++) {
    top[i] = FN(splat)(-(T)INFINITY);
    for (T *s = r->p + i * row; s < r->p + (i + 1) * row; s += LANES)
      top[i] = FN(larger)(FN(load)(s), top[i]);
  }
  for (int64_t i = 0; i < rows; i++) {
    const FN(vector) base = FN(select)(top[i] == -(T)INFINITY, (FN(vector)){0}, top[i]);
    sum[i] = (FN(vector)){0};
    for (T *s = r->p + i * row; s < r->p + (i + 1) * row; s += LANES) {
      const FN(vector) weight = FN(exp2_with)(&constants, FN(load)(s) - base);
      FN(store)(s, weight);
      sum[i] += weight;
    }
  }
  for (int64_t i = 0; i < rows; i++)
    FN(store)(r->lse + i * LANES, top[i] * (T)LOG_OF_2 + FN(vector_log)(sum[i]));
}

/* }================================================================== */


/* Shares out the workspace at 'base', and counts its bytes; with NULL it only counts. */
static size_t FN(share_heads) (const attend *a, FN(heads) *r, T *base) {
  const int64_t t = a->queries * LANES, s = a->keys * LANES, D = a->D, Dv = a->Dv;
  const int64_t both = a->keys * t;
  const FN(share) shares[] = {
    {&r->scaled, t * D}, {&r->k, s * D}, {&r->v, s * Dv}, {&r->y, t * Dv}, {&r->p, both},
    {&r->lse, t},                  /* the last of the forward pass */
    {&r->q, t * D}, {&r->g, t * Dv}, {&r->ds, both}, {&r->dq, t * D}, {&r->dk, s * D},
    {&r->dv, s * Dv}
  };
  const size_t all = sizeof shares / sizeof *shares, forward = 6;
  return FN(share_out)(a->w->kind == WORK_ATTENTION ? forward : all, shares, base);
}


static void FN(load_operands) (const FN(heads) *r) {
  const work *w = r->a->w;
  FN(load_heads)(r, &w->in[ATTENTION_Q], (T)r->a->factor, r->scaled);
  FN(load_heads)(r, &w->in[ATTENTION_K], 1, r->k);
  FN(load_heads)(r, &w->in[ATTENTION_V], 1, r->v);
}


/* The weights themselves, from the rows' normalisers. */
static void FN(weigh_heads) (const FN(heads) *r) {
  const int64_t keys = r->a->keys;
  FN(heads_scores)(r);
  for (int64_t i = 0; i < r->a->queries; i++)
    FN(weigh_scores)(keys, r->p + i * keys * LANES, LANES,
                     FN(exponent_of)(FN(load)(r->lse + i * LANES)));
  FN(store_heads)(r, &r->a->w->out[ATTENTION_WEIGHTS], r->p);
}


APART void FN(attend_heads) (const FN(heads) *r) {
  const attend *a = r->a;
  const int64_t t = a->queries, s = a->keys, Dv = a->Dv;
  const FN(operand) p = {r->p, s, 1}, v = {r->v, Dv, 1};
  FN(vector) sum[HEADS_QUERIES];
  FN(load_operands)(r);
  FN(heads_scores)(r);
  FN(heads_softmax)(r, sum);
  FN(multiply_heads)(t, Dv, s, 1, p, v, r->y);
  if (FN(needs_care)(a, r->y, t * Dv, LANES, LANES))
    FN(multiply_heads_careful)(t, Dv, s, 1, p, v, r->y);
  for (int64_t i = 0; i < t; i++) {
    const FN(vector) share = FN(select)(sum[i] == (T)0, sum[i], 1 / sum[i]);
    for (T *y = r->y + i * Dv * LANES; y < r->y + (i + 1) * Dv * LANES; y += LANES)
      FN(store)(y, FN(load)(y) * share);
  }
  FN(store_heads)(r, &a->w->out[ATTENTION_Y], r->y);
  FN(store_heads)(r, &a->w->out[ATTENTION_Y_LSE], r->lse);
  if (!view_is_none(&a->w->out[ATTENTION_WEIGHTS])) FN(weigh_heads)(r);
}


/*
** {==================================================================
** Gradients
** ===================================================================
*/

/* Weights and the gradients of scores, of query i; what is blocked has none of either. */
static void FN(heads_slopes) (const FN(heads) *r, const FN(exp2_constants) *constants, int64_t i,
                              FN(vector) delta) {
  const attend *a = r->a;
  const bool masked = a->w->attention.mask.n > 0;
  const FN(vector) exponent = FN(exponent_of)(FN(load)(r->lse + i * LANES));
  for (int64_t j = i * a->keys; j < (i + 1) * a->keys; j++) {
    const FN(vector) score = FN(load)(r->p + j * LANES), dp = FN(load)(r->ds + j * LANES);
    FN(vector) weight = FN(exp2_with)(constants, score - exponent);
    if (masked) weight = FN(weight_of)(score, weight);
    FN(vector) ds = weight * (dp - delta);
    if (masked) ds = FN(select)(weight == (T)0, weight, ds);
    FN(store)(r->p + j * LANES, weight);
    FN(store)(r->ds + j * LANES, ds);
  }
}


/* sum(g y) of query i, less the gradient of its normaliser, which dq still holds */
static FN(vector) FN(heads_delta) (const FN(heads) *r, int64_t i) {
  const int64_t row = r->a->Dv * LANES;
  const bool has_lse = !view_is_none(&r->a->w->in[ATTENTION_GRADIENT_LSE]);
  FN(vector) sum = {0};
  for (int64_t e = i * row; e < (i + 1) * row; e += LANES)
    sum += FN(load)(r->g + e) * FN(load)(r->y + e);
  return has_lse ? sum - FN(load)(r->dq + i * LANES) : sum;
}


/* Returns whether the results need products with care. */
static bool FN(heads_gradients) (const FN(heads) *r, bool careful) {
  const attend *a = r->a;
  const int64_t t = a->queries, s = a->keys, D = a->D, Dv = a->Dv;
  const T scale = (T)a->w->attention.scale;
  const FN(operand) k = {r->k, D, 1}, q = {r->q, D, 1}, g = {r->g, Dv, 1};
  const FN(operand) across = {r->ds, s, 1}, down = {r->ds, 1, s}, p = {r->p, 1, s};
  void (*multiply) (int64_t, int64_t, int64_t, T, FN(operand), FN(operand), T *) =
    careful ? FN(multiply_heads_careful) : FN(multiply_heads);
  multiply(t, D, s, scale, across, k, r->dq);
  multiply(s, D, t, scale, down, q, r->dk);
  multiply(s, Dv, t, 1, p, g, r->dv);
  return FN(needs_care)(a, r->dq, t * D, LANES, LANES)
         || FN(needs_care)(a, r->dk, s * D, LANES, LANES)
         || FN(needs_care)(a, r->dv, s * Dv, LANES, LANES);
}


APART void FN(attend_heads_back) (const FN(heads) *r) {
  const attend *a = r->a;
  const work *w = a->w;
  const FN(exp2_constants) constants = FN(exp2_open)();
  FN(load_operands)(r);
  FN(load_heads)(r, &w->in[ATTENTION_Q], 1, r->q);
  FN(load_heads)(r, &w->in[ATTENTION_GRADIENT], 1, r->g);
  FN(load_heads)(r, &w->in[ATTENTION_OUTPUT], 1, r->y);
  FN(load_heads)(r, &w->in[ATTENTION_LSE], 1, r->lse);
  if (!view_is_none(&w->in[ATTENTION_GRADIENT_LSE]))
    FN(load_heads)(r, &w->in[ATTENTION_GRADIENT_LSE], 1, r->dq);
  FN(heads_scores)(r);
  FN(multiply_heads)(a->queries, a->keys, a->Dv, 1, (FN(operand)){r->g, a->Dv, 1},
                     (FN(operand)){r->v, 1, a->Dv}, r->ds);
  for (int64_t i = 0; i < a->queries; i++)
    FN(heads_slopes)(r, &constants, i, FN(heads_delta)(r, i));
  if (FN(heads_gradients)(r, false)) FN(heads_gradients)(r, true);
  FN(store_heads)(r, &w->out[ATTENTION_DQ], r->dq);
  FN(store_heads)(r, &w->out[ATTENTION_DK], r->dk);
  FN(store_heads)(r, &w->out[ATTENTION_DV], r->dv);
}

/* }================================================================== */


static void FN(heads_piece) (const void *plan, void *workspace, int64_t from, int64_t to) {
  const attend *a = plan;
  FN(heads) r = {.a = a};
  FN(share_heads)(a, &r, workspace);
  for (int64_t group = from; group < to && (group == from || !cpu_stopped(a->self)); group++) {
    r.first = group * LANES;
    r.n = smaller(a->B * a->H - r.first, LANES);
    if (a->w->kind == WORK_ATTENTION) FN(attend_heads)(&r);
    else FN(attend_heads_back)(&r);
  }
}


static size_t FN(heads_workspace) (const attend *a) {
  FN(heads) r;
  return FN(share_heads)(a, &r, NULL);
}


/* Forward or backward. */
static void FN(attend_in_heads) (attend *a) {
  const int64_t cost = LANES * (a->queries + 4) * (a->keys + 4) * (a->D + a->Dv + 16);
  run_pieces(a, a->workspace, (a->B * a->H + LANES - 1) / LANES, 500000 / cost,
             FN(heads_piece), a);
}

#undef HEAD_COLUMNS

#endif
