/*
** attention_tile.h - the scores of a tile: keys down, queries across (read once for each type).
*/

#ifndef T
#include "cpu/attention/attention.h"
#else

typedef struct FN(operand) {       /* of one head: (S, D) or (S, Dv) */
  const T *at;
  int64_t row, column;
} FN(operand);


static bool FN(has_dense_rows) (const view *v) { return v->type == TYPE && v->at.stride[3] == 1; }


/* A head of q, k or v as T: in place, or converted to 'workspace', row by row. */
static FN(operand) FN(operand_of) (const attend *a, const view *v, int64_t b, int64_t h,
                                   T *workspace) {
  const int64_t rows = v->at.size[2], columns = v->at.size[3];
  if (v->type == TYPE)
    return (FN(operand)){view_at(v, b, h, 0, 0), v->at.stride[2], v->at.stride[3]};
  for (int64_t i = 0; i < rows && !cpu_stops(a->self, i, columns); i++)
    a->self->level->load(columns, TYPE, workspace + i * columns, v->type, view_at(v, b, h, i, 0),
                         v->at.stride[3]);
  return (FN(operand)){workspace, columns, 1};
}


/* Rows i .. i + n - 1 of (T, columns), times a factor, transposed: a panel (columns, PANEL). */
static void FN(load_panel) (const attend *a, const view *v, const tile *x, T factor, T *spare,
                            T *panel) {
  const int64_t columns = v->at.size[3], width = x->n > LANES ? PANEL : LANES;
  const T *from = view_at(v, x->b, x->h, x->i, 0);
  int64_t row = v->at.stride[2];
  if (!FN(has_dense_rows)(v)) {
    for (int64_t i = 0; i < x->n; i++)
      a->self->level->load(columns, TYPE, spare + i * columns, v->type,
                           view_at(v, x->b, x->h, x->i + i, 0), v->at.stride[3]);
    from = spare;
    row = columns;
  }
  FN(transpose)(x->n, columns, width, factor, from, row, panel, PANEL);
}


/* A panel (columns, from_row), transposed to rows i .. of a view, from its column j on. */
static void FN(store_panel) (const attend *a, const view *v, const tile *x, int64_t j,
                             int64_t columns, const T *panel, int64_t from_row, T *spare) {
  T *to = view_at(v, x->b, x->h, x->i, j);
  if (FN(has_dense_rows)(v)) {
    FN(transpose)(columns, x->n, columns, 1, panel, from_row, to, v->at.stride[2]);
    return;
  }
  FN(transpose)(columns, x->n, columns, 1, panel, from_row, spare, columns);
  for (int64_t i = 0; i < x->n; i++)
    a->self->level->store(columns, v->type, view_at(v, x->b, x->h, x->i + i, j),
                          v->at.stride[3], TYPE, spare + i * columns);
}


/*
** {==================================================================
** Changes of scores s (keys, row), one of two vectors of each line
** ===================================================================
*/

/* s = cap tanh(s); its derivative, unless that is NULL, is 1 - tanh(s)^2. */
static void FN(cap_scores) (int64_t keys, int64_t width, T *s, int64_t row, T cap,
                            T *derivative) {
  for (int64_t j = 0; j < keys; j++)
    for (int64_t c = 0; c < width; c += LANES) {
      FN(vector) y = FN(vector_tanh)(FN(load)(s + j * row + c));
      if (derivative != NULL) FN(store)(derivative + j * PANEL + c, 1 - y * y);
      FN(store)(s + j * row + c, y * cap);
    }
}


/* s += bias, which is transposed through 'spare' (two panels of keys) first. */
static void FN(bias_scores) (const attend *a, const tile *x, T *s, int64_t row, T *spare) {
  const view *v = &a->w->in[ATTENTION_BIAS];
  T *transposed = spare + x->keys * PANEL;
  for (int64_t i = 0; i < x->n; i++)
    a->self->level->load(x->keys, TYPE, spare + i * x->keys, v->type,
                         view_at(v, x->b, x->h, x->i + i, x->j), v->at.stride[3]);
  FN(transpose)(x->n, x->keys, PANEL, (T)LOG2E, spare, x->keys, transposed, PANEL);
  for (int64_t j = 0; j < x->keys; j++)
    for (int64_t c = 0; c < x->n; c += LANES) {
      T *at = s + j * row + c;
      FN(store)(at, FN(load)(at) + FN(load)(transposed + j * PANEL + c));
    }
}


/*
** The biases by distance of a tile, or their gradients, are one line: its element keys - 1 + c - j
** is that of key j and query c. Its first element in a row of (H, T + S - 1) is:
*/
static int64_t FN(relative_from) (const attend *a, const tile *x) {
  return x->i - (x->j + x->keys - 1) + a->keys - 1;
}


static void FN(relative_scores) (const attend *a, const tile *x, T *s, int64_t row, T *line) {
  const view *v = &a->w->in[ATTENTION_RELATIVE];
  const int64_t at = x->h * v->at.stride[0] + FN(relative_from)(a, x) * v->at.stride[1];
  a->self->level->load(x->keys + x->n - 1, TYPE, line, v->type,
                       (const char *)v->data + at * scalar_sizes[v->type], v->at.stride[1]);
  for (int64_t j = 0; j < x->keys; j++)
    for (int64_t c = 0; c < x->n; c += LANES) {
      T *to = s + j * row + c;
      FN(store)(to, FN(load)(to) + FN(load)(line + x->keys - 1 - j + c) * (T)LOG2E);
    }
}


