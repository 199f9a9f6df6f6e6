/*
** sort.cu - rows in order, stable; or their first k.
**
** Elements become integers in the same order: NaN above all, both zeros equal, descending order
** by the complement. Up to TILE of them are sorted in shared memory by a network (K. Batcher,
** 1968) that compares positions where keys are equal. Of longer rows, the first few elements are
** selected from the first ones of each tile; else all are sorted by radix, a digit of 8 bits at a
** time: tiles count their digits, counts become offsets, tiles scatter their elements.
*/

#include "cuda/index/sort.h"

#define THREADS 256
#define WARPS (THREADS / 32)
#define ITEMS 8
#define TILE (THREADS * ITEMS)
#define DIGITS 256                 /* as many as threads */
#define MOST_SELECTED (TILE / 4)


/*
** {==================================================================
** Keys: of 32 bits for small types, of 64 for float64 and int64
** ===================================================================
*/

/* Bits of a float type with this sign bit and this infinity. */
template <class U> INLINE U float_key (U bits, U sign, U infinity) {
  U size = bits & (sign - 1), most = sign | (sign - 1);
  if (size > infinity) return most;
  if (size == 0) return sign;
  return bits & sign ? ~bits & most : bits | sign;
}

INLINE void read_key (const void *x, heed_type type, int64_t at, uint64_t *key) {
  uint64_t bits = ((const uint64_t *)x)[at], sign = 1ull << 63;
  *key = type == HEED_INT64 ? bits ^ sign : float_key<uint64_t>(bits, sign, 0x7ffull << 52);
}

INLINE void read_key (const void *x, heed_type type, int64_t at, uint32_t *key) {
  const uint16_t *half = (const uint16_t *)x;
  switch (type) {
    case HEED_BOOL: *key = ((const uint8_t *)x)[at] != 0; return;
    case HEED_UINT8: *key = ((const uint8_t *)x)[at]; return;
    case HEED_FLOAT16: *key = float_key<uint32_t>(half[at], 0x8000, 0x7c00); return;
    case HEED_BFLOAT16: *key = float_key<uint32_t>(half[at], 0x8000, 0x7f80); return;
    case HEED_FLOAT32: case HEED_INT64: case HEED_FLOAT64: SCALAR_BLOCK_CASES: break;
  }
  *key = float_key<uint32_t>(((const uint32_t *)x)[at], 1u << 31, 0x7f800000);
}

/* The operand of a sort: rows of a tensor, or lists of its keys and columns. */
template <class U> struct source {
  const void *x;
  heed_type type;
  U flip;                          /* bits that differ in descending order */
  int64_t n;                       /* columns of the tensor */
  path at;
  const U *keys;                   /* NULL: those of x */
  const uint32_t *columns;         /* NULL: 0, 1, … */
};

/* Element i of a row of n. */
template <class U> INLINE U key_at (const source<U> &s, int64_t row, int64_t n, int64_t i) {
  U key;
  if (s.keys != NULL) return s.keys[row * n + i];
  read_key(s.x, s.type, element_offset(s.at, row * n + i), &key);
  return key ^ s.flip;
}

/* }================================================================== */


/*
** {==================================================================
** Results: a tensor's elements and their positions from 1, or lists again
** ===================================================================
*/

template <class U> struct result {
  void *values;                    /* NULL: lists */
  int bytes;                       /* of an element */
  path values_at, positions_at;
  int64_t *positions;
  U *keys;
  uint32_t *columns;
};

INLINE void copy_element (int bytes, void *to, int64_t to_at, const void *from, int64_t from_at) {
  switch (bytes) {
    case 1: ((uint8_t *)to)[to_at] = ((const uint8_t *)from)[from_at]; break;
    case 2: ((uint16_t *)to)[to_at] = ((const uint16_t *)from)[from_at]; break;
    case 4: ((uint32_t *)to)[to_at] = ((const uint32_t *)from)[from_at]; break;
    default: ((uint64_t *)to)[to_at] = ((const uint64_t *)from)[from_at];
  }
}

