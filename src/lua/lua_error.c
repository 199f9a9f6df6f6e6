/*
** lua_error.c - errors that blame the caller's line, and the checks that raise them.
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


int raise (lua_State *L, const char *format, ...) {
  va_list args;
  luaL_checkstack(L, 8, "heed");
  push_where(L, binding_of(L));
  va_start(args, format);
  lua_pushvfstring(L, format, args);
  va_end(args);
  lua_concat(L, 2);
  return lua_error(L);
}


/* Where memory ends the core knows no function. */
static bool names_none (const char *message) {
  return strncmp(message, "memory limit", 12) == 0 || strncmp(message, "not enough", 10) == 0 ||
         strncmp(message, "device '", 8) == 0;
}


/* "backward" is "grad" where that was called, and a wish is a factory's argument. */
static void push_name (lua_State *L, const char *own) {
  const char *called = function_name(L);
  bool walk = strcmp(own, "backward") == 0 && strcmp(called, "grad") == 0;
  bool wish = strcmp(own, "requires_grad") == 0 && strcmp(called, "index") != 0;
  if (walk) lua_pushstring(L, called);
  else if (wish) lua_pushfstring(L, "%s: argument '%s'", called, own);
  else lua_pushstring(L, own);
}


/* The core's message, by the name of the function that a script called. */
static const char *renamed (lua_State *L, const char *message) {
  const char *rest = strchr(message, ':');
  if (names_none(message)) return lua_pushfstring(L, "%s: %s", function_name(L), message);
  if (rest == NULL) return message;
  push_name(L, lua_pushlstring(L, message, (size_t)(rest - message)));
  return lua_pushfstring(L, "%s%s", lua_tostring(L, -1), rest);
}


int raise_failure (lua_State *L) {
  binding *b = binding_of(L);
  const char *message = heed_error(b->cx);
  luaL_checkstack(L, 8, "heed");
  message = lua_pushstring(L, message != NULL ? message : "heed: an operation failed");
  heed_clear(b->cx);
  return raise(L, "%s", renamed(L, message));
}


int raise_wrong (lua_State *L, const char *function, const char *argument, const char *wanted,
                 int i) {
  return raise(L, "%s: argument '%s': %s expected, got %s", function, argument, wanted,
               describe(L, i));
}


