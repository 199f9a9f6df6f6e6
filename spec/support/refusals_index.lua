-- Wrong calls and what they raise, as in spec/support/refusals.lua: indices, fields, arguments as
-- Lua has them.

local heed = require "heed"

local x = heed.arange(12, {dtype = "float32"}):reshape(3, 4)
local mask = x:gt(3)
local scalar, vector = heed.tensor(5.0), heed.tensor{1.0, 2, 3}
local own = heed.ones(3, 4, {requires_grad = true})
local long = ("x"):rep(40)
local many = {}
for i = 1, 257 do many[i] = 1 end

local function get(t, key) return t[key] end
local function set(t, key, value) t[key] = value end
local function each(a, b) return a & b end
local function neither(a) return ~a end

return {
  {get, {x, 0}, "index: position 0: positions count from 1"},
  {get, {x, 5}, "index: position 5 lies outside of 1 to 3"},
  {get, {x, -4}, "index: position -4 lies outside of 1 to 3"},
  {get, {x, 1.5}, "index: argument 'position': a whole number expected, got 1.5"},
  {get, {x, {1, 2, 3}}, "index: indices for 3 dimensions given, the tensor has 2"},
  {get, {x, {0}}, "index: position 0: positions count from 1"},
  {get, {x, {4}}, "index: position 4 lies outside of 1 to 3"},
  {get, {x, {-4}}, "index: position -4 lies outside of 1 to 3"},
  {get, {x, {1, 5}}, "index: position 5 lies outside of 1 to 4"},
  {get, {x, {{1}}},
   "index: a range is {}, {from, to} or {from, to, step}, got one entry; several positions "
   .. "are a tensor, heed.tensor{1, 3}, and all from 2 on are {2, -1}"},
  {get, {x, {{1, 2, 3, 4}}},
   "index: a range is {}, {from, to} or {from, to, step}, got 4 entries; several positions "
   .. "are a tensor, heed.tensor{1, 3}, and all from 2 on are {2, -1}"},
  {get, {x, {{1, 2, {}}}},
   "index: a range is {}, {from, to} or {from, to, step}, got a table among them; several "
   .. "positions are a tensor, heed.tensor{1, 3}, and all from 2 on are {2, -1}"},
  {get, {x, {{1, 2, a = 3}}},
   "index: a range is {}, {from, to} or {from, to, step}, got the string 'a' as a key; "
   .. "several positions are a tensor, heed.tensor{1, 3}, and all from 2 on are {2, -1}"},
  {get, {x, {a = 1}},
   "index: a list expected, with an index for each dimension, got one with the string 'a' as "
   .. "a key"},
  {get, {x, {1, 1, 1, 1, 1, 1, 1, 1, 1}}, "index: 9 indices given, there are at most 8"},
  {get, {x, {1, 1, 1, 1, 1, 1, 1, 1}}, "index: indices for 8 dimensions given, the tensor has 2"},
  {get, {x, {{"1", 2}}}, "index: argument 'from': a whole number expected, got the string '1'"},
  {get, {x, {{1, 2.5}}}, "index: argument 'to': a whole number expected, got 2.5"},
  {get, {x, {{1, 2, "x"}}}, "index: argument 'step': a whole number expected, got the string 'x'"},
  {get, {x, {{1, 2, 0}}}, "index: argument 'step': a step of 0 leads nowhere"},
  {get, {x, {"x"}}, "index: a position, a range or a tensor expected, got the string 'x'"},
  {get, {x, {true}}, "index: a boolean is no index; masks come from x:eq(2) and the like"},
  {get, {x, {print}}, "index: a position, a range or a tensor expected, got a function"},
  {get, {x, true}, "index: a boolean is no index; masks come from x:eq(2) and the like"},
  {get, {x, print}, "index: a position, a range or a tensor expected, got a function"},
  {get, {x, heed.tensor{1.0}}, "index: an int64 or bool tensor expected, got float32"},
  {get, {x, heed.tensor(true)},
   "index: a mask has at least one dimension, got a bool tensor of rank 0"},
  {get, {x, {mask, 1}}, "index: indices for 3 dimensions given, the tensor has 2"},
  {get, {scalar, 1}, "index: a tensor of rank 0 has no positions; use x:item()"},
  {get, {vector, 5}, "index: position 5 lies outside of 1 to 3"},
  {get, {vector, -4}, "index: position -4 lies outside of 1 to 3"},
  {get, {own, {1, 2}},
   "index: reading an element gives a plain number and would cut its gradient; use "
   .. "x:select(1, 1):select(1, 2), or x:detach()"},
  {get, {own[1], 2},
   "index: reading an element gives a plain number and would cut its gradient; use "
   .. "x:select(1, 2), or x:detach()"},
  {get, {vector, "mT"}, "mT: at least 2 dimensions expected, got a tensor of shape (3)"},
  {function() return #scalar end, {}, "#: a tensor of rank 0 has no length"},
  {function() return x < x end, {},
   "'<' and '<=' give one boolean in Lua: compare tensors with x:lt(y), x:le(y), x:gt(y) or "
   .. "x:ge(y)"},
  {function() return x <= x end, {},
   "'<' and '<=' give one boolean in Lua: compare tensors with x:lt(y), x:le(y), x:gt(y) or "
   .. "x:ge(y)"},
  {pairs, {x}, "pairs: a tensor is no table; write for i, row in ipairs(x), or pairs(x:totable())"},
  {set, {x, 1, "a"},
   "index: a number, a table or a tensor expected as the value, got the string 'a'"},
  {set, {x, 1, print},
   "index: a number, a table or a tensor expected as the value, got a function"},
  {set, {x, "grad", 5}, "grad: a tensor or nil expected, got 5"},
  {set, {x, "grads", 5}, "index: a tensor has no field 'grads' to set; did you mean 'grad'?"},
  {set, {x, "colour", 5},
   "index: a tensor has no field 'colour' to set; there are grad, requires_grad"},
  {set, {x, "grad\0", 5}, "index: a field's name expected, got a string with a zero byte"},
  {set, {x, "requires_grad", 1}, "requires_grad: true or false expected, got 1"},
  {set, {x, {9}, 5}, "index: position 9 lies outside of 1 to 3"},
  {set, {x, 4, 1}, "index: position 4 lies outside of 1 to 3"},
  {set, {x, 0, 1}, "index: position 0: positions count from 1"},
  {set, {x, 1, heed.ones(2, 1, 4)},
   "index: argument 'src': a tensor of shape (2, 1, 4) cannot be copied to one of shape (4)"},
  {set, {x, 1, heed.ones(1, 1, 3)},
   "index: argument 'src': a tensor of shape (3) cannot be copied to one of shape (4)"},
  {each, {x, x}, "&, |, ~: a bool tensor expected, got float32; compare first, as in x:gt(0)"},
  {each, {mask, 5}, "&, |, ~: a bool tensor expected, got 5"},
  {each, {mask, heed.ones(3, 4, "int64")},
   "&, |, ~: a bool tensor expected, got int64; compare first, as in x:gt(0)"},
  {neither, {x}, "&, |, ~: a bool tensor expected, got float32; compare first, as in x:gt(0)"},
  {heed.zeros, {many}, "zeros: argument 'size': too many numbers"},
  {heed.sum, {x, many}, "sum: argument 'dim': too many numbers"},
  {heed.sum, {x, table.move(many, 1, 256, 1, {})},
   "sum: argument 'dim': dimension 1 is named twice"},
  {heed.where, {true, x, x},
   "where: argument 'condition': a bool tensor such as x:eq(2) expected, got true"},
  {heed.masked_fill, {x, true, 1},
   "masked_fill: argument 'mask': a bool tensor such as x:eq(2) expected, got true"},
  {heed.exp, {{1, 2}},
   "exp: argument 'input': a tensor expected, got a table; heed.tensor makes one of a list of "
   .. "numbers"},
  {heed.add, {x, {1, 2}},
   "add: argument 'other': a tensor or a number expected, got a table; heed.tensor makes one "
   .. "of a list of numbers"},
  {heed.exp, {long},
   "exp: argument 'input': a tensor expected, got the string "
   .. "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'"},
  {heed.exp, {long .. "x"}, "exp: argument 'input': a tensor expected, got a long string"},
  {heed.exp, {"a\0"}, "exp: argument 'input': a tensor expected, got a string with a zero byte"},
  {heed.exp, {coroutine.create(print)}, "exp: argument 'input': a tensor expected, got a thread"},
  {heed.exp, {math.huge, 5}, "exp: at most 1 arguments expected, got 2"},
  {x.mul, {2, long:sub(1, 20)},
   "mul: a tensor expected as the first argument, got 2; write x:mul(2, 'xxxxxxxxxxxxxxxxxxxx')"},
  {x.mul, {2, long:sub(1, 21)},
   "mul: a tensor expected as the first argument, got 2; write x:mul(...)"},
  {x.mul, {2, nil, 3},
   "mul: a tensor expected as the first argument, got 2; write x:mul(2, nil, 3)"},
  {heed.grad, {own:sum(), 5}, "grad: argument 'xs': a tensor or a list of tensors expected, got 5"},
  {heed.grad, {own:sum(), {own, 5}}, "grad: argument 'xs': a tensor expected at position 2, got 5"},
  {heed.sum, {x, nil, 2}, "sum: argument 'keepdim': true or false expected, got 2"},
  {heed.zeros, {2, nil, 3}, "zeros: argument 'size': a whole number expected, got nil"},
  {heed.permute, {x, 1, nil, 2}, "permute: argument 'dims': a whole number expected, got nil"},
  {heed.permute, {x, 2, 1, nil, 3}, "permute: argument 'dims': a whole number expected, got nil"},
  {heed.cat, {x, 5},
   "cat: argument 'dim': dimension 5 of a tensor of rank 2; there are 1 to 2, or -1 to -2"},
  {heed.cat, {x, x, "a"}, "cat: argument 'dim': a whole number expected, got the string 'a'"},
  {heed.cat, {{x, y = x}},
   "cat: a list expected, got one with the key 'y'; options stand in a table of their own, "
   .. "behind it: {y = ...}"},
  {heed.cat, {{x, [4] = x}},
   "cat: a list without holes expected, got an entry at [4] and none at [2]"},
  {heed.cat, {{[0] = x, x}}, "cat: a list expected, got one with 0 as a key"},
  {heed.cat, {{x, 5}}, "cat: argument 'tensors': a tensor expected, got 5"},
  {heed.cat, {x, nil, x}, "cat: at most 2 arguments expected, got 3"},
  {heed.zeros, {{2, [1.5] = 1}}, "zeros: a list expected, got one with 1.5 as a key"},
  {heed.zeros, {2.5}, "zeros: argument 'size': a whole number expected, got 2.5"},
  {heed.zeros, {"2"}, "zeros: argument 'size': a whole number expected, got the string '2'"},
  {heed.sum, {x, 0}, "sum: argument 'dim': dimensions count from 1, got 0"},
  {heed.sum, {x, 3},
   "sum: argument 'dim': dimension 3 of a tensor of rank 2; there are 1 to 2, or -1 to -2"},
  {heed.sum, {x, {1, 1}}, "sum: argument 'dim': dimension 1 is named twice"},
  {heed.sum, {x, {1, -2}}, "sum: argument 'dim': dimension 1 is named twice"},
  {heed.memory, {{limit = 0}},
   "memory: argument 'limit': a number of bytes above 0 expected, got 0"},
  {heed.memory, {{limit = 1.5}}, "memory: argument 'limit': a whole number expected, got 1.5"},
  {heed.memory, {{5}}, "memory: options by name expected, as in {limit = ...}, got one at [1]"},
  {heed.memory, {5}, "memory: a table of options expected, got 5"},
  {heed.threads, {0}, "threads: argument 'n': a number from 1 to 256 expected, got 0"},
  {heed.threads, {257}, "threads: argument 'n': a number from 1 to 256 expected, got 257"},
  {heed.threads, {1.5}, "threads: argument 'n': a whole number expected, got 1.5"},
  {heed.is_tensor, {x, x}, "is_tensor: at most 1 argument expected, got 2"},
}