/* Element i of the results is the row's element 'column'. */
template <class U>
INLINE void put_element (const result<U> &y, int64_t i, const source<U> &s, int64_t row,
                         int64_t column) {
  copy_element(y.bytes, y.values, element_offset(y.values_at, i), s.x,
               element_offset(s.at, row * s.n + column));
  y.positions[element_offset(y.positions_at, i)] = column + 1;
}

/* }================================================================== */


/*
** {==================================================================
** In shared memory: sheets of several rows, or of a tile of a row
** ===================================================================
*/

template <class U> struct item { U key; uint32_t at; };

template <class U> INLINE bool after (const item<U> &a, const item<U> &b) {
  return a.key > b.key || (a.key == b.key && a.at > b.at);
}

/* n items: each 'width' of them, a power of 2, are sorted on their own. */
template <class U> INLINE void sort_shared (item<U> *items, int n, int width) {
  for (int size = 2; size <= width; size *= 2)
    for (int by = size / 2; by > 0; by /= 2) {
      __syncthreads();
      for (int t = (int)threadIdx.x; t < n / 2; t += (int)blockDim.x) {
        int i = 2 * t - (t & (by - 1));
        bool rises = (i & (width - 1) & size) == 0;
        item<U> a = items[i], b = items[i + by];
        if (after(a, b) != rises) continue;
        items[i] = b;
        items[i + by] = a;
      }
    }
  __syncthreads();
}


/* How rows are laid out on sheets: 'pieces' to a row, each of them 1 << shift wide. */
typedef struct sheets {
  int64_t rows, n, pieces;
  int64_t kept;                    /* results of each piece: its first ones */
  int shift, capacity;             /* items of a sheet */
} sheets;

template <class U>
INLINE item<U> sheet_item (const sheets &d, const source<U> &s, int64_t i) {
  int64_t piece = i >> d.shift, row = piece / d.pieces;
  int64_t column = i - (row * d.pieces << d.shift);
  item<U> x = {(U)~(U)0, ~0u};                   /* past the end: comes last */
  if (row >= d.rows || column >= d.n) return x;
  x.key = key_at(s, row, d.n, column);
  x.at = s.columns != NULL ? s.columns[row * d.n + column] : (uint32_t)column;
  return x;
}

template <class U>
INLINE void put_item (const sheets &d, const source<U> &s, const result<U> &y, int64_t i,
                      item<U> x) {
  int64_t piece = i >> d.shift, row = piece / d.pieces, rank = i - (piece << d.shift);
  if (row >= d.rows || rank >= d.kept) return;
  if (y.values != NULL) put_element(y, piece * d.kept + rank, s, row, x.at);
  else {
    y.keys[piece * d.kept + rank] = x.key;
    y.columns[piece * d.kept + rank] = x.at;
  }
}

template <class U> KERNEL sort_sheets (sheets d, source<U> s, result<U> y) {
  SHARED(item<U>, items);
  const int64_t n = d.rows * d.pieces << d.shift, step = (int64_t)gridDim.x * d.capacity;
  for (int64_t from = (int64_t)blockIdx.x * d.capacity; from < n; from += step) {
    for (int t = (int)threadIdx.x; t < d.capacity; t += (int)blockDim.x)
      items[t] = sheet_item(d, s, from + t);
    sort_shared(items, d.capacity, 1 << d.shift);
    for (int t = (int)threadIdx.x; t < d.capacity; t += (int)blockDim.x)
      put_item(d, s, y, from + t, items[t]);
    __syncthreads();
  }
}


template <class U>
static const char *run_sheets (cuda *self, sheets d, const source<U> &s, const result<U> &y) {
  int64_t width = d.n < TILE ? d.n : TILE;
  while (1 << d.shift < width) d.shift++;
  d.capacity = 1 << d.shift < 2 * THREADS ? 2 * THREADS : 1 << d.shift;
  d.pieces = (d.n + TILE - 1) / TILE;
  int64_t blocks = ((d.rows * d.pieces << d.shift) + d.capacity - 1) / d.capacity;
  int threads = d.capacity / 2 < 512 ? d.capacity / 2 : 512;
  return launch(self, cuda_blocks(self, blocks, 1), dim3(threads), d.capacity * sizeof(item<U>),
                sort_sheets<U>, d, s, y);
}


