/*
** attention_mask.h - which keys may be attended to, by tiles: queries i .. i + n - 1 (one for each
** lane), keys j .. j + keys - 1.
**
** Masks are joined by 'and' alone, so the nodes are applied one after another.
*/

#ifndef attention_mask_h
#define attention_mask_h

typedef enum tile_kind { TILE_NONE, TILE_ALL, TILE_MIXED } tile_kind;   /* of its keys */

typedef struct tile {
  int64_t b, h, i, n, j, keys;
} tile;


static int64_t mask_length (const work *w, int operand, int64_t b, int64_t keys) {
  const view *v = &w->in[operand];
  int64_t length = ((const int64_t *)v->data)[b * v->at.stride[0]];
  return length < 0 ? 0 : smaller(length, keys);
}


/* The first key from which on queries before 'i_end' may attend to nothing. */
static int64_t mask_end (const work *w, int64_t b, int64_t i_end, int64_t keys) {
  const mask *m = &w->attention.mask;
  for (int i = 0; i < m->n; i++)
    switch (m->node[i].kind) {
      case MASK_BAND: keys = smaller(keys, larger(i_end + m->node[i].high, 0)); break;
      case MASK_LENGTHS: keys = mask_length(w, m->node[i].operand, b, keys); break;
      default: break;
    }
  return keys;
}


static const uint8_t *mask_bytes (const work *w, int operand, const tile *x) {
  const view *v = &w->in[operand];
  const int64_t *stride = v->at.stride;
  return (const uint8_t *)v->data + x->b * stride[0] + x->h * stride[1] + x->i * stride[2]
         + x->j * stride[3];
}


static tile_kind mask_classify_dense (const work *w, int operand, const tile *x) {
  const uint8_t *at = mask_bytes(w, operand, x);
  const int64_t *stride = w->in[operand].at.stride;
  const int64_t rows = stride[2] == 0 ? 1 : x->n, columns = stride[3] == 0 ? 1 : x->keys;
  uint8_t all = 1, any = 0;
  for (int64_t r = 0; r < rows; r++)
    if (stride[3] == 1)
      for (int64_t c = 0; c < columns; c++) {
        all &= at[r * stride[2] + c];
        any |= at[r * stride[2] + c];
      }
    else
      for (int64_t c = 0; c < columns; c++) {
        uint8_t may = at[r * stride[2] + c * stride[3]];
        all &= may;
        any |= may;
      }
  return all ? TILE_ALL : any ? TILE_MIXED : TILE_NONE;
}


static tile_kind mask_classify_causal (int64_t offset, const tile *x) {
  if (x->j + x->keys - 1 <= x->i + offset) return TILE_ALL;
  return x->j > x->i + x->n - 1 + offset ? TILE_NONE : TILE_MIXED;
}


static tile_kind mask_classify_length (int64_t length, const tile *x) {
  return x->j + x->keys <= length ? TILE_ALL : x->j >= length ? TILE_NONE : TILE_MIXED;
}


static tile_kind mask_classify (const work *w, const tile *x) {
  tile_kind kind = TILE_ALL;
  const mask *m = &w->attention.mask;
  for (int i = 0; i < m->n; i++) {
    tile_kind one = TILE_ALL;
    const int operand = m->node[i].operand;
    switch (m->node[i].kind) {
      case MASK_BAND: one = mask_classify_causal(m->node[i].high, x); break;
      case MASK_LENGTHS:
        one = mask_classify_length(mask_length(w, operand, x->b, INT64_MAX), x);
        break;
      case MASK_DENSE: one = mask_classify_dense(w, operand, x); break;
      default: break;
    }
    if (one == TILE_NONE) return TILE_NONE;
    if (one == TILE_MIXED) kind = TILE_MIXED;
  }
  return kind;
}


static void mask_bits (const work *w, const tile *x, uint64_t *bits) {
  const mask *m = &w->attention.mask;
  for (int64_t j = 0; j < x->keys; j++) {
    bits[j] = ~(uint64_t)0;
    for (int64_t i = 0; i < x->n; i++)
      for (int k = 0; k < m->n; k++) {
        bool may = true;
        const int operand = m->node[k].operand;
        const int64_t *st = w->in[operand].at.stride;
        switch (m->node[k].kind) {
          case MASK_BAND: may = x->j + j <= x->i + i + m->node[k].high; break;
          case MASK_LENGTHS: may = x->j + j < mask_length(w, operand, x->b, INT64_MAX); break;
          case MASK_DENSE: may = mask_bytes(w, operand, x)[i * st[2] + j * st[3]] != 0; break;
          default: break;
        }
        if (!may) bits[j] &= ~((uint64_t)1 << i);
      }
  }
}


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
