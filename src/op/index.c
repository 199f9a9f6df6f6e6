/*
** index.c - elements at positions that tensors hold: read, written, counted.
**
** Devices take positions from 1 to the size of an axis and check them. Positions that count
** from the end are turned around here, if there are any.
*/

#include <inttypes.h>

#include "op/move.h"


/*
** {==================================================================
** Positions
** ===================================================================
*/

/* One element of t, reduced whole, as a number on the host. */
static bool lowest (call *c, heed_tensor *t, int64_t *value) {
  heed_tensor *y = op_new_sized(c->cx, HEED_INT64, 0, NULL);
  work w;
  if (y == NULL) return false;
  w.kind = WORK_REDUCE;
  w.op = REDUCE_MIN;
  w.nout = w.nin = 1;
  w.mask.n = 0;
  w.count[0] = t->at.rank;
  w.out[0] = tensor_seen(y);
  w.in[0] = tensor_seen(t);
  return op_run(c, &w) && heed_read(y, HEED_INT64, value);
}


/* -1 becomes n, -n becomes 1; what lies outside stays for the device to name. */
static heed_tensor *turned (heed_tensor *t, int64_t n) {
  heed_context *cx = t->cx;
  heed_tensor *negative = op2(HEED_lt, t, op_whole(cx, 0));
  heed_tensor *inside = op2(HEED_ge, t, op_whole(cx, -n));
  return op3(HEED_where, op2(HEED_logical_and, negative, inside),
             op2(HEED_add, t, op_whole(cx, n + 1)), t);
}


/* Positions in an axis of size n, with storage; a host looks first whether any is negative. */
static heed_tensor *positions (call *c, heed_tensor *t, int64_t n) {
  int64_t low = -1;
  if (!tensor_settle(t)) return NULL;
  if (layout_numel(&t->at) == 0) return t;
  if (t->store->where->host && !lowest(c, t, &low)) return NULL;
  return low < 0 ? turned(t, n) : t;
}

/* }================================================================== */


/*
** {==================================================================
** Along one axis: gather, scatter. A tensor of rank 0 is seen as one of rank 1.
** ===================================================================
*/

static layout lifted (const layout *at) { return at->rank > 0 ? *at : layout_insert(at, 0); }


/* Is 'small' nowhere larger than 'large', but perhaps along 'axis' (-1: nowhere)? */
static bool check_within (call *c, int i, const layout *small, int j, const layout *large,
                          int axis) {
  char one[LAYOUT_TEXT], other[LAYOUT_TEXT];
  bool fits = small->rank == large->rank;
  for (int k = 0; fits && k < small->rank; k++)
    fits = k == axis || small->size[k] <= large->size[k];
  return fits || check_refuse(c, i, "shape %s does not fit into the shape %s of argument '%s'",
                              layout_text(small, one), layout_text(large, other),
                              check_name(c, j));
}


/* t's storage seen with the shape of the index, standing still along the axis. */
static view seen_along (const heed_tensor *t, const layout *index, int axis) {
  layout at = lifted(&t->at);
  memcpy(at.size, index->size, (size_t)index->rank * sizeof *at.size);
  if (axis >= 0) at.stride[axis] = 0;
  return tensor_seen_as(t, &at);
}


/* What gather and scatter share: c->args[1] is the axis, [2] the index. */
static bool set_along (call *c, work *w, heed_tensor *held, layout *index, int *axis) {
  layout large = lifted(&held->at);
  if (!check_axis(c, 1, large.rank, axis) || !check_index_type(c, 2)) return false;
  *index = lifted(&c->args[2].tensor->at);
  if (!check_within(c, 2, index, 0, &large, *axis)) return false;
  heed_tensor *place = positions(c, c->args[2].tensor, large.size[*axis]);
  if (place == NULL) return false;
  w->nout = 1;
  w->nin = 2;
  w->mask.n = 0;
  w->count[0] = large.stride[*axis];
  w->count[1] = large.size[*axis];
  w->in[1] = seen_along(place, index, -1);
  return true;
}


bool do_gather (call *c) {
  heed_tensor *t = c->args[0].tensor;
  work w;
  layout index;
  int axis;
  if (!tensor_settle(t) || !set_along(c, &w, t, &index, &axis)) return false;
  heed_tensor *y = op_new(c->cx, t->type, &c->args[2].tensor->at);
  if (y == NULL) return false;
  w.kind = WORK_GATHER;
  w.op = c->op;
  w.in[0] = seen_along(t, &index, axis);
  w.out[0] = seen_along(y, &index, -1);
  return (layout_numel(&index) == 0 || op_run(c, &w)) && give_out(c, y);
}


