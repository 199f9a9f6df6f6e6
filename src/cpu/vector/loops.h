/*
** loops.h - elementwise loops of one type, straight from ops.def: included for each T.
**
** Inputs and outputs are dense and of type T; the output may be one of the inputs.
*/

#ifndef T
#include "cpu/vector/elementwise.h"
#else

/*
** A row with angles (SIN, COS) of float is computed block by block, once its largest angle is
** known: see math.h. Elsewhere 'loop' runs once.
*/
#define ANGLE_BLOCK 1024
#define HAS_ANGLES(text) \
  (sizeof(T) == sizeof(float) && (strstr(text, "SIN(") != NULL || strstr(text, "COS(") != NULL))

#define RUN(text, loop, ...) \
    if (!HAS_ANGLES(text)) { (void)loop(ANGLES_SMALL, 0, n, __VA_ARGS__); return; } \
    for (int64_t i = 0; i < n; i += ANGLE_BLOCK) { \
      const int64_t end = n - i < ANGLE_BLOCK ? n : i + ANGLE_BLOCK; \
      if (loop(ANGLES_CHECKED, i, end, __VA_ARGS__)) (void)loop(ANGLES_ANY, i, end, __VA_ARGS__); \
      else (void)loop(ANGLES_SMALL, i, end, __VA_ARGS__); \
    }

/*
** A row with numbers gets loops of its own for p = 0 and 1 (an option's words, and most
** defaults): compilers would compute both sides of a choice by p for every element.
*/
#define BY_NUMBER(text, numbers, loop, ...) \
    const T first = (T)number[0], second = (T)number[1]; \
    if (sizeof numbers > 1 && first == 0) { RUN(text, loop, 0, second, __VA_ARGS__) } \
    else if (sizeof numbers > 1 && first == 1) { RUN(text, loop, 1, second, __VA_ARGS__) } \
    else { RUN(text, loop, first, second, __VA_ARGS__) }

/* Elements from .. to - 1; with ANGLES_CHECKED nothing is written: is an angle large? */
#define LOOP(name) static inline __attribute__((always_inline)) int FN(name)
#define EACH(inputs, Y) \
    int large = 0; \
    (void)p; (void)q; \
    VECTOR_LOOP for (int64_t i = from; i < to; i++) { \
      inputs \
      const T result = (T)(Y); \
      if (angles != ANGLES_CHECKED) ys[i] = result; \
    } \
    return large;

#define MAP(name) \
  static void FN(map_##name) (int64_t n, void *out, const void *in0, const void *in1, \
                              const void *in2, const double *number)

