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
  tall = math.min(tall, heads.MOST)
  for k = 1, tall do ink.add(block, (" "):rep(margin) .. line(texts, k, tall, cell), full) end
end


return heads
