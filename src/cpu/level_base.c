/*
** level_base.c - the loops for any processor: vectors of 16 bytes, by the compiler's own means.
*/

#include "cpu/level_begin.h"

#define VECTOR_BYTES 16
#define LEVEL_BASE 1
#define LEVEL cpu_base
#define LEVEL_NAME "base"
#include "cpu/level.h"
