/*
** kernel.h - what kernels are written with: element types, offsets in layouts, reductions of a
** warp and of a block, faults.
**
** Everything here is called by kernels, unless it says host.
*/

#ifndef cuda_kernel_h
#define cuda_kernel_h

#include "cuda/core.h"
#include "cuda/ptx.h"
#include "cuda/runtime.h"

#define KERNEL static __global__ void
#define INLINE static __device__ __forceinline__
#define CALLED [[maybe_unused]] static __device__ __noinline__   /* much code, seldom wanted */
#define HOST_TOO static __host__ __device__ __forceinline__

#define FULL 0xffffffffu           /* all lanes of a warp */
#define MOST_WARPS 32              /* of a block */


/*
** {==================================================================
** Dynamic shared memory: what the launch asked for, aligned to 16 bytes
** ===================================================================
*/

#ifdef __CUDACC__
extern __shared__ __align__(1024) unsigned char dynamic_shared[];
#define SHARED(T, name) T *name = (T *)dynamic_shared
#else
#define SHARED(T, name) T *name = (T *)emulated_shared
#endif

/* }================================================================== */


/*
** {==================================================================
** Elements: a type of storage S, and the type that it is computed in
** ===================================================================
*/

struct float16 { uint16_t bits; };
struct bfloat16 { uint16_t bits; };
struct boolean { uint8_t yes; };     /* bool, as storage: 0 or 1 */

template <class S> struct element { typedef S computed; };     /* float, double, int64_t */
template <> struct element<float16> { typedef float computed; };
template <> struct element<bfloat16> { typedef float computed; };
template <> struct element<uint8_t> { typedef int64_t computed; };
template <> struct element<boolean> { typedef int64_t computed; };

#define COMPUTED(S) typename element<S>::computed

/* Widening is exact; narrowing rounds to nearest even, NaN staying NaN. */
INLINE float wide (float x) { return x; }
INLINE double wide (double x) { return x; }
INLINE int64_t wide (int64_t x) { return x; }
INLINE int64_t wide (uint8_t x) { return x; }
INLINE int64_t wide (boolean x) { return x.yes != 0; }
INLINE float wide (float16 x) { return ptx_from_half(x.bits); }
INLINE float wide (bfloat16 x) { return __uint_as_float((uint32_t)x.bits << 16); }

/* To integers: NaN gives 0, what is too large the nearest there is. */
INLINE int64_t to_integer (double x) {
  int64_t y = x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : 0;
  return fabs(x) < 0x1p63 ? (int64_t)x : y;
}
INLINE uint8_t to_byte (double x) {
  x = x > 0 ? x : 0;
  return (uint8_t)(int32_t)(x < 255 ? x : 255);
}

/* convert<S>(x): a computed value as an element of S, with the conversions of the CPU. */
template <class S> struct convert_to;
#define CONVERT(S, from_float, from_double, from_integer) \
  template <> struct convert_to<S> { \
    static __device__ __forceinline__ S of (float x) { return from_float; } \
    static __device__ __forceinline__ S of (double x) { return from_double; } \
    static __device__ __forceinline__ S of (int64_t x) { return from_integer; } \
  };
CONVERT(float, x, (float)x, (float)x)
CONVERT(double, x, x, (double)x)
CONVERT(int64_t, to_integer(x), to_integer(x), x)
CONVERT(uint8_t, to_byte(x), to_byte(x), (uint8_t)x)
CONVERT(boolean, boolean{x != 0}, boolean{x != 0}, boolean{x != 0})
CONVERT(float16, float16{ptx_to_half(x)}, float16{ptx_to_half((float)x)},
        float16{ptx_to_half((float)x)})
CONVERT(bfloat16, bfloat16{ptx_to_bfloat(x)}, bfloat16{ptx_to_bfloat((float)x)},
        bfloat16{ptx_to_bfloat((float)x)})
#undef CONVERT

template <class S, class T> INLINE S convert (T x) { return convert_to<S>::of(x); }

