/*
** works.h - captured work of a device that works while the host waits, and what is refused while
** any device's work is captured.
*/

#ifndef works_h
#define works_h

#include "memory/storage.h"

#pragma GCC visibility push(hidden)

typedef struct work_list work_list;

/* The capture that runs. */
typedef struct capturing {
  device *where;                   /* whose work is captured, or NULL */
  work_list *list;                 /* NULL: an accelerator records its work by itself */
  capture_memory *memory;          /* of 'list', on the host; or NULL */
  int number;                      /* of the capture that began last, from 1 on */
} capturing;

/* A list takes work and owns memory from begin to drop; cx->capture names it from begin to
   end. */
work_list *works_begin (heed_context *cx);           /* NULL: no memory */
bool works_add (heed_context *cx, int op, const work *w);    /* op: device.op; false: no memory */
void works_end (heed_context *cx, work_list *r);
void works_drop (heed_context *cx, work_list *r);
bool works_replay (heed_context *cx, device *where, work_list *r);
bool works_set_step (heed_context *cx, work_list *r, int which, const heed_step *step);
int64_t works_steps (const work_list *r);        /* of optimisers, taken by the last replay */

bool core_check_reach (heed_context *cx, const char *function, const device *where);
bool core_check_captured (heed_context *cx, const char *function, const device *where);    /* work
                                             elsewhere is refused */
bool core_check_generator (heed_context *cx, const char *function);  /* reads or sets its state */

#pragma GCC visibility pop

#endif
