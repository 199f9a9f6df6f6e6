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

heed_type lua_type_of (const heed_tensor *t) {
  heed_type type = heed_type_of(t);
  return type == HEED_BOOL ? type : type <= HEED_INT64 ? HEED_INT64 : HEED_FLOAT64;
}


bool read_element (heed_tensor *t, element *e) {
  if (t == NULL) return false;
  e->type = lua_type_of(t);
  return heed_read(t, e->type, &e->integer);
}


void push_element (lua_State *L, const element *e) {
  if (e->type == HEED_BOOL) lua_pushboolean(L, e->boolean);
  else if (e->type == HEED_INT64) lua_pushinteger(L, e->integer);
  else lua_pushnumber(L, e->number);
}


static int l_item (lua_State *L) {
  element e;
  enter(L);
  at_most(L, 1);
  heed_tensor *t = check_tensor(L, 1);
  if (heed_numel(t) != 1)
    return raise(L, "a tensor of one element expected, got %s", describe(L, 1));
  named(L);
  done(L, read_element(t, &e));
  push_element(L, &e);
  return 1;
}


/* Elements as they were copied out, and what tables of them look like. */
typedef struct copied {
  heed_type type;
  int rank;
  int64_t size[HEED_RANK];
  const char *next;
  int64_t pushed;
} copied;


static void push_next (lua_State *L, copied *c) {
  element e = {.type = c->type};
  size_t bytes = c->type == HEED_BOOL ? 1 : 8;
  memcpy(&e.integer, c->next, bytes);
  c->next += bytes;
  poll(L, c->pushed++);
  push_element(L, &e);
}


static void push_nested (lua_State *L, copied *c, int axis) {
  if (axis == c->rank) {
    push_next(L, c);
    return;
  }
  int64_t n = c->size[axis];
  lua_createtable(L, (int)n, 0);
  for (int64_t k = 1; k <= n; k++) {
    push_nested(L, c, axis + 1);
    lua_rawseti(L, -2, k);
  }
}


/* Of all tables together: those that hold no element take time, too. */
static void check_tables (lua_State *L, const heed_tensor *t) {
  int64_t lists = 1, entries = 0;
  for (int i = 0; i < heed_rank(t) && lists > 0; i++) {
    if (heed_size(t, i) > (LONGEST_LIST - entries) / lists)
      raise(L, "at most %d entries in all tables expected, got %s", LONGEST_LIST,
            describe(L, 1));
    lists *= heed_size(t, i);
    entries += lists;
  }
  check_entries(L, function_name(L), entries, "a table");
}


/* totable(): nested tables, or a number */
static int l_totable (lua_State *L) {
  enter(L);
  at_most(L, 1);
  heed_tensor *t = check_tensor(L, 1);
  check_tables(L, t);
  copied c = {.type = lua_type_of(t), .rank = heed_rank(t)};
  for (int i = 0; i < c.rank; i++) c.size[i] = heed_size(t, i);
  char *data = lua_newuserdatauv(L, (size_t)heed_numel(t) * 8 + 8, 0);
  named(L);
  done(L, heed_read(t, c.type, data));
  c.next = data;
  push_nested(L, &c, 0);
  return 1;
}


