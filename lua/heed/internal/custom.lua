-- Operations of the user's, and functions that backward runs again.

local core = require "heed.core"
local heed = require "heed.internal.surface"
local options = require "heed.internal.options"
local rng = require "heed.internal.rng"

local fail, is_tensor = heed.fail, heed.is_tensor

local pack, unpack = table.pack, table.unpack


-- custom -----------------------------------------------------------------

-- The tensors among n values: a list, and their positions.
local function tensors_among(values)
  local list, positions = {}, {}
  for i = 1, values.n do
    if is_tensor(values[i]) then
      list[#list + 1] = values[i]
      positions[#positions + 1] = i
    end
  end
  return list, positions
end


local function any_requires_grad(list)
  for _, t in ipairs(list) do
    if t.requires_grad then return true end
  end
  return false
end


local function shares(y, others)
  for _, other in ipairs(others) do
    if core.capture_shares(y, other) then return true end
  end
  return false
end


-- Replaces the results that will have a graph by handles of their own. A result is copied if it
-- shares memory with an input or an earlier result, or is a tensor from outside with a graph: a
-- change in place of one would be missing in the graph of the other.
local function take_floats(results, inputs)
  local list, positions = {}, {}
  for i = 1, results.n do
    local y = results[i]
    if is_tensor(y) and y.dtype:find("float") then
      local own = y:detach()
      if y.requires_grad or shares(y, inputs) or shares(y, list) then own = own:clone() end
      results[i], list[#list + 1] = own, own
      positions[#positions + 1] = i
    end
  end
  return list, positions
end


-- The gradients that a custom backward gave for n arguments, for the tensors among them.
local function of_tensors(positions, n, ...)
  local given, list = pack(...), {}
  for k, i in ipairs(positions) do
    list[k], given[i] = given[i] or false, nil
  end
  for i = 1, given.n do
    if given[i] then
      fail("custom: backward gave a gradient for argument %d, which is no tensor; there are %d "
           .. "arguments", i, n)
    end
  end
  return unpack(list)
end


-- One of custom's two.
local function function_of(read, name)
  if read[name] == nil then
    fail("custom: '%s' is missing; a table with the functions 'forward' and 'backward' expected",
         name)
  end
  return options.callable("custom", name, read[name])
end


---A differentiable function of your own.
---
---`forward(ctx, ...)` gives the results, nothing in it is recorded; `backward(ctx, g, ...)` gets
---the results' gradients (nil for none) and gives one for each argument of forward, nil where
---there is none. `ctx` is a table for what backward needs.
---@param functions {forward: function, backward: function}
---@return function
function heed.custom(functions)
  local read = options.read("custom", functions, {forward = options.any, backward = options.any})
  local forward, backward = function_of(read, "forward"), function_of(read, "backward")
  return function(...)
    local ctx, n = {}, select("#", ...)
    local results = pack(heed.no_grad(forward, ctx, ...))
    local inputs, sources = tensors_among(pack(...))
    if not heed.is_grad_enabled() or not any_requires_grad(inputs) then
      return unpack(results, 1, results.n)
    end
    local outputs, positions = take_floats(results, inputs)
    local nresults = results.n                   -- 'results' hold the node, which holds 'pass_on'
    local function pass_on(...)
      local gs, by_position = {...}, {}
      for k, i in ipairs(positions) do by_position[i] = gs[k] end
      return of_tensors(sources, n, backward(ctx, unpack(by_position, 1, nresults)))
    end
    heed.keep(ctx)
    if #outputs > 0 then core.record(outputs, inputs, pass_on) end
    return unpack(results, 1, results.n)
  end
end


-- The argument x once more, whose gradient is put into found[i]: as a leaf; or, in a pass that is
-- recorded, joined to x, where gradients of gradients go on.
local function catch(x, found, i, recorded)
  local y = x:detach()
  core.record({y}, {recorded and x or x:detach():requires_grad_()}, function(g)
    if found.done then return g else found[i] = g end
  end)
  return y
end


-- Refuses a result that is another one in the second run; g is the gradient of the first.
local function check_recomputed(i, y, g)
  local before = tostring(g.shape)
  if not is_tensor(y) then
    fail("checkpoint: result %d is %s now, was a tensor of shape %s", i, options.kind(y), before)
  elseif y.shape ~= g.shape then
    fail("checkpoint: result %d has the shape %s now, had %s", i, tostring(y.shape), before)
  end
end


local function versions_of(args)
  local versions = {}
  for i = 1, args.n do
    versions[i] = is_tensor(args[i]) and core.version(args[i])
  end
  return versions
end


local function check_unchanged(args, versions)
  for i, now in ipairs(versions_of(args)) do
    if now ~= versions[i] then
      fail("checkpoint: argument %d was changed in place after the call, which is done again with "
           .. "it (version %d, called at %d)", i, now, versions[i])
    end
  end
end


-- One pass through the graphs of all ys, which begins with their gradients, and leaves graphs of
-- those alone.
local function backward_of(ys, gs)
  local root = ys[1]
  for i = 2, #ys do
    local joined = root:detach()
    core.record({joined}, {root, ys[i]}, function(g) return g, gs[i] end)
    root = joined
  end
  root:backward(gs[1])
end


-- Runs f again, with gradients, from the same random numbers; gs are those of its results.
local function recompute(f, args, recorded, gs)
  local inputs, found <const> = {}, {}
  for i = 1, args.n do
    local x = args[i]
    inputs[i] = is_tensor(x) and x.requires_grad and catch(x, found, i, recorded) or x
  end
  local results = pack(f(unpack(inputs, 1, args.n)))
  local ys, seeds = {}, {}
  for i, g in pairs(gs) do
    local y = results[i]
    check_recomputed(i, y, g)
    if y.requires_grad then ys[#ys + 1], seeds[#seeds + 1] = y, g end
  end
  if #ys > 0 then backward_of(ys, seeds) end
  found.done = true
  return found
end


---f(...), without keeping what its gradient needs: backward runs f again.
---@param f function
---@param ... any
---@return any ...
function heed.checkpoint(f, ...)
  options.callable("checkpoint", "f", f)
  if not heed.is_grad_enabled() then return f(...) end
  local args, state = heed.keep(pack(...)), heed.keep(rng.states())
  local versions, mixed = versions_of(args), heed.autocast_dtype() or false
  local run = heed.custom {
    forward = function(_, _, ...) return f(...) end,
    backward = function(_, ...)
      check_unchanged(args, versions)
      local _, found = heed.autocast(mixed, heed.enable_grad, core.with_generators, state,
                                     recompute, f, args, heed.is_grad_enabled(), {...})
      return nil, unpack(found, 1, args.n)
    end,
  }
  return run(heed.zeros({}, {requires_grad = true}), ...)   -- f's own leaves may want gradients
end
