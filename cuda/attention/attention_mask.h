/*
** attention_mask.h - who may attend, as kernels ask it: first of tiles, where none of their pairs
** may, all of them or some, then of the pairs of a tile where some may.
**
** Both times the mask's tree is evaluated in postfix order, the same for all threads of a block,
** with a stack of bits that is one register. Tiles: each lane of a warp asks for another one, so
** that to pass one over costs a few instructions, whichever side of the others it lies on, and no
** barrier. Pairs: a row of a thread's is one answer, so that a node joins all of it at once.
**
** A tile of documents is known by the least and the largest of its keys' ids, which a kernel of
** attention_mask.cu finds first: 16 bytes for SIDE keys. Without it every block would have to read
** all ids, once for each head. A tile of a dense mask is mixed until its pairs are read.
**
** For each LEAF of op/masks.def stand here area_of_ and row_of_ with its name, which the tree's two
** evaluations call, and step_of_ in attention_mask.cu.
*/

#ifndef cuda_attention_mask_h
#define cuda_attention_mask_h

#include "cuda/cuda.h"
#include "cuda/product/tile.h"

typedef struct head_operand {      /* (B, H, rows, columns), or fewer of these axes */
  void *data;                      /* NULL: none */
  heed_type type;
  int64_t stride[4];
} head_operand;

static inline head_operand head_operand_of (const view *v) {      /* host */
  head_operand o = {NULL, HEED_BOOL, {0}};
  if (view_is_none(v)) return o;
  o.data = v->data;
  o.type = v->type;
  for (int i = 0; i < v->at.rank && i < 4; i++) o.stride[i] = v->at.stride[i];
  return o;
}

/* A tile of queries from i on and keys from j on: as many as its kernel's tiling says. */
typedef struct tile { int b, h, i, j; } tile;

/* Queries and keys of a batch and head, from the first ones to the last. */
typedef struct area { int b, h, i, i_last, j, j_last; } area;

/* The queries and keys of a tile, by a type that stands for a kernel's tiles: for those of
   product/tile.h the type that they are computed in. */
template <class G> struct tiling { static constexpr int rows = SIDE(G), keys = SIDE(G); };

typedef struct id_range { int64_t least, most; } id_range;

/* A node of the tree. BLOCKS: queries count from 'offset' on, which is from 0 to size - 1. */
typedef struct mask_step {
  mask_kind kind;
  int operand, low, high, offset, size;
  divisor by;                      /* the size */
} mask_step;

typedef struct attend_mask {
  int n, T, S;
  int side_bits, tiles;            /* 2^side_bits keys of each of so many tiles, for 'ids' */
  mask_step step[MASK_NODES];
  head_operand in[MASK_OPERANDS];
  id_range *ids[MASK_OPERANDS];    /* of documents: (B, tiles) */
} attend_mask;

/* A stack of so many answers is enough for the tree, as cuda_mask_of orders it. */
#define MASK_DEPTH 4
static_assert(MASK_NODES < (1 << (MASK_DEPTH + 1)) - 1, "a deeper tree has more nodes");

/* Host. Lengths are clipped where they are used; they are checked by a kernel of their own. */
attend_mask cuda_mask_of (const work *w);
const char *cuda_check_lengths (cuda *self, const attend_mask *m, int64_t B);
const char *cuda_find_ids (cuda *self, attend_mask *m, int64_t B, int side);


/*
** {==================================================================
** The tree
** ===================================================================
*/

/* Of a tile: bit 0, may some of its pairs; bit 1, may all of them. */
#define TILE_NONE 0u
#define TILE_SOME 1u
#define TILE_ALL 3u
#define TILE_BITS 2
/* Of a row of this thread's pairs: a bit for each. */
#define ROW_BITS 4

static_assert(FEW(float) <= ROW_BITS && FEW(double) <= ROW_BITS, "a row of pairs");
static_assert((MASK_NODES + 1) / 2 * ROW_BITS <= 32, "as deep as a tree of nodes can be");

INLINE unsigned kind_of_tile (bool some, bool all) { return (some ? 1u : 0u) | (all ? 2u : 0u); }


