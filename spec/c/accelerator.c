/*
** accelerator.c - devices beyond the CPU, on every machine: how they are opened and asked, where
** calls work, what goes to them and comes back, memory that others lend.
*/

#include "accelerator.h"

/*
** {==================================================================
** Devices, and what they are asked for
** ===================================================================
*/

/* A device that is opened late has the settings that were made before. */
static void opens (void) {
  heed_context *cx = open_with_gpus(NULL);
  heed_device_properties p;
  check(heed_seed(cx, 7) && heed_set_matmul_precision(cx, "medium"), "settings before a device");
  check(heed_device_reason(cx, "cuda") == NULL && heed_device_count(cx, "cuda") == GPUS, "some");
  check(heed_set_device(cx, "cuda") && strcmp(heed_device(cx), "cuda:0") == 0, "the first one");
  check(heed_set_device(cx, "cuda:0") && cx->devices.n == 2, "is opened once");
  check(gpus[0].seed == 7 && gpus[0].level == 2 && !gpus[0].blocks, "with the settings");
  check(heed_device_block(cx, "cuda", true) && gpus[0].blocks, "a device that is waited for");
  check(heed_device_describe(cx, "cuda:1", &p) && p.multiprocessors == 11 && *p.matmul == '\0' &&
        cx->devices.n == 2, "one that is not open");
  check(heed_set_device(cx, "cuda:1") && cx->devices.n == 3 && gpus[1].blocks, "the second one");
  check(heed_device_describe(cx, "cuda:1", &p) &&
        strcmp(p.matmul, "products of cuda:1") == 0, "one that is open");
  check(heed_device_describe(cx, "cuda", &p) && p.multiprocessors == 10, "by its kind");
  gpus[1].fails = "it broke";
  refused(cx, !heed_device_describe(cx, "cuda:1", &p), "properties: it broke");
  refused(cx, !heed_device_describe(cx, "cuda:2", &p),
          "properties: there is no 'cuda:2'; devices count from 0");
  refused(cx, !heed_device_describe(cx, "cuda:x", &p),
          "properties: there is no 'cuda:x'; devices count from 0");
  refused(cx, !heed_set_device(cx, "cuda:2"), "default_device: device 'cuda:2': there are 2");
  refused(cx, !heed_set_device(cx, "cuda:15"), "default_device: device 'cuda:15': there are 2");
  refused(cx, !heed_set_device(cx, "cuda:16"),
          "default_device: device 'cuda:16': there are fewer GPUs");
  gpus[0].gone = "it is lost";
  refused(cx, !heed_set_device(cx, "cuda:0"), "default_device: device 'cuda:0': it is lost");
  check(strcmp(heed_device(cx), "cuda:1") == 0, "the device that was chosen stays");
  heed_close(cx);
  check(!gpus[0].open && !gpus[1].open, "all are closed");
  cx = open_with_gpus(NULL);
  no_gpus = "no driver";
  refused(cx, !heed_set_device(cx, "cuda:1"), "default_device: device 'cuda': no driver");
  check(heed_device_count(cx, "cuda") == 0, "no device, for a reason");
  heed_close(cx);
}


