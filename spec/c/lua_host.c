/*
** lua_host.c - what a host gets wrong is reported to it, and never crashes.
*/

#include <stdio.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include "lua/heed_lua.h"

static int failed;

static void check (bool good, const char *what) {
  if (good) return;
  printf("host: %s: wrong\n", what);
  failed = 1;
}


/*
** {==================================================================
** Calls
** ===================================================================
*/

/* The call failed, and its message has this in it. */
static void refused (heed_context *cx, bool good, const char *message) {
  const char *got = heed_error(cx);
  bool right = !good && got != NULL && strstr(got, message) != NULL;
  if (!right) printf("host: \"%s\" expected, got \"%s\"\n", message, got != NULL ? got : "");
  failed |= !right;
  heed_clear(cx);
}

static void odd_operations (heed_context *cx, heed_tensor *x) {
  heed_tensor *out[HEED_RESULTS];
  heed_value args[] = {heed_t(x)};
  const int odd[] = {-1, HEED_NOPS, 1 << 20};
  for (int i = 0; i < 3; i++) {
    heed_op op = (heed_op)odd[i];
    refused(cx, heed_describe(cx, op) != NULL, "no operation");
    refused(cx, heed_call(cx, op, args, 1) != NULL, "no operation");
    refused(cx, heed_apply_on(cx, "cpu", op, args, 1, out) != 0, "no operation");
    refused(cx, heed_apply_in_place(cx, op, args, 1), "no operation");
  }
}

static void odd_values (heed_context *cx, heed_tensor *x) {
  const int64_t two[] = {2};
  heed_value kind = {.kind = (heed_kind)99};
  heed_value lists[] = {heed_l(3, NULL), heed_l(-1, two), heed_l(-1, NULL), kind, heed_s(NULL)};
  heed_value tensors[] = {heed_ts(2, NULL), heed_ts(-2, &x), kind};
  for (int i = 0; i < 5; i++) {
    heed_value args[] = {heed_t(x), lists[i]};
    refused(cx, heed_call(cx, HEED_zeros, &lists[i], 1) != NULL, "zeros: argument 'size'");
    refused(cx, heed_call(cx, HEED_sum, args, 2) != NULL, "sum: argument 'dim'");
    refused(cx, heed_apply_in_place(cx, HEED_add, args, 2), "add");
  }
  for (int i = 0; i < 3; i++) {
    heed_value args[] = {heed_t(x), tensors[i], heed_i(1)};
    refused(cx, heed_call(cx, HEED_cat, &tensors[i], 1) != NULL, "cat: argument 'tensors'");
    refused(cx, heed_apply_in_place(cx, HEED_put, args, 3), "put");
  }
  refused(cx, heed_call(cx, HEED_add, NULL, 2) != NULL, "add: arguments expected");
  refused(cx, heed_apply_in_place(cx, HEED_add, NULL, 2), "add: arguments expected");
  heed_drop(heed_call(cx, HEED_zeros, (heed_value[]){heed_l(0, NULL)}, 1));
  check(heed_error(cx) == NULL, "an empty list without an array");
}

/* }================================================================== */


/*
** {==================================================================
** Tensors between C and Lua
** ===================================================================
*/

static int numel (lua_State *L) {
  lua_pushinteger(L, heed_numel(heed_check(L, 1)));
  return 1;
}

static int second (lua_State *L) {
  lua_settop(L, 2);
  heed_check(L, -1);
  return 0;
}

static int foreign (lua_State *L) {
  heed_push(L, heed_number(lua_touserdata(L, lua_upvalueindex(1)), 1));
  return 1;
}

/* The stack holds what it did, and what was pushed. */
static int balanced (lua_State *L) {
  lua_settop(L, 1);
  heed_tensor *t = heed_check(L, 1);
  check(lua_gettop(L) == 1 && heed_check(L, -1) == t && lua_gettop(L) == 1, "checks");
  heed_push(L, heed_keep(t));
  check(lua_gettop(L) == 2 && heed_check(L, 2) == t && heed_check(L, 1) == t, "a tensor");
  heed_push(L, NULL);
  check(lua_gettop(L) == 3 && lua_isnil(L, 3), "no tensor is nil");
  return 0;
}

/* The message about an upvalue names no argument. */
static int of_upvalue (lua_State *L) {
  lua_pushinteger(L, heed_numel(heed_check(L, lua_upvalueindex(1))));
  return 1;
}

static const char script[] =
  "local heed = ...\n"
  "local function refuses(wanted, f, ...)\n"
  "  local good, message = pcall(f, ...)\n"
  "  assert(not good and message:find(wanted, 1, true), message)\n"
  "end\n"
  "assert(numel(heed.zeros(2, 3)) == 6)\n"
  "refuses(\"#1 to 'numel' (a tensor expected, got nothing)\", function() numel() end)\n"
  "refuses(\"#1 to 'numel' (a tensor expected, got 5)\", function() numel(5) end)\n"
  "refuses(\"#2 to 'second' (a tensor expected, got nil)\",\n"
  "        function() second(heed.zeros(2)) end)\n"
  "balanced(heed.zeros(2, 3))\n"
  "local good, message = pcall(of_upvalue)\n"
  "assert(not good and message == 'a tensor expected, got 5', message)\n"
  "assert(of_tensor() == 6)\n"
  "local gone = heed.zeros(2)\n"
  "gone:release()\n"
  "refuses('got a released tensor', numel, gone)\n"
  "refuses('another context', foreign)\n"
  "assert(not heed.is_tensor(io.stdout) and heed.is_tensor(heed.zeros(1)))\n"
  "local sources, said = require 'heed.sources', {}\n"
  "assert(sources('heed.meta'):find('softmax', 1, true) and sources 'heed.none' == nil)\n"
  "assert(not pcall(sources, {}) and require 'heed.nn' == heed.nn)\n"
  "function print(text) said[#said + 1] = text end\n"
  "heed.help 'softmax'\n"
  "assert(table.concat(said):find('x:softmax(dim', 1, true), table.concat(said))\n";

static void between_c_and_lua (lua_State *L, heed_context *other) {
  lua_register(L, "numel", numel);
  lua_register(L, "second", second);
  lua_register(L, "balanced", balanced);
  lua_pushinteger(L, 5);
  lua_pushcclosure(L, of_upvalue, 1);
  lua_setglobal(L, "of_upvalue");
  heed_push(L, heed_call(heed_lua_context(L), HEED_zeros,
                         (heed_value[]){heed_l(2, (int64_t[]){2, 3})}, 1));
  lua_pushcclosure(L, of_upvalue, 1);
  lua_setglobal(L, "of_tensor");
  lua_pushlightuserdata(L, other);
  lua_pushcclosure(L, foreign, 1);
  lua_setglobal(L, "foreign");
  if (luaL_loadstring(L, script) == LUA_OK) {
    lua_getglobal(L, "heed");
    if (lua_pcall(L, 1, 0, 0) == LUA_OK) return;
  }
  check(false, lua_tostring(L, -1));
}

/* }================================================================== */


int main (void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "heed", luaopen_heed, 1);
  lua_settop(L, 0);
  heed_context *cx = heed_lua_context(L), *other = heed_open(NULL);
  heed_tensor *x = heed_from(cx, HEED_FLOAT32, 1, (int64_t[]){2}, (float[]){1, 2});
  odd_operations(cx, x);
  odd_values(cx, x);
  heed_drop(x);
  between_c_and_lua(L, other);
  lua_close(L);
  heed_close(other);
  if (!failed) puts("host: every mistake is reported");
  return failed;
}
