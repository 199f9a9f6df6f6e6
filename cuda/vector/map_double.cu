/*
** map_double.cu - the values of elementwise rows in double.
*/

#include "cuda/vector/elementwise.h"
#include "cuda/vector/math.h"

typedef double T;

#define COMPUTED_TYPE HEED_FLOAT64
#define INTEGER 0
#define FOURS 0
#define MAP map_double

#include "cuda/vector/map.h"
