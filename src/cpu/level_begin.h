/*
** level_begin.h - what a level file includes before it sets its target: all that is not loops.
*/

#ifndef level_begin_h
#define level_begin_h

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/copy/iterator.h"

#endif