static bool shares (const heed_tensor *a, const heed_tensor *b) {
  return a->store != NULL && a->store == b->store;
}


/* The input's values in a tensor that may be written: the target, unless it is read as well. */
static heed_tensor *written (call *c, heed_tensor *input, bool read) {
  if (c->into == input && !read) return input;
  return move_taken(c, input, &input->at);
}


/* c->args[3] holds the values: as large as the index at least, or one for all. */
static bool seen_values (call *c, heed_tensor *src, const layout *index, view *seen) {
  if (!tensor_settle(src)) return false;
  if (src->at.rank == 0) return move_see(src, index, seen);
  if (!check_within(c, 2, index, 3, &src->at, -1)) return false;
  *seen = seen_along(src, index, -1);
  return true;
}


static bool scatter (call *c, scatter_kind kind) {
  heed_tensor *t = c->args[0].tensor, *src = move_value(c, 3, t->type);
  work w;
  layout index;
  int axis;
  if (src == NULL) return false;
  heed_tensor *y = written(c, t, shares(t, src) || shares(t, c->args[2].tensor));
  if (y == NULL || !set_along(c, &w, y, &index, &axis)) return false;
  if (!seen_values(c, src, &index, &w.in[0])) return false;
  w.kind = WORK_SCATTER;
  w.op = kind;
  w.out[0] = seen_along(y, &index, axis);
  return (layout_numel(&index) == 0 || op_run(c, &w)) && give_out(c, y);
}


bool do_scatter (call *c) { return scatter(c, SCATTER_SET); }

bool do_scatter_add (call *c) { return scatter(c, SCATTER_ADD); }

/* }================================================================== */


/*
** {==================================================================
** By a list of tensors, one for each axis: take, put, embedding
** ===================================================================
*/

/* What a list of indices aims at in a tensor. */
typedef struct aim {
  int n;                           /* tensors in the list, those of truths replaced */
  heed_tensor *index[HEED_RANK];   /* NULL: the axis is taken whole */
  layout spread;                   /* the shape of all index tensors together */
  int place;                       /* where its axes stand in the result */
  layout shape;                    /* of the result, dense */
  view seen[HEED_RANK];            /* the n index tensors, with that shape */
  int64_t count[2 * HEED_RANK];    /* of the work */
} aim;


static bool refuse_index (call *c, int i, int k, const heed_tensor *t) {
  return check_refuse(c, i, "entry %d: positions (int64) or truths (bool) expected, got %s%s",
                      k + 1, scalar_names[t->type],
                      t->at.rank == 0 && t->type == HEED_BOOL ? " of rank 0" : "");
}


/* A tensor of truths stands for its rank of axes: the positions of those that are true. */
static bool add_truths (call *c, int i, int k, heed_tensor *t, const layout *at, aim *a) {
  layout axes = *at;
  char one[LAYOUT_TEXT], other[LAYOUT_TEXT];
  if (t->at.rank == 0) return refuse_index(c, i, k, t);
  axes.rank = t->at.rank;
  if (a->n + t->at.rank <= at->rank)
    memcpy(axes.size, at->size + a->n, (size_t)axes.rank * sizeof *axes.size);
  if (a->n + t->at.rank > at->rank || !layout_same_shape(&axes, &t->at))
    return check_refuse(c, i, "entry %d: truths of shape %s do not fit a tensor of shape %s from "
                        "dimension %d on", k + 1, layout_text(&t->at, one),
                        layout_text(at, other), a->n + 1);
  heed_tensor *where = op1(HEED_nonzero, t);     /* (found, rank) */
  for (int axis = 0; axis < axes.rank && where != NULL; axis++) {
    layout column = layout_select(&where->at, 1, axis);
    if ((a->index[a->n++] = op_view(where, &column)) == NULL) return false;
  }
  return where != NULL;
}


