/*
** cuda_frame.c - a GPU as a device: two of them, captures, limits, failures, lost devices, forks.
** Failures and losses can be arranged on an emulated GPU only.
*/

#include <dlfcn.h>

#include "cuda_child.h"


static void two_gpus (both *b) {
  if (b->cx->devices.plugin->count() < 2) return;
  device *d = b->gpu, *other = core_device(b->cx, "test", "cuda:1");
  view x = vector_on(d, HEED_FLOAT32), y = vector_on(other, HEED_FLOAT32);
  float got[N];
  set(d, x, number(2.5));
  check(other->accelerator->copy(other, y.data, d, x.data, N * 4) == NULL, "a copy between GPUs");
  set(d, x, number(1));            /* comes after the copy */
  check(other->download(other, got, y.data, N * 4) == NULL && got[0] == 2.5f && got[N - 1] == 2.5f,
        "it waits for what was before it, and what is after it waits");
  d->free(d, x.data, N * 4);
  other->free(other, y.data, N * 4);
  check(core_device(b->cx, "test", "cuda:15") == NULL, "there is no GPU 15");
  check(says(heed_error(b->cx), "cuda:15"), "and a message says so");
  heed_clear(b->cx);
}


/* Figures are those of GPUs by their numbers, and of no other name. */
static void names (both *b) {
  heed_device_properties p = {.memory = 0};
  char beyond[16];
  snprintf(beyond, sizeof beyond, "cuda:%d", heed_device_count(b->cx, "cuda"));
  check(heed_device_describe(b->cx, "cuda", &p) && p.memory > 0, "a GPU by its kind");
  check(heed_device_describe(b->cx, "cuda:0", &p), "and by its number");
  const char *others[] = {"cuda:x", beyond};
  for (int i = 0; i < 2; i++) {
    check(!heed_device_describe(b->cx, others[i], &p) &&
          says(heed_error(b->cx), "there is no 'cuda:"), "there is no such GPU");
    heed_clear(b->cx);
  }
}


/* y = y + x, with x sent from the host: captured, and done by three replays. */
static void captures (both *b) {
  device *d = b->gpu;
  const accelerator *a = d->accelerator;
  view x = vector_on(d, HEED_FLOAT32), y = vector_on(d, HEED_FLOAT32);
  float ones[N], got[N];
  const char *why;
  for (int i = 0; i < N; i++) ones[i] = 1;
  set(d, y, number(0));
  check(a->capture_begin(d) == NULL, "a capture begins");
  check(d->upload(d, x.data, ones, sizeof ones) == NULL, "the host's memory may be sent");
  memset(ones, 0, sizeof ones);    /* what was sent stays */
  view part = vector_on(d, HEED_FLOAT32);
  map(d, HEED_add, part, y, x);
  map(d, HEED_add, y, part, view_number(number(0)));
  d->free(d, part.data, N * 4);    /* the capture keeps it */
  check(says(d->download(d, got, y.data, sizeof got), "while work is captured"),
        "nothing is read back meanwhile");
  device_capture *c = a->capture_end(d, &why);
  check(c != NULL, "a capture ends");
  view taken = vector_on(d, HEED_FLOAT32);
  set(d, taken, number(99));
  for (int i = 0; c != NULL && i < 3; i++)
    check(a->capture_replay(d, c) == NULL, "it is replayed");
  check(d->download(d, got, y.data, sizeof got) == NULL && got[0] == 3 && got[N - 1] == 3,
        "three times");
  check(d->download(d, got, taken.data, sizeof got) == NULL && got[0] == 99,
        "its memory is its own");
  a->capture_drop(d, c);
  d->free(d, taken.data, N * 4);
  d->free(d, x.data, N * 4);
  d->free(d, y.data, N * 4);
}


