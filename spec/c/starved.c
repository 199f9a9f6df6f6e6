/*
** starved.c - operations and their gradients of which one request for memory fails, each in turn:
** they fail whole, say so, work the next time, and leave nothing.
*/

#include <stdio.h>
#include <string.h>

#include "failing.h"
#include "heed.h"

enum { ROWS = 4, COLUMNS = 6 };

/* Tensors that the operations take. */
typedef struct inputs {
  heed_tensor *x, *y, *square, *wide, *tall, *labels, *column, *seen, *half, *queries, *chances;
} inputs;

static heed_tensor *floats (heed_context *cx, int rank, int64_t a, int64_t b, int64_t c,
                            int64_t d) {
  float data[4 * ROWS * COLUMNS];
  for (int i = 0; i < 4 * ROWS * COLUMNS; i++) data[i] = 0.125f + 0.25f * (float)(i * 7 % 23) / 23;
  return heed_from(cx, HEED_FLOAT32, rank, (int64_t[]){a, b, c, d}, data);
}

static inputs inputs_of (heed_context *cx) {
  const int64_t labels[] = {1, 3, 6, 2};
  bool seen[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; i++) seen[i] = i % 3 == 0;
  inputs in = {
    floats(cx, 2, ROWS, COLUMNS, 0, 0), floats(cx, 2, ROWS, COLUMNS, 0, 0),
    floats(cx, 2, COLUMNS, COLUMNS, 0, 0), floats(cx, 1, COLUMNS, 0, 0, 0),
    floats(cx, 2, COLUMNS, ROWS, 0, 0), heed_from(cx, HEED_INT64, 1, (int64_t[]){ROWS}, labels),
    heed_from(cx, HEED_INT64, 2, (int64_t[]){ROWS, 1}, labels),
    heed_from(cx, HEED_BOOL, 2, (int64_t[]){ROWS, COLUMNS}, seen),
    floats(cx, 2, ROWS, COLUMNS / 2, 0, 0), floats(cx, 4, 1, 2, ROWS, COLUMNS),
    floats(cx, 2, ROWS, COLUMNS, 0, 0)
  };
  heed_require_grad(in.x, true);
  heed_require_grad(in.queries, true);
  return in;
}

static void drop_inputs (const inputs *in) {
  heed_drop(in->x); heed_drop(in->y); heed_drop(in->square); heed_drop(in->wide);
  heed_drop(in->tall); heed_drop(in->labels); heed_drop(in->column); heed_drop(in->seen);
  heed_drop(in->half); heed_drop(in->queries); heed_drop(in->chances);
}


/*
** {==================================================================
** Operations
** ===================================================================
*/

