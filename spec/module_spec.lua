-- What a module finds in its fields and how it is drawn; names that nobody has.

local heed = require "heed"
local nn = require "heed.nn"


local function message(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok)
  return tostring(e)
end


local function model()
  return nn.Module:extend("Model")()
end


local function names(m)
  local list = {}
  for name in m:named_parameters() do list[#list + 1] = name end
  return list
end


local function bare(inputs, outputs)
  return nn.Linear(inputs or 1, outputs or 1, {bias = false})
end


describe("a module's fields", function()
  it("may be tables with names, visited in the order of the names", function()
    local m = model()
    m.heads = {out = bare(), deep = {nn.Parameter(heed.zeros(1))}, bare()}
    assert.same({"heads.1.weight", "heads.deep.1", "heads.out.weight"}, names(m))
    local other = model()
    other.heads = {bare(), deep = {nn.Parameter(heed.zeros(1))}, out = bare()}
    other:load_state(m:state())
    assert.is_true(m.heads.out.weight:equal(other.heads.out.weight))
    assert.matches("heads.deep.1", tostring(m), 1, true)
  end)

  it("may be lists with holes, and tables of other things", function()
    local m = model()
    m.list = {bare(), nil, bare()}
    m.words = {the = 1, cat = 2, [3.5] = "x"}
    assert.same({"list.1.weight", "list.3.weight"}, names(m))
  end)

  it("may be tables within themselves", function()
    local m, t = model(), {}
    t[1], t.layer = t, bare()
    m.t = t
    m.again = t
    assert.same({"t.layer.weight"}, names(m))
    assert.matches("layer", tostring(m))
    assert.equal(m, m:to("float64"))
  end)

  it("may not lead to one name in two ways", function()
    local m = heed.nn.Linear(2, 2)
    m.a = heed.nn.Linear(1, 1)
    m["a.weight"] = heed.nn.Parameter(heed.ones(1))
    assert.error_matches(function() m:state() end, "Linear: two tensors are called 'a.weight'")
  end)

  it("refuse a plain leaf that requires grad", function()
    local m = model()
    m.w = heed.zeros(2, {requires_grad = true})
    for _, f in ipairs{m.parameters, m.named_parameters, m.state} do
      assert.matches("module_spec.*Model: field 'w' is a leaf.*nn.Parameter%(t%)", message(f, m))
    end
    assert.matches("^Model", tostring(m))
    m.w = {list = {m.w}}
    assert.matches("field 'w.list.1'", message(m.parameters, m))
    m.w = heed.zeros(2, {requires_grad = true}) * 2            -- computed, for later use
    m.plain = heed.zeros(2)
    m.frozen = nn.Parameter(heed.zeros(2), {requires_grad = false})
    assert.same({"frozen"}, names(m))
  end)
end)


describe("a module as text", function()
  local function chain(depth)
    local m = model()
    for _ = 1, depth do
      local outer = model()
      outer.inner = m
      m = outer
    end
    return m
  end

  it("is as long as the module is deep, in no more than quadratic time", function()
    local function seconds(depth)
      local m, start = chain(depth), os.clock()
      assert.equal(depth + 1, select(2, tostring(m):gsub("[^\n]+", "")))
      return os.clock() - start
    end
    local short, long = seconds(100), seconds(800)
    assert.is_true(long < 250 * short + 0.1, long)     -- in cubic time 512 times as long
  end)

  it("shows what was released", function()
    local m = model()
    m.layer, m.w = nn.Linear(3, 2), nn.Parameter(heed.zeros(4))
    m.attend = nn.MultiHeadAttention(4, 2)
    m.layer.weight:release()
    m.attend.query.weight:release()
    m.w:release()
    local text = tostring(m)
    assert.matches("Linear%(%?%) +weight %[released%]  bias %(2%)", text)
    assert.matches("Parameter +%[released%]", text)
    assert.matches("MultiHeadAttention%(%?%)", text)
  end)

  it("lets other errors of describe pass", function()
    local m = model()
    getmetatable(m).describe = function() error("mine") end
    assert.matches("mine", message(tostring, m))
  end)
end)


describe("a layer", function()
  local ids = heed.arange(8):reshape(1, 8)

  it("says which type it wants", function()
    for _, layer in ipairs{nn.Linear(8, 2), nn.MLP(8, 4)} do
      assert.matches("module_spec.*nn.Linear: a float type expected as input, got int64; "
                     .. "x:to%('float32'%), or nn.Embedding", message(layer, ids))
    end
    assert.matches("a float type expected as input, got int64",
                   message(nn.MultiHeadAttention(8, 2), ids))
    assert.matches("nn.LayerNorm", message(nn.LayerNorm, {}))
    local double = nn.Linear(8, 2):to("float64")
    assert.matches("float64 expected as input, the type of its weight, got float32; "
                   .. "x:to%('float64'%) or model:to%('float32'%)", message(double, ids:float()))
    assert.matches("linear: argument 'input': a tensor expected", message(double, "x"))
  end)

  it("of attention says that a context is missing", function()
    local layer = nn.MultiHeadAttention(8, 2, {context_dim = 6})
    assert.matches("a context of 6 features expected, as in layer%(x, context%), got a tensor "
                   .. "of shape %(1, 4, 8%) alone", message(layer, heed.zeros(1, 4, 8)))
    assert.equal(8, layer(heed.zeros(1, 4, 8), heed.zeros(1, 3, 6)):size(3))
  end)
end)


describe("nn.Parameter", function()
  it("takes floats, and others where they are frozen", function()
    assert.matches("module_spec.*nn.Parameter: a float type expected, got int64; t:float%(%)",
                   message(nn.Parameter, heed.tensor{1, 2}))
    assert.matches("nn.Parameter: a tensor expected, got 3", message(nn.Parameter, 3))
    assert.is_false(nn.Parameter(heed.tensor{1}, {requires_grad = false}).requires_grad)
  end)
end)


describe("a name that there is not", function()
  it("is an error that suggests one", function()
    local function read(t, name) return function() return t[name] end end
    assert.matches("module_spec.lua:%d+: heed: there is no 'sofmax'; did you mean 'softmax'%?",
                   message(read(heed, "sofmax")))
    assert.matches("heed.nn: there is no 'Liner'; did you mean 'Linear'?",
                   message(read(nn, "Liner")), 1, true)
    assert.matches("'AdamW'", message(read(heed.optim, "AdamwW")))
    assert.matches("heed.plot: .* 'curve'", message(read(heed.plot, "curves")))
    assert.matches("heed.tasks: .* 'counting'", message(read(heed.tasks, "countin")))
    assert.matches("there is no 'quaternions'$", message(read(heed, "quaternions")))
    local path = package.path
    package.path = ""
    local why = message(read(heed, "position"))
    package.path = path
    assert.matches("heed: there is no 'position' here: the module heed.position is not inst", why)
  end)

  it("is nil where programs look for metamethods and fields of tensors", function()
    for _, name in ipairs{"__name", "__call", "_x", 1} do
      assert.is_nil(heed[name])
      assert.is_nil(nn[name])
    end
    assert.is_nil(heed[heed.zeros(1)])
    assert.is_nil(rawget(heed, "sofmax"))
    assert.equal("heed 0.1", heed._VERSION)
  end)
end)
