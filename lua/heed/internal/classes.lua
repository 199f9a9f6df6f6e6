-- The fields of classes as data, read from the comments of heed's files: heed.help prints those of
-- options, which are `---@class heed.Cache.options` and its fields.

local classes = {}


---@class heed.classes.field
---@field name string
---@field optional boolean
---@field type string the type, then what it means, on one line

local function field_of(rest)
  local name, optional, type = rest:match("^([%w_]+)([?]?)%s+(.*)$")
  return name and {name = name, optional = optional == "?", type = type}
end


---Notes the classes of a file.
---@param known table<string, {base: string?, fields: heed.classes.field[]}>
---@param text string
function classes.read(known, text)
  local class, field
  for line in text:gmatch("[^\n]*") do
    local kind, rest = line:match("^%-%-%-@(%l+)%s*(.*)$")
    local more = not kind and line:match("^%-%-%-(.*)$")
    if kind == "class" then
      local name = rest:match("^[%w_%.]+")
      class, field = {base = rest:match("^[%w_%.]+: ([%w_%.]+)"), fields = {}}, nil
      known[name] = class
    elseif kind == "field" and class then
      field = field_of(rest)
      table.insert(class.fields, field)
    elseif more and field then field.type = field.type .. " " .. more
    elseif kind then field = nil
    else class, field = nil, nil end
  end
end


---The fields of the class that a type begins with, and those that it inherits.
---@param known table
---@param type string as of a parameter: "heed.Cache.options", "heed.Tensor|any[]"
---@return heed.classes.field[]
function classes.fields(known, type)
  local list, seen = {}, {}
  local function add(class)
    for _, field in ipairs(class and class.fields or {}) do
      if not seen[field.name] then list[#list + 1] = field end
      seen[field.name] = true
    end
    if class and class.base then add(known[class.base]) end
  end
  for name in (type:match("^%S*") or ""):gmatch("[%w_%.]+") do
    if name:find("options$") or name:find("%.%l[%w_]*$") then add(known[name]) end
  end
  return list
end


return classes
