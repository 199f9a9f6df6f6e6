-- The texts of all tokens of a tokenizer, as a tree whose branches are bytes: what a token adds to
-- a text that stands before it.

local heed = require "heed"
local options = require "heed.internal.options"

local vocabulary = {}

---@class heed.constrain.node
---@field ids? integer[] the tokens that end here
---@field [integer] heed.constrain.node by the next byte

local known = setmetatable({}, {__mode = "k"})


-- Some token whose text other tokens are decoded behind: a decoder may drop a blank in front.
local function anchor_of(tok)
  for _, letter in ipairs{"a", "e", "the", "1"} do
    local ids = tok:encode(letter, {special = false})
    if #ids > 0 and tok:decode(ids) ~= "" then return ids:totable() end
  end
  heed.fail("constrain: a tokenizer that knows the letter a expected")
end


local function add(node, text, id)
  for k = 1, #text do
    local byte = text:byte(k)
    node[byte] = node[byte] or {}
    node = node[byte]
  end
  node.ids = node.ids or {}
  table.insert(node.ids, id)
end


local function read(tok)
  local root, anchor = {}, anchor_of(tok)
  local before, last = tok:decode(anchor), #anchor + 1
  for id = 1, #tok do
    if tok:token(id) then
      anchor[last] = id
      local text = tok:decode(anchor)
      if #text > #before and text:sub(1, #before) == before then
        add(root, text:sub(#before + 1), id)
      end
    end
  end
  return root
end


-- Pairs of tokenizers whose tokens are the same.
local same = setmetatable({}, {__mode = "k"})


---How the tokens of two tokenizers differ; nil where each id has the same token in both, as where
---a directory was read twice. Equal ones are compared once.
---@param one heed.Tokenizer
---@param other heed.Tokenizer
---@return string? difference "300 tokens, not 400"
function vocabulary.difference(one, other)
  if rawequal(one, other) or same[one] and same[one][other] then return nil end
  if #one ~= #other then return ("%d tokens, not %d"):format(#one, #other) end
  for id = 1, #one do
    local a, b = one:token(id), other:token(id)
    if a ~= b then
      return ("%s as token %d, not %s"):format(options.kind(a), id, options.kind(b))
    end
  end
  same[one] = same[one] or setmetatable({}, {__mode = "k"})
  same[one][other] = true
end


---The tree of a tokenizer, made once.
---@param tok heed.Tokenizer
---@return heed.constrain.node
function vocabulary.of(tok)
  local root = known[tok]
  if not root then
    root = read(tok)
    known[tok] = root
  end
  return root
end


return vocabulary