static void is_asked (heed_context *cx) {
  uint64_t state[2] = {0, 0};
  heed_device_memory now;
  heed_tensor *x = vector_on(cx, "cuda:1");
  check(heed_seed(cx, 9) && gpus[0].seed == 9 && gpus[1].seed == 9, "seeds of all");
  check(heed_set_matmul_precision(cx, "high") && gpus[0].level == 1 && gpus[1].level == 1,
        "the precision of all");
  check(heed_device_block(cx, "cuda", true) && gpus[0].blocks && gpus[1].blocks &&
        heed_device_block(cx, "cuda", false) && !gpus[0].blocks && !gpus[1].blocks, "waiting");
  heed_profile *p = heed_profile_begin(cx);
  check(p != NULL && gpus[0].blocks && heed_profile_end(cx) && !gpus[0].blocks,
        "devices are waited for while a profile runs");
  heed_profile_drop(cx, p);
  const int waits = gpus[1].waits;
  check(heed_synchronize(cx, "cuda:1") && gpus[1].waits == waits + 1, "one is waited for");
  check(heed_device_memory_now(cx, "cuda:1", &now) && now.total == MEMORY &&
        now.live == (HEED_EXACT ? N * sizeof(float) : 64),
        "its memory");
  check(heed_device_reset_peak(cx, "cuda:1") && gpus[1].peaks == 1 && gpus[0].peaks == 0 &&
        heed_device_trim(cx, "cuda:1") && gpus[1].trims == 1 && gpus[0].trims == 0 &&
        heed_device_limit(cx, "cuda:1", MIB) && gpus[1].memory.limit == MIB &&
        gpus[0].memory.limit == 0, "its peak, cache and limit");
  state[1] = 12;
  check(heed_device_rng_set(cx, "cuda:1", state) && gpus[1].seed == 0 && gpus[1].offset == 12 &&
        heed_device_rng_get(cx, "cuda:1", state) && state[0] == 0 && state[1] == 12 &&
        heed_device_rng_get(cx, "cuda:0", state) && state[0] == 9, "its generator");
  check(heed_device_stream(cx, "cuda:1") == &gpus[1].works, "its stream");
  heed_event *from = heed_event_record(cx, "cuda:0"), *to = heed_event_record(cx, "cuda:0");
  double seconds = 0;
  check(heed_event_elapsed(cx, "cuda:0", from, to, &seconds) && seconds == 0.5, "a time");
  gpus[0].fails = gpus[1].fails = "it broke";
  refused(cx, !heed_event_elapsed(cx, "cuda:0", from, to, &seconds), "elapsed: it broke");
  refused(cx, !heed_device_rng_get(cx, "cuda:1", state), "rng_state: it broke");
  refused(cx, !heed_device_rng_set(cx, "cuda:1", state), "rng_state: it broke");
  refused(cx, !heed_synchronize(cx, "cuda:1"), "synchronize: it broke");
  gpus[1].late = HEED_exp;
  refused(cx, !heed_synchronize(cx, "cuda:1"), "exp: it broke");
  gpus[0].fails = gpus[1].fails = NULL;
  check(gpus[0].events == 2, "two events");
  heed_event_drop(cx, "cuda:0", from);
  heed_event_drop(cx, "cuda:0", NULL);
  heed_event_drop(NULL, "cuda:0", to);
  heed_event_drop(cx, "cuda:7", to);
  check(gpus[0].events == 1, "one is dropped");
  heed_event_drop(cx, "cuda:0", to);
  gpus[0].lacks = true;
  refused(cx, heed_event_record(cx, "cuda:0") == NULL, "elapsed: there is no memory for an event");
  gpus[0].fails = "it broke";
  refused(cx, heed_event_record(cx, "cuda:0") == NULL, "elapsed: it broke");
  refused(cx, heed_event_record(cx, "cuda:0") == NULL, "elapsed: device 'cuda:0': it broke");
  refused(cx, !heed_event_elapsed(cx, "cpu", from, to, &seconds),
          "elapsed: an accelerator expected, got 'cpu'");
  check(!heed_event_elapsed(cx, "cuda:1", NULL, to, &seconds) &&
        !heed_event_elapsed(cx, "cuda:1", from, NULL, &seconds) &&
        !heed_event_elapsed(cx, "cuda:1", from, to, NULL) && heed_error(cx) == NULL, "no events");
  heed_drop(x);
}

/* }================================================================== */


/*
** {==================================================================
** Where calls work
** ===================================================================
*/

enum { CPU, ONE, FIRST, SECOND, OTHER, NUMBER, OPERANDS };

