/*
** cards.c - the door of CUDA for C: which cards there are, what their memory holds, how long
** something took.
*/

#include "core/core.h"

#include <stdio.h>
#include <string.h>


device *core_card (heed_context *cx, const char *who, int index) {
  char name[16];
  if (index < 0 || index >= CORE_GPUS)
    return core_fail(cx, "%s: there is no 'cuda:%d'", who, index);
  snprintf(name, sizeof name, "cuda:%d", index);
  return core_device(cx, who, name);
}


bool core_done (heed_context *cx, const char *who, const char *why) {
  return why == NULL || core_fail(cx, "%s: %s", who, why);
}


const char *core_blamed (const device *d, const char *who) {
  return d->op == HEED_NOPS ? who : core_op_name(d->op);
}


static void unpin (void *self, void *data) {
  const cuda_door *door = self;
  door->unpin(data);
}


const char *heed_cuda_reason (heed_context *cx) {
  return cx != NULL ? core_cuda_reason(cx) : "no context";
}


int heed_cuda_count (heed_context *cx) {
  return heed_cuda_reason(cx) == NULL ? cx->cuda->count() : 0;
}


bool heed_cuda_properties (heed_context *cx, int index, heed_card *card) {
  cuda_properties p;
  if (cx == NULL) return false;
  const char *why = core_cuda_reason(cx);
  if (why != NULL) return core_fail(cx, "properties: %s", why);
  if (index < 0 || index >= cx->cuda->count())
    return core_fail(cx, "properties: there is no 'cuda:%d'; cards count from 0", index);
  if (!core_done(cx, "properties", cx->cuda->properties(index, &p))) return false;
  memcpy(card->name, p.name, sizeof card->name);
  card->memory = p.memory;
  card->major = p.major;
  card->minor = p.minor;
  card->multiprocessors = p.processors;
  return true;
}


static const char *const precisions[] = {"highest", "high", "medium"};


const char *heed_matmul_precision (heed_context *cx) {
  return cx != NULL ? precisions[cx->precision] : NULL;
}


bool heed_set_matmul_precision (heed_context *cx, const char *name) {
  int level = 0;
  if (cx == NULL || name == NULL) return false;
  while (level < 3 && strcmp(precisions[level], name) != 0) level++;
  if (level == 3)
    return core_fail(cx, "matmul_precision: 'highest', 'high' or 'medium' expected, got '%.40s'",
                     name);
  cx->precision = level;
  for (int i = 0; i < CORE_GPUS; i++)
    if (cx->gpu[i] != NULL) cx->cuda->precision(cx->gpu[i], level);
  return true;
}


/* A copy of t in memory of the host's that cards can reach by themselves. */
heed_tensor *heed_cuda_pin (heed_tensor *t) {
  heed_context *cx = heed_context_of(t);
  if (cx == NULL) return NULL;
  const char *why = core_cuda_reason(cx);
  if (why != NULL) return core_fail(cx, "pin_memory: %s", why);
  size_t bytes = (size_t)layout_numel(&t->at) * scalar_sizes[t->type];
  void *data = cx->cuda->pin(bytes > 0 ? bytes : 1);
  if (data == NULL) return core_fail(cx, "pin_memory: no memory for %zu bytes", bytes);
  heed_tensor *y = NULL;
  if (heed_read(t, t->type, data))
    y = heed_lend(cx, t->type, t->at.rank, t->at.size, data, unpin, (void *)(uintptr_t)cx->cuda);
  if (y == NULL) cx->cuda->unpin(data);
  return y;
}


bool heed_cuda_synchronize (heed_context *cx, int index) {
  if (cx == NULL) return false;
  device *d = core_card(cx, "synchronize", index);
  if (d == NULL) return false;
  d->op = HEED_NOPS;
  const char *why = cx->cuda->wait(d);
  return core_done(cx, core_blamed(d, "synchronize"), why);
}


bool heed_cuda_memory_now (heed_context *cx, int index, heed_cuda_memory *now) {
  cuda_memory m;
  device *d = cx != NULL ? core_card(cx, "memory", index) : NULL;
  if (d == NULL) return false;
  cx->cuda->memory(d, &m);
  *now = (heed_cuda_memory){m.live, m.cached, m.peak, m.limit, m.free, m.total};
  return true;
}


bool heed_cuda_reset_peak (heed_context *cx, int index) {
  device *d = cx != NULL ? core_card(cx, "reset_peak", index) : NULL;
  if (d != NULL) cx->cuda->reset_peak(d);
  return d != NULL;
}


bool heed_cuda_limit (heed_context *cx, int index, size_t bytes) {
  device *d = cx != NULL ? core_card(cx, "limit", index) : NULL;
  if (d != NULL) cx->cuda->limit(d, bytes);
  return d != NULL;
}


bool heed_cuda_trim (heed_context *cx, int index) {
  device *d = cx != NULL ? core_card(cx, "empty_cache", index) : NULL;
  if (d != NULL) cx->cuda->trim(d);
  return d != NULL;
}


bool heed_cuda_block (heed_context *cx, bool yes) {
  if (cx == NULL || core_device(cx, "blocking", "cuda") == NULL) return false;
  for (int i = 0; i < CORE_GPUS; i++)
    if (cx->gpu[i] != NULL) cx->cuda->block(cx->gpu[i], yes);
  return true;
}