/* Memory that is freed during a capture goes to the driver after it: the driver would wait. */
static void frees_in_captures (both *b) {
  device *d = b->gpu;
  const accelerator *a = d->accelerator;
  heed_context *cx = heed_open(NULL);
  device *other = core_device(cx, "test", "cuda");
  view x = vector_on(d, HEED_FLOAT32);
  heed_device_memory before, m;
  void *pinned = b->cx->devices.plugin->pin(100), *its = other->alloc(other, 30 << 20);
  const char *why;
  a->memory(d, &before);
  set(d, x, number(2));
  check(a->capture_begin(d) == NULL, "a capture begins");
  b->cx->devices.plugin->unpin(pinned);
  other->free(other, its, 30 << 20);
  other->accelerator->trim(other);
  map(d, HEED_mul, x, x, x);
  heed_close(cx);
  device_capture *c = a->capture_end(d, &why);
  check(c != NULL, "what others give back does not end it");
  check(c == NULL || a->capture_replay(d, c) == NULL, "it is replayed");
  float got[N];
  check(d->download(d, got, x.data, sizeof got) == NULL && got[0] == 4, "once");
  a->capture_drop(d, c);
  a->memory(d, &m);
  check(m.free >= before.free + (30 << 20) - (4 << 20), "the memory is free then");
  d->free(d, x.data, N * 4);
}


static void limits (both *b) {
  device *d = b->gpu;
  const accelerator *a = d->accelerator;
  heed_device_memory before, m;
  a->memory(d, &before);
  void *data = d->alloc(d, 3 << 20);
  a->memory(d, &m);
  check(m.live == before.live + (3 << 20) && m.peak >= m.live, "live bytes are counted");
  d->free(d, data, 3 << 20);
  a->trim(d);
  a->reset_peak(d);
  a->memory(d, &m);
  check(m.live == before.live && m.peak == m.live, "and given back");
  a->limit(d, m.live + m.cached + (4 << 20));
  data = d->alloc(d, 3 << 20);
  check(data != NULL, "there is memory below the limit");
  check(d->alloc(d, 3 << 20) == NULL, "and none beyond it");
  d->free(d, data, 3 << 20);
  data = d->alloc(d, 4 << 20);
  check(data != NULL, "cached memory is freed for something larger");
  d->free(d, data, 4 << 20);
  a->limit(d, 0);
}


/* Blocks of many sizes come and go: none lies in another. */
static void blocks (both *b) {
  device *d = b->gpu;
  struct { char *at; size_t bytes; } block[200] = {{0}};
  for (int i = 0; i < 20000; i++) {
    int k = (int)(draw() * 200);
    if (block[k].at != NULL) d->free(d, block[k].at, block[k].bytes);
    block[k].bytes = (size_t)exp(draw() * 17);
    block[k].at = d->alloc(d, block[k].bytes);
    check(block[k].at != NULL && (uintptr_t)block[k].at % 512 == 0, "aligned memory");
    for (int j = 0; j < 200; j++)
      if (j != k && block[j].at != NULL && block[j].at < block[k].at + block[k].bytes &&
          block[k].at < block[j].at + block[j].bytes)
        check(false, "blocks lie apart");
  }
  for (int k = 0; k < 200; k++)
    if (block[k].at != NULL) d->free(d, block[k].at, block[k].bytes);
}


/* Three megabytes and a bit, up and down, and small ones in between. */
static void transfers (both *b) {
  device *d = b->gpu;
  size_t n = (3 << 20) + 4321;
  char *x = malloc(n), *y = malloc(n), *on = d->alloc(d, n);
  for (int times = 0; times < 20; times++) {
    for (size_t i = 0; i < n; i++) x[i] = (char)(i * 7 + (size_t)times);
    check(d->upload(d, on, x, n) == NULL, "an upload");
    for (size_t i = 0; i < 300; i++) d->upload(d, on + 11 * i, (char[]){(char)i}, 1);
    for (size_t i = 0; i < 300; i++) x[11 * i] = (char)i;
    check(d->download(d, y, on, n) == NULL && memcmp(x, y, n) == 0, "what went up came down");
  }
  d->free(d, on, n);
  char *pinned = b->cx->devices.plugin->pin(n), *back = b->cx->devices.plugin->pin(n);
  on = d->alloc(d, n);
  memcpy(pinned, x, n);
  check(d->accelerator->send(d, on, pinned, n) == NULL, "pinned memory is sent");
  check(d->accelerator->receive(d, back, on, n) == NULL, "and received");
  check(d->accelerator->wait(d) == NULL && memcmp(back, x, n) == 0, "once it was waited for");
  b->cx->devices.plugin->unpin(pinned);
  b->cx->devices.plugin->unpin(back);
  d->free(d, on, n);
  free(x);
  free(y);
}


static void *dropped;

static void note_drop (device *d, device_event *e) {
  (void)d;
  dropped = e;
}

