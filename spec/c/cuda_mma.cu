/*
** cuda_mma.cu - the instructions of cuda/mma.h, beside plain loops: matrices as a warp has them,
** products, copies that run beside a kernel; and on an emulated GPU faults that it must notice.
*/

#include "cuda/mma.h"

#ifndef __CUDACC__
#include "spec/emulated/machine.h"
#endif

#include <stdio.h>
#include <stdlib.h>

static int tried, wrong;

static void check (bool good, const char *what) {
  tried++;
  if (good) return;
  wrong++;
  printf("wrong: %s\n", what);
}


/*
** {==================================================================
** Memory that both sides can reach: pinned
** ===================================================================
*/

template <class X> struct array {
  X *at;
  int n;
  explicit array (int size) : at(NULL), n(size) {
    if (runtime_alloc_host((void **)&at, sizeof(X) * (size_t)size) != 0) abort();
  }
  ~array () { runtime_free_host(at); }
};

static cuda_stream stream;

template <class... P, class... A>
static void run (int threads, size_t shared, void (*kernel) (P...), A... args) {
  runtime_grid g = {dim3(1), dim3((unsigned)threads), shared, stream};
  int code = runtime_launch(g, kernel, args...);
  if (code == 0) code = runtime_stream_wait(stream);
  if (code != 0) printf("%s\n", runtime_text(code));
  check(code == 0, "a kernel runs");
}

static uint32_t drawn = 1;

static int pick (int n) {
  drawn = drawn * 1664525 + 1013904223;
  return (int)(drawn >> 16) % n;
}

