/*
** map_double.cu - the values of elementwise rows in double.
*/

#include "cuda/elementwise.h"
#include "cuda/math.h"

typedef double T;

#define COMPUTED_TYPE HEED_FLOAT64
#define INTEGER 0
#define FOURS 0
#define MAP map_double

#include "cuda/map.h"
