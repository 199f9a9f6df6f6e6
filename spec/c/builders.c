/*
** builders.c - works as their builders make them: kind, op, how many operands, which of them where,
** and numbers.
*/

#include <stdio.h>
#include <string.h>

#include "base/work.h"

static int failed;

static void check (bool good, const char *what) {
  if (good) return;
  printf("builders: %s: wrong\n", what);
  failed = 1;
}

/* A view that is known by its number. */
static view numbered (int64_t i) {
  return view_number((scalar){.type = HEED_INT64, .i = i});
}

static bool is_number (const view *v, int64_t i) {
  return v->data == NULL && v->type == HEED_INT64 && v->at.rank == 0 && v->at.offset == 0 &&
         v->value.i == i;
}

static int before;                 /* each byte of a work that nobody set: as bools, no and yes */

static work fresh (void) {
  work w;
  memset(&w, before, sizeof w);
  return w;
}

static bool has (const work *w, work_kind kind, int op, int nout, int nin) {
  return w->kind == kind && w->op == op && w->nout == nout && w->nin == nin;
}

/* Operands as numbered: results 1, 2 …, inputs 11, 12 … */
static bool operands (const work *w) {
  for (int i = 0; i < w->nout; i++)
    if (!is_number(&w->out[i], i + 1)) return false;
  for (int i = 0; i < w->nin; i++)
    if (!is_number(&w->in[i], i + 11)) return false;
  return true;
}


static void views_are_plain (void) {
  view v, none = view_none();
  memset(&v, 0, sizeof v);
  view_clear(&v);
  check(view_is_none(&none) && none.data == NULL && none.type == HEED_BOOL && none.at.rank == -1,
        "no view");
  check(view_is_none(&v) && v.at.rank == -1, "a view that is cleared");
  v = numbered(7);
  check(!view_is_none(&v) && is_number(&v, 7), "a number");
  v = view_number((scalar){.type = HEED_FLOAT64, .f = 0.5});
  check(v.type == HEED_FLOAT64 && v.value.f == 0.5, "a float");
}


static void elementwise_works (void) {
  work w = fresh();
  work_map(&w, HEED_add, HEED_FLOAT64, 2);
  check(has(&w, WORK_MAP, HEED_add, 1, 2) && w.map.type == HEED_FLOAT64, "map");
  w = fresh();
  work_derivative(&w, HEED_mul, HEED_FLOAT32, 1);
  check(has(&w, WORK_DERIVATIVE, HEED_mul, 1, 5) && w.derivative.type == HEED_FLOAT32 &&
        w.derivative.which == 1, "derivative");
}


static void copies (void) {
  work w = fresh();
  work_copy(&w, COPY_OVERLAPPING, numbered(1), numbered(11));
  check(has(&w, WORK_COPY, COPY_OVERLAPPING, 1, 1) && operands(&w), "copy");
  const int64_t size[] = {2, 64};
  view blocks = {.type = HEED_Q8_0}, floats = {.type = HEED_FLOAT32};
  check(layout_dense(&blocks.at, 2, size) && layout_dense(&floats.at, 2, size), "layouts");
  w = fresh();
  work_copy(&w, COPY_APART, floats, blocks);
  check(has(&w, WORK_BLOCKS, BLOCKS_UNPACK, 1, 1) && w.out[0].type == HEED_FLOAT32 &&
        w.in[0].type == HEED_Q8_0, "blocks as floats");
  w = fresh();
  work_copy(&w, COPY_APART, blocks, floats);
  check(has(&w, WORK_BLOCKS, BLOCKS_PACK, 1, 1) && w.out[0].type == HEED_Q8_0 &&
        w.in[0].type == HEED_FLOAT32, "floats as blocks");
  w = fresh();
  work_copy(&w, COPY_APART, blocks, blocks);
  check(has(&w, WORK_COPY, COPY_APART, 1, 1) && w.out[0].type == HEED_UINT8 &&
        w.in[0].type == HEED_UINT8 && w.in[0].at.size[1] == 68 && w.out[0].at.size[1] == 68 &&
        w.in[0].at.stride[0] == 68 && w.in[0].at.size[0] == 2, "blocks as bytes");
  view other = blocks;
  other.type = HEED_Q4_0;
  w = fresh();
  work_copy(&w, COPY_APART, blocks, other);
  check(has(&w, WORK_BLOCKS, BLOCKS_UNPACK, 1, 1), "blocks of two types");
}


