/*
** lua_stack.c - every row of the table, forward and backward, printing and a training step, from
** Lua, in a thread with a stack of 64 KiB. The program runs in the root of the sources, where it
** finds the cases.
*/

#include "small_stack.h"

#include <lauxlib.h>
#include <lualib.h>

#include "lua/heed_lua.h"

static const char *const script[] = {
  "package.path = './?.lua;' .. package.path\n"
  "heed = require 'heed'\n"
  "heed.threads(1)\n"
  "local cases, rows = require 'spec.support.cases', require 'spec.support.rows'\n"
  "local types, worked = {'float32', 'float64', 'bfloat16', 'int64'}, {}\n"
  "local function try(name, f, dtype, shapes)\n"
  "  local xs = {}\n"
  "  for i, shape in ipairs(shapes) do\n"
  "    xs[i] = heed.rand(shape):to(dtype)\n"
  "    if dtype ~= 'int64' then xs[i]:requires_grad_() end\n"
  "  end\n"
  "  pcall(function()\n"
  "    local ys = {f(table.unpack(xs))}\n"
  "    worked[name] = true\n"
  "    local sum = 0\n"
  "    for _, y in ipairs(ys) do sum = sum + y:to('float64'):sum() end\n"
  "    sum:backward()\n"
  "  end)\n"
  "end\n"
  "for _, dtype in ipairs(types) do\n"
  "  for _, row in ipairs(rows.list) do\n"
  "    local f = heed.core.public[row.name] or heed.core[row.name]\n"
  "    local shapes = {{40, 50}, {50}, {40, 1}}\n"
  "    for n = 1, row.elementwise and 3 or 0 do\n"
  "      try(row.name, f, dtype, {table.unpack(shapes, 1, n)})\n"
  "    end\n"
  "  end\n"
  "  for _, case in ipairs(cases.list) do\n"
  "    if type(case[2]) == 'function' then\n"
  "      try(case.row, case[2], dtype, {table.unpack(case, 3)})\n"
  "    end\n"
  "  end\n"
  "end\n"
  "local idle = {}\n"
  "for _, row in ipairs(rows.list) do\n"
  "  if not worked[row.name] then table.insert(idle, row.name) end\n"
  "end\n"
  "assert(#idle < 20, 'rows that did not work: ' .. table.concat(idle, ' '))\n",

  "for _, dtype in ipairs{'float32', 'float64', 'bfloat16'} do\n"
  "  local a = heed.randn(600, 300):to(dtype):requires_grad_()\n"
  "  a:matmul(a:t()):matmul(a):matmul(heed.ones(300, 1):to(dtype)):sum():backward()\n"
  "  local q = heed.randn(2, 4, 100, 64):to(dtype):requires_grad_()\n"
  "  local mask = heed.rand(2, 1, 100, 100):gt(0.5)\n"
  "  local m, ids = heed.mask, heed.randint(1, 3, {2, 100})\n"
  "  local rule = m.causal() & (mask | (m.documents(ids) & ~(m.blocks(9) | m.prefix(3))))\n"
  "  for _, o in ipairs{{}, {fused = false}, {causal = true}, {mask = mask, dropout = 0.5},\n"
  "                     {softcap = 3, bias = heed.randn(4, 100, 100):to(dtype)},\n"
  "                     {mask = rule, bias = heed.bias.t5{heads = 4}, dropout = 0.5,\n"
  "                      sink = heed.zeros(4)}, {mask = rule, fused = false}} do\n"
  "    heed.attention(q, q, q, o):sum():backward()\n"
  "  end\n"
  "  local c = heed.ones(100, 100):to(dtype)\n"
  "  for i = 1, 4 do c = c:t():contiguous():cumsum(i % 2 + 1):sort() end\n"
  "  assert(#tostring(c) > 100 and #(c:totable()) == 100)\n"
  "  c:normal_(); c:uniform_(); c:bernoulli_(); heed.randperm(100)\n"
  "  heed.einsum('ij,jk,kl->il', c, c, c):dropout(0.5)\n"
  "  heed.where(c:gt(0.5), c, c:abs():add(1):multinomial(100))\n"
  "end\n",

  "local nn, optim = heed.nn, heed.optim\n"
  "for _, kind in ipairs{optim.SGD, optim.Adam, optim.AdamW} do\n"
  "  for _, dtype in ipairs{'float32', 'bfloat16'} do\n"
  "    local model = nn.Sequential{\n"
  "      nn.Embedding(9, 16), nn.MultiHeadAttention(16, 2), nn.LayerNorm(16), nn.Dropout(0.1),\n"
  "      nn.Linear(16, 1)}:to(dtype)\n"
  "    local run = heed.train{\n"
  "      model = model, optimizer = kind(model:parameters(), {lr = 0.01}), steps = 3,\n"
  "      batches = heed.tasks.counting{size = 4}, clip = 1, print = false,\n"
  "      loss = function(p, y) return heed.bce_with_logits(p:mean(2):to('float32'), y) end}\n"
  "    assert(#run.losses > 0)\n"
  "  end\n"
  "end\n",
  NULL
};

static void *run (void *failed) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "heed", luaopen_heed, 0);
  lua_pop(L, 1);
  for (int i = 0; script[i] != NULL; i++)
    if (luaL_dostring(L, script[i]) != LUA_OK) {
      printf("lua_stack: %s\n", lua_tostring(L, -1));
      *(int *)failed = 1;
    }
  lua_close(L);
  return NULL;
}

int main (void) {
  int failed = 0;
  if (SANITIZED) {
    puts("lua_stack: skipped, since a sanitizer's frames are larger");
    puts("0 passed, 0 failed, 1 skipped");
    return 0;
  }
  return on_small_stack("lua_stack", run, &failed) || failed;
}
