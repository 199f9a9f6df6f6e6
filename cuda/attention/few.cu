/*
** few.cu - attention of few queries, as in generation, token by token: keys and values are read
** once, at the memory's speed, which is the limit here.
**
** The queries of all heads that share a head of keys are the rows of one block. Keys are cut into
** parts, always in the same places whatever the batch and the GPU are, so that there are blocks
** enough; a second kernel joins the parts, in order.
**
** In a block a warp takes every n-th tile of SIDE keys, for up to ROWS rows, and waits for no other
** warp until its keys are done. G lanes hold a row of keys or of values, 16 bytes of it at a time,
** and each lane copies into shared memory what it alone reads, a batch ahead: while one is
** computed, the next is on its way. Lanes hold keys while scores become weights.
**
** T. Dao et al., "Flash-Decoding for long-context inference" (2023).
*/

#include "cuda/attention/few_tile.h"

#define PART_KEYS 256              /* doubled while a batch of one has more blocks than this: */
#define PART_BLOCKS 256


/*
** {==================================================================
** A part
** ===================================================================
*/

/* y += the weights and values of a batch; a weight of 'nothing' takes nothing. */
template <class Shape, class S, int ROWS, class T>
INLINE void add_batch (T (&y)[ROWS][PIECE], const uint4 *from, const T *weights, T nothing) {
#pragma unroll (Shape::ABREAST)
  for (int n = 0; n < Shape::AHEAD; n++) {
    T x[PIECE];
    take_row<Shape, S>(x, from, n);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const T weight = weights[r * Shape::LINE + n];
      if (weight == nothing) continue;
#pragma unroll
      for (int d = 0; d < PIECE; d++) y[r][d] = multiply_add(weight, x[d], y[r][d]);
    }
  }
}


/* Tiles of this warp, 'step' keys apart: from 'from' on they were not asked for. */
struct few_tiles { unsigned from, end, step, some, all; };

/* The next where somebody may attend; all lanes call it. False: none is left. */
template <class T>
INLINE bool next_tile (few_tiles &t, const attend_mask &m, tile &x, bool &all) {
  while (t.some == 0) {
    if (t.from >= t.end) return false;
    const unsigned j = t.from + (unsigned)lane_of() * t.step;
    const tile own = {x.b, x.h, 0, (int)min(j, t.end)};
    const unsigned kind = j < t.end ? kind_of<T>(m, own) : TILE_NONE;
    t.some = __ballot_sync(FULL, kind != TILE_NONE);
    t.all = __ballot_sync(FULL, kind == TILE_ALL);
    t.from += 32 * t.step;
  }
  const int n = __ffs((int)t.some) - 1;
  t.some &= t.some - 1;
  all = t.all >> n & 1;
  x.j = (int)(t.from - (unsigned)(32 - n) * t.step);
  return true;
}


/* A warp's share of its rows. */
template <class T, int ROWS> struct few_progress {
  T q[ROWS][PIECE];                /* scaled */
  T y[ROWS][PIECE];
  row_state<T> state;              /* of the row whose keeper this lane is */
};


template <class Shape, class S, int ROWS, int G, class T>
INLINE void begin_rows (few_progress<T, ROWS> &p, const few_queries &f, const tile &x,
                        int first_row) {
  const attend &a = f.a;
  const int own = min(first_row + lane_of() % ROWS, f.rows - 1);         /* lane r has row r */
  const int64_t own_start = head_at(a.q, x.b, x.h + own / (int)a.T)
                            + own % (int)a.T * a.q.stride[2];
  const S *row[ROWS];
  S q[ROWS][PIECE] = {};
#pragma unroll
  for (int r = 0; r < ROWS; r++) row[r] = (const S *)a.q.data + __shfl_sync(FULL, own_start, r);
#pragma unroll
  for (int d = 0; d < PIECE; d++) {
    const int at = column_of<S, G>(d / Shape::WIDTH) + d % Shape::WIDTH;
    if (at >= a.D) continue;
#pragma unroll
    for (int r = 0; r < ROWS; r++) q[r][d] = row[r][at * a.q.stride[3]];
  }
#pragma unroll
  for (int n = 0; n < ROWS * PIECE; n++) {
    p.q[n / PIECE][n % PIECE] = (T)wide(q[n / PIECE][n % PIECE]) * (T)a.factor;
    p.y[n / PIECE][n % PIECE] = 0;
  }
  p.state = {-(T)INFINITY, 0};
}


