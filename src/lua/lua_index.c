/*
** lua_index.c - x[index] and x[index] = value. An index is a number, a tensor, or a table with one
** entry for each axis: a number, {} for all, {from, to[, step]}, an int64 or a bool tensor.
*/

#include <string.h>

#include "lua_heed.h"

typedef enum index_kind { INDEX_ALL, INDEX_NUMBER, INDEX_RANGE, INDEX_TENSOR } index_kind;

typedef struct entry {
  index_kind kind;
  int64_t from, to, step;
  heed_tensor *t;
} entry;

typedef struct indices {
  int n;
  entry at[HEED_RANK];
} indices;


/*
** {==================================================================
** Reading an index
** ===================================================================
*/

/* A list of positions stands there, most likely, or Python's 2: without its end. */
static void refuse_range (lua_State *L, const char *got) {
  raise(L, "a range is {}, {from, to} or {from, to, step}, got %s; several positions are a "
        "tensor, heed.tensor{1, 3}, and all from 2 on are {2, -1}", got);
}


static void read_range (lua_State *L, int i, entry *e) {
  static const char *const names[] = {"from", "to", "step"};
  int64_t n = (int64_t)lua_rawlen(L, i);
  int64_t *const parts[] = {&e->from, &e->to, &e->step};
  e->kind = n == 0 ? INDEX_ALL : INDEX_RANGE;
  e->step = 1;
  if (push_foreign_key(L, i)) refuse_range(L, lua_pushfstring(L, "%s as a key", describe(L, -1)));
  if (n == 1) refuse_range(L, "one entry");
  if (n > 3) refuse_range(L, lua_pushfstring(L, "%I entries", (LUAI_UACINT)n));
  for (int k = 0; k < (int)n; k++) {
    lua_rawgeti(L, i, k + 1);
    if (lua_istable(L, -1)) refuse_range(L, "a table among them");
    *parts[k] = check_integer(L, lua_gettop(L), names[k]);
    lua_pop(L, 1);
  }
}


static void read_tensor (lua_State *L, int i, entry *e) {
  e->kind = INDEX_TENSOR;
  e->t = raw_tensor(L, i);
  if (e->t == NULL) raise(L, "a position, a range or a tensor expected, got %s", describe(L, i));
  heed_type type = heed_type_of(e->t);
  if (type != HEED_INT64 && type != HEED_BOOL)
    raise(L, "an int64 or bool tensor expected, got %s", heed_type_name(type));
  if (type == HEED_BOOL && heed_rank(e->t) == 0)
    raise(L, "a mask has at least one dimension, got a bool tensor of rank 0");
}


static void read_entry (lua_State *L, int i, entry *e) {
  switch (lua_type(L, i)) {
    case LUA_TNUMBER:
      e->kind = INDEX_NUMBER;
      e->from = check_integer(L, i, "position");
      break;
    case LUA_TTABLE: read_range(L, i, e); break;
    case LUA_TBOOLEAN:
      raise(L, "a boolean is no index; masks come from x:eq(2) and the like");
      break;
    default: read_tensor(L, i, e);
  }
}


/* The key at 2, which may be a table of entries. */
static void read_indices (lua_State *L, indices *ix) {
  ix->n = 1;
  if (lua_type(L, 2) != LUA_TTABLE) {
    read_entry(L, 2, &ix->at[0]);
    return;
  }
  int64_t n = (int64_t)lua_rawlen(L, 2);
  if (push_foreign_key(L, 2))
    raise(L, "a list expected, with an index for each dimension, got one with %s as a key",
          describe(L, -1));
  if (n > HEED_RANK) raise(L, "%d indices given, there are at most %d", (int)n, HEED_RANK);
  ix->n = (int)n;
  for (int k = 0; k < ix->n; k++) {
    lua_rawgeti(L, 2, k + 1);
    read_entry(L, lua_gettop(L), &ix->at[k]);
    lua_pop(L, 1);
  }
}


/* Tensors among the entries may stand in a table, which a finaliser may change. */
static void hold (const indices *ix, bool yes) {
  for (int i = 0; i < ix->n; i++) {
    if (ix->at[i].kind != INDEX_TENSOR) continue;
    if (yes) heed_keep(ix->at[i].t);
    else heed_drop(ix->at[i].t);
  }
}

