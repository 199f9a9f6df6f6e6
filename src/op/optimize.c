/*
** optimize.c - one step of an optimiser over all its parameters, as one piece of work.
*/

#include <math.h>

#include "op/op.h"


static const char *name_of (heed_optimizer kind) {
  static const char *const names[] = {"SGD", "Adam", "AdamW"};
  return names[kind];
}


/* Buffers that a parameter has. */
static int states_of (heed_optimizer kind, const heed_step *step) {
  if (kind == HEED_SGD) return step->momentum != 0;
  return step->amsgrad ? 3 : 2;
}


static bool refuse (heed_context *cx, heed_optimizer kind, int i, const char *why) {
  return core_fail(cx, "%s: parameter %d %s", name_of(kind), i + 1, why) != NULL;
}


static bool check_step (heed_context *cx, heed_optimizer kind, const heed_step *step) {
  if (step == NULL || (unsigned)kind > HEED_ADAMW)
    return core_fail(cx, "optimize: there is no such optimiser, or no step");
  bool adam = kind != HEED_SGD;
  const double number[] = {step->lr, step->weight_decay, step->momentum, step->eps};
  for (int i = 0; i < 4; i++)
    if (!(number[i] >= 0))
      return core_fail(cx, "%s: numbers from 0 on expected, got %g", name_of(kind), number[i]);
  if (adam && !(step->beta1 >= 0 && step->beta1 < 1 && step->beta2 >= 0 && step->beta2 < 1))
    return core_fail(cx, "%s: betas from 0 to 1 expected, got %g and %g", name_of(kind),
                     step->beta1, step->beta2);
  return step->step > 0 || core_fail(cx, "%s: steps count from 1", name_of(kind)) != NULL;
}


/* States are written where they lie: row by row, without gaps. */
static bool check_state (heed_context *cx, heed_optimizer kind, int i, const heed_tensor *p,
                         const heed_tensor *t) {
  if (t == NULL) return refuse(cx, kind, i, "lacks a state");
  if (t->cx != cx) return refuse(cx, kind, i, "has a state of another context");
  if (t->number || !layout_is_dense(&t->at))
    return refuse(cx, kind, i, "has a state that does not lie dense in memory");
  if (tensor_device(t) != tensor_device(p)) return refuse(cx, kind, i, "has a state elsewhere");
  return (t->type == p->type && layout_same_shape(&t->at, &p->at)) ||
         refuse(cx, kind, i, "has a state of another type or shape");
}


static bool check_parameter (heed_context *cx, heed_optimizer kind, int i, const heed_tensor *p,
                             const heed_tensor *g) {
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  if (g->cx != cx) return refuse(cx, kind, i, "has a gradient of another context");
  if (p->number || !scalar_is_float(p->type)) return refuse(cx, kind, i, "is of no float type");
  if (layout_overlaps_itself(&p->at)) return refuse(cx, kind, i, "is expanded");
  if (!g->number && tensor_device(g) != tensor_device(p))
    return refuse(cx, kind, i, "has a gradient on another device");
  return layout_same_shape(&g->at, &p->at) ||
         core_fail(cx, "%s: parameter %d has shape %s, its gradient %s", name_of(kind), i + 1,
                   layout_text(&p->at, want), layout_text(&g->at, have)) != NULL;
}


static void *data_of (const heed_tensor *t) { return view_of(t).data; }


typedef struct stepping {
  heed_context *cx;
  heed_optimizer kind;
  const heed_step *step;
  int states;
  heed_tensor *const *const *state;
  int64_t rows;
  optimize_row *row;
  heed_tensor **dense;             /* of each parameter: itself, a dense copy, NULL if left out */
} stepping;


static bool set_row (stepping *o, int i, heed_tensor *p, heed_tensor *g) {
  optimize_row *row = &o->row[o->rows++];
  if (!check_parameter(o->cx, o->kind, i, p, g)) return false;
  o->dense[i] = op_dense(p);
  g = op_dense(op_cast(g, p->type));
  if (o->dense[i] == NULL || g == NULL) return false;
  capture_input(o->cx, p);
  capture_input(o->cx, g);
  *row = (optimize_row){.type = p->type, .n = layout_numel(&p->at),
                        .parameter = data_of(o->dense[i]), .gradient = data_of(g)};
  for (int s = 0; s < o->states; s++) {
    heed_tensor *t = o->state != NULL && o->state[s] != NULL ? o->state[s][i] : NULL;
    if (!check_state(o->cx, o->kind, i, p, t)) return false;
    capture_input(o->cx, t);
    row->state[s] = data_of(t);
  }
  return true;
}


