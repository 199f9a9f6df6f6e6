/*
** capture.c - captured work: recorded, with the memory that it uses, and done again by replays.
**
** A recording names memory, not tensors. A capture therefore holds the tensors that the work read,
** and checks before a replay whether they, and the gradients that it began with, are still the
** same: else the function itself would now do other work.
*/

#include "tensor/state.h"
#include "tensor/tensor.h"


/* A tensor that was there before. */
typedef struct captured_input {
  heed_tensor *t;
  storage *store;
  node *leaf;                      /* NULL: it is no leaf that requires grad */
  node *before;                    /* its node until the first replay */
  int64_t base_order;              /* … as the tensor has them */
  int output;
  int64_t began, version;          /* of the storage: at first, and now */
  short was_by, by;                /* … the operations that changed it */
  bool changed;                    /* by the work */
} captured_input;

/* A leaf whose gradient is read or set. */
typedef struct captured_gradient {
  node *leaf;
  heed_tensor *before, *after;
  bool read;                       /* before it was set */
} captured_gradient;

struct heed_capture {
  device *where;
  work_list *here;                 /* of a device that works while the host waits; or … */
  device_capture *there;           /* … an accelerator's; NULL: it could not be kept */
  captured_input *inputs;
  captured_gradient *gradients;
  int64_t ninputs, input_capacity, ngradients, gradient_capacity;
  bool complete;                   /* there was memory for all of them */
  bool begun;                      /* by a replay */
  births *births;                  /* NULL: a replay was done, and they have values */
  int number;                      /* of what it made: see 'storage' */
  heed_capture *next;              /* of those that were dropped */
};


/*
** {==================================================================
** What the work reads
** ===================================================================
*/

bool capture_read (const heed_tensor *t, heed_type type, void *data) {
  if (!t->number) return core_check_reach(t->cx, "read", t->store->where);
  scalar_store(type, data, t->value);
  return true;
}


static node *leaf_of (const heed_tensor *t) {
  return t->node != NULL && t->node->kind == NODE_LEAF ? t->node : NULL;
}


static void add_input (heed_context *cx, heed_capture *c, heed_tensor *t) {
  if (t->number || t->store == NULL || t->store->capture == c->number) return;
  for (int64_t i = c->ninputs - 1; i >= 0; i--)
    if (c->inputs[i].t == t) return;
  c->complete = c->complete && core_grow(cx, (void **)&c->inputs, c->ninputs, &c->input_capacity,
                                         sizeof *c->inputs);
  if (!c->complete) return;
  storage_keep(t->store);
  node_keep(t->node);
  c->inputs[c->ninputs++] = (captured_input){
    .t = heed_keep(t), .store = t->store, .before = t->node, .output = t->output,
    .base_order = t->base_order, .began = t->store->version,
    .was_by = t->store->changer
  };
}


/* A number gets storage when it is needed, and again if that is lost. */
bool capture_value (heed_tensor *t) {
  if (t->store == NULL || !storage_is_lost(t->store)) return true;
  if (!t->number)
    return core_fail(t->cx, NULL, "a tensor has no value: the work that makes it was captured, and "
                     "then dropped");
  storage_drop(t->store);
  t->store = NULL;
  return true;
}


bool capture_add_input (heed_context *cx, heed_tensor *t) {
  if (!capture_value(t)) return false;
  if (cx->capture.where != NULL) add_input(cx, cx->tensors->captures.running, t);
  return true;
}


void capture_add_gradient (node *leaf, bool read) {
  heed_context *cx = leaf->cx;
  heed_capture *c = cx->tensors->captures.running;
  for (int64_t i = c->ngradients - 1; i >= 0; i--)
    if (c->gradients[i].leaf == leaf) return;
  c->complete = c->complete && core_grow(cx, (void **)&c->gradients, c->ngradients,
                                         &c->gradient_capacity, sizeof *c->gradients);
  if (!c->complete) return;
  node_keep(leaf);
  c->gradients[c->ngradients++] = (captured_gradient){
    .leaf = leaf, .before = heed_keep(leaf->gradient), .read = read
  };
}


