/*
** lua_heed.c - opens the module; the interface for hosts.
*/

#include <stdlib.h>
#include <string.h>

#include "lua_heed.h"
#include "heed_lua.h"

static const char binding_key = 0;       /* their addresses name what they stand for */
static const char metatable_key = 0;     /* in the registry */


void push_function (lua_State *L, const char *name, lua_CFunction f) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushstring(L, name);
  lua_pushcclosure(L, f, 3);
}


void push_method (lua_State *L, const char *name, lua_CFunction f) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushstring(L, name);
  lua_pushboolean(L, 1);
  lua_pushcclosure(L, f, 4);
}


void register_as (lua_State *L, const char *name, const luaL_Reg *functions, int table) {
  table = lua_absindex(L, table);
  for (; functions->name != NULL; functions++) {
    push_function(L, name != NULL ? name : functions->name, functions->func);
    lua_setfield(L, table, functions->name);
  }
}


void register_functions (lua_State *L, const luaL_Reg *functions, int table) {
  register_as(L, NULL, functions, table);
}


void register_methods (lua_State *L, const luaL_Reg *functions, int module, int methods) {
  register_functions(L, functions, module);
  for (; functions->name != NULL; functions++) {
    push_method(L, functions->name, functions->func);
    lua_setfield(L, methods, functions->name);
  }
}


static const char NO_FILES[] = "the host has taken files from this state";

/* Calls upvalue 5, a function that touches files, where the host has not taken them away. */
static int l_with_files (lua_State *L) {
  if (binding_of(L)->no_files) return raise(L, NO_FILES);
  return lua_tocfunction(L, lua_upvalueindex(5))(L);
}


/* check_files(who): raises for a function of the Lua half in such a state */
static int l_check_files (lua_State *L) {
  const char *who = luaL_checkstring(L, 1);
  if (!binding_of(L)->no_files) return 0;
  return raise_as(L, who, NO_FILES);
}


void register_files (lua_State *L, const luaL_Reg *functions, int table) {
  table = lua_absindex(L, table);
  for (; functions->name != NULL; functions++) {
    for (int i = 1; i <= 2; i++) lua_pushvalue(L, lua_upvalueindex(i));
    lua_pushstring(L, functions->name);
    lua_pushboolean(L, 0);                       /* no method */
    lua_pushcfunction(L, functions->func);
    lua_pushcclosure(L, l_with_files, 5);
    lua_setfield(L, table, functions->name);
  }
}


void register_metatable (lua_State *L, const luaL_Reg *functions, const void *key) {
  lua_newtable(L);
  register_functions(L, functions, -1);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}


/*
** {==================================================================
** Opening
** ===================================================================
*/

/* The last finaliser of the state. Tensors that a host still holds outlive it. */
static int close_binding (lua_State *L) {
  binding *b = lua_touserdata(L, 1);
  heed_context *cx = b->cx;
  b->cx = NULL;
  if (cx == NULL) return 0;
  drop_hooks(b);
  drop_cells(b);
  heed_close(cx);
  return 0;
}


static void open_context (lua_State *L, binding *b) {
  heed_host host = {.reclaim = reclaim_memory, .interrupted = hook_appeared, .self = b};
  b->cx = heed_open(&host);
  if (b->cx != NULL) return;
  const char *level = getenv("HEED_LEVEL");
  if (level == NULL || *level == '\0') luaL_error(L, "heed: %s", heed_error(NULL));
  luaL_error(L, "heed: not enough memory, or no level '%s' here (HEED_LEVEL)", level);
}


static void push_new_binding (lua_State *L) {
  binding *b = lua_newuserdatauv(L, sizeof *b, SPARES);
  memset(b, 0, sizeof *b);
  b->precision = 4;
  b->width = 80;
  b->edge = 3;
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  b->main = b->L = lua_tothread(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, b);
  lua_createtable(L, 0, 2);
  lua_pushcfunction(L, close_binding);
  lua_setfield(L, -2, "__gc");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, -2);
  open_context(L, b);
}


/* The binding and the metatable of tensors: one of each for a state, however often it opens. */
void push_binding (lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &binding_key) == LUA_TNIL) {
    lua_pop(L, 1);
    push_new_binding(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &binding_key);
  }
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &metatable_key);
  }
}


