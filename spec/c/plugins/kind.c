/* A plugin for devices of another kind. */

#define DEVICES "metal"

#include "table.h"
