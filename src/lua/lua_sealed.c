/*
** lua_sealed.c - the module for scripts that a host does not trust: opened with options.
**
** In a sealed state the Lua half has its own environment, of standard functions that no script can
** reach, and its own 'require'. Invariant: no table of the library's that two scripts can reach can
** be written to. Scripts get shared tables through proxies only, which are userdata, so that rawset
** cannot write to them either. A class that a script makes is its own, and so are the tables of an
** object.
*/

#include <string.h>

#include <lualib.h>

#include "lua_heed.h"
#include "heed_lua.h"

static const char parts_key = 0;         /* in the registry: a table of the parts */
static const char proxy_key = 0;         /* the metatable of proxies */

enum {
  ENVIRONMENT = 1,                       /* the globals of the Lua half */
  LOADED,                                /* its modules by name */
  PROXIES,                               /* table -> proxy */
  CLASSES,                               /* those that scripts made -> true */
  MODULE                                 /* heed, as scripts see it */
};


static void push_part (lua_State *L, int part) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &parts_key);
  lua_rawgeti(L, -1, part);
  lua_remove(L, -2);
}


/* Makes the value on top a part. */
static void set_part (lua_State *L, int part) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &parts_key);
  lua_insert(L, -2);
  lua_rawseti(L, -2, part);
  lua_pop(L, 1);
}


static void push_weak_table (lua_State *L) {
  lua_newtable(L);
  lua_newtable(L);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
}


/*
** {==================================================================
** Proxies
** ===================================================================
*/

static bool is_proxy (lua_State *L, int i) {
  if (lua_type(L, i) != LUA_TUSERDATA || !lua_getmetatable(L, i)) return false;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &proxy_key);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same;
}


static void push_proxy (lua_State *L, int table) {
  lua_newuserdatauv(L, 0, 1);
  lua_pushvalue(L, table);
  lua_setiuservalue(L, -2, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &proxy_key);
  lua_setmetatable(L, -2);
}


/* A table on top gives way to its proxy, which is always the same; all else stays. */
static void wrap (lua_State *L) {
  if (!lua_istable(L, -1)) return;
  int table = lua_gettop(L);
  push_part(L, PROXIES);
  lua_pushvalue(L, table);
  if (lua_rawget(L, -2) == LUA_TNIL) {
    lua_pop(L, 1);
    push_proxy(L, table);
    lua_pushvalue(L, table);
    lua_pushvalue(L, -2);
    lua_rawset(L, -4);
  }
  lua_replace(L, table);
  lua_settop(L, table);
}


/* Pushes the table that the proxy at 1 stands for. */
static void push_target (lua_State *L) {
  if (!is_proxy(L, 1)) raise_as(L, NULL, "a module of heed expected, got %s", describe(L, 1));
  lua_getiuservalue(L, 1, 1);
}


static int proxy_index (lua_State *L) {
  push_target(L);
  lua_pushvalue(L, 2);
  lua_gettable(L, -2);
  wrap(L);
  return 1;
}


static int proxy_newindex (lua_State *L) {
  return raise_as(L, NULL, "heed is read-only in this state, got an assignment to %s",
                  describe(L, 2));
}


static int next_pair (lua_State *L) {
  lua_settop(L, 2);
  if (lua_next(L, 1)) return 2;
  lua_pushnil(L);
  return 1;
}


/* Walks a copy. */
static int proxy_pairs (lua_State *L) {
  push_target(L);
  lua_replace(L, 1);
  lua_settop(L, 1);
  lua_pushcfunction(L, next_pair);
  lua_newtable(L);
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    wrap(L);
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, 3);
  }
  return 2;
}


static int proxy_tostring (lua_State *L) {
  push_target(L);
  luaL_tolstring(L, -1, NULL);
  return 1;
}


static int proxy_len (lua_State *L) {
  push_target(L);
  lua_len(L, -1);
  return 1;
}


static int called (lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L);
}


static int proxy_call (lua_State *L) {
  push_target(L);
  lua_replace(L, 1);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, called);
  return called(L, LUA_OK, 0);
}


