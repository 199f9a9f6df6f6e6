/* A plugin whose devices have another size. */

#define DEVICE_SIZE (sizeof(device) + 8)

#include "table.h"
