/*
** ways.c - which way products and attention take (src/cpu/product/ways.h, attention/ways.h), at the
** sizes where one ends and another begins: results alone don't show it. A level of 16-byte vectors
** (ways_wide.c: 64-byte ones) is compiled here without optimisation, and none of its loops runs.
*/

#include "cpu/level_begin.h"

#include <stdio.h>

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wunused-function"
#pragma clang diagnostic ignored "-Wpsabi"
#elif defined(__GNUC__)
#pragma GCC optimize("O0")
#pragma GCC diagnostic ignored "-Wframe-larger-than="    /* inlined calls share no variables */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16
#define LEVEL_BASE 1
#endif
#include "cpu/vector/math.h"
#include "cpu/vector/simd.h"
#include "cpu/vector/elementwise.h"
#include "cpu/product/matmul.h"
#include "cpu/attention/attention.h"

enum {
  F = VECTOR_BYTES / sizeof(float), D = VECTOR_BYTES / sizeof(double),      /* lanes */
  COLUMNS = F > 4 ? F - 4 : F - 1,                     /* that are few, for rows that are many */
  ROWS = TURNED_COLUMNS < F ? TURNED_COLUMNS : F - 1,  /* columns, at most, that become rows */
  H = 2 * F                                            /* heads */
};

static int tried, wrong;

static void check (bool good, const char *what, const char *got, const int64_t *size, int n) {
  tried++;
  if (good) return;
  wrong++;
  printf("ways: %s taken, %s expected, of", got, what);
  for (int i = 0; i < n; i++) printf(" %lld", (long long)size[i]);
  printf("\n");
}


/* Dense, but that the last two axes may lie the other way round. */
static view made (heed_type type, int rank, const int64_t *size, bool turned) {
  static double memory;
  view v = {.data = &memory, .type = type};
  layout_dense(&v.at, rank, size);
  if (!turned) return v;
  v.at.stride[rank - 2] = 1;
  v.at.stride[rank - 1] = size[rank - 2];
  return v;
}


/*
** {==================================================================
** Products
** ===================================================================
*/

enum { DOTS, NO_DEPTH, TURNED, LINES_OF_B, DIRECT, PANELS };
static const char *const product_names[] = {
  "dots", "direct without depth", "turned", "lines", "direct", "panels"
};

enum { AS_ROWS = 0, A_TURNED = 1, B_TURNED = 2, C_SPREAD = 4 };      /* C_SPREAD: rows of c */

typedef struct product_case {
  int64_t rows, depth, columns;
  int lies;
  int way;
} product_case;

#define LIMIT(bytes, columns) ((bytes) / 4 / (columns))         /* depth of b in float32 */