/* leaf(s) is the answer of a step without operands; without steps everyone may. */
template <int BITS, class Leaf> INLINE unsigned ask (const attend_mask &m, Leaf leaf) {
  const unsigned all = (1u << BITS) - 1;
  unsigned stack = all;
#pragma unroll 1
  for (int n = 0; n < m.n; n++) {
    const mask_step &s = m.step[n];
    switch (s.kind) {
      case MASK_NOT:                           /* what some may, some may not */
        if (BITS != TILE_BITS || (stack & all) != TILE_SOME) stack ^= all;
        break;
      case MASK_AND: stack = stack >> BITS & (stack | ~all); break;
      case MASK_OR: stack = stack >> BITS | (stack & all); break;
#define LEAF(NAME, ...) case MASK_##NAME:
#include "op/masks.def"
        stack = stack << BITS | leaf(s);
        break;
      case MASK_KINDS: break;
    }
  }
  return stack & all;
}


INLINE int64_t mask_length (const attend_mask &m, const mask_step &s, int b) {
  const head_operand &o = m.in[s.operand];
  return ((const int64_t *)o.data)[b * o.stride[0]];
}

INLINE int64_t document_of (const attend_mask &m, const mask_step &s, int b, int64_t position) {
  const head_operand &o = m.in[s.operand];
  return ((const int64_t *)o.data)[b * o.stride[0] + position * o.stride[1]];
}

INLINE unsigned block_of (const mask_step &s, unsigned x) { return divide_any(x, s.by); }
INLINE unsigned rest_of (const mask_step &s, unsigned x) { return x - block_of(s, x) * s.by.d; }

INLINE int64_t block_of_query (const mask_step &s, int i) {
  return block_of(s, (unsigned)i + (unsigned)s.offset);
}

/* }================================================================== */


/*
** {==================================================================
** Kinds of tiles
** ===================================================================
*/

/* Where differences go from 'least' to 'most'. */
INLINE unsigned kind_of_differences (const mask_step &s, int64_t least, int64_t most) {
  return kind_of_tile(most >= s.low && least <= s.high, least >= s.low && most <= s.high);
}


/* The queries and keys that a tile has. */
template <class G> INLINE area area_of (const attend_mask &m, const tile &x) {
  const area r = {x.b, x.h, x.i, min(x.i + tiling<G>::rows, m.T) - 1,
                  x.j, min(x.j + tiling<G>::keys, m.S) - 1};
  return r;
}


/* The pairs of a dense mask are read. */
INLINE unsigned area_of_dense (const attend_mask &, const mask_step &, const area &) {
  return TILE_SOME;
}


INLINE unsigned area_of_band (const attend_mask &, const mask_step &s, const area &x) {
  return kind_of_differences(s, (int64_t)x.j - x.i_last, (int64_t)x.j_last - x.i);
}


INLINE unsigned area_of_lengths (const attend_mask &m, const mask_step &s, const area &x) {
  const int64_t length = mask_length(m, s, x.b);
  return kind_of_tile(x.j < length, x.j_last < length);
}


INLINE unsigned area_of_blocks (const attend_mask &, const mask_step &s, const area &x) {
  const int64_t first = block_of(s, (unsigned)x.j), last = block_of(s, (unsigned)x.j_last);
  return kind_of_differences(s, first - block_of_query(s, x.i_last),
                             last - block_of_query(s, x.i));
}


/* By how far the least difference is above a multiple of the size, and the most above the least. */
INLINE unsigned area_of_every (const attend_mask &, const mask_step &s, const area &x) {
  const unsigned size = (unsigned)s.size;
  const unsigned query = rest_of(s, (unsigned)x.i + (unsigned)s.offset);
  const unsigned key = rest_of(s, (unsigned)x.j_last);
  const unsigned above = query >= key ? query - key : query + size - key;
  const unsigned apart = (unsigned)(x.i_last - x.i) + (unsigned)(x.j_last - x.j);
  return kind_of_tile(above == 0 || apart >= size - above, size == 1);
}


/* Of the tiles of keys in which positions 'from' to 'to' lie. */
INLINE id_range ids_between (const attend_mask &m, const mask_step &s, int b, int from, int to) {
  const id_range *ids = m.ids[s.operand] + (int64_t)b * m.tiles;
  const int last = to >> m.side_bits;
  int t = from >> m.side_bits;
  id_range all = ids[t];
#pragma unroll 1
  for (t++; t <= last; t++)
    all = id_range{min(all.least, ids[t].least), max(all.most, ids[t].most)};
  return all;
}


INLINE unsigned area_of_documents (const attend_mask &m, const mask_step &s, const area &x) {
  const int64_t first = (int64_t)x.i + s.offset, last = (int64_t)x.i_last + s.offset;
  const int64_t from = max(first, (int64_t)0), to = min(last, (int64_t)m.S - 1);
  if (from > to) return TILE_NONE;
  id_range q = {0, 0}, k = {0, 0};
#pragma unroll 1
  for (int n = 0; n < 2; n++) {                /* of queries, then of keys */
    q = k;
    k = ids_between(m, s, x.b, n == 0 ? (int)from : x.j, n == 0 ? (int)to : x.j_last);
  }
  return kind_of_tile(q.least <= k.most && k.least <= q.most,
                      from == first && to == last && q.least == k.most && k.least == q.most);
}