static void open_proxies (lua_State *L) {
  static const luaL_Reg metamethods[] = {
    {"__call", proxy_call}, {"__index", proxy_index}, {"__len", proxy_len},
    {"__newindex", proxy_newindex}, {"__pairs", proxy_pairs}, {"__tostring", proxy_tostring},
    {NULL, NULL}
  };
  register_metatable(L, metamethods, &proxy_key);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &proxy_key);
  lua_pushliteral(L, "a part of heed");
  lua_setfield(L, -2, "__name");
  lua_pop(L, 1);
  push_weak_table(L);
  set_part(L, PROXIES);
  push_weak_table(L);
  set_part(L, CLASSES);
}

/* }================================================================== */


/*
** {==================================================================
** What the Lua half has in place of standard functions
** ===================================================================
*/

/*
** The Lua half takes a proxy for the table that it stands for: these functions see through it, and
** give proxies of the tables in it.
*/

/* The table that a proxy at i stands for takes its place; true if one was there. */
static bool see_through (lua_State *L, int i) {
  luaL_checkany(L, i);
  if (!is_proxy(L, i)) return false;
  lua_getiuservalue(L, i, 1);
  lua_replace(L, i);
  return true;
}


/* type(x) */
static int l_type (lua_State *L) {
  luaL_checkany(L, 1);
  lua_pushstring(L, is_proxy(L, 1) ? "table" : luaL_typename(L, 1));
  return 1;
}


/* getmetatable(x): also where it is locked */
static int l_getmetatable (lua_State *L) {
  see_through(L, 1);
  if (!lua_getmetatable(L, 1)) lua_pushnil(L);
  return 1;
}


/* next(t, key) */
static int l_next (lua_State *L) {
  bool shared = see_through(L, 1);
  luaL_checktype(L, 1, LUA_TTABLE);
  int n = next_pair(L);
  if (shared) wrap(L);
  return n;
}


/* rawequal(a, b) */
static int l_rawequal (lua_State *L) {
  see_through(L, 1);
  see_through(L, 2);
  lua_pushboolean(L, lua_rawequal(L, 1, 2));
  return 1;
}


/* rawget(t, key) */
static int l_rawget (lua_State *L) {
  bool shared = see_through(L, 1);
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  lua_rawget(L, 1);
  if (shared) wrap(L);
  return 1;
}


/* rawlen(t) */
static int l_rawlen (lua_State *L) {
  see_through(L, 1);
  lua_pushinteger(L, (lua_Integer)lua_rawlen(L, 1));
  return 1;
}


static bool has_field (lua_State *L, int table, const char *name) {
  lua_pushstring(L, name);
  bool found = lua_rawget(L, table) != LUA_TNIL;
  lua_pop(L, 1);
  return found;
}


/* A class has itself as __index, or a function there and a name. */
static bool is_class (lua_State *L, int table) {
  lua_pushliteral(L, "__index");
  lua_rawget(L, table);
  bool found = lua_rawequal(L, -1, table) ||
               (lua_isfunction(L, -1) && has_field(L, table, "__name"));
  lua_pop(L, 1);
  return found;
}


/* Did a script make the class? */
static bool is_of_script (lua_State *L, int table) {
  push_part(L, CLASSES);
  lua_pushvalue(L, table);
  bool found = lua_rawget(L, -2) != LUA_TNIL;
  lua_pop(L, 2);
  return found;
}


/* The field with the key at 2 of a class that is upvalue 4, as scripts see it. */
static int index_class (lua_State *L) {
  lua_settop(L, 2);
  lua_gettable(L, lua_upvalueindex(4));
  wrap(L);
  return 1;
}


/*
** Upvalue 4: a class, 5: the function that was its __index. What the function gives is the object's
** own, such as an optimizer's list of parameters, unless it is a field of the class.
*/
static int index_object (lua_State *L) {
  lua_settop(L, 2);
  lua_pushvalue(L, lua_upvalueindex(5));
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_call(L, 2, 1);
  if (!lua_istable(L, 3)) return 1;
  lua_pushvalue(L, 2);
  lua_gettable(L, lua_upvalueindex(4));
  if (lua_rawequal(L, 3, 4)) wrap(L);
  else lua_settop(L, 3);
  return 1;
}