#define MAP_1(name, numbers, text, Y) \
  LOOP(each_##name) (const angle_range angles, int64_t from, int64_t to, const T p, const T q, \
                     T *ys, const T *as) { \
    EACH(const T a = as[i];, Y) \
  } \
  MAP(name) { \
    (void)in1; (void)in2; \
    BY_NUMBER(text, numbers, FN(each_##name), out, in0) \
  }

#define MAP_2(name, numbers, text, Y) \
  LOOP(each_##name) (const angle_range angles, int64_t from, int64_t to, const T p, const T q, \
                     T *ys, const T *as, const T *bs) { \
    EACH(const T a = as[i]; const T b = bs[i];, Y) \
  } \
  MAP(name) { \
    (void)in2; \
    BY_NUMBER(text, numbers, FN(each_##name), out, in0, in1) \
  }

#define MAP_3(name, numbers, text, Y) \
  LOOP(each_##name) (const angle_range angles, int64_t from, int64_t to, const T p, const T q, \
                     T *ys, const T *as, const T *bs, const T *cs) { \
    EACH(const T a = as[i]; const T b = bs[i]; const T c = cs[i];, Y) \
  } \
  MAP(name) { \
    BY_NUMBER(text, numbers, FN(each_##name), out, in0, in1, in2) \
  }

/* The values that a derivative declares to read; the others may be any memory of n elements. */
#define READ_NONE
#define READ_G
#define READ_A const T a = as[i];
#define READ_B const T b = bs[i];
#define READ_C const T c = cs[i];
#define READ_Y const T y = results[i];
#define READ_AB READ_A READ_B
#define READ_ABC READ_AB READ_C
#define READ_ABY READ_AB READ_Y
#define READ_AY READ_A READ_Y
#define READ_BY READ_B READ_Y

#define DERIVATIVE(name, which, numbers, text, D, reads) \
  LOOP(derive_##name##_##which) (const angle_range angles, int64_t from, int64_t to, const T p, \
      const T q, T *ys, const T *gs, const T *as, const T *bs, const T *cs, const T *results) { \
    (void)as; (void)bs; (void)cs; (void)results; \
    EACH(const T g = gs[i]; (void)g; reads, D) \
  } \
  static void FN(derivative_##name##_##which) (int64_t n, void *out, const void *in0, \
      const void *in1, const void *in2, const void *in3, const void *in4, \
      const double *number) { \
    BY_NUMBER(text, numbers, FN(derive_##name##_##which), out, in0, in1, in2, in3, in4) \
  }

#define UNARY(name, domain, y, da, ra, ...) MAP_##domain(MAP_1, name, #__VA_ARGS__, #y, y)
#define BINARY(name, domain, y, da, ra, db, rb, ...) \
  MAP_##domain(MAP_2, name, #__VA_ARGS__, #y, y)
#define TERNARY(name, domain, y, ...) MAP_##domain(MAP_3, name, "", #y, y)

#define MAP_NUM(loop, name, numbers, text, y) loop(name, numbers, text, y)
#define MAP_ALL(loop, name, numbers, text, y) loop(name, numbers, text, y)
#define MAP_TEST(loop, name, numbers, text, y) loop(name, numbers, text, y)
#define MAP_PICK(loop, name, numbers, text, y) loop(name, numbers, text, y)
#ifdef T_IS_FLOAT
#define MAP_FLT(loop, name, numbers, text, y) loop(name, numbers, text, y)
#else
#define MAP_FLT(loop, name, numbers, text, y)
#endif

#include "op/ops.def"

#ifdef T_IS_FLOAT
#define UNARY(name, domain, y, da, ra, ...) DERIVATIVE(name, 0, #__VA_ARGS__, #da, da, READ_##ra)
#define BINARY(name, domain, y, da, ra, db, rb, ...) \
  DERIVATIVE(name, 0, #__VA_ARGS__, #da, da, READ_##ra) \
  DERIVATIVE(name, 1, #__VA_ARGS__, #db, db, READ_##rb)
#define TERNARY(name, domain, y, da, ra, db, rb, dc, rc, ...) \
  DERIVATIVE(name, 0, "", #da, da, READ_##ra) \
  DERIVATIVE(name, 1, "", #db, db, READ_##rb) \
  DERIVATIVE(name, 2, "", #dc, dc, READ_##rc)
#include "op/ops.def"
#endif

#undef ANGLE_BLOCK
#undef HAS_ANGLES
#undef RUN
#undef EACH
#undef MAP
#undef BY_NUMBER
#undef LOOP
#undef MAP_1
#undef READ_NONE
#undef READ_G
#undef READ_A
#undef READ_B
#undef READ_C
#undef READ_Y
#undef READ_AB
#undef READ_ABC
#undef READ_ABY
#undef READ_AY
#undef READ_BY
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

static void FN(load_type) (int64_t n, void *to, heed_type type, const void *from, int64_t stride) {
  T *const ys = to;
  switch (type) {
    case HEED_BOOL: LOAD(uint8_t, x != 0)
    case HEED_UINT8: LOAD(uint8_t, x)
    case HEED_INT64: LOAD(int64_t, x)
    case HEED_FLOAT16: LOAD(uint16_t, FN(saturated)(half_to_float(x)))
    case HEED_BFLOAT16: LOAD(uint16_t, FN(saturated)(scalar_from_bfloat16(x)))
    case HEED_FLOAT32: LOAD(float, FN(saturated)(x))
    case HEED_FLOAT64: LOAD(double, FN(saturated_wide)(x))
    SCALAR_BLOCK_CASES: break;
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

static void FN(store_type) (int64_t n, heed_type type, void *to, int64_t stride, const void *from) {
  const T *const xs = from;
  switch (type) {
    case HEED_BOOL: STORE(uint8_t, x != 0)
    case HEED_UINT8: STORE(uint8_t, FN(byte)(x))
    case HEED_INT64: STORE(int64_t, FN(integer)(x))
    case HEED_FLOAT16: STORE(uint16_t, float_to_half((float)x))
    case HEED_BFLOAT16: STORE(uint16_t, scalar_to_bfloat16((float)x))
    case HEED_FLOAT32: STORE(float, x)
    case HEED_FLOAT64: STORE(double, x)
    SCALAR_BLOCK_CASES: break;
  }
}

#undef LOAD
#undef STORE

/* }================================================================== */

#endif
