/*
** lua_index.c - x[place] and x[place] = value. A place is a number, a tensor, or a table with
** one entry for each axis: a number, {} for all, {from, to[, step]}, an int64 or a bool tensor.
**
** Places are read from Lua completely before anything is done with them.
*/

#include <string.h>

#include "lua_heed.h"

typedef enum place_kind { PLACE_ALL, PLACE_NUMBER, PLACE_RANGE, PLACE_TENSOR } place_kind;

typedef struct place {
  place_kind kind;
  int64_t from, to, step;
  heed_tensor *t;
} place;

typedef struct places {
  int n;
  place at[2 * HEED_RANK];
} places;


/*
** {==================================================================
** Reading places
** ===================================================================
*/

static void read_range (lua_State *L, int i, place *p) {
  lua_Unsigned n = lua_rawlen(L, i);
  int64_t *const parts[] = {&p->from, &p->to, &p->step};
  p->kind = n == 0 ? PLACE_ALL : PLACE_RANGE;
  p->step = 1;
  if (n != 0 && n != 2 && n != 3)
    raise(L, "index: a range is {}, {from, to} or {from, to, step}, got %d entries", (int)n);
  for (int k = 0; k < (int)n; k++) {
    lua_rawgeti(L, i, k + 1);
    *parts[k] = check_whole(L, lua_gettop(L), "index", "range");
    lua_pop(L, 1);
  }
}

static void read_place (lua_State *L, int i, place *p) {
  switch (lua_type(L, i)) {
    case LUA_TNUMBER:
      p->kind = PLACE_NUMBER;
      p->from = check_whole(L, i, "index", "position");
      return;
    case LUA_TTABLE: read_range(L, i, p); return;
    case LUA_TBOOLEAN:
      raise(L, "index: a boolean is no place; a mask comes from x:eq(2) and the like");
      return;
    default: break;
  }
  p->kind = PLACE_TENSOR;
  p->t = raw_tensor(L, i);
  if (p->t == NULL) raise(L, "index: a place expected, got %s", luaL_typename(L, i));
  heed_type type = heed_type_of(p->t);
  if (type != HEED_INT64 && type != HEED_BOOL)
    raise(L, "index: an int64 or bool tensor expected as a place, got %s", heed_type_name(type));
}

/* The place at stack index i, which may be a table of places. */
static void read_places (lua_State *L, int i, places *ps) {
  ps->n = 0;
  if (lua_type(L, i) != LUA_TTABLE) {
    read_place(L, i, &ps->at[ps->n++]);
    return;
  }
  lua_Unsigned n = lua_rawlen(L, i);
  if (n > HEED_RANK) raise(L, "index: %d places given, %d axes are the most", (int)n, HEED_RANK);
  for (lua_Unsigned k = 1; k <= n; k++) {
    lua_rawgeti(L, i, (lua_Integer)k);
    read_place(L, lua_gettop(L), &ps->at[ps->n++]);
    lua_pop(L, 1);
  }
}

/* }================================================================== */


/*
** {==================================================================
** The view that numbers and ranges select; tensors wait for 'take' or 'put'
** ===================================================================
*/

static int axes_of (const place *p) {
  return p->kind == PLACE_TENSOR && heed_type_of(p->t) == HEED_BOOL ? heed_rank(p->t) : 1;
}

/* One step: a new handle in place of v. */
static heed_tensor *narrowed (heed_context *cx, heed_tensor *v, const place *p, int axis) {
  heed_tensor *y = p->kind == PLACE_NUMBER
    ? heed_call(cx, HEED_select, (heed_value[]){heed_t(v), heed_i(axis), heed_i(p->from)}, 3)
    : heed_call(cx, HEED_slice, (heed_value[]){heed_t(v), heed_i(axis), heed_i(p->from),
                                               heed_i(p->to), heed_i(p->step)}, 5);
  heed_drop(v);
  return y;
}

