/*
** cuda_random.c - a GPU's generator: dropout bit for bit, other kinds by their statistics.
*/

#include <stdarg.h>

#include "cuda_cases.h"


static void check (both *b, bool good, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void check (both *b, bool good, const char *format, ...) {
  if (good) return;
  va_list args;
  va_start(args, format);
  printf("not so: ");
  vprintf(format, args);
  printf("\n");
  va_end(args);
  b->failed++;
}


/* CPU and GPU use Philox, from a key in memory or a number. */
static void dropouts (both *b, heed_type type) {
  static const double chances[] = {0, 0.1, 0.5, 0.9, 1, 1e-9};
  for (int i = 0; i < 12; i++) {
    work w;
    const int64_t number = (int64_t)(drawn ^ drawn << 32);
    view y = output(type, 2, SIZES(between(1, 20), between(1, 70)));
    view key = fresh(HEED_INT64, 0, NULL);
    *(int64_t *)key.data = number;
    work_dropout(&w, chances[i % 6], y, key);
    same(b, describe("dropout", &w), &w, 0);
    w.in[0] = view_number(integer(number));
    if (i % 3 == 0) same(b, describe("dropout by a number", &w), &w, 0);
  }
}


/* The numbers that the GPU writes into out[0], in its order. */
static double *drawn_by (both *b, const work *w, int64_t *n) {
  work on_gpu = *w;
  reached out = send_view(b, &on_gpu.out[0]), in = {NULL, NULL, 0};
  if (w->nin > 0) in = send_view(b, &on_gpu.in[0]);
  const char *why = b->gpu->run(b->gpu, &on_gpu);
  if (why == NULL) why = b->gpu->download(b->gpu, out.start, out.copy, out.bytes);
  check(b, why == NULL, "random numbers of a GPU: %s", why);
  *n = layout_numel(&w->out[0].at);
  double *got = make((size_t)*n * sizeof *got);
  for (int64_t i = 0; i < *n; i++) got[i] = get(&w->out[0], i);
  free_copies(b, 1, &out);
  free_copies(b, 1, &in);
  b->tried++;
  return got;
}

static double mean_of (int64_t n, const double *x) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i];
  return sum / (double)n;
}

/* The mean of (x - mean)^power. */
static double moment (int64_t n, const double *x, double mean, int power) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += pow(x[i] - mean, power);
  return sum / (double)n;
}

static bool within (int64_t n, const double *x, double low, double high) {
  for (int64_t i = 0; i < n; i++) if (!(x[i] >= low && x[i] <= high)) return false;
  return true;
}

static bool close_to (double a, double b, double allowed) { return fabs(a - b) <= allowed; }


static void uniform (both *b, heed_type type, int ways) {
  work w;
  int64_t n;
  work_random(&w, RANDOM_UNIFORM, -1, 3, 0, 0, laid(type, 2, SIZES(301, 333), ways, 0, 1));
  const double *x = drawn_by(b, &w, &n), mean = mean_of(n, x), variance = moment(n, x, mean, 2);
  check(b, within(n, x, -1, nextafter(3, 0)), "uniform %s: in [-1, 3)", scalar_names[type]);
  check(b, close_to(mean, 1, 0.02), "uniform %s: mean %g", scalar_names[type], mean);
  check(b, close_to(variance, 16.0 / 12, 0.03), "uniform %s: variance %g", scalar_names[type],
        variance);
}

static void normal (both *b, heed_type type, int ways) {
  work w;
  int64_t n;
  work_random(&w, RANDOM_NORMAL, 2, 3, 0, 0, laid(type, 2, SIZES(301, 333), ways, 0, 1));
  const double *x = drawn_by(b, &w, &n), mean = mean_of(n, x);
  double variance = moment(n, x, 2, 2) / 9, fourth = moment(n, x, 2, 4) / 81, next = 0;
  for (int64_t i = 0; i + 1 < n; i++) next += (x[i] - 2) * (x[i + 1] - 2) / 9;
  next /= (double)n;
  check(b, close_to(mean, 2, 0.05), "normal %s: mean %g", scalar_names[type], mean);
  check(b, close_to(variance, 1, 0.03), "normal %s: variance %g", scalar_names[type], variance);
  check(b, close_to(fourth, 3, 0.15), "normal %s: fourth %g", scalar_names[type], fourth);
  check(b, close_to(next, 0, 0.02), "normal %s: neighbours %g", scalar_names[type], next);
}


/* Ten numbers, all there are, and one. */
static void integers (both *b) {
  work w;
  int64_t n, times[10] = {0};
  work_random(&w, RANDOM_INTEGER, 0, 0, -3, 6, fresh(HEED_INT64, 1, SIZES(100001)));
  const double *x = drawn_by(b, &w, &n);
  bool good = within(n, x, -3, 6);
  check(b, good, "integers are from -3 to 6");
  for (int64_t i = 0; good && i < n; i++) times[(int)x[i] + 3]++;
  for (int i = 0; i < 10; i++)
    check(b, llabs(times[i] - 10000) < 400, "%d came %d times", i - 3, (int)times[i]);
  w.random.low = INT64_MIN, w.random.high = INT64_MAX;
  x = drawn_by(b, &w, &n);
  check(b, close_to(mean_of(n, x), 0, 1e17), "integers of all sizes: mean %g", mean_of(n, x));
  w.random.low = w.random.high = 7;
  x = drawn_by(b, &w, &n);
  check(b, within(n, x, 7, 7), "integers from 7 to 7");
}


