/*
** graph.c - captured work: kept, with the memory that it uses, and done again by replays.
**
** A graph names memory, not tensors. So whatever tensors it found are held by it, and before a
** replay it tells whether they, and the gradients that it began with, are still those: else the
** work itself would now do something else.
*/

#include "core/core.h"


/* A tensor that was there before. */
typedef struct captured_input {
  heed_tensor *t;
  storage *store;
  node *leaf;                      /* NULL: it wanted no gradient of its own */
  int64_t version;
  bool changed;                    /* by the work */
} captured_input;

/* A leaf whose gradient is read or set. */
typedef struct captured_gradient {
  node *leaf;
  heed_tensor *before, *after;
  bool read;                       /* what was there before it was set */
} captured_gradient;

struct heed_capture {
  device *where;
  device_capture *kept;
  captured_input *inputs;
  captured_gradient *gradients;
  int64_t ninputs, input_capacity, ngradients, gradient_capacity;
  bool whole;                      /* there was memory for all of them */
  bool replayed;
  heed_capture *next;                /* of those that go late */
};


/*
** {==================================================================
** What the work finds
** ===================================================================
*/

static node *leaf_of (const heed_tensor *t) {
  return t->node != NULL && t->node->kind == NODE_LEAF ? t->node : NULL;
}


void capture_add_input (heed_context *cx, heed_tensor *t) {
  heed_capture *g = cx->graph;
  if (t->number || t->store == NULL || t->store->graph == cx->graphs) return;
  for (int64_t i = g->ninputs - 1; i >= 0; i--)
    if (g->inputs[i].t == t) return;
  g->whole = g->whole && core_grow(cx, (void **)&g->inputs, g->ninputs, &g->input_capacity,
                                   sizeof *g->inputs);
  if (!g->whole) return;
  storage_keep(t->store);
  g->inputs[g->ninputs++] = (captured_input){.t = heed_keep(t), .store = t->store,
                                    .version = t->store->version};
}


void capture_add_gradient (node *leaf, bool read) {
  heed_context *cx = leaf->cx;
  heed_capture *g = cx->graph;
  for (int64_t i = g->ngradients - 1; i >= 0; i--)
    if (g->gradients[i].leaf == leaf) return;
  g->whole = g->whole && core_grow(cx, (void **)&g->gradients, g->ngradients, &g->gradient_capacity,
                                   sizeof *g->gradients);
  if (!g->whole) return;
  node_keep(leaf);
  g->gradients[g->ngradients++] = (captured_gradient){.leaf = leaf, .before = heed_keep(leaf->gradient),
                                      .read = read};
}


/* What the work left, at the end of the capture. */
static void note_results (heed_capture *g) {
  for (int64_t i = 0; i < g->ninputs; i++) {
    captured_input *s = &g->inputs[i];
    s->changed = s->store->version != s->version;
    s->version = s->store->version;
    s->leaf = leaf_of(s->t);
  }
  for (int64_t i = 0; i < g->ngradients; i++)
    g->gradients[i].after = heed_keep(g->gradients[i].leaf->gradient);
}


/* Lets go of all that g holds. Work that was never done has made no gradients. */
static void drop_parts (heed_context *cx, heed_capture *g) {
  for (int64_t i = 0; i < g->ngradients; i++) {
    captured_gradient *t = &g->gradients[i];
    if (!g->replayed) node_put_gradient(t->leaf, heed_keep(t->before));
    heed_drop(t->before);
    heed_drop(t->after);
    node_drop(t->leaf);
  }
  for (int64_t i = 0; i < g->ninputs; i++) {
    storage_drop(g->inputs[i].store);
    heed_drop(g->inputs[i].t);
  }
  core_free(cx, g->gradients, (size_t)g->gradient_capacity * sizeof *g->gradients);
  core_free(cx, g->inputs, (size_t)g->input_capacity * sizeof *g->inputs);
  core_free(cx, g, sizeof *g);
}

/* }================================================================== */


/*
** {==================================================================
** Capturing
** ===================================================================
*/

