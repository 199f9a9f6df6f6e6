/*
** cuda_masks.h - attention's masks at random, and who may attend by them, asked for every pair
** alone: what the answers of tiles are held to.
*/

#ifndef cuda_masks_h
#define cuda_masks_h

#include "cuda_cases.h"

typedef struct shape { int64_t B, H, Hk, T, S, D, Dv; } shape;

static const int64_t far = 1ll << 40;          /* beyond all positions */


/*
** {==================================================================
** Leaves
** ===================================================================
*/

/* (B, H, T, S); some rows are empty, some tiles empty or full; or the same for heads or queries. */
static inline view dense_operand (const shape *s) {
  view v = fresh(HEED_BOOL, 4, SIZES(s->B, s->H, s->T, s->S));
  uint8_t *may = v.data;
  for (int64_t h = 0; h < s->B * s->H; h++)
    for (int64_t i = 0; i < s->T; i++)
      for (int64_t j = 0; j < s->S; j++) {
        int64_t tile = (i / 64 + j / 64) % 3;
        *may++ = tile == 2 || (tile == 0 && i % 7 != 3 && chance(0.6));
      }
  if (chance(0.4)) v.at.stride[1] = 0;
  if (chance(0.2)) v.at.stride[2] = 0;
  return v;
}

/* (B): all keys, about half of them, none, or one number for all. */
static inline view lengths_operand (const shape *s) {
  view v = fresh(HEED_INT64, 1, &s->B);
  int64_t *n = v.data;
  for (int64_t i = 0; i < s->B; i++) n[i] = i % 3 == 2 ? 0 : i % 3 == 1 ? (s->S + 1) / 2 : s->S;
  if (s->B > 0 && chance(0.5)) n[0] = between(0, s->S);
  if (chance(0.3)) v.at.stride[0] = 0;
  return v;
}

/* (B, S): runs, sorted or not, or a number of its own for every key. */
static inline view documents_operand (const shape *s) {
  bool sorted = chance(0.7);
  double change = chance(0.2) ? 1 : chance(0.5) ? 0.02 : 0.1;
  view v = laid(HEED_INT64, 2, SIZES(s->B, s->S), some_layout(), 0, 1);
  int64_t document = between(-3, 3);
  for (int64_t i = 0; i < s->B * s->S; i++) {
    if (chance(change)) document = sorted ? document + 1 : between(-3, 3);
    put(&v, i, (double)document);
  }
  if (chance(0.3)) v.at.stride[0] = 0;
  return v;
}

static inline int64_t floor_quotient (int64_t x, int64_t n) { return x / n - (x % n < 0); }

/* Few queries see no key at all by the limits. */
static inline void set_band (mask_node *leaf, const shape *s) {
  leaf->low = chance(0.4) ? INT64_MIN / 4 : between(-s->T - 2, s->S / 2);
  leaf->high = chance(0.4) ? INT64_MAX / 4 : between(-s->T / 2, s->S + 2);
}

static inline void set_every (mask_node *leaf, const shape *s) {
  leaf->size = chance(0.5) ? between(1, 20) : between(1, s->T + s->S + 1);
  leaf->offset = between(0, leaf->size - 1);
}

static inline void set_blocks (mask_node *leaf, const shape *s) {
  leaf->size = chance(0.1) ? far : chance(0.5) ? between(1, 20) : between(1, s->S + 5);
  leaf->offset = between(-s->T - s->S, s->S + s->T) + (chance(0.1) ? between(-1, 1) * far : 0);
  int64_t level = chance(0.6) ? -floor_quotient(leaf->offset, leaf->size) : 0;
  leaf->low = chance(0.2) ? -s->S - s->T : level - pick(5);
  leaf->high = chance(0.2) ? s->S + s->T : level + between(-1, 4);
}

/* A kind of leaf at random; without an operand that is free, one that needs none. */
static inline mask_kind some_leaf (bool has_operand) {
  static const mask_kind leaves[] = {
#define LEAF(NAME, ...) MASK_##NAME,
#include "op/masks.def"
  };
  mask_kind kind = MASK_KINDS;
  while (kind == MASK_KINDS || (mask_has_operand(kind) && !has_operand))
    kind = leaves[pick(sizeof leaves / sizeof *leaves)];
  return kind;
}

/* 'operand' is the next that is free. */
static inline void add_leaf (work *w, const shape *s, int *operand) {
  mask *m = &w->attention.mask;
  mask_node *leaf = &m->node[m->n++];
  *leaf = (mask_node){.kind = some_leaf(*operand < ATTENTION_INS), .operand = *operand};
  leaf->offset = chance(0.5) ? s->S - s->T : between(-s->T, s->S);       /* of documents */
  switch (leaf->kind) {
    case MASK_DENSE: w->in[(*operand)++] = dense_operand(s); break;
    case MASK_LENGTHS:
      w->in[(*operand)++] = lengths_operand(s);
      leaf->high = s->S;
      break;
    case MASK_DOCUMENTS: w->in[(*operand)++] = documents_operand(s); break;
    case MASK_BAND: set_band(leaf, s); break;
    case MASK_BLOCKS: set_blocks(leaf, s); break;
    case MASK_EVERY: set_every(leaf, s); break;
    case MASK_NOT: case MASK_AND: case MASK_OR: case MASK_KINDS: break;
  }
}