/* Takes the first ones of each tile until a row fits into one tile. */
template <class U>
static const char *select_first (cuda *self, int64_t rows, int64_t n, int64_t kept, source<U> s,
                                 const result<U> &y) {
  while (n > TILE) {
    int64_t left = (n + TILE - 1) / TILE * kept;
    result<U> lists = {};
    lists.keys = (U *)cuda_scratch(self, (size_t)(rows * left) * sizeof(U));
    lists.columns = (uint32_t *)cuda_scratch(self, (size_t)(rows * left) * sizeof(uint32_t));
    if (lists.keys == NULL || lists.columns == NULL) return cuda_no_memory;
    const char *why = run_sheets(self, sheets{rows, n, 0, kept, 0, 0}, s, lists);
    if (why != NULL) return why;
    s.keys = lists.keys;
    s.columns = lists.columns;
    n = left;
  }
  return run_sheets(self, sheets{rows, n, 0, kept, 0, 0}, s, y);
}

/* }================================================================== */


/*
** {==================================================================
** By digits
** ===================================================================
*/

template <class U> struct pass {
  int64_t rows, n, tiles;          /* of a row */
  int shift;                       /* of the digit */
  const U *keys;
  const uint32_t *columns;         /* NULL: 0, 1, … */
  U *keys_to;
  uint32_t *columns_to;
  uint32_t *counts;                /* (rows, DIGITS, tiles) */
  uint32_t *totals;                /* (rows, DIGITS) */
};

/* A tile of a row: its elements are 'first' to first + n - 1 of all rows. */
typedef struct row_tile { int64_t row, tile, first, column; int n; } row_tile;

template <class U> INLINE row_tile row_tile_of (const pass<U> &p, int64_t b) {
  row_tile t;
  t.row = b / p.tiles;
  t.tile = b - t.row * p.tiles;
  t.column = t.tile * TILE;
  t.first = t.row * p.n + t.column;
  t.n = (int)(p.n - t.column < TILE ? p.n - t.column : TILE);
  return t;
}


template <class U> KERNEL __launch_bounds__(THREADS) count_digits (pass<U> p) {
  __shared__ uint32_t counts[DIGITS];
  for (int64_t b = blockIdx.x; b < p.rows * p.tiles; b += gridDim.x) {
    row_tile t = row_tile_of(p, b);
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < t.n; i += THREADS)
      atomicAdd(&counts[p.keys[t.first + i] >> p.shift & (DIGITS - 1)], 1u);
    __syncthreads();
    p.counts[(t.row * DIGITS + threadIdx.x) * p.tiles + t.tile] = counts[threadIdx.x];
  }
}


/*
** How many of the warp's elements before this one have its digit: counts[] holds those of the
** rounds before; lanes with one digit find each other.
*/
INLINE uint32_t rank_in_warp (uint32_t *counts, uint32_t digit) {
  unsigned alike = __match_any_sync(FULL, digit);
  int before = __popc(alike & ((1u << lane_of()) - 1));
  uint32_t rank = counts[digit] + (uint32_t)before;
  __syncwarp();
  if (before == 0) counts[digit] += (uint32_t)__popc(alike);
  __syncwarp();
  return rank;
}


/* counts (WARPS, DIGITS) become offsets in the tile; 'first' those of the digits. */
INLINE void count_up (uint32_t (*counts)[DIGITS], uint32_t *first, uint32_t *buffer) {
  int digit = (int)threadIdx.x;
  uint32_t sum = 0, all;
  __syncthreads();
  for (int i = 0; i < WARPS; i++) {
    uint32_t x = counts[i][digit];
    counts[i][digit] = sum;
    sum += x;
  }
  first[digit] = block_before(sum, buffer, &all);
  for (int i = 0; i < WARPS; i++) counts[i][digit] += first[digit];
  __syncthreads();
}