/* Single elements of the host's follow the other tensors; nothing else does. */
static void works_where_tensors_are (heed_context *cx) {
  static const struct { int a, b; const char *where; } cases[] = {
    {CPU, ONE, "cpu"}, {ONE, ONE, "cpu"}, {ONE, CPU, "cpu"}, {CPU, NUMBER, "cpu"},
    {FIRST, FIRST, "cuda:0"}, {FIRST, ONE, "cuda:0"}, {ONE, FIRST, "cuda:0"},
    {NUMBER, FIRST, "cuda:0"}, {FIRST, NUMBER, "cuda:0"}, {SECOND, ONE, "cuda:1"},
    {ONE, SECOND, "cuda:1"}, {OTHER, NUMBER, "cuda:1"}, {OTHER, ONE, "cuda:1"},
    {ONE, OTHER, "cuda:1"}, {SECOND, OTHER, "cuda:1"},
    {CPU, FIRST, NULL}, {FIRST, CPU, NULL}, {FIRST, SECOND, NULL}, {FIRST, OTHER, NULL},
    {OTHER, FIRST, NULL}, {CPU, OTHER, NULL}
  };
  static const char *const names[OPERANDS] = {"cpu", "cpu", "cuda:0", "cuda:1", "cuda:1", NULL};
  heed_tensor *t[OPERANDS] = {
    vector_on(cx, "cpu"), scalar_on(cx, "cpu", 1), vector_on(cx, "cuda:0"),
    vector_on(cx, "cuda:1"), scalar_on(cx, "cuda:1", 1), heed_number(cx, 1)
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int a = cases[i].a, b = cases[i].b;
    char message[100];
    heed_tensor *y = call(cx, HEED_add, t[a], t[b]);
    if (cases[i].where == NULL) {
      snprintf(message, sizeof message, "add: argument 'other' is on %s, argument 'input' on %s; "
               "move one with to()", names[b], names[a]);
      refused(cx, y == NULL, message);
    }
    else check(lies_on(y, cases[i].where) && (heed_numel(y) == 1 || heed_numel(y) == N),
               cases[i].where);
    heed_drop(y);
  }
  check(tensor_materialize(t[NUMBER]) && lies_on(t[NUMBER], "cpu"), "a number with storage");
  heed_tensor *y = call(cx, HEED_add, t[SECOND], t[NUMBER]);
  check(lies_on(y, "cuda:1") && is(y, 1, 1), "serves elsewhere");
  heed_drop(y);
  for (int i = 0; i < OPERANDS; i++) heed_drop(t[i]);
}


static void lists_are_in_one_place (heed_context *cx) {
  heed_tensor *near = vector_on(cx, "cpu"), *far = vector_on(cx, "cuda:0");
  heed_tensor *both[] = {far, far, near}, *place = NULL;
  heed_value of_two[] = {heed_ts(2, both), heed_i(0)}, of_three[] = {heed_ts(3, both), heed_i(0)};
  heed_tensor *y = heed_call(cx, HEED_cat, of_two, 2);
  check(lies_on(y, "cuda:0") && heed_numel(y) == 2 * N, "a list on one device");
  heed_drop(y);
  refused(cx, heed_call(cx, HEED_cat, of_three, 2) == NULL, "cat: entry 3 of 'tensors' is on cpu, "
          "entry 1 of 'tensors' on cuda:0; move one with to()");
  place = heed_from(cx, HEED_INT64, 1, (int64_t[]){1}, (int64_t[]){1});
  heed_tensor *one = scalar_on(cx, "cpu", 5);
  const heed_value put[] = {heed_t(far), heed_ts(1, &place), heed_t(one)};
  refused(cx, heed_call(cx, HEED_put, put, 3) == NULL, "put: entry 1 of 'indices' is on cpu, "
          "argument 'input' on cuda:0; move one with to()");
  const int64_t square[] = {2, 2};
  heed_tensor *table = heed_call(cx, HEED_view, (heed_value[]){heed_t(far), heed_l(2, square)}, 2);
  heed_tensor *all[] = {NULL, place};
  const heed_value column[] = {heed_t(table), heed_ts(2, all), heed_t(one)};
  refused(cx, heed_call(cx, HEED_put, column, 3) == NULL, "put: entry 2 of 'indices' is on cpu, "
          "argument 'input' on cuda:0; move one with to()");
  const heed_value to[] = {heed_t(place), heed_none(), heed_s("cuda:0")};
  float got[N] = {0};
  all[1] = heed_call(cx, HEED_to, to, 3);
  y = heed_call(cx, HEED_put, column, 3);
  check(lies_on(y, "cuda:0") && heed_read(y, HEED_FLOAT32, got) && got[0] == 5 && got[1] == 2 &&
        got[2] == 5, "a list with an entry that is all");
  heed_drop(y); heed_drop(table); heed_drop(all[1]);
  heed_drop(near); heed_drop(far); heed_drop(place); heed_drop(one);
}


