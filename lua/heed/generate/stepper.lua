-- Calls a model for the logits of the next id, with a cache of keys and values or without.

local Cache = require "heed.nn.cache"
local heed = require "heed"
local options = require "heed.internal.options"

local fail, kind = heed.fail, options.kind

---@class heed.generate.Stepper
---@field rows integer[][] all ids, where there is no cache
local Stepper = {}
Stepper.__index = Stepper


local function cache_of(cache)
  if cache == false then return false end
  if cache == nil or cache == true then return Cache() end
  if type(cache) == "table" and cache.reorder then return cache end
  fail("generate: a boolean or an nn.Cache expected as option cache, got %s", kind(cache))
end


---@param model function
---@param prompt heed.generate.Prompt
---@param o heed.generate.options
---@param copies integer how many rows each prompt has
---@return heed.generate.Stepper
function Stepper.new(model, prompt, o, copies)
  local function copied(t) return t and (copies == 1 and t or t:repeat_interleave(copies, 1)) end
  return setmetatable({
    model = model, prompt = prompt, cache = cache_of(o.cache), rows = false,
    context = copied(prompt.context), context_lengths = copied(prompt.context_lengths),
  }, Stepper)
end


-- Calls the model, without an empty table of options: a plain function may take ids alone.
local function call(self, ids, lengths)
  local o = {
    cache = self.cache or nil, context_lengths = self.context_lengths or nil, lengths = lengths,
  }
  if self.context then return self.model(ids, self.context, o) end
  if next(o) == nil then return self.model(ids) end
  return self.model(ids, o)
end


local function checked(logits, ids)
  if heed.is_tensor(logits) and logits:dim() == 3 and logits.dtype:find("float")
     and logits:size(1) == ids:size(1) and logits:size(2) == ids:size(2) then
    return logits
  end
  fail("generate: logits (%d, %d, V) expected from the model, got %s", ids:size(1), ids:size(2),
       kind(logits))
end


-- The logits behind the last id of each row, (R, V); rows are padded on the right.
local function last_logits(self, rows)
  local ids, lengths = heed.pad(rows)
  ids, lengths = ids:to(self.prompt.device), lengths:to(self.prompt.device)
  local T = ids:size(2)
  local equal = lengths:min():item() == T
  local logits = checked(call(self, ids, not equal and lengths or nil), ids)
  if equal then return logits:select(2, T) end
  return logits[{heed.arange(#ids, {device = ids.device}), lengths}]
end


---The logits behind prompts.
---@param rows integer[][]
---@return heed.Tensor logits (R, V)
function Stepper:begin(rows)
  local logits = last_logits(self, rows)
  if self.cache and self.cache:length() == 0 then
    fail("generate: a model that passes its cache on to its layers expected, the cache is empty; "
         .. "or cache = false, which computes everything for each id")
  end
  self.rows = not self.cache and rows
  return logits
end


local function extended(rows, ids)
  local longer = {}
  for r, row in ipairs(rows) do
    longer[r] = table.move(row, 1, #row, 1, {})
    longer[r][#row + 1] = ids[r]
  end
  return longer
end


---The logits behind one more id for each row.
---@param ids integer[]
---@return heed.Tensor logits (R, V)
function Stepper:step(ids)
  if not self.cache then
    self.rows = extended(self.rows, ids)
    return last_logits(self, self.rows)
  end
  local t = self.prompt:tensor(ids):unsqueeze(2)
  return checked(call(self, t), t):select(2, 1)
end


---Replaces each row by a copy of another row, its parent.
---@param parents integer[]
function Stepper:reorder(parents)
  if self.cache then return self.cache:reorder(self.prompt:tensor(parents)) end
  local rows = {}
  for r, parent in ipairs(parents) do rows[r] = self.rows[parent] end
  self.rows = rows
end


return Stepper