static void times (both *b) {
  device *d = b->gpu;
  const accelerator *a = d->accelerator;
  double seconds = -1;
  view x = vector_on(d, HEED_FLOAT32);
  device_event *from = a->event_record(d);
  set(d, x, number(1));
  device_event *to = a->event_record(d);
  check(a->event_elapsed(d, from, to, &seconds) == NULL && seconds >= 0, "time goes by");
  a->event_drop(d, from);
  a->event_drop(d, to);
  accelerator other = *a;
  other.event_drop = note_drop;
  heed_event *event = heed_event_record(b->cx, "cuda");
  d->accelerator = &other;
  heed_event_drop(b->cx, "cuda", event);
  heed_event_drop(b->cx, "cuda", NULL);
  d->accelerator = a;
  check(event != NULL && dropped == event, "an event is dropped, no event is not");
  a->event_drop(d, (device_event *)event);
  d->free(d, x.data, N * 4);
  uint64_t state[2], again[2] = {0};
  a->seed(d, 42);
  check(a->rng_get(d, state) == NULL && state[0] == 42 && state[1] == 0, "a seed");
  state[1] = 1000;
  check(a->rng_set(d, state) == NULL && a->rng_get(d, again) == NULL &&
        again[0] == 42 && again[1] == 1000, "a generator's state");
}


static void count_release (void *self, void *data) {
  (void)data;
  ++*(int *)self;
}

static bool all_are (heed_tensor *t, float wanted) {
  float x[N];
  if (t == NULL || !heed_read(t, HEED_FLOAT32, x)) return false;
  for (int i = 0; i < N; i++)
    if (x[i] != wanted) return false;
  return true;
}

/* A context works on another one's memory: each waits for the other's stream. */
static void streams (both *b) {
  heed_context *cx = b->cx, *other = heed_open(NULL);
  int released = 0;
  void *mine = heed_device_stream(cx, "cuda"), *its = heed_device_stream(other, "cuda");
  check(mine != NULL && its != NULL && mine != its, "each context has a stream");
  heed_set_device(cx, "cuda");
  heed_value threes[] = {heed_l(1, (int64_t[]){N}), heed_f(3)};
  heed_tensor *x = heed_call(cx, HEED_full, threes, 2);
  heed_value twice[] = {heed_t(x), heed_f(2)};
  heed_tensor *y = heed_call(cx, HEED_mul, twice, 2);
  void *data = heed_device_data(y, mine);
  heed_tensor *lent = heed_device_lend(other, "cuda", mine, HEED_FLOAT32, 1, (int64_t[]){N},
                                       data, count_release, &released);
  check(all_are(lent, 6), "lent memory is there when its stream has made it");
  heed_apply_in_place(other, HEED_add, (heed_value[]){heed_t(lent), heed_f(1)}, 2);
  heed_drop(lent);
  check(released == 1, "lent memory is released, once");
  check(all_are(y, 7), "its stream waits for what was done with it");
  check(heed_device_data(y, NULL) == data && heed_device_after(y, NULL), "the default stream");
  check(heed_device_lend(other, "cuda", mine, HEED_FLOAT32, 1, (int64_t[]){N}, (char *)data + 2,
                         count_release, &released) == NULL && released == 1 &&
        says(heed_error(other), "at a multiple of 4 bytes"), "memory that is not aligned");
  heed_set_device(cx, "cpu");
  heed_tensor *on_cpu = heed_empty(cx, HEED_FLOAT32, 0, NULL);
  check(heed_device_data(on_cpu, mine) == NULL && says(heed_error(cx), "got one on cpu"),
        "no address of a tensor on the CPU");
  heed_clear(cx);
  lent = heed_device_lend(cx, "cuda", its, HEED_FLOAT32, 0, NULL, data, count_release, &released);
  heed_capture_begin(cx, "cuda");
  heed_drop(lent);
  check(released == 1, "nothing is released in a capture");
  check(!heed_device_after(y, its) && says(heed_error(cx), "not while cuda:0 is captured"),
        "no other stream in a capture");
  heed_capture_drop(cx, heed_capture_end(cx));
  check(released == 2, "but after it");
  heed_clear(cx);
  heed_tensor *some[3];
  for (int i = 0; i < 3; i++)
    some[i] = heed_device_lend(cx, "cuda", its, HEED_FLOAT32, 0, NULL, data,
                               i == 1 ? NULL : count_release, &released);
  heed_capture_begin(cx, "cuda");
  for (int i = 0; i < 3; i++) heed_drop(some[i]);
  check(heed_device_lend(cx, "cuda", its, HEED_FLOAT32, 0, NULL, data, count_release,
                         &released) == NULL &&
        says(heed_error(cx), "lend: not while cuda:0 is captured"), "nothing is lent in a capture");
  heed_clear(cx);
  check(heed_device_data(y, its) == NULL &&
        says(heed_error(cx), "device_data: not while cuda:0 is captured"), "no address");
  heed_clear(cx);
  check(heed_event_record(cx, "cuda") == NULL &&
        says(heed_error(cx), "elapsed: not while cuda:0 is captured"), "no event");
  check(released == 2, "several are put off");
  heed_capture_drop(cx, heed_capture_end(cx));
  heed_clear(cx);
  check(released == 4, "and all released, those without a function too");
  const int64_t works = heed_works(cx, "cuda"), on_the_cpu = heed_works(cx, "cpu");
  heed_drop(heed_call(cx, HEED_mul, twice, 2));
  check(heed_works(cx, "cuda:0") == works + 1 && heed_works(cx, "cpu") == on_the_cpu,
        "works are counted where they are done");
  heed_drop(on_cpu);
  heed_drop(x);
  heed_drop(y);
  heed_close(other);
}


