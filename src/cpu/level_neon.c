/*
** level_neon.c - the loops for NEON.
*/

#if defined(__aarch64__)

#include "cpu/level_begin.h"
#include <arm_neon.h>

#define VECTOR_BYTES 16
#define LEVEL_NEON 1
#define LEVEL cpu_neon
#define LEVEL_NAME "neon"
#include "cpu/level.h"

#else

typedef int no_level_neon;

#endif
