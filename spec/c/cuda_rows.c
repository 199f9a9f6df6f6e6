/*
** cuda_rows.c - what goes along rows, on a GPU: reductions, scans, softmax, norms, losses.
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


/* Types that a reduction may have: sums of integers are integers. */
static void reduced_types (int op, heed_type *in, heed_type *out) {
  *in = *out = (heed_type)pick(HEED_NTYPES);
  if (op == REDUCE_ARGMAX || op == REDUCE_ARGMIN) *out = HEED_INT64;
  if (op == REDUCE_ANY || op == REDUCE_ALL) *out = HEED_BOOL;
  if (op == REDUCE_LOGSUMEXP && !scalar_is_float(*in)) *out = HEED_FLOAT32;
  if (op == REDUCE_SQUARES || op == REDUCE_MOMENTS) *out = wide(*in = float_type());
  if (op > REDUCE_PROD) return;
  *out = scalar_is_float(*in) || chance(0.5) ? float_type() : HEED_INT64;
}

static void reduction (both *b) {
  int64_t size[4];
  int rank = (int)pick(5), axes = (int)pick(rank + 1), outer = rank - axes, op = (int)pick(10);
  some_sizes(rank, size, some_most());
  for (int i = outer; i < rank; i++) if (size[i] == 0 && op >= REDUCE_MAX) size[i] = 1;
  heed_type in, out;
  reduced_types(op, &in, &out);
  view x = given(in, rank, size), second = view_none();
  if (op == REDUCE_PROD && scalar_is_float(in))
    x = laid(in, rank, size, some_layout(), 0.9, 1.1);
  view y = output(out, outer, size);
  bool moments = op == REDUCE_MOMENTS, choice = op == REDUCE_MAX || op == REDUCE_MIN;
  if (moments || (choice && chance(0.5)))
    second = output(moments ? out : HEED_INT64, outer, size);
  work w;
  work_reduce(&w, (reduce_op)op, axes, y, second, x);
  bool exact = op >= REDUCE_MAX && op <= REDUCE_ALL;    /* but for the sign of 0 */
  same(b, describe("reduce", &w), &w,
       exact ? 1e-300 : tolerance(out) * (op == REDUCE_PROD ? 30 : 1));
}


/* Running products of floats are of numbers near 1: others under- or overflow. */
static void scan (both *b) {
  int64_t size[4];
  int rank = (int)pick(5);
  some_sizes(rank, size, some_most());
  scan_op op = (scan_op)pick(WORK_SCAN_OPS);
  bool reverse = chance(0.5), product = op == SCAN_PROD;
  heed_type in = (heed_type)pick(HEED_NTYPES);
  heed_type out = scalar_is_float(in) || chance(0.3) ? float_type() : HEED_INT64;
  bool near_1 = product && scalar_is_float(in);
  view x = near_1 ? laid(in, rank, size, some_layout(), 0.99, 1.01) : given(in, rank, size);
  if (product && scalar_is_float(out) && !near_1) out = HEED_FLOAT64;
  work w;
  work_scan(&w, op, reverse, output(out, rank, size), x);
  same(b, describe("scan", &w), &w, tolerance(out) * (product ? 30 : 1));
}


/* A logarithm of a share, and an element beside a finite logsumexp, is not inf. */
static void without_infinity (const view *v) {
  int64_t n = layout_numel(&v->at);
  for (int64_t i = 0; i < n; i++)
    if (get(v, i) == INFINITY) put(v, i, -INFINITY);
}


static void softmax (both *b) {
  int64_t size[4];
  int rank = (int)pick(5);
  some_sizes(rank, size, some_most());
  softmax_op op = (softmax_op)pick(4);
  bool back = op == SOFTMAX_BACK || op == SOFTMAX_LOG_BACK;
  heed_type type = float_type();
  double allowed = tolerance(type);
  view in[2];
  for (int i = 0; i < (back ? 2 : 1); i++) {
    heed_type from = chance(0.8) ? type : float_type();
    in[i] = given(from, rank, size);
    allowed = larger(allowed, from == type ? 0 : 2 * larger(tolerance(from), 4e-6));
  }
  work w;
  view y = output(type, rank, size);
  if (op == SOFTMAX_LOG_BACK) without_infinity(&in[1]);
  if (back) work_softmax_back(&w, op, y, in[0], in[1]);
  else work_softmax(&w, op, y, in[0]);
  same(b, describe("softmax", &w), &w, allowed);
}


