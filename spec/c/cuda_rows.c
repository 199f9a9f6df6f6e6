/*
** cuda_rows.c - what goes along rows, on a card: reductions, scans, softmax, norms, losses.
**
** Random cases first, of all types and layouts, some with NaN and infinities; then cases that
** are known to be hard: rows too wide for shared memory, columns, large means, rising rows.
*/

#include "cuda_cases.h"

static const int times = 250;                        /* random cases of each kind of work */

static bool spoiled, coarse;         /* what the inputs of the case that runs are like */


static double tolerance (heed_type type) {
  return type == HEED_FLOAT64 ? 1e-12 : type == HEED_FLOAT32 ? 4e-6
       : type == HEED_FLOAT16 ? 2e-3 : type == HEED_BFLOAT16 ? 1.6e-2 : 0;
}

static double larger (double a, double b) { return a > b ? a : b; }


static view given (heed_type type, int rank, const int64_t *size) {
  view v = input(type, rank, size);
  if (coarse && scalar_is_float(type)) coarsen(&v);
  if (spoiled) spoil(&v, layout_numel(&v.at) / 100);
  return v;
}

static view maybe (heed_type type, int rank, const int64_t *size) {
  return chance(0.3) ? view_none() : given(type, rank, size);
}

/* Short and long axes, a few of size 0, with at most 'most' elements in all. */
static void some_sizes (int rank, int64_t *size, int64_t most) {
  int order[HEED_RANK];
  shuffle(rank, order);
  for (int i = 0; i < rank; i++) {
    int64_t kinds[] = {1, between(1, 9), between(1, 9), between(1, 70), 8 * between(1, 40),
                       between(1, 2000)};
    int64_t n = kinds[pick(6)];
    if (n > most) n = most;
    most = most / n > 1 ? most / n : 1;
    size[order[i]] = chance(0.01) ? 0 : n;
  }
}

/* (R, C): few and many rows, short and long ones. */
static void some_rows (int64_t size[2], int64_t most) {
  int kind = (int)pick(5);
  size[0] = kind == 1 ? between(1, 3) : kind == 2 ? between(1, most / 20) : between(1, 70);
  size[1] = kind == 0 ? 8 * between(1, 300) : kind == 1 ? between(1, most / 4)
          : kind == 2 ? between(1, 20) : kind == 3 ? 8 * between(1, 40) : between(1, 300);
}

static int64_t some_most (void) { return chance(0.03) ? 200000 : chance(0.7) ? 6000 : 30000; }


/* Types that a reduction may be asked for: sums of whole numbers are whole. */
static void reduced_types (int op, heed_type *in, heed_type *out) {
  *in = *out = (heed_type)pick(HEED_NTYPES);
  if (op == REDUCE_ARGMAX || op == REDUCE_ARGMIN) *out = HEED_INT64;
  if (op == REDUCE_ANY || op == REDUCE_ALL) *out = HEED_BOOL;
  if (op == REDUCE_LOGSUMEXP && !scalar_is_float(*in)) *out = HEED_FLOAT32;
  if (op == REDUCE_MOMENTS) *out = wide(*in = float_type());
  if (op > REDUCE_PROD) return;
  *out = scalar_is_float(*in) || chance(0.5) ? float_type() : HEED_INT64;
}

static void reduction (both *b) {
  int64_t size[4];
  int rank = (int)pick(5), axes = (int)pick(rank + 1), outer = rank - axes, op = (int)pick(10);
  some_sizes(rank, size, some_most());
  for (int i = outer; i < rank; i++) if (size[i] == 0 && op >= REDUCE_MAX) size[i] = 1;
  work w = {.kind = WORK_REDUCE, .op = op, .nin = 1, .nout = 1, .count = {axes}};
  heed_type in, out;
  reduced_types(op, &in, &out);
  w.in[0] = given(in, rank, size);
  if (op == REDUCE_PROD && scalar_is_float(in))
    w.in[0] = laid(in, rank, size, some_layout(), 0.9, 1.1);
  w.out[0] = output(out, outer, size);
  bool moments = op == REDUCE_MOMENTS, choice = op == REDUCE_MAX || op == REDUCE_MIN;
  if (moments || (choice && chance(0.5)))
    w.out[w.nout++] = output(moments ? out : HEED_INT64, outer, size);
  bool exact = op >= REDUCE_MAX && op <= REDUCE_ALL;    /* but for the sign of 0 */
  same(b, describe("reduce", &w), &w,
       exact ? 1e-300 : tolerance(out) * (op == REDUCE_PROD ? 30 : 1));
}