/* The metatable at 2, by which scripts could reach the class that it is, or what it indexes. */
static void lock (lua_State *L) {
  bool class = is_class(L, 2);
  if (has_field(L, 2, "__metatable") || is_of_script(L, 2)) return;
  lua_pushliteral(L, "__metatable");
  if (class) lua_pushvalue(L, 2);
  else lua_pushboolean(L, 0);
  wrap(L);
  lua_rawset(L, 2);
  if (!class) return;
  lua_pushliteral(L, "__index");
  for (int i = 1; i <= 3; i++) lua_pushvalue(L, lua_upvalueindex(i));
  lua_pushvalue(L, 2);
  lua_getfield(L, 2, "__index");
  if (lua_isfunction(L, -1)) lua_pushcclosure(L, index_object, 5);
  else {
    lua_pop(L, 1);
    lua_pushcclosure(L, index_class, 4);
  }
  lua_rawset(L, 2);
}


/* setmetatable(t, m): locks m, unless t is an object of a script's class; or m is nil */
static int l_setmetatable (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) {
    lua_setmetatable(L, 1);
    return 1;
  }
  luaL_checktype(L, 2, LUA_TTABLE);
  if (binding_of(L)->loading == 0 && is_class(L, 1)) {
    push_part(L, CLASSES);
    lua_pushvalue(L, 1);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
    lua_pop(L, 1);
  }
  lock(L);
  lua_setmetatable(L, 1);
  return 1;
}


/* require(name), of the Lua half's own files */
static int l_require (lua_State *L) {
  binding *b = binding_of(L);
  const char *name = luaL_checkstring(L, 1);
  lua_settop(L, 1);
  push_part(L, LOADED);
  if (lua_getfield(L, 2, name) != LUA_TNIL) return 1;
  const char *const *module = find_half(name);
  if (module == NULL) return raise_as(L, NULL, "heed has no module '%s'", name);
  if (luaL_loadbufferx(L, module[2], strlen(module[2]), module[1], "t") != LUA_OK)
    return lua_error(L);
  push_part(L, ENVIRONMENT);
  lua_setupvalue(L, -2, 1);
  b->loading++;
  int status = lua_pcall(L, 0, 1, 0);
  b->loading--;
  if (status != LUA_OK) return lua_error(L);
  lua_pushvalue(L, -1);
  lua_setfield(L, 2, name);
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** The environment of the Lua half
** ===================================================================
*/

/* Fills the table at 1, which stands in the place of the globals. */
static int fill_environment (lua_State *L) {
  static const luaL_Reg libraries[] = {
    {LUA_MATHLIBNAME, luaopen_math}, {LUA_STRLIBNAME, luaopen_string},
    {LUA_TABLIBNAME, luaopen_table}, {LUA_UTF8LIBNAME, luaopen_utf8}, {NULL, NULL}
  };
  lua_pushcfunction(L, luaopen_base);
  lua_call(L, 0, 0);
  for (const luaL_Reg *library = libraries; library->name != NULL; library++) {
    lua_pushcfunction(L, library->func);
    lua_call(L, 0, 1);
    lua_setfield(L, 1, library->name);
  }
  return 0;
}


/* Pushes a new environment. Lua's libraries set globals and the metatable of strings: put back. */
static void push_environment (lua_State *L) {
  lua_newtable(L);
  int environment = lua_gettop(L);
  lua_pushliteral(L, "");
  if (!lua_getmetatable(L, -1)) lua_pushnil(L);
  lua_pushglobaltable(L);
  lua_pushcfunction(L, fill_environment);
  lua_pushvalue(L, environment);
  lua_pushvalue(L, environment);
  lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
  int status = lua_pcall(L, 1, 0, 0);
  lua_pushvalue(L, environment + 3);
  lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
  lua_pushvalue(L, environment + 2);
  lua_setmetatable(L, environment + 1);
  if (status != LUA_OK) lua_error(L);
  lua_settop(L, environment);
}


/* Copies a global of the host's to the environment at 'environment'; of a library its functions. */
static void copy_global (lua_State *L, int environment, const char *name) {
  if (lua_getglobal(L, name) == LUA_TTABLE) {
    lua_newtable(L);
    lua_pushnil(L);
    while (lua_next(L, -3)) {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, -4);
    }
    lua_remove(L, -2);
  }
  lua_setfield(L, environment, name);
}


