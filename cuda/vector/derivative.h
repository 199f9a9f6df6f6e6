/*
** derivative.h - the derivatives of ops.def's elementwise rows as kernels of the computing type T.
*/

#include "cuda/vector/loops.h"

#define DERIVATIVE_OF(name, which, D) \
  struct derivative_##name##_##which { \
    static const int inputs = DERIVATIVE_INS; \
    static const bool divides = false; \
    static __device__ __forceinline__ T of (const T *x, T p, T q) { \
      const T g = x[DERIVATIVE_G], a = x[DERIVATIVE_A], b = x[DERIVATIVE_B]; \
      const T c = x[DERIVATIVE_C], y = x[DERIVATIVE_Y]; \
      (void)g; (void)a; (void)b; (void)c; (void)y; (void)p; (void)q; \
      return (T)(D); \
    } \
  };


#define UNARY(name, domain, y, da, ra, ...) DERIVATIVE_OF(name, 0, da)
#define BINARY(name, domain, y, da, ra, db, rb, ...) \
  DERIVATIVE_OF(name, 0, da) DERIVATIVE_OF(name, 1, db)
#define TERNARY(name, domain, y, da, ra, db, rb, dc, rc, ...) \
  DERIVATIVE_OF(name, 0, da) DERIVATIVE_OF(name, 1, db) DERIVATIVE_OF(name, 2, dc)
#include "op/ops.def"

#define CASE(name, which) \
  case 4 * HEED_##name + which: return start<derivative_##name##_##which>(self, j);
#define UNARY(name, ...) CASE(name, 0)
#define BINARY(name, ...) CASE(name, 0) CASE(name, 1)
#define TERNARY(name, ...) CASE(name, 0) CASE(name, 1) CASE(name, 2)

const char *DERIVATIVE (cuda *self, int op, int which, const job *j) {
  switch (4 * op + which) {
#include "op/ops.def"
  }
  return "no derivative of this operation for this type";
}
