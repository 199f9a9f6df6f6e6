/*
** fast.h - attention on tensor cores, of halves: tiles in shared memory, their products, and the
** softmax of a tile's scores. fast_mask.h says which pairs may attend, fast_scores.h has what is
** done to scores and weights besides; fast_forward.h is the kernel.
**
** A block has a tile of queries, which stays in shared memory, and iterates over tiles of keys. A
** warp has PIECES of 16 queries each, and all keys of a tile: their scores are accumulators of
** mma.sync, which, rounded to halves, are the left factors of the product with the values.
**
** A row of a tile in shared memory is WIDTH halves, in chunks of 16 bytes. Chunk c of row r lies at
** c ^ r % 8 within its 128 bytes: see turn_of.
*/

#ifndef cuda_fast_h
#define cuda_fast_h

#include "cuda/attention/ways.h"
#include "cuda/mma.h"

/* The tiles of heads of up to WIDTH numbers: 64, 128 or 256. RICH: see fast_scores.h. */
template <int WIDTH_, bool RICH_> struct fast {
  static constexpr int WIDTH = WIDTH_;
  static constexpr bool RICH = RICH_, OF_KEYS = false;     /* rows are queries, columns keys */
  static constexpr int PIECES = WIDTH <= 128 && !RICH ? 2 : 1;     /* more, and it would spill */
  static constexpr int WARPS = WIDTH == 256 || PIECES == 2 ? 4 : 8;
  static constexpr int ROWS = 16 * PIECES * WARPS;
  static constexpr int STEP = WIDTH == 64 || (WIDTH == 128 && RICH) ? 64 : 32; /* keys of a tile */
  static constexpr int THREADS = 32 * WARPS;
  static constexpr int BLOCKS = WARPS == 8 ? 1 : 2;        /* of a multiprocessor, at least */
  static constexpr int ROW = 2 * WIDTH;                    /* bytes */
};

template <int WIDTH, bool RICH> struct tiling<fast<WIDTH, RICH>> {
  static constexpr int rows = fast<WIDTH, RICH>::ROWS, keys = fast<WIDTH, RICH>::STEP;
};

#define FAST_WIDTH 256             /* the most */

/* Does a tile lie in columns of 64 halves, as wgmma.h has them? Else its rows are unbroken. */
template <class G> struct lies { static constexpr bool in_columns = false; };


/*
** {==================================================================
** Tiles in shared memory
** ===================================================================
*/

/* Tiles of queries, keys and values, by their addresses in shared memory. */
template <class G> INLINE uint32_t queries_at (uint32_t start) { return start; }
template <class G> INLINE uint32_t keys_at (uint32_t start) { return start + G::ROWS * G::ROW; }
template <class G> INLINE uint32_t values_at (uint32_t start) {
  return start + (G::ROWS + G::STEP) * G::ROW;
}
template <class G> HOST_TOO int tiles_bytes (void) { return (G::ROWS + 2 * G::STEP) * G::ROW; }


/* Moves x to the next tile of a line: its kind, or NONE behind the last. */
template <class G, bool CALLS = calls_tree<G>, int DI, int DJ>
INLINE unsigned next_of_line (tile_line<DI, DJ> &l, const attend_mask &m, tile &x) {
  unsigned kind = TILE_NONE;
#pragma unroll 1
  while (kind == TILE_NONE && more_tiles<G, CALLS>(l, m, x)) kind = next_tile<G>(l, x);
  return kind;
}


/* Bytes from 64 halves of a tile of so many rows to the next 64. */
template <class G> HOST_TOO int to_next_column (int rows) {
  return lies<G>::in_columns ? rows * G::ROW : 128;
}

/* Columns are computed 32 at a time, as few as there are. */
INLINE bool beyond (int column, int64_t columns) {
  return column % 32 == 0 && column >= columns;
}


/*
** How far the chunks of row r are turned, of which 3 bits count: so that of halves 8 rows of one
** chunk touch all banks once; of floats both two rows of four chunks from an even row on, and two
** chunks of four rows that are all even or all odd.
*/
template <class S> INLINE int turn_of (int r) {
  return sizeof(S) == 2 ? r : (r & 6) ^ (r & 1) << 2;
}


