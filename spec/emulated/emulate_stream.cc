/*
** emulate_stream.cc - emulated streams, launches, events and graphs.
**
** Work waits in its stream until it must be done, so that a host that forgets to wait reads what
** was there before. Device memory is accessible only while work runs.
*/

#include "spec/emulated/machine.h"

#include <stdlib.h>
#include <time.h>

#define WAITING 512                /* most steps that wait in a stream */


typedef enum step_kind { LAUNCH, COPY, FILL, PUT, AFTER, FREE, GRAPH } step_kind;

/* A piece of work in a stream. */
typedef struct step {
  step_kind kind;
  dim3 blocks, threads;
  size_t shared, bytes;
  emulated_work work;
  void *to;
  const void *from;
  int byte;
  struct CUevent_st *event;
  struct CUgraphExec_st *graph;
  int64_t times;                   /* AFTER: how often the event had been put */
  struct step *next;
} step;

struct CUgraphExec_st { step *first, *last; int refs; };

struct CUstream_st {
  int device;
  step *first, *last;
  int n;
  struct CUgraphExec_st *capture;
  bool broken;                     /* the capture */
  struct CUstream_st *next;
};

struct CUevent_st {
  struct CUstream_st *in;          /* where it was put last */
  int device, refs;
  bool captured;                   /* when it was put last: it can't be waited for */
  int64_t put, done;               /* how often */
  double time;
};

static cuda_stream streams;        /* all that are open */


/*
** {==================================================================
** Streams
** ===================================================================
*/

static int run_all (CUstream_st *s);


static double now (void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}


static void drop_event (CUevent_st *e) {
  if (--e->refs == 0) free(e);
}

static void drop_step (step *p);

static void drop_graph (CUgraphExec_st *g) {
  if (--g->refs > 0) return;
  while (g->first != NULL) {
    step *p = g->first;
    g->first = p->next;
    drop_step(p);
  }
  free(g);
}

static void drop_step (step *p) {
  if (p->event != NULL) drop_event(p->event);
  if (p->graph != NULL) drop_graph(p->graph);
  free(p->work.call);
  free(p);
}


static int run_launch (const step *p) {
  const char *why = machine_run(p->blocks, p->threads, p->shared, &p->work);
  return why != NULL ? machine_lose(why) : 0;
}


/* Until an event was passed as often as it had been put. */
static int reach (CUevent_st *e, int64_t times) {
  int code = 0;
  while (code == 0 && e->done < times && e->in->first != NULL) code = run_all(e->in);
  return code;
}


static int run_step (const step *p) {
  int code = 0;
  switch (p->kind) {
    case LAUNCH: return run_launch(p);
    case COPY: memmove(p->to, p->from, p->bytes); return 0;
    case FILL: memset(p->to, p->byte, p->bytes); return 0;
    case PUT: p->event->done++; p->event->time = now(); return 0;
    case AFTER: return reach(p->event, p->times);
    case FREE: return machine_free(p->to);
    case GRAPH:
      for (const step *q = p->graph->first; q != NULL && code == 0; q = q->next)
        code = run_step(q);
      return code;
  }
  return code;
}


static int run_all (CUstream_st *s) {
  int code = 0;
  if (s->first == NULL) return 0;
  machine_open();
  while (s->first != NULL && code == 0) {
    step *p = s->first;
    s->first = p->next;            /* first: what it waits for may run this stream */
    s->n--;
    code = run_step(p);
    drop_step(p);
  }
  machine_close();
  return code;
}


int machine_run_device (int index) {
  int code = 0;
  for (CUstream_st *s = streams; s != NULL && code == 0; s = s->next)
    if (s->device == index) code = run_all(s);
  return code;
}


/* At the end of a stream, or of the graph that it records. The default stream, NULL, has no work:
   it only waits, and is waited for. */
static int put_step (CUstream_st *s, const step *given) {
  if (s == NULL) return run_step(given);
  step *p = (step *)malloc(sizeof *p), **first = &s->first, **last = &s->last;
  if (p == NULL) return RUNTIME_NO_MEMORY;
  *p = *given;
  p->next = NULL;
  if (p->event != NULL) p->event->refs++;
  if (p->graph != NULL) p->graph->refs++;
  if (s->capture != NULL) { first = &s->capture->first; last = &s->capture->last; }
  else s->n++;
  if (*first == NULL) *first = p;
  else (*last)->next = p;
  *last = p;
  return s->capture == NULL && (!machine_asynchronous() || s->n > WAITING) ? run_all(s) : 0;
}


