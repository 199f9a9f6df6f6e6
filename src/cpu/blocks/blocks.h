/*
** blocks.h - work on types of blocks: their values, and products with rows of them.
**
** A row of y is computed in one order of additions, whatever rows stand beside it and however many
** threads there are.
*/

#ifndef blocks_h
#define blocks_h

#include "cpu/blocks/decode.h"
#include "cpu/blocks/maddubs.h"
#include "cpu/blocks/round.h"
#include "cpu/blocks/vnni_many.h"


/*
** {==================================================================
** Values
** ===================================================================
*/

typedef struct unpacking {
  cpu *self;
  const view *to, *from;
  int row;                         /* their axis of rows */
} unpacking;


static void unpack_rows (void *arg, int64_t first, int64_t end) {
  const unpacking *u = arg;
  const view *to = u->to, *from = u->from;
  const decoder *d = &decoders[from->type];
  const int64_t n = from->at.size[u->row], stride = to->at.stride[u->row];
  float values[SPAN];
  for (int64_t i = first; i < end; i++) {
    const uint8_t *x = (const uint8_t *)view_row(from, u->row, i);
    char *y = view_row(to, u->row, i);
    if (cpu_stops(u->self, i - first, n)) return;
    for (int64_t k = 0; k < n; k += SPAN) {
      const int now = (int)smaller(n - k, SPAN);
      decode_values(d, x + scalar_bytes(from->type, k), now, values);
      elementwise_store(now, to->type, y + k * stride * scalar_sizes[to->type], stride,
                        HEED_FLOAT32, values);
    }
  }
}


static const char *blocks_unpack (cpu *self, const work *w) {
  const view *from = &w->in[0];
  const int row = layout_block_axis(&from->at, scalar_blocks[from->type].elements);
  if (layout_numel(&from->at) == 0) return NULL;
  const int64_t n = from->at.size[row], rows = layout_numel(&from->at) / n;
  unpacking u = {self, &w->out[0], from, row};
  pool_run(self->pool, rows, 32768 / n + 1, unpack_rows, &u);
  return NULL;
}

/* }================================================================== */


/*
** {==================================================================
** Products with values
** ===================================================================
*/

#define SPAN_ROWS (BLOCK_LANES == 8 ? 4 : 8)   /* rows of x that a decoded span serves */
#define SUM_ROWS (BLOCK_LANES == 16 ? 4 : 2)   /* of y, whose sums stay in registers */
#define SUM_COLUMNS (BLOCK_LANES == 16 ? 3 : 2)
#define SUM_NEAR (1 << 14)                     /* bytes that stay in the nearest cache */
#define SUM_WIDE (1 << 18)                     /* of values of w that stay in the next one */
#define STOP_PRODUCTS (1 << 20)                /* products between two questions whether to stop */
#define SUM_STOPS 1024                         /* rows of x between two questions whether to stop */

/* Rows (M, K): element k is q[k] * scale[k / 32]; sum[k / 16] is that of 16 of them. */
typedef struct rounded {
  float *scale, *sum;
  int8_t *q;
} rounded;


typedef struct block_product {
  cpu *self;
  const decoder *decode;
  heed_type type;
  const float *x, *bias;           /* bias: NULL, or (N) */
  const char *w;
  float *y;
  rounded rounded;                 /* x, where it was rounded */
  int64_t m, n, k;                 /* y (m, n) = x (m, k) w (n, k)^T, or y (m, k) = x (m, n) w */
  int64_t x_row, y_row, w_row;     /* between rows, of w in bytes */
  int64_t w_span;                  /* bytes of SPAN elements */
  packed_copy *packed;             /* of w, where a copy is kept; or NULL */
  bool failed;                     /* a thread got no memory */
} block_product;


INLINED float end_sum (const block_product *p, block_lanes first, block_lanes second, int64_t n) {
  return block_sum(first + second) + (p->bias != NULL ? p->bias[n] : 0);
}