static void products (void) {
  struct packed_copy *packed = (struct packed_copy *)&failed;
  work w = fresh();
  work_blocks(&w, BLOCKS_BACK, numbered(1), numbered(11), numbered(12), numbered(13), packed);
  check(has(&w, WORK_BLOCKS, BLOCKS_BACK, 1, 3) && operands(&w) && w.blocks.packed == packed,
        "a product of blocks");
  w = fresh();
  work_product(&w, 0.5, true, false);
  check(has(&w, WORK_MATMUL, 0, 1, 2) && w.matmul.alpha == 0.5 && w.matmul.accumulate &&
        w.matmul.packed == NULL && view_is_none(&w.in[2]), "a product");
  w = fresh();
  work_product(&w, 2, false, true);
  check(has(&w, WORK_MATMUL, 0, 1, 3) && w.matmul.alpha == 2 && !w.matmul.accumulate &&
        w.matmul.packed == NULL, "a product with an addend");
  w = fresh();
  work_matmul(&w, 3, false, numbered(1), numbered(11), numbered(12), numbered(13));
  check(has(&w, WORK_MATMUL, 0, 1, 3) && operands(&w) && w.matmul.alpha == 3, "matmul");
  w = fresh();
  work_matmul(&w, 3, true, numbered(1), numbered(11), numbered(12), view_none());
  check(has(&w, WORK_MATMUL, 0, 1, 2) && operands(&w) && w.matmul.accumulate &&
        view_is_none(&w.in[2]), "matmul without an addend");
}


static void reductions (void) {
  work w = fresh();
  work_reduce(&w, REDUCE_MAX, 2, numbered(1), numbered(2), numbered(11));
  check(has(&w, WORK_REDUCE, REDUCE_MAX, 2, 1) && operands(&w) && w.reduce.axes == 2,
        "a reduction with positions");
  w = fresh();
  work_reduce(&w, REDUCE_SUM, 1, numbered(1), view_none(), numbered(11));
  check(has(&w, WORK_REDUCE, REDUCE_SUM, 1, 1) && operands(&w) && w.reduce.axes == 1 &&
        view_is_none(&w.out[1]), "a reduction");
  w = fresh();
  work_scan(&w, SCAN_PROD, true, numbered(1), numbered(11));
  check(has(&w, WORK_SCAN, SCAN_PROD, 1, 1) && operands(&w) && w.scan.reverse, "a scan");
  w = fresh();
  work_scan(&w, SCAN_SUM, false, numbered(1), numbered(11));
  check(has(&w, WORK_SCAN, SCAN_SUM, 1, 1) && !w.scan.reverse, "a scan from the first");
  w = fresh();
  work_softmax(&w, SOFTMAX_LOG, numbered(1), numbered(11));
  check(has(&w, WORK_SOFTMAX, SOFTMAX_LOG, 1, 1) && operands(&w), "softmax");
  w = fresh();
  work_softmax_back(&w, SOFTMAX_LOG_BACK, numbered(1), numbered(11), numbered(12));
  check(has(&w, WORK_SOFTMAX, SOFTMAX_LOG_BACK, 1, 2) && operands(&w), "softmax's gradient");
}


