/*
** refusals.c - what only a host in C can give: values of the wrong kind, types and ranks that there
** are not; in which words each is refused, and what is taken.
*/

#include <math.h>

#include "refusals.h"


/*
** {==================================================================
** Arguments
** ===================================================================
*/

static void kinds_are_named (heed_context *cx, heed_tensor *x) {
  const int64_t one = 1;
  refuses_one(cx, HEED_exp, heed_none(), "exp: argument 'input' is missing");
  refuses_one(cx, HEED_exp, heed_l(1, &one),
              "exp: argument 'input': a tensor expected, got a list");
  refuses_one(cx, HEED_exp, heed_ts(1, &x),
              "exp: argument 'input': a tensor expected, got a list of tensors");
  refuses_one(cx, HEED_exp, heed_s("x"), "exp: argument 'input': a tensor expected, got a text");
  refuses_one(cx, HEED_cat, heed_t(x),
              "cat: argument 'tensors': a list of tensors expected, got a tensor");
  refuses_one(cx, HEED_cat, heed_none(), "cat: argument 'tensors' is missing");
  refuses(cx, HEED_reshape, x, heed_i(4),
          "reshape: argument 'shape': a list expected, got a whole number");
  refuses(cx, HEED_reshape, x, heed_f(4),
          "reshape: argument 'shape': a list expected, got a number");
  refuses(cx, HEED_reshape, x, heed_b(true),
          "reshape: argument 'shape': a list expected, got a bool");
  refuses(cx, HEED_sum, x, heed_f(0), "sum: argument 'dim': a list expected, got a number");
  refuses(cx, HEED_softmax, x, heed_s("1"),
          "softmax: argument 'dim': a whole number expected, got a text");
  refuses(cx, HEED_leaky_relu, x, heed_s("1"),
          "leaky_relu: argument 'negative_slope': a number expected, got a text");
  refuses(cx, HEED_leaky_relu, x, heed_b(true),
          "leaky_relu: argument 'negative_slope': a number expected, got a bool");
  refuses(cx, HEED_gelu, x, heed_f(1),
          "gelu: argument 'approximate': a word expected, got a number");
  refuses(cx, HEED_gelu, x, heed_s("tan"),
          "gelu: argument 'approximate': one of none|tanh expected, got 'tan'");
  refuses(cx, HEED_gelu, x, heed_s("tanhs"),
          "gelu: argument 'approximate': one of none|tanh expected, got 'tanhs'");
  refuses(cx, HEED_gelu, x, heed_s(""),
          "gelu: argument 'approximate': one of none|tanh expected, got ''");
  refused(cx, heed_call(cx, HEED_to, (heed_value[]){heed_t(x), heed_none(), heed_i(0)}, 3) == NULL,
          "to: argument 'device': a text expected, got a whole number");
  refused(cx, heed_call(cx, HEED_exp, (heed_value[]){heed_t(x), heed_i(1)}, 2) == NULL,
          "exp: at most 1 arguments expected, got 2");
  const int64_t size[] = {1, 1, 2, 2}, rule[] = {0};
  const heed_value mask[] = {heed_l(4, size), heed_l(0, rule), heed_i(7)};
  const heed_value put[] = {heed_t(x), heed_i(1), heed_f(1)};
  refused(cx, heed_call(cx, HEED_attention_mask, mask, 3) == NULL, "attention_mask: argument "
          "'operands': a list of tensors expected, got a whole number");
  refused(cx, heed_call(cx, HEED_put, put, 3) == NULL,
          "put: argument 'indices': a list of tensors expected, got a whole number");
}

