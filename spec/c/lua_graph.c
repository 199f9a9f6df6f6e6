/*
** lua_graph.c - functions of Lua's in a graph: a host that keeps a tensor keeps those that its
** graph calls, and each of Lua's allocations may fail while they are recorded and called.
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include "failing.h"
#include "lua/heed_lua.h"

static int failed;

static void check (bool good, const char *what) {
  if (good) return;
  printf("graph: %s: wrong\n", what);
  failed = 1;
}


static void collect (lua_State *L) {
  lua_gc(L, LUA_GCCOLLECT);
  lua_gc(L, LUA_GCCOLLECT);
}

/* The function that the text returns, given heed, on top. */
static void load_function (lua_State *L, const char *text) {
  lua_getglobal(L, "heed");
  if (luaL_loadstring(L, text) != LUA_OK) puts(lua_tostring(L, -1));
  lua_insert(L, -2);
  lua_call(L, 1, 1);
}


/*
** {==================================================================
** A host that keeps a tensor
** ===================================================================
*/

static const char kept_script[] =
  "local heed = ...\n"
  "local w = heed.ones(2, {requires_grad = true})\n"
  "local calls = 0\n"
  "local function double(t)\n"
  "  return heed.custom{forward = function(_, a) return a * 2 end,\n"
  "                     backward = function(_, g) calls = calls + 1 return g * 2 end}(t)\n"
  "end\n"
  "keep(double(double(w) + double(w)) * 3)\n"
  "return function()\n"
  "  local sum = w.grad and w.grad:sum():item() or 0\n"
  "  return sum, calls\n"
  "end\n";

static int keep (lua_State *L) {
  heed_tensor **t = lua_touserdata(L, lua_upvalueindex(1));
  *t = heed_keep(heed_check(L, 1));
  return 0;
}

static void kept_by_a_host (lua_State *L) {
  heed_tensor *t = NULL;
  heed_context *cx = heed_lua_context(L);
  lua_pushlightuserdata(L, &t);
  lua_pushcclosure(L, keep, 1);
  lua_setglobal(L, "keep");
  load_function(L, kept_script);
  collect(L);
  heed_tensor *seed = heed_from(cx, HEED_FLOAT32, 1, (int64_t[]){2}, (float[]){1, 1});
  check(heed_backward(t, seed, false), "a pass that a host begins when Lua has forgotten it");
  heed_clear(cx);
  heed_drop(seed);
  heed_drop(t);
  lua_call(L, 0, 2);
  check(lua_tonumber(L, -2) == 48 && lua_tointeger(L, -1) == 3, "its gradient");
  lua_settop(L, 0);
  collect(L);
  check(heed_graph_nodes(cx) == 0, "what is left of its graph");
}


static const char refused_script[] =
  "local heed = ...\n"
  "local w = heed.ones(2, {requires_grad = true})\n"
  "w:register_hook(function() error('of a hook', 0) end)\n"
  "keep((w * 2):sum())\n"
  "return function(name)\n"
  "  local x = heed.ones(2)\n"
  "  local good, why = pcall(heed[name], x:sum(), name == 'grad' and x or nil)\n"
  "  assert(not good and why:find('the tensor has no graph', 1, true), why)\n"
  "end\n";

/* The error of a hook in a pass of the host's is none of a later pass, which Lua begins. */
static void refused_in_a_host (lua_State *L) {
  static const char *const names[] = {"backward", "grad"};
  heed_context *cx = heed_lua_context(L);
  heed_tensor *t = NULL;
  lua_pushlightuserdata(L, &t);
  lua_pushcclosure(L, keep, 1);
  lua_setglobal(L, "keep");
  load_function(L, refused_script);
  for (int i = 0; i < 2; i++) {
    check(!heed_backward(t, NULL, true), "a pass whose hook fails");
    check(heed_error(cx) != NULL && strcmp(heed_error(cx), "of a hook") == 0, "a hook's error");
    heed_clear(cx);
    lua_pushvalue(L, -1);
    lua_pushstring(L, names[i]);
    check(lua_pcall(L, 1, 0, 0) == LUA_OK, names[i]);
    lua_settop(L, 1);
  }
  heed_drop(t);
  lua_settop(L, 0);
}

/* }================================================================== */


/*
** {==================================================================
** Allocations that fail
** ===================================================================
*/

static const char work_script[] =
  "local heed = ...\n"
  "return function()\n"
  "  local w = heed.ones(2, {requires_grad = true})\n"
  "  local function double(t)\n"
  "    return heed.custom{forward = function(_, a) return a * 2 end,\n"
  "                       backward = function(_, g) return g * 2 end}(t)\n"
  "  end\n"
  "  local x = heed.stack{w, double(w)}\n"
  "  local view = x[1]\n"
  "  x:add_(double(w) + heed.checkpoint(double, w))\n"
  "  view[1] = double(w):sum()\n"
  "  local y = heed.cat({x, x}, 1):sum{dim = 1}\n"
  "  y:sum():backward()\n"
  "  return w.grad:sum():item()\n"
  "end\n";

/* Runs the function on top while one allocation fails; true: there was none of this number. */
static bool works_without (lua_State *L, failing *a, int n, bool onwards, double wanted) {
  lua_pushvalue(L, -1);
  a->onwards = onwards;
  a->failed = false;
  a->countdown = n;
  int status = lua_pcall(L, 0, 1, 0);
  a->countdown = -1;
  const char *message = status != LUA_OK ? lua_tostring(L, -1) : NULL;
  if (status == LUA_OK) check(lua_tonumber(L, -1) == wanted, "the gradient");
  else if (message == NULL || strstr(message, "not enough memory") == NULL) {
    printf("graph: allocation %d: %s\n", n, message != NULL ? message : "no message");
    failed = 1;
  }
  lua_settop(L, -2);
  return !a->failed;
}

static void each_allocation_fails (lua_State *L, failing *a, bool onwards) {
  heed_context *cx = heed_lua_context(L);
  load_function(L, work_script);
  lua_pushvalue(L, -1);
  lua_call(L, 0, 1);
  double wanted = lua_tonumber(L, -1);
  lua_pop(L, 1);
  int n = 0;
  while (n < 100000 && !works_without(L, a, n, onwards, wanted)) {
    if (++n % 20 == 0) collect(L);
  }
  lua_settop(L, 0);
  collect(L);
  check(heed_graph_nodes(cx) == 0, "what is left of graphs without memory");
  printf("%d allocations failed, %s\n", n, onwards ? "and all after them" : "each once");
}

/* }================================================================== */


int main (void) {
  failing a = {.countdown = -1};
  lua_State *L = lua_newstate(failing_resize, &a);
  luaL_openlibs(L);
  luaL_requiref(L, "heed", luaopen_heed, 1);
  lua_settop(L, 0);
  kept_by_a_host(L);
  refused_in_a_host(L);
  each_allocation_fails(L, &a, false);
  each_allocation_fails(L, &a, true);
  lua_close(L);
  check(a.alive == 0, "memory that the state left");
  if (!failed) puts("graph: functions live as long as what calls them");
  return failed;
}