static void scan (both *b) {
  int64_t size[4];
  int rank = (int)pick(5);
  some_sizes(rank, size, some_most());
  work w = {.kind = WORK_SCAN, .nin = 1, .nout = 1, .count = {pick(2)}};
  heed_type in = (heed_type)pick(HEED_NTYPES);
  heed_type out = scalar_is_float(in) || chance(0.3) ? float_type() : HEED_INT64;
  w.in[0] = given(in, rank, size);
  w.out[0] = output(out, rank, size);
  same(b, describe("scan", &w), &w, tolerance(out));
}


static void softmax (both *b) {
  int64_t size[4];
  int rank = (int)pick(5);
  some_sizes(rank, size, some_most());
  work w = {.kind = WORK_SOFTMAX, .op = (int)pick(4), .nout = 1};
  w.nin = w.op < SOFTMAX_BACK ? 1 : 2;
  heed_type type = float_type();
  double allowed = tolerance(type);
  for (int i = 0; i < w.nin; i++) {
    heed_type in = chance(0.8) ? type : float_type();
    w.in[i] = given(in, rank, size);
    allowed = larger(allowed, in == type ? 0 : 2 * larger(tolerance(in), 4e-6));
  }
  w.out[0] = output(type, rank, size);
  same(b, describe("softmax", &w), &w, allowed);
}


static void norm (both *b) {
  int64_t size[2];
  some_rows(size, some_most());
  heed_type type = float_type(), other = chance(0.7) ? type : float_type();
  work w = {.kind = WORK_NORM, .op = chance(0.5) ? NORM_LAYER : NORM_RMS, .number = {1e-5}};
  w.nin = w.nout = w.op == NORM_LAYER ? 3 : 2;
  w.in[0] = given(type, 2, size);
  for (int i = 1; i < w.nin; i++) w.in[i] = maybe(other, 1, size + 1);
  w.out[0] = output(type, 2, size);
  for (int i = 1; i < w.nout; i++) w.out[i] = output(wide(type), 1, size);
  same(b, describe("norm", &w), &w, 10 * tolerance(type));
}

static view wanted (heed_type type, int rank, const int64_t *size) {
  return chance(0.2) ? view_none() : output(type, rank, size);
}

static void norm_back (both *b) {
  int64_t size[2];
  some_rows(size, some_most());
  spoiled = false;
  heed_type type = float_type(), other = chance(0.7) ? type : float_type();
  bool layer = chance(0.5);
  work w = {.kind = WORK_NORM, .op = layer ? NORM_LAYER_BACK : NORM_RMS_BACK};
  w.in[0] = given(type, 2, size);
  w.in[1] = given(type, 2, size);
  w.in[2] = maybe(other, 1, size + 1);
  w.nin = 3;
  if (layer) w.in[w.nin++] = given(wide(type), 1, size);
  w.in[w.nin++] = laid(wide(type), 1, size, 0, 0.5, 1.5);
  w.nout = layer ? 3 : 2;
  w.out[0] = wanted(type, 2, size);
  for (int i = 1; i < w.nout; i++) w.out[i] = wanted(other, 1, size + 1);
  same(b, describe("norm back", &w), &w, 10 * larger(tolerance(type), tolerance(other)));
}


