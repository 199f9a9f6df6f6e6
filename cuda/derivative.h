/*
** slope.h - the slopes of ops.def's elementwise rows as kernels of the computing type T.
*/

#include "cuda/loops.h"

#define DERIVATIVE_OF(name, which, D) \
  struct derivative_##name##_##which { \
    static const int inputs = 5; \
    static const fault_kind refuses = FAULT_NONE; \
    static __device__ __forceinline__ T of (const T *x, T p, T q) { \
      const T g = x[0], a = x[1], b = x[2], c = x[3], y = x[4]; \
      (void)g; (void)a; (void)b; (void)c; (void)y; (void)p; (void)q; \
      return (T)(D); \
    } \
  };

#define OP(name, ...)
#define COMPOSED(name, ...)
#define PLAIN(name, ...)

#define UNARY(name, extra, domain, saves, y, da) DERIVATIVE_OF(name, 0, da)
#define BINARY(name, extra, domain, saves, y, da, db) \
  DERIVATIVE_OF(name, 0, da) DERIVATIVE_OF(name, 1, db)
#define TERNARY(name, extra, domain, saves, y, da, db, dc) \
  DERIVATIVE_OF(name, 0, da) DERIVATIVE_OF(name, 1, db) DERIVATIVE_OF(name, 2, dc)
#include "op/ops.def"
#undef UNARY
#undef BINARY
#undef TERNARY

#define CASE(name, which) \
  case 4 * HEED_##name + which: return start<derivative_##name##_##which>(self, j);
#define UNARY(name, ...) CASE(name, 0)
#define BINARY(name, ...) CASE(name, 0) CASE(name, 1)
#define TERNARY(name, ...) CASE(name, 0) CASE(name, 1) CASE(name, 2)

const char *DERIVATIVE (cuda *self, int op, int which, const job *j) {
  switch (4 * op + which) {
#include "op/ops.def"
    default: return "no such slope";
  }
}
