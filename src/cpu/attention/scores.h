/*
** scores.h - what becomes of q k^T: softcap, biases, -inf where it is blocked, dropout; of tiles,
** keys down and queries across, and of rows of one query (read once for each type).
*/

#ifndef T
#include "cpu/attention/attention.h"
#else

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


/* The biases of query i of a tile, for its keys. */
static void FN(load_bias) (const attend *a, const tile *x, int64_t i, T *to) {
  FN(load_row)(a, &a->w->in[ATTENTION_BIAS], x->b, x->h, x->i + i, x->j, x->keys, to);
}


/* n biases by distance of head h, a row of (H, T + S - 1), from element 'at' on or back from it. */
static void FN(load_relative) (const attend *a, int64_t h, int64_t at, int64_t step, int64_t n,
                               T *to) {
  const view *v = &a->w->in[ATTENTION_RELATIVE];
  const int64_t *stride = v->at.stride;
  a->self->level->load(n, TYPE, to, v->type, (const char *)v->data + (h * stride[0]
                       + at * stride[1]) * scalar_sizes[v->type], step * stride[1]);
}


/*
** {==================================================================
** Tiles: s (keys, row), one or two vectors of each line
** ===================================================================
*/

/* s += bias, which is transposed through 'spare' (two panels of keys) first. */
static void FN(bias_scores) (const attend *a, const tile *x, T *s, int64_t row, T *spare) {
  T *transposed = spare + x->keys * PANEL;
  for (int64_t i = 0; i < x->n; i++) FN(load_bias)(a, x, i, spare + i * x->keys);
  FN(transpose)(x->n, x->keys, PANEL, (T)LOG2E, spare, x->keys, transposed, PANEL);
  for (int64_t j = 0; j < x->keys; j++)
    for (int64_t c = 0; c < x->n; c += LANES) {
      T *at = s + j * row + c;
      FN(store)(at, FN(load)(at) + FN(load)(transposed + j * PANEL + c));
    }
}


/*
** The biases by distance of a tile, or their gradients, are one line: the element keys - 1 + c - j
** belongs to key j and query c. The line begins at this element of a row of (H, T + S - 1):
*/
static int64_t FN(relative_from) (const attend *a, const tile *x) {
  return x->i - (x->j + x->keys - 1) + a->keys - 1;
}


static void FN(relative_scores) (const attend *a, const tile *x, T *s, int64_t row, T *line) {
  FN(load_relative)(a, x->h, FN(relative_from)(a, x), 1, x->keys + x->n - 1, line);
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


/* Blocked scores become -inf, NaN included. */
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

/* }================================================================== */


/*
** {==================================================================
** Rows: the scores of one query, lanes of keys
** ===================================================================
*/

/* s += both biases of query i. */
static void FN(bias_row) (const attend *a, const tile *x, int64_t i, T *s, T *spare) {
  if (!view_is_none(&a->w->in[ATTENTION_BIAS])) {
    FN(load_bias)(a, x, i, spare);
    for (int64_t j = 0; j < x->keys; j++) s[j] += spare[j] * (T)LOG2E;
  }
  if (!view_is_none(&a->w->in[ATTENTION_RELATIVE])) {
    FN(load_relative)(a, x->h, x->i + i - x->j + a->keys - 1, -1, x->keys, spare);
    for (int64_t j = 0; j < x->keys; j++) s[j] += spare[j] * (T)LOG2E;
  }
}


/* The scores of one head's queries, TILE_KEYS apart, from q k^T; -inf behind the last key, too. */
static void FN(finish_rows) (const attend *a, const tile *x, T *s, T *spare) {
  const tile_kind kind = mask_classify(a->w, x);
  uint64_t may[TILE_KEYS];
  if (kind == TILE_MIXED) mask_bits(a->w, x, may);
  for (int64_t i = 0; i < x->n; i++, s += TILE_KEYS) {
    if (a->cap != 0) FN(cap_scores)(1, x->keys, s, 0, (T)a->cap, NULL);
    FN(bias_row)(a, x, i, s, spare);
    for (int64_t j = 0; j < x->keys; j++)
      if (kind == TILE_NONE || (kind == TILE_MIXED && !(may[j] >> i & 1))) s[j] = -(T)INFINITY;
    for (int64_t j = x->keys; j < round_up(x->keys, LANES); j++) s[j] = -(T)INFINITY;
  }
}

/* }================================================================== */

#endif
