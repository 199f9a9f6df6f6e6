/*
** emulate.h - CUDA's language for a C++ compiler: kernels run on an emulated GPU.
**
** The threads of a block are fibres: each runs until it waits (at a barrier, or for the lanes
** of its warp), then another one does. One kernel runs at a time. Mistakes whose effect a GPU
** leaves undefined - lanes that are missing, barriers that not all reach, or at another place -
** end the kernel with a message; compiled by -fsanitize=thread, accesses to memory that nothing
** orders do so, too (emulate_race.cc). Memory: emulate_device.cc; streams: emulate_stream.cc.
*/

#ifndef emulate_h
#define emulate_h

#include <math.h>
#include <new>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static          /* one block runs at a time */
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

struct CUstream_st;

struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  dim3 (unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

#define VECTOR(T, name) \
  struct name##2 { T x, y; } __attribute__((aligned(2 * sizeof(T)))); \
  struct name##4 { T x, y, z, w; } \
      __attribute__((aligned(sizeof(T) < 8 ? 4 * sizeof(T) : 16))); \
  static inline name##2 make_##name##2 (T x, T y) { return name##2{x, y}; } \
  static inline name##4 make_##name##4 (T x, T y, T z, T w) { return name##4{x, y, z, w}; }
VECTOR(float, float)
VECTOR(double, double)
VECTOR(int, int)
VECTOR(unsigned, uint)
VECTOR(unsigned short, ushort)
VECTOR(unsigned char, uchar)
VECTOR(long long, longlong)
VECTOR(unsigned long long, ulonglong)
#undef VECTOR


/*
** {==================================================================
** The kernel that runs now
** ===================================================================
*/

#pragma GCC visibility push(hidden)

extern uint3 emulated_thread, emulated_block;
extern dim3 emulated_threads, emulated_blocks;
extern char *emulated_shared;                   /* dynamic shared memory of the block */

#define threadIdx emulated_thread
#define blockIdx emulated_block
#define blockDim emulated_threads
#define gridDim emulated_blocks
#define warpSize 32

#define EMULATED_OWN __attribute__((section("emulated_own")))    /* not a block's */

/* Where a kernel calls what has a site as its last argument. */
struct emulated_site { const char *file; int line; };
static constexpr emulated_site emulated_here (const char *file = __builtin_FILE(),
                                              int line = __builtin_LINE()) {
  return emulated_site{file, line};
}
#define HERE emulated_site site = emulated_here()

/* A launch that waits in a stream: the kernel and its arguments. */
template <class... P> struct emulated_call {
  void (*kernel) (P...);
  std::tuple<P...> args;
  emulated_call (void (*k) (P...), P... a) : kernel(k), args(a...) {}
  static void run (void *self) {
    emulated_call *call = (emulated_call *)self;
    std::apply(call->kernel, call->args);
  }
  static constexpr size_t parameters (void) {    /* their bytes, each aligned */
    size_t n = 0;
    ((n = (n + alignof(P) - 1) / alignof(P) * alignof(P) + sizeof(P)), ...);
    return n;
  }
};

/* The work of a thread of a launch: run(call). */
struct emulated_work {
  void (*run) (void *);
  void *call;                                    /* from emulated_alloc */
  const void *kernel;                            /* the function that is named in reports */
  size_t parameters;                             /* bytes */
};

void *emulated_alloc (size_t bytes);
int emulated_load (void);           /* a kernel's code: a call that may fail */
int emulated_launch (dim3 blocks, dim3 threads, size_t shared, struct CUstream_st *s,
                     const emulated_work *work);

/* Barrier 'id' (to 15) for 'count' threads, 0: all that have not ended; how many gave 'yes'. */
int emulated_barrier (int id, int count, bool yes, HERE);
void emulated_fail (const char *what);          /* ends the kernel; does not return */
void emulated_switch_thread (void);             /* at an atomic operation, which it counts */
/* An atomic operation is about to touch memory, at 'place' of the program. */
void emulated_touch (const volatile void *at, size_t bytes, const void *place);
void emulated_fence (bool beyond_block);
extern int64_t emulated_atomics;                /* that a launch may do; 0: not counted */

enum emulated_exchange {           /* what lanes of a warp wait for one another for */
  EMULATED_SYNC, EMULATED_SHUFFLE, EMULATED_BALLOT, EMULATED_MATCH,
  EMULATED_ADD, EMULATED_MIN, EMULATED_MAX, EMULATED_LEAST, EMULATED_MOST,
  EMULATED_AND, EMULATED_OR, EMULATED_XOR
};

/* This lane's result, once all lanes of 'mask' gave a value; SHUFFLE: that of 'lane'. */
uint64_t emulated_join (emulated_exchange kind, unsigned mask, uint64_t value, int lane, HERE);

/*
** The operands of all lanes of the warp, in order, to emulate instructions that work on a whole
** warp: valid until the lane's next exchange.
*/
const void *emulated_table (unsigned mask, const void *mine, size_t bytes, HERE);

/*
** Copies of 'size' bytes, 16 or 4, into shared memory, of which 'bytes' are read, beside the
** kernel: a thread groups its own, and waits until at most 'left' of its groups are on their way.
*/
void emulated_copy (char *to, const void *from, int bytes, int size);
void emulated_copy_commit (void);
void emulated_copy_wait (int left);

#pragma GCC visibility pop

static inline int emulated_lane (void) {
  return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31);
}

