-- The lower case of texts, as Python's str.lower() has it: a tokenizer whose tokens are bytes gives
-- back what the normalizer Lowercase made of them.

local heed = require "heed"
local json = require "heed.files.json"
local loading = require "heed.tokenizer.loading"
require "heed.tokenizer"

local SIGMA <const>, FINAL <const> = "\u{3a3}", "\u{3c2}"

local made


-- Characters that stand for bytes, as GPT-2 has them.
local function bytes()
  local ids, more = {}, 256
  for b = 0, 255 do
    local plain = b >= 33 and b <= 126 or b >= 161 and b <= 172 or b >= 174
    ids[utf8.char(plain and b or more)] = b
    if not plain then more = more + 1 end
  end
  return ids
end


local function tokenizer()
  made = made or loading.parse(json.encode{
    normalizer = {type = "Lowercase"},
    pre_tokenizer = {type = "ByteLevel", add_prefix_space = false, use_regex = false},
    decoder = {type = "ByteLevel"},
    model = {type = "BPE", vocab = bytes(), merges = json.array{}},
  }, {})
  return made
end


-- Letters of scripts that have cases, where the Greek ones have neighbours.
local function has_case(c)
  return c and (c >= 0x41 and c <= 0x5a or c >= 0x61 and c <= 0x7a or c >= 0x370 and c <= 0x52f
                or c >= 0xc0 and c <= 0x2af and c ~= 0xd7 and c ~= 0xf7
                or c >= 0x1e00 and c <= 0x1fff or c >= 0xfb00 and c <= 0xfb17)
end


-- Marks and signs within words, which do not count.
local function is_ignored(c)
  return c and (c == 0x27 or c == 0x2e or c == 0x3a or c == 0xad or c == 0xb7 or c == 0x2019
                or c >= 0x2b0 and c <= 0x36f or c == 0x387)
end


-- The first character that counts, from a place on in steps.
local function neighbour(points, i, step)
  repeat i = i + step until not is_ignored(points[i])
  return points[i]
end


-- A text whose capital sigmas at ends of words are those of lower case.
local function with_finals(text)
  if not text:find(SIGMA, 1, true) or not utf8.len(text) then return text end
  local points, parts = {}, {}
  for _, c in utf8.codes(text) do points[#points + 1] = c end
  for i, c in ipairs(points) do
    local ends = c == 0x3a3 and has_case(neighbour(points, i, -1))
                 and not has_case(neighbour(points, i, 1))
    parts[i] = ends and FINAL or utf8.char(c)
  end
  return table.concat(parts)
end


---The lower case of a text.
---@param text string
---@return string
return function(text)
  if not text:find("[\x80-\xff]") then return text:lower() end
  local tok = tokenizer()
  return heed.no_grad(function() return tok:decode(tok:encode(with_finals(text))) end)
end