static void loss (both *b) {
  int64_t size[2];
  some_rows(size, some_most());
  bool back = chance(0.5);
  heed_type type = float_type(), sum = wide(type);
  work w = {.kind = WORK_LOSS};
  w.number[0] = chance(0.5) ? 0.1 : 0;
  w.count[0] = chance(0.5) ? 2 : -100;
  view x = given(type, 2, size), weight = view_none();
  view target = laid(HEED_INT64, 1, size, some_layout(), 1, 1 + (double)size[1]);
  if (chance(0.5))
    weight = laid(chance(0.7) ? type : float_type(), 1, size + 1, some_layout(), 0.1, 2);
  if (back) {
    w.op = LOSS_CROSS_ENTROPY_BACK;
    w.nin = 5, w.nout = 1;
    w.in[0] = laid(sum, 1, size, some_layout(), -3, 4);
    w.in[1] = x, w.in[2] = target, w.in[3] = weight;
    w.in[4] = laid(sum, 1, size, some_layout(), -3, 4);
    w.out[0] = output(type, 2, size);
  } else {
    w.op = LOSS_CROSS_ENTROPY;
    w.nin = w.nout = 3;
    w.in[0] = x, w.in[1] = target, w.in[2] = weight;
    for (int i = 0; i < 3; i++) w.out[i] = output(sum, 1, size);
  }
  same(b, describe("loss", &w), &w, 3 * tolerance(back ? type : sum));
}


static void random_cases (both *b) {
  void (*const kinds[]) (both *) = {reduction, scan, softmax, norm, norm_back, loss};
  for (int i = 0; i < 6 * times; i++) {
    spoiled = chance(0.25), coarse = chance(0.3);
    kinds[i % 6](b);
    forget();
  }
}


/* Both tell the first label that is no class. */
static void bad_labels (both *b) {
  work w = {.kind = WORK_LOSS, .op = LOSS_CROSS_ENTROPY, .nin = 3, .nout = 3, .count = {-100}};
  w.in[0] = filled(HEED_FLOAT32, 2, SIZES(40, 30), -3, 3);
  w.in[1] = filled(HEED_INT64, 1, SIZES(40), 1, 31);
  w.in[2] = view_none();
  for (int i = 0; i < 3; i++) w.out[i] = fresh(HEED_FLOAT32, 1, SIZES(40));
  put(&w.in[1], 3, -100);
  same(b, "an ignored label", &w, tolerance(HEED_FLOAT32));
  put(&w.in[1], 29, -4);
  put(&w.in[1], 17, 31);
  same(b, "labels that are no class", &w, 0);
}


/* Sums of columns: in shared memory, of many rows, and too wide for it. */
static void norm_columns (both *b, heed_type type, int64_t rows, int64_t columns) {
  const int64_t size[] = {rows, columns};
  work w = {.kind = WORK_NORM, .op = NORM_LAYER_BACK, .nin = 5, .nout = 3};
  for (int i = 0; i < 2; i++) w.in[i] = filled(type, 2, size, -1, 1);
  w.in[2] = filled(type, 1, size + 1, -1, 1);
  w.in[3] = filled(wide(type), 1, size, -1, 1);
  w.in[4] = filled(wide(type), 1, size, 0.5, 1);
  w.out[0] = fresh(type, 2, size);
  for (int i = 1; i < 3; i++) w.out[i] = fresh(type, 1, size + 1);
  same(b, describe("columns of a norm", &w), &w, 10 * tolerance(type));
  same_again(b, "columns of a norm", &w);
}

static void large_mean (both *b, heed_type type) {
  double low = type == HEED_FLOAT16 ? 1000 : 10000;
  work w = {.kind = WORK_NORM, .op = NORM_LAYER, .nin = 3, .nout = 3, .number = {1e-5}};
  w.in[0] = filled(type, 2, SIZES(5, 3000), low, low + 100);
  w.in[1] = w.in[2] = view_none();
  w.out[0] = fresh(type, 2, SIZES(5, 3000));
  for (int i = 1; i < 3; i++) w.out[i] = fresh(wide(type), 1, SIZES(5));
  same(b, describe("a large mean", &w), &w, 3 * tolerance(type));
}


