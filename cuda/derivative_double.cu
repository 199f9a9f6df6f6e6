/*
** derivative_double.cu - the derivatives of elementwise rows in double.
*/

#include "cuda/elementwise.h"
#include "cuda/math.h"

typedef double T;

#define COMPUTED_TYPE HEED_FLOAT64
#define INTEGER 0
#define FOURS 0
#define DERIVATIVE derivative_double

#include "cuda/derivative.h"
