/*
** cuda_mma.cu - the instructions of cuda/mma.h and cuda/wgmma.h, beside plain loops: matrices as a
** warp has them, products, copies that run beside a kernel; and on an emulated GPU faults that it
** must notice.
*/

#include "cuda/wgmma.h"

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

KERNEL load_all (const uint32_t *from, uint32_t *plain, uint32_t *turned, float4 *fours) {
  SHARED(uint32_t, rows);
  for (int i = 0; i < 4; i++) rows[lane_of() * 4 + i] = from[lane_of() * 4 + i];
  __syncwarp();
  uint32_t m[4];
  ptx_load_matrices(m, ptx_shared(rows) + (uint32_t)lane_of() * 16);
  for (int i = 0; i < 4; i++) plain[i * 32 + lane_of()] = m[i];
  ptx_load_transposed(m, ptx_shared(rows) + (uint32_t)lane_of() * 16);
  for (int i = 0; i < 4; i++) turned[i * 32 + lane_of()] = m[i];
  fours[lane_of()] = ptx_load_floats(ptx_shared(rows) + (uint32_t)(31 - lane_of()) * 16);
}


/* Element 8 r + c of matrix m is 64 m + 8 r + c. */
static void matrices (void) {
  array<uint32_t> from(128), plain(128), turned(128);
  array<float4> fours(32);
  bool good = true, good_turned = true, good_fours = true;
  for (int i = 0; i < 256; i++) ((uint16_t *)from.at)[i] = (uint16_t)i;
  run(32, 512, load_all, from.at, plain.at, turned.at, fours.at);
  for (int m = 0; m < 4; m++)
    for (int l = 0; l < 32; l++)
      for (int k = 0; k < 2; k++) {
        const int r = l / 4, c = l % 4 * 2 + k, at = (m * 32 + l) * 2 + k;
        good &= ((uint16_t *)plain.at)[at] == 64 * m + 8 * r + c;
        good_turned &= ((uint16_t *)turned.at)[at] == 64 * m + 8 * c + r;
      }
  for (int l = 0; l < 32; l++)
    good_fours &= memcmp(&fours.at[l], from.at + 4 * (31 - l), sizeof(float4)) == 0;
  check(good_fours, "four floats");
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


/* c (16, 8) += a (16, 8) times b (8, 8), of floats, of which what is not TF32's is not read. */
KERNEL multiply_floats (const uint32_t *a, const uint32_t *b, float *c) {
  const int row = lane_of() / 4, step = lane_of() % 4;
  const uint32_t x[4] = {a[row * 8 + step], a[(row + 8) * 8 + step], a[row * 8 + step + 4],
                         a[(row + 8) * 8 + step + 4]};
  float sum[4];
  for (int i = 0; i < 4; i++) sum[i] = c[(row + i / 2 * 8) * 8 + 2 * step + i % 2];
  ptx_multiply_tf32(sum, x, b[row * 8 + step], b[row * 8 + step + 4]);
  for (int i = 0; i < 4; i++) c[(row + i / 2 * 8) * 8 + 2 * step + i % 2] = sum[i];
}

static uint32_t bits_of (float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static void products_of_tf32 (void) {
  array<uint32_t> a(128), b(64);
  array<float> c(128);
  float expected[128];
  int x[128], y[64];
  for (int i = 0; i < 128; i++) a.at[i] = bits_of((float)(x[i] = pick(2047) - 1023)) | 0x1fff;
  for (int i = 0; i < 64; i++) b.at[i] = bits_of((float)(y[i] = pick(33) - 16)) | 0x1555;
  for (int i = 0; i < 128; i++) {
    expected[i] = c.at[i] = (float)(pick(9) - 4);
    for (int k = 0; k < 8; k++) expected[i] += (float)(x[i / 8 * 8 + k] * y[i % 8 * 8 + k]);
  }
  for (int i = 0; i < 128; i++) if (x[i] == 0) a.at[i] = 0;
  for (int i = 0; i < 64; i++) if (y[i] == 0) b.at[i] = 0;
  run(32, 0, multiply_floats, (const uint32_t *)a.at, (const uint32_t *)b.at, c.at);
  check(memcmp(c.at, expected, sizeof expected) == 0, "a product of TF32");
}


KERNEL round_floats (const float *x, uint32_t *y) {
  y[threadIdx.x] = ptx_to_tf32(x[threadIdx.x]);
}

/* 1 + n 2^-13: TF32 has steps of 2^-10, and halves go away from 0. */
static void tf32_rounds (void) {
  array<float> x(32);
  array<uint32_t> y(32);
  bool good = true;
  for (int i = 0; i < 32; i++)
    x.at[i] = i == 31 ? NAN : (i & 1 ? -1.0f : 1.0f) * (1 + (float)i / 8192);
  run(32, 0, round_floats, (const float *)x.at, y.at);
  for (int i = 0; i < 31; i++)
    good &= y.at[i] == bits_of((i & 1 ? -1.0f : 1.0f) * (1 + (float)((i + 4) / 8) / 1024));
  check(good && (y.at[31] & 0x7fffffff) > 0x7f800000 && (y.at[31] & 0x1fff) == 0, "TF32 rounds");
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
** Copies: thread t copies 16 bytes twice, of which 4 (t % 5) are read; or 4, of which none is if
** t % 5 is 0
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

KERNEL copy_words (const uint32_t *from, uint32_t *to) {
  SHARED(uint32_t, place);
  const int t = (int)threadIdx.x;
  ptx_copy<4>(ptx_shared(place + t), from + 3 * t, t % 5 == 0 ? 0 : 4);
  ptx_commit();
  ptx_wait<0>();
  __syncthreads();
  to[t] = place[(t + 1) % (int)blockDim.x];
}

static void words_arrive (void) {
  array<uint32_t> from(3 * COPIERS), to(COPIERS);
  bool good = true;
  for (int i = 0; i < 3 * COPIERS; i++) from.at[i] = (uint32_t)i + 1;
  run(COPIERS, COPIERS * 4, copy_words, (const uint32_t *)from.at, to.at);
  for (int i = 0; i < COPIERS; i++) {
    const int t = (i + 1) % COPIERS;
    good &= to.at[i] == (t % 5 == 0 ? 0 : (uint32_t)(3 * t + 1));
  }
  check(good, "copies of a word");
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


/*
** {==================================================================
** Products of a warpgroup: c (64, N) = or += a (64, 16) times b (16, N)
** ===================================================================
*/

/* Where column c of row r of a tile lies, in halves. */
INLINE int place_of (int r, int c, int rows) {
  return c / 64 * rows * 64 + r * 64 + ((c % 64 / 8) ^ (r % 8)) * 8 + c % 8;
}

/* 'own': a comes from registers, and b's rows are its tile's. 'from': the first column of a's tile,
   and of b's where these are its rows. */
template <class S, int N>
KERNEL multiply_group (const S *a, const S *b, float *c, bool own, bool more, int from) {
#if HAS_WARPGROUPS
  SHARED(S, left);
  S *right = left + 64 * 64;
  float sum[N / 8][4];
  const int warp = (int)threadIdx.x / 32, row = warp * 16 + lane_of() / 4;
  const int column = lane_of() % 4 * 2;
  for (int e = (int)threadIdx.x; e < 64 * 16; e += 128)
    left[place_of(e / 16, from + e % 16, 64)] = a[e];
  for (int e = (int)threadIdx.x; e < 16 * N; e += 128)
    right[own ? place_of(e / N, e % N, 16) : place_of(e % N, from + e / N, N)] = b[e];
  ptx_show_to_groups();
  __syncthreads();
  EACH(j, N / 8) EACH(e, 4)
    sum[j][e] = more ? c[(row + e / 2 * 8) * N + 8 * j + column + e % 2] : 0;
  ptx_group_begin();
  if (own) {
    uint32_t x[4];
    EACH(i, 4) memcpy(&x[i], a + (row + i % 2 * 8) * 16 + column + i / 2 * 8, 4);
    ptx_multiply_group(sum, x, matrix_of(ptx_shared(right), 16 * 128), more, S());
  }
  else
    ptx_multiply_group(sum, matrix_of(ptx_shared(left) + (uint32_t)from * 2, 16),
                       matrix_of(ptx_shared(right) + (uint32_t)from * 2, 16), more, S());
  ptx_group_commit();
  ptx_group_wait<0>();
  EACH(j, N / 8) EACH(e, 4) c[(row + e / 2 * 8) * N + 8 * j + column + e % 2] = sum[j][e];
#endif
}


template <class S, int N> static void group_products (const char *what) {
  array<S> a(64 * 16), b(16 * N);
  array<float> c(64 * N);
  for (int k = 0; k < 8; k++) {
    const bool own = k & 1, more = k & 2;
    bool good = true;
    float *expected = (float *)malloc(sizeof(float) * 64 * N);
    int *x = (int *)malloc(sizeof(int) * 64 * 16), *y = (int *)malloc(sizeof(int) * 16 * N);
    for (int i = 0; i < 64 * 16; i++) a.at[i].bits = eighths(S(), x[i] = pick(33) - 16);
    for (int i = 0; i < 16 * N; i++) b.at[i].bits = eighths(S(), y[i] = pick(33) - 16);
    for (int i = 0; i < 64 * N; i++) {
      c.at[i] = (float)(pick(9) - 4);
      expected[i] = more ? c.at[i] : 0;
      for (int d = 0; d < 16; d++)
        expected[i] += (float)(x[i / N * 16 + d] * y[d * N + i % N]) / 64;
    }
    run(128, (64 + N) * 128, multiply_group<S, N>, (const S *)a.at, (const S *)b.at, c.at, own,
        more, k / 2 * 16);
    for (int i = 0; i < 64 * N; i++) good &= c.at[i] == expected[i];
    check(good, what);
    free(expected);
    free(x);
    free(y);
  }
}


/* The emulated GPU has them whatever architecture it says that it is of. */
static void products_of_groups (void) {
#ifdef __CUDACC__
  runtime_device gpu;
  if (!WARPGROUPS_COMPILED || runtime_device_read(0, &gpu) != 0 || gpu.major != 9) {
    printf("products of warpgroups: not here\n");
    return;
  }
#endif
  group_products<bfloat16, 64>("a warpgroup's product of 64 columns of bfloat16");
  group_products<bfloat16, 128>("a warpgroup's product of 128 columns of bfloat16");
  group_products<bfloat16, 256>("a warpgroup's product of 256 columns of bfloat16");
  group_products<float16, 64>("a warpgroup's product of 64 columns of float16");
  group_products<float16, 128>("a warpgroup's product of 128 columns of float16");
  group_products<float16, 256>("a warpgroup's product of 256 columns of float16");
}

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
  for (int k = 0; k < 4; k++) products_of_tf32();
  products_of_groups();
  tf32_rounds();
  arithmetic();
  copies_arrive();
  words_arrive();
  faults_are_seen();
  runtime_stream_close(stream);
  printf("instructions: %d cases, %d wrong\n", tried, wrong);
  return wrong > 0;
}
