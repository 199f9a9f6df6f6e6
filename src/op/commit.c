/*
** commit.c - changes of many tensors, which are all made or not at all: first whatever can be
** refused and whatever needs memory, then the changes.
*/

#include "op/compose.h"


typedef struct commit {
  heed_context *cx;
  const heed_changes *of;
  stepping one, *step;             /* prepared: this many; 'one' is for a single step */
  int steps;
  heed_tensor **operand, **gradient;     /* of each target, and of each taker: temporaries */
  heed_tensor *number;
} commit;


/* Is list[i] there, a tensor of this context? */
static bool check_own (const commit *m, const char *what, heed_tensor *const *list, int i) {
  if (list != NULL && list[i] != NULL && list[i]->cx == m->cx) return true;
  const char *why = list == NULL || list[i] == NULL ? "is missing" : "belongs to another context";
  return core_fail(m->cx, "commit", "%s %d %s", what, i + 1, why) != NULL;
}


static void *array (const commit *m, int n, size_t size) {
  return n > 0 ? core_alloc(m->cx, (size_t)n * size) : NULL;
}


static bool prepare_steps (commit *m) {
  const heed_changes *of = m->of;
  if (of->nsteps > 0 && of->steps == NULL)
    return core_fail(m->cx, "commit", "there are no steps") != NULL;
  m->step = of->nsteps == 1 ? &m->one : array(m, of->nsteps, sizeof *m->step);
  for (int i = 0; m->step != NULL && i < of->nsteps; i++)
    if (!optimize_prepare(m->cx, &of->steps[i], &m->step[m->steps++])) return false;
  return m->steps == of->nsteps;
}


static bool prepare_target (const commit *m, int i) {
  const heed_changes *of = m->of;
  heed_tensor *t = of->targets != NULL ? of->targets[i] : NULL;
  if (!check_own(m, "target", of->targets, i)) return false;
  if (of->op != HEED_mul && !check_own(m, "operand", of->operands, i)) return false;
  if (of->op != HEED_copy && !scalar_is_float(t->type))
    return core_fail(m->cx, "commit", "target %d is of no float type", i + 1) != NULL;
  if (of->op == HEED_lerp && scalar_is_block(of->operands[i]->type))
    return core_fail(m->cx, "commit", "operand %d: values expected, got blocks of type %s", i + 1,
                     scalar_names[of->operands[i]->type]) != NULL;
  m->operand[i] = graph_operand(t, of->op != HEED_mul ? of->operands[i] : NULL);
  return m->operand[i] != NULL && capture_input(m->cx, t) && capture_input(m->cx, m->operand[i]);
}


/* An operand whose memory a target before it has is copied: all are read as they were. */
static bool copy_written (const commit *m) {
  const heed_changes *of = m->of;
  const int64_t number = ++m->cx->storages.commits;
  for (int i = 0; i < of->ntargets; i++) {
    heed_tensor *t = of->targets[i], **x = &m->operand[i];
    const bool written = (*x)->store != NULL && (*x)->store->commit == number;
    if (written && (*x = op1(HEED_clone, *x)) == NULL) return false;
    if (t->store != NULL) t->store->commit = number;
  }
  return true;
}


static bool prepare_targets (commit *m) {
  const heed_changes *of = m->of;
  if (of->ntargets == 0) return true;
  if (of->op != HEED_copy && of->op != HEED_lerp && of->op != HEED_mul)
    return core_fail(m->cx, "commit", "no tensors are written by this operation") != NULL;
  m->operand = array(m, of->ntargets, sizeof *m->operand);
  m->number = op_float(m->cx, of->number);
  bool good = m->operand != NULL && m->number != NULL;
  for (int i = 0; good && i < of->ntargets; i++) good = prepare_target(m, i);
  return good && (of->op == HEED_mul || copy_written(m));
}


static bool prepare_taker (const commit *m, int i) {
  const heed_changes *of = m->of;
  heed_tensor *t = of->takers != NULL ? of->takers[i] : NULL;
  heed_tensor *from = of->givers != NULL ? of->givers[i] : NULL;
  heed_tensor *g = of->gradients != NULL ? of->gradients[i] : NULL;
  if (of->gradients != NULL) m->gradient[i] = NULL;
  if (!check_own(m, "taker", of->takers, i)) return false;
  if (from != NULL && !tensor_may_take_over(t, from)) return false;
  if (!tensor_has_gradient(t, g != NULL)) return false;
  if (g == NULL) return true;
  m->gradient[i] = op_hold(m->cx, tensor_gradient_for(from != NULL ? from : t, g));
  return m->gradient[i] != NULL;
}


static bool prepare_takers (commit *m) {
  const int n = m->of->ntakers;
  bool good = m->of->gradients == NULL;
  if (!good) good = (m->gradient = array(m, n, sizeof *m->gradient)) != NULL;
  for (int i = 0; good && i < n; i++) good = prepare_taker(m, i);
  return good;
}


static bool make_changes (const commit *m) {
  const heed_changes *of = m->of;
  bool good = true;
  core_hold(m->cx);
  for (int i = 0; good && i < m->steps; i++) good = optimize_work(&m->step[i]);
  for (int i = 0; good && i < of->ntargets; i++) {
    const heed_tensor *x = of->op != HEED_mul ? m->operand[i] : NULL;
    good = graph_write(of->targets[i], x, of->op, m->number);
  }
  for (int i = 0; good && i < of->ntakers; i++) {
    heed_tensor *t = of->takers[i], *from = of->givers != NULL ? of->givers[i] : NULL;
    if (from != NULL) tensor_take_over(t, from);
    tensor_put_gradient(t, m->gradient != NULL ? heed_keep(m->gradient[i]) : NULL);
  }
  core_release(m->cx);
  return good;
}


static void end (commit *m) {
  heed_context *cx = m->cx;
  const heed_changes *of = m->of;
  for (int i = 0; i < m->steps; i++) optimize_end(&m->step[i]);
  if (of->nsteps > 1) core_free(cx, m->step, (size_t)of->nsteps * sizeof *m->step);
  core_free(cx, m->operand, (size_t)of->ntargets * sizeof *m->operand);
  core_free(cx, m->gradient, (size_t)of->ntakers * sizeof *m->gradient);
}


/* The name of the changes in messages. */
static const char *name_of (const heed_changes *changes) {
  return changes->nsteps > 0 && changes->steps != NULL ? optimize_name(changes->steps->kind)
                                                       : "commit";
}


bool heed_commit (heed_context *cx, const heed_changes *changes) {
  commit m = {.cx = cx, .of = changes};
  if (cx == NULL || changes == NULL) return false;
  if (!changes->uninterrupted && core_interrupted(cx, name_of(changes))) return false;
  const char *name = cx->scope.caller != NULL ? cx->scope.caller : name_of(changes);
  const heed_region around = heed_region_begin(cx, name);
  call_scope s;
  call_begin(cx, NULL, &s);
  cx->stop.held += changes->uninterrupted;
  const float_mode mode = float_mode_begin();
  cx->scope.recording = false;
  bool good = prepare_steps(&m) && prepare_targets(&m) && prepare_takers(&m) && make_changes(&m);
  float_mode_end(mode);
  cx->stop.held -= changes->uninterrupted;
  end(&m);
  call_end(cx, &s);
  heed_region_end(cx, around);
  return good;
}