/* data(): the elements' bytes, row by row, in the machine's order */
static int l_data (lua_State *L) {
  luaL_Buffer buffer;
  enter(L);
  at_most(L, 1);
  heed_tensor *t = check_tensor(L, 1);
  size_t bytes = heed_type_bytes(heed_type_of(t), heed_numel(t));
  char *data = luaL_buffinitsize(L, &buffer, bytes);
  named(L);
  done(L, heed_read(t, heed_type_of(t), data));
  luaL_pushresultsize(&buffer, bytes);
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** Sizes
** ===================================================================
*/

/* size() gives all, size(dim) one */
static int l_size (lua_State *L) {
  at_most(L, 2);
  heed_tensor *t = check_tensor(L, 1);
  int rank = heed_rank(t);
  if (lua_isnoneornil(L, 2)) {
    for (int i = 0; i < rank; i++) lua_pushinteger(L, heed_size(t, i));
    return rank;
  }
  int64_t axis = axis_of(L, check_integer(L, 2, "dim"), "dim");
  if (axis < -rank || axis >= rank)
    return raise(L, "argument 'dim': dimension %s of a tensor of rank %d", describe(L, 2), rank);
  lua_pushinteger(L, heed_size(t, (int)axis));
  return 1;
}


/* stride(): a list, counted in elements */
static int l_stride (lua_State *L) {
  at_most(L, 1);
  heed_tensor *t = check_tensor(L, 1);
  lua_createtable(L, heed_rank(t), 0);
  for (int i = 0; i < heed_rank(t); i++) {
    lua_pushinteger(L, heed_stride(t, i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}


static int l_dim (lua_State *L) {
  at_most(L, 1);
  lua_pushinteger(L, heed_rank(check_tensor(L, 1)));
  return 1;
}


static int l_numel (lua_State *L) {
  at_most(L, 1);
  lua_pushinteger(L, heed_numel(check_tensor(L, 1)));
  return 1;
}


static int l_is_contiguous (lua_State *L) {
  at_most(L, 1);
  lua_pushboolean(L, heed_contiguous(check_tensor(L, 1)));
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** Other types, other handles
** ===================================================================
*/

/* The arguments of x:to(...). */
typedef struct target {
  heed_type type;
  const char *device;
  bool copy;
  bool has_type, has_device;       /* some argument has said so */
} target;


static void set_type (lua_State *L, target *to, heed_type type) {
  if (to->has_type)
    raise(L, "two types are given, '%s' and '%s'", heed_type_name(to->type), heed_type_name(type));
  to->type = type;
  to->has_type = true;
}


static void set_device (lua_State *L, target *to, const char *device) {
  if (to->has_device) raise(L, "two devices are given, '%s' and '%s'", to->device, device);
  to->device = device;
  to->has_device = true;
}


static void read_target_options (lua_State *L, int i, target *to) {
  static const char *const known[] = {"dtype", "device", "copy", "non_blocking"};
  const char *key;
  lua_pushnil(L);
  while ((key = next_option(L, i, 4, known)) != NULL) {
    int value = lua_gettop(L);
    if (key == known[0]) set_type(L, to, check_type_name(L, value));
    else if (key == known[1]) set_device(L, to, keep_device(L));
    else if (key == known[2]) to->copy = check_flag(L, value, key);
    else check_flag(L, value, key);
    lua_pop(L, 1);
  }
}


/* A type, a device, another tensor's, or options with both. */
static void read_target (lua_State *L, int i, target *to) {
  heed_tensor *like = raw_tensor(L, i);
  const char *name = plain_text(L, i);
  heed_type type;
  if (like != NULL) {
    set_type(L, to, heed_type_of(like));
    set_device(L, to, heed_device_of(like));
  }
  else if (lua_type(L, i) == LUA_TTABLE) read_target_options(L, i, to);
  else if (name == NULL) raise(L, "a type or a device expected, got %s", describe(L, i));
  else if (heed_type_find(name, &type)) set_type(L, to, type);
  else if (nearest_type(name) != NULL)
    raise(L, "no type is called '%s'; did you mean '%s'?", name, nearest_type(name));
  else set_device(L, to, name);
}


static bool is_on (const heed_tensor *t, const char *device) {
  return strcmp(device, heed_device_of(t)) == 0;
}


/* to(type | device | other | {dtype, device, copy}): x itself, or a converted copy */
static int l_to (lua_State *L) {
  enter(L);
  int top = lua_gettop(L);
  heed_tensor *x = check_tensor(L, 1);
  target to = {.type = heed_type_of(x), .device = heed_device_of(x)};
  if (top < 2) return raise(L, "a type or a device expected, got nothing");
  for (int i = 2; i <= top; i++) read_target(L, i, &to);
  cell *s = push_cell(L);
  heed_tensor *t = check_tensor(L, 1);
  heed_value args[] = {heed_t(t), heed_i(to.type), heed_s(to.device)};
  bool converts = to.type != heed_type_of(t) || !is_on(t, to.device);
  if (!converts && !to.copy) {
    lua_settop(L, 1);
    return 1;
  }
  if (converts) fill(L, s, heed_call(named(L), HEED_to, args, 3));
  else fill(L, s, heed_call(named(L), HEED_clone, args, 1));
  return pass_anchor(L, 1);
}


/* detach(): the same values without their graph */
static int l_detach (lua_State *L) {
  enter(L);
  at_most(L, 1);
  cell *s = push_cell(L);
  heed_tensor *t = check_tensor(L, 1);
  named(L);
  return fill(L, s, heed_detach(t));
}


/* set_(other): x takes other's storage, layout and type, and stays the same handle */
static int l_set (lua_State *L) {
  enter(L);
  at_most(L, 2);
  heed_tensor *t = check_tensor(L, 1), *from = check_tensor(L, 2);
  if (in_finaliser(L))             /* the interrupted call may rely on the shape */
    return raise(L, "a finaliser may not change what a tensor is");
  named(L);
  done(L, heed_take_over(t, from));
  lua_settop(L, 1);
  return 1;
}

/* }================================================================== */


static bool same_shape (const heed_tensor *a, const heed_tensor *b) {
  bool same = heed_rank(a) == heed_rank(b);
  for (int i = 0; same && i < heed_rank(a); i++) same = heed_size(a, i) == heed_size(b, i);
  return same;
}


/* equal(other): the same shape, and all elements equal? */
static int l_equal (lua_State *L) {
  element e;
  enter(L);
  at_most(L, 2);
  heed_tensor *x = check_tensor(L, 1), *y = check_tensor(L, 2);
  if (!same_shape(x, y)) {
    lua_pushboolean(L, 0);
    return 1;
  }
  heed_context *cx = named(L);
  heed_tensor *each = heed_call(cx, HEED_eq, (heed_value[]){heed_t(x), heed_t(y)}, 2);
  heed_tensor *all = heed_call(cx, HEED_all, (heed_value[]){heed_t(each)}, 1);
  bool good = read_element(all, &e);
  heed_drop(each);
  heed_drop(all);
  done(L, good);
  push_element(L, &e);
  return 1;
}


void open_read (lua_State *L, int module, int methods) {
  static const luaL_Reg functions[] = {
    {"data", l_data}, {"detach", l_detach}, {"dim", l_dim}, {"equal", l_equal},
    {"is_contiguous", l_is_contiguous}, {"item", l_item}, {"numel", l_numel}, {"set_", l_set},
    {"size", l_size}, {"stride", l_stride}, {"to", l_to}, {"totable", l_totable}, {NULL, NULL}
  };
  register_methods(L, functions, module, methods);
  lua_pushnil(L);
  lua_setfield(L, module, "data");     /* the name of a library there */
}