/* SPAN elements of w, from element k of a row on; what is read a little later is fetched. */
INLINED void decode_span (const block_product *p, const uint8_t *row, int64_t k, int now, span *s) {
  const uint8_t *at = row + k / SPAN * p->w_span;
  fetch_far(at + BYTES_AHEAD, p->w_span);
  p->decode->decode(at, now, s);
}


/*
** The product of a row of w and the one row of x. Groups take turns between two sums, since an
** addition waits for the one before.
*/
static void block_dot (const block_product *p, int64_t n) {
  const uint8_t *w = (const uint8_t *)p->w + n * p->w_row;
  block_lanes sum[2] = {{0}};
  span s;
  for (int64_t k = 0; k < p->k; k += SPAN) {
    const int now = (int)smaller(p->k - k, SPAN);
    decode_span(p, w, k, now, &s);
    for (int g = 0; g < now / DECODE_GROUP; g += 2)
      UNROLL for (int half = 0; half < 2; half++) {
        block_lanes v[GROUP_VECTORS];
        group_values(p->decode, &s, g + half, v);
        UNROLL for (int i = 0; i < GROUP_VECTORS; i++)
          sum[half] += v[i] * block_load(p->x + k + (g + half) * DECODE_GROUP + i * BLOCK_LANES);
      }
  }
  p->y[n] = end_sum(p, sum[0], sum[1], n);
}


static void dot_piece (void *arg, int64_t first, int64_t end) {
  const block_product *p = arg;
  for (int64_t n = first; n < end && !cpu_stops(p->self, n - first, p->k); n++) block_dot(p, n);
}


/* A tile of y, from row m and column n on, by the same sums: values of these rows of w. */
INLINED void tile_dots (const block_product *p, const float *values, int64_t m, int64_t n,
                        const int rows, const int columns) {
  const float *x = p->x + m * p->x_row;
  block_lanes sum[SUM_ROWS][SUM_COLUMNS][2] = {{{{0}}}};
  for (int64_t k = 0; k < p->k; k += 2 * DECODE_GROUP)
    UNROLL for (int half = 0; half < 2; half++)
      UNROLL for (int i = 0; i < GROUP_VECTORS; i++) {
        const int64_t at = k + half * DECODE_GROUP + i * BLOCK_LANES;
        block_lanes v[SUM_COLUMNS];
        UNROLL for (int c = 0; c < columns; c++) v[c] = block_load(values + c * p->k + at);
        UNROLL for (int r = 0; r < rows; r++) {
          const block_lanes each = block_load(x + r * p->x_row + at);
          UNROLL for (int c = 0; c < columns; c++) sum[r][c][half] += v[c] * each;
        }
      }
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int c = 0; c < columns; c++)
      p->y[(m + r) * p->y_row + n + c] = end_sum(p, sum[r][c][0], sum[r][c][1], n + c);
}


/* Rows from .. to - 1 of these columns. */
INLINED void tile_rows (const block_product *p, const float *values, int64_t from, int64_t to,
                        int64_t n, const int columns) {
  int64_t m = from;
  for (; m + SUM_ROWS <= to; m += SUM_ROWS) tile_dots(p, values, m, n, SUM_ROWS, columns);
  for (; m < to; m++) tile_dots(p, values, m, n, 1, columns);
}


/* Columns from n on, whose rows of w became values once for all rows of x. */
static void tile_columns (const block_product *p, const float *values, int64_t n, int64_t columns) {
  const int64_t near = SUM_ROWS * (SUM_NEAR / (SUM_ROWS * p->k * (int64_t)sizeof(float)) + 1);
  for (int64_t m = 0; m < p->m && !cpu_stopped(p->self); m += near) {
    const int64_t to = smaller(m + near, p->m);
    int64_t c = 0;
    for (; c + SUM_COLUMNS <= columns; c += SUM_COLUMNS)
      tile_rows(p, values + c * p->k, m, to, n + c, SUM_COLUMNS);
    for (; c < columns; c++) tile_rows(p, values + c * p->k, m, to, n + c, 1);
  }
}


