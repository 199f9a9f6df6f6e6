-- Cases of the rows that make tensors or draw them: see spec/support/cases.lua. A `check` is a
-- function that checks its row alone.

local asserted = require "spec.support.asserted"
local close = require "spec.support.close"
local device = require "spec.support.device"
local heed = require "heed"
local reference = require "spec.support.reference"

local compare, types, floats = reference.compare, reference.types, reference.floats

local function expect(condition, name)
  asserted.note()
  if not condition then error(name, 0) end
end

local function raises(name, ...) expect(not pcall(...), name .. " was not refused") end

-- y has this type, shape and these numbers.
local function equals(name, y, dtype, shape, list)
  expect(y.dtype == dtype, ("%s: type %s expected, got %s"):format(name, dtype, y.dtype))
  expect(table.concat({y:size()}, " ") == table.concat(shape, " "),
         name .. ": " .. tostring(y.shape))
  expect(not y.requires_grad, name .. " has a graph")
  local wanted = {}
  for i, v in ipairs(list) do wanted[i] = reference.converted(v, dtype) end
  compare(name .. " " .. dtype, y, wanted, reference.tolerance[dtype])
end

-- make(options) in each type of `list`; without one it gives `default`.
local function in_types(name, make, shape, numbers, list, default)
  for _, dtype in ipairs(types) do
    local taken = false
    for _, other in ipairs(list) do taken = taken or other == dtype end
    if taken then equals(name, make{dtype = dtype}, dtype, shape, numbers)
    else raises(name .. " of " .. dtype, make, {dtype = dtype}) end
  end
  equals(name, make(), default, shape, numbers)
end

local function filled(name, value)
  return function()
    for _, shape in ipairs {{2, 3}, {1, 1}, {}, {0, 4}} do
      local list, n = {}, 1
      for _, size in ipairs(shape) do n = n * size end
      for i = 1, n do list[i] = value end
      in_types(name, function(...) return heed[name](shape, ...) end, shape, list, types, "float32")
    end
    raises(name, heed[name], {2, -1})
  end
end

local function numbers_of(y) return y:double():reshape(-1):totable() end

-- The same numbers after the same seed, others after another, all of them within bounds.
local function drawn(name, make, list, good)
  for _, dtype in ipairs(types) do
    local taken = false
    for _, other in ipairs(list) do taken = taken or other == dtype end
    if not taken then raises(name .. " of " .. dtype, make, dtype)
    else
      heed.manual_seed(7)
      local first = make(dtype)
      expect(first.dtype == dtype and not first.requires_grad, name .. " of " .. dtype)
      local further = make(dtype)
      heed.manual_seed(7)
      local again = make(dtype)
      heed.manual_seed(8)
      expect(first:equal(again), name .. " is not repeated by its seed, in " .. dtype)
      expect(first:numel() < 20 or not first:equal(further), name .. " repeats itself")
      expect(first:numel() < 20 or not first:equal(make(dtype)), name .. " ignores its seed")
      local numbers = numbers_of(first)
      for _, v in ipairs(numbers) do
        expect(good(v), ("%s of %s gave %g"):format(name, dtype, v))
      end
    end
  end
end

local function mean(y)
  local list, sum = numbers_of(y), 0
  for _, v in ipairs(list) do sum = sum + v end
  return sum / #list
end

local function near(name, got, wanted, tol)
  expect(close(got, wanted, 0, tol), ("%s: %g expected, got %g"):format(name, wanted, got))
end

-- The first numbers after manual_seed(0): PyTorch's, on the CPU.
local function known(name, y, list)
  if device.name == "cpu" then compare(name, y, list, 2e-4) end
end

local function between(low, high)
  return function(v) return v >= low and v <= high end
end

local integers = {"float64", "float32", "float16", "bfloat16", "int64", "uint8"}