/* At the end of the capture. */
static void note_results (heed_capture *c) {
  for (int64_t i = 0; i < c->ninputs; i++) {
    captured_input *s = &c->inputs[i];
    s->version = s->store->version;
    s->by = s->store->changer;
    s->changed = s->version != s->began;
    s->leaf = leaf_of(s->t);
  }
  for (int64_t i = 0; i < c->ngradients; i++)
    c->gradients[i].after = heed_keep(c->gradients[i].leaf->gradient);
}


/* A tensor that was changed in place has the graph of the change, which was not done. */
static void take_back_input (captured_input *s) {
  heed_tensor *t = s->t;
  if (s->store->version == s->version) {
    s->store->version = s->began;
    s->store->changer = s->was_by;
  }
  if (t->store != s->store || t->node == s->before || t->node == NULL || leaf_of(t) != NULL) return;
  node_take(t, s->before, s->output);
  t->base_order = s->base_order;
}


/* Work that was not done has changed nothing, and made no gradients. */
static void take_back (heed_capture *c) {
  for (int64_t i = 0; i < c->ngradients; i++)
    node_put_gradient(c->gradients[i].leaf, heed_keep(c->gradients[i].before));
  for (int64_t i = 0; i < c->ninputs; i++) take_back_input(&c->inputs[i]);
}


/* Frees it with all that it holds. */
static void drop_parts (heed_context *cx, heed_capture *c) {
  if (!c->begun) take_back(c);
  for (int64_t i = 0; i < c->ngradients; i++) {
    captured_gradient *g = &c->gradients[i];
    heed_drop(g->before);
    heed_drop(g->after);
    node_drop(g->leaf);
  }
  for (int64_t i = 0; i < c->ninputs; i++) {
    node_drop(c->inputs[i].before);
    storage_drop(c->inputs[i].store);
    heed_drop(c->inputs[i].t);
  }
  if (c->births != NULL) births_end(cx, c->births, true);
  core_free(cx, c->gradients, (size_t)c->gradient_capacity * sizeof *c->gradients);
  core_free(cx, c->inputs, (size_t)c->input_capacity * sizeof *c->inputs);
  core_free(cx, c, sizeof *c);
}

/* }================================================================== */


/*
** {==================================================================
** Capturing
** ===================================================================
*/

bool heed_capture_reads (heed_context *cx, heed_tensor *t) {
  return cx == NULL || capture_input(cx, t);
}


static const char *begin (heed_context *cx, heed_capture *c) {
  device *d = c->where;
  if (d->accelerator != NULL) return d->accelerator->capture_begin(d);
  c->here = works_begin(cx);
  return c->here != NULL ? NULL : "not enough memory";
}


static const char *end (heed_context *cx, heed_capture *c) {
  const char *why = NULL;
  if (c->here != NULL) works_end(cx, c->here);
  else c->there = c->where->accelerator->capture_end(c->where, &why);
  return why;
}


static void drop_recording (heed_context *cx, heed_capture *c) {
  if (c->here != NULL && c->births != NULL && c->begun) works_keep_done(c->here);
  if (c->here != NULL) works_drop(cx, c->here);
  if (c->there != NULL) c->where->accelerator->capture_drop(c->where, c->there);
}


void heed_capture_pause (heed_context *cx, bool yes) {
  if (cx == NULL || !capture_is_open(&cx->capture)) return;
  core_forget_casts(cx);
  capture_pause(&cx->capture, yes);
}


/* Whose work is captured, paused or not; NULL: none's. */
static const device *captured_device (const heed_context *cx) {
  return cx->capture.where != NULL ? cx->capture.where : cx->capture.paused;
}


