/*
** works.c - recorded work of a device that works while the host waits: a list of copies, done
** again in their order. Accelerators record by themselves.
*/

#include <string.h>

#include "memory/context.h"

typedef struct recorded recorded;
struct recorded {
  recorded *next;
  size_t bytes;                    /* of this, and of the rows behind it */
  int op;                          /* whose work it is, as device.op */
  bool held;                       /* the work must not be stopped */
  bool gradient;                   /* … as of the scope, with */
  int layer;
  work w;
};

struct work_list {
  recorded *first, *last;
  const recorded *left;            /* by the last replay, which failed: from here on; or NULL */
  int64_t steps;                   /* of optimisers that it took */
  capture_memory memory;
};


/*
** {==================================================================
** Recording
** ===================================================================
*/

work_list *works_begin (heed_context *cx) {
  work_list *r = core_alloc(cx, sizeof *r);
  if (r == NULL) return NULL;
  memset(r, 0, sizeof *r);
  cx->capture.list = r;
  cx->capture.memory = &r->memory;
  return r;
}


/* The rows that an optimiser's or a clipping's work points to. */
static size_t rows_of (const work *w, const void **rows) {
  if (w->kind == WORK_OPTIMIZE) {
    *rows = w->optimize.row;
    return (size_t)w->optimize.n * sizeof *w->optimize.row;
  }
  if (w->kind == WORK_CLIP) {
    *rows = w->clip.row;
    return (size_t)w->clip.n * sizeof *w->clip.row;
  }
  *rows = NULL;
  return 0;
}


static void set_rows (work *w, const void *rows) {
  if (w->kind == WORK_OPTIMIZE) w->optimize.row = rows;
  else if (w->kind == WORK_CLIP) w->clip.row = rows;
}


bool works_add (heed_context *cx, int op, const work *w) {
  work_list *r = cx->capture.list;
  const void *rows;
  size_t more = rows_of(w, &rows);
  recorded *e = core_alloc(cx, sizeof *e + more);
  if (e == NULL) return false;
  e->next = NULL;
  e->bytes = sizeof *e + more;
  e->op = op;
  e->held = cx->stop.held > 0;
  e->gradient = cx->scope.gradient;
  e->layer = cx->scope.layer;
  e->w = *w;
  if (more > 0) set_rows(&e->w, memcpy(e + 1, rows, more));
  if (r->last != NULL) r->last->next = e;
  else r->first = e;
  r->last = e;
  return true;
}


void works_end (heed_context *cx, work_list *r) {
  cx->capture.list = NULL;
  cx->capture.memory = NULL;
  storage_end_capture(&r->memory);
}


void works_drop (heed_context *cx, work_list *r) {
  recorded *e;
  while ((e = r->first) != NULL) {
    r->first = e->next;
    core_free(cx, e, e->bytes);
  }
  storage_drop_made(cx, &r->memory);
  core_free(cx, r, sizeof *r);
}

/* }================================================================== */


/*
** {==================================================================
** Replaying
** ===================================================================
*/

#define POLL_WORKS 16              /* short works between two polls: long ones poll by themselves */

static const char stopped[] = "interrupted";

/* Counts on what an optimiser's work counts; replays take its steps one by one. */
static void count_step (work_list *r, recorded *e) {
  if (e->w.kind != WORK_OPTIMIZE) return;
  e->w.optimize.step.step++;
  r->steps++;
}


static const char *run_recorded (heed_context *cx, device *where, const recorded *e) {
  if (cx->profile == NULL) return where->run(where, &e->w);
  const scope before = scope_begin(cx);
  cx->scope.gradient = e->gradient;
  cx->scope.layer = e->layer;
  const heed_region around = profile_enter(cx, core_number_name(cx, e->op));
  const char *why = where->run(where, &e->w);
  profile_leave(cx, around);
  scope_end(cx, &before);
  return why;
}


/* Works that are held run together: what they write is whole at their end. */
static const char *replay (heed_context *cx, device *where, work_list *r) {
  const int held = cx->stop.held;
  const char *why = NULL;
  int64_t n = 0;
  for (recorded *e = r->first; why == NULL && e != NULL; e = e->next) {
    r->left = e;
    cx->stop.held = held + e->held;
    where->op = e->op;
    why = run_recorded(cx, where, e);
    if (why == NULL) count_step(r, e);
    if (++n % POLL_WORKS == 0 ? interrupt_stops(&cx->stop) : interrupt_asked(&cx->stop))
      why = stopped;
  }
  cx->stop.held = held;
  if (why == NULL) r->left = NULL;
  return why;
}


bool works_replay (heed_context *cx, device *where, work_list *r) {
  r->steps = 0;
  r->left = r->first;
  if (core_interrupted(cx, "capture")) return false;
  cx->stop.caller = pthread_self();
  const float_mode mode = float_mode_begin();
  const char *why = replay(cx, where, r);
  float_mode_end(mode);
  if (why == stopped) return !core_interrupted(cx, "capture");
  return core_end(cx, where, CORE_CAPTURE, why);
}


