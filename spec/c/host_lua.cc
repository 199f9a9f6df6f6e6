// A C++ program that carries Lua and heed inside: heed_lua.h as C++ reads and links it.
#include <cstdio>
#include <lua.hpp>

#include "heed_lua.h"

int main () {
  float samples[] = {1, 2, 3, 4};
  const int64_t n = 4;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "heed", luaopen_heed, 0);
  heed_push(L, heed_lend(heed_lua_context(L), HEED_FLOAT32, 1, &n, samples, nullptr, nullptr));
  lua_setglobal(L, "samples");
  bool good = luaL_dostring(L, "samples:mul_(2) return samples:sum()") == LUA_OK;
  if (good) std::printf("%lld numbers, the last is %g\n",
                        static_cast<long long>(heed_numel(heed_check(L, -1))), samples[3]);
  else std::puts(lua_tostring(L, -1));
  lua_close(L);
  return good && samples[3] == 8 ? 0 : 1;
}
