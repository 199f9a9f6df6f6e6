/*
** for_floats.h - reads the loops in the file LOOPS twice: for float and for double.
**
** T is the type, TYPE its heed_type, BYTES its size, BITS the integer of that size; sums are added
** up in A. FN(name) is a name of this type, with its suffix: name_float, name_double.
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
#include LOOPS
#undef T
#undef TYPE
#undef BYTES
#undef BITS
#undef FN

#define T double
#define TYPE HEED_FLOAT64
#define BYTES 8
#define BITS int64_t
#define FN(name) name##_double
#include LOOPS
#undef T
#undef TYPE
#undef BYTES
#undef BITS
#undef FN

#undef A
#undef T_IS_FLOAT
#undef LOOPS