/* Scratch where vectors are aligned, from *whole, which is freed; NULL marks the failure. */
static void *aligned_scratch (block_product *p, size_t bytes, void **whole) {
  char *at = *whole = cpu_scratch(p->self, bytes + VECTOR_BYTES);
  if (at == NULL) __atomic_store_n(&p->failed, true, __ATOMIC_RELAXED);
  return at != NULL ? at + -(uintptr_t)at % VECTOR_BYTES : NULL;
}


static void tile_piece (void *arg, int64_t first, int64_t end) {
  block_product *p = arg;
  const int64_t wide = SUM_COLUMNS * (SUM_WIDE / (SUM_COLUMNS * p->k * (int64_t)sizeof(float)) + 1);
  const int64_t most = smaller(end - first, wide);
  void *scratch;
  float *values = aligned_scratch(p, (size_t)(most * p->k) * sizeof *values, &scratch);
  for (int64_t n = first; values != NULL && n < end && !cpu_stopped(p->self); n += wide) {
    const int64_t columns = smaller(end - n, wide);
    for (int64_t c = 0; c < columns; c++)
      for (int64_t k = 0; k < p->k; k += SPAN)
        decode_values(p->decode, (const uint8_t *)p->w + (n + c) * p->w_row + k / SPAN * p->w_span,
                      (int)smaller(p->k - k, SPAN), values + c * p->k + k);
    tile_columns(p, values, n, columns);
  }
  cpu_scratch_free(scratch);
}


/* Columns of y from k on, of 'rows' rows from m on. */
INLINED void back_columns (const block_product *p, int64_t k, int64_t m, const int rows) {
  const int now = (int)smaller(p->k - k, SPAN);
  const uint8_t *w = (const uint8_t *)p->w + scalar_bytes(p->type, k);
  float sum[SPAN_ROWS][SPAN] = {{0}}, values[SPAN];
  for (int64_t n = 0; n < p->n && !cpu_stops(p->self, n, SPAN * SPAN_ROWS); n++) {
    decode_values(p->decode, w + n * p->w_row, now, values);
    for (int r = 0; r < rows; r++) {
      const float g = p->x[(m + r) * p->x_row + n];
      VECTOR_LOOP for (int i = 0; i < now; i++) sum[r][i] += g * values[i];
    }
  }
  for (int r = 0; r < rows; r++)
    memcpy(p->y + (m + r) * p->y_row + k, sum[r], (size_t)now * sizeof **sum);
}


/* Spans of columns. */
static void back_piece (void *arg, int64_t first, int64_t end) {
  const block_product *p = arg;
  for (int64_t k = first * SPAN; k < end * SPAN && k < p->k; k += SPAN) {
    int64_t m = 0;
    for (; m + SPAN_ROWS <= p->m; m += SPAN_ROWS) back_columns(p, k, m, SPAN_ROWS);
    for (; m < p->m; m++) back_columns(p, k, m, 1);
  }
}


#if defined(HAS_VNNI)

typedef struct vnni_product {
  block_product *p;
  const vnni_type *type;
  rounded_span *x;
  int64_t tile;                    /* of rows of x */
  int64_t kept_panel;              /* bytes */
  uint8_t *kept;                   /* all panels; or NULL */
} vnni_product;


/* The last row fills the last tile. */
static void vnni_round_piece (void *arg, int64_t first, int64_t end) {
  const vnni_product *v = arg;
  const block_product *p = v->p;
  const bool few = p->m < VNNI_MANY && v->kept == NULL;
  const quant_order order = few ? v->type->order : QUANTS_PLAIN;
  for (int64_t r = first; r < end; r++)
    vnni_round(v->x + vnni_place(r, p->k, v->tile), vnni_tile_rows(p->m, r, v->tile),
               p->x + smaller(r, p->m - 1) * p->x_row, p->k, v->type->zero, v->type->wide.group,
               order);
}