/*
** Begins to copy ROWS rows from row 'first' on; those from row n on, and columns from 'columns'
** on, become 0, and nothing is read of them. Columns that no product reads stay as they are: those
** of warpgroups read all.
*/
template <class S, class G, int ROWS>
INLINE void copy_rows (uint32_t to, const head_operand &o, int64_t start, int first, int n,
                       int columns) {
  constexpr int SIZE = (int)sizeof(S), CHUNK = 16 / SIZE;
  constexpr int CHUNKS = G::WIDTH / CHUNK, STEP = G::THREADS / CHUNKS;
  constexpr bool ALL = lies<G>::in_columns;
  const int chunk = (int)threadIdx.x % CHUNKS, row = (int)threadIdx.x / CHUNKS;
  const int bytes = min(max(SIZE * columns - 16 * chunk, 0), 16);
  const S *from = (const S *)o.data + start + (first + row) * o.stride[2] + CHUNK * chunk;
  if (!ALL && chunk * CHUNK >= (columns + 31) / 32 * 32) return;
  EACH(k, (ROWS + STEP - 1) / STEP) {
    const int r = row + k * STEP;
    if (ROWS % STEP != 0 && r >= ROWS) break;
    const int place = (chunk >> 3) * to_next_column<G>(ROWS) + ((chunk ^ turn_of<S>(r)) & 7) * 16;
    ptx_copy(to + (uint32_t)(r * G::ROW + place), from, first + r < n ? bytes : 0);
    from += STEP * o.stride[2];
  }
}


/*
** Where this lane reads a row's chunk of four matrices of 8 by 8. Those of 'across' are rows 0 to
** 15 and two chunks of each, the rows varying first; those of 'along' the same, the chunks varying
** first.
*/
template <class G> INLINE uint32_t lane_across (uint32_t tile) {
  const int l = lane_of();
  return tile + (uint32_t)((l & 15) * G::ROW + (((l >> 4) ^ l) & 7) * 16);
}

template <class G> INLINE uint32_t lane_along (uint32_t tile) {
  const int l = lane_of();
  return tile + (uint32_t)(((l & 7) + (l >> 4) * 8) * G::ROW + (((l >> 3 & 1) ^ l) & 7) * 16);
}

/* The same for rows from 16 'rows' on and chunks from 2 'pair' on. */
template <class G> INLINE uint32_t matrices_at (uint32_t lane, int rows, int pair) {
  return (lane ^ (uint32_t)((pair & 3) << 5)) +
         (uint32_t)((pair >> 2) * to_next_column<G>(tiling<G>::keys) + rows * 16 * G::ROW);
}

/* }================================================================== */


/*
** {==================================================================
** A warp's share: lane l has of each 16 by 8 results rows l / 4 and l / 4 + 8, and of both columns
** 2 (l % 4) and the next
** ===================================================================
*/

/* Scores of a tile, then weights: at[piece][8 keys][]. */
template <class G> struct shares { float at[G::PIECES][G::STEP / 8][4]; };

/* Queries after the keys so far: an online softmax. */
template <class G> struct rows_so_far {
  float y[G::PIECES][G::WIDTH / 8][4];         /* the weighted sum of values */
  float top[G::PIECES][2];         /* the largest score; in this lane alone, the sum of weights */
  float sum[G::PIECES][2];
};

/* The first of this lane's rows in a tile, and of its columns. */
template <class G> INLINE int lane_row (int piece) {
  return ((int)threadIdx.x / 32 * G::PIECES + piece) * 16 + lane_of() / 4;
}
INLINE int lane_column (void) { return lane_of() % 4 * 2; }

/* Where rows are queries, the first of this lane's. */
template <class G> INLINE int own_row (const tile &x, int piece) {
  return x.i + lane_row<G>(piece);
}


template <class G> INLINE void begin_rows (rows_so_far<G> &p) {
  EACH(i, G::PIECES) {
    EACH(c, G::WIDTH / 8) EACH(e, 4) p.y[i][c][e] = 0;
    EACH(h, 2) {
      p.top[i][h] = -INFINITY;
      p.sum[i][h] = 0;
    }
  }
}


