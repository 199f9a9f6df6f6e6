/*
** lua.c - a Lua whose 'heed' was opened with options: sealed SCRIPT ARGUMENTS...
** make sealed runs the specs, the blocks of the pages and the examples by it.
*/

#include <stdio.h>

#include <lauxlib.h>
#include <lualib.h>

#include "lua/heed_lua.h"

#define THREADS 8                /* that specs take, and with how many they begin */
#define USUAL 2

static int traceback (lua_State *L) {
  luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
  return 1;
}

/* The arguments as lua.c has them: the script at 0, the program before it. */
static int push_arguments (lua_State *L, int n, char **arguments) {
  lua_createtable(L, n, 2);
  for (int i = 0; i < n; i++) {
    lua_pushstring(L, arguments[i]);
    lua_rawseti(L, -2, i - 1);
  }
  lua_setglobal(L, "arg");
  luaL_checkstack(L, n, NULL);
  for (int i = 2; i < n; i++) lua_pushstring(L, arguments[i]);
  return n - 2;
}

/* The print that heed keeps calls the one that a script has set, so that specs see its lines. */
static const char own_print[] =
  "local usual, own = print\n"
  "function own(...) return (print == own and usual or print)(...) end\n"
  "print = own\n";

static int run (lua_State *L) {
  int n = (int)lua_tointeger(L, 1);
  char **arguments = lua_touserdata(L, 2);
  luaL_openlibs(L);
  if (luaL_dostring(L, own_print) != LUA_OK) return lua_error(L);
  lua_pushcfunction(L, luaopen_heed);
  lua_newtable(L);
  lua_pushinteger(L, THREADS);
  lua_setfield(L, -2, "threads");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "threads");
  lua_pushinteger(L, USUAL);
  lua_call(L, 1, 0);
  if (luaL_loadfile(L, arguments[1]) != LUA_OK) return lua_error(L);
  lua_call(L, push_arguments(L, n, arguments), 0);
  return 0;
}

int main (int n, char **arguments) {
  lua_State *L = luaL_newstate();
  if (L == NULL || n < 2) return 2;
  lua_pushcfunction(L, traceback);
  lua_pushcfunction(L, run);
  lua_pushinteger(L, n);
  lua_pushlightuserdata(L, arguments);
  int status = lua_pcall(L, 2, 0, 1);
  if (status != LUA_OK) fprintf(stderr, "%s\n", lua_tostring(L, -1));
  lua_close(L);
  return status != LUA_OK;
}