static void numbers_may_be_whole (heed_context *cx, heed_tensor *x) {
  refuses(cx, HEED_softmax, x, heed_f(0.5),
          "softmax: argument 'dim': a whole number expected, got 0.5");
  refuses(cx, HEED_softmax, x, heed_f(INFINITY),
          "softmax: argument 'dim': a whole number expected, got inf");
  refuses(cx, HEED_softmax, x, heed_f(0x1p62),
          "softmax: argument 'dim': a whole number expected, got 4.61169e+18");
  refuses(cx, HEED_softmax, x, heed_f(-0x1p62),
          "softmax: argument 'dim': a whole number expected, got -4.61169e+18");
  refuses(cx, HEED_softmax, x, heed_f(0x1p61), "softmax: argument 'dim': dimension "
          "2305843009213693953 of a tensor of rank 1; there are 1 to 1, or -1 to -1");
  refuses(cx, HEED_softmax, x, heed_i(INT64_MAX), "softmax: argument 'dim': dimension "
          "9223372036854775807 of a tensor of rank 1; there are 1 to 1, or -1 to -1");
  heed_tensor *y = heed_call(cx, HEED_softmax, (heed_value[]){heed_t(x), heed_f(-1)}, 2);
  check(heed_numel(y) == 4, "a float that is whole");
  heed_drop(y);
  y = heed_call(cx, HEED_softmax, (heed_value[]){heed_t(x), heed_b(false)}, 2);
  check(heed_numel(y) == 4, "a flag as a number");
  heed_drop(y);
}

static void types_are_known (heed_context *cx, heed_tensor *x) {
  static const int64_t none[] = {-1, HEED_NTYPES, HEED_ALL_TYPES, INT64_MAX};
  for (int i = 0; i < 4; i++)
    refuses(cx, HEED_to, x, heed_i(none[i]),
            "to: argument 'dtype': a type expected, got a whole number");
  refuses(cx, HEED_to, x, heed_f(1), "to: argument 'dtype': a type expected, got a number");
  refuses(cx, HEED_to, x, heed_s("float"), "to: argument 'dtype': no type is called 'float'");
  refused(cx, heed_call(cx, HEED_softmax,
                        (heed_value[]){heed_t(x), heed_i(0), heed_i(HEED_Q8_0)}, 3) == NULL,
          "softmax: argument 'dtype': a type of values expected, got q8_0, which heed.quantize "
          "makes of a tensor");
  heed_tensor *five = heed_number(cx, 5);
  refuses(cx, HEED_to, five, heed_i(HEED_Q8_0),
          "to: argument 'input': a tensor of a float type expected for q8_0, got a number");
  heed_drop(five);
}

/* }================================================================== */


/*
** {==================================================================
** Changes in place, and tensors as hosts make, read and write them
** ===================================================================
*/

static void targets_are_tensors (heed_context *cx) {
  heed_tensor *number = heed_number(cx, 1), *x = vector(cx);
  heed_value args[HEED_ARGUMENTS + 1] = {heed_t(x)};
  const char *none = "neg_: a tensor expected as the first argument";
  refused(cx, !heed_apply_in_place(cx, HEED_neg, (heed_value[]){heed_t(number)}, 1),
          "neg_: a number cannot be changed in place");
  refused(cx, !heed_apply_in_place(cx, HEED_neg, (heed_value[]){heed_f(1)}, 1), none);
  refused(cx, !heed_apply_in_place(cx, HEED_neg, (heed_value[]){heed_t(NULL)}, 1), none);
  refused(cx, !heed_apply_in_place(cx, HEED_neg, args, 0), none);
  refused(cx, !heed_apply_in_place(cx, HEED_neg, args, HEED_ARGUMENTS + 1), none);
  refused(cx, !heed_apply_in_place(cx, HEED_neg, args, HEED_ARGUMENTS),
          "neg_: at most 1 arguments expected, got 20");
  heed_drop(number); heed_drop(x);
}

