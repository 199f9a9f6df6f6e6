/*
** lua_heed.c - opens the module: the binding, its tensors' metatable, its errors.
*/

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua_heed.h"
#include "heed_lua.h"

static const char registry_key = 0;      /* its address names the binding in the registry */
static const char metatable_key = 0;


/*
** {==================================================================
** Errors
** ===================================================================
*/

/* Pushes "file:line: " of the first line that is not heed's own. */
static void push_where (lua_State *L, const binding *b) {
  lua_Debug ar;
  size_t home = strlen(b->home);
  for (int level = 1; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline <= 0) continue;   /* C, or a tail call's remains */
    if (home > 0 && strncmp(ar.source, b->home, home) == 0) continue;
    lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
    return;
  }
  lua_pushliteral(L, "");
}

int raise_failure (lua_State *L) {
  binding *b = lua_touserdata(L, lua_upvalueindex(1));
  const char *message = heed_error(b->cx);
  push_where(L, b);
  lua_pushstring(L, message != NULL ? message : "heed: an operation failed");
  heed_clear(b->cx);
  lua_concat(L, 2);
  return lua_error(L);
}

int raise (lua_State *L, const char *format, ...) {
  va_list args;
  push_where(L, lua_touserdata(L, lua_upvalueindex(1)));
  va_start(args, format);
  lua_pushvfstring(L, format, args);
  va_end(args);
  lua_concat(L, 2);
  return lua_error(L);
}

/* fail(format, ...): what the Lua half raises its own errors with */
static int l_fail (lua_State *L) {
  luaL_checkstring(L, 1);
  if (lua_gettop(L) > 1) {
    lua_getglobal(L, "string");          /* the format is Lua's, and so is its function */
    lua_getfield(L, -1, "format");
    lua_insert(L, 1);
    lua_pop(L, 1);
    lua_call(L, lua_gettop(L) - 1, 1);
  }
  push_where(L, enter(L));
  lua_pushvalue(L, -2);
  lua_concat(L, 2);
  return lua_error(L);
}

const char *function_name (lua_State *L) {
  const char *name = lua_tostring(L, lua_upvalueindex(3));
  return name != NULL ? name : "heed";
}

/* How many letters must change to make a from b: Levenshtein's distance, at most 'far'. */
static int distance (const char *a, const char *b) {
  enum { far = 24 };
  int row[far + 1];
  size_t n = strlen(a), m = strlen(b);
  if (n > far || m > far) return far;
  for (size_t j = 0; j <= m; j++) row[j] = (int)j;
  for (size_t i = 1; i <= n; i++) {
    int diagonal = row[0];
    row[0] = (int)i;
    for (size_t j = 1; j <= m; j++) {
      int change = diagonal + (a[i - 1] != b[j - 1]);
      int insert = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      diagonal = row[j];
      row[j] = change < insert ? change : insert;
    }
  }
  return row[m];
}

void unknown_option (lua_State *L, const char *function, const char *key, int n,
                     const char *const *known) {
  int best = -1, least = 100;
  for (int i = 0; i < n; i++) {
    bool begins = strncmp(known[i], key, strlen(key)) == 0;
    int d = begins ? 1 : distance(key, known[i]);
    if (d < least) { least = d; best = i; }
  }
  if (best < 0) raise(L, "%s: unknown option '%s'; it takes none", function, key);
  raise(L, "%s: unknown option '%s'; did you mean '%s'?", function, key, known[best]);
}

/* }================================================================== */


/*
** {==================================================================
** Tensors as userdata
** ===================================================================
*/

/* A box, however its metatable was tampered with; NULL for anything else. */
static box *to_box (lua_State *L, int i) {
  box *slot = lua_touserdata(L, i);
  if (slot == NULL || lua_rawlen(L, i) != sizeof(box) || slot->self != slot) return NULL;
  return slot->owner == lua_touserdata(L, lua_upvalueindex(1)) ? slot : NULL;
}

heed_tensor *raw_tensor (lua_State *L, int i) {
  box *slot = to_box(L, i);
  return slot != NULL ? slot->t : NULL;
}

heed_tensor *check_tensor (lua_State *L, int i) {
  box *slot = to_box(L, i);
  if (slot == NULL)
    raise(L, "%s: argument %d: a tensor expected, got %s", function_name(L), i,
          luaL_typename(L, i));
  if (slot->t == NULL) raise(L, "%s: the tensor was released", function_name(L));
  return slot->t;
}

