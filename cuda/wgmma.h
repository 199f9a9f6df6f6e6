/*
** wgmma.h - products of warpgroups, which tensor cores of compute capability 9.0a make beside the
** other work of their warps, and the same in plain C++ for the emulated GPU.
**
** A warpgroup is four warps, the first a multiple of four. All its threads call these functions
** with the same addresses. Between ptx_group_begin and the wait nobody may touch the accumulators,
** the registers of a left factor, or the tiles in shared memory.
**
** A product c += a b has
**   a (64, 16)    of halves: a tile's rows, or registers; each warp has 16 rows, as those of
**                 ptx_multiply lie
**   b (16, N)     of halves: a tile's rows are the columns of b, or its rows
**   c (64, N)     in floats: warp w has rows 16 w to 16 w + 15, as N / 8 products have them
**
** A tile lies in columns of 64 halves, 128 bytes a row, eight rows of which, at a multiple of 1024
** bytes, are a unit: chunk c of 16 bytes of row r lies at c ^ r % 8.
**
** PTX ISA 8.0, "Asynchronous Warpgroup Level Matrix Instructions"; the emulated GPU multiplies at
** once, so that it does not see who comes too early.
*/

#ifndef cuda_wgmma_h
#define cuda_wgmma_h

#include "cuda/mma.h"

/* Does code that is being compiled have these instructions; will any for a GPU of 9.0? */
#if !defined(__CUDACC__) || !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WARPGROUPS 1
#else
#define HAS_WARPGROUPS 0
#endif
#if !defined(__CUDACC__) || defined(HEED_WARPGROUPS)
#define WARPGROUPS_COMPILED true
#else
#define WARPGROUPS_COMPILED false
#endif

/*
** Where a tile's rows from 'at' on are: 'columns' bytes lie between its columns of 64 halves, where
** more than one is read.
*/
INLINE uint64_t matrix_of (uint32_t at, uint32_t columns) {
  const uint64_t start = (at & 0x3ffff) >> 4, between = columns >> 4, rows = 1024 >> 4;
  return start | between << 16 | rows << 32 | (uint64_t)1 << 62;
}


#ifdef __CUDACC__

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define WGMMA(...) asm volatile(__VA_ARGS__)
#else
#define WGMMA(...)
#endif

/* Before the first product after others have written accumulators or registers of factors. */
PTX void ptx_group_begin (void) {
  WGMMA("wgmma.fence.sync.aligned;" : : : "memory");
}

/* The products since the last call become a group. */
PTX void ptx_group_commit (void) {
  WGMMA("wgmma.commit_group.sync.aligned;" : : : "memory");
}

/* Waits until at most 'left' of the groups are at work: the latest ones. */
template <int left> PTX void ptx_group_wait (void) {
  WGMMA("wgmma.wait_group.sync.aligned %0;" : : "n"(left) : "memory");
}

/* Products behind a barrier see shared memory as the thread has written it. */
PTX void ptx_show_to_groups (void) {
  WGMMA("fence.proxy.async.shared::cta;" : : : "memory");
}


/* "{%0, %1, … }": the registers of c. */
#define TEN(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, " \
  "%" #t "8, %" #t "9, "
#define THIRTY TEN() TEN(1) TEN(2)
#define SIXTY THIRTY TEN(3) TEN(4) TEN(5)
#define NAMES_32 "{" THIRTY "%30, %31}"
#define NAMES_64 "{" SIXTY "%60, %61, %62, %63}"
#define NAMES_128 "{" SIXTY TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11) \
  "%120, %121, %122, %123, %124, %125, %126, %127}"

#define FOUR(c, i) "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
#define HELD_32(c, i) FOUR(c, i), FOUR(c, i + 1), FOUR(c, i + 2), FOUR(c, i + 3), FOUR(c, i + 4), \
  FOUR(c, i + 5), FOUR(c, i + 6), FOUR(c, i + 7)
#define HELD_64(c, i) HELD_32(c, i), HELD_32(c, i + 8)
#define HELD_128(c, i) HELD_64(c, i), HELD_64(c, i + 16)

