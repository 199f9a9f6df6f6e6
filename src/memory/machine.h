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
int64_t machine_tick (void);       /* the same at the system's last tick, some ms ago: cheaper */

/*
** A counter of the processor's, which is cheaper to read than the clock. machine_counts: does it
** run at one speed, and may this process read it?
*/
bool machine_counts (void);
static inline int64_t machine_count (void) {
#if defined(__x86_64__)
  return (int64_t)__builtin_ia32_rdtsc();
#else
  return machine_clock();
#endif
}

#pragma GCC visibility pop

#endif