/* Items past the end of a row have the last digit, and come last. */
template <class U> KERNEL __launch_bounds__(THREADS) scatter_digits (pass<U> p) {
  __shared__ uint32_t counts[WARPS][DIGITS], first[DIGITS], buffer[MOST_WARPS];
  __shared__ uint32_t to[DIGITS];                /* the offset in the row of a digit's first */
  __shared__ U keys[TILE];
  __shared__ uint32_t columns[TILE];
  for (int64_t b = blockIdx.x; b < p.rows * p.tiles; b += gridDim.x) {
    row_tile t = row_tile_of(p, b);
    U key[ITEMS];
    uint32_t rank[ITEMS], all;
    int base = warp_of() * 32 * ITEMS + lane_of();
    for (int i = 0; i < WARPS; i++) counts[i][threadIdx.x] = 0;
    __syncthreads();
    for (int i = 0; i < ITEMS; i++) {
      key[i] = base + 32 * i < t.n ? p.keys[t.first + base + 32 * i] : (U)~(U)0;
      rank[i] = rank_in_warp(counts[warp_of()], (uint32_t)(key[i] >> p.shift) & (DIGITS - 1));
    }
    count_up(counts, first, buffer);
    for (int i = 0; i < ITEMS; i++) {
      uint32_t y = rank[i] + counts[warp_of()][key[i] >> p.shift & (DIGITS - 1)];
      int64_t column = t.column + base + 32 * i;
      keys[y] = key[i];
      if (base + 32 * i < t.n)
        columns[y] = p.columns != NULL ? p.columns[t.row * p.n + column] : (uint32_t)column;
    }
    int64_t digit = t.row * DIGITS + threadIdx.x;
    uint32_t before = block_before(p.totals[digit], buffer, &all);
    to[threadIdx.x] = before + p.counts[digit * p.tiles + t.tile] - first[threadIdx.x];
    __syncthreads();
    for (int i = (int)threadIdx.x; i < t.n; i += THREADS) {
      int64_t y = t.row * p.n + (uint32_t)(to[keys[i] >> p.shift & (DIGITS - 1)] + (uint32_t)i);
      p.keys_to[y] = keys[i];
      p.columns_to[y] = columns[i];
    }
    __syncthreads();
  }
}


template <class U> static const char *run_pass (cuda *self, const pass<U> &p) {
  dim3 blocks = cuda_blocks(self, p.rows * p.tiles, 1);
  const char *why = launch(self, blocks, THREADS, 0, count_digits<U>, p);
  if (why == NULL)
    why = launch(self, cuda_blocks(self, p.rows * DIGITS, 1), p.tiles > THREADS ? 1024 : THREADS,
                 0, sum_before<uint32_t>, p.rows * DIGITS, p.tiles, p.counts, p.totals);
  return why != NULL ? why : launch(self, blocks, THREADS, 0, scatter_digits<U>, p);
}


/* p comes with rows, n and keys, which are overwritten; then p.keys and p.columns are in order. */
template <class U> static const char *sort_digits (cuda *self, int bits, pass<U> *p) {
  size_t all = (size_t)(p->rows * p->n), n;
  U *keys = (U *)p->keys;
  p->tiles = (p->n + TILE - 1) / TILE;
  n = (size_t)(p->rows * DIGITS);
  p->keys_to = (U *)cuda_scratch(self, all * sizeof(U));
  p->columns_to = (uint32_t *)cuda_scratch(self, all * sizeof(uint32_t));
  p->counts = (uint32_t *)cuda_scratch(self, n * (size_t)p->tiles * sizeof(uint32_t));
  p->totals = (uint32_t *)cuda_scratch(self, n * sizeof(uint32_t));
  uint32_t *columns = (uint32_t *)cuda_scratch(self, all * sizeof(uint32_t));
  if (p->keys_to == NULL || p->columns_to == NULL || p->counts == NULL || p->totals == NULL ||
      columns == NULL)
    return cuda_no_memory;
  for (p->shift = 0; p->shift < bits || p->shift == 0; p->shift += 8) {
    const char *why = run_pass(self, *p);
    if (why != NULL) return why;
    U *keys_done = p->keys_to;
    uint32_t *columns_done = p->columns_to;
    p->keys_to = keys;
    p->columns_to = columns;
    p->keys = keys = keys_done;
    p->columns = columns = columns_done;
  }
  return NULL;
}


