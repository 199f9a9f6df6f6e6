/*
** level_avx512.c - the loops for AVX-512 (F, BW, DQ, VL).
*/

#if defined(__x86_64__)

#include "cpu/level_begin.h"
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2"))), \
    apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2")
#pragma GCC target("prefer-vector-width=512")
#endif

#define VECTOR_BYTES 64
#define LEVEL_AVX512 1
#define LEVEL cpu_avx512
#define LEVEL_NAME "avx512"
#include "cpu/level.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#else

typedef int no_level_avx512;

#endif