local list = {
  {"zeros", check = filled("zeros", 0)},
  {"ones", check = filled("ones", 1)},
  {"empty", check = function()
    for _, dtype in ipairs(types) do
      for _, shape in ipairs {{2, 3}, {}, {0, 4}} do
        local y = heed.empty(shape, {dtype = dtype})
        y:zero_()
        local n = y:numel()
        equals("empty", y, dtype, shape, table.move({0, 0, 0, 0, 0, 0}, 1, n, 1, {}))
      end
    end
    expect(heed.empty(2).dtype == "float32", "empty gives another type")
    raises("empty", heed.empty, {2, -1})
  end},
  {"full", check = function()
    for _, shape in ipairs {{2, 2}, {}, {0, 3}} do
      local n = #shape == 0 and 1 or shape[1] * shape[2]
      local list = table.move({2, 2, 2, 2}, 1, n, 1, {})
      in_types("full", function(...) return heed.full(shape, 2, ...) end, shape, list, types,
               "int64")
    end
    equals("full", heed.full({2}, 1.5), "float32", {2}, {1.5, 1.5})
    equals("full", heed.full({2}, true), "bool", {2}, {1, 1})
    equals("full", heed.full({2}, heed.tensor(3, {dtype = "float16"})), "float16", {2}, {3, 3})
    raises("full", heed.full, {2}, heed.tensor{1, 2})
  end},
  {"arange", check = function()
    in_types("arange", function(...) return heed.arange(1, 7, 2, ...) end, {4}, {1, 3, 5, 7}, types,
             "int64")
    equals("arange", heed.arange(3), "int64", {3}, {1, 2, 3})
    equals("arange", heed.arange(5, 1, -2), "int64", {3}, {5, 3, 1})
    equals("arange", heed.arange(0.5, 2), "float32", {2}, {0.5, 1.5})
    equals("arange", heed.arange(2, 1), "int64", {0}, {})
    raises("arange", heed.arange, 1, 2, 0)
  end},
  {"linspace", check = function()
    in_types("linspace", function(...) return heed.linspace(0, 8, 5, ...) end, {5}, {0, 2, 4, 6, 8},
             types, "float32")
    equals("linspace", heed.linspace(1, -1, 3, {dtype = "float64"}), "float64", {3}, {1, 0, -1})
    equals("linspace", heed.linspace(3, 9, 1), "float32", {1}, {3})
    equals("linspace", heed.linspace(3, 9, 0), "float32", {0}, {})
    raises("linspace", heed.linspace, 0, 1, -1)
  end},
  {"attention_mask", check = function()
    local bools = heed.tensor{{false, true}}
    local function made(...) return heed.core.attention_mask(...) end
    equals("attention_mask", made({1, 1, 2, 2}, {}), "bool", {1, 1, 2, 2}, {1, 1, 1, 1})
    equals("attention_mask", made({1, 1, 2, 2}, {2, -1, 0}), "bool", {1, 1, 2, 2}, {1, 0, 1, 1})
    equals("attention_mask", made({2, 1, 1, 2}, {0}, {bools}), "bool", {2, 1, 1, 2}, {0, 1, 0, 1})
    equals("attention_mask", made({1, 0, 1, 2}, {0}, {bools}), "bool", {1, 0, 1, 2}, {})
    for _, rule in ipairs {{12}, {-1}, {2, 1}, {10}, {2, 0, 0, 2, 0, 0}, {0}, {8, 0, 0, 0}} do
      raises("attention_mask", made, {1, 1, 2, 2}, rule)
    end
    raises("attention_mask", made, {1, 2, 2}, {})
    raises("attention_mask", made, {1, 1, 2, 2}, {2, 0, 0}, {bools})
    raises("attention_mask", made, {1, 1, 2, 3}, {0}, {bools})
  end},
  {"eye", check = function()
    in_types("eye", function(...) return heed.eye(2, 3, ...) end, {2, 3}, {1, 0, 0, 0, 1, 0}, types,
             "float32")
    equals("eye", heed.eye(2), "float32", {2, 2}, {1, 0, 0, 1})
    equals("eye", heed.eye(1), "float32", {1, 1}, {1})
    equals("eye", heed.eye(0, 2), "float32", {0, 2}, {})
    raises("eye", heed.eye, -1)
  end},

  {"rand", check = function()
    drawn("rand", function(dtype) return heed.rand(40, {dtype = dtype}) end, floats, between(0, 1))
    heed.manual_seed(0)
    known("rand", heed.rand(3), {0.4963, 0.7682, 0.0885})
    expect(heed.rand(0, 3):numel() == 0 and heed.rand({}):dim() == 0, "rand of other shapes")
    near("the mean of rand", mean(heed.rand(2000)), 0.5, 0.05)
  end},
  {"randn", check = function()
    drawn("randn", function(dtype) return heed.randn(40, {dtype = dtype}) end, floats,
          between(-8, 8))
    heed.manual_seed(0)
    known("randn", heed.randn(3), {1.5410, -0.2934, -2.1788})
    expect(heed.randn(0, 3):numel() == 0 and heed.randn({}):dim() == 0, "randn of other shapes")
    local y = heed.randn(2000)
    near("the mean of randn", mean(y), 0, 0.1)
    near("the variance of randn", mean(y * y), 1, 0.15)
  end},
  {"randint", check = function()
    local function good(v) return v >= 2 and v <= 9 and v % 1 == 0 end
    drawn("randint", function(dtype) return heed.randint(2, 9, {40}, {dtype = dtype}) end, integers,
          good)
    heed.manual_seed(0)
    known("randint", heed.randint(0, 9, {5}), {4, 9, 3, 0, 3})
    expect(heed.randint(0, 9, {2, 3}).dtype == "int64", "randint gives another type")
    expect(heed.randint(5, 5, {1, 1}):item() == 5, "randint excludes its bounds")
    expect(heed.randint(0, 9, {0, 3}):numel() == 0, "randint of nothing")
    raises("randint", heed.randint, 3, 2, {1})
  end},
  {"randperm", check = function()
    for _, dtype in ipairs(types) do
      if dtype ~= "bool" then
        local seen = {}
        for _, v in ipairs(numbers_of(heed.randperm(30, {dtype = dtype}))) do seen[v] = true end
        for i = 1, 30 do expect(seen[i], "randperm lacks " .. i) end
      end
    end
    heed.manual_seed(3)
    local first = heed.randperm(30)
    heed.manual_seed(3)
    expect(first.dtype == "int64" and first:equal(heed.randperm(30)), "randperm and its seed")
    expect(not first:equal(heed.randperm(30)), "randperm repeats itself")
    expect(heed.randperm(0):numel() == 0 and heed.randperm(1):item() == 1, "randperm of few")
  end},
  {"uniform", check = function()
    drawn("uniform", function(dtype) return heed.zeros(40, {dtype = dtype}):uniform_(2, 3) end,
          floats, between(2, 3))
    drawn("uniform", function(dtype)
      local wide = heed.zeros(40, 2, {dtype = dtype})
      wide:select(2, 1):uniform_(2, 3)
      expect(wide:select(2, 2):eq(0):all(), "uniform_ writes beside its tensor")
      return wide:select(2, 1):clone()
    end, floats, between(2, 3))
    expect(heed.zeros(0, 3):uniform_():numel() == 0, "uniform of nothing")
  end},
  {"normal", check = function()
    drawn("normal", function(dtype) return heed.zeros(40, {dtype = dtype}):normal_(20, 0.5) end,
          floats, between(15, 25))
    near("the mean of normal", mean(heed.zeros(2000):normal_(20, 0.5)), 20, 0.1)
    equals("normal", heed.zeros(2):normal_(7, 0), "float32", {2}, {7, 7})
  end},
  {"bernoulli", check = function()
    drawn("bernoulli", function(dtype) return heed.full({40}, 0.5, {dtype = dtype}):bernoulli() end,
          floats, function(v) return v == 0 or v == 1 end)
    for _, dtype in ipairs(floats) do
      local p = heed.tensor({{0, 1}, {1, 0}}, {dtype = dtype})
      equals("bernoulli", p:bernoulli(), dtype, {2, 2}, {0, 1, 1, 0})
      equals("bernoulli", p:t():flip(1):bernoulli(), dtype, {2, 2}, {1, 0, 0, 1})
      equals("bernoulli", heed.bernoulli(p, 1), dtype, {2, 2}, {1, 1, 1, 1})
    end
    near("the mean of bernoulli", mean(heed.full({2000}, 0.25):bernoulli()), 0.25, 0.06)
    expect(heed.zeros(0, 3):bernoulli():numel() == 0, "bernoulli of nothing")
  end},
  {"multinomial", check = function()
    for _, dtype in ipairs(floats) do
      local w = heed.tensor({{0, 1, 0}, {0, 0, 3}}, {dtype = dtype})
      equals("multinomial", w:multinomial(2, true), "int64", {2, 2}, {2, 2, 3, 3})
      equals("multinomial", w:t():contiguous():t():multinomial(1), "int64", {2, 1}, {2, 3})
      local two = heed.tensor({1, 0, 2}, {dtype = dtype}):multinomial(2):sort()
      equals("multinomial", two, "int64", {2}, {1, 3})
    end
    for _, dtype in ipairs {"int64", "uint8", "bool"} do
      raises("multinomial", heed.multinomial, heed.ones(3, {dtype = dtype}), 1)
    end
    raises("multinomial", heed.multinomial, heed.tensor{1.0, 0.0}, 2)
    near("the mean of multinomial", mean(heed.tensor{1.0, 3.0}:multinomial(2000, true)), 1.75, 0.06)
  end},
  {"dropout", check = function()
    for _, dtype in ipairs(floats) do
      local x = heed.full({20, 50}, 3, {dtype = dtype}):requires_grad_()
      for _, view in ipairs {function(t) return t end, function(t) return t:t() end,
                             function(t) return t[{{1, 20, 2}}] end} do
        x.grad = nil
        heed.manual_seed(5)
        local y = heed.dropout(view(x), 0.25)
        heed.manual_seed(5)
        expect(y:equal(heed.dropout(view(x), 0.25)), "dropout is not repeated by its seed")
        expect(y.dtype == dtype, "dropout gives another type")
        local kept, scale = 0, 1 / 0.75
        for _, v in ipairs(numbers_of(y:detach())) do
          kept = kept + (v ~= 0 and 1 or 0)
          expect(v == 0 or close(v, 3 * scale, 0, 0.05), "dropout gave " .. v)
        end
        near("what dropout keeps", kept / y:numel(), 0.75, 0.08)
        y:sum():backward()
        local g = view(x.grad)
        compare("the gradient of dropout", g * 3, numbers_of(y:detach()), 0.02)
      end
    end
    local x = heed.tensor({{1.0, 2.0}, {3.0, 4.0}})
    equals("dropout of 0", x:dropout(0), "float32", {2, 2}, {1, 2, 3, 4})
    equals("dropout of all", x:dropout(1), "float32", {2, 2}, {0, 0, 0, 0})
    equals("dropout, not training", heed.dropout(x, 0.5, false), "float32", {2, 2}, {1, 2, 3, 4})
    expect(heed.zeros(0, 3):dropout(0.5):numel() == 0, "dropout of nothing")
    for _, dtype in ipairs {"int64", "uint8", "bool"} do
      raises("dropout", heed.dropout, heed.ones(3, {dtype = dtype}), 0.5)
    end
  end, gradient = true},
}

return list
