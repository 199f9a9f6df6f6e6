/*
** map_float.cu - the values of elementwise rows in float.
*/

#include "cuda/vector/elementwise.h"
#include "cuda/vector/math.h"

typedef float T;

#define COMPUTED_TYPE HEED_FLOAT32
#define INTEGER 0
#define FOURS 1
#define MAP map_float

#include "cuda/vector/map.h"