/* }================================================================== */


static inline void add_node (work *w, mask_kind kind) {
  mask *m = &w->attention.mask;
  m->node[m->n++] = (mask_node){.kind = kind};
}

/* A tree of up to 'room' nodes; 'deep': all leaves wait for the last. */
static inline void add_tree (work *w, const shape *s, int room, bool deep, int *operand) {
  bool not = room > 1 && !deep && chance(0.2);
  if (not) room--;
  if (room < 3 || (!deep && chance(0.2))) add_leaf(w, s, operand);
  else {
    int left = deep ? 1 : 1 + (int)pick(room - 2);
    add_tree(w, s, left, deep, operand);
    add_tree(w, s, room - 1 - left, deep, operand);
    add_node(w, chance(0.5) ? MASK_AND : MASK_OR);
  }
  if (not) add_node(w, MASK_NOT);
}


static inline bool leaf_allows (const work *w, const mask_node *leaf, const int64_t at[4]) {
  const view *v = &w->in[leaf->operand];
  const int64_t i = at[2], j = at[3], S = w->in[ATTENTION_K].at.size[2], moved = i + leaf->offset;
  switch (leaf->kind) {
    case MASK_DENSE: return *(uint8_t *)element(v, ((at[0] * v->at.size[1] + at[1])
                                                    * v->at.size[2] + i) * v->at.size[3] + j) != 0;
    case MASK_BAND: return leaf->low <= j - i && j - i <= leaf->high;
    case MASK_LENGTHS: return j < *(int64_t *)element(v, at[0]);
    case MASK_DOCUMENTS:
      return moved >= 0 && moved < S &&
             *(int64_t *)element(v, at[0] * S + moved) == *(int64_t *)element(v, at[0] * S + j);
    case MASK_BLOCKS: {
      int64_t blocks = floor_quotient(j, leaf->size) - floor_quotient(moved, leaf->size);
      return leaf->low <= blocks && blocks <= leaf->high;
    }
    case MASK_EVERY: return (moved - j) % leaf->size == 0;
    case MASK_NOT: case MASK_AND: case MASK_OR: case MASK_KINDS: break;
  }
  return false;
}

/* At batch, head, query and key. */
static inline bool allows (const work *w, const int64_t at[4]) {
  bool stack[MASK_NODES + 1] = {true};
  int n = 0;
  for (int k = 0; k < w->attention.mask.n; k++) {
    const mask_node *leaf = &w->attention.mask.node[k];
    switch (leaf->kind) {
      case MASK_NOT: stack[n - 1] = !stack[n - 1]; break;
      case MASK_AND: n--; stack[n - 1] = stack[n - 1] && stack[n]; break;
      case MASK_OR: n--; stack[n - 1] = stack[n - 1] || stack[n]; break;
#define LEAF(NAME, ...) case MASK_##NAME:
#include "op/masks.def"
        stack[n++] = leaf_allows(w, leaf, at);
        break;
      case MASK_KINDS: break;
    }
  }
  return stack[0];
}


/* The pairs that may attend, (B, H, T, S); the fewest keys of a query that sees any. */
static inline view allowed_pairs (const work *w, const shape *s, int64_t *fewest) {
  view v = fresh(HEED_BOOL, 4, SIZES(s->B, s->H, s->T, s->S));
  uint8_t *may = v.data;
  *fewest = s->S;
  for (int64_t row = 0; row < s->B * s->H * s->T; row++) {
    int64_t at[] = {row / s->T / s->H, row / s->T % s->H, row % s->T, 0}, keys = 0;
    for (; at[3] < s->S; at[3]++) keys += *may++ = allows(w, at);
    if (keys > 0 && keys < *fewest) *fewest = keys;
  }
  return v;
}

static inline work with_pairs (const work *w, view pairs) {
  work dense = *w;
  dense.attention.mask.n = 1;
  dense.attention.mask.node[0] = (mask_node){.kind = MASK_DENSE, .operand = ATTENTION_MASK};
  dense.in[ATTENTION_MASK] = pairs;
  return dense;
}

/* A work with a mask has the same bits by a dense mask of the same pairs. */
static inline bool same_by_pairs (both *b, const char *name, const work *w, view pairs) {
  work dense = with_pairs(w, pairs);
  return w->attention.mask.n == 0 || same_bits(b, name, "by a dense mask", w, &dense);
}

#endif
