/*
** host.c - a program that carries Lua and heed inside: it lends its own memory to a script.
**
**   make lib && build/release/host
**
** The program owns 'samples'. The script sees them as a tensor, without a copy, smooths them
** with attention and writes the result where they were.
*/

#include <stdio.h>

#include <lauxlib.h>
#include <lualib.h>

#include "heed.h"
#include "heed_lua.h"

#define N 8

static const char script[] =
  "local heed = require 'heed'\n"
  "local x = samples:reshape(-1, 1)                      -- (N, 1): one number for each token\n"
  "local smooth = heed.attention(x, x, x, {causal = true})\n"
  "samples:copy_(smooth:reshape(-1))\n"
  "return samples:sum():item()\n";

static void samples_are_free (void *self, void *data) {
  (void)data;
  *(int *)self = 1;
}

int main (void) {
  float samples[N] = {1, 2, 3, 4, 5, 6, 7, 8};
  int64_t size = N;
  int released = 0;
  lua_State *L = luaL_newstate();
  if (L == NULL) return 1;
  luaL_openlibs(L);
  luaL_requiref(L, "heed", luaopen_heed, 0);
  lua_pop(L, 1);
  heed_push(L, heed_lend(heed_lua_context(L), HEED_FLOAT32, 1, &size, samples,
                         samples_are_free, &released));
  lua_setglobal(L, "samples");
  if (luaL_dostring(L, script) != LUA_OK) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    lua_close(L);
    return 1;
  }
  printf("the script says their sum is %.4f\n", lua_tonumber(L, -1));
  printf("the program sees");
  for (int i = 0; i < N; i++) printf(" %.4f", samples[i]);
  lua_close(L);
  printf("\nand has its memory back: %s\n", released ? "yes" : "no");
  return released ? 0 : 1;
}
