/*
** derivative_float.cu - the derivatives of elementwise rows in float.
*/

#include "cuda/elementwise.h"
#include "cuda/math.h"

typedef float T;

#define COMPUTED_TYPE HEED_FLOAT32
#define INTEGER 0
#define FOURS 1
#define DERIVATIVE derivative_float

#include "cuda/derivative.h"
