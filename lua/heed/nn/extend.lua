-- Classes of heed's own layers, whose methods refuse arguments that they do not take, and a `self`
-- that is no layer of the class: how many they take is said once, where the class is made.

local core = require "heed.core"
local heed = require "heed"
local kin = require "heed.nn.kin"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"

local called, fits = core.called, core.fits
local no_more = options.no_more


-- layer.forward(x), for layer:forward(x); or a layer of another class.
local function refuse_self(who, name, self)
  local class = Module.is(self) and " of this class" or ""
  heed.fail("%s: a layer%s expected as the first argument of %s, got %s; write layer:%s(...)", who,
            class, name, options.kind(self), name)
end


-- Refuses a self that is no layer of the class, and what stands behind the arguments; nil is
-- nothing.
local function refuse(who, name, most, serves, self, ...)
  if not fits(self, serves) then refuse_self(who, name, self) end
  no_more(who, most, ...)
end


-- By how many arguments a method takes: the method with a check. `serves` has the classes of its
-- layers as keys. A layer's call should not cost a list of its arguments, so that each number has a
-- function of its own.
local checked = {
  [0] = function(f, who, name, serves)
    return function(self, ...)
      if not fits(self, serves, ...) then refuse(who, name, 0, serves, self, ...) end
      return f(self)
    end
  end,
  function(f, who, name, serves)
    return function(self, a, ...)
      if not fits(self, serves, ...) then refuse(who, name, 1, serves, self, ...) end
      return f(self, a)
    end
  end,
  function(f, who, name, serves)
    return function(self, a, b, ...)
      if not fits(self, serves, ...) then refuse(who, name, 2, serves, self, ...) end
      return f(self, a, b)
    end
  end,
  function(f, who, name, serves)
    return function(self, a, b, c, ...)
      if not fits(self, serves, ...) then refuse(who, name, 3, serves, self, ...) end
      return f(self, a, b, c)
    end
  end,
  function(f, who, name, serves)
    return function(self, a, b, c, d, ...)
      if not fits(self, serves, ...) then refuse(who, name, 4, serves, self, ...) end
      return f(self, a, b, c, d)
    end
  end,
}


-- A method that counts its arguments by itself.
local function any_number(f, who, name, serves)
  return function(self, ...)
    if not fits(self, serves) then refuse_self(who, name, self) end
    return f(self, ...)
  end
end


-- A class's `init`: what fails for want of memory, say, is told as the layer's.
local function named(f, who)
  return function(...) called(who, f, ...) end
end


-- Unless the class says otherwise.
local ARITY <const> = {describe = 0, reset = 0}
local UNCOUNTED <const> = {append = true, forward = true, init = true}


---Makes a class of a layer.
---@param who string as messages name it, such as "nn.Linear"; its last word is the class's name
---@param arity table<string, integer> how many arguments its methods take
---@param base? any the class that it extends: nn.Module unless given
---@return any class
return function(who, arity, base)
  local class = (base or Module):extend(who:match("[%w_]+$"))
  local serves = kin.found(class, who)
  getmetatable(class).__newindex = function(_, name, f)
    local n = arity[name] or ARITY[name]
    local check = n and checked[n] or UNCOUNTED[name] and any_number
    if name == "init" then f = named(f, who) end
    f = check and check(f, who, name, serves) or f
    if name == "forward" then kin.adopt_forward(f) end
    rawset(class, name, f)
  end
  return class
end
