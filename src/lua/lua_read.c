/*
** lua_read.c - what a tensor is and holds, given to Lua.
*/

#include <string.h>

#include "lua_heed.h"


/*
** {==================================================================
** Values
** ===================================================================
*/

static void push_value (lua_State *L, heed_type type, const char *data, int64_t i) {
  if (type == HEED_BOOL) lua_pushboolean(L, data[i] != 0);
  else if (type == HEED_INT64) lua_pushinteger(L, ((const int64_t *)(const void *)data)[i]);
  else lua_pushnumber(L, ((const double *)(const void *)data)[i]);
}

/* The type in which Lua sees elements: truths, integers or floats. */
static heed_type lua_type_of (const heed_tensor *t) {
  heed_type type = heed_type_of(t);
  return type == HEED_BOOL ? type : type <= HEED_INT64 ? HEED_INT64 : HEED_FLOAT64;
}

void push_element (lua_State *L, heed_tensor *t) {
  int64_t room;
  heed_type type = lua_type_of(t);
  if (!heed_read(t, type, &room)) raise_failure(L);
  push_value(L, type, (const char *)&room, 0);
}

static int l_item (lua_State *L) {
  enter(L);
  heed_tensor *t = check_tensor(L, 1);
  if (heed_numel(t) != 1) {
    push_shape(L, t);
    return raise(L, "item: one element expected, got a tensor of shape %s",
                 luaL_tolstring(L, -1, NULL));
  }
  push_element(L, t);
  return 1;
}

static void push_nested (lua_State *L, heed_tensor *t, heed_type type, int axis, const char *data,
                         int64_t *i) {
  if (axis == heed_rank(t)) {
    push_value(L, type, data, (*i)++);
    return;
  }
  int64_t n = heed_size(t, axis);
  luaL_checkstack(L, 4, "totable");
  lua_createtable(L, n < (1 << 26) ? (int)n : 0, 0);
  for (int64_t k = 1; k <= n; k++) {
    push_nested(L, t, type, axis + 1, data, i);
    lua_rawseti(L, -2, k);
  }
}

static int l_totable (lua_State *L) {
  enter(L);
  heed_tensor *t = check_tensor(L, 1);
  heed_type type = lua_type_of(t);
  int64_t i = 0;
  char *data = lua_newuserdatauv(L, (size_t)heed_numel(t) * 8 + 8, 0);
  if (!heed_read(t, type, data)) return raise_failure(L);
  push_nested(L, t, type, 0, data, &i);
  return 1;
}

/* The elements' bytes, row by row, in the machine's order. */
static int l_data (lua_State *L) {
  enter(L);
  heed_tensor *t = check_tensor(L, 1);
  luaL_Buffer buffer;
  size_t bytes = (size_t)heed_numel(t) * heed_type_size(heed_type_of(t));
  char *data = luaL_buffinitsize(L, &buffer, bytes);
  if (!heed_read(t, heed_type_of(t), data)) return raise_failure(L);
  luaL_pushresultsize(&buffer, bytes);
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** Sizes and types
** ===================================================================
*/

/* size() gives all, size(i) one */
static int l_size (lua_State *L) {
  heed_tensor *t = check_tensor(L, 1);
  int rank = heed_rank(t);
  if (lua_isnoneornil(L, 2)) {
    for (int i = 0; i < rank; i++) lua_pushinteger(L, heed_size(t, i));
    return rank;
  }
  int64_t axis = axis_of(L, check_whole(L, 2, "size", "dim"), "size");
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank)
    return raise(L, "size: dimension %s is outside a tensor of %d", luaL_tolstring(L, 2, NULL),
                 rank);
  lua_pushinteger(L, heed_size(t, (int)axis));
  return 1;
}