static void makes_no_odd_tensors (heed_context *cx) {
  const int64_t size[] = {2, 3, 4, 5, 6, 7, 8, 9, 10};
  const int64_t wide[] = {(int64_t)1 << 40, (int64_t)1 << 40};
  const float data[24] = {0};
  static const int none[] = {-1, HEED_NTYPES, HEED_ALL_TYPES};
  for (int i = 0; i < 3; i++) {
    char message[64];
    snprintf(message, sizeof message, "empty: there is no type %d", none[i]);
    refused(cx, heed_empty(cx, (heed_type)none[i], 1, size) == NULL, message);
  }
  refused(cx, heed_empty(cx, HEED_FLOAT32, -1, size) == NULL,
          "empty: a rank from 0 to 8 expected, got -1");
  refused(cx, heed_empty(cx, HEED_FLOAT32, 9, size) == NULL,
          "empty: a rank from 0 to 8 expected, got 9");
  refused(cx, heed_empty(cx, HEED_FLOAT32, 1, NULL) == NULL,
          "empty: a rank from 0 to 8 expected, got 1");
  refused(cx, heed_empty(cx, HEED_FLOAT32, 2, (int64_t[]){2, -3}) == NULL,
          "empty: sizes are not negative, got -3");
  refused(cx, heed_empty(cx, HEED_FLOAT32, 2, wide) == NULL,
          "empty: shape (1099511627776, 1099511627776) has too many elements");
  refused(cx, heed_from(cx, HEED_FLOAT32, 2, size, NULL) == NULL, "from: there are no data");
  refused(cx, heed_from(cx, HEED_FLOAT32, 9, size, data) == NULL,
          "from: a rank from 0 to 8 expected, got 9");
  refused(cx, heed_lend(cx, HEED_FLOAT32, 9, size, (void *)(uintptr_t)data, NULL, NULL) == NULL,
          "lend: a rank from 0 to 8 expected, got 9");
  refused(cx, heed_lend(cx, HEED_FLOAT32, 1, size, (char *)(uintptr_t)data + 2, NULL, NULL) == NULL,
          "lend: float32 data expected at a multiple of 4 bytes");
  refused(cx, heed_empty(cx, HEED_Q8_0, 2, (int64_t[]){2, 31}) == NULL,
          "empty: q8_0 has rows of a multiple of 32 elements, got the shape (2, 31)");
  heed_tensor *t = heed_empty(cx, HEED_FLOAT32, 8, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 2});
  check(heed_rank(t) == 8 && heed_numel(t) == 2, "a tensor of the highest rank");
  heed_drop(t);
  t = heed_empty(cx, HEED_FLOAT32, 0, NULL);
  check(t != NULL && heed_rank(t) == 0 && heed_numel(t) == 1, "one of rank 0 needs no sizes");
  heed_drop(t);
}

static void axes_are_there (heed_context *cx) {
  heed_tensor *t = heed_empty(cx, HEED_FLOAT32, 2, (int64_t[]){2, 3}), *one = vector(cx);
  heed_tensor *point = heed_number(cx, 1);
  check(heed_size(t, 0) == 2 && heed_size(t, -1) == 3 && heed_stride(t, 0) == 3 &&
        heed_stride(t, -2) == 3 && heed_stride(t, 1) == 1, "axes from both ends");
  refused(cx, heed_size(t, 2) == 0, "size: a tensor of rank 2 has no axis 2");
  refused(cx, heed_size(t, -3) == 0, "size: a tensor of rank 2 has no axis -3");
  refused(cx, heed_stride(one, 1) == 0, "stride: a tensor of rank 1 has no axis 1");
  refused(cx, heed_size(point, 0) == 0, "size: a tensor of rank 0 has no axis 0");
  refused(cx, heed_stride(point, -1) == 0, "stride: a tensor of rank 0 has no axis -1");
  check(heed_size(NULL, 0) == 0 && heed_stride(NULL, 0) == 0, "axes of no tensor");
  check(heed_data(NULL) == NULL && heed_error(cx) == NULL, "data of no tensor");
  heed_drop(t); heed_drop(one); heed_drop(point);
}