/* s = q k^T of this warp's rows of one tile and all of another, of numbers up to 'depth'. */
template <class S, class G>
INLINE void multiply_queries (shares<G> &s, uint32_t queries, uint32_t keys, int64_t depth) {
  const int warp = (int)threadIdx.x / 32;
  const uint32_t q = lane_across<G>(queries) + warp * G::PIECES * 16 * G::ROW;
  const uint32_t k = lane_along<G>(keys);
  EACH(i, G::PIECES) EACH(j, G::STEP / 8) EACH(e, 4) s.at[i][j][e] = 0;
  EACH(d, G::WIDTH / 16) {
    uint32_t a[G::PIECES][4];
    if (beyond(16 * d, depth)) break;
    EACH(i, G::PIECES) ptx_load_matrices(a[i], matrices_at<G>(q, i, d));
    EACH(j, G::STEP / 16) {
      uint32_t b[4];
      ptx_load_matrices(b, matrices_at<G>(k, j, d));
      EACH(i, G::PIECES) {
        ptx_multiply(s.at[i][2 * j], a[i], b[0], b[1], S());
        ptx_multiply(s.at[i][2 * j + 1], a[i], b[2], b[3], S());
      }
    }
  }
}


/* Over the four lanes that share a row. */
template <class F> INLINE float quad_reduce (F f, float x) {
  x = f(x, __shfl_xor_sync(FULL, x, 1));
  return f(x, __shfl_xor_sync(FULL, x, 2));
}

INLINE float larger_of (float x, float y) { return fmaxf(x, y); }      /* of a number and NaN: it */


/* Of upper rows (h is 0) or lower ones of a piece: how their sums fade. */
template <class G>
INLINE float weigh_row (rows_so_far<G> &p, shares<G> &s, int i, int h, float factor) {
  float top = p.top[i][h], sum = 0;
  EACH(j, G::STEP / 8) top = fmaxf(top, fmaxf(s.at[i][j][2 * h], s.at[i][j][2 * h + 1]));
  top = quad_reduce(larger_of, top);
  const float base = top == -INFINITY ? 0.0f : __fmul_rn(top, factor);
  EACH(j, G::STEP / 8) EACH(e, 2) {
    float &x = s.at[i][j][2 * h + e];
    x = ptx_exp2(fmaf(x, factor, -base));
    sum += x;
  }
  const float fade = ptx_exp2(__fadd_rn(__fmul_rn(p.top[i][h], factor), -base));
  p.sum[i][h] = fmaf(p.sum[i][h], fade, sum);
  p.top[i][h] = top;
  return fade;
}


/*
** Scores become weights relative to the largest so far, and the sums so far are rescaled. Scores
** times 'factor', which is above 0, are exponents of 2. A tile of -inf changes nothing: the sums
** fade by 1, as no product is fused there. Where all of a warp's do, they are left as they are: the
** largest score of a row soon rises no more.
*/
template <class G> INLINE void online_softmax (rows_so_far<G> &p, shares<G> &s, float factor) {
  EACH(i, G::PIECES) {
    float fade[2];
    EACH(h, 2) fade[h] = weigh_row(p, s, i, h, factor);
    if (__any_sync(FULL, fade[0] != 1 || fade[1] != 1))
      EACH(c, G::WIDTH / 8) EACH(e, 4) p.y[i][c][e] *= fade[e / 2];
  }
}


/* The weights of 16 keys as a left factor. */
template <class S> INLINE void pack_weights (uint32_t (&a)[4], const float (&s)[4],
                                             const float (&next)[4]) {
  a[0] = ptx_pack(s[0], s[1], S());
  a[1] = ptx_pack(s[2], s[3], S());
  a[2] = ptx_pack(next[0], next[1], S());
  a[3] = ptx_pack(next[2], next[3], S());
}


/* y += weights times the values of a tile, of columns up to 'columns'. */
template <class S, class G>
INLINE void add_values (float (&y)[G::PIECES][G::WIDTH / 8][4], const shares<G> &s, uint32_t values,
                        int64_t columns) {
  const uint32_t v = lane_across<G>(values);
  uint32_t a[G::PIECES][G::STEP / 16][4];
  EACH(i, G::PIECES) EACH(k, G::STEP / 16)
    pack_weights<S>(a[i][k], s.at[i][2 * k], s.at[i][2 * k + 1]);
  EACH(c, G::WIDTH / 16) {
    if (beyond(16 * c, columns)) break;
    EACH(k, G::STEP / 16) {
      uint32_t b[4];
      ptx_load_transposed(b, matrices_at<G>(v, k, c));
      EACH(i, G::PIECES) {
        ptx_multiply(y[i][2 * c], a[i][k], b[0], b[1], S());
        ptx_multiply(y[i][2 * c + 1], a[i][k], b[2], b[3], S());
      }
    }
  }
}