/* Each column has a probability of its own; then one number for all. */
static void bernoulli (both *b, heed_type type) {
  enum { COLUMNS = 2005 };
  work w;
  int64_t n;
  double sums[5] = {0};
  view y = laid(type, 2, SIZES(100, COLUMNS), some_layout(), 0, 1);
  view p = fresh(scalar_is_float(type) ? type : HEED_FLOAT32, 2, SIZES(1, COLUMNS));
  for (int i = 0; i < COLUMNS; i++) put(&p, i, i % 5 / 4.0);
  p.at.size[0] = 100;
  p.at.stride[0] = 0;
  work_bernoulli(&w, y, p);
  const double *x = drawn_by(b, &w, &n);
  for (int64_t i = 0; i < n; i++) sums[i % 5] += x[i] * 5 / (double)n;
  for (int i = 0; i < 5; i++)
    check(b, close_to(sums[i], i / 4.0, i % 4 == 0 ? 1e-9 : 0.01), "bernoulli %s: %g of %g",
          scalar_names[type], sums[i], i / 4.0);
  w.in[0] = view_number(real(0.3));
  x = drawn_by(b, &w, &n);
  check(b, close_to(mean_of(n, x), 0.3, 0.005), "bernoulli %s: %g", scalar_names[type],
        mean_of(n, x));
}


static void permutation (both *b, int64_t many) {
  work w;
  int64_t n, fixed = 0;
  work_random(&w, RANDOM_PERMUTATION, 0, 0, 0, 0, fresh(HEED_INT64, 1, &many));
  const double *x = drawn_by(b, &w, &n);
  char *found = calloc((size_t)n + 1, 1);
  bool good = within(n, x, 1, (double)n);
  for (int64_t i = 0; good && i < n; i++) {
    good = found[(int64_t)x[i]]++ == 0;
    fixed += x[i] == (double)(i + 1);
  }
  check(b, good, "a permutation of %d has each once", (int)n);
  check(b, n < 100 || fixed < 10, "%d of %d stayed", (int)fixed, (int)n);
  free(found);
}


/* A seed begins anew; replays of a capture give the numbers that calls would have given. */
static void seeds (both *b) {
  enum { N = 1001 };
  const accelerator *a = b->gpu->accelerator;
  work w;
  int64_t n;
  uint64_t state[2];
  work_random(&w, RANDOM_UNIFORM, 0, 1, 0, 0, fresh(HEED_FLOAT32, 1, SIZES(N)));
  a->seed(b->gpu, 5);
  const double *x[] = {drawn_by(b, &w, &n), drawn_by(b, &w, &n)};
  check(b, memcmp(x[0], x[1], N * sizeof **x) != 0, "the generator moves on");
  a->seed(b->gpu, 5);
  check(b, memcmp(x[0], drawn_by(b, &w, &n), N * sizeof **x) == 0, "a seed begins anew");
  check(b, a->rng_get(b->gpu, state) == NULL && state[0] == 5 && state[1] == (N + 3) / 4,
        "the state is seed and offset, not %d and %d", (int)state[0], (int)state[1]);
  reached out = send_view(b, &w.out[0]);
  const char *why = NULL;
  check(b, a->capture_begin(b->gpu) == NULL && b->gpu->run(b->gpu, &w) == NULL, "a capture");
  device_capture *c = a->capture_end(b->gpu, &why);
  check(b, c != NULL, "a capture ends: %s", why);
  a->seed(b->gpu, 5);
  for (int i = 0; c != NULL && i < 2; i++) {
    const float *got = (float *)out.start;
    why = a->capture_replay(b->gpu, c);
    if (why == NULL) why = b->gpu->download(b->gpu, out.start, out.copy, out.bytes);
    bool good = why == NULL;
    for (int k = 0; good && k < N; k++) good = (double)got[k] == x[i][k];
    check(b, good, "replay %d gives what a call would", i + 1);
  }
  if (c != NULL) a->capture_drop(b->gpu, c);
  free_copies(b, 1, &out);
}


int main (void) {
  static const int64_t many[] = {1, 2, 3, 100, 2048, 2049, 50000};
  both b;
  if (!both_open(&b)) return 0;
  for (int i = 0; i < 4; i++) {
    dropouts(&b, float_types[i]);
    for (int ways = 0; ways < LAYOUTS; ways += 5) {
      uniform(&b, float_types[i], ways);
      normal(&b, float_types[i], ways);
    }
    free_cases();
  }
  integers(&b);
  for (heed_type type = 0; type < HEED_NTYPES; type++) bernoulli(&b, type);
  free_cases();
  for (int i = 0; i < 7; i++) permutation(&b, many[i]);
  seeds(&b);
  return both_close(&b);
}