bool heed_capture_begin (heed_context *cx, const char *name) {
  device *d = cx != NULL && name != NULL ? core_device(cx, "capture", name) : NULL;
  if (d == NULL) return false;
  if (capture_is_open(&cx->capture))
    return core_fail(cx, "capture", "the work of %s is captured already",
                     captured_device(cx)->name);
  heed_capture *c = core_alloc(cx, sizeof *c);
  if (c == NULL) return false;
  core_forget_casts(cx);           /* a replay makes its own */
  *c = (heed_capture){.where = d, .complete = true, .births = births_begin(cx, d)};
  if (c->births == NULL || !core_done(cx, "capture", begin(cx, c))) {
    if (c->births != NULL) births_end(cx, c->births, false);
    core_free(cx, c, sizeof *c);
    return false;
  }
  cx->capture.where = d;
  cx->tensors->captures.running = c;
  c->number = c->births->number;
  return true;
}


/* Dropping waits for the device, which would end a capture: then it is put off. */
void heed_capture_drop (heed_context *cx, heed_capture *c) {
  if (cx == NULL || c == NULL) return;
  if (capture_is_open(&cx->capture)) {
    c->next = cx->tensors->captures.dropped;
    cx->tensors->captures.dropped = c;
    return;
  }
  drop_recording(cx, c);
  drop_parts(cx, c);
}


static void drop_all (heed_context *cx) {
  heed_capture *c;
  while ((c = cx->tensors->captures.dropped) != NULL) {
    cx->tensors->captures.dropped = c->next;
    heed_capture_drop(cx, c);
  }
}


heed_capture *heed_capture_end (heed_context *cx) {
  if (cx == NULL) return NULL;
  heed_capture_pause(cx, false);   /* which forgets casts */
  if (cx->capture.where == NULL) return core_fail(cx, "capture", "no work is captured");
  heed_capture *c = cx->tensors->captures.running;
  cx->capture.where = NULL;
  cx->tensors->captures.running = NULL;
  bool good = core_done(cx, "capture", end(cx, c));
  foreign_end_releases(cx);
  drop_all(cx);
  note_results(c);
  if (good && c->complete) return c;
  heed_capture_drop(cx, c);
  return NULL;
}

/* }================================================================== */


/*
** {==================================================================
** Replaying
** ===================================================================
*/

/* To a device of its own the host's memory was sent once and for all: it may not have changed. */
static bool is_unchanged (const captured_input *s, const device *where) {
  return s->t->store == s->store && leaf_of(s->t) == s->leaf &&
         (s->store->where == where || !s->store->where->host || s->store->version == s->version);
}


static const storage *store_of (const heed_tensor *t) { return t != NULL ? t->store : NULL; }


heed_capture_state heed_capture_state_of (const heed_capture *c) {
  for (int64_t i = 0; c != NULL && i < c->ninputs; i++)
    if (!is_unchanged(&c->inputs[i], c->where)) return HEED_CAPTURE_STALE;
  for (int64_t i = 0; c != NULL && i < c->ngradients; i++) {
    const captured_gradient *g = &c->gradients[i];
    if (g->read && store_of(g->leaf->gradient) != store_of(g->before))
      return HEED_CAPTURE_GRADIENTS_DIFFER;
  }
  return HEED_CAPTURE_READY;
}


bool heed_capture_changes (const heed_capture *c, const heed_tensor *t) {
  for (int64_t i = 0; c != NULL && i < c->ninputs; i++) {
    if (c->inputs[i].t == t) return c->inputs[i].changed;
    if (t == NULL && c->inputs[i].changed) return true;
  }
  return false;
}


bool heed_shares_memory (const heed_tensor *a, const heed_tensor *b) {
  return a != NULL && b != NULL && a->store != NULL && a->store == b->store;
}


