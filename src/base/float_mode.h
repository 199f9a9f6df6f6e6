/*
** float_mode.h - how the calling thread rounds, and whether it flushes denormals.
**
** The host may round otherwise, or flush denormals. So that results depend on neither setting, heed
** computes in C's own mode, and restores the host's. Threads inherit the mode, and the pool starts
** its own within:
**
**   float_mode before = float_mode_begin();
**   …
**   float_mode_end(before);
*/

#ifndef float_mode_h
#define float_mode_h

#include <fenv.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__SSE__)
typedef unsigned int float_mode;
#define FLOAT_MODE_OWN 0x1f80u
#define FLOAT_MODE_FLAGS 0x3fu     /* of exceptions that have been: no part of the mode */

static inline float_mode float_mode_read (void) { return __builtin_ia32_stmxcsr(); }
static inline void float_mode_set (float_mode mode) { __builtin_ia32_ldmxcsr(mode); }

#elif defined(__aarch64__)
typedef uint64_t float_mode;
#define FLOAT_MODE_OWN 0u
#define FLOAT_MODE_FLAGS 0u

static inline float_mode float_mode_read (void) {
  float_mode mode;
  __asm__ volatile ("mrs %0, fpcr" : "=r" (mode));
  return mode;
}

static inline void float_mode_set (float_mode mode) {
  __asm__ volatile ("msr fpcr, %0" : : "r" (mode) : "memory");
}

#else
typedef int float_mode;
#define FLOAT_MODE_OWN FE_TONEAREST
#define FLOAT_MODE_FLAGS 0

static inline float_mode float_mode_read (void) { return fegetround(); }
static inline void float_mode_set (float_mode mode) { fesetround(mode); }
#endif


static inline bool float_mode_is_own (float_mode mode) {
  return (mode & ~FLOAT_MODE_FLAGS) == FLOAT_MODE_OWN;
}


static inline float_mode float_mode_begin (void) {
  float_mode before = float_mode_read();
  if (!float_mode_is_own(before)) float_mode_set(FLOAT_MODE_OWN);
  return before;
}


static inline void float_mode_end (float_mode before) {
  if (!float_mode_is_own(before)) float_mode_set(before);
}

#endif