/* In place the target says where; the source of a copy goes there. */
static void targets_stay (heed_context *cx) {
  heed_tensor *near = vector_on(cx, "cpu"), *far = vector_on(cx, "cuda:0");
  heed_tensor *one = scalar_on(cx, "cpu", 5), *out[HEED_RESULTS];
  const heed_value add[] = {heed_t(one), heed_t(far)};
  refused(cx, !heed_apply_in_place(cx, HEED_add, add, 2), "add_: argument 'other' is on cuda:0, "
          "argument 'input' on cpu; move one with to()");
  check(heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(far), heed_t(one)}, 2) &&
        is(far, 1, 5) && lies_on(far, "cuda:0"), "a sum in place");
  check(heed_apply_in_place(cx, HEED_copy, (heed_value[]){heed_t(near), heed_t(far)}, 2) &&
        is(near, 1, 5) && lies_on(near, "cpu"), "a copy from a device");
  near->store->version++;
  check(heed_apply_in_place(cx, HEED_neg, (heed_value[]){heed_t(near)}, 1) &&
        heed_apply_in_place(cx, HEED_copy, (heed_value[]){heed_t(far), heed_t(near)}, 2) &&
        is(far, -1, -5), "a copy to it");
  const heed_value size[] = {heed_l(1, size_n)};
  check(heed_apply_on(cx, "cuda:1", HEED_ones, size, 1, out) == 1 && lies_on(out[0], "cuda:1") &&
        strcmp(heed_device(cx), "cpu") == 0, "a tensor made elsewhere");
  heed_drop(out[0]);
  check(heed_apply_on(cx, "cuda:1", HEED_zeros, size, 1, out) == 1 && is(out[0], 0, 0), "zeros");
  heed_drop(near); heed_drop(far); heed_drop(one); heed_drop(out[0]);
}


/* Backward functions work where the gradients are, and each input gets its own on its device. */
static void gradients_go_back (heed_context *cx) {
  heed_tensor *x = vector_on(cx, "cuda:0"), *factor = scalar_on(cx, "cpu", 3);
  check(heed_require_grad(x, true) && heed_require_grad(factor, true), "leaves");
  heed_tensor *y = call(cx, HEED_mul, factor, x), *seed = vector_on(cx, "cuda:0");
  for (int i = 1; i <= 2; i++) {
    float sum = 0;
    check(heed_backward(y, seed, true), "a pass on a device");
    heed_tensor *gx = heed_gradient(x), *gf = heed_gradient(factor);
    check(lies_on(gx, "cuda:0") && is(gx, 3 * (float)i, 0), "a gradient there");
    check(lies_on(gf, "cpu") && heed_read(gf, HEED_FLOAT32, &sum) && sum == 30 * (float)i,
          "a gradient here");
    heed_drop(gx); heed_drop(gf);
  }
  heed_tensor *sum = heed_call(cx, HEED_sum, (heed_value[]){heed_t(y)}, 1);
  heed_set_gradient(x, NULL);
  check(heed_backward(sum, NULL, false), "a pass that begins with a one");
  heed_tensor *gx = heed_gradient(x), *near = vector_on(cx, "cpu");
  check(lies_on(gx, "cuda:0"), "its gradient");
  refused(cx, !heed_set_gradient(x, near),
          "grad: the tensor is on cuda:0, the gradient on cpu");
  heed_drop(x); heed_drop(factor); heed_drop(y); heed_drop(seed); heed_drop(sum); heed_drop(gx);
  heed_drop(near);
}

/* }================================================================== */


/*
** {==================================================================
** Memory
** ===================================================================
*/