#define SOME(...) (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}
#define CASES(CASE) \
  CASE(exp, heed_t(x)) CASE(square, heed_t(x)) CASE(add, heed_t(x), heed_t(in->wide)) \
  CASE(mul, heed_t(x), heed_t(x)) CASE(div, heed_t(x), heed_i(3)) \
  CASE(pow, heed_t(x), heed_t(in->y)) CASE(maximum, heed_t(x), heed_t(in->y)) \
  CASE(lerp, heed_t(x), heed_t(in->y), heed_f(0.5)) \
  CASE(where, heed_t(in->seen), heed_t(x), heed_i(0)) \
  CASE(clamp, heed_t(x), heed_f(0.25), heed_f(0.375)) \
  CASE(sum, heed_t(x), heed_i(0)) CASE(mean, heed_t(x)) CASE(var, heed_t(x), heed_i(1)) \
  CASE(std, heed_t(x), heed_i(1)) CASE(max, heed_t(x), heed_i(1)) CASE(amin, heed_t(x)) \
  CASE(prod, heed_t(x), heed_i(1)) CASE(norm, heed_t(x)) CASE(norm, heed_t(x), heed_i(3)) \
  CASE(logsumexp, heed_t(x), heed_i(0)) CASE(cumsum, heed_t(x), heed_i(0)) \
  CASE(cumprod, heed_t(x), heed_i(1)) CASE(softmax, heed_t(x), heed_i(0)) \
  CASE(log_softmax, heed_t(x), heed_i(1)) \
  CASE(softmax, heed_t(x), heed_i(1), heed_i(HEED_FLOAT64)) \
  CASE(matmul, heed_t(x), heed_t(in->tall)) CASE(matmul, heed_t(x), heed_t(in->wide)) \
  CASE(matmul, heed_t(in->queries), heed_t(in->tall)) \
  CASE(linear, heed_t(x), heed_t(in->square), heed_t(in->wide)) \
  CASE(addmm, heed_t(in->square), heed_t(in->tall), heed_t(x), heed_f(0.5), heed_i(2)) \
  CASE(einsum, heed_s("ij,jk->ki"), heed_ts(2, ((heed_tensor *[]){x, in->tall}))) \
  CASE(einsum, heed_s("ij,ij->"), heed_ts(2, ((heed_tensor *[]){x, in->y}))) \
  CASE(einsum, heed_s("ij,k->ijk"), heed_ts(2, ((heed_tensor *[]){x, in->wide}))) \
  CASE(trace, heed_t(x)) CASE(reshape, heed_t(x), heed_l(SOME(3, 8))) \
  CASE(permute, heed_t(x), heed_l(SOME(1, 0))) CASE(expand, heed_t(x), heed_l(SOME(2, 4, 6))) \
  CASE(select, heed_t(x), heed_i(0), heed_i(2)) \
  CASE(unfold, heed_t(x), heed_i(1), heed_i(3), heed_i(2)) \
  CASE(diagonal, heed_t(x)) CASE(narrow, heed_t(x), heed_i(1), heed_i(2), heed_i(3)) \
  CASE(clone, heed_t(x)) CASE(to, heed_t(x), heed_i(HEED_FLOAT64)) \
  CASE(cat, heed_ts(3, ((heed_tensor *[]){x, in->y, x})), heed_i(1)) \
  CASE(stack, heed_ts(2, ((heed_tensor *[]){x, in->y}))) \
  CASE(gather, heed_t(x), heed_i(1), heed_t(in->column)) \
  CASE(scatter, heed_t(x), heed_i(1), heed_t(in->column), heed_i(2)) \
  CASE(scatter_add, heed_t(x), heed_i(1), heed_t(in->column), heed_t(in->y)) \
  CASE(index_select, heed_t(x), heed_i(1), heed_t(in->labels)) \
  CASE(index_add, heed_t(in->square), heed_i(0), heed_t(in->labels), heed_t(x), heed_i(2)) \
  CASE(take_along_dim, heed_t(x), heed_t(in->column), heed_i(1)) \
  CASE(masked_fill, heed_t(x), heed_t(in->seen), heed_i(1)) \
  CASE(masked_select, heed_t(x), heed_t(in->seen)) \
  CASE(embedding, heed_t(in->labels), heed_t(in->square)) \
  CASE(sort, heed_t(x), heed_i(1)) CASE(topk, heed_t(x), heed_i(2)) CASE(tril, heed_t(x)) \
  CASE(diag_embed, heed_t(x)) CASE(roll, heed_t(x), heed_l(SOME(2)), heed_i(1)) \
  CASE(flip, heed_t(x), heed_i(0)) CASE(repeat_interleave, heed_t(x), heed_i(2), heed_i(0)) \
  CASE(tile, heed_t(x), heed_l(SOME(2, 1))) \
  CASE(pad, heed_t(x), heed_l(SOME(1, 2)), heed_s("reflect")) \
  CASE(constant_pad_nd, heed_t(x), heed_l(SOME(1, 2)), heed_i(3)) \
  CASE(nan_to_num, heed_t(x)) \
  CASE(layer_norm, heed_t(x), heed_l(SOME(COLUMNS)), heed_t(in->wide), heed_t(in->wide)) \
  CASE(rms_norm, heed_t(x), heed_l(SOME(COLUMNS)), heed_t(in->wide)) CASE(normalize, heed_t(x)) \
  CASE(cosine_similarity, heed_t(x), heed_t(in->y)) CASE(dropout, heed_t(x), heed_f(0.5)) \
  CASE(cross_entropy, heed_t(x), heed_t(in->labels), heed_t(in->wide)) \
  CASE(cross_entropy, heed_t(x), heed_t(in->chances)) \
  CASE(nll_loss, heed_t(x), heed_t(in->labels)) \
  CASE(binary_cross_entropy, heed_t(x), heed_t(in->y)) \
  CASE(bce_with_logits, heed_t(x), heed_t(in->y)) CASE(mse_loss, heed_t(x), heed_t(in->y)) \
  CASE(l1_loss, heed_t(x), heed_t(in->y)) CASE(smooth_l1_loss, heed_t(x), heed_t(in->y)) \
  CASE(huber_loss, heed_t(x), heed_t(in->y)) CASE(kl_div, heed_t(x), heed_t(in->y)) \
  CASE(attention, heed_t(in->queries), heed_t(in->queries), heed_t(in->queries)) \
  CASE(attention, heed_t(in->queries), heed_t(in->queries), heed_t(in->queries), heed_none(), \
       heed_none(), heed_none(), heed_b(true), heed_none(), heed_none(), heed_f(5), heed_f(0.5), \
       heed_b(true), heed_b(true)) \
  CASE(attention, heed_t(in->queries), heed_t(in->queries), heed_t(in->queries), heed_none(), \
       heed_none(), heed_none(), heed_b(true), heed_none(), heed_none(), heed_none(), heed_f(0), \
       heed_b(false), heed_b(false), heed_b(false)) \
  CASE(einsum, heed_s("ij,jj->i"), heed_ts(2, (heed_tensor *[]){x, in->square})) \
  CASE(rotate_pairs, heed_t(x), heed_t(in->half), heed_t(in->half)) \
  CASE(one_hot, heed_t(in->labels), heed_i(7)) CASE(nonzero, heed_t(in->seen)) \
  CASE(argmax, heed_t(x), heed_i(1)) CASE(argsort, heed_t(x)) CASE(any, heed_t(in->seen)) \
  CASE(multinomial, heed_t(in->chances), heed_i(2)) CASE(bernoulli, heed_t(in->chances)) \
  CASE(arange, heed_i(1), heed_i(9), heed_i(2)) CASE(linspace, heed_i(0), heed_i(1), heed_i(5)) \
  CASE(eye, heed_i(3)) CASE(randn, heed_l(SOME(20))) \
  CASE(randint, heed_i(1), heed_i(6), heed_l(SOME(9))) \
  CASE(randperm, heed_i(9)) CASE(full, heed_l(SOME(3)), heed_f(2))

