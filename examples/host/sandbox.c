/*
** sandbox.c - a program that runs a script which it does not trust.
**
**   make lib && build/release/sandbox script.lua
**
** The script has Lua's functions on values, and heed as its argument, without files: it reads and
** writes none, takes at most 256 MB for its tensors and two threads, and cannot change heed for
** the next script.
*/

#include <stdio.h>

#include <lauxlib.h>
#include <lualib.h>

#include "heed.h"
#include "heed_lua.h"

/* Takes globals away from scripts, and gives strings methods that no script can replace. */
static const char take_away[] =
  "io, os, debug, dofile, load, loadfile, package, require, collectgarbage = nil\n"
  "local strings, methods = getmetatable(''), {}\n"
  "for name, f in pairs(string) do methods[name] = f end\n"
  "strings.__index, strings.__metatable = methods, false\n";

static int run (lua_State *L) {
  const char *path = lua_touserdata(L, 1);
  luaL_openlibs(L);
  lua_pushcfunction(L, luaopen_heed);
  lua_newtable(L);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "files");
  lua_pushinteger(L, 256 << 20);
  lua_setfield(L, -2, "limit");
  lua_pushinteger(L, 2);
  lua_setfield(L, -2, "threads");
  lua_call(L, 1, 1);                   /* heed */
  if (luaL_dostring(L, take_away) != LUA_OK) return lua_error(L);
  if (luaL_loadfilex(L, path, "t") != LUA_OK) return lua_error(L);
  lua_insert(L, -2);
  lua_call(L, 1, 0);                   /* the script gets heed as its argument */
  return 0;
}

int main (int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s SCRIPT\n", argv[0]);
    return 2;
  }
  lua_State *L = luaL_newstate();
  if (L == NULL) return 2;
  lua_pushcfunction(L, run);
  lua_pushlightuserdata(L, argv[1]);
  int status = lua_pcall(L, 1, 0, 0);
  if (status != LUA_OK) fprintf(stderr, "%s\n", lua_tostring(L, -1));
  lua_close(L);
  return status != LUA_OK;
}