/* tensors[axis of the view] for the tensors among the places; their number as result, -1 failed. */
static int apply_places (heed_context *cx, heed_tensor *t, const places *ps, heed_tensor **view,
                         heed_tensor *tensors[HEED_RANK], int *last) {
  int axis = 0, found = 0;
  heed_tensor *v = heed_keep(t);
  *last = 0;
  for (int i = 0; i < HEED_RANK; i++) tensors[i] = NULL;
  for (int i = 0; v != NULL && i < ps->n; i++) {
    const place *p = &ps->at[i];
    if (axis + axes_of(p) > heed_rank(v)) {
      heed_fail(cx, "index: more places than the tensor's %d axes", heed_rank(t));
      heed_drop(v);
      v = NULL;
    }
    else if (p->kind == PLACE_TENSOR) {
      tensors[axis] = p->t;
      *last = axis + 1;
      axis += axes_of(p);
      found++;
    }
    else {
      if (p->kind != PLACE_ALL) v = narrowed(cx, v, p, axis);
      axis += p->kind != PLACE_NUMBER;
    }
  }
  *view = v;
  return v == NULL ? -1 : found;
}

/* Entries of 'take': one for each axis, but a bool tensor stands for as many as it has. */
static int list_places (heed_tensor *const tensors[HEED_RANK], int last,
                        heed_tensor *list[HEED_RANK]) {
  int n = 0;
  for (int i = 0; i < last; n++) {
    heed_tensor *t = list[n] = tensors[i];
    i += t != NULL && heed_type_of(t) == HEED_BOOL ? heed_rank(t) : 1;
    if (t != NULL && heed_type_of(t) == HEED_BOOL && heed_rank(t) == 0) i++;
  }
  return n;
}

/* }================================================================== */


/*
** {==================================================================
** x[place]
** ===================================================================
*/

static int push_place (lua_State *L, heed_tensor *t, const places *ps) {
  binding *b = lua_touserdata(L, lua_upvalueindex(1));
  heed_tensor *view, *tensors[HEED_RANK], *list[HEED_RANK];
  int last;
  box *slot = push_box(L);
  int found = apply_places(b->cx, t, ps, &view, tensors, &last);
  if (found > 0) {
    int n = list_places(tensors, last, list);
    heed_tensor *y = heed_call(b->cx, HEED_take, (heed_value[]){heed_t(view), heed_ts(n, list)}, 2);
    heed_drop(view);
    view = y;
  }
  return fill(L, slot, view);
}

/* An element of a vector is a number; reading it would cut its gradient. */
static int push_vector_element (lua_State *L, heed_tensor *t, int64_t i) {
  binding *b = lua_touserdata(L, lua_upvalueindex(1));
  if (heed_requires_grad(t) && heed_recording(b->cx))
    return raise(L, "index: reading an element gives a plain number and would cut its gradient; "
                 "use x:select(1, %I), or x:detach()", (LUAI_UACINT)i);
  box *slot = push_box(L);
  fill(L, slot, heed_call(b->cx, HEED_select, (heed_value[]){heed_t(t), heed_i(0), heed_i(i)}, 3));
  push_element(L, slot->t);
  release_box(slot);
  return 1;
}

static int push_row (lua_State *L, heed_tensor *t) {
  if (heed_rank(t) == 0)
    return raise(L, "index: a tensor of rank 0 has no positions; use x:item()");
  int64_t i = check_whole(L, 2, "index", "position"), n = heed_size(t, 0);
  if (i == n + 1) {                /* so that ipairs ends */
    lua_pushnil(L);
    return 1;
  }
  if (i == 0 || i > n || i < -n)
    return raise(L, "index: position %I is outside 1 to %I%s", (LUAI_UACINT)i, (LUAI_UACINT)n,
                 i == 0 ? "; positions count from 1" : "");
  if (heed_rank(t) == 1) return push_vector_element(L, t, i);
  places ps = {.n = 1, .at = {{.kind = PLACE_NUMBER, .from = i}}};
  return push_place(L, t, &ps);
}

