-- Classes of heed's own layers, whose methods refuse arguments that they do not take: how many they
-- take is said once, where the class is made.

local heed = require "heed"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"

local no_more = options.no_more


-- layer.forward(x), for layer:forward(x).
local function refuse_dot(who, name, self)
  heed.fail("%s: a layer expected as the first argument of %s, got %s; write layer:%s(...)", who,
            name, options.kind(self), name)
end


-- By how many arguments a method takes: the method with a check. A layer's call should not cost a
-- list of its arguments, so that each number has a function of its own.
local checked = {
  [0] = function(f, who, name)
    return function(self, ...)
      if type(self) ~= "table" then refuse_dot(who, name, self) end
      if select("#", ...) > 0 then no_more(who, 0, ...) end
      return f(self)
    end
  end,
  function(f, who, name)
    return function(self, a, ...)
      if type(self) ~= "table" then refuse_dot(who, name, self) end
      if select("#", ...) > 0 then no_more(who, 1, ...) end
      return f(self, a)
    end
  end,
  function(f, who, name)
    return function(self, a, b, ...)
      if type(self) ~= "table" then refuse_dot(who, name, self) end
      if select("#", ...) > 0 then no_more(who, 2, ...) end
      return f(self, a, b)
    end
  end,
  function(f, who, name)
    return function(self, a, b, c, ...)
      if type(self) ~= "table" then refuse_dot(who, name, self) end
      if select("#", ...) > 0 then no_more(who, 3, ...) end
      return f(self, a, b, c)
    end
  end,
  function(f, who, name)
    return function(self, a, b, c, d, ...)
      if type(self) ~= "table" then refuse_dot(who, name, self) end
      if select("#", ...) > 0 then no_more(who, 4, ...) end
      return f(self, a, b, c, d)
    end
  end,
}


-- A method that counts its arguments by itself.
local function any_number(f, who, name)
  return function(self, ...)
    if type(self) ~= "table" then refuse_dot(who, name, self) end
    return f(self, ...)
  end
end


-- Unless the class says otherwise.
local ARITY <const> = {describe = 0, reset = 0}
local UNCOUNTED <const> = {forward = true, init = true}


---Makes a class of a layer.
---@param who string as messages name it, such as "nn.Linear"; its last word is the class's name
---@param arity table<string, integer> how many arguments its methods take
---@param base? any the class that it extends: nn.Module unless given
---@return any class
return function(who, arity, base)
  local class = (base or Module):extend(who:match("[%w_]+$"))
  getmetatable(class).__newindex = function(_, name, f)
    local n = arity[name] or ARITY[name]
    local check = n and checked[n] or UNCOUNTED[name] and any_number
    rawset(class, name, check and check(f, who, name) or f)
  end
  return class
end
