/*
** profile.c - profiles as hosts see them: regions, layers, captured work, and memory that ends.
*/

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "heed.h"

static int failures = 0;

static void check (bool good, const char *what) {
  if (good) return;
  printf("profile: %s\n", what);
  failures++;
}


static long alive;                 /* blocks that were given */

/* Blocks have so many bytes at most. */
static void *resize (void *self, void *block, size_t old_size, size_t new_size) {
  const size_t *most = self;
  (void)old_size;
  if (new_size > *most) return NULL;
  alive += (new_size > 0 && block == NULL) - (new_size == 0 && block != NULL);
  if (new_size > 0) return realloc(block, new_size);
  free(block);
  return NULL;
}


static heed_profile_record find (const heed_profile *p, const char *name, bool gradient,
                                 int layer) {
  for (int64_t i = 0; i < heed_profile_records(p); i++) {
    const heed_profile_record r = heed_profile_record_at(p, i);
    bool named = name == NULL ? r.name == NULL : r.name != NULL && strcmp(r.name, name) == 0;
    if (named && r.gradient == gradient && r.layer == layer) return r;
  }
  return (heed_profile_record){.calls = -1};
}


static heed_tensor *square (heed_context *cx, heed_tensor *x) {
  return heed_call(cx, HEED_mul, (heed_value[]){heed_t(x), heed_t(x)}, 2);
}


static void check_layers (heed_context *cx, heed_tensor *x) {
  heed_profile *p = heed_profile_begin(cx);
  check(p != NULL && heed_profile_begin(cx) == NULL, "a second profile is refused");
  check(strstr(heed_error(cx), "another profile runs") != NULL, "by its name");
  heed_clear(cx);
  check(heed_set_layer(cx, 7) == 0 && heed_layer(cx) == 7, "the layer is set");
  heed_tensor *y = square(cx, x);
  check(heed_set_layer(cx, 0) == 7, "and set back");
  heed_region mine = heed_region_begin(cx, "mine");
  heed_tensor *z = heed_call(cx, HEED_sum, (heed_value[]){heed_t(y)}, 1);
  heed_region_end(cx, mine);
  check(heed_backward(z, NULL, false) && heed_profile_end(cx), "the profile ends");
  check(!heed_profile_end(cx), "and ends once");
  heed_clear(cx);
  const heed_profile_record r = find(p, "mul", false, 7);
  check(r.calls == 1 && r.bytes == 16 && r.peak >= 32 && r.seconds > 0, "an operation");
  check(find(p, "mul", true, 7).calls == 1, "its gradient has its layer");
  check(find(p, "mine", false, 0).calls == 1, "a region");
  check(find(p, "sum", false, 0).calls == -1, "operations in a region are its own");
  check(find(p, "sum", true, 0).calls == 1, "and their gradients are not");
  check(find(p, "backward", false, 0).calls == 1, "the pass itself");
  check(find(p, NULL, false, 7).seconds > 0, "the host, in the layer");
  heed_profile_drop(cx, p);
  heed_drop(y);
  heed_drop(z);
}


/* A region that a profile began or ended in is none of the next one's. */
static void check_crossed (heed_context *cx, heed_tensor *x) {
  heed_profile *p = heed_profile_begin(cx);
  heed_region outer = heed_region_begin(cx, "outer");
  heed_profile_end(cx);
  heed_profile *q = heed_profile_begin(cx);
  heed_region_end(cx, outer);
  heed_drop(square(cx, x));
  heed_profile_end(cx);
  check(find(q, "mul", false, 0).calls == 1 && heed_profile_records(q) == 2, "regions cross");
  heed_profile_drop(cx, p);
  heed_profile_drop(cx, q);
}


static void check_captured (heed_context *cx, heed_tensor *x) {
  heed_profile *p;
  check(heed_capture_begin(cx, "cpu"), "a capture begins");
  check(heed_profile_begin(cx) == NULL, "no profile begins within it");
  heed_clear(cx);
  heed_set_layer(cx, 3);
  heed_tensor *y = square(cx, x);
  heed_set_layer(cx, 0);
  heed_capture *c = heed_capture_end(cx);
  p = heed_profile_begin(cx);
  check(heed_capture_replay(cx, c) && heed_capture_replay(cx, c), "a replay");
  heed_profile_end(cx);
  check(find(p, "mul", false, 3).calls == 2, "has the works of its recording");
  heed_profile_drop(cx, p);
  heed_drop(y);
  heed_capture_drop(cx, c);
}


