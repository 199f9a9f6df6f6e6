/*
** math.h - the words of ops.def: EXP, LOG, TANH … for the type T of the loop that uses them.
**
** The words of float are heed's own: without branches, so that compilers vectorise a loop of them,
** and right for every input, zeros, infinities, NaN and denormals included. Their polynomials are
** minimax fits (Lawson's weights, leading coefficients rounded first). double goes through libm,
** whose precision gradient checks need.
**
** SIN and COS of float are right for small angles only, or slow; so a loop that uses them exists
** in three forms, by a constant 'angles' in its scope, and has an int 'large': see loops.h.
**
** W. J. Cody, W. Waite, "Software manual for the elementary functions" (1980): reductions.
*/

#ifndef cpu_math_h
#define cpu_math_h

#include "cpu/level_begin.h"

#define EXP(x) FN(exp)(x)
#define EXP_BELOW(x) FN(exp_below)(x)      /* for x <= 0 */
#define EXP2(x) FN(exp2)(x)
#define EXPM1(x) FN(expm1)(x)
#define LOG(x) FN(log)(x)
#define LOG2(x) FN(log2)(x)
#define LOG1P(x) FN(log1p)(x)
#define SQRT(x) FN(sqrt)(x)
#define SIN(x) FN(sin)(x, angles, &large)
#define COS(x) FN(cos)(x, angles, &large)
#define TAN(x) FN(tan)(x)
#define ASIN(x) FN(asin)(x)
#define ACOS(x) FN(acos)(x)
#define ATAN(x) FN(atan)(x)
#define ATAN2(x, y) FN(atan2)(x, y)
#define HYPOT(x, y) FN(hypot)(x, y)
#define SINH(x) FN(sinh)(x)
#define COSH(x) FN(cosh)(x)
#define TANH(x) FN(tanh)(x)
#define SIGMOID(x) FN(sigmoid)(x)
#define SOFTPLUS(x) FN(softplus)(x)
#define ERF(x) FN(erf)(x)
#define GELU(x) FN(gelu)(x)
#define GELU_DERIVATIVE(x) FN(gelu_derivative)(x)
#define GELU_TANH(x) FN(gelu_tanh)(x)
#define GELU_TANH_DERIVATIVE(x) FN(gelu_tanh_derivative)(x)
#define SILU(x) ((x) * SIGMOID(x))
#define SILU_DERIVATIVE(x) FN(silu_derivative)(x)
#define MISH(x) FN(mish)(x)
#define MISH_DERIVATIVE(x) FN(mish_derivative)(x)
#define POW(x, y) FN(pow)(x, y)
#define FLOOR(x) FN(floor)(x)
#define CEIL(x) FN(ceil)(x)
#define ROUND(x) FN(round)(x)
#define TRUNC(x) FN(trunc)(x)
#define FLOOR_DIVIDE(x, y) FN(floor_divide)(x, y)
#define REMAINDER(x, y) FN(remainder)(x, y)
#define FMOD(x, y) FN(fmod)(x, y)

/* The same words for every type; a NaN on either side wins in MAXIMUM and MINIMUM. */
#define ABS(x) FN(abs)(x)
#define SIGN(x) ((T)(((x) > 0) - ((x) < 0)))
#define MAXIMUM(x, y) ((x) > (y) || ISNAN(x) ? (x) : (y))
#define MINIMUM(x, y) ((x) < (y) || ISNAN(x) ? (x) : (y))
#define CLIP(x, low, high) FN(clip)(x, low, high)
#define LERP(x, y, w) FN(lerp)(x, y, w)
#define ISNAN(x) FN(isnan)(x)
#define ISINF(x) FN(isinf)(x)
#define ISFINITE(x) FN(isfinite)(x)
#define SCALED(x) (p * (x))
#define LN2 ((T)0.69314718055994530942)
#define PI ((T)3.14159265358979323846)
#define TWO_OVER_SQRT_PI ((T)1.12837916709551257390)


/*
** {==================================================================
** float: exponentials
** ===================================================================
*/

