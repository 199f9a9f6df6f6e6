-- A rule for texts, applied to the ids of a tokenizer: which ids may come next, so that the text
-- may still become what it should be. Which they are is kept for each state of the text.

local heed = require "heed"
local options = require "heed.internal.options"
local vocabulary = require "heed.constrain.vocabulary"

---A function for option logits of heed.generate.
---@class heed.Constraint
---@field start heed.constrain.state
---@field tokenizer heed.Tokenizer
---@overload fun(logits: heed.Tensor, ids: integer[]): heed.Tensor
local Constraint = {__name = "heed.Constraint"}
Constraint.__index = Constraint

local MOST <const> = 1000                  -- states whose ids are kept


---Whether a value is a constraint.
---@param value any
---@return boolean
function Constraint.is(value) return rawequal(getmetatable(value), Constraint) end


---@param who string
---@param tokenizer heed.Tokenizer
---@param start heed.constrain.state
---@return heed.Constraint
function Constraint.new(who, tokenizer, start)
  local class = getmetatable(tokenizer)
  if type(class) ~= "table" or rawget(class, "__name") ~= "heed.Tokenizer" then
    heed.fail("%s: a tokenizer expected, got %s", who, options.kind(tokenizer))
  end
  return setmetatable({
    who = who, tokenizer = tokenizer, start = start, tree = false, kept = {}, count = 0,
  }, Constraint)
end


-- The state behind a byte; false where none is.
local function step(state, byte)
  local to = state.next[byte]
  if to == nil and state.step then
    to = state.step(byte)
    state.next[byte] = to
  end
  return to or false
end


-- Adds the ids below a node whose texts may follow in a state, with the states behind them.
local function collect(node, state, found)
  for byte, child in next, node do
    local to = byte ~= "ids" and step(state, byte)
    if to then
      for _, id in ipairs(child.ids or {}) do
        found.ids[#found.ids + 1], found.behind[id] = id, to
      end
      collect(child, to, found)
    end
  end
end


-- The ids that may follow in a state: {ids, behind, masks}.
local function following(self, state)
  local found = self.kept[state]
  if found then return found end
  if not self.tree then self.tree = vocabulary.of(self.tokenizer) end
  found = {ids = {}, behind = {}, masks = {}}
  collect(self.tree, state, found)
  if self.count == MOST then self.kept, self.count = {}, 0 end
  self.kept[state], self.count = found, self.count + 1
  return found
end


---Refuses a constraint for a model whose tokenizer has other tokens. One that cannot be read, or
---that is none, is not compared.
---@param who string
---@param tokenizer any the model's
function Constraint:check_tokenizer(who, tokenizer)
  local same_class = rawequal(getmetatable(tokenizer), getmetatable(self.tokenizer))
  local difference = same_class and vocabulary.difference(self.tokenizer, tokenizer)
  if not difference then return end
  heed.fail("%s: option logits: a constraint for the model's tokenizer expected, got one whose "
            .. "tokenizer has %s; write heed.%s(model.tokenizer, ...)", who, difference, self.who)
end


local function check_ids(who, name, ids)
  if options.is_alive(ids) and ids:dim() == 1 then ids = ids:totable() end
  if type(ids) ~= "table" then
    heed.fail("%s: a list of ids expected as argument '%s', got %s", who, name, options.kind(ids))
  end
  for i, id in ipairs(ids) do
    if math.type(id) ~= "integer" then
      heed.fail("%s: a whole number expected as id %d of argument '%s', got %s", who, i, name,
                options.kind(id))
    end
  end
  return ids
end


-- The state behind ids that were checked; nil where they do not follow the rule.
local function state_behind(self, ids)
  local state = self.start
  for _, id in ipairs(ids) do
    state = following(self, state).behind[id]
    if not state then return nil end
  end
  return state
end


-- Where logits (V) go away: bools, true at the ids that may not come.
local function mask_of(found, ends, V, device)
  local key = V .. device .. table.concat(ends, ",")
  local mask = found.masks[key]
  if not mask then
    local open = {}
    for _, list in ipairs{found.ids, ends} do
      for _, id in ipairs(list) do
        if id <= V then open[#open + 1] = id end
      end
    end
    mask = heed.zeros(V)
    if #open > 0 then mask[heed.tensor(open, {dtype = "int64", device = mask.device})] = 1 end
    mask = heed.keep(mask:eq(0):to(device))
    found.masks[key] = mask
  end
  return mask
end


---Logits of the ids alone that may come next; also those of `ends` where the text is complete.
---@param logits heed.Tensor (V)
---@param ids integer[] what came so far
---@param ends? integer[]
---@return heed.Tensor logits (V)
function Constraint:apply(logits, ids, ends)
  if not heed.is_tensor(logits) or logits:dim() ~= 1 then
    heed.fail("%s: logits of shape (V) expected, got %s", self.who, options.kind(logits))
  end
  if ends ~= nil then check_ids(self.who, "ends", ends) end
  local state = state_behind(self, check_ids(self.who, "ids", ids))
  if not state then heed.fail("%s: the ids so far are not what it lets through", self.who) end
  local found = following(self, state)
  ends = state.complete and ends or {}
  if #found.ids == 0 and #ends == 0 then
    heed.fail("%s: the text is complete; constraint:over(ids) as option stop expected", self.who)
  end
  return logits:masked_fill(mask_of(found, ends, #logits, logits.device), -math.huge)
end


function Constraint:__call(logits, ids) return self:apply(logits, ids) end


---Whether the text is complete, and nothing may follow.
---@param ids integer[]|heed.Tensor from 1; (T)
---@return boolean
function Constraint:over(ids)
  local state = state_behind(self, check_ids("over", "ids", ids))
  return state ~= nil and state.complete == true and #following(self, state).ids == 0
end


-- Ids without the last one, where that adds no text, as one that ends texts.
local function without_end(tokenizer, ids)
  local before = table.move(ids, 1, #ids - 1, 1, {})
  return tokenizer:decode(ids) == tokenizer:decode(before) and before or ids
end


---Whether the text may end here; the id that ends it may stand behind.
---@param ids integer[]|heed.Tensor from 1; (T)
---@return boolean
function Constraint:complete(ids)
  local list = check_ids("complete", "ids", ids)
  local state = state_behind(self, without_end(self.tokenizer, list))
  return state ~= nil and state.complete == true
end


function Constraint:__tostring() return ("heed.Constraint(%s)"):format(self.who) end


options.guard(Constraint, {apply = 3, check_tokenizer = 2, complete = 1, over = 1},
              {is = Constraint.is, what = "a constraint", variable = "constraint"})
options.strict("constraint", Constraint)

return Constraint