template <class U> KERNEL make_keys (source<U> s, U *keys, int64_t all) {
  for (int64_t i = first_index(); i < all; i += index_step()) keys[i] = key_at(s, 0, 0, i);
}

template <class U>
KERNEL put_rows (source<U> s, result<U> y, const uint32_t *columns, int64_t kept, int64_t all) {
  for (int64_t i = first_index(); i < all; i += index_step()) {
    int64_t row = i / kept;
    put_element(y, i, s, row, columns[row * s.n + i - row * kept]);
  }
}

template <class U>
static const char *sort_rows (cuda *self, int64_t rows, int64_t kept, int bits,
                              const source<U> &s, const result<U> &y) {
  int64_t all = rows * s.n;
  pass<U> p = {};
  U *keys = (U *)cuda_scratch(self, (size_t)all * sizeof(U));
  if (keys == NULL) return cuda_no_memory;
  const char *why = launch(self, cuda_blocks(self, all, THREADS), THREADS, 0, make_keys<U>, s,
                           keys, all);
  p.rows = rows;
  p.n = s.n;
  p.keys = keys;
  if (why == NULL) why = sort_digits(self, bits, &p);
  if (why != NULL) return why;
  return launch(self, cuda_blocks(self, rows * kept, THREADS), THREADS, 0, put_rows<U>, s, y,
                p.columns, kept, rows * kept);
}

/* }================================================================== */


const char *cuda_order (cuda *self, int64_t n, int bits, uint64_t *keys, ordered *y) {
  if (n > TILE) {
    pass<uint64_t> p = {};
    p.rows = 1;
    p.n = n;
    p.keys = keys;
    const char *why = sort_digits(self, bits, &p);
    *y = ordered{p.keys, p.columns};
    return why;
  }
  source<uint64_t> s = {};
  result<uint64_t> lists = {};
  s.keys = keys;
  lists.keys = keys;               /* a single block, which reads all before it writes */
  lists.columns = (uint32_t *)cuda_scratch(self, TILE * sizeof(uint32_t));
  if (lists.columns == NULL) return cuda_no_memory;
  *y = ordered{keys, lists.columns};
  return run_sheets(self, sheets{1, n, 0, n, 0, 0}, s, lists);
}


template <class U> static const char *sort_view (cuda *self, const work *w, int bits) {
  const view *x = &w->in[0], *values = &w->out[0], *positions = &w->out[1];
  const layout *at = &x->at, *both[] = {&values->at, &positions->at};
  int64_t n = at->rank > 0 ? at->size[at->rank - 1] : 1, all = layout_numel(&values->at);
  int64_t kept = at->rank > 0 ? values->at.size[at->rank - 1] : 1, rows = all / kept;
  source<U> s = {};
  result<U> y = {};
  path p[2];
  if (n > ORDER_LIMIT) return "rows of 2^32 elements are too long to be sorted";
  s.x = x->data;
  s.type = x->type;
  s.flip = w->sort.descending ? (U)~(U)0 >> (8 * sizeof(U) - bits) : 0;
  s.n = n;
  paths_of(1, &at, &s.at);
  paths_of(2, both, p);
  y.values = values->data;
  y.bytes = scalar_sizes[x->type];
  y.values_at = p[0];
  y.positions_at = p[1];
  y.positions = (int64_t *)positions->data;
  if (n <= TILE || kept <= MOST_SELECTED) return select_first(self, rows, n, kept, s, y);
  return sort_rows(self, rows, kept, bits, s, y);
}


const char *cuda_sort (cuda *self, const work *w) {
  int bits = 8 * scalar_sizes[w->in[0].type];
  if (layout_numel(&w->out[0].at) == 0) return NULL;
  return bits == 64 ? sort_view<uint64_t>(self, w, bits) : sort_view<uint32_t>(self, w, bits);
}