/* Replays tell works of gradients from others. */
static void check_captured_pass (heed_context *cx, heed_tensor *x) {
  check(heed_capture_begin(cx, "cpu"), "a capture begins");
  heed_tensor *y = square(cx, x), *sum = heed_call(cx, HEED_sum, (heed_value[]){heed_t(y)}, 1);
  check(heed_backward(sum, NULL, false), "a pass");
  heed_capture *c = heed_capture_end(cx);
  heed_set_gradient(x, NULL);
  heed_profile *p = heed_profile_begin(cx);
  check(heed_capture_replay(cx, c), "its replay");
  heed_profile_end(cx);
  check(find(p, "mul", false, 0).calls == 1 && find(p, "sum", false, 0).calls == 1 &&
        find(p, "mul", true, 0).calls > 0, "works of operations, and of gradients");
  heed_tensor *g = heed_gradient(x);
  check(g != NULL, "its gradient");
  heed_drop(g);
  heed_profile_drop(cx, p);
  heed_drop(sum);
  heed_drop(y);
  heed_capture_drop(cx, c);
  heed_set_gradient(x, NULL);
}


/* Captured work is told by its callers, of which so many have names; long ones are cut. */
static void check_callers (void) {
  enum { KNOWN = 256, MANY = KNOWN + 44 };
  static char names[MANY][60];
  heed_context *cx = heed_open(NULL);
  const float one = 1;
  heed_tensor *x = heed_from(cx, HEED_FLOAT32, 0, NULL, &one);
  check(heed_capture_begin(cx, "cpu"), "a capture begins");
  for (int twice = 0; twice < 2; twice++)
    for (int i = 0; i < MANY; i++) {
      snprintf(names[i], sizeof names[i], "%03d of the callers of captured work, a long name", i);
      heed_set_caller(cx, names[i]);
      heed_drop(square(cx, x));
    }
  heed_set_caller(cx, "mul");
  heed_drop(square(cx, x));
  heed_set_caller(cx, NULL);
  heed_drop(square(cx, x));
  heed_capture *c = heed_capture_end(cx);
  heed_profile *p = heed_profile_begin(cx);
  check(heed_capture_replay(cx, c), "a replay");
  heed_profile_end(cx);
  for (int i = 0; i < MANY; i++) {
    names[i][39] = '\0';
    check(find(p, names[i], false, 0).calls == (i < KNOWN ? 2 : -1), "a caller");
  }
  check(find(p, "mul", false, 0).calls == 2 * (MANY - KNOWN) + 2, "works of other callers");
  check(heed_profile_records(p) == KNOWN + 2, "no others");
  heed_profile_drop(cx, p);
  heed_capture_drop(cx, c);
  heed_drop(x);
  heed_close(cx);
}


static int64_t clock_now (void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}


/* Seconds are the clock's, whatever they were counted by. */
static void check_seconds (heed_context *cx, heed_tensor *x) {
  const int64_t before = clock_now();
  heed_profile *p = heed_profile_begin(cx);
  const int64_t begun = clock_now();
  while (clock_now() - begun < 20000000) heed_drop(square(cx, x));
  const int64_t reached = clock_now();
  double running = 0, ended = 0, later = 0;
  heed_drop(square(cx, x));
  for (int64_t i = 0; i < heed_profile_records(p); i++)
    running += heed_profile_record_at(p, i).seconds;
  check(running >= 0.999e-9 * (double)(reached - begun), "seconds can be read as a profile runs");
  const int64_t end = clock_now();
  heed_profile_end(cx);
  const int64_t after = clock_now();
  for (int64_t i = 0; i < heed_profile_records(p); i++)
    ended += heed_profile_record_at(p, i).seconds;
  check(ended >= 0.999e-9 * (double)(end - begun), "they are no fewer");
  check(ended <= 1.001e-9 * (double)(after - before), "and no more than passed");
  for (int64_t i = 0; i < heed_profile_records(p); i++)
    later += heed_profile_record_at(p, i).seconds;
  check(later == ended, "nor do they change then");
  heed_profile_drop(cx, p);
}