static void values_travel (heed_context *cx) {
  double wide[N];
  heed_tensor *x = vector_on(cx, "cuda:0"), *to_end[HEED_RESULTS];
  check(is(x, 1, 0) && heed_data(x) == NULL && heed_error(cx) == NULL, "values there");
  check(heed_read(x, HEED_FLOAT64, wide) && wide[3] == 4, "another type");
  wide[3] = 9;
  check(heed_write(x, HEED_FLOAT64, wide) && heed_read(x, HEED_FLOAT64, wide) && wide[3] == 9,
        "which is written");
  check(heed_write(x, HEED_FLOAT32, numbers) && is(x, 1, 0), "its own type");
  heed_tensor *tail = heed_call(cx, HEED_narrow, (heed_value[]){heed_t(x), heed_i(0), heed_i(2),
                                heed_i(3)}, 4);
  static const char *const names[] = {"cpu", "cuda:0", "cuda:1"};
  for (int i = 0; i < 3; i++) {
    const heed_value args[] = {heed_t(tail), heed_s("float64"), heed_s(names[i])};
    check(heed_apply(cx, HEED_to, args, 3, to_end) == 1 && lies_on(to_end[0], names[i]) &&
          heed_read(to_end[0], HEED_FLOAT64, wide) && wide[0] == 2 && wide[2] == 4, names[i]);
    heed_drop(to_end[0]);
  }
  gpus[0].fails = "it broke";
  refused(cx, heed_call(cx, HEED_to, (heed_value[]){heed_t(x), heed_none(), heed_s("cpu")}, 3) ==
          NULL, "to: it broke");
  refused(cx, !heed_read(x, HEED_FLOAT32, wide), "copy: it broke");
  refused(cx, !heed_write(x, HEED_FLOAT32, numbers), "copy: it broke");
  refuses(cx, HEED_mul, x, heed_f(2), "mul: it broke");
  refuses_one(cx, HEED_neg, heed_t(x), "neg: it broke");
  gpus[0].late = HEED_exp;
  refuses(cx, HEED_mul, x, heed_f(2), "exp: it broke");
  gpus[0].fails = NULL;
  gpus[0].lacks = true;
  refuses(cx, HEED_mul, x, heed_f(2), "mul: not enough memory: 16 bytes for a tensor on cuda:0");
  gpus[0].gone = "it is lost";
  refuses(cx, HEED_mul, x, heed_f(2), "mul: device 'cuda:0': it is lost");
  gpus[0].gone = NULL;
  gpus[0].lacks = false;
  check(heed_capture_begin(cx, "cpu"), "a capture of the CPU");
  refused(cx, !heed_write(x, HEED_FLOAT32, numbers),
          "to: works on cuda:0 while the work of cpu is captured");
  heed_capture_drop(cx, heed_capture_end(cx));
  heed_drop(x); heed_drop(tail);
}


/* Work that a device lacks is composed, done by the CPU, or refused. */
static void kinds_may_lack (heed_context *cx) {
  static const float ones[32] = {1, 1, 1, 1};
  const int64_t size[] = {1, 32};
  float got[32];
  heed_tensor *x = vector_on(cx, "cuda:0"), *n = heed_number(cx, 7);
  gpus[0].lacks_kind = WORK_SORT;
  refuses_one(cx, HEED_sort, heed_t(x), "sort: cannot be done on cuda:0");
  gpus[0].lacks_kind = WORK_SOFTMAX;
  heed_tensor *y = heed_call(cx, HEED_softmax, (heed_value[]){heed_t(x), heed_i(0)}, 2);
  check(lies_on(y, "cuda:0") && heed_read(y, HEED_FLOAT32, got) && got[3] > got[0], "softmax");
  heed_drop(y);
  heed_set_device(cx, "cuda:0");
  heed_tensor *wide = heed_from(cx, HEED_FLOAT32, 2, size, ones);
  gpus[0].lacks_kind = WORK_BLOCKS;
  const heed_value blocks[] = {heed_t(wide), heed_s("q8_0")};
  y = heed_call(cx, HEED_to, blocks, 2);
  check(lies_on(y, "cuda:0") && heed_type_of(y) == HEED_Q8_0, "blocks that the CPU makes");
  gpus[0].lacks_kind = -1;
  heed_tensor *z = heed_call(cx, HEED_to, (heed_value[]){heed_t(y), heed_s("float32")}, 2);
  check(heed_read(z, HEED_FLOAT32, got) && got[0] > 0.99f && got[4] == 0, "what they hold");
  heed_drop(y); heed_drop(z);
  gpus[0].lacks_kind = WORK_BLOCKS;
  gpus[0].fails = "it broke";
  refused(cx, heed_call(cx, HEED_to, blocks, 2) == NULL, "to: it broke");
  const heed_value expand[] = {heed_t(n), heed_l(1, size_n)};
  refused(cx, heed_call(cx, HEED_expand, expand, 2) == NULL, "expand: it broke");
  gpus[0].fails = NULL;
  y = heed_call(cx, HEED_expand, expand, 2);
  check(lies_on(y, "cuda:0") && heed_read(y, HEED_FLOAT32, got) && got[3] == 7, "a number there");
  heed_set_device(cx, "cpu");
  heed_drop(x); heed_drop(y); heed_drop(n); heed_drop(wide);
}


static int collections;
static heed_context *finalising;   /* where finalisers make tensors, if that is to be seen */
static bool made_on_cpu;

/* A tensor that a finaliser makes is on the device that was chosen, wherever the call works. */
static void reclaim (void *self, size_t bytes, bool urgent) {
  heed_context *cx = finalising;
  (void)self;
  collections += bytes == SIZE_MAX / 2 && !urgent;
  if (cx == NULL || bytes != N * sizeof *numbers) return;
  finalising = NULL;
  heed_tensor *x = heed_empty(cx, HEED_FLOAT32, 1, size_n);
  made_on_cpu = lies_on(x, "cpu");
  heed_drop(x);
}

