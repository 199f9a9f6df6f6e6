-- Random uses of objects: a model with what serves it (optimizer, cache, average, scaler and so
-- on), or an object alone, made once; then a dozen calls of its documented methods, with plausible
-- and with odd arguments. A call ends in a result, or in an error of heed's own that has changed
-- nothing.

local calls = require "spec.support.calls"
local check = require "spec.fuzz.check"
local entries = require "heed.help.entries"
local signatures = require "spec.fuzz.signatures"
local using = require "spec.fuzz.using"
local values = require "spec.fuzz.values"

local uses = {}

local FEW <const> = 12                       -- calls of an item


-- Parameters of documented methods, by "cache:append": lists of {name, type}.
local documented = {}
for _, entry in ipairs(entries.all()) do
  if entry.call:find ":" then documented[entry.path] = entry.params end
end

-- The methods of an object of a scene, in an order of their own: those of its class that programs
-- call, and those that the reference names.
local lists = {}

local function methods_of(scene, name)
  local key = scene .. "." .. name
  if lists[key] then return lists[key] end
  local found, object = {}, using.scene(scene)[name]
  for method in pairs(calls.methods(object)) do found[method] = documented[method] or {} end
  for path, params in pairs(documented) do
    local owner, method = path:match("^(.*):(.*)$")
    local own = owner and not calls.SKIPPED[method] and using.has(object, method)
    if own and (found[method] == nil or using.is_of(owner, scene, name)) then
      found[method] = params
    end
  end
  local names = signatures.sorted(found)
  lists[key] = {names = names, params = found}
  return lists[key]
end


-- Options that a method says it has.
local options = {}