static bool run_rows (const stepping *o) {
  work w;
  w.kind = WORK_OPTIMIZE;
  w.op = o->kind;
  w.nin = w.nout = 0;
  w.mask.n = 0;
  w.count[0] = o->rows;
  w.rows = o->row;
  w.step = *o->step;
  return o->rows == 0 || op_run_for(o->cx, HEED_NOPS, &w);
}


static void mark_changed (heed_tensor *t) {
  t->store->version++;
  t->store->changer = HEED_sub;
}


/* Copies are brought back; all that was changed is marked so. */
static bool finish (const stepping *o, int n, heed_tensor *const *parameters) {
  bool good = true;
  for (int i = 0; i < n; i++) {
    if (o->dense[i] == NULL) continue;
    heed_value args[] = {heed_t(parameters[i]), heed_t(o->dense[i])};
    if (o->dense[i] == parameters[i]) mark_changed(parameters[i]);
    else good = heed_apply_in_place(o->cx, HEED_copy, args, 2) && good;
    for (int s = 0; s < o->states; s++) mark_changed(o->state[s][i]);
  }
  return good;
}


/* Those of the parameters that are here. */
static bool optimize_here (stepping *o, int n, heed_tensor *const *parameters,
                           heed_tensor *const *gradients) {
  o->rows = 0;
  for (int i = 0; i < n; i++) {
    o->dense[i] = NULL;
    if (gradients[i] == NULL) continue;
    device *where = tensor_device(parameters[i]);           /* a number has none, and is refused */
    if ((where == NULL || where == o->cx->current) && !set_row(o, i, parameters[i], gradients[i]))
      return false;
  }
  return run_rows(o) && finish(o, n, parameters);
}


/* One device after the other. */
static bool optimize (stepping *o, int n, heed_tensor *const *parameters,
                      heed_tensor *const *gradients) {
  heed_context *cx = o->cx;
  device *before = cx->current;
  for (int i = 0; i < n; i++) {
    if (parameters[i] == NULL) return refuse(cx, o->kind, i, "is missing");
    if (parameters[i]->cx != cx) return refuse(cx, o->kind, i, "belongs to another context");
  }
  cx->current = cx->cpu;
  bool good = optimize_here(o, n, parameters, gradients);
  for (int i = 0; good && i < CORE_GPUS; i++) {
    cx->current = cx->gpu[i];
    good = cx->current == NULL || optimize_here(o, n, parameters, gradients);
  }
  cx->current = before;
  return good;
}


bool heed_optimize (heed_context *cx, heed_optimizer kind, const heed_step *step, int n,
                    heed_tensor *const *parameters, heed_tensor *const *gradients,
                    heed_tensor *const *const *states) {
  if (cx == NULL || n < 0 || !check_step(cx, kind, step)) return false;
  if (n == 0) return true;
  if (parameters == NULL || gradients == NULL)
    return core_fail(cx, "optimize: there are no parameters, or no gradients");
  stepping o = {.cx = cx, .kind = kind, .step = step, .states = states_of(kind, step),
                .state = states};
  size_t rows = (size_t)n * sizeof *o.row, list = (size_t)n * sizeof *o.dense;
  o.row = core_alloc(cx, rows);
  o.dense = core_alloc(cx, list);
  int mark = cx->ntemporaries;
  bool recording = heed_set_recording(cx, false);
  bool good = o.row != NULL && o.dense != NULL && optimize(&o, n, parameters, gradients);
  while (cx->ntemporaries > mark) heed_drop(cx->temporaries[--cx->ntemporaries]);
  heed_set_recording(cx, recording);
  core_free(cx, o.row, rows);
  core_free(cx, o.dense, list);
  return good;
}
