/*
** cuda_graph.c - captures of a GPU's work.
*/

#define DEVICE "cuda"
#include "captures.h"


/* Storage that a number gets in a capture is written by replays: without them it is lost, and the
   number gets another one. */
static void numbers_outlive_captures (void) {
  heed_context *cx = heed_open(NULL);
  check(heed_set_device(cx, DEVICE), "the device");
  heed_tensor *n = heed_number(cx, 5);
  check(heed_capture_begin(cx, DEVICE), "a capture begins");
  heed_tensor *view = heed_call(cx, HEED_expand,
                                (heed_value[]){heed_t(n), heed_l(1, (int64_t[]){3})}, 2);
  heed_capture_drop(cx, heed_capture_end(cx));
  float got[3] = {0};
  check(view != NULL && !heed_read(view, HEED_FLOAT32, got), "a view has no value");
  heed_clear(cx);
  heed_drop(view);
  check(heed_read(n, HEED_FLOAT32, got) && got[0] == 5, "the number has its value");
  heed_tensor *other = vector(cx, 1);      /* takes no memory that the number has */
  check(heed_read(n, HEED_FLOAT32, got) && got[0] == 5, "and keeps it");
  heed_drop(other);
  heed_drop(n);
  heed_close(cx);
}


/* Between events of which one is missing no time passes. */
static void events_are_there (void) {
  heed_context *cx = heed_open(NULL);
  double seconds = 5;
  heed_event *e = heed_event_record(cx, DEVICE);
  check(e != NULL && heed_event_elapsed(cx, DEVICE, e, e, &seconds) && seconds == 0, "no time");
  check(!heed_event_elapsed(cx, DEVICE, NULL, e, &seconds) &&
        !heed_event_elapsed(cx, DEVICE, e, NULL, &seconds) &&
        !heed_event_elapsed(cx, DEVICE, e, e, NULL), "an event, or a place, that is none");
  heed_event_drop(cx, DEVICE, e);
  heed_close(cx);
}


int main (void) {
  if (without_failures()) {
    events_are_there();
    numbers_outlive_captures();
    with_failures();
  }
  printf("%d wrong\n", wrong);
  return wrong > 0;
}
