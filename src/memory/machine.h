/*
** machine.h - what the machine and its cgroup leave to this process; its clock.
*/

#ifndef machine_h
#define machine_h

#include "heed.h"

#pragma GCC visibility push(hidden)

size_t machine_memory (void);      /* free bytes, a sixteenth kept back; SIZE_MAX: not known */
size_t machine_resident (void);    /* bytes that this process holds in memory; 0: not known */
int machine_cores (void);          /* at least 1 */
int64_t machine_clock (void);      /* nanoseconds, of a clock that only goes forward */

#pragma GCC visibility pop

#endif
