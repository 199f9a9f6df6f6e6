/*
** graph.c - captured work: kept, with the memory that it uses, and done again by replays.
**
** A graph names memory, not tensors. So whatever tensors it found are held by it, and before a
** replay it tells whether they, and the gradients that it began with, are still those: else the
** work itself would now do something else.
*/

#include "core/core.h"


/* A tensor that was there before. */
typedef struct sight {
  heed_tensor *t;
  storage *store;
  node *leaf;                      /* NULL: it wanted no gradient of its own */
  int64_t version;
  bool changed;                    /* by the work */
} sight;

/* A leaf whose gradient is read or set. */
typedef struct touch {
  node *leaf;
  heed_tensor *before, *after;
  bool read;                       /* what was there before it was set */
} touch;

struct heed_graph {
  device *where;
  cuda_recording *kept;
  sight *sights;
  touch *touches;
  int64_t nsights, room_sights, ntouches, room_touches;
  bool whole;                      /* there was memory for all of them */
  bool replayed;
  heed_graph *next;                /* of those that go late */
};


/*
** {==================================================================
** What the work finds
** ===================================================================
*/

static node *leaf_of (const heed_tensor *t) {
  return t->node != NULL && t->node->kind == NODE_LEAF ? t->node : NULL;
}


void graph_see (heed_context *cx, heed_tensor *t) {
  heed_graph *g = cx->graph;
  if (t->number || t->store == NULL || t->store->graph == cx->graphs) return;
  for (int64_t i = g->nsights - 1; i >= 0; i--)
    if (g->sights[i].t == t) return;
  g->whole = g->whole && core_grow(cx, (void **)&g->sights, g->nsights, &g->room_sights,
                                   sizeof *g->sights);
  if (!g->whole) return;
  storage_keep(t->store);
  g->sights[g->nsights++] = (sight){.t = heed_keep(t), .store = t->store,
                                    .version = t->store->version};
}


void graph_touch (node *leaf, bool read) {
  heed_context *cx = leaf->cx;
  heed_graph *g = cx->graph;
  for (int64_t i = g->ntouches - 1; i >= 0; i--)
    if (g->touches[i].leaf == leaf) return;
  g->whole = g->whole && core_grow(cx, (void **)&g->touches, g->ntouches, &g->room_touches,
                                   sizeof *g->touches);
  if (!g->whole) return;
  node_keep(leaf);
  g->touches[g->ntouches++] = (touch){.leaf = leaf, .before = heed_keep(leaf->gradient),
                                      .read = read};
}


/* What the work left, at the end of the capture. */
static void look_back (heed_graph *g) {
  for (int64_t i = 0; i < g->nsights; i++) {
    sight *s = &g->sights[i];
    s->changed = s->store->version != s->version;
    s->version = s->store->version;
    s->leaf = leaf_of(s->t);
  }
  for (int64_t i = 0; i < g->ntouches; i++)
    g->touches[i].after = heed_keep(g->touches[i].leaf->gradient);
}


/* Lets go of all that g holds. Work that was never done has made no gradients. */
static void drop_parts (heed_context *cx, heed_graph *g) {
  for (int64_t i = 0; i < g->ntouches; i++) {
    touch *t = &g->touches[i];
    if (!g->replayed) node_put_gradient(t->leaf, heed_keep(t->before));
    heed_drop(t->before);
    heed_drop(t->after);
    node_drop(t->leaf);
  }
  for (int64_t i = 0; i < g->nsights; i++) {
    storage_drop(g->sights[i].store);
    heed_drop(g->sights[i].t);
  }
  core_free(cx, g->touches, (size_t)g->room_touches * sizeof *g->touches);
  core_free(cx, g->sights, (size_t)g->room_sights * sizeof *g->sights);
  core_free(cx, g, sizeof *g);
}

/* }================================================================== */


/*
** {==================================================================
** Capturing
** ===================================================================
*/

