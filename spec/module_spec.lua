-- The parameters that a module finds in its fields, and its picture; names that nobody has.

local heed = require "heed"
local nn = require "heed.nn"
local sealed = require "spec.support.sealed"


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
    assert.matches("MultiHeadAttention%(4, 2%)", text)
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
    assert.matches("heed.position: .* 'rope'", message(read(heed.position, "rpe")))
  end)

  it("is nil where programs look for metamethods and fields of tensors", function()
    for _, name in ipairs{"__name", "__call", "_x", 1} do
      assert.is_nil(heed[name])
      assert.is_nil(nn[name])
    end
    assert.is_nil(heed[heed.zeros(1)])
    if not sealed.here then assert.is_nil(rawget(heed, "sofmax")) end
    assert.equal("heed 0.1", heed._VERSION)
  end)
end)


describe("a module's own names", function()
  local function model_with_fields()
    local Base = nn.Module:extend("Base")
    function Base:scale() return 2 end
    local Model = Base:extend("Model")
    function Model:init()
      self.hidden, self.lazy, self.none = 3, false, nil
    end
    return Model()
  end

  it("are refused where they were never set, with the nearest one", function()
    local m = model_with_fields()
    local function read(name) return function() return m[name] end end
    assert.matches("module_spec.lua:%d+: Model: there is no 'hiden'; did you mean 'hidden'?",
                   message(function() local _ = m.hiden end))
    assert.matches("did you mean 'scale'", message(read("scal")), 1, true)
    assert.matches("did you mean 'parameters'", message(read("paramters")), 1, true)
    assert.matches("Linear: there is no 'weigth'; did you mean 'weight'",
                   message(function() local _ = nn.Linear(1, 1).weigth end), 1, true)
    assert.matches("Model: there is no 'quaternions'$", message(read("quaternions")))
  end)

  it("are silent where they were set once, be it to nil or false", function()
    local m = model_with_fields()
    assert.equal(3, m.hidden)
    assert.is_false(m.lazy)
    assert.is_nil(m.none)
    m.hidden = nil
    assert.is_nil(m.hidden)
    m.later = nil
    assert.is_nil(m.later)
    assert.is_nil(rawget(m, "never"))
    assert.is_nil(m._private)
    assert.is_nil(m[1])
    assert.equal(2, m:scale())
    assert.has_error(function() return model_with_fields().later end)
  end)

  it("of layers' optional parts are false where they are missing", function()
    assert.is_falsy(nn.Linear(1, 1, {bias = false}).bias)
    for _, norm in ipairs{nn.LayerNorm(2, {elementwise_affine = false}),
                          nn.RMSNorm(2, {elementwise_affine = false})} do
      assert.is_falsy(norm.weight)
      assert.is_falsy(norm.bias)
    end
    assert.is_falsy(nn.MultiHeadAttention(4, 2).query_norm)
  end)

  it("that PyTorch has say what to write", function()
    local m = nn.Linear(1, 1)
    assert.matches("Linear: there is no 'state_dict'; write m:state()",
                   message(function() return m:state_dict() end), 1, true)
    assert.matches("m:to(\"cuda\")", message(function() return m:cuda() end), 1, true)
  end)
end)