/* }================================================================== */


/*
** {==================================================================
** Barriers and warps
** ===================================================================
*/

static inline void __syncthreads (HERE) { emulated_barrier(0, 0, false, site); }
static inline int __syncthreads_count (int yes, HERE) {
  return emulated_barrier(0, 0, yes != 0, site);
}
static inline int __syncthreads_or (int yes, HERE) { return __syncthreads_count(yes, site) > 0; }
static inline int __syncthreads_and (int yes, HERE) {
  return __syncthreads_count(yes == 0, site) == 0;
}
static inline void __syncwarp (unsigned mask = ~0u, HERE) {
  emulated_join(EMULATED_SYNC, mask, 0, 0, site);
}
static inline void __threadfence (void) { emulated_fence(true); }
static inline void __threadfence_block (void) { emulated_fence(false); }
static inline void __threadfence_system (void) { emulated_fence(true); }
static inline void __nanosleep (unsigned) {}

/* Values of other lanes of a group of 'width'; its own where the lane is outside. */
template <class T> T emulated_shuffle (unsigned mask, T value, int lane, emulated_site site) {
  static_assert(sizeof(T) <= 8, "shuffles take up to 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  bits = emulated_join(EMULATED_SHUFFLE, mask, bits, lane, site);
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T> T __shfl_sync (unsigned mask, T value, int from, int width = 32, HERE) {
  int me = emulated_lane();
  return emulated_shuffle(mask, value, (me & ~(width - 1)) | (from & (width - 1)), site);
}
template <class T> T __shfl_xor_sync (unsigned mask, T value, int with, int width = 32, HERE) {
  int me = emulated_lane(), lane = me ^ with;
  return emulated_shuffle(mask, value, lane < (me & ~(width - 1)) + width ? lane : me, site);
}
template <class T> T __shfl_up_sync (unsigned mask, T value, unsigned by, int width = 32, HERE) {
  int me = emulated_lane(), lane = me - (int)by;
  return emulated_shuffle(mask, value, lane >= (me & ~(width - 1)) ? lane : me, site);
}
template <class T> T __shfl_down_sync (unsigned mask, T value, unsigned by, int width = 32, HERE) {
  int me = emulated_lane(), lane = me + (int)by;
  return emulated_shuffle(mask, value, lane < (me & ~(width - 1)) + width ? lane : me, site);
}

static inline unsigned __ballot_sync (unsigned mask, int yes, HERE) {
  return (unsigned)emulated_join(EMULATED_BALLOT, mask, yes != 0, 0, site);
}
static inline int __any_sync (unsigned mask, int yes, HERE) {
  return __ballot_sync(mask, yes, site) != 0;
}
static inline int __all_sync (unsigned mask, int yes, HERE) {
  return __ballot_sync(mask, yes, site) == mask;
}
template <class T> unsigned __match_any_sync (unsigned mask, T value, HERE) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return (unsigned)emulated_join(EMULATED_MATCH, mask, bits, 0, site);
}

#define REDUCE(name, T, kind) \
  static inline T name (unsigned mask, T value, HERE) { \
    return (T)emulated_join(kind, mask, (uint64_t)(int64_t)value, 0, site); \
  }
REDUCE(__reduce_add_sync, unsigned, EMULATED_ADD)
REDUCE(__reduce_add_sync, int, EMULATED_ADD)
REDUCE(__reduce_min_sync, unsigned, EMULATED_LEAST)
REDUCE(__reduce_min_sync, int, EMULATED_MIN)
REDUCE(__reduce_max_sync, unsigned, EMULATED_MOST)
REDUCE(__reduce_max_sync, int, EMULATED_MAX)
REDUCE(__reduce_and_sync, unsigned, EMULATED_AND)
REDUCE(__reduce_or_sync, unsigned, EMULATED_OR)
REDUCE(__reduce_xor_sync, unsigned, EMULATED_XOR)
#undef REDUCE

/* }================================================================== */


/*
** {==================================================================
** Atomic operations: one thread runs at a time
** ===================================================================
*/

/* Where accesses are watched, a function of its own, whose are not: emulated_touch says them. */
#ifdef __SANITIZE_THREAD__
#define EMULATED_ATOMIC static __attribute__((noinline, unused, no_sanitize("thread")))
#else
#define EMULATED_ATOMIC static inline
#endif

#define TOUCH(at) \
  do { \
    if (emulated_atomics > 0) emulated_switch_thread(); \
    emulated_touch(at, sizeof *(at), __builtin_return_address(0)); \
  } while (0)
#define ATOMIC(name, T, y) \
  EMULATED_ATOMIC T name (T *at, T x) { \
    TOUCH(at); \
    T old = *at; \
    *at = (T)(y); \
    return old; \
  }
#define ATOMICS(T) \
  ATOMIC(atomicAdd, T, old + x) ATOMIC(atomicExch, T, x) \
  ATOMIC(atomicMin, T, x < old ? x : old) ATOMIC(atomicMax, T, x > old ? x : old)
#define ATOMIC_BITS(T) \
  ATOMIC(atomicAnd, T, old & x) ATOMIC(atomicOr, T, old | x) ATOMIC(atomicXor, T, old ^ x) \
  EMULATED_ATOMIC T atomicCAS (T *at, T expected, T x) { \
    TOUCH(at); \
    T old = *at; \
    if (old == expected) *at = x; \
    return old; \
  }
ATOMICS(int) ATOMICS(unsigned) ATOMICS(unsigned long long) ATOMICS(long long)
ATOMIC(atomicAdd, float, old + x) ATOMIC(atomicAdd, double, old + x)
ATOMIC_BITS(int) ATOMIC_BITS(unsigned) ATOMIC_BITS(unsigned long long)
#undef TOUCH
#undef ATOMIC
#undef ATOMICS
#undef ATOMIC_BITS

/* }================================================================== */


/*
** {==================================================================
** Arithmetic
** ===================================================================
*/

template <class To, class From> static inline To emulated_bits (From from) {
  static_assert(sizeof(To) == sizeof(From), "bits are as many");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

static inline int __float_as_int (float x) { return emulated_bits<int>(x); }
static inline unsigned __float_as_uint (float x) { return emulated_bits<unsigned>(x); }
static inline float __int_as_float (int x) { return emulated_bits<float>(x); }
static inline float __uint_as_float (unsigned x) { return emulated_bits<float>(x); }
static inline long long __double_as_longlong (double x) { return emulated_bits<long long>(x); }
static inline double __longlong_as_double (long long x) { return emulated_bits<double>(x); }

static inline int __popc (unsigned x) { return __builtin_popcount(x); }
static inline int __popcll (unsigned long long x) { return __builtin_popcountll(x); }
static inline int __ffs (int x) { return __builtin_ffs(x); }
static inline int __ffsll (long long x) { return __builtin_ffsll(x); }
static inline int __clz (int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
static inline int __clzll (long long x) {
  return x == 0 ? 64 : __builtin_clzll((unsigned long long)x);
}
static inline unsigned __umulhi (unsigned x, unsigned y) {
  return (unsigned)((uint64_t)x * y >> 32);
}
static inline unsigned long long __umul64hi (unsigned long long x, unsigned long long y) {
  return (unsigned long long)((unsigned __int128)x * y >> 64);
}

template <class T> static inline T __ldg (const T *at) { return *at; }
static inline float rsqrtf (float x) { return 1 / sqrtf(x); }
static inline double rsqrt (double x) { return 1 / sqrt(x); }
static inline void sincospi (double x, double *s, double *c) {
  *s = sin(3.14159265358979323846 * x);
  *c = cos(3.14159265358979323846 * x);
}
static inline void sincospif (float x, float *s, float *c) {
  double sine, cosine;
  sincospi(x, &sine, &cosine);
  *s = (float)sine;
  *c = (float)cosine;
}
#define __expf expf
#define __logf logf
static inline float normcdff (float x) { return (float)(0.5 * erfc(-0.70710678118654752440 * x)); }
static inline double normcdf (double x) { return 0.5 * erfc(-0.70710678118654752440 * x); }
static inline float __fdividef (float x, float y) { return x / y; }
static inline float __fmaf_rn (float x, float y, float z) { return fmaf(x, y, z); }
static inline float __fadd_rn (float x, float y) { return x + y; }
static inline float __fmul_rn (float x, float y) { return x * y; }
static inline float __fdiv_rn (float x, float y) { return x / y; }
static inline float __fsqrt_rn (float x) { return sqrtf(x); }

template <class T> static inline T min (T x, T y) { return y < x ? y : x; }
template <class T> static inline T max (T x, T y) { return x < y ? y : x; }

/* }================================================================== */

#undef HERE

#endif
