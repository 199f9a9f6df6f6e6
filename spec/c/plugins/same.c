/* A plugin that fits. */

#include "table.h"
