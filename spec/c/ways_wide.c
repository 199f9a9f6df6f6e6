/*
** ways_wide.c - ways.c with vectors of 64 bytes, whose lanes some limits are below.
*/

#define VECTOR_BYTES 64
#define LEVEL_AVX512 1
#define LEVEL_LOWERED 1
#include "ways.c"