static void refused (heed_context *cx, bool good, const char *what) {
  check(!good && says(heed_error(cx), "forked"), what);
  heed_clear(cx);
}

static heed_tensor *full_of (heed_context *cx, double value) {
  return heed_call(cx, HEED_full, (heed_value[]){heed_l(1, (int64_t[]){N}), heed_f(value)}, 2);
}

/* Calls that name a device fail with the reason, and so does work on its tensors. */
static void refusals (heed_context *cx, heed_tensor *t) {
  heed_device_memory now;
  heed_value twice[] = {heed_t(t), heed_f(2)};
  float got[N];
  refused(cx, heed_device_memory_now(cx, "cuda", &now), "its memory figures");
  refused(cx, heed_device_reset_peak(cx, "cuda"), "its peak");
  refused(cx, heed_device_limit(cx, "cuda", 1 << 20), "its limit");
  refused(cx, heed_device_trim(cx, "cuda"), "its cache");
  refused(cx, heed_device_block(cx, "cuda", true), "blocking");
  refused(cx, heed_event_record(cx, "cuda") != NULL, "an event");
  refused(cx, heed_synchronize(cx, "cuda"), "waiting");
  refused(cx, full_of(cx, 1) != NULL, "a tensor");
  refused(cx, heed_call(cx, HEED_mul, twice, 2) != NULL, "an operation");
  refused(cx, heed_read(t, HEED_FLOAT32, got), "reading");
  check(heed_set_device(cx, "cpu"), "the CPU stays");
  refused(cx, heed_set_device(cx, "cuda"), "a default device");
  heed_tensor *ones = full_of(cx, 1);
  check(all_are(ones, 1), "and works");
  heed_drop(ones);
  heed_drop(t);
}


/* A child has no GPU: it may free, and use is an error. */
static void forks (both *b) {
  device *d = b->gpu;
  view x = vector_on(d, HEED_FLOAT32);
  heed_set_device(b->cx, "cuda");
  heed_tensor *t = full_of(b->cx, 1);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    wrong = 0;
    check(says(set(d, x, number(1)), "forked"), "use in a child is an error");
    check(says(core_plugin_reason(b->cx, "cuda"), "forked"), "and a reason says so");
    check(d->alloc(d, N) == NULL && says(d->gone(d), "forked"), "there is no memory, and why");
    refusals(b->cx, t);
    d->free(d, x.data, N * 4);
    heed_close(b->cx);
    fflush(stdout);
    _exit(wrong > 0);
  }
  int status;
  waitpid(child, &status, 0);
  check(status == 0, "the child came through");
  check(set(d, x, number(1)) == NULL && all_are(t, 1), "the parent goes on");
  heed_drop(t);
  d->free(d, x.data, N * 4);
}


/* The question whether there is a GPU initialises the driver: a child then has none, either. */
static void forks_early (void) {
  fflush(stdout);
  pid_t parent = fork();
  if (parent == 0) {
    wrong = 0;
    heed_context *cx = heed_open(NULL);
    bool there = core_plugin_reason(cx, "cuda") == NULL;
    pid_t child = fork();
    if (child == 0) {
      check(!there || says(core_plugin_reason(cx, "cuda"), "forked"),
            "a reason after counting says so");
      heed_close(cx);
      fflush(stdout);
      _exit(wrong > 0);
    }
    int status;
    waitpid(child, &status, 0);
    check(status == 0, "the child of one that counted came through");
    heed_close(cx);
    fflush(stdout);
    _exit(wrong > 0);
  }
  int status;
  waitpid(parent, &status, 0);
  wrong += status != 0;
}