/* }================================================================== */


/*
** {==================================================================
** What an index selects: a view by numbers and ranges; tensors are left to 'take' and 'put'
** ===================================================================
*/

typedef struct selection {
  heed_tensor *view;               /* NULL: a failure */
  int n;                           /* of the list for 'take' and 'put'; 0: there is no tensor */
  heed_tensor *list[HEED_RANK];    /* by axis of the view; NULL: all of it */
} selection;


static int axes_of (const entry *e) {
  return e->kind == INDEX_TENSOR && heed_type_of(e->t) == HEED_BOOL ? heed_rank(e->t) : 1;
}


/* Checked here: who wrote x[9] passed no argument 'index' of 'select'. */
static heed_tensor *selected (heed_context *cx, heed_tensor *v, int axis, int64_t i) {
  int64_t n = heed_size(v, axis);
  if (i != 0 && i <= n && i >= -n)
    return heed_call(cx, HEED_select, (heed_value[]){heed_t(v), heed_i(axis), heed_i(i)}, 3);
  if (i == 0) heed_fail(cx, "index: position 0: positions count from 1");
  else heed_fail(cx, "index: position %lld lies outside of 1 to %lld", (long long)i, (long long)n);
  return NULL;
}


/* One step: a new handle in place of v. */
static heed_tensor *narrowed (heed_context *cx, heed_tensor *v, const entry *e, int axis) {
  if (e->kind == INDEX_ALL || e->kind == INDEX_TENSOR) return v;
  heed_tensor *y = e->kind == INDEX_NUMBER
    ? selected(cx, v, axis, e->from)
    : heed_call(cx, HEED_slice, (heed_value[]){heed_t(v), heed_i(axis), heed_i(e->from),
                                               heed_i(e->to), heed_i(e->step)}, 5);
  heed_drop(v);
  return y;
}


static bool fits (heed_context *cx, const heed_tensor *v, const indices *ix) {
  int axes = 0;
  for (int i = 0; i < ix->n; i++) axes += axes_of(&ix->at[i]);
  if (axes <= heed_rank(v)) return true;
  heed_fail(cx, "index: indices for %d dimensions given, the tensor has %d", axes, heed_rank(v));
  return false;
}


/* The list leaves out what lies behind its last tensor; a mask stands for all of its axes. */
static selection find (heed_context *cx, heed_tensor *t, const indices *ix) {
  selection y = {.view = fits(cx, t, ix) ? heed_keep(t) : NULL, .n = 0};
  int axis = 0, entries = 0;
  for (int i = 0; y.view != NULL && i < ix->n; i++) {
    const entry *e = &ix->at[i];
    y.view = narrowed(cx, y.view, e, axis);
    if (e->kind == INDEX_NUMBER) continue;
    axis += axes_of(e);
    y.list[entries++] = e->kind == INDEX_TENSOR ? e->t : NULL;
    if (e->kind == INDEX_TENSOR) y.n = entries;
  }
  return y;
}

/* }================================================================== */


/*
** {==================================================================
** x[index]
** ===================================================================
*/

/* All of t as a view of its own: changes in place of one are changes of both. */
static heed_tensor *view_of_all (heed_context *cx, heed_tensor *t) {
  int64_t size[HEED_RANK];
  int rank = heed_rank(t);
  for (int i = 0; i < rank; i++) size[i] = heed_size(t, i);
  return heed_call(cx, HEED_expand, (heed_value[]){heed_t(t), heed_l(rank, size)}, 2);
}


static heed_tensor *taken (heed_context *cx, heed_tensor *t, const indices *ix) {
  selection at = find(cx, t, ix);
  heed_tensor *y = NULL;
  if (at.n > 0)
    y = heed_call(cx, HEED_take, (heed_value[]){heed_t(at.view), heed_ts(at.n, at.list)}, 2);
  else if (at.view == t) y = view_of_all(cx, t);
  else return at.view;
  heed_drop(at.view);
  return y;
}