/* Rows of y fade, each by the factor that its keeper has. */
template <int ROWS, class T> INLINE void fade_sums (few_progress<T, ROWS> &p, T fade) {
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    const T times = __shfl_sync(FULL, fade, keeper_of(r));
#pragma unroll
    for (int d = 0; d < PIECE; d++) p.y[r][d] *= times;
  }
}


/*
** A tile: batches of keys, then as many of values. 'ring' has two places; the tile's first batch
** is on its way to the first of them when this begins, and that of 'next' when it ends. If no tile
** is there yet, only that begins.
*/
template <class Shape, class S, int ROWS, int G, class T>
INLINE void attend_tile (few_progress<T, ROWS> &p, const few_queries &f, const tile &x, bool there,
                         bool all, few_source<S> &coming, const tile &next, bool more,
                         int first_row, uint4 *ring, T *scores) {
  const attend &a = f.a;
  constexpr int BATCHES = Shape::KEYS / Shape::AHEAD, PLACE = BATCH * 32;
  const T nothing = a.mask.n > 0 ? (T)0 : (T)NAN;
  T *line = scores + group_line<Shape, G>();
#pragma unroll 1
  for (int n = there ? 0 : 2 * BATCHES - 1; n < 2 * BATCHES; n++) {
    const uint4 *batch = ring + n % 2 * PLACE;
    if (n == BATCHES - 1) coming = source_of<Shape, S, G>(a, a.v, x, a.Dv, f.values_fit);
    if (n == 2 * BATCHES - 1) {
      coming = source_of<Shape, S, G>(a, a.k, next, a.D, f.keys_fit);
      if (!more) coming.left = 0;
    }
    fetch_batch<Shape, S, G>(coming, ring + (n + 1) % 2 * PLACE);
    if (!there) break;
    ptx_wait<1>();
    if (n < BATCHES) score_batch<Shape, S, ROWS, G>(p.q, batch, line + n * Shape::AHEAD);
    else add_batch<Shape, S>(p.y, batch, line + (n - BATCHES) * Shape::AHEAD, nothing);
    if (n == BATCHES - 1) {
      __syncwarp();                            /* all scores are there */
      const T fade = weigh_tile<Shape, ROWS>(f, x, all, first_row, p.state, scores);
      __syncwarp();                            /* all weights are there */
      if (__any_sync(FULL, fade != 1)) fade_sums(p, fade);
    }
  }
  __syncwarp();                                /* nobody reads weights any more */
}


/* The sums of all lanes, and the states of rows, for all warps to read. */
template <class Shape, int ROWS, class T>
INLINE void leave_sums (few_progress<T, ROWS> &p, T *sums, row_state<T> *states) {
  const int own = row_of_keeper(lane_of());
#pragma unroll
  for (int n = 0; n < ROWS * PIECE; n += FEW(T)) {
    few<T> some;
    UNROLL(T, i) some.at[i] = p.y[n / PIECE][n % PIECE + i];
    *(few<T> *)(sums + n / Shape::WIDTH * 32 * Shape::WIDTH + lane_of() * Shape::WIDTH
                + n % Shape::WIDTH) = some;
  }
  if (own < ROWS) states[own] = p.state;
}


/* Of row r and column d, those of the groups of lanes of a warp, in order. */
template <class Shape, class T> INLINE T sum_groups (const T *sums, int r, int d) {
  constexpr int OF_COPY = 32 * Shape::WIDTH, ACROSS = Shape::ACROSS;
  const T *of = sums + r * 32 * PIECE + d / ACROSS * OF_COPY + d % ACROSS;
  T sum = of[0];
#pragma unroll
  for (int n = ACROSS; n < OF_COPY; n += ACROSS) sum += of[n];
  return sum;
}


