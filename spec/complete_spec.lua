-- Completion at the prompt: what may stand at a place of a line.

local complete = require "heed.prompt.complete"
local heed = require "heed"
local nn = heed.nn

local globals = {
  heed = heed, nn = nn, optim = heed.optim, plot = heed.plot, data = heed.data, mask = heed.mask,
  x = heed.ones(2), m = nn.Linear(2, 3), mha = nn.MultiHeadAttention(4, 2), string = string,
  tree = {left = {leaf = 1, lean = print}, right = 2, ["no name"] = 3, [1] = 4}, text = "abc",
  no = false, softest = 1,
}

local function at_end(line) return complete(globals, line, #line) end

local function has(list, name)
  for _, found in ipairs(list) do
    if found == name then return true end
  end
  return false
end

local function offers(line, ...)
  local list = at_end(line)
  for _, name in ipairs{...} do
    assert.is_true(has(list, name), name .. " behind " .. line .. ": " .. table.concat(list, " "))
  end
  return list
end


describe("completion", function()
  -- The first one, as later ones load all of heed.
  it("loads a part of heed that a line names", function()
    offers("heed.search.", "index", "load")
    offers("heed.position.", "rope")
  end)

  it("of a name has globals and words of Lua, sorted, whatever stands before it", function()
    assert.same({"softest"}, at_end "so")
    assert.same({"heed"}, at_end "print(1 + #t .. he")
    assert.same({"plot"}, at_end "local a <const> = {1, [2] = -pl")
    assert.same({"while"}, at_end "wh")
    assert.same({"m", "mask", "mha"}, at_end "return not m")
    offers("", "heed", "nn", "local", "x")
    assert.same({}, at_end "nothing_like_it")
  end)

  it("looks at what stands before the position alone", function()
    assert.same({"softmax"}, complete(globals, "heed.softm(x)", #"heed.softm"))
    assert.same({"mha"}, complete(globals, "mhax", 2))
  end)

  it("of options has those of a table, or an operation's arguments where it takes none", function()
    for line, wanted in pairs{
      ["x:sum{"] = "dim dtype keepdim", ["heed.sum{"] = "dim dtype keepdim",
      ["x:add{"] = "alpha other", ["x:view{"] = "size", ["x:to{"] = "target",
      ["x:backward{"] = "retain_graph", ["x:allclose{"] = "atol equal_nan rtol",
      ["m:query{"] = "rescore",
      ["heed.allclose(x, y, {"] = "atol equal_nan rtol", ["heed.load{"] = "device mapped verify",
    } do
      assert.equal(wanted, table.concat(at_end(line), " "))
    end
    for _, line in ipairs{"heed.manual_seed{", "heed.where{", "heed.isatty{", "x:query{",
                          "unknown:query{"} do
      offers(line, "heed", "nn")                        -- no options: any name
      assert.is_false(has(at_end(line), "seed") or has(at_end(line), "condition"))
    end
  end)

  it("looks for fields in a hundred classes, one behind the other, and no more", function()
    local t
    for i = 120, 0, -1 do
      t = setmetatable({["deep" .. i] = {leaf = i}}, t)
      t.__index = t
    end
    local list = complete({t = t}, "t.deep", #"t.deep")
    assert.equal(101, #list)
    assert.is_true(has(list, "deep100") and not has(list, "deep101"))
    assert.same({"leaf"}, complete({t = t}, "t.deep100.", #"t.deep100."))
    assert.same({}, complete({t = t}, "t.deep101.", #"t.deep101."))
  end)

  it("of heed has functions and parts that were not loaded, and fields of its parts", function()
    assert.same({"softmax"}, at_end "heed.softm")
    heed.capture, heed.generate, heed.save = nil, nil, nil
    offers("heed.t", "tokenizer", "tasks", "train", "tensor", "tril")
    offers("heed.", "nn", "cuda", "save", "load", "generate", "help", "capture")
    assert.same({"Linear"}, at_end "y = nn.Lin")
    assert.same({"Linear"}, at_end "heed.nn.Lin")
    assert.same({"AdamW"}, at_end "optim.AdamW")
    assert.same({"available"}, at_end "if heed.cuda.av")
    assert.same({"alibi"}, at_end "heed.bias.al")
  end)

  it("of a tensor has its methods, and fields behind a dot", function()
    offers("x:", "softmax", "add_", "sum", "backward", "reshape", "to")
    assert.same({"shape"}, at_end "print(x.sh")
    assert.is_false(has(at_end "x:", "shape"))
    assert.is_false(has(at_end "x:", "zeros"))
  end)

  it("of what a call gives has the methods of tensors", function()
    assert.same({"softmax"}, at_end "heed.randn(3):softm")
    assert.same({}, at_end "heed.randn(3):dty")
    assert.same({"softmax"}, at_end "x[1]:softm")
    assert.same({}, at_end "f(x).softm")
    assert.same({}, at_end "unknown.fie")
    assert.same({}, at_end "unknown:softm")
    assert.same({}, at_end "no.fie")
  end)

  it("of a layer has its fields and the methods of its classes", function()
    offers("m:", "parameters", "to", "state", "load_state", "forward")
    assert.is_false(has(at_end "m:", "weight"))
    offers("m.", "weight", "bias")
    offers("mha.", "query", "key")
    offers("mha.query.", "weight")
  end)

  it("of tables and texts has names that can stand there", function()
    assert.same({"left", "right"}, at_end "tree.")
    assert.same({"leaf", "lean"}, at_end "tree.left.le")
    assert.same({"lean"}, at_end "tree.left:")
    offers("string.", "format", "rep")
    assert.same({"upper"}, at_end "text:up")
    assert.same({}, at_end "text.up")
    assert.same({}, at_end "tree.right.")
  end)

  it("in the table of a call has its options", function()
    offers("heed.train{", "model", "loss", "steps", "validate")
    assert.same({"model"}, at_end "heed.train{mod")
    assert.same({"validate"}, at_end "heed.train{model = m, loss = function(a) return a end, val")
    assert.same({"model"}, at_end "heed.train{log = f[[a]]{}, mod")
    assert.same({"lr"}, at_end "optim.Adam(m:parameters(), {l")
    assert.same({"kv_heads"}, at_end "nn.MultiHeadAttention(4, 2, { kv")
    assert.same({"bias"}, at_end "nn.Linear(2, 3, {b")
    assert.same({"causal"}, at_end "y = mha(x, {cau")
    assert.same({"cells", "columns"}, at_end "plot.heat({{1, 2}}, {c")
    assert.same({"log"}, at_end "plot.hist(x, {bins = 3; lo")
    assert.same({"keepdim"}, at_end "x:sum(1, {k")
    assert.same({"keepdim"}, at_end "heed.randn(2):sum{k")
    offers("heed.generate(m, x, {temp", "temperature")
  end)

  it("in a table that is none of options, or behind a sign of equality, has names", function()
    assert.same({"mha"}, at_end "heed.train{model = mh")
    assert.same({"mha"}, at_end "t = {mh")
    assert.same({"mha"}, at_end "heed.train{model = {mh")
    assert.same({"mha"}, at_end "tree.left.lean{mh")
    assert.same({"softest"}, at_end "nn.Linear(so")
  end)

  it("is none within strings, comments and numbers, and goes on behind them", function()
    for _, line in ipairs{
      "print('he", 'print("a\\"he', "-- he", "x = 1 -- he", "t = [[he", "[==[ ]] he", "--[[ he",
      "x = 12", "1e",
    } do
      assert.same({}, at_end(line), line)
    end
    assert.same({"heed"}, at_end "print('a\\'b', \"c\", [[d]], [=[]]]=], he")
  end)

  it("runs nothing of a script", function()
    local ran
    local function run() ran = true return {field = 1} end
    local hostile = setmetatable({own = 1}, {
      __index = run, __newindex = run, __pairs = run, __len = run, __call = run, __eq = run,
      __name = run, __metatable = nil,
    })
    local child = setmetatable({}, {__index = hostile})
    local loop = {}
    setmetatable(loop, {__index = setmetatable({}, {__index = loop})})
    local scope = setmetatable({hostile = hostile, child = child, loop = loop,
                                protected = setmetatable({a = 1}, {__metatable = "no"})},
                               {__index = run})
    for line, wanted in pairs{
      ["hostile."] = {"own"}, ["hostile.o"] = {"own"}, ["hostile.other."] = {},
      ["child."] = {"own"}, ["hostile:"] = {},
      ["hostile{o"] = {"or"}, ["hostile(1, {fo"] = {"for"}, ["loop.x"] = {},
      ["protected."] = {"a"}, ["absent."] = {}, ["hostile.own."] = {},
      ["absent.hostile."] = {},
    } do
      assert.same(wanted, complete(scope, line, #line), line)
    end
    assert.is_nil(ran)
  end)
end)
