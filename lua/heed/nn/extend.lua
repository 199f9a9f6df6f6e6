-- Classes of heed's own layers, whose methods refuse arguments that they do not take: how many they
-- take is said once, where the class is made.

local Module = require "heed.nn.module"
local options = require "heed.internal.options"

local no_more = options.no_more


-- By how many arguments a method takes: the method with a check. A layer's call should not cost a
-- list of its arguments, so that each number has a function of its own.
local checked = {
  [0] = function(f, who)
    return function(self, ...)
      if select("#", ...) > 0 then no_more(who, 0, ...) end
      return f(self)
    end
  end,
  function(f, who)
    return function(self, a, ...)
      if select("#", ...) > 0 then no_more(who, 1, ...) end
      return f(self, a)
    end
  end,
  function(f, who)
    return function(self, a, b, ...)
      if select("#", ...) > 0 then no_more(who, 2, ...) end
      return f(self, a, b)
    end
  end,
  function(f, who)
    return function(self, a, b, c, ...)
      if select("#", ...) > 0 then no_more(who, 3, ...) end
      return f(self, a, b, c)
    end
  end,
  function(f, who)
    return function(self, a, b, c, d, ...)
      if select("#", ...) > 0 then no_more(who, 4, ...) end
      return f(self, a, b, c, d)
    end
  end,
}


---Makes a class of a layer.
---@param who string as messages name it, such as "nn.Linear"; its last word is the class's name
---@param arity table<string, integer> how many arguments its methods take
---@param base? any the class that it extends: nn.Module unless given
---@return any class
return function(who, arity, base)
  local class = (base or Module):extend(who:match("[%w_]+$"))
  getmetatable(class).__newindex = function(_, name, f)
    rawset(class, name, arity[name] and checked[arity[name]](f, who) or f)
  end
  return class
end
