/*
** fast_floats.h - attention of floats on tensor cores: what fast_forward.h does to tiles, where
** TERMS products of TF32 stand for one of floats. product/float.h says how exact they are.
**
** Which of a product's summands lie where does not matter, if they do in both of its factors; so
** all reads are of 16 bytes. Of 16 numbers of a query and of a key a lane has four neighbours, of
** which the first two are for one product, the others for the next. Of 8 keys it has the weights
** of two neighbours, as they lie after the scores, and of their values four neighbours each, for
** four products, whose columns 2 (l % 4) and the next are therefore columns 8 (l % 4) to 7 more of
** the results: see float_column.
*/

#ifndef cuda_fast_floats_h
#define cuda_fast_floats_h

#include "cuda/attention/fast.h"

/* The tiles for heads of up to WIDTH numbers. */
template <int WIDTH_, bool RICH_, int TERMS_> struct fast_floats {
  static constexpr int WIDTH = WIDTH_, TERMS = TERMS_;
  static constexpr bool RICH = RICH_, OF_KEYS = false;
  static constexpr int PIECES = 1, WARPS = 4, ROWS = 16 * WARPS, THREADS = 32 * WARPS;
  static constexpr int STEP = 4096 / WIDTH;                /* keys of a tile */
  static constexpr int BLOCKS = 2;                         /* of a multiprocessor, at least */
  static constexpr int ROW = 4 * WIDTH;                    /* bytes */
};

template <int WIDTH, bool RICH, int TERMS> struct tiling<fast_floats<WIDTH, RICH, TERMS>> {
  typedef fast_floats<WIDTH, RICH, TERMS> G;
  static constexpr int rows = G::ROWS, keys = G::STEP;
};

template <int WIDTH, bool RICH, int TERMS>
constexpr bool calls_tree<fast_floats<WIDTH, RICH, TERMS>> = RICH || TERMS > 1;


/*
** {==================================================================
** Products of TF32
** ===================================================================
*/

/* Four factors of this lane: k number i for one product and the next, in .x .y and .z .w. */
INLINE void load_factors (factors<4> &f, uint32_t at) {
  const float4 four = ptx_load_floats(at);
  set_factor(f, 0, four.x);
  set_factor(f, 1, four.y);
  set_factor(f, 2, four.z);
  set_factor(f, 3, four.w);
}


/* c[j] += a b[j], where b[j] are factors 2 'half' and the next; small products first. */
template <int TERMS, int N>
INLINE void multiply_factors (float (*c)[4], const factors<4> &a, const factors<4> (&b)[N],
                              int half) {
  const int k = 2 * half;
  if (TERMS == 3) {
    EACH(j, N) ptx_multiply_tf32(c[j], a.low, b[j].high[k], b[j].high[k + 1]);
    EACH(j, N) ptx_multiply_tf32(c[j], a.high, b[j].low[k], b[j].low[k + 1]);
  }
  EACH(j, N) ptx_multiply_tf32(c[j], a.high, b[j].high[k], b[j].high[k + 1]);
}


/* Of two rows' fours the left factor of one product. */
INLINE void left_factor (factors<4> &a, const factors<4> (&row)[2], int half) {
  EACH(r, 4) {
    a.high[r] = row[r % 2].high[2 * half + r / 2];
    a.low[r] = row[r % 2].low[2 * half + r / 2];
  }
}

/* }================================================================== */


/*
** {==================================================================
** Tiles
** ===================================================================
*/

/* Where this lane reads a row's fours: row l / 4, chunk l % 4. */
template <class G> INLINE uint32_t lane_rows (uint32_t tile) {
  const int row = lane_of() / 4;
  return tile + (uint32_t)(row * G::ROW + ((lane_of() % 4 ^ turn_of<float>(row)) & 7) * 16);
}

/* Where it reads values: row 2 (l % 4), chunk l / 4. */
template <class G> INLINE uint32_t lane_values (uint32_t tile) {
  const int row = lane_of() % 4 * 2;
  return tile + (uint32_t)(row * G::ROW + ((lane_of() / 4 ^ turn_of<float>(row)) & 7) * 16);
}

/* The first of the four columns that this lane has of 32, for element e of a share; see above. */
INLINE int float_column (int e) { return lane_of() % 4 * 8 + e % 2 * 4; }


/* s = q k^T, the products of 32 numbers apart, for tensor cores round towards 0. */
template <class G>
INLINE void multiply_float_queries (shares<G> &s, uint32_t queries, uint32_t keys,
                                    int64_t depth) {
  constexpr int ABREAST = G::STEP / 8 < 4 ? G::STEP / 8 : 4;
  const uint32_t q = lane_rows<G>(queries) + threadIdx.x / 32 * 16 * G::ROW;
  const uint32_t k = lane_rows<G>(keys);
  EACH(j, G::STEP / 8) EACH(e, 4) s.at[0][j][e] = 0;
  EACH(d, G::WIDTH / 32) {
    float sum[G::STEP / 8][4] = {};
    if (beyond(32 * d, depth)) break;
    EACH(h, 2) {
      const uint32_t chunk = (uint32_t)(h * 64);
      factors<4> rows[2], a[2];
      EACH(r, 2) load_factors(rows[r], (q ^ chunk) + (uint32_t)(d * 128 + r * 8 * G::ROW));
      EACH(i, 2) left_factor(a[i], rows, i);
      EACH(n, G::STEP / 8 / ABREAST) {
        factors<4> b[ABREAST];
        EACH(j, ABREAST)
          load_factors(b[j], (k ^ chunk) + (uint32_t)(d * 128 + (ABREAST * n + j) * 8 * G::ROW));
        EACH(i, 2) multiply_factors<G::TERMS>(sum + ABREAST * n, a[i], b, i);
      }
    }
    EACH(j, G::STEP / 8) EACH(e, 4) s.at[0][j][e] += sum[j][e];
  }
}


