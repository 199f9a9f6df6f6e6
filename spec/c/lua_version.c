/*
** lua_version.c - a Lua of another version is told which one heed needs. The linker gives heed this
** program's lua_version.
*/

#include <stdio.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include "lua/heed_lua.h"

lua_Number __wrap_lua_version (lua_State *L);

static lua_Number told;

lua_Number __wrap_lua_version (lua_State *L) {
  (void)L;
  return told;
}

/* Does a function that opens heed say this? */
static int says (lua_State *L, lua_CFunction open, lua_Number version, const char *wanted) {
  told = version;
  lua_settop(L, 0);
  lua_pushcfunction(L, open);
  const char *got = lua_pcall(L, 0, 0, 0) == LUA_OK ? "" : lua_tostring(L, -1);
  if (strcmp(got, wanted) == 0) return 1;
  printf("version: \"%s\" expected, got \"%s\"\n", wanted, got);
  return 0;
}

int main (void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  int good = says(L, luaopen_heed, 505, "heed needs Lua 5.4, this is Lua 5.5")
             & says(L, luaopen_heed_core, 505, "heed needs Lua 5.4, this is Lua 5.5")
             & says(L, luaopen_heed_core, 503, "heed needs Lua 5.4, this is Lua 5.3")
             & says(L, luaopen_heed, LUA_VERSION_NUM, "");
  lua_close(L);
  if (good) puts("version: other versions are refused by name");
  return !good;
}