/* Bytes are multiplied as fast as memory gives them, and quants of fewer bits more slowly. */
static void vnni_row_piece (void *arg, int64_t first, int64_t end) {
  const vnni_product *v = arg;
  const block_product *p = v->p;
  const bool soon = p->type == HEED_Q8_0 && p->self->reads_alone;
  const int64_t some = STOP_PRODUCTS / (p->k * p->m) + 1;
  for (int64_t n = first; n < end && !cpu_stopped(p->self); n += some) {
    const product_rows at = {.w = (const uint8_t *)p->w + n * p->w_row, .w_row = p->w_row,
                             .n = smaller(some, end - n), .soon = soon, .y = p->y + n,
                             .bias = p->bias != NULL ? p->bias + n : NULL};
    v->type->products(&at, v->x, p->k, p->m, p->y_row);
  }
}


/* The columns of y from those of panel number i on. */
static vnni_columns vnni_columns_at (const block_product *p, int64_t i, const uint8_t *panel) {
  const int64_t n = i * VNNI_COLUMNS;
  return (vnni_columns){.w = panel, .k = p->k, .n = p->n - n, .y_row = p->y_row, .y = p->y + n,
                        .bias = p->bias != NULL ? p->bias + n : NULL};
}


/* Wide panels, which are made as they are used. */
static void vnni_piece (void *arg, int64_t first, int64_t end) {
  const vnni_product *v = arg;
  const vnni_type *t = v->type;
  block_product *p = v->p;
  const uint8_t *from = v->kept != NULL ? v->kept : (const uint8_t *)p->w;
  const int64_t bytes = v->kept != NULL ? v->kept_panel : VNNI_COLUMNS * p->w_row;
  void *scratch;
  uint8_t *panel = aligned_scratch(p, (size_t)panel_bytes(t->wide, p->k), &scratch);
  for (int64_t i = first; panel != NULL && i < end && !cpu_stopped(p->self); i++) {
    const uint8_t *at = from + i * bytes;
    vnni_columns c = vnni_columns_at(p, i, panel);
    if (v->kept != NULL) t->widen(at, p->k, panel);
    else pack_wide(panel, t->wide, t->load_rows, t->elements, at, p->w_row, p->w_span, p->k,
                   smaller(c.n, VNNI_COLUMNS));
    c.ahead = at + bytes;
    vnni_look_ahead(&c, t->wide.group, bytes, p->m, v->tile);
    for (int64_t m = 0; m < p->m && !cpu_stopped(p->self); m += SUM_STOPS)
      vnni_multiply(t, &c, v->x, m, smaller(m + SUM_STOPS, p->m));
  }
  cpu_scratch_free(scratch);
}


/* Kept panels, as they lie. CPUs that read alone fetch nothing for a single tile of rows of x. */
static void vnni_kept_piece (void *arg, int64_t first, int64_t end) {
  const vnni_product *v = arg;
  const block_product *p = v->p;
  const bool fetches = p->m > v->tile || !p->self->reads_alone;
  const int64_t some = STOP_PRODUCTS / (p->k * VNNI_COLUMNS * p->m) + 1;
  for (int64_t i = first; i < end && !cpu_stopped(p->self); i += some) {
    vnni_columns c = vnni_columns_at(p, i, v->kept + i * v->kept_panel);
    if (fetches)
      vnni_look_ahead(&c, v->type->kept.group, v->kept_panel, smaller(p->m, SUM_STOPS), v->tile);
    for (int64_t m = 0; m < p->m && !cpu_stopped(p->self); m += SUM_STOPS)
      v->type->multiply(&c, v->x, m, smaller(m + SUM_STOPS, p->m), v->tile,
                        smaller(some, end - i));
  }
}