/* Some of everything; what fails must say so, and nothing may crash. */
static void some_work (both *b) {
  device *d = b->gpu;
  float got[N] = {0};
  view x = vector_on(d, HEED_FLOAT32);
  const char *why = x.data == NULL ? "no memory" : set(d, x, number(3));
  if (why == NULL) why = map(d, HEED_mul, x, x, x);
  if (why == NULL) why = d->download(d, got, x.data, sizeof got);
  check(why != NULL || (got[0] == 9 && got[N - 1] == 9), "the work fails or is right");
  if (x.data != NULL) d->free(d, x.data, N * 4);
}


/* A lost device says that it is, and not that its memory ran out. */
static void losses (heed_context *cx) {
  bool was = false;
  for (int i = 0; i < 6; i++) {
    heed_tensor *x = heed_set_device(cx, "cuda") ? full_of(cx, 3) : NULL;
    heed_tensor *y = x != NULL ? heed_call(cx, HEED_mul, (heed_value[]){heed_t(x), heed_t(x)}, 2)
                               : NULL;
    bool good = y != NULL && all_are(y, 9) && heed_synchronize(cx, "cuda");
    const char *why = good ? "" : heed_error(cx);
    check(!was || !good, "a lost device stays lost");
    if (!good)
      check(says(why, was && cx->devices.n > 1 ? "device lost" : "unspecified launch failure"),
            "a lost device says so");
    was = !good;
    heed_clear(cx);
    heed_drop(x);
    heed_drop(y);
  }
  heed_set_device(cx, "cpu");
  heed_tensor *ones = full_of(cx, 1);
  check(all_are(ones, 1), "the CPU works on");
  heed_drop(ones);
}


/* From the n-th call on the device is lost, or that call lacks memory, for all n up to 'most'. */
static void failures (const char *setting, int most) {
  for (int n = 1; n <= most; n++) {
    char text[16];
    snprintf(text, sizeof text, "%d", n);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      wrong = 0;
      both b = {.cx = heed_open(NULL)};
      setenv(setting, text, 1);
      b.gpu = core_device(b.cx, "test", "cuda");
      for (int i = 0; b.gpu != NULL && i < 2; i++) some_work(&b);
      if (b.gpu == NULL) check(heed_error(b.cx) != NULL, "a GPU that can't be opened says so");
      if (strcmp(setting, "HEED_EMULATED_LOST") == 0) losses(b.cx);
      else if (b.gpu != NULL)
        check(heed_event_record(b.cx, "cuda") != NULL || heed_error(b.cx) != NULL,
              "an event is recorded, or an error says why not");
      heed_close(b.cx);
      fflush(stdout);
      _exit(wrong > 0);
    }
    int status;
    waitpid(child, &status, 0);
    if (status != 0) printf("%s=%d: status %d\n", setting, n, status);
    wrong += status != 0;
  }
}


/* Asks the emulated GPU: bits of the devices that have a context; the thread's own, or -1. */
static int of_emulated (const char *name) {
  void *object = dlopen(getenv("HEED_CUDA"), RTLD_NOW | RTLD_NOLOAD);
  int (*f) (void) = object != NULL ? (int (*) (void))(uintptr_t)dlsym(object, name) : NULL;
  return f != NULL ? f() : -2;
}

/* A context takes hundreds of megabytes of its GPU: there is one where heed was asked to work. */
static void contexts (void) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    wrong = 0;
    heed_context *cx = heed_open(NULL);
    both b = {.cx = cx, .gpu = core_device(cx, "test", "cuda:1")};
    check(b.gpu != NULL, "the second GPU");
    some_work(&b);
    cx->devices.plugin->unpin(cx->devices.plugin->pin(100));
    check(b.gpu->accelerator->wait(b.gpu) == NULL, "work on the second GPU");
    check(of_emulated("emulated_contexts") == 2, "there is no context on the first");
    check(of_emulated("emulated_current") == -1, "and the host's thread has none, as before");
    b.gpu = core_device(cx, "test", "cuda:0");
    some_work(&b);
    check(of_emulated("emulated_contexts") == 3, "until that works, too");
    heed_close(cx);
    fflush(stdout);
    _exit(wrong > 0);
  }
  int status;
  waitpid(child, &status, 0);
  wrong += status != 0;
}


