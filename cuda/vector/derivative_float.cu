/*
** derivative_float.cu - the derivatives of elementwise rows in float.
*/

#include "cuda/vector/elementwise.h"
#include "cuda/vector/math.h"

typedef float T;

#define COMPUTED_TYPE HEED_FLOAT32
#define INTEGER 0
#define FOURS 1
#define DERIVATIVE derivative_float

#include "cuda/vector/derivative.h"
