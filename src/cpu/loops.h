/*
** loops.h - elementwise loops of one type, straight from ops.def: included for each T.
**
** Inputs and outputs are dense and of type T; the output may be one of the inputs.
*/

#define MAP_1(name, Y) \
  static void FN(map_##name) (int64_t n, void *out, const void *in0, const void *in1, \
                              const void *in2, const double *number) { \
    T *const ys = out; \
    const T *const as = in0; \
    const T p = (T)number[0], q = (T)number[1]; \
    (void)in1; (void)in2; (void)p; (void)q; \
    VECTOR_LOOP for (int64_t i = 0; i < n; i++) { const T a = as[i]; ys[i] = (T)(Y); } \
  }

#define MAP_2(name, Y) \
  static void FN(map_##name) (int64_t n, void *out, const void *in0, const void *in1, \
                              const void *in2, const double *number) { \
    T *const ys = out; \
    const T *const as = in0, *const bs = in1; \
    const T p = (T)number[0]; \
    (void)in2; (void)p; \
    VECTOR_LOOP for (int64_t i = 0; i < n; i++) { \
      const T a = as[i], b = bs[i]; ys[i] = (T)(Y); } \
  }

#define MAP_3(name, Y) \
  static void FN(map_##name) (int64_t n, void *out, const void *in0, const void *in1, \
                              const void *in2, const double *number) { \
    T *const ys = out; \
    const T *const as = in0, *const bs = in1, *const cs = in2; \
    (void)number; \
    VECTOR_LOOP for (int64_t i = 0; i < n; i++) { \
      const T a = as[i], b = bs[i], c = cs[i]; ys[i] = (T)(Y); } \
  }

/* What a rule does not need may be any memory of n elements. */
#define SLOPE(name, which, D) \
  static void FN(slope_##name##_##which) (int64_t n, void *out, const void *in0, \
      const void *in1, const void *in2, const void *in3, const void *in4, \
      const double *number) { \
    T *const ds = out; \
    const T *const gs = in0, *const as = in1, *const bs = in2, *const cs = in3; \
    const T *const results = in4; \
    const T p = (T)number[0], q = (T)number[1]; \
    (void)p; (void)q; \
    VECTOR_LOOP for (int64_t i = 0; i < n; i++) { \
      const T g = gs[i], a = as[i], b = bs[i], c = cs[i], y = results[i]; \
      (void)g; (void)a; (void)b; (void)c; (void)y; \
      ds[i] = (T)(D); } \
  }

#define UNARY(name, signature, domain, saves, y, da) MAP_##domain(MAP_1, name, y)
#define BINARY(name, signature, domain, saves, y, da, db) MAP_##domain(MAP_2, name, y)
#define TERNARY(name, signature, domain, saves, y, da, db, dc) MAP_##domain(MAP_3, name, y)
#define OP(name, ...)
#define COMPOSED(name, ...)
#define PLAIN(name, ...)

#define MAP_NUM(loop, name, y) loop(name, y)
#define MAP_ALL(loop, name, y) loop(name, y)
#define MAP_TEST(loop, name, y) loop(name, y)
#define MAP_PICK(loop, name, y) loop(name, y)
#ifdef T_IS_FLOAT
#define MAP_FLT(loop, name, y) loop(name, y)
#else
#define MAP_FLT(loop, name, y)
#endif

#include "op/ops.def"

#undef UNARY
#undef BINARY
#undef TERNARY

#ifdef T_IS_FLOAT
#define UNARY(name, signature, domain, saves, y, da) SLOPE(name, 0, da)
#define BINARY(name, signature, domain, saves, y, da, db) SLOPE(name, 0, da) SLOPE(name, 1, db)
#define TERNARY(name, signature, domain, saves, y, da, db, dc) \
  SLOPE(name, 0, da) SLOPE(name, 1, db) SLOPE(name, 2, dc)
#include "op/ops.def"
#undef UNARY
#undef BINARY
#undef TERNARY
#endif

#undef OP
#undef COMPOSED
#undef PLAIN
#undef MAP_1
#undef MAP_2
#undef MAP_3
#undef SLOPE
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
    case HEED_INT64: STORE(int64_t, FN(whole)(x))
    case HEED_FLOAT16: STORE(uint16_t, float_to_half((float)x))
    case HEED_BFLOAT16: STORE(uint16_t, scalar_to_bfloat16((float)x))
    case HEED_FLOAT32: STORE(float, x)
    default: STORE(double, x)
  }
}

#undef LOAD
#undef STORE

/* }================================================================== */
