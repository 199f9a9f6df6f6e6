-- The colours of pictures: viridis for heat maps, as it is perceptually uniform, and five for
-- lines.

local colour = {}

-- viridis (Smith and van der Walt, matplotlib) at nine equal steps.
local points = {
  {68, 1, 84}, {71, 44, 122}, {59, 81, 139}, {44, 113, 142}, {33, 144, 141},
  {39, 173, 129}, {92, 200, 99}, {170, 220, 50}, {253, 231, 37},
}

---Marked text, and the colours of lines, in order.
colour.red = {214, 29, 50}
colour.lines = {
  {58, 110, 196}, {221, 110, 60}, {44, 152, 128}, {178, 80, 160}, {196, 154, 40},
}


---The colour of a number from 0 to 1.
---@param t number
---@return integer[] red, green and blue up to 255
function colour.at(t)
  local position = 1 + t * (#points - 1)
  local i = math.min(math.floor(position), #points - 1)
  local a, b, part = points[i], points[i + 1], position - i
  local rgb = {}
  for c = 1, 3 do rgb[c] = math.floor(a[c] + (b[c] - a[c]) * part + 0.5) end
  return rgb
end


---Whether text on this colour should be dark.
---@param rgb integer[]
---@return boolean
function colour.is_light(rgb)
  return 0.299 * rgb[1] + 0.587 * rgb[2] + 0.114 * rgb[3] > 145
end


---@param rgb integer[]
---@return string such as "#440154"
function colour.hex(rgb)
  return ("#%02x%02x%02x"):format(rgb[1], rgb[2], rgb[3])
end


---Calls f with each control point's position, from 0 to 1, and its colour.
---@param f fun(t: number, rgb: integer[])
function colour.each(f)
  for i, rgb in ipairs(points) do f((i - 1) / (#points - 1), rgb) end
end


return colour