/* Memory that is taken again holds nothing that was there: NaN, on an emulated GPU. */
static void spoiled (both *b) {
  device *d = b->gpu;
  float got[N];
  for (int i = 0; i < 3; i++) {
    view x = vector_on(d, HEED_FLOAT32);
    check(d->download(d, got, x.data, sizeof got) == NULL && got[0] != got[0] &&
          got[N - 1] != got[N - 1], "what is taken is NaN");
    set(d, x, number(7));
    d->free(d, x.data, N * 4);
  }
}


/* With this setting there is no device, for a reason that says this. */
static void without_gpus (const char *setting, const char *value, const char *reason) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    wrong = 0;
    setenv(setting, value, 1);
    heed_context *cx = heed_open(NULL);
    check(says(core_plugin_reason(cx, "cuda"), reason), "without GPUs there is a reason");
    check(core_device(cx, "test", "cuda") == NULL && says(heed_error(cx), reason),
          "and no device");
    heed_close(cx);
    fflush(stdout);
    _exit(wrong > 0);
  }
  int status;
  waitpid(child, &status, 0);
  wrong += status != 0;
}


/* A child whose n-th call fails with this code, for each n up to 'most'; 1 is added up. */
static int arranged (int code, int most, int (*f) (both *b)) {
  int sum = 0;
  for (int n = 1; n <= most; n++) {
    char text[16], code_text[16];
    snprintf(text, sizeof text, "%d", n);
    snprintf(code_text, sizeof code_text, "%d", code);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      setenv("HEED_EMULATED_FAIL", text, 1);
      setenv("HEED_EMULATED_CODE", code_text, 1);
      both b = {.cx = heed_open(NULL)};
      b.gpu = core_device(b.cx, "test", "cuda");
      int yes = f(&b);
      heed_close(b.cx);
      fflush(stdout);
      _exit(yes);
    }
    int status;
    waitpid(child, &status, 0);
    sum += WIFEXITED(status) ? WEXITSTATUS(status) : 100;
  }
  return sum;
}

/* A launch lacks memory, which free slabs hold: 1 if it fails all the same. */
static int launches_fail (both *b) {
  device *d = b->gpu;
  if (d == NULL) return 0;
  view x = vector_on(d, HEED_FLOAT32);
  void *spare = d->alloc(d, 5 << 20);
  if (x.data == NULL || spare == NULL) return 1;
  d->free(d, spare, 5 << 20);
  return set(d, x, number(3)) != NULL || map(d, HEED_mul, x, x, x) != NULL;
}

/* No code for the GPU: the message names what there is. */
static int lacks_code (both *b) {
  return b->gpu == NULL && strstr(heed_error(b->cx), "emulated GPU has compute capability 8.6, but "
                                  "heed/cuda.so was built for none ('make cuda' builds it for the "
                                  "GPU at hand): no kernel image is available") != NULL;
}


int main (void) {
  run("two GPUs", two_gpus);
  run("names", names);
  run("captures", captures);
  run("frees in captures", frees_in_captures);
  run("limits", limits);
  run("blocks", blocks);
  run("transfers", transfers);
  run("times", times);
  run("streams", streams);
  run("forks", forks);
  forks_early();
  if (is_emulated()) {
    failures("HEED_EMULATED_FAIL", 40);
    failures("HEED_EMULATED_LOST", 80);
    contexts();
    run("spoiled memory", spoiled);
    without_gpus("HEED_EMULATED_DEVICES", "0", "no driver");
    without_gpus("HEED_EMULATED_DRIVER", "12040",
                 "the driver is for CUDA 12.4, 13.0 is needed (driver 580 or later)");
    setenv("HEED_CUDA_CACHE", "1", 1);                     /* there are slabs, for free ones */
    check(arranged(2, 40, launches_fail) == 0, "launches that lack memory are done again");
    setenv("HEED_EMULATED_SHARED", "99", 1);               /* what 8.6 has */
    check(arranged(209, 20, lacks_code) == 1, "a GPU for which there is no code is refused");
  }
  printf("%d wrong\n", wrong);
  return wrong > 0;
}
