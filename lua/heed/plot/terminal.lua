-- Draws pictures as text: panels stand beside each other as far as the terminal is wide enough.

local ink = require "heed.plot.ink"

local terminal = {}

local GAP = 3
local MIN_CURVE = 30     -- columns below which a curve begins a new line

local painters = {
  curve = require "heed.plot.terminal_curve",
  heat = require "heed.plot.terminal_heat",
}


-- Draws a panel as a block into the columns that are left; nil if it needs more. The width of a
-- heat map is fixed, a curve adapts to the columns.
local function block_for(panel, in_colour, available, left)
  if panel.kind == "curve" then
    return left >= MIN_CURVE and painters.curve(panel, in_colour, left) or nil
  end
  local block = painters[panel.kind](panel, in_colour, available)
  return block.width <= left and block or nil
end


local function block_rows(panels, in_colour, available)
  local done, current = {}, nil
  for _, panel in ipairs(panels) do
    local left = current and available - current.width - GAP
    local block = current and block_for(panel, in_colour, available, left)
    if block then
      current = ink.beside(current, block, GAP)
    else
      done[#done + 1] = current
      current = painters[panel.kind](panel, in_colour, available)
    end
  end
  done[#done + 1] = current
  return done
end


---Draws a picture.
---@param picture table
---@param in_colour boolean 24-bit colour and braille, or ASCII
---@param available integer columns of the terminal
---@return string
function terminal.draw(picture, in_colour, available)
  local lines = {}
  for b, block in ipairs(block_rows(picture.panels or {picture}, in_colour, available)) do
    if b > 1 then lines[#lines + 1] = "" end
    for _, line in ipairs(block) do lines[#lines + 1] = (line:gsub(" +$", "")) end
  end
  return table.concat(lines, "\n")
end


return terminal
