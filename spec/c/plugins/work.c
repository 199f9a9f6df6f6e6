/* A plugin whose works have another size. */

#define WORK_SIZE (sizeof(work) + 8)

#include "table.h"