/* Row 'row' of a head of keys, as a row of q and of the results. Counts of blocks have 32 bits. */
INLINE tile query_of (const few_queries &f, int64_t head, int row) {
  const unsigned Hk = (unsigned)f.Hk, n = (unsigned)head;
  return tile_of(n / Hk, n % Hk * (int)f.a.shared + row / (int)f.a.T, row % (int)f.a.T, 0);
}


/* An element of the result: 0 where nothing was attended to. */
template <class S, class T>
INLINE void put_result (const attend &a, const tile &x, int64_t d, T y, T sum) {
  ((S *)a.y.data)[row_at(a.y, x, x.i) + d * a.y.stride[3]] = convert<S>(sum == 0 ? (T)0 : y / sum);
}

template <class T> INLINE void put_lse (const attend &a, const tile &x, const row_state<T> &all) {
  if (a.lse.data != NULL)
    ((T *)a.lse.data)[row_at(a.lse, x, x.i)] = all.top * (T)LOG_OF_2 + log(all.sum);
}

template <class T> INLINE bool is_empty (const row_state<T> &s) {
  return s.top == -(T)INFINITY && s.sum == 0;
}

/* The factor of sums that are relative to s.top. */
template <class T> INLINE T share_of (const row_state<T> &s, T top) {
  return exp2(s.top - (top == -(T)INFINITY ? (T)0 : top));
}


/*
** Row n of the block's: the sums of the warps that have it, in order, are the result if there is
** one part, and are kept for join_parts else. All lanes of a warp call it.
*/
template <class Shape, class S, int ROWS, class T>
INLINE void join_warps (const few_queries &f, int64_t head, int64_t part, int row, int n,
                        const unsigned char *memory, const row_state<T> *states) {
  const attend &a = f.a;
  const int group = n / ROWS, r = n % ROWS;
  row_state<T> all = {-(T)INFINITY, 0};
  for (int w = group; w < WARPS; w += f.groups)
    all.top = larger()(states[w * ROWS + r].top, all.top);
  for (int w = group; w < WARPS; w += f.groups)
    all.sum += states[w * ROWS + r].sum * share_of(states[w * ROWS + r], all.top);
  const tile x = query_of(f, head, row);
  const int64_t at = (head * f.parts + part) * f.rows + row;
  if (f.parts > 1 && lane_of() == 0) ((row_state<T> *)f.states)[at] = all;
  if (f.parts == 1 && lane_of() == 0) put_lse(a, x, all);
  if (f.parts > 1 && is_empty(all)) return;
  for (int d = lane_of(); d < a.Dv; d += 32) {
    T y = 0;
    for (int w = group; w < WARPS; w += f.groups)
      y += sum_groups<Shape>((const T *)(memory + w * Shape::BYTES), r, d)
           * share_of(states[w * ROWS + r], all.top);
    if (f.parts > 1) ((T *)f.sums)[at * a.Dv + d] = y;
    else put_result<S>(a, x, d, y, all.sum);
  }
}


/* Which part of the keys of which head of keys a block has, and its first row. */
struct part_of_block { int64_t head, part; int row; };

template <int ROWS> INLINE part_of_block part_of (const few_queries &f, unsigned block) {
  const unsigned rows = (unsigned)f.row_blocks, parts = (unsigned)f.parts;
  return {block / rows / parts, block / rows % parts, (int)(block % rows) * f.groups * ROWS};
}