/*
** Makes heed.core, which holds the functions for the Lua half alone, with the functions of the
** module in 'public' and those of tensors in 'methods'. No function stands in two of the tables but
** those that are functions and methods. Upvalues: the binding and the metatable of tensors.
*/
static int fill_core (lua_State *L) {
  enter(L);
  lua_newtable(L);
  lua_newtable(L);
  lua_newtable(L);
  int methods = lua_gettop(L), module = methods - 1, internal = methods - 2;
  open_tensor(L, module, methods);
  open_ops(L, module, methods, internal);
  open_describe(L, internal);
  open_error(L, internal);
  open_options(L, internal);
  open_make(L, module);
  open_generator(L, module, internal);
  open_read(L, module, methods);
  open_print(L, module, methods);
  open_memory(L, module, internal);
  open_cuda(L, module, methods);
  open_capture(L, internal);
  open_profile(L, internal);
  open_scope(L, module);
  open_anchor(L);
  open_grad(L, module, methods, internal);
  open_optim(L, internal);
  open_commit(L, internal);
  open_bytes(L, module, internal);
  open_file(L, internal);
  open_tokenizer(L, internal);
  open_json(L, internal);
  open_search(L, internal);
  open_readline(L, internal);
  open_inflate(L, internal);
  open_api(L);
  push_function(L, "hooked", l_hooked);
  lua_setfield(L, internal, "hooked");
  push_function(L, "poll", l_poll);
  lua_setfield(L, internal, "poll");
  push_function(L, "check_files", l_check_files);
  lua_setfield(L, internal, "check_files");
  lua_setfield(L, internal, "methods");
  lua_setfield(L, internal, "public");
  binding_of(L)->open = true;
  return 1;
}


void push_core (lua_State *L) {
  push_binding(L);
  lua_pushcclosure(L, fill_core, 2);
  lua_call(L, 0, 1);
}


/* Raises in a Lua of another version, whose own message would name numbers alone. */
void check_version (lua_State *L) {
  int version = (int)lua_version(L);
  if (version != LUA_VERSION_NUM)
    luaL_error(L, "heed needs Lua 5.4, this is Lua %d.%d", version / 100, version % 100);
  luaL_checkversion(L);
}


int luaopen_heed_core (lua_State *L) {
  check_version(L);
  push_binding(L);
  const binding *b = lua_touserdata(L, -2);
  if (b->sealed) return luaL_error(L, "heed: this state's scripts cannot reach 'heed.core'");
  push_core(L);
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** For hosts
** ===================================================================
*/

binding *binding_in (lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &binding_key);
  binding *b = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return b;
}


heed_context *heed_lua_context (lua_State *L) {
  const binding *b = binding_in(L);
  return b != NULL ? b->cx : NULL;
}


void push_bound (lua_State *L, lua_CFunction f, const char *name) {
  luaL_checkstack(L, 4, "heed");
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &binding_key) == LUA_TNIL)
    luaL_error(L, "heed: the module is not open in this state");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key);
  lua_pushstring(L, name);
  lua_pushcclosure(L, f, 3);
}


static int bound_push (lua_State *L) {
  binding *b = enter(L);
  heed_tensor *t = lua_touserdata(L, 1);
  if (t != NULL && heed_context_of(t) != b->cx)
    return luaL_error(L, "heed_push: the tensor belongs to another context");
  push_cell(L)->t = t;
  return 1;
}


void heed_push (lua_State *L, heed_tensor *t) {
  push_bound(L, bound_push, "heed_push");
  lua_pushlightuserdata(L, t);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
    heed_drop(t);
    lua_error(L);
  }
  if (t != NULL) return;
  lua_pop(L, 1);
  lua_pushnil(L);
}


/* Its tensor, or what is wrong with its argument. A host may keep it, unseen by the collector. */
static int bound_check (lua_State *L) {
  enter(L);
  pin_anchors(L, 1, 1);
  heed_tensor *t = raw_tensor(L, 1);
  if (t != NULL) lua_pushlightuserdata(L, t);
  else lua_pushfstring(L, "a tensor expected, got %s", describe(L, 1));
  return 1;
}


/* The error is raised as by the host's own function: at the line of that one's caller. */
heed_tensor *heed_check (lua_State *L, int i) {
  i = lua_absindex(L, i);
  bool given = !lua_isnone(L, i);
  push_bound(L, bound_check, "heed_check");
  if (given) lua_pushvalue(L, i);
  lua_call(L, given, 1);
  heed_tensor *t = lua_touserdata(L, -1);
  if (t == NULL && i > 0) luaL_argerror(L, i, lua_tostring(L, -1));
  if (t == NULL) luaL_error(L, "%s", lua_tostring(L, -1));
  lua_pop(L, 1);
  return t;
}

/* }================================================================== */