box *push_box (lua_State *L) {
  binding *b = lua_touserdata(L, lua_upvalueindex(1));
  box *slot = lua_newuserdatauv(L, sizeof(box), 0);
  memset(slot, 0, sizeof *slot);
  slot->self = slot;
  slot->owner = b;
  slot->serial = ++b->serial;
  slot->older = b->newest;
  if (b->newest != NULL) b->newest->newer = slot;
  b->newest = slot;
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_setmetatable(L, -2);
  return slot;
}

int fill (lua_State *L, box *slot, heed_tensor *t) {
  if (t == NULL) raise_failure(L);
  slot->t = t;
  return 1;
}

void release_box (box *slot) {
  heed_tensor *t = slot->t;
  slot->t = NULL;
  heed_drop(t);
}

/* release(), __gc and __close alike: twice does no harm, nor does a stranger. */
static int l_release (lua_State *L) {
  box *slot = to_box(L, 1);
  if (slot == NULL) return 0;
  slot->owner->L = L;              /* dropping history may let go of functions */
  release_box(slot);
  return 0;
}

static int l_gc (lua_State *L) {
  box *slot = to_box(L, 1);
  if (slot == NULL) return 0;
  lua_State *running = slot->owner->L;
  slot->owner->L = L;
  release_box(slot);
  slot->owner->L = running;
  if (slot->newer != NULL) slot->newer->older = slot->older;
  else if (slot->owner->newest == slot) slot->owner->newest = slot->older;
  if (slot->older != NULL) slot->older->newer = slot->newer;
  slot->newer = slot->older = NULL;
  return 0;
}

/* }================================================================== */


/*
** {==================================================================
** Fields and methods
** ===================================================================
*/

void push_shape (lua_State *L, const heed_tensor *t) {
  int rank = heed_rank(t);
  lua_createtable(L, rank, 0);
  for (int i = 0; i < rank; i++) {
    lua_pushinteger(L, heed_size(t, i));
    lua_rawseti(L, -2, i + 1);
  }
  luaL_setmetatable(L, "heed.shape");
}

static int shape_tostring (lua_State *L) {
  luaL_Buffer buffer;
  luaL_buffinit(L, &buffer);
  luaL_addchar(&buffer, '(');
  lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  for (lua_Integer i = 1; i <= n; i++) {
    if (i > 1) luaL_addstring(&buffer, ", ");
    lua_rawgeti(L, 1, i);
    luaL_addvalue(&buffer);
  }
  luaL_addstring(&buffer, ")");
  luaL_pushresult(&buffer);
  return 1;
}

static int shape_eq (lua_State *L) {
  if (!lua_istable(L, 1) || !lua_istable(L, 2)) return 0;
  lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  bool same = n == (lua_Integer)lua_rawlen(L, 2);
  for (lua_Integer i = 1; same && i <= n; i++) {
    lua_rawgeti(L, 1, i);
    lua_rawgeti(L, 2, i);
    same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
  }
  lua_pushboolean(L, same);
  return 1;
}

static int shape_index (lua_State *L) {
  lua_Integer i = lua_tointeger(L, 2);
  if (lua_isinteger(L, 2) && i < 0) lua_rawgeti(L, 1, (lua_Integer)lua_rawlen(L, 1) + 1 + i);
  else lua_pushnil(L);
  return 1;
}

