/*
** level_base.c - the loops for any CPU: vectors of 16 bytes, as the compiler makes them.
*/

#include "cpu/level_begin.h"

#define VECTOR_BYTES 16
#define LEVEL_BASE 1
#define LEVEL cpu_base
#define LEVEL_NAME "base"
#include "cpu/level.h"
