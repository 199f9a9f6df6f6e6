/*
** capture.h - captures of a device, as its accelerator has them (memory/device.h).
*/

#ifndef cuda_capture_h
#define cuda_capture_h

#include "cuda/cuda.h"

#pragma GCC visibility push(hidden)

const char *capture_begin (device *d);
device_capture *capture_end (device *d, const char **why);       /* NULL: 'why' says why not */
const char *capture_replay (device *d, device_capture *c);
void capture_drop (device *d, device_capture *c);
const char *capture_set_step (device *d, device_capture *c, int which, const heed_step *step);

#pragma GCC visibility pop

#endif