bool heed_cuda_capture (heed_context *cx, int index) {
  device *d = cx != NULL ? core_card(cx, "capture", index) : NULL;
  if (d == NULL) return false;
  if (cx->captured != NULL)
    return core_fail(cx, "capture: the work of %s is captured already", cx->captured->name);
  heed_graph *g = core_alloc(cx, sizeof *g);
  if (g == NULL) return false;
  *g = (heed_graph){.where = d, .whole = true};
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
void heed_cuda_drop_graph (heed_context *cx, heed_graph *g) {
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
  heed_graph *g;
  while ((g = cx->late) != NULL) {
    cx->late = g->next;
    heed_cuda_drop_graph(cx, g);
  }
}


heed_graph *heed_cuda_capture_end (heed_context *cx) {
  const char *why = NULL;
  if (cx == NULL || cx->captured == NULL) return NULL;
  heed_graph *g = cx->graph;
  cx->captured = NULL;
  cx->graph = NULL;
  g->kept = cx->cuda->capture_end(g->where, &why);
  core_end_loans(cx);
  drop_late(cx);
  look_back(g);
  if (g->kept == NULL) core_fail(cx, "capture: %s", why);
  if (g->kept != NULL && g->whole) return g;
  heed_cuda_drop_graph(cx, g);
  return NULL;
}

/* }================================================================== */


/*
** {==================================================================
** Replaying
** ===================================================================
*/

/* The host's memory was read once and for all: it may not have changed. */
static bool is_as_it_was (const sight *s) {
  return s->t->store == s->store && leaf_of(s->t) == s->leaf &&
         (!s->store->where->host || s->store->version == s->version);
}


static const storage *store_of (const heed_tensor *t) { return t != NULL ? t->store : NULL; }


heed_graph_state heed_cuda_graph_state (const heed_graph *g) {
  for (int64_t i = 0; g != NULL && i < g->nsights; i++)
    if (!is_as_it_was(&g->sights[i])) return HEED_GRAPH_STALE;
  for (int64_t i = 0; g != NULL && i < g->ntouches; i++) {
    const touch *t = &g->touches[i];
    if (t->read && store_of(t->leaf->gradient) != store_of(t->before)) return HEED_GRAPH_APART;
  }
  return HEED_GRAPH_READY;
}


bool heed_cuda_graph_changes (const heed_graph *g, const heed_tensor *t) {
  for (int64_t i = 0; g != NULL && i < g->nsights; i++)
    if (g->sights[i].t == t) return g->sights[i].changed;
  return false;
}


/* What the work changed counts as changed, and leaves have the gradients that it makes. */
static void tell (heed_graph *g) {
  for (int64_t i = 0; i < g->nsights; i++)
    if (g->sights[i].changed) g->sights[i].store->version++;
  for (int64_t i = 0; i < g->ntouches; i++) {
    touch *t = &g->touches[i];
    if (t->leaf->gradient != t->after) node_put_gradient(t->leaf, heed_keep(t->after));
    if (t->read) continue;
    heed_drop(t->before);          /* nobody asks for it again */
    t->before = NULL;
  }
  g->replayed = true;
}


bool heed_cuda_replay (heed_context *cx, heed_graph *g) {
  if (cx == NULL || g == NULL) return false;
  g->where->op = HEED_NOPS;
  const char *why = cx->cuda->replay(g->where, g->kept);
  if (why == NULL) tell(g);
  return core_done(cx, core_blamed(g->where, "capture"), why);
}


bool heed_cuda_set_step (heed_context *cx, heed_graph *g, int which, const heed_step *step) {
  if (cx == NULL || g == NULL) return false;
  return core_done(cx, "capture", cx->cuda->set_step(g->where, g->kept, which, step));
}


int64_t heed_works (heed_context *cx, int index) {
  if (cx == NULL || index < -1 || index >= CORE_GPUS) return 0;
  const device *d = index < 0 ? cx->cpu : cx->gpu[index];
  return d != NULL ? d->works : 0;
}

/* }================================================================== */
