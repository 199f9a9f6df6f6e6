/*
** slope_float.cu - the slopes of elementwise rows in float.
*/

#include "cuda/elementwise.h"
#include "cuda/math.h"

typedef float T;

#define COMPUTED_TYPE HEED_FLOAT32
#define WHOLE 0
#define FOURS 1
#define SLOPE slope_float

#include "cuda/slope.h"