#define COUNTED(name, ...) + 1
enum { OPERATIONS = 0 CASES(COUNTED) };

static heed_tensor *call (heed_context *cx, const inputs *in, int number) {
  heed_tensor *x = in->x;
  int at = 0;
#define CALLED(name, ...) \
  if (number == at++) { \
    const heed_value args[] = {__VA_ARGS__}; \
    return heed_call(cx, HEED_##name, args, (int)(sizeof args / sizeof *args)); \
  }
  CASES(CALLED)
  return NULL;
}

#define NAMED(name, ...) #name,
static const char *const names[] = {CASES(NAMED)};

/* }================================================================== */


static bool says_so (heed_context *cx, const failing *memory) {
  const char *error = heed_error(cx);
  const bool good = memory->failed && error != NULL && strstr(error, "not enough memory") != NULL;
  if (!good) printf("starved: %s\n", error != NULL ? error : "no message");
  heed_clear(cx);
  return good;
}

static bool back (heed_context *cx, heed_tensor *y) {
  heed_tensor *sum = heed_call(cx, HEED_sum, (heed_value[]){heed_t(y)}, 1);
  const bool good = sum != NULL && heed_backward(sum, NULL, true);
  heed_drop(sum);
  return good;
}

/* 1: there are not so many requests; 0: it fails whole; -1: wrong. */
static int starved (int number, long n, bool backward) {
  failing memory = {.countdown = -1, .twice = true};
  heed_context *cx = heed_open(&(heed_host){.resize = failing_resize, .self = &memory,
                                            .threads = 1});
  inputs in = inputs_of(cx);
  bool good = heed_error(cx) == NULL;
  heed_memory_trim(cx);
  if (!backward) memory.countdown = n;
  heed_tensor *y = call(cx, &in, number);
  memory.countdown = -1;
  if (y == NULL) {
    good = good && !backward && says_so(cx, &memory);
    y = call(cx, &in, number);
  }
  good = good && y != NULL && heed_error(cx) == NULL;
  if (backward && heed_requires_grad(y)) {
    heed_memory_trim(cx);
    memory.countdown = n;
    const bool done = back(cx, y);
    memory.countdown = -1;
    if (done) good = good && heed_error(cx) == NULL;
    else good = good && says_so(cx, &memory) && heed_gradient(in.x) == NULL && back(cx, y);
  }
  heed_drop(y);
  drop_inputs(&in);
  heed_close(cx);
  return !good || memory.alive != 0 ? -1 : !memory.failed;
}


/*
** {==================================================================
** Changes in place of a part of a tensor with a graph: it stays as it was, its graph too
** ===================================================================
*/

#define CHANGES(CHANGE) \
  CHANGE(mul, heed_t(part), heed_t(w)) CHANGE(copy, heed_t(part), heed_t(w)) \
  CHANGE(zero, heed_t(part)) CHANGE(normal, heed_t(part)) \
  CHANGE(masked_fill, heed_t(part), heed_t(seen), heed_i(7)) \
  CHANGE(clamp, heed_t(part), heed_i(2)) CHANGE(cumsum, heed_t(part), heed_i(0)) \
  CHANGE(lerp, heed_t(part), heed_t(w), heed_f(0.5)) \
  CHANGE(put, heed_t(part), heed_ts(1, &places), heed_t(w)) \
  CHANGE(scatter_add, heed_t(part), heed_i(0), heed_t(places), heed_t(w))

enum { CHANGED = 0 CHANGES(COUNTED) };

static const char *const changes[] = {CHANGES(NAMED)};

typedef struct part_of {
  heed_tensor *x, *whole, *part, *w, *places, *seen;
} part_of;

static bool change (heed_context *cx, part_of *p, int number) {
  heed_tensor *part = p->part, *w = p->w, *places = p->places, *seen = p->seen;
  int at = 0;
#define CHANGED_BY(name, ...) \
  if (number == at++) { \
    const heed_value args[] = {__VA_ARGS__}; \
    return heed_apply_in_place(cx, HEED_##name, args, (int)(sizeof args / sizeof *args)); \
  }
  CHANGES(CHANGED_BY)
  return false;
}

/* Is the whole tensor 1, at this version, with the gradient that x then has? */
static bool unchanged (heed_context *cx, part_of *p, int64_t version) {
  float values[COLUMNS], g[COLUMNS];
  heed_tensor *sum = heed_call(cx, HEED_sum, (heed_value[]){heed_t(p->whole)}, 1), *of_x = NULL;
  bool good = heed_gradients(sum, NULL, 1, &p->x, &of_x, true) &&
              heed_read(p->whole, HEED_FLOAT32, values) && heed_read(of_x, HEED_FLOAT32, g) &&
              heed_version(p->whole) == version;
  for (int i = 0; good && i < COLUMNS; i++) good = values[i] == 1 && g[i] == 1;
  heed_drop(sum); heed_drop(of_x);
  return good;
}

/* 'stale': the part's own step must be made anew, as the whole was changed since. */
static int starved_change (int number, long n, bool stale) {
  failing memory = {.countdown = -1, .twice = true};
  heed_context *cx = heed_open(&(heed_host){.resize = failing_resize, .self = &memory,
                                            .threads = 1});
  const int64_t size = COLUMNS, four = 4, places[] = {1, 2, 3, 4};
  const float ones[] = {1, 1, 1, 1, 1, 1}, threes[] = {3, 3, 3, 3};
  const bool seen[] = {true, false, false, true};
  part_of p = {.x = heed_from(cx, HEED_FLOAT32, 1, &size, ones),
               .w = heed_from(cx, HEED_FLOAT32, 1, &four, threes),
               .places = heed_from(cx, HEED_INT64, 1, &four, places),
               .seen = heed_from(cx, HEED_BOOL, 1, &four, seen)};
  bool good = heed_require_grad(p.x, true) && heed_require_grad(p.w, true);
  p.whole = heed_call(cx, HEED_mul, (heed_value[]){heed_t(p.x), heed_i(1)}, 2);
  p.part = heed_call(cx, HEED_narrow, (heed_value[]){heed_t(p.whole), heed_i(0), heed_i(1),
                     heed_i(4)}, 4);
  if (stale)
    good = good && heed_apply_in_place(cx, HEED_mul, (heed_value[]){heed_t(p.whole), heed_i(1)}, 2);
  const int64_t version = heed_version(p.whole);
  heed_memory_trim(cx);
  memory.countdown = n;
  const bool done = change(cx, &p, number);
  memory.countdown = -1;
  if (done) good = good && heed_error(cx) == NULL;
  else good = good && says_so(cx, &memory) && unchanged(cx, &p, version) && change(cx, &p, number);
  heed_drop(p.x); heed_drop(p.whole); heed_drop(p.part); heed_drop(p.w); heed_drop(p.places);
  heed_drop(p.seen);
  heed_close(cx);
  return !good || memory.alive != 0 ? -1 : !memory.failed;
}

static int changes_fail_whole (int *requests) {
  for (int number = 0; number < 2 * CHANGED; number++) {
    int result = 0;
    long n = 0;
    while (n < 2000 && (result = starved_change(number / 2, n, number % 2)) == 0) n++;
    *requests += (int)n;
    if (result == 1) continue;
    printf("starved: %s_, without memory %ld: wrong\n", changes[number / 2], n);
    return 1;
  }
  return 0;
}

/* }================================================================== */


/*
** {==================================================================
** A pass that adds to what leaves have: expanded, of their own, or nothing
** ===================================================================
*/

enum { LEAVES_OF_SUM = 4 };

static bool leaves_have (heed_tensor *const *leaves, float first, float last) {
  float got[COLUMNS] = {0};
  bool good = true;
  for (int i = 0; i < LEAVES_OF_SUM; i++) {
    const float want = i + 1 < LEAVES_OF_SUM ? first : last;
    heed_tensor *g = heed_gradient(leaves[i]);
    good = good && (g != NULL ? heed_read(g, HEED_FLOAT32, got) : want == 0);
    for (int k = 0; good && g != NULL && k < COLUMNS; k++) good = got[k] == want;
    heed_drop(g);
  }
  return good;
}

static int starved_sums (long n) {
  failing memory = {.countdown = -1, .twice = true};
  heed_context *cx = heed_open(&(heed_host){.resize = failing_resize, .self = &memory,
                                            .threads = 1});
  const int64_t size = COLUMNS, one = 1;
  const float ones[COLUMNS] = {1, 1, 1, 1, 1, 1};
  heed_tensor *x = heed_from(cx, HEED_FLOAT32, 1, &one, ones), *leaves[LEAVES_OF_SUM];
  heed_tensor *wide = heed_call(cx, HEED_expand, (heed_value[]){heed_t(x), heed_l(1, &size)}, 2);
  bool good = true;
  for (int i = 0; i < LEAVES_OF_SUM; i++) {
    leaves[i] = heed_from(cx, HEED_FLOAT32, 1, &size, ones);
    heed_tensor *own = heed_from(cx, HEED_FLOAT32, 1, &size, ones);
    good = good && heed_require_grad(leaves[i], true) &&
           (i + 1 == LEAVES_OF_SUM || heed_set_gradient(leaves[i], i == 1 ? own : wide));
    heed_drop(own);
  }
  heed_tensor *y = heed_call(cx, HEED_cat, (heed_value[]){heed_ts(LEAVES_OF_SUM, leaves)}, 1);
  heed_memory_trim(cx);
  memory.countdown = n;
  const bool done = back(cx, y);
  memory.countdown = -1;
  good = good && (done || (says_so(cx, &memory) && leaves_have(leaves, 1, 0) && back(cx, y))) &&
         heed_error(cx) == NULL && leaves_have(leaves, 2, 1);
  for (int i = 0; i < LEAVES_OF_SUM; i++) heed_drop(leaves[i]);
  heed_drop(y); heed_drop(wide); heed_drop(x);
  heed_close(cx);
  return !good || memory.alive != 0 ? -1 : !memory.failed;
}

static int sums_fail_whole (int *requests) {
  int result = 0;
  long n = 0;
  while (n < 2000 && (result = starved_sums(n)) == 0) n++;
  *requests += (int)n;
  if (result != 1) printf("starved: a pass that adds, without memory %ld: wrong\n", n);
  return result != 1;
}

/* }================================================================== */


/*
** {==================================================================
** Calls of a host beside operations
** ===================================================================
*/

enum {
  FROM, LENT, NUMBER, VALUE, GRADIENT, READ, WRITTEN, PACKED, COMMITTED, LEAVES, STEP, CLIPPED,
  DEEDS
};

static const char *const deeds[] = {"from", "lend", "a number's memory", "a number's value",
  "a gradient", "a read", "a write", "a packed weight", "a commit", "leaves", "a step", "clipping"};

static bool drops (heed_tensor *t) {
  heed_drop(t);
  return t != NULL;
}

static bool commits (heed_context *cx, const inputs *in) {
  heed_tensor *targets[] = {in->y, in->wide}, *operands[] = {in->chances, in->tall};
  heed_tensor *number = heed_number(cx, 2);
  if (number == NULL) return false;
  operands[1] = number;
  const heed_changes c = {.op = HEED_copy, .ntargets = 2, .targets = targets,
                          .operands = operands};
  const bool good = heed_commit(cx, &c);
  heed_drop(number);
  return good;
}

static bool does (heed_context *cx, const inputs *in, int deed) {
  const int64_t size = COLUMNS;
  static float data[ROWS * COLUMNS], lent[COLUMNS];
  const heed_step step = {.lr = 0.5, .step = 1};
  heed_tensor *number, *leaves[] = {in->y, in->wide};
  bool good;
  switch (deed) {
    case FROM: return drops(heed_from(cx, HEED_FLOAT32, 1, &size, data));
    case LENT: return drops(heed_lend(cx, HEED_FLOAT32, 1, &size, lent, NULL, NULL));
    case NUMBER:
      if ((number = heed_number(cx, 2)) == NULL) return false;
      good = heed_require_grad(number, true);
      heed_drop(number);
      return good;
    case VALUE:
      if ((number = heed_number(cx, 2)) == NULL) return false;
      good = heed_read(number, HEED_FLOAT32, data);
      heed_drop(number);
      return good;
    case GRADIENT: return heed_set_gradient(in->x, in->y);
    case READ: return heed_read(in->tall, HEED_FLOAT32, data);
    case WRITTEN: return heed_write(in->tall, HEED_FLOAT32, data);
    case PACKED: return heed_pack(in->square);
    case COMMITTED: return commits(cx, in);
    case LEAVES: return heed_require_grad_all(cx, 2, leaves, true);
    case STEP: return heed_optimize(cx, HEED_SGD, &step, 1, &in->y, &in->chances, NULL);
    default: return drops(heed_clip_gradients(cx, 1, 2, 1, &in->x));
  }
}

static int starved_of (int deed, long n) {
  failing memory = {.countdown = -1, .twice = true};
  heed_context *cx = heed_open(&(heed_host){.resize = failing_resize, .self = &memory,
                                            .threads = 1});
  inputs in = inputs_of(cx);
  bool good = heed_error(cx) == NULL && heed_set_gradient(in.x, in.y);
  heed_memory_trim(cx);
  memory.countdown = n;
  const bool done = does(cx, &in, deed);
  memory.countdown = -1;
  good = good && (done ? heed_error(cx) == NULL : says_so(cx, &memory) && does(cx, &in, deed));
  drop_inputs(&in);
  heed_close(cx);
  return !good || memory.alive != 0 ? -1 : !memory.failed;
}

/* A context that does not open leaves nothing. */
static int starved_open (long n) {
  failing memory = {.countdown = n, .twice = true};
  heed_context *cx = heed_open(&(heed_host){.resize = failing_resize, .self = &memory,
                                            .threads = 1});
  const bool open = cx != NULL;
  heed_close(cx);
  return memory.alive != 0 || open == memory.failed ? -1 : !memory.failed;
}

static int deeds_fail_whole (int *requests) {
  for (int deed = -1; deed < DEEDS; deed++) {
    int result = 0;
    long n = 0;
    while (n < 2000 && (result = deed < 0 ? starved_open(n) : starved_of(deed, n)) == 0) n++;
    *requests += (int)n;
    if (result == 1) continue;
    printf("starved: %s, without memory %ld: wrong\n", deed < 0 ? "open" : deeds[deed], n);
    return 1;
  }
  return 0;
}

/* }================================================================== */


int main (void) {
  int failed = 0, requests = 0;
  failed |= deeds_fail_whole(&requests) | changes_fail_whole(&requests) |
            sums_fail_whole(&requests);
  for (int number = 0; number < OPERATIONS; number++)
    for (int backward = 0; backward < 2; backward++) {
      int result = 0;
      long n = 0;
      while (n < 2000 && (result = starved(number, n, backward)) == 0) n++;
      requests += (int)n;
      if (result == 1) continue;
      printf("starved: %s%s, number %d, without memory %ld: wrong\n", names[number],
             backward ? "'s gradient" : "", number + 1, n);
      failed = 1;
    }
  printf("starved: %d requests failed, %s\n", requests, failed ? "wrong" : "each call whole");
  return failed;
}
