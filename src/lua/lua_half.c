/*
** lua_half.c - the whole module for hosts that link it: C's part, and the Lua half as text.
*/

#include <string.h>

#include <lualib.h>

#include "lua_heed.h"
#include "heed_lua.h"

/* Made by the build: module, chunk name, text; and so on, ended by a 0. */
extern const char *const heed_half[];

/* The entry of a module, NULL if there is none; without a name the first. */
const char *const *find_half (const char *name) {
  const char *const *module = heed_half;
  if (name == NULL) return module;
  while (*module != NULL && strcmp(*module, name) != 0) module += 3;
  return *module != NULL ? module : NULL;
}

/* Upvalue 1: which module. Runs its text as require would. */
static int load_module (lua_State *L) {
  const char *const *module = lua_touserdata(L, lua_upvalueindex(1));
  const char *text = module[2];
  if (luaL_loadbufferx(L, text, strlen(text), module[1], "t") != LUA_OK) return lua_error(L);
  lua_pushstring(L, module[0]);
  lua_call(L, 1, 1);
  return 1;
}

/* sources(name): the text of a module, nil if there is none; for heed.help */
int l_sources (lua_State *L) {
  const char *const *module = find_half(luaL_checkstring(L, 1));
  lua_pushstring(L, module != NULL ? module[2] : NULL);
  return 1;
}

static int open_sources (lua_State *L) {
  lua_pushcfunction(L, l_sources);
  return 1;
}

static void preload (lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_heed_core);
  lua_setfield(L, -2, "heed.core");
  lua_pushcfunction(L, open_sources);
  lua_setfield(L, -2, "heed.sources");
  for (const char *const *module = find_half(NULL); *module != NULL; module += 3) {
    lua_pushlightuserdata(L, (void *)(uintptr_t)module);
    lua_pushcclosure(L, load_module, 1);
    lua_setfield(L, -2, module[0]);
  }
  lua_pop(L, 1);
}

/* Only "heed" is loaded now, its parts when they are needed. */
int luaopen_heed (lua_State *L) {
  check_version(L);
  if (lua_istable(L, 1)) return open_sealed(L);
  if (push_sealed(L)) return 1;
  preload(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "heed") == LUA_TTABLE) return 1;     /* another copy is open already */
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_getfield(L, -1, "heed");
  lua_pushliteral(L, "heed");
  lua_call(L, 1, 1);
  return 1;
}