/* Is memory that the work changes, or reads if 's' is changed, that of 's'? */
static bool collides (const heed_capture *c, const storage *s, bool changed) {
  if (changed && s->capture == c->number) return true;
  for (int64_t i = 0; i < c->ninputs; i++)
    if (c->inputs[i].store == s && (changed || c->inputs[i].changed)) return true;
  return false;
}


bool heed_capture_apart (const heed_capture *c, const heed_tensor *input,
                         const heed_tensor *given) {
  const storage *s = store_of(given);
  bool changed = heed_capture_changes(c, input);
  if (changed && given != NULL && (given->number || layout_overlaps_itself(&given->at)))
    return false;
  return c == NULL || s == NULL || !collides(c, s, changed);
}


/* Tensors that the work writes count as changed, even if a replay failed midway. */
static void count_changes (heed_capture *c) {
  for (int64_t i = 0; i < c->ninputs; i++) {
    const captured_input *s = &c->inputs[i];
    if (!s->changed) continue;
    s->store->version++;
    s->store->changer = s->by;
  }
}


/* Tensors that the work makes have values now, and leaves the gradients that it makes. */
static void take_effect (heed_context *cx, heed_capture *c) {
  for (int64_t i = 0; c->births != NULL && i < c->ninputs; i++) {
    node_drop(c->inputs[i].before);
    c->inputs[i].before = NULL;
  }
  if (c->births != NULL) births_end(cx, c->births, false);
  c->births = NULL;
  for (int64_t i = 0; i < c->ngradients; i++) {
    captured_gradient *g = &c->gradients[i];
    if (g->leaf->gradient != g->after) node_put_gradient(g->leaf, heed_keep(g->after));
    if (g->read) continue;
    heed_drop(g->before);          /* not needed any more */
    g->before = NULL;
  }
}


/*
** After a replay that failed, leaves have those gradients that it has made whole. Others have none,
** as the work sets them anew; or, where it adds to them, those that it began with.
*/
static void settle_gradients (heed_capture *c) {
  for (int64_t i = 0; i < c->ngradients; i++) {
    captured_gradient *g = &c->gradients[i];
    bool made = g->after != NULL && c->here != NULL && !works_left(c->here, g->after->store);
    heed_tensor *now = made ? g->after : g->read ? g->before : NULL;
    if (g->leaf->gradient != now) node_put_gradient(g->leaf, heed_keep(now));
  }
}


static bool replay (heed_context *cx, heed_capture *c) {
  device *d = c->where;
  if (c->here != NULL) return works_replay(cx, d, c->here);
  const heed_region around = heed_region_begin(cx, core_op_name(CORE_CAPTURE));
  core_begin(cx, d, CORE_CAPTURE);
  bool good = core_end(cx, d, CORE_CAPTURE, d->accelerator->capture_replay(d, c->there));
  heed_region_end(cx, around);
  return good;
}


bool heed_capture_replay (heed_context *cx, heed_capture *c) {
  if (cx == NULL || c == NULL) return false;
  if (capture_is_open(&cx->capture))
    return core_fail(cx, "capture", "a replay while the work of %s is captured",
                     captured_device(cx)->name);
  c->begun = true;
  bool good = replay(cx, c);
  count_changes(c);
  if (good) take_effect(cx, c);
  else settle_gradients(c);
  return good;
}


bool heed_capture_set_step (heed_context *cx, heed_capture *c, int which, const heed_step *step) {
  if (cx == NULL || c == NULL) return false;
  if (step == NULL) return core_fail(cx, "capture", "a step expected, got NULL") != NULL;
  if (c->here != NULL) return works_set_step(cx, c->here, which, step);
  const accelerator *a = c->where->accelerator;
  return core_done(cx, "capture", a->capture_set_step(c->where, c->there, which, step));
}


int64_t heed_capture_steps (const heed_capture *c) {
  if (c == NULL || (c->here == NULL && c->births != NULL)) return 0;
  return c->here != NULL ? works_steps(c->here) : INT64_MAX;
}

/* }================================================================== */
