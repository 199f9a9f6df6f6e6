-- Functions refuse an argument beyond those that the reference documents, and say how many there
-- are: of all whose message is about that, and not about a missing argument.

local directories = require "spec.support.directories"
local entries = require "heed.help.entries"
local heed = require "heed"

local data, nn, optim = heed.data, heed.nn, heed.optim

-- Functions whose messages do not count the table of options.
local BESIDE_OPTIONS <const> = {tril_indices = true, triu_indices = true}

-- Functions of a module, and methods, that say first what is missing, or take any arguments.
local SILENT <const> = {
  ["bias.is"] = true, ["data.is_null"] = true, ["mask.is"] = true, ["nn.init.constant_"] = true,
  ["nn.init.eye_"] = true, ["nn.init.ones_"] = true, ["nn.init.zeros_"] = true,
  ["cache:pass"] = true, ["module:extend"] = true, ["staticmodel:hidden"] = true,
}

-- Methods of tensors that take lists, or say first what is wrong with an argument before; and those
-- that are written in Lua, which count no tensor that stands before the point.
local LISTS <const> = {
  allclose = true, attention = true, backward = true, div = true, movedim = true, roll = true,
  squeeze = true, take = true, where = true,
}
local IN_LUA <const> = {
  bincount = true, chunk = true, is_tensor = true, round = true, split = true, unbind = true,
  unique = true,
}

-- How many parameters are documented; nil where there may be any number.
local function documented(entry)
  local list = entry.params
  if not list then return nil end
  for _, param in ipairs(list) do
    if param.name == "..." then return nil end
  end
  return #list
end

-- How many a message says that there are.
local function said(message)
  if message:find("no argument expected", 1, true) then return 0 end
  return tonumber(message:match("at most (%d+) argument"))
end

-- How many a function says that there are, where it gets more than n behind others; or nil.
local function said_most(f, n, ...)
  local arguments, before = table.pack(...), select("#", ...)
  arguments[before + n + 1] = 99
  local good, message = pcall(f, table.unpack(arguments, 1, before + n + 1))
  return not good and said(tostring(message)) or nil
end


-- Objects whose methods are documented, by the names that they have there.
local function objects()
  local function model(name) return assert(heed.models.load(directories.HERE .. name)) end
  local layer, gpt2 = nn.Linear(2, 2), model "gpt2"
  local tok = heed.tokenizer.train{kind = "bpe", text = "a b a b", vocabulary = 260}
  return {
    batches = data.batches({1, 2}, {size = 1}), bias = heed.bias.alibi(2), cache = nn.Cache(),
    causalmodel = gpt2, dualmodel = model "clip", ema = optim.EMA(layer),
    encodermodel = model "roberta", handle = layer:register_forward_hook(print),
    index = heed.search.index{dim = 2}, list = nn.List{layer}, mask = heed.mask.causal(),
    model = gpt2, module = layer, optimizer = optim.SGD(layer:parameters()),
    plateau = optim.plateau{patience = 2}, plot = heed.plot.curve{1, 2}, scaler = optim.Scaler(),
    sequencemodel = model "bart", staticmodel = model "st/model2vec", stream = tok:stream(),
    tokenizer = tok, visionmodel = model "vit", vocabulary = data.chars "ab",
  }
end


describe("a function of the reference", function()
  it("says how many arguments it takes, where it gets one more", function()
    local seen = 0
    for _, entry in ipairs(entries.all()) do
      local f = entries.value_at(entry.path)
      local n = type(f) == "function" and documented(entry)
      if n then
        local most = said_most(f, n)
        local must = entry.path:find(".", 1, true) and not SILENT[entry.path]
        if most or must then
          assert.equal(BESIDE_OPTIONS[entry.path] and n - 1 or n, most, entry.path)
          seen = seen + 1
        end
      end
    end
    assert.is_true(seen > 110, seen)
  end)

  it("says so as a method of tensors, whose first argument is one", function()
    local x, seen = heed.ones(2, 2), 0
    for _, entry in ipairs(entries.all()) do
      local f, n = entries.value_at(entry.path), documented(entry)
      local _, method = pcall(function() return x[entry.path] end)
      if type(f) == "function" and type(method) == "function" and n and not LISTS[entry.path] then
        assert.equal(IN_LUA[entry.path] and n or n + 1, said_most(f, n, x), entry.path)
        seen = seen + 1
      end
    end
    assert.is_true(seen > 170, seen)
  end)

  it("says so where it takes no tensor", function()
    for name, n in pairs{
      autocast_dtype = 0, default_device = 1, is_grad_enabled = 0, isatty = 1, level = 1,
      manual_seed = 1, memory = 1, printoptions = 1, rng_state = 1, threads = 1,
    } do
      assert.equal(n, said_most(heed[name], n), name)
    end
  end)

  it("says so as a method, too", function()
    local by_name, seen = objects(), 0
    for _, entry in ipairs(entries.all()) do
      local variable, name = entry.path:match "^(%l+):([%w_]+)$"
      local self, n = by_name[variable], documented(entry)
      local most = self and n and said_most(self[name], n, self)
      if most or self and n and not SILENT[entry.path] then
        assert.equal(n, most, entry.path)
        seen = seen + 1
      end
    end
    assert.is_true(seen > 90, seen)
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
    refuses("zeros: argument 'size': a whole number expected, got nil", heed.zeros, 2, nil, 3)
    refuses("randn: argument 'size': a whole number expected, got nil", heed.randn, nil, nil, 3)
    assert.equal("int64", heed.zeros(2, nil, {dtype = "int64"}).dtype)
    refuses("tile: at most 2 arguments expected, got 3", x.tile, x, {2}, 3)
  end)
end)