describe("names of PyTorch", function()
  local torch_words = require "heed.internal.torch_words"

  it("say what to write", function()
    local function read(t, name) return message(function() return t[name] end) end
    for _, case in ipairs{
      {heed, "scaled_dot_product_attention", "write heed.attention(q, k, v"},
      {heed, "functional", "write heed.relu(x) or x:relu()"},
      {heed, "float32", 'write "float32"'},
      {heed.cuda, "is_available", "heed.cuda: there is no 'is_available'; write heed.cuda.avail"},
      {heed.cuda, "sinchronize", "did you mean 'synchronize'"},
      {nn, "ModuleList", "write nn.List{a, b}, or a list in a field"},
      {nn, "CrossEntropyLoss", "write heed.cross_entropy(logits, targets)"},
      {nn, "TransformerEncoderLayer", "write nn.EncoderLayer(dim, heads"},
      {nn, "functional", "write heed.relu(x) or x:relu()"},
      {heed.optim, "lr_scheduler", "opt.lr"},
    } do
      assert.matches(case[3], read(case[1], case[2]), 1, true)
    end
  end)

  it("are none that there are, and what they suggest exists", function()
    local places = {heed = heed, nn = nn, optim = heed.optim, cuda = heed.cuda, data = heed.data,
                    module = nn.Linear(1, 1), tensor = heed.zeros(1),
                    optimizer = heed.optim.SGD{nn.Parameter(heed.zeros(1))}}
    for place, entries in pairs(torch_words) do
      for name, written in pairs(entries) do
        local good, value = pcall(function() return places[place][name] end)
        assert.is_true(not good or value == nil, place .. "." .. name)
        for within, part in written:gmatch("([%l.]+)%.([%a_]+)%(") do
          local found = within == "heed" and heed or within == "nn" and nn
                        or within == "heed.optim" and heed.optim
                        or within == "heed.cuda" and heed.cuda
          if found then assert.is_not_nil(found[part], written) end
        end
        for part in written:gmatch("%f[%w]x:([%a_]+)") do
          assert.is_not_nil(heed.zeros(1)[part], written)
        end
        for part in written:gmatch("%f[%w]m:([%a_]+)") do
          assert.is_not_nil(nn.Module[part], written)
        end
      end
    end
  end)
end)


describe("a state", function()
  it("whose tensors have changed places is loaded as it is", function()
    local m = nn.Sequential{nn.Linear(2, 2), nn.Linear(2, 2)}
    local first, second = m[1].weight:detach():clone(), m[2].weight:detach():clone()
    local state = m:state()
    state["1.weight"], state["2.weight"] = state["2.weight"], state["1.weight"]
    m:load_state(state)
    assert.equal(second:data(), m[1].weight:data())
    assert.equal(first:data(), m[2].weight:data())
  end)
end)


describe("a method called with a dot", function()
  local function blamed(f) return message(f):match("^[^\n]*module_spec.lua:%d+: (.*)$") end

  it("says what to write, at the caller's line", function()
    local m, opt = nn.Linear(1, 1), heed.optim.SGD{nn.Parameter(heed.zeros(1))}
    assert.equal("parameters: a module expected as the first argument, got nil; "
                 .. "write m:parameters()", blamed(function() m.parameters() end))
    assert.equal("to: a module expected as the first argument, got the string 'cpu'; "
                 .. "write m:to(...)", blamed(function() m.to("cpu") end))
    assert.matches("write m:train%(...%)$", blamed(function() m.train(false) end))
    assert.matches("got class Linear", blamed(function() nn.Linear:state() end))
    for name, class in pairs(nn) do
      local forward = type(class) == "table" and class.__is_module and rawget(class, "forward")
      if forward and name ~= "Sequential" and name ~= "Module" then
        assert.matches(name .. ": .*, got 5; write layer:forward%(", message(forward, 5))
      end
    end
    assert.matches("step: an optimizer expected .*; write opt:step%(%)$",
                   blamed(function() opt.step() end))
    assert.matches("write opt:load_state%(...%)$", blamed(function() opt.load_state({}) end))
  end)
end)


