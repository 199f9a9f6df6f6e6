/*
** lua_error.c - errors at the line that made the call, and the checks that raise them.
*/

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "lua_heed.h"

#define DEEPEST 1000               /* frames that are looked at; each look costs its depth */

static const char call_key = 0;    /* their addresses name what 'frames' was given, */
static const char path_key = 0;    /* in the registry */


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


/* Pushes a list of the first arguments of all calls of the function at 'call', innermost first. */
static lua_Unsigned push_callees (lua_State *L, int call) {
  lua_Debug ar;
  lua_Integer n = 0;
  lua_newtable(L);
  for (int level = 1; level < DEEPEST && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "f", &ar);
    bool found = lua_rawequal(L, -1, call) && lua_getlocal(L, &ar, 1) != NULL;
    if (found) lua_rawseti(L, -3, ++n);
    lua_pop(L, 1);
  }
  return (lua_Unsigned)n;
}


/* Pushes "\n  in path (layer)" of the module whose call raises an error, if a module called it. */
static void push_path (lua_State *L) {
  int top = lua_gettop(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &call_key);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &path_key);
  bool good = lua_isfunction(L, -1) && push_callees(L, top + 1) > 1 &&
              lua_pcall(L, 1, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING &&
              lua_rawlen(L, -1) > 0;
  if (good) lua_pushfstring(L, "\n  in %s", lua_tostring(L, -1));
  else lua_pushliteral(L, "");
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}


static void push_message (lua_State *L, const char *function, const char *format, va_list args) {
  luaL_checkstack(L, 12, "heed");
  push_where(L, binding_of(L));
  if (function != NULL) lua_pushfstring(L, "%s: ", function);
  else lua_pushliteral(L, "");
  lua_pushvfstring(L, format, args);
  push_path(L);
  lua_concat(L, 4);
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


/* No layer is named where a GPU says that the error is of an earlier call. */
int raise_failure (lua_State *L) {
  heed_context *cx = binding_of(L)->cx;
  const char *message = heed_error(cx);
  bool late = message != NULL && strstr(message, "(asynchronous: ") != NULL;
  luaL_checkstack(L, 8, "heed");
  message = lua_pushstring(L, message != NULL ? message : "heed: an operation failed");
  heed_set_caller(cx, NULL);
  heed_clear(cx);
  run_hook(L);
  if (!late) return raise_as(L, NULL, "%s", message);
  push_where(L, binding_of(L));
  lua_insert(L, -2);
  lua_concat(L, 2);
  return lua_error(L);
}


bool has_yielded (lua_State *L) {
  const char *why = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
  return why != NULL && strstr(why, "yield across a C") != NULL;
}


int raise_caught (lua_State *L, const char *yielded) {
  return has_yielded(L) ? raise(L, "%s", yielded) : lua_error(L);
}


void at_most (lua_State *L, int n) {
  int top = lua_gettop(L);
  while (top > n && lua_isnil(L, top)) top--;
  if (top <= n) return;
  if (n == 0) raise(L, "no argument expected, got %s", describe(L, top));
  raise(L, "at most %d argument%s expected, got %d", n, n == 1 ? "" : "s", top);
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
  const heed_region around = heed_region_begin(b->cx, b->called);
  int status = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
  heed_region_end(b->cx, around);
  b->called = outer;
  if (status == LUA_OK) return lua_gettop(L) - 1;
  if (!has_yielded(L)) return lua_error(L);
  return raise_as(L, outer != NULL ? outer : name, "a function that it calls may not yield");
}


/* callees(): the modules whose calls run in this coroutine, innermost first */
static int l_callees (lua_State *L) {
  lua_settop(L, 0);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &call_key);
  push_callees(L, 1);
  return 1;
}


/* attempt(f, ...): f(...); nothing where it fails, or within another attempt, which no hook's error
   leaves open */
static int l_attempt (lua_State *L) {
  binding *b = binding_of(L);
  check_callable(L, 1);
  if (b->attempting) return 0;
  b->attempting = true;
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  b->attempting = false;
  return status == LUA_OK ? lua_gettop(L) : 0;
}


/*
** frames(call, path): an error in modules that 'call' calls, which get themselves as its first
** argument, ends with path(modules), a text about a list of them, innermost first.
*/
static int l_frames (lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &path_key);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &call_key);
  return 0;
}


