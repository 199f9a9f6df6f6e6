/*
** nothing.c - NULL for a context, a tensor, a name, a capture: it comes back as nothing, from every
** function of heed.h.
*/

#include <stdio.h>
#include <string.h>

#include "heed.h"

static int failed;

static void check (bool good, const char *what) {
  if (good) return;
  printf("nothing: %s: wrong\n", what);
  failed = 1;
}


static void of_no_context (void) {
  const int64_t size = 1;
  float number = 1;
  uint64_t two[2] = {1, 2};
  uint8_t state[HEED_RNG_BYTES];
  heed_tensor *out[HEED_RESULTS];
  heed_value one = heed_f(1);
  heed_close(NULL);
  heed_clear(NULL);
  heed_fail(NULL, "%s", "lost");
  heed_interrupt(NULL);
  check(heed_error(NULL) != NULL, "why there is no context");
  check(heed_level(NULL) == NULL && !heed_set_level(NULL, "base"), "its level");
  check(heed_threads(NULL) == 0 && !heed_set_threads(NULL, 1) && !heed_interrupted(NULL),
        "its threads");
  heed_memory_limit(NULL, 1);
  heed_memory_trim(NULL);
  check(heed_memory_now(NULL).live == 0 && heed_memory_now(NULL).limit == 0 &&
        !heed_memory_room(NULL, 1, "x") && !heed_memory_lasting(NULL, true), "its memory");
  check(heed_empty(NULL, HEED_FLOAT32, 1, &size) == NULL &&
        heed_from(NULL, HEED_FLOAT32, 1, &size, &number) == NULL &&
        heed_lend(NULL, HEED_FLOAT32, 1, &size, &number, NULL, NULL) == NULL &&
        heed_number(NULL, 1) == NULL && heed_integer(NULL, 1) == NULL &&
        heed_bool(NULL, true) == NULL, "its tensors");
  check(heed_map(NULL, 0, "x") == NULL, "its files");
  check(heed_describe(NULL, HEED_exp) == NULL && heed_apply(NULL, HEED_exp, &one, 1, out) == 0 &&
        *out == NULL && heed_apply_on(NULL, "cpu", HEED_exp, &one, 1, out) == 0 && *out == NULL &&
        heed_call(NULL, HEED_exp, &one, 1) == NULL &&
        !heed_apply_in_place(NULL, HEED_exp, &one, 1) && heed_set_caller(NULL, "f") == NULL,
        "its operations");
  check(!heed_recording(NULL) && !heed_set_recording(NULL, true) && heed_graph_nodes(NULL) == 0 &&
        heed_autocast(NULL) == HEED_FLOAT32 &&
        heed_set_autocast(NULL, HEED_FLOAT16) == HEED_FLOAT32 &&
        !heed_record_custom(NULL, NULL, 0, NULL, 0, NULL) &&
        !heed_require_grad_all(NULL, 0, NULL, true), "its graph");
  check(!heed_seed(NULL, 1) && !heed_rng_get(NULL, state) && !heed_rng_set(NULL, state),
        "its random numbers");
  check(heed_device(NULL) == NULL && !heed_set_device(NULL, "cpu") &&
        heed_device_count(NULL, "cuda") == 0 && heed_works(NULL, "cpu") == 0 &&
        heed_matmul_precision(NULL) == NULL && !heed_set_matmul_precision(NULL, "highest"),
        "its devices");
  heed_device_properties properties;
  heed_device_memory now;
  check(!heed_device_describe(NULL, "cuda:0", &properties) && !heed_synchronize(NULL, "cuda:0") &&
        !heed_device_memory_now(NULL, "cuda:0", &now) && !heed_device_reset_peak(NULL, "cuda:0") &&
        !heed_device_limit(NULL, "cuda:0", 1) && !heed_device_trim(NULL, "cuda:0") &&
        !heed_device_block(NULL, "cuda", true) && !heed_device_rng_get(NULL, "cuda:0", two) &&
        !heed_device_rng_set(NULL, "cuda:0", two) && heed_event_record(NULL, "cuda:0") == NULL &&
        !heed_event_elapsed(NULL, "cuda:0", NULL, NULL, NULL) &&
        heed_device_stream(NULL, "cuda:0") == NULL &&
        heed_device_lend(NULL, "cuda:0", NULL, HEED_FLOAT32, 1, &size, &number, NULL, NULL) == NULL,
        "its accelerators");
  heed_event_drop(NULL, "cuda:0", NULL);
  heed_event_drop(NULL, "cuda:0", (heed_event *)&number);
  heed_capture_pause(NULL, true);
  heed_capture_drop(NULL, NULL);
  const heed_step step = {.step = 1};
  check(!heed_capture_begin(NULL, "cpu") && heed_capture_reads(NULL, NULL) &&
        heed_capture_end(NULL) == NULL && !heed_capture_replay(NULL, NULL) &&
        !heed_capture_set_step(NULL, NULL, 0, &step), "its captures");
}


