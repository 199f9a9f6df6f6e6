/*
** map_float.cu - the values of elementwise rows in float.
*/

#include "cuda/elementwise.h"
#include "cuda/math.h"

typedef float T;

#define COMPUTED_TYPE HEED_FLOAT32
#define INTEGER 0
#define FOURS 1
#define MAP map_float

#include "cuda/map.h"