/*
** For N columns, whose HELD registers are as many as n0 says, and n1 to n5 follow. 'more': c is
** added to, else it is set. 'b' of the first has the columns of b as rows, 'b' of the second its
** rows.
*/
#define GROUPS(S, type, N, HELD, n0, n1, n2, n3, n4, n5) \
  PTX void ptx_multiply_group (float (&c)[N / 8][4], uint64_t a, uint64_t b, bool more, S) { \
    WGMMA("{.reg .pred more;\nsetp.ne.b32 more, %" #n2 ", 0;\n" \
          "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " " NAMES_##HELD \
          ", %" #n0 ", %" #n1 ", more, 1, 1, 0, 0;}" \
          : HELD_##HELD(c, 0) : "l"(a), "l"(b), "r"((int)more)); \
  } \
  PTX void ptx_multiply_group (float (&c)[N / 8][4], const uint32_t (&a)[4], uint64_t b, \
                               bool more, S) { \
    WGMMA("{.reg .pred more;\nsetp.ne.b32 more, %" #n5 ", 0;\n" \
          "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " " NAMES_##HELD \
          ", {%" #n0 ", %" #n1 ", %" #n2 ", %" #n3 "}, %" #n4 ", more, 1, 1, 1;}" \
          : HELD_##HELD(c, 0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), \
            "r"((int)more)); \
  }
#define WIDTHS(S, type) \
  GROUPS(S, type, 64, 32, 32, 33, 34, 35, 36, 37) \
  GROUPS(S, type, 128, 64, 64, 65, 66, 67, 68, 69) \
  GROUPS(S, type, 256, 128, 128, 129, 130, 131, 132, 133)
WIDTHS(bfloat16, "bf16")
WIDTHS(float16, "f16")

#else

PTX void ptx_group_begin (void) {}
PTX void ptx_group_commit (void) {}
template <int left> PTX void ptx_group_wait (void) {}
PTX void ptx_show_to_groups (void) {}


/* The half of row r and column c of the tile that a matrix begins in. */
template <class S> PTX float emulated_of_tile (uint64_t matrix, int r, int c) {
  const uint32_t between = (uint32_t)(matrix >> 16 & 0x3fff) << 4;
  const uint32_t rows = (uint32_t)(matrix >> 32 & 0x3fff) << 4;
  const uint32_t at = ((uint32_t)(matrix & 0x3fff) << 4) + (uint32_t)(r / 8) * rows
                      + (uint32_t)(r % 8) * 128 + (uint32_t)(c / 64) * between
                      + (uint32_t)(c % 64) * 2;
  S x;
  memcpy(&x, emulated_shared + (at ^ (at >> 3 & 0x70)), sizeof x);
  return wide(x);
}


/* Element k of row r of a left factor in registers is in the lane and place where mma.h says. */
template <class S> struct emulated_left { float row[2][16]; };

template <class S> PTX emulated_left<S> emulated_rows (const uint32_t (&a)[4]) {
  typedef uint32_t four[4];
  const four *of = (const four *)emulated_table(FULL, a, sizeof a);
  emulated_left<S> left;
  for (int h = 0; h < 2; h++)
    for (int k = 0; k < 16; k++) {
      const uint32_t pair = of[emulated_lane() / 4 * 4 + k % 8 / 2][h + k / 8 * 2];
      left.row[h][k] = emulated_half<S>(pair, k % 2);
    }
  return left;
}

template <class S> PTX emulated_left<S> emulated_rows (uint64_t a) {
  const int first = (int)threadIdx.x / 32 % 4 * 16 + emulated_lane() / 4;
  emulated_left<S> left;
  for (int h = 0; h < 2; h++)
    for (int k = 0; k < 16; k++) left.row[h][k] = emulated_of_tile<S>(a, first + 8 * h, k);
  return left;
}


/* 'transposed': the tile's rows are the rows of b. */
template <int N8, class S>
PTX void emulated_multiply (float (&c)[N8][4], const emulated_left<S> &a, uint64_t b, bool more,
                            bool transposed) {
  for (int j = 0; j < N8; j++)
    for (int e = 0; e < 2; e++) {
      const int column = 8 * j + emulated_lane() % 4 * 2 + e;
      double sum[2] = {more ? c[j][e] : 0.0, more ? c[j][2 + e] : 0.0};
      for (int k = 0; k < 16; k++) {
        const double x = transposed ? emulated_of_tile<S>(b, k, column)
                                    : emulated_of_tile<S>(b, column, k);
        for (int h = 0; h < 2; h++) sum[h] += a.row[h][k] * x;
      }
      for (int h = 0; h < 2; h++) c[j][2 * h + e] = (float)sum[h];
    }
}

template <int N8, class S>
PTX void ptx_multiply_group (float (&c)[N8][4], uint64_t a, uint64_t b, bool more, S) {
  emulated_multiply(c, emulated_rows<S>(a), b, more, false);
}

template <int N8, class S>
PTX void ptx_multiply_group (float (&c)[N8][4], const uint32_t (&a)[4], uint64_t b, bool more,
                             S) {
  emulated_multiply(c, emulated_rows<S>(a), b, more, true);
}

#endif

#endif