/* Without files, what reads them is not there. */
static void open_environment (lua_State *L) {
  static const luaL_Reg own[] = {
    {"getmetatable", l_getmetatable}, {"next", l_next}, {"rawequal", l_rawequal},
    {"rawget", l_rawget}, {"rawlen", l_rawlen}, {"require", l_require},
    {"setmetatable", l_setmetatable}, {"type", l_type}, {NULL, NULL}
  };
  static const char *const removed[] = {"dofile", "load", "loadfile"};
  push_environment(L);
  int environment = lua_gettop(L);
  register_functions(L, own, environment);
  for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
    lua_pushnil(L);
    lua_setfield(L, environment, removed[i]);
  }
  copy_global(L, environment, "print");
  if (!binding_of(L)->no_files) {
    copy_global(L, environment, LUA_IOLIBNAME);
    copy_global(L, environment, LUA_OSLIBNAME);
  }
  lua_createtable(L, 0, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  set_part(L, LOADED);
  lua_setfield(L, -2, "loaded");
  lua_setfield(L, environment, LUA_LOADLIBNAME);
  set_part(L, ENVIRONMENT);
}

/* }================================================================== */


/*
** {==================================================================
** Opening
** ===================================================================
*/

static void read_host (lua_State *L, binding *b) {
  static const char *const known[] = {"files", "limit", "threads"};
  const char *name;
  lua_pushnil(L);
  while ((name = next_option(L, 1, 3, known)) != NULL) {
    int i = lua_gettop(L);
    if (name == known[0]) b->no_files = !check_flag(L, i, name);
    else if (name == known[1]) set_limit(L, i);
    else set_threads(L, i);
    lua_pop(L, 1);
  }
  b->most_threads = heed_threads(b->cx);
}


/* Loads a part of the module for a script's 'require'; upvalue 4 is its name, such as "heed.nn" */
static int load_part (lua_State *L) {
  const char *name = lua_tostring(L, lua_upvalueindex(4));
  push_part(L, MODULE);
  if (strcmp(name, "heed") != 0) lua_getfield(L, -1, name + strlen("heed."));
  return 1;
}


/* Scripts find the module by 'require', and its parts as far as heed shows them. */
static void show_parts (lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  push_part(L, MODULE);
  lua_setfield(L, -2, "heed");
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  for (const char *const *module = find_half(NULL); *module != NULL; module += 3) {
    for (int i = 1; i <= 3; i++) lua_pushvalue(L, lua_upvalueindex(i));
    lua_pushstring(L, module[0]);
    lua_pushcclosure(L, load_part, 4);
    lua_setfield(L, -2, module[0]);
  }
  lua_pop(L, 2);
}


/* Libraries that reach files leave the environment of the Lua half, too. */
void heed_lua_close_files (lua_State *L) {
  static const char *const libraries[] = {LUA_IOLIBNAME, LUA_OSLIBNAME};
  binding *b = binding_in(L);
  if (b == NULL || !b->sealed) return;
  b->no_files = true;
  push_part(L, ENVIRONMENT);
  for (int i = 0; i < 2; i++) {
    lua_pushstring(L, libraries[i]);
    lua_pushnil(L);
    lua_rawset(L, -3);
  }
  lua_pop(L, 1);
}


/* Runs as a function of the module's. */
static int seal (lua_State *L) {
  binding *b = enter(L);
  if (b->open) raise(L, "the module is open in this state already; options come first");
  read_host(L, b);
  b->sealed = true;
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &parts_key);
  open_proxies(L);
  open_environment(L);
  push_part(L, LOADED);
  push_core(L);
  lua_setfield(L, -2, "heed.core");
  lua_pushcfunction(L, l_sources);
  lua_setfield(L, -2, "heed.sources");
  push_function(L, "require", l_require);
  lua_pushliteral(L, "heed");
  lua_call(L, 1, 1);
  lua_pushnil(L);
  lua_setfield(L, -2, "core");
  wrap(L);
  lua_pushvalue(L, -1);
  set_part(L, MODULE);
  show_parts(L);
  return 1;
}


int open_sealed (lua_State *L) {
  push_binding(L);
  lua_pop(L, 2);
  push_bound(L, seal, "luaopen_heed");
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  return 1;
}


bool push_sealed (lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &parts_key) == LUA_TNIL) {
    lua_pop(L, 1);
    return false;
  }
  if (lua_rawgeti(L, -1, MODULE) == LUA_TNIL) luaL_error(L, "heed: opening with options failed");
  return true;
}

/* }================================================================== */
