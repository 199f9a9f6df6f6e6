/*
** lua_interrupt.c - a host's request to stop reaches loops of the Lua half that make no other call.
*/

#include <stdio.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include "lua/heed_lua.h"

static int failed;

/* Called by a predicate: the host wants the script to end. */
static int l_interrupt (lua_State *L) {
  heed_interrupt(heed_lua_context(L));
  return 0;
}

/* Does the script end by itself? It raises what is wrong. */
static void run (lua_State *L, const char *script) {
  if (luaL_dostring(L, script) == LUA_OK) return;
  printf("lua_interrupt: %s\n", lua_tostring(L, -1));
  lua_pop(L, 1);
  failed = 1;
}

/* The 16,384 answers of a predicate, and 100,001 buckets, of which few are computed. */
static const char predicate[] =
  "local n = 0\n"
  "local m = heed.mask.predicate(function()\n"
  "  if n == 0 then interrupt() end\n"
  "  n = n + 1\n"
  "  return true\n"
  "end)\n"
  "local good, why = pcall(m.dense, m, 1, 1, 128, 128)\n"
  "assert(not good and why:find 'mask.predicate: interrupted', why)\n"
  "assert(n < 5000, n)\n"
  "assert(m:dense(1, 1, 2, 2):all())\n";

static const char buckets[] =
  "local log, n = math.log, 0\n"
  "function math.log(x)\n"
  "  if n == 0 then interrupt() end\n"
  "  n = n + 1\n"
  "  return log(x)\n"
  "end\n"
  "local good, why = pcall(heed.bias.t5, {heads = 2, distance = 50000})\n"
  "math.log = log\n"
  "assert(not good and why:find 'bias.t5: interrupted', why)\n"
  "assert(n < 20000, n)\n";

/* Between pieces of a file's bytes, as they are summed and written, and not before the first; the
   file is as it was, and nothing stands beside it. */
static const char files[] =
  "local core, path, bytes = require 'heed.core', os.tmpname(), ('x'):rep(1 << 22)\n"
  "assert(core.write_file(path, {'old'}))\n"
  "for name, call in pairs{\n"
  "  crc32 = function()\n"
  "    local good, sum = pcall(core.crc32, 'abc')\n"
  "    return core.crc32(good and sum == 0x352441c2 and bytes or 'stopped too early')\n"
  "  end,\n"
  "  write_file = function() return core.write_file(path, {bytes, bytes}) end,\n"
  "  save = function() return core.called('save', core.write_file, path, {bytes}) end\n"
  "} do\n"
  "  interrupt()\n"
  "  local good, why = pcall(call)\n"
  "  assert(not good and why:find(name .. ': interrupted', 1, true), tostring(why))\n"
  "  assert(core.read_file(path) == 'old' and not io.open(path .. '.heed-tmp'))\n"
  "end\n"
  "os.remove(path)\n"
  "assert(heed.save(path .. '.npy', heed.ones(1 << 22)) and os.remove(path .. '.npy'))\n";

/* Where values are read, and where they are gone over. */
static const char json[] =
  "local json, text = require 'heed.files.json', '[' .. ('[0],'):rep(1 << 12) .. '0]'\n"
  "for _, name in ipairs{'decode', 'check', 'behind', 'value'} do\n"
  "  interrupt()\n"
  "  local good, why = pcall(json[name], text, ({decode = 128, check = 2})[name] or 1)\n"
  "  assert(not good and why:find(name .. ': interrupted', 1, true), name .. tostring(why))\n"
  "  assert(#json.decode(text) == (1 << 12) + 1)\n"
  "end\n";

/* Indices of vectors. */
static const char search[] =
  "local index = heed.search.index{dim = 4}\n"
  "local names, x = {}, heed.randn(20000, 4)\n"
  "for i = 1, #x do names[i] = i end\n"
  "interrupt()\n"
  "local good, why = pcall(index.add, index, names, x)\n"
  "assert(not good and why:find('interrupted', 1, true) and #index == 0, why)\n"
  "index:add(names, x)\n"
  "local query = x[1]\n"
  "interrupt()\n"
  "good, why = pcall(index.query, index, query, 3)\n"
  "assert(not good and why:find('interrupted', 1, true), why)\n"
  "assert(#index:query(query, 3) == 3 and #index == 20000)\n";

/* A call gives back what it took when it ends, also where the host wants the script to end. */
static const char given_back[] =
  "local layer = heed.nn.Linear(2, 2)\n"
  "local ema, weight = heed.optim.EMA(layer), layer.weight:totable()\n"
  "heed.no_grad(function() ema:state()['average.weight']:add_(1) end)\n"
  "pcall(ema.apply, ema, interrupt)\n"
  "local good, why = pcall(heed.ones, 1)\n"
  "assert(not good and why:find('interrupted', 1, true), why)\n"
  "local now = layer.weight:totable()\n"
  "for i, row in ipairs(weight) do\n"
  "  for j, w in ipairs(row) do assert(now[i][j] == w) end\n"
  "end\n";

int main (void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "heed", luaopen_heed, 1);
  lua_register(L, "interrupt", l_interrupt);
  run(L, "assert(heed.mask and heed.bias)");
  run(L, predicate);
  run(L, buckets);
  run(L, files);
  run(L, json);
  run(L, search);
  run(L, given_back);
  lua_close(L);
  printf("lua_interrupt: %s\n", failed ? "wrong" : "loops of the Lua half stop");
  return failed;
}