/* Without memory for a record a call works all the same, and the end tells. */
static void check_memory (heed_context *cx, heed_tensor *x, size_t *most) {
  heed_profile *p = heed_profile_begin(cx);
  heed_drop(square(cx, x));
  *most = 4096;
  for (int i = 1; i <= 300; i++) {
    heed_set_layer(cx, i);
    heed_tensor *y = square(cx, x);
    check(y != NULL, "a call works without memory for its record");
    heed_drop(y);
  }
  *most = SIZE_MAX;
  heed_set_layer(cx, 0);
  check(heed_error(cx) == NULL, "there is no failure before the end");
  check(!heed_profile_end(cx), "the end tells that records are missing");
  check(strstr(heed_error(cx), "records") != NULL, "by name");
  heed_clear(cx);
  heed_profile_drop(cx, p);
  heed_memory_trim(cx);
  for (size_t bytes = 0; bytes < 4096; bytes += 512) {
    *most = bytes;
    check(heed_profile_begin(cx) == NULL && heed_error(cx) != NULL, "no memory for a profile");
    *most = SIZE_MAX;
    heed_clear(cx);
  }
  check(heed_profile_end(cx) == false, "no profile runs");
  heed_clear(cx);
}


static void region (heed_context *cx, const char *name, size_t bytes) {
  const int64_t size = (int64_t)bytes;
  const heed_region r = heed_region_begin(cx, name);
  heed_drop(heed_empty(cx, HEED_UINT8, 1, &size));
  heed_region_end(cx, r);
}


/* Records are found by their names, not by where those lie; a long name is cut. */
static void check_names (heed_context *cx) {
  const char *const once = "a name of which there are more letters than a record", *const again =
    "a name of which there are more letters than a 2nd one";
  char name[8] = "a";
  heed_profile *p = heed_profile_begin(cx);
  region(cx, name, 1);
  strcpy(name, "b");
  region(cx, name, 2);
  strcpy(name, "a");
  region(cx, name, 4);
  region(cx, once, 8);
  region(cx, again, 16);
  region(cx, NULL, 32);
  for (int layer = 1; layer <= 700; layer++) {
    heed_set_layer(cx, layer % 350);
    region(cx, name, 64);
  }
  heed_set_layer(cx, 0);
  heed_profile_end(cx);
  heed_profile_record r = find(p, "a", false, 0);
  check(r.calls == 4 && r.bytes == 1 + 4 + 64 + 64, "a name that comes back");
  r = find(p, "b", false, 0);
  check(r.calls == 1 && r.bytes == 2, "another name at one address");
  r = find(p, "a name of which there are more letters than a r", false, 0);
  check(strlen(once) > 47 && r.calls == 2 - (strncmp(once, again, 47) != 0), "a long name");
  check(find(p, NULL, false, 0).bytes == 32, "the host's, where there is no name");
  for (int layer = 1; layer < 350; layer++) {
    r = find(p, "a", false, layer);
    check(r.calls == 2 && r.bytes == 128, "a name in each layer");
  }
  check(heed_profile_records(p) == 2 * 350 + 3, "each record once");
  check(heed_profile_record_at(p, -1).calls == 0 && heed_profile_record_at(p, 703).name == NULL &&
        heed_profile_record_at(NULL, 0).calls == 0 && heed_profile_records(NULL) == 0, "no record");
  check(heed_profile_record_at(p, 702).calls > 0, "the last one");
  heed_profile_drop(cx, p);
}


/* Sums of gradients are the pass's own, and of no operation whose gradients they add. */
static void check_sums (heed_context *cx, heed_tensor *x) {
  heed_tensor *y = square(cx, x), *sum = heed_call(cx, HEED_sum, (heed_value[]){heed_t(y)}, 1);
  heed_profile *p = heed_profile_begin(cx);
  check(heed_backward(sum, NULL, false), "a pass");
  heed_profile_end(cx);
  check(find(p, "backward", false, 0).bytes == (1 + 4) * sizeof(float), "its one, and a sum");
  heed_profile_drop(cx, p);
  heed_drop(y);
  heed_drop(sum);
  heed_set_gradient(x, NULL);
}


/* Work that runs in a region of the host's is part of it. */
static void check_nested (heed_context *cx, heed_tensor *x) {
  heed_profile *p = heed_profile_begin(cx);
  const heed_region outer = heed_region_begin(cx, "outer");
  region(cx, "inner", 1);
  heed_set_layer(cx, 4);
  heed_drop(square(cx, x));
  heed_set_layer(cx, 0);
  heed_region_end(cx, outer);
  heed_drop(square(cx, x));
  heed_profile_end(cx);
  const heed_profile_record r = find(p, "outer", false, 0);
  check(r.calls == 1 && r.bytes == 17 && find(p, "inner", false, 0).calls == -1, "nested regions");
  check(find(p, "mul", false, 0).calls == 1 && find(p, "mul", false, 4).calls == -1 &&
        find(p, "outer", false, 4).calls == -1, "operations within, and behind them");
  heed_profile_drop(cx, p);
}