static const product_case products[] = {
  /* rows of both are unbroken along the depth: few rows … */
  {DOT_ROWS, F, 10, B_TURNED, DOTS}, {DOT_ROWS, F - 1, 10, B_TURNED, PANELS},
  {DOT_ROWS + 1, F, 10, B_TURNED, PANELS}, {DOT_ROWS, F, 10, B_TURNED | A_TURNED, PANELS},
  {DOT_ROWS, F, 10, AS_ROWS, DIRECT}, {DOT_ROWS, F, 2, B_TURNED, DOTS},
  {24, 256, 10, B_TURNED, DOTS}, {25, 256, 10, B_TURNED, PANELS}, {24, 255, 10, B_TURNED, PANELS},
  /* … few columns … */
  {100, 32 * COLUMNS, COLUMNS, B_TURNED, DOTS}, {100, 32 * COLUMNS - 1, COLUMNS, B_TURNED, PANELS},
  {100, 32 * (COLUMNS + 1), COLUMNS + 1, B_TURNED, PANELS},
  /* … or one, which becomes a row */
  {1, F, 1, AS_ROWS, DOTS}, {1, F - 1, 1, AS_ROWS, DIRECT}, {1, F - 1, 1, B_TURNED, DIRECT},
  {100, F, 1, AS_ROWS, DOTS}, {100, F, 1, A_TURNED, DIRECT},
  /* nothing to add up */
  {3, 0, 5, AS_ROWS, NO_DEPTH}, {100, 0, 100, B_TURNED, NO_DEPTH},
  /* few columns, of a whose columns are unbroken */
  {2 * F, 16, ROWS, A_TURNED, TURNED}, {2 * F, 15, ROWS, A_TURNED, DIRECT},
  {2 * F - 1, 16, ROWS, A_TURNED, DIRECT}, {2 * F, 16, ROWS + 1, A_TURNED, DIRECT},
  {2 * F, 16, 2, A_TURNED, TURNED}, {2 * F, 16, ROWS, AS_ROWS, DIRECT},
  {2 * F, 16, ROWS, A_TURNED | B_TURNED, TURNED},
  {2 * F, 16, 1, A_TURNED | C_SPREAD, DIRECT}, {2 * F, 16, 2, A_TURNED | C_SPREAD, TURNED},
  /* few rows of a, while b is in no near cache */
  {FEW_ROWS, LIMIT(DIRECT_BYTES, 256), 256, AS_ROWS, DIRECT},
  {FEW_ROWS, LIMIT(DIRECT_BYTES, 256) + 1, 256, AS_ROWS, LINES_OF_B},
  {FEW_ROWS + 1, LIMIT(DIRECT_BYTES, 256) + 1, 256, AS_ROWS, DIRECT},
  {FEW_ROWS, LIMIT(DIRECT_BYTES, 256) + 1, 256, B_TURNED | A_TURNED, PANELS},
  /* b in a cache, or used too seldom */
  {1000, LIMIT(DIRECT_BYTES, 256), 256, AS_ROWS, DIRECT},
  {2 * TILE_ROWS, LIMIT(DIRECT_BYTES, 256) + 1, 256, AS_ROWS, DIRECT},
  {2 * TILE_ROWS + 1, LIMIT(DIRECT_BYTES, 256) + 1, 256, AS_ROWS, PANELS},
  {2 * TILE_ROWS, LIMIT(FAR_BYTES, 4096), 4096, AS_ROWS, DIRECT},
  {2 * TILE_ROWS, LIMIT(FAR_BYTES, 4096) + 1, 4096, AS_ROWS, PANELS},
  {2 * TILE_ROWS, 100, 100, B_TURNED, PANELS},
};


static matmuls opened (work *w, const product_case *p, heed_type type, heed_type b_type) {
  const int64_t a[] = {p->rows, p->depth}, b[] = {p->depth, p->columns};
  const int64_t c[] = {p->rows, p->columns};
  view to = made(type, 2, c, false);
  if (p->lies & C_SPREAD) to.at.stride[0] = 2 * p->columns;
  work_matmul(w, 1, false, to, made(type, 2, a, p->lies & A_TURNED),
              made(b_type, 2, b, p->lies & B_TURNED), view_none());
  return matmul_open(NULL, w, type);
}


static void check_product (const product_case *p, int way) {
  const int64_t size[] = {p->rows, p->depth, p->columns, p->lies};
  check(way == p->way, product_names[p->way], product_names[way], size, 4);
}


static void float_product (const product_case *p, heed_type b_type) {
  work w;
  matmuls m = opened(&w, p, HEED_FLOAT32, b_type);
  const one_float x = one_of_float(&m, 0);
  int way = 0;
  while (!product_ways_float[way].fits(&x)) way++;
  check_product(p, way);
}


static void double_product (const product_case *p) {
  work w;
  matmuls m = opened(&w, p, HEED_FLOAT64, HEED_FLOAT64);
  const one_double x = one_of_double(&m, 0);
  int way = 0;
  while (!product_ways_double[way].fits(&x)) way++;
  check_product(p, way);
}


/* b of 16 bits is converted as it is read, by few rows; and float64 has half as many lanes. */
static void other_types (void) {
  static const product_case low[] = {
    {FEW_ROWS, 8, 8, AS_ROWS, LINES_OF_B}, {FEW_ROWS + 1, 8, 8, AS_ROWS, PANELS},
    {DOT_ROWS, F, 10, B_TURNED, DOTS},
    {2 * F, 16, ROWS, A_TURNED, 2 * F <= FEW_ROWS ? LINES_OF_B : PANELS},
    {2 * F + 1, 16, ROWS, A_TURNED, PANELS},
  };
  static const product_case doubles[] = {
    {DOT_ROWS, D, 10, B_TURNED, DOTS}, {DOT_ROWS + 1, D, 10, B_TURNED, PANELS},
    {FEW_ROWS, LIMIT(DIRECT_BYTES, 512), 256, AS_ROWS, DIRECT},
    {FEW_ROWS, LIMIT(DIRECT_BYTES, 512) + 1, 256, AS_ROWS, LINES_OF_B},
  };
  for (size_t i = 0; i < sizeof low / sizeof *low; i++) {
    float_product(&low[i], HEED_BFLOAT16);
    float_product(&low[i], HEED_FLOAT16);
  }
  for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) double_product(&doubles[i]);
}


