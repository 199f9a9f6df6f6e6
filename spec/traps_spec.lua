-- A script's value whose metamethods note what they are handed, in the place of every argument:
-- none is handed a table or a function of the library's.

local calls = require "spec.support.calls"
local heed = require "heed"
local inside = require "spec.support.inside"
local substitute = require "spec.support.substitute"

local OPERATORS <const> = {
  "__add", "__band", "__bnot", "__bor", "__bxor", "__call", "__close", "__concat", "__div", "__eq",
  "__idiv", "__index", "__le", "__len", "__lt", "__mod", "__mul", "__newindex", "__pairs", "__pow",
  "__shl", "__shr", "__sub", "__tostring", "__unm",
}
local TRUTHS <const> = {__eq = true, __le = true, __lt = true}
local OFTEN <const> = 6                      -- how often a trap gives something, so that loops end

local what, found                            -- the call that is made, and what traps were handed


local function note(event, ...)
  for i = 1, select("#", ...) do
    local way = inside.way((select(i, ...)))
    if way then found[("%s: %s is handed %s"):format(what, event, way)] = true end
  end
end


-- The result of a trap's metamethod, after it noted its arguments; a generous trap gives itself.
local function answer(trap, event)
  trap.left = trap.left - 1
  if TRUTHS[event] then return trap.left > 0 end
  if event == "__len" then return 2 end
  if event == "__tostring" or event == "__concat" then return "trap" end
  if event == "__pairs" then return next, {} end
  return trap.generous and trap.left > 0 and trap.value or nil
end


-- Makes a value a trap; its metatable is one, too, as getmetatable gives it.
local function set_trap(value, generous)
  local trap, class = {value = value, generous = generous, left = OFTEN}, {__name = "trap"}
  for _, event in ipairs(OPERATORS) do
    class[event] = function(...)
      note(event, ...)
      return answer(trap, event)
    end
  end
  class.__metatable = setmetatable({}, {__eq = class.__eq, __index = class.__index})
  return debug.setmetatable(value, class)
end


-- A module of a script's own class, which has these metamethods.
local function module()
  local class = heed.nn.Module:extend("Trap")
  for _, event in ipairs(OPERATORS) do
    if event ~= "__index" and event ~= "__newindex" and event ~= "__pairs" then
      class[event] = function(...)
        note(event, ...)
        if TRUTHS[event] then return true end
        return event == "__tostring" and "trap" or nil
      end
    end
  end
  return class()
end


local MAKERS <const> = {
  function() return set_trap({}, false) end,
  function() return set_trap({}, true) end,
  function() return set_trap({heed.zeros(2, 2), heed.zeros(2, 2)}, false) end,
  function() return set_trap(assert(io.tmpfile()), true) end,
  module,
}

local function traps()
  local list = {n = #MAKERS}
  for i, make in ipairs(MAKERS) do list[i] = make() end
  return list
end


local function try(name, f, ...)
  what = name
  return (pcall(f, ...))
end


local function assert_nothing_found()
  local list = {}
  for text in pairs(found) do list[#list + 1] = text end
  table.sort(list)
  assert.equal("", table.concat(list, "\n"))
end


describe("a script's metamethods are handed nothing of the library's", function()
  before_each(function() found = {} end)

  it("or it is noted", function()
    what = "a comparison"
    local trap, class = set_trap({}, false), debug.getmetatable(heed.nn.Linear(1, 1))
    assert.is_true(trap == class)
    assert.matches("^a comparison: __eq is handed heed", (next(found)))
  end)

  for name, part in pairs(calls.parts) do
    it("by functions and classes of " .. name, function()
      for key, f in pairs(part) do
        if not calls.SKIPPED[key] and calls.is_callable(f) then
          calls.oddly(name .. "." .. key, f, traps(), try)
          calls.options(name .. "." .. key, f, traps(), try)
        end
      end
      assert_nothing_found()
    end)
  end

  it("by methods of its objects", function()
    for name, make in pairs(calls.objects) do calls.of_object(name, make, traps(), try) end
    assert_nothing_found()
  end)

  it("by what examples call", function()
    substitute.run(function(name, f, arguments)
      for _, make in ipairs(MAKERS) do
        substitute.each_place(arguments, make(), function(changed, place)
          try(name .. ", " .. place, f, table.unpack(changed, 1, changed.n))
        end)
      end
    end)
    assert_nothing_found()
  end)
end)
