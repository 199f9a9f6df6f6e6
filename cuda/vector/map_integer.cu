/*
** map_integer.cu - the values of elementwise rows in int64_t.
*/

#include "cuda/vector/elementwise.h"
#include "cuda/vector/math.h"

typedef int64_t T;

#define COMPUTED_TYPE HEED_INT64
#define INTEGER 1
#define FOURS 0
#define MAP map_integer

#include "cuda/vector/map.h"
