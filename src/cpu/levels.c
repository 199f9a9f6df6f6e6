/*
** levels.c - the levels of this architecture, and which of them this CPU has.
*/

#include "cpu/cpu.h"


#if defined(__x86_64__)

static bool has_avx2 (void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512 (void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

#endif


const cpu_level *cpu_level_find (const char *name) {
  if (strcmp(name, "base") == 0) return &cpu_base;
#if defined(__x86_64__)
  if (strcmp(name, "avx2") == 0 && has_avx2()) return &cpu_avx2;
  if (strcmp(name, "avx512") == 0 && has_avx512()) return &cpu_avx512;
#elif defined(__aarch64__)
  if (strcmp(name, "neon") == 0) return &cpu_neon;
#endif
  return NULL;
}


const cpu_level *cpu_level_best (void) {
  static const char *const names[] = {"avx512", "avx2", "neon"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const cpu_level *level = cpu_level_find(names[i]);
    if (level != NULL) return level;
  }
  return &cpu_base;
}


/*
** Does this CPU read a single line of memory fastest, fetched at most a little ahead? AMD's CPUs
** do: fetched far ahead, or of four lines in turn, they read half as many bytes a second.
*/
bool cpu_reads_alone (void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}


const char *cpu_level_name (const cpu_level *level) { return level->name; }
