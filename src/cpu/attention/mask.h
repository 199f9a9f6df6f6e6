/*
** mask.h - who may attend, by tiles: queries i .. i + n - 1 (one for each lane), keys
** j .. j + keys - 1.
**
** The mask is a tree in postfix order, which three functions ask, each with a stack of its own:
** mask_keys, which keys some queries may have at all; mask_classify, what of a tile there is;
** mask_bits, who may attend within one. For each LEAF of op/masks.def stand here the three
** functions that they call: keys_of_, tile_of_ and bits_of_, with its name.
*/

#ifndef mask_h
#define mask_h

#include "cpu/vector/simd.h"

#define TILE_KEYS 64               /* of a tile; with their k or v they stay in the nearest cache */
#define MASK_DEPTH (MASK_NODES / 2)            /* most operands that wait for an AND or an OR */

typedef enum tile_kind { TILE_NONE, TILE_ALL, TILE_MIXED } tile_kind;   /* of its keys */

typedef struct tile {
  int64_t b, h, i, n, j, keys;
} tile;

typedef struct key_range { int64_t from, to; } key_range;               /* keys from .. to - 1 */


static int64_t floor_quotient (int64_t a, int64_t n) { return a / n - (a % n < 0); }

static int64_t floor_remainder (int64_t a, int64_t n) { return a - floor_quotient(a, n) * n; }


static int64_t mask_length (const work *w, int operand, int64_t b) {
  const view *v = &w->in[operand];
  return larger(((const int64_t *)v->data)[b * v->at.stride[0]], 0);
}


static int64_t mask_document (const work *w, int operand, int64_t b, int64_t j) {
  const view *v = &w->in[operand];
  return ((const int64_t *)v->data)[b * v->at.stride[0] + j * v->at.stride[1]];
}


/*
** {==================================================================
** The keys that queries i .. i_end - 1 may have
** ===================================================================
*/

typedef struct query_range { int64_t b, from, to; } query_range;        /* from .. to - 1 */

static key_range keys_of_dense (const work *w, const mask_node *m, query_range i) {
  (void)m; (void)i;
  return (key_range){0, w->in[ATTENTION_K].at.size[2]};
}


static key_range keys_of_band (const work *w, const mask_node *m, query_range i) {
  (void)w;
  return (key_range){i.from + m->low, i.to + m->high};
}


static key_range keys_of_lengths (const work *w, const mask_node *m, query_range i) {
  return (key_range){0, mask_length(w, m->operand, i.b)};
}


static key_range keys_of_documents (const work *w, const mask_node *m, query_range i) {
  return keys_of_dense(w, m, i);
}


static key_range keys_of_blocks (const work *w, const mask_node *m, query_range i) {
  (void)w;
  return (key_range){(floor_quotient(i.from + m->offset, m->size) + m->low) * m->size,
                     (floor_quotient(i.to - 1 + m->offset, m->size) + m->high + 1) * m->size};
}


static key_range keys_of_every (const work *w, const mask_node *m, query_range i) {
  return keys_of_dense(w, m, i);
}


static key_range both_ranges (key_range a, key_range b) {
  return (key_range){larger(a.from, b.from), smaller(a.to, b.to)};
}


static key_range either_range (key_range a, key_range b) {
  if (a.from >= a.to) return b;
  if (b.from >= b.to) return a;
  return (key_range){smaller(a.from, b.from), larger(a.to, b.to)};
}


/* The range from the first of these keys to the last; keys between them may be blocked. */
static key_range mask_keys (const work *w, int64_t b, int64_t i, int64_t i_end, int64_t keys) {
  const key_range all = {0, keys};
  const query_range queries = {b, i, i_end};
  const mask *m = &w->attention.mask;
  key_range stack[MASK_DEPTH + 1] = {all};
  int n = 0;
  for (const mask_node *node = m->node; node < m->node + m->n; node++)
    switch (node->kind) {
      case MASK_NOT: stack[n - 1] = all; break;
      case MASK_AND: n--; stack[n - 1] = both_ranges(stack[n - 1], stack[n]); break;
      case MASK_OR: n--; stack[n - 1] = either_range(stack[n - 1], stack[n]); break;
#define LEAF(NAME, name, ...) \
      case MASK_##NAME: stack[n++] = keys_of_##name(w, node, queries); break;
#include "op/masks.def"
      case MASK_KINDS: break;
    }
  return both_ranges(stack[0], all);
}

/* }================================================================== */


/*
** {==================================================================
** Tiles: none of their pairs, all of them, or some
** ===================================================================
*/

static const uint8_t *mask_bytes (const work *w, int operand, const tile *x) {
  const view *v = &w->in[operand];
  const int64_t *stride = v->at.stride;
  return (const uint8_t *)v->data + x->b * stride[0] + x->h * stride[1] + x->i * stride[2]
         + x->j * stride[3];
}