/* Batches of one b are rows of one product, those of one a are columns. */
static void batches (void) {
  const int64_t a[] = {4, 10, 8}, b[] = {4, 8, 6}, c[] = {4, 10, 6};
  for (int shared = 0; shared < 3; shared++) {
    work w;
    view va = made(HEED_FLOAT32, 3, a, false), vb = made(HEED_FLOAT32, 3, b, false);
    if (shared == 1) vb.at.stride[0] = 0;
    if (shared == 2) va.at.stride[0] = 0;
    work_matmul(&w, 1, false, made(HEED_FLOAT32, 3, c, false), va, vb, view_none());
    const matmuls m = matmul_open(NULL, &w, HEED_FLOAT32);
    const int64_t got[] = {m.batches, m.rows, m.b_rows, m.columns};
    check(m.batches == (shared == 1 ? 1 : 4) && m.rows == (shared == 1 ? 40 : 10) &&
          m.b_rows == m.rows && m.columns == 6, "merged batches", "others", got, 4);
  }
}

/* The products of a batch that are small, and how many of them are a piece for four threads. */
static void pieces (void) {
  static const struct {
    int64_t batches, rows, depth, columns;
    bool small;
    int64_t piece;
  } of[] = {
    {9, 64, 64, 31, true, 4}, {9, 64, 64, 32, false, 4}, {9, 64, 31, 64, true, 4},
    {9, 4, BLOCK_DEPTH, 4, true, PIECE_FLOPS / (32 * BLOCK_DEPTH + 100) + 1},
    {9, 4, BLOCK_DEPTH + 1, 4, false, PIECE_FLOPS / (32 * (BLOCK_DEPTH + 1) + 100) + 1},
    {9, 10, 10, 10, true, 477}, {9, 4, 0, 4, true, 10001},
    {15, 100, 200, 100, false, 1}, {15, 100, 200, 101, false, 15}, {16, 100, 200, 101, false, 1},
  };
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    const matmuls m = {.batches = of[i].batches, .rows = of[i].rows, .depth = of[i].depth,
                       .columns = of[i].columns};
    const int64_t got[] = {m.batches, m.rows, m.depth, m.columns, products_of_piece_float(&m, 4)};
    check(is_small_float(&m) == of[i].small, "a small product or none", "the other", got, 4);
    check(got[4] == of[i].piece, "a piece", "another", got, 5);
  }
}

/* }================================================================== */


/*
** {==================================================================
** Attention
** ===================================================================
*/

enum { HEADS, FEW, ANY };
static const char *const attention_names[] = {"a lane for each head", "few queries", "tiles"};

enum { PLAIN, BIASED, CAPPED, DROPPED, HALF_Q, HALF, HALF_V, HALF_OUT, HALF_GRADIENT, MASKED };

typedef struct attention_case {
  int64_t heads, kv_heads, queries, keys, D;
  int what;
  int way, back;                   /* of the result; of gradients, HEADS or ANY */
} attention_case;