/* Multiples of 1/8, so that sums of products are exact. */
static uint16_t eighths (bfloat16, int x) {
  const float y = (float)x / 8;
  uint32_t bits;
  memcpy(&bits, &y, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static uint16_t eighths (float16, int x) {
  if (x == 0) return 0;
  const int size = abs(x), top = 31 - __builtin_clz((unsigned)size);
  return (uint16_t)((x < 0 ? 0x8000 : 0) | (top - 3 + 15) << 10 | (size << (10 - top) & 0x3ff));
}

/* }================================================================== */


/*
** {==================================================================
** Matrices
** ===================================================================
*/

KERNEL load_all (const uint32_t *from, uint32_t *plain, uint32_t *turned) {
  SHARED(uint32_t, rows);
  for (int i = 0; i < 4; i++) rows[lane_of() * 4 + i] = from[lane_of() * 4 + i];
  __syncwarp();
  uint32_t m[4];
  ptx_load_matrices(m, ptx_shared(rows) + (uint32_t)lane_of() * 16);
  for (int i = 0; i < 4; i++) plain[i * 32 + lane_of()] = m[i];
  ptx_load_transposed(m, ptx_shared(rows) + (uint32_t)lane_of() * 16);
  for (int i = 0; i < 4; i++) turned[i * 32 + lane_of()] = m[i];
}


/* Element 8 r + c of matrix m is 64 m + 8 r + c. */
static void matrices (void) {
  array<uint32_t> from(128), plain(128), turned(128);
  bool good = true, good_turned = true;
  for (int i = 0; i < 256; i++) ((uint16_t *)from.at)[i] = (uint16_t)i;
  run(32, 512, load_all, from.at, plain.at, turned.at);
  for (int m = 0; m < 4; m++)
    for (int l = 0; l < 32; l++)
      for (int k = 0; k < 2; k++) {
        const int r = l / 4, c = l % 4 * 2 + k, at = (m * 32 + l) * 2 + k;
        good &= ((uint16_t *)plain.at)[at] == 64 * m + 8 * r + c;
        good_turned &= ((uint16_t *)turned.at)[at] == 64 * m + 8 * c + r;
      }
  check(good, "matrices as they are");
  check(good_turned, "matrices transposed");
}

/* }================================================================== */


/*
** {==================================================================
** Products: c (16, 16) += a (16, 16) times b (16, 16), whose second axis is summed over, or whose
** first is
** ===================================================================
*/

template <class S> KERNEL multiply (const S *a, const S *b, float *c, bool turned) {
  SHARED(S, left);
  S *right = left + 256;
  for (int e = lane_of(); e < 256; e += 32) {
    left[e] = a[e];
    right[e] = b[e];
  }
  __syncwarp();
  const uint32_t row = (uint32_t)(lane_of() & 7), half = lane_of() >> 3 & 1;
  const uint32_t side = (uint32_t)lane_of() >> 4;
  uint32_t x[4], y[4];
  ptx_load_matrices(x, ptx_shared(left) + (row + 8 * half) * 32 + side * 16);
  if (turned) ptx_load_transposed(y, ptx_shared(right) + (row + 8 * half) * 32 + side * 16);
  else ptx_load_matrices(y, ptx_shared(right) + (row + 8 * side) * 32 + half * 16);
  for (int n = 0; n < 2; n++) {
    float sum[4];
    const int at = lane_of() / 4 * 16 + 8 * n + lane_of() % 4 * 2;
    for (int i = 0; i < 4; i++) sum[i] = c[at + i / 2 * 128 + i % 2];
    ptx_multiply(sum, x, y[2 * n], y[2 * n + 1], S());
    for (int i = 0; i < 4; i++) c[at + i / 2 * 128 + i % 2] = sum[i];
  }
}


template <class S> static void products (const char *what, bool turned, bool spoil) {
  array<S> a(256), b(256);
  array<float> c(256);
  float expected[256];
  int x[256], y[256];
  for (int i = 0; i < 256; i++) {
    a.at[i].bits = eighths(S(), x[i] = pick(33) - 16);
    b.at[i].bits = eighths(S(), y[i] = pick(33) - 16);
    expected[i] = c.at[i] = (float)(pick(9) - 4);
  }
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 16; j++)
      for (int k = 0; k < 16; k++)
        expected[16 * i + j] += (float)(x[16 * i + k] * y[turned ? 16 * k + j : 16 * j + k]) / 64;
  if (spoil) a.at[16 * 11 + 5].bits = 0x7fff;
  run(32, 1024, multiply<S>, (const S *)a.at, (const S *)b.at, c.at, turned);
  bool good = true;
  for (int i = 0; i < 256; i++)
    good &= spoil && i / 16 == 11 ? c.at[i] != c.at[i] : c.at[i] == expected[i];
  check(good, what);
}

/* }================================================================== */


/*
** {==================================================================
** Numbers
** ===================================================================
*/

KERNEL numbers (const float *x, float *powers, uint32_t *bfloats, uint32_t *halves) {
  const int i = (int)threadIdx.x;
  powers[i] = ptx_exp2(x[i]);
  bfloats[i] = ptx_pack(x[i], -x[i], bfloat16());
  halves[i] = ptx_pack(x[i], -x[i], float16());
}


static uint32_t pair (uint16_t low, uint16_t high) { return low | (uint32_t)high << 16; }


static void arithmetic (void) {
  array<float> x(64), powers(64);
  array<uint32_t> bfloats(64), halves(64);
  for (int i = 0; i < 64; i++) x.at[i] = (float)(pick(255) - 127) / 8;
  x.at[0] = -INFINITY;
  x.at[1] = -200;
  x.at[2] = 0;
  run(64, 0, numbers, (const float *)x.at, powers.at, bfloats.at, halves.at);
  bool good = powers.at[0] == 0 && powers.at[1] == 0 && powers.at[2] == 1;
  bool packed = true;
  for (int i = 3; i < 64; i++) {
    const int size = (int)(x.at[i] * 8);
    good &= fabs(powers.at[i] - exp2((double)x.at[i])) <= 0x1p-21 * exp2((double)x.at[i]);
    if (size == 0) continue;       /* whose negative is -0 */
    packed &= bfloats.at[i] == pair(eighths(bfloat16(), size), eighths(bfloat16(), -size));
    packed &= halves.at[i] == pair(eighths(float16(), size), eighths(float16(), -size));
  }
  check(good, "powers of 2");
  check(packed, "pairs of halves");
}

/* }================================================================== */


/*
** {==================================================================
** Copies: thread t copies 16 bytes twice, of which 4 (t % 5) are read
** ===================================================================
*/

enum { GOOD, EARLY, CROOKED, UNSEEN };         /* the faults that are planted */

KERNEL copy_both (const uint32_t *from, uint32_t *to, int fault) {
  SHARED(uint32_t, place);
  const int t = (int)threadIdx.x, n = (int)blockDim.x * 4, bytes = t % 5 * 4;
  ptx_copy(ptx_shared(place + 4 * t), from + 4 * t, bytes);
  ptx_commit();
  ptx_copy(ptx_shared(place + n + 4 * t) + (fault == CROOKED ? 4 : 0), from + n + 4 * t, bytes);
  ptx_commit();
  if (fault == UNSEEN) return;
  ptx_wait<1>();
  __syncthreads();
  for (int i = t; i < n; i += (int)blockDim.x) to[i] = place[i];
  if (fault != EARLY) ptx_wait<0>();
  __syncthreads();
  for (int i = n + t; i < 2 * n; i += (int)blockDim.x) to[i] = place[i];
  __syncthreads();
  ptx_wait<0>();
}


enum { COPIERS = 96, WORDS = COPIERS * 8 };

static void expect_copies (const uint32_t *from, uint32_t *expected) {
  for (int i = 0; i < WORDS; i++)
    expected[i] = i % 4 < i / 4 % COPIERS % 5 ? from[i] : 0;
}

static void copies_arrive (void) {
  array<uint32_t> from(WORDS), to(WORDS);
  uint32_t expected[WORDS];
  for (int i = 0; i < WORDS; i++) from.at[i] = (uint32_t)(i * 2654435761u);
  expect_copies(from.at, expected);
  run(COPIERS, WORDS * 4, copy_both, (const uint32_t *)from.at, to.at, (int)GOOD);
  check(memcmp(to.at, expected, sizeof expected) == 0, "copies");
}


#ifdef __CUDACC__

static void faults_are_seen (void) {}

#else

/* Without a device, which a kernel that fails would lose. */
static const char *run_fault (int fault, const uint32_t *from, uint32_t *to) {
  emulated_call<const uint32_t *, uint32_t *, int> call(copy_both, from, to, fault);
  const emulated_work work = {call.run, &call, (const void *)copy_both, call.parameters()};
  return machine_run(dim3(1), dim3(COPIERS), WORDS * 4 + 16, &work);
}

static bool says (const char *why, const char *text) {
  return why != NULL && strstr(why, text) != NULL;
}

/* A copy is read before the wait: NaN, or where accesses are watched the kernel's end. */
static bool late_is_seen (const uint32_t *from, uint32_t *to, const uint32_t *expected) {
  const char *why = run_fault(EARLY, from, to);
#ifdef __SANITIZE_THREAD__
  (void)expected;
  return says(why, "never written");
#else
  bool late = why == NULL && memcmp(to, expected, WORDS / 2 * sizeof *to) == 0;
  for (int i = WORDS / 2; i < WORDS; i++) late = late && to[i] == 0xffffffff;
  return late;
#endif
}

static void faults_are_seen (void) {
  alignas(16) uint32_t from[WORDS], to[WORDS], expected[WORDS];
  for (int i = 0; i < WORDS; i++) from[i] = (uint32_t)i;
  expect_copies(from, expected);
  check(says(run_fault(CROOKED, from, to), "not aligned"), "a crooked copy ends a kernel");
  check(says(run_fault(UNSEEN, from, to), "have arrived"), "a copy that nobody waits for ends it");
  check(late_is_seen(from, to, expected), "the second group is not there without a wait");
  check(run_fault(GOOD, from, to) == NULL && memcmp(to, expected, sizeof to) == 0,
        "after faults all is as before");
}

#endif

/* }================================================================== */


int main (void) {
  int n = 0, driver = 0;
  if (runtime_version(&driver) != 0 || driver == 0 || runtime_count(&n) != 0 || n == 0) {
    printf("skipped: no device\n0 passed, 0 failed, 1 skipped\n");
    return 0;
  }
  if (runtime_stream_open(&stream) != 0) return 1;
  matrices();
  for (int k = 0; k < 8; k++) {
    products<bfloat16>("a product of bfloat16", k & 1, k & 2);
    products<float16>("a product of float16", k & 1, k & 2);
  }
  arithmetic();
  copies_arrive();
  faults_are_seen();
  runtime_stream_close(stream);
  printf("instructions: %d cases, %d wrong\n", tried, wrong);
  return wrong > 0;
}
