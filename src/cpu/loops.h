/*
** loops.h - elementwise loops of one type, straight from ops.def: included for each T.
**
** Inputs and outputs are dense and of type T; the output may be one of the inputs.
*/

/*
** A row with numbers gets loops of its own for p = 0 and 1 (an option's words, and most
** defaults): compilers would work out both sides of a choice by p for every element.
*/
#define BY_NUMBER(signature, loop, ...) \
    const T first = (T)number[0], second = (T)number[1]; \
    if (sizeof signature > 1 && first == 0) loop(n, 0, second, __VA_ARGS__); \
    else if (sizeof signature > 1 && first == 1) loop(n, 1, second, __VA_ARGS__); \
    else loop(n, first, second, __VA_ARGS__);

#define LOOP(name) static inline __attribute__((always_inline)) void FN(name)

#define MAP_1(name, signature, Y) \
  LOOP(each_##name) (int64_t n, const T p, const T q, T *ys, const T *as) { \
    (void)p; (void)q; \
    VECTOR_LOOP for (int64_t i = 0; i < n; i++) { const T a = as[i]; ys[i] = (T)(Y); } \
  } \
  static void FN(map_##name) (int64_t n, void *out, const void *in0, const void *in1, \
                              const void *in2, const double *number) { \
    (void)in1; (void)in2; \
    BY_NUMBER(signature, FN(each_##name), out, in0) \
  }

#define MAP_2(name, signature, Y) \
  LOOP(each_##name) (int64_t n, const T p, const T q, T *ys, const T *as, const T *bs) { \
    (void)p; (void)q; \
    VECTOR_LOOP for (int64_t i = 0; i < n; i++) { \
      const T a = as[i], b = bs[i]; ys[i] = (T)(Y); } \
  } \
  static void FN(map_##name) (int64_t n, void *out, const void *in0, const void *in1, \
                              const void *in2, const double *number) { \
    (void)in2; \
    BY_NUMBER(signature, FN(each_##name), out, in0, in1) \
  }

#define MAP_3(name, signature, Y) \
  static void FN(map_##name) (int64_t n, void *out, const void *in0, const void *in1, \
                              const void *in2, const double *number) { \
    T *const ys = out; \
    const T *const as = in0, *const bs = in1, *const cs = in2; \
    (void)number; \
    VECTOR_LOOP for (int64_t i = 0; i < n; i++) { \
      const T a = as[i], b = bs[i], c = cs[i]; ys[i] = (T)(Y); } \
  }

/* What a rule does not need may be any memory of n elements. */
#define DERIVATIVE(name, which, signature, D) \
  LOOP(grade_##name##_##which) (int64_t n, const T p, const T q, T *ds, const T *gs, \
      const T *as, const T *bs, const T *cs, const T *results) { \
    (void)p; (void)q; \
    VECTOR_LOOP for (int64_t i = 0; i < n; i++) { \
      const T g = gs[i], a = as[i], b = bs[i], c = cs[i], y = results[i]; \
      (void)g; (void)a; (void)b; (void)c; (void)y; \
      ds[i] = (T)(D); } \
  } \
  static void FN(derivative_##name##_##which) (int64_t n, void *out, const void *in0, \
      const void *in1, const void *in2, const void *in3, const void *in4, \
      const double *number) { \
    BY_NUMBER(signature, FN(grade_##name##_##which), out, in0, in1, in2, in3, in4) \
  }

#define UNARY(name, signature, domain, saves, y, da) MAP_##domain(MAP_1, name, signature, y)
#define BINARY(name, signature, domain, saves, y, da, db) MAP_##domain(MAP_2, name, signature, y)
#define TERNARY(name, signature, domain, saves, y, da, db, dc) \
  MAP_##domain(MAP_3, name, signature, y)
#define OP(name, ...)
#define COMPOSED(name, ...)
#define PLAIN(name, ...)

#define MAP_NUM(loop, name, signature, y) loop(name, signature, y)
#define MAP_ALL(loop, name, signature, y) loop(name, signature, y)
#define MAP_TEST(loop, name, signature, y) loop(name, signature, y)
#define MAP_PICK(loop, name, signature, y) loop(name, signature, y)
#ifdef T_IS_FLOAT
#define MAP_FLT(loop, name, signature, y) loop(name, signature, y)
#else
#define MAP_FLT(loop, name, signature, y)
#endif

#include "op/ops.def"

#undef UNARY
#undef BINARY
#undef TERNARY

#ifdef T_IS_FLOAT
#define UNARY(name, signature, domain, saves, y, da) DERIVATIVE(name, 0, signature, da)
#define BINARY(name, signature, domain, saves, y, da, db) \
  DERIVATIVE(name, 0, signature, da) DERIVATIVE(name, 1, signature, db)
#define TERNARY(name, signature, domain, saves, y, da, db, dc) \
  DERIVATIVE(name, 0, "", da) DERIVATIVE(name, 1, "", db) DERIVATIVE(name, 2, "", dc)
#include "op/ops.def"
#undef UNARY
#undef BINARY
#undef TERNARY
#endif

#undef OP
#undef COMPOSED
#undef PLAIN
#undef BY_NUMBER
#undef LOOP
#undef MAP_1
#undef MAP_2
#undef MAP_3
#undef DERIVATIVE
#undef MAP_FLT
#undef MAP_NUM
#undef MAP_ALL
#undef MAP_TEST
#undef MAP_PICK


/*
** {==================================================================
** Conversions to and from T
** ===================================================================
*/

#define LOAD(X, element) { \
    const X *const xs = from; \
    if (stride == 1) \
      VECTOR_LOOP for (int64_t i = 0; i < n; i++) { const X x = xs[i]; ys[i] = (T)(element); } \
    else if (stride == 0) { \
      const X x = xs[0]; \
      const T y = (T)(element); \
      for (int64_t i = 0; i < n; i++) ys[i] = y; \
    } \
    else \
      for (int64_t i = 0; i < n; i++) { const X x = xs[i * stride]; ys[i] = (T)(element); } \
    break; \
  }

static void FN(load) (int64_t n, void *to, heed_type type, const void *from, int64_t stride) {
  T *const ys = to;
  switch (type) {
    case HEED_BOOL: LOAD(uint8_t, x != 0)
    case HEED_UINT8: LOAD(uint8_t, x)
    case HEED_INT64: LOAD(int64_t, x)
    case HEED_FLOAT16: LOAD(uint16_t, FN(saturated)(half_to_float(x)))
    case HEED_BFLOAT16: LOAD(uint16_t, FN(saturated)(scalar_from_bfloat16(x)))
    case HEED_FLOAT32: LOAD(float, FN(saturated)(x))
    default: LOAD(double, FN(saturated_wide)(x))
  }
}

#define STORE(Y, element) { \
    Y *const ys = to; \
    if (stride == 1) \
      VECTOR_LOOP for (int64_t i = 0; i < n; i++) { const T x = xs[i]; ys[i] = (Y)(element); } \
    else \
      for (int64_t i = 0; i < n; i++) { const T x = xs[i]; ys[i * stride] = (Y)(element); } \
    break; \
  }

static void FN(store) (int64_t n, heed_type type, void *to, int64_t stride, const void *from) {
  const T *const xs = from;
  switch (type) {
    case HEED_BOOL: STORE(uint8_t, x != 0)
    case HEED_UINT8: STORE(uint8_t, FN(byte)(x))
    case HEED_INT64: STORE(int64_t, FN(integer)(x))
    case HEED_FLOAT16: STORE(uint16_t, float_to_half((float)x))
    case HEED_BFLOAT16: STORE(uint16_t, scalar_to_bfloat16((float)x))
    case HEED_FLOAT32: STORE(float, x)
    default: STORE(double, x)
  }
}

#undef LOAD
#undef STORE

/* }================================================================== */