/* Is one of this thread's results not finite? */
template <class G> INLINE bool not_all_finite (const float (&y)[G::PIECES][G::WIDTH / 8][4]) {
  float zero = 0;
  EACH(i, G::PIECES) EACH(c, G::WIDTH / 8) EACH(e, 4) zero = fmaf(y[i][c][e], 0.0f, zero);
  return zero != 0;
}


/* May neighbours of a row of results be stored at once, from an even column on? */
INLINE bool has_pairs (const head_operand &o, const void *row) {
  return o.stride[3] == 1 && ((uintptr_t)row & 3) == 0;
}

/* Two neighbours of a row of results. */
template <class S>
INLINE void store_pair (S *row, const head_operand &o, int64_t column, int64_t columns, float low,
                        float high, bool paired) {
  const S first = convert<S>(low), second = convert<S>(high);
  if (paired && column + 1 < columns) {
    *(uint32_t *)(row + column) = (uint32_t)first.bits | (uint32_t)second.bits << 16;
    return;
  }
  if (column < columns) row[column * o.stride[3]] = first;
  if (column + 1 < columns) row[(column + 1) * o.stride[3]] = second;
}


/* The next row of a lane's share, of which it has two in each piece, comes to the first place: so
   loops over rows have their code once. */
template <class G, int PIECES> INLINE void next_row (float (&y)[PIECES][G::WIDTH / 8][4]) {
  EACH(c, G::WIDTH / 8) EACH(i, PIECES) EACH(e, 2) {
    y[i][c][e] = y[i][c][2 + e];
    if (i + 1 < PIECES) y[i][c][2 + e] = y[i + 1][c][e];
  }
}


/*
** Stores a lane's share of its upper row of results, times 'factor'. Where it has no pairs, which
** is seldom, each one comes to the first place, so that its code is there once.
*/
template <class S, class G>
INLINE void store_row (const head_operand &o, int64_t start, int64_t columns,
                       const float (&y)[G::WIDTH / 8][4], float factor) {
  S *to = (S *)o.data + start;
  const int own = lane_column();
  uint32_t pairs[G::WIDTH / 8];
  EACH(c, G::WIDTH / 8) pairs[c] = ptx_pack(y[c][0] * factor, y[c][1] * factor, S());
  if (columns % 2 == 0 && has_pairs(o, to)) {
    EACH(c, G::WIDTH / 8) {
      if (beyond(8 * c, columns)) break;
      if (8 * c + own < columns) *(uint32_t *)(to + 8 * c + own) = pairs[c];
    }
    return;
  }
#pragma unroll 1
  for (int c = own; c < columns; c += 8) {
    to[c * o.stride[3]] = S{(uint16_t)pairs[0]};
    if (c + 1 < columns) to[(c + 1) * o.stride[3]] = S{(uint16_t)(pairs[0] >> 16)};
    EACH(k, G::WIDTH / 8 - 1) pairs[k] = pairs[k + 1];
  }
}

/* }================================================================== */


/*
** {==================================================================
** Values that are not finite, of which a weight of 0 takes nothing (as exact attention has it:
** without a mask 0 times them is NaN). A tensor core takes NaN from all keys of its 16. So values
** that are not finite are multiplied as 0, and counted: marks of 1, 2^7 and 2^14 for inf, -inf and
** NaN, times 1 for each weight that is not 0.
** ===================================================================
*/

template <class S> struct half_bits;
template <> struct half_bits<bfloat16> { static constexpr uint32_t inf = 0x7f80; };
template <> struct half_bits<float16> { static constexpr uint32_t inf = 0x7c00; };

#define MARK_NEGATIVE 128.0f       /* more than the keys of a tile */
#define MARK_NAN 16384.0f