static int l_stride (lua_State *L) {
  heed_tensor *t = check_tensor(L, 1);
  lua_newtable(L);
  for (int i = 0; i < heed_rank(t); i++) {
    lua_pushinteger(L, heed_stride(t, i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int l_dim (lua_State *L) {
  lua_pushinteger(L, heed_rank(check_tensor(L, 1)));
  return 1;
}

static int l_numel (lua_State *L) {
  lua_pushinteger(L, heed_numel(check_tensor(L, 1)));
  return 1;
}

static int l_is_contiguous (lua_State *L) {
  lua_pushboolean(L, heed_contiguous(check_tensor(L, 1)));
  return 1;
}

/* What x:to(...) asks for: a type, a device, another tensor's, or options with both. */
static void read_target (lua_State *L, int i, heed_type *type) {
  heed_tensor *like = raw_tensor(L, i);
  if (like != NULL) *type = heed_type_of(like);
  else if (lua_type(L, i) == LUA_TTABLE) {
    static const char *const known[] = {"dtype", "device", "non_blocking", "copy"};
    lua_pushnil(L);
    while (lua_next(L, i)) {
      const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
      bool named = false;
      for (int k = 0; k < 4; k++) named = named || strcmp(key, known[k]) == 0;
      if (!named) unknown_option(L, "to", key, 4, known);
      if (strcmp(key, "dtype") == 0 || strcmp(key, "device") == 0)
        read_target(L, lua_gettop(L), type);
      lua_pop(L, 1);
    }
  }
  else if (lua_type(L, i) != LUA_TSTRING)
    raise(L, "to: a type or a device expected, got %s", luaL_typename(L, i));
  else if (!heed_type_find(lua_tostring(L, i), type) && strcmp(lua_tostring(L, i), "cpu") != 0)
    raise(L, "to: no type and no device here is called '%s'", lua_tostring(L, i));
}

static int l_to (lua_State *L) {
  binding *b = enter(L);
  heed_tensor *t = check_tensor(L, 1);
  heed_type type = heed_type_of(t);
  int top = lua_gettop(L);
  if (top < 2) return raise(L, "to: a type or a device expected");
  for (int i = 2; i <= top; i++) read_target(L, i, &type);
  if (type == heed_type_of(t)) {
    lua_settop(L, 1);
    return 1;
  }
  box *slot = push_box(L);
  return fill(L, slot, heed_call(b->cx, HEED_to, (heed_value[]){heed_t(t), heed_i(type)}, 2));
}

/* }================================================================== */


/*
** {==================================================================
** Comparison of whole tensors
** ===================================================================
*/

static bool same_shape (const heed_tensor *a, const heed_tensor *b) {
  bool same = heed_rank(a) == heed_rank(b);
  for (int i = 0; same && i < heed_rank(a); i++) same = heed_size(a, i) == heed_size(b, i);
  return same;
}

/* Pushes whether all of the box on top holds; the box goes. */
static int push_all (lua_State *L, box *slot, heed_tensor *each) {
  binding *b = lua_touserdata(L, lua_upvalueindex(1));
  heed_tensor *all = heed_call(b->cx, HEED_all, (heed_value[]){heed_t(each)}, 1);
  heed_drop(each);
  fill(L, slot, all);
  push_element(L, all);
  return 1;
}

static int l_equal (lua_State *L) {
  binding *b = enter(L);
  heed_tensor *x = check_tensor(L, 1), *y = check_tensor(L, 2);
  if (!same_shape(x, y)) {
    lua_pushboolean(L, 0);
    return 1;
  }
  box *slot = push_box(L);
  return push_all(L, slot, heed_call(b->cx, HEED_eq, (heed_value[]){heed_t(x), heed_t(y)}, 2));
}

/* }================================================================== */


static int l_detach (lua_State *L) {
  enter(L);
  heed_tensor *t = check_tensor(L, 1);
  box *slot = push_box(L);
  return fill(L, slot, heed_detach(t));
}

/* x:set_(y): x becomes y's storage, layout and type, and stays the same handle */
static int l_set (lua_State *L) {
  enter(L);
  if (!heed_take_over(check_tensor(L, 1), check_tensor(L, 2))) return raise_failure(L);
  lua_settop(L, 1);
  return 1;
}

void open_read (lua_State *L, int module, int methods) {
  static const luaL_Reg functions[] = {
    {"data", l_data}, {"detach", l_detach}, {"dim", l_dim}, {"equal", l_equal},
    {"is_contiguous", l_is_contiguous}, {"item", l_item}, {"numel", l_numel}, {"set_", l_set},
    {"size", l_size}, {"stride", l_stride}, {"to", l_to}, {"totable", l_totable}, {NULL, NULL}
  };
  register_functions(L, functions, methods);
  register_functions(L, functions, module);
  lua_pushnil(L);
  lua_setfield(L, module, "data");     /* the name of a library there */
}