/* LANES bytes as flags. */
INLINED FN(flags) FN(flags_of) (const uint8_t *from) {
  typedef int8_t bytes __attribute__((vector_size(LANES)));
  bytes b;
  memcpy(&b, from, sizeof b);
  return __builtin_convertvector(b, FN(flags)) != 0;
}


/* The lowest LANES bits as flags. */
INLINED FN(flags) FN(flags_of_bits) (uint64_t bits) {
  FN(flags) lane;
  UNROLL for (int i = 0; i < LANES; i++) lane[i] = (BITS)1 << i;
  return (lane & (BITS)bits) != 0;
}


/* What may not be attended to becomes -inf, NaN included. */
static void FN(block_scores) (const work *w, const tile *x, T *s, int64_t row) {
  const FN(vector) never = FN(splat)(-(T)INFINITY);
  const uint64_t all = ~(uint64_t)0 >> (64 - x->n);
  uint64_t bits[TILE_KEYS];
  mask_bits(w, x, bits);
  for (int64_t j = 0; j < x->keys; j++) {
    if ((bits[j] & all) == all) continue;
    for (int64_t c = 0; c < x->n; c += LANES) {
      T *at = s + j * row + c;
      FN(store)(at, FN(select)(FN(flags_of_bits)(bits[j] >> c), FN(load)(at), never));
    }
  }
}


/* to = from / (1 - p) where dropout keeps it, else 0 */
static void FN(drop_scores) (const attend *a, const tile *x, const T *from, int64_t from_row,
                             T *to, int64_t to_row) {
  uint8_t lines[PANEL * TILE_KEYS], stays[TILE_KEYS * PANEL];
  for (int64_t i = 0; i < x->n; i++) {
    int64_t index = ((x->b * a->H + x->h) * a->queries + x->i + i) * a->keys + x->j;
    dropout_line(a->key, (uint64_t)index, a->drop, x->keys, lines + i * x->keys);
  }
  transpose_bytes(x->n, x->keys, lines, x->keys, 1, stays, PANEL);
  for (int64_t j = 0; j < x->keys; j++)
    for (int64_t c = 0; c < x->n; c += LANES) {
      FN(flags) stay = FN(flags_of)(stays + j * PANEL + c);
      FN(vector) times = (FN(vector))(stay & (FN(flags))FN(splat)((T)a->kept));
      FN(store)(to + j * to_row + c, FN(load)(from + j * from_row + c) * times);
    }
}

/* }================================================================== */


/* Of keys in place and a panel of queries. */
static FN(product) FN(scores_product) (const attend *a, FN(operand) k, int64_t row) {
  return (FN(product)){.depth = a->D, .a_row = k.row, .a_column = k.column, .b_row = PANEL,
                       .c_row = row, .alpha = 1};
}


/* Are the scores of a tile nothing but that product, in both vectors? */
static bool FN(is_plain) (const attend *a, const tile *x, tile_kind kind) {
  return kind == TILE_ALL && a->plain && x->n > LANES;
}


/* s (keys, row) = the scores of a tile, as exponents of 2; q is a panel (D, PANEL), scaled. */
static void FN(scores) (const attend *a, const tile *x, tile_kind kind, FN(operand) k, const T *q,
                        T *s, int64_t row, T *derivative, T *spare) {
  const int64_t width = x->n > LANES ? PANEL : LANES;
  const FN(product) p = FN(scores_product)(a, k, row);
  FN(multiply)(&p, x->keys, width, k.at + x->j * k.row, q, s);
  if (a->cap != 0) FN(cap_scores)(x->keys, width, s, row, (T)a->cap, derivative);
  if (!view_is_none(&a->w->in[ATTENTION_BIAS])) FN(bias_scores)(a, x, s, row, spare);
  if (!view_is_none(&a->w->in[ATTENTION_RELATIVE])) FN(relative_scores)(a, x, s, row, spare);
  if (kind == TILE_MIXED) FN(block_scores)(a->w, x, s, row);
}


/*
** c (+)= alpha a b where one of the two holds weights, and a weight of 0 adds nothing, be its
** factor NaN or infinite. Slow; for tiles whose fast product is not finite.
*/
static void FN(multiply_careful) (const FN(product) *p, bool weights_in_a, int64_t rows,
                                  int64_t columns, const T *a, const T *b, T *c) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      T sum = 0;
      for (int64_t k = 0; k < p->depth; k++) {
        T x = a[i * p->a_row + k * p->a_column], y = b[k * p->b_row + j];
        if ((weights_in_a ? x : y) != 0) sum += x * y;
      }
      c[i * p->c_row + j] = sum * p->alpha + (p->add ? c[i * p->c_row + j] : 0);
    }
}


INLINED bool FN(all_lanes) (FN(flags) lane) {
  BITS all = -1;
  UNROLL for (int i = 0; i < LANES; i++) all &= lane[i];
  return all != 0;
}


static bool FN(is_finite) (const T *at, int64_t rows, int64_t columns, int64_t row) {
  FN(vector) zero = {0};
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c += LANES)
      zero += FN(load_some)(at + r * row + c, (int)smaller(columns - c, LANES)) * 0;
  return FN(total)(zero) == 0;
}

#endif