static void vnni_keep_piece (void *arg, int64_t first, int64_t end) {
  const vnni_product *v = arg;
  const block_product *p = v->p;
  for (int64_t i = first; i < end && !cpu_stopped(p->self); i++) {
    const int64_t n = i * VNNI_COLUMNS;
    v->type->keep(v->kept + i * v->kept_panel, (const uint8_t *)p->w + n * p->w_row, p->w_row,
                  p->w_span, p->k, smaller(p->n - n, VNNI_COLUMNS));
  }
}


/* All panels of w, packed now or before, if they are kept. */
static void vnni_keep (vnni_product *v) {
  const block_product *p = v->p;
  const int64_t panels = (p->n + VNNI_COLUMNS - 1) / VNNI_COLUMNS;
  if (p->packed == NULL || p->w_row != scalar_bytes(p->type, p->k)) return;
  const packed_key key = {p->w, v->type, p->k, p->n, p->w_span};
  v->kept = packed_data(p->packed, &key);
  if (v->kept != NULL) return;
  v->kept = packed_renew(p->packed, &key, (size_t)(panels * v->kept_panel));
  if (v->kept == NULL) return;
  pool_run(p->self->pool, panels, 65536 / (p->k * VNNI_COLUMNS) + 1, vnni_keep_piece, v);
  if (cpu_stopped(p->self)) v->kept = NULL;
  else packed_done(p->packed, &key);
}


static const char *vnni_run (block_product *p) {
  const int64_t rows = vnni_padded(p->m), n = rows * spans_of(p->k);
  const int64_t panels = (p->n + VNNI_COLUMNS - 1) / VNNI_COLUMNS;
  _Alignas(VECTOR_BYTES) rounded_span few[8];      /* one row, most often: memory takes its time */
  void *scratch = NULL;
  rounded_span *x = n <= 8 ? few : aligned_scratch(p, (size_t)n * sizeof *x, &scratch);
  if (x == NULL) return cpu_no_memory;
  const vnni_type *t = &vnni_types[p->type];
  vnni_product v = {.p = p, .type = t, .x = x, .kept_panel = panel_bytes(t->kept, p->k)};
  vnni_keep(&v);
  v.tile = vnni_tile_of(t, p->m, v.kept != NULL);
  pool_run(p->self->pool, rows, 16384 / p->k + 1, vnni_round_piece, &v);
  if (v.kept != NULL && vnni_is_direct(t, p->m))
    pool_run(p->self->pool, panels, 65536 / (p->k * VNNI_COLUMNS * p->m) + 2, vnni_kept_piece, &v);
  else if (p->m >= VNNI_MANY) pool_run(p->self->pool, panels, 2, vnni_piece, &v);
  else pool_run(p->self->pool, p->n, 65536 / (p->k * p->m) + 1, vnni_row_piece, &v);
  cpu_scratch_free(scratch);
  return p->failed ? cpu_no_memory : NULL;
}

#endif


#if defined(HAS_MADDUBS)

typedef struct maddubs_product {
  block_product *p;
  const maddubs_type *type;
  rounded_span *x;
} maddubs_product;


static void round_piece (void *arg, int64_t first, int64_t end) {
  const maddubs_product *v = arg;
  const block_product *p = v->p;
  for (int64_t m = first; m < end; m++)
    round_spans(v->x + m * spans_of(p->k), p->x + m * p->x_row, p->k, v->type->group, v->type->up);
}


/* Some rows of w, of at most a byte an element or little more, stay in the nearest cache. */
static void rounded_piece (void *arg, int64_t first, int64_t end) {
  const maddubs_product *v = arg;
  const block_product *p = v->p;
  const bool soon = p->type == HEED_Q8_0 && p->self->reads_alone;
  const int64_t some = SUM_NEAR / p->k + 1;
  for (int64_t n = first; n < end; n += some) {
    product_rows at = {.w = (const uint8_t *)p->w + n * p->w_row, .w_row = p->w_row,
                       .n = smaller(some, end - n), .soon = soon,
                       .bias = p->bias != NULL ? p->bias + n : NULL};
    for (int64_t m = 0; m < p->m && !cpu_stopped(p->self); m += SUM_STOPS) {
      at.y = p->y + m * p->y_row + n;
      v->type->products(&at, v->x + m * spans_of(p->k), p->k, smaller(p->m - m, SUM_STOPS),
                        p->y_row);
    }
  }
}