static const attention_case cases[] = {
  /* lanes are heads where they fill more than half of them */
  {F / 2 + 1, F / 2 + 1, 5, 5, 4, PLAIN, HEADS, HEADS}, {F / 2, F / 2, 5, 5, 4, PLAIN, ANY, ANY},
  {F / 2, F / 2, FEW_QUERIES, 5, 4, PLAIN, HEADS, ANY},
  {F / 2, F / 2, FEW_QUERIES + 1, 5, 4, PLAIN, ANY, ANY}, {1, 1, 1, 5, 4, PLAIN, HEADS, ANY},
  /* and where the heads are small */
  {H, H, HEADS_QUERIES, TILE_KEYS, 4, PLAIN, HEADS, HEADS},
  {H, H, HEADS_QUERIES, TILE_KEYS, 5, PLAIN, ANY, ANY},
  {H, H, HEADS_QUERIES + 1, 15, 4, PLAIN, ANY, ANY},
  {H, H, HEADS_QUERIES - 1, TILE_KEYS + 1, 4, PLAIN, ANY, ANY},
  {H, H, 3, TILE_KEYS, 4, PLAIN, HEADS, HEADS},
  {H, H, 3, TILE_KEYS + 1, 4, PLAIN, FEW, ANY},
  /* and where nothing but masks comes in */
  {H, F, 5, 5, 4, PLAIN, ANY, ANY}, {H, F, 4, 5, 4, PLAIN, FEW, ANY},
  {H, H, 5, 5, 4, BIASED, ANY, ANY}, {H, H, 4, 5, 4, BIASED, FEW, ANY},
  {H, H, 5, 5, 4, CAPPED, ANY, ANY}, {H, H, 4, 5, 4, CAPPED, FEW, ANY},
  {H, H, 5, 5, 4, DROPPED, ANY, ANY}, {H, H, 4, 5, 4, DROPPED, ANY, ANY},
  {H, H, 5, 5, 4, HALF_Q, ANY, ANY}, {H, H, 5, 5, 4, HALF, ANY, ANY},
  {H, H, 4, 5, 4, HALF, FEW, ANY},
  {H, H, 5, 5, 4, HALF_V, ANY, ANY}, {H, H, 5, 5, 4, HALF_OUT, ANY, ANY},
  {H, H, 5, 5, 4, HALF_GRADIENT, HEADS, ANY}, {H, H, 5, 5, 4, MASKED, HEADS, HEADS},
  /* and where there is something to do */
  {H, H, 5, 0, 4, PLAIN, ANY, ANY}, {H, H, 0, 5, 4, PLAIN, FEW, ANY},
  {0, 0, 5, 5, 4, PLAIN, ANY, ANY}, {0, 0, 4, 5, 4, PLAIN, FEW, ANY},
  /* lanes are keys of few queries */
  {1, 1, FEW_QUERIES, 1000, 64, PLAIN, FEW, ANY},
  {1, 1, FEW_QUERIES + 1, 1000, 64, PLAIN, ANY, ANY},
};


static work work_of (const attention_case *a, work_kind kind) {
  static uint64_t key = 1;
  const int64_t q[] = {1, a->heads, a->queries, a->D}, k[] = {1, a->kv_heads, a->keys, a->D};
  const int64_t y[] = {1, a->heads, a->queries, a->D}, bias[] = {1, a->heads, a->queries, a->keys};
  work w;
  memset(&w, 0, sizeof w);
  work_attention(&w, kind, 1, a->what == CAPPED ? 2 : 0, a->what == DROPPED ? 0.5 : 0);
  for (int i = 0; i < w.nin; i++) w.in[i] = view_none();
  for (int i = 0; i < w.nout; i++) w.out[i] = view_none();
  w.in[ATTENTION_Q] = made(a->what == HALF_Q ? HEED_BFLOAT16 : HEED_FLOAT32, 4, q, false);
  w.in[ATTENTION_K] = made(a->what == HALF ? HEED_BFLOAT16 : HEED_FLOAT32, 4, k, false);
  w.in[ATTENTION_V] = made(a->what == HALF_V ? HEED_BFLOAT16 : HEED_FLOAT32, 4, k, false);
  if (a->what == BIASED) w.in[ATTENTION_BIAS] = made(HEED_FLOAT32, 4, bias, false);
  if (a->what == MASKED) w.in[ATTENTION_MASK] = made(HEED_INT64, 1, q, false);
  if (a->what == HALF_GRADIENT && kind == WORK_ATTENTION_BACK)
    w.in[ATTENTION_GRADIENT] = made(HEED_BFLOAT16, 4, y, false);
  w.in[ATTENTION_KEY].data = &key;
  w.out[0] = made(a->what == HALF_OUT ? HEED_BFLOAT16 : HEED_FLOAT32, 4, y, false);
  return w;
}


static void attention_case_of (const attention_case *c, work_kind kind) {
  const bool forward = kind == WORK_ATTENTION;
  const attend_way *ways = forward ? attention_ways_float : attention_back_ways_float;
  const work w = work_of(c, kind);
  const attend a = attend_open(NULL, &w);
  const int64_t size[] = {c->heads, c->kv_heads, c->queries, c->keys, c->D, c->what, forward};
  const int wanted = forward ? c->way : c->back;
  int way = 0;
  while (!ways[way].fits(&a)) way++;
  if (!forward && way > 0) way = ANY;
  check(way == wanted, attention_names[wanted], attention_names[way], size, 7);
}

/* }================================================================== */


int main (void) {
  for (size_t i = 0; i < sizeof products / sizeof *products; i++)
    float_product(&products[i], HEED_FLOAT32);
  other_types();
  batches();
  pieces();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    attention_case_of(&cases[i], WORK_ATTENTION);
    attention_case_of(&cases[i], WORK_ATTENTION_BACK);
  }
  printf("ways: %d cases, %d wrong\n", tried, wrong);
  return wrong > 0;
}
