-- Hides the standard libraries that HEED_WITHOUT names from heed's Lua half. Lua loads this first
-- (LUA_INIT), also in processes that specs start; busted needs the libraries itself.

local hidden = {}
for name in (os.getenv("HEED_WITHOUT") or ""):gmatch("%w+") do hidden[name] = true end

local environment = setmetatable({}, {
  __index = function(_, name)
    if not hidden[name] then return _G[name] end
  end,
})

table.insert(package.searchers, 2, function(name)
  local path = name:find("^heed%f[.\0]") and package.searchpath(name, package.path)
  if path then return assert(loadfile(path, "t", environment)), path end
end)