/* A block: rows of a head of keys, from the first on, and a part of its keys. */
template <class S, int ROWS, int G>
KERNEL __launch_bounds__(THREADS, (few_shape<S, ROWS, G>::BLOCKS))
attend_part (__grid_constant__ const few_queries f) {
  typedef COMPUTED(S) T;
  typedef few_shape<S, ROWS, G> shape;
  SHARED(unsigned char, memory);
  row_state<T> *states = (row_state<T> *)(memory + WARPS * shape::BYTES);
  part_of_block own_part = part_of<ROWS>(f, blockIdx.x);
  const int first_row = own_part.row + warp_of() % f.groups * ROWS;
  unsigned char *own = memory + warp_of() * shape::BYTES;
  uint4 *ring = (uint4 *)own + lane_of();
  T *scores = (T *)(own + 2 * BATCH_BYTES);
  tile x = query_of(f, own_part.head, 0), after = x;
  few_tiles tiles = {(unsigned)(own_part.part * f.part_keys + warp_of() / f.groups * SIDE(T)),
                     (unsigned)min((own_part.part + 1) * f.part_keys, f.a.S),
                     (unsigned)(WARPS / f.groups * SIDE(T)), 0, 0};
  few_progress<T, ROWS> p;
  few_source<S> coming = {};
  bool all = false, there = false, more = first_row < f.rows;
  begin_rows<shape, S, ROWS, G>(p, f, x, first_row);
  while (more) {
    bool all_after = false;
    more = next_tile<T>(tiles, f.a.mask, after, all_after);
    attend_tile<shape, S, ROWS, G>(p, f, x, there, all, coming, after, more, first_row, ring,
                                   scores);
    x.j = after.j;
    all = all_after;
    there = more;
  }
  ptx_wait<0>();
  __syncwarp();                                /* nobody reads the ring any more */
  leave_sums<shape, ROWS>(p, (T *)own, states + warp_of() * ROWS);
  __syncthreads();
  own_part = part_of<ROWS>(f, ptx_anew(blockIdx.x));     /* rather than kept beside the sums */
  for (int n = warp_of(); n < f.groups * ROWS && own_part.row + n < f.rows; n += WARPS)
    join_warps<shape, S, ROWS>(f, own_part.head, own_part.part, own_part.row + n, n, memory,
                               states);
}

/* }================================================================== */


/* A block for each row: its parts' sums, in order. */
template <class S>
KERNEL __launch_bounds__(THREADS) join_parts (__grid_constant__ const few_queries f) {
  typedef COMPUTED(S) T;
  SHARED(T, share);                            /* of each part; below 0: it has no sums */
  T *buffer = share + f.parts;
  const attend &a = f.a;
  const int64_t head = blockIdx.x / f.rows, row = blockIdx.x % f.rows;
  const row_state<T> *states = (const row_state<T> *)f.states + head * f.parts * f.rows + row;
  const T *sums = (const T *)f.sums + (head * f.parts * f.rows + row) * a.Dv;
  row_state<T> all = {-(T)INFINITY, 0};
  for (int n = (int)threadIdx.x; n < f.parts; n += THREADS)
    all.top = larger()(states[(int64_t)n * f.rows].top, all.top);
  all.top = block_reduce(larger(), all.top, buffer);
  for (int n = (int)threadIdx.x; n < f.parts; n += THREADS) {
    const row_state<T> s = states[(int64_t)n * f.rows];
    const T factor = share_of(s, all.top);
    share[n] = is_empty(s) ? (T)-1 : factor;
    all.sum += s.sum * factor;
  }
  all.sum = block_sum(all.sum, buffer);
  __syncthreads();                             /* all shares are there */
  const tile x = query_of(f, head, (int)row);
  if (threadIdx.x == 0) put_lse(a, x, all);
  for (int64_t d = threadIdx.x; d < a.Dv; d += THREADS) {
    T y = 0;
#pragma unroll 8
    for (int n = 0; n < f.parts; n++)
      if (!(share[n] < 0)) y += share[n] * sums[(int64_t)n * f.rows * a.Dv + d];
    put_result<S>(a, x, d, y, all.sum);
  }
}


/*
** {==================================================================
** Host
** ===================================================================
*/

static int64_t parts_of (const few_queries &f) {
  return max((f.a.S + f.part_keys - 1) / f.part_keys, (int64_t)1);
}