static inline float as_float (uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static inline uint32_t as_bits (float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

/* a + b x: polynomials are made of these, so that their parts can be computed in parallel. */
static inline float line (float x, float a, float b) { return a + b * x; }

#define ROUNDER 0x1.8p23f            /* x + ROUNDER - ROUNDER is x rounded to an integer */

/* y 2^n with n in the low bits of n + ROUNDER, in two steps: 2^n itself may be no float. */
static inline float scaled_float (float y, float n_and_rounder) {
  int32_t n = (int32_t)(as_bits(n_and_rounder) - as_bits(ROUNDER));
  int32_t half = n >> 1;
  return y * as_float((uint32_t)(half + 127) << 23) * as_float((uint32_t)(n - half + 127) << 23);
}

/* x = n ln 2 + r; n is added to 'rounder'. */
static inline float split_exponent (float x, float rounder, float *n_and_rounder) {
  float rounded = x * 0x1.715476p0f + rounder, n = rounded - rounder;
  *n_and_rounder = rounded;
  return (x - n * 0x1.62e400p-1f) - n * 0x1.7f7d1cp-20f;
}

/* e^r for r in [-ln 2 / 2, ln 2 / 2], relative error 3e-9. */
static inline float exp_core (float r) {
  float z = r * r, low = line(r, 0x1.fffffcp-2f, 0x1.555492p-3f);
  float high = line(z, line(r, 0x1.5558b2p-5f, 0x1.12399ep-7f), 0x1.6a4b4p-10f);
  return (low + high * z) * z + r + 1;
}

static inline float clamp_float (float x, float low, float high) {
  x = x < low ? low : x;
  return x > high ? high : x;                      /* a NaN stays */
}

static inline float exp_float (float x) {
  float n, r = split_exponent(clamp_float(x, -104, 89), ROUNDER, &n);
  return scaled_float(exp_core(r), n);
}

/*
** e^x for x <= 0. LENT is ROUNDER and what makes the exponent of 2^(n + 64) of n: so one shift
** scales the result, and 2^-64 makes it denormal, or 0, where it is.
*/
#define LENT (ROUNDER + 127 + 64)

static inline float exp_below_float (float x) {
  x = x < -104 ? -104 : x;                         /* a NaN stays */
  float n, r = split_exponent(x, LENT, &n);
  return exp_core(r) * as_float(as_bits(n) << 23) * 0x1p-64f;
}

/* 2^(n + r) for r in [-1/2, 1/2], relative error 3e-9; n is added to ROUNDER. */
static inline float exp2_near (float r, float n_and_rounder) {
  float z = r * r, low = line(r, 0x1.62e43p-1f, 0x1.ebfbdcp-3f);
  float middle = line(r, 0x1.c6af7ap-5f, 0x1.3b2ddap-7f);
  float high = line(r, 0x1.5f0972p-10f, 0x1.4172bp-13f);
  return scaled_float((low + (middle + high * z) * z) * r + 1, n_and_rounder);
}

static inline float exp2_float (float x) {
  x = clamp_float(x, -151, 129);
  float rounded = x + ROUNDER;
  return exp2_near(x - (rounded - ROUNDER), rounded);
}

/* e^r - 1 is summed from its small end; 2^n (e^r - 1) + (2^n - 1) as twice its half. */
static inline float expm1_float (float x) {
  float n, clamped = clamp_float(x, -20, 89), r = split_exponent(clamped, ROUNDER, &n);
  float z = r * r, low = line(r, 0.5f, 0x1.555554p-3f);
  float middle = line(r, 0x1.5554f8p-5f, 0x1.1112d4p-7f);
  float high = line(r, 0x1.6d3a58p-10f, 0x1.9e7ce2p-13f);
  float e = (low + (middle + high * z) * z) * z + r, half = scaled_float(0.5f, n);
  return n == ROUNDER ? (x == 0 ? x : e) : 2 * (half * e + (half - 0.5f));
}

/* }================================================================== */


/*
** {==================================================================
** float: logarithms
** ===================================================================
*/

/* log(1 + f) for 1 + f in [sqrt 1/2, sqrt 2], relative error 8e-10. */
static inline float log_core (float f) {
  float z = f * f, z2 = z * z;
  float p = line(f, 0x1.555548p-2f, -0x1.000006p-2f), q = line(f, 0x1.99a47ap-3f, -0x1.555c4ep-3f);
  float r = line(f, 0x1.233b2cp-3f, -0x1.fc2632p-4f), s = line(f, 0x1.e6c5d4p-4f, -0x1.de16e6p-4f);
  float high = line(z, r, s) + 0x1.147f12p-4f * z2;
  return f + ((line(z, p, q) + high * z2) * f * z - 0.5f * z);
}

/* x = 2^e (1 + f), x > 0 and finite. */
static inline float split_float (float x, float *e) {
  bool tiny = x < 0x1p-126f;
  uint32_t bits = as_bits(tiny ? x * 0x1p23f : x);
  uint32_t shifted = bits - 0x3f3504f3;            /* sqrt 1/2 */
  int32_t exponent = (int32_t)shifted >> 23;
  *e = (float)exponent - (tiny ? 23.0f : 0.0f);
  return as_float((shifted & 0x7fffff) + 0x3f3504f3) - 1;
}

/* log x at the ends: of 0, of negative numbers, of infinity and of NaN. */
static inline float log_ends (float x, float log_x) {
  float y = x == INFINITY ? x : log_x;
  y = x == 0 ? -INFINITY : y;
  return x >= 0 ? y : NAN;
}

static inline float log_plain_float (float x) {
  float e, f = split_float(x, &e);
  return e * 0x1.62e400p-1f + (log_core(f) + e * 0x1.7f7d1cp-20f);
}

static inline float log_float (float x) { return log_ends(x, log_plain_float(x)); }

static inline float log2_float (float x) {
  float e, f = split_float(x, &e), y = log_core(f);
  return log_ends(x, e + (y * 0x1.715476p0f + y * 0x1.4ae0cp-26f));
}

/* log u + (x - (u - 1)) / u, where u = 1 + x was rounded. */
static inline float log1p_plain_float (float x) {
  float u = 1 + x;
  return log_plain_float(u) + (x - (u - 1)) / u;
}

static inline float log1p_float (float x) {
  float y = log_ends(1 + x, log1p_plain_float(x));
  return x == 0 ? x : y;
}

/* }================================================================== */


/*
** {==================================================================
** float: what is made of them
** ===================================================================
*/

/* (e^2x - 1) / (e^2x + 1) by the size of x, with its sign. */
static inline float tanh_float (float x) {
  float size = __builtin_fabsf(x), t = expm1_float(2 * clamp_float(size, 0, 10));
  return __builtin_copysignf(t / (t + 2), x);
}

/* By e^-|x|, which can't overflow. */
static inline float sigmoid_float (float x) {
  float z = exp_below_float(-__builtin_fabsf(x));
  return (x < 0 ? z : 1) / (1 + z);
}

/* log(1 + z) for z in [0, 1]: 2 atanh(z / (2 + z)), relative error 2e-10. */
static inline float log1p_core (float z) {
  float s = z / (2 + z), w = s * s, w2 = w * w;
  float low = line(w, 0x1.555558p-1f, 0x1.9996d8p-2f);
  float high = line(w, 0x1.25050cp-2f, 0x1.b72c6ep-3f);
  return 2 * s + (low + (high + 0x1.f0870ep-3f * w2) * w2) * w * s;
}

static inline float softplus_float (float x) {
  return (x < 0 ? 0 : x) + log1p_core(exp_below_float(-__builtin_fabsf(x)));
}

#include "cpu/vector/gauss.h"

/* tanh's form of it, x (1 + tanh u) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3). */
static inline float gelu_tanh_float (float x) {
  x = x < -0x1.fffffep127f ? -0x1.fffffep127f : x;  /* minus infinity times 0 is NaN */
  return x * sigmoid_float(x * (0x1.988454p0f + 0x1.2444e8p-4f * x * x));
}

static inline float gelu_tanh_derivative_float (float x) {
  x = clamp_float(x, -15, 15);
  float z = x * x, s = sigmoid_float(x * (0x1.988454p0f + 0x1.2444e8p-4f * z));
  return s + x * s * (1 - s) * (0x1.988454p0f + 3 * 0x1.2444e8p-4f * z);
}

static inline float silu_derivative_float (float x) {
  float s = sigmoid_float(x);
  return s * (1 + x * (1 - s));
}

/* tanh(softplus x) = k / (k + 2) with k = e^x (e^x + 2). */
static inline float mish_float (float x) {
  float e = exp_float(clamp_float(x, -INFINITY, 20)), k = e * (e + 2);
  return x * (k / (k + 2));
}

static inline float mish_derivative_float (float x) {
  float e = exp_float(clamp_float(x, -INFINITY, 20)), k = e * (e + 2), y = k / (k + 2);
  return y + x * sigmoid_float(x) * (1 - y * y);
}

/* log2 of x > 0 for what it will be multiplied by: in double, relative error 4e-12. */
static inline double log2_long (float x) {
  float e, f = split_float(x, &e);
  double s = f / (2 + (double)f), z = s * s, z2 = z * z;
  double low = 0x1.71547652bee7p1 + 0x1.ec709d122986bp-1 * z;
  double high = 0x1.2777806caf70ap-1 + 0x1.a58d475033711p-2 * z;
  return e + s * (low + (high + 0x1.5ced4b2281a1dp-2 * z2) * z2);
}

/* 2^p, where p is a product in double. */
static inline float exp2_long (double p) {
  p = p < -151 ? -151 : p;
  p = p > 129 ? 129 : p;
  float n = (float)p + ROUNDER - ROUNDER, r = (float)(p - (double)n);
  return exp2_near(r, n + ROUNDER);
}

/* |x|^y, the sign for odd y, and the ends as C has them. */
static inline float pow_float (float x, float y) {
  float size = __builtin_fabsf(x), half = 0.5f * y;
  bool integral = __builtin_truncf(y) == y, odd = integral && __builtin_truncf(half) != half;
  double log_size = size == 0 ? -INFINITY : size == INFINITY ? INFINITY : log2_long(size);
  float power = exp2_long(y * log_size);
  power = size != size || y != y ? NAN : power;
  power = x < 0 && size < INFINITY && !integral ? NAN : power;
  power = odd ? __builtin_copysignf(power, x) : power;
  bool one = y == 0 || x == 1 || (x == -1 && __builtin_fabsf(y) == INFINITY);
  return one ? 1 : power;
}

/*
** sin(x + quarters pi/2): x = n pi/2 + r, where n and both parts of pi/2 are so short that double
** holds their products, for x below LARGE_ANGLE.
*/
#define LARGE_ANGLE 0x1p20f

static inline float sine_near (float x, uint32_t quarters) {
  float rounded = x * 0x1.45f306p-1f + ROUNDER, n = rounded - ROUNDER;
  float r = (float)(((double)x - (double)n * 0x1.921fb544p0) - (double)n * 0x1.0b4611a626331p-34);
  uint32_t quarter = as_bits(rounded) + quarters;  /* ROUNDER's last bits are 0 */
  float z = r * r, z2 = z * z;
  float sine = line(z, -0x1.555556p-3f, 0x1.111174p-7f) +
               line(z, -0x1.a05956p-13f, 0x1.7c2f58p-19f) * z2;
  float cosine = line(z, 1, -0.5f) + (line(z, 0x1.55554ap-5f, -0x1.6c0c2ap-10f) +
                                      0x1.99e90cp-16f * z2) * z2;
  float y = quarter & 1 ? cosine : __builtin_copysignf(r + r * z * sine, r);     /* also of -0 */
  return as_float(as_bits(y) ^ (quarter & 2) << 30);
}

/* Angles in a loop: checked (is one of them large?), all small, or any, of which the large ones
   are left to libm's double. */
typedef enum angle_range { ANGLES_CHECKED, ANGLES_SMALL, ANGLES_ANY } angle_range;

static inline float sin_float (float x, angle_range angles, int *large) {
  bool is_large = __builtin_fabsf(x) >= LARGE_ANGLE;
  if (angles == ANGLES_CHECKED) *large |= is_large;
  return angles == ANGLES_ANY && is_large ? (float)sin(x) : sine_near(x, 0);
}

static inline float cos_float (float x, angle_range angles, int *large) {
  bool is_large = __builtin_fabsf(x) >= LARGE_ANGLE;
  if (angles == ANGLES_CHECKED) *large |= is_large;
  return angles == ANGLES_ANY && is_large ? (float)cos(x) : sine_near(x, 1);
}

/* }================================================================== */


/*
** {==================================================================
** double: libm
** ===================================================================
*/

static inline double exp_double (double x) { return exp(x); }
static inline double exp_below_double (double x) { return exp(x); }
static inline double exp2_double (double x) { return exp2(x); }
static inline double expm1_double (double x) { return expm1(x); }
static inline double log_double (double x) { return log(x); }
static inline double log2_double (double x) { return log2(x); }
static inline double log1p_double (double x) { return log1p(x); }
static inline double tanh_double (double x) { return tanh(x); }

static inline double sigmoid_double (double x) {
  double z = exp(-fabs(x));
  return (x < 0 ? z : 1) / (1 + z);
}

static inline double softplus_double (double x) {
  return (x < 0 ? 0 : x) + log1p(exp(-fabs(x)));
}

static inline double erf_double (double x) { return erf(x); }

static inline double gelu_double (double x) {
  return x == -INFINITY ? 0 : x * 0.5 * erfc(-x * 0.70710678118654752440);
}

static inline double gelu_derivative_double (double x) {
  double bell = exp(-0.5 * x * x) * 0.39894228040143267794;
  return 0.5 * erfc(-x * 0.70710678118654752440) + (bell == 0 ? 0 : x * bell);
}

#define TANH_LINEAR 1.59576912160573071176   /* 2 sqrt(2 / pi) */
#define TANH_CUBIC (TANH_LINEAR * 0.044715)

static inline double gelu_tanh_double (double x) {
  x = x == -INFINITY ? -100 : x;                   /* minus infinity times 0 is NaN */
  return x * sigmoid_double(x * (TANH_LINEAR + TANH_CUBIC * x * x));
}

static inline double gelu_tanh_derivative_double (double x) {
  x = x < -25 ? -25 : x > 25 ? 25 : x;
  double s = sigmoid_double(x * (TANH_LINEAR + TANH_CUBIC * x * x));
  return s + x * s * (1 - s) * (TANH_LINEAR + 3 * TANH_CUBIC * x * x);
}

static inline double silu_derivative_double (double x) {
  double s = sigmoid_double(x);
  return s * (1 + x * (1 - s));
}

static inline double mish_double (double x) {
  double e = exp(x < 40 ? x : 40), k = e * (e + 2);
  return x * (x != x ? x : k / (k + 2));
}

static inline double mish_derivative_double (double x) {
  double e = exp(x < 40 ? x : 40), k = e * (e + 2), y = k / (k + 2);
  return x != x ? x : y + x * sigmoid_double(x) * (1 - y * y);
}

static inline double sin_double (double x, angle_range angles, int *large) {
  (void)angles; (void)large;
  return sin(x);
}
static inline double cos_double (double x, angle_range angles, int *large) {
  (void)angles; (void)large;
  return cos(x);
}
static inline double pow_double (double x, double y) { return pow(x, y); }

/* }================================================================== */


/*
** {==================================================================
** Both: what is an instruction, or is left to libm
** ===================================================================
*/

#define BOTH_1(name, function) \
  static inline float name##_float (float x) { return function##f(x); } \
  static inline double name##_double (double x) { return function(x); }

#define BOTH_2(name, function) \
  static inline float name##_float (float x, float y) { return function##f(x, y); } \
  static inline double name##_double (double x, double y) { return function(x, y); }

BOTH_1(abs, __builtin_fabs)
BOTH_1(sqrt, __builtin_sqrt)
BOTH_1(floor, __builtin_floor)
BOTH_1(ceil, __builtin_ceil)
BOTH_1(round, __builtin_rint)
BOTH_1(trunc, __builtin_trunc)
BOTH_1(tan, tan)
BOTH_1(asin, asin)
BOTH_1(acos, acos)
BOTH_1(atan, atan)
BOTH_1(sinh, sinh)
BOTH_1(cosh, cosh)
BOTH_2(atan2, atan2)
BOTH_2(hypot, hypot)
BOTH_2(fmod, fmod)

static inline bool isnan_float (float x) { return x != x; }
static inline bool isnan_double (double x) { return x != x; }
static inline bool isinf_float (float x) { return abs_float(x) == INFINITY; }
static inline bool isinf_double (double x) { return abs_double(x) == INFINITY; }
static inline bool isfinite_float (float x) { return abs_float(x) < INFINITY; }
static inline bool isfinite_double (double x) { return abs_double(x) < INFINITY; }

/* }================================================================== */


/*
** {==================================================================
** Both: what Python and PyTorch mean by division, between numbers, within bounds
** ===================================================================
*/

#define DIVISION(T, FN) \
  static inline T FN(remainder) (T x, T y) { \
    T left = FN(fmod)(x, y); \
    return left != 0 && (y < 0) != (left < 0) ? left + y : left; \
  } \
  static inline T FN(floor_divide) (T x, T y) { \
    T left = FN(fmod)(x, y), times = (x - left) / y; \
    times -= left != 0 && (y < 0) != (left < 0); \
    T rounded = FN(floor)(times); \
    rounded += times - rounded > (T)0.5; \
    return y == 0 ? x / y : times != 0 ? rounded : x / y * 0; \
  } \
  static inline T FN(lerp) (T x, T y, T w) { \
    return FN(abs)(w) < (T)0.5 ? x + w * (y - x) : y - (y - x) * (1 - w); \
  } \
  static inline T FN(clip) (T x, T low, T high) { \
    T y = x > low || x != x ? x : low; \
    return y < high || y != y ? y : high; \
  }

#define FN_FLOAT(name) name##_float
#define FN_DOUBLE(name) name##_double
DIVISION(float, FN_FLOAT)
DIVISION(double, FN_DOUBLE)

/* }================================================================== */


/*
** {==================================================================
** Integers: they wrap; divisors of 0 are refused before
** ===================================================================
*/

static inline int64_t abs_int64 (int64_t x) { return x < 0 ? -x : x; }
static inline int64_t floor_int64 (int64_t x) { return x; }
static inline int64_t ceil_int64 (int64_t x) { return x; }
static inline int64_t round_int64 (int64_t x) { return x; }
static inline int64_t trunc_int64 (int64_t x) { return x; }
static inline bool isnan_int64 (int64_t x) { return (void)x, false; }
static inline bool isinf_int64 (int64_t x) { return (void)x, false; }
static inline bool isfinite_int64 (int64_t x) { return (void)x, true; }

static inline int64_t fmod_int64 (int64_t x, int64_t y) { return y == -1 ? 0 : x % y; }

static inline int64_t remainder_int64 (int64_t x, int64_t y) {
  int64_t left = fmod_int64(x, y);
  return left != 0 && (y < 0) != (left < 0) ? left + y : left;
}

static inline int64_t floor_divide_int64 (int64_t x, int64_t y) {
  if (y == -1) return -x;                          /* the smallest one wraps */
  return x / y - (x % y != 0 && (y < 0) != (x < 0));
}

static inline int64_t pow_int64 (int64_t x, int64_t y) {
  int64_t power = 1;
  if (y < 0) return x == 1 ? 1 : x == -1 ? 1 - 2 * (y & 1) : 0;
  for (; y > 0; y >>= 1, x *= x)
    if (y & 1) power *= x;
  return power;
}

static inline int64_t clip_int64 (int64_t x, int64_t low, int64_t high) {
  int64_t y = x > low ? x : low;
  return y < high ? y : high;
}

/* }================================================================== */

#endif
