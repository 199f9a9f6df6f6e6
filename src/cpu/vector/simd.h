/*
** simd.h - the vectors of a level, VECTOR_BYTES wide, through GCC's vector extensions.
*/

#ifndef simd_h
#define simd_h

#include "cpu/level_begin.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

/* A level says how wide its vectors are; where a header is read alone, 16 bytes will do. */
#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16
#endif

#define INLINED static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define ONE_BY_ONE _Pragma("GCC unroll 1")

/*
** Fetches what is read some time later, into the second cache or into the first. What lies in one
** line is fetched twice: BYTES_AHEAD of what is read now, and at most BYTES_NEAR. CPUs that read
** alone (levels.c) read faster with BYTES_SOON, where products wait for memory only.
*/
#define BYTES_AHEAD 16384
#define BYTES_NEAR 6144
#define BYTES_SOON 512

INLINED void fetch_far (const void *at, int64_t bytes) {
  UNROLL for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)at + i, 0, 2);
}

INLINED void fetch_near (const void *at, int64_t bytes) {
  UNROLL for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)at + i);
}

/* Fetches as many bytes at either distance behind 'at', where 'bytes' are read now. */
INLINED void fetch_line (const uint8_t *at, int64_t bytes) {
  fetch_far(at + BYTES_AHEAD, bytes);
  fetch_near(at + BYTES_NEAR, bytes);
}

/* Rows of a tile of a product: its accumulators, two vectors a row, nearly fill the registers. */
#if defined(LEVEL_AVX512) || defined(LEVEL_NEON)
#define TILE_ROWS 12               /* 32 registers */
#define EACH_ROW(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#define EACH_HALF(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
#define TILE_ROWS 6                /* 16 registers */
#define EACH_ROW(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define EACH_HALF(X) X(1) X(2) X(3)
#endif

#define FETCHING_ROWS (TILE_ROWS / 2)  /* of a tile that takes so long that memory keeps up */

#define LANES ((int)(VECTOR_BYTES / BYTES))
#define GROUP ((int)(16 / BYTES))      /* lanes of 16 bytes */
#define PANEL (2 * LANES)              /* columns of a tile of a product */

/* LEVEL_LOWERED: 64-byte vectors, for a test, on a CPU that lacks them. */
#if defined(LEVEL_AVX512) && !defined(LEVEL_LOWERED)
#define HAS_AVX512
#elif defined(LEVEL_AVX2)
#define HAS_AVX2
#endif

/* Lanes of two vectors chosen by number; for the names below, within each 16 bytes. */
#if defined(__clang__)
#define LANES_OF(indices, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define LANES_OF(indices, a, b, ...) __builtin_shuffle(a, b, (indices){__VA_ARGS__})
#endif

#if VECTOR_BYTES == 16
#define LOW_4 0, 4, 1, 5
#define HIGH_4 2, 6, 3, 7
#define LOW_8 0, 2
#define HIGH_8 1, 3
#elif VECTOR_BYTES == 32
#define LOW_4 0, 8, 1, 9, 4, 12, 5, 13
#define HIGH_4 2, 10, 3, 11, 6, 14, 7, 15
#define LOW_8 0, 4, 2, 6
#define HIGH_8 1, 5, 3, 7
#else
#define LOW_4 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define HIGH_4 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define LOW_8 0, 8, 2, 10, 4, 12, 6, 14
#define HIGH_8 1, 9, 3, 11, 5, 13, 7, 15
#endif

/* From here on the compiler does not know that v is a constant, and so keeps it in a register. */
#if defined(__x86_64__) && !defined(LEVEL_LOWERED)
#define IN_REGISTER(v) __asm__ ("" : "+v" (v))
#elif defined(__aarch64__) && !defined(LEVEL_LOWERED)
#define IN_REGISTER(v) __asm__ ("" : "+w" (v))
#else
#define IN_REGISTER(v) ((void)0)
#endif

/* Memory is read and written in the order of the code: the compiler moves nothing across. */
#define IN_ORDER() __asm__ volatile ("" : : : "memory")

static inline int64_t smaller (int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t larger (int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t round_up (int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }


#define LOOPS "cpu/vector/lanes.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/product/tile.h"
#include "cpu/for_floats.h"
#define LOOPS "cpu/vector/exponent.h"
#include "cpu/for_floats.h"

#endif