static void norm (both *b) {
  int64_t size[2];
  some_rows(size, some_most());
  heed_type type = float_type(), other = chance(0.7) ? type : float_type();
  bool layer = chance(0.5);
  work w;
  work_norm(&w, layer ? NORM_LAYER : NORM_RMS, 1e-5);
  w.in[NORM_X] = given(type, 2, size);
  w.in[NORM_WEIGHT] = maybe(other, 1, size + 1);
  w.in[NORM_BIAS] = layer ? maybe(other, 1, size + 1) : view_none();
  w.out[NORM_Y] = output(type, 2, size);
  w.out[NORM_MEAN] = layer ? output(wide(type), 1, size) : view_none();
  w.out[NORM_RSTD] = output(wide(type), 1, size);
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
  work w;
  work_norm(&w, layer ? NORM_LAYER_BACK : NORM_RMS_BACK, 0);
  w.in[NORM_BACK_G] = given(type, 2, size);
  w.in[NORM_BACK_X] = given(type, 2, size);
  w.in[NORM_BACK_WEIGHT] = maybe(other, 1, size + 1);
  w.in[NORM_BACK_MEAN] = layer ? given(wide(type), 1, size) : view_none();
  w.in[NORM_BACK_RSTD] = laid(wide(type), 1, size, 0, 0.5, 1.5);
  w.out[NORM_BACK_DX] = wanted(type, 2, size);
  w.out[NORM_BACK_DWEIGHT] = wanted(other, 1, size + 1);
  w.out[NORM_BACK_DBIAS] = layer ? wanted(other, 1, size + 1) : view_none();
  same(b, describe("norm back", &w), &w, 10 * larger(tolerance(type), tolerance(other)));
}


static void rotation (both *b) {
  int64_t size[4], angles[4];
  const int rank = 1 + (int)pick(4);
  some_sizes(rank, size, some_most());
  if (size[rank - 1] < 2) size[rank - 1] = 2;
  memcpy(angles, size, sizeof angles);
  angles[rank - 1] = chance(0.7) ? size[rank - 1] / 2 : 1 + (int64_t)pick(size[rank - 1] / 2);
  heed_type type = float_type();
  work w;
  work_rotate(&w, chance(0.5), output(type, rank, size), given(type, rank, size));
  w.in[ROTATE_COS] = given(wide(type), rank, angles);
  w.in[ROTATE_SIN] = given(wide(type), rank, angles);
  same(b, describe("rotation", &w), &w, 2 * tolerance(type));
}


static void loss (both *b) {
  int64_t size[2];
  some_rows(size, some_most());
  bool back = chance(0.5);
  heed_type type = float_type(), sum = wide(type);
  double label_smoothing = chance(0.5) ? 0.1 : 0;
  int64_t ignore_index = chance(0.5) ? 2 : -100;
  work w;
  view x = given(type, 2, size), weight = view_none();
  view target = laid(HEED_INT64, 1, size, some_layout(), 1, 1 + (double)size[1]);
  if (chance(0.5))
    weight = laid(chance(0.7) ? type : float_type(), 1, size + 1, some_layout(), 0.1, 2);
  if (back) {
    without_infinity(&x);
    work_loss(&w, LOSS_CROSS_ENTROPY_BACK, ignore_index, label_smoothing);
    w.in[LOSS_BACK_G] = laid(sum, 1, size, some_layout(), -3, 4);
    w.in[LOSS_BACK_X] = x;
    w.in[LOSS_BACK_TARGET] = target;
    w.in[LOSS_BACK_WEIGHT] = weight;
    w.in[LOSS_BACK_LOGSUMEXP] = laid(sum, 1, size, some_layout(), -3, 4);
    w.out[0] = output(type, 2, size);
  }
  else {
    work_loss(&w, LOSS_CROSS_ENTROPY, ignore_index, label_smoothing);
    w.in[LOSS_X] = x;
    w.in[LOSS_TARGET] = target;
    w.in[LOSS_WEIGHT] = weight;
    for (int i = 0; i < LOSS_OUTS; i++) w.out[i] = output(sum, 1, size);
  }
  same(b, describe("loss", &w), &w, 3 * tolerance(back ? type : sum));
}