static bool read_indices (call *c, int i, const layout *at, aim *a) {
  const heed_value *list = &c->args[i];
  char text[LAYOUT_TEXT];
  a->n = 0;
  for (int k = 0; k < list->n; k++) {
    heed_tensor *t = list->tensors[k];
    if (a->n >= at->rank)
      return check_refuse(c, i, "%d entries are too many for a tensor of shape %s", list->n,
                          layout_text(at, text));
    if (t != NULL && t->type == HEED_BOOL) {
      if (!add_truths(c, i, k, t, at, a)) return false;
    }
    else if (t != NULL && t->type != HEED_INT64) return refuse_index(c, i, k, t);
    else a->index[a->n++] = t;
  }
  return true;
}


/* The shape that all index tensors broadcast to. */
static bool spread_indices (call *c, int i, aim *a) {
  char one[LAYOUT_TEXT], other[LAYOUT_TEXT];
  layout_dense(&a->spread, 0, NULL);
  for (int k = 0; k < a->n; k++) {
    layout wider;
    if (a->index[k] == NULL) continue;
    if (!layout_broadcast(&a->spread, &a->index[k]->at, &wider))
      return check_refuse(c, i, "positions of shapes %s and %s do not broadcast together",
                          layout_text(&a->spread, one), layout_text(&a->index[k]->at, other));
    a->spread = wider;
  }
  return true;
}


/* Index tensors side by side leave their axes where they stand; otherwise these come first. */
static int place_of (const aim *a) {
  int first = -1, last = -1, found = 0;
  for (int k = 0; k < a->n; k++) {
    if (a->index[k] == NULL) continue;
    if (first < 0) first = k;
    last = k;
    found++;
  }
  return found > 0 && last - first + 1 == found ? first : 0;
}


/* The layout of a tensor with the result's axes; those of positions stand still. */
static layout seen_whole (const aim *a, const layout *at) {
  layout seen;
  seen.offset = at->offset;
  seen.rank = 0;
  for (int k = 0; k <= at->rank; k++) {
    if (seen.rank == a->place) {
      for (int s = 0; s < a->spread.rank; s++) {
        seen.size[seen.rank] = a->spread.size[s];
        seen.stride[seen.rank++] = 0;
      }
    }
    while (k < a->n && a->index[k] != NULL) k++;
    if (k >= at->rank) continue;
    seen.size[seen.rank] = at->size[k];
    seen.stride[seen.rank++] = at->stride[k];
  }
  return seen;
}


/* An index tensor with the result's axes; those taken whole stand still. */
static view seen_index (const aim *a, const heed_tensor *t) {
  layout wide, seen = a->shape;
  layout_expand(&t->at, &a->spread, &wide);
  for (int i = 0; i < seen.rank; i++) {
    bool within = i >= a->place && i < a->place + a->spread.rank;
    seen.stride[i] = within ? wide.stride[i - a->place] : 0;
  }
  seen.offset = wide.offset;
  return tensor_seen_as(t, &seen);
}


static bool check_result (call *c, int i, const layout *at, aim *a) {
  int rank = at->rank + a->spread.rank;
  char text[LAYOUT_TEXT];
  for (int k = 0; k < a->n; k++) rank -= a->index[k] != NULL;
  if (rank > HEED_RANK)
    return check_refuse(c, i, "a result of rank %d; there are at most %d dimensions", rank,
                        HEED_RANK);
  layout seen = seen_whole(a, at);
  return layout_dense(&a->shape, seen.rank, seen.size) ||
         check_refuse(c, i, "a result of shape %s has too many elements",
                      layout_text(&seen, text));
}


/* Argument i lists what to aim at in a tensor that lies as 'at' says. */
static bool take_aim (call *c, int i, const layout *at, aim *a) {
  if (!read_indices(c, i, at, a) || !spread_indices(c, i, a)) return false;
  a->place = place_of(a);
  if (!check_result(c, i, at, a)) return false;
  int found = 0;
  for (int k = 0; k < a->n; k++) {
    if (a->index[k] == NULL) continue;
    heed_tensor *t = positions(c, a->index[k], at->size[k]);
    if (t == NULL) return false;
    a->seen[found] = seen_index(a, t);
    a->count[2 * found] = at->stride[k];
    a->count[2 * found++ + 1] = at->size[k];
  }
  a->n = found;
  return true;
}


static void set_aimed (work *w, const aim *a) {
  w->nout = 1;
  w->nin = 1 + a->n;
  w->mask.n = 0;
  memcpy(w->in + 1, a->seen, (size_t)a->n * sizeof *a->seen);
  memcpy(w->count, a->count, (size_t)(2 * a->n) * sizeof *a->count);
}