static void open_shape (lua_State *L) {
  static const luaL_Reg functions[] = {
    {"__tostring", shape_tostring}, {"__eq", shape_eq}, {"__index", shape_index}, {NULL, NULL}
  };
  luaL_newmetatable(L, "heed.shape");
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

static bool push_field (lua_State *L, heed_tensor *t, const char *key) {
  if (strcmp(key, "shape") == 0) push_shape(L, t);
  else if (strcmp(key, "dtype") == 0) lua_pushstring(L, heed_type_name(heed_type_of(t)));
  else if (strcmp(key, "device") == 0) lua_pushstring(L, heed_device_of(t));
  else if (strcmp(key, "requires_grad") == 0) lua_pushboolean(L, heed_requires_grad(t));
  else if (strcmp(key, "is_leaf") == 0) lua_pushboolean(L, heed_is_leaf(t));
  else if (strcmp(key, "grad") == 0) {
    box *slot = push_box(L);
    slot->t = heed_gradient(t);
    slot->kept = true;
    if (slot->t == NULL) lua_pushnil(L);
  }
  else return false;
  return true;
}

/* A name is a method or a field, anything else a place. Upvalue 3: the methods. */
static int l_index (lua_State *L) {
  enter(L);
  box *slot = to_box(L, 1);
  if (slot == NULL)
    return raise(L, "index: a tensor expected, got %s", luaL_typename(L, 1));
  if (lua_type(L, 2) == LUA_TSTRING) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(3)) != LUA_TNIL) return 1;
    if (slot->t == NULL) return raise(L, "%s: the tensor was released", lua_tostring(L, 2));
    if (push_field(L, slot->t, lua_tostring(L, 2))) return 1;
    lua_pushnil(L);
    return 1;
  }
  if (slot->t == NULL) return raise(L, "index: the tensor was released");
  return index_by_place(L, slot->t);
}

static int l_len (lua_State *L) {
  heed_tensor *t = check_tensor(L, 1);
  if (heed_rank(t) == 0) return raise(L, "#: a tensor of rank 0 has no length");
  lua_pushinteger(L, heed_size(t, 0));
  return 1;
}

static int l_compare (lua_State *L) {
  return raise(L, "'<' and '<=' give one boolean in Lua: compare tensors with x:lt(y), x:le(y), "
               "x:gt(y) or x:ge(y)");
}

static int l_concat (lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  luaL_tolstring(L, 2, NULL);
  lua_concat(L, 2);
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** Helpers for arguments
** ===================================================================
*/

bool is_options (lua_State *L, int i) {
  if (lua_type(L, i) != LUA_TTABLE || lua_rawlen(L, i) != 0) return false;
  lua_pushnil(L);
  if (!lua_next(L, i)) return false;       /* {} is an empty shape */
  bool named = lua_type(L, -2) == LUA_TSTRING;
  lua_pop(L, 2);
  return named;
}

bool to_whole (lua_State *L, int i, int64_t *value) {
  int exact;
  if (lua_type(L, i) != LUA_TNUMBER) return false;   /* a string never becomes a number */
  *value = lua_tointegerx(L, i, &exact);
  return exact != 0;
}

int64_t check_whole (lua_State *L, int i, const char *function, const char *name) {
  int64_t value = 0;
  if (to_whole(L, i, &value)) return value;
  if (lua_type(L, i) == LUA_TNUMBER) {
    lua_pushvalue(L, i);
    raise(L, "%s: argument '%s': a whole number expected, got %s", function, name,
          lua_tostring(L, -1));
  }
  raise(L, "%s: argument '%s': a whole number expected, got %s", function, name,
        luaL_typename(L, i));
  return 0;
}

heed_type check_type_name (lua_State *L, int i, const char *function) {
  heed_type type = HEED_FLOAT32;
  if (lua_type(L, i) != LUA_TSTRING)
    raise(L, "%s: argument 'dtype': a type's name expected, got %s", function,
          luaL_typename(L, i));
  if (!heed_type_find(lua_tostring(L, i), &type))
    raise(L, "%s: argument 'dtype': no type is called '%s'; there are bool uint8 int64 float16 "
          "bfloat16 float32 float64", function, lua_tostring(L, i));
  return type;
}

int64_t axis_of (lua_State *L, int64_t axis, const char *function) {
  if (axis == 0) raise(L, "%s: dimensions count from 1, got 0", function);
  return axis > 0 ? axis - 1 : axis;
}

/* Each function with the binding, the metatable and its own name as upvalues. */
void register_functions (lua_State *L, const luaL_Reg *functions, int table) {
  table = lua_absindex(L, table);
  for (; functions->name != NULL; functions++) {
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_pushstring(L, functions->name);
    lua_pushcclosure(L, functions->func, 3);
    lua_setfield(L, table, functions->name);
  }
}

/* }================================================================== */


/*
** {==================================================================
** Opening
** ===================================================================
*/

/* Boxes that finalisers made while the state closed have none of their own: they end here. */
static int close_binding (lua_State *L) {
  binding *b = lua_touserdata(L, 1);
  heed_context *cx = b->cx;
  b->L = L;
  for (box *slot = b->newest; slot != NULL; slot = slot->older) release_box(slot);
  b->newest = NULL;
  b->cx = NULL;
  if (cx != NULL) heed_close(cx);
  return 0;
}

static void new_binding (lua_State *L) {
  binding *b = lua_newuserdatauv(L, sizeof(binding), 0);
  memset(b, 0, sizeof *b);
  b->L = L;
  b->precision = 4;
  b->width = 80;
  b->edge = 3;
  b->soft_limit = 32 << 20;
  lua_createtable(L, 0, 2);
  lua_pushcfunction(L, close_binding);
  lua_setfield(L, -2, "__gc");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, -2);
  heed_host host = {.room = make_room, .self = b};
  b->cx = heed_open(&host);
  if (b->cx == NULL) {
    const char *level = getenv("HEED_LEVEL");
    luaL_error(L, "heed: cannot open: no memory%s%s", level != NULL ? ", or no level " : "",
               level != NULL ? level : "");
  }
}