/* y += weights times the values of a tile. */
template <class G>
INLINE void add_float_values (float (&y)[1][G::WIDTH / 8][4], const shares<G> &s, uint32_t values,
                              int64_t columns) {
  const uint32_t v = lane_values<G>(values);
  factors<4> a[G::STEP / 8];
  EACH(k, G::STEP / 8) EACH(r, 4) set_factor(a[k], r, s.at[0][k][r % 2 * 2 + r / 2]);
  EACH(c, G::WIDTH / 32) {
    float sum[4][4] = {};
    if (beyond(32 * c, columns)) break;
    EACH(k, G::STEP / 8) {
      factors<4> row[2], b[4];
      EACH(e, 2)
        load_factors(row[e], (v ^ (uint32_t)(e * 64)) + (uint32_t)(c * 128 + (8 * k + e) * G::ROW));
      EACH(j, 4) EACH(e, 2) {
        b[j].high[e] = row[e].high[j];
        b[j].low[e] = row[e].low[j];
      }
      multiply_factors<G::TERMS>(sum, a[k], b, 0);
    }
    EACH(j, 4) EACH(e, 4) y[0][4 * c + j][e] += sum[j][e];
  }
}


/* As store_row, by fours. */
template <class G>
INLINE void store_floats (const head_operand &o, int64_t start, int64_t columns,
                          const float (&y)[G::WIDTH / 8][4], float factor) {
  float *to = (float *)o.data + start;
  float4 fours[G::WIDTH / 16];
  EACH(n, G::WIDTH / 16) {
    const int first = n / 2 * 4, e = n % 2;
    fours[n] = float4{y[first][e] * factor, y[first + 1][e] * factor, y[first + 2][e] * factor,
                      y[first + 3][e] * factor};
  }
  if (columns % 4 == 0 && o.stride[3] == 1 && ((uintptr_t)to & 15) == 0) {
    EACH(n, G::WIDTH / 16) {
      const int column = n / 2 * 32 + float_column(n);
      if (beyond(n * 16, columns)) break;
      if (column < columns) *(float4 *)(to + column) = fours[n];
    }
    return;
  }
#pragma unroll 1
  for (int n = 0; n < G::WIDTH / 16; n++) {
    const int column = n / 2 * 32 + float_column(n);
    const float four[4] = {fours[0].x, fours[0].y, fours[0].z, fours[0].w};
    EACH(j, 4) if (column + j < columns) to[(column + j) * o.stride[3]] = four[j];
    EACH(k, G::WIDTH / 16 - 1) fours[k] = fours[k + 1];
  }
}

/* }================================================================== */


/*
** {==================================================================
** Numbers that are not finite, or too large for TF32, of which tensor cores make NaN: by fused
** multiplications and additions, which are slower
** ===================================================================
*/

template <class G> INLINE float4 floats_of (uint32_t tile, int row, int chunk) {
  return ptx_load_floats(tile + (uint32_t)(row * G::ROW + (chunk & ~7) * 16
                                           + ((chunk ^ turn_of<float>(row)) & 7) * 16));
}

INLINE float add_four (const float4 &x, const float4 &y, float sum) {
  return fmaf(x.w, y.w, fmaf(x.z, y.z, fmaf(x.y, y.y, fmaf(x.x, y.x, sum))));
}

/* As multiply_float_queries. */
template <class G>
INLINE void multiply_any_queries (shares<G> &s, uint32_t queries, uint32_t keys, int64_t depth) {
  EACH(j, G::STEP / 8) EACH(e, 4) s.at[0][j][e] = 0;
#pragma unroll 1
  for (int chunk = 0; 4 * chunk < depth; chunk++) {
    float4 q[2];
    EACH(h, 2) q[h] = floats_of<G>(queries, lane_row<G>(0) + 8 * h, chunk);
    EACH(j, G::STEP / 8) EACH(e, 2) {
      const float4 k = floats_of<G>(keys, 8 * j + lane_column() + e, chunk);
      EACH(h, 2) s.at[0][j][2 * h + e] = add_four(q[h], k, s.at[0][j][2 * h + e]);
    }
  }
}


/* As add_float_values; 'zeros': weights of 0 count. */
template <class G>
INLINE void add_any_floats (float (&y)[1][G::WIDTH / 8][4], shares<G> s, uint32_t values,
                            int64_t columns, bool zeros) {
#pragma unroll 1
  for (int n = 0; n < G::STEP; n++) {
    const int row = rare_key(n);
    float w[2];
    if (n > 0 && n % 8 == 0) next_weights<1>(s);
    EACH(h, 2) w[h] = rare_weight(s, h, n);
    EACH(c, G::WIDTH / 32) {
      if (beyond(32 * c, columns)) break;
      EACH(e, 2) {
        const float4 v = floats_of<G>(values, row, 8 * c + float_column(e) / 4);
        const float four[4] = {v.x, v.y, v.z, v.w};
        EACH(h, 2) EACH(j, 4) {
          float &sum = y[0][4 * c + j][2 * h + e];
          if (w[h] != 0 || zeros) sum = fmaf(w[h], four[j], sum);
        }
      }
    }
  }
}

/* }================================================================== */

#endif