int machine_end_captures (void) {
  int code = 0;
  for (CUstream_st *s = streams; s != NULL; s = s->next)
    if (s->capture != NULL) { s->broken = true; code = MACHINE_IN_CAPTURE; }
  return code;
}


/* Refuses, while work is recorded, calls that wait for the host. */
static int refuse_capture (CUstream_st *s) {
  if (s->capture == NULL) return 0;
  s->broken = true;
  return MACHINE_IN_CAPTURE;
}

/* }================================================================== */


/*
** {==================================================================
** runtime.h: streams, events, graphs
** ===================================================================
*/

int runtime_stream_open (cuda_stream *s) {
  int code = machine_begin();
  *s = code == 0 ? (cuda_stream)calloc(1, sizeof **s) : NULL;
  if (code == 0 && *s == NULL) code = RUNTIME_NO_MEMORY;
  if (code != 0) return machine_end(code);
  (*s)->device = machine_current();
  (*s)->next = streams;
  streams = *s;
  return machine_end(0);
}

int runtime_stream_close (cuda_stream s) {
  machine_begin();
  int code = refuse_capture(s);
  if (code == 0) code = run_all(s);
  CUstream_st **at = &streams;
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  while (s->first != NULL) {
    step *p = s->first;
    s->first = p->next;
    drop_step(p);
  }
  free(s);
  return machine_end(code);
}

int runtime_stream_wait (cuda_stream s) {
  int code = machine_begin();
  if (code == 0) code = refuse_capture(s);
  return machine_end(code != 0 ? code : run_all(s));
}

int runtime_stream_busy (cuda_stream s) {
  int code = machine_begin();
  if (code == 0) code = refuse_capture(s);
  return machine_end(code != 0 ? code : s->first != NULL ? RUNTIME_NOT_READY : 0);
}

int runtime_free_in (void *data, cuda_stream s) {
  step p = {};
  p.kind = FREE;
  p.to = data;
  int code = machine_begin();
  if (code == 0) code = refuse_capture(s);
  return machine_end(code != 0 ? code : put_step(s, &p));
}

static int put_event (step_kind kind, cuda_event e, cuda_stream s) {
  step p = {};
  p.kind = kind;
  p.event = e;
  if (kind == PUT && s != NULL && s->device != e->device) return MACHINE_INVALID;
  if (kind == PUT) { e->in = s; e->put++; e->captured = s != NULL && s->capture != NULL; }
  p.times = e->put;
  return put_step(s, &p);
}

/* That another stream joins a capture is not emulated. */
int runtime_stream_after (cuda_stream s, cuda_event e) {
  int code = machine_begin();
  if (code == 0 && e->captured && (s == NULL || s->capture == NULL)) code = machine_end_captures();
  return machine_end(code != 0 || e->put == 0 ? code : put_event(AFTER, e, s));
}

int runtime_event_open (cuda_event *e, bool) {
  int code = machine_begin();
  *e = code == 0 ? (cuda_event)calloc(1, sizeof **e) : NULL;
  if (*e != NULL) { (*e)->device = machine_current(); (*e)->refs = 1; }
  return machine_end(code != 0 ? code : *e == NULL ? RUNTIME_NO_MEMORY : 0);
}

int runtime_event_close (cuda_event e) {
  machine_begin();
  drop_event(e);
  return machine_end(0);
}

int runtime_event_put (cuda_event e, cuda_stream s) {
  int code = machine_begin();
  return machine_end(code != 0 ? code : put_event(PUT, e, s));
}

int runtime_event_wait (cuda_event e) {
  int code = machine_begin();
  if (code == 0 && e->captured) {
    e->in->broken = true;
    code = MACHINE_IN_CAPTURE;
  }
  return machine_end(code != 0 ? code : reach(e, e->put));
}

int runtime_event_between (double *seconds, cuda_event from, cuda_event to) {
  int code = machine_begin();
  if (code == 0 && (from->captured || to->captured)) code = MACHINE_IN_CAPTURE;
  *seconds = to->time - from->time;
  return machine_end(code);
}

