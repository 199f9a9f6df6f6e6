-- The table of optimizers (src/op/optimizers.def), row by row: each against its formula in plain
-- Lua, with its defaults and with every option set otherwise.

local core = require "heed.core"
local heed = require "heed"
local layouts = require "spec.support.layouts"
local message = require "spec.support.message"
local nn = require "heed.nn"
local optim = require "heed.optim"

local ROWS <const> = core.optimizers()
local GRADIENTS <const> = {0.5, -0.25, -0.5, 0, 1e-3, -2, 3, 0.125}

local function adam(decoupled)
  return function(o)
    local mean, square, most, step = 0, 0, 0, 0
    return function(p, g)
      step = step + 1
      if decoupled then p = p * (1 - o.lr * o.weight_decay) else g = g + o.weight_decay * p end
      mean = o.betas[1] * mean + (1 - o.betas[1]) * g
      square = o.betas[2] * square + (1 - o.betas[2]) * g * g
      most = o.amsgrad and math.max(most, square) or square
      local root = math.sqrt(most / (1 - o.betas[2] ^ step)) + o.eps
      return p - o.lr * (mean / (1 - o.betas[1] ^ step)) / root
    end
  end
end

-- For each row a function of the options that gives a function of parameter and gradient.
local FORMULAS <const> = {
  Adam = adam(false),
  AdamW = adam(true),
  Lion = function(o)
    local mean = 0
    return function(p, g)
      local along = o.betas[1] * mean + (1 - o.betas[1]) * g
      local sign = along > 0 and 1 or along < 0 and -1 or 0
      mean = o.betas[2] * mean + (1 - o.betas[2]) * g
      return p - o.lr * (sign + o.weight_decay * p)
    end
  end,
  SGD = function(o)
    local buffer
    return function(p, g)
      g = g + o.weight_decay * p
      if o.momentum ~= 0 then
        buffer = buffer and o.momentum * buffer + (1 - o.dampening) * g or g
        g = o.nesterov and g + o.momentum * buffer or buffer
      end
      return p - o.lr * g
    end
  end,
}

-- Another value of each option, with what it needs beside it.
local OTHERS <const> = {
  amsgrad = {amsgrad = true, lr = 0.1}, betas = {betas = {0.5, 0.8}}, lr = {lr = 0.1},
  dampening = {dampening = 0.25, momentum = 0.9, lr = 0.1}, eps = {eps = 0.5, lr = 0.1},
  maximize = {maximize = true}, momentum = {momentum = 0.5, lr = 0.1},
  nesterov = {nesterov = true, momentum = 0.9, lr = 0.1},
  weight_decay = {weight_decay = 0.125, lr = 0.1},
}

-- The row's defaults, but for what was given.
local function filled(row, given)
  local o = {}
  for name, option in pairs(row.options) do o[name] = option.default end
  for name, value in pairs(given) do o[name] = value end
  return o
end

-- Does a line have this number, or these?
local function has_numbers(line, wanted)
  if type(wanted) == "table" then
    return has_numbers(line, wanted[1]) and has_numbers(line, wanted[2])
  end
  for word in line:gmatch("%d[%d.e-]*") do
    if tonumber(word) == wanted then return true end
  end
  return false
end

local function follow(name, row, given, dtype, tolerance)
  local p, wanted, o = nn.Parameter(heed.full({40}, 1.5, {dtype = dtype})), 1.5, filled(row, given)
  local opt, formula = optim[name]({p}, given), FORMULAS[name](o)
  for step, g in ipairs(GRADIENTS) do
    p.grad = heed.full({40}, g, {dtype = dtype})
    opt:step()
    wanted = formula(wanted, o.maximize and -g or g)
    local off = (p:double() - wanted):abs():max():item()
    assert.is_true(off < tolerance,
                   ("%s, %s: %g off at step %d"):format(name, dtype, off, step))
  end
end