#define EACH_BYTE 0x0101010101010101u          /* a word of 8 bytes that are 1 */


/* Ands and ors n bytes into words of 8. */
static void scan_bytes (const uint8_t *at, int64_t n, int64_t stride, uint64_t *all,
                        uint64_t *any) {
  int64_t c = 0;
  uint64_t word;
  for (; stride == 1 && c + 8 <= n; c += 8) {
    memcpy(&word, at + c, sizeof word);
    *all &= word;
    *any |= word;
  }
  for (; c < n; c++) {
    word = at[c * stride] * EACH_BYTE;
    *all &= word;
    *any |= word;
  }
}


static tile_kind tile_of_dense (const work *w, const mask_node *m, const tile *x) {
  const uint8_t *at = mask_bytes(w, m->operand, x);
  const int64_t *stride = w->in[m->operand].at.stride;
  const int64_t rows = stride[2] == 0 ? 1 : x->n, columns = stride[3] == 0 ? 1 : x->keys;
  uint64_t all = EACH_BYTE, any = 0;
  for (int64_t r = 0; r < rows && (any == 0 || all == EACH_BYTE); r++) {
    __builtin_prefetch(at + r * stride[2] + TILE_KEYS);      /* of the next tile */
    scan_bytes(at + r * stride[2], columns, stride[3], &all, &any);
  }
  return all == EACH_BYTE ? TILE_ALL : any != 0 ? TILE_MIXED : TILE_NONE;
}


static tile_kind tile_of_lengths (const work *w, const mask_node *m, const tile *x) {
  const int64_t length = mask_length(w, m->operand, x->b);
  return x->j + x->keys <= length ? TILE_ALL : x->j >= length ? TILE_NONE : TILE_MIXED;
}


/* Differences that go from 'least' to 'most', where low to high may attend. */
static tile_kind tile_of_differences (const mask_node *m, int64_t least, int64_t most) {
  if (least >= m->low && most <= m->high) return TILE_ALL;
  return most < m->low || least > m->high ? TILE_NONE : TILE_MIXED;
}


static tile_kind tile_of_band (const work *w, const mask_node *m, const tile *x) {
  (void)w;
  return tile_of_differences(m, x->j - (x->i + x->n - 1), x->j + x->keys - 1 - x->i);
}


static tile_kind tile_of_blocks (const work *w, const mask_node *m, const tile *x) {
  const int64_t i = x->i + m->offset;
  (void)w;
  return tile_of_differences(m,
    floor_quotient(x->j, m->size) - floor_quotient(i + x->n - 1, m->size),
    floor_quotient(x->j + x->keys - 1, m->size) - floor_quotient(i, m->size));
}


/* Does a multiple of the size lie between the least difference and the largest? */
static tile_kind tile_of_every (const work *w, const mask_node *m, const tile *x) {
  const int64_t least = x->i + m->offset - (x->j + x->keys - 1);
  const int64_t most = x->i + m->offset + x->n - 1 - x->j;
  (void)w;
  if (m->size == 1) return TILE_ALL;
  return floor_quotient(most, m->size) * m->size < least ? TILE_NONE : TILE_MIXED;
}


/* The positions among the keys, there being so many, that queries of a tile stand at. */
static key_range mask_positions (const mask_node *m, const tile *x, int64_t keys) {
  return (key_range){larger(x->i + m->offset, 0), smaller(x->i + x->n + m->offset, keys)};
}


/* Least and largest document of keys from .. to - 1, which are some. */
static key_range documents_between (const work *w, int operand, int64_t b, key_range at) {
  const int64_t first = mask_document(w, operand, b, at.from);
  key_range found = {first, first};
  for (int64_t j = at.from + 1; j < at.to; j++) {
    const int64_t one = mask_document(w, operand, b, j);
    found = (key_range){smaller(found.from, one), larger(found.to, one)};
  }
  return found;
}


static tile_kind tile_of_documents (const work *w, const mask_node *m, const tile *x) {
  const key_range at = mask_positions(m, x, w->in[m->operand].at.size[1]);
  if (at.from >= at.to) return TILE_NONE;
  const key_range q = documents_between(w, m->operand, x->b, at);
  const key_range k = documents_between(w, m->operand, x->b, (key_range){x->j, x->j + x->keys});
  if (q.from > k.to || k.from > q.to) return TILE_NONE;
  bool one = q.from == q.to && k.from == k.to && at.to - at.from == x->n;
  return one ? TILE_ALL : TILE_MIXED;
}


static tile_kind both_kinds (tile_kind a, tile_kind b) {
  if (a == TILE_NONE || b == TILE_NONE) return TILE_NONE;
  return a == TILE_ALL ? b : b == TILE_ALL ? a : TILE_MIXED;
}