static const char *run_rounded (block_product *p) {
  _Alignas(VECTOR_BYTES) rounded_span few[8];      /* one row, most often: memory takes its time */
  const int64_t n = p->m * spans_of(p->k);
  void *scratch = NULL;
  rounded_span *x = n <= 8 ? few : aligned_scratch(p, (size_t)n * sizeof *x, &scratch);
  if (x == NULL) return cpu_no_memory;
  maddubs_product v = {.p = p, .type = &maddubs_types[p->type], .x = x};
  pool_run(p->self->pool, p->m, 16384 / p->k + 1, round_piece, &v);
  pool_run(p->self->pool, p->n, 65536 / (p->k * p->m) + 1, rounded_piece, &v);
  cpu_scratch_free(scratch);
  return NULL;
}

#else

/* Products of the quants of a ROUND_GROUP, in lanes: the first half has those of 16. */
INLINED block_lanes group_dot (const int8_t *w, const int8_t *q) {
  enum { EACH = ROUND_GROUP / BLOCK_LANES };
  block_lanes y;
  for (int l = 0; l < BLOCK_LANES; l++) {
    int sum = 0;
    for (int i = 0; i < EACH; i++) sum += w[l * EACH + i] * q[l * EACH + i];
    y[l] = (float)sum;
  }
  return y;
}

/* The scales of both halves, in these lanes. */
INLINED block_lanes group_scale (float first, float second) {
  block_lanes v;
  for (int l = 0; l < BLOCK_LANES; l++) v[l] = l < BLOCK_LANES / 2 ? first : second;
  return v;
}


static void round_row (const rounded *to, const float *x, int64_t row, int64_t k) {
  int8_t *q = to->q + row * k;
  float *scale = to->scale + row * k / ROUND_GROUP, *sum = to->sum + row * k / DECODE_GROUP;
  for (int64_t g = 0; g < k / ROUND_GROUP; g++, x += ROUND_GROUP, q += ROUND_GROUP) {
    int32_t sums[2];
    scale[g] = round_group(x, q, sums);
    sum[2 * g] = scale[g] * (float)sums[0];
    sum[2 * g + 1] = scale[g] * (float)sums[1];
  }
}


/* Quants of a row of w with those of 'rows' rows of x, which were rounded, from row m on. */
INLINED void rounded_dots (const block_product *p, int64_t n, int64_t m, const int rows) {
  const uint8_t *w = (const uint8_t *)p->w + n * p->w_row;
  block_lanes sum[SPAN_ROWS] = {{0}}, rest[SPAN_ROWS] = {{0}};
  span s;
  for (int64_t k = 0; k < p->k; k += SPAN) {
    const int now = (int)smaller(p->k - k, SPAN);
    decode_span(p, w, k, now, &s);
    for (int g = 0; g < now / ROUND_GROUP; g++) {
      const int8_t *v = s.q + g * ROUND_GROUP;
      const block_lanes scale = group_scale(s.scale[2 * g], s.scale[2 * g + 1]);
      UNROLL for (int r = 0; r < rows; r++) {
        const int8_t *q = p->rounded.q + (m + r) * p->k + k + g * ROUND_GROUP;
        const float each = p->rounded.scale[((m + r) * p->k + k) / ROUND_GROUP + g];
        sum[r] += group_dot(v, q) * (scale * each);
      }
    }
    for (int r = 0; p->decode->least && r < rows; r++) {
      const float *sums = p->rounded.sum + ((m + r) * p->k + k) / DECODE_GROUP;
      for (int i = 0; i < now / DECODE_GROUP; i += 4)
        for (int l = 0; l < 4 && i + l < now / DECODE_GROUP; l++)
          rest[r][l] += s.least[i + l] * sums[i + l];
    }
  }
  for (int r = 0; r < rows; r++)
    p->y[(m + r) * p->y_row + n] = block_sum(sum[r]) + block_sum(rest[r])
                                   + (p->bias != NULL ? p->bias[n] : 0);
}


