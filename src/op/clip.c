/*
** clip.c - the norm of all gradients, and their scaling to a largest one: one piece of work for all
** of them, or composed where the device or a type lacks it.
*/

#include <math.h>
#include <string.h>

#include "op/compose.h"

/* Where gradients begin in memory; at most half of the places are taken. */
typedef struct starts {
  void **place;
  size_t n;                        /* a power of 2 */
} starts;

typedef struct clipping {
  heed_context *cx;
  int n;
  heed_tensor **gradient;          /* (n), temporaries */
  clip_row *row;                   /* (n) */
  starts begun;
  double max;
  bool scales;                     /* … or the norm alone is wanted */
} clipping;


/* Its elements without gaps, in whatever order; or an empty row. */
static bool lies_compact (const heed_tensor *g) {
  int64_t first, last;
  layout_reach(&g->at, &first, &last);
  return !layout_overlaps_itself(&g->at) && last - first + 1 == layout_numel(&g->at);
}


/* Squares of float64 may leave the range of their sums. */
static bool is_fused (const heed_tensor *g, device *where) {
  return scalar_is_float(g->type) && g->type != HEED_FLOAT64 && !g->number &&
         tensor_device(g) == where && lies_compact(g);
}


/* The lowest element in memory: strides may be negative. */
static void *start_of (const heed_tensor *g) {
  int64_t first, last;
  layout_reach(&g->at, &first, &last);
  return (char *)g->store->data + (size_t)first * scalar_sizes[g->type];
}


