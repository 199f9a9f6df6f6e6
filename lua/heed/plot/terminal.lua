-- Draws pictures as text: panels stand beside each other as far as the terminal is wide enough.

local ink = require "heed.plot.ink"

local terminal = {}

local GAP <const> = 3
local MIN_CHART <const> = 30     -- columns below which a chart begins a new line

local painters = {
  chart = require "heed.plot.terminal_chart",
  heat = require "heed.plot.terminal_heat",
}


-- The blocks of a line: the width of a heat map is fixed, and charts share what is left. Where that
-- is too little, each may be as wide as the terminal.
local function blocks_of(panels, in_colour, available)
  local blocks, charts, left = {}, 0, available - GAP * (#panels - 1)
  for k, panel in ipairs(panels) do
    if panel.kind == "chart" then charts = charts + 1
    else
      blocks[k] = painters.heat(panel, in_colour, available)
      left = left - blocks[k].width
    end
  end
  local share = charts > 0 and left // charts or 0
  if share < MIN_CHART then share = available end
  for k, panel in ipairs(panels) do
    blocks[k] = blocks[k] or painters.chart(panel, in_colour, share)
  end
  return blocks
end


-- Gives the blocks of a column one width, if all lines fit then.
local function align(lines, available)
  local widths, full = {}, -GAP
  for _, blocks in ipairs(lines) do
    for c, block in ipairs(blocks) do widths[c] = math.max(widths[c] or 0, block.width) end
  end
  for _, width in ipairs(widths) do full = full + width + GAP end
  if full > available then return end
  for _, blocks in ipairs(lines) do
    for c, block in ipairs(blocks) do ink.widen(block, widths[c]) end
  end
end


-- Blocks beside each other, in as many rows as they need.
local function joined(blocks, available)
  local done, current = {}, nil
  for _, block in ipairs(blocks) do
    if current and current.width + GAP + block.width <= available then
      current = ink.beside(current, block, GAP)
    else
      done[#done + 1] = current
      current = block
    end
  end
  done[#done + 1] = current
  return done
end


---Draws a picture.
---@param picture heed.Plot
---@param in_colour boolean 24-bit colour and braille, or ASCII
---@param available integer columns of the terminal
---@return string
function terminal.draw(picture, in_colour, available)
  local lines, texts = {}, {}
  for l, panels in ipairs(picture.lines) do lines[l] = blocks_of(panels, in_colour, available) end
  align(lines, available)
  if picture.title then
    local title = ink.cut(picture.title, available)
    texts[1] = in_colour and ink.paint("1", title) or title
  end
  for _, blocks in ipairs(lines) do
    for _, block in ipairs(joined(blocks, available)) do
      if #texts > 0 then texts[#texts + 1] = "" end
      for _, line in ipairs(block) do texts[#texts + 1] = (line:gsub(" +$", "")) end
    end
  end
  return table.concat(texts, "\n")
end


return terminal