/* Its seed, and how many numbers were drawn. */
bool heed_cuda_rng_get (heed_context *cx, int index, uint64_t state[2]) {
  device *d = cx != NULL ? core_card(cx, "rng_state", index) : NULL;
  return d != NULL && core_done(cx, "rng_state", cx->cuda->rng_get(d, state));
}


bool heed_cuda_rng_set (heed_context *cx, int index, const uint64_t state[2]) {
  device *d = cx != NULL ? core_card(cx, "rng_state", index) : NULL;
  return d != NULL && core_done(cx, "rng_state", cx->cuda->rng_set(d, state));
}


/* A capture keeps the work of heed's stream alone: neither others nor events can be waited for. */
static bool may_meet (heed_context *cx, const char *who, const device *d) {
  return cx->captured != d || core_fail(cx, "%s: not while %s is captured", who, d->name);
}


heed_moment *heed_cuda_moment (heed_context *cx, int index) {
  device *d = cx != NULL ? core_card(cx, "elapsed", index) : NULL;
  if (d == NULL || !may_meet(cx, "elapsed", d)) return NULL;
  cuda_moment *m = cx->cuda->moment(d);
  if (m == NULL) {
    const char *why = d->gone(d);
    core_fail(cx, "elapsed: %s", why != NULL ? why : "there is no memory for an event");
  }
  return (heed_moment *)m;
}


bool heed_cuda_between (heed_context *cx, int index, heed_moment *from, heed_moment *to,
                        double *seconds) {
  device *d = cx != NULL ? core_card(cx, "elapsed", index) : NULL;
  return d != NULL && core_done(cx, "elapsed", cx->cuda->between(d, (cuda_moment *)from,
                                                            (cuda_moment *)to, seconds));
}


void heed_cuda_forget (heed_context *cx, int index, heed_moment *m) {
  if (cx != NULL && m != NULL && (unsigned)index < CORE_GPUS && cx->gpu[index] != NULL)
    cx->cuda->forget(cx->gpu[index], (cuda_moment *)m);
}


/*
** {==================================================================
** Memory of somebody else's, and streams of others
** ===================================================================
*/

/* What is lent to a card, until its last handle goes. */
typedef struct loan {
  device *where;
  heed_context *cx;
  void *stream;                    /* of whom it belongs to */
  void (*release) (void *self, void *data);
  void *self, *data;
  struct loan *next;               /* of those that wait for a capture to end */
} loan;


/* Its stream waits, or the host does if that fails; on a lost card there is nothing to wait for. */
static void end_loan (loan *given) {
  loan l = *given;
  core_free(l.cx, given, sizeof l);
  if (l.cx->cuda->before(l.where, l.stream) != NULL) l.cx->cuda->wait(l.where);
  if (l.release != NULL) l.release(l.self, l.data);
}


/* A capture would keep the waiting, so that it stays undone: then it comes later. */
static void return_loan (void *self, void *data) {
  loan *l = self;
  heed_context *cx = l->cx;
  l->data = data;
  if (cx->captured != l->where) { end_loan(l); return; }
  l->next = cx->returned;
  cx->returned = l;
}


void core_end_loans (heed_context *cx) {
  loan *l;
  while ((l = cx->returned) != NULL) {
    cx->returned = l->next;
    end_loan(l);
  }
}


void *heed_cuda_stream (heed_context *cx, int index) {
  device *d = cx != NULL ? core_card(cx, "stream", index) : NULL;
  return d != NULL ? cx->cuda->stream(d) : NULL;
}


heed_tensor *heed_cuda_lend (heed_context *cx, int index, void *stream, heed_type type, int rank,
                             const int64_t *size, void *data,
                             void (*release) (void *self, void *data), void *self) {
  device *d = cx != NULL ? core_card(cx, "lend", index) : NULL;
  if (d == NULL || !may_meet(cx, "lend", d)) return NULL;
  if (!core_done(cx, "lend", cx->cuda->after(d, stream))) return NULL;
  loan *l = core_alloc(cx, sizeof *l);
  if (l == NULL) return NULL;
  *l = (loan){d, cx, stream, release, self, NULL, NULL};
  heed_tensor *t = tensor_lend(cx, d, type, rank, size, data, return_loan, l);
  if (t == NULL) core_free(cx, l, sizeof *l);
  return t;
}


/* The card that t lies on; NULL after a message. */
static device *card_of (heed_tensor *t, const char *who) {
  if (t == NULL || !tensor_settle(t)) return NULL;
  device *d = tensor_place(t);
  if (d->host) return core_fail(t->cx, "%s: a tensor of a card expected, got one on cpu", who);
  return may_meet(t->cx, who, d) ? d : NULL;
}


void *heed_cuda_data (heed_tensor *t, void *stream) {
  device *d = card_of(t, "cuda_data");
  if (d == NULL || !core_done(t->cx, "cuda_data", t->cx->cuda->before(d, stream))) return NULL;
  return tensor_seen(t).data;
}


bool heed_cuda_after (heed_tensor *t, void *stream) {
  device *d = card_of(t, "cuda_after");
  return d != NULL && core_done(t->cx, "cuda_after", t->cx->cuda->after(d, stream));
}

/* }================================================================== */
