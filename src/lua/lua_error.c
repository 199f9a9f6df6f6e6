/*
** lua_error.c - errors at the line that made the call, and the checks that raise them.
*/

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "lua_heed.h"


/*
** {==================================================================
** Raising
** ===================================================================
*/

/* Metamethod __index has the methods as upvalue 3. Finalisers are no part of what 'called' runs. */
const char *function_name (lua_State *L) {
  const binding *b = binding_of(L);
  if (b->called != NULL && !in_finaliser(L)) return b->called;
  const char *name = lua_tostring(L, lua_upvalueindex(3));
  if (name != NULL) return name;
  return lua_istable(L, lua_upvalueindex(3)) ? "index" : "heed";
}


/* Pushes "file:line: " of the first line that is not heed's own. */
static void push_where (lua_State *L, const binding *b) {
  lua_Debug ar;
  size_t home = strlen(b->home);
  for (int level = 1; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline <= 0) continue;           /* C, or a tail call's remains */
    if (home > 0 && strncmp(ar.source, b->home, home) == 0) continue;
    lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
    return;
  }
  lua_pushliteral(L, "");
}


static void push_message (lua_State *L, const char *function, const char *format, va_list args) {
  luaL_checkstack(L, 8, "heed");
  push_where(L, binding_of(L));
  if (function != NULL) lua_pushfstring(L, "%s: ", function);
  else lua_pushliteral(L, "");
  lua_pushvfstring(L, format, args);
  lua_concat(L, 3);
}


int raise (lua_State *L, const char *format, ...) {
  va_list args;
  va_start(args, format);
  push_message(L, function_name(L), format, args);
  va_end(args);
  return lua_error(L);
}


int raise_as (lua_State *L, const char *function, const char *format, ...) {
  va_list args;
  va_start(args, format);
  push_message(L, function, format, args);
  va_end(args);
  return lua_error(L);
}


int raise_failure (lua_State *L) {
  heed_context *cx = binding_of(L)->cx;
  const char *message = heed_error(cx);
  luaL_checkstack(L, 8, "heed");
  message = lua_pushstring(L, message != NULL ? message : "heed: an operation failed");
  heed_set_caller(cx, NULL);
  heed_clear(cx);
  return raise_as(L, NULL, "%s", message);
}


int raise_wrong (lua_State *L, const char *argument, const char *wanted, int i) {
  return raise(L, "argument '%s': %s expected, got %s", argument, wanted, describe(L, i));
}


/* raise(message): what the Lua half raises its own errors with */
static int l_raise (lua_State *L) {
  return raise_as(L, NULL, "%s", luaL_checkstring(L, 1));
}


/* called(name, f, ...): f(...), whose messages say that 'name' was called; an outer name stays */
static int l_called (lua_State *L) {
  binding *b = binding_of(L);
  const char *outer = b->called, *name = luaL_checkstring(L, 1);
  check_callable(L, 2);
  if (outer == NULL) b->called = name;
  int status = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
  b->called = outer;
  return status == LUA_OK ? lua_gettop(L) - 1 : lua_error(L);
}


/* home(prefix): the sources whose names begin so are heed's own */
static int l_home (lua_State *L) {
  binding *b = enter(L);
  size_t n;
  const char *home = luaL_checklstring(L, 1, &n);
  if (n < sizeof b->home) memcpy(b->home, home, n + 1);
  return 0;
}

/* }================================================================== */


/*
** {==================================================================
** Values in words
** ===================================================================
*/

static const char *describe_userdata (lua_State *L, int i) {
  heed_tensor *t = raw_tensor(L, i);
  if (t == NULL) return lua_pushstring(L, is_box(L, i) ? "a released tensor" : "a userdata");
  push_shape(L, t);
  return lua_pushfstring(L, "a tensor of shape %s", luaL_tolstring(L, -1, NULL));
}


static const char *describe_string (lua_State *L, int i) {
  size_t n;
  const char *s = lua_tolstring(L, i, &n);
  if (strlen(s) != n) return lua_pushliteral(L, "a string with a zero byte");
  if (n > 40) return lua_pushliteral(L, "a long string");
  return lua_pushfstring(L, "the string '%s'", s);
}


/* C libraries differ in the sign that they give to a NaN. */
static const char *describe_number (lua_State *L, int i) {
  if (isnan(lua_tonumber(L, i))) return lua_pushliteral(L, "nan");
  return luaL_tolstring(L, i, NULL);
}


const char *describe (lua_State *L, int i) {
  switch (lua_type(L, i)) {
    case LUA_TNONE: return lua_pushliteral(L, "nothing");
    case LUA_TNIL: return lua_pushliteral(L, "nil");
    case LUA_TNUMBER: return describe_number(L, i);
    case LUA_TBOOLEAN: return luaL_tolstring(L, i, NULL);
    case LUA_TUSERDATA: return describe_userdata(L, i);
    case LUA_TSTRING: return describe_string(L, i);
    default: return lua_pushfstring(L, "a %s", luaL_typename(L, i));
  }
}

/* }================================================================== */


/*
** {==================================================================
** Checks. A string never becomes a number.
** ===================================================================
*/

bool to_integer (lua_State *L, int i, int64_t *value) {
  int exact;
  if (lua_type(L, i) != LUA_TNUMBER) return false;
  *value = lua_tointegerx(L, i, &exact);
  return exact != 0;
}


int64_t check_integer (lua_State *L, int i, const char *name) {
  int64_t value = 0;
  if (!to_integer(L, i, &value)) raise_wrong(L, name, "a whole number", i);
  return value;
}


bool check_flag (lua_State *L, int i, const char *name) {
  if (!lua_isboolean(L, i)) raise_wrong(L, name, "true or false", i);
  return lua_toboolean(L, i);
}


const char *plain_text (lua_State *L, int i) {
  size_t n;
  if (lua_type(L, i) != LUA_TSTRING) return NULL;
  const char *s = lua_tolstring(L, i, &n);
  return strlen(s) == n ? s : NULL;
}


heed_type check_type_name (lua_State *L, int i) {
  heed_type type = HEED_FLOAT32;
  const char *name = plain_text(L, i);
  if (name == NULL) raise_wrong(L, "dtype", "a type's name", i);
  if (!heed_type_find(name, &type))
    raise(L, "argument 'dtype': no type is called '%s'; there are bool uint8 int64 float16 "
          "bfloat16 float32 float64", name);
  return type;
}


const char *check_device (lua_State *L, int i) {
  const char *name = plain_text(L, i);
  if (name == NULL) raise_wrong(L, "device", "a device's name", i);
  return name;
}


int64_t axis_of (lua_State *L, int64_t axis) {
  if (axis == 0) raise(L, "dimensions count from 1, got 0");
  return axis > 0 ? axis - 1 : axis;
}


void check_callable (lua_State *L, int i) {
  if (lua_isfunction(L, i)) return;
  if (luaL_getmetafield(L, i, "__call") == LUA_TNIL)
    raise(L, "a function expected, got %s", describe(L, i));
  lua_pop(L, 1);
}

/* }================================================================== */


void open_error (lua_State *L, int module) {
  static const luaL_Reg functions[] = {
    {"called", l_called}, {"home", l_home}, {"raise", l_raise}, {NULL, NULL}
  };
  register_functions(L, functions, module);
}