/* A vector's single position within a table reads an element too. */
static bool names_element (const heed_tensor *t, const places *ps) {
  bool numbers = ps->n == heed_rank(t) && ps->n > 0;
  for (int i = 0; numbers && i < ps->n; i++) numbers = ps->at[i].kind == PLACE_NUMBER;
  return numbers;
}

static int push_element_at (lua_State *L, heed_tensor *t, const places *ps) {
  binding *b = lua_touserdata(L, lua_upvalueindex(1));
  if (heed_requires_grad(t) && heed_recording(b->cx))
    return raise(L, "index: reading an element gives a plain number and would cut its gradient; "
                 "use x:select(1, %I), or x:detach()", (LUAI_UACINT)ps->at[0].from);
  push_place(L, t, ps);
  push_element(L, raw_tensor(L, -1));
  return 1;
}

int index_by_place (lua_State *L, heed_tensor *t) {
  places ps;
  if (lua_type(L, 2) == LUA_TNUMBER) return push_row(L, t);
  read_places(L, 2, &ps);
  return names_element(t, &ps) ? push_element_at(L, t, &ps) : push_place(L, t, &ps);
}

/* }================================================================== */


/*
** {==================================================================
** x[place] = value
** ===================================================================
*/

/* The value at 3: a tensor's handle, or a number. */
static heed_value read_value (lua_State *L, const heed_tensor *t) {
  switch (lua_type(L, 3)) {
    case LUA_TNUMBER:
      return lua_isinteger(L, 3) ? heed_i(lua_tointeger(L, 3)) : heed_f(lua_tonumber(L, 3));
    case LUA_TBOOLEAN: return heed_b(lua_toboolean(L, 3));
    case LUA_TTABLE: {
      heed_type type = heed_type_of(t);
      return heed_t(push_from_value(L, 3, &type));
    }
    default: break;
  }
  heed_tensor *value = raw_tensor(L, 3);
  if (value == NULL)
    raise(L, "index: a number, a table or a tensor expected as the value, got %s",
          luaL_typename(L, 3));
  return heed_t(value);
}

static bool assign (heed_context *cx, heed_tensor *t, const places *ps, heed_value value) {
  heed_tensor *view, *tensors[HEED_RANK], *list[HEED_RANK];
  int last, found = apply_places(cx, t, ps, &view, tensors, &last);
  bool good = found >= 0;
  if (found > 0) {
    int n = list_places(tensors, last, list);
    good = heed_apply_in_place(cx, HEED_put,
                               (heed_value[]){heed_t(view), heed_ts(n, list), value}, 3);
  }
  else if (good) {
    heed_op op = value.kind == HEED_TENSOR ? HEED_copy : HEED_fill;
    good = heed_apply_in_place(cx, op, (heed_value[]){heed_t(view), value}, 2);
  }
  heed_drop(view);
  return good;
}

static int assign_field (lua_State *L, heed_tensor *t, const char *key) {
  if (strcmp(key, "grad") == 0) {
    heed_tensor *g = lua_isnil(L, 3) ? NULL : check_tensor(L, 3);
    if (!heed_set_gradient(t, g)) return raise_failure(L);
  }
  else if (strcmp(key, "requires_grad") == 0) {
    if (!lua_isboolean(L, 3)) return raise(L, "requires_grad: true or false expected, got %s",
                                           luaL_typename(L, 3));
    if (!heed_require_grad(t, lua_toboolean(L, 3))) return raise_failure(L);
  }
  else return raise(L, "a tensor has no field '%s' to set", key);
  return 0;
}

int l_newindex (lua_State *L) {
  binding *b = enter(L);
  heed_tensor *t = check_tensor(L, 1);
  places ps;
  if (lua_type(L, 2) == LUA_TSTRING) return assign_field(L, t, lua_tostring(L, 2));
  read_places(L, 2, &ps);
  heed_value value = read_value(L, t);
  if (!assign(b->cx, t, &ps, value)) return raise_failure(L);
  return 0;
}

/* }================================================================== */