/* Element 'at' of storage whose type is known only when the kernel runs, as T; and back. */
template <class T> INLINE T fetch (const void *data, heed_type type, int64_t at) {
  switch (type) {
    case HEED_BOOL: return convert<T>(wide(((const boolean *)data)[at]));
    case HEED_UINT8: return convert<T>(wide(((const uint8_t *)data)[at]));
    case HEED_INT64: return convert<T>(((const int64_t *)data)[at]);
    case HEED_FLOAT16: return convert<T>(wide(((const float16 *)data)[at]));
    case HEED_BFLOAT16: return convert<T>(wide(((const bfloat16 *)data)[at]));
    case HEED_FLOAT32: return convert<T>(((const float *)data)[at]);
    case HEED_FLOAT64: SCALAR_BLOCK_CASES: break;
  }
  return convert<T>(((const double *)data)[at]);
}

/* The same of the types of floats alone. */
template <class T> INLINE T fetch_float (const void *data, heed_type type, int64_t at) {
  switch (type) {
    case HEED_FLOAT16: return convert<T>(wide(((const float16 *)data)[at]));
    case HEED_BFLOAT16: return convert<T>(wide(((const bfloat16 *)data)[at]));
    case HEED_FLOAT32: return convert<T>(((const float *)data)[at]);
    case HEED_FLOAT64: return convert<T>(((const double *)data)[at]);
    case HEED_BOOL: case HEED_UINT8: case HEED_INT64: SCALAR_BLOCK_CASES: break;
  }
  return 0;
}

template <class T> INLINE void put (void *data, heed_type type, int64_t at, T x) {
  switch (type) {
    case HEED_BOOL: ((boolean *)data)[at] = convert<boolean>(x); return;
    case HEED_UINT8: ((uint8_t *)data)[at] = convert<uint8_t>(x); return;
    case HEED_INT64: ((int64_t *)data)[at] = convert<int64_t>(x); return;
    case HEED_FLOAT16: ((float16 *)data)[at] = convert<float16>(x); return;
    case HEED_BFLOAT16: ((bfloat16 *)data)[at] = convert<bfloat16>(x); return;
    case HEED_FLOAT32: ((float *)data)[at] = convert<float>(x); return;
    case HEED_FLOAT64: SCALAR_BLOCK_CASES: break;
  }
  ((double *)data)[at] = convert<double>(x);
}

/*
** Host: the statement with S standing for the type of storage, for one of the types; a template
** is chosen so: FOR_FLOAT(v->type, return rows<S>(self, w));
*/
#define TYPE_CASE(name, type, ...) case name: { typedef type S; __VA_ARGS__; } break;
#define FOR_FLOAT(type, ...) switch (type) { \
    TYPE_CASE(HEED_FLOAT32, float, __VA_ARGS__) TYPE_CASE(HEED_FLOAT64, double, __VA_ARGS__) \
    TYPE_CASE(HEED_FLOAT16, float16, __VA_ARGS__) TYPE_CASE(HEED_BFLOAT16, bfloat16, __VA_ARGS__) \
    case HEED_BOOL: case HEED_UINT8: case HEED_INT64: SCALAR_BLOCK_CASES: break; }
#define FOR_TYPE(type, ...) switch (type) { \
    TYPE_CASE(HEED_FLOAT32, float, __VA_ARGS__) TYPE_CASE(HEED_FLOAT64, double, __VA_ARGS__) \
    TYPE_CASE(HEED_FLOAT16, float16, __VA_ARGS__) TYPE_CASE(HEED_BFLOAT16, bfloat16, __VA_ARGS__) \
    TYPE_CASE(HEED_INT64, int64_t, __VA_ARGS__) TYPE_CASE(HEED_UINT8, uint8_t, __VA_ARGS__) \
    TYPE_CASE(HEED_BOOL, boolean, __VA_ARGS__) SCALAR_BLOCK_CASES: break; }
/* The same with the type that 'type' is computed in: float, double or int64_t. */
#define FOR_COMPUTED(type, ...) switch (type) { \
    TYPE_CASE(HEED_FLOAT64, double, __VA_ARGS__) \
    case HEED_FLOAT16: case HEED_BFLOAT16: TYPE_CASE(HEED_FLOAT32, float, __VA_ARGS__) \
    case HEED_BOOL: case HEED_UINT8: TYPE_CASE(HEED_INT64, int64_t, __VA_ARGS__) \
    SCALAR_BLOCK_CASES: break; }