INLINE unsigned kind_of (const attend_mask &m, const area &x) {
  return ask<TILE_BITS>(m, [&] (const mask_step &s) -> unsigned {
    switch (s.kind) {
#define LEAF(NAME, name, ...) case MASK_##NAME: return area_of_##name(m, s, x);
#define JOIN(NAME, ...) case MASK_##NAME:
#include "op/masks.def"
      case MASK_KINDS: break;
    }
    return TILE_SOME;
  });
}

/*
** The tree is much to compile. A kernel has it as a function, which it calls; but for some loops
** over tiles of tensor cores, where a call would take registers that are kept for the next turn, or
** code is apart for tiles of which all pairs may.
*/
CALLED unsigned kind_by_call (const attend_mask &m, const area x) { return kind_of(m, x); }

template <class G> constexpr bool calls_tree = false;
template <> constexpr bool calls_tree<float> = true;
template <> constexpr bool calls_tree<double> = true;

template <class G, bool CALLS = calls_tree<G>>
INLINE unsigned kind_of (const attend_mask &m, const tile &x) {
  return CALLS ? kind_by_call(m, area_of<G>(m, x)) : kind_of(m, area_of<G>(m, x));
}

/* }================================================================== */


/*
** {==================================================================
** Pairs: bit FEW r + c for this thread's query r and key c of a tile
** ===================================================================
*/

/* Bits of a row: columns from 'first' to 'last'. */
template <class T> INLINE unsigned columns_between (int64_t first, int64_t last) {
  const int from = (int)min(max(first, (int64_t)0), (int64_t)FEW(T));
  const int to = (int)min(max(last + 1, (int64_t)0), (int64_t)FEW(T));
  return to > from ? (1u << to) - (1u << from) : 0;
}


template <class T>
INLINE unsigned row_of_band (const attend_mask &, const mask_step &s, const tile &, int i, int j) {
  return columns_between<T>((int64_t)i + s.low - j, (int64_t)i + s.high - j);
}


template <class T>
INLINE unsigned row_of_lengths (const attend_mask &m, const mask_step &s, const tile &x, int,
                                int j) {
  return columns_between<T>(0, mask_length(m, s, x.b) - 1 - j);
}


template <class T>
INLINE unsigned row_of_blocks (const attend_mask &, const mask_step &s, const tile &, int i,
                               int j) {
  const int64_t block = block_of_query(s, i);
  return columns_between<T>((block + s.low) * s.size - j, (block + s.high + 1) * s.size - 1 - j);
}


template <class T>
INLINE unsigned row_of_every (const attend_mask &, const mask_step &s, const tile &, int i,
                              int j) {
  const unsigned rest = rest_of(s, (unsigned)i + (unsigned)s.offset);
  unsigned bits = 0;
  UNROLL(T, c)
    if (rest_of(s, (unsigned)j + c) == rest) bits |= 1u << c;
  return bits;
}


template <class T>
INLINE unsigned row_of_documents (const attend_mask &m, const mask_step &s, const tile &x, int i,
                                  int j) {
  const int64_t position = (int64_t)i + s.offset;
  unsigned bits = 0;
  if (position < 0 || position >= m.S) return 0;
  const int64_t id = document_of(m, s, x.b, position);
  UNROLL(T, c)
    if (j + c < m.S && document_of(m, s, x.b, j + c) == id) bits |= 1u << c;
  return bits;
}


template <class T>
INLINE unsigned row_of_dense (const attend_mask &m, const mask_step &s, const tile &x, int i,
                              int j) {
  const head_operand &o = m.in[s.operand];
  const uint8_t *row = (const uint8_t *)o.data + x.b * o.stride[0] + x.h * o.stride[1]
                       + i * o.stride[2];
  unsigned bits = 0;
  if (i >= m.T) return 0;
  UNROLL(T, c)
    if (j + c < m.S && row[(j + c) * o.stride[3]] != 0) bits |= 1u << c;
  return bits;
}


template <class T>
INLINE unsigned row_of_pairs (const attend_mask &m, const mask_step &s, const tile &x, int i,
                              int j) {
  switch (s.kind) {
#define LEAF(NAME, name, ...) case MASK_##NAME: return row_of_##name<T>(m, s, x, i, j);
#define JOIN(NAME, ...) case MASK_##NAME:
#include "op/masks.def"
    case MASK_KINDS: break;
  }
  return 0;
}