/* Do they select one element? */
static bool selects_element (const heed_tensor *t, const indices *ix) {
  bool numbers = ix->n == heed_rank(t) && ix->n > 0;
  for (int i = 0; numbers && i < ix->n; i++) numbers = ix->at[i].kind == INDEX_NUMBER;
  return numbers;
}


static void refuse_element (lua_State *L, int n, const int64_t *at) {
  luaL_Buffer select;
  luaL_buffinit(L, &select);
  for (int i = 0; i < n; i++) {
    lua_pushfstring(L, ":select(1, %I)", (LUAI_UACINT)at[i]);
    luaL_addvalue(&select);
  }
  luaL_pushresult(&select);
  raise(L, "reading an element gives a plain number and would cut its gradient; use x%s, "
        "or x:detach()", lua_tostring(L, -1));
}


/* Pushes the one element of y, which it drops. */
static int give_element (lua_State *L, heed_tensor *y) {
  element e;
  bool good = read_element(y, &e);
  heed_drop(y);
  done(L, good);
  push_element(L, &e);
  return 1;
}


static int push_element_at (lua_State *L, heed_context *cx, heed_tensor *t, const indices *ix) {
  int64_t at[HEED_RANK];
  for (int i = 0; i < ix->n; i++) at[i] = ix->at[i].from;
  if (heed_requires_grad(t) && heed_recording(cx)) refuse_element(L, ix->n, at);
  return give_element(L, taken(named(L), t, ix));
}


/* The slice of t at position i of its first axis, which was checked. */
static heed_tensor *row_at (lua_State *L, heed_tensor *t, int64_t i) {
  const heed_value select[] = {heed_t(t), heed_i(0), heed_i(i)};
  return heed_call(named(L), HEED_select, select, 3);
}


/* Position i of the first axis; false: it is the one behind the last, where ipairs ends. */
static bool check_row (lua_State *L, const heed_tensor *t, int64_t i) {
  if (heed_rank(t) == 0) raise(L, "a tensor of rank 0 has no positions; use x:item()");
  int64_t n = heed_size(t, 0);
  if (i == n + 1) return false;
  if (i == 0) raise(L, "position 0: positions count from 1");
  if (i > n || i < -n)
    raise(L, "position %I lies outside of 1 to %I", (LUAI_UACINT)i, (LUAI_UACINT)n);
  return true;
}


/* x[i]: an element of a vector, else a view of a row */
static int index_by_number (lua_State *L, heed_context *cx, heed_tensor *t) {
  int64_t i = check_integer(L, 2, "position");
  if (!check_row(L, t, i)) {
    lua_pushnil(L);
    return 1;
  }
  if (heed_rank(t) == 1) {
    if (heed_requires_grad(t) && heed_recording(cx)) refuse_element(L, 1, &i);
    return give_element(L, row_at(L, t, i));
  }
  cell *s = push_cell(L);
  fill(L, s, row_at(L, t, i));
  return pass_anchor(L, 1);
}


int index_by_key (lua_State *L) {
  indices ix;
  const binding *b = enter(L);
  heed_context *cx = b->cx;
  const box *x = box_at(L, b, 1);
  if (x == NULL) return raise(L, "a tensor expected, got %s", describe(L, 1));
  heed_tensor *t = x->at != NULL ? x->at->t : NULL;
  if (t == NULL) return raise(L, "the tensor was released");
  if (lua_type(L, 2) == LUA_TNUMBER) return index_by_number(L, cx, t);
  cell *s = push_cell(L);
  read_indices(L, &ix);
  if (selects_element(t, &ix)) return push_element_at(L, cx, t, &ix);
  hold(&ix, true);
  heed_tensor *y = taken(named(L), t, &ix);
  hold(&ix, false);
  lua_settop(L, 3);
  fill(L, s, y);
  return pass_anchor(L, 1);
}

/* }================================================================== */


/*
** {==================================================================
** x[index] = value
** ===================================================================
*/

