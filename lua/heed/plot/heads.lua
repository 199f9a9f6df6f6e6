-- Labels of cells of a terminal: on one line where they fit, downwards where they don't.

local ink = require "heed.plot.ink"

local width = ink.width

local heads = {}

---How many letters of a label are shown.
heads.MOST = 12


-- Line k of labels that run downwards and end on line `tall`.
local function line(texts, k, tall, cell)
  local letters = {}
  for j, text in ipairs(texts) do
    letters[j] = ink.centre(ink.letter(text, k - tall + math.min(tall, width(text))), cell)
  end
  return table.concat(letters)
end


---The labels by their first letters; by their last ones where the first do not tell them apart.
---@param texts string[]
---@param most integer how many letters of each
---@return string[]
function heads.shortened(texts, most)
  local starts, seen, same = {}, {}, false
  for j, text in ipairs(texts) do
    starts[j] = width(text) > most and text:sub(1, utf8.offset(text, most + 1) - 1) or text
    same = same or seen[starts[j]] and seen[starts[j]] ~= text
    seen[starts[j]] = text
  end
  if not same then return starts end
  local ends = {}
  for j, text in ipairs(texts) do
    ends[j] = width(text) > most and "~" .. text:sub(utf8.offset(text, 1 - most)) or text
  end
  return ends
end


---Adds labels to a block.
---@param block table
---@param texts string[]
---@param cell integer columns of each
---@param margin integer columns before the first one
function heads.add(block, texts, cell, margin)
  local tall, full = ink.longest(texts), margin + #texts * cell
  if tall < cell then
    local centred = {}
    for j, text in ipairs(texts) do centred[j] = ink.centre(text, cell) end
    return ink.add(block, (" "):rep(margin) .. table.concat(centred), full)
  end
  texts, tall = heads.shortened(texts, heads.MOST), math.min(tall, heads.MOST)
  for k = 1, tall do ink.add(block, (" "):rep(margin) .. line(texts, k, tall, cell), full) end
end


return heads
