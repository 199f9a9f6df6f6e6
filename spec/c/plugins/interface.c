/* A plugin whose headers, or texts of rows, are not the core's. */

#define INTERFACE (HEED_INTERFACE + 1)

#include "table.h"