/* The value at 3: a tensor, or a number, a boolean or a table that becomes one of 'type'. */
static heed_value read_value (lua_State *L, heed_type type) {
  switch (lua_type(L, 3)) {
    case LUA_TNUMBER:
      if (lua_isinteger(L, 3)) return heed_i(lua_tointeger(L, 3));
      if (type > HEED_INT64) return heed_f(lua_tonumber(L, 3));
      return heed_t(push_from_value(L, 3, &type));
    case LUA_TBOOLEAN: return heed_b(lua_toboolean(L, 3));
    case LUA_TTABLE: return heed_t(push_from_value(L, 3, &type));
  }
  heed_tensor *value = raw_tensor(L, 3);
  if (value == NULL)
    raise(L, "a number, a table or a tensor expected as the value, got %s", describe(L, 3));
  return heed_t(value);
}


/* Of what is selected. */
static int rank_at (const selection *at) {
  int rank = heed_rank(at->view), joined = 0;
  for (int i = 0; i < at->n; i++) {
    if (at->list[i] == NULL) continue;
    int own = heed_rank(at->list[i]);
    bool mask = heed_type_of(at->list[i]) == HEED_BOOL;
    rank -= mask ? own : 1;
    if (joined < (mask ? 1 : own)) joined = mask ? 1 : own;
  }
  return rank + joined;
}


/* A new handle, without axes of size 1 before those of what is selected. */
static heed_tensor *shortened (heed_context *cx, heed_tensor *value, int rank) {
  int64_t axes[HEED_RANK];
  int n = 0;
  while (n < heed_rank(value) - rank && heed_size(value, n) == 1) { axes[n] = n; n++; }
  if (n == 0) return heed_keep(value);
  return heed_call(cx, HEED_squeeze, (heed_value[]){heed_t(value), heed_l(n, axes)}, 2);
}


static bool assign_at (heed_context *cx, const selection *at, heed_value value) {
  heed_value put[] = {heed_t(at->view), heed_ts(at->n, at->list), value};
  heed_value copy[] = {heed_t(at->view), value};
  if (at->n > 0) return heed_apply_in_place(cx, HEED_put, put, 3);
  return heed_apply_in_place(cx, value.kind == HEED_TENSOR ? HEED_copy : HEED_fill, copy, 2);
}


static bool assign (heed_context *cx, heed_tensor *t, const indices *ix, heed_value value) {
  selection at = find(cx, t, ix);
  if (at.view == NULL) return false;
  bool tensor = value.kind == HEED_TENSOR;
  if (tensor) value = heed_t(shortened(cx, value.tensor, rank_at(&at)));
  bool good = (!tensor || value.tensor != NULL) && assign_at(cx, &at, value);
  if (tensor) heed_drop(value.tensor);
  heed_drop(at.view);
  return good;
}


static heed_tensor *gradient_at (lua_State *L, int i) {
  heed_tensor *g = raw_tensor(L, i);
  if (g == NULL && !lua_isnil(L, i))
    raise_as(L, "grad", "a tensor or nil expected, got %s", describe(L, i));
  return g;
}


/* The core names the field. */
static int assign_field (lua_State *L, heed_tensor *t, const char *key) {
  static const char *const fields[] = {"grad", "requires_grad"};
  if (key == NULL) return raise(L, "a field's name expected, got %s", describe(L, 2));
  if (strcmp(key, "grad") == 0) return done(L, heed_set_gradient(t, gradient_at(L, 3)));
  if (strcmp(key, "requires_grad") != 0)
    return raise(L, "a tensor has no field '%s' to set; %s", key, push_hint(L, key, 2, fields));
  if (!lua_isboolean(L, 3))
    return raise_as(L, key, "true or false expected, got %s", describe(L, 3));
  return done(L, heed_require_grad(t, lua_toboolean(L, 3)));
}


int l_newindex (lua_State *L) {
  indices ix;
  const binding *b = enter(L);
  heed_tensor *t = check_tensor(L, 1);
  if (lua_type(L, 2) == LUA_TSTRING) return assign_field(L, t, plain_text(L, 2));
  int anchors = b->hooks != NULL ? begin_anchors(L, 3) : 0;
  heed_value value = read_value(L, heed_type_of(t));
  read_indices(L, &ix);
  if (anchors != 0) anchors = take_anchors_in_place(L, 3, anchors);
  hold(&ix, true);
  bool good = assign(named(L), t, &ix, value);
  hold(&ix, false);
  done(L, good);
  if (anchors != 0) pass_anchors(L, anchors, 1, 1);
  return 0;
}

/* }================================================================== */
