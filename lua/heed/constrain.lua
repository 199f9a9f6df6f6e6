-- heed.constrain: what a model may write: functions for option logits of heed.generate, which leave
-- only the ids whose texts go on as they should.
--
--   local json = heed.constrain.json(model.tokenizer, {object = true})
--   print(model:generate("A record: ", {logits = json}))

local Constraint = require "heed.constrain.constraint"
local heed = require "heed"
local json = require "heed.constrain.json"
local options = require "heed.internal.options"

local M = {}


-- The texts of a list as a tree of states, whose branches are bytes; a blank may stand in front.
local function tree_of(texts)
  local start = {next = {}}
  for i = 1, options.last(texts) do
    local text = rawget(texts, i)
    if type(text) ~= "string" or text == "" then
      heed.fail("constrain.answers: a text expected as answer %d, got %s", i, options.kind(text))
    end
    for _, whole in ipairs{text, " " .. text} do
      local state = start
      for k = 1, #whole do
        local byte = whole:byte(k)
        state.next[byte] = state.next[byte] or {next = {}}
        state = state.next[byte]
      end
      state.complete = true
    end
  end
  return start
end


---One of some texts and nothing else; a blank may stand in front of it, as many tokenizers have it.
---@param tokenizer heed.Tokenizer
---@param texts string[]
---@return heed.Constraint
function M.answers(tokenizer, texts, ...)
  options.no_more("constrain.answers", 2, ...)
  if type(texts) ~= "table" or next(texts) == nil then
    heed.fail("constrain.answers: a list of texts expected, got %s", options.kind(texts))
  end
  options.check_list("constrain.answers", texts)
  return Constraint.new("constrain.answers", tokenizer, tree_of(texts))
end


---@class heed.constrain.json.options
---@field object? boolean whether it is an object; false unless given

---A value of JSON and nothing else: what `json.loads` of Python reads. Blanks between its parts are
---at most 16, and lists and objects stand at most 32 deep.
---@param tokenizer heed.Tokenizer
---@param given? heed.constrain.json.options
---@return heed.Constraint
function M.json(tokenizer, given, ...)
  options.no_more("constrain.json", 2, ...)
  local o = options.read("constrain.json", given, {object = false})
  return Constraint.new("constrain.json", tokenizer, json.start(o.object))
end


return options.strict("heed.constrain", M)