template <class S> INLINE uint32_t mark_of (uint32_t half) {
  const uint32_t size = half & 0x7fff, inf = half_bits<S>::inf;
  const float mark = size < inf ? 0.0f : size > inf ? MARK_NAN : half >> 15 ? MARK_NEGATIVE : 1.0f;
  return ptx_pack(mark, 0.0f, S()) & 0xffff;
}

/* Two halves become finite ones, and what is left of them their marks. */
template <class S> INLINE uint32_t take_marks (uint32_t &pair) {
  const uint32_t low = mark_of<S>(pair & 0xffff), high = mark_of<S>(pair >> 16);
  pair &= (low == 0 ? 0xffffu : 0u) | (high == 0 ? 0xffff0000u : 0u);
  return low | high << 16;
}

/* The summand of y that a sum of marks stands for. */
INLINE float value_of_marks (float marks) {
  const int n = (int)fminf(marks, MARK_NAN);
  const bool negative = n >= (int)MARK_NEGATIVE, positive = n % (int)MARK_NEGATIVE != 0;
  if (marks >= MARK_NAN || (negative && positive)) return NAN;
  return negative ? -INFINITY : positive ? INFINITY : 0.0f;
}


INLINE float taken (float weight, float zero) { return weight == 0 ? zero : 1.0f; }

/*
** Products of any numbers are seldom needed, and much to compile. Their loops over keys are not
** unrolled, and so find weights in the first places: afterwards those of the 8 'by' next keys move
** there. So do sums, of which the first ones become the last.
*/
template <int by, class G> INLINE void next_weights (shares<G> &s) {
  EACH(i, G::PIECES) EACH(j, G::STEP / 8 - by) EACH(e, 4) s.at[i][j][e] = s.at[i][j + by][e];
}

template <class G> INLINE void next_sums (float (&y)[G::WIDTH / 8][4]) {
  EACH(e, 4) {
    const float first[2] = {y[0][e], y[1][e]};
    EACH(c, G::WIDTH / 8 - 2) y[c][e] = y[c + 2][e];
    EACH(c, 2) y[G::WIDTH / 8 - 2 + c][e] = first[c];
  }
}

/* The n-th key, and its weights for a quad's upper row (h is 0) or lower one. */
INLINE int rare_key (int n) { return (n & ~7) | (n & 3) << 1 | (n >> 2 & 1); }
template <class G> INLINE float rare_weight (const shares<G> &s, int h, int n) {
  const float own = (n & 4) == 0 ? s.at[0][0][2 * h] : s.at[0][0][2 * h + 1];
  return __shfl_sync(FULL, own, n, 4);
}


/* As add_values; 'zero' counts the marks that a weight of 0 takes: 0, or enough to be NaN. */
template <class S, class G>
INLINE void add_any_values (rows_so_far<G> &p, shares<G> s, uint32_t values, int64_t columns,
                            float zero) {
  const uint32_t v = lane_across<G>(values);
  const int there = (int)(columns + 31) / 32 * 2;        /* of 16 columns each */
#pragma unroll 1
  for (int k = 0; k < G::STEP / 16; k++) {
    EACH(i, G::PIECES) {
      const float (&s0)[4] = s.at[i][0], (&s1)[4] = s.at[i][1];
      uint32_t a[4], takes[4];
      pack_weights<S>(a, s0, s1);
      EACH(e, 2) {
        takes[e] = ptx_pack(taken(s0[2 * e], zero), taken(s0[2 * e + 1], zero), S());
        takes[2 + e] = ptx_pack(taken(s1[2 * e], zero), taken(s1[2 * e + 1], zero), S());
      }
#pragma unroll 1
      for (int c = 0; c < G::WIDTH / 16; c++, next_sums<G>(p.y[i])) {
        uint32_t b[4];
        if (c >= there) continue;
        ptx_load_transposed(b, matrices_at<G>(v, k, c));
        EACH(n, 2) {
          float marks[4] = {};
          const uint32_t low = take_marks<S>(b[2 * n]), high = take_marks<S>(b[2 * n + 1]);
          ptx_multiply(p.y[i][n], a, b[2 * n], b[2 * n + 1], S());
          ptx_multiply(marks, takes, low, high, S());
          EACH(e, 4) p.y[i][n][e] += value_of_marks(marks[e]);
        }
      }
    }
    next_weights<2>(s);
  }
}

/* }================================================================== */

#endif