/* }================================================================== */


/*
** {==================================================================
** Layouts: the row-major index of an element, and its offset in memory
** ===================================================================
*/

/* x / d and x % d for 0 <= x < 2^31 by a multiplication (T. Granlund, P. Montgomery, 1994). */
typedef struct divisor { uint32_t d, magic; int shift; } divisor;

static inline divisor divisor_of (int64_t d) {                /* host */
  divisor v = {(uint32_t)d, 0, 0};
  while (v.shift < 31 && (1ll << v.shift) < d) v.shift++;
  if (d > 0 && d < 1ll << 31)
    v.magic = (uint32_t)((((1ull << v.shift) - (uint64_t)d) << 32) / (uint64_t)d + 1);
  return v;
}

INLINE uint32_t divide (uint32_t x, const divisor &v) {
  return (__umulhi(x, v.magic) + x) >> v.shift;
}

/* The same for all x. */
INLINE uint32_t divide_any (uint32_t x, const divisor &v) {
  return (uint32_t)(((uint64_t)__umulhi(x, v.magic) + x) >> v.shift);
}

/* A layout as kernels iterate it: divisions prepared. */
typedef struct path {
  int rank;
  bool small;                      /* fewer than 2^31 elements */
  int64_t size[HEED_RANK], stride[HEED_RANK];
  divisor by[HEED_RANK];
} path;

path path_of (const layout *at);                              /* host; its axes as they are */
void paths_of (int n, const layout *const *at, path *paths);  /* host; of one shape, fused */

/* Of the element with this row-major index. Most paths have few axes: an unrolled loop would be
   much code that none of them takes. */
INLINE int64_t element_offset (const path &p, int64_t index) {
  int64_t at = 0;
  if (p.small) {
    uint32_t rest = (uint32_t)index;
#pragma unroll 1
    for (int i = p.rank - 1; i > 0; i--) {
      uint32_t q = divide(rest, p.by[i]);
      at += (int64_t)(rest - q * p.by[i].d) * p.stride[i];
      rest = q;
    }
    return p.rank > 0 ? at + (int64_t)rest * p.stride[0] : 0;
  }
#pragma unroll 1
  for (int i = p.rank - 1; i > 0; i--) {
    int64_t q = index / p.size[i];
    at += (index - q * p.size[i]) * p.stride[i];
    index = q;
  }
  return p.rank > 0 ? at + index * p.stride[0] : 0;
}

HOST_TOO int64_t distance (int64_t stride) { return stride < 0 ? -stride : stride; }