static tile_kind other_kind (tile_kind a) {
  return a == TILE_MIXED ? a : a == TILE_ALL ? TILE_NONE : TILE_ALL;
}


static tile_kind mask_classify (const work *w, const tile *x) {
  const mask *m = &w->attention.mask;
  tile_kind stack[MASK_DEPTH + 1] = {TILE_ALL};
  int n = 0;
  for (const mask_node *node = m->node; node < m->node + m->n; node++)
    switch (node->kind) {
      case MASK_NOT: stack[n - 1] = other_kind(stack[n - 1]); break;
      case MASK_AND: n--; stack[n - 1] = both_kinds(stack[n - 1], stack[n]); break;
      case MASK_OR:                            /* not (not a and not b) */
        n--;
        stack[n - 1] = other_kind(both_kinds(other_kind(stack[n - 1]), other_kind(stack[n])));
        break;
#define LEAF(NAME, name, ...) \
      case MASK_##NAME: stack[n++] = tile_of_##name(w, node, x); break;
#include "op/masks.def"
      case MASK_KINDS: break;
    }
  return stack[0];
}

/* }================================================================== */


/*
** {==================================================================
** Pairs: a word for each key, in which bit c says whether query i + c may attend to it
** ===================================================================
*/

/* 8 x 8 bytes: 1 x 1, 2 x 2, then 4 x 4 blocks are swapped across the diagonal. */
static void transpose_8_bytes (const uint8_t *from, int64_t from_row, uint8_t *to, int64_t to_row) {
  uint64_t x[8];
  for (int i = 0; i < 8; i++) memcpy(&x[i], from + i * from_row, 8);
  for (int step = 1; step < 8; step *= 2) {
    const uint64_t low = step == 1 ? 0x00ff00ff00ff00ff : step == 2 ? 0x0000ffff0000ffff
                                                                    : 0x00000000ffffffff;
    for (int i = 0; i < 8; i++)
      if ((i & step) == 0) {
        uint64_t a = x[i], b = x[i + step];
        x[i] = (a & low) | (b & low) << (8 * step);
        x[i + step] = (a >> (8 * step) & low) | (b & ~low);
      }
  }
  for (int i = 0; i < 8; i++) memcpy(to + i * to_row, &x[i], 8);
}


/* to[c * to_row + r] = from[r * from_row + c * from_column]; for little-endian CPUs. */
static void transpose_bytes (int64_t rows, int64_t columns, const uint8_t *from, int64_t from_row,
                             int64_t from_column, uint8_t *to, int64_t to_row) {
  for (int64_t r = 0; r < rows; r += 8)
    for (int64_t c = 0; c < columns; c += 8) {
      const uint8_t *block = from + r * from_row + c * from_column;
      if (from_column == 1 && r + 8 <= rows && c + 8 <= columns) {
        transpose_8_bytes(block, from_row, to + c * to_row + r, to_row);
        continue;
      }
      for (int64_t i = 0; i < smaller(8, columns - c); i++)
        for (int64_t k = 0; k < smaller(8, rows - r); k++)
          to[(c + i) * to_row + r + k] = block[k * from_row + i * from_column];
    }
}


/* Bits from .. to - 1 of a word. */
static uint64_t bits_between (int64_t from, int64_t to) {
  from = larger(from, 0);
  to = smaller(to, 64);
  return from >= to ? 0 : ~(uint64_t)0 << from & ~(uint64_t)0 >> (64 - to);
}


static void bits_of_band (const work *w, const mask_node *m, const tile *x, uint64_t *bits) {
  (void)w;
  for (int64_t j = 0; j < x->keys; j++) {
    const int64_t d = x->j + j - x->i;
    bits[j] = bits_between(d - m->high, d - m->low + 1);
  }
}


static void bits_of_lengths (const work *w, const mask_node *m, const tile *x, uint64_t *bits) {
  const int64_t length = mask_length(w, m->operand, x->b);
  for (int64_t j = 0; j < x->keys; j++) bits[j] = x->j + j < length ? ~(uint64_t)0 : 0;
}


static void bits_of_blocks (const work *w, const mask_node *m, const tile *x, uint64_t *bits) {
  (void)w;
  for (int64_t j = 0; j < x->keys; j++) {
    const int64_t block = floor_quotient(x->j + j, m->size), first = x->i + m->offset;
    bits[j] = bits_between((block - m->high) * m->size - first,
                           (block - m->low + 1) * m->size - first);
  }
}


/* The first query of a tile that may attend to key j, and every size-th after it. */
static void bits_of_every (const work *w, const mask_node *m, const tile *x, uint64_t *bits) {
  uint64_t multiples = 0;
  (void)w;
  for (int64_t c = 0; c < 64; c += m->size) multiples |= (uint64_t)1 << c;
  for (int64_t j = 0; j < x->keys; j++) {
    const int64_t first = floor_remainder(x->j + j - x->i - m->offset, m->size);
    bits[j] = first < 64 ? multiples << first : 0;
  }
}