/* Pushes a new stamp, and writes it into the second local of the call 'ar'. */
static void stamp (lua_State *L, binding *b, lua_Debug *ar) {
  lua_createtable(L, 1, 1);
  lua_pushinteger(L, (lua_Integer)++b->clock);
  lua_rawseti(L, -2, 1);
  lua_pushboolean(L, false);
  lua_setfield(L, -2, "ended");
  lua_pushvalue(L, -1);
  lua_setlocal(L, ar, 2);
  b->stamped = true;
}


/* Pushes the stamp of the call 'ar', nil if it has none; nothing, false: no call of a module. */
static bool push_stamp_of (lua_State *L, lua_Debug *ar, int call) {
  lua_getinfo(L, "f", ar);
  const bool found = lua_rawequal(L, -1, call) && lua_getlocal(L, ar, 2) != NULL;
  if (!found) { lua_pop(L, 1); return false; }
  lua_remove(L, -2);
  if (!lua_istable(L, -1)) { lua_pop(L, 1); lua_pushnil(L); }
  return true;
}


/* Did the call with the stamp at the top begin after 'since'? A stamp is made after the call began:
   a call that has none began after every number so far. */
static bool is_after (lua_State *L, lua_Integer since) {
  if (lua_isnil(L, -1)) return true;
  lua_rawgeti(L, -1, 1);
  const bool after = lua_tointeger(L, -1) > since;
  lua_pop(L, 1);
  return after;
}


/*
** pass(): stamps the calls of modules that run, and returns a number. pass(since): the stamp of the
** outermost of those that began after that number; nil without one. A stamp is a table {number,
** ended = whether the call came to its end without an error}. A call keeps it in its second local,
** which modules have for that, so that calls that nobody asks about cost little.
*/
static int l_pass (lua_State *L) {
  binding *b = enter(L);
  lua_Debug ar, outermost;
  const bool all = lua_isnoneornil(L, 1);
  const lua_Integer since = all ? 0 : luaL_checkinteger(L, 1);
  bool found = false;
  lua_settop(L, 0);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &call_key);
  lua_pushnil(L);
  for (int level = 1; level < DEEPEST && lua_getstack(L, level, &ar); level++) {
    if (push_stamp_of(L, &ar, 1)) {
      if (all && lua_isnil(L, -1)) stamp(L, b, &ar);
      if (!all && is_after(L, since)) {
        found = true;
        outermost = ar;
        lua_copy(L, -1, 2);
      }
    }
    lua_settop(L, 2);
  }
  if (all) lua_pushinteger(L, (lua_Integer)++b->clock);
  else if (found && lua_isnil(L, 2)) stamp(L, b, &outermost);
  return 1;
}


/* ended(...): its arguments, what a module's call gives; the call's stamp says that it ended */
static int l_ended (lua_State *L) {
  lua_Debug ar;
  int n = lua_gettop(L);
  if (binding_of(L)->stamped && lua_getstack(L, 1, &ar) && lua_getlocal(L, &ar, 2) != NULL) {
    if (lua_istable(L, -1)) {
      lua_pushboolean(L, true);
      lua_setfield(L, -2, "ended");
    }
    lua_settop(L, n);
  }
  return n;
}