int runtime_copy (void *to, const void *from, size_t bytes, cuda_stream s) {
  int code = machine_begin();
  if (code == 0 && !(machine_reaches(to, bytes) && machine_reaches(from, bytes)))
    code = machine_lose("a copy that does not wait, from or to memory that is not pinned");
  step p = {};
  p.kind = COPY;
  p.to = to;
  p.from = from;
  p.bytes = bytes;
  return machine_end(code != 0 ? code : put_step(s, &p));
}

int runtime_copy_between (void *to, int, const void *from, int, size_t bytes, cuda_stream s) {
  return runtime_copy(to, from, bytes, s);
}

int runtime_fill (void *to, int byte, size_t bytes, cuda_stream s) {
  step p = {};
  p.kind = FILL;
  p.to = to;
  p.byte = byte;
  p.bytes = bytes;
  int code = machine_begin();
  return machine_end(code != 0 ? code : put_step(s, &p));
}

/* No call of CUDA's: neither counted nor failing. */
void runtime_spoil (void *data, size_t bytes, cuda_stream s) {
  step p = {};
  p.kind = FILL;
  p.to = data;
  p.byte = 0xff;                   /* NaN */
  p.bytes = bytes;
  machine_enter();
  put_step(s, &p);
  machine_end(0);
}

int runtime_capture (cuda_stream s) {
  int code = machine_begin();
  if (code == 0 && s->capture != NULL) code = MACHINE_INVALID;
  if (code != 0) return machine_end(code);
  s->capture = (CUgraphExec_st *)calloc(1, sizeof *s->capture);
  s->broken = false;
  if (s->capture != NULL) s->capture->refs = 1;
  return machine_end(s->capture != NULL ? 0 : RUNTIME_NO_MEMORY);
}

int runtime_capture_end (cuda_stream s, cuda_graph *g) {
  int code = machine_begin();
  *g = s->capture;
  s->capture = NULL;
  if (*g != NULL && (s->broken || code != 0)) {
    drop_graph(*g);
    *g = NULL;
    code = code != 0 ? code : MACHINE_IN_CAPTURE;
  }
  return machine_end(code);
}

int runtime_graph_run (cuda_graph g, cuda_stream s) {
  step p = {};
  p.kind = GRAPH;
  p.graph = g;
  int code = machine_begin();
  return machine_end(code != 0 ? code : put_step(s, &p));
}

int runtime_graph_close (cuda_graph g) {
  machine_begin();
  drop_graph(g);
  return machine_end(0);
}

/* }================================================================== */


/*
** {==================================================================
** runtime.h: launches
** ===================================================================
*/

void *emulated_alloc (size_t bytes) { return malloc(bytes); }

static bool allowed (dim3 blocks, dim3 threads, size_t shared, size_t parameters) {
  uint64_t n = (uint64_t)threads.x * threads.y * threads.z;
  return n >= 1 && n <= (uint64_t)machine_limits.threads && threads.z <= 64 &&
         shared <= (size_t)machine_limits.shared &&
         parameters <= (size_t)machine_limits.parameters && blocks.x >= 1 &&
         blocks.x <= 0x7fffffff && blocks.y >= 1 && blocks.y <= 65535 && blocks.z >= 1 &&
         blocks.z <= 65535;
}

/* The callbacks of the work are the step's from here on, or freed. */
int emulated_launch (dim3 blocks, dim3 threads, size_t shared, cuda_stream s,
                     const emulated_work *work) {
  step p = {};
  p.kind = LAUNCH;
  p.blocks = blocks;
  p.threads = threads;
  p.shared = shared;
  p.work = *work;
  int code = machine_begin();
  if (code == 0 && !allowed(blocks, threads, shared, work->parameters)) code = MACHINE_INVALID;
  if (code == 0 && s->device != machine_current()) code = MACHINE_INVALID;
  if (code != 0) free(work->call);
  return machine_end(code != 0 ? code : put_step(s, &p));
}


/* For a library's stand-in: run(call) in a stream, where it may access the device's memory. */
extern "C" __attribute__((visibility("default")))
int emulated_enqueue (cuda_stream s, void (*run) (void *), void *call);

int emulated_enqueue (cuda_stream s, void (*run) (void *), void *call) {
  const emulated_work work = {run, call, (const void *)run, 0};
  return emulated_launch(dim3(1), dim3(1), 0, s, &work);
}

/* }================================================================== */
