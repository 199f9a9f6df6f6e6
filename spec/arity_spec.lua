-- Functions refuse an argument beyond those that the reference documents, and say how many there
-- are: of all whose message is about that, and not about a missing argument.

local entries = require "heed.help.entries"
local heed = require "heed"

-- How many parameters are documented, and whether the last is a table of options; nil where there
-- may be any number.
local function documented(entry)
  local list = entry.params
  if not list then return nil end
  for _, param in ipairs(list) do
    if param.name == "..." then return nil end
  end
  local last = list[#list]
  return #list, last and (last.name == "options" or last.name == "given")
end

-- How many a message says that there are.
local function said(message)
  if message:find("no argument expected", 1, true) then return 0 end
  return tonumber(message:match("at most (%d+) argument"))
end


describe("a function of the reference", function()
  it("says how many arguments it takes, where it gets one more", function()
    local seen = 0
    for _, entry in ipairs(entries.all()) do
      local f, n, with_options = entries.value_at(entry.path), nil, nil
      if type(f) == "function" then n, with_options = documented(entry) end
      if n then
        local arguments = {[n + 1] = 99}
        local good, message = pcall(f, table.unpack(arguments, 1, n + 1))
        local most = not good and said(tostring(message))
        if most and not (with_options and most == n - 1) then
          assert.equal(n, most, entry.path)
          seen = seen + 1
        end
      end
    end
    assert.is_true(seen > 110, seen)
  end)

  it("names the argument that is too much", function()
    local words, ids = {"a"}, heed.tensor{1}
    for i, arguments in ipairs{{5}, {nil, 5}} do
      local good, message = pcall(heed.lookup, words, ids, table.unpack(arguments, 1, i))
      assert.is_false(good)
      assert.matches("lookup: at most 2 arguments expected, got 5 as argument " .. 2 + i, message)
    end
  end)

  it("names the list whose entries are arguments, where one of them is none", function()
    local x = heed.ones(2, 2)
    local function refuses(message, f, ...)
      local good, why = pcall(f, ...)
      assert.is_false(good)
      assert.matches(message, why, 1, true)
    end
    refuses("einsum: argument 'operands': a tensor expected, got the string 'b'", heed.einsum,
            "ij,jk->ik", x, "b")
    refuses("einsum: argument 'operands': a tensor expected, got nil", heed.einsum, "ij,jk->ik",
            nil, x)
    refuses("permute: argument 'dims': a whole number expected, got the string 'a'", x.permute, x,
            2, "a")
    refuses("flip: argument 'dims': a whole number expected, got nil", x.flip, x, 1, nil, 2)
    refuses("tile: at most 2 arguments expected, got 3", x.tile, x, {2}, 3)
  end)
end)
