/*
** take.c - parts of a tensor that a list of index tensors aims at, one for each axis.
**
** An aim is NumPy's advanced indexing: tensors of positions broadcast together; a tensor of
** bools stands for as many axes as it has; axes without an index are taken whole.
*/

#include "op/move.h"


/*
** {==================================================================
** Aiming
** ===================================================================
*/

typedef struct aim {
  int n;                           /* tensors in the list, those of bools replaced */
  heed_tensor *index[HEED_RANK];   /* NULL: the axis is taken whole */
  bool direct[HEED_RANK];          /* none of these positions counts from the end */
  layout spread;                   /* the shape of all index tensors together */
  int place;                       /* where its axes stand in the result */
  layout shape;                    /* of the result, dense */
  layout held;                     /* the tensor aimed at, with that shape */
} aim;


static bool refuse_index (call *c, int i, int k, const heed_tensor *t) {
  return check_refuse(c, i, "entry %d: positions (int64) or bools (bool) expected, got %s%s",
                      k + 1, scalar_names[t->type],
                      t->at.rank == 0 && t->type == HEED_BOOL ? " of rank 0" : "");
}


/* A tensor of bools stands for its rank of axes: the positions of those that are true. */
static bool add_bools (call *c, int i, int k, heed_tensor *t, const layout *at, aim *a) {
  layout axes = *at;
  char one[LAYOUT_TEXT], other[LAYOUT_TEXT];
  if (t->at.rank == 0) return refuse_index(c, i, k, t);
  axes.rank = t->at.rank;
  if (a->n + t->at.rank <= at->rank)
    memcpy(axes.size, at->size + a->n, (size_t)axes.rank * sizeof *axes.size);
  if (a->n + t->at.rank > at->rank || !layout_same_shape(&axes, &t->at))
    return check_refuse(c, i, "entry %d: bools of shape %s do not fit a tensor of shape %s from "
                        "dimension %d on", k + 1, layout_text(&t->at, one),
                        layout_text(at, other), a->n + 1);
  heed_tensor *where = op1(HEED_nonzero, t);     /* (found, rank) */
  for (int axis = 0; axis < axes.rank && where != NULL; axis++) {
    layout column = layout_select(&where->at, 1, axis);
    a->direct[a->n] = true;
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
      if (!add_bools(c, i, k, t, at, a)) return false;
    }
    else if (t != NULL && t->type != HEED_INT64) return refuse_index(c, i, k, t);
    else {
      a->direct[a->n] = false;
      a->index[a->n++] = t;
    }
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
static int index_of (const aim *a) {
  int first = -1, last = -1, found = 0;
  for (int k = 0; k < a->n; k++) {
    if (a->index[k] == NULL) continue;
    if (first < 0) first = k;
    last = k;
    found++;
  }
  return found > 0 && last - first + 1 == found ? first : 0;
}


static void add_axis (layout *at, int64_t size, int64_t stride) {
  at->size[at->rank] = size;
  at->stride[at->rank++] = stride;
}


/* The layout of a tensor with the result's axes; those of positions stand still. */
static layout view_whole (const aim *a, const layout *at) {
  layout seen;
  bool spread = false;
  seen.offset = at->offset;
  seen.rank = 0;
  for (int k = 0; k <= at->rank; k++) {
    if (!spread && (seen.rank == a->place || k == at->rank)) {
      for (int s = 0; s < a->spread.rank; s++) add_axis(&seen, a->spread.size[s], 0);
      spread = true;
    }
    if (k < at->rank && (k >= a->n || a->index[k] == NULL))
      add_axis(&seen, at->size[k], at->stride[k]);
  }
  return seen;
}


/* An index tensor with the result's axes; those taken whole stand still. */
static view view_index (const aim *a, const heed_tensor *t) {
  layout wide, seen = a->shape;
  layout_expand(&t->at, &a->spread, &wide);
  for (int i = 0; i < seen.rank; i++) {
    bool within = i >= a->place && i < a->place + a->spread.rank;
    seen.stride[i] = within ? wide.stride[i - a->place] : 0;
  }
  seen.offset = wide.offset;
  return view_with(t, &seen);
}


static bool check_result (call *c, int i, const layout *at, aim *a) {
  int rank = at->rank + a->spread.rank;
  char text[LAYOUT_TEXT];
  for (int k = 0; k < a->n; k++) rank -= a->index[k] != NULL;
  if (rank > HEED_RANK)
    return check_refuse(c, i, "a result of rank %d; there are at most %d dimensions", rank,
                        HEED_RANK);
  a->held = view_whole(a, at);
  return layout_dense(&a->shape, a->held.rank, a->held.size) ||
         check_refuse(c, i, "a result of shape %s has too many elements",
                      layout_text(&a->held, text));
}


/* The work's indices: their views, and how far a step of theirs goes. */
static bool set_indices (call *c, const layout *at, aim *a, work *w) {
  w->nout = w->nin = 1;
  w->mask.n = 0;
  for (int k = 0; k < a->n; k++) {
    if (a->index[k] == NULL) continue;
    heed_tensor *t = a->index[k];
    if (!a->direct[k]) t = move_positions(c, t, at->size[k]);
    if (t == NULL || !tensor_materialize(t)) return false;
    w->count[2 * (w->nin - 1)] = at->stride[k];
    w->count[2 * (w->nin - 1) + 1] = at->size[k];
    w->in[w->nin++] = view_index(a, t);
  }
  return true;
}


/* a->index aims at a tensor that lies as 'at' says; argument i, for messages, listed it. */
static bool finish_aim (call *c, int i, const layout *at, aim *a, work *w) {
  if (!spread_indices(c, i, a)) return false;
  a->place = index_of(a);
  return check_result(c, i, at, a) && set_indices(c, at, a, w);
}


static heed_tensor *gathered (call *c, heed_tensor *t, const aim *a, work *w) {
  heed_tensor *y = op_new(c->cx, t->type, &a->shape);
  if (y == NULL) return NULL;
  w->kind = WORK_GATHER;
  w->op = c->op;
  w->in[0] = view_with(t, &a->held);
  w->out[0] = view_of(y);
  return layout_numel(&a->shape) == 0 || op_run(c, w) ? y : NULL;
}

/* }================================================================== */


/*
** {==================================================================
** Taking and putting
** ===================================================================
*/

bool do_take (call *c) {
  heed_tensor *t = c->args[0].tensor;
  aim a;
  work w;
  if (!tensor_materialize(t) || !read_indices(c, 1, &t->at, &a)) return false;
  return finish_aim(c, 1, &t->at, &a, &w) && give_out(c, gathered(c, t, &a, &w));
}


static bool reads (const heed_tensor *t, const call *c) {
  const heed_value *list = &c->args[1];
  for (int k = 0; k < list->n; k++)
    if (list->tensors[k] != NULL && list->tensors[k]->store == t->store) return true;
  return c->args[2].tensor->store == t->store;
}


static bool refuse_values (call *c, const aim *a) {
  char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
  return check_refuse(c, 2, "values of shape %s do not fit a place of shape %s",
                      layout_text(&c->args[2].tensor->at, have), layout_text(&a->shape, want));
}


/* The target is written itself unless it is read as well. */
bool do_put (call *c) {
  heed_tensor *t = c->args[0].tensor, *values = move_value(c, 2, t->type);
  aim a;
  work w;
  layout wide;
  if (values == NULL || !read_indices(c, 1, &t->at, &a)) return false;
  heed_tensor *y = c->into == t && !reads(t, c) ? t : move_taken(c, t, &t->at);
  if (y == NULL || !finish_aim(c, 1, &y->at, &a, &w)) return false;
  if (!layout_expand(&values->at, &a.shape, &wide)) return refuse_values(c, &a);
  if (!move_view(values, &a.shape, &w.in[0])) return false;
  w.kind = WORK_SCATTER;
  w.op = arg_flag(c, 3) ? SCATTER_ADD : SCATTER_SET;
  w.out[0] = view_with(y, &a.held);
  return (layout_numel(&a.shape) == 0 || op_run(c, &w)) && give_out(c, y);
}


bool do_index_select (call *c) {
  int axis;
  heed_tensor *list[HEED_RANK] = {NULL};
  if (!check_rank(c, 0, 1, HEED_RANK) || !check_rank(c, 2, 0, 1)) return false;
  if (!check_axis(c, 1, c->args[0].tensor->at.rank, &axis) || !check_index_type(c, 2))
    return false;
  heed_tensor *index = c->args[2].tensor;
  layout row = index->at.rank == 0 ? layout_insert(&index->at, 0) : index->at;
  if ((list[axis] = op_view(index, &row)) == NULL) return false;
  heed_value args[] = {c->args[0], heed_ts(axis + 1, list)};
  return give_out(c, op_call(c->cx, HEED_take, 2, args));
}


/* Rows of the weight: ids (..) and (V, D) give (.., D). No id counts from the end. */
bool do_embedding (call *c) {
  heed_tensor *weight = c->args[1].tensor;
  aim a = {.n = 1, .index = {c->args[0].tensor}, .direct = {true}};
  work w;
  int64_t padding;
  if (!check_index_type(c, 0) || !check_rank(c, 1, 2, 2)) return false;
  if (arg_given(c, 2) && !check_position(c, 2, weight->at.size[0], &padding)) return false;
  return tensor_materialize(weight) && finish_aim(c, 0, &weight->at, &a, &w) &&
         give_out(c, gathered(c, weight, &a, &w));
}

/* }================================================================== */


/*
** {==================================================================
** Masks
** ===================================================================
*/

bool do_masked_fill (call *c) {
  heed_tensor *t = c->args[0].tensor;
  if (!check_types(c, 1, HEED_BOOL) || !move_meet(c, 0, 1) || !check_rank(c, 2, 0, 0))
    return false;
  heed_tensor *value = t->type == HEED_BOOL ? op_cast(c->args[2].tensor, HEED_BOOL)
                                            : move_value(c, 2, t->type);
  return give_out(c, op3(HEED_where, c->args[1].tensor, value, t));
}


/* Both broadcast; what stands where the mask is true, in order. */
bool do_masked_select (call *c) {
  heed_tensor *t = c->args[0].tensor, *bools = c->args[1].tensor;
  layout shape;
  if (!check_types(c, 1, HEED_BOOL) || !move_meet(c, 0, 1)) return false;
  layout_broadcast(&t->at, &bools->at, &shape);
  if (shape.rank == 0) shape = layout_insert(&shape, 0);
  heed_value sizes = heed_l(shape.rank, shape.size);
  t = op_call(c->cx, HEED_expand, 2, (heed_value[]){heed_t(t), sizes});
  bools = op_call(c->cx, HEED_expand, 2, (heed_value[]){heed_t(bools), sizes});
  if (t == NULL || bools == NULL) return false;
  heed_value args[] = {heed_t(t), heed_ts(1, &bools)};
  return give_out(c, op_call(c->cx, HEED_take, 2, args));
}

/* }================================================================== */
