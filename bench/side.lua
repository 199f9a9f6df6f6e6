-- Code that heed's sides of the comparison share (heed_side.lua, cuda_ops.lua). A side prints its
-- name and version, then answers line by line:
--
--   make <tab> INPUTS <tab> EXPRESSION <tab> FILE [<tab> CHECK]
--                    prepares a row, and writes what comes out; of CHECK, where there is one,
--                    since what is drawn at random can't be compared
--   time             the seconds of one call of that row, over a window of many
--   calls <tab> N    calls it so often
--   once <tab> INPUTS <tab> EXPRESSION
--                    the seconds of a row's first call
--
-- Inputs are words: 4x4 is a tensor, 4x4* one that requires a gradient, 256:10 are 256 ids from 1
-- to 10; a word that begins with a letter names a factory of the side, name:4x4 passes it sizes; a
-- factory may return nothing and set something. Every side has adam:NxRxC and adam_fused:NxRxC: a
-- step for N parameters of R by C; and bfloat16, float16: the type of the tensors that follow. The
-- expression sees the inputs as a, b, c, d, e. Both sides draw on the CPU after the same seed,
-- which gives the same numbers: heed's are PyTorch's.

local heed = require "heed"

local SEED = 7
local WINDOW = 0.02             -- seconds that are timed at once at least, if a side has no other
local LONG = 0.05               -- seconds of a call that no longer depends on the caches

local scope = {}                -- names that expressions see
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

function shared.bfloat16(side) side.dtype = "bfloat16" end

function shared.float16(side) side.dtype = "float16" end


local function input(side, word)
  local name, rest = word:match("^(%a[%w_]*):?(.*)")
  if name and side.factories[name] then return side.factories[name](sizes(rest)) end
  if name then return shared[name](side, sizes(rest)) end
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
local calls                     -- in one window of it
local warm                      -- before one

-- The functions that compute the expressions, of the same inputs.
local function prepare(side, words, ...)
  local inputs, functions = {}, {}
  current = nil
  collectgarbage()
  heed.manual_seed(SEED)
  side.dtype = "float32"
  for word in words:gmatch("%S+") do inputs[#inputs + 1] = input(side, word) end
  for i, expression in ipairs{...} do
    local code = "local a, b, c, d, e = ... return function() return " .. expression .. " end"
    functions[i] = assert(load(code, expression, "t", scope))(table.unpack(inputs))
  end
  return table.unpack(functions)
end


local answers = {}

function answers.make(side, words, expression, path, check)
  local checked
  current, checked = prepare(side, words, expression, check)
  write(path, ((checked or current)()))
  local window = side.window or WINDOW
  calls = 1
  local seconds = side.seconds(current, calls)
  while seconds < window do
    calls = math.max(2 * calls, math.ceil(math.min(16 * calls, calls * window / seconds)))
    seconds = side.seconds(current, calls)
  end
  warm = seconds / calls > LONG and 0 or calls // 8 + 1
  return "made"
end


function answers.time(side)
  for _ = 1, warm do current() end      -- the caches hold the other side's data
  return ("%.9g"):format(side.seconds(current, calls) / calls)
end


function answers.calls(_, n)
  for _ = 1, tonumber(n) do current() end
  return "called"
end


function answers.once(side, words, expression)
  current = prepare(side, words, expression)
  return ("%.9g"):format(side.seconds(current, 1))
end


---Answers until its input ends.
---@param side table `name`; `factories`, functions by name; `place`, which moves a tensor to the
---side's device; `seconds(f, n)`, which times n calls of f; `window`, the seconds of a sample
return function(side)
  heed.threads(tonumber(arg[1]))
  print(side.name)
  io.flush()
  for line in io.lines() do
    local words = {}
    for word in line:gmatch("[^\t]+") do words[#words + 1] = word end
    local good, answer = pcall(answers[words[1]], side, table.unpack(words, 2))
    print((good and "" or "error: ") .. tostring(answer):gsub("\n", " "))
    io.flush()
  end
end