static recorded *find_step (const work_list *r, int which) {
  for (recorded *e = r->first; e != NULL; e = e->next)
    if (e->w.kind == WORK_OPTIMIZE && which-- == 0) return e;
  return NULL;
}


bool works_set_step (heed_context *cx, work_list *r, int which, const heed_step *step) {
  recorded *e = find_step(r, which);
  if (e == NULL) return core_fail(cx, "capture", "there is no step %d", which) != NULL;
  e->w.optimize.step = *step;
  return true;
}


int64_t works_steps (const work_list *r) { return r->steps; }


static bool writes (const work *w, const storage *s) {
  for (int i = 0; i < w->nout; i++)
    if ((uintptr_t)w->out[i].data - (uintptr_t)s->data < s->bytes) return true;
  return false;
}


/* Steps and clipping change what has a value already. */
bool works_left (const work_list *r, const storage *s) {
  for (const recorded *e = r->left; e != NULL; e = e->next)
    if (writes(&e->w, s)) return true;
  return false;
}


void works_keep_done (work_list *r) {
  for (int64_t i = 0; i < r->memory.nmade; i++)
    if (!works_left(r, r->memory.made[i])) storage_leave_births(r->memory.made[i]);
}

/* }================================================================== */


/*
** {==================================================================
** Births
** ===================================================================
*/

births *births_begin (heed_context *cx, device *where) {
  births *b = core_alloc(cx, sizeof *b);
  if (b == NULL) return NULL;
  *b = (births){.next = cx->capture.births, .where = where, .number = ++cx->capture.number};
  return cx->capture.births = b;
}


/* Births are forgotten, once they have values or none is left. */
static void forget_births (heed_context *cx, births *b) {
  births **at = &cx->capture.births;
  while (*at != b) at = &(*at)->next;
  *at = b->next;
  core_free(cx, b, sizeof *b);
}


void births_end (heed_context *cx, births *b, bool lost) {
  if (!lost || b->alive == 0) { forget_births(cx, b); return; }
  b->lost = true;
  cx->capture.lost++;
}


static births *births_of (const storage *s) {
  births *b = s->cx->capture.births;
  while (b != NULL && (b->number != s->capture || b->where != s->where)) b = b->next;
  return b;
}


void storage_leave_births (storage *s) {
  heed_context *cx = s->cx;
  births *b = s->capture != 0 ? births_of(s) : NULL;
  s->capture = 0;
  if (b == NULL || --b->alive > 0 || !b->lost) return;
  cx->capture.lost--;
  forget_births(cx, b);
}


/* The host's own writes are done at once. */
bool storage_is_lost (const storage *s) {
  const capturing *c = &s->cx->capture;
  const births *b = c->lost > 0 && s->capture != 0 && !s->fixed ? births_of(s) : NULL;
  return b != NULL && (b->lost || (c->paused != NULL && b == c->births));
}

/* }================================================================== */


/*
** {==================================================================
** Pauses. What a capture has made so far has no values for the work between; nor is its memory
** given to another tensor.
** ===================================================================
*/

/* 'lost' counts a capture that is paused too. An accelerator goes on to record, and is refused work
   instead. */
static void pause_list (capturing *c) {
  c->paused = c->where;
  c->lost++;
  if (c->list == NULL) return;
  c->paused_list = c->list;
  c->paused_memory = c->memory;
  c->where = NULL;
  c->list = NULL;
  c->memory = NULL;
}


static void resume_list (capturing *c) {
  c->where = c->paused;
  if (c->paused_list != NULL) {
    c->list = c->paused_list;
    c->memory = c->paused_memory;
  }
  c->paused = NULL;
  c->paused_list = NULL;
  c->paused_memory = NULL;
  c->lost--;
}


void capture_pause (capturing *c, bool yes) {
  if (yes == (c->paused != NULL) || (yes && c->where == NULL)) return;
  if (yes) pause_list(c);
  else resume_list(c);
}

/* }================================================================== */


/*
** {==================================================================
** What is refused while work is captured
** ===================================================================
*/

bool core_check_reach (heed_context *cx, const char *function, const device *where) {
  return where != cx->capture.where ||
         core_fail(cx, function, "a value is read back while work is captured: return the tensor, "
                   "and read it after the call");
}


bool core_check_captured (heed_context *cx, const char *function, const device *where) {
  if (where->accelerator != NULL && where == cx->capture.paused)
    return core_fail(cx, function, "a finaliser works on %s while its work is captured",
                     where->name);
  return cx->capture.where == NULL || cx->capture.where == where ||
         core_fail(cx, function, "works on %s while the work of %s is captured", where->name,
                   cx->capture.where->name);
}


/* A replay draws on from where the generator is by then. */
bool core_check_generator (heed_context *cx, const char *function) {
  return cx->capture.where == NULL ||
         core_fail(cx, function, "a generator's state is read or set while work is captured: do "
                   "that before the call");
}

/* }================================================================== */
