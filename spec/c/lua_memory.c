/*
** lua_memory.c - a state opens heed, trains, prints, saves and loads while Lua's allocations fail,
** one at a time and each with all that follow: it gets "not enough memory", and leaves nothing. A
** captured call that fails so leaves heed as it was; any call that changes state leaves that as
** before or as after it.
*/

#include <stdio.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include "lua/heed_lua.h"
#include "failing.h"

enum { STEP = 397 };               /* of some 35,000 allocations, not each is tried */

static const char script[] =
  "local heed, path = require 'heed', ...\n"
  "local nn, optim = heed.nn, heed.optim\n"
  "local model = nn.Sequential{nn.Linear(2, 2), nn.ReLU()}\n"
  "local opt = optim.Adam(model:parameters(), {lr = 0.1})\n"
  "local x = heed.tensor{{1.0, 2.0}, {3.0, 4.0}}\n"
  "heed.mse_loss(model(x), x):backward()\n"
  "opt:step()\n"
  "assert(#(tostring(x) .. tostring(model) .. x:format('%.1f')) > 0)\n"
  "assert(heed.save(path, model:state()))\n"
  "local state, why = heed.load(path)\n"
  "model:load_state(state or error(why))\n"
  "heed.scope(function() return x[{1, {1, 2}}] + 1 end)\n"
  "heed.stack{x, x}[1] = x:totable()\n"
  "heed.checkpoint(heed.exp, x:clone():requires_grad_()):sum():backward()\n"
  "assert(tostring(heed.plot.heat(x)))\n";

static char path[] = "/tmp/heed-memory-XXXXXX.safetensors";

/* Without its n-th allocation: 1: there are not so many; 0: it failed as it should; -1: wrong. */
static int run_without (long n, bool onwards) {
  failing a = {.countdown = -1, .onwards = onwards};
  lua_State *L = lua_newstate(failing_resize, &a);
  luaL_openlibs(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_heed);
  lua_setfield(L, -2, "heed");
  int status = luaL_loadstring(L, script);
  lua_pushstring(L, path);
  a.countdown = n;
  if (status == LUA_OK) status = lua_pcall(L, 1, 0, 0);
  a.countdown = -1;
  int result = a.failed ? 0 : 1;
  const char *message = status != LUA_OK ? lua_tostring(L, -1) : "not enough memory";
  if ((status != LUA_OK && result == 1) || message == NULL ||
      strstr(message, "not enough memory") == NULL) {
    printf("memory: allocation %ld: %s\n", n, message != NULL ? message : "no message");
    result = -1;
  }
  lua_close(L);
  if (a.alive != 0) {
    printf("memory: allocation %ld: %ld blocks stay\n", n, a.alive);
    result = -1;
  }
  return result;
}

static int survives (bool onwards) {
  int result = 0;
  long n = 0;
  for (; result == 0; n += STEP) result = run_without(n, onwards);
  if (result < 0) return 1;
  printf("memory: survived %ld failing allocations, %s\n", n / STEP - 1,
         onwards ? "each with all that follow" : "one at a time");
  return n > STEP ? 0 : 1;
}

/* fail_after(n) lets the n-th allocation from now on fail; a negative n: none. Did one fail? */
static const char capturing[] =
  "local heed, fail_after = require 'heed', ...\n"
  "local x, n, failed = heed.ones(2), 0, true\n"
  "while failed do\n"
  "  local w = heed.ones(2, {requires_grad = true})\n"
  "  local opt = heed.optim.SGD({w}, {lr = 0.5, momentum = 0.5})\n"
  "  local f = heed.capture(function(t)\n"
  "    opt:zero_grad()\n"
  "    local y = (w * t):sum()\n"
  "    y:backward()\n"
  "    opt:step()\n"
  "    return y\n"
  "  end)\n"
  "  f(x)\n"
  "  fail_after(n)\n"
  "  local good, why = pcall(f, x)\n"
  "  failed = fail_after(-1)\n"
  "  assert(good or why:find('not enough memory'), why)\n"
  "  local steps = opt:state().step:item()\n"
  "  local sums = {1, -0.5}\n"
  "  assert(w:sum():item() == sums[steps] and x:sum():item() == 2)\n"
  "  assert(f(x):item() == sums[steps] and opt:state().step:item() == steps + 1)\n"
  "  n = n + 1\n"
  "end\n"
  "return n\n";


static int l_fail_after (lua_State *L) {
  failing *a = lua_touserdata(L, lua_upvalueindex(1));
  lua_pushboolean(L, a->failed);
  a->countdown = (long)luaL_checkinteger(L, 1);
  a->failed = false;
  return 1;
}


/* Runs what 'load' has pushed, with fail_after, in a state whose allocations fail. */
static int survives_script (const char *what, int (*load) (lua_State *L), bool onwards) {
  failing a = {.countdown = -1, .onwards = onwards};
  lua_State *L = lua_newstate(failing_resize, &a);
  luaL_openlibs(L);
  luaL_requiref(L, "heed", luaopen_heed, 0);
  int status = load(L);
  lua_pushlightuserdata(L, &a);
  lua_pushcclosure(L, l_fail_after, 1);
  if (status == LUA_OK) status = lua_pcall(L, 1, 1, 0);
  printf("memory: %s, %s: %s\n", what, onwards ? "each with all that follow"
         : "one at a time", lua_tostring(L, -1));
  lua_close(L);
  return status != LUA_OK || a.alive != 0;
}


static int load_captures (lua_State *L) { return luaL_loadstring(L, capturing); }

static int load_changes (lua_State *L) { return luaL_loadfile(L, "spec/c/scripts/changes.lua"); }


static int load_words (lua_State *L) { return luaL_loadfile(L, "spec/c/scripts/words.lua"); }


int main (void) {
  int fd = mkstemps(path, 12);
  if (fd < 0) return 1;
  int failed = survives(false) | survives(true) |
               survives_script("captured calls", load_captures, false) |
               survives_script("captured calls", load_captures, true) |
               survives_script("changes", load_changes, true) |
               survives_script("words", load_words, true);
  remove(path);
  return failed;
}