/* The host is to collect garbage where a part of the memory, a MiB here, was taken, and what is
   live has grown by half or by that part. */
static void garbage_is_collected (void) {
  static const int wanted[] = {0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4};
  heed_tensor *t[16];
  const int64_t half = MIB / 2;
  heed_context *cx = open_with_gpus(&(heed_host){.reclaim = reclaim});
  heed_set_device(cx, "cuda");
  for (int i = 0; i < 16; i++) {
    t[i] = heed_empty(cx, HEED_UINT8, 1, &half);
    check(collections == wanted[i], "how often the host is asked");
  }
  for (int i = 0; i < 16; i++) heed_drop(t[i]);
  check(gpus[0].memory.live == 0, "what is dropped goes back at once");
  heed_tensor *x = vector_on(cx, "cuda"), *y;
  heed_set_device(cx, "cpu");
  finalising = cx;
  y = times(cx, x, 2);
  check(finalising == NULL && made_on_cpu && lies_on(y, "cuda:0"), "finalisers within a call");
  heed_drop(x);
  heed_drop(y);
  heed_close(cx);
}


static void region (heed_context *cx, const char *name, size_t bytes, heed_tensor **less) {
  const int64_t size = (int64_t)bytes;
  const heed_region around = heed_region_begin(cx, name);
  if (less != NULL) { heed_drop(*less); *less = NULL; }
  if (bytes > 0) heed_drop(heed_empty(cx, HEED_UINT8, 1, &size));
  heed_region_end(cx, around);
}

/* A profile adds what lies on accelerators, also what was there before, to the peaks of regions. */
static void peaks_are_added (heed_context *cx) {
  static const struct { const char *name; size_t bytes, peak; bool drops; } regions[] = {
    {"large", 4 * MIB, 7 * MIB, false}, {"small", MIB, 4 * MIB, false}, {"none", 0, 3 * MIB, false},
    {"less", 0, 3 * MIB, true}, {"then", MIB, 3 * MIB, false}
  };
  const int64_t one = MIB, two = 2 * MIB;
  heed_set_device(cx, "cuda:0");
  heed_tensor *x = heed_empty(cx, HEED_UINT8, 1, &two);
  heed_set_device(cx, "cuda:1");
  heed_tensor *y = heed_empty(cx, HEED_UINT8, 1, &one);
  heed_memory_trim(cx);
  heed_profile *p = heed_profile_begin(cx);
  for (int i = 0; i < 5; i++)
    region(cx, regions[i].name, regions[i].bytes, regions[i].drops ? &y : NULL);
  check(heed_profile_end(cx), "a profile");
  for (int64_t i = 0; i < heed_profile_records(p); i++) {
    const heed_profile_record r = heed_profile_record_at(p, i);
    for (int k = 0; r.name != NULL && k < 5; k++)
      if (strcmp(r.name, regions[k].name) == 0)
        check(r.bytes == regions[k].bytes && r.peak >= regions[k].peak &&
              r.peak < regions[k].peak + MIB / 2, r.name);
  }
  check(heed_profile_records(p) >= 6, "regions");
  heed_profile_drop(cx, p);
  heed_set_device(cx, "cpu");
  heed_drop(x);
}

/* }================================================================== */


/*
** {==================================================================
** Memory of others
** ===================================================================
*/

static void pins (heed_context *cx) {
  heed_tensor *x = vector_on(cx, "cpu"), *far = vector_on(cx, "cuda:0");
  heed_tensor *none = heed_empty(cx, HEED_FLOAT32, 1, (int64_t[]){0});
  heed_tensor *y = heed_pin(x, "cuda"), *z = heed_pin(far, "cuda"), *e = heed_pin(none, "cuda");
  check(is(y, 1, 0) && is(z, 1, 0) && lies_on(z, "cpu") && heed_numel(e) == 0 && pinned == 3,
        "pinned copies");
  heed_drop(y); heed_drop(z); heed_drop(e);
  check(pinned == 0, "which are given back");
  pins_left = 0;
  refused(cx, heed_pin(x, "cuda") == NULL, "pin_memory: no memory for 16 bytes");
  pins_left = -1;
  gpus[0].fails = "it broke";
  refused(cx, heed_pin(far, "cuda") == NULL && pinned == 0, "copy: it broke");
  gpus[0].fails = NULL;
  refused(cx, heed_pin(x, "cpu") == NULL, "pin_memory: the only kind of devices is 'cuda'");
  check(heed_pin(NULL, "cuda") == NULL, "no tensor");
  heed_drop(x); heed_drop(far); heed_drop(none);
}