/* Adds a row; false: it is there already. */
static bool add_start (const starts *s, void *data) {
  size_t at = (size_t)(((uintptr_t)data >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20);
  for (at &= s->n - 1; s->place[at] != NULL; at = (at + 1) & (s->n - 1))
    if (s->place[at] == data) return false;
  s->place[at] = data;
  return true;
}


/* Does a gradient belong to several parameters? Threads would scale it at the same time. */
static bool any_shared (const clipping *o) {
  memset(o->begun.place, 0, o->begun.n * sizeof *o->begun.place);
  for (int i = 0; i < o->n; i++)
    if (o->row[i].n > 0 && !add_start(&o->begun, o->row[i].data)) return true;
  return false;
}


static bool all_fused (const clipping *o) {
  device *where = tensor_device(*o->gradient);
  if (where == NULL || !where->supports(where, WORK_CLIP, CLIP_SCALE)) return false;
  for (int i = 0; i < o->n; i++) {
    const heed_tensor *g = o->gradient[i];
    if (!is_fused(g, where)) return false;
    const int64_t n = layout_numel(&g->at);
    o->row[i] = (clip_row){.type = g->type, .n = n, .data = n > 0 ? start_of(g) : NULL};
  }
  return !any_shared(o);
}


/* Of the rows that all_fused has filled. */
static heed_tensor *fused (const clipping *o) {
  work w;
  layout one = {.rank = 0};
  heed_tensor *norm = op_new(o->cx, HEED_FLOAT64, &one);
  if (norm == NULL) return NULL;
  for (int i = 0; i < o->n; i++)
    if (!capture_input(o->cx, o->gradient[i])) return NULL;
  work_clip(&w, o->scales ? CLIP_SCALE : CLIP_NORM, o->max, o->n, o->row, view_of(norm));
  core_hold(o->cx);
  bool good = op_run_for(o->cx, HEED_norm, &w);
  core_release(o->cx);
  if (!good) return NULL;
  for (int i = 0; o->scales && i < o->n; i++) {
    o->gradient[i]->store->version++;
    o->gradient[i]->store->changer = HEED_mul;
  }
  return norm;
}


/* Norms of halves are taken in float32, which holds them. */
static heed_tensor *norm_of (heed_tensor *t, double p) {
  if (t == NULL) return NULL;
  t = op_cast(t, scalar_computing(t->type));
  if (t == NULL) return NULL;
  return op_call(t->cx, HEED_norm, 2, (heed_value[]){heed_t(t), heed_f(p)});
}


static heed_tensor *composed_norm (const clipping *o, double p) {
  heed_tensor *all;
  heed_tensor **norm = core_alloc(o->cx, (size_t)o->n * sizeof *norm);
  if (norm == NULL) return NULL;
  for (int i = 0; i < o->n; i++) norm[i] = norm_of(o->gradient[i], p);
  all = op_call(o->cx, HEED_stack, 1, (heed_value[]){heed_ts(o->n, norm)});
  core_free(o->cx, norm, (size_t)o->n * sizeof *norm);
  return norm_of(all, p);
}


/* min(max / (norm + margin), 1) */
static bool scale_composed (const clipping *o, heed_tensor *norm) {
  heed_tensor *factor = op2(HEED_div, op_float(o->cx, o->max), op_shift(norm, CLIP_MARGIN));
  factor = op2(HEED_minimum, factor, op_integer(o->cx, 1));
  bool good = factor != NULL;
  core_hold(o->cx);
  for (int i = 0; good && i < o->n; i++)
    good = heed_apply_in_place(o->cx, HEED_mul, (heed_value[]){heed_t(o->gradient[i]),
                                                               heed_t(factor)}, 2);
  core_release(o->cx);
  return good;
}


static heed_tensor *clip (const clipping *o, double p) {
  heed_context *cx = o->cx;
  heed_type type = op_promote(o->n, o->gradient);
  if (p == 2 && all_fused(o)) {
    cx->scope.device = tensor_device(*o->gradient);
    return op_cast(fused(o), type);
  }
  heed_tensor *norm = composed_norm(o, p);
  if (norm == NULL || (o->scales && !scale_composed(o, norm))) return NULL;
  return op_cast(norm, type);
}


/* Takes the gradients that there are; false for a failure. */
static bool take_gradients (clipping *o, int n, heed_tensor *const *parameters) {
  for (int i = 0; i < n; i++) {
    if (parameters == NULL || parameters[i] == NULL || parameters[i]->cx != o->cx)
      return core_fail(o->cx, "clip_grad_norm", "parameter %d is missing, or belongs to another "
                       "context", i + 1) != NULL;
    if (i % 1024 == 1023 && core_poll(o->cx, "clip_grad_norm")) return false;
    heed_tensor *g = heed_gradient(parameters[i]);
    if (g == NULL) continue;
    g = op_hold(o->cx, g);
    if (g == NULL) return false;
    o->gradient[o->n++] = g;
  }
  return true;
}


static heed_tensor *clip_within (clipping *o, double p, int n, heed_tensor *const *parameters) {
  heed_context *cx = o->cx;
  call_scope s;
  call_begin(cx, "clip_grad_norm", &s);
  cx->scope.recording = false;
  const float_mode mode = float_mode_begin();
  heed_tensor *norm = NULL;
  if (take_gradients(o, n, parameters))
    norm = heed_keep(o->n > 0 ? clip(o, p)
                              : op_zeros(cx, HEED_FLOAT32, &(layout){.rank = 0}));
  float_mode_end(mode);
  call_end(cx, &s);
  return norm;
}


static heed_tensor *clip_all (heed_context *cx, bool scales, double max, double p, int n,
                              heed_tensor *const *parameters) {
  if (cx == NULL) return NULL;
  if (n < 0 || !(max >= 0) || p != p)
    return core_fail(cx, "clip_grad_norm", "a largest norm from 0 on and a power expected, got %g "
                     "and %g, for %d parameters", max, p, n);
  if (core_interrupted(cx, "clip_grad_norm")) return NULL;
  clipping o = {.cx = cx, .max = max, .scales = scales, .begun = {.n = 16}};
  while (o.begun.n < 2 * (size_t)n) o.begun.n *= 2;
  const size_t list = (size_t)n * sizeof *o.gradient, rows = (size_t)n * sizeof *o.row;
  const size_t places = o.begun.n * sizeof *o.begun.place;
  o.gradient = core_alloc(cx, list);
  o.row = core_alloc(cx, rows);
  o.begun.place = core_alloc(cx, places);
  heed_tensor *norm = NULL;
  if (o.gradient != NULL && o.row != NULL && o.begun.place != NULL)
    norm = clip_within(&o, p, n, parameters);
  core_free(cx, o.gradient, list);
  core_free(cx, o.row, rows);
  core_free(cx, o.begun.place, places);
  return norm;
}


heed_tensor *heed_gradient_norm (heed_context *cx, double p, int n,
                                 heed_tensor *const *parameters) {
  return clip_all(cx, false, 0, p, n, parameters);
}


heed_tensor *heed_clip_gradients (heed_context *cx, double max, double p, int n,
                                  heed_tensor *const *parameters) {
  return clip_all(cx, true, max, p, n, parameters);
}