bool heed_capture_begin (heed_context *cx, int index) {
  device *d = cx != NULL ? core_device_at(cx, "capture", index) : NULL;
  if (d == NULL) return false;
  if (cx->captured != NULL)
    return core_fail(cx, "capture: the work of %s is captured already", cx->captured->name);
  heed_capture *g = core_alloc(cx, sizeof *g);
  if (g == NULL) return false;
  *g = (heed_capture){.where = d, .whole = true};
  if (!core_done(cx, "capture", cx->cuda->capture(d))) {
    core_free(cx, g, sizeof *g);
    return false;
  }
  cx->captured = d;
  cx->graph = g;
  cx->graphs++;
  return true;
}


/* Dropping waits for the card, which a capture would not outlive. */
void heed_capture_drop (heed_context *cx, heed_capture *g) {
  if (cx == NULL || g == NULL) return;
  if (cx->graph != NULL) {
    g->next = cx->late;
    cx->late = g;
    return;
  }
  if (g->kept != NULL) cx->cuda->drop(g->where, g->kept);
  drop_parts(cx, g);
}


static void drop_late (heed_context *cx) {
  heed_capture *g;
  while ((g = cx->late) != NULL) {
    cx->late = g->next;
    heed_capture_drop(cx, g);
  }
}


heed_capture *heed_capture_end (heed_context *cx) {
  const char *why = NULL;
  if (cx == NULL || cx->captured == NULL) return NULL;
  heed_capture *g = cx->graph;
  cx->captured = NULL;
  cx->graph = NULL;
  g->kept = cx->cuda->capture_end(g->where, &why);
  core_end_releases(cx);
  drop_late(cx);
  note_results(g);
  if (g->kept == NULL) core_fail(cx, "capture: %s", why);
  if (g->kept != NULL && g->whole) return g;
  heed_capture_drop(cx, g);
  return NULL;
}

/* }================================================================== */


/*
** {==================================================================
** Replaying
** ===================================================================
*/

/* The host's memory was read once and for all: it may not have changed. */
static bool is_unchanged (const captured_input *s) {
  return s->t->store == s->store && leaf_of(s->t) == s->leaf &&
         (!s->store->where->host || s->store->version == s->version);
}


static const storage *store_of (const heed_tensor *t) { return t != NULL ? t->store : NULL; }


heed_capture_state heed_capture_state_of (const heed_capture *g) {
  for (int64_t i = 0; g != NULL && i < g->ninputs; i++)
    if (!is_unchanged(&g->inputs[i])) return HEED_CAPTURE_STALE;
  for (int64_t i = 0; g != NULL && i < g->ngradients; i++) {
    const captured_gradient *t = &g->gradients[i];
    if (t->read && store_of(t->leaf->gradient) != store_of(t->before)) return HEED_CAPTURE_GRADIENTS_DIFFER;
  }
  return HEED_CAPTURE_READY;
}


bool heed_capture_changes (const heed_capture *g, const heed_tensor *t) {
  for (int64_t i = 0; g != NULL && i < g->ninputs; i++)
    if (g->inputs[i].t == t) return g->inputs[i].changed;
  return false;
}


/* What the work changed counts as changed, and leaves have the gradients that it makes. */
static void tell (heed_capture *g) {
  for (int64_t i = 0; i < g->ninputs; i++)
    if (g->inputs[i].changed) g->inputs[i].store->version++;
  for (int64_t i = 0; i < g->ngradients; i++) {
    captured_gradient *t = &g->gradients[i];
    if (t->leaf->gradient != t->after) node_put_gradient(t->leaf, heed_keep(t->after));
    if (t->read) continue;
    heed_drop(t->before);          /* nobody asks for it again */
    t->before = NULL;
  }
  g->replayed = true;
}


bool heed_capture_replay (heed_context *cx, heed_capture *g) {
  if (cx == NULL || g == NULL) return false;
  g->where->op = HEED_NOPS;
  const char *why = cx->cuda->replay(g->where, g->kept);
  if (why == NULL) tell(g);
  return core_done(cx, core_error_op(g->where, "capture"), why);
}


bool heed_capture_set_step (heed_context *cx, heed_capture *g, int which, const heed_step *step) {
  if (cx == NULL || g == NULL) return false;
  return core_done(cx, "capture", cx->cuda->set_step(g->where, g->kept, which, step));
}


int64_t heed_works (heed_context *cx, int index) {
  if (cx == NULL || index < -1 || index >= CORE_GPUS) return 0;
  const device *d = index < 0 ? cx->cpu : cx->gpu[index];
  return d != NULL ? d->works : 0;
}

/* }================================================================== */
