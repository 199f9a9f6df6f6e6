/*
** check.c - checks of arguments, and their messages.
**
** Messages count axes and positions as Lua does, from 1; here axes count from 0.
*/

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph/check.h"


const char *check_name (const call *c, int i) {
  return op_signature(c->cx, c->op)->parameter[i].name;
}


/* NULL: the caller is no operation. */
static const heed_signature *row_called (const heed_context *cx, const char *name) {
  for (int i = 0; name != NULL && i < HEED_NOPS; i++) {
    const heed_signature *row = op_signature(cx, (heed_op)i);
    if (strcmp(row->name, name) == 0 || strcmp(row->in_place_name, name) == 0) return row;
  }
  return NULL;
}


/* Its name, unless the function that was called composes this one and has no such argument. */
static const char *public_name (const call *c, int i) {
  const char *name = check_name(c, i);
  const heed_signature *caller = row_called(c->cx, c->cx->scope.caller);
  if (caller == NULL) return name;
  for (int k = 0; k < caller->parameters; k++)
    if (strcmp(caller->parameter[k].name, name) == 0) return name;
  return NULL;
}


bool check_refuse (const call *c, int i, const char *format, ...) {
  char why[700];
  va_list rest;
  va_start(rest, format);
  vsnprintf(why, sizeof why, format, rest);
  va_end(rest);
  return core_fail_at(c->cx, op_name(c->op), public_name(c, i), "%s", why);
}


/*
** {==================================================================
** Values, which hosts make by hand
** ===================================================================
*/

static const char *fault_of (const heed_value *v) {
  if ((unsigned)v->kind < HEED_LIST) return NULL;
  bool list = v->kind == HEED_LIST, tensors = v->kind == HEED_TENSORS;
  if ((unsigned)v->kind > HEED_TEXT) return "its kind is none of heed_kind";
  if (v->kind == HEED_TEXT && v->text == NULL) return "a text expected, got NULL";
  if ((list || tensors) && v->n < 0) return "its list has a negative length";
  if (v->n > 0 && ((list && v->list == NULL) || (tensors && v->tensors == NULL)))
    return "a list expected, got NULL";
  return NULL;
}


