-- What heed's sides of the comparison share (heed_side.lua, cuda_ops.lua). A side says what it is,
-- then answers line by line:
--
--   make <tab> INPUTS <tab> EXPRESSION <tab> FILE    prepares a row, and writes what comes out
--   time                                             the seconds of one call of that row
--
-- Inputs are words: 4x4 is a tensor, 4x4* one that requires a gradient, 256:10 are 256 ids from 1
-- to 10; a word that begins with a letter names a factory of the side, name:4x4 passes it sizes; a
-- factory may return nothing and set something. Every side has adam:NxRxC and adam_fused:NxRxC: a
-- step for N parameters of R by C. The expression sees the inputs as a, b, c, d. Both sides draw on
-- the CPU after the same seed, which gives the same numbers: heed's are PyTorch's.

local heed = require "heed"

local SEED = 7
local LOOP = 0.02               -- seconds that a sample's loop lasts at least

local scope = {}                -- what expressions see
for name, value in pairs(heed) do scope[name] = value end


-- The numbers in a word, as a list.
local function sizes(word)
  local list = {}
  for n in word:gmatch("%d+") do list[#list + 1] = tonumber(n) end
  return list
end

local shared = {}               -- factories of every side

function shared.adam(side, size)
  local n, rows, columns = table.unpack(size)
  local xs = {}
  for i = 1, n do
    xs[i] = side.place(heed.randn(rows, columns)):requires_grad_()
    xs[i].grad = side.place(heed.randn(rows, columns))
  end
  local opt = heed.optim.Adam(xs, {lr = 0.1})
  return function()
    opt:step()
    return xs
  end
end

shared.adam_fused = shared.adam

local function input(side, word)
  local name, rest = word:match("^(%a[%w_]*):?(.*)")
  if shared[name] then return shared[name](side, sizes(rest)) end
  if name then return side.factories[name](sizes(rest)) end
  local size, ids = sizes(word:gsub(":.*", "")), word:match(":(%d+)")
  if ids then return side.place(heed.randint(tonumber(ids), size)) end
  local x = side.place(heed.randn(size))
  return word:find("*", 1, true) and x:requires_grad_() or x
end

local function write(path, result)
  local file <close> = assert(io.open(path, "wb"))
  for _, t in ipairs(heed.is_tensor(result) and {result} or result) do
    assert(file:write(t:to("float32"):cpu():data()))
  end
end


local current                   -- the function of the row that was made last
local calls                     -- in one sample of it

local answers = {}

function answers.make(side, words, expression, path)
  local inputs = {}
  current = nil
  collectgarbage()
  heed.manual_seed(SEED)
  for word in words:gmatch("%S+") do inputs[#inputs + 1] = input(side, word) end
  local code = "local a, b, c, d = ... return function() return " .. expression .. " end"
  current = assert(load(code, expression, "t", scope))(table.unpack(inputs))
  write(path, (current()))
  calls = 1
  while side.seconds(current, calls) < LOOP do calls = 2 * calls end
  return "made"
end

function answers.time(side)
  current()                     -- the caches hold what the other side did
  return ("%.9g"):format(side.seconds(current, calls) / calls)
end


---Answers until its input ends.
---@param side table `name`; `factories`, functions by name; `place`, which moves a tensor to the
---side's device; `seconds(f, n)`, which times n calls of f
return function(side)
  heed.threads(tonumber(arg[1]))
  print(side.name)
  io.flush()
  for line in io.lines() do
    local word, one, two, three = line:match("^(%a+)\t?([^\t]*)\t?([^\t]*)\t?([^\t]*)$")
    local good, answer = pcall(answers[word], side, one, two, three)
    print((good and "" or "error: ") .. tostring(answer):gsub("\n", " "))
    io.flush()
  end
end
