/*
** level_avx2.c - the loops for AVX2 with FMA and F16C.
*/

#if defined(__x86_64__)

#include "cpu/level_begin.h"
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx2,fma,f16c,bmi,bmi2"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
#endif

#define VECTOR_BYTES 32
#define LEVEL_AVX2 1
#define LEVEL cpu_avx2
#define LEVEL_NAME "avx2"
#include "cpu/level.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#else

typedef int no_level_avx2;

#endif