local function options_of(scene, name, method)
  local key = scene .. "." .. name .. ":" .. method
  if options[key] then return options[key] end
  local object, list = using.scene(scene)[name], {}
  for _, before in ipairs{{}, {"a"}, {1}, {using.tensor()}, {using.ids()}, {{"a"}}, {"a", {"b"}}} do
    local given = table.pack(table.unpack(before))
    given[#given + 1] = {zzzzzzzz = 1}
    local _, text = pcall(object[method], object, table.unpack(given))
    local names = tostring(text):match("unknown option 'zzzzzzzz'; there are ([%w_, ]+)") or ""
    for option in names:gmatch("[%w_]+") do list[#list + 1] = option end
    if #list > 0 then break end
  end
  options[key] = list
  return list
end


-- Arguments ---------------------------------------------------------------

-- Plausible ones by a parameter's name, else by the first word of its type.
local BY_NAME <const> = {
  ids = {"use.ids()", "{1, 2}", "heed.tensor{2, 1}", "1"},
  list = {'"a b"', '{"a", "b c"}', "{{1, 2}}"},
  text = {'"a b"', '""', '"\\xff"', '{"a", "b"}', '{{"a", "b"}}'}, query = {'"a"'},
  state = {"use.state()", "use.state()", "{}"}, model = {"o.model", "use.own()"},
  layer = {"use.part()", "o.model", "heed.relu"}, module = {"o.model"},
  k = {"heed.randn(2, 2, 2, 4)"}, v = {"heed.randn(2, 2, 2, 4)"}, x = {"use.tensor()"},
  context = {"use.tensor()", "{k = heed.randn(2, 2, 2, 4), v = heed.randn(2, 2, 2, 4)}"},
  lengths = {"heed.tensor{1, 2}"}, keys = {'{"a", "c"}', "5", "heed.ones(2, 2):to('bool')"},
  vectors = {"heed.randn(2, 2)", "heed.randn(2)"}, opt = {"o.optimizer"},
  loss = {"use.tensor():sum()", "heed.tensor(2.0)"}, key = {'"a"', "1"},
  prompt = {'"a b"', "{1, 2}", "use.ids()"}, source = {"use.ids()"}, target = {"use.ids()"},
  pixels = {"heed.rand(1, 3, 8, 8)"}, path = {'"/nowhere/x"'}, type = {'"q8_0"', '"q4_0"'},
  name = {'"a"'}, token = {'"a"'}, messages = {'{{role = "user", content = "a"}}'},
  a = {"heed.randn(2, 3)"}, b = {"heed.randn(2, 3)"}, yes = {"true"}, value = {"0.5", "1"},
}
local BY_TYPE <const> = {
  integer = {"1", "2", "3", "0"}, number = {"0.5", "1", "2"}, boolean = {"true", "false"},
  string = {'"a"', '"float64"', '"cpu"'}, table = {"{}", "use.state()"},
  ["heed.Tensor"] = {"use.tensor()", "use.ids()", "heed.randn(2, 2)"}, any = {"1", "nil"},
}
-- Options that say how long a call takes stay small.
local SMALL <const> = {
  max = true, beams = true, width = true, batch = true, n = true, min = true, lookup = true,
  draft = true, columns = true,
}
local FOREIGN <const> = {
  "use.trap(false)", "use.trap(true)", "use.any()", "use.any()", "use.own()", "use.half()",
  "use.twice()", "use.released()", "use.far()",
}

-- Values without effects of their own: what a function among the arguments changes is its caller's,
-- and a yield would end the item.
local EFFECTS <const> = {"_%(", "release%(%)", "backward", "yield", "error%(%)", "error%({",
                         "^error"}

local function has_effects(text)
  for _, pattern in ipairs(EFFECTS) do
    if text:find(pattern) then return true end
  end
end

local function nasty(r)
  local text
  repeat text = r:chance(0.35) and r:pick(FOREIGN) or values.nasty(r) until not has_effects(text)
  return text
end

local function plausible(r, param)
  local list = BY_NAME[param.name] or BY_TYPE[param.type:match("^[%w_.]+") or ""]
  if not list and param.type:find "^fun" then return "function(...) return ... end" end
  return list and r:pick(list) or "use.tensor()"
end

local function table_of(r, names)
  local parts = {}
  for _ = 1, r:integer(1, 3) do
    local name = r:pick(names)
    local value = SMALL[name] and r:pick{"1", "2", "3"}
                  or r:chance(0.4) and r:pick{"1", "true", "0.5", '"a"', "{}", "use.ids()"}
                  or nasty(r)
    parts[#parts + 1] = ("[%q] = %s"):format(name, value)
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function arguments_of(r, scene, name, method, params)
  local list, odd = {}, r:chance(0.55)
  for i, param in ipairs(params) do
    if param.optional and r:chance(0.4) then break end
    local names = param.name == "options" and options_of(scene, name, method) or {}
    if #names > 0 and r:chance(0.9) then list[i] = table_of(r, names)
    elseif odd and r:chance(0.5) then list[i] = nasty(r)
    else list[i] = plausible(r, param) end
  end
  if odd and r:chance(#list == 0 and 0.6 or 0.15) then list[#list + 1] = nasty(r) end
  if #list > 1 and r:chance(0.1) then list[2] = list[1] end      -- the same object twice
  if method == "generate" then
    list[1] = list[1] or '"a"'
    local names = options_of(scene, name, method)
    list[2] = #names > 0 and table_of(r, names):gsub("^{", "{max = 2, ") or "{max = 2}"
  end
  return list
end


-- Items -------------------------------------------------------------------

local CALL <const> = 'use("%s", "%s", call, function() return %s end)'

local HEAD <const> = [[
local heed = require "heed"
local use = require("spec.fuzz.using").start(%q, %d)
local o = use.objects
local function call(f, ...)
  local y, z = f(...)
  return y, z
end
]]


---Uses objects.
---@return string family
---@return string source
---@return string? why what is wrong
function uses.run(r, announce)
  local scene = r:pick(using.names)
  local names = signatures.sorted(using.scene(scene))
  local lines = {HEAD:format(scene, r:integer(0, 99))}
  for _ = 1, FEW do
    local name = r:pick(names)
    local known = methods_of(scene, name)
    if #known.names > 0 then
      local method = r:pick(known.names)
      local list = arguments_of(r, scene, name, method, known.params[method])
      lines[#lines + 1] = CALL:format(name, method, table.concat(list, ", "))
    end
  end
  lines[#lines + 1] = "return use.wrong()"
  local source = table.concat(lines, "\n")
  announce(source)
  return "uses", source, check.run(source, true)
end

return uses