static void reads_and_writes_what_fits (heed_context *cx) {
  float to[64] = {0};
  const int64_t size[] = {2, 32};
  heed_tensor *x = vector(cx), *number = heed_number(cx, 1);
  heed_tensor *q = heed_empty(cx, HEED_Q8_0, 2, size);
  heed_tensor *one = heed_from(cx, HEED_FLOAT32, 1, (int64_t[]){1}, to);
  heed_tensor *wide = heed_call(cx, HEED_expand,
                                (heed_value[]){heed_t(one), heed_l(1, (int64_t[]){4})}, 2);
  heed_tensor *none = heed_empty(cx, HEED_FLOAT32, 1, (int64_t[]){0});
  refused(cx, !heed_read(x, (heed_type)-2, to), "read: there is no type -2");
  refused(cx, !heed_write(x, (heed_type)99, to), "write: there is no type 99");
  refused(cx, !heed_read(x, HEED_Q8_0, to),
          "read: a tensor of type float32 has no data of type q8_0");
  refused(cx, !heed_write(x, HEED_Q8_0, to),
          "write: a tensor of type float32 has no data of type q8_0");
  refused(cx, !heed_write(q, HEED_FLOAT32, to),
          "write: data of type q8_0 expected, got float32");
  refused(cx, !heed_read(x, HEED_FLOAT32, NULL), "read: there are no data");
  refused(cx, !heed_write(x, HEED_FLOAT32, NULL), "write: there are no data");
  refused(cx, !heed_write(number, HEED_FLOAT32, to),
          "write: a number cannot be changed in place");
  refused(cx, !heed_write(wide, HEED_FLOAT32, to),
          "write: several positions of the tensor share one element");
  check(heed_read(none, HEED_FLOAT32, NULL) && heed_write(none, HEED_FLOAT32, NULL),
        "no elements of no data");
  check(!heed_read(NULL, HEED_FLOAT32, to) && !heed_write(NULL, HEED_FLOAT32, to), "no tensor");
  const int64_t version = heed_version(x);
  check(heed_write(x, HEED_FLOAT32, to) && heed_version(x) == version + 1, "a write is counted");
  heed_drop(x); heed_drop(q); heed_drop(one); heed_drop(wide); heed_drop(none);
  heed_drop(number);
}

/* }================================================================== */


/*
** {==================================================================
** Values by hand, axes and positions
** ===================================================================
*/

static void values_are_whole (heed_context *cx, heed_tensor *x) {
  const int64_t two[] = {0, 1};
  heed_tensor *number = heed_number(cx, 1);
  refuses_one(cx, HEED_exp, (heed_value){.kind = (heed_kind)(HEED_TEXT + 1)},
              "exp: argument 'input': its kind is none of heed_kind");
  refuses_one(cx, HEED_exp, (heed_value){.kind = (heed_kind)-1},
              "exp: argument 'input': its kind is none of heed_kind");
  refuses_one(cx, HEED_exp, heed_s(NULL), "exp: argument 'input': a text expected, got NULL");
  refuses_one(cx, HEED_cat, heed_ts(-1, &x),
              "cat: argument 'tensors': its list has a negative length");
  refuses(cx, HEED_reshape, x, heed_l(-1, two),
          "reshape: argument 'shape': its list has a negative length");
  refuses_one(cx, HEED_cat, heed_ts(2, (heed_tensor *[]){x, NULL}),
              "cat: argument 'tensors': tensor 2 is missing");
  const heed_value product[] = {heed_s("i,i"), heed_ts(2, (heed_tensor *[]){x, NULL})};
  refused(cx, heed_call(cx, HEED_einsum, product, 2) == NULL,
          "einsum: argument 'operands': tensor 2 is missing");
  refuses_one(cx, HEED_cat, heed_ts(1, NULL), "cat: argument 'tensors': a list expected, got NULL");
  refuses(cx, HEED_reshape, x, heed_l(1, NULL),
          "reshape: argument 'shape': a list expected, got NULL");
  refused(cx, heed_call(cx, HEED_exp, NULL, 1) == NULL, "exp: arguments expected, got NULL");
  refused(cx, heed_call(cx, HEED_exp, NULL, 0) == NULL, "exp: argument 'input' is missing");
  refuses(cx, HEED_softmax, number, heed_i(1),
          "softmax: argument 'dim': a tensor of rank 0 has no dimension 2");
  refuses(cx, HEED_softmax, number, heed_i(-2),
          "softmax: argument 'dim': a tensor of rank 0 has no dimension -2");
  refuses(cx, HEED_softmax, x, heed_i(-2), "softmax: argument 'dim': dimension -2 of a tensor of "
          "rank 1; there are 1 to 1, or -1 to -1");
  refuses(cx, HEED_sum, x, heed_l(2, two), "sum: argument 'dim': dimension 2 of a tensor of "
          "rank 1; there are 1 to 1, or -1 to -1");
  refuses(cx, HEED_sum, x, heed_l(2, (int64_t[]){0, -1}),
          "sum: argument 'dim': dimension 1 is named twice");
  static const int64_t outside[] = {5, -5};
  for (int i = 0; i < 2; i++) {
    char message[100];
    snprintf(message, sizeof message, "select: argument 'index': position %d lies outside of a "
             "dimension of size 4", (int)outside[i]);
    refused(cx, heed_call(cx, HEED_select, (heed_value[]){heed_t(x), heed_i(0), heed_i(outside[i])},
                          3) == NULL, message);
  }
  heed_drop(number);
}