static void positions (void) {
  work w = fresh();
  work_gather(&w, 3, true, numbered(1), numbered(11));
  check(has(&w, WORK_GATHER, 0, 1, 4) && is_number(w.out, 1) && is_number(w.in, 11) &&
        w.index.from_end, "gather");
  w = fresh();
  work_scatter(&w, SCATTER_ADD, 2, false, numbered(1), numbered(11));
  check(has(&w, WORK_SCATTER, SCATTER_ADD, 1, 3) && is_number(w.out, 1) && is_number(w.in, 11) &&
        !w.index.from_end, "scatter");
  w = fresh();
  work_sort(&w, true, 5, numbered(1), numbered(2), numbered(11));
  check(has(&w, WORK_SORT, 0, 2, 1) && operands(&w) && w.sort.descending && w.sort.length == 5,
        "sort");
  w = fresh();
  work_sort(&w, false, 5, numbered(1), numbered(2), numbered(11));
  check(!w.sort.descending, "sort from the least");
  w = fresh();
  work_nonzero(&w, numbered(1), numbered(11));
  check(has(&w, WORK_NONZERO, 0, 1, 1) && operands(&w), "nonzero");
}


static void draws (void) {
  work w = fresh();
  work_random(&w, RANDOM_INTEGER, 0.5, 2, -3, 4, numbered(1));
  check(has(&w, WORK_RANDOM, RANDOM_INTEGER, 1, 0) && operands(&w) && w.random.a == 0.5 &&
        w.random.b == 2 && w.random.low == -3 && w.random.high == 4, "random numbers");
  w = fresh();
  work_bernoulli(&w, numbered(1), numbered(11));
  check(has(&w, WORK_RANDOM, RANDOM_BERNOULLI, 1, 1) && operands(&w), "bernoulli");
  w = fresh();
  work_dropout(&w, 0.25, numbered(1), numbered(11));
  check(has(&w, WORK_RANDOM, RANDOM_DROPOUT, 1, 1) && operands(&w) && w.random.a == 0.25,
        "dropout");
  w = fresh();
  work_probabilities(&w, numbered(11));
  check(has(&w, WORK_PROBABILITIES, 0, 0, 1) && operands(&w), "probabilities");
}


static void layers (void) {
  work w = fresh();
  work_norm(&w, NORM_LAYER, 0.5);
  check(has(&w, WORK_NORM, NORM_LAYER, 3, 3) && w.norm.eps == 0.5, "a norm");
  work_norm(&w, NORM_RMS, 0.25);
  check(has(&w, WORK_NORM, NORM_RMS, 3, 3) && w.norm.eps == 0.25, "a norm of squares");
  work_norm(&w, NORM_LAYER_BACK, 1);
  check(has(&w, WORK_NORM, NORM_LAYER_BACK, 3, 5), "a norm's gradient");
  work_norm(&w, NORM_RMS_BACK, 1);
  check(has(&w, WORK_NORM, NORM_RMS_BACK, 3, 5), "that of squares");
  w = fresh();
  work_rotate(&w, true, numbered(1), numbered(11));
  check(has(&w, WORK_ROTATE, 0, 1, 3) && is_number(w.out, 1) && is_number(w.in, 11) &&
        w.rotate.interleaved, "a rotation");
  w = fresh();
  work_loss(&w, LOSS_CROSS_ENTROPY, -100, 0.125);
  check(has(&w, WORK_LOSS, LOSS_CROSS_ENTROPY, 3, 3) && w.loss.ignore_index == -100 &&
        w.loss.label_smoothing == 0.125, "a loss");
  work_loss(&w, LOSS_CROSS_ENTROPY_BACK, 7, 0);
  check(has(&w, WORK_LOSS, LOSS_CROSS_ENTROPY_BACK, 1, 5) && w.loss.ignore_index == 7 &&
        w.loss.label_smoothing == 0, "a loss's gradient");
  w = fresh();
  work_attention(&w, WORK_ATTENTION, 0.5, 30, 0.25);
  check(has(&w, WORK_ATTENTION, 0, 3, 10) && w.attention.scale == 0.5 &&
        w.attention.softcap == 30 && w.attention.dropout == 0.25 && w.attention.mask.n == 0,
        "attention");
  w = fresh();
  work_attention(&w, WORK_ATTENTION_BACK, 1, 0, 0);
  check(has(&w, WORK_ATTENTION_BACK, 0, 5, 14) && w.attention.scale == 1 &&
        w.attention.softcap == 0 && w.attention.dropout == 0 && w.attention.mask.n == 0,
        "attention's gradient");
}


