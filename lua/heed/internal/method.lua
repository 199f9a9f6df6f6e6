-- How functions become methods of tensors. A method asks for its tensor first: x.sum(2), which was
-- meant as x:sum(2), would sum the number 2.

local core = require "heed.core"
local heed = require "heed.internal.surface"

local method = {}

local methods, is_tensor = core.methods, heed.is_tensor


---Adds a method that is no function of the module.
---@param name string
---@param f function
function method.only(name, f)
  methods[name] = function(x, ...)
    if not is_tensor(x) then core.refuse_dot(name, x, ...) end
    return f(x, ...)
  end
end


---Adds a function that is a method too.
---@param name string
---@param f function
function method.both(name, f)
  heed[name] = f
  method.only(name, f)
end


---Replaces a function, and the method of that name, by others that call them: `make` gets the
---one that there is, and the table where others like it stand. C's methods ask for their tensor.
---@param name string
---@param make fun(f: function, kin: table): function
function method.around(name, make)
  heed[name], methods[name] = make(heed[name], heed), make(methods[name], methods)
end


return method