static void random_cases (both *b) {
  void (*const kinds[]) (both *) = {reduction, scan, softmax, norm, norm_back, rotation, loss};
  for (int i = 0; i < 7 * times; i++) {
    spoiled = chance(0.25), coarse = chance(0.3);
    kinds[i % 7](b);
    free_cases();
  }
}


/* CPU and GPU report the first label that is no class. */
static void bad_labels (both *b) {
  work w;
  work_loss(&w, LOSS_CROSS_ENTROPY, -100, 0);
  w.in[LOSS_X] = filled(HEED_FLOAT32, 2, SIZES(40, 30), -3, 3);
  w.in[LOSS_TARGET] = filled(HEED_INT64, 1, SIZES(40), 1, 31);
  w.in[LOSS_WEIGHT] = view_none();
  for (int i = 0; i < LOSS_OUTS; i++) w.out[i] = fresh(HEED_FLOAT32, 1, SIZES(40));
  put(&w.in[LOSS_TARGET], 3, -100);
  same(b, "an ignored label", &w, tolerance(HEED_FLOAT32));
  put(&w.in[LOSS_TARGET], 29, -4);
  put(&w.in[LOSS_TARGET], 17, 31);
  same(b, "labels that are no class", &w, 0);
}


/* Sums of columns: in shared memory, of many rows, and too wide for it. */
static void norm_columns (both *b, heed_type type, int64_t rows, int64_t columns) {
  const int64_t size[] = {rows, columns};
  work w;
  work_norm(&w, NORM_LAYER_BACK, 0);
  w.in[NORM_BACK_G] = filled(type, 2, size, -1, 1);
  w.in[NORM_BACK_X] = filled(type, 2, size, -1, 1);
  w.in[NORM_BACK_WEIGHT] = filled(type, 1, size + 1, -1, 1);
  w.in[NORM_BACK_MEAN] = filled(wide(type), 1, size, -1, 1);
  w.in[NORM_BACK_RSTD] = filled(wide(type), 1, size, 0.5, 1);
  w.out[NORM_BACK_DX] = fresh(type, 2, size);
  w.out[NORM_BACK_DWEIGHT] = fresh(type, 1, size + 1);
  w.out[NORM_BACK_DBIAS] = fresh(type, 1, size + 1);
  same(b, describe("columns of a norm", &w), &w, 10 * tolerance(type));
  same_again(b, "columns of a norm", &w);
}

static void large_mean (both *b, heed_type type) {
  double low = type == HEED_FLOAT16 ? 1000 : 10000;
  work w;
  work_norm(&w, NORM_LAYER, 1e-5);
  w.in[NORM_X] = filled(type, 2, SIZES(5, 3000), low, low + 100);
  w.in[NORM_WEIGHT] = w.in[NORM_BIAS] = view_none();
  w.out[NORM_Y] = fresh(type, 2, SIZES(5, 3000));
  w.out[NORM_MEAN] = fresh(wide(type), 1, SIZES(5));
  w.out[NORM_RSTD] = fresh(wide(type), 1, SIZES(5));
  same(b, describe("a large mean", &w), &w, 3 * tolerance(type));
}


static void large_reduction (both *b, int op, view x) {
  heed_type out = op == REDUCE_ARGMAX || op == REDUCE_ARGMIN ? HEED_INT64
                : op == REDUCE_ANY || op == REDUCE_ALL ? HEED_BOOL
                : op == REDUCE_SQUARES || op == REDUCE_MOMENTS ? wide(x.type) : x.type;
  view y = fresh(out, 1, x.at.size), second = view_none();
  if (op == REDUCE_MOMENTS) second = fresh(out, 1, x.at.size);
  work w;
  work_reduce(&w, (reduce_op)op, 1, y, second, x);
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
    free_cases();
  }
}


