/*
** works.h - captured work of a device that works while the host waits, and what is refused while
** any device's work is captured.
*/

#ifndef works_h
#define works_h

#include "memory/storage.h"

#pragma GCC visibility push(hidden)

typedef struct work_list work_list;

/* Storages that a capture made, and that no replay of it has given values yet. */
typedef struct births {
  struct births *next;
  device *where;
  int number;                      /* of the capture */
  int64_t alive;
  bool lost;                       /* the capture is gone: they never get values */
} births;

/* The capture that runs; and the births of all that no replay has done. */
typedef struct capturing {
  device *where;                   /* whose work is captured, or NULL */
  int lost;                        /* how many of 'births' are */
  int number;                      /* of the capture that began last, from 1 on */
  work_list *list;                 /* NULL: an accelerator records its work by itself */
  capture_memory *memory;          /* of 'list', on the host; or NULL */
  births *births;                  /* the first are those of the capture that began last */
  device *paused;                  /* 'where' of a capture that is paused; or NULL */
  work_list *paused_list;          /* its list and memory */
  capture_memory *paused_memory;
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
bool works_left (const work_list *r, const storage *s);      /* did a replay that failed leave out
                                             work that writes s? */
void works_keep_done (work_list *r);     /* after it: storages that have their values are nobody's
                                             births any more */

births *births_begin (heed_context *cx, device *where);      /* of a capture with a new number;
                                             NULL: no memory */
void births_end (heed_context *cx, births *b, bool lost);

void capture_pause (capturing *c, bool yes);         /* work on the host is done; an accelerator's
                                             is refused */
/* The capture that runs or is paused. */
static inline bool capture_is_open (const capturing *c) {
  return c->where != NULL || c->paused != NULL;
}

bool core_check_reach (heed_context *cx, const char *function, const device *where);
bool core_check_captured (heed_context *cx, const char *function, const device *where);    /* work
                                             elsewhere is refused */
bool core_check_generator (heed_context *cx, const char *function);  /* reads or sets its state */

#pragma GCC visibility pop

#endif