template <class T> INLINE unsigned pairs_inside (const attend_mask &m, int i, int j) {
  const unsigned row = columns_between<T>(0, (int64_t)m.S - 1 - j);
  unsigned bits = 0;
  UNROLL(T, r) if (i + r < m.T) bits |= row << r * FEW(T);
  return bits;
}


template <class T> INLINE unsigned pairs_of (const attend_mask &m, const tile &x, int i, int j) {
  unsigned bits = 0;
#pragma unroll 1
  for (int r = 0; r < FEW(T); r++) {
    const unsigned row = ask<ROW_BITS>(m, [&] (const mask_step &s) -> unsigned {
      return row_of_pairs<T>(m, s, x, i + r, j);
    });
    bits |= (row & ((1u << FEW(T)) - 1)) << r * FEW(T);
  }
  return bits;
}


/*
** *may has a bit for each result of this thread: may this query attend to this key? False, in
** all threads of the block, if no query of the tile may attend to any key. 'all': they all may.
** All threads call it.
*/
template <class T>
INLINE bool tile_may_attend (const attend_mask &m, const tile &x, bool all, unsigned *may) {
  const int i = x.i + tile_y() * FEW(T), j = x.j + tile_x() * FEW(T);
  *may = ~0u;
  if (x.i + SIDE(T) > m.T || x.j + SIDE(T) > m.S) *may = pairs_inside<T>(m, i, j);
  if (all) return true;
  *may &= pairs_of<T>(m, x, i, j);
  return __syncthreads_or(*may != 0);
}

/* }================================================================== */


/*
** {==================================================================
** Tiles in a line: DI along the queries, DJ along the keys
** ===================================================================
*/

/*
** Tiles from (i, j) on were not asked for; of the 32 before them, bits of those still to come. To
** ask and to take are two functions, as with a loop within its loop a kernel, by nvcc 13, keeps
** its sums in memory: while (more_tiles<T>(l, m, x)) if (take_tile<T>(l, m, x, &may)) …
*/
template <int DI, int DJ> struct tile_line {
  int i, j;
  unsigned some, all;
  __device__ __forceinline__ explicit tile_line (const tile &x)
    : i(x.i), j(x.j), some(0), all(0) {}
};


template <class G, bool CALLS, int DI, int DJ>
INLINE void ask_tiles (tile_line<DI, DJ> &l, const attend_mask &m, const tile &x) {
  const int di = DI * tiling<G>::rows, dj = DJ * tiling<G>::keys;
  const tile own = {x.b, x.h, l.i + di * lane_of(), l.j + dj * lane_of()};
  const unsigned kind = own.i < m.T && own.j < m.S ? kind_of<G, CALLS>(m, own) : TILE_NONE;
  l.some = __ballot_sync(FULL, kind != TILE_NONE);
  l.all = __ballot_sync(FULL, kind == TILE_ALL);
  l.i += di * 32;
  l.j += dj * 32;
}


/* Is there more of a line? Asks for the next tiles when all those before are taken. */
template <class G, bool CALLS = calls_tree<G>, int DI, int DJ>
INLINE bool more_tiles (tile_line<DI, DJ> &l, const attend_mask &m, const tile &x) {
  if (l.some != 0) return true;
  if (l.i >= m.T || l.j >= m.S) return false;
  ask_tiles<G, CALLS>(l, m, x);
  return true;
}


/* Moves x to the next tile of those that were asked for: its kind; NONE: no more are left. */
template <class G, int DI, int DJ> INLINE unsigned next_tile (tile_line<DI, DJ> &l, tile &x) {
  if (l.some == 0) return TILE_NONE;
  const int n = __ffs((int)l.some) - 1;
  const unsigned kind = l.all >> n & 1 ? TILE_ALL : TILE_SOME;
  l.some &= l.some - 1;
  x.i = l.i + DI * tiling<G>::rows * (n - 32);
  x.j = l.j + DJ * tiling<G>::keys * (n - 32);
  return kind;
}


/* Moves x to the next tile, if one is left: may somebody attend there? See tile_may_attend. */
template <class T, int DI, int DJ>
INLINE bool take_tile (tile_line<DI, DJ> &l, const attend_mask &m, tile &x, unsigned *may) {
  const unsigned kind = next_tile<T>(l, x);
  return kind != TILE_NONE && tile_may_attend<T>(m, x, kind == TILE_ALL, may);
}

/* }================================================================== */

#endif