/* }================================================================== */


/* The parameters whose gradients are to be clipped are counted from 1. */
static void parameters_are_counted (heed_context *cx, heed_tensor *x) {
  heed_tensor *const list[] = {x, NULL};
  refused(cx, heed_clip_gradients(cx, 1, 2, 2, list) == NULL,
          "clip_grad_norm: parameter 2 is missing, or belongs to another context");
  refused(cx, heed_gradient_norm(cx, 2, 1, NULL) == NULL,
          "clip_grad_norm: parameter 1 is missing, or belongs to another context");
  refused(cx, heed_clip_gradients(cx, -1, 3, 2, list) == NULL, "clip_grad_norm: a largest norm "
          "from 0 on and a power expected, got -1 and 3, for 2 parameters");
  refused(cx, heed_gradient_norm(cx, 2, -1, list) == NULL, "clip_grad_norm: a largest norm "
          "from 0 on and a power expected, got 0 and 2, for -1 parameters");
}


/* Changes that are made together name the first that cannot be made. */
static void changes_are_counted (heed_context *cx, heed_tensor *x) {
  heed_context *other = heed_open(NULL);
  heed_tensor *q = heed_empty(cx, HEED_Q8_0, 1, (int64_t[]){32}), *away = vector(other);
  heed_tensor *const none[] = {x, NULL}, *const foreign[] = {x, away}, *const blocks[] = {x, q};
  heed_tensor *const both[] = {x, x};
  heed_changes c = {.op = HEED_lerp, .ntargets = 2, .targets = none, .operands = both};
  refused(cx, !heed_commit(cx, &c), "commit: target 2 is missing");
  c.targets = foreign;
  refused(cx, !heed_commit(cx, &c), "commit: target 2 belongs to another context");
  c.targets = both;
  c.operands = none;
  refused(cx, !heed_commit(cx, &c), "commit: operand 2 is missing");
  c.operands = blocks;
  refused(cx, !heed_commit(cx, &c),
          "commit: operand 2: values expected, got blocks of type q8_0");
  c = (heed_changes){.ntakers = 2, .takers = none};
  refused(cx, !heed_commit(cx, &c), "commit: taker 2 is missing");
  heed_drop(q); heed_drop(away);
  heed_close(other);
}


static void blocks_stay_whole (heed_context *cx) {
  float to[128];
  heed_tensor *q = heed_empty(cx, HEED_Q8_0, 2, (int64_t[]){2, 64});
  const heed_value half[] = {heed_t(q), heed_i(1), heed_i(1), heed_i(16)};
  refused(cx, heed_call(cx, HEED_narrow, half, 4) == NULL, "narrow: rows of type q8_0 stay whole, "
          "in multiples of 32 elements; the result would have the shape (2, 16)");
  const heed_value across[] = {heed_t(q), heed_i(0), heed_i(1)};
  heed_tensor *t = heed_call(cx, HEED_transpose, across, 3);
  refused(cx, !heed_read(t, HEED_Q8_0, to), "read: rows of type q8_0 stay whole, and lie along "
          "dimension 1 of the shape (64, 2), not along the last one; x:to(\"float32\")");
  refuses_one(cx, HEED_exp, heed_t(q), "exp: argument 'input': values expected, got blocks of "
              "type q8_0; x:to(\"float32\")");
  heed_drop(t); heed_drop(q);
}


