-- Heed's side of the differential run (differential.py): computes the cases of a folder.
--
--   lua5.4 bench/differential.lua FOLDER
--
-- cases.txt has a line for each: its number, an expression, its inputs as letters with how they are
-- viewed, and which of them have gradients; in.safetensors the inputs and the weights of results.
-- Results and gradients go to out.safetensors, messages to errors.txt.

local heed = require "heed"
local models = dofile((arg[0]:gsub("[^/]*$", "differential_models.lua")))

local folder = assert(arg[1], "a folder expected")
local stored = assert(heed.load(folder .. "/in.safetensors"))
local errors = assert(io.open(folder .. "/errors.txt", "w"))
local answers = {}

-- The inputs of a case in a scope, and the tensors that stand behind them.
local function inputs(number, views, grads)
  local scope, leaves = {heed = heed, math = math, models = models}, {}
  for letter, view in views:gmatch("(%l)(%S*)") do
    local leaf = stored[number .. "." .. letter]
    if grads:find(letter, 1, true) then leaf:requires_grad_() end
    leaves[letter] = leaf
    scope[letter] = assert(load("local t = ... return t" .. view))(leaf)
  end
  return scope, leaves
end

-- The weighted sum of all results that have gradients; nil if none has.
local function total(number, ys)
  local sum
  for i, y in ipairs(ys) do
    local weight = stored[("%s.w%d"):format(number, i - 1)]
    if weight and y.requires_grad then
      local part = (y:to("float64") * weight):sum()
      sum = sum and sum + part or part
    end
  end
  return sum
end

local function compute(number, expression, views, grads)
  local scope, leaves = inputs(number, views, grads)
  local ys = {assert(load("return " .. expression, "case", "t", scope))()}
  local sum = total(number, ys)
  if sum then sum:backward() end
  local answer = {}
  for i, y in ipairs(ys) do answer[("%s.y%d"):format(number, i - 1)] = y:detach() end
  for letter, leaf in pairs(leaves) do
    if grads:find(letter, 1, true) then answer[number .. ".g" .. letter] = leaf.grad end
  end
  for name, t in pairs(answer) do answers[name] = t end
end

for line in io.lines(folder .. "/cases.txt") do
  local number, expression, views, grads = line:match("^(%d+)\t(.-)\t(.-)\t(.*)$")
  local good, why = pcall(compute, number, expression, views, grads)
  if not good then errors:write(number, "\t", (tostring(why):gsub("%s+", " ")), "\n") end
end

errors:close()
assert(heed.save(folder .. "/out.safetensors", answers))