bool check_given (heed_context *cx, heed_op op, const heed_value *given, int n) {
  const heed_signature *row = heed_describe(cx, op);
  if (row == NULL) return false;
  if (n > 0 && given == NULL)
    return core_fail(cx, row->name, "arguments expected, got NULL");
  for (int i = 0; i < n && i < row->parameters; i++) {
    const char *fault = fault_of(&given[i]);
    if (fault != NULL)
      return core_fail_at(cx, row->name, row->parameter[i].name, "%s", fault);
  }
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Tensors
** ===================================================================
*/

static bool refuse_rank (call *c, int i, int least, int most) {
  char got[LAYOUT_TEXT];
  const char *bound = least == most ? "" : most >= HEED_RANK ? "at least " : "at most ";
  int rank = least == most || most >= HEED_RANK ? least : most;
  if (least > 0 && most < HEED_RANK && least != most)
    return check_refuse(c, i, "a tensor of rank %d to %d expected, got one of shape %s", least,
                        most, layout_text(&c->args[i].tensor->at, got));
  return check_refuse(c, i, "a tensor of rank %s%d expected, got one of shape %s", bound, rank,
                      layout_text(&c->args[i].tensor->at, got));
}


bool check_rank (call *c, int i, int least, int most) {
  int rank = c->args[i].tensor->at.rank;
  return (rank >= least && rank <= most) || refuse_rank(c, i, least, most);
}


bool check_same_shape (call *c, int i, int j) {
  char one[LAYOUT_TEXT], other[LAYOUT_TEXT];
  const layout *a = &c->args[i].tensor->at, *b = &c->args[j].tensor->at;
  if (layout_same_shape(a, b)) return true;
  return check_refuse(c, j, "the shape %s of argument '%s' expected, got %s",
                      layout_text(a, one), check_name(c, i), layout_text(b, other));
}


bool check_float (call *c, int i) {
  heed_type type = c->args[i].tensor->type;
  return scalar_is_float(type) ||
         check_refuse(c, i, "a float type expected, got %s; x:to(\"float32\")",
                      scalar_names[type]);
}


bool check_one_type (call *c, int i, int j) {
  heed_type a = c->args[i].tensor->type, b = c->args[j].tensor->type;
  int other = scalar_is_float(a) ? j : i;      /* the one that is no float */
  if (a == b) return true;
  if (scalar_is_float(a) != scalar_is_float(b))
    return check_refuse(c, other, "a float type expected, got %s; x:to(\"%s\")",
                        scalar_names[other == i ? a : b], scalar_names[other == i ? b : a]);
  return core_fail(c->cx, op_name(c->op), "types %s of '%s' and %s of '%s' differ; x:to(\"%s\")",
                   scalar_names[a], check_name(c, i), scalar_names[b], check_name(c, j),
                   scalar_names[b]);
}


bool check_types (call *c, int i, heed_type type) {
  heed_type got = c->args[i].tensor->type;
  return got == type || check_refuse(c, i, "a tensor of type %s expected, got %s",
                                     scalar_names[type], scalar_names[got]);
}


bool check_index_type (call *c, int i) {
  heed_type got = c->args[i].tensor->type;
  return got == HEED_INT64 ||
         check_refuse(c, i, "positions are of type int64, got %s; convert with to(\"int64\")",
                      scalar_names[got]);
}

/* }================================================================== */


/*
** {==================================================================
** Axes
** ===================================================================
*/

static int64_t as_lua_counts (int64_t axis) {
  return axis < 0 || axis == INT64_MAX ? axis : axis + 1;
}


static bool refuse_axis (call *c, int i, int rank, int64_t axis) {
  if (rank == 0)
    return check_refuse(c, i, "a tensor of rank 0 has no dimension %" PRId64, as_lua_counts(axis));
  return check_refuse(c, i, "dimension %" PRId64 " of a tensor of rank %d; there are 1 to %d, "
                      "or -1 to -%d", as_lua_counts(axis), rank, rank, rank);
}


bool check_axis (call *c, int i, int rank, int *axis) {
  int64_t wanted = c->args[i].integer;
  return layout_axis(rank, wanted, axis) || refuse_axis(c, i, rank, wanted);
}


static bool mark_axis (call *c, int i, int rank, int64_t wanted, bool marks[HEED_RANK]) {
  int axis;
  if (!layout_axis(rank, wanted, &axis)) return refuse_axis(c, i, rank, wanted);
  if (marks[axis])
    return check_refuse(c, i, "dimension %d is named twice", axis + 1);
  marks[axis] = true;
  return true;
}


/* An empty list counts as none given, as in PyTorch's reductions. */
bool check_axes (call *c, int i, int rank, bool marks[HEED_RANK], int *n) {
  const heed_value *v = &c->args[i];
  bool all = v->kind == HEED_NONE || (v->kind == HEED_LIST && v->n == 0);
  for (int k = 0; k < HEED_RANK; k++) marks[k] = all && k < rank;
  if (v->kind == HEED_INTEGER && !mark_axis(c, i, rank, v->integer, marks)) return false;
  for (int k = 0; v->kind == HEED_LIST && k < v->n; k++)
    if (!mark_axis(c, i, rank, v->list[k], marks)) return false;
  *n = 0;
  for (int k = 0; k < rank; k++) *n += marks[k];
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Numbers
** ===================================================================
*/

bool check_position (call *c, int i, int64_t size, int64_t *zero_based) {
  int64_t position = c->args[i].integer;
  if (position == 0) return check_refuse(c, i, "position 0: positions count from 1");
  if (position > size || position < -size)
    return check_refuse(c, i, "position %" PRId64 " lies outside of a dimension of size %" PRId64,
                        position, size);
  *zero_based = position > 0 ? position - 1 : position + size;
  return true;
}


bool check_probability (call *c, int i) {
  double p = arg_number(c, i);
  return (p >= 0 && p <= 1) || check_refuse(c, i, "a probability from 0 to 1 expected, got %g", p);
}


bool check_whole (call *c, int i, heed_type type) {
  if (scalar_is_float(type) || c->args[i].kind != HEED_FLOAT) return true;
  const double x = c->args[i].number;
  if (x != floor(x))
    return check_refuse(c, i, "a whole number expected beside tensors of type %s, got %g",
                        scalar_names[type], x);
  return fabs(x) < 0x1p62 ||
         check_refuse(c, i, "an integer, or less than 2^62, expected beside tensors of type %s, "
                      "got %g", scalar_names[type], x);
}

/* }================================================================== */


/*
** {==================================================================
** Shapes
** ===================================================================
*/

/* "(2, -1)" of a list that has no more numbers than a tensor can have axes. */
static const char *list_text (const heed_value *v, char text[LAYOUT_TEXT]) {
  layout at = {.rank = v->n};
  for (int i = 0; i < at.rank; i++) at.size[i] = v->list[i];
  return layout_text(&at, text);
}


/* Copies the sizes; *inferred is the axis where -1 stands, or -1. */
static bool read_sizes (call *c, int i, bool infer, int64_t size[HEED_RANK], int *inferred) {
  const heed_value *v = &c->args[i];
  char text[LAYOUT_TEXT];
  *inferred = -1;
  if (v->n > HEED_RANK)
    return check_refuse(c, i, "at most %d dimensions, got %d", HEED_RANK, v->n);
  for (int k = 0; k < v->n; k++) {
    size[k] = v->list[k];
    if (size[k] >= 0) continue;
    if (!infer || size[k] != -1)
      return check_refuse(c, i, "size %" PRId64 " of dimension %d is negative", size[k], k + 1);
    if (*inferred >= 0)
      return check_refuse(c, i, "only one size of %s may be -1", list_text(v, text));
    *inferred = k;
    size[k] = 1;
  }
  return true;
}


/* The size of axis 'inferred' that makes numel out of the others; 'shape' has 1 there. */
static bool infer_size (call *c, int i, int64_t numel, int inferred, layout *shape) {
  char text[LAYOUT_TEXT];
  int64_t others = layout_numel(shape);
  list_text(&c->args[i], text);
  if (others == 0)
    return check_refuse(c, i, "-1 in %s may be any size", text);
  if (numel % others != 0)
    return check_refuse(c, i, "%" PRId64 " elements do not fill the shape %s", numel, text);
  shape->size[inferred] = numel / others;
  return true;
}


bool check_shape (call *c, int i, int64_t infer, layout *shape) {
  int64_t size[HEED_RANK];
  int inferred;
  char text[LAYOUT_TEXT];
  if (!read_sizes(c, i, infer >= 0, size, &inferred)) return false;
  if (!layout_dense(shape, c->args[i].n, size))
    return check_refuse(c, i, "a shape of %s has too many elements",
                        list_text(&c->args[i], text));
  if (infer < 0) return true;
  if (inferred >= 0 && !infer_size(c, i, infer, inferred, shape)) return false;
  if (layout_numel(shape) != infer)
    return check_refuse(c, i, "%" PRId64 " elements do not fill the shape %s", infer,
                        list_text(&c->args[i], text));
  memcpy(size, shape->size, (size_t)shape->rank * sizeof *size);
  return layout_dense(shape, c->args[i].n, size);     /* as many elements as there are: it fits */
}

/* }================================================================== */
