/*
** for_floats.h - reads the loops in the file LOOPS twice: for float and for double.
**
** T is the type, TYPE its heed_type, BYTES its size, BITS the integer of that size; sums are added
** up in A. FN(name) names elementwise loops and rows, OF(name) vectors, tiles and products.
*/

#ifndef LOOPS
#error "which file is read for each type is said by LOOPS"
#endif

#define T_IS_FLOAT
#define A double

#define T float
#define TYPE HEED_FLOAT32
#define BYTES 4
#define BITS int32_t
#define FN(name) name##_float
#define OF(name) name##_f32
#include LOOPS
#undef T
#undef TYPE
#undef BYTES
#undef BITS
#undef FN
#undef OF

#define T double
#define TYPE HEED_FLOAT64
#define BYTES 8
#define BITS int64_t
#define FN(name) name##_double
#define OF(name) name##_f64
#include LOOPS
#undef T
#undef TYPE
#undef BYTES
#undef BITS
#undef FN
#undef OF

#undef A
#undef T_IS_FLOAT
#undef LOOPS