/* raise(message): what the Lua half raises its own errors with */
static int l_raise (lua_State *L) {
  luaL_checkstring(L, 1);
  lua_settop(L, 1);
  push_where(L, binding_of(L));
  lua_insert(L, 1);
  lua_concat(L, 2);
  return lua_error(L);
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
** Words of messages
** ===================================================================
*/

static const char *op_name (lua_State *L, heed_op op) {
  const heed_signature *row = heed_describe(binding_of(L)->cx, op);
  return row != NULL ? row->name : "heed";
}


/* What Lua calls by a name of its own has here the name that a script sees. */
const char *function_name (lua_State *L) {
  if (lua_isstring(L, lua_upvalueindex(4))) return lua_tostring(L, lua_upvalueindex(4));
  if (lua_isinteger(L, lua_upvalueindex(3)))
    return op_name(L, (heed_op)lua_tointeger(L, lua_upvalueindex(3)));
  const char *name = lua_tostring(L, lua_upvalueindex(3));
  if (name == NULL) return "heed";
  if (strcmp(name, "__newindex") == 0) return "index";
  return strcmp(name, "__len") == 0 ? "#" : name;
}


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


/* How many letters must be changed, put in or left out to make b of a: Levenshtein's distance. */
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
  int best = -1, least = 0;
  for (int i = 0; i < n; i++) {
    bool begins = strncmp(known[i], key, strlen(key)) == 0;
    int d = begins ? 1 : distance(key, known[i]);
    if (best >= 0 && d >= least) continue;
    least = d;
    best = i;
  }
  if (best < 0) raise(L, "%s: unknown option '%s'; it takes none", function, key);
  raise(L, "%s: unknown option '%s'; did you mean '%s'?", function, key, known[best]);
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


int64_t check_integer (lua_State *L, int i, const char *function, const char *name) {
  int64_t value = 0;
  if (!to_integer(L, i, &value)) raise_wrong(L, function, name, "a whole number", i);
  return value;
}


const char *plain_text (lua_State *L, int i) {
  size_t n;
  if (lua_type(L, i) != LUA_TSTRING) return NULL;
  const char *s = lua_tolstring(L, i, &n);
  return strlen(s) == n ? s : NULL;
}


heed_type check_type_name (lua_State *L, int i, const char *function) {
  heed_type type = HEED_FLOAT32;
  const char *name = plain_text(L, i);
  if (name == NULL) raise_wrong(L, function, "dtype", "a type's name", i);
  if (!heed_type_find(name, &type))
    raise(L, "%s: argument 'dtype': no type is called '%s'; there are bool uint8 int64 float16 "
          "bfloat16 float32 float64", function, name);
  return type;
}


const char *check_device (lua_State *L, int i, const char *function) {
  const char *name = plain_text(L, i);
  if (name == NULL) raise_wrong(L, function, "device", "a device's name", i);
  return name;
}


int64_t axis_of (lua_State *L, int64_t axis, const char *function) {
  if (axis == 0) raise(L, "%s: dimensions count from 1, got 0", function);
  return axis > 0 ? axis - 1 : axis;
}


void check_callable (lua_State *L, int i, const char *function) {
  if (lua_isfunction(L, i)) return;
  if (luaL_getmetafield(L, i, "__call") == LUA_TNIL)
    raise(L, "%s: a function expected, got %s", function, describe(L, i));
  lua_pop(L, 1);
}


bool is_empty (lua_State *L, int i) {
  lua_pushnil(L);
  if (!lua_next(L, i)) return true;
  lua_pop(L, 2);
  return false;
}


/* The key at the top is none of the list's, which has n entries. */
static void refuse_key (lua_State *L, const char *function, int64_t n) {
  const char *key = plain_text(L, -1);
  if (key != NULL)
    raise(L, "%s: a list expected, got one with the key '%s'; options stand in a table of their "
          "own, behind it: {%s = ...}", function, key, key);
  if (lua_isinteger(L, -1) && lua_tointeger(L, -1) > n)
    raise(L, "%s: a list without holes expected, got an entry at [%I] and none at [%I]", function,
          (LUAI_UACINT)lua_tointeger(L, -1), (LUAI_UACINT)n + 1);
  raise(L, "%s: a list expected, got one with %s as a key", function, describe(L, -1));
}


bool push_foreign_key (lua_State *L, int i) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, i);
  i = lua_absindex(L, i);
  luaL_checkstack(L, 4, "heed");
  lua_pushnil(L);
  while (lua_next(L, i)) {
    lua_pop(L, 1);
    if (!lua_isinteger(L, -1) || lua_tointeger(L, -1) < 1 || lua_tointeger(L, -1) > n) return true;
  }
  return false;
}


int64_t check_list (lua_State *L, int i, const char *function) {
  int64_t n = (int64_t)lua_rawlen(L, i);
  if (push_foreign_key(L, i)) refuse_key(L, function, n);
  return n;
}


/* {} is none: it may be an empty shape. */
bool is_options (lua_State *L, int i) {
  if (lua_type(L, i) != LUA_TTABLE || lua_rawlen(L, i) != 0) return false;
  lua_pushnil(L);
  if (!lua_next(L, i)) return false;
  bool named = lua_type(L, -2) == LUA_TSTRING;
  lua_pop(L, 2);
  return named;
}


const char *check_option_name (lua_State *L, const char *function) {
  const char *key = plain_text(L, -2);
  if (key == NULL) raise(L, "%s: options by name expected, got one at [%s]", function, describe(L, -2));
  return key;
}


const char *next_option (lua_State *L, int i, const char *function, int n,
                         const char *const *known) {
  if (lua_isnoneornil(L, i)) return NULL;
  if (!lua_istable(L, i))
    raise(L, "%s: a table of options expected, got %s", function, describe(L, i));
  if (!lua_next(L, i)) return NULL;
  const char *key = check_option_name(L, function);
  for (int k = 0; k < n; k++)
    if (strcmp(key, known[k]) == 0) return known[k];
  unknown_option(L, function, key, n, known);
  return NULL;
}

/* }================================================================== */


void open_error (lua_State *L, int module) {
  static const luaL_Reg functions[] = {{"home", l_home}, {"raise", l_raise}, {NULL, NULL}};
  register_functions(L, functions, module);
}
