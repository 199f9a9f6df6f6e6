/* A plugin that was built from a table of operations with one row more. */

#define ROWS (HEED_NOPS + 1)

#include "table.h"
