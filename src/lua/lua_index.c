/*
** lua_index.c - x[place] and x[place] = value. A place is a number, a tensor, or a table with
** one entry for each axis: a number, {} for all, {from, to[, step]}, an int64 or a bool tensor.
*/

#include <string.h>

#include "lua_heed.h"

typedef enum index_kind { INDEX_ALL, INDEX_NUMBER, INDEX_RANGE, INDEX_TENSOR } index_kind;

typedef struct place {
  index_kind kind;
  int64_t from, to, step;
  heed_tensor *t;
} place;

typedef struct places {
  int n;
  place at[HEED_RANK];
} places;


/*
** {==================================================================
** Reading places
** ===================================================================
*/

/* A list of positions stands there, most likely, or Python's 2: without its end. */
static void refuse_range (lua_State *L, const char *got) {
  raise(L, "index: a range is {}, {from, to} or {from, to, step}, got %s; several positions are a "
        "tensor, heed.tensor{1, 3}, and all from 2 on are {2, -1}", got);
}


static void read_range (lua_State *L, int i, place *p) {
  static const char *const names[] = {"from", "to", "step"};
  int64_t n = (int64_t)lua_rawlen(L, i);
  int64_t *const parts[] = {&p->from, &p->to, &p->step};
  p->kind = n == 0 ? INDEX_ALL : INDEX_RANGE;
  p->step = 1;
  if (push_foreign_key(L, i)) refuse_range(L, lua_pushfstring(L, "%s as a key", describe(L, -1)));
  if (n == 1) refuse_range(L, "one entry");
  if (n > 3) refuse_range(L, lua_pushfstring(L, "%I entries", (LUAI_UACINT)n));
  for (int k = 0; k < (int)n; k++) {
    lua_rawgeti(L, i, k + 1);
    if (lua_istable(L, -1)) refuse_range(L, "a table among them");
    *parts[k] = check_integer(L, lua_gettop(L), "index", names[k]);
    lua_pop(L, 1);
  }
}


static void read_tensor_place (lua_State *L, int i, place *p) {
  p->kind = INDEX_TENSOR;
  p->t = raw_tensor(L, i);
  if (p->t == NULL) raise(L, "index: a place expected, got %s", describe(L, i));
  heed_type type = heed_type_of(p->t);
  if (type != HEED_INT64 && type != HEED_BOOL)
    raise(L, "index: an int64 or bool tensor expected as a place, got %s", heed_type_name(type));
  if (type == HEED_BOOL && heed_rank(p->t) == 0)
    raise(L, "index: a mask has at least one dimension, got a bool tensor of rank 0");
}


static void read_index (lua_State *L, int i, place *p) {
  switch (lua_type(L, i)) {
    case LUA_TNUMBER:
      p->kind = INDEX_NUMBER;
      p->from = check_integer(L, i, "index", "position");
      break;
    case LUA_TTABLE: read_range(L, i, p); break;
    case LUA_TBOOLEAN:
      raise(L, "index: a boolean is no place; masks come from x:eq(2) and the like");
      break;
    default: read_tensor_place(L, i, p);
  }
}


/* The key at 2, which may be a table of places. */
static void read_indices (lua_State *L, places *ps) {
  ps->n = 1;
  if (lua_type(L, 2) != LUA_TTABLE) {
    read_index(L, 2, &ps->at[0]);
    return;
  }
  int64_t n = (int64_t)lua_rawlen(L, 2);
  if (push_foreign_key(L, 2))
    raise(L, "index: a list of places expected, got one with %s as a key", describe(L, -1));
  if (n > HEED_RANK) raise(L, "index: %d places given, there are at most %d", (int)n, HEED_RANK);
  ps->n = (int)n;
  for (int k = 0; k < ps->n; k++) {
    lua_rawgeti(L, 2, k + 1);
    read_index(L, lua_gettop(L), &ps->at[k]);
    lua_pop(L, 1);
  }
}


/* Tensors among the places may stand in a table, which a finaliser may change. */
static void hold (const places *ps, bool yes) {
  for (int i = 0; i < ps->n; i++) {
    if (ps->at[i].kind != INDEX_TENSOR) continue;
    if (yes) heed_keep(ps->at[i].t);
    else heed_drop(ps->at[i].t);
  }
}

/* }================================================================== */


/*
** {==================================================================
** What places name: a view by numbers and ranges; tensors wait for 'take' or 'put'
** ===================================================================
*/

typedef struct named {
  heed_tensor *view;               /* NULL: a failure */
  int n;                           /* of the list for 'take' and 'put'; 0: there is no tensor */
  heed_tensor *list[HEED_RANK];    /* by axis of the view; NULL: all of it */
} named;


static int axes_of (const place *p) {
  return p->kind == INDEX_TENSOR && heed_type_of(p->t) == HEED_BOOL ? heed_rank(p->t) : 1;
}