/* The rows of x that are read stay in the nearest cache. */
static void rounded_piece (void *arg, int64_t first, int64_t end) {
  const block_product *p = arg;
  int64_t m = 0;
  for (; m + SPAN_ROWS <= p->m; m += SPAN_ROWS)
    for (int64_t n = first; n < end && !cpu_stops(p->self, n - first, p->k * SPAN_ROWS); n++)
      rounded_dots(p, n, m, SPAN_ROWS);
  for (; m < p->m; m++)
    for (int64_t n = first; n < end && !cpu_stops(p->self, n - first, p->k); n++)
      rounded_dots(p, n, m, 1);
}


static void round_piece (void *arg, int64_t first, int64_t end) {
  const block_product *p = arg;
  for (int64_t m = first; m < end; m++) round_row(&p->rounded, p->x + m * p->x_row, m, p->k);
}


static const char *run_rounded (block_product *p) {
  const size_t n = (size_t)(p->m * p->k);
  const size_t scales = n / ROUND_GROUP, sums = n / DECODE_GROUP;
  float *scratch = cpu_scratch(p->self, (scales + sums) * sizeof(float) + n);
  if (scratch == NULL) return cpu_no_memory;
  p->rounded = (rounded){scratch, scratch + scales, (int8_t *)(scratch + scales + sums)};
  pool_run(p->self->pool, p->m, 16384 / p->k + 1, round_piece, p);
  pool_run(p->self->pool, p->n, 65536 / (p->k * p->m) + 8, rounded_piece, p);
  cpu_scratch_free(scratch);
  return NULL;
}

#endif


static const char *rounded_product (block_product *p) {
#if defined(HAS_VNNI)
  if (has_vnni()) return vnni_run(p);
#endif
  return run_rounded(p);
}


static const char *blocks_product (cpu *self, const work *w) {
  const view *x = &w->in[BLOCKS_X], *weight = &w->in[BLOCKS_WEIGHT], *y = &w->out[0];
  block_product p = {
    .self = self, .decode = &decoders[weight->type], .type = weight->type, .x = x->data,
    .bias = view_is_none(&w->in[BLOCKS_BIAS]) ? NULL : w->in[BLOCKS_BIAS].data,
    .w = weight->data, .y = y->data, .m = y->at.size[0], .n = weight->at.size[0],
    .k = weight->at.size[1], .x_row = x->at.stride[0], .y_row = y->at.stride[0],
    .w_row = scalar_bytes(weight->type, weight->at.stride[0]),
    .w_span = scalar_bytes(weight->type, SPAN), .packed = w->blocks.packed
  };
  if (w->op == BLOCKS_ROUNDED) return rounded_product(&p);
  if (w->op == BLOCKS_PRODUCT && p.m == 1)
    pool_run(self->pool, p.n, 65536 / p.k + 1, dot_piece, &p);
  else if (w->op == BLOCKS_PRODUCT)
    pool_run(self->pool, p.n, larger(8 * SUM_COLUMNS, 65536 / (p.k * p.m)), tile_piece, &p);
  else pool_run(self->pool, (p.k + SPAN - 1) / SPAN, 1, back_piece, &p);
  return p.failed ? cpu_no_memory : NULL;
}

/* }================================================================== */


static const char *blocks (cpu *self, const work *w) {
  return w->op == BLOCKS_UNPACK ? blocks_unpack(self, w) : blocks_product(self, w);
}

#endif