/* A query whose position is none of a key's belongs to no document. */
static void bits_of_documents (const work *w, const mask_node *m, const tile *x, uint64_t *bits) {
  const key_range at = mask_positions(m, x, w->in[m->operand].at.size[1]);
  const int64_t first = x->i + m->offset;
  for (int64_t j = 0; j < x->keys; j++) {
    const int64_t document = mask_document(w, m->operand, x->b, x->j + j);
    if (j > 0 && document == mask_document(w, m->operand, x->b, x->j + j - 1)) {
      bits[j] = bits[j - 1];                   /* documents are runs, most often */
      continue;
    }
    bits[j] = 0;
    for (int64_t p = at.from; p < at.to; p++)
      bits[j] |= (uint64_t)(mask_document(w, m->operand, x->b, p) == document) << (p - first);
  }
}


/* 8 bytes, each 0 or 1, as bits. */
static uint64_t bits_of_bytes (const uint8_t *from) {
  uint64_t bytes;
  memcpy(&bytes, from, sizeof bytes);
  return bytes * 0x0102040810204080 >> 56;
}


/* Queries c .. c + 7 of a tile, or fewer: their bits. */
static void transpose_bits (const int64_t *stride, const tile *x, int64_t c, const uint8_t *at,
                            uint64_t *bits) {
  const int64_t n = smaller(x->n - c, 8);
  uint8_t may[TILE_KEYS * 8];                  /* (keys, 8) */
  if (n < 8) memset(may, 0, sizeof may);
  transpose_bytes(n, x->keys, at + c * stride[2], stride[2], stride[3], may, 8);
  for (int64_t j = 0; j < x->keys; j++) bits[j] |= bits_of_bytes(may + j * 8) << c;
}


static void bits_of_dense (const work *w, const mask_node *m, const tile *x, uint64_t *bits) {
  const int64_t *stride = w->in[m->operand].at.stride;
  const uint8_t *at = mask_bytes(w, m->operand, x);
  const bool each = stride[2] != 0;            /* or all queries alike? */
  for (int64_t j = 0; j < x->keys; j++) bits[j] = each ? 0 : -(uint64_t)at[j * stride[3]];
  for (int64_t c = 0; each && c < x->n; c += 8) transpose_bits(stride, x, c, at, bits);
}


static void join_bits (mask_kind kind, int64_t keys, uint64_t *a, const uint64_t *b) {
  if (kind == MASK_AND)
    for (int64_t j = 0; j < keys; j++) a[j] &= b[j];
  else
    for (int64_t j = 0; j < keys; j++) a[j] |= b[j];
}


/* For at most TILE_KEYS keys and 64 queries, of a mask that has nodes. */
static void mask_bits (const work *w, const tile *x, uint64_t *bits) {
  const mask *m = &w->attention.mask;
  uint64_t others[MASK_DEPTH][TILE_KEYS], *stack[MASK_DEPTH + 1] = {bits};
  int n = 0;
  for (int i = 0; i < MASK_DEPTH; i++) stack[i + 1] = others[i];
  for (const mask_node *node = m->node; node < m->node + m->n; node++)
    switch (node->kind) {
      case MASK_NOT:
        for (int64_t j = 0; j < x->keys; j++) stack[n - 1][j] = ~stack[n - 1][j];
        break;
      case MASK_AND: case MASK_OR:
        n--;
        join_bits(node->kind, x->keys, stack[n - 1], stack[n]);
        break;
#define LEAF(NAME, name, ...) \
      case MASK_##NAME: bits_of_##name(w, node, x, stack[n++]); break;
#include "op/masks.def"
      case MASK_KINDS: break;
    }
}

/* }================================================================== */


/* Is the mask the same for all batches and heads? */
static bool mask_is_even (const work *w) {
  const mask *m = &w->attention.mask;
  for (const mask_node *node = m->node; node < m->node + m->n; node++)
    if (mask_has_operand(node->kind)) return false;
  return true;
}


/*
** Dropout of one query: line[c] is 1 where keys j + c stays. 'index' is the number of the first
** element in (B, H, T, S), 'drop' the least number that stays: philox_keeps, four at a time.
*/
static void dropout_line (uint64_t key, uint64_t index, uint64_t drop, int64_t n, uint8_t *line) {
  for (int64_t c = 0; c < n;) {
    uint32_t bits[4];
    philox(key, index >> 2, bits);
    for (int k = index & 3; k < 4 && c < n; k++, c++, index++) line[c] = bits[k] >= drop;
  }
}

#endif