/* Looked at here, since who wrote x[9] knows of no 'select'. */
static heed_tensor *selected (heed_context *cx, heed_tensor *v, int axis, int64_t i) {
  int64_t n = heed_size(v, axis);
  if (i != 0 && i <= n && i >= -n)
    return heed_call(cx, HEED_select, (heed_value[]){heed_t(v), heed_i(axis), heed_i(i)}, 3);
  if (i == 0) heed_fail(cx, "index: position 0: positions count from 1");
  else heed_fail(cx, "index: position %lld lies outside of 1 to %lld", (long long)i, (long long)n);
  return NULL;
}


/* One step: a new handle in place of v. */
static heed_tensor *narrowed (heed_context *cx, heed_tensor *v, const place *p, int axis) {
  if (p->kind == INDEX_ALL || p->kind == INDEX_TENSOR) return v;
  heed_tensor *y = p->kind == INDEX_NUMBER
    ? selected(cx, v, axis, p->from)
    : heed_call(cx, HEED_slice, (heed_value[]){heed_t(v), heed_i(axis), heed_i(p->from),
                                               heed_i(p->to), heed_i(p->step)}, 5);
  heed_drop(v);
  return y;
}


static bool fits (heed_context *cx, const heed_tensor *v, const places *ps) {
  int axes = 0;
  for (int i = 0; i < ps->n; i++) axes += axes_of(&ps->at[i]);
  if (axes <= heed_rank(v)) return true;
  heed_fail(cx, "index: places for %d dimensions given, the tensor has %d", axes, heed_rank(v));
  return false;
}


/* The list leaves out what lies behind its last tensor; a mask stands for all of its axes. */
static named find (heed_context *cx, heed_tensor *t, const places *ps) {
  named y = {.view = fits(cx, t, ps) ? heed_keep(t) : NULL, .n = 0};
  int axis = 0, entries = 0;
  for (int i = 0; y.view != NULL && i < ps->n; i++) {
    const place *p = &ps->at[i];
    y.view = narrowed(cx, y.view, p, axis);
    if (p->kind == INDEX_NUMBER) continue;
    axis += axes_of(p);
    y.list[entries++] = p->kind == INDEX_TENSOR ? p->t : NULL;
    if (p->kind == INDEX_TENSOR) y.n = entries;
  }
  return y;
}

/* }================================================================== */


/*
** {==================================================================
** x[place]
** ===================================================================
*/

/* All of t as a view of its own: what was made of it in place is seen through both. */
static heed_tensor *whole (heed_context *cx, heed_tensor *t) {
  int64_t size[HEED_RANK];
  int rank = heed_rank(t);
  for (int i = 0; i < rank; i++) size[i] = heed_size(t, i);
  return heed_call(cx, HEED_expand, (heed_value[]){heed_t(t), heed_l(rank, size)}, 2);
}


static heed_tensor *taken (heed_context *cx, heed_tensor *t, const places *ps) {
  named at = find(cx, t, ps);
  heed_tensor *y = NULL;
  if (at.n > 0)
    y = heed_call(cx, HEED_take, (heed_value[]){heed_t(at.view), heed_ts(at.n, at.list)}, 2);
  else if (at.view == t) y = whole(cx, t);
  else return at.view;
  heed_drop(at.view);
  return y;
}


static heed_tensor *at_indices (heed_context *cx, heed_tensor *t, const places *ps) {
  heed_op before = heed_set_caller(cx, HEED_index);
  heed_tensor *y = taken(cx, t, ps);
  heed_set_caller(cx, before);
  return y;
}


/* Do the places name one element? */
static bool names_element (const heed_tensor *t, const places *ps) {
  bool numbers = ps->n == heed_rank(t) && ps->n > 0;
  for (int i = 0; numbers && i < ps->n; i++) numbers = ps->at[i].kind == INDEX_NUMBER;
  return numbers;
}


static void refuse_element (lua_State *L, const places *ps) {
  luaL_Buffer select;
  luaL_buffinit(L, &select);
  for (int i = 0; i < ps->n; i++) {
    lua_pushfstring(L, ":select(1, %I)", (LUAI_UACINT)ps->at[i].from);
    luaL_addvalue(&select);
  }
  luaL_pushresult(&select);
  raise(L, "index: reading an element gives a plain number and would cut its gradient; use x%s, "
        "or x:detach()", lua_tostring(L, -1));
}


static int push_element_at (lua_State *L, heed_context *cx, heed_tensor *t, const places *ps) {
  element e;
  if (heed_requires_grad(t) && heed_recording(cx)) refuse_element(L, ps);
  heed_tensor *y = at_indices(cx, t, ps);
  bool good = read_element(HEED_index, y, &e);
  heed_drop(y);
  if (!good) return raise_failure(L);
  push_element(L, &e);
  return 1;
}


/* Position i of the first axis; false: it is the one behind the last, where ipairs ends. */
static bool check_row (lua_State *L, const heed_tensor *t, int64_t i) {
  if (heed_rank(t) == 0) raise(L, "index: a tensor of rank 0 has no positions; use x:item()");
  int64_t n = heed_size(t, 0);
  if (i == n + 1) return false;
  if (i == 0) raise(L, "index: position 0: positions count from 1");
  if (i > n || i < -n)
    raise(L, "index: position %I lies outside of 1 to %I", (LUAI_UACINT)i, (LUAI_UACINT)n);
  return true;
}


