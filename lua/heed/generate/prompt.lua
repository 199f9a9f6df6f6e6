-- The prompts of heed.generate as lists of ids, and the context that a decoder attends to.

local Cache = require "heed.nn.cache"
local first_parameter = require "heed.nn.first_parameter"
local heed = require "heed"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"

local fail, kind = heed.fail, options.kind

---@class heed.generate.Prompt
---@field rows integer[][]
---@field single boolean whether one prompt was given, not a list of them
---@field device string
---@field context heed.Tensor|false (B, S, dim)
---@field context_lengths heed.Tensor|false (B)
local Prompt = {}
Prompt.__index = Prompt


---The end of a message about a prompt without ids: what to do where a cache has read all of them.
---@param cache any option cache
---@return string
function Prompt.advice(cache)
  local n = Cache.is(cache) and cache:length() or 0
  if n == 0 then return "" end
  return ("; where none follow the %d in the cache: cache:truncate(%d), and the last one again")
         :format(n, n - 1)
end


local function refuse(prompt)
  fail("generate: ids (T) or (B, T), a list of ids or a list of lists expected as prompt, got %s%s",
       options.typed(prompt), type(prompt) == "string"
       and "; model:generate takes texts, of a model of heed.models.load" or "")
end


-- Converts a prompt to nested lists; returns also the device of its first tensor.
local function as_lists(prompt)
  if heed.is_tensor(prompt) then
    if prompt.dtype ~= "int64" or prompt:dim() < 1 or prompt:dim() > 2 then refuse(prompt) end
    return prompt:totable(), prompt.device
  elseif type(prompt) ~= "table" then
    refuse(prompt)
  end
  local lists, device = options.whole("generate: the prompt", prompt), nil
  for i, entry in ipairs(lists) do
    if type(entry) == "table" then
      lists[i] = options.whole(("generate: prompt %d"):format(i), entry)
    elseif heed.is_tensor(entry) then
      lists[i], device = entry:totable(), device or entry.device
    end
  end
  return lists, device
end


local function check_rows(rows)
  for b, row in ipairs(rows) do
    if type(row) ~= "table" then refuse(row) end
    if #row == 0 then fail("generate: at least one id expected in prompt %d, got none", b) end
    for t, id in ipairs(row) do
      row[t] = type(id) == "number" and math.tointeger(id)
        or fail("generate: an id expected at position (%d, %d) of the prompt, got %s", b, t,
                kind(id))
    end
  end
end


-- A whole number for each of B rows, as a list: from `least` to what `most` gives for the row.
local function numbers(name, given, B, least, most)
  local list = type(given) == "table" and options.copied(given)
               or heed.is_tensor(given) and given:totable()
  if type(list) ~= "table" or #list ~= B or type(given) == "table" and options.last(given) > B then
    fail("generate: one length for each of %d prompts expected as option %s, got %s", B, name,
         kind(given))
  end
  if type(given) == "table" then options.check_list("generate: option " .. name, given) end
  for b, n in ipairs(list) do
    list[b] = type(n) == "number" and math.tointeger(n) or -1
    if list[b] < least or list[b] > most(b) then
      fail("generate: option %s: a length from %d to %d expected for prompt %d, got %s", name,
           least, most(b), b, kind(n))
    end
  end
  return list
end


-- Cuts padding off.
local function cut(rows, lengths)
  local function most(b) return #rows[b] end
  for b, n in ipairs(numbers("lengths", lengths, #rows, 1, most)) do
    rows[b] = table.move(rows[b], 1, n, 1, {})
  end
end


-- The device of the model's parameters.
local function device_of(model)
  local first = Module.is(model) and first_parameter(model)
  return first and first.device
end


local function context_of(o, B)
  local context = o.context
  if context == nil then
    if o.context_lengths == nil then return false, false end
    fail("generate: option context expected beside context_lengths")
  end
  if heed.is_tensor(context) and context:dim() == 2 and B == 1 then
    context = context:unsqueeze(1)
  end
  if not heed.is_tensor(context) or context:dim() ~= 3 or #context ~= B then
    fail("generate: a tensor (%d, S, dim) expected as option context, got %s", B, kind(context))
  end
  if o.context_lengths == nil then return context, false end
  local function most() return context:size(2) end
  local lengths = numbers("context_lengths", o.context_lengths, B, 0, most)
  return context, heed.tensor(lengths, {dtype = "int64", device = context.device})
end


---@param model any
---@param given any
---@param o heed.generate.options
---@return heed.generate.Prompt
function Prompt.read(model, given, o)
  local rows, device = as_lists(given)
  if #rows == 0 then
    fail("generate: at least one id expected in the prompt, got none%s", Prompt.advice(o.cache))
  end
  local single = type(rows[1]) == "number"
  if single then rows = {rows} end
  check_rows(rows)
  if o.lengths ~= nil then cut(rows, o.lengths) end
  local context, context_lengths = context_of(o, #rows)
  return setmetatable({
    rows = rows, single = single, context = context, context_lengths = context_lengths,
    device = device_of(model) or device or heed.default_device(),
  }, Prompt)
end


---A list of ids, or of their scores, as a tensor.
---@param ids number[]
---@param dtype? string int64 for ids
---@return heed.Tensor
function Prompt:tensor(ids, dtype)
  return heed.tensor(ids, {dtype = dtype or "int64", device = self.device})
end


---The result of heed.generate from the new ids of each row, or from their scores.
---@param rows number[][]
---@param dtype? string int64 for ids
---@return heed.Tensor|heed.Tensor[]
function Prompt:results(rows, dtype)
  local list = {}
  for b = 1, #self.rows do list[b] = self:tensor(rows[b], dtype) end
  return self.single and list[1] or list
end


return Prompt