static int l_home (lua_State *L) {
  binding *b = enter(L);
  size_t n;
  const char *home = luaL_checklstring(L, 1, &n);
  if (n < sizeof b->home) memcpy(b->home, home, n + 1);
  return 0;
}

static void open_metatable (lua_State *L, int methods) {
  static const luaL_Reg plain[] = {
    {"__gc", l_gc}, {"__close", l_release}, {"__len", l_len}, {"__tostring", l_tostring},
    {"__lt", l_compare}, {"__le", l_compare}, {"__concat", l_concat}, {"__newindex", l_newindex},
    {NULL, NULL}
  };
  lua_pushvalue(L, lua_upvalueindex(2));
  register_functions(L, plain, -1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, methods);
  lua_pushcclosure(L, l_index, 3);
  lua_setfield(L, -2, "__index");
  lua_pushliteral(L, "heed.tensor");
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

/* Fills the module; runs with the binding and the metatable as upvalues. */
static int fill_module (lua_State *L) {
  static const luaL_Reg core[] = {{"fail", l_fail}, {"home", l_home}, {NULL, NULL}};
  static const luaL_Reg released[] = {{"release", l_release}, {NULL, NULL}};
  enter(L);
  lua_newtable(L);
  lua_newtable(L);
  int methods = lua_gettop(L), module = methods - 1;
  register_functions(L, core, module);
  register_functions(L, released, methods);
  open_metatable(L, methods);
  open_ops(L, module, methods);
  open_make(L, module, methods);
  open_read(L, module, methods);
  open_print(L, module, methods);
  open_memory(L, module, methods);
  open_grad(L, module, methods);
  open_optim(L, module);
  open_file(L, module);
  lua_setfield(L, module, "methods");
  return 1;
}

int luaopen_heed_core (lua_State *L) {
  luaL_checkversion(L);
  open_shape(L);
  new_binding(L);
  lua_newtable(L);                                     /* the metatable of tensors */
  lua_pushvalue(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &registry_key);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &metatable_key);
  lua_pushcclosure(L, fill_module, 2);
  lua_call(L, 0, 1);
  return 1;
}

heed_context *heed_context_in (lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &registry_key);
  binding *b = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return b != NULL ? b->cx : NULL;
}

/* Runs f with the upvalues of the module, for calls from C. */
static void call_bound (lua_State *L, lua_CFunction f, int nargs, int nresults) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &registry_key) == LUA_TNIL)
    luaL_error(L, "heed: the module is not open in this state");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key);
  lua_pushcclosure(L, f, 2);
  lua_insert(L, -nargs - 1);
  lua_call(L, nargs, nresults);
}

static int bound_push (lua_State *L) {
  enter(L);
  box *slot = push_box(L);
  slot->t = lua_touserdata(L, 1);
  return 1;
}

void heed_push (lua_State *L, heed_tensor *t) {
  if (t == NULL) { lua_pushnil(L); return; }
  lua_pushlightuserdata(L, t);
  call_bound(L, bound_push, 1, 1);
}

static int bound_check (lua_State *L) {
  lua_pushlightuserdata(L, check_tensor(L, 1));
  return 1;
}

heed_tensor *heed_check (lua_State *L, int i) {
  lua_pushvalue(L, i);
  call_bound(L, bound_check, 1, 1);
  heed_tensor *t = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return t;
}

/* }================================================================== */