/* x[i]: an element of a vector, else a view of a row */
static int index_by_number (lua_State *L, heed_context *cx, heed_tensor *t) {
  places ps = {.n = 1, .at[0].kind = INDEX_NUMBER};
  ps.at[0].from = check_integer(L, 2, "index", "position");
  if (!check_row(L, t, ps.at[0].from)) {
    lua_pushnil(L);
    return 1;
  }
  if (heed_rank(t) == 1) return push_element_at(L, cx, t, &ps);
  slot *s = push_slot(L);
  return fill(L, s, at_indices(cx, t, &ps));
}


int index_by_key (lua_State *L) {
  places ps;
  heed_context *cx = enter(L)->cx;
  if (!is_box(L, 1)) return raise(L, "index: a tensor expected, got %s", describe(L, 1));
  heed_tensor *t = raw_tensor(L, 1);
  if (t == NULL) return raise(L, "index: the tensor was released");
  if (lua_type(L, 2) == LUA_TNUMBER) return index_by_number(L, cx, t);
  slot *s = push_slot(L);
  read_indices(L, &ps);
  if (names_element(t, &ps)) return push_element_at(L, cx, t, &ps);
  hold(&ps, true);
  heed_tensor *y = at_indices(cx, t, &ps);
  hold(&ps, false);
  lua_settop(L, 3);
  return fill(L, s, y);
}

/* }================================================================== */


/*
** {==================================================================
** x[place] = value
** ===================================================================
*/

/* The value at 3: a tensor, or a number, a truth or a table that becomes one of 'type'. */
static heed_value read_value (lua_State *L, heed_type type) {
  switch (lua_type(L, 3)) {
    case LUA_TNUMBER:
      if (lua_isinteger(L, 3)) return heed_i(lua_tointeger(L, 3));
      if (type > HEED_INT64) return heed_f(lua_tonumber(L, 3));
      return heed_t(push_from_value(L, 3, &type));
    case LUA_TBOOLEAN: return heed_b(lua_toboolean(L, 3));
    case LUA_TTABLE: return heed_t(push_from_value(L, 3, &type));
    default: break;
  }
  heed_tensor *value = raw_tensor(L, 3);
  if (value == NULL)
    raise(L, "index: a number, a table or a tensor expected as the value, got %s", describe(L, 3));
  return heed_t(value);
}


/* Of what the places name. */
static int rank_at (const named *at) {
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


/* A new handle: axes of size 1 before those of what the places name say nothing. */
static heed_tensor *shortened (heed_context *cx, heed_tensor *value, int rank) {
  int64_t axes[HEED_RANK];
  int n = 0;
  while (n < heed_rank(value) - rank && heed_size(value, n) == 1) { axes[n] = n; n++; }
  if (n == 0) return heed_keep(value);
  return heed_call(cx, HEED_squeeze, (heed_value[]){heed_t(value), heed_l(n, axes)}, 2);
}


static bool assign_at (heed_context *cx, const named *at, heed_value value) {
  heed_value put[] = {heed_t(at->view), heed_ts(at->n, at->list), value};
  heed_value copy[] = {heed_t(at->view), value};
  if (at->n > 0) return heed_apply_in_place(cx, HEED_put, put, 3);
  return heed_apply_in_place(cx, value.kind == HEED_TENSOR ? HEED_copy : HEED_fill, copy, 2);
}


static bool assign (heed_context *cx, heed_tensor *t, const places *ps, heed_value value) {
  named at = find(cx, t, ps);
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
  if (g == NULL && !lua_isnil(L, i)) raise(L, "grad: a tensor or nil expected, got %s", describe(L, i));
  return g;
}


static int assign_field (lua_State *L, heed_tensor *t, const char *key) {
  bool good = true;
  if (key == NULL) return raise(L, "index: a field's name expected, got %s", describe(L, 2));
  if (strcmp(key, "grad") == 0)
    good = heed_set_gradient(t, gradient_at(L, 3));
  else if (strcmp(key, "requires_grad") == 0) {
    if (!lua_isboolean(L, 3)) raise(L, "%s: true or false expected, got %s", key, describe(L, 3));
    good = heed_require_grad(t, lua_toboolean(L, 3));
  }
  else return raise(L, "index: a tensor has no field '%s' to set", key);
  return good ? 0 : raise_failure(L);
}


int l_newindex (lua_State *L) {
  places ps;
  binding *b = enter(L);
  heed_tensor *t = check_tensor(L, 1);
  if (lua_type(L, 2) == LUA_TSTRING) return assign_field(L, t, plain_text(L, 2));
  heed_value value = read_value(L, heed_type_of(t));
  read_indices(L, &ps);
  hold(&ps, true);
  heed_op before = heed_set_caller(b->cx, HEED_index);
  bool good = assign(b->cx, t, &ps, value);
  heed_set_caller(b->cx, before);
  hold(&ps, false);
  return good ? 0 : raise_failure(L);
}

/* }================================================================== */