describe("a parameter", function()
  it("is not replaced by a plain tensor, which would be neither trained nor saved", function()
    local own = nn.Sequential{nn.Linear(2, 2)}
    own[1].weight = own[1].weight * 2
    for _, method in ipairs{"parameters", "state"} do
      local good, why = pcall(own[method], own)
      assert.is_false(good)
      assert.matches("Linear: field '1.weight' was a parameter and holds a plain tensor now", why)
    end
    own[1].weight = nn.Parameter(heed.zeros(2, 2))
    assert.equal(2, #own:parameters())
  end)
end)


-- The arguments that each layer is made with.
local makers = {
  Attention = {4, 2}, Classifier = {4, 2, {}}, Decoder = {4, 2, 1, {cross = false}},
  DecoderLayer = {4, 2, 8, {cross = false}}, Dropout = {0.5}, ELU = {1.0}, Embedding = {3, 4, {}},
  Encoder = {4, 2, 1, {}}, EncoderLayer = {4, 2, 8, {}}, GELU = {"tanh"},
  GatedMLP = {4, 4, {}}, Hardtanh = {-1, 1}, Identity = {}, LayerNorm = {4, {}},
  LeakyReLU = {0.1}, Linear = {4, 4, {}}, List = {{nn.Linear(4, 4)}}, LogSigmoid = {},
  LogSoftmax = {-1}, MLP = {4, 4, {}}, Mish = {},
  MultiHeadAttention = {4, 2, {}}, Patches = {2, 4, {}}, Pool = {"mean", {}},
  RMSNorm = {4, {}}, ReLU = {}, Sequential = {{nn.Linear(4, 4)}}, SiLU = {}, Sigmoid = {},
  Softmax = {-1}, Softplus = {1, 20}, Tanh = {}, Transformer = {4, 2, {layers = 1}},
}


describe("every layer", function()
  local ids, image = heed.tensor{1}, heed.randn(1, 2, 2)

  -- One tensor of what a layer makes of an input in float64, whatever it takes.
  local function run_layer(name, m, input)
    return (m(input, name == "Transformer" and input or nil))
  end

  it("has gradients of its input and of all that it trains, and says its name", function()
    for name, layer in pairs(nn) do
      local is_class = type(layer) ~= "function" and name ~= "Module" and name ~= "init"
      if is_class and layer.__is_module and name ~= "List" then
        heed.manual_seed(4)
        local given = assert(makers[name], name .. " has no case")
        local m = layer(table.unpack(given)):clone():to("float64"):eval()
        local input = name == "Embedding" and ids or name == "Patches" and image
                      or heed.randn(1, 3, 4)
        if name ~= "Embedding" then input = input:to("float64"):requires_grad_() end
        local leaves = m:parameters()
        if name ~= "Embedding" then leaves[#leaves + 1] = input end
        assert.is_true(heed.gradcheck(function() return run_layer(name, m, input) end, leaves),
                       name)
        assert.matches(name, tostring(m), 1, true)
      end
    end
  end)
end)


describe("surplus arguments are refused", function()
  local function check(f, ...)
    local why = message(f, ...)
    local first, place = ..., select("#", ...)          -- of the 5, at the end
    local is_class = rawequal(first, nn.Module)        -- no table where the state is sealed
    if is_class or type(first) == "table" and first.__is_module then place = place - 1 end
    assert.matches(("expected, got 5 as argument %d%%f[%%s\0]"):format(place), why)
    return why
  end

  local x = heed.zeros(1, 4)
  local ids = heed.tensor{1}
  local inputs = {Embedding = ids, Patches = heed.zeros(1, 2, 2)}
  local takes_options = {
    Classifier = true, Decoder = true, DecoderLayer = true, Encoder = true, EncoderLayer = true,
    Pool = true,
  }

  local function check_call(name, m)
    local input = inputs[name] or x
    local second = name == "Transformer" and x or nil
    if name == "List" then return assert.matches("it is not called", message(m, input)) end
    assert.is_true(heed.is_tensor((m(input, second))))
    if name:find("Attention") or second then
      check(m, x, x, {}, 5)
    elseif takes_options[name] then
      assert.matches("at most 2 arguments expected, got 5", message(m, x, {}, 5))
    elseif name ~= "Sequential" then
      assert.matches(name .. ": at most 1 argument expected", check(m, input, 5))
      assert.matches("got 5 as argument 3", message(m, input, nil, 5))
      assert.matches("got a table as argument 2", message(m, input, {nonsense = 1}))
    else
      assert.matches("nn.Linear: at most 1 argument", check(m, input, 5))
    end
  end

  it("by every layer and by every constructor", function()
    for name, layer in pairs(nn) do
      local is_class = type(layer) ~= "function" and name ~= "Module" and name ~= "init"
      if is_class and layer.__is_module then
        local given = assert(makers[name], name .. " has no case")
        local m = layer(table.unpack(given))
        local more = table.move(given, 1, #given, 1, {})
        more[#more + 1] = 5
        assert.matches(name, check(layer, table.unpack(more)))
        check_call(name, m)
        for _, method in ipairs{"reset", "describe"} do
          local f = type(layer) == "table" and rawget(layer, method)    -- where nothing is sealed
          if f then assert.matches(name .. ": no argument", check(f, m, 5)) end
        end
      end
    end
  end)

  it("and a dot in the place of a colon, by every layer", function()
    local own = {List = true, Sequential = true}       -- made as users' classes are
    for name in pairs(makers) do
      for _, method in ipairs{"init", "forward", "reset", "describe"} do
        local f = rawget(nn[name], method)
        if f and not own[name] then
          assert.matches(("nn.%%l*%s: a layer expected as the first argument of %s, got 5; write "
                          .. "layer:%s%%(...%%)"):format("[%w]+", method, method), message(f, 5))
        end
      end
    end
  end)

  it("by every method of a module", function()
    local m = nn.Linear(1, 1)
    local none = {"parameters", "named_parameters", "named_modules", "children", "eval",
                  "zero_grad", "state", "fields", "weights_callback", "modules", "numel", "clone"}
    for _, name in ipairs(none) do
      assert.matches(name .. ": no argument expected", check(m[name], m, 5))
    end
    check(m.train, m, true, 5)
    check(m.apply, m, print, 5)
    check(m.compare, m, {}, 5)
    check(m.on_weights, m, nil, 5)
    check(m.freeze, m, true, 5)
    check(m.load_state, m, m:state(), {}, 5)
    check(nn.Module.extend, nn.Module, "M", 5)
    assert.matches("M: no argument expected", check(nn.Module:extend("M"), 5))
    check(nn.Parameter, x, {}, 5)
    check(nn.Buffer, x, 5)
    assert.matches("to: .* expected, got nil", message(m.to, m, "cpu", nil, "float64"))
    assert.matches("to: .* expected, got 'q4_0'; m:quantize 'q4_0'", message(m.to, m, "q4_0"))
    assert.matches("by name expected, got Linear", message(m.load_state, m, m))
    assert.equal(m, m:train(nil))
  end)

  it("by a Sequential: options of a call go to its first child", function()
    local attend = nn.MultiHeadAttention(4, 2)
    local y = heed.randn(1, 3, 4)
    local seq = nn.Sequential{attend, nn.Dropout(0)}
    assert.is_true(seq(y, {causal = true}):equal(attend(y, {causal = true})))
    assert.is_false(seq(y, {causal = true}):equal(attend(y)))
    assert.matches("unknown option 'casual'", message(seq, y, {casual = true}))
    assert.matches("nn.Sequential: at most 1 argument expected, got 5 as argument 2",
                   message(nn.Sequential{}, y, 5))
    assert.matches("nn.Sequential: a list expected, got one with the string 'dropout' as a key",
                   message(nn.Sequential, {attend, dropout = 0.1}))
  end)
end)


describe("a layer's class", function()
  it("takes no tensor, and says what to write", function()
    local x = heed.zeros(2)
    assert.matches("module_spec.lua:%d+: nn.ReLU: .*heed.relu%(x%), or nn.ReLU%(%)%(x%)$",
                   message(function() nn.ReLU(x) end))
    assert.matches("heed.softmax%(x, ...%), or nn.Softmax%(...%)%(x%)$", message(nn.Softmax, x))
    assert.matches("heed.dropout%(x, ...%), or nn.Dropout%(...%)%(x%)$", message(nn.Dropout, x))
    for _, name in ipairs{"Linear", "Embedding", "LayerNorm", "RMSNorm", "Sequential", "MLP",
                          "Attention", "MultiHeadAttention"} do
      assert.matches("nn." .. name .. ": .*, got a tensor of shape %(2%)", message(nn[name], x))
    end
  end)

  it("refuses at once what its function will not take", function()
    assert.matches("nn.LeakyReLU: .*string 'a'", message(nn.LeakyReLU, "a"))
    assert.matches("nn.GELU: .*none|tanh expected, got 'fast'", message(nn.GELU, "fast"))
    assert.matches("nn.Softmax: .*'dmi'", message(nn.Softmax, {dmi = 1}))
    assert.matches("nn.Softmax: .*from 1", message(nn.Softmax, 0))
    assert.equal("Softmax(2)", tostring(nn.Softmax(2)))
  end)

  it("refuses false where a size is left out", function()
    assert.matches("as key_dim, got false", message(nn.Attention, 4, false))
    assert.matches("as kv_heads, got false",
                   message(nn.MultiHeadAttention, 4, 2, {kv_heads = false}))
    assert.matches("as out_dim, got false", message(nn.MLP, 4, 4, {out_dim = false}))
  end)

  it("of a norm refuses an epsilon below 0", function()
    for _, eps in ipairs{-1, 0 / 0, math.huge} do
      for _, name in ipairs{"LayerNorm", "RMSNorm"} do
        assert.matches("nn." .. name .. ": a finite number of at least 0 expected as eps, got ",
                       message(nn[name], 4, {eps = eps}))
      end
      assert.matches("layer_norm: argument 'eps'",
                     message(heed.layer_norm, heed.zeros(2), {2}, {eps = eps}))
      assert.matches("rms_norm: argument 'eps'",
                     message(heed.rms_norm, heed.zeros(2), {2}, {eps = eps}))
    end
    assert.matches("as eps, got true", message(nn.RMSNorm, 4, {eps = true}))
  end)

  it("names the option that it does not have, at the caller's line", function()
    assert.matches("^[^\n]*module_spec.lua:%d+: nn.Embedding: unknown option 'padding_idx'",
                   message(function() nn.Embedding(4, 2, {padding_idx = 1}) end))
  end)

  it("of training modes takes true or false", function()
    for _, value in ipairs{"false", 0, {}} do
      assert.matches("train: true or false expected, got ", message(function()
        nn.Dropout():train(value)
      end))
    end
  end)
end)


describe("a state that fits in part", function()
  local function two(fields)
    local m = model()
    for i, name in ipairs(fields) do m[name] = nn.Linear(i, 2, {bias = false}) end
    return m
  end

  it("is loaded with strict = false, which tells what was missing and unexpected", function()
    local a, b = two{"one", "two"}, two{"one", "three"}
    local missing, unexpected = a:load_state(b:state(), {strict = false})
    assert.same({"two.weight"}, missing)
    assert.same({"three.weight"}, unexpected)
    assert.is_true(a.one.weight:equal(b.one.weight))
    assert.equal(a, a:load_state(a:state(), {strict = true}))
    assert.same({{}, {}}, {a:load_state(a:state(), {strict = false})})
  end)

  it("is refused where shapes differ, also then", function()
    local a = two{"one", "two"}
    local before = a.two.weight:clone()
    local state = two{"one", "two"}:state()
    state["one.weight"] = heed.zeros(5)
    assert.matches("one.weight: float32 %(2, 1%) expected, got float32 %(5%)",
                   message(a.load_state, a, state, {strict = false}))
    assert.is_true(before:equal(a.two.weight))
    assert.matches("load_state: unknown option 'strikt'; did you mean 'strict'?",
                   message(a.load_state, a, state, {strikt = 1}))
  end)

  it("says so where the same shapes stand there under other names or in another order", function()
    local a, b = two{"one", "two"}, two{"eins", "zwei"}
    assert.matches("the same shapes .* other names", message(a.load_state, a, b:state()))
    local swapped = a:state()
    swapped["one.weight"], swapped["two.weight"] = swapped["two.weight"], swapped["one.weight"]
    assert.matches("the same shapes .* another order", message(a.load_state, a, swapped))
    swapped["two.weight"] = heed.zeros(7)
    assert.is_nil(message(a.load_state, a, swapped):find("the same shapes"))
  end)
end)


it("apply calls a function once for each module, also where one is within itself", function()
  local a, b, seen = nn.Sequential{nn.ReLU()}, nn.Sequential{}, {}
  b.inner, a.next_one, b.own = a, b, b
  assert.equal(b, b:apply(function(m) seen[#seen + 1] = m end))
  assert.same({a[1], a, b}, seen)
end)
