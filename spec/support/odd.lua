-- Values of all sorts, for arguments and fields that expect something else; and errors that are
-- Lua's own.

local assert = require "luassert"
local calls = require "spec.support.calls"
local heed = require "heed"
local nn, data = heed.nn, heed.data

local odd = {}

local COUNT <const> = 25

---Such values, `n` of them; nil is the first.
odd.values = {
  n = COUNT,
  nil, true, false, 0, -1, 1.5, 0 / 0, "x", "", {}, {1}, {{}}, {"a"}, {x = 1}, function() end,
  calls.tensor(), heed.tensor{1, 2}, nn.Linear(2, 2), coroutine.create(print), io.stdout,
  heed.mask.causal, nn.Cache(), data.chars("abc"), setmetatable({}, {}), 4,
}

---The same as texts.
---@type string[]
odd.texts = {}
for i = 1, COUNT do odd.texts[i] = tostring(odd.values[i]):match("^[^\n]*") end


---Lua's own error within a file of heed's, or nil. An error of the Lua half names another line.
---@param text any what pcall gave
---@return string?
function odd.raw(text)
  text = tostring(text)
  return text:match("lua/heed/[%w_/]+%.lua:%d+:.*")
         or (text:find("attempt to", 1, true) or text:find("bad argument #", 1, true)) and text
         or nil
end


local tried = 0

---Calls a function, whose error is none of Lua's own.
---@param what string
---@param f function
---@return boolean whether there was no error
function odd.none_raw(what, f, ...)
  tried = tried + 1
  local good, text = pcall(f, ...)
  local found = not good and odd.raw(text)
  if found then assert.is_nil(found, what) end           -- a call of it takes longer than f
  return good
end


---At least so many calls were made since this was asked last.
---@param least integer
function odd.assert_tried(least)
  local n = tried
  tried = 0
  assert.is_true(n >= least, ("%d calls, at least %d expected"):format(n, least))
end


return odd
