/*
** level.h - the body of a level file: all loops, and the table LEVEL of them.
**
** A level file includes the system's headers, sets its target and VECTOR_BYTES, and includes
** this. Nothing but the table has linkage.
*/

#if !defined(LEVEL) || !defined(LEVEL_NAME) || !defined(VECTOR_BYTES)
#error "a level file says what LEVEL, LEVEL_NAME and VECTOR_BYTES are"
#endif

/*
** The loops must be vectorised at -O2 too; and jump threading would split their choices into
** several paths, each computed for all lanes (gelu took 3 times as long).
*/
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3,no-thread-jumps")
#elif defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

#include "cpu/vector/math.h"
#include "cpu/vector/simd.h"
#include "cpu/vector/elementwise.h"
#include "cpu/rows/reduce.h"
#include "cpu/rows/softmax.h"
#include "cpu/rows/norm.h"
#include "cpu/rows/rotate.h"
#include "cpu/rows/loss.h"
#include "cpu/optimize/optimize.h"
#include "cpu/optimize/clip.h"
#include "cpu/random/dropout.h"
#include "cpu/random/random_loops.h"
#include "cpu/product/matmul.h"
#include "cpu/attention/attention.h"
#include "cpu/blocks/blocks.h"

#define MAP_FLT(name) map_##name##_float, map_##name##_double, NULL
#define MAP_NUM(name) map_##name##_float, map_##name##_double, map_##name##_int64
#define MAP_ALL MAP_NUM
#define MAP_TEST MAP_NUM
#define MAP_PICK MAP_NUM
#define DERIVATIVE(name, which) \
  {derivative_##name##_##which##_float, derivative_##name##_##which##_double}

const cpu_level LEVEL = {
  .name = LEVEL_NAME,
  .map = {
#define UNARY(name, domain, ...) [HEED_##name] = {MAP_##domain(name)},
#define BINARY(name, domain, ...) [HEED_##name] = {MAP_##domain(name)},
#define TERNARY(name, domain, ...) [HEED_##name] = {MAP_##domain(name)},
#include "op/ops.def"
  },
  .derivative = {
#define UNARY(name, ...) [HEED_##name] = {DERIVATIVE(name, 0)},
#define BINARY(name, ...) [HEED_##name] = {DERIVATIVE(name, 0), DERIVATIVE(name, 1)},
#define TERNARY(name, ...) \
  [HEED_##name] = {DERIVATIVE(name, 0), DERIVATIVE(name, 1), DERIVATIVE(name, 2)},
#include "op/ops.def"
  },
  .load = elementwise_load,
  .store = elementwise_store,
  .reduce = reduce,
  .scan = scan,
  .softmax = softmax,
  .norm = norm,
  .rotate = rotate,
  .loss = loss,
  .matmul = matmul,
  .blocks = blocks,
  .attention = attention,
  .attention_back = attention_back,
  .optimize = optimize,
  .clip = clip,
  .dropout = dropout,
  .uniform = random_uniform,
  .normal = random_normal
};
