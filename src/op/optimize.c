/*
** optimize.c - one step of an optimiser over all its parameters: one piece of work on each device,
** or composed where that does not support it.
*/

#include <math.h>

#include "base/optimizer.h"
#include "op/compose.h"


const char *optimize_name (heed_optimizer kind) {
  static const char *const names[] = {
#define OPTIMIZER(NAME, name, ...) #name,
#include "op/optimizers.def"
  };
  return (unsigned)kind < HEED_NOPTIMIZERS ? names[kind] : "optimize";
}


#define OPTIMIZER(NAME, name, formula, decay, begin, options, states) \
  _Static_assert(0 states <= HEED_STATES, #name " has too many states");
#define STATE(name) + 1
#define STATE_IF(name, option) + 1
#include "op/optimizers.def"


static bool refuse (heed_context *cx, heed_optimizer kind, int i, const char *why) {
  return core_fail(cx, optimize_name(kind), "parameter %d %s", i + 1, why) != NULL;
}


/* Is x finite, and least <= x < below? */
static bool check_number (heed_context *cx, heed_optimizer kind, const char *name, double x,
                          double least, double below) {
  const char *who = optimize_name(kind);
  if (isfinite(x) && x >= least && x < below) return true;
  if (isinf(least))
    return core_fail_at(cx, who, name, "a finite number expected, got %g", x) != NULL;
  if (isinf(below))
    return core_fail_at(cx, who, name, "a finite number of at least %g expected, got %g", least,
                        x) != NULL;
  return core_fail_at(cx, who, name, "a number from %g to below %g expected, got %g", least, below,
                      x) != NULL;
}


static bool check_step (heed_context *cx, heed_optimizer kind, const heed_step *step) {
  if (step == NULL || (unsigned)kind >= HEED_NOPTIMIZERS)
    return core_fail(cx, "optimize", "there is no such optimiser, or no step") != NULL;
#define NUMBER(name, least, below) \
  if (!check_number(cx, kind, #name, step->name, least, below)) return false;
#define ENTRY(name, list, i, least, below) NUMBER(name, least, below)
#include "op/optimizers.def"
  return step->step > 0 || core_fail(cx, optimize_name(kind), "steps count from 1") != NULL;
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
         core_fail(cx, optimize_name(kind), "parameter %d has shape %s, its gradient %s", i + 1,
                   layout_text(&p->at, want), layout_text(&g->at, have)) != NULL;
}


/* Parameter and gradient of entry i, dense and of one type. */
static bool set_entry (stepping *o, int i) {
  heed_context *cx = o->cx;
  const heed_optimization *of = o->of;
  heed_tensor *p = of->parameters[i], *g = of->gradients[i];
  optimized *t = &o->list[i];
  if (!check_parameter(cx, of->kind, i, p, g)) return false;
  cx->scope.device = tensor_device(p);
  t->parameter = op_dense(p);
  t->gradient = op_dense(op_cast(g, p->type));
  if (t->parameter == NULL || t->gradient == NULL) return false;
  if (!capture_input(cx, p) || !capture_input(cx, t->gradient)) return false;
  for (int s = 0; s < o->states; s++) {
    t->state[s] = of->states != NULL && of->states[s] != NULL ? of->states[s][i] : NULL;
    if (!check_state(cx, of->kind, i, p, t->state[s])) return false;
    if (!capture_input(cx, t->state[s])) return false;
  }
  return true;
}


/* Holds the new values alone, of all that was made since 'mark'. */
static bool hold_new (heed_context *cx, int64_t mark, optimized *t) {
  heed_tensor **made[1 + HEED_STATES] = {&t->new_parameter};
  for (int s = 0; s < HEED_STATES; s++) made[1 + s] = &t->new_state[s];
  for (int i = 0; i <= HEED_STATES; i++) heed_keep(*made[i]);
  op_drop_temporaries(cx, mark);
  bool good = true;
  for (int i = 0; i <= HEED_STATES; i++)
    if (*made[i] != NULL) good = (*made[i] = op_hold(cx, *made[i])) != NULL && good;
  return good;
}


/* A replay could not give such steps their new numbers. */
static bool compose (stepping *o, int i) {
  heed_context *cx = o->cx;
  const heed_optimization *of = o->of;
  if (cx->capture.where == cx->scope.device)
    return core_fail(cx, optimize_name(of->kind), "a step that is composed on %s cannot be "
                     "captured", cx->scope.device->name) != NULL;
  int64_t mark = cx->graph->temporaries.n;
  return optimize_composed(of->kind, of->step, &o->list[i]) && hold_new(cx, mark, &o->list[i]);
}


static bool prepare_entry (stepping *o, int i) {
  heed_context *cx = o->cx;
  o->list[i] = (optimized){.parameter = NULL};
  if (o->of->gradients[i] == NULL) return true;
  return set_entry(o, i) &&
         (op_supports(cx, WORK_OPTIMIZE, o->of->kind) || compose(o, i));
}


/* *o has arrays for n parameters. */
static bool make_arrays (stepping *o, int n) {
  o->row = core_alloc(o->cx, (size_t)n * sizeof *o->row);
  o->list = core_alloc(o->cx, (size_t)n * sizeof *o->list);
  return o->row != NULL && o->list != NULL;
}


static bool prepare (heed_context *cx, const heed_optimization *of, stepping *o) {
  if (!check_step(cx, of->kind, of->step)) return false;
  if (of->n < 0)
    return core_fail(cx, "optimize", "the number of parameters is negative: %d", of->n) != NULL;
  if (of->n == 0) return true;
  if (of->parameters == NULL || of->gradients == NULL)
    return core_fail(cx, "optimize", "there are no parameters, or no gradients") != NULL;
  for (int i = 0; i < of->n; i++) {
    const heed_tensor *p = of->parameters[i];
    if (p == NULL) return refuse(cx, of->kind, i, "is missing");
    if (p->cx != cx) return refuse(cx, of->kind, i, "belongs to another context");
  }
  o->states = optimizer_states(of->kind, of->step);
  bool good = make_arrays(o, of->n);
  for (int i = 0; good && i < of->n; i++) good = prepare_entry(o, i);
  return good;
}


/* Failures of a step that has no caller bear its optimiser's name. Returns the caller before. */
static const char *call_step (heed_context *cx, heed_optimizer kind) {
  const char *caller = cx->scope.caller;
  if (caller == NULL) cx->scope.caller = optimize_name(kind);
  return caller;
}


bool optimize_prepare (heed_context *cx, const heed_optimization *of, stepping *o) {
  *o = (stepping){.cx = cx, .of = of};
  const char *caller = call_step(cx, of->kind);
  bool good = prepare(cx, of, o);
  cx->scope.caller = caller;
  return good;
}


static void mark_changed (heed_tensor *t) {
  t->store->version++;
  t->store->changer = HEED_sub;
}


/* A copy is brought back; all that was changed is marked so. */
static bool finish (const stepping *o, int i) {
  const optimized *t = &o->list[i];
  for (int s = 0; s < o->states; s++) mark_changed(t->state[s]);
  if (t->parameter != o->of->parameters[i])
    return graph_write(o->of->parameters[i], t->parameter, HEED_copy, NULL);
  mark_changed(t->parameter);
  return true;
}


static void *data_of (const heed_tensor *t) { return t != NULL ? view_of(t).data : NULL; }


/* One piece of work for all on the current device. */
static bool fused (const stepping *o) {
  work w;
  int64_t rows = 0;
  for (int i = 0; i < o->of->n; i++) {
    const optimized *t = &o->list[i];
    if (t->parameter == NULL || tensor_device(t->parameter) != o->cx->scope.device) continue;
    optimize_row *row = &o->row[rows++];
    *row = (optimize_row){.type = t->parameter->type, .n = layout_numel(&t->parameter->at),
                          .parameter = data_of(t->parameter), .gradient = data_of(t->gradient)};
    for (int s = 0; s < HEED_STATES; s++) row->state[s] = data_of(t->state[s]);
  }
  work_optimize(&w, o->of->kind, rows, o->row, o->of->step);
  return rows == 0 || op_run_for(o->cx, HEED_NOPS, &w);
}


/* One parameter after the other. */
static bool composed (const stepping *o) {
  bool good = true;
  for (int i = 0; i < o->of->n; i++) {
    const optimized *t = &o->list[i];
    if (t->parameter == NULL || tensor_device(t->parameter) != o->cx->scope.device) continue;
    good = optimize_store(t) && good;
  }
  return good;
}


bool optimize_work (const stepping *o) {
  heed_context *cx = o->cx;
  const char *caller = call_step(cx, o->of->kind);
  bool good = true;
  for (int i = 0; good && o->list != NULL && i < cx->devices.n; i++) {
    cx->scope.device = cx->devices.list[i];
    good = (op_supports(cx, WORK_OPTIMIZE, o->of->kind) ? fused : composed)(o);
  }
  for (int i = 0; good && i < o->of->n; i++)
    if (o->list[i].parameter != NULL) good = finish(o, i);
  cx->scope.caller = caller;
  return good;
}


void optimize_end (stepping *o) {
  core_free(o->cx, o->row, (size_t)o->of->n * sizeof *o->row);
  core_free(o->cx, o->list, (size_t)o->of->n * sizeof *o->list);
}


bool heed_optimize (heed_context *cx, heed_optimizer kind, const heed_step *step, int n,
                    heed_tensor *const *parameters, heed_tensor *const *gradients,
                    heed_tensor *const *const *states) {
  const heed_optimization of = {.kind = kind, .step = step, .n = n, .parameters = parameters,
                                .gradients = gradients, .states = states};
  return heed_commit(cx, &(heed_changes){.nsteps = 1, .steps = &of});
}