static void long_scan (both *b, heed_type type, scan_op op, bool reverse) {
  const bool product = op == SCAN_PROD;
  view x = product ? filled(type, 2, SIZES(2, 200000), 0.999, 1.001)
                   : filled(type, 2, SIZES(2, 200000), 0, type == HEED_FLOAT16 ? 0.1 : 1);
  work w;
  work_scan(&w, op, reverse, fresh(type, 2, SIZES(2, 200000)), x);
  same(b, describe("a long scan", &w), &w, tolerance(type) * (product ? 30 : 1));
  same_again(b, "a long scan", &w);
}

/* A row whose largest element changes all the time. */
static void rising (both *b, heed_type type) {
  const int64_t n = 100000, size[] = {1, n};
  view x = fresh(type, 2, size);
  for (int64_t i = 0; i < n; i++) put(&x, i, (double)i * 1e-3);
  work w;
  work_reduce(&w, REDUCE_LOGSUMEXP, 1, fresh(type, 1, size), view_none(), x);
  same(b, describe("a rising row", &w), &w, tolerance(type) / 4);
  work_softmax(&w, SOFTMAX, fresh(type, 2, size), x);
  same(b, describe("softmax of a rising row", &w), &w, 3 * tolerance(type));
}

/* Rows of minus infinity alone, with an infinity, with NaN, with one number. */
static void infinite_rows (both *b, heed_type type) {
  for (int op = SOFTMAX; op <= SOFTMAX_LOG; op++) {
    view x = fresh(type, 2, SIZES(4, 6));
    for (int i = 0; i < 24; i++) put(&x, i, i < 6 || i > 18 ? -INFINITY : i);
    put(&x, 8, INFINITY);
    put(&x, 13, NAN);
    work w;
    work_softmax(&w, (softmax_op)op, fresh(type, 2, SIZES(4, 6)), x);
    same(b, describe("infinite rows", &w), &w, tolerance(type));
  }
}

/* Gradients of rows with one infinity, with two, with a NaN: infinite and NaN as on the CPU. */
static void infinite_gradients (both *b, heed_type type, int64_t n, bool layer, bool weighted) {
  const int64_t size[] = {6, n};
  view g = filled(type, 2, size, -1, 1), x = filled(type, 2, size, -1, 4);
  work w;
  put(&g, 3, INFINITY);
  put(&g, n + 2, -INFINITY);
  put(&g, 2 * n, INFINITY);
  put(&g, 3 * n - 1, INFINITY);
  put(&g, 3 * n, INFINITY);
  put(&g, 4 * n - 1, -INFINITY);
  put(&g, 4 * n + 1, NAN);
  work_norm(&w, layer ? NORM_LAYER_BACK : NORM_RMS_BACK, 0);
  w.in[NORM_BACK_G] = g;
  w.in[NORM_BACK_X] = x;
  w.in[NORM_BACK_WEIGHT] = weighted ? filled(type, 1, size + 1, 0.5, 2) : view_none();
  w.in[NORM_BACK_MEAN] = layer ? filled(wide(type), 1, size, 1, 2) : view_none();
  w.in[NORM_BACK_RSTD] = filled(wide(type), 1, size, 0.5, 1);
  w.out[NORM_BACK_DX] = fresh(type, 2, size);
  w.out[NORM_BACK_DWEIGHT] = fresh(type, 1, size + 1);
  w.out[NORM_BACK_DBIAS] = layer ? fresh(type, 1, size + 1) : view_none();
  same(b, describe("infinite gradients", &w), &w, 30 * tolerance(type));
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
    long_scan(&b, type, SCAN_SUM, false);
    long_scan(&b, type, SCAN_SUM, true);
    long_scan(&b, type, SCAN_PROD, false);
    long_scan(&b, type, SCAN_PROD, true);
    rising(&b, type);
    infinite_rows(&b, type);
    for (int k = 0; k < 12; k++)
      infinite_gradients(&b, type, k % 3 == 0 ? 5 : k % 3 == 1 ? 300 : 3000, k & 4, k >= 6);
    free_cases();
  }
  return both_close(&b);
}
