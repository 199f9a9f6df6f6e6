/*
** map.h - the values of ops.def's elementwise rows as kernels of the computing type T.
*/

#include "cuda/vector/loops.h"

#define DIVIDES(op) (INTEGER && ((op) == HEED_floor_divide || (op) == HEED_remainder \
  || (op) == HEED_fmod))

#define VALUE(name, n, Y) \
  struct value_##name { \
    static const int inputs = n; \
    static const bool divides = DIVIDES(HEED_##name); \
    static __device__ __forceinline__ T of (const T *x, T p, T q) { \
      const T a = x[0], b = x[n > 1 ? 1 : 0], c = x[n > 2 ? 2 : 0]; \
      (void)a; (void)b; (void)c; (void)p; (void)q; \
      return (T)(Y); \
    } \
  };

/* Domains: rows of floats alone have no kernel for integers. */
#if INTEGER
#define ROW_FLT(...)
#else
#define ROW_FLT(...) __VA_ARGS__
#endif
#define ROW_NUM(...) __VA_ARGS__
#define ROW_ALL(...) __VA_ARGS__
#define ROW_TEST(...) __VA_ARGS__
#define ROW_PICK(...) __VA_ARGS__


#define UNARY(name, domain, y, ...) ROW_##domain(VALUE(name, 1, y))
#define BINARY(name, domain, y, ...) ROW_##domain(VALUE(name, 2, y))
#define TERNARY(name, domain, y, ...) ROW_##domain(VALUE(name, 3, y))
#include "op/ops.def"

#define CASE(name) case HEED_##name: return start<value_##name>(self, j);
#define UNARY(name, domain, ...) ROW_##domain(CASE(name))
#define BINARY(name, domain, ...) ROW_##domain(CASE(name))
#define TERNARY(name, domain, ...) ROW_##domain(CASE(name))

const char *MAP (cuda *self, int op, const job *j) {
  switch (op) {
#include "op/ops.def"
  }
  return "no elementwise operation of this type";
}