/*
** {==================================================================
** Devices and settings
** ===================================================================
*/

static void the_cpu_is_no_accelerator (heed_context *cx) {
  heed_device_memory now;
  heed_device_properties properties;
  uint64_t state[2];
  heed_tensor *x = vector(cx);
  const int64_t four = 4;
  float data[4] = {0};
#define IS_NONE(call, name) refused(cx, !(call), name ": an accelerator expected, got 'cpu'")
  IS_NONE(heed_device_block(cx, "cpu", true), "blocking");
  IS_NONE(heed_synchronize(cx, "cpu"), "synchronize");
  IS_NONE(heed_device_memory_now(cx, "cpu", &now), "memory");
  IS_NONE(heed_device_reset_peak(cx, "cpu"), "reset_peak");
  IS_NONE(heed_device_limit(cx, "cpu", 1), "limit");
  IS_NONE(heed_device_trim(cx, "cpu"), "empty_cache");
  IS_NONE(heed_device_rng_get(cx, "cpu", state), "rng_state");
  IS_NONE(heed_device_rng_set(cx, "cpu", state), "rng_state");
  IS_NONE(heed_event_record(cx, "cpu"), "elapsed");
  IS_NONE(heed_device_stream(cx, "cpu"), "stream");
  IS_NONE(heed_device_lend(cx, "cpu", NULL, HEED_FLOAT32, 1, &four, data, NULL, NULL), "lend");
#undef IS_NONE
  refused(cx, heed_device_data(x, NULL) == NULL,
          "device_data: a tensor on an accelerator expected, got one on cpu");
  refused(cx, !heed_device_after(x, NULL),
          "device_after: a tensor on an accelerator expected, got one on cpu");
  check(heed_device_data(NULL, NULL) == NULL && !heed_device_after(NULL, NULL), "of no tensor");
  heed_event_drop(cx, "cpu", (heed_event *)data);
  check(heed_error(cx) == NULL, "an event of no accelerator");
  check(!heed_device_memory_now(cx, "cpu", NULL) && !heed_device_rng_get(cx, "cpu", NULL) &&
        !heed_device_rng_set(cx, "cpu", NULL) && !heed_device_describe(cx, "cpu", NULL) &&
        !heed_event_elapsed(cx, "cpu", NULL, NULL, NULL) && heed_error(cx) == NULL,
        "no place for what is asked");
  check(!heed_device_limit(NULL, "cpu", 1) && !heed_device_limit(cx, NULL, 1) &&
        heed_error(cx) == NULL, "no context, or no device");
  refused(cx, !heed_device_describe(cx, "cpu", &properties),
          "properties: the only kind of devices is 'cuda'");
  refused(cx, !heed_device_describe(cx, "cudas:0", &properties),
          "properties: the only kind of devices is 'cuda'");
  check(heed_device_count(cx, NULL) == 0 && heed_device_count(cx, "cpu") == 0 &&
        strcmp(heed_device_reason(cx, NULL), "the only kind of devices is 'cuda'") == 0 &&
        strcmp(heed_device_reason(NULL, "cuda"), "no context") == 0, "kinds of devices");
  refused(cx, !heed_set_device(cx, "cpu:0"), "default_device: device 'cpu', 'cuda' or 'cuda:0' "
          "expected, got 'cpu:0'");
  heed_drop(x);
}