/* home(): sources from the folder of the file that calls it are heed's own */
static int l_home (lua_State *L) {
  binding *b = enter(L);
  lua_Debug ar;
  if (!lua_getstack(L, 1, &ar)) return 0;
  lua_getinfo(L, "S", &ar);
  const char *slash = strrchr(ar.source, '/');
  size_t n = slash != NULL ? (size_t)(slash - ar.source) + 1 : 0;
  if (n >= sizeof b->home) return 0;
  memcpy(b->home, ar.source, n);
  b->home[n] = '\0';
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


/* The values from one index to another, as arguments in Lua; "..." if they are not all short. */
static const char *push_arguments (lua_State *L, int from, int top) {
  luaL_Buffer buffer;
  luaL_buffinit(L, &buffer);
  for (int i = from; i <= top; i++) {
    const char *text = plain_text(L, i);
    bool plain = lua_isnumber(L, i) || lua_isboolean(L, i) || lua_isnil(L, i);
    if (text != NULL ? strlen(text) > 20 : !plain) return "...";
    if (i > from) luaL_addstring(&buffer, ", ");
    if (text != NULL) lua_pushfstring(L, "'%s'", text);
    else luaL_tolstring(L, i, NULL);
    luaL_addvalue(&buffer);
  }
  luaL_pushresult(&buffer);
  return lua_tostring(L, -1);
}

/* }================================================================== */


/*
** {==================================================================
** Methods: x.sum(2), for x:sum(2), would take 2 for the tensor where numbers are tensors too
** ===================================================================
*/

bool is_method (lua_State *L) { return lua_toboolean(L, lua_upvalueindex(4)); }


/* Its arguments begin at 'from'; not as the script wrote them, if it called another function. */
static int refuse_without_self (lua_State *L, const char *name, int from) {
  bool own = binding_of(L)->called == NULL;
  int top = lua_gettop(L);
  luaL_checkstack(L, 16, name);
  const char *got = from > top ? "nothing" : describe(L, from);
  while (top >= from && lua_isnil(L, top)) top--;
  const char *given = own ? push_arguments(L, from, top) : "...";
  return raise_as(L, name, "a tensor expected as the first argument, got %s; write x:%s(%s)", got,
                  name, given);
}


int refuse_dot (lua_State *L) { return refuse_without_self(L, function_name(L), 1); }


/* refuse_dot(name, ...): the method was called with these arguments, of which none is a tensor */
static int l_refuse_dot (lua_State *L) {
  return refuse_without_self(L, luaL_checkstring(L, 1), 2);
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


static const char *const type_names[] = {        /* float is most likely the first */
  "float32", "float64", "float16", "bfloat16", "int64", "uint8", "bool",
#define BLOCK(NAME, name, ...) #name,
#include "base/blocks.def"
};
#define TYPE_NAMES ((int)(sizeof type_names / sizeof *type_names))
#define VALUE_TYPES 7              /* the first of them, which are no blocks */

static const struct { const char *name, *type; } torch_types[] = {
  {"double", "float64"}, {"half", "float16"}, {"int", "int64"}, {"long", "int64"},
  {"byte", "uint8"}, {"f16", "float16"}, {"fp16", "float16"}, {"bf16", "bfloat16"},
  {"f32", "float32"}, {"fp32", "float32"}, {"f64", "float64"}, {"fp64", "float64"}
};

const char *nearest_type (const char *name) {
  for (size_t i = 0; i < sizeof torch_types / sizeof *torch_types; i++)
    if (strcmp(name, torch_types[i].name) == 0) return torch_types[i].type;
  return nearest(name, TYPE_NAMES, type_names);
}


heed_type check_type_name (lua_State *L, int i) {
  heed_type type = HEED_FLOAT32;
  const char *name = plain_text(L, i);
  if (name == NULL) raise_wrong(L, "dtype", "a type's name", i);
  if (heed_type_find(name, &type)) return type;
  if (nearest_type(name) != NULL)
    raise(L, "argument 'dtype': no type is called '%s'; did you mean '%s'?", name,
          nearest_type(name));
  raise(L, "argument 'dtype': no type is called '%s'; %s", name,
        push_hint(L, name, VALUE_TYPES, type_names));
  return type;
}


const char *check_device (lua_State *L, int i) {
  const char *name = plain_text(L, i);
  if (name == NULL) raise_wrong(L, "device", "a device's name", i);
  return name;
}


/* Scripts that run meanwhile may change the options: a copy lies below the option's key. */
const char *keep_device (lua_State *L) {
  const char *name = check_device(L, lua_gettop(L));
  lua_pushvalue(L, -1);
  lua_insert(L, -3);
  return name;
}


int64_t axis_of (lua_State *L, int64_t axis, const char *name) {
  if (axis == 0) raise(L, "argument '%s': dimensions count from 1, got 0", name);
  return axis > 0 ? axis - 1 : axis;
}


void check_callable (lua_State *L, int i) {
  if (lua_isfunction(L, i)) return;
  if (luaL_getmetafield(L, i, "__call") == LUA_TNIL)
    raise(L, "a function expected, got %s", describe(L, i));
  lua_pop(L, 1);
}

/* }================================================================== */


/* fits(value, classes, ...): is the metatable a key of this table, with nothing behind them? */
static int l_fits (lua_State *L) {
  bool alone = lua_gettop(L) == 2;
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_pushboolean(L, alone && lua_getmetatable(L, 1) && lua_rawget(L, 2) != LUA_TNIL);
  return 1;
}


void open_error (lua_State *L, int internal) {
  static const luaL_Reg functions[] = {
    {"attempt", l_attempt}, {"called", l_called}, {"callees", l_callees}, {"ended", l_ended},
    {"fits", l_fits}, {"frames", l_frames}, {"home", l_home}, {"pass", l_pass},
    {"raise", l_raise}, {"refuse_dot", l_refuse_dot}, {NULL, NULL}
  };
  register_functions(L, functions, internal);
}