/* A record has the most bytes at once while its region ran, and the context those of all. */
static void check_peaks (heed_context *cx) {
  enum { MIB = 1 << 20 };
  const int64_t live = 4 * MIB;
  heed_memory_trim(cx);
  const size_t before = heed_memory_now(cx).live + heed_memory_now(cx).other;
  heed_profile *p = heed_profile_begin(cx);
  region(cx, "small", 1 * MIB);
  region(cx, "large", 16 * MIB);
  region(cx, "small", 2 * MIB);
  heed_tensor *x = heed_empty(cx, HEED_UINT8, 1, &live);
  region(cx, "later", 1 * MIB);
  heed_drop(x);
  check(heed_memory_now(cx).peak >= before + 16 * MIB, "the most, as the profile runs");
  region(cx, "last", 1 * MIB);
  heed_profile_end(cx);
  static const struct { const char *name; size_t mib; } wanted[] = {
    {"small", 2}, {"large", 16}, {"later", 5}, {"last", 1}
  };
  for (int i = 0; i < 4; i++) {
    const size_t peak = find(p, wanted[i].name, false, 0).peak, least = wanted[i].mib * MIB;
    check(peak >= before + least && peak < before + least + MIB / 2, wanted[i].name);
  }
  const size_t host = find(p, NULL, false, 0).peak;
  check(host >= before + 4 * MIB && host < before + 4 * MIB + MIB / 2, "the host's peak");
  check(heed_memory_now(cx).peak >= before + 16 * MIB, "the most, behind the profile");
  heed_profile_drop(cx, p);
}


static bool two_works (void *self, int n, heed_tensor *const *gradients, int ninputs,
                       heed_tensor **results) {
  heed_context *cx = self;
  (void)n; (void)ninputs;
  heed_tensor *y = square(cx, *gradients);
  heed_set_layer(cx, 9);
  heed_tensor *z = square(cx, y);
  *results = z;
  heed_drop(y);
  return true;
}


/* The host's own backward function is open: what it calls is apart from it, in its name. */
static void check_custom (heed_context *cx, heed_tensor *x) {
  const heed_custom custom = {two_works, NULL, cx};
  heed_tensor *y = heed_detach(x), *sum;
  check(heed_record_custom(cx, &custom, 1, &x, 1, &y), "a function of the host's");
  sum = heed_call(cx, HEED_sum, (heed_value[]){heed_t(y)}, 1);
  heed_profile *p = heed_profile_begin(cx);
  check(heed_backward(sum, NULL, false) && heed_layer(cx) == 0, "its pass");
  heed_profile_end(cx);
  check(find(p, "custom", true, 0).calls == 1 && find(p, "custom", true, 9).calls == 0,
        "the function itself, in both layers");
  check(find(p, "custom", false, 0).calls == 1 && find(p, "custom", false, 9).calls == 1,
        "what it calls");
  check(find(p, "sum", true, 0).calls == 1 && find(p, "sum", false, 0).calls == -1,
        "a gradient that is closed");
  heed_profile_drop(cx, p);
  heed_set_gradient(x, NULL);
  heed_drop(y);
  heed_drop(sum);
}


int main (void) {
  size_t most = SIZE_MAX;
  heed_host host = {.resize = resize, .self = &most, .threads = 1};
  heed_context *cx = heed_open(&host);
  const int64_t size[] = {4};
  const float numbers[4] = {1, 2, 3, 4};
  heed_tensor *x = heed_from(cx, HEED_FLOAT32, 1, size, numbers);
  heed_tensor *plain = heed_from(cx, HEED_FLOAT32, 1, size, numbers);
  check(x != NULL && plain != NULL && heed_require_grad(x, true), "tensors");
  check_layers(cx, x);
  check_crossed(cx, plain);
  check_seconds(cx, plain);
  check_captured(cx, plain);
  check_captured_pass(cx, x);
  check_callers();
  check_names(cx);
  check_sums(cx, x);
  check_nested(cx, plain);
  check_peaks(cx);
  check_custom(cx, x);
  check_memory(cx, plain, &most);
  check(heed_profile_begin(NULL) == NULL && !heed_profile_end(NULL), "no context");
  heed_region_end(NULL, heed_region_begin(NULL, "mine"));
  check(heed_set_layer(NULL, 1) == 0 && heed_layer(NULL) == 0, "no context has a layer");
  heed_drop(x);
  heed_drop(plain);
  heed_profile_begin(cx);            /* closing ends it */
  heed_close(cx);
  check(alive == 0, "blocks that are left");
  return failures > 0;
}