static void settings_are_checked (heed_context *cx) {
  refused(cx, !heed_set_threads(cx, 0), "threads: 1 to 256 expected, got 0");
  refused(cx, !heed_set_threads(cx, 257), "threads: 1 to 256 expected, got 257");
  check(heed_set_threads(cx, 1) && heed_threads(cx) == 1, "one thread");
  refused(cx, heed_set_autocast(cx, HEED_INT64) == HEED_FLOAT32,
          "autocast: float16, bfloat16 or float32 expected, got int64");
  refused(cx, heed_set_autocast(cx, HEED_NTYPES) == HEED_FLOAT32,
          "autocast: float16, bfloat16 or float32 expected, got no type");
  refused(cx, !heed_profile_end(cx), "profile: no profile runs");
  check(!heed_profile_end(NULL) && heed_describe(NULL, HEED_add) == NULL, "no context");
  char none[80];
  snprintf(none, sizeof none, "heed: there is no operation %d; they end at %d", HEED_NOPS,
           HEED_NOPS - 1);
  refused(cx, heed_describe(cx, HEED_NOPS) == NULL, none);
  refused(cx, !heed_set_matmul_precision(cx, "higher"), "matmul_precision: 'highest', 'high' or "
          "'medium' expected, got 'higher'");
  check(strcmp(heed_matmul_precision(cx), "highest") == 0, "the precision as it was");
  check(heed_set_matmul_precision(cx, "medium") &&
        strcmp(heed_matmul_precision(cx), "medium") == 0, "another precision");
  check(!heed_set_matmul_precision(cx, NULL) && !heed_set_matmul_precision(NULL, "high") &&
        heed_matmul_precision(NULL) == NULL, "no precision");
  check(heed_works(cx, "cpu") > 0 && heed_works(NULL, "cpu") == 0 && heed_works(cx, NULL) == 0 &&
        heed_works(cx, "none") == 0, "how much a device did");
}

static void captures_keep_memory (heed_context *cx) {
  heed_tensor *x = vector(cx), *y = vector(cx);
  check(heed_capture_begin(cx, "cpu"), "a capture");
  refused(cx, !heed_take_over(x, y), "set_: a tensor gets other memory while work is captured");
  refused(cx, !heed_capture_begin(cx, "cpu"), "capture: the work of cpu is captured already");
  heed_capture_pause(cx, true);
  refused(cx, !heed_take_over(x, y), "set_: a tensor gets other memory while work is captured");
  refused(cx, !heed_capture_begin(cx, "cpu"), "capture: the work of cpu is captured already");
  heed_capture *c = heed_capture_end(cx);
  check(heed_capture_begin(cx, "cpu"), "another capture");
  refused(cx, !heed_capture_replay(cx, c), "capture: a replay while the work of cpu is captured");
  refused(cx, heed_profile_begin(cx) == NULL,
          "profile: work is captured: begin before the capture");
  heed_capture_drop(cx, heed_capture_end(cx));
  heed_capture_drop(cx, c);
  refused(cx, heed_capture_end(cx) == NULL, "capture: no work is captured");
  check(heed_take_over(x, y), "other memory afterwards");
  heed_drop(x); heed_drop(y);
}

/* }================================================================== */


/* Many elements, which go in pieces. */
static void long_tensors_are_whole (heed_context *cx) {
  enum { MOST = (5 << 18) + 3 };
  static float from[MOST], to[MOST + 1];
  static const int64_t sizes[] = {(1 << 18) - 1, 1 << 18, (1 << 18) + 1, 1 << 19, MOST};
  for (int i = 0; i < MOST; i++) from[i] = (float)(i % 4093);
  for (int i = 0; i < 5; i++) {
    const size_t bytes = (size_t)sizes[i] * sizeof *from;
    memset(to, 0, sizeof to);
    heed_tensor *x = heed_from(cx, HEED_FLOAT32, 1, &sizes[i], from);
    check(heed_read(x, HEED_FLOAT32, to) && memcmp(from, to, bytes) == 0 && to[sizes[i]] == 0,
          "a long tensor");
    memset(to, 0, sizeof to);
    check(heed_write(x, HEED_FLOAT32, to) && heed_write(x, HEED_FLOAT32, from) &&
          heed_read(x, HEED_FLOAT32, to) && memcmp(from, to, bytes) == 0, "a long write");
    heed_drop(x);
  }
}