describe("a row of the table of optimizers", function()
  it("has a formula in plain Lua, and another value for each of its options", function()
    for name, row in pairs(ROWS) do
      assert.is_function(FORMULAS[name], "no formula here for " .. name)
      for option in pairs(row.options) do
        assert.is_table(OTHERS[option], "no value here for " .. option .. " of " .. name)
      end
    end
  end)

  it("that fills its states begins a state that is wanted later with its whole gradient", function()
    for name, row in pairs(ROWS) do
      if row.fills then
        local p = nn.Parameter(heed.ones(2))
        local opt = optim[name]({p}, {lr = 1, dampening = 0.5})
        for _ = 1, 2 do
          p.grad = heed.ones(2)
          opt:step()
        end
        opt.options.momentum = 0.5
        p.grad = heed.ones(2)
        opt:step()
        assert.same({-2, -2}, p:totable(), name)
      end
    end
  end)

  for name, row in pairs(ROWS) do
    it("follows its formula: " .. name, function()
      layouts.on_each_level(function()
        for dtype, tolerance in pairs{
          float32 = 1e-5, float64 = 1e-12, float16 = 2e-2, bfloat16 = 0.15,
        } do
          follow(name, row, {}, dtype, tolerance)
          for option in pairs(row.options) do
            follow(name, row, OTHERS[option], dtype, tolerance)
          end
        end
      end)
    end)

    it("has as many states as its options ask for: " .. name, function()
      for option in pairs(row.options) do
        local p, needed = nn.Parameter(heed.ones(2)), {"lr", "step"}
        local o, opt = filled(row, OTHERS[option]), optim[name]({p}, OTHERS[option])
        for _, state in ipairs(row.states) do
          local value = state.option == nil or o[state.option]
          if value and value ~= 0 then needed[#needed + 1] = state.name .. ".1" end
        end
        p.grad = heed.ones(2)
        opt:step()
        local names = {}
        for state in pairs(opt:state()) do names[#names + 1] = state end
        table.sort(names)
        table.sort(needed)
        assert.same(needed, names)
      end
    end)

    it("refuses numbers that are out of range: " .. name, function()
      local p = nn.Parameter(heed.ones(2))
      for option, o in pairs(row.options) do
        for _, limit in ipairs{o.least or 0, o.below or 0} do
          local wrong = limit == o.least and limit - 1 or limit
          if type(o.default) == "number" then
            assert.matches("optim." .. name .. ": .* expected as " .. option .. ", got ",
                           message(optim[name], {p}, {[option] = wrong}))
          elseif type(o.default) == "table" then
            assert.matches(option .. "%[2%], got ",
                           message(optim[name], {p}, {[option] = {0.5, wrong}}))
          end
        end
      end
    end)

    it("has its defaults in the reference: " .. name, function()
      local file <close> = assert(io.open("lua/heed/optim/kinds.lua"))
      local text = file:read("a")
      local class = text:match("heed%.(%w+)%.options\n[^\n]*\nfunction kinds%." .. name .. "%(")
      local fields = text:match("@class heed%." .. class .. "%.options\n(.-)\n\n") .. "\n"
      for option, o in pairs(row.options) do
        local line = fields:match("@field " .. option .. "%?([^\n]*)\n")
        assert.is_string(line, "no line for " .. option .. " of " .. name)
        if o.default ~= false then
          assert.is_true(has_numbers(line, o.default), option .. " of " .. name .. ": " .. line)
        end
      end
    end)
  end
end)


describe("a step of", function()
  -- Parameters of the same values: dense, across, and a part of what is wider.
  local function laid(values)
    local wide = heed.zeros(3, 5)
    wide:narrow(2, 2, 2):copy_(values)
    return {values:clone(), values.mT:contiguous().mT, wide:narrow(2, 2, 2)}
  end

  for name in pairs(ROWS) do
    it(name .. " writes parameters where they lie, and marks them changed", function()
      local list, g = laid(heed.randn(3, 2)), heed.randn(3, 2)
      local before = list[1]:clone()
      for _, p in ipairs(list) do
        p:requires_grad_()
        p.grad = g
      end
      local losses = {}
      for i, p in ipairs(list) do losses[i] = p:square():sum() end
      optim[name](list, {lr = 0.25}):step()
      assert.is_false(list[1]:allclose(before, {atol = 1e-3}))
      for i, p in ipairs(list) do
        assert.is_true(p:equal(list[1]), i)
        assert.matches("was changed", message(losses[i].backward, losses[i]))
      end
    end)
  end
end)


describe("a number of a step", function()
  -- One step of Adam with these numbers, by the core alone.
  local function step(numbers, number)
    local p = heed.tensor({1.0}, {requires_grad = true, device = "cpu"})
    p.grad = heed.tensor({1.0}, {device = "cpu"})
    local states = {{heed.zeros({1}, {device = "cpu"})}, {heed.zeros({1}, {device = "cpu"})}}
    core.optim_step{"Adam", {p}, false, states, numbers, number or 1}
    return p:item()
  end

  local inf <const>, nan <const>, least <const> = math.huge, 0 / 0, 5e-324

  it("is finite, and neither below its least nor at what it must be below", function()
    for _, name in ipairs{"lr", "momentum", "weight_decay", "eps"} do
      local wanted = ("argument '%s': a finite number of at least 0 expected, got "):format(name)
      for _, bad in ipairs{-least, -1, inf, -inf, nan} do
        assert.matches(wanted, message(step, {[name] = bad}), 1, true)
      end
      step{[name] = 0}
      step{[name] = 1e300}
    end
    for _, bad in ipairs{inf, -inf, nan} do
      assert.matches("argument 'dampening': a finite number expected, got ",
                     message(step, {dampening = bad}), 1, true)
    end
    step{dampening = -1e300}
    step{dampening = 1e300}
    for i = 1, 2 do
      local wanted = ("argument 'beta%d': a number from 0 to below 1 expected, got "):format(i)
      for _, bad in ipairs{-least, 1, 2, inf, nan} do
        assert.matches(wanted, message(step, {betas = i == 1 and {bad, 0} or {0, bad}}), 1, true)
      end
      step{betas = i == 1 and {1 - 0x1p-53, 0} or {0, 1 - 0x1p-53}}
      step{betas = {0, 0}}
    end
  end)

  it("counts steps from 1", function()
    for _, bad in ipairs{0, -1, math.mininteger} do
      assert.matches("Adam: steps count from 1", message(step, {}, bad), 1, true)
    end
    step({}, math.maxinteger)
  end)
end)
