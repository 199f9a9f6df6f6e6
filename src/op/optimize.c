/*
** optimize.c - one step of an optimiser over all its parameters: one piece of work on each device,
** or composed where that does not support it.
*/

#include <math.h>

#include "base/optimizer.h"
#include "op/compose.h"


static const char *name_of (heed_optimizer kind) {
  static const char *const names[] = {
#define OPTIMIZER(NAME, name, ...) #name,
#include "op/optimizers.def"
  };
  return names[kind];
}


#define OPTIMIZER(NAME, name, formula, decay, begin, options, states) \
  _Static_assert(0 states <= HEED_STATES, #name " has too many states");
#define STATE(name) + 1
#define STATE_IF(name, option) + 1
#include "op/optimizers.def"


static bool refuse (heed_context *cx, heed_optimizer kind, int i, const char *why) {
  return core_fail(cx, name_of(kind), "parameter %d %s", i + 1, why) != NULL;
}


/* Is x finite, and least <= x < below? */
static bool check_number (heed_context *cx, heed_optimizer kind, const char *name, double x,
                          double least, double below) {
  if (isfinite(x) && x >= least && x < below) return true;
  if (isinf(least))
    return core_fail_at(cx, name_of(kind), name, "a finite number expected, got %g", x) != NULL;
  if (isinf(below))
    return core_fail_at(cx, name_of(kind), name, "a finite number of at least %g expected, got %g",
                        least, x) != NULL;
  return core_fail_at(cx, name_of(kind), name, "a number from %g to below %g expected, got %g",
                      least, below, x) != NULL;
}


static bool check_step (heed_context *cx, heed_optimizer kind, const heed_step *step) {
  if (step == NULL || (unsigned)kind >= HEED_NOPTIMIZERS)
    return core_fail(cx, "optimize", "there is no such optimiser, or no step") != NULL;
#define NUMBER(name, least, below) \
  if (!check_number(cx, kind, #name, step->name, least, below)) return false;
#define ENTRY(name, list, i, least, below) NUMBER(name, least, below)
#include "op/optimizers.def"
  return step->step > 0 || core_fail(cx, name_of(kind), "steps count from 1") != NULL;
}


/* States are written where they lie: row by row, without gaps. */
static bool check_state (heed_context *cx, heed_optimizer kind, int i, const heed_tensor *p,
                         const heed_tensor *t) {
  if (t == NULL) return refuse(cx, kind, i, "lacks a state");
  if (t->cx != cx) return refuse(cx, kind, i, "has a state of another context");
  if (t->number || !layout_is_dense(&t->at))
    return refuse(cx, kind, i, "has a state that does not lie dense in memory");
  if (tensor_device(t) != tensor_device(p))
    return refuse(cx, kind, i, "has a state on another device");
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
         core_fail(cx, name_of(kind), "parameter %d has shape %s, its gradient %s", i + 1,
                   layout_text(&p->at, want), layout_text(&g->at, have)) != NULL;
}


typedef struct stepping {
  heed_context *cx;
  heed_optimizer kind;
  const heed_step *step;
  int n, states;                   /* parameters, and states that each of them has */
  heed_tensor *const *parameter, *const *gradient;
  heed_tensor *const *const *state;
  optimized *list;                 /* of each parameter; one that is left out is NULL in it */
  optimize_row *row;
} stepping;


/* Parameter and gradient of entry i, dense and of one type. */
static bool set_entry (stepping *o, int i) {
  heed_context *cx = o->cx;
  heed_tensor *p = o->parameter[i], *g = o->gradient[i];
  optimized *t = &o->list[i];
  if (!check_parameter(cx, o->kind, i, p, g)) return false;
  t->parameter = op_dense(p);
  t->gradient = op_dense(op_cast(g, p->type));
  if (t->parameter == NULL || t->gradient == NULL) return false;
  capture_input(cx, p);
  capture_input(cx, t->gradient);
  for (int s = 0; s < o->states; s++) {
    t->state[s] = o->state != NULL && o->state[s] != NULL ? o->state[s][i] : NULL;
    if (!check_state(cx, o->kind, i, p, t->state[s])) return false;
    capture_input(cx, t->state[s]);
  }
  return true;
}


static void mark_changed (heed_tensor *t) {
  t->store->version++;
  t->store->changer = HEED_sub;
}


/* A copy is brought back; all that was changed is marked so. */
static bool finish (const stepping *o, int i) {
  const optimized *t = &o->list[i];
  for (int s = 0; s < o->states; s++) mark_changed(t->state[s]);
  if (t->parameter != o->parameter[i])
    return heed_apply_in_place(o->cx, HEED_copy, (heed_value[]){heed_t(o->parameter[i]),
                                                                heed_t(t->parameter)}, 2);
  mark_changed(t->parameter);
  return true;
}


static void *data_of (const heed_tensor *t) { return t != NULL ? view_of(t).data : NULL; }


/* One piece of work for all. */
static bool fused (const stepping *o) {
  work w;
  int64_t rows = 0;
  bool good = true;
  for (int i = 0; i < o->n; i++) {
    const optimized *t = &o->list[i];
    if (t->parameter == NULL) continue;
    optimize_row *row = &o->row[rows++];
    *row = (optimize_row){.type = t->parameter->type, .n = layout_numel(&t->parameter->at),
                          .parameter = data_of(t->parameter), .gradient = data_of(t->gradient)};
    for (int s = 0; s < HEED_STATES; s++) row->state[s] = data_of(t->state[s]);
  }
  work_optimize(&w, o->kind, rows, o->row, o->step);
  if (rows > 0 && !op_run_for(o->cx, HEED_NOPS, &w)) return false;
  for (int i = 0; i < o->n; i++)
    if (o->list[i].parameter != NULL) good = finish(o, i) && good;
  return good;
}


/* One parameter after the other. A replay could not give such steps their new numbers. */
static bool composed (const stepping *o) {
  heed_context *cx = o->cx;
  if (cx->capture.where == cx->scope.device)
    return core_fail(cx, name_of(o->kind), "a step that is composed on %s cannot be captured",
                     cx->scope.device->name) != NULL;
  for (int i = 0; i < o->n; i++) {
    int64_t mark = cx->graph->temporaries.n;
    if (o->list[i].parameter == NULL) continue;
    if (!optimize_composed(o->kind, o->step, &o->list[i]) || !finish(o, i)) return false;
    op_drop_temporaries(cx, mark);
  }
  return true;
}


/* Those of the parameters that are on the current device. */
static bool step_on_device (stepping *o) {
  heed_context *cx = o->cx;
  int found = 0;
  for (int i = 0; i < o->n; i++) {
    o->list[i] = (optimized){.parameter = NULL};
    if (o->gradient[i] == NULL) continue;
    device *where = tensor_device(o->parameter[i]);         /* a number has none, and is refused */
    if (where != NULL && where != cx->scope.device) continue;
    if (!set_entry(o, i)) return false;
    found++;
  }
  if (found == 0) return true;
  return (op_supports(cx, WORK_OPTIMIZE, o->kind) ? fused : composed)(o);
}


/* One device after the other. */
static bool step_everywhere (stepping *o) {
  heed_context *cx = o->cx;
  for (int i = 0; i < o->n; i++) {
    const heed_tensor *p = o->parameter[i];
    if (p == NULL) return refuse(cx, o->kind, i, "is missing");
    if (p->cx != cx) return refuse(cx, o->kind, i, "belongs to another context");
  }
  bool good = true;
  for (int i = 0; good && i < cx->devices.n; i++) {
    cx->scope.device = cx->devices.list[i];
    good = step_on_device(o);
  }
  return good;
}


static bool step_within (stepping *o) {
  heed_context *cx = o->cx;
  const call_scope s = call_begin(cx, name_of(o->kind));
  cx->scope.recording = false;
  core_hold(cx);
  const float_mode mode = float_mode_begin();
  const bool good = step_everywhere(o);
  float_mode_end(mode);
  core_release(cx);
  call_end(cx, &s);
  return good;
}


bool heed_optimize (heed_context *cx, heed_optimizer kind, const heed_step *step, int n,
                    heed_tensor *const *parameters, heed_tensor *const *gradients,
                    heed_tensor *const *const *states) {
  if (cx == NULL || n < 0 || !check_step(cx, kind, step)) return false;
  if (n == 0) return true;
  if (core_interrupted(cx, name_of(kind))) return false;
  if (parameters == NULL || gradients == NULL)
    return core_fail(cx, "optimize", "there are no parameters, or no gradients") != NULL;
  stepping o = {.cx = cx, .kind = kind, .step = step, .n = n,
                .states = optimizer_states(kind, step), .parameter = parameters,
                .gradient = gradients, .state = states};
  size_t rows = (size_t)n * sizeof *o.row, list = (size_t)n * sizeof *o.list;
  o.row = core_alloc(cx, rows);
  o.list = core_alloc(cx, list);
  const bool good = o.row != NULL && o.list != NULL && step_within(&o);
  core_free(cx, o.row, rows);
  core_free(cx, o.list, list);
  return good;
}
