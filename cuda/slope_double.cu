/*
** slope_double.cu - the slopes of elementwise rows in double.
*/

#include "cuda/elementwise.h"
#include "cuda/math.h"

typedef double T;

#define COMPUTED_TYPE HEED_FLOAT64
#define WHOLE 0
#define FOURS 0
#define SLOPE slope_double

#include "cuda/slope.h"