/* Parts depend on S and Hk alone: a sequence has the same results in every batch. */
static few_queries few_of (const attend &a, int most_rows) {
  few_queries f = {};
  const int64_t rows = a.shared * a.T;
  f.a = a;
  f.Hk = a.H / max(a.shared, (int64_t)1);
  f.rows = (int)rows;
  f.groups = 1;
  while (f.groups < WARPS && f.groups * most_rows < rows) f.groups *= 2;
  f.row_blocks = (int)((rows + f.groups * most_rows - 1) / (f.groups * most_rows));
  f.part_keys = PART_KEYS;
  while (parts_of(f) > 1 && parts_of(f) * f.Hk > PART_BLOCKS) f.part_keys *= 2;
  f.parts = (int)parts_of(f);
  return f;
}


bool attention_fits_few (const cuda *, const attend &a) {
  if (a.T > FEW_QUERIES || max(a.D, a.Dv) > FEW_DEPTH) return false;
  if (a.drop != 0 || a.shared * a.T > INT32_MAX) return false;
  const few_queries f = few_of(a, 1);          /* no type has more blocks */
  return (double)a.B * (double)f.Hk * f.parts * f.rows <= INT32_MAX;
}


/* Do rows begin where 16 bytes are aligned, and are they a multiple of that? */
template <class S> static bool rows_fit (const head_operand &o, int64_t columns) {
  const int64_t width = 16 / (int64_t)sizeof(S);
  bool fit = o.stride[3] == 1 && columns % width == 0 && (uintptr_t)o.data % 16 == 0;
  for (int i = 0; i < 3; i++) fit &= o.stride[i] % width == 0;
  return fit;
}


template <class S, int ROWS, int G> static const char *attend_parts (cuda *self, const attend &a) {
  typedef COMPUTED(S) T;
  few_queries f = few_of(a, ROWS);
  const int64_t heads = a.B * f.Hk, sums = heads * f.parts * f.rows;
  f.keys_fit = rows_fit<S>(a.k, a.D);
  f.values_fit = rows_fit<S>(a.v, a.Dv);
  if (f.parts > 1) {
    f.states = cuda_scratch(self, (size_t)sums * sizeof(row_state<T>));
    f.sums = cuda_scratch(self, (size_t)max(sums * a.Dv, (int64_t)1) * sizeof(T));
    if (f.states == NULL || f.sums == NULL) return cuda_no_memory;
  }
  const char *why = launch(self, dim3((unsigned)(heads * f.parts * f.row_blocks)), dim3(THREADS),
                           few_shape<S, ROWS, G>::SHARED_BYTES, attend_part<S, ROWS, G>, f);
  if (why != NULL || f.parts == 1) return why;
  return launch(self, dim3((unsigned)(heads * f.rows)), dim3(THREADS),
                (size_t)(f.parts + MOST_WARPS) * sizeof(T), join_parts<S>, f);
}


/* Of doubles, which seldom come, there are the largest shapes alone. */
template <class S> constexpr bool has_shapes = sizeof(S) < sizeof(double);

template <class S, int G> static const char *attend_rows (cuda *self, const attend &a) {
  constexpr int MOST = MOST_ROWS(COMPUTED(S));
  const int64_t rows = a.shared * a.T;
  if (rows <= 1) return attend_parts<S, 1, G>(self, a);
  if constexpr (has_shapes<S>)
    if (rows <= MOST / 2) return attend_parts<S, MOST / 2, G>(self, a);
  return attend_parts<S, MOST, G>(self, a);
}


template <class S> static const char *attend_few (cuda *self, attend a) {
  const char *why = cuda_find_ids(self, &a.mask, a.B, SIDE(COMPUTED(S)));
  if (why != NULL) return why;
  const int64_t most = max(a.D, a.Dv);
  if constexpr (has_shapes<S>) {
    if (most <= 8 * PIECE) return attend_rows<S, 8>(self, a);
    if (most <= 16 * PIECE) return attend_rows<S, 16>(self, a);
  }
  return attend_rows<S, 32>(self, a);
}


const char *attention_few (cuda *self, const attend &a) {
  FOR_FLOAT(a.q.type, return attend_few<S>(self, a))
  return attention_refuse(self, a);
}

/* }================================================================== */