static int released;

static void release (void *self, void *data) {
  if (self == &released && data != NULL) released++;
}

static heed_tensor *lend (heed_context *cx, void *stream, void *data) {
  return heed_device_lend(cx, "cuda:0", stream, HEED_FLOAT32, 1, size_n, data, release, &released);
}

/* The owner's stream is waited for, and waits in turn once the last handle goes. */
static void lends (heed_context *cx) {
  float own[N + 1] = {1, 2, 3, 4, 5};
  int streams[4];
  heed_tensor *x = lend(cx, &streams[0], own), *mine = vector_on(cx, "cuda:0");
  check(is(x, 1, 0) && gpus[0].after == &streams[0] && gpus[0].before == NULL, "lent memory");
  check(heed_apply_in_place(cx, HEED_add, (heed_value[]){heed_t(x), heed_i(1)}, 2) &&
        own[0] == 2 && own[3] == 5 && own[4] == 5, "is worked on");
  heed_drop(x);
  check(released == 1 && gpus[0].before == &streams[0], "and released");
  refused(cx, lend(cx, NULL, (char *)own + 2) == NULL,
          "lend: float32 data expected at a multiple of 4 bytes");
  heed_tensor *tail = heed_call(cx, HEED_narrow, (heed_value[]){heed_t(mine), heed_i(0), heed_i(2),
                                heed_i(3)}, 4);
  char *data = heed_device_data(mine, &streams[1]);
  check(data != NULL && gpus[0].before == &streams[1], "memory for another stream");
  check(heed_device_data(tail, &streams[2]) == data + 4, "of a part");
  check(heed_device_after(mine, &streams[3]) && gpus[0].after == &streams[3],
        "its work is waited for");
  x = lend(cx, &streams[2], own);
  gpus[0].fails = "it broke";
  const int waits = gpus[0].waits;
  heed_drop(x);
  check(released == 2 && gpus[0].waits == waits + 1, "a stream that cannot wait");
  refused(cx, lend(cx, NULL, own) == NULL, "lend: it broke");
  refused(cx, heed_device_data(mine, NULL) == NULL, "device_data: it broke");
  refused(cx, !heed_device_after(mine, NULL), "device_after: it broke");
  gpus[0].fails = NULL;
  x = lend(cx, &streams[1], own);
  heed_tensor *y = lend(cx, &streams[1], own);
  check(heed_capture_begin(cx, "cuda:0"), "a capture");
  heed_drop(x);
  heed_drop(y);
  check(released == 2, "nothing is released meanwhile");
  refused(cx, lend(cx, NULL, own) == NULL, "lend: not while cuda:0 is captured");
  refused(cx, heed_device_data(mine, NULL) == NULL, "device_data: not while cuda:0 is captured");
  refused(cx, heed_event_record(cx, "cuda:0") == NULL, "elapsed: not while cuda:0 is captured");
  heed_capture_drop(cx, heed_capture_end(cx));
  check(released == 4, "but at its end");
  heed_drop(mine); heed_drop(tail);
}

/* }================================================================== */


/* A context that is closed while work is captured releases what waits for the end of that. */
static void closes_in_a_capture (void) {
  float own[N] = {1, 2, 3, 4};
  heed_context *cx = open_with_gpus(NULL);
  heed_tensor *x = lend(cx, NULL, own);
  released = 0;
  check(heed_capture_begin(cx, "cuda:0"), "a capture");
  heed_drop(x);
  heed_close(cx);
  check(released == 1 && !gpus[0].open, "what is released");
}


int main (void) {
  opens();
  with(is_asked);
  with(works_where_tensors_are);
  with(lists_are_in_one_place);
  with(targets_stay);
  with(gradients_go_back);
  with(values_travel);
  with(kinds_may_lack);
  garbage_is_collected();
  with(peaks_are_added);
  with(pins);
  with(lends);
  closes_in_a_capture();
  if (!failed) puts("accelerator: as the CPU, elsewhere");
  return failed;
}