static void large_reduction (both *b, int op, view x) {
  work w = {.kind = WORK_REDUCE, .op = op, .nin = 1, .nout = 1, .count = {1}};
  heed_type out = op == REDUCE_ARGMAX || op == REDUCE_ARGMIN ? HEED_INT64
                : op == REDUCE_ANY || op == REDUCE_ALL ? HEED_BOOL
                : op == REDUCE_MOMENTS ? wide(x.type) : x.type;
  w.in[0] = x;
  w.nout = op == REDUCE_MOMENTS ? 2 : 1;
  for (int i = 0; i < w.nout; i++) w.out[i] = fresh(out, 1, x.at.size);
  bool exact = op >= REDUCE_MAX && op <= REDUCE_ALL;
  double allowed = tolerance(out) * (op == REDUCE_PROD ? 30 : 1);
  same(b, describe("a large reduction", &w), &w, exact ? 0 : allowed);
  if (op == REDUCE_SUM) same_again(b, "a large sum", &w);
}

/* One long row, many short ones, and columns. */
static void large_reductions (both *b, heed_type type) {
  for (int op = REDUCE_SUM; op <= REDUCE_LOGSUMEXP; op++) {
    bool product = op == REDUCE_PROD;
    double low = product ? 0.999 : -1, high = product ? 1.001 : 1;
    if (product && type == HEED_FLOAT16) continue;       /* too coarse to compare */
    large_reduction(b, op, filled(type, 2, SIZES(1, 300000), low, high));
    large_reduction(b, op, filled(type, 2, SIZES(700, 40), low, high));
    view x = filled(type, 2, SIZES(3000, 33), low, high);
    x.at = layout_transpose(&x.at, 0, 1);
    large_reduction(b, op, x);
    forget();
  }
}


static void long_scan (both *b, heed_type type, bool backwards) {
  work w = {.kind = WORK_SCAN, .nin = 1, .nout = 1, .count = {backwards}};
  w.in[0] = filled(type, 2, SIZES(2, 200000), 0, type == HEED_FLOAT16 ? 0.1 : 1);
  w.out[0] = fresh(type, 2, SIZES(2, 200000));
  same(b, describe("a long scan", &w), &w, tolerance(type));
  same_again(b, "a long scan", &w);
}

/* A row whose largest element changes all the time. */
static void rising (both *b, heed_type type) {
  const int64_t n = 100000, size[] = {1, n};
  work w = {.kind = WORK_REDUCE, .op = REDUCE_LOGSUMEXP, .nin = 1, .nout = 1, .count = {1}};
  w.in[0] = fresh(type, 2, size);
  for (int64_t i = 0; i < n; i++) put(&w.in[0], i, (double)i * 1e-3);
  w.out[0] = fresh(type, 1, size);
  same(b, describe("a rising row", &w), &w, tolerance(type) / 4);
  w.kind = WORK_SOFTMAX;
  w.op = SOFTMAX;
  w.out[0] = fresh(type, 2, size);
  same(b, describe("softmax of a rising row", &w), &w, 3 * tolerance(type));
}

/* Rows of minus infinity alone, with an infinity, with NaN, with one number. */
static void infinite_rows (both *b, heed_type type) {
  for (int op = SOFTMAX; op <= SOFTMAX_LOG; op++) {
    work w = {.kind = WORK_SOFTMAX, .op = op, .nin = 1, .nout = 1};
    w.in[0] = fresh(type, 2, SIZES(4, 6));
    w.out[0] = fresh(type, 2, SIZES(4, 6));
    for (int i = 0; i < 24; i++) put(&w.in[0], i, i < 6 || i > 18 ? -INFINITY : i);
    put(&w.in[0], 8, INFINITY);
    put(&w.in[0], 13, NAN);
    same(b, describe("infinite rows", &w), &w, tolerance(type));
  }
}


int main (void) {
  both b;
  if (!both_open(&b)) return 0;
  random_cases(&b);
  bad_labels(&b);
  for (int i = 0; i < 4; i++) {
    heed_type type = float_types[i];
    norm_columns(&b, type, 9, 40000);
    norm_columns(&b, type, 3000, 64);
    large_mean(&b, type);
    large_reductions(&b, type);
    long_scan(&b, type, false);
    long_scan(&b, type, true);
    rising(&b, type);
    infinite_rows(&b, type);
    forget();
  }
  return both_close(&b);
}