/* Elements of this thread: for (int64_t i = first_index(); i < n; i += index_step()). */
INLINE int64_t first_index (void) { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
INLINE int64_t index_step (void) { return (int64_t)gridDim.x * blockDim.x; }

/* }================================================================== */


/*
** {==================================================================
** Reductions of a warp and of a block: one fixed order, the same result in every thread
** ===================================================================
*/

INLINE int lane_of (void) { return (int)(threadIdx.x & 31); }
INLINE int warp_of (void) { return (int)(threadIdx.x >> 5); }

struct plus { template <class T> __device__ T operator() (T a, T b) const { return a + b; } };
struct times {                     /* integers wrap */
  template <class T> __device__ T operator() (T a, T b) const { return a * b; }
  __device__ int64_t operator() (int64_t a, int64_t b) const {
    return (int64_t)((uint64_t)a * (uint64_t)b);
  }
};
struct larger {                    /* a NaN wins */
  template <class T> __device__ T operator() (T a, T b) const { return a > b || a != a ? a : b; }
};
struct smaller {
  template <class T> __device__ T operator() (T a, T b) const { return a < b || a != a ? a : b; }
};

template <class F, class T> INLINE T warp_reduce (F f, T x) {
  for (int by = 16; by > 0; by >>= 1) x = f(x, __shfl_xor_sync(FULL, x, by));
  return x;
}

/*
** Of a block of full warps in one dimension (at most 1024 threads). 'buffer' is shared memory for
** MOST_WARPS values; all threads call it, and 'buffer' may be used again at once.
*/
template <class F, class T> INLINE T block_reduce (F f, T x, T *buffer) {
  int warps = (int)(blockDim.x >> 5);
  x = warp_reduce(f, x);
  if (warps == 1) return x;
  __syncthreads();                 /* the call before may still read 'buffer' */
  if (lane_of() == 0) buffer[warp_of()] = x;
  __syncthreads();
  x = buffer[0];
  for (int i = 1; i < warps; i++) x = f(x, buffer[i]);
  return x;
}

template <class T> INLINE T block_sum (T x, T *buffer) { return block_reduce(plus(), x, buffer); }

/*
** One thread of each block asks at the block's end: is this block the last? Then what all blocks
** read before they ended may be written. '*done' is 0 at first, and again when the kernel ends.
*/
INLINE bool ends_last (unsigned *done) {
  __threadfence();                 /* what this block read and wrote comes before its count */
  if (atomicAdd(done, 1u) + 1 < gridDim.x) return false;
  __threadfence();                 /* and that of the others before what this one does next */
  *done = 0;
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Faults: errors in values, which only the device sees. A kernel reports one and goes on with a
** value that does no harm; the next call from the host raises it.
** ===================================================================
*/

typedef enum fault_kind {
  FAULT_POSITION, FAULT_LABEL, FAULT_LENGTH, FAULT_DIVISION, FAULT_PROBABILITY
} fault_kind;

/*
** In device memory, without a lock: what is said of a fault is cut into digits, and each digit has
** a word of its own, above it the fault's place. The least of every word is kept. All words thus
** end up with digits of one fault, that of the first place, whatever the order of threads. All bits
** are set where nothing was reported.
*/
#define FAULT_DIGIT 20             /* bits */
#define FAULT_DIGITS 4             /* of a number of 64 bits */
#define FAULT_DIGIT_MASK ((1ull << FAULT_DIGIT) - 1)

typedef unsigned long long fault_word;           /* as atomic operations have it */

typedef struct fault_record {
  fault_word launch;               /* the first that reports; later ones don't */
  fault_word value[FAULT_DIGITS], limit[FAULT_DIGITS];
  fault_word what;                 /* a fault_kind in 4 bits, then whose: device.op */
} fault_record;

typedef struct faults {            /* passed to kernels by value: see cuda_faults */
  fault_record *record;
  int *raised;                     /* in pinned memory: the host's to see */
  int op;
  fault_word launch;               /* a number of its own */
} faults;

INLINE fault_word digit_of (int64_t x, int k) {
  return (fault_word)x >> FAULT_DIGIT * k & FAULT_DIGIT_MASK;
}

/* Is the record of this launch? The first thread to report takes it. */
INLINE bool takes_record (const faults &f) {
  fault_word owner = *(const volatile fault_word *)&f.record->launch;
  if (owner == ~0ull) owner = atomicCAS(&f.record->launch, ~0ull, f.launch);
  if (owner == ~0ull) *(volatile int *)f.raised = 1;
  return owner == ~0ull || owner == f.launch;
}

/* The place: a number below 16 first, then a position from 1, below 2^40. */
CALLED void report (const faults &f, fault_kind kind, int which, int64_t position, int64_t value,
                    int64_t limit) {
  fault_record *r = f.record;
  const fault_word most = (1ull << 40) - 1, p = (fault_word)position;
  const fault_word place = ((fault_word)which << 40 | (p < most ? p : most)) << FAULT_DIGIT;
  const fault_word first = place | digit_of(value, 0);
  if (!takes_record(f) || *(const volatile fault_word *)&r->value[0] <= first) return;
  if (atomicMin(&r->value[0], first) <= first) return;           /* that thread does the rest */
  for (int k = 1; k < FAULT_DIGITS; k++) atomicMin(&r->value[k], place | digit_of(value, k));
  for (int k = 0; k < FAULT_DIGITS; k++) atomicMin(&r->limit[k], place | digit_of(limit, k));
  atomicMin(&r->what, place | (fault_word)kind | (fault_word)f.op << 4);
}

/* }================================================================== */

#endif
