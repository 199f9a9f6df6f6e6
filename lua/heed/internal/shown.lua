-- The texts that print shows of modules, and of tables of memory.

local heed = require "heed.internal.surface"

local shown = {}

local WIDTH <const> = 78


---The names in a table that scripts use, sorted: metamethods are none.
---@param t table
---@return string[]
function shown.public_names(t)
  local names = {}
  for name in pairs(t) do
    if type(name) == "string" and name:find("^%a") then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end


---Words on lines of the usual width.
---@param words string[]
---@param indent string
---@return string
function shown.wrapped(words, indent)
  local lines, line = {}, indent
  for _, word in ipairs(words) do
    if #line + #word > WIDTH and line ~= indent then
      lines[#lines + 1], line = line, indent
    end
    line = line .. (line == indent and "" or " ") .. word
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end


---A module: its name and what it holds.
---@param who string
---@param module table
---@return string
function shown.module(who, module)
  return ('%s\n%s\nheed.help("%s") says more'):format(
    who, shown.wrapped(shown.public_names(module), "  "), (who:gsub("^heed%.", "")))
end


---The whole of heed, with the names of its parts.
---@param parts table<string, any>
---@return string
function shown.heed(parts)
  local functions = 0
  for _, value in pairs(heed) do functions = functions + (type(value) == "function" and 1 or 0) end
  return ("%s: attention and transformers for Lua\n  %d functions, most of them methods of tensors "
          .. "too\n%s\nheed.help() lists all there is")
    :format(heed._VERSION, functions,
            shown.wrapped({"and the modules", table.unpack(shown.public_names(parts))}, "  "))
end


local UNITS <const> = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

---A number of bytes in words.
---@param n integer
---@return string
function shown.bytes(n)
  if n < 1024 then return ("%d byte%s"):format(n, n == 1 and "" or "s") end
  local size, unit = n / 1024, 1
  while size >= 1024 and unit < #UNITS do size, unit = size / 1024, unit + 1 end
  return ("%.1f %s"):format(size, UNITS[unit])
end


local Memory = {__name = "heed.memory"}

function Memory:__tostring()
  local texts = {}
  for _, name in ipairs {"live", "cached", "other", "peak", "limit", "free", "total"} do
    if self[name] then texts[#texts + 1] = name .. " " .. shown.bytes(self[name]) end
  end
  return table.concat(texts, ", ")
end


-- A function like `memory` whose table has a text for print.
local function readable(memory)
  return function(...) return setmetatable(memory(...), Memory) end
end

heed.memory = readable(heed.memory)
heed.cuda.memory = readable(heed.cuda.memory)


return shown