/* Places for results are set as far as they go, by calls that fail, too. */
static void places_have_ends (heed_context *cx, heed_tensor *x) {
  heed_tensor *out[HEED_RESULTS + 1], *g[3], *leaf = vector(cx);
  const heed_value args[] = {heed_t(x), heed_i(1)}, wrong[] = {heed_t(x), heed_i(9)};
  for (int way = 0; way < 4; way++) {
    const heed_value *of = way % 2 == 0 ? args : wrong;
    for (int i = 0; i <= HEED_RESULTS; i++) out[i] = x;
    const int n = way < 2 ? heed_apply(cx, HEED_topk, of, 2, out)
                          : heed_apply_on(cx, "cpu", HEED_topk, of, 2, out);
    check(n == (way % 2 == 0 ? 2 : 0) && (out[0] != NULL) == (n > 0) &&
          (out[1] != NULL) == (n > 0) && out[2] == NULL, "results");
    check(out[HEED_RESULTS] == x, "what lies behind them");
    for (int i = 0; i < HEED_RESULTS; i++) heed_drop(out[i]);
    heed_clear(cx);
  }
  for (int i = 0; i <= HEED_RESULTS; i++) out[i] = x;
  check(heed_apply_on(cx, "none", HEED_exp, args, 1, out) == 0 && *out == NULL &&
        out[HEED_RESULTS - 1] == NULL && out[HEED_RESULTS] == x, "results on no device");
  heed_clear(cx);
  heed_require_grad(leaf, true);
  heed_tensor *y = heed_call(cx, HEED_sum, (heed_value[]){heed_t(leaf)}, 1);
  heed_tensor *const of[] = {leaf, x};
  for (int way = 0; way < 2; way++) {
    for (int i = 0; i < 3; i++) g[i] = x;
    check(heed_gradients(way == 0 ? y : NULL, NULL, 2, of, g, true) == (way == 0) &&
          (g[0] != NULL) == (way == 0) && g[1] == NULL && g[2] == x, "gradients");
    heed_drop(g[0]);
  }
  heed_tensor *z = heed_call(cx, HEED_exp, (heed_value[]){heed_t(y)}, 1);
  heed_tensor *w = heed_call(cx, HEED_exp, (heed_value[]){heed_t(z)}, 1);
  check(heed_backward(z, NULL, false) && !heed_gradients(w, NULL, 2, (heed_tensor *[]){z, leaf}, g,
        false) && g[0] == NULL && g[1] == NULL, "gradients behind what a pass has freed");
  heed_clear(cx);
  heed_drop(z); heed_drop(w);
  for (int type = 0; type < HEED_NTYPES; type++) {
    unsigned char to[4 * 8 + 1];
    const size_t bytes = heed_type_bytes((heed_type)type, 4);
    memset(to, 0x5a, sizeof to);
    check(heed_read(x, (heed_type)type, to) && to[bytes] == 0x5a, "what is read");
  }
  heed_drop(y); heed_drop(leaf);
}


int main (void) {
  heed_context *cx = heed_open(NULL);
  heed_tensor *x = vector(cx);
  kinds_are_named(cx, x);
  numbers_may_be_whole(cx, x);
  types_are_known(cx, x);
  targets_are_tensors(cx);
  makes_no_odd_tensors(cx);
  axes_are_there(cx);
  reads_and_writes_what_fits(cx);
  the_cpu_is_no_accelerator(cx);
  settings_are_checked(cx);
  captures_keep_memory(cx);
  values_are_whole(cx, x);
  parameters_are_counted(cx, x);
  changes_are_counted(cx, x);
  blocks_stay_whole(cx);
  places_have_ends(cx, x);
  long_tensors_are_whole(cx);
  heed_drop(x);
  heed_close(cx);
  if (!failed) puts("refusals: in the words that are wanted");
  return failed;
}