static void steps (void) {
  const optimize_row row = {.n = 3};
  const clip_row clipped = {.n = 4};
  const heed_step step = {.lr = 0.5, .step = 9};
  work w = fresh();
  work_optimize(&w, HEED_ADAM, 1, &row, &step);
  check(has(&w, WORK_OPTIMIZE, HEED_ADAM, 0, 0) && w.optimize.n == 1 && w.optimize.row == &row &&
        w.optimize.step.lr == 0.5 && w.optimize.step.step == 9, "a step");
  w = fresh();
  work_clip(&w, CLIP_SCALE, 2.5, 1, &clipped, numbered(1));
  check(has(&w, WORK_CLIP, CLIP_SCALE, 1, 0) && operands(&w) && w.clip.n == 1 &&
        w.clip.row == &clipped && w.clip.max == 2.5 && CLIP_MARGIN == 1e-6, "clipping");
}


/* Work that is composed where a device does not have it; and how many ops a kind has. */
static void kinds (void) {
  static const work_kind fused[] = {WORK_SOFTMAX, WORK_NORM, WORK_ROTATE, WORK_LOSS,
    WORK_ATTENTION, WORK_ATTENTION_BACK, WORK_OPTIMIZE, WORK_CLIP};
  int n = 0;
  for (int kind = 0; kind < WORK_KINDS; kind++) n += work_is_fused((work_kind)kind);
  for (size_t i = 0; i < sizeof fused / sizeof *fused; i++)
    check(work_is_fused(fused[i]), "a kind that can be composed");
  check(n == 8 && !work_is_fused(WORK_RANDOM) && !work_is_fused(WORK_PROBABILITIES), "the others");
  check((int)WORK_MAP_OPS == HEED_NOPS && (int)WORK_DERIVATIVE_OPS == HEED_NOPS &&
        WORK_COPY_OPS == 2 &&
        WORK_REDUCE_OPS == 11 && WORK_SCAN_OPS == 2 && WORK_MATMUL_OPS == 1 &&
        WORK_GATHER_OPS == 1 && WORK_SCATTER_OPS == 2 && WORK_BLOCKS_OPS == 5 &&
        WORK_SORT_OPS == 1 && WORK_NONZERO_OPS == 1 && WORK_RANDOM_OPS == 6 &&
        WORK_SOFTMAX_OPS == 4 && WORK_NORM_OPS == 4 && WORK_ROTATE_OPS == 1 &&
        WORK_LOSS_OPS == 2 && WORK_ATTENTION_OPS == 1 && WORK_ATTENTION_BACK_OPS == 1 &&
        (int)WORK_OPTIMIZE_OPS == HEED_NOPTIMIZERS && WORK_CLIP_OPS == 2 &&
        WORK_PROBABILITIES_OPS == 1, "ops of each kind");
  check(mask_has_operand(MASK_DENSE) && mask_has_operand(MASK_LENGTHS) &&
        mask_has_operand(MASK_DOCUMENTS), "nodes with a view");
  check(!mask_has_operand(MASK_BAND) && !mask_has_operand(MASK_BLOCKS) &&
        !mask_has_operand(MASK_EVERY) && !mask_has_operand(MASK_AND) &&
        !mask_has_operand(MASK_OR) && !mask_has_operand(MASK_NOT), "nodes without one");
}


int main (void) {
  views_are_plain();
  for (; before < 2; before++) {
    elementwise_works();
    copies();
    products();
    reductions();
    positions();
    draws();
    layers();
    steps();
  }
  kinds();
  printf("builders: %s\n", failed ? "wrong" : "each sets what its kind has");
  return failed;
}
