/*
** core.h - the core's interface for devices: C headers, which don't know C++.
*/

#ifndef cuda_core_h
#define cuda_core_h

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern "C" {
#include "memory/plugin.h"
#include "memory/device.h"
}

#endif
