/* A plugin of another version, whose fields may be others: a core reads none of them. */

#define VERSION (PLUGIN_VERSION + 1)
#define ROWS (HEED_NOPS + 1)

#include "table.h"