static void of_no_tensor (void) {
  float number = 1;
  heed_tensor *x = NULL, *g = NULL;
  heed_drop(NULL);
  check(heed_keep(NULL) == NULL && heed_detach(NULL) == NULL && heed_context_of(x) == NULL,
        "no tensor");
  check(!heed_is_shared(NULL) && heed_device_of(NULL) == NULL && heed_rank(NULL) == 0 &&
        heed_size(NULL, 0) == 0 && heed_stride(NULL, 0) == 0 && heed_numel(NULL) == 0 &&
        heed_version(NULL) == 0 && !heed_shares_memory(NULL, NULL), "what it is");
  check(heed_data(NULL) == NULL && !heed_read(NULL, HEED_FLOAT32, &number) &&
        !heed_write(NULL, HEED_FLOAT32, &number) && !heed_take_over(NULL, NULL) &&
        !heed_pack(NULL), "what it holds");
  check(!heed_requires_grad(NULL) && !heed_require_grad(NULL, true) &&
        !heed_require_grad(NULL, false) && heed_gradient(NULL) == NULL &&
        !heed_set_gradient(NULL, NULL) && !heed_backward(NULL, NULL, false) &&
        !heed_gradients(NULL, NULL, 1, &x, &g, false) && g == NULL &&
        !heed_recorded_gradients(NULL, NULL, 1, &x, &g) && heed_add_hook(NULL, NULL) == NULL &&
        !heed_retain_gradient(NULL) && !heed_graph_is_shared(NULL), "its graph");
  heed_remove_hook(NULL);
  heed_unmap(NULL);
  check(heed_pin(NULL, "cuda") == NULL && heed_device_data(NULL, NULL) == NULL &&
        !heed_device_after(NULL, NULL), "its device");
  check(heed_capture_changes(NULL, NULL) == false && heed_capture_apart(NULL, NULL, NULL) &&
        heed_capture_steps(NULL) == 0 && heed_capture_state_of(NULL) == HEED_CAPTURE_READY,
        "no capture");
}


/* With a context, names and places that are not given. */
static void of_no_names (void) {
  heed_context *cx = heed_open(NULL);
  heed_type type;
  heed_device_properties properties;
  char long_name[400];
  memset(long_name, 'c', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = '\0';
  check(!heed_set_level(cx, "none") && !heed_set_device(cx, NULL) &&
        !heed_type_find("none", &type) && !heed_type_find("bool", NULL), "no names");
  heed_clear(cx);
  check(!heed_device_describe(cx, NULL, NULL) && !heed_synchronize(cx, NULL) &&
        !heed_capture_begin(cx, NULL) && heed_event_record(cx, NULL) == NULL &&
        !heed_capture_replay(cx, NULL) && !heed_capture_set_step(cx, NULL, 0, NULL),
        "no devices");
  heed_clear(cx);
  const char *const names[] = {"none", "cuda:99", long_name, NULL};
  for (int i = 0; i < 4; i++) {
    heed_event_drop(cx, names[i], (heed_event *)&type);
    check(heed_error(cx) == NULL && heed_works(cx, names[i]) == 0, "an event of no device");
    check(!heed_device_describe(cx, names[i], &properties) &&
          (heed_error(cx) != NULL) == (names[i] != NULL), "the properties of no device");
    heed_clear(cx);
  }
  heed_close(cx);
}


int main (void) {
  of_no_context();
  of_no_tensor();
  of_no_names();
  printf("nothing: %s\n", failed ? "wrong" : "comes back");
  return failed;
}
